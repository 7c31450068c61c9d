"""Networks of records with known strength of dependence: what all of them share."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from sklearn_bdp._typing import Array
from sklearn_bdp.correlation._base import CorrelationModel
from sklearn_bdp.correlation._components import unnamed_groups
from sklearn_bdp.correlation._networks._dobrushin import dobrushin_reach, reach_factor
from sklearn_bdp.correlation._networks._exact_quilts import (
    COMPONENT_LIMIT,
    component_quilts,
    quilt_level,
)
from sklearn_bdp.correlation._networks._factors import (
    collect_values,
    component_factors,
    rooted_kernels,
)
from sklearn_bdp.correlation._networks._forest import (
    best_block_costs,
    birkhoff_messages,
    couplings,
    rooted,
)
from sklearn_bdp.correlation._networks._graph import GraphModel
from sklearn_bdp.correlation._networks._influence import layer_influence, path_influence
from sklearn_bdp.correlation._networks._layers import search_layers
from sklearn_bdp.correlation._shared._leakage import kernel_leakage
from sklearn_bdp.correlation._shared._splitting import (
    check_indices,
    random_folds,
    random_split,
)
from sklearn_bdp.correlation._shared._transition import dobrushin
from sklearn_bdp.correlation._tails import component_log_tail, component_lower_limit


class NetworkModel(GraphModel):
    """Shared part of networks: a graph of edge diameters and, where given, the factors.

    Forest components use messages along edges (theory B6, B7), other components the layers
    around each record (B6 with merged blocks), small ones with tables also exact quilts (B2).
    """

    _factors = ()
    _given_rest: bool = False  # whether all other records are given (theory G13)
    _kind: str
    _caveats: tuple[str, ...] = ()
    _words: str = ""  # where the strength comes from, when it was not declared

    def _set_network(self, matrix, factors=()):
        self._set_graph(matrix)
        self._factors = tuple(factors)
        sizes = np.bincount(self.components_)
        edges = np.bincount(self.components_, weights=np.diff(matrix.indptr)) / 2
        self._component_sizes = sizes
        self._is_tree = edges == sizes - 1  # per component
        self._n_values = collect_values(factors, matrix.shape[0]) if factors else None

    # -- derived structure, computed once ---------------------------------------------------

    def _rooted(self):
        """Order of the records in tree components, positions of parents, diameters to them."""

        def compute():
            matrix = self.adjacency_
            order, parent = rooted(matrix, self.components_, self._is_tree[self.components_])
            child = np.flatnonzero(parent >= 0)
            diameters = np.zeros(len(parent))
            diameters[child] = _entries(matrix, order[child], order[parent[child]])
            return order, parent, diameters

        return self._remember("rooted", compute)

    def _kernels(self):
        """Kernel of each position given its parent, or None where only diameters are known."""
        if not self._factors or not self._is_tree.any():
            return None

        def compute():
            tree = self._is_tree[self.components_]
            factors = [f for f in self._factors if tree[f[0][0]]]
            order, parent, _ = self._rooted()
            return rooted_kernels(factors, order, parent)

        return self._remember("kernels", compute)

    def _blocks(self, unit, passed):
        """Best block costs per component (infinite where it is not a tree)."""
        order, parent, _ = self._rooted()
        costs = best_block_costs(parent.tolist(), self.components_[order].tolist(), unit, passed)
        costs = np.r_[costs, np.zeros(self.n_components_ - len(costs))]
        return np.where(self._is_tree, costs, math.inf)

    def _reach(self):
        return self._remember("reach", lambda: dobrushin_reach(self.adjacency_, self.components_))

    def _reach_factor(self):
        return self._remember("factor", lambda: reach_factor(self.adjacency_, self._reach()))

    def _layers(self):
        def compute():
            sources = np.flatnonzero(~self._is_tree[self.components_])
            sizes = self._component_sizes[self.components_[sources]]
            return sources, search_layers(self.adjacency_, sources, sizes)

        return self._remember("layers", compute)

    def _small_components(self):
        """Components with tables that exact quilts can handle, with their quilts."""
        if not self._factors:
            return {}

        def compute():
            result, known = {}, {}
            logs = np.bincount(self.components_, weights=np.log(self._n_values))
            small = logs <= math.log(COMPONENT_LIMIT) + 1e-9
            order = np.argsort(self.components_, kind="stable")
            ends = np.cumsum(np.bincount(self.components_))
            for component, factors in component_factors(self._factors, self.components_).items():
                if small[component]:
                    start = ends[component - 1] if component else 0
                    nodes = order[start : ends[component]]
                    result[component] = self._quilts_of(nodes, factors, known)
            return result

        return self._remember("quilts", compute)

    def _quilts_of(self, nodes, factors, known):
        """Quilts of one component; alike components (families, say) are computed once."""
        place = {int(node): i for i, node in enumerate(nodes)}
        matrix = self.adjacency_
        near = {
            i: {place[int(j)] for j in matrix.indices[matrix.indptr[v] : matrix.indptr[v + 1]]}
            for v, i in place.items()
        }
        local = [(tuple(place[int(v)] for v in scope), table) for scope, table in factors]
        values = [int(self._n_values[v]) for v in nodes]
        tables = tuple((scope, table.shape, table.tobytes()) for scope, table in local)
        alike = (tuple(values), tables)
        if alike not in known:
            known[alike] = component_quilts(near, local, values)
        return {int(nodes[i]): quilts for i, quilts in known[alike].items()}

    # -- leakage ----------------------------------------------------------------------------

    def _messages(self, dp_epsilon):
        _, parent, diameters = self._rooted()
        return self._remember(
            ("messages", dp_epsilon),
            lambda: birkhoff_messages(parent.tolist(), diameters, dp_epsilon),
        )

    def _record_levels(self, dp_epsilon):
        """Return a BDP level for every record: the best of B1, B6, layers and quilts."""
        level = np.full(self.n_records, dp_epsilon)
        level[self._rooted()[0]] += self._messages(dp_epsilon)[2]
        if not self._is_tree.all():
            sources, layers = self._layers()
            level[sources] = layers.leakage(dp_epsilon)
        level = np.minimum(level, self._component_sizes[self.components_] * dp_epsilon)  # B1
        level = np.minimum(level, self._reach_factor() * dp_epsilon)
        for component, quilts in self._small_components().items():
            size = int(self._component_sizes[component])
            for record, influences in quilts.items():
                exact = quilt_level(influences, size, dp_epsilon, printed=False)
                level[record] = min(level[record], exact)
        return level

    def _leakage(self, dp_epsilon, n, method):
        if method == "tight":
            return float(self._record_levels(dp_epsilon).max())
        if self._factors:
            return self._table_lemma(dp_epsilon, method)
        if method == "blanket":
            # Theory B3: the influence on the neighbours is at most the sum of the diameters.
            return dp_epsilon + 4.0 * float(self.adjacency_.sum(axis=1).max())
        sizes = self._component_sizes[self.components_]
        layers = self._remember(
            "all layers", lambda: search_layers(self.adjacency_, np.arange(n), sizes)
        )
        return float(layers.quilted(dp_epsilon, sizes, 4.0).max())

    def _table_lemma(self, dp_epsilon, method):
        """Lemmas 2 and 3 of Zhao (2017) with exact influences."""
        level = dp_epsilon  # records without neighbours
        for component, quilts in self._small_components().items():
            size = int(self._component_sizes[component])
            for influences in quilts.values():
                if method == "quilt":
                    level = max(level, quilt_level(influences, size, dp_epsilon, printed=True))
                elif influences:  # the first quilt tried is the Markov blanket
                    level = max(level, dp_epsilon + 4.0 * float(influences[0].max()))
        return level

    def _check_method(self, n, method):
        super()._check_method(n, method)
        if method == "tight" or not self._factors:
            return
        logs = np.bincount(self.components_, weights=np.log(self._n_values))
        if logs.max() > math.log(COMPONENT_LIMIT) + 1e-9:
            raise ValueError(
                f"method={method!r} needs exact influences, which are computed for components of "
                f"at most {COMPONENT_LIMIT} joint values; the largest here has "
                f"{math.exp(logs.max()):.3g}. Use method='tight', or declare influence=."
            )
        if method == "blanket" and math.isinf(self._table_lemma(0.0, method)):
            raise ValueError(
                "method='blanket' needs positive probabilities (a neighbour that rules a value "
                "out has infinite influence). Use method='tight' or method='quilt'."
            )

    # -- sequential leakage -----------------------------------------------------------------

    def _upward(self, dp_epsilon):
        """Message of each node to its parent when nothing below is known (theory B7)."""

        def compute():
            upward, below, _ = self._messages(dp_epsilon)
            kernels = self._kernels()
            if kernels is None:
                return upward, below
            parent = self._rooted()[1].tolist()
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

    def _sequential_epsilon(self, dp_epsilon, n):
        level = self.bdp_epsilon(dp_epsilon, n)
        levels = self._record_levels(dp_epsilon).copy()
        levels[self._rooted()[0]] = dp_epsilon + self._upward(dp_epsilon)[1]
        sizes = self._component_sizes[self.components_]
        return min(level, float(np.minimum(levels, sizes * dp_epsilon).max()))

    def _sequential_information(self, dp_epsilon, n):
        levels = self._record_levels(dp_epsilon)
        cost = np.bincount(self.components_, weights=levels**2)
        cost = np.minimum(cost, (self._component_sizes * dp_epsilon) ** 2)
        if self._is_tree.any():
            cost = np.minimum(cost, self._blocks(dp_epsilon, self._upward(dp_epsilon)[0]))
        return float(cost.sum() / 8.0)  # theory G1

    def _posterior_bias(self, dp_epsilon, n):
        return float(np.tanh(self._record_levels(dp_epsilon) / 4.0).mean())  # theory G6

    # -- concentration ----------------------------------------------------------------------

    def _spread(self, n, statistical):
        return self._remember("spread", self._compute_spread)

    def _compute_spread(self):
        cost = self._component_sizes.astype(float) ** 2
        cost = np.minimum(cost, np.bincount(self.components_, weights=self._reach() ** 2))
        if self._is_tree.any():
            _, parent, diameters = self._rooted()
            kernels = self._kernels()
            if kernels is None:
                theta = np.tanh(diameters / 4.0).tolist()
            else:
                known = {id(k): dobrushin(k) for k in kernels if k is not None}
                theta = [0.0 if k is None else known[id(k)] for k in kernels]
            # Theory H5, rooted forest: martingale differences R_v, here also for merged blocks.
            cost = np.minimum(cost, self._blocks(1.0, couplings(parent.tolist(), theta)))
        return float(cost.sum())

    def _sharper_above(self, mean, value, n):
        # Components are independent (theory G12); inside them the dependence may be weak (5).
        sizes, counts = np.unique(self._component_sizes, return_counts=True)
        return component_log_tail(mean, value, sizes, counts)

    def _lower_limit(self, values, levels, n, binary):
        sizes, counts = np.unique(self._component_sizes, return_counts=True)
        return np.maximum(
            super()._lower_limit(values, levels, n, binary),
            component_lower_limit(values, levels, sizes, counts),
        )

    def influence_over_distance(self, max_distance: int) -> Array:
        """Projective diameters of the edges, contracted along paths (theory B6)."""
        adjacency, tree = self.adjacency_, self._is_tree[self.components_]
        result = path_influence(adjacency[tree][:, tree], max_distance)
        for component in np.unique(self.components_[~tree]):
            members = np.flatnonzero(self.components_ == component)
            part = adjacency[members][:, members]
            result = np.maximum(result, layer_influence(part, max_distance))
        return result

    # -- the rest ---------------------------------------------------------------------------

    def describe(self) -> str:
        return self._words + (
            f"{self._kind} of {self.n_records} records in {self.n_components_} independent "
            f"components, 1 record in {self.n_records / self.effective_n(self.n_records):.1f} "
            "counts" + (", given all other records" if self._given_rest else "")
        )

    def _content(self):
        tables = [part for scope, table in self._factors for part in (scope, table)]
        given = ("given the rest",) if self._given_rest else ()
        given += (self._words, *self._caveats) if self._words else ()
        return (*super()._content(), *tables, *given)

    @property
    def holds_given_rest(self) -> bool:  # type: ignore[override]  # computed here, fixed below
        """Whether it is split by nodes: components too large to hold out, no infinite edge."""
        large = self._component_sizes.max() > self.n_records / 2
        return bool(large and np.isfinite(self._data).all())

    def _split(self, n, holdout, y, random_state):
        if self.holds_given_rest:
            return random_split(n, holdout, random_state=random_state)
        return super()._split(n, holdout, y, random_state)

    def _folds(self, n, n_splits, y, random_state):
        if self.holds_given_rest:
            return random_folds(n, n_splits, random_state=random_state)
        return super()._folds(n, n_splits, y, random_state)

    def given_rest(self, indices: ArrayLike) -> CorrelationModel:
        """Return the network of a holdout given all other records (theory G13).

        Its edges keep their diameters and only fields change, so every bound that is uniform in
        the fields holds: messages, layers and the heat bath, which use diameters alone. Tables
        are dropped, because stationary rows and exact quilts are not uniform.
        """
        indices = check_indices(indices, self.n_records)
        if self._whole_components(indices) or not self.holds_given_rest:
            return self.subset(indices)
        return self._induced(indices, tables=False, given_rest=True)

    @property
    def caveats(self) -> tuple[str, ...]:
        if not self._given_rest:
            return self._caveats
        return (
            *self._caveats,
            "Intervals speak of the score to be expected on the holdout's nodes given the "
            "training nodes; the split did not look at labels of the holdout's nodes.",
            "The score of a node depends on that node's own record: a model that passes messages "
            "over edges at test time needs its receptive field declared as groups.",
        )

    def subset(self, indices: ArrayLike) -> CorrelationModel:
        indices = check_indices(indices, self.n_records)
        if not self._whole_components(indices):
            # A dropped record may still carry dependence between its neighbours.
            return unnamed_groups(self.components_[indices])
        return self._induced(indices)

    def _induced(self, indices, *, tables=True, given_rest=False):
        number = np.full(self.n_records, -1)
        number[indices] = np.arange(len(indices))
        factors = [
            (tuple(int(number[v]) for v in scope), table)
            for scope, table in self._factors
            if tables and number[scope[0]] >= 0
        ]
        model = object.__new__(type(self))
        model._set_network(sparse.csr_array(self.adjacency_[indices][:, indices]), factors)
        model._given_rest = given_rest or self._given_rest
        model._words, model._caveats = self._words, self._caveats
        model._freeze()
        return model


def _entries(matrix, rows, columns):
    """Return ``matrix[rows[k], columns[k]]`` for entries that exist."""
    n = matrix.shape[0]
    held = np.repeat(np.arange(n), np.diff(matrix.indptr)) * n + matrix.indices
    return matrix.data[np.searchsorted(held, rows * n + columns)]
