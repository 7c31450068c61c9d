"""The command line both experiments share."""

import argparse
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.experiments._analyst import ANALYSTS
from benchmarks.experiments._figures import draw
from benchmarks.experiments._runner import run, write_summary

_PUBLISHED = [0, 10, 20, 30, 45, 70, 100, 150, 200, 250, 300, 400, 500]
#: n = d, numbers of attributes tried, repetitions
SIZES = {
    "tiny": (400, [0, 2, 5, 10, 15, 20], 4),
    "small": (4_000, [0, 4, 10, 20, 40, 70, 100, 150, 200], 20),
    "medium": (10_000, _PUBLISHED, 20),
    "full": (10_000, _PUBLISHED, 100),
}


@dataclass(frozen=True)
class Figure:
    """One figure of a paper.

    Parameters
    ----------
    name : str
        Start of the file names.
    title : str
        Heading.
    n_shifted : int
        Attributes that carry the label.
    """

    name: str
    title: str
    n_shifted: int


def parser(description, figures):
    """Return the argument parser for a script that makes the given figures."""
    result = argparse.ArgumentParser(
        description=description, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    add = result.add_argument
    add("--figure", choices=[*figures, "both"], default="both", help="figure of the paper")
    add("--size", choices=SIZES, default="small", help="full: as published; tiny: for tests")
    add("--repetitions", type=int, help="number of repetitions (default: as the size says)")
    add(
        "--data",
        choices=["statistics", "records"],
        default="statistics",
        help="draw what the analyst sees from its exact distribution, or every record (slow)",
    )
    add(
        "--noise",
        choices=["paper", "script"],
        default="paper",
        help="ratios of Fig. 1, or those of the authors' published script (narrower bands)",
    )
    add("--output", type=Path, default=Path("output/experiments"), help="folder for PNG and CSV")
    add("--jobs", type=int, default=min(2, os.cpu_count() or 1), help="processes")
    add("--seed", type=int, default=0, help="seed of the data and of the noise")
    add("--restart", action="store_true", help="throw earlier repetitions away")
    return result


def main(options, figures, population_of, extra):
    """Run the chosen figures, write CSV and PNG, print the last row of each.

    Parameters
    ----------
    options : argparse.Namespace
        Parsed arguments.
    figures : dict of str to Figure
        What there is to make.
    population_of : callable
        ``population_of(n_features, n_shifted, shift)`` returns a ``Population``.
    extra : dict
        Further settings to record.

    Returns
    -------
    int
        Exit status.
    """
    start = time.monotonic()
    n, sizes, repetitions = SIZES[options.size]
    repetitions = repetitions if options.repetitions is None else options.repetitions
    if not (repetitions >= 1 and options.jobs >= 1 and options.seed >= 0):
        print("--repetitions and --jobs must be at least 1, --seed at least 0", file=sys.stderr)
        return 2
    chosen = figures if options.figure == "both" else {options.figure: figures[options.figure]}
    memory = 0.0
    for figure in chosen.values():
        shift = 6.0 / np.sqrt(n)  # 0.06 at n = 10,000
        settings = {
            "n": n,
            "n_features": n,
            "sizes": sizes,
            "n_shifted": figure.n_shifted,
            "shift": shift,
            "seed": options.seed,
            "data": options.data,
            "noise": options.noise,
            **extra,
        }
        name = f"{figure.name}-{options.size}"
        try:
            results, used = run(
                population_of(n, figure.n_shifted, shift),
                settings,
                output=options.output,
                name=name,
                repetitions=repetitions,
                jobs=options.jobs,
                restart=options.restart,
            )
        except ValueError as error:
            print(error, file=sys.stderr)
            return 2
        memory = max(memory, used)
        write_summary(options.output / f"{name}.csv", results, sizes)
        subtitle = f"{figure.title} (n = d = {n:,}, {repetitions} repetitions)"
        draw(options.output / f"{name}.png", results, sizes, subtitle)
        report(figure.title, results, sizes)
    print(
        f"\n{time.monotonic() - start:.1f} s; peak memory of all processes {memory:.2f} GiB; "
        f"files in {options.output}"
    )
    return 0


def report(title, results, sizes):
    """Print accuracies at the largest number of attributes."""
    print(f"\n{title}, k = {sizes[-1]}: mean (standard deviation)")
    print(
        f"{'':>10} {'training':>15} {'holdout':>15} {'fresh':>15} {'population':>15} {'above':>8}"
    )
    for a, analyst in enumerate(ANALYSTS):
        last = results[:, a, -1]
        cells = [
            f"{100 * m:.2f} % ({100 * s:.2f})"
            for m, s in zip(last[:, :4].mean(axis=0), last[:, :4].std(axis=0), strict=True)
        ]
        print(
            f"{analyst:>10} " + " ".join(f"{c:>15}" for c in cells) + f" {last[:, 4].mean():8.0f}"
        )
