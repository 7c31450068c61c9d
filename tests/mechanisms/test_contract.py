"""Contract of mechanisms for Thresholdout, through which holdouts are queried."""

import pytest

from sklearn_bdp.mechanisms import Thresholdout

from .contract import MechanismContract


class TestThresholdout(MechanismContract):
    options: dict = {"budget": 5}

    def make(self):
        scales = {"threshold_scale": 0.01, "query_scale": 0.02, "answer_scale": 0.01}
        return Thresholdout(0.1, **scales, **self.options, random_state=0)

    def test_runs_of_an_empty_batch_leave_the_state(self):
        mechanism = self.make()
        assert len(mechanism.answer_run([], [])) == 0
        assert mechanism.n_answered == 0
        if mechanism.noise == "laplace":
            assert mechanism.dp_epsilon_used(0.1) == 0.0


class TestThresholdoutWithoutACap(TestThresholdout):
    options = {"resolution": 0.05, "refresh": False}


class TestGaussianThresholdout(TestThresholdout):
    options = {"budget": 5, "noise": "gaussian"}

    def test_dp_level_is_infinite(self):
        assert self.make().dp_epsilon(0.1) == pytest.approx(float("inf"))
