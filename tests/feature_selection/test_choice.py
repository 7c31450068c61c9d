"""Which subset is chosen and what is said of it, by hand-made paths."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import ndtri
from sklearn.feature_selection import f_regression
from sklearn.linear_model import LinearRegression
from sklearn.metrics import roc_auc_score

from sklearn_bdp._evaluation import Assessment
from sklearn_bdp.feature_selection._choice import (
    LEVEL,
    Choice,
    choose,
    judge,
    overlap,
)
from sklearn_bdp.feature_selection._proposals import Proposal, contributions
from sklearn_bdp.feature_selection._rankings import Records, univariate_scores
from sklearn_bdp.metrics import ScoreShape

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
    ends = {"lower": released - half, "upper": released + half}
    return Assessment((0,), 0.75, SimpleNamespace(value=released, **ends, **fields))


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


def scored(rows, index, kind="classes", counted=None):
    """Return raw scores by class, as an evaluation of training records holds them."""
    shape = ScoreShape(kind, classes=tuple(map(str, range(index.max() + 1))), counted=counted)
    return SimpleNamespace(rows=np.asarray(rows, dtype=float), index=index, shape=shape)


def test_contributions_to_an_area_are_its_mean_and_delongs_variance():
    rng = np.random.default_rng(0)
    index, rows = (rng.random(80) < 0.3).astype(int), np.round(rng.standard_normal(80), 1)
    found = contributions(scored(rows + index, index, "pairs"))
    assert found.mean() == pytest.approx(roc_auc_score(index, rows + index))
    won = (rows + index)[index == 1][:, None] - (rows + index)[index == 0][None, :]
    won = (won > 0) + 0.5 * (won == 0)
    delong = (
        won.mean(axis=1).var() / (index == 1).sum() + won.mean(axis=0).var() / (index == 0).sum()
    )
    assert found.var() / 80 == pytest.approx(delong)


def test_contributions_to_recalls_are_their_mean_and_leave_other_classes_alone():
    rng = np.random.default_rng(1)
    index = rng.permutation(np.repeat([0, 1, 2], [30, 10, 5]))
    hits = (rng.random(45) < 0.6).astype(float)
    recalls = np.array([hits[index == one].mean() for one in range(3)])
    found = contributions(scored(hits, index))
    assert found.mean() == pytest.approx(recalls.mean())
    assert found.var() / 45 == pytest.approx(
        sum(hits[index == one].var() / (index == one).sum() for one in range(3)) / 9
    )
    alone = contributions(scored(hits, index, counted=(1,)))
    assert alone.mean() == pytest.approx(recalls[1])
    np.testing.assert_allclose(alone[index != 1], recalls[1])


def told(share, *, lead, seed=0):
    """Return a constant that hits ``share`` of the labels, and a subset with some ``lead``."""
    rng = np.random.default_rng(seed)
    labels = (np.arange(N) < round(share * N)).astype(int)
    predicted = rng.integers(0, 2, N)
    taken = rng.random(N) < lead
    predicted[taken] = labels[taken]
    entries = []
    for name, guess in (("constant", np.ones(N, dtype=int)), ("univariate", predicted)):
        hits, size = (guess == labels).astype(float), int(name != "constant")
        beyond = contributions(scored(hits, labels)) - 0.5
        entries.append(proposal(name, size, 0, hits=hits, beyond=beyond))
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
