"""Folds of the training set for cross-validation, which obey the declared dependence."""

import numbers

import numpy as np
from sklearn.model_selection import PredefinedSplit, check_cv

from sklearn_bdp.correlation.cutting import n_split_components
from sklearn_bdp.diagnostics.scores import CV_MIXES_DATES, CV_SPLITS_GROUPS
from sklearn_bdp.utils.sklearn_compat import num_samples


def inner_folds(cv, split, *, classifier):
    """Return the inner cross-validation on the training set.

    Numbers of folds obey the correlation. Index lists and ``PredefinedSplit`` refer to the data
    given to ``fit``; holdout records are dropped from them.

    Parameters
    ----------
    cv : None, int, splitter or iterable of pairs
        As for a search of scikit-learn.
    split : HoldoutSplit
        Training set and holdout.
    classifier : bool
        Whether folds of independent records are stratified.
    """
    if cv is None or isinstance(cv, numbers.Integral):
        cv = _drawn_folds(cv, split)
    elif split.train is not None:
        if isinstance(cv, PredefinedSplit):
            cv = PredefinedSplit(cv.test_fold[split.train])
        elif not hasattr(cv, "split"):
            cv = _positions_in_training_set(cv, split)
    return check_cv(cv, split.y, classifier=classifier)


def _drawn_folds(cv, split):
    """Return the folds that the dependence of the training records asks for, or ``cv`` itself."""
    n_splits = 5 if cv is None else cv
    if split.node_matching is not None:
        return split.node_matching.folds(n_splits)
    model = split.train_model
    if model is None or (model.n_records is None and split.train_scheme.has_independent_records):
        return cv
    return model.folds(num_samples(split.X), n_splits, random_state=0)


def _positions_in_training_set(cv, split):
    """Return pairs of positions in all data as pairs of positions in the training set."""
    pairs = list(cv) if np.iterable(cv) else [cv]
    if not (pairs and all(map(np.iterable, pairs))):
        raise ValueError(
            "cv must be a number of folds, a splitter, or pairs of positions of training "
            f"and test records, got cv={cv!r:.80}."
        )
    return [tuple(_within(part, split, k) for part in fold) for k, fold in enumerate(pairs)]


def check_folds(split, folds):
    """Raise if folds of the training set violate the declared dependence."""
    model = split.train_model
    if model is not None and any(n_split_components(model, train, test) for train, test in folds):
        raise CV_SPLITS_GROUPS.error()
    dates = split.time_ordered_dates()
    if dates is None:
        return
    for train, test in folds:
        is_late = dates[train] >= dates[test].min()
        is_early = dates[train] <= dates[test].max()
        if (is_late & is_early).any():
            raise CV_MIXES_DATES.error()


def _within(positions, split, k):
    """Return positions in the training set of records given by position in all data."""
    positions = np.asarray(positions)
    if not positions.size or positions.dtype.kind not in "biu":
        problem = f"holds {positions.dtype}" if positions.size else "is empty"
        raise ValueError(f"cv must hold positions of records: fold {k} (counted from 0) {problem}.")
    positions = np.flatnonzero(positions) if positions.dtype == bool else positions
    n = np.concatenate([split.train, split.holdout, positions]).max() + 1
    train_position = np.full(n, -1)
    train_position[split.train] = np.arange(split.train.size)
    train_positions = train_position[positions]
    train_positions = train_positions[train_positions >= 0]
    if not train_positions.size:
        raise ValueError(f"cv must have training records, fold {k} (counted from 0) has none.")
    return train_positions
