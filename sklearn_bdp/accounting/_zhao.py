"""The calibration of Zhao 2017 to the letter: premise (8) of Theorem 1, Theorem 2 (theory G3)."""

import math

from sklearn_bdp._checks import check_integer, check_probability, check_real

__all__ = ["zhao_premise", "zhao_required_n"]


def zhao_premise(*, tau, budget, sigma, model, n):
    r"""Records that premise (8) of Zhao's Theorem 1 asks for.

    The theorem concludes that ``q(X)`` is within ``tau / 3`` or so of its expectation. It is
    false as stated: premises can hold while ``q(X)`` does not concentrate at all (see the errata).

    Parameters
    ----------
    tau : float
        Tolerance.
    budget : int
        B.
    sigma : float
        σ of Algorithm 1 (scales σ, 2σ, 4σ).
    model : CorrelationModel
        How the records are correlated.
    n : int
        Number of records (for models tied to them).

    Returns
    -------
    float
        The premise reads ``n >=`` this.

    References
    ----------
    Zhao 2017, Theorem 1, (8), with the calibration of Lemma 2 at level ``tau / 3``.
    """
    level = model.dp_epsilon(check_real("tau", tau, low=0.0, closed="neither") / 3.0, n,
                             method="quilt")  # fmt: skip
    sigma = check_real("sigma", sigma, low=0.0, closed="neither")
    return math.inf if level == 0.0 else 9.0 * budget / (4.0 * sigma * level)


def zhao_required_n(*, tau, n_queries, budget, beta=0.05, c=0.5, model, n=None):
    r"""Records that Zhao's Theorem 2 asks for, as printed.

    .. math:: n_\# = \frac{9B}{4\sigma\varepsilon'}, \quad
       \sigma = \frac{(1-c)\tau}{12\ln(4m/\beta)}, \quad \varepsilon = (1-c)\tau/12,

    with :math:`\varepsilon'` the DP level for the BDP level :math:`\varepsilon` by the paper's
    Lemma 4 (chains it applies to) or Lemma 2.

    Parameters
    ----------
    tau : float
        Wanted error, in (0, 1).
    n_queries : int
        Queries m.
    budget : int
        Answers from the holdout, B.
    beta : float
        Failure probability.
    c : float
        Budget honesty, in [0, 1).
    model : CorrelationModel
        How the records are correlated.
    n : int or None
        Number of records for models tied to them; ``None``: any, large enough for the lemma.

    Returns
    -------
    float
        :math:`n_\#`, not rounded; ``inf`` when no positive level suffices.

    References
    ----------
    Zhao 2017, Theorem 2 and Lemmas 2-4. Its proof rests on Theorem 1; see the errata.
    """
    tau = check_real("tau", tau, low=0.0, high=1.0, closed="right")
    m = check_integer("n_queries", n_queries, low=1)
    rounds = check_integer("budget", budget, low=1)
    beta = check_probability("beta", beta)
    sigma = (1.0 - c) * tau / (12.0 * math.log(4.0 * m / beta))
    level = zhao_level((1.0 - c) * tau / 12.0, model, n)
    return math.inf if level == 0.0 else 9.0 * rounds / (4.0 * sigma * level)


def zhao_level(bdp_epsilon, model, n):
    """DP level by the paper's own calibration: Lemma 4 where it applies, else Lemma 2."""
    size = n if n is not None else model.n_records
    if size is None:
        size = 10**9  # the lemmas do not depend on n beyond n ≥ 2d
    for method in ("spectral", "quilt"):
        try:
            return float(model.dp_epsilon(bdp_epsilon, size, method=method))
        except ValueError:
            continue
    raise ValueError(
        "route='zhao2017' needs a model to which Lemma 2, 3 or 4 of Zhao 2017 applies, got "
        f"{model.describe()}."
    )
