"""Undirected networks of records: edge diameters or tables."""

from __future__ import annotations

import math
import numbers
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from sklearn_bdp._checks import check_integer, check_real
from sklearn_bdp.correlation._networks._factors import check_table, diameter_graph
from sklearn_bdp.correlation._networks._graph import adjacency, is_networkx, node_order
from sklearn_bdp.correlation._networks._labels import label_codes_or_missing, label_coupling
from sklearn_bdp.correlation._networks._network import NetworkModel


class MarkovNetwork(NetworkModel):
    r"""Records on an undirected graph with known strength of the dependence along each edge.

    Parameters
    ----------
    graph : scipy.sparse matrix or array, networkx graph, dense array, or None
        Symmetric; nonzero entries are edges. None with ``pairwise`` given as a mapping.
    influence : float, str or None, default=None
        Projective diameter of every edge, in nats: the largest log cross-ratio of its potential
        :math:`\ln\frac{\psi(a,b)\psi(a',b')}{\psi(a,b')\psi(a',b)}`. A scalar for all edges, the
        name of an edge attribute, or None: the data of the matrix, the attribute
        ``"influence"``.
    pairwise : mapping of (int, int) to array-like, or array-like, optional
        Nonnegative tables; one table for all edges is read with the lower record first.
    unary : mapping of int to array-like, or array-like of shape (n, k), optional
        Nonnegative tables of single records; needs ``pairwise``.

    Attributes
    ----------
    adjacency_ : scipy.sparse.csr_array of shape (n, n)
        Edge diameters in nats.
    components_, n_components_ : ndarray of int, int
        As for :class:`DependencyGraph`.

    Raises
    ------
    ValueError
        If an influence is negative, NaN or infinite, or tables are malformed.

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
        pairwise: Any = None,
        unary: Any = None,
    ) -> None:
        if pairwise is None:
            if unary is not None:
                raise ValueError("unary needs pairwise tables, got pairwise=None.")
            self._set_network(influence_graph(graph, influence))
        else:
            if influence is not None:
                raise ValueError("influence and pairwise exclude each other, got both.")
            n, factors = pairwise_factors(graph, pairwise, unary)
            self._set_network(diameter_graph(factors, n), factors)
        self._freeze()

    @classmethod
    def from_labels(
        cls, graph: Any, labels: ArrayLike, *, confidence: float = 0.95
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

        Returns
        -------
        MarkovNetwork
            One influence for all edges; its description and every certificate say "assumed".

        Raises
        ------
        ValueError
            If labels have one class or no neighbours, or neighbours determine each other.

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
        structure = adjacency(graph)
        codes = label_codes_or_missing(labels, structure.shape[0])
        coupling = label_coupling(structure, codes, confidence)
        structure.data = np.full_like(structure.data, coupling.influence)
        model = object.__new__(cls)
        model._set_network(structure)
        model._words = (
            f"assumed from {coupling.n_labels} training labels (pseudo-likelihood, influence of an "
            f"edge at most {coupling.influence:.3g} at confidence {confidence:g}): "
        )
        model._caveats = (
            "Assumed, not proved: labels follow a Potts model with one coupling for all edges, "
            "and scores depend on each other no more than labels do.",
        )
        model._freeze()
        return model


def influence_graph(graph, influence):
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
        elif graph is None:
            raise ValueError("graph must be given when there are no pairwise tables, got None.")
    elif not isinstance(influence, numbers.Real) or isinstance(influence, bool):
        raise TypeError(f"influence must be a number, a name or None, got {influence!r}.")
    elif isinstance(influence, float) and math.isinf(influence):
        raise ValueError(_INFINITE.format("influence=inf"))
    else:
        influence = check_real("influence", influence, low=0.0)
    matrix = adjacency(graph, weight=weight)
    if influence is not None and weight is None:
        matrix.data = np.full_like(matrix.data, float(influence))
        matrix.eliminate_zeros()
    if np.isinf(matrix.data).any():
        raise ValueError(_INFINITE.format(f"{int(np.isinf(matrix.data).sum() // 2)} such edge(s)"))
    return matrix


_INFINITE = (
    "influence must be finite, got {}. Records that may determine each other belong to "
    "DependencyGraph or Groups (theory B1); tables with zeros are passed as pairwise=."
)


def pairwise_factors(graph, pairwise, unary):
    """Return the number of records and the factors of a network given by tables."""
    number = {}
    if graph is not None:
        matrix = adjacency(graph)
        n = matrix.shape[0]
        if is_networkx(graph):
            number = {node: i for i, node in enumerate(node_order(graph))}
        upper = sparse.triu(matrix, k=1).tocoo()
        edges = set(zip(upper.row.tolist(), upper.col.tolist(), strict=True))
    factors, given = [], set()
    if hasattr(pairwise, "items"):
        for key, table in pairwise.items():
            if not (isinstance(key, tuple) and len(key) == 2):
                raise ValueError(f"pairwise must have pairs of records as keys, got {key!r}.")
            u, v = (check_integer("pairwise key", number.get(node, node), low=0) for node in key)
            if u == v or (min(u, v), max(u, v)) in given:
                raise ValueError(f"pairwise must name each edge once, got {key!r} again or a loop.")
            given.add((min(u, v), max(u, v)))
            factors.append(((u, v), check_table(f"pairwise[{key!r}]", table, 2)))
        if graph is None:
            n = 1 + max((max(edge) for edge in given), default=-1)
            n = max(n, len(unary) if unary is not None and not hasattr(unary, "items") else 0)
            if n < 1:
                raise ValueError("pairwise must name at least one edge when graph is None.")
        elif given != edges:
            raise ValueError(
                f"pairwise must have one table per edge of graph, got {len(given)} tables for "
                f"{len(edges)} edges (first difference: {next(iter(given ^ edges))})."
            )
    elif graph is None:
        raise ValueError("graph must be given when one pairwise table serves all edges, got None.")
    else:
        table = check_table("pairwise", pairwise, 2)
        factors = [(edge, table) for edge in sorted(edges)]
    if unary is not None:
        items = unary.items() if hasattr(unary, "items") else enumerate(unary)
        for key, table in items:
            v = check_integer("unary key", number.get(key, key), low=0, high=n - 1)
            factors.append(((v,), check_table(f"unary[{key!r}]", table, 1)))
    return n, factors
