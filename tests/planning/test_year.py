"""The simulated year keeps its promises (the benchmark is the one that chose the constants)."""

import importlib.util
import math
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom

SCRIPTS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(autouse=True)
def _neighbours(monkeypatch):
    """Let a script import the one beside it, as when it is run."""
    monkeypatch.syspath_prepend(str(SCRIPTS))


def _load(name):
    spec = importlib.util.spec_from_file_location(name, SCRIPTS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(("n", "target", "years"), [(1000, 0.08, 8), (10_000, 0.027, 4)])
def test_a_year_of_searches_stays_narrow_and_right(n, target, years):
    # A handful of years scatter by a tenth; the slow test has the targets themselves.
    year = _load("simulate_year")
    row = year.summarise(n, year.Choice(), years)
    assert row["half-width"] <= target
    assert row["wrong"] == 0


@pytest.mark.slow
@pytest.mark.parametrize(("n", "target"), [(1000, 0.08), (10_000, 0.025)])
def test_a_thousand_years_reach_the_targets(n, target):
    year = _load("simulate_year")
    row = year.summarise(n, year.Choice(), 1000)
    assert row["half-width"] <= target
    assert row["wrong"] <= binom.isf(1e-3, 1000, 0.05)
    if n == 10_000:
        bonferroni = math.sqrt(math.log(2 * 100 / 0.05) / (2 * n))
        assert row["first"] <= 1.1 * bonferroni


def test_a_thousand_sequential_queries_of_which_ten_overfit():
    compare = _load("compare_guarantees")
    assert compare.as_used_width(10_000, 1000, 10, score=0.5) <= 0.095
    assert compare.as_used_width(10_000, 1000, 10) <= 0.06


def test_widths_of_the_selected_candidate_in_deviations():
    """G7: a first search near four deviations, the tenth near seven (Clopper-Pearson of a
    hundred models fixed in advance: 3.5)."""
    year = _load("simulate_year")
    row = year.summarise(1000, year.Choice(), 6)
    assert row["first in sd"] <= 4.3
    assert row["tenth in sd"] <= 7.4


def test_four_searches_of_a_pool_ask_every_candidate_once():
    real = _load("real_searches")
    rng, asked = np.random.default_rng(0), []
    scores = rng.integers(0, 2, (160, 20))
    pool = real.Pool(rng.normal(size=(160, 2)), scores.mean(axis=1), scores, 100)

    def answer(positions):
        asked.extend(positions.tolist())
        return scores[positions].mean(axis=1), np.zeros(len(positions)), np.ones(len(positions))

    assert real.play(pool, answer).shape == (4, 3)
    assert sorted(asked) == list(range(160))


def test_without_learning_the_year_spends_everything():
    year = _load("simulate_year")
    row = year.summarise(10_000, year.Choice(predictor="none"), 1, searches=3)
    assert row["above"] > 100
