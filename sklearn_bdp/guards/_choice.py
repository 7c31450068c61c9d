"""Where the score of what was chosen is not what it seems: hardly known, or clipped."""

import math

from sklearn_bdp.correlation import Groups
from sklearn_bdp.exceptions import (
    ClippedScoreWarning,
    DefaultMetricWarning,
    VacuousGuaranteeWarning,
)
from sklearn_bdp.guards._guard import Guard

#: Part of its range that an interval covers to say nothing.
ALL = 0.9
WIDE = Guard(
    "wide interval",
    "released values",
    "after the holdout answered",
    "{measured} of {of} is {score:.3g}, but its interval from {low:.3g} to {high:.3g} covers "
    "{share:.0%} of the range. Bring more than {count:,} holdout {units}, or {instead}.",
    VacuousGuaranteeWarning,
)
CLIPPED = Guard(
    "clipped score",
    "training set",
    "before the holdout is asked, or with its first answer",
    "{measured} differs from {name}: {of} is beyond the limit on {n_clipped:,} of {n:,} training "
    "records and scores {clipped:.4g} clipped, {plain:.4g} plain. Answers and intervals are about "
    "the clipped score. If the plain score matters: {remedy}.",
    ClippedScoreWarning,
)


DEFAULT = Guard(
    "default metric",
    "arguments",
    "when scoring is left out, once in a process",
    "{note}.",
    DefaultMetricWarning,
)


def warn_default(metric):
    """Say which metric was chosen for a caller who named none."""
    if metric.note:
        DEFAULT.warn_once(metric.name, note=metric.note)


def share_of(metric, interval):
    """Return the part of the range that an interval covers."""
    return (interval[1] - interval[0]) / (metric.upper - metric.lower)


def warn_of_choice(holdout, metric, *, of, score, interval, clipping=None):
    """Warn where hardly anything is known of what was chosen, or its score is not what it seems.

    Everything here is released or of the training side. Of a holdout that is too small, or of few
    groups, it was said before.
    """
    warn_clipped(metric, clipping, of)
    model, share = holdout.model, share_of(metric, interval)
    told = holdout._is_small or (isinstance(model, Groups) and not model.is_independent)
    if not math.isfinite(score) or share < ALL or told:
        return
    count, units = model.units(holdout.n)
    instead = "score a mean over records (scoring='accuracy' or 'neg_brier_score')"
    if metric.is_mean:
        instead = "give narrower bounds=" if metric.caveat else "verify fewer candidates"
    low, high = interval
    WIDE.warn(
        measured=metric.measured, share=min(1.0, share), of=of, score=score, low=low, high=high,
        count=count, units=units, instead=instead,
    )  # fmt: skip


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
