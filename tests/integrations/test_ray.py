"""The same on ray, if it is installed."""

import sys
from pathlib import Path

import joblib
import numpy as np
import pytest

from sklearn_bdp import ReusableHoldoutSearchCV

ray = pytest.importorskip("ray")
pytestmark = [pytest.mark.client("ray", "searches on a cluster"), pytest.mark.slow]
sys.path.insert(0, str(Path(__file__).parent))
from logged import LoggingClassifier  # noqa: E402 (workers import it by this name)


def test_the_mechanism_stays_with_the_coordinator(tmp_path):
    from ray.util.joblib import register_ray

    register_ray()
    folder = str(Path(__file__).parent)
    ray.init(num_cpus=2, runtime_env={"env_vars": {"PYTHONPATH": folder}})
    try:
        rng = np.random.default_rng(0)
        X = rng.normal(size=(600, 6))
        y = (X[:, 0] + rng.normal(size=600) > 0).astype(int)

        def search(name):
            grid = {"column": list(range(6))}
            path = str(tmp_path / name)
            return ReusableHoldoutSearchCV(LoggingClassifier(path), grid, cv=2, random_state=0)

        with joblib.parallel_config(backend="ray"):
            cluster_search = search("ray.log").fit(X, y)
        local_search = search("alone.log").fit(X, y)
        np.testing.assert_array_equal(
            cluster_search.cv_results_["holdout_score"], local_search.cv_results_["holdout_score"]
        )
        assert len(cluster_search.holdout_.history()) == 6
    finally:
        ray.shutdown()
