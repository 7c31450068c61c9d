"""Fitted searches on disk: with their holdout, and without its records."""

import copy
import pathlib
import pickle
import re
from concurrent.futures import ProcessPoolExecutor

import joblib
import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression

from sklearn_bdp import ReusableHoldoutSearchCV
from sklearn_bdp.exceptions import SharedRecordsError
from sklearn_bdp.feature_selection import HoldoutFeatureSelector
from sklearn_bdp.inspection import BudgetDisplay, HoldoutSearchDisplay
from tests.facts import refused
from tests.holdout import workers


@pytest.fixture(scope="module")
def data():
    return make_classification(400, 6, random_state=0)


@pytest.fixture
def search(data):
    grid = {"C": [0.1, 1.0]}
    return ReusableHoldoutSearchCV(LogisticRegression(), grid, random_state=0).fit(*data)


def records_in(blob, search, data):
    """Return how many holdout records can be found in some bytes."""
    rows = np.ascontiguousarray(data[0][search.holdout_indices_])
    return sum(value.tobytes() in blob for value in rows[:, 0])


def test_a_copy_without_records_gives_no_raw_score_of_them(search, data):
    detached_search = pickle.loads(pickle.dumps(search.without_holdout()))
    X, y = data
    for rows in (search.holdout_indices_, search.holdout_indices_[:10]):
        with refused(SharedRecordsError, len(rows)):
            detached_search.score(X[rows], y[rows])
    assert 0.0 <= detached_search.score(X[search.train_indices_], y[search.train_indices_]) <= 1.0
    shifted_X = X + 0.01
    assert 0.0 <= detached_search.score(shifted_X, y) <= 1.0


def test_without_holdout_removes_records_and_keeps_released_results(search, data):
    assert records_in(pickle.dumps(search), search, data) == len(search.holdout_indices_)
    detached_search = search.without_holdout()
    blob = pickle.dumps(detached_search)
    assert records_in(blob, search, data) == 0
    reloaded = pickle.loads(blob)
    np.testing.assert_array_equal(reloaded.predict(data[0]), search.predict(data[0]))
    np.testing.assert_array_equal(
        reloaded.cv_results_["holdout_score"], search.cv_results_["holdout_score"]
    )
    assert str(reloaded.certificate_) == str(search.certificate_)
    assert list(reloaded.holdout_.history()) == list(search.holdout_.history())
    assert str(reloaded.holdout_.certificate()) == str(search.holdout_.certificate())
    assert HoldoutSearchDisplay.from_search(reloaded).best == 0
    assert BudgetDisplay.from_holdout(reloaded.holdout_).n_answers.sum() == 2
    assert search.holdout_.history()  # the original still asks


def test_a_detached_holdout_cannot_be_queried(search, data):
    second_search = ReusableHoldoutSearchCV(
        LogisticRegression(), {"C": [2.0]}, holdout=search.holdout_
    )
    rows = search.train_indices_
    second_search.fit(data[0][rows], data[1][rows])
    detached_search = second_search.without_holdout()
    assert not hasattr(detached_search.holdout_, "answer")
    with refused((TypeError, ValueError), "holdout"):
        detached_search.fit(data[0][rows], data[1][rows])
    with refused(ValueError, "without_holdout"):
        detached_search.without_holdout()
    for query in (detached_search.preview, detached_search.final_report):
        with refused(AttributeError, "without_holdout"):
            query()
    with refused(ValueError, "without_holdout"):
        ReusableHoldoutSearchCV(LogisticRegression(), {"C": [1.0]}).without_holdout()


def test_selectors_without_holdout_can_be_pickled(data):
    selector = HoldoutFeatureSelector(LogisticRegression(), random_state=0).fit(*data)
    detached_search = pickle.loads(pickle.dumps(selector.without_holdout()))
    np.testing.assert_array_equal(detached_search.support_, selector.support_)
    assert detached_search.holdout_.n == selector.holdout_.n


def test_representation_states_that_pickles_carry_records(search):
    assert "in pickles, too" in repr(search.holdout_)


@pytest.mark.client("joblib", "saved searches go on in another process")
def test_joblib_round_trip_in_another_process(search, data, tmp_path, server):
    joblib.dump([search, search.without_holdout()], tmp_path / "saved")
    code = (
        "import joblib, sys\nfor s in joblib.load(sys.argv[1]):"
        "print(s.best_score_, len(s.holdout_.history()), s.predict([[0.0] * 6])[0])"
    )
    with ProcessPoolExecutor(1, mp_context=server) as pool:
        printed = pool.submit(workers.run_code, code, tmp_path / "saved").result(120)
    expected = f"{search.best_score_} 2 {search.predict([[0.0] * 6])[0]}"
    assert printed.splitlines() == [expected, expected]


def test_copying_the_budget_is_rejected(search):
    with refused(TypeError, "without_holdout"):
        search.holdout_.__getstate__()
    assert copy.deepcopy(search).holdout_ is search.holdout_


@pytest.mark.client("skops", "saves `search.without_holdout()`")
def test_skops_round_trip(search, data):
    skops = pytest.importorskip("skops.io")
    with refused(TypeError, "without_holdout"):
        skops.dumps(search)
    blob = skops.dumps(search.without_holdout())
    reloaded = skops.loads(blob, trusted=skops.get_untrusted_types(data=blob))
    np.testing.assert_array_equal(reloaded.predict(data[0]), search.predict(data[0]))
    assert reloaded.best_score_ == search.best_score_
    assert len(reloaded.holdout_.history()) == 2
    assert reloaded.certificate_.half_width == search.certificate_.half_width


@pytest.mark.client("mlflow", "saves `search.without_holdout()`")
def test_mlflow_round_trip(search, data, tmp_path):
    mlflow = pytest.importorskip("mlflow.sklearn")
    options = {"serialization_format": "cloudpickle"}  # skops wants each type to be trusted by name
    mlflow.save_model(search.without_holdout(), str(tmp_path / "model"), **options)
    reloaded = mlflow.load_model(str(tmp_path / "model"))
    np.testing.assert_array_equal(reloaded.predict(data[0]), search.predict(data[0]))


@pytest.fixture
def mlflow(tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow")
    pytest.importorskip("mlflow.sklearn")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.chdir(tmp_path)
    mlflow.set_tracking_uri((tmp_path / "runs").as_uri())
    yield mlflow
    mlflow.sklearn.autolog(disable=True)


def test_the_mlflow_recipe_logs_released_values(mlflow, data):
    page = (pathlib.Path(__file__).parents[2] / "doc" / "guide" / "tools.md").read_text("utf-8")
    (recipe,) = re.findall(r"^```py\n(with mlflow.*?)^```", page, re.M | re.S)
    X, y = data
    search = ReusableHoldoutSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, random_state=0)
    exec(recipe, {"mlflow": mlflow, "search": search, "X": X, "y": y})
    (run,) = mlflow.search_runs(output_format="list")
    lower, upper = search.best_interval_
    assert run.data.metrics == {"verified": search.best_score_, "lower": lower, "upper": upper}
    assert run.data.params == {name: str(value) for name, value in search.best_params_.items()}
    (model,) = mlflow.search_logged_models(output_format="list")
    reloaded = mlflow.sklearn.load_model(model.model_uri)
    np.testing.assert_array_equal(reloaded.predict(X), search.predict(X))


@pytest.mark.client("mlflow", "autologging leaves a search with a holdout to the recipe")
def test_mlflow_autologging_skips_verified_searches(mlflow, data):
    mlflow.sklearn.autolog(log_models=False, log_datasets=False, silent=True)
    search = ReusableHoldoutSearchCV(LogisticRegression(), {"C": [1.0]}, cv=2, random_state=0)
    search.fit(*data)
    assert mlflow.active_run() is None
    assert not mlflow.search_runs(output_format="list")
    LogisticRegression().fit(*data)
    assert len(mlflow.search_runs(output_format="list")) == 1


def test_mlflow_autologging_logs_searches_without_holdout(mlflow, data):
    mlflow.sklearn.autolog(log_models=False, log_datasets=False, silent=True)
    grid = {"C": [0.1, 1.0]}
    ReusableHoldoutSearchCV(LogisticRegression(), grid, cv=2, holdout=None).fit(*data)
    tags = [run.data.tags for run in mlflow.search_runs(output_format="list")]
    assert (
        sum("ReusableHoldoutSearchCV" in run_tags.get("estimator_name", "") for run_tags in tags)
        == 1
    )
