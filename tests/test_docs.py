"""Every Python block of the README and the documentation runs, page by page, in an empty folder."""

import ast
import contextlib
import importlib.metadata
import io
import pkgutil
import re
import warnings
from decimal import Decimal
from pathlib import Path

import pytest

import sklearn_bdp
from benchmarks.__main__ import printed, sections, write
from benchmarks.compare_practice import digest

ROOT = Path(__file__).resolve().parents[1]
PAGES = [
    ROOT / "README.md",
    *sorted(
        page
        for page in (ROOT / "doc").rglob("*.md")
        if not {"_build", "auto_examples", "theory"} & set(page.parts)
    ),
]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.M | re.S)
# A block that means to warn says so in a comment above it: <!-- warns: RowOrderWarning -->
WARNS = re.compile(r"<!-- warns: ([\w, ]+) -->\n+$")
# All pages run in one process, and many use the same data.
ANYWHERE = {"SecondHoldoutWarning"}
# The output of a block is below it, after a comment that readers do not see.
OUTPUT = re.compile(r"^<!-- output -->\n```text\n(.*?)^```", re.M | re.S)
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e-?\d+)?")
OPTIONAL = ("optuna", "networkx", "matplotlib", "dask", "ray", "joblibspark", "polars", "pandas")


def blocks(page):
    """Return (line, code, names of warnings that it may give) of each Python block of a page."""
    text = page.read_text(encoding="utf-8")
    blocks_of_page = []
    for block in BLOCK.finditer(text):
        warning_comment = WARNS.search(text[: block.start()])
        warning_names = ANYWHERE | (
            set(warning_comment[1].split(", ")) if warning_comment else set()
        )
        blocks_of_page.append((text[: block.start(1)].count("\n") + 1, block[1], warning_names))
    return blocks_of_page


def expected_outputs(page):
    """Return the output that a page shows below each block, ``None`` where it shows none."""
    text = page.read_text(encoding="utf-8")
    ends = [block.end() for block in BLOCK.finditer(text)]
    output_by_end = {
        len(text[: output.start()].rstrip()): output[1] for output in OUTPUT.finditer(text)
    }
    return [output_by_end.get(end) for end in ends]


def agrees(number, shown):
    """Return whether a printed number is the one of the page, up to one unit of its last digit."""
    exponent = Decimal(shown).as_tuple().exponent
    tolerance = Decimal(1).scaleb(exponent) if exponent < 0 else 0
    return abs(Decimal(number) - Decimal(shown)) <= tolerance


def is_same_text(printed, expected):
    """Return whether two texts agree; fractions may differ by one unit of their last digit."""
    if NUMBER.sub("#", printed).split() != NUMBER.sub("#", expected).split():
        return False
    return all(map(agrees, NUMBER.findall(printed), NUMBER.findall(expected)))


def has_pinned_versions():
    """Return whether scikit-learn, numpy and scipy have the versions that wrote the pages."""
    lines = (ROOT / "doc" / "constraints.txt").read_text("utf-8").split()
    pins = dict(line.split("==") for line in lines)
    packages = ("scikit-learn", "numpy", "scipy")
    return all(importlib.metadata.version(name) == pins[name] for name in packages)


def test_fractions_agree_within_one_unit_of_the_last_digit():
    assert is_same_text("0.979 [0.93, 1.0], 6 queries", "0.978 [0.93, 1.0], 6 queries")
    assert not is_same_text("0.979 [0.93, 1.0]", "0.977 [0.93, 1.0]")
    assert not is_same_text("7 queries", "6 queries")
    assert not is_same_text("6 queries", "6 answers")


@pytest.mark.parametrize(
    "page", [p for p in PAGES if blocks(p)], ids=lambda p: str(p.relative_to(ROOT))
)
def test_code_blocks_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    for name in OPTIONAL:
        if any(re.search(rf"^(import|from) {name}\b", code, re.M) for _, code, _ in blocks(page)):
            pytest.importorskip(name)
    compares_numbers = has_pinned_versions()
    namespace = {"__name__": "__main__"}
    deviations = []
    for (line, code, expected_warnings), expected in zip(
        blocks(page), expected_outputs(page), strict=True
    ):
        padded = "\n" * line + code  # so that a traceback names the line of the page
        with (
            warnings.catch_warnings(record=True) as caught_warnings,
            contextlib.redirect_stdout(io.StringIO()) as printed,
        ):
            warnings.simplefilter("always", UserWarning)
            exec(compile(padded, str(page), "exec"), namespace)
        caught_warnings = {
            w.category.__name__: w for w in caught_warnings if issubclass(w.category, UserWarning)
        }
        deviations += [
            f"line {line}: {name}: {caught_warnings[name].message}"
            for name in caught_warnings.keys() - expected_warnings
        ]
        is_same = is_same_text(printed.getvalue(), expected or "")
        if not is_same and (expected is None or compares_numbers):
            deviations.append(f"line {line} prints:\n{printed.getvalue()}")
    assert not deviations


def test_links_between_pages_have_targets():
    broken = []
    for page in PAGES + sorted((ROOT / "doc" / "theory").glob("*.md")):
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text("utf-8")):
            if "://" in target or target.startswith("mailto:"):
                continue
            if not (page.parent / target).exists():
                broken.append(f"{page.relative_to(ROOT)} -> {target}")
    assert not broken


def test_no_page_has_the_name_of_one_that_sphinx_writes():
    """``doc/search.md`` would be overwritten by the page of the search box."""
    names = {page.stem for page in (ROOT / "doc").glob("*.md")}
    assert not names & {"search", "genindex", "py-modindex"}


def test_every_public_package_is_in_the_reference():
    """``doc/conf.py`` lists the names of these packages; none may be forgotten."""
    text = (ROOT / "doc" / "conf.py").read_text("utf-8")
    listed = ast.literal_eval(re.search(r"^PACKAGES = (\(.*?^\))", text, re.M | re.S)[1])
    package_names = {f"sklearn_bdp.{m.name}" for m in pkgutil.iter_modules(sklearn_bdp.__path__)}
    internal = ("__main__", "diagnostics", "evaluation", "intervals", "release", "report", "utils")
    public = {"sklearn_bdp"} | {name for name in package_names if "._" not in name}
    assert set(listed) == public - {f"sklearn_bdp.{name}" for name in internal}


def test_sections_are_read_as_they_were_written(tmp_path):
    page = tmp_path / "page.md"
    written_sections = {
        name: f"## {name}, in words\n\n<!-- {name} -->\n`python`\n\n```text\n1\n```\n"
        for name in ("bench_ledger", "compare_practice")
    }
    write(page, written_sections)
    assert sections(page.read_text("utf-8")) == written_sections
    assert page.read_text("utf-8").index("compare_practice") < page.read_text("utf-8").index(
        "ledger"
    )


def test_the_table_of_methods_shows_the_results_of_the_benchmark():
    """Half-width and coverage of each method, after the rounds that the page names."""
    results = {}
    for part in printed("compare_practice").split("\n\n"):
        title, _, *lines = part.splitlines()
        setting = tuple(map(int, re.findall(r"\d+", title)))[:2]
        for line in lines:
            method, *_, half_width, coverage = re.split(r"\s{2,}", line.strip())
            results[setting, method] = f"±{half_width}, {coverage}"
    page = (ROOT / "doc" / "start" / "when_to_use.md").read_text("utf-8")
    table = page.partition("| method | what it does |")[2].partition("\n\n")[0]
    settings = [(400, 1), (400, 10), (2000, 10)]
    rows = [re.split(r"\s*\|\s*", line.strip("| ")) for line in table.splitlines()[2:]]
    assert len(rows) == 9
    for method, _, *cells in rows:
        assert cells == [results[setting, method.strip("*")] for setting in settings]


def test_the_picture_shows_the_table_of_the_benchmarks_page():
    """``python -m benchmarks.compare_practice --draw`` draws it anew."""
    picture = (ROOT / "doc" / "_static" / "practice.svg").read_text("utf-8")
    assert digest(printed("compare_practice")) in picture
