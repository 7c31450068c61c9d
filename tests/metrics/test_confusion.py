"""Scores of confusion matrices agree with scikit-learn."""

import numpy as np
import pytest
from sklearn import metrics

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
    actual, predicted = np.repeat(labels, len(labels)), np.tile(labels, len(labels))
    function = getattr(metrics, name)
    return function(actual, predicted, sample_weight=table.ravel(), **arguments)


@pytest.mark.parametrize("n_labels", [2, 3, 7])
@pytest.mark.parametrize(("name", "arguments"), CASES)
def test_scores_agree_with_scikit_learn(name, arguments, n_labels):
    tables = np.random.default_rng(0).gamma(1.0, size=(5, n_labels, n_labels))
    labels = np.array(list("abcdefg")[:n_labels])
    scores = confusion_scores(tables, name, arguments, labels)
    wanted = [expected(name, arguments, table, labels) for table in tables]
    np.testing.assert_allclose(scores, wanted, rtol=1e-12)


@pytest.mark.parametrize("pos_label", [0, 1])
@pytest.mark.parametrize("name", AVERAGED)
def test_the_positive_class_is_named(name, pos_label):
    tables = np.random.default_rng(0).gamma(1.0, size=(5, 2, 2))
    arguments = {"average": "binary", "pos_label": pos_label}
    scores = confusion_scores(tables, name, arguments, np.arange(2))
    wanted = [expected(name, arguments, table, np.arange(2)) for table in tables]
    np.testing.assert_allclose(scores, wanted, rtol=1e-12)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [("f1_score", {"labels": [0]}), ("f1_score", {"average": "samples"}), ("hinge_loss", {})],
)
def test_other_metrics_are_left_to_scikit_learn(name, arguments):
    assert confusion_scores(np.ones((1, 2, 2)), name, arguments, np.arange(2)) is None
