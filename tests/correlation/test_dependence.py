"""Tests of a declared correlation on training scores: one permutation test (theory G25)."""

import numpy as np
import pytest

from sklearn_bdp.correlation import group_independence_test, independence_test
from sklearn_bdp.correlation.dependence import _neighbor_graph
from tests.facts import refused

from .series import autoregressive, regimes

# -- independent records --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "maker",
    [
        lambda n, rng: autoregressive(n, 0.65, rng),
        lambda n, rng: autoregressive(n, 0.95, rng),
        lambda n, rng: regimes(n, 0.9, rng),
        lambda n, rng: regimes(n, 0.98, rng),
    ],
)
def test_dependent_rows_are_detected(maker):
    """Also in the three quarters of the rows that a shuffled holdout leaves for training."""
    rng = np.random.default_rng(0)
    n_detected = 0
    for _ in range(10):
        kept_rows = np.sort(rng.permutation(2000)[:1500])
        n_detected += independence_test(maker(2000, rng)[kept_rows]).misfit
    assert n_detected >= 9


def test_independent_rows_rarely_give_an_alarm():
    rng = np.random.default_rng(1)
    series = [rng.random(400) < rate for rate in (0.5, 0.8, 0.95, 0.99) for _ in range(25)]
    series += [rng.exponential(size=400) ** 3 for _ in range(25)]
    n_false_alarms = sum(independence_test(scores).misfit for scores in series)
    assert n_false_alarms <= 5  # each with probability .005


def test_a_better_model_on_one_fold_is_no_dependence():
    rng = np.random.default_rng(3)
    folds = np.repeat(np.arange(3), 200)
    series = [(rng.random(600) < np.array([0.95, 0.6, 0.8])[folds]) for _ in range(50)]
    assert sum(independence_test(scores).misfit for scores in series) >= 40
    assert sum(independence_test(scores, folds=folds).misfit for scores in series) <= 3


@pytest.mark.parametrize("contiguous", [True, False])
def test_dependent_rows_are_detected_inside_folds(contiguous):
    rng = np.random.default_rng(4)
    for maker in (lambda n: autoregressive(n, 0.65, rng), lambda n: regimes(n, 0.9, rng)):
        series = [maker(2000) for _ in range(10)]
        folds = np.arange(2000) // 400 if contiguous else rng.integers(0, 5, 2000)
        assert sum(independence_test(scores, folds=folds).misfit for scores in series) >= 9


def test_dependent_groups_are_detected_in_any_order():
    rng = np.random.default_rng(2)
    groups = rng.permutation(np.repeat(np.arange(80), 10))
    ease = rng.choice([0.5, 0.95], 80)
    scores = (rng.random(800) < ease[groups]).astype(float)
    report = independence_test(scores, groups=groups)
    assert report.p_value <= 0.005
    assert "correlation='groups'" in report.message
    assert "neighboring" not in report.message
    assert not independence_test(scores, groups=rng.permutation(groups)).misfit


def test_constant_and_short_series_give_no_alarm():
    assert not independence_test(np.ones(500)).misfit
    assert not independence_test(np.arange(10.0)).misfit
    assert not group_independence_test(np.full((256, 2), np.nan), np.arange(256) // 4).misfit


def test_message_names_the_correlation_to_declare():
    scores = regimes(2000, 0.95, np.random.default_rng(0))
    message = independence_test(scores).message
    for words in ("correlation='time'", "groups="):
        assert words in message
    for words in ("shuffle", "from_autocorrelation_time("):  # no number, and no way round
        assert words not in message
    assert independence_test(scores) == independence_test(scores)


@pytest.mark.parametrize("name", ["groups", "folds"])
def test_labels_must_match_scores(name):
    with refused(ValueError, name):
        independence_test(np.arange(50.0), **{name: np.zeros(49)})


# -- groups next to each other --------------------------------------------------------------------


def test_groups_next_to_each_other():
    rng = np.random.default_rng(3)
    slow = np.repeat(np.cumsum(rng.normal(size=200)), 4)
    groups = np.repeat(np.arange(200), 4)
    assert "groups" in group_independence_test(slow + rng.normal(size=800), groups).message
    n_alarms = sum(
        group_independence_test(np.repeat(rng.normal(size=200), 4), groups).misfit
        for _ in range(40)
    )
    assert n_alarms <= 2  # of .2 expected


def test_several_kinds_of_scores_are_tested_at_one_level():
    """Whichever kind shows it; where none does, as often as one kind alone."""
    rng = np.random.default_rng(6)
    slow = np.repeat(np.cumsum(rng.normal(size=64)), 4)
    assert group_independence_test(
        np.column_stack([rng.random(256), slow]), np.arange(256) // 4
    ).misfit
    alarms = [
        group_independence_test(rng.normal(size=(160, 3)), np.arange(160) // 4, level=0.05).misfit
        for _ in range(200)
    ]
    assert 1 <= sum(alarms) <= 22  # of 10 expected, 4 standard errors


def test_groups_at_one_place_are_neighbors_of_others_only():
    graph = _neighbor_graph(np.zeros((20, 2)))
    assert not graph.diagonal().any()
    assert set(graph.data) == {1.0}
    assert (graph != graph.T).nnz == 0
