"""Tails of fixed queries: exact enumeration against every limit (theory G5, G8, G12)."""

import functools
import itertools
import math

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import logsumexp, rel_entr
from scipy.stats import binom

from sklearn_bdp.correlation import (
    DependencyGraph,
    Groups,
    Independent,
    MarkovChain,
    check_correlation,
)
from sklearn_bdp.correlation.tails import (
    bounded_lower_limit,
    chernoff_lower_limit,
    weighted_lower_limit,
)
from sklearn_bdp.intervals.concentration import ModelTail, score_tail
from tests.accounting.routes import halved
from tests.correlation.tails import bounded_log_tail, log_tail_above, worst_logs
from tests.facts import refused

LEVELS = (-1.4, -3.0, -8.0, -20.0, -60.0)
ROUNDING = 1.0 + 1e-9


def bits_distribution(means):
    """Distribution of the number of successes among independent bits."""
    table = np.ones(1)
    for mean in means:
        table = np.convolve(table, [1.0 - mean, mean])
    return table


def score_distribution(masses):
    """Values and probabilities of the mean of independent scores on a common grid of [0, 1]."""
    table = np.ones(1)
    for mass in masses:
        table = np.convolve(table, mass)
    return np.arange(len(table)) / (len(table) - 1), table


def profiles(n, rng, count):
    """Random profiles of n means, and the extreme ones: some fixed at 0 or 1, the rest equal."""
    yield from (rng.random(n) ** rng.integers(0, 6) for _ in range(count))
    for n_equal, mean, fixed_mean in itertools.product(
        range(1, n + 1), (0.02, 0.1, 0.4, 0.8), (0.0, 1.0)
    ):
        yield np.r_[np.full(n - n_equal, fixed_mean), np.full(n_equal, mean)]


# -- G8: independent records -----------------------------------------------------------------------


@pytest.mark.parametrize("n", [2, 3, 10, 57, 400])
@pytest.mark.parametrize("level", LEVELS)
def test_binomial_limits_invert_the_exact_tail(n, level):
    """G8: at the limit the binomial tail is the level itself."""
    tail = ModelTail(Independent(), n, binary=True)
    counts = np.arange(2, n + 1)
    limits = tail.lower_limit(counts / n, level)
    np.testing.assert_allclose(binom.logsf(counts - 1, n, limits), level, rtol=1e-7, atol=1e-6)
    assert (binom.logsf(counts - 1, n, limits) <= level).all()
    first = tail.lower_limit([0.0, 1 / n], level)
    assert first.tolist() == [0.0, pytest.approx(math.exp(level) / n)]


@pytest.mark.parametrize("n", [10**5, 10**6])
def test_binomial_limits_stay_exact_for_a_million_records(n):
    tail = ModelTail(Independent(), n, binary=True)
    counts = np.array([2, 17, n // 3, n - 5, n])
    for level in LEVELS:
        tails = binom.logsf(counts - 1, n, tail.lower_limit(counts / n, level))
        assert (tails <= level).all()
        np.testing.assert_allclose(tails, level, atol=2e-3)  # n times 1e-9 to be safe


def test_binomial_limits_need_the_two_conditions():
    """G8: for k successes the limit at level 1/4 keeps n mu <= k - 1; k = 1 needs alpha / n."""
    for n in (*range(2, 40), 100, 1000, 10**4):
        counts = np.arange(2, n + 1)
        limits = ModelTail(Independent(), n, binary=True).lower_limit(counts / n, math.log(0.25))
        assert (n * limits <= counts - 1 + 1e-6).all()
    # The counterexample at k = 1: one bit of mean n mu has a larger tail than n equal bits.
    alpha = 0.2
    n = 5
    clopper_pearson = 1.0 - (1.0 - alpha) ** (1.0 / n)
    assert n * clopper_pearson > alpha


def test_binomial_limits_hold_for_bits_of_different_means(capsys):
    """G8 (Hoeffding 1956): no profile of means is missed more often than the level says."""
    rng = np.random.default_rng(0)
    n_checked = 0
    worst_ratio = 0.0
    for n in (2, 3, 4, 6, 9):
        tail = ModelTail(Independent(), n, binary=True)
        for level in (-1.0, math.log(0.25), -2.0, -4.0, -9.0):
            limits = tail.lower_limit(np.arange(n + 1) / n, level)
            for means in profiles(n, rng, 150):
                miss_probability = bits_distribution(means)[limits > means.mean()].sum()
                worst_ratio = max(
                    worst_ratio, miss_probability / math.exp(min(level, math.log(0.25)))
                )
                n_checked += 1
    assert worst_ratio <= ROUNDING
    print(f"binomial: {n_checked} profiles, 0 violations, attained {worst_ratio:.4f}")
    # Equal means just below a limit attain the level.
    n = 9
    level = -3.0
    limit = float(ModelTail(Independent(), n, binary=True).lower_limit([4 / n], level)[0])
    miss_probability = bits_distribution(np.full(n, limit * (1 - 1e-9)))[4:].sum()
    assert miss_probability == pytest.approx(math.exp(level), rel=1e-5)


def test_bounded_limits_hold_for_any_scores():
    """G8: the least hinge, by convolution of scores on grids of [0, 1]."""
    rng = np.random.default_rng(1)
    n_checked = 0
    worst_ratio = 0.0
    for n, grid in itertools.product((1, 2, 3, 5, 8), (2, 3, 5)):
        tail = ModelTail(Independent(), n)
        for _ in range(15):
            probabilities = rng.dirichlet(np.full(grid, rng.choice([0.1, 0.5, 2.0])), size=n)
            if rng.random() < 0.5:
                probabilities[:] = probabilities[0]
            values, table = score_distribution(probabilities)
            mean = float(values @ table)
            for level in (-0.5, -1.5, -3.0, -7.0):
                miss_probability = table[tail.lower_limit(values, level) > mean].sum()
                worst_ratio = max(worst_ratio, miss_probability / math.exp(level))
                n_checked += 1
    assert n_checked == 900
    assert worst_ratio <= ROUNDING


def hinge_bound(mean, value, n):
    """The least hinge by the definition: E (B - t)_+ / (k - t) over all whole t below k."""
    counts = np.arange(n + 1)
    table = binom.pmf(counts, n, mean)
    return min(
        float(np.maximum(counts - t, 0) @ table) / (n * value - t)
        for t in range(math.ceil(n * value - 1e-9))
    )


def test_bounded_tails_are_the_least_hinge_by_enumeration():
    """G8: closed form against the definition; any t is valid, so the bound is never below it."""
    rng = np.random.default_rng(0)
    for _ in range(300):
        n = int(rng.integers(1, 200))
        value = float(rng.uniform(0.01, 1.0))
        mean = value * float(rng.uniform(0.05, 1.0))
        log_hinge_bound = math.log(min(1.0, hinge_bound(mean, value, n)))
        bound = float(bounded_log_tail(np.array(mean), np.array(value), n))
        assert log_hinge_bound <= bound + 1e-9
        assert bound <= log_hinge_bound + (0.1 if log_hinge_bound > -1.0 else 1e-3)
        level = -float(rng.uniform(0.5, 30.0))
        limit = float(ModelTail(Independent(), n).lower_limit([value], level)[0])
        assert limit == 0.0 or math.log(hinge_bound(limit, value, n)) <= level + 1e-9


def test_hinges_are_never_above_chernoff_and_bentkus():
    """G8: an exponential is a mixture of hinges, and Bentkus' proof goes through them."""
    for n, level in itertools.product((5, 60, 1250, 20_000), (-3.0, -8.0, -20.0)):
        values = np.linspace(0.02, 1.0, 50)
        limits = ModelTail(Independent(), n).lower_limit(values, level)
        assert (limits >= chernoff_lower_limit(values, np.full(50, -level / n)) - 1e-6).all()
        n_whole = np.floor(n * values + 1e-9)
        fraction = np.maximum(n * values - n_whole, 0.0)
        bentkus = 1.0 + (1.0 - fraction) * binom.logsf(n_whole - 1, n, limits)
        with np.errstate(invalid="ignore"):
            bentkus += np.where(fraction > 1e-9, fraction * binom.logsf(n_whole, n, limits), 0.0)
        # Just above the limit the hinge accepts, and so must Bentkus' larger bound.
        assert (bentkus >= level - 1e-3)[limits < values * (1 - 1e-6)].all()


def test_rounding_successes_up_is_invalid():
    """G8: a score of 0 or .1 reaches .1 with more than e times the rounded-up binomial tail."""
    for n, probability in itertools.product((1, 5), (0.01, 0.05)):
        mean = 0.1 * probability / n
        value = 0.1 / n
        assert probability > 3.0 * math.e * binom.sf(0, n, mean)
        assert probability <= math.exp(bounded_log_tail(np.array(mean), np.array(value), n))


@pytest.mark.parametrize("n", [2, 7, 40, 1000, 50_000])
def test_bounded_limits_invert_their_tail(n):
    values = np.r_[np.linspace(0.0, 1.0, 41), 1 / n, 0.123]
    for level in LEVELS:
        limits = ModelTail(Independent(), n).lower_limit(values, level)
        assert (limits[limits > 0] <= values[limits > 0]).all()
        tails = bounded_log_tail(limits, values, n)
        assert (tails[limits > 0] <= level + 1e-6).all()
        best = halved(
            lambda m, level=level: log_tail_above(Independent(), m, values, n) <= level,
            0.0 * values,
            values,
        )
        assert (limits >= best - max(1e-4, 2 / n)).all()


@pytest.mark.parametrize("n", [1, 2, 5, 7, 20, 100])
def test_bounded_limits_are_rejected_at_any_level(n):
    """G8 by summation in logarithms: some hinge or Chernoff's bound rejects each limit."""
    rng = np.random.default_rng(n)
    counts = np.arange(n + 1.0)
    corners = np.arange(float(n))
    values = np.append(rng.uniform(size=999), 0.63971)
    levels = -rng.uniform(1.0, 800.0, 1000)
    levels[-1] = -641.7  # with n = 7 by 296 nats too large once
    limits = bounded_lower_limit(values, levels, n)
    assert np.count_nonzero(limits) > 400
    log_hinges = np.log(np.maximum(counts - corners[:, None], 0.0) + 1e-320)
    for value, level, limit in zip(values, levels, limits, strict=True):
        if limit > 0.0:
            differences = n * value - corners[corners < n * value - 1e-6]
            terms = binom.logpmf(counts, n, limit) + log_hinges[: differences.size]
            best_hinge = (logsumexp(terms, axis=1) - np.log(differences)).min(initial=0.0)
            chernoff = -n * (rel_entr(value, limit) + rel_entr(1.0 - value, 1.0 - limit))
            assert min(best_hinge, chernoff) <= level + 1e-6 * abs(level)


@pytest.mark.parametrize("binary", [True, False])
def test_limits_are_monotone_and_below_their_values(binary):
    tail = ModelTail(Independent(), 300, binary=binary)
    values = np.linspace(0.0, 1.0, 907)
    for level in LEVELS:
        limits = tail.lower_limit(values, level)
        assert (np.diff(limits) >= -1e-12).all()
        assert (limits <= values).all()
        assert (limits <= tail.lower_limit(values, level + 1.0) + 1e-12).all()
        np.testing.assert_allclose(tail.upper_limit(1.0 - values, level), 1.0 - limits, atol=1e-9)


def test_binomial_limits_are_the_narrowest():
    """G8: n = 1,000 at .9, 3.7 nats above the two-sided level of .05."""
    level = math.log(0.025) - 3.7
    widths = []
    for lower, upper in (
        (lambda v: ModelTail(Independent(), 1000, binary=True).lower_limit(v, level), 0.9),
        (lambda v: ModelTail(Independent(), 1000).lower_limit(v, level), 0.9),
    ):
        widths.append(upper - float(lower([upper])[0]))
    assert widths == sorted(widths)
    assert widths[0] < 0.85 * math.sqrt(-level / 2000)  # Hoeffding


# -- G12: weights ----------------------------------------------------------------------------------


def worst_moment(t, mean, weights):
    """The largest E exp(t q) over means of the scores, by numerical optimisation."""
    expm1_weights = np.expm1(t * weights)

    def log_moment(means):
        return -np.sum(np.log1p(means * expm1_weights))

    optima = [
        minimize(
            log_moment,
            np.clip(start, 0.0, 1.0),
            bounds=[(0.0, 1.0)] * len(weights),
            constraints={"type": "eq", "fun": lambda means: weights @ means - mean},
            method="SLSQP",
        )
        for start in (np.full(len(weights), mean), mean * weights / weights.max())
    ]
    return max(-result.fun for result in optima if abs(weights @ result.x - mean) < 1e-6)


def test_water_filling_is_the_worst_profile_of_means():
    """G12: the closed form against SLSQP, 24 cases."""
    rng = np.random.default_rng(0)
    for _ in range(24):
        weights = rng.dirichlet(np.full(5, 1.0))
        t = rng.uniform(1.0, 20.0)
        mean = rng.uniform(0.05, 0.9)
        closed_form = worst_logs(t, weights, np.ones(5), np.array([mean]))[0]
        assert closed_form == pytest.approx(worst_moment(t, mean, weights), rel=1e-4, abs=1e-5)


def worst_miss(weights, means, level, limit):
    """Largest exact miss rate over profiles of means, in units of the level."""
    bits = np.array(list(itertools.product([0, 1], repeat=len(weights))))
    values = np.minimum(bits @ weights, 1.0)
    limits = limit(values, level)
    tables = np.prod(np.where(bits, means[:, None, :], 1.0 - means[:, None, :]), axis=2)
    miss_probabilities = (tables * (limits > (means @ weights)[:, None])).sum(axis=1)
    return float(miss_probabilities.max()) / math.exp(level)


def test_weighted_limits_hold_for_all_profiles(capsys):
    """G12: every subset of weighted bits, enumerated; one heavy weight attains the level."""
    rng = np.random.default_rng(0)
    checked = 0
    worst = 0.0
    for n, _ in itertools.product((2, 4, 7), range(5)):
        weights = rng.dirichlet(np.full(n, rng.choice([0.5, 3.0])))
        means = np.array(list(profiles(n, rng, 60)))
        for level in (-0.7, -2.0, -5.0):

            def limit(values, level, weights=weights):
                levels = np.full(values.shape, level)
                return weighted_lower_limit(values, levels, weights, np.ones(len(weights)))

            worst = max(worst, worst_miss(weights, means, level, limit))
            checked += len(means)
    assert checked > 3000
    assert worst <= ROUNDING
    print(f"weighted: {checked} profiles, 0 violations, attained {worst:.4f}")
    # All of one score's weight: q = 1 with probability mu, which is the level itself.
    weights = np.array([1.0 - 1e-9, 1e-9])
    level = -3.0
    limit = weighted_lower_limit(np.array([1.0]), np.array([level]), weights, np.ones(2))
    assert limit[0] == pytest.approx(math.exp(level), rel=0.01)


def test_equal_weights_give_chernoff_bounds():
    values = np.linspace(0.0, 1.0, 101)
    level = -7.0
    limits = weighted_lower_limit(values, np.full(101, level), np.array([1e-3]), np.array([1000]))
    chernoff = ModelTail(check_correlation([MarkovChain(np.full((2, 2), 0.5))]), 1000)
    np.testing.assert_allclose(limits, chernoff.lower_limit(values, level), atol=2e-5)


@pytest.mark.parametrize("make", [Groups, lambda codes: DependencyGraph(same_group(codes))])
def test_unequal_groups_are_far_sharper_than_their_largest(make):
    """G12: one group of 40 among 300 records; group means are scores of weight k / n."""
    codes = np.r_[np.zeros(40, int), 1 + np.arange(260)]
    tail = ModelTail(make(codes), 300)
    level = -6.0
    limit = float(tail.lower_limit([0.9], level)[0])
    hoeffding = 0.9 - math.sqrt(-level / 2.0 / tail.model.effective_n(300))
    largest = float(ModelTail(Independent(), 300 // 40).lower_limit([0.9], level)[0])
    assert limit > hoeffding + 0.02
    assert limit > largest + 0.3


def same_group(codes):
    return (codes[:, None] == codes[None, :]).astype(float)


def test_group_limits_hold_for_equal_records_in_groups():
    """G12: groups of 1, 2 and 5 whose records agree, enumerated."""
    sizes = np.array([1, 1, 2, 2, 5])
    rng = np.random.default_rng(3)
    worst = 0.0
    tail = ModelTail(Groups(np.repeat(np.arange(5), sizes)), 11)
    means = np.array(list(profiles(5, rng, 300)))
    for level in (-0.7, -2.0, -4.0):
        worst = max(worst, worst_miss(sizes / 11, means, level, tail.lower_limit))
    assert 0.3 < worst <= ROUNDING


# -- G12: classes ----------------------------------------------------------------------------------


@functools.cache
def test_the_mechanics_of_a_tail():
    tail = score_tail(Independent(), 100, kind="pairs", class_counts=(30, 40))
    assert tail == score_tail(Independent(), 100, kind="pairs", class_counts=(30, 40))
    assert hash(tail) is not None
    assert tail.lower_limit([0.2, 0.8], [-3.0, 0.0]).shape == (2,)
    assert tail.lower_limit([0.8], 0.0) == 0.0 or tail.lower_limit([0.8], 0.0) <= 0.8
    for kind in ("mean", "pairs", "class_means"):
        shape = {"class_counts": (30, 40)}
        scale = score_tail(Independent(), 100, kind=kind, **shape).standard_deviation(
            np.linspace(0, 1, 11)
        )
        assert (scale > 0).all()
        assert scale.max() < 0.2


@pytest.mark.parametrize(
    ("shape", "fact"),
    [
        ({"kind": "typo"}, "kind='typo'"),
        ({"kind": "pairs"}, "classes"),
        ({"kind": "pairs", "class_counts": (0, 4)}, "classes"),
        ({"kind": "known", "constant_score": 1.5}, "constant_score"),
    ],
)
def test_errors_name_the_missing_argument(shape, fact):
    with refused(ValueError, fact):
        score_tail(Independent(), 100, **shape)
