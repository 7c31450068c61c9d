"""A diagnostic: the kind of data that a check reads, and the message of its finding."""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any

from sklearn_bdp.utils.validation import caller_level


@dataclasses.dataclass(frozen=True)
class Diagnostic:
    """Warning or error of a check: its message, and the kind of data that the check reads.

    Parameters
    ----------
    name : str
        Name in the table of checks in ``doc/developers/mechanisms.md``.
    source : {"arguments", "training set", "released values", "holdout"}
        Data that the check reads. Only checks of the holdout are charged.
    message : str
        Template of the message, with names of facts in braces.
    category : type
        Class of the warning or the error.
    """

    name: str
    source: str
    message: str
    category: type

    def warn(self, **facts: Any) -> None:
        """Issue the warning. ``category`` must be a class of warnings.

        Parameters
        ----------
        **facts : object
            Values of the names in braces in the message.
        """
        warnings.warn(self.message.format(**facts), self.category, stacklevel=caller_level())

    def error(self, *, remark: str = "", **facts: Any) -> Exception:
        """Return the error for the caller to raise.

        Parameters
        ----------
        remark : str, default=""
            Another sentence at the end. It must depend on the caller's arguments only.
        **facts : object
            Values of the names in braces in the message.

        Returns
        -------
        Exception
            An error of ``category``.
        """
        return self.category(f"{self.message.format(**facts)} {remark}".rstrip())
