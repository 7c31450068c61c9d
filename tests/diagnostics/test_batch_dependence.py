"""Models whose predictions depend on neighboring rows are detected on training rows."""

import warnings

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler, scale

from sklearn_bdp import HoldoutConfig, HoldoutScorer, ReusableHoldout, ReusableHoldoutSearchCV
from sklearn_bdp.correlation import MarkovChain
from sklearn_bdp.diagnostics.scores import is_batch_dependent, non_sklearn_components
from sklearn_bdp.exceptions import BatchPredictionWarning, ScoreContractError
from sklearn_bdp.metrics import PerRecordScore
from tests.facts import refused, warned

BATCH_PHRASE = "depend on the other rows of the batch"


def moving_average(A):
    A = np.asarray(A)
    padded = np.vstack([A[:1], A, A[-1:]])
    return np.hstack([A, (padded[:-2] + padded[1:-1] + padded[2:]) / 3])


def week_before(A):
    A = np.asarray(A)
    return np.hstack([A, np.vstack([A[:7], A[:-7]])])


def half_scaled(A):
    return np.float32(np.asarray(A)) / np.float32(3)


def season_from_index(A):
    return np.c_[A, np.sin(np.asarray(A.index.day_of_year) / 58)]


def rolling_mean_by_index(A):
    return np.c_[A, A.rolling("3D").mean()]


class AddsRowNumber(TransformerMixin, BaseEstimator):
    """Adds the position of a row in its batch, not its neighbors."""

    def fit(self, X, y=None):
        self.n_features_in_ = X.shape[1]
        return self

    def transform(self, X):
        return np.c_[X, np.arange(len(X)) / 10]


class RandomPredictor(ClassifierMixin, BaseEstimator):
    """Draws when it predicts."""

    def __init__(self, seed=None):
        self.seed = seed

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return np.random.default_rng(self.seed).choice(self.classes_, size=len(X))


def series(n=900, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, (X[:, 0] + rng.normal(size=n) > 0).astype(int)


def pipeline(step):
    step = step if hasattr(step, "fit") else FunctionTransformer(step)
    return Pipeline([("f", step), ("s", StandardScaler()), ("m", LogisticRegression())])


@pytest.mark.parametrize("function", [moving_average, week_before, scale])
def test_functions_of_neighboring_rows_are_detected(function):
    X, y = series()
    assert is_batch_dependent(pipeline(function).fit(X, y), X)
    model = make_pipeline(FunctionTransformer(function), Ridge()).fit(X, y)
    assert is_batch_dependent(model, X.tolist())


@pytest.mark.parametrize(
    "step", [half_scaled, np.abs, AddsRowNumber(), FunctionTransformer(), StandardScaler()]
)
@pytest.mark.parametrize("n", [18, 60, 900])
def test_row_wise_functions_are_not_reported(step, n):
    X, y = series(n)
    assert not is_batch_dependent(pipeline(step).fit(X, y), X)
    rounded = np.round(X)  # many ties
    for final_step in (KNeighborsClassifier(3), Ridge()):
        assert not is_batch_dependent(
            make_pipeline(pipeline(step)[0], final_step).fit(rounded, y), rounded
        )


@pytest.mark.parametrize(
    "model", [RandomPredictor(), RandomPredictor(0), DummyClassifier(strategy="stratified")]
)
def test_random_predictions_are_not_reported(model):
    X, y = series()
    assert not is_batch_dependent(model.fit(X, y), X)


def test_frames_keep_an_index_in_order():
    pd = pytest.importorskip("pandas")
    X, y = series()
    X = pd.DataFrame(X, index=pd.date_range("2020", periods=len(X)))
    assert not is_batch_dependent(pipeline(season_from_index).fit(X, y), X)
    assert is_batch_dependent(pipeline(rolling_mean_by_index).fit(X, y), X)


def test_pure_sklearn_models_are_not_tested():
    X, y = series()
    components = [non_sklearn_components(model) for model in (pipeline(StandardScaler()), Ridge())]
    assert components == [[], []]
    assert moving_average in non_sklearn_components(pipeline(moving_average).fit(X, y))
    assert [type(component) for component in non_sklearn_components(pipeline(AddsRowNumber()))] == [
        AddsRowNumber
    ]


@pytest.mark.parametrize("correlation", [None, MarkovChain.from_autocorrelation_time(2)])
@pytest.mark.parametrize("n_jobs", [None, pytest.param(2, marks=pytest.mark.slow)])
def test_a_search_warns_once_and_its_certificate_reports_the_model(correlation, n_jobs):
    X, y = series()
    grid = {"f__func": [np.abs, moving_average, week_before], "m__C": [0.1, 1, 10]}
    search = ReusableHoldoutSearchCV(
        pipeline(np.abs), grid, correlation=correlation, n_jobs=n_jobs, random_state=0
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        search.fit(X, y)
    (batch_warning,) = [warning for warning in caught if BATCH_PHRASE in str(warning.message)]
    assert batch_warning.category is BatchPredictionWarning
    assert batch_warning.filename == __file__
    (line,) = [
        assumption for assumption in search.certificate_.assumptions if "NOT MET" in assumption
    ]
    assert "moving_average" in line
    assert "week_before" in line
    assert "absolute" not in line


def test_recorded_answers_repeat_the_warning_for_the_selected_model(tmp_path):
    X, y = series()
    for _ in range(2):
        search = ReusableHoldoutSearchCV(
            pipeline(scale), {"m__C": [0.1, 1]}, random_state=0,
            holdout=HoldoutConfig(ledger=tmp_path / "a.sqlite"),
        )  # fmt: skip
        with warned(BatchPredictionWarning, "FunctionTransformer"):
            search.fit(X, y)


def test_the_scorer_warns_once():
    X, y = series(1200)
    search = ReusableHoldoutSearchCV(LogisticRegression(), {"C": [1]}, random_state=0).fit(X, y)
    X = X[search.train_indices_]
    y = y[search.train_indices_]
    scorer = HoldoutScorer(search.holdout_)
    with warned(BatchPredictionWarning, "FunctionTransformer"):
        scorer(pipeline(moving_average).fit(X, y), X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scorer(pipeline(moving_average).fit(X[:500], y[:500]), X, y)
        scorer(pipeline(np.abs).fit(X, y), X, y)


class Remembering(ClassifierMixin, BaseEstimator):
    """Predicts the rows that it was fitted on, and no others."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.seen_ = {row.tobytes(): label for row, label in zip(X, y, strict=True)}
        return self

    def predict(self, X):
        return np.array([self.seen_[row.tobytes()] for row in X])


def auc_of_a_subgroup(estimator, X, y):
    in_subgroup = X[:, 0] > 0
    return np.full(
        len(y), roc_auc_score(y[in_subgroup], estimator.decision_function(X[in_subgroup]))
    )


def centered_error(estimator, X, y):
    error = np.abs(estimator.predict_proba(X)[:, 1] - y)
    return np.clip(0.5 + error - error.mean(), 0, 1)


def own_error(estimator, X, y):
    return np.abs(estimator.predict_proba(X)[:, 1] - y)


@pytest.mark.parametrize("function", [auc_of_a_subgroup, centered_error])
def test_a_score_that_reads_other_records_is_rejected_by_name(function):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((600, 3))
    y = rng.integers(0, 2, 600)
    score = PerRecordScore(function)
    search = ReusableHoldoutSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, scoring=score)
    with refused(ScoreContractError, function.__name__):
        search.fit(X, y)
    holdout = ReusableHoldout(X[400:], y[400:])
    with refused(ScoreContractError, function.__name__):
        HoldoutScorer(holdout, score)(LogisticRegression().fit(X[:400], y[:400]), X[:400], y[:400])
    assert len(holdout.history()) == 0


def test_a_per_record_score_is_accepted():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((600, 3))
    y = rng.integers(0, 2, 600)
    score = PerRecordScore(own_error, greater_is_better=False)
    model = LogisticRegression()
    grid = {"C": [0.1]}
    ReusableHoldoutSearchCV(model, grid, scoring=score, random_state=0).fit(X, y)
