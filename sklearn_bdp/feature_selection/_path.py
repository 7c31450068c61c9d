"""Propose subsets on the training set, choose one and verify it on the holdout.

To choose features needs no test: cross-validation finds the best subset. Whether that subset is
better than a constant prediction is a separate question, which the holdout helps to answer.

The ranking is recomputed inside each fold. The cross-validated score of a subset that was ranked
on all training records would be too high: among 2,000 useless features, the ten best of 750
records "predict" with an accuracy of 0.7 in any fold of the same records.
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

from sklearn_bdp.evaluation.candidates import Assessment, Candidate, NoAnswer, columns_of, fit_fold
from sklearn_bdp.evaluation.scoring import released
from sklearn_bdp.feature_selection._rankings import text_columns
from sklearn_bdp.metrics.approximate import ApproximateMetric, Predictions, TrainingReference
from sklearn_bdp.metrics.error_clips import errors_of_scores
from sklearn_bdp.release.context import CVData
from sklearn_bdp.report.in_time import clip_errors_in_time
from sklearn_bdp.report.plan import out_of_fold_errors
from sklearn_bdp.utils.sklearn_compat import num_samples
from sklearn_bdp.utils.validation import caller_level

#: Level of the test against the constant prediction on the training set. The holdout has to score
#: the subset above the constant, too: it does so for every second useless subset.
LEVEL = 0.05
#: Draws behind its critical value.
_DRAWS = 4_000
#: Maximum number of classes for which predictions are compared with chance in each class.
_MANY_CLASSES = 10


@dataclass(frozen=True)
class Proposal:
    """Subset with its ranking and its cross-validated scores."""

    #: Name of the ranking, or ``"constant"`` for the subset that all others are compared with.
    ranking: str
    units: tuple  # chosen units, best first
    columns: tuple  # their columns with the fixed ones, sorted
    #: Cross-validated score of each training record (NaN for records in no test fold): their mean
    #: is the score in [0, 1]. For scores by class, the score of the record's fold plus the
    #: record's influence on it (:func:`influence_values`).
    scores: np.ndarray = field(repr=False)
    #: Hits of the predictions beyond chance, with equal weight for each class: 0 on average if the
    #: predictions are independent of the classes. ``None`` if subsets are compared with the
    #: constant prediction instead.
    chance_corrected: np.ndarray | None = field(default=None, repr=False)
    #: Pooled out-of-fold predictions, for a metric without a proven bound that reads predictions.
    predictions: Predictions | None = field(default=None, repr=False)

    @property
    def cv_score(self):
        """Return the cross-validated score in [0, 1]; NaN if a fit failed."""
        if not np.isfinite(self.scores).any():
            return math.nan
        return float(np.clip(np.nanmean(self.scores), 0.0, 1.0))  # rounding may leave [0, 1]


@dataclass(frozen=True)
class FoldResult:
    """Scores of one subset on the test records of a fold."""

    scores: np.ndarray  # of records, in [0, 1]; of a metric without a proven bound in score units
    chance_corrected: np.ndarray  # hits beyond chance
    predictions: Predictions | None = None


def score_subsets(setting, ranking, *, target, n_jobs):
    """Return the :class:`Proposal` list of a path, and the metric with its public range.

    The first proposal is the constant, if there is one.
    """
    n = num_samples(setting.X)
    univariate = ranking.univariate([*(train for train, _ in setting.folds), np.arange(n)])
    full_orders = _orders(ranking, target, np.arange(n), univariate[-1])
    has_baseline = _has_baseline(setting.estimator, ranking.units)
    subsets = [("constant", 0)] if has_baseline else []
    subsets += _ranked_subsets(ranking, target, full_orders, n)
    classes = _classes_with_chance(setting, ranking.units)
    workers_setting = replace(setting, X_holdout=None, y_holdout=None)  # workers need no holdout
    fold_results = Parallel(n_jobs=n_jobs)(
        delayed(_one_fold)(workers_setting, fold, ranking, target, scores, subsets, classes)
        for fold, scores in zip(setting.folds, univariate, strict=False)
    )
    proposals = []
    errors = []
    for (name, size), results in zip(subsets, zip(*fold_results, strict=True), strict=True):
        tracebacks = [result for result in results if isinstance(result, str)]
        errors += tracebacks[:1]
        chosen_units = tuple(full_orders[name][:size].tolist())
        columns = ranking.units.columns(chosen_units)
        unscored = np.full(n, math.nan)
        proposal = Proposal(name, chosen_units, columns, unscored, chance_corrected=unscored)
        if not tracebacks:
            proposal = _with_fold_results(proposal, setting.folds, results)
        if classes is None:
            proposal = replace(proposal, chance_corrected=None)
        proposals.append(proposal)
    if errors:
        _report_failures(errors, proposals, has_baseline, text_columns(setting.X))
    if not isinstance(setting.metric, ApproximateMetric):
        return proposals, setting.metric
    return _in_public_range(proposals, setting)


def _has_baseline(estimator, units):
    """Return whether there is a smallest model to compare with: fixed columns, or a constant."""
    return bool(units.fixed) or is_classifier(estimator) or is_regressor(estimator)


def _ranked_subsets(ranking, target, full_orders, n):
    """Return pairs of a ranking's name and a number of units, in the order of a path."""
    n_ranked = full_orders[ranking.name].size
    sizes = {min(size, n_ranked) for size in _path_sizes(target, len(ranking.units), n)} - {0}
    subsets = [(ranking.name, size) for size in sorted(sizes)]
    if target == "stable" and full_orders["stable"].size:
        subsets.append(("stable", n))
    return subsets


def _path_sizes(target, n_units, n):
    """Return the numbers of units on a path: each about 1.4 times the previous one.

    Up to all units, or ``n // 2`` of them if there are more units than records.
    """
    if target is not None:
        return {1 if target == "stable" else target}
    max_size = n_units if n_units <= n else max(1, n // 2)
    n_steps = int(2 * math.log2(max(1, max_size))) + 1
    sizes = {round(2 ** (step / 2)) for step in range(n_steps)}
    sizes = {size for size in sizes if size <= max_size}
    if max_size == n_units:
        sizes.add(max_size)
    return sizes


def _classes_with_chance(setting, units):
    """Return the classes in which predictions are compared with chance; None without them.

    Predictions are compared with chance if the constant prediction is a weak baseline: not with
    fixed features, which may predict the classes; not for regression or many classes; not for
    scores that are not hits (a probability).
    """
    labels = np.asarray(setting.y)
    has_hits = setting.metric.is_binary or not setting.metric.is_mean
    if not is_classifier(setting.estimator) or not has_hits or labels.ndim != 1 or units.fixed:
        return None
    unique_labels = np.unique(labels)
    return unique_labels if 2 <= len(unique_labels) <= _MANY_CLASSES else None


def _with_fold_results(proposal, folds, results):
    """Return a proposal with the scores of the test records of all folds."""
    scores = np.full(proposal.scores.size, math.nan)
    chance_corrected = np.full(proposal.scores.size, math.nan)
    predictions = []
    for (_, tested), result in zip(folds, results, strict=False):
        scores[tested] = result.scores
        chance_corrected[tested] = result.chance_corrected
        if result.predictions is not None:
            predictions.append(result.predictions)
    return replace(
        proposal,
        scores=scores,
        chance_corrected=chance_corrected,
        predictions=Predictions.concatenate(predictions) if predictions else None,
    )


def _in_public_range(proposals, setting):
    """Return proposals by a metric without a proven bound in [0, 1], and the metric.

    Its public range follows from the out-of-fold scores of all proposals.
    """
    scores = [
        proposal.scores
        if proposal.predictions is None
        else setting.metric.pooled(proposal.predictions).score
        for proposal in proposals
    ]
    metric = setting.metric.with_range(np.concatenate([np.ravel(score) for score in scores]))
    order = np.concatenate([tested for _, tested in setting.folds])
    return [
        replace(proposal, scores=_unit_scores(proposal, metric, score, order))
        for proposal, score in zip(proposals, scores, strict=True)
    ], metric


def _unit_scores(proposal, metric, score, order):
    """Return the scores of training records in [0, 1], by a metric with its public range.

    ``score``: of pooled predictions; ``order``: positions of the records in the test folds.
    """
    if proposal.predictions is None:
        return metric.to_unit(proposal.scores)
    values = np.full(proposal.scores.size, math.nan)
    if math.isfinite(score):
        values[order] = metric.record_values(
            proposal.predictions, metric.pooled(proposal.predictions)
        )
    return values


def _orders(ranking, target, rows, univariate):
    """Return the units in the order of each ranking; all units if ``target`` is a number."""
    return {
        "constant": np.empty(0, dtype=int),
        ranking.name: ranking.order(rows, univariate, filled=isinstance(target, int)),
        "stable": ranking.stable(rows) if target == "stable" else None,  # recomputed in each fold
    }


def _one_fold(setting, fold, ranking, target, univariate, subsets, classes):
    """Return the scores of the test fold for each subset: a ranking's name and a size."""
    orders = _orders(ranking, target, fold[0], univariate)
    columns_of_subset = [
        ranking.units.columns(orders[name][:size].tolist()) for name, size in subsets
    ]
    results = {
        columns: _score(setting, columns, fold, classes)
        for columns in dict.fromkeys(columns_of_subset)
    }
    return [results[columns] for columns in columns_of_subset]


def _score(setting, columns, fold, classes):
    """Return the :class:`FoldResult` of a test fold, or the traceback of a failed fit."""
    X = columns_of(setting.X, columns)  # columns before rows: wide data are not copied
    try:
        model, tested, labels = fit_fold(setting, Candidate(columns=columns), X, fold)
    except Exception:
        if setting.error_score == "raise":
            raise
        return traceback.format_exc()
    if isinstance(setting.metric, ApproximateMetric):
        return _approximate_score(setting, model, tested, labels, classes)
    evaluation = setting.metric.evaluate(model, tested, labels)
    scores = _record_scores(evaluation, len(labels))
    if classes is None:
        return FoldResult(scores, scores)
    class_scores = evaluation.by_class
    if class_scores is not None and class_scores.shape.kind == "pairs":
        return FoldResult(scores, scores - 0.5)
    hits = scores if class_scores is None else class_scores.record_values
    return FoldResult(scores, _beyond_chance(np.nan_to_num(hits), labels, classes))


def _record_scores(evaluation, n):
    """Return a score of each of n records, whose mean is the value of an evaluation."""
    if evaluation.per_record is not None:
        return evaluation.per_record
    if evaluation.by_class is not None:
        return influence_values(evaluation.by_class)
    return np.full(n, evaluation.value)


def _beyond_chance(hits, labels, classes):
    """Return hits beyond chance, with equal weight for each class; 0 on average by chance."""
    class_indices = np.searchsorted(classes, np.asarray(labels))
    return by_class(hits, class_indices, range(len(classes))) - 1.0 / len(classes)


def _approximate_score(setting, model, tested, labels, classes):
    """Return the result of a fold by a metric without a proven bound, in score units."""
    metric = setting.metric
    predictions = None
    try:
        if metric.uses_predictions_only:
            predictions = metric.predictions(model, tested, labels)
        scores = np.full(len(labels), metric.score_model(model, tested, labels))
        chance_corrected = scores
        if classes is not None:
            hits = np.asarray(model.predict(tested)) == np.asarray(labels)
            chance_corrected = _beyond_chance(hits.astype(float), labels, classes)
    except Exception:  # of the model or of the caller's function
        if setting.error_score == "raise":
            raise
        return traceback.format_exc()
    return FoldResult(scores, chance_corrected, predictions)


def influence_values(evaluation):
    """Return the contribution of each record to a score by class; their mean is the score.

    A contribution is the score plus the record's influence on it. For an area under the curve the
    influence follows from the proportion of records of the other class that the record is ranked
    correctly with (DeLong et al. 1988).
    """
    if evaluation.shape.kind != "pairs":
        counted = evaluation.shape.counted_classes
        if counted is None:
            counted = range(len(evaluation.shape.classes))
        return by_class(np.nan_to_num(evaluation.record_values), evaluation.class_index, counted)
    positive = evaluation.class_index == 1
    worst_scores = np.where(positive, -np.inf, np.inf)
    rows = np.where(np.isnan(evaluation.record_values), worst_scores, evaluation.record_values)
    ranks = rankdata(rows)
    win_rates = np.full(len(rows), 0.5)
    for in_class in (positive, ~positive):
        if 0 < in_class.sum() < len(in_class):
            win_rates[in_class] = (ranks[in_class] - rankdata(rows[in_class])) / (~in_class).sum()
    win_rates[~positive] = 1.0 - win_rates[~positive]
    if not positive.any():
        return win_rates
    return 2.0 * by_class(win_rates, evaluation.class_index, (0, 1)) - win_rates[positive].mean()


def by_class(hits, index, counted):
    """Return influence values of the unweighted mean of hit rates in the counted classes."""
    contributions = np.zeros(len(hits))
    for class_index in counted:
        in_class = index == class_index
        mean = hits[in_class].mean() if in_class.any() else 0.5
        contributions += mean
        contributions[in_class] += (hits[in_class] - mean) * len(hits) / max(1, in_class.sum())
    return contributions / len(counted)


def _report_failures(errors, proposals, has_baseline, text):
    """Warn once about subsets that could not be fitted, or raise if no other subset is left.

    ``has_baseline``: whether the first proposal is the one that all others are compared with;
    ``text``: names of columns that are not numeric.
    """
    cause = errors[-1].strip().rpartition("\n")[2]
    named = f" Columns that are not numbers: {text[:5]}." if text else ""
    message = (
        f"{cause}\n{len(errors)} of {len(proposals)} subsets could not be fitted on the training "
        "set and were not verified. Missing values and text need a pipeline that begins with an "
        "imputer or encoder. Columns that the estimator names belong in fixed_features."
        f"{named} The last error:\n{errors[-1]}"
    )
    if not any(
        math.isfinite(proposal.cv_score) for proposal in proposals[has_baseline:] or proposals
    ):
        raise ValueError(message)
    warnings.warn(message, FitFailedWarning, stacklevel=caller_level())


# -- choice of a subset ---------------------------------------------------------------------------


@dataclass(frozen=True)
class SubsetChoice:
    """Choice on the training set, by indices of the proposals."""

    chosen: int
    constant: int | None
    #: Probability that the best of as many useless subsets scores as high; NaN without a
    #: comparison.
    p_value: float
    is_size_requested: bool  # whether a number of features was requested
    baseline: int  # subset to hand on if none is distinguished from chance


def select_subset(proposals, setting, *, tol, target):
    """Return the :class:`SubsetChoice` by tolerance (score units or "auto") and number of units."""
    cv_scores = np.array([proposal.cv_score for proposal in proposals])
    sizes = np.array([len(proposal.units) for proposal in proposals])
    finite_indices = np.flatnonzero(np.isfinite(cv_scores)).tolist()
    constant = next(
        (index for index in finite_indices if proposals[index].ranking == "constant"), None
    )
    candidates = [index for index in finite_indices if index != constant]
    is_size_requested = isinstance(target, int)
    if not candidates:
        return SubsetChoice(constant, constant, math.nan, is_size_requested, constant)
    if tol == "auto" and target is None:
        cv_scores[candidates] = _smoothed(cv_scores[candidates])
    # Smallest subset at the highest score; stable features are chosen without a comparison.
    best = min(candidates, key=lambda index: (-cv_scores[index], sizes[index]))
    best = candidates[-1] if proposals[candidates[-1]].ranking == "stable" else best
    chosen = best
    if tol != "auto" and target is None:
        # A difference of 0.05 is within a tolerance of 0.05, despite rounding.
        min_score = cv_scores[best] - tol / (setting.metric.upper - setting.metric.lower) - 1e-12
        chosen = _smallest_subset(candidates, sizes, cv_scores, min_score)
    baseline = min(candidates, key=lambda index: sizes[index])  # the smallest subset
    p_value = math.nan
    if constant is not None:
        p_value = _p_value_of_best(proposals, candidates, best, constant, setting)
        if proposals[constant].columns:  # fixed features alone
            baseline = constant
            if cv_scores[constant] >= cv_scores[chosen] and not is_size_requested:
                chosen = constant
    return SubsetChoice(chosen, constant, p_value, is_size_requested, baseline)


def _smallest_subset(candidates, sizes, cv_scores, min_score):
    """Return the smallest candidate with at least this score; of equal ones the best."""
    good_enough = [index for index in candidates if cv_scores[index] >= min_score]
    return min(good_enough, key=lambda index: (sizes[index], -cv_scores[index]))


def _smoothed(cv_scores):
    """Return the scores of a path, each averaged with those of its neighbors.

    Neighbors on a path share most of their features, and a smoothed curve has a more reliable
    maximum: 0.766 instead of 0.759 on new records (eight informative of 2,000 features, 225
    records).
    """
    previous_scores = np.r_[cv_scores[:1], cv_scores[:-1]]
    next_scores = np.r_[cv_scores[1:], cv_scores[-1:]]
    return (previous_scores + 2.0 * cv_scores + next_scores) / 4.0


def overlap(folds):
    """Return the standard deviation of a cross-validated score relative to as many new records.

    The models of two folds were fitted on mostly the same records, so that features that fit these
    by chance rank first in both (Nadeau and Bengio 2003, equation 14): 1.5 for five folds.
    """
    tested = np.unique(np.concatenate([test for _, test in folds])).size
    trained = sum(len(train) for train, _ in folds) / len(folds)
    return math.sqrt(1.0 + tested / trained)


def _p_value_of_best(proposals, candidates, best, constant, setting):
    """Return the p-value of the best subset: how often the best of useless subsets gains as much.

    The gain is that of predictions over chance, if it is known (``Proposal.chance_corrected``),
    else the gain over the constant prediction. The constant is a weaker baseline, because its score
    on a few hundred labels varies by chance, too.

    The gains are treated as jointly normal with the covariance of their per-record scores
    (Chernozhukov, Chetverikov and Kato 2013): the scores of subsets of one path are strongly
    correlated, so that Bonferroni's correction loses too much power with a few hundred records.
    """
    constant_scores = proposals[constant].scores
    if not proposals[best].cv_score > proposals[constant].cv_score:
        return 1.0
    if proposals[best].chance_corrected is not None:
        gains = np.array([proposals[index].chance_corrected for index in candidates])
        deviation_ratio = overlap(setting.folds)
    elif isinstance(setting.metric, ApproximateMetric) and not setting.metric.uses_predictions_only:
        gains_of_best = proposals[best].scores - constant_scores
        return _p_value_of_folds(gains_of_best, setting.folds, len(candidates))
    else:
        gains = np.array([proposals[index].scores - constant_scores for index in candidates])
        deviation_ratio = 1.0
    gains = gains[:, np.isfinite(gains).all(axis=0)]
    best_gains = gains[candidates.index(best)]
    # The variance counts one more record, so that a few records without variance prove nothing.
    variance = (best_gains.var() + 1.0 / best_gains.size) / min(
        best_gains.size, setting.n_effective
    )
    statistic = best_gains.mean() / math.sqrt(variance) / deviation_ratio
    return float(np.mean(_largest_of_useless(gains) >= statistic))


def _largest_of_useless(gains):
    """Return draws of the largest standardized gain of as many useless subsets, as correlated."""
    centered = gains - gains.mean(axis=1, keepdims=True)
    centered /= np.maximum(np.sqrt((centered**2).sum(axis=1, keepdims=True)), 1e-12)
    values, vectors = np.linalg.eigh(centered @ centered.T)
    draws = np.random.default_rng(0).standard_normal((_DRAWS, len(centered)))
    draws = (draws * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    return draws.max(axis=1)


def _p_value_of_folds(gains, folds, n_subsets):
    """Return the p-value of the best subset from the scores of whole folds.

    A caller's function gives no scores of records: Student's test of the gains by fold (Nadeau and
    Bengio 2003), with Bonferroni's correction.
    """
    by_fold = np.array([np.mean(gains[tested]) for _, tested in folds])
    deviation = by_fold.std(ddof=1) / math.sqrt(by_fold.size) * overlap(folds)
    if not deviation > 0.0:
        return 0.0 if by_fold.mean() > 0.0 else 1.0
    return min(1.0, n_subsets * float(student.sf(by_fold.mean() / deviation, by_fold.size - 1)))


# -- verification on the holdout ------------------------------------------------------------------


def clip_errors(proposals, choice, setting, division, holdout):
    """Return proposals and the metric with the clip of errors in time (theory G31).

    Without such a clip both stay as they are.
    """

    def find_errors():
        chosen = proposals[choice.chosen]
        scores = chosen.scores[np.isfinite(chosen.scores)]
        errors = errors_of_scores(scores, setting.metric)
        if errors is not None:
            return errors
        X = columns_of(setting.X, chosen.columns)
        groups = division.train_groups()
        return out_of_fold_errors(setting.estimator, CVData(X, setting.y, groups, setting.folds))

    metric = clip_errors_in_time(holdout, setting.metric, find_errors)
    if metric is setting.metric:
        return proposals, metric
    # Exact, but for the cheaper side of a pinball loss: any prediction of the holdout is valid.
    ratio = (setting.metric.upper - setting.metric.lower) / (metric.upper - metric.lower)
    clipped_proposals = [
        replace(proposal, scores=1.0 - np.minimum(ratio * (1.0 - proposal.scores), 1.0))
        for proposal in proposals
    ]
    return clipped_proposals, metric


def verify_subsets(verifier, proposals, choice, n_to_verify):
    """Verify ``n_to_verify`` of the proposals, or all; return the assessment of each.

    The chosen subset is a batch of one query, before the constant: single queries get narrower
    intervals.
    """
    assessments = [
        Assessment(proposal.columns, proposal.cv_score, NoAnswer("not asked"))
        for proposal in proposals
    ]
    cv_scores = np.array([proposal.cv_score for proposal in proposals])
    remaining = set(np.flatnonzero(np.isfinite(cv_scores)).tolist()) - {
        choice.chosen,
        choice.constant,
    }
    runners_up = sorted(remaining, key=lambda index: -cv_scores[index])
    if n_to_verify != "all":
        runners_up = runners_up[: n_to_verify - 1]
    for indices in ([choice.chosen], [choice.constant, *runners_up]):
        verify_batch(verifier, proposals, assessments, indices)
    return assessments


def verify_batch(verifier, proposals, assessments, indices):
    """Verify some proposals as one batch, if there is a holdout; store their assessments."""
    verified = {
        index
        for index, assessment in enumerate(assessments)
        if not isinstance(assessment.answer, NoAnswer)
    }
    indices = [index for index in indices if index not in {None, *verified}]
    if indices and verifier is not None:

        def reference(row, name):
            return training_reference(verifier, proposals[indices[row]])

        batch = verifier.assess(
            [proposals[index].columns for index in indices],
            [proposals[index].cv_score for index in indices],
            references=reference,
        )
        for index, assessment in zip(indices, batch, strict=True):
            assessments[index] = assessment


def training_reference(verifier, proposal):
    """Return the reference from out-of-fold predictions, for a metric without a proven bound."""
    setting = verifier.setting
    holdout = verifier.holdout
    if proposal.predictions is None:
        return TrainingReference(score=float(setting.metric.from_unit(proposal.cv_score)))
    unit_codes, reason = setting.tested_units
    scheme = holdout.dependence.sampling_scheme(holdout.n)
    return setting.metric.training_reference(
        proposal.predictions,
        unit_codes=unit_codes,
        rule_out=reason,
        n_holdout_units=scheme.n_units,
        n_holdout_records=holdout.n,
        are_alike=scheme.has_alike_records,
    )


def judge_gain(assessments, choice, *, verified):
    """Return whether the gain of the chosen subset is confirmed, and whether it is proven.

    ``assessments``: of the proposals, with verified scores; ``verified``: whether the holdout was
    queried.
    """
    if math.isnan(choice.p_value):
        return choice.constant is None or choice.is_size_requested, False
    chosen = assessments[choice.chosen]
    constant = assessments[choice.constant].answer
    agreed = not verified or chosen.rank > constant.value
    is_confirmed = bool(choice.p_value <= LEVEL and agreed)
    is_proven = bool(chosen.answer.lower > constant.upper)
    return is_confirmed, is_proven


def path_table(proposals, assessments, chosen, metric):
    """Return ``score_path_``: one entry per subset in each array, in score units."""
    features = np.empty(len(proposals), dtype=object)
    features[:] = [proposal.columns for proposal in proposals]
    cv_scores = np.array([assessment.cv_score for assessment in assessments])
    return {
        "ranking": np.array([proposal.ranking for proposal in proposals]),
        "n_features": np.array([len(proposal.columns) for proposal in proposals]),
        "features": features,
        "cv_score": metric.from_unit(cv_scores),
        **released(metric, [assessment.answer for assessment in assessments]),
        "selected": np.arange(len(proposals)) == chosen,
    }
