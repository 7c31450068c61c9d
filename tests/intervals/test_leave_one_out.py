"""Statistics without each unit (G28): closed forms against computing them anew."""

import functools

import numpy as np
import pytest
from scipy.special import expit, logit
from sklearn import metrics
from sklearn.linear_model import LogisticRegression

from sklearn_bdp.intervals.jackknife import GENERIC
from sklearn_bdp.metrics.registry import metric_without_range, statistic_of


def draw_patients(per_record, ties):
    """Return units, weights, targets and predictions of 25 patients."""
    rng = np.random.default_rng(ties + 2 * per_record)
    units = rng.permutation(np.repeat(np.arange(25), rng.integers(1, 5, 25)))
    signal = rng.normal(size=25)[units] + rng.normal(size=len(units))
    signal = np.round(signal) if ties else signal
    probabilities = np.exp(np.column_stack([-signal, 0.0 * signal + 0.3, signal - 0.2]))
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    noisy_signal = signal + rng.normal(size=len(signal))
    return {
        "units": units,
        "weights": np.ones(len(signal)) if per_record else 1.0 / np.bincount(units)[units],
        "two": (noisy_signal > 0.4).astype(int),
        "three": np.digitize(noisy_signal, [-0.5, 0.8]),
        "real": np.exp(0.3 * signal + 0.5 * rng.normal(size=len(signal))),
        "labels": (signal > 0.2).astype(int),
        "scores": signal,
        "chances": expit(1.2 * signal - 0.3),
        "all_chances": probabilities,
        "values": np.exp(0.3 * signal),
        "said": probabilities.argmax(axis=1),
    }


def slope(y, probabilities, sample_weight):
    odds = logit(probabilities)[:, None]
    model = LogisticRegression(C=1e9, tol=1e-10, max_iter=1000)
    return model.fit(odds, y, sample_weight=sample_weight).coef_[0, 0]


def benefit(y, probabilities, sample_weight):
    is_treated = probabilities >= 0.3
    return np.average(is_treated * np.where(y == 1, 1.0, -3.0 / 7.0), weights=sample_weight)


# Statistic, targets, predictions, the function of scikit-learn and its keywords.
CASES = {
    "accuracy": ("two", "labels", metrics.accuracy_score, {}),
    "recall": ("two", "labels", metrics.recall_score, {}),
    "specificity": ("two", "labels", metrics.recall_score, {"pos_label": 0}),
    "precision": ("two", "labels", metrics.precision_score, {}),
    "negative_predictive_value": ("two", "labels", metrics.precision_score, {"pos_label": 0}),
    "f1": ("two", "labels", metrics.f1_score, {}),
    "balanced_accuracy": ("three", "said", metrics.balanced_accuracy_score, {}),
    "matthews_corrcoef": ("three", "said", metrics.matthews_corrcoef, {}),
    "roc_auc": ("two", "scores", metrics.roc_auc_score, {}),
    "average_precision": ("two", "scores", metrics.average_precision_score, {}),
    "neg_brier_score": ("two", "chances", metrics.brier_score_loss, {}),
    "neg_log_loss": ("three", "all_chances", metrics.log_loss, {"labels": [0, 1, 2]}),
    "roc_auc_ovr": ("three", "all_chances", metrics.roc_auc_score, {"multi_class": "ovr"}),
    "r2": ("real", "values", metrics.r2_score, {}),
    "neg_mean_absolute_error": ("real", "values", metrics.mean_absolute_error, {}),
    "neg_mean_squared_error": ("real", "values", metrics.mean_squared_error, {}),
    "neg_root_mean_squared_error": ("real", "values", metrics.root_mean_squared_error, {}),
    "neg_mean_poisson_deviance": ("real", "values", metrics.mean_poisson_deviance, {}),
    "neg_mean_gamma_deviance": ("real", "values", metrics.mean_gamma_deviance, {}),
    "net_benefit_0.3": ("two", "chances", benefit, {}),
    "neg_mean_pinball_loss_0.8": ("real", "values", metrics.mean_pinball_loss, {"alpha": 0.8}),
}  # fmt: skip


def score_of_rows(function, y, predicted, weights, options, is_kept):
    return function(y[is_kept], predicted[is_kept], sample_weight=weights[is_kept], **options)


@pytest.mark.parametrize(("per_record", "ties"), [(True, False), (False, True)])
def test_leave_one_out_values_are_those_of_recomputed_statistics(per_record, ties):
    data = draw_patients(per_record, ties)
    units = data["units"]
    weights = data["weights"]
    for name, (targets, predictions, function, options) in CASES.items():
        y = data[targets]
        predicted = data[predictions]

        recompute = functools.partial(score_of_rows, function, y, predicted, weights, options)
        value, left_out = statistic_of(name).left_out(y, predicted, weights, units, 25)
        assert value == pytest.approx(recompute(np.ones(len(y), bool)), abs=1e-10), name
        recomputed = [recompute(units != unit) for unit in range(0, 25, 5)]
        assert left_out[::5] == pytest.approx(recomputed, abs=1e-9), name


def test_auc_of_pairs_of_classes_is_that_of_scikit_learn():
    data = draw_patients(True, True)
    y = data["three"]
    probabilities = data["all_chances"]
    units = data["units"]
    value, left_out = statistic_of("roc_auc_ovo").left_out(
        y, probabilities, data["weights"], units, 25
    )
    assert value == pytest.approx(metrics.roc_auc_score(y, probabilities, multi_class="ovo"))
    is_kept = units != 7
    expected = metrics.roc_auc_score(y[is_kept], probabilities[is_kept], multi_class="ovo")
    assert left_out[7] == pytest.approx(expected)


def test_gini_of_two_classes_is_twice_the_auc_minus_one():
    data = draw_patients(False, True)
    args = data["two"], data["scores"], data["weights"], data["units"], 25
    gini = statistic_of("gini").left_out(*args)
    auc = statistic_of("roc_auc").left_out(*args)
    assert gini[0] == pytest.approx(2.0 * auc[0] - 1.0)
    assert gini[1] == pytest.approx(2.0 * auc[1] - 1.0)


@pytest.mark.parametrize("per_record", [True, False])
def test_calibration_moves_by_newton_steps(per_record):
    data = draw_patients(per_record, False)
    y, probabilities, weights, units = (
        data[name] for name in ("two", "chances", "weights", "units")
    )
    value, left_out = statistic_of("calibration_slope").left_out(
        y, probabilities, weights, units, 25
    )
    recomputed = [
        slope(y[units != u], probabilities[units != u], weights[units != u]) for u in range(25)
    ]
    assert value == pytest.approx(slope(y, probabilities, weights), abs=1e-6)
    assert np.std(left_out) == pytest.approx(np.std(recomputed), rel=0.05)  # 25 units: two steps
    value, left_out = statistic_of("calibration_intercept").left_out(
        y, probabilities, weights, units, 25
    )
    for unit in range(25):  # the expected mean equals the observed mean
        is_kept = units != unit
        expected = expit(logit(probabilities[is_kept]) + left_out[unit])
        assert np.average(expected - y[is_kept], weights=weights[is_kept]) == pytest.approx(
            0, abs=1e-4
        )


def test_any_function_of_records_is_computed_without_blocks_of_units():
    rng = np.random.default_rng(0)
    values = rng.exponential(size=900)
    units = np.arange(900) // 2
    calls = []

    def median(rows):
        calls.append(len(rows))
        return np.median(values[rows])

    value, left_out = GENERIC.left_out(None, median, np.ones(900), units, 450)
    assert value == np.median(values)
    assert len(left_out) == 200 == len(calls) - 1
    assert left_out[0] == np.median(values[units * 200 // 450 != 0])


def test_average_precision_of_many_records_leaves_out_each():
    rng = np.random.default_rng(1)
    scores = rng.normal(size=3000)
    units = np.arange(3000)
    y = (scores + rng.normal(size=3000) > 1.0).astype(int)
    value, left_out = statistic_of("average_precision").left_out(
        y, scores, np.ones(3000), units, 3000
    )
    assert value == pytest.approx(metrics.average_precision_score(y, scores))
    is_kept = units != 3
    assert left_out[3] == pytest.approx(
        metrics.average_precision_score(y[is_kept], scores[is_kept])
    )


def test_names_with_numbers_are_those_of_statistics_with_one():
    assert metric_without_range("net_benefit_0.2").threshold == 0.2
    wrong_names = ("net_benefit", "net_benefit_1.2", "net_benefit_two", "r2_3")
    for name in (*wrong_names, "top_k_accuracy_0", "top_k_accuracy_x", None):
        assert metric_without_range(name) is None
