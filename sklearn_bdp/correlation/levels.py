"""Information, bias and Bayesian DP levels that follow from a level of differential privacy.

They are computed by :mod:`sklearn_bdp.correlation.leakage`, which is imported on demand.
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
    """Return a bound on the information that answers of a DP level reveal: ``K`` of theory G1.

    It is the sum over blocks of records of squared leakage / 8, for the best of several partitions
    into blocks. For a list of models, it is the largest of their bounds.

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
        Upper bound on the information, in nats.
    """
    dp_epsilon = check_real("dp_epsilon", dp_epsilon, low=0.0)
    n = model.check_n(n)
    if not dp_epsilon > 0:  # an answer ignores every record
        return 0.0
    return float(leakage_bound_of(model).sequential_information(dp_epsilon, n))


@singledispatch
def posterior_bias(model: Any, dp_epsilon: float, n: int) -> float:
    """Return a bound on the distance between the posterior mean of a query and its expectation.

    It is ``r`` of theory G6, the mean over records of ``tanh(leakage / 4)``; for a list of models,
    the largest of their bounds. The posterior mean is the expectation of the query given the
    answers of a mechanism of this DP level.

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
        Upper bound on the distance, in score units of ``[0, 1]``.
    """
    dp_epsilon = check_real("dp_epsilon", dp_epsilon, low=0.0)
    n = model.check_n(n)
    if not dp_epsilon > 0:
        return 0.0
    return float(leakage_bound_of(model).posterior_bias(dp_epsilon, n))


def privacy_level(model: Any, direction: str, level: float, n: int, method: str) -> float:
    """Return the Bayesian DP level for a DP level, or a DP level for a Bayesian one.

    Parameters
    ----------
    model : CorrelationModel
        Model of the records.
    direction : {"leakage", "inverse"}
        ``"leakage"``: the Bayesian DP level that follows from a DP level. ``"inverse"``: a DP level
        that suffices for a Bayesian one.
    level : float
        The DP level, or the Bayesian one for ``"inverse"``, in nats.
    n : int
        Number of records.
    method : {"tight", "quilt", "blanket", "spectral"}
        Bound, as for :meth:`CorrelationModel.bdp_epsilon`.

    Returns
    -------
    float
        The other level, in nats.
    """
    if method == "tight" and model.sampling_scheme(n).has_independent_records:
        return level  # theory B0
    bound = leakage_bound_of(model)
    bound.check_method(n, method)
    if level == 0.0:
        return 0.0  # an answer that ignores every record tells nothing about any of them
    compute = bound.leakage if direction == "leakage" else bound.inverse
    return cached(model, (direction, level, n, method), lambda: float(compute(level, n, method)))
