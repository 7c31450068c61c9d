"""Searches on one ledger under correlation="time"."""

import subprocess
import sys
import warnings

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.tree import DecisionTreeClassifier

from sklearn_bdp import HoldoutConfig, ReusableHoldoutSearchCV
from sklearn_bdp.exceptions import DependenceWarning, LedgerMismatchError
from tests.facts import refused

SCRIPT = """
import sys
import test_time_ledger as here
here.search({"C": [0.01, 0.1, 1]}, ledger=sys.argv[1]).fit(*here.series())
"""


def series(n=2000, seed=0, mean_regime_length=20):
    """Return records whose labels follow a regime that changes about every so many records."""
    rng = np.random.default_rng(seed)
    regime = np.cumsum(rng.random(n) < 1 / mean_regime_length) % 2
    X = rng.normal(size=(n, 3))
    noise = rng.normal(size=n) * np.where(regime, 0.3, 2.0)
    return X, (X[:, 0] + noise > 0).astype(int)


def search(grid, model=None, *, ledger, **params):
    model = LogisticRegression() if model is None else model
    holdout = HoldoutConfig(0.4, ledger=ledger)
    return ReusableHoldoutSearchCV(model, grid, correlation="time", holdout=holdout, cv=3, **params)


def test_searches_with_other_grids_models_and_functions_share_the_ledger(tmp_path):
    X, y = series()
    ledger = tmp_path / "a.sqlite"
    first_search = search({"C": [0.01, 0.1]}, ledger=ledger).fit(X, y)
    model = first_search.holdout_.dependence
    names = "functiontransformer__func", "logisticregression__C"
    pipeline = make_pipeline(FunctionTransformer(), LogisticRegression())
    other_searches = [
        search({"C": [0.01, 0.1, 1]}, ledger=ledger),
        search({"max_depth": [1, 9]}, DecisionTreeClassifier(random_state=0), ledger=ledger),
        search({names[0]: [lambda A: A], names[1]: [0.1]}, pipeline, ledger=ledger),
        search({names[0]: [lambda A: A**3], names[1]: [0.1]}, pipeline, ledger=ledger),
    ]
    for other_search in other_searches:
        other_search.fit(X, y)
        assert other_search.holdout_.dependence == model
        np.testing.assert_array_equal(other_search.holdout_indices_, first_search.holdout_indices_)
        assert other_search.holdout_.certificate().answers.n_answers > 0
    assert len(first_search.holdout_.history()) == 2 + 1 + 2 + 2  # candidates not queried before


@pytest.mark.slow
def test_another_process_shares_the_ledger(tmp_path):
    X, y = series()
    ledger = tmp_path / "a.sqlite"
    first_search = search({"C": [0.01, 0.1]}, ledger=ledger).fit(X, y)
    folder = __file__.rpartition("/")[0]
    call = [sys.executable, "-c", f"import sys; sys.path.insert(0, {folder!r}){SCRIPT}"]
    process = subprocess.run([*call, str(ledger)], capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    assert len(first_search.holdout_.history()) == 3


def test_other_records_are_still_rejected(tmp_path):
    ledger = tmp_path / "a.sqlite"
    search({"C": [0.1]}, ledger=ledger).fit(*series())
    with refused(LedgerMismatchError, "a.sqlite"):
        search({"C": [0.1]}, ledger=ledger).fit(*series(seed=1))


def test_no_dependence_warning_is_given(tmp_path):
    X, y = series(3000, mean_regime_length=60)
    for grid in ({"C": [0.01, 0.1]}, {"C": [1]}):
        with warnings.catch_warnings():
            warnings.simplefilter("error", DependenceWarning)
            search(grid, ledger=tmp_path / "a.sqlite").fit(X, y)
