"""A closing holds its rows: what public facts forbid is refused before, nothing is lost after."""

import math

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression

from sklearn_bdp import ReusableHoldout
from sklearn_bdp.correlation import DependencyGraph, Groups, MarkovChain
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
def test_rows_of_groups_have_intervals_whatever_the_size_of_a_group(size):
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
    """Ask queries whose training-side value is far off until so many nats are spent."""
    queries = np.random.default_rng(0)
    while holdout.information_spent < nats:
        value = queries.integers(2, size=200).astype(float)
        holdout.answer(1.0 - value, np.repeat(value[:, None], N, axis=1))


@pytest.mark.parametrize(
    "correlation", [None, Groups(np.arange(N) // 4), MarkovChain([[0.9, 0.1], [0.1, 0.9]])]
)
def test_a_holdout_that_has_revealed_everything_has_the_widest_intervals(correlation):
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
    own = ReusableHoldout(X, Y, random_state=0).final_report(MODEL, scoring=["f1_macro", "jaccard"])
    assert [row.value for row in report.rows] == [row.value for row in own.rows]
    assert all(row.approximate is not None for row in report.rows)


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
def test_predictions_are_checked_alike_wherever_they_enter(predictions):
    """Queries, reports and baselines refuse the same ones, and the holdout stays open."""
    holdout = ReusableHoldout.from_targets(Y, training_targets=[0, 1], random_state=0)
    enters = (
        holdout.answer_predictions,
        holdout.final_report,
        lambda given: holdout.final_report(Y, compare=given),
    )
    messages = set()
    for enter in enters:
        with refused((TypeError, ValueError)) as refusal:
            enter(predictions)
        names = str(refusal.value).replace("y_pred", "NAME").replace("predictions", "NAME")
        messages.add((refusal.type, names.replace("baseline", "NAME").replace("'", "")))
    assert len(messages) == 1
    assert len(holdout.answer([0.5], np.ones((1, N)))) == 1
