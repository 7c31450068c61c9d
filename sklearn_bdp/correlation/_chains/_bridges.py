"""Leakage of one side of an observed chain, when any records there may be known (theory B5′)."""

import numpy as np

from sklearn_bdp.correlation._shared._leakage import close_above, kernel_update

# Work limit: state counts above this leave the bridges to Birkhoff's contraction and quilts.
MOST_STATES = 24
NOISE = 1e-14  # rounding errors of powers never fall below this


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

    def reached():
        leakage, power = np.zeros((k, width)), np.eye(k)  # A(j, s) for the known value s
        while True:
            power = power @ matrix
            power /= power.max()  # scale is irrelevant, underflow is not
            leakage = np.array(
                [_bridge_update(matrix, power[:, s], dp_epsilon + leakage[s]) for s in range(k)]
            )
            yield leakage.max(axis=0), _oscillation(power / far[:, None])

    worst = [np.zeros(width), np.zeros(width)]  # nothing there; the next record is known
    cap = cap if k == 2 else min(cap, 5000 // k)  # about half a second
    return _followed(reached(), worst, limit, dp_epsilon, steps, cap)


def _followed(reached, worst, limit, dp_epsilon, steps, cap):
    """Return running maxima along a side, closed by a bound on all that is further away.

    ``reached`` yields for one record after the other its leakage, and the range in nats in which
    its kernel still differs from the one that ``limit`` updates by. None when that range does not
    settle within the work limit.
    """
    while len(worst) <= steps:
        leakage, drift = next(reached)
        worst.append(np.maximum(worst[-1], leakage))
        if drift <= max(1e-8 * dp_epsilon, NOISE) or (len(worst) > cap and np.isfinite(drift)):

            def beyond(weights, drift=drift):
                # E_u[qg]/E_v[qg] * E_v[q]/E_u[q] with ln q of range `drift` at most
                return limit(weights + drift) + limit(np.full(len(weights), drift))

            rest = close_above(beyond, dp_epsilon, leakage, drift, steps)
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


def started_side(matrix, start, dp_epsilon, steps, *, stationary, cap=4000):
    """Return what the past adds when none of it is known and the first distribution is given.

    Row ``m`` of the result is the running maximum for records with at most ``m`` predecessors.
    """
    width = 2 if len(matrix) == 2 else 1
    limit = kernel_update(_normalised(matrix.T * stationary[None, :]))

    def reached():
        distribution, leakage = start, np.zeros(width)
        while True:
            leakage = _bridge_update(matrix.T, distribution, dp_epsilon + leakage)
            distribution = distribution @ matrix
            with np.errstate(divide="ignore"):
                shift = np.log(distribution) - np.log(stationary)
            yield leakage, float(shift.max() - shift.min())

    return _followed(reached(), [np.zeros(width)], limit, dp_epsilon, steps, cap)
