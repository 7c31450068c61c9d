"""What leakage and noise add to an error, and the public choices made for the user.

From leakage to generalization (G1, G2) and the margins of noise (N1-N3), one function each; the
theorems of Zhao 2017 to the letter: Theorem 1's (7) and (8), Theorem 2 (theory G3); thresholds,
grid and noise scales. ``benchmarks/simulate_year.py`` plays a year of ten adaptive searches and
prints the widths for other values of every constant below.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from scipy.special import gammaln, logsumexp, ndtri
from scipy.stats import norm

from sklearn_bdp._typing import Array, FloatOrArray
from sklearn_bdp.correlation.base import Bound, CorrelationModel
from sklearn_bdp.utils.root_finding import crossing
from sklearn_bdp.utils.validation import (
    check_array,
    check_integer,
    check_option,
    check_probability,
    check_real,
)

_NOISES = ("laplace", "gaussian")


def _laplace_tail(u, ratio):
    """Return ln P[N + ratio N' > u] for Laplace noises of scale 1, ``ratio`` at most 1; its slope.

    Concave in ``u``. For scales that are nearly alike an upper bound, tight to 1e-6.
    """
    if 1.0 - ratio < 1e-6:
        return math.log((2.0 + u) / 4.0) - u, 1.0 / (2.0 + u) - 1.0
    # (e^{−u} − r² e^{−u/r}) / (2(1 − r²)); for r near 0 the second term is none.
    part = ratio**2 * math.exp(u - u / ratio) if ratio > 1e-150 else 0.0
    slope = part * (1.0 / ratio - 1.0) / (1.0 - part) - 1.0 if part else -1.0
    return math.log1p(-part) - u - math.log(2.0 * (1.0 - ratio) * (1.0 + ratio)), slope


def noise_margin(
    *,
    failure: float,
    threshold_scale: float,
    query_scale: float,
    noise: Literal["laplace", "gaussian"] = "laplace",
) -> float:
    r"""Smallest ``z`` with :math:`P[N_T + N_q > z] \le` ``failure`` (theory N1, N2).

    Parameters
    ----------
    failure : float
        Probability that may be spent, in (0, 1).
    threshold_scale, query_scale : float
        Laplace scales, or standard deviations for Gaussian noise. 0 means none.
    noise : {"laplace", "gaussian"}
        Distribution of the noise.

    Returns
    -------
    float
        Margin of a "below" answer, in score units.

    Examples
    --------
    >>> noise_margin(failure=0.01, threshold_scale=0.0, query_scale=0.0)
    0.0
    >>> round(noise_margin(failure=0.01, threshold_scale=0.01, query_scale=0.01), 4)
    0.0519
    """
    check_option("noise", noise, _NOISES)
    level = check_real("failure", failure, low=0.0, high=1.0, closed="neither")
    s_t = check_real("threshold_scale", threshold_scale, low=0.0)
    s_q = check_real("query_scale", query_scale, low=0.0)
    if max(s_t, s_q) == 0.0 or level >= 0.5:
        return 0.0
    if noise == "gaussian":
        return float(math.hypot(s_t, s_q) * norm.isf(level))
    big, ratio, target = max(s_t, s_q), min(s_t, s_q) / max(s_t, s_q), math.log(level)
    # Newton on the concave log tail: from the side where it is at most the level no step leaves
    # that side. Rounding may, so that a margin is returned only after it was tried.
    start = u = 2.0 - 2.0 * target
    for _ in range(60):
        value, slope = _laplace_tail(u, ratio)
        u -= (value - target) / slope
        if abs(value - target) < 1e-12 * u * -slope:
            break
    for guard in (1e-12, 1e-9, 1e-6):
        if _laplace_tail(u * (1.0 + guard), ratio)[0] <= target:
            return big * u * (1.0 + guard)
    return big * start


def answer_margin(
    *, failure: float, answer_scale: float, noise: Literal["laplace", "gaussian"] = "laplace"
) -> float:
    r"""Smallest ``z`` with :math:`P[|N_a| > z] \le` ``failure`` (theory N1).

    Parameters
    ----------
    failure : float
        Probability that may be spent, in (0, 1).
    answer_scale : float
        Laplace scale, or standard deviation for Gaussian noise. 0 means none.
    noise : {"laplace", "gaussian"}
        Distribution of the noise.

    Returns
    -------
    float
        Margin of an "above" answer, rounding not included, in score units.

    Examples
    --------
    >>> from sklearn_bdp.accounting.noise_calibration import answer_margin
    >>> round(answer_margin(failure=0.001, answer_scale=0.002), 4)
    0.0138
    """
    check_option("noise", noise, _NOISES)
    level = check_real("failure", failure, low=0.0, high=1.0, closed="neither")
    scale = check_real("answer_scale", answer_scale, low=0.0)
    if scale == 0.0:
        return 0.0
    if noise == "gaussian":
        return float(scale * norm.isf(level / 2.0))
    return -scale * math.log(level)


def noise_share(failure: float, n_above: FloatOrArray) -> Any:
    r"""Return the failure probability of the round after ``n_above`` others (theory N3).

    The shares ``failure / ((b+1)(b+2))`` of all rounds ``b = 0, 1, ...`` sum to ``failure``, so no
    budget has to be declared.

    Parameters
    ----------
    failure : float
        Failure probability of the noise over the whole life of the holdout, in (0, 1).
    n_above : int or array of int
        Rounds spent, 0 for the first.

    Returns
    -------
    float or ndarray
        The share.

    Examples
    --------
    >>> from sklearn_bdp.accounting.noise_calibration import noise_share
    >>> [noise_share(0.012, rounds) for rounds in (0, 1, 2)]
    [0.006, 0.002, 0.001]
    """
    level = check_real("failure", failure, low=0.0, high=1.0, closed="neither")
    spent = check_array("n_above", n_above, low=0.0)
    share = level / ((spent + 1.0) * (spent + 2.0))
    return float(share) if share.ndim == 0 else share


def sampling_half_width(
    n_effective: float, *, log_failure: float, n_queries: float, information: float = 0.0
) -> float:
    """Return the half-width that any of ``n_queries`` adaptive queries exceeds with a probability.

    ``ln p_0(α) = ln 2 − 2 n_eff α²`` for a fixed query, with a union over queries.
    ``log_failure`` is the log of the probability. ``information`` is K of theory G1 in nats, 0 for
    queries fixed in advance. The half-width is in score units and may exceed 1.
    """
    # √L = √K + √ln(1/failure), then p_0(α) · n_queries = e^{−L}.
    level = math.sqrt(information) + math.sqrt(-log_failure)
    return math.sqrt((level**2 + math.log(2.0 * n_queries)) / (2.0 * n_effective))


def log_transcripts(n_queries: int, budget: int, n_values: int) -> float:
    r"""Log of the number of distinct queries an adaptive analyst can reach (theory G2).

    .. math:: N = \sum_{b<B} V^b \binom{m}{b+1}

    for :math:`m` queries, a budget of :math:`B` "above" answers and :math:`V` values that one can
    take. Cf. the description-length argument of Dwork et al. 2015, Section 3.
    """
    m = check_integer("n_queries", n_queries, low=1)
    rounds = min(check_integer("budget", budget, low=1), m)
    values = check_integer("n_values", n_values, low=1)
    if rounds <= 20_000:
        b = np.arange(rounds, dtype=float)
        terms = b * math.log(values) + log_binomials(m, rounds + 1)[1:]
        return float(logsumexp(terms))
    # Many rounds: b V^b C(m, b+1) ≤ (largest term) · rounds; the largest by bisection of the ratio
    # V (m−b−1)/(b+2) ≥ 1, which falls with b.
    turn = min(rounds - 1, max(0, math.ceil((values * (m - 1.0) - 2.0) / (values + 1.0))))
    binomial = gammaln(m + 1.0) - gammaln(turn + 2.0) - gammaln(m - turn + 0.0)
    largest = turn * math.log(values) + binomial + 1e-9 * m  # the last term: rounding of gammaln
    return largest + math.log(rounds)


def log_binomials(m: int, count: int) -> Array:
    """Return ``ln C(m, b)`` for ``b = 0 … count - 1``, minus infinity where ``b > m``.

    By summation: gamma functions of a large ``m`` would cancel, and too small a count would be
    unsafe.
    """
    i = np.arange(max(count - 1, 0), dtype=float)
    with np.errstate(divide="ignore"):
        steps = np.log(np.maximum(m - i, 0.0)) - np.log(i + 1.0)
    return np.concatenate([[0.0], np.cumsum(steps)])[:count]


def zhao_premise(
    *,
    tau: float,
    budget: int,
    sigma: float,
    beta: float,
    model: CorrelationModel,
    n: int | None = None,
    method: Bound = "quilt",
) -> float:
    r"""Return the records that Theorem 1 of Zhao 2017 needs: (8), or (7) by ``"blanket"``.

    .. math:: n_\# = \max\Big\{\frac{9\ln(4/\beta)}{\tau^2},\; \max_i\min_Q
       \frac{9B(|N_i|+1)}{4\sigma(\tau/3 - 4b_i)}\Big\}, \qquad
       n_* = \max\Big\{\frac{9\ln(4/\beta)}{\tau^2},\; \max_i
       \frac{9B}{4\sigma(\tau/3 - 4a_i)}\Big\}

    The second terms are :math:`9B/(4\sigma\varepsilon')` with the DP level :math:`\varepsilon'`
    that Lemma 2 (Lemma 3) gives for the BDP level :math:`\tau/3`; denominators must be positive.
    The theorem concludes ``|q(X) - q(P)| < tau``. It is false as stated: the premise can hold while
    ``q(X)`` does not concentrate at all (see the errata).

    Parameters
    ----------
    tau : float
        Tolerance.
    budget : int
        B.
    sigma : float
        σ of Algorithm 1 (noises σ, 2σ, 4σ).
    beta : float
        Failure probability of one query, in (0, 1).
    model : CorrelationModel
        How the records are correlated.
    n : int or None
        Number of records for models tied to them; ``None``: any, large enough for the lemma.
    method : {"quilt", "blanket", "spectral"}
        Lemma 2 of the paper, that is (8); Lemma 3, that is (7); or Lemma 4, an alternative for
        reversible chains.

    Returns
    -------
    float
        The premise reads ``n >=`` this; not rounded, ``inf`` when no positive level suffices.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range or the lemma does not apply to the model.

    References
    ----------
    Zhao 2017, Theorem 1, (7) and (8), and Lemmas 2-4.

    Examples
    --------
    >>> from sklearn_bdp.correlation import Independent
    >>> round(zhao_premise(tau=0.1, sigma=0.5, budget=1, beta=0.05, model=Independent()))
    3944
    """
    tau = check_real("tau", tau, low=0.0, closed="neither")
    sigma = check_real("sigma", sigma, low=0.0, closed="neither")
    rounds = check_integer("budget", budget, low=1)
    beta = check_probability("beta", beta)
    check_option("method", method, ("quilt", "blanket", "spectral"))
    # The lemmas do not depend on n beyond n >= 2d.
    size = next(one for one in (n, model.n_records, 10**9) if one is not None)
    level = float(model.dp_epsilon(tau / 3.0, size, method=method))
    if level == 0.0:
        return math.inf
    return max(9.0 * math.log(4.0 / beta) / tau**2, 9.0 * rounds / (4.0 * sigma * level))


def zhao_required_n(
    *,
    tau: float,
    n_queries: int,
    budget: int,
    beta: float = 0.05,
    c: float = 0.5,
    model: CorrelationModel,
    n: int | None = None,
    method: Bound = "quilt",
) -> float:
    r"""Return the records that Theorem 2 of Zhao 2017 needs.

    .. math:: n_\#\Big(B,\; \frac{(1-c)\tau}{12\ln(4m/\beta)},\; \frac{(1-c)\tau}{4},\;
       \frac{\beta}{2m}\Big)

    with :math:`n_\#` of Theorem 1. ((31) of the paper prints this expression without putting the
    arguments in; the theorem's condition is the one meant.)

    Parameters
    ----------
    tau : float
        Wanted error, in (0, 1].
    n_queries : int
        Queries m.
    budget : int
        Answers from the holdout, B.
    beta : float
        Failure probability over all answers together.
    c : float
        Budget honesty, any number in (0, 1).
    model, n, method : object
        As for :func:`zhao_premise`.

    Returns
    -------
    float
        :math:`n_\#`, not rounded; ``inf`` when no positive level suffices.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range or the lemma does not apply to the model.

    References
    ----------
    Zhao 2017, Theorem 2 and Lemmas 2-4. Its proof rests on Theorem 1; see the errata.

    Examples
    --------
    >>> from sklearn_bdp.correlation import Independent, MarkovChain
    >>> round(zhao_required_n(tau=0.1, n_queries=100, budget=1, model=Independent()))
    1164741
    >>> chain = MarkovChain([[0.9, 0.1], [0.2, 0.8]])
    >>> print(f"{zhao_required_n(tau=0.1, n_queries=100, budget=1, model=chain):.3g}")
    7.82e+07
    """
    tau = check_real("tau", tau, low=0.0, high=1.0, closed="right")
    m = check_integer("n_queries", n_queries, low=1)
    beta, c = check_probability("beta", beta), check_probability("c", c)
    return zhao_premise(
        tau=(1.0 - c) * tau / 4.0,
        budget=budget,
        sigma=(1.0 - c) * tau / (12.0 * math.log(4.0 * m / beta)),
        beta=beta / (2.0 * m),
        model=model,
        n=n,
        method=method,
    )


def zhao_accuracy(n, *, n_queries, budget, beta, model, c=0.5, threshold=None):
    r"""Smallest τ that Theorem 2 promises with ``n`` records, and its c.

    :math:`n_\#` depends on :math:`u = (1-c)\tau` only. For a given threshold :math:`T =
    (1+c)\tau/2` the largest c with :math:`n_\# \le n` is the sharpest choice: :math:`c =
    (2T-u)/(2T+u)` at the smallest u; any c in (0, 1) will do without one. τ is infinite where the
    theorem promises nothing up to 1.

    Examples
    --------
    >>> from sklearn_bdp.correlation import Independent
    >>> common = {"n_queries": 100, "budget": 1, "beta": 0.05, "model": Independent()}
    >>> tau, c = zhao_accuracy(1_164_742, **common)
    >>> print(f"{tau:.3f} {c}")
    0.100 0.5
    >>> tau, c = zhao_accuracy(1_164_742, threshold=0.1, **common)
    >>> print(f"{tau:.3f} {c:.3f}")
    0.125 0.600
    """
    c = check_probability("c", c)
    tiny = 1e-9  # every c gives the same u; this one lets it come near 1
    promise = {"n_queries": n_queries, "budget": budget, "beta": beta, "c": tiny}
    given = {"model": model, "n": model.n_records}
    margin = smallest_accuracy(lambda tau: zhao_required_n(tau=tau, **promise, **given), n)
    margin *= 1.0 - tiny
    margin *= 1.0 + 1e-12  # so that rounding in τ and c cannot undo the premise
    if threshold is not None:
        c = (2.0 * threshold - margin) / (2.0 * threshold + margin)
    tau = margin / (1.0 - c) if c > 0.0 else math.inf
    return (tau, c) if tau <= 1.0 else (math.inf, c)


def smallest_accuracy(required: Callable[..., Any], n: int) -> float:
    r"""Smallest τ for which a theorem asks for at most ``n`` records; ``inf`` if none up to 1.

    ``required(tau)`` falls at least like :math:`\tau^{-2}`. The premise holds at the result.
    """
    largest = required(1.0)
    if not largest <= n:
        return math.inf

    def excess(log_tau):
        return math.log(required(math.exp(log_tau)) / n)

    # The premise falls at least like τ^{−2}: the root lies between √(n(1)/n) and 1.
    low = 0.5 * math.log(largest / n) - 1e-9
    if excess(low) <= 0.0:
        return math.exp(low)
    return math.exp(crossing(excess, 0.0, low))


# -- Public choices --------------------------------------------------------------------------------

# Rate at which correct predictions may exceed their thresholds by chance, per query.
CHANCE = 0.0006
# Part of a batch's rate that goes to its leading predictions, halved from rank to rank.
LEAD = 0.7
# Cell width as a fraction of the half-width of one fixed query.
RESOLUTION_FRACTION = 0.5
# Noise margin of the first round as a fraction of the same half-width.
NOISE_FRACTION = 0.015
# Noise of a final report as a part of that of other answers, where no level is declared for life:
# its margin is then a few hundredths of its half-width.
FINAL_NOISE = 0.3
# Part of a holdout's failure probability that pays for noise. Noise is scaled to a fraction of the
# sampling error, so a tenth costs sampling 0.1 nats (1 % of width) and lets the noise be a third
# larger than a hundredth.
NOISE_PART = 0.1
# A candidate behind the leader is relaxed unless it is off by this part of the distance: the answer
# would cost information and could hardly change the choice. At half the distance a hopeless
# candidate costs ten nats in two of five years of `benchmarks/real_searches.py`.
RELAXED_PART = 0.7
LARGEST_SCALE = 1000.0  # nothing is left of a score in [0, 1] long before
ZHAO_C = 0.5  # Zhao 2017, Theorem 2: T = (1+c)τ/2


def auto_threshold(prediction, n_effective, n_train):
    r"""Thresholds that correct predictions exceed less than once in a thousand queries.

    .. math:: T_j = z_{p_j/2} \sqrt{\tilde v_j (1 - \tilde v_j) (1/n_{\mathrm{eff}} + 1/n_D)}

    with :math:`z` the normal quantile and :math:`\tilde v` the prediction drawn slightly towards
    1/2, so that a prediction of exactly 1 leaves room for one error. The chances :math:`p_j` of
    the ``m`` predictions passed together (a batch, or what is left of it) sum to ``m * CHANCE``;
    a part of them goes to the leading predictions, which thereby get the narrowest intervals:
    those are the candidates somebody may select. Only public quantities enter.

    Theory G4 and G5: a threshold may depend on public quantities. ``n_effective`` is that of the
    holdout, ``n_train`` the records behind each prediction; ``CHANCE`` (a rate per query) and
    ``LEAD`` (the part for the leaders) are the choice of the simulation.
    """
    v = np.clip(check_array("prediction", prediction), 0.0, 1.0)
    size = check_real("n_effective", n_effective, low=0.0, closed="neither")
    behind = check_array("n_train", n_train)
    if not (behind > 0).all():
        raise ValueError(f"n_train must be positive, got n_train={n_train!r}.")
    rank = np.empty(v.size)
    rank[np.argsort(-v, axis=None, kind="stable")] = np.arange(v.size)
    part = (1.0 - LEAD) / v.size + LEAD * 0.5 ** (rank + 1.0)
    chances = np.minimum(CHANCE * v.size * part, 0.1).reshape(v.shape)
    drawn = (v * size + 1.0) / (size + 2.0)
    return -ndtri(chances / 2.0) * np.sqrt(drawn * (1.0 - drawn) * (1.0 / size + 1.0 / behind))


def auto_resolution(n_effective: float, *, beta: float = 0.05) -> float:
    """Grid step of released answers: half of the half-width of one fixed query.

    Theory G2: a rounding error of η/2 against ``ln(1/η)`` nats per released value. The
    fraction is the choice of the simulation.
    """
    return min(1.0, RESOLUTION_FRACTION * _reference_half_width(n_effective, beta))


def auto_scales(n_effective, *, failure, beta=0.05, fraction=NOISE_FRACTION):
    """Noise scales of threshold, query and answer that widen intervals by at most a tenth.

    ``failure`` is what is left for one half (threshold or answer) of the first round; ``fraction``
    is the noise margin over the half-width of one fixed query. Theory N1; Lyu, Su and Li 2017
    (query noise twice the threshold noise).
    """
    room = fraction * _reference_half_width(n_effective, beta)
    level = check_probability("failure", failure)
    per_unit = noise_margin(failure=level, threshold_scale=1.0, query_scale=2.0)
    answer_unit = answer_margin(failure=level, answer_scale=1.0)
    base = room / per_unit if per_unit > 0 else room
    return base, 2.0 * base, room / answer_unit


def _reference_half_width(n_effective, beta):
    size = check_real("n_effective", n_effective, low=0.0, closed="neither")
    level = check_probability("beta", beta)
    return math.sqrt(math.log(2.0 / level) / (2.0 * size))


def epsilon_scales(epsilon, *, budget, model, n, failure):
    """Return Laplace scales that meet a BDP level over the whole life of the holdout.

    The threshold noise is kept for life; ``failure`` is that of one margin. ``ValueError`` if no
    positive DP level suffices.
    """
    level = float(model.dp_epsilon(epsilon, n))
    if not level > 0:
        raise ValueError(
            f"no positive DP level makes the answers {epsilon:g}-BDP under this correlation "
            f"({model.describe()}): ask for a larger epsilon, or use epsilon='auto'."
        )
    # The mechanism's grid adds 2^-44 (or a little more, with its scales) to the sensitivity.
    level /= 1.0 + n * 2.0**-40
    # Theory T1, threshold kept: ε′ = Δ(1/σT + 2B/σq + B/σa). A share w goes to the answers; of
    # the rest, Lyu, Su, Li 2017 (Section 4.2): query noise (2B)^{2/3} times the threshold's share.
    ratio = (2.0 * budget) ** (2.0 / 3.0)

    def scales_at(share):
        rest = (1.0 - share) * level * n
        query_scale = 2.0 * budget * (1.0 + ratio) / (rest * ratio)
        return (1.0 + ratio) / rest, query_scale, budget / (share * level * n)

    def widest(scales):
        return max(
            noise_margin(failure=failure, threshold_scale=scales[0], query_scale=scales[1]),
            answer_margin(failure=failure, answer_scale=scales[2]),
        )

    best = min(map(scales_at, np.linspace(0.05, 0.95, 181)), key=widest)
    if not max(best) < LARGEST_SCALE:
        raise ValueError(
            f"epsilon={epsilon:g} needs noise of scale {max(best):.3g} on scores in [0, 1]: "
            "ask for a larger epsilon, or use epsilon='auto'."
        )
    return best


def zhao_scales(n, *, model, n_queries, budget, beta, threshold=None):
    r"""Return three scales, threshold and :math:`\tau` of Zhao 2017, Theorem 2, to the letter.

    Theorem 2 holds for any c in (0, 1). A given threshold :math:`T = (1+c)\tau/2` leaves c free:
    the largest one whose :math:`n_\#` is at most ``n`` gives the smallest :math:`\tau`; with
    ``None`` c is 1/2 and :math:`\tau` the smallest one. Where there are too few records for any, c
    is 1/2 and :math:`\tau = 2T/(1+c)`, or 1.
    """
    tau, c = zhao_accuracy(
        n, n_queries=n_queries, budget=budget, beta=beta, model=model, c=ZHAO_C, threshold=threshold
    )
    if not tau <= 1.0:
        c = ZHAO_C
        tau = 1.0 if threshold is None else 2.0 * threshold / (1.0 + c)
    if not tau <= 1.0:
        raise ValueError(
            f"threshold must be at most {(1.0 + ZHAO_C) / 2.0:g} with calibration='zhao2017', "
            f"where tau = 2 * threshold / (1 + c) is at most 1, got threshold={threshold:g}."
        )
    # Zhao 2017, Theorem 2: σ = (1−c)τ / (12 ln(4m/β)), T = (1+c)τ/2; noises σ, 2σ, 4σ.
    sigma = (1.0 - c) * tau / (12.0 * math.log(4.0 * n_queries / beta))
    return (sigma, 2.0 * sigma, 4.0 * sigma), (1.0 + c) * tau / 2.0, tau
