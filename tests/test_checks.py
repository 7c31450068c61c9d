"""Checks of arguments: the error names parameter, rule and value; warnings point at the caller."""

import math
import warnings

import numpy as np
import pytest

from sklearn_bdp import ReusableHoldout, ReusableHoldoutSearchCV, certify
from sklearn_bdp._checks import (
    check_array,
    check_integer,
    check_option,
    check_probability,
    check_real,
)
from tests.facts import refused


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 0.0, 1.0, 2])
def test_probabilities_are_strictly_inside(bad):
    with refused(ValueError, "beta", "(0, 1)"):
        check_probability("beta", bad)


@pytest.mark.parametrize("bad", ["1", None, True, 1j, [1.0]])
def test_numbers_are_real(bad):
    with refused(TypeError, "tau"):
        check_real("tau", bad)


def test_ends_belong_to_the_interval_as_declared():
    assert check_real("x", 0, low=0.0, high=1.0) == 0.0
    with refused(ValueError, "(0, 1]"):
        check_real("x", 0, low=0.0, high=1.0, closed="right")
    with refused(ValueError, "[0, 1)"):
        check_real("x", 1, low=0.0, high=1.0, closed="left")


@pytest.mark.parametrize(("bad", "error"), [(0, ValueError), (1.0, TypeError), (True, TypeError)])
def test_integers_are_integers_in_range(bad, error):
    with refused(error, "budget"):
        check_integer("budget", bad, low=1)


def test_options_are_named():
    with refused(ValueError, "'a', 'b'", "route='typo'"):
        check_option("route", "typo", ("a", "b"))


@pytest.mark.parametrize("bad", [[math.nan], [2.0], [-1.0]])
def test_arrays_are_finite_and_in_range(bad):
    with refused(ValueError, "values", "[0, 1]"):
        check_array("values", bad, low=0.0, high=1.0)
    with refused(ValueError, "shape"):
        check_array("values", [0.5], shape=(2,))


def test_warnings_point_at_the_code_that_called_the_package():
    from sklearn.svm import SVC

    X, y = np.random.default_rng(0).normal(size=(80, 2)), np.arange(80) % 2
    calls = (
        lambda: ReusableHoldout(X[:12], y[:12]),
        lambda: ReusableHoldoutSearchCV(SVC(), {"C": [1.0]}, holdout=0.15).fit(X, y),
        lambda: certify(10, n_queries=100, budget=10),
    )
    for call in calls:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            call()
        assert [warning.filename for warning in caught] == [__file__] * len(caught)
        assert caught
