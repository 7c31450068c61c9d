"""Rows of a final report: labels, families, comparisons, subgroups, targets (G22, G23, G28)."""

import copy
import math
import pickle
import shutil
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from scipy.stats import binom, binomtest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_breast_cancer, load_diabetes, make_classification
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.metrics import (
    accuracy_score,
    average_precision_score,
    balanced_accuracy_score,
    brier_score_loss,
    confusion_matrix,
    f1_score,
    fbeta_score,
    get_scorer,
    log_loss,
    make_scorer,
    matthews_corrcoef,
    precision_score,
    recall_score,
    roc_auc_score,
    top_k_accuracy_score,
)
from sklearn.model_selection import KFold, StratifiedShuffleSplit
from sklearn.preprocessing import StandardScaler, scale
from sklearn.tree import DecisionTreeClassifier

from sklearn_bdp import HoldoutConfig, ReusableHoldout, ReusableHoldoutSearchCV, __version__
from sklearn_bdp.accounting.spending import report_attempt_length
from sklearn_bdp.correlation import Groups, MarkovNetwork
from sklearn_bdp.diagnostics.overlap import forget_answered_targets
from sklearn_bdp.exceptions import HoldoutClosedError, UnboundedMetricError
from sklearn_bdp.metrics import PerRecordScore
from sklearn_bdp.metrics.proofs import CLASS_MEANS, CLASSES
from tests.facts import refused, scheme_of

# One table, many holdouts; some are small or under a level of privacy.
pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.SecondHoldoutWarning"),
    pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.UninformativeIntervalWarning"),
]

INTERRUPTS: list = []  # exceptions that predictions of all records raise

#: Metrics that count one of two classes.
POSITIVE_CLASS_SCORES = {"f1": f1_score, "recall": recall_score, "precision": precision_score}


class OtherClasses(ClassifierMixin, BaseEstimator):
    """A fitted model with its classes in another order, and classes of probability 0."""

    def __init__(self, model, classes):
        self.model = model
        self.classes = classes

    @property
    def classes_(self):
        return np.array(self.classes)

    def __sklearn_is_fitted__(self):
        return True

    def predict(self, X):
        return self.model.predict(X)

    def predict_proba(self, X):
        column_of_class = dict(zip(self.model.classes_, self.model.predict_proba(X).T, strict=True))
        absent = np.zeros(len(X))
        return np.column_stack([column_of_class.get(label, absent) for label in self.classes])


class Ranks(ClassifierMixin, BaseEstimator):
    """A model that was fitted long ago: the first column is a chance, the second another one."""

    def __init__(self, column=0, classes=(0, 1)):
        self.column = column
        self.classes = classes

    def fit(self, X=None, y=None):
        return self

    @property
    def classes_(self):
        return np.asarray(self.classes)

    def predict_proba(self, X):
        if INTERRUPTS and len(X) > 300:
            raise INTERRUPTS.pop()
        probability = np.asarray(X)[:, self.column].astype(float)
        return np.column_stack([1.0 - probability, probability])

    def predict(self, X):
        return self.classes_[(self.predict_proba(X)[:, 1] > 0.5).astype(int)]


def data(n=400, seed=0, noise=0.35):
    rng = np.random.default_rng(seed)
    probability = rng.random(n)
    y = (rng.random(n) < probability).astype(int)
    noisy_probability = np.clip(probability + noise * rng.normal(size=n), 0.01, 0.99)
    return np.column_stack([np.clip(probability, 0.01, 0.99), noisy_probability]), y


def brier(model, X, y):
    return (model.predict_proba(X)[:, 1] - y) ** 2


def brier_scorer(model, X, y):
    return float(np.mean(brier(model, X, y)))


def pickle_of(instance):
    return pickle.loads(pickle.dumps(instance))


LABEL_METRICS = ["accuracy", "f1", "precision", "recall", "neg_brier_score", "average_precision"]


@pytest.mark.parametrize(
    ("form", "classes"),
    [
        pytest.param(np.asarray, (0, 1), id="vector"),
        pytest.param(lambda y: y[:, np.newaxis], (0, 1), id="column"),
        pytest.param(lambda y: pd.DataFrame({"y": y}), (0, 1), id="frame"),
        pytest.param(lambda y: y.astype(bool), (False, True), id="booleans"),
        pytest.param(np.ndarray.tolist, (0, 1), id="list"),
        pytest.param(lambda y: y.astype("int8"), (0, 1), id="int8"),
    ],
)
def test_every_form_of_the_same_labels_gives_the_same_rows(form, classes):
    """Issue 31: one way to read labels; a frame of one column is a vector."""
    X, y = data()
    holdout = ReusableHoldout(X, form(y), random_state=0)
    rows = holdout.final_report(Ranks(classes=classes), scoring=LABEL_METRICS).rows
    assert [row.metric for row in rows] == LABEL_METRICS
    expected_scores = [get_scorer(name)(Ranks(), X, y) for name in LABEL_METRICS]
    assert [row.value for row in rows] == pytest.approx(expected_scores)
    expected_rows = ReusableHoldout(X, y, random_state=0).final_report(
        Ranks(), scoring=LABEL_METRICS
    )
    assert [row.n_units for row in rows] == [row.n_units for row in expected_rows.rows]


def check_row_of_positive_class(row, score, y, y_pred, positive):
    """The score counts this class, and both intervals contain it."""
    assert row.value == pytest.approx(score(y, y_pred, pos_label=positive))
    assert row.positive == str(positive)
    for lower, upper in (row.proven, row.approximate):
        assert lower < row.value < upper


@pytest.mark.parametrize("classes", [(1, 2), (-1, 1)])
@pytest.mark.parametrize("name", POSITIVE_CLASS_SCORES)
def test_class_1_counts_by_default_as_in_scikit_learn(classes, name):
    """Of labels 1 and 2, class 1 counts, in both families of intervals."""
    X, y = data()
    labels = np.array(classes)[y]
    model = Ranks(classes=classes)
    [row] = ReusableHoldout(X, labels, random_state=0).final_report(model, scoring=name).rows
    check_row_of_positive_class(row, POSITIVE_CLASS_SCORES[name], labels, model.predict(X), 1)


@pytest.mark.parametrize("name", POSITIVE_CLASS_SCORES)
def test_a_metric_of_labels_that_are_text_needs_pos_label(name):
    X, y = data()
    holdout = ReusableHoldout(X, np.array(["no", "yes"])[y], random_state=0)
    with refused(ValueError, "pos_label"):
        holdout.final_report(Ranks(classes=("no", "yes")), scoring=name)


@pytest.mark.parametrize("score", POSITIVE_CLASS_SCORES.values())
def test_the_class_that_counts_is_pos_label(score):
    X, y = data()
    labels = np.array(["no", "yes"])[y]
    model = Ranks(classes=("no", "yes"))
    scoring = make_scorer(score, pos_label="yes")
    [row] = ReusableHoldout(X, labels, random_state=0).final_report(model, scoring=scoring).rows
    check_row_of_positive_class(row, score, labels, model.predict(X), "yes")


class OtherDecisionScores(Ranks):
    """A model whose decision function orders records otherwise than its probabilities."""

    def decision_function(self, X):
        return np.asarray(X)[:, 1] * np.sin(9.0 * np.asarray(X)[:, 0])


@pytest.mark.parametrize(
    "scoring",
    [
        make_scorer(score, response_method=method)
        for score in (roc_auc_score, average_precision_score)
        for method in ("predict", "predict_proba", "decision_function")
    ]
    + [
        make_scorer(score, response_method=method, greater_is_better=False)
        for score in (log_loss, brier_score_loss)
        for method in ("predict", "predict_proba")
    ]
    + [
        make_scorer(roc_auc_score, response_method=methods)
        for methods in (
            ("decision_function", "predict_proba"),
            ["predict_proba", "decision_function"],
        )
    ],
    ids=str,
)
def test_a_row_has_the_value_of_its_scorer_for_each_response_method(scoring):
    X, y = data()
    model = OtherDecisionScores()
    [row] = ReusableHoldout(X, y, random_state=0).final_report(model, scoring=scoring).rows
    assert row.value == pytest.approx(scoring(model, X, y))
    assert row.lower < row.value < row.upper


@pytest.mark.parametrize("labels", [(0, 1, 2), ("low", "middle", "high")])
@pytest.mark.parametrize(
    "scoring",
    [
        get_scorer("average_precision"),
        make_scorer(f1_score, average="macro"),
        make_scorer(recall_score, average="micro"),
        make_scorer(accuracy_score, greater_is_better=False),
        make_scorer(balanced_accuracy_score, greater_is_better=False),
    ],
    ids=str,
)
def test_scorers_of_three_classes_and_of_either_sign_are_reported(scoring, labels):
    X, y, *_ = four_classes()
    y = np.array(labels)[np.minimum(y, 2)]
    model = LogisticRegression().fit(X[:500], y[:500])
    holdout = ReusableHoldout(X[500:], y[500:], random_state=0)
    [row] = holdout.final_report(model, scoring=scoring).rows
    assert row.value == pytest.approx(scoring(model, X[500:], y[500:]))
    assert row.lower < row.value < row.upper


def test_the_interval_of_a_score_adjusted_for_chance_reaches_below_zero():
    X, y = data()
    model = Ranks(classes=(1, 0))
    scoring = make_scorer(balanced_accuracy_score, adjusted=True)
    [row] = ReusableHoldout(X, y, random_state=0).final_report(model, scoring=scoring).rows
    assert row.value == pytest.approx(scoring(model, X, y))
    assert row.lower < row.value < row.upper < 0.0


def test_intervals_of_negated_scores_mirror_those_of_the_scores():
    """Few predictions are wrong, so that limits count pseudo records."""
    X, y, *_ = four_classes()
    y = (X[:, 0] > 0).astype(int)
    y[:2] = 1 - y[:2]
    model = DecisionTreeClassifier(max_depth=1, random_state=0).fit(X, y)
    rows = [
        ReusableHoldout(X, y, random_state=0)
        .final_report(
            model, scoring=make_scorer(f1_score, average="macro", greater_is_better=is_positive)
        )
        .rows[0]
        for is_positive in (True, False)
    ]
    assert 0.99 < rows[0].value < rows[0].upper <= 1.0
    assert [rows[1].lower, rows[1].upper] == pytest.approx([-rows[0].upper, -rows[0].lower])


@pytest.mark.parametrize("uses_training", [True, False])
def test_a_scorer_that_is_undefined_for_the_labels_is_rejected_before_the_report(uses_training):
    X, y = data()
    y = np.array(["no", "yes"])[y]
    holdout = ReusableHoldout(X, y, random_state=0)
    training = (X[:200], y[:200]) if uses_training else None
    with refused(ValueError, "pos_label", "holdout"):
        holdout.final_report(
            Ranks(classes=("no", "yes")),
            scoring=make_scorer(fbeta_score, beta=2.0),
            training=training,
        )
    assert holdout.information_spent == 0.0
    assert holdout.final_report(Ranks(classes=("no", "yes")), scoring="accuracy").rows


def test_an_unknown_label_is_outside_the_classes_of_the_model():
    X, y = data()
    y = np.where(np.arange(len(y)) % 10 == 0, 7, y)
    rows = ReusableHoldout(X, y).final_report(Ranks(), scoring=["accuracy", "recall", "precision"])
    predicted = Ranks().predict(X)
    expected_scores = [
        np.mean(predicted == y),
        np.mean(predicted[y == 1]),
        np.mean(y[predicted == 1] == 1),
    ]
    assert [row.value for row in rows.rows] == pytest.approx(expected_scores)


@pytest.mark.parametrize("uses_predictions", [False, True])
def test_shares_of_the_negative_class_leave_out_an_unknown_label(uses_predictions):
    """Report, answer and intervals are about scikit-learn's scores of the class 0."""
    X, y = data(4000)
    y_train = y[:1000]
    X, y = X[1000:], np.where(np.arange(1000, 4000) % 3 == 0, 7, y[1000:])
    model = Ranks()
    predicted = model.predict(X)
    holdout = ReusableHoldout(X, y, random_state=0)
    answer = holdout.score(model, 0.7, scoring="specificity")
    report = holdout.final_report(
        predicted if uses_predictions else model,
        scoring=["specificity", "negative_predictive_value"],
        training=(np.zeros((1000, 2)), y_train) if uses_predictions else None,
    )
    specificity, predictive_value = (
        score(y, predicted, labels=[0], average="macro")
        for score in (recall_score, precision_score)
    )
    assert answer.lower < specificity < answer.upper
    for row, expected in zip(report.rows, (specificity, predictive_value), strict=True):
        assert row.value == pytest.approx(expected)
        for lower, upper in (row.proven, row.approximate):
            assert lower < expected < upper
    n_hits = np.sum((y == 0) & (predicted == 0))
    expected_counts = [((n_hits, n_counted),) for n_counted in (sum(y == 0), sum(predicted == 0))]
    assert [row.counts for row in report.rows] == expected_counts


def difference_row(models, scoring, X, y, **report_options):
    """Return the row on the difference of the second and the first of two models."""
    report = ReusableHoldout(X, y, random_state=0).final_report(
        models, scoring=scoring, compare="first", **report_options
    )
    return report.rows[-1]


def four_classes():
    """Return training records, training targets, holdout records and targets of four classes."""
    X, y = make_classification(2000, 10, n_informative=6, n_classes=4, random_state=0)
    return X[:1000], y[:1000], X[1000:], y[1000:]


@pytest.mark.parametrize("absent", [None, 0, 3])
@pytest.mark.parametrize(
    "scoring", ["matthews_corrcoef", "balanced_accuracy", "roc_auc_ovr", "roc_auc_ovo"]
)
def test_a_difference_does_not_depend_on_the_order_of_classes_or_on_absent_ones(scoring, absent):
    X_train, y_train, X, y = four_classes()
    first = LogisticRegression().fit(X_train, y_train)
    is_known = y_train != (-1 if absent is None else absent)
    second = DecisionTreeClassifier(max_depth=6, random_state=0)
    second.fit(X_train[is_known], y_train[is_known])
    row, other_row = (
        difference_row({"first": first, "second": model}, scoring, X, y)
        for model in (second, OtherClasses(second, [2, 0, 3, 1]))
    )
    assert row.approximate[0] < row.value < row.approximate[1]
    assert row.value == pytest.approx(other_row.value)
    assert row.approximate == pytest.approx(other_row.approximate)


@pytest.mark.parametrize("training_classes", [None, (1, 2, 3)])
def test_limits_of_a_mean_over_classes_count_every_class_of_the_holdout(training_classes):
    """G12: one model lacks a class. Before, its limits were about the mean of three recalls."""
    X_train, y_train, X, y = four_classes()
    first = LogisticRegression().fit(X_train, y_train)
    is_known = y_train != 0
    second = DecisionTreeClassifier(max_depth=6, random_state=0)
    second.fit(X_train[is_known], y_train[is_known])
    padded = OtherClasses(second, range(4))
    training = None
    if training_classes is not None:
        training = (X_train[is_known], y_train[is_known])
    rows, padded_rows = (
        ReusableHoldout(X, y, random_state=0)
        .final_report(
            {"first": first, "second": model},
            scoring="balanced_accuracy",
            compare="first",
            training=pair,
        )
        .rows
        for model, pair in ((second, training), (padded, None))
    )
    assert [row.value for row in rows] == pytest.approx([row.value for row in padded_rows])
    for row, padded_row in zip(rows[:2], padded_rows, strict=False):
        assert row.proven == pytest.approx(padded_row.proven)
    difference, padded_difference = rows[2], padded_rows[2]
    if training is None:
        assert difference.proven == pytest.approx(padded_difference.proven)
        assert not difference.notes
    else:  # no level was given to the recall of class 0, which may change by 1
        width, padded_width = (np.diff(r.proven)[0] for r in (difference, padded_difference))
        assert padded_width + 0.3 < width < padded_width + 0.6
        assert "recall of 1 of the holdout's classes may be any number" in difference.notes[0]


def test_limits_of_auc_count_an_unknown_class_as_negative():
    X, y = data()
    rows = [
        ReusableHoldout(X, targets, random_state=0).final_report(Ranks(), scoring="roc_auc").rows[0]
        for targets in (np.where(np.arange(len(y)) % 3 == 0, 7 * (1 - y) + y, y), y)
    ]
    assert rows[0].value == pytest.approx(rows[1].value)
    assert rows[0].proven == pytest.approx(rows[1].proven)


@pytest.mark.parametrize("n_absent", [1, 2])
def test_predictions_of_labels_that_the_holdout_lacks_are_compared_by_label(n_absent):
    X_train, y_train, X, y = four_classes()
    first = LogisticRegression().fit(X_train, y_train)
    second = DecisionTreeClassifier(max_depth=6, random_state=0).fit(X_train, y_train)
    is_kept = y >= n_absent
    X, y = X[is_kept], y[is_kept]
    expected_row = difference_row({"first": first, "second": second}, "matthews_corrcoef", X, y)
    predicted = second.predict(X)
    row = difference_row({"first": first, "second": predicted}, "matthews_corrcoef", X, y)
    scores = [matthews_corrcoef(y, first.predict(X)), matthews_corrcoef(y, predicted)]
    assert row.value == pytest.approx(scores[1] - scores[0])
    assert row.approximate == pytest.approx(expected_row.approximate)


def test_proven_and_approximate_rows_have_separate_levels():
    """G28: split by their own statements; interim answers are not in the approximate family."""
    X, y = data(1000)
    queried_holdout = ReusableHoldout(X, y, random_state=0)
    queried_holdout.answer(
        np.linspace(0.2, 0.8, 20), np.random.default_rng(0).random((20, 1000)) < 0.5
    )
    reports = [
        holdout.final_report(Ranks(), scoring=["accuracy", "f1", "average_precision"])
        for holdout in (ReusableHoldout(X, y, random_state=0), queried_holdout)
    ]
    assert reports[0].alpha_proven <= 0.05 / 2
    finished = math.exp(-report_attempt_length(n_earlier=0, finished=True))
    assert reports[0].alpha_approximate == pytest.approx(finished * 0.05 / 3)
    assert reports[1].alpha_proven < reports[0].alpha_proven
    assert reports[1].alpha_approximate < reports[0].alpha_approximate


def test_a_row_shows_its_proven_interval_if_it_has_one():
    X, y = data(1000)
    report = ReusableHoldout(X, y, random_state=0).final_report(
        Ranks(), scoring=["accuracy", "f1", "average_precision"]
    )
    accuracy_row, f1_row, precision_row = report.rows
    assert precision_row.proven is None
    assert (precision_row.lower, precision_row.upper) == precision_row.approximate
    assert (f1_row.lower, f1_row.upper) == f1_row.proven
    assert accuracy_row.method == "Clopper-Pearson"
    assert sum(accuracy_row.half_width_components) == pytest.approx(
        (accuracy_row.upper - accuracy_row.lower) / 2
    )


def test_a_file_and_its_copy_give_the_same_report(tmp_path):
    """G28: the order of units is drawn once, with the holdout, and never again."""
    X, y = data()
    paths = [tmp_path / f"{name}.sqlite" for name in "abcdefgh"]
    ReusableHoldout(X, y, ledger=paths[0])
    shutil.copy(paths[0], paths[1])
    rows = [
        ReusableHoldout(X, y, ledger=path).final_report(Ranks(), scoring="neg_brier_score").rows[0]
        for path in paths
    ]
    assert rows[0].method == "betting interval"
    assert rows[0] == rows[1]
    # Other holdouts have other orders, though limits are points of one grid.
    assert len({row.proven for row in rows}) > 1


def test_the_secret_order_of_a_holdout_is_drawn_once(path):
    """G28: it is the same in pickles and copies, and after an interruption in each of two."""
    X, y = data()
    scoring = ["neg_brier_score", brier_scorer]
    holdout = ReusableHoldout(X, y)
    report = pickle_of(holdout).final_report(Ranks(), scoring=scoring)
    assert holdout.report_ == copy.copy(holdout).final_report(Ranks(), scoring=scoring) == report
    ReusableHoldout(X, y, ledger=path)
    shutil.copy(path, path.with_name("b"))
    reports = []
    for ledger in (path, path.with_name("b")):
        INTERRUPTS.append(KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt):
            ReusableHoldout(X, y, ledger=ledger).final_report(Ranks(), scoring=scoring)
        resumed = ReusableHoldout(X, y, ledger=ledger)
        reports.append(resumed.final_report(Ranks(), scoring=scoring))
    assert reports[0].rows == reports[1].rows != report.rows


@pytest.mark.parametrize("runs", [12, pytest.param(60, marks=pytest.mark.slow)])
def test_means_that_change_in_file_order_are_covered(runs):
    """G28: .7 then .3 in file order has ratio 40 without a secret order: nearly all runs.

    12 runs pass a failure rate of 40% (of 20%) with chance .94 and of 85% with chance .02; 60 runs
    pass 30% with chance .90 and 50% with .03.
    """
    beta = 0.2
    n_missed = 0
    for run in range(runs):
        rng = np.random.default_rng(run)
        means = np.repeat([0.7, 0.3], 150)
        scores = np.clip(means + 0.2 * rng.normal(size=300), 0.0, 1.0)
        holdout = ReusableHoldout(
            scores[:, None], np.zeros(300), confidence_level=1 - beta, random_state=run
        )
        metric = PerRecordScore(lambda model, X, y: np.asarray(X)[:, 0])
        [row] = holdout.final_report(Ranks(), 0.5, scoring=metric).rows
        n_missed += not row.proven[0] <= 0.5 <= row.proven[1]
    assert n_missed <= binom.ppf(0.999, runs, beta)


@pytest.mark.parametrize(
    ("unit_type", "runs"),
    [("records", 8), ("groups", 8)]
    + [pytest.param(unit_type, 60, marks=pytest.mark.slow) for unit_type in ("records", "groups")],
)
def test_proven_rows_of_records_and_groups_hold(unit_type, runs):
    """8 runs find gross failures only: they pass a rate of 60% (of 20%) with chance .89 and of 95%
    with chance .06; 60 runs pass 30% with chance .90 and 50% with .03.
    """
    beta = 0.2
    n_missed = 0
    new_X, new_y = data(100_000, seed=999)
    expected_values = [
        -np.mean(brier(Ranks(), new_X, new_y)),
        recall_score(new_y, Ranks().predict(new_X)),
        np.mean(brier(Ranks(), new_X, new_y) - brier(Ranks(1), new_X, new_y)),
    ]
    for run in range(runs):
        X, y = data(240, seed=run)
        model = None if unit_type == "records" else Groups(np.arange(240) // 2)
        holdout = ReusableHoldout(
            X, y, correlation=model, confidence_level=1 - beta, random_state=run
        )
        rows = holdout.final_report(
            {"a": Ranks(), "b": Ranks(1)}, scoring=["neg_brier_score", "recall"], compare=True
        ).rows  # fmt: skip
        proven_rows = [rows[0], rows[2], rows[4]]
        n_missed += not all(
            row.proven[0] <= expected_value <= row.proven[1]
            for row, expected_value in zip(proven_rows, expected_values, strict=True)
        )
    assert n_missed <= binom.ppf(0.999, runs, beta)


def test_unequal_records_get_the_order_free_bound():
    """G28: nodes given the rest; class scores given features have no proof."""
    X, y = data(120)
    path = np.diag(np.ones(239), 1)
    network = MarkovNetwork(path + path.T, influence=0.5).conditional_on_rest(np.arange(0, 240, 2))
    rows = ReusableHoldout(X, y, correlation=network).final_report(
        Ranks(), scoring=["neg_brier_score", "recall"]
    ).rows  # fmt: skip
    assert rows[0].method == "order-free bound"
    assert rows[1].proven is None


@pytest.mark.parametrize(
    ("unit_type", "runs"),
    [("records", 12), ("groups", 12)]
    + [pytest.param(unit_type, 100, marks=pytest.mark.slow) for unit_type in ("records", "groups")],
)
def test_proven_gaps_of_two_subgroups_hold(unit_type, runs):
    """G28: the second half of the units is better by .2.

    Patients of three records that are taken for records miss in about every third run, which 12
    runs pass with chance .82 and 100 runs with less than .001. 12 runs pass a failure rate of 25%
    (of 7.5%) with chance .95 and of 70% with .04; 100 runs pass 13% with chance .91.
    """
    beta = 0.3
    n_missed = 0
    patients = np.arange(240) // 3
    units = np.arange(240) if unit_type == "records" else patients
    is_better = np.unique(units) > units.max() / 2
    for run in range(runs):
        rng = np.random.default_rng(run)
        is_correct = (rng.random(is_better.size) < 0.6 + 0.2 * is_better)[units]
        y = rng.integers(0, 2, 240)
        model = None if unit_type == "records" else Groups(patients)
        holdout = ReusableHoldout(
            rng.random((240, 2)), y, correlation=model, confidence_level=1 - beta
        )
        rows = holdout.final_report(
            np.where(is_correct, y, 1 - y), scoring="accuracy", by={"half": is_better[units]}
        ).rows  # fmt: skip
        assert rows[-1].subgroup == "half=True minus half=False"
        n_missed += not rows[-1].proven[0] <= 0.2 <= rows[-1].proven[1]
    assert n_missed <= binom.ppf(0.999, runs, beta / 4)


class SplitByLabels:
    """One split that keeps half of the groups of each class (of the first record)."""

    def get_n_splits(self, X=None, y=None, groups=None):
        return 1

    def split(self, X, y, groups):
        first_labels = np.array([np.asarray(y)[groups == group][0] for group in np.unique(groups)])
        holdout_groups = np.concatenate(
            [np.flatnonzero(first_labels == label)[::2] for label in (0, 1)]
        )
        holdout_groups = np.isin(groups, np.unique(groups)[holdout_groups])
        yield np.flatnonzero(~holdout_groups), np.flatnonzero(holdout_groups)


def test_records_of_a_stratified_split_get_the_order_free_bound(path):
    """G28: counts of classes are fixed, so units depend on each other in a secret order."""
    X, y = data(400)
    metrics = ["accuracy", "neg_brier_score", "recall", "roc_auc"]
    splitter = StratifiedShuffleSplit(n_splits=1, test_size=0.5, random_state=0)
    search = ReusableHoldoutSearchCV(
        LogisticRegression(), {}, random_state=0, holdout=HoldoutConfig(splitter, ledger=path)
    ).fit(X, y)
    search_holdout = search.holdout_
    reopened = ReusableHoldout(
        search_holdout.X, search_holdout.y, ledger=path, gap=0, random_state=0
    )
    rows = reopened.final_report(search.best_estimator_, scoring=metrics).rows
    assert [row.method for row in rows] == [
        "Clopper-Pearson", "order-free bound", "order-free bound", "U-statistic bound"
    ]  # fmt: skip
    assert all(row.proven[0] < row.value < row.proven[1] for row in rows)
    by_groups = ReusableHoldoutSearchCV(
        LogisticRegression(), {}, random_state=0, correlation="groups", holdout=SplitByLabels()
    ).fit(X, y, groups=np.arange(400) // 2)
    (row,) = by_groups.final_report().rows
    assert row.method == "order-free bound"
    assert "not stratified" in str(ReusableHoldout(X, y).final_report(Ranks()))


class Noted(LogisticRegression):
    """Model that records the sum of the data of each fit."""

    fits: ClassVar[list] = []

    def fit(self, X, y):
        self.fits.append(float(np.sum(X)))
        return super().fit(X, y)


def test_a_search_estimates_the_variance_of_a_difference_from_its_folds():
    """Issue 33: one route for the variance of a difference, the folds that the search drew."""
    X, y = data(1200)
    folds = KFold(3, shuffle=True, random_state=1)
    widths = []
    for has_cv_data in (True, False):
        search = ReusableHoldoutSearchCV(
            LogisticRegression(), {"C": [0.1, 1.0]}, scoring="neg_brier_score", cv=folds,
            random_state=0,
        ).fit(X, y)  # fmt: skip
        train = search.train_indices_
        assert X[train[:50]].tobytes() not in pickle.dumps(search)
        baseline = Noted(C=0.2).fit(X[train], y[train])
        if not has_cv_data:  # as in another process
            search.holdout_.update_context(cv_data=None)
        Noted.fits.clear()
        row = search.final_report(compare=baseline).rows[-1]
        widths.append(row.proven[1] - row.proven[0])
        expected = [float(np.sum(X[train][rows])) for rows, _ in folds.split(X[train])]
        assert Noted.fits == pytest.approx(expected if has_cv_data else [])
        forget_answered_targets()
    assert widths[0] < 0.5 * widths[1]


def test_bets_on_patients_use_folds_for_metrics_that_did_not_rank():
    """Without the folds they guess the variance of single records: here .097 for .066."""
    X, y = make_classification(
        1200, 8, n_informative=4, class_sep=1.5, weights=[0.9], random_state=0
    )
    widths = []
    for has_cv_data in (True, False):
        search = ReusableHoldoutSearchCV(
            LogisticRegression(), {"C": [0.1, 1.0]}, scoring="roc_auc", correlation="groups",
            random_state=0,
        ).fit(X, y, groups=np.arange(1200) // 3)  # fmt: skip
        if not has_cv_data:
            search.holdout_.update_context(cv_data=None)
        low, high = search.final_report(scoring="neg_brier_score").rows[0].proven
        widths.append(high - low)
        forget_answered_targets()
    assert widths[0] < 0.8 * widths[1]


def test_bets_on_placements_use_the_folds_of_the_search():
    """An AUC near 1 was bet on as one of .8: proven limits were 4.5 times the approximate ones."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4_000, 5))
    y = (X @ np.arange(5.0) + rng.normal(size=4_000) > 3.0).astype(int)
    search = ReusableHoldoutSearchCV(
        LogisticRegression(), {"C": [0.1, 1.0]}, scoring="roc_auc", random_state=0
    ).fit(X, y)
    row = search.final_report().rows[0]
    assert row.value > 0.98
    assert np.ptp(row.proven) < 4.0 * np.ptp(row.approximate)


def test_predictions_are_reported_like_the_model_that_made_them():
    X, y = data()
    model = Ranks()
    metrics = ["accuracy", "neg_brier_score", "roc_auc"]
    by_model = ReusableHoldout(X, y, random_state=0).final_report(
        model, scoring=metrics, training=(X, y)
    )
    by_chances = ReusableHoldout(X, y, random_state=0).final_report(
        {"mine": model.predict_proba(X)}, scoring=metrics, training=(X, y)
    )
    labels = ReusableHoldout(X, y).final_report({"mine": model.predict(X)}, scoring="f1")
    for model_row, prediction_row in zip(by_model.rows, by_chances.rows, strict=True):
        assert model_row.value == pytest.approx(prediction_row.value)
        assert prediction_row.model == "mine"
    assert labels.value == pytest.approx(f1_score(y, model.predict(X)))
    holdout = ReusableHoldout(X, y)
    with refused(TypeError, "predictions"):
        holdout.final_report({"mine": model.predict(X)[:-1]}, scoring="accuracy")


def three_models(X, y):
    return {"a": Ranks(), "b": Ranks(1), "c": DummyClassifier().fit(X, y)}


def test_differences_to_a_named_baseline():
    X, y = data(1000)
    report = ReusableHoldout(X, y, random_state=0).final_report(
        three_models(X, y), scoring="neg_brier_score", compare="b"
    )
    assert [row.model for row in report.rows] == ["a", "b", "c", "a minus b", "c minus b"]
    assert report.baseline == "b"
    difference = report.rows[3]
    assert difference.value == pytest.approx(report.rows[0].value - report.rows[1].value)
    assert difference.proven[0] < difference.value < difference.proven[1]


def test_a_baseline_is_a_name_an_estimator_or_predictions():
    X, y = data(1000)
    differences = []
    for models, baseline in (
        ({"a": Ranks(), "b": Ranks(1)}, "b"),
        ({"a": Ranks()}, Ranks(1)),
        ({"a": Ranks()}, Ranks(1).predict_proba(X)),
    ):
        report = ReusableHoldout(X, y, random_state=0).final_report(
            models, scoring="neg_brier_score", compare=baseline, training=(X, y)
        )
        differences.append(report.rows[-1].value)
    assert differences[1:] == pytest.approx([differences[0]] * 2)


def test_differences_of_auc_have_approximate_intervals():
    X, y = data(1000)
    report = ReusableHoldout(X, y, random_state=0).final_report(
        three_models(X, y), scoring="roc_auc", compare=True
    )
    difference = report.rows[3]
    assert difference.proven is None
    assert difference.approximate[0] < difference.value < difference.approximate[1]


def test_an_unknown_baseline_raises():
    X, y = data(1000)
    with refused(ValueError, "compare"):
        ReusableHoldout(X, y).final_report(three_models(X, y), compare="d")


def test_training_records_make_differences_narrower():
    X, y = data(600)
    train = data(600, seed=1)

    def fit_column(column):
        return LogisticRegression().fit(train[0][:, [column]], train[1])

    class One(ClassifierMixin, BaseEstimator):
        def __init__(self, column=0):
            self.column = column

        def fit(self, X, y):
            self.model_ = LogisticRegression().fit(np.asarray(X)[:, [self.column]], y)
            self.classes_ = self.model_.classes_
            return self

        def predict_proba(self, X):
            return self.model_.predict_proba(np.asarray(X)[:, [self.column]])

        def predict(self, X):
            return self.model_.predict(np.asarray(X)[:, [self.column]])

    models = [One(0).fit(*train), One(1).fit(*train)]
    row_with_training, row_without_training = (
        ReusableHoldout(X, y, random_state=0).final_report(
            models, scoring="neg_brier_score", compare=True, training=training
        ).rows[-1]
        for training in (train, None)
    )  # fmt: skip
    widths = [row.proven[1] - row.proven[0] for row in (row_with_training, row_without_training)]
    assert widths[0] < widths[1]


def frame_with_sex(X):
    """Return the two columns as a frame with a third column: "F" for every third record."""
    frame = pd.DataFrame(X, columns=["chance", "other"])
    frame["sex"] = np.where(np.arange(len(X)) % 3 == 0, "F", "M")
    return frame


@pytest.fixture(scope="module")
def rows_by_subgroup():
    """Rows of a report by sex, by metric and subgroup."""
    X, y = data(1000)
    holdout = ReusableHoldout(frame_with_sex(X), y, random_state=0)
    report = holdout.final_report({"m": Ranks()}, scoring=["accuracy", "roc_auc"], by="sex")
    return {(row.metric, row.subgroup): row for row in report.rows}


def test_subgroups_and_their_gap_have_rows(rows_by_subgroup):
    assert list(rows_by_subgroup) == [
        ("accuracy", ""),
        ("roc_auc", ""),
        ("accuracy", "sex=F"),
        ("accuracy", "sex=M"),
        ("accuracy", "sex=M minus sex=F"),
        ("roc_auc", "sex=F"),
        ("roc_auc", "sex=M"),
        ("roc_auc", "sex=M minus sex=F"),
    ]


def test_scores_of_a_subgroup_are_those_of_its_records(rows_by_subgroup):
    X, y = data(1000)
    is_female = np.arange(1000) % 3 == 0
    hits = Ranks().predict(X) == y
    accuracy_row = rows_by_subgroup["accuracy", "sex=F"]
    assert accuracy_row.value == pytest.approx(hits[is_female].mean())
    assert accuracy_row.n_units == is_female.sum()
    assert accuracy_row.proven[0] < hits[is_female].mean()
    assert rows_by_subgroup["roc_auc", "sex=M"].value == pytest.approx(
        roc_auc_score(y[~is_female], X[~is_female, 0])
    )


@pytest.mark.parametrize("metric", ["accuracy", "roc_auc"])
@pytest.mark.parametrize("kind", ["proven", "approximate"])
def test_intervals_of_a_gap_between_subgroups_contain_its_value(rows_by_subgroup, metric, kind):
    gap_row = rows_by_subgroup[metric, "sex=M minus sex=F"]
    lower, upper = getattr(gap_row, kind)
    assert lower < gap_row.value < upper


def test_a_gap_has_an_interval_a_little_wider_than_both_of_its_subgroups(rows_by_subgroup):
    """It takes the interval of each subgroup at half the level."""
    intervals = [rows_by_subgroup["accuracy", f"sex={sex}"].proven for sex in "FM"]
    gap_width = np.ptp(rows_by_subgroup["accuracy", "sex=M minus sex=F"].proven)
    assert np.ptp(intervals) < gap_width
    assert gap_width < 1.2 * (np.ptp(intervals[0]) + np.ptp(intervals[1]))


def test_each_of_three_subgroups_is_compared_with_the_rest():
    X, y = data(1000)
    report = ReusableHoldout(X, y).final_report(Ranks(), by={"site": np.arange(1000) % 3})
    assert [row.subgroup for row in report.rows if "minus" in row.subgroup] == [
        f"site={site} minus the rest of site but site={site}" for site in range(3)
    ]


@pytest.mark.parametrize("missing", [pd.NA, pd.NaT, np.nan, None])
def test_missing_labels_make_no_subgroup(missing):
    X, y = data(999)
    sex = np.array(["F", "M", missing] * 333, dtype=object)
    report = ReusableHoldout(X, y).final_report(Ranks(), by={"sex": sex})
    rows = {row.subgroup: row for row in report.rows if row.subgroup}
    assert list(rows) == ["sex=F", "sex=M", "sex=M minus sex=F"]
    assert rows["sex=F"].n_units == rows["sex=M"].n_units == 333


@pytest.mark.parametrize(
    "by",
    [
        "age",
        {"age": np.arange(1000) / 1000},
        {"sex": ["F"]},
        {"sex": np.array([1, "1"] * 500, dtype=object)},  # two labels of equal text
        9,
    ],
)
def test_invalid_subgroups_raise_and_leave_the_holdout_open(by):
    X, y = data(1000)
    holdout = ReusableHoldout(frame_with_sex(X), y)
    with refused(ValueError, "by"):
        holdout.final_report(Ranks(), by=by)
    holdout.answer([0.5], np.full((1, 1000), 0.5))


def test_a_report_has_one_target():
    """G28: per patient by default, per record on request, both families alike."""
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, 7, 200)
    groups = np.repeat(np.arange(200), sizes)
    X, y = data(len(groups))
    hits = (Ranks().predict(X) == y).astype(float)
    per_patient = np.mean([hits[groups == g].mean() for g in range(200)])
    training = (*data(600, seed=3), np.repeat(np.arange(100), 6))
    for per, value in ((None, per_patient), ("record", hits.mean())):
        report = ReusableHoldout(X, y, correlation=Groups(groups), random_state=0).final_report(
            Ranks(), scoring=["accuracy", "f1"], per=per, training=training
        )
        row = report.rows[0]
        assert row.value == pytest.approx(value)
        assert row.n_units == 200
        for pair in (row.proven, row.approximate):
            assert pair[0] < value < pair[1]
    with refused(ValueError, "largest"):
        ReusableHoldout(X, y, correlation=Groups(groups)).final_report(Ranks(), per="record")


def test_proven_and_approximate_rows_are_about_the_counted_records():
    """G28: of a group that is larger than all training groups, some records count, in all rows."""
    is_correct = np.arange(200) < 100  # patients that are always right come often
    groups = np.repeat(np.arange(200), np.where(is_correct, 20, 2))
    X, y = data(len(groups))
    predictions = np.where(is_correct[groups], y, 1 - y)
    training = (*data(600, seed=3), np.repeat(np.arange(150), 4))
    rows = ReusableHoldout(X, y, correlation=Groups(groups), random_state=0).final_report(
        predictions, scoring=["accuracy", "balanced_accuracy"], per="record", training=training
    ).rows  # fmt: skip
    assert rows[0].value == pytest.approx(400 / 600)
    for interval in (rows[0].proven, rows[0].approximate, rows[1].approximate):
        assert interval[0] < 400 / 600 < interval[1] < 0.85  # of all records: .95
    assert rows[1].proven is None  # G19 is about a random record of a random group
    private_holdout = ReusableHoldout(X, y, correlation=Groups(groups), epsilon=1.0)
    with refused(UnboundedMetricError, "noise"):
        private_holdout.final_report(Ranks(), scoring="roc_auc", per="record", training=training)


@pytest.mark.parametrize("scoring", ["accuracy", "roc_auc", "f1_macro", "d2_brier_score"])
def test_a_subgroup_without_a_counted_record_has_no_value(scoring):
    """Its two records are in a group that is larger than all training groups."""
    groups = np.maximum(np.arange(400) - 199, 0)
    X, y = data(len(groups))
    rare = np.where(np.arange(400) < 2, "yes", "no")
    training = (*data(100, seed=3), np.repeat(np.arange(50), 2))
    holdout = ReusableHoldout(X, y, correlation=Groups(groups), random_state=0)
    report = holdout.final_report(
        Ranks(), scoring=scoring, per="record", by={"rare": rare}, training=training
    )
    rows = {row.subgroup: row for row in report.rows}
    assert math.isfinite(rows["rare=no"].value)
    assert math.isnan(rows["rare=yes"].value)
    assert rows["rare=yes"].approximate is None
    assert rows["rare=yes"].notes


def test_the_target_is_stated_if_it_cannot_be_chosen():
    """In time dates count alike; noise is added to means over records, AUC is about patients."""
    X, y = data(400)
    (row,) = ReusableHoldout(X, y, correlation="time").final_report(Ranks(), per="record").rows
    assert row.proven[0] < row.value < row.proven[1]
    search = ReusableHoldoutSearchCV(LogisticRegression(), {}, correlation="time", random_state=0)
    search.fit(X, y, times=np.arange(400) // 4)
    with refused(ValueError, "per"):
        search.final_report(per="record")
    assert search.final_report().rows
    groups = np.repeat(np.arange(150), np.r_[np.full(100, 1), np.full(50, 6)])
    is_correct = Ranks().predict(X) == y
    for scoring, per in (("accuracy", " per record"), ("roc_auc", "random group")):
        holdout = ReusableHoldout(X, y, correlation=Groups(groups), epsilon=2.0, random_state=0)
        with refused(UnboundedMetricError, "epsilon"):
            holdout.final_report(Ranks(), scoring=["accuracy", "roc_auc"])
        forget_answered_targets()
        report = holdout.final_report(Ranks(), scoring=scoring)
        assert per in report.methods()
        forget_answered_targets()
    per_group = np.mean([is_correct[groups == group].mean() for group in range(150)])
    report = ReusableHoldout(X, y, correlation=Groups(groups)).final_report(Ranks())
    assert report.value == pytest.approx(per_group)


def test_an_approximate_interval_ends_where_scores_end():
    """A skewed loss of few events at a small level once ran from -2774 to 0."""
    X, y = load_breast_cancer(return_X_y=True)
    big = np.where(X[:, 0] > 14, "yes", "no")
    scaled = StandardScaler().fit_transform(X)
    model = LogisticRegression().fit(scaled[:400], y[:400])
    report = ReusableHoldout(scaled[400:], y[400:]).final_report(
        model, scoring=["roc_auc", "neg_brier_score"], by={"big": big[400:]}
    )
    for row in report.rows:
        low, high = (-1.0, 0.0) if row.metric == "neg_brier_score" else (0.0, 1.0)
        if " minus " in row.subgroup:
            low, high = low - high, high - low
        if row.approximate is None:
            assert any("pproximate interval: " in note for note in row.notes) or not row.proven
        else:
            assert low <= row.approximate[0] < row.approximate[1] <= high
            assert row.approximate != (low, high)
    with refused(ValueError, "by", "169"):
        ReusableHoldout(scaled[400:], y[400:]).final_report(model, by={"big": big})


def test_any_scorer_or_function_gets_an_approximate_row():
    X, y = data()
    rows = ReusableHoldout(X, y).final_report(
        Ranks(), scoring=["top_k_accuracy", "d2_log_loss_score",
                          lambda model, X, y: float(np.mean(model.predict(X) == y))],
    ).rows[1:]  # fmt: skip
    for row in rows:
        assert row.approximate[0] < row.value < row.approximate[1]
        assert "blocks" in " ".join(row.notes)


def test_a_pickle_of_a_report_holds_no_record():
    X, y = data()
    secret = X.copy()
    secret[7, 0] = 0.123456789123
    report = ReusableHoldout(secret, y).final_report(Ranks())
    assert np.float64(0.123456789123).tobytes() not in pickle.dumps(report)
    assert pickle.loads(pickle.dumps(report)) == report


def test_search_and_holdout_give_the_same_type_of_row():
    """Issue 31: the holdout knows the range of its search's training targets."""
    X, y = load_diabetes(return_X_y=True)
    reports = []
    for by_search in (True, False):
        search = ReusableHoldoutSearchCV(
            Ridge(), {"alpha": [1.0]}, scoring="neg_mean_absolute_error", random_state=0
        ).fit(X, y)
        reports.append(
            search.final_report() if by_search else search.holdout_.final_report(
                search.best_estimator_, scoring="neg_mean_absolute_error"
            )
        )  # fmt: skip
    assert reports[0].rows[0].metric == reports[1].rows[0].metric
    assert reports[1].rows[0].proven is not None
    [row_without_range] = ReusableHoldout(X[300:], y[300:]).final_report(
        Ridge().fit(X[:300], y[:300]), scoring="neg_mean_absolute_error"
    ).rows  # fmt: skip
    assert row_without_range.proven is None
    assert row_without_range.approximate is not None
    assert "bounds" in " ".join(row_without_range.notes)


def test_a_note_called_closing_closes_nothing():
    X, y = data()
    holdout = ReusableHoldout(X, y)
    holdout.add_note("closing", {"mine": True})
    holdout.answer([0.5], np.full((1, len(y)), 0.5))
    assert holdout.final_report(Ranks()).value > 0.5


def test_a_script_that_is_run_twice_gets_the_same_report():
    X, y = load_breast_cancer(return_X_y=True)
    X = scale(X[:, :5])
    holdout = ReusableHoldout(X[400:], y[400:])
    models = [LogisticRegression().fit(X[:400], y[:400]) for _ in range(2)]
    reports = [holdout.final_report(model, scoring=["roc_auc", "f1"]) for model in models]
    assert reports[0] == reports[1]
    with pytest.raises(HoldoutClosedError):
        holdout.final_report(models[0], scoring="f1")
    with pytest.raises(HoldoutClosedError):
        holdout.final_report(LogisticRegression(C=0.1).fit(X[:400], y[:400]))


def test_the_report_states_its_methods_and_consequences():
    X, y = data()
    report = ReusableHoldout(X, y, correlation=Groups(np.arange(400) // 4)).final_report(
        Ranks(), scoring=["accuracy", "average_precision"]
    )
    methods = report.methods()
    for words in (
        "100 groups",
        "400 records",
        "95%",
        "jackknife",
        "random record of a random group",
    ):
        assert words in methods
    assert "clone(model).fit(X, y)" in str(report)
    frame = report.to_frame()
    for name in ("model", "metric", "subgroup", "value", "proven", "approximate", "lower", "upper",
                 "method", "target", "n_units", "n_events",
                 "half_width_components"):  # fmt: skip
        assert name in frame.columns
    axes = report.plot()
    assert [text.get_text() for text in axes.get_yticklabels()] == [
        row.words for row in report.rows
    ]


def test_methods_state_losses_and_names_as_papers_do():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    numbers = X[:, 0] + rng.normal(size=400)
    model = LinearRegression().fit(X[:200], numbers[:200])
    holdout = ReusableHoldout(X[200:], numbers[200:])
    report = holdout.final_report(model, scoring="neg_mean_absolute_error")
    methods = report.methods()
    assert report.value < 0.0
    assert f"mean absolute error of LinearRegression was {-report.value:.3f}" in methods
    assert "neg_" not in methods
    assert "classified" not in methods
    X, y = data()
    report = ReusableHoldout(X, y).final_report(
        Ranks(), scoring=["roc_auc", "f1_macro"], by={"half": np.arange(len(y)) % 2}
    )
    methods = report.methods()
    for words in ("area under the ROC curve", "predict method", f"{len(report.rows)} estimates",
                  "population of the holdout records", "Hoeffding 1963", "opposite limits",
                  "half=1 minus half=0", "half the failure probability",
                  "specified in advance"):  # fmt: skip
        assert words in methods
    assert methods.count("U-statistic bound") == 1
    averaged = ReusableHoldout(X, y).final_report(Ranks(), scoring="f1_macro")
    assert "macro-averaged F1 score" in averaged.methods()


def test_methods_name_the_method_of_each_metric():
    X, y = data()
    report = ReusableHoldout(X, y).final_report(
        {"new": Ranks(), "old": Ranks()}, scoring=["accuracy", "recall", "roc_auc"], compare="old"
    )
    methods = report.methods()
    assert "(Clopper and Pearson 1934) were used for accuracy and sensitivity (recall)." in methods
    assert "were used for the area under the ROC curve." in methods
    assert "were used for differences between models in accuracy and sensitivity" in methods


def test_rows_and_methods_name_the_same_bound_of_a_mean_over_classes():
    """Limits of a mean over classes are not those of a U-statistic; identities keep one name."""
    X, y = data()
    scoring = ["roc_auc", "balanced_accuracy"]
    groups = Groups(np.arange(len(y)) // 20)  # few: the limits of recalls are not narrower
    report = ReusableHoldout(X, y, correlation=groups).final_report(Ranks(), scoring=scoring)
    assert [row.method for row in report.rows] == [CLASSES, CLASS_MEANS]
    methods = report.methods()
    assert "A concentration bound conditional on the numbers of records of each class" in methods
    assert methods.count("U-statistic bound") == 1
    both = "the area under the ROC curve and balanced accuracy"
    assert f"The proven intervals for {both} use one random record of each group, drawn" in methods


def test_methods_explain_losses_clips_and_letters():
    X, y = data()
    models = {
        "LogisticRegression(C=0.001, max_iter=1000)": LogisticRegression(C=0.001, max_iter=1000),
        "LogisticRegression(C=1000, max_iter=1000)": LogisticRegression(C=1000, max_iter=1000),
    }
    for model in models.values():
        model.fit(X[:200], y[:200])
    holdout = ReusableHoldout(X[200:], y[200:])
    first, second = models
    report = holdout.final_report(
        models,
        scoring=[
            "neg_log_loss",
            "balanced_accuracy",
            "roc_auc",
            "recall",
            "f1",
            "accuracy",
            "specificity",
        ],
        compare=second,
    )
    methods = report.methods()
    for words in ("positive difference favors the model", f"of model A ({first}) was",
                  f"Model B is {second}.", "count as 0.01", "one population",
                  "for all 21 estimates a joint failure probability of",
                  "The level of the approximate intervals for",
                  "up to which the developers of the software checked this method by simulation",
                  "on the log scale for log loss",
                  "on the numbers of records of each class",
                  "The difference between models is model A minus model B",
                  "Only approximate intervals are available for differences between models in the "
                  "area under the ROC curve"):  # fmt: skip
        assert words in methods


def test_methods_state_the_counts_of_clopper_pearson_intervals():
    X, y = data()
    train, test = slice(0, 200), slice(200, 400)
    model = LogisticRegression().fit(X[train], y[train])
    report = ReusableHoldout(X[test], y[test]).final_report(
        model, scoring=["f1", "precision", "recall"], joint=False
    )
    negatives, positives = confusion_matrix(y[test], model.predict(X[test]))
    _, false_positives = negatives.tolist()
    missed, hits = positives.tolist()
    counts = {row.metric: row.counts for row in report.rows}
    assert counts["f1"] == ((hits, hits + missed + false_positives),)
    assert counts["precision"] == ((hits, hits + false_positives),)
    assert counts["recall"] == ((hits, hits + missed),)
    methods = report.methods()
    assert f"(precision) {hits}/{hits + false_positives}, and" in methods
    assert "F1 = 2J/(1 + J)" in methods
    assert "Intervals were not adjusted for the number of estimates" in methods
    assert f"version {__version__}." in methods
    assert ReusableHoldout(X[test], y[test]).final_report(model).rows[0].counts == (
        (int((model.predict(X[test]) == y[test]).sum()), 200),
    )


def test_methods_state_that_a_denominator_is_zero():
    X, y = data()
    constant = DummyClassifier(strategy="constant", constant=0).fit(X, y)
    report = ReusableHoldout(X, y).final_report(constant, scoring=["precision", "recall"])
    methods = report.methods()
    assert f"The proportion is sensitivity (recall) 0/{y.sum()}." in methods
    assert "No record is in the denominator of positive predictive value (precision)" in methods


@pytest.mark.parametrize("correlation", [None, "groups"])
@pytest.mark.parametrize("zero_division", [0, 1, np.nan, "warn"])
def test_declared_scores_of_divisions_by_zero_are_scikit_learns(zero_division, correlation):
    """Their interval is uninformative, and a difference from an undefined score is undefined."""
    X, y = data()
    constant = DummyClassifier(strategy="constant", constant=0).fit(X, y)
    scorer = make_scorer(precision_score, zero_division=zero_division)
    expected = math.nan if zero_division == "warn" else scorer(constant, X, y)
    dependence = None if correlation is None else Groups(np.arange(len(y)) // 2)
    report = ReusableHoldout(X, y, correlation=dependence).final_report(
        DecisionTreeClassifier(max_depth=2).fit(X, y), scoring=scorer, compare=constant
    )
    _, row, difference = report.rows
    assert (row.value, row.lower, row.upper) == pytest.approx((expected, 0.0, 1.0), nan_ok=True)
    assert math.isnan(difference.value)
    assert math.isnan(difference.lower)
    estimate = "an estimate by convention" if zero_division in (0, 1) else "no estimate"
    assert (estimate in report.methods()) == (correlation is None)


def test_methods_define_metrics_of_calibration():
    X, y = data()
    model = LogisticRegression().fit(X[:200], y[:200])
    report = ReusableHoldout(X[200:], y[200:]).final_report(
        model, scoring=["calibration_intercept", "calibration_slope", "neg_brier_score"]
    )
    methods = report.methods()
    assert "log odds of the prediction as offset (ideal value 0" in methods
    assert "on the log odds of the prediction (ideal value 1" in methods
    assert "except for the calibration intercept and the calibration slope." in methods


def test_methods_state_the_reason_of_a_missing_interval():
    X, y = data()
    X_test, y_test = X[200:], y[200:]
    holdout = ReusableHoldout(X_test, y_test)
    tree = DecisionTreeClassifier(random_state=0).fit(X[:200], y[:200])
    report = holdout.final_report({"tree": tree}, scoring=["accuracy", "calibration_slope"])
    methods = report.methods()
    [note] = report.rows[1].notes
    assert (
        "Neither an estimate nor an interval could be computed for the calibration slope of tree. "
        f"The reason in the report is “{note}”"
    ) in methods


def test_methods_count_records_groups_and_subgroups():
    X, y = data()
    groups = np.arange(400) // 4
    died = pd.Series(np.where(y == 1, "yes", "no"), name="death")
    model = LogisticRegression().fit(X, died)
    report = ReusableHoldout(X, died, correlation=Groups(groups)).final_report(
        model, scoring="roc_auc", by={"half": groups % 2}
    )
    methods = report.methods()
    n_groups = pd.Series(y).groupby(groups).max().sum()
    assert "400 records from 100 groups" in methods
    assert f"({y.sum()} positive records: death = yes; {n_groups} groups with a positive" in methods
    assert "death = yes" in methods
    assert report.positives == ("death = yes", y.sum())
    assert "half=0 (50 groups" in methods


@pytest.mark.parametrize("scoring", ["neg_log_loss", "neg_brier_score"])
def test_labels_that_are_floats_give_the_rows_of_integers(scoring):
    X, y = make_classification(900, weights=[0.97], flip_y=0.0, random_state=0)
    rows = []
    for labels in (y, y.astype(float)):
        model = LogisticRegression(C=0.01).fit(X[:400], labels[:400])
        report = ReusableHoldout(X[400:], labels[400:]).final_report(model, scoring=scoring)
        rows.append(report.rows[0])
    assert rows[0].approximate == pytest.approx(rows[1].approximate)


def test_top_k_accuracy_of_tied_probabilities_is_that_of_scikit_learn():
    X, y = make_classification(900, n_classes=4, n_informative=6, random_state=0)
    tree = DecisionTreeClassifier(random_state=0).fit(X[:400], y[:400])
    [row] = (
        ReusableHoldout(X[400:], y[400:])
        .final_report({"tree": tree}, scoring="top_k_accuracy_2", training=(X[:400], y[:400]))
        .rows
    )
    expected = top_k_accuracy_score(y[400:], tree.predict_proba(X[400:]), k=2)
    assert row.value == pytest.approx(expected)
    assert row.proven[0] < expected < row.proven[1]


@pytest.mark.parametrize("in_groups", [False, True])
def test_methods_name_the_method_for_gaps_to_the_rest_of_a_column(in_groups):
    X, y = data()
    groups = np.arange(400) // 4
    report = ReusableHoldout(X, y, correlation=Groups(groups) if in_groups else None).final_report(
        LogisticRegression().fit(X, y), scoring="roc_auc", by={"third": groups % 3}
    )
    methods = report.methods()
    assert "variance estimates recovery" in methods
    assert "on the original scale" not in methods


def test_methods_do_not_show_seeds_of_models():
    X, y = data()
    model = DecisionTreeClassifier(max_depth=2, random_state=0).fit(X, y)
    report = ReusableHoldout(X, y).final_report(
        {"DecisionTreeClassifier(max_depth=2, random_state=0)": model}
    )
    assert "of DecisionTreeClassifier(max_depth=2) was" in report.methods()


def test_average_precision_and_auc_are_scikit_learns():
    X, y = data()
    rows = ReusableHoldout(X, y).final_report(Ranks(), scoring=["roc_auc", "average_precision"])
    values = [roc_auc_score(y, X[:, 0]), average_precision_score(y, X[:, 0])]
    assert [row.value for row in rows.rows] == pytest.approx(values)
    assert all(math.isfinite(row.lower) for row in rows.rows)


def test_class_proportions_of_one_row_are_not_charged_to_others():
    """G20: a training set of equal classes; the share of the holdout's is a surprise."""
    X, y = data(600)
    y = np.where(np.arange(600) % 10 < 9, 0, y)
    reports = [
        ReusableHoldout(X, y, correlation=Groups(np.arange(600) // 2)).final_report(
            Ranks(), scoring=scoring, training=(X[:100], np.arange(100) % 2)
        )
        for scoring in (["accuracy", "roc_auc"], ["accuracy", "neg_brier_score"])
    ]
    assert reports[0].alpha_proven == reports[1].alpha_proven
    assert reports[0].alpha_approximate == reports[1].alpha_approximate
    finished = math.exp(-report_attempt_length(n_earlier=0, finished=True))
    assert reports[0].alpha_approximate == pytest.approx(finished * 0.05 / 2)


class FailsFarAway(LogisticRegression):
    """Fails on records that no training record looks like."""

    def predict(self, X):
        if np.abs(X).max() > 50.0:
            raise ValueError("far away")
        return super().predict(X)


def test_records_that_a_model_failed_on_are_named_in_the_rows_of_their_metric():
    """Predictions of an earlier row may come from another method of the model."""
    X, y = data()
    model = FailsFarAway().fit(X[:200], y[:200])
    X_held = X[200:].copy()
    X_held[7] = 99.0
    report = ReusableHoldout(X_held, y[200:]).final_report(
        model, scoring=["accuracy", "neg_log_loss"], by={"half": np.arange(200) % 2}
    )
    assert len(report.rows) == 8
    for row in report.rows:
        assert any("failed on 1 of 200" in note for note in row.notes) == (row.metric == "accuracy")


class HasNoScores(LogisticRegression):
    """Model that predicts labels, and raises an error for scores and probabilities."""

    def predict(self, X):
        return (X[:, 0] > 0.0).astype(int)

    def decision_function(self, X):
        raise RuntimeError("no scores")

    def predict_proba(self, X):
        raise RuntimeError("no probabilities")


@pytest.mark.parametrize("scoring", ["roc_auc", "average_precision"])
def test_a_model_that_fails_on_training_records_is_named_before_the_closing(scoring):
    X, y = data()
    holdout = ReusableHoldout(X[200:], y[200:])
    model = HasNoScores().fit(X[:200], y[:200])
    with refused(ValueError, scoring, HasNoScores) as caught:
        holdout.final_report(model, scoring=scoring, training=(X[:200], y[:200]))
    assert "None" not in str(caught.value)
    assert len(holdout.final_report(model, scoring="accuracy").rows) == 1


def test_records_that_a_model_failed_on_are_named_after_the_closing():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    y = rng.integers(0, 2, 400)
    X_held = rng.normal(size=(300, 3))
    y_held = rng.integers(0, 2, 300)
    X_held[[7, 70]] = 99.0
    model = FailsFarAway().fit(X, y)
    scoring = ["accuracy", "matthews_corrcoef"]
    report = ReusableHoldout(X_held, y_held).final_report(model, scoring=scoring)
    notes = [
        note_text for row in report.rows for note_text in row.notes if "failed on" in note_text
    ]
    assert len(notes) == 2
    assert all("2 of 300" in note and "7, 70" in note for note in notes)
    # The second score is undefined: no record counts in it.
    assert np.isnan(report.rows[1].value)
    assert ["worst score" in note for note in notes] == [True, False]
    report_without_failures = ReusableHoldout(X_held[:7], y_held[:7]).final_report(
        model, scoring="accuracy"
    )
    assert not any("failed on" in note_text for note_text in report_without_failures.rows[0].notes)


def test_nodes_with_declared_strengths_are_not_independent_components():
    edges = np.arange(599)
    path = csr_array((np.ones(599), (edges, edges + 1)), shape=(600, 600))
    X = np.random.default_rng(0).normal(size=(600, 3))
    y = np.arange(600) % 2
    search = ReusableHoldoutSearchCV(
        LogisticRegression(), {"C": [1.0]}, holdout=0.5, random_state=0,
        correlation=MarkovNetwork(path, influence=0.5),
    )  # fmt: skip
    (row,) = search.fit(X, y).final_report().rows
    model = search.holdout_.dependence
    assert not scheme_of(model).has_independent_records  # some held-out nodes are neighbors
    assert 0.0 < row.lower < row.value < row.upper < 1.0
    assert row.approximate is None
    sampling = math.sqrt(math.log(2 / 0.05) / (2 * model.effective_n(search.holdout_.n)))
    assert row.upper - row.lower > sampling


@pytest.mark.parametrize("correlation", [None, "time"])
def test_rows_of_a_zero_one_loss_are_those_of_accuracy_minus_one(correlation):
    X, y = data()
    rows = {}
    for scoring in ("accuracy", "neg_zero_one_loss"):
        holdout = ReusableHoldout(X, y, correlation=correlation, random_state=0)
        models = {"first": Ranks(), "second": Ranks(1)}
        report = holdout.final_report(
            models, scoring=scoring, compare=True, by={"half": np.arange(400) % 2}
        )
        rows[scoring] = report.rows
    for accuracy, loss in zip(rows["accuracy"], rows["neg_zero_one_loss"], strict=True):
        offset = 0.0 if " minus " in accuracy.model + accuracy.subgroup else 1.0
        assert loss.value == pytest.approx(accuracy.value - offset)
        expected = np.array(accuracy.approximate) - offset
        assert loss.approximate == pytest.approx(expected)


def test_limits_of_jaccard_are_those_of_a_proportion_and_give_those_of_f1():
    X, y = data()
    holdout = ReusableHoldout(X, y, random_state=0)
    jaccard, f1 = holdout.final_report(Ranks(), scoring=["jaccard", "f1"], joint=False).rows
    predicted = Ranks().predict(X)
    n_hits, n_union = np.sum(predicted & y), np.sum(predicted | y)
    assert jaccard.value == pytest.approx(n_hits / n_union)
    assert jaccard.method == f1.method
    share = binomtest(n_hits, n_union).proportion_ci(0.95)
    assert jaccard.proven[0] <= share.low < share.high <= jaccard.proven[1]
    limits = np.array(jaccard.proven)
    assert f1.proven == pytest.approx(2.0 * limits / (1.0 + limits))
    limits = np.array(jaccard.approximate)
    assert f1.approximate == pytest.approx(2.0 * limits / (1.0 + limits))


@pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.SklearnBdpWarning")
@pytest.mark.parametrize("seed", range(4))
def test_proven_rows_by_class_of_patients_contain_their_value(seed):
    """Limits rest on one visit of each patient, the value on all visits."""
    rng = np.random.default_rng(seed)
    patient = np.repeat(np.arange(300), 6)
    is_ill = rng.random(300) < 0.4
    X = rng.normal(size=(1_800, 2)) + is_ill[patient, None]
    y = is_ill[patient].astype(int)
    holdout = ReusableHoldout(X[600:], y[600:], correlation=Groups(patient[600:]))
    model = LogisticRegression().fit(X[:600], y[:600])
    report = holdout.final_report(model, scoring=["roc_auc", "balanced_accuracy"])
    for row in report.rows:
        assert row.proven[0] <= row.value <= row.proven[1]
