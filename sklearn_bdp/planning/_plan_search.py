"""How large a holdout a year of searches needs, charged as used (theory G7)."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from sklearn_bdp._bisection import doubled, last_whole
from sklearn_bdp._checks import check_beta, check_integer, check_real
from sklearn_bdp.accounting import (
    NOISE_PART,
    BatchQueries,
    ModelTail,
    PredictiveCode,
    Reply,
    answer_margin,
    auto_scales,
    code_length,
    noise_margin,
    noise_share,
    play_batch,
)
from sklearn_bdp.correlation import check_correlation
from sklearn_bdp.planning._models import continued, remaining_failure

_PLAYED = 12  # searches played one by one; later ones are like the last of them


def plan_search(
    *,
    tau: float,
    n_candidates: int = 100,
    n_searches: int = 10,
    score: float = 0.9,
    n_corrections: int = 3,
    beta: float = 0.05,
    correlation: Any = None,
) -> int:
    r"""Smallest holdout for which a year of searches ends with a narrow interval.

    A forecast, not a certificate: :class:`~sklearn_bdp.ReusableHoldout` charges each answer as
    used, so its intervals depend on how often the training side is wrong. Whatever happens, the
    intervals hold; this says how wide the one of the selected candidate will be when
    ``n_corrections`` answers had to come from the holdout.

    Parameters
    ----------
    tau : float
        Half-width wanted for the selected candidate of the last search, in (0, 0.5).
    n_candidates : int, default=100
        Candidates of each search, asked as one batch.
    n_searches : int, default=10
        Searches, each built on the results of those before.
    score : float, default=0.9
        Score of the selected candidate, in [0, 1]: the nearer to 0 or 1, the narrower.
    n_corrections : int, default=3
        Answers from the holdout before the last search.
    beta : float, default=0.05
        Failure probability of all intervals together.
    correlation : object, default=None
        Anything :func:`~sklearn_bdp.correlation.check_correlation` takes.

    Returns
    -------
    int
        Number of holdout records.

    Raises
    ------
    TypeError, ValueError
        If a parameter is outside its range, or no number of records up to 10^12 suffices.

    References
    ----------
    Theory G7; compare ``benchmarks/simulate_year.py``.

    Examples
    --------
    >>> from sklearn_bdp.planning import plan_holdout, plan_search
    >>> n = plan_search(tau=0.05, n_candidates=100, n_searches=10)
    >>> n < plan_holdout(tau=0.05, n_queries=1000, budget=3) / 10
    True
    """
    tau = check_real("tau", tau, low=0.0, high=0.5, closed="neither")
    year = {
        "n_candidates": n_candidates,
        "n_searches": n_searches,
        "score": score,
        "n_corrections": n_corrections,
        "beta": beta,
        "correlation": continued(correlation),
    }
    enough = lambda n: expected_half_width(n, **year) <= tau  # noqa: E731
    bracket = doubled(enough, 2, most=10**12)
    if bracket is None:
        raise ValueError(f"no number of records suffices for tau={tau!r}.")
    return last_whole(enough, *bracket, fine=1e-3)


def expected_half_width(
    n: int,
    *,
    n_candidates: Any,
    n_searches: Any,
    score: Any,
    n_corrections: Any,
    beta: Any = 0.05,
    correlation: Any = None,
) -> float:
    """Return the half-width that :func:`plan_search` forecasts for ``n`` records.

    It is that of the interval of the selected candidate of the last search, in score units; the
    correlation may be a model of any size.
    """
    n = check_integer("n", n, low=1)
    m = check_integer("n_candidates", n_candidates, low=1)
    searches = check_integer("n_searches", n_searches, low=1)
    above = check_integer("n_corrections", n_corrections, low=0)
    value = check_real("score", score, low=0.0, high=1.0)
    model = (
        correlation if hasattr(correlation, "misspecification") else check_correlation(correlation)
    )
    left = remaining_failure(check_beta(beta), model)
    tail, code, released, rounds = ModelTail(model, n), PredictiveCode(), 0.0, 0
    margins = _margins(model, n, beta=beta, failure=NOISE_PART * left)
    surprises = _surprises(value, min(above, searches * m - 1))
    played = min(searches, _PLAYED)
    for _ in range(played):
        training = np.full(m, value)
        wrong, surprises = surprises[: m - 1], surprises[m - 1 :]
        training[m - wrong.size :] = wrong
        outcome = _play(training, value, code, tail=tail, margins=margins, rounds=rounds)
        earlier, released = released, released + outcome.released
        rounds += outcome.n_above
    # Later searches go on as the last one that was played.
    earlier += (searches - played) * outcome.released
    length = code_length(released=earlier, batch_index=searches)
    side = math.log((1.0 - NOISE_PART) * left / 2.0) - length - outcome.places
    lower = tail.lower_limit(outcome.least, side)
    upper = tail.upper_limit(outcome.most, side)
    return float((upper - lower).min()) / 2.0


def _margins(model, n, *, beta, failure):
    """Return the noise margins of a holdout by round."""
    scales = auto_scales(
        float(model.effective_n(n)), failure=noise_share(failure, 0) / 2.0, beta=beta
    )

    def margins(n_above):
        share = noise_share(failure, n_above) / 2.0
        below = noise_margin(failure=share, threshold_scale=scales[0], query_scale=scales[1])
        return below, answer_margin(failure=share, answer_scale=scales[2])

    return functools.cache(margins)


def _surprises(score, count):
    """Return training-side values that are far off, and apart so that none foretells another."""
    spread = np.arange(1, 4 * count + 20) * 0.6180339887498949 % 1.0
    return spread[np.abs(spread - score) > 0.3][:count]


def _play(training, value, code, *, tail, margins, rounds):
    """Play one search in which every candidate scores ``value``, without noise."""
    queries = BatchQueries(
        training_values=training,
        slacks=np.zeros(training.size),
        sensitivities=np.ones(training.size),
        training_factors=np.full(training.size, 2.0),
        deviation=lambda positions, predictions: tail.standard_deviation(predictions),
    )
    game = play_batch(queries, code, margins=margins, n_above=rounds)
    try:
        asked = next(game)
        while True:
            far = np.abs(asked.predictions - value) > asked.thresholds
            at = int(np.argmax(far)) if far.any() else far.size - 1
            cell = asked.cells(at).place(value) if far.any() else None
            asked = game.send(Reply(at + 1, cell))
    except StopIteration as end:
        return end.value
