"""Single models and predictions by metrics without a proven bound (theory G34)."""

import warnings
from functools import partial

import numpy as np
import pytest
from sklearn.datasets import make_classification, make_regression
from sklearn.inspection import permutation_importance
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import (
    f1_score,
    get_scorer,
    jaccard_score,
    make_scorer,
    matthews_corrcoef,
    max_error,
)
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.tree import DecisionTreeRegressor

from sklearn_bdp import HoldoutConfig, HoldoutScorer, ReusableHoldout, ReusableHoldoutSearchCV
from sklearn_bdp.correlation import Groups
from sklearn_bdp.exceptions import SharedRecordsError, UnboundedMetricError
from sklearn_bdp.holdout import ExpertSettings

N_HOLDOUT = 200
#: Metrics with exact limits where records are alike.
EXACT = ("f1", "jaccard")
CLASSIFICATION_METRICS = ["f1", "f1_macro", "matthews_corrcoef", "average_precision", "jaccard"]
REGRESSION_METRICS = [None, "r2", "neg_root_mean_squared_error", "neg_mean_poisson_deviance"]


def classification():
    """Return training records, holdout records and a fitted classifier."""
    X, y = make_classification(1_000, 8, n_informative=4, random_state=0)
    training = X[N_HOLDOUT:], y[N_HOLDOUT:]
    return training, (X[:N_HOLDOUT], y[:N_HOLDOUT]), LogisticRegression().fit(*training)


def regression():
    """Return training records, holdout records and a fitted regressor, with positive values."""
    X, y = make_regression(1_000, 8, noise=20.0, random_state=0)
    y = y - y.min() + 500.0
    training = X[N_HOLDOUT:], y[N_HOLDOUT:]
    return training, (X[:N_HOLDOUT], y[:N_HOLDOUT]), Ridge().fit(*training)


def assert_informative(answer, holdout_score, *, interval="approximate"):
    """Assert that an answer has an interval of a kind around the score on the holdout."""
    assert answer.interval == interval
    assert answer.lower < answer.value < answer.upper
    assert answer.lower <= holdout_score <= answer.upper


@pytest.mark.parametrize("scoring", CLASSIFICATION_METRICS)
def test_score_of_a_classifier_has_an_interval(scoring):
    training, holdout_data, model = classification()
    holdout = ReusableHoldout(*holdout_data, random_state=0)
    answer = holdout.score(model, scoring=scoring, training=training)
    interval = "proven" if scoring in EXACT else "approximate"
    assert_informative(answer, get_scorer(scoring)(model, *holdout_data), interval=interval)
    if scoring != "average_precision":  # which reads the decision function
        score = {
            "f1": f1_score,
            "jaccard": jaccard_score,
            "f1_macro": partial(f1_score, average="macro"),
        }
        score["matthews_corrcoef"] = matthews_corrcoef
        out_of_fold = cross_val_predict(model, *training, cv=5)
        assert answer.cv_score == pytest.approx(score[scoring](training[1], out_of_fold))
    assert holdout.history()[0].metric == scoring


@pytest.mark.parametrize("scoring", REGRESSION_METRICS)
def test_score_of_a_regressor_has_an_approximate_interval(scoring):
    training, holdout_data, model = regression()
    answer = ReusableHoldout(*holdout_data, random_state=0).score(
        model, scoring=scoring, training=training
    )
    assert_informative(answer, get_scorer(scoring or "r2")(model, *holdout_data))


def test_score_of_a_function_has_no_interval():
    training, holdout_data, model = classification()

    def mean_margin(estimator, X, y):
        return float(np.mean(np.abs(estimator.decision_function(X))))

    answer = ReusableHoldout(*holdout_data, random_state=0).score(
        model, scoring=mean_margin, training=training
    )
    assert answer.interval == "none"
    assert np.isfinite(answer.value)
    assert (answer.lower, answer.upper) == (-np.inf, np.inf)


def test_score_needs_training_records_before_any_query():
    _, holdout_data, model = classification()
    holdout = ReusableHoldout(*holdout_data, random_state=0)
    with pytest.raises(UnboundedMetricError):
        holdout.score(model, 0.9, scoring="f1")
    assert len(holdout.history()) == 0


def test_score_after_a_search_uses_the_records_of_the_search():
    (X, y), holdout_data, _ = classification()
    search = ReusableHoldoutSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, random_state=0)
    search.fit(X, y, X_val=holdout_data[0], y_val=holdout_data[1])
    answer = search.holdout_.score(search.best_estimator_, scoring="f1_macro")
    assert_informative(answer, get_scorer("f1_macro")(search.best_estimator_, *holdout_data))


def test_score_rejects_training_records_that_are_holdout_records():
    _, holdout_data, model = classification()
    holdout = ReusableHoldout(*holdout_data, random_state=0)
    with pytest.raises(SharedRecordsError):
        holdout.score(model, scoring="f1", training=holdout_data)
    assert len(holdout.history()) == 0


@pytest.mark.parametrize(
    "training", [(1,), "rows", ([[0.0]], [0, 1]), ([[0.0]], [0], [0], [0])], ids=str
)
def test_score_rejects_malformed_training_records(training):
    _, holdout_data, model = classification()
    with pytest.raises((TypeError, ValueError)):
        ReusableHoldout(*holdout_data, random_state=0).score(model, scoring="f1", training=training)


def test_score_by_a_proven_metric_needs_a_training_value():
    training, holdout_data, model = classification()
    holdout = ReusableHoldout(*holdout_data, random_state=0)
    with pytest.raises(TypeError):
        holdout.score(model, scoring="accuracy", training=training)
    assert len(holdout.history()) == 0


@pytest.mark.parametrize(
    "parameters",
    [{"correlation": np.array([[0.9, 0.1], [0.1, 0.9]])}, {"epsilon": 1.0}],
    ids=["chain", "epsilon"],
)
@pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.UninformativeIntervalWarning")
def test_settings_that_need_a_proof_reject_approximate_metrics(parameters):
    training, holdout_data, model = classification()
    holdout = ReusableHoldout(*holdout_data, random_state=0, **parameters)
    with pytest.raises(UnboundedMetricError):
        holdout.score(model, scoring="f1", training=training)
    assert len(holdout.history()) == 0


def test_groups_of_the_training_records_give_the_interval():
    (X, y), holdout_data, model = classification()
    groups = Groups(np.repeat(np.arange(50), 4))
    holdout = ReusableHoldout(*holdout_data, correlation=groups, random_state=0)
    answer_without_groups = holdout.score(model, scoring="f1", training=(X, y))
    assert answer_without_groups.interval == "none"
    training_groups = np.repeat(np.arange(200), 4)
    answer = holdout.score(model, scoring="f1", training=(X, y, training_groups))
    assert answer.interval == "approximate"


@pytest.mark.parametrize("scoring", ["f1", "f1_macro", "average_precision"])
def test_predictions_have_an_interval(scoring):
    (X, y), holdout_data, model = classification()
    holdout = ReusableHoldout(*holdout_data, random_state=0)
    method = "predict_proba" if scoring == "average_precision" else "predict"
    predicted = getattr(model, method)(holdout_data[0])
    out_of_fold = cross_val_predict(LogisticRegression(), X, y, method=method)
    answer = holdout.answer_predictions(
        predicted, scoring=scoring, training_predictions=(y, out_of_fold)
    )
    interval = "proven" if scoring in EXACT else "approximate"
    assert_informative(answer, get_scorer(scoring)(model, *holdout_data), interval=interval)
    repeated = holdout.answer_predictions(
        predicted, scoring=scoring, training_predictions=(y, out_of_fold)
    )
    assert repeated.value == answer.value
    assert len(holdout.history()) == 1


def test_predictions_without_training_predictions_are_rejected():
    _, holdout_data, model = classification()
    holdout = ReusableHoldout(*holdout_data, random_state=0)
    with pytest.raises(UnboundedMetricError):
        holdout.answer_predictions(model.predict(holdout_data[0]), scoring="f1")
    with pytest.raises(ValueError):  # noqa: PT011
        holdout.answer_predictions(
            model.predict(holdout_data[0]), scoring="f1", training_predictions=([0, 1], [0])
        )
    assert len(holdout.history()) == 0


@pytest.mark.parametrize("scoring", ["r2", "neg_root_mean_squared_error"])
def test_predictions_of_fitted_records_do_not_confirm_the_score_on_them(scoring):
    (X, y), holdout_data, _ = regression()
    noise = np.random.default_rng(0).normal(scale=150.0, size=1_000)
    y = y + noise[N_HOLDOUT:]
    y_holdout = holdout_data[1] + noise[:N_HOLDOUT]
    model = DecisionTreeRegressor(min_samples_leaf=2, random_state=0).fit(X, y)
    scorer = get_scorer(scoring)
    on_fitted = scorer(model, X, y)
    on_holdout = scorer(model, holdout_data[0], y_holdout)
    holdout = ReusableHoldout.from_targets(y_holdout, training_targets=y, random_state=0)
    answer = holdout.answer_predictions(
        model.predict(holdout_data[0]), scoring=scoring, training_predictions=(y, model.predict(X))
    )
    assert answer.lower <= on_holdout <= answer.upper
    assert abs(answer.value - on_holdout) < abs(answer.value - on_fitted)


@pytest.mark.parametrize(
    ("scoring", "level"),
    [
        ("f1_macro", 1e-4),
        ("r2", 1e-4),
        ("neg_mean_absolute_error", 1e-3),
        ("average_precision", 1e-3),
    ],
)
def test_certificate_states_the_level_down_to_which_limits_were_simulated(scoring, level):
    is_regression = scoring in ("r2", "neg_mean_absolute_error")
    training, _, _ = regression() if is_regression else classification()
    model = Ridge() if is_regression else LogisticRegression()
    config = HoldoutConfig(0.3, confidence_level=0.9999)
    search = ReusableHoldoutSearchCV(model, {}, scoring=scoring, holdout=config, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        search.fit(*training)
    assert f"down to {level:g}" in str(search.certificate_)


def test_scorer_cross_validates_a_model_that_is_scored_by_itself():
    training, holdout_data, model = classification()
    scorer = HoldoutScorer(ReusableHoldout(*holdout_data, random_state=0), "f1_macro")
    value = scorer(model, *training)
    assert value == scorer.last_answer_.value
    assert_informative(scorer.last_answer_, get_scorer("f1_macro")(model, *holdout_data))


@pytest.mark.parametrize(
    ("scoring", "cv", "interval"),
    [("f1_macro", 4, "approximate"), ("f1_macro", 5, "none"), ("f1", 5, "proven")],
)
def test_scorer_in_cross_validation_needs_folds_as_large_as_the_holdout(scoring, cv, interval):
    (X, y), holdout_data, _ = classification()  # folds of 200 and of 160 records
    scorer = HoldoutScorer(ReusableHoldout(*holdout_data, random_state=0), scoring)
    scores = cross_val_score(LogisticRegression(), X, y, cv=cv, scoring=scorer)
    assert np.isfinite(scores).all()
    assert {answer.interval for answer in scorer.holdout.history()} == {interval}


@pytest.mark.parametrize("scoring", ["r2", None, make_scorer(max_error, greater_is_better=False)])
def test_scorer_chooses_in_grid_search(scoring):
    (X, y), holdout_data, _ = regression()
    scorer = HoldoutScorer(ReusableHoldout(*holdout_data, random_state=0), scoring)
    search = GridSearchCV(Ridge(), {"alpha": [0.1, 1e5]}, scoring=scorer, cv=3).fit(X, y)
    assert search.best_params_["alpha"] == 0.1


def test_scorer_in_permutation_importance_has_no_interval_for_shuffled_columns():
    training, holdout_data, model = classification()
    holdout = ReusableHoldout(*holdout_data, random_state=0)
    result = permutation_importance(
        model, *training, scoring=HoldoutScorer(holdout, "f1_macro"), n_repeats=1, random_state=0
    )
    assert np.isfinite(result.importances_mean).all()
    assert [answer.interval for answer in holdout.history()][:2] == ["approximate", "none"]


@pytest.mark.parametrize(
    "parameters",
    [
        {"epsilon": 1.0},
        {"calibration": "zhao2017", "budget": 3, "expert": ExpertSettings(n_queries=10)},
    ],
    ids=["epsilon", "zhao2017"],
)
@pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.UninformativeIntervalWarning")
def test_scorer_rejects_approximate_metrics_if_a_proof_is_needed(parameters):
    training, holdout_data, model = classification()
    config = HoldoutConfig(**parameters)
    holdout = ReusableHoldout.from_config(config, *holdout_data, random_state=0)
    with pytest.raises(UnboundedMetricError):
        HoldoutScorer(holdout, "f1")(model, *training)
    assert len(holdout.history()) == 0
