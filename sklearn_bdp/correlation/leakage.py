"""Levels of Bayesian differential privacy that a DP level implies for correlated records.

Loaded by ``bdp_epsilon``, ``dp_epsilon`` and code that needs them (a numeric ``epsilon``, the
certificate's line on privacy). Code that computes intervals never imports this module.

First one bound for each kind of model: components (theory B0, B1), lists of models, networks
(messages on forests B6, B7; walks on any graph B8). Then how leakage passes through a kernel (the
update of Cao et al., Birkhoff's contraction), the sides of a record on a chain (bridges to known
records, quilts, Zhao's lemmas; B2-B7), and the bound of a chain.
"""

from __future__ import annotations

import math
from functools import singledispatch
from typing import NoReturn

import numpy as np
from scipy import sparse
from scipy.spatial.distance import cdist

from sklearn_bdp.correlation.base import CorrelationModel
from sklearn_bdp.correlation.chain import MarkovChain, block_variance_proxy, is_reversible
from sklearn_bdp.correlation.components import component_sizes, largest_component
from sklearn_bdp.correlation.declaration import WorstOf
from sklearn_bdp.correlation.frozen import cached
from sklearn_bdp.correlation.levels import posterior_bias, sequential_information
from sklearn_bdp.correlation.network import NetworkModel
from sklearn_bdp.correlation.time_order import TimeOrdered
from sklearn_bdp.utils.root_finding import doubled, last_accepted, safe_inverse

# Fixed points are approached from below; stop when a step moves less than this, relatively,
# and add the geometric rest of the sequence, so that the answer is never too small.
FIXED_POINT_TOLERANCE = 1e-13
# Work limit: state counts above this leave the bridges to Birkhoff's contraction and quilts.
MOST_STATES = 24
NOISE = 1e-14  # rounding errors of powers never fall below this
# Two-sided quilts are tabulated by distance pairs and pairs of values; beyond this many numbers
# the larger of the two sides' influences is taken for every pair of values (a valid bound).
TABLE_LIMIT = 5e7


class LeakageBound:
    """Leakage of one model's records, which may follow each other inside components (theory B1).

    DP levels are positive, arguments are checked. The methods mean the same as those of
    :class:`CorrelationModel` with the same name.
    """

    def __init__(self, model):
        self.model = model

    def check_method(self, n, method):
        """Raise ValueError when ``method`` does not apply."""
        if method == "spectral":
            raise ValueError(
                f"method='spectral' needs a MarkovChain, got {self.model!r}: use method='tight'."
            )
        if method == "blanket" and largest_component(self.model, n) > 1:
            raise ValueError(
                "method='blanket' needs the strength of the dependence (MarkovNetwork or "
                f"BayesianNetwork), which {self.model!r} does not know. Use method='tight'."
            )

    def leakage(self, dp_epsilon, n, method):
        """Return the BDP level that follows from a positive DP level."""
        # Theory B1 (B2 with the empty quilt): the whole component may follow the record.
        return largest_component(self.model, n) * dp_epsilon

    def inverse(self, bdp_epsilon, n, method):
        """Return a DP level that suffices, or 0."""
        return safe_inverse(lambda x: self.model.bdp_epsilon(x, n, method=method), bdp_epsilon)

    def sequential_information(self, dp_epsilon, n):
        """Return ``K`` of theory G1."""
        # Smaller blocks only add terms, since a part may still decide the rest.
        sizes, counts = component_sizes(self.model, n)
        return float(np.sum(counts * sizes.astype(float) ** 2)) * dp_epsilon**2 / 8.0

    def posterior_bias(self, dp_epsilon, n):
        """Return ``r`` of theory G6."""
        sizes, counts = component_sizes(self.model, n)
        return float(np.sum(counts * sizes * np.tanh(sizes * dp_epsilon / 4.0)) / n)


@singledispatch
def leakage_bound(model: CorrelationModel) -> LeakageBound:
    """Return the bounds on leakage of a correlation model.

    Parameters
    ----------
    model : CorrelationModel
        Any model.

    Returns
    -------
    LeakageBound
        Its bounds on leakage.
    """
    return LeakageBound(model)


@leakage_bound.register(WorstOf)
class WorstLeakageBound(LeakageBound):
    """A list of models: the worst of them (Song, Wang, Chaudhuri 2017: the class Theta)."""

    def check_method(self, n, method):
        for model in self.model.models:
            leakage_bound(model).check_method(n, method)

    def leakage(self, dp_epsilon, n, method):
        return max(m.bdp_epsilon(dp_epsilon, n, method=method) for m in self.model.models)

    def sequential_information(self, dp_epsilon, n):
        return max(sequential_information(m, dp_epsilon, n) for m in self.model.models)

    def posterior_bias(self, dp_epsilon, n):
        return max(posterior_bias(m, dp_epsilon, n) for m in self.model.models)

    def inverse(self, bdp_epsilon, n, method):
        return min(m.dp_epsilon(bdp_epsilon, n, method=method) for m in self.model.models)


@leakage_bound.register
def _no_leakage_bound(model: TimeOrdered) -> NoReturn:
    """Raise: undeclared dependence bounds no leakage."""
    raise ValueError(
        "no level of privacy can be stated under correlation='time'. Declare a chain: a "
        "transition matrix, MarkovChain.from_scores or MarkovChain.from_autocorrelation_time."
    )


@leakage_bound.register(NetworkModel)
class NetworkLeakageBound(LeakageBound):
    """Forests by messages along edges (B6, B7), any component by walks (B8) or its size (B1)."""

    def __init__(self, model):
        super().__init__(model)
        self.sizes = model._component_sizes[model.components_].astype(float)

    def messages(self, dp_epsilon):
        """Return the messages of the records in trees (theory B6)."""
        _, parent, diameters = self.model._rooted()
        return cached(
            self.model,
            ("messages", dp_epsilon),
            lambda: birkhoff_messages(parent.tolist(), diameters, dp_epsilon),
        )

    def factor(self):
        """Return the factor by which the DP level grows at each record, by walks (theory B8)."""
        model = self.model
        return cached(model, "factor", lambda: reach_factor(model.adjacency_, model._reach()))

    def record_levels(self, dp_epsilon):
        """Return a BDP level for every record: the best of B1, B6 and B8."""
        level = np.minimum(self.sizes, self.factor()) * dp_epsilon
        trees = self.model._rooted()[0]
        level[trees] = np.minimum(level[trees], dp_epsilon + self.messages(dp_epsilon)[2])
        return level

    def _blanket(self, dp_epsilon):
        # Theory B3: the influence on the neighbors is at most the sum of the diameters.
        return dp_epsilon + 4.0 * self.model.adjacency_.sum(axis=1)

    def check_method(self, n, method):
        if method != "blanket":
            super().check_method(n, method)
        elif math.isinf(self._blanket(0.0).max()):
            raise ValueError(
                "method='blanket' needs positive probabilities: use method='quilt' or 'tight'."
            )

    def leakage(self, dp_epsilon, n, method):
        if method == "tight":
            return float(self.record_levels(dp_epsilon).max())
        level = self._blanket(dp_epsilon)
        if method == "quilt":  # Zhao 2017, Lemma 2: of the blanket and the empty quilt
            level = np.minimum(level, self.sizes * dp_epsilon)
        return float(level.max())

    def upward(self, dp_epsilon):
        """Return each node's message to its parent, nothing below known (B7), and sums of them."""
        upward, below, _ = self.messages(dp_epsilon)
        if not self.model._factors:
            return upward, below
        kernels, parent = self.model._kernels(), self.model._rooted()[1].tolist()
        upward, below, cache = [0.0] * len(parent), [0.0] * len(parent), {}
        for v in range(len(parent) - 1, -1, -1):
            if parent[v] >= 0:
                key = (id(kernels[v]), below[v])
                if key not in cache:
                    cache[key] = kernel_leakage(kernels[v], dp_epsilon + below[v])
                upward[v] = cache[key]
                below[parent[v]] += upward[v]
        return upward, np.array(below)

    def sequential_information(self, dp_epsilon, n):
        levels = self.record_levels(dp_epsilon)
        cost = np.bincount(self.model.components_, weights=levels**2)
        cost = np.minimum(cost, (self.model._component_sizes * dp_epsilon) ** 2)
        if self.model._is_tree.any():
            cost = np.minimum(cost, self.model._blocks(dp_epsilon, self.upward(dp_epsilon)[0]))
        return float(cost.sum() / 8.0)  # theory G1

    def posterior_bias(self, dp_epsilon, n):
        return float(np.tanh(self.record_levels(dp_epsilon) / 4.0).mean())  # theory G6


def birkhoff_messages(parent, diameters, dp_epsilon):
    """Return messages ``(upward, below, total)`` on a rooted forest (theory B6).

    ``upward`` goes from each node to its parent, ``below`` sums the messages from the children,
    ``total`` those from all neighbors. ``diameters`` are those of the edges to the parents.
    """
    n = len(parent)
    gain = (-np.expm1(-diameters / 2)).tolist()
    small = np.exp(-diameters / 2).tolist()
    log1p = math.log1p
    expm1 = math.expm1
    below = [0.0] * n
    upward = [0.0] * n
    above = [0.0] * n

    def passed(v, weight):  # along the edge of v
        x = expm1(-weight / 2)
        denominator = small[v] + 1.0 + x
        message = 2.0 * log1p(-gain[v] * x / denominator) if denominator > 1e-15 else weight
        return message if message < weight else weight

    # 4 artanh(tanh(D/4) tanh(w/4)) = 2 ln(1 + (1-a)(1-b)/(a+b)), a = e^{-D/2}, b = e^{-w/2}
    for v in range(len(parent) - 1, -1, -1):
        p = parent[v]
        if p >= 0:
            upward[v] = passed(v, dp_epsilon + below[v])
            below[p] += upward[v]
    for v in range(n):
        p = parent[v]
        if p >= 0:
            above[v] = passed(v, dp_epsilon + below[p] + above[p] - upward[v])
    below = np.array(below)
    # The subtraction above may round the wrong way; a part in 10^12 covers a million children.
    return upward, below, (below + np.array(above)) * (1.0 + 1e-12)


def reach_factor(matrix, reach):
    """Return factors ``f_i >= 1`` with BDP level at most ``f_i * dp_epsilon`` for record ``i``.

    Infinite if the route does not apply; ``reach`` comes from :func:`dobrushin_reach`.

    Let ``delta_k`` be the largest log-ratio of the mechanism's density when record ``k`` alone
    changes: ``dp_epsilon`` for every record. Replacing the density by its average over a fresh
    draw of record ``j`` given all others keeps its conditional expectation given the records an
    adversary knows, sets ``delta_j = 0`` and adds at most
    ``4 artanh(tanh(diameter_jk / 4) tanh(delta_j / 4)) <= tanh(diameter_jk / 4) delta_j`` to
    the neighbors ``k`` (Birkhoff). Repeating this everywhere but at record ``i`` carries all
    of ``delta`` to ``i`` or out of the system, so the leakage is at most ``dp_epsilon`` times
    the weight of all walks that end at ``i`` and visit it once,
    ``[(I-C)^{-1} 1]_i / [(I-C)^{-1}]_{ii}``; the denominator is at least
    ``1 + sum_k C_ik^2``. Known records only remove walks.
    """
    squares = sparse.csr_array(
        (np.tanh(matrix.data / 4.0) ** 2, matrix.indices, matrix.indptr), shape=matrix.shape
    ).sum(axis=1)
    return np.maximum(reach / (1.0 + squares), 1.0)


def kernel_leakage(kernel, leakage_beyond):
    """Return ``L_P(w)``, in nats: leakage about a record through a neighbor and all beyond it.

    ``leakage_beyond`` is ``w``: the leakage about the neighbor from itself and everything beyond.

    ``max_{u,v,A} ln[(1 + P(u,A)(e^w - 1)) / (1 + P(v,A)(e^w - 1))]``, where row ``u`` of ``kernel``
    is the distribution of the neighbor given value ``u``; zeros are allowed.

    For a ratio ``r`` the best set of a pair is ``{y : P(u,y) > r P(v,y)}`` and
    ``sum_y max(P(u,y) - r P(v,y), 0)`` is half of a city-block distance, up to a constant that all
    pairs share. So all pairs are tried at once, and Dinkelbach's iteration needs few ratios.

    Cao, Yoshikawa, Xiao, Xiong 2017, Quantifying differential privacy under temporal
    correlations, Algorithm 1 (a linear-fractional programme per pair of rows).
    """
    # Theory B7; Cao et al. 2017, (15)-(18).
    if not leakage_beyond > 0 or len(kernel) < 2:
        return 0.0
    if leakage_beyond > 600.0:  # e^w overflows; the update grows no faster than its argument
        return kernel_leakage(kernel, 600.0) + (leakage_beyond - 600.0)
    growth = math.expm1(leakage_beyond)
    excess = 0.0  # r - 1, kept apart so that small leakage keeps its relative precision
    for _ in range(100):
        distance = cdist(kernel, kernel * (1.0 + excess), "cityblock")
        u, v = np.unravel_index(np.argmax(distance), distance.shape)
        best_set = kernel[u] > (1.0 + excess) * kernel[v]
        gain = float((kernel[u, best_set] - kernel[v, best_set]).sum())
        next_excess = growth * gain / (1.0 + growth * float(kernel[v, best_set].sum()))
        if not next_excess > excess * (1.0 + 1e-14):
            break
        excess = next_excess
    return min(leakage_beyond, math.log1p(excess))


def contract(diameter, weight):
    """Return ``4 artanh(tanh(diameter/4) tanh(weight/4))`` elementwise (Birkhoff).

    The range of the log of an averaged function, at most either argument: ``weight`` is the range
    on the targets of a kernel of that projective diameter, in nats; either may be infinite.
    """
    # Birkhoff 1957: a positive kernel contracts Hilbert's metric by tanh(diameter / 4); the
    # product form is the sharp bound for a range `weight`. Theory B5, B6.
    small = np.minimum(diameter, weight)
    large = np.maximum(diameter, weight)
    # artanh(x) from 1 - x loses nothing when both factors are near one.
    a = np.exp(-small / 2)
    b = np.exp(-large / 2)
    # (1 + tt') / (1 - tt') with t = (1-a)/(1+a), t' = (1-b)/(1+b) equals (1 + ab) / (a + b).
    with np.errstate(divide="ignore", invalid="ignore"):
        result = 2.0 * np.log1p(np.expm1(-small / 2) * np.expm1(-large / 2) / (a + b))
    result = np.where(a + b > 0, result, small)
    result = np.minimum(result, small)
    return float(result) if np.ndim(result) == 0 else result


def two_state_leakage(kernel, weights):
    """Return the leakage of a two-state kernel, each direction by itself.

    ``weights`` are the largest ``ln g(0)/g(1)`` and ``ln g(1)/g(0)`` of a function of the
    neighbor; the result is the same for ``u -> sum_y kernel[u, y] g(y)``. The ratio is monotone in
    ``g(0)/g(1)``, so the two ends decide and the recursion is exact.
    """
    (p, _), (q, r) = kernel.tolist()
    ends = []
    for end in (float(weights[0]), -float(weights[1])):
        x = min(max(end, -600.0), 600.0)
        # (p t + 1-p) / (q t + 1-q) - 1 with t = e^x
        if x > 0:
            excess = -(p - q) * math.expm1(-x) / (q + r * math.exp(-x))
        else:
            excess = (p - q) * math.expm1(x) / (q * math.exp(x) + r)
        value = math.log1p(excess) if excess > -1.0 else -math.inf
        ends.append(value + math.copysign(abs(end) - abs(x), value))  # slope at most one
    return np.minimum([max(*ends, 0.0), max(-ends[0], -ends[1], 0.0)], np.max(weights))


def kernel_update(kernel):
    """Return the update ``weights -> leakage`` of a kernel, by direction if there are two."""
    if kernel.shape == (2, 2):
        return lambda weights: two_state_leakage(kernel, weights)
    return lambda weights: np.array([kernel_leakage(kernel, float(np.max(weights)))])


def iterate_leakage(update, dp_epsilon, steps, *, width=1, cap=None):
    """Return ``a_0 = 0, a_1 = update(dp_epsilon + a_0), …`` up to ``steps`` or convergence.

    ``update`` maps arrays of leakages, increasing, none above the largest of its arguments.
    ``width`` directions are kept apart: 2 for two-state kernels, else 1. After ``cap`` steps a
    bound closes the sequence; two-state updates are cheap and get more of them. Where fewer than
    ``steps + 1`` rows are returned, the last bounds all later ones.
    """
    cap = (200 if width == 1 else 20_000) if cap is None else cap
    sequence = [np.zeros(width)]
    while len(sequence) <= steps:
        new = update(dp_epsilon + sequence[-1])
        step = float(np.max(new - sequence[-1]))
        sequence.append(np.maximum(new, sequence[-1]))
        if len(sequence) > cap or not step > FIXED_POINT_TOLERANCE * float(np.max(new)):
            sequence.append(close_above(update, dp_epsilon, sequence[-1], max(step, 0.0), steps))
            break
    return np.array(sequence[: steps + 1])


def close_above(update, dp_epsilon, reached, step, steps):
    """Return a bound on all later terms of the recursion, given the term reached.

    Any ``b >= reached`` with ``update(dp_epsilon + b) <= b`` is one: the update is increasing,
    so no later term can jump over it. ``steps * dp_epsilon`` always is.
    """
    ceiling = steps * dp_epsilon
    if len(reached) > 1:  # one margin for both directions is loose far from the fixed point
        for _ in range(20_000):
            new = np.maximum(update(dp_epsilon + reached), reached)
            step, reached = float(np.max(new - reached)), new
            if not step > FIXED_POINT_TOLERANCE * float(np.max(new)):
                break
    margin = max(step, 4 * FIXED_POINT_TOLERANCE * float(np.max(reached)), 1e-300)

    def closed(margin):
        return np.all(update(dp_epsilon + reached + margin) <= reached + margin)

    bracket = doubled(closed, margin, largest=np.nextafter(ceiling - np.max(reached), 0.0))
    if bracket is None:
        return np.maximum(reached, ceiling)
    tolerance = 1e-9 * float(np.max(reached + bracket[0]))
    return reached + last_accepted(closed, *bracket, steps=40, tolerance=tolerance)


def contracted_sides(diameter, dp_epsilon, steps, *, exact=256):
    """Return the leakage added by a side of 0 to ``steps`` records, each known or not (theory B5).

    Rows do not decrease. The first ``exact`` steps are followed one by one, the fixed point bounds
    the rest: if fewer than ``steps + 1`` rows are returned, the last bounds all later ones.
    """
    sides = [0.0]
    for _ in range(min(steps, exact)):
        sides.append(contract(diameter, dp_epsilon + sides[-1]))
    if steps > exact:
        # z = e^{a/2} - 1 solves s z^2 + (2s - q) z = (1 - s) q, s = e^{-diameter/2},
        # q = 1 - e^{-dp_epsilon/2}; the form of the root avoids cancellation.
        s, q = math.exp(-diameter / 2.0), -math.expm1(-dp_epsilon / 2.0)
        b, fixed = 2.0 * s - q, math.inf
        root = math.sqrt(b * b + 4.0 * s * (1.0 - s) * q)
        if b > 0:
            fixed = 2.0 * math.log1p(2.0 * (1.0 - s) * q / (b + root))
        elif s > 1e-300:
            fixed = 2.0 * math.log1p((root - b) / (2.0 * s))
        sides.append(max(sides[-1], min(fixed * (1.0 + 1e-12), steps * dp_epsilon)))
    return np.array(sides)[:, None]


def combine(operation, first_side, second_side):
    """Combine two side sequences elementwise; each is constant past its end."""
    n_records = np.arange(max(len(first_side), len(second_side)))
    return operation(
        first_side[np.minimum(n_records, len(first_side) - 1)],
        second_side[np.minimum(n_records, len(second_side) - 1)],
    )


def both_sides(past, future, n):
    """Return the largest ``past[m] + future[n - 1 - m]`` over the records of a chain."""
    room = np.arange(min(n, len(past) + len(future)))
    room = np.r_[room, n - 1 - room]
    past_leakage = past[np.minimum(room, len(past) - 1)]
    future_leakage = future[np.minimum(n - 1 - room, len(future) - 1)]
    return float((past_leakage + future_leakage).max())


def bridge_sides(matrix, dp_epsilon, steps, *, column_limits, cap=4000):
    r"""Return the leakage that a side of ``m <= steps`` records can add when one of them is known.

    ``matrix`` is the transition matrix for the side of the future, its transpose for the side of
    the past. The bridge to value ``s``, ``j`` steps away, moves by
    :math:`H(u,y) \propto M(u,y)\, M^{j-1}(y,s)`, for any distribution of the first state.
    ``column_limits`` are the limits of the columns of the powers: ones towards the future, the
    stationary distribution towards the past.

    Row ``m`` of the result is the largest leakage over known records at most ``m`` steps away;
    if fewer than ``steps + 1`` rows are returned, the last bounds all later ones. None when the
    chain does not settle within the work limit.
    """
    k = len(matrix)
    width = 2 if k == 2 else 1
    limit = matrix * column_limits[None, :]
    limit = kernel_update(limit / limit.sum(axis=1, keepdims=True))
    leakage = np.zeros((k, width))  # A(j, s) for the known value s
    power = np.eye(k)
    worst = [np.zeros(width), np.zeros(width)]  # nothing there; the next record is known
    cap = cap if k == 2 else min(cap, 5000 // k)  # about half a second
    while len(worst) <= steps:
        power = power @ matrix
        power /= power.max()  # scale is irrelevant, underflow is not
        for s in range(k):  # one step towards the known value s; rows that cannot reach it drop out
            bridge = matrix * power[:, s][None, :]
            totals = bridge.sum(axis=1)
            possible = totals > 0
            update = kernel_update(bridge[possible] / totals[possible, None])
            several = possible.sum() > 1
            leakage[s] = update(dp_epsilon + leakage[s]) if several else 0.0
        highest = leakage.max(axis=0)
        column = power / column_limits[:, None]
        # How much a far-away known value still matters: the largest ln max/min of a column.
        low = column.min(axis=0)
        drift = float(np.log(column.max(axis=0) / low).max()) if low.min() > 0 else np.inf
        worst.append(np.maximum(worst[-1], highest))
        if drift <= max(1e-8 * dp_epsilon, NOISE) or (len(worst) > cap and np.isfinite(drift)):

            def beyond(weights, drift=drift):
                # E_u[qg]/E_v[qg] * E_v[q]/E_u[q] with ln q of range `drift` at most
                return limit(weights + drift) + limit(np.full(len(weights), drift))

            later_bound = close_above(beyond, dp_epsilon, highest, drift, steps)
            worst.append(np.maximum(worst[-1], later_bound))
            break
        if len(worst) > cap:
            return None
    return np.array(worst[: steps + 1])


def log_ratios(rows):
    """Return ``max_s ln rows[u, s] / rows[v, s]`` for all ``u, v``; infinite if impossible."""
    k = len(rows)
    result = np.zeros((k, k))
    for u in range(k):
        with np.errstate(divide="ignore", invalid="ignore"):
            # log1p of the difference keeps small influences precise
            ratio = np.log1p((rows[u] - rows) / rows)
        ratio = np.where((rows[u] == 0) | np.isnan(ratio), -math.inf, ratio)
        result[u] = np.maximum(ratio.max(axis=1), 0.0)
    return result


def chain_influences(kernel, longest, min_influence):
    """Return distances, and the influence of a record on the one at each distance.

    ``kernel`` makes one step towards the quilt. Distances are all up to 256, then grow by 2 % (any
    family of quilts is valid), and end at ``longest`` or once the influence falls to
    ``min_influence``: one record more cannot be worth it. Influences are
    ``max_s ln P[s | u] / P[s | v]`` in nats, of shape (m, k, k).
    """
    distances = []
    influences = []
    power = np.eye(len(kernel))
    distance = 0
    while distance < longest:
        step = 1 if distance < 256 else max(1, distance // 50)
        step = min(step, longest - distance)
        power = power @ (kernel if step == 1 else np.linalg.matrix_power(kernel, step))
        power /= power.sum(axis=1, keepdims=True)
        distance += step
        distances.append(distance)
        influences.append(log_ratios(power))
        if influences[-1].max() <= min_influence:
            break
    return np.array(distances, dtype=int), np.array(influences).reshape(-1, *kernel.shape)


def two_sided_influences(past, future):
    """Return ``b`` of all two-sided quilts, shape (past distances, future distances).

    Conditioning inside the quilt cuts a side off, so ``max_{L in N}`` is attained at ``L = {}``:
    the two sides are independent given the record, and their influences add.
    """
    k = past.shape[1]
    if len(past) * len(future) * k * k > TABLE_LIMIT:
        return past.max(axis=(1, 2))[:, None] + future.max(axis=(1, 2))[None, :]
    best = np.zeros((len(past), len(future)))
    for u in range(k):
        for v in range(k):
            if u != v:
                np.maximum(best, past[:, None, u, v] + future[None, :, u, v], out=best)
    return best


def quilt_leakage(past, future, dp_epsilon, n, *, factor=4.0):
    """Return the BDP level of a chain by its best quilts, ends included.

    ``max_i min_Q [(|N| + 1) dp_epsilon + factor * b]`` over the two-sided, one-sided and empty
    quilts of every record; ``past`` and ``future`` come from :func:`chain_influences`. The factor
    is 4 as printed by Zhao (2017); 2 suffices (theory B2).
    """
    if n == 1:
        return dp_epsilon
    past_distances, past_influences = past
    future_distances, future_influences = future
    # Theory B2; Zhao 2017, Lemma 2: |N| + 1 = a + c - 1 for the quilt {i - a, i + c}.
    two_sided = (past_distances[:, None] + future_distances[None, :] - 1) * dp_epsilon
    two_sided = two_sided + factor * two_sided_influences(past_influences, future_influences)
    two_sided = np.minimum.accumulate(np.minimum.accumulate(two_sided, axis=0), axis=1)
    one_sided_past = np.minimum.accumulate(
        past_distances * dp_epsilon + factor * past_influences.max(axis=(1, 2))
    )
    one_sided_future = np.minimum.accumulate(
        future_distances * dp_epsilon + factor * future_influences.max(axis=(1, 2))
    )

    # How many records lie before each one that may be the worst: past the reach of both tables all
    # share the two-sided quilts, and the one-sided ones are worst where the two cross.
    margin = int(past_distances[-1]) + int(future_distances[-1]) + 2
    if n <= 2 * margin:
        n_earlier = np.arange(n)
    else:
        shift = (one_sided_future[-1] - one_sided_past[-1]) / dp_epsilon
        centre = (n - 1 - (shift if math.isfinite(shift) else 0.0)) / 2.0
        middle = np.clip(np.floor(centre) + np.arange(-1, 3), 0, n - 1).astype(int)
        n_earlier = np.unique(np.r_[np.arange(margin), middle, np.arange(n - margin, n)])
    n_later = n - 1 - n_earlier
    level = np.full(len(n_earlier), n * dp_epsilon)  # the empty quilt
    i = np.searchsorted(past_distances, n_earlier, side="right") - 1
    j = np.searchsorted(future_distances, n_later, side="right") - 1
    level = np.where((i >= 0) & (j >= 0), np.minimum(level, two_sided[i, j]), level)
    level = np.where(i >= 0, np.minimum(level, one_sided_past[i] + n_later * dp_epsilon), level)
    level = np.where(j >= 0, np.minimum(level, one_sided_future[j] + n_earlier * dp_epsilon), level)
    return float(level.max())


def blanket_influence(backward, forward, n):
    """Return the max-influence ``a`` of a record on its Markov blanket (its neighbors)."""
    if n == 1:
        return 0.0
    past_ratios = log_ratios(backward)
    future_ratios = log_ratios(forward)
    if n > 2:
        return float((past_ratios + future_ratios).max())
    return float(max(past_ratios.max(), future_ratios.max()))


def spectral_smallest_n(gap, smallest):
    """Return the least ``n`` for which some level satisfies ``n >= 2d``."""
    # d >= (1/g) ln(1/rho) with strict inequality: coth > 1.
    return 2 * (math.floor(-math.log(smallest) / gap) + 1)


def spectral_dp_epsilon(bdp_epsilon, gap, smallest, n):
    """Return the DP level ``h`` that Lemma 4 of Zhao (2017) proves sufficient for a BDP level.

    ``max_c min{(1-6c) e / (2d-1), (1/3-2c) e / (d+s)}`` over ``0 < c < 1/6`` with ``n >= 2d``; 0
    when no ``c`` qualifies. ``gap`` is ``1 - max_{j>=2} |lambda_j|``, ``smallest`` the smallest
    stationary probability ``rho``.

    ``d`` falls in steps as ``c`` grows while both terms fall in ``c``; so the best ``c`` for
    each integer ``d`` is the smallest that reaches it,
    ``c = (2/e) artanh(exp(-g d) / rho)``, and one pass over ``d`` finds the maximum exactly.

    Zhao 2017, Adaptive Statistical Learning with Bayesian Differential Privacy, WPES'17,
    Lemma 4; ``s`` is defined in Section 5.3.
    """
    e = bdp_epsilon
    # Zhao 2017, Section 5.3: s = floor((1/g) ln((e^{e/6}+1) / (rho (e^{e/6}-1)))).
    s = math.floor(math.log(1.0 / (smallest * math.tanh(e / 12.0))) / gap)
    first = math.floor(-math.log(smallest) / gap) + 1
    best = 0.0
    start = first
    while 2 * start <= n and e / (2 * start - 1) > best:
        d = np.arange(start, min(n // 2, start + 4095) + 1)
        share = np.exp(-gap * d) / smallest
        with np.errstate(divide="ignore"):
            c = np.where(share < 1.0, (2.0 / e) * np.arctanh(np.minimum(share, 1.0)), math.inf)
        # Theory B4; Zhao 2017, Lemma 4.
        h = np.minimum((1.0 - 6.0 * c) * e / (2 * d - 1), (1.0 / 3.0 - 2.0 * c) * e / (d + s))
        best = max(best, float(h.max()))
        start = int(d[-1]) + 1
    return best * (1.0 - 1e-12)  # c = c(d) is approached, not always attained


def block_information(dp_epsilon, extra, n):
    """Return the least sum of squared block leakages / 8 on a chain, in nats (theory G1, B7).

    ``extra`` is the leakage that the records after a block add to the block's own.
    """
    return dp_epsilon**2 * block_variance_proxy(extra / dp_epsilon, n) / 8.0


@leakage_bound.register(MarkovChain)
class ChainLeakageBound(LeakageBound):
    """Leakage of the records of one chain, by both sides of a record."""

    def check_method(self, n, method):
        chain = self.model
        if method == "blanket" and n > 1 and math.isinf(chain.diameter_):
            raise ValueError(
                "method='blanket' needs positive transition probabilities: use method='quilt'."
            )
        if method != "spectral":
            return
        mixes = chain.spectral_gap_ > 0 and is_reversible(chain.transition, chain.stationary_)
        if not mixes or (not chain.observed and math.isinf(chain.diameter_)):
            raise ValueError(
                "method='spectral' needs an aperiodic and reversible chain, and without "
                "observed=True positive transition probabilities; method='tight' applies (B5)."
            )
        min_n = spectral_smallest_n(chain.spectral_gap_, float(chain.stationary_.min()))
        if not n >= min_n:
            raise ValueError(
                f"method='spectral' needs n >= 2d, here at least {min_n} records, got n={n}."
            )

    def leakage(self, dp_epsilon, n, method):
        if method == "tight":
            return self._tight(dp_epsilon, n)
        if method == "spectral":
            # The smallest level whose h reaches dp_epsilon: it increases with the level, in jumps.
            suffices = lambda x: self._spectral(x, n) >= dp_epsilon  # noqa: E731
            value = last_accepted(suffices, *doubled(suffices, float(dp_epsilon)))
        elif method == "quilt":
            value = self._quilted(dp_epsilon, n, factor=4.0)
        else:
            # Theory B3; Zhao 2017, Lemma 3.
            value = dp_epsilon + 4.0 * blanket_influence(self.reverse, self.model.transition, n)
        # The lemmas of the paper are about chains whose states are the records.
        return value if self.model.observed else max(value, self._tight(dp_epsilon, n))

    def _spectral(self, bdp_epsilon, n):
        chain = self.model
        smallest = float(chain.stationary_.min())
        return spectral_dp_epsilon(float(bdp_epsilon), chain.spectral_gap_, smallest, n)

    def inverse(self, bdp_epsilon, n, method):
        if method != "spectral":
            return super().inverse(bdp_epsilon, n, method)
        level = self._spectral(bdp_epsilon, n)
        return level if self.model.observed else min(level, self.model.dp_epsilon(bdp_epsilon, n))

    # -- the two sides of a record ----------------------------------------------------------

    @property
    def reverse(self):
        """Transition matrix of the stationary chain run backwards."""
        distribution = self.model.stationary_
        reverse = self.model.transition.T * distribution[None, :] / distribution[:, None]
        return reverse / reverse.sum(axis=1, keepdims=True)

    def unknown(self, dp_epsilon, n):
        """Return the leakage of past and future if the adversary knows no record of them (B7)."""
        kernels = (self.reverse, self.model.transition)
        width = 2 if len(self.reverse) == 2 else 1
        return cached(
            self.model,
            ("unknown", dp_epsilon, n),
            lambda: [
                iterate_leakage(kernel_update(k), dp_epsilon, n - 1, width=width) for k in kernels
            ],
        )

    def _tight(self, dp_epsilon, n):
        chain = self.model
        k = len(chain.transition)
        # Of a side, any records of which may be known (B5).
        contracted = contracted_sides(chain.diameter_, dp_epsilon, n - 1)
        past_sides = contracted
        future_sides = contracted
        if chain.observed and k <= MOST_STATES:

            def bridged(matrix, column_limits, unknown):
                """Return a side on which one record or none is known (theory B5′)."""
                bridges = bridge_sides(matrix, dp_epsilon, n - 1, column_limits=column_limits)
                if bridges is None:
                    return contracted
                return combine(np.minimum, contracted, combine(np.maximum, bridges, unknown))

            past_unknown, future_unknown = self.unknown(dp_epsilon, n)
            future_sides = bridged(chain.transition, np.ones(k), future_unknown)
            past_sides = bridged(chain.transition.T, chain.stationary_, past_unknown)
        best = min(dp_epsilon + both_sides(past_sides, future_sides, n), n * dp_epsilon)
        if chain.observed and k > 2:
            best = min(best, self._quilted(dp_epsilon, n, factor=2.0))
        return best

    def _quilted(self, dp_epsilon, n, *, factor):
        # Tables reach until one record more cannot pay; rounded so that searches reuse them.
        min_influence = 2.0 ** math.floor(math.log2(dp_epsilon / factor))
        sides = (
            cached(
                self.model,
                ("influences", side, n, min_influence),
                lambda kernel=kernel: chain_influences(kernel, n - 1, min_influence),
            )
            for side, kernel in (("past", self.reverse), ("future", self.model.transition))
        )
        return quilt_leakage(*sides, dp_epsilon, n, factor=factor)

    def extra(self, dp_epsilon, n):
        """Return the leakage by records after a record, in the better order of time (theory B7)."""
        return min(float(side[-1].max()) for side in self.unknown(dp_epsilon, n))

    def sequential_information(self, dp_epsilon, n):
        return block_information(dp_epsilon, self.extra(dp_epsilon, n), n)

    def posterior_bias(self, dp_epsilon, n):
        past_leakage, future_leakage = self.unknown(dp_epsilon, n)
        length = max(len(future_leakage), len(past_leakage))
        if n <= 4 * length:
            records, weights = np.arange(n), np.ones(n)
        else:  # the middle is all alike: one record represents it
            records = np.r_[np.arange(length), length, np.arange(n - length, n)]
            weights = np.ones(len(records))
            weights[length] = n - 2 * length
        leakage = future_leakage[np.minimum(n - 1 - records, len(future_leakage) - 1)]
        leakage = dp_epsilon + leakage + past_leakage[np.minimum(records, len(past_leakage) - 1)]
        leakage = np.minimum(leakage.max(axis=1), n * dp_epsilon)
        return float(weights @ np.tanh(leakage / 4.0) / n)  # theory G6
