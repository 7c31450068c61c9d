"""Networks in searches: order of nodes, nodes that are not neighbors, strength after the split."""

import pickle
import warnings

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, ShuffleSplit

from benchmarks.dependence.studies import coloring, drawn_again
from sklearn_bdp import HoldoutConfig, ReusableHoldoutSearchCV
from sklearn_bdp.correlation import DependencyGraph, MarkovNetwork
from sklearn_bdp.correlation.cutting import match_nodes
from sklearn_bdp.exceptions import DependenceWarning, UnboundedMetricError
from tests.facts import refused

# Several holdouts of the same records, each for a test of its own.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.SecondHoldoutWarning")

nx = pytest.importorskip("networkx")
GRID, WIDE = (nx.to_scipy_sparse_array(nx.grid_2d_graph(side, side)) for side in (24, 40))


def make_nodes(seed, diameter, *, graph=GRID):
    """Labels that follow the network, and a feature that predicts them to some degree."""
    rng = np.random.default_rng(seed)
    n = graph.shape[0]
    state = rng.integers(0, 2, (n, 1)).astype(float)
    is_free = np.ones(n, dtype=bool)
    colors = coloring(graph)
    state = (
        drawn_again(graph, colors, state, is_free, diameter, np.zeros(n), rng, sweeps=25)[:, 0] > 0
    )
    X = rng.normal(size=(n, 2))
    # Classifiers do well where the state is on, and are a coin where it is off.
    y = np.where(state, X[:, 0] > 0, rng.random(len(state)) < 0.5).astype(int)
    return X, y, state.astype(int)


def fit_search(X, y, correlation, **options):
    search = ReusableHoldoutSearchCV(
        LogisticRegression(), {"C": [0.1, 1.0]}, correlation=correlation, random_state=0, **options
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", DependenceWarning)
        search.fit(X, y)
    messages = [
        str(warning.message)
        for warning in caught
        if issubclass(warning.category, DependenceWarning)
    ]
    return search, messages


def test_no_number_is_needed():
    """Theory G27: intervals of nodes that are not neighbors are those of independent records."""
    X, y, _ = make_nodes(0, 1.8)
    search, messages = fit_search(X, y, MarkovNetwork(GRID))
    assert messages == []
    holdout_nodes = search.holdout_indices_
    assert not GRID[holdout_nodes][:, holdout_nodes].nnz
    text = str(search.certificate_)
    assert "these nodes, given the training nodes" in text.splitlines()[0]
    assert "mean degree" in text
    report = search.final_report()
    assert report.upper - report.lower < 0.19


def test_a_buffer_stays_out_of_training():
    X, y, _ = make_nodes(0, 0.3, graph=WIDE)
    network = DependencyGraph(WIDE, reach="edges")
    search, _ = fit_search(X, y, network)
    holdout_nodes = search.holdout_indices_
    train = search.train_indices_
    assert not WIDE[holdout_nodes][:, train].nnz
    assert "records at the places held out" in str(search.certificate_).splitlines()[0]
    neighbors_kept = ShuffleSplit(n_splits=1, test_size=0.1, random_state=0)
    with refused(ValueError, "ShuffleSplit", 160):
        fit_search(X, y, network, holdout=neighbors_kept)
    with refused(ValueError, "cv=5"):
        fit_search(X, y, network, cv=KFold(5, shuffle=True, random_state=0))


def test_strength_is_read_after_the_split():
    X, _, state = make_nodes(0, 0.4)
    search, _ = fit_search(X, state, MarkovNetwork(GRID, influence="estimate"))
    text = str(search.certificate_)
    assert "these nodes, given the training nodes" in text.splitlines()[0]
    assert "assumed from 432 training labels" in text
    changed_state = state.copy()
    changed_state[search.holdout_indices_] = 1 - changed_state[search.holdout_indices_]
    second_search, _ = fit_search(X, changed_state, MarkovNetwork(GRID, influence="estimate"))
    assert second_search.holdout_.dependence == search.holdout_.dependence


def test_rows_follow_the_names_of_nodes():
    """Node order: an index in another one is rejected, and the network can be given it."""
    pd = pytest.importorskip("pandas")
    X, y, _ = make_nodes(1, 0.2)
    graph = nx.grid_2d_graph(24, 24)
    names = [f"{a}-{b}" for a, b in graph]
    graph = nx.relabel_nodes(graph, dict(zip(graph, names, strict=True)))
    order = np.random.default_rng(0).permutation(len(names))
    frame = pd.DataFrame(X, index=names).iloc[order]
    with refused(ValueError, "nodelist=X.index"):
        fit_search(frame, y[order], MarkovNetwork(graph, influence=0.2))
    matched = MarkovNetwork(graph, influence=0.2, nodelist=frame.index)
    search, _ = fit_search(frame, y[order], matched)
    assert search.holdout_.n == 144


def test_the_first_line_names_the_target():
    X, y, _ = make_nodes(2, 0.2)
    groups = np.arange(len(y)) // 4
    search = ReusableHoldoutSearchCV(
        LogisticRegression(), {"C": [1.0]}, correlation="groups", random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        search.fit(X, y, groups=groups)
    assert "on records of new groups" in str(search.certificate_).splitlines()[0]


def test_a_second_search_on_the_same_nodes_gives_no_warning():
    X, y, _ = make_nodes(3, 0.2)
    first_search, _ = fit_search(X, y, MarkovNetwork(GRID, influence=0.2))
    train = first_search.train_indices_
    second_search = ReusableHoldoutSearchCV(
        LogisticRegression(), {"C": [0.5]}, holdout=first_search.holdout_, random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        second_search.fit(X[train], y[train])
    assert (
        "these nodes, given the training nodes" in str(second_search.certificate_).splitlines()[0]
    )


class NeverFitted(LogisticRegression):
    """Fails as soon as anything is fitted."""

    def fit(self, X, y, sample_weight=None):
        raise RuntimeError("fitted")


@pytest.mark.parametrize("scoring", ["roc_auc", "balanced_accuracy", "recall", "f1"])
def test_scores_by_class_of_dependent_nodes_are_rejected_before_any_fit(scoring):
    """Weak edges inside the holdout: neither slices (theory G19) nor independent nodes (G31)."""
    graph = nx.to_scipy_sparse_array(nx.random_regular_graph(20, 400, seed=0))
    X, y, _ = make_nodes(4, 0.01, graph=graph)
    network = MarkovNetwork(graph, influence=0.01)
    search = ReusableHoldoutSearchCV(
        NeverFitted(), {"C": [1.0]}, correlation=network, scoring=scoring, random_state=0
    )
    with refused(UnboundedMetricError, "scoring", "accuracy") as error:
        search.fit(X, y)
    assert "'balanced_accuracy'" not in str(error.value).replace(f"scoring={scoring!r}", "")
    holdout = fit_search(X, y, network)[0].holdout_
    model = LogisticRegression().fit(X[:100], y[:100])
    with refused(ValueError, "accuracy"):
        holdout.score(model, 0.5, scoring=scoring)


@pytest.mark.parametrize("scoring", ["roc_auc", "balanced_accuracy", "recall", "f1"])
def test_scores_by_class_of_independent_nodes_are_approximate(scoring):
    """Theory G31, G34: nodes given all others are independent and not alike."""
    X, y, _ = make_nodes(4, 0.2)
    search, _ = fit_search(X, y, MarkovNetwork(GRID), scoring=scoring)
    results = search.cv_results_
    assert set(results["holdout_interval"]) == {"approximate"}
    lower, upper = search.best_interval_
    assert 0.0 <= lower < search.best_score_ < upper <= 1.0
    assert "no level of privacy" in " ".join(search.certificate_.notes)
    train = search.train_indices_
    model = LogisticRegression().fit(X[train], y[train])
    answer = search.holdout_.score(model, scoring=scoring, training=(X[train], y[train]))
    assert answer.interval == "approximate"
    (row,) = search.final_report().rows
    assert row.proven is None
    assert row.approximate[0] < row.value < row.approximate[1]
    assert row.target == "these nodes, given the training nodes"


def test_a_level_of_privacy_admits_means_over_nodes_only():
    X, y, _ = make_nodes(4, 0.2)
    private = {"holdout": HoldoutConfig(epsilon=2.0)}
    for scoring in ("roc_auc", "f1"):
        with refused(UnboundedMetricError, scoring, "accuracy") as error:
            fit_search(X, y, MarkovNetwork(GRID), scoring=scoring, **private)
        assert "balanced_accuracy" not in str(error.value)


def test_a_list_with_a_network_that_is_split_by_nodes_is_rejected_by_name():
    X, y, _ = make_nodes(5, 0.2)
    weak, strong = (MarkovNetwork(GRID, influence=value) for value in (0.1, 0.2))
    with refused(ValueError, "correlation"):
        fit_search(X, y, [weak, strong])


# few records or groups are quick
@pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.UninformativeIntervalWarning")
def test_a_component_too_large_to_be_held_out_is_named_in_the_certificate():
    graph = nx.disjoint_union_all([nx.path_graph(240)] + [nx.path_graph(6) for _ in range(60)])
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 2))
    y = (X[:, 0] > 0).astype(int)
    search, _ = fit_search(X, y, DependencyGraph(graph))
    assert not np.isin(search.holdout_indices_, np.arange(240)).any()
    text = str(search.certificate_)
    assert "the largest component, 40% of all nodes, is too large to be held out" in text


def test_unlabeled_nodes_are_rejected_by_name():
    X, y, _ = make_nodes(6, 0.2)
    y[:50] = -1
    with refused(ValueError, "labels", -1, "MarkovNetwork(graph, labeled=...)"):
        fit_search(X, y, MarkovNetwork(GRID, influence="estimate"))


def test_sentences_about_nodes_claim_nothing_about_time():
    X, y, _ = make_nodes(0, 0.3)
    search, _ = fit_search(X, y, MarkovNetwork(GRID))
    for text in (str(search.certificate_), str(search.final_report())):
        assert "on these nodes, given the training nodes" in text.splitlines()[0]
        assert "drift or dependence" not in text
        assert "next year" not in text


# -- scores that predict the holdout --------------------------------------------------------------


def test_the_compared_score_gives_nodes_the_neighbors_of_holdout_nodes():
    X, y, _ = make_nodes(7, 0.5)
    network = MarkovNetwork(GRID)
    search, _ = fit_search(X, y, network)
    train = search.train_indices_
    results = search.cv_results_
    matching = match_nodes(network, train, search.holdout_indices_)
    folds = matching.folds(5)
    expected = 0.0
    for (kept_nodes, tested_nodes), weights in zip(folds, matching.weights(folds), strict=True):
        model = LogisticRegression(C=0.1).fit(X[train[kept_nodes]], y[train[kept_nodes]])
        expected += weights @ (model.predict(X[train[tested_nodes]]) == y[train[tested_nodes]])
    assert results["cv_score"][0] == pytest.approx(expected, abs=1e-6)
    assert results["cv_score"][0] != results["mean_test_score"][0]
    second_search = ReusableHoldoutSearchCV(
        LogisticRegression(), {"C": [0.1, 5.0]}, holdout=pickle.loads(pickle.dumps(search.holdout_))
    ).fit(X[train], y[train])
    assert second_search.cv_results_["cv_score"][0] == results["cv_score"][0]
    small_search = ReusableHoldoutSearchCV(
        LogisticRegression(), {"C": [0.1]}, holdout=search.holdout_, cv=5
    ).fit(X[train[:200]], y[train[:200]])
    assert small_search.cv_results_["cv_score"][0] == small_search.cv_results_["mean_test_score"][0]


def test_too_few_matched_nodes_are_noted():
    X, y, _ = make_nodes(8, 0.2)
    network = MarkovNetwork(GRID)
    train = fit_search(X, y, network)[0].train_indices_
    search, _ = fit_search(X, y, network, cv=[(train[20:], train[:20])])
    assert search.cv_results_["cv_score"][0] == search.cv_results_["mean_test_score"][0]
    assert "fewer than 30" in " ".join(search.certificate_.notes)
    plenty, _ = fit_search(X, y, network)
    assert "fewer than 30" not in " ".join(plenty.certificate_.notes)


def test_an_interrupted_search_keeps_weighted_scores(tmp_path):
    X, y, _ = make_nodes(9, 0.2)
    options = {"holdout": HoldoutConfig(ledger=tmp_path / "nodes.ledger")}
    uninterrupted, _ = fit_search(X, y, MarkovNetwork(GRID))

    class Interrupted(LogisticRegression):
        def fit(self, X, y, sample_weight=None):
            if is_interrupting and self.C == 1.0:
                raise KeyboardInterrupt
            return super().fit(X, y)

    def run_search():
        return ReusableHoldoutSearchCV(
            Interrupted(),
            {"C": [0.1, 1.0]},
            correlation=MarkovNetwork(GRID),
            random_state=0,
            **options,
        ).fit(X, y)

    is_interrupting = True
    with pytest.raises(KeyboardInterrupt):
        run_search()
    is_interrupting = False
    search = run_search()
    np.testing.assert_allclose(
        search.cv_results_["cv_score"], uninterrupted.cv_results_["cv_score"]
    )
