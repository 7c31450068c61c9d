"""Several metrics: the one that ranks stays sharp, the others are verified beside it."""

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score, roc_auc_score
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from sklearn_bdp import HoldoutConfig, ReusableHoldout, ReusableHoldoutSearchCV
from sklearn_bdp.correlation import MarkovChain
from sklearn_bdp.holdout import ExpertSettings
from sklearn_bdp.model_selection import HalvingReusableHoldoutSearchCV
from tests.facts import refused, warned

# Several holdouts of the same records, each for a test of its own.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.SecondHoldoutWarning")

GRID = {"C": [0.001, 0.01, 0.1, 1.0, 10.0]}
ALL = ["accuracy", "roc_auc", "balanced_accuracy", "neg_brier_score"]
COLUMNS = ("holdout_score", "holdout_lower", "holdout_upper", "answered_from")


@pytest.fixture(scope="module")
def data():
    return make_classification(800, 6, n_informative=3, flip_y=0.2, random_state=0)


def search(scoring=ALL, refit="accuracy", estimator=None, grid=GRID, **params):
    estimator = LogisticRegression() if estimator is None else estimator
    params = {"cv": 2, "random_state": 0, **params}
    return ReusableHoldoutSearchCV(estimator, grid, scoring=scoring, refit=refit, **params)


def half_width(fitted, name=""):
    results = fitted.cv_results_
    return (results[f"holdout_upper{name}"] - results[f"holdout_lower{name}"]) / 2


@pytest.mark.parametrize("refit", ["accuracy", "roc_auc", False, "best_lower", lambda results: 2])
def test_every_metric_is_verified(data, refit):
    fitted = search(refit=refit).fit(*data)
    results = fitted.cv_results_
    for name in ALL:
        score, lower, upper, source = (results[f"{column}_{name}"] for column in COLUMNS)
        assert (lower <= score).all()
        assert (score <= upper).all()
        assert set(source) <= {"cv", "holdout"}
        assert (np.abs(score - results[f"mean_test_{name}"]) < 0.2).all()
    ranks = refit if refit == "roc_auc" else "accuracy"
    for column in COLUMNS:
        np.testing.assert_array_equal(results[column], results[f"{column}_{ranks}"])
    assert len(fitted.holdout_.history()) == len(ALL) * len(GRID["C"])


@pytest.mark.slow
def test_intervals_of_all_metrics_hold_fresh_scores():
    """All intervals of all metrics in ten searches cover at the confidence level of 0.95."""
    X, y = make_classification(20_600, 6, n_informative=3, flip_y=0.2, random_state=0)
    new_rows = slice(600, None)
    n_missed = 0
    for seed in range(10):
        rows = np.random.default_rng(seed).choice(600, 600, replace=True)
        rows = np.unique(rows)
        fitted = search(random_state=seed).fit(X[rows], y[rows])
        results = fitted.cv_results_
        model = fitted.best_estimator_
        scores = {
            "accuracy": model.score(X[new_rows], y[new_rows]),
            "balanced_accuracy": balanced_accuracy_score(y[new_rows], model.predict(X[new_rows])),
            "roc_auc": roc_auc_score(y[new_rows], model.decision_function(X[new_rows])),
        }
        best = fitted.best_index_
        n_missed += not all(
            results[f"holdout_lower_{name}"][best]
            <= score
            <= results[f"holdout_upper_{name}"][best]
            for name, score in scores.items()
        )
    assert n_missed <= 1


@pytest.mark.parametrize("repeats", [1, pytest.param(4, marks=pytest.mark.slow)])
def test_the_metric_that_ranks_keeps_its_width(data, repeats):
    """Three further metrics widen the interval of the selected candidate by a few percent."""
    widths = {}
    for name, scoring in (("alone", "accuracy"), ("beside", ALL)):
        refit = True if name == "alone" else "accuracy"
        holdout = ReusableHoldout(data[0][600:], data[1][600:], random_state=0, spending="even")
        X = data[0][:600]
        y = data[1][:600]
        for repeat in range(repeats):
            grid = {"C": np.logspace(-3, 1 + 0.1 * repeat, 8)}
            fitted = search(scoring, refit, holdout=holdout, grid=grid, random_state=None)
            fitted.fit(X, y)
        low, high = fitted.best_interval_
        widths[name] = high - low
    assert widths["alone"] <= widths["beside"] <= 1.05 * widths["alone"]


def test_the_same_search_again_is_free(data, tmp_path):
    path = tmp_path / "ledger.sqlite"
    first_search = search(holdout=HoldoutConfig(ledger=path)).fit(*data)
    n_answers = len(first_search.holdout_.history())
    second_search = search(holdout=HoldoutConfig(ledger=path)).fit(*data)
    assert len(second_search.holdout_.history()) == n_answers
    for name in ALL:
        for column in COLUMNS:
            np.testing.assert_array_equal(
                first_search.cv_results_[f"{column}_{name}"],
                second_search.cv_results_[f"{column}_{name}"],
            )


def test_a_secondary_metric_gets_narrower_intervals_when_it_ranks(data):
    X = data[0][:600]
    y = data[1][:600]
    n_candidates = 5
    holdout_data = data[0][600:], data[1][600:]
    holdout = ReusableHoldout(*holdout_data, spending="even", random_state=0)
    options = {"holdout": holdout, "random_state": None}
    search_of_all_metrics = search(**options).fit(X, y)
    search_of_one_metric = search("roc_auc", True, **options).fit(X, y)
    assert len(holdout.history()) == len(ALL) * n_candidates + n_candidates
    assert (
        half_width(search_of_one_metric).min()
        < 0.7 * half_width(search_of_all_metrics, "_roc_auc").min()
    )
    # Answers recorded for a single metric are free when it ranks among several.
    search(["roc_auc", "accuracy"], "roc_auc", **options).fit(X, y)
    assert len(holdout.history()) == len(ALL) * n_candidates + n_candidates + n_candidates


def test_metrics_without_a_proven_bound_are_verified_beside_others(data):
    results = search(["accuracy", "f1_macro", "roc_auc"]).fit(*data).cv_results_
    assert np.isfinite(results["holdout_score_f1_macro"]).all()
    assert np.isfinite(results["holdout_score_roc_auc"]).all()
    assert set(results["holdout_interval_roc_auc"]) == {"proven"}
    assert set(results["holdout_interval_f1_macro"]) == {"approximate"}


@pytest.mark.parametrize(
    ("scoring", "fact"), [(["accuracy", "typo"], "typo"), ({"accuracy": "accuracy", "b": 3}, 3)]
)
def test_an_unknown_metric_is_rejected_before_any_fit(data, scoring, fact):
    class NeverFits(DecisionTreeClassifier):
        def fit(self, X, y=None, **params):
            raise AssertionError("a fit was started")

    with refused((ValueError, TypeError), fact):
        search(scoring, estimator=NeverFits(), grid={"max_depth": [1]}).fit(*data)


# some metrics have no bound
@pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.UnverifiedWarning")
def test_under_a_chain_only_means_are_verified(data):
    chain = MarkovChain([[0.7, 0.3], [0.4, 0.6]])
    fitted = search(correlation=chain).fit(*data)
    results = fitted.cv_results_
    for name in ("roc_auc", "balanced_accuracy"):
        assert (results[f"answered_from_{name}"] == "unverified").all()
    assert np.isfinite(results["holdout_score_neg_brier_score"]).all()


# few records or groups are quick
@pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.UninformativeIntervalWarning")
def test_a_level_of_privacy_covers_every_metric(data):
    fitted = search(holdout=HoldoutConfig(epsilon=5.0)).fit(*data)
    assert np.isfinite(fitted.cv_results_["holdout_score_roc_auc"]).any()


@pytest.mark.parametrize("on_exhausted", ["raise", "nan"])
def test_the_budget_goes_to_the_metric_that_ranks(data, on_exhausted):
    """If a declared budget ends among the further metrics, the search still completes."""
    grid = {"max_depth": [1, 2, 3, 4, 6, 8, 12]}
    tree = DecisionTreeClassifier(random_state=0)
    config = HoldoutConfig(
        expert=ExpertSettings(threshold=0.001), budget=7, on_exhausted=on_exhausted
    )
    fitted = search(estimator=tree, grid=grid, holdout=config).fit(*data)
    results = fitted.cv_results_
    assert fitted.holdout_.remaining_budget == 0
    assert set(results["answered_from"]) <= {"cv", "holdout"}
    answers_of_other_metrics = np.concatenate(
        [results[f"answered_from_{name}"] for name in ALL[1:]]
    )
    assert (answers_of_other_metrics == "unanswered").any()


def test_a_metric_of_probabilities_is_unanswered_for_models_without_them(data):
    """Without probabilities the Brier score is unanswered; the other metrics are verified."""
    with warned(UserWarning, "non-finite"):
        fitted = search(estimator=LinearSVC()).fit(*data)
    results = fitted.cv_results_
    assert (results["answered_from_neg_brier_score"] == "unanswered").all()
    assert np.isnan(results["holdout_score_neg_brier_score"]).all()
    assert np.isfinite(results["holdout_score_roc_auc"]).all()


def test_halving_verifies_every_metric_of_the_last_rung(data):
    halving = HalvingReusableHoldoutSearchCV(
        LogisticRegression(), GRID, scoring=ALL, refit="roc_auc", cv=3, random_state=0
    ).fit(*data)
    results = halving.cv_results_
    last = results["iter"] == results["iter"].max()
    for name in ALL:
        np.testing.assert_array_equal(np.isfinite(results[f"holdout_score_{name}"]), last)


def test_a_preview_counts_every_metric(data):
    fitted = search().fit(*data)
    assert fitted.preview().n_queries == len(ALL) * len(GRID["C"])
