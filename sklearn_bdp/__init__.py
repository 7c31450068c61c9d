"""Reuse one holdout set honestly: scikit-learn model selection with Bayesian differential privacy.

``ReusableHoldoutSearchCV`` takes the place of ``GridSearchCV``, and ``HoldoutScorer`` is a
``scoring`` argument. Queries of the holdout pass through calibrated Thresholdout. The proven
intervals of the answers are all correct together with at least the stated probability.
"""

from typing import TYPE_CHECKING

from sklearn_bdp._version import __version__
from sklearn_bdp.holdout import HoldoutConfig, ReusableHoldout
from sklearn_bdp.model_selection import HoldoutScorer, ReusableHoldoutSearchCV

if TYPE_CHECKING:
    from sklearn_bdp.planning import certify, plan_holdout, plan_search

__all__ = [
    "HoldoutConfig",
    "HoldoutScorer",
    "ReusableHoldout",
    "ReusableHoldoutSearchCV",
    "__version__",
    "certify",
    "plan_holdout",
    "plan_search",
]


def __getattr__(name):
    """Return the planning function with this name; import its module at the first use."""
    if name not in __all__:
        raise AttributeError(f"module 'sklearn_bdp' has no attribute {name!r}")
    import sklearn_bdp.planning

    return getattr(sklearn_bdp.planning, name)


def __dir__():
    return __all__
