"""What a guard is: what it reads, when it runs, and what it says."""

from __future__ import annotations

import dataclasses
import string
import warnings
from typing import Any

from sklearn_bdp._checks import caller_level

#: Every guard, as the page of guards lists them.
GUARDS: list[Guard] = []
#: Warnings that this process has given once.
TOLD: set[tuple[str, str]] = set()


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

    def __post_init__(self) -> None:
        GUARDS.append(self)

    def warn(self, **facts: Any) -> None:
        """Give the warning.

        Parameters
        ----------
        **facts : object
            What the message names.
        """
        warnings.warn(self.says.format(**facts), self.category, stacklevel=caller_level())

    def warn_once(self, about: str, **facts: Any) -> None:
        """Give the warning once in a process.

        Parameters
        ----------
        about : str
            What it is about; another thing is another warning.
        **facts : object
            What the message names.
        """
        if (self.name, about) not in TOLD:
            TOLD.add((self.name, about))
            self.warn(**facts)

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


def table() -> str:
    """Return all guards as the table of the documentation.

    Returns
    -------
    str
        Markdown.
    """
    lines = ["| guard | reads | when | what it says | class |", "|---|---|---|---|---|"]
    for one in GUARDS:
        cells = (one.name, one.reads, one.when, one.plain, f"`{one.category.__name__}`")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)
