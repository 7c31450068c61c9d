"""What searches and selectors share: dividing the data, making a holdout or reusing one.

An *owner* is an estimator with the parameters ``holdout``, ``correlation`` and ``random_state``.
Under ``correlation="time"`` the strength of dependence is read off training-side scores first
(theory G11).
"""

import itertools
import math
import numbers
import secrets
import warnings
from dataclasses import dataclass, field, replace

import joblib
import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone, is_classifier
from sklearn.utils import check_random_state

from sklearn_bdp._checks import caller_level, check_fraction
from sklearn_bdp._evaluation._candidates import Candidate, Setting, attempt
from sklearn_bdp._evaluation._division import check_times, divide, reuse
from sklearn_bdp._evaluation._fits import cause_of
from sklearn_bdp._evaluation._scoring import MEANS
from sklearn_bdp._sklearn_compat import (
    check_method_params,
    inside_validation,
    num_samples,
    safe_indexing,
)
from sklearn_bdp.correlation import (
    MarkovChain,
    chain_record,
    check_correlation,
    check_declared,
    recorded_chain,
)
from sklearn_bdp.exceptions import InnerFoldsWarning, UnboundedMetricError
from sklearn_bdp.guards import (
    TrainingSide,
    check_copies,
    check_future,
    check_sorted,
    compare_dependence,
    declaration_hints,
    targets_digest,
    warn_few_groups,
)
from sklearn_bdp.holdout import (
    TARGETS,
    HoldoutConfig,
    ReusableHoldout,
    is_splitter,
)
from sklearn_bdp.ledger import read_notes

#: What a ledger calls the chain of its holdout.
CHAIN = "chain"

#: What a later search under "time" says of the chain that a ledger holds.
RECORDED = (
    "the strength of dependence is the one that the ledger recorded when the holdout was made"
)


def config_of(owner):
    """Return the :class:`HoldoutConfig` that ``holdout=`` stands for; None for an open holdout."""
    given = owner.holdout
    if isinstance(given, ReusableHoldout | HoldoutConfig):
        return given if isinstance(given, HoldoutConfig) else None
    if isinstance(given, bool) or not (isinstance(given, numbers.Real) or is_splitter(given)):
        raise TypeError(
            "holdout must be a fraction of the records, a HoldoutConfig, a splitter, a "
            f"ReusableHoldout or None, got {type(given).__name__}. To bring your own holdout "
            "records, pass X_val and y_val to fit."
        )
    if isinstance(given, numbers.Real):
        check_fraction("holdout", given)
    return HoldoutConfig(given)


def check_owner(owner, X_val):
    """Check what says which holdout is meant, before any work."""
    check_declared(owner.correlation)
    config = config_of(owner)
    if config is None and X_val is not None:
        raise ValueError("Give either holdout=ReusableHoldout(...) or X_val, not both.")
    if config is not None and config.ledger is not None and inside_validation():
        raise ValueError(
            f"ledger={str(config.ledger)!r} records one holdout, and cross-validation fits "
            f"{type(owner).__name__} with another holdout in each fold. Drop the ledger inside "
            "cross_val_score, or fit once and use final_report. Nothing was asked."
        )


def recorded_seed(owner, data):
    """Return a seed, and what a ledger records of the split drawn under it (None: nothing).

    With a ledger and ``random_state=None`` the same script divides the same data in the same way,
    so that it goes on where it stopped. A new ledger gets a new seed.
    """
    fresh = secrets.randbits(31)
    config = config_of(owner)
    if config is None or config.ledger is None or owner.random_state is not None:
        return fresh, None
    name = joblib.hash((data, repr(config.test_size)), hash_name="sha1")
    known = {note["data"]: note["seed"] for note in read_notes(config.ledger, "split")}
    seed = known.get(name, fresh)
    return seed, {"data": name, "seed": seed}


def divide_for(
    owner, estimator, X, y, *, X_val, y_val, groups, split=None, pilot=None, dates=(None, 0)
):
    """Return the :class:`Division` of the owner's data; ``pilot`` serves ``correlation="time"``.

    ``dates``: what was given as ``times=`` and ``horizon=``.
    """
    declared = correlation = owner.correlation
    config = config_of(owner)
    if config is None and declared is None:
        model = owner.holdout.model  # describes the training records, too; groups say which
        tied = groups is not None and model.n_records is not None
        declared = None if model.is_independent else "groups" if tied else model
    hints = declaration_hints(
        X,
        correlation=declared,
        groups=groups,
        splitters=[getattr(owner, "cv", None), getattr(config, "test_size", None)],
    )
    assumption = ""
    chain = owner.holdout.model if config is None and correlation is None else correlation
    times = check_times(
        estimator, X, X_val=X_val, correlation=chain, times=dates[0], horizon=dates[1]
    )
    if isinstance(correlation, str) and correlation == "time":
        correlation, assumption = _in_time(
            owner, config, X, y, X_val=X_val, pilot=pilot, times=times
        )
    if times is not None:
        chain = owner.holdout.model if correlation is None else correlation
        chain = getattr(chain, "chain", chain)  # of the dates of a panel
        correlation = times.panel(chain, held=X_val is not None)
    if config is None:
        division = _reused(owner, estimator, X, y, correlation=correlation, groups=groups)
        return replace(division, hints=hints)
    division = divide(
        estimator,
        X,
        y,
        test_size=config.test_size,
        correlation=correlation,
        groups=groups,
        X_val=X_val,
        y_val=y_val,
        random_state=owner.random_state if split is None else split["seed"],
    )
    if X_val is None and y is not None:
        division = replace(division, about=targets_digest(X, y))
    copied = check_copies(division.X, division.y, division.train_model)
    said = ". ".join(filter(None, (division.assumption, copied, assumption)))
    side = _side(estimator, division, groups)
    return replace(division, hints=hints, assumption=said, side=side)


def _side(estimator, division, groups):
    """Return the training part as a holdout sees it that the caller split off."""
    model = division.train_model
    named = groups is not None and num_samples(groups) == num_samples(division.X)
    if model is None and named:
        model = check_correlation("groups", groups=groups)
    classifier = is_classifier(estimator) and division.y is not None
    return TrainingSide(((division.X, division.y),), train_model=model, classifier=classifier)


def _reused(owner, estimator, X, y, *, correlation, groups):
    """Return the division in which all data are training data of the holdout passed in."""
    division = reuse(X, y, owner.holdout, correlation=correlation, groups=groups)
    if division.train_model is None and not hasattr(getattr(owner, "cv", None), "split"):
        warnings.warn(
            "The records of this holdout are correlated, and nothing tells how the training "
            "records are: the inner folds are drawn as if they were independent, and their "
            "scores will be too good. Give groups= to fit, correlation=, or cv= a splitter.",
            InnerFoldsWarning,
            stacklevel=caller_level(),
        )
    copied = "" if owner.holdout.allow_shared_rows else check_copies(X, y, division.train_model)
    side = _side(estimator, division, groups)
    return replace(division, side=side, assumption=copied)


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
    codes = None if times is None else times.codes
    n = num_samples(X) if codes is None else int(codes.max()) + 1
    size = 0 if X_val is not None else math.ceil(n * config.test_size)
    horizon = size
    if X_val is not None:
        horizon = num_samples(X_val) if times is None else np.unique(times.values[times.n :]).size
    history = history_of(X, size, codes)
    if X_val is not None and times is None:
        check_future(X, X_val)
    # The chain is a public fact of the holdout: other candidates must not change it.
    known = read_notes(config.ledger, CHAIN) if config.ledger is not None else []
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
    return learned_chain(pilot, X, y, history, horizon=horizon, codes=codes), ""


def open_holdout(owner, division, *, split=None, metric=None, fit_params=None):
    """Return the holdout that was passed in, or a new one of the held out records.

    ``metric``: what it will be asked about; few groups may tell hardly anything about it.
    ``fit_params``: what goes to ``fit`` besides, which may hold records, too.
    """
    config, side = config_of(owner), division.side
    holdout = owner.holdout if config is None else _new_holdout(owner, config, division, split)
    if division.train is not None:
        holdout.drawn_beside(side)
    said = holdout.compare_with(side.beside(fit_params or {}))
    if said and said not in holdout.notes("assumption"):
        holdout.note("assumption", said)
    if metric is not None:
        warn_few_groups(holdout, division, metric)
    return holdout


def _new_holdout(owner, config, division, split):
    """Return a new holdout of the held out records."""
    notes = {
        "split": split,
        "assumption": division.assumption,
        CHAIN: chain_record(division.model),
        TARGETS: division.about,
    }
    seed = owner.random_state
    if seed is not None and not isinstance(seed, numbers.Integral):
        seed = int(check_random_state(seed).randint(np.iinfo(np.int32).max))
    return ReusableHoldout(
        division.X_holdout,
        division.y_holdout,
        correlation=division.model,
        gap=division.gap,
        random_state=seed,
        notes={k: v for k, v in notes.items() if v},
        **config.parameters(),
    )


def assumed(holdout, division):
    """Return what has to be true of this split, and of the one that the holdout came from."""
    said = [division.assumption, *holdout.notes("assumption")]
    return tuple(dict.fromkeys(text for text in said if text))


#: Candidates whose scores the strength is read off; more are thinned out evenly.
MOST_CANDIDATES = 12

#: Share of the history next to the holdout that is left out of it: the gap is not yet known.
ROOM = 0.1


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


def history_of(X, holdout_size, codes=None):
    """Return the places of the records the strength is read off: those before holdout and gap.

    ``holdout_size``: records (dates, where ``codes`` numbers them) at the end that become the
    holdout; 0 if it is given apart.
    """
    if codes is None:
        check_sorted(X)
        codes = np.arange(num_samples(X))
    before = int(codes.max()) + 1 - holdout_size
    return np.flatnonzero(codes < before - (math.ceil(ROOM * before) if holdout_size else 0))


def learned_chain(pilot, X, y, history, *, horizon, codes=None):
    """Return the chain whose strength the candidates' scores show: an assumption (theory G11).

    ``codes``: the date of each record, where several share one; means of dates are looked at then.
    """
    dates = np.arange(num_samples(X)) if codes is None else codes
    dates = dates[history]
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
        folds=[[_rows(dates, part) for part in fold] for fold in _blocks(int(dates.max()) + 1)],
    )
    tried = Parallel(n_jobs=pilot.n_jobs)(
        delayed(attempt)(setting, Candidate(params)) for params in chosen
    )
    scores = [found for found, _ in tried if found is not None]
    if not scores:
        error = tried[0][1]
        raise ValueError(
            f"all {len(tried)} candidates failed in cross-validation: {cause_of([error])}\n"
            "correlation='time' reads the strength of dependence off their scores; nothing was "
            f"asked of the holdout. The first one said:\n{error}"
        )
    counts = np.bincount(dates)
    means = [np.bincount(dates, weights=s.astype(float)) / counts for s in scores]
    return MarkovChain.from_scores(np.stack(means), horizon=horizon)


def _rows(dates, chosen):
    """Return the rows of some dates."""
    return np.flatnonzero(np.isin(dates, chosen))


def _blocks(n, n_splits=5):
    """Return contiguous folds, a hundredth of the records dropped at either side of a test."""
    gap, position = n // 100, np.arange(n)
    edges = [n * k // n_splits for k in range(n_splits + 1)]
    return [
        (position[(position < low - gap) | (position >= high + gap)], position[low:high])
        for low, high in itertools.pairwise(edges)
        if high > low
    ]


def check_dependence(division, setting, params, *, folds, groups=None, known=None):
    """Compare training-side scores of a candidate with the declared correlation; warn once."""

    def score(metric, folds):
        found, _ = attempt(replace(setting, metric=metric, folds=folds), Candidate(params))
        return None if found is None else found.astype(float)

    return compare_dependence(
        division, setting.estimator, setting.metric, score, folds=folds, groups=groups, known=known
    )
