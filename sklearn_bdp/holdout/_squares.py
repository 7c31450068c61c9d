"""One more question about whoever leads: how much its scores vary on the holdout (theory G15)."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from sklearn_bdp.accounting import plan_squares
from sklearn_bdp.holdout._settings import margins

MOST = 16  # queries of a batch whose squares are asked


@dataclasses.dataclass(frozen=True)
class Squares:
    """What a batch released about squared deviations."""

    plan: object  # fixed before the batch; None: nothing is known to vary little
    cells: list  # position in the batch and the first level that held
    known: dict  # upper limits of mean squared deviations, noise margins included, by position
    released: float  # nats
    n_above: int  # levels that did not hold

    def limits(self, queries, least, most, log_failure):
        """Return the better of plain limits and of limits by squares; each has its share."""
        if self.plan is None:
            return queries.limits(least, most, log_failure)
        plain, _ = self.plan.shares
        lower, upper = queries.limits(least, most, log_failure + plain)
        side = log_failure - math.log(2.0)
        sharper, below = self.plan.limits(least, most, side, self.known)
        return np.maximum(lower, sharper), np.minimum(upper, below)


def planned(queries, code, settings, log_failure):
    """Return the plan of a batch, or None where no variance is of use; nothing was asked yet."""
    if not settings.races or not np.isfinite(queries.variances).any():
        return None
    code.expect(queries.training_values)  # as the race will, which changes nothing twice
    centers = queries.training_values
    if queries.halves is None:
        centers, _ = code.predict(queries.training_values)
    plan = plan_squares(
        centers,
        queries.variances,
        training_sizes=queries.training_sizes * queries.units.count / settings.n,
        units=queries.units,
        log_failure=log_failure,
    )
    return plan if plan.eligible.any() else None


def asked_finely(plan, queries, outcome):
    """Return the positions of a race whose squares are worth a question, the leader first."""
    if plan is None:
        return []
    leads = outcome.answered & ~queries.beside
    first = int(np.argmax(np.where(leads, outcome.values, -np.inf)))
    fine = [first, *(place for place, _ in reversed(outcome.fine + outcome.first))]
    if queries.halves is not None:
        fine = np.argsort(-queries.training_values, kind="stable").tolist()
    return [p for p in dict.fromkeys(fine) if plan.eligible[p] and outcome.answered[p]][:MOST]


def ask_squares(plan, queries, positions, mechanism, settings, n_rounds):
    """Ask the mechanism how much the scores of some queries vary; a race knows no budget."""
    deviations = None if plan is None else plan.deviations(queries.squares)
    unit = max(1.0, settings.n * queries.units.sensitivity)
    cells, known, released, n_above = [], {}, 0.0, 0
    for place in positions:
        found = None
        for level, limit in enumerate(plan.levels[place]):
            run = mechanism.answer_run(
                np.zeros(1),
                deviations[place : place + 1] / unit,
                thresholds=np.array([limit / unit]),
            )
            if not run.above[0]:
                found = level
                margin = unit * margins(settings, n_rounds + n_above)[0]
                known[place] = min(1.0, float(limit) + margin)
                break
            n_above += 1
        cells.append([place, found])
        released += plan.price(found)
    return Squares(plan, cells, known, released, n_above)
