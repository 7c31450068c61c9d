"""An interrupted search goes on where it stopped: no fit is lost, no budget is spent twice."""

import subprocess
import sys
import traceback
import warnings

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from sklearn_bdp import HoldoutConfig, ReusableHoldoutSearchCV
from sklearn_bdp.exceptions import SecondHoldoutWarning
from sklearn_bdp.metrics.base import Evaluation

# Several holdouts of the same records, each for a test of its own.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.SecondHoldoutWarning")

GRID = {"C": np.logspace(-3, 3, 10)}  # 10 candidates, 3 folds and the whole: 40 fits
SIZES = []


@pytest.fixture(scope="module")
def data():
    # Sorted by class, so that the search skips the test of independence by row order, which might
    # take three more fits, depending on the split.
    X, y = load_breast_cancer(return_X_y=True)
    order = np.argsort(y, kind="stable")
    return StandardScaler().fit_transform(X)[order, :6], y[order]


class Counted(LogisticRegression):
    """A class of the user's, whose fits are counted."""

    first = 0

    def fit(self, X, y):
        return super().fit(X[self.first :], y[self.first :])


class Counter:
    """Makes models, counts their fits, and stops at one of them as Ctrl-C would.

    A counter that the class itself holds would make another model of each fit.
    """

    fits = 0
    stop = None

    def __call__(self):
        return Counted()


@pytest.fixture
def fit_counter(monkeypatch):
    counter = Counter()
    original_fit = LogisticRegression.fit

    def fit(self, X, y):
        counter.fits += 1
        if counter.fits == counter.stop:
            raise KeyboardInterrupt
        return original_fit(self, X, y)

    monkeypatch.setattr(LogisticRegression, "fit", fit)
    return counter


def make_search(estimator, **params):
    return ReusableHoldoutSearchCV(estimator, GRID, cv=3, **params)


def interrupt(search, data, fit_counter, at):
    fit_counter.fits = 0
    fit_counter.stop = at
    with pytest.raises(KeyboardInterrupt) as caught:
        search.fit(*data)
    fit_counter.fits = 0
    fit_counter.stop = None
    return caught


@pytest.mark.parametrize("seed", [None, pytest.param(0, marks=pytest.mark.slow)])
def test_ctrl_c_at_fit_39_of_40_keeps_the_others(data, fit_counter, seed):
    search = make_search(fit_counter(), random_state=seed)
    interrupt(search, data, fit_counter, 39)
    search.fit(*data)
    # The interrupted fit and the last one; users' classes are keyed by the fitted model, so that
    # answered candidates have to be fitted again to be recognized, but no fold has.
    assert fit_counter.fits <= 10
    assert len(search.holdout_.history()) == 10
    assert np.isfinite(search.cv_results_["holdout_score"]).all()


def test_recorded_candidates_are_not_fitted_again(data, monkeypatch):
    fits = []
    original_fit = LogisticRegression.fit

    def fit(self, X, y):
        fits.append(len(y))
        if len(fits) == 39 and not was_interrupted:
            raise KeyboardInterrupt
        return original_fit(self, X, y)

    was_interrupted = []
    monkeypatch.setattr(LogisticRegression, "fit", fit)
    search = make_search(LogisticRegression(random_state=0), random_state=0)
    with pytest.raises(KeyboardInterrupt):
        search.fit(*data)
    was_interrupted.append(True)
    fits.clear()
    search.fit(*data)
    # Two whole fits were missing, and the best of the eight may have to be fitted to be kept.
    assert len(fits) in (2, 3)
    assert len(search.holdout_.history()) == 10
    numbers = {record.batch for record in search.holdout_.history()}
    assert numbers == {1, 2}  # finished candidates were queried before the exit


def test_interrupted_in_the_folds_only_training_scores_are_kept(data, fit_counter):
    search = make_search(fit_counter(), random_state=0)
    interrupt(search, data, fit_counter, 20)
    search.fit(*data)
    assert fit_counter.fits == 40 - 19
    assert len(search.holdout_.history()) == 10


def test_a_resumed_search_has_the_results_of_an_uninterrupted_one(data, fit_counter):
    search = make_search(fit_counter(), random_state=0)
    interrupt(search, data, fit_counter, 25)
    resumed = search.fit(*data).cv_results_
    uninterrupted = make_search(fit_counter(), random_state=0).fit(*data).cv_results_
    for name in uninterrupted:
        if "time" not in name:
            np.testing.assert_array_equal(
                np.asarray(resumed[name]), np.asarray(uninterrupted[name])
            )


def test_counters_of_a_class_do_not_change_the_search(data, fit_counter):
    class Logged(Counted):
        def fit(self, X, y):
            SIZES.append(len(y))  # in the digest of the class, whose code names it
            return super().fit(X, y)

    search = make_search(Logged(), random_state=0)
    interrupt(search, data, fit_counter, 39)
    search.fit(*data)
    assert fit_counter.fits <= 10
    assert len(search.holdout_.history()) == 10


def test_other_data_or_parameters_start_a_new_search(data, fit_counter):
    search = make_search(fit_counter(), random_state=0)
    interrupt(search, data, fit_counter, 25)
    search.fit(data[0] * 2.0, data[1])
    assert fit_counter.fits == 40
    interrupt(search, data, fit_counter, 25)
    search.set_params(cv=4).fit(*data)
    assert fit_counter.fits == 50


def test_a_finished_search_removes_the_checkpoint(data, fit_counter):
    search = make_search(fit_counter(), random_state=0)
    interrupt(search, data, fit_counter, 25)
    assert vars(search.fit(*data)).keys() == vars(make_search(fit_counter()).fit(*data)).keys()


def test_folds_of_a_class_that_was_changed_are_fitted_again(data, fit_counter, monkeypatch):
    search = make_search(fit_counter(), random_state=0)
    interrupt(search, data, fit_counter, 25)
    monkeypatch.setattr(Counted, "first", 1)  # read by ``fit`` alone
    search.fit(*data)
    assert fit_counter.fits == 40


def test_with_a_ledger_a_new_process_is_not_charged_twice(data, fit_counter, tmp_path):
    config = HoldoutConfig(ledger=tmp_path / "ledger.sqlite")
    interrupt(
        make_search(fit_counter(), holdout=config), data, fit_counter, 39
    )  # random_state=None
    resumed = make_search(fit_counter(), holdout=config).fit(
        *data
    )  # another object: nothing but the file
    assert len(resumed.holdout_.history()) == 10  # among them are queries before the exit
    # The ledger, which exists by now, does not change the identity of the search.
    assert fit_counter.fits <= 10 + 3  # dependence is looked at in folds of its own
    assert not list(tmp_path.glob("*.folds"))


SCRIPT = """
import sys
import numpy as np
from sklearn.datasets import make_regression
from sklearn.linear_model import Ridge
from sklearn_bdp import HoldoutConfig, ReusableHoldoutSearchCV

folder, stop = sys.argv[1], int(sys.argv[2])
fits, plain = [], Ridge.fit

def fit(self, X, y):
    fits.append(len(y))
    if len(fits) == stop:
        raise KeyboardInterrupt
    return plain(self, X, y)

Ridge.fit = fit
X, y = make_regression(300, 4, noise=20.0, random_state=0)
config = HoldoutConfig(ledger=folder + "/ledger.sqlite")
search = ReusableHoldoutSearchCV(Ridge(), {"alpha": np.logspace(-3, 3, 10)}, holdout=config, cv=3)
try:
    search.fit(X, y)
    print(len(fits), *search.cv_results_["mean_test_score"], *search.best_interval_)
except KeyboardInterrupt:
    print("stopped", len(search.holdout_.history()) if hasattr(search, "holdout_") else 0)
"""


@pytest.mark.slow
def test_the_same_script_in_a_new_process_repeats_no_finished_fold(tmp_path):
    def run(folder, stop):
        folder.mkdir(exist_ok=True)
        command = [sys.executable, "-W", "ignore", "-c", SCRIPT, str(folder), str(stop)]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()

    assert run(tmp_path / "one", 20)[0] == "stopped"
    (checkpoint,) = (tmp_path / "one").glob("*.folds")
    # The last line is cut off, as by a process that is killed while it writes.
    checkpoint.write_text(checkpoint.read_text() + '["torn', "utf-8")
    n_fits_text, *results = run(tmp_path / "one", -1)
    # 19 folds were finished. Dependence is tested in other folds.
    assert int(n_fits_text) <= 40 - 19 + 3
    assert not list((tmp_path / "one").glob("*.folds"))
    assert np.isfinite(np.array(results, float)).all()


def test_with_a_ledger_the_same_script_has_the_same_split_and_one_charge(data, tmp_path):
    ledger = tmp_path / "ledger.sqlite"
    first_search = make_search(
        LogisticRegression(random_state=0), holdout=HoldoutConfig(ledger=ledger)
    ).fit(*data)
    spent = first_search.holdout_.information_spent
    second_search = make_search(
        LogisticRegression(random_state=0), holdout=HoldoutConfig(ledger=ledger)
    ).fit(*data)
    np.testing.assert_array_equal(first_search.holdout_indices_, second_search.holdout_indices_)
    assert second_search.holdout_.information_spent == spent
    assert "random_state" not in str(second_search.certificate_)
    np.testing.assert_array_equal(
        first_search.cv_results_["holdout_score"], second_search.cv_results_["holdout_score"]
    )


def test_sampled_candidates_are_restored(data, fit_counter):
    space = {"C": np.logspace(-3, 3, 500)}
    search = ReusableHoldoutSearchCV(fit_counter(), space, n_iter=10, cv=3)
    interrupt(search, data, fit_counter, 25)
    search.fit(*data)
    assert fit_counter.fits == 40 - 24


class Raises(ClassifierMixin, BaseEstimator):
    """Fails in a chosen way after some fits."""

    def __init__(self, C=1.0, error=KeyboardInterrupt, at=8):
        self.C = C
        self.error = error
        self.at = at

    def fit(self, X, y):
        counter.append(1)
        if len(counter) == self.at:
            raise self.error("stopped on purpose")
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return np.full(len(X), self.classes_[0])


counter = []


def raw_scores(error):
    """Return the evaluations on the holdout that the frames of a traceback hold."""
    frame_locals = []
    while error is not None:
        frame_locals += [
            dict(frame.f_locals) for frame, _ in traceback.walk_tb(error.__traceback__)
        ]
        error = error.__context__
    visited_ids = set()
    return [
        evaluation
        for variables in frame_locals
        for evaluation in evaluations_in(variables, visited_ids)
    ]


def evaluations_in(value, visited_ids, depth=0):
    """Yield the evaluations inside an object, each once."""
    if id(value) in visited_ids or depth > 6:
        return
    visited_ids.add(id(value))
    if isinstance(value, Evaluation):
        yield value
        return
    items = []
    if isinstance(value, dict):
        items = value.values()
    elif isinstance(value, list | tuple | set):
        items = value
    elif type(value).__module__.startswith("sklearn_bdp"):
        items = [getattr(value, "__dict__", None)]
    for item in items:
        yield from evaluations_in(item, visited_ids, depth + 1)


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError, RuntimeError])
def test_no_frame_of_a_traceback_holds_a_raw_score(data, error):
    counter.clear()
    search = ReusableHoldoutSearchCV(
        Raises(error=error, at=20), {"C": list(range(5))}, cv=3, error_score="raise", random_state=0
    )
    with pytest.raises(error) as caught:
        search.fit(*data)
    assert raw_scores(caught.value) == []
    if error is not KeyboardInterrupt:
        assert any("in fit" in note for note in caught.value.__notes__)  # where it happened


def test_an_error_after_the_last_answer_loses_no_holdout(data, fit_counter):
    """A rule for refit with a typo: the answers are recorded, and the next fit finds them."""
    search = make_search(fit_counter(), refit=lambda results: results["holdout_scores"].argmax())
    with pytest.raises(KeyError):
        search.fit(*data)
    fits = fit_counter.fits
    fit_counter.fits = 0
    search.refit = lambda results: results["holdout_score"].argmax()
    with warnings.catch_warnings():
        warnings.simplefilter("error", SecondHoldoutWarning)
        search.fit(*data)
    assert len(search.holdout_.history()) == len(GRID["C"])
    assert fit_counter.fits < fits
