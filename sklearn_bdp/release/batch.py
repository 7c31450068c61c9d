"""One batch, decided: what the mechanism answers, what it costs, which intervals follow.

A function of the batch, what was spent before it and the mechanism; it touches no file. The
raw holdout values come in, go to the mechanism, and are not in anything that goes out.
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


MOST = 16  # queries of a batch whose squares are asked
#: About the code length of the place of a leader: rates of limits by squares are chosen for it.
LEADING = math.log(8.0)


def route(
    last: BatchRecord, settings: Calibration, *, report: bool = False, n_attempts: int = 0
) -> tuple[float, str]:
    """Return the code length of the next batch in nats, without places, and what it rests on.

    ``report``: of a final report instead, its parts not included, after ``n_attempts`` that did not
    finish (theory G35).

    Theory G9: where a level of leakage holds for life, leakage (G1) and code (G7) hold together at
    half the failure probability each (``ln 2`` nats), and the shorter length may be used. How a
    report ended that did not finish has no level of privacy: the code alone holds from then on.
    """

    lengths = {"code": last.released}
    if settings.information is not None and last.dp_epsilon is not None:
        lengths["leakage"] = leakage_code_length(
            information=settings.information, failure=settings.sampling_failure / 2.0
        )
    by = min(lengths, key=lambda name: (lengths[name], name))
    given: dict[str, Any] = {"released": lengths[by], "spending": settings.spending}
    if report:
        length = final_code_length(n_batches=last.number, **given)
        length += report_attempt_length(n_earlier=n_attempts, finished=True)
    else:
        length = code_length(batch_index=last.number + 1, **given)
    return length + (0.0 if settings.information is None else math.log(2.0)), by


def pace_of(last, settings, length):
    """Return how finely the batch after ``last`` asks, at this code length."""
    log_failure = math.log(settings.sampling_failure / 2.0) - length
    return paced(settings.spending, last.number + 1, log_failure)


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Terms:
    """What a batch is decided under. ``code`` and ``mechanism`` advance with it."""

    last: BatchRecord  # what was spent before it
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

    ``statements``: of a final report, which this batch is all of that goes through the mechanism.
    Its queries are asked at threshold 0, and their values need no code: nothing is asked
    afterwards, so that the report takes all the weight that is left, in equal parts for its
    statements, and pre-sampling half-widths are the noise margins alone (theory G16).

    Returns the record of the batch and the :class:`Answers`, to a prefix of it; ``None`` and
    nothing if the budget was used up before.
    """
    code, settings, known = terms.code, terms.settings, len(terms.code.pairs)
    closes, failure = statements is not None, math.log(settings.sampling_failure)
    batch, terms = ask_shares(batch, terms)
    if batch is None:
        return None, []
    batch, ratio = scaled_to_spread(batch, terms)
    last = terms.last
    length, by = route(last, settings, report=closes, n_attempts=terms.n_attempts)
    share = math.log(statements) if closes else LEADING
    plan = planned(batch, terms, failure - length - share)
    if closes:
        outcome = _looked_at(batch, terms, share)
    else:
        outcome = _play(batch, terms, pace_of(last, settings, length))
    done = int(np.count_nonzero(outcome.answered))
    if done == 0:
        return None, []
    lengths = length + outcome.places
    least, most = np.fmax(outcome.least, 0.0), np.fmin(outcome.most, 1.0)
    squared, known_squares, released, n_above = ask_squares(plan, batch, outcome, terms)
    if plan is None:
        squared = None
        lower, upper = batch.limits(least, most, failure - lengths)
    else:  # the better of plain limits and of limits by squares; each has its share
        lower, upper = batch.limits(least, most, failure - lengths + plan.shares[0])
        side = failure - lengths - math.log(2.0)
        sharper, below = plan.limits(least, most, side, known_squares)
        lower, upper = np.maximum(lower, sharper), np.minimum(upper, below)
    values, kept = outcome.values[:done], ~outcome.relaxed[:done]
    ends = np.maximum(values - lower[:done], upper[:done] - values)
    spending = settings.spending
    epsilon, number = ratio * terms.mechanism.dp_epsilon_used(1.0 / settings.n), last.number + 1
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
        n_answered=last.n_answered + done,
        n_above=last.n_above + int(outcome.above.sum()),
        n_rounds=last.n_rounds + outcome.n_above + n_above,
        released=last.released + outcome.released + released,
        code=code.state(after=known),
        cells=_cells(batch, outcome, squared, last, by=by),
        widest=max(last.widest, float(np.max(ends[kept], initial=0.0))),
        n_relaxed=last.n_relaxed + done - int(kept.sum()),
        dp_epsilon=level,  # None where none is finite, and ever after
        closed=closes,
        spending={"name": spending.name, "weight": weight},
    )
    columns = {
        "key": batch.keys, "metric": metrics, "model": models, "submitter": levels,
        "corrected": outcome.above, "cv_score": batch.cv_scores, "code_length": lengths,
        "value": outcome.values, "lower": lower, "upper": upper,
    }  # fmt: skip
    answers = Answers(
        {name: values[:done] for name, values in columns.items()},
        batch=number,
        time=terms.time,
        scales=dict(label[:2] for label in batch.labels[:done] if label[1]),
        shapes=batch.shapes,
        shape_of=batch.tail_of[:done],
    )
    return record, answers


def scaled_to_spread(batch, terms):
    """Return a batch whose noise is scaled to how its scores vary, and what the level answers for.

    Where no level is promised for life, noise is a fraction of the sampling error. One record of
    a rare class can move a score by much more than that: the level reported is multiplied by the
    largest ratio of sensitivity and noise unit so far, which the last record holds.
    """
    last, settings = terms.last, terms.settings
    used = terms.mechanism.dp_epsilon_used(1.0 / settings.n)
    known = bool(last.dp_epsilon) and used > 0.0 and math.isfinite(used)
    ratio = max(1.0, last.dp_epsilon / used) if known else 1.0
    if settings.budget is not None or (batch.sensitivities == 1.0).all():
        return batch, ratio
    plain = ModelTail(terms.model, settings.n).standard_deviation(0.5)
    units = np.array([float(tail.standard_deviation(0.5) / plain) for tail in batch.tails])
    units = np.minimum(batch.sensitivities, np.maximum(units[batch.tail_of], 1.0))
    largest = float(np.max(batch.sensitivities / units))
    return dataclasses.replace(batch, sensitivities=units), max(ratio, largest)


def _looked_at(batch, terms, share):
    """Return the :class:`Outcome` of a report: every query is looked at, none is raced."""
    mechanism, settings, count = terms.mechanism, terms.settings, len(batch)
    outcome, known_to = Outcome(count), np.empty(count)
    # Any public prediction is valid (theory G4): the far end makes it an answer of the holdout.
    ends = np.where(batch.cv_scores < 0.5, 1.0, 0.0)
    for place, unit in enumerate(batch.sensitivities):
        at = slice(place, place + 1)
        run = mechanism.answer_run(ends[at] / unit, batch.values[at] / unit, thresholds=np.zeros(1))
        if not run.answered[0]:
            return Outcome(count)
        below, answer = settings.noise_margins(terms.last.n_rounds + outcome.n_above)
        outcome.above[place] = run.above[0]
        outcome.n_above += int(run.above[0])
        known_to[place] = unit * (answer * settings.final_noise_ratio if run.above[0] else below)
        outcome.values[place] = run.values[0] * unit if run.above[0] else ends[place]
    values = outcome.values = np.clip(outcome.values, 0.0, 1.0)
    least, most = np.maximum(values - known_to, 0.0), np.minimum(values + known_to, 1.0)
    if terms.model.record_weights(settings.n) is None:
        # A share of records is a whole number of them: noise below one record costs nothing.
        shares = np.array([shape["kind"] == "mean" and shape["binary"] for shape in batch.shapes])
        low = np.ceil(settings.n * least - 1e-6) / settings.n
        high = np.floor(settings.n * most + 1e-6) / settings.n
        whole = shares[batch.tail_of] & (low <= high)
        least, most = np.where(whole, low, least), np.where(whole, high, most)
    outcome.least, outcome.most = least, most
    outcome.places, outcome.answered = np.full(count, share), np.ones(count, dtype=bool)
    return outcome


def _play(batch, terms, pace):
    """Let the mechanism reply to what the batch asks; return the :class:`Outcome`."""
    settings, mechanism = terms.settings, terms.mechanism

    def ask(asked):
        """Compare up to the first "above" and name its cell; the noisy value itself stays here."""
        units = batch.sensitivities[asked.positions]
        # Units in which every query has sensitivity 1/n, which the noise is made for.
        run = mechanism.answer_run(
            asked.predictions / units,
            batch.values[asked.positions] / units,
            thresholds=asked.thresholds / units,
        )
        count = int(np.count_nonzero(run.answered))
        if count == 0 or not run.above[count - 1]:
            return count, None
        noisy = float(run.values[count - 1] * units[count - 1])
        return count, asked.cells(count - 1).place(min(1.0, noisy))

    def thresholds(positions, predictions):
        if settings.threshold is not None:
            given = np.full(predictions.shape, settings.threshold)
            return given, np.zeros(predictions.shape, dtype=bool)
        chosen = auto_threshold(predictions, settings.n_effective, batch.training_sizes[positions])
        plain = ModelTail(terms.model, settings.n).standard_deviation(predictions)
        chosen *= batch.deviations(positions, predictions) / plain
        relaxed_to = batch.relaxed_to[positions]
        return np.maximum(chosen, relaxed_to), relaxed_to > chosen

    # How much less than in the worst case scores are known to vary, as a ratio.
    known, sharpness = np.isfinite(batch.variances), np.ones(len(batch))
    if known.any():  # records are independent then, or groups of them
        worst = batch.deviations(np.arange(len(batch)), batch.cv_scores) ** 2
        worst /= batch.units.squares
        drawn = drawn_variances(batch.variances, worst, batch.training_sizes)
        sharpness[known] = np.minimum(np.sqrt(drawn / worst), 1.0)[known]
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
        own = batch.own_cells
        return race.walk(lambda at, _: (own[at], np.zeros(len(at), dtype=bool)), own_cells=True)
    return race.walk(thresholds, resolution=settings.resolution, learned=settings.learns_offset)


def _cells(batch, outcome, squared, last, *, by):
    """Return what was released, cell by cell, and the public inputs: enough to recompute all."""
    names = ("training_sizes", "relaxed_to", "secondary", "sensitivities", "own_cells")
    public = {name: getattr(batch, name) for name in names} | {"shape_of": batch.tail_of}
    cells = {
        "route": by,
        # Whether a score over pairs was ever asked for: the certificate says so.
        "pairs": bool(last.cells.get("pairs")) or any(s["kind"] == "pairs" for s in batch.shapes),
        # Whether a metric without a proven bound was ever asked for (theory G34).
        "approximate": bool(last.cells.get("approximate"))
        or any(shape["kind"] == "approximate" for shape in batch.shapes),
        "first": outcome.first,
        "fine": outcome.fine,
        "shapes": list(batch.shapes),
    }
    for name, values in public.items():
        if values is not None:  # one number where all are equal
            listed = values.tolist()
            cells[name] = listed[0] if len(set(listed)) == 1 else listed
    if squared is not None:
        variances = [None if math.isnan(value) else value for value in batch.variances.tolist()]
        cells |= {"squares": squared, "variances": variances}
    return cells


def exhausted_error(settings, last, *, answered=0, unanswered):
    """Return the error that says what was spent and what can still be done."""
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
    """Ask the shares of classes that a batch needs and that nobody asked before.

    Scores by class need floors under the counts of their classes (theory G20). What the mechanism
    said of a share is recorded with the batch and used by all later ones. Of patients with several
    visits, slices with one visit each are scored (G19).

    Returns the batch with its values, tails and sensitivities, and the terms with what was
    released for it; ``(None, terms)`` where the budget does not suffice.
    """
    wanted = [
        index
        for index, shape in enumerate(batch.shapes)
        if shape["kind"] in ("pairs", "class_means")
        and shape["class_floors"] is None
        and index in batch.tail_of
    ]
    if not wanted:
        return batch, terms
    model, settings, mechanism, last = terms.model, terms.settings, terms.mechanism, terms.last
    n, slices, shapes = settings.n, None, list(batch.shapes)
    if not model.is_independent:
        slices = one_of_each_group(model, n, terms.seed)
    units = n if slices is None else slices.shape[1]
    unit = n / units  # one record is one unit of a slice
    values, sensitivities, tails = batch.values.copy(), batch.sensitivities.copy(), [*batch.tails]
    for index in wanted:
        shape, places = shapes[index], np.flatnonzero(batch.tail_of == index)
        n_classes = len(shape["classes"])
        # A share is recorded with the set of classes it is one of.
        names = [json.dumps([one, *shape["classes"]]) for one in range(n_classes)]
        needed = shares_needed(n_classes, shape["counted"], sliced=slices is not None)
        new = [one for one in needed if names[one] not in last.shares]
        budget = mechanism.remaining_budget
        if budget is not None and budget <= len(new):  # one is left for the batch
            return None, terms
        shares = share_cells(shape["class_counts"], n_classes, model, n, shape["inside"])
        counts = batch.by_class[places[0]].least_counts(n_classes, slices)
        for one in new:
            cells, share = shares[one], float(counts[one]) / units
            if n_classes == 2 and names[1 - one] in last.shares:
                cells = shares[1 - one].of_other(*last.shares[names[1 - one]][1:])
            low, high = cells.ends(None)
            run = mechanism.answer_run(
                np.array([0.5 * (low + high) / unit]),
                np.array([share / unit]),
                thresholds=np.array([0.5 * (high - low) / unit]),
            )
            cell, (margin, above) = None, settings.noise_margins(last.n_rounds)
            if run.above[0]:
                cell, margin = cells.place(float(run.values[0]) * unit), above
                low, high = cells.ends(cell)
            ends = [cell, max(0.0, low - margin * unit), min(1.0, high + margin * unit)]
            last = dataclasses.replace(
                last,
                n_rounds=last.n_rounds + int(cell is not None),
                released=last.released + cells.price(cell),
                shares=last.shares | {names[one]: ends},
            )
        # The scores are divided by counts that are known by now.
        known = {one: tuple(last.shares[names[one]][1:]) for one in needed}
        floors = least_counts(known, units, n_classes, sliced=slices is not None)
        shapes[index] = shape | {"class_floors": floors}
        tails[index] = score_tail(model, n, **shapes[index])
        for place in places:
            rows = batch.by_class[place]
            values[place] = min(1.0, max(0.0, rows.value(floors, slices)))
            sensitivities[place] = max(1.0, n * rows.sensitivity(floors))
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
    """Return a metric of two classes with a share of positive records, and where that is from.

    ``shares``: those that the holdout was asked for. By default 1/2.
    """
    if not hasattr(metric, "class_counts"):  # a metric without a proven bound knows its spread
        return metric, ""
    if prevalence is None and metric.class_counts:
        return metric, ""
    note = ""
    if prevalence is None:
        known = [ends for name, (_, *ends) in shares.items() if len(json.loads(name)) == 3]
        prevalence = 0.5 * sum(known[-1]) if known else 0.5
        source = "as recorded" if known else "assumed"
        note = f" The share of positive records is {prevalence:.3g}, {source} (see prevalence=)."
    counts = (max(1, round(n * (1.0 - prevalence))), max(1, round(n * prevalence)))
    return dataclasses.replace(metric, classes=(0, 1), class_counts=counts), note


def planned(batch, terms, log_failure):
    """Return the plan of a batch, or None where no variance is of use; nothing was asked yet."""
    code, settings = terms.code, terms.settings
    if not settings.is_adaptive or not np.isfinite(batch.variances).any():
        return None
    code.observe_cv_scores(batch.cv_scores)  # as the race will, which changes nothing twice
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
    """Ask the mechanism how much the scores of whoever leads vary; a race knows no budget.

    Returns each position with the first level that held; upper limits of mean squared deviations by
    position, noise margins included; nats released; and how many levels did not hold.
    """
    if plan is None:
        return [], {}, 0.0, 0
    leads = outcome.answered & ~batch.secondary
    first = int(np.argmax(np.where(leads, outcome.values, -np.inf)))
    fine = [first, *(place for place, _ in reversed(outcome.fine + outcome.first))]
    if batch.own_cells is not None:
        fine = np.argsort(-batch.cv_scores, kind="stable").tolist()
    fine = [p for p in dict.fromkeys(fine) if plan.eligible[p] and outcome.answered[p]]
    deviations, n_rounds = plan.deviations(batch.squares), terms.last.n_rounds + outcome.n_above
    unit = max(1.0, terms.settings.n * batch.units.sensitivity)
    cells, known, released, n_above = [], {}, 0.0, 0
    for place in fine[:MOST]:
        found = None
        for level, limit in enumerate(plan.levels[place]):
            run = terms.mechanism.answer_run(
                np.zeros(1),
                deviations[place : place + 1] / unit,
                thresholds=np.array([limit / unit]),
            )
            if not run.above[0]:
                found = level
                margin = unit * terms.settings.noise_margins(n_rounds + n_above)[0]
                known[place] = min(1.0, float(limit) + margin)
                break
            n_above += 1
        cells.append([place, found])
        released += plan.price(found)
    return cells, known, released, n_above


@strip_traceback_frames
def check_overlap(holdout: Any, side: Any, *, explicit: bool = False) -> str:
    """Compare a training side with a holdout; return what has to be true besides, or nothing.

    ``explicit``: rows beyond those of a drawn split are compared in place of being refused. What is
    known costs nothing; a finding is charged, recorded, then said.
    """
    known, settings = holdout.account.training_rows, holdout.account.settings
    said = known.known_overlap_status(side, explicit=explicit)
    if said is not None:
        return said
    finding = None
    # An exact finding has no finite level of privacy: under a declared one no check is made.
    if not settings.is_private:
        with holdout.account.writing() as book:
            last, before = book.last, book.checks()
            found = [check["finding"] for check in before if check["of"] == side.digest]
            if found and not last.closed:
                finding = found[0]
            elif not last.closed:  # then nothing is asked any more
                rows = not holdout.allow_shared_rows
                finding = side.finding(holdout.X, holdout.y, holdout.dependence, rows=rows)
                length = outcome_code_length(
                    n_checks=len(before),
                    n_complaints=sum(check["finding"] is not None for check in before),
                    complaint=finding is not None,
                    n_findings=len(OVERLAP_FINDINGS),
                )
                after = dataclasses.replace(
                    last,
                    time=datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds"),
                    size=0,
                    released=last.released + length,
                    dp_epsilon=None,  # no finite level of privacy holds from now on
                    checks={"of": side.digest, "finding": finding},
                )
                book.append(after)
    if finding in ("rows", "labels"):
        # Which table contains the records is not reported: the charge covers one word only.
        raise OVERLAP_FINDINGS[finding].error(remark=side.remark() if finding == "rows" else "")
    known.add(side)
    if finding is not None:
        OVERLAP_FINDINGS[finding].warn()
    return RELABELED_GROUPS_ASSUMPTION if finding == "groups" else ""
