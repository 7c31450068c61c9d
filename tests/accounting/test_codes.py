import math

import numpy as np
import pytest

from sklearn_bdp.accounting import adaptive_log_failure, code_length, leakage_code_length


def test_the_first_batch_pays_for_its_order_only_and_releases_are_added():
    assert code_length(released=0.0, batch_index=1) == pytest.approx(math.log(4))
    assert code_length(released=3.5, batch_index=4) == pytest.approx(3.5 + math.log(14))


def test_weights_of_all_batches_sum_to_one():
    weights = [math.exp(-code_length(released=0.0, batch_index=t)) for t in range(1, 5000)]
    assert sum(weights) == pytest.approx(1.0 - 3 / 5002)


def test_leakage_code_spends_exactly_the_failure_probability():
    # All batches together: the union of fixed-query failures goes through G1 back to beta.
    information, beta, size = 1.7, 0.03, 7
    total = 0.0
    for t in range(1, 5000):
        nats = leakage_code_length(information=information, failure=beta, batch_index=t)
        total += size * beta * math.exp(-nats - math.log(size))
    bound = math.exp(adaptive_log_failure(math.log(total), information))
    assert bound <= beta
    assert bound == pytest.approx(beta, rel=1e-3)


@pytest.mark.parametrize(
    "change",
    [{"released": math.nan}, {"released": -1.0}, {"batch_index": 0}, {"batch_index": -3}],
)
def test_impossible_accounts_raise(change):
    with pytest.raises(ValueError, match=next(iter(change))):
        code_length(**({"released": 2.0, "batch_index": 1} | change))


@pytest.mark.parametrize("information", [-1.0, np.nan])
def test_impossible_leakage_raises(information):
    with pytest.raises(ValueError, match="information"):
        leakage_code_length(information=information, failure=0.05, batch_index=1)
