"""The page of guards agrees with what the guards say of themselves."""

import re
import warnings
from pathlib import Path

from sklearn_bdp import exceptions
from sklearn_bdp.guards import GUARDS

PAGE = Path(__file__).parents[2] / "doc" / "guards.md"


def facts(guard):
    """Return the names of the facts in a message."""
    return re.findall(r"{(\w+)", guard.says)


def table():
    """Return all guards as a table in Markdown: the first sentences of what they say."""
    lines = ["| guard | reads | when | what it says | class |", "|---|---|---|---|---|"]
    for one in GUARDS:
        says = re.sub(r"{(\w+).*?}", r"[\1]", one.says).split(". ")[0].rstrip(".") + "."
        cells = (one.name, one.reads, one.when, says, f"`{one.category.__name__}`")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def test_the_page_lists_every_guard():
    """Put what ``python tests/guards/test_table.py`` prints into the page where this fails."""
    assert table() in PAGE.read_text("utf-8")


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
    print(table())
