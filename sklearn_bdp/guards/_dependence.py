"""Dependence of the records: what the arguments hint at, what training-side scores show.

Everything here sees training records only, except that a hint may read the index of ``X``.
"""

import dataclasses
import math

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils import get_tags

from sklearn_bdp._sklearn_compat import num_samples
from sklearn_bdp.accounting import score_tail
from sklearn_bdp.correlation import (
    Groups,
    NetworkModel,
    SeenStates,
    check_drift,
    check_groups,
    check_independence,
    check_misfit,
    check_neighbors,
)
from sklearn_bdp.exceptions import (
    HoldoutClosedError,
    ModelMisfitWarning,
    VacuousGuaranteeWarning,
)
from sklearn_bdp.guards._accounts import targets_digest
from sklearn_bdp.guards._guard import Guard
from sklearn_bdp.guards._tables import DRAWN, date_hints
from sklearn_bdp.metrics import get_metric

MISFIT = Guard(
    "dependence",
    "training set",
    "after cross-validation",
    "The declared correlation may be wrong. {found}.",
    ModelMisfitWarning,
)
FEW = Guard(
    "few groups",
    "arguments",
    "before anything is fitted, once for each holdout and metric",
    "The holdout has {count} groups (patients, users, sites …), worth {worth:.0f} of equal size. "
    "They give {metric} near {score:.2g} to about ±{fixed:.2g} for one model fixed in advance, and "
    "to about ±{best:.2g} for the best of {candidates} candidates. Nested cross-validation over "
    "all groups gives one number to about ±{nested:.2g}, without a guarantee for a second look. "
    "For narrower intervals bring more groups, or hold out more of them (holdout=0.5). More rows "
    "of the same groups do not help.",
    VacuousGuaranteeWarning,
)
CUT = Guard(
    "folds across groups",
    "training set",
    "before anything is fitted",
    "cv cuts declared groups: records that may depend on each other are in the training and the "
    "test part of a fold, so that cross-validated scores are too good. Leave cv=5, or pass "
    "GroupKFold() with groups=.",
    ValueError,
)

#: Groups in a holdout (as many as they are worth) below which cross-validation does better.
FEW_GROUPS = 100

#: About which score, and how many candidates, such a forecast speaks of.
USUAL_SCORE, USUAL_CANDIDATES = 0.8, 20

#: Half-width from which on a forecast of a metric by class is worth a warning.
WIDE = 0.2

#: Scores that :func:`check_drift` needs.
SHORTEST_DRIFT = 48

#: Records of a fold from which on their scores show dependence of neighbours.
SMALLEST_FOLD = 40


def declaration_hints(X, *, correlation, groups, splitters, apart=False):
    """Return what the arguments say about dependence and the declared correlation does not.

    ``apart``: the holdout is given, and not drawn from ``X``.
    """
    names = [type(s).__name__ for s in splitters if hasattr(s, "split")]
    by_group = next((name for name in names if "Group" in name), None)
    if correlation is not None:
        parts = correlation if isinstance(correlation, list | tuple) else [correlation]
        used = by_group or any(isinstance(part, Groups | str) and part != "time" for part in parts)
        unused = "groups= was passed, but neither correlation nor cv uses it. Set correlation="
        return () if groups is None or used else (unused + "'groups', or leave groups= out",)
    hints = []
    if groups is not None and len(np.unique(np.asarray(groups, dtype=str))) < len(groups):
        hints.append(
            "groups= was passed, but correlation=None assumes independence: the holdout is cut "
            "across groups, and intervals ignore them. Set correlation='groups'"
        )
    elif by_group and groups is None:
        hints.append(
            f"{by_group} means that records depend inside groups, but correlation=None assumes "
            "independence. Set correlation='groups' and pass groups= to fit"
        )
    if "TimeSeriesSplit" in names:
        drawn = "" if apart else DRAWN
        hints.append(
            f"TimeSeriesSplit means that records come in time, but correlation=None assumes "
            f"independence{drawn}. Set correlation='time'"
        )
        return tuple(hints)
    return (*hints, *date_hints(X, apart=apart))


def check_folds(model, splits):
    """Raise where folds cut records that are declared to depend on each other."""
    if model is None or model.n_records is None or model.is_sequential or model.holds_given_rest:
        return
    codes = model.components(model.n_records)
    if any(np.isin(codes[test], codes[train]).any() for train, test in splits):
        raise CUT.error()


def compare_dependence(division, estimator, metric, score, *, folds, groups=None, known=None):
    """Compare training-side scores of one candidate with the declared correlation; warn once.

    ``score(metric, folds)`` returns its cross-validated scores, or None where it cannot be fitted.
    ``known`` are its scores from the inner cross-validation (``folds``) and the fold of each
    record; where they do not suit the check, the candidate is fitted again. Returns the report of
    the check that suits the correlation, the :class:`DriftReport` of records in time or row
    order, and the per-record scores behind both, in that order; None where there is none.
    """
    found = _compared(division, estimator, metric, score, folds, groups, known)
    warn_of(division, *found[:2])
    return found


def _compared(division, estimator, metric, score, folds, groups, known):
    """Return what :func:`compare_dependence` finds."""
    model = division.train_model
    declared = division.model if model is None else model
    in_time = model is not None and model.is_sequential
    if get_tags(estimator).input_tags.pairwise:
        return None, None, None
    if not metric.is_mean:
        if not is_classifier(estimator):
            return None, None, None
        metric, known = _stand_in(estimator, division.y), None
    folds = folds if in_time else _shuffled(num_samples(division.X))

    def scored(order=None):
        found = score(metric, folds)
        return None if found is None else _seen(found if order is None else found[order])

    if in_time:
        found = score(metric, folds) if known is None else known[0]
        scores = None if found is None else _seen(model.unit_means(found))
        if scores is None:
            return None, None, None
        drift = check_drift(scores, names=metric.name) if len(scores) >= SHORTEST_DRIFT else None
        return check_misfit(declared, scores=scores), drift, scores
    if isinstance(declared, SeenStates) and model is not None:
        # Within public states the order of the rows does not matter.
        scores = scored()
        if scores is None or len(scores) != len(declared.states):
            return None, None, None
        return check_independence(scores, states=declared.states), None, scores
    if model is not None and isinstance(model, NetworkModel | Groups) and not model.is_independent:
        found = score(metric, folds) if known is None else known[0]
        if found is None or len(found) != model.n_records:
            return None, None, None
        if isinstance(model, NetworkModel):
            return check_neighbors(model, found), None, found
        return _between_groups(model, found, estimator, division), None, found
    if not declared.is_independent or _sorted_by_label(estimator, division.y):
        return None, None, None
    return _in_row_order(division, metric.name, scored, groups, known)


def _between_groups(model, scores, estimator, division):
    """Test what groups promise: that those next to each other are independent.

    Scores less the mean of their class, so that a table sorted by class is no dependence.
    """
    order = np.arange(len(scores)) if division.train is None else np.argsort(division.train)
    scores, codes = np.asarray(scores, dtype=float)[order], model.components(len(scores))[order]
    if is_classifier(estimator) and np.ndim(division.y) == 1:
        classes = np.unique(np.asarray(division.y)[order], return_inverse=True)[1]
        known = ~np.isnan(scores)
        sums = np.bincount(classes[known], weights=scores[known], minlength=classes.max() + 1)
        counts = np.bincount(classes[known], minlength=classes.max() + 1)
        scores = scores - (sums / np.maximum(counts, 1))[classes]
    return check_groups(scores, codes)


def _in_row_order(division, name, scored, groups, known):
    """Test what independence promises: neither the order of the rows nor their groups matter."""
    order = None if division.train is None else np.argsort(division.train, kind="stable")
    if groups is None and known is not None and _partitions(known[1]):
        scores, fold = known if order is None else (part[order] for part in known)
        drift = _row_drift(scores, name)
        if drift is not None and drift.drift and not _are_mixed(fold):
            # The models of some folds may be worse: asked again where all rows have the same ones.
            again = scored(order)
            drift = None if again is None else _row_drift(again, name)
        return check_independence(scores, folds=fold), drift, scores
    scores = scored(order)
    if scores is None:
        return None, None, None
    labels = None
    if groups is not None and len(scores) == num_samples(division.X):
        labels = np.asarray(groups) if order is None else np.asarray(groups)[order]
    found = check_independence(scores, groups=labels)
    return found, _row_drift(scores, name), scores


def _row_drift(scores, name):
    """Compare the first and the last third of the rows; None where they are too few."""
    scores = np.asarray(scores, dtype=float)
    return check_drift(scores, names=name, order="rows") if len(scores) >= SHORTEST_DRIFT else None


def _are_mixed(fold):
    """Return whether each fold has rows from everywhere."""
    place, n = np.arange(len(fold)), len(fold)
    centres = np.bincount(fold, weights=place) / np.bincount(fold)
    return bool(np.all(np.abs(centres - n / 2) < 0.1 * n))


def _stand_in(estimator, y):
    """Return the mean over records that shows dependence where the metric is none (ROC AUC)."""
    name = "neg_brier_score" if hasattr(estimator, "predict_proba") else "accuracy"
    return get_metric(name, estimator=estimator, y=y)


def _seen(scores):
    """Return the scores of records that were tested, or None where there are hardly any."""
    scores = scores[~np.isnan(scores)]
    return scores if len(scores) >= 2 else None


def _partitions(fold):
    """Return whether every record is in a test fold, of enough records to be permuted."""
    return fold.min() >= 0 and np.bincount(fold).min() >= SMALLEST_FOLD


def _shuffled(n, n_splits=3):
    """Return folds drawn without regard to the order of rows, which keeps the tests exact."""
    fold = np.random.default_rng(0).permutation(n) % min(n_splits, n)
    return [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(fold.max() + 1)]


def _sorted_by_label(estimator, y):
    """Return whether rows are merely sorted by class: their order is no time."""
    labels = np.asarray(y)
    if not is_classifier(estimator) or labels.ndim != 1:
        return False
    runs = 1 + int(np.count_nonzero(labels[1:] != labels[:-1]))
    return runs == len(np.unique(labels))


def warn_few_groups(holdout, division, metric):
    """Say before anything is fitted what few groups can tell, and what does better."""
    model, train = division.model, division.train_model
    if not isinstance(model, Groups) or model.is_independent:
        return
    worth = model.effective_n(holdout.n)
    learned = 1.0 if train is None else train.effective_n(num_samples(division.X))
    asked = {"score": USUAL_SCORE, "training_size": learned}
    asked["scoring"] = None if metric.is_mean else metric
    try:
        best = holdout.preview(USUAL_CANDIDATES, **asked).half_width
    except HoldoutClosedError:  # recorded answers stay free; there are no others to forecast
        return
    tail = score_tail(model, holdout.n, **dataclasses.asdict(metric.expected_shape(holdout.n)))
    fixed = USUAL_SCORE - float(tail.lower_limit(USUAL_SCORE, math.log(holdout.beta / 2.0)))
    if worth >= FEW_GROUPS and (metric.is_mean or fixed < WIDE):
        return
    scale = metric.upper - metric.lower
    nested = 1.96 * math.sqrt(USUAL_SCORE * (1.0 - USUAL_SCORE) / (worth + learned))
    FEW.warn_once(
        f"{metric.name} {targets_digest(holdout.X, holdout.y)}",
        count=len(model.sizes_), worth=worth, candidates=USUAL_CANDIDATES,
        fixed=scale * min(fixed, best), metric=metric.name,
        score=metric.from_unit(USUAL_SCORE), best=scale * best, nested=scale * nested,
    )  # fmt: skip


def warn_of(division, *reports):
    """Give one warning of everything that speaks against the declared correlation."""
    found = [*division.hints, *(r.message for r in reports if r is not None and r.message)]
    if found:
        MISFIT.warn(found=". ".join(found))
