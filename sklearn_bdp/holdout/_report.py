"""Before and after: what the next batch will get, and how a final report closes a holdout."""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np

from sklearn_bdp.accounting import ModelTail, fine_half_width, place_lengths, score_tail
from sklearn_bdp.exceptions import HoldoutClosedError
from sklearn_bdp.holdout._batch import (
    finite_level,
    pace_of,
    privacy_ratio,
    route,
    scaled_to_spread,
)
from sklearn_bdp.holdout._certificate import fixed_reach
from sklearn_bdp.holdout._settings import margins
from sklearn_bdp.holdout._shares import settle_shares
from sklearn_bdp.holdout._squares import ask_squares, planned
from sklearn_bdp.ledger import BatchRecord, answer_records

CLOSING = "closing"  # the note that is durable before anything of a final report is computed


def check_open(transaction, statements=None):
    """Raise HoldoutClosedError where a final report was given, or another one was begun."""
    last, begun = transaction.last, transaction.notes(CLOSING)
    if last.closed:
        raise HoldoutClosedError(
            f"This holdout was closed by its final report on {last.time[:10]}. Its intervals "
            "assume no later queries. holdout.report_ shows the report again, and recorded answers "
            "remain free by key. Use new records to verify another model."
        )
    if begun and begun[0] != statements:
        raise HoldoutClosedError(
            "A final report on this holdout was begun and interrupted. Only that report can be "
            "completed: call final_report again with the same models and metrics. Use new records "
            "for anything else."
        )


@dataclasses.dataclass(frozen=True)
class Preview:
    """What the next batch of a holdout will get, and what it is expected to spend.

    Parameters
    ----------
    n_queries : int
        Queries of the batch.
    score : float
        The score in [0, 1] it was worked out for.
    half_width : float
        Half-width of the interval of the leader, if it is not surprising.
    half_width_others : float
        The same for a query of middle rank that does not lead.
    code_length : float
        Code length of the leader in nats: the information its interval pays for.
    expected_spending : float
        Nats that the batch is expected to add for all later ones.
    half_width_final : float
        Half-width of a final report on such a score, if it were given now instead.
    note : str, default=""
        Which share of positive records was assumed, for scores by class.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_bdp import ReusableHoldout
    >>> holdout = ReusableHoldout(np.zeros((1000, 1)), np.arange(1000) % 2)
    >>> seen = holdout.preview(100, score=0.9)
    >>> bool(seen.half_width < seen.half_width_others < 0.2)
    True
    """

    n_queries: int
    score: float
    half_width: float
    half_width_others: float
    code_length: float
    expected_spending: float
    half_width_final: float
    note: str = ""

    def __str__(self) -> str:
        return (
            f"{self.n_queries:,} queries with scores near {self.score:g}: the selected one will "
            f"be known to about ± {self.half_width:.3g}, one that does not lead to about "
            f"± {self.half_width_others:.3g}; they are expected to spend "
            f"{self.expected_spending:.2g} nats. A final report now: about "
            f"± {self.half_width_final:.3g}.{self.note}"
        )


def preview_batch(last, code, *, n_queries, score, training_size, settings, model, metric=None):
    """Return the :class:`Preview` of a batch after the account ``last``.

    ``metric``: whose scores are meant, where they are no means over records.
    """
    tail = ModelTail(model, settings.n)
    if metric is not None and not metric.is_mean:
        shape = metric.expected_shape(settings.n)
        tail = score_tail(model, settings.n, **dataclasses.asdict(shape))
    length = route(last, settings)[0]
    places = place_lengths(np.zeros(n_queries))
    place, middle = places[0], places[(n_queries - 1) // 2]
    deviation = float(tail.standard_deviation(score))
    typical = deviation * math.sqrt(1.0 + settings.n / training_size)
    below, above = margins(settings, last.n_rounds)
    if settings.races:
        drift = float(code.predict([score])[1][0])
        pace = pace_of(last, settings, length)
        fine = fine_half_width(
            pace, code, predictions=score, deviation=lambda at: float(tail.standard_deviation(at)),
            factor=(typical / deviation) ** 2, drift=drift, places=place, alone=n_queries == 1,
        )  # fmt: skip
        coarse = max(fine, pace.coarsely(n_queries) * typical)
        reaches = (fine + max(below, above), coarse + below)
        spending = _expected(code, score, typical, drift, fine, coarse, n_queries)
    else:
        part = deviation / float(tail.standard_deviation(0.5))
        reaches = (fixed_reach(last, settings, part),) * 2
        drift = float(code.predict([score])[1][0])
        spending = _expected(code, score, typical, drift, reaches[0], reaches[0], n_queries)
    widths = []
    for reach, own in zip(reaches, (place, middle), strict=True):
        side = math.log(settings.sampling_failure / 2.0) - length - own
        lower = float(np.ravel(tail.lower_limit([max(0.0, score - reach)], side))[0])
        upper = float(np.ravel(tail.upper_limit([min(1.0, score + reach)], side))[0])
        widths.append(0.5 * (upper - lower))
    return Preview(
        n_queries=n_queries,
        score=score,
        half_width=widths[0],
        half_width_others=widths[-1] if n_queries > 1 else widths[0],
        code_length=length + place,
        expected_spending=spending,
        half_width_final=report_half_width(last, settings, tail, score),
    )


def _expected(code, score, typical, drift, fine, coarse, n_queries):
    """Return the entropy of what a batch releases under the code itself, in nats."""
    steps = np.arange(-200.0, 201.0)
    weights = np.exp(code.log_weights)

    def entropy(half, cells):
        edges = np.concatenate([[-np.inf], (2.0 * cells[1:] - 1.0) * half + score, [np.inf]])
        ones = np.ones(cells.size)
        mass = weights @ code.masses(
            edges[:-1], edges[1:], score * ones, typical * ones, drift * ones
        )
        return float(-(mass * np.log(np.maximum(mass, 1e-300))).sum())

    return entropy(fine, steps) + (n_queries - 1) * entropy(coarse, steps[199:202])


def close(queries, statements, *, last, code, mechanism, settings, model, time, seeded, seed=0):
    """Decide the exact rows of a final report: queries at threshold 0, whose values need no code.

    Theory G16: nothing is asked afterwards, so the report takes all the weight that is left, in
    equal parts for its ``statements``; pre-sampling half-widths are the noise margins alone.
    Returns the account without what follows from it, the :class:`AnswerRecord` of each query, the
    parts of their half-widths (sampling, what was asked before, noise), and the log of the failure
    probability of a statement; ``None`` for all where the budget does not suffice.
    """
    queries, last = settle_shares(
        queries, last=last, mechanism=mechanism, settings=settings, model=model, seed=seed
    )
    if queries is None:
        return None
    ratio = privacy_ratio(last, mechanism, settings)
    if settings.budget is None:
        queries, largest = scaled_to_spread(queries, settings, model)
        ratio = max(ratio, largest)
    length, by = route(last, settings, report=True)
    each = length + math.log(statements)
    failure = np.full(len(queries), math.log(settings.sampling_failure) - each)
    plan = planned(queries, code, settings, math.log(settings.sampling_failure) - each)
    values, reaches, above = _looked_at(queries, mechanism, settings, last.n_rounds)
    rounds = last.n_rounds + int(above.sum())
    chosen = [] if plan is None else np.flatnonzero(plan.eligible).tolist()
    squares = ask_squares(plan, queries, chosen, mechanism, settings, rounds)
    least, most = np.maximum(values - reaches, 0.0), np.minimum(values + reaches, 1.0)
    lower, upper = squares.limits(queries, least, most, failure)
    record = BatchRecord(
        number=last.number + 1,
        time=time,
        size=len(queries),
        code_length=length,
        n_answered=last.n_answered + len(queries),
        n_above=last.n_above + int(above.sum()),
        n_rounds=rounds + squares.n_above,
        released=last.released,
        shares=last.shares,
        code=code.state(after=len(code.pairs)),
        cells={"route": by, "squares": squares.cells, "pairs": last.cells.get("pairs", False)},
        widest=max(last.widest, float(np.max([values - lower, upper - values]))),
        n_relaxed=last.n_relaxed,
        dp_epsilon=finite_level(last, ratio * mechanism.dp_epsilon_used(1.0 / settings.n)),
        seeded=bool(seeded or last.seeded),
        closed=True,
        spending={
            "name": settings.spending.name,
            "weight": settings.spending.of_report(last.number),
        },
    )
    answers = answer_records(
        len(queries), batch=itertools.repeat(record.number), position=range(len(queries)),
        key=queries.keys, time=itertools.repeat(time),
        code_length=itertools.repeat(each), training_value=(queries.training_values + 0.0).tolist(),
        value=(values + 0.0).tolist(), lower=(lower + 0.0).tolist(), upper=(upper + 0.0).tolist(),
        above=above.tolist(),
    )  # fmt: skip
    once = np.full(len(queries), math.log(settings.parameters["beta"]))
    ends = [squares.limits(queries, values, values, level) for level in (once, failure)]
    halves = [0.5 * (high - low) for low, high in (*ends, (lower, upper))]
    return record, answers, np.diff([np.zeros(len(queries)), *halves], axis=0).T, failure[0]


def _looked_at(queries, mechanism, settings, n_rounds):
    """Return the noisy values, their margins, and which came from the holdout."""
    values, reaches = np.empty((2, len(queries)))
    above = np.zeros(len(queries), dtype=bool)
    for place, unit in enumerate(queries.sensitivities):
        at = slice(place, place + 1)
        run = mechanism.answer_run(
            queries.training_values[at] / unit, queries.values[at] / unit, thresholds=np.zeros(1)
        )
        margin = margins(settings, n_rounds + int(above.sum()))
        above[place] = run.above[0]
        reaches[place] = margin[int(above[place])] * unit
        values[place] = run.values[0] * unit if above[place] else queries.training_values[place]
    return np.clip(values, 0.0, 1.0), reaches, above


def report_half_width(last, settings, tail, score):
    """Return the half-width of a final report now, on one score like this, without surprises."""
    side = math.log(settings.sampling_failure / 2.0) - route(last, settings, report=True)[0]
    reach = max(margins(settings, last.n_rounds))
    lower = float(np.ravel(tail.lower_limit([max(0.0, score - reach)], side))[0])
    upper = float(np.ravel(tail.upper_limit([min(1.0, score + reach)], side))[0])
    return 0.5 * (upper - lower)
