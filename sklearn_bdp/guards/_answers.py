"""Answers: of other accounts about the same records, and of a score that is not what it seems.

An account in memory knows nothing of others: whoever makes a new one of records that were asked
about starts from nothing, and its intervals with it. Records are known here by their targets, in
their order, which stay when features are added, chosen or transformed.
"""

from __future__ import annotations

import dataclasses
import math
import multiprocessing
from typing import Any

import numpy as np

from sklearn_bdp import exceptions
from sklearn_bdp._digests import data_digest
from sklearn_bdp._process import ANSWERED
from sklearn_bdp._sklearn_compat import inside_validation, num_samples
from sklearn_bdp.accounting import score_tail
from sklearn_bdp.correlation import Groups, Independent
from sklearn_bdp.guards._guard import Guard

#: Part of its range that an interval covers to say nothing.
ALL = 0.9
#: Targets below which equal ones may well be those of other records.
_FEWEST = 20
#: Standard errors by which a cross-validated score may exceed its expectation by chance. The
#: interval holds the true score of all candidates with probability ``1 - beta``, so a false alarm
#: needs a cross-validated score of the chosen one that is so far too high: 1 in 740 for one
#: candidate, and about what the best of 400 equal ones reaches.
CHANCE = 3.0
ANOTHER = Guard(
    "another account",
    "arguments",
    "when a holdout in memory is made",
    "Queries about these targets were answered before in this process, by another account. The "
    "intervals of both are not valid together. Pass holdout=search.holdout_ on, with "
    "X[search.train_indices_], or give both one ledger.",
    exceptions.AnotherAccountWarning,
)
WIDE = Guard(
    "wide interval",
    "released values",
    "after the holdout answered",
    "{measured} of {of} is {score:.3g}, but its interval from {low:.3g} to {high:.3g} covers "
    "{share:.0%} of the range. Bring more than {count:,} holdout {units}, verify fewer candidates, "
    "or score a mean over records (scoring='accuracy' or 'neg_brier_score').",
    exceptions.VacuousGuaranteeWarning,
)
FALLEN = Guard(
    "fallen score",
    "released values",
    "after the holdout answered",
    "{measured} of {of} is {training:.3g} in cross-validation and {score:.3g} verified, with the "
    "interval from {low:.3g} to {high:.3g}. Chance does not explain the fall. Check that holdout "
    "records are complete, as each that the model cannot predict gets the worst score, that folds "
    "do not share patients, places or time, and that features do not know the target.",
    exceptions.FallenScoreWarning,
)
CLIPPED = Guard(
    "clipped score",
    "training set",
    "before the holdout is asked, or with its first answer",
    "{measured} differs from {name}: {of} is beyond the limit on {n_clipped:,} of {n:,} training "
    "records and scores {clipped:.4g} clipped, {plain:.4g} plain. Answers and intervals are about "
    "the clipped score. If the plain score matters: {remedy}.",
    exceptions.ClippedScoreWarning,
)
DEFAULT_METRIC = Guard(
    "default metric",
    "arguments",
    "when scoring is left out",
    "{note}.",
    exceptions.DefaultMetricWarning,
)


def forget_accounts() -> None:
    """Forget what was answered, as a new process would."""
    ANSWERED.clear()


def targets_digest(X: Any, y: Any) -> str | None:
    """Return what targets are known by; None where they say too little.

    Targets that are sorted (or all the same) may be those of any table of that size: there the
    features count, too. Nothing is known of the fits of a search or cross-validation, which are
    tested from outside, nor in workers.
    """
    if num_samples(y) < _FEWEST or multiprocessing.parent_process() or inside_validation():
        return None
    labels = np.asarray(y)
    labels = labels.astype(float) if labels.dtype.kind in "biu" else labels
    repeats = (labels[1:] == labels[:-1]).any()
    return data_digest(X, labels) if repeats and in_runs(labels) else data_digest(labels)


def in_runs(labels: Any) -> bool:
    """Return whether equal labels stand together: the order of the rows says nothing."""
    runs = 1 + np.count_nonzero(labels[1:] != labels[:-1])
    return bool(runs == np.unique(labels).size)


def share_of(metric, interval):
    """Return the part of the range that an interval covers."""
    return (interval[1] - interval[0]) / (metric.upper - metric.lower)


def warn_of_choice(holdout, metric, division, *, of, score, interval, training, clipping=None):
    """Warn where hardly anything is known of what was chosen, or its score is not what it seems.

    Everything here is released or of the training side. Of a holdout that is too small, or of few
    groups, it was said before.
    """
    warn_clipped(metric, clipping, of)
    model, share, (low, high) = holdout.model, share_of(metric, interval), interval
    known = {"measured": metric.measured, "of": of, "score": score, "low": low, "high": high}
    if training - CHANCE * _training_error(division, metric, training) > high:
        FALLEN.warn(training=training, **known)
    warned = holdout.is_small or (isinstance(model, Groups) and not model.is_independent)
    if not math.isfinite(score) or share < ALL or warned:
        return
    count, units = model.units(holdout.n)
    WIDE.warn(share=min(1.0, share), count=count, units=units, **known)


def _training_error(division, metric, training):
    """Return the standard error of a cross-validated score, in score units."""
    if not math.isfinite(training):  # of training records themselves: nothing is compared
        return math.nan
    n, span = num_samples(division.X), metric.upper - metric.lower
    model = Independent() if division.train_model is None else division.train_model
    tail = score_tail(model, n, **dataclasses.asdict(metric.expected_shape(n)))
    return span * float(tail.standard_deviation(min(1.0, max(0.0, metric.to_unit(training)))))


def warn_clipped(metric, clipping, of):
    """Say what clipping changes on the training side, and what to do; return whether it does."""
    if clipping is None or not clipping.bites:
        return False
    CLIPPED.warn(
        measured=metric.measured, name=metric.name, of=of, n_clipped=clipping.n_clipped,
        n=clipping.n, clipped=clipping.clipped / clipping.n, plain=clipping.plain / clipping.n,
        remedy=metric.remedy,
    )  # fmt: skip
    return True
