"""Training records that are holdout records: compared by value."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sklearn_bdp._digests import count_shared_rows
from sklearn_bdp.exceptions import SharedRecordsError

#: Fitted attributes of scikit-learn's models that are training rows: of neighbours, of support
#: vector machines, of Gaussian processes.
_KEEPERS = ("_fit_X", "support_vectors_", "X_train_")
_PARTS = 20  # members of an ensemble that are looked at


def kept_rows(estimator: Any, depth: int = 3) -> Iterator[np.ndarray]:
    """Yield the training rows that a fitted model, or one inside it, keeps as they are."""
    state = getattr(estimator, "__dict__", None) or {}
    for name in _KEEPERS:
        rows = state.get(name)
        if isinstance(rows, np.ndarray) and rows.ndim == 2 and rows.dtype.kind == "f":
            yield rows
    if depth and hasattr(estimator, "get_params"):
        for name, inner in state.items():
            parts = inner if isinstance(inner, list | tuple) else [inner]
            for part in parts[:_PARTS]:
                one = part[1] if isinstance(part, tuple) and len(part) > 1 else part
                if name.endswith("_") or name == "steps":
                    yield from kept_rows(one, depth - 1)


def refuse_shared_rows(X: Any, y: Any, X_holdout: ArrayLike, y_holdout: ArrayLike) -> None:
    """Raise SharedRecordsError where training records are holdout records beyond chance."""
    shared, chance = count_shared_rows(X, y, X_holdout, y_holdout)
    if shared > chance:
        raise SharedRecordsError(
            f"{shared:,} training record(s) are records of the holdout ({chance:,} could be equal "
            "by chance): a model would be verified on what it was fitted on. Nothing was asked. "
            "Give training records only, such as X[search.train_indices_]; if the population holds "
            "equal records, pass a ReusableHoldout(..., allow_shared_rows=True) as holdout.",
            n_shared=shared,
        )
