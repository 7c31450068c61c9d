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
from sklearn_bdp.evaluation import Candidate, Experiment, PrefixMemory, Task, WholeJob
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


class Counting(Scaling):
    """Notes how many records it is given to transform, call by call."""

    calls = []

    def transform(self, X):
        type(self).calls.append(len(X))
        return super().transform(X)


class Refusing(Scaling):
    """Fails on some records."""

    def transform(self, X):
        if (X[:, 0] > 1.5).any():
            raise ValueError("too large")
        return super().transform(X)


class Squares(TransformerMixin, BaseEstimator):
    """Learns nothing: scikit-learn cannot tell that it is fitted."""

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return np.c_[X, X**2]


def setting_of(data, first, metric, **options):
    X, y = data
    pipeline = make_pipeline(first, PCA(random_state=0), LogisticRegression())
    metric = get_metric(metric, estimator=pipeline, y=y[:200])
    return Experiment(
        estimator=pipeline, X=X[:200], y=y[:200], X_holdout=X[200:], y_holdout=y[200:],
        metric=metric, fit_params={}, **options,
    )  # fmt: skip


def outcomes(setting, memory):
    grid = [{"logisticregression__C": C} for C in (0.01, 1.0, 100.0)]
    tasks = [Task(row, Candidate(params), keyed=True) for row, params in enumerate(grid)]
    return [WholeJob(setting).run(task, memory) for task in tasks]


def test_a_search_transforms_what_is_left_out_once_for_all_that_share_a_step(data):
    pipeline = make_pipeline(Counting(), LogisticRegression())
    grid = {"logisticregression__C": [0.01, 0.1, 1.0, 10.0]}
    Counting.calls.clear()
    ReusableHoldoutSearchCV(pipeline, grid, cv=3).fit(
        data[0][:200], data[1][:200], X_val=data[0][200:], y_val=data[1][200:]
    )
    ours = len(Counting.calls)
    assert Counting.calls.count(100) == 1  # the holdout
    Counting.calls.clear()
    GridSearchCV(pipeline, grid, cv=3).fit(data[0][:200], data[1][:200])
    # Folds: fitted and tested; whole: asked too; two small batches: does it look at other rows?
    assert ours == 3 * 2 + 3 + 2 < len(Counting.calls)


@pytest.mark.parametrize("metric", ["accuracy", "neg_brier_score", "neg_log_loss", "roc_auc"])
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("first", [Scaling(2.0), StandardScaler(copy=False)])
def test_shared_records_give_the_same_scores_and_keys(data, metric, training, first):
    setting = setting_of(data, first, metric, resubstitution=training)
    before = setting.X_holdout.copy()
    shared, alone = outcomes(setting, PrefixMemory()), outcomes(setting, None)
    for one, other in zip(shared, alone, strict=True):
        assert one.evaluation.value == other.evaluation.value
        np.testing.assert_array_equal(one.evaluation.per_record, other.evaluation.per_record)
        np.testing.assert_equal(one.training, other.training)
        assert one.key == other.key is not None
    np.testing.assert_array_equal(setting.X_holdout, before)


def test_records_on_which_a_shared_step_fails_are_found_one_by_one(data):
    setting = setting_of(data, Refusing(), "neg_brier_score")
    setting.X[:, 0] = np.minimum(setting.X[:, 0], 1.5)
    failing = setting.X_holdout[:, 0] > 1.5
    for memory in (PrefixMemory(), None):
        for outcome in outcomes(setting, memory):
            np.testing.assert_array_equal(outcome.evaluation.per_record == 0.0, failing)


def test_a_score_of_the_caller_is_given_the_pipeline_itself(data):
    kinds = []

    def mine(estimator, X, y):
        kinds.append(type(estimator))
        return (estimator.predict(X) == y).astype(float)

    outcomes(setting_of(data, Counting(), PerRecordScore(mine)), PrefixMemory())
    search = ReusableHoldoutSearchCV(
        make_pipeline(Counting(), LogisticRegression()),
        {"logisticregression__C": [0.1, 1.0]},
        scoring=PerRecordScore(mine),
        random_state=0,
    )
    search.fit(*data)
    assert set(kinds) == {Pipeline}


def test_training_scores_are_not_taken_from_the_records_left_out(data):
    pipeline = make_pipeline(StandardScaler(), LogisticRegression())
    grid = {"logisticregression__C": [0.01, 1.0]}
    search = ReusableHoldoutSearchCV(
        pipeline, grid, cv=2, scoring="accuracy", return_train_score=True
    )
    results = search.fit(
        data[0][:200], data[1][:200], X_val=data[0][200:], y_val=data[1][200:]
    ).cv_results_
    plain = GridSearchCV(pipeline, grid, cv=2, return_train_score=True)
    expected = plain.fit(data[0][:200], data[1][:200]).cv_results_
    for name in ("mean_train_score", "mean_test_score"):
        np.testing.assert_array_equal(results[name], expected[name])


@pytest.mark.parametrize(
    ("kind", "bound"), [(np.asarray, 4000), (pd.DataFrame, 4000), (sparse.csr_array, 6500)]
)
def test_where_two_fit_those_used_last_are_kept(kind, bound):
    memory, records, made = PrefixMemory(bound), kind(np.ones((50, 4))), []
    for place in "aabacabab":
        memory.recalled(place, lambda place=place: (records, made.append(place)))
    assert made == ["a", "b", "c", "b"]  # c took the place of b, which was used before a


def test_the_bound_holds_for_transformed_records_of_every_kind(data):
    setting, calls = setting_of(data, Counting(), "accuracy"), []
    held = setting.X_holdout.nbytes
    for memory in (None, PrefixMemory(held - 1), PrefixMemory(held), PrefixMemory(100 * held)):
        Counting.calls.clear()
        outcomes(setting, memory)
        calls.append([Counting.calls.count(n) for n in (200, 100)])
    assert calls == [[12, 3], [12, 3], [12, 1], [2, 1]]


@pytest.mark.parametrize("share", [True, False])
# each round makes its holdout anew
@pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.SecondHoldoutWarning")
def test_a_step_that_works_in_place_leaves_the_records_to_the_next_candidate(share):
    rng = np.random.default_rng(0)
    X = 5.0 + 10.0 * rng.standard_normal((300, 4))
    y = (X[:, 0] > 5.0).astype(int)
    grid = {"standardscaler__with_mean": [True, False], "svc__C": [1.0, 10.0]}

    def results(copy):
        pipeline = make_pipeline(StandardScaler(copy=copy), SVC(), memory=None if share else Own())
        search = ReusableHoldoutSearchCV(pipeline, grid, cv=3, random_state=0).fit(X, y)
        return search.cv_results_["mean_test_score"], search.cv_results_["holdout_score"]

    np.testing.assert_array_equal(results(copy=False), results(copy=True))
    np.testing.assert_array_equal(y, X[:, 0] > 5.0)


class Own:
    """A memory of the user's, which remembers nothing."""

    def cache(self, function, ignore=None):
        return function


@pytest.mark.parametrize("steps", [(Squares(),), (Squares(), "passthrough"), (None, Squares())])
def test_a_step_that_learns_nothing_is_shared_as_any_other(data, steps):
    X, y = data
    pipeline = Pipeline([*((f"step{i}", one) for i, one in enumerate(steps)), ("last", SVC())])
    search = ReusableHoldoutSearchCV(pipeline, {"last__C": [0.1, 1.0]}, random_state=0).fit(X, y)
    train = search.train_indices_
    plain = GridSearchCV(pipeline, {"last__C": [0.1, 1.0]}).fit(X[train], y[train])
    for name in ("mean_test_score", "std_test_score"):
        np.testing.assert_array_equal(search.cv_results_[name], plain.cv_results_[name])
    assert np.isfinite(search.cv_results_["holdout_score"]).all()


@pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.SecondHoldoutWarning")
@pytest.mark.parametrize("scoring", ["f1", "average_precision", "matthews_corrcoef"])
def test_scorers_without_a_bound_read_shared_pipelines_as_plain_ones(data, scoring):
    X, y = data
    steps = make_pipeline(StandardScaler(), LogisticRegression())
    grid = {"logisticregression__C": [0.1, 1.0]}
    search = ReusableHoldoutSearchCV(steps, grid, scoring=scoring, random_state=0).fit(X, y)
    train = search.train_indices_
    plain = GridSearchCV(steps, grid, scoring=scoring).fit(
        np.asarray(X)[train], np.asarray(y)[train]
    )
    for name in ("mean_test_score", "std_test_score"):
        np.testing.assert_allclose(search.cv_results_[name], plain.cv_results_[name])
