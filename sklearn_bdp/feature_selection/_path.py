"""Score subsets of features on the training set, choose one and verify it on the holdout.

Cross-validation finds the best subset without a test. Whether that subset is better than a
constant prediction is a separate question, which the holdout helps to answer.

A *path* is a sequence of subsets: the first features of a ranking, with increasing sizes. The
ranking is recomputed inside each fold, because the cross-validated score of a subset that was
ranked on all training records would be too high.
"""

import math
import traceback
import warnings
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.stats import rankdata
from scipy.stats import t as student
from sklearn.base import is_classifier, is_regressor
from sklearn.exceptions import FitFailedWarning
from sklearn.utils.parallel import Parallel, delayed

from sklearn_bdp.correlation.components import n_independent_units
from sklearn_bdp.evaluation.candidates import (
    Candidate,
    CandidateQuery,
    MissingAnswer,
    fit_fold,
    select_columns,
)
from sklearn_bdp.evaluation.failed_fits import first_error, likely_cause
from sklearn_bdp.evaluation.scoring import answers_to_columns
from sklearn_bdp.feature_selection._rankings import text_columns
from sklearn_bdp.metrics.approximate import ApproximateMetric, Predictions, TrainingReference
from sklearn_bdp.metrics.error_clips import errors_of_scores
from sklearn_bdp.release.context import CVData
from sklearn_bdp.report.in_time import clip_errors_in_time
from sklearn_bdp.report.plan import out_of_fold_errors
from sklearn_bdp.utils.sklearn_compat import num_samples
from sklearn_bdp.utils.validation import caller_level

#: Significance level of the test against the constant prediction on the training set. The holdout
#: must also score the subset above the constant, which happens for every second useless subset.
_ALPHA = 0.05
#: Number of random draws that determine the p-value of this test.
_N_DRAWS = 4_000
#: Sources of a verified score, in the column ``answered_from``. Other scores were not verified: if
#: ``on_exhausted`` is "cv", they may be cross-validated ones.
ANSWERED = {"cv", "holdout"}
#: Largest number of classes for which correct predictions that are averaged over records are
#: compared with chance in each class. Useless features seldom beat the constant in these metrics.
_MAX_CLASSES_WITH_CHANCE = 10


@dataclass(frozen=True)
class ScoredSubset:
    """Subset of features with its ranking and its cross-validated scores."""

    #: ``"constant"``: the subset without ranked features, with which all others are compared.
    #: ``"ranked"``: the first features of a ranking. ``"stable"``: the stable features.
    kind: str
    ranking: str  # source of the subset for reports: its kind, or the name of the user's ranking
    group_indices: tuple  # indices of the selected feature groups, best first
    columns: tuple  # positions of their columns and of the fixed columns, sorted
    #: (n,): contribution of each training record to the out-of-fold score in [0, 1] (in score
    #: units until :func:`_map_to_unit_range`). NaN for records in no test fold or one with an
    #: undefined score, and for all if a fit failed. The mean of the others is the cross-validated
    #: score.
    #: For scores by class a contribution is the score of the record's fold plus the record's
    #: influence on it, see :func:`influence_values`.
    scores: np.ndarray = field(repr=False)
    #: (n,): the same for the rate of correct predictions minus that by chance, with equal weights
    #: of the classes, or for the area under the ROC curve minus 0.5. The mean is 0 on average if
    #: predictions are independent of the classes. None if subsets are compared with the constant
    #: prediction instead.
    chance_corrected: np.ndarray | None = field(default=None, repr=False)
    #: Out-of-fold predictions of all folds, for a metric without a proven bound that needs them.
    predictions: Predictions | None = field(default=None, repr=False)

    @property
    def cv_score(self):
        """Cross-validated score in [0, 1]; NaN if a fit failed or no record has a score."""
        if not np.isfinite(self.scores).any():
            return math.nan
        return float(np.clip(np.nanmean(self.scores), 0.0, 1.0))  # rounding may leave [0, 1]


@dataclass(frozen=True)
class FoldResult:
    """Scores of one subset on the test records of a fold."""

    #: Contribution of each record to the score in [0, 1]; in score units for a metric without a
    #: proven bound.
    scores: np.ndarray
    chance_corrected: np.ndarray  # see ScoredSubset; not used without a comparison with chance
    predictions: Predictions | None = None  # of the test records; see ScoredSubset


def score_subsets(setup, ranking, *, requested_size, n_jobs):
    """Return the list of :class:`ScoredSubset` of a path, and the metric.

    The first subset is the baseline without ranked features, if there is one. The metric is
    ``setup.metric``, for a metric without a proven bound with an open range set from out-of-fold
    scores. If subsets could not be fitted, warn, or raise ValueError if no others than the baseline
    have a score.

    Parameters
    ----------
    setup : SearchSetup
        Training set, folds and metric.
    ranking : Ranking
        Ranking of the feature groups.
    requested_size : int, "stable" or None
        Number of feature groups to select: result of :meth:`FeatureGroups.n_to_select`.
    n_jobs : int or None
        Number of workers that fit and predict.
    """
    n = num_samples(setup.X)
    # Univariate scores on the training records of each fold, and on all training records.
    positions_by_ranking = [train for train, _ in setup.folds] + [np.arange(n)]
    univariate_scores = ranking.univariate(positions_by_ranking)
    full_orders = _orders(ranking, requested_size, np.arange(n), univariate_scores[-1])
    has_baseline = _has_baseline(setup.estimator, ranking.feature_groups)
    kinds_and_sizes = [("constant", 0)] if has_baseline else []
    kinds_and_sizes += _ranked_subsets(requested_size, full_orders, len(ranking.feature_groups), n)
    classes = _classes_with_chance(setup, ranking.feature_groups)
    worker_setup = replace(setup, X_holdout=None, y_holdout=None)  # workers need no holdout
    results_by_fold = Parallel(n_jobs=n_jobs)(
        delayed(_score_fold)(
            worker_setup, fold, ranking, requested_size, fold_scores, kinds_and_sizes, classes
        )
        for fold, fold_scores in zip(setup.folds, univariate_scores, strict=False)
    )
    results_by_subset = zip(*results_by_fold, strict=True)
    scored_subsets = []
    failures = []  # a traceback of each subset that could not be fitted
    for (kind, size), results in zip(kinds_and_sizes, results_by_subset, strict=True):
        tracebacks = [result for result in results if isinstance(result, str)]
        failures += tracebacks[:1]
        group_indices = tuple(full_orders[kind][:size].tolist())
        no_scores = np.full(n, math.nan)
        subset = ScoredSubset(
            kind=kind,
            ranking=ranking.name if kind == "ranked" else kind,
            group_indices=group_indices,
            columns=ranking.feature_groups.columns(group_indices),
            scores=no_scores,
            chance_corrected=no_scores,
        )
        if not tracebacks:
            subset = _with_fold_results(subset, setup.folds, results)
        if classes is None:
            subset = replace(subset, chance_corrected=None)
        scored_subsets.append(subset)
    if failures:
        _report_failures(failures, scored_subsets, has_baseline, setup)
    if not isinstance(setup.metric, ApproximateMetric):
        return scored_subsets, setup.metric
    return _map_to_unit_range(scored_subsets, setup)


def _has_baseline(estimator, feature_groups):
    """Return whether subsets are compared with a baseline: the fixed columns, or a constant."""
    return bool(feature_groups.fixed) or is_classifier(estimator) or is_regressor(estimator)


def _ranked_subsets(requested_size, full_orders, n_groups, n):
    """Return a list of (kind, size): "ranked" subsets by size, then "stable".

    A size is the largest number of feature groups of the subset. ``full_orders``: result of
    :func:`_orders` on all ``n`` training records.
    """
    n_ranked = full_orders["ranked"].size
    sizes = {min(size, n_ranked) for size in _path_sizes(requested_size, n_groups, n)} - {0}
    kinds_and_sizes = [("ranked", size) for size in sorted(sizes)]
    if requested_size == "stable" and full_orders["stable"].size:
        kinds_and_sizes.append(("stable", n))  # all stable groups: there are fewer than n
    return kinds_and_sizes


def _path_sizes(requested_size, n_groups, n_records):
    """Return the set of the numbers of feature groups on a path.

    If ``requested_size`` is a number, it is the only one. For "stable" the only one is 1. For None
    each is about 1.4 times the previous one. The largest is ``n_groups`` or, with more groups than
    records, at most half the number of records (but at least 1).
    """
    if requested_size is not None:
        return {1 if requested_size == "stable" else requested_size}
    max_size = n_groups if n_groups <= n_records else max(1, n_records // 2)
    n_steps = int(2 * math.log2(max(1, max_size))) + 1
    sizes = {round(2 ** (step / 2)) for step in range(n_steps)}
    sizes = {size for size in sizes if size <= max_size}
    if max_size == n_groups:
        sizes.add(max_size)
    return sizes


def _classes_with_chance(setup, feature_groups):
    """Return the sorted classes if predictions are compared with chance in each; otherwise None.

    None with fixed features, for one class, for other estimators than classifiers, for several
    outputs, and for metrics without a known chance level. None for a mean over records and more
    than ten classes.
    """
    labels = np.asarray(setup.y)
    has_chance_level = setup.metric.n_predicted_classes is not None
    has_labels = is_classifier(setup.estimator) and labels.ndim == 1
    if not has_labels or not has_chance_level or feature_groups.fixed:
        return None
    classes = np.unique(labels)
    max_classes = _MAX_CLASSES_WITH_CHANCE if setup.metric.is_mean else len(classes)
    return classes if 2 <= len(classes) <= max_classes else None


def _with_fold_results(subset, folds, results):
    """Return the :class:`ScoredSubset` with the scores and predictions of all folds.

    ``folds``: training and test positions; ``results``: :class:`FoldResult` of each fold.
    """
    scores = np.full(subset.scores.size, math.nan)
    chance_corrected = np.full(subset.scores.size, math.nan)
    predictions = []
    for (_, test), result in zip(folds, results, strict=False):
        scores[test] = result.scores
        chance_corrected[test] = result.chance_corrected
        if result.predictions is not None:
            predictions.append(result.predictions)
    return replace(
        subset,
        scores=scores,
        chance_corrected=chance_corrected,
        predictions=Predictions.concatenate(predictions) if predictions else None,
    )


def _map_to_unit_range(scored_subsets, setup):
    """Return subsets with scores in [0, 1] of a metric without a proven bound, and the metric.

    If its range is open, the metric gets one from the out-of-fold scores of all subsets. Scores are
    mapped to [0, 1] by the range.
    """
    # For each subset: the score of its pooled predictions, or without them the scores of records.
    scores_by_subset = []
    for subset in scored_subsets:
        if subset.predictions is None:
            scores_by_subset.append(subset.scores)
        else:
            scores_by_subset.append(setup.metric.pooled(subset.predictions).score)
    all_scores = np.concatenate([np.ravel(scores) for scores in scores_by_subset])
    metric = setup.metric.with_range(all_scores)
    test_positions = np.concatenate([test for _, test in setup.folds])
    subsets_in_range = [
        replace(subset, scores=_unit_contributions(subset, metric, raw_score, test_positions))
        for subset, raw_score in zip(scored_subsets, scores_by_subset, strict=True)
    ]
    return subsets_in_range, metric


def _unit_contributions(subset, metric, pooled_score, test_positions):
    """Return the contribution of each training record to the score in [0, 1], shape (n,).

    ``pooled_score``: score of the pooled predictions, not used without predictions. If it is not
    finite, all contributions are NaN. ``test_positions``: positions of the predicted records in
    the training set.
    """
    if subset.predictions is None:
        return metric.to_unit(subset.scores)
    contributions = np.full(subset.scores.size, math.nan)
    if math.isfinite(pooled_score):
        contributions[test_positions] = metric.record_values(
            subset.predictions, metric.pooled(subset.predictions)
        )
    return contributions


def _orders(ranking, requested_size, positions, univariate_scores):
    """Return a dict from kinds of subsets to the indices of feature groups, best first.

    The indices of "constant" are empty, and those of "stable" are None unless ``requested_size`` is
    "stable". For a number, those of "ranked" include groups without a score. ``positions``: of the
    training records that are used; ``univariate_scores``: (n_features,), on these records.
    """
    include_unscored = isinstance(requested_size, int)
    return {
        "constant": np.empty(0, dtype=int),
        "ranked": ranking.order(positions, univariate_scores, include_unscored=include_unscored),
        "stable": ranking.stable(positions) if requested_size == "stable" else None,
    }


def _score_fold(setup, fold, ranking, requested_size, univariate_scores, kinds_and_sizes, classes):
    """Return for each subset the :class:`FoldResult` in one fold, or a traceback.

    ``fold``: training and test positions; ``requested_size``: number of feature groups, "stable" or
    None; ``univariate_scores``: (n_features,), on the fold's training records; ``kinds_and_sizes``:
    for each subset its kind and its largest number of feature groups; ``classes``: in which
    predictions are compared with chance, or None.
    """
    train_positions, _ = fold
    orders = _orders(ranking, requested_size, train_positions, univariate_scores)
    columns_by_subset = [
        ranking.feature_groups.columns(orders[kind][:size].tolist())
        for kind, size in kinds_and_sizes
    ]
    result_by_columns = {
        columns: _score_columns(setup, columns, fold, classes)
        for columns in dict.fromkeys(columns_by_subset)
    }
    return [result_by_columns[columns] for columns in columns_by_subset]


def _score_columns(setup, columns, fold, classes):
    """Return the :class:`FoldResult` of a model of some columns, or the traceback of an error.

    With ``error_score="raise"``, or for the scoring of a metric with a proven bound, the error is
    raised instead. ``fold``: training and test positions; ``classes``: in which predictions are
    compared with chance, or None.
    """
    X = select_columns(setup.X, columns)  # columns before rows: wide data are not copied
    try:
        model, X_test, y_test = fit_fold(setup, Candidate(columns=columns), X, fold)
    except Exception:
        if setup.error_score == "raise":
            raise
        return traceback.format_exc()
    if isinstance(setup.metric, ApproximateMetric):
        return _approximate_result(setup, model, X_test, y_test, classes)
    evaluation = setup.metric.evaluate(model, X_test, y_test)
    scores = _record_scores(evaluation, len(y_test))
    if classes is None:
        return FoldResult(scores, scores)
    class_scores = evaluation.score_inputs
    is_roc_auc = class_scores is not None and class_scores.shape.kind == "pairs"
    if is_roc_auc:
        return FoldResult(scores, scores - 0.5)
    hits = scores  # 1 if correct, otherwise 0; the known score for a constant prediction
    if class_scores is not None:
        hits = class_scores.record_values
    n_predicted = setup.metric.n_predicted_classes
    return FoldResult(scores, _subtract_chance(np.nan_to_num(hits), y_test, classes, n_predicted))


def _record_scores(evaluation, n):
    """Return the contribution of each of ``n`` records; their mean is the evaluation's value."""
    if evaluation.per_record is not None:
        return evaluation.per_record
    if evaluation.score_inputs is not None:
        return influence_values(evaluation.score_inputs)
    return np.full(n, evaluation.value)


def _subtract_chance(hits, labels, classes, n_predicted):
    """Return contributions of records to the mean hit rate of the classes minus that by chance.

    By chance the hit rates of all classes have a sum of at most ``n_predicted``: the number of
    classes that count as predicted for a record. A class without records has the hit rate 0, so
    that predictions of the other classes by chance gain nothing. ``hits``: 1 for a correct
    prediction, otherwise 0; for a constant prediction the known score of all records.
    """
    class_indices = np.searchsorted(classes, np.asarray(labels))
    hit_rate_contributions = class_mean_contributions(
        hits, class_indices, range(len(classes)), mean_without_records=0.0
    )
    return hit_rate_contributions - n_predicted / len(classes)


def _approximate_result(setup, model, X_test, y_test, classes):
    """Return the :class:`FoldResult` for a metric without a proven bound, or a traceback.

    Each record gets the score of the fold, in score units. With ``error_score="raise"`` an error is
    raised instead. ``classes``: sorted classes whose hit rates are compared with chance, or None.
    """
    metric = setup.metric
    predictions = None
    try:
        if metric.uses_predictions_only:
            predictions = metric.predictions(model, X_test, y_test)
        scores = np.full(len(y_test), metric.score_model(model, X_test, y_test))
        chance_corrected = scores
        if classes is not None:
            hits = np.asarray(model.predict(X_test)) == np.asarray(y_test)
            chance_corrected = _subtract_chance(
                hits.astype(float), y_test, classes, metric.n_predicted_classes
            )
    except Exception:  # of the model or of the user's function
        if setup.error_score == "raise":
            raise
        return traceback.format_exc()
    return FoldResult(scores, chance_corrected, predictions)


def influence_values(class_scores):
    """Return the contribution of each record to a score by class; their mean is the score.

    A contribution is the score plus the record's influence on it. For the area under the ROC curve
    the influence follows from the proportion of records of the other class that are ranked
    correctly relative to the record (DeLong et al. 1988). Without records of a class, its mean is
    0.5.

    Parameters
    ----------
    class_scores : ClassScores
        Score and class index of each record; NaN counts as the worst score.

    Returns
    -------
    ndarray of shape (n,)
        Contributions, in units of the score in [0, 1].
    """
    if class_scores.shape.kind != "pairs":
        counted_classes = class_scores.shape.counted_classes
        if counted_classes is None:
            counted_classes = range(len(class_scores.shape.classes))
        values = np.nan_to_num(class_scores.record_values)
        return class_mean_contributions(values, class_scores.class_index, counted_classes)
    is_positive = class_scores.class_index == 1
    worst_scores = np.where(is_positive, -np.inf, np.inf)
    record_scores = np.where(
        np.isnan(class_scores.record_values), worst_scores, class_scores.record_values
    )
    ranks = rankdata(record_scores)
    # Proportion of correctly ranked pairs of each record with records of the other class.
    win_rates = np.full(len(record_scores), 0.5)
    for in_class in (is_positive, ~is_positive):
        n_other_class = (~in_class).sum()
        if in_class.any() and n_other_class:
            n_lower_in_other_class = ranks[in_class] - rankdata(record_scores[in_class])
            win_rates[in_class] = n_lower_in_other_class / n_other_class
    win_rates[~is_positive] = 1.0 - win_rates[~is_positive]
    if not is_positive.any():
        return win_rates
    contributions = class_mean_contributions(win_rates, class_scores.class_index, (0, 1))
    # The rate of each class is the area. The mean of two rates has halved the influences.
    return 2.0 * contributions - win_rates[is_positive].mean()


def class_mean_contributions(values, class_indices, counted_classes, *, mean_without_records=0.5):
    """Return the contribution of each record to the unweighted mean of the means of some classes.

    Parameters
    ----------
    values : ndarray of shape (n,)
        Value of each record.
    class_indices : ndarray of shape (n,)
        Class index of each record.
    counted_classes : sequence of int
        Indices of the classes whose means are averaged.
    mean_without_records : float, default=0.5
        Mean of a class without records.

    Returns
    -------
    ndarray of shape (n,)
        The mean of the class means plus the record's influence on it. The mean of these is the mean
        of the class means.
    """
    n = len(values)
    contributions = np.zeros(n)
    for class_index in counted_classes:
        in_class = class_indices == class_index
        class_mean = values[in_class].mean() if in_class.any() else mean_without_records
        n_in_class = max(1, in_class.sum())
        contributions += class_mean
        contributions[in_class] += (values[in_class] - class_mean) * n / n_in_class
    return contributions / len(counted_classes)


def _report_failures(tracebacks, scored_subsets, has_baseline, setup):
    """Warn that subsets could not be fitted, or raise ValueError if none has a score.

    The baseline does not count, unless it is the only subset.
    ``tracebacks``: text for each subset that could not be fitted; ``has_baseline``: whether the
    first subset is the baseline; ``setup``: :class:`SearchSetup`.
    """
    text_column_names = text_columns(setup.X)
    text_columns_sentence = ""
    if text_column_names:
        text_columns_sentence = f" Columns that are not numbers: {text_column_names[:5]}."
    cause = "" if text_column_names else likely_cause(setup.X, setup.y, setup.estimator).strip()
    cause = cause or (
        "Missing values and text need a pipeline that begins with an imputer or encoder. Columns "
        "that the estimator names belong in fixed_features."
    )
    count_text = (
        f"{len(tracebacks)} of {len(scored_subsets)} subsets could not be fitted on the training "
        "set and were not verified."
    )
    error_text = first_error(tracebacks[-1])
    # Without the baseline, unless it is the only subset.
    compared_subsets = scored_subsets[has_baseline:] or scored_subsets
    if not any(math.isfinite(subset.cv_score) for subset in compared_subsets):
        error = ValueError(
            f"{count_text} The last error: {error_text}. {cause}{text_columns_sentence} The "
            "holdout was not queried."
        )
        error.add_note(tracebacks[-1])
        raise error
    warnings.warn(
        f"{error_text}\n{count_text} {cause}{text_columns_sentence} The last error:\n"
        f"{tracebacks[-1]}",
        FitFailedWarning,
        stacklevel=caller_level(),
    )


# -- choice of a subset ---------------------------------------------------------------------------


@dataclass(frozen=True)
class SubsetChoice:
    """Choice of a subset on the training set. Indices refer to the list of scored subsets."""

    chosen_index: int  # of the best subset on the training set
    constant_index: int | None  # of the subset without ranked features; None: none with a score
    #: Probability that the best of as many useless subsets gains as much; NaN if the constant or
    #: all other subsets have no score.
    p_value: float
    is_size_requested: bool  # whether the user requested a number of features
    #: Index of the subset to select if the gain of the chosen one is not confirmed: the fixed
    #: features, or the smallest other subset.
    fallback_index: int


def select_subset(scored_subsets, setup, *, tol, requested_size):
    """Return the :class:`SubsetChoice`; raise ValueError if no subset has a score.

    Parameters
    ----------
    scored_subsets : list of ScoredSubset
        Subsets of a path.
    setup : SearchSetup
        Training set, folds and metric.
    tol : float or "auto"
        Tolerance in score units, see :class:`HoldoutFeatureSelector`.
    requested_size : int, "stable" or None
        Number of feature groups to select: result of :meth:`FeatureGroups.n_to_select`.
    """
    cv_scores = np.array([subset.cv_score for subset in scored_subsets])
    sizes = np.array([len(subset.group_indices) for subset in scored_subsets])
    finite_indices = np.flatnonzero(np.isfinite(cv_scores)).tolist()
    constant_index = next(
        (index for index in finite_indices if scored_subsets[index].kind == "constant"), None
    )
    candidate_indices = [index for index in finite_indices if index != constant_index]
    is_size_requested = isinstance(requested_size, int)
    if not candidate_indices and constant_index is None:
        raise ValueError(
            f"scoring is undefined: {setup.metric.name} is NaN for all {len(scored_subsets)} "
            "subsets in cross-validation. Pass another metric. The holdout was not queried."
        )
    if not candidate_indices:
        return SubsetChoice(
            constant_index, constant_index, math.nan, is_size_requested, constant_index
        )
    if tol == "auto" and requested_size is None:
        cv_scores[candidate_indices] = _smooth(cv_scores[candidate_indices])
    # The smallest subset with the highest score. Stable features are chosen without a comparison.
    best_index = min(candidate_indices, key=lambda index: (-cv_scores[index], sizes[index]))
    last_index = candidate_indices[-1]
    if scored_subsets[last_index].kind == "stable":
        best_index = last_index
    chosen_index = best_index
    if tol != "auto" and requested_size is None:
        unit_tol = tol / (setup.metric.upper - setup.metric.lower)
        # 1e-12: a difference of 0.05 is within a tolerance of 0.05, despite rounding.
        min_score = cv_scores[best_index] - unit_tol - 1e-12
        chosen_index = _smallest_subset(candidate_indices, sizes, cv_scores, min_score)
    fallback_index = min(candidate_indices, key=lambda index: sizes[index])
    p_value = math.nan
    if constant_index is not None:
        p_value = _p_value_of_best(
            scored_subsets, candidate_indices, best_index, constant_index, setup
        )
        if scored_subsets[constant_index].columns:  # the fixed features alone
            fallback_index = constant_index
            if cv_scores[constant_index] >= cv_scores[chosen_index] and not is_size_requested:
                chosen_index = constant_index
    return SubsetChoice(chosen_index, constant_index, p_value, is_size_requested, fallback_index)


def _smallest_subset(candidate_indices, sizes, cv_scores, min_score):
    """Return the index of the smallest candidate subset with a score of at least ``min_score``.

    Of several the one with the highest score. ``sizes``, ``cv_scores``: of all subsets.
    """
    admitted_indices = [index for index in candidate_indices if cv_scores[index] >= min_score]
    return min(admitted_indices, key=lambda index: (sizes[index], -cv_scores[index]))


def _smooth(cv_scores):
    """Return moving averages of the scores of a path, with the weights 1/4, 1/2 and 1/4.

    Before the first score and after the last one, these are repeated.
    """
    previous_scores = np.r_[cv_scores[:1], cv_scores[:-1]]
    next_scores = np.r_[cv_scores[1:], cv_scores[-1:]]
    return (previous_scores + 2.0 * cv_scores + next_scores) / 4.0


def _correlated_folds_ratio(folds):
    """Return the factor by which shared training records increase the deviation of a mean score.

    It is the factor of the standard deviation of a cross-validated score (Nadeau and Bengio 2003,
    equation 14). ``folds``: training and test positions.
    """
    n_test = np.unique(np.concatenate([test for _, test in folds])).size
    mean_n_train = sum(len(train) for train, _ in folds) / len(folds)
    return math.sqrt(1.0 + n_test / mean_n_train)


def _p_value_of_best(scored_subsets, candidate_indices, best_index, constant_index, setup):
    """Return the probability that the best of useless subsets gains as much as the best subset.

    The gain is that over chance (``ScoredSubset.chance_corrected``) if it is not None, otherwise
    that over the constant. Gains are treated as jointly normal with the covariance of their
    per-record scores (Chernozhukov, Chetverikov and Kato 2013), or over the constant by a user's
    score function as in :func:`_p_value_of_folds`. The p-value is 1 if the best subset does not
    score higher than the constant. Indices refer to ``scored_subsets``.
    """
    best_subset = scored_subsets[best_index]
    constant_subset = scored_subsets[constant_index]
    candidates = [scored_subsets[index] for index in candidate_indices]
    if not best_subset.cv_score > constant_subset.cv_score:
        return 1.0
    if best_subset.chance_corrected is not None:
        gains = np.array([subset.chance_corrected for subset in candidates])
        deviation_ratio = _correlated_folds_ratio(setup.folds)
    elif isinstance(setup.metric, ApproximateMetric) and not setup.metric.uses_predictions_only:
        best_gains = best_subset.scores - constant_subset.scores
        return _p_value_of_folds(best_gains, setup.folds, len(candidates))
    else:
        gains = np.array([subset.scores - constant_subset.scores for subset in candidates])
        deviation_ratio = 1.0
    gains = gains[:, np.isfinite(gains).all(axis=0)]  # (n_candidates, n_records in test folds)
    best_gains = gains[candidate_indices.index(best_index)]
    # One record with a deviation of 1 is added, so that a few records without variance prove
    # nothing.
    variance = best_gains.var() + 1.0 / best_gains.size
    standard_error = math.sqrt(variance / min(best_gains.size, setup.n_effective))
    statistic = best_gains.mean() / standard_error / deviation_ratio
    return float(np.mean(_draw_largest_gains(gains) >= statistic))


def _draw_largest_gains(gains):
    """Return random draws of the largest standardized gain of useless subsets: (``_N_DRAWS``,).

    ``gains``: (n_subsets, n_records). Standardized gains are jointly normal with mean 0, variance 1
    (0 for a constant row) and the correlations of the rows of ``gains``.
    """
    standardized = gains - gains.mean(axis=1, keepdims=True)
    norms = np.sqrt((standardized**2).sum(axis=1, keepdims=True))
    standardized /= np.maximum(norms, 1e-12)
    eigenvalues, eigenvectors = np.linalg.eigh(standardized @ standardized.T)
    normal_draws = np.random.default_rng(0).standard_normal((_N_DRAWS, len(standardized)))
    draws = (normal_draws * np.sqrt(np.maximum(eigenvalues, 0.0))) @ eigenvectors.T
    return draws.max(axis=1)


def _p_value_of_folds(gains, folds, n_subsets):
    """Return the p-value of the best of ``n_subsets`` subsets from its mean gains in the folds.

    It is that of a one-sided t test (Nadeau and Bengio 2003) with Bonferroni's correction. It is 1
    with fewer than two folds, and without variation between folds: neither is evidence. ``gains``:
    of each training record, in [-1, 1]; the same for all records of a fold. A record in several
    test folds has the gain of the last one, and folds without a gain of their own are left out.
    """
    fold_of_record = np.full(gains.size, -1)
    for fold_index, (_, test) in enumerate(folds):
        fold_of_record[test] = fold_index
    fold_indices = np.unique(fold_of_record[fold_of_record >= 0])
    fold_gains = np.array([gains[fold_of_record == index].mean() for index in fold_indices])
    n_folds = fold_gains.size
    if not np.ptp(fold_gains) > 1e-12:  # also for undefined gains
        return 1.0
    n_train, n_test = np.mean([(len(folds[i][0]), len(folds[i][1])) for i in fold_indices], axis=0)
    # Nadeau and Bengio's equation 14: 1 / n_folds is that of independent folds.
    standard_error = fold_gains.std(ddof=1) * math.sqrt(1.0 / n_folds + n_test / n_train)
    p_value = float(student.sf(fold_gains.mean() / standard_error, n_folds - 1))
    return min(1.0, n_subsets * p_value)


# -- verification on the holdout ------------------------------------------------------------------


def clip_errors(scored_subsets, choice, setup, holdout_split, holdout):
    """Return the subsets and the metric, rescaled if a holdout of dates clips errors (theory G31).

    The clip is that of :func:`clip_errors_in_time` for the subset that ``choice`` (a
    :class:`SubsetChoice`) names. Without a clip both are returned unchanged.
    """

    def find_errors():
        """Return out-of-fold errors of the chosen subset in units of the target: (n_tested,).

        None for several outputs, and if the model cannot be fitted again.
        """
        chosen_subset = scored_subsets[choice.chosen_index]
        scores = chosen_subset.scores[np.isfinite(chosen_subset.scores)]
        errors = errors_of_scores(scores, setup.metric)
        if errors is not None:
            return errors
        X = select_columns(setup.X, chosen_subset.columns)
        groups = holdout_split.train_groups()
        return out_of_fold_errors(setup.estimator, CVData(X, setup.y, groups, setup.folds))

    metric = clip_errors_in_time(holdout, setup.metric, find_errors)
    if metric is setup.metric:
        return scored_subsets, metric
    # 1 - score is the error divided by the range. The result is exact, but for the side of a
    # pinball loss with the smaller weight. Any prediction of the holdout score is valid.
    range_ratio = (setup.metric.upper - setup.metric.lower) / (metric.upper - metric.lower)
    clipped_subsets = [
        replace(subset, scores=1.0 - np.minimum(range_ratio * (1.0 - subset.scores), 1.0))
        for subset in scored_subsets
    ]
    return clipped_subsets, metric


def verify_subsets(verifier, scored_subsets, choice, n_to_verify):
    """Return a :class:`CandidateQuery` of each subset; verify some of them.

    Parameters
    ----------
    verifier : Verifier or None
        Queries the holdout. None: no subset is verified.
    scored_subsets : list of ScoredSubset
        Subsets of a path.
    choice : SubsetChoice
        Choice on the training set.
    n_to_verify : int or "all"
        Number of subsets to verify: the chosen one as a batch of one query, and those with the next
        highest cross-validated scores in a second batch. The subset without ranked features is
        added to it if it has a score.
    """
    queries = [
        CandidateQuery(subset.columns, subset.cv_score, MissingAnswer("not asked"))
        for subset in scored_subsets
    ]
    cv_scores = np.array([subset.cv_score for subset in scored_subsets])
    finite_indices = np.flatnonzero(np.isfinite(cv_scores)).tolist()
    other_indices = set(finite_indices) - {choice.chosen_index, choice.constant_index}
    runners_up = sorted(other_indices, key=lambda index: -cv_scores[index])
    if n_to_verify != "all":
        runners_up = runners_up[: n_to_verify - 1]
    for indices in ([choice.chosen_index], [choice.constant_index, *runners_up]):
        verify_batch(verifier, scored_subsets, queries, indices)
    return queries


def verify_batch(verifier, scored_subsets, queries, indices):
    """Verify the subsets at some indices as one batch, and replace their items of ``queries``.

    Indices that are None, and those of subsets with an answer, are left out. If ``verifier`` is
    None, nothing is verified. ``queries``: :class:`CandidateQuery` of each subset.
    """
    verified_indices = {
        index for index, query in enumerate(queries) if not isinstance(query.answer, MissingAnswer)
    }
    new_indices = [index for index in indices if index not in {None, *verified_indices}]
    if new_indices and verifier is not None:

        def reference(position, name):
            """Return the :class:`TrainingReference` of a subset by its position in the batch.

            ``name``: of a secondary metric, here always None.
            """
            return training_reference(verifier, scored_subsets[new_indices[position]])

        new_queries = verifier.verify(
            [scored_subsets[index].columns for index in new_indices],
            [scored_subsets[index].cv_score for index in new_indices],
            references=reference,
        )
        for index, query in zip(new_indices, new_queries, strict=True):
            queries[index] = query


def training_reference(verifier, subset):
    """Return the :class:`TrainingReference` of a subset, for a metric without a proven bound.

    If the subset has no predictions, it contains the cross-validated score only, in score units.
    """
    setup = verifier.setup
    holdout = verifier.holdout
    if subset.predictions is None:
        return TrainingReference(score=float(setup.metric.from_unit(subset.cv_score)))
    unit_codes, no_interval_reason = setup.tested_units
    scheme = holdout.dependence.sampling_scheme(holdout.n)
    return setup.metric.training_reference(
        subset.predictions,
        unit_codes=unit_codes,
        no_interval_reason=no_interval_reason,
        n_holdout_units=n_independent_units(holdout.dependence, holdout.n),
        n_holdout_records=holdout.n,
        are_iid=scheme.has_iid_records,
    )


def is_gain_confirmed(queries, choice, *, is_verified):
    """Return whether the chosen subset's gain over the constant is confirmed.

    The test on the training set must be significant. With a holdout (``is_verified``) both subsets
    must also have an answer, and the smaller one of the chosen subset's cross-validated and
    verified scores must exceed the verified score of the constant. Without a p-value (NaN) the gain
    counts as confirmed if no constant has a score, or if the user requested a number of features.
    ``queries``: :class:`CandidateQuery` of each subset.
    """
    if math.isnan(choice.p_value):
        return choice.constant_index is None or choice.is_size_requested
    if not choice.p_value <= _ALPHA:
        return False
    if not is_verified:
        return True
    chosen_query = queries[choice.chosen_index]
    constant_answer = queries[choice.constant_index].answer
    are_answered = {chosen_query.answer.source, constant_answer.source} <= ANSWERED
    return are_answered and bool(chosen_query.smaller_score > constant_answer.value)


def is_gain_proven(queries, index, constant_index):
    """Return whether the interval of a subset lies above that of the constant.

    False if ``constant_index`` is None, and if one of the two has no interval. ``queries``:
    :class:`CandidateQuery` of each subset.
    """
    if constant_index is None:
        return False
    return bool(queries[index].answer.lower > queries[constant_index].answer.upper)


def path_table(scored_subsets, queries, selected_index, metric):
    """Return ``score_path_``: a dict of arrays with an entry per subset; scores in score units.

    ``queries``: :class:`CandidateQuery` of each subset; ``selected_index``: index of the selected
    subset.
    """
    features = np.empty(len(scored_subsets), dtype=object)
    features[:] = [subset.columns for subset in scored_subsets]
    cv_scores = np.array([query.cv_score for query in queries])
    return {
        "ranking": np.array([subset.ranking for subset in scored_subsets]),
        "n_features": np.array([len(subset.columns) for subset in scored_subsets]),
        "features": features,
        "cv_score": metric.from_unit(cv_scores),
        **answers_to_columns(metric, [query.answer for query in queries]),
        "selected": np.arange(len(scored_subsets)) == selected_index,
    }
