"""Contract of mechanisms over pairs of numbers; tests of a new mechanism inherit it."""

import math

import numpy as np
import pytest

from tests.facts import refused


class MechanismContract:
    """Subclasses make a mechanism and inherit the tests."""

    def make(self):
        """Return a new mechanism that answers a few queries, with noise of a fixed seed."""
        raise NotImplementedError

    def queries(self, count=40):
        """Return training and holdout values, some of which disagree."""
        rng = np.random.default_rng(0)
        training = rng.random(count)
        return training, np.clip(training + np.where(rng.random(count) < 0.3, 0.4, 0.0), 0.0, 1.0)

    def test_batch_and_single_queries_have_the_same_answers(self):
        training, holdout = self.queries()
        batch_answers = self.make().answer(training, holdout)
        mechanism = self.make()
        for i, query in enumerate(zip(training, holdout, strict=True)):
            answer = mechanism.answer(*query)
            assert answer.answered is bool(batch_answers.answered[i])
            assert answer.above is bool(batch_answers.above[i])
            np.testing.assert_array_equal(answer.values, batch_answers.values[i])

    def test_released_values_are_scores_and_unanswered_values_are_nan(self):
        answers = self.make().answer(*self.queries())
        released = answers.values[answers.answered & ~np.isnan(answers.values)]
        assert ((released >= 0.0) & (released <= 1.0)).all()
        assert np.isnan(answers.values[~answers.answered]).all()
        assert not answers.above[~answers.answered].any()

    def test_no_query_is_answered_without_budget(self):
        mechanism = self.make()
        initial_budget = mechanism.remaining_budget
        while mechanism.remaining_budget and mechanism.n_answered < 1000:
            budget = mechanism.remaining_budget
            n_answered = mechanism.n_answered
            mechanism.answer(*self.queries())
            assert 0 <= mechanism.remaining_budget <= budget
            assert mechanism.n_answered >= n_answered
        if initial_budget is not None:
            assert mechanism.remaining_budget == 0
            assert mechanism.answer(0.5, 0.9).answered is False
            assert math.isnan(mechanism.answer(0.5, 0.9).values)

    def test_scalar_pair_gives_scalars(self):
        answers = self.make().answer(0.5, 0.5)
        assert type(answers.values) is float
        assert type(answers.above) is bool
        assert type(answers.answered) is bool

    def test_empty_batch_leaves_the_state(self):
        mechanism = self.make()
        assert len(mechanism.answer([], [])) == 0
        assert mechanism.n_answered == 0
        assert mechanism.remaining_budget == self.make().remaining_budget

    def test_answers_are_read_only(self):
        answers = self.make().answer(*self.queries())
        with refused(ValueError, "read-only"):
            answers.values[0] = 0.0
        with pytest.raises(AttributeError):
            answers.values = None

    def test_inputs_are_not_modified(self):
        training, holdout = self.queries()
        copies = training.copy(), holdout.copy()
        self.make().answer(training, holdout)
        np.testing.assert_array_equal((training, holdout), copies)

    @pytest.mark.parametrize(
        ("training", "holdout"),
        [
            ([0.5, 0.5], [math.nan, 0.5]),
            ([0.5, 0.5], [0.5, 1.1]),
            ([0.5], [0.5, 0.5]),
            ([[0.5]], [[0.5]]),
            ([0.5, 0.5], ["a", "b"]),
            (None, [0.5, 0.5]),
        ],
    )
    def test_bad_queries_raise_and_spend_no_budget(self, training, holdout):
        mechanism = self.make()
        with pytest.raises((TypeError, ValueError)):
            mechanism.answer(training, holdout)
        assert mechanism.n_answered == 0
        assert mechanism.remaining_budget == self.make().remaining_budget
