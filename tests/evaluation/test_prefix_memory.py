"""Transformers that candidates share: applied once, with results equal to the last bit."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from sklearn_bdp import ReusableHoldoutSearchCV
from sklearn_bdp.evaluation import Candidate, FitTask, HoldoutFitJob, PrefixMemory, SearchSetup
from sklearn_bdp.feature_selection import HoldoutFeatureSelector
from sklearn_bdp.metrics import PerRecordScore, get_metric


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = np.asfortranarray(rng.standard_normal((300, 6)))
    return X, (X[:, 0] + rng.standard_normal(300) > 0).astype(int)


class Scaling(TransformerMixin, BaseEstimator):
    """Code of the user."""

    def __init__(self, factor=1.0):
        self.factor = factor

    def fit(self, X, y=None):
        self.mean_ = X.mean(axis=0)
        return self

    def transform(self, X):
        return (X - self.mean_) * self.factor


class CountsCalls(Scaling):
    """Notes how many records it is given to transform, call by call."""

    calls = []

    def transform(self, X):
        type(self).calls.append(len(X))
        return super().transform(X)


class FailsOnLargeValues(Scaling):
    """Fails on some records."""

    def transform(self, X):
        if (X[:, 0] > 1.5).any():
            raise ValueError("too large")
        return super().transform(X)


class Squares(TransformerMixin, BaseEstimator):
    """Learns nothing, so that scikit-learn cannot detect that it is fitted."""

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return np.c_[X, X**2]


def make_setup(data, first_step, metric):
    X, y = data
    pipeline = make_pipeline(first_step, PCA(random_state=0), LogisticRegression())
    metric = get_metric(metric, estimator=pipeline, y=y[:200])
    return SearchSetup(
        estimator=pipeline, X=X[:200], y=y[:200], X_holdout=X[200:], y_holdout=y[200:],
        metric=metric, fit_params={},
    )  # fmt: skip


def fit_results(setup, memory):
    grid = [{"logisticregression__C": C} for C in (0.01, 1.0, 100.0)]
    tasks = [
        FitTask(row, Candidate(params), needs_model_key=True) for row, params in enumerate(grid)
    ]
    return [HoldoutFitJob(setup).run(task, memory) for task in tasks]


def test_candidates_that_share_a_step_transform_test_records_once(data):
    pipeline = make_pipeline(CountsCalls(), LogisticRegression())
    grid = {"logisticregression__C": [0.01, 0.1, 1.0, 10.0]}
    CountsCalls.calls.clear()
    ReusableHoldoutSearchCV(pipeline, grid, cv=3).fit(
        data[0][:200], data[1][:200], X_val=data[0][200:], y_val=data[1][200:]
    )
    n_calls = len(CountsCalls.calls)
    assert CountsCalls.calls.count(100) == 1  # the holdout
    CountsCalls.calls.clear()
    GridSearchCV(pipeline, grid, cv=3).fit(data[0][:200], data[1][:200])
    # Folds: fitted and tested; whole: asked too; two small batches: does it look at other rows?
    assert n_calls == 3 * 2 + 3 + 2 < len(CountsCalls.calls)


@pytest.mark.parametrize("metric", ["accuracy", "neg_brier_score", "neg_log_loss", "roc_auc"])
@pytest.mark.parametrize("first_step", [Scaling(2.0), StandardScaler(copy=False)])
def test_shared_records_give_the_same_scores_and_keys(data, metric, first_step):
    setup = make_setup(data, first_step, metric)
    X_holdout = setup.X_holdout.copy()
    shared_results = fit_results(setup, PrefixMemory())
    separate_results = fit_results(setup, None)
    for shared_result, separate_result in zip(shared_results, separate_results, strict=True):
        assert shared_result.evaluation.value == separate_result.evaluation.value
        np.testing.assert_array_equal(
            shared_result.evaluation.per_record, separate_result.evaluation.per_record
        )
        assert shared_result.key == separate_result.key is not None
    np.testing.assert_array_equal(setup.X_holdout, X_holdout)


def test_records_on_which_a_shared_step_fails_get_the_lowest_score(data):
    setup = make_setup(data, FailsOnLargeValues(), "neg_brier_score")
    setup.X[:, 0] = np.minimum(setup.X[:, 0], 1.5)
    is_failing = setup.X_holdout[:, 0] > 1.5
    for memory in (PrefixMemory(), None):
        for fit_result in fit_results(setup, memory):
            np.testing.assert_array_equal(fit_result.evaluation.per_record == 0.0, is_failing)


def test_a_user_function_is_called_with_the_whole_pipeline(data):
    estimator_types = []

    def record_score(estimator, X, y):
        estimator_types.append(type(estimator))
        return (estimator.predict(X) == y).astype(float)

    fit_results(make_setup(data, CountsCalls(), PerRecordScore(record_score)), PrefixMemory())
    search = ReusableHoldoutSearchCV(
        make_pipeline(CountsCalls(), LogisticRegression()),
        {"logisticregression__C": [0.1, 1.0]},
        scoring=PerRecordScore(record_score),
        random_state=0,
    )
    search.fit(*data)
    assert set(estimator_types) == {Pipeline}


def test_training_scores_do_not_come_from_test_records(data):
    pipeline = make_pipeline(StandardScaler(), LogisticRegression())
    grid = {"logisticregression__C": [0.01, 1.0]}
    search = ReusableHoldoutSearchCV(
        pipeline, grid, cv=2, scoring="accuracy", return_train_score=True
    )
    results = search.fit(
        data[0][:200], data[1][:200], X_val=data[0][200:], y_val=data[1][200:]
    ).cv_results_
    grid_search = GridSearchCV(pipeline, grid, cv=2, return_train_score=True)
    expected = grid_search.fit(data[0][:200], data[1][:200]).cv_results_
    for name in ("mean_train_score", "mean_test_score"):
        np.testing.assert_array_equal(results[name], expected[name])


@pytest.mark.parametrize(
    ("convert", "bound"), [(np.asarray, 4000), (pd.DataFrame, 4000), (sparse.csr_array, 6500)]
)
def test_the_memory_keeps_the_records_used_last(convert, bound):
    memory = PrefixMemory(bound)
    records = convert(np.ones((50, 4)))
    computed_names = []
    for name in "aabacabab":
        memory.get_or_compute(name, lambda name=name: (records, computed_names.append(name)))
    assert computed_names == ["a", "b", "c", "b"]  # c took the place of b, which was used before a


def test_the_bound_holds_for_transformed_records_of_every_kind(data):
    setup = make_setup(data, CountsCalls(), "accuracy")
    counts = []
    n_bytes = setup.X_holdout.nbytes
    for memory in (
        None,
        PrefixMemory(n_bytes - 1),
        PrefixMemory(n_bytes),
        PrefixMemory(100 * n_bytes),
    ):
        CountsCalls.calls.clear()
        fit_results(setup, memory)
        counts.append([CountsCalls.calls.count(n_records) for n_records in (200, 100)])
    assert counts == [[12, 3], [12, 3], [12, 1], [2, 1]]


@pytest.mark.parametrize("has_shared_steps", [True, False])
# each round makes its holdout anew
@pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.SecondHoldoutWarning")
def test_a_step_that_works_in_place_leaves_the_records_to_the_next_candidate(has_shared_steps):
    rng = np.random.default_rng(0)
    X = 5.0 + 10.0 * rng.standard_normal((300, 4))
    y = (X[:, 0] > 5.0).astype(int)
    grid = {"standardscaler__with_mean": [True, False], "svc__C": [1.0, 10.0]}

    def results(copy):
        pipeline = make_pipeline(
            StandardScaler(copy=copy), SVC(), memory=None if has_shared_steps else ForgetfulMemory()
        )
        search = ReusableHoldoutSearchCV(pipeline, grid, cv=3, random_state=0).fit(X, y)
        return search.cv_results_["mean_test_score"], search.cv_results_["holdout_score"]

    np.testing.assert_array_equal(results(copy=False), results(copy=True))
    np.testing.assert_array_equal(y, X[:, 0] > 5.0)


class ForgetfulMemory:
    """A memory of the user's, which remembers nothing."""

    def cache(self, function, ignore=None):
        return function


@pytest.mark.parametrize("steps", [(Squares(),), (Squares(), "passthrough"), (None, Squares())])
def test_a_step_that_learns_nothing_is_shared_as_any_other(data, steps):
    X, y = data
    pipeline = Pipeline([*((f"step{i}", step) for i, step in enumerate(steps)), ("last", SVC())])
    search = ReusableHoldoutSearchCV(pipeline, {"last__C": [0.1, 1.0]}, random_state=0).fit(X, y)
    train = search.train_indices_
    grid_search = GridSearchCV(pipeline, {"last__C": [0.1, 1.0]}).fit(X[train], y[train])
    for name in ("mean_test_score", "std_test_score"):
        np.testing.assert_array_equal(search.cv_results_[name], grid_search.cv_results_[name])
    assert np.isfinite(search.cv_results_["holdout_score"]).all()


@pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.SecondHoldoutWarning")
@pytest.mark.parametrize("scoring", ["f1", "average_precision", "matthews_corrcoef"])
def test_scorers_without_a_bound_give_the_scores_of_grid_search(data, scoring):
    X, y = data
    steps = make_pipeline(StandardScaler(), LogisticRegression())
    grid = {"logisticregression__C": [0.1, 1.0]}
    search = ReusableHoldoutSearchCV(steps, grid, scoring=scoring, random_state=0).fit(X, y)
    train = search.train_indices_
    grid_search = GridSearchCV(steps, grid, scoring=scoring).fit(
        np.asarray(X)[train], np.asarray(y)[train]
    )
    for name in ("mean_test_score", "std_test_score"):
        np.testing.assert_allclose(search.cv_results_[name], grid_search.cv_results_[name])


def test_subsets_of_equal_size_do_not_share_steps():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 4))
    y = (X[:, 0] + X[:, 1] > 0).astype(int)
    setup = SearchSetup(
        make_pipeline(StandardScaler(), LogisticRegression()),
        X=X[:600],
        y=y[:600],
        X_holdout=X[600:],
        y_holdout=y[600:],
        metric=get_metric("accuracy"),
        fit_params={},
    )
    job = HoldoutFitJob(setup)
    memory = PrefixMemory()
    for columns, is_informative in (((0, 1), True), ((2, 3), False), ((1, 0), True)):
        result = job.run(FitTask(0, Candidate(columns=columns)), memory)
        expected = make_pipeline(StandardScaler(), LogisticRegression()).fit(
            X[:600, columns], y[:600]
        )
        accuracy = expected.score(X[600:, columns], y[600:])
        assert result.evaluation.value == pytest.approx(accuracy)
        assert (accuracy > 0.9) == is_informative


def test_a_selector_of_pipelines_verifies_several_subsets(data):
    X, y = data
    pipeline = make_pipeline(StandardScaler(), LogisticRegression())
    selector = HoldoutFeatureSelector(pipeline, verify=3, correlation=None, random_state=0)
    assert selector.fit(X, y).get_support().any()
