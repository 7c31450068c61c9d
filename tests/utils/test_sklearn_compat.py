"""Pin the package's assumptions about scikit-learn's private names."""

import inspect

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import FitFailedWarning
from sklearn.metrics import make_scorer, roc_auc_score
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.model_selection import _search as searches
from sklearn.model_selection import _search_successive_halving as halving
from sklearn.model_selection import _validation as validation
from sklearn.svm import SVC
from sklearn.utils import metaestimators
from sklearn.utils import validation as checks

from tests.facts import refused, warned


def test_the_search_base_class_is_the_base_of_grid_search():
    base = searches.BaseSearchCV
    assert issubclass(GridSearchCV, base)
    for name in ("_get_routed_params_for_fit", "_select_best_index", "_run_search"):
        assert callable(getattr(base, name))
    parameters = list(inspect.signature(base._format_results).parameters)
    assert parameters[:4] == ["self", "candidate_params", "n_splits", "out"]


def test_halving_uses_the_attributes_that_the_search_sets():
    names = ("_check_input_parameters", "_run_search", "_select_best_index")
    assert all(callable(getattr(halving.BaseSuccessiveHalving, name)) for name in names)
    source = inspect.getsource(halving.BaseSuccessiveHalving._run_search)
    assert "self._generate_candidate_params()" in source
    assert "self._n_samples_orig" in source


def test_helpers_index_as_cross_validation_does():
    X = np.arange(12).reshape(6, 2)
    y = np.arange(6)
    X_part, y_part = metaestimators._safe_split(SVC(), X, y, np.array([0, 2]))
    np.testing.assert_array_equal(X_part, X[[0, 2]])
    np.testing.assert_array_equal(y_part, [0, 2])
    kernel = X @ X.T
    rows, _ = metaestimators._safe_split(SVC(kernel="precomputed"), kernel, y, [1], [0, 2])
    np.testing.assert_array_equal(rows, kernel[np.ix_([1], [0, 2])])
    params = checks._check_method_params(X, {"sample_weight": y, "flag": True}, indices=[1, 3])
    np.testing.assert_array_equal(params["sample_weight"], [1, 3])
    assert params["flag"] is True


def test_scorers_are_called_by_the_function_that_the_package_looks_for():
    X = np.arange(12.0).reshape(6, 2)
    y = np.array([0, 1] * 3)
    callers = []

    def scorer(estimator, X, y):
        frames = [inspect.currentframe().f_back]
        frames.append(frames[0].f_back)  # a scorer of scikit-learn computes several metrics
        callers.append([(frame.f_globals["__name__"], frame.f_code.co_name) for frame in frames])
        return 0.0

    for scoring in (scorer, {"one": scorer}):
        cross_validate(SVC(), X, y, scoring=scoring, cv=2)
    expected_caller = (validation.__name__, "_score")
    assert [frame_names[0] == expected_caller for frame_names in callers] == [
        True,
        True,
        False,
        False,
    ]
    assert all(frame_names[0][0] == "sklearn.metrics._scorer" for frame_names in callers[2:])
    assert all(frame_names[1] == expected_caller for frame_names in callers[2:])


def test_the_result_of_a_scorer_is_read_outside_of_the_try_block():
    class Refusal:
        @property
        def item(self):
            raise MemoryError("loud")

    X = np.arange(12.0).reshape(6, 2)
    y = np.array([0, 1] * 3)
    for scoring in (lambda *_: Refusal(), {"one": lambda *_: Refusal()}):
        with refused(MemoryError, "loud"):
            cross_validate(SVC(), X, y, scoring=scoring, cv=2)


def test_early_stopping_marks_the_model_that_is_being_fitted():
    X = np.arange(400.0).reshape(200, 2)
    y = np.arange(200) % 2
    in_fit_flags = []

    def scorer(estimator, X_binned, y_binned):
        in_fit_flags.append(estimator._in_fit)
        return 0.0

    model = HistGradientBoostingClassifier(scoring=scorer, early_stopping=True, max_iter=2)
    assert not getattr(model.fit(X, y), "_in_fit", False)
    assert in_fit_flags
    assert all(in_fit_flags)


def test_fits_of_folds_take_the_arguments_of_the_search():
    parameters = set(inspect.signature(validation._fit_and_score).parameters)
    assert parameters >= {"scorer", "train", "test", "parameters", "fit_params", "score_params"}
    assert parameters >= {
        "return_train_score",
        "return_times",
        "split_progress",
        "candidate_progress",
    }


def test_failed_fits_are_reported_and_get_the_error_score():
    results = [
        {"fit_error": "why", "test_scores": np.nan},
        {"fit_error": None, "test_scores": {"a": 1.0}},
    ]
    validation._insert_error_scores(results, np.nan)
    assert set(results[0]["test_scores"]) == {"a"}
    with warned(FitFailedWarning, 1, 2):
        validation._warn_or_raise_about_fit_failures(results, np.nan)


def test_scorers_hold_the_function_that_they_were_made_of():
    scorer = make_scorer(roc_auc_score, response_method="predict_proba", max_fpr=0.1)
    assert scorer._score_func is roc_auc_score
    assert scorer._sign == 1
    assert scorer._kwargs == {"max_fpr": 0.1}
    assert scorer._response_method == "predict_proba"
    assert not hasattr(scorer, "_metadata_request")
