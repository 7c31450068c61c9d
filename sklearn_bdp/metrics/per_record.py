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

#: Numbers may exceed a declared range by this fraction of it, because of rounding errors.
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
        Range of the numbers. On training records, a better number than the range allows raises
        :class:`~sklearn_bdp.exceptions.ScoreContractError`. A worse number raises it for the best
        candidate of a search, and is clipped for the others. On the holdout, where an error would
        reveal a record, all numbers are clipped.
    greater_is_better : bool, default=True
        False for losses. Scores are then the negative loss, in ``[-upper, -lower]``.
    name : str, optional
        Name in tables and ledgers; by default that of the function, or of its class.

    Raises
    ------
    TypeError
        If ``function`` is not callable, or another argument has a wrong type.
    ValueError
        If ``lower`` and ``upper`` are not finite numbers in ascending order.

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

    The cost of errors, if a false negative costs 5 and a false positive 1:

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
        """Return the declared metric.

        Returns
        -------
        BoundedMetric
            A metric with the declared range, negated for losses.
        """
        sign = 1.0 if self.greater_is_better else -1.0
        score_lower, score_upper = sorted((sign * float(self.lower), sign * float(self.upper)))
        default_name = getattr(self.function, "__name__", type(self.function).__name__)
        return CustomScore(
            name=self.name or default_name,
            lower=score_lower,
            upper=score_upper,
            sign=sign,
            function=self.function,
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class CustomScore(ClippedMetric):
    """Mean of a caller's per-record scores, clipped at their declared range.

    ``sign`` is -1 for a loss, so that greater is better.
    """

    function: Callable
    sign: float = 1.0

    methods: ClassVar[tuple[str, ...]] = ()
    uses_predictions_only: ClassVar[bool] = False  # the function is given the model itself
    _multioutput: ClassVar[bool] = True

    def __repr__(self):
        # The text is part of the query key. It has the digest of the function's code, so that an
        # edited function is another query. Without a digest each text is another one.
        content = object_digest(self.function) or uuid.uuid4().hex
        return (
            f"PerRecordScore({self.name}, lower={self.lower!r}, upper={self.upper!r}, "
            f"sign={self.sign!r}, content={content})"
        )

    # The caller declared the range, so that texts need not mention it.
    display_name = MeanMetric.display_name
    caveat = MeanMetric.caveat

    def _limit_and_advice(self):
        lowest, highest = sorted((self.sign * self.lower, self.sign * self.upper))
        return f"{lowest:g} to {highest:g}", "declare the range that the numbers can have"

    def _unclipped_values(self, estimator, X, y):
        return self.sign * np.asarray(self.function(estimator, X, y), dtype=float)

    def _unit_scores(self, scores, is_clipped):
        unit_scores = (scores - self.lower) / (self.upper - self.lower)
        if is_clipped:
            return np.clip(unit_scores, 0.0, 1.0)
        is_below = unit_scores < -_SLACK
        return np.where(is_below, unit_scores, unit_scores.clip(0))  # removes rounding errors

    def training_scores(self, estimator, X, y):
        """Return the scores of records in [0, 1], and their mean.

        Raise ScoreContractError unless there is one number per record, and for numbers that are
        better than the declared range allows.
        """
        y = self.check_input(estimator, X, y)
        scores = self._unclipped_values(estimator, X, y)
        if scores.shape != (len(y),):
            result_text = f"shape {scores.shape}"
            if scores.ndim == 0:
                result_text = f"the single number {self.sign * float(scores):.4g}"
            raise ScoreContractError(
                f"PerRecordScore {self.name} must give one number per record, an array of shape "
                f"({len(y)},) here, got {result_text}. Return the numbers before they are "
                "averaged. The holdout was not queried."
            )
        is_above = scores > self.upper + _SLACK * (self.upper - self.lower)
        if is_above.any():
            self._raise_range_error(float(np.nanmax(scores)), int(is_above.sum()), len(y))
        unit_scores = self._unit_scores(scores, is_clipped=True)
        evaluation = self._evaluated(estimator, unit_scores, y)
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
            self._raise_range_error(clipping.lowest_unclipped, clipping.n_clipped, clipping.n)

    def _raise_range_error(self, extreme_score, n_outside, n):
        """Raise the error for scores outside the declared range, of ``n_outside`` of ``n`` records.

        ``extreme_score`` is the one farthest outside, in score units: negated for a loss.
        """
        range_text, _ = self._limit_and_advice()
        extreme_number = self.sign * extreme_score  # as the caller's function returned it
        lower, upper = sorted((self.sign * self.lower, self.sign * self.upper))
        # The suggested range contains the number, and more than it.
        lower = min(lower, 2.0 * extreme_number, 0.0) if extreme_number < lower else lower
        upper = max(upper, 2.0 * extreme_number, 0.0) if extreme_number > upper else upper
        function_name = getattr(self.function, "__name__", "function")
        loss_text = ", with greater_is_better=False for a loss"
        argument = ""
        if self.sign < 0:
            loss_text = ""
            argument = ", greater_is_better=False"
        raise ScoreContractError(
            f"PerRecordScore {self.name} was declared with numbers from {range_text}, got "
            f"{extreme_number:.6g} on a training record ({n_outside:,} of {n:,} are outside). "
            f"Declare the possible range, such as PerRecordScore({function_name}, {lower:.4g}, "
            f"{upper:.4g}{argument}){loss_text}. In the function, clip only rare outliers. The "
            "holdout was not queried."
        )
