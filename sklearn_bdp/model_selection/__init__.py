"""Searches and a scorer that verify models on a reusable holdout."""

from sklearn_bdp.model_selection._halving import HalvingReusableHoldoutSearchCV
from sklearn_bdp.model_selection._scorer import HoldoutScorer
from sklearn_bdp.model_selection._search import ReusableHoldoutSearchCV

__all__ = ["HalvingReusableHoldoutSearchCV", "HoldoutScorer", "ReusableHoldoutSearchCV"]
