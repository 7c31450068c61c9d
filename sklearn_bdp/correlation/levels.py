"""Information and bias that follow from a level of privacy, by bounds that load on demand.

The bounds are in :mod:`sklearn_bdp.correlation.leakage`, which intervals never import.
"""

from __future__ import annotations

from functools import singledispatch
from typing import Any

from sklearn_bdp.correlation.frozen import cached
from sklearn_bdp.utils.validation import check_real


def leakage_bound_of(model: Any) -> Any:
    """Return the :class:`~sklearn_bdp.correlation.leakage.LeakageBound` of a model."""
    from sklearn_bdp.correlation.leakage import leakage_bound

    return cached(model, "leakage bound", lambda: leakage_bound(model))


@singledispatch
def sequential_information(model: Any, dp_epsilon: float, n: int) -> float:
    """Return ``K``, the least sum over blocks of squared leakage / 8 (theory G1).

    Parameters
    ----------
    model : CorrelationModel
        Model of the records.
    dp_epsilon : float
        Level of ordinary differential privacy, in nats.
    n : int
        Number of records.

    Returns
    -------
    float
        Information in nats.
    """
    dp_epsilon = check_real("dp_epsilon", dp_epsilon, low=0.0)
    n = model.check_n(n)
    if not dp_epsilon > 0:  # an answer ignores every record
        return 0.0
    return float(leakage_bound_of(model).sequential_information(dp_epsilon, n))


@singledispatch
def posterior_bias(model: Any, dp_epsilon: float, n: int) -> float:
    """Return ``r``, the mean over records of ``tanh(leakage / 4)`` (theory G6).

    Parameters
    ----------
    model : CorrelationModel
        Model of the records.
    dp_epsilon : float
        Level of ordinary differential privacy, in nats.
    n : int
        Number of records.

    Returns
    -------
    float
        Largest distance between posterior mean and truth, in score units.
    """
    dp_epsilon = check_real("dp_epsilon", dp_epsilon, low=0.0)
    n = model.check_n(n)
    if not dp_epsilon > 0:
        return 0.0
    return float(leakage_bound_of(model).posterior_bias(dp_epsilon, n))


def privacy_level(model: Any, direction: str, level: float, n: int, method: str) -> float:
    """Return the level that follows from another one.

    Parameters
    ----------
    model : CorrelationModel
        Model of the records.
    direction : {"leakage", "inverse"}
        From a DP level to a Bayesian one, or back.
    level : float
        Given level, in nats.
    n : int
        Number of records.
    method : {"tight", "quilt", "blanket", "spectral"}
        Bound, as for :meth:`CorrelationModel.bdp_epsilon`.
    """
    if method == "tight" and model.sampling_scheme(n).has_independent_records:
        return level  # theory B0
    bound = leakage_bound_of(model)
    bound.check_method(n, method)
    if level == 0.0:
        return 0.0  # an answer that ignores every record tells nothing about any of them
    compute = bound.leakage if direction == "leakage" else bound.inverse
    return cached(model, (direction, level, n, method), lambda: float(compute(level, n, method)))
