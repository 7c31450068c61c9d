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
from sklearn_bdp.metrics import available_metrics

# The reports are unusual, and the holdouts are small.
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
    "at least 5 are needed": "G28, G31: too few units with the rarest outcome",
    "at least 10 are needed": "G31: too few dates with the rarest outcome",
    "events": "G31, G34: too few events",
    "are too few": "G28, G31: too few units",
    "end of its range": "G28: a score at an end of its range",
    "no spread": "G28: units show no spread",
    "nearly every possible value": "G28: the interval would be nearly the whole range",
    "determine the calibration": "G28: the interval would allow any calibration",
    "declared chain": "G28: rows of a chain need one that is declared",
    "over these dates": "G31: differences of medians have no interval over dates",
    "depends on their number": "G34: the largest error has no target",
    "error of dependent records": "G28: medians of a chain have no interval",
    "no interval of a median": "G28, G31: too few units for order statistics",
    "near 0": "G31: errors relative to targets near 0",
    "undefined": "G34: undefined for these records",
}


class RareEstimator(ClassifierMixin, BaseEstimator):
    """Fails on records whose first column is large; training records have none."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        if np.max(np.asarray(X)[:, 0]) > 3.0:
            raise ValueError("far away")
        return self.classes_[(np.asarray(X)[:, 1] > 0.0).astype(int)]


CLASSIFIERS = [
    LogisticRegression(), SVC(), GaussianNB(), DecisionTreeClassifier(max_depth=3), RareEstimator(),
    RandomForestClassifier(3, random_state=0), DummyClassifier(), "labels", "probabilities",
]  # fmt: skip
REGRESSORS = [
    LinearRegression(), DecisionTreeRegressor(max_depth=3), DummyRegressor(), "labels",
]  # fmt: skip


def drawn_groups(rng, n):
    """Return groups of 1 to 80 records, in any order."""
    sizes = rng.integers(1, rng.integers(2, 81), size=max(3, n // 8))
    return Groups(rng.permutation(np.repeat(np.arange(sizes.size), sizes)))


def drawn_graph(rng, n):
    """Return a graph of complete components of four records."""
    component = rng.permutation(np.repeat(np.arange(n // 4 + 1), 4)[:n])
    return (component[:, None] == component) * 1.0 - np.eye(n)


def drawn_chain(rng):
    """Return a chain that stays where it is half of the time or nearly always."""
    stay = rng.choice([0.5, 0.9])
    return MarkovChain([[stay, 1.0 - stay], [1.0 - stay, stay]])


DEPENDENCES = [
    lambda rng, n: None,
    drawn_groups,
    lambda rng, n: DependencyGraph(drawn_graph(rng, n)),
    lambda rng, n: MarkovNetwork(drawn_graph(rng, n), influence=0.2),
    lambda rng, n: drawn_chain(rng),
    lambda rng, n: TimeOrdered(),
]
#: Targets of a linear score, and whether they are classes.
TARGETS = [
    (lambda score, rng: (score > 0.0).astype(int), True),
    (lambda score, rng: (score > 2.5).astype(int), True),
    (lambda score, rng: np.where(score > 0.0, "yes", "no"), True),
    (lambda score, rng: np.digitize(score, [-1.0, 1.0]), True),
    (lambda score, rng: score, False),
    (lambda score, rng: rng.poisson(np.exp(0.3 * score)), False),
]


def drawn_model(rng, X, y, y_held, *, models):
    """Return a model fitted on training records, or predictions of the holdout records."""
    model = models[rng.integers(len(models))]
    if model == "labels":
        return rng.permutation(y_held)
    if model == "probabilities":
        probabilities = rng.random((len(y_held), len(np.unique(y))))
        return probabilities / probabilities.sum(axis=1)[:, None]
    return type(model)(**model.get_params()).fit(X, y)


def drawn_report(rng, **settings):
    """Return a holdout, and positional and keyword arguments of its final report."""
    n = int(rng.choice([12, 30, 80, 250, 600]))
    correlation = DEPENDENCES[rng.integers(len(DEPENDENCES))](rng, n)
    n = len(getattr(correlation, "codes_", np.empty(n)))
    X = rng.normal(size=(300 + n, 3))
    targets, is_classification = TARGETS[rng.integers(len(TARGETS))]
    y = targets(X[:, 0] + rng.normal(size=300 + n), rng)
    (X, X_held) = (X[:300], X[300:])
    (y, y_held) = (y[:300], y[300:])
    holdout = ReusableHoldout(X_held, y_held, correlation=correlation, **settings)
    model_types = CLASSIFIERS if is_classification else REGRESSORS
    models = [drawn_model(rng, X, y, y_held, models=model_types) for _ in range(2)]
    names = METRICS if rng.random() < 0.3 else SUITED[is_classification]
    report_arguments = {"scoring": [str(name) for name in rng.choice(names, rng.integers(1, 4))]}
    training = (X, y, np.arange(300) // 3) if isinstance(correlation, Groups) else (X, y)
    options = {
        "compare": (True, 0.3),
        "by": ({"part": rng.integers(0, 2, n)}, 0.2),
        "training": (training, 0.6),
        "per": ("record", 0.1),
        "joint": (False, 0.3),
    }
    for name, (value, probability) in options.items():
        if rng.random() < probability:
            report_arguments[name] = value
    return holdout, models if "compare" in report_arguments else models[0], report_arguments


def check_report(rng, counts):
    """Ask for one report; count how it ended and why rows have no interval."""
    holdout, models, report_arguments = drawn_report(rng, random_state=0)
    if rng.random() < 0.3:
        holdout.answer([0.5], rng.random((1, holdout.n)))
    spent = holdout.information_spent
    try:
        report = holdout.final_report(models, **report_arguments)
    except UnfinishedReportError:
        raise AssertionError(f"{models}, {holdout.dependence}, {report_arguments}") from None
    except (TypeError, ValueError):
        counts["rejected before"] += 1
        assert holdout.information_spent < spent + 1.0  # a check may be charged, no report
        holdout.answer([0.4], np.ones((1, holdout.n)))
        return
    counts["closed"] += 1
    assert repr(holdout.report_.rows) == repr(report.rows)
    for row in report.rows:
        counts[row_outcome(row)] += 1


def row_outcome(row):
    """Return "rows with an interval", or the reason why the row lacks an interval."""
    limits = [*(row.proven or ()), *(row.approximate or ())]
    assert np.isfinite(limits).all(), row
    for pair in filter(None, (row.proven, row.approximate)):
        assert pair[0] <= pair[1], row
        assert pair[0] <= row.value <= pair[1] or np.isnan(row.value), row
    if limits:
        assert (row.lower, row.upper) == (row.proven or row.approximate), row
    if row.half_width_components:
        half_width = 0.5 * (row.proven[1] - row.proven[0])
        assert sum(row.half_width_components) == pytest.approx(half_width), row
        assert min(row.half_width_components) >= 0.0, row
    reasons = [reason for words, reason in REASONS.items() if words in " ".join(row.notes)]
    assert np.isfinite(row.value) or reasons, row
    assert limits or reasons, row
    return "rows with an interval" if limits else reasons[0]


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
    assert counts["rows with an interval"] > 0.5 * (counts.total() - count)


def test_an_interval_contains_a_value_that_equals_its_upper_limit():
    """In this report a difference and its largest possible value differ in the last digit."""
    assert run_reports([6327])["closed"] == 1


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
    """Request a report and log its rows; the process is killed at one line of the package."""
    warnings.simplefilter("ignore")
    holdout, model = killed_holdout(path, seed)
    sys.settrace(KillAtLine(at))
    report = holdout.final_report(model, scoring=SCORING)
    sys.settrace(None)
    log.write_text(repr(report.rows))


SCORING = ["accuracy", "roc_auc", "neg_brier_score"]


def killed_holdout(path, seed):
    """Return the holdout and the model of a process that is killed."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(500, 3))
    y = (X[:, 0] + rng.normal(size=500) > 0.0).astype(int)
    model = LogisticRegression().fit(X[:200], y[:200])
    return ReusableHoldout(X[200:], y[200:], ledger=path), model


def count_lines_of_report(path):
    """Return the number of lines of the package that a report runs."""
    holdout, model = killed_holdout(path, seed=0)
    counter = KillAtLine(0)  # no line has the number 0
    sys.settrace(counter)
    try:
        holdout.final_report(model, scoring=SCORING)
    finally:
        sys.settrace(None)
    return -counter.left


@pytest.mark.skipif(os.name != "posix", reason="kill -9 is POSIX")
@pytest.mark.parametrize("kills", [12, pytest.param(500, marks=pytest.mark.slow)])
def test_a_process_that_is_killed_loses_no_report(server, tmp_path, kills):
    """Rows that were shown are in the ledger; an open holdout has shown no row and is charged."""
    rng = np.random.default_rng(kills)
    charge = report_attempt_length(n_earlier=0, finished=False)
    outcomes = collections.Counter()
    most_lines = 1.15 * count_lines_of_report(tmp_path / "lines.sqlite")
    for number in range(kills):
        path = tmp_path / f"{number}.sqlite"
        log = tmp_path / f"{number}.txt"
        holdout, model = killed_holdout(path, number)
        initial_spent = holdout.information_spent
        line_number = int(rng.uniform(1.0, most_lines))
        victim = server.Process(target=report_in_process, args=(path, number, log, line_number))
        victim.start()
        victim.join()
        reopened, _ = killed_holdout(path, number)
        is_closed = hasattr(reopened, "report_")
        assert is_closed or not log.exists()
        if is_closed:
            assert not log.exists() or log.read_text() == repr(reopened.report_.rows)
            outcomes["closed"] += 1
        else:
            assert victim.exitcode == -signal.SIGKILL
            spent = reopened.information_spent - initial_spent
            assert spent == 0.0 or spent == pytest.approx(charge)
            outcomes["open and charged" if spent else "not begun"] += 1
        report = reopened.final_report(model, scoring=SCORING)
        assert all(row.proven or row.approximate for row in report.rows)
    print(dict(outcomes))
    assert outcomes["open and charged"] > 0
    assert outcomes["closed"] > 0
