"""Feature selection by metrics without a proven bound (theory G34)."""

import numpy as np
import pytest
from scipy.stats import binom
from sklearn.datasets import make_classification, make_regression
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import fbeta_score, get_scorer, make_scorer, r2_score
from sklearn.model_selection import RepeatedKFold, ShuffleSplit, train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeRegressor

from sklearn_bdp import HoldoutConfig
from sklearn_bdp.exceptions import UnboundedMetricError
from sklearn_bdp.feature_selection import HoldoutFeatureSelector
from sklearn_bdp.metrics import get_metric
from sklearn_bdp.metrics.approximate import Predictions, approximate_metric


def own_score(estimator, X, y):
    """Return a number of which nothing is known."""
    return float(estimator.score(X, y))


CLASSIFICATION = {
    "f1": "f1",
    "f1_macro": "f1_macro",
    "average_precision": "average_precision",
    "f2": make_scorer(fbeta_score, beta=2, average="macro"),
    "function": own_score,
}
REGRESSION = {
    "default": None,
    "rmse": "neg_root_mean_squared_error",
    "max error": "neg_max_error",
    "function": own_score,
}
WITHOUT_INTERVAL = ("function", "max error")


@pytest.mark.parametrize("name", CLASSIFICATION)
def test_classifier_is_selected_and_verified(name):
    X, y = make_classification(
        900, 12, n_informative=4, n_redundant=0, class_sep=2.0, random_state=0
    )
    selector = HoldoutFeatureSelector(
        LogisticRegression(), scoring=CLASSIFICATION[name], random_state=0
    ).fit(X, y)
    assert selector.confirmed_
    assert_verified(selector, has_interval=name not in WITHOUT_INTERVAL)
    if name == "f1":
        holdout = X[selector.holdout_indices_][:, selector.support_], y[selector.holdout_indices_]
        score = get_scorer("f1")(selector.estimator_, *holdout)
        assert selector.interval_[0] <= score <= selector.interval_[1]


@pytest.mark.parametrize("name", REGRESSION)
def test_regressor_is_selected_and_verified(name):
    X, y = make_regression(900, 12, n_informative=4, noise=20.0, random_state=0)
    selector = HoldoutFeatureSelector(Ridge(), scoring=REGRESSION[name], random_state=0).fit(X, y)
    assert_verified(selector, has_interval=name not in WITHOUT_INTERVAL)


def assert_verified(selector, *, has_interval):
    """Assert the score, interval and report of the subset that a fitted selector chose."""
    path = selector.score_path_
    chosen = np.flatnonzero(path["selected"])[0]
    interval = path["holdout_interval"][chosen]
    assert interval in (("approximate", "proven") if has_interval else ("none",))
    assert np.isfinite(selector.score_)
    assert selector.interval_[0] <= selector.score_ <= selector.interval_[1]
    verified = next(line for line in selector.report().lines if line.startswith("Verified"))
    assert ("without an interval" in verified) == (not has_interval)
    assert selector.certificate_.selected.interval == interval


def test_final_report_of_a_selector_uses_its_metric():
    X, y = make_classification(900, 12, n_informative=4, random_state=0)
    selector = HoldoutFeatureSelector(LogisticRegression(), scoring="f1_macro", random_state=0)
    row = selector.fit(X, y).final_report().rows[0]
    assert row.metric == "f1_macro"
    assert row.lower < row.value < row.upper


def test_chain_rejects_approximate_metrics():
    X, y = make_classification(900, 12, random_state=0)
    selector = HoldoutFeatureSelector(
        LogisticRegression(),
        scoring="f1",
        correlation=np.array([[0.6, 0.4], [0.4, 0.6]]),
        holdout=HoldoutConfig(0.3),
    )
    with pytest.raises(UnboundedMetricError):
        selector.fit(X, y)


@pytest.mark.parametrize(
    "name", ["f1", "f1_macro", "r2", "neg_root_mean_squared_error", "average_precision"]
)
def test_record_values_have_the_mean_and_the_variance_of_the_score(name):
    rng = np.random.default_rng(0)
    n = 400

    def draw():
        if name in ("r2", "neg_root_mean_squared_error"):
            response = rng.normal(size=n)
            return Predictions(response + rng.normal(size=n), response)
        y = rng.integers(0, 2, n)
        signal = 2.0 * y - 1.0 + rng.normal(size=n)
        return Predictions(y, signal if name == "average_precision" else (signal > 0).astype(int))

    predictions = draw()
    metric = approximate_metric(name, predictions.y)
    reference = metric.pooled(predictions)
    values = metric.record_values(predictions, reference)
    assert values.mean() == pytest.approx(metric.to_unit(reference.score))
    scores = [
        metric.to_unit(metric.statistic(sample, reference))
        for sample in (draw() for _ in range(300))
    ]
    assert values.std() / np.sqrt(n) == pytest.approx(np.std(scores), rel=0.25)


@pytest.mark.parametrize(
    "scoring",
    ["r2", "neg_root_mean_squared_error", make_scorer(r2_score, multioutput="variance_weighted")],
    ids=["R2", "RMSE", "weighted outputs"],
)
def test_errors_that_are_nearly_all_zero_are_scored_without_clips(scoring):
    X = np.random.default_rng(0).standard_normal((400, 4))
    y = (X[:, 0] > 0) * 1.0
    selector = HoldoutFeatureSelector(
        DecisionTreeRegressor(random_state=0), scoring=scoring, correlation=None, random_state=0
    )
    assert selector.fit(X, y).get_support(indices=True).tolist() == [0]


def confirmed_on_noise(name, n_repetitions):
    """Return how often a selector confirms features that say nothing."""
    count = 0
    for seed in range(n_repetitions):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(300, 20))
        is_regression = name in ("r2", "function")
        y = rng.normal(size=300) if is_regression else rng.integers(0, 2, 300)
        X, X_val, y, y_val = train_test_split(X, y, test_size=1 / 3, random_state=seed)
        selector = HoldoutFeatureSelector(
            Ridge() if is_regression else LogisticRegression(),
            scoring=own_score if name == "function" else name,
            random_state=seed,
        )
        selector.fit(X, y, X_val=X_val, y_val=y_val)
        count += selector.confirmed_
    return count


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["f1_macro", "average_precision", "r2", "function"])
def test_useless_features_are_seldom_confirmed(name):
    # At a level of 5 % the test passes with probability .999.
    assert confirmed_on_noise(name, 100) <= binom.ppf(0.999, 100, 0.05)


@pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.NothingConfirmedWarning")
@pytest.mark.parametrize(
    ("n_classes", "scoring"),
    [(4, get_metric("top_k_accuracy", k=2)), (12, "f1_macro"), (12, "balanced_accuracy")],
    ids=["top k", "F1 of many classes", "recall of many classes"],
)
def test_useless_features_are_seldom_confirmed_by_hits_in_classes(n_classes, scoring):
    n_confirmed = 0
    for seed in range(6):
        rng = np.random.default_rng(seed)
        y = rng.integers(0, n_classes, 400)
        X = rng.standard_normal((400, 4))
        selector = HoldoutFeatureSelector(GaussianNB(), scoring=scoring, holdout=None, cv=3)
        n_confirmed += selector.fit(X, y).confirmed_
    assert n_confirmed <= 2


def test_top_k_accuracy_confirms_a_feature():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 4, 400)
    X = rng.standard_normal((400, 4))
    X[:, 0] += y
    scoring = get_metric("top_k_accuracy", k=2)
    assert HoldoutFeatureSelector(GaussianNB(), scoring=scoring, holdout=None).fit(X, y).confirmed_


def contrast_of_classes(estimator, X, y):
    """Return 1 for a model of a feature, 0 for a constant: equal differences in all folds."""
    return float(np.std(estimator.predict(X)) > 1e-9)


@pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.NothingConfirmedWarning")
@pytest.mark.parametrize(
    ("scoring", "cv"),
    [(own_score, ShuffleSplit(1, random_state=0)), (contrast_of_classes, 5)],
    ids=["one fold", "equal folds"],
)
def test_folds_without_variation_confirm_nothing(scoring, cv):
    X, y = make_regression(n_samples=300, n_features=3, noise=1.0, random_state=0)
    selector = HoldoutFeatureSelector(Ridge(), scoring=scoring, cv=cv, holdout=None)
    assert not selector.fit(X, y).confirmed_


@pytest.mark.parametrize(
    "cv",
    [2, ShuffleSplit(10, random_state=0), RepeatedKFold(n_splits=3, n_repeats=3, random_state=0)],
    ids=["two folds", "overlapping folds", "repeated folds"],
)
def test_a_function_of_your_own_confirms_strong_features_in_any_folds(cv):
    X, y = make_regression(n_samples=400, n_features=3, n_informative=3, noise=0.01, random_state=0)
    selector = HoldoutFeatureSelector(Ridge(), scoring=own_score, cv=cv, holdout=None)
    assert selector.fit(X, y).confirmed_
