"""A path of proposed subsets, verified in one batch; which of them is selected, and why."""

import math
from dataclasses import dataclass, field, replace

import numpy as np

from sklearn_bdp._evaluation import paired_gain
from sklearn_bdp._sealed import sealed_errors
from sklearn_bdp._sklearn_compat import num_samples
from sklearn_bdp.holdout import query_key

#: Levels of the training side: at which it speaks against the constant prediction alone, and at
#: which the holdout is asked, too (:func:`challenge`).
SURE, DOUBT = 0.01, 0.2
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
    #: compare with.
    helps: bool | None
    certified: bool  # whether the interval of the selected subset lies above that of the constant
    doubtful: bool = False  # whether the training side leaves doubts, so that the holdout decides
    asked: bool = False  # whether a number of features was asked for: they are kept all the same


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
    answer = _asked_again(verifier, entry, "selected", entry.proposal.training)
    if answer is None or answer.upper - answer.lower >= found.upper - found.lower:
        return entry
    return replace(entry, assessment=answer)


def challenge(verifier, entries, verdict):
    """Return the best entry and the verdict after the holdout was asked whether it helps.

    The question is the score of the best subset once more, alone, predicted by what a subset
    scores that is worth nothing. It helps if the holdout finds this wrong and its answer is
    better: one useless subset in five gets so far, because the cell around the prediction
    reaches at least .8 standard deviations of the score to either side.
    """
    best = entries[verdict.best]
    worthless = best.proposal.by_chance
    if worthless is None:
        worthless = entries[verdict.constant].proposal.training
    answer = _asked_again(verifier, best, "challenge", worthless)
    if answer is None or answer.source != "holdout" or not answer.released > worthless:
        return best, replace(verdict, helps=False)
    # Both intervals hold; the better prediction gave the better guess between their ends.
    found = best.assessment
    lower, upper = max(found.lower, answer.lower), min(found.upper, answer.upper)
    released = min(max(found.released, lower), upper)
    found = replace(found, released=released, lower=lower, upper=upper, source="holdout")
    return replace(best, assessment=found), replace(verdict, helps=True)


@sealed_errors  # the evaluation below is raw
def _asked_again(verifier, entry, name, training):
    """Return an assessment by a query of its own, predicted by ``training``; None without one."""
    found = entry.assessment
    if found.key is None or found.outcome is None:
        return None
    key = query_key(name, found.key)
    known = verifier.holdout.recorded([key])
    answer = known.get(key)
    if answer is None:
        (answer,) = verifier.holdout.answer_evaluations(
            [training],
            [verifier.evaluation(found)],
            training_size=num_samples(verifier.setting.X),
            keys=[key],
        )
        if not answer.answered:
            return None
    value, lower, upper, source = answer.value, answer.lower, answer.upper, answer.source
    return replace(found, released=value, lower=lower, upper=upper, source=source)


def decide(verifier, entries, *, tol, target):
    """Return the :class:`Verdict`; selected entries get finer answers on the way."""
    verdict = choose(entries, **rule(verifier.setting, tol, target))
    place = verdict.selected
    if verdict.doubtful:
        entries[verdict.best], verdict = challenge(verifier, entries, verdict)
    if place is not None and (verdict.asked or verdict.helps is not False):
        entries[place] = sharpen(verifier, entries, place)
    return confirm(verdict, entries, tol=tol)


def rule(setting, tol, target):
    """Return the arguments of :func:`choose`; ``tol`` in score units."""
    metric = setting.metric
    return {
        "tol": tol if isinstance(tol, str) else float(tol) / (metric.upper - metric.lower),
        "is_mean": metric.is_mean,
        "n_effective": setting.n_effective,
        "target": target,
        "overlap": overlap(setting.folds),
    }


def choose(entries, *, tol, is_mean, n_effective, target=None, overlap=1.0):
    """Return the :class:`Verdict` before the holdout has confirmed it (:func:`confirm`).

    ``entries``: the path; ``tol``: a number is the tolerance, in units of [0, 1]; the others take
    the best subset by scores that are smoothed along the path; ``is_mean``: whether scores are
    scores of records; ``n_effective``: effective number of training records; ``target``: number of
    units that was asked for: then the best of that size is taken, and whether it helps is judged
    by the training side at the level :data:`SURE`; ``overlap``: by how much the folds' common
    records widen the standard error of a cross-validated score.
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

    best, asked = _best(entries, levels, others, paired), target is not None
    chosen, tolerance = best, 0.0
    if not (asked or isinstance(tol, str)):
        tolerance = tol
        # A difference of .05 is within a tolerance of .05 however it is rounded.
        near = [p for p in others if levels[best] - levels[p] <= tolerance + 1e-12]
        chosen = min(near, key=lambda place: (entries[place].size, -levels[place]))
    if constant is None:
        return Verdict(chosen, best, constant, tolerance, None, False, asked=asked)
    gain = paired(best, constant)
    known = {"gain": gain, "is_mean": is_mean, "n_effective": n_effective, "overlap": overlap}
    luck = _chance(entries, others, best, constant, **known)
    helps = bool(gain.gain > 0.0 and luck <= (SURE if asked else DOUBT))
    doubtful = helps and luck > SURE
    return Verdict(chosen, best, constant, tolerance, helps, False, doubtful, asked)


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


def overlap(folds):
    """Return how much wider a cross-validated score spreads than scores of as many fresh records.

    The models of two folds were fitted on mostly the same records, and what was lucky there is
    ranked first in both (Nadeau and Bengio 2003, equation 14): 1.5 for five folds.
    """
    tested = np.unique(np.concatenate([test for _, test in folds])).size
    trained = sum(len(train) for train, _ in folds) / len(folds)
    return math.sqrt(1.0 + tested / trained)


def _chance(entries, places, best, constant, *, gain, is_mean, n_effective, overlap):
    """Return how often the luckiest of these subsets gets as far if all of them are worth nothing.

    The question is whether the best subset's predictions know anything of the labels, where that
    is known (``Proposal.beyond``), else whether they score better than the constant: a poor
    yardstick, because it hits more or less of a few hundred labels by luck of its own.
    """
    if not is_mean:
        return gain.luck(len(places))
    found = [entries[place].proposal.beyond for place in places]
    if any(scores is None for scores in found):
        least = entries[constant].proposal.scores
        gains = np.array([entries[place].proposal.scores - least for place in places], dtype=float)
        return min(gain.luck(len(places)), _luckiest(gains, gain.gain / gain.error))
    own = entries[best].proposal.beyond
    own = own[np.isfinite(own)]
    error = overlap * math.sqrt(np.mean(own**2) / min(own.size, n_effective))
    return _luckiest(np.array(found), own.mean() / max(error, 1e-12))


def _luckiest(gains, ahead):
    """Return how often the luckiest of subsets that are worth nothing is so many errors ahead.

    The gains are treated as jointly normal with the covariance of their per-record scores
    (Chernozhukov, Chetverikov and Kato 2013): subsets of one path share most of their records'
    fates, so that Bonferroni's correction asks too much of a few hundred records.
    """
    gains = gains[:, np.isfinite(gains).all(axis=0)]
    gains = gains - gains.mean(axis=1, keepdims=True)
    gains /= np.maximum(np.sqrt((gains**2).sum(axis=1, keepdims=True)), 1e-12)
    values, vectors = np.linalg.eigh(gains @ gains.T)
    draws = np.random.default_rng(0).standard_normal((_DRAWS, len(gains)))
    draws = (draws * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    return float(np.mean(draws.max(axis=1) >= ahead))


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
