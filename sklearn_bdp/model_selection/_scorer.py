"""A scorer whose answers come from a reusable holdout: it goes wherever ``scoring=`` goes."""

import hashlib
import sys

import joblib
import numpy as np

from sklearn_bdp._keys import model_key
from sklearn_bdp._sklearn_compat import num_samples
from sklearn_bdp.exceptions import UnknownFeaturesError
from sklearn_bdp.holdout import ReusableHoldout
from sklearn_bdp.metrics import get_metric

__all__ = ["HoldoutScorer"]

_REMEMBERED = 64
_NAME_STRIPPERS = ("sklearn.feature_selection._rfe", "sklearn.feature_selection._sequential")


class HoldoutScorer:
    """Answer a scorer's query through a reusable holdout.

    ``scorer(estimator, X, y)`` scores ``(X, y)``, which must be training data, and returns what
    the holdout answers when that score is compared with it. Use it as ``scoring=`` in
    :func:`~sklearn.model_selection.cross_val_score`,
    :class:`~sklearn.model_selection.GridSearchCV`,
    :func:`~sklearn.inspection.permutation_importance`, or call it in a loop.

    Parameters
    ----------
    holdout : ReusableHoldout
        Copies, clones and pickles of the scorer refer to the same holdout. In another process it
        works through the holdout's ledger; without one it raises
        :class:`~sklearn_bdp.exceptions.ProcessBoundaryError`.
    scoring : str, callable or None, default=None
        A bounded metric (see :mod:`sklearn_bdp.metrics`).

    Notes
    -----
    In permutation importance the scorer recognises shuffled columns by comparing with the first
    data it saw for the same model. The query is then put to the holdout with these columns
    replaced by draws from the shuffled training columns, which are public. Keep
    ``max_samples=1.0`` there: of a shuffled sub-sample the scorer cannot know what was shuffled.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.model_selection import cross_val_score, train_test_split
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from sklearn_bdp import HoldoutScorer, ReusableHoldout
    >>> X, X_holdout, y, y_holdout = train_test_split(*load_iris(return_X_y=True), random_state=0)
    >>> scorer = HoldoutScorer(ReusableHoldout(X_holdout, y_holdout, random_state=0))
    >>> cross_val_score(DecisionTreeClassifier(random_state=0), X, y, scoring=scorer).shape
    (5,)
    """

    def __init__(self, holdout, *, scoring=None):
        if not isinstance(holdout, ReusableHoldout):
            raise TypeError(f"holdout must be a ReusableHoldout, got {type(holdout).__name__}.")
        self.holdout = holdout
        self.scoring = scoring
        self._seen = {}

    def __getattribute__(self, name):
        """Refuse selectors that strip column names, before they fit anything.

        scikit-learn asks a callable scorer for its ``__module__`` before the first fit; what
        ``__call__`` raises it would turn into a NaN score and a warning.
        """
        if name == "__module__":
            _refuse_name_strippers()
        return super().__getattribute__(name)

    def __call__(self, estimator, X, y=None, sample_weight=None):
        """Return the verified score of a fitted model.

        Parameters
        ----------
        estimator : fitted estimator
            The model in query.
        X : array-like of shape (n_samples, n_features)
            Training data for the training-side value; never holdout records.
        y : array-like of shape (n_samples,)
            Their targets.
        sample_weight : None
            Weights have no bounded sensitivity and are refused.

        Returns
        -------
        float
            The released score, in score units.

        Raises
        ------
        UnknownFeaturesError
            When the model was fitted on columns that cannot be found in the holdout.
        """
        if sample_weight is not None:
            raise ValueError(
                "sample_weight must be None: a weighted score has no known sensitivity."
            )
        if y is None:
            raise ValueError("y must be given: a verified score needs targets.")
        _refuse_name_strippers()
        if _same_records(X, self.holdout.X):
            raise ValueError(
                "X must be training data, got the holdout itself: its score would be handed out as "
                "the training-side value. Nothing was spent."
            )
        columns = _columns(estimator, X, self.holdout.X)
        metric = get_metric(self.scoring, estimator=estimator, y=y)
        training_value = metric.training_score(estimator, X, y)
        model = model_key(estimator, metric)
        shuffled = self._shuffled(model, X, y)
        records = _take(self.holdout.X, columns)
        if shuffled:
            records = _replace(records, X, shuffled)
        answers = self.holdout.answer_evaluations(
            np.array([training_value]),
            [metric.evaluate(estimator, records, self.holdout.y)],
            training_size=num_samples(X),
            keys=[f"{model}{shuffled}" if model and shuffled else model],
        )
        return float(metric.from_unit(answers.values[0]))

    def _shuffled(self, model, X, y):
        """Return which columns are shuffled, as (place, digest of the order) pairs.

        The reference is the first data seen for the same model and targets.
        """
        digests = _column_digests(X)
        if model is None or digests is None:
            return ()
        targets = joblib.hash(np.asarray(y), hash_name="sha1")
        self._seen = dict(list(self._seen.items())[-_REMEMBERED:])
        reference = self._seen.setdefault((model, targets), digests)
        if reference.shape != digests.shape:
            return ()
        moved = (digests != reference).any(axis=0)
        if (digests[0] != reference[0]).any():  # other values: other data, nothing was shuffled
            return ()
        return tuple((int(place), int(digests[1, place])) for place in np.flatnonzero(moved))

    def __repr__(self):
        scoring = "" if self.scoring is None else f", scoring={self.scoring!r}"
        return f"HoldoutScorer({self.holdout!r}{scoring})"


def _same_records(X, holdout_X):
    """Return whether ``X`` is the holdout."""
    if X is holdout_X:
        return True
    if getattr(X, "shape", 0) != getattr(holdout_X, "shape", 1) or hasattr(X, "tocsr"):
        return False
    return bool(np.array_equal(np.asarray(X), np.asarray(holdout_X)))


def _column(X, place):
    """Return one column of an array or data frame."""
    return np.asarray(X.iloc[:, place] if hasattr(X, "iloc") else X[:, place])


def _codes(column):
    """Return a 64-bit code of each value of a column."""
    if column.dtype.kind in "biuf":
        bits = np.ascontiguousarray(column, dtype=np.float64).view(np.uint64)
    else:
        values, inverse = np.unique(column.astype(str), return_inverse=True)
        hashed = (hashlib.sha256(value.encode()).digest()[:8] for value in values)
        bits = np.array([int.from_bytes(code, "big") for code in hashed], np.uint64)[inverse]
    mixed = (bits ^ (bits >> np.uint64(31))) * np.uint64(0x9E3779B97F4A7C15)
    return (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)


def _column_digests(X):
    """Return two digests of each column, shape (2, n_features): of its values, of their order.

    Sums of 64-bit codes, the second weighted by position, so that a shuffled column keeps the
    first and changes the second. ``None`` where there are no columns to shuffle.
    """
    if len(getattr(X, "shape", ())) != 2 or hasattr(X, "tocsr"):
        return None
    places = np.arange(1, X.shape[0] + 1, dtype=np.uint64) * np.uint64(0xD6E8FEB86659FD93)
    codes = [_codes(_column(X, place)) for place in range(X.shape[1])]
    return np.array([[c.sum() for c in codes], [(c * places).sum() for c in codes]], np.uint64)


def _replace(records, X, shuffled):
    """Return the holdout records with columns replaced by draws from training columns.

    One row of ``X`` is drawn for each record and gives all shuffled columns, seeded by the
    shuffled data, so that the same query always has the same answer.
    """
    seed = int.from_bytes(hashlib.sha256(repr(shuffled).encode()).digest()[:8], "big")
    rows = np.random.default_rng(seed).integers(num_samples(X), size=num_samples(records))
    replaced = records.copy()
    for place, _ in shuffled:
        drawn = _column(X, place)[rows]
        if hasattr(replaced, "iloc"):
            replaced.isetitem(place, drawn)
        else:
            replaced[:, place] = drawn
    return replaced


def _take(X, columns):
    """Return the named columns of a data frame, or ``X`` itself."""
    return X if columns is None else X[list(columns)]


def _columns(estimator, X, holdout_X):
    """Return the names of the columns a model was fitted on, or None for all of them.

    Raises before anything is spent where they cannot be known.
    """
    names = getattr(estimator, "feature_names_in_", None)
    have = getattr(holdout_X, "columns", None)
    if names is not None and have is not None:
        missing = [name for name in names if name not in set(have)]
        if missing:
            raise UnknownFeaturesError(
                f"The estimator was fitted on columns that the holdout lacks: {missing}. Nothing "
                "was spent."
            )
        return None if list(names) == list(have) else names
    expected = getattr(holdout_X, "shape", (0, None))[1]
    fitted_on = getattr(estimator, "n_features_in_", None)
    if fitted_on is None and len(getattr(X, "shape", ())) == 2:
        fitted_on = X.shape[1]
    if fitted_on is not None and fitted_on != expected:
        raise UnknownFeaturesError(
            f"The estimator was fitted on {fitted_on} columns without names, so the scorer cannot "
            f"find them among the {expected} columns of the holdout. Fit it on a DataFrame whose "
            "column names the holdout shares; to select features, use "
            "sklearn_bdp.feature_selection.HoldoutFeatureSelector. Nothing was spent."
        )
    return None


def _refuse_name_strippers():
    """Raise where SequentialFeatureSelector or RFECV is on the call stack.

    RFECV's first query has all columns, so nothing in its arguments tells it apart; answering
    would spend budget on a run that must fail at its second query.
    """
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_globals.get("__name__") in _NAME_STRIPPERS:
            raise UnknownFeaturesError(
                "scikit-learn's SequentialFeatureSelector and RFECV strip column names, so that "
                "HoldoutScorer cannot know which columns of the holdout a model needs. Use "
                "sklearn_bdp.feature_selection.HoldoutFeatureSelector. Nothing was spent."
            )
        frame = frame.f_back
