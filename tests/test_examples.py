"""Every example compiles; the slow tests and ``make docs`` run them up to their picture."""

import importlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("matplotlib")

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
STORIES = sorted(EXAMPLES.glob("plot_*.py"))


# Script that runs an example and saves its figures, as a user would see them.
SAVED = """
import os, runpy, sys
sys.path.insert(0, os.path.dirname(sys.argv[1]))  # as for a script that is run by its name
import matplotlib.pyplot as plt
runpy.run_path(sys.argv[1], run_name="__main__")
for number in plt.get_fignums():
    plt.figure(number).savefig(f"{number}.png", dpi=100)
"""


def run(script, folder, *options):
    """Run a script in a folder of its own, without a screen; the demo saves its own picture."""
    environment = {**os.environ, "MPLBACKEND": "agg", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-W", "error::FutureWarning", "-W", "ignore:.*non-interactive"]
    result = subprocess.run(
        [*command, *([str(script)] if options else ["-c", SAVED, str(script)]), *options],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def assert_picture(path):
    """Assert that a file is a PNG with something in it."""
    content = path.read_bytes()
    assert content.startswith(b"\x89PNG")
    assert len(content) > 10_000


def test_stories_are_there():
    stems = {script.stem for script in STORIES}
    assert {"plot_pedigree", "plot_model_selection_digits", "plot_time_series"} <= stems


@pytest.mark.parametrize("script", [*STORIES, EXAMPLES / "demo.py"], ids=lambda s: s.stem)
def test_example_compiles_and_has_a_long_docstring(script):
    code = compile(script.read_text(encoding="utf-8"), str(script), "exec")
    assert isinstance(code.co_consts[0], str)
    assert len(code.co_consts[0]) > 200


@pytest.mark.parametrize("script", STORIES, ids=lambda s: s.stem)
def test_example_has_a_title_for_the_gallery(script):
    lines = [line for line in script.read_text(encoding="utf-8").splitlines()[:4] if line != '"""']
    title, underline = lines[1:3] if set(lines[0]) == {"="} else lines[:2]
    assert set(underline) == {"="}
    assert len(underline) >= len(title) > 10


@pytest.mark.parametrize(
    "script",
    [*STORIES, EXAMPLES / "demo.py", *sorted(EXAMPLES.glob("leaderboard*.py"))],
    ids=lambda s: s.stem,
)
def test_readme_names_every_example(script):
    assert f"`{script.name}`" in (EXAMPLES / "README.md").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("script", STORIES, ids=lambda s: s.stem)
def test_example_ends_in_a_picture(script, tmp_path):
    assert run(script, tmp_path).strip()
    assert_picture(tmp_path / "1.png")


# Ends a script at its first line of output, and prints whether that came before the imports.
FIRST_LINE = """
import builtins, os, runpy, sys
show = print
def stop(*args, **options):
    show("sklearn" in sys.modules, "numpy" in sys.modules)
    raise SystemExit
builtins.print = stop
sys.path.insert(0, os.path.dirname(sys.argv[1]))
runpy.run_path(sys.argv[1], run_name="__main__")
"""


def test_demo_prints_a_line_before_the_imports(tmp_path):
    command = [sys.executable, "-c", FIRST_LINE, str(EXAMPLES / "demo.py")]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert result.stdout.split() == ["False", "False"]


def test_demo_prints_progress_about_every_five_seconds(monkeypatch, capsys):
    monkeypatch.syspath_prepend(EXAMPLES)
    demo = importlib.import_module("demo")
    seconds = iter(np.arange(0.0, 60.0, 0.9))
    progress = demo.Progress(clock=lambda: next(seconds))
    for step in range(60):
        progress.step(f"step {step}")
    lines = capsys.readouterr().out.splitlines()
    steps = [int(line.rsplit(" ", 1)[1]) for line in lines]
    assert set(np.diff(steps) * 0.9) == {4.5}


@pytest.mark.slow
def test_demo_ends_in_a_picture(tmp_path):
    options = ("--splits", "2", "--replications", "2", "--output", "pictures")
    printed = run(EXAMPLES / "demo.py", tmp_path, *options)
    assert "Simultaneous coverage of all proven intervals" in printed  # the final report
    assert "coin flips" in printed
    assert "pretended" in printed
    assert_picture(tmp_path / "pictures" / "demo.png")
