import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.mechanisms import Ladder, ParameterFreeLadder
from tests.facts import refused


def ladder_of_the_paper(losses, step):
    """Blum, Hardt 2015, Fig. 1, on losses."""
    best = math.inf
    released = []
    for loss in losses:
        if loss < best - step:
            best = round(loss / step) * step
        released.append(best)
    return released


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=40), st.sampled_from([0.5, 0.25, 0.125]))
def test_ladder_equals_the_published_algorithm_on_one_minus_the_loss(thousandths, step):
    # Exact binary fractions away from half steps, so that both roundings agree.
    losses = (np.array(thousandths) * 2 + 1) / 4096
    values = Ladder(step).answer(np.zeros(losses.size), 1 - losses).values
    np.testing.assert_allclose(values, 1 - np.array(ladder_of_the_paper(losses, step)))


@given(st.lists(st.floats(0, 1), min_size=1, max_size=60), st.floats(0.01, 1.0))
def test_the_leaderboard_never_falls_and_moves_rarely(scores, margin):
    mechanism = Ladder(margin)
    answers = mechanism.answer(np.zeros(len(scores)), scores)
    assert (np.diff(answers.values) >= 0).all()
    assert answers.values.max() <= 1.0
    assert mechanism.n_above <= 2.0 / margin + 2
    assert answers.above[0]
    assert mechanism.best == answers.values[-1]


def test_batches_equal_single_submissions():
    scores = np.random.default_rng(0).random(50)
    single = Ladder(0.05)
    np.testing.assert_array_equal(
        Ladder(0.05).answer(scores, scores).values, [single.answer(s, s).values for s in scores]
    )
    assert single.n_answered == 50
    assert single.remaining_budget is None


def test_released_scores_are_within_half_a_margin():
    assert abs(Ladder(0.1).answer(0.0, 0.8449).values - 0.8449) <= 0.05


def test_parameter_free_needs_an_improvement_beyond_its_own_noise():
    rng = np.random.default_rng(0)
    first_scores = (rng.random(400) < 0.7).astype(float)
    lucky_scores = (
        first_scores.copy()
    )  # three records better, two worse: a gain of 1/n, noise of about 2.2/n
    lucky_scores[np.flatnonzero(first_scores == 0)[:3]] = 1.0
    lucky_scores[np.flatnonzero(first_scores == 1)[:2]] = 0.0
    better_scores = np.maximum(first_scores, rng.random(400) < 0.3)
    mechanism = ParameterFreeLadder()
    answers = mechanism.answer(np.zeros(3), [first_scores, lucky_scores, better_scores])
    np.testing.assert_array_equal(answers.above, [True, False, True])
    np.testing.assert_allclose(
        answers.values, [first_scores.mean(), first_scores.mean(), better_scores.mean()]
    )
    assert mechanism.best == better_scores.mean()


def test_parameter_free_releases_multiples_of_one_over_n():
    values = ParameterFreeLadder().answer([0.0], [[0.3, 0.9, 0.5]]).values
    assert values[0] * 3 == pytest.approx(round(values[0] * 3))


@pytest.mark.parametrize(
    "make",
    [
        lambda: Ladder(0.0),
        lambda: Ladder(1.5),
        lambda: Ladder(math.nan),
        lambda: Ladder(0.1).answer([0.1], [math.nan]),
        lambda: ParameterFreeLadder().answer([0.1], [[0.5, math.nan]]),
        lambda: ParameterFreeLadder().answer([0.1], [[0.5]]),
        lambda: ParameterFreeLadder().answer([0.1, 0.2], [[0.5, 0.5]]),
        lambda: ParameterFreeLadder().answer([0.1], [[0.5, 2.0]]),
    ],
)
def test_bad_arguments_are_rejected(make):
    with pytest.raises((TypeError, ValueError)):
        make()


def test_parameter_free_rejects_another_holdout():
    mechanism = ParameterFreeLadder()
    mechanism.answer([0.0], [[0.0, 1.0]])
    with refused(ValueError, "per_record_scores"):
        mechanism.answer([0.0], [[0.0, 1.0, 1.0]])
    assert mechanism.n_answered == 1
