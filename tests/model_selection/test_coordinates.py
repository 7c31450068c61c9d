"""Maps: declared groups are tested by coordinates, in any row order; interpolation in time."""

import itertools
import warnings

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from sklearn_bdp import ReusableHoldoutSearchCV
from sklearn_bdp.correlation import MarkovChain, group_independence_test
from sklearn_bdp.exceptions import DependenceWarning
from tests.facts import refused, scheme_of

pd = pytest.importorskip("pandas")
SIDE = 30


def smooth_map(seed, *, reach):
    """Return places of a grid in random order, and a field that varies slowly over them."""
    rng = np.random.default_rng(seed)
    locations = rng.permutation(
        np.array(list(itertools.product(range(SIDE), repeat=2)), dtype=float)
    )
    centers = SIDE * rng.random((60, 2))
    squares = ((locations[:, None] - centers) ** 2).sum(axis=2)
    field = np.exp(-squares / (2.0 * reach**2)) @ rng.normal(size=60)
    return locations, field / field.std(), rng


def fit(X, y, groups, **options):
    search = ReusableHoldoutSearchCV(
        LogisticRegression(), {"C": [1.0]}, correlation="groups", random_state=0
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", DependenceWarning)
        search.fit(X, y, groups=groups, **options)
    return [str(w.message) for w in caught if issubclass(w.category, DependenceWarning)]


# few records or groups are quick
@pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.UninformativeIntervalWarning")
# each round makes its holdout anew
@pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.SecondHoldoutWarning")
def test_too_small_blocks_give_a_warning_in_any_order_of_the_rows():
    messages = []
    for seed in range(6):
        locations, field, rng = smooth_map(seed, reach=5.0)
        X = rng.normal(size=(len(locations), 2))
        y = (X[:, 0] + 2.0 * field > 0).astype(int)
        blocks = (locations // 3) @ [100, 1]
        assert fit(X, y, blocks) == []  # without places nothing can be noticed
        messages.append(fit(X, y, blocks, coordinates=locations))
    assert sum("neighboring groups agree" in " ".join(texts) for texts in messages) >= 5


# few records or groups are quick
@pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.UninformativeIntervalWarning")
# each round makes its holdout anew
@pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.SecondHoldoutWarning")
def test_independent_blocks_give_no_warning_by_name_or_array():
    locations, _, rng = smooth_map(0, reach=5.0)
    blocks = (locations // 3) @ [100, 1]
    effect = np.random.default_rng(1).normal(size=10_000)[blocks.astype(int)]
    X = pd.DataFrame(rng.normal(size=(len(locations), 2)), columns=["a", "b"])
    y = (X["a"].to_numpy() + 2.0 * effect > 0).astype(int)
    X[["east", "north"]] = locations
    assert fit(X, y, blocks, coordinates=["east", "north"]) == []
    assert fit(X, y, blocks, coordinates=locations) == []
    with refused(ValueError, "coordinates", "['west']"):
        fit(X, y, blocks, coordinates=["west", "north"])
    with refused(ValueError, "coordinates", "(899, 2)"):
        fit(X, y, blocks, coordinates=locations[:-1])


def test_the_location_test_is_exact_for_independent_groups():
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(60), 3)
    misses = [
        group_independence_test(
            rng.normal(size=180), groups, coordinates=rng.random((180, 2)), level=0.1
        )
        for _ in range(200)
    ]
    assert sum(report.misfit for report in misses) <= 34  # 20 expected, 99.9% limit


def joint_of_chain(transition, start, length):
    """Return the joint distribution of a Markov chain, one axis per record."""
    joint = start
    for _ in range(length - 1):
        joint = joint[..., None] * transition
    return joint


def test_records_between_their_neighbors_are_independent():
    """Theory G27, order 1, by enumeration; transitions may be impossible."""
    rng = np.random.default_rng(0)
    for has_zeros in (False, True):
        transition = rng.random((3, 3)) + 1e-9
        if has_zeros:
            transition[0, 0] = transition[1, 2] = 0.0
        transition /= transition.sum(axis=1, keepdims=True)
        joint = joint_of_chain(transition, np.full(3, 1 / 3), 5)
        for neighbor_states in itertools.product(range(3), repeat=2):
            conditional = joint[:, neighbor_states[0], :, neighbor_states[1], :]
            if conditional.sum() > 0:
                conditional = conditional / conditional.sum()
                product = (
                    conditional.sum((1, 2))[:, None, None]
                    * conditional.sum((0, 2))[None, :, None]
                    * conditional.sum((0, 1))[None, None, :]
                )
                np.testing.assert_allclose(conditional, product, atol=1e-12)


#: Two states that seldom change.
STICKY = [[0.95, 0.05], [0.05, 0.95]]


@pytest.mark.parametrize("seed", range(4))
def test_an_interpolated_chain_holds_out_records_that_are_independent_given_the_rest(seed):
    model = MarkovChain(STICKY, observed=True, interpolation=True)
    split = model.split(400, 0.5, random_state=seed)
    assert len(split.holdout) + len(split.train) == 400
    assert len(split.holdout) == 200
    assert np.diff(split.holdout).min() >= 2
    scheme = scheme_of(model.conditional_on_rest(split.holdout))
    assert scheme.has_independent_records
    assert scheme.is_conditional


def test_neighbors_in_an_interpolated_chain_stay_dependent():
    model = MarkovChain(STICKY, observed=True, interpolation=True)
    assert model.conditional_on_rest([7, 0, 1, 3]).components(4).tolist() == [2, 0, 0, 1]
    assert model.effective_n(100) == pytest.approx(1.0)


def test_interpolation_needs_an_observed_chain():
    with refused(ValueError, "observed=True"):
        MarkovChain(STICKY, interpolation=True)


def test_a_search_of_an_interpolated_chain_is_conditional_on_the_neighbors():
    model = MarkovChain(STICKY, observed=True, interpolation=True)
    rng = np.random.default_rng(0)
    state = np.cumsum(rng.random(800) < 0.05) % 2
    X = np.c_[np.r_[state[0], state[:-1]], np.r_[state[1:], state[-1]]].astype(float)
    search = ReusableHoldoutSearchCV(
        LogisticRegression(), {"C": [1.0]}, correlation=model, random_state=0
    ).fit(X, state)
    assert "given those before and after them" in str(search.certificate_).splitlines()[0]
    assert search.best_interval_[1] - search.best_interval_[0] < 0.2


def test_coordinates_without_a_holdout_are_rejected():
    search_without_holdout = ReusableHoldoutSearchCV(
        LogisticRegression(), {"C": [1.0]}, holdout=None
    )
    with refused(ValueError, "coordinates="):
        search_without_holdout.fit(np.eye(20), np.arange(20) % 2, coordinates=np.eye(20))
    assert not group_independence_test([0.1, 0.2], [0, 1], coordinates=np.eye(2)).misfit
