"""Tracebacks that carry no scores."""

import functools
from typing import cast

from sklearn_bdp._typing import Method


def sealed_errors(method: Method) -> Method:
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
