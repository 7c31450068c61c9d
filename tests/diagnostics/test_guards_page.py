"""The page of guards agrees with the definitions of the guards."""

import importlib
import re
import warnings
from pathlib import Path

from sklearn_bdp import exceptions
from sklearn_bdp.diagnostics.diagnostic import Diagnostic

MODULES = [
    importlib.import_module(f"sklearn_bdp.diagnostics.{name}")
    for name in ("overlap", "scores", "tables")
]
PAGE = Path(__file__).parents[2] / "doc" / "developers" / "mechanisms.md"


def guards():
    """Return all guards: values of the rooms, and of dictionaries in them."""
    for module in MODULES:
        for value in vars(module).values():
            values = value.values() if isinstance(value, dict) else [value]
            yield from (guard for guard in values if isinstance(guard, Diagnostic))


GUARDS = list(dict.fromkeys(guards()))


def message_fields(guard):
    """Return the names of the facts in a message."""
    return re.findall(r"{(\w+)", guard.message)


def rows():
    """Return a row of the table for each guard, without when it runs."""
    for guard in GUARDS:
        first_sentence = (
            re.sub(r"{(\w+).*?}", r"[\1]", guard.message).split(". ")[0].rstrip(".") + "."
        )
        yield guard.name, guard.source, first_sentence, f"`{guard.category.__name__}`"


def test_the_page_lists_every_guard():
    """``python tests/diagnostics/test_guards_page.py`` prints the rows of the page."""
    section = PAGE.read_text("utf-8").partition("## Checks\n")[2].partition("\n##")[0]
    lines = section.partition("|---|---|---|---|---|\n")[2].splitlines()
    listed_rows = [tuple(line.strip("| ").split(" | ")) for line in lines if line.startswith("|")]
    assert all(when for _, _, when, *_ in listed_rows)
    rows_without_when = [(name, reads, *cells) for name, reads, _, *cells in listed_rows]
    assert sorted(rows_without_when) == sorted(rows())


def test_every_warning_can_be_silenced_by_its_own_class():
    for guard in GUARDS:
        if not issubclass(guard.category, Warning):
            continue
        assert issubclass(guard.category, exceptions.SklearnBdpWarning)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            warnings.simplefilter("ignore", guard.category)
            guard.warn(**dict.fromkeys(message_fields(guard), 1))
        assert not caught


def test_messages_of_guards_that_read_the_holdout_have_no_fields():
    """One fixed text: no count, no share, no type, no value."""
    for guard in GUARDS:
        assert guard.source in ("arguments", "training set", "released values", "holdout")
        if guard.source == "holdout":
            assert not message_fields(guard)


if __name__ == "__main__":
    for name, reads, *cells in rows():
        print("|", " | ".join([name, reads, "…", *cells]), "|")
