"""Print which room imports which, and refuse two modules that import each other, however far apart.

``lint-imports`` holds the order of the rooms; this looks inside them, too, and at imports that
only annotations need. Rooms that a function loads when it is called (levels of privacy) may import
what loads them.
"""

import ast
import collections
import graphlib
import sys
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "sklearn_bdp"


def modules():
    """Return the path of every module by its dotted name."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        found[".".join(parts).removesuffix(".__init__")] = path
    return found


def at_import(node):
    """Yield the nodes that run when a module is imported, not what functions load later."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield child
            yield from at_import(child)


def imported(path, known):
    """Yield the modules of the package that a file imports."""
    for node in at_import(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom):
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            yield from names & known.keys() or {node.module} & known.keys()


def main():
    """Print the rooms and the circle, if there is one; return the exit code."""
    known = modules()
    graph = {name: set(imported(path, known)) - {name} for name, path in known.items()}
    rooms = collections.defaultdict(set)
    for name, targets in graph.items():
        if name.count("."):
            rooms[name.split(".")[1]] |= {t.split(".")[1] for t in targets if t.count(".")}
    order = [module for module in (*rooms,) if (PACKAGE / module).is_dir()]
    for room in sorted(order, key=lambda room: len(rooms[room])):
        print(f"{room:18} <- {', '.join(sorted(rooms[room] - {room})) or 'nothing'}")
    try:
        tuple(graphlib.TopologicalSorter(graph).static_order())
    except graphlib.CycleError as error:
        print("circle:", " -> ".join(error.args[1]))
        return 1
    print(f"circles: {len(graph)} modules, {sum(map(len, graph.values()))} imports, 0 circles")
    return 0


if __name__ == "__main__":
    sys.exit(main())
