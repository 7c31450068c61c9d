"""Divide the data into a training part and a holdout, obeying the correlation."""

import copy
from dataclasses import dataclass, field

import numpy as np
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold, StratifiedShuffleSplit
from sklearn.utils import assert_all_finite, get_tags, indexable
from sklearn.utils.validation import has_fit_parameter

from sklearn_bdp._checks import check_integer, check_kind
from sklearn_bdp._sklearn_compat import num_samples, safe_indexing, safe_split
from sklearn_bdp.correlation import CorrelationModel, Panel, check_correlation, date_numbers
from sklearn_bdp.guards import TrainingSide, check_future, check_sorted, is_dates
from sklearn_bdp.holdout import is_splitter

#: What a split that looks at the labels costs (theory G10).
STRATIFIED = (
    "the holdout was drawn by {splitter}, which reads the labels: intervals speak of data with "
    "exactly these class proportions, not of fresh records"
)
#: What nobody can check of a validation set that the caller brings.
APART = "no record of the validation set is, or depends on, a training record"

#: Labels, or types of targets, that a message lists.
_SHOWN = 3


@dataclass(frozen=True)
class Division:
    """What the search trains on, and what becomes the holdout."""

    X: object = field(repr=False)  # the training part
    y: object = field(repr=False)
    X_holdout: object = field(repr=False)  # the records that only the mechanism sees
    y_holdout: object = field(repr=False)
    #: Positions in the data given to ``fit``; ``None`` for an explicit validation set.
    train: np.ndarray | None = field(repr=False)
    holdout: np.ndarray | None = field(repr=False)
    model: CorrelationModel  # the correlation of the holdout records
    #: The correlation of the training records, for the inner folds.
    train_model: CorrelationModel | None
    #: Records dropped before and after the holdout where it was cut from one sequence with the
    #: training part (``None`` on a side without training records).
    gap: object = None
    assumption: str = ""  # what has to be true besides, for the certificate; empty if nothing has
    #: What the arguments say about dependence and the declared correlation does not.
    hints: tuple = ()
    side: TrainingSide | None = None  # the training part, to be compared with a given holdout
    about: str | None = None  # what the targets given to ``fit`` are known by, where they are split

    def train_groups(self):
        """Return the groups of the training records, or None where they are independent."""
        model = self.train_model
        if model is None or model.is_independent or not model.is_componentwise:
            return None
        return model.components(num_samples(self.X))


def targets(X, y):
    """Return ``y``, or zeros in the place of targets that nobody needs."""
    return np.zeros(num_samples(X)) if y is None else y


def check_records(estimator, X, y):
    """Raise what the estimator's ``fit`` would raise if it were given all records.

    It is given the training part only; a missing value that the estimator cannot take would
    otherwise go unnoticed in the holdout and be scored as a wrong prediction.
    """
    if np.iscomplexobj(X) or (y is not None and np.iscomplexobj(y)):
        raise ValueError("Complex data not supported: X and y must be real.")
    check_kind("X", X)
    check_kind("y", y)
    nested = any(hasattr(value, "fit") for value in estimator.get_params(deep=True).values())
    if nested or not isinstance(X, np.ndarray):  # what a pipeline takes only its fit can tell
        return
    tags = get_tags(estimator).input_tags
    if X.dtype == object and not (tags.string or tags.categorical):
        X = X.astype(float)
    if X.dtype.kind == "f" and not tags.allow_nan:
        assert_all_finite(X, estimator_name=type(estimator).__name__, input_name="X")


def divide(estimator, X, y, *, test_size, correlation, groups, X_val, y_val, random_state):
    """Return the :class:`Division` that the arguments of the search describe."""
    X, y = indexable(X, y)
    if X_val is not None:
        return _explicit(X, y, X_val, y_val, correlation, groups)
    if y_val is not None:
        raise ValueError("y_val was given without X_val; give both or neither.")
    n = num_samples(X)
    if n < 2:
        raise ValueError(f"X must hold at least 2 records, one for each side, got n_samples={n}.")
    model = check_correlation(correlation, groups=groups)
    model.check_n(n)
    if model.is_sequential and model.n_records is None:
        check_sorted(X)
    assumption = ""
    if is_splitter(test_size):
        train, test = _one_split(test_size, X, y, groups)
        _refuse_cut(model, train, test, n=n, cutter=f"holdout={test_size!r}")
        if _reads_labels(test_size, X, y, groups):
            assumption = STRATIFIED.format(splitter=type(test_size).__name__)
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
        train_model=_training_model(model, train),
        gap=model.gaps(train, test),
        assumption=assumption,
    )


def reuse(X, y, holdout, *, correlation, groups):
    """Return the division in which all given data are training data of an existing holdout.

    ``correlation`` and ``groups`` describe the training records here; a chain that the holdout
    follows is taken for the training records too.
    """
    if correlation is None and groups is not None and holdout.model.n_records is not None:
        correlation = "groups"
    if correlation is not None:
        train_model = check_correlation(correlation, groups=groups)
        train_model.check_n(num_samples(X))
    else:
        train_model = holdout.model if holdout.model.n_records is None else None
    return Division(
        X=X,
        y=y,
        X_holdout=holdout.X,
        y_holdout=holdout.y,
        train=None,
        holdout=None,
        model=holdout.model,
        train_model=train_model,
    )


def _explicit(X, y, X_val, y_val, correlation, groups):
    """Return the division for a validation set that the caller brings.

    Groups, and models of so many records, may describe the records of ``X`` followed by those of
    ``X_val``: then it is checked that nothing ties one side to the other.
    """
    if y_val is None and y is not None:
        raise ValueError("X_val was given without y_val; give both or neither.")
    X_val, y_val = indexable(X_val, y_val)
    n, held = num_samples(X), num_samples(X_val)
    if held == 0:
        raise ValueError("X_val must hold at least one record, got 0.")
    together = isinstance(correlation, str) and groups is not None and len(groups) == n + held
    if isinstance(correlation, str) and not together:
        raise ValueError(
            "correlation='groups' with X_val takes groups= of the records of X followed by those "
            f"of X_val, {n + held} labels, got {0 if groups is None else len(groups)}; or give "
            "correlation=Groups(labels of the validation records)."
        )
    model = check_correlation(correlation, groups=groups)
    if model.is_sequential and model.n_records is None:
        check_future(X, X_val)
    if model.n_records == n + held:
        sides = np.arange(n), np.arange(n, n + held)
        _refuse_cut(model, *sides, n=n + held, cutter="X_val")
        if y is not None:
            model = model.estimated(np.concatenate([y, y_val]), sides[0])
        train_model, model = _training_model(model, sides[0]), model.given_rest(sides[1])
        assumption = ""
    else:
        model.check_n(held)
        # A chain of any length that the validation records follow: the training records, too.
        train_model = model if model.is_sequential and model.n_records is None else None
        assumption = APART
    return Division(
        X=X,
        y=y,
        X_holdout=X_val,
        y_holdout=targets(X_val, y_val),
        train=None,
        holdout=None,
        model=model,
        train_model=train_model,
        assumption=assumption,
    )


def _refuse_cut(model, train, test, *, n, cutter):
    """Raise where records that may depend on each other are on both sides.

    Chains are contiguous, and say themselves what a cut costs; networks of finite strength are
    split by nodes (theory G13).
    """
    if model.n_records is None or model.holds_given_rest or model.is_sequential:
        return
    codes = model.components(n)
    both = np.intersect1d(codes[train], codes[test]).size
    if both:
        used = np.unique(codes[np.concatenate([train, test])]).size
        raise ValueError(
            f"{cutter} puts {both} of {used} groups of records that may depend on each other on "
            f"both sides of the split ({model.describe()}): the holdout would repeat what the "
            "training part knows. Keep groups whole, as holdout=0.25 does, or use "
            "GroupShuffleSplit(n_splits=1) with groups=."
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


def _training_model(model, train):
    """Return the correlation of the training records, or None where it has no plain form."""
    try:
        return model.given_rest(train)
    except ValueError:  # a chain with the holdout cut out of its middle is two chains
        return None


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


def check_times(estimator, X, *, X_val, correlation, times, horizon):
    """Return the :class:`Times` of the records, or None where rows are one series in order."""
    model = isinstance(correlation, CorrelationModel) and correlation.is_sequential
    in_time = model or (isinstance(correlation, str) and correlation == "time")
    horizon = check_integer("horizon", horizon, low=0)
    if times is not None and has_fit_parameter(estimator, "times"):
        raise ValueError(
            f"times= is a parameter of {type(estimator).__name__}.fit and of the search. Put dates "
            "into the index of X (a DatetimeIndex or a date level of a MultiIndex) instead."
        )
    if not in_time:
        if times is not None or horizon:
            raise ValueError(
                "times= and horizon= need records in time, got "
                f"correlation={correlation!r}. Set correlation='time'."
            )
        return None
    n = num_samples(X)
    both = [X] if X_val is None else [X, X_val]
    if times is None:
        found = [_of_index(part) for part in both]
        if any(part is None for part in found):
            if not horizon:
                return None
            found = np.split(np.arange(sum(map(num_samples, both))), [n])[: len(both)]
        values = np.concatenate([date_numbers(part) for part in found])
    else:
        values = date_numbers(times)
    total = sum(map(num_samples, both))
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
    return Times(values, n, horizon)


def _of_index(X):
    """Return the dates of an index where several rows share one, or None."""
    index = getattr(X, "index", None)
    if hasattr(index, "levels"):
        levels = [k for k, level in enumerate(index.levels) if is_dates(level)]
        return index.get_level_values(levels[0]) if len(levels) == 1 else None
    return index if is_dates(index) and index.has_duplicates else None
