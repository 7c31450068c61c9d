"""Base class of the selectors, which checks and splits the data."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.base import BaseEstimator
from sklearn.feature_selection import SelectorMixin
from sklearn.utils import assert_all_finite, column_or_1d
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_is_fitted, validate_data

from sklearn_bdp.correlation import check_correlation
from sklearn_bdp.diagnostics.tables import ADDED_COLUMNS_FIX, check_row_alignment
from sklearn_bdp.evaluation.fit_data import check_target_count
from sklearn_bdp.evaluation.holdout_split import HoldoutSplit, split_for
from sklearn_bdp.evaluation.open_holdout import check_holdout_parameter
from sklearn_bdp.evaluation.scoring import HoldoutEstimatorMixin
from sklearn_bdp.exceptions import (
    NothingConfirmedWarning,
    NothingSelectedError,
    UnknownFeaturesError,
)
from sklearn_bdp.utils.sklearn_compat import gives_frames, holds_numbers, is_frame, safe_indexing
from sklearn_bdp.utils.validation import caller_level, check_label_values


class HoldoutSelectorBase(HoldoutEstimatorMixin, SelectorMixin, BaseEstimator):
    """Base class of the selectors: checks, split and ``transform``; subclasses select.

    Subclasses set ``support_``, ``_report`` and ``_summary``, a text about a selection that is not
    confirmed.
    """

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
            The selected columns, without changes of their values. A frame ``X`` stays a frame if
            not all columns have numeric NumPy types (text, categories, dates, nullable types). A
            sparse matrix stays sparse. Otherwise the result is an array, or the container that
            :meth:`set_output` requests.

        Raises
        ------
        NothingSelectedError
            If nothing was selected: the next step of a pipeline could only fail without columns.
        ValueError
            If ``X`` has other columns than in ``fit``.
        """
        check_is_fitted(self)
        if not self.support_.any():
            raise NothingSelectedError(
                f"{self._summary} To hand on the best features, set on_empty='keep_best'."
            )
        if not is_frame(X):
            return super().transform(X)
        validate_data(self, X, skip_check_array=True, reset=False)
        selected_X = safe_indexing(X, np.flatnonzero(self.support_), axis=1)
        if gives_frames(self) or not holds_numbers(X):
            return selected_X
        return np.asarray(selected_X)

    def report(self) -> Any:
        """Return the verified and the unverified results of the selection.

        Returns
        -------
        SelectionReport
            Its text is ``str(report)``; notebooks show a table; ``report.rows`` contains all rows
            of the table, ready for ``pandas.DataFrame``.
        """
        check_is_fitted(self)
        return self._report

    def _holdout_to_close(self):
        """Return the holdout that a final report closes; raise ValueError if there is none."""
        check_is_fitted(self)
        if self.holdout_ is None:
            raise ValueError("final_report() needs a holdout, got holdout=None in fit.")
        return self.holdout_

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    def _check_data(self, X, y, X_val, y_val, **arguments_by_name):
        """Return checked X and y, and delete ``support_``; frames stay frames.

        ``X_val``, ``y_val``: validation set of the user, or None; ``arguments_by_name``: other
        arguments of ``fit``, such as ``groups`` and weights, whose row order is checked.
        """
        vars(self).pop("support_", None)  # an earlier selection refers to other data
        check_label_values(y)
        check_row_alignment(self, X, y, X_val=X_val, y_val=y_val, **arguments_by_name)
        input_tags = self.__sklearn_tags__().input_tags
        if is_frame(X):
            _check_column_names(X)
            validate_data(self, X, y, skip_check_array=True)
            y = column_or_1d(y, warn=True)
            check_target_count(X, y)
            type_of_target(y, input_name="y", raise_unknown=True)  # raises ValueError if unknown
        else:
            accept_sparse = ("csr", "csc") if input_tags.sparse else False
            X, y = validate_data(
                self,
                X,
                y,
                accept_sparse=accept_sparse,
                ensure_all_finite=False,
                ensure_min_samples=2,
            )
        check_finite(X, allow_nan=input_tags.allow_nan)
        return X, y

    def _split(self, estimator, fit_data):
        """Return the :class:`HoldoutSplit` of checked :class:`FitData`.

        If both are frames, the columns of the holdout get the order of those of ``X``. With
        ``holdout=None`` all records are training records, and ``X_holdout`` is None.
        ``estimator``: its tags determine how records are indexed and whether targets are classes.
        """
        if self.holdout is None:
            if fit_data.X_val is not None or fit_data.times is not None or fit_data.has_horizon:
                raise ValueError("holdout=None takes no X_val, times= or horizon=.")
            n_records = len(fit_data.y)
            correlation_model = check_correlation(self.correlation, groups=fit_data.groups)
            correlation_model.check_n(n_records)
            return HoldoutSplit(
                X=fit_data.X,
                y=fit_data.y,
                X_holdout=None,
                y_holdout=None,
                model=correlation_model,
                train_model=correlation_model,
                train=np.arange(n_records),
                holdout=np.arange(0),
                groups=fit_data.groups,
            )
        holdout_config = check_holdout_parameter(self, fit_data.X_val)
        holdout_split = split_for(self, holdout_config, estimator, fit_data)
        X_holdout = _align_columns(fit_data.X, holdout_split.X_holdout)
        return replace(holdout_split, X_holdout=X_holdout)

    @staticmethod
    def _training_n_effective(holdout_split):
        """Return the effective number of training records.

        If their dependence is undeclared, the ratio of the effective to the actual number is taken
        from the holdout.
        """
        n_train = len(holdout_split.y)
        train_model = holdout_split.train_model
        if train_model is None:
            n_holdout = len(holdout_split.y_holdout)
            return n_train * float(holdout_split.model.effective_n(n_holdout)) / n_holdout
        return float(train_model.effective_n(n_train))

    def _set_holdout(self, holdout, holdout_split):
        """Set the holdout and the indices of both sets (or None), and ``certificate_`` to None."""
        self.holdout_ = holdout
        self.certificate_ = None
        self.train_indices_ = holdout_split.train
        self.holdout_indices_ = holdout_split.holdout

    def _warn_unconfirmed(self):
        """Issue a NothingConfirmedWarning with the text ``_summary``."""
        warnings.warn(self._summary, NothingConfirmedWarning, stacklevel=caller_level())


def _check_column_names(X):
    """Raise ValueError if a frame has MultiIndex columns, or two names with the same ``str``."""
    if getattr(X.columns, "nlevels", 1) > 1:
        raise ValueError(
            f"X has MultiIndex columns, such as {X.columns[0]!r}, but needs one name each: "
            "X.columns = ['_'.join(map(str, c)) for c in X.columns]."
        )
    names, counts = np.unique(list(map(str, X.columns)), return_counts=True)
    repeated_names = names[counts > 1].tolist()[:5]
    if repeated_names:
        raise ValueError(
            f"X has columns that share a name: {repeated_names}. A selection names its features: "
            "rename them, or pass X.loc[:, ~X.columns.duplicated()]."
        )


def check_finite(X, *, allow_nan):
    """Raise ValueError if a column contains infinity, or NaN without ``allow_nan``.

    In a frame only the columns of :func:`_numeric_columns` are checked.
    """
    if scipy.sparse.issparse(X):
        assert_all_finite(X, allow_nan=allow_nan, input_name="X")
        return
    names, values = _numeric_columns(X)
    with np.errstate(all="ignore"):
        # A column with a finite sum contains neither NaN nor infinity.
        positions = np.flatnonzero(~np.isfinite(values.sum(axis=0)))
    values = values[:, positions]
    is_invalid = np.isinf(values) if allow_nan else ~np.isfinite(values)
    if is_invalid.any():
        invalid_text = "infinity" if allow_nan else "NaN or infinity"
        invalid_names = names[positions[is_invalid.any(axis=0)]].tolist()[:5]
        raise ValueError(
            f"Input X contains {invalid_text} in the columns {invalid_names}, which the "
            "estimator does not take. Impute NaN in the pipeline, as in "
            "make_pipeline(SimpleImputer(), model), and replace infinity with NaN first. The "
            "holdout was not queried."
        )


def _numeric_columns(X):
    """Return the names of the numeric columns (positions for an array), and a 2D float array.

    Nullable columns of pandas are left out.
    """
    names = np.asarray(X.columns) if is_frame(X) else np.arange(X.shape[1])
    if is_frame(X) and not holds_numbers(X):
        positions = [index for index, name in enumerate(names) if holds_numbers(X[[name]])]
        names = names[positions]
        X = safe_indexing(X, np.asarray(positions, dtype=int), axis=1)
    return names, np.asarray(X, dtype=float)


def _align_columns(X, X_holdout):
    """Return the holdout records with the columns of ``X``, by name if both are frames.

    Raises UnknownFeaturesError if the holdout lacks a column or, unless both are frames, has
    another number of columns.
    """
    names = getattr(X, "columns", None)
    holdout_names = getattr(X_holdout, "columns", None)
    if names is not None and holdout_names is not None:
        holdout_name_set = set(holdout_names)
        missing_names = [name for name in names if name not in holdout_name_set]
        if missing_names:
            raise UnknownFeaturesError(
                f"X has columns that the holdout lacks: {missing_names}. {ADDED_COLUMNS_FIX}"
            )
        return X_holdout if list(names) == list(holdout_names) else X_holdout[list(names)]
    if np.shape(X_holdout)[1] != np.shape(X)[1]:
        raise UnknownFeaturesError(
            f"X has {np.shape(X)[1]} columns and the holdout has {np.shape(X_holdout)[1]}. Use "
            "DataFrames with the same names, in a pipeline with set_output(transform='pandas')."
        )
    return X_holdout
