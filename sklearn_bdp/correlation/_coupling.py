"""Strength of a network read off the labels of training nodes: pseudo-likelihood (Potts model)."""

import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp
from scipy.stats import norm

LARGEST_COUPLING = 12.0  # beyond it neighbours determine each other
CONFIDENCE = 0.95  # of the upper limit


def label_coupling(graph, y):
    r"""Return an upper limit of the diameter of edges, in nats, by pseudo-likelihood (Potts).

    :math:`P[y_i = k \mid \text{rest}] \propto \exp(h_k + J m_{ik})` with :math:`m_{ik}` the
    neighbours of class ``k`` (Besag 1975), on the graph of the labelled nodes, whose classes
    ``0, 1, …`` are ``y``. The diameter of an edge is :math:`2|J|`. The error is a sandwich with the
    cross terms of neighbours, and never below the naive one.
    """
    if not y.max() > 0:
        raise ValueError("labels must hold at least two classes, got 1.")
    if not graph.nnz:
        raise ValueError("labels must include two neighbors, got labeled nodes without an edge.")
    n, k = len(y), int(y.max()) + 1
    fields = np.broadcast_to(np.eye(k)[:, 1:], (n, k, k - 1))
    # Derivatives of every class's log-weight: fields (the first is zero), then the coupling.
    features = np.concatenate([fields, (graph @ np.eye(k)[y])[:, :, None]], axis=2)
    shown = features[np.arange(n), y]

    def weighted(theta):
        logits = features @ theta
        total = logsumexp(logits, axis=1)
        weights = np.exp(logits - total[:, None])
        return total, weights, np.einsum("nk,nkp->np", weights, features)

    def loss(theta):
        total, _, mean = weighted(theta)
        return (total - shown @ theta).sum() / n, (mean - shown).sum(axis=0) / n

    bounds = [(None, None)] * (k - 1) + [(-LARGEST_COUPLING, LARGEST_COUPLING)]
    theta = minimize(loss, np.zeros(k), jac=True, method="L-BFGS-B", bounds=bounds).x
    _, weights, mean = weighted(theta)
    try:
        second = np.einsum("nk,nkp,nkq->pq", weights, features, features)
        inverse = np.linalg.inv(second - mean.T @ mean)
        scores = shown - mean
        middle = scores.T @ scores + scores.T @ (graph @ scores)
        error = np.sqrt(max(inverse[-1, -1], (inverse @ middle @ inverse)[-1, -1]))
    except np.linalg.LinAlgError:
        error = np.inf
    limit = abs(theta[-1]) + norm.ppf(CONFIDENCE) * error
    if not limit < LARGEST_COUPLING:
        raise ValueError(
            "labels of neighbors determine each other (the coupling grows without bound): declare "
            "the influence of an edge yourself, MarkovNetwork(graph, influence=...), or bring "
            "holdout nodes of other components with DependencyGraph(graph)."
        )
    return float(2.0 * limit)
