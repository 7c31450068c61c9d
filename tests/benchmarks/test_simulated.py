"""Contract of every simulator: the population accuracy that it states is the true one."""

import pickle
from functools import partial

import numpy as np
import pytest
import scipy.sparse
from scipy.special import ndtr

from examples.simulated import make_graph, make_regimes
from sklearn_bdp.correlation import Independent, MarkovChain

make_dwork_signal = pytest.importorskip("benchmarks.experiments._signal").make_dwork_signal

P2 = [[0.9, 0.1], [0.2, 0.8]]
MAKERS = {
    "noise": partial(make_dwork_signal, n_features=12, n_shifted=0),
    "signal": partial(make_dwork_signal, n_features=12, n_shifted=4, shift=0.3),
    "regimes": partial(make_regimes, transition=P2, n_features=12, separation=[2.0, -0.5]),
    "graph": partial(make_graph, component_size=6, n_features=12, flip=0.2),
}


@pytest.fixture(params=MAKERS.values(), ids=MAKERS)
def make(request):
    return request.param


def test_population_accuracy_is_the_limit_of_the_sample_accuracy(make):
    rng = np.random.default_rng(5)
    data = make(200_000, random_state=0)
    coef = (
        rng.standard_normal((6, 12))
        + data.distribution.means[data.distribution.labels == 1].mean(axis=0) * 3
    )
    intercept = rng.normal(0, 0.5, 6)
    is_correct = (data.X @ coef.T + intercept > 0) == data.y[:, None]
    # Standard errors of correlated records: from the means of 200 stretches of 1,000.
    means = is_correct.reshape(200, 1000, 6).mean(axis=1)
    error = means.std(axis=0, ddof=1) / np.sqrt(200)
    truth = data.population_accuracy(coef, intercept)
    assert (np.abs(is_correct.mean(axis=0) - truth) < 4.5 * error).all()


def test_same_seed_same_data_and_fresh_data_differ(make):
    first_data = make(40, random_state=7)
    second_data = make(40, random_state=7)
    np.testing.assert_array_equal(first_data.X, second_data.X)
    np.testing.assert_array_equal(first_data.y, second_data.y)
    fresh = first_data.fresh(random_state=8)
    assert fresh.X.shape == first_data.X.shape
    assert not np.array_equal(fresh.X, first_data.X)
    coef = np.arange(12.0)
    assert fresh.population_accuracy(coef) == first_data.population_accuracy(coef)


def test_frozen_and_picklable(make):
    data = make(10, random_state=0)
    with pytest.raises(AttributeError):
        data.X = None
    copy = pickle.loads(pickle.dumps(data))
    np.testing.assert_array_equal(copy.fresh(5, random_state=1).X, data.fresh(5, random_state=1).X)
    assert "10 records" in repr(data)


def test_labels_are_zero_and_one_for_scikit_learn(make):
    data = make(500, random_state=0)
    assert set(np.unique(data.y)) == {0, 1}


def test_no_signal_means_one_half_for_every_classifier():
    rng = np.random.default_rng(0)
    data = make_dwork_signal(5, 30, n_shifted=0)
    coef = rng.standard_normal((20, 30))
    np.testing.assert_allclose(data.population_accuracy(coef), 0.5, atol=1e-12)


def test_shifted_accuracy_by_hand():
    data = make_dwork_signal(5, 100)
    coef = np.r_[np.ones(20), -np.ones(30), np.zeros(50)]
    assert data.population_accuracy(coef) == pytest.approx(ndtr(20 * 0.06 / np.sqrt(50)))


def test_pretending_independence_misses_the_truth_of_regimes_and_the_chain_does_not():
    # One fixed classifier, 95 % intervals for its accuracy on 300 holdouts of 2,000 records.
    n = 2000
    alpha = np.linspace(0.001, 0.5, 500)
    chain = [[0.95, 0.05], [0.05, 0.95]]
    coef = np.r_[np.ones(5), np.zeros(15)]
    widths = {}
    for name, model in (("independent", Independent()), ("chain", MarkovChain(chain))):
        widths[name] = alpha[np.argmax(model.log_tail(alpha, n) <= np.log(0.05))]
    data = make_regimes(n, chain, separation=[2.0, -0.5], random_state=0)
    errors = []
    for seed in range(300):
        holdout = data.fresh(random_state=seed)
        is_correct = (holdout.X @ coef > 0) == holdout.y
        errors.append(abs(is_correct.mean() - data.population_accuracy(coef)))
    miss_rates = {name: np.mean(np.array(errors) > width) for name, width in widths.items()}
    assert miss_rates["independent"] > 0.2
    assert miss_rates["chain"] <= 0.05


def test_zero_coefficients_predict_label_zero():
    data = make_dwork_signal(5, 30)
    assert data.population_accuracy([0] * 30) == 0.5
    regimes = make_regimes(5, P2)
    # A sum of weights: the last bit depends on the order in which numpy adds.
    assert regimes.population_accuracy(np.zeros(20), 1.0) == pytest.approx(0.5, abs=1e-15)


def test_single_precision_halves_memory():
    data = make_dwork_signal(5, 30, dtype="float32")
    assert data.X.dtype == np.float32


def test_states_change_along_edges_as_often_as_stated():
    data = make_graph(50_000, flip=0.2, component_size=5, random_state=0)
    edges = scipy.sparse.triu(data.graph).tocoo()
    changed = data.states[edges.row] != data.states[edges.col]
    assert abs(changed.mean() - 0.2) < 0.01
    assert abs(data.states.mean() - 0.5) < 0.02
    np.testing.assert_allclose(data.graph.data, 2 * np.log(4.0))


def test_forest_spans_the_given_graph():
    rng = np.random.default_rng(0)
    dense = np.triu(rng.random((60, 60)) < 0.03, 1)
    data = make_graph(graph=dense | dense.T, random_state=0)
    connected_components = scipy.sparse.csgraph.connected_components
    forest = data.graph
    full_graph = scipy.sparse.csr_array(dense | dense.T)
    assert (
        connected_components(forest)[0]
        == connected_components(full_graph)[0]
        == 60 - forest.nnz // 2
    )  # a forest, same components
    assert (dense | dense.T)[forest.nonzero()].all()
