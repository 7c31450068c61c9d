"""Where the score of what was chosen is not what it seems: hardly known, or clipped."""

import math
import warnings
from dataclasses import asdict

from sklearn_bdp._checks import caller_level
from sklearn_bdp.accounting import score_tail
from sklearn_bdp.correlation import Groups
from sklearn_bdp.exceptions import ClippedScoreWarning, VacuousGuaranteeWarning

#: Part of its range that an interval covers to say nothing.
ALL = 0.9
#: What a score should be known to, as a part of its range, where it is not known at all.
_USEFUL = 0.1


def share_of(metric, interval):
    """Return the part of the range that an interval covers."""
    return (interval[1] - interval[0]) / (metric.upper - metric.lower)


def warn_of_choice(holdout, metric, *, of, score, interval, clipping=None):
    """Warn where hardly anything is known of what was chosen, or its score is not what it seems.

    Everything here is released or of the training side. Of a holdout that is too small, or of few
    groups, it was said before.
    """
    warn_clipped(metric, clipping, of)
    model = holdout.model
    told = holdout._is_small or (isinstance(model, Groups) and not model.is_independent)
    if math.isfinite(score) and share_of(metric, interval) >= ALL and not told:
        warnings.warn(
            _vacuous(holdout, metric, of, score, interval),
            VacuousGuaranteeWarning,
            stacklevel=caller_level(),
        )


def warn_clipped(metric, clipping, of):
    """Say what clipping changes on the training side, and what to do; return whether it does."""
    if clipping is None or not clipping.bites:
        return False
    clipped, plain = clipping.clipped / clipping.n, clipping.plain / clipping.n
    warnings.warn(
        f"{metric.measured} is not {metric.name} here: {of} is beyond the limit on "
        f"{clipping.n_clipped:,} of {clipping.n:,} training-side records "
        f"({clipping.n_clipped / clipping.n:.1%}), and scores {clipped:.4g} clipped, {plain:.4g} "
        "plain. The holdout's answers and intervals speak of the clipped score; "
        f"{metric.remedy}.",
        ClippedScoreWarning,
        stacklevel=caller_level(),
    )
    return True


def _vacuous(holdout, metric, of, score, interval):
    """Return the words for an interval that says nothing."""
    count, name = holdout.model.units(holdout.n)
    enough = _enough(holdout, metric, score)
    more = f"about {enough:,} {name} would tell it to ±" if enough else "more of them, or"
    if enough:
        more += f"{_USEFUL * (metric.upper - metric.lower):.3g}; or"
    if metric.is_mean:
        other = "a metric of a smaller range, or bounds= of one that clips" * bool(metric.caveat)
        other = other or "a less noisy holdout (epsilon='auto') or fewer questions"
    else:
        other = "a mean over records (scoring='accuracy' or 'neg_brier_score')"
    return (
        f"{metric.measured} of {of} is {score:.3g}, but {count:,} holdout {name} say next to "
        f"nothing of it: its interval from {interval[0]:.3g} to {interval[1]:.3g} covers "
        f"{min(1.0, share_of(metric, interval)):.0%} of its range. What helps: {more} {other}."
    )


def _enough(holdout, metric, score):
    """Return how many units would tell a score usefully, or None where no formula says so."""
    count, unit = holdout.model.units(holdout.n)[0], metric.to_unit(score)
    if metric.is_mean:
        width = holdout.preview(1, score=unit).half_width
        return math.ceil(count * (max(width, _USEFUL) / _USEFUL) ** 2)
    if metric.expected_shape(holdout.n).class_counts is None or not holdout.model.is_independent:
        return None
    level = math.log(holdout.beta / 2.0) - holdout.information_spent
    for step in range(1, 41):
        n = math.ceil(holdout.n * 2.0 ** (step / 4.0))
        tail = score_tail(holdout.model, n, **asdict(metric.expected_shape(n)))
        if unit - float(tail.lower_limit(unit, level)) < _USEFUL:
            return n
    return None
