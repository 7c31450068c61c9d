"""Levels of Bayesian differential privacy that a DP level implies for correlated records.

Leakage about a record is the largest log-ratio of the probability of an answer, in nats, when that
record changes and the records that depend on it follow. Loaded by ``bdp_epsilon``, ``dp_epsilon``
and code that needs them (a numeric ``epsilon``, the certificate's line on privacy). Code that
computes intervals never imports this module.

First there is one bound for each kind of model: components (theory B0, B1), lists of models,
networks (messages on forests B6, B7; walks on any graph B8). Then the leakage through a kernel (the
update of Cao et al., Birkhoff's contraction), the leakage by the earlier and the later records of a
chain (bridges to known records, quilts, Zhao's lemmas; B2-B7), and the bound of a chain.
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

# Fixed points are approached from below. Iterations stop when a step moves less than this,
# relatively. `close_above` then adds a margin, so that the answer is not too small.
FIXED_POINT_TOLERANCE = 1e-13
# Work limit: bridges are computed for at most this many states, Birkhoff's contraction and quilts
# for any number.
MAX_BRIDGE_STATES = 24
POWER_ROUNDING = 1e-14  # rounding errors of matrix powers are not below this
# Two-sided quilts are tabulated by pairs of distances and pairs of values. If the table would have
# more numbers than this, each side takes its largest influence over pairs of values, a valid bound.
MAX_TABLE_SIZE = 5e7


class LeakageBound:
    """Bounds on the leakage of a model whose records may follow each other inside components (B1).

    All levels are in nats. DP levels are positive, and arguments have been checked. ``method`` is
    that of :meth:`CorrelationModel.bdp_epsilon`.
    """

    def __init__(self, model):
        self.model = model

    def check_method(self, n, method):
        """Raise ValueError if ``method`` does not apply to ``n`` records of this model."""
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
        """Return the Bayesian DP level that follows from a positive DP level, in nats."""
        # Theory B1 (B2 with the empty quilt): the whole component may follow the record.
        return largest_component(self.model, n) * dp_epsilon

    def inverse(self, bdp_epsilon, n, method):
        """Return a DP level that suffices for a Bayesian DP level, 0 if no positive one does."""
        return safe_inverse(
            lambda dp_epsilon: self.model.bdp_epsilon(dp_epsilon, n, method=method), bdp_epsilon
        )

    def sequential_information(self, dp_epsilon, n):
        """Return the information ``K`` of theory G1, in nats."""
        # Blocks smaller than a component only add terms: the records of a block may decide all
        # others of the component.
        sizes, counts = component_sizes(self.model, n)
        return float(np.sum(counts * sizes.astype(float) ** 2)) * dp_epsilon**2 / 8.0

    def posterior_bias(self, dp_epsilon, n):
        """Return the bias ``r`` of theory G6, in score units."""
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
    """Bounds of a list of models, the worst of theirs (Song, Wang, Chaudhuri 2017)."""

    def check_method(self, n, method):
        for model in self.model.models:
            leakage_bound(model).check_method(n, method)

    def leakage(self, dp_epsilon, n, method):
        return max(model.bdp_epsilon(dp_epsilon, n, method=method) for model in self.model.models)

    def sequential_information(self, dp_epsilon, n):
        return max(sequential_information(model, dp_epsilon, n) for model in self.model.models)

    def posterior_bias(self, dp_epsilon, n):
        return max(posterior_bias(model, dp_epsilon, n) for model in self.model.models)

    def inverse(self, bdp_epsilon, n, method):
        return min(model.dp_epsilon(bdp_epsilon, n, method=method) for model in self.model.models)


@leakage_bound.register
def _no_leakage_bound(model: TimeOrdered) -> NoReturn:
    """Raise ValueError: without declared dependence, leakage has no bound."""
    raise ValueError(
        "no level of privacy can be stated under correlation='time'. Declare a chain: a "
        "transition matrix, MarkovChain.from_scores or MarkovChain.from_autocorrelation_time."
    )


@leakage_bound.register(NetworkModel)
class NetworkLeakageBound(LeakageBound):
    """Bounds of a network: messages on trees (theory B6, B7), walks (B8) and sizes (B1)."""

    def __init__(self, model):
        super().__init__(model)
        # Number of records in the component of each record.
        self.sizes = model._component_sizes[model.components_].astype(float)

    def messages(self, dp_epsilon):
        """Return :func:`birkhoff_messages` of the records in trees (theory B6)."""
        _, parent, diameters = self.model._rooted()
        return cached(
            self.model,
            ("messages", dp_epsilon),
            lambda: birkhoff_messages(parent.tolist(), diameters, dp_epsilon),
        )

    def factor(self):
        """Return an upper bound on Bayesian DP level / DP level for each record (theory B8)."""
        model = self.model
        return cached(
            model, "factor", lambda: leakage_factor(model.adjacency_, model._n_affected())
        )

    def record_levels(self, dp_epsilon):
        """Return a Bayesian DP level for every record, in nats: the best of theory B1, B6, B8."""
        levels = np.minimum(self.sizes, self.factor()) * dp_epsilon
        tree_records, _, _ = self.model._rooted()
        _, _, total_messages = self.messages(dp_epsilon)
        levels[tree_records] = np.minimum(levels[tree_records], dp_epsilon + total_messages)
        return levels

    def _blanket_levels(self, dp_epsilon):
        """Return a Bayesian DP level for every record by its neighbors, its Markov blanket (B3)."""
        # Theory B3: the influence on the neighbors is at most the sum of the diameters.
        return dp_epsilon + 4.0 * self.model.adjacency_.sum(axis=1)

    def check_method(self, n, method):
        if method != "blanket":
            super().check_method(n, method)
        elif math.isinf(self._blanket_levels(0.0).max()):
            raise ValueError(
                "method='blanket' needs positive probabilities: use method='quilt' or 'tight'."
            )

    def leakage(self, dp_epsilon, n, method):
        if method == "tight":
            return float(self.record_levels(dp_epsilon).max())
        levels = self._blanket_levels(dp_epsilon)
        if method == "quilt":  # Zhao 2017, Lemma 2: of the blanket and the empty quilt
            levels = np.minimum(levels, self.sizes * dp_epsilon)
        return float(levels.max())

    def upward_messages(self, dp_epsilon):
        """Return the message of each record in a tree to its parent, and the sum from its children.

        The adversary knows no record below (theory B7); without tables, messages are those of B6.
        Both are in nats and in the order of ``NetworkModel._rooted``. Messages are 0 for roots, and
        sums are 0 for leaves.
        """
        upward, below, _ = self.messages(dp_epsilon)
        if not self.model._factors:
            return upward, below
        kernels = self.model._kernels()
        _, parent_array, _ = self.model._rooted()
        parent = parent_array.tolist()
        upward = [0.0] * len(parent)
        below = [0.0] * len(parent)
        message_by_key = {}  # by the id of the kernel and the sum from below
        for v in range(len(parent) - 1, -1, -1):
            if parent[v] >= 0:
                key = (id(kernels[v]), below[v])
                if key not in message_by_key:
                    message_by_key[key] = kernel_leakage(kernels[v], dp_epsilon + below[v])
                upward[v] = message_by_key[key]
                below[parent[v]] += upward[v]
        return upward, np.array(below)

    def sequential_information(self, dp_epsilon, n):
        # Sums of squared leakage, per component: by records, as one block, and by best blocks.
        record_costs = np.bincount(
            self.model.components_, weights=self.record_levels(dp_epsilon) ** 2
        )
        component_costs = (self.model._component_sizes * dp_epsilon) ** 2
        costs = np.minimum(record_costs, component_costs)
        if self.model._is_tree.any():
            upward, _ = self.upward_messages(dp_epsilon)
            costs = np.minimum(costs, self.model._block_costs(dp_epsilon, upward))
        return float(costs.sum() / 8.0)  # theory G1

    def posterior_bias(self, dp_epsilon, n):
        return float(np.tanh(self.record_levels(dp_epsilon) / 4.0).mean())  # theory G6


def birkhoff_messages(parent, diameters, dp_epsilon):
    """Return messages ``(upward, below, total)`` on a rooted forest, in nats (theory B6).

    A message bounds the leakage about a node through one neighbor and all beyond it. ``upward[v]``
    goes from node ``v`` to its parent, ``below[v]`` sums the messages from its children, and
    ``total[v]`` those from all its neighbors. ``diameters`` are those of the edges to the parents,
    ``parent`` is that of :func:`~sklearn_bdp.correlation.network.rooted`.
    """
    n = len(parent)
    a = np.exp(-diameters / 2).tolist()
    complement_of_a = (-np.expm1(-diameters / 2)).tolist()
    log1p = math.log1p
    expm1 = math.expm1
    below = [0.0] * n
    upward = [0.0] * n
    downward = [0.0] * n  # from the parent of each node

    def message_along_edge(v, leakage):
        """Return the message along the edge between ``v`` and its parent, in either direction.

        ``leakage``: the leakage about the sender, one of the two, from itself and all beyond it.
        """
        # 4 artanh(tanh(D/4) tanh(w/4)) = 2 ln(1 + (1-a)(1-b)/(a+b)), a = e^{-D/2}, b = e^{-w/2}
        b_minus_1 = expm1(-leakage / 2)
        denominator = a[v] + 1.0 + b_minus_1
        if not denominator > 1e-15:
            return leakage
        message = 2.0 * log1p(-complement_of_a[v] * b_minus_1 / denominator)
        return message if message < leakage else leakage

    for v in range(n - 1, -1, -1):
        p = parent[v]
        if p >= 0:
            upward[v] = message_along_edge(v, dp_epsilon + below[v])
            below[p] += upward[v]
    for v in range(n):
        p = parent[v]
        if p >= 0:
            leakage_beyond = dp_epsilon + below[p] + downward[p] - upward[v]
            downward[v] = message_along_edge(v, leakage_beyond)
    below = np.array(below)
    # The subtraction may round the wrong way; a part in 10^12 covers a million children.
    total = (below + np.array(downward)) * (1.0 + 1e-12)
    return upward, below, total


def leakage_factor(matrix, n_affected):
    """Return an upper bound ``f_i >= 1`` on Bayesian DP level / DP level for each record.

    ``matrix`` holds edge diameters in nats. ``n_affected`` comes from
    :func:`~sklearn_bdp.correlation.network.dobrushin_n_affected`; where it is infinite, so is the
    bound.

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
    squared_contractions = sparse.csr_array(
        (np.tanh(matrix.data / 4.0) ** 2, matrix.indices, matrix.indptr), shape=matrix.shape
    )
    return np.maximum(n_affected / (1.0 + squared_contractions.sum(axis=1)), 1.0)


def kernel_leakage(kernel, leakage_beyond):
    """Return ``L_P(w)``: leakage about a record through a neighbor and all beyond it, in nats.

    ``leakage_beyond`` is ``w``: the leakage about the neighbor from itself and everything beyond.
    The result is 0 if ``w`` is not positive, or if the record has one value only.

    ``max_{u,v,A} ln[(1 + P(u,A)(e^w - 1)) / (1 + P(v,A)(e^w - 1))]``, where row ``u`` of ``kernel``
    is the distribution of the neighbor given value ``u``; zeros are allowed.

    For a ratio ``r`` the best set of a pair is ``{y : P(u,y) > r P(v,y)}`` and
    ``sum_y max(P(u,y) - r P(v,y), 0)`` is half of a city-block distance, up to a constant that all
    pairs share. So all pairs are tried at once, and Dinkelbach's iteration needs few ratios.

    Cao, Yoshikawa, Xiao, Xiong 2017, Quantifying differential privacy under temporal
    correlations, Algorithm 1 (a linear-fractional program per pair of rows).
    """
    # Theory B7; Cao et al. 2017, (15)-(18).
    if not leakage_beyond > 0 or len(kernel) < 2:
        return 0.0
    if leakage_beyond > 600.0:  # e^w overflows; the update grows no faster than its argument
        return kernel_leakage(kernel, 600.0) + (leakage_beyond - 600.0)
    growth = math.expm1(leakage_beyond)  # e^w - 1
    excess = 0.0  # r - 1, so that small leakage keeps its relative precision
    for _ in range(100):
        distances = cdist(kernel, kernel * (1.0 + excess), "cityblock")
        u, v = np.unravel_index(np.argmax(distances), distances.shape)
        best_set = kernel[u] > (1.0 + excess) * kernel[v]
        difference = float((kernel[u, best_set] - kernel[v, best_set]).sum())
        next_excess = growth * difference / (1.0 + growth * float(kernel[v, best_set].sum()))
        if not next_excess > excess * (1.0 + 1e-14):
            break
        excess = next_excess
    return min(leakage_beyond, math.log1p(excess))


def contract(diameter, log_range):
    """Return ``4 artanh(tanh(diameter/4) tanh(log_range/4))`` elementwise (Birkhoff).

    This bounds the range of the log of a function after averaging by a kernel of that projective
    diameter, if its range before is ``log_range``; all in nats. It is at most either argument, and
    either may be infinite.
    """
    # Birkhoff 1957: a positive kernel contracts Hilbert's metric by tanh(diameter / 4); the
    # product form is the sharp bound for a range `log_range`. Theory B5, B6.
    small = np.minimum(diameter, log_range)
    large = np.maximum(diameter, log_range)
    # artanh(x) from 1 - x loses nothing when both factors are near one.
    a = np.exp(-small / 2)
    b = np.exp(-large / 2)
    # (1 + tt') / (1 - tt') with t = (1-a)/(1+a), t' = (1-b)/(1+b) equals (1 + ab) / (a + b).
    with np.errstate(divide="ignore", invalid="ignore"):
        contracted = 2.0 * np.log1p(np.expm1(-small / 2) * np.expm1(-large / 2) / (a + b))
    contracted = np.where(a + b > 0, contracted, small)
    contracted = np.minimum(contracted, small)
    return float(contracted) if np.ndim(contracted) == 0 else contracted


def two_state_leakage(kernel, leakages_beyond):
    """Return the leakage of a two-state kernel in both directions, in nats.

    ``leakages_beyond`` are the largest ``ln g(0)/g(1)`` and ``ln g(1)/g(0)`` of a function ``g`` of
    the neighbor. The result is the same pair for ``h(u) = sum_y kernel[u, y] g(y)``. The
    ratio ``h(0)/h(1)`` is monotone in ``g(0)/g(1)``, so the two extreme values decide and the
    recursion is exact.
    """
    (p, _), (q, complement_of_q) = kernel.tolist()  # probabilities of neighbor 0 given 0 and 1
    log_ratios_of_h = []
    for log_ratio_of_g in (float(leakages_beyond[0]), -float(leakages_beyond[1])):
        x = min(max(log_ratio_of_g, -600.0), 600.0)  # so that e^x does not overflow
        # h(0)/h(1) - 1 = (p t + 1-p) / (q t + 1-q) - 1 with t = e^x
        if x > 0:
            excess = -(p - q) * math.expm1(-x) / (q + complement_of_q * math.exp(-x))
        else:
            excess = (p - q) * math.expm1(x) / (q * math.exp(x) + complement_of_q)
        log_ratio = math.log1p(excess) if excess > -1.0 else -math.inf
        # Beyond 600 nats: the slope is at most one.
        log_ratio += math.copysign(abs(log_ratio_of_g) - abs(x), log_ratio)
        log_ratios_of_h.append(log_ratio)
    leakages = [max(*log_ratios_of_h, 0.0), max(-min(log_ratios_of_h), 0.0)]
    return np.minimum(leakages, np.max(leakages_beyond))


def kernel_update(kernel):
    """Return the function that maps leakages beyond a neighbor to those through it.

    For two states, both are arrays of two directions (:func:`two_state_leakage`), otherwise arrays
    of one number (:func:`kernel_leakage`).
    """
    if kernel.shape == (2, 2):
        return lambda leakages: two_state_leakage(kernel, leakages)
    return lambda leakages: np.array([kernel_leakage(kernel, float(np.max(leakages)))])


def iterate_leakage(update, dp_epsilon, n_steps, *, n_directions=1, max_iterations=None):
    """Return ``a_0 = 0, a_1 = update(dp_epsilon + a_0), …`` up to ``n_steps`` or convergence.

    ``update`` comes from :func:`kernel_update`; it is increasing, and none of its values is above
    the largest of its arguments. ``n_directions`` is 2 for two-state kernels, else 1. The result
    has one row per term and one column per direction, in nats. After convergence or
    ``max_iterations`` steps, the last row is a bound on all later terms, which have no row of their
    own. If ``max_iterations`` is None, it is 200, or 20,000 for the cheaper two-state updates.
    """
    if max_iterations is None:
        max_iterations = 200 if n_directions == 1 else 20_000
    sequence = [np.zeros(n_directions)]
    while len(sequence) <= n_steps:
        term = update(dp_epsilon + sequence[-1])
        increase = float(np.max(term - sequence[-1]))
        sequence.append(np.maximum(term, sequence[-1]))
        is_converged = not increase > FIXED_POINT_TOLERANCE * float(np.max(term))
        if len(sequence) > max_iterations or is_converged:
            increase = max(increase, 0.0)
            sequence.append(close_above(update, dp_epsilon, sequence[-1], increase, n_steps))
            break
    return np.array(sequence[: n_steps + 1])


def close_above(update, dp_epsilon, term, increase, n_steps):
    """Return a bound on all later terms of the recursion of :func:`iterate_leakage`.

    ``term`` is the last term computed. With two directions, further terms are computed first. With
    one, ``increase`` is the first margin above ``term`` to try. Any ``b >= term`` with
    ``update(dp_epsilon + b) <= b`` is a bound: the update is increasing, so no later term can jump
    over it. ``n_steps * dp_epsilon`` always is one, and is returned if no smaller one is found.
    """
    ceiling = n_steps * dp_epsilon
    if len(term) > 1:  # one margin for both directions is loose far from the fixed point
        for _ in range(20_000):
            next_term = np.maximum(update(dp_epsilon + term), term)
            increase = float(np.max(next_term - term))
            term = next_term
            if not increase > FIXED_POINT_TOLERANCE * float(np.max(next_term)):
                break
    first_margin = max(increase, 4 * FIXED_POINT_TOLERANCE * float(np.max(term)), 1e-300)

    def is_bound(margin):
        return np.all(update(dp_epsilon + term + margin) <= term + margin)

    largest_margin = np.nextafter(ceiling - np.max(term), 0.0)
    bracket = doubled(is_bound, first_margin, largest=largest_margin)
    if bracket is None:
        return np.maximum(term, ceiling)
    sufficient_margin, insufficient_margin = bracket
    tolerance = 1e-9 * float(np.max(term + sufficient_margin))
    margin = last_accepted(
        is_bound, sufficient_margin, insufficient_margin, steps=40, tolerance=tolerance
    )
    return term + margin


# A *side* of a record of a chain are the records before it, or those after it. Functions on sides
# return an array of shape (n_sizes, n_directions): row m is the leakage, in nats, that a side of m
# records adds. A side of more records than there are rows adds at most the last row.


def contracted_sides(diameter, dp_epsilon, n_steps, *, n_exact=256):
    """Return the leakage that sides of 0 to ``n_steps`` records add, each known or not (theory B5).

    Rows do not decrease. Those of up to ``n_exact`` records are computed one by one. If there are
    longer sides, one further row is a bound for all of them.
    """
    sides = [0.0]
    for _ in range(min(n_steps, n_exact)):
        sides.append(contract(diameter, dp_epsilon + sides[-1]))
    if n_steps > n_exact:
        # z = e^{a/2} - 1 solves s z^2 + (2s - q) z = (1 - s) q, s = e^{-diameter/2},
        # q = 1 - e^{-dp_epsilon/2}; the form of the root avoids cancellation.
        s = math.exp(-diameter / 2.0)
        q = -math.expm1(-dp_epsilon / 2.0)
        b = 2.0 * s - q
        root = math.sqrt(b * b + 4.0 * s * (1.0 - s) * q)
        fixed_point = math.inf
        if b > 0:
            fixed_point = 2.0 * math.log1p(2.0 * (1.0 - s) * q / (b + root))
        elif s > 1e-300:
            fixed_point = 2.0 * math.log1p((root - b) / (2.0 * s))
        bound = min(fixed_point * (1.0 + 1e-12), n_steps * dp_epsilon)
        sides.append(max(sides[-1], bound))
    return np.array(sides)[:, None]


def combine_sides(operation, sides, other_sides):
    """Return ``operation(sides, other_sides)`` by number of records, such as ``np.minimum``."""
    sizes = np.arange(max(len(sides), len(other_sides)))
    return operation(
        sides[np.minimum(sizes, len(sides) - 1)],
        other_sides[np.minimum(sizes, len(other_sides) - 1)],
    )


def largest_sum_of_sides(past, future, n):
    """Return the largest ``past[m] + future[n - 1 - m]`` over the records of a chain, in nats."""
    # Numbers of earlier records; between both ends, all records have the same sum.
    n_earlier = np.arange(min(n, len(past) + len(future)))
    n_earlier = np.r_[n_earlier, n - 1 - n_earlier]
    past_leakage = past[np.minimum(n_earlier, len(past) - 1)]
    future_leakage = future[np.minimum(n - 1 - n_earlier, len(future) - 1)]
    return float((past_leakage + future_leakage).max())


def bridge_sides(matrix, dp_epsilon, n_steps, *, column_limits, max_iterations=4000):
    r"""Return the leakage that sides of up to ``n_steps`` records add if one of them is known.

    ``dp_epsilon`` is the DP level in nats; at most ``max_iterations`` steps are computed, fewer
    with more than two states.

    ``matrix`` is the transition matrix for the side of the future, its transpose for the side of
    the past. The bridge to value ``s``, ``j`` steps away, moves by
    :math:`H(u,y) \propto M(u,y)\, M^{j-1}(y,s)`, for any distribution of the first state.
    ``column_limits`` are the limits of the columns of the powers: ones towards the future, the
    stationary distribution towards the past.

    Row ``m`` of the result is the largest leakage over known records at most ``m`` steps away; the
    last row bounds all later ones. None if the chain does not settle within the work limit.
    """
    n_states = len(matrix)
    n_directions = 2 if n_states == 2 else 1
    limit_kernel = matrix * column_limits[None, :]
    limit_kernel /= limit_kernel.sum(axis=1, keepdims=True)
    update_in_limit = kernel_update(limit_kernel)
    leakage = np.zeros((n_states, n_directions))  # A(j, s), one row for each known value s
    power = np.eye(n_states)
    # A side without records; a side whose next record is known.
    sides = [np.zeros(n_directions), np.zeros(n_directions)]
    if n_states > 2:
        max_iterations = min(max_iterations, 5000 // n_states)  # a work limit
    while len(sides) <= n_steps:
        power = power @ matrix
        power /= power.max()  # only ratios matter; avoids underflow
        for s in range(n_states):  # one step towards the known value s
            bridge = matrix * power[:, s][None, :]
            totals = bridge.sum(axis=1)
            can_reach_s = totals > 0
            if can_reach_s.sum() > 1:
                update = kernel_update(bridge[can_reach_s] / totals[can_reach_s, None])
                leakage[s] = update(dp_epsilon + leakage[s])
            else:
                leakage[s] = 0.0
        largest_leakage = leakage.max(axis=0)
        sides.append(np.maximum(sides[-1], largest_leakage))
        # How much a far-away known value still matters: the largest ln max/min of a column.
        scaled_power = power / column_limits[:, None]
        column_minima = scaled_power.min(axis=0)
        drift = np.inf
        if column_minima.min() > 0:
            drift = float(np.log(scaled_power.max(axis=0) / column_minima).max())
        is_settled = drift <= max(1e-8 * dp_epsilon, POWER_ROUNDING)
        if is_settled or (len(sides) > max_iterations and np.isfinite(drift)):

            def update_with_drift(leakages, drift=drift):
                # E_u[qg]/E_v[qg] * E_v[q]/E_u[q] with ln q of range `drift` at most
                drift_leakages = np.full(len(leakages), drift)
                return update_in_limit(leakages + drift) + update_in_limit(drift_leakages)

            later_bound = close_above(
                update_with_drift, dp_epsilon, largest_leakage, drift, n_steps
            )
            sides.append(np.maximum(sides[-1], later_bound))
            break
        if len(sides) > max_iterations:
            return None
    return np.array(sides[: n_steps + 1])


def largest_log_ratios(distributions):
    """Return ``max_s ln P[u, s] / P[v, s]`` for all ``u, v``, in nats; may be infinite.

    ``distributions`` is ``P``, with one probability distribution per row.
    """
    k = len(distributions)  # number of rows
    largest = np.zeros((k, k))
    for u in range(k):
        with np.errstate(divide="ignore", invalid="ignore"):
            # log1p of the difference keeps small influences precise
            log_ratios = np.log1p((distributions[u] - distributions) / distributions)
        is_absent = (distributions[u] == 0) | np.isnan(log_ratios)
        log_ratios = np.where(is_absent, -math.inf, log_ratios)
        largest[u] = np.maximum(log_ratios.max(axis=1), 0.0)
    return largest


def chain_influences(kernel, max_distance, min_influence):
    """Return distances, and the influence of a record on the one at each distance.

    ``kernel`` is the transition matrix of one step away from the record. Distances, in records, are
    all up to 256, then grow by 2% (any family of quilts is valid). They end at ``max_distance`` or
    once the influence falls to ``min_influence``: a longer quilt cannot be better. Influences are
    ``max_s ln P[s | u] / P[s | v]`` in nats, of shape (n_distances, k, k).
    """
    distances = []
    influences = []
    power = np.eye(len(kernel))
    distance = 0
    while distance < max_distance:
        step = 1 if distance < 256 else max(1, distance // 50)
        step = min(step, max_distance - distance)
        power = power @ (kernel if step == 1 else np.linalg.matrix_power(kernel, step))
        power /= power.sum(axis=1, keepdims=True)
        distance += step
        distances.append(distance)
        influences.append(largest_log_ratios(power))
        if influences[-1].max() <= min_influence:
            break
    return np.array(distances, dtype=int), np.array(influences).reshape(-1, *kernel.shape)


def two_sided_influences(past, future):
    """Return the influence ``b`` of a record on two-sided quilts, in nats.

    ``past`` and ``future`` are influences of :func:`chain_influences`. The shape is (number of past
    distances, number of future distances). A known record inside the quilt separates the record
    from a side, so ``max_{L in N}`` is attained at ``L = {}``: both sides are independent given the
    record, and their influences add. If a table of all pairs of values would be too large, each
    side takes its largest influence over them, which is an upper bound.
    """
    k = past.shape[1]  # number of states
    if len(past) * len(future) * k * k > MAX_TABLE_SIZE:
        return past.max(axis=(1, 2))[:, None] + future.max(axis=(1, 2))[None, :]
    largest = np.zeros((len(past), len(future)))
    for u in range(k):
        for v in range(k):
            if u != v:
                influences = past[:, None, u, v] + future[None, :, u, v]
                np.maximum(largest, influences, out=largest)
    return largest


def quilt_leakage(past, future, dp_epsilon, n, *, factor=4.0):
    """Return the Bayesian DP level of a chain by the best quilt of each record, in nats.

    ``max_i min_Q [(|N| + 1) dp_epsilon + factor * b]`` over the empty quilt and the two-sided and
    one-sided quilts of every record at these distances. ``N`` are the records that a quilt
    separates from the others, without ``i``, and ``b`` is the influence of ``i`` on the quilt.
    ``past`` and ``future`` are pairs of distances and influences from :func:`chain_influences`. The
    factor is 4 as printed by Zhao (2017); 2 suffices (theory B2).
    """
    if n == 1:
        return dp_epsilon
    past_distances, past_influences = past
    future_distances, future_influences = future
    # Costs of quilts by the distances of their ends, then the smallest up to these distances.
    # Theory B2; Zhao 2017, Lemma 2: |N| + 1 = a + c - 1 for the quilt {i - a, i + c}.
    n_inside = past_distances[:, None] + future_distances[None, :] - 1
    influences = two_sided_influences(past_influences, future_influences)
    two_sided = n_inside * dp_epsilon + factor * influences
    two_sided = np.minimum.accumulate(np.minimum.accumulate(two_sided, axis=0), axis=1)
    one_sided_past = np.minimum.accumulate(
        past_distances * dp_epsilon + factor * past_influences.max(axis=(1, 2))
    )
    one_sided_future = np.minimum.accumulate(
        future_distances * dp_epsilon + factor * future_influences.max(axis=(1, 2))
    )

    # Numbers of earlier records of each record that may be the worst: beyond the largest distances
    # all have the same two-sided quilts, and the one-sided ones are worst at the crossing.
    margin = int(past_distances[-1]) + int(future_distances[-1]) + 2  # records
    if n <= 2 * margin:
        n_earlier = np.arange(n)
    else:
        shift = (one_sided_future[-1] - one_sided_past[-1]) / dp_epsilon
        crossing = (n - 1 - (shift if math.isfinite(shift) else 0.0)) / 2.0
        near_crossing = np.clip(np.floor(crossing) + np.arange(-1, 3), 0, n - 1).astype(int)
        n_earlier = np.unique(np.r_[np.arange(margin), near_crossing, np.arange(n - margin, n)])
    n_later = n - 1 - n_earlier
    levels = np.full(len(n_earlier), n * dp_epsilon)  # the empty quilt
    # Positions of the largest tabulated distance that fits on each side; -1 if none does.
    past_index = np.searchsorted(past_distances, n_earlier, side="right") - 1
    future_index = np.searchsorted(future_distances, n_later, side="right") - 1
    fits_past = past_index >= 0
    fits_future = future_index >= 0
    two_sided_levels = two_sided[past_index, future_index]
    levels = np.where(fits_past & fits_future, np.minimum(levels, two_sided_levels), levels)
    past_levels = one_sided_past[past_index] + n_later * dp_epsilon
    levels = np.where(fits_past, np.minimum(levels, past_levels), levels)
    future_levels = one_sided_future[future_index] + n_earlier * dp_epsilon
    levels = np.where(fits_future, np.minimum(levels, future_levels), levels)
    return float(levels.max())


def blanket_influence(backward, forward, n):
    """Return the max-influence ``a`` of a record on its Markov blanket (its neighbors), in nats.

    ``backward`` and ``forward`` are the transition matrices of one step into the past and the
    future, ``n`` the number of records of the chain.
    """
    if n == 1:
        return 0.0
    past_ratios = largest_log_ratios(backward)
    future_ratios = largest_log_ratios(forward)
    if n > 2:
        return float((past_ratios + future_ratios).max())
    return float(max(past_ratios.max(), future_ratios.max()))


def spectral_smallest_n(spectral_gap, min_probability):
    """Return the least ``n`` for which some level satisfies ``n >= 2d`` of Zhao (2017), Lemma 4.

    Arguments are those of :func:`spectral_dp_epsilon`.
    """
    # d >= (1/g) ln(1/rho) with strict inequality: coth > 1.
    return 2 * (math.floor(-math.log(min_probability) / spectral_gap) + 1)


def spectral_dp_epsilon(bdp_epsilon, spectral_gap, min_probability, n):
    """Return the DP level ``h`` that Lemma 4 of Zhao (2017) proves sufficient for a BDP level.

    ``max_c min{(1-6c) e / (2d-1), (1/3-2c) e / (d+s)}`` over ``0 < c < 1/6`` with ``n >= 2d``; 0
    if no ``c`` qualifies. ``spectral_gap`` is ``g = 1 - max_{j>=2} |lambda_j|``,
    ``min_probability`` the smallest stationary probability ``rho``, and ``e`` the Bayesian DP
    level.

    ``d`` falls in steps as ``c`` grows while both terms fall in ``c``; so the best ``c`` for
    each integer ``d`` is the smallest that reaches it,
    ``c = (2/e) artanh(exp(-g d) / rho)``, and one pass over ``d`` finds the maximum.

    Zhao 2017, Adaptive Statistical Learning with Bayesian Differential Privacy, WPES'17,
    Lemma 4; ``s`` is defined in Section 5.3.
    """
    e = bdp_epsilon
    # Zhao 2017, Section 5.3: s = floor((1/g) ln((e^{e/6}+1) / (rho (e^{e/6}-1)))).
    s = math.floor(math.log(1.0 / (min_probability * math.tanh(e / 12.0))) / spectral_gap)
    start = math.floor(-math.log(min_probability) / spectral_gap) + 1
    best = 0.0
    while 2 * start <= n and e / (2 * start - 1) > best:
        d = np.arange(start, min(n // 2, start + 4095) + 1)
        ratio = np.exp(-spectral_gap * d) / min_probability
        with np.errstate(divide="ignore"):
            c = np.where(ratio < 1.0, (2.0 / e) * np.arctanh(np.minimum(ratio, 1.0)), math.inf)
        # Theory B4; Zhao 2017, Lemma 4.
        h = np.minimum((1.0 - 6.0 * c) * e / (2 * d - 1), (1.0 / 3.0 - 2.0 * c) * e / (d + s))
        best = max(best, float(h.max()))
        start = int(d[-1]) + 1
    return best * (1.0 - 1e-12)  # c = c(d) is approached, not always attained


def block_information(dp_epsilon, later_leakage, n):
    """Return a sum of squared block leakages / 8 on a chain, in nats (theory G1, B7).

    It is the smallest for a grid of block lengths.

    ``later_leakage`` is the leakage, in nats, that the records after a block add to the block's
    own.
    """
    return dp_epsilon**2 * block_variance_proxy(later_leakage / dp_epsilon, n) / 8.0


@leakage_bound.register(MarkovChain)
class ChainLeakageBound(LeakageBound):
    """Bounds of a chain, by the earlier and the later records of each record."""

    def check_method(self, n, method):
        chain = self.model
        if method == "blanket" and n > 1 and math.isinf(chain.diameter_):
            raise ValueError(
                "method='blanket' needs positive transition probabilities: use method='quilt'."
            )
        if method != "spectral":
            return
        applies = chain.spectral_gap_ > 0 and is_reversible(chain.transition, chain.stationary_)
        if not chain.observed and math.isinf(chain.diameter_):
            applies = False
        if not applies:
            raise ValueError(
                "method='spectral' needs an aperiodic and reversible chain, and without "
                "observed=True positive transition probabilities. Set method='tight' (B5)."
            )
        min_n = spectral_smallest_n(chain.spectral_gap_, float(chain.stationary_.min()))
        if not n >= min_n:
            raise ValueError(
                f"method='spectral' needs n >= 2d, here at least {min_n} records, got n={n}."
            )

    def leakage(self, dp_epsilon, n, method):
        if method == "tight":
            return self._tight_level(dp_epsilon, n)
        if method == "spectral":
            # The smallest Bayesian level for which dp_epsilon suffices. The DP level that suffices
            # increases with the Bayesian one, in jumps.
            suffices = lambda level: self._spectral_inverse(level, n) >= dp_epsilon  # noqa: E731
            sufficient, insufficient = doubled(suffices, float(dp_epsilon))
            bdp_epsilon = last_accepted(suffices, sufficient, insufficient)
        elif method == "quilt":
            bdp_epsilon = self._quilt_level(dp_epsilon, n, factor=4.0)
        else:
            # Theory B3; Zhao 2017, Lemma 3.
            influence = blanket_influence(self.backward, self.model.transition, n)
            bdp_epsilon = dp_epsilon + 4.0 * influence
        # The lemmas of the paper are about chains whose states are the records.
        if self.model.observed:
            return bdp_epsilon
        return max(bdp_epsilon, self._tight_level(dp_epsilon, n))

    def _spectral_inverse(self, bdp_epsilon, n):
        """Return a DP level that suffices for a Bayesian one, by :func:`spectral_dp_epsilon`."""
        chain = self.model
        min_probability = float(chain.stationary_.min())
        return spectral_dp_epsilon(float(bdp_epsilon), chain.spectral_gap_, min_probability, n)

    def inverse(self, bdp_epsilon, n, method):
        if method != "spectral":
            return super().inverse(bdp_epsilon, n, method)
        level = self._spectral_inverse(bdp_epsilon, n)
        return level if self.model.observed else min(level, self.model.dp_epsilon(bdp_epsilon, n))

    # -- the two sides of a record ----------------------------------------------------------

    @property
    def backward(self):
        """Transition matrix of the stationary chain run backwards."""
        distribution = self.model.stationary_
        matrix = self.model.transition.T * distribution[None, :] / distribution[:, None]
        return matrix / matrix.sum(axis=1, keepdims=True)

    def unknown_sides(self, dp_epsilon, n):
        """Return the leakage of the past and of the future of a record if nothing of it is known.

        Both are arrays of shape (n_sizes, n_directions), in nats (theory B7).
        """

        def compute():
            kernels = (self.backward, self.model.transition)
            n_directions = 2 if len(self.model.transition) == 2 else 1
            return [
                iterate_leakage(kernel_update(kernel), dp_epsilon, n - 1, n_directions=n_directions)
                for kernel in kernels
            ]

        return cached(self.model, ("unknown sides", dp_epsilon, n), compute)

    def _tight_level(self, dp_epsilon, n):
        """Return the best Bayesian DP level of theory B2, B5, B5′ and B7, in nats."""
        chain = self.model
        n_states = len(chain.transition)
        # Sides of which any records may be known (B5).
        contraction_sides = contracted_sides(chain.diameter_, dp_epsilon, n - 1)
        past_sides = contraction_sides
        future_sides = contraction_sides
        if chain.observed and n_states <= MAX_BRIDGE_STATES:

            def with_bridges(matrix, column_limits, unknown_sides):
                """Return the leakage of sides on which one record or none is known (theory B5′).

                ``unknown_sides``: that of sides on which none is known. The result is at most
                ``contraction_sides``, and equal to it if bridges do not settle.
                """
                bridges = bridge_sides(matrix, dp_epsilon, n - 1, column_limits=column_limits)
                if bridges is None:
                    return contraction_sides
                bridges_or_unknown = combine_sides(np.maximum, bridges, unknown_sides)
                return combine_sides(np.minimum, contraction_sides, bridges_or_unknown)

            past_unknown, future_unknown = self.unknown_sides(dp_epsilon, n)
            future_sides = with_bridges(chain.transition, np.ones(n_states), future_unknown)
            past_sides = with_bridges(chain.transition.T, chain.stationary_, past_unknown)
        leakage_of_sides = largest_sum_of_sides(past_sides, future_sides, n)
        level = min(dp_epsilon + leakage_of_sides, n * dp_epsilon)
        if chain.observed and n_states > 2:
            level = min(level, self._quilt_level(dp_epsilon, n, factor=2.0))
        return level

    def _quilt_level(self, dp_epsilon, n, *, factor):
        """Return the Bayesian DP level of :func:`quilt_leakage` for a DP level, in nats."""
        # Below this influence a longer quilt is not better. Rounded, so that searches for a level
        # use the cached tables.
        min_influence = 2.0 ** math.floor(math.log2(dp_epsilon / factor))
        past, future = (
            cached(
                self.model,
                ("influences", side, n, min_influence),
                lambda kernel=kernel: chain_influences(kernel, n - 1, min_influence),
            )
            for side, kernel in (("past", self.backward), ("future", self.model.transition))
        )
        return quilt_leakage(past, future, dp_epsilon, n, factor=factor)

    def later_leakage(self, dp_epsilon, n):
        """Return the leakage by all records after a record, in the better order of time (B7)."""
        return min(float(sides[-1].max()) for sides in self.unknown_sides(dp_epsilon, n))

    def sequential_information(self, dp_epsilon, n):
        return block_information(dp_epsilon, self.later_leakage(dp_epsilon, n), n)

    def posterior_bias(self, dp_epsilon, n):
        past, future = self.unknown_sides(dp_epsilon, n)  # leakage by size of the side, in nats
        n_rows = max(len(future), len(past))  # larger sides leak as the last row
        if n <= 4 * n_rows:
            records = np.arange(n)
            weights = np.ones(n)
        else:  # all records far from both ends have the same leakage: one represents them
            records = np.r_[np.arange(n_rows), n_rows, np.arange(n - n_rows, n)]
            weights = np.ones(len(records))
            weights[n_rows] = n - 2 * n_rows
        future_leakage = future[np.minimum(n - 1 - records, len(future) - 1)]
        past_leakage = past[np.minimum(records, len(past) - 1)]
        leakage = dp_epsilon + future_leakage + past_leakage
        leakage = np.minimum(leakage.max(axis=1), n * dp_epsilon)
        return float(weights @ np.tanh(leakage / 4.0) / n)  # theory G6
