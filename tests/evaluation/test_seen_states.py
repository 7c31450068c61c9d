"""A search with public states, end to end (theory G11′)."""

import warnings

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from sklearn_bdp import HoldoutConfig, ReusableHoldout, ReusableHoldoutSearchCV
from sklearn_bdp.correlation import MarkovChain
from sklearn_bdp.exceptions import (
    LedgerMismatchError,
    ModelMisfitWarning,
    UnboundedMetricError,
    VacuousGuaranteeWarning,
)

P = np.array([[0.99, 0.01], [0.02, 0.98]])
GRID = {"C": [0.01, 1.0]}


def series(n, rng, *, hidden=False):
    """Return records of two slow regimes, easy and hard; ``hidden``: a third thing goes on."""
    states, draws = np.zeros(n, dtype=int), rng.random(n)
    for i in range(1, n):
        states[i] = draws[i] > P[states[i - 1], 0]
    noise = np.where(states == 0, 0.3, 3.0)
    if hidden:
        noise = np.where(np.cumsum(rng.random(n) < 0.02) % 2, noise, 20.0)
    X = rng.normal(size=(n, 2))
    y = (X[:, 0] + noise * rng.normal(size=n) > 0).astype(int)
    return X, y, states


def searched(seed, *, seen=True, **options):
    X, y, states = series(3000, np.random.default_rng(seed))
    model = MarkovChain(P, states=states if seen else None)
    search = ReusableHoldoutSearchCV(
        LogisticRegression(), GRID, correlation=model, random_state=0, **options
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error", ModelMisfitWarning)
        warnings.simplefilter("ignore", VacuousGuaranteeWarning)  # of the hidden chain
        return search.fit(X, y)


# each round makes its holdout anew
@pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.AnotherAccountWarning")
def test_interval_covers_the_long_run_and_is_that_of_independent_records():
    """G11′: dependence costs nothing; the score is that of a stationary record."""
    for seed in range(6):
        search = searched(seed)
        low, high = search.best_interval_
        rng = np.random.default_rng(100 + seed)
        X = rng.normal(size=(60_000, 2))
        states = rng.random(60_000) < 1 / 3
        y = X[:, 0] + np.where(states, 3.0, 0.3) * rng.normal(size=60_000) > 0
        assert low <= np.mean(search.predict(X) == y) <= high
        assert high - low < 0.5 * np.subtract(*searched(seed, seen=False).best_interval_[::-1])


def test_last_records_are_held_out_without_a_gap():
    search = searched(0)
    assert search.train_indices_.tolist() == list(range(2250))
    assert search.holdout_indices_.tolist() == list(range(2250, 3000))
    assert search.misfit_report_.misfit is False


def test_a_ledger_resumes_and_knows_the_states(tmp_path):
    path = tmp_path / "seen.db"
    first = searched(0, holdout=HoldoutConfig(ledger=path))
    again = searched(0, holdout=HoldoutConfig(ledger=path))
    assert again.best_interval_ == first.best_interval_
    assert len(again.holdout_.history()) == len(first.holdout_.history())
    assert "public states" in str(again.certificate_)
    X, y, states = series(3000, np.random.default_rng(0))
    other = MarkovChain(P, states=1 - states[2250:])
    with pytest.raises(LedgerMismatchError, match="correlation"):
        ReusableHoldout(X[2250:], y[2250:], correlation=other, ledger=path)


# each round makes its holdout anew
@pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.AnotherAccountWarning")
def test_privacy_counts_the_largest_weight():
    """G11′: one record of a rare state moves the score by its weight, not by 1/n."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(1000, 2)), rng.integers(0, 2, 1000)
    states = (np.arange(1000) >= 990).astype(int)  # 10 of 1000 stand for a third
    largest = 1000 * (1 / 3) / 10
    hits = np.arange(1000)[None] % 2 == 0  # half of each state
    levels = {}
    for name, correlation in (("seen", MarkovChain(P, states=states)), ("plain", None)):
        holdout = ReusableHoldout(X, y, correlation=correlation, random_state=0)
        holdout.answer([0.5], hits)
        certificate = holdout.certificate()
        levels[name] = certificate.dp_epsilon * certificate.mechanism["query_scale"]
    assert levels["seen"] == pytest.approx(levels["plain"] * largest, rel=1e-3)
    # With a level for life the noise itself grows: answers stray from the mean accordingly.
    values = {}
    for name, correlation in (("seen", MarkovChain(P, states=states)), ("plain", None)):
        errors = []
        for seed in range(40):
            holdout = ReusableHoldout(
                X, y, correlation=correlation, epsilon=5.0, budget=1, random_state=seed
            )
            weights = holdout.model.record_weights(1000)
            mean = hits[0].mean() if weights is None else weights @ hits[0]
            errors.append(abs(float(holdout.answer([0.0], hits).values[0]) - mean))
        values[name] = np.median(errors)
    assert values["seen"] > 4 * values["plain"]


def test_what_is_no_mean_and_weights_of_records_are_refused():
    with pytest.raises(UnboundedMetricError, match="not a mean over records"):
        searched(0, scoring="roc_auc")
    X, y, states = series(400, np.random.default_rng(0))
    with pytest.raises(ValueError, match="n must be 399"):
        ReusableHoldoutSearchCV(
            LogisticRegression(), GRID, correlation=MarkovChain(P, states=states[:-1])
        ).fit(X, y)


def test_what_goes_on_inside_a_state_is_warned_about():
    X, y, states = series(3000, np.random.default_rng(1), hidden=True)
    search = ReusableHoldoutSearchCV(
        LogisticRegression(), GRID, correlation=MarkovChain(P, states=states), random_state=0
    )
    with pytest.warns(ModelMisfitWarning, match="leave states= out"):
        search.fit(X, y)
