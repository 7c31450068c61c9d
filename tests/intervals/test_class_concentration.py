"""Tails of scores by class at floors of their counts: exact enumeration (theory G12, G19, G20)."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import binom, multinomial

from sklearn_bdp.correlation import Groups, Independent
from sklearn_bdp.intervals.concentration import (
    ClassMeansTail,
    PairsTail,
    ProportionGrid,
    min_class_counts,
    needed_classes,
    proportion_grids,
    score_tail,
)
from sklearn_bdp.metrics import get_metric

LEVELS = (-0.3, -1.0, -2.0)


def auc_of_counts(low0, high0, low1, high1):
    """AUC of scores on two levels, from counts of negatives and of positives."""
    wins = high1 * low0 + 0.5 * (high1 * high0 + low1 * low0)
    return wins / ((low0 + high0) * (low1 + high1))


def binomial_pairs(n0, n1, p0, p1):
    """Counts of the higher level among negatives and positives, and their probabilities."""
    high0 = np.arange(n0 + 1)[:, None]
    high1 = np.arange(n1 + 1)[None]
    return high0, high1, binom.pmf(high0, n0, p0) * binom.pmf(high1, n1, p1)


@pytest.mark.parametrize("floors", [(3, 2), pytest.param((6, 5), marks=pytest.mark.slow), (2, 6)])
def test_auc_limits_hold_given_any_labels_above_the_floors(floors):
    """G20: exact, for every count of both classes that the floors allow."""
    tail = PairsTail(floors)
    worst_ratio = 0.0
    probability_pairs = ((0.0, 0.9), (0.0, 0.5), (0.3, 0.9), (0.5, 0.5), (0.9, 0.95), (0.2, 1.0))
    for level, (p0, p1) in itertools.product(LEVELS, probability_pairs):
        expected_auc = 0.5 + 0.5 * (p1 - p0)
        for n0, n1 in itertools.product(range(floors[0], 9), range(floors[1], 9)):
            high0, high1, table = binomial_pairs(n0, n1, p0, p1)
            values = np.clip(auc_of_counts(n0 - high0, high0, n1 - high1, high1), 0.0, 1.0)
            lower_miss = table[tail.lower_limit(values, level) > expected_auc].sum()
            upper_miss = table[tail.upper_limit(values, level) < expected_auc].sum()
            worst_ratio = max(
                worst_ratio, lower_miss / math.exp(level), upper_miss / math.exp(level)
            )
    assert 0.3 < worst_ratio <= 1.0


@pytest.mark.parametrize("floors", [(3, 2), pytest.param((6, 5), marks=pytest.mark.slow), (0, 4)])
def test_balanced_accuracy_limits_hold_given_any_labels_above_the_floors(floors):
    """G20: also where a class may be missing, whose recall then is anything."""
    tail = ClassMeansTail(floors)
    worst_ratio = 0.0
    for level, (p0, p1) in itertools.product(LEVELS, ((0.9, 0.9), (0.5, 1.0), (0.95, 0.1))):
        expected_score = 0.5 * (p0 + p1)
        tables = []
        values = []
        for n0, n1 in itertools.product(range(floors[0], 9), range(floors[1], 9)):
            hits0, hits1, table = binomial_pairs(n0, n1, p0, p1)
            filled = 0.5 * (n0 == 0)
            tables.append(table)
            values.append(0.5 * ((hits0 + filled) / max(n0, 1) + hits1 / n1))
        split_points = np.cumsum([table.size for table in tables])[:-1]
        flat_values = np.concatenate([table_values.ravel() for table_values in values])
        lower = tail.lower_limit(flat_values, level)
        upper = tail.upper_limit(flat_values, level)
        for table, lower_part, upper_part in zip(
            tables, np.split(lower, split_points), np.split(upper, split_points), strict=True
        ):
            misses = (
                table.ravel()[lower_part > expected_score].sum(),
                table.ravel()[upper_part < expected_score].sum(),
            )
            worst_ratio = max(worst_ratio, max(misses) / math.exp(level))
    assert worst_ratio <= 1.0


def test_recall_limits_hold_at_every_count_above_the_floor():
    """G20: the tail of one class; a binomial tail at the floor would not (2 of 3 at .34)."""
    tail = ClassMeansTail((3,))
    for level, recall, n in itertools.product(LEVELS, (0.1, 0.4, 0.8, 0.97), range(3, 40)):
        hits, _, table = binomial_pairs(n, 0, recall, 0.5)
        miss_probability = table[tail.lower_limit(hits / n, level) > recall].sum()
        assert miss_probability <= math.exp(level)


def test_limits_rise_with_the_floors():
    values = np.linspace(0.0, 1.0, 31)
    for smaller_floors, larger_floors in (((3, 5), (4, 5)), ((10, 80), (40, 80)), ((0, 7), (1, 7))):
        for tail_class in (PairsTail, ClassMeansTail):
            for level in (-1.0, -4.0, -9.0):
                lower_of_smaller_floors, lower_of_larger_floors = (
                    tail_class(floors).lower_limit(values, level)
                    for floors in (smaller_floors, larger_floors)
                )
                assert (lower_of_smaller_floors <= lower_of_larger_floors + 1e-9).all()


@pytest.mark.parametrize("shape_kind", ["pairs", "class_means"])
def test_slices_of_patients_are_covered_by_the_least_count(shape_kind):
    """G19: exact over four patients with two visits each and two slices, labels that change."""
    tail_of = PairsTail if shape_kind == "pairs" else ClassMeansTail
    rng = np.random.default_rng(0)
    worst_ratio = 0.0
    # Visits are negative low, negative high, positive low, positive high; one in each slice.
    outcomes = list(itertools.product(range(4), repeat=2))
    counts = compositions(4, 16)
    for _ in range(4):
        visits = rng.dirichlet(np.full(16, 0.4)).reshape(4, 4)  # of a patient, in any order
        visit_probabilities = 0.5 * (visits.sum(axis=0) + visits.sum(axis=1))
        pair_probabilities = (
            0.5 * (np.diag(visit_probabilities) + 0.5 * (visits + visits.T)).ravel()
        )  # each slice picks one
        class_shares = np.array(
            [
                visit_probabilities[0] + visit_probabilities[1],
                visit_probabilities[2] + visit_probabilities[3],
            ]
        )
        high_probabilities = (
            np.array([visit_probabilities[1], visit_probabilities[3]]) / class_shares
        )
        expected_score = 0.5 + 0.5 * (high_probabilities[1] - high_probabilities[0])
        if shape_kind == "class_means":
            expected_score = 0.5 * (1.0 - high_probabilities[0] + high_probabilities[1])
        table = multinomial.pmf(counts, 4, pair_probabilities)
        values = np.zeros(len(counts))
        min_counts = np.full((len(counts), 2), 9)
        for slice_index in range(2):
            n = np.zeros((len(counts), 4))
            for column, outcome in enumerate(outcomes):
                n[:, outcome[slice_index]] += counts[:, column]
            n0 = n[:, 0] + n[:, 1]
            n1 = n[:, 2] + n[:, 3]
            min_counts = np.minimum(min_counts, np.column_stack([n0, n1]))
            with np.errstate(invalid="ignore", divide="ignore"):
                if shape_kind == "pairs":
                    values += 0.5 * auc_of_counts(*n.T)
                else:
                    values += 0.25 * (n[:, 0] / n0 + n[:, 3] / n1)
        for floors, level in itertools.product(((1, 1), (2, 1), (2, 2)), LEVELS):
            is_above_floors = (min_counts >= floors).all(axis=1)
            limits = tail_of(floors).lower_limit(np.clip(values[is_above_floors], 0.0, 1.0), level)
            miss_probability = table[is_above_floors][limits > expected_score].sum()
            worst_ratio = max(worst_ratio, miss_probability / math.exp(level))
    assert 0.0 < worst_ratio <= 1.0


def compositions(total, n_parts):
    """Return all ways to spread a total over parts."""
    bars = itertools.combinations(range(total + n_parts - 1), n_parts - 1)
    return np.array([np.diff([-1, *bar, total + n_parts - 1]) - 1 for bar in bars])


@pytest.mark.parametrize(
    ("training_share", "n_training"), [(0.5, None), (0.03, 900), (0.4, 50), (0.001, 9)]
)
def test_cells_of_shares_are_a_partition_with_a_code(training_share, n_training):
    """G20: every share is in its cell, cells fit together, and prices obey Kraft."""
    sizes = ((30, 2), (1000, 2), (1000, 7), (10**6, 2))
    all_cells = [
        ProportionGrid.around(
            training_share, n, n_training, classes, within_group_fraction=within_group_share
        )
        for (n, classes), within_group_share in itertools.product(sizes, (0.0, 0.4, None))
    ]
    all_cells += [
        cells.complement(*cells.ends(cell))
        for cells in all_cells
        for cell in (None, cells.cell_of(0.9))
    ]
    for cells in all_cells:
        numbers = range(cells.cell_of(0.0), cells.cell_of(1.0) + 1)
        total_weight = sum(math.exp(-cells.code_length(number)) for number in [None, *numbers])
        assert total_weight <= 1.0 + 1e-12
        cell_ends = [cells.ends(number) for number in numbers]
        assert cell_ends[0][0] == 0.0
        assert cell_ends[-1][1] == 1.0
        assert all(
            ends[1] == pytest.approx(next_ends[0])
            for ends, next_ends in itertools.pairwise(cell_ends)
        )
        for value in np.linspace(0.0, 1.0, 301):
            low, high = cells.ends(cells.cell_of(value))
            assert low - 1e-12 <= value <= high + 1e-12
        assert cells.ends(None) == cells.ends(0)


def test_floors_follow_from_the_ends_of_shares():
    """G20: of two classes one share says both; with more, or in slices, each says its own."""
    assert (
        needed_classes(2, None, has_slices=False)
        == needed_classes(2, (0,), has_slices=False)
        == (1,)
    )
    assert needed_classes(2, None, has_slices=True) == (0, 1)
    assert needed_classes(4, (2,), has_slices=False) == (2,)
    assert min_class_counts({1: (0.25, 0.4)}, 100, 2, has_slices=False) == (60, 25)
    assert min_class_counts({0: (0.1, 0.2), 1: (0.25, 0.4)}, 10, 2, has_slices=True) == (1, 3)
    assert min_class_counts({2: (0.301, 0.4)}, 100, 3, has_slices=False) == (0, 0, 31)


@pytest.mark.parametrize(("n", "max_price"), [(5000, 6.9), (10**6, 7.6)])
def test_a_balanced_training_table_gives_coarse_cells(n, max_price):
    """G20: half of the training records are ill and one in a hundred of the holdout."""
    cells = ProportionGrid.around(0.5, n, 2000, 2)
    cell = cells.cell_of(0.01)
    assert (
        cells.code_length(cell) < max_price
    )  # 6.9 and 9.6 where all cells were as wide as shares vary
    assert cells.ends(cell)[0] > 0.0015  # 8 records of 50, of 5,000


def test_half_widths_of_examples():
    """G12, G20: one question to 2,500 balanced records, and to 2,000 of whom 5% are ill."""
    level = math.log(0.05 / 2) - math.log(2)  # a lone first query pays ln 2
    for n, counts, max_half_width in ((2500, (3750, 3750), 0.026), (2000, (5700, 300), 0.1)):
        tail = score_tail(Independent(), n, kind="pairs", class_counts=counts)
        assert (
            np.ptp([limit([0.88], level)[0] for limit in (tail.lower_limit, tail.upper_limit)])
            < 2 * max_half_width
        )


def test_limits_count_patients_and_not_rows():
    """G19: the forecast for 400 patients with five visits each is that for 400 records."""
    model = Groups(np.arange(2000) // 5)
    shape = {"kind": "pairs", "classes": ("0", "1"), "class_counts": (5400, 600)}
    tail_of_visits = score_tail(model, 2000, **shape)
    tail_of_patients = score_tail(Independent(), 400, **shape)
    assert tail_of_visits.class_floors[1] == pytest.approx(tail_of_patients.class_floors[1], abs=8)
    tail_of_constant_labels = score_tail(
        model, 2000, **shape, within_group_fractions=(0.0, 0.0)
    )  # labels that patients keep
    tail_of_patient_counts = score_tail(Independent(), 400, **shape | {"class_counts": (1080, 120)})
    assert tail_of_constant_labels.class_floors[1] == tail_of_patient_counts.class_floors[1]


@pytest.mark.parametrize("label_type", ["kept", "each visit"])
def test_class_proportions_of_patients_are_predicted_from_their_variation(label_type):
    """G19, G20: 200 random splits; both shares cost .12 nats each unless one is a surprise."""
    costs = []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        group = np.repeat(np.arange(240), rng.integers(1, 7, 240))
        label_index = group if label_type == "kept" else np.arange(len(group))
        y = (rng.random(len(group)) < 0.3)[label_index].astype(int)
        in_holdout = np.isin(group, rng.permutation(240)[:60])
        metric = get_metric("roc_auc").with_training_targets(y[~in_holdout], group[~in_holdout])
        starts = np.unique(group[in_holdout], return_index=True)[1]
        sizes = np.diff([*starts, in_holdout.sum()])
        slices = starts + np.floor(rng.random((64, 60)) * sizes).astype(int)
        min_shares = [(y[in_holdout][slices] == label).mean(axis=1).min() for label in (0, 1)]
        first_cells, _ = proportion_grids(
            metric.class_counts,
            2,
            Groups(group[in_holdout]),
            in_holdout.sum(),
            metric.within_group_fractions,
        )
        cost = 0.0
        cells = first_cells
        for min_share in min_shares:
            low, high = cells.ends(None)
            cell = None if low <= min_share <= high else cells.cell_of(min_share)
            assert cells.ends(cell)[0] - 1e-9 <= min_share <= cells.ends(cell)[1] + 1e-9
            cost += cells.code_length(cell)
            cells = cells.complement(*cells.ends(cell))
        costs.append(cost)
    assert np.mean(costs) < 0.7  # 1.4 where patients were taken for as regular as visits
    assert np.sum(np.array(costs) > 4.5) <= 4


def test_auc_variance_is_that_of_hanley_and_mcneil():
    """Exponential scores: the simulated deviation of AUC and the predictive scale agree."""
    rng = np.random.default_rng(0)
    auc = 0.8
    tail = PairsTail((300, 100))
    ratio = auc / (1 - auc)
    scores = [
        (rng.exponential(ratio, 100)[:, None] > rng.exponential(1.0, 300)).mean()
        for _ in range(400)
    ]
    assert float(tail.standard_deviation(auc)) == pytest.approx(np.std(scores), rel=0.1)


def test_a_class_that_may_be_missing_contributes_its_whole_range():
    """G12: it contributes anything, and nothing is vacuous."""
    tail = ClassMeansTail((200, 200, 0))
    lower = tail.lower_limit([0.95], -5.0)
    upper = tail.upper_limit([0.95], -5.0)
    assert 0.5 < lower < 0.62
    assert upper == pytest.approx(1.0)
    assert PairsTail((400, 0)).lower_limit([0.95], -5.0) == 0.0


def test_a_score_known_by_construction_has_no_interval():
    tail = score_tail(Independent(), 50, kind="known", constant_score=0.25)
    lower, upper = tail.limits(np.array([0.1, 0.25]), np.array([0.2, 0.3]), np.full(2, -3.0))
    assert lower.tolist() == upper.tolist() == [0.25, 0.25]
    assert tail.lower_limit([0.9], -1.0) == tail.upper_limit([0.9], -1.0) == 0.25
