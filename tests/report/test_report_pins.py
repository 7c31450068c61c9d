"""Rows of final reports: 24 metrics under four kinds of dependence, equal to recorded numbers.

``python -m tests.report.test_report_pins`` writes the numbers again. A changed number is a changed
statement about a holdout, so the commit that writes it says why.
"""

import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

from sklearn_bdp import ReusableHoldout
from sklearn_bdp.correlation import Groups, MarkovChain

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.SecondHoldoutWarning"),
    pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.UninformativeIntervalWarning"),
]

PINS = Path(__file__).with_name("report_pins.json")
RELATIVE_TOLERANCE = 1e-9
N_RECORDS = 600
N_TRAINING = 900

#: Metrics by kind of target.
METRICS = {
    "two classes": [
        *("accuracy", "balanced_accuracy", "recall", "specificity", "precision"),
        *("negative_predictive_value", "f1", "jaccard", "matthews_corrcoef", "roc_auc"),
        *("average_precision", "neg_brier_score", "neg_log_loss", "net_benefit_0.3"),
        "calibration_slope",
    ],
    "three classes": ["roc_auc_ovr", "top_k_accuracy"],
    "numbers": [
        *("neg_mean_absolute_error", "neg_mean_squared_error", "r2"),
        *("neg_root_mean_squared_error", "neg_mean_absolute_percentage_error"),
        *("neg_median_absolute_error", "neg_mean_poisson_deviance"),
    ],
}
DEPENDENCES = ("independent", "groups", "time", "chain")
CASES = [(target, dependence) for target in METRICS for dependence in DEPENDENCES]


class FixedClassifier(ClassifierMixin, BaseEstimator):
    """Probabilities of classes from one column: the same whatever it is fitted on."""

    def __init__(self, column=0, n_classes=2):
        self.column = column
        self.n_classes = n_classes

    def fit(self, X, y=None):
        self.classes_ = np.arange(self.n_classes)
        return self

    def predict_proba(self, X):
        center = 0.5 + (self.n_classes - 1) * np.asarray(X)[:, self.column]
        closeness = 1.0 / (0.1 + np.abs(center[:, np.newaxis] - 0.5 - self.classes_))
        return closeness / closeness.sum(axis=1, keepdims=True)

    def predict(self, X):
        return self.classes_[np.argmax(self.predict_proba(X), axis=1)]


class FixedRegressor(RegressorMixin, BaseEstimator):
    """A line through one column: the same whatever it is fitted on."""

    def __init__(self, column=0):
        self.column = column

    def fit(self, X, y=None):
        self.n_features_in_ = X.shape[1]
        return self

    def predict(self, X):
        return 1.0 + 4.0 * np.asarray(X)[:, self.column]


def make_data(target, n, seed):
    """Return two columns in [0, 1] (the second less accurate), a subgroup, and targets."""
    rng = np.random.default_rng(seed)
    signal = rng.random(n)
    noisy_signal = np.clip(signal + rng.uniform(-0.4, 0.4, n), 0.0, 1.0)
    X = np.column_stack([signal, noisy_signal, rng.integers(2, size=n)])
    if target == "two classes":
        return X, (rng.random(n) < signal).astype(int)
    if target == "three classes":
        return X, np.clip(np.rint(2.0 * signal + rng.uniform(-0.8, 0.8, n)), 0, 2).astype(int)
    return X, 1.0 + 4.0 * np.clip(signal + rng.uniform(-0.4, 0.4, n), 0.0, 1.5)


def make_rows(target, dependence):
    """Return rows of a report: a model, two subgroups, their gap, and a second model's gain."""
    X, y = make_data(target, N_RECORDS, seed=0)
    training = make_data(target, N_TRAINING, seed=1)
    correlation = {
        "independent": None,
        "groups": Groups(np.arange(N_RECORDS) // 3),
        "time": "time",
        "chain": MarkovChain.from_autocorrelation_time(1.2),
    }[dependence]
    if dependence == "groups":
        training = (*training, np.arange(N_TRAINING) // 3)
    if target == "numbers":
        models = {"first": FixedRegressor(0), "second": FixedRegressor(1)}
    else:
        n_classes = 2 if target == "two classes" else 3
        models = {"first": FixedClassifier(0, n_classes), "second": FixedClassifier(1, n_classes)}
    for model in models.values():
        model.fit(*training[:2])
    holdout = ReusableHoldout(X, y, correlation=correlation, random_state=0)
    report = holdout.final_report(
        models,
        scoring=METRICS[target],
        compare=True,
        by={"subgroup": X[:, 2].astype(int)},
        training=training,
        joint=False,  # a level that does not depend on the number of rows
    )
    rows = {}
    for row in report.rows:
        is_recorded = row.model == "first" or (" " in row.model and not row.subgroup)
        if not is_recorded:
            continue
        name = " | ".join(filter(None, [row.metric, row.model, row.subgroup]))
        approximate = row.approximate
        if approximate is None:
            approximate = row.notes[-1] if row.notes else ""
        rows[name] = [row.value, row.method, row.proven, approximate]
    return rows


def numbers_and_texts(rows):
    """Return the numbers of all rows, and the rest of them."""
    numbers = []
    texts = []
    for name, (value, method, *intervals) in rows.items():
        limits = [
            limit
            for interval in intervals
            if isinstance(interval, list | tuple)
            for limit in interval
        ]
        numbers += [limit for limit in [value, *limits] if limit is not None]
        interval_labels = [
            "interval" if isinstance(interval, list | tuple) else interval for interval in intervals
        ]
        texts.append((name, value is None, method, *interval_labels))
    return np.array(numbers), texts


@pytest.mark.parametrize(("target", "dependence"), CASES)
def test_rows_equal_the_recorded_ones(target, dependence):
    recorded = json.loads(PINS.read_text("utf-8"))[f"{target}, {dependence}"]
    numbers, texts = numbers_and_texts(make_rows(target, dependence))
    recorded_numbers, recorded_texts = numbers_and_texts(recorded)
    assert texts == recorded_texts
    np.testing.assert_allclose(numbers, recorded_numbers, rtol=RELATIVE_TOLERANCE, atol=1e-12)


def test_24_metrics_are_recorded():
    assert sum(len(metrics) for metrics in METRICS.values()) == 24


def rounded(number):
    """Return a number with 11 significant digits."""
    return float(f"{number:.11g}") if isinstance(number, float) else number


def write():
    """Write the numbers of all rows, one row a line."""
    blocks = []
    for target, dependence in CASES:
        lines = []
        for name, (value, method, *intervals) in make_rows(target, dependence).items():
            pairs = [
                list(map(rounded, pair)) if isinstance(pair, list | tuple) else pair
                for pair in intervals
            ]
            lines.append(f"  {json.dumps(name)}: {json.dumps([rounded(value), method, *pairs])}")
        blocks.append(f'"{target}, {dependence}": {{\n' + ",\n".join(lines) + "\n}")
    PINS.write_text("{\n" + ",\n".join(blocks) + "\n}\n", "utf-8")


if __name__ == "__main__":
    write()
