r"""Limits that know how little a score varies: squared deviations, released by one more question.

For scores that are not 0 or 1 (regression errors, losses) the worst-case variance :math:`p(1-p)`
is far too large. The mean of :math:`(\varphi_i - c)^2` on the holdout is one more mean over
records; a coarse upper limit for it is asked of the mechanism and coded. Theory G15, and G18 for
records that depend on each other inside groups.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from numpy.typing import ArrayLike

from sklearn_bdp._checks import check_array, check_real
from sklearn_bdp._typing import Array
from sklearn_bdp.accounting._tails import Units

#: Part of a limit's failure probability for limits by squares; the rest is for plain ones.
SHARE = 0.8
#: Upper limits that are tried one after the other, in units of the first.
LEVELS = (1.0, 2.0, 4.0)
#: Probability that a limit which is tried does not hold.
SURPRISE = 0.1

_RATES = np.r_[np.geomspace(1e-3, 0.5, 48, endpoint=False), 1.0 - np.geomspace(0.5, 1e-3, 48)]


def squares_lower_limit(
    values: ArrayLike,
    log_failure: ArrayLike,
    units: int | Units,
    *,
    center: ArrayLike,
    squares: ArrayLike,
    rate: ArrayLike,
) -> Array:
    r"""Return lower limits for the expectation of a mean of independent scores in [0, 1].

    Theory G15, G18, after Fan, Grama and Liu 2015 and Howard et al. 2021. ``center`` :math:`c` and
    ``rate`` :math:`\lambda`, both in (0, 1), are fixed in advance; ``squares`` are upper ends of
    what the mean of :math:`(\bar\varphi_g - c)^2` may be, groups :math:`g` weighted by their
    squared weights :math:`w_g^2`, ``values`` lower ends of what the mean may be, and limits are at
    most these. ``units`` are groups, or a number of records.
    """
    units = units if isinstance(units, Units) else Units.records(units)
    values = check_array("values", values, low=0.0, high=1.0)
    level = check_array("log_failure", log_failure, high=0.0)
    center = np.asarray(center, float)
    # G18: exp(r x - psi(r) x^2) <= 1 + r x for x >= -1, here x = (group mean - c) / c and r the
    # rate times w_g / W; psi(r y) <= y^2 psi(r) for y <= 1: one mean of squares serves all rates.
    largest, count = units.largest, units.count
    stake = np.asarray(rate, float)
    penalty = -np.log1p(-stake) - stake
    spent = penalty * units.squares / largest**2 * np.asarray(squares) / center**2 - level
    grown = np.expm1((stake * (values - center) / (center * largest) - spent) / count)
    limit = center + center * largest * count * grown / stake
    return np.clip(limit, 0.0, values)


@dataclasses.dataclass(frozen=True, eq=False)
class SquaresPlan:
    """What is fixed about squares before a batch is asked, from public numbers."""

    centers: Array  # what deviations are taken from
    levels: Array  # upper limits of mean squared deviations that are tried, (m, len(LEVELS))
    eligible: Array  # queries whose scores are known to vary little
    log_failure: float  # what rates are chosen for
    units: Units

    @property
    def shares(self) -> tuple[Array, Array]:
        """Logs of the parts of a failure probability: for plain limits, for limits by squares."""
        plain = np.where(self.eligible, math.log1p(-SHARE), 0.0)
        return plain, np.where(self.eligible, math.log(SHARE), -math.inf)

    def deviations(self, moments: Array) -> Array:
        """Return mean squared deviations from the centers; ``moments`` are means and mean squares.

        Of the means of groups, weighted by squared weights; both in columns.
        """
        means, squares = moments.T
        return np.clip(squares - 2.0 * self.centers * means + self.centers**2, 0.0, 1.0)

    def price(self, level: int | None) -> float:
        """Return the nats of one release: the first level that held (its position), or ``None``."""
        if level is None:
            return -len(LEVELS) * math.log(SURPRISE)
        return -level * math.log(SURPRISE) - math.log1p(-SURPRISE)

    def limits(
        self, least: Array, most: Array, side: Array, known: dict[int, float]
    ) -> tuple[Array, Array]:
        """Return lower and upper limits for the eligible queries; 0 and 1 for the others.

        ``least`` and ``most`` are the ends of what the means may be, ``side`` the logs of the
        one-sided failure probabilities, ``known`` the upper limits of mean squared deviations that
        the mechanism confirmed, by position.
        """
        lower, upper = np.zeros(len(self.centers)), np.ones(len(self.centers))
        for place, squares in known.items():
            lower[place] = self._limit(place, self.centers[place], least[place], side, squares)
            # One minus the score deviates as much.
            turned = 1.0 - self.centers[place]
            upper[place] = 1.0 - self._limit(place, turned, 1.0 - most[place], side, squares)
        return lower, upper

    def _limit(self, place, center, value, side, squares):
        """Return a limit at the rate that is best where everything is as predicted."""
        limits = squares_lower_limit(
            np.full(_RATES.shape, center), self.log_failure, self.units, center=center,
            squares=self.levels[place, 0], rate=_RATES,
        )  # fmt: skip
        rate, level = float(_RATES[np.argmax(limits)]), side[place] + math.log(SHARE)
        return squares_lower_limit(
            value, level, self.units, center=center, squares=squares, rate=rate
        )


def plan_squares(
    predictions: Array,
    variances: Array,
    *,
    training_sizes: Array,
    units: int | Units,
    log_failure: float,
) -> SquaresPlan:
    """Fix centers, levels and rates from public numbers.

    ``variances`` are those of a unit's score on the training side, NaN where unknown. Eligible
    are queries whose variance is known and clearly below ``p (1 - p)``. ``log_failure`` is about
    the log of the one-sided failure probability that limits will have; any number is valid, the
    right one gives the sharpest limits.
    """
    log_failure = check_real("log_failure", log_failure, high=0.0)
    units = units if isinstance(units, Units) else Units.records(units)
    centers = np.clip(predictions, 1e-3, 1.0 - 1e-3)
    worst = centers * (1.0 - centers)
    expected = drawn_variances(variances, worst, training_sizes)
    eligible = np.isfinite(expected) & (expected < 0.7 * worst)
    expected = np.where(eligible, expected, worst)
    # Squares of scores have a kurtosis of their own; four is generous for losses.
    spread = 4.0 * np.sqrt(1.0 / units.effective + 1.0 / training_sizes)
    levels = expected[:, None] * (1.0 + spread[:, None]) * np.array(LEVELS)
    return SquaresPlan(centers, np.minimum(levels, 1.0), eligible, log_failure, units)


def drawn_variances(variances: Array, worst: Array, training_sizes: Array) -> Array:
    """Return training-side variances, drawn towards the worst case by two records.

    Positive where ``worst``, the largest they can be, is; NaN stands for unknown ones.
    """
    return (variances * training_sizes + 2.0 * worst) / (training_sizes + 2.0)
