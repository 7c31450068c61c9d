"""Recipes of CONTRIBUTING.md, followed word for word: they need only the names they mention."""

import importlib
import inspect
import pickle
import re
import sys
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import recall_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_bdp import HoldoutConfig, ReusableHoldout, ReusableHoldoutSearchCV
from sklearn_bdp.accounting.spending import SPENDING_POLICIES, AlphaSpending
from sklearn_bdp.exceptions import HoldoutClosedError, LedgerBusyError, LedgerCorruptedError
from sklearn_bdp.holdout import ExpertSettings
from sklearn_bdp.ledger import Backend
from sklearn_bdp.metrics import get_metric
from sklearn_bdp.metrics.base import METRICS, register_metric
from sklearn_bdp.metrics.means import Accuracy
from sklearn_bdp.metrics.proofs import CLASS_MEANS, CLASSES, UNIT_INTERVALS
from sklearn_bdp.metrics.table import metric_table
from sklearn_bdp.planning import plan_search
from tests.facts import refused
from tests.holdout import workers

RECIPES = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text("utf-8")

rng = np.random.default_rng(0)
X = rng.normal(size=(600, 3))
Y = (X[:, 0] + rng.normal(size=600) > 0).astype(int)
GRID = {"C": [0.1, 1.0]}


@pytest.fixture
def recipe(tmp_path, monkeypatch):
    """Return a function that makes a module of a recipe and imports it."""

    def follow(name):
        (text,) = re.findall(rf"^\*\*{name}\*\*.*?^```python\n(.*?)^```", RECIPES, re.M | re.S)
        (tmp_path / "recipe.py").write_text(text, "utf-8")
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.setitem(sys.modules, "recipe", None)  # forgotten afterwards
        del sys.modules["recipe"]
        return importlib.import_module("recipe")

    return follow


def mean(y, predicted):
    return np.mean(np.abs(y - predicted) <= 1)


def by_class(y, predicted):
    return recall_score(y, predicted, labels=[1, 2], average="macro")


@pytest.mark.parametrize(("name", "expected"), [("nearly_right", mean), ("rare_recall", by_class)])
@mock.patch.dict(METRICS)  # the recipe adds two
def test_a_metric_works_by_its_name_everywhere(recipe, name, expected):
    with refused(ValueError, name):
        plan_search(0.1, scoring=name)
    recipe("A metric")
    X, y = load_wine(return_X_y=True)
    model = make_pipeline(StandardScaler(), LogisticRegression())
    grid = {"logisticregression__C": [0.01, 1.0]}
    search = ReusableHoldoutSearchCV(model, grid, scoring=name, random_state=0, cv=3).fit(X, y)
    assert name in str(search.certificate_)
    low, high = search.best_interval_
    assert low <= search.best_score_ <= high
    train = search.train_indices_
    metric = get_metric(name, y=y[train])
    training_score = metric.training_score(search.best_estimator_, X[train], y[train])
    assert training_score == pytest.approx(expected(y[train], search.predict(X[train])))
    report = search.final_report(scoring=name)
    (row,) = report.rows
    held_out = search.holdout_indices_
    assert row.metric == name
    assert row.value == pytest.approx(expected(y[held_out], search.predict(X[held_out])))
    assert row.proven[0] <= row.value <= row.proven[1]
    proof = metric.proof("records")
    assert row.method == (CLASS_MEANS if proof == CLASSES else proof)  # the name of means
    assert 10 < plan_search(0.1, scoring=name) < 10_000
    assert f"`{name}`" in metric_table()


@mock.patch.dict(METRICS)
def test_an_edited_metric_is_another_report(recipe, tmp_path):
    labels = rng.integers(0, 4, 600)
    predictions = (labels + rng.integers(0, 3, 600)) % 4
    holdout = ReusableHoldout(X, labels, random_state=0)
    recipe("A metric")
    report = holdout.final_report(predictions, scoring="nearly_right")
    recipe("A metric")  # the same code, imported again
    assert holdout.final_report(predictions, scoring="nearly_right").rows == report.rows
    path = tmp_path / "recipe.py"
    path.write_text(path.read_text("utf-8").replace("<= 1", "<= 2"), "utf-8")
    sys.modules.pop("recipe")
    importlib.import_module("recipe")
    with pytest.raises(HoldoutClosedError):
        holdout.final_report(predictions, scoring="nearly_right")


@mock.patch.dict(METRICS)
def test_the_name_of_another_metric_is_rejected(recipe):
    recipe("A metric")
    with refused(ValueError, "nearly_right"):
        register_metric("nearly_right")(Accuracy)
    with refused(ValueError, "f1"):
        register_metric("f1")(METRICS["nearly_right"])


@mock.patch.dict(UNIT_INTERVALS)  # the recipe adds one
def test_an_interval_family_proves_rows_of_a_report(recipe):
    module = recipe("An interval family")
    labels = rng.integers(0, 4, 600)
    holdout = ReusableHoldout(X, labels, random_state=0)
    predictions = (labels + rng.integers(0, 3, 600)) % 4
    report = holdout.final_report(predictions, scoring=module.nearly_right, training=(X, labels))
    (row,) = report.rows
    assert row.method == module.HOEFFDING
    is_near = np.abs(predictions - labels) <= 1
    margin = np.sqrt(np.log(2 / report.alpha_proven) / (2 * 600))
    assert row.value == pytest.approx(is_near.mean())
    assert row.proven == pytest.approx((row.value - margin, row.value + margin))


@pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.SecondHoldoutWarning")  # a level, too
@pytest.mark.parametrize(("name", "arguments"), [("Floors", [np.arange(600) // 3]), ("Pairs", [])])
def test_a_correlation_model_divides_answers_and_is_certified(recipe, name, arguments):
    model = getattr(recipe("A correlation model"), name)(*arguments)
    search = ReusableHoldoutSearchCV(
        LogisticRegression(), GRID, correlation=model, random_state=0, holdout=0.4
    ).fit(X, Y)
    holdout = search.holdout_
    low, high = search.best_interval_
    assert low < search.best_score_ < high
    certificate = holdout.certificate()
    assert model.subset(search.holdout_indices_).describe() in str(certificate)
    assert certificate.dp_epsilon <= certificate.bdp_epsilon <= holdout.n * certificate.dp_epsilon
    assert holdout.preview(3).half_width < 1.0
    base_methods = inspect.getmembers(type(model), inspect.isroutine)
    assert len([name for name, _ in base_methods if not name.endswith("__")]) < 20
    private = ReusableHoldout(X, Y, correlation=model, epsilon=5000.0)
    metric = get_metric("accuracy")
    private.answer_evaluations([0.7], [metric.evaluate(search.best_estimator_, X, Y)])
    assert private.certificate().bdp_epsilon <= 5000.0


@mock.patch.dict(SPENDING_POLICIES)  # the recipe adds one
def test_a_spending_policy_answers_reports_and_is_certified(recipe, path):
    with refused(ValueError, "spending"):
        HoldoutConfig(spending="halves")
    recipe("A spending policy")
    spending = AlphaSpending("halves")
    spent = sum(spending.batch_weight(t) for t in range(1, 8)) + spending.report_weight(7)
    assert spent == pytest.approx(1.0)  # a path holds one report, and weights of batches telescope
    search = ReusableHoldoutSearchCV(
        LogisticRegression(), GRID, holdout=HoldoutConfig(spending="halves", ledger=path)
    ).fit(X, Y)
    low, high = search.best_interval_
    assert low < search.best_score_ < high
    assert "half for the final report" in str(search.holdout_.certificate())
    repeated_search = search.fit(X, Y)  # from the ledger, which has the name
    assert len(repeated_search.holdout_.history()) == 2
    report = repeated_search.final_report()
    assert report.lower < report.value < report.upper


def make(ledger, **options):
    return ReusableHoldout(workers.X, workers.Y, ledger=ledger, **options)


def test_the_ledger_of_the_recipe_records_answers_and_notes(recipe, tmp_path, path):
    assert Backend.__abstractmethods__ == {"create", "read", "lock", "append"}
    folder = recipe("A ledger").Folder(tmp_path / "entries")
    holdout = make(folder, random_state=1)
    query = [0.1, 0.5], workers.scores(2, 0)
    answers = holdout.answer(*query, keys=["a", "b"])
    file_answers = make(path, random_state=1).answer(*query, keys=["a", "b"])
    assert (answers.values == file_answers.values).all()
    reopened = make(folder)
    assert reopened.history() == holdout.history()
    assert str(folder) in repr(reopened)
    reopened.add_note("mine", 3)
    assert holdout.notes("mine") == [3]
    assert len(pickle.loads(pickle.dumps(holdout)).history()) == 2
    with reopened.account.write_transaction(), pytest.raises(LedgerBusyError):
        make(folder, expert=ExpertSettings(ledger_timeout=0.05)).answer([0.5], workers.scores(1, 2))


def test_a_search_resumes_from_the_ledger_of_the_recipe_and_detects_edits(recipe, tmp_path):
    ledger = recipe("A ledger").Folder(tmp_path / "entries")
    search = ReusableHoldoutSearchCV(
        LogisticRegression(), GRID, holdout=HoldoutConfig(ledger=ledger)
    )
    assert len(search.fit(X, Y).holdout_.history()) == 2
    assert len(search.fit(X, Y).holdout_.history()) == 2  # the same script resumes
    first = tmp_path / "entries" / "1.json"
    first.write_text(first.read_text().replace("C=0.1", "C=0.9"))
    with pytest.raises(LedgerCorruptedError):
        search.fit(X, Y)
