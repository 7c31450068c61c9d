"""Preview and last word (G7): honest widths before, and nothing after."""

import numpy as np
import pytest
from scipy.stats import binom
from sklearn.dummy import DummyClassifier

from sklearn_bdp import ReusableHoldout
from sklearn_bdp.correlation import MarkovChain
from sklearn_bdp.exceptions import BudgetExhaustedError, HoldoutClosedError

N = 1000
X, Y = np.zeros((N, 2)), (np.arange(N) < 700).astype(int)
ONES = DummyClassifier(strategy="constant", constant=1).fit(X[:2], [0, 1])


def hits(share):
    return (np.arange(N) < share * N)[np.newaxis]


@pytest.fixture
def holdout(path):
    return ReusableHoldout(X, Y, ledger=path, random_state=0)


def test_the_last_word_is_finer_than_any_other_answer(holdout):
    asked = holdout.answer([0.7], hits(0.7))
    otherwise = holdout.preview(score=0.7)  # another ordinary answer instead
    report = holdout.final_report(ONES, 0.7)
    assert abs(report.value - 0.7) < 0.01
    assert report.lower < 0.7 < report.upper
    assert report.upper - report.lower < 2 * otherwise.half_width
    assert (report.n_answered, report.n_above, report.n) == (1, int(asked.above[0]), N)


def test_a_closed_holdout_answers_nothing_new_here_or_after_reopening(holdout, path):
    first = holdout.answer([0.7], hits(0.7), keys=["a"])
    holdout.final_report(ONES)
    for some in (holdout, ReusableHoldout(X, Y, ledger=path, random_state=0)):
        with pytest.raises(HoldoutClosedError, match="final report"):
            some.answer([0.7], hits(0.7))
        with pytest.raises(HoldoutClosedError):
            some.final_report(ONES)
        with pytest.raises(HoldoutClosedError):
            some.preview()
        again = some.answer([0.7], hits(0.2), keys=["a"])
        assert again.values == first.values
        assert len(some.history()) == 2
        said = str(some.certificate())
        assert "it answers nothing new" in said
        assert "more records give" not in said
        assert "the next one" not in said


def test_the_last_word_spends_a_declared_budget_and_needs_one():
    holdout = ReusableHoldout(X, Y, budget=1, random_state=0)
    holdout.answer([0.1], hits(0.9))
    with pytest.raises(BudgetExhaustedError):
        holdout.final_report(ONES)
    assert len(holdout.history()) == 1


def test_the_card_says_what_was_asked_and_what_has_to_be_true(holdout):
    holdout.answer([0.7, 0.2], np.r_[hits(0.7), hits(0.2)])
    report = holdout.final_report(ONES, name="<the last model>")
    text, card = str(report), report._repr_html_()
    assert "2 queries on 1,000 records" in text
    assert "It holds if" in text
    assert "&lt;the last model&gt;" in card
    assert "<the last model>" not in card


@pytest.mark.parametrize("correlation", [None, MarkovChain([[0.9, 0.1], [0.2, 0.8]])])
@pytest.mark.parametrize("size", [1, 50])
def test_the_preview_is_what_an_unsurprising_batch_gets(correlation, size):
    holdout = ReusableHoldout(X, Y, correlation=correlation, random_state=0)
    seen = holdout.preview(size, score=0.9)
    scores = np.tile(hits(0.9).astype(float), (size, 1))
    answers = holdout.answer(np.linspace(0.9, 0.87, size), scores)
    best = int(np.argmin(answers.upper - answers.lower))
    got = (answers.upper[best] - answers.lower[best]) / 2
    assert seen.half_width == pytest.approx(got, rel=0.15)
    assert str(size) in str(seen)
    assert holdout.preview(size).code_length > seen.code_length


def test_preview_spends_nothing_and_checks_its_arguments(holdout):
    holdout.preview(10)
    assert len(holdout.history()) == 0
    for bad in ({"n_queries": 0}, {"score": 2.0}, {"training_size": 0}):
        with pytest.raises(ValueError, match=next(iter(bad))):
            holdout.preview(**bad)


def test_the_interval_of_the_last_word_holds():
    runs, beta, wrong = 100, 0.1, 0
    for run in range(runs):
        rng = np.random.default_rng(run)
        y = (rng.random(N) < 0.7).astype(int)
        holdout = ReusableHoldout(X, y, beta=beta, random_state=run)
        answers = holdout.answer(rng.random(5), rng.random((5, N)) < 0.5)
        report = holdout.final_report(ONES, 0.7)
        wrong += not report.lower <= 0.7 <= report.upper
        wrong += bool(((answers.lower > 0.5) | (answers.upper < 0.5)).any())
    assert wrong <= binom.ppf(0.999, runs, beta)
