"""Base of the selectors: checks and splits the data, creates or reuses a holdout."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.base import BaseEstimator
from sklearn.feature_selection import SelectorMixin
from sklearn.utils import assert_all_finite, check_consistent_length, column_or_1d
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_is_fitted, validate_data

from sklearn_bdp.correlation import check_correlation
from sklearn_bdp.diagnostics.tables import ADDED_COLUMNS_FIX, check_row_alignment
from sklearn_bdp.evaluation.holdout_split import HoldoutSplit, split_for
from sklearn_bdp.evaluation.open_holdout import check_holdout_parameter
from sklearn_bdp.evaluation.scoring import Savable
from sklearn_bdp.exceptions import (
    NothingConfirmedWarning,
    NothingSelectedError,
    UnknownFeaturesError,
)
from sklearn_bdp.utils.sklearn_compat import gives_frames, holds_numbers, is_frame, safe_indexing
from sklearn_bdp.utils.validation import caller_level, check_label_values


class HoldoutSelectorBase(Savable, SelectorMixin, BaseEstimator):
    """Base of the selectors, for the data and the holdout; subclasses select."""

    def __sklearn_is_fitted__(self):
        return hasattr(self, "support_")

    def _get_support_mask(self):
        check_is_fitted(self)
        return self.support_

    def transform(self, X: Any) -> Any:
        """Return the selected columns of ``X``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Records.

        Returns
        -------
        array-like of shape (n_samples, n_selected_features)
            The selected columns as they are, missing values and all. A frame with columns that
            are not numbers (text, categories, dates) stays a frame; else an array, or the
            container that :meth:`set_output` requests.

        Raises
        ------
        NothingSelectedError
            If nothing was selected: the next step of a pipeline could only fail without columns.
        """
        check_is_fitted(self)
        if not self.support_.any():
            raise NothingSelectedError(
                f"{self._summary[0]} To hand on the best features, set on_empty='keep_best'."
            )
        if not is_frame(X):
            return super().transform(X)
        validate_data(self, X, skip_check_array=True, reset=False)
        selected = safe_indexing(X, np.flatnonzero(self.support_), axis=1)
        return selected if gives_frames(self) or not holds_numbers(X) else np.asarray(selected)

    def report(self) -> Any:
        """Return the verified and the unverified results.

        Returns
        -------
        object
            Its text is ``str(report)``; notebooks show a table; ``report.rows`` is the data behind
            it, ready for ``pandas.DataFrame``.
        """
        check_is_fitted(self)
        return self._summary[1]

    def _closing(self):
        """Return the holdout that a final report closes."""
        check_is_fitted(self)
        if self.holdout_ is None:
            raise ValueError("final_report() needs a holdout, got holdout=None in fit.")
        return self.holdout_

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    def _check_data(self, X, y, X_val, y_val, **others):
        """Return checked data; frames stay frames, because names tell columns apart."""
        vars(self).pop("support_", None)  # an earlier selection refers to other data
        check_label_values(y)
        check_row_alignment(self, X, y, X_val=X_val, y_val=y_val, **others)
        tags = self.__sklearn_tags__().input_tags
        if is_frame(X):
            _check_column_names(X)
            validate_data(self, X, y, skip_check_array=True)
            y = column_or_1d(y, warn=True)
            check_consistent_length(X, y)
            type_of_target(y, input_name="y", raise_unknown=True)
        else:
            sparse = ("csr", "csc") if tags.sparse else False
            checks = {"ensure_all_finite": False, "ensure_min_samples": 2}
            X, y = validate_data(self, X, y, accept_sparse=sparse, **checks)
        check_finite(X, allow_nan=tags.allow_nan)
        return X, y

    def _divide(self, estimator, data):
        """Return the :class:`HoldoutSplit` of checked data.

        The columns of the holdout get the order of those of ``X``.
        """
        if self.holdout is None:  # all records choose, and nothing is verified
            if data.X_val is not None or data.times is not None or data.has_horizon:
                raise ValueError("holdout=None takes no X_val, times= or horizon=.")
            n = len(data.y)
            model = check_correlation(self.correlation, groups=data.groups)
            model.check_n(n)
            return HoldoutSplit(
                X=data.X,
                y=data.y,
                X_holdout=None,
                y_holdout=None,
                model=model,
                train_model=model,
                train=np.arange(n),
                holdout=np.arange(0),
                groups=data.groups,
            )
        config = check_holdout_parameter(self, data.X_val)
        division = split_for(self, config, estimator, data)
        return replace(division, X_holdout=_aligned(data.X, division.X_holdout))

    @staticmethod
    def _training_n_effective(division):
        """Return the effective number of training records."""
        n = len(division.y)
        model = division.train_model
        if model is None:  # the proportion of effective records is that of the holdout
            n_holdout = len(division.y_holdout)
            return n * float(division.model.effective_n(n_holdout)) / n_holdout
        return float(model.effective_n(n))

    def _keep_sides(self, holdout, division):
        """Set the holdout and which records are on which side."""
        self.holdout_ = holdout
        self.certificate_ = None
        self.train_indices_ = division.train
        self.holdout_indices_ = division.holdout

    def _warn_unconfirmed(self):
        """Warn that nothing is distinguished from chance."""
        warnings.warn(self._summary[0], NothingConfirmedWarning, stacklevel=caller_level())


def _check_column_names(X):
    """Raise ValueError unless each column of a frame has a name of its own."""
    if getattr(X.columns, "nlevels", 1) > 1:
        raise ValueError(
            f"X has MultiIndex columns, such as {X.columns[0]!r}, but needs one name each: "
            "X.columns = ['_'.join(map(str, c)) for c in X.columns]."
        )
    names, count = np.unique(list(map(str, X.columns)), return_counts=True)
    if shared := names[count > 1].tolist()[:5]:
        raise ValueError(f"X has columns that share a name: {shared}. Rename them.")


def check_finite(X, *, allow_nan):
    """Raise if columns hold infinite values, or missing ones unless ``allow_nan``; name them."""
    if scipy.sparse.issparse(X):
        assert_all_finite(X, allow_nan=allow_nan, input_name="X")
        return
    names, values = _numeric_columns(X)
    with np.errstate(all="ignore"):
        columns = np.flatnonzero(~np.isfinite(values.sum(axis=0)))
    bad = np.isinf(values[:, columns]) if allow_nan else ~np.isfinite(values[:, columns])
    if bad.any():
        word = "infinity" if allow_nan else "NaN or infinity"
        bad_names = names[columns[bad.any(axis=0)]].tolist()[:5]
        raise ValueError(
            f"Input X contains {word} in the columns {bad_names}, which the estimator does not "
            "take. Replace infinity; an imputer that begins a pipeline takes NaN."
        )


def _numeric_columns(X):
    """Return names, or numbers, and values of the columns that hold numbers."""
    names = np.asarray(X.columns) if is_frame(X) else np.arange(X.shape[1])
    if is_frame(X) and not holds_numbers(X):
        numeric = [index for index, name in enumerate(names) if holds_numbers(X[[name]])]
        names = names[numeric]
        X = safe_indexing(X, np.asarray(numeric, dtype=int), axis=1)
    return names, np.asarray(X, dtype=float)


def _aligned(X, X_holdout):
    """Return the holdout columns in the order of ``X``, by name if both have names."""
    names = getattr(X, "columns", None)
    have = getattr(X_holdout, "columns", None)
    if names is not None and have is not None:
        holdout_names = set(have)
        if missing := [name for name in names if name not in holdout_names]:
            raise UnknownFeaturesError(
                f"X has columns that the holdout lacks: {missing}. {ADDED_COLUMNS_FIX}"
            )
        return X_holdout if list(names) == list(have) else X_holdout[list(names)]
    if np.shape(X_holdout)[1] != np.shape(X)[1]:
        raise UnknownFeaturesError(
            f"X has {np.shape(X)[1]} columns and the holdout has {np.shape(X_holdout)[1]}. Use "
            "DataFrames with the same names, in a pipeline with set_output(transform='pandas')."
        )
    return X_holdout
