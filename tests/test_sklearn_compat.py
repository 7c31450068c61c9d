"""Pin the private names of scikit-learn that the package uses."""

import inspect

import numpy as np
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC

from sklearn_bdp import _sklearn_compat as compat


def test_the_search_base_class_is_the_base_of_grid_search():
    assert issubclass(GridSearchCV, compat.BaseSearchCV)
    for name in (
        "_format_results",
        "_get_routed_params_for_fit",
        "_select_best_index",
        "_run_search",
    ):
        assert callable(getattr(compat.BaseSearchCV, name))


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
