"""The page of guards agrees with what the guards say of themselves."""

import warnings
from pathlib import Path

from sklearn_bdp import exceptions
from sklearn_bdp.guards import GUARDS, table

PAGE = Path(__file__).parents[2] / "doc" / "guards.md"


def test_the_page_lists_every_guard():
    """Print ``sklearn_bdp.guards.table()`` into the page where this fails."""
    assert table() in PAGE.read_text("utf-8")


def test_every_warning_can_be_silenced_by_its_own_class():
    for guard in GUARDS:
        if not issubclass(guard.category, Warning):
            continue
        assert issubclass(guard.category, exceptions.SklearnBdpWarning)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            warnings.simplefilter("ignore", guard.category)
            guard.warn(**dict.fromkeys(guard.facts, 1))
        assert not caught


def test_what_reads_the_holdout_names_no_fact():
    """One fixed text: no count, no share, no type, no value."""
    for guard in GUARDS:
        assert guard.reads in ("arguments", "training set", "released values", "holdout")
        if guard.reads == "holdout":
            assert not guard.facts
