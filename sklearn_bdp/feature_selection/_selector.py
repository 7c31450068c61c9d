"""Feature selection whose selected subset is verified on a reusable holdout."""

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
from sklearn_bdp.evaluation.candidates import Candidate, SearchSetup, Verifier, fit_candidate
from sklearn_bdp.evaluation.fit_data import FitData, check_records
from sklearn_bdp.evaluation.fits import check_dependence, tested_units
from sklearn_bdp.evaluation.inner_folds import check_folds, inner_folds
from sklearn_bdp.evaluation.open_holdout import open_holdout
from sklearn_bdp.evaluation.scoring import (
    FinalReportMixin,
    bounded_metric,
    clipping_of_columns,
    make_certificate,
)
from sklearn_bdp.feature_selection._base import HoldoutSelectorBase
from sklearn_bdp.feature_selection._path import (
    ANSWERED,
    clip_errors,
    is_gain_confirmed,
    is_gain_proven,
    path_table,
    score_subsets,
    select_subset,
    verify_batch,
    verify_subsets,
)
from sklearn_bdp.feature_selection._rankings import Ranking, make_feature_groups
from sklearn_bdp.feature_selection._report import path_report
from sklearn_bdp.release.context import CVData
from sklearn_bdp.utils.sklearn_compat import check_method_params, is_frame, safe_indexing
from sklearn_bdp.utils.validation import check_integer, check_option, check_real


class HoldoutFeatureSelector(FinalReportMixin, MetaEstimatorMixin, HoldoutSelectorBase):
    r"""Feature selector whose selected features are verified together on a reusable holdout.

    The data are divided into a training set and a holdout. On the training set, features are
    ranked, and the first 1, 2, 3, 4, 6, 8, 11, ... of the ranking are scored by cross-validation,
    with the ranking computed again inside each fold. The subset with the best cross-validated
    score is selected. The holdout is then queried for the score of the selected subset, and for
    that of a constant prediction or of the fixed features alone. With a probability of at least
    ``confidence_level`` all intervals contain their expected scores, including those of later
    queries to the same holdout.

    The holdout verifies the score of the features together, not of each feature. A few hundred
    records can distinguish 0.79 from 0.5, but not which of two thousand features is useless.

    Parameters
    ----------
    estimator : estimator
        A classifier or regressor. Add steps that are fitted before the features are selected
        (scaling, imputation) inside it, as a pipeline.
    n_features_to_select : "auto", "stable", int or float, default="auto"
        ``"auto"``: the smallest subset within ``tol`` of the best. ``"stable"``: features that are
        selected in at least 60% of half samples. The number of features that each half sample
        selects is such that at most one useless feature is expected to be stable (see the notes). A
        number or a fraction: so many features. Fixed features count one by one, and any other group
        as one.
    ranking : "univariate" or callable, default="univariate"
        Order of the features. ``"univariate"``: analysis of variance for classes, correlation for
        numbers. Otherwise a score function ``(X, y) -> scores`` as for ``SelectKBest``
        (``mutual_info_classif``, or the coefficients of a model).
    tol : "auto" or float, default="auto"
        With ``n_features_to_select="auto"``: largest difference between the best cross-validated
        score and that of a smaller subset which is selected instead, in score units. ``"auto"``:
        the best subset, by scores that are smoothed along the path.
    on_empty : {"baseline", "keep_best"}, default="baseline"
        Features that ``transform`` returns if the selected ones are not distinguished from chance.
        ``"baseline"``: the fixed features or, without any, the one best feature. ``"keep_best"``:
        the selected features, which the report labels. In both cases ``fit`` warns if there is a
        holdout. If a number of features is requested, they are kept without a warning.
    scoring : str, callable or None, default=None
        A metric with a proven bound (see :mod:`sklearn_bdp.metrics`), or any other scorer of
        scikit-learn, whose intervals are approximate. ``None``: the estimator's own score.
    fixed_features : list of int or str, default=None
        Columns that are always selected.
    feature_groups : list of list of (int or str), default=None
        Columns that are selected together. Each other column is selected separately.
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
        ``None``: features are selected on all records, and nothing is verified.
    correlation : None, array, sparse array, graph, model, list, "groups" or "time", default=None
        How records depend on one another; see
        :func:`~sklearn_bdp.correlation.check_correlation`. ``"time"``: records in time order. The
        last dates become the holdout, and each is judged by the data known before it. Nothing is
        assumed, learned or tested about their dependence.
    verify : int or "all", default=1
        Number of subsets to verify besides the constant prediction or the fixed features: the best
        one on the training set, and those with the next highest cross-validated scores. A subset
        that ``on_empty`` selects instead is verified, too.

    Attributes
    ----------
    support_ : ndarray of bool, shape (n_features,)
        Mask of the selected features.
    n_features_to_select_ : int
        Number of selected features.
    score_path_ : dict of arrays
        Ready for ``pandas.DataFrame``, one entry per subset: ``ranking`` (its source),
        ``n_features``, ``features`` (columns, as a tuple), ``cv_score``, ``holdout_score``,
        ``holdout_lower``, ``holdout_upper`` (NaN if not asked), ``holdout_interval`` and
        ``answered_from`` (as for a search; ``"none"`` and ``"not asked"`` if not asked),
        ``selected``. Scores are in score units.
    stability_ : ndarray of shape (n_features,)
        Proportion of half samples of the training set in which the same ranking selects each
        feature (50 half samples; 6 for a score function of your own). Each half sample selects as
        many features as are selected here, or with ``"stable"`` the number in the notes. 1 for
        fixed features, NaN for the others if none of them is selected.
    confirmed_ : bool
        Whether the selected features are distinguished from chance (see the notes).
    score_ : float
        Verified score of the selected features. If they were not verified, it is NaN, or with
        ``on_exhausted="cv"`` and an exhausted budget the cross-validated score.
    interval_ : tuple of float
        Confidence interval for their expected score on new records. Its ends are NaN, or those of
        the whole range, if the features were not verified.
    estimator_ : estimator
        The model that the score refers to, fitted on the selected columns of the training set.
        Without a selected feature it predicts a constant.
    holdout_ : ReusableHoldout or None
        To be passed to a search, for instance. None if ``holdout`` is None.
    certificate_ : HoldoutCertificate or None
        The guarantee, its probability and its assumptions, with a note on the verified score of the
        selected features. None if ``holdout`` is None.
    train_indices_, holdout_indices_ : ndarray of int or None
        Rows of the data in the training set and in the holdout. None with ``X_val`` or an existing
        holdout.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    See Also
    --------
    HoldoutCorrelationFilter : Screens tens of thousands of attributes in one batch.
    sklearn_bdp.ReusableHoldoutSearchCV : The same for hyper-parameters.

    Notes
    -----
    Whether the features are better than a constant prediction (``confirmed_``) is judged on the
    training set and on the holdout. On the training set, a test compares the best subset with
    as many useless subsets. Its statistic is the rate of correct predictions in each class, or the
    ranking of the classes, out of fold (level 0.05, by a normal approximation with the correction
    of [2]_ for folds that share records). For regression, fixed features, means of scores such as
    probabilities, and proportions of correct predictions of more than ten classes, the statistic
    is the difference to the score of the constant. For the score of a function of your own, it is
    compared between folds. One fold, or equal differences in all folds, confirm nothing. In
    addition, the cross-validated and the verified score must be above the verified
    score of the constant. This judgment is not part of the certificate. The intervals
    are proved: with a probability of at least ``confidence_level`` the features help if their
    interval lies above that of the constant prediction. It is never proved that no feature helps.
    If a number of features is requested, these are kept in any case.

    Half samples show how stable the selection is. With ``p`` features, of which each half sample
    selects ``q``, at most :math:`q^2 / ((2\tau - 1) p)` of those that are selected no more often
    than at random are expected to be selected in a proportion :math:`\tau` of half samples [3]_.

    ``transform`` returns exactly the verified features. To select again from all records after the
    final report, fit a clone with ``holdout=None`` on all of them. Its selection is not verified.

    After features were selected and a model was tuned on the same training set, its cross-validated
    score is too high. The interval of the holdout is not affected.

    In a pipeline with other steps that query a holdout (a filter before, a search after), make one
    :class:`~sklearn_bdp.ReusableHoldout`, pass it to all of them as ``holdout``, and fit the
    pipeline on training data only. Two holdouts made from the same records do not count the
    answers of each other. Columns are matched by name there, so pass data frames and let the
    pipeline keep them (``set_output(transform="pandas")``).

    A run that was interrupted resumes with the same data, parameters and ledger, and recorded
    answers are free: recorded subsets are not fitted for verification again.

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
    >>> X[:, :2] += y[:, None]  # two features are informative, ten are not
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
        """Select features on a training set of the data, and verify them on the holdout.

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
            For invalid arguments, and if no subset can be fitted. The holdout was not queried.
        UnboundedMetricError
            For a metric without a bounded sensitivity.
        BudgetExhaustedError
            If the budget of the holdout is exhausted and ``on_exhausted="raise"``.
        """
        self._check_parameters()
        X, y = self._check_data(X, y, X_val, y_val, groups=groups, **params)
        check_records(self.estimator, X, y)
        names = getattr(self, "feature_names_in_", None)
        feature_groups = make_feature_groups(
            self.n_features_in_, names, self.fixed_features, self.feature_groups
        )
        requested_size = 0
        if len(feature_groups):
            requested_size = feature_groups.n_to_select(self.n_features_to_select)
        if sklearn.get_config()["enable_metadata_routing"]:
            params = dict(process_routing(self, "fit", **params).estimator.fit)
        fit_data = FitData(X, y, X_val, y_val, groups, times=times, horizon=horizon)
        holdout_split = self._split(self.estimator, fit_data)
        setup = self._set_up(
            holdout_split, check_method_params(X, params, indices=holdout_split.train)
        )
        verifier = None
        if self.holdout is not None:
            verifier = self._open_verifier(holdout_split, setup)
        ranking = Ranking.from_data(
            self.ranking,
            feature_groups,
            setup.X,
            setup.y,
            setup.estimator,
            holdout_split.train_groups(),
        )
        dependence_note = self._check_dependence(holdout_split, setup, ranking)
        scored_subsets, metric = score_subsets(
            setup, ranking, requested_size=requested_size, n_jobs=self.n_jobs
        )
        setup = replace(setup, metric=metric)
        choice = select_subset(scored_subsets, setup, tol=self.tol, requested_size=requested_size)
        if verifier is not None:
            scored_subsets, metric = clip_errors(
                scored_subsets, choice, setup, holdout_split, verifier.holdout
            )
            setup = replace(setup, metric=metric)
            verifier.use_metrics(metric, {})
        self._select(
            scored_subsets, choice, holdout_split, setup, verifier, ranking, dependence_note
        )
        if not (self.confirmed_ or choice.is_size_requested or verifier is None):
            self._warn_unconfirmed()
        return self

    def _check_parameters(self):
        """Raise ValueError or TypeError for an invalid ranking, tol, verify or on_empty."""
        if not callable(self.ranking):
            check_option("ranking", self.ranking, ("univariate",))
        if self.tol != "auto":
            check_real("tol", self.tol, low=0.0)
        if self.verify != "all":
            check_integer("verify", self.verify, low=1)
        check_option("on_empty", self.on_empty, ("baseline", "keep_best"))

    def _set_up(self, holdout_split, fit_params):
        """Return the :class:`SearchSetup`: training set, metric, folds and ``fit_params``."""
        metric = bounded_metric(self, self.scoring, holdout_split)
        splitter = inner_folds(self.cv, holdout_split, classifier=is_classifier(self.estimator))
        folds = list(splitter.split(holdout_split.X, holdout_split.y, holdout_split.groups))
        check_folds(holdout_split, folds)
        return SearchSetup.from_split(
            self,
            holdout_split,
            metric=metric,
            folds=folds,
            fit_params=fit_params,
            n_effective=self._training_n_effective(holdout_split),
            tested_units=tested_units(holdout_split, folds),
        )

    def _open_verifier(self, holdout_split, setup):
        """Return the :class:`Verifier` of a new or existing holdout.

        May set ``train_indices_`` and ``holdout_indices_``, to which errors about shared records
        refer.
        """
        if not hasattr(self, "holdout_"):
            self.train_indices_ = holdout_split.train
            self.holdout_indices_ = holdout_split.holdout
        holdout = open_holdout(
            self, holdout_split, metric=setup.metric, fit_params=setup.fit_params
        )
        return Verifier(setup, holdout, n_jobs=self.n_jobs)

    def _check_dependence(self, holdout_split, setup, ranking):
        """Return an assumption of the certificate about the dependence of records, or "".

        Warns if the scores of a model show undeclared dependence. If there are more columns than
        training records, the model takes only as many columns as records, those with the highest
        univariate scores.
        """
        n_train = len(ranking.targets)
        if self.n_features_in_ > n_train:
            (univariate_scores,) = ranking.univariate([np.arange(n_train)])
            order = np.argsort(-univariate_scores, kind="stable")
            setup = replace(setup, X=safe_indexing(setup.X, np.sort(order[:n_train]), axis=1))
        dependence_report, _per_record_scores = check_dependence(
            holdout_split, setup, {}, groups=holdout_split.groups
        )
        return "" if dependence_report is None else dependence_report.note

    def _select(
        self, scored_subsets, choice, holdout_split, setup, verifier, ranking, dependence_note
    ):
        """Verify the chosen subset and others; set all fitted attributes.

        ``choice``: :class:`SubsetChoice`; ``verifier``: None without a holdout;
        ``dependence_note``: assumption of the certificate, or "".
        """
        metric = setup.metric
        queries = verify_subsets(verifier, scored_subsets, choice, self.verify)
        is_verified = verifier is not None
        self.confirmed_ = is_gain_confirmed(queries, choice, is_verified=is_verified)
        selected_index = choice.chosen_index
        if not (self.confirmed_ or choice.is_size_requested) and self.on_empty == "baseline":
            selected_index = choice.fallback_index
            verify_batch(verifier, scored_subsets, queries, [selected_index])
        self.score_path_ = path_table(scored_subsets, queries, selected_index, metric)
        selected_query = queries[selected_index]
        self.score_, lower, upper = selected_query.in_units(metric)
        self.interval_ = (lower, upper)
        selected_subset = scored_subsets[selected_index]
        columns = selected_subset.columns
        self.support_ = np.isin(np.arange(self.n_features_in_), columns)
        self.n_features_to_select_ = len(columns)
        subset_size, frequencies = _selection_frequencies(selected_subset, ranking)
        self.stability_ = np.ones(self.n_features_in_)
        for members, frequency in zip(ranking.feature_groups.members, frequencies, strict=True):
            self.stability_[list(members)] = frequency
        self._summary, self._report = path_report(
            self,
            scored_subsets,
            choice,
            selected_index,
            metric,
            ranking,
            is_proven=is_gain_proven(queries, selected_index, choice.constant_index),
            frequencies=frequencies,
            subset_size=subset_size,
        )
        self._metric_and_variance = metric, _score_variance(selected_subset, metric)
        self._reportable_models = {}
        self._has_fit_params = any(value is not None for value in setup.fit_params.values())
        self._set_holdout(None if verifier is None else verifier.holdout, holdout_split)
        if verifier is None:
            self.estimator_ = fit_candidate(setup, Candidate(columns=columns))
            return
        self.estimator_ = verifier.model(Candidate(columns=columns))
        self._reportable_models = self._make_reportable_models(
            scored_subsets, choice, selected_index, verifier
        )
        cv_data = CVData(
            holdout_split.X, holdout_split.y, holdout_split.train_groups(), setup.folds
        )
        self.holdout_.update_context(cv_data=cv_data)
        self.certificate_ = make_certificate(
            self.holdout_,
            holdout_split,
            metric,
            selected_query,
            model_description="the selected features",
            cv_score=float(self.score_path_["cv_score"][selected_index]),
            clipping=clipping_of_columns(setup, columns),
            notes=(self._selection_note(selected_query, metric),),
            assumptions=[dependence_note] if dependence_note else [],
        )

    def _selection_note(self, selected_query, metric):
        """Return a sentence on the number of selected features and their verified score."""
        score_text = f"{metric.name} not verified"
        if selected_query.answer.source in ANSWERED:
            lower, upper = self.interval_
            score_text = f"verified {metric.name} {self.score_:.3g} [{lower:.3g}, {upper:.3g}]"
        return (
            f"Selected {self.support_.sum():,} of {self.n_features_in_:,} features; {score_text}."
        )

    def _make_reportable_models(self, scored_subsets, choice, selected_index, verifier):
        """Return a dict from names to (columns, fitted model, cross-validated score).

        It contains the model of the selected features and, with the name "fixed", that of the fixed
        features alone if it is another one. A model without columns is left out. Scores are in
        score units.
        """
        selected_name = (
            f"{type(self.estimator_).__name__} of {self.n_features_to_select_:,} features"
        )
        index_by_name = {selected_name: selected_index}
        if choice.constant_index not in (None, selected_index):
            index_by_name["fixed"] = choice.constant_index
        cv_scores = self.score_path_["cv_score"]
        reportable_models = {}
        for name, index in index_by_name.items():
            columns = scored_subsets[index].columns
            if columns:
                model = verifier.model(Candidate(columns=columns))
                reportable_models[name] = (list(columns), model, float(cv_scores[index]))
        return reportable_models

    def _models_for_report(self, compare):
        """Return models by name, a list of cross-validated scores, the metric, and a variance.

        Models are pipelines that take all columns of the holdout. The model of the fixed features
        is added if ``compare`` is "fixed". Raises ValueError if there is no such model, and without
        a holdout. Scores are in score units. The variance is that of the selected model's scores of
        training records in [0, 1], or None if the metric is not a mean.
        """
        X = self._holdout_to_close().X
        compares_fixed = isinstance(compare, str) and compare == "fixed"
        if compares_fixed and "fixed" not in self._reportable_models:
            raise ValueError("compare='fixed' needs fixed_features, and selected features besides.")
        model_by_name = {}
        cv_scores = []
        for name, (columns, model, cv_score) in self._reportable_models.items():
            if name == "fixed" and not compares_fixed:
                continue
            if hasattr(self, "feature_names_in_") and is_frame(X):
                columns = self.feature_names_in_[columns].tolist()
            selection = FunctionTransformer(safe_indexing, kw_args={"indices": columns, "axis": 1})
            model_by_name[name] = make_pipeline(selection, model)
            cv_scores.append(cv_score)
        metric, variance = self._metric_and_variance
        return model_by_name, cv_scores, metric, variance

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        # Missing values are allowed if the estimator or a nested one, such as an imputer in a
        # pipeline, allows them.
        params = self.estimator.get_params(deep=True).values()
        estimators = [
            param for param in (self.estimator, *params) if isinstance(param, BaseEstimator)
        ]
        tags.input_tags.allow_nan = any(
            get_tags(estimator).input_tags.allow_nan for estimator in estimators
        )
        tags.input_tags.sparse = get_tags(self.estimator).input_tags.sparse
        return tags

    def get_metadata_routing(self) -> MetadataRouter:
        """Return how metadata is routed: ``fit`` passes it to the estimator's ``fit``.

        Returns
        -------
        MetadataRouter
            The routing.
        """
        mapping = MethodMapping().add(caller="fit", callee="fit")
        router = MetadataRouter(owner=self).add_self_request(self)
        return router.add(estimator=self.estimator, method_mapping=mapping)


def _score_variance(subset, metric):
    """Return the variance of the scores of training records in [0, 1], at most 1/4.

    None if the metric is not a mean over records. ``subset``: :class:`ScoredSubset`.
    """
    if not metric.is_mean:
        return None
    return min(float(np.nanvar(subset.scores.astype(float))), 0.25)


def _selection_frequencies(selected_subset, ranking):
    """Return how many feature groups a half sample selects, and their selection frequencies.

    The number is that of the selected subset, or :meth:`Ranking.stable_size` for stable features.
    The frequencies are proportions of half samples that select each feature group: (n_groups,).
    Without a selected group the number is 0, and the frequencies are NaN.
    """
    if not selected_subset.group_indices:
        return 0, np.full(len(ranking.feature_groups), np.nan)
    n_train = len(ranking.targets)
    subset_size = len(selected_subset.group_indices)
    if selected_subset.kind == "stable":
        subset_size = ranking.stable_size(n_train)
    return subset_size, ranking.selection_frequencies(np.arange(n_train), subset_size)
