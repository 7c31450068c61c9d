"""Does a model score each record by itself, and new ones at all? Asked on training rows."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.base import BaseEstimator
from sklearn.preprocessing import FunctionTransformer

from sklearn_bdp._digests import copied
from sklearn_bdp._sklearn_compat import num_samples, safe_indexing
from sklearn_bdp.exceptions import (
    BatchPredictionWarning,
    ScoreContractError,
)
from sklearn_bdp.guards._guard import Guard

#: Rows that a model is asked to predict: what looks further back than that goes unseen.
ROWS = 48
#: Rows that a caller's score is asked about: one by subgroups needs some of each.
SCORED = 400
#: Different pipelines of one search that are asked.
MOST = 12
#: Fewer training rows are not split into two different batches.
FEWEST = 16

BATCHES = Guard(
    "predictions by batch",
    "training set",
    "after a fit, once for each kind of pipeline",
    "Predictions with {name} depend on the other rows of the batch. Its score is then not a mean "
    "over records, and its interval does not hold. Make features of neighboring rows (lags, "
    "rolling means) before the search, and learn means and scales in fit.",
    BatchPredictionWarning,
)
LATER = Guard(
    "predictions from later rows",
    "training set",
    "after a fit, once for each kind of pipeline, under correlation='time'",
    "Predictions with {name} for a date change with the rows of later dates. correlation='time' "
    "judges each date by what was then known. Make features from earlier rows only (lags, trailing "
    "means), or declare a chain. The holdout was not queried.",
    ValueError,
)
NO_MEAN = Guard(
    "scores by batch",
    "training set",
    "after the first fit",
    "PerRecordScore {name} gives training records other numbers when other records stand beside "
    "them, so that its mean has no proven interval. Return numbers that depend on their record and "
    "the model only. Report scores of subgroups by final_report(by=...). The holdout was not "
    "queried.",
    ScoreContractError,
)
#: What a certificate says of a search in which such a model was found.
ASSUMPTION = (
    "NOT MET: predictions with {names} depend on the other rows of a batch. Their scores are not "
    "means over records, and their intervals are not guaranteed"
)


def reads_other_rows(model, X):
    """Return whether predictions of a fitted model for some rows change when others are exchanged.

    ``X`` are training rows. Half of a batch stays where it is and the rest becomes other rows: a
    model that scores records one by one says the same of the half that stayed, to the last bit,
    also where it uses the place of a row in the batch; what draws at random is left alone.
    """
    if num_samples(X) < FEWEST:
        return False
    return _changes(model, X, *_batches(num_samples(X), ROWS))


def _batches(n, most):
    """Return places of a batch, of one with other rows beside half of it, and which stay."""
    size = min(most, n // 2)
    rng = np.random.default_rng(0)
    batch = np.arange(size) + (n - size) // 2
    kept = rng.permutation(size)[: size // 2]
    other = rng.permutation(n)[:size]
    other[kept] = batch[kept]
    return batch, other, kept


def _changes(model, X, batch, other, kept):
    """Return whether what a model says of the ``kept`` rows of a batch changes with the others."""
    first, second = safe_indexing(X, batch), safe_indexing(X, other)
    if hasattr(second, "iloc"):  # windows of time need the order of their index
        second = second.set_axis(first.index, axis=0)
    for name in ("predict_proba", "decision_function", "predict"):
        said, changed = (_said(model, name, part) for part in (first, second))
        if said is None or changed is None:
            continue
        if _equal(said[kept], changed[kept]):
            return False
        again = _said(model, name, first)
        return again is not None and _equal(said[kept], again[kept])
    return False


def check_later_rows(model, X, dates, *, name):
    """Raise where predictions of a fitted model for a date change with rows of later dates.

    ``dates`` are numbers of the dates of the training rows ``X``, in time order. Rows of the last
    dates of a stretch become other rows; what is said of the first ones has to stay.
    """
    known = np.unique(dates)
    if len(known) < FEWEST:
        return
    count = max(4, ROWS * len(known) // len(dates))
    part = known[(len(known) - count) // 2 :][:count]
    batch = np.flatnonzero(np.isin(dates, part))
    late = dates[batch] > part[(len(part) - 1) // 2]
    other = batch.copy()
    other[late] = np.random.default_rng(0).permutation(len(dates))[: late.sum()]
    if _changes(model, X, batch, other, ~late):
        raise LATER.error(name=name)


def _said(model, name, X):
    """Return one row of responses per record; None where the model has or gives none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = getattr(model, name)(copied(X))
        except Exception:  # whatever it raises
            return None
    found = found.toarray() if scipy.sparse.issparse(found) else np.asarray(found)
    return found if found.ndim and len(found) == num_samples(X) else None


def _equal(first, second):
    """Return whether two arrays agree, numbers up to rounding in single precision."""
    if first.dtype.kind not in "iufb":
        return bool(np.all(first == second))
    first, second = first.astype(float), second.astype(float)
    finite = first[np.isfinite(first)]
    width = 1e-5 * float(np.ptp(finite)) + 1e-6 * float(np.abs(finite).max()) if finite.size else 0
    return np.allclose(first, second, rtol=0.0, atol=width, equal_nan=True)


def foreign_parts(model):
    """Return the parts of a model that scikit-learn does not answer for, functions among them."""
    parts, found = [model], []
    if isinstance(model, BaseEstimator):
        values = model.get_params(deep=True).values()
        parts += [value for value in values if hasattr(value, "fit") or callable(value)]
    for part in parts:
        named = part if hasattr(part, "__qualname__") else type(part)  # functions and classes
        room = f"{getattr(named, '__module__', None)}".split(".")[0]
        if room != "sklearn" or isinstance(part, FunctionTransformer):
            found.append(part)
    return found


class RowWiseCheck:
    """Asks one model of each kind of pipeline, and warns once."""

    def __init__(self, dates=None):
        self.dates = dates  # of training rows, where each is judged given its past
        self._asked, self._found = set(), []
        self._scores: list[Any] = []

    def ask(self, model, X):
        """Look at a fitted model, unless one with the same foreign parts was looked at.

        ``X``: training rows, with the columns that it was fitted on.
        """
        parts = foreign_parts(model)
        kind = repr(parts)
        if not parts or kind in self._asked or len(self._asked) >= MOST:
            return
        self._asked.add(kind)
        name = ", ".join(getattr(part, "__name__", type(part).__name__) for part in parts)
        if self.dates is not None:
            check_later_rows(model, X, self.dates, name=name)
        elif name not in self._found and reads_other_rows(model, X):
            if not self._found:
                BATCHES.warn(name=name)
            self._found.append(name)

    def ask_score(self, metric, model, X, y):
        """Raise where a caller's score of a record depends on other records; asked once.

        ``X``, ``y``: training rows, with the columns that the model was fitted on.
        """
        n = num_samples(X)
        if metric.by_predictions or metric in self._scores:
            return
        self._scores.append(metric)
        if n < FEWEST or reads_other_rows(model, X):  # which has a warning of its own
            return
        batch, other, kept = _batches(n, SCORED)
        found, y = [], np.asarray(y)
        for rows in (batch, other, batch):
            try:
                scores = metric.training_scores(model, safe_indexing(X, rows), y[rows])[0]
                found.append(scores[kept])
            except Exception:  # a function that needs more rows than these tells nothing
                return
        first, second, again = found
        if not _equal(first, second) and _equal(first, again):
            raise NO_MEAN.error(name=metric.name)

    @property
    def assumptions(self):
        """What a certificate has to say."""
        names = ", ".join(self._found)
        return (ASSUMPTION.format(names=names),) if names else ()
