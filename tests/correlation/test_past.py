"""Records in time, judged given their past: the date is the unit (theory G24, G26)."""

import itertools

import numpy as np
import pytest

from sklearn_bdp.correlation import TimeOrdered
from tests.facts import refused

DAYS = np.datetime64("2026-01-01") + np.arange(200)


@pytest.mark.parametrize("counts", [(2, 2, 2, 2), (1, 3, 2, 1), (4, 1, 1, 2)])
def test_tails_hold_by_enumeration_whatever_happens_inside_a_date(counts):
    """All paths of a chain whose state all records of a date show: s_t less E[s_t | past]."""
    chain, score = np.array([[0.9, 0.1], [0.3, 0.7]]), np.array([0.1, 1.0])
    model, n = TimeOrdered(np.repeat(np.arange(len(counts)), counts)), sum(counts)
    deviations, chances = [], []
    for path in itertools.product((0, 1), repeat=len(counts)):
        kernels = [np.array([0.75, 0.25]), *(chain[state] for state in path[:-1])]
        records = np.repeat(score[list(path)], counts)
        weights = model.record_weights(n)
        q = records.mean() if weights is None else weights @ records
        deviations.append(q - np.mean([row @ score for row in kernels]))
        chances.append(np.prod([row[s] for row, s in zip(kernels, path, strict=True)]))
    deviations, chances = np.array(deviations), np.array(chances)
    assert chances.sum() == pytest.approx(1.0)
    assert chances @ deviations == pytest.approx(0.0)
    for alpha in np.unique(np.abs(deviations)):
        exact = chances[np.abs(deviations) >= alpha - 1e-12].sum()
        assert np.log(exact) <= model.log_tail(alpha, n) + 1e-9


def test_dates_weigh_equally_and_nothing_else_does():
    even = TimeOrdered([1, 2, 3] * 4)
    assert even.record_weights(12) is None
    uneven = TimeOrdered([1, 1, 1, 2])
    assert uneven.record_weights(4) == pytest.approx([1 / 6, 1 / 6, 1 / 6, 1 / 2])
    assert "Dates weigh equally" in " ".join(uneven.caveats)
    assert even.effective_n(12) == pytest.approx(3)
    assert uneven.effective_n(4) == pytest.approx(2)
    assert even.mean_lower_limit(0.9, -1.0, 12) == TimeOrdered().mean_lower_limit(0.9, -1.0, 3)


def test_any_order_of_rows_gives_one_answer():
    by_shop, by_date = np.tile(DAYS, 50), np.repeat(DAYS, 50)
    one, two = TimeOrdered(by_shop, horizon=7), TimeOrdered(by_date, horizon=7)
    assert one.effective_n(10_000) == two.effective_n(10_000) == pytest.approx(200)
    cuts = [model.split(10_000, 0.25) for model in (one, two)]
    assert cuts[0].gap == cuts[1].gap == 7
    for times, cut in zip((by_shop, by_date), cuts, strict=True):
        assert times[cut.train].max() + 1 + cut.gap == times[cut.holdout].min()
        assert len(np.unique(times[cut.holdout])) == 50
    scores = np.random.default_rng(0).random(200)
    shop = one.unit_means(np.tile(scores, 50))
    assert shop == pytest.approx(two.unit_means(np.repeat(scores, 50)))
    assert shop == pytest.approx(scores)
    holdouts = [m.subset(c.holdout) for m, c in zip((one, two), cuts, strict=True)]
    assert holdouts[0].effective_n(2500) == holdouts[1].effective_n(2500)
    assert one.gaps(cuts[0].train, cuts[0].holdout) == (7, None)
    for train, test in one.folds(10_000, 3):
        assert by_shop[train].max() + 7 < by_shop[test].min()


def test_rows_of_a_date_stay_together():
    model = TimeOrdered([1, 1, 2, 2, 3, 3])
    assert model.subset([2, 3, 4, 5]).units(4) == (2, "dates")
    for cut in ([0, 2], [0, 1, 4, 5]):
        with refused(ValueError, "holdout=0.25"):
            model.subset(cut)
    with refused(ValueError, "ascending"):
        TimeOrdered().subset([2, 1])


@pytest.mark.parametrize(
    "times", [["2026-01-01", "NaT"], [1.0, np.nan], ["Monday", "Tuesday"], [True], [[1], [2]], []]
)
def test_bad_dates_are_named(times):
    with refused(ValueError, "times"):
        TimeOrdered(times)


def test_dates_of_pandas_sort_as_dates():
    pd = pytest.importorskip("pandas")
    days = pd.date_range("2026-01-01", periods=4, tz="Europe/Berlin")
    for times in (days[::-1], pd.Series(days[::-1]), days[::-1].tz_localize(None).to_period("D")):
        assert TimeOrdered(times).codes_.tolist() == [3, 2, 1, 0]
    with refused(ValueError, "missing"):
        TimeOrdered(pd.Series([days[0], pd.NaT]))
