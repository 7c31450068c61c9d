"""Checked queries as a batch. Messages never quote a per-record score or a function of it."""

from __future__ import annotations

import copy
import dataclasses
import math
import pickle
from typing import Any

import numpy as np
import scipy.sparse as sp

from sklearn_bdp.intervals.bounds import Units
from sklearn_bdp.intervals.concentration import score_tail
from sklearn_bdp.metrics.base import Evaluation, as_labels
from sklearn_bdp.utils.hashing import copy_data, query_key
from sklearn_bdp.utils.sklearn_compat import num_samples
from sklearn_bdp.utils.validation import (
    as_real_array,
    check_array,
    check_index_alignment,
    check_real,
    check_supported_values,
    check_targets,
)

_LONGEST_KEY = 1000
_MOST_CLASSES = 1000  # integers with more values are numbers

#: Fields of a batch that its queries share.
_SHARED = {"shapes", "tails", "units"}


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Batch:
    """``m`` checked queries, fixed before any of them is answered."""

    cv_scores: np.ndarray  # (m,): cross-validated scores, in [0, 1]
    #: (m,): values on the holdout, in [0, 1]: for the mechanism only.
    values: np.ndarray = dataclasses.field(repr=False)
    shapes: tuple  # public facts about the spread of scores: arguments of ``score_tail``
    tails: tuple  # the concentration bound of each shape
    tail_of: np.ndarray  # (m,): index of each query's tail
    #: (m,): sensitivity in units of ``1/n``, at least 1: the scale of the noise.
    sensitivities: np.ndarray
    training_sizes: np.ndarray  # (m,): number of records behind each cross-validated score
    #: (m,): smallest threshold of each query if thresholds are chosen automatically.
    relaxed_to: np.ndarray
    secondary: np.ndarray  # (m,): mask of queries without influence on decisions
    keys: list  # the keys, ``None`` for queries that cannot be repeated for free
    #: (m,): variance of a record's cross-validated score; NaN: unknown or not used.
    variances: np.ndarray
    kurtosis: np.ndarray  # (m,): of the same scores, NaN: unknown
    #: (m, 2): means and mean squares of the units' scores on the holdout: for the mechanism only.
    squares: np.ndarray = dataclasses.field(repr=False)
    units: Units  # the independent sampling units
    #: (m,): half-widths of separate cells for unrelated queries; or None.
    own_cells: np.ndarray | None = None
    #: Components of scores by class, None for others: for the mechanism only.
    by_class: list = dataclasses.field(repr=False)
    #: Description of each query in the ledger: metric by name, its words and range, the model.
    labels: list

    def __len__(self):
        return len(self.keys)

    def take(self, positions):
        """Return the queries at these positions, in ascending order."""
        chosen = {}
        for name in {field.name for field in dataclasses.fields(self)} - _SHARED:
            values = getattr(self, name)
            if isinstance(values, np.ndarray):
                chosen[name] = values[positions]
            elif values is not None:
                chosen[name] = [values[position] for position in positions]
        return dataclasses.replace(self, **chosen)

    def deviations(self, positions, predictions):
        """Return standard deviations of the scores at public predictions."""
        if len(self.tails) == 1:
            return self.tails[0].standard_deviation(predictions)
        result = np.empty(len(positions))
        for index, tail in enumerate(self.tails):
            chosen = self.tail_of[positions] == index
            if chosen.any():
                result[chosen] = tail.standard_deviation(predictions[chosen])
        return result

    def limits(self, cell_lower, cell_upper, log_failure):
        """Return the ends of intervals whose two sides share a failure probability."""
        log_one_sided = log_failure - math.log(2.0)
        if len(self.tails) == 1:
            return self.tails[0].limits(cell_lower, cell_upper, log_one_sided, self.cv_scores)
        lower, upper = np.empty((2, len(self)))
        for index, tail in enumerate(self.tails):
            chosen = self.tail_of == index
            if chosen.any():
                lower[chosen], upper[chosen] = tail.limits(
                    cell_lower[chosen],
                    cell_upper[chosen],
                    log_one_sided[chosen],
                    self.cv_scores[chosen],
                )
        return lower, upper


def make_batch(
    n,
    model,
    cv_scores,
    *,
    scores=None,
    evaluations=None,
    n_train=None,
    keys=None,
    relaxed_to=None,
    secondary=None,
    training_variance=None,
    training_kurtosis=None,
    own_cells=None,
    about=None,
):
    """Return the checked :class:`Batch` of queries about ``n`` records of ``model``.

    ``scores``: an ``(m, n)`` array in [0, 1]; or ``evaluations``, made by bounded metrics.
    """
    if evaluations is None:
        holdout_scores = _ScoresOnHoldout.from_scores(scores, n, model)
    else:
        holdout_scores = _ScoresOnHoldout.from_evaluations(evaluations, n, model)
    count = len(holdout_scores.tail_of)
    if count == 0:
        raise ValueError("a batch must hold at least one query, got 0.")
    checked_cv_scores = np.atleast_1d(check_array("cv_scores", cv_scores, low=0.0, high=1.0))
    if checked_cv_scores.shape != (count,):
        raise ValueError(
            f"cv_scores must have shape ({count},), one for each query, got "
            f"{checked_cv_scores.shape}."
        )
    units = sampling_units(model, n)
    if own_cells is not None:
        own_cells = check_array("own_cells", own_cells, shape=(count,), low=1e-12, high=1.0)
    return Batch(
        cv_scores=checked_cv_scores,
        values=holdout_scores.values,
        shapes=holdout_scores.shapes,
        tails=tuple(score_tail(model, n, **shape) for shape in holdout_scores.shapes),
        tail_of=holdout_scores.tail_of,
        sensitivities=holdout_scores.sensitivities,
        training_sizes=_one_per_query("n_train", n if n_train is None else n_train, count, low=1.0),
        relaxed_to=_one_per_query(
            "relaxed_to", 0.0 if relaxed_to is None else relaxed_to, count, high=1.0
        ),
        secondary=np.full(count, False if secondary is None else secondary, dtype=bool),
        keys=check_keys(keys, count),
        variances=_unit_variances(training_variance, holdout_scores, units, model, n),
        kurtosis=_checked_kurtosis(training_kurtosis, count),
        squares=holdout_scores.squares,
        units=units,
        own_cells=own_cells,
        by_class=holdout_scores.by_class,
        labels=_query_labels(about, count),
    )


def _unit_variances(training_variance, holdout_scores, units, model, n):
    """Return the expected variance of a unit's score in each query; NaN if not used (G15, G18)."""
    tail_of = holdout_scores.tail_of
    if training_variance is None:
        return np.full(len(tail_of), np.nan)
    variances = np.asarray(training_variance, dtype=float)
    _one_per_query("training_variance", np.nan_to_num(variances), len(tail_of), high=0.25)
    is_binary = np.array([shape["binary"] for shape in holdout_scores.shapes])
    is_mean = np.array([shape["kind"] == "mean" for shape in holdout_scores.shapes])
    unit_variances = unit_variance(variances, units, model, n, is_binary[tail_of])
    return np.where(is_mean[tail_of], unit_variances, np.nan)


def _checked_kurtosis(training_kurtosis, count):
    """Return the kurtosis of the records' cross-validated scores in each query, NaN if unknown."""
    if training_kurtosis is None:
        return np.full(count, np.nan)
    kurtosis = np.asarray(training_kurtosis, dtype=float)
    _one_per_query("training_kurtosis", np.nan_to_num(kurtosis, nan=1.0), count, low=1.0)
    return np.full(count, kurtosis)


def sampling_units(model, n):
    """Return the independent sampling units of a holdout: records, dates or groups."""
    scheme = model.sampling_scheme(n)
    if scheme.calendar is not None:
        return dataclasses.replace(Units.records(scheme.n_units), sensitivity=1.0 / n)
    if scheme.has_independent_records:
        return Units.records(n)
    return Units.of(in_order_of_groups(model, n)[2])


def unit_variance(training_variance, units, model, n, is_binary):
    """Return the expected variance of a unit's mean score; NaN for scores without a use for it.

    ``training_variance``: of a record's score, in squared units of [0, 1].
    """
    scheme = model.sampling_scheme(n)
    has_equal_units = scheme.has_independent_records or scheme.calendar is not None
    is_record_unit = scheme.calendar is None or units.count == n
    is_useful = has_equal_units or scheme.has_independent_units
    is_useful &= not is_record_unit or ~np.asarray(is_binary)
    # Scores in a group are assumed to have correlation 1/4: for sharp limits, not as a bound.
    mean_unit_size = 1 if has_equal_units else n * units.squares
    return np.where(is_useful, training_variance * (0.25 + 0.75 / mean_unit_size), np.nan)


def _query_labels(about, count):
    """Return the description of each query in the ledger."""
    if about is None:
        return [(None, None, None, None)] * count
    scales = {}
    for metric, *_ in about:
        if id(metric) not in scales:
            scale = (metric.display_name, float(metric.lower), float(metric.upper))
            if metric.open_ends:
                scale += (metric.open_ends,)
            scales[id(metric)] = metric_key(metric), scale
    return [
        (*scales[id(metric)], model_name, next(iter(submitter), None))
        for metric, model_name, *submitter in about
    ]


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class _ScoresOnHoldout:
    """Scores of a batch on the holdout, with public facts about their spread."""

    values: np.ndarray = dataclasses.field(repr=False)
    squares: np.ndarray = dataclasses.field(repr=False)
    sensitivities: np.ndarray
    shapes: tuple
    tail_of: np.ndarray
    by_class: list = dataclasses.field(repr=False)

    @classmethod
    def from_scores(cls, scores, n, model):
        """Return the scores of an ``(m, n)`` array of scores of records."""
        values, moments = per_record_moments(scores, n, model)
        # The type of an array is public: integers in [0, 1] can only be 0 or 1.
        is_binary = np.asarray(scores).dtype.kind in {"b", "u", "i"}
        return cls(
            values=values,
            squares=moments,
            sensitivities=np.full(values.size, _mean_sensitivity(model, n)),
            shapes=({"kind": "mean", "binary": is_binary},),
            tail_of=np.zeros(values.size, dtype=int),
            by_class=[None] * values.size,
        )

    @classmethod
    def from_evaluations(cls, evaluations, n, model):
        """Return the scores of evaluations by bounded metrics."""
        mean_sensitivity = _mean_sensitivity(model, n)
        shape_indices: dict[Any, int] = {}
        tail_of = []
        rows = []  # value, moments and sensitivity of each evaluation
        by_class = []
        for evaluation in evaluations:
            _check_evaluation(evaluation, n, model)
            if evaluation.per_record is not None:
                (value,), (moments,) = per_record_moments(evaluation.per_record, n, model)
                rows.append((value, moments, mean_sensitivity))
            else:
                value = float(evaluation.value)
                sensitivity = max(1.0, float(evaluation.sensitivity) * n)
                rows.append((value, np.full(2, value), sensitivity))
            shape = tuple(sorted(vars(evaluation.shape).items()))
            tail_of.append(shape_indices.setdefault(shape, len(shape_indices)))
            by_class.append(evaluation.by_class)
        values, moments, sensitivities = (
            np.array([row[column] for row in rows]) for column in range(3)
        )
        return cls(
            values=values,
            squares=moments,
            sensitivities=sensitivities,
            shapes=tuple(map(dict, shape_indices)),
            tail_of=np.array(tail_of, dtype=int),
            by_class=by_class,
        )


def _mean_sensitivity(model, n):
    """Return the largest change of a mean over records by one record, in units of ``1 / n``.

    It is the scale of the noise for a level of privacy, which is not stated given the past.
    """
    scheme = model.sampling_scheme(n)
    weights = scheme.weights if scheme.calendar is None else None
    return 1.0 if weights is None else max(1.0, n * float(weights.max()))


def _check_evaluation(evaluation, n, model):
    """Raise an error if an evaluation cannot be a query about records of ``model``."""
    if not isinstance(evaluation, Evaluation) or (
        evaluation.per_record is None and evaluation.shape.is_mean
    ):
        raise TypeError(
            f"evaluations must come from BoundedMetric.evaluate, got {type(evaluation).__name__}."
        )
    if evaluation.per_record is not None:
        return
    scheme = model.sampling_scheme(n)
    if not (scheme.exchangeable or _is_approximate_of_nodes_or_dates(evaluation, scheme)):
        raise ValueError(
            "a metric that is not a mean over records needs independent records or groups, "
            f"got the correlation: {model.describe()}. Use a mean over records, for "
            "instance scoring='accuracy' or 'neg_brier_score'."
        )
    if not (0.0 <= evaluation.value <= 1.0 and 0.0 < evaluation.sensitivity <= 1.0):
        raise ValueError("an evaluation must have a value and a sensitivity in [0, 1].")


def _is_approximate_of_nodes_or_dates(evaluation, scheme):
    """Return whether an evaluation has no proven interval, and records are nodes or dates.

    Scores of dates have no interval at all: they are of family ``"none"``.
    """
    if evaluation.shape.kind != "approximate":
        return False
    if scheme.calendar is not None:
        return evaluation.shape.family == "none"
    return scheme.is_conditional and scheme.has_independent_records


def per_record_moments(scores, n, model):
    """Return means of the rows of an ``(m, n)`` array of scores in [0, 1], and their moments.

    Records have equal weights unless the model has others. Moments, of shape (m, 2), are means and
    mean squares of the scores of independent units (G15, G18).
    """
    array = _checked_score_array(scores, n)
    scheme = model.sampling_scheme(n)
    if scheme.weights is None:
        means = array.mean(axis=1, dtype=float)
    else:
        means = np.clip(array @ scheme.weights, 0.0, 1.0)
    if scheme.calendar is not None and scheme.block_codes is not None:
        unit_scores = np.array([scheme.block_means(row) for row in array])
        return means, np.column_stack([means, np.mean(unit_scores**2, axis=1)])
    if array.dtype.kind in "biu":  # 0² = 0 and 1² = 1
        return means, np.column_stack([means, means])
    if scheme.has_independent_records or not scheme.has_independent_units:
        squares = np.einsum("ij,ij->i", array, array, dtype=float) / n
        return means, np.column_stack([means, squares])
    order, starts, sizes = in_order_of_groups(model, n)
    unit_scores = np.add.reduceat(array[:, order], starts, axis=1) / sizes
    # D of theory G18 weighs groups by their squared sizes.
    squared_size_weights = sizes**2 / np.sum(sizes**2)
    unit_means = unit_scores @ squared_size_weights
    unit_squares = unit_scores**2 @ squared_size_weights
    return means, np.column_stack([unit_means, unit_squares])


def _checked_score_array(scores, n):
    """Return scores of n records as an ``(m, n)`` array of numbers in [0, 1]."""
    is_plain_array = type(scores) is np.ndarray and scores.dtype.kind in "biuf"
    array = scores if is_plain_array else as_real_array("per_record_scores", scores)
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
    return array


def in_order_of_groups(model, n):
    """Return the records in the order of groups, and the start and size of each group."""
    _, group = np.unique(model.components(n), return_inverse=True)
    sizes = np.bincount(group).astype(float)
    starts = (np.cumsum(sizes) - sizes).astype(int)
    return np.argsort(group, kind="stable"), starts, sizes


def _one_per_query(name, values, count, *, low=0.0, high=math.inf):
    """Return one number for each query from such an array or a single number."""
    array = check_array(name, values, low=low, high=high)
    if array.shape not in ((), (count,)):
        raise ValueError(
            f"{name} must be a number or have shape ({count},), one for each query, got shape "
            f"{array.shape}."
        )
    return np.full(count, array)


def metric_key(metric):
    """Return the identifier of a metric in a ledger."""
    return f"{metric.name} {query_key(repr(metric))[:16]}"


def check_cv_score(metric, value):
    """Return a cross-validated score in [0, 1], or raise if the metric cannot have this value.

    An error beyond the declared bounds counts as the worst value. No score is better than the best
    one, and a proportion is never negative.
    """
    score = check_real("cv_score", value)
    low = metric.lower if metric.lower == 0.0 else -math.inf
    rounding = 1e-9 * (metric.upper - metric.lower)
    if not low - rounding <= score <= metric.upper + rounding:
        raise ValueError(
            f"cv_score must be in [{metric.lower:g}, {metric.upper:g}], the range of "
            f"{metric.name}, got cv_score={value!r}."
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
        if not _is_key(key):
            raise ValueError(
                f"keys must be None or strings of 1 to {_LONGEST_KEY} characters, got {key!r:.60}."
            )
    return result


def _is_key(key):
    """Return whether an object can be the key of a query, or is None."""
    return key is None or (isinstance(key, str) and 0 < len(key) <= _LONGEST_KEY)


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
    n = num_samples(X)
    n_targets = num_samples(y)
    check_supported_values("X", X)
    check_targets("y", y)
    if n != n_targets:
        raise ValueError(f"X and y must have the same number of records, got {n} and {n_targets}.")
    check_index_alignment("y", y, X)
    if n < 2:
        raise ValueError(f"a holdout must hold at least 2 records, got {n}.")
    return n


def freeze_data(X):
    """Return a read-only copy of data, independent of the caller's object.

    Arrays are read-only; the lists and objects inside lists, frames and arrays are copied, too.
    """
    if hasattr(X, "__array_namespace__") and not isinstance(X, np.ndarray):
        return copy_data(X)
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


def described_targets(y: Any) -> dict[str, Any] | None:
    """Return the summary of *training* targets for a ledger: their classes, or their range."""
    y = as_labels(y)
    if y.ndim != 1 or not len(y):
        return None
    if y.dtype.kind in "fc":
        finite = y[np.isfinite(y)].astype(float)
        return {"low": finite.min(), "high": finite.max()} if finite.size else None
    classes, counts = np.unique(y, return_counts=True)
    if len(classes) > _MOST_CLASSES:
        numbers = y.dtype.kind in "iu"
        return {"low": float(y.min()), "high": float(y.max())} if numbers else None
    return {"classes": classes.tolist(), "counts": counts.tolist()}
