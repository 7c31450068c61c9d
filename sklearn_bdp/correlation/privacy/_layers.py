"""Breadth-first layers around a record: any graph seen as a chain of blocks (theory B6, B2)."""

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from sklearn_bdp.correlation.privacy._kernels import contract

CHUNK = 1024  # sources searched together
MOST_LAYERS = 32
MEAN_BALL = 128  # records looked at per source, on average
MOST_VISITS = 30_000_000  # for all sources together; later ones keep the first layer only
HUGE = 1e6  # stands for an infinite diameter: tanh is one


@dataclass(frozen=True, eq=False)
class Layers:
    """Layers around each source: sizes and couplings, shape (layers, sources).

    ``sizes[t]`` counts the records at distance ``t + 1``; ``diameters[t]`` sums the influences
    of the edges that lead to them from the layer before; ``rest`` bounds the influence of the
    last layer on everything beyond; ``beyond`` counts the records there.
    """

    sizes: np.ndarray
    diameters: np.ndarray
    rest: np.ndarray
    beyond: np.ndarray

    def leakage(self, dp_epsilon):
        """Return the BDP level of each source: messages from the outermost layer inwards."""
        # Theory B6 with layers merged into blocks: a block of s records costs s * dp_epsilon.
        message = np.minimum(self.rest, self.beyond * dp_epsilon)
        for size, diameter in zip(self.sizes[::-1], self.diameters[::-1], strict=True):
            message = contract(diameter, size * dp_epsilon + message)
        return dp_epsilon + message

    def quilted(self, dp_epsilon, component_sizes, factor):
        """Return the level of each source by its best sphere used as a quilt (theory B2)."""
        level = component_sizes * dp_epsilon  # the empty quilt
        influence, inside = np.full(len(level), HUGE), np.ones(len(level))
        for size, diameter in zip(self.sizes, self.diameters, strict=True):
            # The max-influence is at most the diameter of the chain of layers in between.
            influence = contract(diameter, influence)
            level = np.minimum(level, inside * dp_epsilon + factor * influence)
            inside = inside + size
        return level


def search_layers(matrix, sources, component_sizes):
    """Return the :class:`Layers` around ``sources`` in a graph of edge diameters (nats, or inf).

    ``component_sizes`` are aligned with ``sources``, as the result is.
    """
    matrix = sparse.csr_array(
        (np.minimum(matrix.data, HUGE), matrix.indices, matrix.indptr), shape=matrix.shape
    )
    strength = matrix.sum(axis=1)
    parts, visits = [], 0
    for start in range(0, len(sources), CHUNK):
        chunk = sources[start : start + CHUNK]
        depth = MOST_LAYERS if visits < MOST_VISITS else 1
        part, seen = _search(matrix, strength, chunk, component_sizes[start : start + CHUNK], depth)
        parts.append(part)
        visits += seen
    depth = max(len(part.sizes) for part in parts)

    def pad(arrays, fill):
        return np.hstack(
            [np.vstack([a, np.full((depth - len(a), a.shape[1]), fill)]) for a in arrays]
        )

    return Layers(
        pad([part.sizes for part in parts], 0.0),
        # A layer that was not searched passes everything on.
        pad([part.diameters for part in parts], HUGE),
        np.concatenate([part.rest for part in parts]),
        np.concatenate([part.beyond for part in parts]),
    )


def _search(matrix, strength, sources, component_sizes, depth):
    m, n = len(sources), matrix.shape[0]
    front = sparse.csr_array((np.ones(m), sources, np.arange(m + 1)), shape=(m, n))
    visited, sizes, diameters = front, [], []
    rest = np.full(m, np.inf)
    for _ in range(depth):
        reached = front @ matrix
        fresh = sparse.csr_array(reached - reached.multiply(visited))
        fresh.eliminate_zeros()
        if not fresh.nnz:
            rest = np.zeros(m)
            break
        sizes.append(np.diff(fresh.indptr).astype(float))
        diameters.append(fresh.sum(axis=1))
        front = sparse.csr_array((np.ones(fresh.nnz), fresh.indices, fresh.indptr), shape=(m, n))
        visited = visited + front
        rest = np.maximum(front @ strength - diameters[-1], 0.0)
        if visited.nnz > MEAN_BALL * m:
            break
    beyond = component_sizes - 1.0 - np.sum(sizes, axis=0)
    rest = np.where(beyond > 0, rest, 0.0)
    return Layers(
        np.array(sizes).reshape(-1, m),
        np.array(diameters).reshape(-1, m),
        rest,
        np.maximum(beyond, 0.0) + np.zeros(m),
    ), visited.nnz
