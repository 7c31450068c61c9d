"""Subsets that the training side proposes, the one that it chooses, and what the holdout says.

To choose features needs no test: cross-validation says which subset is best. Whether the result is
better than a constant prediction is the other question, and the holdout has a say in it.

The ranking is computed anew inside each fold. A subset that was ranked on all training records
and then cross-validated would look better than it is: among 2,000 useless features, the ten best
of 750 records "predict" with an accuracy of .7 in any fold of the same records.
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
from sklearn_bdp.utils.sklearn_compat import num_samples
from sklearn_bdp.utils.validation import caller_level

#: Level at which the training side speaks against the constant prediction. The holdout has to
#: score the subset above it, too: a useless one does so in every second case.
LEVEL = 0.05
#: Draws behind its critical value.
_DRAWS = 4_000
#: Classes up to which scores are looked at with every label.
_MANY_CLASSES = 10


@dataclass(frozen=True)
class Proposal:
    """A subset, who proposed it, and what the training side says of it."""

    #: Name of the ranking, or ``"constant"`` for the subset that everything is compared with.
    ranking: str
    chosen: tuple  # units, best first
    columns: tuple  # their columns with the fixed ones, sorted
    #: Cross-validated score of each training record (NaN where it was in no test fold): their mean
    #: is the score in [0, 1]. Of scores by class each is the score of its fold, moved by what the
    #: record contributes to it (:func:`influence_values`).
    scores: np.ndarray = field(repr=False)
    #: The same for what predictions know of the classes, all counted alike: 0 on average where that
    #: is nothing. ``None`` where the constant prediction is the rival (:func:`_classes`).
    beyond: np.ndarray | None = field(default=None, repr=False)
    #: Pooled out-of-fold predictions, for a metric without a proven bound that reads predictions.
    predictions: Predictions | None = field(default=None, repr=False)

    @property
    def training(self):
        """Return the training-side score in [0, 1]; NaN where a fit failed."""
        if not np.isfinite(self.scores).any():
            return math.nan
        return float(np.clip(np.nanmean(self.scores), 0.0, 1.0))  # but for rounding


@dataclass(frozen=True)
class FoldResult:
    """What one subset scored on the records that test a fold."""

    scores: np.ndarray  # of records, in [0, 1]; of a metric without a proven bound in score units
    beyond: np.ndarray  # what predictions know beyond chance
    predictions: Predictions | None = None


def propose(setting, ranking, *, target, n_jobs):
    """Return the :class:`Proposal` list of a path, and the metric with its public range.

    The first proposal is the constant, if there is one.
    """
    units, n, stable = ranking.units, num_samples(setting.X), target == "stable"

    univariate = ranking.univariate([*(train for train, _ in setting.folds), np.arange(n)])
    whole, most = _orders(ranking, target, np.arange(n), univariate[-1]), len(units)
    sizes = {1 if stable else target}
    if target is None:  # each about half as large again, to all units or half as many as records
        most = most if most <= n else max(1, n // 2)
        sizes = {round(2 ** (step / 2)) for step in range(int(2 * math.log2(max(1, most))) + 1)}
        sizes = {size for size in sizes if size <= most} | ({most} if most == len(units) else set())
    # The smallest model to compare with: fixed columns, or none.
    classifier = is_classifier(setting.estimator)
    bare = bool(units.fixed) or classifier or is_regressor(setting.estimator)
    plans = [("constant", 0)] if bare else []
    known = whole[ranking.name].size
    plans += [(ranking.name, size) for size in sorted({min(size, known) for size in sizes} - {0})]
    plans += [("stable", n)] if stable and whole["stable"].size else []
    # Whether predictions know anything of the classes at all is asked where the constant prediction
    # is a poor rival: not beside fixed features, which may know of them; not for numbers or many
    # classes; nor of scores that are no hits (a probability).
    labels, classes = np.asarray(setting.y), None
    hits = setting.metric.is_binary or not setting.metric.is_mean
    if classifier and hits and labels.ndim == 1 and not units.fixed:
        found = np.unique(labels)
        classes = found if 2 <= len(found) <= _MANY_CLASSES else None
    shown = replace(setting, X_holdout=None, y_holdout=None)  # workers need no holdout
    done = Parallel(n_jobs=n_jobs)(
        delayed(_one_fold)(shown, fold, ranking, target, scores, plans, classes)
        for fold, scores in zip(setting.folds, univariate, strict=False)
    )
    proposals, errors = [], []
    for (name, size), found in zip(plans, zip(*done, strict=True), strict=True):
        failed = [one for one in found if isinstance(one, str)]
        errors += failed[:1]
        scores = np.full(n, math.nan)
        beyond = np.full(n, math.nan)
        predictions = []
        for (_, tested), result in zip(setting.folds, [] if failed else found, strict=False):
            scores[tested] = result.scores
            beyond[tested] = result.beyond
            if result.predictions is not None:
                predictions.append(result.predictions)
        chosen = tuple(whole[name][:size].tolist())
        proposals.append(
            Proposal(
                name,
                chosen,
                units.columns(chosen),
                scores,
                beyond=None if classes is None else beyond,
                predictions=Predictions.concatenate(predictions) if predictions else None,
            )
        )
    if errors:
        _report_failures(errors, proposals, bare, text_columns(setting.X))
    if not isinstance(setting.metric, ApproximateMetric):
        return proposals, setting.metric
    return _in_public_range(proposals, setting)


def _in_public_range(proposals, setting):
    """Return proposals by a metric without a proven bound in [0, 1], and the metric.

    Its public range follows from the out-of-fold scores of all proposals.
    """
    order = np.concatenate([tested for _, tested in setting.folds])
    known = [proposal.predictions is not None for proposal in proposals]
    scores = [
        setting.metric.pooled(proposal.predictions).score if is_known else proposal.scores
        for proposal, is_known in zip(proposals, known, strict=True)
    ]
    metric = setting.metric.with_range(np.concatenate([np.ravel(score) for score in scores]))
    ranged = []
    for proposal, score, is_known in zip(proposals, scores, known, strict=True):
        values = metric.to_unit(proposal.scores)
        if is_known and math.isfinite(score):
            values = np.full(proposal.scores.size, math.nan)
            values[order] = metric.record_values(
                proposal.predictions, metric.pooled(proposal.predictions)
            )
        elif is_known:
            values = np.full(proposal.scores.size, math.nan)
        ranged.append(replace(proposal, scores=values))
    return ranged, metric


def _orders(ranking, target, rows, univariate):
    """Return the units in the order of each name; all of them if a number was asked for."""
    return {
        "constant": np.empty(0, dtype=int),
        ranking.name: ranking.order(rows, univariate, filled=isinstance(target, int)),
        "stable": ranking.stable(rows) if target == "stable" else None,  # each fold has its own
    }


def _one_fold(setting, fold, ranking, target, univariate, plans, classes):
    """Return what records of the test fold score, for each plan."""
    orders = _orders(ranking, target, fold[0], univariate)
    subsets = [ranking.units.columns(orders[name][:size].tolist()) for name, size in plans]
    known = {one: _score(setting, one, fold, classes) for one in dict.fromkeys(subsets)}
    return [known[one] for one in subsets]


def _score(setting, columns, fold, classes):
    """Return scores of the test fold, and beyond chance, or the traceback of a failed fit."""
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
    own, made = evaluation.per_record, evaluation.by_class
    if own is None:
        own = np.full(len(labels), evaluation.value) if made is None else influence_values(made)
    if classes is None:
        return FoldResult(own, own)
    if made is not None and made.shape.kind == "pairs":
        return FoldResult(own, own - 0.5)
    hits = own if made is None else made.rows
    return FoldResult(own, _beyond_chance(np.nan_to_num(hits), labels, classes))


def _beyond_chance(hits, labels, classes):
    """Return what hits know of the classes, all counted alike; 0 on average by chance."""
    places = np.searchsorted(classes, np.asarray(labels))
    return by_class(hits, places, range(len(classes))) - 1.0 / len(classes)


def _approximate_score(setting, model, tested, labels, classes):
    """Return the result of a fold by a metric without a proven bound, in score units."""
    metric, predictions = setting.metric, None
    try:
        if metric.by_predictions:
            predictions = metric.predictions(model, tested, labels)
        scores = np.full(len(labels), metric.score_model(model, tested, labels))
        beyond = scores
        if classes is not None:
            hits = np.asarray(model.predict(tested)) == np.asarray(labels)
            beyond = _beyond_chance(hits.astype(float), labels, classes)
    except Exception:  # of the model or of the caller's function
        if setting.error_score == "raise":
            raise
        return traceback.format_exc()
    return FoldResult(scores, beyond, predictions)


def influence_values(made):
    """Return what each record contributes to a score by class; their mean is the score.

    The score, and how far the record moves it (its influence): for an area under the curve its
    share of the records of the other class that it is ranked rightly with (DeLong et al. 1988).
    """
    if made.shape.kind != "pairs":
        counted = made.shape.counted
        places = range(len(made.shape.classes)) if counted is None else counted
        return by_class(np.nan_to_num(made.rows), made.index, places)
    positive = made.index == 1
    worst = np.where(positive, -np.inf, np.inf)
    rows = np.where(np.isnan(made.rows), worst, made.rows)
    ranks, won = rankdata(rows), np.full(len(rows), 0.5)
    for own in (positive, ~positive):
        if 0 < own.sum() < len(own):
            won[own] = (ranks[own] - rankdata(rows[own])) / (~own).sum()
    won[~positive] = 1.0 - won[~positive]
    return 2.0 * by_class(won, made.index, (0, 1)) - won[positive].mean() if positive.any() else won


def by_class(hits, index, counted):
    """Return influence_values to the mean hits of the classes that are counted, each alike."""
    found = np.zeros(len(hits))
    for one in counted:
        own = index == one
        mean = hits[own].mean() if own.any() else 0.5
        found += mean
        found[own] += (hits[own] - mean) * len(hits) / max(1, own.sum())
    return found / len(counted)


def _report_failures(errors, proposals, bare, text):
    """Warn once of subsets that could not be fitted, or raise if no other one is left.

    ``bare``: whether the first proposal is the one that all others are compared with; ``text``:
    names of columns that are no numbers.
    """
    cause = errors[-1].strip().rpartition("\n")[2]
    named = f" Columns that are not numbers: {text[:5]}." if text else ""
    message = (
        f"{cause}\n{len(errors)} of {len(proposals)} subsets could not be fitted on the training "
        "set and were not verified. Missing values and text need a pipeline that begins with an "
        "imputer or encoder. Columns that the estimator names belong in fixed_features."
        f"{named} The last error:\n{errors[-1]}"
    )
    if not any(math.isfinite(proposal.training) for proposal in proposals[bare:] or proposals):
        raise ValueError(message)
    warnings.warn(message, FitFailedWarning, stacklevel=caller_level())


# -- which subset is chosen -----------------------------------------------------------------------


@dataclass(frozen=True)
class Choice:
    """What the training side chose; places are those of the proposals."""

    chosen: int
    constant: int | None
    #: How often the luckiest of so many useless subsets gets as far; NaN without a comparison.
    luck: float
    asked: bool  # whether a number of features was asked for
    baseline: int  # what is handed on where nothing is told from chance


def choose(proposals, setting, *, tol, target):
    """Return the :class:`Choice`; ``tol`` in score units or "auto", ``target`` units or a word."""
    levels = np.array([one.training for one in proposals])
    sizes = np.array([len(one.chosen) for one in proposals])
    places = np.flatnonzero(np.isfinite(levels)).tolist()
    constant = next((p for p in places if proposals[p].ranking == "constant"), None)
    others, asked = [p for p in places if p != constant], isinstance(target, int)
    if not others:
        return Choice(constant, constant, math.nan, asked, constant)
    if tol == "auto" and target is None:
        # Neighbours on a path share most of their features, and the maximum of a smooth curve is
        # found more surely: .766 instead of .759 on fresh records (eight true of 2,000 features,
        # 225 records).
        own = levels[others]
        levels[others] = (np.r_[own[:1], own[:-1]] + 2.0 * own + np.r_[own[1:], own[-1:]]) / 4.0
    # Smallest one at the highest level; stable features are chosen as they are.
    best = min(others, key=lambda place: (-levels[place], sizes[place]))
    best = others[-1] if proposals[others[-1]].ranking == "stable" else best
    chosen, luck = best, math.nan
    if tol != "auto" and target is None:
        # A difference of .05 is within a tolerance of .05 however it is rounded.
        least = levels[best] - tol / (setting.metric.upper - setting.metric.lower) - 1e-12
        near = [place for place in others if levels[place] >= least]
        chosen = min(near, key=lambda place: (sizes[place], -levels[place]))
    baseline = min(others, key=lambda place: sizes[place])  # the one best
    if constant is not None:
        luck = _luck(proposals, others, best, constant, setting)
        if proposals[constant].columns:  # fixed features alone
            baseline = constant
            chosen = constant if levels[constant] >= levels[chosen] and not asked else chosen
    return Choice(chosen, constant, luck, asked, baseline)


def overlap(folds):
    """Return how much wider a cross-validated score spreads than scores of as many fresh records.

    The models of two folds were fitted on mostly the same records, and what was lucky there is
    ranked first in both (Nadeau and Bengio 2003, equation 14): 1.5 for five folds.
    """
    tested = np.unique(np.concatenate([test for _, test in folds])).size
    trained = sum(len(train) for train, _ in folds) / len(folds)
    return math.sqrt(1.0 + tested / trained)


def _luck(proposals, places, best, constant, setting):
    """Return how often the luckiest of these subsets gets as far if all of them are worth nothing.

    The question is whether the best subset's predictions know anything of the classes, where that
    is known (``Proposal.beyond``), else whether they score better than the constant: a poor
    yardstick, because it hits more or less of a few hundred labels by luck of its own.

    The gains are treated as jointly normal with the covariance of their per-record scores
    (Chernozhukov, Chetverikov and Kato 2013): subsets of one path share most of their records'
    fates, so that Bonferroni's correction asks too much of a few hundred records.
    """
    least = proposals[constant].scores
    if not proposals[best].training > proposals[constant].training:
        return 1.0
    alone = proposals[best].beyond is None
    if (
        alone
        and isinstance(setting.metric, ApproximateMetric)
        and not setting.metric.by_predictions
    ):
        return _luck_of_folds(proposals[best].scores - least, setting.folds, len(places))
    gains = [
        proposals[place].scores - least if alone else proposals[place].beyond for place in places
    ]
    gains = np.array(gains)
    gains = gains[:, np.isfinite(gains).all(axis=0)]
    own = gains[places.index(best)]
    # As if one more record changed sides, so that a few lucky ones are no certainty.
    variance = (own.var() + 1.0 / own.size) / min(own.size, setting.n_effective)
    ahead = own.mean() / math.sqrt(variance) / (1.0 if alone else overlap(setting.folds))
    gains = gains - gains.mean(axis=1, keepdims=True)
    gains /= np.maximum(np.sqrt((gains**2).sum(axis=1, keepdims=True)), 1e-12)
    values, vectors = np.linalg.eigh(gains @ gains.T)
    draws = np.random.default_rng(0).standard_normal((_DRAWS, len(gains)))
    draws = (draws * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    return float(np.mean(draws.max(axis=1) >= ahead))


def _luck_of_folds(gains, folds, n_subsets):
    """Return how often the best of some useless subsets gains as much, from the scores of folds.

    Of a caller's function nothing but its scores of whole folds is known: Student's test of their
    gains (Nadeau and Bengio 2003), with Bonferroni's correction.
    """
    by_fold = np.array([np.mean(gains[tested]) for _, tested in folds])
    deviation = by_fold.std(ddof=1) / math.sqrt(by_fold.size) * overlap(folds)
    if not deviation > 0.0:
        return 0.0 if by_fold.mean() > 0.0 else 1.0
    return min(1.0, n_subsets * float(student.sf(by_fold.mean() / deviation, by_fold.size - 1)))


# -- what the holdout says ------------------------------------------------------------------------


def verify(verifier, proposals, choice, most):
    """Put ``most`` of the proposals, or all, to the holdout; return what is known of each.

    The chosen subset is asked alone, before the constant: lone queries get narrower intervals.
    """
    found = [Assessment(one.columns, one.training, NoAnswer("not asked")) for one in proposals]
    training = np.array([one.training for one in proposals])
    left = set(np.flatnonzero(np.isfinite(training)).tolist()) - {choice.chosen, choice.constant}
    rest = sorted(left, key=lambda place: -training[place])
    rest = rest if most == "all" else rest[: most - 1]
    for places in ([choice.chosen], [choice.constant, *rest]):
        ask(verifier, proposals, found, places)
    return found


def ask(verifier, proposals, found, places):
    """Put some proposals to the holdout, if there is one, as one batch; enter what it says."""
    known = {place for place, one in enumerate(found) if not isinstance(one.answer, NoAnswer)}
    places = [place for place in places if place not in {None, *known}]
    if places and verifier is not None:
        training = [proposals[place].training for place in places]

        def reference(row, name):
            return training_reference(verifier, proposals[places[row]])

        asked = verifier.assess(
            [proposals[place].columns for place in places], training, references=reference
        )
        for place, answer in zip(places, asked, strict=True):
            found[place] = answer


def training_reference(verifier, proposal):
    """Return what out-of-fold predictions of a subset say of a metric without a proven bound."""
    setting, holdout = verifier.setting, verifier.holdout
    if proposal.predictions is None:
        return TrainingReference(score=float(setting.metric.from_unit(proposal.training)))
    unit_codes, reason = setting.tested_units
    return setting.metric.training_reference(
        proposal.predictions,
        unit_codes=unit_codes,
        rule_out=reason,
        n_holdout_units=holdout.dependence.units(holdout.n)[0],
        n_holdout_records=holdout.n,
    )


def judge(found, choice, *, verified):
    """Return whether the chosen subset helps, as far as is known, and is proved to.

    ``found``: what was released of the proposals; ``verified``: whether the holdout was asked.
    """
    if math.isnan(choice.luck):
        return choice.constant is None or choice.asked, False
    best, constant = found[choice.chosen], found[choice.constant].answer
    agreed = not verified or best.rank > constant.value
    return bool(choice.luck <= LEVEL and agreed), bool(best.answer.lower > constant.upper)


def path_table(proposals, found, chosen, metric):
    """Return ``score_path_``: one entry per subset in each array, in score units."""
    features = np.empty(len(proposals), dtype=object)
    features[:] = [one.columns for one in proposals]
    return {
        "ranking": np.array([one.ranking for one in proposals]),
        "n_features": np.array([len(one.columns) for one in proposals]),
        "features": features,
        "training_score": metric.from_unit(np.array([one.training for one in found])),
        **released(metric, [one.answer for one in found]),
        "selected": np.arange(len(proposals)) == chosen,
    }
