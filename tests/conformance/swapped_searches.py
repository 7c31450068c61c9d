"""A pytest plugin: scikit-learn's own tests, with this package's search in the place of theirs.

``SEARCHES=identity`` swaps in searches without a holdout, which have to be scikit-learn's bit for
bit; ``SEARCHES=verified`` searches whose every candidate is verified, on a validation set that is
a copy of the data, because most of those tests have a few dozen records and compare with
the results of a search on all of them. ``SEARCHES=plain`` swaps nothing.
"""

import copy
import os

import numpy as np
import sklearn.model_selection
from sklearn.utils.validation import has_fit_parameter

from sklearn_bdp import HoldoutConfig, ReusableHoldout, ReusableHoldoutSearchCV

MODE = os.environ.get("SEARCHES", "identity")


class _Swapped(ReusableHoldoutSearchCV):
    """Base of both swapped classes."""

    def fit(self, X, y=None, **params):
        """Fit without a holdout, or verify on a copy of the data."""
        if MODE == "identity" or y is None:
            self.holdout = None
            return super().fit(X, y, **params)
        X_val = copy.deepcopy(X)  # records are shared on purpose
        y_val = copy.deepcopy(y)
        if has_fit_parameter(self.estimator, "X_val"):  # which set X_val means must not be guessed
            self.holdout = ReusableHoldout(X_val, y_val, allow_shared_rows=True)
            return super().fit(X, y, **params)
        self.holdout = HoldoutConfig(allow_shared_rows=True)
        return super().fit(X, y, X_val=X_val, y_val=y_val, **params)


class GridSearchCV(_Swapped):
    """With scikit-learn's signature."""

    def __init__(
        self,
        estimator,
        param_grid,
        *,
        scoring=None,
        n_jobs=None,
        refit=True,
        cv=None,
        verbose=0,
        pre_dispatch="2*n_jobs",
        error_score=np.nan,
        return_train_score=False,
    ):
        super().__init__(
            estimator,
            param_grid,
            scoring=scoring,
            n_jobs=n_jobs,
            refit=refit,
            cv=cv,
            verbose=verbose,
            pre_dispatch=pre_dispatch,
            error_score=error_score,
            return_train_score=return_train_score,
        )


class RandomizedSearchCV(_Swapped):
    """With scikit-learn's signature."""

    _parameter_constraints: dict = {
        **ReusableHoldoutSearchCV._parameter_constraints,
        **sklearn.model_selection.RandomizedSearchCV._parameter_constraints,
    }

    def __init__(
        self,
        estimator,
        param_distributions,
        *,
        n_iter=10,
        scoring=None,
        n_jobs=None,
        refit=True,
        cv=None,
        verbose=0,
        pre_dispatch="2*n_jobs",
        random_state=None,
        error_score=np.nan,
        return_train_score=False,
    ):
        self.param_distributions = param_distributions
        super().__init__(
            estimator,
            param_distributions,
            n_iter=n_iter,
            scoring=scoring,
            n_jobs=n_jobs,
            refit=refit,
            cv=cv,
            verbose=verbose,
            pre_dispatch=pre_dispatch,
            random_state=random_state,
            error_score=error_score,
            return_train_score=return_train_score,
        )

    @property
    def param_grid(self):
        """The name it has in the class above."""
        return self.param_distributions

    @param_grid.setter
    def param_grid(self, value):
        self.param_distributions = value


if MODE != "plain":
    sklearn.model_selection.GridSearchCV = GridSearchCV
    sklearn.model_selection.RandomizedSearchCV = RandomizedSearchCV
