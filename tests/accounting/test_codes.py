import math

import numpy as np
import pytest

from sklearn_bdp.accounting.spending import (
    AlphaSpending,
    code_length,
    final_code_length,
    leakage_code_length,
)
from tests.accounting.routes import adaptive_failure
from tests.facts import refused

EVEN = AlphaSpending("even")
WAYS = [
    AlphaSpending(),
    EVEN,
    AlphaSpending("final", 1),
    AlphaSpending("final", 40),
    AlphaSpending("even", 8),
]


def test_the_first_batch_pays_for_its_order_only_and_releases_are_added():
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


@pytest.mark.parametrize("spending", WAYS)
@pytest.mark.parametrize("after", [0, 1, 2, 7, 100])
def test_a_report_takes_what_the_batches_before_it_left(spending, after):
    """G16: whenever it is given, and whatever number of searches was expected."""
    before = sum(spending.batch_weight(t) for t in range(1, after + 1))
    assert before + spending.report_weight(after) == pytest.approx(1.0)
    assert final_code_length(released=2.0, n_batches=after, spending=spending) == pytest.approx(
        2.0 - math.log(spending.report_weight(after))
    )


def test_a_reserved_report_pays_next_to_nothing_for_batches():
    """G17, amended: a reserve of .9 and a = 1."""
    assert final_code_length(released=0.0, n_batches=0) == 0.0
    assert final_code_length(released=0.0, n_batches=1) == pytest.approx(-math.log(0.95))
    assert final_code_length(released=0.0, n_batches=20) == pytest.approx(-math.log(0.9 + 0.1 / 21))


def test_leakage_spends_exactly_the_failure_probability():
    # All batches and a report: the union of fixed-query failures goes through G1 back to beta.
    information, beta, size, batches = 1.7, 0.03, 7, 12
    nats, total = leakage_code_length(information=information, failure=beta), 0.0
    for t in range(1, batches + 1):
        each = code_length(released=nats, batch_index=t) + math.log(size)
        total += size * beta * math.exp(-each)
    total += beta * math.exp(-final_code_length(released=nats, n_batches=batches))
    bound = adaptive_failure(math.log(total), information)
    assert bound <= beta * (1 + 1e-12)
    assert bound == pytest.approx(beta, rel=1e-3)


@pytest.mark.parametrize(
    "change", [{"released": math.nan}, {"released": -1.0}, {"batch_index": 0}, {"batch_index": -3}]
)
def test_impossible_accounts_raise(change):
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
