"""Every Python block of the README and the documentation runs, page by page, in an empty folder."""

import ast
import contextlib
import io
import pkgutil
import re
import warnings
from pathlib import Path

import pytest

import sklearn_bdp
from benchmarks.__main__ import sections, write

ROOT = Path(__file__).resolve().parents[1]
PAGES = [
    ROOT / "README.md",
    *sorted(
        page
        for page in (ROOT / "doc").rglob("*.md")
        if not {"_build", "auto_examples", "theory"} & set(page.parts)
    ),
]
# What a page takes for granted (its X and y) stands in a comment that readers do not see.
BLOCK = re.compile(r"^(?:```python|<!-- setup)\n(.*?)^(?:```|-->)", re.M | re.S)
# A block that means to warn says so in a comment above it: <!-- warns: RowOrderWarning -->
WARNS = re.compile(r"<!-- warns: ([\w, ]+) -->\n+$")
# All pages run in one process, and many use the same data.
ANYWHERE = {"AnotherAccountWarning"}
OPTIONAL = ("optuna", "networkx", "matplotlib", "dask", "ray", "joblibspark", "polars", "pandas")


def blocks(page):
    """Return (line, code, names of warnings that it may give) of each Python block of a page."""
    text, found = page.read_text(encoding="utf-8"), []
    for block in BLOCK.finditer(text):
        meant = WARNS.search(text[: block.start()])
        names = ANYWHERE | (set(meant[1].split(", ")) if meant else set())
        found.append((text[: block.start(1)].count("\n") + 1, block[1], names))
    return found


@pytest.mark.parametrize(
    "page", [p for p in PAGES if blocks(p)], ids=lambda p: str(p.relative_to(ROOT))
)
def test_code_blocks_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    for name in OPTIONAL:
        if any(re.search(rf"^(import|from) {name}\b", code, re.M) for _, code, _ in blocks(page)):
            pytest.importorskip(name)
    names, wrong = {"__name__": "__main__"}, []
    for line, code, meant in blocks(page):
        padded = "\n" * line + code  # so that a traceback names the line of the page
        with (
            warnings.catch_warnings(record=True) as given,
            contextlib.redirect_stdout(io.StringIO()),
        ):
            warnings.simplefilter("always", UserWarning)
            exec(compile(padded, str(page), "exec"), names)
        given = {w.category.__name__: w for w in given if issubclass(w.category, UserWarning)}
        wrong += [f"line {line}: {name}: {given[name].message}" for name in given.keys() - meant]
    assert not wrong


def test_links_between_pages_lead_somewhere():
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
    found = {"sklearn_bdp", "sklearn_bdp.integrations.optuna"}
    found |= {f"sklearn_bdp.{m.name}" for m in pkgutil.iter_modules(sklearn_bdp.__path__)}
    public = {name for name in found if "._" not in name} - {"sklearn_bdp.integrations"}
    assert set(listed) == {name for name in public if name != "sklearn_bdp.__main__"}


def test_sections_are_read_as_they_were_written(tmp_path):
    page = tmp_path / "page.md"
    found = {
        name: f"## {name}, in words\n\n<!-- {name} -->\n`python`\n\n```text\n1\n```\n"
        for name in ("bench_ledger", "compare_practice")
    }
    write(page, found)
    assert sections(page.read_text("utf-8")) == found
    assert page.read_text("utf-8").index("compare_practice") < page.read_text("utf-8").index(
        "ledger"
    )


def test_the_readme_says_what_the_command_printed():
    """The comparison in the README is the last table of the page that shows the command."""
    page = (ROOT / "doc" / "start" / "for_me.md").read_text("utf-8")
    last = page.split("2000 records, 5 round(s)")[1].split("```")[0].strip().splitlines()[2:]
    printed = [re.findall(r"[+-]?\d+(?:\.\d+)?", line[18:]) for line in last]
    readme = (ROOT / "README.md").read_text("utf-8").split("| reported by |")[1].split("\n\n")[0]
    told = [row.split("|")[2:5] for row in readme.splitlines()[2:]]
    assert len(told) == len(printed) == 6
    for row, (_, _, high, width, inside) in zip(told, printed, strict=True):
        numbers = [float(re.findall(r"[\d.]+", cell)[0]) for cell in row]
        assert numbers == [float(high), float(width), float(inside)]


def test_pages_show_what_the_benchmarks_page_shows():
    """A table that another page repeats is the one that ``python -m benchmarks`` wrote."""
    taken = sections((ROOT / "doc" / "benchmarks.md").read_text("utf-8"))
    printed = taken["compare_practice"].split("```")[1].removeprefix("text").strip()
    page = (ROOT / "doc" / "start" / "for_me.md").read_text("utf-8")
    assert printed in page
