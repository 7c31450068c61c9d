"""Networks of records with known strength of dependence along each edge."""

from __future__ import annotations

import math
import numbers
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from sklearn_bdp._checks import check_real
from sklearn_bdp.correlation._base import CorrelationModel
from sklearn_bdp.correlation._components import unnamed_groups
from sklearn_bdp.correlation._coupling import label_codes_or_missing, label_coupling
from sklearn_bdp.correlation._cutting import check_indices, random_folds, random_split
from sklearn_bdp.correlation._forest import best_block_costs, couplings, dobrushin_reach, rooted
from sklearn_bdp.correlation._graph import GraphModel, adjacency, is_networkx
from sklearn_bdp.correlation._tails import component_lower_limit


class NetworkModel(GraphModel):
    """Shared part of networks: a graph of edge diameters and, where given, the factors.

    Forests are bounded by couplings along edges (theory H5), any graph by walks (Dobrushin).
    """

    _factors: tuple[Any, ...] = ()
    _to_estimate = False  # whether the strength is read off training labels after the split
    is_given_rest: bool = False  # whether all other records are given (theory G13)
    _whole: Any = None  # the network that it was cut out of, and where
    _kind: str
    _words: str = ""  # where the strength comes from, when it was not declared

    def _set_network(self, matrix, factors=()):
        self._set_graph(matrix)
        self._factors = tuple(factors)
        sizes = np.bincount(self.components_)
        edges = np.bincount(self.components_, weights=np.diff(matrix.indptr)) / 2
        self._component_sizes = sizes
        self._is_tree = edges == sizes - 1  # per component

    # -- derived structure, computed once ---------------------------------------------------

    def _rooted(self):
        """Order of the records in tree components, positions of parents, diameters to them."""

        def compute():
            matrix = self.adjacency_
            order, parent = rooted(matrix, self._roots(), self._is_tree[self.components_])
            child = np.flatnonzero(parent >= 0)
            diameters = np.zeros(len(parent))
            diameters[child] = _entries(matrix, order[child], order[parent[child]])
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
        sizes, counts = np.unique(self._component_sizes, return_counts=True)
        return np.maximum(
            super()._lower_limit(values, levels, n, binary),
            component_lower_limit(values, levels, sizes, counts),
        )

    # -- the rest ---------------------------------------------------------------------------

    def describe(self) -> str:
        return self._words + (
            f"{self._kind} of {self.n_records} records in {self.n_components_} independent "
            f"components, 1 record in {self.n_records / self.effective_n(self.n_records):.1f} "
            "counts" + (", given all other records" if self.is_given_rest else "")
        )

    def _content(self):
        tables = [part for scope, table in self._factors for part in (scope, table)]
        given = ("given the rest",) if self.is_given_rest else ()
        given += (self._words, *self._caveats) if self._words else ()
        return (*super()._content(), *tables, *given)

    @property
    def holds_given_rest(self) -> bool:  # type: ignore[override]  # computed here, fixed below
        """Whether it is split by nodes: components too large to hold out, no infinite edge."""
        large = self._component_sizes.max() > self.n_records / 2
        return bool(large and (self._to_estimate or np.isfinite(self._data).all()))

    def _split(self, n, holdout, random_state):
        if self.holds_given_rest:
            return random_split(n, holdout, random_state=random_state)
        return super()._split(n, holdout, random_state)

    def _folds(self, n, n_splits, random_state):
        if self.holds_given_rest:
            return random_folds(n, n_splits, random_state=random_state)
        return super()._folds(n, n_splits, random_state)

    def given_rest(self, indices: ArrayLike) -> CorrelationModel:
        """Return the network of a holdout given all other records (theory G13).

        Its edges keep their diameters and only fields change, so every bound that is uniform in
        the fields holds: messages, layers and the heat bath, which use diameters alone. Tables
        are dropped, because stationary rows and exact quilts are not uniform.
        """
        indices = check_indices(indices, self.n_records)
        if self._to_estimate:
            raise ValueError(
                "influence='estimate' is read off training labels by searches and selectors, once "
                "they have split the nodes. Elsewhere use MarkovNetwork.from_labels(graph, labels)."
            )
        if self._whole_components(indices) or not self.holds_given_rest:
            return self.subset(indices)
        return self._induced(indices, tables=False, given_rest=True)

    @property
    def target(self) -> str:
        if self.is_given_rest:
            return "these nodes, given the training nodes"
        return super().target

    @property
    def caveats(self) -> tuple[str, ...]:
        if not self.is_given_rest:
            return self._caveats
        return (
            *self._caveats,
            "Intervals refer to the expected score on the holdout nodes given the training nodes. "
            "The split did not read labels of holdout nodes.",
            "The score of a node depends on that node's own record: a model that passes messages "
            "over edges at test time needs its receptive field declared as groups.",
        )

    def subset(self, indices: ArrayLike) -> CorrelationModel:
        indices = check_indices(indices, self.n_records)
        if not self._whole_components(indices):
            # A dropped record may still carry dependence between its neighbours.
            return unnamed_groups(self.components_[indices])
        return self._induced(indices, caveats=self._part(indices))

    def _induced(self, indices, *, tables=True, given_rest=False, caveats=()):
        number = np.full(self.n_records, -1)
        number[indices] = np.arange(len(indices))
        factors = [
            (tuple(int(number[v]) for v in scope), table)
            for scope, table in self._factors
            if tables and number[scope[-1]] >= 0
        ]
        model = object.__new__(type(self))
        model._set_network(sparse.csr_array(self.adjacency_[indices][:, indices]), factors)
        model.is_given_rest, model._whole = given_rest or self.is_given_rest, (self, indices)
        model._words, model._caveats = self._words, (*self._caveats, *caveats)
        model._freeze()
        return model


def _entries(matrix, rows, columns):
    """Return ``matrix[rows[k], columns[k]]`` for entries that exist."""
    n = matrix.shape[0]
    held = np.repeat(np.arange(n), np.diff(matrix.indptr)) * n + matrix.indices
    return matrix.data[np.searchsorted(held, rows * n + columns)]


class MarkovNetwork(NetworkModel):
    r"""Records on an undirected graph with known strength of the dependence along each edge.

    Parameters
    ----------
    graph : scipy.sparse matrix or array, networkx graph, or dense array of shape (n, n)
        Symmetric; nonzero entries are edges.
    influence : float, str or None, default=None
        Projective diameter of every edge, in nats: the largest log cross-ratio of its potential
        :math:`\ln\frac{\psi(a,b)\psi(a',b')}{\psi(a,b')\psi(a',b)}`. A scalar for all edges, the
        name of an edge attribute, or None: the data of the matrix, the attribute
        ``"influence"``. ``"estimate"``: searches read it off the labels of the training nodes,
        after the split (:meth:`from_labels`; an assumption).
    nodelist : array-like of shape (n,), optional
        Node of a networkx graph that each row of ``X`` is, as for :class:`DependencyGraph`.

    Attributes
    ----------
    adjacency_ : scipy.sparse.csr_array of shape (n, n)
        Edge diameters in nats.
    components_, n_components_ : ndarray of int, int
        As for :class:`DependencyGraph`.

    Raises
    ------
    ValueError
        If an influence is negative, NaN or infinite.

    See Also
    --------
    DependencyGraph : A graph without strengths.
    check_neighbors : Test the declared strength.

    Notes
    -----
    The distribution is proportional to the product of potentials over edges and single records.
    Diameters of edges suffice for every bound; single-record potentials never matter to them.

    Examples
    --------
    >>> import networkx as nx
    >>> from sklearn_bdp.correlation import MarkovNetwork
    >>> path = MarkovNetwork(nx.path_graph(1000), influence=1.0)
    >>> round(path.bdp_epsilon(0.01, 1000), 4)
    0.0165
    """

    _kind = "Markov network"

    def __init__(
        self,
        graph: Any,
        *,
        influence: float | str | None = None,
        nodelist: ArrayLike | None = None,
    ) -> None:
        if isinstance(influence, str) and influence == "estimate":
            _refuse_attribute(graph)
            matrix = adjacency(graph, nodelist=nodelist)
            matrix.data = np.full_like(matrix.data, math.inf)  # until it is estimated
            self._to_estimate = True
        else:
            matrix = influence_graph(graph, influence, nodelist)
        self._set_network(matrix)
        self._name(graph, nodelist)
        self._freeze()

    def estimated(self, labels: ArrayLike, known: ArrayLike) -> MarkovNetwork:
        """Return the network with strengths read off the labels of known nodes.

        Parameters
        ----------
        labels : array-like of shape (n,)
            Class of each node; only those of known nodes are read.
        known : array-like of int
            The training nodes.

        Returns
        -------
        MarkovNetwork
            The network itself unless it was made with ``influence="estimate"``.
        """
        if not self._to_estimate:
            return self
        if labels is None:
            raise ValueError("influence='estimate' reads class labels, got y=None.")
        shown, places = np.full(self.n_records, None, dtype=object), np.asarray(known)
        shown[places] = np.asarray(labels, dtype=object)[places]
        structure = sparse.csr_array(
            (np.ones_like(self._data), self._indices, self._indptr), shape=self.adjacency_.shape
        )
        return type(self).from_labels(structure, shown)

    @classmethod
    def from_labels(
        cls,
        graph: Any,
        labels: ArrayLike,
        *,
        confidence: float = 0.95,
        nodelist: ArrayLike | None = None,
    ) -> MarkovNetwork:
        """Read the strength of edges off labels of training nodes: an assumption.

        Parameters
        ----------
        graph : scipy.sparse matrix or array, networkx graph, or dense array of shape (n, n)
            All nodes, those of the holdout included.
        labels : array-like of shape (n,)
            Class of each training node; None or NaN for the nodes of the holdout, whose labels
            must not be read here.
        confidence : float, default=0.95
            Level of the upper limit that is declared.
        nodelist : array-like of shape (n,), optional
            As for the class.

        Returns
        -------
        MarkovNetwork
            One influence for all edges; its description and every certificate say "assumed".

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
        >>> graph = nx.grid_2d_graph(30, 30)
        >>> labels = np.random.default_rng(0).integers(0, 2, 900).astype(object)
        >>> labels[::4] = None  # the holdout
        >>> model = MarkovNetwork.from_labels(graph, labels)
        >>> bool(0 < model.adjacency_.max() < 0.8)
        True
        >>> len(model.split(900, 0.25, random_state=0).holdout)
        225
        """
        structure = adjacency(graph, nodelist=nodelist)
        codes = label_codes_or_missing(labels, structure.shape[0])
        influence = label_coupling(structure, codes, confidence)
        structure.data = np.full_like(structure.data, influence)
        model = object.__new__(cls)
        model._set_network(structure)
        model._words = (
            f"assumed from {np.count_nonzero(codes >= 0)} training labels (pseudo-likelihood, "
            f"influence of an edge at most {influence:.3g} at confidence {confidence:g}): "
        )
        model._caveats = (
            "Assumed, not proved: labels follow a Potts model with one coupling for all edges, "
            "and scores depend on each other no more than labels do.",
        )
        model._freeze()
        return model


def _refuse_attribute(graph):
    """Raise where "estimate" may name an edge attribute."""
    if is_networkx(graph) and any("estimate" in data for *_, data in graph.edges(data=True)):
        raise ValueError(
            "influence='estimate' is a reserved word, and edges of graph have an attribute of that "
            "name. Rename the attribute."
        )


def influence_graph(graph, influence, nodelist=None):
    """Return the symmetric matrix of edge diameters that ``graph`` and ``influence`` declare."""
    weight = None
    if influence is None or isinstance(influence, str):
        if is_networkx(graph):
            weight = "influence" if influence is None else influence
        elif isinstance(influence, str):
            raise ValueError(
                f"influence={influence!r} names an edge attribute, which needs a networkx graph, "
                f"got {type(graph).__name__}."
            )
    elif not isinstance(influence, numbers.Real) or isinstance(influence, bool):
        raise TypeError(f"influence must be a number, a name or None, got {influence!r}.")
    elif isinstance(influence, float) and math.isinf(influence):
        raise ValueError(_INFINITE.format("influence=inf"))
    else:
        influence = check_real("influence", influence, low=0.0)
    matrix = adjacency(graph, weight=weight, nodelist=nodelist)
    if influence is not None and weight is None:
        matrix.data = np.full_like(matrix.data, float(influence))
        matrix.eliminate_zeros()
    if np.isinf(matrix.data).any():
        raise ValueError(_INFINITE.format(f"{int(np.isinf(matrix.data).sum() // 2)} such edge(s)"))
    return matrix


_INFINITE = (
    "influence must be finite, got {}. Records that may determine each other belong to "
    "DependencyGraph or Groups (theory B1)."
)
