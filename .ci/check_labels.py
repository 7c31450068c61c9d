"""Hold the labels of the theory together: what is cited exists, what is stated is coded and tested.

``doc/theory/index.md`` is the register: one row for each label with its statement, the function
that computes it and the test that holds it. This script checks that

1. every label cited in code, tests, benchmarks, examples and docs has a row, in the same spelling;
2. every row's links lead to a heading, a function and a test that exist;
3. the test, or the file it stands in, names the label it holds;
4. nothing is cited by section number of a document that is not in this repository.
"""

import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
REGISTER = ROOT / "doc" / "theory" / "index.md"
CITED = re.compile(r"(?<![\w/.#§-])([BCGHNT]\d{1,2}[′'’]*)(?![\w-])")
BY_SECTION = re.compile(r"\b[Tt]heory,? section \d|\btheory \d\b|^\W*Theory \d\b(?!\d)")
#: A letter and a number, or words.
LABEL = re.compile(r"[BCGHNT]\d{1,2}′?|[a-z]+( [a-z]+)?")
LINK = re.compile(r"\[([^\]]*)\]\(([^)]*)\)")


def slug(heading):
    """Return the anchor that GitHub and MyST give a heading."""
    text = re.sub(r"[`*$]", "", heading.strip().lower())
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def anchors(page):
    """Return the anchors of a Markdown page."""
    return {slug(match) for match in re.findall(r"^#+ (.*)$", page.read_text("utf-8"), re.M)}


def definitions(path):
    """Return the names of the functions, classes and methods of a module."""
    tree = ast.parse(path.read_text("utf-8"))
    defining_nodes = ast.FunctionDef | ast.ClassDef
    return {node.name for node in ast.walk(tree) if isinstance(node, defining_nodes)}


def rows():
    """Yield label and cells of each row of the register."""
    section = REGISTER.read_text("utf-8").partition("\n## Labels\n")[2]
    table = section.partition("\n|---")[2].partition("\n\n")[0]
    for line in table.splitlines()[1:]:
        if line.startswith("|"):
            label, *cells = (cell.strip() for cell in line.strip().strip("|").split("|"))
            yield label, cells


def names(text, label):
    """Return whether a text names a label, as a word of its own; words in any case."""
    label = re.escape(label) if label[0].isupper() else f"(?i:{re.escape(label)})"
    return re.search(rf"(?<!\w){label}(?![\w′])", text) is not None


def check_row(label, cells):
    """Yield what is wrong with the label and the links of one row."""
    if not LABEL.fullmatch(label):
        yield f"{label!r}: a label is a letter and a number, or one or two words"
        return
    if len(cells) != 4:
        yield f"{label}: a row needs statement, proof, function and test, got {len(cells)} cells"
        return
    for column, cell in zip(("proof", "function", "test"), cells[1:], strict=True):
        links = LINK.findall(cell)
        if not links:
            yield f"{label}: no link to a {column}"
        for text, target in links:
            page, _, anchor = target.partition("#")
            path = (REGISTER.parent / page).resolve() if page else REGISTER
            if not path.is_file():
                yield f"{label}: {column} {target} does not exist"
            elif column == "proof":
                if anchor not in anchors(path):
                    yield f"{label}: {page} has no heading #{anchor}"
            elif text.strip("`").split(".")[-1] not in definitions(path):
                yield f"{label}: {page} has no {text}"
            elif column == "test" and not names(path.read_text("utf-8"), label):
                yield f"{label}: {page} does not name the label it holds"


def cited():
    """Yield (place, text) of each label and each section number that is cited."""
    for folder in ("sklearn_bdp", "tests", "benchmarks", "examples", "doc"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix not in {".py", ".md"} or "_build" in path.parts:
                continue
            for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
                location = f"{path.relative_to(ROOT)}:{number}"
                for match in CITED.finditer(line):
                    yield location, match[1]
                if BY_SECTION.search(line):
                    yield location, BY_SECTION.search(line)[0]


def main():
    """Print what is wrong and return the exit code."""
    register = dict(rows())
    problems = [problem for label, cells in register.items() for problem in check_row(label, cells)]
    citations = list(cited())
    problems += [
        f"{location}: {text!r} is no label of doc/theory/index.md"
        for location, text in citations
        if text not in register
    ]
    print("\n".join(problems))
    counts = (
        f"{len(register)} in the register, {len(citations)} citations, {len(problems)} problem(s)"
    )
    print(f"labels: {counts}")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
