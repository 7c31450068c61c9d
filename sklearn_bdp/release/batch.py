"""Answers of one batch: replies of the mechanism, their cost, and the intervals.

A function of the batch, the earlier spending and the mechanism, without access to files. Raw
holdout values are input, are passed to the mechanism, and are not contained in any output.
"""

from __future__ import annotations

import dataclasses
import datetime
import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from sklearn_bdp.accounting.noise_calibration import auto_threshold
from sklearn_bdp.accounting.spending import (
    PredictiveCode,
    code_length,
    final_code_length,
    leakage_code_length,
    outcome_code_length,
    report_attempt_length,
)
from sklearn_bdp.diagnostics.overlap import OVERLAP_FINDINGS, RELABELED_GROUPS_ASSUMPTION
from sklearn_bdp.exceptions import BudgetExhaustedError
from sklearn_bdp.intervals.bounds import drawn_variances, plan_squares
from sklearn_bdp.intervals.concentration import (
    ModelTail,
    least_counts,
    score_tail,
    share_cells,
    shares_needed,
)
from sklearn_bdp.ledger.records import Answers, BatchRecord
from sklearn_bdp.release.graded_release import Outcome, Race, paced
from sklearn_bdp.release.query_batch import Batch, in_order_of_groups
from sklearn_bdp.utils.validation import strip_traceback_frames

if TYPE_CHECKING:
    from sklearn_bdp.correlation import CorrelationModel
    from sklearn_bdp.mechanisms import Thresholdout
    from sklearn_bdp.release.calibration import Calibration


MOST = 16  # largest number of queries in a batch with a query of their squares
#: Typical code length of a leader's rank: rates of limits by squares are chosen for it.
LEADING = math.log(8.0)


def route(
    last: BatchRecord, settings: Calibration, *, report: bool = False, n_attempts: int = 0
) -> tuple[float, str]:
    """Return the code length of the next batch in nats, without ranks, and its theorem's name.

    ``report``: of a final report instead, its parts not included, after ``n_attempts`` that did not
    finish (theory G35).

    Theory G9: with a bound on leakage for the life of the holdout, leakage (G1) and code (G7) are
    both valid at half the failure probability each (``ln 2`` nats), and the shorter length may be
    used. The failure of an unfinished report has no level of privacy: after it, only the code is
    valid.
    """
    lengths = {"code": last.released}
    if settings.information is not None and last.dp_epsilon is not None:
        lengths["leakage"] = leakage_code_length(
            information=settings.information, failure=settings.sampling_failure / 2.0
        )
    by = min(lengths, key=lambda name: (lengths[name], name))
    released = lengths[by]
    spending = settings.spending
    if report:
        length = final_code_length(released=released, n_batches=last.number, spending=spending)
        length += report_attempt_length(n_earlier=n_attempts, finished=True)
    else:
        length = code_length(released=released, batch_index=last.number + 1, spending=spending)
    return length + (0.0 if settings.information is None else math.log(2.0)), by


def pace_of(last, settings, length):
    """Return the cell widths of the batch after ``last``, at this code length."""
    log_failure = math.log(settings.sampling_failure / 2.0) - length
    return paced(settings.spending, last.number + 1, log_failure)


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Terms:
    """Context in which a batch is answered. It advances ``code`` and ``mechanism``."""

    last: BatchRecord  # spending before the batch
    code: PredictiveCode
    mechanism: Thresholdout = dataclasses.field(repr=False)
    settings: Calibration
    model: CorrelationModel
    time: str  # now, ISO 8601, UTC
    seeded: bool
    seed: int = dataclasses.field(repr=False)  # of slices, secret
    n_attempts: int = 0  # at a final report, none of which finished


def decide(batch, terms, *, statements=None):
    """Answer a batch of new queries.

    ``statements``: number of statements in a final report, which this batch contains. Its queries
    are answered at threshold 0, and their values need no code: no later query depends on them.
    Therefore the report takes the entire remaining weight, in equal parts for its statements, and
    pre-sampling half-widths are the noise margins alone (theory G16).

    Returns the record of the batch and the :class:`Answers` to its first queries; ``None`` and an
    empty list if the budget was used up before.
    """
    code = terms.code
    settings = terms.settings
    n_pairs = len(code.pairs)
    closes = statements is not None
    failure = math.log(settings.sampling_failure)
    batch, terms = ask_shares(batch, terms)
    if batch is None:
        return None, []
    batch, ratio = scaled_to_spread(batch, terms)
    last = terms.last
    length, theorem = route(last, settings, report=closes, n_attempts=terms.n_attempts)
    rank_length = math.log(statements) if closes else LEADING
    plan = planned(batch, terms, failure - length - rank_length)
    if closes:
        outcome = _read_all(batch, terms, rank_length)
    else:
        outcome = _run_adaptive(batch, terms, pace_of(last, settings, length))
    n_answered = int(np.count_nonzero(outcome.answered))
    if n_answered == 0:
        return None, []
    lengths = length + outcome.places
    cell_lower = np.fmax(outcome.least, 0.0)
    cell_upper = np.fmin(outcome.most, 1.0)
    squared, known_squares, released, n_above = ask_squares(plan, batch, outcome, terms)
    if plan is None:
        squared = None
        lower, upper = batch.limits(cell_lower, cell_upper, failure - lengths)
    else:  # the better of plain limits and of limits by squares; each has its share
        lower, upper = batch.limits(cell_lower, cell_upper, failure - lengths + plan.shares[0])
        log_level = failure - lengths - math.log(2.0)
        lower_by_squares, upper_by_squares = plan.limits(
            cell_lower, cell_upper, log_level, known_squares
        )
        lower = np.maximum(lower, lower_by_squares)
        upper = np.minimum(upper, upper_by_squares)
    values = outcome.values[:n_answered]
    is_unrelaxed = ~outcome.relaxed[:n_answered]
    ends = np.maximum(values - lower[:n_answered], upper[:n_answered] - values)
    spending = settings.spending
    epsilon = ratio * terms.mechanism.dp_epsilon_used(1.0 / settings.n)
    number = last.number + 1
    # Any record may move a metric without a proven bound: no level of privacy holds from now on.
    private = last.dp_epsilon is not None and not any(
        shape["kind"] == "approximate" for shape in batch.shapes
    )
    level = float(epsilon) if np.isfinite(epsilon) and private else None
    weight = spending.report_weight(last.number) if closes else spending.batch_weight(number)
    metrics, _, models, levels = zip(*batch.labels, strict=True)
    record = BatchRecord(
        number=number,
        time=terms.time,
        size=len(batch),
        shares=last.shares,
        seeded=bool(terms.seeded or last.seeded),
        scales={metric: list(scale) for metric, scale, *_ in batch.labels if scale},
        code_length=length,
        n_answered=last.n_answered + n_answered,
        n_above=last.n_above + int(outcome.above.sum()),
        n_rounds=last.n_rounds + outcome.n_above + n_above,
        released=last.released + outcome.released + released,
        code=code.state(after=n_pairs),
        cells=_cells(batch, outcome, squared, last, by=theorem),
        widest=max(last.widest, float(np.max(ends[is_unrelaxed], initial=0.0))),
        n_relaxed=last.n_relaxed + n_answered - int(is_unrelaxed.sum()),
        dp_epsilon=level,  # None without a finite level, and in all later records
        closed=closes,
        spending={"name": spending.name, "weight": weight},
    )
    columns = {
        "key": batch.keys, "metric": metrics, "model": models, "submitter": levels,
        "corrected": outcome.above, "cv_score": batch.cv_scores, "code_length": lengths,
        "value": outcome.values, "lower": lower, "upper": upper,
    }  # fmt: skip
    answers = Answers(
        {name: values[:n_answered] for name, values in columns.items()},
        batch=number,
        time=terms.time,
        scales=dict(label[:2] for label in batch.labels[:n_answered] if label[1]),
        shapes=batch.shapes,
        shape_of=batch.tail_of[:n_answered],
    )
    return record, answers


def scaled_to_spread(batch, terms):
    """Return a batch with noise scaled to the spread of its scores, and the factor of its level.

    Without a guaranteed level for the life of the holdout, noise is a fraction of the sampling
    error. One record of a rare class can change a score by much more: the reported level is
    multiplied by the largest ratio of sensitivity and noise unit so far, which follows from the
    last record.
    """
    last = terms.last
    settings = terms.settings
    used = terms.mechanism.dp_epsilon_used(1.0 / settings.n)
    has_level = bool(last.dp_epsilon) and used > 0.0 and math.isfinite(used)
    ratio = max(1.0, last.dp_epsilon / used) if has_level else 1.0
    if settings.budget is not None or (batch.sensitivities == 1.0).all():
        return batch, ratio
    reference_deviation = ModelTail(terms.model, settings.n).standard_deviation(0.5)
    noise_units = np.array(
        [float(tail.standard_deviation(0.5) / reference_deviation) for tail in batch.tails]
    )
    noise_units = np.minimum(batch.sensitivities, np.maximum(noise_units[batch.tail_of], 1.0))
    largest = float(np.max(batch.sensitivities / noise_units))
    return dataclasses.replace(batch, sensitivities=noise_units), max(ratio, largest)


def _read_all(batch, terms, rank_length):
    """Return the :class:`Outcome` of a report: every query reads the holdout, at threshold 0."""
    mechanism = terms.mechanism
    settings = terms.settings
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
        below, answer = settings.noise_margins(terms.last.n_rounds + outcome.n_above)
        outcome.above[index] = run.above[0]
        outcome.n_above += int(run.above[0])
        margins[index] = unit * (answer * settings.final_noise_ratio if run.above[0] else below)
        outcome.values[index] = run.values[0] * unit if run.above[0] else ends[index]
    values = outcome.values = np.clip(outcome.values, 0.0, 1.0)
    lower = np.maximum(values - margins, 0.0)
    upper = np.minimum(values + margins, 1.0)
    if terms.model.record_weights(settings.n) is None:
        # A proportion counts whole records: noise below one record does not widen its interval.
        shares = np.array([shape["kind"] == "mean" and shape["binary"] for shape in batch.shapes])
        low = np.ceil(settings.n * lower - 1e-6) / settings.n
        high = np.floor(settings.n * upper + 1e-6) / settings.n
        has_whole_number = shares[batch.tail_of] & (low <= high)
        lower = np.where(has_whole_number, low, lower)
        upper = np.where(has_whole_number, high, upper)
    outcome.least = lower
    outcome.most = upper
    outcome.places = np.full(count, rank_length)
    outcome.answered = np.ones(count, dtype=bool)
    return outcome


def _run_adaptive(batch, terms, pace):
    """Answer the batch by the mechanism; return the :class:`Outcome`."""
    settings = terms.settings
    mechanism = terms.mechanism

    def ask(comparison):
        """Compare up to the first "above" and return its cell, but not the noisy value itself."""
        units = batch.sensitivities[comparison.positions]
        # In these units every query has the sensitivity 1/n that the noise is calibrated for.
        run = mechanism.answer_run(
            comparison.predictions / units,
            batch.values[comparison.positions] / units,
            thresholds=comparison.thresholds / units,
        )
        count = int(np.count_nonzero(run.answered))
        if count == 0 or not run.above[count - 1]:
            return count, None
        noisy = float(run.values[count - 1] * units[count - 1])
        return count, comparison.cells(count - 1).place(min(1.0, noisy))

    def thresholds(positions, predictions):
        if settings.threshold is not None:
            fixed_thresholds = np.full(predictions.shape, settings.threshold)
            return fixed_thresholds, np.zeros(predictions.shape, dtype=bool)
        auto_thresholds = auto_threshold(
            predictions, settings.n_effective, batch.training_sizes[positions]
        )
        plain_deviations = ModelTail(terms.model, settings.n).standard_deviation(predictions)
        auto_thresholds *= batch.deviations(positions, predictions) / plain_deviations
        relaxed_to = batch.relaxed_to[positions]
        return np.maximum(auto_thresholds, relaxed_to), relaxed_to > auto_thresholds

    # Ratios of the expected deviations of scores to those of the worst case.
    has_variance = np.isfinite(batch.variances)
    sharpness = np.ones(len(batch))
    if has_variance.any():  # records are independent then, or groups of them
        worst_variances = batch.deviations(np.arange(len(batch)), batch.cv_scores) ** 2
        worst_variances /= batch.units.squares
        expected_variances = drawn_variances(batch.variances, worst_variances, batch.training_sizes)
        sharpness[has_variance] = np.minimum(np.sqrt(expected_variances / worst_variances), 1.0)[
            has_variance
        ]
    race = Race(
        code=terms.code,
        ask=ask,
        margins=lambda n_above: settings.noise_margins(n_above),
        n_above=terms.last.n_rounds,
        cv_scores=batch.cv_scores,
        relaxed_to=batch.relaxed_to,
        sensitivities=batch.sensitivities,
        training_factors=1.0 + settings.n / batch.training_sizes,
        deviation=batch.deviations,
        secondary=batch.secondary,
        sharpness=sharpness,
    )
    if settings.is_adaptive and batch.own_cells is None:
        return race.run(pace)
    if settings.is_adaptive:
        half_widths = batch.own_cells
        return race.walk(
            lambda at, _: (half_widths[at], np.zeros(len(at), dtype=bool)), own_cells=True
        )
    return race.walk(thresholds, resolution=settings.resolution, learned=settings.learns_offset)


def _cells(batch, outcome, squared, last, *, by):
    """Return the released cells and the public inputs, from which all answers can be recomputed."""
    names = ("training_sizes", "relaxed_to", "secondary", "sensitivities", "own_cells")
    public = {name: getattr(batch, name) for name in names}
    public["shape_of"] = batch.tail_of
    cells = {
        "route": by,
        # Whether a score over pairs was ever queried: the certificate reports it.
        "pairs": bool(last.cells.get("pairs")) or any(s["kind"] == "pairs" for s in batch.shapes),
        # Whether a metric without a proven bound was ever queried (theory G34).
        "approximate": bool(last.cells.get("approximate"))
        or any(shape["kind"] == "approximate" for shape in batch.shapes),
        "first": outcome.first,
        "fine": outcome.fine,
        "shapes": list(batch.shapes),
    }
    for name, values in public.items():
        if values is not None:  # a single number if all are equal
            listed = values.tolist()
            cells[name] = listed[0] if len(set(listed)) == 1 else listed
    if squared is not None:
        variances = [None if math.isnan(value) else value for value in batch.variances.tolist()]
        cells["squares"] = squared
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


# -- shares of classes before a batch, squares after it, and checks ---------------------------


#: Slices of one record per group: more make scores less noisy, and cost time.
N_SLICES = 64


def ask_shares(batch: Batch, terms: Terms) -> tuple[Any, Terms]:
    """Query the class proportions that a batch needs and that are not recorded yet.

    Scores by class need lower bounds of their class counts (theory G20). A released proportion is
    recorded with the batch and used by all later ones. For groups, such as patients with several
    visits, slices with one record of each group are scored (G19).

    Returns the batch with its values, tails and sensitivities, and the terms with the released
    proportions; ``(None, terms)`` if the budget does not suffice.
    """
    shape_indices = [
        index
        for index, shape in enumerate(batch.shapes)
        if shape["kind"] in ("pairs", "class_means")
        and shape["class_floors"] is None
        and index in batch.tail_of
    ]
    if not shape_indices:
        return batch, terms
    model = terms.model
    settings = terms.settings
    mechanism = terms.mechanism
    last = terms.last
    n = settings.n
    slices = None
    shapes = list(batch.shapes)
    if not model.is_independent:
        slices = one_of_each_group(model, n, terms.seed)
    units = n if slices is None else slices.shape[1]
    unit = n / units  # one record is one unit of a slice
    values = batch.values.copy()
    sensitivities = batch.sensitivities.copy()
    tails = [*batch.tails]
    for index in shape_indices:
        shape = shapes[index]
        positions = np.flatnonzero(batch.tail_of == index)
        n_classes = len(shape["classes"])
        # A proportion is recorded with the set of all classes.
        names = [json.dumps([class_index, *shape["classes"]]) for class_index in range(n_classes)]
        needed = shares_needed(n_classes, shape["counted"], sliced=slices is not None)
        new_classes = [
            class_index for class_index in needed if names[class_index] not in last.shares
        ]
        budget = mechanism.remaining_budget
        if budget is not None and budget <= len(new_classes):  # one is left for the batch
            return None, terms
        shares = share_cells(shape["class_counts"], n_classes, model, n, shape["inside"])
        counts = batch.by_class[positions[0]].least_counts(n_classes, slices)
        for class_index in new_classes:
            cells = shares[class_index]
            share = float(counts[class_index]) / units
            if n_classes == 2 and names[1 - class_index] in last.shares:
                cells = shares[1 - class_index].of_other(*last.shares[names[1 - class_index]][1:])
            low, high = cells.ends(None)
            run = mechanism.answer_run(
                np.array([0.5 * (low + high) / unit]),
                np.array([share / unit]),
                thresholds=np.array([0.5 * (high - low) / unit]),
            )
            cell = None
            margin, margin_above = settings.noise_margins(last.n_rounds)
            if run.above[0]:
                cell = cells.place(float(run.values[0]) * unit)
                margin = margin_above
                low, high = cells.ends(cell)
            ends = [cell, max(0.0, low - margin * unit), min(1.0, high + margin * unit)]
            last = dataclasses.replace(
                last,
                n_rounds=last.n_rounds + int(cell is not None),
                released=last.released + cells.price(cell),
                shares=last.shares | {names[class_index]: ends},
            )
        # The scores are divided by the released counts.
        class_limits = {
            class_index: tuple(last.shares[names[class_index]][1:]) for class_index in needed
        }
        floors = least_counts(class_limits, units, n_classes, sliced=slices is not None)
        shapes[index] = shape | {"class_floors": floors}
        tails[index] = score_tail(model, n, **shapes[index])
        for position in positions:
            rows = batch.by_class[position]
            values[position] = min(1.0, max(0.0, rows.value(floors, slices)))
            sensitivities[position] = max(1.0, n * rows.sensitivity(floors))
    batch = dataclasses.replace(
        batch, values=values, sensitivities=sensitivities, shapes=tuple(shapes), tails=tuple(tails)
    )
    return batch, dataclasses.replace(terms, last=last)


def one_of_each_group(model, n, seed):
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
        recorded_limits = [
            ends for name, (_, *ends) in shares.items() if len(json.loads(name)) == 3
        ]
        prevalence = 0.5 * sum(recorded_limits[-1]) if recorded_limits else 0.5
        source = "as recorded" if recorded_limits else "assumed"
        note = f" The share of positive records is {prevalence:.3g}, {source} (see prevalence=)."
    counts = (max(1, round(n * (1.0 - prevalence))), max(1, round(n * prevalence)))
    return dataclasses.replace(metric, classes=(0, 1), class_counts=counts), note


def planned(batch, terms, log_failure):
    """Return the plan of variance queries before a batch is answered, or None without a use."""
    code = terms.code
    settings = terms.settings
    if not settings.is_adaptive or not np.isfinite(batch.variances).any():
        return None
    code.observe_cv_scores(batch.cv_scores)  # the race repeats it, without effect
    centers = batch.cv_scores
    if batch.own_cells is None:
        centers, _ = code.predict(batch.cv_scores)
    plan = plan_squares(
        centers,
        batch.variances,
        training_sizes=batch.training_sizes * batch.units.count / settings.n,
        units=batch.units,
        log_failure=log_failure,
    )
    return plan if plan.eligible.any() else None


def ask_squares(
    plan: Any, batch: Batch, outcome: Outcome, terms: Terms
) -> tuple[list[Any], dict[int, float], float, int]:
    """Query the variances of the leaders' scores; a race does not count against the budget.

    Returns each position with the first confirmed level; upper limits of mean squared deviations by
    position, noise margins included; nats released; and the number of rejected levels.
    """
    if plan is None:
        return [], {}, 0.0, 0
    leads = outcome.answered & ~batch.secondary
    first = int(np.argmax(np.where(leads, outcome.values, -np.inf)))
    fine = [first, *(position for position, _ in reversed(outcome.fine + outcome.first))]
    if batch.own_cells is not None:
        fine = np.argsort(-batch.cv_scores, kind="stable").tolist()
    fine = [p for p in dict.fromkeys(fine) if plan.eligible[p] and outcome.answered[p]]
    deviations = plan.deviations(batch.squares)
    n_rounds = terms.last.n_rounds + outcome.n_above
    unit = max(1.0, terms.settings.n * batch.units.sensitivity)
    cells = []
    squares_limits = {}
    released = 0.0
    n_above = 0
    for position in fine[:MOST]:
        first_level = None
        for level, limit in enumerate(plan.levels[position]):
            run = terms.mechanism.answer_run(
                np.zeros(1),
                deviations[position : position + 1] / unit,
                thresholds=np.array([limit / unit]),
            )
            if not run.above[0]:
                first_level = level
                margin = unit * terms.settings.noise_margins(n_rounds + n_above)[0]
                squares_limits[position] = min(1.0, float(limit) + margin)
                break
            n_above += 1
        cells.append([position, first_level])
        released += plan.price(first_level)
    return cells, squares_limits, released, n_above


@strip_traceback_frames
def check_overlap(holdout: Any, side: Any, *, explicit: bool = False) -> str:
    """Compare training data with a holdout; return an additional assumption or an empty text.

    ``explicit``: rows beyond those of a drawn split are compared instead of rejected. A repeated
    comparison is free. A new finding is charged and recorded before it is reported.
    """
    training_rows = holdout.account.training_rows
    settings = holdout.account.settings
    known_status = training_rows.known_overlap_status(side, explicit=explicit)
    if known_status is not None:
        return known_status
    finding = None
    # An exact finding has no finite level of privacy: no check is made under a declared one.
    if not settings.is_private:
        with holdout.account.writing() as book:
            last = book.last
            earlier_checks = book.checks()
            earlier_findings = [
                check["finding"] for check in earlier_checks if check["of"] == side.digest
            ]
            if earlier_findings and not last.closed:
                finding = earlier_findings[0]
            elif not last.closed:  # a closed holdout needs no check
                rows = not holdout.allow_shared_rows
                finding = side.finding(holdout.X, holdout.y, holdout.dependence, rows=rows)
                length = outcome_code_length(
                    n_checks=len(earlier_checks),
                    n_complaints=sum(check["finding"] is not None for check in earlier_checks),
                    complaint=finding is not None,
                    n_findings=len(OVERLAP_FINDINGS),
                )
                updated_record = dataclasses.replace(
                    last,
                    time=datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds"),
                    size=0,
                    released=last.released + length,
                    dp_epsilon=None,  # no finite level of privacy holds from now on
                    checks={"of": side.digest, "finding": finding},
                )
                book.append(updated_record)
    if finding in ("rows", "labels"):
        # Which table contains the records is not reported: the charge covers one word only.
        raise OVERLAP_FINDINGS[finding].error(remark=side.remark() if finding == "rows" else "")
    training_rows.add(side)
    if finding is not None:
        OVERLAP_FINDINGS[finding].warn()
    return RELABELED_GROUPS_ASSUMPTION if finding == "groups" else ""
