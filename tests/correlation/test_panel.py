"""Panels: many series on common dates, the unit is the date (theory G24)."""

import itertools
import math

import numpy as np
import pytest

from sklearn_bdp.correlation import Groups, MarkovChain, Panel

from .contract import ModelContract
from .oracle import bdp_leakage, field_distribution
from .tails import log_tail_above

P2 = np.array([[0.8, 0.2], [0.2, 0.8]])


class TestPanel(ModelContract):
    n = 240
    model = staticmethod(lambda: Panel(np.arange(240) % 60, MarkovChain(P2)))

    def test_split_is_a_partition_up_to_the_gap(self):
        split = self.model().split(self.n, 0.3)
        assert len(split.train) + len(split.holdout) == self.n - 4 * split.gap

    def test_folds_cover_records(self):
        tested = np.concatenate([test for _, test in self.model().folds(self.n, 2)])
        assert sorted(tested) == list(range(self.n))


@pytest.mark.parametrize("counts", [(2, 2, 2, 2), (1, 3, 2, 1), (4, 1, 1, 2)])
def test_tails_hold_by_enumeration_whatever_happens_inside_a_date(counts):
    """All paths and all outcomes: equal dates, scores of a date equal to each other or not."""
    times = np.repeat(np.arange(len(counts)), counts)
    checked = 0
    for chain, copied in itertools.product((P2, np.array([[0.9, 0.1], [0.3, 0.7]])), (True, False)):
        model = Panel(times, MarkovChain(chain))
        pi, chance = MarkovChain(chain).stationary_, np.array([0.1, 0.8])
        date_values = {}
        for t, k in enumerate(counts):  # distribution of a date's mean in each state
            shares = np.arange(k + 1) / k
            date_values[t] = [
                {0.0: 1 - p, 1.0: p}
                if copied
                else {s: math.comb(k, j) * p**j * (1 - p) ** (k - j) for j, s in enumerate(shares)}
                for p in chance
            ]  # fmt: skip
        law = {}
        for path in itertools.product((0, 1), repeat=len(counts)):
            weight = pi[path[0]] * np.prod([chain[a, b] for a, b in itertools.pairwise(path)])
            for means in itertools.product(
                *(date_values[t][s].items() for t, s in enumerate(path))
            ):
                q = round(sum(m for m, _ in means) / len(counts), 9)
                law[q] = law.get(q, 0.0) + weight * math.prod(p for _, p in means)
        truth = float(pi @ chance)
        assert sum(q * p for q, p in law.items()) == pytest.approx(truth)
        for value in sorted(law):
            if value > truth:
                exact = math.log(sum(p for q, p in law.items() if q >= value - 1e-9))
                assert exact <= log_tail_above(model, truth, value, len(times)) + 1e-9
                far = sum(p for q, p in law.items() if abs(q - truth) >= value - truth - 1e-9)
                assert math.log(far) <= model.log_tail(value - truth, len(times)) + 1e-9
                checked += 1
    assert checked > 4


def test_dates_weigh_equally_and_nothing_else_does():
    even = Panel([1, 2, 3] * 4, MarkovChain(P2))
    assert even.record_weights(12) is None
    uneven = Panel([1, 1, 1, 2], MarkovChain(P2))
    assert uneven.record_weights(4) == pytest.approx([1 / 6, 1 / 6, 1 / 6, 1 / 2])
    assert "Dates weigh equally" in " ".join(uneven.caveats)
    assert even.effective_n(12) == MarkovChain(P2).effective_n(3)
    assert uneven.effective_n(4) == pytest.approx(MarkovChain(P2).effective_n(2))
    assert even.mean_lower_limit(0.9, -1.0, 12) == MarkovChain(P2).mean_lower_limit(0.9, -1.0, 3)


def test_any_order_of_rows_gives_one_answer():
    days = np.datetime64("2026-01-01") + np.arange(200)
    by_shop, by_date = np.tile(days, 50), np.repeat(days, 50)
    one, two = (Panel(times, MarkovChain(P2)) for times in (by_shop, by_date))
    assert one.effective_n(10_000) == two.effective_n(10_000) == pytest.approx(200 / 4)
    cuts = [model.split(10_000, 0.25) for model in (one, two)]
    assert cuts[0].gap == cuts[1].gap > 0
    for times, cut in zip((by_shop, by_date), cuts, strict=True):
        assert times[cut.train].max() + 1 + cut.gap == times[cut.holdout].min()
        assert len(np.unique(times[cut.holdout])) == 50
    scores = np.random.default_rng(0).random(200)
    shop = one.unit_means(np.tile(scores, 50))
    assert shop == pytest.approx(two.unit_means(np.repeat(scores, 50)))
    assert shop == pytest.approx(scores)
    holdouts = [m.subset(c.holdout) for m, c in zip((one, two), cuts, strict=True)]
    assert holdouts[0].effective_n(2500) == holdouts[1].effective_n(2500)
    assert one.gaps(cuts[0].train, cuts[0].holdout) == (cuts[0].gap, None)


def test_rows_of_a_date_stay_together():
    model = Panel([1, 1, 2, 2, 3, 3], MarkovChain(P2))
    assert model.subset([2, 3, 4, 5]).units(4) == (2, "dates")
    for cut in ([0, 2], [0, 1, 4, 5]):
        with pytest.raises(ValueError, match="rows of one date"):
            model.subset(cut)


def test_labels_that_reach_beyond_the_cut_are_left_out():
    fast = MarkovChain([[0.5, 0.5], [0.5, 0.5]])
    model = Panel(np.repeat(np.arange(40), 3), fast, horizon=7)
    cut = model.split(120, 0.25)
    assert cut.gap == 7
    assert model.codes_[cut.train].max() + 7 < model.codes_[cut.holdout].min()
    for train, test in model.folds(120, 3):
        before = model.codes_[train] < model.codes_[test].min()
        assert (model.codes_[train][before] + 7 < model.codes_[test].min()).all()


@pytest.mark.parametrize(
    ("times", "message"),
    [
        (["2026-01-01", "NaT"], "1 are missing"),
        ([1.0, np.nan], "1 are missing"),
        (["Monday", "Tuesday"], "Text without an order"),
        ([True, False], "dates or numbers"),
        ([[1], [2]], "one date per record"),
        ([], "one date per record"),
    ],
)
def test_bad_dates_are_named(times, message):
    with pytest.raises(ValueError, match=message):
        Panel(times, MarkovChain(P2))
    with pytest.raises(ValueError, match="any number of dates"):
        Panel([1, 2], Groups([0, 1]))


def test_dates_of_pandas_sort_as_dates():
    pd = pytest.importorskip("pandas")
    days = pd.date_range("2026-01-01", periods=4, tz="Europe/Berlin")
    for times in (days[::-1], pd.Series(days[::-1]), days[::-1].tz_localize(None).to_period("D")):
        assert Panel(times, MarkovChain(P2)).codes_.tolist() == [3, 2, 1, 0]
    with pytest.raises(ValueError, match="missing"):
        Panel(pd.Series([days[0], pd.NaT]), MarkovChain(P2))


def test_levels_of_privacy_are_those_of_dates():
    """One record changes one date: a date of two records costs twice the level (exact leakage)."""
    n, epsilon = 4, 0.2
    # Two dates of two records; inside a date records copy each other with probability .9.
    inside = np.array([[0.9, 0.1], [0.1, 0.9]])
    joint = field_distribution([2] * n, {(0, 1): inside, (2, 3): inside, (0, 2): P2})
    model = Panel([0, 0, 1, 1], MarkovChain(P2))
    assert bdp_leakage(joint, epsilon) <= model.bdp_epsilon(epsilon, n) + 1e-7
    assert model.bdp_epsilon(epsilon, n) == MarkovChain(P2).bdp_epsilon(2 * epsilon, 2)
    with pytest.raises(ValueError, match="tight"):
        model.bdp_epsilon(epsilon, n, method="quilt")
