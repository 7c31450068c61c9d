"""User-defined scoring functions: one bounded number per record."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Callable
from typing import ClassVar

import numpy as np

from sklearn_bdp.exceptions import ScoreContractError
from sklearn_bdp.metrics.base import BoundedMetric, MeanMetric
from sklearn_bdp.metrics.means import ClippedMetric
from sklearn_bdp.utils.hashing import object_digest
from sklearn_bdp.utils.validation import check_boolean, check_real

#: Rounding errors beyond a declared range, as a part of it.
_SLACK = 1e-9


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

    methods: ClassVar[tuple[str, ...]] = ()
    uses_predictions_only: ClassVar[bool] = False  # the function is given the model itself
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
    display_name = MeanMetric.display_name
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
        y = self.check_input(estimator, X, y)
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
