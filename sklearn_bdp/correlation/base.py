"""Base class of correlation models, and checks of their arguments."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike

from sklearn_bdp._typing import Array, Seed
from sklearn_bdp.correlation.frozen import FrozenValue
from sklearn_bdp.correlation.levels import privacy_level
from sklearn_bdp.correlation.scheme import ConcentrationBound, SamplingScheme
from sklearn_bdp.correlation.tails import hoeffding_lower_limit
from sklearn_bdp.utils.validation import check_array, check_integer, check_option, check_real

Bound: TypeAlias = Literal["tight", "quilt", "blanket", "spectral"]
Folds: TypeAlias = list[tuple[Array, Array]]  # training and test records of each fold
METHODS = get_args(Bound)


@dataclass(frozen=True, eq=False)
class Split:
    """Training and holdout records that respect a correlation model.

    Parameters
    ----------
    train : ndarray of int
        Indices of the training records, ascending.
    holdout : ndarray of int
        Indices of the holdout records, ascending.
    gap : int
        Number of records or dates dropped before the holdout, in each sequence if there are
        several; 0 for models without an order in time.

    Examples
    --------
    >>> from sklearn_bdp.correlation import MarkovChain
    >>> split = MarkovChain.from_autocorrelation_time(2.0).split(1000, 0.2)
    >>> len(split.train), len(split.holdout), split.gap
    (794, 200, 6)
    """

    train: np.ndarray
    holdout: np.ndarray
    gap: int = 0


class CorrelationModel(FrozenValue, ABC):
    """Base class of correlation models: frozen, comparable, picklable, cheap to copy.

    ``n`` is the number of records, in bounds the number of holdout records. Leakage and influence
    are in nats. Two models are equal when they are of one class and have equal content, the
    arguments of ``_freeze``. After ``_freeze``, no attribute can be assigned.
    """

    #: Number of records that the model is tied to, or None for any number.
    n_records: int | None = None

    #: Sentences that a certificate must add: assumptions, and cases that are not covered.
    caveats: tuple[str, ...] = ()

    # Component of each record; None for models that do not store it.
    _codes: Array | None = None
    _size_hint = ""  # advice that an error adds if the number of records differs

    @abstractmethod
    def describe(self) -> str:
        """Return one line of text that names the model in certificates.

        Returns
        -------
        str
            The line, without a period.
        """

    def __repr__(self) -> str:
        return f"{type(self).__name__}(<{self.describe()}>)"

    # -- size -------------------------------------------------------------------------------

    def check_n(self, n: int) -> int:
        """Return ``n`` as an int after checking that the model describes that many records.

        Parameters
        ----------
        n : int
            Number of records.

        Returns
        -------
        int
            The checked number.

        Raises
        ------
        TypeError
            If ``n`` is not an integer.
        ValueError
            If ``n`` is not positive or not the number of records the model is tied to.
        """
        n = check_integer("n", n, low=1)
        if self.n_records is not None and n != self.n_records:
            raise ValueError(
                f"correlation describes {self.n_records} records, got n={n}.{self._size_hint}"
            )
        return n

    def sampling_scheme(self, n: int) -> SamplingScheme:
        """Return the sampling units, the kind of bound for means, and the target of intervals.

        Parameters
        ----------
        n : int
            Number of records.

        Returns
        -------
        SamplingScheme
            By default, each record is a unit, and means have Hoeffding's bound at
            :meth:`effective_n`.
        """
        n = self.check_n(n)
        return SamplingScheme(
            n_records=n,
            n_units=n,
            unit_name="records",
            bound=ConcentrationBound.EFFECTIVE_NUMBER,
            target="new records",
            exchangeable=False,
        )

    # -- which records may depend on each other ---------------------------------------------

    def components(self, n: int) -> Array:
        """Return a code for every record; records with different codes are independent.

        Parameters
        ----------
        n : int
            Number of records.

        Returns
        -------
        ndarray of int, shape (n,)
            Codes ``0, 1, …``; all are 0 if every record may depend on every other.
        """
        n = self.check_n(n)
        return np.zeros(n, dtype=np.int64) if self._codes is None else self._codes

    # -- splits -----------------------------------------------------------------------------

    @abstractmethod
    def split(self, n: int, holdout: float, *, random_state: Seed = None) -> Split:
        """Return training and holdout records for which the bounds of this model are valid.

        The two sets are independent of each other, unless the bounds are conditional on the
        training records. For chains, a gap makes them nearly independent.

        Parameters
        ----------
        n : int
            Number of records to split.
        holdout : float
            Fraction of the records (or dates) for the holdout, in (0, 1).
        random_state : None, int or numpy.random.Generator, default=None
            Source of the random choice, if there is one.

        Returns
        -------
        Split
            Indices of both sets, and the number of records dropped between them.

        Raises
        ------
        ValueError
            If a set would be empty, or if the model has no valid split.
        """

    @abstractmethod
    def folds(self, n: int, n_splits: int, *, random_state: Seed = None) -> Folds:
        """Return the training and test records of cross-validation folds under this model.

        Parameters
        ----------
        n : int
            Number of records.
        n_splits : int
            Number of folds, at least 2.
        random_state : None, int or numpy.random.Generator, default=None
            ``None``: folds are not random. Otherwise records, or groups of one size, are shuffled
            first. Models in time, and ``DependencyGraph`` with ``reach="edges"``, may ignore it.

        Returns
        -------
        list of tuple of ndarray
            ``n_splits`` pairs ``(train, test)`` of indices. Every record is in exactly one test
            set, except the first block (of each sequence) of folds that train on earlier records
            only.

        Raises
        ------
        ValueError
            If there are too few records, groups or dates for the folds, if no training record is
            left, or if the model has no valid split.
        """

    # -- levels of privacy --------------------------------------------------------------------

    def bdp_epsilon(self, dp_epsilon: float, n: int, *, method: Bound = "tight") -> float:
        """Return the Bayesian DP level that a DP level implies under this model.

        Parameters
        ----------
        dp_epsilon : float
            Level of ordinary (replace-one) differential privacy, in nats, at least 0.
        n : int
            Number of records.
        method : {"tight", "quilt", "blanket", "spectral"}, default="tight"
            ``"tight"``: the smallest of several valid bounds. The others: Lemmas 2, 3 and 4 of
            Zhao (2017), with the constants printed there. For hidden chains, which these lemmas do
            not cover, they are never below ``"tight"``.

        Returns
        -------
        float
            A level that is never below the exact leakage.

        Raises
        ------
        ValueError
            If the method does not apply to this model; the message names the missing condition. No
            method applies to ``correlation="time"``, which declares no strength of dependence.
        """
        dp_epsilon = check_real("dp_epsilon", dp_epsilon, low=0.0)
        n = self.check_n(n)
        method = check_option("method", method, METHODS)
        return privacy_level(self, "leakage", dp_epsilon, n, method)

    def dp_epsilon(self, bdp_epsilon: float, n: int, *, method: Bound = "tight") -> float:
        """Return a DP level that suffices for a Bayesian DP level (inverse of :meth:`bdp_epsilon`).

        Parameters
        ----------
        bdp_epsilon : float
            Wanted level of Bayesian differential privacy, in nats, at least 0.
        n : int
            Number of records.
        method : {"tight", "quilt", "blanket", "spectral"}, default="tight"
            As for :meth:`bdp_epsilon`.

        Returns
        -------
        float
            Rounding errors make the level too small, never too large. ``0.0`` means that by this
            method no positive DP level suffices.

        Raises
        ------
        ValueError
            If the method does not apply to this model.
        """
        bdp_epsilon = check_real("bdp_epsilon", bdp_epsilon, low=0.0)
        n = self.check_n(n)
        method = check_option("method", method, METHODS)
        return privacy_level(self, "inverse", bdp_epsilon, n, method)

    # -- concentration ----------------------------------------------------------------------

    @abstractmethod
    def _variance_proxy(self, n, is_mean):
        """Return ``C`` in the bound ``2 exp(-2 (alpha / sensitivity)^2 / C)`` (theory H1-H5).

        It bounds the probability that a query deviates from its expectation by ``alpha`` or more.

        ``is_mean``: whether the query is a mean of scores of single records, with a sensitivity of
        ``1 / n``. Otherwise ``C`` must be valid for any query of the sensitivity.
        """

    def effective_n(self, n: int) -> float:
        """Return the number of independent records whose mean concentrates equally well.

        Parameters
        ----------
        n : int
            Number of records.

        Returns
        -------
        float
            Effective number, by which
            ``log_tail(alpha, n) = min(0, ln 2 - 2 * effective_n(n) * alpha**2)``.
        """
        n = self.check_n(n)
        return n * (n / self._variance_proxy(n, True))

    def log_tail(self, alpha: ArrayLike, n: int, *, sensitivity: float | None = None) -> Any:
        """Return ``ln`` of a bound on ``P[|q(X) - q(P)| >= alpha]`` for one fixed query.

        Parameters
        ----------
        alpha : float or array-like
            Deviations, at least 0, in score units of ``[0, 1]``.
        n : int
            Number of records.
        sensitivity : float, optional
            How far one record can move the query, in score units. By default the query is a mean of
            per-record scores in ``[0, 1]``, whose sensitivity is ``1 / n``. If given, only bounds
            that hold for any query of that sensitivity are used.

        Returns
        -------
        float or ndarray
            Two-sided (includes ``ln 2``), at most 0.
        """
        n = self.check_n(n)
        alpha = check_array("alpha", alpha, low=0.0)
        is_mean = sensitivity is None
        if is_mean:
            sensitivity = 1.0 / n
        else:
            sensitivity = check_real("sensitivity", sensitivity, low=0.0, closed="neither")
        variance_proxy = self._variance_proxy(n, is_mean)
        # Theory H1-H5: 2 alpha^2 / (sensitivity^2 C) - ln 2
        log_bound = math.log(2.0) - 2.0 * (alpha / sensitivity) ** 2 / variance_proxy
        log_bound = np.minimum(log_bound, 0.0)
        return float(log_bound) if log_bound.ndim == 0 else log_bound

    def mean_lower_limit(
        self, values: ArrayLike, log_failure: ArrayLike, n: int, *, binary: bool = False
    ) -> Array:
        """Return lower confidence limits for the expectation of fixed means of scores.

        Parameters
        ----------
        values : float or array-like
            Values that the means have reached or exceeded on the records, in ``[0, 1]``.
        log_failure : float or array-like
            Log of the one-sided failure probability, at most 0; broadcast against ``values``.
        n : int
            Number of records. Each record may have a score function of its own, with values in
            ``[0, 1]``.
        binary : bool, default=False
            Whether every score is 0 or 1; a public fact about the metric.

        Returns
        -------
        float or ndarray
            At most ``values``, and nondecreasing in ``values`` and ``log_failure``. Upper limits
            are ``1 - mean_lower_limit(1 - values, ...)``.

        References
        ----------
        Theory G5 (inversion), G8 (independent records), G12 (components of unequal size).
        """
        n = self.check_n(n)
        checked_values, log_failures = broadcast_limit_arguments(values, log_failure)
        limits = self._lower_limit(
            np.atleast_1d(checked_values), np.atleast_1d(log_failures), n, bool(binary)
        )
        return np.minimum(limits.reshape(checked_values.shape), checked_values)

    def _lower_limit(self, values, log_failures, n, binary):
        """Return lower limits for vectors of values and of logs of failure probabilities.

        ``binary``: whether every score is 0 or 1.
        """
        return hoeffding_lower_limit(values, log_failures, self.effective_n(n))

    def with_estimated_strength(self, labels: ArrayLike, train: ArrayLike) -> CorrelationModel:
        """Return the model with a strength of dependence that is estimated from training labels.

        Parameters
        ----------
        labels : array-like of shape (n,)
            Labels of all records; only those of training records are read.
        train : array-like of int
            Indices of the training records.

        Returns
        -------
        CorrelationModel
            The model itself, unless it was made with ``influence="estimate"``.
        """
        return self

    def conditional_on_rest(self, indices: ArrayLike) -> CorrelationModel:
        """Return the model of the holdout records that their intervals are based on.

        Parameters
        ----------
        indices : array-like of int
            Indices of the holdout records.

        Returns
        -------
        CorrelationModel
            By default that of :meth:`subset`. Models that hold out single nodes, or records
            between their neighbors, may return the model given all other records (theory G13, G27).
        """
        return self.subset(indices)

    def training_model(self, indices: ArrayLike) -> CorrelationModel:
        """Return the model of training records whose :meth:`folds` cross-validation uses.

        Parameters
        ----------
        indices : array-like of int
            Indices of the training records.

        Returns
        -------
        CorrelationModel
            By default that of :meth:`conditional_on_rest`; no interval depends on it.
        """
        return self.conditional_on_rest(indices)

    @abstractmethod
    def subset(self, indices: ArrayLike) -> CorrelationModel:
        """Return the model of some of the records, for their marginal distribution.

        Parameters
        ----------
        indices : array-like of int
            Indices of the records to keep.

        Returns
        -------
        CorrelationModel
            Their model.

        Raises
        ------
        ValueError
            If the records are not distinct, or if a model in time does not allow the selection:
            that of a chain must be contiguous and ascending.
        """


def broadcast_limit_arguments(values: ArrayLike, log_failure: ArrayLike) -> tuple[Array, ...]:
    """Return checked values in [0, 1] and logs of failure probabilities, broadcast to one shape."""
    checked_values = check_array("values", values, low=0.0, high=1.0)
    log_failures = check_array("log_failure", log_failure, high=0.0)
    return np.broadcast_arrays(checked_values, log_failures)


def generator(random_state):
    """Return a numpy Generator for ``None``, an int, a Generator or a legacy RandomState."""
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31 - 1, size=4))
    return np.random.default_rng(random_state)


def holdout_size(n, holdout):
    """Return the number of holdout records, rounded up, of ``n`` records.

    ``holdout``: their fraction. Raises ValueError if no holdout or no training record would be
    left.
    """
    fraction = check_real("holdout", holdout, low=0.0, high=1.0, closed="neither")
    size = math.ceil(n * fraction - 1e-9)
    if not 1 <= size <= n - 1:
        raise ValueError(f"holdout must leave records on both sides, got {holdout=} of {n=}.")
    return size


def check_splits(n_splits, max_splits, unit_name, *, advice="Bring more records."):
    """Return ``n_splits`` as an int between 2 and ``max_splits``, the number of units to divide.

    Raises TypeError or ValueError for other values. ``unit_name``: plural noun for the units in the
    error. ``advice``: last sentence of the error if ``max_splits`` is below 2.
    """
    n_splits = check_integer("n_splits", n_splits, low=2)
    if not n_splits <= max_splits:
        if max_splits >= 2:
            raise ValueError(
                f"cv must be at most {max_splits}, the number of {unit_name}, got {n_splits=}. Set "
                f"cv={max_splits}, or bring more of them."
            )
        raise ValueError(
            f"{unit_name} are too few for folds: {max_splits}, and cv needs {n_splits}. {advice}"
        )
    return n_splits


def check_indices(indices, n) -> Array:
    """Return ``indices`` as an array of record indices, in the order given.

    If ``n`` is not None, ``indices`` may also be a boolean mask of ``n`` records. Raises ValueError
    unless the indices are distinct integers of at least 0 (and below ``n``), and at least one.
    """
    records = np.asarray(indices)
    if records.ndim == 1 and records.dtype == bool and n is not None and len(records) == n:
        records = np.flatnonzero(records)
    if records.ndim != 1 or not len(records) or not np.issubdtype(records.dtype, np.integer):
        raise ValueError(
            f"indices must be a list of record numbers, got shape {records.shape} of "
            f"{records.dtype}."
        )
    upper_bound = math.inf if n is None else n
    if not (
        records.min() >= 0
        and records.max() < upper_bound
        and len(np.unique(records)) == len(records)
    ):
        raise ValueError(f"indices must be distinct and in [0, {upper_bound}), got {records[:5]}…")
    return records
