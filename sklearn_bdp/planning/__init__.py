"""Before data: certificates of designs, how large a holdout must be, published bounds."""

from sklearn_bdp.planning._certify import certify
from sklearn_bdp.planning._plan import plan_batches, plan_budget, plan_holdout, plan_queries
from sklearn_bdp.planning._plan_search import expected_half_width, plan_search
from sklearn_bdp.planning._published import dwork_required_n, floor_required_n

__all__ = [
    "certify",
    "dwork_required_n",
    "plan_batches",
    "plan_budget",
    "plan_holdout",
    "plan_queries",
    "plan_search",
]
