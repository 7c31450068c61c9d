"""Subsets proposed by the training side, each with a score that knows nothing of its test fold.

The ranking is computed anew inside each fold. A subset that was ranked on all training records
and then cross-validated would look better than it is: among 2,000 useless features, the ten best
of 750 records "predict" with an accuracy of .7 in any fold of the same records.
"""

import math
import traceback
import warnings
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
from scipy.stats import rankdata
from sklearn.base import is_classifier, is_regressor
from sklearn.exceptions import FitFailedWarning
from sklearn.utils.parallel import Parallel, delayed

from sklearn_bdp._checks import caller_level
from sklearn_bdp._evaluation import Candidate, fit_candidate
from sklearn_bdp._sklearn_compat import check_method_params, num_samples, safe_indexing
from sklearn_bdp.feature_selection._rankings import (
    text_columns,
)

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
    #: record contributes to it (:func:`contributions`).
    scores: np.ndarray = field(repr=False)
    #: The same for what predictions know of the classes, all counted alike: 0 on average where that
    #: is nothing. ``None`` where the constant prediction is the rival (:func:`_classes`).
    beyond: np.ndarray | None = field(default=None, repr=False)

    @property
    def training(self):
        """Return the training-side score in [0, 1]; NaN where a fit failed."""
        return float(np.nanmean(self.scores)) if np.isfinite(self.scores).any() else math.nan


def path_sizes(n_units, n_records, *, target=None):
    """Return the sizes of subsets along a path: each about half as large again.

    Up to half as many units as records, but all units where they are fewer than records.
    """
    if target is not None:
        return (target,) if target else ()
    most = n_units if n_units <= n_records else max(1, n_records // 2)
    sizes = {round(2 ** (step / 2)) for step in range(int(2 * math.log2(max(1, most))) + 1)}
    if n_units <= n_records:
        sizes.add(n_units)
    return tuple(sorted(size for size in sizes if 0 < size <= most))


def propose(setting, ranking, *, target, n_jobs):
    """Return the :class:`Proposal` list of a path; the first is the constant, if there is one."""
    units, n, stable = ranking.units, num_samples(setting.X), target == "stable"
    rows = [*(train for train, _ in setting.folds), np.arange(n)]
    univariate = ranking.univariate(rows)
    orders = partial(_orders, ranking, stable, isinstance(target, int))
    whole = orders(rows[-1], univariate[-1])
    # The smallest model to compare with: fixed columns, or none.
    bare = bool(units.fixed) or is_classifier(setting.estimator) or is_regressor(setting.estimator)
    plans = [("constant", 0)] if bare else []
    sizes = path_sizes(len(units), n, target=1 if stable else target)
    known = whole[ranking.name].size
    plans += [(ranking.name, size) for size in sorted({min(size, known) for size in sizes} - {0})]
    plans += [("stable", n)] if stable and whole["stable"].size else []
    classes = _classes(setting, units)
    shown = replace(setting, X_holdout=None, y_holdout=None)  # workers need no holdout
    done = Parallel(n_jobs=n_jobs)(
        delayed(_one_fold)(shown, fold, partial(orders, fold[0], scores), plans, units, classes)
        for fold, scores in zip(setting.folds, univariate, strict=False)
    )
    proposals, errors = [], []
    for (name, size), found in zip(plans, zip(*done, strict=True), strict=True):
        failed = [one for one in found if isinstance(one, str)]
        errors += failed[:1]
        scores = np.full((2, n), math.nan)
        for (_, tested), own in zip(setting.folds, [] if failed else found, strict=False):
            scores[:, tested] = own
        chosen = tuple(whole[name][:size].tolist())
        beyond = None if classes is None else scores[1]
        proposals.append(Proposal(name, chosen, units.columns(chosen), scores[0], beyond))
    if errors:
        _report_failures(errors, proposals, bare, text_columns(setting.X))
    return proposals


def _orders(ranking, stable, filled, rows, univariate):
    """Return the units in the order of each name; all of them if a number was asked for."""
    return {
        "constant": np.empty(0, dtype=int),
        ranking.name: ranking.order(rows, univariate, filled=filled),
        "stable": ranking.stable(rows) if stable else None,  # each fold has its own number
    }


def _one_fold(setting, fold, orders, plans, units, classes):
    """Return what records of the test fold score, for each plan."""
    orders, known = orders(), {}
    subsets = [units.columns(orders[name][:size].tolist()) for name, size in plans]
    for columns in subsets:
        if columns not in known:
            known[columns] = _score(setting, columns, *fold, classes)
    return [known[columns] for columns in subsets]


def _classes(setting, units):
    """Return the classes, where it is asked whether predictions know anything of them at all.

    Not beside fixed features, which may know of them; not for numbers or for many classes, where
    the constant prediction is no such rival. Of scores that are no hits (a probability) neither.
    """
    if units.fixed or not is_classifier(setting.estimator):
        return None
    labels = np.asarray(setting.y)
    found = np.unique(labels) if labels.ndim == 1 else ()
    hits = setting.metric.is_binary or not setting.metric.is_mean
    return found if hits and 2 <= len(found) <= _MANY_CLASSES else None


def _score(setting, columns, train, test, classes):
    """Return scores of the test fold, and beyond chance, or the traceback of a failed fit."""
    metric, y = setting.metric, setting.y
    X = np.zeros((num_samples(setting.X), 1))  # columns before rows: wide data are not copied
    if columns:
        X = safe_indexing(setting.X, np.asarray(columns), axis=1)
    params = check_method_params(setting.X, setting.fit_params, indices=train)
    part = replace(
        setting, X=safe_indexing(X, train), y=safe_indexing(y, train), fit_params=params, folds=()
    )
    try:
        model = fit_candidate(part, Candidate(columns=None if columns else ()))
    except Exception:
        if setting.error_score == "raise":
            raise
        return traceback.format_exc()
    labels = safe_indexing(y, test)
    evaluation = metric.evaluate(model, safe_indexing(X, test), labels)
    own, made = evaluation.per_record, evaluation.by_class
    if own is None:
        own = np.full(len(test), evaluation.value) if made is None else contributions(made)
    if classes is None:
        return own, own
    if made is not None and made.shape.kind == "pairs":
        return own, own - 0.5
    hits = own if made is None else made.rows
    places = np.searchsorted(classes, np.asarray(labels))
    return own, by_class(np.nan_to_num(hits), places, range(len(classes))) - 1.0 / len(classes)


def contributions(made):
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
    """Return contributions to the mean hits of the classes that are counted, each alike."""
    found = np.zeros(len(hits))
    for one in counted:
        own = index == one
        mean = hits[own].mean() if own.any() else 0.5
        found += mean
        found[own] += (hits[own] - mean) * len(hits) / max(1, own.sum())
    return found / len(counted)


#: What to do about subsets that cannot be fitted.
_ADVICE = (
    "Missing values and text need a pipeline that begins with an imputer or encoder. Columns that "
    "the estimator names belong in fixed_features."
)


def _report_failures(errors, proposals, bare, text):
    """Warn once of subsets that could not be fitted, or raise if no other one is left.

    ``bare``: whether the first proposal is the one that all others are compared with; ``text``:
    names of columns that are no numbers.
    """
    cause = errors[-1].strip().rpartition("\n")[2]
    advice = _ADVICE + (f" Columns that are not numbers: {text[:5]}." if text else "")
    others = proposals[bare:] or proposals
    if not any(math.isfinite(proposal.training) for proposal in others):
        raise ValueError(
            f"{cause}\nThe estimator could not be fitted on any of {len(others)} subsets of "
            f"features. The holdout was not queried. {advice} The last error:\n{errors[-1]}"
        )
    warnings.warn(
        f"{cause}\n{len(errors)} of {len(proposals)} subsets could not be fitted on the training "
        f"set and were not verified. {advice} The last error:\n{errors[-1]}",
        FitFailedWarning,
        stacklevel=caller_level(),
    )
