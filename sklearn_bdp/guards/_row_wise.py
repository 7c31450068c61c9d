"""Does a model score each record by itself? Asked on training rows, which are public."""

from __future__ import annotations

import warnings

import numpy as np
import scipy.sparse
from sklearn.base import BaseEstimator
from sklearn.preprocessing import FunctionTransformer

from sklearn_bdp._checks import caller_level
from sklearn_bdp._digests import copied
from sklearn_bdp._sklearn_compat import num_samples, safe_indexing
from sklearn_bdp.exceptions import BatchPredictionWarning

#: Rows that a model is asked to predict: what looks further back than that goes unseen.
ROWS = 48
#: Different pipelines of one search that are asked.
MOST = 12
_RESPONSES = ("predict_proba", "decision_function", "predict")

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
    if n < 16:
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


def may_read_other_rows(model):
    """Return whether a model holds code that scikit-learn does not answer for."""
    return any(
        not _is_sklearn(part) or isinstance(part, FunctionTransformer) for part in _parts(model)
    )


def _parts(model):
    """Yield a model, the estimators inside it and what else it calls."""
    yield model
    if isinstance(model, BaseEstimator):
        for value in model.get_params(deep=True).values():
            if hasattr(value, "fit") or callable(value):
                yield value


def _is_sklearn(part):
    named = part if hasattr(part, "__qualname__") else type(part)  # functions and classes
    return f"{getattr(named, '__module__', None)}".split(".")[0] == "sklearn"


class RowWiseCheck:
    """Asks one model of each kind of pipeline, and warns once."""

    def __init__(self):
        self._asked, self._found = set(), []

    def ask(self, model, X, params):
        """Look at a model fitted with ``params``, unless one of its kind was looked at.

        ``X``: training rows, with the columns that it was fitted on.
        """
        kind = _kind(model, params)
        if kind in self._asked or len(self._asked) >= MOST:
            return
        self._asked.add(kind)
        if not may_read_other_rows(model) or not reads_other_rows(model, X):
            return
        name = model_name(model)
        if not self._found:
            warn_of_batches(name)
        if name not in self._found:
            self._found.append(name)

    @property
    def assumptions(self):
        """What a certificate has to say."""
        return (ASSUMPTION.format(names=", ".join(self._found)),) if self._found else ()


def _kind(model, params):
    """Return what tells pipelines apart: not the numbers that scikit-learn's own steps take."""
    try:
        own = model.get_params(deep=True)
    except Exception:
        own = {}
    kept = []
    for name, value in sorted(params.items()):
        plain = value is None or isinstance(value, bool | int | float | str | np.generic)
        owner = own.get(name.rpartition("__")[0], model)
        if plain and _is_sklearn(owner):
            continue
        kept.append((name, repr(value) if plain or callable(value) else type(value).__qualname__))
    return tuple(kept)


def model_name(model):
    """Return a short name of a model, with the steps of a pipeline."""
    steps = getattr(model, "steps", None)
    if not isinstance(steps, list):
        return type(model).__name__
    return f"{type(model).__name__}({', '.join(_step(each[1]) for each in steps)})"


def _step(step):
    function = getattr(step, "func", None) if isinstance(step, FunctionTransformer) else None
    inside = getattr(function, "__name__", "") if function is not None else ""
    return f"{type(step).__name__}({inside})" if inside else type(step).__name__


def warn_of_batches(name):
    """Warn of a model whose predictions depend on the other rows of a batch."""
    warnings.warn(
        f"predictions of {name} depend on the other rows of the batch (asked on training rows): "
        "its score on the holdout is then no mean over records, a row that is predicted alone gets "
        "another prediction, and the interval does not hold. Make features of neighbouring rows "
        "(lags, rolling means) before the search, so that each row of X carries its own and looks "
        "back only; learn what a step needs (means, scales) in fit and keep it, in place of "
        "computing it from the rows to be predicted.",
        BatchPredictionWarning,
        stacklevel=caller_level(),
    )
