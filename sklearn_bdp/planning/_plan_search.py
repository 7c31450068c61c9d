"""How large a holdout a year of searches needs, charged as used (theory G2′)."""

import math

import numpy as np

from sklearn_bdp._checks import check_integer, check_probability, check_real
from sklearn_bdp.accounting import (
    NOISE_PART,
    DecisionCode,
    answer_intervals,
    auto_resolution,
    auto_scales,
    auto_threshold,
    code_length,
    noise_margin,
    noise_share,
    value_code,
)
from sklearn_bdp.correlation import check_correlation
from sklearn_bdp.planning._replicated import sized
from sklearn_bdp.planning._task import remaining_failure

__all__ = ["expected_half_width", "plan_search"]


def plan_search(
    *,
    tau,
    n_candidates=100,
    n_searches=10,
    score=0.9,
    n_corrections=3,
    beta=0.05,
    correlation=None,
):
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
    Theory G2′, G4, G5; compare ``benchmarks/simulate_year.py``.

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
        "correlation": sized(check_correlation(correlation)),
    }
    high = 2
    while not expected_half_width(high, **year) <= tau:
        high *= 2
        if high > 10**12:
            raise ValueError(f"no number of records suffices for tau={tau!r}.")
    low = high // 2
    while high - low > max(1, high // 1000):
        middle = (low + high) // 2
        if expected_half_width(middle, **year) <= tau:
            high = middle
        else:
            low = middle
    return high


def expected_half_width(
    n, *, n_candidates, n_searches, score, n_corrections, beta=0.05, correlation=None
):
    """Return the half-width that :func:`plan_search` forecasts for ``n`` records.

    Parameters
    ----------
    n : int
        Holdout records.
    n_candidates, n_searches, score, n_corrections, beta, correlation : object
        As for :func:`plan_search`; ``correlation`` may be a model of any size.

    Returns
    -------
    float
        Half-width of the interval of the selected candidate of the last search.
    """
    n = check_integer("n", n, low=1)
    m = check_integer("n_candidates", n_candidates, low=1)
    searches = check_integer("n_searches", n_searches, low=1)
    above = check_integer("n_corrections", n_corrections, low=0)
    value = check_real("score", score, low=0.0, high=1.0)
    model = (
        correlation if hasattr(correlation, "misspecification") else check_correlation(correlation)
    )
    left = remaining_failure(check_probability("beta", beta), model)
    failure, share = (1.0 - NOISE_PART) * left, noise_share(NOISE_PART * left, 0) / 2.0
    size = float(model.effective_n(n))
    before = (searches - 1) * m
    above = min(above, before)
    resolution = 1.0 / math.ceil(1.0 / auto_resolution(size, beta=beta))
    threshold = float(auto_threshold(np.full(m, value), size, n)[0])
    decisions = DecisionCode()
    decisions.update(np.arange(before) < above)
    released = float(np.clip(value - 1.5 * threshold, 0.0, 1.0))
    length = code_length(
        n_answered=before,
        n_above=above,
        value_nats=above * value_code(value, released, resolution=resolution, scale=threshold),
        batch_size=m,
        batch_index=searches,
        decisions=decisions.nats,
    )
    threshold_scale, query_scale, _ = auto_scales(size, failure=share, beta=beta)
    margin = noise_margin(
        failure=noise_share(NOISE_PART * left, above) / 2.0,
        threshold_scale=threshold_scale,
        query_scale=query_scale,
    )
    lower, upper = answer_intervals(
        [value], threshold + margin, code_length=length, failure=failure, model=model, n=n
    )
    return float(upper[0] - lower[0]) / 2.0
