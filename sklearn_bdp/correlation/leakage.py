"""Levels of Bayesian differential privacy that a DP level implies for correlated records.

Leakage about a record is the largest log-ratio of the probability of an answer, in nats, between
two values of this record. A side of a record of a chain is all records before it, or all after it.

The module has bounds for components (theory B0, B1), lists of models, networks (B6-B8) and chains
(B2-B5, B7). Code that computes intervals does not import it.
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

# Fixed points are approached from below. Iterations stop when the relative increase is at most
# this. `bound_later_terms` then adds a margin, so that the answer is not too small.
FIXED_POINT_TOLERANCE = 1e-13
# Work limit: bridges are computed for at most this many states, Birkhoff's contraction and quilts
# for any number.
MAX_BRIDGE_STATES = 24
POWER_ROUNDING = 1e-14  # rounding errors of matrix powers are not below this
# Two-sided quilts are tabulated by pairs of distances and pairs of values. If the table would have
# more numbers than this, each side takes its largest influence over pairs of values, a valid bound.
MAX_TABLE_SIZE = 5e7


class LeakageBound:
    """Bounds on the leakage of a model whose components are independent (theory B1).

    All levels are in nats, and DP levels are positive. ``n`` is the number of records. ``method``
    is that of :meth:`CorrelationModel.bdp_epsilon`.
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
        """Return a bound on the information that answers reveal, in nats (``K`` of theory G1)."""
        # Blocks smaller than a component only add terms: the records of a block may decide all
        # others of the component.
        sizes, n_components_per_size = component_sizes(self.model, n)
        return float(np.sum(n_components_per_size * sizes.astype(float) ** 2)) * dp_epsilon**2 / 8.0

    def posterior_bias(self, dp_epsilon, n):
        """Return a bound on the posterior bias of a mean score in [0, 1] (``r`` of theory G6)."""
        sizes, n_components_per_size = component_sizes(self.model, n)
        return float(np.sum(n_components_per_size * sizes * np.tanh(sizes * dp_epsilon / 4.0)) / n)


@singledispatch
def leakage_bound(model: CorrelationModel) -> LeakageBound:
    """Return the bounds on leakage of a correlation model.

    Parameters
    ----------
    model : CorrelationModel
        Any model but :class:`TimeOrdered`, for which ValueError is raised.

    Returns
    -------
    LeakageBound
        Object whose methods return bounds on leakage, information and bias.
    """
    return LeakageBound(model)


@leakage_bound.register(WorstOf)
class WorstLeakageBound(LeakageBound):
    """Bounds of a list of models: the weakest of their bounds (Song, Wang, Chaudhuri 2017)."""

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
    """Bounds of a network by messages on trees (theory B6, B7), walks (B8) and sizes (B1)."""

    def __init__(self, model):
        super().__init__(model)
        # Number of records in the component of each record.
        self.own_component_sizes = model._component_sizes[model.components_].astype(float)

    def messages(self, dp_epsilon):
        """Return :func:`birkhoff_messages` of the records in trees (theory B6).

        Vectors are in the order of ``NetworkModel._rooted_forest``.
        """
        _, parent, diameters = self.model._rooted_forest()
        return cached(
            self.model,
            ("messages", dp_epsilon),
            lambda: birkhoff_messages(parent.tolist(), diameters, dp_epsilon),
        )

    def leakage_factors(self):
        """Return :func:`leakage_factor` of each record of the network (theory B8)."""
        model = self.model
        return cached(
            model, "factor", lambda: leakage_factor(model.adjacency_, model._n_affected())
        )

    def record_levels(self, dp_epsilon):
        """Return each record's smallest Bayesian DP level of theory B1, B6 and B8, in nats."""
        levels = np.minimum(self.own_component_sizes, self.leakage_factors()) * dp_epsilon
        tree_records, _, _ = self.model._rooted_forest()
        _, _, total_messages = self.messages(dp_epsilon)
        levels[tree_records] = np.minimum(levels[tree_records], dp_epsilon + total_messages)
        return levels

    def _blanket_levels(self, dp_epsilon):
        """Return a Bayesian DP level for each record by its Markov blanket, in nats (theory B3)."""
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
            levels = np.minimum(levels, self.own_component_sizes * dp_epsilon)
        return float(levels.max())

    def upward_messages(self, dp_epsilon):
        """Return the message of each record to its parent, and the sum of those from its children.

        A message bounds the leakage, in nats, that the subtree of a record adds about its parent if
        none of its records is known (theory B7; B6 without tables). Two vectors in the order of
        ``NetworkModel._rooted_forest``; messages of roots and sums of leaves are 0.
        """
        upward, from_children, _ = self.messages(dp_epsilon)
        if not self.model._factors:
            return upward, from_children
        kernels = self.model._kernels()
        _, parent_array, _ = self.model._rooted_forest()
        parent = parent_array.tolist()
        upward = [0.0] * len(parent)
        from_children = [0.0] * len(parent)
        message_by_key = {}  # by the id of the kernel and the sum from the children
        for v in range(len(parent) - 1, -1, -1):
            if parent[v] >= 0:
                key = (id(kernels[v]), from_children[v])
                if key not in message_by_key:
                    message_by_key[key] = kernel_leakage(kernels[v], dp_epsilon + from_children[v])
                upward[v] = message_by_key[key]
                from_children[parent[v]] += upward[v]
        return upward, np.array(from_children)

    def sequential_information(self, dp_epsilon, n):
        # Sums of squared leakage per component for partitions into single records, into one block,
        # and, in trees, into blocks of several sizes.
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
    """Return messages ``(upward, from_children, total)`` on a rooted forest, in nats (theory B6).

    A message bounds the leakage about a node that one neighbor and all nodes beyond it add.
    ``upward[v]`` is the message from node ``v`` to its parent, ``from_children[v]`` the sum of the
    messages from its children, and ``total[v]`` the sum of those from all its neighbors.
    ``parent[v]``: the parent of ``v``, which is less than ``v``, or -1 for roots. ``diameters[v]``:
    projective diameter of the edge to the parent, in nats.
    """
    n = len(parent)
    a = np.exp(-diameters / 2).tolist()
    complement_of_a = (-np.expm1(-diameters / 2)).tolist()
    log1p = math.log1p
    expm1 = math.expm1
    from_children = [0.0] * n
    upward = [0.0] * n
    downward = [0.0] * n  # from the parent of each node

    def message_along_edge(v, leakage):
        """Return the message along the edge between ``v`` and its parent, in either direction.

        ``leakage``: leakage about the sender from itself and all nodes beyond it, in nats.
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
            upward[v] = message_along_edge(v, dp_epsilon + from_children[v])
            from_children[p] += upward[v]
    for v in range(n):
        p = parent[v]
        if p >= 0:
            leakage_about_parent = dp_epsilon + from_children[p] + downward[p] - upward[v]
            downward[v] = message_along_edge(v, leakage_about_parent)
    from_children = np.array(from_children)
    # The subtraction may round the wrong way; a part in 10^12 covers a million children.
    total = (from_children + np.array(downward)) * (1.0 + 1e-12)
    return upward, from_children, total


def leakage_factor(matrix, n_affected):
    """Return, for each record, an upper bound on its Bayesian DP level / DP level (theory B8).

    It is ``max(1, n_affected[i] / (1 + sum_k tanh(diameter_ik / 4)^2))`` for record ``i``.
    ``matrix``: CSR matrix of edge diameters in nats. ``n_affected``: bounds of
    :func:`~sklearn_bdp.correlation.network.dobrushin_n_affected`, some of which may be infinite.
    """
    squared_contractions = sparse.csr_array(
        (np.tanh(matrix.data / 4.0) ** 2, matrix.indices, matrix.indptr), shape=matrix.shape
    )
    return np.maximum(n_affected / (1.0 + squared_contractions.sum(axis=1)), 1.0)


def kernel_leakage(kernel, leakage_beyond):
    """Return the leakage about a record that a neighbor and all records beyond it add, in nats.

    It is ``max_{u,v,A} ln[(1 + P(u,A)(e^w - 1)) / (1 + P(v,A)(e^w - 1))]`` over values ``u, v`` of
    the record and sets ``A`` of values of the neighbor (theory B7). Row ``u`` of ``kernel`` is the
    distribution ``P(u,.)`` of the neighbor given ``u``. ``leakage_beyond``: leakage ``w`` about the
    neighbor from itself and all records beyond it. If ``w`` is not positive, or the record has one
    value only, the result is 0.
    """
    # Cao, Yoshikawa, Xiao, Xiong 2017, Quantifying differential privacy under temporal
    # correlations, (15)-(18). For a ratio r the best set of a pair of rows is
    # {y : P(u,y) > r P(v,y)}. The sum of max(P(u,y) - r P(v,y), 0) over y is half of a city-block
    # distance, up to a constant that all pairs share. So all pairs are tried at once, and
    # Dinkelbach's iteration needs few ratios.
    if not leakage_beyond > 0 or len(kernel) < 2:
        return 0.0
    if leakage_beyond > 600.0:  # e^w overflows; the result grows no faster than w
        return kernel_leakage(kernel, 600.0) + (leakage_beyond - 600.0)
    expm1_of_w = math.expm1(leakage_beyond)  # e^w - 1
    excess = 0.0  # r - 1, so that small leakage keeps its relative precision
    for _ in range(100):
        distances = cdist(kernel, kernel * (1.0 + excess), "cityblock")
        u, v = np.unravel_index(np.argmax(distances), distances.shape)
        best_set = kernel[u] > (1.0 + excess) * kernel[v]
        difference = float((kernel[u, best_set] - kernel[v, best_set]).sum())
        denominator = 1.0 + expm1_of_w * float(kernel[v, best_set].sum())
        next_excess = expm1_of_w * difference / denominator
        if not next_excess > excess * (1.0 + 1e-14):
            break
        excess = next_excess
    return min(leakage_beyond, math.log1p(excess))


def contract(diameter, log_range):
    """Return ``4 artanh(tanh(diameter/4) tanh(log_range/4))`` elementwise (Birkhoff), in nats.

    This bounds the range of the log of a function after averaging by a kernel. ``diameter``:
    projective diameter of the kernel, in nats. ``log_range``: range of the log of the function
    before averaging, in nats. Both may be infinite, and the result exceeds neither.
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
    """Return the largest ``ln h(0)/h(1)`` and ``ln h(1)/h(0)``, but at least 0, as an array of two.

    Here ``h(u) = kernel[u, 0] g(0) + kernel[u, 1] g(1)`` for any function ``g`` of a state.
    ``leakages_beyond``: the largest ``ln g(0)/g(1)`` and ``ln g(1)/g(0)``, in nats.
    """
    # h(0)/h(1) is monotone in g(0)/g(1), so the two extreme values decide.
    (p, _), (q, complement_of_q) = kernel.tolist()  # probabilities of state 0 given 0 and given 1
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
    """Return a function from leakage about a neighbor to that about a record through it, in nats.

    Row ``u`` of ``kernel`` is the distribution of the neighbor given value ``u`` of the record.
    Argument and result of the function are arrays: of both directions for two states
    (:func:`two_state_leakage`), otherwise of one number (:func:`kernel_leakage`).
    """
    if kernel.shape == (2, 2):
        return lambda leakages: two_state_leakage(kernel, leakages)
    return lambda leakages: np.array([kernel_leakage(kernel, float(np.max(leakages)))])


def iterate_leakage(update, dp_epsilon, n_steps, *, n_directions=1, max_iterations=None):
    """Return ``a_0 = 0, a_1 = update(dp_epsilon + a_0), …`` up to ``a_m`` with ``m = n_steps``.

    The result has one row per term and ``n_directions`` columns, in nats. After convergence or
    ``max_iterations`` steps, one last row is an upper bound on all further terms. ``update``:
    result of :func:`kernel_update`, with 2 directions for two states, otherwise 1. If
    ``max_iterations`` is None, it is 200 for 1 direction and 20,000 for 2.
    """
    if max_iterations is None:
        max_iterations = 200 if n_directions == 1 else 20_000
    terms = [np.zeros(n_directions)]
    while len(terms) <= n_steps:
        term = update(dp_epsilon + terms[-1])
        increase = float(np.max(term - terms[-1]))
        terms.append(np.maximum(term, terms[-1]))
        is_converged = not increase > FIXED_POINT_TOLERANCE * float(np.max(term))
        if len(terms) > max_iterations or is_converged:
            increase = max(increase, 0.0)
            terms.append(bound_later_terms(update, dp_epsilon, terms[-1], increase, n_steps))
            break
    return np.array(terms[: n_steps + 1])


def bound_later_terms(update, dp_epsilon, term, increase, n_steps):
    """Return an upper bound on all terms after ``term`` in :func:`iterate_leakage`, in nats.

    It is some ``b >= term`` with ``update(dp_epsilon + b) <= b``, or ``n_steps * dp_epsilon`` if no
    smaller one is found. ``update`` must be increasing. ``term``: array with one entry per
    direction. ``increase``: lower bound on the first margin above ``term`` to try; not used with 2
    directions.
    """
    trivial_bound = n_steps * dp_epsilon
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

    largest_margin = np.nextafter(trivial_bound - np.max(term), 0.0)
    bracket = doubled(is_bound, first_margin, largest=largest_margin)
    if bracket is None:
        return np.maximum(term, trivial_bound)
    sufficient_margin, insufficient_margin = bracket
    tolerance = 1e-9 * float(np.max(term + sufficient_margin))
    margin = last_accepted(
        is_bound, sufficient_margin, insufficient_margin, steps=40, tolerance=tolerance
    )
    return term + margin


# A *side* of a record of a chain is all records before it, or all after it. Leakages of sides are
# arrays of shape (n_rows, n_directions): row m is the leakage, in nats, that a side of m records
# adds. A side of more records than there are rows adds at most the last row.


def side_leakage_by_contraction(diameter, dp_epsilon, n_steps, *, n_exact=256):
    """Return bounds on the leakage that one side of a record of a chain adds (theory B5).

    Shape (n_rows, 1), in nats: row ``m`` is for the ``m`` records before it, or after it, of which
    any may be known. The largest ``m`` is ``n_steps``. If this exceeds ``n_exact``, the last row is
    for all ``m`` above ``n_exact``. ``diameter``: projective diameter of the chain in nats.
    """
    leakages = [0.0]  # by the number of records
    for _ in range(min(n_steps, n_exact)):
        leakages.append(contract(diameter, dp_epsilon + leakages[-1]))
    if n_steps > n_exact:
        # At the fixed point a, z = e^{a/2} - 1 solves s z^2 + (2s - q) z = (1 - s) q with
        # s = e^{-diameter/2}, q = 1 - e^{-dp_epsilon/2}; the form of the root avoids cancellation.
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
        leakages.append(max(leakages[-1], bound))
    return np.array(leakages)[:, None]


def combine_side_leakages(operation, leakages, other_leakages):
    """Return ``operation(leakages, other_leakages)``, repeating the last row of the shorter one.

    Row ``m`` of both arrays is the leakage that a side of ``m`` records adds. ``operation``: a
    function of two arrays, such as ``np.minimum``.
    """
    n_records = np.arange(max(len(leakages), len(other_leakages)))  # of each row
    return operation(
        leakages[np.minimum(n_records, len(leakages) - 1)],
        other_leakages[np.minimum(n_records, len(other_leakages) - 1)],
    )


def largest_sum_of_side_leakages(past, future, n):
    """Return the largest ``past[m] + future[n - 1 - m]`` over ``n`` records of a chain, in nats.

    Row ``m`` of ``past`` (``future``) is the leakage that ``m`` earlier (later) records add.
    Numbers of records beyond the last row have its leakage.
    """
    # Numbers of earlier records; between both ends, all records have the same sum.
    n_earlier = np.arange(min(n, len(past) + len(future)))
    n_earlier = np.r_[n_earlier, n - 1 - n_earlier]
    past_leakage = past[np.minimum(n_earlier, len(past) - 1)]
    future_leakage = future[np.minimum(n - 1 - n_earlier, len(future) - 1)]
    return float((past_leakage + future_leakage).max())


def side_leakage_by_bridges(matrix, dp_epsilon, n_steps, *, column_limits, max_iterations=4000):
    r"""Return bounds on the leakage that one side of a record of a chain adds (theory B5′).

    Shape (n_rows, n_directions), in nats: row ``m`` is for sides whose nearest known record is at
    most ``m`` steps away. If there are fewer than ``n_steps + 1`` rows, the last one is for all
    larger distances. None if no bound for these is found in ``max_iterations`` steps, or in fewer
    for more than two states.

    ``matrix``: transition matrix ``M`` for later records, its transpose for earlier ones. The
    kernel of one step towards value ``s``, known ``j`` steps away, is :math:`H(u,y) \propto
    M(u,y)\, M^{j-1}(y,s)`. ``column_limits``: the vector to which columns of powers of ``M`` are
    proportional in the limit. This is ones for later records, the stationary distribution for
    earlier ones.
    """
    n_states = len(matrix)
    n_directions = 2 if n_states == 2 else 1
    limit_kernel = matrix * column_limits[None, :]
    limit_kernel /= limit_kernel.sum(axis=1, keepdims=True)
    update_in_limit = kernel_update(limit_kernel)
    leakages = np.zeros((n_states, n_directions))  # A(j, s), one row for each known value s
    power = np.eye(n_states)
    # A side without records, and a side whose nearest record is known, add nothing.
    rows = [np.zeros(n_directions), np.zeros(n_directions)]
    if n_states > 2:
        max_iterations = min(max_iterations, 5000 // n_states)  # a work limit
    while len(rows) <= n_steps:
        power = power @ matrix
        power /= power.max()  # only ratios matter; avoids underflow
        leakages = _leakages_by_known_value(matrix, power, dp_epsilon, leakages)
        largest_leakage = leakages.max(axis=0)
        rows.append(np.maximum(rows[-1], largest_leakage))
        # Influence of the known value, in nats: the largest ln max/min of a column.
        scaled_power = power / column_limits[:, None]
        column_minima = scaled_power.min(axis=0)
        drift = np.inf
        if column_minima.min() > 0:
            drift = float(np.log(scaled_power.max(axis=0) / column_minima).max())
        is_settled = drift <= max(1e-8 * dp_epsilon, POWER_ROUNDING)
        if is_settled or (len(rows) > max_iterations and np.isfinite(drift)):

            def update_with_drift(leakages, drift=drift):
                # E_u[qg]/E_v[qg] * E_v[q]/E_u[q] with ln q of range `drift` at most
                drift_leakages = np.full(len(leakages), drift)
                return update_in_limit(leakages + drift) + update_in_limit(drift_leakages)

            later_bound = bound_later_terms(
                update_with_drift, dp_epsilon, largest_leakage, drift, n_steps
            )
            rows.append(np.maximum(rows[-1], later_bound))
            break
        if len(rows) > max_iterations:
            return None
    return np.array(rows[: n_steps + 1])


def _leakages_by_known_value(matrix, power, dp_epsilon, leakages):
    """Return the leakage of a side whose nearest known record is ``k`` steps away, in nats.

    Row ``s`` is for the known value ``s``, with one column per direction. ``leakages``: the same
    for ``k - 1`` steps. ``matrix``: transition matrix of one step towards the known record.
    ``power``: power ``k - 1`` of ``matrix``, up to a factor.
    """
    next_leakages = np.zeros_like(leakages)
    for s in range(len(matrix)):
        bridge = matrix * power[:, s][None, :]
        totals = bridge.sum(axis=1)
        can_reach_s = totals > 0
        if can_reach_s.sum() > 1:
            update = kernel_update(bridge[can_reach_s] / totals[can_reach_s, None])
            next_leakages[s] = update(dp_epsilon + leakages[s])
    return next_leakages


def largest_log_ratios(distributions):
    """Return the matrix of ``max_s ln P[u, s] / P[v, s]`` for all rows ``u, v``, in nats.

    Entries are at least 0 and may be infinite. ``distributions``: matrix ``P`` with one probability
    distribution per row.
    """
    n_rows = len(distributions)
    largest = np.zeros((n_rows, n_rows))
    for u in range(n_rows):
        with np.errstate(divide="ignore", invalid="ignore"):
            # log1p of the difference keeps small influences precise
            log_ratios = np.log1p((distributions[u] - distributions) / distributions)
        is_absent = (distributions[u] == 0) | np.isnan(log_ratios)
        log_ratios = np.where(is_absent, -math.inf, log_ratios)
        largest[u] = np.maximum(log_ratios.max(axis=1), 0.0)
    return largest


def chain_influences(kernel, max_distance, min_influence):
    """Return distances in records, and the influence of a record on the one at each distance.

    Influences are ``max_s ln P[s | u] / P[s | v]`` in nats for all values ``u, v`` of the record,
    of shape (n_distances, n_states, n_states). Distances are all up to 256, then grow by 2%. They
    end at ``max_distance``, or at the first with no influence above ``min_influence``. ``kernel``:
    transition matrix of one step away from the record.
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
    """Return the influence of a record on an earlier and a later one together, in nats.

    ``past``, ``future``: influences from :func:`chain_influences`. The result has a row per past
    distance and a column per future distance. It is the largest sum of both influences over pairs
    of values, or an upper bound on it if there are too many pairs of distances and of values.
    """
    # Both records are independent given the record between them, so their influences add. A known
    # record between them would only separate one of them.
    n_states = past.shape[1]
    if len(past) * len(future) * n_states * n_states > MAX_TABLE_SIZE:
        return past.max(axis=(1, 2))[:, None] + future.max(axis=(1, 2))[None, :]
    largest = np.zeros((len(past), len(future)))
    for u in range(n_states):
        for v in range(n_states):
            if u != v:
                influences = past[:, None, u, v] + future[None, :, u, v]
                np.maximum(largest, influences, out=largest)
    return largest


def quilt_leakage(past, future, dp_epsilon, n, *, factor=4.0):
    """Return the Bayesian DP level of a chain by the best quilt of each record, in nats.

    A quilt ``Q`` of record ``i`` is an earlier record, a later one, both, or empty. The level is
    ``max_i min_Q [(|N| + 1) dp_epsilon + factor * b]``. ``N`` is the set of other records that
    ``Q`` does not separate from ``i``, and ``b`` the influence of ``i`` on ``Q`` in nats. ``past``,
    ``future``: pairs of distances and influences from :func:`chain_influences`. ``n``: number of
    records. ``factor``: 4 as printed by Zhao (2017), or 2, which suffices (theory B2).
    """
    if n == 1:
        return dp_epsilon
    past_distances, past_influences = past
    future_distances, future_influences = future
    # Levels of quilts by the distances of their records, then the smallest up to these distances.
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

    # Numbers of earlier records, of the records that may be the worst: beyond the largest
    # distances all have the same two-sided quilts, and one-sided ones are worst at the crossing.
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
    """Return the largest influence of a record of a chain on its Markov blanket, in nats.

    The blanket is the records next to it. ``backward``, ``forward``: transition matrices of one
    step into the past and into the future. ``n``: number of records of the chain.
    """
    if n == 1:
        return 0.0
    past_ratios = largest_log_ratios(backward)
    future_ratios = largest_log_ratios(forward)
    if n > 2:
        return float((past_ratios + future_ratios).max())
    return float(max(past_ratios.max(), future_ratios.max()))


def spectral_smallest_n(spectral_gap, min_probability):
    """Return the least number of records to which Lemma 4 of Zhao (2017) applies at some level.

    Arguments are those of :func:`spectral_dp_epsilon`.
    """
    # d >= (1/g) ln(1/rho) with strict inequality: coth > 1.
    return 2 * (math.floor(-math.log(min_probability) / spectral_gap) + 1)


def spectral_dp_epsilon(bdp_epsilon, spectral_gap, min_probability, n):
    """Return the DP level ``h`` that Lemma 4 of Zhao (2017) proves sufficient for a BDP level.

    It is ``max_c min{(1-6c) e / (2d-1), (1/3-2c) e / (d+s)}`` over ``0 < c < 1/6`` with ``n >=
    2d``, or 0 if there is no such ``c``. ``bdp_epsilon``: the Bayesian DP level ``e`` in nats.
    ``spectral_gap``: ``g = 1 - max_{j>=2} |lambda_j|``. ``min_probability``: the smallest
    stationary probability ``rho``. ``n``: number of records.

    Zhao 2017, Adaptive Statistical Learning with Bayesian Differential Privacy, WPES'17,
    Lemma 4. Theory B4 has the numbers of records ``d``, which depends on ``c``, and ``s``.
    """
    # d falls in steps as c grows, and both terms fall in c. So the best c for each integer d is the
    # smallest that reaches it, c = (2/e) artanh(exp(-g d) / rho).
    e = bdp_epsilon
    # Zhao 2017, Section 5.3: s = floor((1/g) ln((e^{e/6}+1) / (rho (e^{e/6}-1)))).
    s = math.floor(math.log(1.0 / (min_probability * math.tanh(e / 12.0))) / spectral_gap)
    first_d = math.floor(-math.log(min_probability) / spectral_gap) + 1
    best_level = 0.0
    while 2 * first_d <= n and e / (2 * first_d - 1) > best_level:
        d = np.arange(first_d, min(n // 2, first_d + 4095) + 1)
        ratio = np.exp(-spectral_gap * d) / min_probability
        with np.errstate(divide="ignore"):
            c = np.where(ratio < 1.0, (2.0 / e) * np.arctanh(np.minimum(ratio, 1.0)), math.inf)
        # Theory B4; Zhao 2017, Lemma 4.
        h = np.minimum((1.0 - 6.0 * c) * e / (2 * d - 1), (1.0 / 3.0 - 2.0 * c) * e / (d + s))
        best_level = max(best_level, float(h.max()))
        first_d = int(d[-1]) + 1
    return best_level * (1.0 - 1e-12)  # c = c(d) is approached, not always attained


def block_information(dp_epsilon, later_leakage, n):
    """Return a bound on the sum of squared leakages of blocks of a chain, divided by 8, in nats.

    It is ``K`` of theory G1 and B7. Blocks have the best of several lengths. ``later_leakage``:
    leakage, in nats, that all records after a block add. ``n``: number of records.
    """
    return dp_epsilon**2 * block_variance_proxy(later_leakage / dp_epsilon, n) / 8.0


@leakage_bound.register(MarkovChain)
class ChainLeakageBound(LeakageBound):
    """Bounds on the leakage of a Markov chain (theory B2-B5, B7)."""

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
            # The smallest Bayesian level for which dp_epsilon suffices.
            suffices = lambda level: self._spectral_inverse(level, n) >= dp_epsilon  # noqa: E731
            sufficient_level, insufficient_level = doubled(suffices, float(dp_epsilon))
            bdp_epsilon = last_accepted(suffices, sufficient_level, insufficient_level)
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
        """Return the DP level that suffices for a Bayesian one by :func:`spectral_dp_epsilon`."""
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

    def unknown_side_leakages(self, dp_epsilon, n):
        """Return the leakages that earlier and later records add if none of them is known (B7).

        Two arrays of shape (n_rows, n_directions), in nats. Row ``m`` is for ``m`` earlier (later)
        records; the last row is also a bound for all larger ``m``.
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
        """Return the smallest applicable Bayesian DP level of theory B2, B5, B5′, B7, in nats."""
        chain = self.model
        n_states = len(chain.transition)
        # Leakage of the m records on one side in row m: for any known records (B5).
        by_contraction = side_leakage_by_contraction(chain.diameter_, dp_epsilon, n - 1)
        past_leakages = by_contraction
        future_leakages = by_contraction
        if chain.observed and n_states <= MAX_BRIDGE_STATES:

            def with_bridges(matrix, column_limits, if_none_known):
                """Return the smaller leakage of one side by theory B5 and B5′.

                ``if_none_known``: leakage of one side on which no record is known. Other arguments
                are those of :func:`side_leakage_by_bridges`.
                """
                if_some_known = side_leakage_by_bridges(
                    matrix, dp_epsilon, n - 1, column_limits=column_limits
                )
                if if_some_known is None:
                    return by_contraction
                by_bridges = combine_side_leakages(np.maximum, if_some_known, if_none_known)
                return combine_side_leakages(np.minimum, by_contraction, by_bridges)

            past_unknown, future_unknown = self.unknown_side_leakages(dp_epsilon, n)
            future_leakages = with_bridges(chain.transition, np.ones(n_states), future_unknown)
            past_leakages = with_bridges(chain.transition.T, chain.stationary_, past_unknown)
        leakage_of_others = largest_sum_of_side_leakages(past_leakages, future_leakages, n)
        level = min(dp_epsilon + leakage_of_others, n * dp_epsilon)
        if chain.observed and n_states > 2:
            level = min(level, self._quilt_level(dp_epsilon, n, factor=2.0))
        return level

    def _quilt_level(self, dp_epsilon, n, *, factor):
        """Return the Bayesian DP level of :func:`quilt_leakage` for a DP level, in nats.

        ``factor``: argument of :func:`quilt_leakage`.
        """
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
        """Return the leakage of all earlier or of all later records, the smaller, in nats (B7)."""
        return min(
            float(leakages[-1].max()) for leakages in self.unknown_side_leakages(dp_epsilon, n)
        )

    def sequential_information(self, dp_epsilon, n):
        return block_information(dp_epsilon, self.later_leakage(dp_epsilon, n), n)

    def posterior_bias(self, dp_epsilon, n):
        # Leakage in nats by the number of earlier or later records; the last row is for all more.
        past, future = self.unknown_side_leakages(dp_epsilon, n)
        n_rows = max(len(future), len(past))
        if n <= 4 * n_rows:
            records = np.arange(n)
            n_represented = np.ones(n)
        else:  # all records far from both ends have the same leakage: one represents them
            records = np.r_[np.arange(n_rows), n_rows, np.arange(n - n_rows, n)]
            n_represented = np.ones(len(records))
            n_represented[n_rows] = n - 2 * n_rows
        future_leakage = future[np.minimum(n - 1 - records, len(future) - 1)]
        past_leakage = past[np.minimum(records, len(past) - 1)]
        leakage = dp_epsilon + future_leakage + past_leakage
        leakage = np.minimum(leakage.max(axis=1), n * dp_epsilon)
        return float(n_represented @ np.tanh(leakage / 4.0) / n)  # theory G6
