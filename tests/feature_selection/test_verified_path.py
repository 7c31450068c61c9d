"""Which subset of a verified path is selected, by hand-made paths."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import ndtri

from sklearn_bdp.feature_selection._proposals import Proposal
from sklearn_bdp.feature_selection._verified_path import LEVEL, Entry, choose, confirm

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
        helps = chosen(entries).helps
        low, high = (low, middle) if helps else (middle, high)
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


def test_the_holdout_has_to_agree_that_the_selected_subset_helps():
    doubted = [CONSTANT, entry("univariate", 4, 0.75, released=0.48)]
    assert not chosen(doubted).helps
    agreed = [CONSTANT, entry("univariate", 4, 0.75, released=0.74)]
    assert chosen(agreed).helps
    assert chosen(agreed).certified
    wide = [CONSTANT, entry("univariate", 4, 0.75, released=0.6)]
    assert chosen(wide).helps
    assert not chosen(wide, tol="certified").helps
