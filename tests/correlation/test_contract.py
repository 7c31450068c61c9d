"""The contract of correlation models, kept by each of them."""

import inspect

import numpy as np
import pytest
from scipy import sparse

from sklearn_bdp.correlation import (
    BayesianNetwork,
    CorrelationModel,
    DependencyGraph,
    Groups,
    Independent,
    MarkovChain,
    MarkovNetwork,
    check_correlation,
)
from sklearn_bdp.correlation.components import ComponentModel
from tests.facts import refused

from .contract import ModelContract

P1 = [[0.9, 0.1], [0.2, 0.8]]
LABELS = [0, 0, 1, 1, 1, 2, 3, 3, 4, 5, 5, 5]


def pairs():
    edges = sparse.coo_array((np.ones(3), ([0, 2, 4], [1, 3, 5])), shape=(12, 12))
    return sparse.csr_array(edges)


class TestIndependent(ModelContract):
    model = Independent


class TestGroups(ModelContract):
    model = staticmethod(lambda: Groups(LABELS))


class TestHiddenChain(ModelContract):
    n = 400
    model = staticmethod(lambda: MarkovChain(P1))


class TestObservedChain(ModelContract):
    n = 60
    model = staticmethod(lambda: MarkovChain(P1, observed=True))


class TestDependencyGraph(ModelContract):
    model = staticmethod(lambda: DependencyGraph(pairs()))


class TestMarkovNetwork(ModelContract):
    model = staticmethod(lambda: MarkovNetwork(pairs(), influence=0.5))


class TestLoopyNetwork(ModelContract):
    @staticmethod
    def model():
        ring = sparse.coo_array((np.ones(12), (range(12), np.roll(range(12), -1))))
        return MarkovNetwork(ring, influence=0.3)


class TestBayesianNetwork(ModelContract):
    @staticmethod
    def model():
        child = [[0.9, 0.1], [0.2, 0.8]]
        parents = [[] if i % 3 == 0 else [i - 1] for i in range(12)]
        return BayesianNetwork(parents, [[0.5, 0.5] if i % 3 == 0 else child for i in range(12)])


class TestWorstOfGroups(ModelContract):
    model = staticmethod(lambda: check_correlation([Groups(LABELS), DependencyGraph(pairs())]))


class TestWorstOfChains(ModelContract):
    n = 400
    model = staticmethod(lambda: check_correlation([Independent(), MarkovChain(P1)]))


def method_names(model_class):
    """Return the methods that a subclass inherits, private ones included."""
    members = inspect.getmembers(model_class, inspect.isroutine)
    return [name for name, _ in members if not name.endswith("__")]


@pytest.mark.parametrize("base", [CorrelationModel, ComponentModel])
def test_a_model_inherits_fewer_than_20_methods(base):
    names = method_names(base)
    assert len(names) < 20, names


@pytest.mark.parametrize("name", sorted(CorrelationModel.__abstractmethods__))
def test_a_model_that_lacks_a_method_fails_with_its_name(name):
    abstract = CorrelationModel.__abstractmethods__
    methods = {other: lambda self, *args: None for other in abstract - {name}}
    contract = ModelContract()
    contract.model = type("Incomplete", (CorrelationModel,), methods)
    with refused(TypeError, "Incomplete", name):
        contract.test_no_method_is_missing()


def test_a_method_that_is_not_abstract_is_named_too():
    contract = ModelContract()
    contract.model = type("NoTail", (Independent,), {"log_tail": None})
    with pytest.raises(AssertionError) as failure:
        contract.test_no_method_is_missing()
    assert "NoTail lacks log_tail" in str(failure.value)
