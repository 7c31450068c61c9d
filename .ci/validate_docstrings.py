"""Validate the docstrings of everything public with numpydoc; exit 1 when one breaks a rule.

The rules are those of ``[tool.numpydoc_validation]`` in ``pyproject.toml``.
"""

import dataclasses
import importlib
import inspect
import pkgutil
import pydoc
import sys
import tomllib
from pathlib import Path

from numpydoc.validate import validate

import sklearn_bdp

CHECKS = set(
    tomllib.loads(Path("pyproject.toml").read_text())["tool"]["numpydoc_validation"]["checks"]
)
# Methods whose docstrings scikit-learn writes, or whose parameters it fixes.
GENERATED = (
    "get_metadata_routing",
    "get_params",
    "set_fit_request",
    "set_params",
    "set_score_request",
)


def public_names():
    """Yield the dotted name of every public function, class and method."""
    for info in [
        *pkgutil.iter_modules(sklearn_bdp.__path__, "sklearn_bdp."),
        pkgutil.ModuleInfo(None, "sklearn_bdp", True),
    ]:
        if info.name.rpartition(".")[2].startswith("_"):
            continue
        module = importlib.import_module(info.name)
        for name in getattr(module, "__all__", ()):
            member = getattr(module, name)
            if not callable(member):
                continue
            yield f"{info.name}.{name}"
            if inspect.isclass(member):
                # A method without a docstring of its own inherits that of the class it refines.
                methods = [m for m, f in vars(member).items() if callable(f) and m[0] != "_"]
                methods = [
                    m
                    for m in methods
                    if vars(member)[m].__doc__ or not inspect.getdoc(getattr(member, m))
                ]
                yield from (f"{info.name}.{name}.{m}" for m in methods if m not in GENERATED)


def _inherits(member, name):
    """Return whether a method takes its docstring from a base class."""
    return bool(inspect.getdoc(getattr(member, name)))


def main():
    """Print what is wrong and return the exit code."""
    problems = 0
    names = sorted(set(public_names()))
    for name in names:
        # A record documents its fields once, as attributes.
        ignored = {"PR01"} if dataclasses.is_dataclass(pydoc.locate(name)) else set()
        for code, message in validate(name)["errors"]:
            if code in CHECKS - ignored:
                problems += 1
                print(f"{name}: {code} {message}")
    print(f"docstrings: {len(names)} public names, {problems} problem(s)")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
