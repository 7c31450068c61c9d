"""Means over records: scores of classifiers, clipped losses, and functions of the caller."""

from __future__ import annotations

import abc
import dataclasses
import math
import uuid
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from sklearn_bdp.exceptions import ScoreContractError
from sklearn_bdp.metrics.base import (
    BoundedMetric,
    MeanMetric,
    class_probabilities,
    equal,
    respond,
    silenced,
)
from sklearn_bdp.utils.hashing import object_digest
from sklearn_bdp.utils.validation import check_boolean, check_real

#: Rounding errors beyond a declared range, as a part of it.
_SLACK = 1e-9
#: A cut that moves the training-side score by less than this part of it is not worth a warning.
_BITES = 0.05


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
    def bites(self) -> bool:
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
    def measured(self) -> str:
        return f"{self.name} (clipped at {self._limit()[0]})"

    @property
    def caveat(self) -> str:
        return (
            f"what is measured is {self.measured}; the plain {self.name} counts records beyond "
            "that limit in full and is worse, without a bound"
        )

    @abc.abstractmethod
    def _raw(self, estimator, X, y):
        """Return the values from which scores are computed, one row per record."""

    @abc.abstractmethod
    def _unit(self, raw, clipped):
        """Return scores in units of [0, 1]; without clipping they may be below 0."""

    def _rows(self, estimator, X, y):
        return self._unit(self._raw(estimator, X, y), True)

    def clipping(self, estimator: Any, X: Any, y: ArrayLike, per_record: Any) -> Clipping | None:
        n = len(per_record)
        total = float(self.from_unit(per_record).sum())
        if self._cut(per_record):
            try:
                with silenced():
                    raw = self._raw(estimator, X, self._check(estimator, X, y))
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


@dataclasses.dataclass(frozen=True, kw_only=True)
class Accuracy(MeanMetric):
    """One where the prediction equals the target (in all outputs), zero elsewhere."""

    is_binary: ClassVar[bool] = True
    _multioutput: ClassVar[bool] = True

    def _rows(self, estimator, X, y):
        is_correct = equal(respond(estimator, X, self._methods), y)
        return is_correct.reshape(len(y), -1).all(axis=1).astype(float)


@dataclasses.dataclass(frozen=True, kw_only=True)
class HammingScore(Accuracy):
    """The share of outputs whose prediction equals the target."""

    is_binary: ClassVar[bool] = False

    def _rows(self, estimator, X, y):
        is_correct = equal(respond(estimator, X, self._methods), y)
        return is_correct.reshape(len(y), -1).mean(axis=1)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TopKAccuracy(MeanMetric):
    """One where the target is among the ``k`` classes with the highest scores.

    Ties go to the class that comes later, as in scikit-learn.
    """

    _methods: ClassVar[tuple[str, ...]] = ("decision_function", "predict_proba")
    is_binary: ClassVar[bool] = True

    k: int = 2

    def _rows(self, estimator, X, y):
        scores = respond(estimator, X, self._methods).astype(float)
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


@dataclasses.dataclass(frozen=True, kw_only=True)
class BrierScore(MeanMetric):
    r"""One minus half the squared distance of the probabilities from the truth.

    :math:`\tfrac12 \sum_k (p_k - 1[y = k])^2 \in [0, 1]`; a label the model does not know counts
    as a class with probability zero.
    """

    _methods: ClassVar[tuple[str, ...]] = ("predict_proba",)

    def _rows(self, estimator, X, y):
        classes, probabilities = class_probabilities(estimator, X)
        target = class_index(y, classes)
        is_known_class = target >= 0
        target_probabilities = probabilities[np.arange(len(y)), target]
        target_probabilities = np.where(is_known_class, target_probabilities, 0.0)
        distance = (probabilities**2).sum(axis=1) - 2.0 * target_probabilities + 1.0
        return 1.0 - 0.5 * distance


@dataclasses.dataclass(frozen=True, kw_only=True)
class LogLoss(ClippedMetric):
    r"""Logarithm of the target's probability, clipped below at ``clip``.

    Score :math:`\ln \max(p_y, clip) \in [\ln clip, 0]`; a label the model does not know has
    probability zero and gets the worst score.
    """

    _methods: ClassVar[tuple[str, ...]] = ("predict_proba",)

    clip: float = 0.01

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

    _multioutput: ClassVar[bool] = True

    def _limit(self):
        return "errors of " + ", ".join(f"{part:.4g}" for part in self._cap), (
            f"scoring=get_metric({self.name!r}, bounds=(low, high)), with the range that targets "
            "and predictions can have, moves the limit (intervals widen with it)"
        )

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
        prediction = respond(estimator, X, self._methods).astype(float)
        prediction = prediction.reshape(len(prediction), -1)
        target = y.astype(float).reshape(len(y), -1)
        if prediction.shape != target.shape:
            raise ValueError("predict must give one number per record and output.")
        return target - prediction

    def _check(self, estimator, X, y):
        y = super()._check(estimator, X, y)
        n_bounds = np.size(self.width)
        n_outputs = 1 if y.ndim == 1 else y.shape[1]
        if n_bounds not in (1, n_outputs):
            raise ValueError(
                f"{self.name} has bounds for n_outputs={n_bounds}, got targets of {n_outputs}."
            )
        return y


@dataclasses.dataclass(frozen=True, kw_only=True)
class PinballLoss(ClippedError):
    r"""Minus the pinball loss of a quantile, no error counting more than a declared cap.

    The score is :math:`-\alpha e` for :math:`e = \min(y - \hat y, width) \ge 0` and
    :math:`(1 - \alpha) e` for :math:`e = \max(y - \hat y, -width) < 0`, averaged over outputs.
    """

    alpha: float = 0.5

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


# -- Scores of the caller's own --------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class PerRecordScore:
    """Declare that a function gives one bounded score per record.

    Parameters
    ----------
    function : callable
        ``function(estimator, X, y)`` with one number per record, shape ``(n,)``. A record's
        number may depend on that record and the fitted model only, not on other rows of ``X``.
    lower, upper : float, default=0.0, 1.0
        Range of the numbers. On training records a number better than the best of it is an error
        (:class:`~sklearn_bdp.exceptions.ScoreContractError`), and a number worse than the worst
        is one of the candidate that leads a search: what loses anyway may be clipped. On the
        holdout, where an error would tell of a record, all are clipped.
    greater_is_better : bool, default=True
        False for losses. Scores are then the negative loss, in ``[-upper, -lower]``.
    name : str, optional
        Name in tables and ledgers; the function's name by default.

    Raises
    ------
    TypeError
        If ``function`` is not callable.
    ValueError
        If ``lower`` is not below ``upper``.

    See Also
    --------
    get_metric : Metrics by name.

    Examples
    --------
    >>> from sklearn_bdp.metrics import PerRecordScore, get_metric
    >>> def pinball(estimator, X, y):
    ...     error = y - estimator.predict(X)
    ...     return abs(error) * (0.9 * (error > 0) + 0.1 * (error <= 0))
    >>> metric = get_metric(PerRecordScore(pinball, 0.0, 5.0, greater_is_better=False))
    >>> metric.name, metric.lower, metric.upper
    ('pinball', -5.0, -0.0)

    What each error costs, if a missed 1 costs 5 and a false one 1:

    >>> def cost(estimator, X, y):
    ...     predicted = estimator.predict(X)
    ...     return 5.0 * ((y == 1) & (predicted == 0)) + 1.0 * ((y == 0) & (predicted == 1))
    >>> scoring = PerRecordScore(cost, 0.0, 5.0, greater_is_better=False)
    """

    function: Callable
    lower: float = 0.0
    upper: float = 1.0
    _: dataclasses.KW_ONLY
    greater_is_better: bool = True
    name: str | None = None

    def __post_init__(self):
        if not callable(self.function):
            raise TypeError(f"function must be callable, got {type(self.function).__name__}.")
        lower = check_real("lower", self.lower)
        upper = check_real("upper", self.upper)
        if not lower < upper:
            raise ValueError(f"lower must be below upper, got lower={lower}, upper={upper}.")
        check_boolean("greater_is_better", self.greater_is_better)

    def metric(self) -> BoundedMetric:
        """Return the bounded metric this declares.

        Returns
        -------
        BoundedMetric
            Its range is the declared one, negated for losses.
        """
        sign = 1.0 if self.greater_is_better else -1.0
        low, high = sorted((sign * float(self.lower), sign * float(self.upper)))
        default = getattr(self.function, "__name__", type(self.function).__name__)
        return CustomScore(
            name=self.name or default, lower=low, upper=high, sign=sign, function=self.function
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class CustomScore(ClippedMetric):
    """A declared per-record function as a metric."""

    function: Callable
    sign: float = 1.0

    _methods: ClassVar[tuple[str, ...]] = ()
    by_predictions: ClassVar[bool] = False  # the function is given the model itself
    _multioutput: ClassVar[bool] = True

    def __repr__(self):
        # Part of the key that recognises a query asked before, so it names the function's
        # content: an edited function is another query, the same one in a new process is not.
        content = object_digest(self.function) or uuid.uuid4().hex
        return (
            f"PerRecordScore({self.name}, lower={self.lower!r}, upper={self.upper!r}, "
            f"sign={self.sign!r}, content={content})"
        )

    # The range is the caller's own.
    measured = MeanMetric.measured
    caveat = MeanMetric.caveat

    def _limit(self):
        low, high = sorted((self.sign * self.lower, self.sign * self.upper))
        return f"{low:g} to {high:g}", "declare the range that the numbers can have"

    def _raw(self, estimator, X, y):
        return self.sign * np.asarray(self.function(estimator, X, y), dtype=float)

    def _unit(self, raw, clipped):
        unit = (raw - self.lower) / (self.upper - self.lower)
        return np.clip(unit, 0.0, 1.0) if clipped else np.where(unit < -_SLACK, unit, unit.clip(0))

    def training_scores(self, estimator, X, y):
        """Raise, too, without a number for each record, or with one better than the best."""
        y = self._check(estimator, X, y)
        scores = self._raw(estimator, X, y)
        if scores.shape != (len(y),):
            description = f"shape {scores.shape}"
            if scores.ndim == 0:
                description = f"the single number {self.sign * float(scores):.4g}"
            raise ScoreContractError(
                f"PerRecordScore {self.name} must give one number per record, an array of shape "
                f"({len(y)},) here, got {description}. Return the numbers before they are "
                "averaged. The holdout was not queried."
            )
        is_above = scores > self.upper + _SLACK * (self.upper - self.lower)
        if is_above.any():
            self._refuse_range(float(np.nanmax(scores)), int(is_above.sum()), len(y))
        evaluation = self._evaluated(estimator, self._unit(scores, True), y)
        return evaluation.per_record, evaluation.value

    def check_training(self, estimator, X, y):
        try:
            self.training_scores(estimator, X, y)
        except ScoreContractError:
            raise
        except Exception:  # an error of the caller's function is a failed score
            return

    def check_clipping(self, clipping):
        if clipping is not None and clipping.n_clipped:
            self._refuse_range(clipping.worst, clipping.n_clipped, clipping.n)

    def _refuse_range(self, score, count, n):
        """Raise the error for a score outside the declared range."""
        raise ScoreContractError(
            f"PerRecordScore {self.name} was declared with numbers from {self._limit()[0]}, got "
            f"{self.sign * score:.6g} on a training record ({count:,} of {n:,} are outside). "
            "Declare the range that the numbers can have (a loss: positive numbers and "
            "greater_is_better=False), or clip them in the function. The holdout was not queried."
        )
