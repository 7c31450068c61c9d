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
    """Query the class proportions that the scores of a batch need and that are not recorded yet.

    Scores by class need lower bounds of their class counts (theory G20). Released proportions are
    recorded with the batch. For groups, such as patients with several visits, slices with one
    record of each group are scored (G19).

    Returns the batch with its values, tails and sensitivities, and the context with the released
    proportions; ``(None, context)`` if the budget might not suffice. Both stay the same without
    such scores.
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
    model = context.dependence
    n = context.settings.n
    slices = None
    if not model.sampling_scheme(n).has_independent_records:
        slices = subsample_one_per_group(model, n, context.slice_seed)
    totals = context.totals_before
    shapes = list(batch.shapes)
    tails = list(batch.tails)
    values = batch.values.copy()
    sensitivities = batch.sensitivities.copy()
    for shape_index in shape_indices:
        shape = shapes[shape_index]
        positions = np.flatnonzero(batch.shape_of == shape_index)
        totals = _release_proportions(shape, batch.by_class[positions[0]], slices, context, totals)
        if totals is None:
            return None, context
        floors = _class_floors(shape, slices, n, totals)
        shapes[shape_index] = shape | {"class_floors": floors}
        tails[shape_index] = score_tail(model, n, **shapes[shape_index])
        for position in positions:
            class_scores = batch.by_class[position]
            values[position] = min(1.0, max(0.0, class_scores.value(floors, slices)))
            sensitivities[position] = max(1.0, n * class_scores.sensitivity(floors))
    batch = dataclasses.replace(
        batch, values=values, sensitivities=sensitivities, shapes=tuple(shapes), tails=tuple(tails)
    )
    return batch, dataclasses.replace(context, totals_before=totals)


def _needed_classes(shape, slices):
    """Return the positions of the classes whose proportions a score by class needs.

    ``shape``: of the score. ``slices``: positions of one record of each group; None for independent
    records.
    """
    return needed_classes(
        len(shape["classes"]), shape["counted_classes"], has_slices=slices is not None
    )


def _release_proportions(
    shape: dict[str, Any],
    class_scores: Any,
    slices: Any,
    context: BatchContext,
    totals: LedgerTotals,
) -> LedgerTotals | None:
    """Query the proportions of one shape that are not recorded; return the totals with them.

    None if the budget might not suffice for them and one query of the batch.

    Parameters
    ----------
    shape : dict
        Shape of scores by class: arguments of ``score_tail``.
    class_scores : ClassScores
        Scores of any query with this shape, for the class counts.
    slices : ndarray of int, shape (n_slices, n_groups), or None
        Positions of one record of each group; None for independent records.
    context : BatchContext
        Context of the batch.
    totals : LedgerTotals
        Totals with the proportions released so far.
    """
    n = context.settings.n
    n_units = n if slices is None else slices.shape[1]
    n_classes = len(shape["classes"])
    new_classes = [
        class_index
        for class_index in _needed_classes(shape, slices)
        if _proportion_name(shape, class_index) not in totals.shares
    ]
    remaining_budget = context.mechanism.remaining_budget
    if remaining_budget is not None and remaining_budget <= len(new_classes):
        return None
    class_counts = class_scores.min_class_counts(n_classes, slices)
    grids = proportion_grids(
        shape["class_counts"], n_classes, context.dependence, n, shape["within_group_fractions"]
    )
    for class_index in new_classes:
        grid = grids[class_index]
        if n_classes == 2:
            complement = _proportion_name(shape, 1 - class_index)
            if complement in totals.shares:
                _, lower, upper = totals.shares[complement]
                grid = grids[1 - class_index].complement(lower, upper)
        totals = _release_proportion(
            _proportion_name(shape, class_index),
            float(class_counts[class_index]) / n_units,
            grid,
            context=context,
            totals=totals,
            record_influence=n / n_units,
        )
    return totals


def _class_floors(shape, slices, n, totals):
    """Return lower bounds of the class counts, from the released proportions.

    ``shape``: of scores by class. ``slices``: positions of one record of each group, or None.
    ``n``: number of records. ``totals``: of the ledger, with the proportions.
    """
    class_limits = {}
    for class_index in _needed_classes(shape, slices):
        _, lower, upper = totals.shares[_proportion_name(shape, class_index)]
        class_limits[class_index] = lower, upper
    n_units = n if slices is None else slices.shape[1]
    return min_class_counts(
        class_limits, n_units, len(shape["classes"]), has_slices=slices is not None
    )


def _proportion_name(shape: dict[str, Any], class_index: int) -> str:
    """Return the recorded name of a class proportion: position of the class, and all classes."""
    return json.dumps([class_index, *shape["classes"]])


def _release_proportion(
    name: str,
    proportion: float,
    grid: Any,
    *,
    context: BatchContext,
    totals: LedgerTotals,
    record_influence: float,
) -> LedgerTotals:
    """Compare one class proportion with its prediction; return the totals with the release.

    ``name``: recorded name of the proportion. ``grid``: its cells; the cell None stands for a
    confirmed prediction, the central cell. ``record_influence``: largest change of a proportion by
    one record, in units of 1/n.
    """
    low, high = grid.ends(None)
    run = context.mechanism.answer_run(
        np.array([0.5 * (low + high) / record_influence]),
        np.array([proportion / record_influence]),
        thresholds=np.array([0.5 * (high - low) / record_influence]),
    )
    cell = None
    margin_confirmed, margin_corrected = context.settings.noise_margins(totals.n_rounds)
    margin = margin_confirmed * record_influence
    if run.above[0]:
        cell = grid.cell_of(float(run.values[0]) * record_influence)
        margin = margin_corrected * record_influence
        low, high = grid.ends(cell)
    limits = [max(0.0, low - margin), min(1.0, high + margin)]
    return dataclasses.replace(
        totals,
        n_rounds=totals.n_rounds + int(cell is not None),
        released=totals.released + grid.code_length(cell),
        shares=totals.shares | {name: [cell, *limits]},
    )


def subsample_one_per_group(model, n, seed):
    """Return slices of one record per group, drawn at random.

    They are positions of records, of shape (N_SLICES, n_groups). ``model``: dependence of the
    ``n`` records. ``seed``: of the draws.
    """
    order, starts, sizes = in_order_of_groups(model, n)
    uniform_draws = np.random.default_rng(seed).random((N_SLICES, sizes.size))
    ranks_in_groups = np.floor(uniform_draws * sizes).astype(int)
    return order[starts + ranks_in_groups]


def with_prevalence(metric, prevalence, shares, n):
    """Return a metric of two classes with counts of n records, and a note on their proportion.

    The proportion of positive records is ``prevalence``. If that is None, a metric keeps its class
    counts, or gets a released proportion, or 1/2 without one. The note states a released or assumed
    proportion, and is empty otherwise. A metric without a field for class counts stays the same.
    ``shares``: released class proportions by recorded name.
    """
    if not hasattr(metric, "class_counts"):
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
    """Return a recorded proportion of the second of two classes, and its source in words.

    A proportion of the first class implies that of the second. Without any the result is 1/2.
    ``shares``: released class proportions by recorded name.
    """
    prevalence = 0.5
    source = "assumed"
    for name, (_, lower, upper) in shares.items():
        class_index, *classes = json.loads(name)
        if len(classes) == 2:
            proportion = 0.5 * (lower + upper)
            prevalence = proportion if class_index == 1 else 1.0 - proportion
            source = "as recorded"
    return prevalence, source
