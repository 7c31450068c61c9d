"""Searches accept the arguments of GridSearchCV; bad arguments raise before any fit."""

import os
import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy.stats import randint
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.cluster import KMeans
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, f1_score
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, PredefinedSplit
from sklearn.neighbors import KernelDensity
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from sklearn_bdp import HoldoutConfig, ReusableHoldout, ReusableHoldoutSearchCV
from sklearn_bdp.exceptions import HoldoutClosedError, OptimisticScoreWarning, UnboundedMetricError
from sklearn_bdp.metrics import PerRecordScore
from tests.facts import refused, resubstitution, units_of, warned

# Several holdouts of the same records, each for a test of its own.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.SecondHoldoutWarning")

GRID = {"max_depth": [1, 2, 3, 4]}


@pytest.fixture(scope="module")
def data():
    return make_classification(600, 8, n_informative=4, flip_y=0.2, random_state=0)


def search(estimator=None, grid=GRID, *, cv=3, random_state=0, **params):
    estimator = DecisionTreeClassifier(random_state=0) if estimator is None else estimator
    return ReusableHoldoutSearchCV(estimator, grid, cv=cv, random_state=random_state, **params)


class NeverFits(DecisionTreeClassifier):
    """Its fit is a failure of the test."""

    def fit(self, X, y=None, **params):
        raise AssertionError("a fit was started")


# -- type of a search -------------------------------------------------------------------------


def test_a_search_is_a_grid_search_in_both_modes(data):
    assert isinstance(search(), GridSearchCV)
    assert isinstance(search(holdout=None).fit(*data), GridSearchCV)


def test_subclasses_with_their_own_init_work(data):
    class Depths(ReusableHoldoutSearchCV):
        def __init__(self, deepest=3, holdout=0.25):
            self.deepest = deepest
            super().__init__(
                DecisionTreeClassifier(random_state=0),
                {"max_depth": list(range(1, deepest + 1))},
                cv=3,
                random_state=0,
                holdout=holdout,
            )

    fitted = sklearn.base.clone(Depths(4)).fit(*data)
    assert fitted.cv_results_["holdout_score"].shape == (4,)
    assert Depths(4, holdout=None).fit(*data).best_params_


def test_sequential_searches_work(data):
    class Climb(ReusableHoldoutSearchCV):
        def _run_search(self, evaluate_candidates):
            depth = 1
            best = -np.inf
            while True:
                results = evaluate_candidates([{"max_depth": depth}])
                if not results["mean_test_score"][-1] > best or depth == 6:
                    return
                best = results["mean_test_score"][-1]
                depth = depth + 1

    fitted = Climb(DecisionTreeClassifier(random_state=0), {}, cv=3, random_state=0).fit(*data)
    verified_results = fitted.cv_results_
    assert (
        2 <= len(verified_results["params"]) == np.isfinite(verified_results["holdout_score"]).sum()
    )


@pytest.mark.skipif(not hasattr(GridSearchCV, "set_callbacks"), reason="callbacks came with 1.9")
@pytest.mark.parametrize("holdout", [None, 0.25])
def test_callbacks_are_called_for_candidates_and_verification(data, holdout):
    from sklearn.callback import FitCallback

    class Listener:
        def __init__(self):
            self.begun = []
            self.ended = []

        def setup(self, estimator, context):
            self.begun.append("setup")

        def on_fit_task_begin(self, estimator, context, **kwargs):
            self.begun.append(context.task_name)

        def on_fit_task_end(self, estimator, context, **kwargs):
            self.ended.append(context.task_name)

        def teardown(self, estimator, context):
            self.ended.append("teardown")

    listener = Listener()
    assert isinstance(listener, FitCallback)
    search(holdout=holdout).set_callbacks(listener).fit(*data)
    assert listener.begun[0] == "setup"
    assert listener.ended[-1] == "teardown"
    assert listener.begun.count("candidate-split-evaluation") == 12
    if holdout is not None:
        assert listener.ended.count("verification") == 1
    assert sorted(listener.begun[1:]) == sorted(listener.ended[:-1])


@pytest.mark.parametrize("verbose", [0, 1, 2, 3])
def test_verbose_output_has_folds_and_verification_but_no_holdout_score(data, verbose, capsys):
    fitted = search(verbose=verbose).fit(*data)
    out = capsys.readouterr().out
    assert ("Fitting 3 folds for each of 4 candidates" in out) == (verbose > 0)
    assert ("Verifying 4 candidates" in out) == (verbose > 0)
    assert out.count("[CV") == (12 if verbose > 1 else 0)
    raw_score = fitted.best_estimator_.score(*[table[fitted.holdout_indices_] for table in data])
    assert f"{raw_score:.3f}" not in out.split("Verifying")[-1]


def test_warnings_come_once_and_point_at_the_caller(data):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        search().fit(*data, sample_weight=np.ones(600))
    weight_warnings = [warning for warning in caught if "sample_weight" in str(warning.message)]
    assert len(weight_warnings) == 1
    assert weight_warnings[0].filename == __file__


# -- choosing ----------------------------------------------------------------------------------


def test_one_se_takes_the_first_within_a_standard_error_of_the_best(data):
    fitted = search(refit="one_se").fit(*data)
    results = fitted.cv_results_
    best_index = np.argmax(fitted.cv_results_["holdout_score"])
    error = results["std_test_score"][best_index] / np.sqrt(3)
    is_within_error = results["holdout_score"] >= results["holdout_score"][best_index] - error
    assert fitted.best_index_ == np.flatnonzero(is_within_error)[0]
    assert fitted.best_estimator_.max_depth == fitted.best_params_["max_depth"]


def test_best_lower_takes_the_highest_lower_end(data):
    fitted = search(refit="best_lower").fit(*data)
    lower = fitted.cv_results_["holdout_lower"]
    assert lower[fitted.best_index_] == lower.max()


@pytest.mark.parametrize("refit", ["accuracy", False, "best_lower", lambda results: 2])
def test_of_several_metrics_one_ranks_and_all_are_verified(data, refit):
    fitted = search(scoring={"accuracy": "accuracy", "f1": "f1"}, refit=refit).fit(*data)
    results = fitted.cv_results_
    assert np.isfinite(results["holdout_score_f1"]).all()
    assert set(results["holdout_interval"]) == {"proven"}
    assert set(results["holdout_interval_f1"]) <= {"proven", "none"}
    np.testing.assert_array_equal(results["answered_from"], results["answered_from_accuracy"])
    assert np.isfinite(results["holdout_score"]).all()
    np.testing.assert_array_equal(results["cv_score"], results["mean_test_accuracy"])
    if callable(refit):
        assert fitted.best_index_ == 2


# some metrics have no bound
@pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.UnverifiedWarning")
def test_scorers_that_return_a_dict(data):
    def accuracy_and_f1(estimator, X, y):
        predicted = estimator.predict(X)
        return {"accuracy": accuracy_score(y, predicted), "f1": f1_score(y, predicted)}

    fitted = search(scoring=accuracy_and_f1, refit="accuracy").fit(*data)
    assert (fitted.cv_results_["answered_from_f1"] == "unverified").all()
    scorers_by_name = search(scoring=["accuracy", "f1"], refit="accuracy").fit(*data)
    for name in ("mean_test_accuracy", "mean_test_f1"):
        np.testing.assert_array_equal(fitted.cv_results_[name], scorers_by_name.cv_results_[name])
    assert "holdout_score_f1" not in fitted.cv_results_
    by_f1 = search(scoring=accuracy_and_f1, refit="f1").fit(*data)
    np.testing.assert_array_equal(
        by_f1.cv_results_["mean_test_f1"], scorers_by_name.cv_results_["mean_test_f1"]
    )
    with refused(ValueError, "refit='name'", "accuracy"):
        search(scoring=accuracy_and_f1).fit(*data)
    for scoring, fact in ((accuracy_and_f1, "accuracy"), (lambda estimator, X, y: 0.5, "dict")):
        with refused(ValueError, "refit='roc_auc'", fact):
            search(scoring=scoring, refit="roc_auc").fit(*data)


def test_auto_verifies_candidates_that_may_still_be_selected(data):
    X, y = data
    grid = {"max_depth": [1, 4], "min_samples_leaf": [1, 5, 449]}
    fitted = search(grid=grid, verify="auto").fit(X, y)
    results = fitted.cv_results_
    is_verified = results["answered_from"] != "unanswered"
    assert 0 < is_verified.sum() < 6
    assert not is_verified[
        [params["min_samples_leaf"] == 449 for params in results["params"]]
    ].any()
    assert is_verified[np.argmax(results["mean_test_score"])]


# -- errors before the first fit ----------------------------------------------------------------

BAD_PARAMETERS = {
    "refit is a number": ({"refit": 3}, "refit"),
    "refit is an unknown rule": ({"refit": "typo"}, "refit"),
    "n_iter is a float": ({"n_iter": 2.5}, "n_iter"),
    "verify is zero": ({"verify": 0}, "verify"),
    "verify is a float": ({"verify": 1.5}, "verify"),
    "error_score is text": ({"error_score": "typo"}, "error_score"),
    "n_jobs is text": ({"n_jobs": "two"}, "n_jobs"),
    "random_state is text": ({"random_state": "zero"}, "random_state"),
    "scoring is a number": ({"scoring": 3}, "scoring"),
    "param_grid is a number": ({"param_grid": 3}, "param_grid"),
    "param_grid is unknown": ({"param_grid": {"typo": [1]}}, "typo"),
    "a second grid is unknown": ({"param_grid": [{"max_depth": [1]}, {"typo": [1]}]}, "typo"),
    "a second space is unknown": (
        {"param_grid": [{"max_depth": [1]}, {"typo": randint(1, 9)}], "n_iter": 2},
        "typo",
    ),
    "correlation is unknown": ({"correlation": "group"}, "correlation='group'"),
    "holdout is data": ({"holdout": np.ones((20, 8))}, "ndarray"),
    "cv is one": ({"cv": 1}, "cv"),
}


@pytest.mark.parametrize("case", BAD_PARAMETERS)
def test_bad_parameters_are_named_before_any_fit(data, case, tmp_path):
    params, fact = BAD_PARAMETERS[case]
    ledger = tmp_path / "ledger.sqlite"
    with refused((ValueError, TypeError), fact):
        configured = search(NeverFits(), holdout=HoldoutConfig(ledger=ledger))
        configured.set_params(**params).fit(*data)
    assert not ledger.exists()


@pytest.mark.parametrize("name", ["sample_weight", "groups"])
def test_arguments_of_another_length_than_the_records_are_rejected(data, name):
    with refused(ValueError, name, 3, 600):
        search(NeverFits()).fit(*data, **{name: [1, 2, 3]})


@pytest.mark.parametrize("n", [0, 1])
def test_records_are_needed_on_both_sides(data, n):
    with refused(ValueError, "2", f"n_samples={n}"):
        search(NeverFits()).fit(data[0][:n], data[1][:n])


def test_a_final_report_without_a_model_is_rejected(data):
    with refused(ValueError, "refit=False"):
        search(refit=False).fit(*data).final_report()


def strings(y):
    return np.where(y == 1, "yes", "no")


MISMATCHED_HOLDOUTS = {
    "fewer columns": (lambda X, y: (X[:, :5], y), 8),
    "more columns": (lambda X, y: (np.c_[X, X], y), 8),
    "labels of another type": (lambda X, y: (X, strings(y)), "labels"),
    "labels coded otherwise": (lambda X, y: (X, y + 10), "label"),
    "two outputs": (lambda X, y: (X, np.c_[y, y]), "outputs"),
    "text for numbers": (lambda X, y: (X.astype(str), y), "text"),
    "fewer labels": (lambda X, y: (X, y[:-1]), "y_val"),
}


@pytest.mark.parametrize("reused", [False, True])
@pytest.mark.parametrize("case", MISMATCHED_HOLDOUTS)
def test_a_holdout_that_does_not_fit_is_rejected_before_any_fit(data, case, reused):
    change, fact = MISMATCHED_HOLDOUTS[case]
    X, y = data
    changed_holdout = change(X[400:], y[400:])
    arguments = {"X_val": changed_holdout[0], "y_val": changed_holdout[1]}
    estimator = search(NeverFits())
    if reused and case != "fewer labels":
        arguments = {}
        estimator = search(
            NeverFits(), holdout=ReusableHoldout(*changed_holdout), random_state=None
        )
    with refused(ValueError, fact):
        estimator.fit(X[:400], y[:400], **arguments)


def test_columns_in_another_order_are_rejected(data):
    frame = pd.DataFrame(data[0]).add_prefix("f")
    with refused(ValueError, "X_val[X.columns]"):
        search(NeverFits()).fit(
            frame[:400], data[1][:400], X_val=frame[400:].iloc[:, ::-1], y_val=data[1][400:]
        )


class FailsLater(ClassifierMixin, BaseEstimator):
    """Predicts for the training set, and raises for all other records."""

    def __init__(self, C=1.0):
        self.C = C

    def fit(self, X, y):
        self.seen_ = {row.tobytes() for row in X}
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        if not all(row.tobytes() in self.seen_ for row in X):
            raise RuntimeError(f"unknown record {X[0]}")
        return np.full(len(X), self.classes_[0])


def test_failures_of_a_model_on_holdout_records_are_not_reported(data):
    """A message about failures on every holdout record would be an answer, so none is shown."""
    holdout = ReusableHoldout(data[0][400:], data[1][400:], random_state=0)
    failing_search = search(
        FailsLater(), {"C": [1.0]}, holdout=holdout, cv=resubstitution(400),
        random_state=None,
    )  # fmt: skip
    with pytest.warns(OptimisticScoreWarning):  # from released values
        failing_search.fit(data[0][:400], data[1][:400])
    assert failing_search.best_interval_[0] == 0.0
    assert len(holdout.history()) == 1


# -- like is compared with like ------------------------------------------------------------------


def test_weights_go_to_fit_and_both_sides_count_each_record_once():
    # Records of one class weigh a hundred times as much: a weighted score would be near one.
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 2000)
    X = rng.standard_normal((2000, 3))
    weight = np.where(y == 1, 100.0, 1.0)
    with warned(UserWarning, "sample_weight"):
        fitted = search(cv=3).fit(X, y, sample_weight=weight)
    assert (fitted.best_estimator_.predict(X) == 1).mean() > 0.9
    assert abs(fitted.cv_results_["cv_score"] - 0.5).max() < 0.06
    assert abs(fitted.cv_results_["holdout_score"] - 0.5).max() < 0.06


# the metric is left to the search
@pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.DefaultMetricWarning")
def test_an_estimators_own_score_is_not_compared_with_another_metric(data):
    class Own(DecisionTreeClassifier):
        def score(self, X, y, sample_weight=None):
            return -0.277

    fitted = search(Own(random_state=0)).fit(*data)
    assert fitted.cv_results_["cv_score"].min() > 0.5  # accuracy on both sides
    train = (table[fitted.train_indices_] for table in data)
    assert fitted.score(*train) == -0.277  # and score() is the estimator's own, as in scikit-learn


# -- data in all shapes --------------------------------------------------------------------------


def log_density(estimator, X, y):
    assert y is None
    return estimator.score_samples(X)


def test_densities_need_no_targets(data):
    score = PerRecordScore(log_density, -60.0, 0.0)
    fitted = search(KernelDensity(), {"bandwidth": [0.1, 1.0, 50.0]}, scoring=score).fit(data[0])
    assert fitted.best_params_ == {"bandwidth": 1.0}
    low, high = fitted.best_interval_
    assert low <= np.mean(fitted.best_estimator_.score_samples(data[0])) <= high


def test_clusterers_need_no_targets(data):
    def closeness(estimator, X, y):
        return -estimator.transform(X).min(axis=1)

    score = PerRecordScore(closeness, -20.0, 0.0)
    model = KMeans(n_init=1, random_state=0)
    fitted = search(model, {"n_clusters": [2, 9]}, scoring=score).fit(data[0])
    assert fitted.best_params_ == {"n_clusters": 9}
    with refused(ValueError, "y"):
        search(model, {"n_clusters": [2]}).fit(data[0])


def full_folds(n):
    return [(train, test) for train, test in KFold(3, shuffle=True, random_state=0).split(range(n))]


FOLDS = {
    "a list": lambda n: full_folds(n),
    "a generator": lambda n: (fold for fold in full_folds(n)),
    "masks": lambda n: [tuple(np.isin(range(n), side) for side in fold) for fold in full_folds(n)],
    "PredefinedSplit": lambda n: PredefinedSplit(
        np.select([np.isin(range(n), test) for _, test in full_folds(n)], [0, 1, 2])
    ),
}


@pytest.mark.parametrize("cv_type", FOLDS)
def test_folds_for_all_data_are_restricted_to_the_training_set(data, cv_type):
    fitted = search(cv=FOLDS[cv_type](600), return_train_score=True).fit(*data)
    train = fitted.train_indices_
    folds = [
        (np.flatnonzero(np.isin(train, train_rows)), np.flatnonzero(np.isin(train, test_rows)))
        for train_rows, test_rows in full_folds(600)
    ]
    search_without_holdout = search(holdout=None, cv=folds).fit(data[0][train], data[1][train])
    for name in ("split0_test_score", "mean_test_score"):
        np.testing.assert_array_equal(
            fitted.cv_results_[name], search_without_holdout.cv_results_[name]
        )


@pytest.mark.parametrize(
    ("fold", "facts"),
    [
        (([], [0]), ["cv", "fold 1"]),
        (([0], np.array([], int)), ["cv", "fold 1"]),
        (([0.5], [0]), ["cv", "fold 1", "float64"]),
    ],
)
def test_folds_that_hold_no_positions_are_named(data, fold, facts):
    with refused(ValueError, *facts):
        search(cv=[*full_folds(600)[:1], fold]).fit(*data)


# few records or groups are quick
@pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.UninformativeIntervalWarning")
def test_metadata_routing_hands_weights_to_fit_and_groups_to_the_splitter(data):
    groups = np.arange(600) // 6
    with sklearn.config_context(enable_metadata_routing=True):
        tree = DecisionTreeClassifier(random_state=0).set_fit_request(sample_weight=True)
        tree.set_score_request(sample_weight=False)
        weight = np.linspace(0.5, 1.5, 600)
        fitted = search(tree, cv=GroupKFold(3), correlation="groups").fit(
            *data, groups=groups, sample_weight=weight
        )
        search_with_default_cv = search(tree, correlation="groups").fit(
            *data, groups=groups, sample_weight=weight
        )
        weighted_tree = sklearn.base.clone(tree).set_score_request(sample_weight=True)
        with refused(UnboundedMetricError, "sample_weight"):
            search(weighted_tree).fit(*data, sample_weight=weight)
    assert fitted.n_splits_ == search_with_default_cv.n_splits_ == 3
    train = fitted.train_indices_
    expected = DecisionTreeClassifier(random_state=0, **fitted.best_params_)
    expected.fit(data[0][train], data[1][train], sample_weight=weight[train])
    np.testing.assert_array_equal(fitted.predict(data[0]), expected.predict(data[0]))


# -- shared steps are fitted once ------------------------------------------------------------------


class Counting(TransformerMixin, BaseEstimator):
    """Counts its fits."""

    fits = 0

    def __init__(self, factor=1.0):
        self.factor = factor

    def fit(self, X, y=None):
        type(self).fits += 1
        self.mean_ = X.mean(axis=0)
        return self

    def transform(self, X):
        return (X - self.mean_) * self.factor


def test_a_shared_prefix_is_fitted_once_per_part_and_results_are_equal(data):
    def results(memory):
        Counting.fits = 0
        pipeline = make_pipeline(
            Counting(), StandardScaler(copy=False), LogisticRegression(), memory=memory
        )
        grid = {"logisticregression__C": [0.01, 1.0], "counting__factor": [1.0, 2.0, 3.0]}
        fitted = search(pipeline, grid).fit(*data)
        assert type(fitted.best_estimator_.memory) is type(memory)
        return fitted.cv_results_, Counting.fits

    class Forgets:
        def cache(self, function, ignore=None):
            return function

    shared_results, n_fits = results(None)
    separate_results, n_fits_without_memory = results(Forgets())
    n_parts = 4  # three folds and the whole training set
    assert (n_fits, n_fits_without_memory) == (3 * n_parts, 6 * n_parts)
    for name in shared_results:
        if "time" not in name and name not in ("holdout_score", "holdout_lower", "holdout_upper"):
            np.testing.assert_array_equal(
                np.asarray(shared_results[name]), np.asarray(separate_results[name])
            )
    np.testing.assert_allclose(
        shared_results["holdout_score"], separate_results["holdout_score"], atol=0.1
    )


@pytest.mark.client("polars", "frames in a search and in the next one")
def test_polars_frames_are_searched_and_reused(data):
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({f"f{i}": data[0][:, i] for i in range(8)})
    fitted = search().fit(frame, polars.Series(data[1]))
    array_search = search().fit(*data)
    np.testing.assert_array_equal(
        fitted.cv_results_["holdout_score"], array_search.cv_results_["holdout_score"]
    )
    second_search = search(holdout=fitted.holdout_, random_state=None)
    second_search.fit(frame[fitted.train_indices_], data[1][fitted.train_indices_])
    assert second_search.best_params_ == fitted.best_params_


ARRAY_API = """
import array_api_strict as xp, numpy as np, sklearn
from sklearn.datasets import make_classification
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn_bdp import ReusableHoldoutSearchCV
X, y = make_classification(400, 6, random_state=0)
model = LinearDiscriminantAnalysis()
cases = [(model, ""), (make_pipeline(StandardScaler(), model), "lineardiscriminantanalysis__")]
recent = tuple(map(int, sklearn.__version__.split(".")[:2])) >= (1, 8)  # for the scaler
for model, prefix in cases[: 1 + recent]:
    search = ReusableHoldoutSearchCV(model, {f"{prefix}tol": [1e-4, 1e-3]}, random_state=0)
    with sklearn.config_context(array_api_dispatch=True):
        search.fit(xp.asarray(X), xp.asarray(y))
    assert np.isfinite(search.cv_results_["holdout_score"]).all()
    again = search.set_params(holdout=search.holdout_, random_state=None)
    rows = again.train_indices_  # in the namespace of X
    with sklearn.config_context(array_api_dispatch=True):
        again.fit(xp.take(xp.asarray(X), rows, axis=0), xp.asarray(y)[rows])
    assert again.best_score_ > 0.8
"""


@pytest.mark.client("array-api-strict", "array API inputs with `SCIPY_ARRAY_API=1`")
def test_array_api_inputs_are_searched():
    pytest.importorskip("array_api_strict")
    if sklearn.__version__ < "1.7":  # it brings its own since then
        pytest.importorskip("array_api_compat")
    environment = {**os.environ, "SCIPY_ARRAY_API": "1"}  # scipy reads it once, when it starts
    process = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", ARRAY_API],
        env=environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr


# -- before the next search, and after the last ----------------------------------------------------


def test_a_preview_of_the_next_search_is_free(data):
    fitted = search().fit(*data)
    spent = fitted.holdout_.information_spent
    preview_of_400 = fitted.preview(400)
    assert str(fitted.preview()) == str(fitted.preview(4, score=fitted.best_score_))
    assert str(preview_of_400) != str(fitted.preview())
    assert fitted.holdout_.information_spent == spent


def test_the_final_report_names_searched_and_fixed_parameters(data):
    fitted = ReusableHoldoutSearchCV(SVC(kernel="linear"), {"C": [1.0]}, cv=3, random_state=0)
    assert fitted.fit(*data).final_report().rows[0].model == "SVC(C=1, kernel='linear')"


def test_the_final_report_is_on_the_best_model_and_closes_the_holdout(data):
    fitted = search().fit(*data)
    report = fitted.final_report()
    low, high = fitted.best_interval_
    assert report.lower <= report.value <= report.upper
    assert report.upper - report.lower <= high - low
    assert f"max_depth={fitted.best_params_['max_depth']}" in str(report)
    assert str(fitted.final_report()) == str(report)  # the same again: the recorded one
    with pytest.raises(HoldoutClosedError):
        fitted.final_report(scoring="balanced_accuracy")


# -- groups of a validation set ------------------------------------------------------------------


# few records or groups are quick
@pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.UninformativeIntervalWarning")
def test_groups_of_a_validation_set_can_be_passed_in_two_ways(data):
    X = data[0][:400]
    y = data[1][:400]
    group_labels = np.repeat(np.arange(100), 4)
    validation_set = {"X_val": X[300:], "y_val": y[300:]}
    options = {"correlation": "groups", "cv": 3}
    search_by_groups = search(**options).fit(
        X[:300], y[:300], groups=group_labels, **validation_set
    )
    search_by_groups_val = search(**options)
    search_by_groups_val.fit(
        X[:300], y[:300], groups=group_labels[:300], groups_val=group_labels[300:], **validation_set
    )
    assert search_by_groups.best_interval_ == search_by_groups_val.best_interval_
    assert units_of(search_by_groups.holdout_)[0] == 25
    search_by_names = search(**options).fit(
        X[:300],
        y[:300],
        groups=group_labels[:300].astype(str),
        groups_val=group_labels[300:].astype(str),
        **validation_set,
    )
    assert search_by_names.best_interval_ == search_by_groups.best_interval_


@pytest.mark.parametrize(
    "labels",
    [{"groups": np.arange(300)}, {"groups": np.arange(200)}, {"groups_val": np.arange(100)}, {}],
    ids=str,
)
def test_groups_of_one_side_only_raise_with_the_missing_argument(data, labels):
    X = data[0][:400]
    y = data[1][:400]
    with refused(ValueError, "groups_val=", 400):
        search(correlation="groups").fit(X[:300], y[:300], X_val=X[300:], y_val=y[300:], **labels)
    with refused(ValueError, "groups_val", "X_val"):
        search().fit(X, y, groups_val=y)


def test_a_metric_may_have_the_name_score():
    search = ReusableHoldoutSearchCV(
        LogisticRegression(),
        {"C": [0.1, 1.0]},
        scoring={"score": "accuracy", "f1": "f1"},
        refit="score",
        random_state=0,
    ).fit(*make_classification(500, random_state=0))
    assert {"mean_test_score", "mean_test_f1", "holdout_score_f1"} <= set(search.cv_results_)
