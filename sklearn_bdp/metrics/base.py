"""Base classes and registry of metrics, and the evaluation of models on holdout records."""

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
from typing import Any, ClassVar, NamedTuple, Self, TypeVar

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike

from sklearn_bdp._typing import Array, FloatOrArray
from sklearn_bdp.intervals.bounds import clopper_pearson_interval
from sklearn_bdp.intervals.jackknife import GENERIC, Statistic
from sklearn_bdp.metrics import proofs

MetricClass = TypeVar("MetricClass", bound="type[Metric]")

#: The registry: class of each metric by its names.
METRICS: dict[str, type[Metric]] = {}


def register_metric(*names: str) -> Callable[[MetricClass], MetricClass]:
    """Register a class of metrics under names that ``scoring`` parameters take.

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
            registered_class = METRICS.get(name, metric_class)
            # If a module is imported again, it defines the same class a second time.
            qualified_names = {
                (named_class.__module__, named_class.__qualname__)
                for named_class in (registered_class, metric_class)
            }
            if len(qualified_names) > 1:
                raise ValueError(
                    f"names of metrics must be new, got {name!r}, which is registered for "
                    f"{registered_class.__module__}.{registered_class.__qualname__}."
                )
            METRICS[name] = metric_class
        return metric_class

    return register


#: Number of quantiles of planned scores.
_N_PLANNED_SCORES = 2000

_lock = threading.Lock()
#: Tokens of all threads' :func:`suppress_output` blocks that were entered and not left.
_active_blocks: list[object] = []
#: Restores filters, streams and logging; None if no block is active.
_saved_state: contextlib.ExitStack | None = None


@dataclasses.dataclass(frozen=True)
class ScoreShape:
    """Public facts that determine the limits of a score.

    The fields are the keyword arguments of
    :func:`sklearn_bdp.intervals.concentration.score_tail`, where they are documented.
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


class PlannedScores(NamedTuple):
    """Quantiles of scores of records that are expected before there are data, and an assumption."""

    #: Ascending quantiles of the scores in [0, 1], at evenly spaced probabilities.
    quantiles: Array
    assumption: str = ""  # as a clause after a space; empty for scores of 0 and 1

    @classmethod
    def of_proportion(cls, score: float) -> Self:
        """Return scores of 0 and 1 whose mean is ``score`` up to rounding."""
        probabilities = (np.arange(_N_PLANNED_SCORES) + 0.5) / _N_PLANNED_SCORES
        return cls((probabilities > 1.0 - score).astype(float))


@dataclasses.dataclass(frozen=True, eq=False)
class Evaluation:
    """The score of one fitted model on one set of records.

    The evaluation of holdout records is raw: only the mechanism may read it.
    """

    per_record: np.ndarray | None  # scores in [0, 1]; None if the score is not a mean over records
    value: float  # the score in [0, 1], greater is better
    sensitivity: float  # largest change of the value if one record is replaced; 1 if it is unknown
    shape: ScoreShape = ScoreShape()  # public facts that determine the limits
    #: Raw data from which ``value`` is computed again: `ClassScores`, `RatioCounts`, or predictions
    #: or a score from `ApproximateMetric.evaluate`. None if ``value`` is final.
    score_inputs: Any = None
    #: Positions of records that the model failed on, as raw as their scores. None if not known.
    failing: Any = None
    #: Targets minus predictions, NaN if the model failed. They are kept to clip them again at a
    #: limit from the training set. None except for errors of one output without a declared range.
    errors: Any = None

    def __repr__(self) -> str:
        # Never the numbers: a record that ends up in a log or a traceback must not leak.
        return f"Evaluation(<raw scores hidden>, sensitivity={self.sensitivity:g})"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Metric:
    """A metric: its range, the predictions that it takes, and the intervals of its scores.

    Subclasses declare facts as class attributes.

    Parameters
    ----------
    name : str
        Name of the metric: that of scikit-learn's scorer, if there is one.
    lower, upper : float
        Range in score units.
    note : str, default=""
        Text on a setting that the caller did not choose, such as a clip. It may be empty.
    """

    name: str
    lower: float
    upper: float
    note: str = dataclasses.field(default="", compare=False)

    #: Ends of the range, unless :meth:`build` takes them from targets or options.
    score_range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    #: The range in words, if it follows from targets or options.
    range_text: ClassVar[str] = ""
    #: Names of the metric's options.
    options: ClassVar[tuple[str, ...]] = ()
    #: Arguments of scikit-learn's score function that make no difference.
    ignored_arguments: ClassVar[tuple[str, ...]] = ()
    #: Option that is set by a number at the end of a name, as in ``top_k_accuracy_3``.
    number_option: ClassVar[str] = ""
    #: Type of that number: int for positive integers, float for numbers between 0 and 1.
    number_type: ClassVar[type[int] | type[float]] = float
    #: Whether the name of the metric in a final report must end in that number.
    needs_number: ClassVar[bool] = False
    #: Options that give the metric some valid range before there are training targets.
    placeholder_options: ClassVar[Mapping[str, Any]] = {}
    #: Values of `sklearn.utils.multiclass.type_of_target` that the metric takes; empty: all.
    target_types: ClassVar[tuple[str, ...]] = ()
    #: For a metric with a proven bound: whether predicted labels are compared with targets.
    reads_labels: ClassVar[bool] = False
    #: Whether searches can rank candidates by objects of the class.
    can_rank: ClassVar[bool] = False
    #: Whether the class is a :class:`MeanMetric`.
    is_mean: ClassVar[bool] = False
    #: Whether the class is a :class:`~sklearn_bdp.metrics.ratios.RatioOfCounts`.
    is_ratio: ClassVar[bool] = False
    #: Whether the score is, up to a constant, a proportion: records contribute 0 or 1 to a mean, or
    #: to both counts of a ratio.
    is_binary: ClassVar[bool] = False
    #: Whether a final report can have skill scores: minus the score is then a mean loss.
    is_loss: ClassVar[bool] = False
    #: Whether predictions must be above 0.
    needs_positive_predictions: ClassVar[bool] = False
    #: Whether the predictions of two models bound the difference of their scores (theory G31). A
    #: class states it for itself: a subclass may score equal predictions differently.
    bounds_differences: ClassVar[bool] = False
    #: Computes the score without each sampling unit, for approximate intervals.
    unit_statistic: ClassVar[Statistic] = GENERIC

    @property
    def n_predicted_classes(self) -> int | None:
        """Number of classes that count as predicted for each record.

        The mean hit rate of K classes is by chance this number divided by K. None: the chance level
        is not known. A property, because keys of queries contain constants of classes.
        """
        return None

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
        y : array-like of shape (n,) or (n, n_outputs), or None
            *Training* targets.
        options : mapping
            Values of options by name. All names are among :attr:`options`.

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
        """Return the metric for approximate rows of a final report, which need no range.

        Parameters
        ----------
        name : str
            Name of the metric in these rows.
        options : mapping
            Option that the number of a name such as ``top_k_accuracy_3`` sets; empty without one.

        Returns
        -------
        Metric
            The metric with all proofs that need no range.
        """
        return cls.build(name, classes=None, y=None, options=options)

    @property
    def display_name(self) -> str:
        """Name for texts. Metrics that clip may add their limit."""
        return self.name

    @property
    def caveat(self) -> str:
        """Clause on how clipping makes the score differ from scikit-learn's; may be empty."""
        return ""

    @property
    def is_of_caller(self) -> bool:
        """Whether the class is defined outside of the package, so that its code may be edited."""
        return type(self).__module__.partition(".")[0] != __name__.partition(".")[0]

    @property
    def has_bounded_differences(self) -> bool:
        """Whether the class itself, not a base class, declares :attr:`bounds_differences`."""
        return bool(vars(type(self)).get("bounds_differences", False))

    @staticmethod
    def count_limits(
        numerator: float, denominator: float, alpha: float, *, identically_distributed: bool
    ) -> tuple[float, float]:
        """Return limits of a ratio of two counts of independent records (theory G8).

        Parameters
        ----------
        numerator, denominator : float
            Sums of the contributions of records to both counts. For a proportion, the number of
            hits and the number of records that count.
        alpha : float
            Failure probability of both limits together.
        identically_distributed : bool
            Whether all records that count have the same probability of a hit.

        Returns
        -------
        lower, upper : float
            In [0, 1].
        """
        return clopper_pearson_interval(
            round(numerator),
            round(denominator),
            alpha,
            identically_distributed=identically_distributed,
        )

    def proof(
        self,
        dependence: str,
        *,
        is_difference: bool = False,
        in_subgroup: bool = False,
        is_private: bool = False,
    ) -> str:
        """Return the name of the method that proves a row of a final report.

        Parameters
        ----------
        dependence : str
            Dependence of the records, as in :mod:`sklearn_bdp.metrics.proofs`.
        is_difference : bool, default=False
            Whether the row compares two models.
        in_subgroup : bool, default=False
            Whether the row is about a subgroup.
        is_private : bool, default=False
            Whether the report has a level of differential privacy, so that exact counts are not
            available.

        Returns
        -------
        str
            A method of :mod:`sklearn_bdp.metrics.proofs`; empty without a proof.
        """
        return ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class BoundedMetric(Metric, abc.ABC):
    """A score with a known range and a proved sensitivity.

    Use `get_metric` to make one. Greater is better. Scores have two units: score units, in which
    scikit-learn's scorers have their values, and the units [0, 1] of the mechanism. The map between
    them is linear and increasing.

    Parameters
    ----------
    name : str
        Name of the metric: that of scikit-learn's scorer, if there is one.
    lower, upper : float
        Range in score units.
    note : str, default=""
        Text on a setting that the caller did not choose, such as a clip. It may be empty.
    """

    can_rank: ClassVar[bool] = True
    #: Prediction methods of a model in order of preference. Empty if a scorer or a function of the
    #: caller calls the model.
    methods: ClassVar[tuple[str, ...]] = ("predict",)
    #: Whether the score depends on the model by its predictions alone.
    uses_predictions_only: ClassVar[bool] = False
    #: Methods that prove a difference of two models if the range is unknown, by dependence.
    difference_proofs_without_range: ClassVar[Mapping[str, str]] = {}
    #: Whether targets may have several outputs.
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
            Fitted estimator, and records of the *training set* with their targets.
        per_record : ndarray of shape (n,) or None
            Their scores in [0, 1]; None for a score that is not a mean over records.

        Returns
        -------
        Clipping or None
            Numbers of records, and sums of scores with and without clipping. None for metrics
            that do not clip, and if the scores without clipping cannot be computed.
        """
        return None

    def check_clipping(self, clipping: Any) -> None:
        """Raise if a caller's scoring function returned worse numbers than its range allows.

        Parameters
        ----------
        clipping : Clipping or None
            Effect of clipping on training records, from :meth:`clipping`.

        Raises
        ------
        ScoreContractError
            If a `PerRecordScore` returned a worse number than its declared range allows for one of
            these records.
        """
        return

    def check_training(self, estimator: Any, X: Any, y: ArrayLike) -> None:
        """Raise if a caller's scoring function breaks its contract on training records.

        Parameters
        ----------
        estimator, X, y : object
            Fitted estimator, and records of the *training set* with their targets.

        Raises
        ------
        ScoreContractError
            If a `PerRecordScore` does not return one number per record, or returns a better number
            than its declared range allows.
        """
        return

    def with_training_targets(
        self, y: ArrayLike | None, groups: ArrayLike | None = None
    ) -> BoundedMetric:
        """Return the metric with classes and class counts from training targets, if it uses them.

        Parameters
        ----------
        y : array-like of shape (n,) or (n, n_outputs), or None
            *Training* targets: they are public.
        groups : array-like of shape (n,), default=None
            Groups of these records. If passed, all groups weigh equally.

        Returns
        -------
        BoundedMetric
            A metric by class gets the classes and their counts, unless it has them and ``groups``
            is None. Other metrics are unchanged, and all are if ``y`` is None.
        """
        return self

    def expected_shape(self, n: int) -> ScoreShape:
        """Return the public facts that determine the limits of the score, without a model.

        Parameters
        ----------
        n : int
            Number of holdout records.

        Returns
        -------
        ScoreShape
            The arguments of :func:`sklearn_bdp.intervals.concentration.score_tail`.
        """
        return ScoreShape(binary=self.is_binary)

    def planned_shape(self, n: int, class_counts: tuple[int, int]) -> ScoreShape:
        """Return the public facts that determine the limits of the score on a planned holdout.

        Parameters
        ----------
        n : int
            Number of records of the planned holdout.
        class_counts : tuple of int
            Expected numbers of records of the negative and of the positive class: in the training
            set, or in the holdout if a final report reads them.

        Returns
        -------
        ScoreShape
            Public facts, such as the class counts for a metric by class. Other metrics do not use
            ``class_counts``.
        """
        return self.expected_shape(n)

    def planned_scores(self, score: float, prevalence: float) -> PlannedScores:
        """Return the scores of records to plan with, a public guess.

        By default they are 0 or 1, which vary most.

        Parameters
        ----------
        score : float
            Expected score, in [0, 1].
        prevalence : float
            Expected proportion of positive records.

        Returns
        -------
        PlannedScores
            In units of [0, 1].
        """
        return PlannedScores.of_proportion(score)

    @abc.abstractmethod
    def record_scores(self, estimator: Any, X: Any, y: Array) -> Array:
        """Return one number for each record.

        Parameters
        ----------
        estimator, X, y : object
            Fitted estimator, records as the caller passed them, and their targets as
            :meth:`check_input` returns them: labels or numbers, and for a metric by class the
            position of each record's class, -1 for an unknown one. A record's number may depend on
            that record and the model only.

        Returns
        -------
        ndarray of shape (n,)
            For a mean over records, scores in units of [0, 1]; numbers outside are clipped. For a
            metric by class, responses (ROC AUC) or 1 for a correct prediction and 0 for another
            one. It may be NaN for a record without a valid prediction.
        """

    @abc.abstractmethod
    def _evaluated(self, estimator, record_values, y) -> Evaluation:
        """Return the evaluation of the numbers that :meth:`record_scores` returned.

        NaN stands for records that the model failed on. They get the worst score or rank.
        """

    def evaluate(self, estimator: Any, X: Any, y: ArrayLike) -> Evaluation:
        """Score a fitted estimator on holdout records; rows that fail get the worst score.

        Rows on which the model raises are found by bisection. They, and rows with NaN, count like
        the worst prediction, so that a failure is an ordinary bounded score and reveals no more
        than one. For the same reason warnings, prints and logs of the model are not shown. After a
        first failure, a copy of the model, if it can be copied, predicts subsets of the records.

        Parameters
        ----------
        estimator : estimator
            Fitted; it must predict row by row.
        X : {array-like, sparse matrix, DataFrame} of shape (n, n_features)
            Records.
        y : array-like of shape (n,) or (n, n_outputs)
            Their targets.

        Returns
        -------
        Evaluation
            Its value is in [0, 1].

        Raises
        ------
        TypeError, ValueError
            If the model, the records and the targets do not fit each other or the metric.
        """
        y = self.check_input(estimator, X, y)
        with suppress_output():
            record_values = score_rows(self.record_scores, estimator, X, y)
            evaluation = self._evaluated(estimator, record_values, y)
        return dataclasses.replace(evaluation, failing=np.flatnonzero(np.isnan(record_values)))

    def training_score(self, estimator: Any, X: Any, y: ArrayLike) -> float:
        """Score a fitted estimator on public records; errors of the model propagate.

        Parameters
        ----------
        estimator, X, y : object
            Fitted estimator, and records of the *training set* with their targets.

        Returns
        -------
        float
            The score in [0, 1]. With a proven bound, NaN predictions count as the worst score.
        """
        return self.training_scores(estimator, X, y)[1]

    def training_scores(self, estimator: Any, X: Any, y: ArrayLike) -> tuple[Array | None, float]:
        """Score a fitted estimator on public records, also record by record.

        Errors of the model propagate.

        Parameters
        ----------
        estimator, X, y : object
            Fitted estimator, and records of the *training set* with their targets.

        Returns
        -------
        per_record : ndarray of shape (n,) or None
            Scores in [0, 1]; None for a score that is not a mean over records.
        value : float
            The score of all records in [0, 1], as from :meth:`training_score`.

        Raises
        ------
        TypeError, ValueError
            If the model, the records and the targets do not fit each other or the metric, or if the
            metric does not give one number per record.
        """
        y = self.check_input(estimator, X, y)
        record_values = np.asarray(self.record_scores(estimator, X, y), dtype=float)
        if record_values.shape != (len(y),):
            raise ValueError(
                f"{self.name} must give one number per record, got shape {record_values.shape} for "
                f"{len(y)} records."
            )
        evaluation = self._evaluated(estimator, record_values, y)
        return evaluation.per_record, evaluation.value

    def score(self, estimator: Any, X: Any, y: ArrayLike) -> float:
        """Score a fitted estimator on public records, in score units.

        Parameters
        ----------
        estimator, X, y : object
            Fitted estimator, and public records with their targets.

        Returns
        -------
        float
            The score; one outside of the range is clipped.
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
        unit_scores = np.clip((score - self.lower) / (self.upper - self.lower), 0.0, 1.0)
        return unit_scores if np.ndim(unit_scores) else float(unit_scores)

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
            Ends in score units; infinite if they reach one of the :attr:`open_ends`.
        """
        return self.from_unit(lower), self.from_unit(upper)

    def check_input(self, estimator: Any, X: Any, y: ArrayLike) -> Array:
        """Return targets as an array, after a check of the model and the records.

        Parameters
        ----------
        estimator, X, y : object
            Fitted estimator, and records with their targets.

        Returns
        -------
        ndarray of shape (n,) or (n, n_outputs)
            Targets. For a metric by class, the positions of their classes.

        Raises
        ------
        TypeError, ValueError
            If ``X`` and ``y`` differ in length or are empty, or if the model, the records or the
            targets do not fit each other or the metric.
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
        """Raise TypeError if the estimator lacks the methods or classes that the metric needs.

        Parameters
        ----------
        estimator : estimator
            Fitted.

        Raises
        ------
        TypeError
            If the estimator has none of the needed :attr:`methods`, or needs ``classes_`` for its
            probabilities and has none. The message names the last method, or ``classes_``.
        """
        if not self.methods or any(hasattr(estimator, method) for method in self.methods[:-1]):
            return
        needed_attributes = [self.methods[-1]]
        if self.methods[-1] == "predict_proba":
            needed_attributes.append("classes_")
        for attribute in needed_attributes:
            if not hasattr(estimator, attribute):
                raise TypeError(
                    f"{self.name} needs an estimator with {attribute}, got "
                    f"{type(estimator).__name__}."
                )


@dataclasses.dataclass(frozen=True, kw_only=True)
class MeanMetric(BoundedMetric):
    """Mean over ``n`` records of their scores in [0, 1], with sensitivity ``1 / n``."""

    is_mean: ClassVar[bool] = True
    uses_predictions_only: ClassVar[bool] = True

    def proof(self, dependence, *, is_difference=False, in_subgroup=False, is_private=False):
        if is_difference:
            method_by_dependence = {} if in_subgroup else proofs.DIFFERENCE
        elif in_subgroup:
            method_by_dependence = proofs.SHARE_INSIDE if self.is_binary else proofs.MEAN_INSIDE
        else:
            method_by_dependence = proofs.SHARE if self.is_binary else proofs.MEAN
        return method_by_dependence.get(dependence, "")

    def _evaluated(self, estimator, record_values, y):
        per_record = np.fmin(np.fmax(record_values, 0.0), 1.0)  # NaN becomes 0, the worst score
        # Replacing one record moves one term of the mean by at most 1.
        sensitivity = 1.0 / len(per_record)
        shape = ScoreShape(binary=self.is_binary)
        return Evaluation(per_record, float(per_record.mean()), sensitivity, shape)


@dataclasses.dataclass(frozen=True, kw_only=True)
class UnboundedMetric(Metric):
    """Metric of a `BoundedMetric` class without its range, for approximate rows of a report."""

    bounded_class: type[BoundedMetric] = dataclasses.field(repr=False)
    #: Replaces ``unit_statistic`` of the bounded class if the statistic depends on options.
    own_statistic: Statistic | None = dataclasses.field(default=None, repr=False, compare=False)

    @property
    def unit_statistic(self) -> Statistic:  # type: ignore[override] # it depends on options
        """Statistic that computes the score without each unit, for approximate intervals."""
        return self.own_statistic or self.bounded_class.unit_statistic

    @property
    def error_power(self) -> int | None:
        """2 for squared errors, 1 for absolute and pinball errors, None for other metrics."""
        return getattr(self.bounded_class, "error_power", None)

    @property
    def is_loss(self) -> bool:  # type: ignore[override] # it depends on the bounded metric
        """Whether minus the score is the mean of absolute or squared errors."""
        return self.bounded_class.is_loss and self.error_power is not None

    def proof(self, dependence, *, is_difference=False, in_subgroup=False, is_private=False):
        if not is_difference or in_subgroup:
            return ""
        return self.bounded_class.difference_proofs_without_range.get(dependence, "")


# -- predictions and scores of records ------------------------------------------------------------


def check_schema(estimator, X, y):
    """Raise ValueError if columns or label types are not those that the model was fitted with.

    Label types of several outputs are not checked.
    """
    _check_n_columns(estimator, X)
    fitted_names = getattr(estimator, "feature_names_in_", None)
    record_names = getattr(X, "columns", None)
    if (
        fitted_names is not None
        and record_names is not None
        and not same_names(fitted_names, record_names)
    ):
        raise ValueError(
            "estimator must be fitted on the columns of the records in their order, got "
            f"{list(fitted_names)[:5]}… for {list(record_names)[:5]}…. The holdout was not queried."
        )
    if y is None or y.ndim > 1:  # models of several outputs have a list of classes for each
        return
    classes = np.asarray(getattr(estimator, "classes_", []))
    if classes.ndim == 1 and classes.size:
        _check_label_type(classes, y)


def _check_n_columns(estimator, X):
    """Raise ValueError if a model was fitted on another number of columns."""
    n_fitted = getattr(estimator, "n_features_in_", None)
    n_columns = getattr(X, "shape", (0,))[1:2]
    if n_fitted is not None and n_columns and n_columns[0] != n_fitted:
        raise ValueError(
            f"estimator must take the {n_columns[0]} columns of the records, got one fitted on "
            f"{n_fitted}. Select columns in a pipeline. The holdout was not queried."
        )


def _check_label_type(classes, y):
    """Raise ValueError if the model's classes are text and the targets numbers, or vice versa."""
    model_kind = "text" if _is_text(classes) else "numbers"
    record_kind = "text" if _is_text(y) else "numbers"
    if model_kind != record_kind:
        raise ValueError(
            f"the model was fitted with labels that are {model_kind}, got records whose labels "
            f"are {record_kind}."
        )


def _is_text(labels):
    """Return whether an array contains text; of object arrays, the first entry decides."""
    return labels.dtype.kind in "US" or (labels.dtype == object and isinstance(labels[0], str))


def same_names(fitted_names, record_names):
    """Return whether columns have the same names in the same order.

    Spaces and punctuation count as "_", because LightGBM replaces them in ``feature_names_in_``.
    """
    normalized_names = [
        [re.sub(r"\W", "_", str(name)) for name in names] for names in (fitted_names, record_names)
    ]
    return normalized_names[0] == normalized_names[1]


def n_records(X: Any) -> int:
    """Return the number of rows of a table, an array or a sequence."""
    shape = getattr(X, "shape", ())
    return int(shape[0]) if shape and isinstance(shape[0], numbers.Integral) else len(X)


def as_labels(y: Any) -> Array:
    """Return targets as an array; a single column becomes one-dimensional."""
    y = y.toarray() if scipy.sparse.issparse(y) else np.asarray(y)
    # Nullable columns of older pandas give object arrays of numbers.
    if y.dtype == object and all(isinstance(value, numbers.Real) for value in y.flat):
        numeric_y = np.array(y.tolist())
        y = numeric_y if numeric_y.dtype.kind in "iufb" else y
    return y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y


def score_rows(score_function, estimator, X, y):
    """Return one score per row, NaN for rows that the score function cannot score.

    ``score_function(estimator, X, y)`` returns one number per row. If it fails on a slice of rows,
    or returns another shape, both halves of the slice are tried again. The function gets copies of
    rows, because models may change them in place (``StandardScaler(copy=False)``).
    """
    if scipy.sparse.issparse(X) and X.format in ("coo", "dia", "bsr"):
        X = X.tocsr()
    row_scores = np.full(len(y), np.nan)
    pending_slices = [(0, len(y))]  # first row, and the row after the last
    while pending_slices:
        start, stop = pending_slices.pop()
        X_slice = _copy_rows(X, start, stop)
        try:
            slice_scores = np.asarray(
                score_function(estimator, X_slice, y[start:stop].copy()), dtype=float
            )
            if slice_scores.shape != (stop - start,):
                raise ValueError("The model did not give one prediction per record.")
        except Exception:
            if stop - start == len(y):
                # Retries should not change the caller's model. Some models cannot be copied.
                with contextlib.suppress(Exception):
                    estimator = copy.deepcopy(estimator)
            if stop - start > 1:
                middle = (start + stop) // 2
                pending_slices += [(middle, stop), (start, middle)]
        else:
            row_scores[start:stop] = slice_scores
    return row_scores


def _copy_rows(X, start, stop):
    """Return a copy of rows ``start`` to ``stop - 1`` of a table, an array or a sequence."""
    if hasattr(X, "__array_namespace__") and not isinstance(X, np.ndarray):
        return X.__array_namespace__().asarray(X[start:stop, ...], copy=True)
    selected_rows = X.iloc[start:stop] if hasattr(X, "iloc") else X[start:stop]
    return selected_rows.copy() if hasattr(selected_rows, "copy") else selected_rows


def respond(estimator, X, methods):
    """Return the predictions of the first method that the estimator has.

    A single column becomes one-dimensional. Raises TypeError without such a method.
    """
    for method in methods:
        if hasattr(estimator, method):
            response = getattr(estimator, method)(X)
            array = response.toarray() if scipy.sparse.issparse(response) else np.asarray(response)
            return array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array
    raise TypeError(f"estimator must have one of the methods {', '.join(methods)}.")


def equal(predicted, targets):
    """Return a mask of correct predictions; a number and a text are never equal.

    Raises ValueError if shapes differ.
    """
    if predicted.shape != targets.shape:
        raise ValueError("Predictions and targets must have the same shape.")
    if predicted.dtype.kind != targets.dtype.kind and "U" in (
        predicted.dtype.kind,
        targets.dtype.kind,
    ):
        predicted, targets = predicted.astype(object), targets.astype(object)
    return np.asarray(predicted == targets, dtype=bool)


def class_probabilities(estimator, X):
    """Return the model's classes and its probabilities of shape (n, n_classes).

    Rows with a negative number, or whose sum is not near 1, are NaN.
    Raises ValueError for another shape.
    """
    classes = np.asarray(estimator.classes_)
    probabilities = np.asarray(estimator.predict_proba(X), dtype=float)
    if probabilities.shape != (n_records(X), len(classes)):
        raise ValueError("predict_proba must give one column per class.")
    is_valid = (probabilities >= 0.0).all(axis=1) & (
        np.abs(probabilities.sum(axis=1) - 1.0) <= 1e-3
    )
    return classes, np.where(is_valid[:, None], probabilities, np.nan)


@contextlib.contextmanager
def suppress_output():
    """Suppress warnings, texts that Python prints and log messages inside the block.

    Warning filters, streams and logging belong to the process. If blocks of several threads
    overlap, the first block to enter saves their state and the last one to leave restores it.
    """
    block = object()
    try:
        try:
            _enter_block(block)
            yield
        finally:
            _leave_block(block)
    finally:
        _leave_block(block)  # again, because an interrupt may have stopped the first call


def _enter_block(block):
    """Suppress warnings, prints and logs until the last of the overlapping blocks leaves.

    ``block`` is an object that identifies the block.
    """
    global _saved_state
    with _lock:
        _active_blocks.append(block)
        if _saved_state is not None:
            return
        _saved_state = contextlib.ExitStack()  # _leave_block exits the contexts entered below
        _saved_state.enter_context(warnings.catch_warnings())
        warnings.resetwarnings()  # joblib tasks apply every filter of the caller again
        warnings.simplefilter("ignore")
        null_stream = _saved_state.enter_context(open(os.devnull, "w"))  # noqa: SIM115
        _saved_state.enter_context(contextlib.redirect_stdout(null_stream))
        _saved_state.enter_context(contextlib.redirect_stderr(null_stream))
        _saved_state.callback(logging.disable, logging.root.manager.disable)
        logging.disable(sys.maxsize)  # also levels above CRITICAL


def _leave_block(block):
    """Remove a block from the active ones, and restore output if none is left."""
    global _saved_state
    with _lock:
        _active_blocks[:] = [active for active in _active_blocks if active is not block]
        if not _active_blocks and _saved_state is not None:
            _saved_state.close()
            _saved_state = None
