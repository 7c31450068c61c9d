"""Division of the data into a training set and a holdout that obeys the declared dependence.

A meta-estimator is an estimator with the parameters ``holdout``, ``correlation`` and
``random_state``: a search, a selector or a filter.
"""

import copy
import secrets
import warnings
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
from sklearn.base import is_classifier
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold, StratifiedShuffleSplit
from sklearn.utils import indexable
from sklearn.utils.validation import has_fit_parameter

from sklearn_bdp.correlation.base import CorrelationModel
from sklearn_bdp.correlation.components import check_row_order
from sklearn_bdp.correlation.cutting import gaps_to_training, match_nodes, n_split_components
from sklearn_bdp.correlation.declaration import check_correlation, declares_time_order
from sklearn_bdp.correlation.node_matching import NodeMatching
from sklearn_bdp.correlation.scheme import SamplingScheme
from sklearn_bdp.correlation.sequences import is_chain
from sklearn_bdp.diagnostics.overlap import TrainingData, targets_digest
from sklearn_bdp.diagnostics.tables import (
    check_sequences_sorted,
    check_time_sorted,
    check_validation_is_later,
    declaration_hints,
)
from sklearn_bdp.evaluation.candidates import targets
from sklearn_bdp.evaluation.declared_dates import resolve_dates
from sklearn_bdp.evaluation.fit_data import groups_by_table
from sklearn_bdp.exceptions import InnerFoldsWarning
from sklearn_bdp.holdout.config import HoldoutConfig, is_splitter
from sklearn_bdp.ledger.ledger import Fact, read_notes
from sklearn_bdp.release.context import PastRecords
from sklearn_bdp.utils.hashing import pickle_digest
from sklearn_bdp.utils.sklearn_compat import num_samples, safe_indexing, safe_split
from sklearn_bdp.utils.validation import caller_level, check_array, check_label_values

#: Assumption after a split that reads the labels (theory G10).
STRATIFIED = (
    "the holdout was drawn by {splitter}, which reads the labels: intervals refer to data with "
    "exactly these class proportions, not to new records"
)
#: Assumption about a validation set that the caller passes, which cannot be checked.
APART = "no record of the validation set is, or depends on, a training record"


@dataclass(frozen=True)
class HoldoutSplit:
    """Training set and holdout of a search.

    :meth:`from_data` divides the data of ``fit``, :meth:`from_validation_set` takes the validation
    set of the caller, and :meth:`from_existing_holdout` continues with an open holdout.
    """

    X: object = field(repr=False)  # the training records
    y: object = field(repr=False)
    X_holdout: object = field(repr=False)  # the records that only the mechanism sees
    y_holdout: object = field(repr=False)
    model: CorrelationModel  # of the holdout records
    train_model: CorrelationModel | None  # of the training records, for the inner folds
    #: Positions in the data given to ``fit``; ``None`` for an explicit validation set.
    train: np.ndarray | None = field(default=None, repr=False)
    holdout: np.ndarray | None = field(default=None, repr=False)
    #: Records dropped before and after a holdout that was cut from one sequence with the training
    #: set (``None`` on a side without training records).
    gap: object = None
    coordinates: np.ndarray | None = field(default=None, repr=False)  # of the training records
    assumption: str = ""  # additional assumption for the certificate; empty if there is none
    stratified: bool = False  # whether the split read the targets
    #: Hints in the arguments at dependence that is not declared.
    hints: tuple = ()
    training_data: TrainingData | None = None  # to compare with the holdout
    #: In time order, all records before the holdout.
    past_records: PastRecords | None = field(default=None, repr=False)
    targets_digest: str | None = None  # of the targets given to ``fit``, if they are split here
    config: HoldoutConfig | None = None  # of a new holdout; ``None``: a holdout was passed
    seed: int | None = None  # of the split and of sampled candidates, if none was given
    split_note: dict | None = None  # digest and seed of the split, for a ledger
    groups: object = field(default=None, repr=False)  # of the training records, as given to ``fit``
    #: Of nodes: how cross-validation on the training nodes predicts the score on the holdout.
    node_matching: NodeMatching | None = field(default=None, repr=False)

    @classmethod
    def from_data(cls, estimator, data, *, test_size, correlation, random_state) -> Self:
        """Return a split of the data of ``fit``.

        Parameters
        ----------
        estimator : estimator
            Its tags state whether ``X`` holds pairwise distances.
        data : FitData
            Records without a validation set.
        test_size : float or splitter
            Fraction of the records, or a splitter with one split.
        correlation : object
            Declared dependence, as for :func:`~sklearn_bdp.correlation.check_correlation`.
        random_state : None, int or numpy.random.RandomState
            Source of a random split.
        """
        X, y = indexable(data.X, data.y)
        if data.y_val is not None:
            raise ValueError("y_val was given without X_val; give both or neither.")
        n = num_samples(X)
        if n < 2:
            raise ValueError(
                f"X must hold at least 2 records, one for each side, got n_samples={n}."
            )
        model = check_correlation(correlation, groups=data.groups)
        model.check_n(n)
        scheme = model.sampling_scheme(n)
        _check_order_of_rows(model, scheme, X, data.groups, correlation)
        stratified = False
        if is_splitter(test_size):
            train, test = _one_split(test_size, X, y, data.groups)
            _check_split(model, scheme, train, test, divider=f"holdout={test_size!r}")
            stratified = _reads_labels(test_size, X, y, data.groups)
        else:
            # Theory G10: never stratified or redrawn, because training labels would then depend on
            # holdout labels.
            train, test = _random_split(model, n, test_size, random_state)
        model = model.with_estimated_strength(y, train)
        X_train, y_train = safe_split(estimator, X, y, train)
        X_holdout, y_holdout = safe_split(estimator, X, y, test, train)
        return cls(
            X=X_train,
            y=y_train,
            X_holdout=X_holdout,
            y_holdout=targets(X_holdout, y_holdout),
            train=train,
            holdout=test,
            model=model.conditional_on_rest(test),
            train_model=_model_of_training_set(model, train),
            gap=gaps_to_training(model, train, test),
            assumption=STRATIFIED.format(splitter=type(test_size).__name__) if stratified else "",
            stratified=stratified,
            past_records=_past_records(scheme, X, y, np.arange(n), test),
            node_matching=match_nodes(model, train, test),
        )

    @classmethod
    def from_validation_set(cls, data, correlation) -> Self:
        """Return the split of a validation set that the caller passes.

        Groups and models with a number of records may describe the records of ``X`` followed by
        those of ``X_val``. In that case records of the two tables must not depend on one another.

        Parameters
        ----------
        data : FitData
            Records with a validation set.
        correlation : object
            Declared dependence, as for :func:`~sklearn_bdp.correlation.check_correlation`.
        """
        X, y = indexable(data.X, data.y)
        X_val, y_val = indexable(data.X_val, data.y_val)
        n = num_samples(X)
        n_validation = num_samples(X_val)
        _check_validation_set(y, y_val, n_validation)
        groups = _groups_of_both(data, correlation, n, n_validation)
        model = check_correlation(correlation, groups=groups)
        scheme = model.sampling_scheme(model.n_records or n + n_validation)
        if scheme.in_time_order and model.n_records is None:
            check_validation_is_later(X, X_val)
        train = np.arange(n)
        test = np.arange(n, n + n_validation)
        past_records = None
        if model.n_records in (None, n + n_validation):
            past_records = _past_records(scheme, X, y, train, test)
        node_matching = None
        train_model: CorrelationModel | None = None
        if model.n_records == n + n_validation:
            check_row_order("correlation", model, X, X_val)
            _check_split(model, scheme, train, test, divider="X_val")
            if y is not None:
                model = model.with_estimated_strength(np.concatenate([y, y_val]), train)
            node_matching = match_nodes(model, train, test)
            train_model = model.training_model(train)
            model = model.conditional_on_rest(test)
            # The holdout continues the chain of the training set, without dropped records.
            assumption = APART if scheme.in_time_order and scheme.calendar is None else ""
        else:
            model.check_n(n_validation)
            if scheme.in_time_order and model.n_records is None:
                train_model = model  # a chain of any length describes the training records, too
            assumption = "" if scheme.calendar is not None else APART
        return cls(
            X=X,
            y=y,
            X_holdout=X_val,
            y_holdout=targets(X_val, y_val),
            model=model,
            train_model=train_model,
            assumption=assumption,
            past_records=past_records,
            node_matching=node_matching,
        )

    @classmethod
    def from_existing_holdout(cls, holdout, data, correlation, *, has_splitter) -> Self:
        """Return the split in which all data are training data of an open holdout.

        ``correlation`` and groups describe the training records here. A chain that describes the
        holdout also describes the training records.

        Parameters
        ----------
        holdout : ReusableHoldout
            The open holdout.
        data : FitData
            The training records.
        correlation : object
            Declared dependence of the training records, or None.
        has_splitter : bool
            Whether the inner folds come from a splitter of the caller.
        """
        n = num_samples(data.X)
        model = holdout.dependence
        train_model = _training_model(model, data, correlation)
        scheme = model.sampling_scheme(holdout.n)
        # Training nodes of a network that is split by nodes are divided at random, declared or not.
        if train_model is None and not (scheme.is_conditional or has_splitter):
            warnings.warn(
                "The records of this holdout are dependent, but no dependence is declared for the "
                "training records. Inner folds are drawn as if these were independent, so "
                "cross-validated scores are too high. Pass groups= to fit, correlation=, or a "
                "splitter as cv=.",
                InnerFoldsWarning,
                stacklevel=caller_level(),
            )
        node_matching = holdout.context.node_matching
        if node_matching is not None and node_matching.n_train != n:
            node_matching = None  # other training records
        return cls(
            X=data.X,
            y=data.y,
            X_holdout=holdout.X,
            y_holdout=holdout.y,
            model=model,
            train_model=train_model,
            node_matching=node_matching,
        )

    @property
    def scheme(self) -> SamplingScheme:
        """Sampling scheme of the holdout; of the training records if there is no holdout."""
        records = self.X if self.X_holdout is None else self.X_holdout
        return self.model.sampling_scheme(num_samples(records))

    @property
    def train_scheme(self) -> SamplingScheme | None:
        """Sampling scheme of the training records, or None if it is not declared."""
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


def _check_validation_set(y, y_val, n_validation):
    """Raise ValueError if a validation set has no records, or no targets beside those of X."""
    if y_val is None and y is not None:
        raise ValueError("X_val was given without y_val; give both or neither.")
    if n_validation == 0:
        raise ValueError("X_val must hold at least one record, got 0.")


def _training_model(holdout_model, data, correlation):
    """Return the dependence of training records beside an open holdout, None if undeclared."""
    if correlation is None and data.groups is not None and holdout_model.n_records is not None:
        correlation = "groups"
    if correlation is None:
        return holdout_model if holdout_model.n_records is None else None
    train_model = check_correlation(correlation, groups=data.groups)
    train_model.check_n(num_samples(data.X))
    return train_model


def split_for(meta_estimator, config, estimator, data):
    """Return the :class:`HoldoutSplit` that the parameters of a meta-estimator describe.

    Parameters
    ----------
    meta_estimator : estimator
        Estimator with the parameters ``holdout``, ``correlation`` and ``random_state``.
    config : HoldoutConfig or None
        Settings of a new holdout; None if ``holdout`` is open.
    estimator : estimator
        Estimator that is fitted on the training set.
    data : FitData
        Arguments of ``fit``.
    """
    check_label_values(data.y)
    _check_parameters_of_fit(estimator, data)
    coordinates = _coordinates(data)
    declared, dependence = _declarations(meta_estimator, config, data)
    splitters = getattr(meta_estimator, "cv", None), getattr(config, "test_size", None)
    hints = declaration_hints(data.X, correlation=declared, groups=data.groups, splitters=splitters)
    # Each of several sequences is in time order, the rows need not be.
    in_sequences = data.groups is not None and is_chain(dependence)
    in_time = declares_time_order(dependence) and not in_sequences
    correlation = meta_estimator.correlation
    time_assumption = ""
    if in_time or data.times is not None or data.has_horizon:
        correlation, time_assumption = resolve_dates(meta_estimator, config, data, in_time=in_time)
    seed = secrets.randbits(31)
    split_note = None
    random_state = meta_estimator.random_state
    if config is not None and config.ledger is not None and random_state is None:
        split_note = _recorded_split(config, data, seed)
        seed = split_note["seed"]
        random_state = seed
    if config is None:
        has_splitter = hasattr(getattr(meta_estimator, "cv", None), "split")
        split = HoldoutSplit.from_existing_holdout(
            meta_estimator.holdout, data, correlation, has_splitter=has_splitter
        )
    elif data.X_val is not None:
        split = HoldoutSplit.from_validation_set(data, correlation)
    else:
        split = HoldoutSplit.from_data(
            estimator,
            data,
            test_size=config.test_size,
            correlation=correlation,
            random_state=random_state,
        )
    is_split_here = split.train is not None
    return replace(
        split,
        config=config,
        hints=hints,
        seed=seed,
        split_note=split_note,
        assumption=". ".join(filter(None, (split.assumption, time_assumption))),
        targets_digest=(
            targets_digest(data.X, data.y) if is_split_here and data.y is not None else None
        ),
        training_data=_training_data(split, data.groups, estimator),
        groups=_of_training_records(data.groups, split),
        coordinates=_of_training_records(coordinates, split),
    )


def _of_training_records(values, split):
    """Return the values of the training records, if there are values and a split divides them."""
    if values is None or split.train is None:
        return values
    return np.asarray(values)[split.train]


def _check_parameters_of_fit(estimator, data):
    """Raise if an argument of ``fit`` may be meant for the estimator's own ``fit``."""
    alternatives = {"X_val": "holdout=ReusableHoldout(X_val, y_val)", "times": "the index of X"}
    for name, alternative in alternatives.items():
        if getattr(data, name) is not None and has_fit_parameter(estimator, name):
            raise ValueError(
                f"{name}= is ambiguous: {type(estimator).__name__}.fit has a parameter of this "
                f"name, too. Pass it as {alternative} instead. Nothing was fitted."
            )


def _coordinates(data):
    """Return the coordinates of all records as an array; None if they were not passed."""
    coordinates = data.coordinates
    if coordinates is None:
        return None
    if isinstance(coordinates, list | tuple) and all(isinstance(c, str) for c in coordinates):
        missing = [name for name in coordinates if name not in getattr(data.X, "columns", ())]
        if missing:
            raise ValueError(f"coordinates must name columns of X, got {missing}.")
        coordinates = data.X[list(coordinates)]
    return check_array("coordinates", coordinates, shape=(num_samples(data.X), None))


def _declarations(meta_estimator, config, data):
    """Return the declared correlation of the training records, and the one that orders rows.

    They differ if an open holdout states the dependence of its records.
    """
    declared = meta_estimator.correlation
    if config is not None or declared is not None:
        return declared, declared
    dependence = meta_estimator.holdout.dependence  # describes the training records, too
    if dependence.sampling_scheme(meta_estimator.holdout.n).has_independent_records:
        return None, dependence
    if data.groups is not None and dependence.n_records is not None:
        return "groups", dependence
    return dependence, dependence


def _recorded_split(config, data, seed):
    """Return digest and seed of the split for a ledger: the recorded seed if there is one.

    The same script splits the same data in the same way, to resume after an interruption.
    """
    digest = pickle_digest((data.parts(), repr(config.test_size)))
    notes = read_notes(config.ledger, Fact.SPLIT)
    recorded_seeds = {note["data"]: note["seed"] for note in notes}
    return {"data": digest, "seed": recorded_seeds.get(digest, seed)}


def _training_data(split, groups, estimator):
    """Return the training records, to compare them with a holdout that the caller split off."""
    model = split.train_model
    if model is None and groups is not None and num_samples(groups) == num_samples(split.X):
        model = check_correlation("groups", groups=groups)
    classifier = is_classifier(estimator) and split.y is not None
    return TrainingData(((split.X, split.y),), train_model=model, classifier=classifier)


def _check_order_of_rows(model, scheme, X, groups, correlation):
    """Raise if the index of the records orders them in another way than the model needs."""
    check_row_order("correlation", model, X)
    if model.n_records is None and not scheme.has_independent_records:  # in the order of the rows
        check_time_sorted(X)
    elif groups is not None and is_chain(correlation):
        check_sequences_sorted(X, model.components(num_samples(X)))


def _random_split(model, n, test_size, random_state):
    """Return training and holdout records that a model draws."""
    if not n * test_size >= 1:
        raise ValueError(
            f"holdout={test_size!r} leaves no records for the holdout with n_samples={n}; it "
            f"must be at least 1/{n}."
        )
    split = model.split(n, test_size, random_state=random_state)
    return split.train, split.holdout


def _model_of_training_set(model, train):
    """Return the model of the training records; None if a chain's middle is held out."""
    try:
        return model.training_model(train)
    except ValueError:  # two chains
        return None


def _past_records(scheme, X, y, rows, holdout_rows):
    """Return the records among these rows of dates before the holdout, in time order."""
    if scheme.calendar is None or y is None:
        return None
    dates = scheme.record_blocks
    first_date = dates[holdout_rows].min()
    rows = rows[dates[rows] < first_date]
    rows = rows[np.argsort(dates[rows], kind="stable")]
    return PastRecords(safe_indexing(X, rows), np.asarray(y)[rows], dates[rows] - first_date)


def _groups_of_both(data, correlation, n, n_validation):
    """Return the labels of both tables if the correlation needs them, else those of ``X``."""
    groups, groups_val = groups_by_table(n, n_validation, data.groups, data.groups_val)
    declarations = correlation if isinstance(correlation, list | tuple) else [correlation]
    in_sequences = is_chain(correlation) and groups is not None
    if not in_sequences and not any(isinstance(part, str) for part in declarations):
        return groups
    if groups is None or groups_val is None:
        declaration = "a chain with groups=" if in_sequences else "correlation='groups'"
        raise ValueError(
            f"{declaration} with X_val needs labels of both parts: pass groups= and "
            f"groups_val=, or all {n + n_validation} labels as groups=."
        )
    labels = [*np.asarray(groups).tolist(), *np.asarray(groups_val).tolist()]
    has_mixed_types = len({*map(type, labels)}) > 1
    return np.array(labels, dtype=object if has_mixed_types else None)


def _check_split(model, scheme, train, test, *, divider):
    """Raise if records on both sides may depend on one another.

    Chains are contiguous, and their model accounts for a cut; networks of finite strength are split
    by nodes (theory G13). ``divider``: the argument that made the split.
    """
    if scheme.calendar is not None:
        dates = scheme.record_blocks
        if not dates[train].max() < dates[test].min():
            raise ValueError(
                f"{divider} puts training records on or after the first date of the holdout, whose "
                "outcomes they may tell of. Hold out the last dates, as holdout=0.25 does."
            )
    n_cuts = n_split_components(model, train, test)
    if n_cuts:
        unit = "dependent group"
        fix = "divide whole groups, as GroupShuffleSplit does"
        if scheme.bounds_hold_given_rest:
            unit = "linked record"
            fix = "drop their neighbors from the training set"
        raise ValueError(
            f"{divider} separates {n_cuts} {unit}{'s' * (n_cuts > 1)} ({model.describe()}): scores "
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
