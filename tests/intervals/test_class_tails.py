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
    ShareCells,
    least_counts,
    score_tail,
    share_cells,
    shares_needed,
)
from sklearn_bdp.metrics import get_metric

LEVELS = (-0.3, -1.0, -2.0)


def auc_of_counts(low0, high0, low1, high1):
    """AUC of scores on two levels, from counts of negatives and of positives."""
    wins = high1 * low0 + 0.5 * (high1 * high0 + low1 * low0)
    return wins / ((low0 + high0) * (low1 + high1))


def binomial_pairs(n0, n1, p0, p1):
    """Counts of the higher level among negatives and positives, and their probabilities."""
    high0, high1 = np.arange(n0 + 1)[:, None], np.arange(n1 + 1)[None]
    return high0, high1, binom.pmf(high0, n0, p0) * binom.pmf(high1, n1, p1)


@pytest.mark.parametrize("floors", [(3, 2), pytest.param((6, 5), marks=pytest.mark.slow), (2, 6)])
def test_auc_limits_hold_given_any_labels_above_the_floors(floors):
    """G20: exact, for every count of both classes that the floors allow."""
    tail, worst = PairsTail(floors), 0.0
    laws = ((0.0, 0.9), (0.0, 0.5), (0.3, 0.9), (0.5, 0.5), (0.9, 0.95), (0.2, 1.0))
    for level, (p0, p1) in itertools.product(LEVELS, laws):
        truth = 0.5 + 0.5 * (p1 - p0)
        for n0, n1 in itertools.product(range(floors[0], 9), range(floors[1], 9)):
            high0, high1, table = binomial_pairs(n0, n1, p0, p1)
            values = np.clip(auc_of_counts(n0 - high0, high0, n1 - high1, high1), 0.0, 1.0)
            missed = table[tail.lower_limit(values, level) > truth].sum()
            upper = table[tail.upper_limit(values, level) < truth].sum()
            worst = max(worst, missed / math.exp(level), upper / math.exp(level))
    assert 0.3 < worst <= 1.0


@pytest.mark.parametrize("floors", [(3, 2), pytest.param((6, 5), marks=pytest.mark.slow), (0, 4)])
def test_balanced_accuracy_limits_hold_given_any_labels_above_the_floors(floors):
    """G20: also where a class may be missing, whose recall then is anything."""
    tail, worst = ClassMeansTail(floors), 0.0
    for level, (p0, p1) in itertools.product(LEVELS, ((0.9, 0.9), (0.5, 1.0), (0.95, 0.1))):
        truth, tables, values = 0.5 * (p0 + p1), [], []
        for n0, n1 in itertools.product(range(floors[0], 9), range(floors[1], 9)):
            hits0, hits1, table = binomial_pairs(n0, n1, p0, p1)
            filled = 0.5 * (n0 == 0)
            tables.append(table)
            values.append(0.5 * ((hits0 + filled) / max(n0, 1) + hits1 / n1))
        cuts = np.cumsum([table.size for table in tables])[:-1]
        asked = np.concatenate([one.ravel() for one in values])
        lower, upper = tail.lower_limit(asked, level), tail.upper_limit(asked, level)
        for table, low, high in zip(
            tables, np.split(lower, cuts), np.split(upper, cuts), strict=True
        ):
            missed = table.ravel()[low > truth].sum(), table.ravel()[high < truth].sum()
            worst = max(worst, max(missed) / math.exp(level))
    assert worst <= 1.0


def test_recall_limits_hold_at_every_count_above_the_floor():
    """G20: the tail of one class; a binomial tail at the floor would not (2 of 3 at .34)."""
    tail = ClassMeansTail((3,))
    for level, truth, n in itertools.product(LEVELS, (0.1, 0.4, 0.8, 0.97), range(3, 40)):
        hits, _, table = binomial_pairs(n, 0, truth, 0.5)
        missed = table[tail.lower_limit(hits / n, level) > truth].sum()
        assert missed <= math.exp(level)


def test_limits_rise_with_the_floors():
    values = np.linspace(0.0, 1.0, 31)
    for small, large in (((3, 5), (4, 5)), ((10, 80), (40, 80)), ((0, 7), (1, 7))):
        for kind in (PairsTail, ClassMeansTail):
            for level in (-1.0, -4.0, -9.0):
                lower, higher = (kind(f).lower_limit(values, level) for f in (small, large))
                assert (lower <= higher + 1e-9).all()


@pytest.mark.parametrize("kind", ["pairs", "class_means"])
def test_slices_of_patients_are_covered_by_the_least_count(kind):
    """G19: exact over four patients with two visits each and two slices, labels that change."""
    tail_of = PairsTail if kind == "pairs" else ClassMeansTail
    rng, worst = np.random.default_rng(0), 0.0
    # Visits are negative low, negative high, positive low, positive high; one in each slice.
    outcomes = list(itertools.product(range(4), repeat=2))
    counts = compositions(4, 16)
    for _ in range(4):
        visits = rng.dirichlet(np.full(16, 0.4)).reshape(4, 4)  # of a patient, in any order
        single = 0.5 * (visits.sum(axis=0) + visits.sum(axis=1))
        both = 0.5 * (np.diag(single) + 0.5 * (visits + visits.T)).ravel()  # each slice picks one
        share = np.array([single[0] + single[1], single[2] + single[3]])
        high = np.array([single[1], single[3]]) / share
        truth = 0.5 + 0.5 * (high[1] - high[0])
        if kind == "class_means":
            truth = 0.5 * (1.0 - high[0] + high[1])
        table = multinomial.pmf(counts, 4, both)
        values, least = np.zeros(len(counts)), np.full((len(counts), 2), 9)
        for side in range(2):
            n = np.zeros((len(counts), 4))
            for column, outcome in enumerate(outcomes):
                n[:, outcome[side]] += counts[:, column]
            n0, n1 = n[:, 0] + n[:, 1], n[:, 2] + n[:, 3]
            least = np.minimum(least, np.column_stack([n0, n1]))
            with np.errstate(invalid="ignore", divide="ignore"):
                if kind == "pairs":
                    values += 0.5 * auc_of_counts(*n.T)
                else:
                    values += 0.25 * (n[:, 0] / n0 + n[:, 3] / n1)
        for floors, level in itertools.product(((1, 1), (2, 1), (2, 2)), LEVELS):
            known = (least >= floors).all(axis=1)
            limits = tail_of(floors).lower_limit(np.clip(values[known], 0.0, 1.0), level)
            missed = table[known][limits > truth].sum()
            worst = max(worst, missed / math.exp(level))
    assert 0.0 < worst <= 1.0


def compositions(total, parts):
    """Return all ways to spread a total over parts."""
    bars = itertools.combinations(range(total + parts - 1), parts - 1)
    return np.array([np.diff([-1, *bar, total + parts - 1]) - 1 for bar in bars])


@pytest.mark.parametrize(("share", "n_training"), [(0.5, None), (0.03, 900), (0.4, 50), (0.001, 9)])
def test_cells_of_shares_are_a_partition_with_a_code(share, n_training):
    """G20: every share is in its cell, cells fit together, and prices obey Kraft."""
    sizes = ((30, 2), (1000, 2), (1000, 7), (10**6, 2))
    every = [
        ShareCells.around(share, n, n_training, classes, inside=inside)
        for (n, classes), inside in itertools.product(sizes, (0.0, 0.4, None))
    ]
    every += [one.of_other(*one.ends(cell)) for one in every for cell in (None, one.place(0.9))]
    for cells in every:
        numbers = range(cells.place(0.0), cells.place(1.0) + 1)
        mass = sum(math.exp(-cells.price(one)) for one in [None, *numbers])
        assert mass <= 1.0 + 1e-12
        ends = [cells.ends(one) for one in numbers]
        assert ends[0][0] == 0.0
        assert ends[-1][1] == 1.0
        assert all(one[1] == pytest.approx(two[0]) for one, two in itertools.pairwise(ends))
        for value in np.linspace(0.0, 1.0, 301):
            low, high = cells.ends(cells.place(value))
            assert low - 1e-12 <= value <= high + 1e-12
        assert cells.ends(None) == cells.ends(0)


def test_floors_follow_from_the_ends_of_shares():
    """G20: of two classes one share says both; with more, or in slices, each says its own."""
    assert shares_needed(2, None, sliced=False) == shares_needed(2, (0,), sliced=False) == (1,)
    assert shares_needed(2, None, sliced=True) == (0, 1)
    assert shares_needed(4, (2,), sliced=False) == (2,)
    assert least_counts({1: (0.25, 0.4)}, 100, 2, sliced=False) == (60, 25)
    assert least_counts({0: (0.1, 0.2), 1: (0.25, 0.4)}, 10, 2, sliced=True) == (1, 3)
    assert least_counts({2: (0.301, 0.4)}, 100, 3, sliced=False) == (0, 0, 31)


@pytest.mark.parametrize(("n", "most"), [(5000, 6.9), (10**6, 7.6)])
def test_a_balanced_training_table_is_asked_coarsely(n, most):
    """G20: half of the training records are ill and one in a hundred of the holdout."""
    cells = ShareCells.around(0.5, n, 2000, 2)
    cell = cells.place(0.01)
    assert cells.price(cell) < most  # 6.9 and 9.6 where all cells were as wide as shares vary
    assert cells.ends(cell)[0] > 0.0015  # 8 records of 50, of 5,000


def test_half_widths_of_the_examples():
    """G12, G20: one question to 2,500 balanced records, and to 2,000 of whom 5% are ill."""
    level = math.log(0.05 / 2) - math.log(2)  # a lone first query pays ln 2
    for n, counts, most in ((2500, (3750, 3750), 0.026), (2000, (5700, 300), 0.1)):
        tail = score_tail(Independent(), n, kind="pairs", class_counts=counts)
        assert (
            np.ptp([f([0.88], level)[0] for f in (tail.lower_limit, tail.upper_limit)]) < 2 * most
        )


def test_patients_count_not_rows():
    """G19: the forecast for 400 patients with five visits each is that for 400 records."""
    model = Groups(np.arange(2000) // 5)
    told = {"kind": "pairs", "classes": ("0", "1"), "class_counts": (5400, 600)}
    sliced, plain = score_tail(model, 2000, **told), score_tail(Independent(), 400, **told)
    assert sliced.class_floors[1] == pytest.approx(plain.class_floors[1], abs=8)
    kept = score_tail(model, 2000, **told, inside=(0.0, 0.0))  # labels that patients keep
    same = score_tail(Independent(), 400, **told | {"class_counts": (1080, 120)})
    assert kept.class_floors[1] == same.class_floors[1]


@pytest.mark.parametrize("kind", ["kept", "each visit"])
def test_shares_of_patients_are_foreseen_from_how_they_vary_between_patients(kind):
    """G19, G20: 200 random splits; both shares cost .12 nats each unless one is a surprise."""
    costs = []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        group = np.repeat(np.arange(240), rng.integers(1, 7, 240))
        of = group if kind == "kept" else np.arange(len(group))
        y = (rng.random(len(group)) < 0.3)[of].astype(int)
        held = np.isin(group, rng.permutation(240)[:60])
        metric = get_metric("roc_auc").informed(y[~held], group[~held])
        starts = np.unique(group[held], return_index=True)[1]
        sizes = np.diff([*starts, held.sum()])
        slices = starts + np.floor(rng.random((64, 60)) * sizes).astype(int)
        least = [(y[held][slices] == one).mean(axis=1).min() for one in (0, 1)]
        first, _ = share_cells(
            metric.class_counts, 2, Groups(group[held]), held.sum(), metric.inside
        )
        cost, cells = 0.0, first
        for share in least:
            low, high = cells.ends(None)
            cell = None if low <= share <= high else cells.place(share)
            assert cells.ends(cell)[0] - 1e-9 <= share <= cells.ends(cell)[1] + 1e-9
            cost += cells.price(cell)
            cells = cells.of_other(*cells.ends(cell))
        costs.append(cost)
    assert np.mean(costs) < 0.7  # 1.4 where patients were taken for as regular as visits
    assert np.sum(np.array(costs) > 4.5) <= 4


def test_auc_spread_is_that_of_hanley_and_mcneil():
    """Exponential scores: the simulated deviation of AUC and the predictive scale agree."""
    rng, auc = np.random.default_rng(0), 0.8
    tail = PairsTail((300, 100))
    ratio = auc / (1 - auc)
    scores = [
        (rng.exponential(ratio, 100)[:, None] > rng.exponential(1.0, 300)).mean()
        for _ in range(400)
    ]
    assert float(tail.standard_deviation(auc)) == pytest.approx(np.std(scores), rel=0.1)


def test_a_class_that_may_be_missing_leaves_its_part_open():
    """G12: it contributes anything, and nothing is vacuous."""
    tail = ClassMeansTail((200, 200, 0))
    lower, upper = tail.lower_limit([0.95], -5.0), tail.upper_limit([0.95], -5.0)
    assert 0.5 < lower < 0.62
    assert upper == pytest.approx(1.0)
    assert PairsTail((400, 0)).lower_limit([0.95], -5.0) == 0.0


def test_a_score_known_by_construction_has_no_interval():
    tail = score_tail(Independent(), 50, kind="known", known=0.25)
    lower, upper = tail.limits(np.array([0.1, 0.25]), np.array([0.2, 0.3]), np.full(2, -3.0))
    assert lower.tolist() == upper.tolist() == [0.25, 0.25]
    assert tail.lower_limit([0.9], -1.0) == tail.upper_limit([0.9], -1.0) == 0.25
