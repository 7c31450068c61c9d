"""Thresholdout as published: parameters chosen by the theorems of the papers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Self

from sklearn_bdp._checks import check_integer, check_probability, check_real
from sklearn_bdp._typing import Seed


class Presets:
    """Constructors of `Thresholdout` with published parameters."""

    if TYPE_CHECKING:  # Thresholdout's own signature

        def __init__(self, *arguments: Any, **options: Any) -> None: ...

    @classmethod
    def zhao2017(
        cls,
        tau: float,
        beta: float,
        n_queries: int,
        budget: int,
        c: float = 0.5,
        *,
        resolution: float = 0.0,
        random_state: Seed = None,
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
        resolution : float in [0, 1], default=0.0
            Width of the cells of released answers; the paper has none.
        random_state : None, int or numpy.random.Generator, default=None
            As for `Thresholdout`.

        Returns
        -------
        Thresholdout
            The configured mechanism.
        """
        return cls(
            **zhao2017_parameters(tau, beta, n_queries, c),
            budget=check_integer("budget", budget, low=1),
            resolution=resolution,
            random_state=random_state,
        )

    @classmethod
    def dwork2017(
        cls,
        tau: float,
        beta: float,
        n_queries: float,
        budget: float,
        *,
        resolution: float = 0.0,
        random_state: Seed = None,
    ) -> Self:
        r"""Return Thresholdout of Dwork et al. with the parameters of Theorem 9.

        :math:`\sigma = \tau / (96 \ln(4m/\beta))`, noise scales 2σ, 4σ and σ (Fig. 1), and
        :math:`T = 3\tau/4`. For independent records.

        Parameters
        ----------
        tau, beta, n_queries, budget, resolution, random_state : object
            As for `zhao2017`.

        Returns
        -------
        Thresholdout
            The configured mechanism.
        """
        return cls(
            **dwork2017_parameters(tau, beta, n_queries),
            budget=check_integer("budget", budget, low=1),
            resolution=resolution,
            random_state=random_state,
        )

    @classmethod
    def dwork2017_practical(
        cls,
        threshold: float = 0.04,
        sigma: float = 0.01,
        *,
        budget: int | None = None,
        resolution: float = 0.0,
        random_state: Seed = None,
    ) -> Self:
        """Return the Gaussian variant of Dwork et al., Section 4.1, which comes without a proof.

        Parameters
        ----------
        threshold : float, default=0.04
            The threshold.
        sigma : float, default=0.01
            Answer noise; threshold and query noise are two and four times that (Fig. 1).
        budget, resolution, random_state : object
            As for `Thresholdout`.

        Returns
        -------
        Thresholdout
            The configured mechanism.
        """
        sigma = check_real("sigma", sigma, low=0.0, closed="right")
        return cls(
            threshold,
            threshold_scale=2.0 * sigma,
            query_scale=4.0 * sigma,
            answer_scale=sigma,
            budget=budget,
            resolution=resolution,
            noise="gaussian",
            random_state=random_state,
        )


def zhao2017_parameters(tau, beta, n_queries, c):
    """Return the arguments of `Thresholdout` for Zhao 2017, Theorem 2."""
    c = check_probability("c", c)
    tau, log_term = _accuracy_arguments(tau, beta, n_queries)
    sigma = (1.0 - c) * tau / (12.0 * log_term)
    return {
        "threshold": (1.0 + c) * tau / 2.0,
        "threshold_scale": sigma,
        "query_scale": 2.0 * sigma,
        "answer_scale": 4.0 * sigma,
    }


def dwork2017_parameters(tau, beta, n_queries):
    """Return the arguments of `Thresholdout` for Dwork et al. 2017, Theorem 9 and Fig. 1."""
    tau, log_term = _accuracy_arguments(tau, beta, n_queries)
    sigma = tau / (96.0 * log_term)
    return {
        "threshold": 0.75 * tau,
        "threshold_scale": 2.0 * sigma,
        "query_scale": 4.0 * sigma,
        "answer_scale": sigma,
    }


def _accuracy_arguments(tau, beta, n_queries):
    tau = check_real("tau", tau, low=0.0, high=1.0, closed="right")
    beta = check_probability("beta", beta)
    n_queries = check_integer("n_queries", n_queries, low=1, high=2**53)
    return tau, math.log(4.0 * n_queries / beta)
