"""Checks of arguments: errors name the parameter and the rule, and carry no scores.

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
import scipy.sparse

from sklearn_bdp._typing import Array, Method
from sklearn_bdp.exceptions import RowOrderWarning

_LARGEST_INTEGER = 10**300  # larger ones would overflow as doubles


def check_real(name, value, *, low=-math.inf, high=math.inf, closed="both"):
    """Return ``value`` as a finite float between ``low`` and ``high``.

    ``name``: name of the parameter in messages; ``closed``: the ends that are allowed, "both",
    "left", "right" or "neither". Raises TypeError for other values than real numbers, ValueError
    for numbers outside.
    """
    if _is_not_real(value):
        raise TypeError(f"{name} must be a real number, got {name}={value!r}.")
    try:
        number = float(value)
    except OverflowError:  # an integer beyond the largest double
        number = math.inf
    has_low = closed in ("both", "left")
    has_high = closed in ("both", "right")
    satisfies_low = number >= low if has_low else number > low
    satisfies_high = number <= high if has_high else number < high
    if not (satisfies_low and satisfies_high and math.isfinite(number)):
        interval = _interval_text(low, high, has_low=has_low, has_high=has_high)
        raise ValueError(f"{name} must be a finite number in {interval}, got {name}={value!r}.")
    return number


def _interval_text(low, high, *, has_low, has_high):
    """Return an interval as text; ``has_low``, ``has_high``: whether it contains finite ends."""
    opening = "[" if has_low and math.isfinite(low) else "("
    closing = "]" if has_high and math.isfinite(high) else ")"
    return f"{opening}{low:g}, {high:g}{closing}"


def check_integer(name, value, *, low=None, high=None):
    """Return ``value`` as an int, at least ``low`` and at most ``high`` unless these are None."""
    if type(value) is not int and (_is_not_real(value) or not isinstance(value, numbers.Integral)):
        raise TypeError(f"{name} must be an integer, got {name}={value!r}.")
    number = int(value)
    if not abs(number) <= _LARGEST_INTEGER:
        raise ValueError(f"{name} must be an integer of at most {_LARGEST_INTEGER:.0g}.")
    if low is not None and not number >= low:
        raise ValueError(f"{name} must be an integer of at least {low}, got {name}={number}.")
    if high is not None and not number <= high:
        raise ValueError(f"{name} must be an integer of at most {high}, got {name}={number}.")
    return number


def check_option(name, value, options):
    """Return ``value``; raise ValueError unless it is one of ``options``, which are strings."""
    if not isinstance(value, str) or value not in options:
        allowed = ", ".join(repr(option) for option in options)
        raise ValueError(f"{name} must be one of {allowed}, got {name}={value!r}.")
    return value


def check_probability(name, value):
    """Return ``value`` as a float; raise an error unless it is strictly between 0 and 1."""
    return check_real(name, value, low=0.0, high=1.0, closed="neither")


def check_beta(value):
    """Return ``value``, the probability that any answer is wrong, as a float in (0, 1/2]."""
    beta = check_probability("beta", value)
    if not beta <= 0.5:
        raise ValueError(
            "beta must be at most 0.5: it is the probability that any answer is wrong, so for "
            f"{beta:.4g} confidence give beta={1.0 - beta:.4g}, got beta={value!r}."
        )
    return beta


def failure_probability(confidence_level):
    """Return 1 minus a confidence level in [0.5, 1), computed in decimals.

    At 0.95 the result is the float 0.05. Raises ValueError for other numbers.
    """
    if isinstance(confidence_level, numbers.Real) and 50 <= confidence_level < 100:
        raise ValueError(
            f"confidence_level must be a number in [0.5, 1), got {confidence_level!r}. Set "
            f"confidence_level={confidence_level / 100:g} for {confidence_level:g}%."
        )
    level = check_probability("confidence_level", confidence_level)
    if not level >= 0.5:
        raise ValueError(
            "confidence_level must be at least 0.5: it is the probability that all intervals are "
            f"correct. Set confidence_level={1.0 - level:.4g} if intervals may be wrong with "
            f"probability {level:.4g}. Got confidence_level={confidence_level!r}."
        )
    if not isinstance(confidence_level, float | np.floating):
        confidence_level = level  # other numbers may have no decimal text
    return float(1 - Decimal(str(confidence_level)))


def confidence_level(failure_probability):
    """Return 1 minus a failure probability, computed in decimals."""
    return float(1 - Decimal(str(failure_probability)))


def check_fraction(name, value):
    """Return ``value``, a fraction of the records, as a float strictly between 0 and 1."""
    if not _is_not_real(value) and 1 < value < math.inf and value == int(value):
        raise ValueError(
            f"{name} must be a fraction in (0, 1), got {name}={value!r}. To hold out "
            f"{int(value)} of your records, pass {name}={int(value)} / len(X)."
        )
    return check_probability(name, value)


def check_boolean(name, value):
    """Return ``value`` as a bool; raise TypeError unless it is True or False."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, got {name}={value!r}.")
    return bool(value)


def as_real_array(name, value):
    """Return ``value`` as a float array, a copy.

    Raises ValueError for masked entries, and TypeError for values that are not real numbers, such
    as complex numbers, durations and text. ``name``: name of the parameter in messages.
    """
    if type(value) is np.ndarray and value.dtype == float:  # the usual case
        return value.copy()
    type_name = type(value).__name__
    if isinstance(value, np.ma.MaskedArray) and np.ma.getmaskarray(value).any():
        raise ValueError(f"{name} must have no masked entries, got {type_name} with some.")
    try:
        array = np.asarray(value)
        if _holds_real_numbers(array):
            return array.astype(float)
    except (TypeError, ValueError, OverflowError):
        pass  # the message of that error could quote the values
    raise TypeError(f"{name} must be an array of numbers (real ones), got {type_name}.")


def _holds_real_numbers(array):
    """Return whether an array holds real numbers only.

    True for boolean arrays, but not for a single boolean or booleans in an array of objects.
    """
    if array.dtype.kind == "O":
        return not any(_is_not_real(element) for element in array.ravel())
    return array.dtype.kind in "iuf" or (array.dtype.kind == "b" and array.ndim > 0)


#: Usual types of real numbers, which need no further check.
_REAL_TYPES = frozenset({int, float, np.float64, np.int64})
#: Types that are subclasses of numbers but not real numbers; numpy's durations are integers.
_NOT_REAL_TYPES = (bool, np.bool_, np.timedelta64)


def _is_not_real(value):
    """Return whether a value is not a real number; True for booleans and durations."""
    if type(value) in _REAL_TYPES:
        return False
    return isinstance(value, _NOT_REAL_TYPES) or not isinstance(value, numbers.Real)


def as_frame(data):
    """Return a table or column of pyarrow as a frame or series of pandas, other data unchanged."""
    return data.to_pandas() if type(data).__module__.startswith("pyarrow") else data


def check_supported_values(name, data):
    """Raise TypeError if values are masked, complex, dates or durations.

    ``name``: name of the parameter in the message. Only data with a single ``dtype`` are checked.
    """
    dtype_kind = getattr(getattr(data, "dtype", None), "kind", "O")
    if isinstance(data, np.ma.MaskedArray) or dtype_kind in "cmM":
        type_name = "masked" if isinstance(data, np.ma.MaskedArray) else str(data.dtype)
        raise TypeError(
            f"{name} must hold real numbers, labels or objects, got {type_name} values."
        )


def check_index_alignment(name, values, X, *, of="X"):
    """Raise ValueError if the indices of two pandas objects have the same labels in another order.

    ``name`` and ``of``: names of ``values`` and ``X`` in the message. If one of the indices is 0,
    1, …, a RowOrderWarning is given instead. Indices of different lengths are not compared.
    """
    X_index = getattr(X, "index", None)
    values_index = getattr(values, "index", None)
    if not (hasattr(X_index, "equals") and hasattr(values_index, "equals")):
        return
    if len(X_index) != len(values_index) or values_index.equals(X_index):
        return
    if not (values_index.isin(X_index).all() and X_index.isin(values_index).all()):
        return
    message = (
        f"{name} must be in the order of {of}, got the same index in another order. Rows are "
        f"matched by their places: pass {name}.loc[{of}.index], or {name}.to_numpy() if the "
        "places are right and the index means nothing."
    )
    if list(range(len(X_index))) not in (list(X_index), list(values_index)):
        raise ValueError(f"{message} The holdout was not queried.")
    warnings.warn(message, RowOrderWarning, stacklevel=caller_level())


def check_targets(name, y):
    """Raise an error if targets are missing, of an unsupported type, or text and other values.

    Infinite values in an array of floats count as missing. Sparse arrays are not supported.
    ``name``: name of the targets in messages.
    """
    check_supported_values(name, y)
    if scipy.sparse.issparse(y):
        raise TypeError(f"{name} must be a dense array, got a sparse one. Pass {name}.toarray().")
    values = np.asarray(y)
    if values.dtype.kind == "U" and isinstance(y, list | tuple):  # numbers may have become text
        values = np.asarray(y, dtype=object)
    n_missing = count_missing(values)
    if n_missing:
        raise ValueError(
            f"{name} must hold a target for each record, got {n_missing} missing. Drop these "
            "records from X and y."
        )
    columns = values.T if values.ndim == 2 else [values.ravel()]
    if values.dtype.kind == "O" and any(map(_mixes_text, columns)):
        raise ValueError(f"{name} must hold labels of one type, got text and other values.")


def count_missing(values):
    """Return the number of missing values in an array of objects or floats, 0 for other arrays.

    In an array of floats, infinite values count as missing.
    """
    if values.dtype.kind == "f":
        return int(np.count_nonzero(~np.isfinite(values)))
    return sum(map(is_missing, values.ravel())) if values.dtype.kind == "O" else 0


def _mixes_text(values):
    """Return whether some values are text and some are not."""
    return len({isinstance(value, str) for value in values}) > 1


def check_label_values(y):
    """Raise an error if targets are missing, or text and other values; ``y`` may be None.

    Infinite values in an array of floats without NaN are accepted.
    """
    if y is None:
        return
    values = np.asarray(y)
    # Models name infinite values as scikit-learn does.
    if values.dtype.kind in "OU" or (values.dtype.kind == "f" and np.isnan(values).any()):
        check_targets("y", y)


def is_missing(value):
    """Return whether a value is NaN, None, or pandas' NA or NaT."""
    if isinstance(value, float | np.floating):
        return bool(np.isnan(value))
    return value is None or type(value).__name__ in ("NAType", "NaTType")


_LARGEST_FLOAT = sys.float_info.max
#: Size of arrays up to which all values are compared.
_SMALL_SIZE = 4


def check_array(name, value, *, shape=None, low=-math.inf, high=math.inf) -> Array:
    """Return a copy of ``value`` as a float array of finite numbers from ``low`` to ``high``.

    ``shape``: required shape, with ``None`` for lengths that are free; None: all shapes are
    allowed. Raises TypeError for other values than real numbers, and ValueError for other numbers
    and shapes.
    """
    array = as_real_array(name, value)
    if shape is not None and not _has_shape(array, shape):
        required_shape = str(shape).replace("None", "any")
        raise ValueError(f"{name} must have shape {required_shape}, got {array.shape}.")
    if array.size <= _SMALL_SIZE:
        values_or_extremes = array.ravel().tolist()
    else:
        values_or_extremes = [array.min(), array.max()]
    finite_low = max(low, -_LARGEST_FLOAT)
    finite_high = min(high, _LARGEST_FLOAT)
    if not all(finite_low <= number <= finite_high for number in values_or_extremes):
        is_allowed = (array >= low) & (array <= high) & np.isfinite(array)
        invalid_values = array[~is_allowed]
        rule = f"must hold finite numbers in [{low:g}, {high:g}]"
        example = float(invalid_values[0])
        raise ValueError(f"{name} {rule}, got {example!r} ({invalid_values.size} outside).")
    return array


def _has_shape(array, shape):
    """Return whether an array has a shape; None in ``shape`` stands for any length."""
    return array.ndim == len(shape) and all(
        length is None or length == n for length, n in zip(shape, array.shape, strict=True)
    )


def caller_level():
    """Return the ``stacklevel`` with which a warning of the caller names the code of the user."""
    level = 1
    user_level = 1
    frame = sys._getframe(1)
    while frame is not None:
        package = f"{frame.f_globals.get('__name__')}".split(".")[0]
        if package == "sklearn_bdp":
            user_level = level + 1
        elif package not in ("sklearn", "joblib", "contextlib"):  # they call back into the package
            break
        level += 1
        frame = frame.f_back
    return user_level


def strip_traceback_frames(method: Method) -> Method:
    """Return a method whose errors have no inner frames and no causes, which could hold raw scores.

    To see the inner frames, call the undecorated ``__wrapped__``.
    """

    @functools.wraps(method)
    def wrapper(*args, **kwargs):
        try:
            return method(*args, **kwargs)
        except BaseException as error:
            failure = error  # ``error`` is deleted after this block
        failure.__cause__ = failure.__context__ = None
        del args, kwargs  # they are in the caller's frame already
        try:
            raise failure.with_traceback(None)
        finally:
            del failure

    return cast(Method, wrapper)
