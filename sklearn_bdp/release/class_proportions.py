"""Release of class proportions before a batch with scores that need them (theory G19, G20)."""

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
from sklearn_bdp.release.query_batch import QueryBatch, order_by_group

#: Slices of one record per group: more make scores less noisy, and cost time.
N_SLICES = 64


def release_class_proportions(batch: QueryBatch, context: BatchContext) -> tuple[Any, BatchContext]:
    """Release the class proportions that a batch needs; return batch and context with them.

    ROC AUC and means over classes need lower bounds of the class counts (theory G20). Their values,
    shapes, tails and noise_scales are set in the returned batch. Dependent records are scored in
    slices, which have one record of each group (G19).

    The result is ``(None, context)`` if the budget might not suffice. Batch and context stay the
    same without such scores.
    """
    shape_indices = [
        index
        for index, shape in enumerate(batch.shapes)
        if shape["kind"] in ("pairs", "class_means")
        and shape["class_floors"] is None
        and index in batch.shape_indices
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
    noise_scales = batch.noise_scales.copy()
    for shape_index in shape_indices:
        shape = shapes[shape_index]
        positions = np.flatnonzero(batch.shape_indices == shape_index)
        new_totals = _release_proportions(
            shape, batch.score_inputs[positions[0]], slices, context, totals
        )
        if new_totals is None:
            return None, context
        totals = new_totals
        class_floors = _class_floors(shape, slices, n, totals)
        shapes[shape_index] = shape | {"class_floors": class_floors}
        tails[shape_index] = score_tail(model, n, **shapes[shape_index])
        for position in positions:
            class_scores = batch.score_inputs[position]
            values[position] = min(1.0, max(0.0, class_scores.value(class_floors, slices)))
            noise_scales[position] = max(1.0, n * class_scores.sensitivity(class_floors))
    batch = dataclasses.replace(
        batch, values=values, noise_scales=noise_scales, shapes=tuple(shapes), tails=tuple(tails)
    )
    return batch, dataclasses.replace(context, totals_before=totals)


def _needed_classes(shape, slices):
    """Return the positions, in ``shape["classes"]``, of the classes whose proportions are needed.

    ``slices``: positions of one record of each group, of shape (n_slices, n_groups); None for
    independent records.
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
    """Release the class proportions of one shape that are not recorded; return ledger totals.

    The result is None if the budget might not suffice for them and one query of the batch.

    Parameters
    ----------
    shape : dict
        Shape of scores that need class counts: arguments of ``score_tail``.
    class_scores : ClassScores
        Holdout scores by class of any query with this shape, for the class counts.
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
    new_class_indices = [
        class_index
        for class_index in _needed_classes(shape, slices)
        if _proportion_name(shape, class_index) not in totals.shares
    ]
    remaining_budget = context.mechanism.remaining_budget
    if remaining_budget is not None and remaining_budget <= len(new_class_indices):
        return None
    smallest_counts = class_scores.min_class_counts(n_classes, slices)  # among slices, by class
    grids = proportion_grids(
        shape["class_counts"], n_classes, context.dependence, n, shape["within_group_fractions"]
    )
    for class_index in new_class_indices:
        grid = grids[class_index]
        if n_classes == 2:
            other_name = _proportion_name(shape, 1 - class_index)
            if other_name in totals.shares:
                _, lower, upper = totals.shares[other_name]
                grid = grids[1 - class_index].complement(lower, upper)
        totals = _release_proportion(
            _proportion_name(shape, class_index),
            float(smallest_counts[class_index]) / n_units,
            grid,
            context=context,
            totals=totals,
            record_influence=n / n_units,
        )
    return totals


def _class_floors(shape, slices, n, totals):
    """Return for each class a lower bound of its count in the holdout, or in every slice.

    ``shape``: of the scores. ``slices``: positions of one record of each group, of shape (n_slices,
    n_groups); None for independent records. ``n``: number of records. ``totals``: of the ledger,
    with the proportions.
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
    """Return the name of a class proportion in the ledger: JSON of class position and classes."""
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
    """Compare one class proportion with its prediction; return ledger totals with the result.

    ``name``: of the proportion in the ledger. ``grid``: its cells; the number of the central one,
    of a confirmed prediction, is None. ``totals``: of the ledger before. ``record_influence``:
    largest change of a proportion by one record, in units of 1/n.
    """
    cell_lower, cell_upper = grid.ends(None)
    reply = context.mechanism.answer_run(
        np.array([0.5 * (cell_lower + cell_upper) / record_influence]),
        np.array([proportion / record_influence]),
        thresholds=np.array([0.5 * (cell_upper - cell_lower) / record_influence]),
    )
    cell = None
    margin_confirmed, margin_corrected = context.settings.noise_margins(totals.n_rounds)
    margin = margin_confirmed * record_influence
    if reply.above[0]:
        cell = grid.cell_of(float(reply.values[0]) * record_influence)
        margin = margin_corrected * record_influence
        cell_lower, cell_upper = grid.ends(cell)
    limits = [max(0.0, cell_lower - margin), min(1.0, cell_upper + margin)]
    return dataclasses.replace(
        totals,
        n_rounds=totals.n_rounds + int(cell is not None),
        released=totals.released + grid.code_length(cell),
        shares=totals.shares | {name: [cell, *limits]},
    )


def subsample_one_per_group(model, n, seed):
    """Return positions of random records, one per group; shape (N_SLICES, n_groups).

    ``model``: dependence of the ``n`` records. ``seed``: of the draws, int.
    """
    order, starts, sizes = order_by_group(model, n)
    uniform_draws = np.random.default_rng(seed).random((N_SLICES, sizes.size))
    ranks_in_groups = np.floor(uniform_draws * sizes).astype(int)
    return order[starts + ranks_in_groups]


def with_prevalence(metric, prevalence, proportions_by_name, n):
    """Return a metric with class counts for ``n`` records of two classes, and a note, or "".

    ``prevalence``: proportion of positive records. If None, class counts of the metric are kept; if
    it has none, the proportion is a released one or 1/2, which the note states. A metric without
    the field ``class_counts`` stays the same. ``proportions_by_name``: cell and limits of released
    class proportions, by their names in the ledger.
    """
    if not hasattr(metric, "class_counts"):
        return metric, ""
    if prevalence is None and metric.class_counts:
        return metric, ""
    note = ""
    if prevalence is None:
        prevalence, source = _recorded_prevalence(proportions_by_name)
        note = f" The share of positive records is {prevalence:.3g}, {source} (see prevalence=)."
    class_counts = (max(1, round(n * (1.0 - prevalence))), max(1, round(n * prevalence)))
    return dataclasses.replace(metric, classes=(0, 1), class_counts=class_counts), note


def _recorded_prevalence(proportions_by_name):
    """Return a released proportion of the second of two classes, else 1/2, and its source.

    A released proportion is the middle of its limits. The source is "as recorded" or "assumed".
    ``proportions_by_name``: cell and limits of released class proportions, by their names in the
    ledger.
    """
    prevalence = 0.5
    source = "assumed"
    for name, (_, lower, upper) in proportions_by_name.items():
        class_index, *classes = json.loads(name)
        if len(classes) == 2:
            proportion = 0.5 * (lower + upper)
            prevalence = proportion if class_index == 1 else 1.0 - proportion
            source = "as recorded"
    return prevalence, source
