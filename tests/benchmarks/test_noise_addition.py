import math

import numpy as np
import pytest
from scipy import integrate, stats

from benchmarks.mechanisms import DataSplitting, NoiseAddition
from sklearn_bdp.mechanisms.thresholdout import to_cell
from tests.facts import refused


@pytest.mark.parametrize(("noise", "distribution"), [("laplace", "laplace"), ("gaussian", "norm")])
def test_errors_have_the_declared_distribution(noise, distribution):
    mechanism = NoiseAddition(0.01, n_queries=20_000, noise=noise, random_state=0)
    answers = mechanism.answer(np.zeros(20_000), np.full(20_000, 0.5))
    assert stats.kstest((answers.values - 0.5) / 0.01, distribution).pvalue > 1e-3


@pytest.mark.parametrize("mechanism", [NoiseAddition(0.1, n_queries=3), DataSplitting(3)])
def test_exactly_the_declared_number_of_answers_leaves(mechanism):
    answers = mechanism.answer(np.zeros(5), np.full(5, 0.5))
    np.testing.assert_array_equal(answers.answered, [True] * 3 + [False] * 2)
    np.testing.assert_array_equal(answers.above, answers.answered)
    assert np.isnan(answers.values[3:]).all()
    assert mechanism.remaining_budget == 0
    assert mechanism.n_answered == mechanism.n_above == 3
    assert math.isnan(mechanism.answer(0.5, 0.5).values)


def test_batching_does_not_change_answers():
    q = np.linspace(0, 1, 700)
    batch = NoiseAddition(0.1, n_queries=700, random_state=1).answer(q, q).values
    single = NoiseAddition(0.1, n_queries=700, random_state=1)
    np.testing.assert_array_equal(batch, [single.answer(v, v).values for v in q])


def test_answers_are_clipped_or_on_cells():
    q = np.full(500, 0.95)
    values = NoiseAddition(1.0, n_queries=500, random_state=0).answer(q, q).values
    assert values.min() == 0.0
    assert values.max() == 1.0
    values = NoiseAddition(1.0, n_queries=500, resolution=0.2, random_state=0).answer(q, q).values
    np.testing.assert_allclose(values, np.minimum((to_cell(values, 0.2) + 0.5) * 0.2, 1.0))


def test_levels_compose():
    mechanism = NoiseAddition(0.1, n_queries=4)
    assert mechanism.dp_epsilon(0.01) == pytest.approx(0.4)
    assert mechanism.zcdp_rho(0.01) == pytest.approx(4 * 0.1**2 / 2)
    gaussian = NoiseAddition(0.1, n_queries=4, noise="gaussian")
    assert gaussian.dp_epsilon(0.01) == math.inf
    assert gaussian.zcdp_rho(0.01) == pytest.approx(0.02)


def test_zcdp_of_laplace_answers_is_covered_by_the_stated_level():
    # Renyi divergence of Laplace at distance e scales, by integration, against rho * order.
    x = np.linspace(-60, 60, 600_001)
    for epsilon in (0.1, 1.0):
        rho = NoiseAddition(1.0, n_queries=1).zcdp_rho(epsilon)
        p = stats.laplace.logpdf(x)
        q = stats.laplace.logpdf(x - epsilon)
        for order in (1.5, 2, 8, 32):
            renyi = math.log(integrate.trapezoid(np.exp(order * p + (1 - order) * q), x)) / (
                order - 1
            )
            assert renyi <= rho * order


def test_parts_are_disjoint_and_cover_the_holdout():
    mechanism = DataSplitting(7)
    parts = []
    for _ in range(7):
        parts.append(mechanism.part(100))
        mechanism.answer(0.0, 0.5)
    np.testing.assert_array_equal(np.concatenate(parts), np.arange(100))
    assert {part.size for part in parts} == {14, 15}
    with refused(ValueError, "remaining_budget=0"):
        mechanism.part(100)


def test_parts_of_a_batch_are_those_of_single_queries():
    mechanism = DataSplitting(4)
    parts_ahead = [mechanism.part(10, ahead=index) for index in range(4)]
    for part in parts_ahead:
        np.testing.assert_array_equal(mechanism.part(10), part)
        mechanism.answer(0.0, 0.5)


def test_split_answers_are_exact():
    assert DataSplitting(1).answer(0.0, 1 / 3).values == 1 / 3
    assert DataSplitting(1, resolution=0.5).answer(0.0, 1 / 3).values == 0.25


@pytest.mark.parametrize(
    "make",
    [
        lambda: NoiseAddition(0.0, n_queries=1),
        lambda: NoiseAddition(math.nan, n_queries=1),
        lambda: NoiseAddition(0.1, n_queries=0),
        lambda: NoiseAddition(0.1, n_queries=1, noise="uniform"),
        lambda: NoiseAddition(0.1, n_queries=1, resolution=2),
        lambda: DataSplitting(0),
        lambda: DataSplitting(2.5),
        lambda: DataSplitting(5).part(4),
        lambda: DataSplitting(5).part(10, ahead=-1),
        lambda: DataSplitting(5).answer([0.5], [math.nan]),
        lambda: NoiseAddition(0.1, n_queries=1).answer([0.5], [1.5]),
        lambda: NoiseAddition(0.1, n_queries=1).dp_epsilon(0),
    ],
)
def test_bad_arguments_are_rejected(make):
    with pytest.raises((TypeError, ValueError)):
        make()
