"""Metrics that are no mean, asked through a holdout: widths, noise and what class sizes cost."""

import dataclasses
import math

import numpy as np
import pytest

from sklearn_bdp.correlation import Groups
from sklearn_bdp.holdout import ReusableHoldout
from sklearn_bdp.metrics import get_metric

SHIFT = math.sqrt(2.0) * 1.1749867920660904  # two normal classes this far apart: AUC .88


class Ranks:
    classes_ = np.array([0, 1])

    def decision_function(self, X):
        return X[:, 0]

    def predict(self, X):
        return (X[:, 0] > SHIFT / 2).astype(int)


def records(n, share, seed=0):
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < share).astype(int)
    return (y * SHIFT + rng.normal(size=n))[:, None], y


def ask(n, share, *, name="roc_auc", informed=True, holdout=None, **options):
    X, y = records(n, share)
    metric = get_metric(name, y=records(3 * n, share, seed=1)[1] if informed else None)
    holdout = holdout or ReusableHoldout(X, y, random_state=0, **options)
    answer = holdout.answer_evaluations(
        [0.88], [metric.evaluate(Ranks(), X, y)], training_size=3 * n
    )
    return holdout, answer


@pytest.mark.parametrize(("n", "share", "most"), [(2500, 0.5, 0.032), (2000, 0.05, 0.14)])
def test_one_auc_question_is_answered_far_more_sharply_than_by_mcdiarmid(n, share, most):
    """G12: .107 and .28 by worst-case steps of single records."""
    _, answer = ask(n, share)
    assert (answer.upper - answer.lower)[0] / 2 <= most
    assert answer.lower[0] < 0.88 < answer.upper[0]


def test_the_certificate_says_what_an_auc_assumes():
    """G12: given the labels, records of a class are exchangeable; said from then on."""
    holdout, _ = ask(1000, 0.5)
    holdout.answer([0.5], np.full((1, 1000), 0.5))
    assert any("identically distributed" in line for line in holdout.certificate().assumptions)
    plain = ReusableHoldout(*records(1000, 0.5), random_state=0)
    plain.answer([0.5], np.full((1, 1000), 0.5))
    assert not any("identically" in line for line in plain.certificate().assumptions)


@pytest.mark.parametrize("name", ["roc_auc", "balanced_accuracy"])
def test_class_sizes_of_the_holdout_are_paid_for(name):
    """G10: without the training data's counts, every answer pays for coarse sizes."""
    told, answer = ask(1000, 0.3, name=name)
    paid, wider = ask(1000, 0.3, name=name, informed=False)
    price = paid.history()[0].code_length - told.history()[0].code_length
    assert price > math.log(2) - 1e-9
    # What follows pays, too; the predictive scale at coarse sizes prices cells a bit differently.
    assert paid.information_spent == pytest.approx(told.information_spent + price, abs=1.0)
    assert wider.upper[0] - wider.lower[0] > answer.upper[0] - answer.lower[0]


def test_class_sizes_are_paid_once_for_each_set_of_classes(tmp_path):
    """G10: a second batch learns nothing new from the same sizes, other classes are other sizes."""
    X, y = records(600, 0.5)
    path = tmp_path / "ledger.db"
    spent = []
    for classes in (None, None, (0, 1)):
        holdout = ReusableHoldout(X, y, ledger=path, random_state=0)
        metric = dataclasses.replace(get_metric("balanced_accuracy"), classes=classes)
        before = holdout.information_spent
        holdout.answer_evaluations([0.88], [metric.evaluate(Ranks(), X, y)], keys=None)
        spent.append(holdout.history()[-1].code_length - before)
    assert spent == pytest.approx([math.log(2), 0.0, math.log(2)])


def test_a_level_for_life_does_not_cover_class_sizes():
    with pytest.raises(ValueError, match="class sizes of the holdout"):
        ask(1000, 0.3, informed=False, epsilon=0.5)
    assert ask(1000, 0.3, epsilon=0.5)[1].answered[0]


def test_the_level_reported_answers_for_noise_below_the_sensitivity():
    """T1: noise in units of the spread costs more by the ratio of sensitivity and unit."""
    X, y = records(2000, 0.05)
    plain = ReusableHoldout(X, y, random_state=0)
    plain.answer([0.9], np.full((1, 2000), 0.2))
    holdout, _ = ask(2000, 0.05)
    holdout.answer([0.9], np.full((1, 2000), 0.2))  # afterwards all of life has the ratio
    sensitivity = get_metric("roc_auc", y=records(6000, 0.05, seed=1)[1]).sensitivity(y)
    ratio = holdout.certificate().dp_epsilon / plain.certificate().dp_epsilon
    assert sensitivity * 2000 > ratio > 10.0


def test_groups_get_an_interval_too():
    """G12 with B1: labels may depend inside groups."""
    _, answer = ask(4000, 0.5, correlation=Groups(np.arange(4000) // 2))
    assert 0.7 < answer.lower[0] < 0.88 < answer.upper[0]
