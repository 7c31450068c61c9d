"""Answers of one batch: replies of the mechanism, their cost, and the intervals.

A function of the batch, the earlier spending and the mechanism, without access to files. Raw
holdout values are input, are passed to the mechanism, and are not contained in any output.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from sklearn_bdp.accounting.noise_calibration import auto_threshold
from sklearn_bdp.exceptions import BudgetExhaustedError
from sklearn_bdp.intervals.concentration import ModelTail
from sklearn_bdp.ledger.batch_record import BatchRecord, LedgerTotals
from sklearn_bdp.ledger.records import Answers
from sklearn_bdp.release.batch_context import cell_width_policy, next_code_length
from sklearn_bdp.release.class_proportions import release_class_proportions
from sklearn_bdp.release.denominators import release_denominator_floors
from sklearn_bdp.release.graded_release import Outcome, Race
from sklearn_bdp.release.variance_queries import (
    LEADER_RANK_LENGTH,
    make_variance_plan,
    relative_deviation,
    release_second_moments,
)


def answer_batch(batch, context, *, n_statements=None):
    """Answer a batch of new queries.

    ``n_statements``: number of statements in a final report, which this batch contains. Its queries
    are answered at threshold 0, and their values need no code: no later query depends on them.
    Therefore the report takes the entire remaining weight, in equal parts for its statements, and
    pre-sampling half-widths are the noise margins alone (theory G16).

    Returns the record of the batch and the :class:`Answers` to its first queries; ``None`` and an
    empty list if the budget was used up before.
    """
    settings = context.settings
    n_pairs = len(context.code.pairs)
    closes = n_statements is not None
    batch, context = release_class_proportions(batch, context)
    if batch is None:
        return None, []
    batch, context, denominator_cells = release_denominator_floors(batch, context)
    batch, noise_ratio = scale_noise(batch, context)
    length, theorem = next_code_length(
        context.last, settings, report=closes, n_attempts=context.n_attempts
    )
    rank_length = math.log(n_statements) if closes else LEADER_RANK_LENGTH
    log_failure = math.log(settings.sampling_failure) - length
    plan = make_variance_plan(batch, context, log_failure - rank_length)
    if closes:
        outcome = _read_all(batch, context, rank_length)
    else:
        outcome = _run_adaptive(
            batch, context, cell_width_policy(context.last, settings, context.model, length)
        )
    n_answered = int(np.count_nonzero(outcome.answered))
    if n_answered == 0:
        return None, []
    moments = release_second_moments(plan, batch, outcome, context)
    code_lengths = length + outcome.rank_lengths
    lower, upper = _interval_limits(
        batch, outcome, plan, moments, log_failure - outcome.rank_lengths
    )
    record = _batch_record(
        batch,
        context,
        outcome,
        moments,
        limits=(lower[:n_answered], upper[:n_answered]),
        length=length,
        theorem=theorem,
        closes=closes,
        noise_ratio=noise_ratio,
        code_state=context.code.state(after=n_pairs),
    )
    if denominator_cells:
        record = dataclasses.replace(
            record, cells=record.cells | {"denominators": denominator_cells}
        )
    metrics, scales, models, submitters = zip(*batch.labels[:n_answered], strict=True)
    columns = {
        "key": batch.keys[:n_answered],
        "metric": metrics,
        "model": models,
        "submitter": submitters,
        "corrected": outcome.above[:n_answered],
        "cv_score": batch.cv_scores[:n_answered],
        "code_length": code_lengths[:n_answered],
        "value": outcome.values[:n_answered],
        "lower": lower[:n_answered],
        "upper": upper[:n_answered],
    }
    answers = Answers(
        columns,
        batch=record.totals.number,
        time=record.totals.time,
        scales={metric: scale for metric, scale in zip(metrics, scales, strict=True) if scale},
        shapes=batch.shapes,
        shape_of=batch.tail_of[:n_answered],
    )
    return record, answers


def _interval_limits(batch, outcome, plan, moments, log_failures):
    """Return the ends of the intervals of all queries.

    With variance queries, each end is the better of the plain limit and of the limit by squares,
    which share the failure probability.
    """
    cell_lower = np.fmax(outcome.least, 0.0)
    cell_upper = np.fmin(outcome.most, 1.0)
    if plan is None:
        return batch.limits(cell_lower, cell_upper, log_failures)
    lower, upper = batch.limits(cell_lower, cell_upper, log_failures + plan.shares[0])
    lower_by_squares, upper_by_squares = plan.limits(
        cell_lower, cell_upper, log_failures - math.log(2.0), moments.limits
    )
    return np.maximum(lower, lower_by_squares), np.minimum(upper, upper_by_squares)


def _batch_record(
    batch, context, outcome, moments, *, limits, length, theorem, closes, noise_ratio, code_state
):
    """Return the record of an answered batch, with all that was spent up to and including it.

    ``limits``: the ends of the intervals of the answered queries.
    """
    last = context.last
    settings = context.settings
    spending = settings.spending
    lower, upper = limits
    n_answered = len(lower)
    values = outcome.values[:n_answered]
    is_unrelaxed = ~outcome.relaxed[:n_answered]
    half_widths = np.maximum(values - lower, upper - values)[is_unrelaxed]
    number = last.number + 1
    weight = spending.report_weight(last.number) if closes else spending.batch_weight(number)
    kinds = {shape["kind"] for shape in batch.shapes}
    totals = LedgerTotals(
        number=number,
        time=context.time,
        n_answered=last.n_answered + n_answered,
        n_above=last.n_above + int(outcome.above.sum()),
        n_rounds=last.n_rounds + outcome.n_above + moments.n_rejected,
        released=last.released + outcome.released + moments.released,
        widest=max(last.widest, float(np.max(half_widths, initial=0.0))),
        n_relaxed=last.n_relaxed + n_answered - int(is_unrelaxed.sum()),
        dp_epsilon=_privacy_level(batch, context, noise_ratio),
        seeded=bool(context.seeded or last.seeded),
        closed=closes,
        shares=last.shares,
        n_floors=last.n_floors,
        n_below_floor=last.n_below_floor,
        has_pairs=last.has_pairs or "pairs" in kinds,
        has_ratios=last.has_ratios or "ratio" in kinds,
        has_approximate=last.has_approximate or "approximate" in kinds,
    )
    return BatchRecord(
        totals=totals,
        size=len(batch),
        code_length=length,
        code=code_state,
        cells=_cells(batch, outcome, moments.cells, theorem=theorem),
        scales={metric: list(scale) for metric, scale, *_ in batch.labels if scale},
        spending={"name": spending.name, "weight": weight},
    )


def _privacy_level(batch, context, noise_ratio):
    """Return the DP level that is spent with a batch; None if no finite level holds.

    One record may change a metric without a proven bound by any amount: no level of privacy holds
    from its first query on.
    """
    is_unbounded = any(shape["kind"] == "approximate" for shape in batch.shapes)
    if context.last.dp_epsilon is None or is_unbounded:
        return None
    epsilon = float(noise_ratio * context.mechanism.dp_epsilon_used(1.0 / context.settings.n))
    return epsilon if math.isfinite(epsilon) else None


def scale_noise(batch, context):
    """Return a batch with noise scaled to the spread of its scores, and the factor of its level.

    Without a guaranteed level for the life of the holdout, noise is a fraction of the sampling
    error. One record of a rare class can change a score by much more: the reported level is
    multiplied by the largest ratio of sensitivity and noise unit so far, which follows from the
    last record.
    """
    last = context.last
    settings = context.settings
    spent_epsilon = context.mechanism.dp_epsilon_used(1.0 / settings.n)
    has_level = bool(last.dp_epsilon) and spent_epsilon > 0.0 and math.isfinite(spent_epsilon)
    ratio = max(1.0, last.dp_epsilon / spent_epsilon) if has_level else 1.0
    if settings.budget is not None or (batch.sensitivities == 1.0).all():
        return batch, ratio
    reference_deviation = ModelTail(context.model, settings.n).standard_deviation(0.5)
    noise_units = np.array(
        [float(tail.standard_deviation(0.5) / reference_deviation) for tail in batch.tails]
    )
    noise_units = np.minimum(batch.sensitivities, np.maximum(noise_units[batch.tail_of], 1.0))
    largest_ratio = float(np.max(batch.sensitivities / noise_units))
    return dataclasses.replace(batch, sensitivities=noise_units), max(ratio, largest_ratio)


def _read_all(batch, context, rank_length):
    """Return the :class:`Outcome` of a report: every query reads the holdout, at threshold 0."""
    mechanism = context.mechanism
    settings = context.settings
    count = len(batch)
    outcome = Outcome(count)
    margins = np.empty(count)
    # Any public prediction is valid (theory G4): the far end makes every answer a correction.
    ends = np.where(batch.cv_scores < 0.5, 1.0, 0.0)
    for index, unit in enumerate(batch.sensitivities):
        one_query = slice(index, index + 1)
        run = mechanism.answer_run(
            ends[one_query] / unit, batch.values[one_query] / unit, thresholds=np.zeros(1)
        )
        if not run.answered[0]:
            return Outcome(count)
        below, answer = settings.noise_margins(context.last.n_rounds + outcome.n_above)
        outcome.above[index] = run.above[0]
        outcome.n_above += int(run.above[0])
        margins[index] = unit * (answer * settings.final_noise_ratio if run.above[0] else below)
        outcome.values[index] = run.values[0] * unit if run.above[0] else ends[index]
    values = outcome.values = np.clip(outcome.values, 0.0, 1.0)
    lower = np.maximum(values - margins, 0.0)
    upper = np.minimum(values + margins, 1.0)
    if context.model.sampling_scheme(settings.n).weights is None:
        # A proportion counts whole records: noise below one record does not widen its interval.
        shares = np.array([shape["kind"] == "mean" and shape["binary"] for shape in batch.shapes])
        low = np.ceil(settings.n * lower - 1e-6) / settings.n
        high = np.floor(settings.n * upper + 1e-6) / settings.n
        has_whole_number = shares[batch.tail_of] & (low <= high)
        lower = np.where(has_whole_number, low, lower)
        upper = np.where(has_whole_number, high, upper)
    outcome.least = lower
    outcome.most = upper
    outcome.rank_lengths = np.full(count, rank_length)
    outcome.answered = np.ones(count, dtype=bool)
    return outcome


def _run_adaptive(batch, context, policy):
    """Answer the batch by the mechanism; return the :class:`Outcome`."""
    settings = context.settings
    race = Race(
        code=context.code,
        ask=lambda comparison: _compare(batch, context.mechanism, comparison),
        margins=settings.noise_margins,
        n_above=context.last.n_rounds,
        cv_scores=batch.cv_scores,
        relaxed_to=batch.relaxed_to,
        sensitivities=batch.sensitivities,
        training_factors=1.0 + settings.n / batch.training_sizes,
        deviation=batch.deviations,
        secondary=batch.secondary,
        sharpness=_relative_deviations(batch),
    )
    if settings.is_adaptive and batch.own_cells is None:
        return race.run(policy)
    if settings.is_adaptive:
        half_widths = batch.own_cells
        return race.walk(
            lambda positions, _: (half_widths[positions], np.zeros(len(positions), dtype=bool)),
            is_separate=True,
        )
    return race.walk(
        lambda positions, predictions: _thresholds(batch, context, positions, predictions),
        resolution=settings.resolution,
        learned=settings.learns_offset,
    )


def _compare(batch, mechanism, comparison):
    """Compare queries up to the first corrected one; return their number and its cell.

    The noisy value itself is not returned.
    """
    units = batch.sensitivities[comparison.positions]
    # In these units every query has the sensitivity 1/n that the noise is calibrated for.
    run = mechanism.answer_run(
        comparison.predictions / units,
        batch.values[comparison.positions] / units,
        thresholds=comparison.thresholds / units,
    )
    n_compared = int(np.count_nonzero(run.answered))
    if n_compared == 0 or not run.above[n_compared - 1]:
        return n_compared, None
    noisy_value = float(run.values[n_compared - 1] * units[n_compared - 1])
    return n_compared, comparison.cells(n_compared - 1).place(min(1.0, noisy_value))


def _thresholds(batch, context, positions, predictions):
    """Return the thresholds of queries that are compared once, and which of them are relaxed."""
    settings = context.settings
    if settings.threshold is not None:
        fixed_thresholds = np.full(predictions.shape, settings.threshold)
        return fixed_thresholds, np.zeros(predictions.shape, dtype=bool)
    auto_thresholds = auto_threshold(
        predictions, settings.n_effective, batch.training_sizes[positions]
    )
    plain_deviations = ModelTail(context.model, settings.n).standard_deviation(predictions)
    auto_thresholds *= batch.deviations(positions, predictions) / plain_deviations
    relaxed_to = batch.relaxed_to[positions]
    return np.maximum(auto_thresholds, relaxed_to), relaxed_to > auto_thresholds


def _relative_deviations(batch):
    """Return ratios of the expected deviations of scores to those of the worst case."""
    has_variance = np.isfinite(batch.variances)
    ratios = np.ones(len(batch))
    if has_variance.any():  # records are independent then, or groups of them
        positions = np.flatnonzero(has_variance)
        worst_variances = batch.deviations(positions, batch.cv_scores[positions]) ** 2
        ratios[positions] = relative_deviation(
            worst_variances / batch.units.squares,
            batch.variances[positions],
            batch.training_sizes[positions],
        )
    return ratios


def _cells(batch, outcome, squares, *, theorem):
    """Return the released cells and the public inputs, from which all answers can be recomputed."""
    names = ("training_sizes", "relaxed_to", "secondary", "sensitivities", "own_cells")
    public = {name: getattr(batch, name) for name in names}
    public["shape_of"] = batch.tail_of
    cells = {
        "route": theorem,
        "first": outcome.first,
        "fine": outcome.fine,
        "shapes": list(batch.shapes),
    }
    for name, values in public.items():
        if values is not None:  # a single number if all are equal
            listed = values.tolist()
            cells[name] = listed[0] if len(set(listed)) == 1 else listed
    if squares is not None:
        variances = [None if math.isnan(value) else value for value in batch.variances.tolist()]
        cells["squares"] = squares
        cells["variances"] = variances
    return cells


def exhausted_error(settings, last, *, answered=0, unanswered):
    """Return the error that reports the spending and the remaining options."""
    return BudgetExhaustedError(
        f"budget={settings.budget} is used up. Answered in all: {last.n_answered}, corrected by "
        f"the holdout: {last.n_above}. Of this batch {answered} were answered, {unanswered} were "
        "not. Recorded answers are in history() and remain free. Set on_exhausted='nan' or "
        "'cv' to continue without the holdout. Only new records add budget."
    )
