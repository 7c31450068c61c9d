"""Intervals under attack: an analyst who overfits the holdout on purpose, on pure noise.

Every query has the expectation 1/2, after any earlier queries: labels are fair coins,
independent of everything the analyst can choose. So each interval must contain 1/2, all of them
at once with frequency at least 1 - beta.
"""

import numpy as np
import pytest
from scipy.stats import binom

from sklearn_bdp.correlation import MarkovChain
from sklearn_bdp.holdout import ReusableHoldout

# Several holdouts of the same records, each for a test of its own.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.SecondHoldoutWarning")

N = 300
M = 60
BETA = 0.1
REGIMES = np.array([[0.95, 0.05], [0.05, 0.95]])


def coins(rng):
    """Hits of M features on N independent records."""
    return rng.integers(0, 2, size=(M, N))


def regimes(rng):
    """Hits of M features that are right in one regime and wrong in the other, mostly."""
    switches = rng.random(N) < REGIMES[0, 1]
    switches[0] = rng.random() < 0.5
    state = np.cumsum(switches) % 2
    return state ^ (rng.random((M, N)) < 0.1)


def attack(holdout, hits, rng):
    """Ask about features, then about the majority of those that looked good, thrice over."""
    answers = []
    raw_scores = []
    # Guesses far from the truth and apart from each other force real answers again and again.
    guesses = np.where(rng.random(M) < 0.3, rng.uniform(0.0, 1.0, M), 0.5)
    first_answers = holdout.answer(guesses, hits)
    answers.append(first_answers)
    signs = np.where(first_answers.values >= 0.5, 1, -1) * first_answers.corrected
    for n_voters in (M // 3, 2 * M // 3, M):
        votes = (signs[:n_voters, None] * (2 * hits[:n_voters] - 1)).sum(axis=0)
        score = (votes + rng.choice([-0.5, 0.5], size=N) > 0).astype(float)  # ties by a coin
        raw_scores.append(score.mean())
        answers.append(holdout.answer([0.5], [score]))
    # Plain reuse flips each feature to its better side and takes the majority.
    naive_signs = np.where(hits.mean(axis=1) >= 0.5, 1, -1)
    naive_hits = (naive_signs[:, None] * (2 * hits - 1)).sum(axis=0) > 0
    return answers, max(naive_hits.mean(), *raw_scores)


def count_wrong_runs(make, draw, *, runs, seed):
    """Count runs with a wrong interval; return (failures, average of the naive best score)."""
    n_wrong = 0
    naive_scores = []
    for run in range(runs):
        rng = np.random.default_rng([seed, run])
        answers, best_score = attack(make(run), draw(rng), rng)
        naive_scores.append(best_score)
        # Whatever earlier answers made the analyst choose has expectation 1/2.
        n_wrong += any(((answer.lower > 0.5) | (answer.upper < 0.5)).any() for answer in answers)
    return n_wrong, float(np.mean(naive_scores))


def at_most_beta(n_wrong, runs):
    """Whether the count is compatible with a failure rate of BETA or less.

    25 runs pass a rate of 20% with chance .95 and of 50% with chance .05; 500 runs pass a rate of
    12% with chance .95 and of 17% with chance .07.
    """
    return binom.sf(n_wrong - 1, runs, BETA) > 1e-3


DATA = (np.zeros((N, 1)), np.zeros(N))


def independent(run):
    return ReusableHoldout(*DATA, confidence_level=1 - BETA, random_state=run)


def private(run):
    # Ten answers from the holdout, the default under a level; then NaN, which is not wrong.
    return ReusableHoldout(
        *DATA, confidence_level=1 - BETA, random_state=run, epsilon=30.0, on_exhausted="nan"
    )


def chained(run):
    return ReusableHoldout(
        *DATA, confidence_level=1 - BETA, random_state=run, correlation=MarkovChain(REGIMES)
    )


@pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.UninformativeIntervalWarning")
@pytest.mark.parametrize(
    ("make", "draw"),
    [(independent, coins), (private, coins), (chained, regimes)],
    ids=["independent", "numeric epsilon", "regimes"],
)
def test_intervals_hold_under_attack(make, draw):
    n_wrong, naive_score = count_wrong_runs(make, draw, runs=25, seed=1)
    assert naive_score > 0.56  # plain reuse reports skill on pure noise
    assert at_most_beta(n_wrong, 25)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.UninformativeIntervalWarning")
@pytest.mark.parametrize(
    ("make", "draw"),
    [(independent, coins), (private, coins), (chained, regimes)],
    ids=["independent", "numeric epsilon", "regimes"],
)
def test_intervals_hold_under_attack_in_full_size(make, draw):
    n_wrong, _ = count_wrong_runs(make, draw, runs=500, seed=2)
    assert at_most_beta(n_wrong, 500)


def test_assuming_independence_misses_the_expected_score():
    n_wrong, _ = count_wrong_runs(independent, regimes, runs=30, seed=3)
    assert n_wrong > 0.15 * 30  # beta is 0.1
