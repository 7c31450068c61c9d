import warnings

import numpy as np
import pytest

from benchmarks.mechanisms import MultiplicativeWeights
from sklearn_bdp.mechanisms import Thresholdout
from tests.facts import refused, warned


def rule(threshold=0.05, **options):
    scales = dict.fromkeys(("threshold_scale", "query_scale", "answer_scale"), 1e-4)
    return Thresholdout(threshold, **scales, random_state=0, **options)


@pytest.fixture
def population():
    rng = np.random.default_rng(0)
    histogram = rng.dirichlet(np.full(16, 0.3))
    return histogram, (rng.random((400, 16)) < 0.5).astype(float)


def test_every_answer_is_within_the_threshold_and_updates_are_few(population):
    histogram, queries = population
    mechanism = MultiplicativeWeights(histogram, rule(), learning_rate=0.1)
    answers = mechanism.answer(queries)
    truth = queries @ histogram
    assert answers.answered.all()
    assert np.abs(answers.values - truth).max() < 0.06
    # Hardt, Rothblum 2010: each update of a mistake above 0.05 lowers the relative entropy.
    assert mechanism.n_above <= 4 * np.log(16) / 0.05**2
    assert mechanism.n_above < 60


def test_each_update_lowers_the_relative_entropy(population):
    histogram, queries = population
    mechanism = MultiplicativeWeights(histogram, rule(0.1), learning_rate=0.05)

    def divergence():
        return float(np.sum(histogram * np.log(histogram / mechanism.hypothesis)))

    for query in queries[:100]:
        divergence_before = divergence()
        n_updates = mechanism.n_above
        mechanism.answer([query])
        if mechanism.n_above > n_updates:
            assert divergence() < divergence_before
        else:
            assert divergence() == divergence_before


def test_the_hypothesis_stays_a_public_histogram(population):
    histogram, queries = population
    mechanism = MultiplicativeWeights(histogram, rule(), learning_rate=1.0)
    np.testing.assert_array_equal(mechanism.hypothesis, np.full(16, 1 / 16))
    answers = mechanism.answer(queries[:50])
    assert mechanism.hypothesis.sum() == pytest.approx(1.0)
    assert (mechanism.hypothesis > 0).all()
    assert mechanism.n_answered == 50
    assert len(answers) == 50


def test_batches_equal_single_queries(population):
    histogram, queries = population
    batch = MultiplicativeWeights(histogram, rule()).answer(queries[:80])
    single = MultiplicativeWeights(histogram, rule())
    values = [single.answer([query]).values[0] for query in queries[:80]]
    np.testing.assert_allclose(batch.values, values, atol=1e-12)


def test_the_budget_of_the_rule_is_the_number_of_updates(population):
    histogram, queries = population
    mechanism = MultiplicativeWeights(histogram, rule(budget=2))
    answers = mechanism.answer(queries)
    assert answers.above.sum() == 2
    assert mechanism.remaining_budget == 0
    assert not answers.answered.all()
    assert np.isnan(answers.values[~answers.answered]).all()


def test_empty_batches_cost_nothing(population):
    mechanism = MultiplicativeWeights(population[0], rule())
    assert len(mechanism.answer(np.empty((0, 16)))) == 0
    assert mechanism.n_answered == 0


def test_a_large_universe_gives_a_warning_and_a_huge_one_an_error():
    with warned(UserWarning, 8192):
        MultiplicativeWeights(np.full(8192, 1 / 8192), rule())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        MultiplicativeWeights(np.full(64, 1 / 64), rule())
        with refused(ValueError, "universe"):
            MultiplicativeWeights(np.full(2**23, 2.0**-23), rule())


@pytest.mark.parametrize(
    ("histogram", "mechanism", "options"),
    [
        ([0.5, 0.6], rule(), {}),
        ([1.5, -0.5], rule(), {}),
        ([0.5, np.nan], rule(), {}),
        ([1.0], rule(), {}),
        ([0.5, 0.5], "thresholdout", {}),
        ([0.5, 0.5], rule(), {"learning_rate": 0.0}),
    ],
)
def test_bad_arguments_are_rejected(histogram, mechanism, options):
    with pytest.raises((TypeError, ValueError)):
        MultiplicativeWeights(histogram, mechanism, **options)


@pytest.mark.parametrize("queries", [[[0.5]], [0.5, 0.5], [[0.5, 2.0]], [[0.5, np.nan]]])
def test_bad_queries_cost_nothing(queries):
    mechanism = MultiplicativeWeights([0.5, 0.5], rule())
    with refused((TypeError, ValueError), "queries"):
        mechanism.answer(queries)
    assert mechanism.n_answered == 0
