"""Scores of confusion matrices agree with scikit-learn."""

import warnings

import numpy as np
import pytest
from sklearn import metrics
from sklearn.base import BaseEstimator, ClassifierMixin

from sklearn_bdp.metrics.approximate import Predictions, approximate_metric
from sklearn_bdp.metrics.confusion import confusion_scores

AVERAGED = ["f1_score", "precision_score", "recall_score", "jaccard_score"]
CASES = [
    *((name, {"average": average}) for name in AVERAGED for average in ("macro", "micro")),
    *((name, {"average": "weighted"}) for name in AVERAGED),
    ("fbeta_score", {"average": "macro", "beta": 2.0}),
    ("accuracy_score", {}),
    ("balanced_accuracy_score", {}),
    ("matthews_corrcoef", {}),
    ("cohen_kappa_score", {}),
]


def expected(name, arguments, table, labels):
    actual = np.repeat(labels, len(labels))
    predicted = np.tile(labels, len(labels))
    function = getattr(metrics, name)
    return function(actual, predicted, sample_weight=table.ravel(), **arguments)


@pytest.mark.parametrize("n_labels", [2, 3, 7])
@pytest.mark.parametrize(("name", "arguments"), CASES)
def test_scores_agree_with_scikit_learn(name, arguments, n_labels):
    tables = np.random.default_rng(0).gamma(1.0, size=(5, n_labels, n_labels))
    labels = np.array(list("abcdefg")[:n_labels])
    scores = confusion_scores(tables, name, arguments, labels)
    expected_scores = [expected(name, arguments, table, labels) for table in tables]
    np.testing.assert_allclose(scores, expected_scores, rtol=1e-12)


@pytest.mark.parametrize("pos_label", [0, 1])
@pytest.mark.parametrize("name", AVERAGED)
def test_the_positive_class_is_named(name, pos_label):
    tables = np.random.default_rng(0).gamma(1.0, size=(5, 2, 2))
    arguments = {"average": "binary", "pos_label": pos_label}
    scores = confusion_scores(tables, name, arguments, np.arange(2))
    expected_scores = [expected(name, arguments, table, np.arange(2)) for table in tables]
    np.testing.assert_allclose(scores, expected_scores, rtol=1e-12)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [("f1_score", {"labels": [0]}), ("f1_score", {"average": "samples"}), ("hinge_loss", {})],
)
def test_other_metrics_are_left_to_scikit_learn(name, arguments):
    assert confusion_scores(np.ones((1, 2, 2)), name, arguments, np.arange(2)) is None


class RecordedPredictions(ClassifierMixin, BaseEstimator):
    """A classifier whose predictions are given."""

    def __init__(self, response):
        self.response = response

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return self.response


@pytest.mark.parametrize("labels", [np.arange(2), np.arange(4), np.array(["a", "b", "c"])], ids=str)
@pytest.mark.parametrize(
    "scoring",
    [
        "f1_macro", "f1_micro", "f1_weighted", "precision_macro", "jaccard_weighted",
        "matthews_corrcoef", metrics.make_scorer(metrics.cohen_kappa_score),
    ],
)  # fmt: skip
def test_scores_of_predictions_agree_with_scikit_learn(scoring, labels):
    rng = np.random.default_rng(0)
    y = rng.choice(labels, 300)
    response = np.where(rng.random(300) < 0.6, y, rng.choice(labels, 300))
    metric = approximate_metric(scoring, y)
    model = RecordedPredictions(response).fit(None, y)
    expected_scores = metrics.check_scoring(model, scoring)(model, np.arange(300), y)
    score = metric.score_predictions(Predictions(y, response))
    assert score == pytest.approx(expected_scores, rel=1e-12)


def test_correlation_of_one_class_is_that_of_scikit_learn():
    y = np.zeros(5, dtype=int)
    metric = approximate_metric("matthews_corrcoef", y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert metric.score_predictions(Predictions(y, y)) == metrics.matthews_corrcoef(y, y)


@pytest.mark.parametrize("response", [[0, 0, 0, 0], [0, 1, 2, 1]])
def test_absent_classes_are_left_to_scikit_learn(response):
    y = np.array([0, 0, 1, 1])
    metric = approximate_metric("f1_macro", y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected_scores = metrics.f1_score(y, response, average="macro")
        score = metric.score_predictions(Predictions(y, np.array(response)))
    assert score == pytest.approx(expected_scores)
