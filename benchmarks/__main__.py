"""Run the benchmarks and write their page: ``python -m benchmarks [NAME ...] [--size small|full]``.

``--size full`` writes ``benchmarks/results.md``, one section for each benchmark with its command,
the time, the versions and its output; sections of benchmarks that did not run stay as they are.
``--size small`` is a quick look: it runs minutes, not hours, and writes ``output/benchmarks.md``.
"""

import argparse
import datetime
import importlib.metadata
import os
import platform
import re
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = {"full": ROOT / "benchmarks" / "results.md", "small": ROOT / "output" / "benchmarks.md"}
PACKAGES = ("sklearn_bdp", "scikit-learn", "numpy", "scipy")

#: Subject of a benchmark, and its arguments at either size.
BENCHMARKS = {
    "compare_practice": (
        "Nine ways to report a score, on the same data with known truth",
        {"small": "--replications 4 --sizes 400", "full": "--replications 100"},
    ),
    "attack_scorers": (
        "Adaptive attacks on searches by metrics without a proven bound",
        {"small": "--lives 1", "full": "--lives 100"},
    ),
    "compare_guarantees": (
        "Records that guarantees need, and widths they certify",
        {"small": "--quick --output output", "full": "--output output"},
    ),
    "simulate_year": (
        "A year of adaptive searches on one holdout",
        {"small": "--years 3 --searches 20 --work 0 1", "full": ""},
    ),
    "final_report": (
        "Final reports: coverage and width of proven and of approximate rows",
        {"small": "", "full": "--size full"},
    ),
    "confirmed_searches": (
        "Searches that cross-validation predicts well: cost, forecast and final report",
        {"small": "--lives 2", "full": "--lives 24"},
    ),
    "report_widths": (
        "Final reports after ten searches, beside intervals of one untouched test set",
        {"small": "--replications 1", "full": "--replications 40 --kind patients records"},
    ),
    "auc_placements": (
        "Proven limits of ROC AUC: pairs and placements beside one look",
        {"small": "--draws 5", "full": "--draws 100"},
    ),
    "planned_sizes": (
        "Planned numbers of holdout records beside those that reports need",
        {"small": "--holdouts 20", "full": ""},
    ),
    "real_searches": (
        "Four adaptive searches of support vector machines on a small holdout, beside Bonferroni",
        {"small": "--seeds 1", "full": "--data all"},
    ),
    "predictions": (
        "Two other ways to predict holdout scores, on real searches",
        {"small": "--splits 1 --data diabetes", "full": "--splits 3"},
    ),
    "dependence": (
        "From data to the dependence that is declared",
        {"small": "--size small", "full": "--size full"},
    ),
    "feature_selection": (
        "Feature selection beside its peers",
        {
            "small": "--size small --seeds 1 --again --output output/feature_selection_small.csv",
            "full": "--size full --seeds 10 --methods ours stable kbest l1 stability filter proved "
            "discovered bonferroni bh panel delong "
            "--output output/feature_selection_page.csv",
        },
    ),
    "related_systems": ("Other ways to reuse a holdout", {"small": "", "full": ""}),
    "papers": ("The table of the papers", {"small": "", "full": ""}),
    "bench_search": (
        "A verified search against GridSearchCV",
        {"small": "cheap --runs 1", "full": ""},
    ),
    "bench_scorer": (
        'HoldoutScorer in tools that take scoring=, beside scoring="accuracy"',
        {"small": "cross_validate --runs 1", "full": "--runs 9"},
    ),
    "bench_scorers": (
        "Every scorer of scikit-learn in a search: interval, width and cost",
        {"small": "cost --runs 1", "full": "--runs 11"},
    ),
    "bench_answers": ("Time of answers", {"small": "--runs 1 --batch 5000", "full": ""}),
    "bench_ledger": (
        "Throughput of a ledger",
        {"small": "--processes 2 --batches 20 --answers 200 --open 5000", "full": ""},
    ),
    "bench_correlation": (
        "Speed and scale of correlation models",
        {"small": "--small", "full": ""},
    ),
    "bench_mechanisms": (
        "Answers of Thresholdout per second",
        {"small": "--queries 100000 --repeats 1", "full": ""},
    ),
}

HEAD = """# Benchmarks

Written by `make bench` (`python -m benchmarks`). Each section shows the command of a benchmark, its
date, the versions and the unedited output. `python -m benchmarks NAME` replaces one section;
`make bench SIZE=small` runs all in minutes. Simulations have fixed seeds; noise comes from the
operating system, so that last digits differ from run to run. Speed is a ratio within one run.
"""


def benchmarks_by_name():
    """Return the title and the arguments of each benchmark: the table, and other ``bench_*.py``."""
    modules = sorted(path.stem for path in Path(__file__).parent.glob("bench_*.py"))
    defaults = {name: (name, {"small": "", "full": ""}) for name in modules}
    return BENCHMARKS | {name: defaults[name] for name in defaults if name not in BENCHMARKS}


def section(name, size):
    """Run a benchmark in a process of its own and return its section of the page."""
    title, arguments_by_size = benchmarks_by_name()[name]
    command = ["-m", f"benchmarks.{name}", *arguments_by_size[size].split()]
    start = time.perf_counter()
    run = subprocess.run(
        [sys.executable, "-W", "ignore", *command],
        check=False,
        cwd=ROOT,
        text=True,
        stdout=subprocess.PIPE,
    )
    duration = time.perf_counter() - start
    # Some benchmarks end with status 1 if a target was missed: that is a result, too.
    status = f"\n(exit status {run.returncode})" if run.returncode else ""
    versions = ", ".join(f"{package} {_version(package)}" for package in PACKAGES)
    date = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d")
    return (
        f"## {title}\n\n<!-- {name} -->\n`python {' '.join(command)}`, {date}, {duration:.0f} s on "
        f"{os.cpu_count()} cores; Python {platform.python_version()}, {versions}{_commit()}.\n\n"
        f"```text\n{run.stdout.strip()}{status}\n```\n"
    )


def _commit():
    """Return ", commit" and the hash of the measured commit, or "" outside a repository."""
    command = ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]
    try:
        commit = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:
        return ""
    return f", commit {commit}" if commit else ""


def _version(package):
    if package == "sklearn_bdp":
        import sklearn_bdp

        return sklearn_bdp.__version__
    return importlib.metadata.version(package)


def sections(text):
    """Return the sections of a page by the name of their benchmark."""
    section_by_name = {}
    for section_text in re.split(r"^(?=## )", text, flags=re.M)[1:]:
        name = re.search(r"^<!-- (\w+) -->$", section_text, re.M)
        if name:
            section_by_name[name[1]] = section_text.strip() + "\n"
    return section_by_name


def printed(name):
    """Return the output of a benchmark, as the full page records it."""
    section_text = sections(PAGES["full"].read_text("utf-8"))[name]
    return re.search(r"^```text\n(.*?)\n```$", section_text, re.M | re.S)[1]


def write(page, texts):
    """Write the page: sections in the order of the table."""
    order = [name for name in benchmarks_by_name() if name in texts]
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text("\n".join([HEAD, *(texts[name] for name in order)]), encoding="utf-8")


def main(arguments=None):
    """Run benchmarks; each finished section is written at once."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="All benchmarks.")
    all_names = ", ".join(benchmarks_by_name())
    parser.add_argument("names", nargs="*", help=f"by default all: {all_names}")
    parser.add_argument(
        "--size",
        choices=PAGES,
        default="full",
        help="full: hours, writes the page; small: minutes, writes to output/",
    )
    options = parser.parse_args(arguments)
    unknown_names = [name for name in options.names if name not in benchmarks_by_name()]
    if unknown_names:
        parser.error(f"names must be among {all_names}, got {', '.join(unknown_names)}")
    page = PAGES[options.size]
    (ROOT / "output").mkdir(exist_ok=True)
    for name in options.names or benchmarks_by_name():
        print(f"== {name}", flush=True)
        section_text = section(name, options.size)
        print(section_text, flush=True)
        texts = sections(page.read_text("utf-8")) if page.exists() else {}
        write(page, texts | {name: section_text})
    print(f"written: {page.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
