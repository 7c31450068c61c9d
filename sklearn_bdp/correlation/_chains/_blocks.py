"""Records of a chain taken together: sides of a record, blocks of records."""

import numpy as np


def combine(operation, one, other):
    """Combine two side sequences elementwise; each is constant past its end."""
    room = np.arange(max(len(one), len(other)))
    return operation(one[np.minimum(room, len(one) - 1)], other[np.minimum(room, len(other) - 1)])


def both_sides(left, right, n):
    """Return the largest ``left[m] + right[n - 1 - m]`` over the records of a chain."""
    room = np.arange(min(n, len(left) + len(right)))
    room = np.r_[room, n - 1 - room]
    here = left[np.minimum(room, len(left) - 1)]
    there = right[np.minimum(n - 1 - room, len(right) - 1)]
    return float((here + there).max())


def block_information(dp_epsilon, extra, n):
    """Return the least sum of squared block leakages / 8 on a chain, in nats (theory G1, B7).

    ``extra`` is what the records after a block add to the leakage of its own.
    """
    return dp_epsilon**2 * block_spread(extra / dp_epsilon, n) / 8.0


def block_spread(reach, n):
    """Return the least sum of squared martingale ranges over block lengths (theory H4).

    ``reach`` is what follows a block, in units of one record: the sum of the Dobrushin coefficients
    of the powers, that is expected records that still differ after two chains were started apart
    and coupled maximally (Griffeath 1975). The result is in units of the squared sensitivity.
    """
    sizes = np.unique(np.clip(np.ceil(reach * np.linspace(0.25, 4.0, 200)), 1, n))
    sizes = np.union1d(sizes, [1.0, float(n)])
    blocks = np.ceil(n / sizes)
    last = n - (blocks - 1) * sizes  # nothing follows the last block
    return float(((blocks - 1) * (sizes + reach) ** 2 + last**2).min())
