"""Print which package imports which; exit 1 if modules import each other, directly or indirectly.

``lint-imports`` checks the order of the packages. This script also checks modules within a package
and imports that only annotations need. An import inside a function is not counted.
"""

import ast
import collections
import graphlib
import sys
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "sklearn_bdp"


def modules():
    """Return the path of every module by its dotted name."""
    path_by_module = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        path_by_module[".".join(parts).removesuffix(".__init__")] = path
    return path_by_module


def at_import(node):
    """Yield the nodes that run when a module is imported, without the bodies of functions."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield child
            yield from at_import(child)


def imported(path, package_modules):
    """Yield the modules of the package that a file imports."""
    for node in at_import(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in package_modules)
        elif isinstance(node, ast.ImportFrom):
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            yield from names & package_modules.keys() or {node.module} & package_modules.keys()


def main():
    """Print the imports of each package and the circle, if any; return the exit code."""
    path_by_module = modules()
    graph = {
        name: set(imported(path, path_by_module)) - {name} for name, path in path_by_module.items()
    }
    imported_packages = collections.defaultdict(set)
    for name, targets in graph.items():
        if name.count("."):
            imported_packages[name.split(".")[1]] |= {
                t.split(".")[1] for t in targets if t.count(".")
            }
    order = [module for module in (*imported_packages,) if (PACKAGE / module).is_dir()]
    for package in sorted(order, key=lambda package: len(imported_packages[package])):
        targets = sorted(imported_packages[package] - {package})
        print(f"{package:18} <- {', '.join(targets) or 'nothing'}")
    try:
        tuple(graphlib.TopologicalSorter(graph).static_order())
    except graphlib.CycleError as error:
        print("circle:", " -> ".join(error.args[1]))
        return 1
    print(f"circles: {len(graph)} modules, {sum(map(len, graph.values()))} imports, 0 circles")
    return 0


if __name__ == "__main__":
    sys.exit(main())
