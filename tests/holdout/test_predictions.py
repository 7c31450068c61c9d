"""Predictions instead of models: accepted submissions, their names and their cost."""

import json
import pickle

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from sklearn_bdp import ReusableHoldout
from sklearn_bdp.exceptions import LedgerMismatchError
from sklearn_bdp.holdout import ExpertSettings, HoldoutConfig
from sklearn_bdp.metrics import PerRecordScore
from tests.facts import refused
from tests.holdout.leak_audit import LeakAudit

# Several holdouts of the same records, each for a test of its own.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.SecondHoldoutWarning")

N = 400
RNG = np.random.default_rng(0)
Y = RNG.integers(0, 2, N)
GOOD = np.where(RNG.random(N) < 0.8, Y, 1 - Y)
TEXT = np.array(["no", "yes"])[Y]


def from_targets(y=Y, **options):
    return ReusableHoldout.from_targets(y, training_targets=np.unique(y), **options)


@pytest.mark.parametrize(
    ("scoring", "method", "expected"),
    [("accuracy", "predict", 0.4), ("roc_auc", "decision_function", 0.4),
     ("balanced_accuracy", "predict", 0.4), ("neg_brier_score", "predict_proba", -0.6),
     ("neg_log_loss", "predict_proba", -3.0)],
)  # fmt: skip
def test_predictions_have_the_answer_of_their_model(scoring, method, expected):
    X = RNG.normal(size=(N, 2)) + Y[:, None]
    model = LogisticRegression().fit(X[:50], Y[:50])
    options = {"random_state": 0, "expert": ExpertSettings(resolution=1e-6)}
    model_answer = ReusableHoldout(X, Y, **options).score(model, expected, scoring=scoring)
    prediction_answer = from_targets(**options).answer_predictions(
        getattr(model, method)(X), scoring=scoring, cv_score=expected
    )
    assert (prediction_answer.value, prediction_answer.lower, prediction_answer.upper) == (
        model_answer.value,
        model_answer.lower,
        model_answer.upper,
    )


def test_text_labels_and_numbers():
    holdout = from_targets(TEXT)
    answer = holdout.answer_predictions(np.array(["no", "yes"])[GOOD], cv_score=0.8)
    assert answer.lower < 0.8 < answer.upper
    real_targets = RNG.normal(size=N)
    holdout = ReusableHoldout.from_targets(real_targets, training_targets=[-3.0, 0.0, 3.0])
    answer = holdout.answer_predictions(real_targets + 0.1, scoring="neg_mean_absolute_error")
    assert answer.lower < -0.1 < answer.upper
    integer_range_holdout = ReusableHoldout.from_targets(
        real_targets, training_targets=[-3, 3]
    )  # a range, not classes
    assert (
        integer_range_holdout.final_report(
            real_targets + 0.1, scoring="neg_mean_absolute_error"
        ).value
        < 0.0
    )


def test_history_shows_the_submission_and_its_submitter(path):
    holdout = from_targets(ledger=path)
    holdout.answer_predictions(GOOD, name="tree 3", submitter="ann")
    holdout.answer_predictions(1 - GOOD, name="tree 4", submitter="bob")
    assert [(answer.model, answer.submitter, answer.metric) for answer in holdout.history()] == [
        ("tree 3", "ann", "accuracy"), ("tree 4", "bob", "accuracy")
    ]  # fmt: skip
    frame = from_targets(ledger=path).history().to_frame()
    assert frame["submitter"].tolist() == ["ann", "bob"]
    with pytest.raises(LedgerMismatchError):
        from_targets(1 - Y, ledger=path)


def test_the_default_cv_score_is_the_last_released_score_of_the_submitter():
    holdout = from_targets(random_state=0)
    first_answer = holdout.answer_predictions(GOOD, submitter="ann")
    assert first_answer.cv_score == 0.5
    assert first_answer.corrected
    better_predictions = np.where(np.arange(N) < 20, Y, GOOD)
    second_answer = holdout.answer_predictions(better_predictions, submitter="ann")
    assert second_answer.cv_score == pytest.approx(first_answer.value)
    assert not second_answer.corrected
    assert holdout.answer_predictions(1 - better_predictions, submitter="bob").cv_score == 0.5
    assert holdout.answer_predictions(1 - GOOD).cv_score == 0.5
    answer_by_other_metric = holdout.answer_predictions(
        better_predictions, submitter="ann", scoring="balanced_accuracy"
    )
    assert answer_by_other_metric.cv_score == 0.5  # of another metric


def test_the_same_predictions_are_free_for_all_submitters():
    holdout = from_targets()
    first_answer = holdout.answer_predictions(GOOD, name="one", submitter="ann")
    spent = holdout.information_spent
    for predictions in (GOOD, GOOD.tolist(), GOOD.astype(np.int8).astype(np.int64)):
        answer = holdout.answer_predictions(predictions, name="two", submitter="bob", cv_score=0.9)
        assert (answer.value, answer.lower, answer.upper) == (
            first_answer.value,
            first_answer.lower,
            first_answer.upper,
        )
    assert holdout.information_spent == spent
    assert len(holdout.history()) == 1


PROBABILITIES = np.column_stack([1 - GOOD, GOOD]).astype(float)
INVALID_PREDICTIONS = {
    "too few": GOOD[:-1],
    "a table": np.zeros((N, 2, 2)),
    "a number": 0.7310585,
    "three columns": np.full((N, 3), 1 / 3),
    "not finite": np.where(np.arange(N) == 7, np.nan, PROBABILITIES[:, 1]),
    "no chance": PROBABILITIES * 1.7310585,
    "negative": PROBABILITIES - np.array([0.5, -0.5]),
    "another label": np.where(np.arange(N) == 7, 731, GOOD),
    "text": np.array(["no", "yes"])[GOOD],
    "a model": LogisticRegression(),
}


@pytest.mark.parametrize("name", INVALID_PREDICTIONS)
def test_invalid_predictions_are_rejected_before_any_charge(name):
    holdout = from_targets()
    with pytest.raises((TypeError, ValueError)) as caught:
        holdout.answer_predictions(INVALID_PREDICTIONS[name], name="a", submitter="b")
    assert "731" not in str(caught.value)
    assert len(holdout.history()) == 0


@pytest.mark.parametrize("cell", [None, np.nan, 731])
def test_predictions_that_are_not_labels_are_rejected_before_any_charge(cell):
    predictions = TEXT.astype(object)
    predictions[7] = cell
    for holdout in (from_targets(TEXT), ReusableHoldout.from_targets(TEXT)):
        with refused(ValueError, "y_pred") as caught:
            holdout.answer_predictions(predictions)
        assert "731" not in str(caught.value)
        assert len(holdout.history()) == 0


@pytest.mark.parametrize("texts", [{"name": 3}, {"submitter": ""}, {"submitter": "x" * 201}])
def test_names_are_texts(texts):
    holdout = from_targets()
    with refused(TypeError, "1", "200"):
        holdout.answer_predictions(GOOD, **texts)
    with refused(ValueError, "model"):
        holdout.answer_predictions(GOOD, scoring=PerRecordScore(lambda m, X, y: np.ones(len(y))))
    assert len(holdout.history()) == 0


@pytest.mark.parametrize("training_targets", [None, [0, 1]])
def test_integer_targets_have_classes_0_and_1_unless_training_targets_have_more(training_targets):
    rng = np.random.default_rng(0)
    probabilities = np.clip(0.3 + 0.4 * Y + 0.2 * rng.normal(size=len(Y)), 0.01, 0.99)
    options = {} if training_targets is None else {"training_targets": training_targets}
    holdout = ReusableHoldout.from_targets(Y, **options)
    answer = holdout.answer_predictions(probabilities, scoring="roc_auc")
    assert answer.lower < roc_auc_score(Y, probabilities) < answer.upper
    for scoring, invalid_predictions in (
        ("accuracy", probabilities),
        ("roc_auc", (probabilities > 0.5).astype(int)),
    ):
        with refused(TypeError, "predictions"):
            holdout.answer_predictions(invalid_predictions, scoring=scoring)
    with refused(ValueError, "labels"):
        holdout.answer_predictions(np.where(Y == 1, "yes", "no"))
    assert len(holdout.history()) == 1
    with refused(TypeError, "predictions"):
        holdout.final_report({"a": probabilities})
    auc_row, brier_row = holdout.final_report(
        {"a": probabilities}, scoring=["roc_auc", "neg_brier_score"]
    ).rows
    assert auc_row.value == pytest.approx(roc_auc_score(Y, probabilities))
    assert brier_row.value == pytest.approx(-np.mean((probabilities - Y) ** 2))


def test_probabilities_of_undeclared_classes_are_rejected():
    holdout = ReusableHoldout.from_targets(TEXT)
    with refused(ValueError, "classes"):
        holdout.answer_predictions(np.full((N, 2), 0.5), scoring="neg_brier_score")
    assert len(holdout.history()) == 0


NUMBER_LABELS = {"1, 2": Y + 1, "-1, 1": 2 * Y - 1, "1.0, 2.0": Y + 1.0}
#: Probabilities of the smaller and of the larger label, which is predicted for most records of it.
CHANCES = np.column_stack([0.9 - 0.8 * GOOD, 0.1 + 0.8 * GOOD])


@pytest.mark.parametrize("y", NUMBER_LABELS.values(), ids=NUMBER_LABELS)
@pytest.mark.parametrize("scoring", ["accuracy", "roc_auc", "neg_brier_score"])
def test_columns_of_probabilities_are_the_sorted_classes_of_training_targets(y, scoring):
    """They were read as probabilities of the classes 0 and 1."""
    expected_row = from_targets(random_state=0).final_report(CHANCES, scoring=scoring).rows[0]
    expected = from_targets(random_state=0).answer_predictions(CHANCES, scoring=scoring)
    public_holdout = ReusableHoldout.from_targets(y, training_targets=y[:100], random_state=0)
    answers = [
        public_holdout.answer_predictions(CHANCES, scoring=scoring),
        ReusableHoldout.from_targets(y, random_state=0).answer_predictions(
            CHANCES, scoring=scoring, training_predictions=(y[:100], CHANCES[:100])
        ),
    ]
    for answer in answers:
        assert (answer.value, answer.lower, answer.upper) == pytest.approx(
            (expected.value, expected.lower, expected.upper)
        )
    rows = [
        public_holdout.final_report({"m": CHANCES}, scoring=scoring).rows[0],
        ReusableHoldout(np.zeros((N, 1)), y, random_state=0)
        .final_report({"m": CHANCES}, scoring=scoring, training=(np.zeros((100, 1)), y[:100]))
        .rows[0],
    ]
    for row in rows:
        assert row.value == pytest.approx(expected_row.value)
        assert row.lower < expected_row.value < row.upper


@pytest.mark.parametrize("y", NUMBER_LABELS.values(), ids=NUMBER_LABELS)
def test_probabilities_of_unknown_number_labels_are_rejected_before_any_charge(y, path):
    holdout = ReusableHoldout.from_targets(y, ledger=path)
    rejected = [CHANCES] if y.dtype.kind == "f" else [CHANCES, CHANCES[:, 1]]
    for predictions in rejected:
        with refused(ValueError, "training_targets=[...]", "0", "1"):
            holdout.answer_predictions(predictions, scoring="roc_auc")
        with refused(ValueError, "training_targets=[...]", "0", "1"):
            holdout.final_report({"m": predictions}, scoring="roc_auc")
    assert len(holdout.history()) == 0
    assert holdout.information_spent == 0.0
    assert not hasattr(holdout, "report_")
    with refused(ValueError, "3 classes", "2"):
        ReusableHoldout.from_targets(y, training_targets=[1, 2, 3]).answer_predictions(CHANCES)


def test_probabilities_of_one_column_are_of_the_larger_training_label():
    expected = from_targets(random_state=0).answer_predictions(CHANCES[:, 1], scoring="roc_auc")
    answer = ReusableHoldout.from_targets(Y + 1, random_state=0).answer_predictions(
        CHANCES[:, 1], scoring="roc_auc", training_predictions=(Y[:100] + 1, CHANCES[:100, 1])
    )
    assert (answer.value, answer.lower, answer.upper) == pytest.approx(
        (expected.value, expected.lower, expected.upper)
    )
    numbers = np.clip(CHANCES[:, 1] + 0.05 * RNG.normal(size=N), 0.0, 1.0)  # of a regression
    answer = ReusableHoldout.from_targets(numbers, random_state=0).answer_predictions(
        CHANCES[:, 1],
        scoring="neg_mean_absolute_error",
        training_predictions=(numbers, CHANCES[:, 1]),
    )
    assert answer.lower < -np.mean(np.abs(numbers - CHANCES[:, 1])) < answer.upper


def test_labels_are_reported_by_accuracy():
    assert from_targets().final_report({"a": Y}).rows[0].metric == "accuracy"


def test_models_cannot_be_scored_on_targets_alone():
    holdout = from_targets()
    with refused(ValueError, "columns"):
        holdout.score(LogisticRegression().fit(np.eye(2), [0, 1]), 0.5)
    assert len(holdout.history()) == 0


def test_a_final_report_of_predictions_closes():
    holdout = from_targets(random_state=0)
    holdout.answer_predictions(GOOD, submitter="ann")
    report = holdout.final_report({"ann": GOOD, "bob": 1 - GOOD}, scoring="accuracy")
    assert [row.model for row in report.rows] == ["ann", "bob"]
    assert report.rows[0].lower < 0.8 < report.rows[0].upper


def test_raw_scores_of_predictions_are_not_released(path):
    y = np.arange(1009) % 2
    predictions = np.where(np.arange(1009) < 738, y, 1 - y)
    audit = LeakAudit(738 / 1009, per_record=[predictions == y])
    holdout = ReusableHoldout.from_targets(y, training_targets=[0, 1], ledger=path)
    with audit.watch() as output:
        answer = holdout.answer_predictions(predictions, name="mine", submitter="ann")
    audit.check(output, answer, holdout.history(), repr(holdout), holdout.certificate(), path)
    assert json.loads(json.dumps(answer.submitter)) == "ann"


def test_public_targets_travel_with_a_pickle(path, server):
    holdout = from_targets(TEXT, ledger=path)
    reloaded = pickle.loads(pickle.dumps(holdout))
    assert reloaded.answer_predictions(np.full(N, "no"), scoring="balanced_accuracy").answered
    assert HoldoutConfig().ledger is None
