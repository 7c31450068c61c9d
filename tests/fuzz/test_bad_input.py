"""At least 10,000 calls with bad input: none is silently wrong, and errors name the parameter."""

import sys
from collections import Counter
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from bad_input import run, table
from entries import all_entries

#: Messages of our own that do not name the parameter; the goal is 0.
UNNAMED = 50


def check(findings):
    """Print the table and assert its required properties."""
    print("\n" + table(findings))
    severe_findings = [f for f in findings if f.outcome in ("silently wrong", "other exception")]
    for f in severe_findings:
        print(f"{f.outcome}: {f.entry}({f.parameter}={f.value}) {f.message}")
    counts = Counter(finding.outcome for finding in findings)
    assert not [f for f in findings if f.outcome == "silently wrong"], table(findings)
    assert counts["unnamed, ours"] < UNNAMED, table(findings)
    assert counts["other exception"] == 0, table(findings)


def test_a_sample_of_bad_input():
    fast_entries = [
        entry for entry in all_entries() if not entry.name.startswith(("certify", "plan_"))
    ]
    fast_entries = [entry for entry in fast_entries if not entry.name.endswith((".fit", "data"))]
    check(run(fast_entries, keep=31))


@pytest.mark.slow
def test_ten_thousand_calls_with_bad_input():
    findings = run(all_entries())
    assert len(findings) >= 10_000
    check(findings)
