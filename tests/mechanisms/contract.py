"""What every mechanism over pairs of numbers must hold; a new one inherits it."""

import math

import numpy as np
import pytest

from tests.facts import refused


class MechanismContract:
    """Subclasses make a mechanism; every property below is inherited."""

    def make(self):
        """Return a new mechanism that answers a few queries, noise (if any) of a fixed seed."""
        raise NotImplementedError

    def queries(self, count=40):
        """Return training-side and holdout values, some of which disagree."""
        rng = np.random.default_rng(0)
        training = rng.random(count)
        return training, np.clip(training + np.where(rng.random(count) < 0.3, 0.4, 0.0), 0.0, 1.0)

    def test_a_batch_and_one_by_one_give_the_same_answers(self):
        training, holdout = self.queries()
        batch, single = self.make().answer(training, holdout), self.make()
        for place, pair in enumerate(zip(training, holdout, strict=True)):
            one = single.answer(*pair)
            assert one.answered is bool(batch.answered[place])
            assert one.above is bool(batch.above[place])
            np.testing.assert_array_equal(one.values, batch.values[place])

    def test_released_values_are_scores_and_unanswered_ones_are_none(self):
        answers = self.make().answer(*self.queries())
        told = answers.values[answers.answered & ~np.isnan(answers.values)]
        assert ((told >= 0.0) & (told <= 1.0)).all()
        assert np.isnan(answers.values[~answers.answered]).all()
        assert not answers.above[~answers.answered].any()

    def test_nothing_is_answered_once_the_budget_is_used(self):
        mechanism = self.make()
        before = mechanism.remaining_budget
        while mechanism.remaining_budget and mechanism.n_answered < 1000:
            left, answered = mechanism.remaining_budget, mechanism.n_answered
            mechanism.answer(*self.queries())
            assert 0 <= mechanism.remaining_budget <= left
            assert mechanism.n_answered >= answered
        if before is not None:
            assert mechanism.remaining_budget == 0
            assert mechanism.answer(0.5, 0.9).answered is False
            assert math.isnan(mechanism.answer(0.5, 0.9).values)

    def test_scalar_pair_gives_scalars(self):
        answers = self.make().answer(0.5, 0.5)
        assert type(answers.values) is float
        assert type(answers.above) is bool
        assert type(answers.answered) is bool

    def test_empty_batch_changes_nothing(self):
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
        before = training.copy(), holdout.copy()
        self.make().answer(training, holdout)
        np.testing.assert_array_equal((training, holdout), before)

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
    def test_bad_queries_are_refused_and_cost_nothing(self, training, holdout):
        mechanism = self.make()
        with pytest.raises((TypeError, ValueError)):
            mechanism.answer(training, holdout)
        assert mechanism.n_answered == 0
        assert mechanism.remaining_budget == self.make().remaining_budget
