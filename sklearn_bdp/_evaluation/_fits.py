"""All fits of a search in one parallel call: folds of the training part, and the whole of it.

Fits that share a part of the data travel together, so that it is shipped rarely and transformers
that candidates share are fitted once. Results come back as they are ready, so that an
interruption loses only what was not finished.
"""

import base64
import collections
import contextlib
import functools
import json
import math
import operator
import pickle
import sys
import tempfile
import time
import traceback
import weakref
from concurrent.futures import BrokenExecutor
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from sklearn.base import clone
from sklearn.utils.parallel import Parallel, delayed

from sklearn_bdp._evaluation._candidates import PrefixMemory, evaluate
from sklearn_bdp._evaluation._scoring import Kept
from sklearn_bdp._sklearn_compat import Nobody, fit_and_score
from sklearn_bdp.metrics import Clipping

#: What ends a search from outside: the user, or the death of a worker. What is finished is kept.
INTERRUPTIONS = (KeyboardInterrupt, BrokenExecutor)
_EVERY = 60.0  # seconds between two lines about what is left
#: Calls per worker, so that none waits long for another at the end.
_CALLS = 16
#: Bytes of per-record scores that are kept of a search's folds; the worst candidates go first.
ROOM = 2**25
#: Bytes of a fold's per-record scores up to which they are written beside a ledger.
_LONGEST_LINE = 2**18


@dataclass(frozen=True, eq=False)
class Task:
    """One fit."""

    row: int  # row of the candidate in ``cv_results_``
    candidate: object = field(repr=False)
    keyed: bool = False  # whether the key comes from the fitted model
    progress: tuple = (0, 0)  # row among the candidates of this round, for messages
    context: object = field(default=None, repr=False)  # of scikit-learn's callbacks


@dataclass(frozen=True, eq=False)
class FoldJob:
    """Fit on all but one fold of the training part and score, as scikit-learn does."""

    part: int  # number of the fold
    estimator: object
    X: object = field(repr=False)
    y: object = field(repr=False)
    train: object = field(repr=False)
    test: object = field(repr=False)
    options: dict = field(repr=False)  # for scikit-learn's ``_fit_and_score``
    kept: dict = field(repr=False)  # what its scorers tell of the fits that go on

    def run(self, task, memory):
        """Return the :class:`FoldScores` of one fit.

        Records that a model was trained on are scored after those that it is tested on.
        """
        estimator = clone(self.estimator)
        kept = Kept(None if self.options["return_train_score"] else memory)
        self.kept[id(estimator)] = kept
        try:
            with memory.lent(estimator, self.part):
                result = fit_and_score(
                    estimator,
                    self.X,
                    self.y,
                    train=self.train,
                    test=self.test,
                    parameters=task.candidate.params,
                    candidate_progress=task.progress,
                    callback_ctx=task.context,
                    **self.options,
                )
        except Exception as error:  # its frames do not survive the search, their text does
            error.add_note(traceback.format_exc())
            raise
        finally:
            del self.kept[id(estimator)]
        if kept.breach is not None:
            raise kept.breach
        if not kept.scores or len(kept.scores[0]) != len(self.test):
            return FoldScores(result)
        return FoldScores(result, kept.scores[0].astype(np.float32), kept.clipping[0])


@dataclass(frozen=True, eq=False)
class WholeJob:
    """Fit on the whole training part and score each holdout record."""

    setting: object = field(repr=False)
    caller: object = field(default=None, repr=False)  # the search, for callbacks
    part: str = "whole"

    def run(self, task, memory):
        """Return the :class:`Outcome` of one candidate."""
        context = task.context or Nobody()  # callbacks are shown no data
        context.call_on_fit_task_begin(estimator=self.caller)
        try:
            return evaluate(self.setting, task.candidate, keyed=task.keyed, memory=memory)
        finally:
            context.call_on_fit_task_end(estimator=self.caller)


def _telling(take, total):
    """Return ``take``, which then says once a minute how many of the fits are left."""
    start = last = time.monotonic()
    done = 0

    def taken(*result):
        nonlocal last, done
        take(*result)
        done, now = done + 1, time.monotonic()
        if now - last >= _EVERY and done < total:
            last, left = now, (now - start) / done * (total - done) / 60.0
            print(f"{done:,} of {total:,} fits, about {left:,.0f} min left", file=sys.stderr)

    return taken


def run_jobs(jobs, take, *, n_jobs, pre_dispatch):
    """Run fits and hand each result to ``take`` as soon as it is there."""
    take = _telling(take, sum(len(tasks) for _, tasks in jobs))
    workers = effective_n_jobs(n_jobs)
    if workers == 1:
        memory = PrefixMemory()
        for job, tasks in jobs:
            for task in tasks:
                take(job, task, job.run(task, memory))
        return
    count = sum(len(tasks) for _, tasks in jobs)
    size = max(1, math.ceil(count / (workers * _CALLS)))
    chunks = [
        (job, tasks[start : start + size])
        for job, tasks in jobs
        for start in range(0, len(tasks), size)
    ]
    calls = (delayed(_run_chunk)(place, job, tasks) for place, (job, tasks) in enumerate(chunks))
    options = {"n_jobs": n_jobs, "pre_dispatch": pre_dispatch}
    try:
        found = Parallel(return_as="generator_unordered", **options)(calls)
    except ValueError:  # ray and multiprocessing give lists only; nothing has been dispatched
        found = Parallel(**options)(calls)
    for place, results in found:
        job, tasks = chunks[place]
        for task, result in zip(tasks, results, strict=True):
            take(job, task, result)


def _run_chunk(place, job, tasks):
    """Run fits that share a part of the data, one after the other, in a worker."""
    memory = PrefixMemory()
    return place, [job.run(task, memory) for task in tasks]


@dataclass
class FoldScores:
    """What one fit on a fold of the training set gave."""

    result: dict  # as scikit-learn reports it
    #: Of tested records, where they are known and there is room for them.
    scores: np.ndarray | None = field(default=None, repr=False)
    clipping: Any = None  # what clipping changes there, where that was found out
    #: Number of the scores, their sum and that of their squares.
    sums: tuple = (0, 0.0, 0.0)


class FoldFile:
    """Finished folds of one search beside its ledger, for the same script in a new process.

    Scores of training records are public. A line that was not written to its end counts as not
    written. ``name``: a digest of data and parameters.
    """

    def __init__(self, ledger, name):
        self.path = Path(f"{ledger}.{name[:16]}.folds")

    def read(self):
        """Return what was written, by name."""
        found = {}
        with contextlib.suppress(OSError):
            for line in self.path.read_text("utf-8").splitlines():
                with contextlib.suppress(ValueError, KeyError, TypeError):
                    name, result, sums, clipping, scores = json.loads(line)
                    if scores is not None:
                        scores = np.frombuffer(base64.b64decode(scores), np.float32)
                    clipping = None if clipping is None else Clipping(*clipping)
                    found[name] = FoldScores(result, scores, clipping, tuple(sums))
        return found

    def write(self, name, fold):
        """Append a finished fold; a folder that cannot be written is the ledger's concern."""
        scores, clipping = fold.scores, fold.clipping
        if scores is not None:
            short = scores.nbytes <= _LONGEST_LINE
            scores = base64.b64encode(scores.tobytes()).decode() if short else None
        clipping = None if clipping is None else astuple(clipping)
        with contextlib.suppress(OSError, TypeError):
            line = json.dumps([name, fold.result, fold.sums, clipping, scores], default=float)
            with self.path.open("a", encoding="utf-8") as file:
                file.write(line + "\n")

    def remove(self):
        """Drop the file of a search that is finished."""
        with contextlib.suppress(OSError):
            self.path.unlink(missing_ok=True)


class Progress:
    """Finished fits of one search on one division of the data, for the time after an interruption.

    Scores of folds are training-side numbers; what the holdout answered is in its own records.
    Fits are known by names: digests of row, fold and parameters, None where these cannot be read.
    ``file``: where fits are kept besides for a new process; ``room``: bytes of records' scores.
    """

    def __init__(self, *, seed, split=None, config=None, file=None, room=ROOM):
        self.seed, self.split, self.config, self.file = seed, split, config, file
        self.division = self.holdout = None
        self._known = {} if file is None else file.read()  # folds by name
        self._rows = collections.defaultdict(dict)  # folds by row and part
        self._left = room

    def find(self, row, part, name):
        """Return what is known about a fit, or None."""
        known = self._known.get(name)
        if known is not None and part not in self._rows[row]:
            self._keep(row, part, known)
        return known

    def add(self, row, part, name, found, units=None):
        """Keep a finished fit; ``units``: scores of what varies by itself, such as dates."""
        if found.scores is not None:
            values = (found.scores if units is None else units).astype(float)
            found.sums = len(values), float(values.sum()), float(values @ values)
        if name is not None:
            self._known[name] = found
            if self.file is not None:
                self.file.write(name, found)
        self._keep(row, part, found)

    def _keep(self, row, part, found):
        """Keep per-record scores while there is room; those of the worst candidates go first."""
        self._rows[row][part] = found
        self._left -= 0 if found.scores is None else found.scores.nbytes
        while self._left < 0:
            rows = [r for r in self._rows.values() if any(f.scores is not None for f in r.values())]
            if len(rows) < 2:
                return
            for fold in min(rows, key=_mean_score).values():
                if fold.scores is not None:
                    self._left += fold.scores.nbytes
                    fold.scores = None

    def variance(self, row):
        """Return the variance of a record's score in the folds of a row; NaN if it is not known."""
        found = [(0, 0.0, 0.0), *(fold.sums for fold in self._rows[row].values())]
        count, total, squares = np.sum(found, axis=0)
        if not count:
            return np.nan
        return float(np.clip(squares / count - (total / count) ** 2, 0.0, 0.25))

    def clipping(self, row):
        """Return what clipping changes on the folds of a row, None where it is not known."""
        found = [fold.clipping for fold in self._rows[row].values() if fold.clipping is not None]
        return functools.reduce(operator.add, found) if found else None

    def scores(self, row, tests, n):
        """Return the per-record scores of a row and the last fold that tested each record, or None.

        NaN and -1 for records in no test fold.
        """
        kept = self._rows[row]
        if len(kept) < len(tests) or any(each.scores is None for each in kept.values()):
            return None
        scores, fold = np.full(n, np.nan), np.full(n, -1)
        for part, test in enumerate(tests):
            scores[test], fold[test] = kept[part].scores, part
        return scores, fold


def _mean_score(folds):
    """Return the mean score of a candidate in its folds so far."""
    values = [fold.sums[1] / max(fold.sums[0], 1) for fold in folds.values()]
    return float(np.mean(values)) if np.isfinite(values).all() else -np.inf


class ModelStore:
    """Fitted models of a batch: the leader in memory, the rest on disk or to be fitted again.

    Which one is best is known only when all have been asked about.
    """

    def __init__(self):
        self._leader, self._stored, self._file = (-math.inf, None, True, None), {}, None

    def put(self, row, model, *, guess, repeatable):
        """Keep a model; ``guess`` is its training-side score."""
        ahead, behind = (guess, row, repeatable, model), self._leader
        if guess <= behind[0]:
            ahead, behind = behind, ahead
        self._leader = ahead
        _, row, repeatable, model = behind
        if repeatable:
            return
        if self._file is None:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115 (lives as long as the store)
            weakref.finalize(self, self._file.close)
        place = self._file.seek(0, 2)
        try:
            pickle.dump(model, self._file, protocol=pickle.HIGHEST_PROTOCOL)
        except Exception:  # whatever a third-party object raises when it is pickled
            self._stored[row] = model
        else:
            self._stored[row] = place

    def get(self, row):
        """Return the model of a row, or None where it has to be fitted again."""
        if row == self._leader[1]:
            return self._leader[3]
        place = self._stored.get(row)
        if isinstance(place, int):
            self._file.seek(place)
            return pickle.load(self._file)
        return place
