"""The recipe for a metric in CONTRIBUTING names all that has to be written."""

import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import recall_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_bdp import ReusableHoldoutSearchCV

RECIPES = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text("utf-8")


@pytest.fixture
def recipe(tmp_path):
    """Return the module that the recipe writes."""
    path = tmp_path / "recipe.py"
    (text,) = re.findall(r"\*\*A metric.*?```python\n(.*?)```", RECIPES, re.DOTALL)
    path.write_text(text, "utf-8")
    spec = importlib.util.spec_from_file_location("recipe", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def mean(y, predicted):
    return np.mean(np.abs(y - predicted) <= 1)


def by_class(y, predicted):
    return recall_score(y, predicted, labels=[1, 2], average="macro")


@pytest.mark.parametrize(("name", "expected"), [("nearly_right", mean), ("rare_recall", by_class)])
def test_a_search_follows_the_recipe_and_certifies(recipe, name, expected):
    X, y = load_wine(return_X_y=True)
    metric = getattr(recipe, name)
    model = make_pipeline(StandardScaler(), LogisticRegression())
    grid = {"logisticregression__C": [0.01, 1.0]}
    search = ReusableHoldoutSearchCV(model, grid, scoring=metric, random_state=0, cv=3).fit(X, y)
    assert name in str(search.certificate_)
    low, high = search.best_interval_
    assert low <= search.best_score_ <= high
    train = search.train_indices_
    ours = metric.training_score(search.best_estimator_, X[train], y[train])
    assert ours == pytest.approx(expected(y[train], search.predict(X[train])))
    report = search.final_report()
    assert report.lower <= report.upper
