"""Subsets proposed by the training side, each with a score that knows nothing of its test fold.

The ranking is computed anew inside each fold. A subset that was ranked on all training records
and then cross-validated would look better than it is: among 2,000 useless features, the ten best
of 750 records "predict" with an accuracy of .7 in any fold of the same records.
"""

import math
import traceback
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
from scipy.stats import rankdata
from sklearn.base import is_classifier, is_regressor
from sklearn.utils.parallel import Parallel, delayed

from sklearn_bdp._evaluation import Candidate, all_failed, fit_candidate, warn_some_failed
from sklearn_bdp._sklearn_compat import check_method_params, num_samples, safe_indexing
from sklearn_bdp.feature_selection._rankings import Records, order_units, univariate_scores

#: Classes up to which scores are looked at with every label.
_MANY_CLASSES = 10


@dataclass(frozen=True)
class Proposal:
    """A subset, who proposed it, and what the training side says of it."""

    #: Name of the ranking, or ``"constant"`` for the subset that everything is compared with.
    ranking: str
    chosen: tuple  # units, best first
    columns: tuple  # their columns with the fixed ones, sorted
    #: Cross-validated score of each training record, in [0, 1] (NaN where it was in no test fold),
    #: or of each fold where the metric is no mean over records.
    scores: np.ndarray = field(repr=False)
    folds: tuple = field(default=(), repr=False)  # the units that each fold chose, as many
    #: Of each training record, how far its score is beyond what its prediction scores with the
    #: label of any other record, and its label with any other prediction: the mean is 0 where
    #: predictions know nothing of labels. ``None`` where that is not asked (:func:`_labels`).
    beyond: np.ndarray | None = field(default=None, repr=False)

    def shares(self):
        """Return the share of the folds that chose each unit, as many as here."""
        folds = [set(picked) for picked in self.folds]
        return [sum(unit in one for one in folds) / len(folds) for unit in self.chosen]

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


def propose(setting, units, rankings, *, target, n_jobs):
    """Return the :class:`Proposal` list of a path; the first is the constant, if there is one."""
    records = Records.of(setting.X, setting.y, setting.estimator)
    n = num_samples(setting.X)
    sizes = path_sizes(len(units), n, target=target)
    rows = [train for train, _ in setting.folds] + [np.arange(n)]
    masks = np.zeros((len(rows), n), dtype=bool)
    for mask, chosen in zip(masks, rows, strict=True):
        mask[chosen] = True
    univariate = univariate_scores(records, masks)
    most = max(sizes, default=0)

    orders = [
        partial(_orders, rankings, records, chosen, units, scores, most, target is not None)
        for chosen, scores in zip(rows, univariate, strict=True)
    ]
    *by_fold, whole = orders
    plans = _plans(whole(), sizes)
    # The smallest model to compare with: fixed columns, or none.
    bare = bool(units.fixed) or is_classifier(setting.estimator) or is_regressor(setting.estimator)
    labels = _labels(setting, units)
    sizes = [(which, size) for which, size, _ in plans]
    shown = replace(setting, X_holdout=None, y_holdout=None)  # workers need no holdout
    done = Parallel(n_jobs=n_jobs)(
        delayed(_one_fold)(shown, train, test, order, sizes, units, bare, labels)
        for (train, test), order in zip(setting.folds, by_fold, strict=True)
    )
    return _collect(setting, units, rankings, plans, bare, labels, done)


def _orders(rankings, records, rows, units, univariate, most, filled):
    """Return the units in the order of each ranking; none shorter where a number was asked for."""
    args = (records, rows, units, univariate)
    orders = [order_units(one, *args, most=most) for one in rankings]
    if not filled:
        return orders
    last = order_units("univariate", *args, most=len(units))
    everything = np.concatenate([last, np.setdiff1d(np.arange(len(units)), last)])
    return [_unique(np.concatenate([order, everything]))[:most] for order in orders]


def _unique(order):
    """Return the units of an order, each at its first place."""
    return order[np.sort(np.unique(order, return_index=True)[1])]


def _labels(setting, units):
    """Return the classes, where it is asked whether predictions know anything of labels at all.

    Not beside fixed features, which may know of them; not for numbers or for many classes, where
    the constant prediction is no such rival.
    """
    if units.fixed or not is_classifier(setting.estimator):
        return None
    labels = np.asarray(setting.y)
    found = np.unique(labels) if labels.ndim == 1 else ()
    return found if 2 <= len(found) <= _MANY_CLASSES else None


def _plans(orders, sizes):
    """Return (ranking, size, units) of the subsets of a path, each set of units once."""
    plans, seen = [], set()
    for which, order in enumerate(orders):
        for size in sorted({min(size, order.size) for size in sizes} - {0}):
            chosen = tuple(order[:size].tolist())
            if frozenset(chosen) not in seen:
                seen.add(frozenset(chosen))
                plans.append((which, size, chosen))
    return plans


def _one_fold(setting, train, test, orders, plans, units, bare, labels):
    """Return scores of the test fold and the chosen units, for the constant and each plan."""
    orders, known = orders(), {}
    chosen = [tuple(orders[which][:size].tolist()) for which, size in plans]
    subsets = [units.columns(picked) for picked in [()] * bare + chosen]
    for columns in subsets:
        if columns not in known:
            known[columns] = _score(setting, columns, train, test, labels)
    return [known[columns] for columns in subsets], chosen


def _score(setting, columns, train, test, labels):
    """Return scores of the test fold and with every label, or the traceback of a failed fit."""
    metric, y = setting.metric, setting.y
    X = np.zeros((num_samples(setting.X), 1))  # columns before rows: wide data are not copied
    if columns:
        X = safe_indexing(setting.X, np.asarray(columns), axis=1)
    tested = safe_indexing(X, test)
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
    found = metric.evaluate(model, tested, safe_indexing(y, test))
    own = found.per_record if metric.is_mean else found.value
    return own, None if labels is None else _table(metric, model, tested, labels)


def _table(metric, model, X, labels):
    """Return what each prediction scores with each label, as far as records can be told apart.

    For an area under the curve these are ranks within the fold, for other metrics that are no
    mean over records whether the label is predicted.
    """
    if metric.is_mean:
        every = [np.full(num_samples(X), label) for label in labels]
        return np.column_stack([metric.evaluate(model, X, label).per_record for label in every])
    ranked = hasattr(model, "decision_function") or hasattr(model, "predict_proba")
    if len(labels) == 2 and metric.name == "roc_auc" and ranked:
        has = hasattr(model, "decision_function")
        response = model.decision_function(X) if has else model.predict_proba(X)[:, 1]
        ranks = rankdata(response) / len(response)
        return np.column_stack([1.0 - ranks, ranks])
    return (np.asarray(model.predict(X))[:, None] == labels[None, :]).astype(float)


def _collect(setting, units, rankings, plans, bare, labels, done):
    """Return proposals from what the folds found."""
    known = None if labels is None else np.searchsorted(labels, np.asarray(setting.y))
    listed = [("constant", ())] if bare else []
    listed += [(ranking_name(rankings[which]), chosen) for which, _, chosen in plans]
    proposals, errors = [], []
    for place, (ranking, chosen) in enumerate(listed):
        found = [scored[place] for scored, _ in done]
        failed = [one for one in found if isinstance(one, str)]
        errors += failed[:1]
        scores, beyond = _joined(setting, None if failed else found, known, labels)
        by_folds = [] if ranking == "constant" else [picked[place - bare] for _, picked in done]
        columns = units.columns(chosen)
        proposals.append(Proposal(ranking, chosen, columns, scores, tuple(by_folds), beyond))
    _report_failures(errors, proposals, bare)
    return proposals


def _joined(setting, found, known, labels):
    """Return scores over all folds, and what is beyond chance in them."""
    mean, n = setting.metric.is_mean, num_samples(setting.X)
    scores = np.full(n if mean else len(setting.folds), math.nan)
    if found is None:
        return scores, None
    table = None if labels is None else np.full((n, len(labels)), math.nan)
    for fold, (own, part) in enumerate(found):
        tested = setting.folds[fold][1]
        scores[tested if mean else fold] = own
        if table is not None:
            table[tested] = part
    if table is None:
        return scores, None
    if mean:
        return scores, _beyond(scores, table, known)
    table /= np.bincount(known, minlength=len(labels)) / n  # every class counts alike
    return scores, _beyond(table[np.arange(n), known], table, known)


def _beyond(own, table, places):
    """Return scores less what predictions and labels explain on their own.

    ``own``: of each record with its label; ``table``: with every label; ``places``: which label it
    has. Without interaction, as in an analysis of variance: over all ways to deal the labels out
    to the records, the sum of what is returned is 0 on average. None where a record's score turns
    out to depend on other records' labels.
    """
    inside = np.isfinite(own) & np.isfinite(table).all(axis=1)
    if not np.allclose(own[inside], table[inside, places[inside]]):
        return None
    share = np.bincount(places[inside], minlength=table.shape[1]) / max(1, inside.sum())
    of_label = table[inside].mean(axis=0) if inside.any() else np.zeros(table.shape[1])
    return own - table @ share - of_label[places] + of_label @ share


def ranking_name(ranking):
    """Return what proposals call a ranking."""
    return ranking if isinstance(ranking, str) else getattr(ranking, "__name__", "score_func")


#: What to do about subsets that cannot be fitted.
_ADVICE = (
    "Missing values and text need a pipeline that begins with an imputer or encoder. Columns that "
    "the estimator names belong in fixed_features."
)


def _report_failures(errors, proposals, bare):
    """Warn once of subsets that could not be fitted, or raise where no other one is left.

    ``bare``: whether the first proposal is the one that all others are compared with.
    """
    if not errors:
        return
    others = proposals[bare:] or proposals
    if not any(math.isfinite(proposal.training) for proposal in others):
        raise all_failed(
            errors,
            f"The estimator could not be fitted on any of {len(others)} subsets of features. The "
            f"holdout was not queried. {_ADVICE}",
        )
    warn_some_failed(
        errors,
        f"{len(errors)} of {len(proposals)} subsets could not be fitted on the training set and "
        f"were not verified. {_ADVICE}",
    )
