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
#: Largest distance of the class means of a normal feature, in standard deviations.
_MAX_DISTANCE = 12.0
#: Losses above this fraction of the loss at distance 0 are planned as scores of 0 and 1.
_MAX_LOSS_RATIO = 0.95


def calibrated_scores(
    loss_of_probability: Callable[[Array], Array], score: float, prevalence: float
) -> PlannedScores:
    """Return quantiles of one minus the losses of calibrated probabilities of two classes.

    Probabilities follow from a normal feature with equal variances in both classes, at the distance
    of the class means that has the expected loss. Quantiles are 0 or 1 if no distance up to 12
    standard deviations has it, or if the loss is at least 95% of that at distance 0.

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
        """Return losses, of positive records first, and the probability of each.

        ``distance`` is that of the class means, in standard deviations.
        """
        shifts = 0.5 * distance * np.array([[1.0], [-1.0]])  # of positive and negative records
        log_odds = logit(prevalence) + distance * (_NORMAL_QUANTILES + shifts)
        losses = loss_of_probability(expit(np.array([[1.0], [-1.0]]) * log_odds)).ravel()
        probabilities = np.repeat([prevalence, 1.0 - prevalence], _N_QUANTILES) / _N_QUANTILES
        return losses, probabilities

    def excess_loss(distance):
        losses, probabilities = losses_at(distance)
        return float(probabilities @ losses) - (1.0 - score)

    loss_of_chance = excess_loss(0.0) + 1.0 - score
    is_better_than_chance = 1.0 - score < _MAX_LOSS_RATIO * loss_of_chance
    if not (is_better_than_chance and excess_loss(_MAX_DISTANCE) < 0.0):
        return PlannedScores.of_proportion(score)
    losses, probabilities = losses_at(crossing(excess_loss, _MAX_DISTANCE, 0.0, rtol=1e-6))
    scores = 1.0 - losses
    ascending_order = np.argsort(scores)
    cumulative_probabilities = np.cumsum(probabilities[ascending_order])
    positions = np.searchsorted(cumulative_probabilities, _PROBABILITIES)
    quantiles = scores[ascending_order][np.minimum(positions, scores.size - 1)]
    return PlannedScores(np.clip(quantiles, 0.0, 1.0), " of calibrated probabilities")


def normal_error_scores(loss: Callable[[Array], Array], score: float) -> PlannedScores:
    """Return quantiles of one minus the losses of normal errors, scaled to the expected loss.

    Parameters
    ----------
    loss : callable
        Loss of each error, up to a constant factor. It takes and returns arrays of the same shape.
    score : float
        One minus the expected loss, in [0, 1]. Losses above 1 count as 1.
    """
    losses = loss(_NORMAL_QUANTILES)
    scaled_losses = np.minimum((1.0 - score) / losses.mean() * losses, 1.0)
    return PlannedScores(np.sort(1.0 - scaled_losses), " of normal errors")


def pinball_loss_of_quantile(alpha: float) -> Callable[[Array], Array]:
    """Return the function from standard normal targets to pinball losses of quantile ``alpha``."""

    def loss(targets):
        errors = targets - ndtri(alpha)
        return np.maximum(alpha * errors, (alpha - 1.0) * errors)

    return loss
