"""A worker of joblib's own pool is killed in the middle of a search."""

import os
import sys
from concurrent.futures import BrokenExecutor
from pathlib import Path

import numpy as np
import pytest

from sklearn_bdp import ReusableHoldoutSearchCV

sys.path.insert(0, str(Path(__file__).parent))
from logged import DiesOnce, completed_fits

N_CANDIDATES = 6


@pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.SecondHoldoutWarning")  # to compare
@pytest.mark.slow
@pytest.mark.parametrize("n_records", [450, 225])  # all training records, or those of a fold
def test_a_killed_worker_costs_neither_budget_nor_finished_folds(tmp_path, n_records):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, N_CANDIDATES))
    y = (X[:, 0] + rng.normal(size=600) > 0).astype(int)

    def make_search(name, fatal_fit, seconds=0.1):
        # As bytes: a string that names a file is hashed with its content, and logs grow.
        log, flag = (os.fsencode(tmp_path / file) for file in (name, "died"))
        # Slow enough that joblib hands fits out one by one: a batch that dies is lost whole.
        model = DiesOnce(log, seconds=seconds, fatal_fit=fatal_fit, flag=flag)
        grid = {"column": list(range(N_CANDIDATES))}
        return ReusableHoldoutSearchCV(model, grid, cv=2, random_state=0, n_jobs=2)

    search = make_search("fits.log", (4, n_records))
    with pytest.raises(BrokenExecutor):
        search.fit(X, y)
    search.fit(X, y)  # the flag says that it died: this time it lives
    folds = [fit for fit in completed_fits(tmp_path / "fits.log") if fit[1] == "225"]
    assert len(folds) - len(set(folds)) <= 2  # fits that the two workers had not returned
    assert len(search.holdout_.history()) == N_CANDIDATES
    single_process_search = (
        make_search("alone.log", None, seconds=0.0).set_params(n_jobs=None).fit(X, y)
    )
    np.testing.assert_array_equal(
        search.cv_results_["mean_test_score"], single_process_search.cv_results_["mean_test_score"]
    )
    assert len(single_process_search.holdout_.history()) == N_CANDIDATES
