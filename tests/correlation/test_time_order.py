"""Records in time, judged given their past: the date is the unit (theory G24, G26)."""

import itertools

import numpy as np
import pytest

from sklearn_bdp.correlation import TimeOrdered
from sklearn_bdp.correlation.cutting import gaps_to_training
from tests.facts import refused

DAYS = np.datetime64("2026-01-01") + np.arange(200)


@pytest.mark.parametrize("counts", [(2, 2, 2, 2), (1, 3, 2, 1), (4, 1, 1, 2)])
def test_tails_hold_by_enumeration_for_any_dependence_inside_a_date(counts):
    """All paths of a chain whose state all records of a date show: s_t less E[s_t | past]."""
    transition = np.array([[0.9, 0.1], [0.3, 0.7]])
    state_scores = np.array([0.1, 1.0])
    model = TimeOrdered(np.repeat(np.arange(len(counts)), counts))
    n = sum(counts)
    deviations = []
    probabilities = []
    for path in itertools.product((0, 1), repeat=len(counts)):
        kernels = [np.array([0.75, 0.25]), *(transition[state] for state in path[:-1])]
        records = np.repeat(state_scores[list(path)], counts)
        weights = model.sampling_scheme(n).weights
        q = records.mean() if weights is None else weights @ records
        deviations.append(q - np.mean([row @ state_scores for row in kernels]))
        probabilities.append(
            np.prod([row[state] for row, state in zip(kernels, path, strict=True)])
        )
    deviations = np.array(deviations)
    probabilities = np.array(probabilities)
    assert probabilities.sum() == pytest.approx(1.0)
    assert probabilities @ deviations == pytest.approx(0.0)
    for alpha in np.unique(np.abs(deviations)):
        exact = probabilities[np.abs(deviations) >= alpha - 1e-12].sum()
        assert np.log(exact) <= model.log_tail(alpha, n) + 1e-9


def test_dates_weigh_equally_and_records_do_not():
    even = TimeOrdered([1, 2, 3] * 4)
    assert even.sampling_scheme(12).weights is None
    uneven = TimeOrdered([1, 1, 1, 2])
    assert uneven.sampling_scheme(4).weights == pytest.approx([1 / 6, 1 / 6, 1 / 6, 1 / 2])
    assert "Dates weigh equally" in " ".join(uneven.caveats)
    assert even.effective_n(12) == pytest.approx(3)
    assert uneven.effective_n(4) == pytest.approx(2)
    assert even.mean_lower_limit(0.9, -1.0, 12) == TimeOrdered().mean_lower_limit(0.9, -1.0, 3)


def test_any_order_of_rows_gives_one_answer():
    by_shop = np.tile(DAYS, 50)
    by_date = np.repeat(DAYS, 50)
    model_by_shop = TimeOrdered(by_shop, horizon=7)
    model_by_date = TimeOrdered(by_date, horizon=7)
    assert (
        model_by_shop.effective_n(10_000) == model_by_date.effective_n(10_000) == pytest.approx(200)
    )
    splits = [model.split(10_000, 0.25) for model in (model_by_shop, model_by_date)]
    assert splits[0].gap == splits[1].gap == 7
    for times, split in zip((by_shop, by_date), splits, strict=True):
        assert times[split.train].max() + 1 + split.gap == times[split.holdout].min()
        assert len(np.unique(times[split.holdout])) == 50
    scores = np.random.default_rng(0).random(200)
    unit_means = model_by_shop.sampling_scheme(10_000).block_means(np.tile(scores, 50))
    assert unit_means == pytest.approx(
        model_by_date.sampling_scheme(10_000).block_means(np.repeat(scores, 50))
    )
    assert unit_means == pytest.approx(scores)
    holdouts = [
        time_model.subset(split.holdout)
        for time_model, split in zip((model_by_shop, model_by_date), splits, strict=True)
    ]
    assert holdouts[0].effective_n(2500) == holdouts[1].effective_n(2500)
    assert gaps_to_training(model_by_shop, splits[0].train, splits[0].holdout) == (7, None)
    for train, test in model_by_shop.folds(10_000, 3):
        assert by_shop[train].max() + 7 < by_shop[test].min()


def test_rows_of_a_date_stay_together():
    model = TimeOrdered([1, 1, 2, 2, 3, 3])
    scheme = model.subset([2, 3, 4, 5]).sampling_scheme(4)
    assert (scheme.n_units, scheme.unit_name) == (2, "dates")
    for rows in ([0, 2], [0, 1, 4, 5]):
        with refused(ValueError, "holdout=0.25"):
            model.subset(rows)
    with refused(ValueError, "ascending"):
        TimeOrdered().subset([2, 1])


@pytest.mark.parametrize(
    "times",
    [
        ["2026-01-01", "NaT"],
        [1.0, np.nan],
        ["Monday", "Tuesday"],
        [True],
        [[1], [2]],
        [],
        np.array([], dtype=object),
    ],
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
    with refused(ValueError, "missing"):
        TimeOrdered([days[0].date(), pd.NA])
