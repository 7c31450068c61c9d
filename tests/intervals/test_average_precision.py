"""Average precision without each record, in closed form."""

import numpy as np
import pytest
from sklearn.metrics import average_precision_score

from sklearn_bdp.intervals.left_out import average_precision_left_out


@pytest.mark.parametrize(("n", "n_scores"), [(12, 3), (40, 8), (60, 1_000)])
@pytest.mark.parametrize("seed", range(5))
def test_leave_one_out_values_are_those_of_recomputed_scores(n, n_scores, seed):
    rng = np.random.default_rng(seed)
    is_positive = rng.random(n) < 0.4
    is_positive[:2] = True
    scores = rng.integers(0, n_scores, n).astype(float)
    is_counted = rng.random(n) < 0.8
    is_counted[:2] = True
    value, left_out = average_precision_left_out(is_positive, scores, is_counted)
    assert value == pytest.approx(
        average_precision_score(is_positive[is_counted], scores[is_counted])
    )
    for position in range(n):
        is_kept = is_counted.copy()
        is_kept[position] = False
        assert left_out[position] == pytest.approx(
            average_precision_score(is_positive[is_kept], scores[is_kept])
        )
