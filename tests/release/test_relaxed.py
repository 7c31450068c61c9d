"""Relaxed candidates: those far behind the leader cost nothing, and say so."""

import numpy as np
import pytest
from scipy.stats import binom

from sklearn_bdp import ReusableHoldout
from sklearn_bdp.holdout import ExpertSettings
from tests.facts import refused

# Several holdouts of the same records, each for a test of its own.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.SecondHoldoutWarning")

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(400, 2)), RNG.integers(0, 2, 400)


def scores(*means):
    return (np.arange(400) < 400 * np.array(means)[:, None]).astype(float)


def ask(relaxed_to):
    holdout = ReusableHoldout(X, Y, spending="even", random_state=0)
    return holdout, holdout.answer([0.9, 0.3], scores(0.9, 0.5), relaxed_to=relaxed_to)


def test_a_slackened_query_is_left_alone_and_its_interval_is_wider():
    tight, exact = ask(None)
    loose, left = ask([0.0, 0.3])
    assert exact.corrected.tolist() == [False, True]
    assert left.corrected.tolist() == [False, False]
    assert left.lower[1] < exact.lower[1] <= 0.5 <= exact.upper[1] < left.upper[1]
    assert left.lower[0] == exact.lower[0]
    assert loose.information_spent < tight.information_spent


def test_the_certificate_tells_how_many_were_left():
    loose, left = ask([0.0, 0.3])
    certificate = loose.certificate()
    assert certificate.answers.n_relaxed == 1
    assert "1 kept wide because they trail" in str(certificate)
    widest = max(left.values[0] - left.lower[0], left.upper[0] - left.values[0])
    assert certificate.half_width >= widest
    assert ask(None)[0].certificate().answers.n_relaxed == 0


def test_relaxed_to_does_not_move_a_fixed_threshold():
    holdout = ReusableHoldout(X, Y, expert=ExpertSettings(threshold=0.05), random_state=0)
    assert holdout.answer([0.3], scores(0.5), relaxed_to=[0.9]).corrected.all()


@pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.UninformativeIntervalWarning")
def test_intervals_hold_for_the_leader_and_for_relaxed_candidates():
    """60 runs pass a failure rate of 17% (of 10%) with chance .93 and of 33% with chance .07."""
    beta, replications, n, m = 0.1, 60, 300, 20
    X, y, failed, relaxed = np.zeros((n, 1)), np.arange(n) % 2, 0, 0
    for replication in range(replications):
        rng = np.random.default_rng(replication)
        holdout = ReusableHoldout(X, y, confidence_level=1 - beta, random_state=replication)
        centre, wrong = 0.7, False
        for _ in range(4):  # each batch is drawn around the winner of the one before
            truth = np.clip(rng.normal(centre, 0.15, m), 0.05, 0.95)
            values = np.clip(truth + rng.normal(0.05, 0.05, m), 0.0, 1.0)  # training side, biased
            hits = (rng.random((m, n)) < truth[:, None]).astype(float)
            answers = holdout.answer(values, hits, relaxed_to=0.5 * (values.max() - values))
            wrong |= bool(((truth < answers.lower) | (truth > answers.upper)).any())
            centre = float(np.clip(answers.values.max(), 0.3, 0.8))
        failed += wrong
        relaxed += holdout.certificate().answers.n_relaxed
    assert relaxed > 10 * replications
    assert failed <= binom.ppf(0.999, replications, beta)


@pytest.mark.parametrize("relaxed_to", [-0.1, 1.1, np.nan, [0.1, 0.1, 0.1], "typo"])
def test_bad_relaxed_to_is_rejected_before_anything_is_spent(relaxed_to):
    holdout = ReusableHoldout(X, Y, random_state=0)
    with refused((ValueError, TypeError), "relaxed_to"):
        holdout.answer([0.9, 0.3], scores(0.9, 0.5), relaxed_to=relaxed_to)
    assert len(holdout.history()) == 0
