"""Which subset is chosen, by the training side alone, and whether it is better than nothing.

To choose features needs no test: cross-validation says which subset is best. Whether the result is
better than a constant prediction is the other question, and the holdout has a say in it.
"""

import math
from dataclasses import dataclass

import numpy as np

from sklearn_bdp._evaluation import Assessment

#: Level at which the training side speaks against the constant prediction. The holdout has to
#: score the subset above it, too: a useless one does so in every second case.
LEVEL = 0.05
#: Draws behind its critical value.
_DRAWS = 4_000
#: How far a ranking must be ahead of those before it, in standard errors of the difference: .741 on
#: fresh records, .734 at half as much (eight true of 2,000 features, 225 records, ten seeds).
AHEAD = 1.0


@dataclass(frozen=True)
class Choice:
    """What the training side chose; places are those of the proposals."""

    chosen: int | None  # ``None`` where no subset could be scored
    best: int | None  # the chosen one may be a smaller one within the tolerance of it
    constant: int | None
    #: How often the luckiest of so many useless subsets gets as far; NaN without a comparison.
    luck: float
    asked: bool = False  # whether a number of features was asked for
    baseline: int | None = None  # what is handed on where nothing is told from chance


def choose(proposals, setting, *, tol, target):
    """Return the :class:`Choice`; ``tol`` in score units or a word, ``target`` units or a word."""
    plain = not isinstance(tol, str) and target is None
    levels = np.array([one.training for one in proposals]) if plain else _smoothed(proposals)
    places = [place for place, level in enumerate(levels) if math.isfinite(level)]
    constant = next((p for p in places if proposals[p].ranking == "constant"), None)
    others = [place for place in places if place != constant]
    asked = target is not None and target != "stable"
    if not others:
        return Choice(constant, None, constant, math.nan, asked=asked, baseline=constant)
    stable = [place for place in others if proposals[place].ranking == "stable"]
    best = stable[0] if stable else _best(proposals, levels, others, setting)
    metric, chosen = setting.metric, best
    if plain:
        tolerance = tol / (metric.upper - metric.lower)
        # A difference of .05 is within a tolerance of .05 however it is rounded.
        near = [p for p in others if levels[best] - levels[p] <= tolerance + 1e-12]
        chosen = min(near, key=lambda place: (len(proposals[place].chosen), -levels[place]))
    if constant is not None and proposals[constant].columns and not asked:
        chosen = constant if levels[constant] >= levels[chosen] else chosen  # fixed features alone
    same = [p for p in others if proposals[p].ranking == proposals[best].ranking]
    luck = math.nan if constant is None else _luck(proposals, others, best, constant, setting)
    baseline = constant  # the fixed features, or else the one best
    if constant is None or not proposals[constant].columns:
        baseline = min(same, key=lambda place: len(proposals[place].chosen))
    return Choice(chosen, best, constant, luck, asked, baseline)


def _best(proposals, levels, places, setting):
    """Return the place of the best subset: the smallest one at the highest level.

    The best of several noisy paths is often the luckier one. A ranking takes the place of one that
    was named before it if it is ahead by a standard error of the difference.
    """
    leaders = {}
    for place in sorted(places, key=lambda place: (-levels[place], len(proposals[place].chosen))):
        leaders.setdefault(proposals[place].ranking, place)
    # Places are in the order of the rankings.
    best, *others = sorted(leaders.values())
    for place in others:
        if levels[place] - levels[best] > AHEAD * _error(proposals, place, best, setting):
            best = place
    return best


def _smoothed(proposals):
    """Return what subsets are compared by, smoothed along each ranking: 1/4, 1/2, 1/4.

    Neighbours on a path share most of their features, and the maximum of a smooth curve is found
    more surely: .766 instead of .759 on fresh records (eight true of 2,000 features, 225 records).
    """
    levels = np.array([one.training for one in proposals])
    found = levels.copy()
    for ranking in {one.ranking for one in proposals} - {"constant", "given"}:
        path = [p for p, one in enumerate(proposals) if one.ranking == ranking]
        path = [p for p in path if math.isfinite(levels[p])]
        for before, place, after in zip(path[:1] + path, path, path[1:] + path[-1:], strict=False):
            found[place] = (levels[before] + 2.0 * levels[place] + levels[after]) / 4.0
    return found


def _error(proposals, first, second, setting):
    """Return the standard error of the mean difference of two subsets' scores of the same records.

    It pretends that one more record changed sides, so that a few lucky ones are no certainty.
    """
    difference = (proposals[first].scores - proposals[second].scores).astype(float)
    difference = difference[np.isfinite(difference)]
    variance = float(difference.var()) + 1.0 / difference.size
    return math.sqrt(variance / min(difference.size, setting.n_effective))


def overlap(folds):
    """Return how much wider a cross-validated score spreads than scores of as many fresh records.

    The models of two folds were fitted on mostly the same records, and what was lucky there is
    ranked first in both (Nadeau and Bengio 2003, equation 14): 1.5 for five folds.
    """
    tested = np.unique(np.concatenate([test for _, test in folds])).size
    trained = sum(len(train) for train, _ in folds) / len(folds)
    return math.sqrt(1.0 + tested / trained)


def _luck(proposals, places, best, constant, setting):
    """Return how often the luckiest of these subsets gets as far if all of them are worth nothing.

    The question is whether the best subset's predictions know anything of the classes, where that
    is known (``Proposal.beyond``), else whether they score better than the constant: a poor
    yardstick, because it hits more or less of a few hundred labels by luck of its own.
    """
    if not proposals[best].training > proposals[constant].training:
        return 1.0
    found = [proposals[place].beyond for place in places]
    if any(scores is None for scores in found):
        least = proposals[constant].scores
        ahead = np.nanmean(proposals[best].scores - least)
        ahead /= _error(proposals, best, constant, setting)
        return _luckiest(np.array([proposals[place].scores - least for place in places]), ahead)
    own = proposals[best].beyond
    own = own[np.isfinite(own)]
    error = math.sqrt(own.var() / min(own.size, setting.n_effective)) * overlap(setting.folds)
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


# -- what the holdout says ------------------------------------------------------------------------


def unverified(proposals):
    """Return what is known of the proposals before the holdout was asked."""
    return [Assessment(one.columns, one.training, unanswered="not asked") for one in proposals]


def verify(verifier, proposals, choice, most):
    """Return the assessments of all proposals; ``most`` of them, or all, are put to the holdout.

    The chosen subset is asked alone, before the constant: lone queries get narrower intervals.
    """
    found = unverified(proposals)
    training = np.array([one.training for one in proposals])
    left = set(np.flatnonzero(np.isfinite(training)).tolist()) - {choice.chosen, choice.constant}
    rest = sorted(left, key=lambda place: -training[place])
    rest = rest if most == "all" else rest[: most - 1]
    first = [] if choice.chosen is None else [choice.chosen]
    if choice.constant not in (None, choice.chosen):
        rest.insert(0, choice.constant)
    for places in (first, rest):
        ask(verifier, proposals, found, places)
    return found


def ask(verifier, proposals, found, places):
    """Put some proposals to the holdout as one batch, and enter what it says."""
    places = [place for place in places if found[place].answer is None]
    if places:
        training = [proposals[place].training for place in places]
        asked = verifier.assess([proposals[place].columns for place in places], training)
        for place, answer in zip(places, asked, strict=True):
            found[place] = answer


def judge(found, choice, *, tol):
    """Return whether the chosen subset helps (None: nothing to compare with), and is proved to.

    ``found``: what was released of the proposals.
    """
    if choice.constant is None or choice.best is None:
        return None if choice.constant is None or choice.asked else False, False
    answer, constant = found[choice.chosen], found[choice.constant]
    proved = bool(answer.lower > constant.upper)
    helps = choice.luck <= LEVEL and answer.rank > constant.released
    return bool(proved if tol == "certified" else helps), proved


def path_table(proposals, found, chosen, metric):
    """Return ``accuracy_path_``: one entry per subset in each array, in score units."""

    def scores(name):
        return metric.from_unit(np.array([getattr(one, name) for one in found]))

    features = np.empty(len(proposals), dtype=object)
    features[:] = [one.columns for one in proposals]
    return {
        "ranking": np.array([one.ranking for one in proposals]),
        "n_features": np.array([len(one.columns) for one in proposals]),
        "features": features,
        "training_score": scores("training"),
        "holdout_score": scores("released"),
        "holdout_lower": scores("lower"),
        "holdout_upper": scores("upper"),
        "answered_from": np.array([one.source for one in found]),
        "selected": np.arange(len(proposals)) == (-1 if chosen is None else chosen),
    }
