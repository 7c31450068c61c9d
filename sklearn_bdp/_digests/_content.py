"""Content of data and of code, and keys of queries: the leaves of every digest.

The same content gives the same text in every process. Of code it matters which is installed under
a version and which is the user's; each function looks at one thing, as it is at this moment.
"""

from __future__ import annotations

import copy
import functools
import hashlib
import importlib.metadata
import numbers
import operator
import os
import pickle
import platform
import site
import sys
import sysconfig
import types
from typing import Any

import joblib
import numpy as np
import scipy.sparse as sp
from numpy.lib.recfunctions import repack_fields

from sklearn_bdp._version import __version__

FITTING = ("fit", "partial_fit", "fit_transform", "fit_predict")
WRAPPINGS = (staticmethod, classmethod, functools.cached_property, functools._lru_cache_wrapper)
#: Distributions whose name is not that of their package: asking for all takes 0.2 s.
_DISTRIBUTIONS = {"sklearn": "scikit-learn"}
_CONTENT = "content:"
#: Members of classes that are neither code nor constants.
_SILENT = {dict, tuple, frozenset, types.WrapperDescriptorType, types.GetSetDescriptorType}
_PLAIN = bool | np.bool_ | numbers.Number


def data_digest(*data):
    """Return the SHA-256 of shapes, types, names, categories in their order, and values."""
    return _digest(data, other=_cell)


def training_digest(*data):
    """Return a digest of training data by value, for keys.

    The layout in memory, the index and the width of floating-point numbers do not count: an
    estimator learns from equal values the same.
    """
    return _digest(data, other=_cell, wide=True)


def query_key(*parts: Any) -> str:
    """Return the key of a query: a digest of what is known without the holdout.

    Parameters
    ----------
    *parts : str, bytes, number, None, array, list, tuple or dict
        For instance the parameters, the name of the metric, and the fitted model's predictions on
        the training data. Never anything computed from the holdout: a recorded answer is returned
        for an equal key, so the key itself would carry information.

    Returns
    -------
    str
        Hexadecimal SHA-256.

    Raises
    ------
    TypeError
        If a part has no content that is stable from process to process.

    See Also
    --------
    sklearn_bdp.ReusableHoldout.answer : Takes keys.

    Examples
    --------
    >>> query_key("accuracy", {"C": 1.0}) == query_key("accuracy", {"C": 1.0})
    True
    >>> query_key("accuracy", {"C": 1.0}) == query_key("accuracy", {"C": 2.0})
    False
    """
    return _digest(parts)


def content_key(*parts):
    """Return the key of a query that is known by its content: the same key is the same model."""
    return _CONTENT + query_key(*parts)


def is_content_key(key):
    """Return whether a key was made of the content of a model (`content_key`).

    A key that callers choose names a query only together with the training-side value it was
    asked with; a digest of the model itself needs no company.
    """
    return key.startswith(_CONTENT)


def copied(X):
    """Return a copy that may be worked on in place, in the same order in memory."""
    if isinstance(X, np.ndarray):
        return X.copy(order="K")  # the last bits of a sum depend on it
    if hasattr(X, "__array_namespace__"):
        return X.__array_namespace__().asarray(X, copy=True)
    return X.copy() if hasattr(X, "copy") else X


def freeze_data(X):
    """Return a copy of data that neither the caller's changes nor writes through it can reach.

    Arrays are read-only; the lists and objects inside lists, frames and arrays are copied, too.
    """
    if hasattr(X, "__array_namespace__") and not isinstance(X, np.ndarray):
        return copied(X)
    if getattr(getattr(X, "dtype", None), "hasobject", True) and not sp.issparse(X):
        X = X if hasattr(X, "shape") else list(X)
        try:
            frozen = pickle.loads(pickle.dumps(X, protocol=5))
        except Exception:  # cells of a class that cannot be named
            frozen = copy.deepcopy(X)
    else:
        frozen = X.copy()
    for part in (frozen, *getattr(frozen, "__dict__", {}).values()):  # of sparse data, its arrays
        if isinstance(part, np.ndarray):
            part.setflags(write=False)
    return frozen


def _digest(parts, **options):
    """Return the digest of some values; the options are those of ``feed``."""
    state = hashlib.sha256()
    for part in parts:
        feed(state, part, **options)
    return state.hexdigest()


def feed(state, value, *, other=None, wide=False):
    """Add one value: its kind, its size, its content; every length precedes what it measures.

    ``other`` gives the digest of an object that is no plain data; without it such objects raise.
    ``wide``: floating-point numbers of single and double precision are one type.
    """
    if wide and isinstance(value, np.ndarray) and value.dtype == np.float32:
        value = value.astype(np.float64)
    kind, size, content = opened(value)
    if kind is None:
        if other is None:
            raise TypeError(
                "data and keys must be made of arrays, frames, sparse matrices, numbers and "
                f"strings, got {type(value).__name__}."
            )
        kind, size = "other", other(value)
    state.update(f"{kind}:{len(size)}:{size};".encode("utf-8", "surrogatepass"))
    if isinstance(content, bytes):
        state.update(content)
        return
    if kind == "objects":
        other = other or _cell
    for part in content:
        feed(state, part, other=other, wide=wide)


def opened(value):
    """Return the kind of a value, its size in words, and its content: bytes, or further values."""
    if type(value) is np.ndarray:
        return _opened_array(value)
    if isinstance(value, str | bytes):
        data = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
        return type(value).__name__, str(len(data)), data
    if value is None or isinstance(value, _PLAIN):
        # numpy scalars and Python numbers of equal value are the same content
        plain = value.item() if isinstance(value, np.generic) else value
        return type(plain).__name__, repr(plain), b""
    if sp.issparse(value):
        rows = value.tocsr().copy()
        rows.sum_duplicates()
        rows.sort_indices()
        places = rows.indptr.astype(np.int64), rows.indices.astype(np.int64)
        return "sparse", repr(rows.shape), (*places, rows.data)
    if hasattr(value, "columns") and hasattr(value, "shape"):
        columns = ((name, _column(value, place)) for place, name in enumerate(value.columns))
        parts = [part for name, column in columns for part in (str(name), column)]
        return "frame", repr(value.shape), parts
    if hasattr(value, "iloc"):
        return _opened_series(value)
    if isinstance(value, dict):
        parts = [part for name in sorted(value, key=repr) for part in (name, value[name])]
        return "dict", str(len(value)), parts
    if isinstance(value, list | tuple):
        return "list", str(len(value)), value
    if hasattr(value, "__array__") or hasattr(value, "__array_namespace__"):
        return _opened_array(value if isinstance(value, np.ndarray) else np.asarray(value))
    return None, "", b""


def _column(frame, place):
    """Return a column of a frame of pandas or polars."""
    return frame.iloc[:, place] if hasattr(frame, "iloc") else frame.get_columns()[place]


def _opened_series(series):
    """Return a column; of categories their values and order, and which each record has."""
    categories = getattr(series.dtype, "categories", None)
    if categories is None:
        return "series", "", [np.asarray(series)]  # with its type
    codes = np.asarray(series.cat.codes, dtype=np.int64)
    return "categories", str(series.dtype.ordered), [np.asarray(categories), codes]


@functools.lru_cache(maxsize=256)
def _packed(dtype):
    """Return name and type of little-endian numbers, without padding between fields."""
    little = repack_fields(dtype.newbyteorder("<"), recurse=True)
    return little.str if dtype.names is None else repr(little), little


def _opened_array(array):
    """Return an array, without what its memory holds beside its values."""
    if array is np.ma.masked:  # it cannot be filled
        return "masked constant", "", b""
    if isinstance(array, np.ma.MaskedArray):
        return "masked", repr(array.shape), [np.asarray(array.filled()), np.ma.getmaskarray(array)]
    if array.dtype.hasobject or array.dtype.kind == "T":
        return "objects", repr(array.shape), array.ravel().tolist()
    name, little = _packed(array.dtype)
    return name, repr(array.shape), array.astype(little, copy=False).tobytes()


def _cell(item):
    """Return the content of an unusual cell (a date, a missing mark, an object of the caller's)."""
    if isinstance(item, set | frozenset):
        return f"set:{sorted(map(_cell, item))}"
    try:
        return f"{type(item).__qualname__}:{joblib.hash(item, hash_name='sha1')}"
    except Exception:  # what cannot be pickled
        pass
    raise TypeError(f"a cell of type {type(item).__name__} has no content to be known by.")


# -- code ---------------------------------------------------------------------------------------


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
    return f"{top} {__version__}" if top == __name__.partition(".")[0] else _distribution(top)


def _distribution(top):
    """Return name and version of the distributions that a package belongs to, or ``None``."""
    try:
        return f"{top} {importlib.metadata.version(_DISTRIBUTIONS.get(top, top))}"
    except importlib.metadata.PackageNotFoundError:
        names = set(importlib.metadata.packages_distributions().get(top, ()))
    return " ".join(f"{each} {importlib.metadata.version(each)}" for each in sorted(names)) or None


def foreigners(kind):
    """Return names and members of an installed class that are not its own, and its constants."""
    found = []
    for name, member in vars(kind).items():
        if type(member) in _SILENT:
            continue
        function = member if type(member) is types.FunctionType else underlying(member)
        if type(function) is types.FunctionType:
            # What counts or logs fits is put around ``fit`` and leaves the model alone.
            known = is_installed_code(function.__code__.co_filename) or name == "fit"
            # A data class makes methods of its fields.
            if not known and not ("__dataclass_fields__" in vars(kind) and name.startswith("__")):
                found.append((name, function))
        elif not name.startswith("__") and isinstance(member, (bool, int, float, str)):
            found.append((name, member))
    return sorted(found, key=operator.itemgetter(0))


def joined(*parts):
    """Return the digest of texts, each preceded by its length."""
    text = "".join([f"{len(part)}:{part}" for part in parts])
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


@functools.lru_cache(maxsize=16384)
def plain_digest(kind, text):
    """Return what ``feed`` makes of a plain number or a string: immutable, hence known for good."""
    return hashlib.sha256(
        f"{kind}:{len(text)}:{text};".encode("utf-8", "surrogatepass")
    ).hexdigest()


def cell_content(cell):
    """Return what a closure holds; None for a name that is bound later."""
    try:
        return cell.cell_contents
    except ValueError:
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
    fitting, others = set(), set()
    for each in kind.__mro__:
        if installed_version(each.__module__) is not None:
            others.update(vars(each))
            continue
        for name, member in vars(each).items():
            function = underlying(member)
            if isinstance(function, types.FunctionType):
                (fitting if name in FITTING else others).update(names_in(function.__code__))
    return fitting - others


def file_digest(file):
    """Return the digest of a file's content: a checkpoint is part of the code that loads it."""
    try:
        with open(file, "rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError:
        return "unreadable"
