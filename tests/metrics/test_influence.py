"""Influence of records on scores: against leaving records out one by one."""

import numpy as np
import pytest
import sklearn.metrics
from sklearn.metrics import get_scorer

from sklearn_bdp.metrics.approximate import Predictions, approximate_metric
from sklearn_bdp.metrics.influence import influence_on_score, record_losses

LOSSES = [
    *("neg_mean_absolute_error", "neg_mean_absolute_percentage_error"),
    *("neg_mean_poisson_deviance", "neg_mean_gamma_deviance", "neg_mean_squared_log_error"),
    *("neg_root_mean_squared_log_error", "d2_absolute_error_score"),
]
AUCS = ["roc_auc_ovr", "roc_auc_ovr_weighted", "roc_auc_ovo", "roc_auc_ovo_weighted"]
SAMPLES = ["f1_samples", "jaccard_samples", "precision_samples", "recall_samples"]


def draw(name, rng, n=300):
    """Return targets and responses that fit a scorer."""
    if name in SAMPLES:
        y = rng.integers(0, 2, (n, 4))
        return y, np.where(rng.random(y.shape) < 0.3, 1 - y, y)
    if name == "d2_brier_score two":
        y = rng.integers(0, 2, n)
        return y, np.clip(0.5 * y + 0.5 * rng.random(n), 0.01, 0.99)
    if name == "roc_auc":
        y = rng.integers(0, 2, n)
        return y, np.round(y + 1.5 * rng.normal(size=n), 1)
    if name == "d2_brier_score three" or name in AUCS:
        y = rng.integers(0, 3, n)
        return y, rng.dirichlet(np.ones(3), n) * 0.5 + 0.5 * np.eye(3)[y]
    response = rng.gamma(5.0, 1.0, n)
    return response * rng.gamma(8.0, 1.0 / 8.0, n), response


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.UndefinedMetricWarning")
@pytest.mark.parametrize(
    "name", [*LOSSES, *SAMPLES, *AUCS, "roc_auc", "d2_brier_score two", "d2_brier_score three"]
)
def test_influence_is_the_effect_of_leaving_a_record_out(name):
    y, response = draw(name, np.random.default_rng(0))
    scorer = get_scorer(name.split()[0])
    function, arguments = scorer._score_func, scorer._kwargs
    influence = influence_on_score(function.__name__, arguments, y, response)
    n = len(y)
    score = function(y, response, **arguments)
    left_out = np.array(
        [
            function(np.delete(y, i, axis=0), np.delete(response, i, axis=0), **arguments)
            for i in range(60)
        ]
    )
    np.testing.assert_allclose(influence[:60], (n - 1) * (score - left_out), rtol=0.15, atol=0.02)
    assert abs(influence.mean()) < 1e-9


@pytest.mark.parametrize("name", LOSSES[:5])
def test_losses_have_the_mean_of_scikit_learn(name):
    y, response = draw(name, np.random.default_rng(1))
    function = get_scorer(name)._score_func
    losses = record_losses(function.__name__, {}, y, response)
    assert losses.mean() == pytest.approx(function(y, response))


def test_a_quantile_loss_takes_its_level():
    y, response = draw("neg_mean_absolute_error", np.random.default_rng(2))
    losses = record_losses("mean_pinball_loss", {"alpha": 0.9}, y, response)
    assert losses.mean() == pytest.approx(sklearn.metrics.mean_pinball_loss(y, response, alpha=0.9))


def test_other_functions_and_arguments_are_unknown():
    y, response = draw("neg_mean_absolute_error", np.random.default_rng(3))
    assert influence_on_score("mean_tweedie_deviance", {"power": 1.5}, y, response) is None
    assert influence_on_score("mean_absolute_error", {"multioutput": [1.0]}, y, response) is None
    assert record_losses("mean_gamma_deviance", {}, -y, response) is None


@pytest.mark.parametrize("name", ["neg_mean_absolute_error", "neg_mean_poisson_deviance"])
def test_deviation_of_records_is_that_of_simulated_holdouts(name):
    rng = np.random.default_rng(4)
    y, response = draw(name, rng, 20_000)
    metric = approximate_metric(name, y)
    reference = metric.training_reference(
        Predictions(y, response), unit_codes=None, n_holdout_units=400, n_holdout_records=400
    )
    values = [
        metric.to_unit(metric.score_predictions(Predictions(*draw(name, rng, 400))))
        for _ in range(300)
    ]
    assert reference.spread.deviation == pytest.approx(np.std(values) * 20.0, rel=0.15)
