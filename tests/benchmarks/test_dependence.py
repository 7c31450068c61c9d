"""The simulations of ``benchmarks.dependence`` know their truth."""

import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.metrics import balanced_accuracy_score, f1_score, recall_score, roc_auc_score

from benchmarks.dependence import (
    node_metrics,
    node_predictions,
    node_sizes,
    past,
    processes,
    searches,
    studies,
)


@pytest.mark.parametrize("phi", [0.3, 0.9, 0.99])
def test_thresholded_autoregression_at_the_median_is_the_arcsine(phi):
    lags = phi ** np.arange(1, 6000)
    by_arcsine = 1.0 + 4.0 / math.pi * float(np.arcsin(lags).sum())
    assert processes.threshold_time(phi, 0.5) == pytest.approx(by_arcsine, rel=1e-6)


@pytest.mark.parametrize("maker", [processes.regimes, searches.easy])
def test_declared_times_are_those_of_long_means(maker):
    rng = np.random.default_rng(0)
    time = 5.0
    n = 4000
    sample, mean, _ = maker(time)
    means = np.array([sample(n, rng).mean() for _ in range(400)])
    assert means.mean() == pytest.approx(mean, abs=0.005)
    assert means.var() * n / (mean * (1 - mean)) == pytest.approx(time, rel=0.25)


def up_probabilities(fields, coupling, clamped):
    """Return the probability of "up" for each spin of a path, given the clamped spins."""
    spins = np.array(list(itertools.product([-1.0, 1.0], repeat=len(fields))))
    spins = spins[((spins == clamped) | np.isnan(clamped)).all(axis=1)]
    weights = np.exp(spins @ fields + coupling * (spins[:, 1:] * spins[:, :-1]).sum(axis=1))
    return (weights[:, None] * (spins > 0)).sum(axis=0) / weights.sum()


def test_the_truth_of_spins_on_a_path_is_that_of_enumeration():
    X, y, _, truth, _ = searches.nodes(64, np.random.default_rng(0), None, influence=1.6)
    train = [2, 5]
    clamped = np.full(8, np.nan)
    clamped[train] = 2.0 * y[train] - 1.0
    exact = up_probabilities(0.8 * X[:, 0], 0.4, clamped)
    for node in set(range(8)) - set(train):
        search = SimpleNamespace(train_indices_=train, holdout_indices_=[node])
        is_predicted_up = searches.Direction(0.0).predict(X[[node]])[0] == 1
        assert truth(search, 0.0) == pytest.approx(
            exact[node] if is_predicted_up else 1.0 - exact[node]
        )


@pytest.mark.parametrize("name", ["independent, None", "regimes, true chain", "graph"])
def test_one_search_is_simulated(name):
    X, y, correlation, truth, groups = searches.MODES[name](2400, np.random.default_rng(1), 2.0)
    is_missed, width, has_warning = searches.play(X, y, correlation, truth, groups=groups)
    assert not is_missed
    assert 0.0 < width <= 0.5
    assert not has_warning


def test_labels_drawn_again_have_the_marginals_of_enumeration():
    rng = np.random.default_rng(0)
    n = 7
    influence = 1.2
    fields = rng.normal(size=n)
    graph = studies.sparse.diags_array([np.ones(n - 1)] * 2, offsets=[-1, 1], format="csr")
    clamped = np.full(n, np.nan)
    is_free = np.ones(n, dtype=bool)
    clamped[[1, 4]] = [1.0, -1.0]
    is_free[[1, 4]] = False
    labels = np.repeat(np.nan_to_num((clamped + 1.0) / 2.0)[:, None], 20_000, axis=1)
    redrawn = studies.drawn_again(
        graph, studies.coloring(graph), labels, is_free, influence, fields, rng, sweeps=30
    )
    expected = up_probabilities(fields / 2.0, influence / 4.0, clamped)[is_free]
    assert redrawn[is_free].mean(axis=1) == pytest.approx(expected, abs=0.02)


def test_hidden_states_of_paths_are_those_of_enumeration():
    rng = np.random.default_rng(0)
    means = np.array([0.9, 0.3])
    step = np.array([[0.8, 0.2], [0.2, 0.8]])
    hits = rng.random((1, 6)) < 0.6
    is_known = rng.random((1, 6)) < 0.7
    total_weight = 0.0
    first_state_weight = np.zeros(6)
    for states in itertools.product([0, 1], repeat=6):
        states = np.array(states)
        weight = np.prod(step[states[:-1], states[1:]])
        emission_probabilities = np.where(hits[0], means[states], 1.0 - means[states])
        weight *= emission_probabilities[is_known[0]].prod()
        total_weight = total_weight + weight
        first_state_weight = first_state_weight + weight * (states == 0)
    assert studies.first_state(hits, is_known, means, step)[0] == pytest.approx(
        first_state_weight / total_weight
    )


@pytest.mark.parametrize("name", past.PROCESSES)
def test_expectations_given_the_past_are_those_of_the_scores(name):
    """Scores less their expectations are as uncorrelated with these as chance lets them be."""
    scores, expected, *_ = past.PROCESSES[name][0](40_000, np.random.default_rng(0))
    residuals = scores - expected
    assert abs(residuals.mean()) < 5 * residuals.std() / np.sqrt(40_000 / past.PROCESSES[name][2])
    if np.ptp(expected) > 0:
        assert (
            abs(np.mean(residuals * (expected - expected.mean())))
            < 0.05 * residuals.std() * expected.std()
        )
    assert past.results_of_series(name, 75, np.random.default_rng(1))[0]


@pytest.mark.parametrize(
    ("study_name", "declared"),
    [
        ("2,000 patients, brier_score", "'groups'"),
        pytest.param("map, influence 0.4", "its strength", marks=pytest.mark.slow),
        pytest.param("friends, influence 0.4", "influence='estimate'", marks=pytest.mark.slow),
        ("300 circles", "DependencyGraph"),
    ],
)
def test_one_study_is_simulated_beside_common_practice(study_name, declared):
    [(is_valid, make)] = [row[2:] for row in studies.studies() if row[:2] == (study_name, declared)]
    our_intervals, has_warning, peer_interval = studies.play(make, np.random.default_rng(0))
    assert is_valid
    assert not has_warning
    assert all(is_covered and 0.0 < half_width <= 0.5 for is_covered, half_width in our_intervals)
    assert 0.0 < peer_interval[1] < our_intervals[0][1]


@pytest.mark.parametrize("name", ["grid", "bipartite"])
def test_compared_scores_of_nodes_predict_the_holdout(name):
    """In 200 replications (``benchmarks.dependence``); here few, with three standard errors."""
    runs = node_predictions.searches_by_graph(8, names=[name])[name]
    means = node_predictions.NodeSearch(*runs.mean(axis=0))
    standard_error = runs[:, 1].std(ddof=1) / math.sqrt(8)
    assert abs(means.error_of_cv_score) < 3.0 * standard_error
    assert means.error_of_cv_score > means.error_of_mean
    assert means.is_missed == means.is_missed_by_report == 0.0
    assert means.report_half_width < 0.6 * means.half_width


def test_half_widths_on_grids_shrink_with_the_root_of_the_number_of_nodes():
    small, large = (node_sizes.search_grid(node_sizes.grid(n), 0) for n in (900, 8100))
    assert node_sizes.grid(900).sum() == 4 * 30 * 29
    assert large.report_half_width == pytest.approx(small.report_half_width / 3.0, rel=0.3)
    assert large.report_half_width < 0.6 * large.half_width


def test_chances_of_labels_given_all_others_are_those_of_enumeration():
    graph = node_predictions.sparse.csr_array(np.ones((3, 3)) - np.eye(3))
    field = node_predictions.Field(graph, np.random.default_rng(0))
    feature = np.array([0.3, -1.0, 0.5])
    labels = np.array([1, 0, 1])

    def log_weight(labels):
        spins = 2 * labels - 1
        return 0.5 * field.coupling * (spins[:, None] * spins)[np.triu_indices(3, 1)].sum() + (
            0.6 * feature @ spins
        )

    for node in range(3):
        labels_with_one, labels_with_zero = (
            np.where(np.arange(3) == node, label, labels) for label in (1, 0)
        )
        expected = 1.0 / (
            1.0 + math.exp(log_weight(labels_with_zero) - log_weight(labels_with_one))
        )
        probabilities = field.chances(labels, feature, np.array([node]))
        assert probabilities[0] == pytest.approx(expected)


def test_metrics_of_chances_are_those_of_labels_if_labels_are_certain():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, (3, 50))
    score = rng.normal(size=50)
    predicted = (score > 0.2).astype(int)
    sklearn_metrics = {
        "roc_auc": lambda y: roc_auc_score(y, score),
        "balanced_accuracy": lambda y: balanced_accuracy_score(y, predicted),
        "recall": lambda y: recall_score(y, predicted),
        "f1": lambda y: f1_score(y, predicted),
    }
    for name, statistic in node_metrics.METRICS.items():
        values = statistic(labels.astype(float), score, predicted)
        np.testing.assert_allclose(
            values, [sklearn_metrics[name](true_labels) for true_labels in labels]
        )


def test_approximate_intervals_of_nodes_contain_the_average_conditional_score():
    """One data set on the grid; the published figures of ``node_metrics`` are of five graphs."""
    graph = node_predictions.sparse.csr_array(node_predictions.graphs_as_matrices()["grid"])
    field = node_predictions.Field(graph, np.random.default_rng(5))
    missed = node_metrics.one_dataset(field, 0, 1000)
    assert all(missed[name, 0.05] <= 0.05 for name in node_metrics.METRICS)
    search_covers, report_covers, half_width = node_metrics.one_search(field, 1)
    assert search_covers
    assert report_covers
    assert 0.03 < half_width < 0.15
