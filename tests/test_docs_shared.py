"""Descriptions that stand once are shown wherever they hold."""

import inspect

import pytest

from sklearn_bdp import ReusableHoldout
from sklearn_bdp._docs import described_by
from sklearn_bdp.feature_selection import HoldoutCorrelationFilter, HoldoutFeatureSelector


def description(kind, name):
    """Return type and text of a parameter in a docstring."""
    lines = inspect.getdoc(kind).splitlines()
    start = next(place for place, line in enumerate(lines) if line.startswith(f"{name} : "))
    text = []
    for line in lines[start + 1 :]:
        if not line.startswith("    "):
            break
        text.append(line.strip())
    return lines[start], " ".join(text)


@pytest.mark.parametrize("name", ["beta", "budget", "on_exhausted", "ledger"])
@pytest.mark.parametrize("kind", [HoldoutFeatureSelector, HoldoutCorrelationFilter])
def test_help_describes_each_parameter_of_the_holdout_in_full(kind, name):
    header, text = description(kind, name)
    source, full = description(ReusableHoldout, name)
    assert header == source
    assert text.startswith(full)
    assert "As for" not in text


def test_what_an_entry_says_besides_stays_and_other_entries_are_left_alone():
    class Source:
        """Hold.

        Parameters
        ----------
        a : int
            First.

            - with a list;
        b : str, default="x"
            Second.

        Attributes
        ----------
        a : float
            Another one.
        """

    @described_by(Source)
    class Shown:
        """Show.

        Parameters
        ----------
        a, b : object
            As for :class:`~package.Source`; these are kept.
        c : int
            As for :class:`Source`.
        """

    assert inspect.getdoc(Shown).splitlines() == [
        "Show.",
        "",
        "Parameters",
        "----------",
        "a : int",
        "    First.",
        "",
        "    - with a list;",
        'b : str, default="x"',
        "    Second.",
        "    these are kept.",
        "c : int",
        "    As for :class:`Source`.",
    ]
