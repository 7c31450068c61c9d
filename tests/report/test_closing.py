"""Closed holdouts keep their rows; requests that public facts rule out are rejected before."""

import math
import threading
import warnings

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression

from sklearn_bdp import ReusableHoldout
from sklearn_bdp.accounting.spending import report_attempt_length
from sklearn_bdp.correlation import DependencyGraph, Groups, MarkovChain, TimeOrdered
from sklearn_bdp.exceptions import (
    HoldoutClosedError,
    LedgerUnavailableError,
    ScoreContractError,
    UnfinishedReportError,
)
from sklearn_bdp.ledger.backend import MemoryBackend
from sklearn_bdp.metrics import PerRecordScore
from tests.facts import refused

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.SecondHoldoutWarning"),
    pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.UninformativeIntervalWarning"),
]

N = 400
X = np.random.default_rng(0).normal(size=(N, 2))
Y = (X[:, 0] + np.random.default_rng(1).normal(size=N) > 0.0).astype(int)
ONES = DummyClassifier(strategy="constant", constant=1).fit(X[:2], [0, 1])
MODEL = LogisticRegression().fit(X, Y)


def labels(n):
    return np.arange(n) % 2


# -- Weights of groups ------------------------------------------------------------------------


@pytest.mark.parametrize("size", [9, 11, 18, 20, 21, 25, 35])
def test_rows_of_groups_of_any_size_have_intervals(size):
    """``sum([1 / 9] * 9)`` is more than 1 in floating point."""
    n = 40 * size
    holdout = ReusableHoldout(
        np.zeros((n, 1)), labels(n), correlation=Groups(np.arange(n) // size), random_state=0
    )
    model = DummyClassifier(strategy="constant", constant=1).fit(np.zeros((2, 1)), [0, 1])
    report = holdout.final_report(model, scoring=["accuracy", "recall", "f1", "neg_brier_score"])
    assert all(row.proven is not None for row in report.rows)


@pytest.mark.parametrize("seed", range(5))
def test_rows_of_components_of_many_sizes_have_intervals(seed):
    sizes = np.random.default_rng(seed).integers(1, 10, size=60)
    n = int(sizes.sum())
    component = np.repeat(np.arange(60), sizes)
    graph = (component[:, None] == component) & ~np.eye(n, dtype=bool)
    correlation = DependencyGraph(graph.astype(float))
    holdout = ReusableHoldout(np.zeros((n, 2)), labels(n), correlation=correlation, random_state=0)
    report = holdout.final_report(ONES, scoring=["accuracy", "neg_brier_score"])
    assert all(row.proven is not None for row in report.rows)


# -- Levels below the smallest number ---------------------------------------------------------


def spend(holdout, nats):
    """Verify candidates with far too high cross-validated scores until so many nats are spent."""
    queries = np.random.default_rng(0)
    while holdout.information_spent < nats:
        value = queries.integers(2, size=200).astype(float)
        holdout.answer(1.0 - value, np.repeat(value[:, None], N, axis=1))


@pytest.mark.parametrize(
    "correlation", [None, Groups(np.arange(N) // 4), MarkovChain([[0.9, 0.1], [0.1, 0.9]])]
)
def test_a_holdout_without_remaining_confidence_has_the_widest_intervals(correlation):
    """``exp(-750)`` is 0 in floating point; the level of a row is larger."""
    holdout = ReusableHoldout(X, Y, correlation=correlation, random_state=0)
    spend(holdout, 750.0)
    report = holdout.final_report(ONES, scoring=["accuracy", "neg_brier_score"])
    for row, (low, high) in zip(report.rows, [(0.0, 1.0), (-1.0, 0.0)], strict=True):
        assert math.isfinite(row.value)
        assert low <= row.proven[0] <= row.value <= row.proven[1] <= high
        assert row.proven[1] - row.proven[0] > 0.9


# -- Forms of scoring -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scoring", "names"),
    [
        (np.str_("f1"), ["f1"]),
        (np.array(["accuracy", "f1"]), ["accuracy", "f1"]),
        (np.array("f1"), ["f1"]),
        ([np.str_("roc_auc")], ["roc_auc"]),
        ({"hits": "accuracy", "F": np.str_("f1")}, ["hits", "F"]),
    ],
)
def test_metrics_are_named_by_any_text_list_or_dict(scoring, names):
    holdout = ReusableHoldout(X, Y, random_state=0)
    report = holdout.final_report(MODEL, scoring=scoring)
    assert [row.metric for row in report.rows] == names
    assert all(type(row.metric) is str for row in report.rows)
    assert all(row.approximate is not None for row in report.rows)
    assert holdout.final_report(MODEL, scoring=scoring) == report


def test_predictions_are_scored_by_any_scorer_of_labels():
    holdout = ReusableHoldout(X, Y, random_state=0)
    report = holdout.final_report(MODEL.predict(X), scoring=["f1_macro", "jaccard"])
    report_of_model = ReusableHoldout(X, Y, random_state=0).final_report(
        MODEL, scoring=["f1_macro", "jaccard"]
    )
    assert [row.value for row in report.rows] == [row.value for row in report_of_model.rows]
    assert all(row.approximate is not None for row in report.rows)


def test_predictions_of_fewer_records_than_a_dry_run_has_are_reported():
    holdout = ReusableHoldout(X[:30], Y[:30], random_state=0)
    report = holdout.final_report(Y[:30], scoring="specificity", training=(X[30:], Y[30:]))
    assert report.value == 1.0


def test_a_calibration_slope_of_certain_predictions_is_undefined():
    """Log odds of 0 are infinite; the score is not at an end of its range."""
    probabilities = np.clip(X[:, 0], 0.0, 0.9)
    predictions = np.column_stack([1.0 - probabilities, probabilities])
    [row] = ReusableHoldout(X, Y).final_report(predictions, scoring="calibration_slope").rows
    assert np.isnan(row.value)
    assert "undefined" in row.notes[0]


def test_the_calibration_slope_needs_no_training_records():
    """Blank records, on which models are tried, are all alike: no slope fits them."""
    [row] = ReusableHoldout(X, Y).final_report(MODEL, scoring="calibration_slope").rows
    assert row.approximate[0] < row.value < row.approximate[1]
    [constant_row] = (
        ReusableHoldout(X, Y)
        .final_report(DummyClassifier().fit(X, Y), scoring="calibration_slope")
        .rows
    )
    assert math.isnan(constant_row.value)
    assert constant_row.notes


# -- Predictions ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "predictions",
    [
        np.full(N, 7),
        np.where(Y, "yes", "no"),
        np.full((N, 2), 0.9),
        np.column_stack([Y - 2.0, 3.0 - Y]),
        np.full((N, 3), 1.0 / 3.0),
        np.full(N, np.nan),
        np.zeros(N - 1),
        np.zeros(N, dtype=complex),
        np.array([None] * N),
    ],
)
def test_predictions_are_validated_alike_in_all_methods(predictions):
    """Queries, reports and baselines refuse the same ones, and the holdout stays open."""
    holdout = ReusableHoldout.from_targets(Y, training_targets=[0, 1], random_state=0)
    calls = (
        holdout.answer_predictions,
        holdout.final_report,
        lambda baseline: holdout.final_report(Y, compare=baseline),
    )
    messages = set()
    for call in calls:
        with refused((TypeError, ValueError)) as refusal:
            call(predictions)
        names = str(refusal.value).replace("y_pred", "NAME").replace("predictions", "NAME")
        for parameter in ("baseline", "compare"):
            names = names.replace(parameter, "NAME")
        names = names.replace("a fitted model or ", "")
        messages.add((refusal.type, names.replace("'", "")))
    assert len(messages) == 1
    assert len(holdout.answer([0.5], np.ones((1, N)))) == 1


# -- Requests that public facts rule out ------------------------------------------------------

VALUES = X[:, 0] + np.random.default_rng(2).normal(size=N)
REGRESSOR = LinearRegression().fit(X, VALUES)


@pytest.mark.parametrize(
    ("n", "correlation"),
    [
        (29, TimeOrdered()),
        (15, None),
        (400, Groups(np.arange(400) // 40)),
        (400, MarkovChain([[0.9, 0.1], [0.1, 0.9]])),
    ],
)
@pytest.mark.parametrize("scoring", ["r2", "neg_root_mean_squared_error", "average_precision"])
def test_a_report_without_any_interval_is_rejected_before_the_holdout_closes(
    n, correlation, scoring
):
    classifies = scoring == "average_precision"
    targets, model = (Y, MODEL) if classifies else (VALUES, REGRESSOR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        holdout = ReusableHoldout(X[:n], targets[:n], correlation=correlation, random_state=0)
    with refused(ValueError, scoring):
        holdout.final_report(model, scoring=scoring)
    assert len(holdout.answer([0.5], np.ones((1, n)))) == 1


@pytest.mark.parametrize("training", [None, (X, Y)])
def test_one_number_for_all_records_is_not_a_per_record_score(training):
    holdout = ReusableHoldout(X, Y, random_state=0)
    mean = PerRecordScore(lambda model, X, y: np.mean(model.predict(X) == y))
    with refused(ScoreContractError):
        holdout.final_report(MODEL, scoring=mean, training=training)
    assert len(holdout.answer([0.5], np.ones((1, N)))) == 1


@pytest.mark.parametrize("scoring", ["accuracy", "balanced_accuracy", "neg_zero_one_loss"])
def test_a_metric_of_labels_rejects_a_regressor(scoring):
    counts = np.random.default_rng(0).integers(0, 60, N)
    holdout = ReusableHoldout(X, counts, random_state=0)
    model = LinearRegression().fit(X, counts)
    with refused(TypeError, scoring, "LinearRegression"):
        holdout.final_report(model, scoring=scoring)
    with refused(TypeError, scoring, "LinearRegression"):
        holdout.score(model, 0.5, scoring=scoring)
    assert len(holdout.answer([0.5], np.ones((1, N)))) == 1


def test_groups_of_training_records_that_mix_numbers_and_text_are_rejected():
    holdout = ReusableHoldout(X, Y, correlation=Groups(np.arange(N) // 2), random_state=0)
    groups = np.array([1, "1"] * (N // 2), dtype=object)
    with refused(ValueError, "groups", "astype"):
        holdout.final_report(MODEL, training=(X, Y, groups))
    assert len(holdout.answer([0.5], np.ones((1, N)))) == 1


# -- Reports that do not finish ---------------------------------------------------------------


class FullDisk(MemoryBackend):
    """Rejects one entry: the ``fails_at``-th one from now."""

    fails_at = 0

    def append(self, expected_head, row):
        self.fails_at -= 1
        if self.fails_at == 0:
            raise LedgerUnavailableError("ledger full. The holdout was not queried.")
        super().append(expected_head, row)


def test_a_disk_that_is_full_before_a_report_begins_costs_nothing():
    disk = FullDisk()
    holdout = ReusableHoldout(X, Y, ledger=disk, random_state=0)
    spent = holdout.information_spent
    disk.fails_at = 1
    with refused(LedgerUnavailableError):
        holdout.final_report(ONES)
    assert holdout.information_spent == spent
    assert holdout.final_report(ONES).rows[0].proven is not None


def test_a_disk_that_is_full_when_a_report_is_recorded_leaves_the_holdout_open():
    disk = FullDisk()
    holdout = ReusableHoldout(X, Y, ledger=disk, random_state=0)
    spent = holdout.information_spent
    disk.fails_at = 2
    with refused(LedgerUnavailableError, "final_report") as refusal:
        holdout.final_report(ONES)
    assert "not queried" not in str(refusal.value)
    assert holdout.information_spent == pytest.approx(spent + CHARGE)
    assert len(holdout.answer([0.5], np.ones((1, N)))) == 1
    assert holdout.final_report(ONES).rows[0].proven is not None


#: Nats of the first report that does not finish.
CHARGE = report_attempt_length(n_earlier=0, finished=False)


class StopsOnHoldout:
    """A scorer that raises an exception on the holdout, with the score in its message."""

    def __init__(self, error_class, bound=0.0):
        self.error_class = error_class
        self.bound = bound
        self.lock = threading.Lock()  # no digest of it can be taken

    def __call__(self, estimator, X, y):
        score = float(np.mean(estimator.predict(X) == y))
        warnings.warn(f"{score}", stacklevel=2)
        print(score)
        if len(X) == N and score > self.bound:
            raise self.error_class(f"{score}")
        return score


class UserError(BaseException):
    """No exception of Python's own."""


@pytest.mark.parametrize(
    ("error_class", "expected_error"),
    [
        (KeyboardInterrupt, KeyboardInterrupt),
        (SystemExit, UnfinishedReportError),
        (GeneratorExit, UnfinishedReportError),
        (UserError, UnfinishedReportError),
    ],
)
def test_a_report_that_a_scorer_stops_reveals_no_score_and_leaves_the_holdout_open(
    error_class, expected_error, capfd, recwarn
):
    holdout = ReusableHoldout(X, Y, random_state=0)
    spent = holdout.information_spent
    with pytest.raises(expected_error) as stop:
        holdout.final_report(MODEL, scoring=["accuracy", StopsOnHoldout(error_class)])
    capfd.readouterr()
    score = f"{np.mean(MODEL.predict(X) == Y)}"
    assert score not in str(stop.value)
    assert type(stop.value) is expected_error
    assert (stop.value.__cause__, stop.value.__context__) == (None, None)
    assert f"{CHARGE:.2g}" in str(stop.value)
    assert not [warning for warning in recwarn if score in str(warning.message)]
    assert holdout.information_spent == pytest.approx(spent + CHARGE)
    assert "G35" in str(holdout.certificate())
    with pytest.raises(AttributeError):
        _ = holdout.report_
    assert len(holdout.answer([0.5], np.ones((1, N)))) == 1
    report = holdout.final_report(MODEL)
    assert report.code_length > CHARGE
    with pytest.raises(HoldoutClosedError):
        holdout.final_report(MODEL, scoring="f1")


def test_an_error_of_this_package_leaves_the_holdout_open(monkeypatch):
    holdout = ReusableHoldout(X, Y, random_state=0)
    with monkeypatch.context() as patch:
        patch.delattr("sklearn_bdp.report.approximate_rows.approximate_row")
        with pytest.raises(UnfinishedReportError):
            holdout.final_report(MODEL)
    assert holdout.final_report(MODEL).rows[0].proven is not None


def test_a_scorer_that_raises_an_ordinary_error_has_a_row_with_a_note():
    def undefined(estimator, X, y):
        return 1 / 0 if len(X) == N else 0.5

    holdout = ReusableHoldout(X, Y, random_state=0)
    accuracy, row = holdout.final_report(MODEL, scoring=["accuracy", undefined]).rows
    assert accuracy.proven is not None
    assert math.isnan(row.value)
    assert (row.proven, row.approximate) == (None, None)
    assert "ZeroDivisionError" in row.notes[0]


def test_unfinished_reports_leave_a_declared_level_without_a_finite_level():
    holdout = ReusableHoldout(X, Y, epsilon=1.0, budget=5, random_state=0)

    class Interrupts(LogisticRegression):
        def predict(self, X):
            if len(X) == N:
                raise KeyboardInterrupt
            return super().predict(X)

    with pytest.raises(KeyboardInterrupt):
        holdout.final_report(Interrupts().fit(X, Y))
    assert holdout.certificate().dp_epsilon == math.inf
    assert holdout.final_report(MODEL).rows[0].proven is not None


@pytest.mark.parametrize("runs", [10, pytest.param(100, marks=pytest.mark.slow)])
def test_an_interrupt_that_depends_on_the_score_is_charged(runs):
    """Fifty attempts, each stopped unless the score is good by chance: the first that finishes.

    The score that is reported lies above two standard deviations in most runs. Without a charge
    nearly all of these intervals would miss 1/2.
    """
    n_finished = 0
    n_missed = 0
    for run in range(runs):
        rng = np.random.default_rng(run)
        targets = rng.integers(0, 2, N)
        holdout = ReusableHoldout(np.zeros((N, 1)), targets, random_state=run)
        for _ in range(50):
            guesses = rng.integers(0, 2, N)

            def stopping_score(estimator, X, y):
                score = float(np.mean(estimator.predict(X) == y))
                if len(X) == N and score < 0.55:
                    raise KeyboardInterrupt
                return score

            try:
                report = holdout.final_report(guesses, scoring=["accuracy", stopping_score])
            except KeyboardInterrupt:
                continue
            n_finished += 1
            for row in report.rows:
                limits = row.proven or row.approximate or (0.0, 1.0)
                n_missed += not limits[0] <= 0.5 <= limits[1]
            break
    assert n_finished >= 0.6 * runs
    assert n_missed <= 0.1 * runs


# -- Rows that are read alone, and events -----------------------------------------------------


SINGLE_METRICS = ["accuracy", "recall", "roc_auc", "average_precision"]


def test_individual_rows_are_those_of_reports_of_one_row():
    """G32: each row has its own level, which does not depend on the other rows."""
    report = ReusableHoldout(X, Y, random_state=0).final_report(
        MODEL, scoring=SINGLE_METRICS, joint=False
    )
    for row in report.rows:
        holdout = ReusableHoldout(X, Y, random_state=0)
        [single_row] = holdout.final_report(MODEL, scoring=row.metric).rows
        assert (row.proven, row.approximate) == (single_row.proven, single_row.approximate)
    joint = ReusableHoldout(X, Y, random_state=0).final_report(MODEL, scoring=SINGLE_METRICS)
    for row, joint_row in zip(report.rows, joint.rows, strict=True):
        assert row.upper - row.lower < joint_row.upper - joint_row.lower
    assert joint.joint
    assert "simultaneous" in joint.methods()
    assert "simultaneous" not in report.methods()
    assert "by itself" in report.methods()
    assert "by itself" in str(report)


def test_individual_rows_are_not_simultaneous_answers():
    """The certificate counts answers that are correct together; the report returns again."""
    holdout = ReusableHoldout(X, Y, random_state=0)
    holdout.answer([0.5], np.ones((1, N)))
    report = holdout.final_report(MODEL, scoring=SINGLE_METRICS, joint=False)
    assert len(holdout.history()) == 1
    assert holdout.certificate().answers.n_answers == 1
    assert (
        holdout.final_report(MODEL, scoring=SINGLE_METRICS, joint=False)
        == report
        == holdout.report_
    )
    with pytest.raises(HoldoutClosedError):
        holdout.final_report(MODEL, scoring=SINGLE_METRICS)


def test_rows_with_noise_are_simultaneous_only():
    holdout = ReusableHoldout(X, Y, epsilon=1.0, budget=5, random_state=0)
    with refused(ValueError, "joint"):
        holdout.final_report(MODEL, joint=False)
    assert holdout.final_report(MODEL).rows[0].proven is not None


@pytest.mark.parametrize("scoring", [["accuracy", "f1"], ["f1", "accuracy"], ["accuracy"]])
def test_events_are_positives_for_any_order_of_metrics(scoring):
    rare = (X[:, 0] < 1.0).astype(int)  # most records are positive
    model = LogisticRegression().fit(X, rare)
    report = ReusableHoldout(X, rare, random_state=0).final_report(model, scoring=scoring)
    assert {row.n_events for row in report.rows} == {int(rare.sum())}
    assert f"{rare.sum()} positive" in report.methods()


def test_a_regression_has_no_events():
    counts = np.random.default_rng(0).integers(0, 9, N)
    model = LinearRegression().fit(X, counts)
    [row] = ReusableHoldout(X, counts, random_state=0).final_report(model, scoring="r2").rows
    assert row.n_events is None


def test_methods_have_no_sentence_on_approximate_intervals_without_one():
    report = ReusableHoldout(X, Y, random_state=0).final_report(ONES)
    assert report.rows[0].approximate is not None
    assert "jackknife" in report.methods()
    proven = ReusableHoldout(X, np.ones(N, int), random_state=0).final_report(ONES)
    assert proven.rows[0].approximate is None
    assert "jackknife" not in proven.methods()
