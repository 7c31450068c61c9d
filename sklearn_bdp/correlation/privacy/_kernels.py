"""How leakage passes through a kernel: the update of Cao et al. and Birkhoff's contraction."""

import math

import numpy as np
from scipy.spatial.distance import cdist

from sklearn_bdp._bisection import doubled, last_accepted

# Fixed points are approached from below; stop when a step moves less than this, relatively,
# and add the geometric rest of the sequence, so that the answer is never too small.
FIXED_POINT_TOLERANCE = 1e-13


def kernel_leakage(kernel, weight):
    """Return ``L_P(w)``, in nats: what a record tells about its neighbour and all behind it.

    ``max_{u,v,A} ln[(1 + P(u,A)(e^w - 1)) / (1 + P(v,A)(e^w - 1))]``, where row ``u`` of ``kernel``
    is the distribution of the neighbour given value ``u``; zeros are allowed.

    For a ratio ``r`` the best set of a pair is ``{y : P(u,y) > r P(v,y)}`` and
    ``sum_y max(P(u,y) - r P(v,y), 0)`` is half of a city-block distance, so all pairs are tried
    at once; Dinkelbach's iteration then needs a handful of ratios.

    Cao, Yoshikawa, Xiao, Xiong 2017, Quantifying differential privacy under temporal
    correlations, Algorithm 1 (a linear-fractional programme per pair of rows).
    """
    # Theory B7; Cao et al. 2017, (15)-(18).
    if not weight > 0 or len(kernel) < 2:
        return 0.0
    if weight > 600.0:  # e^w overflows; the update grows no faster than its argument
        return kernel_leakage(kernel, 600.0) + (weight - 600.0)
    growth = math.expm1(weight)
    excess = 0.0  # r - 1, kept apart so that small leakage keeps its relative precision
    for _ in range(100):
        distance = cdist(kernel, kernel * (1.0 + excess), "cityblock")
        u, v = np.unravel_index(np.argmax(distance), distance.shape)
        chosen = kernel[u] > (1.0 + excess) * kernel[v]
        gain = float((kernel[u, chosen] - kernel[v, chosen]).sum())
        better = growth * gain / (1.0 + growth * float(kernel[v, chosen].sum()))
        if not better > excess * (1.0 + 1e-14):
            break
        excess = better
    return min(weight, math.log1p(excess))


def contract(diameter, weight):
    """Return ``4 artanh(tanh(diameter/4) tanh(weight/4))`` elementwise (Birkhoff).

    The range of the log of an averaged function, at most either argument: ``weight`` is the range
    on the targets of a kernel of that projective diameter, in nats; either may be infinite.
    """
    # Birkhoff 1957: a positive kernel contracts Hilbert's metric by tanh(diameter / 4); the
    # product form is the sharp bound for a range `weight`. Theory B5, B6.
    small, large = np.minimum(diameter, weight), np.maximum(diameter, weight)
    # artanh(x) from 1 - x loses nothing when both factors are near one.
    a, b = np.exp(-small / 2), np.exp(-large / 2)
    # (1 + tt') / (1 - tt') with t = (1-a)/(1+a), t' = (1-b)/(1+b) equals (1 + ab) / (a + b).
    with np.errstate(divide="ignore", invalid="ignore"):
        result = 2.0 * np.log1p(np.expm1(-small / 2) * np.expm1(-large / 2) / (a + b))
    result = np.where(a + b > 0, result, small)
    result = np.minimum(result, small)
    return float(result) if np.ndim(result) == 0 else result


def two_state_leakage(kernel, weights):
    """Return the leakage of a two-state kernel, each direction by itself.

    ``weights`` are the largest ``ln g(0)/g(1)`` and ``ln g(1)/g(0)`` of a function of the
    neighbour; the result is the same for ``u -> sum_y kernel[u, y] g(y)``. The ratio is monotone in
    ``g(0)/g(1)``, so the two ends decide and the recursion is exact.
    """
    (p, _), (q, r) = kernel.tolist()
    ends = []
    for end in (float(weights[0]), -float(weights[1])):
        x = min(max(end, -600.0), 600.0)
        # (p t + 1-p) / (q t + 1-q) - 1 with t = e^x
        if x > 0:
            excess = -(p - q) * math.expm1(-x) / (q + r * math.exp(-x))
        else:
            excess = (p - q) * math.expm1(x) / (q * math.exp(x) + r)
        value = math.log1p(excess) if excess > -1.0 else -math.inf
        ends.append(value + math.copysign(abs(end) - abs(x), value))  # slope at most one
    return np.minimum([max(*ends, 0.0), max(-ends[0], -ends[1], 0.0)], np.max(weights))


def kernel_update(kernel):
    """Return the update ``weights -> leakage`` of a kernel, by direction where there are two."""
    if kernel.shape == (2, 2):
        return lambda weights: two_state_leakage(kernel, weights)
    return lambda weights: np.array([kernel_leakage(kernel, float(np.max(weights)))])


def iterate_leakage(update, dp_epsilon, steps, *, width=1, cap=None):
    """Return ``a_0 = 0, a_1 = update(dp_epsilon + a_0), …`` up to ``steps`` or convergence.

    ``update`` maps arrays of leakages, increasing, none above the largest of its arguments.
    ``width`` directions are kept apart: 2 for two-state kernels, else 1. After ``cap`` steps a
    bound closes the sequence; two-state updates are cheap and get more of them. Where fewer than
    ``steps + 1`` rows are returned, the last bounds all later ones.
    """
    cap = (200 if width == 1 else 20_000) if cap is None else cap
    sequence = [np.zeros(width)]
    while len(sequence) <= steps:
        new = update(dp_epsilon + sequence[-1])
        step = float(np.max(new - sequence[-1]))
        sequence.append(np.maximum(new, sequence[-1]))
        if len(sequence) > cap or not step > FIXED_POINT_TOLERANCE * float(np.max(new)):
            sequence.append(close_above(update, dp_epsilon, sequence[-1], max(step, 0.0), steps))
            break
    return np.array(sequence[: steps + 1])


def close_above(update, dp_epsilon, reached, step, steps):
    """Return a bound on all later terms of the recursion, given the term reached.

    Any ``b >= reached`` with ``update(dp_epsilon + b) <= b`` is one: the update is increasing,
    so no later term can jump over it. ``steps * dp_epsilon`` always is.
    """
    ceiling = steps * dp_epsilon
    if len(reached) > 1:  # one margin for both directions is loose far from the fixed point
        for _ in range(20_000):
            new = np.maximum(update(dp_epsilon + reached), reached)
            step, reached = float(np.max(new - reached)), new
            if not step > FIXED_POINT_TOLERANCE * float(np.max(new)):
                break
    margin = max(step, 4 * FIXED_POINT_TOLERANCE * float(np.max(reached)), 1e-300)

    def closed(margin):
        return np.all(update(dp_epsilon + reached + margin) <= reached + margin)

    found = doubled(closed, margin, most=np.nextafter(ceiling - np.max(reached), 0.0))
    if found is None:
        return np.maximum(reached, ceiling)
    within = 1e-9 * float(np.max(reached + found[0]))
    return reached + last_accepted(closed, *found, steps=40, within=within)


def contracted_sides(diameter, dp_epsilon, steps, *, exact=256):
    """Return what a side of ``m`` records adds for an adversary who knows any of it (theory B5).

    Non-decreasing rows. The first ``exact`` steps are followed one by one, the fixed point bounds
    the rest: where fewer than ``steps + 1`` rows are returned, the last bounds all later ones.
    """
    sides = [0.0]
    for _ in range(min(steps, exact)):
        sides.append(contract(diameter, dp_epsilon + sides[-1]))
    if steps > exact:
        # z = e^{a/2} - 1 solves s z^2 + (2s - q) z = (1 - s) q, s = e^{-diameter/2},
        # q = 1 - e^{-dp_epsilon/2}; the form of the root avoids cancellation.
        s, q = math.exp(-diameter / 2.0), -math.expm1(-dp_epsilon / 2.0)
        b, fixed = 2.0 * s - q, math.inf
        root = math.sqrt(b * b + 4.0 * s * (1.0 - s) * q)
        if b > 0:
            fixed = 2.0 * math.log1p(2.0 * (1.0 - s) * q / (b + root))
        elif s > 1e-300:
            fixed = 2.0 * math.log1p((root - b) / (2.0 * s))
        sides.append(max(sides[-1], min(fixed * (1.0 + 1e-12), steps * dp_epsilon)))
    return np.array(sides)[:, None]
