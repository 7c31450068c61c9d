"""Lists of models: the worst one counts."""

import numpy as np
import pytest

from sklearn_bdp.correlation import (
    DependencyGraph,
    Groups,
    Independent,
    MarkovChain,
    check_correlation,
)
from tests.facts import refused

from .tails import log_tail_above

P1, P2 = [[0.9, 0.1], [0.2, 0.8]], [[0.9, 0.1], [0.1, 0.9]]


def test_every_answer_is_the_worst():
    one, two = MarkovChain(P1), MarkovChain(P2)
    both = check_correlation([one, two])
    n = 500
    assert both.bdp_epsilon(0.1, n) == max(one.bdp_epsilon(0.1, n), two.bdp_epsilon(0.1, n))
    assert both.dp_epsilon(0.1, n) == min(one.dp_epsilon(0.1, n), two.dp_epsilon(0.1, n))
    for name in ("sequential_information", "posterior_bias"):
        assert getattr(both, name)(0.1, n) == max(getattr(m, name)(0.1, n) for m in (one, two))
    assert both.effective_n(n) == min(one.effective_n(n), two.effective_n(n))
    values = np.linspace(0.3, 1, 8)
    worst = np.maximum(log_tail_above(one, 0.3, values, n), log_tail_above(two, 0.3, values, n))
    assert log_tail_above(both, 0.3, values, n) == pytest.approx(worst)
    assert both.gap_for(0.01) == two.gap_for(0.01)
    assert both.cut_failure(5) == two.cut_failure(5)
    assert both.split(n, 0.2).gap == two.split(n, 0.2).gap
    assert both == check_correlation([two, one])
    assert not both.is_componentwise
    assert both.describe().startswith("the worst of: stationary")


def test_a_missing_method_is_named():
    with refused(ValueError, "method='spectral'", "MarkovChain"):
        check_correlation([Groups([0, 0]), MarkovChain(P1)]).bdp_epsilon(0.1, 2, method="spectral")


def test_components_are_cut_where_all_models_allow():
    edge = np.zeros((5, 5))
    edge[1, 2] = 1.0
    model = check_correlation([Groups([0, 0, 1, 2, 3]), DependencyGraph(edge), Independent()])
    for seed in range(5):
        split = model.split(5, 0.4, random_state=seed)
        assert len({0, 1, 2} & set(split.holdout)) in (0, 3)
    assert len(model.folds(5, 3)) == 3
    assert model.is_componentwise
    assert model.subset([0, 3]).n_records == 2
    with refused(ValueError, "X_val"):
        check_correlation([MarkovChain(P1), Groups([0, 0])]).split(2, 0.5)
    assert len(check_correlation([Independent()]).split(10, 0.5).holdout) == 5


def test_bad_lists_are_named():
    with refused(ValueError, "models", "()"):
        check_correlation([])
    with refused(ValueError, "[2, 3]"):
        check_correlation([Groups([0, 1]), Groups([0, 1, 2])])
    assert check_correlation([None, P1]).n_records is None
