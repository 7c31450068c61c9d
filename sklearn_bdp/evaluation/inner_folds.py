"""Folds of the training set for cross-validation, and their checks."""

import numbers

import numpy as np
from sklearn.model_selection import PredefinedSplit, check_cv

from sklearn_bdp.correlation.cutting import n_split_components
from sklearn_bdp.diagnostics.scores import CV_MIXES_DATES, CV_SPLITS_GROUPS
from sklearn_bdp.utils.sklearn_compat import num_samples


def inner_folds(cv, holdout_split, *, classifier):
    """Return the splitter for cross-validation on the training set.

    Parameters
    ----------
    cv : None, int, splitter or iterable of pairs
        As for a search of scikit-learn. None or a number of folds: the folds follow the declared
        correlation of the training records, if any. ``PredefinedSplit`` and pairs of positions
        refer to the data passed to ``fit``, and holdout records are dropped from them.
    holdout_split : HoldoutSplit
        Training set and holdout.
    classifier : bool
        Whether folds of records without declared dependence are stratified if the targets are
        classes.
    """
    if cv is None or isinstance(cv, numbers.Integral):
        cv = _folds_of_model(cv, holdout_split)
    elif holdout_split.train is not None:
        if isinstance(cv, PredefinedSplit):
            cv = PredefinedSplit(cv.test_fold[holdout_split.train])
        elif not hasattr(cv, "split"):
            cv = _folds_of_training_set(cv, holdout_split)
    return check_cv(cv, holdout_split.y, classifier=classifier)


def _folds_of_model(cv, holdout_split):
    """Return folds that follow the dependence model of the training records, or ``cv``.

    Folds are pairs of training and test positions. ``cv``: None (5 folds) or a number of folds. It
    is returned if the split has no node matching, and the training records have no model or one of
    independent records of any number.
    """
    n_splits = 5 if cv is None else cv
    if holdout_split.node_matching is not None:
        return holdout_split.node_matching.folds(n_splits)
    model = holdout_split.train_model
    if model is None:
        return cv
    if model.n_records is None and holdout_split.train_scheme.has_independent_records:
        return cv
    return model.folds(num_samples(holdout_split.X), n_splits, random_state=0)


def _folds_of_training_set(cv, holdout_split):
    """Return folds with positions in the training set, from folds with positions in all data.

    Folds are pairs of training and test positions. ``cv``: iterable of such pairs. Raises
    ValueError for another object, and for invalid positions.
    """
    folds = list(cv) if np.iterable(cv) else [cv]
    if not (folds and all(map(np.iterable, folds))):
        raise ValueError(
            "cv must be a number of folds, a splitter, or pairs of positions of training "
            f"and test records, got cv={cv!r:.80}. Set cv=5."
        )
    return [
        tuple(
            _positions_in_training_set(positions, holdout_split, fold_index) for positions in fold
        )
        for fold_index, fold in enumerate(folds)
    ]


def check_folds(holdout_split, folds):
    """Raise an error if folds separate records that must stay together, or mix dates.

    Folds mix dates if the date of a training record is between the first and the last test date,
    inclusive. ``folds``: pairs of training and test positions in the training set.
    """
    model = holdout_split.train_model
    if model is not None and any(n_split_components(model, train, test) for train, test in folds):
        raise CV_SPLITS_GROUPS.error()
    dates = holdout_split.time_ordered_dates()
    if dates is None:
        return
    for train, test in folds:
        is_not_before_first_test = dates[train] >= dates[test].min()
        is_not_after_last_test = dates[train] <= dates[test].max()
        if (is_not_before_first_test & is_not_after_last_test).any():
            raise CV_MIXES_DATES.error()


def _positions_in_training_set(positions, holdout_split, fold_index):
    """Return positions in the training set of the training records at positions in all data.

    Positions of holdout records are dropped. ``positions``: integers, or a mask of all records.
    ``fold_index``: index of the fold, for messages. Raises ValueError for other values, or if no
    record is left.
    """
    positions = np.asarray(positions)
    if not positions.size or positions.dtype.kind not in "biu":
        problem = f"holds {positions.dtype}" if positions.size else "is empty"
        raise ValueError(
            f"cv must hold positions of records: fold {fold_index} (counted from 0) {problem}."
        )
    positions = np.flatnonzero(positions) if positions.dtype == bool else positions
    all_train_positions = holdout_split.train
    # Number of all records, or more if a position is too large.
    n = np.concatenate([all_train_positions, holdout_split.holdout, positions]).max() + 1
    position_in_training_set = np.full(n, -1)  # of each record; -1 for holdout records
    position_in_training_set[all_train_positions] = np.arange(all_train_positions.size)
    new_positions = position_in_training_set[positions]
    new_positions = new_positions[new_positions >= 0]
    if not new_positions.size:
        raise ValueError(
            f"cv must have training records, fold {fold_index} (counted from 0) has none."
        )
    return new_positions
