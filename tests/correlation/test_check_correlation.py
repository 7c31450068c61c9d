"""From the argument ``correlation`` to a model."""

import networkx as nx
import numpy as np
import pytest
from scipy import sparse

from sklearn_bdp.correlation import (
    DependencyGraph,
    Groups,
    Independent,
    MarkovChain,
    check_correlation,
)
from tests.facts import refused

P1 = [[0.9, 0.1], [0.2, 0.8]]


def test_every_form_becomes_its_model():
    assert check_correlation(None) == Independent()
    assert check_correlation(np.array(P1)) == MarkovChain(P1)
    assert check_correlation(P1) == MarkovChain(P1)
    assert check_correlation(sparse.csr_matrix(np.ones((2, 2)))) == DependencyGraph(np.ones((2, 2)))
    assert check_correlation(nx.path_graph(3)) == DependencyGraph(nx.path_graph(3))
    assert check_correlation("groups", groups=[1, 1, 2]) == Groups([1, 1, 2])
    model = MarkovChain(P1)
    assert check_correlation(model) is model
    assert check_correlation([model, None]) == check_correlation([model, Independent()])
    assert check_correlation([np.array(P1), np.array(P1)]) == check_correlation([model, model])


@pytest.mark.parametrize(
    ("correlation", "error", "fact"),
    [
        ("chain", ValueError, "correlation='chain'"),
        ("groups", ValueError, "groups="),
        (3.0, ValueError, "3.0"),
        (object(), TypeError, "correlation"),
        (MarkovChain, TypeError, "MarkovChain"),
        ([], ValueError, "models"),
        (np.array([[0.5, 0.6], [0.5, 0.5]]), ValueError, "transition"),
        (np.array([[np.nan, 1.0], [0.5, 0.5]]), ValueError, "nan"),
        (np.ones((2, 3)), ValueError, "(2, 3)"),
        (np.ones(4), ValueError, "(4,)"),
    ],
)
def test_everything_else_is_rejected_with_a_reason(correlation, error, fact):
    with refused(error, fact):
        check_correlation(correlation)
