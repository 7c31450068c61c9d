"""A worker of joblib's own pool is killed in the middle of a search."""

import os
import sys
from concurrent.futures import BrokenExecutor
from pathlib import Path

import numpy as np
import pytest

from sklearn_bdp import ReusableHoldoutSearchCV

sys.path.insert(0, str(Path(__file__).parent))
from logged import Dying, finished

N_CANDIDATES = 6


@pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.SecondHoldoutWarning")  # to compare
@pytest.mark.slow
@pytest.mark.parametrize("n_records", [450, 225])  # all training records, or those of a fold
def test_a_killed_worker_costs_neither_budget_nor_finished_folds(tmp_path, n_records):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, N_CANDIDATES))
    y = (X[:, 0] + rng.normal(size=600) > 0).astype(int)

    def made(name, deadly, seconds=0.1):
        # As bytes: a string that names a file is hashed with its content, and logs grow.
        log, flag = (os.fsencode(tmp_path / file) for file in (name, "died"))
        # Slow enough that joblib hands fits out one by one: a batch that dies is lost whole.
        model = Dying(log, seconds=seconds, deadly=deadly, flag=flag)
        grid = {"column": list(range(N_CANDIDATES))}
        return ReusableHoldoutSearchCV(model, grid, cv=2, random_state=0, n_jobs=2)

    search = made("fits.log", (4, n_records))
    with pytest.raises(BrokenExecutor):
        search.fit(X, y)
    search.fit(X, y)  # the flag says that it died: this time it lives
    folds = [fit for fit in finished(tmp_path / "fits.log") if fit[1] == "225"]
    assert len(folds) - len(set(folds)) <= 2  # fits that the two workers had not returned
    assert len(search.holdout_.history()) == N_CANDIDATES
    alone = made("alone.log", None, seconds=0.0).set_params(n_jobs=None).fit(X, y)
    np.testing.assert_array_equal(
        search.cv_results_["mean_test_score"], alone.cv_results_["mean_test_score"]
    )
    assert len(alone.holdout_.history()) == N_CANDIDATES
