"""The pages about ledgers agree with the command line, the docstrings and the errors."""

import inspect
import re
from pathlib import Path

import pytest

from sklearn_bdp import HoldoutConfig, exceptions
from sklearn_bdp.holdout import ExpertSettings
from sklearn_bdp.ledger.backend import FORMAT

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "doc" / "guide" / "teams.md").read_text("utf-8")
FORMAT_PAGE = (ROOT / "doc" / "developers" / "ledger_format.md").read_text("utf-8")


def test_the_page_has_the_actions_of_the_command_line(command_line, capsys):
    assert command_line("ledger", "--help") == 0
    actions = re.findall(r"^    (\w+) +\S", capsys.readouterr().out, re.MULTILINE)
    assert len(actions) == 9
    assert set(re.findall(r"^\$ python -m sklearn_bdp ledger (\w+)", PAGE, re.MULTILINE)) == set(
        actions
    )


@pytest.mark.parametrize("action", ["list", "show", "export", "verify", "copy", "move", "upgrade",
                                    "repair", "delete"])  # fmt: skip
def test_each_option_that_the_page_names_exists(action, command_line, capsys):
    assert command_line("ledger", action, "--help") == 0
    options = set(re.findall(r"--\w+", capsys.readouterr().out))
    lines = re.findall(rf"^\$ python -m sklearn_bdp ledger {action} .*", PAGE, re.MULTILINE)
    assert set(re.findall(r"--\w+", " ".join(lines))) <= options
    assert ("--json" in options) == (action != "export")


def test_the_page_has_each_error_of_a_ledger():
    table = PAGE.partition("## Errors")[2].partition("\n## ")[0]
    errors = set(re.findall(r"class (Ledger\w+Error)", inspect.getsource(exceptions)))
    assert errors <= set(re.findall(r"`(\w+)`", table))


def test_numbers_of_the_pages_are_those_of_the_package():
    assert f"of format {FORMAT}," in FORMAT_PAGE
    assert f"ledger_timeout={ExpertSettings().ledger_timeout}" in PAGE


def test_docstring_and_page_show_the_same_url():
    form = "postgresql://user@host/database?holdout=name"
    assert form in HoldoutConfig.__doc__
    assert form in PAGE
