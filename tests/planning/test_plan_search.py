"""Planning a year of searches: forecasts are near the widths of a holdout."""

import math

import numpy as np
import pytest
from scipy import sparse
from scipy.stats import norm
from sklearn.linear_model import LogisticRegression

from benchmarks import planned_sizes
from sklearn_bdp import ReusableHoldout, ReusableHoldoutSearchCV
from sklearn_bdp.correlation import Groups, MarkovChain, MarkovNetwork
from sklearn_bdp.intervals.auc import binormal_moments, placements
from sklearn_bdp.metrics import available_metrics, get_metric
from sklearn_bdp.metrics.registry import planned_metric
from sklearn_bdp.planning import expected_half_width, plan_holdout, plan_search
from sklearn_bdp.planning._plan_search import expected_nats
from tests.facts import refused

P1 = [[0.9, 0.1], [0.2, 0.8]]


class Constant:
    """Predicts 1: its score is the share of ones."""

    def fit(self, X, y):
        return self

    def predict(self, X):
        return np.ones(len(X))


class FirstColumn:
    """Ranks records by their first column."""

    classes_ = np.array([0, 1])

    def fit(self, X, y):
        return self

    def decision_function(self, X):
        return X[:, 0]


def played(n, correlation, bias, searches=4, m=20, score=0.9):
    """Return the half-widths of the last search and of the final report of a real holdout."""
    hits = (np.arange(n) < score * n).astype(float)
    holdout = ReusableHoldout(np.zeros((n, 1)), hits, correlation=correlation, random_state=0)
    for _ in range(searches):
        answers = holdout.answer(np.full(m, score + bias), np.tile(hits, (m, 1)))
    report = holdout.final_report(Constant(), score, scoring="accuracy")
    return (answers.upper - answers.lower).min() / 2, (report.upper - report.lower) / 2


@pytest.mark.parametrize("correlation", [None, P1])
@pytest.mark.parametrize("bias", [0.0, 0.09])
def test_forecast_half_widths_are_those_of_simulated_searches(correlation, bias):
    n = 2000
    year = {
        "n_candidates": 20,
        "n_searches": 4,
        "score": 0.9,
        "n_corrections": int(bias > 0.0),
        "correlation": correlation,
    }
    last, report = played(n, correlation, bias)
    assert expected_half_width(n, **year) == pytest.approx(report, rel=0.2)
    if bias == 0.0:
        assert expected_half_width(n, final=False, **year) == pytest.approx(last, rel=0.2)


def test_the_plan_meets_the_goal_and_hardly_less_would():
    year = {"n_candidates": 50, "n_searches": 5, "score": 0.8, "n_corrections": 2}
    n = plan_search(0.06, **year)
    assert expected_half_width(int(n), **year) <= 0.06
    assert expected_half_width(int(0.98 * n), **year) > 0.06


def test_more_queries_more_dependence_and_middling_scores_need_more_records():
    base = plan_search(0.08)
    assert plan_search(0.08, n_searches=50) > base
    assert plan_search(0.08, n_corrections=10) > base
    assert plan_search(0.08, score=0.5) > base
    assert plan_search(0.08, correlation=MarkovChain(P1)) > 3 * base
    assert plan_search(0.08, correlation=Groups(np.arange(100) // 5)) > 3 * base
    assert plan_search(0.08, final=False) > 2 * base
    assert base < plan_holdout(tau=0.08, n_queries=1000, budget=3) / 10


def test_scores_by_class_need_events_and_the_plan_counts_them():
    even = plan_search(0.08, scoring="roc_auc", score=0.8)
    rare = plan_search(0.08, scoring="roc_auc", score=0.8, prevalence=0.1)
    assert rare > 2 * even  # bets need fewer events than pairs
    assert "prevalence=0.5 is assumed" in str(even)
    assert f"{math.ceil(rare / 10):,} of them events" in str(rare)
    recall = plan_search(0.08, scoring="recall", prevalence=0.1)
    assert recall > 8 * plan_search(0.08)
    assert recall == pytest.approx(
        plan_search(0.08, scoring="specificity", prevalence=0.9), rel=0.01
    )


@pytest.mark.parametrize(
    ("setting", "holdouts"),
    [
        (("roc_auc", 0.8, 0.1, 0.1), 15),
        (("neg_brier_score", 0.85, 0.5, 0.03), 60),
        (("neg_mean_absolute_error", 0.9, 0.5, 0.02), 30),
        (("recall", 0.8, 0.1, 0.1), 100),
    ],
)
def test_planned_numbers_are_near_those_that_reports_need(setting, holdouts):
    """Half-widths vary from holdout to holdout, and needs are medians."""
    planned, reached, needed = planned_sizes.compare(*setting, holdouts=holdouts)
    assert 1.0 <= planned / needed <= 1.3
    assert reached > 0.5


@pytest.mark.slow
@pytest.mark.parametrize("setting", planned_sizes.SETTINGS)
def test_planned_numbers_are_near_those_that_reports_need_in_all_settings(setting):
    holdouts = 60 if setting[0] == "roc_auc" else 300
    planned, reached, needed = planned_sizes.compare(*setting, holdouts=holdouts)
    assert 1.0 <= planned / needed <= 1.3
    assert reached > 0.5


@pytest.mark.parametrize(
    ("name", "score", "prevalence"),
    [
        ("neg_brier_score", 0.9, 0.5),
        ("neg_log_loss", 0.95, 0.1),
        ("neg_mean_absolute_error", 0.9, 0.5),
        ("neg_mean_squared_error", 0.97, 0.5),
        ("neg_mean_pinball_loss", 0.95, 0.5),
    ],
)
def test_planned_scores_have_the_wanted_mean_and_are_those_of_a_simulation(name, score, prevalence):
    planned = planned_metric(name).planned_scores(score, prevalence)
    rng = np.random.default_rng(0)
    n = 200_000
    if name in ("neg_brier_score", "neg_log_loss"):
        distance = planned_sizes.distance_of(name, score, prevalence)
        y, scores = planned_sizes.draw_classes(n, prevalence, distance, rng)
        losses = planned_sizes.unit_losses(name, y, scores, prevalence, distance)
    else:
        losses = planned_sizes.error_losses(name, score, n, rng)
    assert planned.assumption
    assert np.all(np.diff(planned.quantiles) >= 0.0)
    assert planned.quantiles.mean() == pytest.approx(score, abs=2e-3)
    assert planned.quantiles.std() == pytest.approx(losses.std(), rel=0.03)


@pytest.mark.parametrize("score", [0.0, 0.3, 0.75, 0.755, 1.0])
def test_scores_that_no_calibrated_model_has_are_planned_as_proportions(score):
    """Chance has a Brier score of 0.75 in units of [0, 1] at a prevalence of 1/2."""
    planned = planned_metric("neg_brier_score").planned_scores(score, 0.5)
    assert planned.assumption == ""
    assert set(planned.quantiles) <= {0.0, 1.0}
    assert planned.quantiles.mean() == pytest.approx(score, abs=1e-3)


@pytest.mark.parametrize(("name", "score"), [("neg_brier_score", 0.9), ("neg_log_loss", 0.9)])
def test_forecast_interim_half_widths_of_losses_are_those_of_searches(name, score):
    n = 1000
    quantiles = planned_metric(name).planned_scores(score, 0.5).quantiles
    record_scores = np.random.default_rng(0).choice(quantiles, n)
    holdout = ReusableHoldout(np.zeros((n, 1)), np.arange(n) % 2, random_state=0)
    for _ in range(4):
        answers = holdout.answer(
            np.full(20, score),
            np.tile(record_scores, (20, 1)),
            n_train=3 * n,
            training_variance=quantiles.var(),
        )
    delivered = (answers.upper - answers.lower).min() / 2
    year = {"n_candidates": 20, "n_searches": 4, "score": score, "n_corrections": 0}
    forecast = expected_half_width(n, final=False, scoring=name, **year)
    assert forecast == pytest.approx(delivered, rel=0.1)


@pytest.mark.parametrize("prevalence", [0.1, 0.5])
def test_a_preview_of_auc_forecasts_the_report_by_its_bets(prevalence):
    n = 1500
    rng = np.random.default_rng(0)
    distance = planned_sizes.distance_of("roc_auc", 0.8, prevalence)
    y, scores = planned_sizes.draw_classes(n, prevalence, distance, rng)
    holdout = ReusableHoldout(scores[:, None], y, random_state=0)
    preview = holdout.preview(score=0.8, scoring="roc_auc", prevalence=prevalence)
    report = holdout.final_report(FirstColumn(), 0.8, scoring="roc_auc")
    half_width = 0.5 * (report.upper - report.lower)
    assert preview.half_width_final == pytest.approx(half_width, rel=0.15)
    assert preview.half_width_final < preview.half_width


def test_binormal_moments_are_those_of_simulated_placements():
    rng = np.random.default_rng(0)
    for auc in (0.6, 0.8, 0.95):
        positive, negative = rng.normal(size=(2, 4000))
        values = placements(positive + math.sqrt(2.0) * norm.ppf(auc), negative)
        moments = binormal_moments(auc)
        assert moments.center == auc
        assert moments.variance == pytest.approx(values.var(), rel=0.1)
        assert binormal_moments(1.0 - auc).variance == pytest.approx(moments.variance)


def test_a_plan_states_that_no_correction_is_expected():
    confirmed = plan_search(0.1)
    corrected = plan_search(0.1, n_corrections=1)
    assert corrected > 2 * confirmed
    assert "if the holdout confirms cross-validation" in str(confirmed)
    assert "confirms" not in str(corrected)


@pytest.mark.parametrize("m", [10, pytest.param(100, marks=pytest.mark.slow)])
def test_confirmed_searches_release_at_most_the_planned_information(m):
    n = 1000
    nats = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        is_hit = rng.random(4 * n) < 0.85
        holdout = ReusableHoldout(np.zeros((n, 1)), is_hit[:n].astype(int), random_state=seed)
        for _ in range(10):
            scores = is_hit ^ (rng.random((m, 4 * n)) < 0.03)
            answers = holdout.answer(
                scores[:, n:].mean(axis=1), scores[:, :n].astype(float), n_train=3 * n
            )
        if not answers.corrected.any():
            nats.append(holdout.information_spent)
    assert 0.5 * expected_nats(10, 0) < np.median(nats) < expected_nats(10, 0)


def test_a_plan_is_a_number_and_says_its_units():
    visits = Groups(np.arange(1000) // 4)
    plan = plan_search(0.1, correlation=visits)
    assert isinstance(plan, int)
    assert f"{int(plan):,} holdout records in {plan // 4:,} groups" in str(plan)
    assert f"about {4 * plan:,} in all" in str(plan)


@pytest.mark.parametrize(
    "bad",
    [
        {"half_width": 0.0},
        {"half_width": 0.5},
        {"half_width": math.nan},
        {"half_width": 0.1, "n_candidates": 0},
        {"half_width": 0.1, "n_searches": 1.5},
        {"half_width": 0.1, "score": 1.1},
        {"half_width": 0.1, "n_corrections": -1},
        {"half_width": 0.1, "beta": 1.0},
        {"half_width": 0.1, "scoring": "r2"},
        {"half_width": 0.1, "scoring": "roc_auc", "prevalence": 1.0},
    ],
)
def test_bad_input_raises(bad):
    with refused((ValueError, TypeError), list(bad)[-1]):
        plan_search(**bad)


def test_plans_for_groups_use_the_bound_of_the_holdout():
    """Not with Hoeffding's form at the effective number of records: twice as many for visits."""
    year = {"n_candidates": 30, "n_searches": 1}
    assert plan_search(0.1, correlation=Groups(np.arange(300)), **year) == plan_search(0.1, **year)
    visits = np.repeat(np.arange(200), np.tile([1, 2, 3, 4], 50))  # 500 records
    n = plan_search(0.1, correlation=Groups(visits), **year)
    n_multiple = -(-n // 500) * 500
    sizes = np.tile([1, 2, 3, 4], n_multiple // 10)
    groups = Groups(np.repeat(np.arange(n_multiple * 2 // 5), sizes))
    assert expected_half_width(n_multiple, correlation=groups, score=0.9, **year) <= 0.1
    too_few = Groups(np.repeat(np.arange(60), np.tile([1, 2, 3, 4], 15)))  # 150 records
    assert n > 150
    assert expected_half_width(150, correlation=too_few, score=0.9, **year) > 0.1


@pytest.mark.parametrize("influence", [0.1, 0.4, 1.0])
def test_planned_half_widths_for_networks_are_those_of_a_search(influence):
    """A search splits nodes and verifies given the others; the whole network is worth far less."""
    n = 900
    ring = np.arange(n)
    edges = sparse.csr_array((np.ones(2 * n), (np.r_[ring, ring], np.r_[ring + 1, ring + 7] % n)))
    network = MarkovNetwork(edges + edges.T, influence=influence)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    y = (X[:, 0] + rng.normal(size=n) > 0).astype(int)
    grid = {"C": np.logspace(-2, 1, 20)}
    search = ReusableHoldoutSearchCV(
        LogisticRegression(), grid, correlation=network, random_state=1
    ).fit(X, y)
    report = search.final_report()
    year = {
        "n_searches": 1, "n_candidates": 20, "score": search.best_score_, "n_corrections": 0,
    }  # fmt: skip
    planned = plan_search((report.upper - report.lower) / 2, correlation=network, **year)
    assert 2 / 3 <= planned / search.holdout_.n <= 3 / 2


@pytest.mark.parametrize("name", available_metrics())
def test_every_metric_can_be_planned_and_varies_as_planned(name):
    year = {"prevalence": 0.4, "n_candidates": 5, "n_searches": 2, "n_corrections": 1}
    plan = plan_search(0.1, scoring=name, **year)
    assert 0 < plan_search(0.2, scoring=name, **year) <= plan
    shape = get_metric(name, y=np.arange(40) % (3 if name == "top_k_accuracy" else 2))
    shape = shape.expected_shape(100)
    like_accuracy = plan_search(0.1, scoring="accuracy", **year)
    if not shape.is_mean:  # events are counted
        assert plan > like_accuracy
    elif shape.binary:
        assert plan == like_accuracy
    elif name == "neg_hamming_loss":  # nothing is known about the variance of its record scores
        assert like_accuracy < plan < 1.5 * like_accuracy
    else:
        assert plan < 0.8 * like_accuracy
