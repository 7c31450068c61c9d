"""What is asked around a batch: checks and shares of classes before it, squares after it.

Scores by class need floors under the counts of their classes (theory G20). The mechanism is asked
for each share before the batch that needs it; what it said is recorded with the batch and used by
all later ones. Of patients with several visits, slices with one visit each are scored, drawn by a
secret seed (G19). Of whoever leads, the mechanism is asked afterwards how much its scores vary
(G15, G18).
"""

from __future__ import annotations

import dataclasses
import datetime
import json
import math
from typing import Any

import numpy as np

from sklearn_bdp._checks import sealed_errors
from sklearn_bdp.accounting import (
    check_length,
    class_floors,
    plan_squares,
    score_tail,
    share_cells,
    shares_needed,
)
from sklearn_bdp.guards import ANEW, FINDINGS
from sklearn_bdp.holdout._settings import margins


@sealed_errors
def check_overlap(holdout: Any, side: Any, *, explicit: bool = False) -> str:
    """Compare a training side with a holdout; return what has to be true besides, or nothing.

    ``explicit``: rows beyond those of a drawn split are compared in place of being refused. What is
    known costs nothing; a word is charged, recorded, then said.
    """
    known = holdout.account.known
    said = known.said_of(side, explicit=explicit)
    if said is not None:
        return said
    word = _recorded_finding(holdout, side)
    if word in ("rows", "labels"):
        raise FINDINGS[word].error()
    known.add(side)
    if word is not None:
        FINDINGS[word].warn()
    return ANEW if word == "groups" else ""


def _recorded_finding(holdout, side):
    """Return the word of a check: recorded before, or found and charged now."""
    settings, of = holdout.account.settings, side.digest
    if settings.information is not None or settings.tau is not None:
        return None  # an exact word has no finite level of privacy: the check is not made
    with holdout.account.writing() as transaction:
        last, before = transaction.last, transaction.checks()
        if last.closed:  # nothing is asked any more
            return None
        for check in before:
            if check["of"] == of:
                return check["word"]
        word = side.finding(holdout.X, holdout.y, holdout.model, rows=not holdout.allow_shared_rows)
        length = check_length(
            n_checks=len(before),
            n_complaints=sum(check["word"] is not None for check in before),
            complaint=word is not None,
            n_words=len(FINDINGS),
        )
        after = dataclasses.replace(
            last,
            time=datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds"),
            size=0,
            released=last.released + length,
            dp_epsilon=None,  # no finite level of privacy holds from now on
            checks={"of": of, "word": word},
        )
        transaction.append(after)
    return word


MOST = 16  # queries of a batch whose squares are asked
#: Slices of one record per group: more make scores less noisy, and cost time.
N_SLICES = 64


def ask_shares(batch, terms):
    """Ask the shares of classes that a batch needs and that nobody asked before.

    Returns the batch with its values, tails and sensitivities, and the terms with what was
    released for it; ``(None, terms)`` where the budget does not suffice.
    """
    by_class = [
        shape["kind"] in ("pairs", "class_means") and shape["class_floors"] is None
        for shape in batch.shapes
    ]
    shapes = {int(index) for index in batch.tail_of if by_class[index]}
    if not shapes:
        return batch, terms
    asked = _ClassShares(terms)
    for index in sorted(shapes):
        example = next(
            rows for rows, of in zip(batch.by_class, batch.tail_of, strict=True) if of == index
        )
        if not asked.settle(batch.shapes[index], example):
            return None, terms
    # The scores are divided by counts that are known by now.
    n, found = terms.settings.n, list(batch.shapes)
    values, sensitivities, tails = batch.values.copy(), batch.sensitivities.copy(), [*batch.tails]
    for index in shapes:
        floors = asked.floors(found[index])
        found[index] = found[index] | {"class_floors": floors}
        tails[index] = score_tail(terms.model, n, **found[index])
        for place in np.flatnonzero(batch.tail_of == index):
            rows = batch.by_class[place]
            values[place] = min(1.0, max(0.0, rows.value(floors, asked.slices)))
            sensitivities[place] = max(1.0, n * rows.sensitivity(floors))
    batch = dataclasses.replace(
        batch, values=values, sensitivities=sensitivities, shapes=tuple(found), tails=tuple(tails)
    )
    return batch, dataclasses.replace(terms, last=asked.last)


class _ClassShares:
    """What is known of shares while a batch asks for them."""

    def __init__(self, terms):
        self.last, self.mechanism, self.settings = terms.last, terms.mechanism, terms.settings
        self.model, self.slices = terms.model, None
        if not self.model.is_independent:
            self.slices = one_of_each_group(self.model, self.settings.n, terms.seed)
        self.units = self.settings.n if self.slices is None else self.slices.shape[1]

    def settle(self, shape, rows):
        """Ask for the shares of one set of classes; return whether the budget sufficed."""
        sliced, n_classes = self.slices is not None, len(shape["classes"])
        needed = shares_needed(n_classes, shape["counted"], sliced=sliced)
        new = [one for one in needed if _name(shape, one) not in self.last.shares]
        budget = self.mechanism.remaining_budget
        if budget is not None and budget <= len(new):  # one is left for the batch
            return False
        cells = share_cells(
            shape["class_counts"], n_classes, self.model, self.settings.n, shape["inside"]
        )
        counts, names = rows.least_counts(n_classes, self.slices), [_name(shape, c) for c in (0, 1)]
        for one in new:
            asked = cells[one]
            if n_classes == 2 and names[1 - one] in self.last.shares:
                asked = cells[1 - one].of_other(*self.last.shares[names[1 - one]][1:])
            self._ask(_name(shape, one), asked, float(counts[one]) / self.units)
        return True

    def _ask(self, name, cells, share):
        low, high = cells.ends(None)
        unit = self.settings.n / self.units  # one record is one unit of a slice
        run = self.mechanism.answer_run(
            np.array([0.5 * (low + high) / unit]),
            np.array([share / unit]),
            thresholds=np.array([0.5 * (high - low) / unit]),
        )
        cell, (margin, above) = None, margins(self.settings, self.last.n_rounds)
        if run.above[0]:
            cell, margin = cells.place(float(run.values[0]) * unit), above
            low, high = cells.ends(cell)
        ends = [cell, max(0.0, low - margin * unit), min(1.0, high + margin * unit)]
        self.last = dataclasses.replace(
            self.last,
            n_rounds=self.last.n_rounds + int(cell is not None),
            released=self.last.released + cells.price(cell),
            shares=self.last.shares | {name: ends},
        )

    def floors(self, shape):
        """Return the least counts of all classes of a shape."""
        sliced, n_classes = self.slices is not None, len(shape["classes"])
        needed = shares_needed(n_classes, shape["counted"], sliced=sliced)
        ends = {one: tuple(self.last.shares[_name(shape, one)][1:]) for one in needed}
        return class_floors(ends, self.units, n_classes, sliced=sliced)


def _name(shape, one):
    """Return the name under which the share of a class is recorded: with the set it is one of."""
    return json.dumps([one, *shape["classes"]])


def with_prevalence(metric, prevalence, shares, n):
    """Return a metric of two classes with a share of positive records, and where that is from.

    ``shares``: those that the holdout was asked for. By default 1/2.
    """
    if metric.is_mean or (prevalence is None and metric.class_counts):
        return metric, ""
    note = ""
    if prevalence is None:
        known = [ends for name, (_, *ends) in shares.items() if len(json.loads(name)) == 3]
        prevalence = 0.5 * sum(known[-1]) if known else 0.5
        source = "as recorded" if known else "assumed"
        note = f" The share of positive records is {prevalence:.3g}, {source} (see prevalence=)."
    counts = (max(1, round(n * (1.0 - prevalence))), max(1, round(n * prevalence)))
    return dataclasses.replace(metric, classes=(0, 1), class_counts=counts), note


def one_of_each_group(model, n, seed):
    """Return slices of one record per group, chosen at random: positions, a row for each slice."""
    _, group = np.unique(model.components(n), return_inverse=True)
    order, sizes = np.argsort(group, kind="stable"), np.bincount(group)
    starts = np.cumsum(sizes) - sizes
    chosen = np.random.default_rng(seed).random((N_SLICES, sizes.size))
    return order[starts + np.floor(chosen * sizes).astype(int)]


@dataclasses.dataclass(frozen=True)
class Squares:
    """What a batch released about squared deviations."""

    plan: object  # fixed before the batch; None: nothing is known to vary little
    cells: list  # position in the batch and the first level that held
    known: dict  # upper limits of mean squared deviations, noise margins included, by position
    released: float  # nats
    n_above: int  # levels that did not hold

    def limits(self, batch, least, most, log_failure):
        """Return the better of plain limits and of limits by squares; each has its share."""
        if self.plan is None:
            return batch.limits(least, most, log_failure)
        plain, _ = self.plan.shares
        lower, upper = batch.limits(least, most, log_failure + plain)
        side = log_failure - math.log(2.0)
        sharper, below = self.plan.limits(least, most, side, self.known)
        return np.maximum(lower, sharper), np.minimum(upper, below)


def planned(batch, terms, log_failure):
    """Return the plan of a batch, or None where no variance is of use; nothing was asked yet."""
    code, settings = terms.code, terms.settings
    if not settings.races or not np.isfinite(batch.variances).any():
        return None
    code.expect(batch.training_values)  # as the race will, which changes nothing twice
    centers = batch.training_values
    if batch.own_cells is None:
        centers, _ = code.predict(batch.training_values)
    plan = plan_squares(
        centers,
        batch.variances,
        training_sizes=batch.training_sizes * batch.units.count / settings.n,
        units=batch.units,
        log_failure=log_failure,
    )
    return plan if plan.eligible.any() else None


def asked_finely(plan, batch, outcome):
    """Return the positions of a race whose squares are worth a question, the leader first."""
    if plan is None:
        return []
    leads = outcome.answered & ~batch.secondary
    first = int(np.argmax(np.where(leads, outcome.values, -np.inf)))
    fine = [first, *(place for place, _ in reversed(outcome.fine + outcome.first))]
    if batch.own_cells is not None:
        fine = np.argsort(-batch.training_values, kind="stable").tolist()
    return [p for p in dict.fromkeys(fine) if plan.eligible[p] and outcome.answered[p]][:MOST]


def ask_squares(plan, batch, positions, terms, n_rounds):
    """Ask the mechanism how much the scores of some queries vary; a race knows no budget."""
    mechanism, settings = terms.mechanism, terms.settings
    deviations = None if plan is None else plan.deviations(batch.squares)
    unit = max(1.0, settings.n * batch.units.sensitivity)
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
