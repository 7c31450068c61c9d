"""Rows of a final report, forecast from training records before the holdout is closed."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

from sklearn_bdp import HoldoutConfig, ReusableHoldoutSearchCV
from sklearn_bdp.metrics import get_metric
from tests.facts import refused

pytestmark = pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.SecondHoldoutWarning")
METRICS = [
    "accuracy", "roc_auc", "neg_brier_score", "neg_log_loss", "f1", "recall", "specificity",
    "balanced_accuracy", "matthews_corrcoef", "calibration_slope",
]  # fmt: skip


def classification(n_patients, seed, *, visits=1):
    """Return features, a column of subgroups among them, labels and patients."""
    rng = np.random.default_rng(seed)
    patients = np.repeat(np.arange(n_patients), rng.integers(1, visits + 1, n_patients))
    X = rng.normal(size=(len(patients), 5))
    signal = X @ rng.normal(size=5) + 0.8 * rng.normal(size=n_patients)[patients]
    y = (signal + rng.logistic(size=len(patients)) > 1.0).astype(int)
    return np.column_stack([X, rng.integers(0, 2, len(patients))]), y, patients


def half_width(ends):
    return np.nan if ends is None else 0.5 * (ends[1] - ends[0])


def ratios_of_widths(preview, report):
    """Return forecast over reported half-widths, of proven and of approximate intervals."""
    assert [row[:3] for row in preview.rows] == [row[:3] for row in report.rows]
    ratios = [
        (
            (forecast.proven or np.nan) / half_width(row.proven),
            (forecast.approximate or np.nan) / half_width(row.approximate),
        )
        for forecast, row in zip(preview.rows, report.rows, strict=True)
    ]
    ratios = np.array(ratios)
    return ratios[np.isfinite(ratios)]


@pytest.mark.parametrize("visits", [1, 5])
def test_preview_and_report_agree_row_by_row(visits):
    X, y, patients = classification(1600, 0, visits=visits)
    search = ReusableHoldoutSearchCV(
        LogisticRegression(),
        {"C": [0.1, 1.0]},
        correlation="groups" if visits > 1 else None,
        random_state=0,
    ).fit(X, y, groups=patients if visits > 1 else None)
    train = search.train_indices_
    baseline = LogisticRegression(C=0.001).fit(X[train], y[train])
    options = {"scoring": METRICS, "compare": baseline, "by": 5}
    preview = search.preview(**options)
    spent = search.holdout_.information_spent
    report = search.final_report(**options)
    assert spent == pytest.approx(report.code_length, abs=0.2)  # nothing was charged
    ratios = ratios_of_widths(preview, report)
    assert len(ratios) > 100
    # Slopes of few events are the exception.
    assert np.mean(np.abs(np.log(ratios)) < np.log(4.0 / 3.0)) > 0.9
    assert np.exp(np.median(np.log(ratios))) == pytest.approx(1.0, abs=0.15)


def test_preview_of_errors_is_in_score_units():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1200, 4))
    y = 10.0 * X @ rng.normal(size=4) + 3.0 * rng.normal(size=1200)
    metric = get_metric("neg_mean_absolute_error", bounds=(-150.0, 150.0))
    search = ReusableHoldoutSearchCV(
        Ridge(), {"alpha": [1.0, 10.0]}, scoring=metric, random_state=0
    )
    search.fit(X, y)
    preview = search.preview(scoring=[metric, "r2"])
    report = search.final_report(scoring=[metric, "r2"])
    ratios = ratios_of_widths(preview, report)
    assert np.all(np.abs(np.log(ratios)) < np.log(4.0 / 3.0))
    assert preview.half_width_final == pytest.approx(half_width(report.rows[0].proven), rel=1 / 3)
    assert preview.score == pytest.approx(search.best_score_)
    assert "r2 of" in str(preview)


@pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.OptimisticScoreWarning")
def test_a_forecast_reads_no_holdout_record():
    """Other holdout records, other targets: the same forecast."""
    X, y, _ = classification(800, 1)
    previews = []
    for change in (0.0, 50.0):
        changed_X = X.copy()
        search = ReusableHoldoutSearchCV(LogisticRegression(), {"C": [1.0]}, random_state=0)
        search.fit(changed_X, y)
        rows = search.holdout_indices_
        changed_X[rows, :5] += change
        changed_y = y.copy()
        changed_y[rows] = 1 - y[rows] if change else y[rows]
        search.fit(changed_X, changed_y)
        previews.append(search.preview(scoring=["roc_auc", "accuracy"], by=5).rows)
    levels = [np.array([row.value for row in rows]) for rows in previews]
    assert levels[0].tolist() == levels[1].tolist()


def fitted_search(holdout=0.25):
    """Return a search of one candidate on 400 records, and their targets."""
    X, y, _ = classification(400, 2)
    search = ReusableHoldoutSearchCV(
        LogisticRegression(), {"C": [1.0]}, holdout=holdout, random_state=0
    )
    return search.fit(X, y), y


def test_a_preview_of_a_comparison_with_too_few_predictions_raises():
    search, _ = fitted_search()
    with refused(ValueError, "compare"):
        search.preview(compare=np.zeros(100))


def test_subgroups_by_targets_raise_without_their_values():
    search, y = fitted_search()
    with refused(ValueError, "by", "400 values", "labels"):
        search.preview(by=y)
    with refused(ValueError, "by", "400 values"):
        search.final_report(by=y)


def test_joint_is_a_boolean():
    search, _ = fitted_search()
    with refused(TypeError, "joint"):
        search.preview(joint="yes")
    assert len(search.preview(joint=False).rows) == 1


def test_a_report_under_a_fixed_privacy_level_has_no_preview():
    search, _ = fitted_search(holdout=HoldoutConfig(epsilon=50.0, budget=5))
    with refused(ValueError, "noise"):
        search.preview(scoring="accuracy")


def test_a_closed_holdout_has_no_preview():
    search, _ = fitted_search()
    search.final_report()
    with refused(RuntimeError, "closed"):
        search.preview(scoring="accuracy")
