import math

import numpy as np
import pytest

from sklearn_bdp.accounting.spending import (
    AlphaSpending,
    PredictiveCode,
    code_length,
    final_code_length,
    leakage_code_length,
)
from tests.accounting.routes import adaptive_failure
from tests.facts import refused

EVEN = AlphaSpending("even")
SPENDINGS = [
    AlphaSpending(),
    EVEN,
    AlphaSpending("final", 1),
    AlphaSpending("final", 40),
    AlphaSpending("even", 8),
]


def test_code_length_adds_the_batch_and_earlier_releases():
    assert code_length(released=0.0, batch_index=1, spending=EVEN) == pytest.approx(math.log(4))
    assert code_length(released=3.5, batch_index=4, spending=EVEN) == pytest.approx(
        3.5 + math.log(14)
    )
    assert code_length(released=3.5, batch_index=4) == pytest.approx(3.5 + math.log(200))


def test_weights_of_all_batches_sum_to_one():
    weights = [
        math.exp(-code_length(released=0.0, batch_index=t, spending=EVEN)) for t in range(1, 5000)
    ]
    assert sum(weights) == pytest.approx(1.0 - 3 / 5002)


@pytest.mark.parametrize("spending", SPENDINGS)
@pytest.mark.parametrize("n_batches", [0, 1, 2, 7, 100])
def test_weights_of_batches_and_report_sum_to_one(spending, n_batches):
    """G16: at any time and for any expected number of searches."""
    batch_weights = sum(spending.batch_weight(t) for t in range(1, n_batches + 1))
    report_weight = spending.report_weight(n_batches)
    assert batch_weights + report_weight == pytest.approx(1.0)
    length = final_code_length(released=2.0, n_batches=n_batches, spending=spending)
    assert length == pytest.approx(2.0 - math.log(report_weight))


def test_code_length_of_a_reserved_report_hardly_depends_on_batches():
    """G17, amended: a reserve of .9 and a = 1."""
    assert final_code_length(released=0.0, n_batches=0) == 0.0
    assert final_code_length(released=0.0, n_batches=1) == pytest.approx(-math.log(0.95))
    assert final_code_length(released=0.0, n_batches=20) == pytest.approx(-math.log(0.9 + 0.1 / 21))


def limit_code_lengths(code, metrics, *, n_steps, choose_first, history=()):
    """Yield the code length of each sequence of first limits that hold, one for each metric."""
    if not metrics:
        yield 0.0
        return
    metric, *later_metrics = metrics
    first_limit = choose_first(history)
    for step in (*range(max(code.first_limit(metric), first_limit), n_steps), None):
        updated_code = code.copy()
        length = updated_code.charge_limit(metric, step, n_steps, first_limit=first_limit)
        for later_length in limit_code_lengths(
            updated_code,
            later_metrics,
            n_steps=n_steps,
            choose_first=choose_first,
            history=(*history, step),
        ):
            yield length + later_length


@pytest.mark.parametrize("metrics", ["a", "aa", "aba", "aaab", "aaaaa"])
@pytest.mark.parametrize(
    "choose_first",
    [
        lambda history: 0,
        lambda history: len(history) % 3,
        lambda history: 3 if None in history else sum(history) % 4,
        lambda history: 2 if history and history[-1] == 0 else 0,
    ],
    ids=["last", "alternating", "by history", "after an honest one"],
)
def test_code_lengths_of_limits_of_mean_squares_are_those_of_a_probability(metrics, choose_first):
    """G15: after every history, for any order of metrics, and any public first limit (Kraft)."""
    lengths = list(
        limit_code_lengths(PredictiveCode(), list(metrics), n_steps=4, choose_first=choose_first)
    )
    assert len(lengths) > len(metrics)
    assert np.exp(-np.array(lengths)).sum() == pytest.approx(1.0, abs=1e-12)


def test_a_limit_that_holds_again_and_again_costs_next_to_nothing():
    code = PredictiveCode()
    assert code.charge_limit("log loss", 2, 7) > 3.0  # a surprise
    assert code.first_limit("log loss") == 2
    assert code.first_limit("accuracy") == 0
    later_lengths = [code.charge_limit("log loss", 2, 7) for _ in range(40)]
    assert later_lengths == sorted(later_lengths, reverse=True)
    assert later_lengths[-1] < 0.05
    assert sum(later_lengths[:9]) < 0.3  # the holdout has confirmed this limit
    rebuilt_code = PredictiveCode(**code.state())
    assert rebuilt_code.charge_limit("log loss", 2, 7) == code.charge_limit("log loss", 2, 7)


def test_an_expected_rise_of_a_limit_costs_as_little_as_an_honest_first_one():
    code = PredictiveCode()
    honest_length = code.copy().charge_limit("log loss", 0, 7)
    assert code.charge_limit("log loss", 2, 7, first_limit=2) == honest_length
    assert code.first_limit("log loss") == 2
    later_length = code.copy().charge_limit("log loss", 2, 7, first_limit=1)  # it never falls
    assert later_length == code.copy().charge_limit("log loss", 2, 7)


def test_limits_that_rise_again_and_again_cost_at_most_a_few_nats_each():
    code = PredictiveCode()
    lengths = [code.charge_limit("log loss", limit, 7) for limit in range(1, 7)]
    assert max(lengths) < 3.5
    assert code.charge_limit("log loss", None, 7) < 3.0
    assert code.charge_limit("log loss", None, 7) < 1.0  # learned at the highest limit


def test_leakage_spends_exactly_the_failure_probability():
    # All batches and a report: the union of fixed-query failures goes through G1 back to beta.
    information = 1.7
    beta = 0.03
    batch_size = 7
    n_batches = 12
    nats = leakage_code_length(information=information, failure=beta)
    total = 0.0
    for t in range(1, n_batches + 1):
        length = code_length(released=nats, batch_index=t) + math.log(batch_size)
        total += batch_size * beta * math.exp(-length)
    total += beta * math.exp(-final_code_length(released=nats, n_batches=n_batches))
    bound = adaptive_failure(math.log(total), information)
    assert bound <= beta * (1 + 1e-12)
    assert bound == pytest.approx(beta, rel=1e-3)


@pytest.mark.parametrize(
    "change", [{"released": math.nan}, {"released": -1.0}, {"batch_index": 0}, {"batch_index": -3}]
)
def test_impossible_arguments_of_code_length_raise(change):
    with refused(ValueError, next(iter(change))):
        code_length(**({"released": 2.0, "batch_index": 1} | change))


@pytest.mark.parametrize("information", [-1.0, np.nan])
def test_impossible_leakage_raises(information):
    with refused(ValueError, "information"):
        leakage_code_length(information=information, failure=0.05)


@pytest.mark.parametrize(
    ("name", "value"),
    [("spending", "pocock"), ("spending", None), ("n_searches", 0), ("n_searches", 2.5)],
)
def test_impossible_spending_raises(name, value):
    change = {"name" if name == "spending" else name: value}
    with refused((ValueError, TypeError), name):
        AlphaSpending(**change)
