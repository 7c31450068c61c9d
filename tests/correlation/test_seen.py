"""Regimes that are seen: post-stratified scores against enumeration of all paths (theory G11′)."""

import itertools
import math

import numpy as np
import pytest

from sklearn_bdp.correlation import (
    MarkovChain,
    WorstOf,
    check_independence,
    weighted_lower_limit,
)
from sklearn_bdp.planning import certify, plan_holdout

from .contract import ModelContract
from .tails import log_tail_above

P = np.array([[0.8, 0.2], [0.3, 0.7]])
MEANS = np.array([0.9, 0.3])
PI = np.array([0.6, 0.4])
TRUTH = float(PI @ MEANS)


class TestSeenStates(ModelContract):
    n = 40
    model = staticmethod(lambda: MarkovChain(P, states=np.random.default_rng(0).integers(0, 2, 40)))


class TestSeenStatesNeverVisited(ModelContract):
    n = 12
    model = staticmethod(lambda: MarkovChain(P, states=np.zeros(12, dtype=int)))


def paths(n):
    """Yield all paths of the stationary chain with their probabilities."""
    for path in itertools.product((0, 1), repeat=n):
        steps = np.prod([P[a, b] for a, b in itertools.pairwise(path)])
        yield np.array(path), PI[path[0]] * steps


@pytest.mark.parametrize("n", [3, 8])
def test_expectation_is_the_stationary_score_whatever_the_path(n):
    """G11′: exact for every path that visits all states; the filled ends enclose it otherwise."""
    for path, _ in paths(n):
        seen = MarkovChain(P, states=path)
        expected = float(seen.weights_ @ MEANS[path]) * (1.0 - seen.unseen_)
        if seen.unseen_ == 0.0:
            assert expected == pytest.approx(TRUTH, abs=1e-15)
        assert expected - 1e-12 <= TRUTH <= expected + seen.unseen_ + 1e-12


def visits(n):
    """Yield for each number of visits a path with its outcomes and the values of the score.

    Records of one state are alike and independent given the path: their order changes nothing.
    """
    bits = np.array(list(itertools.product((0.0, 1.0), repeat=n)))
    for path in (np.r_[np.zeros(n - k, int), np.ones(k, int)] for k in range(n + 1)):
        seen = MarkovChain(P, states=path)
        chances = np.prod(np.where(bits == 1, MEANS[path], 1 - MEANS[path]), axis=1)
        yield seen, chances, np.clip(bits @ seen.record_weights(n), 0.0, 1.0)


@pytest.mark.parametrize("level", [0.3, 0.05, 0.01])
def test_limits_hold_over_all_paths_and_outcomes(level):
    """G11′ by enumeration, 2^7 outcomes: each limit fails at most at its level given any path."""
    for seen, chances, values in visits(7):
        for binary in (False, True):
            low = seen.mean_lower_limit(values, math.log(level), 7, binary=binary)
            high = 1.0 - seen.mean_lower_limit(1.0 - values, math.log(level), 7, binary=binary)
            assert chances[low > TRUTH].sum() <= level
            assert chances[high < TRUTH].sum() <= level


def test_tails_hold_over_all_outcomes_of_every_path():
    """The two-sided tail of G11′, its missing states included."""
    for seen, chances, values in visits(6):
        for alpha in (0.1, 0.25, 0.4, 0.6):
            happens = chances[np.abs(values - TRUTH) >= alpha + 1e-12].sum()
            assert math.log(max(happens, 1e-300)) <= seen.log_tail(alpha, 6) + 1e-9
        ends = np.unique(values)
        happens = [chances[values >= value - 1e-12].sum() for value in ends]
        assert (np.log(happens) <= log_tail_above(seen, TRUTH, ends, 6) + 1e-9).all()


def test_limits_are_those_of_weights():
    """G12 with the weights of the states, when every state is visited."""
    states = np.r_[np.zeros(300, int), np.ones(40, int)]
    seen = MarkovChain(P, states=states)
    by_hand = weighted_lower_limit(
        np.array([0.7]), np.array([-4.0]), np.array([0.6 / 300, 0.4 / 40]), np.array([300, 40])
    )
    assert seen.mean_lower_limit(0.7, -4.0, 340) == pytest.approx(by_hand, abs=1e-9)
    assert seen.effective_n(340) == pytest.approx(1 / (0.36 / 300 + 0.16 / 40))


def test_dependence_costs_nothing():
    """A slow chain whose states are visited as they should be is worth nearly all its records."""
    slow = [[0.999, 0.001], [0.001, 0.999]]
    states = np.repeat([0, 1], 500)
    assert MarkovChain(slow, states=states).effective_n(1000) == pytest.approx(1000)
    assert MarkovChain(slow).effective_n(1000) < 2
    assert MarkovChain(slow, states=states).cut_failure(0) == 0.0


def test_emissions_that_depend_on_the_state_before_are_another_matter():
    """Why the conditions are named: another expectation, and the check within states sees it."""
    score = np.array([[0.95, 0.05], [0.05, 0.95]])  # of (state before, state)
    slow = np.array([[0.95, 0.05], [0.05, 0.95]])
    truth = float(np.sum(0.5 * slow * score))
    path = np.tile([0, 1], 100)  # a possible path, of changes only
    seen = MarkovChain(slow, states=path)
    wrong = float(seen.weights_ @ score[np.r_[0, path[:-1]], path])
    assert (round(wrong, 2), round(truth, 3)) == (0.05, 0.905)
    rng = np.random.default_rng(0)
    states = np.cumsum(rng.random(6000) < 0.05) % 2
    hidden = np.cumsum(rng.random(6000) < 0.05) % 2
    plain = (rng.random(6000) < np.where(states, 0.9, 0.5)).astype(float)
    worse = (rng.random(6000) < np.where(states, 0.9, 0.5) - 0.3 * hidden).astype(float)
    assert check_independence(plain).misfit
    assert not check_independence(plain, states=states).misfit
    assert "own state" in check_independence(worse, states=states).message


def test_check_within_states_is_exact_for_any_share_of_states():
    rng = np.random.default_rng(1)
    states = np.cumsum(rng.random(800) < 0.03) % 3
    false = sum(
        check_independence(
            (rng.random(800) < np.array([0.2, 0.6, 0.99])[states]).astype(float), states=states
        ).misfit
        for _ in range(60)
    )
    assert false <= 4


def test_states_are_checked_by_name_and_value():
    for states, message in (
        ([0, 2], "states must be integers 0 … 1"),
        ([0.0, 1.0], "states must be integers"),
        ([[0, 1]], "one per record"),
        ([], "one per record"),
        ([-1, 0], "states must be integers 0 … 1"),
    ):
        with pytest.raises(ValueError, match=message):
            MarkovChain(P, states=np.array(states))
    with pytest.raises(ValueError, match="irreducible"):
        MarkovChain([[1.0, 0.0], [0.0, 1.0]], states=[0, 1])
    with pytest.raises(ValueError, match="n must be 3"):
        MarkovChain(P, states=[0, 1, 0]).effective_n(4)
    with pytest.raises(ValueError, match="tight"):
        MarkovChain(P, states=[0, 1, 0]).bdp_epsilon(0.1, 3, method="quilt")


def test_planning_and_lists_say_what_to_do_instead():
    seen = MarkovChain(P, states=[0, 1, 0])
    with pytest.raises(ValueError, match="correlation=None"):
        plan_holdout(tau=0.1, n_queries=10, budget=1, correlation=seen)
    with pytest.raises(ValueError, match="correlation=None"):
        certify(3, correlation=seen, n_queries=10, budget=1)
    with pytest.raises(ValueError, match="must refer to plain means"):
        WorstOf([seen, MarkovChain(P)])
