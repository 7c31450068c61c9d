"""Feature selection in which the accuracy of every subset is verified."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
import sklearn
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, MetaEstimatorMixin, is_classifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import get_tags
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing

from sklearn_bdp._typing import Correlation, RandomState
from sklearn_bdp.evaluation.candidates import Candidate, Experiment, Verifier, fit_candidate
from sklearn_bdp.evaluation.fit_data import FitData, check_records
from sklearn_bdp.evaluation.fits import check_dependence, tested_units
from sklearn_bdp.evaluation.inner_folds import check_folds, inner_folds
from sklearn_bdp.evaluation.open_holdout import open_holdout
from sklearn_bdp.evaluation.scoring import Reporting, bounded_metric, certified, clipping_of
from sklearn_bdp.feature_selection._base import HoldoutSelectorBase
from sklearn_bdp.feature_selection._path import (
    clip_errors,
    judge_gain,
    path_table,
    score_subsets,
    select_subset,
    verify_batch,
    verify_subsets,
)
from sklearn_bdp.feature_selection._rankings import Ranking, make_units
from sklearn_bdp.feature_selection._report import path_report
from sklearn_bdp.release.context import CVData
from sklearn_bdp.utils.sklearn_compat import check_method_params, is_frame, safe_indexing
from sklearn_bdp.utils.validation import check_integer, check_option, check_real


class HoldoutFeatureSelector(Reporting, MetaEstimatorMixin, HoldoutSelectorBase):
    r"""Feature selector whose chosen features are verified together on a reusable holdout.

    The data are divided into a training set and a holdout. The training set chooses: features are
    ranked, and the first 1, 2, 3, 4, 6, 8, 11, ... of the ranking are scored by cross-validation,
    with the ranking computed again inside each fold. The subset with the best cross-validated
    score is selected. The holdout verifies: it is asked for the score of the selected subset, and
    of a constant prediction to compare it with. All intervals hold together with probability
    ``confidence_level``, including those of later queries to the same holdout.

    The holdout verifies the joint value of the features, not each feature: a few hundred
    records can tell 0.79 from 0.5, but not which of two thousand features is useless.

    Parameters
    ----------
    estimator : estimator
        A classifier or regressor. Add steps that are fitted before the features are selected
        (scaling, imputation) inside it, as a pipeline.
    n_features_to_select : "auto", "stable", int or float, default="auto"
        ``"auto"``: the smallest subset within ``tol`` of the best. ``"stable"``: features that come
        back in 60% of half samples when each half chooses so many that at
        most one useless feature is expected among them (see the notes). A number or a fraction
        takes so many features; fixed features count, groups count as one each.
    ranking : "univariate" or callable, default="univariate"
        Order of the features. ``"univariate"``: analysis of variance for classes, correlation for
        numbers. Else a score function ``(X, y) -> scores`` as for ``SelectKBest``
        (``mutual_info_classif``, or the coefficients of a model).
    tol : "auto" or float, default="auto"
        With ``n_features_to_select="auto"``: how far behind the best the cross-validated score of
        a smaller subset may be, in score units. ``"auto"``: the best subset, by scores that are
        smoothed along the path.
    on_empty : {"baseline", "keep_best"}, default="baseline"
        Features to hand on if the selected ones are not distinguished from chance; ``fit`` warns
        in any case. ``"baseline"``: the fixed features or, without any, the one best feature;
        ``"keep_best"``: the selected features, and the report labels them.
    scoring : str, callable or None, default=None
        A metric with a proven bound (see :mod:`sklearn_bdp.metrics`), or any other scorer of
        scikit-learn, whose intervals are approximate. ``None``: the estimator's own score.
    fixed_features : list of int or str, default=None
        Columns that are always selected.
    feature_groups : list of list of (int or str), default=None
        Columns that enter and leave together; others are on their own.
    cv : int, splitter or iterable, default=None
        Inner cross-validation on the training set. ``None`` and integers obey the correlation.
    n_jobs : int or None, default=None
        Workers that fit and predict. Answers do not depend on it.
    random_state : None, int or RandomState, default=None
        Seeds split and noise. An integer is meant for tests: the certificate reports it.
    error_score : "raise" or float, default=nan
        Behavior if a fit fails; unless ``"raise"``, such a subset is not a candidate.
    holdout : float, HoldoutConfig, splitter, ReusableHoldout or None, default=0.25
        A fraction of the records, a :class:`~sklearn_bdp.HoldoutConfig`, a splitter with one
        split, or an existing holdout; the data given to ``fit`` are then all training data.
        ``None``: all records choose, and nothing is verified.
    correlation : None, array, sparse array, graph, model, list, "groups" or "time", default=None
        How records depend on one another; see
        :func:`~sklearn_bdp.correlation.check_correlation`. ``"time"``: records in time order. The
        last dates become the holdout, and each is judged by the data known before it. Nothing is
        assumed, learned or tested about their dependence.
    verify : int or "all", default=1
        Number of subsets to verify. The selected one is always among them; the others are those
        with the best cross-validated scores.

    Attributes
    ----------
    support_ : ndarray of bool, shape (n_features,)
        Which features were selected.
    n_features_to_select_ : int
        How many.
    score_path_ : dict of arrays
        Ready for ``pandas.DataFrame``, one entry per subset: ``ranking`` (its source),
        ``n_features``, ``features`` (columns, as a tuple), ``cv_score``, ``holdout_score``,
        ``holdout_lower``, ``holdout_upper`` (NaN if not verified), ``answered_from``,
        ``selected``; in score units.
    stability_ : ndarray of shape (n_features,)
        Share of complementary half samples of the training set in which each feature comes back,
        by the same ranking among as many (50 halves; 6 for a score function of your own). 1 for
        fixed features, NaN for the others if only fixed features are selected.
    confirmed_ : bool
        Whether the selected features are distinguished from chance (see the notes).
    score_ : float
        Their verified score.
    interval_ : tuple of float
        Its interval.
    estimator_ : estimator
        The model that the score refers to, fitted on the selected columns of the training set.
        Without a selected feature it predicts a constant.
    holdout_ : ReusableHoldout
        To be passed on, for instance to a search.
    certificate_ : HoldoutCertificate
        The guarantee, its probability and its assumptions; its notes end with the
        verified score of the selection, so that it travels with a fitted pipeline.
    train_indices_, holdout_indices_ : ndarray of int or None
        Rows of the data on each side of the split.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    See Also
    --------
    HoldoutCorrelationFilter : Screens tens of thousands of attributes in one batch.
    sklearn_bdp.ReusableHoldoutSearchCV : The same for hyper-parameters.

    Notes
    -----
    To choose features needs no test. Whether they are better than nothing (``confirmed_``) is a
    judgment of both sides. In the training set the question is whether predictions know anything
    of the labels: whether those of the best subset are right in each class more often (or rank
    classes better) than those of the luckiest of so many useless subsets would be, record by record
    out of fold (level 0.05, by a normal approximation with the correction of [2]_ for folds that
    share records). The holdout has to score the subset above the
    constant prediction, too. For numbers, more than ten classes and fixed features the question in
    the training set is how far the best subset is ahead of the constant. The judgment is not part
    of the certificate. The intervals are proved: features help for certain (with
    probability ``confidence_level``) if their interval lies above that of the constant prediction.
    That nothing helps is never proved. A number of features that was asked for is kept in any case.

    Half samples say how stable a list is. With ``p`` features, of which each half chooses ``q``, at
    most :math:`q^2 / ((2\tau - 1) p)` of those that are chosen no oftener than at random are
    expected to come back in a share :math:`\tau` of the halves [3]_.

    Exactly the verified features are handed on. To choose again from all records after the final
    report, fit a clone with ``holdout=None`` on all of them. Its choice is not verified.

    After features were chosen and a model was tuned on the same training set, its cross-validated
    score is too high. The interval of the holdout is not affected.

    In a pipeline with other steps that learn from a holdout (a filter before, a search after),
    make one :class:`~sklearn_bdp.ReusableHoldout`, pass it to all of them as ``holdout``, and fit
    the pipeline on training data only: two holdouts made from the same records know nothing of
    each other. Columns are matched by name there, so pass data frames and let the pipeline
    hand them on (``set_output(transform="pandas")``).

    A run that was interrupted resumes for free with the same data, parameters and ledger:
    recorded subsets are not fitted for verification again.

    References
    ----------
    .. [1] C. Dwork et al., "Guilt-free data reuse", Communications of the ACM 60, 2017.
    .. [2] C. Nadeau, Y. Bengio, "Inference for the generalization error", Machine Learning 52,
       2003.
    .. [3] R. Shah, R. Samworth, "Variable selection with error control: another look at stability
       selection", Journal of the Royal Statistical Society B 75, 2013, Theorem 1.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from sklearn_bdp.feature_selection import HoldoutFeatureSelector
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 2, 2000)
    >>> X = rng.normal(size=(2000, 12))
    >>> X[:, :2] += y[:, None]  # two features know something, ten do not
    >>> selector = HoldoutFeatureSelector(GaussianNB(), tol=0.02, random_state=0).fit(X, y)
    >>> selector.get_support(indices=True).tolist()
    [0, 1]
    >>> selector.transform(X).shape
    (2000, 2)
    >>> low, high = selector.interval_
    >>> bool(low < selector.score_ < high)
    True
    """

    def __init__(
        self,
        estimator: Any,
        *,
        n_features_to_select: float | Literal["auto", "stable"] = "auto",
        ranking: Literal["univariate"] | Callable[..., Any] = "univariate",
        tol: float | Literal["auto"] = "auto",
        on_empty: Literal["baseline", "keep_best"] = "baseline",
        scoring: str | Callable[..., Any] | None = None,
        fixed_features: Sequence[int | str] | None = None,
        feature_groups: Sequence[Sequence[int | str]] | None = None,
        cv: Any = None,
        n_jobs: int | None = None,
        random_state: RandomState = None,
        error_score: float | Literal["raise"] = np.nan,
        holdout: Any = 0.25,
        correlation: Correlation | None = None,
        verify: int | Literal["all"] = 1,
    ) -> None:
        self.estimator, self.scoring = estimator, scoring
        self.n_features_to_select = n_features_to_select
        self.ranking, self.tol, self.on_empty = ranking, tol, on_empty
        self.fixed_features, self.feature_groups = fixed_features, feature_groups
        self.cv, self.n_jobs = cv, n_jobs
        self.random_state, self.error_score = random_state, error_score
        self.holdout, self.correlation, self.verify = holdout, correlation, verify

    def fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        *,
        X_val: Any = None,
        y_val: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        times: ArrayLike | None = None,
        horizon: Any = 1,
        **params: Any,
    ) -> Self:
        """Select features.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Data; divided unless ``holdout`` is a :class:`~sklearn_bdp.ReusableHoldout` or
            ``X_val`` is given.
        y : array-like of shape (n_samples,)
            Targets.
        X_val, y_val : array-like, default=None
            An explicit validation set, which becomes the holdout.
        groups : array-like of shape (n_samples,), default=None
            Group labels of the records: for ``correlation="groups"`` and for splitters.
        times : array-like of shape (n_samples,), default=None
            Date of each record, as in the search.
        horizon : int or span of time, default=1
            Dates (rows, without dates) from the last record that a forecaster has to the date its
            score is known, as in the search.
        **params : dict
            Passed to the ``fit`` method of the estimator (and routed as in scikit-learn).

        Returns
        -------
        HoldoutFeatureSelector
            The fitted selector.

        Raises
        ------
        ValueError, TypeError
            For arguments that break a rule; nothing has been asked of the holdout then.
        UnboundedMetricError
            For a metric without a bounded sensitivity.
        BudgetExhaustedError
            When the holdout has spent its budget and ``on_exhausted="raise"``.
        """
        self._check_parameters()
        X, y = self._check_data(X, y, X_val, y_val, groups=groups, **params)
        check_records(self.estimator, X, y)
        names = getattr(self, "feature_names_in_", None)
        units = make_units(self.n_features_in_, names, self.fixed_features, self.feature_groups)
        target = units.target(self.n_features_to_select) if len(units) else 0
        if sklearn.get_config()["enable_metadata_routing"]:
            params = dict(process_routing(self, "fit", **params).estimator.fit)
        data = FitData(X, y, X_val, y_val, groups, times=times, horizon=horizon)
        division = self._divide(self.estimator, data)
        setting = self._set_up(division, check_method_params(X, params, indices=division.train))
        verifier = None
        if self.holdout is not None:
            if not hasattr(self, "holdout_"):  # an error about shared rows refers to the split
                self.train_indices_ = division.train
                self.holdout_indices_ = division.holdout
            holdout = open_holdout(
                self, division, metric=setting.metric, fit_params=setting.fit_params
            )
            verifier = Verifier(setting, holdout, n_jobs=self.n_jobs)
        ranking = Ranking.of(
            self.ranking, units, setting.X, setting.y, setting.estimator, division.train_groups()
        )
        dependence_note = self._check_dependence(division, setting, ranking)
        proposals, metric = score_subsets(setting, ranking, target=target, n_jobs=self.n_jobs)
        setting = replace(setting, metric=metric)
        choice = select_subset(proposals, setting, tol=self.tol, target=target)
        if verifier is not None:
            proposals, metric = clip_errors(proposals, choice, setting, division, verifier.holdout)
            setting = replace(setting, metric=metric)
            verifier.use_metrics(metric, {})
        self._select(proposals, choice, division, setting, verifier, ranking, dependence_note)
        if not (self.confirmed_ or choice.is_size_requested or verifier is None):
            self._warn_unconfirmed()
        return self

    def _check_parameters(self):
        """Raise an error for a parameter without meaning, before the data are read."""
        if not callable(self.ranking):
            check_option("ranking", self.ranking, ("univariate",))
        if self.tol != "auto":
            check_real("tol", self.tol, low=0.0)
        if self.verify != "all":
            check_integer("verify", self.verify, low=1)
        check_option("on_empty", self.on_empty, ("baseline", "keep_best"))

    def _set_up(self, division, fit_params):
        """Return the :class:`Experiment`: training records with their folds, and the metric."""
        metric = bounded_metric(self, self.scoring, division)
        splitter = inner_folds(self.cv, division, classifier=is_classifier(self.estimator))
        folds = list(splitter.split(division.X, division.y, division.groups))
        check_folds(division, folds)
        return Experiment.of(
            self,
            division,
            metric=metric,
            folds=folds,
            fit_params=fit_params,
            n_effective=self._training_n_effective(division),
            tested_units=tested_units(division, folds),
        )

    def _check_dependence(self, division, setting, ranking):
        """Return an assumption on the declared dependence, or an empty text; warn of others.

        Wide data are reduced: the best few columns show as well how records depend.
        """
        n = len(ranking.targets)
        if self.n_features_in_ > n:
            order = np.argsort(-ranking.univariate([np.arange(n)])[0], kind="stable")
            setting = replace(setting, X=safe_indexing(setting.X, np.sort(order[:n]), axis=1))
        dependence_test, _ = check_dependence(division, setting, {}, groups=division.groups)
        return "" if dependence_test is None else dependence_test.note

    def _select(self, proposals, choice, division, setting, verifier, ranking, dependence_note):
        """Verify the chosen subsets; set the selected features, their score and the report."""
        metric = setting.metric
        assessments = verify_subsets(verifier, proposals, choice, self.verify)
        self.confirmed_, is_proven = judge_gain(assessments, choice, verified=verifier is not None)
        selected_index = choice.chosen
        if not (self.confirmed_ or choice.is_size_requested) and self.on_empty == "baseline":
            selected_index = choice.baseline
            verify_batch(verifier, proposals, assessments, [selected_index])
        self.score_path_ = path_table(proposals, assessments, selected_index, metric)
        self.score_, *interval = assessments[selected_index].in_units(metric)
        self.interval_ = tuple(interval)
        selected = proposals[selected_index]
        self.support_ = np.isin(np.arange(self.n_features_in_), selected.columns)
        self.n_features_to_select_ = len(selected.columns)
        subset_size, frequencies = _selection_frequencies(selected, ranking)
        self.stability_ = np.ones(self.n_features_in_)
        for members, frequency in zip(ranking.units.members, frequencies, strict=True):
            self.stability_[list(members)] = frequency
        self._summary = path_report(
            self,
            proposals,
            choice,
            selected_index,
            metric,
            ranking,
            is_proven=is_proven,
            frequencies=frequencies,
            subset_size=subset_size,
        )
        variance = None
        if metric.is_mean:
            variance = min(float(np.nanvar(selected.scores.astype(float))), 0.25)
        self._training_side = metric, variance
        self._reported = {}
        self._has_fit_params = any(value is not None for value in setting.fit_params.values())
        self._keep_sides(None if verifier is None else verifier.holdout, division)
        if verifier is None:
            self.estimator_ = fit_candidate(setting, Candidate(columns=selected.columns))
            return
        self.estimator_ = verifier.model(Candidate(columns=selected.columns))
        self._reported = self._models_to_report(proposals, choice, selected_index, verifier)
        cv_data = CVData(division.X, division.y, division.train_groups(), setting.folds)
        self.holdout_.update_context(cv_data=cv_data)
        note = (
            f"Selected {self.support_.sum():,} of {self.n_features_in_:,} features; verified "
            f"{metric.name} {self.score_:.3g} [{interval[0]:.3g}, {interval[1]:.3g}]."
        )
        self.certificate_ = certified(
            self.holdout_,
            division,
            metric,
            assessments[selected_index],
            of="the selected features",
            training=float(self.score_path_["cv_score"][selected_index]),
            clipping=clipping_of(setting, selected.columns),
            notes=(note,),
            assumptions=[dependence_note] if dependence_note else [],
        )

    def _models_to_report(self, proposals, choice, selected_index, verifier):
        """Return columns, model and cross-validated score of each model of a report, by name."""
        name = f"{type(self.estimator_).__name__} of {self.n_features_to_select_:,} features"
        index_by_name = {name: selected_index}
        if choice.constant not in (None, selected_index):
            index_by_name["fixed"] = choice.constant
        cv_scores = self.score_path_["cv_score"]
        return {
            name: (
                list(proposals[index].columns),
                verifier.model(Candidate(columns=proposals[index].columns)),
                float(cv_scores[index]),
            )
            for name, index in index_by_name.items()
            if proposals[index].columns
        }

    def _to_report(self, compare):
        """Return the models with their scores, the metric and a record's variance."""
        X = self._closing().X
        compares_fixed = isinstance(compare, str) and compare == "fixed"
        if compares_fixed and "fixed" not in self._reported:
            raise ValueError("compare='fixed' needs fixed_features, and selected features besides.")
        models = {}
        cv_scores = []
        for name, (columns, model, cv_score) in self._reported.items():
            if name == "fixed" and not compares_fixed:
                continue
            if hasattr(self, "feature_names_in_") and is_frame(X):
                columns = self.feature_names_in_[columns].tolist()
            selection = FunctionTransformer(safe_indexing, kw_args={"indices": columns, "axis": 1})
            models[name] = make_pipeline(selection, model)
            cv_scores.append(cv_score)
        return models, cv_scores, *self._training_side

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        # It, or a part of it (an imputer in a pipeline).
        nested = self.estimator.get_params(deep=True).values()
        parts = [part for part in (self.estimator, *nested) if isinstance(part, BaseEstimator)]
        tags.input_tags.allow_nan = any(get_tags(part).input_tags.allow_nan for part in parts)
        tags.input_tags.sparse = get_tags(self.estimator).input_tags.sparse
        return tags

    def get_metadata_routing(self) -> MetadataRouter:
        """Return how metadata is routed: ``fit`` hands it to the estimator's ``fit``.

        Returns
        -------
        MetadataRouter
            The routing.
        """
        mapping = MethodMapping().add(caller="fit", callee="fit")
        router = MetadataRouter(owner=self).add_self_request(self)
        return router.add(estimator=self.estimator, method_mapping=mapping)


def _selection_frequencies(selected, ranking):
    """Return how many units half samples choose, and the proportion that chooses each unit.

    ``selected``: the proposal whose size half samples choose, too; without units, NaN.
    """
    if not selected.units:
        return 0, np.full(len(ranking.units), np.nan)
    n = len(ranking.targets)
    subset_size = len(selected.units)
    if selected.ranking == "stable":
        subset_size = ranking.stable_size(n)
    return subset_size, ranking.shares(np.arange(n), subset_size)
