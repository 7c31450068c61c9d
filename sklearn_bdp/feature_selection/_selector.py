"""Stepwise feature selection in which every candidate subset is verified."""

import numbers
import warnings

import numpy as np
import sklearn
from sklearn.base import MetaEstimatorMixin, clone, is_classifier
from sklearn.model_selection import check_cv
from sklearn.utils import get_tags
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing

from sklearn_bdp._checks import caller_level, check_integer, check_option, check_real
from sklearn_bdp._evaluation import Setting, Verifier, check_records, open_holdout
from sklearn_bdp._sklearn_compat import check_method_params, num_samples
from sklearn_bdp.exceptions import UnboundedMetricError
from sklearn_bdp.feature_selection._base import HoldoutSelectorBase
from sklearn_bdp.feature_selection._path import accuracy_path, describe_step
from sklearn_bdp.feature_selection._stepwise import Rule, select
from sklearn_bdp.feature_selection._units import make_units
from sklearn_bdp.metrics import get_metric

__all__ = ["HoldoutFeatureSelector"]


class HoldoutFeatureSelector(MetaEstimatorMixin, HoldoutSelectorBase):
    r"""Select features step by step; every candidate subset is verified on a reusable holdout.

    The data are divided into a training part and a holdout. In each step all candidate subsets
    are cross-validated on the training part, fitted on it, and put to the holdout in one batch
    through Thresholdout. Candidates are ranked by the smaller of both scores. The gain of the
    winner over the subset before is then put to the holdout as well, and the selection stops when
    no gain is left that both sides confirm. All intervals hold at once with probability
    ``1 - beta``, whatever was selected and whatever is asked of the same holdout later.

    Parameters
    ----------
    estimator : estimator
        A classifier or regressor; anything that is fitted before the features are selected
        (scaling, imputation) belongs into it, as a pipeline.
    n_features_to_select : "auto", int or float, default="auto"
        ``"auto"`` stops when no verified gain remains. A number or a fraction goes on to so many
        features; fixed features count, groups count as one each.
    direction : {"forward", "backward", "floating"}, default="forward"
        ``"floating"`` goes forward, and after each addition removes what is not missed any more.
        Backward, a feature goes as long as the best subset so far has no verified gain over the
        one without it; what it keeps is the smallest subset that is not verifiably worse.
    tol : "auto", "certified" or float, default="auto"
        When a gain counts, with ``n_features_to_select="auto"``.

        - ``"auto"``: on the training side it must exceed what the best of so many useless
          candidates reaches by chance in one step of five at most (about one of twenty in
          simulations, because useless features cost accuracy), and on the holdout it must exceed
          what noise and grid can explain.
        - ``"certified"``: the lower end of its interval must be above 0. With probability
          ``1 - beta`` *every* step of the selection is then a true improvement; this needs
          a large holdout.
        - a number, in score units: both the training-side and the verified gain must exceed it.
    scoring : str, callable or None, default=None
        A bounded metric (see :mod:`sklearn_bdp.metrics`); ``None``: accuracy for classifiers, a
        clipped absolute error for regressors.
    fixed_features : list of int or str, default=None
        Columns that are always selected.
    feature_groups : list of list of (int or str), default=None
        Columns that enter and leave together; others are on their own.
    cv : int, splitter or iterable, default=None
        Inner cross-validation on the training part. ``None`` and integers obey the correlation.
    n_jobs : int or None, default=None
        Workers that fit and predict. Answers do not depend on it.
    pre_dispatch : int or str, default="2*n_jobs"
        As in :class:`~sklearn.model_selection.GridSearchCV`.
    verbose : int, default=0
        One line per step from 1 on, joblib's progress within steps from 2 on. Only released
        values are printed.
    random_state : None, int or RandomState, default=None
        Seeds split and noise. An integer is meant for tests: the certificate says so.
    error_score : "raise" or float, default=nan
        What to do when a fit fails; unless ``"raise"``, such a subset is not a candidate.
    holdout : float, splitter or ReusableHoldout, default=0.25
        A fraction of the records, a splitter with one split, or an existing holdout; the data
        given to ``fit`` are then all training data.
    correlation : None, array, sparse array, graph, model, list or "groups", default=None
        How records depend on one another; see
        :func:`~sklearn_bdp.correlation.check_correlation`.
    verify : "all" or int, default="all"
        Show the holdout all candidates of a step, or only so many with the best training side.
    beta, epsilon, calibration, threshold, budget, n_queries, on_exhausted, ledger : object
        Passed to :class:`~sklearn_bdp.ReusableHoldout`.

    Attributes
    ----------
    support_ : ndarray of bool, shape (n_features_in_,)
        Which features were selected.
    n_features_to_select_ : int
        How many.
    accuracy_path_ : dict of arrays
        One entry per step, ready for ``pandas.DataFrame``: ``action`` (``"start"``, ``"add"``,
        ``"remove"``), ``feature`` (names of what came or went), ``n_features``, ``features``
        (columns, as a tuple), ``n_candidates``, ``training_score``, ``holdout_score``,
        ``holdout_lower``, ``holdout_upper``, ``answered_from``, and for additions
        ``training_gain``, ``chance_gain`` (what chance explains on the training side), ``gain``,
        ``gain_lower``, ``gain_upper``; in score units, NaN where there is nothing to report.
    score_ : float
        Verified score of the selected subset.
    interval_ : tuple of float
        Its interval.
    estimator_ : estimator
        The model that the score speaks of, fitted on the selected columns of the training part.
        Without a selected feature it predicts a constant.
    holdout_ : ReusableHoldout
        To be passed on, for instance to a search.
    certificate_ : Certificate
        What holds, with which probability, under which assumptions.
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
    In a pipeline with other steps that learn from a holdout (a filter before, a search after),
    make one :class:`~sklearn_bdp.ReusableHoldout`, pass it to all of them as ``holdout``, and fit
    the pipeline on training data only: two holdouts made from the same records know nothing of
    each other. Columns are matched by name there, so pass data frames and let the pipeline
    hand them on (``set_output(transform="pandas")``).

    A run that was interrupted resumes for free with the same data, parameters and ``ledger``:
    recorded subsets are not fitted for verification again.

    References
    ----------
    .. [1] C. Dwork et al., "Guilt-free data reuse", Communications of the ACM 60, 2017.
    .. [2] P. Pudil, J. Novovičová, J. Kittler, "Floating search methods in feature selection",
       Pattern Recognition Letters 15, 1994.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from sklearn_bdp.feature_selection import HoldoutFeatureSelector
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 2, 2000)
    >>> X = rng.normal(size=(2000, 12))
    >>> X[:, :2] += y[:, None]  # two features know something, ten do not
    >>> selector = HoldoutFeatureSelector(GaussianNB(), random_state=0).fit(X, y)
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
        estimator,
        *,
        n_features_to_select="auto",
        direction="forward",
        tol="auto",
        scoring=None,
        fixed_features=None,
        feature_groups=None,
        cv=None,
        n_jobs=None,
        pre_dispatch="2*n_jobs",
        verbose=0,
        random_state=None,
        error_score=np.nan,
        holdout=0.25,
        correlation=None,
        verify="all",
        beta=0.05,
        epsilon="auto",
        calibration="tight",
        threshold="auto",
        budget=None,
        n_queries=None,
        on_exhausted="raise",
        ledger=None,
    ):
        self.estimator = estimator
        self.n_features_to_select = n_features_to_select
        self.direction = direction
        self.tol = tol
        self.scoring = scoring
        self.fixed_features = fixed_features
        self.feature_groups = feature_groups
        self.cv = cv
        self.n_jobs = n_jobs
        self.pre_dispatch = pre_dispatch
        self.verbose = verbose
        self.random_state = random_state
        self.error_score = error_score
        self.holdout = holdout
        self.correlation = correlation
        self.verify = verify
        self.beta = beta
        self.epsilon = epsilon
        self.calibration = calibration
        self.threshold = threshold
        self.budget = budget
        self.n_queries = n_queries
        self.on_exhausted = on_exhausted
        self.ledger = ledger

    def fit(self, X, y=None, *, X_val=None, y_val=None, groups=None, **params):
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
        self._check_options()
        X, y = self._check_data(X, y)
        check_records(self.estimator, X, y)
        units = make_units(
            self.n_features_in_,
            getattr(self, "feature_names_in_", None),
            fixed_features=self.fixed_features,
            feature_groups=self.feature_groups,
        )
        target = units.target(self.n_features_to_select)
        division = self._divide(self.estimator, X, y, X_val=X_val, y_val=y_val, groups=groups)
        metric = self._metric(division)
        fit_params = self._fit_params(params)
        if division.train is not None:
            fit_params = check_method_params(X, fit_params, indices=division.train)
            groups = None if groups is None else np.asarray(groups)[division.train]
        setting = self._setting(division, metric, fit_params, groups)
        rule = Rule(self.tol if isinstance(self.tol, str) else self._unit_tol(metric))
        verifier = self._verifier(setting, open_holdout(self, division))
        steps = self._run(verifier, units, target, rule)
        self._keep(steps, verifier, units, division)
        return self

    def _check_options(self):
        """Check what can be checked before any work."""
        check_option("direction", self.direction, ("forward", "backward", "floating"))
        if isinstance(self.tol, str):
            check_option("tol", self.tol, ("auto", "certified"))
        else:
            check_real("tol", self.tol, low=0.0)
        if self.verify != "all":
            check_integer("verify", self.verify, low=1)
        check_integer("verbose", int(self.verbose), low=0)
        if self.holdout is None:
            raise ValueError(
                "holdout must be a fraction, a splitter or a ReusableHoldout, got holdout=None; "
                "for selection without a holdout use sklearn's SequentialFeatureSelector."
            )

    def _metric(self, division):
        """Return the bounded metric to verify."""
        metric = get_metric(self.scoring, estimator=self.estimator, y=division.y)
        if self.scoring is None and metric.note:
            warnings.warn(metric.note, UserWarning, stacklevel=caller_level())
        if not metric.is_mean and not division.model.is_componentwise:
            raise UnboundedMetricError(
                f"scoring={metric.name!r} is no mean over records, and its sensitivity is proved "
                f"for independent records and groups only, got {division.model.describe()}. Use "
                "'accuracy' or another mean over records."
            )
        return metric

    def _unit_tol(self, metric):
        """Return a numeric ``tol`` in units of [0, 1]."""
        return float(self.tol) / (metric.upper - metric.lower)

    def _fit_params(self, params):
        """Return the parameters that go to the estimator's ``fit``."""
        if sklearn.get_config()["enable_metadata_routing"]:
            return dict(process_routing(self, "fit", **params).estimator.fit)
        return params

    def _setting(self, division, metric, fit_params, groups):
        """Return what stays the same from subset to subset."""
        return Setting(
            estimator=clone(self.estimator),
            X=division.X,
            y=division.y,
            X_holdout=division.X_holdout,
            y_holdout=division.y_holdout,
            metric=metric,
            folds=self._folds(division, groups),
            fit_params=fit_params,
            n_effective=self._training_n_effective(division),
            error_score=self.error_score,
            training="cv",
        )

    def _folds(self, division, groups):
        """Return the inner folds; they obey the correlation unless a splitter is given."""
        model, n = division.train_model, num_samples(division.X)
        n_splits = 5 if self.cv is None else self.cv
        plain = model is None or model.is_independent
        if not plain and isinstance(n_splits, numbers.Integral):
            return model.folds(n, n_splits, random_state=0)
        splitter = check_cv(self.cv, division.y, classifier=is_classifier(self.estimator))
        return list(splitter.split(division.X, division.y, groups))

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

    def _run(self, verifier, units, target, rule):
        """Return the steps taken, telling about each when asked to."""
        steps = []
        for step in select(verifier, units, direction=self.direction, target=target, rule=rule):
            steps.append(step)
            if self.verbose > 0:
                print(
                    f"[HoldoutFeatureSelector] {describe_step(step, units, verifier)}", flush=True
                )
        return steps

    def _keep(self, steps, verifier, units, division):
        """Set the fitted attributes; nothing raw is among them."""
        metric, last = verifier.setting.metric, steps[-1]
        columns = units.columns(last.chosen)
        self.support_ = np.zeros(self.n_features_in_, dtype=bool)
        self.support_[list(columns)] = True
        self.n_features_to_select_ = len(columns)
        self.accuracy_path_ = accuracy_path(steps, units, metric)
        found = last.assessment
        self.estimator_ = None if found is None else verifier.model(found)
        self.score_ = self.accuracy_path_["holdout_score"][-1]
        self.interval_ = (
            self.accuracy_path_["holdout_lower"][-1],
            self.accuracy_path_["holdout_upper"][-1],
        )
        self._keep_holdout(verifier.holdout, division)
        if not columns:
            warnings.warn(
                "No feature was selected: none has a verified gain over a constant prediction. "
                "Bring more records, set tol, or say with n_features_to_select how many to take.",
                UserWarning,
                stacklevel=caller_level(),
            )

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator)
        tags.input_tags.allow_nan = inner.input_tags.allow_nan
        tags.input_tags.sparse = inner.input_tags.sparse
        return tags

    def get_metadata_routing(self):
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
