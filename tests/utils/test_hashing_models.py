"""Keys of models: a change of predictions changes the key, and the same work keeps it."""

import functools
import importlib
import io
import os
import subprocess
import sys
import textwrap
import threading
import types

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.feature_selection import SelectKBest, f_classif, mutual_info_classif
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold, ShuffleSplit, cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from sklearn_bdp import HoldoutScorer, ReusableHoldout
from sklearn_bdp.metrics import PerRecordScore, get_metric
from sklearn_bdp.utils import ModelDigest, data_digest, recipe_context, recipe_key
from sklearn_bdp.utils.hashing import query_key

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
Y = (X[:, 0] + 0.3 * RNG.normal(size=60) > 0).astype(int)
ACCURACY = get_metric("accuracy")


def key_before_fit(estimator, X=X, y=Y, *, metric=ACCURACY, columns=None, **fit_params):
    """Return the key before the fit, or None."""
    context = recipe_context(metric, fit_params)
    return recipe_key(estimator, context, training=data_digest(X, y), columns=columns)


def key_after_fit(estimator, X=X, y=Y, *, metric=ACCURACY, columns=None):
    """Return the key after the fit."""
    return ModelDigest(estimator.fit(X, y)).key(metric, X, columns=columns)


# -- Equal models have equal keys ------------------------------------------------------------------

TREE = DecisionTreeClassifier(random_state=0)
SAME = {
    "C=1": (LogisticRegression(random_state=0), LogisticRegression(C=1, random_state=0)),
    "np.float64": (
        LogisticRegression(C=0.5, random_state=0),
        LogisticRegression(C=np.float64(0.5), random_state=0),
    ),
    "np.int64": (KNeighborsClassifier(3), KNeighborsClassifier(np.int64(3))),
    "n_jobs": (
        RandomForestClassifier(5, random_state=0),
        RandomForestClassifier(5, random_state=0, n_jobs=2),
    ),
    "verbose": (
        RandomForestClassifier(5, random_state=0),
        RandomForestClassifier(5, random_state=0, verbose=0, n_jobs=1),
    ),
    "memory": (make_pipeline(StandardScaler(), TREE), make_pipeline(StandardScaler(), TREE)),
}
SAME["memory"][1].set_params(memory="somewhere")


@pytest.mark.parametrize("name", SAME)
def test_execution_parameters_keep_the_recipe(name):
    first, second = SAME[name]
    assert key_before_fit(first) == key_before_fit(second) is not None


@pytest.mark.parametrize("name", [name for name in SAME if name != "memory"])
def test_execution_parameters_keep_the_model_key(name):
    first, second = SAME[name]
    assert key_after_fit(first) == key_after_fit(second) is not None


LAYOUTS = {
    "Fortran order": (np.asfortranarray(X), Y),
    "a copy": (X.copy(), Y.copy()),
    "byte order": (X.astype(">f8"), Y),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_the_layout_of_data_keeps_the_recipe(name):
    assert key_before_fit(TREE, *LAYOUTS[name]) == key_before_fit(TREE)


def test_an_index_keeps_the_recipe_and_single_precision_does_not():
    """A model that is fitted in single precision predicts others in its last digits."""
    integers = np.round(X * 8)
    assert key_before_fit(TREE, integers.astype(np.float32)) != key_before_fit(TREE, integers)
    frame = pd.DataFrame(integers, columns=list("abc"))
    reindexed = frame.set_axis(np.arange(60) * 7, axis=0)
    assert key_before_fit(TREE, reindexed) == key_before_fit(TREE, frame)
    assert key_before_fit(TREE, frame.astype({"b": np.float32})) != key_before_fit(TREE, frame)


def test_the_estimator_of_the_readme_has_one_key_for_one_model():
    assert key_before_fit(LogisticRegression()) is None  # no seed: the key needs the fitted model
    assert key_after_fit(LogisticRegression()) == key_after_fit(LogisticRegression()) is not None
    assert key_after_fit(LogisticRegression(C=1)) == key_after_fit(
        LogisticRegression(C=np.float64(1.0))
    )


def test_durations_inside_a_model_do_not_count():
    searches = [GridSearchCV(TREE, {"max_depth": [1, 2]}, cv=2) for _ in range(2)]
    assert key_after_fit(searches[0]) == key_after_fit(searches[1]) is not None


def test_keys_are_the_same_in_another_process():
    code = """
    import numpy as np
    from tests.utils.test_hashing_models import *
    print(key_before_fit(TREE), key_after_fit(LogisticRegression()), key_after_fit(UserModel()))
    print(query_key("accuracy", {"b": 1, "a": (0.1, None)}, np.arange(3)))
    """
    process = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True
    )
    key = query_key("accuracy", {"a": (0.1, None), "b": 1}, np.arange(3))
    expected_keys = [
        key_before_fit(TREE),
        key_after_fit(LogisticRegression()),
        key_after_fit(UserModel()),
        key,
    ]
    assert process.stdout.split() == expected_keys


# -- Different models have different keys ----------------------------------------------------------

OTHER_RECIPES = {
    "parameter": DecisionTreeClassifier(random_state=0, max_depth=2),
    "one feature": DecisionTreeClassifier(random_state=0, max_features=1),
    "all features": DecisionTreeClassifier(random_state=0, max_features=1.0),
    "one record": DecisionTreeClassifier(random_state=0, min_samples_leaf=1),
    "a share": DecisionTreeClassifier(random_state=0, min_samples_leaf=0.1),
    "seed": DecisionTreeClassifier(random_state=1),
    "class": RandomForestClassifier(random_state=0),
    "step": make_pipeline(StandardScaler(), TREE),
    "function": make_pipeline(FunctionTransformer(np.square), TREE),
    "other function": make_pipeline(FunctionTransformer(np.sign), TREE),
    "inverse": make_pipeline(FunctionTransformer(np.square, inverse_func=np.sqrt), TREE),
    "columns": make_pipeline(ColumnTransformer([("a", StandardScaler(), [0])]), TREE),
    "other columns": make_pipeline(ColumnTransformer([("a", StandardScaler(), [1])]), TREE),
    "score": make_pipeline(SelectKBest(f_classif, k=1), TREE),
    "weights": KNeighborsClassifier(weights="distance"),
    "metric parameters": KNeighborsClassifier(metric="minkowski", metric_params={"w": [1, 2, 3]}),
    "other metric parameters": KNeighborsClassifier(
        metric="minkowski", metric_params={"w": [3, 2, 1]}
    ),
}


def test_different_recipes_have_different_keys():
    keys = [key_before_fit(TREE), *map(key_before_fit, OTHER_RECIPES.values())]
    assert None not in keys
    # All features are the default of a tree, so that "one feature" and "all features" differ.
    assert len(set(keys)) == len(keys) - (
        key_before_fit(TREE) == key_before_fit(OTHER_RECIPES["one record"])
    )


def test_data_metric_columns_and_fit_parameters_are_part_of_the_key():
    changed = X.copy()
    changed[7, 1] += 1e-12
    keys = [
        key_before_fit(TREE),
        key_before_fit(TREE, changed),
        key_before_fit(TREE, X[::-1], Y[::-1]),
        key_before_fit(TREE, y=1 - Y),
        key_before_fit(TREE, pd.DataFrame(X, columns=list("abc"))),
        key_before_fit(TREE, pd.DataFrame(X, columns=list("cba"))),
        key_before_fit(TREE, metric=get_metric("neg_brier_score", y=Y)),
        key_before_fit(TREE, columns=(0, 1)),
        key_before_fit(TREE, columns=(0, 2)),
        key_before_fit(TREE, sample_weight=np.ones(60)),
        key_before_fit(TREE, sample_weight=np.arange(60.0)),
    ]
    assert len(set(keys)) == len(keys)
    assert None not in keys


def test_the_order_of_categories_is_part_of_the_key():
    letters = pd.Categorical(["a", "b", "c"] * 20)
    ascending = pd.DataFrame({"x": letters})
    descending = pd.DataFrame({"x": letters.reorder_categories(["c", "b", "a"])})
    assert data_digest(ascending) != data_digest(descending)


def test_equal_models_on_different_columns_have_different_keys():
    constant = DummyClassifier()
    assert key_after_fit(constant, columns=(0,)) != key_after_fit(constant, columns=(1,))


@pytest.mark.parametrize(
    "estimator",
    [
        LogisticRegression(),
        RandomForestClassifier(random_state=None),
        RandomForestClassifier(random_state=np.random.RandomState(0)),
        CalibratedClassifierCV(LogisticRegression(random_state=0), cv=KFold(2, shuffle=True)),
        CalibratedClassifierCV(LogisticRegression(random_state=0), cv=ShuffleSplit(2)),
        make_pipeline(SelectKBest(mutual_info_classif), TREE),
        make_pipeline(FunctionTransformer(lambda X: X + 1), TREE),
        make_pipeline(FunctionTransformer(functools.partial(np.random.normal, size=3)), TREE),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_estimators_that_vary_between_fits_have_no_recipe(estimator):
    assert key_before_fit(estimator) is None


@pytest.mark.parametrize(
    "estimator",
    [
        TREE,
        CalibratedClassifierCV(LogisticRegression(random_state=0), cv=KFold(2)),
        CalibratedClassifierCV(
            LogisticRegression(random_state=0), cv=KFold(2, shuffle=True, random_state=0)
        ),
        make_pipeline(FunctionTransformer(np.log1p), TREE),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_deterministic_estimators_have_a_recipe(estimator):
    assert key_before_fit(estimator) is not None


FITTED = {
    "frozen": lambda fitted: make_pipeline(FrozenEstimator(fitted), TREE),
    "a method": lambda fitted: transformer(fitted.transform),
    "a partial": lambda fitted: transformer(functools.partial(np.add, fitted)),
}


@pytest.mark.parametrize("name", FITTED)
def test_fitted_parts_have_no_recipe(name):
    """A recipe determines the result of a fit, and these parts are not fitted again."""
    assert key_before_fit(FITTED[name](StandardScaler().fit(X))) is None


def test_different_frozen_models_have_different_keys():
    first, second = (FrozenEstimator(LogisticRegression().fit(X, y)) for y in (Y, 1 - Y))
    assert key_after_fit(make_pipeline(first)) == key_after_fit(make_pipeline(first)) is not None
    assert key_after_fit(make_pipeline(first)) != key_after_fit(make_pipeline(second))


def test_settings_that_change_what_a_model_accepts_change_its_key():
    recipe_before = key_before_fit(TREE)
    model_before = key_after_fit(TREE)
    with config_context(assume_finite=True):
        assert key_before_fit(TREE) != recipe_before
        assert key_after_fit(TREE) != model_before


@pytest.mark.parametrize("input_type", ["filename", "file"])
def test_models_that_read_files_named_in_records_have_no_key(input_type):
    texts = ["one two", "two three"] * 30
    contents = make_pipeline(CountVectorizer(), TREE)
    assert None not in (key_before_fit(contents, texts), key_after_fit(contents, texts))
    files = make_pipeline(CountVectorizer(input=input_type), TREE)
    assert key_before_fit(files, texts) is None
    contents.steps[0][1].set_params(input=input_type)  # as it would be after a fit
    assert ModelDigest(contents).key(ACCURACY, texts) is None


# -- Code of the user is hashed by value -----------------------------------------------------------

SCALE = 1.0
TABLE = {"shift": [0.0, 1.0]}


def helper(X):
    return X * SCALE + TABLE["shift"][0]


class UserModel(ClassifierMixin, BaseEstimator):
    """A model of the user's."""

    cut = 0.0

    def __init__(self, mode="plain", path=None):
        self.mode = mode
        self.path = path

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return (helper(np.asarray(X))[:, 0] > self.cut).astype(int)


class Shift(TransformerMixin, BaseEstimator):
    """A transformer of the user's."""

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return helper(X)


def with_predict(text):
    """Return a class like Own whose ``predict`` was edited."""
    namespace = {"np": np}
    exec(f"def predict(self, X):\n    return {text}", namespace)
    return type("Own", (UserModel,), {"predict": namespace["predict"]})


def module(text):
    """Return a module of the user's, as it would be after an edit and a restart."""
    helpers = types.ModuleType("local_helpers")
    exec(text, vars(helpers))
    return helpers


def calls(helpers):
    """Return a function that calls into a module."""

    def function(X):
        return helpers.f(X)

    return function


def transformer(function, **options):
    return make_pipeline(FunctionTransformer(function, **options), TREE)


def make_adder(number):
    return lambda X: X + number


EDITS = {
    "predict": lambda: (
        with_predict("(np.asarray(X)[:, 0] > 0.0).astype(int)")(),
        with_predict("(np.asarray(X)[:, 0] > 1e-9).astype(int)")(),
    ),
    "default": lambda: (transformer(lambda X, k=1: X * k), transformer(lambda X, k=2: X * k)),
    "keyword": lambda: (
        transformer(lambda X, k=1: X * k, kw_args={"k": 1}),
        transformer(lambda X, k=1: X * k, kw_args={"k": 3}),
    ),
    "lambda": lambda: (transformer(lambda X: X + 1), transformer(lambda X: X + 2)),
    "closure": lambda: (transformer(make_adder(1)), transformer(make_adder(2))),
    "partial": lambda: (
        transformer(functools.partial(np.power, 2.0)),
        transformer(functools.partial(np.power, 3.0)),
    ),
    "inverse": lambda: (
        transformer(np.square, inverse_func=lambda X: X),
        transformer(np.square, inverse_func=lambda X: -X),
    ),
    "module": lambda: (
        transformer(calls(module("def f(X): return X + 1"))),
        transformer(calls(module("def f(X): return X + 2"))),
    ),
    "constant of a module": lambda: (
        transformer(calls(module("K = 1\ndef f(X): return X + K"))),
        transformer(calls(module("K = 2\ndef f(X): return X + K"))),
    ),
    "helper of a helper": lambda: (
        transformer(calls(module("def g(X): return X\ndef f(X): return g(X)"))),
        transformer(calls(module("def g(X): return -X\ndef f(X): return g(X)"))),
    ),
    "columns": lambda: (
        make_pipeline(ColumnTransformer([("a", StandardScaler(), lambda X: [0])]), TREE),
        make_pipeline(ColumnTransformer([("a", StandardScaler(), lambda X: [1])]), TREE),
    ),
    "weights": lambda: (
        KNeighborsClassifier(weights=lambda d: np.exp(-d)),
        KNeighborsClassifier(weights=lambda d: np.exp(-2 * d)),
    ),
    "metric": lambda: (
        KNeighborsClassifier(metric=lambda a, b: np.abs(a - b).sum()),
        KNeighborsClassifier(metric=lambda a, b: np.abs(a - b).max()),
    ),
    "metric_params": lambda: (
        KNeighborsClassifier(
            metric=lambda a, b, f: f(a - b), metric_params={"f": lambda d: np.abs(d).sum()}
        ),
        KNeighborsClassifier(
            metric=lambda a, b, f: f(a - b), metric_params={"f": lambda d: np.abs(d).max()}
        ),
    ),
    "tuple": lambda: (UserModel(mode=("x", lambda X: X)), UserModel(mode=("x", lambda X: -X))),
    "dict": lambda: (UserModel(mode={"f": lambda X: X}), UserModel(mode={"f": lambda X: -X})),
    "method": lambda: (
        transformer(StandardScaler().fit(X).transform),
        transformer(StandardScaler().fit(X * 2).transform),
    ),
}


@pytest.mark.parametrize("name", EDITS)
def test_every_edit_of_code_changes_the_key(name):
    original, edited = EDITS[name]()
    if name not in ("partial", "method"):  # of installed functions
        assert key_before_fit(original) is None
    keys = key_after_fit(original), key_after_fit(edited)
    assert None not in keys
    assert keys[0] != keys[1]


@pytest.mark.parametrize("name", EDITS)
def test_code_written_again_has_the_same_key(name):
    assert list(map(key_after_fit, EDITS[name]())) == list(map(key_after_fit, EDITS[name]()))


STATES = {
    "a global": lambda patch: patch.setitem(globals(), "SCALE", 2.0),
    "inside a global": lambda patch: patch.setitem(TABLE, "shift", [0.5, 1.0]),
    "a helper": lambda patch: patch.setitem(globals(), "helper", lambda X: -X),
    "a class attribute": lambda patch: patch.setattr(UserModel, "cut", 0.25),
    "a method": lambda patch: patch.setattr(
        UserModel, "predict", lambda self, X: np.zeros(len(X), int)
    ),
    "a new method": lambda patch: patch.setattr(
        UserModel, "predict_proba", lambda self, X: np.ones((len(X), 2)), raising=False
    ),
}


def scaled_by_inner_function(X):
    def scale(x):
        return x * SCALE

    return list(map(scale, X))


NESTED_READS = {
    "comprehension": lambda X: [x * SCALE for x in X],
    "lambda": lambda X: list(map(lambda x: x * SCALE, X)),  # noqa: C417
    "inner function": scaled_by_inner_function,
}


@pytest.mark.parametrize("name", NESTED_READS)
def test_globals_read_by_nested_code_are_part_of_the_key(name, monkeypatch):
    """``inspect.getclosurevars`` of Python 3.11 does not list them."""
    key = key_after_fit(UserModel(mode=NESTED_READS[name]))
    assert key == key_after_fit(UserModel(mode=NESTED_READS[name])) is not None
    monkeypatch.setitem(globals(), "SCALE", 2.0)
    assert key_after_fit(UserModel(mode=NESTED_READS[name])) != key


@pytest.mark.parametrize("name", STATES)
def test_every_change_behind_a_model_changes_its_key(name, monkeypatch):
    key = key_after_fit(UserModel())
    assert key == key_after_fit(UserModel()) is not None  # a counter of fits does not count
    STATES[name](monkeypatch)
    assert key_after_fit(UserModel()) != key


@pytest.mark.parametrize("name", ["a global", "inside a global", "a helper"])
def test_every_change_behind_a_transformer_changes_the_key(name, monkeypatch):
    pipeline = make_pipeline(Shift(), TREE)
    key = key_after_fit(pipeline)
    STATES[name](monkeypatch)
    assert key_after_fit(pipeline) != key


def test_an_edited_method_of_an_installed_class_changes_the_key(monkeypatch):
    key = key_before_fit(TREE)
    monkeypatch.setattr(DecisionTreeClassifier, "predict", lambda self, X: np.zeros(len(X)))
    assert key_before_fit(TREE) is None
    assert key_after_fit(TREE) != key


def test_a_checkpoint_is_part_of_the_model_that_names_it(tmp_path):
    path = tmp_path / "weights.bin"
    path.write_bytes(b"one")
    key_by_string = key_after_fit(UserModel(path=str(path)))
    key_by_path = key_after_fit(UserModel(path=path))
    path.write_bytes(b"two")
    assert key_after_fit(UserModel(path=str(path))) != key_by_string
    assert key_after_fit(UserModel(path=path)) != key_by_path


def test_a_global_that_changes_predictions_changes_the_key():
    class Hidden(UserModel):
        def predict(self, X):
            return (np.asarray(X)[:, 0] > sys.modules["sys"].hidden).astype(int)

    sys.hidden = 0.0
    try:
        key = key_after_fit(Hidden())
        sys.hidden = 0.5
        assert key_after_fit(Hidden()) != key
    finally:
        del sys.hidden


def test_code_of_a_metric_is_part_of_the_key(monkeypatch):
    def metric():
        return get_metric(PerRecordScore(lambda m, X, y: helper(np.full(len(y), 0.5))))

    key = key_before_fit(TREE, metric=metric())
    assert key == key_before_fit(TREE, metric=metric()) is not None
    monkeypatch.setitem(globals(), "SCALE", 0.5)
    assert key_before_fit(TREE, metric=metric()) != key


def test_generators_and_open_files_have_no_key():
    assert key_after_fit(UserModel(mode=(number for number in range(3)))) is None
    with open(__file__) as stream:
        assert key_after_fit(UserModel(mode=stream)) is None


def test_ufuncs_made_from_functions_of_the_user_have_no_key():
    ufuncs = [np.frompyfunc(function, 1, 1) for function in (lambda x: x + 1, lambda x: x + 2)]
    assert [key_before_fit(transformer(ufunc)) for ufunc in ufuncs] == [None, None]
    assert [key_after_fit(UserModel(mode=ufunc)) for ufunc in ufuncs] == [None, None]


def test_the_order_of_a_dictionary_is_part_of_the_key():
    """Code may follow it."""
    assert key_after_fit(UserModel(mode={"a": 1, "b": 2})) != key_after_fit(
        UserModel(mode={"b": 2, "a": 1})
    )


def test_object_identity_of_parts_does_not_count():
    part = [1.5, "text"]
    assert (
        key_after_fit(UserModel(mode=[part, part]))
        == key_after_fit(UserModel(mode=[list(part), list(part)]))
        is not None
    )


def test_a_model_that_refers_to_itself_has_a_key():
    first = UserModel()
    first.itself = first
    second = UserModel()
    second.itself = second
    assert key_after_fit(first) == key_after_fit(second) is not None


def test_random_edits_of_numbers_change_the_key():
    """Forty models that differ in one number somewhere: forty keys."""
    rng = np.random.default_rng(1)
    keys = set()
    for _ in range(40):
        table = {"a": [rng.random(), {"b": (rng.random(), "x")}], "c": rng.random(2)}
        keys.add(key_after_fit(UserModel(mode=table)))
    assert len(keys) == 40


def test_a_generator_is_hashed_with_its_stored_variate():
    generator = np.random.RandomState(0)
    keys = {key_after_fit(UserModel(mode=generator))}
    generator.randn()
    keys.add(key_after_fit(UserModel(mode=generator)))
    generator.randn()  # the second of a pair: no further bits are drawn
    keys.add(key_after_fit(UserModel(mode=generator)))
    assert len(keys) == 3


class Far(UserModel):
    """A model whose predictions for distant records differ, not those for training records."""

    limit = __limit__ = 9.0

    def fit(self, X, y):
        self.near_ = bool((self.limit > X).all())
        return super().fit(X, y)

    def predict(self, X):
        return np.where(within(self, X), super().predict(X), 0)


def within(model, X):
    return np.asarray(X)[:, 1] < model.limit


class ByName(Far):
    def predict(self, X):
        is_near = np.asarray(X)[:, 1] < getattr(self, "lim" + "it")
        return np.where(is_near, super().predict(X), 0)


@pytest.mark.parametrize("estimator_class", [Far, ByName])
@pytest.mark.parametrize("name", ["limit", "__limit__"])
def test_every_attribute_of_a_class_counts(estimator_class, name, monkeypatch):
    key = key_after_fit(estimator_class())
    monkeypatch.setattr(Far, name, 99.0)
    assert key_after_fit(estimator_class()) != key is not None


class Sub(np.ndarray):
    """An array with an attribute."""


class Interface:
    """An object with an array interface and an attribute."""

    __array_interface__ = np.zeros(2).__array_interface__

    def __array__(self, *args, **kwargs):
        return np.zeros(2)


def carrying(array, limit):
    array.limit = limit
    return array


def with_attribute(frame, limit):
    frame.attrs["limit"] = limit
    return frame


BESIDE = {
    "index": lambda limit: pd.DataFrame({"a": [1.0, 2.0]}, index=[limit, 3.0]),
    "index of a column": lambda limit: pd.Series([1.0, 2.0], index=[limit, 3.0]),
    "name of a column": lambda limit: pd.Series([1.0, 2.0], name=limit),
    "names of columns": lambda limit: pd.DataFrame({limit: [1.0], str(9 - limit): [2.0]}),
    "attributes of a frame": lambda limit: with_attribute(pd.DataFrame({"a": [1.0]}), limit),
    "attributes of an array": lambda limit: carrying(np.zeros(2).view(Sub), limit),
    "attributes beside an interface": lambda limit: carrying(Interface(), limit),
}


@pytest.mark.parametrize("name", BESIDE)
def test_index_names_and_attributes_of_a_table_in_a_model_count(name):
    keys = [key_after_fit(UserModel(mode=BESIDE[name](limit))) for limit in (2, 2, 7)]
    assert keys[0] == keys[1] is not None
    assert keys[2] != keys[0]


class Event:
    """Named like a lock."""

    def __init__(self, limit):
        self.limit = limit


class Forgetful(Event):
    def __getstate__(self):
        return {}


class Named(Event):
    def __reduce__(self):
        return "NAMED"


@pytest.mark.parametrize("hiding_class", [Event, Forgetful, Named])
def test_attributes_that_a_pickle_leaves_out_count(hiding_class):
    keys = [key_after_fit(UserModel(mode=hiding_class(limit))) for limit in (2.0, 2.0, 7.0)]
    assert keys[0] == keys[1] is not None
    assert keys[2] != keys[0]


def test_all_locks_are_equal():
    first, second = (UserModel(mode=[threading.Lock(), threading.Event()]) for _ in range(2))
    assert key_after_fit(first) == key_after_fit(second) is not None


def test_only_results_of_searches_lose_durations():
    assert key_after_fit(carrying_time(UserModel(), 2.0)) != key_after_fit(
        carrying_time(UserModel(), 7.0)
    )
    first, second = (transformer(np.square, kw_args={"max_fit_time": time}) for time in (2, 7))
    assert key_before_fit(first) != key_before_fit(second)


def carrying_time(estimator, time):
    estimator.max_fit_time = estimator.refit_time_ = time
    return estimator


UNSEEN = {
    "environ": lambda X: X * float(os.environ["FACTOR"]),
    "getenv": lambda X: X * float(os.getenv("FACTOR")),
    "globals": lambda X: X * globals()["FACTOR"],
    "open": lambda X: X * len(list(open("factor" + ".txt"))),  # noqa: SIM115
    "import_module": lambda X: X * importlib.import_module("factor").FACTOR,
    "eval": lambda X: X * eval("FACTOR"),
}


@pytest.mark.parametrize("name", UNSEEN)
def test_code_that_reads_untraceable_values_has_no_key(name):
    assert key_after_fit(UserModel(mode=UNSEEN[name])) is None


# -- Cost of keys ----------------------------------------------------------------------------------


def test_only_models_with_code_of_the_user_predict_for_keys():
    for estimator in (LogisticRegression(), make_pipeline(StandardScaler(), TREE)):
        digest = ModelDigest(estimator.fit(X, Y))
        assert digest.key(ACCURACY, None) == digest.key(ACCURACY, X) is not None
    digest = ModelDigest(UserModel().fit(X, Y))
    assert digest.key(ACCURACY, None) != digest.key(ACCURACY, X)


@pytest.mark.filterwarnings(
    "ignore::sklearn_bdp.exceptions.UninformativeIntervalWarning"
)  # 20 records
def test_a_scorer_predicts_each_set_of_rows_once_with_a_model_of_the_user(tmp_path):
    log = os.fsencode(tmp_path / "log")  # as bytes: strings are hashed with the files they name

    class Tree(DecisionTreeClassifier):
        def predict(self, X):
            with io.FileIO(log, "a") as file:
                file.write(b"%d " % len(X))
            return super().predict(X)

    scorer = HoldoutScorer(ReusableHoldout(X[40:], Y[40:], random_state=0))
    cross_val_score(Tree(), X[:40], Y[:40], cv=4, scoring=scorer)
    n_rows = (tmp_path / "log").read_text().split()
    assert n_rows.count("10") == 2 * 4  # for the key and for the cross-validated score of each fold


@pytest.mark.parametrize("field", ["feature", "threshold", "value", "children_left"])
def test_one_node_of_one_tree_changes_the_key_of_a_forest(field):
    forest = RandomForestClassifier(5, random_state=0).fit(X, Y)
    key = ModelDigest(forest).key(ACCURACY, X)
    nodes = getattr(forest.estimators_[3].tree_, field)
    original_node = nodes[0].copy()
    nodes[0] = original_node + 1
    assert ModelDigest(forest).key(ACCURACY, X) != key
    nodes[0] = original_node
    assert ModelDigest(forest).key(ACCURACY, X) == key


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.longdouble])
def test_numbers_of_numpy_are_hashed_by_value(dtype):
    assert key_after_fit(UserModel(mode=dtype(0.5))) is not None
    assert key_after_fit(UserModel(mode=dtype(0.5))) != key_after_fit(UserModel(mode=dtype(0.25)))
    if dtype is not np.longdouble:
        assert key_after_fit(UserModel(mode=dtype(0.5))) == key_after_fit(UserModel(mode=0.5))
