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
import types

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator

from sklearn_bdp._digests._content import feed
from sklearn_bdp._digests._installed import installed_version, is_installed_code
from sklearn_bdp._digests._members import (
    FITTING,
    WRAPPINGS,
    canonical,
    cell_content,
    constant_digest,
    file_digest,
    fit_only,
    foreigners,
    is_seed,
    is_time,
    joined,
    loaded_module,
    names_in,
    python_version,
    scalar_digest,
    text_digest,
    underlying,
)

#: Parameters of installed estimators that say how work is done, not what comes out.
_MANNERS = {"n_jobs", "verbose", "memory", "pre_dispatch"}
_CLASS_NOISE = {
    "__dict__", "__weakref__", "__doc__", "__module__", "__qualname__", "__firstlineno__",
    "__static_attributes__", "__abstractmethods__", "_abc_impl", "__annotations__",
    "__annotations_cache__", "__annotate_func__", "__match_args__", "__orig_bases__",
    "__parameters__", "__slotnames__", "_sklearn_auto_wrap_output_keys",
}  # fmt: skip
_LONGEST_PATH = 1000
_SCALARS = {type(None), bool, int, float}
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
    fitting only: a recipe does not say which model comes out.
    """

    def __init__(self, *, fitted=False, installed_only=False):
        self.fitted = fitted
        self.installed_only = installed_only
        self.own_code = False
        self.varies = False
        self._known = {}  # id: (object, digest); the object is kept, so that its id is not reused
        self._active = {}
        self._folders = []
        # What is looked up again and again; a walk is short, so that nothing changes during it.
        self._methods, self._parameters, self._foreigners, self._found = {}, {}, {}, {}
        settled = _SETTLED.get()
        self._settled = {} if settled is None else settled

    def digest(self, value):
        """Return the digest of one value; raise Opaque where something in it cannot be read."""
        kind = type(value)
        if kind in _SCALARS:
            return scalar_digest(kind.__name__, repr(value))
        if kind is str:
            return self._text(value)
        if isinstance(value, np.bool_ | numbers.Number | bytes):
            return self._content(value)
        if isinstance(value, str):
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

    def _meet_own_code(self):
        self.own_code = True
        if self.installed_only:
            raise Opaque("code of the user")

    # -- kinds of values --------------------------------------------------------------------------

    def _object(self, value):
        kind = type(value)
        method = self._methods.get(kind, False)
        if method is False:
            found = (method for kinds, method in _METHODS if isinstance(value, kinds))
            method = next(found, None)
            if value.__class__ is kind:  # not what pretends to be of another type
                self._methods[kind] = method
        if method is not None:
            return method(self, value)
        if type(value).__name__ in ("cython_function_or_method", "fused_cython_function"):
            return self._builtin(value)
        if hasattr(value, "iloc") or hasattr(value, "__array_interface__"):
            return self._content(value)
        if hasattr(type(value), "_content_for_keys"):  # ours: what stays the same between answers
            return self._join("ours", self.digest(value._content_for_keys()))
        if hasattr(value, "get_params") and hasattr(value, "__dict__"):
            return self._estimator(value)
        return self._instance(value)

    def _join(self, kind, *parts):
        """Return the digest of digests and names."""
        return joined(kind, *parts)

    def _content(self, value):
        """Return the digest of plain data, or of objects inside an array."""
        state = hashlib.sha256()
        try:
            feed(state, value, other=self.digest)
        except TypeError:
            raise Opaque(type(value).__name__) from None
        return state.hexdigest()

    def _text(self, value):
        """Return the digest of a string; where it names a file, of what the file says, too."""
        if not self.own_code or not 0 < len(value) < _LONGEST_PATH:
            return text_digest(value)
        return text_digest(value, *(file_digest(file) for file in self._files(value)))

    def _files(self, name):
        """Return the files that a string may name to the code that is walked through."""
        if "\n" in name or "\0" in name or not ("." in name or "/" in name or os.sep in name):
            return ()
        place = (name, *self._folders[-1:])
        if place not in self._found:
            places = [os.path.join(folder, name) for folder in ("", *self._folders[-1:])]
            self._found[place] = [file for file in dict.fromkeys(places) if os.path.isfile(file)]
        return self._found[place]

    def _array(self, value):
        if value is np.ma.masked:  # it cannot be filled
            return self._join("masked constant")
        if value.dtype.names:  # padding between fields holds whatever was in memory
            fields = [self._array(np.ascontiguousarray(value[n])) for n in value.dtype.names]
            return self._join("fields", str(value.dtype.names), *fields)
        if isinstance(value, np.ma.MaskedArray):
            filled, mask = np.asarray(value.filled()), np.ma.getmaskarray(value)
            return self._join("masked", self._content(filled), self._content(mask))
        return self._content(np.asarray(value))

    def _mapping(self, value):
        names = [name for name in value if not (isinstance(name, str) and is_time(name))]
        if all(isinstance(name, str) for name in names):
            names.sort()
        items = [part for name in names for part in (self.digest(name), self.digest(value[name]))]
        return self._join(self._kind(value, dict), *items)

    def _sequence(self, value):
        kind = "list" if type(value) in (list, tuple) else self.digest(type(value))
        return self._join(kind, *map(self.digest, value))

    def _set(self, value):
        return self._join(self._kind(value, set, frozenset), *sorted(map(self.digest, value)))

    def _kind(self, value, *plain):
        return plain[0].__name__ if type(value) in plain else self.digest(type(value))

    def _path(self, value):
        return self._join("path", self.digest(os.fspath(value)))

    def _random(self, value):
        self.varies = True
        if value is np.random.mtrand._rand:  # the global one, whose state anything may advance
            return self._join("random", "global")
        if isinstance(value, np.random.RandomState):
            return self._join("random", self.digest(value.get_state(legacy=False)))
        source = value.bit_generator if isinstance(value, np.random.Generator) else value
        return self._join("random", self.digest(source.state))

    def _partial(self, value):
        varied = self.varies
        function = self.digest(value.func)
        if is_seed(value.keywords.get("random_state")):
            self.varies = varied
        return self._join(
            "partial", function, *map(self.digest, (list(value.args), value.keywords))
        )

    # -- code -------------------------------------------------------------------------------------

    def _function(self, value):
        """Return the digest of a function written in Python."""
        self._note_randomness(value)
        version = installed_version(value.__module__)
        cells = [cell_content(cell) for cell in value.__closure__ or ()]
        if version is not None and is_installed_code(value.__code__.co_filename):
            line = str(value.__code__.co_firstlineno)  # one lambda from another
            parts = (version, value.__module__, value.__qualname__, line)
            return self._join("installed", *parts, *map(self.digest, cells))
        self._meet_own_code()
        space = value.__globals__
        file = space.get("__file__") or value.__code__.co_filename
        self._folders.append(os.path.dirname(file))
        try:
            names = names_in(value.__code__)
            carried = [part for name in names for part in self._global(name, space)]
            given = (value.__defaults__, value.__kwdefaults__, *cells)
            extra = {n: v for n, v in vars(value).items() if n != "__wrapped__"}
            wrapped = getattr(value, "__wrapped__", None)
            parts = (*map(self.digest, given), self.digest(extra), self.digest(wrapped))
            return self._join("function", self._code(value.__code__), *parts, *carried)
        finally:
            self._folders.pop()

    def _code(self, code):
        """Return the digest of compiled code, wherever it stands."""
        return self._join(
            "code",
            python_version(),
            code.co_code.hex(),
            repr((code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)),
            repr((code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount)),
            repr(code.co_flags),
            *map(self.digest, code.co_consts),
        )

    def _global(self, name, space):
        """Yield what a name in code may stand for: a global, or a module it imports."""
        if name in space:
            yield self._join("global", name, self.digest(space[name]))
            return
        package = space.get("__package__")
        for full in (name, f"{package}.{name}" if package else name):
            module = loaded_module(full)
            if module is not None:
                yield self._join("import", name, self.digest(module))
                return

    def _module(self, value):
        version = installed_version(value.__name__)
        if version is not None:
            return self._join("module", value.__name__, version)
        self._meet_own_code()
        file = getattr(value, "__file__", None)
        self._folders.append(os.path.dirname(file or ""))
        try:
            content = {n: v for n, v in vars(value).items() if not n.startswith("__")}
            source = file_digest(file) if file and os.path.isfile(file) else ""
            return self._join("module", value.__name__, source, self._mapping(content))
        finally:
            self._folders.pop()

    def _class(self, value):
        """Return the digest of a class: a name and a version, or all that it defines."""
        version = installed_version(value.__module__)
        name = value.__qualname__
        if version is not None and not name.startswith("<"):
            if value not in self._settled:
                # What a session put into an installed class is code of the user.
                foreign = [part for kind in value.__mro__ for part in self._foreign(kind)]
                found = self._join("class", version, value.__module__, name, *foreign)
                if not all(self._is_plain(kind) for kind in value.__mro__):
                    return found
                self._settled[value] = found
            return self._settled[value]
        self._meet_own_code()
        parts = [self.digest(type(value))]
        skipped = fit_only(value)
        for kind in value.__mro__:
            if installed_version(kind.__module__) is not None:
                parts.append(self.digest(kind))
            else:
                parts += [kind.__qualname__, *self._members(kind, skipped)]
        return self._join("class", name, *parts)

    def _members(self, kind, skipped):
        """Yield names and digests of what a class of the user defines."""
        for name, member in sorted(vars(kind).items()):
            if name in _CLASS_NOISE:
                continue
            if isinstance(member, _DESCRIPTORS):
                yield self._join("descriptor", name, type(member).__name__)
            elif isinstance(underlying(member), types.FunctionType):
                if not (self.fitted and name in FITTING):
                    yield self._join("member", name, self.digest(member))
            elif name not in skipped:
                yield self._join("member", name, self.digest(member))

    def _foreign(self, kind):
        """Return what an installed class has that is not its own, and its plain constants."""
        if kind not in self._foreigners:
            self._foreigners[kind] = foreigners(kind)
        return [
            self._join("foreign", name, self.digest(member))
            if isinstance(member, types.FunctionType)
            else self._join("constant", name, constant_digest(member))
            for name, member in self._foreigners[kind]
        ]

    def _is_plain(self, kind):
        """Return whether nothing in an installed class but constants is foreign to it."""
        return not any(isinstance(each, types.FunctionType) for _, each in self._foreigners[kind])

    def _property(self, value):
        return self._join("property", *map(self.digest, (value.fget, value.fset, value.fdel)))

    def _wrapping(self, value):
        return self._join(type(value).__name__, self.digest(underlying(value)))

    def _method(self, value):
        return self._join("method", self.digest(value.__func__), self.digest(value.__self__))

    def _builtin(self, value):
        self._note_randomness(value)
        bound = getattr(value, "__self__", None)
        module = getattr(value, "__module__", None)
        if bound is not None and not isinstance(bound, types.ModuleType):
            return self._join("builtin", value.__name__, self.digest(bound))
        version = installed_version(module or getattr(bound, "__name__", ""))
        if version is None:
            raise Opaque(value.__name__)  # compiled code of the user
        return self._join("builtin", version, str(module), value.__qualname__)

    def _note_randomness(self, function):
        """Remember functions that draw without a seed."""
        module = getattr(function, "__module__", None) or ""
        if module.startswith(("numpy.random", "random")):
            self.varies = True
            return
        plain = type(function) is types.FunctionType and not vars(function)
        if plain and "random_state" not in function.__code__.co_varnames:
            return
        try:
            parameters = inspect.signature(function).parameters
        except (TypeError, ValueError):
            return
        seed = parameters.get("random_state")
        if seed is not None and not is_seed(seed.default):
            self.varies = True

    # -- instances --------------------------------------------------------------------------------

    def _estimator(self, value):
        """Return the digest of an estimator: its class, its parameters, what it has learned."""
        kind = type(value)
        own = self.digest(kind)
        try:
            params = self._params(value)
        except Exception:  # no estimator after all
            return self._instance(value)
        installed = installed_version(kind.__module__) is not None
        if installed:
            params = {n: canonical(kind, n, v) for n, v in params.items() if n not in _MANNERS}
            self._note_tags(value)
        else:
            self._meet_own_code()
        if "random_state" in params and not is_seed(params["random_state"]):
            self.varies = True
        learned = {
            n: v for n, v in vars(value).items() if n not in params and n not in _MANNERS
        } if installed else {n: v for n, v in vars(value).items() if n not in params}  # fmt: skip
        given, varied = self.digest(params), self.varies
        had = self._mapping(learned)
        if installed:  # a prototype that is kept beside the parameters gets its seed from them
            self.varies = varied
        return self._join("estimator", own, given, had)

    def _params(self, value):
        """Return ``get_params(deep=False)``; scikit-learn reads the signature again each time."""
        kind = type(value)
        if not (
            isinstance(value, BaseEstimator)
            and "get_params" not in vars(value)
            and kind.get_params is BaseEstimator.get_params
            and kind._get_param_names.__func__ is BaseEstimator._get_param_names.__func__
        ):
            return value.get_params(deep=False)
        if kind not in self._parameters:
            self._parameters[kind] = kind._get_param_names()
        return {name: getattr(value, name) for name in self._parameters[kind]}

    def _note_tags(self, value):
        try:
            if value.__sklearn_tags__().non_deterministic:
                self.varies = True
        except Exception:  # an estimator without tags says nothing
            return

    def _instance(self, value):
        """Return the digest of any other object, by what a copy is made of."""
        kind = type(value)
        own = self.digest(kind)
        if kind.__name__ in _LOCKS:
            return self._join("lock", kind.__name__)
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
            return self._join("named", own, made)
        maker, arguments, content, *items = (*made, None, None, None)[:5]
        listed = [list(each) for each in items if each is not None]
        arguments = [a for a in arguments if a is not kind and a is not value]
        return self._join(
            "instance", own, self.digest(maker), *map(self.digest, (arguments, content, listed))
        )


_DESCRIPTORS = (
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
    types.WrapperDescriptorType,
    types.MethodDescriptorType,
)
_METHODS = (
    (np.ndarray, Walk._array),
    (sp.spmatrix | sp.sparray, Walk._content),
    (np.dtype, lambda walk, value: walk._join("dtype", value.str, str(value))),
    (dict | types.MappingProxyType, Walk._mapping),
    (list | tuple, Walk._sequence),
    (set | frozenset, Walk._set),
    (pathlib.PurePath, Walk._path),
    (type, Walk._class),
    (types.FunctionType, Walk._function),
    (types.MethodType, Walk._method),
    (types.ModuleType, Walk._module),
    (types.CodeType, Walk._code),
    (functools.partial, Walk._partial),
    (property, Walk._property),
    (WRAPPINGS, Walk._wrapping),
    (types.BuiltinFunctionType, Walk._builtin),
    (types.MethodDescriptorType | types.WrapperDescriptorType, Walk._builtin),
    (np.random.RandomState | np.random.Generator | np.random.BitGenerator, Walk._random),
    (np.ufunc, lambda walk, value: walk._join("ufunc", value.__name__, np.__version__)),
    (type(Ellipsis) | type(NotImplemented), lambda walk, value: walk._join("mark", repr(value))),
)


def object_digest(value):
    """Return a digest that survives copies and processes, None where something cannot be read."""
    try:
        return Walk().digest(value)
    except (Opaque, RecursionError):
        return None
