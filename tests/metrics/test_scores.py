"""Per-record scores against scikit-learn's metrics, and where they deliberately differ."""

import math

import numpy as np
import pytest
from sklearn import metrics as sk
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC

from sklearn_bdp.metrics import get_metric
from tests.facts import refused


class Fixed(ClassifierMixin, BaseEstimator):
    """Model with fixed predictions, row by row (rows are numbered by the first column)."""

    def __init__(self, classes, *, proba=None, labels=None):
        self.classes_ = np.asarray(classes)
        self.proba = proba
        self.labels = labels

    def predict_proba(self, X):
        return np.asarray(self.proba)[X[:, 0]]

    def predict(self, X):
        return np.asarray(self.labels)[X[:, 0]]


def fixed(y, **replies):
    X = np.arange(len(y))[:, None]
    return Fixed(**replies), X, np.asarray(y)


@pytest.fixture(scope="module")
def fitted():
    iris = load_iris(return_X_y=True)
    cancer = load_breast_cancer(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])
    models = {
        "iris": (LogisticRegression(C=0.01, max_iter=500), *iris),
        "names": (LogisticRegression(C=0.01, max_iter=500), iris[0], names[iris[1]]),
        "objects": (KNeighborsClassifier(20), iris[0], names[iris[1]].astype(object)),
        "binary": (KNeighborsClassifier(30), *cancer),
        "booleans": (KNeighborsClassifier(30), cancer[0], cancer[1].astype(bool)),
    }
    return {
        key: (model.fit(X[::3], y[::3]), np.delete(X, np.s_[::3], 0), np.delete(y, np.s_[::3]))
        for key, (model, X, y) in models.items()
    }


@pytest.mark.parametrize("data", ["iris", "names", "objects", "binary", "booleans"])
@pytest.mark.parametrize(
    "name", ["accuracy", "balanced_accuracy", "neg_brier_score", "neg_log_loss", "top_k_accuracy"]
)
def test_scores_equal_scikit_learns(fitted, data, name):
    model, X, y = fitted[data]
    two_classes = len(model.classes_) == 2
    options = {"neg_log_loss": {"clip": 1e-12}, "top_k_accuracy": {"k": 1 if two_classes else 2}}
    metric = get_metric(name, y=y, **options.get(name, {}))
    value = metric.from_unit(metric.evaluate(model, X, y).value)
    if name == "neg_log_loss":
        expected = -sk.log_loss(y, np.clip(model.predict_proba(X), 1e-12, 1))
    elif name == "top_k_accuracy" and two_classes:
        expected = sk.accuracy_score(y, model.predict_proba(X)[:, 1] > 0.5)
    elif name == "neg_brier_score" and two_classes:
        expected = -np.mean((model.predict_proba(X)[:, 1] - (y == model.classes_[1])) ** 2)
    elif name == "neg_brier_score":
        pytest.importorskip("sklearn", minversion="1.7")
        expected = -sk.brier_score_loss(y, model.predict_proba(X), labels=model.classes_)
    else:
        expected = sk.get_scorer(name)(model, X, y)
    assert value == pytest.approx(expected, abs=1e-10)


def test_roc_auc_of_string_labels_takes_the_later_one_as_positive():
    X, y = load_breast_cancer(return_X_y=True)
    y = np.array(["malignant", "benign"])[y]
    model = LogisticRegression(max_iter=20, C=1e-5).fit(X / 100, y)
    value = get_metric("roc_auc", y=y).evaluate(model, X / 100, y).value
    assert value == pytest.approx(sk.get_scorer("roc_auc")(model, X / 100, y))
    assert value > 0.9


@pytest.mark.parametrize(
    ("name", "power"), [("neg_mean_absolute_error", 1), ("neg_mean_squared_error", 2)]
)
def test_no_record_counts_more_than_the_declared_error(name, power):
    model, X, y = fixed([0.0, 0.0, 0.0], classes=[0], labels=[1.0, 4.0, math.inf])
    rows = get_metric(name, bounds=(10, 12)).evaluate(model, X, y).per_record
    np.testing.assert_allclose(rows, [1 - 0.5**power, 0.0, 0.0])


def test_labels_unseen_in_training_are_misses_not_errors():
    replies = {"classes": ["a", "b"], "proba": [[0.5, 0.5], [1.0, 0.0]], "labels": ["a", "a"]}
    model, X, y = fixed(["a", "c"], **replies)
    assert get_metric("accuracy").evaluate(model, X, y).per_record.tolist() == [1, 0]
    brier = get_metric("neg_brier_score", n_classes=2).evaluate(model, X, y).per_record
    np.testing.assert_allclose(brier, [1 - 0.25, 0.0])
    log = get_metric("neg_log_loss", clip=0.1).evaluate(model, X, y).per_record
    np.testing.assert_allclose(log, [1 - math.log(0.5) / math.log(0.1), 0.0])
    top = get_metric("top_k_accuracy", k=1).evaluate(model, X, y).per_record
    assert top[1] == 0


@pytest.mark.parametrize("proba", [[-0.1, 1.1], [0.7, 0.7], [math.nan, 1.0], [math.inf, 0.0]])
@pytest.mark.parametrize("name", ["neg_brier_score", "neg_log_loss"])
def test_rows_that_are_no_probabilities_get_the_worst_score(name, proba):
    model, X, y = fixed([1, 1], classes=[0, 1], proba=[proba, [0.0, 1.0]])
    options = {"n_classes": 2} if name == "neg_brier_score" else {}
    rows = get_metric(name, **options).evaluate(model, X, y).per_record
    np.testing.assert_allclose(rows, [0.0, 1.0])


def test_scores_stay_in_the_unit_interval_for_the_most_wrong_and_most_right():
    model, X, y = fixed([0, 1], classes=[0, 1, 2], proba=[[1, 0, 0], [1, 0, 0]])
    for name, options in (("neg_brier_score", {"n_classes": 3}), ("neg_log_loss", {"clip": 0.01})):
        rows = get_metric(name, **options).evaluate(model, X, y).per_record
        np.testing.assert_allclose(rows, [1.0, 0.0], atol=1e-15)


def test_log_loss_is_clipped_at_the_declared_probability():
    model, X, y = fixed([0, 0], classes=[0, 1], proba=[[0.001, 0.999], [0.02, 0.98]])
    rows = get_metric("neg_log_loss", clip=0.01).evaluate(model, X, y).per_record
    np.testing.assert_allclose(rows, [0.0, 1 - math.log(0.02) / math.log(0.01)])


def test_top_k_breaks_ties_as_scikit_learn_does():
    rng = np.random.default_rng(0)
    proba = rng.integers(1, 4, (200, 4)).astype(float)
    proba /= proba.sum(axis=1, keepdims=True)
    model, X, y = fixed(rng.integers(0, 4, 200), classes=range(4), proba=proba)
    for k in (1, 2, 3):
        expected = sk.top_k_accuracy_score(y, proba, k=k, labels=range(4))
        assert get_metric("top_k_accuracy", k=k).evaluate(model, X, y).value == expected


def test_top_k_rejects_pairwise_decision_values():
    X, y = load_iris(return_X_y=True)
    X = np.r_[X, X[:50] + 5]
    y = np.r_[y, np.full(50, 3)]
    model = SVC(decision_function_shape="ovo").fit(X, y)
    with refused(ValueError, "top_k_accuracy", "(200, 6)"):
        get_metric("top_k_accuracy").training_score(model, X, y)


def test_labels_of_another_type_than_the_models_are_an_error():
    model, X, y = fixed(["a", "b"], classes=[0, 1], labels=[0, 1])
    for labels in (y, y.astype(object)):
        with refused(ValueError, "labels"):
            get_metric("accuracy").evaluate(model, X, labels)
    del model.classes_  # nothing is known about the model: a miss
    assert get_metric("accuracy").evaluate(model, X, y).value == 0.0


def test_records_with_other_columns_than_the_models_raise():
    X, y = load_iris(return_X_y=True, as_frame=True)
    model = LogisticRegression(max_iter=500).fit(X, y)
    with refused(ValueError, 4, 3):
        get_metric("accuracy").evaluate(model, X.to_numpy()[:, :3], y)
    with refused(ValueError, "sepal length (cm)"):
        get_metric("accuracy").evaluate(model, X[X.columns[::-1]], y)


def test_a_class_missing_from_the_holdout_contributes_the_score_of_chance():
    """G12: a missing class contributes chance, whichever model is scored."""
    replies = {"classes": [0, 1], "labels": [1, 0], "proba": [[0, 1], [1, 0]]}
    model, X, y = fixed([1, 1], **replies)
    assert get_metric("balanced_accuracy").evaluate(model, X, y).value == 0.5
    training = [0] * 30 + [1] * 70
    assert get_metric("balanced_accuracy", y=training).evaluate(model, X, y).value == 0.5
    replies["labels"] = [1, 1]
    model, X, y = fixed([1, 1], **replies)
    assert get_metric("balanced_accuracy", y=training).evaluate(model, X, y).value == 0.75
    for y_train in (None, training):
        assert get_metric("roc_auc", y=y_train).evaluate(model, X, y).value == 0.5


def test_roc_auc_rejects_a_model_of_other_classes():
    replies = {"classes": ["a", "b"], "proba": [[0, 1], [1, 0]]}
    model, X, y = fixed(["a", "c"], **replies)
    with refused(ValueError, "roc_auc", "['a', 'c']"):
        get_metric("roc_auc", y=["a", "c"]).evaluate(model, X, y)


class DoubledHits(type(get_metric("balanced_accuracy"))):
    """A mistaken metric by class: its scores reach 2."""

    def record_scores(self, estimator, X, index):
        return 2.0 * super().record_scores(estimator, X, index)


def test_scores_by_class_beyond_the_unit_interval_are_clipped():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 200)
    X = rng.normal(size=(200, 2)) + y[:, None]
    model = LogisticRegression().fit(X, y)
    metric = DoubledHits(name="doubled", lower=0.0, upper=1.0, classes=(0, 1))
    expected = get_metric("balanced_accuracy", y=y).evaluate(model, X, y)
    assert metric.evaluate(model, X, y).value == expected.value < 1.0
