"""Parameters of Thresholdout: as published, and what they cost in differential privacy."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Self

from sklearn_bdp._checks import check_boolean, check_integer, check_probability, check_real


class Presets:
    """Constructors of `Thresholdout` with published parameters."""

    if TYPE_CHECKING:  # Thresholdout's own signature

        def __init__(self, *arguments: Any, **options: Any) -> None: ...

    @classmethod
    def zhao2017(
        cls, tau: float, beta: float, n_queries: int, budget: int, c: float = 0.5, **options: Any
    ) -> Self:
        r"""Return Zhao's Algorithm 1 with the parameters of Theorem 2.

        :math:`\sigma = (1-c)\tau / (12 \ln(4m/\beta))`, noise scales σ, 2σ and 4σ, and
        :math:`T = (1+c)\tau/2`.

        Parameters
        ----------
        tau : float in (0, 1]
            Accuracy of the answers.
        beta : float in (0, 1)
            Failure probability.
        n_queries : int
            Number of queries ``m``.
        budget : int
            Number of "above" answers.
        c : float in (0, 1), default=0.5
            Queries that overfit by less than ``c * tau`` do not consume budget.
        **options : object
            ``resolution`` (the paper has none) and ``random_state`` of `Thresholdout`.

        Returns
        -------
        Thresholdout
            The configured mechanism.
        """
        c = check_probability("c", c)
        tau, log_term = _accuracy(tau, beta, n_queries)
        budget = check_integer("budget", budget, low=1)
        sigma = (1.0 - c) * tau / (12.0 * log_term)
        return cls._scaled((1.0 + c) * tau / 2.0, sigma, (1, 2, 4), budget, options)

    @classmethod
    def dwork2017(
        cls, tau: float, beta: float, n_queries: int, budget: int, **options: Any
    ) -> Self:
        r"""Return Thresholdout of Dwork et al. with the parameters of Theorem 9.

        :math:`\sigma = \tau / (96 \ln(4m/\beta))`, noise scales 2σ, 4σ and σ (Fig. 1), and
        :math:`T = 3\tau/4`. For independent records.

        Parameters
        ----------
        tau, beta, n_queries, budget, **options : object
            As for `zhao2017`.

        Returns
        -------
        Thresholdout
            The configured mechanism.
        """
        tau, log_term = _accuracy(tau, beta, n_queries)
        budget = check_integer("budget", budget, low=1)
        return cls._scaled(0.75 * tau, tau / (96.0 * log_term), (2, 4, 1), budget, options)

    @classmethod
    def dwork2017_practical(
        cls,
        threshold: float = 0.04,
        sigma: float = 0.01,
        *,
        budget: int | None = None,
        **options: Any,
    ) -> Self:
        """Return the Gaussian variant of Dwork et al., Section 4.1, which comes without a proof.

        Parameters
        ----------
        threshold : float, default=0.04
            The threshold.
        sigma : float, default=0.01
            Answer noise; threshold and query noise are two and four times that (Fig. 1).
        budget, **options : object
            As for `Thresholdout`.

        Returns
        -------
        Thresholdout
            The configured mechanism.
        """
        sigma = check_real("sigma", sigma, low=0.0, closed="right")
        options = {"noise": "gaussian", **options}
        return cls._scaled(threshold, sigma, (2, 4, 1), budget, options)

    @classmethod
    def _scaled(cls, threshold, sigma, ratios, budget, options):
        """Return the mechanism whose noise scales are these multiples of ``sigma``."""
        names = ("threshold_scale", "query_scale", "answer_scale")
        scales = {name: ratio * sigma for name, ratio in zip(names, ratios, strict=True)}
        return cls(threshold, **scales, budget=budget, **options)


def _accuracy(tau, beta, n_queries):
    tau = check_real("tau", tau, low=0.0, high=1.0, closed="right")
    beta = check_probability("beta", beta)
    n_queries = check_integer("n_queries", n_queries, low=1, high=2**53)
    return tau, math.log(4.0 * n_queries / beta)


def thresholdout_epsilon(
    *,
    sensitivity: float,
    budget: int,
    threshold_scale: float,
    query_scale: float,
    answer_scale: float,
    refresh: bool = True,
    n_thresholds: int | None = None,
) -> float:
    r"""Return the pure DP level of a whole transcript of Thresholdout with Laplace noise.

    :math:`\Delta (k_T/\sigma_T + 2B/\sigma_q + B/\sigma_a)` with :math:`k_T` threshold draws that
    queries were compared with and ``B`` "above" answers.

    Parameters
    ----------
    sensitivity : float
        How far one record can move a holdout value, ``1/n`` for a mean of scores in [0, 1].
    budget : int
        Number of "above" answers.
    threshold_scale, query_scale, answer_scale : float
        Laplace scales; 0 means no noise, and the level is infinite once such noise was used.
    refresh : bool, default=True
        Whether the threshold noise is drawn anew after each "above": :math:`k_T = B`, else 1.
    n_thresholds : int or None, default=None
        :math:`k_T` itself, for a transcript that has not ended with its last "above".

    Returns
    -------
    float
        ε′, pure DP for replace-one neighbours.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range.

    References
    ----------
    Theory T1; Zhao 2017, Algorithm 1 and Section 5.2; Lyu, Su and Li 2017, Algorithm 1.

    Examples
    --------
    >>> thresholdout_epsilon(
    ...     sensitivity=0.001, budget=4, threshold_scale=0.01, query_scale=0.02, answer_scale=0.04
    ... )
    0.9
    """
    delta = check_real("sensitivity", sensitivity, low=0.0, closed="neither")
    rounds = check_integer("budget", budget, low=0)
    refresh = check_boolean("refresh", refresh)
    if n_thresholds is None:
        n_thresholds = rounds if refresh else 1
    n_thresholds = check_integer("n_thresholds", n_thresholds, low=0)
    # Theory T1. Moving one record moves every margin by at most Δ. Shift the threshold noise by
    # Δ: all "below" answers of its round are then at least as likely. An "above" query has moved
    # towards or away from the shifted threshold by at most 2Δ, and its released value by Δ.
    terms = (
        (n_thresholds, check_real("threshold_scale", threshold_scale, low=0.0)),
        (2 * rounds, check_real("query_scale", query_scale, low=0.0)),
        (rounds, check_real("answer_scale", answer_scale, low=0.0)),
    )
    if any(count and scale == 0.0 for count, scale in terms):
        return math.inf
    return delta * math.fsum(count / scale for count, scale in terms if count)
