"""Hyper-parameter search in which every look at the holdout is verified."""

from __future__ import annotations

import contextlib
import inspect
import math
import numbers
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import sklearn
from numpy.typing import ArrayLike
from scipy.stats import rankdata
from sklearn.base import clone, is_classifier
from sklearn.model_selection import GridSearchCV, ParameterGrid, ParameterSampler
from sklearn.utils import Bunch, indexable
from sklearn.utils.metadata_routing import process_routing
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from sklearn_bdp._typing import Correlation, RandomState
from sklearn_bdp._version import __version__
from sklearn_bdp.diagnostics.overlap import TrainingData, check_fingerprints
from sklearn_bdp.diagnostics.tables import check_same_schema
from sklearn_bdp.evaluation.candidates import Assessment, Experiment, NoAnswer, Verifier
from sklearn_bdp.evaluation.fit_data import FitData, check_records
from sklearn_bdp.evaluation.fits import CrossValidation, FinishedFits
from sklearn_bdp.evaluation.holdout_split import split_for
from sklearn_bdp.evaluation.inner_folds import inner_folds
from sklearn_bdp.evaluation.open_holdout import check_holdout_parameter, open_holdout
from sklearn_bdp.evaluation.scoring import (
    RULES,
    Metrics,
    MetricScorer,
    Reporting,
    certified,
    released,
)
from sklearn_bdp.exceptions import UnboundedMetricError, UnverifiedWarning, UnweightedScoreWarning
from sklearn_bdp.holdout.config import HoldoutConfig, check_ledger
from sklearn_bdp.holdout.reusable import ReusableHoldout
from sklearn_bdp.metrics.approximate import ApproximateMetric
from sklearn_bdp.metrics.scorers import check_scoring
from sklearn_bdp.release.certificate import HoldoutCertificate
from sklearn_bdp.release.context import CVData
from sklearn_bdp.release.graded_release import leading_position
from sklearn_bdp.release.preview import Preview
from sklearn_bdp.utils.hashing import data_digest, object_digest, query_key
from sklearn_bdp.utils.sklearn_compat import (
    Interval,
    StrOptions,
    as_indices,
    check_method_params,
    fit_context,
    num_samples,
    progress_bar,
    root_context,
)
from sklearn_bdp.utils.validation import caller_level, check_integer, check_real

_NEEDS_HOLDOUT = "This %(name)s needs a fit with a holdout: call fit, and do not set holdout=None."
#: Standard errors behind the leader at which a candidate is not verified with ``verify="auto"``.
_STILL_POSSIBLE = 3.0
#: Characters up to which a model is named by its code.
_SHORT = 80
#: Message if a search is fitted only by name, as scikit-learn's is then.
_NO_CANDIDATE = (
    "no candidate was verified: each has a cross-validated score of NaN (other warnings may show "
    "the cause; often a fold lacks a class). best_score_ is NaN, and best_params_ are the first "
    "ones. Use fewer folds, another metric or more records"
)


class ReusableHoldoutSearchCV(Reporting, GridSearchCV):
    r"""Hyperparameter search by cross-validation, verified on a reusable holdout.

    Works like :class:`~sklearn.model_selection.GridSearchCV` (or, with ``n_iter``, like
    :class:`~sklearn.model_selection.RandomizedSearchCV`) on a training set. Each
    candidate is then fitted on the whole training set and compared with the holdout through
    Thresholdout, calibrated by Bayesian differential privacy to the declared correlation. Every
    answer comes with an interval that holds for all answers of the holdout at once, with
    probability ``confidence_level``, however the next search was chosen.

    Parameters
    ----------
    estimator : estimator object
        As in :class:`~sklearn.model_selection.GridSearchCV`.
    param_grid : dict or list of dict
        Candidates; distributions are allowed when ``n_iter`` is set.
    scoring : str, callable, list, tuple, dict or None, default=None
        Any scorer of scikit-learn, as in :class:`~sklearn.model_selection.GridSearchCV`. ``None``
        takes the ``score`` of the estimator. Intervals are proven, approximate or absent, as the
        column ``holdout_interval`` states. With several metrics the one that ``refit`` names ranks,
        or else the first. The others are verified beside it, coarsely, so that its intervals stay
        as narrow as they were; ``answered_from_<name>`` is ``"unverified"`` for those that
        cannot be verified on the holdout (the other scores that a callable returns).
    n_iter : int or None, default=None
        Number of sampled candidates (random search); ``None`` takes the whole grid.
    n_jobs : int or None, default=None
        Workers that fit and predict. The answers do not depend on it.
    refit : bool, str or callable, default=True
        ``True`` keeps the best verified model, which was fitted on the training set, as
        ``best_estimator_``; nothing is ever fitted on holdout records. The best one is the choice
        of :class:`~sklearn.model_selection.GridSearchCV` among the candidates that the holdout
        confirms, unless it corrects another candidate to a higher score. A callable receives
        ``cv_results_`` and returns the index of its choice. ``"best_lower"`` takes the highest
        lower end of an interval, ``"one_se"`` the first candidate within one standard error of
        the best: list simple candidates first.
    cv : int, splitter or iterable, default=None
        Inner cross-validation on the training set. ``None`` and integers obey the correlation.
        Index lists and ``PredefinedSplit`` refer to the data given to ``fit``; holdout records
        drop out of them.
    verbose : int, default=0
        0: silent; 1: report fits and verifications, with a progress bar in a terminal or a
        notebook if rich and scikit-learn 1.9 are installed; 2 and more: a line for each fold, as
        in :class:`~sklearn.model_selection.GridSearchCV`. No holdout score is ever printed.
    pre_dispatch : int or str, default="2*n_jobs"
        As in :class:`~sklearn.model_selection.GridSearchCV`.
    random_state : None, int or RandomState, default=None
        Seeds the split, the sampled candidates and the noise. An integer makes runs repeat and
        is meant for tests: the certificate reports it.
    error_score : "raise" or float, default=nan
        As in :class:`~sklearn.model_selection.GridSearchCV`; a candidate that cannot be fitted on
        the training set is not shown to the holdout.
    return_train_score : bool, default=False
        As in :class:`~sklearn.model_selection.GridSearchCV`.
    holdout : float, HoldoutConfig, splitter, ReusableHoldout or None, default=0.25
        A fraction of the records, a :class:`~sklearn_bdp.HoldoutConfig` that also names a ledger,
        ``confidence_level`` or a budget, a splitter with one split, the ``holdout_`` of an earlier
        search (the data given to ``fit`` are then all training data), or ``None``: plain
        cross-validation as in :class:`~sklearn.model_selection.GridSearchCV`, bit for bit.
    correlation : None, array, sparse array, graph, model, list, "groups" or "time", default=None
        How records depend on one another; see
        :func:`~sklearn_bdp.correlation.check_correlation`. ``"time"``: records in time order. The
        last dates become the holdout, and each is judged by the data known before it. Nothing is
        assumed, learned or tested about their dependence. Order is read from the index or
        ``times=``, and without dates from the rows. A declared strength of dependence (a chain, an
        influence of a network) is tested on the training set. Under None the cross-validated
        scores are checked for dependence over the order of rows and over ``groups``.
    verify : "all", "auto" or int, default="all"
        Show the holdout all candidates, only so many with the best cross-validated score, or
        (``"auto"``) those whose cross-validated score is within three standard errors of the
        best. The others are not fitted on the whole training set.

    Attributes
    ----------
    cv_results_ : dict of arrays
        Everything :class:`~sklearn.model_selection.GridSearchCV` reports on the training set,
        and ``cv_score``, ``holdout_score``, ``holdout_lower``, ``holdout_upper``,
        ``answered_from`` (``"cv"``, ``"holdout"`` or ``"unanswered"``) and
        ``rank_holdout_score``, in score units. ``cv_score`` is compared with the holdout. It is
        ``mean_test_score`` for means over records, unless these are nodes of a network: then
        training nodes have weights, so that they see as many labeled neighbors in a fold as the
        holdout nodes do. With several metrics also
        ``holdout_score_<name>``, ``holdout_lower_<name>``, ``holdout_upper_<name>`` and
        ``answered_from_<name>`` for each.
    best_estimator_ : estimator
        The verified model; fitted on the training set only.
    best_score_ : float
        Its verified score.
    best_interval_ : tuple of float
        Interval for its expected score on new records.
    best_params_, best_index_ : dict, int
        Its parameters and its row in ``cv_results_``.
    holdout_ : ReusableHoldout
        To be passed to the next search as ``holdout``. It carries the records, also in pickles
        of the search; :meth:`without_holdout` leaves them out.
    certificate_ : HoldoutCertificate
        The guarantee, its probability and its assumptions.
    train_indices_, holdout_indices_ : ndarray of int or None
        Rows of the data on each side of the split.
    dependence_test_ : DependenceReport or None
        Whether cross-validated scores contradict declared independence, of records or of groups.
    dependence_test_scores_ : ndarray of shape (n_scored,) or None
        The per-record cross-validated scores behind the report, in row order. Folds that are fitted
        for the report alone (as for ROC AUC) score the first 20,000 training records at most,
        unless the records are declared in groups.
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

    cv_results_: dict[str, Any]
    best_score_: float
    best_interval_: tuple[float, float]
    certificate_: HoldoutCertificate
    train_indices_: np.ndarray | None
    holdout_indices_: np.ndarray | None

    _eliminates = False  # whether candidates drop out before all resources are spent

    _parameter_constraints: dict = {
        **GridSearchCV._parameter_constraints,
        "scoring": "no_validation",  # names get a better answer from check_scoring
        "n_iter": [Interval(numbers.Integral, 1, None, closed="left"), None],
        "random_state": ["random_state"],
        "verify": [StrOptions({"all", "auto"}), Interval(numbers.Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        estimator: Any,
        param_grid: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        scoring: Any = None,
        n_iter: int | None = None,
        n_jobs: int | None = None,
        refit: bool | str | Callable[..., Any] = True,
        cv: Any = None,
        verbose: int = 0,
        pre_dispatch: int | str = "2*n_jobs",
        random_state: RandomState = None,
        error_score: float | Literal["raise"] = np.nan,
        return_train_score: bool = False,
        holdout: Any = 0.25,
        correlation: Correlation | None = None,
        verify: int | Literal["all", "auto"] = "all",
    ) -> None:
        super().__init__(estimator, param_grid, scoring=scoring, n_jobs=n_jobs, refit=refit, cv=cv)
        self.verbose, self.pre_dispatch = verbose, pre_dispatch
        self.error_score, self.return_train_score = error_score, return_train_score
        self.n_iter, self.random_state = n_iter, random_state
        self.holdout, self.correlation = holdout, correlation
        self.verify = verify

    def _run_search(self, evaluate_candidates, *, callback_ctx=None):
        """Evaluate the grid, or the sampled candidates."""
        candidates = self._generate_candidate_params()
        if callback_ctx is None:
            evaluate_candidates(candidates)
            return
        n_fits = len(candidates) * self.n_splits_
        context = callback_ctx.subcontext(
            task_name="search", max_subtasks=n_fits, sequential_subtasks=False
        ).call_on_fit_task_begin(estimator=self)
        evaluate_candidates(candidates, callback_ctx=context)
        context.call_on_fit_task_end(estimator=self)

    def _generate_candidate_params(self):
        """Return the candidates: a grid, or a sample of it when ``n_iter`` is set.

        scikit-learn's halving calls this method by its name.
        """
        if self.n_iter is None:
            grids = self.param_grid
            for grid in [grids] if isinstance(grids, Mapping) else grids:
                for name, values in grid.items():
                    if hasattr(values, "rvs"):
                        raise TypeError(
                            f"param_grid[{name!r}] is a distribution, which needs n_iter. Set "
                            "n_iter=20 to sample 20 candidates, or pass a list of values. The "
                            "holdout was not queried."
                        )
            return ParameterGrid(grids)
        # A resumed search samples the same candidates.
        seed = self.random_state
        if seed is None:
            seed = getattr(self, "_sampling_seed", None)
        return ParameterSampler(self.param_grid, self.n_iter, random_state=seed)

    def fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        *,
        X_val: Any = None,
        y_val: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        groups_val: ArrayLike | None = None,
        times: ArrayLike | None = None,
        horizon: Any = 1,
        coordinates: ArrayLike | None = None,
        **params: Any,
    ) -> Self:
        """Search on a training set of the data and verify on the holdout.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Data; divided unless ``holdout`` is a :class:`~sklearn_bdp.ReusableHoldout` or
            ``X_val`` is given.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs), default=None
            Targets.
        X_val, y_val : array-like, default=None
            An explicit validation set, which becomes the holdout. With ``holdout=None`` they go to
            the estimator's ``fit`` if it has parameters of these names.
        groups : array-like of shape (n_samples,), default=None
            Group labels of the records: for ``correlation="groups"`` and for splitters. For a
            chain, the sequence of each record. With ``X_val``, also labels of ``X`` followed by
            those of ``X_val``.
        groups_val : array-like of shape (n_validation_samples,), default=None
            Group labels of ``X_val``, for ``correlation="groups"``.
        times : array-like of shape (n_samples,), default=None
            Date of each record, for ``correlation="time"``: rows may come in any order, and the
            unit is the date. If None, a date level of a ``MultiIndex`` or a
            ``DatetimeIndex`` with several rows per date is used. With ``X_val``, dates of ``X``
            followed by those of ``X_val``.
        horizon : int or span of time, default=1
            Dates (rows, without dates) from the last record that a forecaster has to the date its
            score is known. If it is more than 1, so many dates are left out of the training set
            before the holdout. With dates, also ``"7D"``, a ``Timedelta`` or an offset of pandas.
        coordinates : array-like of shape (n_samples, n_dimensions) or list of str, default=None
            Places of the records, or the columns of ``X`` that hold them. The search then tests in
            any order of the rows whether near groups agree, and warns if they do.
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
            holdout_arguments = {
                "times": times,
                "groups_val": groups_val,
                "coordinates": coordinates,
                "horizon": None if horizon == 1 else horizon,
                "X_val": X_val,
                "y_val": y_val,
                "groups": groups,
            }
            fit_params = params | self._plain_fit_params(holdout_arguments)
            with progress_bar(self):
                return self._fit_plain(X, y, fit_params)
        scoring = self.scoring if isinstance(self.scoring, list | tuple | set) else [self.scoring]
        for name in scoring:
            if isinstance(name, str):
                check_scoring(name)
        data = FitData(X, y, X_val, y_val, groups, groups_val, times, horizon, params, coordinates)
        with without_autologging(), progress_bar(self):
            return self._fit_verified(data)

    def _plain_fit_params(self, holdout_arguments):
        """Return the arguments of ``fit`` that plain cross-validation or the estimator takes."""
        passed = {name: value for name, value in holdout_arguments.items() if value is not None}
        supported = ["groups"] + [
            name for name in ("X_val", "y_val") if has_fit_parameter(self.estimator, name)
        ]
        if unsupported := [name for name in passed if name not in supported]:
            raise ValueError(
                f"{unsupported[0]}= has no place in plain cross-validation (holdout=None), and "
                f"{type(self.estimator).__name__}.fit does not take it. Set holdout=0.25, or "
                "pass cv=TimeSeriesSplit() for dates."
            )
        return passed

    def _fit_plain(self, X, y, params):
        """Search as scikit-learn does, without a holdout."""
        return super().fit(X, y, **params)

    @fit_context(prefer_skip_nested_validation=False)
    def _fit_verified(self, data):
        """Split, cross-validate on the training set, verify on the holdout, choose."""
        config = self._check_options(data.X_val)
        X, y = indexable(data.X, data.y)
        check_records(self.estimator, X, y)
        data = replace(data, X=X, y=y, params=check_method_params(X, data.params)).checked(self)
        self._has_fit_params = any(value is not None for value in data.params.values())
        progress = self._load_progress(config, data)
        try:
            folds = self._set_up(progress, config, data)
            self._sampling_seed = folds.division.seed
            try:
                if folds.context is None:
                    self._run_search(folds.evaluate)
                else:
                    self._run_search(folds.evaluate, callback_ctx=folds.context)
                folds.check()
                assessments = self._verify_candidates(folds)
            finally:
                folds.verifier.unasked.clear()  # raw scores
            self._set_attributes(folds, assessments)
        except BaseException:
            if progress.holdout is not None:  # training scores and released answers only
                # The signature is computed now: a ``fit`` that changes attributes of its class or
                # module does not make another search.
                self._unfinished = progress, self._signature(data)
            raise
        finally:
            vars(self).pop("_sampling_seed", None)
        division = folds.division
        cv_data = CVData(X, y, division.train_groups(), folds.splits, division.train)
        self.holdout_.update_context(cv_data=cv_data)
        if progress.file is not None:
            with contextlib.suppress(OSError):
                progress.file.unlink(missing_ok=True)
        return self

    # -- before the first query: errors are raised before anything is spent

    def _check_options(self, X_val):
        """Check parameters before any work; return the configuration of a new holdout, or None."""
        candidates = self._generate_candidate_params()
        spaces = candidates.param_grid if self.n_iter is None else candidates.param_distributions
        for space in filter(None, spaces):  # one candidate of each space, to check its names
            (candidate,) = ParameterSampler(space, 1, random_state=0)
            if candidate:  # an empty candidate sets no parameter
                clone(self.estimator).set_params(**clone(candidate, safe=False))
        return check_holdout_parameter(self, X_val)

    def _signature(self, data):
        """Return a digest of parameters and data, or None."""
        params = self.get_params(deep=False)
        for name in ("n_jobs", "pre_dispatch", "verbose"):
            params.pop(name)
        # A rule chooses among answers; the name of a metric determines the answers.
        if not isinstance(self.refit, str) or self.refit in RULES:
            params.pop("refit")
        # The ledger file does not change the fits.
        if isinstance(self.holdout, HoldoutConfig):
            params["holdout"] = self.holdout.set_params(ledger=None)
        return object_digest((params, data_digest(*data.parts())))

    def _load_progress(self, config, data):
        """Return the progress of an interrupted run of the same search, or an empty one."""
        progress, stored_signature = self.__dict__.pop("_unfinished", (None, None))
        if stored_signature is not None and stored_signature == self._signature(data):
            return progress
        ledger = check_ledger(getattr(config, "ledger", None))
        file = None
        if isinstance(ledger, Path) and (signature := self._signature(data)) is not None:
            name = query_key("folds", __version__, sklearn.__version__, signature)[:16]
            file = Path(f"{ledger}.{name}.folds")
        return FinishedFits(file=file)

    def _set_up(self, progress, config, data):
        """Split the data and open the holdout, after all checks.

        Returns the :class:`CrossValidation` of the training set, with the verifier of the holdout.
        """
        if progress.division is None:
            progress.division = split_for(self, config, self.estimator, data)
        division = progress.division
        params = check_method_params(data.X, data.params, indices=division.train)
        metrics = Metrics(self, division)
        check_same_schema(self.estimator, division)
        routed = self._route_params(params, division.groups)
        splitter = inner_folds(self.cv, division, classifier=is_classifier(self.estimator))
        self.n_splits_ = splitter.get_n_splits(division.X, division.y, **routed.splitter.split)
        self._checked_cv_orig = splitter  # read by scikit-learn's halving
        if progress.holdout is None:
            if not hasattr(self, "holdout_"):  # an error about shared rows refers to the split
                self._set_split(division)
            progress.holdout = open_holdout(
                self, division, metric=metrics.metric, fit_params=routed.estimator.fit
            )
        setting = Experiment.of(
            self,
            division,
            metric=metrics.metric,
            fit_params=routed.estimator.fit,
            secondary=metrics.secondary,
        )
        verifier = Verifier(
            setting, progress.holdout, n_jobs=self.n_jobs, pre_dispatch=self.pre_dispatch
        )
        context = root_context(self, division.X, division.y, params.get("sample_weight"))
        return CrossValidation(
            self,
            metrics,
            verifier,
            progress,
            splitter=splitter,
            split_params=routed.splitter.split,
            context=context,
        )

    def _route_params(self, params, groups):
        """Return the parameters of the estimator's ``fit`` and of the splitter."""
        if sklearn.get_config()["enable_metadata_routing"]:
            if groups is not None and self.get_metadata_routing().consumes("fit", ["groups"]):
                params = {**params, "groups": groups}
            routed = process_routing(self, "fit", **params)
            if routed.scorer.score:
                raise UnboundedMetricError(
                    f"scoring asks for {sorted(routed.scorer.score)}: a weighted score has no "
                    "proved sensitivity. Let only fit request them."
                )
            return routed
        if params.get("sample_weight") is not None:
            warnings.warn(
                "sample_weight goes to fit. In scores, each record counts once, in the training "
                "set and in the holdout.",
                UnweightedScoreWarning,
                stacklevel=caller_level(),
            )
        return Bunch(estimator=Bunch(fit=params), splitter=Bunch(split={"groups": groups}))

    def _get_scorers(self):
        """Return scikit-learn's scorers; bounded metrics unknown to it need no routing."""
        try:
            return super()._get_scorers()
        except (TypeError, ValueError):
            if self.holdout is None:
                raise
            return MetricScorer(None), "score"

    # -- queries and released values

    def _verify_candidates(self, folds):
        """Return the assessments by row; candidates that are not verified have no answer."""
        folds.use_public_ranges()
        verifier = folds.verifier
        selection_scores = folds.selection_scores()
        rows = self._rows_to_verify(folds, selection_scores)
        candidates = [folds.candidates[row] for row in rows]
        cv_scores = folds.metric.to_unit(folds.scores[rows])
        secondary = {}
        for name, metric in folds.secondary.items():
            scores = np.array([folds.cv_score(row, name) for row in rows])
            secondary[name] = metric.to_unit(scores)
        if self.verbose > 0:
            print(f"Verifying {len(rows)} candidates on {verifier.holdout.n} holdout records")
        verifier.fit(rows, candidates, cv_scores)
        variances = [folds.variance(row) for row in rows]
        verified = verifier.assess(
            candidates,
            cv_scores,
            rows=rows,
            secondary=secondary,
            variances=variances,
            kurtosis=[folds.progress.kurtosis(row) for row in rows],
            references=lambda index, name: folds.reference(rows[index], name),
            n_train=folds.n_train,
            selection_scores=selection_scores[rows],
        )
        for context in filter(None, (folds.verification, folds.context)):
            context.call_on_fit_task_end(estimator=self)
        by_row = dict(zip(rows, verified, strict=True))
        n_candidates = len(folds.candidates)
        return [by_row.get(row, Assessment(None, math.nan)) for row in range(n_candidates)]

    def _rows_to_verify(self, folds, selection_scores):
        """Return the rows to verify, in order: those with a cross-validated score."""
        finite = folds.first + np.flatnonzero(np.isfinite(folds.scores[folds.first :]))
        if finite.size:
            leader = int(finite[np.argmax(folds.scores[finite])])
            folds.metric.check_clipping(folds.progress.clipping(leader))
        if self.verify == "all" or not finite.size:
            return finite.tolist()
        scores = selection_scores[finite]
        if self.verify == "auto":
            error = self._standard_error(folds)[finite]
            return finite[_may_be_best(scores, error, folds)].tolist()
        best = finite[np.argsort(-scores, kind="stable")[: self.verify]]
        return sorted(best.tolist())

    def _standard_error(self, folds):
        """Return the standard error of each cross-validated score, from its folds."""
        return np.nan_to_num(folds.results[f"std_test_{folds.name}"]) / math.sqrt(self.n_splits_)

    def _set_split(self, division):
        """Set the indices of training and holdout records."""
        self.train_indices_ = as_indices(division.X, division.train)
        self.holdout_indices_ = as_indices(division.X, division.holdout)

    def _set_attributes(self, folds, assessments):
        """Set the fitted attributes; ``best_*`` follow the verified scores."""
        verifier = folds.verifier
        self._set_split(folds.division)
        self.dependence_test_ = folds.report
        self.dependence_test_scores_ = folds.per_record
        self.scorer_ = folds.metrics.public()
        self.multimetric_ = bool(folds.out) and isinstance(folds.out[0]["test_scores"], dict)
        self.cv_results_ = results = search_results(self, folds, assessments)
        self.holdout_ = verifier.holdout
        self._metric = folds.metric
        self._n_metrics = 1 + len(folds.secondary)
        self._n_train = folds.n_train
        best = self._best_row(folds)
        self.best_index_ = best
        self.best_params_ = results["params"][best]
        self._variance = folds.variance(best)
        if isinstance(folds.metric, ApproximateMetric):  # forecasts are about the best candidate
            folds.metric = replace(folds.metric, reference=folds.reference(best))
            self._metric = folds.metric
        self.best_score_, *interval = assessments[best].in_units(folds.metric)
        self.best_interval_ = tuple(interval)
        if self.refit is not False:
            self._set_best_estimator(folds, assessments[best])
        self.certificate_ = certificate_of(self, folds, assessments)

    def _best_row(self, folds):
        """Return the row that ``refit`` chooses by the released scores."""
        if callable(self.refit):
            return self._select_best_index(self.refit, folds.name, self.cv_results_)
        error = self._standard_error(folds) if self.refit == "one_se" else None
        return select_best_row(self.refit, self.cv_results_, folds.selection_scores(), error)

    def _set_best_estimator(self, folds, assessment):
        """Set the verified model of the best candidate, and the time of its fit."""
        start = time.perf_counter()
        best = self.best_index_
        self.best_estimator_ = folds.verifier.model(folds.candidates[best], best)
        fit_time = getattr(assessment.outcome, "fit_time", math.nan)
        if math.isnan(fit_time):
            fit_time = time.perf_counter() - start
        self.refit_time_ = fit_time
        if hasattr(self.best_estimator_, "feature_names_in_"):
            self.feature_names_in_ = self.best_estimator_.feature_names_in_

    def score(self, X: Any, y: ArrayLike | None = None, **params: Any) -> float:
        """Return the score of ``best_estimator_`` on new records.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            New records, or training records.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs), default=None
            Their targets.
        **params : dict
            Passed to the scorer, as in scikit-learn.

        Returns
        -------
        float
            As :meth:`sklearn.model_selection.GridSearchCV.score`.

        Raises
        ------
        SharedRecordsError
            For records that ``fit`` held out: their score is given by :meth:`final_report`.
        """
        holdout = getattr(self, "holdout_", None)
        if isinstance(holdout, ReusableHoldout):
            side = TrainingData(((X, y),))
            holdout.account.training_rows.check_no_holdout_records(side, holdout.X, holdout.y)
        elif holdout is not None:  # a copy without records
            check_fingerprints(holdout.marks, X, y)
        return super().score(X, y, **params)

    def preview(
        self,
        n_candidates: int | None = None,
        *,
        score: float | None = None,
        scoring: Any = None,
        compare: Any = None,
        by: Any = None,
        per: Any = None,
        joint: bool = True,
    ) -> Preview:
        """Preview another search on this holdout and a final report now; nothing is spent.

        Parameters
        ----------
        n_candidates : int, default=None
            Candidates of that search; by default as many as this one had. Each is asked about
            by as many metrics as in this one.
        score : float, default=None
            Approximate expected score, in score units; by default the best verified one.
        scoring, compare, by, per, joint : object
            As for :meth:`final_report`. If any of them is given, the rows of that report are
            forecast one by one: the model is fitted without one fold of the training set, and that
            fold plays the holdout.

        Returns
        -------
        Preview
            As :meth:`sklearn_bdp.ReusableHoldout.preview`, in score units. ``rows`` holds the
            forecasts of rows.

        Raises
        ------
        ValueError
            If the training records are not known in this process, or the model cannot be fitted
            again.
        """
        check_is_fitted(self, "holdout_", msg=_NEEDS_HOLDOUT)
        count = len(self.cv_results_["params"]) if n_candidates is None else n_candidates
        count = check_integer("n_candidates", count, low=1) * self._n_metrics
        unit = self._metric.to_unit(
            self.best_score_ if score is None else check_real("score", score)
        )
        preview = self.holdout_.preview(
            count,
            score=unit if math.isfinite(unit) else 0.5,
            n_train=self._n_train,
            scoring=self._metric,
            training_variance=self._variance,
        )
        preview = preview.in_units(self._metric.lower, self._metric.upper)
        has_report_options = any(option is not None for option in (scoring, compare, by, per))
        if not has_report_options and joint is True:
            return preview
        rows = self._forecast_report(scoring=scoring, compare=compare, by=by, per=per, joint=joint)
        return replace(preview, rows=rows)

    def _to_report(self, compare):
        """Return the model with its score, the metric and a record's variance."""
        check_is_fitted(self, "holdout_", msg=_NEEDS_HOLDOUT)
        if not hasattr(self, "best_estimator_"):
            raise ValueError(
                "final_report needs best_estimator_, which refit=False does not keep: call "
                "holdout_.final_report with the model to report."
            )
        models = {short_name(self.best_estimator_, self.best_params_): self.best_estimator_}
        score = float(self.cv_results_["cv_score"][self.best_index_])
        return models, score, self._metric, self._variance


def _may_be_best(scores, error, folds):
    """Return which candidates may be the best one; ``error``: standard errors of their scores.

    Folds are few, so that the number of records bounds the standard error from below.
    """
    unit_scores = folds.metric.to_unit(scores)
    score_range = folds.metric.upper - folds.metric.lower
    variance = unit_scores * (1.0 - unit_scores)
    min_error = np.sqrt(variance / num_samples(folds.division.X)) * score_range
    error = np.maximum(error, min_error)
    best = int(np.argmax(scores))
    differences = (scores[best] - scores) / np.hypot(error, error[best]).clip(1e-300)
    return differences <= _STILL_POSSIBLE


def search_results(search, folds, assessments):
    """Return ``cv_results_`` with the released values, in score units; ``assessments``: by row."""
    metric = folds.metric
    results = {**folds.results, "cv_score": folds.scores}
    answers = [assessment.answer for assessment in assessments]
    results |= released(metric, answers)
    # Candidates without a verified score share the last place.
    scores = np.nan_to_num(results["holdout_score"], nan=-np.inf)
    results["rank_holdout_score"] = rankdata(-scores, method="min").astype(np.int32)
    scored = [name.removeprefix("mean_test_") for name in results if name.startswith("mean_test_")]
    for name in dict.fromkeys([*scored, folds.name, *folds.secondary]):
        if name == folds.name != "score":
            results |= released(metric, answers, end=f"_{name}")
        elif name in folds.secondary:
            secondary_answers = _secondary_answers(assessments, name)
            results |= released(folds.secondary[name], secondary_answers, end=f"_{name}")
        elif name != folds.name:  # marks the metrics that were not verified
            results[f"answered_from_{name}"] = np.full(len(assessments), "unverified")
    return results


def _secondary_answers(assessments, name):
    """Return the answers about a secondary metric by row."""
    return [
        getattr(assessment.secondary.get(name), "answer", NoAnswer()) for assessment in assessments
    ]


def certificate_of(search, folds, assessments):
    """Return the certificate of a search; warn about metrics that are not verified."""
    best = search.best_index_
    results = search.cv_results_
    cv_scores = results["cv_score"]
    prefix = "answered_from_"
    notes = [] if np.isfinite(cv_scores).any() else [_NO_CANDIDATE]
    names = [
        column.removeprefix(prefix)
        for column, sources in results.items()
        if column.startswith(prefix) and (sources == "unverified").all()
    ]
    if names:
        notes.append(
            f"not verified on the holdout: {', '.join(names)}. Their scores are from the training "
            "set alone. get_metric(name) explains why a metric has no bound, and which metrics "
            "have one"
        )
    for note in notes:
        warnings.warn(note, UnverifiedWarning, stacklevel=caller_level())
    chosen = assessments[best]
    assumptions = [*folds.verifier.row_wise.assumptions]
    if folds.report is not None and folds.report.note:
        assumptions.append(folds.report.note)
    return certified(
        search.holdout_,
        folds.division,
        folds.metric,
        chosen,
        of="the selected candidate",
        training=cv_scores[best],
        clipping=folds.progress.clipping(best),
        notes=[*notes, *folds.notes],
        assumptions=assumptions,
    )


def select_best_row(rule, results, selection_scores, error):
    """Return the row that a rule chooses by verified scores.

    ``"best_lower"``: the highest lower end; ties (released values lie on a grid) go to the better
    cross-validated score. ``"one_se"``: the first candidate, in the order of the grid, within one
    standard error (of its folds' scores) of the best. All others: the best one, which is the
    candidate that scikit-learn chooses by ``selection_scores`` among those that the holdout did not
    correct, unless a corrected one has a higher released value.
    """
    cv_scores = results["cv_score"]
    if rule == "best_lower":
        lower = np.nan_to_num(results["holdout_lower"], nan=-np.inf)
        return int(np.lexsort((-cv_scores, -lower))[0])
    best = leading_position(
        np.nan_to_num(results["holdout_score"], nan=-np.inf),
        results["answered_from"] == "holdout",
        rankdata(-np.nan_to_num(selection_scores, nan=-np.inf), method="min"),
    )
    if rule != "one_se":
        return best
    within_error = results["holdout_score"] >= results["holdout_score"][best] - error[best]
    return int(np.flatnonzero(within_error)[0]) if within_error.any() else best


def short_name(model, params):
    """Return a model as code: its class, the searched parameters, and others if that is short.

    A pipeline has the class of its last step.
    """
    prefix = ""
    while hasattr(model, "steps"):
        step_name, model = model.steps[-1]
        prefix += f"{step_name}__"
    searched = {name.removeprefix(prefix): value for name, value in params.items()}
    signature = inspect.signature(type(model)).parameters
    changed = {
        name: value
        for name, value in model.get_params(deep=False).items()
        if name not in searched and repr(value) != repr(signature[name].default)
    }
    code = _as_call(model, searched | changed)
    return code if len(code) <= _SHORT else _as_call(model, searched)


def _as_call(model, params):
    """Return the call that makes a model."""
    arguments = ", ".join(f"{name}={_short_value(value)}" for name, value in params.items())
    return f"{type(model).__name__}({arguments})"


def _short_value(value):
    """Return a parameter as code: numbers with four digits and without their type."""
    if isinstance(value, numbers.Real) and not isinstance(value, bool | np.bool_):
        return f"{value:.4g}"
    value = value.item() if isinstance(value, np.generic) else value
    return f"{value!r:.40}"


def without_autologging():
    """Return a context in which MLflow does not log: it patches ``fit`` of scikit-learn's classes.

    It would score the best model on all data given to ``fit``, holdout records included.
    """
    tools = sys.modules.get("mlflow.utils.autologging_utils")
    if tools is None or tools.autologging_is_disabled("sklearn"):
        return contextlib.nullcontext()
    return tools.disable_autologging()
