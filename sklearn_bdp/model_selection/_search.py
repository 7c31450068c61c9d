"""Hyper-parameter search in which every look at the holdout is verified."""

import time
from dataclasses import replace

import numpy as np
from sklearn.base import clone
from sklearn.metrics import check_scoring
from sklearn.model_selection import ParameterGrid, ParameterSampler
from sklearn.utils import indexable

from sklearn_bdp._checks import check_integer, check_option
from sklearn_bdp._evaluation import (
    Candidate,
    Setting,
    Verifier,
    check_owner,
    check_records,
    divide_for,
    fit_candidate,
    open_holdout,
    training_side,
    verified_metric,
)
from sklearn_bdp._sklearn_compat import BaseSearchCV, check_method_params
from sklearn_bdp.exceptions import UnboundedMetricError
from sklearn_bdp.model_selection._results import search_results

__all__ = ["ReusableHoldoutSearchCV"]


class ReusableHoldoutSearchCV(BaseSearchCV):
    r"""Search hyper-parameters by cross-validation, verified on a reusable holdout.

    Works like :class:`~sklearn.model_selection.GridSearchCV` (or, with ``n_iter``, like
    :class:`~sklearn.model_selection.RandomizedSearchCV`) on a training part of the data. Each
    candidate is then fitted on the whole training part and compared with the holdout through
    Thresholdout, calibrated by Bayesian differential privacy to the declared correlation. Every
    answer comes with an interval that holds for all answers of the holdout at once, with
    probability ``1 - beta``, however the next search was chosen.

    Parameters
    ----------
    estimator : estimator object
        As in :class:`~sklearn.model_selection.GridSearchCV`.
    param_grid : dict or list of dict
        Candidates; distributions are allowed when ``n_iter`` is set.
    scoring : str, callable, list, tuple, dict or None, default=None
        The metric to verify: a bounded one (see :mod:`sklearn_bdp.metrics`). ``None`` takes
        accuracy for classifiers and a clipped absolute error for regressors (R² has no bounded
        sensitivity), and says so. With several metrics ``refit`` names the one to verify.
    n_iter : int or None, default=None
        Number of sampled candidates (random search); ``None`` takes the whole grid.
    n_jobs : int or None, default=None
        Workers that fit and predict. The answers do not depend on it.
    refit : bool, str or callable, default=True
        ``True`` keeps the best verified model, which was fitted on the training part, as
        ``best_estimator_``; nothing is ever fitted on holdout records. A callable receives
        ``cv_results_`` and returns the index of its choice.
    cv : int, splitter or iterable, default=None
        Inner cross-validation on the training part. ``None`` and integers obey the correlation.
    verbose : int, default=0
        Messages; they never hold a holdout score other than the released ones.
    pre_dispatch : int or str, default="2*n_jobs"
        As in :class:`~sklearn.model_selection.GridSearchCV`.
    random_state : None, int or RandomState, default=None
        Seeds the split, the sampled candidates and the noise. An integer makes runs repeat and
        is meant for tests: the certificate says so.
    error_score : "raise" or float, default=nan
        As in :class:`~sklearn.model_selection.GridSearchCV`; a candidate that cannot be fitted on
        the training part is not shown to the holdout.
    return_train_score : bool, default=False
        As in :class:`~sklearn.model_selection.GridSearchCV`.
    holdout : float, splitter, ReusableHoldout or None, default=0.25
        A fraction of the records, a splitter with one split, the ``holdout_`` of an earlier
        search (the data given to ``fit`` are then all training data), or ``None``: plain
        cross-validation as in :class:`~sklearn.model_selection.GridSearchCV`, bit for bit.
    correlation : None, array, sparse array, graph, model, list or "groups", default=None
        How records depend on one another; see
        :func:`~sklearn_bdp.correlation.check_correlation`.
    training_score : {"cv", "resubstitution"}, default="cv"
        What is compared with the holdout: the cross-validated score, or the score on the
        training part itself (the papers' setting; it overfits and spends information).
    beta : float, default=0.05
        Probability that any interval of this holdout is wrong.
    epsilon : float or "auto", default="auto"
        A Bayesian differential privacy level (nats) for the whole life of the holdout, or as much
        noise as widens intervals by at most a tenth.
    calibration : {"tight", "zhao2017"}, default="tight"
        ``"zhao2017"``: Theorem 2 of [1]_ to the letter.
    threshold : float or "auto", default="auto"
        Deviation from which a candidate's score comes from the holdout.
    budget : int or None, default=None
        Answers from the holdout that may be given; ``None``: no cap.
    n_queries : int or None, default=None
        Number of queries that Theorem 2 is calibrated to.
    verify : "all" or int, default="all"
        Show the holdout all candidates, or only so many with the best training-side score.
    on_exhausted : {"raise", "nan", "training"}, default="raise"
        What happens once the budget is used up.
    ledger : str, Path or None, default=None
        SQLite file that keeps the account for all processes. These seven, like ``beta``, are
        explained at :class:`~sklearn_bdp.ReusableHoldout` and belong to the holdout: leave the
        defaults when an existing one is passed as ``holdout``.

    Attributes
    ----------
    cv_results_ : dict of arrays
        Everything :class:`~sklearn.model_selection.GridSearchCV` reports on the training part,
        and ``training_score``, ``holdout_score``, ``holdout_lower``, ``holdout_upper``,
        ``answered_from`` (``"training"``, ``"holdout"`` or ``"unanswered"``) and
        ``rank_holdout_score``, in score units.
    best_estimator_ : estimator
        The verified model; fitted on the training part only.
    best_score_ : float
        Its verified score.
    best_interval_ : tuple of float
        The interval of its score on fresh data.
    best_params_, best_index_ : dict, int
        Its parameters and its row in ``cv_results_``.
    holdout_ : ReusableHoldout
        To be passed to the next search as ``holdout``.
    certificate_ : Certificate
        What holds, with which probability, under which assumptions.
    train_indices_, holdout_indices_ : ndarray of int or None
        Rows of the data on each side of the split.
    misfit_report_ : MisfitReport or None
        For chains: whether the training-side errors contradict the declared chain
        (:class:`~sklearn_bdp.inspection.MisfitDisplay` draws it).
    misfit_scores_ : ndarray of shape (n_training_records,) or None
        The per-record training-side scores behind the report, in time.
    scorer_, n_splits_, refit_time_, multimetric_, classes_, n_features_in_, feature_names_in_
        As in :class:`~sklearn.model_selection.GridSearchCV`.

    See Also
    --------
    sklearn_bdp.ReusableHoldout : The holdout behind the search.
    sklearn_bdp.HoldoutScorer : The same for anything that takes ``scoring=``.

    References
    ----------
    .. [1] J. Zhao, "Adaptive Statistical Learning with Bayesian Differential Privacy", WPES 2017.
    .. [2] C. Dwork et al., "Generalization in adaptive data analysis and holdout reuse", NIPS 2015.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.svm import SVC
    >>> from sklearn_bdp import ReusableHoldoutSearchCV
    >>> X, y = load_iris(return_X_y=True)
    >>> search = ReusableHoldoutSearchCV(SVC(), {"C": [0.1, 1, 10]}, random_state=0).fit(X, y)
    >>> search.cv_results_["holdout_score"].shape
    (3,)
    >>> again = ReusableHoldoutSearchCV(SVC(), {"gamma": [0.1, 1]}, holdout=search.holdout_)
    >>> X_train, y_train = X[search.train_indices_], y[search.train_indices_]
    >>> again.fit(X_train, y_train).holdout_ is search.holdout_
    True
    """

    def __init__(
        self,
        estimator,
        param_grid,
        *,
        scoring=None,
        n_iter=None,
        n_jobs=None,
        refit=True,
        cv=None,
        verbose=0,
        pre_dispatch="2*n_jobs",
        random_state=None,
        error_score=np.nan,
        return_train_score=False,
        holdout=0.25,
        correlation=None,
        training_score="cv",
        beta=0.05,
        epsilon="auto",
        calibration="tight",
        threshold="auto",
        budget=None,
        n_queries=None,
        verify="all",
        on_exhausted="raise",
        ledger=None,
    ):
        super().__init__(
            estimator=estimator,
            scoring=scoring,
            n_jobs=n_jobs,
            refit=refit,
            cv=cv,
            verbose=verbose,
            pre_dispatch=pre_dispatch,
            error_score=error_score,
            return_train_score=return_train_score,
        )
        self.param_grid = param_grid
        self.n_iter = n_iter
        self.random_state = random_state
        self.holdout = holdout
        self.correlation = correlation
        self.training_score = training_score
        self.beta = beta
        self.epsilon = epsilon
        self.calibration = calibration
        self.threshold = threshold
        self.budget = budget
        self.n_queries = n_queries
        self.verify = verify
        self.on_exhausted = on_exhausted
        self.ledger = ledger

    def _run_search(self, evaluate_candidates):
        """Evaluate the grid, or the sampled candidates."""
        evaluate_candidates(self._candidates())

    def _candidates(self):
        """Return the candidates: a grid, or a sample of it when ``n_iter`` is set."""
        if self.n_iter is None:
            return ParameterGrid(self.param_grid)
        check_integer("n_iter", self.n_iter, low=1)
        return ParameterSampler(self.param_grid, self.n_iter, random_state=self.random_state)

    def fit(self, X, y=None, *, X_val=None, y_val=None, groups=None, **params):
        """Search on a training part of the data and verify on the holdout.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Data; divided unless ``holdout`` is a :class:`~sklearn_bdp.ReusableHoldout` or
            ``X_val`` is given.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs), default=None
            Targets.
        X_val, y_val : array-like, default=None
            An explicit validation set, which becomes the holdout.
        groups : array-like of shape (n_samples,), default=None
            Group labels of the records: for ``correlation="groups"`` and for splitters.
        **params : dict
            Passed to the ``fit`` method of the estimator (and routed as in scikit-learn).

        Returns
        -------
        ReusableHoldoutSearchCV
            The fitted search.

        Raises
        ------
        ValueError
            For arguments that break a rule; nothing has been asked of the holdout then.
        UnboundedMetricError
            For a metric without a bounded sensitivity.
        BudgetExhaustedError
            When the holdout has spent its budget and ``on_exhausted="raise"``.
        """
        if self.holdout is None:
            if X_val is not None or y_val is not None:
                raise ValueError(
                    "holdout=None is plain cross-validation: X_val has no place in it."
                )
            if groups is not None:
                params["groups"] = groups
            return super().fit(X, y, **params)
        self._check_options(X_val)
        if y is None:
            raise ValueError(
                "ReusableHoldoutSearchCV requires y to be passed, but the target y is None."
            )
        X, y = indexable(X, y)
        check_records(self.estimator, X, y)
        division = divide_for(self, self.estimator, X, y, X_val=X_val, y_val=y_val, groups=groups)
        if division.train is not None:
            params = check_method_params(X, params, indices=division.train)
            groups = None if groups is None else np.asarray(groups)[division.train]
        metric = verified_metric(self, division.y)
        if not metric.is_mean and not division.model.is_componentwise:
            raise UnboundedMetricError(
                f"scoring={metric.name!r} is no mean over records, and its sensitivity is proved "
                f"for independent records and groups only, got {division.model.describe()}. Use "
                "'accuracy' or another mean over records."
            )
        # The training side runs first: whatever is wrong with it shows before a holdout exists.
        side = training_side(self, division, metric, groups=groups, params=params)
        holdout = open_holdout(self, division)
        verifier = self._verifier(division, metric, params, holdout)
        found = self._verify(side, verifier, metric)
        self.train_indices_, self.holdout_indices_ = division.train, division.holdout
        self.misfit_report_, self.misfit_scores_ = side.misfit, side.misfit_scores
        # As documented by scikit-learn: without scoring, score() is the estimator's own.
        self.scorer_ = check_scoring(self.estimator) if self.scoring is None else side.scorer
        self.n_splits_ = side.n_splits
        self.multimetric_ = side.multimetric
        self._select(side, found, verifier, division)
        return self

    def _check_options(self, X_val):
        """Check what can be checked before any work."""
        check_option("training_score", self.training_score, ("cv", "resubstitution"))
        if self.verify != "all":
            check_integer("verify", self.verify, low=1)
            if self.training_score == "resubstitution":
                raise ValueError(
                    "verify must be 'all' with training_score='resubstitution', where the "
                    f"training-side score comes with the fit, got verify={self.verify!r}."
                )
        check_owner(self, X_val)

    def _verifier(self, division, metric, params, holdout):
        """Return who asks the holdout."""
        whole = self.training_score == "resubstitution"
        setting = Setting(
            estimator=clone(self.estimator),
            X=division.X,
            y=division.y,
            X_holdout=division.X_holdout,
            y_holdout=division.y_holdout,
            metric=metric,
            fit_params=self._get_routed_params_for_fit(params).estimator.fit,
            error_score=self.error_score,
            training="resubstitution" if whole else None,
        )
        return Verifier(
            setting, holdout, keep="models", n_jobs=self.n_jobs, pre_dispatch=self.pre_dispatch
        )

    def _verify(self, side, verifier, metric):
        """Return the assessments of the candidates that the holdout is shown, by row."""
        rows = self._shown(side)
        candidates = [Candidate(side.candidates[row]) for row in rows]
        if self.verbose > 0:
            n = verifier.holdout.n
            print(f"Verifying {len(rows)} candidates on a holdout of {n} records")
        training = None if side.scores is None else metric.to_unit(side.scores[rows])
        return dict(zip(rows, verifier.assess(candidates, training), strict=True))

    def _shown(self, side):
        """Return the rows shown to the holdout: those with a training-side score, best first."""
        if side.scores is None:
            return list(range(len(side.candidates)))
        finite = np.flatnonzero(np.isfinite(side.scores))
        if self.verify == "all":
            return finite.tolist()
        best = finite[np.argsort(-side.scores[finite], kind="stable")[: self.verify]]
        return sorted(best.tolist())

    def _select(self, side, found, verifier, division):
        """Set ``best_*`` by the verified scores."""
        holdout, metric = verifier.holdout, verifier.setting.metric
        results = search_results(self, side, found, metric)
        self.cv_results_ = results
        self.holdout_ = holdout
        if callable(self.refit):
            best = self._select_best_index(self.refit, "score", results)
        else:
            # Ties (released values lie on a grid) go to the better training-side score.
            order = np.lexsort((-results["training_score"], results["rank_holdout_score"]))
            best = int(order[0])
        self.best_index_ = best
        self.best_params_ = results["params"][best]
        self.best_score_ = float(results["holdout_score"][best])
        self.best_interval_ = (
            float(results["holdout_lower"][best]),
            float(results["holdout_upper"][best]),
        )
        low, high = self.best_interval_
        lead = f"the best candidate: {self.best_score_:.4g}, within [{low:.4g}, {high:.4g}]"
        certificate = holdout.certificate()
        assumed = tuple(filter(None, [division.assumption]))
        self.certificate_ = replace(
            certificate,
            notes=(lead, *certificate.notes),
            assumptions=(*certificate.assumptions, *assumed),
        )
        if self.refit:
            start = time.perf_counter()
            candidate = Candidate(side.candidates[best])
            if best in found:
                self.best_estimator_ = verifier.model(found[best], candidate)
                took = found[best].outcome.fit_time
            else:  # a callable chose a candidate that was not verified
                self.best_estimator_ = fit_candidate(verifier.setting, candidate)
                took = np.nan
            self.refit_time_ = time.perf_counter() - start if np.isnan(took) else took
            if hasattr(self.best_estimator_, "feature_names_in_"):
                self.feature_names_in_ = self.best_estimator_.feature_names_in_
