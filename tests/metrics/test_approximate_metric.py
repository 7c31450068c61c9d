"""Scorers that an approximate metric must reject, or whose range it does not know."""

import dataclasses

import numpy as np
import pytest
import sklearn.metrics
from sklearn.metrics import (
    brier_score_loss,
    d2_tweedie_score,
    explained_variance_score,
    f1_score,
    fbeta_score,
    make_scorer,
    mean_squared_error,
    mutual_info_score,
    precision_score,
    r2_score,
)

from sklearn_bdp.metrics import get_metric
from sklearn_bdp.metrics.approximate import Predictions, approximate_metric
from sklearn_bdp.metrics.score_functions import SCORE_FUNCTIONS, UNKNOWN
from tests.facts import refused

LABELS = np.arange(90) % 3
TARGETS = np.linspace(0.1, 3.0, 90)


@pytest.mark.parametrize(
    ("function", "greater_is_better", "y"),
    [
        (mean_squared_error, True, TARGETS),
        (r2_score, False, TARGETS),
        (precision_score, False, LABELS // 2),
        (f1_score, False, LABELS // 2),
    ],
)
def test_a_scorer_that_looks_for_the_worst_model_is_an_error(function, greater_is_better, y):
    """The formulas of errors and ratios would give the score with the other sign."""
    scorer = make_scorer(function, greater_is_better=greater_is_better)
    with refused(ValueError, function.__name__, f"greater_is_better={not greater_is_better}"):
        approximate_metric(scorer, y)
    assert approximate_metric(make_scorer(function, greater_is_better=not greater_is_better), y)


def test_a_scorer_of_one_class_with_its_default_average_needs_two_classes():
    with refused(ValueError, "f1_score", "f1_macro"):
        approximate_metric(make_scorer(f1_score), LABELS)


@pytest.mark.parametrize(
    ("scorer", "y", "fixed_call"),
    [
        (
            make_scorer(fbeta_score, beta=2),
            LABELS,
            "make_scorer(fbeta_score, beta=2, average='macro', pos_label=None)",
        ),
        (
            make_scorer(f1_score, zero_division=1),
            LABELS,
            "make_scorer(f1_score, zero_division=1, average='macro', pos_label=None)",
        ),
        (
            make_scorer(fbeta_score, beta=2),
            LABELS // 2 + 5,
            "make_scorer(fbeta_score, beta=2, pos_label=6)",
        ),
        (
            make_scorer(f1_score, average="macro"),
            LABELS + 5,
            "make_scorer(f1_score, average='macro', pos_label=None)",
        ),
        (
            make_scorer(brier_score_loss, greater_is_better=False, pos_label=3),
            LABELS,
            "make_scorer(brier_score_loss, pos_label=None, greater_is_better=False)",
        ),
    ],
)
def test_the_fix_for_labels_keeps_the_other_arguments_of_a_scorer(scorer, y, fixed_call):
    with refused(ValueError, fixed_call):
        approximate_metric(scorer, y)
    fixed_scorer = eval(fixed_call)
    assert approximate_metric(fixed_scorer, y)
    predictions = np.eye(3)[y] if "brier" in fixed_call else y
    fixed_scorer._score_func(y, predictions, **fixed_scorer._kwargs)  # the arguments are valid


def test_average_precision_of_several_classes_needs_integers_from_zero():
    """scikit-learn's function takes no other positive class than 1 for several classes."""
    with refused(ValueError, "average_precision", "integers from 0 to 2"):
        approximate_metric("average_precision", LABELS + 5)
    assert approximate_metric("average_precision", LABELS)


def test_facts_about_functions_that_are_not_public_are_reasons_only():
    """An approximate metric finds facts by the public name of the scorer's function."""
    for name, facts in SCORE_FUNCTIONS.items():
        if not any(hasattr(sklearn.metrics, text) for text in (name, f"{name}_score")):
            assert dataclasses.replace(facts, rejection="") == UNKNOWN


def test_a_prediction_without_a_loss_leaves_the_score_undefined():
    """A squared log error needs numbers above -1; a model may predict others."""
    metric = approximate_metric("neg_mean_squared_log_error", TARGETS)
    reference = metric.training_reference(
        Predictions(TARGETS, TARGETS - 2.0),
        unit_codes=None,
        n_holdout_units=30,
        n_holdout_records=30,
    )
    assert np.isnan(reference.score)
    assert reference.reason == "its out-of-fold score is undefined"


@pytest.mark.parametrize(
    ("function", "y"), [(mutual_info_score, LABELS), (d2_tweedie_score, TARGETS)]
)
def test_an_interval_of_a_score_without_a_known_range_is_open_at_both_ends(function, y):
    metric = approximate_metric(make_scorer(function), y).with_range([-0.5, 0.5])
    assert metric.open_ends == "both"
    assert metric.ends_from_unit(0.0, 1.0) == (-np.inf, np.inf)
    assert metric.lower < -0.5


def test_explained_variance_of_a_biased_model_is_not_r2():
    """The mean error is public: that of the training records is subtracted on the holdout."""
    rng = np.random.default_rng(0)
    y = rng.normal(size=400)
    biased_predictions = 0.8 * y + 1.0 + 0.1 * rng.normal(size=400)
    metric = approximate_metric("explained_variance", y)
    reference = metric.training_reference(
        Predictions(y, biased_predictions),
        unit_codes=None,
        n_holdout_units=100,
        n_holdout_records=100,
    )
    assert reference.family == "loss"
    assert reference.score == pytest.approx(explained_variance_score(y, biased_predictions), 0.02)
    new_y = rng.normal(size=100)
    new_predictions = Predictions(new_y, 0.8 * new_y + 1.0)
    assert metric.statistic(new_predictions, reference) == pytest.approx(0.96, abs=0.02)


def test_options_without_a_metric_are_an_error():
    with refused(TypeError, "scoring", "bounds"):
        get_metric(None, bounds=(0.0, 1.0))
