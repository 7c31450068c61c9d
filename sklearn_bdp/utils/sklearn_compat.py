"""All private names that this package imports from scikit-learn.

``tests/utils/test_sklearn_compat.py`` tests them.
"""

import contextlib
import inspect
import itertools
import sys
import traceback

import numpy as np
from sklearn.base import _fit_context as fit_context
from sklearn.model_selection._search_successive_halving import (
    BaseSuccessiveHalving as SuccessiveHalving,
)
from sklearn.model_selection._validation import _fit_and_score
from sklearn.model_selection._validation import _insert_error_scores as insert_error_scores
from sklearn.model_selection._validation import _warn_or_raise_about_fit_failures as report_failures
from sklearn.utils import _safe_indexing as safe_indexing
from sklearn.utils._param_validation import Interval, InvalidParameterError, StrOptions
from sklearn.utils._response import _get_response_values as get_response_values
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.metaestimators import _safe_split as safe_split
from sklearn.utils.validation import _check_method_params as check_method_params
from sklearn.utils.validation import _num_samples as num_samples

_FIT_AND_SCORE_PARAMETERS = frozenset(inspect.signature(_fit_and_score).parameters)
_VALIDATION_MODULE = "sklearn.model_selection._validation"
_SCORER_MODULE = "sklearn.metrics._scorer"
#: Module and name of the functions that fit a fold or a candidate.
_FIT_FUNCTIONS = {
    (_VALIDATION_MODULE, "_fit_and_score"),
    ("sklearn_bdp.evaluation.candidates", "fit_clone"),
}


def is_frame(X):
    """Return whether ``X`` is a frame of pandas or polars, whose columns have names."""
    return hasattr(X, "columns") and (hasattr(X, "iloc") or hasattr(X, "get_columns"))


def as_indices(X, positions):
    """Return positions as an array of the array API namespace of ``X``.

    They are returned unchanged if they are None, or if ``X`` has no namespace or is a NumPy array.
    """
    namespace = getattr(X, "__array_namespace__", None)
    if positions is None or namespace is None or isinstance(X, np.ndarray):
        return positions
    return namespace().asarray(positions)


def gives_frames(transformer):
    """Return whether ``set_output`` or the global setting makes a transformer return frames."""
    return _get_output_config("transform", transformer)["dense"] != "default"


def holds_numbers(frame):
    """Return whether all columns of a frame have a numeric or boolean dtype of NumPy or polars."""
    return all(_is_number(dtype) for dtype in frame.dtypes)


def _is_number(dtype):
    """Return whether a dtype of a NumPy or polars column is numeric or boolean."""
    if isinstance(dtype, np.dtype):
        return dtype.kind in "biuf"
    # A method of dtypes of polars; extension dtypes of pandas have none.
    is_numeric = getattr(dtype, "is_numeric", None)
    return is_numeric is not None and (is_numeric() or str(dtype) == "Boolean")


def called_by_validation():
    """Return whether the caller, a scorer, was called by scikit-learn's cross-validation."""
    frame = sys._getframe(2)
    if frame.f_globals.get("__name__") == _SCORER_MODULE and frame.f_back:  # several metrics
        frame = frame.f_back
    return _function_of(frame) == (_VALIDATION_MODULE, "_score")


def inside_validation():
    """Return whether one of the nearest 60 callers fits a fold or a candidate of a search."""
    nearest_frames = itertools.islice(traceback.walk_stack(sys._getframe(1)), 60)
    return any(_function_of(frame) in _FIT_FUNCTIONS for frame, _ in nearest_frames)


def _function_of(frame):
    """Return the names of the module and of the function of a stack frame."""
    return frame.f_globals.get("__name__"), frame.f_code.co_name


def is_being_fitted(estimator):
    """Return whether an estimator has marked itself as being fitted, by ``_in_fit``."""
    return getattr(estimator, "_in_fit", False) is True


def fit_and_score(estimator, X, y, **options):
    """Fit and score one fold by scikit-learn's ``_fit_and_score``, and return its result, a dict.

    ``options`` that the installed version of scikit-learn does not have are left out.
    """
    supported_options = {
        name: value for name, value in options.items() if name in _FIT_AND_SCORE_PARAMETERS
    }
    return _fit_and_score(estimator, X, y, **supported_options)


def root_context(search, X, y, sample_weight):
    """Begin the task ``fit`` of a search; return its callback context, None without callbacks."""
    if not getattr(search, "_skl_callbacks", None):
        return None
    metadata = None if sample_weight is None else {"sample_weight": sample_weight}
    context = search._init_callback_context(max_subtasks=2)
    return context.call_on_fit_task_begin(estimator=search, X=X, y=y, metadata=metadata)


@contextlib.contextmanager
def progress_bar(search):
    """Show a bar of the finished fits of a search within a ``with`` block.

    A bar is shown only for ``verbose=1``, in a terminal or a notebook, with scikit-learn 1.9 and
    rich, and if the user has not set callbacks of the search.
    """
    has_user_callbacks = bool(getattr(search, "_skl_callbacks", None))
    if search.verbose != 1 or has_user_callbacks or not _can_draw_bars():
        yield
        return
    from sklearn.callback import ProgressBar

    search.set_callbacks(ProgressBar(max_propagation_depth=0))
    try:
        yield
    finally:
        search.set_callbacks()


def _can_draw_bars():
    """Return whether scikit-learn and rich can draw bars, in a terminal or a notebook."""
    if not hasattr(SuccessiveHalving, "set_callbacks"):
        return False
    try:
        import rich
    except ImportError:
        return False
    console = rich.get_console()
    return console.is_terminal or console.is_jupyter


class NullCallbackContext:
    """Callback context of a search without callbacks; its methods have no effect."""

    def subcontext(self, **options):
        """Return the context of a subtask: this one."""
        return self

    call_on_fit_task_begin = call_on_fit_task_end = subcontext


def halve(search, evaluate, context):
    """Run scikit-learn's successive halving.

    ``evaluate``: the function ``evaluate_candidates`` that scikit-learn passes to ``_run_search``;
    ``context``: callback context, or None. Before scikit-learn 1.9 ``context`` is not used.
    """
    parameters = inspect.signature(SuccessiveHalving._run_search).parameters
    options = {}
    if "callback_ctx" in parameters:
        options["callback_ctx"] = context or NullCallbackContext()
    SuccessiveHalving._run_search(search, evaluate, **options)
