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
from sklearn_bdp.holdout._around import settle_shares
from sklearn_bdp.holdout._certificate import target_of
from sklearn_bdp.holdout._in_time import past_row
from sklearn_bdp.holdout._inputs import batch_of_evaluations
from sklearn_bdp.holdout._measures import Records, reads
from sklearn_bdp.holdout._plan import BETS, CLASSES, COUNTS, FREE, PAST, TAIL, Plan, Statement

READ = "approximate: leaving out {units}"
LONG_RUN = "the long run of the same process"


@dataclasses.dataclass(frozen=True)
class Sampling:
    """What was drawn independently, in a secret order that never changes (theory G28)."""

    model: Any
    units: Any  # (n,): the unit of each record; units are numbered in the secret order
    weights: Any  # (n,): what a record counts
    words: str  # what units are called
    times: float | None = None  # in time: how many independent records it is worth

    @property
    def count(self) -> int:
        """Number of units."""
        return int(self.units.max()) + 1

    @classmethod
    def of(cls, model: Any, n: int, *, per: str, bound: float, seed: int) -> Sampling:
        """Return the units of a holdout; ``seed``: secret, drawn with it."""
        rng = np.random.default_rng([seed, 1])  # slices have a stream of their own (theory G19)
        if not (model.is_independent or model.is_componentwise):
            weights = model.record_weights(n)
            dates = getattr(model, "codes_", None)  # of a panel, in order
            units = np.arange(n) if dates is None else dates
            # Weights of regimes that are seen are no units.
            lasting = weights is None or dates is not None
            weights = np.ones(n) if weights is None else n * weights
            times = float(model.effective_n(n)) if lasting else 0.0
            times = math.nan if model.is_given_past else times  # read off the scores
            return cls(model, units, weights, model.units(n)[1], times)
        units = np.unique(model.components(n), return_inverse=True)[1]
        units = rng.permutation(int(units.max()) + 1)[units]
        weights, sizes = np.ones(n), np.bincount(units)
        if model.is_independent:
            return cls(model, units, weights, "records")
        if per == "unit":
            weights = 1.0 / sizes[units]
        else:  # a larger group keeps so many records, drawn here
            order = np.lexsort((rng.random(n), units))
            place = np.empty(n)
            place[order] = np.arange(n) - (np.cumsum(sizes) - sizes)[units[order]]
            weights = (place < bound).astype(float)
        return cls(model, units, weights, model.units(n)[1])

    def totals(self, values: Any) -> Any:
        """Return the sums of records' values in each unit."""
        return np.bincount(self.units, self.weights * values, minlength=self.count)

    def means(self, values: Any) -> Any:
        """Return the mean of records' values on each date, which weigh equally."""
        return self.totals(values) * (self.count / len(self.units))


class Rows:
    """All rows of a plan, read from the closed holdout."""

    def __init__(self, plan: Plan, X: Any, y: Any, sampling: Sampling) -> None:
        self.plan, self.sampling = plan, sampling
        self.records = Records(X, y, plan.models)

    def settled(self, terms: Any) -> tuple[Any, dict[int, Any]]:
        """Ask shares of classes where groups need them; return terms and settled batches by row.

        Of independent records the counts are read: given the labels, every bound holds with them.
        """
        found: dict[int, Any] = {}
        model, n = self.sampling.model, len(self.records.y)
        for place, one in enumerate(self.plan.statements):
            if one.proven != CLASSES:
                continue
            metric, asked = one.measure.metric, self.records.asked(one.models[0])
            try:
                evaluation = metric.evaluate(*asked, self.records.y)
            except Exception:  # the row says so
                continue
            if evaluation.by_class is None or model.is_independent:
                found[place] = evaluation
                continue
            batch, terms = settle_shares(
                batch_of_evaluations([evaluation], n, model, training_values=[one.expected]), terms
            )
            found[place] = batch
        return terms, found

    def row(self, place: int, *, proven: float, approximate: float, alone: float, by_class: Any):
        """Return a row in JSON; ``proven``, ``approximate``, ``alone``: failure probabilities."""
        one = self.plan.statements[place]
        model, subgroup = one.words
        row = {
            "model": model, "metric": one.measure.name, "subgroup": subgroup, "value": None,
            "proven": None, "approximate": None, "method": one.proven, "parts": [],
            "positive": "" if one.measure.positive is None else str(one.measure.positive),
            "notes": [], "n_units": self.sampling.count, "n_events": None,
        }  # fmt: skip
        past = self.sampling.model.is_given_past
        if one.skill:
            row["metric"] = f"skill score ({one.measure.name})"
            row["model"] = " against ".join(one.models[::-1])
        if past:
            n = len(self.records.y)
            row["target"] = target_of(self.sampling.model, n, one.ahead) if one.proven else LONG_RUN
        try:
            with np.errstate(all="ignore"):
                row |= self._counts(one)
                row["value"] = self.value(one)
                if one.proven:
                    ends = self.proven(one, proven, by_class)
                    once = self.proven(one, alone, by_class)
                    half, least = (0.5 * (high - low) for low, high in (ends, once))
                    row |= {"proven": _finite(ends), "parts": [least, half - least, 0.0]}
                if self.sampling.times == 0.0:
                    row["notes"] = ["An approximate row needs a declared chain (a long run)."]
                elif self.plan.approximate and one.ahead == 1:
                    found = self.approximate(one, approximate)
                    pair = _finite((found.lower, found.upper))
                    row |= {"approximate": pair, "notes": list(found.notes)}
                    if past and one.proven and pair is not None:
                        row["notes"].append(f"The approximate interval is about {LONG_RUN}.")
        except Exception as error:
            row["notes"] = [f"It could not be computed ({type(error).__name__})."]
        if not row["method"]:
            row["method"] = READ.format(units=self.sampling.words)
        if one.most < 1.0:
            low, high = one.measure.span
            row["notes"].append(
                f"The proven interval counts differences beyond ±{one.most * (high - low):.3g} as "
                "that."
            )
        row["notes"] += [one.measure.note] * bool(one.measure.note)
        value = row["value"]
        if (value is None or not math.isfinite(value)) and not row["notes"]:
            row["notes"] = ["The score is undefined for these records."]
        row["value"] = None if value is None or not math.isfinite(value) else float(value)
        return row

    def over_time(self) -> Any:
        """Return the score of each date in the first row, in score units."""
        one = self.plan.statements[0]
        low, high = one.measure.span
        scores = self.records.contributions(one.measure, one.models[0])[0]
        return low + (high - low) * self.sampling.means(scores)

    # -- values ---------------------------------------------------------------------------------

    def _mask(self, part):
        return self.plan.masks[part] if part else 1.0

    def _sums(self, one, name, part=""):
        """Return what each record adds to a sum and to what divides it."""
        sums, counts = self.records.contributions(one.measure, name)
        mask = self._mask(part)
        return sums * mask, counts * mask

    def value(self, one: Statement) -> float:
        """Return what is reported, in score units."""
        parts, weights = one.inside or ("",), self.sampling.weights
        if one.skill:
            first, second = (weights @ self.records.loss(one.measure, name) for name in one.models)
            return 1.0 - float(second / first)
        found = []
        for name in one.models:
            for part in parts:
                kept = weights * self._mask(part)
                found.append(reads(one.measure, self.records, name, kept))
        return found[-1] - (found[0] if len(found) == 2 else 0.0)

    def _counts(self, one):
        """Return how many units a row is about, and how many of them have an event."""
        inside = np.zeros(len(self.records.y))
        for part in one.inside or ("",):
            inside = np.maximum(inside, self._mask(part))
        y = self.records.y
        units = np.unique(self.sampling.units[inside > 0.0]).size
        if y.ndim > 1 or y.dtype.kind == "f" or not y.size:
            return {"n_units": units, "n_events": None}
        labels, counts = np.unique(y, return_counts=True)
        event = one.measure.positive
        event = labels[np.argmin(counts)] if event is None else event
        has = np.array([label == event for label in y.tolist()]) & (inside > 0.0)
        return {"n_units": units, "n_events": int(np.unique(self.sampling.units[has]).size)}

    # -- proven limits --------------------------------------------------------------------------

    def proven(self, one: Statement, level: float, by_class: Any) -> tuple[float, float]:
        """Return limits that fail with probability at most ``level``, in score units."""
        low, high = one.measure.span
        span, part = high - low, one.inside[0] if one.inside else ""
        if one.proven == CLASSES:
            return self._by_class(by_class, level)
        if one.proven == PAST:
            return past_row(one, self.records, self.sampling, self.plan.classes, level)
        sums, counts = self._sums(one, one.models[-1], part)
        paired = len(one.models) == 2
        if paired:
            gap = sums - self._sums(one, one.models[0], part)[0]
            sums = 0.5 * (counts + np.clip(gap / one.most, -1.0, 1.0))
        if one.proven == COUNTS:
            lower, upper = _counted(one, sums, counts, level, self.sampling.model)
        elif one.proven == TAIL:
            n = len(sums)
            tail = ModelTail(self.sampling.model, n, binary=one.measure.is_share and not paired)
            at = np.array([min(1.0, float(np.mean(self.sampling.weights * sums)))])
            lower, upper = (float(e[0]) for e in tail.limits(at, at, np.log([level / 2.0])))
        else:
            limits = {BETS: star_limits, FREE: order_free_limits}[one.proven]
            lower, upper = limits(
                self.sampling.totals(sums), self.sampling.totals(counts),
                bound=one.measure.bound * self.plan.bound,
                moments=one.moments, log_inverse_level=math.log(2.0 / level),
            )  # fmt: skip
        if paired:
            return tuple(one.most * span * (2.0 * end - 1.0) for end in (lower, upper))
        return low + span * lower, low + span * upper

    def _by_class(self, found, level):
        """Return limits of ROC AUC or balanced accuracy (G12; of groups G19, G20)."""
        side = np.log([level / 2.0])
        if hasattr(found, "tails"):
            lower, upper = found.limits(found.values, found.values, np.log([level]))
            return float(lower[0]), float(upper[0])
        shape = dataclasses.asdict(found.shape)
        value = np.array([found.value])
        if found.by_class is not None:
            floors = tuple(found.by_class.least_counts(len(found.shape.classes)).tolist())
            shape, value = shape | {"class_floors": floors}, [found.by_class.value(floors)]
        tail = score_tail(self.sampling.model, len(self.records.y), **shape)
        lower, upper = tail.limits(np.array(value), np.array(value), side)
        return float(lower[0]), float(upper[0])

    # -- approximate limits ---------------------------------------------------------------------

    def approximate(self, one: Statement, level: float) -> Any:
        """Return limits by leaving out units, in score units, and what to know of them (G28)."""
        weights, sides = self.sampling.weights, []
        if one.skill:
            both = np.vstack([self.records.loss(one.measure, name) for name in one.models])
            statistic, y, sides = SKILL, np.zeros(both.shape[1]), [(both, None)]
        for name in () if one.skill else one.models[::-1]:
            statistic, y, said = self.records.response(one.measure, name, weights)
            sides += [(said, self._mask(part) > 0.0 if part else None)
                      for part in (one.inside[::-1] or ("",))]  # fmt: skip
        return approximate_row(
            statistic, y, sides, units=self.sampling.units, level=level,
            per_record=self.plan.per == "record", times=self.sampling.times,
        )  # fmt: skip


def _counted(one, sums, counts, level, model):
    """Return Clopper-Pearson limits of a share (G8); F1 by Jaccard's share."""
    level = min(level, 0.5)
    if one.measure.share == "f1":
        # hits / (called + real - hits), of which F1 = 2 q / (1 + q)
        hits, among = 0.5 * sums.sum(), counts.sum() - 0.5 * sums.sum()
        ends = share_limits(round(hits), round(among), level)
        return tuple(2.0 * end / (1.0 + end) for end in ends)
    alike = not model.is_given_rest
    return share_limits(round(sums.sum()), round(counts.sum()), level, alike=alike)


def _finite(ends):
    return [float(end) for end in ends] if all(map(math.isfinite, ends)) else None
