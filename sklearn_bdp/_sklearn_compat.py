"""Every private name of scikit-learn that this package uses, in one place.

``tests/test_sklearn_compat.py`` pins them, so that a release of scikit-learn
that moves one fails one test with a clear name instead of breaking imports everywhere.
"""

from sklearn.model_selection._search import BaseSearchCV
from sklearn.utils import _safe_indexing as safe_indexing
from sklearn.utils.metaestimators import _safe_split as safe_split
from sklearn.utils.validation import _check_method_params as check_method_params
from sklearn.utils.validation import _num_samples as num_samples

__all__ = ["BaseSearchCV", "check_method_params", "num_samples", "safe_indexing", "safe_split"]
