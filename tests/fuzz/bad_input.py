"""Bad input for every public entry point, and the possible outcomes of such calls.

Each call replaces one argument of a valid call. The allowed values of a parameter are written
down here a second time, apart from the checks of the package, as a predicate with three answers:
allowed, forbidden, or of no interest (an array of one number for a number). A forbidden value that
raises no error is silently wrong. An error should name the parameter.
"""

import contextlib
import datetime
import decimal
import fractions
import io
import math
import numbers
import operator
import re
import signal
import traceback
import warnings
from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import scipy.sparse as sp

SECONDS = 2  # longest time of one call


class Odd:
    """An object of no known kind."""


SCALARS = [
    None,
    True,
    False,
    -1,
    0,
    1,
    2,
    3,
    7,
    -3,
    10**400,
    0.0,
    -0.0,
    0.05,
    0.25,
    0.5,
    1.0,
    1.5,
    2.5,
    -0.5,
    1e-300,
    1e300,
    math.nan,
    math.inf,
    -math.inf,
    1j,
    0.5 + 0j,
    "0.5",
    "auto",
    "",
    "x",
    b"x",
    np.float32(0.5),
    np.float64(math.nan),
    np.int64(-3),
    np.int64(5),
    np.bool_(True),
    np.timedelta64(1, "D"),
    np.datetime64("2020-01-01"),
    datetime.timedelta(1),
    decimal.Decimal("0.5"),
    fractions.Fraction(1, 2),
    [],
    [0.5],
    (),
    (0.5,),
    (1, 2),
    {},
    {"a": 1},
    set(),
    range(3),
    Odd(),
    Odd,
    len,
    np.array(0.5),
    np.array([0.5]),
    np.array([math.nan]),
    np.array([]),
    np.ma.masked,
    np.ma.array([0.5], mask=[True]),
    slice(None),
    ...,
    NotImplemented,
    iter([1]),
    sp.csr_array(np.eye(2)),
    np.eye(2),
    "best",
    "raise",
    "cv",
    "accuracy",
    "all",
    "forward",
]


# -- allowed values of parameters -------------------------------------------------------------


#: numpy registers durations as integers.
_NO_NUMBERS = (bool, np.bool_, np.timedelta64)


def _is_array_of_one_number(value):
    """Return whether a value is an array of one number: not a mistake, and harmless."""
    if isinstance(value, np.ma.MaskedArray):
        return False
    return isinstance(value, np.ndarray) and value.size == 1 and value.dtype.kind in "fiu"


def _is_finite_real(value):
    """Return whether a value is a real number that fits into a finite float."""
    if isinstance(value, _NO_NUMBERS) or not isinstance(value, numbers.Real):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def _as_array(value):
    """Return a value as an array, or None for masked arrays, sparse arrays and ragged lists."""
    if isinstance(value, np.ma.MaskedArray) or sp.issparse(value):
        return None
    try:
        return np.asarray(value)
    except ValueError:
        return None


def real(low=-math.inf, high=math.inf, *, open_low=False, open_high=False):
    """A finite real number in an interval."""
    is_above_low = operator.gt if open_low else operator.ge
    is_below_high = operator.lt if open_high else operator.le

    def check(value):
        if _is_array_of_one_number(value) or isinstance(value, decimal.Decimal):
            return None
        if not _is_finite_real(value):
            return False
        number = float(value)
        return is_above_low(number, low) and is_below_high(number, high)

    return check


def integer(low=-math.inf, high=math.inf):
    """An integer from ``low`` to ``high``; a float of integer value is of no interest."""

    def check(value):
        is_whole_float = isinstance(value, float | np.floating) and value % 1 == 0
        if _is_array_of_one_number(value) or is_whole_float:
            return None
        if isinstance(value, _NO_NUMBERS) or not isinstance(value, numbers.Integral):
            return False
        if int(value) > 2**63:
            return None
        return bool(low <= value <= high)

    return check


def option(*names):
    """One of some strings."""
    return lambda value: isinstance(value, str) and value in names


def either(*rules):
    """Whatever one of several kinds allows."""

    def check(value):
        verdicts = [rule(value) for rule in rules]
        return True if True in verdicts else None if None in verdicts else False

    return check


def exactly(*values):
    """One of some values."""
    return lambda value: any(
        value is allowed_value or (type(value) is type(allowed_value) and value == allowed_value)
        for allowed_value in values
    )


def boolean(value):
    """A truth value; the integers 0 and 1 are of no interest."""
    return True if isinstance(value, bool | np.bool_) else None if _is_01(value) else False


def _is_01(value):
    return isinstance(value, numbers.Real) and value in (0, 1)


def anything(value):
    """Any value, without judgment: a wrong value has no meaning here or is another tool's task."""
    return


def nothing(value):
    """No scalar at all is allowed."""
    return False


def unit_array(shape):
    """Finite numbers in [0, 1] of some shape."""

    def check(value):
        array = _as_array(value)
        if array is None:
            return False
        if array.dtype.kind == "b":
            return None
        if array.dtype.kind == "O":
            return (
                None if all(isinstance(entry, numbers.Real) for entry in array.ravel()) else False
            )
        if array.dtype.kind not in "fiu":
            return False
        if array.shape != shape:
            # One number for one query, or the same for all, is of no interest.
            return None if array.size in (1, math.prod(shape)) else False
        return bool(((array >= 0) & (array <= 1)).all())

    return check


def finite_array(ndim):
    """Finite real numbers with some number of dimensions."""

    def check(value):
        array = _as_array(value)
        if array is None:
            return False
        if array.dtype.kind not in "fiu" or array.size == 0 or array.ndim != ndim:
            return None if array.dtype.kind in "bO" else False
        return None if np.isfinite(array).all() else False

    return check


# -- calls -----------------------------------------------------------------------------------


@dataclass
class Entry:
    """One public callable with valid arguments, and the allowed values of each of them."""

    name: str
    call: object
    valid: dict
    rules: dict
    pools: dict = field(default_factory=dict)
    aliases: dict = field(default_factory=dict)

    def calls(self):
        """Yield (parameter, value) of each call; allowed values are not bad input."""
        for name, is_allowed in self.rules.items():
            for value in self.pools.get(name, SCALARS):
                if is_allowed(value) is not True:
                    yield name, value


@dataclass
class Finding:
    """Outcome of one call."""

    entry: str
    parameter: str
    value: str
    outcome: str
    message: str = ""


OUTCOMES = (
    "named",
    "unnamed, ours",
    "unnamed, others'",
    "other exception",
    "too slow",
    "accepted",
    "silently wrong",
)


class _TooSlow(Exception):
    pass


@contextlib.contextmanager
def _limit(seconds):
    def raise_too_slow(*_):
        raise _TooSlow

    previous_handler = signal.signal(signal.SIGALRM, raise_too_slow)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, previous_handler)


def attempt(entry, parameter, value):
    """Make one call and return a :class:`Finding`."""
    is_allowed = entry.rules[parameter]
    allowed = is_allowed(value)
    finding = Finding(entry.name, parameter, f"{type(value).__name__} {str(value)[:40]}", "")
    try:
        with _limit(SECONDS), warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            entry.call(**{**entry.valid, parameter: value})
    except _TooSlow:
        finding.outcome = "too slow"
    except (TypeError, ValueError, RuntimeError) as error:
        finding.message = f"{type(error).__name__}: {str(error)[:200]}"
        names = [parameter, *entry.aliases.get(parameter, ())]
        frames = traceback.extract_tb(error.__traceback__)
        is_own_error = "sklearn_bdp" in frames[-1].filename
        if any(re.search(rf"\b{re.escape(name)}\b", str(error)) for name in names):
            finding.outcome = "named"
        else:
            finding.outcome = "unnamed, ours" if is_own_error else "unnamed, others'"
            finding.message += f" @{frames[-1].filename.rpartition('/')[2]}:{frames[-1].lineno}"
    except Exception as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        finding.outcome = "other exception"
        finding.message = (
            f"{type(error).__name__}: {str(error)[:150]} @{frame.filename}:{frame.lineno}"
        )
    else:
        finding.outcome = "silently wrong" if allowed is False else "accepted"
    return finding


def run(entries, *, keep=None):
    """Return the findings of all calls, or of every ``keep``-th."""
    findings = []
    calls = ((entry, *call) for entry in entries for call in entry.calls())
    for number, (called_entry, parameter, value) in enumerate(calls):
        if keep is None or number % keep == 0:
            findings.append(attempt(called_entry, parameter, value))
    return findings


def table(findings):
    """Return the findings as text: a row for each entry point, a column for each outcome."""
    rows = {}
    for finding in findings:
        rows.setdefault(finding.entry, Counter())[finding.outcome] += 1
    total = sum(rows.values(), Counter())
    width = max(map(len, [*rows, "total"]))
    lines = [" ".join([" " * width, f"{'calls':>7}", *(f"{outcome:>16}" for outcome in OUTCOMES)])]
    for name, counts in [*rows.items(), ("total", total)]:
        row_cells = [
            f"{sum(counts.values()):>7}",
            *(f"{counts[outcome]:>16}" for outcome in OUTCOMES),
        ]
        lines.append(" ".join([f"{name:<{width}}", *row_cells]))
    return "\n".join(lines)
