"""Levels of privacy have a module of their own, which interval computations never load."""

import subprocess
import sys

MODELS = """
import sys
import numpy as np
from sklearn_bdp.correlation import *

parents, flip = [[]] + [[i] for i in range(59)], [[0.9, 0.1], [0.2, 0.8]]
ring = np.roll(np.eye(60), 1, axis=1)
models = [
    Independent(),
    Groups(np.arange(60) // 3),
    MarkovChain(flip),
    DependencyGraph(np.kron(np.eye(20), np.ones((3, 3)))),
    MarkovNetwork(0.1 * (ring + ring.T), influence="data"),
    BayesianNetwork(parents, [[0.5, 0.5]] + [flip] * 59),
]
for model in models:
    model.effective_n(60), model.log_tail(0.1, 60)
    model.mean_lower_limit(0.8, -3.0, 60)
    if model.n_records is not None:
        model.split(60, 0.25, random_state=0), model.folds(60, 3, random_state=0)
"""
SEARCH = """
import sys
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn_bdp import ReusableHoldoutSearchCV

X = np.random.default_rng(0).normal(size=(200, 3))
search = ReusableHoldoutSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, random_state=0)
search.fit(X, X[:, 0] > 0)
"""
PRINT_LOADED = "print([m for m in sys.modules if m.startswith('sklearn_bdp.correlation.leakage')])"


def test_only_privacy_levels_load_the_leakage_module():
    """In one process: one that imports everything takes seconds."""
    level = "models[2].bdp_epsilon(0.01, 60)"
    code = "\n".join([MODELS, PRINT_LOADED, SEARCH, PRINT_LOADED, level, PRINT_LOADED])
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    loaded_by_models, loaded_by_search, loaded_by_level = process.stdout.splitlines()
    assert loaded_by_models == loaded_by_search == "[]"
    assert "sklearn_bdp.correlation.leakage" in loaded_by_level
