"""Code that users write, for mypy (``make lint``): it must type-check against the package.

Nothing here runs; a name that is untyped, or a type that users would have to work around, shows.
"""

from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

from sklearn_bdp import (
    HoldoutConfig,
    HoldoutScorer,
    ReusableHoldout,
    ReusableHoldoutSearchCV,
    certify,
    plan_holdout,
    plan_search,
)
from sklearn_bdp.correlation import Groups, Independent, MarkovChain
from sklearn_bdp.feature_selection import HoldoutCorrelationFilter, HoldoutFeatureSelector
from sklearn_bdp.inspection import BudgetDisplay, HoldoutSearchDisplay
from sklearn_bdp.mechanisms import Thresholdout


def search(X: np.ndarray, y: np.ndarray, ledger: Path) -> float:
    """Search, draw, ask again."""
    grid = {"C": [0.1, 1.0]}
    first = ReusableHoldoutSearchCV(
        LogisticRegression(), grid, holdout=HoldoutConfig(ledger=ledger), verify=5
    )
    first.fit(X, y, X_val=X, y_val=y)
    display = HoldoutSearchDisplay.from_search(first)
    display.plot(ax=None)
    BudgetDisplay.from_holdout(first.holdout_)
    second = ReusableHoldoutSearchCV(
        LogisticRegression(), [grid], holdout=first.holdout_, correlation="groups", n_iter=3
    )
    second.fit(X, y, groups=y, groups_val=None)
    kept: ReusableHoldout = second.holdout_
    results: dict[str, Any] = second.cv_results_
    train: np.ndarray | None = second.train_indices_
    low, high = second.best_interval_
    rows = 0 if train is None else len(train)
    print(second.certificate_.half_width, kept.n, results["params"], rows, high - low)
    return second.best_score_


def holdout(X: np.ndarray, y: np.ndarray) -> float:
    """Ask a holdout, by hand and through a scorer."""
    asked = ReusableHoldout(X, y, correlation=MarkovChain(np.eye(2)), budget=3, epsilon=1.0)
    answers = asked.answer([0.5, 0.7], np.zeros((2, len(y))), keys=["a", None])
    widest = float(np.max(answers.upper - answers.lower))
    scored = asked.score(LogisticRegression(), 0.5, scoring="accuracy")
    report = asked.final_report(LogisticRegression())
    score = HoldoutScorer(asked, scoring="accuracy")(LogisticRegression(), X, y)
    return widest + scored.lower + report.upper + score + asked.preview(3).expected_spending


def plan() -> int:
    """Plan before there are data."""
    certificate = certify(1000, correlation=Independent(), n_queries=10, budget=3)
    tau: float = certificate.tau
    plan_search(half_width=tau, n_candidates=10, n_searches=3)
    level = Groups([0, 0, 1]).bdp_epsilon(0.1, 3)
    Thresholdout.zhao2017(tau, 0.05, 10, 3).answer(0.5, level)
    return plan_holdout(tau=tau, n_queries=10, budget=3, correlation=[Independent()])


def features(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Choose features."""
    selector = HoldoutFeatureSelector(LogisticRegression(), n_features_to_select=3)
    support: np.ndarray = selector.fit(X, y).get_support()
    HoldoutCorrelationFilter().fit(X, y)
    return support
