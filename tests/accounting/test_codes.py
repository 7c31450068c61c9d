import itertools
import math

import numpy as np
import pytest

from sklearn_bdp.accounting import (
    DecisionCode,
    adaptive_log_failure,
    code_length,
    decision_nats,
    leakage_code_length,
    value_code,
)
from sklearn_bdp.mechanisms import cell_midpoints


@pytest.mark.parametrize("length", [1, 2, 5, 9])
def test_decision_code_is_a_probability_on_strings(length):
    strings = list(itertools.product([False, True], repeat=length))
    kt = sum(math.exp(-decision_nats(length, sum(s))) for s in strings)
    mixture = 0.0
    for s in strings:
        code = DecisionCode()
        code.update(s)
        mixture += math.exp(-code.nats)
    assert kt == pytest.approx(1.0, abs=1e-12)
    assert mixture == pytest.approx(1.0, abs=1e-12)


def test_decision_code_never_shrinks_and_does_not_see_the_batching():
    rng = np.random.default_rng(0)
    decisions = rng.random(400) < np.linspace(0.5, 0.0, 400)
    one_by_one, at_once = DecisionCode(), DecisionCode()
    spent = []
    for d in decisions:
        one_by_one.update(d)
        spent.append(one_by_one.nats)
    at_once.update(decisions[:123])
    resumed = DecisionCode(**at_once.state())
    resumed.update(decisions[123:])
    assert (np.diff([0.0, *spent]) >= -1e-12).all()
    assert resumed.nats == pytest.approx(one_by_one.nats, abs=1e-9)


def test_decision_code_is_within_ln2_of_krichevsky_trofimov():
    rng = np.random.default_rng(1)
    for rate in (0.0, 0.01, 0.3, 1.0):
        decisions = rng.random(300) < rate
        code = DecisionCode()
        code.update(decisions)
        assert code.nats <= decision_nats(300, int(decisions.sum())) + math.log(2) + 1e-12


@pytest.mark.parametrize("resolution", [1.0, 0.3, 0.1, 0.01, 1 / 3, 0.0077])
@pytest.mark.parametrize("prediction", [-0.2, 0.0, 0.5, 0.97, 1.0, 1.4])
def test_value_code_is_a_probability_on_the_cells(resolution, prediction):
    midpoints = cell_midpoints(resolution)
    for scale in (1e-4, 0.02, 3.0):
        nats = value_code(prediction, midpoints, resolution=resolution, scale=scale)
        assert np.exp(-nats).sum() == pytest.approx(1.0, abs=1e-9)


def test_value_code_stays_finite_far_from_the_prediction():
    nats = value_code(0.0, 0.9995, resolution=1e-3, scale=1e-9)
    assert 10 < nats < 40


def test_code_lengths_satisfy_kraft_over_all_adaptive_transcripts():
    # Every node (history before a batch, index in the batch) of a small adaptive tree: the batch
    # sizes depend on the history, the values fall in three cells.
    """Theory G2′."""
    resolution, scale = 1 / 3, 0.1
    midpoints = (np.arange(3) + 0.5) / 3

    def visit(batch, history, values):
        k, b = len(history), sum(history)
        size = 1 + (b + k) % 2
        code = DecisionCode()
        code.update(history)
        total = np.array(
            [
                size
                * math.exp(
                    -code_length(
                        n_answered=k,
                        n_above=b,
                        value_nats=values,
                        batch_size=size,
                        batch_index=batch,
                        decisions=decisions,
                    )
                )
                for decisions in (None, code.nats)
            ]
        )
        if batch == 4:
            return total
        for decisions in itertools.product([False, True], repeat=size):
            for cells in itertools.product(range(3), repeat=sum(decisions)):
                spent = sum(
                    value_code(0.4, midpoints[c], resolution=resolution, scale=scale) for c in cells
                )
                total = total + visit(batch + 1, [*history, *decisions], values + spent)
        return total

    total = visit(1, [], 0.0)
    # Batches 1..4 hold Σ 1/(t(t+1)) = 4/5 of the weight, all of it used.
    np.testing.assert_allclose(total, 0.8, atol=1e-9)


def test_first_batch_pays_bonferroni_and_the_batch_prior_only():
    nats = code_length(n_answered=0, n_above=0, value_nats=0.0, batch_size=100, batch_index=1)
    assert nats == pytest.approx(math.log(200))
    capped = code_length(
        n_answered=0, n_above=0, value_nats=0.0, batch_size=100, batch_index=1, batch_cap=1
    )
    assert capped == pytest.approx(math.log(100))


@pytest.mark.parametrize(
    "change",
    [
        {"n_above": 3},
        {"n_above": -1},
        {"value_nats": math.nan},
        {"value_nats": -1.0},
        {"batch_size": 0},
        {"batch_index": 0},
        {"batch_index": 3, "batch_cap": 2},
        {"decisions": math.inf},
        {"decisions": -1.0},
    ],
)
def test_impossible_counts_raise(change):
    args = {"n_answered": 2, "n_above": 1, "value_nats": 0.0, "batch_size": 1, "batch_index": 1}
    with pytest.raises(ValueError, match=r"must be|at most"):
        code_length(**(args | change))


@pytest.mark.parametrize("scale", [0.0, -1.0, math.nan, math.inf])
def test_value_code_refuses_bad_scales(scale):
    with pytest.raises(ValueError, match="scale"):
        value_code(0.5, 0.5, resolution=0.1, scale=scale)


def test_leakage_code_spends_exactly_the_failure_probability():
    # All batches together: the union of fixed-query failures goes through G1 back to beta.
    information, beta = 1.7, 0.03
    total = 0.0
    for t in range(1, 5000):
        nats = leakage_code_length(
            information=information, failure=beta, batch_size=7, batch_index=t
        )
        total += 7 * beta * math.exp(-nats)
    bound = math.exp(adaptive_log_failure(math.log(total), information))
    assert bound <= beta
    assert bound == pytest.approx(beta, rel=1e-3)
    with pytest.raises(ValueError, match="information"):
        leakage_code_length(information=-1.0, failure=beta, batch_size=7, batch_index=1)
