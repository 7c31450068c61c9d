"""Before and after: what the next batch will get, and the last word that closes a holdout."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from sklearn_bdp._card import card, expected, interval_picture
from sklearn_bdp.accounting import ModelTail, fine_half_width, place_lengths, score_tail
from sklearn_bdp.exceptions import HoldoutClosedError
from sklearn_bdp.holdout._batch import pace_of, route
from sklearn_bdp.holdout._certificate import fixed_reach
from sklearn_bdp.holdout._settings import margins
from sklearn_bdp.holdout._shares import settle_shares
from sklearn_bdp.holdout._squares import ask_squares, planned
from sklearn_bdp.ledger import AnswerRecord, BatchRecord


def check_open(last):
    """Raise HoldoutClosedError where the last word has been spoken."""
    if last.closed:
        raise HoldoutClosedError(
            f"this holdout was closed by its final report (batch {last.number}, {last.time}): its "
            "answer rests on nothing being asked afterwards. Recorded answers stay free by key; "
            "only new data answers more."
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
    note: str = ""

    def __str__(self) -> str:
        return (
            f"{self.n_queries:,} queries with scores near {self.score:g}: the selected one will "
            f"be known to about ± {self.half_width:.3g}, one that does not lead to about "
            f"± {self.half_width_others:.3g}; they are expected to spend "
            f"{self.expected_spending:.2g} nats.{self.note}"
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


def close(queries, *, last, code, mechanism, settings, model, time, seeded, seed=0):
    """Decide the last word: one query at threshold 0, whose value need not be coded.

    Theory G7, a last word: nothing is asked afterwards, so the release enters no later query;
    its pre-sampling half-width is the noise margin alone.
    """
    queries, last = settle_shares(
        queries, last=last, mechanism=mechanism, settings=settings, model=model, seed=seed
    )
    if queries is None:
        return None, None
    length, by = route(last, settings, report=True)
    failure = math.log(settings.sampling_failure) - length
    plan = planned(queries, code, settings, failure)
    unit = float(queries.sensitivities[0])
    prediction = float(queries.training_values[0])
    run = mechanism.answer(
        np.array([prediction / unit]), queries.values / unit, thresholds=np.array([0.0])
    )
    below, above = margins(settings, last.n_rounds)
    looked = bool(run.above[0])
    value = min(1.0, max(0.0, float(run.values[0]) * unit)) if looked else prediction
    reach = (above if looked else below) * unit
    least, most = np.array([max(0.0, value - reach)]), np.array([min(1.0, value + reach)])
    chosen = [] if plan is None else [0]
    squares = ask_squares(plan, queries, chosen, mechanism, settings, last.n_rounds + looked)
    lower, upper = squares.limits(queries, least, most, np.array([failure]))
    answer = AnswerRecord(
        batch=last.number + 1,
        position=0,
        key=queries.keys[0],
        time=time,
        code_length=length,
        training_value=prediction + 0.0,
        value=value + 0.0,
        lower=float(lower[0]) + 0.0,
        upper=float(upper[0]) + 0.0,
        above=looked,
    )
    epsilon = mechanism.dp_epsilon_used(1.0 / settings.n)
    record = BatchRecord(
        number=last.number + 1,
        time=time,
        size=1,
        code_length=length,
        n_answered=last.n_answered + 1,
        n_above=last.n_above + looked,
        n_rounds=last.n_rounds + looked + squares.n_above,
        released=last.released,
        shares=last.shares,
        code=code.state(after=len(code.pairs)),
        cells={"route": by, "last_word": True, "squares": squares.cells},
        widest=max(last.widest, value - answer.lower, answer.upper - value),
        n_relaxed=last.n_relaxed,
        dp_epsilon=None if last.dp_epsilon is None or math.isinf(epsilon) else float(epsilon),
        seeded=bool(seeded or last.seeded),
        closed=True,
    )
    return record, answer


@dataclasses.dataclass(frozen=True)
class FinalReport:
    """The last word of a holdout: one score, its interval, and what came before.

    Parameters
    ----------
    name : str
        The model, in words.
    scoring : str
        The metric, with its limit where it clips.
    value, lower, upper : float
        Score and ends of its interval, in the units of the metric.
    beta : float
        Probability that any interval the holdout ever gave is wrong.
    n : int
        Holdout records.
    n_answered, n_above : int
        Queries answered before, and how many of them from the holdout.
    information_spent : float
        Nats that everything released before has cost this interval.
    assumptions : tuple of str
        What has to be true.
    time : str
        When the holdout was closed, ISO 8601, UTC.
    """

    name: str
    scoring: str
    value: float
    lower: float
    upper: float
    beta: float
    n: int
    n_answered: int
    n_above: int
    information_spent: float
    assumptions: tuple
    time: str

    def _lines(self):
        chance = f"{100 * (1 - self.beta):.6g} %"
        return (
            f"{self.scoring} of {self.name}: {self.value:.4g}. {expected(self.lower, self.upper)}",
            f"With probability {chance} this interval and all others this holdout ever gave are "
            "right at once.",
            f"Asked before: {self.n_answered:,} queries on {self.n:,} records, {self.n_above:,} of "
            f"them answered from the holdout ({self.information_spent:.3g} nats). The holdout was "
            f"closed by this report on {self.time[:10]}; it answers nothing new.",
        )

    def __str__(self) -> str:
        held = "\n".join(f"  - {item}" for item in self.assumptions)
        return "\n".join(self._lines()) + f"\n\nIt holds if\n{held}"

    def _repr_html_(self):
        title, *lines = self._lines()
        inside = self.lower >= 0.0 and self.upper <= 1.0
        picture = interval_picture(
            self.value, self.lower, self.upper, bounds=(0.0, 1.0) if inside else None
        )
        return card(title, lines, picture=picture, folded=[("It holds if", self.assumptions)])
