"""Clips of errors without a declared range, from out-of-fold training errors (theory G31)."""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

from sklearn_bdp.metrics import get_metric
from sklearn_bdp.metrics.error_clips import ErrorClips, errors_of_scores, has_undeclared_range

RNG = np.random.default_rng(0)
ERRORS = RNG.standard_t(4, 400)
Y = 100.0 * RNG.normal(size=400)


def test_clips_are_quantiles_by_hand():
    clips = ErrorClips.from_errors(ERRORS)
    sizes = np.abs(ERRORS)
    assert clips.absolute == pytest.approx(1.5 * np.quantile(sizes, 0.99))
    assert clips.squared == pytest.approx(1.5 * np.quantile(sizes**2, 0.999))
    assert clips.n_errors == 400
    assert clips.n_above_absolute == np.count_nonzero(sizes > clips.absolute)
    assert clips.n_above_squared == np.count_nonzero(sizes**2 > clips.squared)


@pytest.mark.parametrize("errors", [ERRORS[:29], np.zeros(100), np.full(100, np.nan)])
def test_few_or_no_errors_give_no_clip(errors):
    assert ErrorClips.from_errors(errors) is None


@pytest.mark.parametrize(
    ("name", "options", "lower"),
    [
        ("neg_mean_absolute_error", {}, lambda clips: -clips.absolute),
        ("neg_mean_squared_error", {}, lambda clips: -clips.squared),
        ("neg_mean_pinball_loss", {"alpha": 0.9}, lambda clips: -0.9 * clips.absolute),
    ],
)
def test_only_undeclared_ranges_are_replaced(name, options, lower):
    clips = ErrorClips.from_errors(ERRORS)
    undeclared = get_metric(name, y=Y, **options)
    assert has_undeclared_range(undeclared)
    clipped = clips.apply(undeclared)
    assert clipped.lower == pytest.approx(lower(clips))
    assert clips.apply(clipped) == clipped
    declared = get_metric(name, bounds=(-500.0, 500.0), **options)
    assert clips.apply(declared) is declared
    narrow = get_metric(name, y=0.001 * Y, **options)
    assert clips.apply(narrow) is narrow
    assert clips.apply(get_metric("accuracy")) == get_metric("accuracy")


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("neg_mean_absolute_error", {}),
        ("neg_mean_squared_error", {}),
        ("neg_mean_pinball_loss", {"alpha": 0.9}),
    ],
)
def test_errors_converted_to_a_narrow_clip_equal_those_of_a_second_evaluation(name, options):
    """Two routes: errors of an evaluation with the wide clip, and an evaluation with the narrow."""
    X = np.arange(400.0)[:, None]
    model = LinearRegression().fit(X, Y)
    wide = get_metric(name, y=Y, **options)
    narrow = ErrorClips.from_errors(0.3 * Y).apply(wide)
    assert narrow.width < wide.width
    evaluation = wide.evaluate(model, X, Y)
    converted = narrow.evaluate_errors(evaluation.errors)
    recomputed = narrow.evaluate(model, X, Y)
    assert (recomputed.per_record == 0.0).any()
    np.testing.assert_allclose(converted.per_record, recomputed.per_record, atol=1e-12)
    assert converted.value == pytest.approx(recomputed.value)
    errors = errors_of_scores(evaluation.per_record, wide)
    if name == "neg_mean_pinball_loss":  # the loss does not determine the sign of the error
        assert errors is None
    else:
        np.testing.assert_allclose(errors, np.minimum(np.abs(Y - model.predict(X)), wide.width))


class FailsOnSome(LinearRegression):
    """A model that has no prediction for records beyond 300."""

    def predict(self, X):
        return np.where(np.ravel(X) > 300.0, np.nan, super().predict(X))


def test_records_that_a_model_fails_on_have_the_worst_score_with_any_clip():
    X = np.arange(400.0)[:, None]
    model = FailsOnSome().fit(X, Y)
    wide = get_metric("neg_mean_absolute_error", y=Y)
    evaluation = wide.evaluate(model, X, Y)
    converted = ErrorClips.from_errors(0.3 * Y).apply(wide).evaluate_errors(evaluation.errors)
    assert (converted.per_record[301:] == 0.0).all()
    assert converted.failing.tolist() == evaluation.failing.tolist() == list(range(301, 400))


def test_declared_ranges_keep_no_errors():
    metric = get_metric("neg_mean_absolute_error", bounds=(-500.0, 500.0))
    X = np.arange(400.0)[:, None]
    assert metric.evaluate(LinearRegression().fit(X, Y), X, Y).errors is None
