"""Records that were declared independent, tested on training-side scores."""

import numpy as np
import pytest

from sklearn_bdp.correlation import check_independence

from .series import autoregressive, regimes


def shuffled_scores(maker, rng, n=2000):
    """Keep three quarters of the rows, in order: what a shuffled holdout leaves for training."""
    scores = maker(n, rng)
    return scores[np.sort(rng.permutation(n)[: 3 * n // 4])]


@pytest.mark.parametrize(
    "maker",
    [
        lambda n, rng: autoregressive(n, 0.65, rng),
        lambda n, rng: autoregressive(n, 0.95, rng),
        lambda n, rng: regimes(n, 0.9, rng),
        lambda n, rng: regimes(n, 0.98, rng),
    ],
)
def test_dependent_rows_are_seen(maker):
    rng = np.random.default_rng(0)
    seen = sum(check_independence(shuffled_scores(maker, rng)).misfit for _ in range(20))
    assert seen >= 19


def test_independent_rows_are_left_alone():
    rng = np.random.default_rng(1)
    series = [rng.random(400) < rate for rate in (0.5, 0.8, 0.95, 0.99) for _ in range(25)]
    series += [rng.exponential(size=400) ** 3 for _ in range(25)]
    false = sum(check_independence(scores).misfit for scores in series)
    assert false <= 5  # each with probability .01


def test_a_better_model_on_one_fold_is_no_dependence():
    rng = np.random.default_rng(3)
    folds = np.repeat(np.arange(3), 200)
    series = [(rng.random(600) < np.array([0.95, 0.6, 0.8])[folds]) for _ in range(50)]
    assert sum(check_independence(scores).misfit for scores in series) >= 40
    assert sum(check_independence(scores, folds=folds).misfit for scores in series) <= 3


@pytest.mark.parametrize("contiguous", [True, False])
def test_dependent_rows_are_seen_inside_folds(contiguous):
    rng = np.random.default_rng(4)
    for maker in (lambda n: autoregressive(n, 0.65, rng), lambda n: regimes(n, 0.9, rng)):
        series = [maker(2000) for _ in range(20)]
        folds = np.arange(2000) // 400 if contiguous else rng.integers(0, 5, 2000)
        assert sum(check_independence(scores, folds=folds).misfit for scores in series) >= 19


def test_folds_are_one_label_per_score():
    with pytest.raises(ValueError, match="folds must hold one label per score"):
        check_independence(np.arange(50.0), folds=np.zeros(49))


def test_groups_are_seen_whatever_their_order():
    rng = np.random.default_rng(2)
    groups = rng.permutation(np.repeat(np.arange(80), 10))
    ease = rng.choice([0.5, 0.95], 80)
    scores = (rng.random(800) < ease[groups]).astype(float)
    report = check_independence(scores, groups=groups)
    assert report.group_p <= 0.01
    assert "correlation='groups'" in report.message
    assert report.order_p > 0.001
    none = check_independence(scores, groups=rng.permutation(groups))
    assert none.group_p > 0.01


def test_constant_and_short_series_say_nothing():
    assert not check_independence(np.ones(500)).misfit
    assert not check_independence(np.arange(10.0)).misfit


def test_message_says_what_to_declare():
    scores = regimes(2000, 0.95, np.random.default_rng(0))
    message = check_independence(scores).message
    for words in ("correlation='time'", "groups="):
        assert words in message
    for words in ("shuffle", "from_autocorrelation_time("):  # no number, and no way round
        assert words not in message


def test_answer_does_not_change_from_call_to_call():
    scores = np.random.default_rng(5).random(300)
    assert check_independence(scores) == check_independence(scores)


def test_labels_must_match_scores():
    with pytest.raises(ValueError, match="one label per score"):
        check_independence(np.zeros(50), groups=np.zeros(49))
