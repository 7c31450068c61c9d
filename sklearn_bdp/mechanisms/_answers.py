"""The record every mechanism answers with."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np


@dataclasses.dataclass(frozen=True, eq=False)
class Answers:
    """What a mechanism released for a batch of queries.

    Scalars when the batch was a scalar pair, read-only arrays of shape ``(m,)`` otherwise.

    Parameters
    ----------
    values : ndarray of shape (m,) or float
        Released values in units of the score in [0, 1]; NaN where not answered.
    above : ndarray of shape (m,) or bool
        Whether the value was taken from the holdout (and spent budget); False where not answered.
    answered : ndarray of shape (m,) or bool
        False where the budget was used up before the query.

    Examples
    --------
    >>> from sklearn_bdp.mechanisms import Answers
    >>> Answers(values=0.8, above=False, answered=True)
    Answers(values=0.8, above=False, answered=True)
    """

    values: Any
    above: Any
    answered: Any

    def __post_init__(self):
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, np.ndarray):
                value.setflags(write=False)

    def __len__(self) -> int:
        """Return the number of queries; a scalar pair has no length."""
        return len(self.values)

    def scalar(self) -> Answers:
        """Return the record of the only query, as Python scalars.

        Returns
        -------
        Answers
            The same record with ``float`` and ``bool`` entries.
        """
        return Answers(
            values=self.values.item(), above=self.above.item(), answered=self.answered.item()
        )
