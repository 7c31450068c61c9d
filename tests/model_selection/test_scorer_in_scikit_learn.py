"""One scorer in all tools of scikit-learn and other packages that take ``scoring=``."""

import contextlib
import inspect
import warnings

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
)
from sklearn.feature_selection import RFECV
from sklearn.inspection import permutation_importance
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV, RidgeCV
from sklearn.model_selection import (
    GridSearchCV,
    LearningCurveDisplay,
    TunedThresholdClassifierCV,
    cross_val_score,
    cross_validate,
    learning_curve,
    train_test_split,
    validation_curve,
)
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from sklearn_bdp import HoldoutScorer, ReusableHoldout
from sklearn_bdp.exceptions import (
    BudgetExhaustedError,
    ProcessBoundaryError,
    SharedRecordsError,
    UnboundedMetricError,
    UnknownFeaturesError,
)
from sklearn_bdp.holdout import ExpertSettings
from tests.facts import refused, warned


@pytest.fixture(scope="module")
def data():
    X, y = load_breast_cancer(return_X_y=True)
    return train_test_split(StandardScaler().fit_transform(X), y, test_size=0.4, random_state=0)


@pytest.fixture
def holdout(data):
    _, X, _, y = data
    return ReusableHoldout(X, y, random_state=0)


@pytest.fixture
def on_disk(data, tmp_path):
    _, X, _, y = data
    return ReusableHoldout(X, y, random_state=0, ledger=tmp_path / "ledger.sqlite")


@pytest.fixture
def one_column(data):
    X, _, y, _ = data
    fitted = LogisticRegression().fit(X, y)
    fitted.coef_ *= np.arange(30) == 22  # only this column matters
    return fitted


def grid_search(holdout, scoring=None, **options):
    scoring = HoldoutScorer(holdout) if scoring is None else scoring
    return GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, scoring=scoring, cv=2, **options)


def test_training_rows_get_their_plain_score(data, holdout):
    X, _, y, _ = data
    search = grid_search(holdout, return_train_score=True).fit(X, y)
    grid_search_by_accuracy = grid_search(holdout, "accuracy", return_train_score=True).fit(X, y)
    for name in ("split0_train_score", "split1_train_score"):
        np.testing.assert_allclose(
            search.cv_results_[name], grid_search_by_accuracy.cv_results_[name]
        )
    assert len(holdout.history()) == 4


def test_learning_curves_distinguish_training_and_test_rows(data, holdout):
    X, _, y, _ = data
    scorer = HoldoutScorer(holdout)
    model = DecisionTreeClassifier(random_state=0)
    _, train, test = learning_curve(model, X, y, scoring=scorer, cv=3, train_sizes=[0.3, 1.0])
    assert (train == 1.0).all()
    assert (test < 1.0).all()
    released = {round(record.value, 12) for record in holdout.history()}
    assert {round(value, 12) for value in test.ravel()} <= released
    train, test = validation_curve(
        model, X, y, scoring=scorer, cv=2, param_name="max_depth", param_range=[1, 8]
    )
    assert (train[1] > test[1]).all()


def test_learning_curve_display_has_a_name_for_the_score(data, holdout):
    pytest.importorskip("matplotlib").use("Agg")
    X, _, y, _ = data
    display = LearningCurveDisplay.from_estimator(
        LogisticRegression(), X, y, scoring=HoldoutScorer(holdout), cv=2, train_sizes=[0.5, 1.0]
    )
    assert "erified" in display.score_name


def test_models_without_fitted_state_are_one_model_in_every_fold(data, holdout):
    X = data[0][:200]
    y = np.tile([0, 1], 100)
    dummy = DummyClassifier(strategy="constant", constant=1)
    scores = cross_val_score(dummy, X, y, scoring=HoldoutScorer(holdout), cv=5)
    assert len(set(scores)) == 1
    assert len(holdout.history()) == 1


#: Since scikit-learn hands weights to scorers, it says which of them take none.
WARNS_ABOUT_WEIGHTS = "does not support sample_weight" in inspect.getsource(
    sklearn.model_selection._search
)


def unsupported_weights_warning():
    if not WARNS_ABOUT_WEIGHTS:
        return contextlib.nullcontext()
    return warned(UserWarning, "sample_weight")


def test_weights_go_to_fit_and_a_warning_names_the_unweighted_score(data, holdout):
    X, _, y, _ = data
    weights = np.where(y == 1, 5.0, 1.0)
    with unsupported_weights_warning():
        search = grid_search(holdout).fit(X, y, sample_weight=weights)
    expected = LogisticRegression(**search.best_params_).fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(search.best_estimator_.coef_, expected.coef_)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    scorers = {"a": HoldoutScorer(holdout), "b": "accuracy"}
    with unsupported_weights_warning():
        grid_search(holdout, scorers, refit="a").fit(X, y, sample_weight=weights)
    with sklearn.config_context(enable_metadata_routing=True):
        model = LogisticRegression().set_fit_request(sample_weight=True)
        search = GridSearchCV(model, {"C": [1.0]}, scoring=HoldoutScorer(holdout), cv=2)
        assert np.isfinite(search.fit(X, y, sample_weight=weights).best_score_)


@pytest.mark.parametrize("several", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_an_in_memory_holdout_gives_one_error_in_workers(data, holdout, several):
    X, _, y, _ = data
    scoring = HoldoutScorer(holdout)
    refit = True
    if several:
        scoring = {"one": scoring, "two": "accuracy"}
        refit = "one"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with refused(ProcessBoundaryError, "ledger"):
            grid_search(holdout, scoring, refit=refit, n_jobs=2).fit(X, y)
    assert len(holdout.history()) == 0


def test_a_ledger_answers_workers_as_it_answers_one_process(data, on_disk):
    X, _, y, _ = data
    search = grid_search(on_disk, n_jobs=2, return_train_score=True).fit(X, y)
    assert len(on_disk.history()) == 4
    repeated_search = grid_search(on_disk, return_train_score=True).fit(X, y)
    np.testing.assert_array_equal(
        search.cv_results_["mean_test_score"], repeated_search.cv_results_["mean_test_score"]
    )
    assert len(on_disk.history()) == 4


def test_several_metrics_of_one_holdout(data, holdout):
    X, _, y, _ = data
    scoring = {
        "accuracy": HoldoutScorer(holdout),
        "balanced": HoldoutScorer(holdout, scoring="balanced_accuracy"),
        "plain": "roc_auc",
    }
    results = cross_validate(LogisticRegression(), X, y, scoring=scoring, cv=2)
    assert all(np.isfinite(results[f"test_{name}"]).all() for name in scoring)
    assert len(holdout.history()) == 4


def test_an_exhausted_budget_ends_the_run(data):
    X, X_holdout, y, y_holdout = data
    tight = ReusableHoldout(
        X_holdout,
        y_holdout,
        budget=1,
        epsilon=100.0,
        expert=ExpertSettings(threshold=1e-3),
        random_state=0,
    )
    with pytest.raises(BudgetExhaustedError):
        cross_val_score(DummyClassifier(strategy="uniform"), X, y, scoring=HoldoutScorer(tight))


@pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.UninformativeIntervalWarning")
def test_unbounded_metrics_end_the_run_and_failing_models_do_not(data, holdout):
    X, X_holdout, y, y_holdout = data
    private = ReusableHoldout(X_holdout, y_holdout, epsilon=1.0)
    with pytest.raises(UnboundedMetricError):
        cross_val_score(LogisticRegression(), X, y, scoring=HoldoutScorer(private, scoring="f1"))

    class Fails(ClassifierMixin, BaseEstimator):
        def fit(self, X, y):
            self.classes_ = np.unique(y)
            self.n_features_in_ = X.shape[1]
            return self

        def predict(self, X):
            raise RuntimeError("no")

    with warned(UserWarning, "nan"):
        scores = cross_val_score(Fails(), X, y, scoring=HoldoutScorer(holdout), cv=2)
    assert np.isnan(scores).all()
    assert len(holdout.history()) == 0


def test_thresholds_are_tuned_with_a_plain_metric_and_verified_afterwards(data, holdout):
    X, _, y, _ = data
    scorer = HoldoutScorer(holdout)
    with refused(AttributeError, "TunedThresholdClassifierCV", "scoring='balanced_accuracy'"):
        TunedThresholdClassifierCV(LogisticRegression(), scoring=scorer).fit(X, y)
    assert len(holdout.history()) == 0
    assert scorer(TunedThresholdClassifierCV(LogisticRegression()).fit(X, y), X, y) > 0.9


def test_scores_of_predictions_are_rejected_and_folds_are_not():
    X, y = load_diabetes(return_X_y=True)
    X, X_holdout, y, y_holdout = train_test_split(X, y, random_state=0)
    holdout = ReusableHoldout(X_holdout, y_holdout, random_state=0)
    scorer = HoldoutScorer(holdout, scoring="neg_mean_absolute_error")
    with refused(ValueError, "cv=5"):
        RidgeCV([0.1, 1.0], scoring=scorer).fit(X, y)
    assert len(holdout.history()) == 0
    fitted = RidgeCV([0.1, 1.0], scoring=scorer, cv=2).fit(X, y)
    assert -80 < fitted.best_score_ < -20
    assert len(holdout.history()) == 4


def test_regularization_paths_query_each_model(data, holdout):
    X, _, y, _ = data
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        LogisticRegressionCV(scoring=HoldoutScorer(holdout), cv=2, Cs=[1e-4, 1.0]).fit(X, y)
    assert len(holdout.history()) == 4


@pytest.mark.parametrize("fraction", [0.2, None])
@pytest.mark.parametrize(
    "estimator_class", [HistGradientBoostingClassifier, HistGradientBoostingRegressor]
)
def test_early_stopping_by_the_holdout_is_rejected_and_the_remedy_works(
    data, holdout, fraction, estimator_class
):
    X, _, y, _ = data
    options = {"early_stopping": True, "validation_fraction": fraction, "max_iter": 15}
    scorer = HoldoutScorer(holdout, scoring="accuracy")
    for model in (
        estimator_class(**options),
        make_pipeline(OrdinalEncoder(), estimator_class(**options)),
    ):
        name = (
            "scoring"
            if model.__class__ is estimator_class
            else f"{estimator_class.__name__.lower()}__scoring"
        )
        with refused(ValueError, "scoring='loss'"):
            model.set_params(**{name: scorer}).fit(X, y)
    assert len(holdout.history()) == 0
    if estimator_class is HistGradientBoostingClassifier:
        assert scorer(estimator_class(**options, scoring="loss").fit(X, y), X, y) > 0.9


def test_encoded_rows_of_a_table_with_text_are_rejected_and_the_remedy_works(data):
    X, X_holdout, y, y_holdout = data
    numeric_frames = [pd.DataFrame(rows).add_prefix("c") for rows in (X, X_holdout)]
    with_text = [
        rows.assign(size=np.where(rows.c0 > 0, "large", "small")) for rows in numeric_frames
    ]
    holdout = ReusableHoldout(with_text[1], y_holdout, random_state=0)
    scorer = HoldoutScorer(holdout)
    pipeline = make_pipeline(
        make_column_transformer((OrdinalEncoder(), ["size"]), remainder="passthrough"),
        HistGradientBoostingClassifier(max_iter=10),
    ).fit(with_text[0], y)
    with refused(ValueError, "scorer(pipeline, X, y)"):
        scorer(pipeline[-1], pipeline[:-1].transform(with_text[0]), y)
    assert len(holdout.history()) == 0
    assert scorer(pipeline, with_text[0], y) > 0.8
    numeric_model = LogisticRegression().fit(
        numeric_frames[0], y
    )  # its columns are found by name, none has text
    assert scorer(numeric_model, numeric_frames[0], y) > 0.8


def flipped(self, X):
    return 1 - super(LogisticRegression, self).predict(X)


CHANGES = {
    "learned": lambda model, *_: np.negative(model[-1].coef_, out=model[-1].coef_),
    "a step": lambda model, *_: np.add(model[0].mean_, 5.0, out=model[0].mean_),
    "fitted": lambda model, X, y, _: model.fit(X[::2], y[::2]),
    "class": lambda model, X, y, patch: patch.setattr(LogisticRegression, "predict", flipped),
    "setting": lambda model, X, y, patch: patch.setattr(model[0], "with_std", False),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_model_that_changed_since_it_was_last_scored_is_another_query(
    data, holdout, change, monkeypatch
):
    X, _, y, _ = data
    scorer = HoldoutScorer(holdout)
    model = make_pipeline(StandardScaler(), LogisticRegression())
    model.fit(X, y)
    scores = {scorer(model, X, y) for _ in range(4)}
    assert len(scores) == len(holdout.history()) == 1
    CHANGES[change](model, X, y, monkeypatch)
    scorer(model, X, y)
    assert len(holdout.history()) == 2


def test_numbers_that_change_inside_a_forest_make_another_query(data, holdout):
    X, _, y, _ = data
    scorer = HoldoutScorer(holdout)
    model = RandomForestClassifier(3, random_state=0).fit(X, y)
    assert len({scorer(model, X, y) for _ in range(4)}) == len(holdout.history()) == 1
    values = model.estimators_[-1].tree_.value
    values[:] = values[:, :, ::-1].copy()
    scorer(model, X, y)
    assert len(holdout.history()) == 2


def test_a_model_that_keeps_holdout_records_is_rejected_with_altered_columns_too(data, holdout):
    X, X_holdout, y, y_holdout = data
    scorer = HoldoutScorer(holdout)
    model = KNeighborsClassifier().fit(np.vstack([X, X_holdout]), np.append(y, y_holdout))
    zeroed = X * (np.arange(30) != 3)
    for rows in (X, zeroed, zeroed, X):
        with pytest.raises(SharedRecordsError):
            scorer(model, rows, y)
    assert len(holdout.history()) == 0


def test_importances_find_the_column_that_matters(data, holdout, one_column):
    X, _, y, _ = data
    scorer = HoldoutScorer(holdout)
    importances = permutation_importance(
        one_column, X, y, scoring=scorer, n_repeats=1, random_state=0
    ).importances_mean
    assert importances.argmax() == 22
    assert importances[22] > 0.2
    assert abs(np.delete(importances, 22)).max() < 0.1


def test_columns_shuffled_in_some_of_the_rows_are_rejected(data, holdout, one_column):
    X, _, y, _ = data
    scorer = HoldoutScorer(holdout)
    base = scorer(one_column, X, y)
    assert scorer(one_column, X[10:60], y[10:60]) == base
    for max_samples in (0.5, 40):
        with refused(ValueError, "max_samples"):
            permutation_importance(one_column, X, y, scoring=scorer, max_samples=max_samples)
    assert len(holdout.history()) == 1


def test_some_rows_of_sparse_data_are_rejected(data):
    """Rows of sparse data are not compared one by one; all of them are."""
    X, X_holdout, y, y_holdout = data
    X = csr_array(X)
    holdout = ReusableHoldout(csr_array(X_holdout), y_holdout, random_state=0)
    scorer = HoldoutScorer(holdout)
    model = LogisticRegression().fit(X, y)
    base = scorer(model, X, y)
    assert scorer(model, X, y) == base
    with refused(ValueError, "dense", 50):
        scorer(model, X[10:60], y[10:60])
    assert len(holdout.history()) == 1


def test_importances_by_several_metrics(data, holdout, one_column):
    X, _, y, _ = data
    scoring = {name: HoldoutScorer(holdout, scoring=name) for name in ("accuracy", "roc_auc")}
    importances = permutation_importance(
        one_column, X, y, scoring=scoring, n_repeats=1, random_state=0
    )
    for name in scoring:
        assert importances[name].importances_mean.argmax() == 22


@pytest.mark.slow
def test_importances_in_workers(data, on_disk, one_column):
    X, _, y, _ = data
    importance = {
        jobs: permutation_importance(
            one_column,
            X,
            y,
            scoring=HoldoutScorer(on_disk),
            n_repeats=1,
            random_state=0,
            n_jobs=jobs,
        ).importances_mean
        for jobs in (2, 1)
    }
    assert importance[2][22] > 0.2
    np.testing.assert_array_equal(importance[2], importance[1])


def test_importances_accept_a_single_precision_copy_of_the_training_rows(data, holdout, one_column):
    X, _, y, _ = data
    scorer = HoldoutScorer(holdout)
    base_score = scorer(one_column, X, y)
    importances = permutation_importance(
        one_column, X.astype(np.float32), y, scoring=scorer, n_repeats=1, random_state=0
    ).importances_mean
    assert importances[22] > 0.2
    assert scorer(one_column, X, y) == base_score


def test_a_zeroed_column_is_zeroed_on_the_holdout_and_noise_is_rejected(data, holdout, one_column):
    X, _, y, _ = data
    scorer = HoldoutScorer(holdout)
    base = scorer(one_column, X, y)
    zeroed = X.copy()
    zeroed[:, 22] = 0.0
    assert scorer(one_column, zeroed, y) < base - 0.2
    noisy = X + (np.arange(30) == 22) * 0.1
    with refused(ValueError, "X", 22):
        scorer(one_column, noisy, y)
    assert len(holdout.history()) == 2


def test_data_changed_in_place_are_recognized(data, holdout, one_column):
    X, _, y, _ = data
    X = X.copy()
    scorer = HoldoutScorer(holdout)
    base = scorer(one_column, X, y)
    X[:, 22] = 0.0
    assert scorer(one_column, X, y) < base - 0.2


def test_importances_of_a_search_that_used_the_same_scorer(data, holdout):
    X, _, y, _ = data
    scorer = HoldoutScorer(holdout)
    search = grid_search(holdout, scorer).fit(X, y)
    base_score = scorer(search, X, y)
    spent = len(holdout.history())
    assert scorer(search, X, y) == base_score
    assert len(holdout.history()) == spent
    importances = permutation_importance(search, X, y, scoring=scorer, n_repeats=1, random_state=0)
    assert importances.importances_mean.max() > 0


@pytest.mark.parametrize("n_jobs", [None, pytest.param(2, marks=pytest.mark.slow)])
def test_eliminated_columns_are_found_by_their_values(data, on_disk, n_jobs):
    X, _, y, _ = data
    elimination = RFECV(
        LogisticRegression(), scoring=HoldoutScorer(on_disk), cv=2, step=10, n_jobs=n_jobs
    ).fit(X, y)
    assert len(on_disk.history()) == 2 * 4  # 30, 20, 10, 1 columns in two folds
    scores = elimination.cv_results_["mean_test_score"]
    assert scores[0] > 0.8
    assert scores[-1] > 0.93


def test_columns_with_equal_values_are_rejected(data):
    X, X_holdout, y, y_holdout = data
    X = np.column_stack([X, X])
    X_holdout = np.column_stack([X_holdout, X_holdout])
    holdout = ReusableHoldout(X_holdout, y_holdout, random_state=0)
    scorer = HoldoutScorer(holdout)
    scorer(LogisticRegression().fit(X, y), X, y)
    with refused(UnknownFeaturesError, 5):
        scorer(LogisticRegression().fit(X[:, :5], y), X[:, :5], y)
    assert len(holdout.history()) == 1
    with refused(UnknownFeaturesError, 50):
        RFECV(LogisticRegression(), scoring=scorer, cv=2, step=10).fit(X, y)
    assert len(holdout.history()) == 2  # of all columns, in the first fold


def test_the_last_interval_is_readable_from_every_copy(data, holdout):
    X, _, y, _ = data
    scorer = HoldoutScorer(holdout)
    with refused(AttributeError, "history"):
        _ = scorer.last_answer_
    search = GridSearchCV(LogisticRegression(), {"C": [1.0]}, scoring=scorer, cv=2).fit(X, y)
    answer = scorer.last_answer_
    record = holdout.history()[-1]
    assert (answer.value, answer.lower, answer.upper) == (record.value, record.lower, record.upper)
    cross_val_score(search, X, y, scoring=scorer, cv=2)
    assert scorer.last_answer_.value == holdout.history()[-1].value


class TestOtherLibraries:
    """Packages that take a scorer; each test is skipped where its package is missing."""

    @pytest.mark.client("mlxtend", "backward selection with `HoldoutScorer`")
    @pytest.mark.parametrize("cv", [0, 2])
    def test_mlxtend_backward_finds_columns_and_forward_is_rejected(self, data, cv):
        selection = pytest.importorskip("mlxtend.feature_selection")
        X, X_holdout, y, y_holdout = data
        holdout = ReusableHoldout(X_holdout[:, 20:24], y_holdout, random_state=0)
        options = {"scoring": HoldoutScorer(holdout), "cv": cv, "k_features": 1}
        selector_class = selection.SequentialFeatureSelector
        with refused(UnknownFeaturesError, "HoldoutFeatureSelector"):
            selector_class(LogisticRegression(), forward=True, **options).fit(X[:, 20:24], y)
        assert len(holdout.history()) == 0
        selector = selector_class(LogisticRegression(), forward=False, **options).fit(
            X[:, 20:24], y
        )
        assert selector.k_feature_idx_[0] in (0, 2, 3)
        assert selector.k_score_ > 0.85

    @pytest.mark.client("scikit-optimize", "`BayesSearchCV` with `HoldoutScorer`")
    def test_bayes_search(self, data, holdout):
        skopt = pytest.importorskip("skopt")
        X, _, y, _ = data
        space = {"C": (1e-2, 10.0, "log-uniform")}
        search = skopt.BayesSearchCV(
            LogisticRegression(), space, scoring=HoldoutScorer(holdout), cv=2, n_iter=2
        ).fit(X, y)
        assert search.best_score_ > 0.9
        assert len(holdout.history()) == 4
