"""Fixes for arguments that a class does not have, but a similar class has."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

_Class = TypeVar("_Class", bound=type[Any])


def with_argument_hints(hints: Mapping[str, str]) -> Callable[[_Class], _Class]:
    """Return a class decorator that explains arguments of other classes.

    Parameters
    ----------
    hints : mapping of str to str
        Fix by name of an argument that the class does not have.

    Returns
    -------
    callable
        Keeps the signature of ``__init__``, from which scikit-learn reads the parameters.
    """

    def decorate(decorated_class: _Class) -> _Class:
        init = decorated_class.__init__

        @functools.wraps(init)
        def checked_init(self, *args, **kwargs):
            for name in kwargs:
                if name in hints:
                    raise TypeError(
                        f"{decorated_class.__name__} has no argument {name!r}. {hints[name]}"
                    )
            init(self, *args, **kwargs)

        decorated_class.__init__ = checked_init
        return decorated_class

    return decorate
