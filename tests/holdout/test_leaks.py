"""No output, object or file contains a raw score, after any query and any error."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone

from sklearn_bdp.exceptions import BudgetExhaustedError, LedgerUnavailableError
from sklearn_bdp.holdout import ReusableHoldout
from sklearn_bdp.mechanisms import Thresholdout
from sklearn_bdp.metrics import get_metric
from tests.facts import refused
from tests.holdout.leak_audit import LeakAudit
from tests.holdout.planted import HITS, SCORE, X, Y, fitted
from tests.ledger.failing import FailingBackend


@pytest.fixture
def audit():
    return LeakAudit(SCORE, per_record=[HITS])


@pytest.fixture(params=["memory", "ledger"])
def holdout(request, tmp_path):
    path = tmp_path / "holdout.sqlite" if request.param == "ledger" else None
    return ReusableHoldout(X, Y, ledger=path, budget=3)


def by_scores(holdout, value, **options):
    return holdout.answer([value], [HITS.astype(float)], **options)


def by_estimator(holdout, value, **options):
    return holdout.score(fitted(), value, scoring="accuracy")


def by_evaluation(holdout, value, **options):
    evaluation = get_metric("accuracy").evaluate(fitted(), X, Y)
    return holdout.answer_evaluations([value], [evaluation], **options)


ENTRIES = pytest.mark.parametrize("ask", [by_scores, by_estimator, by_evaluation])


@ENTRIES
@pytest.mark.parametrize("value", [0.75, 0.2], ids=["below", "above"])
def test_answers_and_their_objects_contain_no_raw_score(holdout, audit, ask, value, capfd):
    with audit.watch() as output:
        answers = ask(holdout, value)
        certificate = holdout.certificate()
        history = holdout.history()
    files = [holdout.ledger] if holdout.ledger else []
    audit.check(
        output, answers, holdout, certificate, history, history.to_frame(), str(certificate), *files
    )
    audit.check(pickle.dumps(holdout), clone(holdout), repr(holdout), holdout._repr_html_())
    audit.check(*capfd.readouterr())


@ENTRIES
def test_an_exhausted_budget_does_not_reveal_the_score(holdout, audit, ask):
    with pytest.raises(BudgetExhaustedError):
        # Scores that jump from 0 to 1 cannot be learned from one another.
        holdout.answer([0.5] * 8, np.tile([[0.0], [1.0]], (4, X.shape[0])))
    assert holdout.remaining_budget == 0
    with pytest.raises(BudgetExhaustedError) as caught:
        ask(holdout, 0.2)
    audit.check_error(caught.value, callers=[__file__])
    assert caught.value.__context__ is None


@ENTRIES
def test_a_broken_ledger_does_not_reveal_the_score(audit, ask, tmp_path):
    backend = FailingBackend(tmp_path / "holdout.sqlite")
    holdout = ReusableHoldout(X, Y, ledger=backend)
    backend.error = LedgerUnavailableError("gone")
    with pytest.raises(LedgerUnavailableError) as caught:
        ask(holdout, 0.2)
    audit.check_error(caught.value, callers=[__file__])


def test_scores_out_of_range_are_not_quoted(holdout):
    audit = LeakAudit(1 + SCORE)
    scores = np.full(X.shape[0], 1 + SCORE)
    with refused(ValueError, "per_record_scores", "[0, 1]") as caught:
        holdout.answer([0.5], [scores])
    audit.check_error(caught.value, callers=[__file__])


def test_the_traceback_of_an_interrupt_holds_no_frame_with_scores(holdout, audit, monkeypatch):
    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(Thresholdout, "answer_run", interrupted)
    with pytest.raises(KeyboardInterrupt) as caught:
        by_scores(holdout, 0.2)
    audit.check_error(caught.value, callers=[__file__])
    assert len(holdout.history()) == 0


def test_a_failing_model_gets_the_worst_score(holdout, audit):
    with audit.watch() as output:
        released = holdout.score(fitted(fails=True), 0.9, scoring="accuracy")
    (answer,) = holdout.history()
    assert released.lower == answer.lower == 0.0
    audit.check(output, answer, holdout, released)


def test_the_command_line_shows_no_raw_score_and_no_threshold_noise(
    path, audit, capsys, command_line
):
    holdout = ReusableHoldout(X, Y, ledger=path)
    by_scores(holdout, 0.2)
    with holdout.account.read_transaction() as transaction:
        noise = str(
            abs(holdout.account.batch_context(transaction).mechanism.state()["threshold_noise"])
        )
    for action in ("show", "verify", "export"):
        assert command_line("ledger", action, path) == 0
    printed = capsys.readouterr()
    audit.check(printed.out, printed.err)
    assert noise not in printed.out


def test_threshold_noise_is_not_an_attribute_nor_in_a_pickle(holdout):
    by_scores(holdout, 0.2)
    with holdout.account.read_transaction() as transaction:
        noise = holdout.account.batch_context(transaction).mechanism.state()["threshold_noise"]
    audit = LeakAudit(noise)
    audit.texts = {repr(noise)}
    audit.values = np.array([noise])
    audit.packs = audit.packs[:2]
    audit.check(pickle.dumps(holdout), repr(holdout), holdout.history(), holdout.certificate())
