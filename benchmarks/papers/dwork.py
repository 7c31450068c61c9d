"""Number of records of Theorem 9 of Dwork et al., both sides, with constants rebuilt."""

import math

import numpy as np
from scipy.optimize import brentq


def dwork_required_n(
    *, tau: float, n_queries: int, budget: int, beta: float = 0.05, branch: str = "best"
) -> float:
    r"""Return the records of Theorem 9 (2017) or 25 (2015) of Dwork et al., i.i.d. only.

    The theorem prints :math:`O(\ln(m/\beta)/\tau^2) \cdot
    \min\{B, \sqrt{B\ln(\ln(m/\beta)/\tau)}\}`. Its constants are rebuilt from its argument:
    Thresholdout with :math:`\sigma = \tau/(96\ln(4m/\beta))` (noises 2σ, 4σ, σ) is
    :math:`B\varepsilon_0`-DP with :math:`\varepsilon_0 = 2/(\sigma n)`, and each query may be off
    by :math:`\tau/8` with probability :math:`\beta/(2m)`.

    - ``"pure"``: Theorem 4 at level :math:`\tau/8`, :math:`6e^{-\tau^2 n/64} \le \beta/(2m)`:
      :math:`\max\{16B/(\sigma\tau),\; 64\ln(12m/\beta)/\tau^2\}`.
    - ``"approximate"``: the smallest n for which strong composition,
      :math:`\varepsilon = \varepsilon_0\sqrt{2B\ln(1/\delta)} +
      B\varepsilon_0(e^{\varepsilon_0}-1)`, meets the bound for
      :math:`(\varepsilon, \delta)`-DP that the paper relies on: off by :math:`13\varepsilon` with
      probability :math:`(2\delta/\varepsilon)\ln(2/\varepsilon)` once
      :math:`n \ge 2\ln(8/\delta)/\varepsilon^2`, with :math:`\varepsilon = \tau/104`.

    The two are the sides of the theorem's minimum, B and √B; ``branch="best"``: the smaller. The
    number is not rounded.

    References
    ----------
    Dwork et al. 2017, Theorems 4 and 9; Dwork et al. 2015, Theorems 9 and 25 (the former after
    Nissim and Stemmer, arXiv:1504.05800).

    Examples
    --------
    >>> from benchmarks.papers.dwork import dwork_required_n
    >>> round(dwork_required_n(tau=0.1, n_queries=100, budget=1))
    1380433
    """
    sigma = tau / (96.0 * math.log(4.0 * n_queries / beta))
    sizes = []
    if branch != "approximate":
        sampling_n = 64.0 * math.log(12.0 * n_queries / beta) / tau**2
        sizes.append(max(16.0 * budget / (sigma * tau), sampling_n))
    if branch != "pure":
        sizes.append(_dwork_approximate(tau, n_queries, budget, beta, sigma))
    return min(sizes)


def _dwork_approximate(tau, n_queries, budget, beta, sigma):
    """Return the √B side of Theorem 9, with constants rebuilt (see `dwork_required_n`)."""
    epsilon = tau / (8.0 * 13.0)
    delta = beta / (2.0 * n_queries) * epsilon / (2.0 * math.log(2.0 / epsilon))
    slope = math.sqrt(-2.0 * budget * math.log(delta))
    level = brentq(
        lambda level: level * slope + budget * level * np.expm1(level) - epsilon,
        0.0,
        epsilon / slope,
        rtol=1e-12,
        xtol=1e-300,
    )
    return max(2.0 / (sigma * level), 2.0 * math.log(8.0 / delta) / epsilon**2)
