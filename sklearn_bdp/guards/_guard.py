"""What a guard is: what it reads, when it runs, and what it says."""

from __future__ import annotations

import dataclasses
import string
import warnings
from typing import Any

from sklearn_bdp._checks import caller_level


@dataclasses.dataclass(frozen=True)
class Guard:
    """A check against careless use.

    Parameters
    ----------
    name : str
        Name in the table of guards.
    reads : {"arguments", "training set", "released values", "holdout"}
        What it looks at. Only what reads the holdout is charged.
    when : str
        When it runs.
    says : str
        Message, with names of facts in braces. No fact depends on holdout records.
    category : type
        Class of the warning or the error.
    """

    name: str
    reads: str
    when: str
    says: str
    category: type

    def warn(self, **facts: Any) -> None:
        """Give the warning.

        Parameters
        ----------
        **facts : object
            What the message names.
        """
        warnings.warn(self.says.format(**facts), self.category, stacklevel=caller_level())

    def error(self, **facts: Any) -> Exception:
        """Return the error to raise.

        Parameters
        ----------
        **facts : object
            What the message names.

        Returns
        -------
        Exception
            Of the guard's class.
        """
        return self.category(self.says.format(**facts))

    @property
    def facts(self) -> tuple[str, ...]:
        """Names of the facts in the message."""
        return tuple(name for _, name, *_ in string.Formatter().parse(self.says) if name)

    @property
    def plain(self) -> str:
        """The first sentence of the message, facts shown by their names."""
        parts = string.Formatter().parse(self.says)
        text = "".join(fixed + (f"[{name}]" if name else "") for fixed, name, *_ in parts)
        return text.split(". ")[0].rstrip(".") + "."


def table(guards: Any) -> str:
    """Return guards as the table of the documentation, in Markdown."""
    lines = ["| guard | reads | when | what it says | class |", "|---|---|---|---|---|"]
    for one in guards:
        cells = (one.name, one.reads, one.when, one.plain, f"`{one.category.__name__}`")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)
