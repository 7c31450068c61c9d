"""Two accounts of the same targets: said once, and certified."""

import copy
import pickle
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

from sklearn_bdp import HoldoutConfig, ReusableHoldout, ReusableHoldoutSearchCV
from sklearn_bdp.exceptions import SecondHoldoutWarning
from sklearn_bdp.feature_selection import HoldoutFeatureSelector

RNG = np.random.default_rng(0)
X, y = RNG.normal(size=(200, 5)), RNG.integers(0, 2, 200)
A, b = RNG.normal(size=(200, 5)), RNG.integers(0, 2, 200)
GRID = {"C": [0.1, 1.0]}
LINE = "another account had answered about the same targets"


def search(**params):
    return ReusableHoldoutSearchCV(LogisticRegression(), GRID, random_state=0, **params)


def told(run):
    """Return how often another account was warned about."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run()
    return sum("another account" in str(w.message) for w in caught)


def asked(holdout):
    holdout.answer([0.5], [np.zeros(holdout.n)])
    return holdout


def test_a_second_holdout_of_the_same_targets_is_said_and_certified():
    first = asked(ReusableHoldout(X, y, random_state=0))
    assert LINE not in str(first.certificate())
    assert told(lambda: ReusableHoldout(X[:, :2] ** 2, list(map(float, y)), random_state=1)) == 1
    with pytest.warns(SecondHoldoutWarning):
        second = ReusableHoldout(X, y, random_state=1)
    assert LINE in str(second.certificate())
    assert LINE in str(pickle.loads(pickle.dumps(second)).certificate())


def test_an_account_that_has_not_answered_counts_for_nothing():
    ReusableHoldout(X, y)
    assert told(lambda: ReusableHoldout(X, y)) == 0


@pytest.mark.parametrize("again", ["fit", "X_val", "holdout"])
def test_searches_on_the_same_arrays_are_said(again):
    val = {"X_val": A, "y_val": b}
    fitted = search().fit(X, y, **(val if again == "X_val" else {}))
    if again == "fit":
        fitted.random_state = 1  # another split of the same records
        assert told(lambda: fitted.fit(X, y)) == 1
    elif again == "X_val":
        assert told(lambda: search().fit(X[::2], y[::2], **val)) == 1
    else:  # the holdout of the search, by hand
        held = fitted.holdout_indices_
        assert told(lambda: ReusableHoldout(X[held], y[held])) == 1


# its data hold nothing to find
@pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.NothingConfirmedWarning")
# the certificate says it
@pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.SecondHoldoutWarning")
def test_selecting_on_everything_and_verifying_on_the_same_records_is_said():
    selector = HoldoutFeatureSelector(
        LogisticRegression(), on_empty="keep_best", random_state=0
    ).fit(X, y)
    chosen = selector.transform(X)
    assert told(lambda: search().set_params(random_state=1).fit(chosen, y)) == 1
    assert LINE in str(search().fit(chosen, y).certificate_)


def test_the_same_account_is_no_other():
    fitted = search().fit(X, y)
    part = fitted.train_indices_
    same = fitted.holdout_
    for holdout in (same, copy.deepcopy(same), clone(same), pickle.loads(pickle.dumps(same))):
        assert told(lambda holdout=holdout: search(holdout=holdout).fit(X[part], y[part])) == 0
    assert LINE not in str(same.certificate())


def test_ledgers_other_targets_and_folds_are_not_said(path):
    asked(ReusableHoldout(X, y, random_state=0))
    assert told(lambda: asked(ReusableHoldout(X, y, ledger=path))) == 0
    assert told(lambda: asked(ReusableHoldout(X, y, ledger=path))) == 0
    ReusableHoldout(A, b, ledger=path.with_name("unused"))
    assert told(lambda: ReusableHoldout(A, b)) == 0
    assert told(lambda: ReusableHoldout(X, y[::-1])) == 0
    assert told(lambda: search().fit(np.vstack([X, A]), np.r_[y, b])) == 0
    for _ in range(2):
        assert told(lambda: cross_val_score(search(), A, b, cv=2)) == 0


def test_an_account_in_memory_beside_a_ledger_is_said(path):
    fitted = search(holdout=HoldoutConfig(ledger=path)).fit(X, y)
    held = fitted.holdout_indices_
    assert told(lambda: ReusableHoldout(X[held], y[held])) == 1
    assert told(lambda: search().set_params(random_state=1).fit(X, y)) == 1  # of all targets
    assert LINE not in str(fitted.certificate_)


def test_rows_of_an_asked_ledger_are_known(path):
    """A subgroup of a holdout that a file keeps, asked on its own."""
    asked(ReusableHoldout(X, y, ledger=path))
    part = np.arange(200) % 2 == 0
    assert told(lambda: ReusableHoldout(X[part], y[part])) == 1


def test_a_new_holdout_of_a_subgroup_is_another_account():
    """Issue 33: a warning reports rows of a queried holdout that are held out again."""
    women = np.arange(200) % 3 == 0
    first = ReusableHoldout(X, y)
    assert told(lambda: ReusableHoldout(X[women], y[women])) == 0  # nothing was asked yet
    asked(first)
    del first
    assert told(lambda: ReusableHoldout(A, b)) == 0
    assert told(lambda: ReusableHoldout(X[women], y[women])) == 1


# few records or groups are quick
@pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.UninformativeIntervalWarning")
def test_few_or_sorted_targets_say_too_little_to_know_records_by():
    few = slice(0, 19)
    asked(ReusableHoldout(X[few], y[few], random_state=0))
    assert told(lambda: ReusableHoldout(X[few], y[few])) == 0
    ordered = np.sort(y)
    asked(ReusableHoldout(X, ordered, random_state=0))
    assert told(lambda: ReusableHoldout(A, ordered)) == 0
    assert told(lambda: ReusableHoldout(X, ordered)) == 1


def test_selectors_inside_a_searched_pipeline_are_tested_from_outside():
    inner = HoldoutFeatureSelector(LogisticRegression(), on_empty="keep_best")
    grid = {"logisticregression__C": [0.1, 1.0]}
    pipeline = make_pipeline(inner, LogisticRegression())
    assert told(lambda: ReusableHoldoutSearchCV(pipeline, grid, cv=2).fit(A, b)) == 0
    assert told(lambda: pipeline.fit(A, b)) == 1  # the search has answered about these
