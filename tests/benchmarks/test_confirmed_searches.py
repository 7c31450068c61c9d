"""Searches that cross-validation predicts well spend little information, for any split."""

import dataclasses

import pytest

from benchmarks.confirmed_searches import WORKLOADS, simulate_life


# The split of this seed holds more wrong labels than the training set: 26 nats in ten searches
# when mean squares of a kurtosis of 21 were expected to vary like those of normal scores.
@pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.SklearnBdpWarning")
def test_losses_of_a_heavy_tail_stay_cheap_on_an_unlucky_split():
    (workload,) = (work for work in WORKLOADS if work.scoring == "neg_brier_score")
    life = simulate_life(dataclasses.replace(workload, n_searches=3), 5)
    assert life.nats < 1.5
    assert life.forecast == pytest.approx(life.nats, rel=0.5)
