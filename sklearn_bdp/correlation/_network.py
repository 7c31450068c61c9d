"""Networks of records: of any strength of dependence, or with a known one along each edge."""

from __future__ import annotations

import math
import numbers
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from sklearn_bdp._checks import check_real
from sklearn_bdp._typing import Seed
from sklearn_bdp.correlation._base import (
    CorrelationModel,
    Split,
    check_indices,
    generator,
    holdout_size,
)
from sklearn_bdp.correlation._components import (
    GivenRest,
    Independent,
    label_codes,
    unnamed_groups,
)
from sklearn_bdp.correlation._coupling import CONFIDENCE, label_coupling
from sklearn_bdp.correlation._forest import best_block_costs, couplings, dobrushin_reach, rooted
from sklearn_bdp.correlation._graph import FEWEST, GraphModel, adjacency, is_networkx, node_order
from sklearn_bdp.correlation._tails import component_lower_limit, weighted_lower_limit

GIVEN_NODES = "these nodes, given the training nodes"
_GIVEN_CAVEATS = (
    "Intervals refer to the expected score on the holdout nodes, given the training nodes and the "
    "features of all nodes, not to new graphs or new maps. A prediction uses no label of another "
    "holdout node.",
    "Given its neighbors, the label of a node does not depend on other nodes. A hidden common "
    "cause of many nodes is not covered. Features are not computed from labels.",
)


class NetworkModel(GraphModel):
    """Shared part of networks: a graph of edge diameters and, where given, the factors.

    Forests are bounded by couplings along edges (theory H5), any graph by walks (Dobrushin).
    """

    _to_estimate = False  # whether the strength is read off training labels after the split
    _kind: str

    def _set_network(
        self, matrix, *, nodes=None, factors=(), given_rest=False, words="", caveats=()
    ):
        """Set the diameters; ``given_rest``: whether all other records are given (theory G13).

        ``words``, ``caveats``: where the strength comes from, when it was not declared.
        """
        self._set_graph(matrix, nodes=nodes, caveats=caveats)
        self._factors, self._words, self._assumed = tuple(factors), words, caveats
        sizes = np.bincount(self.components_)
        edges = np.bincount(self.components_, weights=np.diff(matrix.indptr)) / 2
        self._component_sizes = sizes
        self._is_tree = edges == sizes - 1  # per component
        self.is_given_rest = given_rest
        if given_rest:
            self.target, self.caveats = GIVEN_NODES, caveats + _GIVEN_CAVEATS
        # Split by nodes are components too large to hold out, where no edge is infinite.
        self._is_finite = self._to_estimate or bool(np.isfinite(self._data).all())
        large = given_rest or sizes.max() > self.n_records / 4
        self.holds_given_rest = bool(large and self._is_finite)

    def _freeze(self):
        tables = [part for scope, table in self._factors for part in (scope, table)]
        given = ("given the rest",) if self.is_given_rest else ()
        given += (self._words, *self._assumed) if self._words else ()
        super()._freeze(*tables, *given)

    # -- derived structure, computed once ---------------------------------------------------

    def _rooted(self):
        """Order of the records in tree components, positions of parents, diameters to them."""

        def compute():
            matrix, n = self.adjacency_, self.n_records
            order, parent = rooted(matrix, self._roots(), self._is_tree[self.components_])
            child = np.flatnonzero(parent >= 0)
            diameters = np.zeros(len(parent))
            held = np.repeat(np.arange(n), np.diff(matrix.indptr)) * n + matrix.indices
            places = np.searchsorted(held, order[child] * n + order[parent[child]])
            diameters[child] = matrix.data[places]
            return order, parent, diameters

        return self._remember("rooted", compute)

    def _roots(self):
        """Return one record per component, where trees are rooted."""
        return np.unique(self.components_, return_index=True)[1]

    def _contractions(self):
        """Return how much each edge to a parent passes on at most (Dobrushin coefficients)."""
        return np.tanh(self._rooted()[2] / 4.0)

    def _blocks(self, unit, passed):
        """Best block costs per component (infinite where it is not a tree)."""
        order, parent, _ = self._rooted()
        costs = best_block_costs(parent.tolist(), self.components_[order].tolist(), unit, passed)
        costs = np.r_[costs, np.zeros(self.n_components_ - len(costs))]
        return np.where(self._is_tree, costs, math.inf)

    def _reach(self):
        return self._remember("reach", lambda: dobrushin_reach(self.adjacency_, self.components_))

    # -- concentration ----------------------------------------------------------------------

    units = CorrelationModel.units

    def _spread(self, n, statistical):
        return self._remember("spread", self._compute_spread)

    def _compute_spread(self):
        cost = self._component_sizes.astype(float) ** 2
        cost = np.minimum(cost, np.bincount(self.components_, weights=self._reach() ** 2))
        if self._is_tree.any():
            # Theory H5, rooted forest: martingale differences R_v, here also for merged blocks.
            passed = couplings(self._rooted()[1].tolist(), self._contractions().tolist())
            cost = np.minimum(cost, self._blocks(1.0, passed))
        return float(cost.sum())

    def _lower_limit(self, values, levels, n, binary):
        # Components are independent (theory G12); inside them the dependence may be weak (H5).
        sizes, counts = self._sizes(n)
        return np.maximum(
            CorrelationModel._lower_limit(self, values, levels, n, binary),
            component_lower_limit(values, levels, sizes, counts),
        )

    # -- the rest ---------------------------------------------------------------------------

    def describe(self) -> str:
        return self._words + (
            f"{self._kind} of {self.n_records} records in {self.n_components_} independent "
            f"components, 1 record in {self.n_records / self.effective_n(self.n_records):.1f} "
            "counts" + (", given all other records" if self.is_given_rest else "")
        )

    def split(self, n: int, holdout: float, *, random_state: Seed = None) -> Split:
        size = holdout_size(self.check_n(n), holdout)
        if self._component_sizes.max() <= size or not self._is_finite:
            return super().split(n, holdout, random_state=random_state)
        rng = generator(random_state)
        drawn = Independent().split(n, holdout, random_state=rng)
        if self._to_estimate or self._words:  # strengths that are read off labels
            return drawn
        chosen = independent_set(self.adjacency_, size, rng)
        # Graph and seed decide, no record (theory G27): nodes at random where these are worth more.
        if len(chosen) < size:
            worth = self._induced(drawn.holdout, tables=False).effective_n(size)
            chosen = drawn.holdout if worth > len(chosen) else chosen
        return Split(np.setdiff1d(np.arange(n), chosen), chosen)

    def given_rest(self, indices: ArrayLike) -> CorrelationModel:
        """Return the network of a holdout given all other records (theory G13, G27).

        Without an edge between them nodes are independent, at any strength. Else edges keep their
        diameters and only fields change, so every bound that is uniform in the fields holds:
        messages, layers and the heat bath, which use diameters alone. Tables are dropped, because
        stationary rows and exact quilts are not uniform.
        """
        indices = check_indices(indices, self.n_records)
        if self._to_estimate:
            raise ValueError(
                "influence='estimate' is read off training labels by searches and selectors, once "
                "they have split the nodes. Elsewhere call estimated(labels, known) of the network."
            )
        if self._is_whole(indices) or not self._is_finite:
            return self.subset(indices)
        if not self.adjacency_[indices][:, indices].nnz:
            return nodes_given_rest(self, indices, np.arange(len(indices)))
        return self._induced(indices, tables=False, given_rest=True)

    def subset(self, indices: ArrayLike) -> CorrelationModel:
        indices = check_indices(indices, self.n_records)
        if not self._is_whole(indices):
            return super().subset(indices)
        return self._induced(indices, caveats=self._excluded(indices))

    def _induced(self, indices, *, tables=True, given_rest=False, caveats=()):
        number = np.full(self.n_records, -1)
        number[indices] = np.arange(len(indices))
        factors = [
            (tuple(int(number[v]) for v in scope), table)
            for scope, table in self._factors
            if tables and number[scope[-1]] >= 0
        ]
        model = object.__new__(type(self))
        model._set_network(
            sparse.csr_array(self.adjacency_[indices][:, indices]),
            nodes=self.names(indices),
            factors=factors,
            given_rest=given_rest or self.is_given_rest,
            words=self._words,
            caveats=(*self._assumed, *caveats),
        )
        model._freeze()
        return model


def nodes_given_rest(network, indices, codes, *, weighted=False):
    """Return the model of nodes whose ``codes`` are their components given all others (G27)."""
    degree = np.diff(network._indptr)[: network.n_records]
    caveats, number, nodes = _GIVEN_CAVEATS, int(codes.max()) + 1, network.names(indices)
    if number == len(indices):
        caveats += (
            "Every held-out node has all its labeled neighbors in the training set. The mean "
            f"degree is {degree[indices].mean():.2f} of held-out nodes and "
            f"{degree.mean():.2f} of all.",
        )
    if weighted:
        return DegreeCells(degree, indices, caveats, nodes)
    return GivenRest(
        codes,
        f"{len(indices)} nodes of a Markov network in {number} components that are independent "
        "given all other records, at any strength",
        target=GIVEN_NODES,
        caveats=caveats,
        nodes=nodes,
    )


class DegreeCells(GivenRest):
    """Independent nodes given the rest, weighted as their degrees occur in the graph (theory G27).

    ``degrees``: of all nodes, ``held``: the nodes of the holdout. Cells of neighboring degrees hold
    at least 20 held-out nodes each. No other bound of independent records holds for the weighted
    mean, so that the model does not count as one of them.
    """

    is_componentwise = False

    def __init__(self, degrees, held, caveats, nodes):
        values, counts = np.unique(degrees[held], return_counts=True)
        ends, seen = [], 0
        for value, count in zip(values, counts, strict=True):
            seen += count
            if seen >= FEWEST:
                ends, seen = [*ends, value], 0
        cells = np.searchsorted(ends[:-1], degrees)
        self.cells_, shares = cells[held], np.bincount(cells) / len(degrees)
        weights = (shares / np.bincount(self.cells_))[self.cells_]
        self._record_weights = weights / weights.sum()
        super().__init__(
            np.arange(len(held)),
            f"{len(held)} nodes of a Markov network, independent given all other records at any "
            f"strength, weighted by {len(shares)} cells of degrees",
            target=GIVEN_NODES,
            caveats=(*caveats, "Nodes are weighted so that degrees occur as in the whole graph."),
            nodes=nodes,
        )

    def _freeze(self, *content):
        super()._freeze(*content, self._record_weights)

    units = CorrelationModel.units

    def _spread(self, n, statistical):
        return n**2 * float(np.sum(self._record_weights**2)) if statistical else math.inf

    def _lower_limit(self, values, levels, n, binary):
        weights, counts = np.unique(self._record_weights, return_counts=True)
        if len(weights) == 1:
            return super()._lower_limit(values, levels, n, binary)
        return weighted_lower_limit(values, levels, weights, counts)


class MarkovNetwork(NetworkModel):
    r"""Records on the nodes of an undirected graph, each depending on others by its neighbors.

    Parameters
    ----------
    graph : scipy.sparse matrix or array, networkx graph, or dense array of shape (n, n)
        Symmetric; nonzero entries are edges. Directed graphs count in either direction.
    influence : float, str or None, default=None
        ``None``: dependence along edges of any strength. Nodes of which no two are neighbors are
        held out. Given all other nodes, these are independent. A number: the largest projective
        diameter of an edge, in nats, that is, the largest log cross-ratio of its potential
        :math:`\ln\frac{\psi(a,b)\psi(a',b')}{\psi(a,b')\psi(a',b)}`. Nodes are then held out at
        random if these are worth more. ``"data"``: the entries of the matrix, in nats. The name of
        an edge attribute: its values, in nats. ``"estimate"``: searches read it off the labels of
        the training nodes, after a random split (:meth:`estimated`; an assumption).
    nodelist : array-like of shape (n,), optional
        Node of a networkx graph that each row of ``X`` is, as for :class:`DependencyGraph`.
    labelled : array-like, optional
        Nodes that have a row in ``X``, in the order of the rows: names in a networkx graph, such as
        ``X.index``, or positions in a matrix. A boolean mask over all nodes keeps their order. All
        other nodes have no row or no label, and dependence passes through them. Needs
        ``influence=None``.
    by_degree : bool, default=False
        Weight the held-out nodes so that degrees occur as in the whole graph (post-stratified by
        cells of at least 20 held-out nodes). Needs ``influence=None``.

    Attributes
    ----------
    adjacency_ : scipy.sparse.csr_array of shape (n, n)
        Edge diameters in nats, infinite if ``influence`` is None. Nodes without a row come last.
    components_, n_components_ : ndarray of int, int
        As for :class:`DependencyGraph`.

    Raises
    ------
    ValueError
        If an influence is negative, NaN or infinite, or nodes are named that do not exist.

    See Also
    --------
    DependencyGraph : Independence without conditioning on neighbors.

    Notes
    -----
    With ``influence=None`` the labels, given the features, are assumed to be Markov on the graph:
    given its neighbors, a label does not depend on other nodes (theory G27). Nothing is assumed
    about strengths, and nothing is learned. With strengths the distribution is proportional to
    the product of potentials over edges and single records, and diameters suffice for every bound.

    Examples
    --------
    >>> import networkx as nx
    >>> from sklearn_bdp.correlation import MarkovNetwork
    >>> network = MarkovNetwork(nx.path_graph(1000))
    >>> holdout = network.split(1000, 0.25, random_state=0).holdout
    >>> network.given_rest(holdout).effective_n(250)
    250.0
    >>> path = MarkovNetwork(nx.path_graph(1000), influence=1.0)
    >>> round(path.bdp_epsilon(0.01, 1000), 4)
    0.0165
    """

    _kind = "Markov network"

    def __new__(
        cls,
        graph: Any = None,
        *,
        influence: float | str | None = None,
        nodelist: ArrayLike | None = None,
        labelled: ArrayLike | None = None,
        by_degree: bool = False,
    ) -> Any:
        """Return a network; without strengths the one that needs none (theory G27)."""
        if graph is None or influence is not None:  # a pickle gives no arguments
            return super().__new__(cls)
        return AnyStrength(graph, nodelist, labelled, bool(by_degree))

    def __init__(
        self,
        graph: Any,
        *,
        influence: float | str | None = None,
        nodelist: ArrayLike | None = None,
        labelled: ArrayLike | None = None,
        by_degree: bool = False,
    ) -> None:
        if labelled is not None or by_degree:
            raise ValueError(
                f"labelled= and by_degree= need influence=None, got influence={influence!r}. A "
                "strength bounds nothing where neighbors have no label."
            )
        self._to_estimate = isinstance(influence, str) and influence == "estimate"
        if self._to_estimate:
            matrix = adjacency(graph, nodelist=nodelist)
            matrix.data = np.full_like(matrix.data, math.inf)  # until it is estimated
        else:
            matrix = influence_graph(graph, influence, nodelist)
        nodes = tuple(node_order(graph, nodelist)) if is_networkx(graph) else None
        self._set_network(matrix, nodes=nodes)
        self._freeze()

    def estimated(self, labels: ArrayLike, known: ArrayLike) -> MarkovNetwork:
        """Return the network with the strength read off the labels of known nodes: an assumption.

        Parameters
        ----------
        labels : array-like of shape (n,)
            Class of each node; only those of known nodes are read.
        known : array-like of int
            The training nodes.

        Returns
        -------
        MarkovNetwork
            One influence for all edges; its description and every certificate say "assumed". The
            network itself unless it was made with ``influence="estimate"``.

        Raises
        ------
        ValueError
            If labels have one class or no neighbors, or neighbors determine each other.

        Notes
        -----
        A Potts model by pseudo-likelihood (Besag 1975) on edges between labelled nodes, with a
        normal upper limit. Assumed are that form, one coupling for all edges, and that scores
        depend on each other no more than labels do.

        Examples
        --------
        >>> import networkx as nx
        >>> import numpy as np
        >>> from sklearn_bdp.correlation import MarkovNetwork
        >>> labels, train = np.random.default_rng(0).integers(0, 2, 900), np.arange(700)
        >>> model = MarkovNetwork(nx.grid_2d_graph(30, 30), influence="estimate")
        >>> bool(0 < model.estimated(labels, train).adjacency_.max() < 0.8)
        True
        """
        if not self._to_estimate:
            return self
        if labels is None:
            raise ValueError("influence='estimate' reads class labels, got y=None.")
        places = np.asarray(known)
        values = np.asarray(labels)[places]
        if values.dtype.kind == "f" and (values % 1 != 0).any():
            raise ValueError(
                "influence='estimate' reads class labels, and y holds numbers of a regression. Use "
                "MarkovNetwork(graph), which needs no strength."
            )
        if values.dtype.kind in "if" and values.min() == -1 and not np.isin(values, (-1, 1)).all():
            raise ValueError(
                "labels must be classes of known nodes, got -1 beside other classes. Declare "
                "unlabeled nodes by MarkovNetwork(graph, labelled=...)."
            )
        structure = self.adjacency_
        part = structure[places][:, places].astype(bool).astype(float)
        influence = label_coupling(part, label_codes(values))
        structure.data = np.full_like(structure.data, influence)
        model = object.__new__(type(self))
        model._set_network(
            structure,
            nodes=self._nodes,
            words=f"assumed from {len(places)} training labels (pseudo-likelihood, influence of an "
            f"edge at most {influence:.3g} at confidence {CONFIDENCE:g}): ",
            caveats=(
                "Assumed, not proved: labels follow a Potts model with one coupling for all edges, "
                "and scores depend on each other no more than labels do.",
            ),
        )
        model._freeze()
        return model


class AnyStrength(GraphModel):
    """A Markov network of which only the graph is known: ``MarkovNetwork(graph)`` (theory G27)."""

    holds_given_rest = True

    def __init__(self, graph, nodelist, labelled, by_degree):
        named = is_networkx(graph)
        if nodelist is not None and not named:
            adjacency(graph, nodelist=nodelist)  # refused
        rows, others = rows_and_others(graph, nodelist, labelled)
        order = [*rows, *others]
        matrix = adjacency(graph, nodelist=order if named else None)
        if not named and labelled is not None:
            matrix = sparse.csr_array(matrix[order][:, order])
            matrix.sort_indices()
        matrix.data = np.full_like(matrix.data, math.inf)
        self.by_degree = by_degree
        self._set_graph(matrix, len(rows), tuple(rows) if named else None)
        self._freeze(by_degree)

    def __repr__(self) -> str:
        return super().__repr__().replace(type(self).__name__, "MarkovNetwork", 1)

    def describe(self) -> str:
        others = len(self._indptr) - 1 - self.n_records
        beside = f" and {others} other nodes" if others else ""
        return (
            f"Markov network of {self.n_records} records{beside} in "
            f"{self.n_components_} independent components, of any strength"
        )

    def split(self, n: int, holdout: float, *, random_state: Seed = None) -> Split:
        size, graph = holdout_size(self.check_n(n), holdout), self.adjacency_[:n]
        if len(self._indptr) - 1 > n:  # a component of the others counts as one neighbor
            count, codes = connected_components(self.adjacency_[n:, n:], directed=False)
            places = np.r_[np.arange(n), n + codes][graph.indices]
            graph = sparse.csr_array((graph.data, places, graph.indptr), shape=(n, n + count))
        chosen = independent_set(graph, size, generator(random_state))
        if len(chosen) < FEWEST:
            raise ValueError(
                "MarkovNetwork(graph) holds out nodes that are not neighbors, and "
                f"{len(chosen)} of {n} nodes can be held out here (holdout={holdout!r}). "
                f"At least {FEWEST} are needed. Set a larger holdout=, or declare a strength: "
                "influence= a number of nats, or influence='estimate'."
            )
        return Split(np.setdiff1d(np.arange(n), chosen), chosen)

    def given_rest(self, indices: ArrayLike) -> CorrelationModel:
        """Return the components of the holdout given all other records (theory G27).

        Nodes without a record join what they touch.
        """
        indices = check_indices(indices, self.n_records)
        kept = np.r_[indices, np.arange(self.n_records, len(self._indptr) - 1)]
        codes = connected_components(self.adjacency_[kept][:, kept], directed=False)[1]
        codes = np.unique(codes[: len(indices)], return_inverse=True)[1]
        weighted = self.by_degree and FEWEST <= len(indices) == codes.max() + 1
        return nodes_given_rest(self, indices, codes, weighted=weighted)

    def training_part(self, indices: ArrayLike) -> CorrelationModel:
        """Return nodes without promise: inner folds are random."""
        return unnamed_groups(np.arange(len(check_indices(indices, self.n_records))))


def rows_and_others(graph, nodelist, labelled):
    """Return the nodes that rows are, in their order, and the nodes that no row is."""
    nodes = list(graph.nodes) if is_networkx(graph) else list(range((*np.shape(graph), 0)[0]))
    if labelled is None and nodelist is None:
        return (node_order(graph) if is_networkx(graph) else nodes), []
    rows = list(nodelist if labelled is None else labelled)
    if labelled is not None and all(isinstance(mark, bool | np.bool_) for mark in rows):
        order = node_order(graph, nodelist) if is_networkx(graph) else nodes
        rows = [order[k] for k in np.flatnonzero(rows)] if len(rows) == len(order) else []
    named = set(rows)
    if not rows or len(named) != len(rows) or not named <= set(nodes):
        raise ValueError(
            f"{'nodelist' if labelled is None else 'labelled'} must name nodes of graph, each "
            f"once, or be a mask of all {len(nodes)}. {len(named & set(nodes))} nodes were "
            f"named by {len(rows)} entries."
        )
    return rows, [node for node in nodes if node not in named]


def influence_graph(graph, influence, nodelist=None):
    """Return the symmetric matrix of edge diameters that ``graph`` and ``influence`` declare."""
    weight = None
    if isinstance(influence, str):
        if is_networkx(graph):
            weight = influence
        elif influence != "data":
            raise ValueError(
                f"influence={influence!r} names an edge attribute, which needs a networkx graph, "
                f"got {type(graph).__name__}. Use influence='data' to read the entries of a matrix."
            )
    elif not isinstance(influence, numbers.Real) or isinstance(influence, bool):
        raise TypeError(f"influence must be a number, a name or None, got {influence!r}.")
    else:
        influence = check_real("influence", influence, low=0.0)
    matrix = adjacency(graph, weight=weight, nodelist=nodelist)
    if not isinstance(influence, str):
        matrix.data = np.full_like(matrix.data, float(influence))
        matrix.eliminate_zeros()
        return matrix
    if np.isinf(matrix.data).any():
        raise ValueError(
            "influence must be finite on every edge. Records that may determine each other belong "
            "to MarkovNetwork(graph), DependencyGraph or Groups."
        )
    if matrix.nnz and _are_distances(matrix):
        raise ValueError(
            f"influence={influence!r} reads strengths in nats, and the edges of graph look like "
            "distances: no two sides of a triangle are shorter than the third. Near nodes depend "
            "on each other most. Use MarkovNetwork(graph), which needs no strength."
        )
    return matrix


def _are_distances(matrix):
    """Return whether entries that differ obey the triangle inequality in many triangles."""
    if not matrix.data.std() > 0.25 * matrix.data.mean():
        return False
    found, start = 0, matrix.indptr
    for node in range(min(1000, matrix.shape[0])):
        near, own = (part[start[node] : start[node + 1]] for part in (matrix.indices, matrix.data))
        opposite = sparse.coo_array(matrix[near][:, near])
        one, other = opposite.coords
        if (opposite.data > (own[one] + own[other]) * (1.0 + 1e-9)).any():
            return False
        found += opposite.nnz // 2
    return found >= 30


def independent_set(near, size, rng):
    """Return at most ``size`` rows of which no two are neighbors, ascending (theory G27).

    ``near`` is a CSR array with one row per record. Its first columns are records; each further
    column is a component of nodes without a record, which at most one chosen row may touch. Rows
    come in the order of ``Exp(1) / (1 + degree)``: the weights undo the preference of greedy sets
    for nodes of low degree. Reads the graph and the seed only.
    """
    n, width = near.shape
    order = np.argsort(rng.exponential(size=n) / (1.0 + np.diff(near.indptr)), kind="stable")
    start, columns = near.indptr.tolist(), near.indices
    blocked, chosen = np.zeros(width, dtype=bool), []
    for row in order.tolist():
        touched = columns[start[row] : start[row + 1]]
        if blocked[row] or (width > n and blocked[touched[touched >= n]].any()):
            continue
        blocked[touched] = True
        chosen.append(row)
        if len(chosen) == size:
            break
    return np.sort(chosen)
