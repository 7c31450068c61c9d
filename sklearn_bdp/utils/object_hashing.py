"""Digests of objects and of code, and keys of models, which are digests of what a query is about.

Installed code is known by name and version, the user's own by value. A pickle reads what an object
is made of. It knows functions and classes by their names, which say nothing of what they do, and
fails at lambdas. The walk below takes over there: it goes through code, closures, defaults, the
globals that code names and the members of classes, so that every change of what an object does
changes its digest. Code that fetches something by a name which a walk cannot follow (``open``,
``environ``, ``globals`` …) has no digest, and neither has a model that reads what records name.

A *recipe* is known before anything is fitted: code that is installed under a version, parameters,
training data. It is trusted where these determine the fitted model: nothing in it was fitted
before. For everything else the key holds the fitted model: all it has learned, the user's code by
value, and what it predicts for the training records, which also shows what no walk through an
object can see.
"""

import contextlib
import functools
import hashlib
import importlib.metadata
import inspect
import numbers
import os
import pathlib
import pickle
import platform
import site
import sys
import sysconfig
import types
import warnings
import weakref

import numpy as np
import scipy
import scipy.sparse as sp
import scipy.special
import sklearn
from sklearn.base import BaseEstimator, clone

from sklearn_bdp.utils.hashing import (
    array_digest,
    content_key,
    copied,
    data_digest,
    digest_of,
    query_key,
    table_content,
)

#: Parameters of installed estimators that say how work is done, not what comes out.
_MANNERS = {"n_jobs", "verbose", "memory", "pre_dispatch", "refit_time_"}
_DURATIONS = ("fit_time", "score_time")  # among the results of a search
#: What fetches something that stands nowhere in an object or its code.
_UNSEEN = {
    "environ", "getenv", "globals", "open", "import_module", "__import__", "eval", "exec",
}  # fmt: skip
_LONGEST_PATH = 1000
#: What pickles ask an estimator for, unless its class has a way of its own.
_PICKLED = BaseEstimator.__getstate__, object.__reduce__, object.__reduce_ex__
_CLONED = BaseEstimator.__sklearn_clone__
#: What compiled code is, wherever it stands.
_FACTS = (
    "code", "names", "varnames", "freevars", "cellvars", "argcount", "posonlyargcount",
    "kwonlyargcount", "flags",
)  # fmt: skip
_WRAPPINGS = (staticmethod, classmethod, functools.cached_property, functools._lru_cache_wrapper)
#: Members of classes that are neither code nor constants.
_SLOTS = types.MemberDescriptorType | types.GetSetDescriptorType
_BUILTINS = types.BuiltinFunctionType | types.MethodDescriptorType | types.WrapperDescriptorType
_TABLES = ("numpy.", "scipy.", "pandas.")
_SILENT = {dict, tuple, frozenset, types.WrapperDescriptorType, types.GetSetDescriptorType}
#: Members that no code of the user wrote.
_MADE = {
    "_abc_impl", "_sklearn_auto_wrap_output_keys", "__module__", "__doc__", "__orig_bases__",
    "__parameters__", "__firstlineno__", "__static_attributes__", "__annotations__", "__name__",
    "__annotations_cache__", "__package__", "__loader__", "__spec__", "__file__", "__cached__",
    "__builtins__", "__path__", "__warningregistry__", "__dataclass_fields__",
    "__dataclass_params__", "__slotnames__",
}  # fmt: skip
_FITTING = {"fit", "partial_fit", "fit_transform", "fit_predict"}
_RANDOM = ("numpy.random", "random")
_LOCKS = ("lock", "RLock", "_RLock", "Condition", "Event", "Semaphore")
_LOCKED_BY = ("_thread", "threading", "multiprocessing.synchronize")
_COMPILED = ("cython_function_or_method", "fused_cython_function")


@functools.lru_cache(maxsize=1)
def _folders():
    """Return the folders of installed packages, of the standard library and of this package."""
    packages = {sysconfig.get_path(name) for name in ("purelib", "platlib", "stdlib")}
    packages.update(getattr(site, "getsitepackages", list)())
    packages.update((site.getusersitepackages(), os.path.dirname(os.path.dirname(__file__))))
    return tuple(os.path.realpath(folder) + os.sep for folder in packages if folder)


@functools.lru_cache(maxsize=4096)
def is_installed_code(file):
    """Return whether a source file is part of Python, of an installed package or of this one."""
    if file.startswith("<"):  # frozen modules of Python; cells and strings are the user's
        return file.startswith("<frozen ")
    return os.path.realpath(file).startswith(_folders())


@functools.lru_cache(maxsize=4096)
def installed_version(name):
    """Return what names the version of a module's code, or ``None`` for code of the user.

    A distribution in a folder of packages has a version that says what its code is. An editable
    installation, a notebook, a script or a module next to it has none. Compiled classes may leave
    the package out of their module's name (scikit-learn 1.6 does); the module itself knows it.
    """
    name = getattr(sys.modules.get(name), "__name__", name)
    top = name.partition(".")[0] if isinstance(name, str) else ""
    if not top or top in ("__main__", "__mp_main__"):
        return None
    if top in sys.builtin_module_names or top in sys.stdlib_module_names:
        return f"python {platform.python_version()}"
    file = getattr(sys.modules.get(top), "__file__", None)
    if file is None or not is_installed_code(os.path.join(os.path.dirname(file), "x.py")):
        return None
    known = getattr(sys.modules[top], "__version__", None)
    if isinstance(known, str):
        return f"{top} {known}"
    names = sorted(set(importlib.metadata.packages_distributions().get(top, ())))
    return " ".join(f"{each} {importlib.metadata.version(each)}" for each in names) or None


class Opaque(Exception):
    """Something whose content cannot be known: a generator, an open file, a C object."""


class Walk:
    """One walk through an object.

    ``recipe``: of an estimator that is not fitted, for which code of the user is :class:`Opaque`.
    ``fitted``: what the class of a fitted model does when fitting shows in what it learned.
    Afterwards ``own_code`` says whether code of the user was met, and ``varies`` whether
    randomness without an integer seed was, or something that fixes what it does at the time of
    fitting only: a recipe does not say which model comes out. ``plain``: whether pickles of all
    estimators hold all that they are; ``classes``: the installed ones that were met.
    """

    def __init__(self, *, recipe=False, fitted=False):
        self.own_code = self.varies = False
        self.plain, self.classes = True, []
        self._recipe, self._fitted = recipe, fitted
        self._known = {}  # id: (object, digest); the object is kept, so that its id is not reused
        self._active = {}
        self._folders = []
        self._methods = {}

    def digest(self, *values):
        """Return the digest of some values; raise Opaque where something cannot be read."""
        try:
            return digest_of(values, self._other)
        except Exception as error:  # whatever a part of it raises
            raise Opaque(type(error).__name__) from None

    def known(self, *values):
        """Return their digest, None where something cannot be read."""
        with contextlib.suppress(Opaque):
            return self.digest(*values)
        return None

    def _other(self, value):
        """Return the digest of what is no plain value, each object's once."""
        kind = type(value)
        if kind is str:
            return self._file(value) if self.own_code else None
        if kind is dict:
            return None
        if id(value) in self._known:
            return self._known[id(value)][1]
        if id(value) in self._active:
            return f"back {len(self._active) - self._active[id(value)][0]}"
        if kind not in self._methods:
            self._methods[kind] = _method_for(kind)
        self._active[id(value)] = len(self._active), self._methods[kind]
        try:
            found = self._methods[kind](self, value)
        finally:
            del self._active[id(value)]
        self._known[id(value)] = (value, found)
        return found

    def _file(self, text):
        """Return the digest of a string and of the files that it names; None without files."""
        if not 0 < len(text) < _LONGEST_PATH or "\0" in text:
            return None
        places = dict.fromkeys(os.path.join(folder, text) for folder in ("", *self._folders))
        files = []  # a checkpoint is part of the code that loads it
        for place in filter(os.path.isfile, places):
            try:
                with open(place, "rb") as stream:
                    files.append(hashlib.file_digest(stream, "sha256").hexdigest())
            except OSError:
                files.append("unreadable")
        return self.digest(text.encode(errors="surrogatepass"), files) if files else None

    def _table(self, value):
        """Return the digest of a table inside a model, whose code may look at all it carries."""
        kind, made = type(value), table_content(value)
        if isinstance(made, np.ndarray):
            made = array_digest(made)
        if kind in (np.ndarray, np.memmap):  # joblib maps what it hands to workers
            return made if isinstance(made, str) else self.digest(made)
        beside = [getattr(value, name, None) for name in ("index", "columns", "name", "attrs")]
        own = {} if f"{kind.__module__}.".startswith(_TABLES) else getattr(value, "__dict__", {})
        return self.digest("table", kind, made, beside, own)

    def _instance(self, value):
        """Return the digest of any object: its class, and what a copy is made of."""
        kind = type(value)
        if hasattr(value, "__next__") or hasattr(value, "readable"):
            raise Opaque(kind.__name__)  # looking would use it up
        state = getattr(value, "__dict__", {})
        seed = state.get("random_state", 0) if getattr(value, "shuffle", True) else 0
        # A selector of columns looks at their types when it is fitted.
        self.varies |= not is_seed(seed) or kind.__name__ == "make_column_selector"
        made = value.__reduce_ex__(4)
        # What a pickle of the user's class leaves out its methods may look at.
        own = {} if installed_version(kind.__module__) is not None else state
        if isinstance(made, str):
            return self.digest("named", kind, made, own)
        maker, arguments, content, *items = (*made, None, None, None)[:5]
        listed = [list(each) for each in items if each is not None]
        arguments = [None if each is value else each for each in arguments]
        return self.digest("instance", kind, maker, arguments, content, listed, own)

    def _random(self, value):
        self.varies = True
        return "global" if value is np.random.mtrand._rand else self._instance(value)

    def _estimator(self, value):
        """Return the digest of an estimator: its class, its parameters, what it has learned."""
        kind = type(value)
        if not hasattr(value, "__dict__"):
            return self._instance(value)
        self.plain &= tuple(getattr(kind, way.__name__) for way in _PICKLED) == _PICKLED
        state = value.get_params(deep=False) if self._recipe else vars(value)
        if self._recipe:  # what a clone keeps fitted: frozen, or held by a method or an object
            holders = {method for _, method in self._active.values()} - {Walk._estimator}
            frozen = getattr(kind, "__sklearn_clone__", _CLONED) is not _CLONED
            self.varies |= frozen or bool(holders)
        if str(state.get("input")) in ("filename", "file"):
            raise Opaque(kind.__name__)  # it reads what records name
        manners = _MANNERS if installed_version(kind.__module__) is not None else ()
        state = {n: canonical(kind, n, v) for n, v in state.items() if n not in manners}
        self.varies |= not is_seed(state.get("random_state", 0))
        if self._recipe:
            with contextlib.suppress(Exception):  # an estimator without tags says nothing
                self.varies |= bool(value.__sklearn_tags__().non_deterministic)
        return self.digest("estimator", kind, state)

    # -- code -------------------------------------------------------------------------------------

    def _own(self, file=""):
        """Meet code of the user, whose texts may name files in its folder."""
        self.own_code = True
        if self._recipe:
            raise Opaque("code of the user")
        self._folders.append(os.path.dirname(file))

    def _function(self, value):
        """Return the digest of a function written in Python."""
        self._note_randomness(value)
        version, space = installed_version(value.__module__), value.__globals__
        cells = [None] * len(value.__closure__ or ())  # None for a name that is bound later
        for place, cell in enumerate(value.__closure__ or ()):
            with contextlib.suppress(ValueError):
                cells[place] = cell.cell_contents
        if version is not None and is_installed_code(value.__code__.co_filename):
            line = value.__code__.co_firstlineno  # one lambda from another
            return self.digest(version, value.__module__, value.__qualname__, line, cells)
        self._own(space.get("__file__") or value.__code__.co_filename)
        names = _names_in(value.__code__)
        if not _UNSEEN.isdisjoint(names):
            raise Opaque(value.__name__)
        carried = []  # what names in code may stand for: globals, or modules it imports
        for name in names:
            places = (name, f"{space.get('__package__')}.{name}")
            modules = [sys.modules[full] for full in places if full in sys.modules]
            found = modules[0] if modules and isinstance(modules[0], types.ModuleType) else None
            carried.append((name, space.get(name, found)))
        given = (value.__defaults__, value.__kwdefaults__, vars(value), *cells)
        return self.digest("function", value.__code__, given, carried)

    def _code(self, code):
        """Return the digest of compiled code, wherever it stands."""
        facts = [getattr(code, f"co_{name}") for name in _FACTS]
        return self.digest("code", sys.version, facts, code.co_consts)

    def _module(self, value):
        version = installed_version(value.__name__)
        if version is not None:
            return self.digest("module", value.__name__, version)
        self._own(getattr(value, "__file__", None) or "")
        return self.digest("module", value.__name__, _members(value))

    def _class(self, value):
        """Return the digest of a class: a name and a version, or all that it defines."""
        version, name = installed_version(value.__module__), value.__qualname__
        if version is not None and not name.startswith("<"):
            # What a session put into an installed class is code of the user.
            foreign = [pair for kind in value.__mro__ for pair in foreigners(kind)]
            if not any(isinstance(member, types.FunctionType) for _, member in foreign):
                self.classes.append(value)
            return self.digest("class", version, value.__module__, name, foreign)
        self._own()
        own = [kind for kind in value.__mro__ if installed_version(kind.__module__) is None]
        skipped = _FITTING if self._fitted else ()
        parts = [[k.__qualname__, _members(k, skipped)] if k in own else k for k in value.__mro__]
        return self.digest("class", name, type(value), parts)

    def _builtin(self, value):
        self._note_randomness(value)
        bound, module = getattr(value, "__self__", None), getattr(value, "__module__", None)
        if bound is not None and not isinstance(bound, types.ModuleType):
            return self.digest("builtin", value.__name__, bound)
        version = installed_version(module or getattr(bound, "__name__", ""))
        if version is None:
            raise Opaque(value.__name__)  # compiled code of the user
        return self.digest("builtin", version, module, value.__qualname__)

    def _ufunc(self, value):
        if not any(getattr(room, value.__name__, None) is value for room in (np, scipy.special)):
            raise Opaque(value.__name__)  # made of a function of the user
        return f"ufunc {value.__name__} {np.__version__}"

    def _note_randomness(self, function):
        """Remember functions that draw without a seed."""
        self.varies |= (getattr(function, "__module__", None) or "").startswith(_RANDOM)
        if self._recipe:
            with contextlib.suppress(TypeError, ValueError):  # no signature to be read
                seed = inspect.signature(function).parameters.get("random_state")
                self.varies |= seed is not None and not is_seed(seed.default)


_METHODS = (
    (np.generic, lambda walk, v: f"{type(v.item()).__name__} {v!r}"),
    (set | frozenset, lambda walk, v: walk.digest(type(v), sorted(map(walk.digest, v)))),
    (pathlib.PurePath, lambda walk, v: walk.digest("path", os.fspath(v))),
    (type, Walk._class),
    (types.FunctionType, Walk._function),
    (weakref.ReferenceType, lambda walk, v: walk.digest("weak", v())),
    (types.MethodType, lambda walk, v: walk.digest("method", v.__func__, v.__self__)),
    (types.ModuleType, Walk._module),
    (types.MappingProxyType, lambda walk, v: walk.digest(dict(v))),
    (types.CodeType, Walk._code),
    (property, lambda walk, v: walk.digest("property", v.fget, v.fset, v.fdel)),
    (_WRAPPINGS, lambda walk, v: walk.digest(type(v).__name__, _underlying(v))),
    (_BUILTINS, Walk._builtin),
    (np.random.RandomState | np.random.Generator | np.random.BitGenerator, Walk._random),
    (np.ufunc, Walk._ufunc),
    (np.ndarray | sp.spmatrix | sp.sparray, Walk._table),
)


def _method_for(kind):
    """Return how a walk reads objects of a kind."""
    for kinds, method in _METHODS:
        if issubclass(kind, kinds):
            return method
    if kind.__name__ in _LOCKS and kind.__module__ in _LOCKED_BY:
        return lambda walk, value: f"lock {kind.__name__}"
    if kind.__name__ in _COMPILED:
        return Walk._builtin
    if hasattr(kind, "iloc") or hasattr(kind, "__array_interface__"):
        return Walk._table
    if hasattr(kind, "_content_for_keys"):  # ours: what stays the same between answers
        return lambda walk, value: walk.digest("ours", value._content_for_keys())
    return Walk._estimator if hasattr(kind, "get_params") else Walk._instance


def foreigners(kind):
    """Return names and members of an installed class that are not its own, and its constants."""
    found = []
    for name, member in vars(kind).items():
        if type(member) in _SILENT:
            continue
        function = member if type(member) is types.FunctionType else _underlying(member)
        if type(function) is types.FunctionType:
            # What counts or logs fits is put around ``fit`` and leaves the model alone.
            known = is_installed_code(function.__code__.co_filename) or name == "fit"
            # A data class makes methods of its fields.
            if not known and not ("__dataclass_fields__" in vars(kind) and name.startswith("__")):
                found.append((name, function))
        elif not name.startswith("__") and isinstance(member, (bool, int, float, str)):
            found.append((name, member))
    return sorted(found, key=lambda pair: pair[0])


def _members(owner, skipped=()):
    """Return names and content of what a class or a module of the user defines."""
    found = []
    for name, member in sorted(vars(owner).items(), key=lambda pair: pair[0]):
        if name not in _MADE and name not in skipped and not isinstance(member, _SLOTS):
            found.append((name, member))
    return found


def _names_in(code):
    """Return the names that code and the code inside it look up, in order."""
    inner = [_names_in(each) for each in code.co_consts if isinstance(each, types.CodeType)]
    return sorted(set(code.co_names).union(*inner))


def _underlying(member):
    """Return the function in a static or class method, cached property or cache, or the member."""
    if isinstance(member, _WRAPPINGS):
        names = (n for n in ("__func__", "func", "__wrapped__") if hasattr(member, n))
        return getattr(member, next(names))
    return member.fget if isinstance(member, property) else member


def is_seed(value):
    """Return whether a ``random_state`` gives the same every time."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def canonical(kind, name, value):
    """Return a parameter as the one of equal meaning: ``C=1`` is ``C=1.0``.

    Where integers and fractions mean different things (``max_features=1`` is one feature, ``1.0``
    all of them) scikit-learn's own constraints say so.
    """
    value = value.item() if isinstance(value, np.generic) else value
    if type(value) is dict and name == "cv_results_":  # without how long they took
        value = {n: v for n, v in value.items() if not str(n).endswith(_DURATIONS)}
    constraints = getattr(kind, "_parameter_constraints", {}).get(name, ())
    if type(value) is int and isinstance(constraints, list):
        kinds = [getattr(each, "type", None) for each in constraints]
        if numbers.Real in kinds and numbers.Integral not in kinds:
            return float(value)
    return value


def object_digest(value):
    """Return a digest that survives copies and processes, None where something cannot be read."""
    return Walk().known(value)


# -- keys of models -------------------------------------------------------------------------------


def recipe_key(estimator, metric, *, training, fit_params, columns):
    """Return the key of a model before it is fitted, or None where fitting may vary.

    The digest of an unfitted estimator says what comes out for code that is installed under a
    version, where every ``random_state``, of estimators as of splitters and functions inside them,
    is an integer.

    ``training``: digest of the training data (`data_digest`).
    """
    walk, recipe = Walk(recipe=True), None
    with contextlib.suppress(Opaque, TypeError, RuntimeError):
        recipe = walk.digest(clone(estimator))
    about = Walk().known((metric, fit_params))
    if recipe is None or walk.varies or about is None:
        return None
    return content_key("recipe", _surroundings(), recipe, about, training, columns)


class KnownModel:
    """A fitted model as keys know it, looked at once for all that is asked about it.

    ``content``: digest of what it has learned; None where something in it cannot be read.
    ``predictor``: predicts what ``estimator`` does, if another object does so faster.
    """

    def __init__(self, estimator, *, predictor=None):
        self._walk = Walk(fitted=True)
        self.content = self._walk.known(estimator)
        self._own_code = self._walk.own_code
        self._model = estimator if predictor is None else predictor
        self._said = {}  # id of records: the records, what the model says about them

    @property
    def classes(self):
        """Classes that say with a :func:`fingerprint` what has been walked through; None: nothing
        less than a walk does."""
        whole = self._walk.plain and not self._walk.own_code and self.content is not None
        return list(self._walk.classes) if whole else None

    def key(self, metric, X, *, columns=None):
        """Return the key of the model: what it has learned, how it behaves, what it is asked.

        ``X``: records of the training side, never of the holdout; models with code of the user are
        asked to predict them. Two models that are equal on different ``columns`` are two models.
        None (never recognised again) where something in the model cannot be read.
        """
        self._walk.own_code = self._own_code
        about = self.content, self._walk.known(metric)
        if None in about:
            return None
        behaviour = ""
        if self._own_code:  # of the model: what a metric does shows in no prediction
            if id(X) not in self._said:
                self._said[id(X)] = X, _behaviour(self._model, X)
            behaviour = self._said[id(X)][1]
        return content_key("model", _surroundings(), about, behaviour, columns)


def fingerprint(model, classes):
    """Return what a pickle of an object and its installed ``classes`` say, in this process.

    Far cheaper than a walk, and no key: a pickle remembers which of its strings are one object.
    None where there is no pickle.
    """
    state = hashlib.sha256()
    pickler = pickle.Pickler(types.SimpleNamespace(write=state.update), protocol=5)
    found = [foreigners(kind) for kind in {base for one in classes for base in one.__mro__}]
    if any(callable(member) for pairs in found for _, member in pairs):
        return None  # code that a session put into an installed class
    try:
        pickler.dump(model)
        return repr(found), sklearn.get_config(), state.hexdigest()
    except Exception:  # whatever a part of it raises
        return None


def has_own_code(estimator):
    """Return whether an estimator holds code of the user: no recipe says what comes out of it."""
    walk = Walk(recipe=True)
    with contextlib.suppress(Opaque, TypeError, RuntimeError):
        walk.digest(clone(estimator))
    return walk.own_code


def _behaviour(estimator, X):
    """Return a digest of everything a model says about records, numbers to single precision.

    Sums of products differ in the last bits with the place of an array in memory; what the model
    has learned is in the key to the last bit already.
    """
    found: list = []
    for name in ("predict", "predict_proba", "decision_function"):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                method = getattr(estimator, name, None)
                said = None if method is None else method(copied(X))
            single = getattr(getattr(said, "dtype", None), "kind", "") == "f"
            found.append(np.asarray(said, dtype=np.float32) if single else said)
        except Exception as error:  # a model that fails does so in a certain way
            found.append(type(error).__name__)
    return data_digest(*found)


def _surroundings():
    """Return versions and settings that change what estimators do."""
    names = "transform_output", "enable_metadata_routing", "array_api_dispatch", "assume_finite"
    config = {name: sklearn.get_config()[name] for name in names}
    return query_key(sklearn.__version__, np.__version__, scipy.__version__, config)
