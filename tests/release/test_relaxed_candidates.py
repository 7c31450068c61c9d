"""Relaxed candidates: those far behind the leader are not charged, and are labeled."""

import numpy as np
import pytest
from scipy.stats import binom

from sklearn_bdp import ReusableHoldout
from sklearn_bdp.holdout import ExpertSettings
from tests.facts import refused

# Several holdouts of the same records, each for a test of its own.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.SecondHoldoutWarning")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 2))
Y = RNG.integers(0, 2, 400)


def scores(*means):
    return (np.arange(400) < 400 * np.array(means)[:, None]).astype(float)


def answer_two_queries(relaxed_to):
    holdout = ReusableHoldout(X, Y, spending="even", random_state=0)
    return holdout, holdout.answer([0.9, 0.3], scores(0.9, 0.5), relaxed_to=relaxed_to)


def test_a_relaxed_query_is_not_corrected_and_its_interval_is_wider():
    unrelaxed_holdout, unrelaxed_answers = answer_two_queries(None)
    relaxed_holdout, relaxed_answers = answer_two_queries([0.0, 0.3])
    assert unrelaxed_answers.corrected.tolist() == [False, True]
    assert relaxed_answers.corrected.tolist() == [False, False]
    assert (
        relaxed_answers.lower[1]
        < unrelaxed_answers.lower[1]
        <= 0.5
        <= unrelaxed_answers.upper[1]
        < relaxed_answers.upper[1]
    )
    assert relaxed_answers.lower[0] == unrelaxed_answers.lower[0]
    assert relaxed_holdout.information_spent < unrelaxed_holdout.information_spent


def test_the_certificate_reports_the_number_of_relaxed_intervals():
    relaxed_holdout, relaxed_answers = answer_two_queries([0.0, 0.3])
    certificate = relaxed_holdout.certificate()
    assert certificate.answers.n_relaxed == 1
    assert "1 kept wide because they trail" in str(certificate)
    widest = max(
        relaxed_answers.values[0] - relaxed_answers.lower[0],
        relaxed_answers.upper[0] - relaxed_answers.values[0],
    )
    assert certificate.half_width >= widest
    assert answer_two_queries(None)[0].certificate().answers.n_relaxed == 0


def test_relaxed_to_does_not_move_a_fixed_threshold():
    holdout = ReusableHoldout(X, Y, expert=ExpertSettings(threshold=0.05), random_state=0)
    assert holdout.answer([0.3], scores(0.5), relaxed_to=[0.9]).corrected.all()


@pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.UninformativeIntervalWarning")
def test_intervals_hold_for_the_leader_and_for_relaxed_candidates():
    """60 runs pass a failure rate of 17% (of 10%) with chance .93 and of 33% with chance .07."""
    beta = 0.1
    replications = 60
    n = 300
    m = 20
    X = np.zeros((n, 1))
    y = np.arange(n) % 2
    n_failed = 0
    n_relaxed = 0
    for replication in range(replications):
        rng = np.random.default_rng(replication)
        holdout = ReusableHoldout(X, y, confidence_level=1 - beta, random_state=replication)
        center = 0.7
        is_missed = False
        for _ in range(4):  # each batch is drawn around the winner of the one before
            expected_scores = np.clip(rng.normal(center, 0.15, m), 0.05, 0.95)
            biased_scores = expected_scores + rng.normal(0.05, 0.05, m)
            cv_scores = np.clip(biased_scores, 0.0, 1.0)
            hits = (rng.random((m, n)) < expected_scores[:, None]).astype(float)
            answers = holdout.answer(
                cv_scores, hits, relaxed_to=0.5 * (cv_scores.max() - cv_scores)
            )
            is_missed |= bool(
                ((expected_scores < answers.lower) | (expected_scores > answers.upper)).any()
            )
            center = float(np.clip(answers.values.max(), 0.3, 0.8))
        n_failed += is_missed
        n_relaxed += holdout.certificate().answers.n_relaxed
    assert n_relaxed > 10 * replications
    assert n_failed <= binom.ppf(0.999, replications, beta)


@pytest.mark.parametrize("relaxed_to", [-0.1, 1.1, np.nan, [0.1, 0.1, 0.1], "typo"])
def test_bad_relaxed_to_is_rejected_before_anything_is_spent(relaxed_to):
    holdout = ReusableHoldout(X, Y, random_state=0)
    with refused((ValueError, TypeError), "relaxed_to"):
        holdout.answer([0.9, 0.3], scores(0.9, 0.5), relaxed_to=relaxed_to)
    assert len(holdout.history()) == 0
