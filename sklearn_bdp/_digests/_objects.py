"""Digests of objects and of code: installed code by name and version, the user's own by value.

A pickle names functions and classes and says nothing of what they do; it remembers which strings
are one object in memory; and it fails at lambdas. The walk below goes through attributes, code,
closures, defaults and the globals that code names, so that whatever changes what an object does
changes its digest, and nothing else does.
"""

import contextlib
import contextvars
import functools
import hashlib
import inspect
import numbers
import os
import pathlib
import sys
import types
import weakref

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator

from sklearn_bdp._digests._content import (
    FITTING,
    WRAPPINGS,
    cell_content,
    file_digest,
    fit_only,
    foreigners,
    installed_version,
    is_installed_code,
    joined,
    names_in,
    opened,
    plain_digest,
    underlying,
)

#: Parameters of installed estimators that say how work is done, not what comes out.
_MANNERS = {"n_jobs", "verbose", "memory", "pre_dispatch"}
_MADE_BY_CLASSES = ("_abc_impl", "_sklearn_auto_wrap_output_keys")
_LONGEST_PATH = 1000
#: What pickles ask an estimator for, unless its class has a way of its own.
_PICKLED = BaseEstimator.__getstate__, object.__reduce__, object.__reduce_ex__
_SCALARS = {type(None), bool, int, float}
#: What compiled code is, wherever it stands.
_FACTS = (
    "co_code", "co_names", "co_varnames", "co_freevars", "co_cellvars", "co_argcount",
    "co_posonlyargcount", "co_kwonlyargcount", "co_flags",
)  # fmt: skip
_LOCKS = ("lock", "RLock", "_RLock", "Condition", "Event", "Semaphore")


_SETTLED = contextvars.ContextVar("digests of installed classes", default=None)


@contextlib.contextmanager
def settled_classes():
    """Digest installed classes once in this block: nobody changes them while a batch is fitted."""
    token = _SETTLED.set({})
    try:
        yield
    finally:
        _SETTLED.reset(token)


class Opaque(Exception):
    """Something whose content cannot be known: a generator, an open file, a C object."""


class Walk:
    """One walk through an object.

    ``fitted``: what the class of a fitted model does when fitting shows in what it learned.
    ``installed_only``: code of the user makes it :class:`Opaque`, and the rest need not be looked
    at. Afterwards ``own_code`` says whether code of the user was met, and ``varies`` whether
    randomness without an integer seed was, or something that fixes what it does at the time of
    fitting only: a recipe does not say which model comes out. ``plain``: whether pickles of all
    estimators hold all that they are.
    """

    def __init__(self, *, fitted=False, installed_only=False):
        self.fitted = fitted
        self.installed_only = installed_only
        self.own_code = False
        self.varies = False
        self.plain = True
        self._known = {}  # id: (object, digest); the object is kept, so that its id is not reused
        self._active = {}
        self._folders = []
        # What is looked up again and again; a walk is short, so that nothing changes during it.
        self._foreigners, self._methods, self._names = {}, {}, {}
        settled = _SETTLED.get()
        self.settled = {} if settled is None else settled

    def digest(self, value):
        """Return the digest of one value; raise Opaque where something in it cannot be read."""
        kind = type(value)
        if kind in _SCALARS:
            return plain_digest(kind.__name__, repr(value))
        if kind is str:
            return self._text(value)
        if id(value) in self._known:
            return self._known[id(value)][1]
        if id(value) in self._active:
            return f"back {len(self._active) - self._active[id(value)]}"
        self._active[id(value)] = len(self._active)
        try:
            found = self._object(value)
        finally:
            del self._active[id(value)]
        self._known[id(value)] = (value, found)
        return found

    def _all(self, kind, *parts):
        """Return the digest of what something of a kind consists of."""
        return joined(kind, *map(self.digest, parts))

    def _meet_own_code(self):
        self.own_code = True
        if self.installed_only:
            raise Opaque("code of the user")

    # -- kinds of values --------------------------------------------------------------------------

    def _object(self, value):
        kind = type(value)
        if kind not in self._methods:
            methods = (method for kinds, method in _METHODS if issubclass(kind, kinds))
            self._methods[kind] = next(methods, None)
        if self._methods[kind] is not None:
            return self._methods[kind](self, value)
        if type(value).__name__ in ("cython_function_or_method", "fused_cython_function"):
            return self._builtin(value)
        if hasattr(value, "iloc") or hasattr(value, "__array_interface__"):
            return self._data(value)
        if hasattr(type(value), "_content_for_keys"):  # ours: what stays the same between answers
            return joined("ours", self.digest(value._content_for_keys()))
        if hasattr(value, "get_params") and hasattr(value, "__dict__"):
            return self._estimator(value)
        return self._instance(value)

    def _data(self, value):
        """Return the digest of plain data, or of objects inside an array."""
        kind, size, content = opened(value)
        if kind is None:
            raise Opaque(type(value).__name__)
        if isinstance(content, bytes):
            return hashlib.sha256(b"%b:%b;%b" % (kind.encode(), size.encode(), content)).hexdigest()
        return joined(kind, size, *map(self.digest, content))

    def _text(self, value):
        """Return the digest of a string; where it names a file, of what the file says, too."""
        found = plain_digest("text", value)
        files = self._files(value) if self.own_code else ()
        return joined(found, *map(file_digest, files)) if files else found

    def _files(self, name):
        """Return the files that a string may name to the code that is walked through."""
        if not 0 < len(name) < _LONGEST_PATH or not {".", "/", os.sep}.intersection(name):
            return ()
        places = [os.path.join(folder, name) for folder in ("", *self._folders[-1:])]
        return [file for file in dict.fromkeys(places) if "\0" not in name and os.path.isfile(file)]

    def _mapping(self, value):
        names = [
            name
            for name in value
            if not str(name).endswith(("fit_time", "score_time", "refit_time_"))
        ]
        if all(isinstance(name, str) for name in names):
            names.sort()
        items = (self.digest(part) for name in names for part in (name, value[name]))
        return joined(self._kind(value, dict), *items)

    def _sequence(self, value):
        return joined(self._kind(value, list, tuple), *map(self.digest, value))

    def _set(self, value):
        return joined(self._kind(value, set, frozenset), *sorted(map(self.digest, value)))

    def _kind(self, value, *plain):
        return plain[0].__name__ if type(value) in plain else self.digest(type(value))

    def _random(self, value):
        self.varies = True
        if value is np.random.mtrand._rand:  # the global one, whose state anything may advance
            return joined("random", "global")
        if isinstance(value, np.random.RandomState):  # with the number that it keeps for later
            return self._all("random", value.get_state(legacy=False))
        return self._all("random", getattr(value, "bit_generator", value).state)

    def _partial(self, value):
        varied = self.varies
        function = self.digest(value.func)
        if is_seed(value.keywords.get("random_state")):
            self.varies = varied
        return joined("partial", function, *map(self.digest, (list(value.args), value.keywords)))

    # -- code -------------------------------------------------------------------------------------

    def _function(self, value):
        """Return the digest of a function written in Python."""
        self._note_randomness(value)
        version = installed_version(value.__module__)
        cells = [cell_content(cell) for cell in value.__closure__ or ()]
        if version is not None and is_installed_code(value.__code__.co_filename):
            line = str(value.__code__.co_firstlineno)  # one lambda from another
            parts = (version, value.__module__, value.__qualname__, line)
            return joined("installed", *parts, *map(self.digest, cells))
        self._meet_own_code()
        space = value.__globals__
        file = space.get("__file__") or value.__code__.co_filename
        self._folders.append(os.path.dirname(file))
        try:
            names = names_in(value.__code__)
            carried = [part for name in names for part in self._global(name, space)]
            given = (value.__defaults__, value.__kwdefaults__, vars(value), *cells)
            return joined(self._code(value.__code__), self._all("given", *given), *carried)
        finally:
            self._folders.pop()

    def _code(self, code):
        """Return the digest of compiled code, wherever it stands."""
        facts = repr([getattr(code, name) for name in _FACTS])
        return joined("code", sys.version, facts, *map(self.digest, code.co_consts))

    def _global(self, name, space):
        """Yield what a name in code may stand for: a global, or a module it imports."""
        places = (name, f"{space.get('__package__')}.{name}")
        modules = [sys.modules[full] for full in places if full in sys.modules]
        if name in space:
            yield self._all("global", name, space[name])
        elif modules and isinstance(modules[0], types.ModuleType):
            yield self._all("import", name, modules[0])

    def _module(self, value):
        version = installed_version(value.__name__)
        if version is not None:
            return joined("module", value.__name__, version)
        self._meet_own_code()
        file = getattr(value, "__file__", None)
        self._folders.append(os.path.dirname(file or ""))
        try:
            content = {n: v for n, v in vars(value).items() if not n.startswith("__")}
            source = file_digest(file) if file and os.path.isfile(file) else ""
            return joined("module", value.__name__, source, self._mapping(content))
        finally:
            self._folders.pop()

    def _class(self, value):
        """Return the digest of a class: a name and a version, or all that it defines."""
        version = installed_version(value.__module__)
        name = value.__qualname__
        if version is not None and not name.startswith("<"):
            if value not in self.settled:
                # What a session put into an installed class is code of the user.
                foreign = [pair for kind in value.__mro__ for pair in self._foreign(kind)]
                parts = [self._all("foreign", *pair) for pair in foreign]
                found = joined("class", version, value.__module__, name, *parts)
                if any(isinstance(member, types.FunctionType) for _, member in foreign):
                    return found
                self.settled[value] = found
            return self.settled[value]
        self._meet_own_code()
        parts = [self.digest(type(value))]
        skipped = fit_only(value)
        for kind in value.__mro__:
            if installed_version(kind.__module__) is not None:
                parts.append(self.digest(kind))
            else:
                parts += [kind.__qualname__, *self._members(kind, skipped)]
        return joined("class", name, *parts)

    def _members(self, kind, skipped):
        """Yield names and digests of what a class of the user defines."""
        for name, member in sorted(vars(kind).items()):
            if isinstance(underlying(member), types.FunctionType):
                told = not (self.fitted and name in FITTING)
            elif isinstance(member, types.MemberDescriptorType | types.GetSetDescriptorType):
                told = False  # a slot
            elif name.startswith("__") or name in _MADE_BY_CLASSES:
                told = callable(member) and not isinstance(member, type)
            else:
                told = name not in skipped
            if told:
                yield self._all("member", name, member)

    def _foreign(self, kind):
        """Return what an installed class has that is not its own, and its plain constants."""
        if kind not in self._foreigners:
            self._foreigners[kind] = foreigners(kind)
        return self._foreigners[kind]

    def _builtin(self, value):
        self._note_randomness(value)
        bound = getattr(value, "__self__", None)
        module = getattr(value, "__module__", None)
        if bound is not None and not isinstance(bound, types.ModuleType):
            return joined("builtin", value.__name__, self.digest(bound))
        version = installed_version(module or getattr(bound, "__name__", ""))
        if version is None:
            raise Opaque(value.__name__)  # compiled code of the user
        return joined("builtin", version, str(module), value.__qualname__)

    def _note_randomness(self, function):
        """Remember functions that draw without a seed."""
        module = getattr(function, "__module__", None) or ""
        if module.startswith(("numpy.random", "random")):
            self.varies = True
            return
        plain = type(function) is types.FunctionType and not vars(function)
        if plain and "random_state" not in function.__code__.co_varnames:
            return
        with contextlib.suppress(TypeError, ValueError):  # no signature to be read
            seed = inspect.signature(function).parameters.get("random_state")
            self.varies |= seed is not None and not is_seed(seed.default)

    # -- instances --------------------------------------------------------------------------------

    def _estimator(self, value):
        """Return the digest of an estimator: its class, its parameters, what it has learned."""
        kind = type(value)
        own = self.digest(kind)
        self.plain &= tuple(getattr(kind, way.__name__) for way in _PICKLED) == _PICKLED
        try:
            names = self._names.get(kind) or value.get_params(deep=False)
            params = names if isinstance(names, dict) else {n: getattr(value, n) for n in names}
            if kind.get_params is BaseEstimator.get_params:  # its signature is read once in a walk
                self._names[kind] = list(params)
        except Exception:  # no estimator after all
            return self._instance(value)
        installed = installed_version(kind.__module__) is not None
        if installed:
            params = {n: canonical(kind, n, v) for n, v in params.items() if n not in _MANNERS}
            if not self.fitted:  # how a fitted model came about says what it has learned
                with contextlib.suppress(Exception):  # an estimator without tags says nothing
                    self.varies |= bool(value.__sklearn_tags__().non_deterministic)
        else:
            self._meet_own_code()
        if "random_state" in params and not is_seed(params["random_state"]):
            self.varies = True
        known = {*params, *(_MANNERS if installed else ())}
        learned = {name: part for name, part in vars(value).items() if name not in known}
        given, varied = self.digest(params), self.varies
        had = self._mapping(learned)
        if installed:  # a prototype that is kept beside the parameters gets its seed from them
            self.varies = varied
        return joined("estimator", own, given, had)

    def _instance(self, value):
        """Return the digest of any other object, by what a copy is made of."""
        kind = type(value)
        own = self.digest(kind)
        if kind.__name__ in _LOCKS:
            return joined("lock", kind.__name__)
        if hasattr(value, "__next__") or hasattr(value, "readable"):
            raise Opaque(kind.__name__)  # looking would use it up
        state = getattr(value, "__dict__", None) or {}
        if "random_state" in state and getattr(value, "shuffle", True):
            self.varies |= not is_seed(state["random_state"])
        if kind.__name__ == "make_column_selector":  # looks at types of columns when it is fitted
            self.varies = True
        try:
            made = value.__reduce_ex__(4)
        except Exception:
            raise Opaque(kind.__name__) from None
        if isinstance(made, str):
            return joined("named", own, made)
        maker, arguments, content, *items = (*made, None, None, None)[:5]
        listed = [list(each) for each in items if each is not None]
        arguments = [a for a in arguments if a is not kind and a is not value]
        return joined(
            "instance", own, self.digest(maker), *map(self.digest, (arguments, content, listed))
        )


_METHODS = (
    (np.number | np.bool_, lambda walk, value: plain_digest(*opened(value)[:2])),
    (np.ndarray | sp.spmatrix | sp.sparray | numbers.Number | bytes, Walk._data),
    (str, Walk._text),
    (np.dtype, lambda walk, value: joined("dtype", value.str, str(value))),
    (dict | types.MappingProxyType, Walk._mapping),
    (list | tuple, Walk._sequence),
    (set | frozenset, Walk._set),
    (pathlib.PurePath, lambda walk, value: walk._all("path", os.fspath(value))),
    (type, Walk._class),
    (types.FunctionType, Walk._function),
    (weakref.ReferenceType, lambda walk, value: walk._all("weak", value())),
    (types.MethodType, lambda walk, value: walk._all("method", value.__func__, value.__self__)),
    (types.ModuleType, Walk._module),
    (types.CodeType, Walk._code),
    (functools.partial, Walk._partial),
    (property, lambda walk, value: walk._all("property", value.fget, value.fset, value.fdel)),
    (WRAPPINGS, lambda walk, value: walk._all(type(value).__name__, underlying(value))),
    (types.BuiltinFunctionType, Walk._builtin),
    (types.MethodDescriptorType | types.WrapperDescriptorType, Walk._builtin),
    (np.random.RandomState | np.random.Generator | np.random.BitGenerator, Walk._random),
    (np.ufunc, lambda walk, value: joined("ufunc", value.__name__, np.__version__)),
    (type(Ellipsis) | type(NotImplemented), lambda walk, value: joined("mark", repr(value))),
)


def is_seed(value):
    """Return whether a ``random_state`` gives the same every time."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def canonical(kind, name, value):
    """Return a parameter as the one of equal meaning: ``C=1`` is ``C=1.0``.

    Where integers and fractions mean different things (``max_features=1`` is one feature, ``1.0``
    all of them) scikit-learn's own constraints say so.
    """
    value = value.item() if isinstance(value, np.generic) else value
    if type(value) is not int:
        return value
    constraints = getattr(kind, "_parameter_constraints", {}).get(name, ())
    if isinstance(constraints, list):
        kinds = [getattr(each, "type", None) for each in constraints]
        if numbers.Real in kinds and numbers.Integral not in kinds:
            return float(value)
    return value


def object_digest(value):
    """Return a digest that survives copies and processes, None where something cannot be read."""
    try:
        return Walk().digest(value)
    except (Opaque, RecursionError):
        return None
