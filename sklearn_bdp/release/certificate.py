"""What holds of a holdout as it stands, and what the next batch will get: from public numbers."""

from __future__ import annotations

import dataclasses
import math
import warnings
from typing import Any

import numpy as np

from sklearn_bdp.accounting.certificate import Certificate
from sklearn_bdp.accounting.noise_calibration import auto_threshold, zhao_required_n
from sklearn_bdp.accounting.spending import PredictiveCode, code_length, rank_code_lengths
from sklearn_bdp.correlation import check_correlation
from sklearn_bdp.exceptions import HoldoutClosedError, UninformativeIntervalWarning
from sklearn_bdp.intervals.concentration import ModelTail, half_of, half_width, score_tail
from sklearn_bdp.ledger.ledger import Fact
from sklearn_bdp.ledger.records import BatchRecord
from sklearn_bdp.release.batch import pace_of, route, with_prevalence
from sklearn_bdp.release.graded_release import fine_half_width
from sklearn_bdp.utils.html import Card, RenderedResult
from sklearn_bdp.utils.validation import caller_level

_GOALS = (0.4, 0.3, 0.2, 0.1, 0.05, 0.02, 0.01)


def check_open(book):
    """Raise HoldoutClosedError where a final report was given."""
    last = book.last
    if last.closed:
        raise HoldoutClosedError(
            f"This holdout was closed by its final report on {last.time[:10]}. Its intervals "
            "assume no later queries. holdout.report_ shows the report again, and recorded answers "
            "remain free by key. Use new records to verify another model."
        )


@dataclasses.dataclass(frozen=True)
class Preview(RenderedResult):
    """Expected widths and cost of the next batch.

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

    See Also
    --------
    sklearn_bdp.ReusableHoldout.preview : Returns this.
    sklearn_bdp.plan_search : The same before a holdout exists.

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

    def _card(self):
        asked = (
            f"{self.n_queries:,} queries at scores near {self.score:.3g}: about "
            f"±{self.half_width:.3g} for the selected one, about ±{self.half_width_others:.3g} for "
            "the others."
        )
        if self.n_queries == 1:
            asked = f"1 query at a score near {self.score:.3g}: about ±{self.half_width:.3g}."
        return Card(
            asked,
            [
                f"Expected spending: {self.expected_spending:.2g} nats. A final report now: about "
                f"±{self.half_width_final:.3g}.{self.note}"
            ],
        )


def _lone(last, settings, model, code=None):
    """Return threshold, pre-sampling half-width and sampling half-width of a lone query near 1/2.

    No threshold is larger.
    """
    length, (below, above) = route(last, settings)[0], settings.noise_margins(last.n_rounds)
    if settings.threshold is not None:
        threshold = settings.threshold
    elif settings.is_adaptive:
        code = PredictiveCode() if code is None else code.copy()
        code.start_batch()
        half = fine_half_width(
            pace_of(last, settings, length),
            code,
            predictions=0.5,
            deviation=lambda _: math.sqrt(0.25 / settings.n_effective),
            factor=2.0,
            drift=code.predict([0.5])[1],
            alone=True,
        )
        threshold = float(np.max(half))
    else:
        threshold = float(auto_threshold(0.5, settings.n_effective, settings.n))
    cell = threshold if settings.is_adaptive else settings.resolution / 2.0
    level = math.log(settings.sampling_failure) - length
    sampling = float(np.ravel(half_width(level, model, settings.n))[0])
    return threshold, max(threshold + below, cell + above), sampling


def warn_if_vacuous(settings, model):
    """Warn where even a first answer near 1/2 would say nothing; return whether it would."""
    width = sum(_lone(BatchRecord(), settings, model)[1:])
    if width < 0.5:
        return False
    enough, (count, name) = "", model.units(settings.n)
    if math.isfinite(width):  # intervals shrink with the root of n
        enough = f"About {math.ceil(count * (2 * width) ** 2):,} {name} would do. "
    warnings.warn(
        f"The holdout of {count} {name} is too small: a first score near 1/2 is only known to "
        f"±{min(width, 0.5):.2g}. {enough}plan_holdout computes the number for a given width.",
        UninformativeIntervalWarning,
        stacklevel=caller_level(),
    )
    return True


def holdout_certificate(account: Any, book: Any) -> Certificate:
    """Return the guarantee as things stand in ``book``, what can be read of a ledger."""
    last, settings, model = book.last, account.settings, account.dependence
    threshold, known_to, sampling = _lone(last, settings, model, account.code(book))
    widest, advice = known_to + sampling, ""
    n_unfinished = len(book.notes(Fact.CLOSING)) - int(last.closed)
    if settings.threshold is None:  # one that was given does not shrink with more records
        # Threshold, sampling error, grid and automatic noise all shrink like 1 / sqrt(n).
        advice = records_for(_GOALS, widest, model.units(settings.n))
        if last.closed:
            advice = "The final report closed the holdout: it accepts no new query."
    # Levels are for life with a numeric epsilon, else those used so far.
    dp_epsilon, bdp_epsilon = last.dp_epsilon, math.inf
    if settings.budget is not None and dp_epsilon is not None:
        dp_epsilon = settings.make_mechanism().dp_epsilon(1.0 / settings.n)
    if dp_epsilon is None or not math.isfinite(dp_epsilon) or model.is_time_ordered:
        dp_epsilon = math.inf
    else:
        bdp_epsilon = float(model.bdp_epsilon(dp_epsilon, settings.n)) if dp_epsilon else 0.0
    final = None
    if not last.closed:
        tail = ModelTail(model, settings.n)
        final = report_half_width(last, settings, tail, 0.5, n_attempts=n_unfinished)
    n_approximate, n_without_interval = _count_intervals(last, book)
    return Certificate(
        tau=min(1.0, max(widest, last.widest)),
        beta=settings.beta,
        route="as used",
        dp_epsilon=dp_epsilon,
        bdp_epsilon=bdp_epsilon,
        n=settings.n,
        n_effective=settings.n_effective,
        sampling=min(1.0, sampling),
        noise=settings.noise_margins(last.n_rounds)[0],
        threshold=threshold,
        mechanism=settings.mechanism_arguments(),
        assumptions=_assumptions(account, book),
        n_queries=settings.parameters["n_queries"],
        budget=settings.budget,
        resolution=settings.resolution,
        correlation=model.describe(),
        target=target_of(model, settings.n),
        n_relaxed=last.n_relaxed,
        advice=(advice,) if advice else (),
        notes=_notes(last, settings=settings, model=model, n_unfinished=n_unfinished),
        n_answers=last.n_answered,
        n_approximate=n_approximate,
        n_without_interval=n_without_interval,
        next_error=None if last.closed else min(1.0, widest),
        final_error=final,
        spending=settings.spending.policy.description,
    )


def _count_intervals(last, book):
    """Return the numbers of answers with an approximate interval and without one."""
    if not last.cells.get("approximate"):
        return 0, 0
    kinds = [answer.interval for answer in book.history()]
    return kinds.count("approximate"), kinds.count("none")


def report_half_width(last, settings, tail, score, *, n_attempts):
    """Return the half-width of a final report now, on one score like this, without surprises.

    ``n_attempts``: at a final report that did not finish.
    """
    model = getattr(tail, "model", None)
    if model is not None and model.is_componentwise and not model.is_independent:
        # A report knows units, not models: of a list, the groups that are independent under each.
        labels = model.components(settings.n)
        tail = dataclasses.replace(tail, model=check_correlation("groups", groups=labels))
    length, _ = route(last, settings, report=True, n_attempts=n_attempts)
    side = math.log(settings.sampling_failure / 2.0) - length
    known_to = settings.noise_margins(last.n_rounds)[1] * settings.final_noise_ratio
    return half_of(tail, score, side, known_to)


def width_parts(answer, settings, model):
    """Return why the interval of an answer in [0, 1] is as wide as it is, from its own facts.

    Parts for sampling (one fixed query), for everything else that was asked (its code length), and
    for resolution with noise.
    """
    if not answer.answered or answer.shape is None:
        return None
    tail, half = score_tail(model, settings.n, **answer.shape), 0.5 * (answer.upper - answer.lower)
    side = math.log(settings.sampling_failure / 2.0) - answer.code_length
    fixed = half_of(tail, answer.value, math.log(settings.beta / 2.0))
    asked = half_of(tail, answer.value, side)
    if not asked > 0.0:  # known by construction
        return 0.0, 0.0, half
    known = min(1.0, half / asked)  # where scores vary little, both parts shrink alike (G15)
    return known * fixed, known * (asked - fixed), half - known * asked


def target_of(model, n, ahead=1):
    """Return what intervals refer to; "…, judged …": scores given the past (theory G26).

    ``ahead``: dates from what expectations are given to the score.
    """
    if model.is_time_ordered:
        own = getattr(model, "chain", model)
        step, known = own.step, "each {} by what was then known"
        if own.horizon > 1:
            known = "by what was known one {} before the outcome"
        if ahead > 1:
            known = "by what was known when the forecast was made"
        return f"these {model.units(n)[0]:,} {step}s, judged {known.format(step)}"
    return "new records like these" if model.target == "new records" else model.target


def records_for(goals, width, units, span=1.0):
    """Return how many more records, or groups, give the next goal; empty if none is left."""
    goals = [goal for goal in goals if goal <= 0.8 * width]
    if not goals or not math.isfinite(width):  # so few records bound nothing at all
        return ""
    count, name = units
    more = math.ceil(count * (width / goals[0]) ** 2) - count
    return f"about {more:,} more {name} give ±{goals[0] * span:.3g}"


def _assumptions(account, book):
    """Return what has to be true, one plain sentence each."""
    last, settings, model = book.last, account.settings, account.dependence
    lines = [
        "rows are in time order, and which dates are held out did not depend on outcomes"
        if model.is_time_ordered
        else "the declared correlation is right",
        "training set, models and cross-validated scores are made without the holdout",
        "the queries of one batch are fixed before any of its answers is seen",
        *model.caveats,
    ]
    if account.shared or book.notes(Fact.SHARED_ROWS):
        lines.append(
            "training records that equal holdout records are other records that look the same "
            "(allowed by allow_shared_rows)"
        )
    if last.cells.get("pairs"):
        lines.append("records of one class are identically distributed (for ROC AUC)")
    if settings.cut_failure > 0:
        lines.append(
            "the holdout was cut from the sequence of the training data with the declared gap "
            f"({settings.cut_failure:.2g} of the failure probability pays for it)"
        )
    if account.path is None and book.notes(Fact.ANOTHER_ACCOUNT):
        lines.append(
            "kept in memory only, and another account had answered about the same targets in this "
            "process before: no query here (features, candidates) was chosen from its answers or "
            "on these records (pass holdout= on to keep both in one ledger)"
        )
    elif account.path is None:
        lines.append(
            "kept in memory only: no other holdout is made of these records, now or later (give a "
            "ledger to enforce this)"
        )
    if account.seed is not None or last.seeded:
        lines.append(
            "fixed random_state, for tests only: no one who queries the holdout knows the seed, "
            "which reveals the noise"
        )
    return tuple(lines)


def _notes(last, *, settings, model, n_unfinished):
    """Return what else the reader must know."""
    answered, above, batches = last.n_answered, last.n_above, last.number
    notes = [
        f"charged as used. Answers: {answered:,}, batches: {batches:,}, corrected by the holdout: "
        f"{above:,}. A score near an end of its range has a narrower interval"
    ]
    if n_unfinished:
        notes.append(
            f"final reports that were begun and did not finish: {n_unfinished:,}. Nothing of them "
            "was released, and how they ended is charged (G35)"
        )
    if settings.information is not None:
        carried = {
            "code": "the code of what was released (G7)",
            "leakage": "leakage, that is Bayesian differential privacy (G1)",
        }[route(last, settings)[1]]
        nats, by = route(last, settings)
        coded = code_length(
            released=last.released, batch_index=last.number + 1, spending=settings.spending
        ) + math.log(2.0)
        instead = "" if by == "code" else f" instead of {coded:.3g} by the code"
        notes.append(
            f"the next answer rests on {carried}, {nats:.3g} nats{instead}; both hold at half the "
            "failure probability each, and every answer uses the one that makes it sharper (G9)"
        )
    if last.cells.get("approximate"):
        notes.append(
            "no level of privacy is stated: one record may change a metric without a proven bound "
            "by any amount. Approximate intervals rest on the spread of out-of-fold predictions of "
            "the training set (G34)"
        )
    elif settings.budget is None and settings.tau is None and not model.is_time_ordered:
        ahead = "" if last.closed else "; without a budget they keep growing"
        notes.append(f"privacy levels are those spent so far{ahead}")
    if settings.tau is not None:
        notes.append(_zhao_line(settings, model=model, answered=answered))
    return tuple(notes)


def _zhao_line(settings, *, model, answered):
    """Say whether the premises of Zhao's Theorem 2 hold."""
    tau, threshold = settings.tau, settings.threshold
    c = 2.0 * threshold / tau - 1.0
    n_queries, budget, beta = (settings.parameters[k] for k in ("n_queries", "budget", "beta"))
    needed = zhao_required_n(
        tau=tau, n_queries=n_queries, budget=budget, beta=beta, c=c, model=model, n=settings.n
    )
    said = f"suffices for n_queries={n_queries}"
    if not settings.n >= needed:
        said = "is less, so the theorem gives no guarantee here"
    elif answered >= n_queries:
        said = f"suffices, but n_queries={n_queries} are used up"
    return (
        f"Zhao 2017, Theorem 2, at tau={tau:.3g} and c={c:.3g}: n_#={needed:,.4g} records asked "
        f"for, n={settings.n:,} {said}"
    )


def preview_batch(account, book, *, score, n_train, n_queries=1, metric=None, prevalence=None):
    """Return the :class:`Preview` of a batch as things stand in ``book``.

    ``metric``: whose scores are meant; accuracy by default.
    """
    check_open(book)
    last, code, settings, model = (
        book.last,
        account.code(book),
        account.settings,
        account.dependence,
    )
    note, tail = "", ModelTail(model, settings.n, binary=metric is None or metric.is_binary)
    if metric is not None and not metric.is_mean:
        metric, note = with_prevalence(metric, prevalence, last.shares, settings.n)
        shape = metric.expected_shape(settings.n)
        tail = score_tail(model, settings.n, **dataclasses.asdict(shape))
    length, places = route(last, settings)[0], rank_code_lengths(np.zeros(n_queries))
    deviation = float(tail.standard_deviation(score))
    typical = deviation * math.sqrt(1.0 + settings.n / n_train)
    below, above = settings.noise_margins(last.n_rounds)
    drift = float(code.predict([score])[1][0])
    if settings.is_adaptive:
        pace = pace_of(last, settings, length)
        asked = {"drift": drift, "places": places[0], "alone": n_queries == 1}
        factor = (typical / deviation) ** 2
        fine = fine_half_width(
            pace, code, predictions=score, deviation=tail.standard_deviation, factor=factor, **asked
        )
        coarse = max(fine, pace.coarsely(n_queries) * typical)
        cells = fine + max(below, above), coarse + below
    else:  # in one pass
        threshold = settings.threshold
        if threshold is None:
            threshold = float(auto_threshold(0.5, settings.n_effective, settings.n))
            threshold *= deviation / float(tail.standard_deviation(0.5))
        fine = coarse = max(threshold + below, settings.resolution / 2.0 + above)
        cells = fine, coarse
    side = math.log(settings.sampling_failure / 2.0) - length
    own = zip(cells, (places[0], places[(n_queries - 1) // 2]), strict=True)
    widths = [half_of(tail, score, side - place, known_to) for known_to, place in own]
    # Spent is the entropy of what the batch releases under the code itself.
    expected, weights = 0.0, np.exp(code.log_weights)
    for half, steps, count in ((fine, 200.0, 1), (coarse, 1.0, n_queries - 1)):
        cells = np.arange(-steps, steps + 1.0)
        edges = np.concatenate([[-np.inf], (2.0 * cells[1:] - 1.0) * half + score, [np.inf]])
        at = (one * np.ones(cells.size) for one in (score, typical, drift))
        mass = weights @ code.masses(edges[:-1], edges[1:], *at)
        expected -= count * float((mass * np.log(np.maximum(mass, 1e-300))).sum())
    return Preview(
        n_queries=n_queries,
        score=float(score),
        half_width=float(widths[0]),
        half_width_others=float(widths[1 if n_queries > 1 else 0]),
        code_length=float(length + places[0]),
        expected_spending=float(expected),
        half_width_final=float(
            report_half_width(last, settings, tail, score, n_attempts=len(book.notes(Fact.CLOSING)))
        ),
        note=note,
    )
