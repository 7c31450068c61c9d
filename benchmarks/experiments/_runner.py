"""Repeat an experiment, keep every repetition on disk, continue after an interruption."""

import csv
import json
import os
import resource
import sys
import time
import warnings

import numpy as np
from joblib import Parallel, delayed

from benchmarks.experiments._analyst import ANALYSTS, COLUMNS, run_repetition
from benchmarks.experiments._samples import SAMPLES

_HEADER = ("repetition", "analyst", "k", *COLUMNS)


class Progress:
    """A bar on a terminal, a line every few seconds elsewhere."""

    def __init__(self, label, total, n_done, stream=None):
        self._label = label
        self._total = total
        self._first = n_done
        self._stream = sys.stderr if stream is None else stream
        self._start = time.monotonic()
        self._last = 0.0
        self.show(n_done)

    def show(self, n_done):
        """Report that ``done`` repetitions are on disk."""
        now = time.monotonic()
        live = self._stream.isatty()
        if n_done < self._total and now - self._last < (0.1 if live else 5.0):
            return
        self._last = now
        spent = now - self._start
        fresh = n_done - self._first
        remaining = spent / fresh * (self._total - n_done) if fresh else float("nan")
        filled = 30 * n_done // self._total if self._total else 30
        bar = "#" * filled + "." * (30 - filled)
        timing = f"{spent:.0f} s" + (
            f", {remaining:.0f} s left" if n_done < self._total and fresh else ""
        )
        line = f"{self._label} [{bar}] {n_done}/{self._total}  {timing}"
        end = "\n" if n_done >= self._total or not live else ""
        self._stream.write(("\r" if live else "") + line + end)
        self._stream.flush()


def read_repetitions(path, n_sizes):
    """Return finished repetitions as ``{number: array}``; an incomplete last one is left out."""
    shape = (len(ANALYSTS), n_sizes, len(COLUMNS))
    rows = {}
    text = path.read_text()
    whole_lines = text[: text.rfind("\n") + 1]  # a number cut in two would still be a number
    for row in csv.DictReader(whole_lines.splitlines()):
        values = [float(row[column]) for column in COLUMNS]
        rows.setdefault(int(row["repetition"]), []).append(values)
    complete = {k: np.array(v) for k, v in rows.items() if len(v) == len(ANALYSTS) * n_sizes}
    return {k: v.reshape(shape) for k, v in complete.items()}


def write_repetitions(path, results, sizes):
    """Write all repetitions given, in order."""
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(_HEADER)
        for number in sorted(results):
            writer.writerows(_rows(number, results[number], sizes))


def _rows(number, result, sizes):
    return [
        (number, analyst, k, *(repr(float(value)) for value in values))
        for analyst, of_analyst in zip(ANALYSTS, result, strict=True)
        for k, values in zip(sizes, of_analyst, strict=True)
    ]


def _one(population, answering, settings, number):
    """Run one repetition; return it with the process's number and peak memory (KiB)."""
    rng = np.random.default_rng([settings["seed"], number])
    result = run_repetition(
        population,
        SAMPLES[settings["data"]],
        settings["n"],
        settings["sizes"],
        rng,
        answering=answering,
        order=settings["order"],
    )
    return number, result, os.getpid(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def run(population, answering, settings, *, output, name, repetitions, jobs=1, restart=False):
    """Run the missing repetitions and return all of them.

    Parameters
    ----------
    population : Population
        Simulator of the data.
    answering : Practical, Algorithm1 or Default
        The reusable holdout.
    settings : dict
        Values that determine a repetition's result: ``n``, ``sizes``, ``seed``, ``data``,
        ``order``, and the parameters of ``population`` and ``answering``. They are stored beside
        the results; a run with other settings does not continue them.
    output : pathlib.Path
        Folder.
    name : str
        Start of the file names.
    repetitions : int
        Number of repetitions, earlier ones included.
    jobs : int, default=1
        Number of processes.
    restart : bool, default=False
        Delete earlier repetitions first.

    Returns
    -------
    results : ndarray of shape (repetitions, n_analysts, n_sizes, n_columns)
        In the order of the repetitions.
    memory : float
        Peak memory of the processes that computed, together, in GiB.

    Raises
    ------
    ValueError
        If the folder holds repetitions of other settings and ``restart`` is not set.
    """
    output.mkdir(parents=True, exist_ok=True)
    table = output / f"{name}-repetitions.csv"
    note = output / f"{name}-settings.json"
    sizes = settings["sizes"]
    finished = {}
    if not restart and table.exists() and note.exists():
        recorded = json.loads(note.read_text())
        if recorded != settings:
            changed = [k for k in {*recorded, *settings} if recorded.get(k) != settings.get(k)]
            raise ValueError(
                f"{table} holds repetitions with other settings ({', '.join(sorted(changed))}); "
                "pass --restart to throw them away, or another --output."
            )
        finished = read_repetitions(table, len(sizes))
    note.write_text(json.dumps(settings, indent=2, sort_keys=True) + "\n")
    write_repetitions(table, finished, sizes)  # drops a repetition that was cut off while written

    missing = [number for number in range(repetitions) if number not in finished]
    progress = Progress(name, repetitions, repetitions - len(missing))
    tasks = (delayed(_one)(population, answering, settings, number) for number in missing)
    peaks = {os.getpid(): resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}
    with table.open("a", newline="") as stream:
        writer = csv.writer(stream)
        parallel = Parallel(n_jobs=min(jobs, max(len(missing), 1)), return_as="generator")
        for count, (number, result, process, peak) in enumerate(parallel(tasks), start=1):
            writer.writerows(_rows(number, result, sizes))
            stream.flush()
            finished[number] = result
            peaks[process] = max(peak, peaks.get(process, 0))
            progress.show(repetitions - len(missing) + count)
    return np.array([finished[number] for number in range(repetitions)]), sum(
        peaks.values()
    ) / 2**20


def moments(results):
    """Return mean and standard deviation over repetitions; NaN where nothing was answered."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # nothing answered, or one repetition
        mean = np.nanmean(results, axis=0)
        spread = np.nanstd(results, axis=0, ddof=1) if len(results) > 1 else np.zeros_like(mean)
    return mean, spread


def write_summary(path, results, sizes):
    """Write mean and standard deviation over repetitions, one row per analyst and size."""
    mean, spread = moments(results)
    names = [f"{column}_{summary}" for column in COLUMNS for summary in ("mean", "std")]
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(("analyst", "k", "repetitions", *names))
        for a, analyst in enumerate(ANALYSTS):
            for i, k in enumerate(sizes):
                pairs = np.column_stack([mean[a, i], spread[a, i]]).ravel()
                writer.writerow((analyst, k, len(results), *(f"{v:.6f}" for v in pairs)))
