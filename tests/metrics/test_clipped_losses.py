"""Losses that targets near 0 make large count at most a clip from out-of-fold losses."""

import numpy as np
import pytest
from sklearn.dummy import DummyRegressor
from sklearn.metrics import make_scorer, mean_tweedie_deviance

from sklearn_bdp import ReusableHoldoutSearchCV
from sklearn_bdp.metrics.approximate import Predictions, approximate_metric

RNG = np.random.default_rng(0)
PREDICTION = 1.0 + RNG.gamma(3.0, 1.0, 600)
TARGETS = PREDICTION * RNG.gamma(4.0, 0.25, 600)
LOSSES = (
    "neg_mean_gamma_deviance",
    "neg_mean_squared_log_error",
    "neg_root_mean_squared_log_error",
)


def reference_of(metric, y, response, *, from_caller=False):
    """Return the reference of out-of-fold predictions for a holdout of 150 records."""
    return metric.training_reference(
        Predictions(y, response, from_caller=from_caller),
        unit_codes=None,
        n_holdout_units=150,
        n_holdout_records=150,
    )


@pytest.mark.parametrize("name", LOSSES)
def test_one_target_near_zero_moves_the_score_by_at_most_its_clip(name):
    metric = approximate_metric(name, TARGETS)
    reference = reference_of(metric, TARGETS, PREDICTION)
    (clip,) = reference.loss_clips
    y = TARGETS[:150].copy()
    y[0] = 1e-12
    response = PREDICTION[:150].copy()
    response[0] = 1e6
    outlier_score = metric.statistic(Predictions(y, response), reference)
    score = metric.statistic(Predictions(TARGETS[:150], PREDICTION[:150]), reference)
    power = 2 if name.startswith("neg_root") else 1
    change_of_mean_loss = abs(abs(outlier_score) ** power - abs(score) ** power)
    assert change_of_mean_loss <= clip / 150 * (1.0 + 1e-9)
    assert metric.score_predictions(Predictions(y, response)) < outlier_score


@pytest.mark.parametrize("name", LOSSES)
def test_predictions_of_a_caller_do_not_set_the_clip_alone(name):
    metric = approximate_metric(name, TARGETS)
    own = reference_of(metric, TARGETS, TARGETS * 1.001, from_caller=True)
    out_of_fold = reference_of(metric, TARGETS, np.full_like(TARGETS, TARGETS.mean()))
    assert own.loss_clips[0] >= out_of_fold.loss_clips[0]


def test_a_deviance_of_power_two_has_no_interval():
    scorer = make_scorer(mean_tweedie_deviance, greater_is_better=False, power=2)
    reference = reference_of(approximate_metric(scorer, TARGETS), TARGETS, PREDICTION)
    assert reference.family == "none"


def test_the_certificate_names_the_clip():
    search = ReusableHoldoutSearchCV(
        DummyRegressor(), {}, scoring="neg_mean_gamma_deviance", random_state=0
    ).fit(PREDICTION[:, None], TARGETS)
    assert "the loss of a record counts at most" in str(search.certificate_)
    assert search.best_interval_[0] < search.best_score_ < search.best_interval_[1]
