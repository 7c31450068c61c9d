"""Metrics of several outputs choose candidates with an interval, and are reported."""

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import get_scorer
from sklearn.multioutput import MultiOutputClassifier

from sklearn_bdp import ReusableHoldout, ReusableHoldoutSearchCV
from sklearn_bdp.metrics import get_metric
from sklearn_bdp.metrics.approximate import Predictions, approximate_metric

pytestmark = pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.SecondHoldoutWarning")

RNG = np.random.default_rng(0)
N_RECORDS = 500
X = RNG.normal(size=(N_RECORDS, 4))
NUMBERS = X[:, :2] @ [[1.0, 0.5], [0.0, 3.0]] + RNG.normal(size=(N_RECORDS, 2)) * [0.5, 2.0]
LABELS = (X[:, :3] + RNG.normal(size=(N_RECORDS, 3)) > 0.0).astype(int)
LOSSES = ("neg_root_mean_squared_error", "neg_mean_absolute_error")


def matching_share(estimator, X, y):
    """Return the share of records with correct predictions in all outputs."""
    return float(np.all(estimator.predict(X) == y, axis=1).mean())


@pytest.mark.parametrize("scoring", [None, "r2", *LOSSES])
def test_search_of_several_outputs_has_an_interval_and_a_report(scoring):
    search = ReusableHoldoutSearchCV(
        Ridge(), {"alpha": [0.1, 1e4]}, scoring=scoring, cv=3, random_state=0
    ).fit(X, NUMBERS)
    assert search.best_params_["alpha"] == 0.1
    lower, upper = search.best_interval_
    assert lower < search.best_score_ < upper
    row = search.final_report().rows[0]
    assert row.approximate[0] < row.value < row.approximate[1]
    value = get_scorer(scoring or "r2")(search.best_estimator_, X, NUMBERS)
    assert row.value == pytest.approx(value, abs=0.2)


@pytest.mark.parametrize(
    "name", ["r2", *LOSSES, "neg_mean_squared_error", "neg_root_mean_squared_log_error"]
)
def test_score_of_unclipped_outputs_is_that_of_scikit_learn(name):
    y = np.exp(NUMBERS[:200])
    response = y * (1.0 + 0.1 * np.tanh(NUMBERS[200:400]))
    metric = approximate_metric(name, y)
    reference = metric.training_reference(
        Predictions(y, response), unit_codes=None, n_holdout_units=150, n_holdout_records=150
    )
    assert reference.family == "loss"
    score_function = get_scorer(name)._score_func
    sign = -1.0 if name.startswith("neg_") else 1.0
    assert reference.score == pytest.approx(sign * score_function(y, response), rel=1e-9)


def test_spread_of_several_outputs_agrees_with_simulated_holdouts():
    n = 1_000
    rng = np.random.default_rng(1)

    def draw(count):
        prediction = rng.normal(size=(count, 2))
        return prediction + rng.normal(size=(count, 2)) * [0.5, 2.0], prediction

    for name in ("r2", *LOSSES):
        y, response = draw(100_000)
        metric = approximate_metric(name, y)
        reference = metric.training_reference(
            Predictions(y, response), unit_codes=None, n_holdout_units=n, n_holdout_records=n
        )
        values = [
            metric.to_unit(metric.statistic(Predictions(*draw(n)), reference)) for _ in range(300)
        ]
        assert reference.spread.deviation == pytest.approx(np.std(values) * np.sqrt(n), rel=0.15)


@pytest.mark.parametrize("scoring", ["f1_macro", "f1_samples", "roc_auc", "accuracy"])
def test_reports_show_metrics_of_several_labels(scoring):
    search = ReusableHoldoutSearchCV(
        MultiOutputClassifier(LogisticRegression()), {}, scoring=scoring, cv=3, random_state=0
    ).fit(X, LABELS)
    row = search.final_report().rows[0]
    assert row.approximate[0] < row.value < row.approximate[1]


def test_a_rare_label_has_no_interval():
    y = LABELS.copy()
    y[:, 0] = RNG.random(N_RECORDS) < 0.02
    metric = approximate_metric("f1_macro", y)
    reference = metric.training_reference(
        Predictions(y, y), unit_codes=None, n_holdout_units=100, n_holdout_records=100
    )
    assert reference.family == "none"
    assert "a label has fewer" in reference.reason


# -- predictions instead of models -------------------------------------------------------------

HALF = N_RECORDS // 2


def ask(y, y_pred, scoring):
    """Return the answer about predictions of half of the records, the others are for training."""
    holdout = ReusableHoldout.from_targets(y[:HALF], training_targets=y[HALF:], random_state=0)
    return holdout.answer_predictions(
        y_pred[:HALF], scoring=scoring, training_predictions=(y[HALF:], y_pred[HALF:])
    )


@pytest.mark.parametrize("scoring", ["r2", "neg_root_mean_squared_error"])
def test_predictions_of_several_outputs_are_answered(scoring):
    y_pred = NUMBERS + RNG.normal(size=NUMBERS.shape)
    answer = ask(NUMBERS, y_pred, scoring)
    sign = -1.0 if scoring.startswith("neg_") else 1.0
    score = sign * get_scorer(scoring)._score_func(NUMBERS[:HALF], y_pred[:HALF])
    assert answer.interval == "approximate"
    assert answer.lower < score < answer.upper


@pytest.mark.parametrize("scoring", ["f1_macro", "jaccard_samples", "accuracy"])
def test_predicted_labels_are_answered(scoring):
    y_pred = np.where(RNG.random(LABELS.shape) < 0.2, 1 - LABELS, LABELS)
    answer = ask(LABELS, y_pred, scoring)
    score = get_scorer(scoring)._score_func(
        LABELS[:HALF], y_pred[:HALF], **get_scorer(scoring)._kwargs
    )
    assert answer.lower < score < answer.upper


@pytest.mark.parametrize("scoring", ["roc_auc", "average_precision"])
def test_scores_of_labels_are_answered(scoring):
    y_pred = LABELS + RNG.normal(size=LABELS.shape)
    answer = ask(LABELS, y_pred, scoring)
    score = get_scorer(scoring)._score_func(LABELS[:HALF], y_pred[:HALF])
    assert answer.interval == "approximate"
    assert answer.lower < score < answer.upper


@pytest.mark.parametrize(
    ("y_pred", "scoring", "error"),
    [
        (np.zeros((N_RECORDS, 2)), "roc_auc", ValueError),
        (np.zeros(N_RECORDS), "f1_macro", ValueError),
        (np.full((N_RECORDS, 3), np.nan), "roc_auc", ValueError),
        (LABELS + 0.5, "f1_macro", TypeError),
    ],
    ids=["columns", "one output", "not finite", "scores for labels"],
)
def test_predictions_of_another_form_are_rejected(y_pred, scoring, error):
    with pytest.raises(error):
        ask(LABELS, y_pred, scoring)


def test_a_clip_of_one_output_is_found_with_one_declared_range():
    metric = get_metric("neg_mean_absolute_error", bounds=(0.0, 1.0))
    model = Ridge().fit(X, np.zeros((N_RECORDS, 2)))
    y = np.zeros((N_RECORDS, 2))
    y[0, 0] = 5.0
    per_record, _ = metric.training_scores(model, X, y)
    clipping = metric.clipping(model, X, y, per_record)
    assert clipping.n_clipped == 1
    assert clipping.unclipped_sum == pytest.approx(-2.5)
    assert clipping.clipped_sum == pytest.approx(-0.5)


def test_outputs_with_different_numbers_of_classes_are_reported():
    y = np.column_stack([LABELS[:, 0], LABELS[:, 1] + LABELS[:, 2]])
    model = RandomForestClassifier(n_estimators=5, random_state=0).fit(X[:200], y[:200])
    row = ReusableHoldout(X[200:], y[200:]).final_report(model, scoring=matching_share).rows[0]
    assert row.value == np.all(model.predict(X[200:]) == y[200:], axis=1).mean()
