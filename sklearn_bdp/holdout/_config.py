"""What a holdout will be, before there are records: the value that searches and selectors take."""

from __future__ import annotations

import dataclasses
import numbers
from pathlib import Path
from typing import Any, Literal

from sklearn_bdp._checks import check_boolean, check_fraction, check_option, check_real
from sklearn_bdp.holdout._inputs import check_path
from sklearn_bdp.holdout._settings import ON_EXHAUSTED, check_parameters


@dataclasses.dataclass(frozen=True, repr=False)
class HoldoutConfig:
    """Settings of a new holdout, for the ``holdout`` parameter of searches and selectors.

    Every field except ``test_size`` is a parameter of :class:`~sklearn_bdp.ReusableHoldout`,
    which describes it. All fields are checked here. Use :func:`dataclasses.replace` to change some.

    Parameters
    ----------
    test_size : float or splitter, default=0.25
        Fraction of the records to hold out, or a splitter with exactly one split. Ignored if
        ``X_val`` is passed to ``fit``.
    beta : float, default=0.05
        Probability that any of the intervals is wrong.
    epsilon : float or "auto", default="auto"
        Bayesian differential privacy level in nats.
    calibration : {"tight", "zhao2017"}, default="tight"
        Noise calibration.
    threshold : float or "auto", default="auto"
        Deviation from which a query is answered from the holdout.
    resolution : float or "auto", default="auto"
        Grid step of released answers.
    budget : int or None, default=None
        Maximum number of corrected answers.
    n_queries : int or None, default=None
        Number of queries that ``calibration="zhao2017"`` is calibrated to.
    on_exhausted : {"raise", "nan", "training"}, default="raise"
        What happens to queries once the budget is used up.
    ledger : str, Path or None, default=None
        SQLite file that records every answer. If None, records are kept in memory.
    ledger_timeout : float, default=60.0
        Longest wait for other threads and processes, in seconds.
    allow_shared_rows : bool, default=False
        Whether training records may equal holdout records.

    Examples
    --------
    >>> from sklearn_bdp import HoldoutConfig
    >>> HoldoutConfig(0.3, beta=0.1)
    HoldoutConfig(0.3, beta=0.1)
    """

    test_size: Any = 0.25
    _: dataclasses.KW_ONLY
    beta: float = 0.05
    epsilon: float | Literal["auto"] = "auto"
    calibration: Literal["tight", "zhao2017"] = "tight"
    threshold: float | Literal["auto"] = "auto"
    resolution: float | Literal["auto"] = "auto"
    budget: int | None = None
    n_queries: int | None = None
    on_exhausted: Literal["raise", "nan", "training"] = "raise"
    ledger: str | Path | None = None
    ledger_timeout: float = 60.0
    allow_shared_rows: bool = False

    def __post_init__(self) -> None:
        if not is_splitter(self.test_size):
            if isinstance(self.test_size, bool) or not isinstance(self.test_size, numbers.Real):
                raise TypeError(
                    "test_size must be a fraction of the records or a splitter with one split, "
                    f"got {type(self.test_size).__name__}."
                )
            check_fraction("test_size", self.test_size)
        check_parameters(
            beta=self.beta, epsilon=self.epsilon, calibration=self.calibration,
            threshold=self.threshold, resolution=self.resolution, budget=self.budget,
            n_queries=self.n_queries,
        )  # fmt: skip
        check_option("on_exhausted", self.on_exhausted, ON_EXHAUSTED)
        check_path(self.ledger)
        check_real("ledger_timeout", self.ledger_timeout, low=0.0, high=1e6)
        check_boolean("allow_shared_rows", self.allow_shared_rows)

    def __repr__(self) -> str:
        changed = [
            f"{field.name}={getattr(self, field.name)!r}"
            for field in dataclasses.fields(self)[1:]
            if getattr(self, field.name) != field.default
        ]
        return f"HoldoutConfig({', '.join([repr(self.test_size), *changed])})"

    def parameters(self) -> dict[str, Any]:
        """Return the parameters of :class:`~sklearn_bdp.ReusableHoldout` by name."""
        names = [field.name for field in dataclasses.fields(self)[1:]]
        return {name: getattr(self, name) for name in names}


def is_splitter(value: Any) -> bool:
    """Return whether a value divides records as scikit-learn's splitters do."""
    return hasattr(value, "split") and hasattr(value, "get_n_splits")
