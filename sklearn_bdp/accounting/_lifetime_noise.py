"""Noise scales for a BDP level asked for, and for Zhao's Theorem 2."""

import math

import numpy as np

from sklearn_bdp.accounting._noise_margins import answer_margin, noise_margin
from sklearn_bdp.accounting._zhao import zhao_required_n

__all__ = ["epsilon_scales", "zhao_records", "zhao_scales"]

LARGEST_SCALE = 1000.0  # nothing is left of a score in [0, 1] long before
ZHAO_C = 0.5  # theory, section 2: T = (1+c)τ/2


def epsilon_scales(epsilon, *, budget, model, n, failure):
    r"""Return scales that meet a BDP level over the whole life of the holdout.

    Parameters
    ----------
    epsilon : float
        BDP level.
    budget : int
        "Above" answers in the whole life.
    model : CorrelationModel
        How the records are correlated.
    n : int
        Number of records.
    failure : float
        Failure probability of one margin.

    Returns
    -------
    threshold_scale, query_scale, answer_scale : float
        Laplace scales; the threshold noise is kept for life.

    Raises
    ------
    ValueError
        If no positive DP level suffices.
    """
    level = float(model.dp_epsilon(epsilon, n))
    if not level > 0:
        raise ValueError(
            f"no positive DP level makes the answers {epsilon:g}-BDP under this correlation "
            f"({model.describe()}): ask for a larger epsilon, declare less dependence if the data "
            "allow it, or use epsilon='auto'."
        )
    # The mechanism's grid adds 2^-44 (or a little more, with its scales) to the sensitivity.
    level /= 1.0 + n * 2.0**-40
    # Theory T1, threshold kept: ε′ = Δ(1/σT + 2B/σq + B/σa). A share w goes to the answers; of
    # the rest, Lyu, Su, Li 2017 (Section 4.2): query noise (2B)^{2/3} times the threshold's share.
    ratio = (2.0 * budget) ** (2.0 / 3.0)
    best = None
    for share in np.linspace(0.05, 0.95, 181):
        rest = (1.0 - share) * level * n
        threshold_scale = (1.0 + ratio) / rest
        query_scale = 2.0 * budget * (1.0 + ratio) / (rest * ratio)
        answer_scale = budget / (share * level * n)
        widest = max(
            noise_margin(failure=failure, threshold_scale=threshold_scale, query_scale=query_scale),
            answer_margin(failure=failure, answer_scale=answer_scale),
        )
        if best is None or widest < best[0]:
            best = (widest, (threshold_scale, query_scale, answer_scale))
    if not max(best[1]) < LARGEST_SCALE:
        raise ValueError(
            f"epsilon={epsilon:g} asks for noise of scale {max(best[1]):.3g} on scores in [0, 1]: "
            "ask for a larger epsilon, or use epsilon='auto'."
        )
    return best[1]


def zhao_scales(parameters, *, model, n):
    r"""Return scales, threshold and :math:`\tau` of Zhao 2017, Theorem 2, to the letter.

    A given threshold fixes :math:`\tau = 2T/(1+c)`; ``"auto"`` takes the smallest :math:`\tau`
    whose :math:`n_\#` is at most ``n``, or 1 where there is none.
    """
    if parameters.threshold == "auto":
        tau = _smallest_tau(parameters, model=model, n=n)
    else:
        tau = 2.0 * parameters.threshold / (1.0 + ZHAO_C)
        if not tau <= 1.0:
            raise ValueError(
                f"threshold must be at most {(1.0 + ZHAO_C) / 2.0:g} with calibration='zhao2017', "
                "where it fixes tau = 2 * threshold / (1 + c), an error in [0, 1]; got "
                f"threshold={parameters.threshold:g}."
            )
    # Zhao 2017, Theorem 2: σ = (1−c)τ / (12 ln(4m/β)), T = (1+c)τ/2; noises σ, 2σ, 4σ.
    sigma = (1.0 - ZHAO_C) * tau / (12.0 * math.log(4.0 * parameters.n_queries / parameters.beta))
    return (sigma, 2.0 * sigma, 4.0 * sigma), (1.0 + ZHAO_C) * tau / 2.0, tau


def _smallest_tau(parameters, *, model, n):
    """Return the accuracy Theorem 2 promises for ``n`` records; at most 1."""
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = 0.5 * (low + high)
        if zhao_records(middle, parameters, model=model, n=n) <= n:
            high = middle
        else:
            low = middle
    return high  # fulfils n ≥ n_#, or is 1


def zhao_records(tau, parameters, *, model, n):
    r"""Return :math:`n_\#`, the records Theorem 2 asks for."""
    return zhao_required_n(
        tau=tau,
        n_queries=parameters.n_queries,
        budget=parameters.budget,
        beta=parameters.beta,
        c=ZHAO_C,
        model=model,
        n=n,
    )
