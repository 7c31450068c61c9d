import math
import os
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from sklearn_bdp.mechanisms import Thresholdout
from sklearn_bdp.mechanisms.noise import (
    Exponentials,
    Pool,
    bit_sources,
    fine_step,
    grid_gaussian,
    grid_laplace,
    scaled_exp,
    to_grid,
)
from sklearn_bdp.mechanisms.thresholdout import released_values
from tests.facts import refused

resolutions = st.floats(1e-3, 1.0)


def source_of(words):
    """Return a source of bits that starts with the given words and continues with seeded ones."""
    fixed_words = list(words)
    rng = np.random.default_rng(0)

    def source(size):
        n_fixed = min(size, len(fixed_words))
        head = np.array([fixed_words.pop(0) for _ in range(n_fixed)], dtype=np.uint64)
        tail = rng.integers(0, 2**64, size=size - n_fixed, dtype=np.uint64)
        return np.concatenate([head, tail])

    return source


def seeded(seed=0):
    return bit_sources(seed, 1)[0]


def test_exponentials_are_unit_exponential_with_independent_signs():
    block = Exponentials(seeded(), 200_000)
    assert stats.kstest(block.values, "expon").pvalue > 1e-3
    assert abs(block.signs.mean()) < 5 / math.sqrt(200_000)
    assert abs(np.corrcoef(block.signs, block.values)[0, 1]) < 5 / math.sqrt(200_000)


def test_doubles_are_within_the_stated_error_of_the_exact_variate():
    block = Exponentials(seeded(1), 5000)
    for index, value in enumerate(block.values.tolist()):
        error = Fraction(2.0**-50) * (1 + Fraction(value))
        assert not block.exceeds(index, Fraction(value) + error)
        assert block.exceeds(index, Fraction(value) - error)


def test_small_uniforms_get_more_bits_until_the_double_is_accurate():
    # First word: prefix 0, then a word with 3 leading bits only, then a full one.
    block = Exponentials(source_of([1, 5, 2**63]), 1)
    prefix = (5 << 64) | 2**63
    length = 63 + 2 * 64
    assert block.values[0] == pytest.approx(length * math.log(2) - math.log(prefix), rel=1e-14)


def exp_by_series(bound, digits):
    """Fractions around exp(-bound): an alternating series brackets once its terms fall."""
    total = term = Fraction(1)
    k = 0
    while k <= bound or abs(term) > Fraction(1, 10**digits):
        k += 1
        term *= -bound / k
        total += term
    return sorted((total, total - term))


@pytest.mark.parametrize(
    "bound", [Fraction(1, 3), Fraction(7), Fraction(41, 3), Fraction(1, 10**9)]
)
@pytest.mark.parametrize("length", [63, 127, 511])
def test_scaled_exp_brackets_the_exponential_tightly(bound, length):
    low, high = map(Fraction, scaled_exp(bound, length))
    exact_low, exact_high = exp_by_series(bound, digits=200)
    assert low <= exact_low * 2**length
    assert exact_high * 2**length <= high
    assert high - low < max(high * Fraction(1, 10**8), 1)


def test_comparison_that_doubles_cannot_decide_is_decided_by_further_bits():
    # U starts like exp(-1): only the bits after the first word decide.
    prefix = int(scaled_exp(Fraction(1), 63)[0])
    below = Exponentials(source_of([prefix << 1, 0]), 1)
    above = Exponentials(source_of([prefix << 1, 2**64 - 1]), 1)
    assert below.exceeds(0, Fraction(1))
    assert not above.exceeds(0, Fraction(1))


def test_comparison_has_the_exact_probability_for_short_prefixes():
    # Enumerate all first words of a 63-bit prefix cut to its top 12 bits: the share of prefixes
    # decided "exceeds" plus the undecided one brackets exp(-x).
    bound = Fraction(3, 4)
    hits = 0
    for top in range(2**12):
        hits += Exponentials(source_of([top << 52]), 1).exceeds(0, bound)
    assert abs(hits / 2**12 - math.exp(-0.75)) <= 2.0**-12


def test_exceeds_nonpositive_bounds_always():
    block = Exponentials(seeded(), 3)
    assert all(block.exceeds(index, Fraction(0)) for index in range(3))
    assert all(block.exceeds(index, Fraction(-1)) for index in range(3))


@pytest.mark.parametrize("factor", [1, 3, 1000, 2**46])
def test_floor_is_exact(factor):
    """T2: further bits decide comparisons that doubles cannot."""
    block = Exponentials(seeded(2), 300)
    for index, part in enumerate(block.floor(factor).tolist()):
        assert block.exceeds(index, Fraction(part, factor)) or part == 0
        assert not block.exceeds(index, Fraction(part + 1, factor))


@pytest.mark.parametrize("t", [1, 2, 5])
def test_grid_laplace_has_the_discrete_laplace_distribution(t):
    """T2."""
    draws = np.concatenate([grid_laplace(seeded(s), 20_000, scale=t, step=1.0) for s in range(5)])
    support = np.arange(-6 * t, 6 * t + 1)
    # Canonne, Kamath, Steinke 2020: P[k] = (1 - e^{-1/t}) / (1 + e^{-1/t}) e^{-|k|/t}
    ratio = math.exp(-1 / t)
    distribution = (1 - ratio) / (1 + ratio) * ratio ** np.abs(support)
    counts = np.array([(draws == k).sum() for k in support])
    expected = distribution * draws.size
    assert (
        stats.chisquare(
            np.append(counts, draws.size - counts.sum()),
            np.append(expected, draws.size - expected.sum()),
        ).pvalue
        > 1e-3
    )


def test_grid_laplace_on_a_fine_grid_is_laplace_and_on_the_grid():
    step = 2.0**-44
    draws = np.concatenate([grid_laplace(seeded(s), 5000, scale=0.01, step=step) for s in range(4)])
    assert stats.kstest(draws, "laplace", args=(0, 0.01)).pvalue > 1e-3
    steps = draws / step
    assert (steps == np.rint(steps)).all()
    # The last bits are uniform: the arithmetic of the scale does not show in them.
    counts = np.bincount(np.mod(steps, 16).astype(int), minlength=16)
    assert stats.chisquare(counts).pvalue > 1e-3


def test_grid_gaussian_is_gaussian_and_on_the_grid():
    step = 2.0**-44
    draws = grid_gaussian(seeded(), 50_000, scale=0.02, step=step)
    assert stats.kstest(draws / 0.02, "norm").pvalue > 1e-3
    assert (draws / step == np.rint(draws / step)).all()


def test_stream_of_a_pool_does_not_depend_on_the_sizes_taken():
    def make_pool():
        source = seeded(7)
        return Pool(lambda: Exponentials(source, 10).values)

    expected = make_pool().take(57)
    pool = make_pool()
    stream = np.concatenate([pool.take(size) for size in (3, 1, 0, 53)])
    np.testing.assert_array_equal(stream, expected)


def test_sources_are_independent_and_keyed_by_position():
    first, second = bit_sources(3, 2)
    (keyed,) = bit_sources(3, 1, key=(5, 1))
    (repeated, _) = bit_sources(3, 2)
    words = first(8)
    assert not np.array_equal(words, second(8))
    assert not np.array_equal(words, keyed(8))
    np.testing.assert_array_equal(words, repeated(8))


def test_default_source_is_the_operating_system(monkeypatch):
    monkeypatch.setattr(os, "urandom", lambda size: b"\x07" * size)
    (source,) = bit_sources(None, 1)
    assert (source(3) == 0x0707070707070707).all()


def test_generator_as_random_state_is_advanced():
    rng = np.random.default_rng(0)
    (first,) = bit_sources(rng, 1)
    (second,) = bit_sources(rng, 1)
    assert not np.array_equal(first(4), second(4))


@pytest.mark.parametrize("random_state", [-1, 1.5, "0", True, np.random.RandomState(0)])
def test_unsupported_random_states_raise(random_state):
    with refused((TypeError, ValueError), "random_state"):
        bit_sources(random_state, 1)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_does_not_share_drawn_noise():
    source = bit_sources(None, 1)[0]
    pool = Pool(lambda: Exponentials(source, 64).values)
    pool.take(1)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, pool.take(1).tobytes())
        os._exit(0)
    os.waitpid(child, 0)
    variate_of_child = np.frombuffer(os.read(read, 8))[0]
    assert variate_of_child not in pool.take(63)


def test_queries_beyond_a_block_of_noise_are_answered():
    scales = {"threshold_scale": 0.01, "query_scale": 0.02, "answer_scale": 0.01}
    values = np.linspace(0.2, 0.8, 10_000)
    answers = Thresholdout(0.1, **scales, random_state=0).answer(values, values[::-1])
    assert answers.answered.all()


# -- The fine grid ---------------------------------------------------------------------------------


@given(resolutions, st.floats(0.0, 1.0))
def test_released_value_is_within_half_a_cell_of_a_value_in_range(resolution, value):
    released = released_values(np.array([value]), resolution)[0]
    assert abs(released - value) <= resolution / 2 + 1e-12


def test_released_value_without_cells_is_clipped_only():
    np.testing.assert_array_equal(released_values(np.array([-0.1, 0.3, 1.2]), 0.0), [0, 0.3, 1])


@given(st.floats(0.0, 1.0), st.floats(0.0, 1.0))
def test_rounding_to_the_grid_adds_at_most_one_step_to_a_difference(first, second):
    step = 2.0**-10
    on_grid = to_grid(np.array([first, second]), step)
    assert abs(on_grid[0] - on_grid[1]) <= math.ceil(abs(first - second) / step) * step
    assert (on_grid / step == np.rint(on_grid / step)).all()


@pytest.mark.parametrize("scale", [0.0, 1e-9, 0.1, 4.0, 5.0, 1000.0])
def test_sixty_four_scales_stay_exact_on_the_fine_grid(scale):
    step = fine_step(scale)
    assert math.log2(step).is_integer()
    assert 64 * scale / step <= 2.0**52
