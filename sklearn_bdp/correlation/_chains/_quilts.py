"""Markov quilts on a chain whose states are the records: Zhao 2017, Lemmas 2 and 3 (B2, B3)."""

import math

import numpy as np

# Two-sided quilts are tabulated by distance pairs and pairs of values; beyond this many numbers
# the larger of the two sides' influences is taken for every pair of values (a valid bound).
TABLE_LIMIT = 5e7


def log_ratios(rows):
    """Return ``max_s ln rows[u, s] / rows[v, s]`` for all ``u, v``; infinite where impossible."""
    k = len(rows)
    result = np.zeros((k, k))
    for u in range(k):
        with np.errstate(divide="ignore", invalid="ignore"):
            # log1p of the difference keeps small influences precise
            ratio = np.log1p((rows[u] - rows) / rows)
        ratio = np.where((rows[u] == 0) | np.isnan(ratio), -math.inf, ratio)
        result[u] = np.maximum(ratio.max(axis=1), 0.0)
    return result


def chain_influences(kernel, longest, enough):
    """Return distances, and the influence of a record on the one at each distance.

    ``kernel`` makes one step towards the quilt. Distances are all up to 256, then grow by 2 % (any
    family of quilts is valid), and end at ``longest`` or where the influence falls to ``enough``:
    one record more cannot be worth it. Influences are ``max_s ln P[s | u] / P[s | v]`` in nats, of
    shape (m, k, k).
    """
    distances, influences, power, distance = [], [], np.eye(len(kernel)), 0
    while distance < longest:
        step = 1 if distance < 256 else max(1, distance // 50)
        step = min(step, longest - distance)
        power = power @ (kernel if step == 1 else np.linalg.matrix_power(kernel, step))
        power /= power.sum(axis=1, keepdims=True)
        distance += step
        distances.append(distance)
        influences.append(log_ratios(power))
        if influences[-1].max() <= enough:
            break
    return np.array(distances, dtype=int), np.array(influences).reshape(-1, *kernel.shape)


def two_sided_influences(left, right):
    """Return ``b`` of all two-sided quilts, shape (distances left, distances right).

    Conditioning inside the quilt cuts a side off, so ``max_{L in N}`` is attained at ``L = {}``:
    the two sides are independent given the record, and their influences add.
    """
    k = left.shape[1]
    if len(left) * len(right) * k * k > TABLE_LIMIT:
        return left.max(axis=(1, 2))[:, None] + right.max(axis=(1, 2))[None, :]
    best = np.zeros((len(left), len(right)))
    for u in range(k):
        for v in range(k):
            if u != v:
                np.maximum(best, left[:, None, u, v] + right[None, :, u, v], out=best)
    return best


def quilt_leakage(past, future, dp_epsilon, n, *, factor=4.0):
    """Return the BDP level of a chain by its best quilts, ends included.

    ``max_i min_Q [(|N| + 1) dp_epsilon + factor * b]`` over the two-sided, one-sided and empty
    quilts of every record; ``past`` and ``future`` come from :func:`chain_influences`. The factor
    is 4 as printed by Zhao (2017); 2 suffices (theory B2).
    """
    if n == 1:
        return dp_epsilon
    (far_left, left), (far_right, right) = past, future
    # Theory B2; Zhao 2017, Lemma 2: |N| + 1 = a + c - 1 for the quilt {i - a, i + c}.
    both = (far_left[:, None] + far_right[None, :] - 1) * dp_epsilon
    both = both + factor * two_sided_influences(left, right)
    both = np.minimum.accumulate(np.minimum.accumulate(both, axis=0), axis=1)
    one_left = np.minimum.accumulate(far_left * dp_epsilon + factor * left.max(axis=(1, 2)))
    one_right = np.minimum.accumulate(far_right * dp_epsilon + factor * right.max(axis=(1, 2)))

    before = _records_to_look_at(
        n, int(far_left[-1]), int(far_right[-1]), one_left, one_right, dp_epsilon
    )
    after = n - 1 - before
    level = np.full(len(before), n * dp_epsilon)  # the empty quilt
    i = np.searchsorted(far_left, before, side="right") - 1
    j = np.searchsorted(far_right, after, side="right") - 1
    level = np.where((i >= 0) & (j >= 0), np.minimum(level, both[i, j]), level)
    level = np.where(i >= 0, np.minimum(level, one_left[i] + after * dp_epsilon), level)
    level = np.where(j >= 0, np.minimum(level, one_right[j] + before * dp_epsilon), level)
    return float(level.max())


def _records_to_look_at(n, reach_left, reach_right, one_left, one_right, dp_epsilon):
    """Return how many records lie before each record that may be the worst.

    Past the reach of both tables all records share the two-sided quilts, and the one-sided ones
    are worst where the two cross.
    """
    margin = reach_left + reach_right + 2
    if n <= 2 * margin:
        return np.arange(n)
    shift = (one_right[-1] - one_left[-1]) / dp_epsilon
    centre = (n - 1 - shift) / 2.0 if math.isfinite(shift) else (n - 1) / 2.0
    middle = np.clip(np.floor(centre) + np.arange(-1, 3), 0, n - 1).astype(int)
    return np.unique(np.r_[np.arange(margin), middle, np.arange(n - margin, n)])


def blanket_influence(backward, forward, n):
    """Return the max-influence ``a`` of a record on its Markov blanket (its neighbours)."""
    if n == 1:
        return 0.0
    left, right = log_ratios(backward), log_ratios(forward)
    return float((left + right).max() if n > 2 else max(left.max(), right.max()))
