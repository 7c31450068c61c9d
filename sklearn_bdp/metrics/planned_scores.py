"""Scores of records to plan with, before there are data: public guesses, not bounds.

A plan knows an expected score, not the scores of records. How far they vary follows from it under a
simple model of predictions. Limits are valid for all scores. If the scores vary more than this
guess, the plan has too few records.
"""

from collections.abc import Callable

import numpy as np
from scipy.special import expit, logit, ndtri

from sklearn_bdp._typing import Array
from sklearn_bdp.metrics.base import PlannedScores
from sklearn_bdp.utils.root_finding import crossing

_N_QUANTILES = 2000
_PROBABILITIES = (np.arange(_N_QUANTILES) + 0.5) / _N_QUANTILES
_NORMAL_QUANTILES = ndtri(_PROBABILITIES)
#: Largest distance of the means of normal scores of two classes, in standard deviations.
_MAX_DISTANCE = 12.0
#: Losses above this fraction of that of chance are planned as scores of 0 and 1.
_MAX_LOSS_RATIO = 0.95


def calibrated_scores(
    loss_of_probability: Callable[[Array], Array], score: float, prevalence: float
) -> PlannedScores:
    """Return one minus the losses of calibrated probabilities of two classes.

    Probabilities are those of normal scores with equal variances in both classes, at the distance
    of the class means that has the expected loss. Otherwise scores are 0 or 1: if no distance up to
    a limit has it, or if the loss is not clearly below that of chance.

    Parameters
    ----------
    loss_of_probability : callable
        Loss in [0, 1], decreasing, of the probability of the true class. It takes and returns
        arrays of the same shape.
    score : float
        One minus the expected loss.
    prevalence : float
        Proportion of positive records, in (0, 1).
    """

    def losses_at(distance):
        """Return losses of records, positive ones first, and the probabilities of these losses."""
        shifts = 0.5 * distance * np.array([[1.0], [-1.0]])  # of positive and negative records
        log_odds = logit(prevalence) + distance * (_NORMAL_QUANTILES + shifts)
        losses = loss_of_probability(expit(np.array([[1.0], [-1.0]]) * log_odds)).ravel()
        weights = np.repeat([prevalence, 1.0 - prevalence], _N_QUANTILES) / _N_QUANTILES
        return losses, weights

    def excess(distance):
        losses, weights = losses_at(distance)
        return float(weights @ losses) - (1.0 - score)

    loss_of_chance = excess(0.0) + 1.0 - score
    is_better_than_chance = 1.0 - score < _MAX_LOSS_RATIO * loss_of_chance
    if not (is_better_than_chance and excess(_MAX_DISTANCE) < 0.0):
        return PlannedScores.of_proportion(score)
    losses, weights = losses_at(crossing(excess, _MAX_DISTANCE, 0.0, rtol=1e-6))
    scores = 1.0 - losses
    order = np.argsort(scores)
    positions = np.searchsorted(np.cumsum(weights[order]), _PROBABILITIES)
    quantiles = scores[order][np.minimum(positions, scores.size - 1)]
    return PlannedScores(np.clip(quantiles, 0.0, 1.0), " of calibrated probabilities")


def normal_error_scores(loss: Callable[[Array], Array], score: float) -> PlannedScores:
    """Return one minus the losses of normal errors, scaled to the expected loss.

    Parameters
    ----------
    loss : callable
        Loss of each error, up to a factor. It takes and returns arrays of the same shape.
    score : float
        One minus the expected loss, in [0, 1]. Losses above 1 count as 1.
    """
    losses = loss(_NORMAL_QUANTILES)
    losses = np.minimum((1.0 - score) / losses.mean() * losses, 1.0)
    return PlannedScores(np.sort(1.0 - losses), " of normal errors")


def pinball_loss_of_quantile(alpha: float) -> Callable[[Array], Array]:
    """Return the pinball loss of normal targets that are predicted by their quantile ``alpha``."""

    def loss(targets):
        errors = targets - ndtri(alpha)
        return np.maximum(alpha * errors, (alpha - 1.0) * errors)

    return loss
