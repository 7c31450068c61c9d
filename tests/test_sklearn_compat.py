"""Pin the private names of scikit-learn that the package uses."""

import inspect

import numpy as np
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import FitFailedWarning
from sklearn.inspection import permutation_importance
from sklearn.metrics import check_scoring
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.svm import SVC

from sklearn_bdp import _sklearn_compat as compat
from tests.facts import refused, warned


def test_the_search_base_class_is_the_base_of_grid_search():
    assert issubclass(GridSearchCV, compat.BaseSearchCV)
    for name in (
        "_format_results",
        "_get_routed_params_for_fit",
        "_select_best_index",
        "_run_search",
    ):
        assert callable(getattr(compat.BaseSearchCV, name))


def test_halving_is_scikit_learns():
    names = ("_check_input_parameters", "_run_search", "_select_best_index")
    assert all(callable(getattr(compat.SuccessiveHalving, name)) for name in names)
    source = inspect.getsource(compat.SuccessiveHalving._run_search)
    assert "self._generate_candidate_params()" in source
    assert "self._n_samples_orig" in source


def test_format_results_takes_what_the_search_gives():
    parameters = list(inspect.signature(compat.BaseSearchCV._format_results).parameters)
    assert parameters[:4] == ["self", "candidate_params", "n_splits", "out"]


def test_helpers_index_as_cross_validation_does():
    X, y = np.arange(12).reshape(6, 2), np.arange(6)
    part, labels = compat.safe_split(SVC(), X, y, np.array([0, 2]))
    np.testing.assert_array_equal(part, X[[0, 2]])
    np.testing.assert_array_equal(labels, [0, 2])
    kernel = X @ X.T
    rows, _ = compat.safe_split(SVC(kernel="precomputed"), kernel, y, [1], [0, 2])
    np.testing.assert_array_equal(rows, kernel[np.ix_([1], [0, 2])])
    params = compat.check_method_params(X, {"sample_weight": y, "flag": True}, indices=[1, 3])
    np.testing.assert_array_equal(params["sample_weight"], [1, 3])
    assert params["flag"] is True
    assert compat.num_samples(X) == 6
    np.testing.assert_array_equal(compat.safe_indexing(X, [1]), X[[1]])


def test_cross_validation_is_recognised_by_the_scorer_it_calls():
    X, y = np.arange(12.0).reshape(6, 2), np.array([0, 1] * 3)
    seen = []

    def scorer(estimator, X, y):
        seen.append(compat.called_by_validation())
        return 0.0

    cross_validate(DummyClassifier(), X, y, scoring=scorer, cv=2)
    cross_validate(DummyClassifier(), X, y, scoring={"one": scorer}, cv=2)
    assert seen == [True] * 4
    scorer(None, X, y)
    check_scoring(DummyClassifier(), scoring={"one": scorer})(DummyClassifier(), X, y)
    permutation_importance(DummyClassifier().fit(X, y), X, y, scoring=scorer, n_repeats=1)
    assert not any(seen[4:])


def test_what_a_scorer_returns_is_looked_at_outside_of_the_try():
    class Refusal:
        @property
        def item(self):
            raise MemoryError("loud")

    X, y = np.arange(12.0).reshape(6, 2), np.array([0, 1] * 3)
    for scoring in (lambda *_: Refusal(), {"one": lambda *_: Refusal()}):
        with refused(MemoryError, "loud"):
            cross_validate(DummyClassifier(), X, y, scoring=scoring, cv=2)


def test_early_stopping_is_recognised_by_the_scorer_it_calls():
    X, y = np.arange(400.0).reshape(200, 2), np.arange(200) % 2
    seen = []

    def scorer(estimator, X_binned, y_binned):
        seen.append(compat.is_being_fitted(estimator))
        return 0.0

    model = HistGradientBoostingClassifier(scoring=scorer, early_stopping=True, max_iter=2)
    assert not compat.is_being_fitted(model.fit(X, y))
    assert all(seen)
    assert seen


def test_fits_of_folds_take_what_the_search_gives():
    known = set(inspect.signature(compat._fit_and_score).parameters)
    assert known >= {"scorer", "train", "test", "parameters", "fit_params", "score_params"}
    assert known >= {"return_train_score", "return_times", "split_progress", "candidate_progress"}
    X, y = np.arange(24.0).reshape(12, 2), np.arange(12) % 2
    rows = {"train": np.arange(8), "test": np.arange(8, 12)}
    options = {"scorer": lambda model, X, y: 0.5, "verbose": 0, "parameters": {"C": 2.0}}
    result = compat.fit_and_score(
        SVC(), X, y, **rows, **options, fit_params={}, score_params={}, caller=None
    )
    assert (result["test_scores"], result["fit_error"]) == (0.5, None)


def test_failed_fits_are_reported_and_get_the_error_score():
    failed = {"fit_error": "why", "test_scores": np.nan}
    good = {"fit_error": None, "test_scores": {"a": 1.0}}
    results = [dict(failed), good]
    compat.insert_error_scores(results, np.nan)
    assert set(results[0]["test_scores"]) == {"a"}
    with warned(FitFailedWarning, 1, 2):
        compat.report_failures(results, np.nan)


def test_fit_runs_in_a_context_that_checks_parameters():
    class Checked(SVC):
        @compat.fit_context(prefer_skip_nested_validation=True)
        def fit(self, X, y):
            return self

    with refused(ValueError, "'C' parameter"):
        Checked(C=-1.0).fit([[0.0]], [0])
