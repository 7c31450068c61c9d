"""Rows of a final report, computed from the closed holdout: proven limits and approximate ones.

Nothing here may raise: a row that cannot be computed says so.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from sklearn_bdp.accounting import (
    SKILL,
    ModelTail,
    approximate_row,
    order_free_limits,
    score_tail,
    share_limits,
    star_limits,
)
from sklearn_bdp.holdout._batch import ask_shares
from sklearn_bdp.holdout._certificate import target_of
from sklearn_bdp.holdout._in_time import calendar, past_row
from sklearn_bdp.holdout._inputs import make_batch
from sklearn_bdp.holdout._measures import Records, is_label, reads
from sklearn_bdp.holdout._plan import BETS, CLASSES, COUNTS, FREE, PAST, TAIL, Plan, Statement

LONG_RUN = "the long run of the same process"


class Rows:
    """All rows of a plan, read from the closed holdout.

    Units were drawn independently, in a secret order that never changes (theory G28); ``seed``:
    secret, drawn with it.
    """

    def __init__(self, plan: Plan, holdout: Any, seed: int) -> None:
        self.plan, self.model, n = plan, holdout.model, holdout.n
        self.records = Records(holdout.X, holdout.y, plan.models)
        self.words = self.model.units(n)[1]  # what units are called
        self.times: float | None = None  # in time: how many independent records it is worth
        self.weights = np.ones(n)  # what a record counts
        rng = np.random.default_rng([seed, 1])  # slices have a stream of their own (theory G19)
        if plan.dependence in ("dependent", "past"):
            weights = self.model.record_weights(n)
            dates = getattr(self.model, "codes_", None)  # of a panel, in order
            self.units = np.arange(n) if dates is None else dates
            self.weights = self.weights if weights is None else n * weights
            if self.model.is_given_past:
                self.times = math.nan  # read off the scores
            else:  # weights of regimes that are seen are no units
                lasting = self.model.is_sequential and (weights is None or dates is not None)
                self.times = float(self.model.effective_n(n)) if lasting else 0.0
            return
        units = np.unique(self.model.components(n), return_inverse=True)[1]
        units = self.units = rng.permutation(int(units.max()) + 1)[units]
        sizes = np.bincount(units)
        if self.model.is_independent:
            self.words = "records"
        elif plan.per == "unit":
            self.weights = 1.0 / sizes[units]
        else:  # a larger group keeps so many records, drawn here
            order = np.lexsort((rng.random(n), units))
            place = np.empty(n)
            place[order] = np.arange(n) - (np.cumsum(sizes) - sizes)[units[order]]
            self.weights = (place < plan.bound).astype(float)

    @property
    def count(self) -> int:
        """Number of units."""
        return int(self.units.max()) + 1

    def totals(self, values: Any) -> Any:
        """Return the sums of records' values in each unit."""
        return np.bincount(self.units, self.weights * values, minlength=self.count)

    def means(self, values: Any) -> Any:
        """Return the mean of records' values on each date, which weigh equally."""
        return self.totals(values) * (self.count / len(self.units))

    def settled(self, terms: Any) -> tuple[Any, dict[int, Any]]:
        """Ask shares of classes where groups need them; return terms and settled batches by row.

        Of independent records the counts are read: given the labels, every bound holds with them.
        """
        found: dict[int, Any] = {}
        model, n = self.model, len(self.records.y)
        for place, one in enumerate(self.plan.statements):
            metric, asked = one.measure.metric, self.records.asked(one.models[0])
            if metric is None or one.proven != CLASSES:
                continue
            try:
                evaluation = metric.evaluate(*asked, self.records.y)
            except Exception:  # the row says so
                continue
            if evaluation.by_class is None or model.is_independent:
                found[place] = evaluation
                continue
            batch, terms = ask_shares(
                make_batch(n, model, [one.expected], evaluations=[evaluation]), terms
            )
            found[place] = batch
        return terms, found

    def row(
        self, one: Statement, *, proven: float, approximate: float, alone: float, by_class: Any
    ) -> Any:
        """Return a row in JSON; ``proven``, ``approximate``, ``alone``: failure probabilities."""
        row, notes, past = one.row(self.count), [], self.model.is_given_past
        row["method"] = row["method"] or f"approximate: leaving out {self.words}"
        if past:
            ahead = target_of(self.model, len(self.records.y), one.ahead)
            row["target"] = ahead if one.proven else LONG_RUN
        try:
            with np.errstate(all="ignore"):
                row |= self._counts(one) | {"value": self.value(one)}
                if one.proven:
                    ends = self.proven(one, proven, by_class)
                    once = self.proven(one, alone, by_class)
                    half, least = (0.5 * (high - low) for low, high in (ends, once))
                    row |= {"proven": _finite(ends), "parts": [least, half - least, 0.0]}
                if self.times == 0.0:
                    notes.append("An approximate row needs a declared chain (a long run).")
                elif one.ahead == 1:
                    found = self.approximate(one, approximate)
                    pair, said = _finite((found.lower, found.upper)), list(found.notes)
                    # A skill score has no lower end.
                    if pair is not None and one.measure.metric is not None and not one.skill:
                        _, low, high = one.ends
                        pair = [max(pair[0], low), min(pair[1], high)]
                        if pair == [low, high]:
                            pair, said = None, ["It would cover every possible value."]
                    row["approximate"] = pair
                    if pair is None and one.proven and said:
                        said[0] = f"No approximate interval: {said[0]}"
                    elif past and one.proven and pair is not None:
                        said.append(f"The approximate interval is about {LONG_RUN}.")
                    notes += said
        except Exception as error:
            notes = [f"It could not be computed ({type(error).__name__})."]
        if one.most < 1.0:
            most = one.most * (one.measure.span[1] - one.measure.span[0])
            notes.append(f"The proven interval counts differences beyond ±{most:.3g} as that.")
        notes += filter(None, [one.measure.note])
        for name in one.models:
            failing = self.records.failing.get(name, ())
            if len(failing):
                places = ", ".join(map(str, failing[:5])) + ", …" * (len(failing) > 5)
                notes.append(
                    f"{name} failed on {len(failing)} of {len(self.records.y)} holdout records "
                    f"(positions {places}). They count with the worst score."
                )
        if row["value"] is None or not math.isfinite(row["value"]):
            row["value"], notes = None, notes or ["The score is undefined for these records."]
        return row | {"notes": notes}

    def over_time(self, holdout: Any) -> tuple[Any, Any]:
        """Return the dates, and the score of each in the first row, in score units."""
        one, dates = self.plan.statements[0], calendar(holdout)
        low, high = one.measure.span
        scores = self.means(self.records.contributions(one.measure, one.models[0])[0])
        return np.arange(len(scores)) if dates is None else dates, low + (high - low) * scores

    # -- values ---------------------------------------------------------------------------------

    def _mask(self, part):
        """Return what each record counts in a subgroup; all of them without one."""
        return self.weights * (self.plan.masks[part] if part else 1.0)

    def value(self, one: Statement) -> float:
        """Return what is reported, in score units."""
        if one.skill:
            losses = [self.weights @ self.records.loss(one.measure, name) for name in one.models]
            return 1.0 - float(losses[1] / losses[0])
        found = [
            reads(one.measure, self.records, name, self._mask(part))
            for name in one.models
            for part in one.inside or ("",)
        ]
        return float(found[-1] - (found[0] if len(found) == 2 else 0.0))

    def _counts(self, one):
        """Return how many units a row is about, and how many of them have an event."""
        inside = np.any([self._mask(part) > 0.0 for part in one.inside or ("",)], axis=0)
        y, event = self.records.y, one.measure.positive
        said = {"n_units": np.unique(self.units[inside]).size, "n_events": None}
        if y.ndim == 1 and y.dtype.kind != "f":
            labels, counts = np.unique(y, return_counts=True)
            event = labels[np.argmin(counts)] if event is None else event
            said["n_events"] = np.unique(self.units[inside & is_label(y, event)]).size
        return said

    # -- proven limits --------------------------------------------------------------------------

    def proven(self, one: Statement, level: float, by_class: Any) -> tuple[float, float]:
        """Return limits that fail with probability at most ``level``, in score units."""
        if len(one.inside) == 2:  # each limit of both may fail with a part of the level
            parts = [dataclasses.replace(one, inside=(part,)) for part in one.inside]
            first, second = (self.proven(part, 0.5 * level, None) for part in parts)
            return second[0] - first[1], second[1] - first[0]
        low, high = one.measure.span
        span = high - low
        if one.proven == CLASSES:
            return self._by_class(by_class, level)
        if one.proven == PAST:
            return past_row(one, self.records, self, self.plan.classes, level)
        mask = self.plan.masks[one.inside[0]] if one.inside else 1.0
        found = [
            [mask * each for each in self.records.contributions(one.measure, name)]
            for name in one.models
        ]
        (sums, counts), paired = found[-1], len(found) == 2
        if paired:
            gap = np.clip((sums - found[0][0]) / one.most, -1.0, 1.0)
            low, span, sums = -one.most * span, 2.0 * one.most * span, 0.5 * (counts + gap)
        if one.proven == COUNTS:
            alike = self.plan.dependence == "records"
            lower, upper = _counted(one, sums, counts, level, alike=alike)
        elif one.proven == TAIL:
            tail = ModelTail(self.model, len(sums), binary=one.measure.is_share and not paired)
            at = np.array([min(1.0, float(np.mean(self.weights * sums)))])
            lower, upper = (float(e[0]) for e in tail.limits(at, at, np.log([level / 2.0])))
        else:
            limits = {BETS: star_limits, FREE: order_free_limits}[one.proven]
            lower, upper = limits(
                self.totals(sums), self.totals(counts),
                bound=(2.0 if one.measure.share == "f1" else 1.0) * self.plan.bound,
                moments=one.moments, log_inverse_level=math.log(2.0 / level),
            )  # fmt: skip
        return low + span * lower, low + span * upper

    def _by_class(self, found, level):
        """Return limits of ROC AUC or balanced accuracy (G12; of groups G19, G20)."""
        if hasattr(found, "tails"):
            lower, upper = found.limits(found.values, found.values, np.log([level]))
            return float(lower[0]), float(upper[0])
        shape, value = dataclasses.asdict(found.shape), found.value
        if found.by_class is not None:
            floors = tuple(found.by_class.least_counts(len(found.shape.classes)).tolist())
            shape, value = shape | {"class_floors": floors}, found.by_class.value(floors)
        tail, at = score_tail(self.model, len(self.records.y), **shape), np.array([value])
        lower, upper = tail.limits(at, at, np.log([level / 2.0]))
        return float(lower[0]), float(upper[0])

    # -- approximate limits ---------------------------------------------------------------------

    def approximate(self, one: Statement, level: float) -> Any:
        """Return limits by leaving out units, in score units, and what to know of them (G28)."""
        parts, sides = one.inside[::-1] or ("",), []
        if one.skill:
            both = np.vstack([self.records.loss(one.measure, name) for name in one.models])
            statistic, y, sides = SKILL, np.zeros(both.shape[1]), [(both, self._mask("") > 0.0)]
        for name in () if one.skill else one.models[::-1]:
            statistic, y, said = self.records.response(one.measure, name, self.weights)
            # Of records that do not count (per="record"), neither family speaks.
            sides += [(said, self._mask(part) > 0.0) for part in parts]
        return approximate_row(
            statistic, y, sides, units=self.units, level=level,
            per_record=self.plan.per == "record", times=self.times,
        )  # fmt: skip


def _counted(one, sums, counts, level, *, alike):
    """Return Clopper-Pearson limits of a share (G8); F1 by Jaccard's share."""
    level = min(level, 0.5)
    if one.measure.share == "f1":
        # hits / (called + real - hits), of which F1 = 2 q / (1 + q)
        hits, among = 0.5 * sums.sum(), counts.sum() - 0.5 * sums.sum()
        ends = share_limits(round(hits), round(among), level)
        return tuple(2.0 * end / (1.0 + end) for end in ends)
    return share_limits(round(sums.sum()), round(counts.sum()), level, alike=alike)


def _finite(ends):
    return [float(end) for end in ends] if all(map(math.isfinite, ends)) else None
