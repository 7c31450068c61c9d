"""Which subset of a verified path is selected, by hand-made paths."""

import itertools
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import ndtri
from sklearn.metrics import cohen_kappa_score

from sklearn_bdp.feature_selection._proposals import Proposal, _beyond
from sklearn_bdp.feature_selection._verified_path import (
    DOUBT,
    SURE,
    Entry,
    Verdict,
    challenge,
    choose,
    confirm,
    overlap,
)

N = 400


def entry(ranking, size, score, *, released=None, half=0.1, hits=None):
    """Return an entry of ``size`` features; its training side is the mean of ``hits``."""
    if hits is None:
        hits = np.zeros(N)
        hits[: round(score * N)] = 1.0
    released = float(hits.mean()) if released is None else released
    found = SimpleNamespace(
        released=released,
        lower=released - half,
        upper=released + half,
        rank=min(released, float(hits.mean())),
    )
    units = tuple(range(size))
    return Entry(Proposal(ranking, units, units, np.asarray(hits, dtype=float)), found)


def path(scores, *, ranking="univariate", **params):
    return [entry(ranking, 2**place, score, **params) for place, score in enumerate(scores)]


CONSTANT = entry("constant", 0, 0.5)


def chosen(entries, *, tol="auto", **params):
    verdict = choose(entries, tol=tol, is_mean=True, n_effective=N, **params)
    return confirm(verdict, entries, tol=tol)


def test_a_lucky_peak_loses_to_a_plateau():
    entries = [CONSTANT, *path([0.60, 0.70, 0.58, 0.69, 0.695, 0.69, 0.60])]
    assert chosen(entries, tol=0.0).selected == 2  # as asked for: the largest score
    assert chosen(entries).selected == 5


def test_a_peak_of_any_sharpness_keeps_its_place_without_neighbours():
    given = [CONSTANT, entry("given", 2, 0.70), entry("given", 4, 0.58), entry("given", 8, 0.69)]
    assert chosen(given).selected == 1


def test_of_equal_subsets_the_smaller_one_is_selected():
    assert chosen([CONSTANT, *path([0.7] * 4)]).selected == 1


def test_a_tolerance_takes_the_smallest_subset_within_it():
    entries = [CONSTANT, *path([0.60, 0.66, 0.70, 0.71])]
    assert chosen(entries, tol=0.05).selected == 2
    assert chosen(entries, tol=0.2).selected == 1


@pytest.mark.parametrize(("lead", "taken"), [(0.01, "univariate"), (0.08, "l1")])
def test_a_later_ranking_must_be_clearly_ahead(lead, taken):
    rng = np.random.default_rng(0)
    first = (rng.random(N) < 0.7).astype(float)
    other = rng.permutation(first)
    other[rng.choice(np.flatnonzero(other == 0), round(lead * N), replace=False)] = 1.0
    entries = [CONSTANT, entry("univariate", 4, 0, hits=first), entry("l1", 4, 0, hits=other)]
    assert entries[chosen(entries).selected].proposal.ranking == taken


def bar(hits, constant):
    """Return the smallest gain in standard errors that counts, for subsets with these hits."""
    low, high = 0.0, 10.0
    for _ in range(40):
        middle = (low + high) / 2.0
        shift = middle * np.sqrt((np.var(hits[0] - constant) + 1.0 / N) / N)
        moved = hits[0] - (hits[0] - constant).mean() + shift
        others = [row - (row - constant).mean() for row in hits[1:]]
        entries = [entry("constant", 0, 0, hits=constant)]
        entries += [entry("given", 1, 0, hits=row, released=1.0) for row in (moved, *others)]
        verdict = chosen(entries)
        sure = verdict.helps and not verdict.doubtful
        low, high = (low, middle) if sure else (middle, high)
    return high


def test_what_chance_explains_counts_alike_subsets_once():
    """One subset many times over is one try; independent ones are as many as there are."""
    rng = np.random.default_rng(1)
    constant = np.zeros(N)
    one = rng.standard_normal(N)
    alike = [one.copy() for _ in range(20)]
    assert bar(alike, constant) == pytest.approx(-ndtri(SURE), abs=0.1)
    apart = list(rng.standard_normal((20, N)))
    sidak = -ndtri(1.0 - (1.0 - SURE) ** (1 / 20))
    assert bar(apart, constant) == pytest.approx(sidak, abs=0.1)


def test_the_holdout_has_to_agree_that_the_selected_subset_helps():
    doubted = [CONSTANT, entry("univariate", 4, 0.75, released=0.48)]
    assert not chosen(doubted).helps
    agreed = [CONSTANT, entry("univariate", 4, 0.75, released=0.74)]
    assert chosen(agreed).helps
    assert chosen(agreed).certified
    wide = [CONSTANT, entry("univariate", 4, 0.75, released=0.6)]
    assert chosen(wide).helps
    assert not chosen(wide, tol="certified").helps


def test_labels_dealt_out_at_random_explain_what_is_taken_away():
    """Over all 720 deals the mean of what is beyond chance is 0, whatever was predicted."""
    rng = np.random.default_rng(0)
    table, places = rng.random((6, 3)), np.array([0, 0, 0, 1, 1, 2])
    deals = [np.array(deal) for deal in itertools.permutations(places)]
    sums = [_beyond(own_first(table, deal), deal).sum() for deal in deals]
    assert np.mean(sums) == pytest.approx(0.0, abs=1e-12)
    scores = table[np.arange(6), places].mean()
    chance = np.mean([table[np.arange(6), deal].mean() for deal in deals])
    assert scores - _beyond(own_first(table, places), places).mean() == pytest.approx(chance)


def own_first(table, places):
    return np.column_stack([table[np.arange(len(table)), places], table])


def test_a_score_that_looks_at_other_labels_is_not_asked_so():
    table, places = np.eye(2)[[0, 1, 0, 1]], np.array([0, 1, 1, 0])
    scores = own_first(table, places)
    assert _beyond(scores, places) is not None
    scores[0, 0] = 0.3
    assert _beyond(scores, places) is None


def test_of_hits_it_is_cohens_kappa():
    rng = np.random.default_rng(0)
    labels, predicted = rng.integers(0, 3, (2, 50))
    hits = (predicted[:, None] == np.arange(3)).astype(float)
    by_chance = (predicted == labels).mean() - _beyond(own_first(hits, labels), labels).mean()
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
        hits = np.column_stack([guess == 0, guess == 1]).astype(float)
        found = entry(name, int(name != "constant"), 0, hits=hits[np.arange(N), labels])
        proposal = found.proposal
        beyond = _beyond(own_first(hits, labels), labels)
        proposal = Proposal(name, proposal.chosen, (), proposal.scores, beyond=beyond)
        entries.append(Entry(proposal, found.assessment))
    return entries


def test_a_lucky_constant_is_no_yardstick_for_what_predictions_know():
    """With 58 % of one class by luck, little can be sure beside the constant: not .64."""
    entries = told(0.58, lead=0.25, seed=5)
    verdict = chosen(entries)
    assert verdict.helps
    assert not verdict.doubtful
    bare = [Entry(Proposal(e.proposal.ranking, e.proposal.chosen, (), e.proposal.scores),
                  e.assessment) for e in entries]  # fmt: skip
    assert chosen(bare).doubtful


def test_what_predictions_know_must_make_them_better_than_the_constant():
    verdict = chosen(told(0.9, lead=0.4))
    assert verdict.helps is False


def test_overlapping_folds_ask_for_more():
    folds = [(np.setdiff1d(np.arange(100), part), part) for part in np.split(np.arange(100), 5)]
    assert overlap(folds) == pytest.approx(1.5)
    assert overlap(folds * 10) == pytest.approx(1.5)
    entries = told(0.5, lead=0.15, seed=1)
    assert not chosen(entries).doubtful
    assert chosen(entries, overlap=overlap(folds)).doubtful


@dataclass(frozen=True)
class Answer:
    """What the holdout said, as an ``Assessment`` does."""

    training: float
    released: float
    lower: float
    upper: float
    source: str = "training"
    key: str | None = "known"
    outcome: object = "evaluated"


def asked(released, source="holdout"):
    """Return the verdict and the interval after the holdout said so to the lone question."""
    constant, best = (
        Entry(told(0.5, lead=0.2)[place].proposal, Answer(0.6, 0.6, 0.3, 0.9)) for place in (0, 1)
    )
    record = SimpleNamespace(
        value=released, lower=released - 0.1, upper=released + 0.1, source=source
    )
    holdout = SimpleNamespace(recorded=lambda keys: dict.fromkeys(keys, record))
    verdict = Verdict(1, 1, 0, 0.0, True, False, True)
    best, verdict = challenge(SimpleNamespace(holdout=holdout), [constant, best], verdict)
    return verdict, best.assessment


def test_the_holdout_decides_where_the_training_side_is_in_doubt():
    verdict, found = asked(0.65)
    assert verdict.helps
    assert (found.released, found.lower, found.upper) == pytest.approx((0.6, 0.55, 0.75))
    assert not asked(0.35)[0].helps
    assert not asked(0.5, "training")[0].helps


def test_a_subset_far_from_sure_is_not_asked_about():
    verdict = chosen(told(0.5, lead=0.02))
    assert verdict.helps is False
    assert not verdict.doubtful
    assert 0 < SURE < DOUBT < 0.5
