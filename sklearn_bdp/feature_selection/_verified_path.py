"""A path of proposed subsets, verified in one batch; which of them is selected, and why."""

import math
from dataclasses import dataclass, field, replace

import numpy as np

from sklearn_bdp._evaluation import paired_gain
from sklearn_bdp._sealed import sealed_errors
from sklearn_bdp._sklearn_compat import num_samples
from sklearn_bdp.holdout import query_key

#: Level at which the training side must speak against the constant prediction.
LEVEL = 0.05
#: Draws behind its critical value.
_DRAWS = 4_000
#: How far a ranking must be ahead of those before it, in standard errors of the difference.
ONE_PART = 0.5


@dataclass(frozen=True)
class Entry:
    """A proposal with the holdout's answer."""

    proposal: object  # the subset and its training side
    assessment: object = field(repr=False)  # what was released about it, in units of [0, 1]

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
    """Which entry is selected."""

    #: Places in the path. ``selected`` is ``None`` where nothing could be answered.
    selected: int | None
    best: int | None
    constant: int | None
    tolerance: float  # how far behind the best the selected subset may be, in units of [0, 1]
    #: Whether both sides say that the best beats the constant; ``None`` where nothing is known to
    #: compare with, or a number of features was asked for.
    helps: bool | None
    certified: bool  # whether the interval of the selected subset lies above that of the constant


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
def sharpen(verifier, entries, place):
    """Return the entry of a place with a finer answer if it was coarse: it is asked again, alone.

    In a batch only the leader is refined (theory G7). A subset that is selected near the leader
    deserves an interval as narrow; one more query costs about two nats.
    """
    entry = entries[place]
    found = entry.assessment
    values = [other.assessment.released for other in entries]
    if found.source != "training" or found.released == np.nanmax(values):
        return entry
    if found.key is None or found.outcome is None:
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
    """Return the :class:`Verdict` before the holdout has confirmed it (:func:`confirm`).

    ``entries``: the path; ``tol``: a number is the tolerance, in units of [0, 1]; the others take
    the best subset by scores that are smoothed along the path; ``is_mean``: whether scores are
    scores of records; ``n_effective``: effective number of training records; ``target``: number of
    units that was asked for: then the best of that size is taken.
    """
    levels = _smoothed(entries) if isinstance(tol, str) else [entry.rank for entry in entries]
    places = [place for place, level in enumerate(levels) if math.isfinite(level)]
    constant = next((p for p in places if entries[p].proposal.ranking == "constant"), None)
    others = [place for place in places if place != constant]
    if not others:
        return Verdict(constant, None, constant, 0.0, None if target == 0 else False, False)

    def paired(first, second):
        pair = (entries[first].proposal.scores, entries[second].proposal.scores)
        return paired_gain(*pair, is_mean=is_mean, n_effective=n_effective)

    best = _best(entries, levels, others, paired)
    if target is not None:
        return Verdict(best, best, constant, 0.0, None, False)
    chosen, tolerance = best, 0.0
    if not isinstance(tol, str):
        tolerance = tol
        # A difference of .05 is within a tolerance of .05 however it is rounded.
        near = [p for p in others if levels[best] - levels[p] <= tolerance + 1e-12]
        chosen = min(near, key=lambda place: (entries[place].size, -levels[place]))
    helps = None
    if constant is not None:
        gain = paired(best, constant)
        chance = gain.chance(len(others), LEVEL)
        if is_mean:
            chance = min(chance, gain.error * _largest_by_chance(entries, others, constant))
        helps = gain.gain > chance
    return Verdict(chosen, best, constant, tolerance, helps, False)


def confirm(verdict, entries, *, tol):
    """Return the verdict with what the holdout says of the selected subset.

    It helps if its answer is better than that of the constant, too; with ``tol="certified"``, if
    its interval lies above that of the constant.
    """
    place, constant = verdict.selected, verdict.constant
    if constant is None or place in (None, constant):
        return verdict
    chosen, least = entries[place], entries[constant].assessment
    certified = chosen.assessment.lower > least.upper
    helps = verdict.helps
    if helps is not None:
        enough = certified if tol == "certified" else chosen.rank > least.released
        helps = bool(helps and enough)
    return replace(verdict, helps=helps, certified=bool(certified))


def _best(entries, levels, places, paired):
    """Return the place of the best subset: the smallest one at the highest level.

    The best of several noisy paths is often the luckier one. A ranking takes the place of one that
    was named before it if it is ahead by half a standard error of the difference.
    """
    leaders = {}
    for place in sorted(places, key=lambda place: (-levels[place], entries[place].size)):
        leaders.setdefault(entries[place].proposal.ranking, place)
    # Places are in the order of the rankings.
    best, *others = sorted(leaders.values())
    for place in others:
        error = _plain_error(paired(place, best))
        if levels[place] - levels[best] > ONE_PART * error:
            best = place
    return best


def _largest_by_chance(entries, places, constant):
    """Return how many standard errors the luckiest of these subsets is ahead of the constant.

    Of subsets that are all worth nothing, at most a share of ``LEVEL`` gets so far. The gains are
    treated as jointly normal with the covariance of their per-record scores (Chernozhukov,
    Chetverikov and Kato 2013): subsets of one path share most of their records' fates, so that
    Bonferroni's correction asks too much of a few hundred records.
    """
    scores = np.array([entries[place].proposal.scores for place in places], dtype=float)
    gains = scores - entries[constant].proposal.scores
    gains = gains[:, np.isfinite(gains).all(axis=0)]
    gains -= gains.mean(axis=1, keepdims=True)
    gains /= np.maximum(np.sqrt((gains**2).sum(axis=1, keepdims=True)), 1e-12)
    values, vectors = np.linalg.eigh(gains @ gains.T)
    draws = np.random.default_rng(0).standard_normal((_DRAWS, len(places)))
    draws = (draws * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    return float(np.quantile(draws.max(axis=1), 1.0 - LEVEL))


def _smoothed(entries):
    """Return what subsets are compared by, smoothed along each ranking: 1/4, 1/2, 1/4.

    Neighbours on a path share most of their features, and the maximum of a smooth curve is found
    more surely: .766 instead of .759 on fresh records (eight true of 2,000 features, 225 records).
    """
    levels = [entry.rank for entry in entries]
    found = list(levels)
    for ranking in {entry.proposal.ranking for entry in entries} - {"constant", "given"}:
        path = [p for p, entry in enumerate(entries) if entry.proposal.ranking == ranking]
        path = [p for p in path if math.isfinite(levels[p])]
        for before, place, after in zip(path[:1] + path, path, path[1:] + path[-1:], strict=False):
            found[place] = (levels[before] + 2.0 * levels[place] + levels[after]) / 4.0
    return found


def _plain_error(paired):
    """Return a standard error that is finite, so that a product with it is."""
    return paired.error if math.isfinite(paired.error) else 0.0


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
