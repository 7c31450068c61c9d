"""Exact limits of precision, Jaccard and F1 (theory G34), by enumeration of small holdouts."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import multinomial

from sklearn_bdp.correlation import Independent
from sklearn_bdp.intervals.concentration import score_tail
from sklearn_bdp.intervals.ratios import (
    FloorGrid,
    RatioLimits,
    expected_floor,
    score_of_share,
    share_of_score,
    surprise_probability,
)
from sklearn_bdp.metrics.approximate import Predictions, RatioCounts, approximate_metric

SCALES = ("share", "f1")


def count_table(n):
    """Return all numbers of hits, counted misses and other records that make up ``n``."""
    return np.array([(h, m, n - h - m) for h in range(n + 1) for m in range(n + 1 - h)])


@pytest.mark.parametrize("n", [9, 25])
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("n_cells", [1, 3, 8])
def test_no_law_of_a_holdout_is_missed_more_often_than_the_level(n, scale, n_cells):
    counts = count_table(n)
    hits = counts[:, 0]
    counted = counts[:, 0] + counts[:, 1]
    # The holdout releases the cell of the denominator and that of the score alone.
    floor = (counted // n_cells) * n_cells
    score = score_of_share(hits / np.maximum(np.maximum(counted, floor), 1), scale)
    least = np.floor(score * 12) / 12
    most = np.minimum(least + 1 / 12, 1.0)
    worst = 0.0
    for failure in (0.2, 0.02, 0.001):
        level = np.full(1, math.log(failure))
        lower, upper = np.empty((2, len(counts)))
        for row in range(len(counts)):
            limits = RatioLimits(scale, int(floor[row]), float(floor[row]))
            lower[row] = limits.lower_limit(least[row : row + 1], level)[0]
            upper[row] = limits.upper_limit(most[row : row + 1], level)[0]
        for share, counted_share in itertools.product(
            np.linspace(0.02, 0.98, 25), (0.05, 0.3, 0.7, 1.0)
        ):
            law = [share * counted_share, (1.0 - share) * counted_share, 1.0 - counted_share]
            probabilities = multinomial.pmf(counts, n, law)
            target = score_of_share(share, scale)
            for missed in (target < lower - 1e-12, target > upper + 1e-12):
                worst = max(worst, probabilities[missed].sum() / failure)
    assert worst <= 1.0
    assert n_cells > 1 or worst > 0.3  # levels are used up if the number is released exactly


@pytest.mark.parametrize("scale", SCALES)
def test_limits_at_the_floor_contain_those_at_every_larger_number(scale):
    sizes = np.arange(1, 300)
    scores = np.linspace(0.0, 1.0, 41)
    for failure in (0.25, 0.02, 1e-4, 1e-9):
        level = np.full(scores.size, math.log(failure))
        limits_by_size = [RatioLimits(scale, int(size), float(size)) for size in sizes]
        lower = np.array([limits.lower_limit(scores, level) for limits in limits_by_size])
        upper = np.array([limits.upper_limit(scores, level) for limits in limits_by_size])
        assert (np.diff(lower, axis=0) >= -1e-12).all()
        assert (np.diff(upper, axis=0) <= 1e-12).all()


def test_score_and_share_are_inverse():
    shares = np.linspace(0.0, 1.0, 11)
    for scale in SCALES:
        assert share_of_score(score_of_share(shares, scale), scale) == pytest.approx(shares)


@pytest.mark.parametrize("share", [0.0, 0.02, 0.3, 1.0])
@pytest.mark.parametrize("surprise", [0.001, 0.3, 0.95])
def test_code_of_floors_is_a_code(share, surprise):
    cells = FloorGrid.below(share, n=200, n_train=600)
    n_below = len(cells.edges) - 2
    lengths = [cells.code_length(None, surprise)]
    if not cells.is_trivial:
        lengths += [cells.code_length(-cell, surprise) for cell in range(n_below + 1)]
    assert sum(math.exp(-length) for length in lengths) <= 1.0 + 1e-12
    # Every share is in exactly one cell, between its ends.
    for value in np.linspace(0.0, 1.0, 101):
        low, high = cells.ends(cells.cell_of(value))
        assert low - 1e-9 <= value <= high + 1e-9


def test_silence_about_floors_costs_little_and_surprises_are_learned():
    cells = FloorGrid.below(0.3, n=200, n_train=600)
    silence = sum(cells.code_length(None, surprise_probability(i, 0)) for i in range(100))
    assert silence < 0.35
    surprises = [cells.code_length(-1, surprise_probability(i, i)) for i in range(20)]
    assert surprises[0] < 5.0
    assert surprises[-1] < surprises[0] / 3.0


@pytest.mark.parametrize("name", ["f1", "precision", "jaccard"])
def test_one_record_moves_a_ratio_by_at_most_its_sensitivity(name):
    metric = approximate_metric(name, [0, 1])
    pairs = list(itertools.product([0, 1], repeat=2))
    for n in (1, 2, 4):
        for holdout in itertools.product(pairs, repeat=n):
            for position, replacement in itertools.product(range(n), pairs):
                neighbor = [*holdout]
                neighbor[position] = replacement
                before, after = (
                    metric.ratio_counts(Predictions(*np.array(records).T))
                    for records in (holdout, neighbor)
                )
                for floor in range(min(before.n_counted, after.n_counted) + 1):
                    change = abs(before.value(floor) - after.value(floor))
                    assert change <= before.sensitivity(floor) + 1e-12


@pytest.mark.parametrize("name", ["f1", "precision", "jaccard"])
def test_counts_give_the_score_of_scikit_learn(name):
    rng = np.random.default_rng(0)
    y, response = (rng.random((2, 60)) < 0.4).astype(int)
    metric = approximate_metric(name, y)
    predictions = Predictions(y, response)
    assert metric.ratio_counts(predictions).value(0) == pytest.approx(
        metric.score_predictions(predictions)
    )


def test_counts_are_hidden():
    assert "17" not in repr(RatioCounts("f1", 17, 23))


def test_a_tail_before_any_query_has_the_floor_expected_from_the_training_classes():
    shape = {"kind": "ratio", "family": "f1", "class_counts": (150, 50)}
    floor_before_queries = score_tail(Independent(), 100, **shape).ratio.floor
    cells, n_counted = expected_floor((150, 50), 100)
    assert n_counted == 25.0
    assert floor_before_queries == math.ceil(100 * cells.ends(None)[0])
    assert 5 < floor_before_queries < 25
    queried_tail = score_tail(Independent(), 100, **shape, class_floors=(20,))
    assert queried_tail.ratio.floor == 20


def test_nothing_is_claimed_without_a_floor():
    limits = RatioLimits("f1", 0, 10.0)
    level = np.full(2, -3.0)
    scores = np.array([0.3, 0.7])
    assert limits.lower_limit(scores, level).tolist() == [0.0, 0.0]
    assert limits.upper_limit(scores, level).tolist() == [1.0, 1.0]
