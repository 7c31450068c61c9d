"""Feature selection with subsets that are verified on a reusable holdout."""

from sklearn_bdp.feature_selection._correlation_filter import (
    HoldoutCorrelationFilter,
    permutation_statistics,
    permutation_tests,
)
from sklearn_bdp.feature_selection._path import influence_values
from sklearn_bdp.feature_selection._report import AssociationReport, SelectionReport
from sklearn_bdp.feature_selection._selector import HoldoutFeatureSelector

__all__ = [
    "AssociationReport",
    "HoldoutCorrelationFilter",
    "HoldoutFeatureSelector",
    "SelectionReport",
]
