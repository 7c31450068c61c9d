"""Before data: certificates of designs, how large a holdout must be, published bounds."""

from sklearn_bdp.planning._certify import certify, floor_required_n, plan_holdout
from sklearn_bdp.planning._plan_search import SearchPlan, expected_half_width, plan_search

__all__ = ["SearchPlan", "certify", "plan_holdout", "plan_search"]
