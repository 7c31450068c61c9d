"""Gains of one candidate over another: on the training side, and as released by the holdout."""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri, stdtr, stdtrit


@dataclass(frozen=True)
class Gain:
    """A released gain of one subset over another, in units of [0, 1]."""

    released: float  # by the holdout; its interval holds with all others
    lower: float
    upper: float
    floor: float  # what noise and grid can explain


@dataclass(frozen=True)
class PairedGain:
    """How much better one subset is than another on the training side, in units of [0, 1]."""

    #: Mean over records of what the first gains, and of what it loses; NaN for metrics that are no
    #: mean over records.
    wins: float
    losses: float
    gain: float  # difference of the two scores
    error: float  # its standard error
    folds: int | None = None  # folds behind the standard error where records cannot be paired

    def chance(self, n_candidates, level):
        r"""Return the gain that the best of ``n_candidates`` useless ones exceeds by chance.

        Bonferroni: :math:`z_{level/m}` standard errors, a t quantile where the error comes from a
        few folds.
        """
        tail = level / n_candidates
        quantile = -ndtri(tail) if self.folds is None else -stdtrit(self.folds - 1, tail)
        return float(quantile * self.error)

    def luck(self, n_candidates):
        """Return how often the best of ``n_candidates`` useless ones gets as far, by Bonferroni."""
        if not self.gain > 0.0:
            return 1.0
        ahead = self.gain / self.error if self.error > 0.0 else math.inf
        tail = ndtr(-ahead) if self.folds is None else stdtr(self.folds - 1, -ahead)
        return float(min(1.0, n_candidates * tail))


def paired_gain(first, second, *, is_mean, n_effective):
    """Return the :class:`PairedGain` of cross-validated scores ``first`` over ``second``.

    Scores of the same records (``is_mean``) or of the same folds. The standard error pretends that
    one more record changed sides, so that a few lucky records are no certainty.
    """
    difference = first.astype(float) - second.astype(float)
    difference = difference[np.isfinite(difference)]
    count, gain = difference.size, float(difference.mean())
    if not is_mean:
        if count < 2:
            return PairedGain(math.nan, math.nan, gain, math.inf, folds=2)
        error = float(difference.std(ddof=1)) / math.sqrt(count)
        return PairedGain(math.nan, math.nan, gain, error, folds=count)
    variance = float(np.mean(difference**2)) - gain**2 + 1.0 / count
    return PairedGain(
        wins=float(np.maximum(difference, 0.0).mean()),
        losses=float(np.maximum(-difference, 0.0).mean()),
        gain=gain,
        error=math.sqrt(variance / min(count, n_effective)),
    )
