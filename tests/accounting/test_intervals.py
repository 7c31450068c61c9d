import math

import numpy as np
import pytest
from scipy.stats import binom

from sklearn_bdp.accounting import answer_intervals, half_width, mean_lower_limit


class Bernoulli:
    """Independent records, written down again from the definitions (no package code)."""

    def log_tail(self, alpha, n, *, sensitivity=None):
        d = 1 / n if sensitivity is None else sensitivity
        return np.minimum(0.0, math.log(2) - 2 * np.asarray(alpha) ** 2 / (n * d * d))

    def log_tail_above(self, mean, value, n):
        p, x = np.clip(mean, 1e-300, 1 - 1e-16), np.asarray(value, dtype=float)
        with np.errstate(divide="ignore", invalid="ignore"):
            kl = np.where(x > 0, x * np.log(x / p), 0.0) + np.where(
                x < 1, (1 - x) * np.log((1 - x) / (1 - p)), 0.0
            )
        return np.where(x > p, -n * kl, 0.0)


ARGS = {
    "code_length": 3.0,
    "failure": 0.05,
    "model": Bernoulli(),
    "n": 1000,
}


def test_the_pre_sampling_half_width_widens_before_the_limit_is_taken():
    lower, upper = answer_intervals([0.8, 0.8], [0.025, 0.009], **ARGS)
    assert lower[0] < lower[1] < 0.8 < upper[1] < upper[0]
    # By hand: an "above" reaches 0.009, then the kl limit of 0.791 at ln(.05/2) − 3.
    at = mean_lower_limit([0.791], math.log(0.025) - 3.0, Bernoulli(), 1000)[0]
    assert lower[1] == pytest.approx(at)
    assert Bernoulli().log_tail_above(at, 0.791, 1000) == pytest.approx(math.log(0.025) - 3)


def test_interval_covers_the_value_and_stays_in_range():
    values = np.linspace(0, 1, 21)
    lower, upper = answer_intervals(values, np.where(np.arange(21) % 2, 0.025, 0.009), **ARGS)
    assert ((lower >= 0) & (lower <= values) & (values <= upper) & (upper <= 1)).all()


def test_more_information_spent_widens():
    widths = []
    for nats in (0.0, 5.0, 50.0, 5000.0):
        lower, upper = answer_intervals([0.9], 0.025, **(ARGS | {"code_length": nats}))
        widths.append(float(upper[0] - lower[0]))
    assert widths == sorted(widths)
    assert widths[-1] == pytest.approx(1.0, abs=0.1)


def test_unanswered_queries_have_no_interval():
    lower, upper = answer_intervals([math.nan, 0.5], 0.025, **ARGS)
    assert np.isnan([lower[0], upper[0]]).all()
    assert np.isfinite([lower[1], upper[1]]).all()


def test_low_sensitivity_queries_use_the_two_sided_tail():
    args = ARGS | {"sensitivity": 0.004}
    lower, upper = answer_intervals([0.5], 0.0, **args)
    alpha = math.sqrt((math.log(2 / 0.05) + 3) * 1000 * 0.004**2 / 2)
    assert upper[0] - 0.5 == pytest.approx(alpha, rel=1e-9)
    assert 0.5 - lower[0] == pytest.approx(alpha, rel=1e-9)


def test_mean_lower_limit_covers_by_exact_enumeration():
    # For every mean the probability that the limit exceeds it is at most the level.
    """Theory G5."""
    n, level = 60, 0.03
    limits = mean_lower_limit(np.arange(n + 1) / n, math.log(level), Bernoulli(), n)
    for p in np.linspace(0.01, 0.99, 99):
        assert binom.pmf(np.arange(n + 1), n, p)[limits > p].sum() <= level


def test_half_width_is_the_smallest_safe_one():
    alpha = half_width(math.log(0.01), Bernoulli(), 500)[0]
    assert alpha == pytest.approx(math.sqrt(math.log(200) / 1000), rel=1e-9)
    assert Bernoulli().log_tail(alpha, 500) <= math.log(0.01)
    assert half_width(-1e9, Bernoulli(), 500)[0] == math.inf


@pytest.mark.parametrize(
    "change",
    [
        {"failure": 0.0},
        {"failure": math.nan},
        {"code_length": -1.0},
        {"code_length": math.nan},
        {"reach": math.nan},
        {"reach": -1.0},
        {"reach": math.inf},
        {"n": 0},
    ],
)
def test_bad_parameters_raise(change):
    with pytest.raises(ValueError, match=next(iter(change))):
        answer_intervals([0.5], **(ARGS | {"reach": 0.02} | change))


def test_values_outside_the_range_raise():
    with pytest.raises(ValueError, match="values"):
        answer_intervals([1.5], 0.02, **ARGS)
