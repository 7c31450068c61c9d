"""Digests of texts, data, objects and code, and keys of queries and models.

Digests of data and of objects do not depend on the process or on the layout in memory.

Digests of data (:func:`data_digest`) depend on shapes, types, names and values. Digests of objects
(:class:`ObjectHasher`) depend on installed code by name and version, and on code of the user by
value. Pickle reads the state of an object, but it stores functions and classes by name and fails at
lambdas. For these the hasher replaces pickle: it reads code, closures, defaults, the globals that
code names and the members of classes, so that changes of behavior change the digest. Code that
looks something up by a name that cannot be followed (``open``, ``environ``, ``globals`` …) has no
digest, and neither has a model that reads files named in its records.

A *recipe key* can be computed before a model is fitted, from installed code with a version,
parameters and training data. It is used only if these determine the fitted model. In all other
cases the key is computed from the fitted model: its learned state and the code of the user by
value. With code of the user, predictions for training records are added, which can also show
changes that the hasher cannot follow.

``joblib.hashing.NumpyHasher`` with ``inspect.getclosurevars`` was tried instead and rejected:
``getclosurevars`` (Python 3.11) does not list globals that only a comprehension, lambda or inner
function reads, so that two models would share a key. ``NumpyHasher`` also sorts dictionaries,
depends on object identity, drops attributes of array subclasses, and pickles in Python, which takes
ten times as long for a vocabulary.
"""

from __future__ import annotations

import functools
import hashlib
import hmac
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
from collections.abc import Iterable
from typing import Any

import joblib
import numpy as np
import scipy
import scipy.sparse as sp
import scipy.special
import sklearn
from numpy.lib.recfunctions import repack_fields
from sklearn.base import BaseEstimator, clone

# -- Texts and bytes -------------------------------------------------------------------------------


def bytes_digest(chunks: Iterable[bytes]) -> str:
    """Return the SHA-256 of joined bytes, in hexadecimal digits."""
    sha256 = hashlib.sha256()
    for chunk in chunks:
        sha256.update(chunk)
    return sha256.hexdigest()


def text_digest(*texts: str) -> str:
    """Return the SHA-256 of texts, each with its length before it, in hexadecimal digits."""
    if all(map(str.isascii, texts)):  # a character is a byte
        joined = "".join([f"{len(text)}:{text}" for text in texts]).encode("ascii")
    else:
        encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
        joined = b"".join([b"%d:%b" % (len(data), data) for data in encoded])
    return hashlib.sha256(joined).hexdigest()


def keyed_digest(key: bytes, text: str) -> str:
    """Return the HMAC-SHA-256 of a text with a secret key, in hexadecimal digits."""
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


def text_code(text: str) -> int:
    """Return the first 64 bits of the SHA-256 of a text as an integer."""
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big")


# -- Data ------------------------------------------------------------------------------------------

_CONTENT_PREFIX = "content:"
_PICKLED_DIRECTLY = {type(None), bool, int, float, bytes, tuple, list}


def _digest_of(values, object_digest):
    """Return the SHA-256 of a pickle of nested values.

    ``object_digest(value)`` is called for each value that is not None, a bool, an int, a float,
    bytes, a tuple or a list. It returns a text that replaces the value, or None if pickle is to
    read it.
    """
    sha256 = hashlib.sha256()
    pickler = pickle.Pickler(types.SimpleNamespace(write=sha256.update), protocol=4)
    pickler.fast = True  # no memo: shared objects are hashed like equal ones
    pickler.persistent_id = lambda value: (
        None if type(value) in _PICKLED_DIRECTLY else object_digest(value)
    )
    pickler.dump(values)
    return sha256.hexdigest()


def data_digest(*data):
    """Return the SHA-256 of shapes, types, names, categories in their order, and values.

    An index of a table is not included. Raises TypeError for a cell that cannot be pickled.
    """
    return _digest_of(data, functools.partial(_value_digest, fallback=_cell_digest))


def pickle_digest(value, *, hash_name="sha1"):
    """Return a digest of an object's pickle, in which arrays are hashed by their content.

    Unlike :func:`object_digest` it identifies code of the user by name. Errors of pickling are
    raised.
    """
    return joblib.hash(value, hash_name=hash_name)


def records_digest(*tables):
    """Return the SHA-256 of the values of tables and targets.

    An int32 array, a float64 frame and a list of the same numbers have the same digest. A sparse
    matrix has another one, and so may a frame of other values than numbers. Names of columns are
    not included.
    """
    return data_digest(*map(_plain_values, tables))


def column_names(table):
    """Return the names of a frame's columns if all are strings, else None."""
    names = list(getattr(table, "columns", ())) if hasattr(table, "shape") else []
    return names if names and all(isinstance(name, str) for name in names) else None


def _plain_values(table):
    """Return a table with numbers as doubles if these are exact, and with texts as objects.

    Frames become an array or a list, sparse matrices have the CSR format, and other tables become
    arrays. Masked arrays and data without an array form are returned unchanged.
    """
    if sp.issparse(table):
        matrix = table.tocsr().copy()
        matrix.data = _plain_array(matrix.data)
        return matrix
    if _is_frame(table):
        return _plain_frame(table)
    if isinstance(table, np.ma.MaskedArray):
        return table
    if isinstance(table, list | tuple) or hasattr(table, "__array__"):
        try:
            return _plain_array(np.asarray(table))
        except ValueError:  # rows that hold sequences have no shape
            return table
    return table


def _is_frame(table):
    """Return whether a table is a frame of pandas or polars."""
    return hasattr(table, "columns") and hasattr(table, "shape")


def _named_columns(frame):
    """Return an iterable of the pairs (name, column) of a frame of pandas or polars."""
    if hasattr(frame, "items"):
        return frame.items()
    return zip(frame.columns, frame, strict=True)


def _plain_frame(frame):
    """Return a frame as one array of doubles if these hold all its values exactly.

    Any other frame becomes the list ``["columns", shape, columns]``: the shape is a text, and the
    columns are a list of arrays.
    """
    columns = [_plain_array(np.asarray(column)) for _, column in _named_columns(frame)]
    if not all(column.dtype == np.float64 for column in columns):
        return ["columns", repr(frame.shape), columns]
    return np.column_stack(columns) if columns else np.empty(frame.shape)


def _plain_array(array):
    """Return an array of numbers as doubles if these are exact; of texts and objects as objects.

    Other arrays, such as those of dates, are returned unchanged.
    """
    if array.dtype.kind == "O":
        array = _array_of_numbers(array)
    if array.dtype.kind in "biuf":
        return _as_doubles(array)
    if array.dtype.kind in "UT" or array.dtype.hasobject:
        return np.array(array, dtype=object)
    return array


def _as_doubles(array):
    """Return an array of numbers as doubles, or unchanged if doubles could round a value."""
    with np.errstate(all="ignore"):
        doubles = array.astype(np.float64) + 0.0  # also -0.0 is 0.0
        is_exact = array.dtype.kind in "bf" or bool(
            (np.abs(doubles) <= 2.0**53).all()  # beyond it integers are rounded
        )
    if not is_exact or (array.dtype.itemsize > 8 and not (doubles == array).all()):
        return array
    doubles[np.isnan(doubles)] = np.nan  # one kind of NaN
    return doubles


def _array_of_numbers(array):
    """Return an array of objects that are numbers or booleans as an array of numbers.

    Other arrays, and those whose numbers have no common dtype, are returned unchanged.
    """
    items = array.ravel().tolist()
    if not items or not all(isinstance(item, bool | int | float | np.number) for item in items):
        return array
    try:
        dtype = np.result_type(*map(np.min_scalar_type, items))
        return np.asarray(items, dtype=dtype).reshape(array.shape)
    except (TypeError, ValueError, OverflowError):
        return array


def query_key(*parts: Any) -> str:
    """Return the key of a query, which is computed without the holdout.

    Parameters
    ----------
    *parts : str, bytes, number, None, array, list, tuple or dict
        For example the parameters, the name of the metric, and the fitted model's predictions on
        the training data. Never anything computed from the holdout: a recorded answer is returned
        for an equal key, so the key itself would reveal information.

    Returns
    -------
    str
        SHA-256 in hexadecimal digits.

    Raises
    ------
    TypeError
        If an argument has no content that is the same in each process.

    See Also
    --------
    sklearn_bdp.ReusableHoldout.answer : Takes keys.

    Examples
    --------
    >>> from sklearn_bdp.utils.hashing import query_key
    >>> query_key("accuracy", {"C": 1.0}) == query_key("accuracy", {"C": 1.0})
    True
    >>> query_key("accuracy", {"C": 1.0}) == query_key("accuracy", {"C": 2.0})
    False
    """
    values = [part.item() if isinstance(part, np.generic) else part for part in parts]
    return _digest_of(values, functools.partial(_value_digest, fallback=_reject))


def content_key(*parts):
    """Return :func:`query_key` of the arguments, with the prefix of keys that the package makes."""
    return _CONTENT_PREFIX + query_key(*parts)


def is_content_key(key):
    """Return whether a query key was made by `content_key`, not chosen by a caller."""
    return key.startswith(_CONTENT_PREFIX)


def copy_data(X):
    """Return a copy of ``X``; copies of NumPy arrays have the same memory layout.

    Objects without a method ``copy`` that are not arrays are returned unchanged.
    """
    if isinstance(X, np.ndarray):
        return X.copy(order="K")  # the last bits of a sum depend on the order
    if hasattr(X, "__array_namespace__"):
        return X.__array_namespace__().asarray(X, copy=True)
    return X.copy() if hasattr(X, "copy") else X


def _value_digest(value, *, fallback):
    """Return the digest of data, None for a str, and ``fallback(value)`` for other objects.

    Data are numbers, dictionaries, lists, tuples and tables. The digest of a number is a text of
    its type and value.
    """
    if type(value) is str:
        return None
    if isinstance(value, np.generic | numbers.Number):
        number = value.item() if isinstance(value, np.generic) else value
        return f"{type(number).__name__} {number!r}"
    content = _content(value)
    if content is None:
        return fallback(value)
    if isinstance(content, np.ndarray):
        return _array_digest(content)
    if content[0] == "objects":  # cells may be of any class
        fallback = _cell_digest
    return _digest_of(content, functools.partial(_value_digest, fallback=fallback))


def _content(value):
    """Return the content of a dictionary, a list, a tuple or a table, None for other objects.

    It is an array, or a tuple that starts with the kind of content as text, such as "dict".
    """
    if isinstance(value, dict):
        return "dict", sorted(value.items(), key=lambda item: repr(item[0]))
    if isinstance(value, list | tuple):
        return "list", list(value)
    return _table_content(value)


def _array_digest(array):
    """Return a text of the dtype, shape and SHA-256 of the bytes of an array without objects."""
    return f"{array.dtype} {array.shape} {hashlib.sha256(array.tobytes()).hexdigest()}"


def as_single_array(table):
    """Return a pandas frame as an array if all its columns have the same numeric NumPy dtype.

    The dtype is one of booleans, integers or floats. Any other object is returned unchanged.
    """
    if not hasattr(table, "iloc") or not hasattr(table, "columns"):
        return table
    dtypes = set(table.dtypes)
    if len(dtypes) != 1 or getattr(next(iter(dtypes)), "kind", "") not in "biuf":
        return table
    array = table.to_numpy()
    return array if array.dtype in dtypes else table


def _table_content(value):
    """Return the content of a table or column: an array, or a tuple (kind, description, values).

    Kind and description are texts, and values a list. The content does not depend on the memory
    layout. It is None for other objects.
    """
    if sp.issparse(value):
        return _sparse_content(value)
    if _is_frame(value):
        return _frame_content(value)
    if hasattr(value, "iloc"):
        return _series_content(value)
    if hasattr(value, "__array__") or hasattr(value, "__array_namespace__"):
        return _array_content(value if isinstance(value, np.ndarray) else np.asarray(value))
    return None


def _sparse_content(matrix):
    """Return ("sparse", shape as text, arrays of the sorted CSR format without duplicates)."""
    csr_matrix = matrix.tocsr().copy()
    csr_matrix.sum_duplicates()
    csr_matrix.sort_indices()
    indptr = csr_matrix.indptr.astype(np.int64)
    indices = csr_matrix.indices.astype(np.int64)
    return "sparse", repr(csr_matrix.shape), [indptr, indices, csr_matrix.data]


def _series_content(series):
    """Return (kind, description, arrays) of a pandas series without its index.

    The list of arrays has the values, or categories and codes.
    """
    categories = getattr(series.dtype, "categories", None)
    if categories is None:
        return "series", "", [np.asarray(series)]  # with its type
    codes = np.asarray(series.cat.codes, dtype=np.int64)
    return "categories", str(series.dtype.ordered), [np.asarray(categories), codes]


def _array_content(array):
    """Return an array in little-endian C order, or a tuple (kind, description, values).

    It is a tuple for masked arrays and arrays with objects or texts of variable width.
    """
    if array is np.ma.masked:  # it cannot be filled
        return "masked constant", "", []
    if isinstance(array, np.ma.MaskedArray):
        return "masked", repr(array.shape), [np.asarray(array.filled()), np.ma.getmaskarray(array)]
    if array.dtype.hasobject or array.dtype.kind == "T":
        return "objects", repr(array.shape), array.ravel().tolist()
    dtype = array.dtype.newbyteorder("<")
    if dtype.names:
        dtype = repack_fields(dtype, recurse=True)  # without padding between fields
    return np.asarray(array).astype(dtype, order="C", copy=False)


def _frame_content(frame):
    """Return (kind, shape as text, list of names and values) of a frame, without its index."""
    array = as_single_array(frame)
    if isinstance(array, np.ndarray):
        return "numbers", repr(array.shape), [repr(list(map(str, frame.columns))), array]
    names_and_columns = []
    for name, column in _named_columns(frame):
        names_and_columns += [str(name), column]
    return "frame", repr(frame.shape), names_and_columns


def _cell_digest(cell):
    """Return the digest of an object in a cell of a table, by its pickle; of a set by its items.

    Raises TypeError for a cell that cannot be pickled.
    """
    if isinstance(cell, set | frozenset):
        return f"set {sorted(map(_cell_digest, cell))}"
    try:
        return f"{type(cell).__qualname__} {joblib.hash(cell, hash_name='sha1')}"
    except Exception:  # a cell that cannot be pickled
        pass
    raise TypeError(f"a cell of type {type(cell).__name__} has no stable content.")


def _reject(value):
    """Raise TypeError for a value that is not data."""
    raise TypeError(
        "data and keys must be made of arrays, frames, sparse matrices, numbers and strings, got "
        f"{type(value).__name__}."
    )


# -- Installed code --------------------------------------------------------------------------------


@functools.lru_cache(maxsize=1)
def _installed_folders():
    """Return the folders of installed packages, of the standard library and of this package.

    Each ends with a separator.
    """
    folders = {sysconfig.get_path(name) for name in ("purelib", "platlib", "stdlib")}
    folders.update(getattr(site, "getsitepackages", list)())
    folders.update((site.getusersitepackages(), os.path.dirname(os.path.dirname(__file__))))
    return tuple(os.path.realpath(folder) + os.sep for folder in folders if folder)


@functools.lru_cache(maxsize=4096)
def _is_installed_file(file):
    """Return whether a source file belongs to Python, an installed package or this package."""
    if file.startswith("<"):  # frozen modules of Python; cells and strings are code of the user
        return file.startswith("<frozen ")
    return os.path.realpath(file).startswith(_installed_folders())


@functools.lru_cache(maxsize=4096)
def _installed_version(module_name):
    """Return the name and version of a module's package as text, None for code of the user.

    A package without a version, an editable installation of another package, a notebook, a script
    and a module next to it count as code of the user.
    """
    # Compiled classes of scikit-learn 1.6 have a module name without the package.
    module_name = getattr(sys.modules.get(module_name), "__name__", module_name)
    package = module_name.partition(".")[0] if isinstance(module_name, str) else ""
    if not package or package in ("__main__", "__mp_main__"):
        return None
    if package in sys.builtin_module_names or package in sys.stdlib_module_names:
        return f"python {platform.python_version()}"
    file = getattr(sys.modules.get(package), "__file__", None)
    if file is None or not _is_installed_file(os.path.join(os.path.dirname(file), "x.py")):
        return None
    return _package_version(package)


def _package_version(package):
    """Return the name and version of an imported package as text, None without a version.

    Without a text ``__version__`` they are those of its distributions.
    """
    version = getattr(sys.modules[package], "__version__", None)
    if isinstance(version, str):
        return f"{package} {version}"
    distributions = sorted(set(importlib.metadata.packages_distributions().get(package, ())))
    versions = [f"{name} {importlib.metadata.version(name)}" for name in distributions]
    return " ".join(versions) or None


# -- Objects ---------------------------------------------------------------------------------------

#: Names of constants and attributes of this package in keys, if they differ. They must not change:
#: another name makes every recorded answer a new query.
_STORED_NAMES = {"uses_predictions_only": "by_predictions", "within_group_fractions": "inside"}
#: Parameters of installed estimators, and an attribute, that do not change the fitted model.
_EXECUTION_PARAMETERS = {"n_jobs", "verbose", "memory", "pre_dispatch", "refit_time_"}
_DURATIONS = ("fit_time", "score_time")  # among the results of a search
#: Names by which code reads a value that is neither in an object nor in its code.
_UNTRACEABLE_NAMES = {
    "environ", "getenv", "globals", "open", "import_module", "__import__", "eval", "exec",
}  # fmt: skip
_MAX_PATH_LENGTH = 1000
#: Methods by which pickle reads an estimator whose class does not override them.
_PICKLE_METHODS = BaseEstimator.__getstate__, object.__reduce__, object.__reduce_ex__
_CLONE_METHOD = BaseEstimator.__sklearn_clone__
#: Attributes of code objects that do not depend on the location of the source.
_CODE_ATTRIBUTES = (
    "code", "names", "varnames", "freevars", "cellvars", "argcount", "posonlyargcount",
    "kwonlyargcount", "flags",
)  # fmt: skip
_WRAPPERS = (staticmethod, classmethod, functools.cached_property, functools._lru_cache_wrapper)
#: Members of classes that are neither code nor constants.
_SLOTS = types.MemberDescriptorType | types.GetSetDescriptorType
_BUILTINS = types.BuiltinFunctionType | types.MethodDescriptorType | types.WrapperDescriptorType
_ARRAY_PACKAGES = ("numpy.", "scipy.", "pandas.")
_IGNORED_MEMBER_TYPES = {
    dict, tuple, frozenset, types.WrapperDescriptorType, types.GetSetDescriptorType,
}  # fmt: skip
#: Members that Python or scikit-learn adds to classes and modules.
_GENERATED_MEMBERS = {
    "_abc_impl", "_sklearn_auto_wrap_output_keys", "__module__", "__doc__", "__orig_bases__",
    "__parameters__", "__firstlineno__", "__static_attributes__", "__annotations__", "__name__",
    "__annotations_cache__", "__package__", "__loader__", "__spec__", "__file__", "__cached__",
    "__builtins__", "__path__", "__warningregistry__", "__dataclass_fields__",
    "__dataclass_params__", "__slotnames__",
}  # fmt: skip
_FIT_METHODS = {"fit", "partial_fit", "fit_transform", "fit_predict"}
_RANDOM_MODULES = ("numpy.random", "random")
_LOCK_NAMES = ("lock", "RLock", "_RLock", "Condition", "Event", "Semaphore")
_LOCK_MODULES = ("_thread", "threading", "multiprocessing.synchronize")
_CYTHON_FUNCTIONS = ("cython_function_or_method", "fused_cython_function")


class OpaqueError(Exception):
    """An object has no digest, such as a generator, or code that cannot be followed."""


class ObjectHasher:
    """Hasher of objects by their state and their code.

    Parameters
    ----------
    recipe : bool, default=False
        Whether unfitted estimators are hashed, by their parameters. Code of the user then raises
        `OpaqueError`.
    fitted : bool, default=False
        Whether fit methods of the user's classes are left out: their effect is in the state of a
        fitted model.

    Attributes
    ----------
    has_user_code : bool
        Whether an object that was hashed contains code of the user.
    may_vary : bool
        Whether fits may give different models, for instance because an object draws random numbers
        without an integer seed.
    pickles_are_complete : bool
        Whether no estimator that was hashed overrides how pickle reads its state.
    installed_classes : list of type
        Installed classes of the objects, without those that code of the user added
        functions other than ``fit`` to.
    """

    def __init__(self, *, recipe=False, fitted=False):
        self.has_user_code = False
        self.may_vary = False
        self.pickles_are_complete = True
        self.installed_classes = []
        self._recipe = recipe
        self._fitted = fitted
        # Object and digest by id of the object, which is held so that its id is not reused.
        self._digests = {}
        # Depth and method by id, of the objects that are being hashed.
        self._active = {}
        self._code_folders = []  # of files with code of the user
        self._methods = {}  # hash methods by class

    def digest(self, *values):
        """Return the digest of values; raise OpaqueError if a value cannot be read."""
        try:
            return _digest_of(values, self._object_digest)
        except Exception as error:  # any error of an object's own methods
            raise OpaqueError(type(error).__name__) from None

    def digest_or_none(self, *values):
        """Return the digest of values, None if a value cannot be read."""
        try:
            return self.digest(*values)
        except OpaqueError:
            return None

    def _object_digest(self, value):
        """Return the digest of an object, None if pickle is to read it.

        In a reference cycle it is a text with the number of levels up to the object. It is None for
        dictionaries, and for texts unless code of the user was hashed and they name a file.
        """
        cls = type(value)
        if cls is str:
            return self._file_digest(value) if self.has_user_code else None
        if cls is dict:
            return None
        if id(value) in self._digests:
            _, digest = self._digests[id(value)]
            return digest
        if id(value) in self._active:  # a reference cycle
            depth, _ = self._active[id(value)]
            return f"back {len(self._active) - depth}"  # number of levels
        if cls not in self._methods:
            self._methods[cls] = _hash_method(cls)
        self._active[id(value)] = len(self._active), self._methods[cls]
        try:
            digest = self._methods[cls](self, value)
        finally:
            del self._active[id(value)]
        self._digests[id(value)] = (value, digest)
        return digest

    def _file_digest(self, text):
        """Return the digest of a string and of the files that it names; None without such files."""
        if not 0 < len(text) < _MAX_PATH_LENGTH or "\0" in text:
            return None
        paths = dict.fromkeys(os.path.join(folder, text) for folder in ("", *self._code_folders))
        file_digests = []
        for path in filter(os.path.isfile, paths):
            try:
                with open(path, "rb") as stream:
                    file_digests.append(hashlib.file_digest(stream, "sha256").hexdigest())
            except OSError:
                file_digests.append("unreadable")
        if not file_digests:
            return None
        return self.digest(text.encode(errors="surrogatepass"), file_digests)

    def _table(self, value):
        """Return the digest of a table or an array, with index, names and ``attrs``.

        For classes that are not of NumPy, SciPy or pandas, it also covers attributes.
        """
        cls = type(value)
        content = _table_content(value)
        if isinstance(content, np.ndarray):
            content = _array_digest(content)
        if cls in (np.ndarray, np.memmap):  # joblib maps arrays that it sends to workers
            return content if isinstance(content, str) else self.digest(content)
        labels = [getattr(value, name, None) for name in ("index", "columns", "name", "attrs")]
        attributes = {}
        if not f"{cls.__module__}.".startswith(_ARRAY_PACKAGES):
            attributes = getattr(value, "__dict__", {})
        return self.digest("table", cls, content, labels, attributes)

    def _instance(self, value):
        """Return the digest of an object by its class and the values that pickle would store.

        For classes of the user, it also covers all attributes. Raises OpaqueError for iterators and
        open files.
        """
        cls = type(value)
        if hasattr(value, "__next__") or hasattr(value, "readable"):
            raise OpaqueError(cls.__name__)  # reading would use it up
        attributes = getattr(value, "__dict__", {})
        self.may_vary = self.may_vary or _instance_may_vary(value, attributes)
        reduced = value.__reduce_ex__(4)
        # Methods of the user may read attributes that a pickle leaves out.
        is_installed = _installed_version(cls.__module__) is not None
        user_attributes = {} if is_installed else attributes
        if isinstance(reduced, str):  # the name of a global
            return self.digest("named", cls, reduced, user_attributes)
        constructor, arguments, state, *iterators = (*reduced, None, None, None)[:5]
        if isinstance(state, dict):
            state = {_stored_name(cls, name): member for name, member in state.items()}
        items = [list(iterator) for iterator in iterators if iterator is not None]
        arguments = [None if argument is value else argument for argument in arguments]
        return self.digest("instance", cls, constructor, arguments, state, items, user_attributes)

    def _random(self, value):
        """Return the digest of a random generator, after recording that fits may vary."""
        self.may_vary = True
        return "global" if value is np.random.mtrand._rand else self._instance(value)

    def _estimator(self, value):
        """Return the digest of an estimator by its class and attributes, or parameters in a recipe.

        Raises OpaqueError for an estimator that reads files whose names are the records.
        """
        cls = type(value)
        if not hasattr(value, "__dict__"):
            return self._instance(value)
        methods = tuple(getattr(cls, method.__name__) for method in _PICKLE_METHODS)
        if methods != _PICKLE_METHODS:
            self.pickles_are_complete = False
        state = value.get_params(deep=False) if self._recipe else vars(value)
        if str(state.get("input")) in ("filename", "file"):
            raise OpaqueError(cls.__name__)  # it reads files whose names are the records
        state = _canonical_state(cls, state)
        if not _is_seed(state.get("random_state", 0)):
            self.may_vary = True
        if self._recipe and (self._keeps_state(cls) or _is_non_deterministic(value)):
            self.may_vary = True
        return self.digest("estimator", cls, state)

    def _keeps_state(self, cls):
        """Return whether a clone may keep the fitted state of the estimator that is being hashed.

        A class with its own ``__sklearn_clone__`` may, and so may an estimator inside an object
        that is not an estimator. ``cls``: class of the estimator.
        """
        active_methods = {method for _, method in self._active.values()}
        is_inside_object = bool(active_methods - {ObjectHasher._estimator})
        has_own_clone = getattr(cls, "__sklearn_clone__", _CLONE_METHOD) is not _CLONE_METHOD
        return has_own_clone or is_inside_object

    # -- code -------------------------------------------------------------------------------------

    def _enter_user_code(self, file=""):
        """Record that code of the user is hashed, and the folder of its file.

        Raises OpaqueError for recipes.
        """
        self.has_user_code = True
        if self._recipe:
            raise OpaqueError("code of the user")
        self._code_folders.append(os.path.dirname(file))

    def _function(self, value):
        """Return the digest of a function written in Python.

        Raises OpaqueError for code of the user that cannot be followed, and for any code of the
        user if the hasher makes keys of recipes.
        """
        self._note_randomness(value)
        version = _installed_version(value.__module__)
        namespace = value.__globals__
        closure_values = [_cell_contents(cell) for cell in value.__closure__ or ()]
        if version is not None and _is_installed_file(value.__code__.co_filename):
            line = value.__code__.co_firstlineno  # distinguishes lambdas in different lines
            return self.digest(version, value.__module__, value.__qualname__, line, closure_values)
        self._enter_user_code(namespace.get("__file__") or value.__code__.co_filename)
        names = _names_in(value.__code__)
        if not _UNTRACEABLE_NAMES.isdisjoint(names):
            raise OpaqueError(value.__name__)
        # A name in code may refer to a global, or to a module that the code imports.
        names_and_values = [
            (name, namespace.get(name, _imported_module(name, namespace.get("__package__"))))
            for name in names
        ]
        bound_values = (value.__defaults__, value.__kwdefaults__, vars(value), *closure_values)
        return self.digest("function", value.__code__, bound_values, names_and_values)

    def _code(self, code):
        """Return the digest of a code object, without the location of its source."""
        attributes = [getattr(code, f"co_{name}") for name in _CODE_ATTRIBUTES]
        return self.digest("code", sys.version, attributes, code.co_consts)

    def _module(self, value):
        """Return the digest of an installed module by name and version, else by its members.

        Raises OpaqueError for a module of the user in a recipe.
        """
        version = _installed_version(value.__name__)
        if version is not None:
            return self.digest("module", value.__name__, version)
        self._enter_user_code(getattr(value, "__file__", None) or "")
        return self.digest("module", value.__name__, _members(value))

    def _class(self, value):
        """Return the digest of an installed class by name, version, constants and added functions.

        Classes of the user are read by their members, and raise OpaqueError in a recipe.
        """
        version = _installed_version(value.__module__)
        name = value.__qualname__
        if version is not None and not name.startswith("<"):
            # Functions that were put into an installed class are code of the user.
            names_and_members = [
                pair for base in value.__mro__ for pair in _constants_and_added_functions(base)
            ]
            if not any(isinstance(member, types.FunctionType) for _, member in names_and_members):
                self.installed_classes.append(value)
            return self.digest("class", version, value.__module__, name, names_and_members)
        self._enter_user_code()
        excluded_names = _FIT_METHODS if self._fitted else ()
        bases = []  # classes of the user by name and members, installed ones as they are
        for base in value.__mro__:
            if base is value or _installed_version(base.__module__) is None:
                bases.append([base.__qualname__, _members(base, excluded_names)])
            else:
                bases.append(base)
        return self.digest("class", name, type(value), bases)

    def _builtin(self, value):
        """Return the digest of a compiled function by name and version.

        A method of an object is hashed by its name and the object instead. Raises OpaqueError for
        compiled code of the user.
        """
        self._note_randomness(value)
        instance = getattr(value, "__self__", None)
        module_name = getattr(value, "__module__", None)
        if instance is not None and not isinstance(instance, types.ModuleType):
            return self.digest("builtin", value.__name__, instance)
        version = _installed_version(module_name or getattr(instance, "__name__", ""))
        if version is None:
            raise OpaqueError(value.__name__)  # compiled code of the user
        return self.digest("builtin", version, module_name, value.__qualname__)

    def _ufunc(self, value):
        """Return a text of the name of a universal function and the version of NumPy.

        Raises OpaqueError for functions that are not in NumPy or ``scipy.special``.
        """
        if not any(
            getattr(module, value.__name__, None) is value for module in (np, scipy.special)
        ):
            raise OpaqueError(value.__name__)  # made from a function of the user
        return f"ufunc {value.__name__} {np.__version__}"

    def _note_randomness(self, function):
        """Record that fits may vary if a function may draw random numbers without a seed."""
        if (getattr(function, "__module__", None) or "").startswith(_RANDOM_MODULES):
            self.may_vary = True
        if self._recipe and not _is_seed(_default_random_state(function)):
            self.may_vary = True


#: Pairs of classes and a function ``(hasher, value) -> digest``. The first pair that fits counts.
_HASH_METHODS = (
    (np.generic, lambda hasher, v: f"{type(v.item()).__name__} {v!r}"),
    (set | frozenset, lambda hasher, v: hasher.digest(type(v), sorted(map(hasher.digest, v)))),
    (pathlib.PurePath, lambda hasher, v: hasher.digest("path", os.fspath(v))),
    (type, ObjectHasher._class),
    (types.FunctionType, ObjectHasher._function),
    (weakref.ReferenceType, lambda hasher, v: hasher.digest("weak", v())),
    (types.MethodType, lambda hasher, v: hasher.digest("method", v.__func__, v.__self__)),
    (types.ModuleType, ObjectHasher._module),
    (types.MappingProxyType, lambda hasher, v: hasher.digest(dict(v))),
    (types.CodeType, ObjectHasher._code),
    (property, lambda hasher, v: hasher.digest("property", v.fget, v.fset, v.fdel)),
    (_WRAPPERS, lambda hasher, v: hasher.digest(type(v).__name__, _unwrapped(v))),
    (_BUILTINS, ObjectHasher._builtin),
    (np.random.RandomState | np.random.Generator | np.random.BitGenerator, ObjectHasher._random),
    (np.ufunc, ObjectHasher._ufunc),
    (np.ndarray | sp.spmatrix | sp.sparray, ObjectHasher._table),
)


def _hash_method(cls):
    """Return the function ``(hasher, value) -> digest`` for objects of a class."""
    for handled_classes, method in _HASH_METHODS:
        if issubclass(cls, handled_classes):
            return method
    if cls.__name__ in _LOCK_NAMES and cls.__module__ in _LOCK_MODULES:
        return lambda hasher, value: f"lock {cls.__name__}"
    if cls.__name__ in _CYTHON_FUNCTIONS:
        return ObjectHasher._builtin
    if hasattr(cls, "iloc") or hasattr(cls, "__array_interface__"):
        return ObjectHasher._table
    if hasattr(cls, "_content_for_keys"):  # classes of this package: unchanged by answers
        return lambda hasher, value: hasher.digest("ours", value._content_for_keys())
    return ObjectHasher._estimator if hasattr(cls, "get_params") else ObjectHasher._instance


def _stored_name(cls, name):
    """Return the name that stands for a constant or an attribute of a class in digests."""
    is_own = cls.__module__.startswith("sklearn_bdp.")
    return _STORED_NAMES.get(name, name) if is_own else name


def _constants_and_added_functions(cls):
    """Return pairs of names and members of an installed class, sorted by name.

    The members are all plain constants of the class, and those functions other than ``fit`` that
    code of the user put into it.
    """
    names_and_members = []
    for name, member in vars(cls).items():
        if type(member) in _IGNORED_MEMBER_TYPES:
            continue
        function = member if type(member) is types.FunctionType else _unwrapped(member)
        if type(function) is types.FunctionType:
            if _is_added_function(cls, name, function):
                names_and_members.append((name, function))
        elif not name.startswith("__") and isinstance(member, (bool, int, float, str)):
            names_and_members.append((_stored_name(cls, name), member))
    return sorted(names_and_members, key=lambda pair: pair[0])


def _is_added_function(cls, name, function):
    """Return whether code of the user put a function into an installed class.

    False for functions with the name ``fit`` and for special methods of data classes.
    """
    is_generated = "__dataclass_fields__" in vars(cls) and name.startswith("__")
    is_accepted = _is_installed_file(function.__code__.co_filename) or name == "fit"
    return not is_accepted and not is_generated


def _members(owner, excluded_names=()):
    """Return sorted pairs of names and members that a class or a module of the user defines.

    ``owner``: the class or module. Members that Python or scikit-learn generates, and those with
    ``excluded_names``, are left out.
    """
    names_and_members = []
    for name, member in sorted(vars(owner).items(), key=lambda item: item[0]):
        is_generated = name in _GENERATED_MEMBERS or isinstance(member, _SLOTS)
        if not is_generated and name not in excluded_names:
            names_and_members.append((name, member))
    return names_and_members


def _names_in(code):
    """Return the sorted names of globals, attributes and imports in a code object.

    Names in code objects inside it are included.
    """
    names_of_inner_code = [
        _names_in(constant) for constant in code.co_consts if isinstance(constant, types.CodeType)
    ]
    return sorted(set(code.co_names).union(*names_of_inner_code))


def _imported_module(name, package):
    """Return the imported module with a name, or of that name in ``package``, or None."""
    for full_name in (name, f"{package}.{name}"):
        if full_name in sys.modules:
            module = sys.modules[full_name]
            return module if isinstance(module, types.ModuleType) else None
    return None


def _cell_contents(cell):
    """Return the value in a cell of a closure, None if it is not bound yet."""
    try:
        return cell.cell_contents
    except ValueError:
        return None


def _unwrapped(member):
    """Return the function inside a property, a static or class method, or a cache.

    Any other member is returned unchanged.
    """
    if isinstance(member, property):
        return member.fget
    if isinstance(member, _WRAPPERS):
        for name in ("__func__", "func", "__wrapped__"):
            if hasattr(member, name):
                return getattr(member, name)
    return member


def _is_seed(random_state):
    """Return whether a ``random_state`` is an integer, which gives the same numbers in each fit."""
    return isinstance(random_state, numbers.Integral) and not isinstance(random_state, bool)


def _instance_may_vary(value, attributes):
    """Return whether an object may draw random numbers without a seed, or is a column selector.

    ``attributes``: values of the object's attributes by name.
    """
    may_draw = getattr(value, "shuffle", True)
    random_state = attributes.get("random_state", 0) if may_draw else 0
    return not _is_seed(random_state) or type(value).__name__ == "make_column_selector"


def _default_random_state(function):
    """Return the default of a function's ``random_state``, 0 for functions without it."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):  # compiled functions may have no signature
        return 0
    return parameters["random_state"].default if "random_state" in parameters else 0


def _is_non_deterministic(estimator):
    """Return whether the tags of an estimator state that its fits vary."""
    try:
        return bool(estimator.__sklearn_tags__().non_deterministic)
    except Exception:  # an estimator without tags
        return False


def _canonical_state(cls, state):
    """Return a dict of parameters or attributes, with one form for values of the same meaning.

    ``state``: values by name, of an object of the class ``cls``. For installed classes, parameters
    without an effect on the fitted model, such as ``n_jobs``, are left out.
    """
    ignored_names = () if _installed_version(cls.__module__) is None else _EXECUTION_PARAMETERS
    return {
        name: _canonical(cls, name, value)
        for name, value in state.items()
        if name not in ignored_names
    }


def _canonical(cls, name, value):
    """Return the value of a parameter or attribute in one form for the same meaning.

    NumPy scalars become Python scalars. Integers become floats if scikit-learn's constraints of the
    parameter allow reals but not integers. ``cv_results_`` is without durations.
    """
    value = value.item() if isinstance(value, np.generic) else value
    if type(value) is dict and name == "cv_results_":
        value = {
            column: values
            for column, values in value.items()
            if not str(column).endswith(_DURATIONS)
        }
    if type(value) is int and _takes_reals_only(cls, name):
        return float(value)
    return value


def _takes_reals_only(cls, name):
    """Return whether scikit-learn's constraints of a parameter name reals, but not integers."""
    constraints = getattr(cls, "_parameter_constraints", {}).get(name, ())
    if not isinstance(constraints, list):
        return False
    number_types = [getattr(constraint, "type", None) for constraint in constraints]
    return numbers.Real in number_types and numbers.Integral not in number_types


def object_digest(value):
    """Return the digest of an object, equal for copies and in each process, or None.

    None if the object cannot be read.
    """
    return ObjectHasher().digest_or_none(value)


# -- Keys of models --------------------------------------------------------------------------------


def recipe_context(metric, fit_params):
    """Return the digest of the metric and the fit parameters of a search, or None.

    None if one of them cannot be read.
    """
    return ObjectHasher().digest_or_none((metric, fit_params))


def recipe_key(estimator, context, *, training, columns):
    """Return the query key of a model before it is fitted, or None.

    It is None if ``context`` is None, if the estimator has code of the user or cannot be read, or
    if its fits may vary.

    ``context`` is the digest of the metric and of fit parameters (`recipe_context`), ``training``
    that of the training data (`data_digest`), and ``columns`` the columns that the model uses.
    """
    hasher = ObjectHasher(recipe=True)
    estimator_digest = _clone_digest(hasher, estimator)
    if estimator_digest is None or hasher.may_vary or context is None:
        return None
    return content_key("recipe", _environment_key(), estimator_digest, context, training, columns)


class ModelDigest:
    """Digest of a fitted model, from which its query keys are computed.

    Parameters
    ----------
    estimator : estimator
        Fitted model.
    predictor : estimator, optional
        Faster object with the same predictions.

    Attributes
    ----------
    content : str or None
        Digest of the learned state; None if something in it cannot be read.
    """

    def __init__(self, estimator, *, predictor=None):
        self._hasher = ObjectHasher(fitted=True)
        self.content = self._hasher.digest_or_none(estimator)
        self._has_user_code = self._hasher.has_user_code
        self._predictor = estimator if predictor is None else predictor
        self._predictions = {}  # by id of records: the records and the digest of their predictions

    @property
    def classes(self):
        """Installed classes in the model and in the metrics of its keys, for :func:`fingerprint`.

        None if the model, or the metric of the last :meth:`key`, has code of the user, if the model
        cannot be read, or if an estimator in it overrides how pickle reads its state.
        """
        hasher = self._hasher
        if self.content is None or hasher.has_user_code or not hasher.pickles_are_complete:
            return None
        return list(hasher.installed_classes)

    def key(self, metric, X, *, columns=None):
        """Return the key of the query about the model on one metric, or None.

        It is computed from the learned state, the metric, ``columns`` and, for models with code of
        the user, predictions for the training records ``X``. None if the model or the metric cannot
        be read.
        """
        self._hasher.has_user_code = self._has_user_code
        model_and_metric_digests = self.content, self._hasher.digest_or_none(metric)
        if None in model_and_metric_digests:
            return None
        predictions_digest = ""
        if self._has_user_code:  # of the model: code of a metric does not change predictions
            if id(X) not in self._predictions:
                self._predictions[id(X)] = X, _predictions_digest(self._predictor, X)
            _, predictions_digest = self._predictions[id(X)]
        return content_key(
            "model", _environment_key(), model_and_metric_digests, predictions_digest, columns
        )


def fingerprint(model, classes):
    """Return a tuple that identifies the state of an object and its ``classes`` in this process.

    It contains the digest of a pickle. None if the object cannot be pickled, or if code of the user
    has added functions other than ``fit`` to the installed ``classes`` or their bases.
    """
    sha256 = hashlib.sha256()
    pickler = pickle.Pickler(types.SimpleNamespace(write=sha256.update), protocol=5)
    bases = {base for cls in classes for base in cls.__mro__}
    members_of_bases = [_constants_and_added_functions(base) for base in bases]
    if any(callable(member) for members in members_of_bases for _, member in members):
        return None
    try:
        pickler.dump(model)
        return repr(members_of_bases), sklearn.get_config(), sha256.hexdigest()
    except Exception:  # any error of an object's own methods
        return None


def has_user_code(estimator):
    """Return whether hashing the parameters of an unfitted estimator meets code of the user."""
    hasher = ObjectHasher(recipe=True)
    _clone_digest(hasher, estimator)
    return hasher.has_user_code


def _clone_digest(hasher, estimator):
    """Return the digest of a clone, None if the estimator cannot be cloned or read.

    ``hasher``: ObjectHasher, whose attributes are updated.
    """
    try:
        return hasher.digest(clone(estimator))
    except (OpaqueError, TypeError, RuntimeError):
        return None


def _predictions_digest(estimator, X):
    """Return a digest of the predictions of three methods for records, with rounded floats.

    If a method raises an error, the digest covers the type of the error.
    """
    # Rounded, because the last bits may differ with the location of an array in memory.
    predictions_or_error_names: list = []
    for name in ("predict", "predict_proba", "decision_function"):
        try:
            predictions_or_error_names.append(_rounded_predictions(estimator, name, X))
        except Exception as error:  # the type of error is part of the behavior
            predictions_or_error_names.append(type(error).__name__)
    return data_digest(*predictions_or_error_names)


def _rounded_predictions(estimator, method_name, X):
    """Return the predictions of a method for records, None without the method.

    Arrays of floats are converted to single precision. Other predictions are returned unchanged.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        method = getattr(estimator, method_name, None)
        prediction = None if method is None else method(copy_data(X))
    is_float = getattr(getattr(prediction, "dtype", None), "kind", "") == "f"
    return np.asarray(prediction, np.float32) if is_float else prediction


def _environment_key():
    """Return a digest of versions and settings that can change the behavior of estimators."""
    setting_names = (
        "transform_output",
        "enable_metadata_routing",
        "array_api_dispatch",
        "assume_finite",
    )
    settings = {name: sklearn.get_config()[name] for name in setting_names}
    return query_key(sklearn.__version__, np.__version__, scipy.__version__, settings)
