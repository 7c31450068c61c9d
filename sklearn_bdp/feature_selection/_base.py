"""What selectors share: checking data, dividing them, making or reusing a holdout."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import sklearn
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone, is_classifier
from sklearn.feature_selection import SelectorMixin
from sklearn.utils import get_tags
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import (
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from sklearn_bdp._checks import check_integer, check_option
from sklearn_bdp._evaluation import (
    ADDED,
    Savable,
    Setting,
    Verifier,
    assumed,
    check_orders,
    check_owner,
    divide_for,
    inner_folds,
    recorded_seed,
)
from sklearn_bdp._sklearn_compat import is_frame, num_samples
from sklearn_bdp.exceptions import NothingSelectedError, UnknownFeaturesError

ON_EMPTY = ("raise", "keep_best")


class HoldoutSelectorBase(Savable, SelectorMixin, BaseEstimator):
    """Base of the selectors: it knows the data and the holdout, not how to select."""

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
            The selected columns.

        Raises
        ------
        NothingSelectedError
            If nothing was selected: what follows in a pipeline could only fail on no columns.
        """
        check_is_fitted(self)
        if not self.support_.any():
            raise NothingSelectedError(
                f"{self._what_was_found()} on_empty='keep_best' goes on with the best there is."
            )
        return super().transform(X)

    def report(self) -> Any:
        """Return what was verified and what was not.

        Returns
        -------
        Report
            Its text is ``str(report)``; notebooks show a table; ``report.rows`` is the data behind
            it, ready for ``pandas.DataFrame``.
        """
        check_is_fitted(self)
        return self._report()

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    def _check_common_options(self):
        """Check the parameters that all selectors have."""
        check_option("on_empty", self.on_empty, ON_EMPTY)
        check_integer("verbose", int(self.verbose), low=0)
        if self.holdout is None:
            raise ValueError(
                "holdout must be a fraction, a splitter or a ReusableHoldout, got holdout=None; "
                "for selection without a holdout use scikit-learn's selectors."
            )

    def _tell(self, message):
        """Print one line of progress when asked to; it holds released values only."""
        if self.verbose > 0:
            print(f"[{type(self).__name__}] {message}", flush=True)

    def _check_data(self, X, y, X_val, y_val, **beside):
        """Return checked data; frames stay frames, because names tell columns apart."""
        check_orders(self, X, y, X_val=X_val, y_val=y_val, **beside)
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None."
            )
        if not is_frame(X):
            tags = self.__sklearn_tags__().input_tags
            return validate_data(
                self,
                X,
                y,
                accept_sparse=("csr", "csc") if tags.sparse else False,
                ensure_all_finite="allow-nan" if tags.allow_nan else True,
                ensure_min_samples=2,
            )
        validate_data(self, X, skip_check_array=True)
        y = column_or_1d(y, warn=True)
        check_consistent_length(X, y)
        type_of_target(y, input_name="y", raise_unknown=True)
        return X, y

    def _divide(self, estimator, X, y, *, X_val, y_val, groups, pilot=None):
        """Return the :class:`Division` of checked data, and what a ledger records of the split.

        The columns of the holdout get the order of those of ``X``.
        """
        check_owner(self, X_val)
        _, split = recorded_seed(self, (X, y, X_val, y_val, groups))
        division = divide_for(
            self,
            estimator,
            X,
            y,
            X_val=X_val,
            y_val=y_val,
            groups=groups,
            split=split,
            pilot=pilot,
        )
        return replace(division, X_holdout=_aligned(X, division.X_holdout)), split

    @staticmethod
    def _training_n_effective(division):
        """Return the effective number of training records."""
        n = num_samples(division.X)
        if division.train_model is not None:
            return float(division.train_model.effective_n(n))
        held = num_samples(division.X_holdout)
        return n * float(division.model.effective_n(held)) / held

    def _keep_holdout(self, holdout, division, units):
        """Set the fitted attributes that speak of the holdout, in units (name, lower, upper)."""
        self.holdout_ = holdout
        certificate = holdout.certificate().in_units(*units)
        self.certificate_ = replace(
            certificate, assumptions=(*certificate.assumptions, *assumed(holdout, division))
        )
        self.train_indices_, self.holdout_indices_ = division.train, division.holdout


class SubsetSelectorBase(MetaEstimatorMixin, HoldoutSelectorBase):
    """Base of selectors that fit an estimator on subsets: metric, folds, who asks the holdout."""

    def _fit_params(self, params):
        """Return the parameters that go to the estimator's ``fit``."""
        if sklearn.get_config()["enable_metadata_routing"]:
            return dict(process_routing(self, "fit", **params).estimator.fit)
        return params

    def _setting(self, division, metric, fit_params, groups):
        """Return what stays the same from subset to subset."""
        folds = inner_folds(self.cv, division, classifier=is_classifier(self.estimator))
        return Setting(
            estimator=clone(self.estimator),
            X=division.X,
            y=division.y,
            X_holdout=division.X_holdout,
            y_holdout=division.y_holdout,
            metric=metric,
            folds=list(folds.split(division.X, division.y, groups)),
            fit_params=fit_params,
            n_effective=self._training_n_effective(division),
            error_score=self.error_score,
            training="cv",
        )

    def _verifier(self, setting, holdout):
        """Return who asks the holdout."""
        return Verifier(
            setting,
            holdout,
            verify=self.verify,
            n_jobs=self.n_jobs,
            pre_dispatch=self.pre_dispatch,
            verbose=self.verbose,
        )

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator)
        tags.input_tags.allow_nan = inner.input_tags.allow_nan
        tags.input_tags.sparse = inner.input_tags.sparse
        return tags

    def get_metadata_routing(self) -> MetadataRouter:
        """Return how metadata is routed: ``fit`` hands it to the estimator's ``fit``.

        Returns
        -------
        MetadataRouter
            The routing.
        """
        return (
            MetadataRouter(owner=self)
            .add_self_request(self)
            .add(
                estimator=self.estimator,
                method_mapping=MethodMapping().add(caller="fit", callee="fit"),
            )
        )


def _aligned(X, X_holdout):
    """Return the columns of the holdout that belong to those of ``X``; by name where there are."""
    names, have = getattr(X, "columns", None), getattr(X_holdout, "columns", None)
    if names is not None and have is not None:
        known = set(have)
        missing = [name for name in names if name not in known]
        if missing:
            raise UnknownFeaturesError(f"X has columns that the holdout lacks: {missing}. {ADDED}")
        return X_holdout if list(names) == list(have) else X_holdout[list(names)]
    width, expected = np.shape(X_holdout)[1], np.shape(X)[1]
    if width != expected:
        raise UnknownFeaturesError(
            f"X has {expected} columns and the holdout has {width}, and they have no names to tell "
            "which are which. Use DataFrames with the same column names, in a pipeline with "
            "set_output(transform='pandas'). Nothing was spent."
        )
    return X_holdout
