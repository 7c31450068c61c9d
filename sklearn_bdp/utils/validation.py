"""Checks of arguments: errors name the parameter, the rule and the value, and carry no scores.

Conditions are written positively (``if not value > 0: raise``), so that NaN fails closed.
"""

import functools
import math
import numbers
import sys
import warnings
from decimal import Decimal
from typing import cast

import numpy as np

from sklearn_bdp._typing import Array, Method
from sklearn_bdp.exceptions import RowOrderWarning

_LARGEST = 10**300  # the largest integers that formulas take are doubles


def check_real(name, value, *, low=-math.inf, high=math.inf, closed="both"):
    """Return ``value`` as a finite float in an interval; ``closed``: which ends belong to it."""
    if _is_no_number(value):
        raise TypeError(f"{name} must be a real number, got {name}={value!r}.")
    try:
        result = float(value)
    except OverflowError:  # an integer beyond the largest double
        result = math.inf
    above = result >= low if closed in ("both", "left") else result > low
    below = result <= high if closed in ("both", "right") else result < high
    if not (above and below and math.isfinite(result)):
        left = "[" if closed in ("both", "left") and math.isfinite(low) else "("
        right = "]" if closed in ("both", "right") and math.isfinite(high) else ")"
        within = f"{left}{low:g}, {high:g}{right}"
        raise ValueError(f"{name} must be a finite number in {within}, got {name}={value!r}.")
    return result


def check_integer(name, value, *, low=None, high=None):
    """Return ``value`` as an int, at least ``low`` and at most ``high``."""
    if type(value) is not int and (_is_no_number(value) or not isinstance(value, numbers.Integral)):
        raise TypeError(f"{name} must be an integer, got {name}={value!r}.")
    result = int(value)
    if not abs(result) <= _LARGEST:
        raise ValueError(f"{name} must be an integer of at most {_LARGEST:.0g}.")
    if low is not None and not result >= low:
        raise ValueError(f"{name} must be an integer of at least {low}, got {name}={result}.")
    if high is not None and not result <= high:
        raise ValueError(f"{name} must be an integer of at most {high}, got {name}={result}.")
    return result


def check_option(name, value, options):
    """Return ``value`` if it is one of ``options`` (strings)."""
    if not isinstance(value, str) or value not in options:
        allowed = ", ".join(repr(option) for option in options)
        raise ValueError(f"{name} must be one of {allowed}, got {name}={value!r}.")
    return value


def check_probability(name, value):
    """Return ``value`` as a float strictly between 0 and 1."""
    return check_real(name, value, low=0.0, high=1.0, closed="neither")


def check_beta(value):
    """Return the probability of a miss: strictly above 0 and at most 1/2."""
    beta = check_probability("beta", value)
    if not beta <= 0.5:
        raise ValueError(
            "beta must be at most 0.5: it is the probability that an interval is wrong, so for "
            f"{beta:.4g} confidence give beta={1.0 - beta:.4g}, got beta={value!r}."
        )
    return beta


def failure_probability(confidence_level):
    """Return the probability that an interval is wrong at a confidence level in [0.5, 1).

    The difference is taken in decimals: ``1 - 0.95`` in floating point is not ``0.05``, and a
    ledger must find its own settings again.
    """
    level = check_probability("confidence_level", confidence_level)
    if not level >= 0.5:
        raise ValueError(
            "confidence_level must be at least 0.5: it is the probability that all intervals are "
            f"correct. Set confidence_level={1.0 - level:.4g} if intervals may be wrong with "
            f"probability {level:.4g}. Got confidence_level={confidence_level!r}."
        )
    decimal_places = isinstance(confidence_level, float | np.floating)
    return float(1 - Decimal(str(confidence_level if decimal_places else level)))


def check_fraction(name, value):
    """Return a part of the records as a float strictly between 0 and 1."""
    if not _is_no_number(value) and 1 < value < math.inf and value == int(value):
        raise ValueError(
            f"{name} must be a fraction in (0, 1), got {name}={value!r}. To hold out "
            f"{int(value)} of your records, pass {name}={int(value)} / len(X)."
        )
    return check_probability(name, value)


def check_boolean(name, value):
    """Return ``value`` as a bool if it is one."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, got {name}={value!r}.")
    return bool(value)


def as_real_array(name, value):
    """Return ``value`` as a float array; what numpy would silently make numbers of is refused.

    Complex numbers lose a part, durations their unit, masked entries their mask and text its
    meaning on the way to floating point.
    """
    if type(value) is np.ndarray and value.dtype == float:  # nearly all there is
        return value.copy()
    kind = type(value).__name__
    if isinstance(value, np.ma.MaskedArray) and np.ma.getmaskarray(value).any():
        raise ValueError(f"{name} must have no masked entries, got {kind} with some.")
    try:
        array = np.asarray(value)
        if array.dtype.kind == "O":
            sound = not any(_is_no_number(each) for each in array.ravel())
        else:
            sound = array.dtype.kind in "iuf" or (array.dtype.kind == "b" and array.ndim > 0)
        if sound:
            return array.astype(float)
    except (TypeError, ValueError, OverflowError):
        pass  # the message of that error could quote what was passed
    raise TypeError(f"{name} must be an array of numbers (real ones), got {kind}.")


#: Types that need no second look: nearly all there is.
_NUMBERS = frozenset({int, float, np.float64, np.int64})
#: numpy counts durations among the integers.
_NO_NUMBERS = (bool, np.bool_, np.timedelta64)


def _is_no_number(value):
    """Return whether a value is no real number."""
    if type(value) in _NUMBERS:
        return False
    return isinstance(value, _NO_NUMBERS) or not isinstance(value, numbers.Real)


def as_frame(data):
    """Return a table or column of pyarrow as the frame or series of its values, others as is."""
    return data.to_pandas() if type(data).__module__.startswith("pyarrow") else data


def check_supported_values(name, data):
    """Raise where an array's values are masked, complex or dates: no estimator means them."""
    kind = getattr(getattr(data, "dtype", None), "kind", "O")
    if isinstance(data, np.ma.MaskedArray) or kind in "cmM":
        what = "masked" if isinstance(data, np.ma.MaskedArray) else str(data.dtype)
        raise TypeError(f"{name} must hold real numbers, labels or objects, got {what} values.")


def check_index_alignment(name, values, X, *, of="X"):
    """Raise where two pandas objects name the same records in another order.

    Records are matched by their places, as everywhere in scikit-learn; indices that name the same
    records in another order say that they should not be. Where one of them only counts records,
    a warning says so: it may have been numbered anew.
    """
    ours, theirs = getattr(X, "index", None), getattr(values, "index", None)
    if not (hasattr(ours, "equals") and hasattr(theirs, "equals")):
        return
    if len(ours) != len(theirs) or theirs.equals(ours):  # at once, where all is well
        return
    if not (theirs.isin(ours).all() and ours.isin(theirs).all()):
        return
    said = (
        f"{name} must be in the order of {of}, got the same index in another order. Rows are "
        f"matched by their places: pass {name}.loc[{of}.index], or {name}.to_numpy() if the "
        "places are right and the index means nothing."
    )
    if list(range(len(ours))) not in (list(ours), list(theirs)):
        raise ValueError(f"{said} Nothing was asked.")
    warnings.warn(said, RowOrderWarning, stacklevel=caller_level())  # perhaps numbered anew


def check_targets(name, y):
    """Raise where targets are no targets: of a wrong kind, missing, or text among numbers."""
    check_supported_values(name, y)
    values = np.asarray(y)
    if values.dtype.kind == "U" and isinstance(y, list | tuple):  # what else may have become text
        values = np.asarray(y, dtype=object)
    missing = 0
    if values.dtype.kind == "f":
        missing = int(np.count_nonzero(~np.isfinite(values)))
    elif values.dtype.kind == "O":
        missing = sum(map(_is_missing, values.ravel()))
    if missing:
        raise ValueError(f"{name} must hold a target for each record, got {missing} missing.")
    columns = values.T if values.ndim == 2 else [values.ravel()]
    if values.dtype.kind == "O" and any(len({isinstance(v, str) for v in c}) > 1 for c in columns):
        raise ValueError(f"{name} must hold labels of one type, got text and other values.")


def check_label_values(y):
    """Raise where targets are missing, or are labels of mixed types."""
    if y is None:
        return
    values = np.asarray(y)
    # Models name infinite values as scikit-learn does.
    if values.dtype.kind in "OU" or (values.dtype.kind == "f" and np.isnan(values).any()):
        check_targets("y", y)


def _is_missing(value):
    """Return whether a cell marks a missing value."""
    if isinstance(value, float | np.floating):
        return bool(np.isnan(value))
    return value is None or type(value).__name__ in ("NAType", "NaTType")


#: The largest number, and how many are looked at one by one: a reduction takes as long as twenty.
_FINITE, _FEW = sys.float_info.max, 4


def check_array(name, value, *, shape=None, low=-math.inf, high=math.inf) -> Array:
    """Return ``value`` as a finite float array of the given shape and range.

    ``shape`` may hold ``None`` for lengths that are free.
    """
    array = as_real_array(name, value)
    if shape is not None and not (
        array.ndim == len(shape)
        and all(want is None or want == got for want, got in zip(shape, array.shape, strict=True))
    ):
        wanted = str(shape).replace("None", "any")
        raise ValueError(f"{name} must have shape {wanted}, got {array.shape}.")
    ends = array.ravel().tolist() if array.size <= _FEW else (array.min(), array.max())
    least, most = max(low, -_FINITE), min(high, _FINITE)
    if [end for end in ends if not least <= end <= most]:
        bad = array[~((array >= low) & (array <= high) & np.isfinite(array))]
        rule = f"must hold finite numbers in [{low:g}, {high:g}]"
        raise ValueError(f"{name} {rule}, got {float(bad[0])!r} ({bad.size} outside).")
    return array


def caller_level():
    """Return the ``stacklevel`` at which a warning of the caller points at the code of the user."""
    level, found, frame = 1, 1, sys._getframe(1)
    while frame is not None:
        room = f"{frame.f_globals.get('__name__')}".split(".")[0]
        if room == "sklearn_bdp":
            found = level + 1
        elif room not in ("sklearn", "joblib", "contextlib"):  # they call back into the package
            break
        level, frame = level + 1, frame.f_back
    return found


def strip_traceback_frames(method: Method) -> Method:
    """Let errors leave ``method`` without the frames and causes that could hold raw scores.

    A traceback keeps every local variable of every frame alive, and debuggers, loggers and
    notebooks print them. To see the inner frames, call the undecorated ``__wrapped__``.
    """

    @functools.wraps(method)
    def wrapper(*args, **kwargs):
        try:
            return method(*args, **kwargs)
        except BaseException as error:
            failure = error
        failure.__cause__ = failure.__context__ = None
        del args, kwargs  # what the caller passed is in the caller's frame already
        try:
            raise failure.with_traceback(None)
        finally:
            del failure

    return cast(Method, wrapper)
