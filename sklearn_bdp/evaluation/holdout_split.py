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

from sklearn_bdp.correlation._check_correlation import check_correlation, check_declared
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
from sklearn_bdp.release.batch import check_overlap
from sklearn_bdp.release.context import HoldoutContext, PastRecords
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

_SAMPLE = 32  # training records on which a report tries models
#: What a split that looks at the labels costs (theory G10).
STRATIFIED = (
    "the holdout was drawn by {splitter}, which reads the labels: intervals refer to data with "
    "exactly these class proportions, not to new records"
)
#: What nobody can check of a validation set that the caller brings.
APART = "no record of the validation set is, or depends on, a training record"
#: What nobody can check of records without dates.
ROW_ORDER = "rows are in time order: neither times= nor the index holds their dates"
#: What nobody can check of validation records without dates.
LATER = "the validation records come after all training records, whose labels were known by then"


@dataclass(frozen=True)
class FitData:
    """What was given to ``fit``, by the names of its arguments."""

    X: object = field(repr=False)
    y: object = field(repr=False)
    X_val: object = field(default=None, repr=False)
    y_val: object = field(default=None, repr=False)
    groups: object = field(default=None, repr=False)
    groups_val: object = field(default=None, repr=False)
    times: object = field(default=None, repr=False)  # as numbers, once they are held here
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
        """Return the data with groups divided by side, where what stands beside ``X`` suits it."""
        n = num_samples(self.X)
        held = 0 if self.X_val is None else num_samples(self.X_val)
        groups, groups_val = labels_of_both(n, held, self.groups, self.groups_val)
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
    """What the search trains on, and what becomes the holdout."""

    X: object = field(repr=False)  # the training part
    y: object = field(repr=False)
    X_holdout: object = field(repr=False)  # the records that only the mechanism sees
    y_holdout: object = field(repr=False)
    model: CorrelationModel  # the correlation of the holdout records
    #: The correlation of the training records, for the inner folds.
    train_model: CorrelationModel | None
    #: Positions in the data given to ``fit``; ``None`` for an explicit validation set.
    train: np.ndarray | None = field(default=None, repr=False)
    holdout: np.ndarray | None = field(default=None, repr=False)
    #: Records dropped before and after the holdout where it was cut from one sequence with the
    #: training part (``None`` on a side without training records).
    gap: object = None
    places: np.ndarray | None = field(default=None, repr=False)  # of the training records
    assumption: str = ""  # what has to be true besides, for the certificate; empty if nothing has
    stratified: bool = False  # whether the split read the targets
    #: What the arguments say about dependence and the declared correlation does not.
    hints: tuple = ()
    side: TrainingData | None = None  # the training part, to be compared with a given holdout
    #: In time order, all records before the holdout.
    past_records: PastRecords | None = field(default=None, repr=False)
    about: str | None = None  # what the targets given to ``fit`` are known by, where they are split
    config: HoldoutConfig | None = None  # what a new holdout will be; ``None``: one was passed in
    seed: int | None = None  # of the split and of sampled candidates, where none was given
    split: dict | None = None  # what a ledger records of it
    groups: object = field(default=None, repr=False)  # of the training records, as given to ``fit``
    #: Of nodes: how cross-validation on the training nodes predicts the score on the holdout.
    node_matching: NodeMatching | None = field(default=None, repr=False)

    def train_groups(self):
        """Return the groups of the training records, or None where they are independent."""
        model = self.train_model
        if model is None or model.is_independent or not model.is_componentwise:
            return None
        return model.components(num_samples(self.X))

    def time_ordered_dates(self):
        """Return the number of each training record's date if dates are judged given their past."""
        model = self.train_model
        if model is None or not model.is_time_ordered:
            return None
        return getattr(model, "codes_", np.arange(num_samples(self.X)))


def check_records(estimator, X, y):
    """Raise what the estimator's ``fit`` would raise if it were given all records.

    It is given the training part only; a missing value that the estimator cannot take would
    otherwise go unnoticed in the holdout and be scored as a wrong prediction.
    """
    if np.iscomplexobj(X) or (y is not None and np.iscomplexobj(y)):
        raise ValueError("Complex data not supported: X and y must be real.")
    check_supported_values("X", X)
    check_supported_values("y", y)
    nested = any(hasattr(value, "fit") for value in estimator.get_params(deep=True).values())
    tags = get_tags(estimator).input_tags
    if nested or tags.allow_nan or not (isinstance(X, np.ndarray) or hasattr(X, "iloc")):
        return  # what a pipeline takes only its fit can tell
    words = tags.string or tags.categorical or hasattr(X, "iloc")
    form = {"dtype": None if words else "numeric", "ensure_2d": False, "allow_nd": True}
    check_values(X, **form, estimator=estimator, input_name="X")


def divide(estimator, data, *, test_size, correlation, random_state):
    """Return the :class:`Division` that the owner's parameters describe."""
    if data.X_val is not None:
        return _explicit(data, correlation)
    (X, y), groups = indexable(data.X, data.y), data.groups
    if data.y_val is not None:
        raise ValueError("y_val was given without X_val; give both or neither.")
    n = num_samples(X)
    if n < 2:
        raise ValueError(f"X must hold at least 2 records, one for each side, got n_samples={n}.")
    model = check_correlation(correlation, groups=groups)
    model.check_n(n)
    check_row_order("correlation", model, X)
    if model.n_records is None and not model.is_independent:  # in the order of the rows
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
        # Theory G10: never stratified or drawn again, or training labels would tell of the others.
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
        past_records=_past_records(model, X, y, np.arange(n), test),
        node_matching=model.match_nodes(train, test),
    )


def _past_records(model, X, y, rows, held):
    """Return the records among these rows of dates before the holdout, in time order."""
    if not model.is_time_ordered or y is None:
        return None
    dates = getattr(model, "codes_", np.arange(len(rows) + len(held)))
    first = dates[held].min()
    rows = rows[dates[rows] < first]
    rows = rows[np.argsort(dates[rows], kind="stable")]
    return PastRecords(safe_indexing(X, rows), np.asarray(y)[rows], dates[rows] - first)


def labels_of_both(n, held, groups, groups_val):
    """Return the groups of the training records and of the validation records; None: not given.

    ``groups`` may hold both, one after the other.
    """
    for name, labels in (("groups", groups), ("groups_val", groups_val)):
        if labels is not None:
            check_one_kind_of_labels(name, labels)
    if held and groups is not None and groups_val is None and num_samples(groups) == n + held:
        return np.asarray(groups)[:n], np.asarray(groups)[n:]
    for name, labels, count in (("groups", groups, n), ("groups_val", groups_val, held)):
        if labels is not None and num_samples(labels) != count:
            both = f", and groups_val= for X_val, or all {n + held} as groups=" * bool(held)
            raise ValueError(
                f"{name} has {num_samples(labels)} labels for the {count} records of "
                f"{name.replace('groups', 'X')}. Pass groups= for X, such as X['patient']{both}."
            )
    return groups, groups_val


def _explicit(data, correlation):
    """Return the division for a validation set that the caller brings.

    Groups, and models of so many records, may describe the records of ``X`` followed by those of
    ``X_val``: then it is checked that nothing ties one side to the other.
    """
    (X, y), (X_val, y_val) = indexable(data.X, data.y), indexable(data.X_val, data.y_val)
    if y_val is None and y is not None:
        raise ValueError("X_val was given without y_val; give both or neither.")
    n, held = num_samples(X), num_samples(X_val)
    if held == 0:
        raise ValueError("X_val must hold at least one record, got 0.")
    groups, groups_val = labels_of_both(n, held, data.groups, data.groups_val)
    parts = correlation if isinstance(correlation, list | tuple) else [correlation]
    in_sequences = is_chain(correlation) and groups is not None
    if in_sequences or any(isinstance(part, str) for part in parts):
        if groups is None or groups_val is None:
            what = "a chain with groups=" if in_sequences else "correlation='groups'"
            raise ValueError(
                f"{what} with X_val needs labels of both parts: pass groups= and groups_val=, or "
                f"all {n + held} labels as groups=."
            )
        both = [*np.asarray(groups).tolist(), *np.asarray(groups_val).tolist()]
        groups = np.array(both, dtype=object) if len({*map(type, both)}) > 1 else np.array(both)
    model = check_correlation(correlation, groups=groups)
    if model.is_sequential and model.n_records is None:
        check_validation_is_later(X, X_val)
    sides = np.arange(n), np.arange(n, n + held)
    node_matching = None
    past_records = None
    if model.is_time_ordered and model.n_records in (None, n + held):
        past_records = _past_records(model, X, y, *sides)
    if model.n_records == n + held:
        check_row_order("correlation", model, X, X_val)
        _refuse_cut(model, *sides, n=n + held, cutter="X_val")
        if y is not None:
            model = model.estimated(np.concatenate([y, y_val]), sides[0])
        node_matching = model.match_nodes(*sides)
        train_model, model = model.training_part(sides[0]), model.given_rest(sides[1])
        # Dates of one chain go on from side to side; nothing is dropped between them.
        assumption = APART if model.is_sequential and not model.is_time_ordered else ""
    else:
        model.check_n(held)
        # A chain of any length that the validation records follow: the training records, too.
        train_model = model if model.is_sequential and model.n_records is None else None
        assumption = "" if model.is_time_ordered else APART
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
    """Raise where records that may depend on each other are on both sides.

    Chains are contiguous, and say themselves what a cut costs; networks of finite strength are
    split by nodes (theory G13).
    """
    if model.is_time_ordered:
        dates = getattr(model, "codes_", np.arange(n))
        if not dates[train].max() < dates[test].min():
            raise ValueError(
                f"{cutter} puts training records on or after the first date of the holdout, whose "
                "outcomes they may tell of. Hold out the last dates, as holdout=0.25 does."
            )
    both = model.cuts(train, test)
    if both:
        what, how = "dependent group", "divide whole groups, as GroupShuffleSplit does"
        if model.holds_given_rest:
            what, how = "linked record", "drop their neighbors from the training set"
        raise ValueError(
            f"{cutter} separates {both} {what}{'s' * (both > 1)} ({model.describe()}): scores on "
            f"the holdout would be too high. Set holdout=0.25 instead, or {how}."
        )


def _reads_labels(splitter, X, y, groups):
    """Return whether a splitter's split depends on the targets, as far as can be told."""
    if isinstance(splitter, StratifiedShuffleSplit | StratifiedKFold | StratifiedGroupKFold):
        return True
    if y is None:
        return False
    order = np.random.default_rng(0).permutation(num_samples(y))
    try:
        first, again, other = (
            next(iter(copy.deepcopy(splitter).split(X, labels, groups)))[1]
            for labels in (y, y, safe_indexing(y, order))
        )
    except Exception:  # a splitter of the caller's that takes these labels only
        return False
    return np.array_equal(first, again) and not np.array_equal(first, other)


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
    train, test = np.asarray(train), np.asarray(test)
    for name, part in (("training part", train), ("holdout", test)):
        if part.size == 0:
            raise ValueError(f"holdout={splitter!r} leaves no records for the {name}.")
    if np.intersect1d(train, test).size:
        raise ValueError(f"holdout={splitter!r} puts records on both sides of the split.")
    return train, test


def inner_folds(cv, division, *, classifier):
    """Return the inner cross-validation on the training part.

    Numbers obey the correlation. Index lists and ``PredefinedSplit`` speak of the data given to
    ``fit``: what is held out drops out of them.
    """
    model = division.train_model
    if cv is None or isinstance(cv, numbers.Integral):
        if division.node_matching is not None:
            cv = division.node_matching.folds(5 if cv is None else cv)
        elif model is not None and not (model.is_independent and model.n_records is None):
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
    """Raise where folds of the training set break the declared dependence."""
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
    """Return positions in the training part of records given by position in all data."""
    part = np.asarray(part)
    if not part.size or part.dtype.kind not in "biu":
        got = f"holds {part.dtype}" if part.size else "is empty"
        raise ValueError(f"cv must hold positions of records: fold {k} (counted from 0) {got}.")
    part = np.flatnonzero(part) if part.dtype == bool else part
    places = np.full(np.concatenate([division.train, division.holdout, part]).max() + 1, -1)
    places[division.train] = np.arange(division.train.size)
    inside = places[part]
    inside = inside[inside >= 0]
    if not inside.size:
        raise ValueError(f"cv must have training records, fold {k} (counted from 0) has none.")
    return inside


def config_of(owner):
    """Return the :class:`HoldoutConfig` that ``holdout=`` stands for; None for an open holdout."""
    given = owner.holdout
    if isinstance(given, ReusableHoldout | HoldoutConfig):
        return given if isinstance(given, HoldoutConfig) else None
    if isinstance(given, bool) or not (isinstance(given, numbers.Real) or is_splitter(given)):
        raise TypeError(
            "holdout must be a fraction of the records, a HoldoutConfig, a splitter, a "
            f"ReusableHoldout or None, got {type(given).__name__}. To keep a ledger file, pass "
            "HoldoutConfig(ledger=path). To bring your own holdout records, pass X_val and y_val "
            "to fit."
        )
    if isinstance(given, numbers.Real):
        check_fraction("holdout", given)
    return HoldoutConfig(given)


def check_owner(owner, X_val):
    """Check which holdout is meant, before any work; return its :class:`HoldoutConfig` or None."""
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
    X, y, groups, places, correlation = data.X, data.y, data.groups, None, owner.correlation
    check_label_values(y)
    instead = {"X_val": "holdout=ReusableHoldout(X_val, y_val)", "times": "the index of X"}
    for name, place in instead.items():
        if getattr(data, name) is not None and has_fit_parameter(estimator, name):
            raise ValueError(
                f"{name}= is ambiguous: {type(estimator).__name__}.fit has a parameter of this "
                f"name, too. Pass it as {place} instead. Nothing was fitted."
            )
    if data.coordinates is not None:
        places = data.coordinates
        if isinstance(places, list | tuple) and all(isinstance(name, str) for name in places):
            missing = [name for name in places if name not in getattr(X, "columns", ())]
            if missing:
                raise ValueError(f"coordinates must name columns of X, got {missing}.")
            places = X[list(places)]
        places = check_array("coordinates", places, shape=(num_samples(X), None))
    declared = given = correlation
    if config is None and declared is None:
        given = owner.holdout.dependence  # describes the training records, too; groups say which
        tied = groups is not None and given.n_records is not None
        declared = None if given.is_independent else "groups" if tied else given
    splitters = getattr(owner, "cv", None), getattr(config, "test_size", None)
    hints = declaration_hints(X, correlation=declared, groups=groups, splitters=splitters)
    in_time = given == "time" if isinstance(given, str) else getattr(given, "is_sequential", False)
    if groups is not None and is_chain(given):
        in_time = False  # each sequence is in time order, the rows need not be
    said = ""
    if in_time or data.times is not None or data.has_horizon:
        correlation, said = correlation_in_time(owner, config, data, in_time=in_time)
    seed, split = secrets.randbits(31), None
    if config is None:
        division = _reused(owner, X, y, correlation, groups)
    else:
        if config.ledger is not None and owner.random_state is None:
            # The same script divides the same data in the same way, and goes on where it stopped.
            name = joblib.hash((data.parts(), repr(config.test_size)), hash_name="sha1")
            known = {note["data"]: note["seed"] for note in read_notes(config.ledger, Fact.SPLIT)}
            seed = known.get(name, seed)
            split = {"data": name, "seed": seed}
        how = {"test_size": config.test_size, "correlation": correlation}
        drawn = owner.random_state if split is None else split["seed"]
        division = divide(estimator, data, **how, random_state=drawn)
    # The training records as a holdout sees them that the caller split off.
    model = division.train_model
    if model is None and groups is not None and num_samples(groups) == num_samples(division.X):
        model = check_correlation("groups", groups=groups)
    classifier = is_classifier(estimator) and division.y is not None
    split_here = division.train is not None
    known = {"config": config, "hints": hints, "seed": seed, "split": split}
    return replace(
        division,
        assumption=". ".join(filter(None, (division.assumption, said))),
        about=targets_digest(X, y) if split_here and y is not None else None,
        side=TrainingData(((division.X, division.y),), train_model=model, classifier=classifier),
        groups=np.asarray(groups)[division.train] if split_here and groups is not None else groups,
        places=places[division.train] if split_here and places is not None else places,
        **known,
    )


def correlation_in_time(owner, config, data, *, in_time):
    """Return the correlation of records in time, and what the certificate says of their dates.

    Dates and a horizon need records ``in_time``.
    """
    correlation, X, X_val = owner.correlation, data.X, data.X_val
    given = owner.holdout.dependence if config is None else None  # it describes all records
    declares = in_time and isinstance(correlation, str)
    if declares and given is not None:
        if not given.is_sequential:
            raise ValueError(
                "correlation='time' cannot change the holdout that was passed in, whose records "
                f"are declared as: {given.describe()}. Make the holdout by a search with "
                "correlation='time', or with correlation=MarkovChain.from_scores(scores)."
            )
        correlation = None
    past = given if correlation is None else correlation
    if getattr(past, "is_time_ordered", past == "time") and holds_dates(data.groups):
        raise ValueError(
            "groups= holds dates, which correlation='time' takes as times=. Pass times= instead of "
            "groups=. The holdout was not queried."
        )
    times, dates, horizon = _dates(data) if in_time else (data.times, None, 1)
    if declares and given is None:
        if is_splitter(config.test_size):
            raise ValueError(
                "correlation='time' cuts the last records itself: give holdout a fraction, or "
                f"X_val and y_val, got holdout={owner.holdout!r}."
            )
        if times is None and X_val is not None:
            check_validation_is_later(X, X_val)
        step = "date" if dates is None else step_name(dates)
        correlation = past = TimeOrdered(horizon=horizon, step=step)
    dated = getattr(past, "is_time_ordered", False)
    if not dated and (times is not None or data.has_horizon or not in_time):
        raise ValueError(
            "times=, horizon= and several records on one date have no meaning under "
            f"correlation={past!r}. Set correlation='time'."
        )
    if given is not None and given.is_time_ordered:
        _check_before(dates, owner.holdout)
    if times is not None:
        correlation = TimeOrdered(times, horizon=past.horizon, step=past.step)
    if dates is not None:
        return correlation, describe_calendar_gaps(dates)
    if given is not None or not dated:
        return correlation, ""
    return correlation, ROW_ORDER if X_val is None else LATER


def _dates(data):
    """Return dates for the model, dates of the records as numbers, and the horizon in dates.

    They are those of ``X`` followed by those of ``X_val``. The model needs none if the rows are one
    series in time order. There are none at all if neither ``times`` nor an index holds dates.
    """
    n, values = num_samples(data.X), data.times
    both = {"X": data.X} if data.X_val is None else {"X": data.X, "X_val": data.X_val}
    total = sum(map(num_samples, both.values()))
    if values is None:
        found = {name: index_dates(part, name) for name, part in both.items()}
        if any(dates is None for dates in found.values()):
            return None, None, horizon_in_dates(data.horizon, None)
        values = np.concatenate(list(found.values()))
        if not any(len(np.unique(dates)) < len(dates) for dates in found.values()):
            for name, part in both.items():
                check_time_sorted(part, name)
            return None, found["X"], horizon_in_dates(data.horizon, values)
    if len(values) != total:
        of = " followed by ".join(both)
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
    """Raise where training rows of a known date are not all before a given holdout."""
    first = getattr(holdout.dependence, "dates_", None)
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

    ``correlation`` and ``groups`` describe the training records here; a chain that the holdout
    follows is taken for the training records too.
    """
    model = owner.holdout.dependence
    if correlation is None and groups is not None and model.n_records is not None:
        correlation = "groups"
    train_model = model if model.n_records is None else None
    if correlation is not None:
        train_model = check_correlation(correlation, groups=groups)
        train_model.check_n(num_samples(X))
    # Training nodes of a network that is split by nodes are divided at random, declared or not.
    if train_model is None and not (
        model.is_given_rest or hasattr(getattr(owner, "cv", None), "split")
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
    """Return the holdout that was passed in, or a new one of the held out records.

    ``metric``: what it will be asked about; few groups may tell hardly anything about it.
    ``fit_params``: what goes to ``fit`` besides, which may hold records, too.
    """
    side, holdout = division.side, owner.holdout
    some = np.linspace(0, num_samples(division.X) - 1, _SAMPLE).astype(int)
    y = None if division.y is None else safe_indexing(division.y, some)
    dry_run_sample = safe_indexing(division.X, some), y
    if division.config is not None:
        # Sizes of groups before the split; of training data that came alone.
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
            notes={k: v for k, v in notes.items() if v},
            context=context,
        )
    else:
        holdout.update_context(dry_run_sample=dry_run_sample)
    if division.train is not None:
        holdout.account.training_rows.add(side, drawn=True)
    said = check_overlap(holdout, side.with_tables_of(fit_params or {}))
    if said and said not in holdout.notes(Fact.ASSUMPTION):
        holdout.add_note(Fact.ASSUMPTION, said)
    if metric is not None:
        warn_too_few_groups(holdout)
    return holdout
