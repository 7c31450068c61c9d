import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.mechanisms import SparseValidate
from sklearn_bdp.mechanisms import Thresholdout

unit_values = st.floats(0, 1, allow_subnormal=False).map(lambda v: round(v, 3))


@given(
    st.lists(st.tuples(unit_values, unit_values), max_size=30),
    st.integers(1, 4),
    st.integers(0, 30),
)
def test_batches_equal_single_answers_and_the_budget_is_exact(pairs, budget, batch_end):
    training, holdout = np.array(pairs).reshape(-1, 2).T
    mechanism = SparseValidate(0.1, budget=budget)
    expected = []
    remaining_budget = budget
    for cv_score, holdout_score in pairs:
        rejected = abs(cv_score - holdout_score) > 0.1 and remaining_budget > 0
        expected.append((remaining_budget > 0, rejected))
        remaining_budget -= rejected
    answers = [mechanism.answer(training[:batch_end], holdout[:batch_end])]
    answers.append(mechanism.answer(training[batch_end:], holdout[batch_end:]))
    answered = np.concatenate([part.answered for part in answers])
    above = np.concatenate([part.above for part in answers])
    assert list(zip(answered, above, strict=True)) == expected
    assert mechanism.remaining_budget == remaining_budget
    assert mechanism.n_answered == answered.sum()


def test_only_confirmed_training_values_are_released():
    answers = SparseValidate(0.05, budget=5).answer([0.9, 0.2], [0.88, 0.3])
    assert answers.values[0] == 0.9
    assert math.isnan(answers.values[1])


def test_decisions_equal_thresholdout_without_noise():
    rng = np.random.default_rng(0)
    training, holdout = rng.random((2, 200))
    rule = Thresholdout(0.3, threshold_scale=0, query_scale=0, answer_scale=0, budget=9)
    expected = rule.answer(training, holdout)
    answers = SparseValidate(0.3, budget=9).answer(training, holdout)
    np.testing.assert_array_equal(answers.above, expected.above)
    np.testing.assert_array_equal(answers.answered, expected.answered)


def test_thresholds_per_query_override():
    answers = SparseValidate(0.0, budget=2).answer([0.5, 0.5], [0.6, 0.6], thresholds=[0.2, 0.05])
    np.testing.assert_array_equal(answers.above, [False, True])


@pytest.mark.parametrize(
    "make",
    [
        lambda: SparseValidate(-0.1, budget=1),
        lambda: SparseValidate(math.nan, budget=1),
        lambda: SparseValidate(0.1, budget=0),
        lambda: SparseValidate(0.1, budget=None),
        lambda: SparseValidate(0.1, budget=1).answer([0.1], [math.inf]),
    ],
)
def test_bad_arguments_are_rejected(make):
    with pytest.raises((TypeError, ValueError)):
        make()
