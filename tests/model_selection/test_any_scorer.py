"""Every scorer that scikit-learn accepts chooses candidates (theory G34)."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import (
    load_breast_cancer,
    load_diabetes,
    make_classification,
    make_multilabel_classification,
)
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import (
    fbeta_score,
    get_scorer,
    get_scorer_names,
    make_scorer,
    mean_pinball_loss,
    r2_score,
)
from sklearn.model_selection import GridSearchCV
from sklearn.multioutput import MultiOutputClassifier
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from sklearn_bdp import HoldoutConfig, ReusableHoldoutSearchCV
from sklearn_bdp.correlation import MarkovChain
from sklearn_bdp.exceptions import UnboundedMetricError
from sklearn_bdp.holdout import ExpertSettings
from sklearn_bdp.metrics import get_metric

CLUSTERINGS = {
    "adjusted_mutual_info_score", "adjusted_rand_score", "completeness_score",
    "fowlkes_mallows_score", "homogeneity_score", "mutual_info_score",
    "normalized_mutual_info_score", "rand_score", "v_measure_score",
}  # fmt: skip
REGRESSION = {
    "d2_absolute_error_score", "explained_variance", "neg_max_error", "neg_mean_absolute_error",
    "neg_mean_absolute_percentage_error", "neg_mean_gamma_deviance", "neg_mean_poisson_deviance",
    "neg_mean_squared_error", "neg_mean_squared_log_error", "neg_median_absolute_error",
    "neg_root_mean_squared_error", "neg_root_mean_squared_log_error", "r2",
}  # fmt: skip
MULTICLASS = {
    "roc_auc_ovo", "roc_auc_ovo_weighted", "roc_auc_ovr", "roc_auc_ovr_weighted", "top_k_accuracy"
}  # fmt: skip
MULTILABEL = {name for name in get_scorer_names() if name.endswith("_samples")}
#: Metrics that choose candidates without an interval, each by a rule of theory G34.
WITHOUT_INTERVAL = {
    "d2_log_loss_score", "neg_max_error",
    "neg_negative_likelihood_ratio", "positive_likelihood_ratio", "a function",
} | CLUSTERINGS  # fmt: skip


TEN_QUERIES = ExpertSettings(n_queries=10)


def correct_share(estimator, X, y):
    return float(np.mean(estimator.predict(X) == y))


SCORERS = {name: name for name in get_scorer_names()} | {
    "fbeta": make_scorer(fbeta_score, beta=2),
    "pinball": make_scorer(mean_pinball_loss, greater_is_better=False, alpha=0.9),
    "a function": correct_share,
    "None": None,
}


def problem(name):
    """Return data, an estimator and a grid that fit a scorer."""
    if name in REGRESSION or name == "pinball":
        X, y = load_diabetes(return_X_y=True)
        return X, y, Ridge(), {"alpha": [0.001, 0.1, 1.0]}
    if name in MULTILABEL:
        X, y = make_multilabel_classification(400, n_classes=3, random_state=0)
        grid = {"estimator__C": [0.01, 1.0]}
        return X, y, MultiOutputClassifier(LogisticRegression()), grid
    if name in MULTICLASS:
        X, y = make_classification(600, 8, n_informative=5, n_classes=3, random_state=0)
    else:
        X, y = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    return X, y, LogisticRegression(), {"C": [0.001, 0.01, 1.0]}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", SCORERS)
def test_every_scorer_selects_a_candidate(name):
    X, y, estimator, grid = problem(name)
    scoring = SCORERS[name]
    search = ReusableHoldoutSearchCV(estimator, grid, scoring=scoring, cv=5, random_state=0)
    search.fit(X, y)
    results = pd.DataFrame(search.cv_results_)
    interval_types = set(results["holdout_interval"])
    lower, score, upper = (results[f"holdout_{column}"] for column in ("lower", "score", "upper"))
    assert np.isfinite(score).all()
    assert ((lower <= score) & (score <= upper)).all()
    assert (upper > lower).all()
    assert np.isfinite(search.cv_results_["cv_score"]).all()
    best_index = search.best_index_
    if name in WITHOUT_INTERVAL:
        assert interval_types == {"none"}
        assert "no confidence interval" in str(search.certificate_)
    else:  # a candidate with several times the loss of the best one has none
        assert results["holdout_interval"][best_index] != "none"
        assert np.isfinite(search.best_interval_).any()
    if (results["answered_from"] == "cv").all():  # the holdout confirms all
        train = search.train_indices_
        grid_search = GridSearchCV(estimator, grid, scoring=scoring, cv=5).fit(X[train], y[train])
        scores = grid_search.cv_results_["mean_test_score"]
        np.testing.assert_allclose(scores, results["mean_test_score"], rtol=0.3, atol=0.05)
        assert best_index == grid_search.best_index_


def skewed_problem(name, seed):
    """Return 240 records with skewed targets near 0, or of classes with sure wrong predictions."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(240, 3))
    mean = np.exp(0.5 * X[:, 0] + 0.3 * X[:, 1] * X[:, 2])
    if name in REGRESSION:
        y = mean * rng.gamma(0.6, size=240) + 1e-4
        return X, y, KNeighborsRegressor(), {"n_neighbors": [2, 4, 8, 16, 24, 32]}
    y = (mean * rng.gamma(2.0, size=240) > 3.5).astype(int)
    if name == "neg_log_loss":
        grid = {"min_samples_leaf": [2, 4, 8, 16, 24, 32]}
        return X, y, DecisionTreeClassifier(random_state=0), grid
    return X, y, KNeighborsClassifier(), {"n_neighbors": [2, 4, 8, 16, 24, 32]}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("name", "seed"),
    [
        ("average_precision", 0),
        ("explained_variance", 0),
        ("matthews_corrcoef", 4),
        ("neg_log_loss", 1),
        ("neg_mean_gamma_deviance", 3),
        ("neg_mean_squared_log_error", 0),
        ("neg_median_absolute_error", 0),
        ("neg_root_mean_squared_log_error", 0),
        ("r2", 0),
    ],
)
def test_means_over_folds_choose_where_pooled_or_clipped_scores_would_not(name, seed):
    X, y, estimator, grid = skewed_problem(name, seed)
    search = ReusableHoldoutSearchCV(estimator, grid, scoring=name, cv=5, random_state=seed)
    results = search.fit(X, y).cv_results_
    assert (results["answered_from"] == "cv").all()
    train = search.train_indices_
    grid_search = GridSearchCV(estimator, grid, scoring=name, cv=5).fit(X[train], y[train])
    assert search.best_index_ == grid_search.best_index_
    assert search.best_index_ != np.argmax(results["cv_score"])
    assert search.best_score_ == results["holdout_score"][search.best_index_]
    one_candidate = clone(search).set_params(verify=1).fit(X, y)
    assert one_candidate.best_index_ == grid_search.best_index_


@pytest.mark.filterwarnings("ignore")
def test_an_approximate_interval_is_named_and_states_no_privacy():
    X, y, estimator, grid = problem("f1_macro")
    search = ReusableHoldoutSearchCV(estimator, grid, scoring="f1_macro", random_state=0).fit(X, y)
    text = str(search.certificate_)
    assert "Approximate 95% confidence interval" in text
    assert "approximate intervals" in text.splitlines()[1]
    assert "no level of privacy is stated" in text
    assert np.isinf(search.certificate_.bdp_epsilon)
    assert {record.interval for record in search.holdout_.history()} == {"approximate"}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["f1", "precision", "jaccard"])
def test_ratios_of_two_classes_are_proven_at_a_floor_under_their_denominator(name):
    X, y, estimator, grid = problem(name)
    search = ReusableHoldoutSearchCV(estimator, grid, scoring=name, random_state=0).fit(X, y)
    assert set(search.cv_results_["holdout_interval"]) == {"proven"}
    assert "approximate" not in str(search.certificate_)
    assert np.isfinite(search.certificate_.bdp_epsilon)
    best = search.best_index_
    holdout = search.holdout_
    score = get_scorer(name)(search.best_estimator_, holdout.X, holdout.y)
    lower, upper = (search.cv_results_[f"holdout_{end}"][best] for end in ("lower", "upper"))
    assert 0.0 < lower <= score <= upper <= 1.0
    floors = [answer.shape["class_floors"] for answer in holdout.history()]
    assert len(floors) == 3
    assert all(0 < floor < len(holdout.y) for (floor,) in floors)


@pytest.mark.filterwarnings("ignore")
def test_ratios_of_groups_are_approximate():
    X, y, estimator, grid = problem("f1")
    groups = np.arange(len(y)) // 2
    search = ReusableHoldoutSearchCV(estimator, grid, scoring="f1", correlation="groups")
    search.fit(X, y, groups=groups)
    assert set(search.cv_results_["holdout_interval"]) == {"approximate"}


@pytest.mark.filterwarnings("ignore")
def test_default_of_a_regressor_is_its_own_score():
    X, y, estimator, grid = problem("r2")
    search = ReusableHoldoutSearchCV(estimator, grid, random_state=0).fit(X, y)
    grid_search = GridSearchCV(estimator, grid).fit(
        X[search.train_indices_], y[search.train_indices_]
    )
    np.testing.assert_allclose(
        search.cv_results_["mean_test_score"], grid_search.cv_results_["mean_test_score"], atol=0.05
    )
    report = search.final_report()
    width = search.best_interval_[1] - search.best_interval_[0]
    assert width <= 3.0 * (report.upper - report.lower)


@pytest.mark.parametrize(
    "options",
    [
        {"holdout": HoldoutConfig(epsilon=1.0)},
        {
            "holdout": HoldoutConfig(
                calibration="zhao2017", expert=ExpertSettings(n_queries=10), budget=2
            )
        },
        {"correlation": MarkovChain([[0.9, 0.1], [0.1, 0.9]])},
    ],
    ids=["epsilon", "zhao2017", "chain"],
)
def test_a_level_of_privacy_and_a_declared_strength_need_a_proven_bound(options):
    X, y, estimator, grid = problem("f1")
    with pytest.raises(UnboundedMetricError) as raised:
        ReusableHoldoutSearchCV(estimator, grid, scoring="f1", **options).fit(X, y)
    assert "accuracy" in str(raised.value)


@pytest.mark.filterwarnings("ignore")
def test_the_same_search_with_another_grid_gets_the_recorded_answers(tmp_path):
    X, y, estimator, grid = problem("r2")
    config = HoldoutConfig(ledger=tmp_path / "ledger.sqlite")
    first_search = ReusableHoldoutSearchCV(estimator, grid, holdout=config, random_state=0).fit(
        X, y
    )
    wider_grid = {"alpha": [*grid["alpha"], 100.0]}
    second_search = ReusableHoldoutSearchCV(
        estimator, wider_grid, holdout=config, random_state=0
    ).fit(X, y)
    for column in ("holdout_score", "holdout_lower", "holdout_upper"):
        np.testing.assert_allclose(
            second_search.cv_results_[column][:3], first_search.cv_results_[column], rtol=1e-9
        )
    assert len(second_search.holdout_.history()) == 4


@pytest.mark.filterwarnings("ignore")
def test_r2_of_a_search_is_about_the_training_mean_and_that_of_a_report_about_the_holdout_mean():
    X, y, estimator, grid = problem("r2")
    search = ReusableHoldoutSearchCV(estimator, grid, scoring="r2", random_state=0).fit(X, y)
    training_mean = float(np.mean(y[search.train_indices_]))
    assert f"from the training mean {training_mean:.3g}" in str(search.certificate_)
    rows = search.holdout_indices_
    expected = r2_score(y[rows], search.best_estimator_.predict(X[rows]))
    assert search.final_report().rows[0].value == pytest.approx(expected, rel=1e-12)


@pytest.mark.filterwarnings("ignore")
def test_a_score_that_is_undefined_on_the_holdout_has_the_whole_range():
    X, y = load_breast_cancer(return_X_y=True)
    train = np.arange(400)
    holdout_rows = np.arange(400, 569)

    class FailsLater(LogisticRegression):
        def predict(self, X):
            if len(X) == holdout_rows.size:
                raise RuntimeError(f"{X[0, 0]}")
            return super().predict(X)

    search = ReusableHoldoutSearchCV(FailsLater(max_iter=5000), {"C": [0.1, 1.0]}, scoring="f1")
    search.fit(X[train], y[train], X_val=X[holdout_rows], y_val=y[holdout_rows])
    results = search.cv_results_
    assert (results["holdout_lower"] == 0.0).all()
    assert (results["holdout_upper"] == 1.0).all()


@pytest.mark.filterwarnings("ignore")
def test_regressor_under_a_chain_names_the_range_to_declare():
    X, y, estimator, grid = problem("r2")
    chain = MarkovChain([[0.9, 0.1], [0.1, 0.9]])
    with pytest.raises(UnboundedMetricError) as raised:
        ReusableHoldoutSearchCV(estimator, grid, correlation=chain).fit(X, y)
    assert 'get_metric("neg_mean_absolute_error", bounds=(low, high))' in str(raised.value)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["neg_mean_absolute_error", "neg_mean_squared_error"])
def test_errors_are_proven_with_a_declared_range_only(name):
    X, y, estimator, grid = problem("r2")
    for scoring, interval in ((name, "approximate"), (get_metric(name, bounds=(0, 400)), "proven")):
        search = ReusableHoldoutSearchCV(estimator, grid, scoring=scoring, random_state=0)
        search.fit(X, y)
        assert set(search.cv_results_["holdout_interval"]) == {interval}


@pytest.mark.filterwarnings("ignore")
def test_folds_that_test_their_training_records_give_no_interval():
    X, y, estimator, grid = problem("f1_macro")
    all_rows = np.arange(400)
    search = ReusableHoldoutSearchCV(
        estimator, grid, scoring="f1_macro", cv=[(all_rows, all_rows)], random_state=0
    )
    search.fit(X[:400], y[:400], X_val=X[400:], y_val=y[400:])
    assert set(search.cv_results_["holdout_interval"]) == {"none"}
    assert "fitted on" in str(search.certificate_)
