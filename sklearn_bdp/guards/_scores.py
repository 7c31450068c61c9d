"""What scores show: dependence of the records, too few groups, a score that is not what it seems.

Everything here sees training records and released values only.
"""

import dataclasses
import math

import numpy as np
from sklearn.base import is_classifier
from sklearn.model_selection import KFold
from sklearn.utils import get_tags

from sklearn_bdp import correlation, exceptions
from sklearn_bdp._sklearn_compat import num_samples
from sklearn_bdp.accounting import score_tail
from sklearn_bdp.correlation import Groups, Independent
from sklearn_bdp.guards._guard import Guard
from sklearn_bdp.guards._rows import in_runs
from sklearn_bdp.metrics import get_metric

WIDE = Guard(
    "wide interval",
    "released values",
    "after the holdout answered",
    "{measured} of {of} is {score:.3g}, but its interval from {low:.3g} to {high:.3g} covers "
    "{share:.0%} of the range. Bring more than {count:,} holdout {units}, verify fewer candidates, "
    "or score a mean over records (scoring='accuracy' or 'neg_brier_score').",
    exceptions.VacuousGuaranteeWarning,
)
FALLEN = Guard(
    "fallen score",
    "released values",
    "after the holdout answered",
    "{measured} of {of} is {training:.3g} in cross-validation and {score:.3g} verified, with the "
    "interval from {low:.3g} to {high:.3g}. Chance does not explain the fall. Check that holdout "
    "records are complete, as each that the model cannot predict gets the worst score, that folds "
    "do not share patients, places or time, and that features do not know the target.",
    exceptions.FallenScoreWarning,
)
CLIPPED = Guard(
    "clipped score",
    "training set",
    "before the holdout is asked, or with its first answer",
    "{measured} differs from {name}: {of} is beyond the limit on {n_clipped:,} of {n:,} training "
    "records and scores {clipped:.4g} clipped, {plain:.4g} plain. Answers and intervals are about "
    "the clipped score. If the plain score matters: {remedy}.",
    exceptions.ClippedScoreWarning,
)
DEFAULT_METRIC = Guard(
    "default metric",
    "arguments",
    "when scoring is left out",
    "{note}.",
    exceptions.DefaultMetricWarning,
)
MISFIT = Guard(
    "dependence",
    "training set",
    "after cross-validation",
    "The declared correlation may be wrong. {found}.",
    exceptions.ModelMisfitWarning,
)
FEW = Guard(
    "few groups",
    "arguments",
    "before anything is fitted, once for each holdout and metric",
    "The holdout has {count} groups (patients, users, sites …), worth {worth:.0f} of equal size. "
    "They give {metric} near {score:.2g} to about ±{fixed:.2g} for one model fixed in advance, and "
    "to about ±{best:.2g} for the best of {candidates}. Nested cross-validation over all groups "
    "gives one number to about ±{nested:.2g}, and no second one. Bring more groups, or set "
    "holdout=0.5.",
    exceptions.VacuousGuaranteeWarning,
)
CUT = Guard(
    "folds across groups",
    "training set",
    "before anything is fitted",
    "cv cuts declared groups, so that cross-validated scores are too good. Leave cv=5, or pass "
    "GroupKFold() with groups=.",
    ValueError,
)
#: Part of its range that an interval covers to say nothing.
ALL = 0.9
#: Standard errors by which a cross-validated score may exceed its expectation by chance. The
#: interval holds the true score of all candidates with probability ``1 - beta``, so a false alarm
#: needs a cross-validated score of the chosen one that is so far too high: 1 in 740 for one
#: candidate, and about what the best of 400 equal ones reaches.
CHANCE = 3.0
#: Groups in a holdout (as many as they are worth) below which cross-validation does better.
FEW_GROUPS = 100
#: About which score, and how many candidates, such a forecast speaks of.
USUAL_SCORE, USUAL_CANDIDATES = 0.8, 20
#: Half-width from which on a forecast of a metric by class is worth a warning.
WIDE_BY_CLASS = 0.2
#: Records of a fold from which on their scores show dependence of neighbours.
SMALLEST_FOLD = 40


def compare_dependence(division, estimator, metric, score, *, groups=None, known=None):
    """Compare training-side scores of one candidate with the declared correlation; warn once.

    ``score(metric, folds)`` returns its cross-validated scores, NaN where it cannot be fitted.
    ``known`` are its scores from the inner cross-validation and the fold of each record; where they
    do not suit the check, the candidate is fitted again. Returns the report of the check that suits
    the correlation and the per-record scores behind it; None where there is none.
    """
    model, train, n = division.train_model, division.train, num_samples(division.X)
    declared = division.model if model is None else model
    placed = division.places is not None and declared.is_independent
    in_groups = placed or (isinstance(model, Groups) and not model.is_independent)
    classes = is_classifier(estimator)
    labels = np.asarray(division.y) if classes and np.ndim(division.y) == 1 else None
    found = None, None
    if (
        (in_groups or (declared.is_independent and not (labels is not None and in_runs(labels))))
        # A strength that is declared is not tested; given the rest there is nothing to test.
        and not (declared.is_sequential or division.model.is_given_rest)
        and (metric.is_mean or classes)
        and not get_tags(estimator).input_tags.pairwise
    ):
        if not metric.is_mean:  # another score shows dependence in its place
            name = "neg_brier_score" if hasattr(estimator, "predict_proba") else "accuracy"
            metric, known = get_metric(name, estimator=estimator, y=division.y), None

        def scored():  # in folds drawn without regard to the order of rows: the tests stay exact
            mixed = KFold(min(3, n), shuffle=True, random_state=0)
            return score(metric, list(mixed.split(np.empty((n, 1)))))

        # In which the training rows came.
        order = np.arange(n) if train is None else np.argsort(train, kind="stable")
        if in_groups:
            scores = scored() if known is None else known[0]
            places = division.places
            found = _of_groups(declared if placed else model, scores, labels, order, places)
        else:
            found = _in_row_order(scored, order, groups, known)
    warn_of(division, found[0])
    return found


def _of_groups(model, scores, labels, order, places):
    """Test that groups next to each other are independent, by scores and by signed residuals.

    Scores are less the mean of their class, so that a table sorted by class is no dependence.
    """
    if _seen(scores) is None or model.n_records not in (None, len(scores)):
        return None, None
    kinds, order = [scores], order if places is None else slice(None)
    if labels is not None:
        kinds, ordered = [_less_means(scores, labels)], labels[order]
        # Groups of about one class each stand class after class in many tables.
        if places is not None or np.count_nonzero(ordered[1:] != ordered[:-1]) >= len(model.sizes_):
            kinds.append(_residuals(scores, labels))
    codes = model.components(len(scores))[order]
    found = correlation.check_groups(np.transpose(kinds)[order], codes, coordinates=places)
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
        found = correlation.check_independence(scores, folds=fold[order])
        if found.misfit or not correlation.check_independence(scores).misfit:
            return found, scores
        # The models of some folds may be worse: asked again where all rows have the same ones.
        mixed = _seen(scored()[order])
        return (found if mixed is None else correlation.check_independence(mixed)), scores
    scores = _seen(scored()[order])
    if scores is None:
        return None, None
    whole = groups is not None and len(scores) == len(order)
    labels = np.asarray(groups)[order] if whole else None
    return correlation.check_independence(scores, groups=labels), scores


def _seen(scores):
    """Return the scores of records that were tested, or None where there are hardly any."""
    scores = scores[~np.isnan(scores)]
    return scores if len(scores) >= 2 else None


def warn_few_groups(holdout, division, metric):
    """Say before anything is fitted what few groups can tell, and what does better."""
    model, train = division.model, division.train_model
    if not isinstance(model, Groups) or model.is_independent or metric in holdout.account.warned:
        return
    holdout.account.warned.append(metric)
    worth = model.effective_n(holdout.n)
    learned = 1.0 if train is None else train.effective_n(num_samples(division.X))
    asked = {"score": USUAL_SCORE, "scoring": None if metric.is_mean else metric}
    try:
        best = holdout.preview(USUAL_CANDIDATES, training_size=learned, **asked).half_width
    except exceptions.HoldoutClosedError:  # there are no other answers to forecast
        return
    tail = score_tail(model, holdout.n, **dataclasses.asdict(metric.expected_shape(holdout.n)))
    fixed = USUAL_SCORE - float(tail.lower_limit(USUAL_SCORE, math.log(holdout.beta / 2.0)))
    if worth >= FEW_GROUPS and (metric.is_mean or fixed < WIDE_BY_CLASS):
        return
    scale = metric.upper - metric.lower
    nested = 1.96 * math.sqrt(USUAL_SCORE * (1.0 - USUAL_SCORE) / (worth + learned))
    FEW.warn(
        count=len(model.sizes_), worth=worth, candidates=USUAL_CANDIDATES,
        fixed=scale * min(fixed, best), metric=metric.name,
        score=metric.from_unit(USUAL_SCORE), best=scale * best, nested=scale * nested,
    )  # fmt: skip


def warn_of(division, report=None):
    """Give one warning of everything that speaks against the declared correlation."""
    found = "" if report is None else report.message
    sentences = [*division.hints, *([found[0].upper() + found[1:]] if found else [])]
    if sentences:
        MISFIT.warn(found=". ".join(sentences))


def warn_of_choice(holdout, metric, division, *, of, score, interval, training, clipping=None):
    """Warn where hardly anything is known of what was chosen, or its score is not what it seems.

    Everything here is released or of the training side. Of a holdout that is too small, or of few
    groups, it was said before.
    """
    warn_clipped(metric, clipping, of)
    model, (low, high), span = holdout.model, interval, metric.upper - metric.lower
    known = {"measured": metric.measured, "of": of, "score": score, "low": low, "high": high}
    if training > high:
        n, of_training = num_samples(division.X), division.train_model
        of_training = Independent() if of_training is None else of_training
        tail = score_tail(of_training, n, **dataclasses.asdict(metric.expected_shape(n)))
        unit = min(1.0, max(0.0, metric.to_unit(training)))
        if training - CHANCE * span * float(tail.standard_deviation(unit)) > high:
            FALLEN.warn(training=training, **known)
    share = (high - low) / span
    warned = holdout.is_small or (isinstance(model, Groups) and not model.is_independent)
    if not math.isfinite(score) or share < ALL or warned:
        return
    count, units = model.units(holdout.n)
    WIDE.warn(share=min(1.0, share), count=count, units=units, **known)


def warn_clipped(metric, clipping, of):
    """Say what clipping changes on the training side, and what to do; return whether it does."""
    if clipping is None or not clipping.bites:
        return False
    CLIPPED.warn(
        measured=metric.measured, name=metric.name, of=of, n_clipped=clipping.n_clipped,
        n=clipping.n, clipped=clipping.clipped / clipping.n, plain=clipping.plain / clipping.n,
        remedy=metric.remedy,
    )  # fmt: skip
    return True
