"""Which subset is chosen, by the training side alone, and whether it is better than nothing.

To choose features needs no test: cross-validation says which subset is best. Whether the result is
better than a constant prediction is the other question, and the holdout has a say in it.
"""

import math
from dataclasses import dataclass

import numpy as np

from sklearn_bdp._evaluation import Assessment, NoAnswer

#: Level at which the training side speaks against the constant prediction. The holdout has to
#: score the subset above it, too: a useless one does so in every second case.
LEVEL = 0.05
#: Draws behind its critical value.
_DRAWS = 4_000


@dataclass(frozen=True)
class Choice:
    """What the training side chose; places are those of the proposals."""

    chosen: int
    constant: int | None
    #: How often the luckiest of so many useless subsets gets as far; NaN without a comparison.
    luck: float
    asked: bool  # whether a number of features was asked for
    baseline: int  # what is handed on where nothing is told from chance


def choose(proposals, setting, *, tol, target):
    """Return the :class:`Choice`; ``tol`` in score units or "auto", ``target`` units or a word."""
    levels = np.array([one.training for one in proposals])
    sizes = np.array([len(one.chosen) for one in proposals])
    places = np.flatnonzero(np.isfinite(levels)).tolist()
    constant = next((p for p in places if proposals[p].ranking == "constant"), None)
    others, asked = [p for p in places if p != constant], isinstance(target, int)
    if not others:
        return Choice(constant, constant, math.nan, asked, constant)
    if tol == "auto" and target is None:
        levels[others] = _smoothed(levels[others])
    # Smallest one at the highest level; stable features are chosen as they are.
    best = min(others, key=lambda place: (-levels[place], sizes[place]))
    best = others[-1] if proposals[others[-1]].ranking == "stable" else best
    chosen, luck = best, math.nan
    if tol != "auto" and target is None:
        # A difference of .05 is within a tolerance of .05 however it is rounded.
        least = levels[best] - tol / (setting.metric.upper - setting.metric.lower) - 1e-12
        near = [place for place in others if levels[place] >= least]
        chosen = min(near, key=lambda place: (sizes[place], -levels[place]))
    baseline = min(others, key=lambda place: sizes[place])  # the one best
    if constant is not None:
        luck = _luck(proposals, others, best, constant, setting)
        if proposals[constant].columns:  # fixed features alone
            baseline = constant
            chosen = constant if levels[constant] >= levels[chosen] and not asked else chosen
    return Choice(chosen, constant, luck, asked, baseline)


def _smoothed(levels):
    """Return what subsets are compared by, smoothed along the path: 1/4, 1/2, 1/4.

    Neighbours on a path share most of their features, and the maximum of a smooth curve is found
    more surely: .766 instead of .759 on fresh records (eight true of 2,000 features, 225 records).
    """
    before, after = [levels[0], *levels[:-1]], [*levels[1:], levels[-1]]
    return (np.array(before) + 2.0 * levels + np.array(after)) / 4.0


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

    The gains are treated as jointly normal with the covariance of their per-record scores
    (Chernozhukov, Chetverikov and Kato 2013): subsets of one path share most of their records'
    fates, so that Bonferroni's correction asks too much of a few hundred records.
    """
    least = proposals[constant].scores
    if not proposals[best].training > proposals[constant].training:
        return 1.0
    alone = proposals[best].beyond is None
    gains = np.array([
        proposals[place].scores - least if alone else proposals[place].beyond for place in places
    ])  # fmt: skip
    gains = gains[:, np.isfinite(gains).all(axis=0)]
    own = gains[places.index(best)]
    # As if one more record changed sides, so that a few lucky ones are no certainty.
    variance = (own.var() + 1.0 / own.size) / min(own.size, setting.n_effective)
    ahead = own.mean() / math.sqrt(variance) / (1.0 if alone else overlap(setting.folds))
    gains = gains - gains.mean(axis=1, keepdims=True)
    gains /= np.maximum(np.sqrt((gains**2).sum(axis=1, keepdims=True)), 1e-12)
    values, vectors = np.linalg.eigh(gains @ gains.T)
    draws = np.random.default_rng(0).standard_normal((_DRAWS, len(gains)))
    draws = (draws * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    return float(np.mean(draws.max(axis=1) >= ahead))


# -- what the holdout says ------------------------------------------------------------------------


def unverified(proposals):
    """Return what is known of the proposals before the holdout was asked."""
    return [Assessment(one.columns, one.training, NoAnswer("not asked")) for one in proposals]


def verify(verifier, proposals, choice, found, most):
    """Put ``most`` of the proposals, or all, to the holdout; enter what it says in ``found``.

    The chosen subset is asked alone, before the constant: lone queries get narrower intervals.
    """
    training = np.array([one.training for one in proposals])
    left = set(np.flatnonzero(np.isfinite(training)).tolist()) - {choice.chosen, choice.constant}
    rest = sorted(left, key=lambda place: -training[place])
    rest = rest if most == "all" else rest[: most - 1]
    for places in ([choice.chosen], [choice.constant, *rest]):
        ask(verifier, proposals, found, places)


def ask(verifier, proposals, found, places):
    """Put some proposals to the holdout as one batch, and enter what it says."""
    places = [
        place for place in places if place is not None and isinstance(found[place].answer, NoAnswer)
    ]
    if places:
        training = [proposals[place].training for place in places]
        asked = verifier.assess([proposals[place].columns for place in places], training)
        for place, answer in zip(places, asked, strict=True):
            found[place] = answer


def judge(found, choice, *, verified):
    """Return whether the chosen subset helps, as far as is known, and is proved to.

    ``found``: what was released of the proposals; ``verified``: whether the holdout was asked.
    """
    if math.isnan(choice.luck):
        return choice.constant is None or choice.asked, False
    best, constant = found[choice.chosen], found[choice.constant].answer
    agreed = not verified or best.rank > constant.value
    return bool(choice.luck <= LEVEL and agreed), bool(best.answer.lower > constant.upper)


def path_table(proposals, found, chosen, metric):
    """Return ``accuracy_path_``: one entry per subset in each array, in score units."""

    def scores(name):
        return metric.from_unit(np.array([getattr(one.answer, name) for one in found]))

    features = np.empty(len(proposals), dtype=object)
    features[:] = [one.columns for one in proposals]
    return {
        "ranking": np.array([one.ranking for one in proposals]),
        "n_features": np.array([len(one.columns) for one in proposals]),
        "features": features,
        "training_score": metric.from_unit(np.array([one.training for one in found])),
        "holdout_score": scores("value"),
        "holdout_lower": scores("lower"),
        "holdout_upper": scores("upper"),
        "answered_from": np.array([one.answer.source for one in found]),
        "selected": np.arange(len(proposals)) == chosen,
    }
