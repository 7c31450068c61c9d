"""What a network leaks of a record: messages, layers, walks, exact quilts (theory B1-B3, B6-B8)."""

from __future__ import annotations

import math

import numpy as np
from scipy import sparse

from sklearn_bdp.correlation._network import NetworkModel
from sklearn_bdp.correlation.privacy._calibration import Calibration, calibrate
from sklearn_bdp.correlation.privacy._kernels import kernel_leakage
from sklearn_bdp.correlation.privacy._layers import search_layers
from sklearn_bdp.correlation.privacy._tables import COMPONENT_LIMIT, component_quilts, quilt_level


@calibrate.register(NetworkModel)
class NetworkCalibration(Calibration):
    """Forests by messages along edges (B6, B7), other components by layers, small ones exactly.

    Layers are breadth-first around each record (B6 with merged blocks); exact quilts (B2) need
    tables.
    """

    def __init__(self, model):
        super().__init__(model)
        self.sizes = model._component_sizes[model.components_].astype(float)
        self.edges = model.adjacency_

    def _remember(self, key, compute):
        return self.model._remember(("privacy", key), compute)

    def messages(self, dp_epsilon):
        """Return the messages of the records in trees (theory B6)."""
        _, parent, diameters = self.model._rooted()
        return self._remember(
            ("messages", dp_epsilon),
            lambda: birkhoff_messages(parent.tolist(), diameters, dp_epsilon),
        )

    def factor(self):
        """Return what the DP level grows by at each record by walks (theory B8)."""
        return self._remember("factor", lambda: reach_factor(self.edges, self.model._reach()))

    def layers(self):
        """Return the records outside trees, and the layers around them."""

        def compute():
            sources = np.flatnonzero(~self.model._is_tree[self.model.components_])
            return sources, search_layers(self.edges, sources, self.sizes[sources])

        return self._remember("layers", compute)

    def record_levels(self, dp_epsilon):
        """Return a BDP level for every record: the best of B1, B6, layers and quilts."""
        level = np.full(self.model.n_records, dp_epsilon)
        level[self.model._rooted()[0]] += self.messages(dp_epsilon)[2]
        if not self.model._is_tree.all():
            sources, layers = self.layers()
            level[sources] = layers.leakage(dp_epsilon)
        level = np.minimum(level, self.sizes * dp_epsilon)  # B1
        level = np.minimum(level, self.factor() * dp_epsilon)
        for record, influences in self._quilts().items():
            size = int(self.sizes[record])
            exact = quilt_level(influences, size, dp_epsilon, printed=False)
            level[record] = min(level[record], exact)
        return level

    # -- tables -----------------------------------------------------------------------------

    def _values(self):
        """Return the number of values of each record that tables give."""
        values = np.ones(self.model.n_records, dtype=np.int64)
        for scope, table in self.model._factors:
            values[scope[-1]] = table.shape[-1]
        return values

    def _joint_values(self):
        """Return the log of the number of joint values of each component."""
        return np.bincount(self.model.components_, weights=np.log(self._values()))

    def _quilts(self):
        """Return the exact influences of the quilts of each record in a small component."""
        if not self.model._factors:
            return {}

        def compute():
            components, known = self.model.components_, {}
            small = self._joint_values() <= math.log(COMPONENT_LIMIT) + 1e-9
            factors, quilts = {}, {}
            for scope, table in self.model._factors:
                factors.setdefault(int(components[scope[-1]]), []).append((scope, table))
            for component in np.flatnonzero(small).tolist():
                nodes = np.flatnonzero(components == component)
                quilts.update(self._quilts_of(nodes, factors[component], known))
            return quilts

        return self._remember("quilts", compute)

    def _quilts_of(self, nodes, factors, known):
        """Quilts of one component; alike components (families, say) are computed once."""
        place = {int(node): i for i, node in enumerate(nodes)}
        near = {
            i: {place[int(j)] for j in self.edges.indices[slice(*self.edges.indptr[v : v + 2])]}
            for v, i in place.items()
        }
        local = [(tuple(place[v] for v in scope), table) for scope, table in factors]
        values = [int(k) for k in self._remember("values", self._values)[nodes]]
        alike = (tuple(values), tuple((scope, t.shape, t.tobytes()) for scope, t in local))
        if alike not in known:
            known[alike] = component_quilts(near, local, values)
        return {int(nodes[i]): quilts for i, quilts in known[alike].items()}

    # -- levels -----------------------------------------------------------------------------

    def check_method(self, n, method):
        super().check_method(n, method)
        if method == "tight" or not self.model._factors:
            return
        largest = self._joint_values().max()
        if largest > math.log(COMPONENT_LIMIT) + 1e-9:
            raise ValueError(
                f"method={method!r} needs exact influences, which are computed for components of "
                f"at most {COMPONENT_LIMIT} joint values; the largest here has "
                f"{math.exp(largest):.3g}. Use method='tight', or declare influence=."
            )
        if method == "blanket" and math.isinf(self._table_lemma(0.0, method)):
            raise ValueError(
                "method='blanket' needs positive probabilities (a neighbor that rules a value out "
                "has infinite influence). Use method='tight' or method='quilt'."
            )

    def leakage(self, dp_epsilon, n, method):
        if method == "tight":
            return float(self.record_levels(dp_epsilon).max())
        if self.model._factors:
            return self._table_lemma(dp_epsilon, method)
        if method == "blanket":
            # Theory B3: the influence on the neighbours is at most the sum of the diameters.
            return dp_epsilon + 4.0 * float(self.edges.sum(axis=1).max())
        layers = self._remember(
            "all layers", lambda: search_layers(self.edges, np.arange(n), self.sizes)
        )
        return float(layers.quilted(dp_epsilon, self.sizes, 4.0).max())

    def _table_lemma(self, dp_epsilon, method):
        """Lemmas 2 and 3 of Zhao (2017) with exact influences."""
        level = dp_epsilon  # records without neighbours
        for record, influences in self._quilts().items():
            if method == "quilt":
                size = int(self.sizes[record])
                level = max(level, quilt_level(influences, size, dp_epsilon, printed=True))
            elif influences:  # the first quilt tried is the Markov blanket
                level = max(level, dp_epsilon + 4.0 * float(influences[0].max()))
        return level

    def _upward(self, dp_epsilon):
        """Message of each node to its parent when nothing below is known (theory B7)."""

        def compute():
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

        return self._remember(("upward", dp_epsilon), compute)

    def sequential_epsilon(self, dp_epsilon, n):
        levels = self.record_levels(dp_epsilon)
        level = float(levels.max())
        levels[self.model._rooted()[0]] = dp_epsilon + self._upward(dp_epsilon)[1]
        return min(level, float(np.minimum(levels, self.sizes * dp_epsilon).max()))

    def sequential_information(self, dp_epsilon, n):
        levels = self.record_levels(dp_epsilon)
        cost = np.bincount(self.model.components_, weights=levels**2)
        cost = np.minimum(cost, (self.model._component_sizes * dp_epsilon) ** 2)
        if self.model._is_tree.any():
            cost = np.minimum(cost, self.model._blocks(dp_epsilon, self._upward(dp_epsilon)[0]))
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
