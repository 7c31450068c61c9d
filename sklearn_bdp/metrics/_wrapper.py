"""Scores of the caller's own: a function with one number per record and a declared range."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Callable
from typing import ClassVar

import numpy as np

from sklearn_bdp._checks import check_boolean, check_real
from sklearn_bdp._digests import object_digest
from sklearn_bdp.metrics._base import BoundedMetric, MeanMetric


@dataclasses.dataclass(frozen=True)
class PerRecordScore:
    """Declare that a function gives one bounded score per record.

    Parameters
    ----------
    function : callable
        ``function(estimator, X, y)`` with one number per record, shape ``(n,)``. A record's
        number may depend on that record and the fitted model only, not on other rows of ``X``.
    lower, upper : float, default=0.0, 1.0
        Range of the numbers; anything outside is clipped.
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

    Examples
    --------
    >>> from sklearn_bdp.metrics import PerRecordScore, get_metric
    >>> def pinball(estimator, X, y):
    ...     error = y - estimator.predict(X)
    ...     return abs(error) * (0.9 * (error > 0) + 0.1 * (error <= 0))
    >>> metric = get_metric(PerRecordScore(pinball, 0.0, 5.0, greater_is_better=False))
    >>> metric.name, metric.lower, metric.upper
    ('pinball', -5.0, -0.0)
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
class CustomScore(MeanMetric):
    """A declared per-record function as a metric."""

    function: Callable
    sign: float = 1.0

    by_predictions: ClassVar[bool] = False  # the function is given the model itself
    _multioutput: ClassVar[bool] = True

    def __repr__(self):
        # Part of the key that recognises a query asked before, so it names the function's
        # content: an edited function is another query, the same one in a new process is not.
        return (
            f"PerRecordScore({self.name}, lower={self.lower!r}, upper={self.upper!r}, "
            f"sign={self.sign!r}, content={_content(self.function)})"
        )

    def _rows(self, estimator, X, y):
        scores = self.sign * np.asarray(self.function(estimator, X, y), dtype=float)
        return np.clip((scores - self.lower) / (self.upper - self.lower), 0.0, 1.0)

    def _check_schema(self, estimator, X, y):
        """Accept any records: the function knows what it gives to the model."""

    def _check_estimator(self, estimator):
        """Accept any estimator: the function knows what it needs."""


def _content(function):
    """Return a digest of a callable's code and of the values it carries."""
    return object_digest(function) or uuid.uuid4().hex
