"""What the holdout makes of evaluations that are no mean over records."""

import itertools
import math

import numpy as np
import pytest

from sklearn_bdp.accounting import score_tail
from sklearn_bdp.correlation import Groups, Independent
from sklearn_bdp.holdout._inputs import check_evaluations
from sklearn_bdp.metrics import Evaluation

WEIGHTS = np.array([4.0, 2.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]) / 12.0


def shape_of(model):
    """Return the public shape of a weighted sum of eight scores that is no mean."""
    rms = math.sqrt(float(np.mean(WEIGHTS**2)))
    evaluation = Evaluation(None, 0.5, float(WEIGHTS.max()), rms_sensitivity=rms)
    (shape,) = check_evaluations([evaluation], WEIGHTS.size, model).shapes
    return shape


def test_unequal_sensitivities_enter_by_their_squares_where_records_are_independent():
    """H1 (McDiarmid): the root mean square for independent records, the largest for groups."""
    independent = shape_of(Independent())["sensitivity"]
    assert independent == pytest.approx(math.sqrt(float(np.mean(WEIGHTS**2))))
    grouped = shape_of(Groups([0, 0, 1, 1, 2, 2, 3, 3]))["sensitivity"]
    assert grouped == pytest.approx(float(WEIGHTS.max()))


@pytest.mark.parametrize("mean", [0.1, 0.3, 0.5, 0.8])
@pytest.mark.parametrize("failure", [0.2, 0.05, 0.01])
def test_limits_by_squares_hold_over_all_outcomes(mean, failure):
    """H1: all 256 outcomes of eight weighted bits, each with its exact probability."""
    tail = score_tail(Independent(), WEIGHTS.size, **shape_of(Independent()))
    bits = np.array(list(itertools.product([0, 1], repeat=WEIGHTS.size)))
    chances = np.prod(np.where(bits == 1, mean, 1.0 - mean), axis=1)
    values = np.clip(bits @ WEIGHTS, 0.0, 1.0)
    lower = tail.lower_limit(values, math.log(failure))
    upper = tail.upper_limit(values, math.log(failure))
    assert chances[lower > mean].sum() <= failure
    assert chances[upper < mean].sum() <= failure
