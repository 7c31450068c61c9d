"""Floors under the denominators of precision, Jaccard and F1: released before their batch (G34)."""

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
    """Query floors under the numbers of records that count, for precision, Jaccard and F1.

    A model for which fewer records count than the floor that training records predict is a
    surprise: the number is released in cells, as class proportions are. If the answers might use up
    a budget, nothing is queried, and the floors are 0.

    Returns the batch with its values, tails and sensitivities, the context with the information
    spent, and position and cell (None: the floor was confirmed) of each answered query of a floor.
    Without such metrics, batch and context stay the same, and the list is empty.
    """
    ratio_shapes = [index for index, shape in enumerate(batch.shapes) if shape["kind"] == "ratio"]
    positions = np.flatnonzero(np.isin(batch.shape_of, ratio_shapes)).tolist()
    if not positions:
        return batch, context, []
    n = context.settings.n
    grids = {}
    for position in positions:
        class_counts = batch.shapes[batch.shape_of[position]]["class_counts"]
        grids[position], _ = expected_floor(class_counts, n)
    pending = [position for position in positions if not grids[position].is_trivial]
    remaining_budget = context.mechanism.remaining_budget
    if remaining_budget is not None and remaining_budget <= len(pending):
        pending = []
    floors = dict.fromkeys(positions, 0)
    released_cells: list[list[int | None]] = []
    totals = context.totals_before
    while pending:
        expected_floors = np.array([grids[position].ends(None)[0] for position in pending])
        proportions = np.array([batch.by_class[position].n_counted for position in pending]) / n
        # A proportion at a larger distance from 1 than its floor lies below the floor.
        run = context.mechanism.answer_run(
            np.ones(len(pending)), proportions, thresholds=1.0 - expected_floors
        )
        margin_confirmed, margin_corrected = context.settings.noise_margins(totals.n_rounds)
        n_answered = int(np.count_nonzero(run.answered))
        for index, position in enumerate(pending[:n_answered]):
            grid = grids[position]
            is_corrected = bool(run.above[index])
            cell = grid.cell_of(float(run.values[index])) if is_corrected else None
            margin = margin_corrected if is_corrected else margin_confirmed
            lowest_proportion, _ = grid.ends(cell)
            lowest_proportion = max(0.0, lowest_proportion - margin)
            floors[position] = max(0, math.ceil(n * lowest_proportion - 1e-6))
            released_cells.append([position, cell])
            totals = _with_floor(totals, grid, cell)
        pending = pending[n_answered:] if n_answered else []
    batch = _with_floors(batch, context, floors)
    return batch, dataclasses.replace(context, totals_before=totals), released_cells


def _with_floor(totals: LedgerTotals, grid: FloorGrid, cell: int | None) -> LedgerTotals:
    """Return the totals after the release of a floor.

    ``grid``: cells of the proportion of records that count. ``cell``: number of the released cell,
    None if the floor was confirmed.
    """
    is_corrected = cell is not None
    probability_of_surprise = surprise_probability(totals.n_floors, totals.n_below_floor)
    return dataclasses.replace(
        totals,
        n_rounds=totals.n_rounds + int(is_corrected),
        released=totals.released + grid.code_length(cell, probability_of_surprise),
        n_floors=totals.n_floors + 1,
        n_below_floor=totals.n_below_floor + int(is_corrected),
    )


def _with_floors(batch: QueryBatch, context: BatchContext, floors: dict[int, int]) -> QueryBatch:
    """Return the batch with values, sensitivities and tails at these floors.

    ``floors``: smallest number of records that count, by position of the query.
    """
    n = context.settings.n
    shapes = list(batch.shapes)
    tails = list(batch.tails)
    shape_of = batch.shape_of.copy()
    values = batch.values.copy()
    sensitivities = batch.sensitivities.copy()
    replaced_shapes = set()
    for position, floor in floors.items():
        components = batch.by_class[position]
        values[position] = components.value(floor)
        sensitivities[position] = max(1.0, n * components.sensitivity(floor))
        shape_index = int(batch.shape_of[position])
        shape = batch.shapes[shape_index] | {"class_floors": (floor,)}
        tail = score_tail(context.dependence, n, **shape)
        if shape_index in replaced_shapes:  # several queries had this shape
            shape_of[position] = len(shapes)
            shapes.append(shape)
            tails.append(tail)
        else:
            replaced_shapes.add(shape_index)
            shapes[shape_index] = shape
            tails[shape_index] = tail
    return dataclasses.replace(
        batch,
        values=values,
        sensitivities=sensitivities,
        shapes=tuple(shapes),
        tails=tuple(tails),
        shape_of=shape_of,
    )
