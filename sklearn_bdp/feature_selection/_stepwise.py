"""The order of the steps: which subset comes next, when to stop, and what is told of the path."""

import itertools
import math
from dataclasses import dataclass, field

import numpy as np

from sklearn_bdp.feature_selection._verified_path import SURE

#: Candidates of a step whose gain is put to the holdout before the step is given up.
TRIES = 10
#: Bonferroni level of a step on the training side. A useless feature costs accuracy, so that one
#: passes in about one step of twenty (simulated with naive Bayes and logistic regression).
LEVEL = 0.2


@dataclass(frozen=True)
class Rule:
    """When a gain counts."""

    tol: object = "auto"  # as in the selector, a number in units of [0, 1]

    def promising(self, paired, n_candidates):
        """Return whether the training side alone speaks for a gain."""
        return paired.gain > self.required(paired, n_candidates)

    def required(self, paired, n_candidates):
        """Return the training-side gain that is needed."""
        if self.tol == "auto":
            return max(0.0, paired.chance(n_candidates, LEVEL))
        return 0.0 if self.tol == "certified" else self.tol

    def verified(self, gain):
        """Return whether the holdout confirms a gain."""
        if self.tol == "certified":
            return gain.lower > 0.0
        return gain.released > (gain.floor if self.tol == "auto" else self.tol)


@dataclass(frozen=True)
class Step:
    """One step of a selection."""

    action: str  # what was done
    unit: int | None  # the unit that came or went
    chosen: frozenset  # units chosen after the step
    assessment: object = field(repr=False)  # of the subset after the step
    n_candidates: int = 1  # subsets that were compared
    paired: object = None  # training-side gain of an addition over what was there before
    gain: object = None  # the verified one, where it was asked


def select(verifier, units, *, direction, target, rule):
    """Yield the steps of a stepwise selection, the first of which is the start.

    ``target``: number of units to end with; ``None`` stops when no verified gain remains.
    """
    walk = _Walk(verifier, units, target=target, rule=rule)
    if direction == "backward":
        yield walk.start(frozenset(range(len(units))))
        yield from walk.removals()
        return
    yield walk.start(frozenset())
    while (step := walk.addition()) is not None:
        yield step
        if direction == "floating" and len(walk.chosen) != target:
            yield from walk.removals(just_added=step.unit)


class _Walk:
    """The state of a selection: the units chosen, and the subset that others are compared with."""

    def __init__(self, verifier, units, *, target, rule):
        self.verifier, self.units, self.target, self.rule = verifier, units, target, rule
        self.chosen = frozenset()
        self.reference = None
        self.visited = set()

    def start(self, chosen):
        """Return the first step."""
        self.chosen = chosen
        columns = self.units.columns(chosen)
        if columns or self.verifier.setting.has_baseline:
            (self.reference,) = self.verifier.assess([columns])
        self.visited.add(chosen)
        return Step("start", None, chosen, self.reference)

    def addition(self):
        """Return the next addition, or None when there is none."""
        if self.target is not None and len(self.chosen) >= self.target:
            return None
        others = [unit for unit in range(len(self.units)) if unit not in self.chosen]
        ranked = self._ranked({unit: self.chosen | {unit} for unit in others})
        reference = self.reference
        if reference is None or reference.outcome is None:  # nothing to compare with
            picked = next(((unit, found, None, None) for unit, found in ranked), None)
        elif self.target is not None:
            picked = next((self._compare(pair, reference) for pair in ranked), None)
        else:
            picked = self._first_verified(ranked, reference, len(others))
        if picked is None:
            return None
        unit, found, paired, gain = picked
        self.chosen |= {unit}
        self.visited.add(self.chosen)
        self.reference = found
        return Step("add", unit, self.chosen, found, len(others), paired, gain)

    def removals(self, *, just_added=None):
        """Yield removals while they lose nothing that is verified (or down to the target)."""
        while self.chosen and (self.target is None or just_added is not None or self._too_many):
            after = {
                unit: self.chosen - {unit}
                for unit in sorted(self.chosen)
                if unit != just_added and self.chosen - {unit} not in self.visited
            }
            empty = [unit for unit, rest in after.items() if not self.units.columns(rest)]
            if empty and not self.verifier.setting.has_baseline:
                return
            ranked = self._ranked(after)
            if not ranked:
                return
            unit, found = ranked[0]
            forced = self.target is not None and just_added is None
            if not forced and self._is_missed(found, len(after)):
                return
            self.chosen = after[unit]
            self.visited.add(self.chosen)
            if just_added is not None or not self.reference.rank > found.rank:
                # Backward, losses too small to count must not add up: compare with the best.
                self.reference = found
            yield Step("remove", unit, self.chosen, found, len(after))

    @property
    def _too_many(self):
        return len(self.chosen) > self.target

    def _ranked(self, subsets):
        """Return (unit, assessment) pairs, best first; those without an answer are left out."""
        if not subsets:
            return []
        columns = [self.units.columns(chosen) for chosen in subsets.values()]
        pairs = zip(subsets, self.verifier.assess(columns), strict=True)
        answered = [pair for pair in pairs if math.isfinite(pair[1].rank)]
        return sorted(answered, key=lambda pair: (-pair[1].rank, -pair[1].training))

    def _compare(self, pair, reference):
        unit, found = pair
        paired = self.verifier.paired(found, reference)
        return unit, found, paired, self.verifier.gain(found, reference, paired)

    def _first_verified(self, ranked, reference, n_candidates):
        """Return the best addition whose gain both sides confirm."""
        promising = (
            pair
            for pair in ranked
            if self.rule.promising(self.verifier.paired(pair[1], reference), n_candidates)
        )
        for pair in itertools.islice(promising, TRIES):
            compared = self._compare(pair, reference)
            if self.rule.verified(compared[3]):
                return compared
        return None

    def _is_missed(self, found, n_candidates):
        """Return whether the reference has a verified gain over a smaller subset."""
        paired = self.verifier.paired(self.reference, found)
        if not self.rule.promising(paired, n_candidates):
            return False
        return self.rule.verified(self.verifier.gain(self.reference, found, paired))


def judged(steps, verifier, units, rule):
    """Return whether both sides say that features help whose number was asked for.

    Of useless features each step takes the luckiest, and the next builds on its luck: judged is
    the first step, by the rule, and the last answer, which must be better than that of the start.
    Backward, all features together are compared with none (or the fixed ones) on the training
    side. ``True`` where nothing is known to compare with.
    """
    start, last, bare = steps[0], steps[-1], units.columns(())
    if start.assessment is None or not (bare or verifier.setting.has_baseline):
        return True
    if start.chosen:
        paired, least = verifier.over(start.assessment, bare)
        return paired.luck(1) <= SURE and last.assessment.released > least
    first = next((step for step in steps if step.action == "add"), None)
    if first is None or first.gain is None:
        return False
    confirmed = rule.promising(first.paired, first.n_candidates) and rule.verified(first.gain)
    return bool(confirmed and last.assessment.released > start.assessment.released)


def accuracy_path(steps, units, metric):
    """Return ``accuracy_path_``: one entry per step in each array, in score units."""
    rows = [_row(step, units, metric) for step in steps]
    path = {}
    for name in rows[0]:
        values = [row[name] for row in rows]
        if name in ("features", "feature"):  # tuples of one length are no matrix
            path[name] = np.empty(len(values), dtype=object)
            path[name][:] = values
        else:
            path[name] = np.array(values)
    return path


def _row(step, units, metric):
    """Return one row of the table."""
    found, paired, gain = step.assessment, step.paired, step.gain
    columns = units.columns(step.chosen)
    width, nan = metric.upper - metric.lower, math.nan
    chance = nan if paired is None else width * paired.chance(step.n_candidates, LEVEL)

    def score(value):
        return nan if found is None else float(metric.from_unit(getattr(found, value)))

    def difference(value):
        return nan if gain is None else width * getattr(gain, value)

    return {
        "action": step.action,
        "feature": "" if step.unit is None else units.label(step.unit),
        "n_features": len(columns),
        "features": columns,
        "n_candidates": step.n_candidates,
        "training_score": score("training"),
        "holdout_score": score("released"),
        "holdout_lower": score("lower"),
        "holdout_upper": score("upper"),
        "answered_from": "unanswered" if found is None else found.source,
        "training_gain": nan if paired is None else width * paired.gain,
        "chance_gain": chance,
        "gain": difference("released"),
        "gain_lower": difference("lower"),
        "gain_upper": difference("upper"),
    }


def describe_step(step, units, verifier):
    """Return one line about a step; it holds released values only."""
    row = _row(step, units, verifier.setting.metric)
    what = {"start": "start", "add": "added ", "remove": "removed "}[step.action]
    what += repr(row["feature"]) if step.unit is not None else ""
    line = (
        f"{what}: {row['n_features']} feature(s), verified score {row['holdout_score']:.4g} "
        f"[{row['holdout_lower']:.4g}, {row['holdout_upper']:.4g}]"
    )
    if step.gain is not None:
        line += f", gain {row['gain']:+.4g} [{row['gain_lower']:+.4g}, {row['gain_upper']:+.4g}]"
    if step.action != "start":
        line += f", best of {step.n_candidates} ({verifier.n_recorded} answered before)"
    return f"{line}; {verifier.holdout.information_spent:.1f} nats spent"
