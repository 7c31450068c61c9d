"""Strength of a network read off the labels of training nodes: pseudo-likelihood (Potts model)."""

import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp
from scipy.stats import norm

from sklearn_bdp._checks import check_probability

LARGEST_COUPLING = 12.0  # beyond it neighbours determine each other


def label_codes_or_missing(labels, n):
    """Return class codes of the labels, -1 where a label is missing (None or NaN)."""
    values = list(labels)
    if len(values) != n:
        raise ValueError(
            f"labels must hold one label (or None) per record, {n}, got {len(values)}."
        )
    known = np.array([value is not None and value == value for value in values])
    classes = sorted({value for value, there in zip(values, known, strict=True) if there}, key=str)
    if len(classes) < 2:
        raise ValueError(f"labels must hold at least two classes, got {len(classes)}.")
    numbers = {value for value in classes if isinstance(value, int | float | np.number)}
    if -1 in numbers and numbers != {-1, 1}:
        raise ValueError(
            "labels must be None or NaN where they are unknown, got -1 beside other classes. "
            "Replace -1 by None, or rename the class if -1 is one."
        )
    place = {value: code for code, value in enumerate(classes)}
    return np.array([place[v] if there else -1 for v, there in zip(values, known, strict=True)])


def label_coupling(adjacency, codes, confidence: float) -> float:
    r"""Return an upper limit of the diameter of edges, in nats, by pseudo-likelihood (Potts).

    :math:`P[y_i = k \mid \text{rest}] \propto \exp(h_k + J m_{ik})` with :math:`m_{ik}` the
    neighbours of class ``k`` among the labelled nodes (Besag 1975); -1 stands for unknown labels.
    The diameter of an edge is :math:`2|J|`. The error is a sandwich with the cross terms of
    neighbours, and never below the naive one.
    """
    confidence = check_probability("confidence", confidence)
    known = np.flatnonzero(codes >= 0)
    y, k = codes[known], int(codes.max()) + 1
    graph = adjacency[known][:, known].astype(bool).astype(float)
    if not graph.nnz:
        raise ValueError("labels must include two neighbors, got labeled nodes without an edge.")
    counts = graph @ np.eye(k)[y]
    theta = _fit(y, counts)
    error = _standard_error(theta, y, counts, graph)
    limit = abs(theta[-1]) + norm.ppf(confidence) * error
    if not limit < LARGEST_COUPLING:
        raise ValueError(
            "labels of neighbors determine each other (the coupling grows without bound): declare "
            "the influence of an edge yourself, MarkovNetwork(graph, influence=...), or bring "
            "holdout nodes of other components with DependencyGraph(graph)."
        )
    return float(2.0 * limit)


def _features(counts):
    """Return the derivative of every class's log-weight: fields (the first is zero), coupling."""
    n, k = counts.shape
    fields = np.broadcast_to(np.eye(k)[:, 1:], (n, k, k - 1))
    return np.concatenate([fields, counts[:, :, None]], axis=2)


def _fit(y, counts):
    features, rows = _features(counts), np.arange(len(y))

    def loss(theta):
        logits = features @ theta
        total = logsumexp(logits, axis=1)
        weights = np.exp(logits - total[:, None])
        slope = np.einsum("nk,nkp->p", weights, features) - features[rows, y].sum(axis=0)
        return (total - logits[rows, y]).sum() / len(y), slope / len(y)

    bounds = [(None, None)] * (counts.shape[1] - 1) + [(-LARGEST_COUPLING, LARGEST_COUPLING)]
    start = np.zeros(counts.shape[1])
    return minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds).x


def _standard_error(theta, y, counts, graph):
    features, rows = _features(counts), np.arange(len(y))
    logits = features @ theta
    weights = np.exp(logits - logsumexp(logits, axis=1)[:, None])
    mean = np.einsum("nk,nkp->np", weights, features)
    scores = features[rows, y] - mean
    second = np.einsum("nk,nkp,nkq->pq", weights, features, features)
    try:
        inverse = np.linalg.inv(second - mean.T @ mean)
    except np.linalg.LinAlgError:
        return np.inf
    middle = scores.T @ scores + scores.T @ (graph @ scores)
    naive = inverse[-1, -1]
    return np.sqrt(max(naive, (inverse @ middle @ inverse)[-1, -1]))
