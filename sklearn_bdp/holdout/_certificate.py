"""The guarantee of a holdout as it stands, from public numbers only."""

import dataclasses
import math
import warnings

import numpy as np

from sklearn_bdp._checks import caller_level
from sklearn_bdp.accounting import (
    Certificate,
    ModelTail,
    PredictiveCode,
    auto_threshold,
    code_length,
    fine_half_width,
    half_width,
    score_tail,
    zhao_required_n,
)
from sklearn_bdp.correlation import check_correlation
from sklearn_bdp.exceptions import VacuousGuaranteeWarning
from sklearn_bdp.holdout._batch import pace_of, route
from sklearn_bdp.holdout._settings import final_noise, margins
from sklearn_bdp.ledger import BatchRecord, Fact

_GOALS = (0.4, 0.3, 0.2, 0.1, 0.05, 0.02, 0.01)


def _reach(last, settings, code=None):
    """Return the pre-sampling half-width of a lone query near 1/2."""
    z_below, z_above = margins(settings, last.n_rounds)
    threshold = _threshold(last, settings, code)
    cell = threshold if settings.races else settings.resolution / 2.0
    return max(threshold + z_below, cell + z_above)


def warn_if_vacuous(settings, model):
    """Warn where even a first answer near 1/2 would say nothing; return whether it would."""
    last = BatchRecord()
    width = _reach(last, settings) + _sampling(last, settings=settings, model=model)
    if width < 0.5:
        return False
    enough, (count, name) = "", model.units(settings.n)
    if math.isfinite(width):  # intervals shrink with the root of n
        enough = f"About {math.ceil(count * (2 * width) ** 2):,} {name} would do. "
    warnings.warn(
        f"The holdout of {count} {name} is too small: a first score near 1/2 is only known to "
        f"±{min(width, 0.5):.2g}. {enough}plan_holdout computes the number for a given width.",
        VacuousGuaranteeWarning,
        stacklevel=caller_level(),
    )
    return True


def fixed_reach(last, settings, part):
    """Return the pre-sampling half-width where batches are asked in one pass.

    ``part``: deviation of the score as a part of that of a score of 1/2.
    """
    below, above = margins(settings, last.n_rounds)
    threshold = _threshold(last, settings)
    if settings.threshold is None:
        threshold *= part
    return max(threshold + below, settings.resolution / 2.0 + above)


def _sampling(last, *, settings, model):
    level = math.log(settings.sampling_failure) - route(last, settings)[0]
    return float(np.ravel(half_width(level, model, settings.n))[0])


def holdout_certificate(book, account, *, shared):
    """Return the :class:`Certificate` as things stand in ``book``, what can be read of a ledger.

    ``shared``: whether training records may equal holdout records.
    """
    last, settings, model = book.last, account.settings, account.model
    code = account.code(book)
    alpha = _sampling(last, settings=settings, model=model)
    threshold = _threshold(last, settings, code)
    widest = _reach(last, settings, code) + alpha
    dp_epsilon, bdp_epsilon = _levels(last, settings=settings, model=model)
    return Certificate(
        tau=min(1.0, max(widest, last.widest)),
        beta=settings.parameters["beta"],
        route="as used",
        dp_epsilon=dp_epsilon,
        bdp_epsilon=bdp_epsilon,
        n=settings.n,
        n_effective=settings.n_effective,
        sampling=min(1.0, alpha),
        noise=margins(settings, last.n_rounds)[0],
        threshold=threshold,
        mechanism=settings.scales(),
        assumptions=_assumptions(
            last,
            model=model,
            settings=settings,
            kept=_kept(account.path, bool(book.notes(Fact.ANOTHER_ACCOUNT))),
            seeded=account.seed is not None,
            shared=shared,
        ),
        n_queries=settings.parameters["n_queries"],
        budget=settings.budget,
        resolution=settings.resolution,
        correlation=model.describe(),
        target=target_of(model, settings.n),
        n_relaxed=last.n_relaxed,
        # A threshold that was given does not shrink with more records.
        advice=_advice(last, widest, model.units(settings.n)) if settings.threshold is None else (),
        notes=_notes(last, settings=settings, model=model),
        n_answers=last.n_answered,
        next_error=None if last.closed else min(1.0, widest),
        final_error=None
        if last.closed
        else report_half_width(last, settings, ModelTail(model, settings.n), 0.5),
        spending=settings.spending.describe(),
    )


def half_of(tail, score, side, reach=0.0):
    """Return half the distance of the limits for a score that is known up to ``reach``."""
    ends = np.array([max(0.0, score - reach)]), np.array([min(1.0, score + reach)])
    lower, upper = tail.limits(*ends, np.full(1, side), np.full(1, score))
    return 0.5 * float(upper[0] - lower[0])


def report_half_width(last, settings, tail, score):
    """Return the half-width of a final report now, on one score like this, without surprises."""
    model = getattr(tail, "model", None)
    if model is not None and model.is_componentwise and not model.is_independent:
        # A report knows units, not models: of a list, the groups that are independent under each.
        labels = model.components(settings.n)
        tail = dataclasses.replace(tail, model=check_correlation("groups", groups=labels))
    side = math.log(settings.sampling_failure / 2.0) - route(last, settings, report=True)[0]
    reach = margins(settings, last.n_rounds)[1] * final_noise(settings)
    return half_of(tail, score, side, reach)


def width_parts(answer, settings, model):
    """Return why the interval of an answer in [0, 1] is as wide as it is, from its own facts.

    Parts for sampling (one fixed query), for everything else that was asked (its code length), and
    for resolution with noise.
    """
    if not answer.answered or answer.shape is None:
        return None
    tail, half = score_tail(model, settings.n, **answer.shape), 0.5 * (answer.upper - answer.lower)
    side = math.log(settings.sampling_failure / 2.0) - answer.code_length
    fixed = half_of(tail, answer.value, math.log(settings.parameters["beta"] / 2.0))
    asked = half_of(tail, answer.value, side)
    if not asked > 0.0:  # known by construction
        return 0.0, 0.0, half
    known = min(1.0, half / asked)  # where scores vary little, both parts shrink alike (G15)
    return known * fixed, known * (asked - fixed), half - known * asked


def target_of(model, n, ahead=1):
    """Return what intervals refer to; "…, judged …": scores given the past (theory G26).

    ``ahead``: dates from what expectations are given to the score.
    """
    if model.is_given_past:
        own = getattr(model, "chain", model)
        step, known = own.step, "each {} by what was then known"
        if own.horizon > 1:
            known = "by what was known one {} before the outcome"
        if ahead > 1:
            known = "by what was known when the forecast was made"
        return f"these {model.units(n)[0]:,} {step}s, judged {known.format(step)}"
    return "new records like these" if model.target == "new records" else model.target


def _threshold(last, settings, code=None):
    """Return the threshold of a lone query whose prediction is 1/2, the largest there is."""
    if settings.threshold is not None:
        return settings.threshold
    if settings.races:
        code = PredictiveCode() if code is None else code.copy()
        code.begin()
        half = fine_half_width(
            pace_of(last, settings, route(last, settings)[0]),
            code,
            predictions=0.5,
            deviation=lambda _: math.sqrt(0.25 / settings.n_effective),
            factor=2.0,
            drift=code.predict([0.5])[1],
            alone=True,
        )
        return float(np.max(half))
    return float(auto_threshold(0.5, settings.n_effective, settings.n))


def _advice(last, width, units):
    """Return how many more records, or groups, would make the next answer clearly sharper.

    Threshold, sampling error, grid and automatic noise all shrink like ``1 / sqrt(n)``.
    """
    if last.closed:
        return ("The final report closed the holdout: it accepts no new query.",)
    advice = records_for(_GOALS, width, units)
    return (advice,) if advice else ()


def records_for(goals, width, units, span=1.0):
    """Return how many more records, or groups, give the next goal; empty if none is left."""
    goals = [goal for goal in goals if goal <= 0.8 * width]
    if not goals or not math.isfinite(width):  # so few records bound nothing at all
        return ""
    count, name = units
    more = math.ceil(count * (width / goals[0]) ** 2) - count
    return f"about {more:,} more {name} give ±{goals[0] * span:.3g}"


def _levels(last, *, settings, model):
    """Return the DP and BDP levels: for life with a numeric epsilon, else those used so far."""
    if settings.budget is not None and last.dp_epsilon is not None:
        dp_epsilon = settings.mechanism().dp_epsilon(1.0 / settings.n)
    else:
        dp_epsilon = last.dp_epsilon
    if dp_epsilon is None or not math.isfinite(dp_epsilon) or model.is_given_past:
        return math.inf, math.inf
    if dp_epsilon == 0.0:
        return 0.0, 0.0
    return dp_epsilon, float(model.bdp_epsilon(dp_epsilon, settings.n))


def _assumptions(last, *, model, settings, kept, seeded, shared):
    """Return what has to be true, one plain sentence each."""
    lines = [
        "rows are in time order, and which dates are held out did not depend on outcomes"
        if model.is_given_past
        else "the declared correlation is right",
        "training set, models and cross-validated scores are made without the holdout",
        "the queries of one batch are fixed before any of its answers is seen",
        *model.caveats,
    ]
    if shared:
        lines.append(
            "training records that equal holdout records are other records that look the same "
            "(allowed by allow_shared_rows)"
        )
    if last.cells.get("pairs"):
        lines.append("records of one class are identically distributed (for ROC AUC)")
    if settings.cut_failure > 0:
        lines.append(
            "the holdout was cut from the sequence of the training data with the declared gap "
            f"({settings.cut_failure:.2g} of beta pays for it)"
        )
    lines.extend(kept)
    if seeded or last.seeded:
        lines.append(
            "fixed random_state, for tests only: no one who queries the holdout knows the seed, "
            "which reveals the noise"
        )
    return tuple(lines)


def _kept(ledger, another):
    """Return what has to be true of other accounts of the same records."""
    if ledger is not None:
        return ()
    if another:
        return (
            "kept in memory only, and another account had answered about the same targets in this "
            "process before: no query here (features, candidates) was chosen from its answers or "
            "on these records (pass holdout= on to keep both in one ledger)",
        )
    return (
        "kept in memory only: no other holdout is made of these records, now or later (give a "
        "ledger to enforce this)",
    )


def _notes(last, *, settings, model):
    """Return what else the reader must know."""
    answered, above, batches = last.n_answered, last.n_above, last.number
    notes = [
        f"charged as used. Answers: {answered:,}, batches: {batches:,}, corrected by the holdout: "
        f"{above:,}. A score near an end of its range has a narrower interval"
    ]
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
    if settings.budget is None and settings.tau is None and not model.is_given_past:
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
    line = (
        f"Zhao 2017, Theorem 2, at tau={tau:.3g} and c={c:.3g}: "
        f"n_#={needed:,.4g} records asked for, "
    )
    if not settings.n >= needed:
        return line + f"n={settings.n:,} is less, so the theorem gives no guarantee here"
    if answered >= n_queries:
        return line + f"n={settings.n:,} suffices, but n_queries={n_queries} are used up"
    return line + f"n={settings.n:,} suffices for n_queries={n_queries}"
