"""Checks of queries. Messages never quote a per-record score or anything computed from one."""

import copy
import dataclasses
import math
import pickle

import numpy as np
import scipy.sparse as sp

from sklearn_bdp._checks import (
    check_array,
    check_kind,
    check_order,
    check_real,
    check_targets,
    real_numbers,
)
from sklearn_bdp._digests import copied, query_key
from sklearn_bdp._sklearn_compat import num_samples
from sklearn_bdp.accounting import Units, score_tail
from sklearn_bdp.holdout._batch import Batch
from sklearn_bdp.metrics import Evaluation

_LONGEST_KEY = 1000


def batch_of_scores(scores, n, model, **asked):
    """Return the :class:`Batch` of queries with an ``(m, n)`` array of scores in [0, 1].

    ``asked``: what else a query says; see :func:`_checked`.
    """
    values, squares = check_per_record_scores(scores, n, model)
    # The type of an array is no measurement: integers in [0, 1] can be nothing but bits.
    binary = np.asarray(scores).dtype.kind in {"b", "u", "i"}
    return _checked(
        n, model,
        values=values,
        shapes=({"kind": "mean", "binary": binary},),
        tail_of=np.zeros(values.size, dtype=int),
        sensitivities=np.full(values.size, _mean_sensitivity(n, model)),
        squares=squares,
        by_class=[None] * values.size,
        **asked,
    )  # fmt: skip


def batch_of_evaluations(evaluations, n, model, **asked):
    """Return the :class:`Batch` of queries with evaluations made by a bounded metric."""
    found = [_one(evaluation, n, model) for evaluation in evaluations]
    shapes = {}
    shape_of = [shapes.setdefault(tuple(sorted(s.items())), len(shapes)) for *_, s in found]
    values, squares, largest = (np.array([one[part] for one in found]) for part in range(3))
    return _checked(
        n, model,
        values=values,
        shapes=tuple(map(dict, shapes)),
        tail_of=np.array(shape_of, dtype=int),
        sensitivities=largest,
        squares=squares,
        by_class=[evaluation.by_class for evaluation in evaluations],
        **asked,
    )  # fmt: skip


def _mean_sensitivity(n, model):
    """Return what one record can do to a mean over records, in units of ``1/n``.

    Noise is scaled by it for a level of privacy, which is not stated given the past.
    """
    weights = None if model.is_given_past else model.record_weights(n)
    return 1.0 if weights is None else max(1.0, n * float(weights.max()))


def check_per_record_scores(scores, n, model):
    """Return means of the rows of an ``(m, n)`` array of scores in [0, 1], and their moments.

    Records have equal weights unless the model says otherwise. Moments, of shape
    (m, 2), are means and mean squares of the scores of what was drawn independently (G15, G18).
    """
    plain = type(scores) is np.ndarray and scores.dtype.kind in "biuf"
    array = scores if plain else real_numbers("per_record_scores", scores)
    if array.ndim == 1 and array.size == n:
        array = array[np.newaxis]
    if array.ndim != 2 or array.shape[1] != n:
        raise ValueError(
            f"per_record_scores must have shape (m, {n}), one score for each holdout record, "
            f"got shape {array.shape}."
        )
    if array.size and not (array.min() >= 0.0 and array.max() <= 1.0):
        wrong = int(np.count_nonzero(~((array >= 0.0) & (array <= 1.0))))
        raise ValueError(
            f"per_record_scores must be finite and in [0, 1], {wrong} of {array.size} are not. "
            "Rescale bounded scores; a record on which a model fails gets the worst score, 0."
        )
    weights = model.record_weights(n)
    if weights is None:
        means = array.mean(axis=1, dtype=float)
    else:
        means = np.clip(array @ weights, 0.0, 1.0)
    return means, np.column_stack(_moments(array, means, n, model))


def _moments(array, means, n, model):
    """Return means and mean squares of records' scores, or of groups' by squared weights."""
    dates = getattr(model, "codes_", None) if model.is_given_past else None
    if dates is not None:
        own = np.array([model.unit_means(row) for row in array])
        return means, np.mean(own**2, axis=1)
    if array.dtype.kind in "biu":
        return means, means
    if model.is_independent or not model.is_componentwise:
        return means, np.einsum("ij,ij->i", array, array, dtype=float) / n
    order, starts, sizes = _groups(model, n)
    own = np.add.reduceat(array[:, order], starts, axis=1) / sizes
    weights = sizes**2 / np.sum(sizes**2)
    return own @ weights, own**2 @ weights


def _groups(model, n):
    """Return the records in the order of groups, where each begins, and their sizes."""
    _, group = np.unique(model.components(n), return_inverse=True)
    sizes = np.bincount(group).astype(float)
    starts = (np.cumsum(sizes) - sizes).astype(int)
    return np.argsort(group, kind="stable"), starts, sizes


def _one(evaluation, n, model):
    """Return value, mean square and sensitivity of one evaluation, and its public shape."""
    known = isinstance(evaluation, Evaluation)
    if not known or (evaluation.per_record is None and evaluation.shape.is_mean):
        raise TypeError(
            f"evaluations must come from BoundedMetric.evaluate, got {type(evaluation).__name__}."
        )
    if evaluation.per_record is not None:
        (value,), (square,) = check_per_record_scores(evaluation.per_record, n, model)
        return value, square, _mean_sensitivity(n, model), vars(evaluation.shape)
    if model.is_given_rest or not model.is_componentwise:
        raise ValueError(
            "a metric that is not a mean over records needs independent records or groups, got the "
            f"correlation: {model.describe()}. Use a mean over records, for instance "
            "scoring='accuracy' or 'neg_brier_score'."
        )
    value, sensitivity = float(evaluation.value), float(evaluation.sensitivity)
    if not (0.0 <= value <= 1.0 and 0.0 < sensitivity <= 1.0):
        raise ValueError("an evaluation must have a value and a sensitivity in [0, 1].")
    moments = np.full(2, value)  # of no use
    return value, moments, max(1.0, sensitivity * n), vars(evaluation.shape)


def metric_key(metric):
    """Return what a ledger knows a metric by."""
    return f"{metric.name} {query_key(repr(metric))[:16]}"


def _labels(about, count):
    """Return what the ledger says of queries: metric, its words and range; model, submitter."""
    if about is None:
        return [(None, None, None, None)] * count
    metrics = {id(metric): metric for metric, *_ in about}
    scales = {
        each: (metric_key(m), (m.measured, float(m.lower), float(m.upper)))
        for each, m in metrics.items()
    }
    return [(*scales[id(metric)], model, next(iter(by), None)) for metric, model, *by in about]


def _checked(
    n, model, *, shapes, tail_of, training_values, training_size=None, keys=None, relaxed_to=None,
    secondary=None, training_variance=None, own_cells=None, about=None, **scored,
):  # fmt: skip
    """Return the :class:`Batch` of what was ``scored`` and of what was asked, which is checked."""
    count = tail_of.size
    if count == 0:
        raise ValueError("a batch must hold at least one query, got 0.")
    training = np.atleast_1d(check_array("training_values", training_values, low=0.0, high=1.0))
    if training.shape != (count,):
        raise ValueError(
            f"training_values must have shape ({count},), one for each query, got {training.shape}."
        )
    sizes = n if training_size is None else training_size
    dates = model.units(n)[0] if model.is_given_past else n
    bits = np.array([shape["binary"] and dates == n for shape in shapes])  # of units
    useful = np.array([shape["kind"] == "mean" for shape in shapes]) & ~bits
    useful = useful[tail_of] & (
        model.is_independent or model.is_componentwise or model.is_given_past
    )
    alike = model.is_independent or model.is_given_past
    units = Units.records(dates) if alike else Units.of(_groups(model, n)[2])
    if model.is_given_past:
        units = dataclasses.replace(units, sensitivity=1.0 / n)
    if own_cells is not None:
        own_cells = check_array("own_cells", own_cells, shape=(count,), low=1e-12, high=1.0)
    return Batch(
        training_values=training,
        shapes=shapes,
        tails=tuple(score_tail(model, n, **shape) for shape in shapes),
        tail_of=tail_of,
        training_sizes=_each("training_size", sizes, count, low=1.0),
        relaxed_to=_each("relaxed_to", 0.0 if relaxed_to is None else relaxed_to, count, high=1.0),
        secondary=np.full(count, False if secondary is None else secondary, dtype=bool),
        keys=check_keys(keys, count),
        variances=_variances(training_variance, useful, 1 if alike else n * units.squares),
        units=units,
        own_cells=own_cells,
        labels=_labels(about, count),
        **scored,
    )


def _each(name, values, count, *, low=0.0, high=math.inf):
    """Return one number for each query; one for all may be given."""
    array = check_array(name, values, low=low, high=high)
    if array.shape not in ((), (count,)):
        raise ValueError(
            f"{name} must be a number or have shape ({count},), one for each query, got shape "
            f"{array.shape}."
        )
    return np.full(count, array)


def _variances(given, useful, count):
    """Return training-side variances of ``count`` units; NaN where of no use (G15, G18)."""
    if given is None:
        return np.full(useful.size, np.nan)
    values = np.asarray(given, dtype=float)
    _each("training_variance", np.nan_to_num(values), useful.size, high=0.25)
    # Scores of one group are taken to agree by a quarter: a guess for sharp limits, no bound.
    return np.where(useful, values * (0.25 + 0.75 / count), np.nan)


def check_training_value(metric, value):
    """Return a training-side score in [0, 1]; one that the metric cannot give is refused.

    An error may be worse than the declared bounds, then it counts as the worst; nothing is better
    than the best, and a proportion is never negative.
    """
    score = check_real("training_value", value)
    low = metric.lower if metric.lower == 0.0 else -math.inf
    rounding = 1e-9 * (metric.upper - metric.lower)
    if not low - rounding <= score <= metric.upper + rounding:
        raise ValueError(
            f"training_value must be in [{metric.lower:g}, {metric.upper:g}], the range of "
            f"{metric.name}, got training_value={value!r}."
        )
    return metric.to_unit(score)


def check_keys(keys, count=None):
    """Return keys as a list of strings or ``None``."""
    if keys is None:
        return [None] * (count or 0)
    result = list(keys) if np.iterable(keys) and not isinstance(keys, str | bytes) else [keys]
    if count is not None and len(result) != count:
        raise ValueError(f"keys must hold one key for each query ({count}), got {len(result)}.")
    for key in result:
        if key is not None and not (isinstance(key, str) and 0 < len(key) <= _LONGEST_KEY):
            raise ValueError(
                f"keys must be None or strings of 1 to {_LONGEST_KEY} characters (see "
                f"query_key), got {key!r:.60}."
            )
    return result


def check_data(X, y):
    """Return the number of records."""
    if y is None:
        raise ValueError("y must hold a target for each record, got y=None.")
    for name, data in (("X", X), ("y", y)):
        sized = hasattr(data, "shape") or hasattr(data, "__len__")
        if isinstance(data, str | bytes | dict) or not sized:
            raise TypeError(
                f"{name} must be an array, frame, sparse matrix or list, got {type(data).__name__}."
            )
    n, n_targets = num_samples(X), num_samples(y)
    check_kind("X", X)
    check_targets("y", y)
    if n != n_targets:
        raise ValueError(f"X and y must have the same number of records, got {n} and {n_targets}.")
    check_order("y", y, X)
    if n < 2:
        raise ValueError(f"a holdout must hold at least 2 records, got {n}.")
    return n


def first_askings(keys, known):
    """Return the positions that need a new answer, each key once."""
    first: dict = {}
    for position, key in enumerate(keys):
        if key is None or key not in known:
            first.setdefault(position if key is None else key, position)
    return list(first.values())


def freeze_data(X):
    """Return a copy of data that neither the caller's changes nor writes through it can reach.

    Arrays are read-only; the lists and objects inside lists, frames and arrays are copied, too.
    """
    if hasattr(X, "__array_namespace__") and not isinstance(X, np.ndarray):
        return copied(X)
    if getattr(getattr(X, "dtype", None), "hasobject", True) and not sp.issparse(X):
        X = X if hasattr(X, "shape") else list(X)
        try:
            frozen = pickle.loads(pickle.dumps(X, protocol=5))
        except Exception:  # cells of a class that cannot be named
            frozen = copy.deepcopy(X)
    else:
        frozen = X.copy()
    for part in (frozen, *getattr(frozen, "__dict__", {}).values()):  # of sparse data, its arrays
        if isinstance(part, np.ndarray):
            part.setflags(write=False)
    return frozen
