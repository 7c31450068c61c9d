"""Release of lower bounds of the denominators of precision, Jaccard and F1 (theory G34)."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from sklearn_bdp.intervals.concentration import score_tail
from sklearn_bdp.intervals.ratios import FloorGrid, expected_floor, surprise_probability
from sklearn_bdp.ledger.batch_record import LedgerTotals
from sklearn_bdp.release.batch_context import BatchContext
from sklearn_bdp.release.query_batch import QueryBatch


def release_denominator_floors(
    batch: QueryBatch, context: BatchContext
) -> tuple[QueryBatch, BatchContext, list[list[int | None]]]:
    """Query floors, which are lower bounds of the denominators of precision, Jaccard and F1.

    The denominator is the number of records that the metric counts. If it is below the floor that
    training records predict, its cell is released. If the budget might not suffice, nothing is
    queried, and all floors are 0.

    Returns the batch with new values, shapes, tails and noise_scales, the context with ledger
    totals after these queries, and a pair of each answered one: position in the batch and cell
    (None: the floor was confirmed). Without such metrics, batch and context stay the same, and the
    list is empty.
    """
    ratio_shape_indices = [
        index for index, shape in enumerate(batch.shapes) if shape["kind"] == "ratio"
    ]
    positions = np.flatnonzero(np.isin(batch.shape_indices, ratio_shape_indices)).tolist()
    if not positions:
        return batch, context, []
    n = context.settings.n
    grids = {}
    for position in positions:
        class_counts = batch.shapes[batch.shape_indices[position]]["class_counts"]
        grids[position], _ = expected_floor(class_counts, n)
    pending_positions = [position for position in positions if not grids[position].is_trivial]
    remaining_budget = context.mechanism.remaining_budget
    if remaining_budget is not None and remaining_budget <= len(pending_positions):
        pending_positions = []
    floors = dict.fromkeys(positions, 0)
    released_cells: list[list[int | None]] = []
    totals = context.totals_before
    while pending_positions:
        floor_proportions = np.array(
            [grids[position].ends(None)[0] for position in pending_positions]
        )
        counted_proportions = (
            np.array([batch.score_inputs[position].n_counted for position in pending_positions]) / n
        )
        # A proportion at a larger distance from 1 than its floor lies below the floor.
        replies = context.mechanism.answer_run(
            np.ones(len(pending_positions)), counted_proportions, thresholds=1.0 - floor_proportions
        )
        margin_confirmed, margin_corrected = context.settings.noise_margins(totals.n_rounds)
        n_answered = int(np.count_nonzero(replies.answered))
        for index, position in enumerate(pending_positions[:n_answered]):
            grid = grids[position]
            is_corrected = bool(replies.above[index])
            cell = grid.cell_of(float(replies.values[index])) if is_corrected else None
            margin = margin_corrected if is_corrected else margin_confirmed
            lowest_proportion, _ = grid.ends(cell)
            lowest_proportion = max(0.0, lowest_proportion - margin)
            floors[position] = max(0, math.ceil(n * lowest_proportion - 1e-6))
            released_cells.append([position, cell])
            totals = _totals_with_floor(totals, grid, cell)
        pending_positions = pending_positions[n_answered:] if n_answered else []
    batch = _batch_with_floors(batch, context, floors)
    return batch, dataclasses.replace(context, totals_before=totals), released_cells


def _totals_with_floor(totals: LedgerTotals, grid: FloorGrid, cell: int | None) -> LedgerTotals:
    """Return ledger totals after a query of a lower bound of a denominator.

    ``grid``: cells of the denominator as a proportion of all records. ``cell``: number of the
    released cell, None if the bound was confirmed.
    """
    is_corrected = cell is not None
    correction_probability = surprise_probability(totals.n_floors, totals.n_below_floor)
    return dataclasses.replace(
        totals,
        n_rounds=totals.n_rounds + int(is_corrected),
        released=totals.released + grid.code_length(cell, correction_probability),
        n_floors=totals.n_floors + 1,
        n_below_floor=totals.n_below_floor + int(is_corrected),
    )


def _batch_with_floors(
    batch: QueryBatch, context: BatchContext, floors: dict[int, int]
) -> QueryBatch:
    """Return the batch with values and bounds of ratios, given lower bounds of denominators.

    ``floors``: lower bounds of the denominators, in records, by position of the query.
    """
    n = context.settings.n
    shapes = list(batch.shapes)
    tails = list(batch.tails)
    shape_indices = batch.shape_indices.copy()
    values = batch.values.copy()
    noise_scales = batch.noise_scales.copy()
    replaced_shapes = set()
    for position, floor in floors.items():
        ratio_scores = batch.score_inputs[position]
        values[position] = ratio_scores.value(floor)
        noise_scales[position] = max(1.0, n * ratio_scores.sensitivity(floor))
        shape_index = int(batch.shape_indices[position])
        shape = batch.shapes[shape_index] | {"class_floors": (floor,)}
        tail = score_tail(context.dependence, n, **shape)
        if shape_index in replaced_shapes:  # by another query of the same shape
            shape_indices[position] = len(shapes)
            shapes.append(shape)
            tails.append(tail)
        else:
            replaced_shapes.add(shape_index)
            shapes[shape_index] = shape
            tails[shape_index] = tail
    return dataclasses.replace(
        batch,
        values=values,
        noise_scales=noise_scales,
        shapes=tuple(shapes),
        tails=tuple(tails),
        shape_indices=shape_indices,
    )
