"""After any arguments of a report, the holdout is open or has a report (issue 31)."""

import itertools
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.cluster import KMeans
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier
from sklearn.metrics import f1_score, get_scorer_names, make_scorer, recall_score, roc_auc_score
from sklearn.multioutput import MultiOutputClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from sklearn_bdp import ReusableHoldout
from sklearn_bdp.correlation import Groups, MarkovChain
from sklearn_bdp.metrics import PerRecordScore, available_metrics

# The reports are unusual, and the holdouts are small.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.SklearnBdpWarning")

N = 60


class Counts(ClassifierMixin, BaseEstimator):
    """A model that changes when it predicts."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.calls = 0
        return self

    def predict(self, X):
        self.calls += 1
        return self.classes_[(np.asarray(X)[:, 0] > 0).astype(int)]


class Column(DecisionTreeClassifier):
    """Predictions as a column."""

    def predict(self, X):
        return super().predict(X)[:, None]


class Fails(DecisionTreeClassifier):
    """A model that cannot predict at all."""

    def predict(self, X):
        raise RuntimeError("no")


class OtherColumns(LogisticRegression):
    """Fitted on fewer columns."""

    def fit(self, X, y):
        return super().fit(np.asarray(X)[:, :1], y)


MODELS = [
    LogisticRegression(), SVC(), RidgeClassifier(), GaussianNB(), KNeighborsClassifier(),
    DecisionTreeClassifier(max_depth=2), DummyClassifier(), RandomForestClassifier(3), Counts(),
    make_pipeline(StandardScaler(), LogisticRegression()), Column(max_depth=2), Fails(),
    OtherColumns(), Ridge(), DecisionTreeRegressor(max_depth=2), KMeans(2, n_init=1),
    MultiOutputClassifier(LogisticRegression()), "predictions", "chances", "unfitted",
]  # fmt: skip
METRICS = [
    None, [], "typo", 3, ["accuracy", "typo"], ["accuracy", "f1", "roc_auc"],
    make_scorer(f1_score, pos_label="yes"), make_scorer(recall_score, pos_label=2),
    make_scorer(roc_auc_score), lambda model, X, y: float(np.mean(model.predict(X) == y)),
    lambda model, X, y: model.predict(X) == y, lambda model: 1.0,
    PerRecordScore(lambda model, X, y: (model.predict(X) == y) * 1.0),
    *sorted({*get_scorer_names(), *available_metrics()}),
    "calibration_slope", "negative_predictive_value", "gini",
]  # fmt: skip


def targets():
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2, 2 * N)
    return {
        "bits": bits,
        "ones and twos": bits + 1,
        "text": np.where(bits, "yes", "no"),
        "booleans": bits.astype(bool),
        "column": bits[:, None],
        "frame": pd.DataFrame({"y": bits}),
        "three": rng.integers(0, 3, 2 * N),
        "numbers": rng.normal(size=2 * N) + 5.0,
        "two outputs": np.column_stack([bits, 1 - bits]),
    }


LIVE_HOLDOUTS = [
    {}, {"correlation": Groups(np.arange(N) // 2)}, {"epsilon": 2.0}, {"budget": 1},
    {"correlation": MarkovChain([[0.9, 0.1], [0.1, 0.9]])},
]  # fmt: skip
REPORT_ARGUMENTS = [
    {},
    {"by": {"half": np.arange(N) % 2}},
    {"compare": True},
    {"per": "record"},
    {"by": 9},
]


def attempt(model, metric, y, options, report_arguments, rng):
    """Ask for one report; return whether it was given."""
    X = rng.normal(size=(2 * N, 3))
    names = {"y": 0} if hasattr(y, "columns") else None
    y_train, y_holdout = (y.iloc[:N], y.iloc[N:]) if names else (y[:N], y[N:])
    holdout = ReusableHoldout(X[N:], y_holdout, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if model == "predictions":
            model = np.asarray(y_holdout).ravel()[:N]
        elif model == "chances":
            model = rng.random(N)
        elif model == "unfitted":
            model = LogisticRegression()
        else:
            try:
                model = type(model)(**model.get_params(deep=False)).fit(X[:N], np.asarray(y_train))
            except (TypeError, ValueError):
                return None
        models = [model, DummyClassifier().fit(X[:N], np.asarray(y_train))]
        models = models if report_arguments.get("compare") else model
        report = None
        try:
            report = holdout.final_report(models, scoring=metric, **report_arguments)
        except Exception:
            holdout.answer([0.5], np.ones((1, N)))  # still open
        else:
            repeated = holdout.final_report(models, scoring=metric, **report_arguments)
            assert repeated == report or np.isnan([row.value for row in report.rows]).any()
    return report


def run(cases, seed):
    rng = np.random.default_rng(seed)
    n_reports = 0
    n_without_value = 0
    for model, metric, y, options, report_arguments in cases:
        report = attempt(model, metric, y, options, report_arguments, rng)
        n_reports += report is not None
        n_without_value += report is not None and not np.isfinite(report.rows[0].value)
    return n_reports, n_without_value


def test_no_holdout_is_closed_without_a_report():
    rng = np.random.default_rng(7)
    target_forms = list(targets().values())
    cases = [
        (
            MODELS[rng.integers(len(MODELS))],
            METRICS[rng.integers(len(METRICS))],
            target_forms[rng.integers(len(target_forms))],
            LIVE_HOLDOUTS[rng.integers(len(LIVE_HOLDOUTS))],
            REPORT_ARGUMENTS[rng.integers(len(REPORT_ARGUMENTS))],
        )
        for _ in range(40)
    ]
    n_reports, n_without_value = run(cases, 0)
    assert n_reports > 2
    assert n_without_value <= 2


@pytest.mark.slow
def test_no_holdout_is_closed_without_a_report_in_full():
    cases = itertools.product(
        MODELS, METRICS, targets().values(), LIVE_HOLDOUTS[:3], REPORT_ARGUMENTS[:1]
    )
    n_reports, n_without_value = run(cases, 1)
    assert n_reports > 1000
    assert n_without_value < 0.02 * n_reports
