"""Means over records: scores of classifiers and clipped losses."""

from __future__ import annotations

import abc
import dataclasses
import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from sklearn_bdp._typing import Array
from sklearn_bdp.intervals.jackknife import GENERIC, DateFacts, Statistic
from sklearn_bdp.metrics import proofs
from sklearn_bdp.metrics.base import (
    Evaluation,
    MeanMetric,
    as_labels,
    class_probabilities,
    equal,
    register_metric,
    respond,
    score_rows,
    suppress_output,
)
from sklearn_bdp.metrics.planned_scores import (
    calibrated_scores,
    normal_error_scores,
    pinball_loss_of_quantile,
)
from sklearn_bdp.metrics.statistics import HIT_SHARE, class_outcomes, mean_loss, pinball_statistic
from sklearn_bdp.utils.validation import check_array, check_integer, check_real

#: Clipping is noticeable if it changes the training score by more than this fraction of it.
_NOTICEABLE_CHANGE = 0.05
#: Largest range of targets. Its square is still a finite floating-point number.
_MAX_WIDTH = 1e100
_CLASS_TARGETS = ("binary", "multiclass")
_LABEL_TARGETS = (*_CLASS_TARGETS, "multilabel-indicator")


@dataclasses.dataclass(frozen=True)
class Clipping:
    """Effect of clipping on some training records; sums are in score units."""

    n: int  # number of records
    n_clipped: int  # number of records whose score clipping raises
    clipped_sum: float  # sum of the clipped scores
    unclipped_sum: float  # sum of the scores without clipping
    lowest_unclipped: float = math.inf  # lowest score without clipping; inf if none can be clipped

    def __add__(self, other):
        """Return the effect on the records of both objects; None has no records."""
        if other is None:
            return self
        return Clipping(
            n=self.n + other.n,
            n_clipped=self.n_clipped + other.n_clipped,
            clipped_sum=self.clipped_sum + other.clipped_sum,
            unclipped_sum=self.unclipped_sum + other.unclipped_sum,
            lowest_unclipped=min(self.lowest_unclipped, other.lowest_unclipped),
        )

    @property
    def is_noticeable(self) -> bool:
        """Whether clipping raises the sum of the scores by more than 5% of its absolute value."""
        change = self.clipped_sum - self.unclipped_sum
        return change > _NOTICEABLE_CHANGE * abs(self.unclipped_sum)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClippedMetric(MeanMetric):
    """Base of means of scores that are clipped at a range, because they may lie outside."""

    @abc.abstractmethod
    def _limit_and_advice(self) -> tuple[str, str]:
        """Return texts for messages: the limit, and advice if clipping changes the score."""

    @property
    def remedy(self) -> str:
        """Advice if clipping changes the score, as a clause for messages."""
        _, advice = self._limit_and_advice()
        return advice

    @property
    def display_name(self) -> str:
        limit, _ = self._limit_and_advice()
        return f"{self.name} (clipped at {limit})"

    @property
    def caveat(self) -> str:
        return (
            f"the measured quantity is {self.display_name}. The plain {self.name} counts records "
            "beyond that limit in full and is worse, without a bound"
        )

    @abc.abstractmethod
    def _unclipped_values(self, estimator, X, y):
        """Return the values from which scores are computed: errors, probabilities or scores.

        The first axis is that of the records.
        """

    @abc.abstractmethod
    def _unit_scores(self, raw_values, is_clipped):
        """Return scores in units of [0, 1]; without clipping they may lie outside.

        ``raw_values`` are those that `_unclipped_values` returned.
        """

    def record_scores(self, estimator, X, y):
        return self._unit_scores(self._unclipped_values(estimator, X, y), is_clipped=True)

    def clipping(self, estimator: Any, X: Any, y: ArrayLike, per_record: Any) -> Clipping | None:
        """Return the effect of clipping, None if unclipped scores cannot be computed.

        ``per_record`` are the clipped scores of these records in [0, 1].
        """
        n = len(per_record)
        clipped_sum = float(self.from_unit(per_record).sum())
        if self._may_clip(per_record, y):
            try:
                with suppress_output():
                    raw_values = self._unclipped_values(
                        estimator, X, self.check_input(estimator, X, y)
                    )
            except Exception:  # other checks report a model that fails on some records
                return None
            clipped_unit_scores = self._unit_scores(raw_values, is_clipped=True)
            unclipped_unit_scores = self._unit_scores(raw_values, is_clipped=False)
            is_failed = np.isnan(unclipped_unit_scores)
            unclipped_unit_scores[is_failed] = per_record[is_failed]
            n_clipped = int(np.count_nonzero(unclipped_unit_scores < clipped_unit_scores))
            unclipped_scores = self.from_unit(unclipped_unit_scores)
            return Clipping(
                n=n,
                n_clipped=n_clipped,
                clipped_sum=clipped_sum,
                unclipped_sum=float(unclipped_scores.sum()),
                lowest_unclipped=float(unclipped_scores.min()),
            )
        return Clipping(n=n, n_clipped=0, clipped_sum=clipped_sum, unclipped_sum=clipped_sum)

    def _may_clip(self, per_record, y):
        """Return whether clipping may have raised one of the scores ``per_record``.

        These are in [0, 1], and ``y`` are the targets of the records.
        """
        return bool((per_record <= 0.0).any())


def label_positions(y, classes):
    """Return the position of each label in the array of classes, -1 for a label not in it."""
    position_of_label = {label: index for index, label in enumerate(classes.tolist())}
    return np.array([position_of_label.get(label, -1) for label in y.tolist()], dtype=np.intp)


@register_metric("accuracy")
@dataclasses.dataclass(frozen=True, kw_only=True)
class Accuracy(MeanMetric):
    """Share of the records whose prediction equals the target, in all outputs."""

    is_binary: ClassVar[bool] = True
    target_types: ClassVar[tuple[str, ...]] = _LABEL_TARGETS
    reads_labels: ClassVar[bool] = True
    bounds_differences: ClassVar[bool] = True
    unit_statistic: ClassVar[Statistic] = HIT_SHARE
    _multioutput: ClassVar[bool] = True

    @property
    def n_predicted_classes(self) -> int | None:
        """Number of classes that count as predicted for each record: the predicted one."""
        return 1

    def record_scores(self, estimator, X, y):
        is_correct = equal(respond(estimator, X, self.methods), y)
        return is_correct.reshape(len(y), -1).all(axis=1).astype(float)


@register_metric("neg_zero_one_loss", "zero_one_loss")
@dataclasses.dataclass(frozen=True, kw_only=True)
class ZeroOneLoss(Accuracy):
    """Minus the share of the records whose prediction differs from the target."""

    score_range: ClassVar[tuple[float, float]] = (-1.0, 0.0)
    bounds_differences: ClassVar[bool] = True

    @classmethod
    def build(cls, name, *, classes, y, options):
        return super().build("neg_zero_one_loss", classes=classes, y=y, options=options)


@register_metric("neg_hamming_loss")
@dataclasses.dataclass(frozen=True, kw_only=True)
class HammingScore(Accuracy):
    """Minus the share of the outputs whose prediction differs from the target."""

    score_range: ClassVar[tuple[float, float]] = (-1.0, 0.0)
    is_binary: ClassVar[bool] = False
    bounds_differences: ClassVar[bool] = True
    unit_statistic: ClassVar[Statistic] = GENERIC

    @property
    def n_predicted_classes(self) -> int | None:
        """None: the chance level is not known."""
        return None

    def record_scores(self, estimator, X, y):
        is_correct = equal(respond(estimator, X, self.methods), y)
        return is_correct.reshape(len(y), -1).mean(axis=1)


@register_metric("top_k_accuracy")
@dataclasses.dataclass(frozen=True, kw_only=True)
class TopKAccuracy(MeanMetric):
    """Share of the records whose target is among the ``k`` classes with the highest scores.

    Of equal scores, those of later classes rank first; of two classes, the first one does. Both are
    as in scikit-learn.
    """

    methods: ClassVar[tuple[str, ...]] = ("decision_function", "predict_proba")
    is_binary: ClassVar[bool] = True
    options: ClassVar[tuple[str, ...]] = ("k",)
    number_option: ClassVar[str] = "k"
    number_type: ClassVar[type[int] | type[float]] = int
    bounds_differences: ClassVar[bool] = True
    unit_statistic: ClassVar[Statistic] = HIT_SHARE
    target_types: ClassVar[tuple[str, ...]] = _CLASS_TARGETS

    k: int = 2

    @property
    def n_predicted_classes(self) -> int | None:
        """Number of classes that count as correct predictions: ``k``."""
        return self.k

    @classmethod
    def build(cls, name, *, classes, y, options):
        k = check_integer("k", options.get("k", 2), low=1)
        n_classes = _count_classes(classes, y)
        if n_classes is not None and not k < n_classes:
            raise ValueError(f"k must be below the number of classes, {n_classes}, got k={k}.")
        lower, upper = cls.score_range
        return cls(name=name, lower=lower, upper=upper, k=k)

    @classmethod
    def without_range(cls, name, options):
        return cls.build(name, classes=None, y=None, options=options)

    def record_scores(self, estimator, X, y):
        """Return 1 if the target of a record is among its top ``k`` classes, else 0.

        NaN for a record with a NaN score.
        """
        scores = respond(estimator, X, self.methods).astype(float)
        target_positions = label_positions(y, np.asarray(estimator.classes_))
        binary_threshold = 0.0 if hasattr(estimator, "decision_function") else 0.5
        if scores.ndim == 2 and scores.shape[1] == 2:
            scores = scores[:, 1]
        if scores.ndim == 1:
            scores = np.column_stack([np.full(len(scores), binary_threshold), scores])
            # At the threshold scikit-learn predicts the first class, not the later one.
            scores[:, 1] = np.where(scores[:, 1] == binary_threshold, -np.inf, scores[:, 1])
        if scores.shape[1] != len(estimator.classes_):
            raise ValueError(f"{self.name} needs one score per class, got shape {scores.shape}.")
        top_positions = np.argsort(scores, axis=1, kind="stable")[:, ::-1][:, : self.k]
        hits = (top_positions == target_positions[:, None]).any(axis=1).astype(float)
        return np.where(np.isnan(scores).any(axis=1), np.nan, hits)


def _brier_loss(y, predictions):
    """Return the Brier loss of each record, halved for two classes as in scikit-learn.

    ``y`` are positions of classes. ``predictions`` are probabilities of the second of two classes,
    or, for more classes, of each of them, with shape (n, n_classes).
    """
    if predictions.ndim == 1:
        return (y - predictions) ** 2
    is_class = np.arange(predictions.shape[1]) == y[:, np.newaxis]
    return np.sum((is_class - predictions) ** 2, axis=1)


@register_metric("neg_brier_score")
@dataclasses.dataclass(frozen=True, kw_only=True)
class BrierScore(MeanMetric):
    r"""Minus the squared distance of the probabilities from the actual class.

    For two classes it is halved, as in scikit-learn. A record's score in [0, 1] is one minus
    :math:`\tfrac12 \sum_k (p_k - 1[y = k])^2 \in [0, 1]`. A label that is not a class of the model
    counts as a class with probability zero.
    """

    methods: ClassVar[tuple[str, ...]] = ("predict_proba",)
    options: ClassVar[tuple[str, ...]] = ("n_classes",)
    #: The score of two classes is the same for both choices of the positive class.
    ignored_arguments: ClassVar[tuple[str, ...]] = ("pos_label",)
    placeholder_options: ClassVar[Mapping[str, Any]] = {"n_classes": 2}
    range_text: ClassVar[str] = "[−1, 0], [−2, 0] beyond two classes"
    is_loss: ClassVar[bool] = True
    bounds_differences: ClassVar[bool] = True
    unit_statistic: ClassVar[Statistic] = mean_loss(
        _brier_loss,
        "chances",
        outcome_masks=class_outcomes,
        min_tested_alphas=(0.001, 0.001),
        dates=DateFacts(scale="unit"),
    )
    target_types: ClassVar[tuple[str, ...]] = _CLASS_TARGETS

    @classmethod
    def build(cls, name, *, classes, y, options):
        n_classes = options.get("n_classes")
        if n_classes is None:
            n_classes = _count_classes(classes, y)
        else:
            n_classes = check_integer("n_classes", n_classes, low=2)
        if n_classes is None:
            raise ValueError(
                f"{name} needs the number of classes for its range: pass y= (training targets), a "
                "fitted estimator=, or n_classes=."
            )
        # scikit-learn halves the score for two classes and not for more.
        return cls(name=name, lower=-1.0 if n_classes == 2 else -2.0, upper=0.0)

    def record_scores(self, estimator, X, y):
        classes, probabilities = class_probabilities(estimator, X)
        target_index = label_positions(y, classes)
        is_known_class = target_index >= 0
        target_probabilities = probabilities[np.arange(len(y)), target_index]
        target_probabilities = np.where(is_known_class, target_probabilities, 0.0)
        squared_distance = (probabilities**2).sum(axis=1) - 2.0 * target_probabilities + 1.0
        return 1.0 - 0.5 * squared_distance

    def planned_scores(self, score, prevalence):
        return calibrated_scores(
            lambda probabilities: (1.0 - probabilities) ** 2, score, prevalence
        )


def _log_loss(y, predictions):
    """Return the log loss of each record, in nats; infinite for a probability of 0.

    ``y`` are positions of classes. ``predictions`` are probabilities of the second of two classes,
    or of all classes, with shape (n, n_classes).
    """
    probabilities = predictions
    if predictions.ndim == 1:
        probabilities = np.column_stack([1.0 - predictions, predictions])
    with np.errstate(divide="ignore"):
        return -np.log(probabilities[np.arange(len(y)), y.astype(int)])


@register_metric("neg_log_loss")
@dataclasses.dataclass(frozen=True, kw_only=True)
class LogLoss(ClippedMetric):
    r"""Logarithm of the target's probability, at least that of ``clip``.

    The score is :math:`\ln \max(p_y, clip) \in [\ln clip, 0]`. A label that is not a class of the
    model has probability zero and gets the worst score.
    """

    methods: ClassVar[tuple[str, ...]] = ("predict_proba",)

    clip: float = 0.01

    options: ClassVar[tuple[str, ...]] = ("clip",)
    #: The classes are those of the model.
    ignored_arguments: ClassVar[tuple[str, ...]] = ("labels",)
    range_text: ClassVar[str] = "[ln clip, 0]"
    is_loss: ClassVar[bool] = True
    bounds_differences: ClassVar[bool] = True
    unit_statistic: ClassVar[Statistic] = mean_loss(
        _log_loss,
        "chances",
        outcome_masks=class_outcomes,
        min_tested_alphas=(0.001, 0.001),
        corrects_skewness=(False, True),
    )
    target_types: ClassVar[tuple[str, ...]] = _CLASS_TARGETS

    @classmethod
    def build(cls, name, *, classes, y, options):
        clip = options.get("clip")
        note = ""
        if clip is None:
            clip = 0.01
            note = "probabilities of the true class below clip=0.01 count as 0.01"
        clip = check_real("clip", clip, low=0.0, high=1.0, closed="neither")
        return cls(name=name, lower=math.log(clip), upper=0.0, clip=clip, note=note)

    def _limit_and_advice(self):
        return f"a probability of {self.clip:g}", (
            f"scoring=get_metric('neg_log_loss', clip={self.clip / 100:.0g}) moves the limit "
            "(intervals widen with it), and 'neg_brier_score' needs none"
        )

    def _unclipped_values(self, estimator, X, y):
        classes, probabilities = class_probabilities(estimator, X)
        target_index = label_positions(y, classes)
        return np.where(target_index >= 0, probabilities[np.arange(len(y)), target_index], 0.0)

    def _unit_scores(self, target_probabilities, is_clipped):
        # scikit-learn's own log loss is clipped, too: at the machine epsilon.
        floor = self.clip if is_clipped else min(self.clip, np.finfo(float).eps)
        return 1.0 - np.log(np.maximum(target_probabilities, floor)) / math.log(self.clip)

    def planned_scores(self, score, prevalence):
        return calibrated_scores(
            lambda probabilities: 1.0 - self._unit_scores(probabilities, is_clipped=True),
            score,
            prevalence,
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClippedError(ClippedMetric):
    r"""Base of minus the absolute, squared or pinball error, which is clipped at a limit.

    ``width`` is the largest absolute error that counts, for several outputs a tuple of one for
    each, or one for all. Except for the pinball error, the score is
    :math:`-\min(|y - \hat y|, width)^p \in [-width^p, 0]` with the ``power`` ``p``, averaged over
    outputs. It equals scikit-learn's if no error exceeds ``width``.
    """

    power: int = 1
    width: float | tuple = 1.0

    options: ClassVar[tuple[str, ...]] = ("bounds",)
    placeholder_options: ClassVar[Mapping[str, Any]] = {"bounds": (0.0, 1.0)}
    _multioutput: ClassVar[bool] = True
    #: Power of the absolute error: 2 for squared errors, else 1.
    error_power: ClassVar[int] = 1

    @classmethod
    def build(cls, name, *, classes, y, options):
        width, note = _error_bound(name, y, options.get("bounds"))
        lower = -float(np.mean(np.asarray(width, dtype=float) ** cls.error_power))
        return cls(name=name, lower=lower, upper=0.0, note=note, width=width, power=cls.error_power)

    def _limit_and_advice(self):
        limits = ", ".join(f"{max_error:.4g}" for max_error in self._max_errors)
        advice = (
            f"scoring=get_metric({self.name!r}, bounds=(low, high)), with the range that targets "
            "and predictions can have, moves the limit (intervals widen with it)"
        )
        return f"errors of {limits}", advice

    @property
    def unclipped_statistic(self) -> Statistic:
        """Statistic of the mean loss without a clip, for approximate rows of a final report."""
        return self.unit_statistic

    @property
    def has_undeclared_range(self) -> bool:
        """Whether errors have a single limit that follows from the training set."""
        return bool(self.note) and np.ndim(self.width) == 0

    def evaluate(self, estimator: Any, X: Any, y: ArrayLike) -> Evaluation:
        if not self.has_undeclared_range:
            return super().evaluate(estimator, X, y)
        y = self.check_input(estimator, X, y)
        with suppress_output():
            errors = score_rows(self._record_errors, estimator, X, y)
            return self.evaluate_errors(errors)

    def evaluate_errors(self, errors: Array) -> Evaluation:
        """Return the evaluation of a model from its errors of one output.

        Parameters
        ----------
        errors : ndarray of shape (n,)
            Targets minus predictions; NaN for records that the model failed on.

        Returns
        -------
        Evaluation
            Scores in [0, 1], with the errors, so that they can be clipped at another limit.
        """
        unit_scores = self._unit_scores(errors[:, None], is_clipped=True)
        evaluation = self._evaluated(estimator=None, record_values=unit_scores, y=None)
        failing = np.flatnonzero(np.isnan(errors))
        return dataclasses.replace(evaluation, failing=failing, errors=errors)

    def _record_errors(self, estimator, X, y):
        """Return targets minus predictions of a single output, shape (n,)."""
        return self._unclipped_values(estimator, X, y)[:, 0]

    @property
    def _max_errors(self):
        """Largest absolute errors that count, shape (n_outputs,), or (1,) for all outputs."""
        return np.atleast_1d(np.asarray(self.width, dtype=float))

    def _may_clip(self, per_record, y):
        # The error of one of several outputs may be clipped although the mean score is above 0.
        return np.ndim(y) > 1 or super()._may_clip(per_record, y)

    def _unit_scores(self, errors, is_clipped):
        max_errors = self._max_errors
        absolute_errors = np.abs(errors)
        if is_clipped:
            absolute_errors = np.minimum(absolute_errors, max_errors)
        mean_losses = (absolute_errors**self.power).mean(axis=1)
        return 1.0 - mean_losses / (max_errors**self.power).mean()

    def difference_limits(self, first_predictions: Any, second_predictions: Any) -> tuple[Any, Any]:
        """Return bounds of the difference of two models' scores, whatever the target (theory G31).

        Parameters
        ----------
        first_predictions, second_predictions : ndarray of shape (n,)
            Predictions of two models for the same records, of one output.

        Returns
        -------
        lower, upper : ndarray of shape (n,)
            Bounds of the second model's score minus the first model's for each record, as a
            fraction of the range.
        """
        max_error = float(self._max_errors[0])
        prediction_distances = np.abs(second_predictions - first_predictions)
        max_error_differences = np.minimum(prediction_distances, max_error)
        max_loss = max_error**self.power
        max_difference = (max_loss - (max_error - max_error_differences) ** self.power) / max_loss
        return -max_difference, max_difference

    def _unclipped_values(self, estimator, X, y):
        """Return targets minus predictions, one column for each output."""
        predictions = respond(estimator, X, self.methods).astype(float)
        predictions = predictions.reshape(len(predictions), -1)
        targets = y.astype(float).reshape(len(y), -1)
        if predictions.shape != targets.shape:
            raise ValueError("predict must give one number per record and output.")
        return targets - predictions

    def check_input(self, estimator, X, y):
        y = super().check_input(estimator, X, y)
        n_bounds = np.size(self.width)
        n_outputs = 1 if y.ndim == 1 else y.shape[1]
        if n_bounds not in (1, n_outputs):
            raise ValueError(
                f"{self.name} has bounds for n_outputs={n_bounds}, got targets of {n_outputs}."
            )
        return y


@register_metric("neg_mean_absolute_error")
@dataclasses.dataclass(frozen=True, kw_only=True)
class AbsoluteError(ClippedError):
    """Minus the absolute error, clipped at a limit."""

    is_loss: ClassVar[bool] = True
    bounds_differences: ClassVar[bool] = True
    range_text: ClassVar[str] = "[−(high − low), 0]"
    difference_proofs_without_range: ClassVar[Mapping[str, str]] = proofs.ERROR_DIFFERENCE
    unit_statistic: ClassVar[Statistic] = mean_loss(
        lambda y, predictions: np.abs(y - predictions),
        min_tested_alphas=(0.001, 0.005),
        corrects_skewness=(True, True),
        dates=DateFacts(scale="raw"),
    )

    def planned_scores(self, score, prevalence):
        return normal_error_scores(np.abs, score)


@register_metric("neg_mean_squared_error")
@dataclasses.dataclass(frozen=True, kw_only=True)
class SquaredError(ClippedError):
    """Minus the squared error, clipped at the square of a limit."""

    is_loss: ClassVar[bool] = True
    bounds_differences: ClassVar[bool] = True
    unit_statistic: ClassVar[Statistic] = mean_loss(
        lambda y, predictions: (y - predictions) ** 2,
        min_tested_alphas=(0.002, 0.005),
        corrects_skewness=(True, True),
        is_heavy_tailed=True,
    )
    error_power: ClassVar[int] = 2
    range_text: ClassVar[str] = "[−(high − low)², 0]"

    def planned_scores(self, score, prevalence):
        return normal_error_scores(np.square, score)


@register_metric("neg_mean_pinball_loss")
@dataclasses.dataclass(frozen=True, kw_only=True)
class PinballLoss(ClippedError):
    r"""Minus the pinball loss of the quantile ``alpha``, of errors that are clipped at a limit.

    The score is :math:`-\alpha e` for :math:`e = \min(y - \hat y, width) \ge 0` and
    :math:`(1 - \alpha) e` for :math:`e = \max(y - \hat y, -width) < 0`, averaged over outputs.
    """

    alpha: float = 0.5

    options: ClassVar[tuple[str, ...]] = ("alpha", "bounds")
    number_option: ClassVar[str] = "alpha"
    range_text: ClassVar[str] = "[−max(alpha, 1 − alpha)(high − low), 0]"
    needs_number: ClassVar[bool] = True
    bounds_differences: ClassVar[bool] = True

    @classmethod
    def build(cls, name, *, classes, y, options):
        width, note = _error_bound(name, y, options.get("bounds"))
        alpha = check_real("alpha", options.get("alpha", 0.5), low=0.0, high=1.0)
        lower = -max(alpha, 1.0 - alpha) * float(np.mean(np.asarray(width, dtype=float)))
        return cls(name=name, lower=lower, upper=0.0, note=note, width=width, alpha=alpha)

    @classmethod
    def without_range(cls, name, options):
        return dataclasses.replace(
            super().without_range(name, options), own_statistic=pinball_statistic(options["alpha"])
        )

    @property
    def unclipped_statistic(self):
        return pinball_statistic(self.alpha)

    def planned_scores(self, score, prevalence):
        if not 0.0 < self.alpha < 1.0:
            return super().planned_scores(score, prevalence)
        return normal_error_scores(pinball_loss_of_quantile(self.alpha), score)

    def difference_limits(self, first_predictions: Any, second_predictions: Any) -> tuple[Any, Any]:
        """Return bounds of the difference of two models' scores, whatever the target (theory G31).

        Parameters
        ----------
        first_predictions, second_predictions : ndarray of shape (n,)
            Predictions of two models for the same records, of one output.

        Returns
        -------
        lower, upper : ndarray of shape (n,)
            Bounds of the second model's score minus the first model's for each record, as a
            fraction of the range.
        """
        max_error = float(self._max_errors[0])
        prediction_changes = np.clip(
            second_predictions - first_predictions, -2.0 * max_error, 2.0 * max_error
        )
        # Changes of the score if the target is above both predictions, and if it is below.
        score_changes = np.stack(
            [self.alpha * prediction_changes, (self.alpha - 1.0) * prediction_changes]
        )
        score_changes /= max(self.alpha, 1.0 - self.alpha) * max_error
        lower = np.maximum(score_changes.min(axis=0), -1.0)
        upper = np.minimum(score_changes.max(axis=0), 1.0)
        return lower, upper

    def _may_clip(self, per_record, y):
        return True  # errors of the sign with the smaller loss are clipped at a score above 0

    def _unit_scores(self, errors, is_clipped):
        max_errors = self._max_errors
        counted_errors = np.clip(errors, -max_errors, max_errors) if is_clipped else errors
        losses = np.maximum(self.alpha * counted_errors, (self.alpha - 1.0) * counted_errors)
        max_loss = max(self.alpha, 1.0 - self.alpha) * max_errors.mean()
        return 1.0 - losses.mean(axis=1) / max_loss


# -- ranges from targets and options --------------------------------------------------------------


def _count_classes(classes, y):
    """Return the number of classes of a model or else of training targets, at least 2.

    Return None if both are None.
    """
    if classes is None and y is None:
        return None
    return max(2, len(np.unique(as_labels(y)) if classes is None else classes))


def _error_bound(name, y, bounds):
    """Return the largest absolute error that counts, and a note if no bounds were passed, else "".

    The error is a number, or a tuple of one number for each of several outputs: the largest minus
    the smallest training target in ``y`` if ``bounds`` is None, else the distance of both bounds.
    Raises ValueError if both are None or one is invalid.
    """
    targets = None if y is None else as_labels(y)
    if targets is not None:
        _check_numbers(name, targets)
    if bounds is not None:
        return _number_or_tuple(_widths_of_bounds(bounds)), ""
    if targets is None:
        raise ValueError(
            f"{name} needs bounds=(low, high) of the target, as in get_metric({name!r}, "
            "bounds=(low, high)), or y= (training targets) to take them from."
        )
    targets = targets.astype(float)
    target_range = (targets.min(axis=0), targets.max(axis=0))
    widths = _widths_of_bounds(target_range, source=", the range of the training targets")
    return _number_or_tuple(widths), _clip_note(targets, widths)


def _number_or_tuple(widths):
    """Return a list of one number as that number, others as a tuple."""
    return widths[0] if len(widths) == 1 else tuple(widths)


def _check_numbers(name, targets):
    """Raise ValueError unless targets are finite numbers, of one output or several."""
    is_numeric = targets.dtype.kind in "fiub" and targets.ndim in (1, 2)
    if not is_numeric or not np.isfinite(targets).all():
        raise ValueError(
            f"{name} needs finite numbers as targets, one for each record and output, got an array "
            f"of shape {targets.shape} and type {targets.dtype}."
        )


def _widths_of_bounds(bounds, source=""):
    """Return the distance of both bounds for each output, as a list. Raises for invalid bounds.

    ``source`` is a clause for the error message: the origin of the bounds.
    """
    is_pair = np.shape(bounds)[:1] == (2,) and np.ndim(bounds) in (1, 2) and np.size(bounds) > 0
    if is_pair:
        low, high = (
            np.clip(np.atleast_1d(check_array("bounds", end)), -_MAX_WIDTH, _MAX_WIDTH)
            for end in bounds
        )
        if (low < high).all() and (high - low < _MAX_WIDTH).all():
            return (high - low).tolist()
    raise ValueError(
        "bounds must be (low, high), numbers or one sequence for all outputs each, with low < "
        f"high, less than {_MAX_WIDTH:g} apart, got bounds={bounds!r}{source}."
    )


def _clip_note(targets, widths):
    """Return the note on errors that are clipped at the range of the training targets."""
    width_text = ", ".join(f"{output_width:g}" for output_width in widths)
    note = (
        f"errors are clipped at {width_text}, the range of the training targets; pass "
        "bounds=(low, high) to change it"
    )
    first_quartile, median, third_quartile = np.quantile(targets, [0.25, 0.5, 0.75])
    interquartile_range = max(third_quartile - first_quartile, 1e-12)
    if targets.min() > 0.0 and targets.max() - median > 10.0 * interquartile_range:
        note += ". The target has a heavy tail, so intervals are wide: fit and score log(y)"
    return note
