"""One subset of columns: its score on the training side and on each holdout record.

Runs in worker processes. The holdout's scores go to the mechanism and nowhere else.
"""

import math
import traceback
from dataclasses import dataclass, field

import numpy as np
from scipy.special import ndtri, stdtrit
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.dummy import DummyClassifier, DummyRegressor

from sklearn_bdp._keys import model_key
from sklearn_bdp._sklearn_compat import check_method_params, num_samples, safe_indexing

__all__ = ["Outcome", "PairedGain", "Setting", "evaluate_subset", "fit_subset", "paired_gain"]


@dataclass(frozen=True)
class Setting:
    """Everything that stays the same from subset to subset.

    Attributes
    ----------
    estimator : estimator
        Cloned for each fit.
    X, y, X_holdout, y_holdout : array-like
        Training part and holdout.
    metric : BoundedMetric
        The score.
    folds : list of (ndarray, ndarray)
        Inner cross-validation.
    fit_params : dict
        What goes to ``fit``, for all training records.
    n_effective : float
        Effective number of training records.
    error_score : "raise" or float
        What to do when a fit fails.
    reproducible : bool
        Whether a model can be fitted again when it is needed.
    """

    estimator: object
    X: object = field(repr=False)
    y: object = field(repr=False)
    X_holdout: object = field(repr=False)
    y_holdout: object = field(repr=False)
    metric: object
    folds: list = field(repr=False)
    fit_params: dict = field(repr=False)
    n_effective: float
    error_score: object
    reproducible: bool

    @property
    def has_baseline(self):
        """Whether a model without features is known: a constant prediction."""
        return is_classifier(self.estimator) or is_regressor(self.estimator)


@dataclass(frozen=True)
class Outcome:
    """What a worker found out about a subset.

    Attributes
    ----------
    columns : tuple of int
        The subset.
    training : float
        Cross-validated score in [0, 1]; NaN where a fit failed.
    scores : ndarray or None
        For means over records the cross-validated score of each training record (NaN where it
        was in no test fold), for other metrics that of each fold.
    evaluation : Evaluation or None
        Scores on the holdout: for the mechanism only.
    key : str or None
        Key computed from the fitted model where fitting may vary.
    model : estimator or None
        The fitted model where fitting may vary.
    error : str
        Traceback of a failed fit, else empty.
    """

    columns: tuple
    training: float
    scores: np.ndarray | None = field(default=None, repr=False)
    evaluation: object = field(default=None, repr=False)
    key: str | None = None
    model: object = field(default=None, repr=False)
    error: str = ""


def evaluate_subset(setting, columns, *, training, holdout):
    """Score a subset by cross-validation on the training part, and on the holdout.

    Parameters
    ----------
    setting : Setting
        Data, metric, folds.
    columns : tuple of int
        The subset.
    training, holdout : bool
        Which sides to score.

    Returns
    -------
    Outcome
        Scores in [0, 1].
    """
    try:
        scores = _cross_validated(setting, columns) if training else None
        model = fit_subset(setting, columns) if holdout else None
    except Exception:
        if setting.error_score == "raise":
            raise
        return Outcome(columns, math.nan, error=traceback.format_exc())
    value = math.nan if scores is None else float(np.nanmean(scores, dtype=float))
    if model is None:
        return Outcome(columns, value, scores)
    evaluation = setting.metric.evaluate(
        model, _take(setting.X_holdout, columns), setting.y_holdout
    )
    if setting.reproducible:
        return Outcome(columns, value, scores, evaluation)
    return Outcome(columns, value, scores, evaluation, model_key(model, setting.metric), model)


def fit_subset(setting, columns):
    """Return the estimator fitted on some columns of the training part."""
    return _fit(setting, _take(setting.X, columns), columns, setting.y, setting.fit_params)


def _fit(setting, X, columns, y, params):
    if columns:
        return clone(setting.estimator).fit(X, y, **params)
    return _baseline(setting).fit(X, y)


def _baseline(setting):
    """Return the best model without features: the constant that suits the metric."""
    if is_classifier(setting.estimator):
        return DummyClassifier(strategy="prior")
    absolute = "absolute" in setting.metric.name
    return DummyRegressor(strategy="median" if absolute else "mean")


def _take(X, columns):
    """Return some columns of ``X``; a column of zeros for none."""
    if not columns:
        return np.zeros((num_samples(X), 1))
    return safe_indexing(X, np.asarray(columns), axis=1)


def _cross_validated(setting, columns):
    """Return scores of training records, or of folds where the metric is no mean."""
    mean = setting.metric.is_mean
    scores = np.full(num_samples(setting.X) if mean else len(setting.folds), np.nan, np.float32)
    X = _take(setting.X, columns)
    for place, (train, test) in enumerate(setting.folds):
        params = check_method_params(setting.X, setting.fit_params, indices=train)
        part, labels = safe_indexing(X, train), safe_indexing(setting.y, train)
        model = _fit(setting, part, columns, labels, params)
        evaluation = setting.metric.evaluate(
            model, safe_indexing(X, test), safe_indexing(setting.y, test)
        )
        scores[test if mean else place] = evaluation.per_record if mean else evaluation.value
    return scores


@dataclass(frozen=True)
class PairedGain:
    """How much better one subset is than another on the training side, in units of [0, 1].

    Attributes
    ----------
    wins, losses : float
        Mean over records of what the first gains, and of what it loses; NaN for metrics that are
        no mean over records.
    gain : float
        Difference of the two scores.
    error : float
        Its standard error.
    folds : int or None
        Folds behind the standard error where records cannot be paired.
    """

    wins: float
    losses: float
    gain: float
    error: float
    folds: int | None = None

    def chance(self, n_candidates, level):
        r"""Return the gain that the best of ``n_candidates`` useless ones exceeds by chance.

        Bonferroni: :math:`z_{level/m}` standard errors, a t quantile where the error comes from a
        few folds.
        """
        tail = level / n_candidates
        quantile = -ndtri(tail) if self.folds is None else -stdtrit(self.folds - 1, tail)
        return float(quantile * self.error)


def paired_gain(first, second, *, is_mean, n_effective):
    """Return the :class:`PairedGain` of the scores ``first`` over ``second``.

    Parameters
    ----------
    first, second : ndarray
        Cross-validated scores of the same records, or of the same folds.
    is_mean : bool
        Whether they are scores of records.
    n_effective : float
        Effective number of training records.

    Returns
    -------
    PairedGain
        With a standard error that pretends one more record changed sides, so that a few lucky
        records are no certainty.
    """
    difference = first.astype(float) - second.astype(float)
    difference = difference[np.isfinite(difference)]
    count, gain = difference.size, float(difference.mean())
    if not is_mean:
        if count < 2:
            return PairedGain(math.nan, math.nan, gain, math.inf, folds=2)
        error = float(difference.std(ddof=1)) / math.sqrt(count)
        return PairedGain(math.nan, math.nan, gain, error, folds=count)
    variance = float(np.mean(difference**2)) - gain**2 + 1.0 / count
    return PairedGain(
        wins=float(np.maximum(difference, 0.0).mean()),
        losses=float(np.maximum(-difference, 0.0).mean()),
        gain=gain,
        error=math.sqrt(variance / min(count, n_effective)),
    )
