"""Dependence of the records: what the arguments hint at, what training-side scores show.

Everything here sees training records only, except that a hint may read the index of ``X``.
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
from sklearn_bdp.correlation import Groups
from sklearn_bdp.guards._answers import in_runs
from sklearn_bdp.guards._guard import Guard
from sklearn_bdp.metrics import get_metric

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

#: Groups in a holdout (as many as they are worth) below which cross-validation does better.
FEW_GROUPS = 100

#: About which score, and how many candidates, such a forecast speaks of.
USUAL_SCORE, USUAL_CANDIDATES = 0.8, 20

#: Half-width from which on a forecast of a metric by class is worth a warning.
WIDE = 0.2

#: No report, no scores.
_NOTHING = (None, None)

#: Records of a fold from which on their scores show dependence of neighbours.
SMALLEST_FOLD = 40


def check_folds(model, splits):
    """Raise where folds cut records that are declared to depend on each other."""
    if model is not None and any(model.cuts(train, test) for train, test in splits):
        raise CUT.error()


def compare_dependence(division, estimator, metric, score, *, groups=None, known=None):
    """Compare training-side scores of one candidate with the declared correlation; warn once.

    ``score(metric, folds)`` returns its cross-validated scores, NaN where it cannot be fitted.
    ``known`` are its scores from the inner cross-validation and the fold of each record; where they
    do not suit the check, the candidate is fitted again. Returns the report of the check that suits
    the correlation and the per-record scores behind it; None where there is none.
    """
    found = _compared(division, estimator, metric, score, groups, known)
    warn_of(division, found[0])
    return found


def _compared(division, estimator, metric, score, groups, known):
    """Return what :func:`compare_dependence` finds: of independent records, or of groups."""
    model, n = division.train_model, num_samples(division.X)
    declared = division.model if model is None else model
    classes = is_classifier(estimator)
    if declared.is_sequential or division.model.is_given_rest:
        return _NOTHING  # a strength that is declared is not tested; of others there is nothing to
    if get_tags(estimator).input_tags.pairwise or not (metric.is_mean or classes):
        return _NOTHING
    if not metric.is_mean:  # another score shows dependence in its place
        name = "neg_brier_score" if hasattr(estimator, "predict_proba") else "accuracy"
        metric, known = get_metric(name, estimator=estimator, y=division.y), None

    def scored():  # in folds drawn without regard to the order of rows: the tests stay exact
        mixed = KFold(min(3, n), shuffle=True, random_state=0)
        return score(metric, list(mixed.split(np.empty((n, 1)))))

    placed = division.places is not None and declared.is_independent
    if placed or (isinstance(model, Groups) and not model.is_independent):
        scores = scored() if known is None else known[0]
        return _beside(declared if placed else model, scores, estimator, division)
    by_class = classes and np.ndim(division.y) == 1 and in_runs(np.asarray(division.y))
    if by_class or not declared.is_independent:
        return _NOTHING
    return _in_row_order(division, scored, groups, known)


def _beside(model, scores, estimator, division):
    """Test that groups next to each other are independent, by scores and by signed residuals.

    Scores are less the mean of their class, so that a table sorted by class is no dependence.
    """
    if _seen(scores) is None or model.n_records not in (None, len(scores)):
        return _NOTHING
    kinds, places = [scores], division.places
    order = _original_order(division) if places is None else slice(None)
    if is_classifier(estimator) and np.ndim(division.y) == 1:
        labels = np.asarray(division.y)
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


def _in_row_order(division, scored, groups, known):
    """Test what independence promises: neither the order of the rows nor their groups matter."""
    order = _original_order(division)
    if groups is None and known is not None and _partitions(known[1]):
        scores, fold = (part[order] for part in known)
        found = correlation.check_independence(scores, folds=fold)
        if found.misfit or not correlation.check_independence(scores).misfit:
            return found, scores
        # The models of some folds may be worse: asked again where all rows have the same ones.
        mixed = _seen(scored()[order])
        return (found if mixed is None else correlation.check_independence(mixed)), scores
    scores = _seen(scored()[order])
    if scores is None:
        return _NOTHING
    whole = groups is not None and len(scores) == len(order)
    labels = np.asarray(groups)[order] if whole else None
    return correlation.check_independence(scores, groups=labels), scores


def _original_order(division):
    """Return the order in which the training rows came."""
    train = division.train
    return np.arange(num_samples(division.X)) if train is None else np.argsort(train, kind="stable")


def _seen(scores):
    """Return the scores of records that were tested, or None where there are hardly any."""
    scores = scores[~np.isnan(scores)]
    return scores if len(scores) >= 2 else None


def _partitions(fold):
    """Return whether every record is in a test fold, of enough records to be permuted."""
    return fold.min() >= 0 and np.bincount(fold).min() >= SMALLEST_FOLD


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
    if worth >= FEW_GROUPS and (metric.is_mean or fixed < WIDE):
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
