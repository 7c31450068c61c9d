"""Sides of a record on a chain: bridges to known records (B5′), quilts (B2, B3), Lemma 4 (B4)."""

import math

import numpy as np

from sklearn_bdp.correlation.privacy._kernels import close_above, kernel_update

# Work limit: state counts above this leave the bridges to Birkhoff's contraction and quilts.
MOST_STATES = 24
NOISE = 1e-14  # rounding errors of powers never fall below this
# Two-sided quilts are tabulated by distance pairs and pairs of values; beyond this many numbers
# the larger of the two sides' influences is taken for every pair of values (a valid bound).
TABLE_LIMIT = 5e7


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


def bridge_sides(matrix, dp_epsilon, steps, *, far, cap=4000):
    r"""Return what a side of ``m`` records can add when one of them is known, ``m <= steps``.

    ``matrix`` is the transition matrix for the side of the future, its transpose for the side of
    the past. The bridge to value ``s``, ``j`` steps away, moves by
    :math:`H(u,y) \propto M(u,y)\, M^{j-1}(y,s)`, whatever the distribution of the first state.
    ``far`` is what the columns of the powers become in the limit: ones towards the future, the
    stationary distribution towards the past.

    Row ``m`` of the result is the largest leakage over known records at most ``m`` steps away;
    where fewer than ``steps + 1`` rows are returned, the last bounds all later ones. None when the
    chain does not settle within the work limit.
    """
    k = len(matrix)
    width = 2 if k == 2 else 1
    limit = kernel_update(_normalised(matrix * far[None, :]))
    leakage, power = np.zeros((k, width)), np.eye(k)  # A(j, s) for the known value s
    worst = [np.zeros(width), np.zeros(width)]  # nothing there; the next record is known
    cap = cap if k == 2 else min(cap, 5000 // k)  # about half a second
    while len(worst) <= steps:
        power = power @ matrix
        power /= power.max()  # scale is irrelevant, underflow is not
        leakage = np.array(
            [_bridge_update(matrix, power[:, s], dp_epsilon + leakage[s]) for s in range(k)]
        )
        highest, drift = leakage.max(axis=0), _oscillation(power / far[:, None])
        worst.append(np.maximum(worst[-1], highest))
        if drift <= max(1e-8 * dp_epsilon, NOISE) or (len(worst) > cap and np.isfinite(drift)):

            def beyond(weights, drift=drift):
                # E_u[qg]/E_v[qg] * E_v[q]/E_u[q] with ln q of range `drift` at most
                return limit(weights + drift) + limit(np.full(len(weights), drift))

            rest = close_above(beyond, dp_epsilon, highest, drift, steps)
            worst.append(np.maximum(worst[-1], rest))
            break
        if len(worst) > cap:
            return None
    return np.array(worst[: steps + 1])


def _bridge_update(matrix, target, weights):
    """One step of the recursion towards a known value; rows that cannot reach it drop out."""
    bridge = matrix * target[None, :]
    totals = bridge.sum(axis=1)
    possible = totals > 0
    if possible.sum() < 2:
        return np.zeros(len(weights))
    bridge = bridge[possible] / totals[possible, None]
    return kernel_update(bridge)(weights)


def _normalised(matrix):
    return matrix / matrix.sum(axis=1, keepdims=True)


def _oscillation(power):
    """Largest ``ln max/min`` of a column: how much a far-away known value still matters."""
    low = power.min(axis=0)
    if not low.min() > 0:
        return np.inf
    return float(np.log(power.max(axis=0) / low).max())


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


def spectral_smallest_n(gap, smallest):
    """Return the least ``n`` for which some level satisfies ``n >= 2d``."""
    # d >= (1/g) ln(1/rho) with strict inequality: coth > 1.
    return 2 * (math.floor(-math.log(smallest) / gap) + 1)


def spectral_dp_epsilon(bdp_epsilon, gap, smallest, n):
    """Return the DP level ``h`` that Lemma 4 of Zhao (2017) proves sufficient for a BDP level.

    ``max_c min{(1-6c) e / (2d-1), (1/3-2c) e / (d+s)}`` over ``0 < c < 1/6`` with ``n >= 2d``; 0
    when no ``c`` qualifies. ``gap`` is ``1 - max_{j>=2} |lambda_j|``, ``smallest`` the smallest
    stationary probability ``rho``.

    ``d`` falls in steps as ``c`` grows while both terms fall in ``c``; so the best ``c`` for
    each integer ``d`` is the smallest that reaches it,
    ``c = (2/e) artanh(exp(-g d) / rho)``, and one pass over ``d`` finds the maximum exactly.

    Zhao 2017, Adaptive Statistical Learning with Bayesian Differential Privacy, WPES'17,
    Lemma 4; ``s`` is defined in Section 5.3.
    """
    e = bdp_epsilon
    # Zhao 2017, Section 5.3: s = floor((1/g) ln((e^{e/6}+1) / (rho (e^{e/6}-1)))).
    s = math.floor(math.log(1.0 / (smallest * math.tanh(e / 12.0))) / gap)
    first = math.floor(-math.log(smallest) / gap) + 1
    best, start = 0.0, first
    while 2 * start <= n and e / (2 * start - 1) > best:
        d = np.arange(start, min(n // 2, start + 4095) + 1)
        share = np.exp(-gap * d) / smallest
        with np.errstate(divide="ignore"):
            c = np.where(share < 1.0, (2.0 / e) * np.arctanh(np.minimum(share, 1.0)), math.inf)
        # Theory B4; Zhao 2017, Lemma 4.
        h = np.minimum((1.0 - 6.0 * c) * e / (2 * d - 1), (1.0 / 3.0 - 2.0 * c) * e / (d + s))
        best = max(best, float(h.max()))
        start = int(d[-1]) + 1
    return best * (1.0 - 1e-12)  # c = c(d) is approached, not always attained
