"""Checks of arguments: the error names parameter, rule and value; warnings point at the caller."""

import math
import warnings

import numpy as np
import pytest

from sklearn_bdp import ReusableHoldout, ReusableHoldoutSearchCV, certify
from sklearn_bdp.metrics import get_metric
from tests.facts import refused


def certify_with(*, budget=1, **options):
    return certify(1000, n_queries=10, budget=budget, **options)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 0.0, 1.0, 2])
def test_probabilities_are_strictly_inside(bad):
    with refused(ValueError, "beta", "(0, 1)"):
        certify_with(beta=bad)


@pytest.mark.parametrize("bad", ["1", None, True, 1j, [1.0]])
def test_numbers_are_real(bad):
    with refused(TypeError, "beta"):
        certify_with(beta=bad)


def test_ends_belong_to_the_interval_as_declared():
    for limit, bad in ((0.0, -1e-9), (1.0, 1.0 + 1e-9)):
        get_metric("neg_mean_pinball_loss", bounds=(0, 1), alpha=limit)
        with refused(ValueError, "alpha", "[0, 1]"):
            get_metric("neg_mean_pinball_loss", bounds=(0, 1), alpha=bad)
    with refused(ValueError, "clip", "(0, 1)"):
        get_metric("neg_log_loss", clip=1)


@pytest.mark.parametrize(("bad", "error"), [(0, ValueError), (1.0, TypeError), (True, TypeError)])
def test_integers_are_integers_in_range(bad, error):
    with refused(error, "budget"):
        certify_with(budget=bad)


def test_options_are_named():
    with refused(ValueError, "'best', ", "route='typo'"):
        certify_with(route="typo")


@pytest.mark.parametrize("bad", [[math.nan], [2.0], [-1.0]])
def test_arrays_are_finite_and_in_range(bad):
    holdout = ReusableHoldout(np.zeros((100, 1)), np.arange(100) % 2)
    with refused(ValueError, "cv_scores", "[0, 1]"):
        holdout.answer(bad, np.zeros((1, 100)))
    with refused(ValueError, "shape"):
        holdout.answer([0.5], np.zeros((2, 100)))


def test_warnings_point_at_the_code_that_called_the_package():
    from sklearn.svm import SVC

    X = np.random.default_rng(0).normal(size=(80, 2))
    y = np.arange(80) % 2
    search = ReusableHoldoutSearchCV(SVC(), {"C": [1.0]}, holdout=0.15, random_state=0)
    calls = (
        lambda: ReusableHoldout(X[:12], y[:12]),
        lambda: search.fit(X, y),
        lambda: certify(10, n_queries=100, budget=10),
    )
    for call in calls:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            call()
        assert [warning.filename for warning in caught] == [__file__] * len(caught)
        assert caught
