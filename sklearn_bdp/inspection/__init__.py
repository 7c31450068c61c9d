"""Displays of computed results (matplotlib comes with the ``plot`` extra)."""

from sklearn_bdp.inspection._displays import BudgetDisplay, HoldoutSearchDisplay

__all__ = ["HoldoutSearchDisplay", "BudgetDisplay"]
