"""Rows of metrics of labels near the best score have intervals inside the range."""

import numpy as np
import pytest

from sklearn_bdp import ReusableHoldout

N = 300


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
