"""Gaps between training and holdout records, and dependent records in both.

Each function dispatches on the class of the model.
"""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import numpy as np

from sklearn_bdp._typing import Array
from sklearn_bdp.utils.validation import check_integer, check_real


@singledispatch
def gap_failure_probability(model: Any, gap: int) -> float:
    """Return an upper bound on the dependence across a gap, as total variation (theory H6).

    Parameters
    ----------
    model : CorrelationModel
        Model of the records.
    gap : int
        Records dropped between the training records and the holdout.

    Returns
    -------
    float
        For chains, sequences and lists of chains, an upper bound on the total variation distance to
        a holdout that is independent of the training records. For all other models, 0.
    """
    # These models register functions of their own.
    check_integer("gap", gap, low=0)
    return 0.0


@singledispatch
def required_gap(model: Any, failure: float) -> int:
    """Return the number of records (or dates) that a split in time must drop before the holdout.

    Parameters
    ----------
    model : CorrelationModel
        Model of the records.
    failure : float
        Allowed :func:`gap_failure_probability`, in (0, 1).

    Returns
    -------
    int
        For chains, sequences and lists of chains, the smallest number of records with at most this
        failure probability. For :class:`TimeOrdered`, its horizon in dates if that is more than 1.
        Otherwise 0.

    Raises
    ------
    ValueError
        If no gap suffices, as for periodic chains.
    """
    # Models in time register functions of their own.
    check_real("failure", failure, low=0.0, high=1.0, closed="neither")
    return 0


@singledispatch
def gaps_to_training(model: Any, train: Array, holdout: Array) -> tuple[int | None, int | None]:
    """Return the numbers of records between the holdout and the nearest training records.

    Parameters
    ----------
    model : CorrelationModel
        Model of the records.
    train, holdout : ndarray of int
        Positions of the records.

    Returns
    -------
    gap_before, gap_after : int or None
        Records (or dates) between the holdout and the nearest training record before and after it;
        None if there is none. For :class:`ChainSequences`, ``gap_before`` is the smallest over
        sequences with training and holdout records, negative if a training record is later than a
        holdout record, and ``gap_after`` is None.
    """
    # For records in one order; ChainSequences and TimeOrdered register functions of their own.
    earlier_train = train[train < holdout.min()]
    later_train = train[train > holdout.max()]
    gap_before = int(holdout.min() - earlier_train.max() - 1) if earlier_train.size else None
    gap_after = int(later_train.min() - holdout.max() - 1) if later_train.size else None
    return gap_before, gap_after


@singledispatch
def n_split_components(model: Any, train: Array, test: Array) -> int:
    """Return the number of components that have training and test records.

    Parameters
    ----------
    model : CorrelationModel
        Model of the records.
    train, test : ndarray of int
        Indices of the training and of the test records.

    Returns
    -------
    int
        For :class:`ChainSequences`, the number of sequences in which a training record is later
        than a test record. For :class:`DependencyGraph` with ``reach="edges"``, the number of test
        records with a neighbor in the training set. 0 for all other models in time order, for other
        models whose bounds are valid given all other records, and for models that describe any
        number of records.
    """
    # ChainSequences and DependencyGraph register functions of their own.
    if model.n_records is None:
        return 0
    scheme = model.sampling_scheme(model.n_records)
    if scheme.in_time_order or scheme.bounds_hold_given_rest:
        return 0
    codes = model.components(model.n_records)
    return int(np.intersect1d(codes[train], codes[test]).size)


@singledispatch
def match_nodes(model: Any, train: Array, holdout: Array) -> Any:
    """Return the edges between training nodes, and numbers of training neighbors of holdout nodes.

    Parameters
    ----------
    model : CorrelationModel
        Model of the records.
    train, holdout : ndarray of int
        Indices of the training and of the holdout records.

    Returns
    -------
    NodeMatching or None
        None unless single nodes of a Markov or Bayesian network are held out.
    """
    # Models of graphs register functions of their own.
    return None
