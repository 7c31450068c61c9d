"""The code of checks (theory G21) is a code: enumerated."""

import itertools
import math

import numpy as np
import pytest

from sklearn_bdp import ReusableHoldout
from sklearn_bdp.accounting.spending import outcome_code_length, report_attempt_length
from sklearn_bdp.exceptions import SharedRecordsError


def length(path, n_findings):
    """Return the code length of findings (None: silence), one check after the other."""
    total, complaints = 0.0, 0
    for place, finding in enumerate(path):
        said = finding is not None
        total += outcome_code_length(
            n_checks=place, n_complaints=complaints, complaint=said, n_findings=n_findings
        )
        complaints += said
    return total


@pytest.mark.parametrize("n_findings", [1, 2, 4])
def test_weights_of_all_paths_sum_to_one(n_findings):
    """Whatever is asked next, and whenever one stops: the weights below a node sum to its own."""
    findings = [None, *range(n_findings)]
    for depth in range(1, 6):
        paths = itertools.product(findings, repeat=depth)
        weights = [math.exp(-length(path, n_findings)) for path in paths]
        assert math.fsum(weights) == pytest.approx(1.0)
    for before in itertools.product(findings, repeat=3):
        below = math.fsum(math.exp(-length((*before, one), n_findings)) for one in findings)
        assert below == pytest.approx(math.exp(-length(before, n_findings)))


def test_an_analyst_who_stops_at_the_first_finding_has_no_more_than_one():
    """A fixed price per finding with free silence is not a code: 121 checks summed to above one."""
    stops = [math.exp(-length([None] * place + ["rows"], 1)) for place in range(500)]
    assert math.fsum(stops) + math.exp(-length([None] * 500, 1)) == pytest.approx(1.0)


def test_silence_is_cheap_and_a_first_word_is_not():
    assert length([None] * 20, 4) == pytest.approx(0.18, abs=0.01)
    assert length(["rows"], 4) == pytest.approx(3.04 + math.log(4), abs=0.01)


def test_weights_of_all_ends_of_reports_sum_to_one():
    """G35: the holdout is closed, or one of three ends is seen and the next attempt begins."""
    total, unfinished = 0.0, 0.0
    for n_earlier in range(200):
        finished = report_attempt_length(n_earlier=n_earlier, finished=True)
        total += math.exp(-finished - unfinished)
        unfinished += report_attempt_length(n_earlier=n_earlier, finished=False) - math.log(3)
    assert total + math.exp(-unfinished) == pytest.approx(1.0)


def test_every_later_query_pays_for_the_words():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(400, 3)), rng.integers(0, 2, 400)
    holdout, plain = (ReusableHoldout(X[300:], y[300:], random_state=0) for _ in range(2))
    said = []
    for start in (0, 280, 100, 290):
        rows = slice(start, start + 100)
        try:
            holdout.check_training_rows(X[rows], y[rows])
            said.append(None)
        except SharedRecordsError:
            said.append("rows")
    assert said == [None, "rows", None, "rows"]
    spent = holdout.information_spent - plain.information_spent
    assert spent == pytest.approx(length(said, 4))
    scores = (X[300:, 0] > 0)[np.newaxis]
    one, other = (each.answer([0.5], scores) for each in (holdout, plain))
    assert one.upper[0] - one.lower[0] > other.upper[0] - other.lower[0]
    records = (each.history()[0].code_length for each in (holdout, plain))
    assert next(records) - next(records) == pytest.approx(spent)
