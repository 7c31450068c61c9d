"""Limits of ROC AUC by bets on placements (theory G36): exact failure probabilities, and widths."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import norm

from sklearn_bdp.intervals.auc import (
    PlacementMoments,
    expected_half_width,
    placement_limits,
    placements,
)
from sklearn_bdp.intervals.concentration import PairsTail, half_width_at
from sklearn_bdp.intervals.jackknife import approximate_row
from sklearn_bdp.metrics import get_metric

MOMENTS = PlacementMoments(0.8, 0.06)


def test_placements_are_shares_of_beaten_scores():
    scores = np.array([3.0, 1.0, 0.0])
    np.testing.assert_allclose(placements(scores, np.array([1.0, 2.0])), [1.0, 0.25, 0.0])


@pytest.mark.parametrize("n_other", [1, 3])
@pytest.mark.parametrize("log_level", [-0.2, -0.5, -1.0])
@pytest.mark.parametrize(
    ("law", "other_law"),
    [
        ((0.1, 0.1, 0.8), (0.8, 0.1, 0.1)),
        ((0.0, 0.1, 0.9), (0.0, 0.9, 0.1)),
        ((0.05, 0.0, 0.95), (0.0, 1.0, 0.0)),
        ((0.5, 0.0, 0.5), (0.0, 1.0, 0.0)),
        ((0.0, 1.0, 0.0), (0.5, 0.0, 0.5)),
    ],
)
@pytest.mark.parametrize("moments", [MOMENTS, PlacementMoments(0.3, 0.001)])
def test_limits_fail_with_at_most_their_probability(law, other_law, log_level, n_other, moments):
    """All outcomes of four scores and one or three of the other class, with their probabilities."""
    pair_scores = np.sign(np.arange(3)[:, None] - np.arange(3)) / 2.0 + 0.5
    auc = float(np.array(law) @ pair_scores @ np.array(other_law))
    failures = np.zeros(2)
    limits: dict[tuple[float, ...], tuple[float, float]] = {}
    for scores in itertools.product(range(3), repeat=4):
        for others in itertools.product(range(3), repeat=n_other):
            probability = np.prod([law[score] for score in scores])
            probability *= np.prod([other_law[score] for score in others])
            if probability > 0.0:
                values = placements(np.array(scores), np.array(others))
                key = tuple(values)
                if key not in limits:
                    limits[key] = placement_limits(
                        values, n_other, moments=moments, log_inverse_alpha=-log_level
                    )
                lower, upper = limits[key]
                failures += probability * np.array([lower > auc + 1e-9, upper < auc - 1e-9])
    assert failures.max() <= math.exp(log_level)


@pytest.mark.parametrize("is_ranked_by_noise", [False, True])
def test_limits_cover_the_auc(is_ranked_by_noise):
    """Wrong moments and outliers cost width, and no coverage: 10% may fail on either side."""
    rng = np.random.default_rng(0)
    failures = np.zeros(2)
    n_runs = 150
    for _ in range(n_runs):
        scores = rng.normal(size=30) + (rng.random(30) < 0.9) * (0.0 if is_ranked_by_noise else 2.0)
        others = rng.normal(size=80)
        auc = 0.5 if is_ranked_by_noise else 0.9 * norm.cdf(math.sqrt(2.0)) + 0.1 * 0.5
        lower, upper = placement_limits(
            placements(scores, others), 80, moments=MOMENTS, log_inverse_alpha=math.log(10.0)
        )
        failures += [lower > auc, upper < auc]
    assert failures.max() <= 0.1 * n_runs + 3.0 * math.sqrt(0.09 * n_runs)


def binormal(n_positive, n_negative, rng):
    """Return the scores of both classes, with an AUC of .8."""
    return rng.normal(size=n_positive) + math.sqrt(2.0) * norm.ppf(0.8), rng.normal(size=n_negative)


@pytest.mark.parametrize("n", [250, 1_000])
def test_rare_classes_get_less_than_twice_the_width_of_one_look(n):
    """12% positives: at most 1.8 times the jackknife at the same level, pairs need more."""
    rng = np.random.default_rng(1)
    n_positive = round(0.12 * n)
    ratios = []
    for _ in range(5):
        positive, negative = binormal(n_positive, n - n_positive, rng)
        lower, upper = placement_limits(
            placements(positive, negative),
            len(negative),
            moments=MOMENTS,
            log_inverse_alpha=math.log(40.0),
        )
        y = np.repeat([1, 0], [len(positive), len(negative)])
        statistic = get_metric("roc_auc", y=y).unit_statistic
        sides = [(np.concatenate([positive, negative]), None)]
        one_look = approximate_row(statistic, y, sides, unit_codes=np.arange(n), alpha=0.05)
        ratios.append((upper - lower) / (one_look.upper - one_look.lower))
    assert np.mean(ratios) < 1.8
    pairs = half_width_at(PairsTail((n - n_positive, n_positive)), 0.8, -math.log(40.0))
    expected = expected_half_width(
        n_positive, n - n_positive, moments=MOMENTS, log_inverse_alpha=math.log(40.0)
    )
    assert expected < pairs
    assert expected == pytest.approx(0.5 * (upper - lower), rel=0.35)


def test_equal_classes_are_better_compared_in_pairs():
    pairs = half_width_at(PairsTail((500, 500)), 0.8, -math.log(40.0))
    expected = expected_half_width(500, 500, moments=MOMENTS, log_inverse_alpha=math.log(40.0))
    assert pairs < expected
