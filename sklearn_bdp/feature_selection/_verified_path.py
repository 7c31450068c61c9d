"""A path of proposed subsets, verified in one batch; which of them is selected, and why."""

import math
from dataclasses import dataclass, field, replace

import numpy as np

from sklearn_bdp._evaluation import paired_gain
from sklearn_bdp._sealed import sealed_errors
from sklearn_bdp._sklearn_compat import num_samples
from sklearn_bdp.holdout import query_key

__all__ = [
    "LEVEL",
    "Entry",
    "Verdict",
    "certified_again",
    "choose",
    "path_table",
    "sharpen",
    "verify_path",
]

#: Bonferroni level at which the training side must speak against the constant prediction.
LEVEL = 0.05
#: Tolerance of ``tol="auto"`` in standard errors of the training-side difference to the best.
ONE_PART = 0.5


@dataclass(frozen=True)
class Entry:
    """A proposal with the holdout's answer.

    Attributes
    ----------
    proposal : Proposal
        The subset and its training side.
    assessment : Assessment
        What was released about it, in units of [0, 1].
    """

    proposal: object
    assessment: object = field(repr=False)

    @property
    def size(self):
        """Return the number of units."""
        return len(self.proposal.chosen)

    @property
    def rank(self):
        """Return what entries are compared by: the smaller of training side and answer."""
        return self.assessment.rank


@dataclass(frozen=True)
class Verdict:
    """Which entry is selected.

    Attributes
    ----------
    selected, best, constant : int or None
        Places in the path. ``selected`` is ``None`` where nothing could be answered.
    tolerance : float
        How far behind the best the selected subset may be, in units of [0, 1].
    helps : bool or None
        Whether both sides say that the best beats the constant; ``None`` where nothing is
        known to compare with, or a number of features was asked for.
    certified : bool
        Whether the interval of the selected subset lies above that of the constant.
    """

    selected: int | None
    best: int | None
    constant: int | None
    tolerance: float
    helps: bool | None
    certified: bool


def verify_path(verifier, proposals):
    """Return the entries of a path, from one batch of queries.

    The best of the training side are asked first: what the holdout says of them corrects the
    predictions of all that follow (theory G4), so that subsets are compared with like corrections.
    """
    training = np.array([proposal.training for proposal in proposals])
    order = np.argsort(-np.where(np.isfinite(training), training, -np.inf), kind="stable")
    found = verifier.assess([proposals[place].columns for place in order], training[order])
    by_place = dict(zip(order.tolist(), found, strict=True))
    return [Entry(proposal, by_place[place]) for place, proposal in enumerate(proposals)]


@sealed_errors  # the evaluation below is raw
def sharpen(verifier, entry):
    """Return an entry whose answer was coarse with a finer one: it is asked again, alone.

    In a batch only the leader is refined (theory G7). A smaller subset that is selected because it
    is near the leader deserves an interval as narrow; one more query costs about two nats.
    """
    found = entry.assessment
    if found.source != "training" or found.key is None or found.outcome is None:
        return entry
    key = query_key("selected", found.key)
    known = verifier.holdout.recorded([key])
    evaluation = found.outcome.evaluation
    if key in known:
        record = known[key]
        value, lower, upper, above = record.value, record.lower, record.upper, record.above
    elif evaluation is None:
        return entry
    else:
        answers = verifier.holdout.answer_evaluations(
            [entry.proposal.training],
            [evaluation],
            training_size=num_samples(verifier.setting.X),
            keys=[key],
        )
        if not answers.answered[0]:
            return entry
        value, lower, upper = (
            float(part[0]) for part in (answers.values, answers.lower, answers.upper)
        )
        above = bool(answers.above[0])
    if upper - lower >= found.upper - found.lower:
        return entry
    source = "holdout" if above else "training"
    sharper = replace(found, released=value, lower=lower, upper=upper, source=source)
    return replace(entry, assessment=sharper)


def choose(entries, *, tol, is_mean, n_effective, target=None):
    """Return the :class:`Verdict`: the smallest subset within the tolerance of the best.

    Parameters
    ----------
    entries : list of Entry
        The path.
    tol : "auto", "certified" or float
        A number is the tolerance, in units of [0, 1]; the others take half a standard error of
        the training-side difference between both subsets, record by record.
    is_mean : bool
        Whether scores are scores of records.
    n_effective : float
        Effective number of training records.
    target : int or None
        Number of units that was asked for: then the best of that size is taken.
    """

    def paired(first, second):
        return paired_gain(
            entries[first].proposal.scores,
            entries[second].proposal.scores,
            is_mean=is_mean,
            n_effective=n_effective,
        )

    def tolerance(place):
        if not isinstance(tol, str):
            return tol
        return 0.0 if place == best else ONE_PART * _plain_error(paired(best, place))

    places = [place for place, entry in enumerate(entries) if math.isfinite(entry.rank)]
    constant = next((p for p in places if entries[p].proposal.ranking == "constant"), None)
    others = [place for place in places if place != constant]
    if not others:
        return Verdict(constant, None, constant, 0.0, False if target is None else None, False)
    best = max(others, key=lambda place: (entries[place].rank, -entries[place].size))
    if target is not None:
        return Verdict(best, best, constant, 0.0, None, _certified(entries, best, constant))
    leader = entries[best].rank
    # Scores are fractions: a difference of .05 is within a tolerance of .05 however it is rounded.
    near = [p for p in others if leader - entries[p].rank <= tolerance(p) + 1e-12]
    chosen = min(near, key=lambda place: (entries[place].size, -entries[place].rank))
    helps = None
    if constant is not None:
        needed = paired(best, constant).chance(len(others), LEVEL)
        gain = entries[best].proposal.training - entries[constant].proposal.training
        released = entries[chosen].rank > entries[constant].assessment.released
        helps = bool(gain > needed and released)
        if tol == "certified":
            helps = helps and _certified(entries, chosen, constant)
    return Verdict(
        chosen, best, constant, tolerance(chosen), helps, _certified(entries, chosen, constant)
    )


def _plain_error(paired):
    """Return a standard error that is finite, so that a product with it is."""
    return paired.error if math.isfinite(paired.error) else 0.0


def _certified(entries, place, constant):
    """Return whether the interval of a subset lies above that of the constant."""
    if constant is None:
        return False
    return entries[place].assessment.lower > entries[constant].assessment.upper


def certified_again(verdict, entries, place):
    """Return the verdict with what a sharper answer about ``place`` certifies."""
    return replace(verdict, certified=_certified(entries, place, verdict.constant))


def path_table(entries, selected, metric):
    """Return ``accuracy_path_``: one entry per verified subset in each array, in score units."""

    def scores(name):
        return metric.from_unit(np.array([getattr(entry.assessment, name) for entry in entries]))

    features = np.empty(len(entries), dtype=object)
    features[:] = [entry.proposal.columns for entry in entries]
    return {
        "ranking": np.array([entry.proposal.ranking for entry in entries]),
        "n_features": np.array([len(entry.proposal.columns) for entry in entries]),
        "features": features,
        "training_score": metric.from_unit(
            np.array([entry.proposal.training for entry in entries])
        ),
        "holdout_score": scores("released"),
        "holdout_lower": scores("lower"),
        "holdout_upper": scores("upper"),
        "answered_from": np.array([entry.assessment.source for entry in entries]),
        "selected": np.array([place == selected for place in range(len(entries))]),
    }
