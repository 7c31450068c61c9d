"""What selectors share: checking data, dividing them, making or reusing a holdout."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse
import sklearn
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone, is_classifier
from sklearn.feature_selection import SelectorMixin
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import assert_all_finite, get_tags
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import (
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from sklearn_bdp._evaluation import (
    Candidate,
    Division,
    Experiment,
    FitData,
    Savable,
    certified,
    check_owner,
    clipping_of,
    divide_for,
    fit_candidate,
    inner_folds,
    recorded_seed,
)
from sklearn_bdp._sklearn_compat import (
    gives_frames,
    holds_numbers,
    is_frame,
    num_samples,
    safe_indexing,
)
from sklearn_bdp.correlation import check_correlation
from sklearn_bdp.exceptions import NothingSelectedError, UnknownFeaturesError
from sklearn_bdp.guards import ADDED, check_orders, warn_of_choice
from sklearn_bdp.holdout import FinalReport, TrainingSide, report_and_close


class HoldoutSelectorBase(Savable, SelectorMixin, BaseEstimator):
    """Base of the selectors: it knows the data and the holdout, not how to select."""

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
            are no numbers (text, categories, dates) stays a frame; else an array, or what
            :meth:`set_output` asks for.

        Raises
        ------
        NothingSelectedError
            If nothing was selected: what follows in a pipeline could only fail on no columns.
        """
        check_is_fitted(self)
        if not self.support_.any():
            raise NothingSelectedError(
                f"{self._told[0]} To hand on the best features, set on_empty='keep_best'."
            )
        if not is_frame(X):
            return super().transform(X)
        validate_data(self, X, skip_check_array=True, reset=False)
        kept = safe_indexing(X, np.flatnonzero(self.support_), axis=1)
        return kept if gives_frames(self) or not holds_numbers(X) else np.asarray(kept)

    def report(self) -> Any:
        """Return what was verified and what was not.

        Returns
        -------
        Report
            Its text is ``str(report)``; notebooks show a table; ``report.rows`` is the data behind
            it, ready for ``pandas.DataFrame``.
        """
        check_is_fitted(self)
        return self._told[1]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    def _check_data(self, X, y, X_val, y_val, **beside):
        """Return checked data; frames stay frames, because names tell columns apart."""
        vars(self).pop("support_", None)  # what an earlier fit selected speaks of other data
        check_orders(self, X, y, X_val=X_val, y_val=y_val, **beside)
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None."
            )
        tags = self.__sklearn_tags__().input_tags
        if is_frame(X):
            check_names(X)
            validate_data(self, X, skip_check_array=True)
            y = column_or_1d(y, warn=True)
            check_consistent_length(X, y)
            type_of_target(y, input_name="y", raise_unknown=True)
        else:
            X, y = validate_data(
                self,
                X,
                y,
                accept_sparse=("csr", "csc") if tags.sparse else False,
                ensure_all_finite=False,
                ensure_min_samples=2,
            )
        check_finite(X, allow_nan=tags.allow_nan)
        return X, y

    def _divide(self, estimator, X, y, *, X_val, y_val, groups, dates=(None, 0)):
        """Return the :class:`Division` of checked data, and what a ledger records of the split.

        The columns of the holdout get the order of those of ``X``.
        """
        if self.holdout is None:
            beside = X_val is not None or dates[0] is not None or dates[1]
            return self._undivided(X, y, beside=beside, groups=groups), None
        config = check_owner(self, X_val)
        data = FitData(X, y, X_val, y_val, groups, None, *dates)
        _, split = recorded_seed(self, config, data)
        division = divide_for(self, config, estimator, data, split=split)
        return replace(division, X_holdout=_aligned(X, division.X_holdout)), split

    def _undivided(self, X, y, *, beside, groups):
        """Return the :class:`Division` in which all records choose and nothing is verified."""
        if beside:
            raise ValueError(
                "holdout=None verifies nothing: X_val, times= and horizon= have no place in it."
            )
        model = check_correlation(self.correlation, groups=groups)
        model.check_n(num_samples(X))
        return Division(X, y, None, None, model, model)

    @staticmethod
    def _training_n_effective(division):
        """Return the effective number of training records."""
        n = num_samples(division.X)
        if division.train_model is not None:
            return float(division.train_model.effective_n(n))
        held = num_samples(division.X_holdout)
        return n * float(division.model.effective_n(held)) / held

    def _keep_sides(self, holdout, division):
        """Set the holdout and which records are on which side; all train without one."""
        self.holdout_, self.certificate_ = holdout, None
        self.train_indices_, self.holdout_indices_ = division.train, division.holdout
        if holdout is None:
            self.train_indices_, self.holdout_indices_ = np.arange(num_samples(division.X)), ()


class SubsetSelectorBase(MetaEstimatorMixin, HoldoutSelectorBase):
    """Base of selectors that fit an estimator on subsets: metric, folds, who asks the holdout."""

    def final_report(
        self,
        *,
        scoring: Any = None,
        compare: Any = None,
        by: Any = None,
        per: Any = None,
        refit_every: Any = None,
    ) -> FinalReport:
        """Report the final score of the verified model and close the holdout.

        Parameters
        ----------
        scoring : str, BoundedMetric, scorer, None or a list of them, default=None
            Metrics; ``None``: the one of the selection.
        compare : "fixed", estimator or array-like, default=None
            A baseline whose difference to the model is reported, too. ``"fixed"``: the model of
            the fixed features alone.
        by, per : object, default=None
            As for :meth:`sklearn_bdp.ReusableHoldout.final_report`.
        refit_every : int or timedelta, default=None
            As for :meth:`sklearn_bdp.ReusableHoldoutSearchCV.final_report`.

        Returns
        -------
        FinalReport
            As :meth:`sklearn_bdp.ReusableHoldout.final_report`: a card with the score of
            ``estimator_`` on its ``support_``, finely, its interval, and what was
            asked before.

        Raises
        ------
        HoldoutClosedError
            If the holdout has spoken its last word.
        NothingSelectedError
            If nothing was selected.
        """
        check_is_fitted(self)
        if self.holdout_ is None:
            raise ValueError("final_report() needs a holdout, got holdout=None in fit.")
        if not self.support_.any():
            raise NothingSelectedError(f"{self._told[0]} There is nothing to report on.")
        if isinstance(compare, str) and compare == "fixed" and "fixed" not in self._reported:
            raise ValueError(
                "compare='fixed' needs fixed_features, and selected features besides. The holdout "
                "was not queried."
            )
        metric, variance, _ = self._training_side
        wanted = scoring if isinstance(scoring, list | tuple) else [scoring]
        own = bool(wanted) and wanted[0] is None
        X, models, values = self.holdout_.X, {}, []
        for name, (columns, model, expected) in self._reported.items():
            if name == "fixed" and not (isinstance(compare, str) and compare == "fixed"):
                continue
            if hasattr(self, "feature_names_in_") and is_frame(X):
                columns = self.feature_names_in_[columns].tolist()
            picked = FunctionTransformer(safe_indexing, kw_args={"indices": columns, "axis": 1})
            models[name] = make_pipeline(picked, model)
            values.append(float(metric.from_unit(expected)))
        return report_and_close(
            self.holdout_,
            models,
            values if own and np.isfinite(values).all() else None,
            scoring=[metric if one is None else one for one in wanted],
            compare=compare,
            by=by,
            per=per,
            refit_every=refit_every,
            variance=variance if own else None,
        )

    def _fit_params(self, params):
        """Return the parameters that go to the estimator's ``fit``."""
        if sklearn.get_config()["enable_metadata_routing"]:
            return dict(process_routing(self, "fit", **params).estimator.fit)
        return params

    def _setting(self, division, metric, fit_params, groups):
        """Return what stays the same from subset to subset."""
        folds = inner_folds(self.cv, division, classifier=is_classifier(self.estimator))
        return Experiment(
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
        )

    def _keep_subset(self, proposal, found, setting, verifier, fixed=None):
        """Set what is selected, its model and its score; ``fixed``: those of fixed features."""
        metric, columns = setting.metric, () if proposal is None else proposal.columns
        self.support_ = np.zeros(self.n_features_in_, dtype=bool)
        self.support_[list(columns)] = True
        self.n_features_to_select_ = len(columns)
        self.estimator_ = None
        if verifier is not None and found is not None:
            self.estimator_ = verifier.model(found)
        elif proposal is not None:
            self.estimator_ = fit_candidate(setting, Candidate(columns=columns))
        values = [np.nan] * 3 if found is None else [found.released, found.lower, found.upper]
        score, lower, upper = (float(metric.from_unit(value)) for value in values)
        self.score_, self.interval_ = score, (lower, upper)
        variance = None
        if proposal is not None and metric.is_mean:
            variance = min(float(np.nanvar(proposal.scores.astype(float))), 0.25)
        self._training_side = metric, variance, math.nan if found is None else found.training
        self._answer = None if found is None else found.answer
        # What a final report is about: columns, model and cross-validated score, by name.
        shown = {f"{type(self.estimator_).__name__} of {len(columns):,} features": found}
        shown |= {} if fixed is found else {"fixed": fixed}
        self._reported = {
            name: (list(one.columns), verifier.model(one), one.training)
            for name, one in shown.items()
            if verifier is not None and one is not None and one.columns
        }

    def _keep_account(self, division, setting, verifier):
        """Set the fitted attributes that speak of the holdout; warn where they mislead."""
        self._keep_sides(None if verifier is None else verifier.holdout, division)
        if verifier is None:
            return
        self.holdout_.training_side = TrainingSide(
            division.X, division.y, division.train_groups(), setting.folds
        )
        metric, (low, high) = setting.metric, self.interval_
        said = f"verified {metric.name} {self.score_:.3g} [{low:.3g}, {high:.3g}]"
        of = "the selected features" if self.support_.any() else "a constant prediction"
        note = f"Selected {self.support_.sum():,} of {self.n_features_in_:,} features; {said}."
        known = {"of": of, "score": self.score_, "interval": self.interval_}
        known["training"] = float(metric.from_unit(self._training_side[2]))
        clipping = clipping_of(setting, np.flatnonzero(self.support_))
        warn_of_choice(self.holdout_, metric, division, **known, clipping=clipping)
        self.certificate_ = certified(
            self.holdout_, division, metric, **known, notes=(note,), answer=self._answer
        )

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = _takes_missing(self.estimator)
        tags.input_tags.sparse = get_tags(self.estimator).input_tags.sparse
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


def check_names(X):
    """Raise where columns of a frame cannot be told apart by their names."""
    if getattr(X.columns, "nlevels", 1) > 1:
        raise ValueError(
            f"X has MultiIndex columns, such as {X.columns[0]!r}, but needs one name each. "
            "Join the levels: X.columns = ['_'.join(map(str, c)) for c in X.columns]. The holdout "
            "was not queried."
        )
    names, places = np.unique(np.asarray(X.columns, dtype=object).astype(str), return_counts=True)
    if (places > 1).any():
        raise ValueError(
            f"X has columns that share a name: {names[places > 1].tolist()[:5]}. Rename them. The "
            "holdout was not queried."
        )


def check_finite(X, *, allow_nan):
    """Raise where columns hold infinite values, or missing ones that nobody takes; name them."""
    if scipy.sparse.issparse(X):
        assert_all_finite(X, allow_nan=allow_nan, input_name="X")
        return
    names = np.asarray(X.columns) if is_frame(X) else np.arange(X.shape[1])
    if is_frame(X) and not holds_numbers(X):
        kept = [place for place, name in enumerate(names) if holds_numbers(X[[name]])]
        names, X = names[kept], safe_indexing(X, np.asarray(kept, dtype=int), axis=1)
    values = np.asarray(X, dtype=float)
    with np.errstate(all="ignore"):
        found = np.flatnonzero(~np.isfinite(values.sum(axis=0)))
    remedies = {
        "infinity": (np.isinf, "Replace it, by NaN where the estimator takes missing values."),
        "NaN": (np.isnan, "Use a pipeline that begins with an imputer."),
    }
    for word in ("infinity",) if allow_nan else remedies:
        bad = found[remedies[word][0](values[:, found]).any(axis=0)]
        if bad.size:
            raise ValueError(
                f"Input X contains {word} in the columns {names[bad].tolist()[:5]}, which the "
                f"estimator does not take. {remedies[word][1]} The holdout was not queried."
            )


def _takes_missing(estimator):
    """Return whether an estimator, or a part of it (an imputer in a pipeline), takes NaN."""
    parts = [part for part in estimator.get_params(deep=True).values() if hasattr(part, "fit")]
    return any(
        get_tags(part).input_tags.allow_nan
        for part in (estimator, *parts)
        if isinstance(part, BaseEstimator)
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
