"""Messages as a channel (theory G21): information in rejections is charged, or there is none.

Each attack collects every message of its calls. It ends with an interval that contains its
target, or with messages that are the same for another holdout.
"""

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
from tests.facts import refused

SILENT = -math.log(1 - 0.05 / 1.05)  # a first check that says nothing
FIRST = -math.log(0.05 / 1.05) + math.log(4)  # a first word


def noise(seed, n=300):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 4)), rng.integers(0, 2, n)


def heard(call):
    """Return the messages of a call, in warnings and in an exception."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            call()
        except Exception as error:
            return (*(str(one.message) for one in caught), f"{type(error).__name__}: {error}")
    return tuple(str(one.message) for one in caught)


def refuses(holdout, X, y):
    try:
        holdout.check_training_rows(X, y)
    except SharedRecordsError:
        return True
    return False


# -- shared rows ----------------------------------------------------------------------------------


def found_by_asking(holdout, X, y, n_asked):
    """Return labels of the holdout as far as refusals give them away: y or its opposite."""
    guessed = np.full(holdout.n, -1)
    for place in range(n_asked):
        rows = np.arange(3 * place, 3 * place + 3)  # more than one: chance explains one
        for label in (0, 1):
            if refuses(holdout, X[rows], np.full(3, label)):
                guessed[rows] = label
    return guessed


def test_every_word_about_shared_rows_is_charged():
    X, y = noise(0, 90)
    y = np.repeat(y[::3], 3)
    holdout = ReusableHoldout(X, y, random_state=0)
    start = holdout.information_spent
    guessed = found_by_asking(holdout, X, y, 30)
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
    known = np.zeros(148, dtype=bool)
    rng = np.random.default_rng(seed)
    for _ in range(300):
        rows = rng.choice(148, size=rng.integers(2, 30), replace=False)
        guess = np.where(known[rows], y[rows], rng.integers(0, 2, rows.size))
        said = heard(lambda rows=rows, guess=guess: holdout.check_training_rows(X[rows], guess))
        assert not any(sign.isdigit() for sign in "".join(said))
        if not said:  # no shared rows reported: at most one of these labels is right
            known[rows] = True
    score = holdout.answer([0.5], [known.astype(float)])
    assert score.lower[0] <= 0.5 <= score.upper[0]


def test_the_same_question_is_answered_from_the_record():
    X, y = noise(1)
    holdout = ReusableHoldout(X[200:], y[200:], random_state=0)
    start = holdout.information_spent
    holdout.check_training_rows(X[:200], y[:200])
    assert holdout.information_spent - start == pytest.approx(SILENT)
    holdout.check_training_rows(X[:200][::-1], y[:200][::-1])
    holdout.check_training_rows(X[50:90], y[50:90])  # known by now
    assert holdout.information_spent - start == pytest.approx(SILENT)
    for _ in range(2):
        assert refuses(holdout, X, y)
    # The second of two checks speaks: j = 0 of i = 1.
    spoken = -math.log(0.05 / 2.05) + math.log(4)
    assert holdout.information_spent - start == pytest.approx(SILENT + spoken)


def test_a_ledger_keeps_what_was_said(path):
    X, y = noise(2)
    holdout = ReusableHoldout(X[200:], y[200:], ledger=path)
    assert refuses(holdout, X, y)
    spent = holdout.information_spent
    again = ReusableHoldout(X[200:], y[200:], ledger=path)
    assert again.information_spent == pytest.approx(spent)
    assert refuses(again, X, y)
    assert again.information_spent == pytest.approx(spent)
    plain = ReusableHoldout(X[200:], y[200:])
    for holdout in (again, plain):
        holdout.answer([0.5], [np.full(100, 0.5)])
    assert again.history()[-1].code_length == pytest.approx(spent)
    assert spent > plain.history()[-1].code_length + 4.0
    assert again.certificate().dp_epsilon == math.inf  # an exact word has no finite level


@pytest.mark.parametrize(
    "options",
    [{"epsilon": 0.5}, {"calibration": "zhao2017", "expert": ExpertSettings(n_queries=5)}],
)
# few records are quick
@pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.UninformativeIntervalWarning")
def test_no_check_is_made_where_a_level_is_promised(options):
    X, y = noise(3)
    holdout = ReusableHoldout(X[200:], y[200:], budget=3, **options)
    spent = holdout.information_spent
    assert not refuses(holdout, X, y)
    assert holdout.information_spent == spent


def test_a_drawn_split_needs_no_look_at_the_holdout():
    X, y = noise(4)
    config = HoldoutConfig(0.25)
    first = ReusableHoldoutSearchCV(
        LogisticRegression(), {"C": [0.1, 1.0]}, holdout=config, random_state=0
    ).fit(X, y)
    part, spent = first.train_indices_, first.holdout_.information_spent
    again = clone(first).set_params(
        holdout=first.holdout_, random_state=None, param_grid={"C": [3]}
    )
    with refused(SharedRecordsError, "X[search.train_indices_]"):
        again.fit(X, y)
    assert first.holdout_.information_spent == spent
    # Mixed with records of another table they get the same error, which reveals nothing about
    # the holdout.
    other, labels = noise(5)
    with refused(SharedRecordsError, "X[search.train_indices_]"):
        again.fit(np.r_[X[part], other], np.r_[y[part], labels])
    again.fit(X[part], y[part])
    first.holdout_.check_training_rows(other, labels)  # charged
    again.fit(np.r_[X[part], other], np.r_[y[part], labels])


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
def test_holdout_records_among_fit_parameters_are_refused(name):
    X, y = noise(6)
    search = ReusableHoldoutSearchCV(Referred(), {"k": [1]}, random_state=0)

    def passed(rows, labels):
        return {name: (rows, labels) if name == "reference" else [(rows, labels)]}

    with pytest.raises(SharedRecordsError):
        search.fit(X, y, **passed(X, y))
    with pytest.raises(SharedRecordsError):
        search.fit(X[:200], y[:200], X_val=X[200:], y_val=y[200:], **passed(X, y))
    with refused(SharedRecordsError, name, "X_val", "train_indices_", "holdout_indices_"):
        clone(search).fit(X, y, **passed(X[:50], y[:50]))
    with refused(SharedRecordsError, name):  # all of them are holdout records: compared, charged
        search.fit(X[:200], y[:200], X_val=X[200:], y_val=y[200:], **passed(X[200:], y[200:]))
    other = noise(7)
    search.fit(X, y, **passed(*other))
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


def test_message_does_not_tell_which_table_holds_records_of_a_given_holdout():
    """The word is charged; a table's name would be another one."""
    X, y = noise(6)
    other, labels = noise(7)
    messages = []
    for rows, reference in ((X, other), (other, X)):
        holdout = ReusableHoldout(X[:150], y[:150], random_state=0)
        search = ReusableHoldoutSearchCV(Referred(), {"k": [1]}, holdout=holdout)
        messages.append(heard(lambda: search.fit(rows, labels, reference=(reference, y))))  # noqa: B023
        assert holdout.information_spent > ReusableHoldout(X[:150], labels[:150]).information_spent
    assert "SharedRecordsError" in messages[0][-1]
    assert messages[0] == messages[1]


# -- labels and exceptions ------------------------------------------------------------------------


class NeverFits(DummyClassifier):
    def fit(self, X, y):
        raise RuntimeError("stop here")


def test_labels_of_the_holdout_are_not_listed_by_failing_fits():
    """600 free calls recovered the label set from "the holdout has N class(es) that …"."""
    X, y = noise(8)
    said, labels = [], np.where(y[:200] == 0, 0, 7)
    for held in (y[200:], np.arange(100) % 7):  # other label sets, the same word
        holdout = ReusableHoldout(X[200:], held)
        start = holdout.information_spent
        search = ReusableHoldoutSearchCV(NeverFits(), {"constant": [None]}, holdout=holdout)
        said.append(heard(lambda: search.fit(X[:200], labels)))  # noqa: B023
        assert holdout.information_spent - start == pytest.approx(FIRST)
    assert said[0] == said[1]


class FailsOn(ClassifierMixin, BaseEstimator):
    """Raises on each record, its class named by the record: it was printed of the last one."""

    def __init__(self, k=0):
        self.k = k

    def fit(self, X, y):
        self.classes_, self.seen_ = np.unique(y), {row.tobytes() for row in X}
        return self

    def predict(self, X):
        for row in X:
            if row.tobytes() not in self.seen_:
                raise type(f"Row_{row[0]}", (Exception,), {})("secret")
        return np.full(len(X), self.classes_[0])


def test_exceptions_on_holdout_records_are_not_told():
    """ "raises K on every holdout record" fired where the raw value is 0, and named the record."""
    X, y = noise(9)
    said = []
    for other in (0, 1):  # two holdouts that have nothing in common
        held, labels = noise(20 + other, 100)
        search = ReusableHoldoutSearchCV(
            FailsOn(), {"k": [0, 1]}, training_score="resubstitution", random_state=0
        )
        said.append(heard(lambda: search.fit(X, y, X_val=held, y_val=labels)))  # noqa: B023
        assert search.best_interval_[0] <= 0.05
    assert said[0] == said[1]
    assert not any("Row_" in text for text in said[0])
