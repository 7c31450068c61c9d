"""Models that look at neighbouring rows when they predict are noticed on training rows."""

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

ABOUT = "depend on the other rows of the batch"


def centred(A):
    A = np.asarray(A)
    padded = np.vstack([A[:1], A, A[-1:]])
    return np.hstack([A, (padded[:-2] + padded[1:-1] + padded[2:]) / 3])


def week_before(A):
    A = np.asarray(A)
    return np.hstack([A, np.vstack([A[:7], A[:-7]])])


def half_scaled(A):
    return np.float32(np.asarray(A)) / np.float32(3)


def of_the_index(A):
    return np.c_[A, np.sin(np.asarray(A.index.day_of_year) / 58)]


def week_by_index(A):
    return np.c_[A, A.rolling("3D").mean()]


class Numbered(TransformerMixin, BaseEstimator):
    """Adds the place of a row in its batch: not its neighbours."""

    def fit(self, X, y=None):
        self.n_features_in_ = X.shape[1]
        return self

    def transform(self, X):
        return np.c_[X, np.arange(len(X)) / 10]


class Drawing(ClassifierMixin, BaseEstimator):
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


@pytest.mark.parametrize("function", [centred, week_before, scale])
def test_functions_of_neighbouring_rows_are_found(function):
    X, y = series()
    assert is_batch_dependent(pipeline(function).fit(X, y), X)
    model = make_pipeline(FunctionTransformer(function), Ridge()).fit(X, y)
    assert is_batch_dependent(model, X.tolist())


@pytest.mark.parametrize(
    "step", [half_scaled, np.abs, Numbered(), FunctionTransformer(), StandardScaler()]
)
@pytest.mark.parametrize("n", [18, 60, 900])
def test_functions_of_one_row_are_not(step, n):
    X, y = series(n)
    assert not is_batch_dependent(pipeline(step).fit(X, y), X)
    rounded = np.round(X)  # many ties
    for last in (KNeighborsClassifier(3), Ridge()):
        assert not is_batch_dependent(
            make_pipeline(pipeline(step)[0], last).fit(rounded, y), rounded
        )


@pytest.mark.parametrize("model", [Drawing(), Drawing(0), DummyClassifier(strategy="stratified")])
def test_models_that_draw_do_not_look_at_neighbours(model):
    X, y = series()
    assert not is_batch_dependent(model.fit(X, y), X)


def test_frames_keep_an_index_in_order():
    pd = pytest.importorskip("pandas")
    X, y = series()
    X = pd.DataFrame(X, index=pd.date_range("2020", periods=len(X)))
    assert not is_batch_dependent(pipeline(of_the_index).fit(X, y), X)
    assert is_batch_dependent(pipeline(week_by_index).fit(X, y), X)


def test_sklearn_alone_is_not_asked():
    X, y = series()
    asked = [non_sklearn_components(model) for model in (pipeline(StandardScaler()), Ridge())]
    assert asked == [[], []]
    assert centred in non_sklearn_components(pipeline(centred).fit(X, y))
    assert [type(part) for part in non_sklearn_components(pipeline(Numbered()))] == [Numbered]


@pytest.mark.parametrize("correlation", [None, MarkovChain.from_autocorrelation_time(2)])
@pytest.mark.parametrize("n_jobs", [None, pytest.param(2, marks=pytest.mark.slow)])
def test_a_search_warns_once_and_its_certificate_says_so(correlation, n_jobs):
    X, y = series()
    grid = {"f__func": [np.abs, centred, week_before], "m__C": [0.1, 1, 10]}
    search = ReusableHoldoutSearchCV(
        pipeline(np.abs), grid, correlation=correlation, n_jobs=n_jobs, random_state=0
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        search.fit(X, y)
    (told,) = [w for w in caught if ABOUT in str(w.message)]
    assert told.category is BatchPredictionWarning
    assert told.filename == __file__
    (line,) = [text for text in search.certificate_.assumptions if "NOT MET" in text]
    assert "centred" in line
    assert "week_before" in line
    assert "absolute" not in line


def test_answers_of_a_ledger_are_told_again_for_the_chosen_model(tmp_path):
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
    first = ReusableHoldoutSearchCV(LogisticRegression(), {"C": [1]}, random_state=0).fit(X, y)
    X, y = X[first.train_indices_], y[first.train_indices_]
    scorer = HoldoutScorer(first.holdout_)
    with warned(BatchPredictionWarning, "FunctionTransformer"):
        scorer(pipeline(centred).fit(X, y), X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scorer(pipeline(centred).fit(X[:500], y[:500]), X, y)
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
    inside = X[:, 0] > 0
    return np.full(len(y), roc_auc_score(y[inside], estimator.decision_function(X[inside])))


def centered_error(estimator, X, y):
    error = np.abs(estimator.predict_proba(X)[:, 1] - y)
    return np.clip(0.5 + error - error.mean(), 0, 1)


def own_error(estimator, X, y):
    return np.abs(estimator.predict_proba(X)[:, 1] - y)


@pytest.mark.parametrize("function", [auc_of_a_subgroup, centered_error])
def test_a_score_that_reads_other_records_is_refused_by_name(function):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((600, 3)), rng.integers(0, 2, 600)
    score = PerRecordScore(function)
    search = ReusableHoldoutSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, scoring=score)
    with refused(ScoreContractError, function.__name__):
        search.fit(X, y)
    holdout = ReusableHoldout(X[400:], y[400:])
    with refused(ScoreContractError, function.__name__):
        HoldoutScorer(holdout, score)(LogisticRegression().fit(X[:400], y[:400]), X[:400], y[:400])
    assert len(holdout.history()) == 0


def test_a_score_of_each_record_is_not():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((600, 3)), rng.integers(0, 2, 600)
    score = PerRecordScore(own_error, greater_is_better=False)
    model, grid = LogisticRegression(), {"C": [0.1]}
    ReusableHoldoutSearchCV(model, grid, scoring=score, random_state=0).fit(X, y)
