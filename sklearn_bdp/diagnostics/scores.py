"""Diagnostics of models and scores: batch dependence, dependence, few groups, fallen scores.

Everything here sees training records and released values only.
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
    "one model, and ±{half_width:.2g} for the best of 20. For one search, use nested "
    "cross-validation over all groups, which gives a narrower interval. For many, bring more "
    "groups.",
    exceptions.UninformativeIntervalWarning,
)
CV_SPLITS_GROUPS = Diagnostic(
    "folds across groups",
    "training set",
    "cv cuts declared groups, so that cross-validated scores are too good. Leave cv=5, or pass "
    "GroupKFold() with groups=.",
    ValueError,
)
CV_MIXES_DATES = Diagnostic(
    "folds across dates",
    "training set",
    "cv trains on dates between those it tests on, so that cross-validated scores are too good "
    "under correlation='time'. Leave cv=5, or pass TimeSeriesSplit(). The holdout was not queried.",
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

#: Part of the range from which on an interval is uninformative.
UNINFORMATIVE_SHARE = 0.9
#: Standard errors by which a cross-validated score may exceed its expectation by chance. The
#: interval contains the expected score of all candidates with probability ``confidence_level``, so
#: a false alarm needs a cross-validated score of the chosen one that is so far too high: 1 in 740
#: for one candidate, and about the best of 400 equal ones.
CHANCE = 3.0
#: Groups in a holdout (as many as they are worth) below which cross-validation does better.
FEW_GROUPS = 100
#: Records of a fold from which on their scores show dependence of neighbours.
SMALLEST_FOLD = 40
#: Rows that a model is asked to predict: features that look further back go unnoticed.
ROWS = 48
#: Rows that a caller's score is asked about: one by subgroups needs some of each.
SCORED_ROWS = 400
#: Different pipelines of one search that are asked.
MOST_KINDS = 12
#: Fewer training rows are not split into two different batches.
FEWEST_ROWS = 16
#: Line of the certificate of a search with such a model.
ASSUMPTION = (
    "NOT MET: predictions with {names} depend on the other rows of a batch. Their scores are not "
    "means over records, and their intervals are not guaranteed"
)


def run_dependence_test(division, estimator, metric, score, *, groups=None, scores_and_folds=None):
    """Compare cross-validated scores of one candidate with the declared correlation; warn once.

    ``score(metric, folds)`` returns its cross-validated scores, NaN if it cannot be fitted.
    ``scores_and_folds`` has its scores from the inner cross-validation and the fold of each record.
    If they do not suit the check, the candidate is fitted again. Returns the report of the check
    that suits the correlation and its per-record scores, or None twice.
    """
    model = division.train_model
    declared = division.model if model is None else model
    has_strength = declares_time(declared) or declares_influence(declared)
    scheme = division.scheme if model is None else division.train_scheme
    is_independent = scheme.has_independent_records
    has_coordinates = division.coordinates is not None and is_independent
    tests_groups = has_coordinates or (isinstance(model, Groups) and not is_independent)
    classes = is_classifier(estimator)
    labels = np.asarray(division.y) if classes and np.ndim(division.y) == 1 else None
    has_order = tests_groups or (is_independent and not _is_sorted(labels))
    # Of dates that are judged given their past, and given the rest, there is nothing to test.
    is_free = scheme.in_time_order or division.scheme.is_conditional
    is_testable = has_order and not is_free and _has_record_scores(division, estimator, metric)
    result = None, None
    if (has_strength or is_testable) and not metric.is_mean:
        metric = _per_record_metric(division, estimator)
        scores_and_folds = None
    row_order = _original_row_order(division)
    scored = partial(_scores_in_shuffled_folds, metric, score, row_order)
    if has_strength:
        result = _of_strength(division, declared, metric, score, scores_and_folds)
    elif is_testable and tests_groups:
        scores = scored(len(row_order)) if scores_and_folds is None else scores_and_folds[0]
        result = _of_groups(declared, scores, labels, row_order, division.coordinates)
    elif is_testable:
        result = _in_row_order(scored, row_order, groups, scores_and_folds)
    warn_undeclared_dependence(division, result[0])
    return result


def _is_sorted(labels):
    """Return whether there are labels, and rows are sorted by them."""
    return labels is not None and is_sorted_by_label(labels)


def _original_row_order(division):
    """Return the positions of the training records in the order of the caller's rows."""
    if division.train is None:
        return np.arange(num_samples(division.X))
    return np.argsort(division.train, kind="stable")


def _has_record_scores(division, estimator, metric):
    """Return whether records have scores of their own that can be cross-validated anew."""
    y = division.y
    is_single = y is None or np.ndim(y) == 1
    has_supported_targets = is_single or type_of_target(y) != "multiclass-multioutput"
    has_metric = metric.is_mean or is_classifier(estimator) or is_regressor(estimator)
    return has_metric and has_supported_targets and not get_tags(estimator).input_tags.pairwise


def _scores_in_shuffled_folds(metric, score, row_order, n_rows=MAX_SERIES):
    """Return scores in folds drawn without regard to the order of rows: the tests stay exact."""
    rows = np.sort(row_order[:n_rows])
    shuffled = KFold(min(3, len(rows)), shuffle=True, random_state=0)
    folds = [(rows[train_fold], rows[test]) for train_fold, test in shuffled.split(rows)]
    scores = score(metric, folds)
    # Among the first rows a class may be missing.
    if n_rows < len(row_order) and np.isnan(scores).all():
        return _scores_in_shuffled_folds(metric, score, row_order, len(row_order))
    return scores


def _per_record_metric(division, estimator):
    """Return a score of records that shows dependence in place of one that has none."""
    name = "neg_mean_absolute_error"
    if is_classifier(estimator):
        has_chances = hasattr(estimator, "predict_proba") and np.ndim(division.y) == 1
        name = "neg_brier_score" if has_chances else "accuracy"
    return get_metric(name, estimator=estimator, y=division.y)


def _of_strength(division, declared, metric, score, scores_and_folds):
    """Test a declared strength: of a chain by scores in time, of a network by labels (G33, G25).

    Return the report, or None if it cannot be tested, and the scores in time, or None.
    """
    n = num_samples(division.X)
    if declares_influence(declared):
        labels = division.y
        if labels is None or np.ndim(labels) != 1 or declared.n_records != n:
            return None, None
        return declared_strength_test(declared, labels=labels), None
    row_order = _original_row_order(division)
    if scores_and_folds is None:
        folds = declared.folds(n, min(3, n - 1))
        last_fold = np.full(n, -1)
        for i, (_, test) in enumerate(folds):
            last_fold[test] = i
        scores = score(metric, folds)
    else:
        scores, last_fold = scores_and_folds
    scores = np.asarray(scores)[row_order]
    last_fold = np.asarray(last_fold)[row_order]
    if np.isnan(scores).all():
        return None, None
    sequences = declared.components(n)[row_order] if declared.n_records == n else None
    report = declared_strength_test(declared, scores=scores, folds=last_fold, sequences=sequences)
    return report, scores


def _of_groups(model, scores, labels, row_order, coordinates):
    """Test that groups next to each other are independent, by scores and by signed residuals.

    Class means are subtracted, so that a table sorted by class does not count as dependence. Return
    the report and the scores, or None for both if there are too few scores.
    """
    if np.isfinite(scores).sum() < 2 or model.n_records not in (None, len(scores)):
        return None, None
    row_order = row_order if coordinates is None else slice(None)
    tested_values = [scores]
    if labels is not None:
        tested_values = [_less_means(scores, labels)]
        ordered_labels = labels[row_order]
        n_changes = np.count_nonzero(ordered_labels[1:] != ordered_labels[:-1])
        # If groups have about one class each, tables often list them class by class.
        if coordinates is not None or n_changes >= len(model.sizes_):
            tested_values.append(_residuals(scores, labels))
    codes = model.components(len(scores))[row_order]
    report = correlation.group_independence_test(
        np.transpose(tested_values)[row_order], codes, coordinates=coordinates
    )
    return report, scores


def _residuals(scores, labels):
    """Return by how much labels lie above (+) or below predictions, read off scores.

    Models that predict classes equally well show in their scores alone little of labels that
    lean the same way. Classes are the lower and the upper half.
    """
    codes = np.unique(labels, return_inverse=True)[1]
    sign = np.where(2 * codes > codes.max(), 1.0, -1.0)
    loss = np.nanmax(scores) - scores
    predicted = np.where(2.0 * loss > np.nanmax(loss), -sign, sign)
    return _less_means(sign * loss, predicted)


def _less_means(values, labels):
    """Return the values less the mean of their label."""
    codes = np.unique(labels, return_inverse=True)[1]
    sums = np.bincount(codes, np.nan_to_num(values))
    counts = np.bincount(codes, ~np.isnan(values))
    return values - (sums / np.maximum(counts, 1))[codes]


def _in_row_order(scored, row_order, groups, scores_and_folds):
    """Test that neither the order of the rows nor their groups matter, as independence implies.

    Return the report and the tested scores, or None for both if there are too few scores.
    """
    last_fold = None if groups is not None or scores_and_folds is None else scores_and_folds[1]
    # Every record is in a test fold, of enough records to be permuted.
    suits = last_fold is not None and last_fold.min() >= 0
    if suits and np.bincount(last_fold).min() >= SMALLEST_FOLD:
        scores = scores_and_folds[0][row_order]
        report = correlation.independence_test(scores, folds=last_fold[row_order])
        # The models of some folds may be worse: such scores are computed again with shuffled folds.
        if report.misfit or not correlation.independence_test(scores).misfit:
            return report, scores
    scores = scored()[row_order]
    tested = ~np.isnan(scores)
    if tested.sum() < 2:
        return None, None
    labels = None if groups is None else np.asarray(groups)[row_order][tested]
    return correlation.independence_test(scores[tested], groups=labels), scores[tested]


def warn_too_few_groups(holdout):
    """Warn once, before any fit, that few groups give wide intervals, and name an alternative.

    A holdout that is too small had a warning with its own numbers when it was opened.
    """
    model = holdout.dependence
    account = holdout.account
    scheme = model.sampling_scheme(holdout.n)
    if isinstance(model, Groups) and not (
        scheme.has_independent_records or holdout.is_small or account.has_shown(TOO_FEW_GROUPS)
    ):
        effective_n = model.effective_n(holdout.n)
        if effective_n < FEW_GROUPS:
            account.mark_shown(TOO_FEW_GROUPS)
            with contextlib.suppress(exceptions.HoldoutClosedError):  # no other answers to forecast
                forecast = holdout.preview(20, score=0.8)
                TOO_FEW_GROUPS.warn(count=len(model.sizes_), worth=effective_n, **vars(forecast))


def warn_undeclared_dependence(division, report=None):
    """Give one warning with all evidence against the declared correlation."""
    message = "" if report is None else report.message
    sentences = list(division.hints)
    if message:
        sentences.append(message[0].upper() + message[1:])
    if sentences:
        UNDECLARED_DEPENDENCE.warn(found=". ".join(sentences))


def warn_about_selected_model(
    holdout, metric, division, *, of, score, interval, training, clipping=None, has_interval=True
):
    """Warn if the selected model has an uninformative interval or an optimistic score.

    ``has_interval``: whether the metric has an interval. If not, the certificate explains why.

    All values are released or of the training set. Holdouts that are too small or have few groups
    had their warning before.
    """
    warn_clipped_score(metric, clipping, of)
    low, high = interval
    if training > high and _is_optimistic(metric, division, training, high):
        OPTIMISTIC_CV_SCORE.warn(
            measured=metric.display_name, of=of, training=training, score=score, low=low, high=high
        )
    share = (high - low) / (metric.upper - metric.lower)
    if not (has_interval and share >= UNINFORMATIVE_SHARE and math.isfinite(score)):
        return
    if not (holdout.is_small or holdout.account.has_shown(TOO_FEW_GROUPS)):
        scheme = holdout.dependence.sampling_scheme(holdout.n)
        UNINFORMATIVE_INTERVAL.warn(
            measured=metric.display_name,
            of=of,
            score=score,
            low=low,
            high=high,
            share=min(1.0, share),
            count=scheme.n_units,
            units=scheme.unit_name,
        )


def _is_optimistic(metric, division, training, high):
    """Return whether a training score is above a limit by more than its own variation."""
    n = num_samples(division.X)
    train_model = Independent() if division.train_model is None else division.train_model
    tail = score_tail(train_model, n, **dataclasses.asdict(metric.expected_shape(n)))
    unit = min(1.0, max(0.0, metric.to_unit(training)))
    span = metric.upper - metric.lower
    return training - CHANCE * span * float(tail.standard_deviation(unit)) > high


def warn_clipped_score(metric, clipping, of):
    """Warn if clipping changes the training score, and name a remedy; return whether it does."""
    if clipping is None or not clipping.is_noticeable:
        return False
    CLIPPED_SCORE.warn(
        measured=metric.display_name,
        name=metric.name,
        of=of,
        n=clipping.n,
        n_clipped=clipping.n_clipped,
        clipped=clipping.clipped / clipping.n,
        plain=clipping.plain / clipping.n,
        remedy=metric.remedy,
    )
    return True


# -- does a model score each record by itself, and new ones at all? --------------------------------


def is_batch_dependent(model, X):
    """Return whether predictions of a fitted model for some rows change when others are exchanged.

    ``X`` are training rows. Half of a batch stays where it is and the rest becomes other rows: a
    model that scores records one by one predicts the same for the half that stayed, to the last
    bit, even if it uses the position of a row in the batch. Random predictions are ignored.
    """
    if num_samples(X) < FEWEST_ROWS:
        return False
    return _changes(model, X, *_batches(num_samples(X), ROWS))


def _batches(n, max_size):
    """Return rows of a batch, of a batch that shares half of them, and positions of the shared."""
    size = min(max_size, n // 2)
    rng = np.random.default_rng(0)
    batch = np.arange(size) + (n - size) // 2
    shared = rng.permutation(size)[: size // 2]
    changed_batch = rng.permutation(n)[:size]
    changed_batch[shared] = batch[shared]
    return batch, changed_batch, shared


def _changes(model, X, batch, changed_batch, shared):
    """Return whether predictions for the shared rows of two batches depend on the other rows."""
    first = safe_indexing(X, batch)
    second = safe_indexing(X, changed_batch)
    if hasattr(second, "iloc"):  # windows of time need the order of their index
        second = second.set_axis(first.index, axis=0)
    for name in ("predict_proba", "decision_function", "predict"):
        responses = _responses(model, name, first)
        changed_responses = _responses(model, name, second)
        if responses is None or changed_responses is None:
            continue
        if _equal(responses[shared], changed_responses[shared]):
            return False
        repeated_responses = _responses(model, name, first)
        if repeated_responses is None:
            return False
        return _equal(responses[shared], repeated_responses[shared])
    return False


def check_later_rows(model, X, dates, *, name):
    """Raise if predictions of a fitted model for a date change with rows of later dates.

    ``dates`` are numbers of the dates of the training rows ``X``, in time order. Rows of the last
    dates of a stretch become other rows: predictions for the first dates must not change.
    """
    unique_dates = np.unique(dates)
    if len(unique_dates) < FEWEST_ROWS:
        return
    n_dates = max(4, ROWS * len(unique_dates) // len(dates))
    batch_dates = unique_dates[(len(unique_dates) - n_dates) // 2 :][:n_dates]
    batch = np.flatnonzero(np.isin(dates, batch_dates))
    is_late = dates[batch] > batch_dates[(len(batch_dates) - 1) // 2]
    changed_batch = batch.copy()
    changed_batch[is_late] = np.random.default_rng(0).permutation(len(dates))[: is_late.sum()]
    if _changes(model, X, batch, changed_batch, ~is_late):
        raise PREDICTIONS_FROM_LATER_ROWS.error(name=name)


def _responses(model, name, X):
    """Return one row of responses per record, or None if the model does not give them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            responses = getattr(model, name)(copy_data(X))
        except Exception:  # any error of the caller's model
            return None
    is_sparse = scipy.sparse.issparse(responses)
    responses = responses.toarray() if is_sparse else np.asarray(responses)
    return responses if responses.ndim and len(responses) == num_samples(X) else None


def _equal(first, second):
    """Return whether two arrays agree, numbers up to rounding in single precision."""
    if first.dtype.kind not in "iufb":
        return bool(np.all(first == second))
    first = first.astype(float)
    second = second.astype(float)
    finite = first[np.isfinite(first)]
    width = 1e-5 * float(np.ptp(finite)) + 1e-6 * float(np.abs(finite).max()) if finite.size else 0
    return np.allclose(first, second, rtol=0.0, atol=width, equal_nan=True)


def non_sklearn_components(model):
    """Return the parts of a model that are not from scikit-learn, functions among them."""
    parts = [model]
    foreign_parts = []
    if isinstance(model, BaseEstimator):
        values = model.get_params(deep=True).values()
        parts += [value for value in values if hasattr(value, "fit") or callable(value)]
    for component in parts:
        # Functions and classes have a module of their own.
        definition = component if hasattr(component, "__qualname__") else type(component)
        package = f"{getattr(definition, '__module__', None)}".split(".")[0]
        if package != "sklearn" or isinstance(component, FunctionTransformer):
            foreign_parts.append(component)
    return foreign_parts


class BatchDependenceCheck:
    """Check of one model of each kind of pipeline, with one warning."""

    def __init__(self, dates=None):
        self.dates = dates  # of training rows, if each is judged given its past
        self._asked = set()
        self._found = []
        self._scores: list[Any] = []

    def ask(self, model, X):
        """Look at a fitted model, unless one with the same foreign parts was looked at.

        ``X``: training rows, with the columns that it was fitted on.
        """
        parts = non_sklearn_components(model)
        pipeline_kind = repr(parts)
        if not parts or pipeline_kind in self._asked or len(self._asked) >= MOST_KINDS:
            return
        self._asked.add(pipeline_kind)
        name = ", ".join(getattr(part, "__name__", type(part).__name__) for part in parts)
        if self.dates is not None:
            check_later_rows(model, X, self.dates, name=name)
        elif name not in self._found and is_batch_dependent(model, X):
            if not self._found:
                BATCH_DEPENDENT_PREDICTIONS.warn(name=name)
            self._found.append(name)

    def check_score(self, metric, model, X, y):
        """Raise if a caller's score of a record depends on other records; checked once.

        ``X``, ``y``: training rows, with the columns that the model was fitted on.
        """
        n = num_samples(X)
        if metric.uses_predictions_only or not metric.is_mean or metric in self._scores:
            return
        self._scores.append(metric)
        if n < FEWEST_ROWS or is_batch_dependent(model, X):  # which has a warning of its own
            return
        batch, changed_batch, shared = _batches(n, SCORED_ROWS)
        y = np.asarray(y)
        try:
            scores, changed_scores, repeated_scores = (
                metric.training_scores(model, safe_indexing(X, rows), y[rows])[0][shared]
                for rows in (batch, changed_batch, batch)
            )
        except Exception:  # a function may need more rows than these
            return
        if not _equal(scores, changed_scores) and _equal(scores, repeated_scores):
            raise BATCH_DEPENDENT_SCORES.error(name=metric.name)

    @property
    def assumptions(self):
        """Lines that a certificate must contain."""
        return (ASSUMPTION.format(names=", ".join(self._found)),) if self._found else ()
