"""What a search or a selection says of its choice: its certificate, and where it misleads."""

import contextlib
import math
import warnings
from dataclasses import asdict, replace

from sklearn_bdp._checks import caller_level
from sklearn_bdp._evaluation._candidates import Candidate, cross_validated
from sklearn_bdp._evaluation._opening import assumed
from sklearn_bdp._sklearn_compat import num_samples
from sklearn_bdp.accounting import score_tail
from sklearn_bdp.correlation import Groups
from sklearn_bdp.exceptions import VacuousGuaranteeWarning

#: Part of its range that an interval covers to say nothing.
_ALL = 0.9
#: What a score should be known to, as a part of its range, where it is not known at all.
_USEFUL = 0.1
_GOALS = (0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001)


def certified(holdout, division, metric, *, of, score, interval, notes=(), assumptions=()):
    """Return the certificate of a holdout, led by the score of what was chosen.

    ``of``: what was chosen, in words; ``score`` and ``interval`` in score units.
    """
    certificate = holdout.certificate().in_units(metric.measured, metric.lower, metric.upper)
    caveat = (metric.caveat,) if metric.caveat else ()
    return replace(
        certificate,
        chosen=(f"{metric.measured} of {of}", score, *interval),
        assumptions=(*certificate.assumptions, *assumed(holdout, division), *assumptions),
        notes=(*certificate.notes, *caveat, *notes),
        **outlook(
            certificate, holdout, metric, score, interval, training_size=num_samples(division.X)
        ),
    )


def outlook(certificate, holdout, metric, score, interval, *, training_size):
    """Return the fields of a certificate that speak of one more question."""
    if certificate.next_error is None:
        return {}
    asked = {"scoring": metric, "training_size": training_size}
    fields = {}
    if not metric.is_mean:
        # The holdout speaks of means over records, which are known better than scores by class.
        width = holdout.preview(**asked).half_width
        fields = {"next_error": width, "tau": max(certificate.tau, width), "advice": ()}
    if not math.isfinite(score):
        return fields
    width = holdout.preview(score=metric.to_unit(score), **asked).half_width
    if metric.is_mean and _share(metric, interval) < _ALL:
        # It may be known how little scores vary (theory G15).
        width = min(width, 0.5 * _share(metric, interval))
    goals, advice = [goal for goal in _GOALS if goal <= 0.8 * width], ""
    # All parts of an interval shrink like 1 / sqrt(n), unless it ends where the range does.
    if goals and certificate.advice and 2.0 * width < _ALL:
        count, name = holdout.model.units(holdout.n)
        more = math.ceil(count * (width / goals[0]) ** 2) - count
        span = metric.upper - metric.lower
        advice = f"about {more:,} more {name} give ± {goals[0] * span:.3g}"
    return fields | {"outlook": (width, advice)}


def _share(metric, interval):
    """Return the part of the range that an interval covers."""
    return (interval[1] - interval[0]) / (metric.upper - metric.lower)


def clipping_of(setting, columns):
    """Return what clipping changes on the folds for a model of some columns; None where none is.

    Nothing is fitted for a metric that does not clip.
    """
    if not setting.metric.caveat or not len(columns):
        return None
    with warnings.catch_warnings(), contextlib.suppress(Exception):  # told when it was scored
        warnings.simplefilter("ignore")
        return cross_validated(setting, Candidate(columns=tuple(map(int, columns))))[1]
    return None


def warn_of_choice(holdout, metric, *, of, score, interval, clipping=None):
    """Warn where hardly anything is known of what was chosen, or its score is not what it seems.

    Everything here is released or of the training side. Of a holdout that is too small, or of few
    groups, it was said before.
    """
    warn_clipped(metric, clipping, of)
    model = holdout.model
    told = holdout._is_small or (isinstance(model, Groups) and not model.is_independent)
    if math.isfinite(score) and _share(metric, interval) >= _ALL and not told:
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
        UserWarning,
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
        f"{min(1.0, _share(metric, interval)):.0%} of its range. What helps: {more} {other}."
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
