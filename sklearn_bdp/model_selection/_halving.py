"""Successive halving on the training set; remaining candidates are verified on the holdout."""

from __future__ import annotations

import numbers
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from sklearn.base import is_classifier
from sklearn.model_selection import check_cv

from sklearn_bdp.model_selection._search import (
    ARGUMENT_HINTS,
    REQUIRED_ARGUMENTS,
    ReusableHoldoutSearchCV,
)
from sklearn_bdp.utils.argument_hints import with_argument_hints
from sklearn_bdp.utils.sklearn_compat import Interval, SuccessiveHalving, halve, num_samples


@with_argument_hints(ARGUMENT_HINTS, REQUIRED_ARGUMENTS)
class HalvingReusableHoldoutSearchCV(ReusableHoldoutSearchCV):
    r"""Search by successive halving, with the last iteration verified on a reusable holdout.

    All candidates are cross-validated with few resources, the best of them with ``factor`` times
    as many, and so on, as in :class:`~sklearn.model_selection.HalvingGridSearchCV`. Halving reads
    training records only and spends no information of the holdout. By default, all candidates of
    the last iteration are fitted on the whole training set and verified. So 300 candidates in the
    first iteration lead to about a dozen queries.

    Parameters
    ----------
    estimator : estimator object
        As for :class:`ReusableHoldoutSearchCV`, like every parameter below without details.
    param_grid : dict or list of dict
        Candidates; distributions are allowed when ``n_iter`` is set.
    factor : float, default=3
        Each iteration keeps the best ``1 / factor`` of the candidates for the next one, in which
        they get ``factor`` times the resources.
    resource : str, default="n_samples"
        Training records, or a parameter of the estimator with positive integer values.
    max_resources : int or "auto", default="auto"
        Largest resource of a candidate; ``"auto"``: all training records. A parameter as
        ``resource`` needs a number.
    min_resources : int, "exhaust" or "smallest", default="exhaust"
        Resource of a candidate in the first iteration. ``"smallest"``: twice the number of folds,
        for a classifier times the number of classes, or 1 for a parameter. ``"exhaust"``: the value
        with which the last iteration uses as much of ``max_resources`` as possible.
    aggressive_elimination : bool, default=False
        Repeat the first iteration until the remaining candidates can have ``max_resources``.
    scoring : str, callable, list, tuple, dict or None, default=None
        Metrics to verify. The one that ranks also selects the candidates of the next iteration.
    n_iter : int or None, default=None
        Number of sampled candidates; ``None`` takes the whole grid.
    n_jobs : int or None, default=None
        Workers that fit and predict.
    refit : bool, str or callable, default=True
        Whether to keep the selected model, or the rule that selects it.
    cv : int, splitter or iterable, default=None
        Inner cross-validation on the training set.
    verbose, pre_dispatch : int, int or str
        As in :class:`~sklearn.model_selection.GridSearchCV`.
    random_state : None, int or RandomState, default=None
        Seeds the split, the sampled candidates and the noise; an integer is for tests.
    error_score : "raise" or float, default=nan
        Score of a candidate that cannot be fitted.
    return_train_score : bool, default=False
        Whether to report scores on the training folds.
    holdout : float, HoldoutConfig, splitter, ReusableHoldout or None, default=0.25
        Records to hold out, or the holdout of an earlier search. None: scikit-learn's halving
        without a holdout.
    correlation : None, array, sparse array, graph, model, list, "groups" or "time", default=None
        How records depend on one another.
    verify : "all", "auto" or int, default="all"
        Candidates of the last iteration to verify.

    Attributes
    ----------
    cv_results_ : dict of arrays
        As for :class:`ReusableHoldoutSearchCV`, with ``iter`` and ``n_resources``. Rows of earlier
        iterations have no verified scores.
    n_candidates_, n_resources_ : list of int
        Number of candidates, and resource of each candidate, by iteration.
    n_iterations_ : int
        Number of iterations.

    See Also
    --------
    ReusableHoldoutSearchCV : Every candidate with all resources; explains the other attributes.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from sklearn_bdp.model_selection import HalvingReusableHoldoutSearchCV
    >>> X, y = load_digits(return_X_y=True)
    >>> grid = {"max_depth": list(range(1, 10)), "min_samples_leaf": [1, 2, 4]}
    >>> search = HalvingReusableHoldoutSearchCV(
    ...     DecisionTreeClassifier(random_state=0), grid, random_state=0).fit(X, y)
    >>> search.n_candidates_, len(search.holdout_.history())
    ([27, 9, 3], 3)
    """

    _eliminates = True

    _parameter_constraints: dict = {
        **SuccessiveHalving._parameter_constraints,
        **ReusableHoldoutSearchCV._parameter_constraints,
        "factor": [Interval(numbers.Real, 1, None, closed="neither")],
    }

    def __init__(
        self,
        estimator: Any,
        param_grid: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        factor: float = 3,
        resource: str = "n_samples",
        max_resources: int | Literal["auto"] = "auto",
        min_resources: int | Literal["exhaust", "smallest"] = "exhaust",
        aggressive_elimination: bool = False,
        scoring: Any = None,
        n_iter: Any = None,
        n_jobs: Any = None,
        refit: Any = True,
        cv: Any = None,
        verbose: Any = 0,
        pre_dispatch: Any = "2*n_jobs",
        random_state: Any = None,
        error_score: Any = np.nan,
        return_train_score: Any = False,
        holdout: Any = 0.25,
        correlation: Any = None,
        verify: int | Literal["all", "auto"] = "all",
    ) -> None:
        super().__init__(estimator, param_grid, scoring=scoring, n_iter=n_iter, refit=refit, cv=cv)
        self.n_jobs, self.pre_dispatch, self.verbose = n_jobs, pre_dispatch, verbose
        self.error_score, self.return_train_score = error_score, return_train_score
        self.random_state, self.holdout, self.correlation = random_state, holdout, correlation
        self.verify = verify
        self.factor, self.resource = factor, resource
        self.max_resources, self.min_resources = max_resources, min_resources
        self.aggressive_elimination = aggressive_elimination

    def _fit_without_holdout(self, X, y, params):
        """Search as scikit-learn's halving does, and return the fitted search."""
        self._validate_params()
        routed_params = self._get_routed_params_for_fit(params)
        self._checked_cv_orig = check_cv(self.cv, y, classifier=is_classifier(self.estimator))
        self._set_resources(X, y, routed_params.splitter.split)
        return super()._fit_without_holdout(X, y, params)

    def _set_up(self, finished_fits, config, fit_data):
        """Set the resources from the training set; return its :class:`CrossValidation`."""
        cross_validation = super()._set_up(finished_fits, config, fit_data)
        holdout_split = cross_validation.holdout_split
        self._set_resources(holdout_split.X, holdout_split.y, cross_validation.split_params)
        return cross_validation

    def _set_resources(self, X, y, split_params):
        """Set ``min_resources_`` and ``max_resources_`` from training data, as scikit-learn does.

        Raises ValueError as scikit-learn, and if ``max_resources`` exceeds the number of training
        records.
        """
        self._n_samples_orig = num_samples(X)
        SuccessiveHalving._check_input_parameters(self, X, y, split_params)
        if self.resource == "n_samples" and not self.max_resources_ <= self._n_samples_orig:
            raise ValueError(
                f"max_resources must be at most the {self._n_samples_orig} training records, got "
                f"max_resources={self.max_resources}."
            )

    def _run_search(self, evaluate_candidates, *, callback_ctx=None):
        """Evaluate all candidates with few resources, and the best of each iteration with more."""

        def evaluate(candidates, cv, **options):
            """Evaluate candidates by the splitter ``cv``; return ``cv_results_`` so far."""
            if callback_ctx is None:
                options.pop("callback_ctx", None)
            return self._with_mean_test_score(evaluate_candidates(candidates, cv, **options))

        halve(self, evaluate, callback_ctx)

    def _with_mean_test_score(self, results):
        """Return ``results`` with the column ``mean_test_score``: that of the metric that ranks.

        The metric that ranks is the one that ``refit`` names, or else the first. ``results``:
        ``cv_results_``, with a column ``mean_test_<name>`` for each metric.
        """
        mean_scores = {
            name: column for name, column in results.items() if name.startswith("mean_test_")
        }
        first_column = next(iter(mean_scores.values()))
        ranking_column = mean_scores.get(f"mean_test_{self.refit}", first_column)
        return {**results, "mean_test_score": ranking_column}

    def _select_best_index(self, refit, refit_metric, results):
        """Return the row that a callable ``refit`` returns, or the best row of the last iteration.

        The best row is the one with the highest cross-validated score of the metric that ranks.
        ``refit_metric``: name of the metric that ranks; ``results``: ``cv_results_``.
        """
        if callable(refit):
            return super()._select_best_index(refit, refit_metric, results)
        results = self._with_mean_test_score(results)
        return SuccessiveHalving._select_best_index(refit, refit_metric, results)
