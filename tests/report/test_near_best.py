"""Rows of metrics of labels near the best score have intervals inside the range (theory G34)."""

import numpy as np
import pytest
from scipy.stats import binomtest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import f1_score, matthews_corrcoef

from sklearn_bdp import ReusableHoldout

N = 300
LEVEL = 0.05


@pytest.mark.parametrize("n_wrong", [0, 1, 2, 30])
@pytest.mark.parametrize("scoring", ["f1_macro", "jaccard_macro", "matthews_corrcoef"])
def test_interval_is_inside_the_range_and_holds_the_score(scoring, n_wrong):
    y = np.arange(N) % 2
    predicted = y.copy()
    predicted[:n_wrong] = 1 - predicted[:n_wrong]
    holdout = ReusableHoldout.from_targets(y, training_targets=[0, 1], random_state=0)
    (row,) = holdout.final_report(predicted, scoring=scoring).rows
    lowest = -1.0 if scoring == "matthews_corrcoef" else 0.0
    assert lowest <= row.lower < row.value <= row.upper <= 1.0
    assert row.lower > 0.2


@pytest.mark.parametrize("labels", [("a", "b"), (True, False), (2, 5)])
def test_labels_of_any_type_have_an_interval(labels):
    y = np.array(labels)[np.arange(N) % 2]

    class Copies(ClassifierMixin, BaseEstimator):
        """Predicts the label that the feature holds."""

        def fit(self, X, y):
            self.classes_ = np.unique(y)
            return self

        def predict(self, X):
            return self.classes_[X[:, 0].astype(int)]

    X = np.unique(y, return_inverse=True)[1][:, None].astype(float)
    holdout = ReusableHoldout(X, y, random_state=0)
    (row,) = holdout.final_report(Copies().fit(X, y), scoring="f1_macro").rows
    assert 0.0 < row.lower < row.value == row.upper == 1.0


def count_misses(scoring, accuracy, prevalence, n, n_repetitions):
    """Return how many intervals of reports of fixed models do not hold the score."""
    table = np.array([[(1.0 - prevalence) * accuracy, (1.0 - prevalence) * (1.0 - accuracy)],
                      [prevalence * (1.0 - accuracy), prevalence * accuracy]])  # fmt: skip
    actual = np.repeat([0, 1], 2)
    predicted = np.tile([0, 1], 2)
    if scoring == "f1_macro":
        expected_score = f1_score(actual, predicted, average="macro", sample_weight=table.ravel())
    else:
        expected_score = matthews_corrcoef(actual, predicted, sample_weight=table.ravel())
    rng = np.random.default_rng(0)
    n_missed = n_intervals = 0
    for _ in range(n_repetitions):
        cells = rng.choice(4, n, p=table.ravel())
        holdout = ReusableHoldout.from_targets(
            actual[cells], training_targets=[0, 1], random_state=int(rng.integers(2**31))
        )
        (row,) = holdout.final_report(predicted[cells], scoring=scoring).rows
        if row.approximate is None:
            continue
        n_intervals += 1
        n_missed += not row.lower <= expected_score <= row.upper
    return n_missed, n_intervals


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("scoring", ["f1_macro", "matthews_corrcoef"])
def test_interval_near_the_best_score_covers(scoring):
    n_missed, n_intervals = count_misses(scoring, 0.99, 0.5, 200, n_repetitions=40)
    assert n_intervals == 40
    assert binomtest(n_missed, n_intervals, LEVEL, alternative="greater").pvalue > 1e-3


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("scoring", ["f1_macro", "matthews_corrcoef"])
@pytest.mark.parametrize("prevalence", [0.5, 0.15])
@pytest.mark.parametrize("accuracy", [0.999, 0.99, 0.95])
def test_intervals_near_the_best_score_cover_in_many_repetitions(scoring, prevalence, accuracy):
    n_missed, n_intervals = count_misses(scoring, accuracy, prevalence, 200, n_repetitions=600)
    assert n_intervals > 400
    assert binomtest(n_missed, n_intervals, LEVEL, alternative="greater").pvalue > 1e-3
