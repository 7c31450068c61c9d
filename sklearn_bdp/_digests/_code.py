"""Code: which is installed under a version and which is the user's, and what it is made of.

Leaves of the walk through an object: each looks at one thing, as it is at this moment.
"""

import functools
import hashlib
import importlib.metadata
import operator
import os
import platform
import site
import sys
import sysconfig
import types

from sklearn_bdp._version import __version__

FITTING = ("fit", "partial_fit", "fit_transform", "fit_predict")
WRAPPINGS = (staticmethod, classmethod, functools.cached_property, functools._lru_cache_wrapper)
#: Distributions whose name is not that of their package: asking for all takes 0.2 s.
_DISTRIBUTIONS = {"sklearn": "scikit-learn"}


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
        function = member if type(member) is types.FunctionType else underlying(member)
        # What counts or logs fits is put around ``fit`` and leaves the model alone.
        if (
            isinstance(function, types.FunctionType)
            and name != "fit"
            and not is_installed_code(function.__code__.co_filename)
            # A data class makes methods of its fields.
            and not ("__dataclass_fields__" in vars(kind) and name.startswith("__"))
        ):
            found.append((name, function))
        elif isinstance(member, bool | int | float | str) and not name.startswith("__"):
            found.append((name, member))
    return sorted(found, key=operator.itemgetter(0))


def joined(*parts):
    """Return the digest of texts, each preceded by its length."""
    encoded = [part.encode("utf-8", "surrogatepass") for part in parts]
    return hashlib.sha256(b"".join([b"%d:%b" % (len(each), each) for each in encoded])).hexdigest()


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
