"""Exact max-influence on small components by variable elimination (theory B2)."""

import itertools
import math

import numpy as np

COMPONENT_LIMIT = 2**16  # joint values of a component that exact influences may enumerate
WORK_LIMIT = 2**20  # values times conditioning sets per quilt


def eliminate(factors, keep, n_values):
    """Return the product of factors over ``keep``, summed over all others and scaled to sum to one.

    Factors are pairs of a scope (tuple of variables) and a nonnegative table with one axis for
    each.
    """
    factors = list(factors)
    gone = {v for scope, _ in factors for v in scope} - set(keep)
    while gone:
        # Least joint scope first: the usual greedy order.
        joint = {v: set().union(*(scope for scope, _ in factors if v in scope)) for v in gone}
        variable = min(gone, key=lambda v: math.prod(n_values[u] for u in joint[v]))
        scope = tuple(sorted(joint[variable] - {variable}))
        touched = [f for f in factors if variable in f[0]]
        table = _product(touched, (*scope, variable), n_values).sum(axis=-1)
        factors = [f for f in factors if variable not in f[0]]
        factors.append((scope, table / table.max()))
        gone.discard(variable)
    table = _product(factors, tuple(keep), n_values)
    return table / table.sum()


def _product(factors, scope, n_values):
    position = {v: axis for axis, v in enumerate(scope)}
    table = np.ones([n_values[v] for v in scope])
    for variables, values in factors:
        order = np.argsort([position[v] for v in variables])
        shape = [1] * len(scope)
        for v in variables:
            shape[position[v]] = n_values[v]
        table = table * np.transpose(values, order).reshape(shape)
    return table


def max_influence(table, n_inside):
    """Return the largest influence of the first axis on the last ones, by number conditioned.

    ``table`` is the joint distribution of the record, then ``n_inside = |N|`` records inside the
    quilt, then the quilt. Entry ``l`` is
    ``max over |L| = l of ln max P[x_Q | x_i, x_L] / P[x_Q | x_i', x_L]``.
    """
    result = np.zeros(n_inside + 1)
    inside = range(1, 1 + n_inside)
    for size in range(n_inside + 1):
        for known in itertools.combinations(inside, size):
            summed = table.sum(axis=tuple(a for a in inside if a not in known))
            values = summed.reshape(*summed.shape[: 1 + size], -1)
            mass = values.sum(axis=-1, keepdims=True)
            with np.errstate(divide="ignore", invalid="ignore"):
                distribution = values / mass
                high = np.max(np.where(mass > 0, distribution, -math.inf), axis=0)
                low = np.min(np.where(mass > 0, distribution, math.inf), axis=0)
                ratio = np.where((high > 0) & (low < math.inf), np.log(high / low), 0.0)
            result[size] = max(result[size], float(np.nanmax(ratio)))
    return result


def quilt_sets(neighbours, node):
    """Return the quilts ``(N, Q)`` of a node worth trying: spheres and minimal separators.

    ``neighbours`` maps each record of the component to a set. What ``Q`` cuts off is in neither.
    """
    ball, sphere, quilts = {node}, set(neighbours[node]), {}
    while sphere:
        quilts[frozenset(sphere)] = None
        ball = ball | sphere
        outside = set(neighbours) - ball
        for part in _parts(neighbours, outside):
            # The neighbours of a part separate it from i and contain no superfluous record.
            quilts[frozenset(u for v in part for u in neighbours[v] if u in ball)] = None
        sphere = {u for v in sphere for u in neighbours[v]} - ball
    result = []
    for quilt in quilts:
        inside = next(p for p in _parts(neighbours, set(neighbours) - quilt) if node in p)
        result.append((sorted(inside - {node}), sorted(quilt)))
    return result


def _parts(neighbours, nodes):
    left, parts = set(nodes), []
    while left:
        part, stack = set(), [left.pop()]
        while stack:
            v = stack.pop()
            part.add(v)
            fresh = neighbours[v] & left
            left -= fresh
            stack.extend(fresh)
        parts.append(part)
    return parts


def component_quilts(neighbours, factors, n_values):
    """Return for each record of a small component the exact influences of all its quilts.

    One array for each quilt: influences by ``|L|``, of length ``|N| + 1``.
    """
    result = {}
    for node in neighbours:
        result[node] = []
        for inside, quilt in quilt_sets(neighbours, node):
            keep = [node, *inside, *quilt]
            cells = math.prod(n_values[v] for v in keep)
            if cells * 2 ** len(inside) <= WORK_LIMIT:
                table = eliminate(factors, keep, n_values)
                result[node].append(max_influence(table, len(inside)))
    return result


def quilt_level(quilts, size, dp_epsilon, *, printed):
    """Return the BDP level of one record from the influences by ``|L|`` of its quilts.

    ``size`` is that of the component (the empty quilt). ``printed``: Lemma 2 of Zhao (2017) with
    factor 4, otherwise the sharper form of theory B2.
    """
    level = size * dp_epsilon
    for influences in quilts:
        inside = len(influences) - 1
        if printed:
            cost = (inside + 1) * dp_epsilon + 4.0 * influences.max()
        else:
            # max over L of (|N \ L| + 1) e' + 2 b_L
            unknown = inside - np.arange(inside + 1) + 1
            cost = float((unknown * dp_epsilon + 2.0 * influences).max())
        level = min(level, cost)
    return level
