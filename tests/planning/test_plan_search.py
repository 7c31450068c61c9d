"""Planning a year of searches: the forecast is what a holdout then charges."""

import math

import numpy as np
import pytest

from sklearn_bdp import ReusableHoldout
from sklearn_bdp.correlation import Groups, MarkovChain
from sklearn_bdp.planning import expected_half_width, plan_holdout, plan_search

P1 = [[0.9, 0.1], [0.2, 0.8]]


@pytest.mark.parametrize("correlation", [None, P1])
@pytest.mark.parametrize("n_corrections", [0, 2])
def test_a_holdout_charges_what_was_forecast(correlation, n_corrections):
    n, m, searches, score = 2000, 20, 4, 0.9
    forecast = expected_half_width(
        n,
        n_candidates=m,
        n_searches=searches,
        score=score,
        n_corrections=n_corrections,
        correlation=correlation,
    )
    holdout = ReusableHoldout(
        np.zeros((n, 1)), np.zeros(n), correlation=correlation, random_state=0
    )
    hits = (np.arange(n) < score * n).astype(float)
    for search in range(searches):
        values = np.full(m, score)
        if search == 0:
            values[:n_corrections] = [0.2, 0.5][:n_corrections]  # far enough not to teach 0.9
        answers = holdout.answer(values, np.tile(hits, (m, 1)))
    assert not answers.above.any()
    width = (answers.upper - answers.lower).min() / 2
    assert width == pytest.approx(forecast, rel=0.1)


def test_the_plan_meets_the_goal_and_hardly_less_would():
    year = {"n_candidates": 50, "n_searches": 5, "score": 0.8, "n_corrections": 2}
    n = plan_search(tau=0.06, **year)
    assert expected_half_width(n, **year) <= 0.06
    assert expected_half_width(int(0.99 * n), **year) > 0.06


def test_more_queries_more_dependence_and_middling_scores_need_more_records():
    base = plan_search(tau=0.08)
    assert plan_search(tau=0.08, n_searches=50) > base
    assert plan_search(tau=0.08, n_corrections=10) > base
    assert plan_search(tau=0.08, score=0.5) > base
    assert plan_search(tau=0.08, correlation=MarkovChain(P1)) > 3 * base
    assert plan_search(tau=0.08, correlation=Groups(np.arange(100) // 5)) > 3 * base
    assert base < plan_holdout(tau=0.08, n_queries=1000, budget=3) / 10


@pytest.mark.parametrize(
    "bad",
    [
        {"tau": 0.0},
        {"tau": 0.5},
        {"tau": math.nan},
        {"tau": 0.1, "n_candidates": 0},
        {"tau": 0.1, "n_searches": 1.5},
        {"tau": 0.1, "score": 1.1},
        {"tau": 0.1, "n_corrections": -1},
        {"tau": 0.1, "beta": 1.0},
    ],
)
def test_bad_input_raises(bad):
    with pytest.raises((ValueError, TypeError), match=list(bad)[-1]):
        plan_search(**bad)


def test_groups_are_planned_with_what_the_holdout_will_use():
    """Not with Hoeffding's form at the effective number of records: twice as many for visits."""
    year = {"n_candidates": 30, "n_searches": 1}
    assert plan_search(tau=0.1, correlation=Groups(np.arange(300)), **year) == plan_search(
        tau=0.1, **year
    )
    visits = np.repeat(np.arange(200), np.tile([1, 2, 3, 4], 50))  # 500 records
    n = plan_search(tau=0.1, correlation=Groups(visits), **year)
    whole = -(-n // 500) * 500
    there = Groups(np.repeat(np.arange(whole * 2 // 5), np.tile([1, 2, 3, 4], whole // 10)))
    rest = {"score": 0.9, "n_corrections": 3, **year}
    assert expected_half_width(whole, correlation=there, **rest) <= 0.1
    less = np.repeat(np.arange(240), np.tile([1, 2, 3, 4], 60))  # 600 records
    assert n > 600
    assert expected_half_width(600, correlation=Groups(less), **rest) > 0.1
