"""Cuts between training and holdout records: gaps, broken dependence, neighbors on both sides.

Functions have a default for models without order or edges. Other models register their own.
"""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import numpy as np

from sklearn_bdp._typing import Array
from sklearn_bdp.utils.validation import check_integer, check_real


@singledispatch
def gap_failure_probability(model: Any, gap: int) -> float:
    """Return the failure probability that cutting next to training data costs (theory H6).

    Parameters
    ----------
    model : CorrelationModel
        Model of the records.
    gap : int
        Records dropped between the training data and the holdout.

    Returns
    -------
    float
        0 unless the records form a chain.
    """
    check_integer("gap", gap, low=0)
    return 0.0


@singledispatch
def required_gap(model: Any, failure: float) -> int:
    """Return the smallest gap whose failure probability is at most ``failure``.

    Parameters
    ----------
    model : CorrelationModel
        Model of the records.
    failure : float
        Allowed :func:`gap_failure_probability`, in (0, 1).

    Returns
    -------
    int
        Records (or dates) to drop; 0 unless the records are in time order.
    """
    check_real("failure", failure, low=0.0, high=1.0, closed="neither")
    return 0


@singledispatch
def gaps_to_training(model: Any, train: Array, holdout: Array) -> tuple[int | None, int | None]:
    """Return the numbers of records between a holdout and the training records on each side.

    Parameters
    ----------
    model : CorrelationModel
        Model of the records.
    train, holdout : ndarray of int
        Positions of the records.

    Returns
    -------
    tuple of (int or None)
        Records (or dates) dropped before and after the holdout; None on a side
        without training records.
    """
    earlier = train[train < holdout.min()]
    later = train[train > holdout.max()]
    return (
        int(holdout.min() - earlier.max() - 1) if earlier.size else None,
        int(later.min() - holdout.max() - 1) if later.size else None,
    )


@singledispatch
def n_split_components(model: Any, train: Array, test: Array) -> int:
    """Return the number of components that have records on both sides of a split.

    Parameters
    ----------
    model : CorrelationModel
        Model of the records; for ``reach="edges"`` linked test records are counted.
    train, test : ndarray of int
        Records of the two sides.

    Returns
    -------
    int
        0 if the two sides may be distinguished, as always if bounds hold given the rest.
    """
    if model.n_records is None:
        return 0
    scheme = model.sampling_scheme(model.n_records)
    if scheme.in_time_order or scheme.bounds_hold_given_rest:
        return 0
    codes = model.components(model.n_records)
    return int(np.intersect1d(codes[train], codes[test]).size)


@singledispatch
def match_nodes(model: Any, train: Array, holdout: Array) -> Any:
    """Return how cross-validation on the training records predicts the score on the holdout.

    Parameters
    ----------
    model : CorrelationModel
        Model of the records.
    train, holdout : ndarray of int
        Records of the two sides.

    Returns
    -------
    NodeMatching or None
        None if a training record is like a holdout record, as always unless neighbors are on
        the other side.
    """
    return None
