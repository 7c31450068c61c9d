"""Diagnostics of models and scores: batch dependence, dependent records, unreliable scores.

They read no holdout records.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import warnings
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.base import BaseEstimator, is_classifier, is_regressor
from sklearn.model_selection import KFold
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import get_tags
from sklearn.utils.multiclass import type_of_target

from sklearn_bdp import correlation, exceptions
from sklearn_bdp.correlation import Groups, Independent
from sklearn_bdp.correlation.dependence import MAX_SERIES
from sklearn_bdp.correlation.strength import (
    declared_strength_test,
    declares_influence,
    declares_time,
)
from sklearn_bdp.diagnostics.diagnostic import Diagnostic
from sklearn_bdp.diagnostics.overlap import is_sorted_by_label
from sklearn_bdp.intervals.concentration import score_tail
from sklearn_bdp.metrics import get_metric
from sklearn_bdp.utils.hashing import copy_data
from sklearn_bdp.utils.sklearn_compat import num_samples, safe_indexing

UNINFORMATIVE_INTERVAL = Diagnostic(
    "wide interval",
    "released values",
    "{measured} of {of} is {score:.3g}, but its interval from {low:.3g} to {high:.3g} covers "
    "{share:.0%} of the range. Bring more than {count:,} holdout {units}, verify fewer candidates, "
    "or score a mean over records (scoring='accuracy' or 'neg_brier_score').",
    exceptions.UninformativeIntervalWarning,
)
OPTIMISTIC_CV_SCORE = Diagnostic(
    "fallen score",
    "released values",
    "{measured} of {of} is {training:.3g} in cross-validation and {score:.3g} verified, with the "
    "interval from {low:.3g} to {high:.3g}. Chance does not explain the fall. Check that holdout "
    "records are complete, as each that the model cannot predict gets the worst score, that folds "
    "do not share patients, places or time, and that features do not know the target.",
    exceptions.OptimisticScoreWarning,
)
CLIPPED_SCORE = Diagnostic(
    "clipped score",
    "training set",
    "{measured} differs from {name}: {of} is beyond the limit on {n_clipped:,} of {n:,} training "
    "records and scores {clipped:.4g} clipped, {plain:.4g} plain. Answers and intervals are about "
    "the clipped score. If the plain score matters: {remedy}.",
    exceptions.ClippedScoreWarning,
)
DEFAULT_METRIC = Diagnostic(
    "default metric", "arguments", "{note}.", exceptions.DefaultMetricWarning
)
UNDECLARED_DEPENDENCE = Diagnostic(
    "dependence",
    "training set",
    "The declared correlation may be wrong. {found}.",
    exceptions.DependenceWarning,
)
TOO_FEW_GROUPS = Diagnostic(
    "few groups",
    "arguments",
    "The holdout has {count} groups (patients, users, sites …), worth {worth:.0f} of equal size. "
    "They give a mean score near 0.8 in [0, 1] to about ±{half_width_final:.2g} if you only report "
    "one model, and ±{half_width:.2g} for the best of 20. For one search, nested "
    "cross-validation over all groups gives a narrower interval, which covers too rarely. For "
    "many, bring more groups.",
    exceptions.UninformativeIntervalWarning,
)
CV_SPLITS_GROUPS = Diagnostic(
    "folds across groups",
    "training set",
    "cv cuts declared groups, so that cross-validated scores are too good. Set cv=5, or pass "
    "GroupKFold() with groups=.",
    ValueError,
)
CV_MIXES_DATES = Diagnostic(
    "folds across dates",
    "training set",
    "cv trains on dates between those it tests on, so that cross-validated scores are too good "
    "under correlation='time'. Set cv=5, or pass TimeSeriesSplit(). The holdout was not queried.",
    ValueError,
)
BATCH_DEPENDENT_PREDICTIONS = Diagnostic(
    "predictions by batch",
    "training set",
    "Predictions with {name} depend on the other rows of the batch, so that its interval does not "
    "hold. Make lags and rolling means before the search, and learn means and scales in fit.",
    exceptions.BatchPredictionWarning,
)
PREDICTIONS_FROM_LATER_ROWS = Diagnostic(
    "predictions from later rows",
    "training set",
    "Predictions with {name} for a date change with the rows of later dates. Make features from "
    "earlier rows only (lags, trailing means), or declare a chain. The holdout was not queried.",
    ValueError,
)
BATCH_DEPENDENT_SCORES = Diagnostic(
    "scores by batch",
    "training set",
    "PerRecordScore {name} gives training records other numbers when other records are beside "
    "them, so that its mean has no proven interval. Return numbers that depend on their record and "
    "the model only. The holdout was not queried.",
    exceptions.ScoreContractError,
)

#: An interval is uninformative if it covers at least this fraction of the range of the metric.
MIN_UNINFORMATIVE_FRACTION = 0.9
#: Number of standard errors by which a cross-validated score may exceed its expectation by chance.
#: A normal variable does with probability 1 in 740.
MAX_STANDARD_ERRORS = 3.0
#: Effective number of groups in a holdout below which nested cross-validation is recommended.
FEW_GROUPS = 100
#: Fewest test records of a fold whose scores are tested for dependence of neighbors.
MIN_FOLD_SIZE = 40
#: Largest number of rows of a batch; with dates it is approximate, and a batch has at least four
#: dates. Dependence on rows farther away may not be detected.
MAX_BATCH_SIZE = 48
#: Largest number of rows of a batch for a caller's scoring function, which may need several groups.
MAX_SCORED_BATCH_SIZE = 400
#: Largest number of different kinds of pipelines that are checked in one search.
MAX_PIPELINE_KINDS = 12
#: Fewest training rows, or dates, for a check.
MIN_TRAINING_ROWS = 16
#: Line of the certificate if predictions depend on other rows of a batch.
BATCH_DEPENDENCE_ASSUMPTION = (
    "NOT MET: predictions with {names} depend on the other rows of a batch. Their scores are not "
    "means over records, and their intervals are not guaranteed"
)


def run_dependence_test(
    holdout_split, estimator, metric, score_folds, *, groups=None, scores_and_folds=None
):
    """Test the declared correlation by cross-validated scores of one candidate.

    Issue one warning with the finding of the test and the hints of the split, if there are any.

    Parameters
    ----------
    holdout_split : HoldoutSplit
        Split of a fit, with the training records and both declared correlations.
    estimator : estimator
        The candidate.
    metric : BoundedMetric
        Metric of the search. If it is not a mean over records, another one is used.
    score_folds : callable
        ``score_folds(metric, folds)`` fits the candidate on folds of training records and returns a
        score for each record, NaN for records that are not tested or if it cannot be fitted.
    groups : array-like of shape (n_train,), default=None
        Groups of the training records that are tested for dependence.
    scores_and_folds : tuple of two ndarrays of shape (n_train,), default=None
        Scores of the inner cross-validation, and the fold that tested each record, or -1. If they
        cannot be used, the candidate is fitted again.

    Returns
    -------
    report : object or None
        Report of the test for the declared correlation; None if no test was possible.
    scores : ndarray or None
        Scores that were tested: for a declared strength in time order, for groups in the order of
        the training records, else in the order of the caller's rows. None without a test, and if
        the test reads labels.
    """
    train_model = holdout_split.train_model
    declared_model = holdout_split.model if train_model is None else train_model
    has_strength = declares_time(declared_model) or declares_influence(declared_model)
    has_classes = is_classifier(estimator) and np.ndim(holdout_split.y) == 1
    class_labels = np.asarray(holdout_split.y) if has_classes else None
    tests_groups, has_testable_order = _testable_structure(holdout_split, class_labels)
    is_testable = has_testable_order and _supports_record_scores(holdout_split, estimator, metric)
    report_and_scores = None, None
    if (has_strength or is_testable) and not metric.is_mean:
        metric = _per_record_metric(holdout_split, estimator)
        scores_and_folds = None
    row_order = _original_row_order(holdout_split)
    score_shuffled = partial(_scores_in_shuffled_folds, metric, score_folds, row_order)
    if has_strength:
        report_and_scores = _test_declared_strength(
            holdout_split, declared_model, metric, score_folds, scores_and_folds
        )
    elif is_testable and tests_groups:
        scores = score_shuffled(len(row_order)) if scores_and_folds is None else scores_and_folds[0]
        report_and_scores = _test_groups(
            declared_model, scores, class_labels, row_order, holdout_split.coordinates
        )
    elif is_testable:
        report_and_scores = _test_row_order(score_shuffled, row_order, groups, scores_and_folds)
    warn_undeclared_dependence(holdout_split, report_and_scores[0])
    return report_and_scores


def _testable_structure(holdout_split, class_labels):
    """Return whether groups are tested for dependence, and whether groups or rows can be tested.

    ``class_labels``: classes of the training records, or None.
    """
    train_model = holdout_split.train_model
    scheme = holdout_split.scheme if train_model is None else holdout_split.train_scheme
    is_independent = scheme.has_independent_records
    has_coordinates = holdout_split.coordinates is not None and is_independent
    tests_groups = has_coordinates or (isinstance(train_model, Groups) and not is_independent)
    has_order = tests_groups or (is_independent and not _has_adjacent_labels(class_labels))
    # Dates given their past, and nodes given the rest, may depend on each other in any way.
    allows_dependence = scheme.in_time_order or holdout_split.scheme.is_conditional
    return tests_groups, has_order and not allows_dependence


def _has_adjacent_labels(labels):
    """Return whether equal labels are adjacent; False if ``labels`` is None."""
    return labels is not None and is_sorted_by_label(labels)


def _original_row_order(holdout_split):
    """Return the positions of the training records in the order of the caller's rows."""
    if holdout_split.train is None:
        return np.arange(num_samples(holdout_split.X))
    return np.argsort(holdout_split.train, kind="stable")


def _supports_record_scores(holdout_split, estimator, metric):
    """Return whether each training record can have a cross-validated score of the estimator."""
    y = holdout_split.y
    is_single = y is None or np.ndim(y) == 1
    has_supported_targets = is_single or type_of_target(y) != "multiclass-multioutput"
    has_metric = metric.is_mean or is_classifier(estimator) or is_regressor(estimator)
    return has_metric and has_supported_targets and not get_tags(estimator).input_tags.pairwise


def _scores_in_shuffled_folds(metric, score_folds, row_order, n_scored=MAX_SERIES):
    """Return a cross-validated score for each training record, from shuffled folds.

    Only the first ``n_scored`` records in ``row_order`` are scored, or all records if these have no
    score. Scores of the others are NaN. ``score_folds(metric, folds)``: see
    :func:`run_dependence_test`. ``row_order``: positions of all training records.
    """
    scored_indices = np.sort(row_order[:n_scored])
    splitter = KFold(min(3, len(scored_indices)), shuffle=True, random_state=0)
    folds = [
        (scored_indices[train_positions], scored_indices[test_positions])
        for train_positions, test_positions in splitter.split(scored_indices)
    ]
    scores = score_folds(metric, folds)
    # A class may be missing from the first records.
    if n_scored < len(row_order) and np.isnan(scores).all():
        return _scores_in_shuffled_folds(metric, score_folds, row_order, len(row_order))
    return scores


def _per_record_metric(holdout_split, estimator):
    """Return a metric that gives each record a score, suitable for the estimator."""
    name = "neg_mean_absolute_error"
    if is_classifier(estimator):
        has_probabilities = hasattr(estimator, "predict_proba") and np.ndim(holdout_split.y) == 1
        name = "neg_brier_score" if has_probabilities else "accuracy"
    return get_metric(name, estimator=estimator, y=holdout_split.y)


def _test_declared_strength(holdout_split, declared_model, metric, score_folds, scores_and_folds):
    """Test the declared strength of a chain by scores, or of a network by labels (theory G33).

    Return the report and the scores, for a chain in the order of the caller's rows. The scores of a
    network are None. Both are None if no record of a chain has a score, or if not every record of a
    network has one label.
    """
    n_train = num_samples(holdout_split.X)
    if declares_influence(declared_model):
        labels = holdout_split.y
        if labels is None or np.ndim(labels) != 1 or declared_model.n_records != n_train:
            return None, None
        return declared_strength_test(declared_model, labels=labels), None
    row_order = _original_row_order(holdout_split)
    if scores_and_folds is None:
        folds = declared_model.folds(n_train, min(3, n_train - 1))
        fold_of_record = np.full(n_train, -1)
        for fold_index, (_, test_indices) in enumerate(folds):
            fold_of_record[test_indices] = fold_index
        scores = score_folds(metric, folds)
    else:
        scores, fold_of_record = scores_and_folds
    scores = np.asarray(scores)[row_order]
    fold_of_record = np.asarray(fold_of_record)[row_order]
    if np.isnan(scores).all():
        return None, None
    has_sequences = declared_model.n_records == n_train
    sequences = declared_model.components(n_train)[row_order] if has_sequences else None
    report = declared_strength_test(
        declared_model, scores=scores, folds=fold_of_record, sequences=sequences
    )
    return report, scores


def _test_groups(correlation_model, scores, class_labels, row_order, coordinates):
    """Test that neighboring groups are independent, by scores and, if possible, by residuals.

    Groups are neighbors in ``row_order``, or by ``coordinates`` if these are not None. From scores,
    the mean of their class is subtracted. Return the report and the unchanged scores, or None for
    both if fewer than two scores are finite or the correlation has another number of records.
    ``class_labels``: classes of the records, or None. ``row_order``: positions of the records in
    the order of the caller's rows.
    """
    if np.isfinite(scores).sum() < 2 or correlation_model.n_records not in (None, len(scores)):
        return None, None
    row_order = row_order if coordinates is None else slice(None)
    tested_values = [scores]
    if class_labels is not None:
        tested_values = [_subtract_label_means(scores, class_labels)]
        ordered_labels = class_labels[row_order]
        n_label_changes = np.count_nonzero(ordered_labels[1:] != ordered_labels[:-1])
        # Tables of groups with one class each are often sorted by class. Residuals would then show
        # dependence.
        if coordinates is not None or n_label_changes >= len(correlation_model.sizes_):
            tested_values.append(_residuals(scores, class_labels))
    group_codes = correlation_model.components(len(scores))[row_order]
    report = correlation.group_independence_test(
        np.transpose(tested_values)[row_order], group_codes, coordinates=coordinates
    )
    return report, scores


def _residuals(scores, labels):
    """Return a signed loss for each record, minus the mean of those with the same predicted sign.

    The loss is the difference from the largest score. Its sign is positive for labels in the upper
    half of the classes, else negative. Of a loss above half of the largest one, the predicted sign
    is the opposite.
    """
    label_codes = np.unique(labels, return_inverse=True)[1]
    label_signs = np.where(2 * label_codes > label_codes.max(), 1.0, -1.0)
    losses = np.nanmax(scores) - scores
    predicted_signs = np.where(2.0 * losses > np.nanmax(losses), -label_signs, label_signs)
    return _subtract_label_means(label_signs * losses, predicted_signs)


def _subtract_label_means(values, labels):
    """Return the values minus the mean value of the records with the same label; NaN stay NaN."""
    label_codes = np.unique(labels, return_inverse=True)[1]
    sums = np.bincount(label_codes, np.nan_to_num(values))
    counts = np.bincount(label_codes, ~np.isnan(values))
    return values - (sums / np.maximum(counts, 1))[label_codes]


def _test_row_order(score_shuffled, row_order, groups, scores_and_folds):
    """Test that scores depend neither on the order of rows nor on groups, if any.

    Return the report and the tested scores in the order of the caller's rows, or None for both if
    there are fewer than two scores. ``score_shuffled()`` returns scores of the training records in
    shuffled folds. ``row_order``: positions of the records in the order of the caller's rows.
    ``groups``: label of each record, or None. ``scores_and_folds``: score and fold of each record
    in the inner cross-validation, or None.
    """
    fold_of_record = None if groups is not None or scores_and_folds is None else scores_and_folds[1]
    # Usable folds test every record, and have enough records for a permutation test.
    is_usable = fold_of_record is not None and fold_of_record.min() >= 0
    if is_usable and np.bincount(fold_of_record).min() >= MIN_FOLD_SIZE:
        scores = scores_and_folds[0][row_order]
        report = correlation.independence_test(scores, folds=fold_of_record[row_order])
        # If only the test across folds rejects, the models of some folds may be worse. Scores are
        # then computed again with shuffled folds.
        if report.misfit or not correlation.independence_test(scores).misfit:
            return report, scores
    scores = score_shuffled()[row_order]
    is_tested = ~np.isnan(scores)
    if is_tested.sum() < 2:
        return None, None
    group_labels = None if groups is None else np.asarray(groups)[row_order][is_tested]
    report = correlation.independence_test(scores[is_tested], groups=group_labels)
    return report, scores[is_tested]


def warn_too_few_groups(holdout):
    """Warn once if a `ReusableHoldout` has so few groups that intervals will be wide.

    There is no warning for a closed holdout, and for one whose ``is_small`` is True.
    """
    correlation_model = holdout.dependence
    account = holdout.account
    scheme = correlation_model.sampling_scheme(holdout.n)
    if isinstance(correlation_model, Groups) and not (
        scheme.has_independent_records or holdout.is_small or account.has_shown(TOO_FEW_GROUPS)
    ):
        effective_n = correlation_model.effective_n(holdout.n)
        if effective_n < FEW_GROUPS:
            account.mark_shown(TOO_FEW_GROUPS)
            with contextlib.suppress(exceptions.HoldoutClosedError):  # no other answers to forecast
                forecast = holdout.preview(20, score=0.8)
                TOO_FEW_GROUPS.warn(
                    count=len(correlation_model.sizes_), worth=effective_n, **vars(forecast)
                )


def warn_undeclared_dependence(holdout_split, report=None):
    """Issue one warning with all evidence against the declared correlation, if there is any.

    The evidence: the hints of ``holdout_split``, and the message of ``report``, the report of a
    dependence test or None.
    """
    message = "" if report is None else report.message
    sentences = list(holdout_split.hints)
    if message:
        sentences.append(message[0].upper() + message[1:])
    if sentences:
        UNDECLARED_DEPENDENCE.warn(found=". ".join(sentences))


def warn_about_selected_model(
    holdout,
    metric,
    holdout_split,
    *,
    model_description,
    score,
    interval,
    cv_score,
    clipping=None,
    has_interval=True,
):
    """Warn if the selected model has an uninformative interval, an optimistic or a clipped score.

    All values are released or from the training set, in score units. There is no warning about the
    interval if there was one that the holdout is too small or has too few groups.

    Parameters
    ----------
    holdout : ReusableHoldout
        The holdout.
    metric : BoundedMetric
        Metric of the scores.
    holdout_split : HoldoutSplit
        Split of the fit.
    model_description : str
        Description of the model, for messages.
    score : float
        Verified score.
    interval : tuple of float
        Lower and upper end of the confidence interval of the verified score.
    cv_score : float
        Cross-validated score.
    clipping : Clipping or None, default=None
        Effect of clipping on the training records.
    has_interval : bool, default=True
        Whether the metric has an interval. If not, no warning is about the interval.
    """
    warn_clipped_score(metric, clipping, model_description)
    low, high = interval
    if cv_score > high and _is_optimistic(metric, holdout_split, cv_score, high):
        OPTIMISTIC_CV_SCORE.warn(
            measured=metric.display_name,
            of=model_description,
            training=cv_score,
            score=score,
            low=low,
            high=high,
        )
    covered_fraction = (high - low) / (metric.upper - metric.lower)  # of the score range
    is_uninformative = covered_fraction >= MIN_UNINFORMATIVE_FRACTION
    if not (has_interval and is_uninformative and math.isfinite(score)):
        return
    if not (holdout.is_small or holdout.account.has_shown(TOO_FEW_GROUPS)):
        scheme = holdout.dependence.sampling_scheme(holdout.n)
        UNINFORMATIVE_INTERVAL.warn(
            measured=metric.display_name,
            of=model_description,
            score=score,
            low=low,
            high=high,
            share=min(1.0, covered_fraction),
            count=scheme.n_units,
            units=scheme.unit_name,
        )


def _is_optimistic(metric, holdout_split, cv_score, upper_limit):
    """Return whether a cross-validated score exceeds an upper limit by more than chance explains.

    Both are in score units. Chance explains ``MAX_STANDARD_ERRORS`` standard errors of the score.
    """
    n_train = num_samples(holdout_split.X)
    train_model = Independent() if holdout_split.train_model is None else holdout_split.train_model
    expected_shape = dataclasses.asdict(metric.expected_shape(n_train))
    tail_bound = score_tail(train_model, n_train, **expected_shape)
    unit_score = min(1.0, max(0.0, metric.to_unit(cv_score)))
    score_range = metric.upper - metric.lower
    standard_error = float(tail_bound.standard_deviation(unit_score))  # in units of [0, 1]
    return cv_score - MAX_STANDARD_ERRORS * score_range * standard_error > upper_limit


def warn_clipped_score(metric, clipping, model_description):
    """Warn if clipping changes the training score noticeably, and return whether it does.

    ``clipping``: `Clipping`, the effect of clipping on the training records, or None.
    """
    if clipping is None or not clipping.is_noticeable:
        return False
    CLIPPED_SCORE.warn(
        measured=metric.display_name,
        name=metric.name,
        of=model_description,
        n=clipping.n,
        n_clipped=clipping.n_clipped,
        clipped=clipping.clipped_sum / clipping.n,
        plain=clipping.unclipped_sum / clipping.n,
        remedy=metric.remedy,
    )
    return True


# -- dependence of predictions on other rows of a batch -------------------------------------------


def is_batch_dependent(model, X):
    """Return whether predictions of a fitted model depend on the other rows of a batch.

    Predictions for training rows ``X`` are compared between two batches with rows in common. False
    for models whose predictions are random, for fewer than 16 rows, and if predictions fail.
    """
    if num_samples(X) < MIN_TRAINING_ROWS:
        return False
    return _depends_on_other_rows(model, X, *_overlapping_batches(num_samples(X), MAX_BATCH_SIZE))


def _overlapping_batches(n_rows, max_size):
    """Return the row indices of two batches, and the positions at which both have the same row.

    ``n_rows``: number of all rows. ``max_size``: largest number of rows of a batch.
    """
    batch_size = min(max_size, n_rows // 2)
    rng = np.random.default_rng(0)
    batch_indices = np.arange(batch_size) + (n_rows - batch_size) // 2
    shared_positions = rng.permutation(batch_size)[: batch_size // 2]
    changed_indices = rng.permutation(n_rows)[:batch_size]
    changed_indices[shared_positions] = batch_indices[shared_positions]
    return batch_indices, changed_indices, shared_positions


def _depends_on_other_rows(model, X, batch_indices, changed_indices, shared_positions):
    """Return whether predictions for the rows that two batches share depend on the other rows.

    The first prediction method with results for both batches decides. False without one, and if its
    predictions cannot be repeated. ``batch_indices``, ``changed_indices``: rows of ``X`` in each
    batch. ``shared_positions``: positions at which both have the same row, or a mask of them.
    """
    X_batch = safe_indexing(X, batch_indices)
    X_changed = safe_indexing(X, changed_indices)
    if hasattr(X_changed, "iloc"):  # features over time windows need an index in order
        X_changed = X_changed.set_axis(X_batch.index, axis=0)
    for method_name in ("predict_proba", "decision_function", "predict"):
        responses = _predict_or_none(model, method_name, X_batch)
        changed_responses = _predict_or_none(model, method_name, X_changed)
        if responses is None or changed_responses is None:
            continue
        if _are_close(responses[shared_positions], changed_responses[shared_positions]):
            return False
        repeated_responses = _predict_or_none(model, method_name, X_batch)
        if repeated_responses is None:
            return False
        return _are_close(responses[shared_positions], repeated_responses[shared_positions])
    return False


def check_later_rows(model, X, dates, *, name):
    """Raise ValueError if predictions of a fitted model for a date depend on later dates.

    In a batch of consecutive dates, the rows of the second half of the dates are replaced.
    Predictions for the first half must not change. Fewer than 16 dates are not checked. ``dates``:
    date of each training row of ``X`` as a number, in time order. ``name``: name of the model for
    the message.
    """
    unique_dates = np.unique(dates)
    if len(unique_dates) < MIN_TRAINING_ROWS:
        return
    n_batch_dates = max(4, MAX_BATCH_SIZE * len(unique_dates) // len(dates))
    n_batch_dates = min(n_batch_dates, len(unique_dates))
    batch_dates = unique_dates[(len(unique_dates) - n_batch_dates) // 2 :][:n_batch_dates]
    batch_indices = np.flatnonzero(np.isin(dates, batch_dates))
    is_late = dates[batch_indices] > batch_dates[(len(batch_dates) - 1) // 2]
    changed_indices = batch_indices.copy()
    changed_indices[is_late] = np.random.default_rng(0).permutation(len(dates))[: is_late.sum()]
    if _depends_on_other_rows(model, X, batch_indices, changed_indices, ~is_late):
        raise PREDICTIONS_FROM_LATER_ROWS.error(name=name)


def _predict_or_none(model, method_name, X):
    """Return the result of a prediction method as an array with one entry or row per record.

    None if the method is missing or fails, or if its result has another length.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            responses = getattr(model, method_name)(copy_data(X))
        except Exception:  # any error of the caller's model
            return None
    is_sparse = scipy.sparse.issparse(responses)
    responses = responses.toarray() if is_sparse else np.asarray(responses)
    return responses if responses.ndim and len(responses) == num_samples(X) else None


def _are_close(values, other_values):
    """Return whether two arrays are equal, for numbers up to errors of single precision."""
    if values.dtype.kind not in "iufb":
        return bool(np.all(values == other_values))
    values = values.astype(float)
    other_values = other_values.astype(float)
    finite_values = values[np.isfinite(values)]
    tolerance = 0.0
    if finite_values.size:
        tolerance = 1e-5 * float(np.ptp(finite_values)) + 1e-6 * float(np.abs(finite_values).max())
    return np.allclose(values, other_values, rtol=0.0, atol=tolerance, equal_nan=True)


def non_sklearn_components(model):
    """Return a list of components and functions of a model that are not from scikit-learn.

    The model itself counts as a component. A ``FunctionTransformer`` is always in the list.
    """
    components = [model]
    foreign_components = []
    if isinstance(model, BaseEstimator):
        parameter_values = model.get_params(deep=True).values()
        components += [
            value for value in parameter_values if hasattr(value, "fit") or callable(value)
        ]
    for component in components:
        # Functions and classes have a module of their own.
        definition = component if hasattr(component, "__qualname__") else type(component)
        package = f"{getattr(definition, '__module__', None)}".split(".")[0]
        if package != "sklearn" or isinstance(component, FunctionTransformer):
            foreign_components.append(component)
    return foreign_components


class BatchDependenceCheck:
    """Check whether predictions depend on other rows, once for each kind of pipeline of a search.

    Parameters
    ----------
    dates : ndarray of shape (n_train,), default=None
        Dates of the training rows as numbers, in time order. If given, only a dependence on rows of
        later dates is a finding.
    """

    def __init__(self, dates=None):
        self.dates = dates
        self._checked_kinds = set()
        self._dependent_names = []  # names of models whose predictions depend on other rows
        self._checked_metrics: list[Any] = []

    def check_model(self, model, X):
        """Check whether predictions of a fitted model depend on other rows, once for each kind.

        Warn at the first finding. If ``dates`` were given, raise ValueError instead if predictions
        depend on rows of later dates. Models with the same components from outside scikit-learn are
        of one kind. Models without such components, and those with the class names of an earlier
        finding, are not checked, and at most 12 kinds are. ``X``: training rows with the
        columns that the model was fitted on.
        """
        components = non_sklearn_components(model)
        pipeline_kind = repr(components)
        if (
            not components
            or pipeline_kind in self._checked_kinds
            or len(self._checked_kinds) >= MAX_PIPELINE_KINDS
        ):
            return
        self._checked_kinds.add(pipeline_kind)
        name = ", ".join(
            getattr(component, "__name__", type(component).__name__) for component in components
        )
        if self.dates is not None:
            check_later_rows(model, X, self.dates, name=name)
        elif name not in self._dependent_names and is_batch_dependent(model, X):
            if not self._dependent_names:
                BATCH_DEPENDENT_PREDICTIONS.warn(name=name)
            self._dependent_names.append(name)

    def check_score(self, metric, model, X, y):
        """Raise ScoreContractError if the score of a record depends on the other records.

        Each metric is checked once. Nothing is checked for metrics that read predictions only or
        are not means over records, with fewer than 16 rows, if predictions depend on the batch, or
        if the metric raises an error. ``X`` and ``y``: training rows, with the columns that the
        model was fitted on.
        """
        n_rows = num_samples(X)
        if metric.uses_predictions_only or not metric.is_mean or metric in self._checked_metrics:
            return
        self._checked_metrics.append(metric)
        # If predictions depend on the batch, changes of scores may come from them.
        if n_rows < MIN_TRAINING_ROWS or is_batch_dependent(model, X):
            return
        batch_indices, changed_indices, shared_positions = _overlapping_batches(
            n_rows, MAX_SCORED_BATCH_SIZE
        )
        y = np.asarray(y)
        try:
            scores, changed_scores, repeated_scores = (
                metric.training_scores(model, safe_indexing(X, indices), y[indices])[0][
                    shared_positions
                ]
                for indices in (batch_indices, changed_indices, batch_indices)
            )
        except Exception:  # of the function, which may need more rows
            return
        if not _are_close(scores, changed_scores) and _are_close(scores, repeated_scores):
            raise BATCH_DEPENDENT_SCORES.error(name=metric.name)

    @property
    def assumptions(self):
        """Tuple with a certificate line on predictions that depend on other rows, or empty."""
        return (
            (BATCH_DEPENDENCE_ASSUMPTION.format(names=", ".join(self._dependent_names)),)
            if self._dependent_names
            else ()
        )
