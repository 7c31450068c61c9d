"""Immutable objects, and a cache of results for each object."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

import numpy as np

from sklearn_bdp.utils.hashing import bytes_digest

Result = TypeVar("Result")

_MAX_CACHED = 512  # results of one object


class FrozenValue:
    """Base class of objects that never change: comparable, hashable, picklable, cheap to copy.

    Two values are equal when they are of one class and hold the same content.
    """

    #: Name of the class in fingerprints. Ledgers hold fingerprints, so this name stays if the class
    #: is renamed.
    fingerprint_name: ClassVar[str]

    _content: tuple[Any, ...]  # two values are equal if their contents are
    _memory: dict[Any, Any]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "fingerprint_name" not in vars(cls):  # never that of a base class
            cls.fingerprint_name = cls.__name__

    def _freeze(self, *content):
        """Set the content, and allow no further change.

        ``content``: text, numbers, tuples and arrays; values of one class with equal content are
        equal.
        """
        set_content(self, content)

    def fingerprint(self) -> str:
        """Return the SHA-256 of ``fingerprint_name`` and content, the same for equal values.

        Returns
        -------
        str
            64 hexadecimal digits.
        """
        chunks = [self.fingerprint_name.encode()]
        for item in self._content:
            if isinstance(item, np.ndarray):
                dtype = np.int64 if item.dtype.kind == "i" else None  # equal on all platforms
                array = np.ascontiguousarray(item, dtype)
                chunks += [f"|{array.dtype.str}{array.shape}|".encode(), array.tobytes()]
            else:
                chunks.append(f"|{item!r}".encode())
        return bytes_digest(chunks)

    def __setattr__(self, name, value):
        if self.__dict__.get("_frozen", False):
            raise AttributeError(f"{type(self).__name__} is frozen: make a new one instead.")
        super().__setattr__(name, value)

    def __getstate__(self):
        return {key: value for key, value in vars(self).items() if key != "_memory"}

    def __setstate__(self, state):
        vars(self).update(state)
        set_content(self, self._content)

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    def __eq__(self, value):
        if not isinstance(value, FrozenValue):
            return NotImplemented
        return type(self) is type(value) and self.fingerprint() == value.fingerprint()

    def __hash__(self):
        return hash(self.fingerprint())


def set_content(value: FrozenValue, content: tuple[Any, ...]) -> None:
    """Set the content that makes values equal, and allow no further change."""
    for attribute in vars(value).values():
        if isinstance(attribute, np.ndarray):
            attribute.setflags(write=False)
    vars(value).update(_content=content, _memory={}, _frozen=True)


def cached(value: FrozenValue, key: Any, compute: Callable[[], Result]) -> Result:
    """Return ``compute()``, or the result that the cache of ``value`` has for ``key``.

    A new result is cached; a full cache is emptied before. The cache is not pickled.
    """
    memory = value._memory
    if key not in memory:
        if len(memory) >= _MAX_CACHED:
            memory.clear()
        memory[key] = compute()
    return memory[key]
