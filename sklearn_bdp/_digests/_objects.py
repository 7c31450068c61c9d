"""Digests of objects and of code: installed code by name and version, the user's own by value.

A pickle names functions and classes and says nothing of what they do; it remembers which strings
are one object in memory; and it fails at lambdas. The walk below goes through attributes, code,
closures, defaults and the globals that code names, so that whatever changes what an object does
changes its digest, and nothing else does.
"""

import functools
import hashlib
import inspect
import numbers
import os
import pathlib
import platform
import sys
import types

import numpy as np
import scipy.sparse as sp

from sklearn_bdp._digests._content import feed
from sklearn_bdp._digests._installed import installed_version, is_installed_code

__all__ = ["Walk", "object_digest"]

#: Parameters of installed estimators that say how work is done, not what comes out.
_MANNERS = {"n_jobs", "verbose", "memory", "pre_dispatch"}
_CLASS_NOISE = {
    "__dict__", "__weakref__", "__doc__", "__module__", "__qualname__", "__firstlineno__",
    "__static_attributes__", "__abstractmethods__", "_abc_impl", "__annotations__",
    "__annotations_cache__", "__annotate_func__", "__match_args__", "__orig_bases__",
    "__parameters__", "__slotnames__", "_sklearn_auto_wrap_output_keys",
}  # fmt: skip
_TIMES = ("fit_time", "score_time", "refit_time")
_FITTING = ("fit", "partial_fit", "fit_transform", "fit_predict")
_LONGEST_PATH = 1000
_LOCKS = ("lock", "RLock", "_RLock", "Condition", "Event", "Semaphore")


class Opaque(Exception):
    """Something whose content cannot be known: a generator, an open file, a C object."""


class Walk:
    """One walk through an object.

    Parameters
    ----------
    fitted : bool, default=False
        Whether it is a fitted model: what its class does when fitting shows in what it learned.

    Attributes
    ----------
    own_code : bool
        Whether code of the user was met.
    varies : bool
        Whether randomness without an integer seed was met, or something that fixes what it does
        at the time of fitting only: a recipe does not say which model comes out.
    """

    def __init__(self, *, fitted=False):
        self.fitted = fitted
        self.own_code = False
        self.varies = False
        self._known = {}  # id: (object, digest); the object is kept, so that its id is not reused
        self._active = {}
        self._folders = []

    def digest(self, value):
        """Return the digest of one value.

        Raises
        ------
        Opaque
            If something in it has no content that can be read.
        """
        if value is None or isinstance(value, bool | np.bool_ | numbers.Number | bytes):
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

    # -- kinds of values --------------------------------------------------------------------------

    def _object(self, value):
        for kinds, method in _METHODS:
            if isinstance(value, kinds):
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
        state = hashlib.sha256()
        for part in (kind, *parts):
            data = part.encode("utf-8", "surrogatepass")
            state.update(b"%d:" % len(data))
            state.update(data)
        return state.hexdigest()

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
        parts = [hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()]
        if 0 < len(value) < _LONGEST_PATH and "\n" not in value and "\0" not in value:
            parts += [_file_digest(file) for file in self._files(value)]
        return self._join("text", *parts)

    def _files(self, name):
        """Return the files that a string may name to the code that is walked through."""
        if not self.own_code or not ("." in name or "/" in name or os.sep in name):
            return []
        places = [os.path.join(folder, name) for folder in ("", *self._folders[-1:])]
        return [place for place in dict.fromkeys(places) if os.path.isfile(place)]

    def _array(self, value):
        if value.dtype.names:  # padding between fields holds whatever was in memory
            fields = [self._array(np.ascontiguousarray(value[n])) for n in value.dtype.names]
            return self._join("fields", str(value.dtype.names), *fields)
        if isinstance(value, np.ma.MaskedArray):
            filled, mask = np.asarray(value.filled()), np.ma.getmaskarray(value)
            return self._join("masked", self._content(filled), self._content(mask))
        return self._content(np.asarray(value))

    def _mapping(self, value):
        names = [name for name in value if not (isinstance(name, str) and _is_time(name))]
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
        if _is_seed(value.keywords.get("random_state")):
            self.varies = varied
        return self._join(
            "partial", function, *map(self.digest, (list(value.args), value.keywords))
        )

    # -- code -------------------------------------------------------------------------------------

    def _function(self, value):
        """Return the digest of a function written in Python."""
        self._note_randomness(value)
        version = installed_version(value.__module__)
        cells = [_cell(cell) for cell in value.__closure__ or ()]
        if version is not None and is_installed_code(value.__code__.co_filename):
            line = str(value.__code__.co_firstlineno)  # one lambda from another
            parts = (version, value.__module__, value.__qualname__, line)
            return self._join("installed", *parts, *map(self.digest, cells))
        self.own_code = True
        space = value.__globals__
        file = space.get("__file__") or value.__code__.co_filename
        self._folders.append(os.path.dirname(file))
        try:
            names = _names(value.__code__)
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
            _python(),
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
            module = _loaded(full)
            if module is not None:
                yield self._join("import", name, self.digest(module))
                return

    def _module(self, value):
        version = installed_version(value.__name__)
        if version is not None:
            return self._join("module", value.__name__, version)
        self.own_code = True
        file = getattr(value, "__file__", None)
        self._folders.append(os.path.dirname(file or ""))
        try:
            content = {n: v for n, v in vars(value).items() if not n.startswith("__")}
            source = _file_digest(file) if file and os.path.isfile(file) else ""
            return self._join("module", value.__name__, source, self._mapping(content))
        finally:
            self._folders.pop()

    def _class(self, value):
        """Return the digest of a class: a name and a version, or all that it defines."""
        version = installed_version(value.__module__)
        name = value.__qualname__
        if version is not None and not name.startswith("<"):
            # What a session put into an installed class is code of the user.
            foreign = [part for kind in value.__mro__ for part in self._foreign(kind)]
            return self._join("class", version, value.__module__, name, *foreign)
        self.own_code = True
        parts = [self.digest(type(value))]
        skipped = _fit_only(value)
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
            elif isinstance(_underlying(member), types.FunctionType):
                if not (self.fitted and name in _FITTING):
                    yield self._join("member", name, self.digest(member))
            elif name not in skipped:
                yield self._join("member", name, self.digest(member))

    def _foreign(self, kind):
        """Yield what an installed class has that is not its own, and its plain constants."""
        for name, member in sorted(vars(kind).items()):
            function = _underlying(member)
            # What counts or logs fits is put around ``fit`` and leaves the model alone.
            if (
                isinstance(function, types.FunctionType)
                and name != "fit"
                and not is_installed_code(function.__code__.co_filename)
            ):
                yield self._join("foreign", name, self.digest(function))
            elif isinstance(member, bool | int | float | str) and not name.startswith("__"):
                yield self._join("constant", name, self._content(member))

    def _property(self, value):
        return self._join("property", *map(self.digest, (value.fget, value.fset, value.fdel)))

    def _wrapping(self, value):
        return self._join(type(value).__name__, self.digest(_underlying(value)))

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
        try:
            parameters = inspect.signature(function).parameters
        except (TypeError, ValueError):
            return
        seed = parameters.get("random_state")
        if seed is not None and not _is_seed(seed.default):
            self.varies = True

    # -- instances --------------------------------------------------------------------------------

    def _estimator(self, value):
        """Return the digest of an estimator: its class, its parameters, what it has learned."""
        kind = type(value)
        own = self.digest(kind)
        try:
            params = value.get_params(deep=False)
        except Exception:  # no estimator after all
            return self._instance(value)
        installed = installed_version(kind.__module__) is not None
        if installed:
            params = {n: _canonical(kind, n, v) for n, v in params.items() if n not in _MANNERS}
            self._note_tags(value)
        else:
            self.own_code = True
        if "random_state" in params and not _is_seed(params["random_state"]):
            self.varies = True
        learned = {
            n: v for n, v in vars(value).items() if n not in params and n not in _MANNERS
        } if installed else {n: v for n, v in vars(value).items() if n not in params}  # fmt: skip
        given, varied = self.digest(params), self.varies
        had = self._mapping(learned)
        if installed:  # a prototype that is kept beside the parameters gets its seed from them
            self.varies = varied
        return self._join("estimator", own, given, had)

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
            self.varies |= not _is_seed(state["random_state"])
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
    (staticmethod | classmethod | functools.cached_property, Walk._wrapping),
    (functools._lru_cache_wrapper, Walk._wrapping),
    (types.BuiltinFunctionType, Walk._builtin),
    (types.MethodDescriptorType | types.WrapperDescriptorType, Walk._builtin),
    (np.random.RandomState | np.random.Generator | np.random.BitGenerator, Walk._random),
    (np.ufunc, lambda walk, value: walk._join("ufunc", value.__name__, np.__version__)),
    (type(Ellipsis) | type(NotImplemented), lambda walk, value: walk._join("mark", repr(value))),
)


def object_digest(value):
    """Return a digest of objects that survives copies and processes, or None.

    Parameters
    ----------
    value : object
        Data, estimators, functions, containers of them.

    Returns
    -------
    str or None
        Hexadecimal digest; ``None`` where something in it has no content that can be read.
    """
    try:
        return Walk().digest(value)
    except (Opaque, RecursionError):
        return None


def _canonical(kind, name, value):
    """Return a parameter as the one of equal meaning: ``C=1`` is ``C=1.0``.

    Where integers and fractions mean different things (``max_features=1`` is one feature, ``1.0``
    all of them) scikit-learn's own constraints say so.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, int) and not isinstance(value, bool):
        constraints = getattr(kind, "_parameter_constraints", {}).get(name, ())
        if isinstance(constraints, list):
            kinds = [getattr(each, "type", None) for each in constraints]
            if numbers.Real in kinds and numbers.Integral not in kinds:
                return float(value)
    return value


def _is_seed(value):
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _is_time(name):
    """Return whether a name is that of a duration, which differs from fit to fit."""
    return any(each in name for each in _TIMES)


def _cell(cell):
    try:
        return cell.cell_contents
    except ValueError:  # a name that is bound later
        return None


def _underlying(member):
    """Return the function in a static or class method, cached property or cache, or the member."""
    for name in ("__func__", "func", "__wrapped__"):
        if isinstance(
            member,
            staticmethod | classmethod | functools.cached_property | functools._lru_cache_wrapper,
        ) and hasattr(member, name):
            return getattr(member, name)
    return member.fget if isinstance(member, property) else member


def _names(code):
    """Return the names that code and the code inside it look up, in order."""
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names.update(_names(constant))
    return sorted(names)


def _fit_only(kind):
    """Return names of class attributes that fitting alone looks at: counters, switches of fits.

    Their influence is in what was learned. Names that an installed base class defines do not
    count, because its code may look at them at any time.
    """
    fitting, others, inherited = set(), set(), set()
    for each in kind.__mro__:
        if installed_version(each.__module__) is not None:
            inherited.update(vars(each))
            continue
        for name, member in vars(each).items():
            function = _underlying(member)
            if isinstance(function, types.FunctionType):
                (fitting if name in _FITTING else others).update(_names(function.__code__))
    return fitting - others - inherited


def _loaded(name):
    module = sys.modules.get(name)
    return module if isinstance(module, types.ModuleType) else None


@functools.lru_cache(maxsize=1)
def _python():
    return platform.python_version()


def _file_digest(file):
    """Return the digest of a file's content: a checkpoint is part of the code that loads it."""
    state = hashlib.sha256()
    try:
        with open(file, "rb") as stream:
            while block := stream.read(1 << 20):
                state.update(block)
    except OSError:
        return "unreadable"
    return state.hexdigest()
