"""A fitted search becomes an ONNX graph, as scikit-learn's does."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_bdp import ReusableHoldoutSearchCV

skl2onnx = pytest.importorskip("skl2onnx")
onnxruntime = pytest.importorskip("onnxruntime")


@pytest.mark.client("skl2onnx", "`to_onnx(search.best_estimator_, X[:1])`")
def test_the_best_estimator_predicts_the_same_as_a_graph():
    X, y = load_breast_cancer(return_X_y=True)
    X = X.astype(np.float32)
    model = make_pipeline(StandardScaler(), LogisticRegression())
    search = ReusableHoldoutSearchCV(
        model, {"logisticregression__C": [0.1, 1.0]}, random_state=0
    ).fit(X, y)
    graph = skl2onnx.to_onnx(search.best_estimator_, X[:1])
    session = onnxruntime.InferenceSession(graph.SerializeToString())
    labels, _ = session.run(None, {"X": X})
    np.testing.assert_array_equal(labels, search.predict(X))
