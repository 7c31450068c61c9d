"""Divide the data into a training part and a holdout, obeying the correlation."""

from dataclasses import dataclass, field

import numpy as np
from sklearn.base import is_classifier, is_regressor
from sklearn.utils import assert_all_finite, get_tags, indexable
from sklearn.utils.multiclass import type_of_target

from sklearn_bdp._checks import check_real
from sklearn_bdp._sklearn_compat import num_samples, safe_split
from sklearn_bdp.correlation import CorrelationModel, check_correlation

__all__ = ["Division", "check_records", "divide", "reuse"]


@dataclass(frozen=True)
class Division:
    """What the search trains on, and what becomes the holdout.

    Attributes
    ----------
    X, y : array-like
        The training part.
    X_holdout, y_holdout : array-like
        The records that only the mechanism sees.
    train, holdout : ndarray of int or None
        Positions in the data given to ``fit``; ``None`` for an explicit validation set.
    model : CorrelationModel
        The correlation of the holdout records.
    train_model : CorrelationModel or None
        The correlation of the training records, for the inner folds.
    gap : tuple of (int, int) or None
        Records dropped before and after the holdout where it was cut from one sequence with
        the training part (``None`` on a side without training records).
    """

    X: object = field(repr=False)
    y: object = field(repr=False)
    X_holdout: object = field(repr=False)
    y_holdout: object = field(repr=False)
    train: np.ndarray | None = field(repr=False)
    holdout: np.ndarray | None = field(repr=False)
    model: CorrelationModel
    train_model: CorrelationModel | None
    gap: object = None


def check_records(estimator, X, y):
    """Raise what the estimator's ``fit`` would raise if it were given all records.

    It is given the training part only; a missing value that the estimator cannot take would
    otherwise go unnoticed in the holdout and be scored as a wrong prediction.

    Parameters
    ----------
    estimator : estimator
        The estimator of the search.
    X, y : array-like
        All records.
    """
    if np.iscomplexobj(X) or np.iscomplexobj(y):
        raise ValueError("Complex data not supported: X and y must be real.")
    if is_classifier(estimator) or is_regressor(estimator):
        type_of_target(y, input_name="y", raise_unknown=True)
    nested = any(hasattr(value, "fit") for value in estimator.get_params(deep=True).values())
    if nested or not isinstance(X, np.ndarray):  # what a pipeline takes only its fit can tell
        return
    tags = get_tags(estimator).input_tags
    if X.dtype == object and not (tags.string or tags.categorical):
        X = X.astype(float)
    if X.dtype.kind == "f" and not tags.allow_nan:
        assert_all_finite(X, estimator_name=type(estimator).__name__, input_name="X")


def divide(estimator, X, y, *, holdout, correlation, groups, X_val, y_val, random_state):
    """Return the :class:`Division` that the arguments of the search describe.

    Parameters
    ----------
    estimator : estimator
        Decides about stratification and about precomputed kernels.
    X, y : array-like of shape (n_samples, ...)
        The data given to ``fit``.
    holdout : float or splitter
        A fraction of the records or a splitter with exactly one split.
    correlation : object
        Whatever :func:`sklearn_bdp.correlation.check_correlation` takes.
    groups : array-like of shape (n_samples,) or None
        Group labels, for ``correlation="groups"`` and for the splitter.
    X_val, y_val : array-like or None
        An explicit validation set; it takes the place of a split.
    random_state : None, int or RandomState
        For a random split.

    Returns
    -------
    Division
        Training part, holdout, and the correlation of each.
    """
    X, y = indexable(X, y)
    if X_val is not None:
        return _explicit(X, y, X_val, y_val, correlation)
    if y_val is not None:
        raise ValueError("y_val was given without X_val; give both or neither.")
    n = num_samples(X)
    model = check_correlation(correlation, groups=groups)
    model.check_n(n)
    if hasattr(holdout, "split") and hasattr(holdout, "get_n_splits"):
        train, test = _one_split(holdout, X, y, groups)
    else:
        fraction = check_real("holdout", holdout, low=0.0, high=1.0, closed="neither")
        if not n * fraction >= 1:
            raise ValueError(
                f"holdout={holdout!r} leaves no records for the holdout with n_samples={n}; it "
                f"must be at least 1/{n}."
            )
        split = model.split(
            n,
            fraction,
            y=_classes(y) if is_classifier(estimator) else None,
            random_state=random_state,
        )
        train, test = split.train, split.holdout
    X_train, y_train = safe_split(estimator, X, y, train)
    X_holdout, y_holdout = safe_split(estimator, X, y, test, train)
    return Division(
        X=X_train,
        y=y_train,
        X_holdout=X_holdout,
        y_holdout=y_holdout,
        train=train,
        holdout=test,
        model=model.subset(test),
        train_model=_training_model(model, train),
        gap=_gaps(train, test),
    )


def reuse(X, y, holdout, *, correlation, groups):
    """Return the division in which all given data are training data of an existing holdout.

    ``correlation`` and ``groups`` describe the training records here; a chain that the holdout
    follows is taken for the training records too.
    """
    if correlation is None and groups is not None and holdout.model.n_records is not None:
        correlation = "groups"
    if correlation is not None:
        train_model = check_correlation(correlation, groups=groups)
        train_model.check_n(num_samples(X))
    else:
        train_model = holdout.model if holdout.model.n_records is None else None
    return Division(
        X=X,
        y=y,
        X_holdout=holdout.X,
        y_holdout=holdout.y,
        train=None,
        holdout=None,
        model=holdout.model,
        train_model=train_model,
    )


def _explicit(X, y, X_val, y_val, correlation):
    """Return the division for a validation set that the caller brings."""
    if y_val is None:
        raise ValueError("X_val was given without y_val; give both or neither.")
    if isinstance(correlation, str):
        raise ValueError(
            "correlation='groups' takes the groups of the data given to fit, which say nothing "
            "about X_val; give correlation=Groups(labels of the validation records)."
        )
    X_val, y_val = indexable(X_val, y_val)
    if num_samples(X_val) == 0:
        raise ValueError("X_val must hold at least one record, got 0.")
    model = check_correlation(correlation)
    model.check_n(num_samples(X_val))
    return Division(
        X=X,
        y=y,
        X_holdout=X_val,
        y_holdout=y_val,
        train=None,
        holdout=None,
        model=model,
        train_model=None,
    )


def _classes(y):
    """Return the labels to stratify by; None where there is more than one output."""
    labels = np.asarray(y)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    return labels if labels.ndim == 1 else None


def _one_split(splitter, X, y, groups):
    """Return the only split of ``splitter`` as two index arrays."""
    n_splits = splitter.get_n_splits(X, y, groups)
    if n_splits != 1:
        raise ValueError(
            "holdout must be a splitter with exactly one split (each record is held out or it is "
            f"not), got {n_splits} splits from holdout={splitter!r}. Use "
            "ShuffleSplit(n_splits=1) or a fraction; k-fold splitters belong in cv."
        )
    ((train, test),) = splitter.split(X, y, groups)
    train, test = np.asarray(train), np.asarray(test)
    for name, part in (("training part", train), ("holdout", test)):
        if part.size == 0:
            raise ValueError(f"holdout={splitter!r} leaves no records for the {name}.")
    if np.intersect1d(train, test).size:
        raise ValueError(f"holdout={splitter!r} puts records on both sides of the split.")
    return train, test


def _training_model(model, train):
    """Return the correlation of the training records, or None where it has no plain form."""
    try:
        return model.subset(train)
    except ValueError:  # a chain with the holdout cut out of its middle is two chains
        return None


def _gaps(train, test):
    """Return how many records lie between the holdout and the training records on each side."""
    before = train[train < test.min()]
    after = train[train > test.max()]
    return (
        int(test.min() - before.max() - 1) if before.size else None,
        int(after.min() - test.max() - 1) if after.size else None,
    )
