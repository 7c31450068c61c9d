"""Hyperparameter search whose candidates are verified on a reusable holdout."""

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
from sklearn.base import is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, ParameterGrid, ParameterSampler
from sklearn.utils import Bunch, indexable
from sklearn.utils.metadata_routing import process_routing
from sklearn.utils.validation import has_fit_parameter

from sklearn_bdp._typing import Correlation, RandomState
from sklearn_bdp._version import __version__
from sklearn_bdp.diagnostics.overlap import TrainingData, check_fingerprints
from sklearn_bdp.diagnostics.tables import check_same_schema
from sklearn_bdp.evaluation.candidates import CandidateQuery, MissingAnswer, SearchSetup, Verifier
from sklearn_bdp.evaluation.fit_data import FitData, check_records, check_target_count
from sklearn_bdp.evaluation.fits import CrossValidation, FinishedFits
from sklearn_bdp.evaluation.holdout_split import split_for
from sklearn_bdp.evaluation.inner_folds import inner_folds
from sklearn_bdp.evaluation.open_holdout import check_holdout_parameter, open_holdout
from sklearn_bdp.evaluation.param_grid import check_candidate, check_grid_type
from sklearn_bdp.evaluation.scoring import (
    SELECTION_RULES,
    FinalReportMixin,
    MetricScorer,
    SearchMetrics,
    answers_to_columns,
    make_certificate,
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
from sklearn_bdp.utils.argument_hints import with_argument_hints, with_parameter_hint
from sklearn_bdp.utils.hashing import data_digest, object_digest, query_key
from sklearn_bdp.utils.sklearn_compat import (
    Interval,
    InvalidParameterError,
    StrOptions,
    as_indices,
    check_method_params,
    fit_context,
    num_samples,
    progress_bar,
    root_context,
)
from sklearn_bdp.utils.validation import caller_level, check_integer, check_real

#: Largest distance from the best cross-validated score, in standard errors of the difference, at
#: which a candidate is verified with ``verify="auto"``.
_MAX_STANDARD_ERRORS = 3.0
#: Largest number of characters of a model's code that names parameters that were not searched.
_MAX_NAME_LENGTH = 80
#: Warning if no candidate has a cross-validated score. scikit-learn returns the first one, too.
_NO_CANDIDATE = (
    "No candidate was verified: each has a cross-validated score of NaN (other warnings may show "
    "the cause, and often a fold lacks a class). best_score_ is NaN, and best_params_ are the "
    "first ones. Each of the cv folds needs a record of each class: use fewer folds, such as cv=2, "
    "another metric or more records."
)


#: Fixes for arguments of other classes.
ARGUMENT_HINTS = {
    "param_distributions": "Pass it as param_grid, and set n_iter=20 to sample 20 candidates.",
    "test_size": "Pass the fraction as holdout=0.25.",
    "groups": "Set correlation='groups', and pass groups to fit.",
    "times": "Set correlation='time', and pass times to fit.",
    **dict.fromkeys(
        ("ledger", "confidence_level", "budget", "spending", "epsilon"),
        "It is an argument of HoldoutConfig: pass holdout=HoldoutConfig(...).",
    ),
}


#: Fix by name of an argument that a call lacks.
REQUIRED_ARGUMENTS = {
    "param_grid": "Pass a dict of parameter names and lists of values, such as {'C': [0.1, 1.0]}."
}
#: Fix by name of a parameter whose value scikit-learn's validation rejects.
_PARAMETER_HINTS = {
    "cv": "Set cv=5, or pass a splitter such as KFold(5).",
    "n_iter": "Set n_iter=20 to sample 20 candidates, or n_iter=None for all of them.",
    "random_state": "Set random_state=0.",
    "refit": "Set refit=True to keep the best verified model.",
    "verify": (
        "Set verify='all' or a number of candidates. holdout=None searches without verification."
    ),
}


@with_argument_hints(ARGUMENT_HINTS, REQUIRED_ARGUMENTS)
class ReusableHoldoutSearchCV(FinalReportMixin, GridSearchCV):
    r"""Hyperparameter search by cross-validation, verified on a reusable holdout.

    Works like :class:`~sklearn.model_selection.GridSearchCV` (or, with ``n_iter``, like
    :class:`~sklearn.model_selection.RandomizedSearchCV`) on a training set. Candidates are then
    fitted on the whole training set and compared with the holdout through Thresholdout. Under the
    declared correlation, all proven intervals of a holdout contain their expected scores with
    probability at least ``confidence_level``, also if earlier answers decided how to search next.

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
        or else the first. The others are verified with coarse answers, so that its intervals stay
        as narrow as without them. ``answered_from_<name>`` is ``"unverified"`` for metrics that
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
        Candidates to verify: all, this number with the highest cross-validated scores, or
        (``"auto"``) those whose cross-validated score differs from the best by at most three
        standard errors of the difference. The others are not fitted on the whole training set.

    Attributes
    ----------
    cv_results_ : dict of arrays
        All columns of :class:`~sklearn.model_selection.GridSearchCV` about the training set, and
        ``cv_score``, ``holdout_score``, ``holdout_lower`` and ``holdout_upper`` in score units,
        ``holdout_interval``, ``answered_from`` (``"cv"``, ``"holdout"`` or ``"unanswered"``) and
        ``rank_holdout_score``. ``cv_score`` is compared with the holdout. It is
        ``mean_test_score`` for means over records, unless these are nodes of a network: then
        training nodes may have weights, so that they see as many labeled neighbors in a fold as the
        holdout nodes do. R² and explained variance compare targets and errors with their means in
        the training set, not in the holdout. With several metrics also ``holdout_score_<name>``,
        ``holdout_lower_<name>``, ``holdout_upper_<name>``, ``holdout_interval_<name>`` and
        ``answered_from_<name>`` for each verified one.
    best_estimator_ : estimator
        The selected model; fitted on the training set only. Not set with ``refit=False``.
    best_score_ : float
        Its verified score. If the holdout did not answer, it is NaN, or with ``on_exhausted="cv"``
        the cross-validated score.
    best_interval_ : tuple of float
        Interval for its expected score on new records. If the holdout did not answer, its ends are
        NaN, or with ``on_exhausted="cv"`` those of the whole range.
    best_params_, best_index_ : dict, int
        Its parameters and its row in ``cv_results_``.
    holdout_ : ReusableHoldout
        To be passed to the next search as ``holdout``. It contains the holdout records, also in
        pickles of the search; :meth:`without_holdout` leaves them out.
    certificate_ : HoldoutCertificate
        The guarantee, its probability and its assumptions.
    train_indices_, holdout_indices_ : ndarray of int or None
        Positions in ``X`` of the training set and of the holdout. None with ``X_val`` or an
        existing holdout.
    dependence_test_ : DependenceReport or None
        Whether the training set contradicts the declared correlation: the independence of records
        or groups, or the strength of a dependence. None if this was not tested.
    dependence_test_scores_ : ndarray of shape (n_scored,) or None
        The per-record cross-validated scores behind the report, in row order; None without such
        scores. Folds that are fitted for the report alone (as for ROC AUC) score the first 20,000
        training records at most, unless the records are declared in groups.
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

    _eliminates = False  # whether candidates are eliminated before they get all resources

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

    def _validate_params(self):
        """Raise InvalidParameterError as scikit-learn does; the text may also state a fix."""
        try:
            super()._validate_params()
        except InvalidParameterError as error:
            raise with_parameter_hint(error, _PARAMETER_HINTS) from None

    def _run_search(self, evaluate_candidates, *, callback_ctx=None):
        """Call ``evaluate_candidates`` with the grid, or with the sampled candidates."""
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
        """Return a ParameterGrid, or with ``n_iter`` a ParameterSampler.

        Raises TypeError for a distribution without ``n_iter``.
        """
        if self.n_iter is None:
            param_grid = self.param_grid
            grids = [param_grid] if isinstance(param_grid, Mapping) else param_grid
            for grid in grids:
                for name, values in grid.items():
                    if hasattr(values, "rvs"):
                        raise TypeError(
                            f"param_grid[{name!r}] is a distribution, which needs n_iter. Set "
                            "n_iter=20 to sample 20 candidates, or pass a list of values. The "
                            "holdout was not queried."
                        )
            return ParameterGrid(param_grid)
        # Without random_state, the seed is that of the split, which a resumed search keeps.
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
            Data; divided unless ``holdout`` is None or a :class:`~sklearn_bdp.ReusableHoldout`, or
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
            Coordinates of the records, or the columns of ``X`` that contain them. The search then
            tests whether scores of nearby records or groups agree, and warns if they do.
        **params : dict
            Passed to the ``fit`` method of the estimator (and routed as in scikit-learn).

        Returns
        -------
        ReusableHoldoutSearchCV
            The fitted search.

        Raises
        ------
        TypeError, ValueError
            For invalid arguments, or if all fits failed.
        UnboundedMetricError
            For a metric without a bounded sensitivity.
        SharedRecordsError
            If the training set contains records of the holdout.
        BudgetExhaustedError
            If the budget of the holdout is exhausted and ``on_exhausted="raise"``.
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
            fit_params = params | self._fit_params_without_holdout(holdout_arguments)
            with progress_bar(self):
                return self._fit_without_holdout(X, y, fit_params)
        check_grid_type(self.param_grid)
        scoring = self.scoring if isinstance(self.scoring, list | tuple | set) else [self.scoring]
        for name in scoring:
            if isinstance(name, str):
                check_scoring(name)
        fit_data = FitData(
            X, y, X_val, y_val, groups, groups_val, times, horizon, params, coordinates
        )
        with without_autologging(), progress_bar(self):
            return self._fit_verified(fit_data)

    def _fit_params_without_holdout(self, holdout_arguments):
        """Return the arguments that are not None by name, for a search without holdout.

        Raises ValueError for an argument that such a search does not take. ``holdout_arguments``:
        arguments of ``fit`` by name.
        """
        passed_arguments = {
            name: value for name, value in holdout_arguments.items() if value is not None
        }
        supported_names = ["groups"] + [
            name for name in ("X_val", "y_val") if has_fit_parameter(self.estimator, name)
        ]
        unsupported_names = [name for name in passed_arguments if name not in supported_names]
        if unsupported_names:
            raise ValueError(
                f"{unsupported_names[0]}= has no place in plain cross-validation (holdout=None), "
                f"and {type(self.estimator).__name__}.fit does not take it. Set holdout=0.25, or "
                "pass cv=TimeSeriesSplit() for dates."
            )
        return passed_arguments

    def _fit_without_holdout(self, X, y, params):
        """Search as scikit-learn does; return the fitted search.

        ``params``: other arguments of ``fit`` by name.
        """
        return super().fit(X, y, **params)

    @fit_context(prefer_skip_nested_validation=False)
    def _fit_verified(self, fit_data):
        """Cross-validate candidates, verify them, set the attributes and return the search.

        ``fit_data``: :class:`~sklearn_bdp.evaluation.fit_data.FitData`.
        """
        config = self._check_options(fit_data.X_val)
        check_target_count(fit_data.X, fit_data.y)
        if fit_data.X_val is not None:
            check_target_count(fit_data.X_val, fit_data.y_val, table="X_val")
        X, y = indexable(fit_data.X, fit_data.y)
        check_records(self.estimator, X, y)
        if fit_data.X_val is not None:
            check_records(self.estimator, fit_data.X_val, fit_data.y_val, "X_val")
        fit_data = replace(fit_data, X=X, y=y, params=check_method_params(X, fit_data.params))
        fit_data = fit_data.with_checked_groups(self)
        self._has_fit_params = any(value is not None for value in fit_data.params.values())
        finished_fits = self._load_finished_fits(config, fit_data)
        try:
            cross_validation = self._set_up(finished_fits, config, fit_data)
            self._sampling_seed = cross_validation.holdout_split.seed
            try:
                if cross_validation.callback_context is None:
                    self._run_search(cross_validation.evaluate)
                else:
                    self._run_search(
                        cross_validation.evaluate, callback_ctx=cross_validation.callback_context
                    )
                cross_validation.check()
                queries = self._verify_candidates(cross_validation)
            finally:
                cross_validation.verifier.pending_results.clear()  # raw holdout scores
            self._set_attributes(cross_validation, queries)
        except BaseException:
            # What is kept contains no raw holdout scores.
            if finished_fits.holdout is not None:
                # The signature is computed now: if ``fit`` changed attributes of its class or
                # module, the same call has this signature again.
                self._interrupted_fit = finished_fits, self._signature(fit_data)
            raise
        finally:
            vars(self).pop("_sampling_seed", None)
        holdout_split = cross_validation.holdout_split
        cv_data = CVData(
            X, y, holdout_split.train_groups(), cross_validation.splits, holdout_split.train
        )
        self.holdout_.update_context(cv_data=cv_data)
        if finished_fits.file is not None:
            with contextlib.suppress(OSError):
                finished_fits.file.unlink(missing_ok=True)
        return self

    # -- before the first query: errors are raised before anything is spent

    def _check_options(self, X_val):
        """Check parameters; return the :class:`HoldoutConfig` of a new holdout.

        None if ``holdout`` is a ReusableHoldout. ``X_val``: validation set of the user, or None.
        """
        candidates = self._generate_candidate_params()
        spaces = candidates.param_grid if self.n_iter is None else candidates.param_distributions
        for space in filter(None, spaces):  # one candidate of each space, to check its names
            (candidate,) = ParameterSampler(space, 1, random_state=0)
            check_candidate(self.estimator, candidate)
        return check_holdout_parameter(self, X_val)

    def _signature(self, fit_data):
        """Return a digest of the parameters and data that fits depend on.

        None if a value cannot be digested.
        """
        params = self.get_params(deep=False)
        for name in ("n_jobs", "pre_dispatch", "verbose"):
            params.pop(name)
        # A selection rule does not change the fits, the name of a metric does.
        if not isinstance(self.refit, str) or self.refit in SELECTION_RULES:
            params.pop("refit")
        # The ledger file does not change the fits.
        if isinstance(self.holdout, HoldoutConfig):
            params["holdout"] = self.holdout.set_params(ledger=None)
        return object_digest((params, data_digest(*fit_data.values())))

    def _load_finished_fits(self, config, fit_data):
        """Return the :class:`FinishedFits` of an interrupted call of ``fit``, or a new object.

        The call had the same parameters and data. A new object uses a file beside the ledger, if
        the ledger is a file and :meth:`_signature` is not None. ``config``: :class:`HoldoutConfig`
        of a new holdout, or None.
        """
        finished_fits, stored_signature = vars(self).pop("_interrupted_fit", (None, None))
        if stored_signature is not None and stored_signature == self._signature(fit_data):
            return finished_fits
        ledger = check_ledger(getattr(config, "ledger", None))
        file = None
        if isinstance(ledger, Path):
            signature = self._signature(fit_data)
            if signature is not None:
                digest = query_key("folds", __version__, sklearn.__version__, signature)[:16]
                file = Path(f"{ledger}.{digest}.folds")
        return FinishedFits(file=file)

    def _set_up(self, finished_fits, config, fit_data):
        """Check the arguments; split the data and open the holdout unless an interrupted call did.

        Return the :class:`CrossValidation` of the training set, with a :class:`Verifier`.
        ``finished_fits``: :class:`FinishedFits`; ``config``: :class:`HoldoutConfig` of a new
        holdout, or None.
        """
        if finished_fits.holdout_split is None:
            finished_fits.holdout_split = split_for(self, config, self.estimator, fit_data)
        holdout_split = finished_fits.holdout_split
        params = check_method_params(fit_data.X, fit_data.params, indices=holdout_split.train)
        metrics = SearchMetrics(self, holdout_split)
        check_same_schema(self.estimator, holdout_split)
        routed_params = self._route_params(params, holdout_split.groups)
        fit_params = routed_params.estimator.fit
        split_params = routed_params.splitter.split
        splitter = inner_folds(self.cv, holdout_split, classifier=is_classifier(self.estimator))
        self.n_splits_ = splitter.get_n_splits(holdout_split.X, holdout_split.y, **split_params)
        self._checked_cv_orig = splitter  # scikit-learn's halving reads this attribute
        if finished_fits.holdout is None:
            if not hasattr(self, "holdout_"):  # an error about shared rows refers to the split
                self._set_split(holdout_split)
            finished_fits.holdout = open_holdout(
                self, holdout_split, metric=metrics.metric, fit_params=fit_params
            )
        setup = SearchSetup.from_split(
            self,
            holdout_split,
            metric=metrics.metric,
            fit_params=fit_params,
            secondary=metrics.secondary,
        )
        verifier = Verifier(
            setup, finished_fits.holdout, n_jobs=self.n_jobs, pre_dispatch=self.pre_dispatch
        )
        return CrossValidation(
            self,
            metrics,
            verifier,
            finished_fits,
            splitter=splitter,
            split_params=split_params,
            callback_context=root_context(
                self, holdout_split.X, holdout_split.y, params.get("sample_weight")
            ),
        )

    def _route_params(self, params, groups):
        """Return a Bunch of dicts of parameters, such as ``estimator.fit`` and ``splitter.split``.

        Raises UnboundedMetricError if a scorer requests some. Without metadata routing, warns about
        sample weights. ``params``: other arguments of ``fit`` of the search, by name; ``groups``:
        group labels of the training records, or None.
        """
        if sklearn.get_config()["enable_metadata_routing"]:
            if groups is not None and self.get_metadata_routing().consumes("fit", ["groups"]):
                params = {**params, "groups": groups}
            routed_params = process_routing(self, "fit", **params)
            if routed_params.scorer.score:
                raise UnboundedMetricError(
                    f"scoring asks for {sorted(routed_params.scorer.score)}: a weighted score has "
                    "no proved sensitivity. Let only fit request them."
                )
            return routed_params
        if params.get("sample_weight") is not None:
            warnings.warn(
                "sample_weight goes to fit. In scores, each record counts once, in the training "
                "set and in the holdout.",
                UnweightedScoreWarning,
                stacklevel=caller_level(),
            )
        return Bunch(estimator=Bunch(fit=params), splitter=Bunch(split={"groups": groups}))

    def _get_scorers(self):
        """Return scorers and the name of the metric that ranks, as scikit-learn's method does.

        If scikit-learn raises an error for a metric, return a placeholder scorer, or with
        ``holdout=None`` raise the error.
        """
        try:
            return super()._get_scorers()
        except (TypeError, ValueError):
            if self.holdout is None:
                raise
            return MetricScorer(None), "score"

    # -- queries and released values

    def _verify_candidates(self, cross_validation):
        """Verify the candidates that ``verify`` selects; return a :class:`CandidateQuery` by row.

        Queries of other candidates have no answer, and NaN as cross-validated score.
        """
        cross_validation.use_public_ranges()
        verifier = cross_validation.verifier
        selection_scores = cross_validation.selection_scores()
        rows = self._rows_to_verify(cross_validation, selection_scores)
        candidates = [cross_validation.candidates[row] for row in rows]
        unit_cv_scores = cross_validation.metric.to_unit(cross_validation.scores[rows])
        secondary_unit_scores = {}  # by name of the metric
        for name, metric in cross_validation.secondary.items():
            scores = np.array([cross_validation.cv_score(row, name) for row in rows])
            secondary_unit_scores[name] = metric.to_unit(scores)
        if self.verbose > 0:
            print(f"Verifying {len(rows)} candidates on {verifier.holdout.n} holdout records")
        account = verifier.holdout.account
        batch_number_before = account.last_batch_number()
        verifier.fit(rows, candidates, unit_cv_scores)
        queries = verifier.verify(
            candidates,
            unit_cv_scores,
            rows=rows,
            secondary=secondary_unit_scores,
            variances=[cross_validation.variance(row) for row in rows],
            kurtosis=[cross_validation.finished_fits.kurtosis(row) for row in rows],
            references=lambda index, name: cross_validation.reference(rows[index], name),
            n_train=cross_validation.n_train,
            selection_scores=selection_scores[rows],
        )
        account.note_search([query.answer for query in queries], batch_number_before)
        contexts = (cross_validation.verification_context, cross_validation.callback_context)
        for context in filter(None, contexts):
            context.call_on_fit_task_end(estimator=self)
        query_by_row = dict(zip(rows, queries, strict=True))
        return [
            query_by_row.get(row, CandidateQuery(None, math.nan))
            for row in range(len(cross_validation.candidates))
        ]

    def _rows_to_verify(self, cross_validation, selection_scores):
        """Return the rows of ``cv_results_`` to verify, sorted: those that ``verify`` selects.

        Only rows with a cross-validated score are selected, for halving only of the last iteration.
        Raises ScoreContractError if a score of the best candidate is worse than declared.
        ``selection_scores``: scores of :meth:`CrossValidation.selection_scores` by row, which are
        means over folds and not pooled, in score units.
        """
        first_row = cross_validation.first_row
        is_finite = np.isfinite(cross_validation.scores[first_row:])
        finite_rows = first_row + np.flatnonzero(is_finite)  # rows with a cross-validated score
        if finite_rows.size:
            best_row = int(finite_rows[np.argmax(cross_validation.scores[finite_rows])])
            clipping = cross_validation.finished_fits.clipping(best_row)
            cross_validation.metric.check_clipping(clipping)
        if self.verify == "all" or not finite_rows.size:
            return finite_rows.tolist()
        scores = selection_scores[finite_rows]
        if self.verify == "auto":
            standard_errors = self._standard_errors(cross_validation)[finite_rows]
            is_selected = _may_be_best(scores, standard_errors, cross_validation)
            return finite_rows[is_selected].tolist()
        best_rows = finite_rows[np.argsort(-scores, kind="stable")[: self.verify]]
        return sorted(best_rows.tolist())

    def _standard_errors(self, cross_validation):
        """Return the standard error of the mean over folds by row, in score units; 0 for NaN."""
        standard_deviations = cross_validation.results[f"std_test_{cross_validation.metric_name}"]
        return np.nan_to_num(standard_deviations) / math.sqrt(self.n_splits_)

    def _set_split(self, holdout_split):
        """Set ``train_indices_`` and ``holdout_indices_``, to arrays or None."""
        self.train_indices_ = as_indices(holdout_split.X, holdout_split.train)
        self.holdout_indices_ = as_indices(holdout_split.X, holdout_split.holdout)

    def _set_attributes(self, cross_validation, queries):
        """Set the fitted attributes; ``queries``: list of :class:`CandidateQuery` by row."""
        self._set_split(cross_validation.holdout_split)
        self.dependence_test_ = cross_validation.dependence_report
        self.dependence_test_scores_ = cross_validation.dependence_scores
        self.scorer_ = cross_validation.metrics.public_scorer()
        sklearn_results = cross_validation.sklearn_results
        self.multimetric_ = bool(sklearn_results) and isinstance(
            sklearn_results[0]["test_scores"], dict
        )
        self.cv_results_ = search_results(cross_validation, queries)
        self.holdout_ = cross_validation.verifier.holdout
        self._metric = cross_validation.metric
        self._n_metrics = 1 + len(cross_validation.secondary)
        self._n_train = cross_validation.n_train
        best_row = self._best_row(cross_validation)
        self.best_index_ = best_row
        self.best_params_ = self.cv_results_["params"][best_row]
        self._variance = cross_validation.variance(best_row)
        if isinstance(self._metric, ApproximateMetric):  # forecasts are about the best candidate
            reference = cross_validation.reference(best_row)
            self._metric = replace(self._metric, reference=reference)
            cross_validation.metric = self._metric
        best_query = queries[best_row]
        self.best_score_, *interval = best_query.in_units(self._metric)
        self.best_interval_ = tuple(interval)
        if self.refit is not False:
            self._set_best_estimator(cross_validation, best_query)
        self.certificate_ = search_certificate(self, cross_validation, best_query)

    def _best_row(self, cross_validation):
        """Return the row of ``cv_results_`` that ``refit`` selects."""
        if callable(self.refit):
            return self._select_best_index(
                self.refit, cross_validation.metric_name, self.cv_results_
            )
        standard_errors = None
        if self.refit == "one_se":
            standard_errors = self._standard_errors(cross_validation)
        selection_scores = cross_validation.selection_scores()
        return select_best_row(self.refit, self.cv_results_, selection_scores, standard_errors)

    def _set_best_estimator(self, cross_validation, best_query):
        """Set ``best_estimator_``, ``refit_time_`` in seconds, and names of features if known."""
        start_time = time.perf_counter()
        candidate = cross_validation.candidates[self.best_index_]
        self.best_estimator_ = cross_validation.verifier.model(candidate, self.best_index_)
        fit_time = getattr(best_query.fit_result, "fit_time", math.nan)
        if math.isnan(fit_time):
            fit_time = time.perf_counter() - start_time
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
            For holdout records: their score is given by :meth:`final_report`.
        """
        holdout = getattr(self, "holdout_", None)
        if isinstance(holdout, ReusableHoldout):
            scored_data = TrainingData(((X, y),))
            training_rows = holdout.account.training_rows
            training_rows.check_no_holdout_records(scored_data, holdout.X, holdout.y)
        elif holdout is not None:  # a copy without records
            check_fingerprints(holdout.record_fingerprints, X, y)
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
            Number of candidates of that search, by default that of this search. Each is verified
            on as many metrics as here.
        score : float, default=None
            Approximate expected score, in score units; by default ``best_score_``, or the middle of
            the range if that is NaN.
        scoring, compare, by, per, joint : object
            As for :meth:`final_report`. If any of them is given, the rows of that report are
            forecast: the model is fitted without one fold of the training set, and this fold is
            used in place of the holdout.

        Returns
        -------
        Preview
            As :meth:`sklearn_bdp.ReusableHoldout.preview`, in score units. ``rows`` holds the
            forecasts of rows.

        Raises
        ------
        ValueError
            If rows are to be forecast, but the training records are not known in this process, or
            the model cannot be fitted again.
        """
        _check_has_holdout(self)
        if n_candidates is None:
            n_candidates = len(self.cv_results_["params"])
        n_queries = check_integer("n_candidates", n_candidates, low=1) * self._n_metrics
        expected_score = self.best_score_ if score is None else check_real("score", score)
        unit_score = self._metric.to_unit(expected_score)
        preview = self.holdout_.preview(
            n_queries,
            score=unit_score if math.isfinite(unit_score) else 0.5,
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

    def _models_for_report(self, compare):
        """Return a dict from name to model, its cross-validated score, the metric, and a variance.

        ``compare`` has no effect. The score is in score units. The variance is that of the scores
        of training records, or of dates, in [0, 1], NaN if it is unknown. Raises ValueError if the
        search is not fitted with a holdout or kept no model.
        """
        _check_has_holdout(self)
        if not hasattr(self, "best_estimator_"):
            raise ValueError(
                "final_report needs best_estimator_, which refit=False does not keep: call "
                "holdout_.final_report with the model to report."
            )
        name = short_name(self.best_estimator_, self.best_params_)
        cv_score = float(self.cv_results_["cv_score"][self.best_index_])
        return {name: self.best_estimator_}, cv_score, self._metric, self._variance


def _check_has_holdout(search):
    """Raise NotFittedError unless a search was fitted with a holdout."""
    if hasattr(search, "holdout_"):
        return
    problem = "is not fitted. Call fit(X, y) first."
    if hasattr(search, "cv_results_"):
        problem = "was fitted without a holdout (holdout=None). Set holdout=0.25 and fit again."
    raise NotFittedError(f"This {type(search).__name__} {problem}")


def _may_be_best(scores, standard_errors, cross_validation):
    """Return a mask of candidates within three standard errors of the difference to the best one.

    ``scores``: training scores of the candidates; ``standard_errors``: their standard errors over
    folds, both in score units. A standard error is raised to that of a proportion with the same
    score among all training records, if that is larger.
    """
    unit_scores = cross_validation.metric.to_unit(scores)
    score_range = cross_validation.metric.upper - cross_validation.metric.lower
    unit_variances = unit_scores * (1.0 - unit_scores)
    n_train = num_samples(cross_validation.holdout_split.X)
    min_errors = np.sqrt(unit_variances / n_train) * score_range
    standard_errors = np.maximum(standard_errors, min_errors)
    best_index = int(np.argmax(scores))
    # As if scores were independent: squared standard errors add up.
    difference_errors = np.hypot(standard_errors, standard_errors[best_index]).clip(1e-300)
    return (scores[best_index] - scores) / difference_errors <= _MAX_STANDARD_ERRORS


def search_results(cross_validation, queries):
    """Return ``cv_results_`` with verified scores and intervals, in score units.

    For a metric that cannot be verified the only column besides those of cross-validation is
    ``answered_from_<name>``. ``queries``: list of :class:`CandidateQuery` by row.
    """
    metric = cross_validation.metric
    ranking_name = cross_validation.metric_name
    results = {**cross_validation.results, "cv_score": cross_validation.scores}
    answers = [query.answer for query in queries]
    results |= answers_to_columns(metric, answers)
    # Candidates without a verified score share the last rank.
    scores = np.nan_to_num(_verified_scores(results), nan=-np.inf)
    results["rank_holdout_score"] = rankdata(-scores, method="min").astype(np.int32)
    prefix = "mean_test_"
    cv_metric_names = [name.removeprefix(prefix) for name in results if name.startswith(prefix)]
    for name in dict.fromkeys([*cv_metric_names, ranking_name, *cross_validation.secondary]):
        if name == ranking_name != "score":
            results |= answers_to_columns(metric, answers, suffix=f"_{name}")
        elif name in cross_validation.secondary:
            secondary_metric = cross_validation.secondary[name]
            secondary_answers = _secondary_answers(queries, name)
            results |= answers_to_columns(secondary_metric, secondary_answers, suffix=f"_{name}")
        elif name != ranking_name:  # this metric was not verified
            results[f"answered_from_{name}"] = np.full(len(queries), "unverified")
    return results


def _verified_scores(results):
    """Return the column ``holdout_score`` of ``cv_results_``, with NaN for unanswered rows."""
    is_answered = results["answered_from"] != "unanswered"
    return np.where(is_answered, results["holdout_score"], np.nan)


def _secondary_answers(queries, name):
    """Return a list of answers about a secondary metric by row; MissingAnswer for missing ones."""
    return [getattr(query.secondary.get(name), "answer", MissingAnswer()) for query in queries]


def search_certificate(search, cross_validation, best_query):
    """Return the certificate of a search.

    Warns if no candidate has a cross-validated score, about metrics that were not verified, and as
    :func:`make_certificate` does. ``best_query``: :class:`CandidateQuery` of the selected
    candidate.
    """
    results = search.cv_results_
    cv_scores = results["cv_score"]
    prefix = "answered_from_"
    notes = [] if np.isfinite(cv_scores).any() else [_NO_CANDIDATE]
    unverified_names = [
        column.removeprefix(prefix)
        for column, sources in results.items()
        if column.startswith(prefix) and (sources == "unverified").all()
    ]
    if unverified_names:
        notes.append(
            f"Not verified on the holdout: {', '.join(unverified_names)}. Their scores are from "
            "the training set alone. get_metric(name) explains why a metric has no bound, and "
            "which metrics have one."
        )
    for note in notes:
        warnings.warn(note, UnverifiedWarning, stacklevel=caller_level())
    assumptions = [*cross_validation.verifier.row_wise_check.assumptions]
    dependence_report = cross_validation.dependence_report
    if dependence_report is not None and dependence_report.note:
        assumptions.append(dependence_report.note)
    return make_certificate(
        search.holdout_,
        cross_validation.holdout_split,
        cross_validation.metric,
        best_query,
        model_description="the selected candidate",
        cv_score=cv_scores[search.best_index_],
        clipping=cross_validation.finished_fits.clipping(search.best_index_),
        notes=[*notes, *cross_validation.notes],
        assumptions=assumptions,
    )


def select_best_row(rule, results, selection_scores, standard_errors):
    """Return the row that a rule selects by the verified scores.

    Parameters
    ----------
    rule : object
        Value of ``refit``, not a callable. ``"best_lower"``: the highest lower end of an interval,
        and the better cross-validated score for ties. ``"one_se"``: the first candidate, in the
        order of the grid, whose verified score is within one standard error of that of the best
        candidate. All others: the best candidate, which is the one with the highest selection score
        among those that the holdout confirmed, unless a corrected one has a higher verified score.
    results : dict
        ``cv_results_``.
    selection_scores : ndarray of shape (n_candidates,)
        Cross-validated scores by which confirmed candidates are compared; NaN for candidates that
        cannot be selected by them.
    standard_errors : ndarray of shape (n_candidates,) or None
        Standard errors of the cross-validated scores in score units; needed for ``"one_se"`` only.

    Returns
    -------
    int
        Row in ``cv_results_``. Without any verified score, that of the best selection score, or for
        ``"best_lower"`` of the best cross-validated score.
    """
    cv_scores = results["cv_score"]
    if rule == "best_lower":
        is_answered = results["answered_from"] != "unanswered"
        lower = np.where(is_answered, np.nan_to_num(results["holdout_lower"], nan=-np.inf), -np.inf)
        return int(np.lexsort((-cv_scores, -lower))[0])
    scores = _verified_scores(results)
    best_row = leading_position(
        np.nan_to_num(scores, nan=-np.inf),
        results["answered_from"] == "holdout",
        rankdata(-np.nan_to_num(selection_scores, nan=-np.inf), method="min"),
    )
    if rule != "one_se":
        return best_row
    is_within_error = scores >= scores[best_row] - standard_errors[best_row]
    return int(np.flatnonzero(is_within_error)[0]) if is_within_error.any() else best_row


def short_name(model, params):
    """Return a call of the model's class as text, such as ``SVC(C=1)``.

    It has the searched parameters ``params`` and others that differ from the defaults, or if it is
    too long only the former. A pipeline is named by its last step.
    """
    prefix = ""
    while hasattr(model, "steps"):
        step_name, model = model.steps[-1]
        prefix += f"{step_name}__"
    searched_params = {name.removeprefix(prefix): value for name, value in params.items()}
    signature = inspect.signature(type(model)).parameters
    other_params = {
        name: value
        for name, value in model.get_params(deep=False).items()
        if name not in searched_params
        and repr(value) != repr(getattr(signature.get(name), "default", inspect.Parameter.empty))
    }
    code = _as_call(model, searched_params | other_params)
    return code if len(code) <= _MAX_NAME_LENGTH else _as_call(model, searched_params)


def _as_call(model, params):
    """Return a call of the model's class with ``params`` as text; long values are cut."""
    arguments = ", ".join(f"{name}={_short_value(value)}" for name, value in params.items())
    return f"{type(model).__name__}({arguments})"


def _short_value(value):
    """Return a value as text: a number with four digits, others cut to 40 characters."""
    if isinstance(value, numbers.Real) and not isinstance(value, bool | np.bool_):
        return f"{value:.4g}"
    value = value.item() if isinstance(value, np.generic) else value
    return f"{value!r:.40}"


def without_autologging():
    """Return a context manager that disables autologging of scikit-learn by MLflow, if active.

    Autologging would score the best model on all data passed to ``fit``, including holdout records.
    """
    autologging_utils = sys.modules.get("mlflow.utils.autologging_utils")
    if autologging_utils is None or autologging_utils.autologging_is_disabled("sklearn"):
        return contextlib.nullcontext()
    return autologging_utils.disable_autologging()
