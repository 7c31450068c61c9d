"""What callers declare as ``correlation``, as a model."""

from __future__ import annotations

import difflib
import numbers

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from sklearn_bdp._typing import Correlation
from sklearn_bdp.correlation._base import CorrelationModel
from sklearn_bdp.correlation._chain import MarkovChain
from sklearn_bdp.correlation._components import Groups, Independent
from sklearn_bdp.correlation._graph import DependencyGraph, is_networkx
from sklearn_bdp.correlation._past import GivenPast
from sklearn_bdp.correlation._worst import WorstOf


def check_correlation(
    correlation: Correlation, *, groups: ArrayLike | None = None
) -> CorrelationModel:
    """Return the correlation model that an argument stands for.

    Parameters
    ----------
    correlation : None, array-like, scipy.sparse, networkx graph, model, list, "groups" or "time"
        ``None``: independent records. A dense square array: the transition matrix of a Markov
        chain. A sparse matrix or networkx graph: structure only. A model: itself. A list of
        any of these: the worst of them. ``"groups"``: records depend inside ``groups``.
        ``"time"``: :class:`GivenPast`.
    groups : array-like of shape (n,), optional
        One label per record, for ``"groups"``.

    Returns
    -------
    CorrelationModel
        The model.

    Raises
    ------
    ValueError, TypeError
        If the argument is none of these or malformed.

    See Also
    --------
    CorrelationModel : Base class of what it returns.

    Examples
    --------
    >>> from sklearn_bdp.correlation import check_correlation
    >>> check_correlation(None)
    Independent()
    >>> check_correlation("groups", groups=["a", "a", "b"])
    Groups(<3 records in 2 groups>)
    """
    if correlation is None:
        return Independent()
    if isinstance(correlation, CorrelationModel):
        return correlation
    check_declared(correlation)
    if isinstance(correlation, str):
        if correlation == "time":
            return GivenPast()
        if groups is None:
            raise ValueError("correlation='groups' needs groups=, one label per record, got None.")
        return Groups(groups)
    if sparse.issparse(correlation) or is_networkx(correlation):
        return DependencyGraph(correlation)
    if isinstance(correlation, list | tuple) and not _is_matrix(correlation):
        return WorstOf([check_correlation(item, groups=groups) for item in correlation])
    if isinstance(correlation, type) and issubclass(correlation, CorrelationModel):
        raise TypeError(f"correlation must be an instance, got the class {correlation.__name__}.")
    try:
        matrix = np.asarray(correlation, dtype=float)
    except (TypeError, ValueError, OverflowError) as error:
        raise TypeError(f"{_RULE}, got {type(correlation).__name__}.") from error
    if matrix.ndim != 2:
        raise ValueError(f"{_RULE}, got an array of shape {matrix.shape}.")
    return MarkovChain(matrix)


_RULE = (
    "correlation must be None, 'groups', 'time', a square transition matrix, a graph, a "
    "correlation model or a list of these"
)


def check_declared(correlation: object) -> None:
    """Raise where a declared correlation is a mere number, a list with "time", or misspelled."""
    if isinstance(correlation, numbers.Real) and not isinstance(correlation, bool):
        raise ValueError(
            f"{_RULE}, got the number {correlation!r}. If this is an autocorrelation time in "
            f"records, declare MarkovChain.from_autocorrelation_time({correlation!r})."
        )
    if isinstance(correlation, list | tuple) and any(
        isinstance(item, str) and item == "time" for item in correlation
    ):
        raise ValueError(
            "correlation='time' cannot be part of a list, because it assumes nothing and refers to "
            "the dates of the holdout. In a list, use "
            f"MarkovChain.from_autocorrelation_time(records), got correlation={correlation!r}."
        )
    if isinstance(correlation, str) and correlation not in ("groups", "time"):
        near = difflib.get_close_matches(correlation.lower(), ("groups", "time"), n=1)
        meant = f" Did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"{_RULE}, got correlation={correlation!r}.{meant}")


def _is_matrix(items):
    """Return whether a list is a matrix written as rows of numbers."""
    rows = [row for row in items if isinstance(row, list | tuple | np.ndarray)]
    return len(rows) == len(items) > 0 and all(
        len(row) > 0 and all(np.isscalar(entry) for entry in row) for row in rows
    )
