"""What code is made of: members of classes, names in code, digests of names and files.

Leaves of the walk through an object: each looks at one thing, as it is at this moment.
"""

import functools
import hashlib
import numbers
import operator
import platform
import sys
import types

import numpy as np

from sklearn_bdp._digests._installed import installed_version, is_installed_code

FITTING = ("fit", "partial_fit", "fit_transform", "fit_predict")
WRAPPINGS = (staticmethod, classmethod, functools.cached_property, functools._lru_cache_wrapper)
_TIMES = ("fit_time", "score_time", "refit_time")
_LONGEST_PATH = 1000


def canonical(kind, name, value):
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


def is_seed(value):
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


@functools.lru_cache(maxsize=4096)
def is_time(name):
    """Return whether a name is that of a duration, which differs from fit to fit."""
    return any(each in name for each in _TIMES)


def foreigners(kind):
    """Return names and members of an installed class that are not its own, and its constants."""
    found = []
    for name, member in vars(kind).items():
        function = member if type(member) is types.FunctionType else underlying(member)
        # What counts or logs fits is put around ``fit`` and leaves the model alone.
        if (
            isinstance(function, types.FunctionType)
            and name != "fit"
            and not is_installed_code(function.__code__.co_filename)
            and not _is_generated(kind, name, function)
        ):
            found.append((name, function))
        elif isinstance(member, bool | int | float | str) and not name.startswith("__"):
            found.append((name, member))
    return sorted(found, key=operator.itemgetter(0))


def _is_generated(kind, name, function):
    """Return whether a method was made of the fields of a data class, by the class itself."""
    return (
        "__dataclass_fields__" in vars(kind)
        and name.startswith("__")
        and function.__code__.co_filename == "<string>"
        and function.__qualname__.endswith(f"{kind.__name__}.{name}")
    )


def joined(*parts):
    """Return the digest of texts, each preceded by its length."""
    encoded = [part.encode("utf-8", "surrogatepass") for part in parts]
    return hashlib.sha256(b"".join([b"%d:%b" % (len(each), each) for each in encoded])).hexdigest()


@functools.lru_cache(maxsize=4096)
def scalar_digest(kind, text):
    """Return what ``feed`` makes of a plain number: immutable, hence known for good."""
    return hashlib.sha256(f"{kind}:{len(text)}:{text};".encode()).hexdigest()


def text_digest(text, *files):
    """Return the digest of a string and of the files that it names."""
    if files or len(text) > _LONGEST_PATH:
        return joined(
            "text", hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest(), *files
        )
    return _name_digest(text)


def constant_digest(value):
    """Return the digest of a number, or of a string that names no file."""
    if isinstance(value, str):
        return text_digest(value)
    return scalar_digest(type(value).__name__, repr(value))


@functools.lru_cache(maxsize=16384)
def _name_digest(text):
    return joined("text", hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest())


def cell_content(cell):
    try:
        return cell.cell_contents
    except ValueError:  # a name that is bound later
        return None


def underlying(member):
    """Return the function in a static or class method, cached property or cache, or the member."""
    if isinstance(member, WRAPPINGS):
        for name in ("__func__", "func", "__wrapped__"):
            if hasattr(member, name):
                return getattr(member, name)
    return member.fget if isinstance(member, property) else member


def names_in(code):
    """Return the names that code and the code inside it look up, in order."""
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names.update(names_in(constant))
    return sorted(names)


def fit_only(kind):
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
            function = underlying(member)
            if isinstance(function, types.FunctionType):
                (fitting if name in FITTING else others).update(names_in(function.__code__))
    return fitting - others - inherited


def loaded_module(name):
    module = sys.modules.get(name)
    return module if isinstance(module, types.ModuleType) else None


@functools.lru_cache(maxsize=1)
def python_version():
    return platform.python_version()


def file_digest(file):
    """Return the digest of a file's content: a checkpoint is part of the code that loads it."""
    state = hashlib.sha256()
    try:
        with open(file, "rb") as stream:
            while block := stream.read(1 << 20):
                state.update(block)
    except OSError:
        return "unreadable"
    return state.hexdigest()
