"""Final reports on records that are judged given their past: pairs, forecasts, refits (G26)."""

import pickle
import re
import warnings

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import TimeSeriesSplit, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.tree import DecisionTreeClassifier

from benchmarks.dependence.past import folded, newey_west
from sklearn_bdp import HoldoutConfig, HoldoutScorer, ReusableHoldout, ReusableHoldoutSearchCV
from sklearn_bdp.correlation import MarkovChain, TimeOrdered
from sklearn_bdp.exceptions import HoldoutClosedError
from sklearn_bdp.intervals.dates import date_row
from sklearn_bdp.intervals.jackknife import SKILL
from sklearn_bdp.metrics import get_metric
from sklearn_bdp.metrics.registry import statistic_of
from tests.facts import refused

pd = pytest.importorskip("pandas")
# One table, many holdouts.
pytestmark = [pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.SecondHoldoutWarning")]

PHI = 0.9


def sales(n=2000, seed=0, horizon=1):
    """Return features known so many days ahead, sales, and the slow part of these."""
    rng = np.random.default_rng(seed)
    level = np.zeros(n)
    for t in range(1, n):
        level[t] = PHI * level[t - 1] + rng.normal()
    day = np.arange(n)
    y = 15 + 2 * np.sin(2 * np.pi * day / 7) + level
    lags = [np.roll(y, horizon + k) for k in range(3)]
    X = np.column_stack([*lags, np.sin(2 * np.pi * day / 7), np.cos(2 * np.pi * day / 7)])[20:]
    frame = pd.DataFrame(X, index=pd.date_range("2012-01-01", periods=n - 20)).add_prefix("f")
    return frame, y[20:], level[20:]


def fit_search(X, y, **fit):
    search = ReusableHoldoutSearchCV(
        Ridge(), {"alpha": [0.1, 10.0]}, scoring="neg_mean_absolute_error", correlation="time",
        random_state=0, cv=3,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return search.fit(X, y, **fit)


def largest_error(report):
    """Return the error at which the proven interval of the first row clips."""
    return float(re.search(r"clipped at errors of ([\d.]+)", report.rows[0].metric)[1])


def differences(report):
    return [row for row in report.rows if " minus " in row.model]


@pytest.mark.parametrize("horizon", [1, 7])
def test_better_than_a_forecast_without_a_model(horizon):
    """Both targets are named; half-widths beside Newey-West errors, as Diebold and Mariano."""
    X, y, _ = sales(4000, horizon=horizon)
    search = fit_search(X, y, horizon=horizon)
    report = search.final_report(compare="seasonal-7")
    holdout_rows = search.holdout_indices_
    loss_differences = np.abs(y[holdout_rows] - y[holdout_rows - 7])
    loss_differences -= np.abs(
        y[holdout_rows] - search.best_estimator_.predict(X.iloc[holdout_rows])
    )
    rows = differences(report)
    assert rows[0].value == pytest.approx(loss_differences.mean(), abs=0.02)
    relative_half_widths = [
        (row.proven[1] - row.proven[0]) / 2 / newey_west(loss_differences) for row in rows
    ]
    assert relative_half_widths[0] < 2.0
    assert rows[0].proven[0] > 0.0
    assert len(rows) == (1 if horizon == 1 else 2)
    if horizon == 7:
        assert relative_half_widths[1] < 4.0
        assert "one day before the outcome" in rows[0].target
        assert "when the forecast was made, 7 days before the outcome" in rows[1].target
        methods = report.methods()
        assert "There are two estimands" in methods
        conditions = [row.target.partition(", each given ")[2] for row in rows]
        assert f"each given (1) {conditions[0]} or (2) {conditions[1]}." in methods
        assert "is for estimand (1). The point estimate is the same for (2)." in methods
        assert "The skill score is 1 - A/B, where A and B are the mean absolute error" in methods
        assert "on the same days" in methods
        assert "cannot exceed the distance between both forecasts" in methods
        assert "Neither refers to other periods" in methods
        assert "lag of 14 days" in methods
        assert "Differences and skill scores use unclipped errors" in methods
        assert "Differences and skill scores use unclipped errors" in str(report)
        assert "(2): these" in str(report)
    skill = next(row for row in report.rows if "skill" in row.metric)
    naive_loss = np.abs(y[holdout_rows] - y[holdout_rows - 7]).mean()
    model_loss = -report.rows[0].value
    assert skill.value == pytest.approx(1 - model_loss / naive_loss, abs=1e-6)
    assert skill.proven is None


def test_a_skill_score_may_be_far_below_the_range_of_losses():
    """A model without skill beside a good naive forecast: its interval once began at -1."""
    y = 0.1 * (np.arange(3000) % 7) + 0.02 * np.random.default_rng(0).normal(size=3000)
    earlier = y[:2000]
    X = np.zeros((3000, 1))
    model = DummyRegressor(strategy="constant", constant=0.0).fit(X[:2000], earlier)
    report = ReusableHoldout(X[2000:], y[2000:], correlation="time").final_report(
        model, scoring="neg_mean_absolute_error", compare="seasonal-7",
        training=(X[:2000], earlier),
    )  # fmt: skip
    (skill,) = (row for row in report.rows if "skill" in row.metric)
    assert skill.value < -5.0
    assert skill.target.startswith("these 1,000 dates")
    assert skill.approximate[0] < skill.value < skill.approximate[1]


def test_a_naive_forecast_is_the_last_known_target():
    X, y, _ = sales(horizon=3)
    search = fit_search(X, y, horizon=3)
    report = search.final_report(compare="naive")
    holdout_rows = search.holdout_indices_
    (row,) = (row for row in report.rows if row.model == "naive" and "when the" in row.target)
    errors = np.minimum(np.abs(y[holdout_rows] - y[holdout_rows - 3]), largest_error(report))
    assert row.value == pytest.approx(-errors.mean(), rel=1e-4)


@pytest.mark.parametrize("runs", [5, pytest.param(40, marks=pytest.mark.slow)])
def test_intervals_of_pairs_hold_for_the_period(runs):
    n_missed = 0
    for seed in range(runs):
        X, y, level = sales(800, seed)
        search = fit_search(X, y)
        holdout_rows = search.holdout_indices_
        (row,) = differences(search.final_report(compare="seasonal-7"))
        mean = (
            y[holdout_rows] - level[holdout_rows] + PHI * level[holdout_rows - 1]
        )  # known the day before
        model_losses = folded(mean - search.best_estimator_.predict(X.iloc[holdout_rows]), 1.0)
        expected_difference = (folded(mean - y[holdout_rows - 7], 1.0) - model_losses).mean()
        n_missed += not row.proven[0] <= expected_difference <= row.proven[1]
    assert n_missed == 0


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("neg_mean_absolute_error", {}),
        ("neg_mean_squared_error", {}),
        ("neg_mean_pinball_loss", {"alpha": 0.9}),
        ("neg_mean_pinball_loss", {"alpha": 0.2}),
    ],
)
def test_no_outcome_makes_a_difference_beyond_its_range(name, options):
    """Theory G31: 200,000 targets for each distance of two forecasts; the range is attained."""
    rng = np.random.default_rng(0)
    metric = get_metric(name, bounds=(0.0, 1.0), **options)
    first_forecast, second_forecast = np.repeat(rng.uniform(-1.0, 2.0, size=(2, 100)), 2000, axis=1)
    scores = [
        metric.evaluate(Given(forecast), np.zeros((200_000, 1)), y).per_record
        for y in [np.tile(np.linspace(-2.0, 3.0, 2000), 100)]
        for forecast in (first_forecast, second_forecast)
    ]
    score_differences = (scores[1] - scores[0]).reshape(100, 2000)
    lower_limits, upper_limits = (
        limits[::2000] for limits in metric.difference_limits(first_forecast, second_forecast)
    )
    assert (score_differences >= lower_limits[:, None] - 1e-9).all()
    assert (score_differences <= upper_limits[:, None] + 1e-9).all()
    is_near = np.abs(first_forecast - second_forecast)[::2000] < 0.5
    np.testing.assert_allclose(
        score_differences.max(axis=1)[is_near], upper_limits[is_near], atol=0.01
    )
    np.testing.assert_allclose(
        score_differences.min(axis=1)[is_near], lower_limits[is_near], atol=0.01
    )


class Given(Ridge):
    """Model that predicts the values passed to its constructor."""

    def __init__(self, values=None):
        self.values = values

    def predict(self, X):
        return self.values

    def __sklearn_is_fitted__(self):
        return True


@pytest.mark.parametrize("scoring", ["neg_mean_squared_error", "neg_mean_pinball_loss"])
def test_better_than_a_seasonal_forecast_is_proven_by_other_losses(scoring):
    X, y, _ = sales(1200)
    metric = get_metric(scoring, bounds=(11.0, 19.0))  # errors beyond 8 count as 8
    search = fit_search(X, y)
    (row,) = differences(search.final_report(scoring=metric, compare="seasonal-7"))
    assert row.proven[0] > 0.0


def test_models_and_arrays_of_forecasts_are_compared_without_a_declared_range():
    X, y, _ = sales()
    holdout = ReusableHoldout(X[1500:], y[1500:], correlation="time", random_state=0)
    models = {"a": Ridge().fit(X[:1500], y[:1500]), "b": Ridge(1e4).fit(X[:1500], y[:1500])}
    forecasts = y[1499:-1]
    report = holdout.final_report(
        models, compare=forecasts, scoring="neg_mean_absolute_error", training=(X[:1500], y[:1500])
    )
    rows = differences(report)
    assert len(rows) == 2
    assert all(row.proven is not None for row in rows)
    holdout_without_training = ReusableHoldout(
        X[1500:], y[1500:], correlation="time", random_state=0
    )
    (row,) = differences(
        holdout_without_training.final_report({"a": models["a"], "last": forecasts}, compare="last",
                         scoring="neg_mean_absolute_error")
    )  # fmt: skip
    assert row.proven is not None
    assert row.proven[1] - row.proven[0] < 0.6


def test_differences_of_classifiers_have_limits_from_possible_outcomes():
    X, y, _ = sales()
    labels = (y > np.roll(y, 1)).astype(int)
    weak_penalty_model, strong_penalty_model = (
        LogisticRegression(C=C).fit(X[:1500], labels[:1500]) for C in (1.0, 0.1)
    )
    for scoring in ("accuracy", "neg_brier_score"):
        holdout = ReusableHoldout(X[1500:], labels[1500:], correlation="time", random_state=0)
        report = holdout.final_report(
            {"a": weak_penalty_model, "b": strong_penalty_model}, compare=True, scoring=scoring,
            training=(X[:1500], labels[:1500]),
        )  # fmt: skip
        (row,) = differences(report)
        widest_single = max(row.proven[1] - row.proven[0] for row in report.rows[:2])
        assert row.proven[1] - row.proven[0] < widest_single


@pytest.mark.parametrize("scoring", ["accuracy", "neg_brier_score"])
def test_differences_over_dates_count_the_classes_of_both_models(scoring):
    X, y, _ = sales()
    labels = np.digitize(y, np.quantile(y, [0.3, 0.7]))
    is_known = labels[:1500] < 2
    poor_model, model = (DecisionTreeClassifier(max_depth=3, random_state=0) for _ in range(2))
    poor_model.fit(X[:1500][is_known], labels[:1500][is_known])
    model.fit(X[:1500], labels[:1500])
    rows = []
    for models in ({"a": poor_model, "b": model}, {"b": model, "a": poor_model}):
        holdout = ReusableHoldout(X[1500:], labels[1500:], correlation="time", random_state=0)
        rows += differences(holdout.final_report(models, compare="a", scoring=scoring))
    assert rows[0].proven == rows[1].proven


def test_a_recipe_is_refitted_on_all_earlier_records():
    X, y, _ = sales()
    report_by_count = fit_search(X, y).final_report(refit_every=30)
    report_by_span = fit_search(X, y).final_report(refit_every=pd.Timedelta("30D"))
    assert report_by_count.rows[0].model.endswith("refitted every 30 days")
    assert "the recipe, refitted every 30 days" in str(report_by_count)
    assert report_by_count.value == pytest.approx(report_by_span.value)
    search = fit_search(X, y)
    holdout_rows = search.holdout_indices_
    recipe = search.best_estimator_
    predictions = []
    for start in range(0, len(holdout_rows), 30):
        block = holdout_rows[start : start + 30]
        fitted = Ridge(**recipe.get_params()).fit(X[: block[0]], y[: block[0]])
        predictions.append(fitted.predict(X.iloc[block]))
    errors = np.abs(y[holdout_rows] - np.concatenate(predictions))
    errors = np.minimum(errors, largest_error(report_by_count))
    assert report_by_count.value == pytest.approx(-errors.mean(), rel=1e-4)
    first_report = search.final_report(refit_every=30)
    assert search.final_report(refit_every=30) == first_report
    with pytest.raises(HoldoutClosedError):
        search.final_report()


def test_invalid_reports_are_rejected_while_the_holdout_is_open():
    X, y, _ = sales(600)
    search = fit_search(X, y)
    invalid_arguments = (
        {"compare": "seasonal-900"},
        {"refit_every": 0},
        {"refit_every": pd.Timedelta("-1D")},
    )
    for arguments in invalid_arguments:
        with refused(ValueError, *arguments):
            search.final_report(**arguments)
    assert search.final_report(compare="naive").rows


def test_refits_and_simple_forecasts_need_time():
    X, y, _ = sales(600)
    chain = ReusableHoldoutSearchCV(
        Ridge(), {}, scoring="neg_mean_absolute_error", random_state=0,
        correlation=MarkovChain.from_autocorrelation_time(2.0),
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        chain.fit(X, y)
    with refused(ValueError, "correlation='time'"):
        chain.final_report(refit_every=30)
    with refused(ValueError, "correlation='time'"):
        chain.final_report(compare="naive")
    assert chain.final_report().rows


def test_a_model_that_uses_later_rows_is_rejected_while_the_holdout_is_open():
    X, y, _ = sales(600)
    labels = (y > 15).astype(int)
    train = X[:400], labels[:400]
    holdout = ReusableHoldout(X[400:], labels[400:], correlation="time", random_state=0)
    centering_model = make_pipeline(
        FunctionTransformer(lambda A: A - A.mean()), LogisticRegression()
    )
    with refused(ValueError, "dates"):
        holdout.final_report(centering_model.fit(*train), training=train)
    rows = holdout.final_report(
        LogisticRegression().fit(*train), compare="naive", training=train
    ).rows
    assert [row.metric for row in rows] == ["accuracy"] * 3


NUMBERS = (
    "neg_mean_absolute_error",
    "r2",
    "neg_root_mean_squared_error",
    "neg_mean_absolute_percentage_error",
    "neg_mean_pinball_loss_0.9",
)


@pytest.mark.parametrize("horizon", [1, 7])
def test_every_metric_of_numbers_has_an_interval_for_these_dates(horizon):
    X, y, _ = sales(1520, horizon=horizon)
    rows = fit_search(X, y, horizon=horizon).final_report(scoring=list(NUMBERS)).rows
    assert len(rows) == len(NUMBERS) * (1 if horizon == 1 else 2)
    lower, value, upper = np.transpose(
        [(row.approximate[0], row.value, row.approximate[1]) for row in rows]
    )
    assert (lower < value).all()
    assert (value < upper).all()
    targets = {row.target[:14] for row in rows}
    assert targets == {"these 375 days"}
    assert len({row.target for row in rows}) == (1 if horizon == 1 else 2)


def test_every_metric_of_classes_has_an_interval_for_these_dates():
    X, y, _ = sales(620)
    labels = (y + np.random.default_rng(0).normal(size=len(y)) > 15).astype(int)
    search = ReusableHoldoutSearchCV(
        LogisticRegression(), {}, correlation="time", random_state=0, cv=3
    ).fit(X, labels)
    scorings = ["accuracy", "roc_auc", "f1", "balanced_accuracy", "neg_brier_score", "precision"]
    report = search.final_report(scoring=scorings)
    for row in report.rows:
        assert row.approximate[0] < row.value < row.approximate[1]
        assert row.target.startswith("these 150 days")
    assert report.rows[0].proven is not None


def test_the_median_error_has_an_interval_and_the_largest_none():
    X, y, _ = sales(620)
    scorings = ["neg_median_absolute_error", "neg_max_error"]
    median, largest = fit_search(X, y).final_report(scoring=scorings).rows
    assert median.approximate[0] < median.value < median.approximate[1]
    assert largest.approximate is None
    assert largest.value < median.value


def test_approximate_rows_are_about_unclipped_errors():
    """Theory G31: the proven interval is about clipped errors, and the row counts the others."""
    X, y, _ = sales(620)
    search = fit_search(X, y)
    metric = get_metric("neg_mean_absolute_error", bounds=(0.0, 1.0))  # errors count as 1 at most
    row = search.final_report(scoring=metric).rows[0]
    holdout_rows = search.holdout_indices_
    errors = np.abs(y[holdout_rows] - search.best_estimator_.predict(X.iloc[holdout_rows]))
    assert row.value == pytest.approx(-np.minimum(errors, 1.0).mean())
    assert row.proven[0] < row.value < row.proven[1]
    assert row.approximate[0] < -errors.mean() < row.approximate[1]
    assert any(f"{np.count_nonzero(errors > 1.0)} of 150" in note for note in row.notes)


def test_r2_is_about_the_training_mean():
    X, y, _ = sales(620)
    search = fit_search(X, y)
    row = search.final_report(scoring="r2").rows[0]
    holdout_rows = search.holdout_indices_
    residual_squares = (y[holdout_rows] - search.best_estimator_.predict(X.iloc[holdout_rows])) ** 2
    total_squares = (y[holdout_rows] - y[: holdout_rows[0]].mean()) ** 2
    assert row.value == pytest.approx(1.0 - residual_squares.sum() / total_squares.sum())
    assert any("training" in note for note in row.notes)
    holdout = ReusableHoldout(X[400:], y[400:], correlation="time", random_state=0)
    with refused(ValueError, "scoring='r2'", "training=(X_train, y_train)"):
        holdout.final_report(search.best_estimator_, scoring="r2")


def test_scores_are_drawn_over_time():
    pytest.importorskip("matplotlib").use("agg")
    X, y, _ = sales(600)
    report = fit_search(X, y).final_report()
    ax = report.plot(over="time")
    assert len(ax.lines[0].get_xdata()) == 145
    assert "2013-0" in ax.get_xlabel()  # the year
    unpickled = pickle.loads(pickle.dumps(report))
    with refused(ValueError, "over='time'"):
        unpickled.plot(over="time")
    assert unpickled == report


@pytest.mark.parametrize("height", [3.2, 4.8])
def test_two_models_are_drawn_over_time_and_no_label_is_cut(height):
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("agg")
    X, y, _ = sales(600)
    report = fit_search(X, y).final_report(compare="naive")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ax = plt.subplots(figsize=(7.0, height), layout="constrained")[1]
        report.plot(over="time", ax=ax)
        ax.figure.canvas.draw()
    labels = ax.get_legend_handles_labels()[1]
    assert len(labels) == 4
    assert any(label.startswith("naive") for label in labels)
    texts = (ax.xaxis.label, ax.yaxis.label, *ax.get_xticklabels(), *ax.get_legend().texts)
    corners = np.array([text.get_window_extent().get_points() for text in texts])
    lower_corner, upper_corner = ax.figure.get_window_extent().get_points()
    assert (corners >= lower_corner).all()
    assert (corners <= upper_corner).all()
    years = [text.get_text() for text in ax.get_xticklabels()]
    assert any(year in " ".join([*years, ax.get_xlabel()]) for year in ("2013", "2014"))
    plt.close("all")


def test_panels_are_reported_by_dates():
    """50 shops with common shocks: the variance of the means of dates sets the width."""
    rng = np.random.default_rng(0)
    dates = 300
    shops = 50
    X = rng.normal(size=(dates, shops, 2))
    accuracy_by_date = np.clip(0.75 + 0.08 * rng.normal(size=dates), 0, 1)[:, None]
    is_correct = rng.random((dates, shops)) < accuracy_by_date
    labels = np.where(is_correct, X[..., 0] > 0, X[..., 0] <= 0).astype(int)
    day = np.repeat(np.arange(dates), shops)
    order = rng.permutation(dates * shops)
    intervals = []
    for rows in (slice(None), order):
        search = ReusableHoldoutSearchCV(
            LogisticRegression(), {"C": [0.1, 1.0]}, correlation="time", random_state=0
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            search.fit(X.reshape(-1, 2)[rows], labels.ravel()[rows], times=day[rows])
        intervals.append(search.final_report().interval)
    assert intervals[0] == pytest.approx(intervals[1], abs=0.01)
    assert 0.5 * (intervals[0][1] - intervals[0][0]) < 0.06  # 75 dates
    assert intervals[0][0] < accuracy_by_date[225:].mean() < intervals[0][1]


class Counts(Ridge):
    """Counts its predictions."""

    asked = 0

    def predict(self, X):
        self.asked += 1
        return super().predict(X)


def test_a_rejected_report_leaves_nothing_to_the_next_one():
    X, y, _ = sales(600)
    training = (X[:400], y[:400])
    model = Ridge().fit(X[:400], y[:400])
    loss = get_metric("neg_mean_absolute_error", y=y[:400])
    reports = []
    for has_rejected_call in (False, True):
        holdout = ReusableHoldout(X[400:], y[400:], correlation="time", random_state=0)
        if has_rejected_call:
            with refused(ValueError, "scoring='nope'"):
                holdout.final_report(model, scoring="nope", training=(X[:400], y[:400] + 9.0))
        report_arguments = {"scoring": loss, "compare": "naive", "training": training}
        reports.append(holdout.final_report(model, **report_arguments))
    assert reports[0].rows == reports[1].rows


def test_a_model_that_counts_its_calls_gets_its_report_again():
    X, y, _ = sales(600)
    model = Counts().fit(X[:400], y[:400])
    holdout = ReusableHoldout(X[400:], y[400:], correlation="time", random_state=0)
    report_arguments = {"scoring": get_metric("neg_mean_absolute_error", y=y[:400])}
    report_arguments["training"] = (X[:400], y[:400])
    report = holdout.final_report(model, **report_arguments)
    assert holdout.final_report(model, **report_arguments).rows == report.rows


# -- clips of errors without a declared range (theory G31) ----------------------------------------


def out_of_fold_clip(search, X, y, alpha):
    """Return 1.5 times the .99 quantile of out-of-fold absolute errors of a ridge regression."""
    errors = []
    train = search.train_indices_
    X_train = X.iloc[train]
    y_train = y[train]
    for fit, test in search.holdout_.context.cv_data.folds:
        model = Ridge(alpha=alpha).fit(X_train.iloc[fit], y_train[fit])
        errors.append(np.abs(y_train[test] - model.predict(X_train.iloc[test])))
    return 1.5 * np.quantile(np.concatenate(errors), 0.99)


def test_errors_are_clipped_by_out_of_fold_errors_of_the_leading_candidate():
    """Interim answers and the report share a clip, and a second search keeps it."""
    X, y, _ = sales(620)
    search = fit_search(X, y)
    leader = search.cv_results_["params"][int(np.argmax(search.cv_results_["cv_score"]))]["alpha"]
    clip = out_of_fold_clip(search, X, y, leader)
    second_search = ReusableHoldoutSearchCV(
        Ridge(), {"alpha": [1e4]}, scoring="neg_mean_absolute_error", holdout=search.holdout_
    ).fit(X.iloc[search.train_indices_], y[search.train_indices_])
    stated = f"clipped at errors of {clip:.4g}"
    assert stated in str(search.certificate_)
    assert stated in str(second_search.certificate_)
    report = search.final_report()
    assert largest_error(report) == pytest.approx(clip, rel=1e-3)
    assert search.final_report() == report


def clip_of_answers(holdout):
    """Return the error at which all recorded answers clip."""
    clips = {
        float(re.search(r"clipped at errors of ([\d.]+)", record.metric)[1])
        for record in holdout.history()
    }
    assert len(clips) == 1
    return clips.pop()


def search_errors(X, y, scoring, **options):
    search = ReusableHoldoutSearchCV(
        Ridge(), {"alpha": [0.1, 10.0]}, scoring=scoring, correlation="time", cv=3,
        random_state=0, **options,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return search.fit(X, y)


def test_a_resumed_search_clips_as_one_that_was_not_interrupted(tmp_path, monkeypatch):
    """Scores of records are lost in a restart: the leading candidate is cross-validated again."""
    X, y, _ = sales(620)
    clip = clip_of_answers(search_errors(X, y, "neg_mean_absolute_error").holdout_)
    original_fit = Ridge.fit
    sizes = []

    def fit(self, X, y):
        sizes.append(len(y))
        if len(sizes) == 8:  # six folds and one model of all training records
            raise KeyboardInterrupt
        return original_fit(self, X, y)

    config = HoldoutConfig(ledger=tmp_path / "sales.sqlite")
    with monkeypatch.context() as patch:
        patch.setattr(Ridge, "fit", fit)
        with pytest.raises(KeyboardInterrupt):
            search_errors(X, y, "neg_mean_absolute_error", holdout=config)
    resumed_search = search_errors(X, y, "neg_mean_absolute_error", holdout=config)
    assert len(resumed_search.holdout_.history()) == 2
    assert clip_of_answers(resumed_search.holdout_) == pytest.approx(clip, rel=1e-3)


def test_pinball_losses_are_clipped_by_out_of_fold_errors_too():
    X, y, _ = sales(620)
    scoring = get_metric("neg_mean_pinball_loss", y=y[:450], alpha=0.5)
    search = search_errors(X, y, scoring)
    clip = out_of_fold_clip(search, X, y, search.best_params_["alpha"])
    assert clip_of_answers(search.holdout_) == pytest.approx(clip, rel=1e-3)
    held = search.holdout_indices_
    errors = np.abs(y[held] - search.best_estimator_.predict(X.iloc[held]))
    report = search.final_report()
    assert largest_error(report) == pytest.approx(clip, rel=1e-3)
    assert report.rows[0].value == pytest.approx(-0.5 * np.minimum(errors, clip).mean(), rel=1e-3)


def test_errors_beside_a_metric_without_a_range_are_clipped():
    X, y, _ = sales(620)
    search = search_errors(X, y, {"r2": "r2", "mae": "neg_mean_absolute_error"}, refit="r2")
    clip = out_of_fold_clip(search, X, y, search.best_params_["alpha"])
    stated = {record.metric for record in search.holdout_.history()}
    assert f"neg_mean_absolute_error (clipped at errors of {clip:.4g})" in stated


def test_queries_without_a_search_follow_the_same_rule():
    """Two routes: errors of five folds computed here, and the clip of each kind of query."""
    X, y, _ = sales(620)
    train = X.iloc[:450], y[:450]
    model = Ridge().fit(*train)
    out_of_fold = y[:450] - cross_val_predict(Ridge(), *train, cv=5)
    expected_clip = pytest.approx(1.5 * np.quantile(np.abs(out_of_fold), 0.99), rel=1e-3)
    options = {"scoring": "neg_mean_absolute_error", "training": train}

    def make_holdout():
        return ReusableHoldout(X.iloc[450:], y[450:], correlation="time", random_state=0)

    scored = make_holdout()
    answer = scored.score(model, -0.8, **options)
    assert answer.lower < answer.value < answer.upper
    assert clip_of_answers(scored) == expected_clip
    by_scorer = make_holdout()
    HoldoutScorer(by_scorer, "neg_mean_absolute_error")(model, *train)
    assert clip_of_answers(by_scorer) == expected_clip
    by_scorer.score(DummyRegressor().fit(*train), -2.0, **options)  # not by its own errors
    assert clip_of_answers(by_scorer) == expected_clip
    assert largest_error(by_scorer.final_report(model, **options)) == expected_clip


def test_a_scorer_in_cross_validation_clips_by_the_fold_that_tests():
    X, y, _ = sales(620)
    train = X.iloc[:450], y[:450]
    holdout = ReusableHoldout(X.iloc[450:], y[450:], correlation="time", random_state=0)
    splitter = TimeSeriesSplit(3)
    scorer = HoldoutScorer(holdout, "neg_mean_absolute_error")
    cross_val_score(Ridge(), *train, scoring=scorer, cv=splitter)
    fit, test = next(splitter.split(train[0]))
    model = Ridge().fit(train[0].iloc[fit], train[1][fit])
    errors = np.abs(train[1][test] - model.predict(train[0].iloc[test]))
    assert clip_of_answers(holdout) == pytest.approx(1.5 * np.quantile(errors, 0.99), rel=1e-3)


def test_a_report_states_its_clip_and_the_width_of_a_declared_range():
    X, y, _ = sales(620)
    row = fit_search(X, y).final_report().rows[0]
    notes = " ".join(row.notes)
    assert "out-of-fold training errors are beyond the clip" in notes
    width = float(re.search(r"would be ±([\d.]*\d)", notes)[1])
    assert width > 0.5 * (row.proven[1] - row.proven[0])


def test_a_difference_of_absolute_errors_needs_no_clip():
    X, y, _ = sales(620)
    search = fit_search(X, y)
    pair = differences(search.final_report(compare="seasonal-7"))[0]
    holdout_rows = search.holdout_indices_
    errors = np.abs(y[holdout_rows] - search.best_estimator_.predict(X.iloc[holdout_rows]))
    assert pair.value == pytest.approx(
        (np.abs(y[holdout_rows] - y[holdout_rows - 7]) - errors).mean()
    )
    assert not pair.notes


def test_holdout_errors_beyond_the_clip_are_counted():
    X, y, _ = sales(620)
    y_with_outliers = y.copy()
    y_with_outliers[-30:-15] += 5.0
    search = fit_search(X, y_with_outliers)
    row = search.final_report().rows[0]
    holdout_rows = search.holdout_indices_
    errors = np.abs(
        y_with_outliers[holdout_rows] - search.best_estimator_.predict(X.iloc[holdout_rows])
    )
    clip = float(re.search(r"clipped at errors of ([\d.]+)", row.metric)[1])
    n_beyond = np.count_nonzero(errors > clip)
    assert n_beyond >= 5
    assert any(note.startswith(f"{n_beyond} of 150 holdout errors") for note in row.notes)
    assert row.value == pytest.approx(-np.minimum(errors, clip).mean(), rel=1e-4)
    assert row.approximate[0] < -errors.mean() < row.approximate[1]


def test_a_report_without_a_search_takes_its_clip_from_the_training_records():
    X, y, _ = sales(620)
    train = X.iloc[:450], y[:450]
    holdout = ReusableHoldout(X.iloc[450:], y[450:], correlation="time", random_state=0)
    models = {"ridge": Ridge().fit(*train), "mean": DummyRegressor().fit(*train)}
    for scoring in ("neg_mean_squared_error", "neg_mean_pinball_loss"):
        metric = get_metric(scoring, y=train[1])
        report = ReusableHoldout(
            X.iloc[450:], y[450:], correlation="time", random_state=0
        ).final_report(models, scoring=metric, training=train, compare="mean")
        clip = largest_error(report)
        assert clip < np.ptp(train[1])
        (pair,) = differences(report)
        assert pair.proven[0] < pair.value < pair.proven[1]
    report = holdout.final_report(
        {"forecast": y[449:-1]}, scoring="neg_mean_absolute_error", training=train
    )
    assert largest_error(report) == pytest.approx(np.ptp(train[1]), rel=1e-3)  # nothing to refit


def test_history_has_the_range_of_unclipped_differences():
    """A difference beyond 1 once ended at 1 in the history."""
    X, y, _ = sales(620)
    search = fit_search(10.0 * X, 10.0 * y)
    (row,) = differences(search.final_report(compare="seasonal-7"))
    answers = search.holdout_.history()
    last = answers[-1] if not hasattr(answers, "to_frame") else list(answers)[-1]
    assert row.proven[0] > 1.0
    assert last.in_units().lower == pytest.approx(row.proven[0])
    assert last.in_units().upper == pytest.approx(row.proven[1])


@pytest.mark.parametrize("unit", [1e-4, 1e4])
def test_a_difference_without_a_range_does_not_depend_on_the_unit_of_the_target(unit):
    """Stakes once had a least variance in units of the target."""
    X, y, _ = sales(620)
    unscaled_row = differences(fit_search(X, y).final_report(compare="seasonal-7"))[0]
    search = ReusableHoldoutSearchCV(
        Ridge(), {"alpha": [0.1 * unit**2, 10.0 * unit**2]}, scoring="neg_mean_absolute_error",
        correlation="time", random_state=0, cv=3,
    ).fit(unit * X, unit * y)  # fmt: skip
    scaled_row = differences(search.final_report(compare="seasonal-7"))[0]
    np.testing.assert_allclose(scaled_row.proven, unit * np.array(unscaled_row.proven), rtol=1e-6)


def test_every_row_in_time_comes_from_one_function():
    """Panels, subgroups, skill scores and a refitted recipe: approximate rows as `date_row`."""
    rng = np.random.default_rng(0)
    dates = np.repeat(np.arange(300), 3)
    X = np.column_stack([rng.normal(size=900), rng.integers(2, size=900)])
    y = X[:, 0] + 0.3 * X[:, 1] + 0.5 * rng.normal(size=900)
    search = ReusableHoldoutSearchCV(
        Ridge(), {"alpha": [1.0]}, scoring="neg_mean_absolute_error", correlation="time",
        random_state=0, cv=3,
    ).fit(X, y, times=dates)  # fmt: skip
    holdout_rows = search.holdout_indices_
    units = dates[holdout_rows] - dates[holdout_rows].min()
    baseline = np.full(len(holdout_rows), y[search.train_indices_].mean())
    report = search.final_report(compare=baseline, by={"kind": X[holdout_rows, 1].astype(int)})
    predictions = search.best_estimator_.predict(X[holdout_rows])
    in_second = X[holdout_rows, 1] == 1
    statistic = statistic_of("neg_mean_absolute_error")
    losses = np.abs(y[holdout_rows] - np.vstack([baseline, predictions]))
    name = report.rows[0].model
    expected = {
        (name, ""): (statistic, y[holdout_rows], [(predictions, None)]),
        (name, "kind=1"): (statistic, y[holdout_rows], [(predictions, in_second)]),
        (f"{name} minus baseline", ""): (
            statistic, y[holdout_rows], [(predictions, None), (baseline, None)],
        ),
        (f"{name} against baseline", ""): (SKILL, np.zeros(len(holdout_rows)), [(losses, None)]),
    }  # fmt: skip
    rows = {(row.model, row.subgroup): row for row in report.rows}
    for key, arguments in expected.items():
        expected_row = date_row(*arguments, dates=units, alpha=report.alpha_approximate)
        np.testing.assert_allclose(rows[key].approximate, (expected_row.lower, expected_row.upper))


def test_a_refitted_recipe_has_the_row_of_its_predictions():
    X, y, _ = sales(620)
    search = fit_search(X, y)
    holdout_rows = search.holdout_indices_
    report = search.final_report(refit_every=50)
    predictions = []
    for start in range(0, len(holdout_rows), 50):
        block = holdout_rows[start : start + 50]
        fitted = Ridge(**search.best_params_).fit(X[: block[0]], y[: block[0]])
        predictions.append(fitted.predict(X.iloc[block]))
    expected_row = date_row(
        statistic_of("neg_mean_absolute_error"),
        y[holdout_rows],
        [(np.concatenate(predictions), None)],
        dates=np.arange(len(holdout_rows)),
        alpha=report.alpha_approximate,
    )
    np.testing.assert_allclose(report.rows[0].approximate, (expected_row.lower, expected_row.upper))


def expected_clipped_loss(mean, predictions, clip):
    """Return the mean expected clipped error over days whose targets are normal with variance 1."""
    noise = norm.ppf((np.arange(2000) + 0.5) / 2000)
    errors = np.abs((mean - predictions)[:, np.newaxis] + noise)
    return float(np.minimum(errors, clip).mean())


@pytest.mark.parametrize(
    "seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(4, 60))]
)
def test_intervals_hold_for_clipped_errors_of_the_period(seed):
    """Interim interval of the selected candidate and report, by the known law of each day."""
    X, y, level = sales(620, seed)
    search = fit_search(X, y)
    holdout_rows = search.holdout_indices_
    mean = (
        y[holdout_rows] - level[holdout_rows] + PHI * level[holdout_rows - 1]
    )  # known the day before
    predictions = search.best_estimator_.predict(X.iloc[holdout_rows])
    lower, upper = search.best_interval_
    report = search.final_report()
    truth = -expected_clipped_loss(mean, predictions, largest_error(report))
    assert lower <= truth <= upper
    assert report.lower <= truth <= report.upper


@pytest.mark.parametrize("step", ["date", "time step"])
def test_methods_about_dates_without_a_unit_of_time_assume_no_independence(step):
    """G26: dates without a unit of time are judged given their past like all others."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 2))
    y = (X[:, 0] + rng.normal(size=600) > 0.0).astype(int)
    model = LogisticRegression().fit(X[:300], y[:300])
    dates = TimeOrdered(step=step, horizon=3)
    report = ReusableHoldout(X[300:], y[300:], correlation=dates).final_report(model)
    methods = report.methods()
    assert f"on a holdout of 300 {step}s" in methods
    assert f"assumes nothing about drift or dependence between {step}s" in methods
    assert "one population" not in methods
    assert "For estimand (2), Hölder's inequality joins 3 interleaved series" in methods


@pytest.mark.parametrize(
    ("scoring", "is_corrected"), [(["roc_auc", "f1"], False), (["roc_auc", "neg_log_loss"], True)]
)
def test_methods_name_a_skewness_correction_only_where_it_was_made(scoring, is_corrected):
    """On the logit scale, intervals over dates are not corrected for skewness."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 2))
    y = (X[:, 0] + rng.normal(size=600) > 0).astype(int)
    model = LogisticRegression().fit(X[:300], y[:300])
    holdout = ReusableHoldout(X[300:], y[300:], correlation="time", random_state=0)
    report = holdout.final_report(model, scoring=scoring, training=(X[:300], y[:300]))
    assert ("skewness correction" in report.methods()) == is_corrected
