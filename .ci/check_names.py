"""Count local names and prose that say little; exit 1 above a limit.

``python .ci/check_names.py`` measures package, tests and benchmarks; ``python
.ci/check_names.py FOLDER`` lists the names and phrases of one folder. Counts find candidates only:
whether a name states the content is decided by reading.
"""

import argparse
import ast
import collections
import dataclasses
import io
import re
import sys
import tokenize
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

#: Names that do not state what the value is.
_EMPTY_NAMES = """
    about across after again ahead alone along another anything apart around asked bare before
    between beyond both done drawn each enough everything far few first_ fit_ found free given
    got half_ held here kept kind kinds known last_ learned least left less loose made many
    more most much near nothing once one other others own part_ piece pieces place places
    plain read_ rest right_one said same says seen shown side_ since something spoken stands
    stuff such sure taken there these thing things those together told true_ until wanted way
    ways what which whole within without worth
"""
EMPTY_NAMES = frozenset(_EMPTY_NAMES.split())

#: Phrases that scikit-learn's user guide does not use.
ODD_PHRASES = {
    "what-clause": r"\bwhat (?:it|is|was|the|a|an|they|he|this|that|its|each|one|no|any|another"
    r"|their|has|stands|can|must|may|holds|depends|changes)\b",
    "where for if": r"(?:^|[,;(] ?|\. )[Ww]here "
    r"(?:it|they|the|a|an|no|nothing|that|this|one|each|all|some)\b",
    "stands": r"\bstands?\b",
    "said, told": r"\b(?:is|are|was|be|been|and) (?:said|told)\b",
    "is no, is none": r"\bis (?:no|none)\b",
    "whoever, nobody": r"\bwho(?:ever)?\b|\bnobody\b",
}

_BRANCHES = (
    ast.If,
    ast.For,
    ast.While,
    ast.IfExp,
    ast.ExceptHandler,
    ast.comprehension,
    ast.Assert,
    ast.With,
)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_DOCUMENTED = (ast.Module, ast.ClassDef, *_FUNCTIONS)


@dataclasses.dataclass(frozen=True)
class Limits:
    """Largest admitted counts of one folder."""

    empty_names: float  # percent of local names and parameters
    odd_phrases: float  # in 10,000 words of comments, docstrings and messages
    keyword_dicts: int  # ``options |= {...}`` and ``f(**{...})``
    what_docstrings: float  # percent of docstrings with the word "what"
    packed_assignments: float  # percent of assignments that join several values
    complexity: float  # mean cyclomatic complexity of functions


#: Goals. The anchors (scikit-learn's model_selection, skrub, MAPIE, optuna.storages, dp_accounting)
#: have 0-0.15 % empty names, 0-2 % docstrings with "what", 0-3 % packed assignments, complexity
#: 2.3-3.7.
GOALS = {
    "sklearn_bdp": Limits(0.5, 10, 8, 2.0, 3.0, 3.7),
    "tests": Limits(1.0, 15, 12, 3.0, 4.0, 3.4),
    "benchmarks": Limits(1.0, 15, 2, 3.0, 4.0, 3.4),
}
#: Largest counts that CI admits. They only shrink, until they are the goals.
LIMITS = {
    "sklearn_bdp": Limits(0.3, 6, 7, 0.5, 1.5, 3.65),
    "tests": Limits(0.2, 5, 12, 0.5, 0.2, 3.38),
    "benchmarks": Limits(0.3, 1, 2, 0.3, 0.3, 2.6),
}


def local_names(tree):
    """Yield parameters and assigned names, each once per statement of a function."""
    for function in ast.walk(tree):
        if not isinstance(function, (*_FUNCTIONS, ast.Lambda)):
            continue
        arguments = function.args
        for argument in arguments.posonlyargs + arguments.args + arguments.kwonlyargs:
            yield argument.arg
        body = function.body if isinstance(function.body, list) else [function.body]
        assigned = set()
        for statement in body:
            for node in ast.walk(statement):
                is_assigned = isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
                if is_assigned and node.id not in assigned:
                    assigned.add(node.id)
                    yield node.id


def prose(source, tree):
    """Yield the string literals of more than one word, and the comments."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.value
        elif isinstance(node, ast.JoinedStr):
            literals = [part.value for part in node.values if isinstance(part, ast.Constant)]
            yield "".join(text for text in literals if isinstance(text, str))
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.string


def complexity(function):
    """Return the cyclomatic complexity of a function."""
    nodes = list(ast.walk(function))
    n_branches = sum(isinstance(node, _BRANCHES) for node in nodes)
    n_operators = sum(len(node.values) - 1 for node in nodes if isinstance(node, ast.BoolOp))
    return 1 + n_branches + n_operators


def measure(folder):
    """Return the counts of a folder as :class:`Limits`, its empty names and its odd phrases."""
    empty_names = collections.Counter()
    odd_phrases = collections.Counter()
    n_names = n_words = n_keyword_dicts = 0
    n_docstrings = n_what = n_assignments = n_packed = 0
    complexities = []
    for path in sorted(Path(folder).rglob("*.py")):
        source = path.read_text("utf-8")
        tree = ast.parse(source)
        for name in local_names(tree):
            n_names += 1
            empty_names[name] += name.strip("_") in EMPTY_NAMES
        for text in prose(source, tree):
            n_words += len(text.split())
            for phrase, pattern in ODD_PHRASES.items():
                odd_phrases[phrase] += len(re.findall(pattern, text))
        n_keyword_dicts += len(re.findall(r"\b\w+ \|= ?\{|\*\*\{", source))
        for node in ast.walk(tree):
            if isinstance(node, _DOCUMENTED) and (docstring := ast.get_docstring(node)):
                n_docstrings += 1
                n_what += bool(re.search(r"\b[Ww]hat\b", docstring))
            if isinstance(node, ast.Assign):
                n_assignments += 1
                target = node.targets[0]
                n_packed += isinstance(node.value, ast.Tuple) and isinstance(target, ast.Tuple)
            if isinstance(node, _FUNCTIONS):
                complexities.append(complexity(node))
    counts = Limits(
        empty_names=100 * empty_names.total() / max(n_names, 1),
        odd_phrases=1e4 * odd_phrases.total() / max(n_words, 1),
        keyword_dicts=n_keyword_dicts,
        what_docstrings=100 * n_what / max(n_docstrings, 1),
        packed_assignments=100 * n_packed / max(n_assignments, 1),
        complexity=sum(complexities) / max(len(complexities), 1),
    )
    return counts, +empty_names, +odd_phrases


def main():
    """Print the counts and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", help="list the names and phrases of this folder")
    folder = parser.parse_args().folder
    if folder is not None:
        counts, empty_names, odd_phrases = measure(folder)
        print(counts, empty_names.most_common(), odd_phrases.most_common(), sep="\n")
        return 0
    n_exceeded = 0
    for name, limits in LIMITS.items():
        counts = dataclasses.asdict(measure(ROOT / name)[0])
        for quantity, limit in dataclasses.asdict(limits).items():
            exceeded = counts[quantity] > limit
            n_exceeded += exceeded
            mark = "  above the limit" if exceeded else ""
            goal = getattr(GOALS[name], quantity)
            print(
                f"{name:12} {quantity:20} {counts[quantity]:7.2f}   "
                f"limit {limit:g}, goal {goal:g}{mark}"
            )
    print(f"names: {n_exceeded} counts above their limit")
    return int(n_exceeded > 0)


if __name__ == "__main__":
    sys.exit(main())
