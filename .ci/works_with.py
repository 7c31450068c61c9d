"""Write the table of clients of doc/how_it_works/evidence.md: ``python .ci/works_with.py``.

A test names its client by a marker, ``@pytest.mark.client("optuna", "samplers, pruning")``. Clients
whose tests pass in this environment get a row with their version; rows of clients that are not
installed here stay as they were. The extra ``clients`` installs those that ``test`` does without.
"""

import importlib.metadata
import pathlib
import sys

import pytest

PAGE = pathlib.Path(__file__).parents[1] / "doc" / "how_it_works" / "evidence.md"
HEAD = "| client | version tested | what is tested |\n|---|---|---|\n"


class Clients:
    """Collects the clients of tests that pass, and of those that do not."""

    def __init__(self):
        self.notes, self.passed, self.failed = {}, set(), set()

    def pytest_collection_modifyitems(self, items):
        """Remember which client each test is about."""
        for item in items:
            for marker in item.iter_markers("client"):
                self.notes.setdefault(item.nodeid, []).append(marker.args)

    def pytest_runtest_logreport(self, report):
        """Sort clients by what came out."""
        if report.when == "call" or report.failed:
            client_names = {name for name, _ in self.notes.get(report.nodeid, ())}
            (self.passed if report.passed else self.failed if report.failed else set()).update(
                client_names
            )

    def rows(self):
        """Return the row of each client whose tests passed."""
        notes_by_client = {}
        for name, note in [pair for pairs in self.notes.values() for pair in reversed(pairs)]:
            if name in self.passed - self.failed:
                notes_by_client.setdefault(name, dict.fromkeys([]))[note] = None
        return {
            name: f"| {name} | {importlib.metadata.version(name)} | {', '.join(notes)} |"
            for name, notes in notes_by_client.items()
        }


def main():
    """Run the tests and write the page; return the exit code."""
    clients = Clients()
    code = pytest.main(["-q", "-m", "client", "tests", *sys.argv[1:]], plugins=[clients])
    text, _, table = PAGE.read_text("utf-8").partition(HEAD)
    earlier = {line.split("|")[1].strip(): line for line in table.splitlines() if line}
    rows = earlier | clients.rows()
    lines = [rows[name] for name in sorted(rows, key=str.lower)]
    PAGE.write_text(text + HEAD + "\n".join(lines) + "\n", encoding="utf-8")
    return int(code)


if __name__ == "__main__":
    sys.exit(main())
