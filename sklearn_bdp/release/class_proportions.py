"""Class proportions that scores by class need: released before their batch (theory G19, G20)."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import numpy as np

from sklearn_bdp.intervals.concentration import (
    min_class_counts,
    needed_classes,
    proportion_grids,
    score_tail,
)
from sklearn_bdp.ledger.batch_record import LedgerTotals
from sklearn_bdp.release.batch_context import BatchContext
from sklearn_bdp.release.query_batch import QueryBatch, in_order_of_groups

#: Slices of one record per group: more make scores less noisy, and cost time.
N_SLICES = 64


def release_class_proportions(batch: QueryBatch, context: BatchContext) -> tuple[Any, BatchContext]:
    """Query the class proportions that a batch needs and that are not recorded yet.

    Scores by class need lower bounds of their class counts (theory G20). A released proportion is
    recorded with the batch and used by all later ones. For groups, such as patients with several
    visits, slices with one record of each group are scored (G19).

    Returns the batch with its values, tails and sensitivities, and the context with the released
    proportions; ``(None, context)`` if the budget does not suffice.
    """
    shape_indices = [
        index
        for index, shape in enumerate(batch.shapes)
        if shape["kind"] in ("pairs", "class_means")
        and shape["class_floors"] is None
        and index in batch.shape_of
    ]
    if not shape_indices:
        return batch, context
    model = context.model
    n = context.settings.n
    slices = None
    if not model.sampling_scheme(n).has_independent_records:
        slices = subsample_one_per_group(model, n, context.seed)
    last = context.last
    shapes = list(batch.shapes)
    tails = list(batch.tails)
    values = batch.values.copy()
    sensitivities = batch.sensitivities.copy()
    for shape_index in shape_indices:
        shape = shapes[shape_index]
        positions = np.flatnonzero(batch.shape_of == shape_index)
        totals = _release_proportions(shape, batch.by_class[positions[0]], slices, context, last)
        if totals is None:
            return None, context
        last = totals
        # The scores are divided by the released counts.
        floors = _class_floors(shape, slices, n, last)
        shapes[shape_index] = shape | {"class_floors": floors}
        tails[shape_index] = score_tail(model, n, **shapes[shape_index])
        for position in positions:
            class_scores = batch.by_class[position]
            values[position] = min(1.0, max(0.0, class_scores.value(floors, slices)))
            sensitivities[position] = max(1.0, n * class_scores.sensitivity(floors))
    batch = dataclasses.replace(
        batch, values=values, sensitivities=sensitivities, shapes=tuple(shapes), tails=tuple(tails)
    )
    return batch, dataclasses.replace(context, last=last)


def _needed_classes(shape, slices):
    """Return the classes whose proportions a score by class needs."""
    return needed_classes(
        len(shape["classes"]), shape["counted_classes"], sliced=slices is not None
    )


def _release_proportions(
    shape: dict[str, Any], class_scores: Any, slices: Any, context: BatchContext, last: LedgerTotals
) -> LedgerTotals | None:
    """Query the proportions of one shape that are not recorded; return the record with them.

    ``class_scores``: of any query with this shape, for the class counts. None if the budget does
    not suffice for them and one query of the batch.
    """
    n = context.settings.n
    n_units = n if slices is None else slices.shape[1]
    n_classes = len(shape["classes"])
    new_classes = [
        class_index
        for class_index in _needed_classes(shape, slices)
        if _proportion_name(shape, class_index) not in last.shares
    ]
    remaining_budget = context.mechanism.remaining_budget
    if remaining_budget is not None and remaining_budget <= len(new_classes):
        return None
    class_counts = class_scores.min_class_counts(n_classes, slices)
    grids = proportion_grids(
        shape["class_counts"], n_classes, context.model, n, shape["within_group_fractions"]
    )
    for class_index in new_classes:
        grid = grids[class_index]
        if n_classes == 2:
            complement = _proportion_name(shape, 1 - class_index)
            if complement in last.shares:
                grid = grids[1 - class_index].complement(*last.shares[complement][1:])
        last = _release_proportion(
            _proportion_name(shape, class_index),
            float(class_counts[class_index]) / n_units,
            grid,
            context=context,
            last=last,
            record_share=n / n_units,
        )
    return last


def _class_floors(shape, slices, n, last):
    """Return lower bounds of the class counts, from the released proportions."""
    class_limits = {
        class_index: tuple(last.shares[_proportion_name(shape, class_index)][1:])
        for class_index in _needed_classes(shape, slices)
    }
    n_units = n if slices is None else slices.shape[1]
    return min_class_counts(class_limits, n_units, len(shape["classes"]), sliced=slices is not None)


def _proportion_name(shape: dict[str, Any], class_index: int) -> str:
    """Return the recorded name of a class proportion: the class and the set of all classes."""
    return json.dumps([class_index, *shape["classes"]])


def _release_proportion(
    name: str,
    proportion: float,
    grid: Any,
    *,
    context: BatchContext,
    last: LedgerTotals,
    record_share: float,
) -> LedgerTotals:
    """Compare one class proportion with its prediction; return the record with the release.

    ``record_share``: the change of a proportion by one record, in units of ``1 / n``.
    """
    low, high = grid.ends(None)
    run = context.mechanism.answer_run(
        np.array([0.5 * (low + high) / record_share]),
        np.array([proportion / record_share]),
        thresholds=np.array([0.5 * (high - low) / record_share]),
    )
    cell = None
    margin, corrected_margin = context.settings.noise_margins(last.n_rounds)
    if run.above[0]:
        cell = grid.cell_of(float(run.values[0]) * record_share)
        margin = corrected_margin
        low, high = grid.ends(cell)
    limits = [max(0.0, low - margin * record_share), min(1.0, high + margin * record_share)]
    return dataclasses.replace(
        last,
        n_rounds=last.n_rounds + int(cell is not None),
        released=last.released + grid.code_length(cell),
        shares=last.shares | {name: [cell, *limits]},
    )


def subsample_one_per_group(model, n, seed):
    """Return slices of one record per group, chosen at random: positions, a row for each slice."""
    order, starts, sizes = in_order_of_groups(model, n)
    chosen = np.random.default_rng(seed).random((N_SLICES, sizes.size))
    return order[starts + np.floor(chosen * sizes).astype(int)]


def with_prevalence(metric, prevalence, shares, n):
    """Return a metric of two classes with a proportion of positive records, and a note on it.

    ``shares``: the released class proportions. Without them and ``prevalence``, it is 1/2.
    """
    if not hasattr(metric, "class_counts"):  # a metric without a proven bound knows its spread
        return metric, ""
    if prevalence is None and metric.class_counts:
        return metric, ""
    note = ""
    if prevalence is None:
        prevalence, source = _recorded_prevalence(shares)
        note = f" The share of positive records is {prevalence:.3g}, {source} (see prevalence=)."
    counts = (max(1, round(n * (1.0 - prevalence))), max(1, round(n * prevalence)))
    return dataclasses.replace(metric, classes=(0, 1), class_counts=counts), note


def _recorded_prevalence(shares):
    """Return the last released proportion of two classes, 1/2 without one, and its source."""
    limits = [ends for name, (_, *ends) in shares.items() if len(json.loads(name)) == 3]
    return (0.5 * sum(limits[-1]), "as recorded") if limits else (0.5, "assumed")
