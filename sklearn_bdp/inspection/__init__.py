"""Displays: draw what is already computed (matplotlib comes with the ``plot`` extra)."""

from sklearn_bdp.inspection._budget import BudgetDisplay
from sklearn_bdp.inspection._search import HoldoutSearchDisplay

__all__ = ["HoldoutSearchDisplay", "BudgetDisplay"]
