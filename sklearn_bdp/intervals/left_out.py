r"""Statistics without each sampling unit: the values that a jackknife needs (theory G28).

Each function has the signature ``left_out(y, predictions, weights, units, n_units)`` and returns
the statistic of all records and an array of shape ``(n_units,)``: the statistic without each unit.
Units (records, groups, dates) are numbered from 0. Records carry weights: one over the size of
their unit if the target is a random record of a random unit, and 0 outside a subgroup. Most
statistics are left out in closed form, others in at most :data:`MAX_BLOCKS` blocks of units.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import expit, logit

from sklearn_bdp._typing import Array

#: Blocks of units that are left out if every unit would take too long.
MAX_BLOCKS = 200
_MAX_CELLS = 600_000  # units times records, of a statistic that is computed anew for each unit


def of_sums(terms: Callable[..., Any], function: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``left_out`` for a function of sums over records: ``f(total - s_u)``.

    ``terms(y, predictions)`` are of shape (k, n); ``function`` takes k arrays.
    """

    def left_out(y, predictions, weights, units, n_units):
        weighted_terms = np.vstack([np.ones(len(y)), *terms(y, predictions)]) * weights
        unit_sums = np.array([np.bincount(units, term, n_units) for term in weighted_terms])
        total = unit_sums.sum(axis=1)
        # Rounding is set to 0: a cell that only this unit has is empty without it.
        left_out_sums = total[:, None] - unit_sums
        rounding = 1e-12 * np.abs(weighted_terms).sum(axis=1)[:, None]
        left_out_sums[np.abs(left_out_sums) <= rounding] = 0.0
        return float(function(*total)), function(*left_out_sums)

    return left_out


def all_records(y, predictions):
    """Return a mask of all records."""
    return np.ones(len(y), bool)


def ratio(numerator, denominator=all_records):
    """Return ``left_out`` for the ratio of two sums; by default the mean of ``numerator``."""
    return of_sums(
        lambda y, predictions: (numerator(y, predictions), denominator(y, predictions)),
        lambda _, numerator, denominator: divide(numerator, denominator),
    )


def divide(numerator, denominator):
    """Divide without a warning; a ratio whose denominator is 0 is infinite or NaN."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return numerator / denominator


def concordance(winning, losing, scores, units, n_units):
    """Return the proportion of concordant pairs (ties one half) with all units and without each.

    G28: ``(A - sum P_i + W_u) / ((N_1 - n_1u)(N_0 - n_0u))``, with sums over pairs that carry both
    weights, ``P_i`` the pairs of a record and ``W_u`` those within the unit.
    """

    def below(keys):
        """Return for each record the losing weight that is ranked below it, ties one half."""
        _, rank = np.unique(keys, return_inverse=True)
        losing_at_rank = np.bincount(rank, losing)
        return (np.cumsum(losing_at_rank) - 0.5 * losing_at_rank)[rank], rank

    losing_below, rank = below(scores)
    total = float(winning @ losing_below)
    winning_at_rank = np.bincount(rank, winning)
    winning_from_rank = winning_at_rank.sum() - np.cumsum(winning_at_rank)
    winning_above = (winning_from_rank + 0.5 * winning_at_rank)[rank]
    pairs_of_unit = np.bincount(units, winning * losing_below + losing * winning_above, n_units)
    # Ranks that sort by unit first: pairs inside the unit are those not below in earlier units.
    losing_below_by_unit, _ = below(units * (rank.max() + 1.0) + rank)
    losing_of_unit = np.bincount(units, losing, n_units)
    losing_in_earlier_units = np.cumsum(losing_of_unit) - losing_of_unit
    losing_inside = losing_below_by_unit - losing_in_earlier_units[units]
    pairs_of_unit -= np.bincount(units, winning * losing_inside, n_units)
    winning_left_out = winning.sum() - np.bincount(units, winning, n_units)
    losing_left_out = losing.sum() - losing_of_unit
    value = divide(total, winning.sum() * losing.sum())
    return value, divide(total - pairs_of_unit, winning_left_out * losing_left_out)


def auc_left_out(y, predictions, weights, units, n_units):
    """Return the area under the ROC curve, and that without each unit."""
    return concordance(weights * (y == 1), weights * (y == 0), predictions, units, n_units)


def mean_auc_left_out(y, predictions, weights, units, n_units, *, pairs):
    """Return the mean over classes of each against the rest, or over pairs of classes."""
    classes = range(predictions.shape[1])
    if pairs:
        comparisons = [(c, y == rival) for c in classes for rival in classes if c != rival]
    else:
        comparisons = [(c, y != c) for c in classes]
    concordances = [
        concordance(weights * (y == c), weights * losing, predictions[:, c], units, n_units)
        for c, losing in comparisons
    ]
    values, left_out = zip(*concordances, strict=True)
    return float(np.mean(values)), np.mean(left_out, axis=0)


def gini_left_out(y, predictions, weights, units, n_units):
    """Return the normalized Gini coefficient: the ranking's over that of ``y`` itself."""
    value, left_out = concordance(weights * y, weights, predictions, units, n_units)
    best_value, best_left_out = concordance(weights * y, weights, y, units, n_units)
    gini = divide(2.0 * value - 1.0, 2.0 * best_value - 1.0)
    return float(gini), divide(2.0 * left_out - 1.0, 2.0 * best_left_out - 1.0)


def average_precision_by_unit(y, predictions, weights, units, n_units):
    """Return the average precision, and that without each unit or block."""
    is_record = len(y) == n_units and (np.bincount(units, minlength=n_units) == 1).all()
    if is_record and np.isin(weights, (0.0, 1.0)).all():
        value, left_out = average_precision_left_out(y == 1, predictions, weights > 0.0)
        by_unit = np.empty(n_units)
        by_unit[units] = left_out
        return value, by_unit
    if len(y) * n_units > _MAX_CELLS:
        units, n_units = _blocks(units, n_units)
    order = np.argsort(-predictions, kind="stable")
    y = y[order]
    weights = weights[order]
    units = units[order]
    predictions = predictions[order]
    # Tied records enter the ranking together.
    last_of_ties = np.flatnonzero(np.append(predictions[1:] != predictions[:-1], True))

    def precision(record_weights):
        true_positives = np.cumsum(record_weights * (y == 1))[last_of_ties]
        n_predicted = np.cumsum(record_weights)[last_of_ties]
        precisions = divide(true_positives, np.where(n_predicted > 0, n_predicted, 1.0))
        gains = np.diff(true_positives, prepend=0.0) * precisions
        return divide(gains.sum(), true_positives[-1])

    left_out = [precision(weights * (units != unit)) for unit in range(n_units)]
    return float(precision(weights)), np.array(left_out)


def average_precision_left_out(
    is_positive: Array, scores: Array, is_counted: Array
) -> tuple[float, Array]:
    """Return the average precision, and that without each record, in closed form.

    Parameters
    ----------
    is_positive : ndarray of bool, shape (n,)
        Which records are of the positive class.
    scores : ndarray of shape (n,)
        Scores; equal scores share one threshold.
    is_counted : ndarray of bool, shape (n,)
        Which records count, such as those of a subgroup.

    Returns
    -------
    value : float
        Average precision; NaN without a positive record.
    left_out : ndarray of shape (n,)
        That without each record; the same for records that do not count.
    """
    _, threshold = np.unique(-scores, return_inverse=True)
    n_thresholds = int(threshold.max()) + 1
    counted = is_counted.astype(float)
    positives = np.bincount(threshold, counted * is_positive, n_thresholds)
    hits = np.cumsum(positives)
    n_predicted = np.cumsum(np.bincount(threshold, counted, n_thresholds))
    total = float(hits[-1])

    def summed(hits, n_predicted):
        """Return sums over the thresholds before each one and from each one on."""
        terms = positives * divide(hits, np.where(n_predicted > 0.0, n_predicted, 1.0))
        sums_before = np.concatenate([[0.0], np.cumsum(terms)[:-1]])
        return sums_before, terms.sum() - sums_before

    sums_before, sums_from = summed(hits, n_predicted)
    value = divide(sums_before[0] + sums_from[0], total)
    _, without_negative = summed(hits, n_predicted - 1.0)
    _, without_positive = summed(hits - 1.0, n_predicted - 1.0)
    remaining = np.where(n_predicted > 1.0, n_predicted - 1.0, 1.0)
    # The threshold of a removed positive record has one positive record less.
    own_term = (hits - 1.0) / remaining
    if_negative = (sums_before + without_negative) / max(total, 1.0)
    if_positive = divide(
        sums_before + without_positive - own_term, np.full(n_thresholds, total - 1.0)
    )
    left_out = np.where(is_positive, if_positive[threshold], if_negative[threshold])
    return float(value), np.where(is_counted, left_out, value)


def calibration_left_out(y, predictions, weights, units, n_units, *, slope):
    """Return slope or intercept of the log odds, one Newton step from the fit for each unit."""
    odds = logit(predictions)
    columns = np.column_stack([np.ones(len(y)), odds] if slope else [np.ones(len(y))])
    if slope:
        offset = 0.0
        fit = np.array([0.0, 1.0])
    else:
        offset = odds
        fit = np.zeros(1)
    products = columns[:, :, None] * columns[:, None, :]
    for _ in range(50):
        chance = expit(offset + columns @ fit)
        gradient = columns.T @ (weights * (y - chance))
        hessian = np.tensordot(weights * chance * (1.0 - chance), products, 1)
        step = np.linalg.solve(hessian, gradient)
        fit = fit + step / max(1.0, float(np.abs(step).max()))
        if np.abs(step).max() < 1e-10:
            break
    else:
        return math.nan, np.full(n_units, math.nan)
    chance = expit(offset + columns @ fit)
    gradients = _sums_by_unit(columns * (weights * (y - chance))[:, None], units, n_units)
    hessians = _sums_by_unit(
        products * (weights * chance * (1 - chance))[:, None, None], units, n_units
    )
    steps = np.linalg.solve(hessians.sum(axis=0) - hessians, gradients[..., None])
    fits = fit - steps[..., 0]
    if len(y) * n_units <= _MAX_CELLS:  # few units: one step would be a few percent too short
        weights_left_out = weights * (units != np.arange(n_units)[:, None])
        chance = expit(offset + fits @ columns.T)
        gradients = (weights_left_out * (y - chance)) @ columns
        curvature = weights_left_out * chance * (1.0 - chance)
        hessians = np.einsum("un,nij->uij", curvature, products)
        fits = fits + np.linalg.solve(hessians, gradients[..., None])[..., 0]
    return float(fit[-1]), fits[:, -1]


def _sums_by_unit(rows, units, n_units):
    sums = np.zeros((n_units, *rows.shape[1:]))
    np.add.at(sums, units, rows)
    return sums


def _blocks(units, n_units):
    """Return at most 200 blocks of units, in the order of their numbers."""
    count = min(n_units, MAX_BLOCKS)
    return units * count // n_units, count


def recomputed(y, score, weights, units, n_units):
    """Return any function of the positions of records, without each of at most 200 blocks."""
    units, n_units = _blocks(units, n_units)
    inside = weights > 0.0
    left_out = [float(score(np.flatnonzero(inside & (units != unit)))) for unit in range(n_units)]
    return float(score(np.flatnonzero(inside))), np.array(left_out)
