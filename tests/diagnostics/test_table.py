"""The page of guards agrees with the definitions of the guards."""

import importlib
import re
import warnings
from pathlib import Path

from sklearn_bdp import exceptions
from sklearn_bdp.diagnostics.diagnostic import Diagnostic

ROOMS = [
    importlib.import_module(f"sklearn_bdp.diagnostics.{name}")
    for name in ("overlap", "scores", "tables")
]
PAGE = Path(__file__).parents[2] / "doc" / "guards.md"


def guards():
    """Return all guards: values of the rooms, and of dictionaries in them."""
    for room in ROOMS:
        for value in vars(room).values():
            found = value.values() if isinstance(value, dict) else [value]
            yield from (one for one in found if isinstance(one, Diagnostic))


GUARDS = list(dict.fromkeys(guards()))


def facts(guard):
    """Return the names of the facts in a message."""
    return re.findall(r"{(\w+)", guard.says)


def rows():
    """Return a row of the table for each guard, without when it runs."""
    for one in GUARDS:
        says = re.sub(r"{(\w+).*?}", r"[\1]", one.says).split(". ")[0].rstrip(".") + "."
        yield one.name, one.reads, says, f"`{one.category.__name__}`"


def test_the_page_lists_every_guard():
    """If this fails, put the output of ``python tests/diagnostics/test_table.py`` into the page."""
    lines = PAGE.read_text("utf-8").split("|---|---|---|---|---|\n")[1].splitlines()
    listed = [tuple(line.strip("| ").split(" | ")) for line in lines if line.startswith("|")]
    assert all(when for _, _, when, *_ in listed)
    found = [(name, reads, *rest) for name, reads, _, *rest in listed]
    assert sorted(found) == sorted(rows())


def test_every_warning_can_be_silenced_by_its_own_class():
    for guard in GUARDS:
        if not issubclass(guard.category, Warning):
            continue
        assert issubclass(guard.category, exceptions.SklearnBdpWarning)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            warnings.simplefilter("ignore", guard.category)
            guard.warn(**dict.fromkeys(facts(guard), 1))
        assert not caught


def test_what_reads_the_holdout_names_no_fact():
    """One fixed text: no count, no share, no type, no value."""
    for guard in GUARDS:
        assert guard.reads in ("arguments", "training set", "released values", "holdout")
        if guard.reads == "holdout":
            assert not facts(guard)


if __name__ == "__main__":
    for name, reads, *rest in rows():
        print("|", " | ".join([name, reads, "…", *rest]), "|")
