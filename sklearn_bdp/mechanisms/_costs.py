"""What Thresholdout costs in differential privacy."""

import math

from sklearn_bdp._checks import check_boolean, check_integer, check_real


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
