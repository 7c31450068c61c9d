"""Several independent sequences, each a Markov chain (theory H1-H5, H6)."""

import itertools
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold

from sklearn_bdp import ReusableHoldoutSearchCV
from sklearn_bdp.correlation import MarkovChain, check_correlation
from sklearn_bdp.correlation.cutting import (
    gap_failure_probability,
    gaps_to_training,
    n_split_components,
)
from sklearn_bdp.exceptions import DependenceWarning
from tests.facts import refused, warned

# One table, many holdouts.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.SecondHoldoutWarning")

P = [[0.9, 0.1], [0.2, 0.8]]


def test_tails_hold_by_enumeration():
    """All paths of two sequences of three and five records whose states show."""
    score = np.array([0.1, 1.0])
    chain = MarkovChain(P)
    model = check_correlation(P, groups=[0, 0, 0, 1, 1, 1, 1, 1])
    deviations = []
    probabilities = []
    for path in itertools.product((0, 1), repeat=8):
        probability = chain.stationary_[path[0]] * chain.stationary_[path[3]]
        for i in (0, 1, 3, 4, 5, 6):
            probability *= chain.transition[path[i], path[i + 1]]
        probabilities.append(probability)
        deviations.append(score[list(path)].mean() - chain.stationary_ @ score)
    deviations = np.array(deviations)
    probabilities = np.array(probabilities)
    assert probabilities.sum() == pytest.approx(1.0)
    for alpha in np.unique(np.abs(deviations)):
        exact = probabilities[np.abs(deviations) >= alpha - 1e-12].sum()
        assert np.log(exact) <= model.log_tail(alpha, 8) + 1e-9


def test_whole_sequences_are_held_out():
    sequence_ids = np.repeat(np.arange(20), 50)
    model = check_correlation(MarkovChain(P), groups=sequence_ids)
    split = model.split(1000, 0.25, random_state=0)
    assert not set(sequence_ids[split.train]) & set(sequence_ids[split.holdout])
    assert gaps_to_training(model, split.train, split.holdout) == (None, None)
    assert n_split_components(model, split.train, split.holdout) == 0
    assert all(n_split_components(model, train, test) == 0 for train, test in model.folds(1000, 4))


def test_tails_of_few_sequences_are_held_out():
    sequence_ids = np.arange(900) % 3  # rows of three sequences in turn
    model = check_correlation(MarkovChain(P), groups=sequence_ids)
    split = model.split(900, 0.25)
    for sequence in range(3):
        train, holdout_rows = (
            rows[sequence_ids[rows] == sequence] for rows in (split.train, split.holdout)
        )
        assert len(holdout_rows) == 75
        assert train.max() + 3 * (split.gap + 1) == holdout_rows.min()
    assert len(np.concatenate([test for _, test in model.folds(900, 5)])) == 900


def test_cuts_of_several_sequences_add_up():
    model = check_correlation(MarkovChain(P), groups=np.arange(900) % 3)
    split = model.split(900, 0.25)
    assert gaps_to_training(model, split.train, split.holdout) == (split.gap, None)
    assert gap_failure_probability(model, split.gap) <= 1e-3
    assert gap_failure_probability(model, 5) == pytest.approx(
        3 * gap_failure_probability(MarkovChain(P), 5)
    )
    assert n_split_components(model, split.holdout, split.train) == 3
    holdout_model = model.subset(split.holdout)
    assert holdout_model.n_records == 225
    assert holdout_model.effective_n(225) == pytest.approx(MarkovChain(P).effective_n(225))
    for rows in ([0, 3, 9], [3, 0], [0, 4, 1, 3]):  # a gap, or against the order of a sequence
        with refused(ValueError, "indices"):
            model.subset(rows)
    assert model.subset([3, 1, 6, 4]).n_sequences == 2  # rows 3 and 6, and rows 1 and 4


def sequences(n_sequences=20, length=100, seed=0):
    rng = np.random.default_rng(seed)
    names = np.repeat([f"s{k}" for k in range(n_sequences)], length)
    regime = np.concatenate(
        [(np.cumsum(rng.random(length) < 0.1) + rng.integers(2)) % 2 for _ in range(n_sequences)]
    )
    X = rng.normal(size=(len(names), 2))
    is_correct = rng.random(len(names)) < np.where(regime, 0.9, 0.6)
    return X, ((X[:, 0] > 0) == is_correct).astype(int), names


@pytest.mark.parametrize("n_sequences", [20, 4])
def test_a_search_holds_out_sequences_and_reports(n_sequences):
    X, y, names = sequences(n_sequences)
    search = ReusableHoldoutSearchCV(
        LogisticRegression(), {"C": [0.1, 1.0]}, correlation=P, random_state=0, cv=3
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        search.fit(X, y, groups=names)
    holdout_names = names[search.holdout_indices_]
    training_names = names[search.train_indices_]
    assert (not set(holdout_names) & set(training_names)) == (n_sequences == 20)
    assert "independent sequences" in search.holdout_.dependence.describe()
    assert "Sequences are independent" in str(search.certificate_)
    assert not search.dependence_test_.misfit
    row = search.final_report().rows[0]
    assert row.proven[0] < row.value < row.proven[1]


def search_of_sequences(**parameters):
    """Return a search with a declared chain that is too weak for the sequences."""
    return ReusableHoldoutSearchCV(
        LogisticRegression(),
        {},
        correlation=[[0.55, 0.45], [0.45, 0.55]],
        random_state=0,
        **parameters,
    )


def test_a_chain_that_is_too_weak_gives_a_warning():
    X, y, names = sequences(20, 200)
    with warned(DependenceWarning, "MarkovChain.from_autocorrelation_time"):
        search_of_sequences().fit(X, y, groups=names)


def test_sequences_in_reversed_order_raise():
    X, y, names = sequences(20, 200)
    days = np.tile(pd.date_range("2026-01-01", periods=200)[::-1], 20)
    with refused(ValueError, "X.iloc[order]"):
        search_of_sequences().fit(pd.DataFrame(X, index=days), y, groups=names)


def test_folds_that_cut_sequences_raise():
    X, y, names = sequences(20, 200)
    with refused(ValueError, "GroupKFold()"):
        search_of_sequences(cv=KFold(3, shuffle=True)).fit(X, y, groups=names)


def test_a_validation_set_of_sequences_needs_their_names():
    X, y, names = sequences(20, 200)
    search = search_of_sequences(cv=3)
    with refused(ValueError, "groups_val="):
        search.fit(X[400:], y[400:], groups=names[400:], X_val=X[:400], y_val=y[:400])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        search.fit(
            X[400:],
            y[400:],
            groups=names[400:],
            X_val=X[:400],
            y_val=y[:400],
            groups_val=names[:400],
        )
    assert search.holdout_.dependence.n_records == 400
