"""A diagnostic: the data that it reads, and its message."""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any

from sklearn_bdp.utils.validation import caller_level


@dataclasses.dataclass(frozen=True)
class Diagnostic:
    """A check against careless use.

    Parameters
    ----------
    name : str
        Name in the table of guards.
    reads : {"arguments", "training set", "released values", "holdout"}
        Inputs of the check. Only a check that reads the holdout is charged.
    says : str
        Message, with names of facts in braces. No fact depends on holdout records.
    category : type
        Class of the warning or the error.
    """

    name: str
    reads: str
    says: str
    category: type

    def warn(self, **facts: Any) -> None:
        """Give the warning.

        Parameters
        ----------
        **facts : object
            Facts that the message names.
        """
        warnings.warn(self.says.format(**facts), self.category, stacklevel=caller_level())

    def error(self, *, remark: str = "", **facts: Any) -> Exception:
        """Return the error to raise.

        Parameters
        ----------
        remark : str, default=""
            A further sentence. It depends on the caller's arguments only.
        **facts : object
            Facts that the message names.

        Returns
        -------
        Exception
            Of the guard's class.
        """
        return self.category(f"{self.says.format(**facts)} {remark}".rstrip())
