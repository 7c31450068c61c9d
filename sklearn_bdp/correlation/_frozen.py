"""Values that never change: compared by content, hashed by content, pickled without caches."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod

import numpy as np


class FrozenValue(ABC):
    """A value whose attributes are set once; subclasses call ``_freeze()`` when they are.

    Results may be remembered; the memory is bounded and never part of a pickle.
    """

    def __init_subclass__(cls, **kwargs):
        """Let overriding methods inherit the docstring, which states the contract once."""
        super().__init_subclass__(**kwargs)
        for name, member in vars(cls).items():
            if not name.startswith("_") and getattr(member, "__doc__", "") is None:
                member.__doc__ = getattr(getattr(super(cls, cls), name, None), "__doc__", None)

    @abstractmethod
    def _content(self):
        """Return the canonical content: a tuple of strings, numbers and arrays."""

    def fingerprint(self) -> str:
        """Return the SHA-256 of the canonical content, hexadecimal: equal for equal models."""
        digest = hashlib.sha256(type(self).__name__.encode())
        for part in self._content():
            if isinstance(part, np.ndarray):
                part = np.ascontiguousarray(part)
                digest.update(f"|{part.dtype.str}{part.shape}|".encode())
                digest.update(part.tobytes())
            else:
                digest.update(f"|{part!r}".encode())
        return digest.hexdigest()

    def _freeze(self):
        for value in vars(self).values():
            if isinstance(value, np.ndarray):
                value.setflags(write=False)
        self.__dict__["_memory"] = {}
        self.__dict__["_frozen"] = True

    def __setattr__(self, name, value):
        if self.__dict__.get("_frozen", False):
            raise AttributeError(f"{type(self).__name__} is frozen: make a new one instead.")
        super().__setattr__(name, value)

    def __getstate__(self):
        return {key: value for key, value in vars(self).items() if key != "_memory"}

    def __setstate__(self, state):
        self.__dict__.update(state)
        self._freeze()

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    def __eq__(self, other):
        if not isinstance(other, FrozenValue):
            return NotImplemented
        return type(self) is type(other) and self.fingerprint() == other.fingerprint()

    def __hash__(self):
        return hash(self.fingerprint())

    def _remember(self, key, compute):
        """Return ``compute()``, computed once per key (bounded memory, never pickled)."""
        memory = self._memory
        if key not in memory:
            if len(memory) >= 512:
                memory.clear()
            memory[key] = compute()
        return memory[key]
