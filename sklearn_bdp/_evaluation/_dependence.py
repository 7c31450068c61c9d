"""Dependence of the records: what the arguments hint at, what training-side scores show.

Everything here sees training records only, except that a hint may read the index of ``X``.
"""

import itertools
import math
import warnings
import weakref
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone, is_classifier
from sklearn.utils import get_tags

from sklearn_bdp._checks import caller_level
from sklearn_bdp._evaluation._candidates import Candidate, Setting, evaluate
from sklearn_bdp._evaluation._dates import DRAWN, check_order, date_hints, is_dates
from sklearn_bdp._evaluation._failures import cause_of
from sklearn_bdp._evaluation._scoring import MEANS
from sklearn_bdp._sklearn_compat import check_method_params, num_samples, safe_indexing
from sklearn_bdp.accounting import score_tail
from sklearn_bdp.correlation import (
    Groups,
    MarkovChain,
    SeenStates,
    check_drift,
    check_independence,
    check_misfit,
)
from sklearn_bdp.exceptions import (
    HoldoutClosedError,
    ModelMisfitWarning,
    UnboundedMetricError,
    VacuousGuaranteeWarning,
)
from sklearn_bdp.metrics import get_metric

#: Candidates whose scores the strength is read off; more are thinned out evenly.
MOST_CANDIDATES = 12

#: Groups in a holdout (as many as they are worth) below which cross-validation does better.
FEW_GROUPS = 100

#: About which score, and how many candidates, such a forecast speaks of.
USUAL_SCORE, USUAL_CANDIDATES = 0.8, 20

#: Half-width from which on a forecast of a metric by class is worth a warning.
WIDE = 0.2

#: Metrics that each holdout has been warned of.
_TOLD: weakref.WeakKeyDictionary[Any, set[str]] = weakref.WeakKeyDictionary()

#: Share of the history next to the holdout that is left out of it: the gap is not yet known.
ROOM = 0.1

#: Scores that :func:`check_drift` needs.
SHORTEST_DRIFT = 48

#: Records of a fold from which on their scores show dependence of neighbours.
SMALLEST_FOLD = 40


@dataclass(frozen=True)
class Pilot:
    """What reads the strength of dependence off the training side (theory G11)."""

    estimator: object  # cloned for each fit
    metric: object  # from training targets to the bounded metric
    #: Parameters of the candidates of the first search.
    candidates: list = field(default_factory=lambda: [{}])
    #: What goes to ``fit``, for all records.
    fit_params: dict = field(default_factory=dict, repr=False)
    n_jobs: int | None = None  # workers


def history_of(X, holdout_size):
    """Return the places of the records the strength is read off: those before holdout and gap.

    ``holdout_size``: records at the end that become the holdout; 0 if it is given apart.
    """
    check_order(X)
    before = num_samples(X) - holdout_size
    return np.arange(before - (math.ceil(ROOM * before) if holdout_size else 0))


def learned_chain(pilot, X, y, history, *, horizon):
    """Return the chain whose strength the candidates' scores show: an assumption (theory G11)."""
    part, targets = safe_indexing(X, history), safe_indexing(y, history)
    metric = pilot.metric(targets)
    if not metric.is_mean:
        raise UnboundedMetricError(
            f"scoring={metric.name!r} is no mean over records, and dependence in time is bounded "
            f"for means only. Use {MEANS}."
        )
    places = np.linspace(0, len(pilot.candidates) - 1, MOST_CANDIDATES).round().astype(int)
    chosen = [pilot.candidates[place] for place in np.unique(places)]
    setting = Setting(
        estimator=clone(pilot.estimator),
        X=part,
        y=targets,
        X_holdout=None,
        y_holdout=None,
        metric=metric,
        fit_params=check_method_params(X, pilot.fit_params, indices=history),
        training="cv",
        folds=_blocks(len(history)),
    )
    outcomes = Parallel(n_jobs=pilot.n_jobs)(
        delayed(evaluate)(setting, Candidate(params), training=True, holdout=False, keyed=False)
        for params in chosen
    )
    scores = [outcome.scores for outcome in outcomes if outcome.scores is not None]
    if not scores:
        error = outcomes[0].error
        raise ValueError(
            f"all {len(outcomes)} candidates failed in cross-validation: {cause_of([error])}\n"
            "correlation='time' reads the strength of dependence off their scores; nothing was "
            f"asked of the holdout. The first one said:\n{error}"
        )
    return MarkovChain.from_scores(np.stack(scores), horizon=horizon)


def _blocks(n, n_splits=5):
    """Return contiguous folds, a hundredth of the records dropped at either side of a test."""
    gap, position = n // 100, np.arange(n)
    edges = [n * k // n_splits for k in range(n_splits + 1)]
    return [
        (position[(position < low - gap) | (position >= high + gap)], position[low:high])
        for low, high in itertools.pairwise(edges)
        if high > low
    ]


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


def check_dependence(division, setting, params, *, folds, groups=None, known=None):
    """Compare training-side scores of one candidate with the declared correlation; warn once.

    ``known`` are its scores from the inner cross-validation (``folds``) and the fold of each
    record; where they do not suit the check, the candidate is fitted again. Returns the report of
    the check that suits the correlation, the :class:`DriftReport` of records in time or row
    order, and the per-record scores behind both, in that order; None where there is none.
    """
    found = _compared(division, setting, params, folds, groups, known)
    warn_of(division, *found[:2])
    return found


def _compared(division, setting, params, folds, groups, known):
    """Return what :func:`check_dependence` finds."""
    model, estimator, metric = division.train_model, setting.estimator, setting.metric
    declared = division.model if model is None else model
    in_time = model is not None and model.is_sequential
    if get_tags(estimator).input_tags.pairwise:
        return None, None, None
    if not metric.is_mean:
        if not is_classifier(estimator):
            return None, None, None
        metric, known = _stand_in(estimator, division.y), None
    folds = folds if in_time else _shuffled(num_samples(division.X))
    setting = replace(setting, metric=metric, training="cv", folds=folds, error_score=math.nan)
    if in_time:
        scores = _scored(setting, params) if known is None else _seen(known[0])
        if scores is None:
            return None, None, None
        drift = check_drift(scores, names=metric.name) if len(scores) >= SHORTEST_DRIFT else None
        return check_misfit(declared, scores=scores), drift, scores
    if isinstance(declared, SeenStates) and model is not None:
        return _within_states(setting, params, declared.states)
    if not declared.is_independent or _sorted_by_label(estimator, division.y):
        return None, None, None
    return _in_row_order(division, setting, params, groups, known)


def _in_row_order(division, setting, params, groups, known):
    """Test what independence promises: neither the order of the rows nor their groups matter."""
    order = None if division.train is None else np.argsort(division.train, kind="stable")
    dated = is_dates(getattr(division.X, "index", None))
    name = setting.metric.name
    if groups is None and known is not None and _partitions(known[1]):
        scores, fold = known if order is None else (part[order] for part in known)
        drift = _row_drift(scores, name)
        if drift is not None and drift.drift and not _are_mixed(fold):
            # The models of some folds may be worse: asked again where all rows have the same ones.
            again = _scored(setting, params, order)
            drift = None if again is None else _row_drift(again, name)
        return check_independence(scores, folds=fold, dated=dated), drift, scores
    scores = _scored(setting, params, order)
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


def _within_states(setting, params, states):
    """Test what public states promise: within them, the order of the rows does not matter."""
    scores = _scored(setting, params)
    if scores is None or len(scores) != len(states):
        return None, None, None
    return check_independence(scores, states=states), None, scores


def _scored(setting, params, order=None):
    """Return the per-record scores of a candidate, or None where it could not be fitted."""
    outcome = evaluate(setting, Candidate(params), training=True, holdout=False, keyed=False)
    if outcome.scores is None:
        return None
    scores = outcome.scores.astype(float)
    return _seen(scores if order is None else scores[order])


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
    counts = getattr(metric, "class_counts", None)
    if counts is None:
        return
    level = math.log(holdout.beta / 2.0)
    kind = "pairs" if metric.name == "roc_auc" else "class_means"
    tail = score_tail(model, holdout.n, kind=kind, class_counts=counts)
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
