"""A cross-validated score that falls when it is verified: false alarms and power by simulation."""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest

from sklearn_bdp import ReusableHoldout
from sklearn_bdp.diagnostics.scores import warn_about_selected_model
from sklearn_bdp.exceptions import OptimisticScoreWarning
from sklearn_bdp.metrics import get_metric

N = 400
CANDIDATES = 20


def has_optimism_warning(rng, *, n_training, score_drop):
    """Return whether the choice among equal candidates of score .8 is warned about."""
    cv_scores = rng.binomial(n_training, 0.8, CANDIDATES) / n_training
    holdout = ReusableHoldout(np.zeros((N, 1)), rng.integers(0, 2, N), random_state=0)
    answers = holdout.answer(cv_scores, rng.random((CANDIDATES, N)) < 0.8 - score_drop)
    best = int(np.argmax(np.minimum(cv_scores, answers.values)))
    holdout_split = SimpleNamespace(X=np.zeros((n_training, 1)), train_model=None)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_about_selected_model(
            holdout, get_metric("accuracy"), holdout_split, model_description="the chosen one",
            score=answers.values[best], interval=(answers.lower[best], answers.upper[best]),
            cv_score=cv_scores[best],
        )  # fmt: skip
    return any(issubclass(warning.category, OptimisticScoreWarning) for warning in caught)


@pytest.mark.parametrize("n_training", [60, 1200])
def test_equal_scores_rarely_give_an_optimism_warning(n_training):
    """Also where folds know less than the holdout. A rate of 3% would pass with chance .05."""
    rng = np.random.default_rng(n_training)
    assert not any(
        has_optimism_warning(rng, n_training=n_training, score_drop=0.0) for _ in range(100)
    )


def test_a_large_score_drop_is_reported():
    """Power: a guard that finds only 9 of 10 such falls would pass with chance .04."""
    rng = np.random.default_rng(0)
    assert all(has_optimism_warning(rng, n_training=1200, score_drop=0.3) for _ in range(30))
