"""Print how large the package is, and its ten longest files and functions; ``--limits``: fail
where it has more lines than it may.

Code lines are lines with a token on them that is no comment and no docstring. A search of two
candidates *passes* a file when it enters a function of it (comprehensions and lambdas apart); its
own depth is the largest number of such functions on the stack. A test file imports a private module
when one of its imports names a module with an underscore inside a room (what a room's ``__init__``
offers is public).
"""

import ast
import io
import statistics
import subprocess
import sys
import tokenize
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE, TESTS = ROOT / "sklearn_bdp", ROOT / "tests"

#: What it may have: each addition looks first for what it can replace.
LIMITS = {"code lines": 17_000}

_SILENT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_SEARCH = """
import sys
from pathlib import Path
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn_bdp import ReusableHoldoutSearchCV

package, passed, depth, deepest = {package!r}, set(), 0, 0

def own(code):
    # Functions only: the bodies of modules and classes run when something is imported.
    return code.co_flags & 2 and code.co_filename.startswith(package) and code.co_name[0] != "<"

def enter(frame, event, _):
    global depth, deepest
    if event in ("call", "return") and own(frame.f_code):
        passed.add((frame.f_code.co_filename, frame.f_code.co_qualname))
        if frame.f_code.co_flags & 32:  # a generator is left and entered again
            return
        depth += 1 if event == "call" else -1
        deepest = max(deepest, depth)

X, y = load_iris(return_X_y=True)
model, grid = LogisticRegression(), {{"C": [1.0, 10.0]}}
sys.setprofile(enter)
ReusableHoldoutSearchCV(model, grid, random_state=0).fit(X, y)
sys.setprofile(None)
print(deepest)
for name, function in sorted(passed):
    print(Path(name).relative_to(package), function)
"""


def docstring_lines(node):
    """Return the line numbers of a node's docstring."""
    body = getattr(node, "body", None)
    if not isinstance(node, (ast.Module, ast.ClassDef, *_FUNCTIONS)) or not body:
        return set()
    first = body[0]
    if not isinstance(first, ast.Expr) or not isinstance(first.value, ast.Constant):
        return set()
    return set(range(first.lineno, first.end_lineno + 1))


def code_lines(text, tree):
    """Return the numbers of the lines of code of a module."""
    used = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _SILENT:
            used.update(range(token.start[0], token.end[0] + 1))
    return used.difference(*map(docstring_lines, ast.walk(tree)))


def bodies(tree, used):
    """Yield the code lines of every function's body, its first line and its name."""
    for node in ast.walk(tree):
        if isinstance(node, _FUNCTIONS):
            lines = used.intersection(range(node.body[0].lineno, node.end_lineno + 1))
            yield len(lines), node.lineno, node.name


def passed_by_a_search():
    """Return files and functions that the first search of a process enters, and its own depth."""
    script = _SEARCH.format(package=str(PACKAGE))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    depth, *functions = done.stdout.splitlines()
    return sorted({line.split()[0] for line in functions}), functions, int(depth)


def imported(tree):
    """Yield every module and every name that the imports of a file mention."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def private(name):
    """Tell whether a dotted name lies in a module of the package that is private to its room."""
    parts = name.split(".")
    if parts[0] != PACKAGE.name:
        return False
    path = PACKAGE
    for part in parts[1:]:
        is_room = path == PACKAGE and (path / part).is_dir()
        is_module = (path / part).is_dir() or (path / f"{part}.py").is_file()
        if is_module and part.startswith("_") and not is_room and part != "__main__":
            return True
        path /= part
    return False


def measured():
    """Return the figures by name, and what is behind some of them."""
    paths = sorted(PACKAGE.rglob("*.py"))
    texts = [path.read_text("utf-8") for path in paths]
    trees = [ast.parse(text) for text in texts]
    used = [code_lines(text, tree) for text, tree in zip(texts, trees, strict=True)]
    names = [str(path.relative_to(ROOT)) for path in paths]
    functions = [
        (length, f"{name}:{first} {function}")
        for name, tree, lines in zip(names, trees, used, strict=True)
        for length, first, function in bodies(tree, lines)
    ]
    lengths = [length for length, _ in functions]
    passed, entered, depth = passed_by_a_search()
    tests = [
        str(path.relative_to(ROOT))
        for path in sorted(TESTS.rglob("*.py"))
        if any(map(private, imported(ast.parse(path.read_text("utf-8")))))
    ]
    figures = {
        "code lines": sum(map(len, used)),
        "total lines": sum(text.count("\n") for text in texts),
        "modules": len(paths),
        "functions that a first search enters": len(entered),
        "files that a first search passes": len(passed),
        "own depth of a first search": depth,
        "test files that import private modules": len(tests),
        "median function body": statistics.median(lengths),
        "largest function body": max(lengths),
    }
    longest = {
        "files by code lines": sorted(zip(map(len, used), names, strict=True))[:-11:-1],
        "functions by code lines of the body": sorted(functions)[:-11:-1],
    }
    return figures, longest, {"entered": entered, "private": tests}


def main():
    """Print the figures (``--files``: and what is behind them); return the exit code."""
    figures, longest, files = measured()
    if "--files" in sys.argv:
        for what, names in files.items():
            print(*(f"{what}: {name}" for name in names), sep="\n")
    for what, rows in longest.items():
        print(what, *(f"{length:>8,} {name}" for length, name in rows), sep="\n")
    for name, value in figures.items():
        limit = LIMITS.get(name)
        print(f"{name:40} {value:>8,}" + (f"   at most {limit:,}" if limit else ""))
    above = [name for name, limit in LIMITS.items() if figures[name] > limit]
    print(f"size: {len(above)} above the limit" + "".join(f"; {name}" for name in above))
    return bool(above) and "--limits" in sys.argv


if __name__ == "__main__":
    sys.exit(main())
