"""Searches and scorers whose every look at the holdout is verified."""

from sklearn_bdp.model_selection._halving import HalvingReusableHoldoutSearchCV
from sklearn_bdp.model_selection._scorer import HoldoutScorer
from sklearn_bdp.model_selection._search import ReusableHoldoutSearchCV

__all__ = ["HalvingReusableHoldoutSearchCV", "HoldoutScorer", "ReusableHoldoutSearchCV"]
