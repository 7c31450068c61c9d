"""Certificate of a holdout and preview of its next batch, from public numbers."""

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
from sklearn_bdp.release.batch_context import cell_width_policy, next_code_length
from sklearn_bdp.release.class_proportions import with_prevalence
from sklearn_bdp.release.graded_release import fine_half_width
from sklearn_bdp.utils.html import Card, RenderedResult
from sklearn_bdp.utils.validation import caller_level

_GOALS = (0.4, 0.3, 0.2, 0.1, 0.05, 0.02, 0.01)


def check_open(book):
    """Raise HoldoutClosedError after a final report."""
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
        title = (
            f"{self.n_queries:,} queries at scores near {self.score:.3g}: about "
            f"±{self.half_width:.3g} for the selected one, about ±{self.half_width_others:.3g} for "
            "the others."
        )
        if self.n_queries == 1:
            title = f"1 query at a score near {self.score:.3g}: about ±{self.half_width:.3g}."
        return Card(
            title,
            [
                f"Expected spending: {self.expected_spending:.2g} nats. A final report now: about "
                f"±{self.half_width_final:.3g}.{self.note}"
            ],
        )


def _single_query_half_width(last, settings, model, code=None):
    """Return threshold, pre-sampling half-width and sampling half-width of a single query near 1/2.

    No other score has a larger threshold.
    """
    length = next_code_length(last, settings)[0]
    below, above = settings.noise_margins(last.n_rounds)
    if settings.threshold is not None:
        threshold = settings.threshold
    elif settings.is_adaptive:
        code = PredictiveCode() if code is None else code.copy()
        code.start_batch()
        half = fine_half_width(
            cell_width_policy(last, settings, length),
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
    """Warn if even the interval of a first score near 1/2 is [0, 1]; return whether it is."""
    width = sum(_single_query_half_width(BatchRecord(), settings, model)[1:])
    if width < 0.5:
        return False
    required_text = ""
    count, name = model.units(settings.n)
    if math.isfinite(width):  # intervals shrink with the root of n
        required_text = f"About {math.ceil(count * (2 * width) ** 2):,} {name} would do. "
    warnings.warn(
        f"The holdout of {count} {name} is too small: a first score near 1/2 is only known to "
        f"±{min(width, 0.5):.2g}. {required_text}plan_holdout computes the number for a given "
        "width.",
        UninformativeIntervalWarning,
        stacklevel=caller_level(),
    )
    return True


def holdout_certificate(account: Any, book: Any) -> Certificate:
    """Return the current guarantee; ``book``: the state of the ledger."""
    last = book.last
    settings = account.settings
    model = account.dependence
    threshold, margin, sampling = _single_query_half_width(
        last, settings, model, account.code(book)
    )
    widest = margin + sampling
    advice = ""
    n_unfinished = len(book.notes(Fact.CLOSING)) - int(last.closed)
    if settings.threshold is None:  # a fixed threshold does not shrink with more records
        # Threshold, sampling error, grid and automatic noise all shrink like 1 / sqrt(n).
        advice = records_for(_GOALS, widest, model.units(settings.n))
        if last.closed:
            advice = "The final report closed the holdout: it accepts no new query."
    # With a numeric epsilon, levels for the life of the holdout, else those used so far.
    dp_epsilon = last.dp_epsilon
    bdp_epsilon = math.inf
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
    interval_types = [answer.interval for answer in book.history()]
    return interval_types.count("approximate"), interval_types.count("none")


def report_half_width(last, settings, tail, score, *, n_attempts):
    """Return the half-width of a final report now, on one score like this, without surprises.

    ``n_attempts``: at a final report that did not finish.
    """
    model = getattr(tail, "model", None)
    if model is not None and model.is_componentwise and not model.is_independent:
        # A report uses units, not models: for a list, the groups independent under all models.
        labels = model.components(settings.n)
        tail = dataclasses.replace(tail, model=check_correlation("groups", groups=labels))
    length, _ = next_code_length(last, settings, report=True, n_attempts=n_attempts)
    log_level = math.log(settings.sampling_failure / 2.0) - length
    margin = settings.noise_margins(last.n_rounds)[1] * settings.final_noise_ratio
    return half_of(tail, score, log_level, margin)


def width_parts(answer, settings, model):
    """Return the parts of the half-width of an answer in [0, 1], from its own record.

    Parts for sampling (one fixed query), for all other queries (its code length), and for
    resolution with noise.
    """
    if not answer.answered or answer.shape is None:
        return None
    tail = score_tail(model, settings.n, **answer.shape)
    half = 0.5 * (answer.upper - answer.lower)
    log_level = math.log(settings.sampling_failure / 2.0) - answer.code_length
    half_of_one_query = half_of(tail, answer.value, math.log(settings.beta / 2.0))
    half_after_queries = half_of(tail, answer.value, log_level)
    if not half_after_queries > 0.0:  # known by construction
        return 0.0, 0.0, half
    # If scores vary little, both parts shrink by the same factor (G15).
    shrinkage = min(1.0, half / half_after_queries)
    sampling = shrinkage * half_of_one_query
    adaptivity = shrinkage * (half_after_queries - half_of_one_query)
    return sampling, adaptivity, half - shrinkage * half_after_queries


def target_of(model, n, ahead=1):
    """Return the target of intervals; "…, judged …": scores given the past (theory G26).

    ``ahead``: dates from the conditioning date to the score.
    """
    if model.is_time_ordered:
        dates = getattr(model, "chain", model)
        step = dates.step
        condition = "each {} by what was then known"
        if dates.horizon > 1:
            condition = "by what was known one {} before the outcome"
        if ahead > 1:
            condition = "by what was known when the forecast was made"
        return f"these {model.units(n)[0]:,} {step}s, judged {condition.format(step)}"
    return "new records like these" if model.target == "new records" else model.target


def records_for(goals, width, units, span=1.0):
    """Return a text on the additional records, or groups, for the next goal; else empty."""
    goals = [goal for goal in goals if goal <= 0.8 * width]
    if not goals or not math.isfinite(width):  # too few records for any bound
        return ""
    count, name = units
    n_missing = math.ceil(count * (width / goals[0]) ** 2) - count
    return f"about {n_missing:,} more {name} give ±{goals[0] * span:.3g}"


def _assumptions(account, book):
    """Return the assumptions, one plain sentence each."""
    last = book.last
    settings = account.settings
    model = account.dependence
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
    """Return further notes for the reader of a certificate."""
    notes = [
        f"charged as used. Answers: {last.n_answered:,}, batches: {last.number:,}, corrected by "
        f"the holdout: {last.n_above:,}. A score near an end of its range has a narrower interval"
    ]
    if n_unfinished:
        notes.append(
            f"final reports that were begun and did not finish: {n_unfinished:,}. Nothing of them "
            "was released, and how they ended is charged (G35)"
        )
    if settings.information is not None:
        nats, by = next_code_length(last, settings)
        carried = {
            "code": "the code of what was released (G7)",
            "leakage": "leakage, that is Bayesian differential privacy (G1)",
        }[by]
        coded = code_length(
            released=last.released, batch_index=last.number + 1, spending=settings.spending
        ) + math.log(2.0)
        comparison = "" if by == "code" else f" instead of {coded:.3g} by the code"
        notes.append(
            f"the next answer rests on {carried}, {nats:.3g} nats{comparison}; both hold at half "
            "the failure probability each, and every answer uses the one that makes it sharper (G9)"
        )
    if last.cells.get("approximate"):
        notes.append(
            "no level of privacy is stated: one record may change a metric without a proven bound "
            "by any amount. Approximate intervals rest on the spread of out-of-fold predictions of "
            "the training set (G34)"
        )
    elif settings.budget is None and settings.tau is None and not model.is_time_ordered:
        continuation = "" if last.closed else "; without a budget they keep growing"
        notes.append(f"privacy levels are those spent so far{continuation}")
    if settings.tau is not None:
        notes.append(_zhao_line(settings, model=model, answered=last.n_answered))
    return tuple(notes)


def _zhao_line(settings, *, model, answered):
    """Return a sentence on the premises of Zhao's Theorem 2."""
    tau = settings.tau
    c = 2.0 * settings.threshold / tau - 1.0
    n_queries = settings.parameters["n_queries"]
    required_n = zhao_required_n(
        tau=tau,
        n_queries=n_queries,
        budget=settings.parameters["budget"],
        beta=settings.parameters["beta"],
        c=c,
        model=model,
        n=settings.n,
    )
    conclusion = f"suffices for n_queries={n_queries}"
    if not settings.n >= required_n:
        conclusion = "is less, so the theorem gives no guarantee here"
    elif answered >= n_queries:
        conclusion = f"suffices, but n_queries={n_queries} are used up"
    return (
        f"Zhao 2017, Theorem 2, at tau={tau:.3g} and c={c:.3g}: n_#={required_n:,.4g} records "
        f"asked for, n={settings.n:,} {conclusion}"
    )


def preview_batch(account, book, *, score, n_train, n_queries=1, metric=None, prevalence=None):
    """Return the :class:`Preview` of a batch; ``book``: the state of the ledger.

    ``metric``: the metric of the scores, accuracy by default.
    """
    check_open(book)
    last = book.last
    code = account.code(book)
    settings = account.settings
    model = account.dependence
    note = ""
    tail = ModelTail(model, settings.n, binary=metric is None or metric.is_binary)
    if metric is not None and not metric.is_mean:
        metric, note = with_prevalence(metric, prevalence, last.shares, settings.n)
        shape = metric.expected_shape(settings.n)
        tail = score_tail(model, settings.n, **dataclasses.asdict(shape))
    length = next_code_length(last, settings)[0]
    rank_lengths = rank_code_lengths(np.zeros(n_queries))
    deviation = float(tail.standard_deviation(score))
    typical = deviation * math.sqrt(1.0 + settings.n / n_train)
    below, above = settings.noise_margins(last.n_rounds)
    drift = float(code.predict([score])[1][0])
    if settings.is_adaptive:
        pace = cell_width_policy(last, settings, length)
        fine = fine_half_width(
            pace,
            code,
            predictions=score,
            deviation=tail.standard_deviation,
            factor=(typical / deviation) ** 2,
            drift=drift,
            places=rank_lengths[0],
            alone=n_queries == 1,
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
    log_level = math.log(settings.sampling_failure / 2.0) - length
    widths = [
        half_of(tail, score, log_level - rank_length, half)
        for half, rank_length in zip(
            cells, (rank_lengths[0], rank_lengths[(n_queries - 1) // 2]), strict=True
        )
    ]
    # The expected spending is the entropy of the released cells under the code itself.
    expected = 0.0
    weights = np.exp(code.log_weights)
    for half, steps, count in ((fine, 200.0, 1), (coarse, 1.0, n_queries - 1)):
        cells = np.arange(-steps, steps + 1.0)
        edges = np.concatenate([[-np.inf], (2.0 * cells[1:] - 1.0) * half + score, [np.inf]])
        predicted = (parameter * np.ones(cells.size) for parameter in (score, typical, drift))
        mass = weights @ code.masses(edges[:-1], edges[1:], *predicted)
        expected -= count * float((mass * np.log(np.maximum(mass, 1e-300))).sum())
    return Preview(
        n_queries=n_queries,
        score=float(score),
        half_width=float(widths[0]),
        half_width_others=float(widths[1 if n_queries > 1 else 0]),
        code_length=float(length + rank_lengths[0]),
        expected_spending=float(expected),
        half_width_final=float(
            report_half_width(last, settings, tail, score, n_attempts=len(book.notes(Fact.CLOSING)))
        ),
        note=note,
    )
