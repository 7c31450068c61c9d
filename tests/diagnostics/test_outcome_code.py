"""The code of checks (theory G21) is a code: enumerated."""

import itertools
import math

import numpy as np
import pytest

from sklearn_bdp import ReusableHoldout
from sklearn_bdp.accounting.spending import outcome_code_length, report_attempt_length
from sklearn_bdp.exceptions import SharedRecordsError


def path_code_length(path, n_findings):
    """Return the code length of findings (None: silence), one check after the other."""
    total = 0.0
    n_complaints = 0
    for n_checks, finding in enumerate(path):
        is_complaint = finding is not None
        total += outcome_code_length(
            n_checks=n_checks,
            n_complaints=n_complaints,
            complaint=is_complaint,
            n_findings=n_findings,
        )
        n_complaints += is_complaint
    return total


@pytest.mark.parametrize("n_findings", [1, 2, 4])
def test_weights_of_all_paths_sum_to_one(n_findings):
    """For any next check and any stopping rule, the weights below a node sum to its own."""
    findings = [None, *range(n_findings)]
    for depth in range(1, 6):
        paths = itertools.product(findings, repeat=depth)
        weights = [math.exp(-path_code_length(path, n_findings)) for path in paths]
        assert math.fsum(weights) == pytest.approx(1.0)
    for prefix in itertools.product(findings, repeat=3):
        total_weight = math.fsum(
            math.exp(-path_code_length((*prefix, finding), n_findings)) for finding in findings
        )
        assert total_weight == pytest.approx(math.exp(-path_code_length(prefix, n_findings)))


def test_probabilities_of_stopping_at_the_first_finding_sum_to_one():
    """A fixed price per finding with free silence is not a code: 121 checks summed to above one."""
    stop_weights = [
        math.exp(-path_code_length([None] * n_silent_checks + ["rows"], 1))
        for n_silent_checks in range(500)
    ]
    assert math.fsum(stop_weights) + math.exp(-path_code_length([None] * 500, 1)) == pytest.approx(
        1.0
    )


def test_silence_is_cheap_and_a_first_finding_is_not():
    assert path_code_length([None] * 20, 4) == pytest.approx(0.18, abs=0.01)
    assert path_code_length(["rows"], 4) == pytest.approx(3.04 + math.log(4), abs=0.01)


def test_weights_of_all_report_outcomes_sum_to_one():
    """G35: the holdout is closed, or one of three ends is seen and the next attempt begins."""
    total = 0.0
    unfinished = 0.0
    for n_earlier in range(200):
        finished = report_attempt_length(n_earlier=n_earlier, finished=True)
        total += math.exp(-finished - unfinished)
        unfinished += report_attempt_length(n_earlier=n_earlier, finished=False) - math.log(3)
    assert total + math.exp(-unfinished) == pytest.approx(1.0)


def test_later_queries_pay_for_earlier_findings():
    """Intervals of later queries are wider after complaints (theory G21)."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    y = rng.integers(0, 2, 400)
    holdout, unchecked_holdout = (
        ReusableHoldout(X[300:], y[300:], random_state=0) for _ in range(2)
    )
    findings = []
    for start in (0, 280, 100, 290):
        rows = slice(start, start + 100)
        try:
            holdout.check_training_rows(X[rows], y[rows])
            findings.append(None)
        except SharedRecordsError:
            findings.append("rows")
    assert findings == [None, "rows", None, "rows"]
    spent = holdout.information_spent - unchecked_holdout.information_spent
    assert spent == pytest.approx(path_code_length(findings, 4))
    scores = (X[300:, 0] > 0)[np.newaxis]
    charged_answers, unchecked_answers = (
        handle.answer([0.5], scores) for handle in (holdout, unchecked_holdout)
    )
    assert (
        charged_answers.upper[0] - charged_answers.lower[0]
        > unchecked_answers.upper[0] - unchecked_answers.lower[0]
    )
    code_lengths = (handle.history()[0].code_length for handle in (holdout, unchecked_holdout))
    assert next(code_lengths) - next(code_lengths) == pytest.approx(spent)
