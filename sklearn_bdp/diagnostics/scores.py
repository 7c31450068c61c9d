"""What models and their scores show: other rows read, dependence, few groups, scores that fell.

Everything here sees training records and released values only.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import warnings
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
from sklearn_bdp.correlation.dependence import LONGEST_SERIES
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
    "one model, and ±{half_width:.2g} for the best of 20. Nested cross-validation over all groups "
    "gives one narrower number, and no second one. Bring more groups, or set holdout=0.5.",
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
    "PerRecordScore {name} gives training records other numbers when other records stand beside "
    "them, so that its mean has no proven interval. Return numbers that depend on their record and "
    "the model only. The holdout was not queried.",
    exceptions.ScoreContractError,
)

#: Part of its range that an interval covers to say nothing.
UNINFORMATIVE_SHARE = 0.9
#: Standard errors by which a cross-validated score may exceed its expectation by chance. The
#: interval contains the expected score of all candidates with probability ``confidence_level``, so
#: a false alarm needs a cross-validated score of the chosen one that is so far too high: 1 in 740
#: for one candidate, and about what the best of 400 equal ones reaches.
CHANCE = 3.0
#: Groups in a holdout (as many as they are worth) below which cross-validation does better.
FEW_GROUPS = 100
#: Records of a fold from which on their scores show dependence of neighbours.
SMALLEST_FOLD = 40
#: Rows that a model is asked to predict: what looks further back than that goes unseen.
ROWS = 48
#: Rows that a caller's score is asked about: one by subgroups needs some of each.
SCORED_ROWS = 400
#: Different pipelines of one search that are asked.
MOST_KINDS = 12
#: Fewer training rows are not split into two different batches.
FEWEST_ROWS = 16
#: What a certificate says of a search in which such a model was found.
ASSUMPTION = (
    "NOT MET: predictions with {names} depend on the other rows of a batch. Their scores are not "
    "means over records, and their intervals are not guaranteed"
)


def run_dependence_test(division, estimator, metric, score, *, groups=None, known=None):
    """Compare training-side scores of one candidate with the declared correlation; warn once.

    ``score(metric, folds)`` returns its cross-validated scores, NaN where it cannot be fitted.
    ``known`` are its scores from the inner cross-validation and the fold of each record; where they
    do not suit the check, the candidate is fitted again. Returns the report of the check that suits
    the correlation and the per-record scores behind it; None where there is none.
    """
    model, train, n = division.train_model, division.train, num_samples(division.X)
    declared = division.model if model is None else model
    if declares_time(declared) or declares_influence(declared):
        if not metric.is_mean:
            metric, known = _per_record_metric(division, estimator), None
        found = _of_strength(division, declared, metric, score, known)
        warn_undeclared_dependence(division, found[0])
        return found
    placed = division.places is not None and declared.is_independent
    in_groups = placed or (isinstance(model, Groups) and not model.is_independent)
    classes = is_classifier(estimator)
    labels = np.asarray(division.y) if classes and np.ndim(division.y) == 1 else None
    found = None, None
    if (
        (
            in_groups
            or (declared.is_independent and not (labels is not None and is_sorted_by_label(labels)))
        )
        # Of dates that are judged given their past, and given the rest, there is nothing to test.
        and not (declared.is_sequential or division.model.is_given_rest)
        and (metric.is_mean or classes or is_regressor(estimator))
        and (
            division.y is None
            or np.ndim(division.y) == 1
            or type_of_target(division.y) != "multiclass-multioutput"
        )
        and not get_tags(estimator).input_tags.pairwise
    ):
        if not metric.is_mean:
            metric, known = _per_record_metric(division, estimator), None

        # In which the training rows came.
        order = np.arange(n) if train is None else np.argsort(train, kind="stable")

        def scored(most=LONGEST_SERIES):
            """Score in folds drawn without regard to the order of rows: the tests stay exact."""
            rows = np.sort(order[:most])
            mixed = KFold(min(3, len(rows)), shuffle=True, random_state=0)
            found = score(metric, [(rows[rest], rows[test]) for rest, test in mixed.split(rows)])
            # Among the first rows a class may be missing.
            return scored(n) if most < n and np.isnan(found).all() else found

        if in_groups:
            scores = scored(n) if known is None else known[0]
            found = _of_groups(declared, scores, labels, order, division.places)
        else:
            found = _in_row_order(scored, order, groups, known)
    warn_undeclared_dependence(division, found[0])
    return found


def _per_record_metric(division, estimator):
    """Return a score of records that shows dependence in place of one that has none."""
    name = "neg_mean_absolute_error"
    if is_classifier(estimator):
        has_chances = hasattr(estimator, "predict_proba") and np.ndim(division.y) == 1
        name = "neg_brier_score" if has_chances else "accuracy"
    return get_metric(name, estimator=estimator, y=division.y)


def _of_strength(division, declared, metric, score, known):
    """Test a declared strength: of a chain by scores in time, of a network by labels (G33, G25)."""
    n, train = num_samples(division.X), division.train
    if declares_influence(declared):
        labels = division.y
        if labels is None or np.ndim(labels) != 1 or declared.n_records != n:
            return None, None
        return declared_strength_test(declared, labels=labels), None
    order = np.arange(n) if train is None else np.argsort(train, kind="stable")
    if known is None:
        folds = declared.folds(n, min(3, n - 1))
        fold = np.full(n, -1)
        for place, (_, test) in enumerate(folds):
            fold[test] = place
        known = score(metric, folds), fold
    scores, fold = (np.asarray(values)[order] for values in known)
    if np.isnan(scores).all():
        return None, None
    sequences = declared.components(n)[order] if declared.n_records == n else None
    found = declared_strength_test(declared, scores=scores, folds=fold, sequences=sequences)
    return found, scores


def _of_groups(model, scores, labels, order, places):
    """Test that groups next to each other are independent, by scores and by signed residuals.

    Scores are less the mean of their class, so that a table sorted by class is no dependence.
    """
    if np.isfinite(scores).sum() < 2 or model.n_records not in (None, len(scores)):
        return None, None
    kinds, order = [scores], order if places is None else slice(None)
    if labels is not None:
        kinds, ordered = [_less_means(scores, labels)], labels[order]
        # Groups of about one class each stand class after class in many tables.
        if places is not None or np.count_nonzero(ordered[1:] != ordered[:-1]) >= len(model.sizes_):
            kinds.append(_residuals(scores, labels))
    codes = model.components(len(scores))[order]
    found = correlation.group_independence_test(
        np.transpose(kinds)[order], codes, coordinates=places
    )
    return found, scores


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
    sums, known = np.bincount(codes, np.nan_to_num(values)), np.bincount(codes, ~np.isnan(values))
    return values - (sums / np.maximum(known, 1))[codes]


def _in_row_order(scored, order, groups, known):
    """Test what independence promises: neither the order of the rows nor their groups matter."""
    fold = None if groups is not None or known is None else known[1]
    # Every record is in a test fold, of enough records to be permuted.
    if fold is not None and fold.min() >= 0 and np.bincount(fold).min() >= SMALLEST_FOLD:
        scores = known[0][order]
        found = correlation.independence_test(scores, folds=fold[order])
        # The models of some folds may be worse: asked again where all rows have the same ones.
        if found.misfit or not correlation.independence_test(scores).misfit:
            return found, scores
    scores = scored()[order]
    tested = ~np.isnan(scores)
    if tested.sum() < 2:
        return None, None
    labels = None if groups is None else np.asarray(groups)[order][tested]
    return correlation.independence_test(scores[tested], groups=labels), scores[tested]


def warn_too_few_groups(holdout):
    """Say once, before anything is fitted, that few groups tell little, and what does better."""
    model, account = holdout.dependence, holdout.account
    if isinstance(model, Groups) and not (
        model.is_independent or account.has_shown(TOO_FEW_GROUPS)
    ):
        worth = model.effective_n(holdout.n)
        if worth < FEW_GROUPS:
            account.mark_shown(TOO_FEW_GROUPS)
            with contextlib.suppress(exceptions.HoldoutClosedError):  # no other answers to forecast
                seen = holdout.preview(20, score=0.8)
                TOO_FEW_GROUPS.warn(count=len(model.sizes_), worth=worth, **vars(seen))


def warn_undeclared_dependence(division, report=None):
    """Give one warning of everything that speaks against the declared correlation."""
    found = "" if report is None else report.message
    sentences = [*division.hints, *([found[0].upper() + found[1:]] if found else [])]
    if sentences:
        UNDECLARED_DEPENDENCE.warn(found=". ".join(sentences))


def warn_about_selected_model(
    holdout, metric, division, *, of, score, interval, training, clipping=None, has_interval=True
):
    """Warn where hardly anything is known of what was chosen, or its score is not what it seems.

    ``has_interval``: whether the metric has one; the certificate explains why it has none.

    Everything here is released or of the training side. Of a holdout that is too small, or of few
    groups, it was said before.
    """
    warn_clipped_score(metric, clipping, of)
    model, (low, high), span = holdout.dependence, interval, metric.upper - metric.lower
    known = {"measured": metric.measured, "of": of, "score": score, "low": low, "high": high}
    if training > high:
        n, of_training = num_samples(division.X), division.train_model
        of_training = Independent() if of_training is None else of_training
        tail = score_tail(of_training, n, **dataclasses.asdict(metric.expected_shape(n)))
        unit = min(1.0, max(0.0, metric.to_unit(training)))
        if training - CHANCE * span * float(tail.standard_deviation(unit)) > high:
            OPTIMISTIC_CV_SCORE.warn(training=training, **known)
    if not has_interval:
        return
    share = (high - low) / span
    if (
        share >= UNINFORMATIVE_SHARE
        and math.isfinite(score)
        and not (holdout.is_small or holdout.account.has_shown(TOO_FEW_GROUPS))
    ):
        count, units = model.units(holdout.n)
        UNINFORMATIVE_INTERVAL.warn(share=min(1.0, share), count=count, units=units, **known)


def warn_clipped_score(metric, clipping, of):
    """Say what clipping changes on the training side, and what to do; return whether it does."""
    if clipping is None or not clipping.bites:
        return False
    n, known = clipping.n, {"measured": metric.measured, "name": metric.name, "of": of}
    known |= {"n": n, "n_clipped": clipping.n_clipped, "remedy": metric.remedy}
    CLIPPED_SCORE.warn(clipped=clipping.clipped / n, plain=clipping.plain / n, **known)
    return True


# -- does a model score each record by itself, and new ones at all? --------------------------------


def is_batch_dependent(model, X):
    """Return whether predictions of a fitted model for some rows change when others are exchanged.

    ``X`` are training rows. Half of a batch stays where it is and the rest becomes other rows: a
    model that scores records one by one says the same of the half that stayed, to the last bit,
    also where it uses the place of a row in the batch; what draws at random is left alone.
    """
    if num_samples(X) < FEWEST_ROWS:
        return False
    return _changes(model, X, *_batches(num_samples(X), ROWS))


def _batches(n, most):
    """Return places of a batch, of one with other rows beside half of it, and which stay."""
    size = min(most, n // 2)
    rng = np.random.default_rng(0)
    batch = np.arange(size) + (n - size) // 2
    kept = rng.permutation(size)[: size // 2]
    other = rng.permutation(n)[:size]
    other[kept] = batch[kept]
    return batch, other, kept


def _changes(model, X, batch, other, kept):
    """Return whether what a model says of the ``kept`` rows of a batch changes with the others."""
    first, second = safe_indexing(X, batch), safe_indexing(X, other)
    if hasattr(second, "iloc"):  # windows of time need the order of their index
        second = second.set_axis(first.index, axis=0)
    for name in ("predict_proba", "decision_function", "predict"):
        said, changed = (_said(model, name, part) for part in (first, second))
        if said is None or changed is None:
            continue
        if _equal(said[kept], changed[kept]):
            return False
        again = _said(model, name, first)
        return again is not None and _equal(said[kept], again[kept])
    return False


def check_later_rows(model, X, dates, *, name):
    """Raise where predictions of a fitted model for a date change with rows of later dates.

    ``dates`` are numbers of the dates of the training rows ``X``, in time order. Rows of the last
    dates of a stretch become other rows; what is said of the first ones has to stay.
    """
    known = np.unique(dates)
    if len(known) < FEWEST_ROWS:
        return
    count = max(4, ROWS * len(known) // len(dates))
    part = known[(len(known) - count) // 2 :][:count]
    batch = np.flatnonzero(np.isin(dates, part))
    late = dates[batch] > part[(len(part) - 1) // 2]
    other = batch.copy()
    other[late] = np.random.default_rng(0).permutation(len(dates))[: late.sum()]
    if _changes(model, X, batch, other, ~late):
        raise PREDICTIONS_FROM_LATER_ROWS.error(name=name)


def _said(model, name, X):
    """Return one row of responses per record; None where the model has or gives none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = getattr(model, name)(copy_data(X))
        except Exception:  # whatever it raises
            return None
    found = found.toarray() if scipy.sparse.issparse(found) else np.asarray(found)
    return found if found.ndim and len(found) == num_samples(X) else None


def _equal(first, second):
    """Return whether two arrays agree, numbers up to rounding in single precision."""
    if first.dtype.kind not in "iufb":
        return bool(np.all(first == second))
    first, second = first.astype(float), second.astype(float)
    finite = first[np.isfinite(first)]
    width = 1e-5 * float(np.ptp(finite)) + 1e-6 * float(np.abs(finite).max()) if finite.size else 0
    return np.allclose(first, second, rtol=0.0, atol=width, equal_nan=True)


def non_sklearn_components(model):
    """Return the parts of a model that scikit-learn does not answer for, functions among them."""
    parts, found = [model], []
    if isinstance(model, BaseEstimator):
        values = model.get_params(deep=True).values()
        parts += [value for value in values if hasattr(value, "fit") or callable(value)]
    for part in parts:
        named = part if hasattr(part, "__qualname__") else type(part)  # functions and classes
        room = f"{getattr(named, '__module__', None)}".split(".")[0]
        if room != "sklearn" or isinstance(part, FunctionTransformer):
            found.append(part)
    return found


class BatchDependenceCheck:
    """Asks one model of each kind of pipeline, and warns once."""

    def __init__(self, dates=None):
        self.dates = dates  # of training rows, where each is judged given its past
        self._asked, self._found = set(), []
        self._scores: list[Any] = []

    def ask(self, model, X):
        """Look at a fitted model, unless one with the same foreign parts was looked at.

        ``X``: training rows, with the columns that it was fitted on.
        """
        parts = non_sklearn_components(model)
        kind = repr(parts)
        if not parts or kind in self._asked or len(self._asked) >= MOST_KINDS:
            return
        self._asked.add(kind)
        name = ", ".join(getattr(part, "__name__", type(part).__name__) for part in parts)
        if self.dates is not None:
            check_later_rows(model, X, self.dates, name=name)
        elif name not in self._found and is_batch_dependent(model, X):
            if not self._found:
                BATCH_DEPENDENT_PREDICTIONS.warn(name=name)
            self._found.append(name)

    def check_score(self, metric, model, X, y):
        """Raise where a caller's score of a record depends on other records; asked once.

        ``X``, ``y``: training rows, with the columns that the model was fitted on.
        """
        n = num_samples(X)
        if metric.by_predictions or not metric.is_mean or metric in self._scores:
            return
        self._scores.append(metric)
        if n < FEWEST_ROWS or is_batch_dependent(model, X):  # which has a warning of its own
            return
        batch, other, kept = _batches(n, SCORED_ROWS)
        y = np.asarray(y)
        try:
            first, second, again = (
                metric.training_scores(model, safe_indexing(X, rows), y[rows])[0][kept]
                for rows in (batch, other, batch)
            )
        except Exception:  # a function that needs more rows than these tells nothing
            return
        if not _equal(first, second) and _equal(first, again):
            raise BATCH_DEPENDENT_SCORES.error(name=metric.name)

    @property
    def assumptions(self):
        """What a certificate has to say."""
        return (ASSUMPTION.format(names=", ".join(self._found)),) if self._found else ()
