"""Reports drawn at random: closed with all rows, or open with nothing shown (issue 47)."""

import collections
import os
import signal
import sys
import warnings

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import get_scorer_names
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import sklearn_bdp
from sklearn_bdp import ReusableHoldout
from sklearn_bdp.accounting.spending import report_attempt_length
from sklearn_bdp.correlation import DependencyGraph, Groups, MarkovChain, MarkovNetwork, TimeOrdered
from sklearn_bdp.exceptions import UnfinishedReportError
from sklearn_bdp.metrics import PerRecordScore, available_metrics

# What is asked is odd, and holdouts are small.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.SklearnBdpWarning")

METRICS = sorted(
    {*get_scorer_names(), *available_metrics()}
    | {"calibration_slope", "calibration_intercept", "negative_predictive_value", "gini"}
    | {"net_benefit_0.3", "neg_mean_pinball_loss_0.9", "top_k_accuracy_3"}
)
#: Those that most models of classes, or of numbers, have.
SUITED = {
    True: ["accuracy", "balanced_accuracy", "f1", "f1_macro", "jaccard", "recall", "precision",
           "specificity", "negative_predictive_value", "matthews_corrcoef", "roc_auc",
           "roc_auc_ovr", "average_precision", "neg_log_loss", "neg_brier_score",
           "calibration_slope", "calibration_intercept", "net_benefit_0.3"],
    False: ["r2", "neg_mean_absolute_error", "neg_mean_squared_error", "max_error",
            "neg_root_mean_squared_error", "neg_median_absolute_error", "explained_variance",
            "neg_mean_poisson_deviance", "neg_mean_pinball_loss_0.9", "gini", "d2_pinball_score"],
}  # fmt: skip
#: Why a row may lack an interval: words of its notes, by theory label.
REASONS = {
    "rarer outcome": "G28: too few units of the rarer cell",
    "events": "G31, G34: too few events",
    "are too few": "G28, G31: too few units",
    "end of its range": "G28: a score at an end of its range",
    "no spread": "G28: units show no spread",
    "every possible value": "G28: the interval would be the whole range",
    "declared chain": "G28: rows of a chain need one that is declared",
    "near 0": "G31: errors relative to targets near 0",
    "undefined": "G34: undefined for these records",
}


class Odd(ClassifierMixin, BaseEstimator):
    """Fails on records whose first column is large; training records have none."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        if np.max(np.asarray(X)[:, 0]) > 3.0:
            raise ValueError("far away")
        return self.classes_[(np.asarray(X)[:, 1] > 0.0).astype(int)]


CLASSIFIERS = [
    LogisticRegression(), SVC(), GaussianNB(), DecisionTreeClassifier(max_depth=3), Odd(),
    RandomForestClassifier(3, random_state=0), DummyClassifier(), "labels", "probabilities",
]  # fmt: skip
REGRESSORS = [
    LinearRegression(), DecisionTreeRegressor(max_depth=3), DummyRegressor(), "labels",
]  # fmt: skip


def drawn_dependence(rng):
    """Return the number of records and what ``correlation`` declares of them."""
    kind = rng.choice(["records", "groups", "components", "nodes", "chain", "time", "panel"])
    n = int(rng.choice([12, 30, 80, 250, 600]))
    if kind == "records":
        return n, None
    if kind == "groups":
        sizes = rng.integers(1, rng.integers(2, 81), size=max(3, n // 8))
        labels = np.repeat(np.arange(sizes.size), sizes)
        return labels.size, Groups(rng.permutation(labels))
    if kind in ("components", "nodes"):
        component = rng.permutation(np.repeat(np.arange(n // 4 + 1), 4)[:n])
        graph = (component[:, None] == component) & ~np.eye(n, dtype=bool)
        if kind == "components":
            return n, DependencyGraph(graph.astype(float))
        return n, MarkovNetwork(graph.astype(float), influence=0.2)
    if kind == "chain":
        stay = rng.choice([0.5, 0.9])
        return n, MarkovChain([[stay, 1.0 - stay], [1.0 - stay, stay]])
    return n, TimeOrdered()


def drawn_targets(rng, n):
    """Return features and targets of so many records, and whether targets are classes."""
    X = rng.normal(size=(n, 3))
    signal_part = X[:, 0] + rng.normal(size=n)
    kind = rng.choice(["bits", "rare", "text", "three", "numbers", "counts"])
    if kind == "bits":
        return X, (signal_part > 0.0).astype(int), True
    if kind == "rare":
        return X, (signal_part > 2.5).astype(int), True
    if kind == "text":
        return X, np.where(signal_part > 0.0, "yes", "no"), True
    if kind == "three":
        return X, np.digitize(signal_part, [-1.0, 1.0]), True
    if kind == "numbers":
        return X, signal_part, False
    return X, rng.poisson(np.exp(0.5 * X[:, 0])), False


def drawn_model(rng, X, y, X_held, y_held, *, classifies):
    """Return a model fitted on training records, or predictions of the holdout records."""
    model = (CLASSIFIERS if classifies else REGRESSORS)[
        rng.integers(len(CLASSIFIERS if classifies else REGRESSORS))
    ]
    if model == "labels":
        return rng.permutation(y_held)
    if model == "probabilities":
        chances = rng.random((len(y_held), len(np.unique(y))))
        return chances / chances.sum(axis=1)[:, None]
    return type(model)(**model.get_params()).fit(X, y)


def drawn_report(rng, **settings):
    """Return a holdout, and positional and keyword arguments of its final report."""
    n, correlation = drawn_dependence(rng)
    X, y, classifies = drawn_targets(rng, 300 + n)
    (X, X_held), (y, y_held) = (X[:300], X[300:]), (y[:300], y[300:])
    holdout = ReusableHoldout(X_held, y_held, correlation=correlation, **settings)
    names = METRICS if rng.random() < 0.3 else SUITED[classifies]
    asked = {"scoring": [str(name) for name in rng.choice(names, rng.integers(1, 4))]}
    if rng.random() < 0.1:
        asked["scoring"].append(PerRecordScore(lambda model, X, y: model.predict(X) == y))
    models = [drawn_model(rng, X, y, X_held, y_held, classifies=classifies) for _ in range(2)]
    if rng.random() < 0.3:
        asked["compare"] = True
    else:
        models = models[0]
    if rng.random() < 0.2:
        asked["by"] = {"part": rng.integers(0, 2, n)}
    if rng.random() < 0.6:
        groups = np.arange(300) // 3
        asked["training"] = (X, y, groups) if isinstance(correlation, Groups) else (X, y)
        if isinstance(correlation, Groups) and rng.random() < 0.3:
            asked["per"] = "record"
    return holdout, models, asked


def check_report(rng, counts):
    """Ask for one report; count how it ended and why rows have no interval."""
    holdout, models, asked = drawn_report(rng, random_state=0)
    if rng.random() < 0.3:
        holdout.answer([0.5], rng.random((1, holdout.n)))
    before = holdout.information_spent
    try:
        report = holdout.final_report(models, **asked)
    except UnfinishedReportError:
        raise AssertionError(f"{models}, {holdout.dependence}, {asked}") from None
    except (TypeError, ValueError):
        counts["rejected before"] += 1
        assert holdout.information_spent < before + 1.0  # a check may be charged, no report
        holdout.answer([0.4], np.ones((1, holdout.n)))
        return
    counts["closed"] += 1
    counts["rows"] += len(report.rows)
    assert holdout.report_ == report or any(np.isnan(row.value) for row in report.rows)
    for row in report.rows:
        ends = [end for pair in (row.proven, row.approximate) if pair for end in pair]
        assert np.isfinite(ends).all(), row
        if ends:
            counts["rows with an interval"] += 1
        reasons = [why for words, why in REASONS.items() if words in " ".join(row.notes)]
        assert np.isfinite(row.value) or reasons, (row, models, holdout.dependence, asked)
        if ends:
            continue
        assert reasons, (row, models, holdout.dependence, asked)
        counts[reasons[0]] += 1


def run_reports(seeds):
    """Check one report for each seed and return the counts."""
    counts = collections.Counter()
    for seed in seeds:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            check_report(np.random.default_rng(seed), counts)
    for reason, count in counts.most_common():
        print(f"{count:>6} {reason}")
    return counts


@pytest.mark.parametrize("count", [60, pytest.param(10_000, marks=pytest.mark.slow)])
def test_every_row_of_a_closed_holdout_has_an_interval_or_a_reason(count):
    counts = run_reports(range(count))
    assert counts["closed"] > 0.2 * count
    assert counts["rows with an interval"] > 0.6 * counts["rows"]


# -- Processes that are killed ----------------------------------------------------------------


class KillAtLine:
    """Kills its process at one of the lines of the package that are run."""

    package = os.path.dirname(sklearn_bdp.__file__)

    def __init__(self, at):
        self.left = at

    def __call__(self, frame, event, arg):
        return self.line if frame.f_code.co_filename.startswith(self.package) else None

    def line(self, frame, event, arg):
        self.left -= event == "line"
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return self.line


def report_in_process(path, seed, log, at):
    """Ask for a report, write down what is shown, and die at one line of it."""
    warnings.simplefilter("ignore")
    holdout, model = killed_holdout(path, seed)
    sys.settrace(KillAtLine(at))
    report = holdout.final_report(model, scoring=SCORING)
    sys.settrace(None)
    log.write_text(repr(report.rows))


#: Lines of the package that such a report runs, and some more.
MOST_LINES = 18_000
SCORING = ["accuracy", "roc_auc", "neg_brier_score"]


def killed_holdout(path, seed):
    """Return the holdout and the model of a process that is killed."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(500, 3))
    y = (X[:, 0] + rng.normal(size=500) > 0.0).astype(int)
    model = LogisticRegression().fit(X[:200], y[:200])
    return ReusableHoldout(X[200:], y[200:], ledger=path), model


@pytest.mark.skipif(os.name != "posix", reason="kill -9 is POSIX")
@pytest.mark.parametrize("kills", [12, pytest.param(500, marks=pytest.mark.slow)])
def test_a_process_that_is_killed_loses_no_report(server, tmp_path, kills):
    """What was shown is in the ledger; an open holdout has shown nothing, and is charged."""
    lines = np.random.default_rng(kills)
    charge = report_attempt_length(n_earlier=0, finished=False)
    ends = collections.Counter()
    for number in range(kills):
        path, log = tmp_path / f"{number}.sqlite", tmp_path / f"{number}.txt"
        holdout, model = killed_holdout(path, number)
        fresh, at = holdout.information_spent, int(lines.uniform(1.0, MOST_LINES))
        victim = server.Process(target=report_in_process, args=(path, number, log, at))
        victim.start()
        victim.join()
        again, _ = killed_holdout(path, number)
        closed = hasattr(again, "report_")
        assert closed or not log.exists()
        if closed:
            assert not log.exists() or log.read_text() == repr(again.report_.rows)
            ends["closed"] += 1
        else:
            assert victim.exitcode == -signal.SIGKILL
            spent = again.information_spent - fresh
            assert spent == 0.0 or spent == pytest.approx(charge)
            ends["open and charged" if spent else "not begun"] += 1
        report = again.final_report(model, scoring=SCORING)
        assert all(row.proven or row.approximate for row in report.rows)
    print(dict(ends))
    assert ends["open and charged"] > 0
    assert ends["closed"] > 0
