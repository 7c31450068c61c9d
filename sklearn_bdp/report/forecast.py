"""Forecast of a final report from training records: the same rows, before the holdout is closed.

A fold of the training set replaces the holdout. Models that are fitted on the other folds are
scored on as many of its records, repeated if necessary. Rows are computed as in a report, at the
failure probabilities that a report would have now. No holdout record is read.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from sklearn_bdp.ledger.ledger import SystemNote
from sklearn_bdp.release.batch_context import check_open, next_code_length
from sklearn_bdp.report.plan import (
    Plan,
    make_report_plan,
    models_of_fold,
    training_folds,
    with_estimated_moments,
)
from sklearn_bdp.report.rows import RowEstimator, row_log_alphas
from sklearn_bdp.utils.sklearn_compat import safe_indexing

_MAX_FOLDS = 3
_BASELINE = "baseline"  # a model's own name is longer: it holds its parameters


class RowForecast(NamedTuple):
    """Expected score and half-widths of one row of a final report, in score units."""

    model: str  # name of a model, or of a comparison, such as "b minus a"
    metric: str
    subgroup: str  # empty for all records
    value: float  # on training records that the model was not fitted on; NaN if undefined
    proven: float | None  # half-width of the proven interval, None without one
    approximate: float | None  # half-width of the approximate interval, None without one
    method: str  # method of the proven interval, or of the approximate one

    def __str__(self) -> str:
        subgroup = f", {self.subgroup}" if self.subgroup else ""
        half_widths = [
            f"±{half_width:.3g} ({kind})"
            for kind, half_width in (("proven", self.proven), ("approximate", self.approximate))
            if half_width is not None
        ]
        widths = ", ".join(half_widths) or "no interval"
        return f"{self.metric} of {self.model}{subgroup}: {widths}"


class _TrainingSample:
    """Training records that replace the holdout records, with the holdout's dependence."""

    def __init__(self, holdout: Any, X: Any, y: Any) -> None:
        self.X = X
        self.y = y
        self.n = holdout.n
        self.dependence = holdout.dependence
        self.account = holdout.account
        self.context = holdout.context
        self.notes = holdout.notes

    def check_model(self, model: Any) -> None:
        """Do nothing: every model is accepted."""


def forecast_report(
    holdout: Any,
    estimators: Any,
    cv_scores: Any,
    *,
    compare: Any,
    variance: float | None = None,
    **options: Any,
) -> tuple[RowForecast, ...]:
    """Return the expected rows of :func:`~sklearn_bdp.report.final.report_and_close`.

    Scores and half-widths are medians over up to three training folds that replace the holdout.

    Parameters
    ----------
    holdout : ReusableHoldout
        The holdout. Its records are not read.
    estimators : mapping of str to estimator
        Models of the report by name; they are fitted again on training folds.
    cv_scores : float, list of float or None
        Cross-validated score of each model in score units, or one for all; None or NaN if unknown.
    compare : object
        Baseline, as in the report.
    variance : float, optional
        Variance over records of the first row's cross-validated score, for scores in [0, 1].
    **options : object
        Further parameters of the report.

    Returns
    -------
    tuple of RowForecast
        In the order of the report.

    Raises
    ------
    TypeError, ValueError
        If the training records of a search are not known in this process or too few for folds, a
        baseline is given by predictions of holdout records, a model cannot be fitted on the first
        training fold, a row cannot be reported, or rows would pass through noise.
    HoldoutClosedError
        If a final report closed the holdout.
    """
    training_data = _forecast_data(holdout)
    models = dict(estimators)
    is_separate_baseline = compare is not None and not isinstance(compare, str | bool)
    if is_separate_baseline:
        _check_baseline(compare)
        models[_BASELINE] = compare
    forecasts = []
    for fold in training_folds(training_data, models)[:_MAX_FOLDS]:
        fitted_models = models_of_fold(training_data, models, fold.train)
        if fitted_models is None:
            break
        baseline = fitted_models.pop(_BASELINE) if is_separate_baseline else compare
        sample = _sample_of_fold(holdout, training_data, fold)
        plan = make_report_plan(
            sample, fitted_models, cv_scores, compare=baseline, training=None, **options
        )
        plan = with_estimated_moments(plan, None, variance, sample)
        forecasts.append(_forecast_rows(plan, sample))
    if not forecasts:
        raise ValueError(
            "A model cannot be fitted again on a fold of the training set, so that the rows of its "
            "report cannot be forecast. The holdout was not queried."
        )
    return tuple(map(_median_forecast, zip(*forecasts, strict=True)))


def _forecast_data(holdout):
    """Return the :class:`CVData` of a search; raise ValueError without it.

    Raise ValueError also if the report would pass through noise.
    """
    training_data = holdout.context.cv_data
    if training_data is None:
        raise ValueError(
            "The rows of a report are forecast from the training records of a search, which this "
            "process does not know. Call fit() first. The holdout was not queried."
        )
    if holdout.account.settings.is_private:
        raise ValueError(
            "The rows of a report through noise are not forecast. preview() without scoring=, "
            "compare= and by= shows the width of its first row. The holdout was not queried."
        )
    return training_data


def _check_baseline(compare):
    """Raise ValueError unless the baseline ``compare`` has the method ``fit`` or ``predict``."""
    if not (hasattr(compare, "fit") or hasattr(compare, "predict")):
        raise ValueError(
            "compare must be an estimator in a preview: predictions of holdout records say "
            "nothing about training records. The holdout was not queried."
        )


def _median_forecast(forecasts):
    """Return the :class:`RowForecast` with the medians of one row's forecasts on several folds.

    A half-width is None if it is None on at least half of the folds. The score is NaN if it is NaN
    on one.
    """
    first = forecasts[0]
    median_by_field = {}
    for field in ("value", "proven", "approximate"):
        numbers = [getattr(forecast, field) for forecast in forecasts]
        present_numbers = [number for number in numbers if number is not None]
        has_median = 2 * len(present_numbers) > len(numbers)
        median_by_field[field] = float(np.median(present_numbers)) if has_median else None
    return RowForecast(
        model=first.model,
        metric=first.metric,
        subgroup=first.subgroup,
        value=median_by_field["value"],
        proven=median_by_field["proven"],
        approximate=median_by_field["approximate"],
        method=first.method,
    )


def _sample_of_fold(holdout, training_data, fold):
    """Return test records of a fold as :class:`_TrainingSample`, as many as holdout records.

    ``training_data``: :class:`CVData`. ``fold``: :class:`TrainingFold`.
    """
    sampled_rows = _rows_like_holdout(holdout, training_data.groups, fold)
    return _TrainingSample(
        holdout,
        safe_indexing(training_data.X, sampled_rows),
        safe_indexing(training_data.y, sampled_rows),
    )


def _rows_like_holdout(holdout, groups, fold):
    """Return positions of a fold's test records in the training data, one per holdout record.

    If groups are independent and known, each holdout group is replaced by the records of a test
    group, cut or repeated to its size. In time, positions ascend, and begin again if the fold is
    too short. ``groups``: group of each training record that the folds divide, or None.
    ``fold``: a :class:`TrainingFold`.
    """
    scheme = holdout.dependence.sampling_scheme(holdout.n)
    if scheme.in_time_order or scheme.calendar is not None:
        return np.resize(np.sort(fold.test), holdout.n)
    rng = np.random.default_rng(0)
    has_groups = scheme.has_independent_units and not scheme.has_independent_records
    if not has_groups or groups is None:
        return np.resize(rng.permutation(fold.test), holdout.n)
    test_groups = np.asarray(groups)[fold.test_in_rows]
    rows_by_group = [fold.test[test_groups == group] for group in np.unique(test_groups)]
    group_sizes = np.array([len(rows) for rows in rows_by_group])
    _, unit_codes = np.unique(holdout.dependence.components(holdout.n), return_inverse=True)
    positions_by_unit = np.argsort(unit_codes, kind="stable")
    unit_sizes = np.bincount(unit_codes)
    sampled_rows = np.empty(holdout.n, dtype=int)
    for unit_positions in np.split(positions_by_unit, np.cumsum(unit_sizes)[:-1]):
        # Records that are drawn twice would make a group too uniform.
        is_large_enough = group_sizes >= min(len(unit_positions), group_sizes.max())
        smallest_size = group_sizes[is_large_enough].min()
        group_index = rng.choice(np.flatnonzero(group_sizes == smallest_size))
        sampled_rows[unit_positions] = np.resize(rows_by_group[group_index], len(unit_positions))
    return sampled_rows


def _forecast_rows(plan: Plan, sample: _TrainingSample) -> tuple[RowForecast, ...]:
    """Return a :class:`RowForecast` per statement, computed from a training sample.

    Failure probabilities are those of a report made now. Raise HoldoutClosedError if a final report
    closed the holdout.
    """
    settings = sample.account.settings
    with sample.account.read_transaction() as ledger_state:
        check_open(ledger_state)
        totals = ledger_state.totals
        n_attempts = len(ledger_state.notes(SystemNote.CLOSING))
    code_length, _ = next_code_length(totals, settings, is_report=True, n_attempts=n_attempts)
    log_alphas = row_log_alphas(
        plan, totals, settings, code_length=code_length, n_attempts=n_attempts
    )
    estimator = RowEstimator(plan, sample, seed=0)
    forecasts = []
    for statement in plan.statements:
        row = estimator.row(statement, log_alphas)
        forecasts.append(
            RowForecast(
                model=row["model"],
                metric=row["metric"],
                subgroup=row["subgroup"],
                value=math.nan if row["value"] is None else row["value"],
                proven=_half_width(row["proven"]),
                approximate=_half_width(row["approximate"]),
                method=row["method"],
            )
        )
    return tuple(forecasts)


def _half_width(ends):
    """Return half the length of an interval with the ends (lower, upper); None for None."""
    return None if ends is None else 0.5 * (ends[1] - ends[0])
