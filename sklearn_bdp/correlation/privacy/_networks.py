"""What a network leaks of a record: messages on forests, walks on any graph (theory B1, B6-B8)."""

from __future__ import annotations

import math

import numpy as np
from scipy import sparse

from sklearn_bdp.correlation._network import NetworkModel
from sklearn_bdp.correlation.privacy._calibration import Calibration, calibrate
from sklearn_bdp.correlation.privacy._chains import kernel_leakage


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
        super().check_method(n, method)
        if method == "blanket" and math.isinf(self._blanket(0.0).max()):
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
