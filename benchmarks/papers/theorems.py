r"""Definitions and theorems of the founding papers as reference functions.

No guarantee of the library uses them: they are for comparison. Sources: **Z** Zhao 2017,
*Adaptive statistical learning with Bayesian differential privacy* (WPES); **D** Dwork et al. 2017,
*Guilt-free data reuse* (CACM); **D15** Dwork et al. 2015, *Generalization in adaptive data analysis
and holdout reuse* (arXiv:1506.02629). Information is in nats: divide by ln 2 for the papers' bits.
"""

import math

import numpy as np

from sklearn_bdp.utils.validation import check_array, check_integer, check_probability, check_real


def adaptive_log_failure(log_p0, information):
    r"""Return the log failure probability of an event chosen by looking at the answers (theory G1).

    .. math:: P[X \in E_Y] \le \exp\left(-(\sqrt{L} - \sqrt{K})^2\right), \quad L = -\ln p_0 > K,

    and 0 where :math:`L \le K`. ``log_p0`` is that of each fixed event (a union over queries
    belongs inside), K in nats is ``sequential_information(model, dp_epsilon, n)``.
    """
    log_inverse_p0 = np.maximum(-np.asarray(log_p0, dtype=float), 0.0)
    information = check_array("information", information, low=0.0)
    gap = np.maximum(np.sqrt(log_inverse_p0) - np.sqrt(information), 0.0)
    bound = -(gap**2)
    return float(bound) if bound.ndim == 0 else bound


# -- Definitions, exact on finite domains --------------------------------------------------------


def approximate_max_information(joint, beta: float = 0.0) -> float:
    r"""Return the max-information of two finite random variables, exactly.

    .. math:: I_\infty^\beta(X;Y) = \ln \max_{O:\ P[O] > \beta}
       \frac{P[(X,Y) \in O] - \beta}{P[X \times Y \in O]}

    Parameters
    ----------
    joint : array-like of shape (n_x, n_y)
        Joint probabilities.
    beta : float in [0, 1)
        Approximation; 0 gives the largest ratio, max-information without approximation.

    Returns
    -------
    float
        Nats.

    References
    ----------
    Z (1); D Definition 5 (``beta = 0``).
    """
    joint = check_array("joint", joint, shape=(None, None), low=0.0, high=1.0)
    beta = check_real("beta", beta, low=0.0, high=1.0, closed="left")
    product = np.outer(joint.sum(axis=1), joint.sum(axis=0)).ravel()
    joint = joint.ravel()
    is_possible = joint > 0.0
    joint = joint[is_possible]
    product = product[is_possible]
    # For every λ the set {P > λ·P×P} maximises P[O] − λ·P×P[O], so the best O is a level set.
    order = np.argsort(-joint / product, kind="stable")
    gain = np.cumsum(joint[order]) - beta
    if not (gain > 0.0).any():
        return -math.inf
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.max(np.log(np.maximum(gain, 0.0) / np.cumsum(product[order]))))


def smallest_delta(first, second, epsilon: float) -> float:
    r"""Return the smallest δ for which two distributions are (ε, δ)-indistinguishable, both ways.

    References
    ----------
    D Definition 3; ``epsilon``-DP is δ = 0, Z (2).
    """
    p = check_array("first", first, shape=(None,), low=0.0, high=1.0)
    q = check_array("second", second, shape=p.shape, low=0.0, high=1.0)
    factor = math.exp(check_real("epsilon", epsilon, low=0.0))
    return float(max(np.maximum(p - factor * q, 0).sum(), np.maximum(q - factor * p, 0).sum()))


def exponential_mechanism(utilities, epsilon: float, sensitivity: float) -> np.ndarray:
    r"""Return output probabilities, proportional to :math:`\exp(\varepsilon u / 2\Delta_u)`.

    References
    ----------
    Z Section 2.2, after McSherry and Talwar, FOCS 2007.
    """
    scores = check_array("utilities", utilities, shape=(None,))
    scores = scores * check_real("epsilon", epsilon, low=0.0) / (2.0 * sensitivity)
    weights = np.exp(scores - scores.max())
    return weights / weights.sum()


# -- Max-information of mechanisms -----------------------------------------------------------------


def dp_information(epsilon: float, n: int) -> float:
    r"""Return the max-information of an ε-DP algorithm, :math:`\varepsilon n`, for any data.

    References
    ----------
    D Theorem 8; D15 Theorem 19.
    """
    return check_real("epsilon", epsilon, low=0.0) * check_integer("n", n, low=1)


def approximate_information(epsilon: float, n: int, beta: float, *, source: str) -> float:
    r"""Return a bound on the β-approximate max-information of a private algorithm.

    - ``"dwork2015"``: ε-DP, independent records:
      :math:`\varepsilon^2 n/2 + \varepsilon\sqrt{n\ln(2/\beta)/2}`.
    - ``"zhao2017"``: ε-BDP: :math:`2\varepsilon^2 n + \varepsilon\sqrt{2n\ln(2/\beta)}`. Its
      proof has a gap; the statement follows from the next one.
    - ``"corrected"``: ε-sequential BDP, theory G1:
      :math:`\varepsilon^2 n/8 + \varepsilon\sqrt{n\ln(1/\beta)/2}`.

    References
    ----------
    D15 Theorem 20; Z Theorem 3; theory G0 and G1.
    """
    epsilon = check_real("epsilon", epsilon, low=0.0)
    n = check_integer("n", n, low=1)
    log_beta = -math.log(check_probability("beta", beta))
    if source == "dwork2015":
        return epsilon**2 * n / 2 + epsilon * math.sqrt(n * (math.log(2) + log_beta) / 2)
    if source == "zhao2017":
        return 2 * epsilon**2 * n + epsilon * math.sqrt(2 * n * (math.log(2) + log_beta))
    if source == "corrected":
        return epsilon**2 * n / 8 + epsilon * math.sqrt(n * log_beta / 2)
    raise ValueError(
        f"source must be one of 'dwork2015', 'zhao2017', 'corrected', got source={source!r}."
    )


def description_information(n_outputs: int, beta: float) -> float:
    r"""Return the β-approximate max-information for few outputs, :math:`\ln(|Y|/\beta)`.

    Any distribution of data sets.

    References
    ----------
    D Section 3.1; D15 Theorem 17.
    """
    return math.log(check_integer("n_outputs", n_outputs, low=1)) - math.log(
        check_probability("beta", beta)
    )


def rogers_information(epsilon: float, delta: float, n: int) -> tuple[float, float]:
    r"""Return the orders of max-information and of its β: (ε, δ)-DP algorithm, independent records.

    The paper prints :math:`O(\varepsilon^2 n + n\sqrt{\delta/\varepsilon})` at :math:`\beta =
    e^{-\varepsilon^2 n} + O(n\sqrt{\delta/\varepsilon})`; the constants are set
    to 1 here, so this is not a bound; it shows the order of growth only.

    References
    ----------
    Rogers, Roth, Smith and Thakkar, FOCS 2016, arXiv:1604.03924, Theorem 3.1; Z Section 6.
    """
    epsilon = check_real("epsilon", epsilon, low=0.0, high=0.5, closed="right")
    delta = check_real("delta", delta, low=0.0, high=epsilon, closed="left")
    slack = n * math.sqrt(delta / epsilon)
    return epsilon**2 * n + slack, math.exp(-(epsilon**2) * n) + slack


def composed_information(parts) -> tuple[float, float]:
    r"""Return the max-information of algorithms in turn, each with earlier outputs as input.

    Levels add, and so do the β. Given the first output the data are no longer distributed as they
    were: every part but the first must hold for *any* distribution of data sets (pure DP by
    :func:`dp_information`, description length), not only for independent records
    (:func:`approximate_information`, (ε, δ)-DP).

    Parameters
    ----------
    parts : sequence of (nats, beta, any_distribution)
        In the order in which they are run.

    Returns
    -------
    nats, beta : float
        Level of the composition.

    References
    ----------
    D Section 3.1; D15 Lemma 14; Rogers et al. 2016 show that the order matters.
    """
    parts = list(parts)
    for position, (_, _, any_distribution) in enumerate(parts):
        if position and not any_distribution:
            raise ValueError(
                "parts after the first must hold for any distribution of data sets, got one for "
                f"independent records at position {position}."
            )
    return math.fsum(nats for nats, _, _ in parts), math.fsum(beta for _, beta, _ in parts)


# -- Generalization --------------------------------------------------------------------------------


def log_failure_by_information(log_p0, information: float, beta: float = 0.0) -> float:
    r"""Return the log probability of an event chosen by the output, at most 0.

    It is :math:`\ln(e^k p_0 + \beta)`.

    With :math:`p_0 = e^{-2\tau^2 n}` (Hoeffding, one side) and :math:`k \le \tau^2 n` it is
    :math:`-\tau^2 n`: Corollary 7.

    References
    ----------
    D Theorem 6 (``beta = 0``) and Corollary 7; Z Section 2.1.
    """
    log_beta = math.log(beta) if beta > 0.0 else -math.inf
    return min(0.0, float(np.logaddexp(log_p0 + information, log_beta)))


def dwork_log_failure(epsilon: float, n: int) -> float:
    r"""Return the log of :math:`6e^{-\varepsilon^2 n}`, the failure probability under ε-DP.

    Failure is ``|P[φ] − E_S[φ]| > ε``; records are independent.

    References
    ----------
    D Theorem 4.
    """
    return math.log(6.0) - check_real("epsilon", epsilon, low=0.0) ** 2 * n


def zhao_log_failure(tau: float, n: int, epsilon: float, sensitivity=None) -> float:
    r"""Return the log of :math:`4e^{-\tau^2/(9n\Delta^2)}`, the conclusion of Lemma 1 under ε-BDP.

    The premise is :math:`\varepsilon \le \tau/(3n\Delta)`. False for correlated records as printed:
    its proof takes a concentration inequality for independent ones.

    References
    ----------
    Z Lemma 1.
    """
    delta = 1.0 / n if sensitivity is None else sensitivity
    if not epsilon <= tau / (3.0 * n * delta):
        raise ValueError(f"epsilon must be at most tau/(3nΔ), got epsilon={epsilon!r}.")
    return math.log(4.0) - tau**2 / (9.0 * n * delta**2)


# -- Orders of sample sizes ------------------------------------------------------------------------


def multiplicative_weights_order(tau: float, n_queries: int, log_universe: float) -> float:
    r""":math:`(\ln m)^{3/2}\sqrt{\ln|X|}/\tau^{7/2}`, Theorem 1 without its constant (D)."""
    return math.log(n_queries) ** 1.5 * math.sqrt(log_universe) / tau**3.5


def noise_addition_order(tau: float, n_queries: int) -> float:
    r""":math:`\sqrt m(\ln m)^{3/2}/\tau^{5/2}`, Theorem 2 without its constant (D)."""
    return math.sqrt(n_queries) * math.log(n_queries) ** 1.5 / tau**2.5


# -- Steps of Zhao's proof of Theorem 2 --------------------------------------------------------


def theorem_2_noise_failure(m: int, beta: float, c: float, *, as_printed: bool = False) -> float:
    r"""Return the probability that noise breaks Theorem 2: (18) as printed, or corrected.

    With :math:`x = \beta/4m`, an "above" answer is off by :math:`(3+c)\tau/4` with probability at
    most :math:`x^{3(3+c)/(4(1-c))}`. Threshold and query noise exceed :math:`3\sigma\ln(1/x)`
    together with probability at most :math:`x(e^{-t} + e^{t/2})`, :math:`e^{3t/2} = 2`: split as
    :math:`\sigma(\ln(1/x) + t)` and :math:`2\sigma(\ln(1/x) - t/2)`, a little less than the 2x of
    (22)-(26). The paper takes the larger of the two cases. Different queries may fail in different
    ways: the union needs their sum, which stays below β/2 for β up to 1/2.

    References
    ----------
    Z (18)-(27); errata.
    """
    x = beta / (4.0 * m)
    above = m * x ** (0.75 * (3.0 + c) / (1.0 - c))
    if as_printed:
        return max(m * x, 2.0 * m * x)
    t = math.log(2.0) / 1.5
    return above + m * x * (math.exp(-t) + math.exp(0.5 * t))
