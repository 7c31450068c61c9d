"""What is said of fits that failed: the cause first, in one line, then the traceback."""

import collections
import warnings

from sklearn.exceptions import FitFailedWarning

from sklearn_bdp._checks import caller_level

_START = "Traceback (most recent call last):"


def cause_of(errors):
    """Return in one line what most of these tracebacks end in."""
    (cause, _), *_ = collections.Counter(map(_cause, errors)).most_common(1)
    return cause


def _cause(text):
    """Return the line of a traceback that names the error, without what follows in its message."""
    lines = text.rpartition(_START)[2].strip("\n").splitlines()
    said = (line for line in lines if line.strip() and not line[0].isspace())
    return next(said, text.strip().rpartition("\n")[2]).strip()


def all_failed(errors, what):
    """Return the error that says why no fit succeeded; ``what``: a sentence about the fits."""
    return ValueError(f"{cause_of(errors)}\n{what} The last one said:\n{errors[-1]}")


def warn_some_failed(errors, what, told=None):
    """Warn of fits that failed; ``what``: how many of which, and what became of them.

    ``told``: causes that were told before, to which this one is added; once is enough.
    """
    cause = cause_of(errors)
    if told is not None and cause in told:
        return
    if told is not None:
        told.add(cause)
    warnings.warn(
        f"{cause}\n{what} The last one said:\n{errors[-1]}",
        FitFailedWarning,
        stacklevel=caller_level(),
    )
