"""Which code is installed under a version, and which is the user's."""

import functools
import hashlib
import importlib.metadata
import os
import platform
import site
import sys
import sysconfig


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


def file_digest(file):
    """Return the digest of a file's content: a checkpoint is part of the code that loads it."""
    try:
        with open(file, "rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError:
        return "unreadable"
