"""Planning before there is data: certificates of declared designs, and sizes of holdouts."""

from sklearn_bdp.planning._certify import certify, plan_holdout
from sklearn_bdp.planning._plan_search import SearchPlan, expected_half_width, plan_search

__all__ = ["SearchPlan", "certify", "plan_holdout", "plan_search"]
