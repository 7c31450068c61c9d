"""A cross-validated score that falls when it is verified: false alarms and power by simulation."""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest

from sklearn_bdp import ReusableHoldout
from sklearn_bdp.diagnostics.scores import warn_about_selected_model
from sklearn_bdp.exceptions import OptimisticScoreWarning
from sklearn_bdp.metrics import get_metric

N, CANDIDATES = 400, 20


def warned(rng, *, n_training, fall):
    """Return whether the choice among equal candidates of score .8 is warned about."""
    training = rng.binomial(n_training, 0.8, CANDIDATES) / n_training
    holdout = ReusableHoldout(np.zeros((N, 1)), rng.integers(0, 2, N), random_state=0)
    answers = holdout.answer(training, rng.random((CANDIDATES, N)) < 0.8 - fall)
    best = int(np.argmax(np.minimum(training, answers.values)))
    division = SimpleNamespace(X=np.zeros((n_training, 1)), train_model=None)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_about_selected_model(
            holdout, get_metric("accuracy"), division, of="the chosen one",
            score=answers.values[best], interval=(answers.lower[best], answers.upper[best]),
            training=training[best],
        )  # fmt: skip
    return any(issubclass(each.category, OptimisticScoreWarning) for each in caught)


@pytest.mark.parametrize("n_training", [60, 1200])
def test_equal_scores_are_hardly_ever_called_fallen(n_training):
    """Also where folds know less than the holdout. A rate of 3% would pass with chance .05."""
    rng = np.random.default_rng(n_training)
    assert not any(warned(rng, n_training=n_training, fall=0.0) for _ in range(100))


def test_a_large_fall_is_told():
    """Power: a guard that finds only 9 of 10 such falls would pass with chance .04."""
    rng = np.random.default_rng(0)
    assert all(warned(rng, n_training=1200, fall=0.3) for _ in range(30))
