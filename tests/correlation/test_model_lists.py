"""Lists of models: the worst one counts."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from sklearn_bdp import ReusableHoldoutSearchCV
from sklearn_bdp.correlation import (
    DependencyGraph,
    Groups,
    Independent,
    MarkovChain,
    check_correlation,
)
from sklearn_bdp.correlation.cutting import gap_failure_probability, required_gap
from sklearn_bdp.correlation.levels import posterior_bias, sequential_information
from tests.facts import refused, scheme_of

from .tails import log_tail_above

P1 = [[0.9, 0.1], [0.2, 0.8]]
P2 = [[0.9, 0.1], [0.1, 0.9]]


def test_every_answer_is_the_worst():
    first_chain = MarkovChain(P1)
    second_chain = MarkovChain(P2)
    worst_case = check_correlation([first_chain, second_chain])
    n = 500
    assert worst_case.bdp_epsilon(0.1, n) == max(
        first_chain.bdp_epsilon(0.1, n), second_chain.bdp_epsilon(0.1, n)
    )
    assert worst_case.dp_epsilon(0.1, n) == min(
        first_chain.dp_epsilon(0.1, n), second_chain.dp_epsilon(0.1, n)
    )
    for bound in (sequential_information, posterior_bias):
        assert bound(worst_case, 0.1, n) == max(
            bound(first_chain, 0.1, n), bound(second_chain, 0.1, n)
        )
    assert worst_case.effective_n(n) == min(first_chain.effective_n(n), second_chain.effective_n(n))
    values = np.linspace(0.3, 1, 8)
    worst = np.maximum(
        log_tail_above(first_chain, 0.3, values, n), log_tail_above(second_chain, 0.3, values, n)
    )
    assert log_tail_above(worst_case, 0.3, values, n) == pytest.approx(worst)
    assert required_gap(worst_case, 0.01) == required_gap(second_chain, 0.01)
    assert gap_failure_probability(worst_case, 5) == gap_failure_probability(second_chain, 5)
    assert worst_case.split(n, 0.2).gap == second_chain.split(n, 0.2).gap
    assert worst_case == check_correlation([second_chain, first_chain])
    assert not scheme_of(worst_case, n).has_independent_units
    assert worst_case.describe().startswith("the worst of: stationary")


def test_a_missing_method_is_named():
    with refused(ValueError, "method='spectral'", "MarkovChain"):
        check_correlation([Groups([0, 0]), MarkovChain(P1)]).bdp_epsilon(0.1, 2, method="spectral")


def test_components_are_cut_only_if_all_models_allow():
    edge = np.zeros((5, 5))
    edge[1, 2] = 1.0
    model = check_correlation([Groups([0, 0, 1, 2, 3]), DependencyGraph(edge), Independent()])
    for seed in range(5):
        split = model.split(5, 0.4, random_state=seed)
        assert len({0, 1, 2} & set(split.holdout)) in (0, 3)
    assert len(model.folds(5, 3)) == 3
    assert scheme_of(model, 5).has_independent_units
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


# few groups, and one table for two holdouts
@pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.UninformativeIntervalWarning")
@pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.SecondHoldoutWarning")
def test_approximate_interim_intervals_of_a_list_count_groups_not_records():
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(600), 2)
    X = rng.normal(size=(600, 3))[groups]
    y = (X[:, 0] + rng.normal(size=600)[groups] > 0).astype(int)
    intervals = []
    for correlation in (Groups(groups), [Groups(groups)]):
        search = ReusableHoldoutSearchCV(
            LogisticRegression(),
            {"C": [1.0]},
            scoring="matthews_corrcoef",
            correlation=correlation,
            random_state=0,
        ).fit(X, y)
        intervals.append(search.best_interval_)
    assert intervals[0] == intervals[1]
    assert intervals[0][0] > -1.0
