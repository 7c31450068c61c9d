"""The strength of dependence in time, read off training-side scores (theory G11)."""

import itertools
import math
from dataclasses import dataclass, field, replace

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone

from sklearn_bdp._evaluation._candidates import Candidate, Setting, evaluate
from sklearn_bdp._evaluation._failures import cause_of
from sklearn_bdp._evaluation._scoring import MEANS
from sklearn_bdp._sklearn_compat import check_method_params, num_samples, safe_indexing
from sklearn_bdp.correlation import MarkovChain
from sklearn_bdp.exceptions import UnboundedMetricError
from sklearn_bdp.guards import check_sorted, compare_dependence

#: Candidates whose scores the strength is read off; more are thinned out evenly.
MOST_CANDIDATES = 12

#: Share of the history next to the holdout that is left out of it: the gap is not yet known.
ROOM = 0.1


@dataclass(frozen=True)
class Pilot:
    """What reads the strength of dependence off the training side (theory G11)."""

    estimator: object  # cloned for each fit
    metric: object  # from training targets to the bounded metric
    #: Parameters of the candidates of the first search.
    candidates: list = field(default_factory=lambda: [{}])
    #: What goes to ``fit``, for all records.
    fit_params: dict = field(default_factory=dict, repr=False)
    n_jobs: int | None = None  # workers


def history_of(X, holdout_size):
    """Return the places of the records the strength is read off: those before holdout and gap.

    ``holdout_size``: records at the end that become the holdout; 0 if it is given apart.
    """
    check_sorted(X)
    before = num_samples(X) - holdout_size
    return np.arange(before - (math.ceil(ROOM * before) if holdout_size else 0))


def learned_chain(pilot, X, y, history, *, horizon):
    """Return the chain whose strength the candidates' scores show: an assumption (theory G11)."""
    part, targets = safe_indexing(X, history), safe_indexing(y, history)
    metric = pilot.metric(targets)
    if not metric.is_mean:
        raise UnboundedMetricError(
            f"scoring={metric.name!r} is no mean over records, and dependence in time is bounded "
            f"for means only. Use {MEANS}."
        )
    places = np.linspace(0, len(pilot.candidates) - 1, MOST_CANDIDATES).round().astype(int)
    chosen = [pilot.candidates[place] for place in np.unique(places)]
    setting = Setting(
        estimator=clone(pilot.estimator),
        X=part,
        y=targets,
        X_holdout=None,
        y_holdout=None,
        metric=metric,
        fit_params=check_method_params(X, pilot.fit_params, indices=history),
        training="cv",
        folds=_blocks(len(history)),
    )
    outcomes = Parallel(n_jobs=pilot.n_jobs)(
        delayed(evaluate)(setting, Candidate(params), training=True, holdout=False, keyed=False)
        for params in chosen
    )
    scores = [outcome.scores for outcome in outcomes if outcome.scores is not None]
    if not scores:
        error = outcomes[0].error
        raise ValueError(
            f"all {len(outcomes)} candidates failed in cross-validation: {cause_of([error])}\n"
            "correlation='time' reads the strength of dependence off their scores; nothing was "
            f"asked of the holdout. The first one said:\n{error}"
        )
    return MarkovChain.from_scores(np.stack(scores), horizon=horizon)


def _blocks(n, n_splits=5):
    """Return contiguous folds, a hundredth of the records dropped at either side of a test."""
    gap, position = n // 100, np.arange(n)
    edges = [n * k // n_splits for k in range(n_splits + 1)]
    return [
        (position[(position < low - gap) | (position >= high + gap)], position[low:high])
        for low, high in itertools.pairwise(edges)
        if high > low
    ]


def check_dependence(division, setting, params, *, folds, groups=None, known=None):
    """Compare training-side scores of a candidate with the declared correlation; warn once."""

    def score(metric, folds):
        own = replace(setting, metric=metric, training="cv", folds=folds, error_score=math.nan)
        found = evaluate(own, Candidate(params), training=True, holdout=False, keyed=False)
        return None if found.scores is None else found.scores.astype(float)

    return compare_dependence(
        division, setting.estimator, setting.metric, score, folds=folds, groups=groups, known=known
    )
