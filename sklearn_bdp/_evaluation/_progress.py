"""What a search that is interrupted leaves behind, so that asking again fits nothing twice."""

import pickle
import tempfile

import joblib

__all__ = ["ModelStore", "Progress"]

#: Models that are held in memory while others may still turn out best.
KEEP = 2


class Progress:
    """Finished fits of one search on one division of the data.

    Scores of folds are training-side numbers; what the holdout answered is in its own records.

    Attributes
    ----------
    signature : str or None
        Digest of data and parameters; ``None`` where they cannot be digested.
    division : Division or None
        How the data were divided.
    holdout : ReusableHoldout or None
        The holdout made of it.
    seed : int or None
        Of the split and the sampled candidates, where none was given.
    folds : dict
        Results of fits by row, fold and digest of its positions.
    """

    def __init__(self, *, seed):
        self.signature, self.division, self.holdout, self.seed = None, None, None, seed
        self.folds, self._params = {}, {}

    def result(self, row, name, params):
        """Return what is known about a fit, or None."""
        result = self.folds.get((row, name))
        if result is None or joblib.hash(self._params[row]) != joblib.hash(params):
            return None
        return dict(result)

    def add(self, row, name, params, result):
        """Keep a finished fit."""
        self.folds[row, name] = dict(result)
        self._params[row] = params

    @staticmethod
    def fold_name(part, train, test):
        """Return what a fold is known by."""
        return part, joblib.hash((train, test), hash_name="sha1")


class ModelStore:
    """Fitted models of a batch: the leaders in memory, the rest on disk or to be fitted again.

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
