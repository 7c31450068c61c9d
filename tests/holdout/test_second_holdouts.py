"""Two accounts of the same targets give one warning and a line of the certificate."""

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
X = RNG.normal(size=(200, 5))
y = RNG.integers(0, 2, 200)
A = RNG.normal(size=(200, 5))
b = RNG.integers(0, 2, 200)
GRID = {"C": [0.1, 1.0]}
CERTIFICATE_LINE = "another account had answered about the same targets"


def search(**params):
    return ReusableHoldoutSearchCV(LogisticRegression(), GRID, random_state=0, **params)


def count_warnings(run):
    """Return how often another holdout was warned about."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run()
    return sum("Another holdout" in str(warning.message) for warning in caught)


def answer_once(holdout):
    holdout.answer([0.5], [np.zeros(holdout.n)])
    return holdout


def test_a_second_holdout_of_the_same_targets_gives_a_warning_and_a_certificate_line():
    first_holdout = answer_once(ReusableHoldout(X, y, random_state=0))
    assert CERTIFICATE_LINE not in str(first_holdout.certificate())
    assert (
        count_warnings(lambda: ReusableHoldout(X[:, :2] ** 2, list(map(float, y)), random_state=1))
        == 1
    )
    with pytest.warns(SecondHoldoutWarning):
        second_holdout = ReusableHoldout(X, y, random_state=1)
    assert CERTIFICATE_LINE in str(second_holdout.certificate())
    assert CERTIFICATE_LINE in str(pickle.loads(pickle.dumps(second_holdout)).certificate())


def test_a_holdout_without_answers_gives_no_warning():
    ReusableHoldout(X, y)
    assert count_warnings(lambda: ReusableHoldout(X, y)) == 0


def test_another_split_of_the_same_records_gives_a_warning():
    fitted = search().fit(X, y)
    fitted.random_state = 1
    assert count_warnings(lambda: fitted.fit(X, y)) == 1


def test_a_second_search_with_the_same_validation_set_gives_a_warning():
    search().fit(X, y, X_val=A, y_val=b)
    assert count_warnings(lambda: search().fit(X[::2], y[::2], X_val=A, y_val=b)) == 1


def test_a_second_holdout_of_the_same_records_gives_a_warning():
    holdout_rows = search().fit(X, y).holdout_indices_
    assert count_warnings(lambda: ReusableHoldout(X[holdout_rows], y[holdout_rows])) == 1


# its data hold nothing to find
@pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.NothingConfirmedWarning")
# the certificate says it
@pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.SecondHoldoutWarning")
def test_selection_and_verification_on_the_same_records_give_a_warning():
    selector = HoldoutFeatureSelector(
        LogisticRegression(), on_empty="keep_best", random_state=0
    ).fit(X, y)
    X_selected = selector.transform(X)
    assert count_warnings(lambda: search().set_params(random_state=1).fit(X_selected, y)) == 1
    assert CERTIFICATE_LINE in str(search().fit(X_selected, y).certificate_)


def test_copies_of_a_holdout_give_no_warning():
    fitted = search().fit(X, y)
    train = fitted.train_indices_
    original = fitted.holdout_
    for holdout in (
        original,
        copy.deepcopy(original),
        clone(original),
        pickle.loads(pickle.dumps(original)),
    ):
        assert (
            count_warnings(lambda holdout=holdout: search(holdout=holdout).fit(X[train], y[train]))
            == 0
        )
    assert CERTIFICATE_LINE not in str(original.certificate())


def test_ledgers_other_targets_and_folds_give_no_warning(path):
    answer_once(ReusableHoldout(X, y, random_state=0))
    assert count_warnings(lambda: answer_once(ReusableHoldout(X, y, ledger=path))) == 0
    assert count_warnings(lambda: answer_once(ReusableHoldout(X, y, ledger=path))) == 0
    ReusableHoldout(A, b, ledger=path.with_name("unused"))
    assert count_warnings(lambda: ReusableHoldout(A, b)) == 0
    assert count_warnings(lambda: ReusableHoldout(X, y[::-1])) == 0
    assert count_warnings(lambda: search().fit(np.vstack([X, A]), np.r_[y, b])) == 0
    for _ in range(2):
        assert count_warnings(lambda: cross_val_score(search(), A, b, cv=2)) == 0


def test_a_holdout_in_memory_beside_a_ledger_gives_a_warning(path):
    fitted = search(holdout=HoldoutConfig(ledger=path)).fit(X, y)
    holdout_rows = fitted.holdout_indices_
    assert count_warnings(lambda: ReusableHoldout(X[holdout_rows], y[holdout_rows])) == 1
    assert (
        count_warnings(lambda: search().set_params(random_state=1).fit(X, y)) == 1
    )  # of all targets
    assert CERTIFICATE_LINE not in str(fitted.certificate_)


def test_rows_of_a_queried_ledger_are_recognized(path):
    """A subgroup of a holdout with a ledger, as a holdout of its own."""
    answer_once(ReusableHoldout(X, y, ledger=path))
    is_even = np.arange(200) % 2 == 0
    assert count_warnings(lambda: ReusableHoldout(X[is_even], y[is_even])) == 1


def test_a_new_holdout_of_a_subgroup_gives_a_warning():
    """Issue 33: a warning reports rows of a queried holdout that are held out again."""
    in_subgroup = np.arange(200) % 3 == 0
    first_holdout = ReusableHoldout(X, y)
    assert (
        count_warnings(lambda: ReusableHoldout(X[in_subgroup], y[in_subgroup])) == 0
    )  # no query yet
    answer_once(first_holdout)
    del first_holdout
    assert count_warnings(lambda: ReusableHoldout(A, b)) == 0
    assert count_warnings(lambda: ReusableHoldout(X[in_subgroup], y[in_subgroup])) == 1


# few records or groups are quick
@pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.UninformativeIntervalWarning")
def test_few_or_sorted_targets_do_not_identify_records():
    first_rows = slice(0, 19)
    answer_once(ReusableHoldout(X[first_rows], y[first_rows], random_state=0))
    assert count_warnings(lambda: ReusableHoldout(X[first_rows], y[first_rows])) == 0
    sorted_y = np.sort(y)
    answer_once(ReusableHoldout(X, sorted_y, random_state=0))
    assert count_warnings(lambda: ReusableHoldout(A, sorted_y)) == 0
    assert count_warnings(lambda: ReusableHoldout(X, sorted_y)) == 1


def test_selectors_inside_a_search_give_no_warning():
    selector = HoldoutFeatureSelector(LogisticRegression(), on_empty="keep_best")
    grid = {"logisticregression__C": [0.1, 1.0]}
    pipeline = make_pipeline(selector, LogisticRegression())
    assert count_warnings(lambda: ReusableHoldoutSearchCV(pipeline, grid, cv=2).fit(A, b)) == 0
    assert count_warnings(lambda: pipeline.fit(A, b)) == 1  # the search has answered about these
