"""The training side of a search: ordinary scikit-learn, which never sees the holdout."""

import warnings
from dataclasses import dataclass, field

import numpy as np
from sklearn.base import clone

from sklearn_bdp._checks import caller_level
from sklearn_bdp._sklearn_compat import (
    check_method_params,
    num_samples,
    safe_indexing,
)
from sklearn_bdp.correlation import check_misfit
from sklearn_bdp.exceptions import ModelMisfitWarning
from sklearn_bdp.metrics import get_metric

_SAME_AS_SKLEARN = ("accuracy", "balanced_accuracy", "roc_auc")

__all__ = ["MetricScorer", "TrainingSide", "training_side", "verified_metric"]


class MetricScorer:
    """A scikit-learn scorer of a bounded metric, in score units.

    Parameters
    ----------
    metric : BoundedMetric
        The metric that is verified on the holdout.
    """

    def __init__(self, metric):
        self.metric = metric

    def __call__(self, estimator, X, y):
        """Return the score of ``estimator`` on ``(X, y)``."""
        return self.metric.from_unit(self.metric.training_score(estimator, X, y))

    def __repr__(self):
        return f"MetricScorer({self.metric.name!r})"


@dataclass(frozen=True)
class TrainingSide:
    """What the training part alone says about the candidates.

    Attributes
    ----------
    candidates : list of dict
        Parameters of each candidate.
    results : dict or None
        ``cv_results_`` of the inner search; ``None`` under ``"resubstitution"``, where the score
        on the training part comes with the fit for verification.
    scores : ndarray of shape (n_candidates,) or None
        Training-side score of each candidate, in score units.
    scorer : callable
        The scorer of the inner search.
    n_splits : int
        Folds of the inner cross-validation.
    multimetric : bool
        Whether several metrics were computed.
    misfit : MisfitReport or None
        For chains: what the training-side errors say about the declared chain.
    misfit_scores : ndarray or None
        The per-record training-side scores it was computed from, in time.
    """

    candidates: list
    results: dict | None = field(repr=False)
    scores: np.ndarray | None
    scorer: object
    n_splits: int
    multimetric: bool
    misfit: object = None
    misfit_scores: np.ndarray | None = field(default=None, repr=False)


def verified_metric(search, y):
    """Return the bounded metric that a search verifies.

    Parameters
    ----------
    search : ReusableHoldoutSearchCV
        Gives ``scoring``, ``refit`` and the estimator.
    y : array-like
        Training targets; they give the public default bounds of regression metrics.

    Returns
    -------
    BoundedMetric
        Metric of the verified score.
    """
    scoring = search.scoring
    if isinstance(scoring, list | tuple | set):
        scoring = {name: name for name in scoring}
    if isinstance(scoring, dict):
        if not isinstance(search.refit, str) or search.refit not in scoring:
            raise ValueError(
                "With several metrics, refit must name the one to verify on the holdout "
                f"(one of {sorted(scoring)}), got refit={search.refit!r}."
            )
        scoring = scoring[search.refit]
    elif isinstance(search.refit, str):
        raise ValueError(
            f"refit must be a bool or a callable with a single metric, got {search.refit!r}."
        )
    metric = get_metric(scoring, estimator=search.estimator, y=y)
    if scoring is None and metric.note:
        warnings.warn(metric.note, UserWarning, stacklevel=caller_level())
    return metric


def training_side(search, division, metric, *, groups, params):
    """Cross-validate the candidates on the training part.

    The inner search is the same class with ``holdout=None``, so that everything documented by
    scikit-learn holds for it.

    Parameters
    ----------
    search : ReusableHoldoutSearchCV
        The search to work for.
    division : Division
        Training part and correlation.
    metric : BoundedMetric
        What is verified.
    groups : ndarray or None
        Groups of the training records.
    params : dict
        Fit parameters of the training records.

    Returns
    -------
    TrainingSide
        Scores and ``cv_results_``.
    """
    if search.training_score == "resubstitution":
        candidates = list(search._candidates())
        return TrainingSide(candidates, None, None, MetricScorer(metric), 1, False)
    folds = _folds(search, division)
    scoring, name = _inner_scoring(search, metric)
    inner = clone(search).set_params(
        holdout=None, refit=False, scoring=scoring, cv=folds, correlation=None, ledger=None
    )
    # A RandomState must move on in the caller's object, as it does in scikit-learn.
    inner.random_state = search.random_state
    if groups is not None:
        params = {**params, "groups": groups}
    inner.fit(division.X, division.y, **params)
    misfit, misfit_scores = _misfit(search, inner, folds, division, metric, params, name)
    return TrainingSide(
        candidates=list(inner.cv_results_["params"]),
        results=inner.cv_results_,
        scores=np.asarray(inner.cv_results_[f"mean_test_{name}"], dtype=float),
        scorer=inner.scorer_,
        n_splits=inner.n_splits_,
        multimetric=inner.multimetric_,
        misfit=misfit,
        misfit_scores=misfit_scores,
    )


def _folds(search, division):
    """Return the inner cross-validation: it obeys the correlation unless a splitter is given."""
    model = division.train_model
    n_splits = 5 if search.cv is None else search.cv
    if model is None or model.is_independent or not isinstance(n_splits, int):
        return search.cv
    return model.folds(num_samples(division.X), n_splits, random_state=0)


def _inner_scoring(search, metric):
    """Return the scoring of the inner search and the name of the verified metric in it."""
    verified = MetricScorer(metric) if _needs_own_scorer(search, metric) else None
    if isinstance(search.scoring, list | tuple | set | dict):
        scoring = search.scoring
        scoring = dict(scoring) if isinstance(scoring, dict) else {name: name for name in scoring}
        if verified is not None:
            scoring[search.refit] = verified
        return scoring, search.refit
    return verified or search.scoring, "score"


def _needs_own_scorer(search, metric):
    """Return whether the verified metric is clipped where scikit-learn's scorer is not."""
    scoring = search.scoring
    if isinstance(scoring, dict):
        scoring = scoring[search.refit]
    elif isinstance(scoring, list | tuple | set):
        scoring = search.refit
    return (scoring or metric.name) not in _SAME_AS_SKLEARN


def _misfit(search, inner, folds, division, metric, params, name):
    """Compare the training-side errors of the best candidate with the declared chain.

    One candidate is fitted once more on each fold, because scikit-learn keeps no per-record
    scores. Everything here is training data, so nothing is spent.
    """
    model = division.train_model
    scores = inner.cv_results_[f"mean_test_{name}"]
    if model is None or not model.is_sequential or not metric.is_mean or np.isnan(scores).all():
        return None, None
    best = clone(search.estimator).set_params(
        **clone(inner.cv_results_["params"][int(np.nanargmax(scores))], safe=False)
    )
    fit_params = {key: value for key, value in params.items() if key != "groups"}
    splits = (
        folds
        if isinstance(folds, list)
        else list(inner._checked_cv_orig.split(division.X, division.y, params.get("groups")))
    )
    per_record = np.full(num_samples(division.X), np.nan)
    for train, test in splits:
        fitted = clone(best).fit(
            safe_indexing(division.X, train),
            safe_indexing(division.y, train),
            **check_method_params(division.X, fit_params, indices=train),
        )
        per_record[test] = metric.evaluate(
            fitted, safe_indexing(division.X, test), safe_indexing(division.y, test)
        ).per_record
    seen = per_record[~np.isnan(per_record)]
    report = check_misfit(model, scores=seen)
    if report.misfit:
        warnings.warn(report.message, ModelMisfitWarning, stacklevel=caller_level())
    return report, seen
