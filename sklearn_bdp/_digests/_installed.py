"""Which code is installed under a version, and which is the user's and may change any time."""

import functools
import importlib.metadata
import inspect
import os
import platform
import site
import sys
import sysconfig

from sklearn_bdp._version import __version__


@functools.lru_cache(maxsize=1)
def _folders():
    """Return the folders of installed packages, and that of the standard library."""
    packages = {sysconfig.get_path(name) for name in ("purelib", "platlib")}
    packages.update(getattr(site, "getsitepackages", list)())
    packages.add(site.getusersitepackages())
    packages = {os.path.realpath(folder) + os.sep for folder in packages if folder}
    library = os.path.realpath(sysconfig.get_path("stdlib")) + os.sep
    return tuple(packages), library


@functools.lru_cache(maxsize=1)
def _own_folder():
    return os.path.dirname(os.path.dirname(os.path.realpath(__file__))) + os.sep


@functools.lru_cache(maxsize=4096)
def is_installed_code(file):
    """Return whether a source file is part of Python, of an installed package or of this one."""
    if file.startswith("<"):  # frozen modules of Python; cells and strings are the user's
        return file.startswith("<frozen ")
    real = os.path.realpath(file)
    packages, library = _folders()
    return real.startswith((*packages, library, _own_folder()))


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
    if top == __name__.partition(".")[0]:
        return f"{top} {__version__}"
    names = _distributions().get(top)
    if not names:
        return None
    return " ".join(f"{each} {importlib.metadata.version(each)}" for each in sorted(names))


@functools.lru_cache(maxsize=1)
def _distributions():
    """Return names of the distributions by the package or module that they hold.

    As ``importlib.metadata.packages_distributions``, which takes a fifth of a second because it
    makes an object of every file.
    """
    names = {}
    for each in importlib.metadata.distributions():
        declared = (each.read_text("top_level.txt") or "").split()
        for top in declared or _inferred(each):
            names.setdefault(top, set()).add(each.metadata["Name"])
    return names


def _inferred(distribution):
    """Return the packages and modules that a distribution's files make."""
    record = distribution.read_text("RECORD")
    files = map(str, distribution.files or ()) if record is None else record.splitlines()
    folders, modules = set(), set()
    for file in files:
        folder, slash, _ = file.partition("/")
        if slash:
            folders.add(folder)
        else:
            modules.add(inspect.getmodulename(file.partition(",")[0]))
    return folders | modules
