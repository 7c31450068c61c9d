"""Fixes for arguments that a class does not have, but a similar class has."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from sklearn_bdp.utils.sklearn_compat import InvalidParameterError

_Class = TypeVar("_Class", bound=type[Any])
_MAX_LENGTH = 60  # characters of an argument in a message


def with_argument_hints(
    hints: Mapping[str, str], required: Mapping[str, str] | None = None
) -> Callable[[_Class], _Class]:
    """Return a class decorator that explains arguments of other classes, and missing ones.

    Parameters
    ----------
    hints : mapping of str to str
        Fix by name of an argument that the class does not have. ``(...)`` stands for a call with
        that argument.
    required : mapping of str to str, default=None
        Fix by name of an argument without a default, for a call without it.

    Returns
    -------
    callable
        A decorator. ``__init__`` of the class then raises TypeError with the fix. Its signature,
        from which scikit-learn reads the parameters, is kept.
    """

    def decorate(decorated_class: _Class) -> _Class:
        init = decorated_class.__init__
        argument_names = list(inspect.signature(init).parameters)[1:]  # without self

        @functools.wraps(init)
        def checked_init(self, *args, **kwargs):
            for name, value in kwargs.items():
                if name in hints:
                    hint = hints[name].replace("(...)", f"({_argument_text(name, value)})")
                    raise TypeError(f"{decorated_class.__name__} has no argument {name!r}. {hint}")
            for name in argument_names[len(args) :]:
                if name in (required or {}) and name not in kwargs:
                    raise TypeError(
                        f"{decorated_class.__name__} needs the argument {name!r}. {required[name]}"
                    )
            init(self, *args, **kwargs)

        decorated_class.__init__ = checked_init
        return decorated_class

    return decorate


def _argument_text(name, value):
    """Return the code of an argument, ``...`` for a long value or one that may be a URL."""
    text = f"{name}={value!r}"
    return text if len(text) <= _MAX_LENGTH and "://" not in text else "..."


def with_parameter_hint(
    error: InvalidParameterError, hints: Mapping[str, str]
) -> InvalidParameterError:
    """Return an error of scikit-learn's parameter validation that also states a fix.

    Parameters
    ----------
    error : InvalidParameterError
        Its text begins with the name of the parameter.
    hints : mapping of str to str
        Fix by name of a parameter.

    Returns
    -------
    InvalidParameterError
        A new error with the fix; the same error if there is no hint for its parameter.
    """
    match = re.match(r"The '(\w+)' parameter of", str(error))
    if match is None or match[1] not in hints:
        return error
    return InvalidParameterError(f"{error} {hints[match[1]]}")
