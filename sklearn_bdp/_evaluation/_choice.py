"""What a search or a selection says of its choice: its certificate."""

import contextlib
import math
import warnings
from dataclasses import replace

from sklearn_bdp._evaluation._candidates import Candidate, cross_validated
from sklearn_bdp._evaluation._opening import assumed
from sklearn_bdp._sklearn_compat import num_samples
from sklearn_bdp.guards import ALL, share_of
from sklearn_bdp.holdout import as_last_seen

_GOALS = (0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001)


@as_last_seen()  # the batch was written just now
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
    if metric.is_mean and share_of(metric, interval) < ALL:
        # It may be known how little scores vary (theory G15).
        width = min(width, 0.5 * share_of(metric, interval))
    goals, advice = [goal for goal in _GOALS if goal <= 0.8 * width], ""
    # All parts of an interval shrink like 1 / sqrt(n), unless it ends where the range does.
    if goals and certificate.advice and 2.0 * width < ALL:
        count, name = holdout.model.units(holdout.n)
        more = math.ceil(count * (width / goals[0]) ** 2) - count
        span = metric.upper - metric.lower
        advice = f"about {more:,} more {name} give ± {goals[0] * span:.3g}"
    return fields | {"outlook": (width, advice)}


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
