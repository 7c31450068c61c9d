"""Does a model score each record by itself, and new ones at all? Asked on training rows."""

from __future__ import annotations

import warnings

import numpy as np
import scipy.sparse
from sklearn.base import BaseEstimator
from sklearn.preprocessing import FunctionTransformer

from sklearn_bdp._digests import copied
from sklearn_bdp._sklearn_compat import num_samples, safe_indexing
from sklearn_bdp.exceptions import BatchPredictionWarning, FailingModelWarning
from sklearn_bdp.guards._guard import Guard

#: Rows that a model is asked to predict: what looks further back than that goes unseen.
ROWS = 48
#: Different pipelines of one search that are asked.
MOST = 12
#: Fewer training rows are not split into two different batches.
FEWEST = 16
_RESPONSES = ("predict_proba", "decision_function", "predict")

BATCHES = Guard(
    "predictions by batch",
    "training set",
    "after a fit, once for each kind of pipeline",
    "Predictions of {name} depend on the other rows of the batch. Its score is then not a mean "
    "over records, and its interval does not hold. Make features of neighboring rows (lags, "
    "rolling means) before the search, so that each row of X carries its own and looks back only. "
    "Learn means and scales in fit, not from the rows to be predicted.",
    BatchPredictionWarning,
)
FAILS = Guard(
    "failing predictions",
    "training set",
    "after a fit, once for each kind of pipeline",
    "{name} raises an error for new rows made of training values. Holdout records that it cannot "
    "predict get the worst score. Let predict take rows that fit has not seen.",
    FailingModelWarning,
)
#: What a certificate says of a search in which such a model was found.
ASSUMPTION = (
    "NOT MET: predictions of {names} depend on the other rows of a batch, so that its queries are "
    "no means over records and nothing is promised about them"
)


def reads_other_rows(model, X):
    """Return whether predictions of a fitted model for some rows change when others are exchanged.

    ``X`` are training rows. Half of a batch stays where it is and the rest becomes other rows: a
    model that scores records one by one says the same of the half that stayed, to the last bit,
    also where it uses the place of a row in the batch; what draws at random is left alone.
    """
    n = num_samples(X)
    if n < FEWEST:
        return False
    size = min(ROWS, n // 2)
    rng = np.random.default_rng(0)
    batch = np.arange(n // 2 - size // 2, n // 2 - size // 2 + size)
    kept = np.sort(rng.permutation(size)[: size // 2])
    other = rng.choice(np.setdiff1d(np.arange(n), batch[kept]), size=size, replace=False)
    other[kept] = batch[kept]
    first, second = safe_indexing(X, batch), safe_indexing(X, other)
    if hasattr(second, "iloc"):  # windows of time need the order of their index
        second = second.set_axis(first.index, axis=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in _RESPONSES:
            try:
                said, changed = (_said(model, name, part)[kept] for part in (first, second))
                if _equal(said, changed):
                    return False
                return _equal(said, _said(model, name, first)[kept])
            except Exception:  # a response it does not have, or a batch it cannot take
                continue
    return False


def _said(model, name, X):
    """Return one row of responses per record."""
    found = getattr(model, name)(copied(X))
    found = found.toarray() if scipy.sparse.issparse(found) else np.asarray(found)
    if found.ndim == 0 or len(found) != num_samples(X):
        raise ValueError(name)
    return found


def _equal(first, second):
    """Return whether two arrays agree, numbers up to rounding in single precision."""
    if first.dtype.kind not in "iufb":
        return bool(np.all(first == second))
    first, second = first.astype(float), second.astype(float)
    finite = first[np.isfinite(first)]
    width = 1e-5 * float(np.ptp(finite)) + 1e-6 * float(np.abs(finite).max()) if finite.size else 0
    return bool(np.all(np.isclose(first, second, rtol=0.0, atol=width, equal_nan=True)))


def fails_on_new_rows(model, X):
    """Return whether a fitted model predicts training rows, but no row mixed of training values."""
    if num_samples(X) < FEWEST or not isinstance(X, np.ndarray) or X.ndim != 2:
        return False
    rng = np.random.default_rng(0)
    mixed = np.column_stack([rng.choice(column, size=4) for column in X.T]).astype(X.dtype)
    return _answers(model, X[:4]) and not _answers(model, mixed)


def _answers(model, X):
    """Return whether a model has a response for some rows."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return len(model.predict(copied(X))) == len(X)
        except Exception:  # whatever it raises
            return False


def may_read_other_rows(model):
    """Return whether a model holds code that scikit-learn does not answer for."""
    parts = [model]
    if isinstance(model, BaseEstimator):
        values = model.get_params(deep=True).values()
        parts += [value for value in values if hasattr(value, "fit") or callable(value)]
    return any(not _is_sklearn(part) or isinstance(part, FunctionTransformer) for part in parts)


def _is_sklearn(part):
    named = part if hasattr(part, "__qualname__") else type(part)  # functions and classes
    return f"{getattr(named, '__module__', None)}".split(".")[0] == "sklearn"


class RowWiseCheck:
    """Asks one model of each kind of pipeline, and warns once."""

    def __init__(self):
        self._asked, self._found = set(), {BATCHES: [], FAILS: []}

    def ask(self, model, X, params):
        """Look at a model fitted with ``params``, unless one of its kind was looked at.

        ``X``: training rows, with the columns that it was fitted on.
        """
        kind = _kind(model, params)
        if kind in self._asked or len(self._asked) >= MOST or not may_read_other_rows(model):
            return
        self._asked.add(kind)
        for guard, check in ((BATCHES, reads_other_rows), (FAILS, fails_on_new_rows)):
            if not check(model, X):
                continue
            found, name = self._found[guard], _name(model)
            if not found:
                guard.warn(name=name)
            if name not in found:
                found.append(name)

    @property
    def assumptions(self):
        """What a certificate has to say."""
        names = ", ".join(self._found[BATCHES])
        return (ASSUMPTION.format(names=names),) if names else ()


def _kind(model, params):
    """Return what tells pipelines apart: not the numbers that scikit-learn's own steps take."""
    own = model.get_params(deep=True) if isinstance(model, BaseEstimator) else {}
    return tuple(
        (name, repr(value))
        for name, value in sorted(params.items())
        if not (value is None or isinstance(value, bool | int | float | str | np.generic))
        or not _is_sklearn(own.get(name.rpartition("__")[0], model))
    )


def _name(model):
    """Return a short name of a model, with the steps of a pipeline."""
    steps = getattr(model, "steps", None)
    inside = [_name(each[1]) for each in steps] if isinstance(steps, list) else []
    function = getattr(getattr(model, "func", None), "__name__", None)
    inside += [function] if function else []
    return type(model).__name__ + (f"({', '.join(inside)})" if inside else "")
