"""Every private name of scikit-learn that this package uses, in one place.

``tests/utils/test_sklearn_compat.py`` pins them, so that a release of scikit-learn
that moves one fails one test with a clear name instead of breaking imports everywhere.
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
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils._response import _get_response_values as get_response_values
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.metaestimators import _safe_split as safe_split
from sklearn.utils.validation import _check_method_params as check_method_params
from sklearn.utils.validation import _num_samples as num_samples

_KNOWN = frozenset(inspect.signature(_fit_and_score).parameters)
_VALIDATION, _SCORERS = "sklearn.model_selection._validation", "sklearn.metrics._scorer"
_FITS = {(_VALIDATION, "_fit_and_score"), ("sklearn_bdp.evaluation.candidates", "fit_clone")}


def is_frame(X):
    """Return whether ``X`` is a pandas or polars frame: columns with names, taken by name."""
    return hasattr(X, "columns") and (hasattr(X, "iloc") or hasattr(X, "get_columns"))


def as_indices(X, positions):
    """Return positions in the namespace of an array of the array API, which takes no other."""
    namespace = getattr(X, "__array_namespace__", None)
    if positions is None or namespace is None or isinstance(X, np.ndarray):
        return positions
    return namespace().asarray(positions)


def gives_frames(transformer):
    """Return whether a transformer returns frames, by ``set_output`` or by the global setting."""
    return _get_output_config("transform", transformer)["dense"] != "default"


def holds_numbers(frame):
    """Return whether all columns of a frame are plain numbers, so that an array can hold them."""
    return all(_is_number(dtype) for dtype in frame.dtypes)


def _is_number(dtype):
    if isinstance(dtype, np.dtype):
        return dtype.kind in "biuf"
    is_numeric = getattr(dtype, "is_numeric", None)  # of polars; pandas' own types are kept
    return is_numeric is not None and (is_numeric() or str(dtype) == "Boolean")


def called_by_validation():
    """Return whether the scorer that asks was called by cross-validation.

    Cross-validation turns whatever a scorer raises into NaN (``error_score``), and scores a model
    on the rows it was trained on after those it was tested on; no argument tells a scorer so.
    """
    frame = sys._getframe(2)
    if frame.f_globals.get("__name__") == _SCORERS and frame.f_back:  # several metrics
        frame = frame.f_back
    return _place(frame) == (_VALIDATION, "_score")


def inside_validation():
    """Return whether a fold of cross-validation, or a candidate of a search, is being fitted."""
    nearest = itertools.islice(traceback.walk_stack(sys._getframe(1)), 60)
    return any(_place(frame) in _FITS for frame, _ in nearest)


def _place(frame):
    return frame.f_globals.get("__name__"), frame.f_code.co_name


def is_being_fitted(estimator):
    """Return whether a scorer is called in the middle of ``fit``, as early stopping does."""
    return getattr(estimator, "_in_fit", False) is True


def fit_and_score(estimator, X, y, **options):
    """Fit on one fold and score, by scikit-learn; before 1.9 there are no callbacks."""
    return _fit_and_score(estimator, X, y, **{k: v for k, v in options.items() if k in _KNOWN})


def root_context(search, X, y, weight):
    """Return the root of the tree of tasks for callbacks; None if there are none.

    They came with 1.9.
    """
    if not getattr(search, "_skl_callbacks", None):
        return None
    metadata = None if weight is None else {"sample_weight": weight}
    context = search._init_callback_context(max_subtasks=2)
    return context.call_on_fit_task_begin(estimator=search, X=X, y=y, metadata=metadata)


@contextlib.contextmanager
def progress_bar(search):
    """Show a bar of the finished fits of a verbose search in a terminal or a notebook.

    The bar is scikit-learn's callback, which needs scikit-learn 1.9 and rich. Callbacks that the
    user has set are left as they are.
    """
    has_own_callbacks = bool(getattr(search, "_skl_callbacks", None))
    if search.verbose != 1 or has_own_callbacks or not _can_draw_bars():
        yield
        return
    from sklearn.callback import ProgressBar

    search.set_callbacks(ProgressBar(max_propagation_depth=0))
    try:
        yield
    finally:
        search.set_callbacks()


def _can_draw_bars():
    """Return whether bars can be drawn, and the output is a terminal or a notebook."""
    if not hasattr(SuccessiveHalving, "set_callbacks"):
        return False
    try:
        import rich
    except ImportError:
        return False
    console = rich.get_console()
    return console.is_terminal or console.is_jupyter


class NullCallbackContext:
    """The context of a search that no callback listens to."""

    def subcontext(self, **options):
        """Return the context of a part."""
        return self

    call_on_fit_task_begin = call_on_fit_task_end = subcontext


def halve(search, evaluate, context):
    """Run scikit-learn's successive halving; before 1.9 there are no callbacks."""
    takes = inspect.signature(SuccessiveHalving._run_search).parameters
    options = {"callback_ctx": context or NullCallbackContext()} if "callback_ctx" in takes else {}
    SuccessiveHalving._run_search(search, evaluate, **options)
