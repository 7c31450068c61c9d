"""Dependence of the records: what the arguments hint at, what training-side scores show.

Everything here sees training records only, except that a hint may read the index of ``X``.
"""

import dataclasses
import math
import warnings
import weakref
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils import get_tags

from sklearn_bdp._checks import caller_level
from sklearn_bdp._sklearn_compat import num_samples
from sklearn_bdp.accounting import score_tail
from sklearn_bdp.correlation import (
    Groups,
    SeenStates,
    check_drift,
    check_independence,
    check_misfit,
)
from sklearn_bdp.exceptions import (
    HoldoutClosedError,
    ModelMisfitWarning,
    VacuousGuaranteeWarning,
)
from sklearn_bdp.guards._dates import DRAWN, date_hints, is_dates
from sklearn_bdp.metrics import get_metric

#: Groups in a holdout (as many as they are worth) below which cross-validation does better.
FEW_GROUPS = 100

#: About which score, and how many candidates, such a forecast speaks of.
USUAL_SCORE, USUAL_CANDIDATES = 0.8, 20

#: Half-width from which on a forecast of a metric by class is worth a warning.
WIDE = 0.2

#: Metrics that each holdout has been warned of.
_TOLD: weakref.WeakKeyDictionary[Any, set[str]] = weakref.WeakKeyDictionary()

#: Scores that :func:`check_drift` needs.
SHORTEST_DRIFT = 48

#: Records of a fold from which on their scores show dependence of neighbours.
SMALLEST_FOLD = 40


def declaration_hints(X, *, correlation, groups, splitters, apart=False):
    """Return what the arguments say about dependence and the declared correlation does not.

    ``apart``: the holdout is given, and not drawn from ``X``.
    """
    names = [type(s).__name__ for s in splitters if hasattr(s, "split")]
    by_group = [name for name in names if "Group" in name]
    in_time = [name for name in names if name == "TimeSeriesSplit"]
    hints = []
    if correlation is None:
        if groups is not None:
            hints.append(
                "groups= was given, but the records are declared independent: the holdout is cut "
                "across groups and intervals ignore them. Declare correlation='groups'"
            )
        elif by_group:
            hints.append(
                f"{by_group[0]} says that records depend inside groups, but they are declared "
                "independent. Declare correlation='groups' and pass groups= to fit"
            )
        if in_time:
            hints.append(
                f"{in_time[0]} says that records come in time, but they are declared independent"
                f"{'' if apart else DRAWN}. Declare correlation='time'"
            )
        else:
            hints.extend(date_hints(X, apart=apart))
    elif groups is not None and not by_group and not _is_grouped(correlation):
        hints.append(
            "groups= was given and nothing uses it: neither correlation nor cv. Declare "
            "correlation='groups', or leave groups= out"
        )
    return tuple(hints)


def _is_grouped(correlation):
    return isinstance(correlation, str) and correlation == "groups"


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
        return _within_states(scored, declared.states)
    if not declared.is_independent or _sorted_by_label(estimator, division.y):
        return None, None, None
    return _in_row_order(division, metric.name, scored, groups, known)


def _in_row_order(division, name, scored, groups, known):
    """Test what independence promises: neither the order of the rows nor their groups matter."""
    order = None if division.train is None else np.argsort(division.train, kind="stable")
    dated = is_dates(getattr(division.X, "index", None))
    if groups is None and known is not None and _partitions(known[1]):
        scores, fold = known if order is None else (part[order] for part in known)
        drift = _row_drift(scores, name)
        if drift is not None and drift.drift and not _are_mixed(fold):
            # The models of some folds may be worse: asked again where all rows have the same ones.
            again = scored(order)
            drift = None if again is None else _row_drift(again, name)
        return check_independence(scores, folds=fold, dated=dated), drift, scores
    scores = scored(order)
    if scores is None:
        return None, None, None
    labels = None
    if groups is not None and len(scores) == num_samples(division.X):
        labels = np.asarray(groups) if order is None else np.asarray(groups)[order]
    found = check_independence(scores, groups=labels, dated=dated)
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


def _within_states(scored, states):
    """Test what public states promise: within them, the order of the rows does not matter."""
    scores = scored()
    if scores is None or len(scores) != len(states):
        return None, None, None
    return check_independence(scores, states=states), None, scores


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
    """Say before anything is fitted what few groups can tell, and what does better.

    Once of a holdout and a metric: a holdout may be passed on to many searches.
    """
    model, train = division.model, division.train_model
    told = _TOLD.setdefault(holdout, set())
    if not isinstance(model, Groups) or model.is_independent or metric.name in told:
        return
    told.add(metric.name)
    if not metric.is_mean:
        _warn_wide_by_class(holdout, model, metric)
        return
    worth = model.effective_n(holdout.n)
    if worth >= FEW_GROUPS:
        return
    learned = 1.0 if train is None else train.effective_n(num_samples(division.X))
    scale, variance = metric.upper - metric.lower, USUAL_SCORE * (1.0 - USUAL_SCORE)
    level = math.log(holdout.beta / 2.0)
    fixed = USUAL_SCORE - float(model.mean_lower_limit(USUAL_SCORE, level, holdout.n))
    try:
        ahead = holdout.preview(USUAL_CANDIDATES, score=USUAL_SCORE, training_size=learned)
    except HoldoutClosedError:  # recorded answers stay free; there are no others to forecast
        return
    nested = 1.96 * math.sqrt(variance / (worth + learned))
    warnings.warn(
        f"the holdout has {len(model.sizes_)} groups (patients, users, sites …), worth "
        f"{worth:.0f} of equal size: whatever you do, {metric.name} near "
        f"{metric.from_unit(USUAL_SCORE):.2g} will be known to about ±{scale * fixed:.2g} for one "
        f"model fixed in advance, to about ±{scale * ahead.half_width:.2g} for the best of "
        f"{USUAL_CANDIDATES} candidates. If one number is all you want, nested cross-validation "
        f"over all groups gives it to about ±{scale * nested:.2g}, without a promise about a "
        "second look. Otherwise bring more groups, or hold out more of them (holdout=0.5); more "
        "rows of the same groups do not help.",
        VacuousGuaranteeWarning,
        stacklevel=caller_level(),
    )


def _warn_wide_by_class(holdout, model, metric):
    """The same for ROC AUC and balanced accuracy, which few groups tell hardly anything about."""
    shape = metric.expected_shape(holdout.n)
    if shape.class_counts is None:
        return
    level = math.log(holdout.beta / 2.0)
    tail = score_tail(model, holdout.n, **dataclasses.asdict(shape))
    width = USUAL_SCORE - float(tail.lower_limit(USUAL_SCORE, level))
    mean = USUAL_SCORE - float(model.mean_lower_limit(USUAL_SCORE, level, holdout.n))
    if width < WIDE:
        return
    known = f"to about ±{width:.2g} at best" if width < 0.5 else "hardly at all"
    warnings.warn(
        f"the holdout has {len(model.sizes_)} groups (patients, users, sites …): of one model "
        f"{metric.name} near {USUAL_SCORE} will be known {known}, a mean over records "
        "(scoring='accuracy' or 'neg_brier_score') to about "
        f"±{mean:.2g}. Bring more groups, hold out more of them (holdout=0.5), or take nested "
        "cross-validation over all groups if one look is all you want.",
        VacuousGuaranteeWarning,
        stacklevel=caller_level(),
    )


def warn_of(division, *reports):
    """Give one warning of everything that speaks against the declared correlation."""
    messages = [*division.hints, *(r.message for r in reports if r is not None and r.message)]
    if messages:
        warnings.warn(". ".join(messages) + ".", ModelMisfitWarning, stacklevel=caller_level())
