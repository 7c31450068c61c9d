"""Divide the data into a training set and a holdout, obeying the correlation, and open it.

An *owner* is an estimator with the parameters ``holdout``, ``correlation`` and ``random_state``.
"""

import contextlib
import copy
import numbers
import secrets
import warnings
from dataclasses import dataclass, field, replace

import joblib
import numpy as np
from sklearn.base import is_classifier
from sklearn.model_selection import (
    PredefinedSplit,
    StratifiedGroupKFold,
    StratifiedKFold,
    StratifiedShuffleSplit,
    check_cv,
)
from sklearn.utils import check_array as check_values
from sklearn.utils import check_random_state, get_tags, indexable
from sklearn.utils.validation import has_fit_parameter

from sklearn_bdp.correlation.base import CorrelationModel
from sklearn_bdp.correlation.components import Groups, check_one_kind_of_labels, check_row_order
from sklearn_bdp.correlation.dates import (
    date_numbers,
    describe_calendar_gaps,
    holds_dates,
    horizon_in_dates,
    index_dates,
    step_name,
)
from sklearn_bdp.correlation.declaration import (
    check_correlation,
    check_declared,
    declares_dates,
    declares_time_order,
)
from sklearn_bdp.correlation.node_matching import NodeMatching
from sklearn_bdp.correlation.sequences import is_chain
from sklearn_bdp.correlation.time_order import TimeOrdered
from sklearn_bdp.diagnostics.overlap import TrainingData, targets_digest
from sklearn_bdp.diagnostics.scores import CV_MIXES_DATES, CV_SPLITS_GROUPS, warn_too_few_groups
from sklearn_bdp.diagnostics.tables import (
    check_row_alignment,
    check_sequences_sorted,
    check_time_sorted,
    check_validation_is_later,
    declaration_hints,
)
from sklearn_bdp.evaluation.candidates import targets
from sklearn_bdp.exceptions import InnerFoldsWarning
from sklearn_bdp.holdout.config import HoldoutConfig, is_splitter
from sklearn_bdp.holdout.reusable import ReusableHoldout
from sklearn_bdp.ledger.ledger import Fact, read_notes
from sklearn_bdp.release.context import HoldoutContext, PastRecords
from sklearn_bdp.release.overlap_check import check_overlap
from sklearn_bdp.release.query_batch import described_targets
from sklearn_bdp.utils.sklearn_compat import (
    inside_validation,
    num_samples,
    safe_indexing,
    safe_split,
)
from sklearn_bdp.utils.validation import (
    as_frame,
    caller_level,
    check_array,
    check_fraction,
    check_label_values,
    check_supported_values,
)

_SAMPLE = 32  # training records for the dry run of a report
#: Assumption after a split that reads the labels (theory G10).
STRATIFIED = (
    "the holdout was drawn by {splitter}, which reads the labels: intervals refer to data with "
    "exactly these class proportions, not to new records"
)
#: Assumption about a validation set that the caller passes, which cannot be checked.
APART = "no record of the validation set is, or depends on, a training record"
#: Assumption about records without dates, which cannot be checked.
ROW_ORDER = "rows are in time order: neither times= nor the index holds their dates"
#: Assumption about validation records without dates, which cannot be checked.
LATER = "the validation records come after all training records, whose labels were known by then"


@dataclass(frozen=True)
class FitData:
    """Arguments of ``fit``, by their names."""

    X: object = field(repr=False)
    y: object = field(repr=False)
    X_val: object = field(default=None, repr=False)
    y_val: object = field(default=None, repr=False)
    groups: object = field(default=None, repr=False)
    groups_val: object = field(default=None, repr=False)
    times: object = field(default=None, repr=False)  # converted to numbers
    horizon: object = 1
    params: dict = field(default_factory=dict, repr=False)  # for the estimator's ``fit``
    coordinates: object = field(default=None, repr=False)  # or the columns that hold them

    def __post_init__(self):
        for name in ("X", "y", "X_val", "y_val"):
            object.__setattr__(self, name, as_frame(getattr(self, name)))
        if self.times is not None:
            object.__setattr__(self, "times", date_numbers(self.times))

    @property
    def has_horizon(self):
        """Return whether a horizon other than the default was passed."""
        return not (isinstance(self.horizon, numbers.Integral) and self.horizon == 1)

    def parts(self):
        """Return the values, for a digest."""
        return tuple(vars(self).values())

    def checked(self, owner):
        """Return the data with groups split by table, after checking that all rows match ``X``."""
        n = num_samples(self.X)
        n_validation = 0 if self.X_val is None else num_samples(self.X_val)
        groups, groups_val = labels_of_both(n, n_validation, self.groups, self.groups_val)
        check_row_alignment(
            owner, self.X, self.y, X_val=self.X_val, y_val=self.y_val, groups=groups, **self.params
        )
        weight = self.params.get("sample_weight")
        if weight is not None and num_samples(weight) != n:
            raise ValueError(
                f"sample_weight must hold one value per record, got {num_samples(weight)} for {n} "
                "records."
            )
        return replace(self, groups=groups, groups_val=groups_val)


@dataclass(frozen=True)
class Division:
    """Training set and holdout of a search."""

    X: object = field(repr=False)  # the training records
    y: object = field(repr=False)
    X_holdout: object = field(repr=False)  # the records that only the mechanism sees
    y_holdout: object = field(repr=False)
    model: CorrelationModel  # the correlation of the holdout records
    #: The correlation of the training records, for the inner folds.
    train_model: CorrelationModel | None
    #: Positions in the data given to ``fit``; ``None`` for an explicit validation set.
    train: np.ndarray | None = field(default=None, repr=False)
    holdout: np.ndarray | None = field(default=None, repr=False)
    #: Records dropped before and after a holdout that was cut from one sequence with the training
    #: set (``None`` on a side without training records).
    gap: object = None
    places: np.ndarray | None = field(default=None, repr=False)  # of the training records
    assumption: str = ""  # additional assumption for the certificate; empty if there is none
    stratified: bool = False  # whether the split read the targets
    #: Hints in the arguments at dependence that is not declared.
    hints: tuple = ()
    side: TrainingData | None = None  # training data, to compare with a given holdout
    #: In time order, all records before the holdout.
    past_records: PastRecords | None = field(default=None, repr=False)
    about: str | None = None  # digest of the targets given to ``fit``, if they are split here
    config: HoldoutConfig | None = None  # of a new holdout; ``None``: a holdout was passed
    seed: int | None = None  # of the split and of sampled candidates, if none was given
    split: dict | None = None  # digest and seed of the split, for a ledger
    groups: object = field(default=None, repr=False)  # of the training records, as given to ``fit``
    #: Of nodes: how cross-validation on the training nodes predicts the score on the holdout.
    node_matching: NodeMatching | None = field(default=None, repr=False)

    @property
    def scheme(self):
        """Return the sampling scheme of the holdout."""
        return self.model.sampling_scheme(num_samples(self.X_holdout))

    @property
    def train_scheme(self):
        """Return the sampling scheme of the training records, or None if it is not declared."""
        if self.train_model is None:
            return None
        return self.train_model.sampling_scheme(num_samples(self.X))

    def train_groups(self):
        """Return the groups of the training records, or None if they are independent."""
        scheme = self.train_scheme
        if scheme is None or scheme.has_independent_records or not scheme.has_independent_units:
            return None
        return self.train_model.components(num_samples(self.X))

    def time_ordered_dates(self):
        """Return the date number of each training record if dates are predicted from their past."""
        scheme = self.train_scheme
        if scheme is None or scheme.calendar is None:
            return None
        return scheme.record_blocks


def check_records(estimator, X, y):
    """Raise the error that the estimator's ``fit`` would raise for all records.

    ``fit`` gets the training set only. A missing value in the holdout that the estimator does not
    support would otherwise be scored as a wrong prediction.
    """
    if np.iscomplexobj(X) or (y is not None and np.iscomplexobj(y)):
        raise ValueError("Complex data not supported: X and y must be real.")
    check_supported_values("X", X)
    check_supported_values("y", y)
    nested = any(hasattr(value, "fit") for value in estimator.get_params(deep=True).values())
    tags = get_tags(estimator).input_tags
    if nested or tags.allow_nan or not (isinstance(X, np.ndarray) or hasattr(X, "iloc")):
        return  # only the fit of a pipeline shows which values it supports
    allows_text = tags.string or tags.categorical or hasattr(X, "iloc")
    check_values(
        X,
        dtype=None if allows_text else "numeric",
        ensure_2d=False,
        allow_nd=True,
        estimator=estimator,
        input_name="X",
    )


def divide(estimator, data, *, test_size, correlation, random_state):
    """Return the :class:`Division` that the owner's parameters describe."""
    if data.X_val is not None:
        return _explicit(data, correlation)
    X, y = indexable(data.X, data.y)
    groups = data.groups
    if data.y_val is not None:
        raise ValueError("y_val was given without X_val; give both or neither.")
    n = num_samples(X)
    if n < 2:
        raise ValueError(f"X must hold at least 2 records, one for each side, got n_samples={n}.")
    model = check_correlation(correlation, groups=groups)
    model.check_n(n)
    check_row_order("correlation", model, X)
    scheme = model.sampling_scheme(n)
    if model.n_records is None and not scheme.has_independent_records:  # in the order of the rows
        check_time_sorted(X)
    elif groups is not None and is_chain(correlation):
        check_sequences_sorted(X, model.components(n))
    stratified = False
    if is_splitter(test_size):
        train, test = _one_split(test_size, X, y, groups)
        _refuse_cut(model, train, test, n=n, cutter=f"holdout={test_size!r}")
        stratified = _reads_labels(test_size, X, y, groups)
    else:
        if not n * test_size >= 1:
            raise ValueError(
                f"holdout={test_size!r} leaves no records for the holdout with n_samples={n}; it "
                f"must be at least 1/{n}."
            )
        # Theory G10: never stratified or redrawn, because training labels would then depend on
        # holdout labels.
        split = model.split(n, test_size, random_state=random_state)
        train, test = split.train, split.holdout
    model = model.estimated(y, train)
    train_model = None
    with contextlib.suppress(ValueError):  # a chain with its middle held out is two chains
        train_model = model.training_part(train)
    X_train, y_train = safe_split(estimator, X, y, train)
    X_holdout, y_holdout = safe_split(estimator, X, y, test, train)
    return Division(
        X=X_train,
        y=y_train,
        X_holdout=X_holdout,
        y_holdout=targets(X_holdout, y_holdout),
        train=train,
        holdout=test,
        model=model.given_rest(test),
        train_model=train_model,
        gap=model.gaps(train, test),
        assumption=STRATIFIED.format(splitter=type(test_size).__name__) if stratified else "",
        stratified=stratified,
        past_records=_past_records(scheme, X, y, np.arange(n), test),
        node_matching=model.match_nodes(train, test),
    )


def _past_records(scheme, X, y, rows, holdout_rows):
    """Return the records among these rows of dates before the holdout, in time order."""
    if scheme.calendar is None or y is None:
        return None
    dates = scheme.record_blocks
    first_date = dates[holdout_rows].min()
    rows = rows[dates[rows] < first_date]
    rows = rows[np.argsort(dates[rows], kind="stable")]
    return PastRecords(safe_indexing(X, rows), np.asarray(y)[rows], dates[rows] - first_date)


def labels_of_both(n, n_validation, groups, groups_val):
    """Return the groups of the training records and of the validation records; None: not given.

    ``groups`` may hold those of ``X`` followed by those of ``X_val``.
    """
    for name, labels in (("groups", groups), ("groups_val", groups_val)):
        if labels is not None:
            check_one_kind_of_labels(name, labels)
    if (
        n_validation
        and groups is not None
        and groups_val is None
        and num_samples(groups) == n + n_validation
    ):
        return np.asarray(groups)[:n], np.asarray(groups)[n:]
    for name, labels, count in (("groups", groups, n), ("groups_val", groups_val, n_validation)):
        if labels is not None and num_samples(labels) != count:
            hint = f", and groups_val= for X_val, or all {n + n_validation} as groups=" * bool(
                n_validation
            )
            raise ValueError(
                f"{name} has {num_samples(labels)} labels for the {count} records of "
                f"{name.replace('groups', 'X')}. Pass groups= for X, such as X['patient']{hint}."
            )
    return groups, groups_val


def _explicit(data, correlation):
    """Return the division for a validation set that the caller passes.

    Groups and models with a number of records may describe the records of ``X`` followed by those
    of ``X_val``. In that case records of the two tables must not depend on one another.
    """
    X, y = indexable(data.X, data.y)
    X_val, y_val = indexable(data.X_val, data.y_val)
    if y_val is None and y is not None:
        raise ValueError("X_val was given without y_val; give both or neither.")
    n = num_samples(X)
    n_validation = num_samples(X_val)
    if n_validation == 0:
        raise ValueError("X_val must hold at least one record, got 0.")
    groups, groups_val = labels_of_both(n, n_validation, data.groups, data.groups_val)
    parts = correlation if isinstance(correlation, list | tuple) else [correlation]
    in_sequences = is_chain(correlation) and groups is not None
    if in_sequences or any(isinstance(part, str) for part in parts):
        if groups is None or groups_val is None:
            declaration = "a chain with groups=" if in_sequences else "correlation='groups'"
            raise ValueError(
                f"{declaration} with X_val needs labels of both parts: pass groups= and "
                f"groups_val=, or all {n + n_validation} labels as groups=."
            )
        labels = [*np.asarray(groups).tolist(), *np.asarray(groups_val).tolist()]
        has_mixed_types = len({*map(type, labels)}) > 1
        groups = np.array(labels, dtype=object if has_mixed_types else None)
    model = check_correlation(correlation, groups=groups)
    scheme = model.sampling_scheme(model.n_records or n + n_validation)
    if scheme.in_time_order and model.n_records is None:
        check_validation_is_later(X, X_val)
    sides = np.arange(n), np.arange(n, n + n_validation)
    node_matching = None
    past_records = None
    if model.n_records in (None, n + n_validation):
        past_records = _past_records(scheme, X, y, *sides)
    if model.n_records == n + n_validation:
        check_row_order("correlation", model, X, X_val)
        _refuse_cut(model, *sides, n=n + n_validation, cutter="X_val")
        if y is not None:
            model = model.estimated(np.concatenate([y, y_val]), sides[0])
        node_matching = model.match_nodes(*sides)
        train_model = model.training_part(sides[0])
        model = model.given_rest(sides[1])
        # The holdout continues the chain of the training set, without dropped records.
        assumption = APART if scheme.in_time_order and scheme.calendar is None else ""
    else:
        model.check_n(n_validation)
        # A chain of any length describes both the validation and the training records.
        train_model = model if scheme.in_time_order and model.n_records is None else None
        assumption = "" if scheme.calendar is not None else APART
    y_val = targets(X_val, y_val)
    return Division(
        X,
        y,
        X_val,
        y_val,
        model,
        train_model,
        assumption=assumption,
        past_records=past_records,
        node_matching=node_matching,
    )


def _refuse_cut(model, train, test, *, n, cutter):
    """Raise if records on both sides may depend on one another.

    Chains are contiguous, and their model accounts for a cut; networks of finite strength are split
    by nodes (theory G13).
    """
    scheme = model.sampling_scheme(n)
    if scheme.calendar is not None:
        dates = scheme.record_blocks
        if not dates[train].max() < dates[test].min():
            raise ValueError(
                f"{cutter} puts training records on or after the first date of the holdout, whose "
                "outcomes they may tell of. Hold out the last dates, as holdout=0.25 does."
            )
    n_cuts = model.cuts(train, test)
    if n_cuts:
        unit = "dependent group"
        fix = "divide whole groups, as GroupShuffleSplit does"
        if scheme.bounds_hold_given_rest:
            unit = "linked record"
            fix = "drop their neighbors from the training set"
        raise ValueError(
            f"{cutter} separates {n_cuts} {unit}{'s' * (n_cuts > 1)} ({model.describe()}): scores "
            f"on the holdout would be too high. Set holdout=0.25 instead, or {fix}."
        )


def _reads_labels(splitter, X, y, groups):
    """Return whether a splitter's split depends on the targets, as far as one permutation shows."""
    if isinstance(splitter, StratifiedShuffleSplit | StratifiedKFold | StratifiedGroupKFold):
        return True
    if y is None:
        return False
    order = np.random.default_rng(0).permutation(num_samples(y))
    try:
        test, repeated_test, permuted_test = (
            next(iter(copy.deepcopy(splitter).split(X, labels, groups)))[1]
            for labels in (y, y, safe_indexing(y, order))
        )
    except Exception:  # a custom splitter that supports these labels only
        return False
    return np.array_equal(test, repeated_test) and not np.array_equal(test, permuted_test)


def _one_split(splitter, X, y, groups):
    """Return the only split of ``splitter`` as two index arrays."""
    n_splits = splitter.get_n_splits(X, y, groups)
    if n_splits != 1:
        raise ValueError(
            "holdout must be a splitter with exactly one split (each record is held out or it is "
            f"not), got {n_splits} splits from holdout={splitter!r}. Use "
            "ShuffleSplit(n_splits=1) or a fraction; k-fold splitters belong in cv."
        )
    ((train, test),) = splitter.split(X, y, groups)
    train = np.asarray(train)
    test = np.asarray(test)
    for name, part in (("training part", train), ("holdout", test)):
        if part.size == 0:
            raise ValueError(f"holdout={splitter!r} leaves no records for the {name}.")
    if np.intersect1d(train, test).size:
        raise ValueError(f"holdout={splitter!r} puts records on both sides of the split.")
    return train, test


def inner_folds(cv, division, *, classifier):
    """Return the inner cross-validation on the training set.

    Numbers of folds obey the correlation. Index lists and ``PredefinedSplit`` refer to the data
    given to ``fit``; holdout records are dropped from them.
    """
    model = division.train_model
    if cv is None or isinstance(cv, numbers.Integral):
        if division.node_matching is not None:
            cv = division.node_matching.folds(5 if cv is None else cv)
        elif model is not None and not (
            model.n_records is None and division.train_scheme.has_independent_records
        ):
            n_splits = 5 if cv is None else cv
            cv = model.folds(num_samples(division.X), n_splits, random_state=0)
    elif division.train is not None:
        if isinstance(cv, PredefinedSplit):
            cv = PredefinedSplit(cv.test_fold[division.train])
        elif not hasattr(cv, "split"):
            pairs = list(cv) if np.iterable(cv) else [cv]
            if not (pairs and all(map(np.iterable, pairs))):
                raise ValueError(
                    "cv must be a number of folds, a splitter, or pairs of positions of training "
                    f"and test records, got cv={cv!r:.80}."
                )
            cv = [
                tuple(_within(part, division, k) for part in fold) for k, fold in enumerate(pairs)
            ]
    return check_cv(cv, division.y, classifier=classifier)


def check_folds(division, splits):
    """Raise if folds of the training set violate the declared dependence."""
    model = division.train_model
    if model is not None and any(model.cuts(train, test) for train, test in splits):
        raise CV_SPLITS_GROUPS.error()
    dates = division.time_ordered_dates()
    if dates is None:
        return
    for train, test in splits:
        first, last = dates[test].min(), dates[test].max()
        if ((dates[train] >= first) & (dates[train] <= last)).any():
            raise CV_MIXES_DATES.error()


def _within(part, division, k):
    """Return positions in the training set of records given by position in all data."""
    part = np.asarray(part)
    if not part.size or part.dtype.kind not in "biu":
        problem = f"holds {part.dtype}" if part.size else "is empty"
        raise ValueError(f"cv must hold positions of records: fold {k} (counted from 0) {problem}.")
    part = np.flatnonzero(part) if part.dtype == bool else part
    positions = np.full(np.concatenate([division.train, division.holdout, part]).max() + 1, -1)
    positions[division.train] = np.arange(division.train.size)
    train_positions = positions[part]
    train_positions = train_positions[train_positions >= 0]
    if not train_positions.size:
        raise ValueError(f"cv must have training records, fold {k} (counted from 0) has none.")
    return train_positions


def config_of(owner):
    """Return the :class:`HoldoutConfig` of ``holdout=``; None for an open holdout."""
    holdout = owner.holdout
    if isinstance(holdout, ReusableHoldout | HoldoutConfig):
        return holdout if isinstance(holdout, HoldoutConfig) else None
    if isinstance(holdout, bool) or not (isinstance(holdout, numbers.Real) or is_splitter(holdout)):
        raise TypeError(
            "holdout must be a fraction of the records, a HoldoutConfig, a splitter, a "
            f"ReusableHoldout or None, got {type(holdout).__name__}. To keep a ledger file, pass "
            "HoldoutConfig(ledger=path). To bring your own holdout records, pass X_val and y_val "
            "to fit."
        )
    if isinstance(holdout, numbers.Real):
        check_fraction("holdout", holdout)
    return HoldoutConfig(holdout)


def check_owner(owner, X_val):
    """Check ``holdout=`` before any work; return its :class:`HoldoutConfig` or None."""
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
    return config


def divide_for(owner, config, estimator, data):
    """Return the :class:`Division` of :class:`FitData` that the owner's parameters describe."""
    X = data.X
    y = data.y
    groups = data.groups
    correlation = owner.correlation
    check_label_values(y)
    alternatives = {"X_val": "holdout=ReusableHoldout(X_val, y_val)", "times": "the index of X"}
    for name, alternative in alternatives.items():
        if getattr(data, name) is not None and has_fit_parameter(estimator, name):
            raise ValueError(
                f"{name}= is ambiguous: {type(estimator).__name__}.fit has a parameter of this "
                f"name, too. Pass it as {alternative} instead. Nothing was fitted."
            )
    coordinates = data.coordinates
    if coordinates is not None:
        if isinstance(coordinates, list | tuple) and all(isinstance(c, str) for c in coordinates):
            missing = [name for name in coordinates if name not in getattr(X, "columns", ())]
            if missing:
                raise ValueError(f"coordinates must name columns of X, got {missing}.")
            coordinates = X[list(coordinates)]
        coordinates = check_array("coordinates", coordinates, shape=(num_samples(X), None))
    declared = correlation
    dependence = correlation
    if config is None and declared is None:
        dependence = owner.holdout.dependence  # describes the training records, too
        if dependence.sampling_scheme(owner.holdout.n).has_independent_records:
            declared = None
        elif groups is not None and dependence.n_records is not None:
            declared = "groups"
        else:
            declared = dependence
    splitters = getattr(owner, "cv", None), getattr(config, "test_size", None)
    hints = declaration_hints(X, correlation=declared, groups=groups, splitters=splitters)
    in_time = declares_time_order(dependence)
    if groups is not None and is_chain(dependence):
        in_time = False  # each sequence is in time order, the rows need not be
    time_assumption = ""
    if in_time or data.times is not None or data.has_horizon:
        correlation, time_assumption = correlation_in_time(owner, config, data, in_time=in_time)
    seed = secrets.randbits(31)
    split = None
    if config is None:
        division = _reused(owner, X, y, correlation, groups)
    else:
        if config.ledger is not None and owner.random_state is None:
            # The same script splits the same data in the same way, to resume after an interruption.
            name = joblib.hash((data.parts(), repr(config.test_size)), hash_name="sha1")
            notes = read_notes(config.ledger, Fact.SPLIT)
            recorded_seeds = {note["data"]: note["seed"] for note in notes}
            seed = recorded_seeds.get(name, seed)
            split = {"data": name, "seed": seed}
        division = divide(
            estimator,
            data,
            test_size=config.test_size,
            correlation=correlation,
            random_state=owner.random_state if split is None else seed,
        )
    # Model of the training records, to compare with a holdout that the caller split off.
    model = division.train_model
    if model is None and groups is not None and num_samples(groups) == num_samples(division.X):
        model = check_correlation("groups", groups=groups)
    classifier = is_classifier(estimator) and division.y is not None
    split_here = division.train is not None
    if split_here and groups is not None:
        groups = np.asarray(groups)[division.train]
    if split_here and coordinates is not None:
        coordinates = coordinates[division.train]
    return replace(
        division,
        config=config,
        hints=hints,
        seed=seed,
        split=split,
        assumption=". ".join(filter(None, (division.assumption, time_assumption))),
        about=targets_digest(X, y) if split_here and y is not None else None,
        side=TrainingData(((division.X, division.y),), train_model=model, classifier=classifier),
        groups=groups,
        places=coordinates,
    )


def correlation_in_time(owner, config, data, *, in_time):
    """Return the correlation of records in time, and the assumption about their dates.

    Dates and a horizon need records ``in_time``.
    """
    correlation = owner.correlation
    X = data.X
    X_val = data.X_val
    holdout_model = owner.holdout.dependence if config is None else None  # it describes all records
    declares = in_time and isinstance(correlation, str)
    if declares and holdout_model is not None:
        if not declares_time_order(holdout_model):
            raise ValueError(
                "correlation='time' cannot change the holdout that was passed in, whose records "
                f"are declared as: {holdout_model.describe()}. Make the holdout by a search with "
                "correlation='time', or with correlation=MarkovChain.from_scores(scores)."
            )
        correlation = None
    past = holdout_model if correlation is None else correlation
    if declares_dates(past) and holds_dates(data.groups):
        raise ValueError(
            "groups= holds dates, which correlation='time' takes as times=. Pass times= instead of "
            "groups=. The holdout was not queried."
        )
    times, dates, horizon = _dates(data) if in_time else (data.times, None, 1)
    if declares and holdout_model is None:
        if is_splitter(config.test_size):
            raise ValueError(
                "correlation='time' cuts the last records itself: give holdout a fraction, or "
                f"X_val and y_val, got holdout={owner.holdout!r}."
            )
        if times is None and X_val is not None:
            check_validation_is_later(X, X_val)
        step = "date" if dates is None else step_name(dates)
        correlation = past = TimeOrdered(horizon=horizon, step=step)
    dated = declares_dates(past)
    if not dated and (times is not None or data.has_horizon or not in_time):
        raise ValueError(
            "times=, horizon= and several records on one date have no meaning under "
            f"correlation={past!r}. Set correlation='time'."
        )
    if declares_dates(holdout_model):
        _check_before(dates, owner.holdout)
    if times is not None:
        correlation = TimeOrdered(times, horizon=past.horizon, step=past.step)
    if dates is not None:
        return correlation, describe_calendar_gaps(dates)
    if holdout_model is not None or not dated:
        return correlation, ""
    return correlation, ROW_ORDER if X_val is None else LATER


def _dates(data):
    """Return dates for the model, dates of the records as numbers, and the horizon in dates.

    They are those of ``X`` followed by those of ``X_val``. The model needs none if the rows are one
    series in time order. There are none at all if neither ``times`` nor an index holds dates.
    """
    n = num_samples(data.X)
    values = data.times
    tables = {"X": data.X} if data.X_val is None else {"X": data.X, "X_val": data.X_val}
    total = sum(map(num_samples, tables.values()))
    if values is None:
        table_dates = {name: index_dates(part, name) for name, part in tables.items()}
        if any(dates is None for dates in table_dates.values()):
            return None, None, horizon_in_dates(data.horizon, None)
        values = np.concatenate(list(table_dates.values()))
        if not any(len(np.unique(dates)) < len(dates) for dates in table_dates.values()):
            for name, part in tables.items():
                check_time_sorted(part, name)
            return None, table_dates["X"], horizon_in_dates(data.horizon, values)
    if len(values) != total:
        of = " followed by ".join(tables)
        raise ValueError(
            f"times must hold one date per record of {of}, {total}, got {len(values)}."
        )
    if data.X_val is not None and values[n:].min() <= values[:n].max():
        raise ValueError(
            "X_val must come after X, and rows of one date stay on one side, got X until "
            f"{values[:n].max()} and X_val from {values[n:].min()}."
        )
    return values, values, horizon_in_dates(data.horizon, values)


def _check_before(dates, holdout):
    """Raise if training rows with a known date are not all before a given holdout."""
    calendar = holdout.dependence.sampling_scheme(holdout.n).calendar
    first = None if calendar is None else calendar.dates
    if first is None:
        first = index_dates(holdout.X)
    if dates is None or first is None or dates.dtype.kind != first.dtype.kind:
        return
    if not dates.max() < first.min():
        raise ValueError(
            "X must hold records from before the holdout, whose labels were known before its first "
            f"outcome: the holdout begins at {first.min()}, and X has rows until {dates.max()}. "
            "Pass the training rows, such as X[search.train_indices_]. The holdout was not queried."
        )


def _reused(owner, X, y, correlation, groups):
    """Return the division in which all data are training data of the holdout passed in.

    ``correlation`` and ``groups`` describe the training records here; a chain that describes the
    holdout also describes the training records.
    """
    model = owner.holdout.dependence
    if correlation is None and groups is not None and model.n_records is not None:
        correlation = "groups"
    train_model = model if model.n_records is None else None
    if correlation is not None:
        train_model = check_correlation(correlation, groups=groups)
        train_model.check_n(num_samples(X))
    scheme = model.sampling_scheme(owner.holdout.n)
    # Training nodes of a network that is split by nodes are divided at random, declared or not.
    if train_model is None and not (
        scheme.is_conditional or hasattr(getattr(owner, "cv", None), "split")
    ):
        warnings.warn(
            "The records of this holdout are dependent, but no dependence is declared for the "
            "training records. Inner folds are drawn as if these were independent, so "
            "cross-validated scores are too high. Pass groups= to fit, correlation=, or a splitter "
            "as cv=.",
            InnerFoldsWarning,
            stacklevel=caller_level(),
        )
    node_matching = owner.holdout.context.node_matching
    if node_matching is not None and node_matching.n_train != num_samples(X):
        node_matching = None  # other training records
    return Division(
        X, y, owner.holdout.X, owner.holdout.y, model, train_model, node_matching=node_matching
    )


def open_holdout(owner, division, *, metric=None, fit_params=None):
    """Return the holdout that was passed, or a new one of the held out records.

    ``metric``: the metric to verify; a warning is given if there are too few groups for it.
    ``fit_params``: further parameters of ``fit``, which may hold records, too.
    """
    side = division.side
    holdout = owner.holdout
    sample = np.linspace(0, num_samples(division.X) - 1, _SAMPLE).astype(int)
    y = None if division.y is None else safe_indexing(division.y, sample)
    dry_run_sample = safe_indexing(division.X, sample), y
    if division.config is not None:
        # Sizes of groups before the split, or of the training set if it was not split here.
        models = [division.train_model, None if division.train is None else division.model]
        sizes = [int(model.sizes_.max()) for model in models if isinstance(model, Groups)]
        notes = {
            Fact.SPLIT: division.split,
            Fact.ASSUMPTION: division.assumption,
            Fact.TARGETS: division.about,
            Fact.TRAINING_TARGETS: described_targets(division.y),
            Fact.LARGEST_GROUP: max(sizes, default=None),
            Fact.STRATIFIED: division.stratified,
        }
        seed = owner.random_state
        if seed is not None and not isinstance(seed, numbers.Integral):
            seed = int(check_random_state(seed).randint(np.iinfo(np.int32).max))
        context = HoldoutContext(
            past_records=division.past_records,
            dry_run_sample=dry_run_sample,
            both_parts_given=True,
            node_matching=division.node_matching,
        )
        holdout = ReusableHoldout.from_config(
            division.config,
            division.X_holdout,
            division.y_holdout,
            correlation=division.model,
            gap=division.gap,
            random_state=seed,
            notes={fact: value for fact, value in notes.items() if value},
            context=context,
        )
    else:
        holdout.update_context(dry_run_sample=dry_run_sample)
    if division.train is not None:
        holdout.account.training_rows.add(side, drawn=True)
    assumption = check_overlap(holdout, side.with_tables_of(fit_params or {}))
    if assumption and assumption not in holdout.notes(Fact.ASSUMPTION):
        holdout.add_note(Fact.ASSUMPTION, assumption)
    if metric is not None:
        warn_too_few_groups(holdout)
    return holdout
