"""Every private name of scikit-learn that this package uses, in one place.

``tests/test_sklearn_compat.py`` pins them, so that a release of scikit-learn
that moves one fails one test with a clear name instead of breaking imports everywhere.
"""

import copy
import sys

from sklearn.model_selection._search import BaseSearchCV
from sklearn.utils import _safe_indexing as safe_indexing
from sklearn.utils.metaestimators import _safe_split as safe_split
from sklearn.utils.validation import _check_method_params as check_method_params
from sklearn.utils.validation import _num_samples as num_samples

__all__ = [
    "BaseSearchCV",
    "as_fitted",
    "called_by_validation",
    "check_method_params",
    "num_samples",
    "safe_indexing",
    "safe_split",
]

_VALIDATION, _SCORERS = "sklearn.model_selection._validation", "sklearn.metrics._scorer"


def called_by_validation(depth=1):
    """Return whether the scorer ``depth`` frames up was called by cross-validation.

    Cross-validation turns whatever a scorer raises into NaN (``error_score``), and scores a model
    on the rows it was trained on after those it was tested on; no argument tells a scorer so.
    """
    frame = sys._getframe(depth + 1)
    if frame is not None and frame.f_globals.get("__name__") == _SCORERS:  # several metrics
        frame = frame.f_back
    return (
        frame is not None
        and frame.f_globals.get("__name__") == _VALIDATION
        and frame.f_code.co_name == "_score"
    )


def as_fitted(estimator):
    """Return a model that predicts from records as they come, also in the middle of its ``fit``.

    Histogram gradient boosting scores its early stopping on binned data with cached predictions.
    """
    if not getattr(estimator, "_in_fit", False):
        return estimator
    fitted = copy.copy(estimator)
    # The scores so far are no part of the model, which is asked about before and after they change.
    for name in ("_in_fit", "_raw_predict", "train_score_", "validation_score_"):
        vars(fitted).pop(name, None)
    return fitted
