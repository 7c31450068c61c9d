"""What a search leaves behind, finished or interrupted, so that asking again fits nothing twice."""

import pickle
import tempfile
import time
import weakref
from collections import defaultdict

import joblib
import numpy as np

from sklearn_bdp._digests import object_digest
from sklearn_bdp.holdout import as_last_seen

#: Seconds between two writes of finished fits to a ledger.
EVERY = 10.0
#: Models held in memory while others may still turn out best: those ahead on the training side.
KEEP = 1
#: Bytes of per-record scores that are kept of a search's folds; the worst candidates go first.
ROOM = 2**25


class Progress:
    """Finished fits of one search on one division of the data.

    Scores of folds are training-side numbers; what the holdout answered is in its own records.
    """

    def __init__(self, *, seed, signature=None):
        self.signature, self.division, self.holdout, self.seed = signature, None, None, seed
        self.split = None
        self.folds, self._params = {}, {}  # parameters, or what a file kept: their digests
        self._scores, self._left = {}, ROOM
        self._sums = defaultdict(dict)  # of per-record scores and their squares, fold by fold
        self._unwritten, self._written = [], time.monotonic()

    def result(self, row, name, params):
        """Return what is known about a fit, or None."""
        result = self.folds.get((row, name))
        known = None if result is None else self._digest(row)
        if known is None or known != object_digest(params):
            return None
        return dict(result)

    def add(self, row, name, params, result, scores=None):
        """Keep a finished fit; with a ledger, now and then in its file."""
        self.folds[row, name] = dict(result)
        if scores is not None:
            values = scores.astype(float)
            self._sums[row][name] = [len(values), float(values.sum()), float(values @ values)]
        self._params.setdefault(row, params)
        self._unwritten.append((row, name))
        if time.monotonic() - self._written > EVERY:
            self.write()

    def keep(self, row, part, scores, value):
        """Keep the per-record scores of a fold while there is room; ``value`` is their score."""
        if scores is None or self._left < 0:
            return
        self._scores.setdefault(row, {})[part] = (scores, value)
        self._left -= scores.nbytes
        while self._left < 0 and len(self._scores) > 1:
            worst = min(self._scores, key=self._typical)
            self._left += sum(kept.nbytes for kept, _ in self._scores.pop(worst).values())

    def _typical(self, row):
        values = [value for _, value in self._scores[row].values()]
        return float(np.mean(values)) if np.isfinite(values).all() else -np.inf

    def variance(self, row):
        """Return the variance of a record's score in the folds of a row; NaN if it is not known."""
        sums = self._sums.get(row)
        if not sums:
            return np.nan
        count, total, squares = np.sum(list(sums.values()), axis=0)
        return float(np.clip(squares / count - (total / count) ** 2, 0.0, 0.25))

    def scores(self, row, tests, n):
        """Return the per-record scores of a row and the last fold that tested each record, or None.

        NaN and -1 for records in no test fold.
        """
        kept = self._scores.get(row, {})
        if len(kept) < len(tests):
            return None
        scores, fold = np.full(n, np.nan), np.full(n, -1)
        for part, test in enumerate(tests):
            scores[test], fold[test] = kept[part][0], part
        return scores, fold

    def write(self, *, wait=False):
        """Write what is new into the ledger, if there is one: training-side numbers only.

        ``wait``: together with the batch that comes next.
        """
        if self.signature is None or self.holdout is None or self.holdout.ledger is None:
            return
        done = [
            [row, list(name), self._digest(row), self._entry(row, name)]
            for row, name in self._unwritten
            if not self.folds[row, name]["fit_error"] and self._digest(row) is not None
        ]
        if done:
            self.holdout.note(f"fits {self.signature}", done, wait=wait)
        self._unwritten, self._written = [], time.monotonic()

    def read(self):
        """Take in what an earlier process wrote."""
        if self.signature is None or self.holdout.ledger is None:
            return
        with as_last_seen():  # it was opened just now
            before = self.holdout.notes(f"fits {self.signature}")
        for done in before:
            for row, name, params, result in done:
                if "sums" in result:
                    self._sums[row][tuple(name)] = result.pop("sums")
                self.folds[row, tuple(name)] = {**result, "fit_error": None}
                self._params[row] = params

    def _entry(self, row, name):
        """Return what a file keeps of a fit."""
        entry = _plain(self.folds[row, name])
        sums = self._sums.get(row, {}).get(name)
        return entry if sums is None else {**entry, "sums": sums}

    def _digest(self, row):
        """Return the digest of a row's parameters; None where they cannot be read."""
        params = self._params[row]
        return params if isinstance(params, str) else object_digest(params)

    @staticmethod
    def fold_name(part, train, test):
        """Return what a fold is known by."""
        return part, joblib.hash((train, test), hash_name="sha1")


def _plain(result):
    """Return what scikit-learn reports about a fit as plain numbers."""

    def number(value):
        if isinstance(value, dict):
            return {name: number(score) for name, score in value.items()}
        return value if isinstance(value, int) else float(value)

    return {name: number(value) for name, value in result.items() if name != "fit_error"}


class ModelStore:
    """Fitted models of a batch: the leader in memory, the rest on disk or to be fitted again.

    Which one is best is known only when all have been asked about.
    """

    def __init__(self):
        self._leaders, self._places, self._file = {}, {}, None

    def put(self, row, model, *, guess, repeatable):
        """Keep a model; ``guess`` is its training-side score."""
        self._leaders[row] = (guess, repeatable, model)
        if len(self._leaders) > KEEP:
            last = min(self._leaders, key=lambda key: self._leaders[key][0])
            _, repeatable, model = self._leaders.pop(last)
            if not repeatable:
                self._store(last, model)

    def _store(self, row, model):
        """Write a model that no second fit would give again; in memory if it cannot be written."""
        if self._file is None:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115 (lives as long as the store)
            weakref.finalize(self, self._file.close)
        place = self._file.seek(0, 2)
        try:
            pickle.dump(model, self._file, protocol=pickle.HIGHEST_PROTOCOL)
        except Exception:  # whatever a third-party object raises when it is pickled
            self._places[row] = model
        else:
            self._places[row] = place

    def get(self, row):
        """Return the model of a row, or None where it has to be fitted again."""
        if row in self._leaders:
            return self._leaders[row][2]
        place = self._places.get(row)
        if isinstance(place, int):
            self._file.seek(place)
            return pickle.load(self._file)
        return place
