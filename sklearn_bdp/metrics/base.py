"""Metrics: their facts, their registry, and evaluations that cannot fail."""

from __future__ import annotations

import abc
import contextlib
import copy
import dataclasses
import logging
import math
import numbers
import os
import re
import sys
import threading
import warnings
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeVar

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike

from sklearn_bdp._typing import Array, FloatOrArray
from sklearn_bdp.intervals.bounds import clopper_pearson_interval
from sklearn_bdp.intervals.jackknife import GENERIC, Statistic
from sklearn_bdp.metrics import proofs

MetricClass = TypeVar("MetricClass", bound="type[Metric]")

#: The one registry: the class of each metric by its names.
METRICS: dict[str, type[Metric]] = {}


def register_metric(*names: str) -> Callable[[MetricClass], MetricClass]:
    """Register a class of metrics under names that ``scoring`` takes everywhere.

    Parameters
    ----------
    *names : str
        Names of the metric: that of scikit-learn's scorer, if there is one.

    Returns
    -------
    callable
        A decorator that returns the class itself.

    Raises
    ------
    ValueError
        If another class has one of the names.
    """

    def register(metric_class):
        for name in names:
            registered = METRICS.get(name, metric_class)
            # A module that is imported again defines the same class anew.
            definitions = {(c.__module__, c.__qualname__) for c in (registered, metric_class)}
            if len(definitions) > 1:
                raise ValueError(
                    f"names of metrics must be new, got {name!r}, which is registered for "
                    f"{registered.__module__}.{registered.__qualname__}."
                )
            METRICS[name] = metric_class
        return metric_class

    return register


_lock = threading.Lock()
#: Blocks of :func:`suppress_output` that were entered and not left, of all threads.
_active_blocks: list[object] = []
#: Restores filters, streams and logging; None if no block is active.
_saved_state: contextlib.ExitStack | None = None


@dataclasses.dataclass(frozen=True)
class ScoreShape:
    """Public facts about how a score varies, from the metric and the training set.

    Its fields are the arguments of :func:`sklearn_bdp.intervals.score_tail`, described there. A
    holdout fills in ``class_floors``, once its mechanism was asked for the shares of the classes.
    """

    kind: str = "mean"
    binary: bool = False
    classes: tuple = ()
    class_counts: tuple | None = None
    counted_classes: tuple | None = None
    class_floors: tuple | None = None
    constant_score: float | None = None
    within_group_fractions: tuple | None = None
    family: str = ""
    spread: tuple | None = None

    @property
    def is_mean(self) -> bool:
        """Whether the score is a mean over records."""
        return self.kind == "mean"


@dataclasses.dataclass(frozen=True, eq=False)
class Evaluation:
    """The score of one fitted model on one set of records.

    A holdout's evaluation is raw: it may go to the mechanism and nowhere else.
    """

    per_record: np.ndarray | None  # in [0, 1], greater is better; None: no mean over records
    value: float  # the score in [0, 1]
    sensitivity: float  # how far one record can move the value, as far as that is public
    shape: ScoreShape = ScoreShape()  # public facts about how the score varies
    #: Raw parts of a score by class, combined once the shares of the classes are known.
    by_class: Any = None
    failing: Any = None  # positions of records that the model failed on: as raw as their scores
    #: Targets minus predictions, NaN where the model failed: a clip from the training set may
    #: follow. None if scores are not of errors without a declared range.
    errors: Any = None

    def __repr__(self) -> str:
        # Never the numbers: a record that ends up in a log or a traceback must not leak.
        return f"Evaluation(<raw scores hidden>, sensitivity={self.sensitivity:g})"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Metric:
    """One metric: its range, its response, and the kinds of intervals that its scores have.

    Greater is better. A subclass states each fact once; searches, final reports and plans read it
    from there.

    Parameters
    ----------
    name : str
        Name of the metric: that of scikit-learn's scorer, if there is one.
    lower, upper : float
        Range in score units.
    note : str, default=""
        A choice that was made on the caller's behalf, in a sentence; empty without one.
    """

    name: str
    lower: float
    upper: float
    note: str = dataclasses.field(default="", compare=False)

    #: Ends of the range, unless :meth:`build` takes them from targets or options.
    score_range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    #: The range in words, if it follows from targets or options.
    range_text: ClassVar[str] = ""
    #: Options of `get_metric`.
    options: ClassVar[tuple[str, ...]] = ()
    #: Arguments of scikit-learn's score function that make no difference.
    ignored_arguments: ClassVar[tuple[str, ...]] = ()
    #: Option that a number at the end of a name gives, as in ``top_k_accuracy_3``.
    number_option: ClassVar[str] = ""
    #: Its type: positive integers, or numbers between 0 and 1.
    number_type: ClassVar[type[int] | type[float]] = float
    #: Whether the name means nothing without a number.
    needs_number: ClassVar[bool] = False
    #: Options that give the metric some valid range before there are training targets.
    placeholder_options: ClassVar[Mapping[str, Any]] = {}
    #: Kinds of targets that the metric takes, in scikit-learn's words; empty if any.
    target_types: ClassVar[tuple[str, ...]] = ()
    #: Whether predicted labels are compared with targets.
    reads_labels: ClassVar[bool] = False
    #: Whether a proven bound of answers lets the metric choose candidates everywhere.
    can_rank: ClassVar[bool] = False
    #: Whether the score is a mean over records.
    is_mean: ClassVar[bool] = False
    #: Whether the score is a ratio of two counts, which :meth:`counts` gives.
    is_ratio: ClassVar[bool] = False
    #: Whether each record contributes 0 or 1.
    is_binary: ClassVar[bool] = False
    #: Whether minus the score is a mean loss, so that skill scores compare models.
    is_loss: ClassVar[bool] = False
    #: Whether predictions must be above 0.
    needs_positive_predictions: ClassVar[bool] = False
    #: Whether the predictions of two models bound the difference of their scores (theory G31). A
    #: class states it for itself: a subclass may score equal predictions differently.
    bounds_differences: ClassVar[bool] = False
    #: Leave-one-unit-out values, and the tested range of approximate intervals.
    unit_statistic: ClassVar[Statistic] = GENERIC

    @classmethod
    def build(
        cls, name: str, *, classes: Any, y: ArrayLike | None, options: Mapping[str, Any]
    ) -> Metric:
        """Return the metric for these classes, targets and options.

        Parameters
        ----------
        name : str
            A name that this class is registered under.
        classes : array-like or None
            Classes of a fitted model.
        y : array-like of shape (n,) or None
            *Training* targets.
        options : mapping
            Options of `get_metric`, all among :attr:`options`.

        Returns
        -------
        Metric
            With its range.

        Raises
        ------
        TypeError, ValueError
            If options or targets do not fit the metric.
        """
        lower, upper = cls.score_range
        return cls(name=name, lower=lower, upper=upper)

    @classmethod
    def without_range(cls, name: str, options: Mapping[str, Any]) -> Metric:
        """Return the metric for approximate rows, which need no range.

        Parameters
        ----------
        name : str
            As rows name it.
        options : mapping
            The number of a name such as ``top_k_accuracy_3``.

        Returns
        -------
        Metric
            Without a proof that rests on a range.
        """
        return cls.build(name, classes=None, y=None, options=options)

    @property
    def display_name(self) -> str:
        """The measured quantity in words: the name, and the limit of a metric that clips."""
        return self.name

    @property
    def caveat(self) -> str:
        """How the score differs from the metric of that name; empty if it does not."""
        return ""

    @property
    def is_of_caller(self) -> bool:
        """Whether the class is defined outside of the package, so that its code may be edited."""
        return type(self).__module__.partition(".")[0] != __name__.partition(".")[0]

    @property
    def has_bounded_differences(self) -> bool:
        """Whether this very class states :attr:`bounds_differences`."""
        return bool(vars(type(self)).get("bounds_differences", False))

    @staticmethod
    def count_limits(
        numerator: float, denominator: float, level: float, *, alike: bool
    ) -> tuple[float, float]:
        """Return limits of a share of independent records (theory G8).

        Parameters
        ----------
        numerator, denominator : float
            Sums over records: of hits, and of the records that count.
        level : float
            Failure probability of both limits together.
        alike : bool
            Whether the records are identically distributed.

        Returns
        -------
        lower, upper : float
            In [0, 1].
        """
        return clopper_pearson_interval(round(numerator), round(denominator), level, alike=alike)

    def proof(
        self,
        dependence: str,
        *,
        is_difference: bool = False,
        in_subgroup: bool = False,
        is_private: bool = False,
    ) -> str:
        """Return the method that proves a row of a final report.

        Parameters
        ----------
        dependence : str
            Dependence of the records, as in :mod:`sklearn_bdp.metrics.proofs`.
        is_difference : bool, default=False
            Whether the row compares two models.
        in_subgroup : bool, default=False
            Whether the row is about a subgroup.
        is_private : bool, default=False
            Whether the holdout has a level of privacy, so that counts are not read.

        Returns
        -------
        str
            Empty without a proof.
        """
        return ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class BoundedMetric(Metric, abc.ABC):
    """A score with a known range and a proved sensitivity.

    Made by `get_metric`. Greater is better, in score units (those of scikit-learn's scorer of the
    same name) and in the units of the mechanism, [0, 1]; the map between them is linear and
    increasing.

    Parameters
    ----------
    name : str
        Name of the metric: that of scikit-learn's scorer, if there is one.
    lower, upper : float
        Range in score units.
    note : str, default=""
        A choice that was made on the caller's behalf, in a sentence; empty without one.
    """

    can_rank: ClassVar[bool] = True
    #: Methods of a model whose response is scored, the preferred one first; none if a function of
    #: the caller asks the model itself.
    methods: ClassVar[tuple[str, ...]] = ("predict",)
    #: Whether predictions are all that the score asks a model for, whatever object gives them.
    uses_predictions_only: ClassVar[bool] = False
    #: Methods that prove a difference of two models if the range is unknown, by dependence.
    difference_proofs_without_range: ClassVar[Mapping[str, str]] = {}
    _multioutput: ClassVar[bool] = False

    @classmethod
    def without_range(cls, name, options):
        return UnboundedMetric(name=name, lower=-math.inf, upper=math.inf, bounded_class=cls)

    @property
    def open_ends(self) -> str:
        """Ends of the range beyond which scores may lie: ``""``, ``"lower"`` or ``"both"``."""
        return ""

    def clipping(self, estimator: Any, X: Any, y: ArrayLike, per_record: Array | None) -> Any:
        """Return the effect of clipping on some public records.

        Parameters
        ----------
        estimator, X, y : object
            As for `evaluate`; records of the *training set*.
        per_record : ndarray of shape (n,) or None
            Their scores in [0, 1].

        Returns
        -------
        Clipping or None
            Numbers of records and both scores; None for metrics that clip nothing.
        """
        return None

    def check_clipping(self, clipping: Any) -> None:
        """Raise if the best candidate leaves a range that the caller declared.

        Parameters
        ----------
        clipping : Clipping or None
            Of the training records.

        Raises
        ------
        ScoreContractError
            If a `PerRecordScore` gave one of them a number outside its declared range.
        """
        return

    def check_training(self, estimator: Any, X: Any, y: ArrayLike) -> None:
        """Raise if the metric breaks its contract on training records; most cannot.

        Parameters
        ----------
        estimator, X, y : object
            As for `evaluate`; records of the *training set*.

        Raises
        ------
        ScoreContractError
            If a `PerRecordScore` gives other than one number per record, or a number better than
            the best of its declared range.
        """
        return

    def with_training_targets(
        self, y: ArrayLike | None, groups: ArrayLike | None = None
    ) -> BoundedMetric:
        """Return the metric with the facts that it takes from training targets.

        Parameters
        ----------
        y : array-like of shape (n,) or None
            *Training* targets: they are public.
        groups : array-like of shape (n,), default=None
            Groups of these records, each of which counts once.

        Returns
        -------
        BoundedMetric
            The same metric for most; classes and their counts for those that weigh by class.
        """
        return self

    def expected_shape(self, n: int) -> ScoreShape:
        """Return public facts about how the score varies, before there are records.

        Parameters
        ----------
        n : int
            Number of records.

        Returns
        -------
        ScoreShape
            The arguments of :func:`sklearn_bdp.intervals.score_tail`.
        """
        return ScoreShape(binary=self.is_binary)

    def planned_shape(self, n: int, class_counts: tuple[int, int]) -> ScoreShape:
        """Return how the score of a holdout that is only planned varies.

        Parameters
        ----------
        n : int
            Number of its records.
        class_counts : tuple of int
            Training records of the negative and of the positive class.

        Returns
        -------
        ScoreShape
            As for :meth:`expected_shape`; classes matter to metrics by class only.
        """
        return self.expected_shape(n)

    @abc.abstractmethod
    def record_scores(self, estimator: Any, X: Any, y: Array) -> Array:
        """Return one number for each record.

        Parameters
        ----------
        estimator, X, y : object
            As for `evaluate`. A record's number may depend on that record and the model only.

        Returns
        -------
        ndarray of shape (n,)
            A score in [0, 1] of a metric that is a mean; a response or a hit of others. NaN marks a
            record that the model failed on.
        """

    @abc.abstractmethod
    def _evaluated(self, estimator, rows, y) -> Evaluation:
        """Return the evaluation that the rows make, NaN marking a failed row."""

    def evaluate(self, estimator: Any, X: Any, y: ArrayLike) -> Evaluation:
        """Score a fitted estimator; failing rows get the worst score.

        Rows on which the model raises or returns NaN are found one by one (by bisection) and
        scored 0 in [0, 1], so that a failure is an ordinary bounded score and no side channel.
        For the same reason warnings, prints and logs of the model are not shown. After a first
        failure a copy of the model predicts parts of the records. Use it for holdout records.

        Parameters
        ----------
        estimator : estimator
            Fitted; it must predict row by row.
        X : {array-like, sparse matrix, DataFrame} of shape (n, n_features)
            Records.
        y : array-like of shape (n,)
            Their targets.

        Returns
        -------
        Evaluation
            Scores in [0, 1].

        Raises
        ------
        TypeError
            If the estimator lacks the method the metric needs.
        ValueError
            If ``X`` and ``y`` differ in length, or are empty.
        """
        y = self.check_input(estimator, X, y)
        with suppress_output():
            rows = score_rows(self.record_scores, estimator, X, y)
            evaluation = self._evaluated(estimator, rows, y)
        return dataclasses.replace(evaluation, failing=np.flatnonzero(np.isnan(rows)))

    def training_score(self, estimator: Any, X: Any, y: ArrayLike) -> float:
        """Score a fitted estimator on public records; errors of the model propagate.

        Parameters
        ----------
        estimator, X, y : object
            As for `evaluate`; records of the training set.

        Returns
        -------
        float
            The score in [0, 1]. NaN predictions count as the worst score, as on the holdout.
        """
        return self.training_scores(estimator, X, y)[1]

    def training_scores(self, estimator: Any, X: Any, y: ArrayLike) -> tuple[Array | None, float]:
        """Score a fitted estimator on each of some public records; its errors propagate.

        Parameters
        ----------
        estimator, X, y : object
            As for `evaluate`; records of the training set.

        Returns
        -------
        per_record : ndarray of shape (n,) or None
            Scores in [0, 1]; None for a score that is not a mean over records.
        value : float
            Their :meth:`training_score`.
        """
        y = self.check_input(estimator, X, y)
        rows = np.asarray(self.record_scores(estimator, X, y), dtype=float)
        if rows.shape != (len(y),):
            raise ValueError(
                f"{self.name} must give one number per record, got shape {rows.shape} for "
                f"{len(y)} records."
            )
        evaluation = self._evaluated(estimator, rows, y)
        return evaluation.per_record, evaluation.value

    def score(self, estimator: Any, X: Any, y: ArrayLike) -> float:
        """Score a fitted estimator on public records, in score units.

        Parameters
        ----------
        estimator, X, y : object
            As for `evaluate`.

        Returns
        -------
        float
            The score.
        """
        return self.from_unit(self.training_score(estimator, X, y))

    def to_unit(self, score: FloatOrArray) -> Any:
        """Map score units to [0, 1].

        Parameters
        ----------
        score : float or ndarray
            Scores as scikit-learn's scorer gives them.

        Returns
        -------
        float or ndarray
            Values in [0, 1]; scores beyond the range are clipped, NaN stays NaN.
        """
        unit = np.clip((score - self.lower) / (self.upper - self.lower), 0.0, 1.0)
        return unit if np.ndim(unit) else float(unit)

    def from_unit(self, value: FloatOrArray) -> Any:
        """Map [0, 1] to score units.

        Parameters
        ----------
        value : float or ndarray
            Values in [0, 1].

        Returns
        -------
        float or ndarray
            Scores in ``[lower, upper]``.
        """
        return self.lower + value * (self.upper - self.lower)

    def ends_from_unit(self, lower: FloatOrArray, upper: FloatOrArray) -> tuple[Any, Any]:
        """Map the ends of intervals to score units.

        Parameters
        ----------
        lower, upper : float or ndarray
            Ends in [0, 1].

        Returns
        -------
        lower, upper : float or ndarray
            Ends in score units; infinite at an open end of the range.
        """
        return self.from_unit(lower), self.from_unit(upper)

    def check_input(self, estimator: Any, X: Any, y: ArrayLike) -> Array:
        """Return targets as an array.

        Parameters
        ----------
        estimator, X, y : object
            As for `evaluate`.

        Returns
        -------
        ndarray of shape (n,) or (n, n_outputs)
            Targets; of a metric by class the positions of their classes.

        Raises
        ------
        TypeError, ValueError
            If the form of the targets, or the model, does not fit the metric.
        """
        self.check_estimator(estimator)
        y = as_labels(y)
        if n_records(X) != len(y) or not len(y):
            raise ValueError(
                f"X and y must have the same positive number of records, got {n_records(X)} and "
                f"{len(y)}."
            )
        if self.methods:
            check_schema(estimator, X, y)
        if y.ndim != 1 and not self._multioutput:
            raise ValueError(
                f"{self.name} needs one target per record, got y of shape {y.shape}. Score several "
                "outputs with a PerRecordScore."
            )
        return y

    def check_estimator(self, estimator: Any) -> None:
        """Check that the estimator has a method that the metric needs.

        Parameters
        ----------
        estimator : estimator
            Fitted.

        Raises
        ------
        TypeError
            If it has none.
        """
        if any(hasattr(estimator, method) for method in self.methods[:-1]):
            return
        for last in self.methods[-1:]:
            for needed in (last, "classes_") if last == "predict_proba" else (last,):
                if not hasattr(estimator, needed):
                    raise TypeError(
                        f"{self.name} needs an estimator with {needed}, got "
                        f"{type(estimator).__name__}."
                    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class MeanMetric(BoundedMetric):
    """A metric that averages a per-record score: sensitivity 1/n, valid for any correlation."""

    is_mean: ClassVar[bool] = True
    uses_predictions_only: ClassVar[bool] = True

    def proof(self, dependence, *, is_difference=False, in_subgroup=False, is_private=False):
        if is_difference:
            proven = {} if in_subgroup else proofs.DIFFERENCE
        elif in_subgroup:
            proven = proofs.SHARE_INSIDE if self.is_binary else proofs.MEAN_INSIDE
        else:
            proven = proofs.SHARE if self.is_binary else proofs.MEAN
        return proven.get(dependence, "")

    def _evaluated(self, estimator, rows, y):
        per_record = np.fmin(np.fmax(rows, 0.0), 1.0)  # NaN: the worst
        # Replacing one record moves one term of the mean by at most 1.
        sensitivity = 1.0 / len(per_record)
        shape = ScoreShape(binary=self.is_binary)
        return Evaluation(per_record, float(per_record.mean()), sensitivity, shape)


@dataclasses.dataclass(frozen=True, kw_only=True)
class UnboundedMetric(Metric):
    """A bounded metric whose range is unknown: it has approximate rows."""

    bounded_class: type[BoundedMetric] = dataclasses.field(repr=False)
    #: Leave-one-unit-out values, if they depend on options.
    own_statistic: Statistic | None = dataclasses.field(default=None, repr=False, compare=False)

    @property
    def unit_statistic(self) -> Statistic:  # type: ignore[override] # it depends on options
        """Leave-one-unit-out values, and the tested range of approximate intervals."""
        return self.own_statistic or self.bounded_class.unit_statistic

    @property
    def error_power(self) -> int | None:
        """Power of the absolute error whose mean is minus the score; None for other metrics."""
        return getattr(self.bounded_class, "error_power", None)

    @property
    def is_loss(self) -> bool:  # type: ignore[override] # it depends on the bounded metric
        """Whether minus the score is a mean loss that needs no range."""
        return self.bounded_class.is_loss and self.error_power is not None

    def proof(self, dependence, *, is_difference=False, in_subgroup=False, is_private=False):
        if not is_difference or in_subgroup:
            return ""
        return self.bounded_class.difference_proofs_without_range.get(dependence, "")


# -- rows: ask the model once, find those that it fails on by bisection ---------------------------


def check_schema(estimator, X, y):
    """Raise ValueError where columns or label types are not those the model was fitted with.

    These are facts about the form of the records, not about their values, so that messages may
    state them. Nothing is queried before.
    """
    _check_n_columns(estimator, X)
    names = getattr(estimator, "feature_names_in_", None)
    columns = getattr(X, "columns", None)
    if names is not None and columns is not None and not same_names(names, columns):
        raise ValueError(
            "estimator must be fitted on the columns of the records in their order, got "
            f"{list(names)[:5]}… for {list(columns)[:5]}…. The holdout was not queried."
        )
    classes = np.asarray(getattr(estimator, "classes_", []))
    if classes.ndim == 1 and classes.size and y is not None and y.ndim == 1:
        _check_label_type(classes, y)


def _check_n_columns(estimator, X):
    """Raise ValueError where a model was fitted on another number of columns."""
    n_fitted = getattr(estimator, "n_features_in_", None)
    n_columns = getattr(X, "shape", (0,))[1:2]
    if n_fitted is not None and n_columns and n_columns[0] != n_fitted:
        raise ValueError(
            f"estimator must take the {n_columns[0]} columns of the records, got one fitted on "
            f"{n_fitted}. Select columns in a pipeline. The holdout was not queried."
        )


def _check_label_type(classes, y):
    """Raise ValueError where one of classes and targets is text, and the other numbers."""
    of_model = "text" if _is_text(classes) else "numbers"
    of_records = "text" if _is_text(y) else "numbers"
    if of_model != of_records:
        raise ValueError(
            f"the model was fitted with labels that are {of_model}, got records whose labels "
            f"are {of_records}."
        )


def _is_text(labels):
    """Return whether an array of labels holds text."""
    return labels.dtype.kind in "US" or (labels.dtype == object and isinstance(labels[0], str))


def same_names(first, second):
    """Return whether columns have the same names, but for marks that LightGBM replaces by "_"."""
    first, second = ([re.sub(r"\W", "_", str(name)) for name in names] for names in (first, second))
    return first == second


def n_records(X: Any) -> int:
    """Return the number of rows of a table, an array or a sequence."""
    shape = getattr(X, "shape", ())
    return int(shape[0]) if shape and isinstance(shape[0], numbers.Integral) else len(X)


def as_labels(y: Any) -> Array:
    """Return targets as an array; a single column becomes one-dimensional."""
    y = y.toarray() if scipy.sparse.issparse(y) else np.asarray(y)
    # Numbers in an object array (nullable columns of older pandas) are numbers.
    if y.dtype == object and all(isinstance(v, numbers.Real) for v in y.flat):
        plain_numbers = np.array(y.tolist())
        y = plain_numbers if plain_numbers.dtype.kind in "iufb" else y
    return y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y


def score_rows(score, estimator, X, y):
    """Return one score per row, NaN for rows on which the model fails (with any `Exception`).

    Models may work in place (``StandardScaler(copy=False)``) and get copies: the holdout must be
    the same for the next query, and for the second attempt at this one.
    """
    if scipy.sparse.issparse(X) and X.format in ("coo", "dia", "bsr"):
        X = X.tocsr()
    row_scores = np.full(len(y), np.nan)
    pending = [(0, len(y))]  # first row, and the row after the last
    while pending:
        start, stop = pending.pop()
        X_slice = _copy_rows(X, start, stop)
        try:
            scores = np.asarray(score(estimator, X_slice, y[start:stop].copy()), dtype=float)
            if scores.shape != (stop - start,):
                raise ValueError("The model did not give one prediction per record.")
        except Exception:
            if stop - start == len(y):
                # Retry on a copy: the caller's model must not count the retries.
                with contextlib.suppress(Exception):
                    estimator = copy.deepcopy(estimator)
            if stop - start > 1:
                middle = (start + stop) // 2
                pending += [(middle, stop), (start, middle)]
        else:
            row_scores[start:stop] = scores
    return row_scores


def _copy_rows(X, start, stop):
    """Return a copy of rows of a table, an array or a sequence."""
    if hasattr(X, "__array_namespace__") and not isinstance(X, np.ndarray):
        return X.__array_namespace__().asarray(X[start:stop, ...], copy=True)
    rows = X.iloc[start:stop] if hasattr(X, "iloc") else X[start:stop]
    return rows.copy() if hasattr(rows, "copy") else rows


def respond(estimator, X, methods):
    """Return the prediction of the first method the estimator has; a single column as a vector."""
    for method in methods:
        if hasattr(estimator, method):
            response = getattr(estimator, method)(X)
            array = response.toarray() if scipy.sparse.issparse(response) else np.asarray(response)
            return array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array
    raise TypeError(f"estimator must have one of the methods {', '.join(methods)}.")


def equal(first, second):
    """Compare labels element by element; labels of different types are different."""
    if first.shape != second.shape:
        raise ValueError("Predictions and targets must have the same shape.")
    if first.dtype.kind != second.dtype.kind and "U" in (first.dtype.kind, second.dtype.kind):
        first, second = first.astype(object), second.astype(object)
    return np.asarray(first == second, dtype=bool)


def class_probabilities(estimator, X):
    """Return (classes, probabilities of shape (n, n_classes)), invalid rows set to NaN."""
    classes = np.asarray(estimator.classes_)
    probabilities = np.asarray(estimator.predict_proba(X), dtype=float)
    if probabilities.shape != (n_records(X), len(classes)):
        raise ValueError("predict_proba must give one column per class.")
    valid = (probabilities >= 0.0).all(axis=1) & (np.abs(probabilities.sum(axis=1) - 1.0) <= 1e-3)
    return classes, np.where(valid[:, None], probabilities, np.nan)


@contextlib.contextmanager
def suppress_output():
    """Show nothing inside the block: no warning, no printed text, no log message.

    Filters, streams and logging belong to the process: when blocks of several threads overlap, the
    first one to leave would switch them back on for the others. Here the first block to enter saves
    them and the last one to leave restores them, also if an interrupt arrives on the way in or
    on the way out.
    """
    block = object()
    try:
        try:
            _mute(block)
            yield
        finally:
            _unmute(block)
    finally:
        _unmute(block)  # an interrupt may have stopped the first one


def _mute(block):
    """Silence the process until the last of the overlapping blocks leaves; ``block`` is a token."""
    global _saved_state
    with _lock:
        _active_blocks.append(block)
        if _saved_state is not None:
            return
        _saved_state = contextlib.ExitStack()  # _unmute leaves all contexts entered from here on
        _saved_state.enter_context(warnings.catch_warnings())
        warnings.resetwarnings()  # joblib tasks re-apply every filter
        warnings.simplefilter("ignore")
        nowhere = _saved_state.enter_context(open(os.devnull, "w"))  # noqa: SIM115
        _saved_state.enter_context(contextlib.redirect_stdout(nowhere))
        _saved_state.enter_context(contextlib.redirect_stderr(nowhere))
        _saved_state.callback(logging.disable, logging.root.manager.disable)
        logging.disable(sys.maxsize)  # also levels above CRITICAL


def _unmute(block):
    """Restore everything if this block was the last one inside; a second call changes nothing."""
    global _saved_state
    with _lock:
        _active_blocks[:] = [other for other in _active_blocks if other is not block]
        if not _active_blocks and _saved_state is not None:
            _saved_state.close()
            _saved_state = None
