"""Check that everything public is annotated, argument by argument; exit 1 when something is not.

What the annotations say is checked by mypy; see ``[tool.mypy]`` in ``pyproject.toml``.
"""

import inspect
import pydoc
import sys

from validate_docstrings import public_names


def bare(name):
    """Yield the parameters (and the return) of a public function that have no annotation."""
    function = pydoc.locate(name)
    if inspect.isclass(function):
        function = vars(function).get("__init__")
        if function is None or "__dataclass_fields__" in vars(pydoc.locate(name)):
            return  # inherited, or made of fields, which have types already
    function = inspect.unwrap(function)
    if not inspect.isfunction(function) and not inspect.ismethod(function):
        return
    signature = inspect.signature(function)
    for parameter in signature.parameters.values():
        if parameter.annotation is parameter.empty and parameter.name not in ("self", "cls"):
            yield parameter.name
    if signature.return_annotation is signature.empty:
        yield "return"


def main():
    """Print what is missing and return the exit code."""
    names = sorted(set(public_names()))
    missing = [f"{name}: {part}" for name in names for part in bare(name)]
    print("\n".join([*missing, f"types: {len(names)} public names, {len(missing)} bare"]))
    return bool(missing)


if __name__ == "__main__":
    sys.exit(main())
