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
from sklearn_bdp.metrics.statistics import (
    HIT_SHARE,
    class_cells,
    mean_loss,
    pinball_statistic,
    top_k_statistic,
)
from sklearn_bdp.utils.validation import check_array, check_integer, check_real

#: A limit that moves the training-side score by less than this part of it is not worth a warning.
_BITES = 0.05
#: Widest range of targets: its square is a double.
_WIDEST = 1e100
_CLASS_TARGETS = ("binary", "multiclass")
_LABEL_TARGETS = (*_CLASS_TARGETS, "multilabel-indicator")


@dataclasses.dataclass(frozen=True)
class Clipping:
    """Effect of clipping on some training records; sums are in score units."""

    n: int  # records
    n_clipped: int
    clipped: float  # sum of scores as they are measured
    plain: float  # the same without clipping
    worst: float = math.inf  # the lowest score without clipping

    def __add__(self, other):
        """Return the effect on both sets of records."""
        if other is None:
            return self
        return Clipping(
            n=self.n + other.n,
            n_clipped=self.n_clipped + other.n_clipped,
            clipped=self.clipped + other.clipped,
            plain=self.plain + other.plain,
            worst=min(self.worst, other.worst),
        )

    @property
    def is_noticeable(self) -> bool:
        """Whether clipping changes the score noticeably."""
        return self.clipped - self.plain > _BITES * abs(self.plain)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClippedMetric(MeanMetric):
    """A mean of scores without a bound of their own: no record counts more than a limit."""

    @abc.abstractmethod
    def _limit(self) -> tuple[str, str]:
        """Return the limit and the advice for a score that clipping changes, in words."""

    @property
    def remedy(self) -> str:
        """Advice for a score that clipping changes, in words."""
        return self._limit()[1]

    @property
    def display_name(self) -> str:
        return f"{self.name} (clipped at {self._limit()[0]})"

    @property
    def caveat(self) -> str:
        return (
            f"the measured quantity is {self.display_name}. The plain {self.name} counts records "
            "beyond that limit in full and is worse, without a bound"
        )

    @abc.abstractmethod
    def _raw(self, estimator, X, y):
        """Return the values from which scores are computed, one row per record."""

    @abc.abstractmethod
    def _unit(self, raw, clipped):
        """Return scores in units of [0, 1]; without clipping they may be below 0."""

    def record_scores(self, estimator, X, y):
        return self._unit(self._raw(estimator, X, y), True)

    def clipping(self, estimator: Any, X: Any, y: ArrayLike, per_record: Any) -> Clipping | None:
        n = len(per_record)
        total = float(self.from_unit(per_record).sum())
        if self._cut(per_record):
            try:
                with suppress_output():
                    raw = self._raw(estimator, X, self.check_input(estimator, X, y))
            except Exception:  # other checks report a model that fails on some records
                return None
            unclipped = self._unit(raw, False)
            is_failed = np.isnan(unclipped)
            unclipped[is_failed] = per_record[is_failed]
            count = int(np.count_nonzero(unclipped < self._unit(raw, True)))
            scores = self.from_unit(unclipped)
            return Clipping(n, count, total, float(scores.sum()), float(scores.min()))
        return Clipping(n, 0, total, total)

    def _cut(self, per_record):
        """Return whether a record may have been clipped: only then the model predicts again."""
        return bool((per_record <= 0.0).any())


def class_index(y, classes):
    """Return the position of each label among the classes, -1 for labels unknown to the model."""
    position = {label: index for index, label in enumerate(classes.tolist())}
    return np.array([position.get(label, -1) for label in y.tolist()], dtype=np.intp)


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

    def record_scores(self, estimator, X, y):
        is_correct = equal(respond(estimator, X, self.methods), y)
        return is_correct.reshape(len(y), -1).mean(axis=1)


@register_metric("top_k_accuracy")
@dataclasses.dataclass(frozen=True, kw_only=True)
class TopKAccuracy(MeanMetric):
    """Share of the records whose target is among the ``k`` classes with the highest scores.

    Ties go to the class that comes later, as in scikit-learn.
    """

    methods: ClassVar[tuple[str, ...]] = ("decision_function", "predict_proba")
    is_binary: ClassVar[bool] = True
    options: ClassVar[tuple[str, ...]] = ("k",)
    number_option: ClassVar[str] = "k"
    number_type: ClassVar[type[int] | type[float]] = int
    bounds_differences: ClassVar[bool] = True
    target_types: ClassVar[tuple[str, ...]] = _CLASS_TARGETS

    k: int = 2

    @classmethod
    def build(cls, name, *, classes, y, options):
        k = check_integer("k", options.get("k", 2), low=1)
        count = _count_classes(classes, y)
        if count is not None and not k < count:
            raise ValueError(f"k must be below the number of classes, {count}, got k={k}.")
        lower, upper = cls.score_range
        return cls(name=name, lower=lower, upper=upper, k=k)

    @classmethod
    def without_range(cls, name, options):
        k = options.get("k", 2)
        return dataclasses.replace(
            super().without_range(name, options), own_statistic=top_k_statistic(k)
        )

    def record_scores(self, estimator, X, y):
        scores = respond(estimator, X, self.methods).astype(float)
        target = class_index(y, np.asarray(estimator.classes_))
        cut = 0.0 if hasattr(estimator, "decision_function") else 0.5
        if scores.ndim == 2 and scores.shape[1] == 2:
            scores = scores[:, 1]
        if scores.ndim == 1:
            scores = np.column_stack([np.full(len(scores), cut), scores])
            # At the cut the first class wins, against the order of ties below.
            scores[:, 1] = np.where(scores[:, 1] == cut, -np.inf, scores[:, 1])
        if scores.shape[1] != len(estimator.classes_):
            raise ValueError(f"{self.name} needs one score per class, got shape {scores.shape}.")
        best = np.argsort(scores, axis=1, kind="stable")[:, ::-1][:, : self.k]
        hits = (best == target[:, None]).any(axis=1).astype(float)
        return np.where(np.isnan(scores).any(axis=1), np.nan, hits)


def _brier_loss(y, predictions):
    if predictions.ndim == 1:
        return (y - predictions) ** 2
    is_class = np.arange(predictions.shape[1]) == y[:, np.newaxis]
    return np.sum((is_class - predictions) ** 2, axis=1)


@register_metric("neg_brier_score")
@dataclasses.dataclass(frozen=True, kw_only=True)
class BrierScore(MeanMetric):
    r"""Minus the squared distance of the probabilities from the truth.

    A record's score in [0, 1] is one minus
    :math:`\tfrac12 \sum_k (p_k - 1[y = k])^2 \in [0, 1]`. A label that the model does not
    know counts as a class with probability zero.
    """

    methods: ClassVar[tuple[str, ...]] = ("predict_proba",)
    options: ClassVar[tuple[str, ...]] = ("n_classes",)
    #: Of two classes, the score is the same whichever is positive.
    ignored_arguments: ClassVar[tuple[str, ...]] = ("pos_label",)
    placeholder_options: ClassVar[Mapping[str, Any]] = {"n_classes": 2}
    range_text: ClassVar[str] = "[−1, 0], [−2, 0] beyond two classes"
    is_loss: ClassVar[bool] = True
    bounds_differences: ClassVar[bool] = True
    unit_statistic: ClassVar[Statistic] = mean_loss(
        _brier_loss,
        "chances",
        cells=class_cells,
        trust=(0.001, 0.001),
        dates=DateFacts(scale="unit"),
    )
    target_types: ClassVar[tuple[str, ...]] = _CLASS_TARGETS

    @classmethod
    def build(cls, name, *, classes, y, options):
        count = options.get("n_classes")
        if count is None:
            count = _count_classes(classes, y)
        else:
            count = check_integer("n_classes", count, low=2)
        if count is None:
            raise ValueError(
                f"{name} needs the number of classes for its range: pass y= (training targets), a "
                "fitted estimator=, or n_classes=."
            )
        # scikit-learn halves the score for two classes and not for more.
        return cls(name=name, lower=-1.0 if count == 2 else -2.0, upper=0.0)

    def record_scores(self, estimator, X, y):
        classes, probabilities = class_probabilities(estimator, X)
        target = class_index(y, classes)
        is_known_class = target >= 0
        target_probabilities = probabilities[np.arange(len(y)), target]
        target_probabilities = np.where(is_known_class, target_probabilities, 0.0)
        distance = (probabilities**2).sum(axis=1) - 2.0 * target_probabilities + 1.0
        return 1.0 - 0.5 * distance


def _log_loss(y, predictions):
    probabilities = predictions
    if predictions.ndim == 1:
        probabilities = np.column_stack([1.0 - predictions, predictions])
    with np.errstate(divide="ignore"):
        return -np.log(probabilities[np.arange(len(y)), y.astype(int)])


@register_metric("neg_log_loss")
@dataclasses.dataclass(frozen=True, kw_only=True)
class LogLoss(ClippedMetric):
    r"""Logarithm of the target's probability, at least that of ``clip``.

    Score :math:`\ln \max(p_y, clip) \in [\ln clip, 0]`; a label the model does not know has
    probability zero and gets the worst score.
    """

    methods: ClassVar[tuple[str, ...]] = ("predict_proba",)

    clip: float = 0.01

    options: ClassVar[tuple[str, ...]] = ("clip",)
    #: The classes are the model's.
    ignored_arguments: ClassVar[tuple[str, ...]] = ("labels",)
    range_text: ClassVar[str] = "[ln clip, 0]"
    is_loss: ClassVar[bool] = True
    bounds_differences: ClassVar[bool] = True
    unit_statistic: ClassVar[Statistic] = mean_loss(
        _log_loss, "chances", cells=class_cells, trust=(0.001, 0.001), skewed=(False, True)
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

    def _limit(self):
        return f"a probability of {self.clip:g}", (
            f"scoring=get_metric('neg_log_loss', clip={self.clip / 100:.0g}) moves the limit "
            "(intervals widen with it), and 'neg_brier_score' needs none"
        )

    def _raw(self, estimator, X, y):
        classes, probabilities = class_probabilities(estimator, X)
        target = class_index(y, classes)
        return np.where(target >= 0, probabilities[np.arange(len(y)), target], 0.0)

    def _unit(self, raw, clipped):
        # scikit-learn's own log loss is clipped, too: at the precision of a double.
        floor = self.clip if clipped else min(self.clip, np.finfo(float).eps)
        return 1.0 - np.log(np.maximum(raw, floor)) / math.log(self.clip)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClippedError(ClippedMetric):
    r"""Minus the absolute or squared error, no record counting more than a declared cap.

    With the cap ``width`` on the absolute error, the score is
    :math:`-\min(|y - \hat y|, width)^p \in [-width^p, 0]`, ``p`` the power; several outputs, each
    with its own cap, are averaged. It equals scikit-learn's wherever no error exceeds the cap.
    """

    power: int = 1
    width: float | tuple = 1.0

    options: ClassVar[tuple[str, ...]] = ("bounds",)
    placeholder_options: ClassVar[Mapping[str, Any]] = {"bounds": (0.0, 1.0)}
    _multioutput: ClassVar[bool] = True
    #: Power of the absolute error.
    error_power: ClassVar[int] = 1

    @classmethod
    def build(cls, name, *, classes, y, options):
        width, note = _cap(name, y, options.get("bounds"))
        lower = -float(np.mean(np.asarray(width, dtype=float) ** cls.error_power))
        return cls(name=name, lower=lower, upper=0.0, note=note, width=width, power=cls.error_power)

    def _limit(self):
        return "errors of " + ", ".join(f"{part:.4g}" for part in self._cap), (
            f"scoring=get_metric({self.name!r}, bounds=(low, high)), with the range that targets "
            "and predictions can have, moves the limit (intervals widen with it)"
        )

    @property
    def unclipped_statistic(self) -> Statistic:
        """Leave-one-unit-out values of the error as it is: approximate rows need no range."""
        return self.unit_statistic

    @property
    def has_undeclared_range(self) -> bool:
        """Whether errors of one output are clipped at a limit from the training set."""
        return bool(self.note) and np.ndim(self.width) == 0

    def evaluate(self, estimator: Any, X: Any, y: ArrayLike) -> Evaluation:
        if not self.has_undeclared_range:
            return super().evaluate(estimator, X, y)
        y = self.check_input(estimator, X, y)
        with suppress_output():
            errors = score_rows(self._record_errors, estimator, X, y)
            return self.evaluate_errors(errors)

    def evaluate_errors(self, errors: Array) -> Evaluation:
        """Return the evaluation of a model with these errors.

        Parameters
        ----------
        errors : ndarray of shape (n,)
            Targets minus predictions; NaN for records that the model failed on.

        Returns
        -------
        Evaluation
            Scores in [0, 1], with the errors, which another clip needs.
        """
        evaluation = self._evaluated(None, self._unit(errors[:, None], True), None)
        failing = np.flatnonzero(np.isnan(errors))
        return dataclasses.replace(evaluation, failing=failing, errors=errors)

    def _record_errors(self, estimator, X, y):
        return self._raw(estimator, X, y)[:, 0]

    @property
    def _cap(self):
        return np.atleast_1d(np.asarray(self.width, dtype=float))

    def _cut(self, per_record):
        return np.size(self.width) > 1 or super()._cut(per_record)

    def _unit(self, raw, clipped):
        cap = self._cap
        error = np.minimum(np.abs(raw), cap) if clipped else np.abs(raw)
        return 1.0 - (error**self.power).mean(axis=1) / (cap**self.power).mean()

    def difference_limits(self, first: Any, second: Any) -> tuple[Any, Any]:
        """Return the least and the largest gain of one prediction over another (theory G31).

        Parameters
        ----------
        first, second : ndarray of shape (n,)
            Predictions of two models for the same records, of one output.

        Returns
        -------
        least, most : ndarray of shape (n,)
            Ends of the difference between the second and the first model's score over all targets,
            in units of the range.
        """
        cap = float(self._cap[0])
        distance = np.minimum(np.abs(second - first), cap)
        largest_gain = (cap**self.power - (cap - distance) ** self.power) / cap**self.power
        return -largest_gain, largest_gain

    def _raw(self, estimator, X, y):
        """Return ``y - prediction``, one column for each output."""
        prediction = respond(estimator, X, self.methods).astype(float)
        prediction = prediction.reshape(len(prediction), -1)
        target = y.astype(float).reshape(len(y), -1)
        if prediction.shape != target.shape:
            raise ValueError("predict must give one number per record and output.")
        return target - prediction

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
    """Minus the absolute error, at most a declared cap."""

    is_loss: ClassVar[bool] = True
    bounds_differences: ClassVar[bool] = True
    range_text: ClassVar[str] = "[−(high − low), 0]"
    difference_proofs_without_range: ClassVar[Mapping[str, str]] = proofs.ERROR_DIFFERENCE
    unit_statistic: ClassVar[Statistic] = mean_loss(
        lambda y, predictions: np.abs(y - predictions),
        trust=(0.001, 0.005),
        skewed=(True, True),
        dates=DateFacts(scale="raw"),
    )


@register_metric("neg_mean_squared_error")
@dataclasses.dataclass(frozen=True, kw_only=True)
class SquaredError(ClippedError):
    """Minus the squared error, at most the square of a declared cap."""

    is_loss: ClassVar[bool] = True
    bounds_differences: ClassVar[bool] = True
    unit_statistic: ClassVar[Statistic] = mean_loss(
        lambda y, predictions: (y - predictions) ** 2,
        trust=(0.002, 0.005),
        skewed=(True, True),
        heavy=True,
    )
    error_power: ClassVar[int] = 2
    range_text: ClassVar[str] = "[−(high − low)², 0]"


@register_metric("neg_mean_pinball_loss")
@dataclasses.dataclass(frozen=True, kw_only=True)
class PinballLoss(ClippedError):
    r"""Minus the pinball loss of the quantile ``alpha``, of errors up to a declared cap.

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
        width, note = _cap(name, y, options.get("bounds"))
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

    def difference_limits(self, first: Any, second: Any) -> tuple[Any, Any]:
        """Return the least and the largest gain of one prediction over another (theory G31).

        Parameters
        ----------
        first, second : ndarray of shape (n,)
            Predictions of two models for the same records, of one output.

        Returns
        -------
        least, most : ndarray of shape (n,)
            Ends of the difference between the second and the first model's score over all targets,
            in units of the range.
        """
        cap = float(self._cap[0])
        gap = np.clip(second - first, -2.0 * cap, 2.0 * cap)
        costs = np.stack([self.alpha * gap, (self.alpha - 1.0) * gap])
        costs /= max(self.alpha, 1.0 - self.alpha) * cap
        return np.maximum(costs.min(axis=0), -1.0), np.minimum(costs.max(axis=0), 1.0)

    def _cut(self, per_record):
        return True  # the cheaper side of the loss is clipped before its score is the worst

    def _unit(self, raw, clipped):
        cap = self._cap
        error = np.clip(raw, -cap, cap) if clipped else raw
        loss = np.maximum(self.alpha * error, (self.alpha - 1.0) * error)
        return 1.0 - loss.mean(axis=1) / (max(self.alpha, 1.0 - self.alpha) * cap.mean())


# -- ranges from public facts ---------------------------------------------------------------------


def _count_classes(classes, y):
    """Return the number of classes of a model or of training targets, None if unknown."""
    if classes is None and y is None:
        return None
    return max(2, len(np.unique(as_labels(y)) if classes is None else classes))


def _cap(name, y, bounds):
    """Return the largest error that counts, of each output, and a note if no bounds were given."""
    targets = None if y is None else as_labels(y)
    if targets is not None:
        _check_numbers(name, targets)
    if bounds is not None:
        width = _width_of_bounds(bounds)
        return _of_outputs(width), ""
    if targets is None:
        raise ValueError(
            f"{name} needs bounds=(low, high) of the target, as in get_metric({name!r}, "
            "bounds=(low, high)), or y= (training targets) to take them from."
        )
    targets = targets.astype(float)
    target_range = (targets.min(axis=0), targets.max(axis=0))
    width = _width_of_bounds(target_range, source=", the range of the training targets")
    return _of_outputs(width), _clip_note(targets, width)


def _of_outputs(width):
    """Return the width of one output as a number, those of several as a tuple."""
    return width[0] if len(width) == 1 else tuple(width)


def _check_numbers(name, targets):
    """Raise ValueError unless targets are finite numbers, of one output or several."""
    is_numeric = targets.dtype.kind in "fiub" and targets.ndim in (1, 2)
    if not is_numeric or not np.isfinite(targets).all():
        raise ValueError(
            f"{name} needs finite numbers as targets, one for each record and output, got an array "
            f"of shape {targets.shape} and type {targets.dtype}."
        )


def _width_of_bounds(bounds, source=""):
    """Return the distance of both bounds for each output; ``source`` of bounds for the error."""
    is_pair = np.shape(bounds)[:1] == (2,) and np.ndim(bounds) in (1, 2) and np.size(bounds) > 0
    if is_pair:
        low, high = (
            np.clip(np.atleast_1d(check_array("bounds", end)), -_WIDEST, _WIDEST) for end in bounds
        )
        if (low < high).all() and (high - low < _WIDEST).all():
            return (high - low).tolist()
    raise ValueError(
        "bounds must be (low, high), numbers or one sequence for all outputs each, with low < "
        f"high, less than {_WIDEST:g} apart, got bounds={bounds!r}{source}."
    )


def _clip_note(targets, width):
    """Return the note on errors that are clipped at the range of the training targets."""
    width_text = ", ".join(f"{output_width:g}" for output_width in width)
    note = (
        f"errors are clipped at {width_text}, the range of the training targets; pass "
        "bounds=(low, high) to change it"
    )
    lower, middle, upper = np.quantile(targets, [0.25, 0.5, 0.75])
    # Positive targets reach ten times further above the median than half of them do.
    if targets.min() > 0.0 and targets.max() - middle > 10.0 * max(upper - lower, 1e-12):
        note += ". The target has a heavy tail, so intervals are wide: fit and score log(y)"
    return note
