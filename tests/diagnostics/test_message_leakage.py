"""Messages as a channel (theory G21): information in rejections is charged, or there is none.

Each attack collects every message of its calls. It ends with an interval that contains its
target, or with messages that are the same for another holdout.
"""

import functools
import math
import warnings

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

from sklearn_bdp import HoldoutConfig, ReusableHoldout, ReusableHoldoutSearchCV
from sklearn_bdp.exceptions import SharedRecordsError
from sklearn_bdp.feature_selection import HoldoutFeatureSelector
from sklearn_bdp.holdout import ExpertSettings
from tests.facts import refused, resubstitution

SILENT_CHECK_LENGTH = -math.log(1 - 0.05 / 1.05)  # a first check that says nothing
FIRST_FINDING_LENGTH = -math.log(0.05 / 1.05) + math.log(4)  # a first word


def noise(seed, n=300):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 4)), rng.integers(0, 2, n)


def emitted_messages(call):
    """Return the messages of a call, in warnings and in an exception."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            call()
        except Exception as error:
            return (
                *(str(warning.message) for warning in caught),
                f"{type(error).__name__}: {error}",
            )
    return tuple(str(warning.message) for warning in caught)


def is_rejected(holdout, X, y):
    try:
        holdout.check_training_rows(X, y)
    except SharedRecordsError:
        return True
    return False


# -- shared rows ----------------------------------------------------------------------------------


def labels_from_rejections(holdout, X, y, n_checks):
    """Return labels of the holdout as far as refusals give them away: y or its opposite."""
    guessed = np.full(holdout.n, -1)
    for check in range(n_checks):
        rows = np.arange(3 * check, 3 * check + 3)  # more than one: chance explains one
        for label in (0, 1):
            if is_rejected(holdout, X[rows], np.full(3, label)):
                guessed[rows] = label
    return guessed


def test_every_finding_of_shared_rows_is_charged():
    X, y = noise(0, 90)
    y = np.repeat(y[::3], 3)
    holdout = ReusableHoldout(X, y, random_state=0)
    start = holdout.information_spent
    guessed = labels_from_rejections(holdout, X, y, 30)
    np.testing.assert_array_equal(guessed, y)  # the labels can be had: at a price
    assert holdout.information_spent - start > 30 * math.log(2)  # one bit each, at least
    score = holdout.answer([0.5], [(guessed == y).astype(float)])
    assert score.lower[0] < 0.5 < score.upper[0]  # the expected score on new records


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_bisection_of_shared_rows_does_not_break_an_interval(seed):
    """2,160 calls recovered 148 of 148 records from the reported count: [0.900, 1] for 0.5."""
    X, y = noise(seed, 148)
    holdout = ReusableHoldout(X, y, random_state=seed)
    recovered = np.zeros(148, dtype=bool)
    rng = np.random.default_rng(seed)
    for _ in range(300):
        rows = rng.choice(148, size=rng.integers(2, 30), replace=False)
        guessed_labels = np.where(recovered[rows], y[rows], rng.integers(0, 2, rows.size))
        messages = emitted_messages(
            lambda rows=rows, guessed_labels=guessed_labels: holdout.check_training_rows(
                X[rows], guessed_labels
            )
        )
        assert not any(character.isdigit() for character in "".join(messages))
        if not messages:  # no shared rows reported: at most one of these labels is right
            recovered[rows] = True
    score = holdout.answer([0.5], [recovered.astype(float)])
    assert score.lower[0] <= 0.5 <= score.upper[0]


def test_a_repeated_check_is_free():
    X, y = noise(1)
    holdout = ReusableHoldout(X[200:], y[200:], random_state=0)
    start = holdout.information_spent
    holdout.check_training_rows(X[:200], y[:200])
    assert holdout.information_spent - start == pytest.approx(SILENT_CHECK_LENGTH)
    holdout.check_training_rows(X[:200][::-1], y[:200][::-1])
    holdout.check_training_rows(X[50:90], y[50:90])  # known by now
    assert holdout.information_spent - start == pytest.approx(SILENT_CHECK_LENGTH)
    for _ in range(2):
        assert is_rejected(holdout, X, y)
    # The second of two checks has a finding: j = 0 of i = 1.
    second_check_length = -math.log(0.05 / 2.05) + math.log(4)
    assert holdout.information_spent - start == pytest.approx(
        SILENT_CHECK_LENGTH + second_check_length
    )


def test_a_ledger_records_the_charge_of_a_check(path):
    X, y = noise(2)
    holdout = ReusableHoldout(X[200:], y[200:], ledger=path)
    assert is_rejected(holdout, X, y)
    spent = holdout.information_spent
    reopened = ReusableHoldout(X[200:], y[200:], ledger=path)
    assert reopened.information_spent == pytest.approx(spent)
    assert is_rejected(reopened, X, y)
    assert reopened.information_spent == pytest.approx(spent)
    unchecked_holdout = ReusableHoldout(X[200:], y[200:])
    next_length = reopened.next_code_length
    for holdout in (reopened, unchecked_holdout):
        holdout.answer([0.5], [np.full(100, 0.5)])
    assert reopened.history()[-1].code_length == pytest.approx(next_length)
    assert next_length > unchecked_holdout.history()[-1].code_length + 4.0
    assert reopened.certificate().dp_epsilon == math.inf  # an exact word has no finite level


@pytest.mark.parametrize(
    "options",
    [{"epsilon": 0.5}, {"calibration": "zhao2017", "expert": ExpertSettings(n_queries=5)}],
)
# few records are quick
@pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.UninformativeIntervalWarning")
def test_no_check_is_made_under_a_fixed_privacy_level(options):
    X, y = noise(3)
    holdout = ReusableHoldout(X[200:], y[200:], budget=3, **options)
    spent = holdout.information_spent
    assert not is_rejected(holdout, X, y)
    assert holdout.information_spent == spent


def test_rows_of_a_drawn_split_are_checked_without_the_holdout():
    X, y = noise(4)
    config = HoldoutConfig(0.25)
    search = ReusableHoldoutSearchCV(
        LogisticRegression(), {"C": [0.1, 1.0]}, holdout=config, random_state=0
    ).fit(X, y)
    train = search.train_indices_
    spent = search.holdout_.information_spent
    second_search = clone(search).set_params(
        holdout=search.holdout_, random_state=None, param_grid={"C": [3]}
    )
    with refused(SharedRecordsError, "first.train_indices_", "X[train]"):
        second_search.fit(X, y)
    assert search.holdout_.information_spent == spent
    # Mixed with records of another table they get the same error, which reveals nothing about
    # the holdout.
    other_X, other_y = noise(5)
    with refused(SharedRecordsError, "first.train_indices_", "X[train]"):
        second_search.fit(np.r_[X[train], other_X], np.r_[y[train], other_y])
    second_search.fit(X[train], y[train])
    search.holdout_.check_training_rows(other_X, other_y)  # charged
    second_search.fit(np.r_[X[train], other_X], np.r_[y[train], other_y])


# -- records among the fit parameters -------------------------------------------------------------


class Referred(ClassifierMixin, BaseEstimator):
    """Neighbors among the records of ``reference``: "verified" at 0.997 on pure noise."""

    def __init__(self, k=1):
        self.k = k

    def fit(self, X, y, reference=None, eval_set=None):
        for rows, labels in [reference] if reference is not None else eval_set:
            self.model_ = KNeighborsClassifier(self.k).fit(rows, labels)
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return self.model_.predict(X)


@pytest.mark.parametrize("name", ["reference", "eval_set"])
def test_holdout_records_among_fit_parameters_are_rejected(name):
    X, y = noise(6)
    search = ReusableHoldoutSearchCV(Referred(), {"k": [1]}, random_state=0)

    def fit_parameter(rows, labels):
        return {name: (rows, labels) if name == "reference" else [(rows, labels)]}

    with pytest.raises(SharedRecordsError):
        search.fit(X, y, **fit_parameter(X, y))
    with pytest.raises(SharedRecordsError):
        search.fit(X[:200], y[:200], X_val=X[200:], y_val=y[200:], **fit_parameter(X, y))
    with refused(SharedRecordsError, name, "X_val", "train_indices_", "holdout_indices_"):
        clone(search).fit(X, y, **fit_parameter(X[:50], y[:50]))
    with refused(SharedRecordsError, name):  # all of them are holdout records: compared, charged
        search.fit(
            X[:200], y[:200], X_val=X[200:], y_val=y[200:], **fit_parameter(X[200:], y[200:])
        )
    other_data = noise(7)
    search.fit(X, y, **fit_parameter(*other_data))
    assert search.best_interval_[0] < 0.5 < search.best_interval_[1]


@pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.SecondHoldoutWarning")
def test_split_is_known_after_rows_of_a_fit_parameter_are_rejected():
    X, y = noise(6)
    search = ReusableHoldoutSearchCV(Referred(), {"k": [1]}, random_state=0)
    with pytest.raises(SharedRecordsError):
        search.fit(X, y, reference=(X, y))
    train = search.train_indices_
    assert sorted([*train, *search.holdout_indices_]) == list(range(len(X)))
    search.fit(X, y, reference=noise(7))
    np.testing.assert_array_equal(search.train_indices_, train)
    # A failed fit leaves the split that the holdout of the last one was drawn with.
    with pytest.raises(SharedRecordsError):
        search.set_params(random_state=1).fit(X, y, reference=(X, y))
    np.testing.assert_array_equal(search.train_indices_, train)


def test_selector_names_the_fit_parameter_with_holdout_records():
    X, y = noise(6)
    selector = HoldoutFeatureSelector(Referred(), random_state=0)
    with refused(SharedRecordsError, "reference", "X_val"):
        selector.fit(X, y, reference=(X, y))
    assert len(selector.train_indices_) + len(selector.holdout_indices_) == len(X)


def test_message_does_not_name_the_table_with_records_of_a_given_holdout():
    """The word is charged; a table's name would be another one."""
    X, y = noise(6)
    other_X, other_y = noise(7)
    messages = []
    for rows, reference in ((X, other_X), (other_X, X)):
        holdout = ReusableHoldout(X[:150], y[:150], random_state=0)
        search = ReusableHoldoutSearchCV(Referred(), {"k": [1]}, holdout=holdout)
        fit = functools.partial(search.fit, rows, other_y, reference=(reference, y))
        messages.append(emitted_messages(fit))
        assert holdout.information_spent > ReusableHoldout(X[:150], other_y[:150]).information_spent
    assert "SharedRecordsError" in messages[0][-1]
    assert messages[0] == messages[1]


# -- labels and exceptions ------------------------------------------------------------------------


class NeverFits(DummyClassifier):
    def fit(self, X, y):
        raise RuntimeError("stop here")


def test_labels_of_the_holdout_are_not_listed_by_failing_fits():
    """600 free calls recovered the label set from "the holdout has N class(es) that …"."""
    X, y = noise(8)
    messages = []
    training_labels = np.where(y[:200] == 0, 0, 7)
    for holdout_labels in (y[200:], np.arange(100) % 7):  # other label sets, the same word
        holdout = ReusableHoldout(X[200:], holdout_labels)
        start = holdout.information_spent
        search = ReusableHoldoutSearchCV(NeverFits(), {"constant": [None]}, holdout=holdout)
        messages.append(emitted_messages(lambda: search.fit(X[:200], training_labels)))  # noqa: B023
        assert holdout.information_spent - start == pytest.approx(FIRST_FINDING_LENGTH)
    assert messages[0] == messages[1]


class FailsOn(ClassifierMixin, BaseEstimator):
    """Raises on each record, its class named by the record: it was printed of the last one."""

    def __init__(self, k=0):
        self.k = k

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.seen_ = {row.tobytes() for row in X}
        return self

    def predict(self, X):
        for row in X:
            if row.tobytes() not in self.seen_:
                raise type(f"Row_{row[0]}", (Exception,), {})("secret")
        return np.full(len(X), self.classes_[0])


def test_exceptions_on_holdout_records_are_not_reported():
    """ "raises K on every holdout record" fired where the raw value is 0, and named the record."""
    X, y = noise(9)
    messages = []
    for seed in (0, 1):  # two holdouts that have nothing in common
        X_val, y_val = noise(20 + seed, 100)
        search = ReusableHoldoutSearchCV(
            FailsOn(), {"k": [0, 1]}, cv=resubstitution(len(X)), random_state=0
        )
        messages.append(emitted_messages(lambda: search.fit(X, y, X_val=X_val, y_val=y_val)))  # noqa: B023
        assert search.best_interval_[0] <= 0.05
    assert messages[0] == messages[1]
    assert not any("Row_" in text for text in messages[0])


def test_rows_that_are_allowed_later_are_compared_again(path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    y = (X[:, 0] > 0).astype(int)
    holdout = ReusableHoldout(X[200:], y[200:], ledger=path)

    def fit_search(holdout):
        search = ReusableHoldoutSearchCV(LogisticRegression(), {"C": [1.0]}, holdout=holdout)
        return search.fit(X[:260], y[:260])

    for _ in range(2):
        with refused(SharedRecordsError, "allow_shared_rows"):
            fit_search(holdout)
    allowed = ReusableHoldout(X[200:], y[200:], ledger=path, allow_shared_rows=True)
    assert fit_search(allowed).best_score_ > 0.5
