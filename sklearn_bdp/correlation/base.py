"""Base class of correlation models: frozen values with a handful of pure methods."""

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
Folds: TypeAlias = list[tuple[Array, Array]]  # train and test records of each
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
        Records or dates dropped between the two.

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

    ``n`` is always the number of holdout records; leakage and influence are in nats.
    Two models are equal when they are of one class and hold the same content. Attributes are set
    in the constructor, which ends with ``_freeze(...)`` of that content. Results may be remembered;
    the memory is bounded and never part of a pickle.
    """

    #: Number of records that the model is tied to, or None for any number.
    n_records: int | None = None

    #: Sentences that a certificate must add: assumptions, and cases that are not covered.
    caveats: tuple[str, ...] = ()

    _codes: Array | None = None  # of components, if the model is tied to records
    _size_hint = ""  # advice if the number of records differs

    @abstractmethod
    def describe(self) -> str:
        """Return one plain line for certificates.

        Returns
        -------
        str
            The line.
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
        """Return the sampling units of the records, their bound and the target of intervals.

        Parameters
        ----------
        n : int
            Number of records.

        Returns
        -------
        SamplingScheme
            By default, records whose means concentrate at their effective number.
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
            Codes ``0, 1, …``; a single one if every record may depend on every other.
        """
        n = self.check_n(n)
        return np.zeros(n, dtype=np.int64) if self._codes is None else self._codes

    # -- cutting without cutting dependence -----------------------------------------------------

    @abstractmethod
    def split(self, n: int, holdout: float, *, random_state: Seed = None) -> Split:
        """Return a :class:`Split` that cuts no dependence.

        Parameters
        ----------
        n : int
            Number of records to split.
        holdout : float
            Fraction of the records for the holdout, in (0, 1).
        random_state : None, int or numpy.random.Generator, default=None
            Source of the random choice, if there is one.

        Returns
        -------
        Split
            Index arrays and the gap between them.

        Raises
        ------
        ValueError
            If a side would be empty.
        """

    @abstractmethod
    def folds(self, n: int, n_splits: int, *, random_state: Seed = None) -> Folds:
        """Return index arrays of folds that cut no dependence.

        Parameters
        ----------
        n : int
            Number of records.
        n_splits : int
            Number of folds, at least 2.
        random_state : None, int or numpy.random.Generator, default=None
            ``None`` keeps the order of the records; otherwise they (or their groups) are
            shuffled first.

        Returns
        -------
        list of tuple of ndarray
            ``n_splits`` pairs ``(train, test)``; every record is in exactly one test set, except
            that the first block of forward-chaining folds is trained on only.
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
            ``"tight"`` takes the best valid bound; the others are Lemmas 2, 3 and 4 of Zhao
            (2017) as printed.

        Returns
        -------
        float
            A level that is never below the exact leakage.

        Raises
        ------
        ValueError
            If the method does not apply to this model; the message names the missing condition.
        """
        level = check_real("dp_epsilon", dp_epsilon, low=0.0)
        n = self.check_n(n)
        method = check_option("method", method, METHODS)
        return privacy_level(self, "leakage", level, n, method)

    def dp_epsilon(self, bdp_epsilon: float, n: int, *, method: Bound = "tight") -> float:
        """Return a DP level that suffices for a Bayesian DP level: the inverse, safe side.

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
            ``0.0`` means that by this method no positive DP level suffices.

        Raises
        ------
        ValueError
            If the method does not apply to this model.
        """
        level = check_real("bdp_epsilon", bdp_epsilon, low=0.0)
        n = self.check_n(n)
        method = check_option("method", method, METHODS)
        return privacy_level(self, "inverse", level, n, method)

    # -- concentration ----------------------------------------------------------------------

    @abstractmethod
    def _variance_proxy(self, n, statistical):
        """Return ``C`` in the tail ``2 exp(-2 (n alpha)^2 / C)`` of a mean (theory H1-H5)."""

    def effective_n(self, n: int) -> float:
        """Return the number of independent records whose mean concentrates equally well.

        Parameters
        ----------
        n : int
            Number of records.

        Returns
        -------
        float
            Effective number: ``log_tail(alpha, n) = ln 2 - 2 * effective_n(n) * alpha**2``.
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
        delta = 1.0 / n
        if sensitivity is not None:
            delta = check_real("sensitivity", sensitivity, low=0.0, closed="neither")
        spread = self._variance_proxy(n, sensitivity is None)
        # Theory H1-H5: 2 alpha^2 / (sensitivity^2 C) - ln 2
        result = np.minimum(math.log(2.0) - 2.0 * (alpha / delta) ** 2 / spread, 0.0)
        return float(result) if result.ndim == 0 else result

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
            Number of records; their scores in ``[0, 1]`` may be different functions.
        binary : bool, default=False
            Whether every score is 0 or 1; a public fact about the metric.

        Returns
        -------
        ndarray
            At most ``values``; monotone in both arguments. The upper limit is
            ``1 - mean_lower_limit(1 - values, ...)``.

        References
        ----------
        Theory G5 (inversion), G8 (independent records), G12 (components of unequal size).
        """
        n = self.check_n(n)
        value, level = check_levels(values, log_failure)
        shape = value.shape
        limit = self._lower_limit(np.atleast_1d(value), np.atleast_1d(level), n, bool(binary))
        return np.minimum(limit.reshape(shape), value)

    def _lower_limit(self, values, levels, n, binary):
        """Return Hoeffding's limits; a model with a sharper tail inverts that, too."""
        return hoeffding_lower_limit(values, levels, self.effective_n(n))

    def with_estimated_strength(self, labels: ArrayLike, train: ArrayLike) -> CorrelationModel:
        """Return the model with its open parameters estimated from labels of training records.

        Parameters
        ----------
        labels : array-like of shape (n,)
            Labels of all records; only those of training records are read.
        train : array-like of int
            The training records.

        Returns
        -------
        CorrelationModel
            The model itself if it has no open parameters.
        """
        return self

    def conditional_on_rest(self, indices: ArrayLike) -> CorrelationModel:
        """Return the model of a holdout whose other records are training records.

        Parameters
        ----------
        indices : array-like of int
            The holdout.

        Returns
        -------
        CorrelationModel
            Their model given all other records if the model has one (theory G13), otherwise
            that of :meth:`subset`.
        """
        return self.subset(indices)

    def training_model(self, indices: ArrayLike) -> CorrelationModel:
        """Return the model of the training records, which inner folds obey.

        Parameters
        ----------
        indices : array-like of int
            The training records.

        Returns
        -------
        CorrelationModel
            By default that of :meth:`conditional_on_rest`; no interval depends on it.
        """
        return self.conditional_on_rest(indices)

    @abstractmethod
    def subset(self, indices: ArrayLike) -> CorrelationModel:
        """Return the model of some of the records (the distribution after the others are dropped).

        Parameters
        ----------
        indices : array-like of int
            Records to keep.

        Returns
        -------
        CorrelationModel
            Their model.

        Raises
        ------
        ValueError
            If the records are not distinct, or, for a chain, not contiguous and ascending.
        """


def check_levels(values: ArrayLike, log_failure: ArrayLike) -> tuple[Array, ...]:
    """Return values in [0, 1] and logs of failure probabilities as arrays of one shape."""
    value = check_array("values", values, low=0.0, high=1.0)
    return np.broadcast_arrays(value, check_array("log_failure", log_failure, high=0.0))


def generator(random_state):
    """Return a numpy Generator for ``None``, an int, a Generator or a legacy RandomState."""
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31 - 1, size=4))
    return np.random.default_rng(random_state)


def holdout_size(n, holdout):
    """Return the number of holdout records, after checking that no side is empty."""
    fraction = check_real("holdout", holdout, low=0.0, high=1.0, closed="neither")
    size = math.ceil(n * fraction - 1e-9)
    if not 1 <= size <= n - 1:
        raise ValueError(f"holdout must leave records on both sides, got {holdout=} of {n=}.")
    return size


def check_splits(n_splits, available, unit_name):
    """Return ``n_splits`` as an int between 2 and ``available``."""
    n_splits = check_integer("n_splits", n_splits, low=2)
    if not n_splits <= available:
        advice = f"Set cv={available}" if available >= 2 else "Pass X_val and y_val"
        raise ValueError(
            f"cv must be at most {available}, the number of {unit_name}, got {n_splits=}. "
            f"{advice}, or bring more of them."
        )
    return n_splits


def check_indices(indices, n) -> Array:
    """Return ``indices`` as an array of distinct record numbers (below ``n`` if given)."""
    array = np.asarray(indices)
    if array.ndim == 1 and array.dtype == bool and n is not None and len(array) == n:
        return np.flatnonzero(array)
    if array.ndim != 1 or not len(array) or not np.issubdtype(array.dtype, np.integer):
        raise ValueError(
            f"indices must be a list of record numbers, got shape {array.shape} of {array.dtype}."
        )
    high = math.inf if n is None else n
    if not (array.min() >= 0 and array.max() < high and len(np.unique(array)) == len(array)):
        raise ValueError(f"indices must be distinct and in [0, {high}), got {array[:5]}…")
    return array
