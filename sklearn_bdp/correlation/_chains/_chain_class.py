"""All chains that observed states do not rule out."""

from __future__ import annotations

import itertools
import math

import numpy as np
from numpy.typing import ArrayLike

from sklearn_bdp._checks import check_array, check_probability
from sklearn_bdp.correlation._chains._blocks import block_information, both_sides
from sklearn_bdp.correlation._chains._time import TimeModel
from sklearn_bdp.correlation._shared._leakage import contract, contracted_sides, iterate_leakage
from sklearn_bdp.correlation._shared._transition import (
    check_transition,
    mixing_profile,
    mixing_sum,
)

ENUMERATED_STATES = 6  # sets of next states are enumerated up to here
PROFILE_LENGTH = 500


class MarkovChainClass(TimeModel):
    """Chains whose transition matrix lies between two bounds; the truth is one of them.

    Usually made by ``MarkovChain.from_states(..., confidence=0.99)``. Every bound holds for the
    worst matrix of the class. The records may be the states or depend on them (hidden), and the
    first state may have any distribution.

    Parameters
    ----------
    transition : array-like of shape (k, k)
        A matrix inside the bounds (the estimate).
    lower, upper : array-like of shape (k, k)
        Entrywise bounds.
    confidence : float
        Level at which the class holds the truth. Certificates pay for ``1 - confidence`` out of
        their ``beta``.

    Attributes
    ----------
    diameter_ : float
        Largest projective diameter in the class, in nats.
    dobrushin_ : float
        Bound on the largest Dobrushin coefficient in the class.

    Raises
    ------
    ValueError
        If the bounds do not enclose the matrix.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_bdp.correlation import MarkovChain
    >>> states = np.tile([0, 0, 0, 1, 1, 0, 1, 1], 500)
    >>> chains = MarkovChain.from_states(states, confidence=0.99)
    >>> chains.confidence
    0.99
    >>> chains.bdp_epsilon(0.01, 100) > MarkovChain.from_states(states).bdp_epsilon(0.01, 100)
    True
    """

    def __init__(
        self, transition: ArrayLike, *, lower: ArrayLike, upper: ArrayLike, confidence: float
    ) -> None:
        matrix = check_array("transition", transition, ndim=2, low=0.0)
        self.transition = check_transition(matrix / matrix.sum(axis=1, keepdims=True))
        shape = self.transition.shape
        self.lower = check_array("lower", lower, shape=shape, low=0.0, high=1.0).copy()
        self.upper = check_array("upper", upper, shape=shape, low=0.0, high=1.0).copy()
        slack = 1e-6  # clipping and rescaling the estimate moves it by rounding errors
        if not np.all(
            (self.lower <= self.transition + slack) & (self.transition <= self.upper + slack)
        ):
            raise ValueError("lower and upper must enclose transition entry by entry.")
        self.confidence = check_probability("confidence", confidence)
        self.diameter_ = self._worst_diameter()
        self.dobrushin_ = self._worst_dobrushin()
        self._freeze()

    def _stationary_error(self):
        # pi - pi^ = pi (P - P^) sum_k P^k, and rows of mass zero shrink by theta(P^k): at most
        # r sum_k theta(P^k), r the largest distance between a row of the class and the estimate.
        profile = mixing_profile(self.transition, length=PROFILE_LENGTH)
        return min(1.0, self._radius() * (1.0 + mixing_sum(profile, 2**40)))

    def __repr__(self) -> str:
        return (
            f"MarkovChainClass(<{len(self.transition)} states, entries within "
            f"{np.max(self.upper - self.lower):.3g}>, confidence={self.confidence:g})"
        )

    def _content(self):
        return (self.transition, self.lower, self.upper, self.confidence)

    def describe(self) -> str:
        many = 10_000_000
        return (
            f"class of {len(self.transition)}-state Markov chains not ruled out at confidence "
            f"{self.confidence:g}, at worst 1 record in {many / self.effective_n(many):.1f} counts"
        )

    def _worst_diameter(self):
        if len(self.transition) < 2:
            return 0.0
        if not self.lower.min() > 0:
            return math.inf
        # ln hi(u,y) - ln lo(v,y) + ln hi(v,z) - ln lo(u,z), largest over y != z and u != v
        high, low, worst = np.log(self.upper), np.log(self.lower), 0.0
        for u, v in itertools.permutations(range(len(high)), 2):
            total = (high[u] - low[v])[:, None] + (high[v] - low[u])[None, :]
            np.fill_diagonal(total, 0.0)
            worst = max(worst, float(total.max()))
        return worst

    def _worst_dobrushin(self):
        if len(self.transition) < 2:
            return 0.0
        worst = 0.0
        for u, v in itertools.permutations(range(len(self.lower)), 2):
            gain = np.maximum(self.upper[u] - self.lower[v], 0.0).sum()
            worst = max(worst, gain)
        radius = self._radius()
        centre = max(
            0.5 * np.abs(a - b).sum() for a, b in itertools.combinations(self.transition, 2)
        )
        return float(min(1.0, worst, centre + 2.0 * radius))

    def _radius(self):
        """Largest total variation between a row of the class and the estimate."""
        up = np.maximum(self.upper - self.transition, 0.0).sum(axis=1)
        down = np.maximum(self.transition - self.lower, 0.0).sum(axis=1)
        return float(np.minimum(up, down).max())

    def _profile(self):
        def compute():
            centre = mixing_profile(self.transition, length=PROFILE_LENGTH)
            centre = np.r_[centre, np.full(max(0, 64 - len(centre)), centre[-1])]
            # Rows of P^k and of the estimate's power differ by at most radius * sum_{j<k} theta^j.
            drift = self._radius() * np.cumsum(np.r_[1.0, centre[:-1]])
            bound = np.minimum(1.0, centre + 2.0 * drift)
            bound[0] = min(bound[0], self.dobrushin_)
            for k in range(1, len(bound)):  # submultiplicative: any way to write k + 1 as a sum
                bound[k] = min(bound[k], bound[k - 1], float((bound[:k] * bound[:k][::-1]).min()))
            return bound

        return self._remember("profile", compute)

    # -- leakage ----------------------------------------------------------------------------

    def _check_method(self, n, method):
        if method != "tight":
            raise ValueError(
                f"method={method!r} needs one transition matrix (MarkovChain); a class of chains "
                "has method='tight' only."
            )

    def _sides(self, dp_epsilon, n):
        return contracted_sides(self.diameter_, dp_epsilon, n - 1)

    def _leakage(self, dp_epsilon, n, method):
        side = self._sides(dp_epsilon, n)  # theory B5 for the worst diameter
        return min(dp_epsilon + both_sides(side, side, n), n * dp_epsilon)

    def _sets(self):
        """Largest and smallest probability of every set of next states, given each state."""

        def compute():
            k = len(self.lower)
            member = np.array(list(itertools.product([0.0, 1.0], repeat=k)))
            high = np.minimum(self.upper @ member.T, 1.0 - self.lower @ (1.0 - member).T)
            low = np.maximum(self.lower @ member.T, 1.0 - self.upper @ (1.0 - member).T)
            return high, np.maximum(low, 0.0)

        return self._remember("sets", compute)

    def _update(self, weights):
        weight = float(np.max(weights))
        bound = float(contract(self.diameter_, weight))
        if weight < 600.0:
            growth = math.expm1(weight)
            # P(u,A) <= P(v,A) + theta
            bound = min(bound, math.log1p(self.dobrushin_ * growth))
            if len(self.lower) <= ENUMERATED_STATES:
                high, low = self._sets()
                ratios = [
                    float((growth * (high[u] - low[v]) / (1.0 + growth * low[v])).max())
                    for u, v in itertools.permutations(range(len(high)), 2)
                ]
                bound = min(bound, math.log1p(max(ratios, default=0.0)))
        return np.array([bound])

    def _forward(self, dp_epsilon, n):
        return self._remember(
            ("forward", dp_epsilon, n), lambda: iterate_leakage(self._update, dp_epsilon, n - 1)
        )

    def _sequential_epsilon(self, dp_epsilon, n):
        level = self.bdp_epsilon(dp_epsilon, n)
        return min(level, dp_epsilon + float(self._forward(dp_epsilon, n)[-1].max()))

    def _sequential_information(self, dp_epsilon, n):
        return block_information(dp_epsilon, float(self._forward(dp_epsilon, n)[-1].max()), n)

    def _posterior_bias(self, dp_epsilon, n):
        level = self.bdp_epsilon(dp_epsilon, n)
        one = self._forward(dp_epsilon, n)[-1].max() + self._sides(dp_epsilon, n)[-1].max()
        return math.tanh(min(level, dp_epsilon + float(one)) / 4.0)
