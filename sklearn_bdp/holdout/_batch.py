"""One batch, decided: what the mechanism says, what it costs, which intervals follow.

A function of the batch, the account before it and the mechanism; it touches no file. The
raw holdout values come in, go to the mechanism, and are not in anything that goes out.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from sklearn_bdp.accounting import (
    ModelTail,
    Outcome,
    PredictiveCode,
    Race,
    Units,
    auto_threshold,
    code_length,
    drawn_variances,
    final_code_length,
    leaked_length,
    paced,
)
from sklearn_bdp.exceptions import BudgetExhaustedError
from sklearn_bdp.holdout._settings import final_noise, margins
from sklearn_bdp.holdout._side_queries import ask_shares, ask_squares, asked_finely, planned
from sklearn_bdp.ledger import Answers, BatchRecord

if TYPE_CHECKING:
    from sklearn_bdp.correlation import CorrelationModel
    from sklearn_bdp.holdout._settings import DerivedSettings
    from sklearn_bdp.mechanisms import Thresholdout


#: Fields of a batch that its queries share.
_SHARED = {"shapes", "tails", "units"}


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Batch:
    """``m`` queries that were fixed before any was answered, checked."""

    training_values: np.ndarray  # (m,): training-side values, in [0, 1]
    #: (m,): values on the holdout, in [0, 1]: for the mechanism only.
    values: np.ndarray = dataclasses.field(repr=False)
    shapes: tuple  # what is public of how scores vary: arguments of ``score_tail``
    tails: tuple  # the tail of each shape: what limits expectations
    tail_of: np.ndarray  # (m,): which of the tails is whose
    #: (m,): sensitivity in units of ``1/n``, at least 1: what noise is scaled by.
    sensitivities: np.ndarray
    training_sizes: np.ndarray  # (m,): records behind each training-side value
    #: (m,): least threshold of each query where thresholds are chosen automatically.
    relaxed_to: np.ndarray
    secondary: np.ndarray  # (m,): which queries decide nothing
    keys: list  # the keys, ``None`` for queries that cannot be asked again for free
    #: (m,): variance of a record's score on the training side; NaN: unknown or of no use.
    variances: np.ndarray
    #: (m, 2): means and mean squares of the units' scores on the holdout: for the mechanism only.
    squares: np.ndarray = dataclasses.field(repr=False)
    units: Units  # what was drawn independently
    #: (m,): half-widths of cells of their own for queries that have nothing in common; or None.
    own_cells: np.ndarray | None = None
    #: What scores by class are made of, None for others: for the mechanism only.
    by_class: list = dataclasses.field(repr=False)
    #: What the ledger says of each query: metric by name, its words and range, the model.
    labels: list

    def __len__(self):
        return len(self.keys)

    def take(self, positions):
        """Return the queries at these positions, in ascending order."""
        if len(positions) == len(self):
            return self
        chosen = {}
        for name in {field.name for field in dataclasses.fields(self)} - _SHARED:
            values = getattr(self, name)
            if isinstance(values, np.ndarray):
                chosen[name] = values[positions]
            elif values is not None:
                chosen[name] = [values[position] for position in positions]
        return dataclasses.replace(self, **chosen)

    def deviations(self, positions, predictions):
        """Return standard deviations of the scores at public predictions."""
        result = np.empty(len(positions))
        for index, chosen in self._by_tail(positions):
            result[chosen] = self.tails[index].standard_deviation(predictions[chosen])
        return result

    def sharpness(self):
        """Return how much less than in the worst case scores are known to vary, as a ratio."""
        known, result = np.isfinite(self.variances), np.ones(len(self))
        if known.any():  # records are independent then, or groups of them
            worst = self.deviations(np.arange(len(self)), self.training_values) ** 2
            worst /= self.units.squares
            drawn = drawn_variances(self.variances, worst, self.training_sizes)
            result[known] = np.minimum(np.sqrt(drawn / worst), 1.0)[known]
        return result

    def limits(self, least, most, log_failure):
        """Return the ends of intervals whose two sides share a failure probability."""
        side = log_failure - math.log(2.0)
        lower, upper = np.empty((2, len(self)))
        for index, chosen in self._by_tail(np.arange(len(self))):
            lower[chosen], upper[chosen] = self.tails[index].limits(
                least[chosen], most[chosen], side[chosen], self.training_values[chosen]
            )
        return lower, upper

    def _by_tail(self, positions):
        if len(self.tails) == 1:
            return [(0, slice(None))]
        tail_of = self.tail_of[positions]
        return [(index, tail_of == index) for index in np.unique(tail_of)]


#: About the code length of the place of a leader: rates of limits by squares are chosen for it.
LEADING = math.log(8.0)


def route(
    last: BatchRecord, settings: DerivedSettings, *, report: bool = False
) -> tuple[float, str]:
    """Return the code length of the next batch in nats, without places, and what it rests on.

    ``report``: of a final report instead, its parts not included.

    Theory G9: where a level of leakage holds for life, leakage (G1) and code (G7) hold together at
    half the failure probability each (``ln 2`` nats), and the shorter length may be used.
    """

    lengths = {"code": last.released}
    if settings.information is not None:
        lengths["leakage"] = leaked_length(
            information=settings.information, failure=settings.sampling_failure / 2.0
        )
    by = min(lengths, key=lambda name: (lengths[name], name))
    given: dict[str, Any] = {"released": lengths[by], "spending": settings.spending}
    if report:
        length = final_code_length(n_batches=last.number, **given)
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

    last: BatchRecord  # the account before it
    code: PredictiveCode
    mechanism: Thresholdout = dataclasses.field(repr=False)
    settings: DerivedSettings
    model: CorrelationModel
    time: str  # now, ISO 8601, UTC
    seeded: bool
    seed: int = dataclasses.field(repr=False)  # of slices, secret


def decide(batch, terms, *, pace=None, statements=None):
    """Answer a batch of new queries.

    ``statements``: of a final report, which this batch is all of that goes through the mechanism.
    Its queries are asked at threshold 0, and their values need no code: nothing is asked
    afterwards, so that the report takes all the weight that is left, in equal parts for its
    statements, and pre-sampling half-widths are the noise margins alone (theory G16).

    Returns the account after the batch and the :class:`Answers`, to a prefix of it; ``None`` and
    nothing if the budget was used up before.
    """
    code, settings, known = terms.code, terms.settings, len(terms.code.pairs)
    closes, failure = statements is not None, math.log(settings.sampling_failure)
    batch, terms = ask_shares(batch, terms)
    if batch is None:
        return None, []
    batch, ratio = scaled_to_spread(batch, terms)
    last = terms.last
    length, by = route(last, settings, report=closes)
    share = math.log(statements) if closes else LEADING
    plan = planned(batch, terms, failure - length - share)
    if closes:
        outcome = _looked_at(batch, terms, share)
    else:
        outcome = _play(batch, terms, pace_of(last, settings, length) if pace is None else pace)
    done = int(np.count_nonzero(outcome.answered))
    if done == 0:
        return None, []
    lengths = length + outcome.places
    least, most = np.fmax(outcome.least, 0.0), np.fmin(outcome.most, 1.0)
    fine, rounds = asked_finely(plan, batch, outcome), last.n_rounds + outcome.n_above
    squares = ask_squares(plan, batch, fine, terms, rounds)
    lower, upper = squares.limits(batch, least, most, failure - lengths)
    values, kept = outcome.values[:done], ~outcome.relaxed[:done]
    ends = np.maximum(values - lower[:done], upper[:done] - values)
    spending = settings.spending
    epsilon, number = ratio * terms.mechanism.dp_epsilon_used(1.0 / settings.n), last.number + 1
    level = float(epsilon) if np.isfinite(epsilon) and last.dp_epsilon is not None else None
    weight = spending.of_report(last.number) if closes else spending.of_batch(number)
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
        n_rounds=rounds + squares.n_above,
        released=last.released + outcome.released + squares.released,
        code=code.state(after=known),
        cells=_cells(batch, outcome, squares, last, by=by),
        widest=max(last.widest, float(np.max(ends[kept], initial=0.0))),
        n_relaxed=last.n_relaxed + done - int(kept.sum()),
        dp_epsilon=level,  # None where none is finite, and ever after
        closed=closes,
        spending={"name": spending.name, "weight": weight},
    )
    columns = {
        "key": batch.keys, "metric": metrics, "model": models, "by": levels,
        "above": outcome.above, "training_value": batch.training_values, "code_length": lengths,
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
    largest ratio of sensitivity and noise unit so far, which the account tells.
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
    outcome, reaches = Outcome(count), np.empty(count)
    # Any public prediction is valid (theory G4): the far end makes it an answer of the holdout.
    ends = np.where(batch.training_values < 0.5, 1.0, 0.0)
    for place, unit in enumerate(batch.sensitivities):
        at = slice(place, place + 1)
        run = mechanism.answer_run(ends[at] / unit, batch.values[at] / unit, thresholds=np.zeros(1))
        if not run.answered[0]:
            return Outcome(count)
        below, answer = margins(settings, terms.last.n_rounds + outcome.n_above)
        outcome.above[place] = run.above[0]
        outcome.n_above += int(run.above[0])
        reaches[place] = unit * (answer * final_noise(settings) if run.above[0] else below)
        outcome.values[place] = run.values[0] * unit if run.above[0] else ends[place]
    values = outcome.values = np.clip(outcome.values, 0.0, 1.0)
    least, most = np.maximum(values - reaches, 0.0), np.minimum(values + reaches, 1.0)
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

    race = Race(
        code=terms.code,
        ask=ask,
        margins=lambda n_above: margins(settings, n_above),
        n_above=terms.last.n_rounds,
        training_values=batch.training_values,
        relaxed_to=batch.relaxed_to,
        sensitivities=batch.sensitivities,
        training_factors=1.0 + settings.n / batch.training_sizes,
        deviation=batch.deviations,
        secondary=batch.secondary,
        sharpness=batch.sharpness(),
    )
    if settings.races and batch.own_cells is None:
        return race.run(pace)
    if settings.races:
        own = batch.own_cells
        return race.walk(lambda at, _: (own[at], np.zeros(len(at), dtype=bool)), own_cells=True)
    return race.walk(thresholds, resolution=settings.resolution, learned=settings.learned)


def _cells(batch, outcome, squares, last, *, by):
    """Return what was released, cell by cell, and the public inputs: enough to recompute all."""
    extra = {}
    if squares.plan is not None:
        listed = [None if math.isnan(value) else value for value in batch.variances.tolist()]
        extra = {"squares": squares.cells, "variances": listed}
    if batch.own_cells is not None:
        extra["own_cells"] = _compact(batch.own_cells)
    return extra | {
        "route": by,
        # Whether a score over pairs was ever asked for: the certificate says so.
        "pairs": bool(last.cells.get("pairs")) or any(s["kind"] == "pairs" for s in batch.shapes),
        "first": outcome.first,
        "fine": outcome.fine,
        "training_sizes": _compact(batch.training_sizes),
        "relaxed_to": _compact(batch.relaxed_to),
        "secondary": _compact(batch.secondary),
        "sensitivities": _compact(batch.sensitivities),
        "shapes": list(batch.shapes),
        "shape_of": _compact(batch.tail_of),
    }


def _compact(values):
    """Return a list, or one number where all are equal."""
    listed = np.asarray(values).tolist()
    return listed[0] if len(set(listed)) == 1 else listed


def exhausted_error(settings, last, *, answered=0, unanswered):
    """Return the error that says what was spent and what can still be done."""
    n_above, n_answered = last.n_above, last.n_answered
    done = "Nothing was recorded for this batch. "
    if answered:
        done = (
            f"Earlier answers are in history(), and repeating their queries is free ({answered} in "
            "this call). "
        )
    return BudgetExhaustedError(
        f"budget={settings.budget} is used up. Answered in all: {n_answered}, corrected by the "
        f"holdout: {n_above}, unanswered in this batch: {unanswered}. {done}Recorded answers "
        "remain free. Set on_exhausted='nan' or 'training' to continue without the holdout. Only "
        "new records add budget."
    )
