"""Shared parts of the command lines of the experiments."""

import argparse
import os
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.experiments._analyst import ANALYSTS, COLUMNS
from benchmarks.experiments._runner import moments, run, write_summary


@dataclass
class Session:
    """Options of one call, its start time, and its peak memory so far.

    Parameters
    ----------
    options : argparse.Namespace
        Parsed arguments.
    start : float
        Monotonic time at the start, in seconds.
    memory : float
        Peak memory of all processes so far, in GiB.
    """

    options: argparse.Namespace
    start: float = field(default_factory=time.monotonic)
    memory: float = 0.0

    def simulate(self, name, population, answering, settings, repetitions):
        """Return the results of all repetitions; run the missing ones and write the summary."""
        options = self.options
        if options.repetitions is not None:
            repetitions = options.repetitions
        results, peak_memory = run(
            population,
            answering,
            {"seed": options.seed, **settings},
            output=options.output,
            name=name,
            repetitions=repetitions,
            jobs=options.jobs,
            restart=options.restart,
        )
        self.memory = max(self.memory, peak_memory)
        write_summary(options.output / f"{name}.csv", results, settings["sizes"])
        return results

    def close(self):
        """Print the time, the peak memory and the folder of the files."""
        print(
            f"\n{time.monotonic() - self.start:.1f} s; peak memory of all processes "
            f"{self.memory:.2f} GiB; files in {self.options.output}"
        )


def parser(description, sizes):
    """Return an argument parser with the options of every experiment."""
    result = argparse.ArgumentParser(
        description=description, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    add = result.add_argument
    add("--size", choices=sizes, default="small", help="full: the reported one; tiny: for tests")
    add("--repetitions", type=int, help="number of repetitions (default: by --size)")
    add("--output", type=Path, default=Path("output/experiments"), help="folder for PNG and CSV")
    add("--jobs", type=int, default=min(2, os.cpu_count() or 1), help="processes")
    add("--seed", type=int, default=0, help="seed of the data and of the noise")
    add("--restart", action="store_true", help="delete earlier repetitions first")
    return result


def main(options, experiment):
    """Run ``experiment(session)`` and print the message of a ValueError without its traceback.

    Returns
    -------
    int
        Exit status.
    """
    if (options.repetitions or 1) < 1 or options.jobs < 1 or options.seed < 0:
        print("--repetitions and --jobs must be at least 1, --seed at least 0", file=sys.stderr)
        return 2
    session = Session(options)
    try:
        experiment(session)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    session.close()
    return 0


def report(title, results, sizes, *, analysts=ANALYSTS, at=None):
    """Print accuracies at one number of attributes (by default the largest)."""
    index = len(sizes) - 1 if at is None else sizes.index(at)
    print(f"\n{title}, k = {sizes[index]:,}: mean (standard deviation)")
    columns = ("training", "holdout", "fresh", "population")
    print(f"{'':>10}" + "".join(f"{name:>16}" for name in columns) + f"{'above':>8}")
    mean, spread = moments(results)
    for analyst in analysts:
        row = ANALYSTS.index(analyst), index
        cells = [
            f"{100 * mean[row][COLUMNS.index(name)]:.2f} % "
            f"({100 * spread[row][COLUMNS.index(name)]:.2f})"
            for name in columns
        ]
        above = mean[row][COLUMNS.index("above")]
        print(f"{analyst:>10}" + "".join(f"{cell:>16}" for cell in cells) + f"{above:8.0f}")
