"""Error due to leakage and noise, and default thresholds, cell widths and noise scales.

There is one function for each bound: generalization from leakage and transcripts (G1, G2), margins
of noise (N1-N3), and Theorems 1 and 2 of Zhao 2017 as printed (theory G3). The other functions
choose thresholds, cell widths and noise scales from public quantities.
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
from sklearn_bdp.mechanisms.noise import fine_step
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
    """Return ln P[N + ratio N' > u] and its derivative by ``u``, for ``u >= 0``.

    N and N' are independent Laplace variates of scale 1, and ``ratio`` is at most 1. The log
    probability is concave in ``u``. For a ratio within 1e-6 of 1 it is that of the ratio 1, an
    upper bound.
    """
    if 1.0 - ratio < 1e-6:
        return math.log((2.0 + u) / 4.0) - u, 1.0 / (2.0 + u) - 1.0
    # (e^{−u} − r² e^{−u/r}) / (2(1 − r²)); the second term vanishes for r near 0.
    second_term = 0.0
    if ratio > 1e-150:
        second_term = ratio**2 * math.exp(u - u / ratio)
    slope = -1.0
    if second_term:
        slope += second_term * (1.0 / ratio - 1.0) / (1.0 - second_term)
    normalization = math.log(2.0 * (1.0 - ratio) * (1.0 + ratio))
    return math.log1p(-second_term) - u - normalization, slope


def noise_margin(
    *,
    failure: float,
    threshold_scale: float,
    query_scale: float,
    noise: Literal["laplace", "gaussian"] = "laplace",
) -> float:
    r"""Return the smallest z >= 0 with :math:`P[N_T + N_q > z] \le` ``failure`` (theory N1, N2).

    Parameters
    ----------
    failure : float
        Probability that the margin is exceeded, in (0, 1).
    threshold_scale, query_scale : float
        Laplace scales, or standard deviations for Gaussian noise. 0 means none.
    noise : {"laplace", "gaussian"}
        Distribution of the noise.

    Returns
    -------
    float
        Margin, in units of [0, 1]: noise in a "below" answer exceeds it with at most this
        probability.

    Examples
    --------
    >>> noise_margin(failure=0.01, threshold_scale=0.0, query_scale=0.0)
    0.0
    >>> round(noise_margin(failure=0.01, threshold_scale=0.01, query_scale=0.01), 4)
    0.0519
    """
    check_option("noise", noise, _NOISES)
    failure = check_real("failure", failure, low=0.0, high=1.0, closed="neither")
    threshold_scale = check_real("threshold_scale", threshold_scale, low=0.0)
    query_scale = check_real("query_scale", query_scale, low=0.0)
    larger_scale = max(threshold_scale, query_scale)
    if larger_scale == 0.0 or failure >= 0.5:
        return 0.0
    if noise == "gaussian":
        return float(math.hypot(threshold_scale, query_scale) * norm.isf(failure))
    ratio = min(threshold_scale, query_scale) / larger_scale
    log_failure = math.log(failure)
    # Newton's method on the concave log tail: it starts where the tail is at most the failure
    # probability, and no step leaves that side. Rounding may, so the returned margin is verified.
    initial_u = 2.0 - 2.0 * log_failure
    u = initial_u  # margin in units of the larger scale
    for _ in range(60):
        log_tail, slope = _laplace_tail(u, ratio)
        log_tail_excess = log_tail - log_failure
        u -= log_tail_excess / slope
        if abs(log_tail_excess) < 1e-12 * u * -slope:
            break
    for relative_excess in (1e-12, 1e-9, 1e-6):
        safe_u = u * (1.0 + relative_excess)
        log_tail, _ = _laplace_tail(safe_u, ratio)
        if log_tail <= log_failure:
            return larger_scale * u * (1.0 + relative_excess)
    return larger_scale * initial_u


def answer_margin(
    *, failure: float, answer_scale: float, noise: Literal["laplace", "gaussian"] = "laplace"
) -> float:
    r"""Return the smallest ``z`` with :math:`P[|N_a| > z] \le` ``failure`` (theory N1).

    Parameters
    ----------
    failure : float
        Probability that the margin is exceeded, in (0, 1).
    answer_scale : float
        Laplace scale, or standard deviation for Gaussian noise. 0 means none.
    noise : {"laplace", "gaussian"}
        Distribution of the noise.

    Returns
    -------
    float
        Margin, in units of [0, 1]: noise in an "above" answer, before rounding to cells, exceeds it
        with at most this probability.

    Examples
    --------
    >>> from sklearn_bdp.accounting.noise_calibration import answer_margin
    >>> round(answer_margin(failure=0.001, answer_scale=0.002), 4)
    0.0138
    """
    check_option("noise", noise, _NOISES)
    failure = check_real("failure", failure, low=0.0, high=1.0, closed="neither")
    scale = check_real("answer_scale", answer_scale, low=0.0)
    if scale == 0.0:
        return 0.0
    if noise == "gaussian":
        return float(scale * norm.isf(failure / 2.0))
    return -scale * math.log(failure)


def round_noise_failure(failure: float, n_above: FloatOrArray) -> Any:
    r"""Return the failure probability of noise in the round after ``n_above`` others (theory N3).

    A round ends with an "above" answer. The probabilities ``failure / ((b+1)(b+2))`` of all rounds
    ``b = 0, 1, ...`` sum to ``failure``, so that no budget has to be declared.

    Parameters
    ----------
    failure : float
        Failure probability of the noise over the whole life of the holdout, in (0, 1).
    n_above : int or array of int
        Number of earlier rounds, 0 for the first.

    Returns
    -------
    float or ndarray
        Failure probability of the round.

    Examples
    --------
    >>> from sklearn_bdp.accounting.noise_calibration import round_noise_failure
    >>> [round_noise_failure(0.012, rounds) for rounds in (0, 1, 2)]
    [0.006, 0.002, 0.001]
    """
    failure = check_real("failure", failure, low=0.0, high=1.0, closed="neither")
    n_rounds = check_array("n_above", n_above, low=0.0)
    round_failure = failure / ((n_rounds + 1.0) * (n_rounds + 2.0))
    return float(round_failure) if round_failure.ndim == 0 else round_failure


def sampling_half_width(
    n_effective: float, *, log_failure: float, n_queries: float, information: float = 0.0
) -> float:
    """Return the half-width for the sampling errors of ``n_queries`` adaptive queries together.

    It is in units of [0, 1] and may exceed 1. ``log_failure`` is the log of the failure probability
    of all queries together, and ``information`` is K of theory G1 in nats, 0 for queries fixed in
    advance. The error of a fixed query exceeds α with the probability ``p_0(α) = 2 exp(−2
    n_effective α²)`` at most.
    """
    # √L = √K + √ln(1/failure), then p_0(α) · n_queries = e^{−L}.
    sqrt_l = math.sqrt(information) + math.sqrt(-log_failure)
    return math.sqrt((sqrt_l**2 + math.log(2.0 * n_queries)) / (2.0 * n_effective))


def log_transcripts(n_queries: int, budget: int, n_values: int) -> float:
    r"""Return the log of the number of distinct queries that an analyst could make (theory G2).

    .. math:: N = \sum_{b<B} V^b \binom{m}{b+1}

    for :math:`m` queries, a budget of :math:`B` "above" answers and ``n_values`` = :math:`V` values
    that each of these can have. If :math:`m` and :math:`B` are above 20,000, it is an upper limit
    of :math:`\ln N`.
    """
    m = check_integer("n_queries", n_queries, low=1)
    n_rounds = min(check_integer("budget", budget, low=1), m)
    n_values = check_integer("n_values", n_values, low=1)
    log_n_values = math.log(n_values)
    if n_rounds <= 20_000:
        b = np.arange(n_rounds, dtype=float)
        log_terms = b * log_n_values + log_binomials(m, n_rounds + 1)[1:]
        return float(logsumexp(log_terms))
    # Many rounds: the sum is at most n_rounds times the largest term. It is the last one whose
    # ratio to the one before, V (m−b)/(b+1), is at least 1. The ratio falls with b.
    last_rising = max(0, math.ceil((n_values * (m - 1.0) - 2.0) / (n_values + 1.0)))
    b = min(n_rounds - 1, last_rising)  # of the largest term
    log_binomial = gammaln(m + 1.0) - gammaln(b + 2.0) - gammaln(m - b + 0.0)
    rounding_error = 1e-9 * m  # of gammaln
    return b * log_n_values + log_binomial + rounding_error + math.log(n_rounds)


def log_binomials(m: int, count: int) -> Array:
    """Return ``ln C(m, b)`` for ``b = 0 … count - 1``, minus infinity for ``b > m``."""
    # Logs of ratios are summed, because gamma functions of a large m would cancel.
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
    r"""Return the number of records that Theorem 1 of Zhao 2017 requires, by (8) or (7).

    .. math:: n_\# = \max\Big\{\frac{9\ln(4/\beta)}{\tau^2},\; \max_i\min_Q
       \frac{9B(|N_i|+1)}{4\sigma(\tau/3 - 4b_i)}\Big\}, \qquad
       n_* = \max\Big\{\frac{9\ln(4/\beta)}{\tau^2},\; \max_i
       \frac{9B}{4\sigma(\tau/3 - 4a_i)}\Big\}

    The second terms are :math:`9B/(4\sigma\varepsilon')` with the DP level :math:`\varepsilon'`
    that Lemma 2 (Lemma 3) gives for the Bayesian DP level :math:`\tau/3`. Denominators must be
    positive. The theorem concludes ``|q(X) - q(P)| < tau``. It is false as stated: the premise may
    be true although ``q(X)`` does not concentrate (see the errata).

    Parameters
    ----------
    tau : float
        Tolerance, in units of [0, 1].
    budget : int
        Number B of answers from the holdout.
    sigma : float
        σ of Algorithm 1 (noises σ, 2σ, 4σ).
    beta : float
        Failure probability of one query, in (0, 1).
    model : CorrelationModel
        Dependence of the records.
    n : int or None
        Number of records. ``None``: that of a model which is tied to its records, else any number
        that is large enough for the lemma.
    method : {"quilt", "blanket", "spectral"}
        Lemma 2 of the paper, that is (8); Lemma 3, that is (7); or Lemma 4, an alternative for
        reversible chains.

    Returns
    -------
    float
        Smallest ``n`` that fulfills the premise, not rounded; ``inf`` if no positive DP level
        suffices.

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
    budget = check_integer("budget", budget, low=1)
    beta = check_probability("beta", beta)
    check_option("method", method, ("quilt", "blanket", "spectral"))
    if n is None:
        n = model.n_records
    if n is None:
        n = 10**9  # the lemmas do not depend on n beyond n >= 2d
    dp_epsilon = float(model.dp_epsilon(tau / 3.0, n, method=method))
    if dp_epsilon == 0.0:
        return math.inf
    n_for_sampling = 9.0 * math.log(4.0 / beta) / tau**2
    n_for_privacy = 9.0 * budget / (4.0 * sigma * dp_epsilon)
    return max(n_for_sampling, n_for_privacy)


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
    r"""Return the number of records that Theorem 2 of Zhao 2017 requires.

    .. math:: n_\#\Big(B,\; \frac{(1-c)\tau}{12\ln(4m/\beta)},\; \frac{(1-c)\tau}{4},\;
       \frac{\beta}{2m}\Big)

    with :math:`n_\#` of Theorem 1 as a function of the budget, :math:`\sigma`, :math:`\tau` and
    :math:`\beta`. Equation (31) of the paper expands :math:`n_\#` without these arguments.

    Parameters
    ----------
    tau : float
        Wanted error, in (0, 1].
    n_queries : int
        Number m of queries.
    budget : int
        Number B of answers from the holdout.
    beta : float
        Failure probability of all answers together.
    c : float
        Budget honesty: queries whose training value differs from the query's expectation by less
        than ``c * tau`` spend no budget. Any number in (0, 1).
    model : CorrelationModel
        Dependence of the records.
    n, method : object
        Number of records for the lemma, and the lemma; see :func:`zhao_premise`.

    Returns
    -------
    float
        :math:`n_\#`, not rounded; ``inf`` if no positive DP level suffices.

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
    beta = check_probability("beta", beta)
    c = check_probability("c", c)
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
    r"""Return the smallest τ that Theorem 2 of Zhao 2017 guarantees with ``n`` records, and its c.

    The number :math:`n_\#` of records that it requires depends on :math:`u = (1-c)\tau` only. For a
    given threshold :math:`T = (1+c)\tau/2` the largest c with :math:`n_\# \le n` gives the smallest
    τ: :math:`c = (2T-u)/(2T+u)` at the smallest u. Without a threshold, ``c`` is used. τ is
    infinite, and c has no meaning, if the theorem guarantees no τ up to 1. The other arguments are
    those of :func:`zhao_required_n`.

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
    small_c = 1e-9  # u = (1 - c) τ does not depend on c; with a small one u may come near 1

    def required_n(tau):
        return zhao_required_n(
            tau=tau,
            n_queries=n_queries,
            budget=budget,
            beta=beta,
            c=small_c,
            model=model,
            n=model.n_records,
        )

    u = smallest_accuracy(required_n, n) * (1.0 - small_c)
    u *= 1.0 + 1e-12  # so that rounding in τ and c does not violate the premise
    if threshold is not None:
        c = (2.0 * threshold - u) / (2.0 * threshold + u)
    tau = u / (1.0 - c) if c > 0.0 else math.inf
    return (tau, c) if tau <= 1.0 else (math.inf, c)


def smallest_accuracy(required_n: Callable[..., Any], n: int) -> float:
    r"""Return the smallest τ for which a theorem requires at most ``n`` records, or infinity.

    ``required_n(tau)`` is the number that it requires, which must fall at least like
    :math:`\tau^{-2}`. It is at most ``n`` at the returned τ. Infinity means that no τ up to 1
    suffices.
    """
    n_for_tau_1 = required_n(1.0)
    if not n_for_tau_1 <= n:
        return math.inf

    def excess(log_tau):
        return math.log(required_n(math.exp(log_tau)) / n)

    # The required number falls at least like τ^{−2}: the root is between √(n(1)/n) and 1.
    log_lower = 0.5 * math.log(n_for_tau_1 / n) - 1e-9
    if excess(log_lower) <= 0.0:
        return math.exp(log_lower)
    return math.exp(crossing(excess, 0.0, log_lower))


# -- Defaults that depend on public quantities -----------------------------------------------------

# Expected fraction of queries whose correct predictions exceed their thresholds by chance, by a
# normal approximation.
FALSE_ALARM_RATE = 0.0006
# Fraction of a batch's false alarms that leading predictions get, halved from rank to rank.
LEADER_FRACTION = 0.7
# Cell width as a fraction of the half-width of one fixed query.
RESOLUTION_FRACTION = 0.5
# Noise margin of the first round as a fraction of the same half-width.
NOISE_FRACTION = 0.015
# Noise scales of a final report as a fraction of those of other answers, if no lifetime level of
# privacy is declared.
FINAL_NOISE_FRACTION = 0.3
# Fraction of a holdout's failure probability that is spent on noise. A tenth costs sampling 0.1
# nats (1% of width) and allows a third more noise than a hundredth.
NOISE_FAILURE_FRACTION = 0.1
# The threshold of a candidate behind the leader is at least this fraction of their distance: an
# answer from the holdout would cost information and would hardly change the choice. With half the
# distance, trailing candidates cost ten nats in two of five years of `benchmarks/real_searches.py`.
RELAXED_FRACTION = 0.7
MAX_SCALE = 1000.0  # largest noise scale, far beyond the range of scores in [0, 1]
ZHAO_C = 0.5  # c of Zhao 2017, Theorem 2: T = (1+c)τ/2


def auto_threshold(prediction, n_effective, n_train):
    r"""Return thresholds that errors of correct predictions rarely exceed (normal approximation).

    .. math:: T_j = z_{p_j/2} \sqrt{\tilde v_j (1 - \tilde v_j) (1/n_{\mathrm{eff}} + 1/n_D)}

    with the normal quantile :math:`z` and the prediction :math:`\tilde v`, shrunken slightly
    towards 1/2 so that a prediction of exactly 1 allows one error. The probabilities :math:`p_j` of
    the ``m`` predictions passed together sum to at most ``m * FALSE_ALARM_RATE``. The largest
    predictions get most of it.

    Theory G4 and G5: a threshold may depend on public quantities. Predictions and thresholds are in
    units of [0, 1] and have the same shape. ``n_effective`` is the effective sample size of the
    holdout, ``n_train`` the number of training records behind each prediction.
    """
    predictions = np.clip(check_array("prediction", prediction), 0.0, 1.0)
    n_effective = check_real("n_effective", n_effective, low=0.0, closed="neither")
    n_train = check_array("n_train", n_train)
    if not (n_train > 0).all():
        raise ValueError(f"n_train must be positive, got n_train={n_train!r}.")
    m = predictions.size
    ranks = np.empty(m)  # from 0, in the order of the flattened predictions
    ranks[np.argsort(-predictions, axis=None, kind="stable")] = np.arange(m)
    # Fractions of the expected false alarms of the batch; they sum to at most 1.
    fractions = (1.0 - LEADER_FRACTION) / m + LEADER_FRACTION * 0.5 ** (ranks + 1.0)
    false_alarm_probabilities = np.minimum(FALSE_ALARM_RATE * m * fractions, 0.1)
    false_alarm_probabilities = false_alarm_probabilities.reshape(predictions.shape)
    shrunken_predictions = (predictions * n_effective + 1.0) / (n_effective + 2.0)
    variances = shrunken_predictions * (1.0 - shrunken_predictions)
    variances = variances * (1.0 / n_effective + 1.0 / n_train)
    return -ndtri(false_alarm_probabilities / 2.0) * np.sqrt(variances)


def auto_resolution(n_effective: float, *, beta: float = 0.05) -> float:
    """Return the width of the cells of released answers: half of the half-width of one fixed query.

    It is at most 1. ``n_effective`` is the effective sample size of the holdout, and ``beta`` the
    failure probability of that query. Theory G2: a width of η adds a rounding error of η/2 and
    costs ``ln(1/η)`` nats per released value.
    """
    return min(1.0, RESOLUTION_FRACTION * _reference_half_width(n_effective, beta))


def auto_scales(n_effective, *, failure, beta=0.05, fraction=NOISE_FRACTION):
    """Return Laplace scales of threshold, query and answer noise for a small noise margin.

    The margin of a comparison and that of an answer are each exceeded with the probability
    ``failure``, below 1/2. Both are ``fraction`` times the half-width of one fixed query that fails
    with the probability ``beta``. ``n_effective`` is the effective sample size of the holdout.
    Theory N1; Lyu, Su and Li 2017 (query noise twice the threshold noise).
    """
    margin = fraction * _reference_half_width(n_effective, beta)
    failure = check_probability("failure", failure)
    relative_margin = noise_margin(failure=failure, threshold_scale=1.0, query_scale=2.0)
    threshold_scale = margin / relative_margin if relative_margin > 0 else margin
    answer_scale = margin / answer_margin(failure=failure, answer_scale=1.0)
    return threshold_scale, 2.0 * threshold_scale, answer_scale


def _reference_half_width(n_effective, beta):
    """Return Hoeffding's half-width of one fixed query that fails with the probability ``beta``."""
    n_effective = check_real("n_effective", n_effective, low=0.0, closed="neither")
    beta = check_probability("beta", beta)
    return math.sqrt(math.log(2.0 / beta) / (2.0 * n_effective))


def epsilon_scales(epsilon, *, budget, model, n, failure):
    """Return Laplace scales that meet a Bayesian DP level over the whole life of the holdout.

    They are those of threshold, query and answer noise, chosen for a small noise margin, which is
    exceeded with the probability ``failure``. ``epsilon`` is the Bayesian DP level in nats,
    ``budget`` the largest number of answers from the holdout, and ``model`` the dependence of the
    ``n`` records. The threshold noise is drawn once. Raise ValueError if no positive DP level
    suffices, or if a scale would be 1,000 or more.
    """
    dp_epsilon = float(model.dp_epsilon(epsilon, n))
    if not dp_epsilon > 0:
        raise ValueError(
            f"no positive DP level makes the answers {epsilon:g}-BDP under this correlation "
            f"({model.describe()}): ask for a larger epsilon, or use epsilon='auto'."
        )
    # Theory T1, one threshold: ε′ = Δ(1/σT + 2B/σq + B/σa). The answers get a fraction of ε′. The
    # query noise gets (2B)^{2/3} times as much as the threshold noise (Lyu, Su, Li 2017, Section
    # 4.2).
    epsilon_ratio = (2.0 * budget) ** (2.0 / 3.0)

    def scales_at(answer_fraction, level):
        """Return three scales if answer noise gets a fraction of the DP ``level``."""
        comparison_epsilon = (1.0 - answer_fraction) * level * n  # for a sensitivity of 1
        threshold_scale = (1.0 + epsilon_ratio) / comparison_epsilon
        query_scale = 2.0 * budget * (1.0 + epsilon_ratio) / (comparison_epsilon * epsilon_ratio)
        return threshold_scale, query_scale, budget / (answer_fraction * level * n)

    def max_margin(scales):
        threshold_scale, query_scale, answer_scale = scales
        return max(
            noise_margin(failure=failure, threshold_scale=threshold_scale, query_scale=query_scale),
            answer_margin(failure=failure, answer_scale=answer_scale),
        )

    # The mechanism's fine grid adds its step, which grows with the scales, to the sensitivity.
    for step in (2.0**-40, fine_step(MAX_SCALE)):
        level = dp_epsilon / (1.0 + n * step)
        scale_triples = [scales_at(fraction, level) for fraction in np.linspace(0.05, 0.95, 181)]
        scales = min(scale_triples, key=max_margin)
        if fine_step(*scales) <= step:
            break
    if not max(scales) < MAX_SCALE:
        raise ValueError(
            f"epsilon={epsilon:g} needs noise of scale {max(scales):.3g} on scores in [0, 1]: "
            "ask for a larger epsilon, or use epsilon='auto'."
        )
    return scales


def zhao_scales(n, *, model, n_queries, budget, beta, threshold=None):
    r"""Return the noise scales, threshold and :math:`\tau` of Zhao 2017, Theorem 2, as printed.

    Scales are those of threshold, query and answer, in a tuple. Arguments are those of
    :func:`zhao_accuracy`. Theorem 2 allows any c in (0, 1). With a given threshold
    :math:`T = (1+c)\tau/2`, c is the largest one for which it requires at most ``n`` records, which
    gives the smallest :math:`\tau`. Without a threshold, c is 1/2 and :math:`\tau` the smallest
    one. If there are too few records, c is 1/2 and :math:`\tau = 2T/(1+c)`, or 1 without a
    threshold. Raise ValueError if this :math:`\tau` is above 1.
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
