"""Find words that user texts avoid; exit 1 if there is one.

Three populations: prose of the README, the changelog, start and guide (without code), string
literals of four or more words in the package (messages, certificates, cards), and docstrings of
everything public. ``python .ci/check_words.py PATTERN`` prints what another pattern would find.
"""

import ast
import importlib
import inspect
import pkgutil
import re
import sys
from pathlib import Path

import sklearn_bdp

ROOT = Path(__file__).resolve().parents[1]
#: What is not written, and what is written in its place.
AVOID = {
    r"\b(\d|\.\d) %": "95%, without a space",
    r"(?<![\d}] )± (?=[\d.])": "±0.02, without a space",
    r"(?<![\w.`:}])\.\d+\b(?![-\w;%])": "0.02, with a zero",
    r"\b(neighbour|recognis|licence|colour|normalis|optimis|behaviour)": "American spelling",
    r"\w\(s\)": "a plural that is computed",
    r"training side|training-side|training part": "training set, cross-validated score",
    r"\blast word|\ball right with|\bright at once|\bspeaks? (of|for)\b": "a standard term",
    r"\bwhatever\b|\bwhoever\b|\bnobody\b|\beverybody\b|\bsomebody\b": "you, users, any",
    r"\b(said|says|tells|told)\b": "report, state, show",
    r"\bhonest(ly)?\b": "valid",
    r"\b(is|are) (warned|noticed|told)\b": "name who acts",
    r"(?<![Tt]here )\b(is|are) no \w+": "is not a",
    r"\bpromis\w+": "guarantee",
    r"\brefus\w+": "rejected, not supported",
    r"\bfresh (data|records?|sample)": "new records",
    r"nothing was (asked|spent|answered)": "The holdout was not queried",
    r"\bask(s|ed|ing)? (the|this|a) holdout": "query",
    r"\bforgets?\b": "autocorrelation time",
}


def prose():
    """Yield (place, text) of each line of prose."""
    pages = [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "examples" / "README.md"]
    pages += [ROOT / "doc" / "index.md"]
    pages += [
        page
        for folder in ("start", "guide", "how_it_works")
        for page in (ROOT / "doc" / folder).glob("*.md")
    ]
    for page in sorted(pages):
        inside = False
        for number, line in enumerate(page.read_text("utf-8").splitlines(), 1):
            if line.startswith("```"):
                inside = not inside
            elif not inside:
                yield (
                    f"{page.relative_to(ROOT)}:{number}",
                    re.sub(r"`[^`]*`|\$[^$]*\$", "`x`", line),
                )


def public_docstrings():
    """Return the docstrings of everything public, as they stand in the source."""
    docstrings = set()
    for info in pkgutil.walk_packages(sklearn_bdp.__path__, "sklearn_bdp."):
        if "._" in info.name or info.name.endswith("__main__"):
            continue
        module = importlib.import_module(info.name)
        docstrings.add(module.__doc__)
        for member in (getattr(module, name) for name in getattr(module, "__all__", ())):
            docstrings.add(member.__doc__)
            if inspect.isclass(member):
                methods = (vars(member).get(name) for name in dir(member) if name[0] != "_")
                docstrings |= {getattr(method, "__doc__", None) for method in methods}
    return docstrings


def literals():
    """Yield (place, text) of each message and each public docstring of the package."""
    public = public_docstrings()
    for path in sorted((ROOT / "sklearn_bdp").rglob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        nodes = list(ast.walk(tree))
        parts = {part for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
        documented = {
            node.body[0].value
            for node in nodes
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
            and ast.get_docstring(node) is not None
        }
        for node in nodes:
            text = text_of(node) if node not in parts else ""
            text_kind = "docstring" if node in documented else "message"
            if (
                len(text.split()) < 4
                or "CREATE TABLE" in text
                or (text_kind == "docstring" and text not in public)
            ):
                continue
            text = re.sub(r"(?s)<[^>]*>|^\s*(says|promised\w*) :", "", text, flags=re.M)
            text = re.sub(r"(`+)[^`]*\1|^ *(>>>|\.\.\.).*$|\$[^$]*\$", "`x`", text, flags=re.M)
            yield f"{path.relative_to(ROOT)}:{node.lineno} ({text_kind})", text


def text_of(node):
    """Return the text of a string literal, with a number in place of each formatted value."""
    if isinstance(node, ast.JoinedStr):
        return "".join(text_of(part) or "1" for part in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


if __name__ == "__main__":
    avoid = {sys.argv[1]: "asked for"} if len(sys.argv) > 1 else AVOID
    n_findings = 0
    for location, text in [*prose(), *literals()]:
        for pattern, instead in avoid.items():
            for match in re.finditer(pattern, text):
                n_findings += 1
                context = " ".join(text[max(0, match.start() - 40) : match.end() + 40].split())
                print(f"{location}: {match[0]!r} ({instead}): {context}")
    print(f"words: {n_findings} to avoid")
    sys.exit(bool(n_findings))
