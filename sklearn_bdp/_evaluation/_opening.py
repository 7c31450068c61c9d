"""What searches and selectors share: dividing the data, making a holdout or reusing one.

An *owner* is an estimator with the parameters ``holdout``, ``correlation`` and ``random_state``.
"""

import dataclasses
import math
import numbers
import secrets
import warnings
from dataclasses import replace

import joblib
import numpy as np
from sklearn.base import is_classifier
from sklearn.utils import check_random_state

from sklearn_bdp._checks import caller_level, check_fraction
from sklearn_bdp._evaluation._division import divide, reuse
from sklearn_bdp._evaluation._strength import history_of, learned_chain
from sklearn_bdp._sklearn_compat import num_samples
from sklearn_bdp.correlation import (
    chain_record,
    check_correlation,
    check_declared,
    recorded_chain,
)
from sklearn_bdp.exceptions import InnerFoldsWarning
from sklearn_bdp.guards import (
    TrainingSide,
    check_copies,
    check_future,
    declaration_hints,
    tables_in,
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
    # Selectors still have some of the fields as parameters of their own.
    names = [field.name for field in dataclasses.fields(HoldoutConfig)]
    return HoldoutConfig(given, **{k: getattr(owner, k) for k in names if hasattr(owner, k)})


def check_owner(owner, X_val):
    """Check what says which holdout is meant, before any work."""
    check_declared(owner.correlation)
    if config_of(owner) is None and X_val is not None:
        raise ValueError("Give either holdout=ReusableHoldout(...) or X_val, not both.")


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


def divide_for(owner, estimator, X, y, *, X_val, y_val, groups, split=None, pilot=None):
    """Return the :class:`Division` of the owner's data; ``pilot`` serves ``correlation="time"``."""
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
        apart=X_val is not None or config is None,
    )
    assumption = ""
    if isinstance(correlation, str) and correlation == "time":
        correlation, assumption = _in_time(owner, config, X, y, X_val=X_val, pilot=pilot)
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


def _in_time(owner, config, X, y, *, X_val, pilot):
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
    size = 0 if X_val is not None else math.ceil(num_samples(X) * config.test_size)
    horizon = size if X_val is None else num_samples(X_val)
    history = history_of(X, size)
    if X_val is not None:
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
    return learned_chain(pilot, X, y, history, horizon=horizon), ""


def open_holdout(owner, division, *, split=None, metric=None, fit_params=None):
    """Return the holdout that was passed in, or a new one of the held out records.

    ``metric``: what it will be asked about; few groups may tell hardly anything about it.
    ``fit_params``: what goes to ``fit`` besides, which may hold records, too.
    """
    config, side = config_of(owner), division.side
    holdout = owner.holdout if config is None else _new_holdout(owner, config, division, split)
    if division.train is not None:
        holdout.drawn_beside(side)
    more = tuple((table, None) for table in tables_in(fit_params or {}, division.X))
    said = holdout.compare_with(replace(side, tables=(*side.tables, *more)))
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
