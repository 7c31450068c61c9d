"""Which Bayesian DP level follows from a DP level: one calibration for each kind of model.

Components (theory B0, B1), lists of models, networks (messages on forests B6, B7; walks on any
graph B8), and how leakage passes through a kernel. Chains follow in ``_chains``.
"""

from __future__ import annotations

import math
from functools import singledispatch

import numpy as np
from scipy import sparse
from scipy.spatial.distance import cdist

from sklearn_bdp._bisection import safe_inverse
from sklearn_bdp.correlation._base import CorrelationModel
from sklearn_bdp.correlation._declared import WorstOf
from sklearn_bdp.correlation._network import NetworkModel


class Calibration:
    """Leakage of one model's records, which may follow each other inside components (theory B1).

    DP levels are positive, arguments are checked. The methods mean what those of the same name of
    :class:`CorrelationModel` mean.
    """

    def __init__(self, model):
        self.model = model

    def check_method(self, n, method):
        """Raise ValueError when ``method`` does not apply."""
        if method == "spectral":
            raise ValueError(
                "method='spectral' needs a transition matrix (MarkovChain); "
                f"{type(self.model).__name__} has none. Use method='tight'."
            )
        if method == "blanket" and self.model.largest_component(n) > 1:
            raise ValueError(
                "method='blanket' needs the strength of the dependence (MarkovNetwork or "
                f"BayesianNetwork); {self.model!r} knows structure only, so the "
                "influence of a neighbor may be infinite. Use method='tight'."
            )

    def leakage(self, dp_epsilon, n, method):
        """Return the BDP level that follows from a positive DP level."""
        # Theory B1 (B2 with the empty quilt): the whole component may follow the record.
        return self.model.largest_component(n) * dp_epsilon

    def inverse(self, bdp_epsilon, n, method):
        """Return a DP level that suffices, or 0."""
        return safe_inverse(lambda x: self.model.bdp_epsilon(x, n, method=method), bdp_epsilon)

    def sequential_information(self, dp_epsilon, n):
        """Return ``K`` of theory G1."""
        # Smaller blocks only add terms, since a part may still decide the rest.
        sizes, counts = self.model._sizes(n)
        return float(np.sum(counts * sizes.astype(float) ** 2)) * dp_epsilon**2 / 8.0

    def posterior_bias(self, dp_epsilon, n):
        """Return ``r`` of theory G6."""
        sizes, counts = self.model._sizes(n)
        return float(np.sum(counts * sizes * np.tanh(sizes * dp_epsilon / 4.0)) / n)


@singledispatch
def calibrate(model: CorrelationModel) -> Calibration:
    """Return the calibration of a correlation model.

    Parameters
    ----------
    model : CorrelationModel
        Any model.

    Returns
    -------
    Calibration
        Its bounds on leakage.
    """
    return Calibration(model)


@calibrate.register(WorstOf)
class WorstCalibration(Calibration):
    """A list of models: the worst of them (Song, Wang, Chaudhuri 2017: the class Theta)."""

    def check_method(self, n, method):
        for model in self.model.models:
            calibrate(model).check_method(n, method)

    def leakage(self, dp_epsilon, n, method):
        return max(m.bdp_epsilon(dp_epsilon, n, method=method) for m in self.model.models)

    def sequential_information(self, dp_epsilon, n):
        return max(m.sequential_information(dp_epsilon, n) for m in self.model.models)

    def posterior_bias(self, dp_epsilon, n):
        return max(m.posterior_bias(dp_epsilon, n) for m in self.model.models)

    def inverse(self, bdp_epsilon, n, method):
        return min(m.dp_epsilon(bdp_epsilon, n, method=method) for m in self.model.models)


@calibrate.register(NetworkModel)
class NetworkCalibration(Calibration):
    """Forests by messages along edges (B6, B7), any component by walks (B8) or its size (B1)."""

    def __init__(self, model):
        super().__init__(model)
        self.sizes = model._component_sizes[model.components_].astype(float)

    def messages(self, dp_epsilon):
        """Return the messages of the records in trees (theory B6)."""
        _, parent, diameters = self.model._rooted()
        return self.model._remember(
            ("messages", dp_epsilon),
            lambda: birkhoff_messages(parent.tolist(), diameters, dp_epsilon),
        )

    def factor(self):
        """Return what the DP level grows by at each record by walks (theory B8)."""
        model = self.model
        return self.model._remember(
            "factor", lambda: reach_factor(model.adjacency_, model._reach())
        )

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
                "method='blanket' needs positive probabilities (a neighbor that rules a value out "
                "has infinite influence). Use method='tight' or method='quilt'."
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

    ``upward`` goes from each node to its parent, ``below`` sums what comes from the children,
    ``total`` from all neighbours. ``diameters`` are those of the edges to the parents.
    """
    n = len(parent)
    gain, small = (-np.expm1(-diameters / 2)).tolist(), np.exp(-diameters / 2).tolist()
    log1p, expm1 = math.log1p, math.expm1
    below, upward, above = [0.0] * n, [0.0] * n, [0.0] * n
    # 4 artanh(tanh(D/4) tanh(w/4)) = 2 ln(1 + (1-a)(1-b)/(a+b)), a = e^{-D/2}, b = e^{-w/2}
    for v in range(len(parent) - 1, -1, -1):
        p = parent[v]
        if p >= 0:
            weight = dp_epsilon + below[v]
            x = expm1(-weight / 2)
            rest = small[v] + 1.0 + x
            message = 2.0 * log1p(-gain[v] * x / rest) if rest > 1e-15 else weight
            upward[v] = message if message < weight else weight
            below[p] += upward[v]
    for v in range(n):
        p = parent[v]
        if p >= 0:
            weight = dp_epsilon + below[p] + above[p] - upward[v]
            x = expm1(-weight / 2)
            rest = small[v] + 1.0 + x
            message = 2.0 * log1p(-gain[v] * x / rest) if rest > 1e-15 else weight
            above[v] = message if message < weight else weight
    below = np.array(below)
    # The subtraction above may round the wrong way; a part in 10^12 covers a million children.
    return upward, below, (below + np.array(above)) * (1.0 + 1e-12)


def reach_factor(matrix, reach):
    """Return factors ``f_i >= 1`` with BDP level at most ``f_i * dp_epsilon`` for record ``i``.

    Infinite where the route does not apply; ``reach`` comes from :func:`dobrushin_reach`.

    Let ``delta_k`` be the largest log-ratio of the mechanism's density when record ``k`` alone
    changes: ``dp_epsilon`` for every record. Replacing the density by its average over a fresh
    draw of record ``j`` given all others keeps its conditional expectation given the records an
    adversary knows, sets ``delta_j = 0`` and adds at most
    ``4 artanh(tanh(diameter_jk / 4) tanh(delta_j / 4)) <= tanh(diameter_jk / 4) delta_j`` to
    the neighbours ``k`` (Birkhoff). Repeating this everywhere but at record ``i`` carries all
    of ``delta`` to ``i`` or out of the system, so the leakage is at most ``dp_epsilon`` times
    the weight of all walks that end at ``i`` and visit it once,
    ``[(I-C)^{-1} 1]_i / [(I-C)^{-1}]_{ii}``; the denominator is at least
    ``1 + sum_k C_ik^2``. Known records only remove walks.
    """
    squares = sparse.csr_array(
        (np.tanh(matrix.data / 4.0) ** 2, matrix.indices, matrix.indptr), shape=matrix.shape
    ).sum(axis=1)
    return np.maximum(reach / (1.0 + squares), 1.0)


def kernel_leakage(kernel, weight):
    """Return ``L_P(w)``, in nats: what a record tells about its neighbour and all behind it.

    ``max_{u,v,A} ln[(1 + P(u,A)(e^w - 1)) / (1 + P(v,A)(e^w - 1))]``, where row ``u`` of ``kernel``
    is the distribution of the neighbour given value ``u``; zeros are allowed.

    For a ratio ``r`` the best set of a pair is ``{y : P(u,y) > r P(v,y)}`` and
    ``sum_y max(P(u,y) - r P(v,y), 0)`` is half of a city-block distance, so all pairs are tried
    at once; Dinkelbach's iteration then needs a handful of ratios.

    Cao, Yoshikawa, Xiao, Xiong 2017, Quantifying differential privacy under temporal
    correlations, Algorithm 1 (a linear-fractional programme per pair of rows).
    """
    # Theory B7; Cao et al. 2017, (15)-(18).
    if not weight > 0 or len(kernel) < 2:
        return 0.0
    if weight > 600.0:  # e^w overflows; the update grows no faster than its argument
        return kernel_leakage(kernel, 600.0) + (weight - 600.0)
    growth = math.expm1(weight)
    excess = 0.0  # r - 1, kept apart so that small leakage keeps its relative precision
    for _ in range(100):
        distance = cdist(kernel, kernel * (1.0 + excess), "cityblock")
        u, v = np.unravel_index(np.argmax(distance), distance.shape)
        chosen = kernel[u] > (1.0 + excess) * kernel[v]
        gain = float((kernel[u, chosen] - kernel[v, chosen]).sum())
        better = growth * gain / (1.0 + growth * float(kernel[v, chosen].sum()))
        if not better > excess * (1.0 + 1e-14):
            break
        excess = better
    return min(weight, math.log1p(excess))
