"""Fit candidates on the training part and score each holdout record, in worker processes.

Workers fit and predict; only the coordinating process runs the mechanism. What they return (the
per-record scores) goes straight into :meth:`ReusableHoldout.answer` and nowhere else.
"""

import time
import traceback
import warnings
from dataclasses import dataclass, field, replace
from functools import partial

import joblib
import numpy as np
import sklearn
from scipy.stats import rankdata
from sklearn.base import clone
from sklearn.exceptions import FitFailedWarning
from sklearn.utils.parallel import Parallel, delayed

from sklearn_bdp._checks import caller_level
from sklearn_bdp._evaluation._opening import CONTEST
from sklearn_bdp._keys import is_reproducible, model_key, object_digest
from sklearn_bdp._sklearn_compat import check_method_params, num_samples

__all__ = ["Candidate", "Verified", "fit_and_evaluate", "recipe_key", "verify"]


@dataclass(frozen=True)
class Candidate:
    """A candidate fitted on the training part, and how it does on each holdout record.

    Attributes
    ----------
    estimator : estimator or None
        The fitted model; ``None`` when fitting failed.
    evaluation : Evaluation or None
        Bounded per-record scores on the holdout. Never shown: it goes to the mechanism only.
    training_value : float
        Resubstitution score in ``[0, 1]``; NaN when not asked for.
    key : str
        Digest of what is known without the holdout.
    fit_time, score_time : float
        Seconds.
    error : str
        The traceback of a failed fit, else empty.
    """

    estimator: object
    evaluation: object = field(repr=False)
    training_value: float
    key: str
    fit_time: float
    score_time: float
    error: str = ""


def fit_and_evaluate(
    estimator,
    X,
    y,
    X_holdout,
    y_holdout,
    *,
    params,
    fit_params,
    metric,
    key,
    resubstitution,
    error_score,
):
    """Fit ``estimator`` with ``params`` on the training part and score every holdout record.

    Parameters
    ----------
    estimator : estimator
        A fresh clone.
    X, y, X_holdout, y_holdout : array-like
        Training part and holdout.
    params, fit_params : dict
        The candidate, and what goes to ``fit``.
    metric : BoundedMetric
        Gives the per-record scores.
    key : str or None
        Known digest of the query; ``None``: computed from the fitted model.
    resubstitution : bool
        Whether to score the training part too (the papers' setting).
    error_score : "raise" or float
        What to do when ``fit`` fails.

    Returns
    -------
    Candidate
        The fitted model and its scores.
    """
    start = time.perf_counter()
    try:
        estimator = estimator.set_params(**clone(params, safe=False))
        fit_params = check_method_params(X, params=fit_params)
        estimator.fit(X, **fit_params) if y is None else estimator.fit(X, y, **fit_params)
    except Exception:
        if error_score == "raise":
            raise
        took = time.perf_counter() - start
        return Candidate(None, None, np.nan, "", took, 0.0, traceback.format_exc())
    fitted = time.perf_counter()
    evaluation = metric.evaluate(estimator, X_holdout, y_holdout)
    training_value = metric.evaluate(estimator, X, y).value if resubstitution else np.nan
    scored = time.perf_counter()
    if key is None:
        key = model_key(estimator, metric)
    return Candidate(
        estimator, evaluation, float(training_value), key, fitted - start, scored - fitted
    )


def warn_failures(candidates, *, n_recorded):
    """Warn about fits that failed, once, or raise when nothing is left to verify."""
    errors = [candidate.error for candidate in candidates if candidate.error]
    if not errors:
        return
    if len(errors) == len(candidates) and not n_recorded:
        raise ValueError(
            f"All the {len(errors)} fits failed on the training part; nothing was asked of the "
            f"holdout. The last one said:\n{errors[-1]}"
        )
    warnings.warn(
        f"{len(errors)} of {len(candidates)} fits failed on the training part; these candidates "
        f"were not shown to the holdout. The last one said:\n{errors[-1]}",
        FitFailedWarning,
        stacklevel=caller_level(),
    )


def recipe_key(estimator, params, *, data_digest, fit_params, metric):
    """Return the key of a candidate before it is fitted, or None where fitting may vary.

    A digest of estimator, parameters, training data, fit parameters, metric and scikit-learn's
    version: nothing in it depends on the holdout.
    """
    candidate = clone(estimator).set_params(**clone(params, safe=False))
    if not is_reproducible(candidate):
        return None
    parts = (
        "recipe",
        sklearn.__version__,
        type(candidate).__qualname__,
        candidate,
        data_digest,
        fit_params,
        repr(metric),
    )
    return object_digest(parts)


@dataclass(frozen=True)
class Verified:
    """The outcome of a search: released values, and the models they speak of.

    Attributes
    ----------
    results : dict of arrays
        ``cv_results_`` of the search.
    models : dict of int to Candidate
        Candidates fitted in this run, by row, without their holdout scores.
    refit : callable
        Fits a row whose answer was already recorded and that was not fitted in this run.
    """

    results: dict = field(repr=False)
    models: dict = field(repr=False)
    refit: object = field(repr=False)

    def model(self, row):
        """Return the model of a row, fitted on the training part."""
        return self.models[row][0] if row in self.models else self.refit(row)

    def fit_time(self, row):
        """Return the seconds its fit took, or None when it was not fitted in this run."""
        return self.models[row][1] if row in self.models else None


def verify(search, side, holdout, division, metric, *, params):
    """Fit the candidates on the training part and ask the holdout about them, in one batch.

    Parameters
    ----------
    search : ReusableHoldoutSearchCV
        The search to work for.
    side : TrainingSide
        Training-side scores.
    holdout : ReusableHoldout
        Answers; already recorded queries are free and their models are not fitted again.
    division : Division
        Training part and holdout records.
    metric : BoundedMetric
        What is verified.
    params : dict
        Fit parameters of the training records.

    Returns
    -------
    Verified
        Results and models.
    """
    rows = _shown(search, side)
    fit = _Fitting(search, side, division, metric, params)
    recorded = holdout.recorded([key for key in fit.keys(rows) if key is not None])
    table = _Table(len(side.candidates))
    to_fit = []
    for row, key in zip(rows, fit.keys(rows), strict=True):
        if key in recorded:
            table.store(row, recorded[key])
        else:
            to_fit.append(row)
    if search.verbose > 0:
        print(
            f"Verifying {len(rows)} candidates on a holdout of {holdout.n} records: "
            f"{len(to_fit)} to fit, {len(rows) - len(to_fit)} answered before"
        )
    fitted, evaluations = fit.all(to_fit)
    warn_failures(fitted, n_recorded=len(rows) - len(to_fit))
    outcome = dict(zip(to_fit, fitted, strict=True))
    asked = [row for row in to_fit if outcome[row].estimator is not None]
    if search.training_score == "resubstitution":
        values = np.array([outcome[row].training_value for row in asked])
    else:
        values = metric.to_unit(side.scores[asked])
    try:
        if asked:
            answers = holdout.answer_evaluations(
                values,
                evaluations,
                training_size=num_samples(division.X),
                keys=[outcome[row].key for row in asked],
                slack=CONTEST * (values.max() - values),
            )
            for position, row in enumerate(asked):
                table.store(row, answers, position)
                table.training[row] = values[position]
    finally:
        evaluations.clear()  # a traceback holds this frame: no raw score may be left in it
    results = _results(search, side, outcome, table, metric)
    models = {row: (outcome[row].estimator, outcome[row].fit_time) for row in asked}
    return Verified(results, models, lambda row: fit.one(row).estimator)


class _Fitting:
    """The fits that a search may still need; it holds data and parameters, never a score."""

    def __init__(self, search, side, division, metric, params):
        self.search, self.candidates = search, side.candidates
        self.data = (division.X, division.y, division.X_holdout, division.y_holdout)
        fit_params = search._get_routed_params_for_fit(params).estimator.fit
        self.common = {
            "fit_params": fit_params,
            "metric": metric,
            "resubstitution": search.training_score == "resubstitution",
            "error_score": search.error_score,
        }
        digest = joblib.hash((division.X, division.y), hash_name="sha1")
        self._recipe = partial(recipe_key, data_digest=digest, fit_params=fit_params, metric=metric)
        self._keys = {}

    def keys(self, rows):
        """Return the recipe keys of candidates; ``None`` where the model has to be fitted first."""
        for row in rows:
            if row not in self._keys:
                self._keys[row] = self._recipe(self.search.estimator, self.candidates[row])
        return [self._keys[row] for row in rows]

    def one(self, row, call=fit_and_evaluate):
        """Fit one candidate, or return the delayed call."""
        return call(
            clone(self.search.estimator),
            *self.data,
            params=self.candidates[row],
            key=self.keys([row])[0],
            **self.common,
        )

    def all(self, rows):
        """Fit candidates in workers; return them without their scores, and the scores."""
        parallel = Parallel(n_jobs=self.search.n_jobs, pre_dispatch=self.search.pre_dispatch)
        fitted = parallel(self.one(row, delayed(fit_and_evaluate)) for row in rows)
        evaluations = [c.evaluation for c in fitted if c.estimator is not None]
        return [replace(candidate, evaluation=None) for candidate in fitted], evaluations


def _shown(search, side):
    """Return the rows shown to the holdout: those with a training-side score, best ones first."""
    if side.scores is None:
        if search.verify != "all":
            raise ValueError(
                "verify must be 'all' with training_score='resubstitution', where the "
                f"training-side score comes with the fit, got verify={search.verify!r}."
            )
        return list(range(len(side.candidates)))
    finite = np.flatnonzero(np.isfinite(side.scores))
    if search.verify == "all":
        return finite.tolist()
    best = finite[np.argsort(-side.scores[finite], kind="stable")[: search.verify]]
    return sorted(best.tolist())


class _Table:
    """Released answers by candidate, in [0, 1]; NaN where nothing was asked."""

    def __init__(self, n_candidates):
        self.training, self.values, self.lower, self.upper = np.full((4, n_candidates), np.nan)
        self.source = np.full(n_candidates, "unanswered", dtype="<U10")

    def store(self, row, answers, position=None):
        """Store one released answer: a record, or one position of a batch."""

        def pick(name):
            value = getattr(answers, name)
            return value if position is None else value[position]

        self.values[row] = pick("value" if position is None else "values")
        self.lower[row], self.upper[row] = pick("lower"), pick("upper")
        if position is None:
            self.training[row] = answers.training_value
        if position is None or pick("answered"):
            self.source[row] = "holdout" if pick("above") else "training"


def _results(search, side, outcome, table, metric):
    """Return ``cv_results_``: the training side's, and the released values in score units."""
    if side.results is not None:
        results = dict(side.results)
        results["training_score"] = side.scores
    else:
        results = _resubstitution_results(search, side, outcome, table, metric)
    results["holdout_score"] = metric.from_unit(table.values)
    results["holdout_lower"] = metric.from_unit(table.lower)
    results["holdout_upper"] = metric.from_unit(table.upper)
    results["answered_from"] = table.source
    results["rank_holdout_score"] = _rank(results["holdout_score"])
    return results


def _resubstitution_results(search, side, outcome, table, metric):
    """Return ``cv_results_`` where no cross-validation was run."""
    nan = float("nan")
    rows = range(len(side.candidates))
    out = [
        {
            "fit_time": outcome[row].fit_time if row in outcome else nan,
            "score_time": outcome[row].score_time if row in outcome else nan,
            "test_scores": nan,
        }
        for row in rows
    ]
    with warnings.catch_warnings():  # the placeholder test scores are dropped below
        warnings.simplefilter("ignore", UserWarning)
        blank = clone(search).set_params(return_train_score=False)
        results = blank._format_results(side.candidates, 1, out)
    results = {name: value for name, value in results.items() if "test_score" not in name}
    results["training_score"] = metric.from_unit(table.training)
    results["mean_train_score"] = results["training_score"]
    return results


def _rank(scores):
    """Return ranks from 1 (best); candidates without a verified score share the last place."""
    known = np.isfinite(scores)
    if not known.any():
        return np.ones(scores.size, dtype=np.int32)
    worst = scores[known].min() - 1
    return rankdata(-np.where(known, scores, worst), method="min").astype(np.int32)
