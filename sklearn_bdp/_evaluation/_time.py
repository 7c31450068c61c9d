"""Records in time: their dates, and the chain that describes how they depend (theory G11, G24).

Under ``correlation="time"`` the strength of dependence is read off training-side scores first.
"""

import math
import warnings
from dataclasses import dataclass, field

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter

from sklearn_bdp._evaluation._candidates import Candidate, Experiment, attempt
from sklearn_bdp._evaluation._fits import cause_of
from sklearn_bdp._evaluation._scoring import MEANS
from sklearn_bdp._sklearn_compat import check_method_params, num_samples, safe_indexing
from sklearn_bdp.correlation import (
    MarkovChain,
    Panel,
    date_numbers,
    gaps_in_words,
    horizon_in_dates,
    index_dates,
    recorded_chain,
)
from sklearn_bdp.exceptions import UnboundedMetricError
from sklearn_bdp.guards import check_future, check_sorted
from sklearn_bdp.holdout import is_splitter
from sklearn_bdp.ledger import Fact, read_notes

#: What a later search under "time" says of the chain that a ledger holds.
RECORDED = (
    "the strength of dependence is the one that the ledger recorded when the holdout was made"
)


def correlation_in_time(owner, config, estimator, X, y, *, X_val, pilot, dates, in_time):
    """Return the correlation of records in time, and what is assumed about it.

    ``dates``: what was given as ``times=`` and ``horizon=``, which need records ``in_time``.
    """
    correlation, assumption = owner.correlation, ""
    own = config is None and correlation is None  # the holdout's own model describes all records
    times = check_times(
        estimator, X, X_val=X_val, correlation=owner.holdout.model if own else correlation,
        times=dates[0], horizon=dates[1], in_time=in_time,
    )  # fmt: skip
    if isinstance(correlation, str):
        correlation, assumption = _in_time(
            owner, config, X, y, X_val=X_val, pilot=pilot, times=times
        )
    if times is not None:
        chain = owner.holdout.model if correlation is None else correlation
        chain = getattr(chain, "chain", chain)  # of the dates of a panel
        assumption = ". ".join(filter(None, (assumption, gaps_in_words(times.values))))
        correlation = times.panel(chain, held=X_val is not None)
    return correlation, assumption


@dataclass(frozen=True)
class Times:
    """Dates of the records as numbers: those given to ``fit``, then those of ``X_val``."""

    values: np.ndarray
    n: int  # records given to fit
    horizon: int  # dates until a label is known

    @property
    def codes(self):
        """Number of each date of the records given to fit, in time order."""
        return np.unique(self.values[: self.n], return_inverse=True)[1]

    def panel(self, chain, *, held=False):
        """Return the panel of the records given to fit, or of the validation records."""
        part = self.values[self.n :] if held else self.values[: self.n]
        return Panel(part, chain, horizon=self.horizon)


def check_times(estimator, X, *, X_val, correlation, times, horizon, in_time):
    """Return the :class:`Times` of the records, or None where rows are one series in order."""
    if times is not None and has_fit_parameter(estimator, "times"):
        raise ValueError(
            f"times= is a parameter of {type(estimator).__name__}.fit and of the search. Put dates "
            "into the index of X (a DatetimeIndex or a date level of a MultiIndex) instead."
        )
    if not in_time:
        raise ValueError(
            f"times= and horizon= need records in time, got correlation={correlation!r}. Set "
            "correlation='time'."
        )
    n = num_samples(X)
    both = [("X", X)] if X_val is None else [("X", X), ("X_val", X_val)]
    if times is None:
        found = [index_dates(part, name) for name, part in both]
        dated = all(part is not None for part in found)
        if not (dated and any(part.has_duplicates for part in found)):
            for name, part in both:
                check_sorted(part, name)
            if not horizon:
                return None
            if not dated:
                dates = horizon_in_dates(horizon, None)
                return Times(np.arange(sum(num_samples(part) for _, part in both)), n, dates)
        values = np.concatenate(
            [date_numbers(one, f"{name}.index") for one, (name, _) in zip(found, both, strict=True)]
        )
    else:
        values = date_numbers(times)
    total = sum(num_samples(part) for _, part in both)
    if len(values) != total:
        of = "X" if X_val is None else "X followed by X_val"
        raise ValueError(
            f"times must hold one date per record of {of}, {total}, got {len(values)}."
        )
    if X_val is not None and values[n:].min() <= values[:n].max():
        raise ValueError(
            "X_val must come after X, and rows of one date stay on one side, got X until "
            f"{values[:n].max()} and X_val from {values[n:].min()}."
        )
    return Times(values, n, horizon_in_dates(horizon, values))


def _in_time(owner, config, X, y, *, X_val, pilot, times=None):
    """Return the correlation that ``"time"`` stands for, and what is assumed about it.

    It is that of the holdout, the one recorded in its ledger, or learned.
    """
    if config is None:
        if owner.holdout.model.is_sequential:
            return None, ""  # the holdout's own chain describes the training records, too
        raise ValueError(
            "correlation='time' cannot change the holdout that was passed in, whose records are "
            f"declared as: {owner.holdout.model.describe()}. Make the holdout by a search with "
            "correlation='time', or with correlation=MarkovChain.from_scores(scores)."
        )
    if is_splitter(config.test_size):
        raise ValueError(
            "correlation='time' cuts the last records itself: give holdout a fraction, or X_val "
            f"and y_val, got holdout={owner.holdout!r}."
        )
    if times is None and X_val is not None:
        check_future(X, X_val)
    elif times is None:
        check_sorted(X)
    codes = np.arange(num_samples(X)) if times is None else times.codes
    n = int(codes.max()) + 1
    size = horizon = 0 if X_val is not None else math.ceil(n * config.test_size)
    if X_val is not None:
        horizon = num_samples(X_val) if times is None else np.unique(times.values[times.n :]).size
    # The chain is a public fact of the holdout: other candidates must not change it.
    known = read_notes(config.ledger, Fact.CHAIN) if config.ledger is not None else []
    if known:
        return recorded_chain(known[-1]), RECORDED
    if pilot is None:
        raise ValueError(
            f"correlation='time' needs scores of a model, and {type(owner).__name__} fits none. "
            "Its scores are products of a column and the target, which need no model: with "
            "scipy.stats.zscore and the training rows in time, give correlation="
            "MarkovChain.from_scores((zscore(X_train) * zscore(y_train)[:, None]).T), or "
            "MarkovChain.from_autocorrelation_time(records)."
        )
    # What is before holdout and gap.
    before = n - size
    history = np.flatnonzero(codes < before - (math.ceil(ROOM * before) if size else 0))
    return _learned_chain(owner, pilot, X, y, history, codes[history], horizon=horizon), ""


#: Candidates whose scores the strength is read off; more are thinned out evenly.
MOST_CANDIDATES = 12

#: Share of the history next to the holdout that is left out of it: the gap is not yet known.
ROOM = 0.1


@dataclass(frozen=True)
class Pilot:
    """What reads the strength of dependence off the training side (theory G11)."""

    metric: object  # from training targets to the bounded metric
    #: Parameters of the candidates of the first search.
    candidates: list = field(default_factory=lambda: [{}])
    #: What goes to ``fit``, for all records.
    fit_params: dict = field(default_factory=dict, repr=False)


def _learned_chain(owner, pilot, X, y, history, dates, *, horizon):
    """Return the chain whose strength the candidates' scores show: an assumption (theory G11).

    ``dates``: those of the records in ``history``; means of dates are looked at.
    """
    part, targets = safe_indexing(X, history), safe_indexing(y, history)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what there is to note on it is noted later
        metric = pilot.metric(targets)
    if not metric.is_mean:
        raise UnboundedMetricError(
            f"scoring={metric.name!r} is not a mean over records, and dependence in time is "
            f"bounded for means only. Use {MEANS}."
        )
    places = np.linspace(0, len(pilot.candidates) - 1, MOST_CANDIDATES).round().astype(int)
    chosen = [pilot.candidates[place] for place in np.unique(places)]
    setting = Experiment(
        estimator=clone(owner.estimator),
        X=part,
        y=targets,
        X_holdout=None,
        y_holdout=None,
        metric=metric,
        fit_params=check_method_params(X, pilot.fit_params, indices=history),
        folds=[
            [np.flatnonzero(np.isin(dates, chosen)) for chosen in fold]
            for fold in _blocks(int(dates.max()) + 1)
        ],
    )
    tried = Parallel(n_jobs=owner.n_jobs)(
        delayed(attempt)(setting, Candidate(params)) for params in chosen
    )
    scores = [found for found, _ in tried if found is not None]
    if not scores:
        error = tried[0][1]
        raise ValueError(
            f"all {len(tried)} candidates failed in cross-validation: {cause_of([error])}\n"
            "correlation='time' learns the strength of dependence from their scores. The holdout "
            "was not queried. The first error:\n"
            f"{error}"
        )
    counts = np.bincount(dates)
    means = [np.bincount(dates, weights=s.astype(float)) / counts for s in scores]
    return MarkovChain.from_scores(np.stack(means), horizon=horizon)


def _blocks(n, n_splits=5):
    """Return contiguous folds, a hundredth of the records dropped at either side of a test."""
    gap, position = n // 100, np.arange(n)
    blocks = np.split(position, [n * k // n_splits for k in range(1, n_splits)])
    return [
        (position[(position < test[0] - gap) | (position > test[-1] + gap)], test)
        for test in blocks
        if test.size
    ]
