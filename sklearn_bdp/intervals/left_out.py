r"""Statistics computed without each sampling unit: the values that a jackknife needs (theory G28).

Functions with the signature ``left_out(y, predictions, weights, unit_codes, n_units)`` return the
statistic of all records and an array of shape ``(n_units,)``: the statistic without each unit.
``unit_codes`` number the unit of each record (a record, group, date or block of a chain) from 0.
``weights`` are those of records: 0 for records that do not count, else 1, or one over the size of
the unit if all units weigh equally. Most statistics are computed in closed form. Some are computed
again without each unit, or without each of at most :data:`MAX_BLOCKS` blocks of units. The array
then has one entry for each block.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import expit, logit

from sklearn_bdp._typing import Array

#: Largest number of blocks of units, if computing the statistic without each unit takes too long.
MAX_BLOCKS = 200
#: Largest number of units times records for which a statistic is computed again for each unit.
_MAX_CELLS = 600_000


def of_sums(terms: Callable[..., Any], function_of_sums: Callable[..., Any]) -> Callable[..., Any]:
    """Return a ``left_out`` function for a statistic that is a function of sums over records.

    Parameters
    ----------
    terms : callable
        ``terms(y, predictions)`` returns k arrays of shape (n_records,) that are to be summed.
    function_of_sums : callable
        Takes k + 1 weighted sums, the sum of the weights first, and returns the statistic. It is
        called with numbers and with arrays of shape (n_units,).

    Returns
    -------
    callable
        ``left_out(y, predictions, weights, unit_codes, n_units)``.
    """

    def left_out(y, predictions, weights, unit_codes, n_units):
        weighted_terms = np.vstack([np.ones(len(y)), *terms(y, predictions)]) * weights
        unit_sums = np.array(
            [np.bincount(unit_codes, weighted_term, n_units) for weighted_term in weighted_terms]
        )
        total_sums = unit_sums.sum(axis=1)
        # A sum to which only this unit contributes is exactly 0 without it.
        left_out_sums = total_sums[:, None] - unit_sums
        rounding_errors = 1e-12 * np.abs(weighted_terms).sum(axis=1)[:, None]
        left_out_sums[np.abs(left_out_sums) <= rounding_errors] = 0.0
        return float(function_of_sums(*total_sums)), function_of_sums(*left_out_sums)

    return left_out


def all_records(y, predictions):
    """Return a mask of all records."""
    return np.ones(len(y), bool)


def ratio(numerator, denominator=all_records):
    """Return a ``left_out`` function for a ratio of two sums over records.

    ``numerator(y, predictions)`` and ``denominator(y, predictions)`` return the terms of the sums,
    of shape (n_records,). By default the ratio is the weighted mean of the numerator's terms.
    """
    return of_sums(
        lambda y, predictions: (numerator(y, predictions), denominator(y, predictions)),
        lambda _, numerator, denominator: divide(numerator, denominator),
    )


def divide(numerator, denominator):
    """Divide without a warning; a ratio whose denominator is 0 is infinite or NaN."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return numerator / denominator


def concordance(winning, losing, scores, unit_codes, n_units):
    """Return the proportion of concordant pairs with all units, and without each unit.

    ``winning`` and ``losing`` are weights of records, shape (n_records,). A pair of two records
    has the winning weight of the first times the losing weight of the second. It is concordant if
    the first has the higher score, and counts one half if the scores are equal.

    G28: ``(A - sum P_i + W_u) / ((N_1 - n_1u)(N_0 - n_0u))``. ``A`` is the weight of all concordant
    pairs, ``P_i`` that of the pairs of a record of the unit, ``W_u`` that of the pairs within the
    unit, ``N_1`` and ``N_0`` are the sums of winning and losing weights, ``n_1u`` and ``n_0u``
    those of the unit. The proportion is not finite without a pair.
    """

    def losing_weight_below(keys):
        """Return for each record the losing weight below its key (ties one half).

        Also return the rank of its key, from 0.
        """
        _, rank = np.unique(keys, return_inverse=True)
        losing_at_rank = np.bincount(rank, losing)
        return (np.cumsum(losing_at_rank) - 0.5 * losing_at_rank)[rank], rank

    losing_below, rank = losing_weight_below(scores)
    concordant_weight = float(winning @ losing_below)  # of all concordant pairs
    winning_at_rank = np.bincount(rank, winning)
    winning_from_rank = winning_at_rank.sum() - np.cumsum(winning_at_rank)
    winning_above = (winning_from_rank + 0.5 * winning_at_rank)[rank]
    unit_concordant_weights = np.bincount(
        unit_codes, winning * losing_below + losing * winning_above, n_units
    )
    # Ranks that sort by unit first: pairs inside the unit are those not below in earlier units.
    losing_below_by_unit, _ = losing_weight_below(unit_codes * (rank.max() + 1.0) + rank)
    losing_of_unit = np.bincount(unit_codes, losing, n_units)
    losing_in_earlier_units = np.cumsum(losing_of_unit) - losing_of_unit
    losing_inside = losing_below_by_unit - losing_in_earlier_units[unit_codes]
    unit_concordant_weights -= np.bincount(unit_codes, winning * losing_inside, n_units)
    winning_left_out = winning.sum() - np.bincount(unit_codes, winning, n_units)
    losing_left_out = losing.sum() - losing_of_unit
    value = divide(concordant_weight, winning.sum() * losing.sum())
    concordant_left_out = concordant_weight - unit_concordant_weights
    return value, divide(concordant_left_out, winning_left_out * losing_left_out)


def auc_left_out(y, predictions, weights, unit_codes, n_units):
    """Return the area under the ROC curve, and its values without each unit.

    ``y`` is 1 for positive and 0 for negative records, and ``predictions`` are their scores.
    """
    return concordance(weights * (y == 1), weights * (y == 0), predictions, unit_codes, n_units)


def mean_auc_left_out(y, predictions, weights, unit_codes, n_units, *, by_pairs):
    """Return a mean ROC AUC of several classes, and its values without each unit.

    ``y`` has class codes, and ``predictions`` are probabilities of classes, shape (n_records,
    n_classes). The mean is over classes against all others or, ``by_pairs``, over ordered pairs.
    """
    classes = range(predictions.shape[1])
    if by_pairs:
        comparisons = [
            (label, y == other_label)
            for label in classes
            for other_label in classes
            if label != other_label
        ]
    else:
        comparisons = [(label, y != label) for label in classes]
    concordances = [
        concordance(
            weights * (y == label), weights * is_losing, predictions[:, label], unit_codes, n_units
        )
        for label, is_losing in comparisons
    ]
    values, left_out = zip(*concordances, strict=True)
    return float(np.mean(values)), np.mean(left_out, axis=0)


def gini_left_out(y, predictions, weights, unit_codes, n_units):
    """Return the normalized Gini coefficient, and its values without each unit.

    This is the Gini coefficient of the ranking by predictions over that of the ranking by ``y``.
    """
    value, left_out = concordance(weights * y, weights, predictions, unit_codes, n_units)
    best_value, best_left_out = concordance(weights * y, weights, y, unit_codes, n_units)
    gini = divide(2.0 * value - 1.0, 2.0 * best_value - 1.0)
    return float(gini), divide(2.0 * left_out - 1.0, 2.0 * best_left_out - 1.0)


def average_precision_by_unit(y, predictions, weights, unit_codes, n_units):
    """Return the average precision, and its values without each unit or block of units.

    ``y`` is 1 for positive records, and ``predictions`` are their scores.
    """
    units_are_records = (
        len(y) == n_units and (np.bincount(unit_codes, minlength=n_units) == 1).all()
    )
    if units_are_records and np.isin(weights, (0.0, 1.0)).all():
        value, left_out = average_precision_left_out(y == 1, predictions, weights > 0.0)
        left_out_by_unit = np.empty(n_units)
        left_out_by_unit[unit_codes] = left_out
        return value, left_out_by_unit
    if len(y) * n_units > _MAX_CELLS:
        unit_codes, n_units = _blocks(unit_codes, n_units)
    order = np.argsort(-predictions, kind="stable")
    y = y[order]
    weights = weights[order]
    unit_codes = unit_codes[order]
    predictions = predictions[order]
    # Records with the same score share one threshold: positions of the last record of each score.
    last_of_ties = np.flatnonzero(np.append(predictions[1:] != predictions[:-1], True))

    def average_precision(record_weights):
        true_positive_weights = np.cumsum(record_weights * (y == 1))[last_of_ties]
        predicted_weights = np.cumsum(record_weights)[last_of_ties]
        precisions = divide(
            true_positive_weights, np.where(predicted_weights > 0, predicted_weights, 1.0)
        )
        gains = np.diff(true_positive_weights, prepend=0.0) * precisions
        return divide(gains.sum(), true_positive_weights[-1])

    left_out = [average_precision(weights * (unit_codes != unit)) for unit in range(n_units)]
    return float(average_precision(weights)), np.array(left_out)


def average_precision_left_out(
    is_positive: Array, scores: Array, is_counted: Array
) -> tuple[float, Array]:
    """Return the average precision, and its values without each record, in closed form.

    Parameters
    ----------
    is_positive : ndarray of bool, shape (n,)
        Which records are of the positive class.
    scores : ndarray of shape (n,)
        Scores; equal scores share one threshold.
    is_counted : ndarray of bool, shape (n,)
        Which records belong to the sample, such as those of a subgroup.

    Returns
    -------
    value : float
        Average precision; NaN without a positive record.
    left_out : ndarray of shape (n,)
        Average precision without each record; ``value`` for records outside the sample.
    """
    # Thresholds are numbered from the highest score, the first to be predicted positive.
    _, threshold_index = np.unique(-scores, return_inverse=True)
    n_thresholds = int(threshold_index.max()) + 1
    weights = is_counted.astype(float)
    new_positives = np.bincount(threshold_index, weights * is_positive, n_thresholds)
    true_positives = np.cumsum(new_positives)
    n_predicted = np.cumsum(np.bincount(threshold_index, weights, n_thresholds))
    n_positives = float(true_positives[-1])

    def sums_before_and_from(true_positives, n_predicted):
        """Return sums of precisions over the thresholds before each one, and from each one on.

        A precision counts once for each positive record at its threshold.
        """
        precisions = divide(true_positives, np.where(n_predicted > 0.0, n_predicted, 1.0))
        terms = new_positives * precisions
        sums_before = np.concatenate([[0.0], np.cumsum(terms)[:-1]])
        return sums_before, terms.sum() - sums_before

    sums_before, sums_from = sums_before_and_from(true_positives, n_predicted)
    value = divide(sums_before[0] + sums_from[0], n_positives)
    # Without a record, the precisions change from its threshold on.
    _, sums_without_negative = sums_before_and_from(true_positives, n_predicted - 1.0)
    _, sums_without_positive = sums_before_and_from(true_positives - 1.0, n_predicted - 1.0)
    n_remaining = np.where(n_predicted > 1.0, n_predicted - 1.0, 1.0)
    # The threshold of a removed positive record has one positive record less.
    removed_term = (true_positives - 1.0) / n_remaining
    value_without_negative = (sums_before + sums_without_negative) / max(n_positives, 1.0)
    value_without_positive = divide(
        sums_before + sums_without_positive - removed_term, np.full(n_thresholds, n_positives - 1.0)
    )
    left_out = np.where(
        is_positive,
        value_without_positive[threshold_index],
        value_without_negative[threshold_index],
    )
    return float(value), np.where(is_counted, left_out, value)


def calibration_left_out(y, predictions, weights, unit_codes, n_units, *, with_slope):
    """Return the calibration slope or intercept, and its values without each unit.

    It is the slope if ``with_slope``. Both are coefficients of the logistic regression of ``y`` on
    the log odds of the predicted probabilities: the slope is that of the log odds, the intercept is
    computed with a slope of 1. The values without a unit are one or two Newton steps from the fit
    on all records. All values are NaN if that fit does not converge. LinAlgError propagates if a
    step has no solution.
    """
    log_odds = logit(predictions)
    columns = np.column_stack([np.ones(len(y)), log_odds] if with_slope else [np.ones(len(y))])
    if with_slope:
        offset = 0.0
        coefficients = np.array([0.0, 1.0])
    else:
        offset = log_odds
        coefficients = np.zeros(1)
    products = columns[:, :, None] * columns[:, None, :]  # of each record, for the Hessian
    coefficients = _fit_logistic(columns, products, offset, y, weights, coefficients)
    if coefficients is None:
        return math.nan, np.full(n_units, math.nan)
    probabilities = expit(offset + columns @ coefficients)
    record_gradients = columns * (weights * (y - probabilities))[:, None]
    unit_gradients = _sums_by_unit(record_gradients, unit_codes, n_units)
    record_curvatures = weights * probabilities * (1 - probabilities)
    unit_hessians = _sums_by_unit(products * record_curvatures[:, None, None], unit_codes, n_units)
    hessians_left_out = unit_hessians.sum(axis=0) - unit_hessians
    # The gradient of all records is 0, so that without a unit it is minus that of the unit.
    newton_steps = np.linalg.solve(hessians_left_out, unit_gradients[..., None])
    coefficients_left_out = coefficients - newton_steps[..., 0]
    if len(y) * n_units <= _MAX_CELLS:  # of few units, one step is a few percent too short
        weights_left_out = weights * (unit_codes != np.arange(n_units)[:, None])
        probabilities_left_out = expit(offset + coefficients_left_out @ columns.T)
        gradients = (weights_left_out * (y - probabilities_left_out)) @ columns
        curvatures = weights_left_out * probabilities_left_out * (1.0 - probabilities_left_out)
        hessians = np.einsum("un,nij->uij", curvatures, products)
        newton_steps = np.linalg.solve(hessians, gradients[..., None])
        coefficients_left_out = coefficients_left_out + newton_steps[..., 0]
    return float(coefficients[-1]), coefficients_left_out[:, -1]


def _fit_logistic(columns, products, offset, y, weights, coefficients):
    """Return the coefficients of a weighted logistic regression by Newton steps from a start.

    ``columns`` is the design matrix, shape (n, k), ``products`` has the outer product of each of
    its rows, shape (n, k, k), ``offset`` is added to the log odds, and ``coefficients`` are the
    start. Return None if 50 steps do not converge.
    """
    for _ in range(50):
        probabilities = expit(offset + columns @ coefficients)
        gradient = columns.T @ (weights * (y - probabilities))
        hessian = np.tensordot(weights * probabilities * (1.0 - probabilities), products, 1)
        newton_step = np.linalg.solve(hessian, gradient)
        max_change = float(np.abs(newton_step).max())
        coefficients = coefficients + newton_step / max(1.0, max_change)
        if max_change < 1e-10:
            return coefficients
    return None


def _sums_by_unit(record_values, unit_codes, n_units):
    """Return the sum of ``record_values`` over the records of each unit, one row for each unit."""
    sums = np.zeros((n_units, *record_values.shape[1:]))
    np.add.at(sums, unit_codes, record_values)
    return sums


def _blocks(unit_codes, n_units):
    """Return the block number of each record, and the number of blocks, at most 200.

    Blocks are sets of units with neighboring codes.
    """
    n_blocks = min(n_units, MAX_BLOCKS)
    return unit_codes * n_blocks // n_units, n_blocks


def recomputed(y, score, weights, unit_codes, n_units):
    """Return the score of records with a positive weight, and its values without blocks of units.

    ``score`` takes positions of records and returns a number. Each of at most 200 blocks is left
    out in turn. ``y`` is not used.
    """
    unit_codes, n_units = _blocks(unit_codes, n_units)
    has_weight = weights > 0.0
    left_out = [
        float(score(np.flatnonzero(has_weight & (unit_codes != unit)))) for unit in range(n_units)
    ]
    return float(score(np.flatnonzero(has_weight))), np.array(left_out)
