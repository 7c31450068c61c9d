"""Split of the data into a training set and a holdout that respects the declared dependence.

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
from sklearn_bdp.correlation.components import Groups, check_row_order
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
from sklearn_bdp.ledger.ledger import SystemNote, read_notes
from sklearn_bdp.release.context import PastRecords
from sklearn_bdp.utils.hashing import pickle_digest
from sklearn_bdp.utils.sklearn_compat import num_samples, safe_indexing, safe_split
from sklearn_bdp.utils.validation import caller_level, check_array, check_label_values

#: Assumption after a split that depends on the labels (theory G10).
STRATIFIED = (
    "the holdout was drawn by {splitter}, which reads the labels: intervals refer to data with "
    "exactly these class proportions, not to new records"
)
#: Assumption about a validation set that the user passes, which cannot be checked.
SEPARATE_VALIDATION_SET = "no record of the validation set is, or depends on, a training record"


@dataclass(frozen=True)
class HoldoutSplit:
    """Training set and holdout of a search or selector.

    :meth:`from_data` splits the data of ``fit``, :meth:`from_validation_set` takes the validation
    set of the user, and :meth:`from_existing_holdout` continues with a ReusableHoldout.
    """

    X: object = field(repr=False)  # training records
    y: object = field(repr=False)  # targets of the training records
    X_holdout: object = field(repr=False)  # holdout records, which the mechanism alone scores
    y_holdout: object = field(repr=False)  # targets of the holdout records
    model: CorrelationModel  # of the holdout records
    train_model: CorrelationModel | None  # of the training records; None: undeclared or without one
    #: Positions of the training records in the data passed to ``fit``. None if these were not split
    #: here.
    train: np.ndarray | None = field(default=None, repr=False)
    #: Positions of the holdout records in the data passed to ``fit``, or None.
    holdout: np.ndarray | None = field(default=None, repr=False)
    #: Result of :func:`~sklearn_bdp.correlation.cutting.gaps_to_training`, or None if the data were
    #: not split here.
    gap: object = None
    coordinates: np.ndarray | None = field(default=None, repr=False)  # of the training records
    assumption: str = ""  # additional assumption for the certificate; empty if there is none
    stratified: bool = False  # whether the split depends on the targets
    hints: tuple = ()  # texts about arguments that suggest undeclared dependence
    training_data: TrainingData | None = None  # to be compared with the holdout records
    #: Records before the holdout if records are declared as dates, or None.
    past_records: PastRecords | None = field(default=None, repr=False)
    targets_digest: str | None = None  # of the targets passed to ``fit``, if they are split here
    config: HoldoutConfig | None = None  # of a new holdout; None: a ReusableHoldout was passed
    #: Seed of sampled candidates if ``random_state`` is None. With a ``split_note`` it is also the
    #: seed of the split.
    seed: int | None = None
    split_note: dict | None = None  # digest of the data and seed of the split, for a ledger
    groups: object = field(default=None, repr=False)  # labels of the training records
    #: For nodes: folds and weights with which cross-validation on the training nodes predicts the
    #: score on the holdout.
    node_matching: NodeMatching | None = field(default=None, repr=False)

    @classmethod
    def from_data(cls, estimator, fit_data, *, test_size, correlation, random_state) -> Self:
        """Return a split of the data of ``fit``.

        Parameters
        ----------
        estimator : estimator
            Its tags state whether ``X`` is pairwise, with distances or a kernel.
        fit_data : FitData
            Arguments of ``fit``, without a validation set.
        test_size : float or splitter
            Fraction of the records (or dates) for the holdout, or a splitter with one split.
        correlation : object
            Declared dependence, as for :func:`~sklearn_bdp.correlation.check_correlation`.
        random_state : None, int or numpy.random.RandomState
            Seed of a random split.

        Raises
        ------
        ValueError
            If the data cannot be split in this way, or if the correlation does not allow the split.
        """
        X, y = indexable(fit_data.X, fit_data.y)
        if fit_data.y_val is not None:
            raise ValueError("y_val was passed without X_val. Pass both or neither.")
        n = num_samples(X)
        if n < 2:
            raise ValueError(
                f"X must hold at least 2 records, one for each side, got n_samples={n}."
            )
        model = check_correlation(correlation, groups=fit_data.groups)
        model.check_n(n)
        scheme = model.sampling_scheme(n)
        _check_order_of_rows(model, scheme, X, fit_data.groups, correlation)
        stratified = False
        if is_splitter(test_size):
            train, test = _only_split(test_size, X, y, fit_data.groups)
            _check_split(model, scheme, train, test, split_argument=f"holdout={test_size!r}")
            stratified = _depends_on_labels(test_size, X, y, fit_data.groups)
        else:
            # Theory G10: never stratified or redrawn. Otherwise training labels would depend on
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
    def from_validation_set(cls, fit_data, correlation) -> Self:
        """Return the split in which the validation set of the user is the holdout.

        Groups and models with a fixed number of records may describe the records of ``X`` followed
        by those of ``X_val``. In that case the tables must be a valid split of all these records.

        Parameters
        ----------
        fit_data : FitData
            Arguments of ``fit``, with a validation set.
        correlation : object
            Declared dependence, as for :func:`~sklearn_bdp.correlation.check_correlation`.

        Raises
        ------
        ValueError
            If the validation set contradicts the training records or the correlation.
        """
        X, y = indexable(fit_data.X, fit_data.y)
        X_val, y_val = indexable(fit_data.X_val, fit_data.y_val)
        n = num_samples(X)
        n_validation = num_samples(X_val)
        _check_validation_set(y, y_val, n_validation)
        groups = _groups_of_both(fit_data, correlation, n, n_validation)
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
            _check_split(model, scheme, train, test, split_argument="X_val")
            if y is not None:
                model = model.with_estimated_strength(np.concatenate([y, y_val]), train)
            node_matching = match_nodes(model, train, test)
            train_model = model.training_model(train)
            model = model.conditional_on_rest(test)
            # The holdout continues the sequence of the training set, without dropped records.
            needs_separation = scheme.in_time_order and scheme.calendar is None
        else:
            model.check_n(n_validation)
            if scheme.in_time_order and model.n_records is None:
                train_model = model  # a chain of any length describes the training records, too
            needs_separation = scheme.calendar is None
        return cls(
            X=X,
            y=y,
            X_holdout=X_val,
            y_holdout=targets(X_val, y_val),
            model=model,
            train_model=train_model,
            assumption=SEPARATE_VALIDATION_SET if needs_separation else "",
            past_records=past_records,
            node_matching=node_matching,
        )

    @classmethod
    def from_existing_holdout(cls, holdout, fit_data, correlation, *, has_splitter) -> Self:
        """Return the split in which all records of ``X`` are training records of a given holdout.

        Without a model of the training records an InnerFoldsWarning may be given.

        Parameters
        ----------
        holdout : ReusableHoldout
            The holdout that was passed to the search or selector.
        fit_data : FitData
            Arguments of ``fit``.
        correlation : object
            Declared dependence of the training records, or None if it is not declared.
        has_splitter : bool
            Whether the folds of cross-validation come from a splitter of the user.
        """
        n = num_samples(fit_data.X)
        model = holdout.dependence
        train_model = _model_beside_holdout(model, fit_data, correlation)
        scheme = model.sampling_scheme(holdout.n)
        # Under a network that is split by nodes, folds may separate linked records.
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
            X=fit_data.X,
            y=fit_data.y,
            X_holdout=holdout.X,
            y_holdout=holdout.y,
            model=model,
            train_model=train_model,
            node_matching=node_matching,
        )

    @property
    def scheme(self) -> SamplingScheme:
        """Sampling scheme of the holdout records, or of ``X`` if ``X_holdout`` is None."""
        records = self.X if self.X_holdout is None else self.X_holdout
        return self.model.sampling_scheme(num_samples(records))

    @property
    def train_scheme(self) -> SamplingScheme | None:
        """Sampling scheme of the training records, or None without ``train_model``."""
        if self.train_model is None:
            return None
        return self.train_model.sampling_scheme(num_samples(self.X))

    def train_groups(self):
        """Return a group code of each training record, or None.

        None without ``train_model``, if the records are independent, or if they are not declared
        in independent groups. Records with the same code may be dependent.
        """
        scheme = self.train_scheme
        if scheme is None or scheme.has_independent_records or not scheme.has_independent_units:
            return None
        return self.train_model.components(num_samples(self.X))

    def time_ordered_dates(self):
        """Return the date code of each training record, or None.

        None without ``train_model``, or if the records are not declared as dates. Codes increase
        with the date. Without dates of the records each row is a date.
        """
        scheme = self.train_scheme
        if scheme is None or scheme.calendar is None:
            return None
        return scheme.record_blocks


def _check_validation_set(y, y_val, n_validation):
    """Raise ValueError if a validation set is empty, or has no targets while ``X`` has some."""
    if y_val is None and y is not None:
        raise ValueError("X_val was passed without y_val. Pass both or neither.")
    if n_validation == 0:
        raise ValueError("X_val must hold at least one record, got 0.")


def _model_beside_holdout(holdout_model, fit_data, correlation):
    """Return the dependence model of training records beside a ReusableHoldout, or None.

    ``holdout_model``: the model of the holdout records. ``correlation``: declaration for the
    training records, or None. Without one, ``holdout_model`` is returned. If it is tied to the
    number of holdout records, groups of ``fit_data`` are declared dependent instead, and the result
    is None without groups.
    """
    if correlation is None and fit_data.groups is not None and holdout_model.n_records is not None:
        correlation = "groups"
    if correlation is None:
        return holdout_model if holdout_model.n_records is None else None
    train_model = check_correlation(correlation, groups=fit_data.groups)
    train_model.check_n(num_samples(fit_data.X))
    return train_model


def split_for(meta_estimator, config, estimator, fit_data):
    """Return the :class:`HoldoutSplit` that the parameters of a meta-estimator describe.

    Parameters
    ----------
    meta_estimator : estimator
        Estimator with the parameters ``holdout``, ``correlation`` and ``random_state``.
    config : HoldoutConfig or None
        Settings of a new holdout; None if ``holdout`` is a ReusableHoldout.
    estimator : estimator
        Estimator that is fitted on the training set.
    fit_data : FitData
        Arguments of ``fit``.

    Raises
    ------
    ValueError
        If the arguments contradict each other, or if the data cannot be split.
    """
    check_label_values(fit_data.y)
    _check_ambiguous_arguments(estimator, fit_data)
    coordinates = _check_coordinates(fit_data)
    train_correlation, order_correlation = _declared_correlations(meta_estimator, config, fit_data)
    splitters = getattr(meta_estimator, "cv", None), getattr(config, "test_size", None)
    hints = declaration_hints(
        fit_data.X, correlation=train_correlation, groups=fit_data.groups, splitters=splitters
    )
    # Several sequences are in time order one by one. Their rows may alternate.
    in_sequences = fit_data.groups is not None and is_chain(order_correlation)
    in_time = declares_time_order(order_correlation) and not in_sequences
    correlation = meta_estimator.correlation
    time_assumption = ""
    if in_time or fit_data.times is not None or fit_data.has_horizon:
        correlation, time_assumption = resolve_dates(
            meta_estimator, config, fit_data, in_time=in_time
        )
    seed, split_note = _seed_and_note(meta_estimator, config, fit_data)
    random_state = meta_estimator.random_state if split_note is None else seed
    holdout_split = _make_split(
        meta_estimator, config, estimator, fit_data, correlation, random_state
    )
    digest_of_targets = None
    if holdout_split.train is not None and fit_data.y is not None:
        digest_of_targets = targets_digest(fit_data.X, fit_data.y)
    return replace(
        holdout_split,
        config=config,
        hints=hints,
        seed=seed,
        split_note=split_note,
        assumption=". ".join(filter(None, (holdout_split.assumption, time_assumption))),
        targets_digest=digest_of_targets,
        training_data=_make_training_data(holdout_split, fit_data.groups, estimator),
        groups=_select_training_records(fit_data.groups, holdout_split),
        coordinates=_select_training_records(coordinates, holdout_split),
    )


def _make_split(meta_estimator, config, estimator, fit_data, correlation, random_state):
    """Return the HoldoutSplit of a ReusableHoldout, of a validation set or of split data.

    ``correlation``: argument of ``check_correlation``; ``random_state``: seed of a random split.
    """
    if config is None:
        has_splitter = hasattr(getattr(meta_estimator, "cv", None), "split")
        return HoldoutSplit.from_existing_holdout(
            meta_estimator.holdout, fit_data, correlation, has_splitter=has_splitter
        )
    if fit_data.X_val is not None:
        return HoldoutSplit.from_validation_set(fit_data, correlation)
    return HoldoutSplit.from_data(
        estimator,
        fit_data,
        test_size=config.test_size,
        correlation=correlation,
        random_state=random_state,
    )


def _select_training_records(values, holdout_split):
    """Return the entries of ``values`` for the training records.

    ``values``: array-like with an entry for each record passed to ``fit``, or None. It is returned
    unchanged if these were not split.
    """
    if values is None or holdout_split.train is None:
        return values
    return np.asarray(values)[holdout_split.train]


def _check_ambiguous_arguments(estimator, fit_data):
    """Raise ValueError if ``X_val`` or ``times`` may be meant for the estimator's own ``fit``."""
    alternatives = {"X_val": "holdout=ReusableHoldout(X_val, y_val)", "times": "the index of X"}
    for name, alternative in alternatives.items():
        if getattr(fit_data, name) is not None and has_fit_parameter(estimator, name):
            raise ValueError(
                f"{name}= is ambiguous: {type(estimator).__name__}.fit has a parameter of this "
                f"name, too. Pass it as {alternative} instead. Nothing was fitted."
            )


def _check_coordinates(fit_data):
    """Return the coordinates as an array of shape (n_samples, n_dimensions), None without any.

    Raises an error for names that are not columns of ``X``, and for invalid values or shapes.
    """
    coordinates = fit_data.coordinates
    if coordinates is None:
        return None
    is_list = isinstance(coordinates, list | tuple)
    if is_list and all(isinstance(name, str) for name in coordinates):
        missing_names = [
            name for name in coordinates if name not in getattr(fit_data.X, "columns", ())
        ]
        if missing_names:
            raise ValueError(f"coordinates must name columns of X, got {missing_names}.")
        coordinates = fit_data.X[list(coordinates)]
    return check_array("coordinates", coordinates, shape=(num_samples(fit_data.X), None))


def _declared_correlations(meta_estimator, config, fit_data):
    """Return the correlation of the training records, and the one that may declare a time order.

    Both are the parameter ``correlation`` if it is set or ``config`` is not None. Otherwise the
    second one is the model of the ReusableHoldout. The first one is then None for independent
    holdout records, "groups" if groups are passed and the model is tied to the number of holdout
    records, and otherwise this model.
    """
    correlation = meta_estimator.correlation
    if config is not None or correlation is not None:
        return correlation, correlation
    holdout_model = meta_estimator.holdout.dependence
    if holdout_model.sampling_scheme(meta_estimator.holdout.n).has_independent_records:
        return None, holdout_model
    if fit_data.groups is not None and holdout_model.n_records is not None:
        return "groups", holdout_model
    return holdout_model, holdout_model


def _seed_and_note(meta_estimator, config, fit_data):
    """Return a seed and the note on the split for a ledger.

    The seed is random, or recorded in the ledger. The note is None unless ``config`` has a ledger
    and ``random_state`` is None.
    """
    seed = secrets.randbits(31)
    if config is None or config.ledger is None or meta_estimator.random_state is not None:
        return seed, None
    split_note = _make_split_note(config, fit_data, seed)
    return split_note["seed"], split_note


def _make_split_note(config, fit_data, seed):
    """Return the note on the split for a ledger, as ``{"data": digest, "seed": seed}``.

    ``seed``: replaced by the recorded seed if the ledger has a note with the same digest.
    """
    digest = pickle_digest((fit_data.values(), repr(config.test_size)))
    notes = read_notes(config.ledger, SystemNote.SPLIT)
    seeds_by_digest = {note["data"]: note["seed"] for note in notes}
    return {"data": digest, "seed": seeds_by_digest.get(digest, seed)}


def _make_training_data(holdout_split, groups, estimator):
    """Return the training records as :class:`TrainingData`.

    ``groups``: labels as passed to ``fit``, or None. They declare dependent groups if the training
    records have no dependence model and all records of ``groups`` are training records.
    """
    X = holdout_split.X
    y = holdout_split.y
    train_model = holdout_split.train_model
    if train_model is None and groups is not None and num_samples(groups) == num_samples(X):
        train_model = check_correlation("groups", groups=groups)
    has_classes = is_classifier(estimator) and y is not None
    return TrainingData(((X, y),), correlation_model=train_model, has_classes=has_classes)


def _check_order_of_rows(model, scheme, X, groups, correlation):
    """Raise ValueError or warn if the index of ``X`` contradicts the row order that a model needs.

    ``model``, ``scheme``: CorrelationModel and SamplingScheme of the records; ``groups``: their
    labels, or None; ``correlation``: the declaration of the model.
    """
    check_row_order("correlation", model, X)
    if model.n_records is None and not scheme.has_independent_records:  # a chain of all rows
        check_time_sorted(X)
    elif groups is not None and is_chain(correlation):
        check_sequences_sorted(X, model.components(num_samples(X)))


def _random_split(model, n, test_size, random_state):
    """Return positions of training and holdout records, as a correlation model splits them.

    ``n``: number of records; ``test_size``: fraction of the records (or dates) for the holdout.
    Raises ValueError if this is less than one record, or if the model cannot be split.
    """
    if not n * test_size >= 1:
        raise ValueError(
            f"holdout={test_size!r} leaves no records for the holdout with n_samples={n}. It must "
            f"be at least 1/{n}."
        )
    split = model.split(n, test_size, random_state=random_state)
    return split.train, split.holdout


def _model_of_training_set(model, train):
    """Return the dependence model of the training records, or None.

    ``model``: of all records; ``train``: positions of the training records. None if no model
    describes them alone, as for a chain whose middle is held out.
    """
    try:
        return model.training_model(train)
    except ValueError:  # such as training records that would be two chains
        return None


def _past_records(scheme, X, y, rows, holdout_rows):
    """Return the PastRecords with dates before the first holdout date, in time order.

    Their dates count from the first holdout date, so they are negative. None if records are not
    declared as dates, or without targets. ``X``, ``y``: records and targets at the positions
    ``rows`` and perhaps others; ``scheme``: SamplingScheme of all records; ``holdout_rows``:
    positions of the holdout records.
    """
    if scheme.calendar is None or y is None:
        return None
    dates = scheme.record_blocks  # date code of each record
    first_holdout_date = dates[holdout_rows].min()
    past_rows = rows[dates[rows] < first_holdout_date]
    past_rows = past_rows[np.argsort(dates[past_rows], kind="stable")]
    return PastRecords(
        safe_indexing(X, past_rows), np.asarray(y)[past_rows], dates[past_rows] - first_holdout_date
    )


def _groups_of_both(fit_data, correlation, n, n_validation):
    """Return the group labels of ``X`` and ``X_val`` in one array, or those of ``X`` alone.

    Both are returned if the correlation is declared by a name, or as a chain with groups. Raises
    ValueError if one of them is missing then. Otherwise labels of ``X`` may be None. ``n``,
    ``n_validation``: numbers of records of ``X`` and ``X_val``.
    """
    groups, groups_val = groups_by_table(n, n_validation, fit_data.groups, fit_data.groups_val)
    correlations = correlation if isinstance(correlation, list | tuple) else [correlation]
    in_sequences = is_chain(correlation) and groups is not None
    is_named = any(isinstance(item, str) for item in correlations)  # "groups" or "time"
    if not in_sequences and not is_named:
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


def _check_split(model, scheme, train, test, *, split_argument):
    """Raise ValueError if a split separates records that the model does not allow to separate.

    Chains may be cut, because their model accounts for it. Networks of finite strength may be
    split by nodes (theory G13). Dates of the holdout must be later than those of the training set.
    ``model``, ``scheme``: CorrelationModel and SamplingScheme of all records; ``train``, ``test``:
    positions of training and holdout records; ``split_argument``: text of the argument that made
    the split.
    """
    if scheme.calendar is not None:
        dates = scheme.record_blocks  # date code of each record
        if not dates[train].max() < dates[test].min():
            raise ValueError(
                f"{split_argument} puts training records on or after the first date of the "
                "holdout, whose outcomes they may tell of. Hold out the last dates, as "
                "holdout=0.25 does."
            )
    n_separated = n_split_components(model, train, test)
    if n_separated:
        component_noun = "dependent group"
        fix = ""
        if isinstance(model, Groups):
            fix = ", or holdout=GroupShuffleSplit(n_splits=1)"
        if scheme.bounds_hold_given_rest:
            component_noun = "linked record"
            fix = ", or drop their neighbors from the training set"
        raise ValueError(
            f"{split_argument} separates {n_separated} {component_noun}{'s' * (n_separated > 1)} "
            f"({model.describe()}): scores on the holdout would be too high. Set "
            f"holdout=0.25{fix}."
        )


def _depends_on_labels(splitter, X, y, groups):
    """Return whether the first split of a splitter depends on the targets.

    True for StratifiedShuffleSplit, StratifiedKFold and StratifiedGroupKFold. For others, True if
    two draws of the split are equal and a third one with permuted targets differs. False for others
    without targets, or if they raise an error.
    """
    if isinstance(splitter, StratifiedShuffleSplit | StratifiedKFold | StratifiedGroupKFold):
        return True
    if y is None:
        return False
    permutation = np.random.default_rng(0).permutation(num_samples(y))
    permuted_y = safe_indexing(y, permutation)
    try:
        positions = _first_test_positions(splitter, X, y, groups)
        repeated_positions = _first_test_positions(splitter, X, y, groups)
        permuted_positions = _first_test_positions(splitter, X, permuted_y, groups)
    except Exception:  # such as a custom splitter that supports these labels only
        return False
    # The draws of a splitter without a seed differ in any case.
    is_repeatable = np.array_equal(positions, repeated_positions)
    return is_repeatable and not np.array_equal(positions, permuted_positions)


def _first_test_positions(splitter, X, y, groups):
    """Return the test positions of the first split, drawn by a copy of the splitter."""
    _, test = next(iter(copy.deepcopy(splitter).split(X, y, groups)))
    return test


def _only_split(splitter, X, y, groups):
    """Return positions of training and holdout records from a splitter with one split.

    Raises ValueError for several splits, an empty training set or holdout, or shared records.
    """
    n_splits = splitter.get_n_splits(X, y, groups)
    if n_splits != 1:
        raise ValueError(
            "holdout must be a splitter with exactly one split (each record is held out or it is "
            f"not), got {n_splits} splits from holdout={splitter!r}. Use "
            "ShuffleSplit(n_splits=1) or a fraction. Splitters with several folds belong in cv."
        )
    ((train, test),) = splitter.split(X, y, groups)
    train = np.asarray(train)
    test = np.asarray(test)
    for name, positions in (("training part", train), ("holdout", test)):
        if positions.size == 0:
            raise ValueError(f"holdout={splitter!r} leaves no records for the {name}.")
    if np.intersect1d(train, test).size:
        raise ValueError(f"holdout={splitter!r} puts records on both sides of the split.")
    return train, test
