"""Batch of checked queries; error messages quote no score of a holdout record."""

from __future__ import annotations

import copy
import dataclasses
import math
import pickle
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from sklearn_bdp.intervals.bounds import UnitWeights
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

_MAX_KEY_LENGTH = 1000
_MAX_CLASSES = 1000  # integers with more values are numbers

#: Fields of a batch that its queries share.
_SHARED_FIELDS = {"shapes", "tails", "units"}


class QueryDescription(NamedTuple):
    """Texts about a query that the ledger records with its answer; None if not known."""

    metric: str | None = None  # see :func:`metric_key`
    #: Display name of the metric, the ends of its range, and its open ends if it has some.
    scale: tuple[Any, ...] | None = None
    model: str | None = None
    submitter: str | None = None


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class QueryBatch:
    """``m`` checked queries, fixed before any of them is answered."""

    cv_scores: np.ndarray  # (m,): cross-validated scores, in [0, 1]
    #: (m,): values on the holdout, in [0, 1]: for the mechanism only.
    values: np.ndarray = dataclasses.field(repr=False)
    #: Public arguments of ``score_tail`` by name, a dict for each kind of score in the batch.
    shapes: tuple
    tails: tuple  # the concentration bound of each shape
    shape_indices: np.ndarray  # (m,): index of each query's shape, which is that of its tail
    #: (m,): scale of the noise in units of that for the sensitivity ``1/n``, at least 1: the
    #: sensitivity in units of ``1/n``, or less after ``scale_noise``.
    noise_scales: np.ndarray
    training_sizes: np.ndarray  # (m,): number of records behind each cross-validated score
    #: (m,): smallest threshold of each query if thresholds are chosen automatically.
    relaxed_to: np.ndarray
    is_secondary: np.ndarray  # (m,): mask of queries without influence on decisions
    keys: list  # (m,): the keys, ``None`` for queries that cannot be repeated for free
    #: (m,): expected variance of a unit's mean score, from cross-validation; NaN: unknown or not
    #: used.
    unit_variances: np.ndarray
    kurtosis: np.ndarray  # (m,): of the records' cross-validated scores, NaN: unknown
    #: (m, 2): see :func:`per_record_moments`; without use for a score that is not a mean. For the
    #: mechanism only.
    unit_moments: np.ndarray = dataclasses.field(repr=False)
    units: UnitWeights  # the independent sampling units
    #: (m,): scores of the holdout records of each query, None for a score that is not a mean; or
    #: None for all if the units are not single records. For the mechanism only.
    record_scores: list | None = dataclasses.field(default=None, repr=False)
    #: (m,): half-widths of the cells of unrelated queries, each answered by itself; or None.
    fixed_half_widths: np.ndarray | None = None
    #: (m,): public ranks that select a query unless the holdout corrects another one upward; or
    #: None: released values select.
    ranks: np.ndarray | None = None
    #: (m,): data from which a score is computed again, such as ``ClassScores`` with released class
    #: counts; None for a mean over records. For the mechanism only.
    score_inputs: list = dataclasses.field(repr=False)
    descriptions: list[QueryDescription]  # (m,)

    def __len__(self):
        return len(self.keys)

    def take(self, positions):
        """Return the batch of the queries at these positions, in the order of ``positions``."""
        fields_of_queries = {field.name for field in dataclasses.fields(self)} - _SHARED_FIELDS
        selected = {}
        for name in fields_of_queries:
            values = getattr(self, name)
            if isinstance(values, np.ndarray):
                selected[name] = values[positions]
            elif values is not None:
                selected[name] = [values[position] for position in positions]
        return dataclasses.replace(self, **selected)

    def deviations_at(self, positions, predictions):
        """Return worst-case standard deviations of the scores of the queries at ``positions``.

        ``predictions``: public predictions of these scores, in [0, 1].
        """
        if len(self.tails) == 1:
            return self.tails[0].standard_deviation(predictions)
        deviations = np.empty(len(positions))
        for shape_index, tail in enumerate(self.tails):
            has_shape = self.shape_indices[positions] == shape_index
            if has_shape.any():
                deviations[has_shape] = tail.standard_deviation(predictions[has_shape])
        return deviations

    def limits(self, cell_lower, cell_upper, log_failure):
        """Return lower and upper ends of the intervals of all queries, two arrays of shape (m,).

        Parameters
        ----------
        cell_lower, cell_upper : ndarray of shape (m,)
            Ends of the released cells, noise margins included.
        log_failure : ndarray of shape (m,)
            Log of the failure probability of both sides together.
        """
        log_one_sided = log_failure - math.log(2.0)
        if len(self.tails) == 1:
            return self.tails[0].limits(cell_lower, cell_upper, log_one_sided, self.cv_scores)
        lower, upper = np.empty((2, len(self)))
        for shape_index, tail in enumerate(self.tails):
            has_shape = self.shape_indices == shape_index
            if has_shape.any():
                lower[has_shape], upper[has_shape] = tail.limits(
                    cell_lower[has_shape],
                    cell_upper[has_shape],
                    log_one_sided[has_shape],
                    self.cv_scores[has_shape],
                )
        return lower, upper


def make_query_batch(
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
    fixed_half_widths=None,
    ranks=None,
    about=None,
):
    """Return the checked :class:`QueryBatch` of queries about ``n`` holdout records.

    ``model``: dependence of the records. ``scores``: of the records, an ``(m, n)`` array in [0, 1];
    or ``evaluations`` by bounded metrics. ``n_train``: number of training records behind each
    cross-validated score, by default ``n``. ``training_variance`` and ``training_kurtosis``: of the
    scores of training records. ``secondary``: mask of queries without influence on decisions.
    ``about``: for each query a tuple of its metric, the name of its model, and the submitter, if
    any. Other arguments are fields of the batch. ``n_train``, ``relaxed_to``, ``secondary``,
    ``training_variance`` and ``training_kurtosis`` may be one value for all queries.
    """
    if evaluations is None:
        holdout_scores = _ScoresOnHoldout.from_scores(scores, n, model)
    else:
        holdout_scores = _ScoresOnHoldout.from_evaluations(evaluations, n, model)
    m = len(holdout_scores.shape_indices)
    if m == 0:
        raise ValueError("a batch must hold at least one query, got 0.")
    checked_cv_scores = _checked_cv_scores(cv_scores, m)
    units = sampling_units(model, n)
    if fixed_half_widths is not None:
        fixed_half_widths = check_array(
            "fixed_half_widths", fixed_half_widths, shape=(m,), low=1e-12, high=1.0
        )
    return QueryBatch(
        cv_scores=checked_cv_scores,
        values=holdout_scores.values,
        shapes=holdout_scores.shapes,
        tails=tuple(score_tail(model, n, **shape) for shape in holdout_scores.shapes),
        shape_indices=holdout_scores.shape_indices,
        noise_scales=holdout_scores.sensitivities,
        training_sizes=_array_per_query("n_train", n if n_train is None else n_train, m, low=1.0),
        relaxed_to=_array_per_query(
            "relaxed_to", 0.0 if relaxed_to is None else relaxed_to, m, high=1.0
        ),
        is_secondary=np.full(m, False if secondary is None else secondary, dtype=bool),
        keys=check_keys(keys, m),
        unit_variances=_unit_variances(training_variance, holdout_scores, units, model, n),
        kurtosis=_checked_kurtosis(training_kurtosis, m),
        unit_moments=holdout_scores.unit_moments,
        units=units,
        record_scores=holdout_scores.record_scores if has_record_units(model, n) else None,
        fixed_half_widths=fixed_half_widths,
        ranks=None if ranks is None else check_array("ranks", ranks, shape=(m,)),
        score_inputs=holdout_scores.score_inputs,
        descriptions=_query_descriptions(about, m),
    )


def _checked_cv_scores(cv_scores, m):
    """Return cross-validated scores of ``m`` queries as an array of numbers in [0, 1]."""
    checked_cv_scores = np.atleast_1d(check_array("cv_scores", cv_scores, low=0.0, high=1.0))
    if checked_cv_scores.shape != (m,):
        raise ValueError(
            f"cv_scores must have shape ({m},), one for each query, got {checked_cv_scores.shape}."
        )
    return checked_cv_scores


def _unit_variances(training_variance, holdout_scores, units, model, n):
    """Return the expected variance of a sampling unit's mean score in each query (G15, G18).

    NaN if it is unknown or not used. ``training_variance``: of a training record's score, a number
    or one for each query, or None. ``holdout_scores``: _ScoresOnHoldout. ``units``: sampling units
    of the holdout. ``model``: dependence of the ``n`` holdout records.
    """
    shape_indices = holdout_scores.shape_indices
    if training_variance is None:
        return np.full(len(shape_indices), np.nan)
    record_variances = np.asarray(training_variance, dtype=float)
    _array_per_query(  # raises for invalid values
        "training_variance", np.nan_to_num(record_variances), len(shape_indices), high=0.25
    )
    is_binary = np.array([shape["binary"] for shape in holdout_scores.shapes])
    is_mean = np.array([shape["kind"] == "mean" for shape in holdout_scores.shapes])
    unit_variances = unit_variance(record_variances, units, model, n, is_binary[shape_indices])
    return np.where(is_mean[shape_indices], unit_variances, np.nan)


def _checked_kurtosis(training_kurtosis, m):
    """Return the kurtosis of training records' scores in each query, NaN if unknown.

    ``training_kurtosis``: a number or one for each of the ``m`` queries, or None.
    """
    if training_kurtosis is None:
        return np.full(m, np.nan)
    kurtosis = np.asarray(training_kurtosis, dtype=float)
    # Raises for invalid values.
    _array_per_query("training_kurtosis", np.nan_to_num(kurtosis, nan=1.0), m, low=1.0)
    return np.full(m, kurtosis)


def sampling_units(model, n):
    """Return the :class:`UnitWeights` of a holdout's sampling units: records, dates or groups.

    ``model``: dependence of its ``n`` records. Dependent records are one group.
    """
    scheme = model.sampling_scheme(n)
    if scheme.calendar is not None:
        return dataclasses.replace(UnitWeights.from_records(scheme.n_units), sensitivity=1.0 / n)
    if scheme.has_independent_records:
        return UnitWeights.from_records(n)
    _, _, group_sizes = order_by_group(model, n)
    return UnitWeights.from_sizes(group_sizes)


def has_record_units(model: Any, n: int) -> bool:
    """Return whether the sampling units are the records, independent and with equal weights."""
    scheme = model.sampling_scheme(n)
    is_unweighted = scheme.calendar is None and scheme.weights is None
    return is_unweighted and scheme.has_independent_records


def unit_variance(record_variance, units, model, n, is_binary):
    """Return the expected variance of a sampling unit's mean score; NaN if unknown or not used.

    Parameters
    ----------
    record_variance : float or ndarray of shape (m,)
        Variance of a training record's score, in squared units of [0, 1]; NaN if unknown.
    units : UnitWeights
        Sampling units of the holdout, from :func:`sampling_units`.
    model : CorrelationModel
        Dependence of the holdout records.
    n : int
        Number of holdout records.
    is_binary : bool or ndarray of shape (m,)
        Whether a record's scores are 0 or 1. Their variance is only used if units are dates with
        several records.
    """
    scheme = model.sampling_scheme(n)
    has_dates_of_several_records = scheme.calendar is not None and units.n_units != n
    has_equal_units = scheme.has_independent_records or scheme.calendar is not None
    is_used = np.full(np.shape(is_binary), has_equal_units or scheme.has_independent_units)
    if not has_dates_of_several_records:
        is_used &= ~np.asarray(is_binary)
    # Scores in a group are assumed to have correlation 1/4: for sharp limits, not as a bound.
    size_weighted_mean_size = 1 if has_equal_units else n * units.sum_of_squares
    return np.where(is_used, record_variance * (0.25 + 0.75 / size_weighted_mean_size), np.nan)


def _query_descriptions(about, m):
    """Return the :class:`QueryDescription` of each of ``m`` queries.

    ``about``: for each query a tuple of its metric, the name of its model, and its submitter, if
    any. None: all fields of the descriptions are None.
    """
    if about is None:
        return [QueryDescription()] * m
    key_and_scale_by_metric_id = {}
    descriptions = []
    for metric, model_name, *submitters in about:
        if id(metric) not in key_and_scale_by_metric_id:
            scale = (metric.display_name, float(metric.lower), float(metric.upper))
            if metric.open_ends:
                scale += (metric.open_ends,)
            key_and_scale_by_metric_id[id(metric)] = metric_key(metric), scale
        recorded_metric, scale = key_and_scale_by_metric_id[id(metric)]
        submitter = submitters[0] if submitters else None
        descriptions.append(QueryDescription(recorded_metric, scale, model_name, submitter))
    return descriptions


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class _ScoresOnHoldout:
    """Holdout scores of a batch; fields as in :class:`QueryBatch`."""

    values: np.ndarray = dataclasses.field(repr=False)
    unit_moments: np.ndarray = dataclasses.field(repr=False)
    record_scores: list = dataclasses.field(repr=False)
    sensitivities: np.ndarray
    shapes: tuple
    shape_indices: np.ndarray
    score_inputs: list = dataclasses.field(repr=False)

    @classmethod
    def from_scores(cls, scores, n, model):
        """Return the holdout scores of m queries that are means over records.

        ``scores``: of the records, an ``(m, n)`` array in [0, 1]. ``model``: dependence of the
        ``n`` records.
        """
        values, unit_moments = per_record_moments(scores, n, model)
        # The type of an array is public: integers in [0, 1] can only be 0 or 1.
        is_binary = np.asarray(scores).dtype.kind in {"b", "u", "i"}
        return cls(
            values=values,
            unit_moments=unit_moments,
            record_scores=list(np.reshape(np.asarray(scores), (values.size, n))),
            sensitivities=np.full(values.size, _mean_sensitivity(model, n)),
            shapes=({"kind": "mean", "binary": is_binary},),
            shape_indices=np.zeros(values.size, dtype=int),
            score_inputs=[None] * values.size,
        )

    @classmethod
    def from_evaluations(cls, evaluations, n, model):
        """Return the holdout scores of queries.

        ``evaluations``: an Evaluation of each query. ``model``: dependence of the ``n`` records.
        """
        mean_sensitivity = _mean_sensitivity(model, n)
        index_by_shape: dict[tuple[Any, ...], int] = {}
        shape_indices = []
        values = []
        unit_moments = []
        sensitivities = []
        score_inputs = []
        for evaluation in evaluations:
            _check_evaluation(evaluation, n, model)
            if evaluation.per_record is not None:
                (value,), (moments,) = per_record_moments(evaluation.per_record, n, model)
                sensitivity = mean_sensitivity
            else:
                value = float(evaluation.value)
                moments = np.full(2, value)
                sensitivity = max(1.0, float(evaluation.sensitivity) * n)
            values.append(value)
            unit_moments.append(moments)
            sensitivities.append(sensitivity)
            shape = tuple(sorted(vars(evaluation.shape).items()))
            shape_indices.append(index_by_shape.setdefault(shape, len(index_by_shape)))
            score_inputs.append(evaluation.score_inputs)
        return cls(
            values=np.array(values),
            unit_moments=np.array(unit_moments),
            record_scores=[evaluation.per_record for evaluation in evaluations],
            sensitivities=np.array(sensitivities),
            shapes=tuple(map(dict, index_by_shape)),
            shape_indices=np.array(shape_indices, dtype=int),
            score_inputs=score_inputs,
        )


def _mean_sensitivity(model, n):
    """Return the largest change of a mean over records by one record, in units of ``1 / n``.

    The result is 1 for records in time order. ``model``: dependence of the ``n`` records.
    """
    scheme = model.sampling_scheme(n)
    weights = scheme.weights if scheme.calendar is None else None
    return 1.0 if weights is None else max(1.0, n * float(weights.max()))


def _check_evaluation(evaluation, n, model):
    """Raise TypeError or ValueError if an evaluation cannot be a query.

    ``model``: dependence of the ``n`` records.
    """
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
        raise ValueError("an evaluation must have a value in [0, 1] and a sensitivity in (0, 1].")


def _is_approximate_of_nodes_or_dates(evaluation, scheme):
    """Return whether an evaluation is one of nodes or dates without a proven bound.

    For dates it must be one without an interval. ``scheme``: SamplingScheme of the holdout.
    """
    if evaluation.shape.kind != "approximate":
        return False
    if scheme.calendar is not None:
        return evaluation.shape.family == "none"
    return scheme.is_conditional and scheme.has_independent_records


def per_record_moments(scores, n, model):
    """Return means of the rows of scores, shape (m,), and unit moments, shape (m, 2).

    Unit moments are means and mean squares of the scores of dates or groups (G15, G18). They are
    those of records' scores for models without independent groups and, except for dates, for
    boolean and integer scores. ``scores``: of the records, an ``(m, n)`` array in [0, 1].
    ``model``: dependence of the ``n`` records, with their weights, if any.
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
    order, starts, sizes = order_by_group(model, n)
    unit_scores = np.add.reduceat(array[:, order], starts, axis=1) / sizes
    # D of theory G18 weighs groups by their squared sizes.
    squared_size_weights = sizes**2 / np.sum(sizes**2)
    unit_means = unit_scores @ squared_size_weights
    unit_squares = unit_scores**2 @ squared_size_weights
    return means, np.column_stack([unit_means, unit_squares])


def _checked_score_array(scores, n):
    """Return scores as an ``(m, n)`` array, after checking that they are in [0, 1]."""
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
        n_wrong = int(np.count_nonzero(~((array >= 0.0) & (array <= 1.0))))
        raise ValueError(
            f"per_record_scores must be finite and in [0, 1], {n_wrong} of {array.size} are not. "
            "Rescale: (scores - lower) / (upper - lower). Give a record on which a model fails 0, "
            "the worst score."
        )
    return array


def order_by_group(model, n):
    """Return the positions of records in the order of groups, and each group's start and size.

    Starts (int) are indices into these positions. Sizes (float) are numbers of records. ``model``:
    dependence of the ``n`` records, whose components are the groups.
    """
    _, group_codes = np.unique(model.components(n), return_inverse=True)
    sizes = np.bincount(group_codes).astype(float)
    starts = (np.cumsum(sizes) - sizes).astype(int)
    return np.argsort(group_codes, kind="stable"), starts, sizes


def _array_per_query(name, values, m, *, low=0.0, high=math.inf):
    """Return an array of shape (m,) from a number or an array of numbers, one for each query.

    ``name``: of the parameter, for errors. ``low``, ``high``: ends of the allowed range. Raise
    ValueError or TypeError for other values.
    """
    array = check_array(name, values, low=low, high=high)
    if array.shape not in ((), (m,)):
        raise ValueError(
            f"{name} must be a number or have shape ({m},), one for each query, got shape "
            f"{array.shape}."
        )
    return np.full(m, array)


def metric_key(metric):
    """Return the text that identifies a metric in a ledger."""
    return f"{metric.name} {query_key(repr(metric))[:16]}"


def check_cv_score(metric, value):
    """Return a cross-validated score, converted from the units of ``metric`` to [0, 1].

    Raise TypeError if ``value`` is not a number, and ValueError if it is outside the range. A score
    below a range that does not begin at 0 counts as the worst one.
    """
    score = check_real("cv_score", value)
    lowest_score = metric.lower if metric.lower == 0.0 else -math.inf
    tolerance = 1e-9 * (metric.upper - metric.lower)
    if not lowest_score - tolerance <= score <= metric.upper + tolerance:
        raise ValueError(
            f"cv_score must be in [{metric.lower:g}, {metric.upper:g}], the range of "
            f"{metric.name}, got cv_score={value!r}."
        )
    return metric.to_unit(score)


def check_keys(keys, count=None):
    """Return query keys as a list of strings or ``None``, from a list or a single key.

    ``count``: required number of keys, None for any number. If ``keys`` is None, the list has
    ``count`` times None, and is empty without ``count``. Raise ValueError for another number of
    keys, and for other objects.
    """
    if keys is None:
        return [None] * (count or 0)
    is_single_key = not np.iterable(keys) or isinstance(keys, str | bytes)
    key_list = [keys] if is_single_key else list(keys)
    if count is not None and len(key_list) != count:
        raise ValueError(f"keys must hold one key for each query ({count}), got {len(key_list)}.")
    for key in key_list:
        if not _is_key(key):
            raise ValueError(
                f"keys must be None or strings of 1 to {_MAX_KEY_LENGTH} characters, got "
                f"{key!r:.60}."
            )
    return key_list


def _is_key(key):
    """Return whether an object is None or a string that can be a query key."""
    return key is None or (isinstance(key, str) and 0 < len(key) <= _MAX_KEY_LENGTH)


def check_data(X, y):
    """Return the number of records; raise TypeError or ValueError if they cannot be a holdout."""
    if y is None:
        raise ValueError("y must hold a target for each record, got y=None.")
    for name, data in (("X", X), ("y", y)):
        has_length = hasattr(data, "shape") or hasattr(data, "__len__")
        if isinstance(data, str | bytes | dict) or not has_length:
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
    """Return a deep copy of data; NumPy arrays, and those of sparse matrices, are read-only."""
    if hasattr(X, "__array_namespace__") and not isinstance(X, np.ndarray):
        return copy_data(X)
    may_hold_objects = getattr(getattr(X, "dtype", None), "hasobject", True)
    if may_hold_objects and not sp.issparse(X):
        X = X if hasattr(X, "shape") else list(X)
        try:
            frozen = pickle.loads(pickle.dumps(X, protocol=5))
        except Exception:  # objects of a class that pickle cannot name
            frozen = copy.deepcopy(X)
    else:
        frozen = X.copy()
    attributes = getattr(frozen, "__dict__", {})  # of a sparse matrix; coordinates are a tuple
    for value in (frozen, *attributes.values(), *attributes.get("coords", ())):
        if isinstance(value, np.ndarray):
            value.setflags(write=False)
    return frozen


def described_targets(y: Any) -> dict[str, Any] | None:
    """Return classes and counts of *training* targets, or their range, for a ledger.

    The keys are "classes" and "counts"; or "low" and "high" for floats and for more than 1,000
    different integers. None for several outputs, without targets, for floats of which none is
    finite, and for more than 1,000 other classes.
    """
    y = as_labels(y)
    if y.ndim != 1 or not len(y):
        return None
    if y.dtype.kind in "fc":
        finite_targets = y[np.isfinite(y)].astype(float)
        if not finite_targets.size:
            return None
        return {"low": finite_targets.min(), "high": finite_targets.max()}
    classes, counts = np.unique(y, return_counts=True)
    if len(classes) > _MAX_CLASSES:
        are_numbers = y.dtype.kind in "iu"
        return {"low": float(y.min()), "high": float(y.max())} if are_numbers else None
    return {"classes": classes.tolist(), "counts": counts.tolist()}
