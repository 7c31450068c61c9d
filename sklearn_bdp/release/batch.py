"""Answers to one batch: replies of the mechanism, code lengths, and intervals.

No file is accessed. Records and answers do not contain raw holdout scores.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from sklearn_bdp._typing import Array
from sklearn_bdp.accounting.noise_calibration import auto_threshold
from sklearn_bdp.exceptions import BudgetExhaustedError
from sklearn_bdp.intervals.bounds import relative_deviation
from sklearn_bdp.intervals.concentration import ModelTail
from sklearn_bdp.ledger.batch_record import BatchRecord, LedgerTotals
from sklearn_bdp.ledger.records import Answers, stored_shape
from sklearn_bdp.release.batch_context import BatchContext, cell_width_policy, next_code_length
from sklearn_bdp.release.class_proportions import release_class_proportions
from sklearn_bdp.release.denominators import release_denominator_floors
from sklearn_bdp.release.graded_release import BatchRelease, Comparison, GradedRelease
from sklearn_bdp.release.query_batch import QueryBatch
from sklearn_bdp.release.variance_queries import (
    LEADER_RANK_LENGTH,
    SecondMoments,
    make_variance_plan,
    release_second_moments,
)


def answer_batch(
    batch: QueryBatch, context: BatchContext, *, n_proven: int | None = None
) -> tuple[BatchRecord | None, Any]:
    """Answer a batch of new queries; return its :class:`BatchRecord` and :class:`Answers`.

    They are ``None`` and an empty list if no query is answered. Queries after the end of the budget
    have no answers. ``n_proven``: number of proven intervals of a final report, if the batch
    contains its queries; None for any other batch.
    """
    settings = context.settings
    n_earlier_pairs = len(context.code.pairs)
    is_report = n_proven is not None
    earlier_noise_ratio = _earlier_noise_ratio(context)  # before the first query of the mechanism
    batch, context = release_class_proportions(batch, context)
    if batch is None:
        return None, []
    batch, context, denominator_cells = release_denominator_floors(batch, context)
    batch, batch_noise_ratio = scale_noise(batch, context)
    shared_code_length, theorem = next_code_length(
        context.totals_before, settings, is_report=is_report, n_attempts=context.n_attempts
    )
    rank_length = LEADER_RANK_LENGTH if n_proven is None else math.log(n_proven)
    log_failure = math.log(settings.sampling_failure) - shared_code_length
    variance_plan = make_variance_plan(batch, context, log_failure - rank_length)
    if is_report:
        release = _compare_report_queries(batch, context, rank_length)
    else:
        policy = cell_width_policy(
            context.totals_before, settings, context.dependence, shared_code_length
        )
        release = _compare_queries(batch, context, policy)
    if not release.answered.any():
        return None, []
    moments = release_second_moments(variance_plan, batch, release, context)
    limits = _interval_limits(
        batch, release, variance_plan, moments, log_failure - release.rank_lengths
    )
    charge = _BatchCharge(
        code_length=shared_code_length,
        theorem=theorem,
        is_report=is_report,
        noise_ratio=max(earlier_noise_ratio, batch_noise_ratio),
        code_state=context.code.state(n_omitted_pairs=n_earlier_pairs),
        denominator_cells=denominator_cells,
    )
    record = _batch_record(batch, context, release, moments, limits, charge)
    return record, _answers(batch, release, limits, record)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _BatchCharge:
    """Code length, theorem, noise ratio and other inputs of a batch's record."""

    code_length: float  # of each query without its rank, in nats
    theorem: str  # that bounds the information spent: "code" or "leakage"
    is_report: bool  # whether the batch is a final report
    noise_ratio: float  # factor of the DP level that the mechanism reports
    code_state: dict[str, Any]  # of the predictive code, with the pairs of this batch
    denominator_cells: list[list[int | None]]  # position and cell of each query of a denominator


def _answers(
    batch: QueryBatch, release: BatchRelease, limits: tuple[Array, Array], record: BatchRecord
) -> Answers:
    """Return the :class:`Answers` to the answered queries, which are the first of a batch."""
    n_answered = int(np.count_nonzero(release.answered))
    lower, upper = limits
    descriptions = batch.descriptions[:n_answered]
    code_lengths = record.code_length + release.rank_lengths
    columns = {
        "key": batch.keys[:n_answered],
        "metric": [description.metric for description in descriptions],
        "model": [description.model for description in descriptions],
        "submitter": [description.submitter for description in descriptions],
        "corrected": release.above[:n_answered],
        "cv_score": batch.cv_scores[:n_answered],
        "code_length": code_lengths[:n_answered],
        "value": release.values[:n_answered],
        "lower": lower[:n_answered],
        "upper": upper[:n_answered],
    }
    return Answers(
        columns,
        batch=record.totals.number,
        time=record.totals.time,
        scales={
            description.metric: description.scale
            for description in descriptions
            if description.scale
        },
        shapes=batch.shapes,
        shape_of=batch.shape_indices[:n_answered],
    )


def _interval_limits(
    batch: QueryBatch,
    release: BatchRelease,
    variance_plan: Any,
    moments: SecondMoments,
    log_failures: Array,
) -> tuple[Array, Array]:
    """Return lower and upper ends of the intervals of all queries, two arrays of shape (m,).

    ``log_failures``: log of the failure probability of both ends together, for each query. With a
    plan of variance queries, each end is the tighter one of two limits, without and with the
    released limits of variation.
    """
    cell_lower = np.fmax(release.lower, 0.0)  # NaN: not answered
    cell_upper = np.fmin(release.upper, 1.0)
    if variance_plan is None:
        return batch.limits(cell_lower, cell_upper, log_failures)
    lower, upper = batch.limits(
        cell_lower, cell_upper, log_failures + variance_plan.log_alpha_fractions[0]
    )
    lower_by_variance, upper_by_variance = variance_plan.limits(
        cell_lower, cell_upper, log_failures - math.log(2.0), moments.limits
    )
    return np.maximum(lower, lower_by_variance), np.minimum(upper, upper_by_variance)


def _batch_record(
    batch: QueryBatch,
    context: BatchContext,
    release: BatchRelease,
    moments: SecondMoments,
    limits: tuple[Array, Array],
    charge: _BatchCharge,
) -> BatchRecord:
    """Return the record of an answered batch, with the totals after it.

    ``limits``: lower and upper ends of the intervals of all queries.
    """
    spending = context.settings.spending
    totals = _totals_after(batch, context, release, moments, limits, charge)
    if charge.is_report:
        failure_weight = spending.report_weight(context.totals_before.number)
    else:
        failure_weight = spending.batch_weight(totals.number)
    cells = _cells(batch, release, moments.cells, theorem=charge.theorem)
    if charge.denominator_cells:
        cells["denominators"] = charge.denominator_cells
    return BatchRecord(
        totals=totals,
        size=len(batch),
        code_length=charge.code_length,
        code=charge.code_state,
        cells=cells,
        scales={
            description.metric: list(description.scale)
            for description in batch.descriptions
            if description.scale
        },
        spending={"name": spending.name, "weight": failure_weight},
    )


def _totals_after(
    batch: QueryBatch,
    context: BatchContext,
    release: BatchRelease,
    moments: SecondMoments,
    limits: tuple[Array, Array],
    charge: _BatchCharge,
) -> LedgerTotals:
    """Return the totals of the ledger after an answered batch.

    ``limits``: lower and upper ends of the intervals of all queries.
    """
    before = context.totals_before
    lower, upper = limits
    is_unrelaxed = release.answered & ~release.relaxed
    shape_has_interval = np.array([shape.get("family") != "none" for shape in batch.shapes])
    half_widths = np.maximum(release.values - lower, upper - release.values)
    half_widths = half_widths[is_unrelaxed & shape_has_interval[batch.shape_indices]]
    n_answered = int(np.count_nonzero(release.answered))
    shape_kinds = {shape["kind"] for shape in batch.shapes}
    return LedgerTotals(
        number=before.number + 1,
        time=context.time,
        n_answered=before.n_answered + n_answered,
        n_above=before.n_above + int(release.above.sum()),
        n_rounds=before.n_rounds + release.n_replies_above + moments.n_rejected,
        released=before.released + release.released_nats + moments.released_nats,
        widest=max(before.widest, float(np.max(half_widths, initial=0.0))),
        n_relaxed=before.n_relaxed + n_answered - int(is_unrelaxed.sum()),
        dp_epsilon=_privacy_level(batch, context, charge.noise_ratio),
        seeded=bool(context.seeded or before.seeded),
        closed=charge.is_report,
        shares=before.shares,
        n_floors=before.n_floors,
        n_below_floor=before.n_below_floor,
        has_pairs=before.has_pairs or "pairs" in shape_kinds,
        has_ratios=before.has_ratios or "ratio" in shape_kinds,
        has_approximate=before.has_approximate or "approximate" in shape_kinds,
    )


def _privacy_level(batch: QueryBatch, context: BatchContext, noise_ratio: float) -> float | None:
    """Return the DP level (epsilon) that is spent after a batch; None if no finite one is valid.

    ``noise_ratio``: factor of the level that the mechanism reports.
    """
    is_unbounded = any(shape["kind"] == "approximate" for shape in batch.shapes)
    if context.totals_before.dp_epsilon is None or is_unbounded:
        return None
    epsilon = float(noise_ratio * context.mechanism.dp_epsilon_used(1.0 / context.settings.n))
    return epsilon if math.isfinite(epsilon) else None


def _earlier_noise_ratio(context: BatchContext) -> float:
    """Return the ratio of the DP levels in the ledger totals and of the mechanism, at least 1.

    It is 1 if either level is 0, or not finite.
    """
    reported_epsilon = context.totals_before.dp_epsilon
    spent_epsilon = context.mechanism.dp_epsilon_used(1.0 / context.settings.n)
    if reported_epsilon and spent_epsilon > 0.0 and math.isfinite(spent_epsilon):
        return max(1.0, reported_epsilon / spent_epsilon)
    return 1.0


def scale_noise(batch: QueryBatch, context: BatchContext) -> tuple[QueryBatch, float]:
    """Limit the noise scales of a batch; return it, and the factor by which its DP level rises.

    The noise scales are the field ``noise_scales``. Their limit is the ratio of the worst-case
    standard deviations of the score and of a mean over records, but at least 1. With a budget, the
    batch stays the same, and the factor is 1.
    """
    settings = context.settings
    if settings.budget is not None or (batch.noise_scales == 1.0).all():
        return batch, 1.0
    mean_deviation = ModelTail(context.dependence, settings.n).standard_deviation(0.5)
    deviation_ratio_per_shape = np.array(
        [float(tail.standard_deviation(0.5) / mean_deviation) for tail in batch.tails]
    )
    max_noise_scales = np.maximum(deviation_ratio_per_shape[batch.shape_indices], 1.0)
    noise_scales = np.minimum(batch.noise_scales, max_noise_scales)
    privacy_factor = float(np.max(batch.noise_scales / noise_scales))
    return dataclasses.replace(batch, noise_scales=noise_scales), privacy_factor


def _compare_report_queries(
    batch: QueryBatch, context: BatchContext, rank_length: float
) -> BatchRelease:
    """Return the :class:`BatchRelease` of a final report: all queries, compared at threshold 0.

    No query is answered if the budget does not suffice for all. ``rank_length``: code length that
    each query adds to that of the report, in nats.
    """
    mechanism = context.mechanism
    settings = context.settings
    m = len(batch)
    release = BatchRelease(m)
    noise_margins = np.empty(m)
    # Any public prediction is valid (theory G4).
    far_ends = np.where(batch.cv_scores < 0.5, 1.0, 0.0)
    for position, sensitivity in enumerate(batch.noise_scales):
        one_query = slice(position, position + 1)
        replies = mechanism.answer_run(
            far_ends[one_query] / sensitivity,
            batch.values[one_query] / sensitivity,
            thresholds=np.zeros(1),
        )
        if not replies.answered[0]:
            return BatchRelease(m)
        margin_below, margin_above = settings.noise_margins(
            context.totals_before.n_rounds + release.n_replies_above
        )
        is_above = bool(replies.above[0])
        release.above[position] = is_above
        release.n_replies_above += int(is_above)
        if is_above:
            noise_margins[position] = sensitivity * (margin_above * settings.final_noise_ratio)
            release.values[position] = replies.values[0] * sensitivity
        else:
            noise_margins[position] = sensitivity * margin_below
            release.values[position] = far_ends[position]
    release.values = np.clip(release.values, 0.0, 1.0)
    release.lower = np.maximum(release.values - noise_margins, 0.0)
    release.upper = np.minimum(release.values + noise_margins, 1.0)
    if context.dependence.sampling_scheme(settings.n).weights is None:
        _round_proportions(batch, release, settings.n)  # in place
    release.rank_lengths = np.full(m, rank_length)
    release.answered = np.ones(m, dtype=bool)
    return release


def _round_proportions(batch: QueryBatch, release: BatchRelease, n: int) -> None:
    """Round the cell ends of proportions in ``release`` inward to multiples of 1/n, in place.

    Ends without a multiple of 1/n between them stay the same. ``n``: number of holdout records.
    """
    is_proportion_shape = np.array(
        [shape["kind"] == "mean" and shape["binary"] for shape in batch.shapes]
    )
    whole_lower = np.ceil(n * release.lower - 1e-6) / n
    whole_upper = np.floor(n * release.upper + 1e-6) / n
    has_whole_number = is_proportion_shape[batch.shape_indices] & (whole_lower <= whole_upper)
    release.lower = np.where(has_whole_number, whole_lower, release.lower)
    release.upper = np.where(has_whole_number, whole_upper, release.upper)


def _compare_queries(batch: QueryBatch, context: BatchContext, policy: Any) -> BatchRelease:
    """Compare the queries of a batch with the holdout; return the :class:`BatchRelease`.

    An adaptive calibration compares the primary query with the best prediction or rank first, with
    cell widths by ``policy``; if the batch fixes half-widths, each query once, at its half-width.
    Any other calibration compares each query once, at its threshold.
    """
    settings = context.settings
    graded_release = GradedRelease(
        code=context.code,
        compare=lambda comparison: _compare(batch, context.mechanism, comparison),
        noise_margins=settings.noise_margins,
        n_rounds=context.totals_before.n_rounds,
        cv_scores=batch.cv_scores,
        min_thresholds=batch.relaxed_to,
        noise_scales=batch.noise_scales,
        training_factors=1.0 + settings.n / batch.training_sizes,
        score_deviations_at=batch.deviations_at,
        is_secondary=batch.is_secondary,
        deviation_ratios=_deviation_ratios(batch),
        ranks=batch.ranks,
    )
    fixed_half_widths = batch.fixed_half_widths
    if settings.is_adaptive and fixed_half_widths is None:
        return graded_release.run_leader_first(policy)
    if settings.is_adaptive and fixed_half_widths is not None:
        return graded_release.run_sequential(
            lambda positions, _: (  # thresholds, and a mask of relaxed queries
                fixed_half_widths[positions],
                np.zeros(len(positions), dtype=bool),
            ),
            is_separate=True,
        )
    return graded_release.run_sequential(
        lambda positions, predictions: _thresholds(batch, context, positions, predictions),
        resolution=settings.resolution,
        learns_offset=settings.learns_offset,
    )


def _compare(batch: QueryBatch, mechanism: Any, comparison: Comparison) -> tuple[int, int | None]:
    """Compare queries with the holdout, in order, up to the first corrected one.

    Return the number of compared queries (0 if the budget is spent), and the number of the cell
    that the noisy score of a corrected query falls in (None if no query was corrected).
    """
    # The noise is calibrated for the unit 1/n: the division scales it.
    noise_scales = batch.noise_scales[comparison.positions]
    replies = mechanism.answer_run(
        comparison.predictions / noise_scales,
        batch.values[comparison.positions] / noise_scales,
        thresholds=comparison.thresholds / noise_scales,
    )
    n_compared = int(np.count_nonzero(replies.answered))
    if n_compared == 0 or not replies.above[n_compared - 1]:
        return n_compared, None
    noisy_value = float(replies.values[n_compared - 1] * noise_scales[n_compared - 1])
    return n_compared, comparison.cells(n_compared - 1).cell_of(min(1.0, noisy_value))


def _thresholds(
    batch: QueryBatch, context: BatchContext, positions: Array, predictions: Array
) -> tuple[Array, Array]:
    """Return the thresholds of some queries, and a mask of those with a relaxed threshold.

    ``positions``: of these queries in the batch. ``predictions``: of their scores. With a fixed
    threshold, none is relaxed.
    """
    settings = context.settings
    if settings.threshold is not None:
        fixed_thresholds = np.full(predictions.shape, settings.threshold)
        return fixed_thresholds, np.zeros(predictions.shape, dtype=bool)
    auto_thresholds = auto_threshold(
        predictions, settings.n_effective, batch.training_sizes[positions]
    )
    mean_deviations = ModelTail(context.dependence, settings.n).standard_deviation(predictions)
    auto_thresholds *= batch.deviations_at(positions, predictions) / mean_deviations
    min_thresholds = batch.relaxed_to[positions]
    return np.maximum(auto_thresholds, min_thresholds), min_thresholds > auto_thresholds


def _deviation_ratios(batch: QueryBatch) -> Array:
    """Return ratios of expected to worst-case standard deviations of scores, shape (m,).

    They are at most 1, and 1 if the expected variance is unknown or not used.
    """
    has_variance = np.isfinite(batch.unit_variances)
    ratios = np.ones(len(batch))
    if has_variance.any():
        positions = np.flatnonzero(has_variance)
        worst_deviations = batch.deviations_at(positions, batch.cv_scores[positions])
        ratios[positions] = relative_deviation(
            worst_deviations**2 / batch.units.sum_of_squares,
            batch.unit_variances[positions],
            batch.training_sizes[positions],
        )
    return ratios


def _cells(batch, release, variance_cells, *, theorem):
    """Return the released cells and the public inputs of a batch by their names in the ledger.

    Cells are intervals of scores. An input that is the same for all queries is one value instead of
    a list, except for the variances. ``variance_cells``: pairs of the position of a query whose
    variance was queried and the number of the confirmed limit, or None; None without a plan of such
    queries. ``theorem``: "code" or "leakage".
    """
    public_inputs = {
        "training_sizes": batch.training_sizes,
        "relaxed_to": batch.relaxed_to,
        "secondary": batch.is_secondary,
        "sensitivities": batch.noise_scales,
        "own_cells": batch.fixed_half_widths,
        "ranks": batch.ranks,
        "shape_of": batch.shape_indices,
    }
    cells = {
        "route": theorem,
        "first": release.first_pass_cells,
        "fine": release.refined_cells,
        "shapes": [stored_shape(shape) for shape in batch.shapes],
    }
    for name, values in public_inputs.items():
        if values is None:
            continue
        values_of_queries = values.tolist()
        has_one_value = len(set(values_of_queries)) == 1
        cells[name] = values_of_queries[0] if has_one_value else values_of_queries
    if variance_cells is not None:
        cells["squares"] = variance_cells
        cells["variances"] = [
            None if math.isnan(variance) else variance for variance in batch.unit_variances.tolist()
        ]
    return cells


def exhausted_error(settings, totals, *, n_answered=0, n_unanswered):
    """Return the BudgetExhaustedError for a batch that the budget does not suffice for.

    ``settings``: Calibration. ``totals``: of the ledger. ``n_answered``, ``n_unanswered``: numbers
    of new queries of the batch with and without an answer.
    """
    verb = "was" if n_answered == 1 else "were"
    return BudgetExhaustedError(
        f"budget={settings.budget} is used up. Answered in all: {totals.n_answered}, corrected by "
        f"the holdout: {totals.n_above}. Of this batch, {n_answered} {verb} answered and "
        f"{n_unanswered} not. Recorded answers are in history() and remain free. Set "
        "on_exhausted='nan' or 'cv' to continue without the holdout. Only new records add budget."
    )
