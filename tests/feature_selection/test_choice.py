"""Which subset is chosen and what is said of it, by hand-made paths."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import ndtri
from sklearn.feature_selection import f_regression
from sklearn.linear_model import LinearRegression
from sklearn.metrics import cohen_kappa_score

from sklearn_bdp._evaluation import Assessment
from sklearn_bdp.feature_selection._choice import (
    LEVEL,
    Choice,
    choose,
    judge,
    overlap,
)
from sklearn_bdp.feature_selection._proposals import Proposal, _beyond
from sklearn_bdp.feature_selection._rankings import Records, univariate_scores

N = 400
ALL = np.arange(N)
#: Folds that share no records: scores spread as those of fresh records do.
APART = [(range(10**9), ALL)]


def setting(folds=APART):
    metric = SimpleNamespace(is_mean=True, lower=0.0, upper=1.0)
    return SimpleNamespace(metric=metric, n_effective=N, folds=folds)


def proposal(ranking, size, score, *, hits=None, beyond=None):
    """Return a proposal of ``size`` features; its training side is the mean of ``hits``."""
    if hits is None:
        hits = np.zeros(N)
        hits[: round(score * N)] = 1.0
    units = tuple(range(size))
    return Proposal(ranking, units, units, np.asarray(hits, dtype=float), beyond=beyond)


def path(scores, *, ranking="univariate"):
    return [proposal(ranking, 2**place, score) for place, score in enumerate(scores)]


CONSTANT = proposal("constant", 0, 0.5)


def chosen(proposals, *, tol="auto", target=None, folds=APART):
    return choose(proposals, setting(folds), tol=tol, target=target)


def test_a_lucky_peak_loses_to_a_plateau():
    entries = [CONSTANT, *path([0.60, 0.70, 0.58, 0.69, 0.695, 0.69, 0.60])]
    assert chosen(entries, tol=0.0).chosen == 2  # as asked for: the largest score
    assert chosen(entries).chosen == 5


def test_a_peak_of_any_sharpness_keeps_its_place_without_neighbours():
    given = [
        CONSTANT,
        proposal("given", 2, 0.70),
        proposal("given", 4, 0.58),
        proposal("given", 8, 0.69),
    ]
    assert chosen(given).chosen == 1


def test_of_equal_subsets_the_smaller_one_is_selected():
    assert chosen([CONSTANT, *path([0.7] * 4)]).chosen == 1


def test_a_tolerance_takes_the_smallest_subset_within_it():
    entries = [CONSTANT, *path([0.60, 0.66, 0.70, 0.71])]
    assert chosen(entries, tol=0.05).chosen == 2
    assert chosen(entries, tol=0.2).chosen == 1


@pytest.mark.parametrize(("lead", "taken"), [(0.01, "univariate"), (0.08, "l1")])
def test_a_later_ranking_must_be_clearly_ahead(lead, taken):
    rng = np.random.default_rng(0)
    first = (rng.random(N) < 0.7).astype(float)
    other = rng.permutation(first)
    other[rng.choice(np.flatnonzero(other == 0), round(lead * N), replace=False)] = 1.0
    entries = [CONSTANT, proposal("univariate", 4, 0, hits=first), proposal("l1", 4, 0, hits=other)]
    assert entries[chosen(entries).chosen].ranking == taken


def bar(hits, constant):
    """Return the smallest gain in standard errors that counts, for subsets with these hits."""
    low, high = 0.0, 10.0
    for _ in range(40):
        middle = (low + high) / 2.0
        shift = middle * np.sqrt((np.var(hits[0] - constant) + 1.0 / N) / N)
        moved = hits[0] - (hits[0] - constant).mean() + shift
        others = [row - (row - constant).mean() for row in hits[1:]]
        entries = [proposal("constant", 0, 0, hits=constant)]
        entries += [proposal("given", 1, 0, hits=row) for row in (moved, *others)]
        sure = chosen(entries).luck <= LEVEL
        low, high = (low, middle) if sure else (middle, high)
    return high


def test_what_chance_explains_counts_alike_subsets_once():
    """One subset many times over is one try; independent ones are as many as there are."""
    rng = np.random.default_rng(1)
    constant = np.zeros(N)
    one = rng.standard_normal(N)
    alike = [one.copy() for _ in range(20)]
    assert bar(alike, constant) == pytest.approx(-ndtri(LEVEL), abs=0.1)
    apart = list(rng.standard_normal((20, N)))
    sidak = -ndtri(1.0 - (1.0 - LEVEL) ** (1 / 20))
    assert bar(apart, constant) == pytest.approx(sidak, abs=0.1)


def answered(released, half=0.1, **fields):
    ends = {"released": released, "lower": released - half, "upper": released + half}
    return Assessment((0,), 0.75, **ends, **fields)


def judged(released, *, tol="auto", luck=LEVEL):
    """Return what is said of a subset that the training side scores .75, and what is proved."""
    found = [answered(0.5), answered(released)]
    return judge(found, Choice(1, 1, 0, luck), tol=tol)


def test_the_holdout_has_to_agree_that_the_selected_subset_helps():
    assert judged(0.48) == (False, False)
    assert judged(0.74) == (True, True)
    assert judged(0.6) == (True, False)
    assert judged(0.6, tol="certified") == (False, False)
    assert judged(0.74, tol="certified", luck=0.5) == (True, True)
    assert judged(0.74, luck=0.06) == (False, True)


def test_labels_dealt_out_at_random_explain_what_is_taken_away():
    """Over all 720 deals the mean of what is beyond chance is 0, whatever was predicted."""
    rng = np.random.default_rng(0)
    table, places = rng.random((6, 3)), np.array([0, 0, 0, 1, 1, 2])
    deals = [np.array(deal) for deal in itertools.permutations(places)]
    sums = [beyond(table, deal).sum() for deal in deals]
    assert np.mean(sums) == pytest.approx(0.0, abs=1e-12)
    scores = table[np.arange(6), places].mean()
    chance = np.mean([table[np.arange(6), deal].mean() for deal in deals])
    assert scores - beyond(table, places).mean() == pytest.approx(chance)


def beyond(table, places):
    return _beyond(table[np.arange(len(table)), places], table, places)


def test_a_score_that_looks_at_other_labels_is_not_asked_so():
    table, places = np.eye(2)[[0, 1, 0, 1]], np.array([0, 1, 1, 0])
    own = table[np.arange(4), places]
    assert _beyond(own, table, places) is not None
    own[0] = 0.3
    assert _beyond(own, table, places) is None


def test_of_hits_it_is_cohens_kappa():
    rng = np.random.default_rng(0)
    labels, predicted = rng.integers(0, 3, (2, 50))
    hits = (predicted[:, None] == np.arange(3)).astype(float)
    by_chance = (predicted == labels).mean() - beyond(hits, labels).mean()
    kappa = ((predicted == labels).mean() - by_chance) / (1.0 - by_chance)
    assert kappa == pytest.approx(cohen_kappa_score(labels, predicted))


def told(share, *, lead, seed=0):
    """Return a constant that hits ``share`` of the labels, and a subset with some ``lead``."""
    rng = np.random.default_rng(seed)
    labels = (np.arange(N) < round(share * N)).astype(int)
    predicted = rng.integers(0, 2, N)
    taken = rng.random(N) < lead
    predicted[taken] = labels[taken]
    entries = []
    for name, guess in (("constant", np.ones(N, dtype=int)), ("univariate", predicted)):
        table = np.column_stack([guess == 0, guess == 1]).astype(float)
        hits, size = table[np.arange(N), labels], int(name != "constant")
        entries.append(proposal(name, size, 0, hits=hits, beyond=beyond(table, labels)))
    return entries


def test_a_lucky_constant_is_no_yardstick_for_what_predictions_know():
    """With 58 % of one class by luck, little can be sure beside the constant: not .64."""
    entries = told(0.58, lead=0.25, seed=5)
    assert chosen(entries).luck <= LEVEL
    bare = [proposal(one.ranking, len(one.chosen), 0, hits=one.scores) for one in entries]
    assert chosen(bare).luck > chosen(entries).luck


def test_what_predictions_know_must_make_them_better_than_the_constant():
    assert chosen(told(0.9, lead=0.4)).luck == 1.0


def test_overlapping_folds_ask_for_more():
    folds = [(np.setdiff1d(np.arange(100), part), part) for part in np.split(np.arange(100), 5)]
    assert overlap(folds) == pytest.approx(1.5)
    assert overlap(folds * 10) == pytest.approx(1.5)
    entries = told(0.5, lead=0.15, seed=1)
    assert chosen(entries).luck < chosen(entries, folds=folds).luck


def test_regression_correlations_rank_as_f_regression_does():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((200, 40)) + 5.0, rng.standard_normal(200)
    masks = rng.random((3, 200)) < 0.7
    found = univariate_scores(Records.of(X, y, LinearRegression()), masks)
    for mask, scores in zip(masks, found, strict=True):
        np.testing.assert_array_equal(
            np.argsort(-scores), np.argsort(-f_regression(X[mask], y[mask])[0])
        )
