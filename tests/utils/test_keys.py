"""Keys: whatever changes a prediction changes them, and the same work keeps them."""

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
from sklearn_bdp.utils import ModelDigest, data_digest, recipe_key
from sklearn_bdp.utils.hashing import query_key

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
Y = (X[:, 0] + 0.3 * RNG.normal(size=60) > 0).astype(int)
ACCURACY = get_metric("accuracy")


def recipe(estimator, X=X, y=Y, *, metric=ACCURACY, columns=None, **fit_params):
    """Return the key before the fit, or None."""
    return recipe_key(
        estimator, metric, training=data_digest(X, y), fit_params=fit_params, columns=columns
    )


def model(estimator, X=X, y=Y, *, metric=ACCURACY, columns=None):
    """Return the key after the fit."""
    return ModelDigest(estimator.fit(X, y)).key(metric, X, columns=columns)


# -- the same work keeps its key -------------------------------------------------------------------

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
def test_what_says_how_work_is_done_keeps_the_recipe(name):
    one, other = SAME[name]
    assert recipe(one) == recipe(other) is not None


@pytest.mark.parametrize("name", [name for name in SAME if name != "memory"])
def test_what_says_how_work_is_done_keeps_the_model_key(name):
    one, other = SAME[name]
    assert model(one) == model(other) is not None


LAYOUTS = {
    "Fortran order": (np.asfortranarray(X), Y),
    "a copy": (X.copy(), Y.copy()),
    "byte order": (X.astype(">f8"), Y),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_the_layout_of_data_keeps_the_recipe(name):
    assert recipe(TREE, *LAYOUTS[name]) == recipe(TREE)


def test_an_index_keeps_the_recipe_and_single_precision_does_not():
    """A model that is fitted in single precision predicts others in its last digits."""
    whole = np.round(X * 8)
    assert recipe(TREE, whole.astype(np.float32)) != recipe(TREE, whole)
    frame = pd.DataFrame(whole, columns=list("abc"))
    moved = frame.set_axis(np.arange(60) * 7, axis=0)
    assert recipe(TREE, moved) == recipe(TREE, frame)
    assert recipe(TREE, frame.astype({"b": np.float32})) != recipe(TREE, frame)


def test_the_estimator_of_the_readme_has_one_key_for_one_model():
    assert recipe(LogisticRegression()) is None  # no seed: the fitted model says which it is
    assert model(LogisticRegression()) == model(LogisticRegression()) is not None
    assert model(LogisticRegression(C=1)) == model(LogisticRegression(C=np.float64(1.0)))


def test_durations_inside_a_model_do_not_count():
    searches = [GridSearchCV(TREE, {"max_depth": [1, 2]}, cv=2) for _ in range(2)]
    assert model(searches[0]) == model(searches[1]) is not None


def test_keys_are_the_same_in_another_process():
    code = """
    import numpy as np
    from tests.utils.test_keys import *
    print(recipe(TREE), model(LogisticRegression()), model(Own()))
    print(query_key("accuracy", {"b": 1, "a": (0.1, None)}, np.arange(3)))
    """
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True
    )
    chosen = query_key("accuracy", {"a": (0.1, None), "b": 1}, np.arange(3))
    mine = [recipe(TREE), model(LogisticRegression()), model(Own()), chosen]
    assert run.stdout.split() == mine


# -- anything else is another key ------------------------------------------------------------------

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
    keys = [recipe(TREE), *map(recipe, OTHER_RECIPES.values())]
    assert None not in keys
    # All features is the default of a tree, so "one feature" and "all features" are two others.
    assert len(set(keys)) == len(keys) - (recipe(TREE) == recipe(OTHER_RECIPES["one record"]))


def test_data_metric_columns_and_fit_parameters_are_part_of_the_key():
    changed = X.copy()
    changed[7, 1] += 1e-12
    keys = [
        recipe(TREE),
        recipe(TREE, changed),
        recipe(TREE, X[::-1], Y[::-1]),
        recipe(TREE, y=1 - Y),
        recipe(TREE, pd.DataFrame(X, columns=list("abc"))),
        recipe(TREE, pd.DataFrame(X, columns=list("cba"))),
        recipe(TREE, metric=get_metric("neg_brier_score", y=Y)),
        recipe(TREE, columns=(0, 1)),
        recipe(TREE, columns=(0, 2)),
        recipe(TREE, sample_weight=np.ones(60)),
        recipe(TREE, sample_weight=np.arange(60.0)),
    ]
    assert len(set(keys)) == len(keys)
    assert None not in keys


def test_the_order_of_categories_is_part_of_the_key():
    letters = pd.Categorical(["a", "b", "c"] * 20)
    one = pd.DataFrame({"x": letters})
    other = pd.DataFrame({"x": letters.reorder_categories(["c", "b", "a"])})
    assert data_digest(one) != data_digest(other)


def test_equal_models_on_other_columns_are_two():
    constant = DummyClassifier()
    assert model(constant, columns=(0,)) != model(constant, columns=(1,))


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
def test_what_may_vary_from_fit_to_fit_has_no_recipe(estimator):
    assert recipe(estimator) is None


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
def test_what_is_determined_has_a_recipe(estimator):
    assert recipe(estimator) is not None


FITTED = {
    "frozen": lambda fitted: make_pipeline(FrozenEstimator(fitted), TREE),
    "a method": lambda fitted: transformer(fitted.transform),
    "a partial": lambda fitted: transformer(functools.partial(np.add, fitted)),
}


@pytest.mark.parametrize("name", FITTED)
def test_what_was_fitted_before_has_no_recipe(name):
    """A recipe says what comes out of a fit, and nothing fits this again."""
    assert recipe(FITTED[name](StandardScaler().fit(X))) is None


def test_two_frozen_models_are_two():
    one, other = (FrozenEstimator(LogisticRegression().fit(X, y)) for y in (Y, 1 - Y))
    assert model(make_pipeline(one)) == model(make_pipeline(one)) is not None
    assert model(make_pipeline(one)) != model(make_pipeline(other))


def test_settings_that_change_what_a_model_accepts_change_its_key():
    before = recipe(TREE), model(TREE)
    with config_context(assume_finite=True):
        assert recipe(TREE) != before[0]
        assert model(TREE) != before[1]


@pytest.mark.parametrize("kind", ["filename", "file"])
def test_what_reads_the_files_that_records_name_is_never_recognised(kind):
    texts = ["one two", "two three"] * 30
    contents = make_pipeline(CountVectorizer(), TREE)
    assert None not in (recipe(contents, texts), model(contents, texts))
    files = make_pipeline(CountVectorizer(input=kind), TREE)
    assert recipe(files, texts) is None
    contents.steps[0][1].set_params(input=kind)  # as it would be after a fit
    assert ModelDigest(contents).key(ACCURACY, texts) is None


# -- code of the user is known by what it says -----------------------------------------------------

SCALE = 1.0
TABLE = {"shift": [0.0, 1.0]}


def helper(X):
    return X * SCALE + TABLE["shift"][0]


class Own(ClassifierMixin, BaseEstimator):
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
    space = {"np": np}
    exec(f"def predict(self, X):\n    return {text}", space)
    return type("Own", (Own,), {"predict": space["predict"]})


def module(text):
    """Return a module of the user's, as it would be after an edit and a restart."""
    made = types.ModuleType("local_helpers")
    exec(text, vars(made))
    return made


def calls(other):
    """Return a function that calls into a module."""

    def function(X):
        return other.f(X)

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
    "tuple": lambda: (Own(mode=("x", lambda X: X)), Own(mode=("x", lambda X: -X))),
    "dict": lambda: (Own(mode={"f": lambda X: X}), Own(mode={"f": lambda X: -X})),
    "method": lambda: (
        transformer(StandardScaler().fit(X).transform),
        transformer(StandardScaler().fit(X * 2).transform),
    ),
}


@pytest.mark.parametrize("name", EDITS)
def test_every_edit_of_code_changes_the_key(name):
    one, other = EDITS[name]()
    if name not in ("partial", "method"):  # of installed functions
        assert recipe(one) is None
    keys = model(one), model(other)
    assert None not in keys
    assert keys[0] != keys[1]


@pytest.mark.parametrize("name", EDITS)
def test_code_written_again_has_the_same_key(name):
    assert [model(each) for each in EDITS[name]()] == [model(each) for each in EDITS[name]()]


def by_setting(monkeypatch, target, name, value):
    monkeypatch.setattr(target, name, value)


STATES = {
    "a global": lambda patch: patch.setitem(globals(), "SCALE", 2.0),
    "inside a global": lambda patch: patch.setitem(TABLE, "shift", [0.5, 1.0]),
    "a helper": lambda patch: patch.setitem(globals(), "helper", lambda X: -X),
    "a class attribute": lambda patch: patch.setattr(Own, "cut", 0.25),
    "a method": lambda patch: patch.setattr(Own, "predict", lambda self, X: np.zeros(len(X), int)),
    "a new method": lambda patch: patch.setattr(
        Own, "predict_proba", lambda self, X: np.ones((len(X), 2)), raising=False
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
    before = model(Own(mode=NESTED_READS[name]))
    assert before == model(Own(mode=NESTED_READS[name])) is not None
    monkeypatch.setitem(globals(), "SCALE", 2.0)
    assert model(Own(mode=NESTED_READS[name])) != before


@pytest.mark.parametrize("name", STATES)
def test_every_change_behind_a_model_changes_its_key(name, monkeypatch):
    before = model(Own()), model(Own())
    assert before[0] == before[1] is not None  # a counter of fits is no change
    STATES[name](monkeypatch)
    assert model(Own()) != before[0]


@pytest.mark.parametrize("name", ["a global", "inside a global", "a helper"])
def test_every_change_behind_a_transformer_changes_the_key(name, monkeypatch):
    pipeline = make_pipeline(Shift(), TREE)
    before = model(pipeline)
    STATES[name](monkeypatch)
    assert model(pipeline) != before


def test_an_edited_method_of_an_installed_class_changes_the_key(monkeypatch):
    before = recipe(TREE)
    monkeypatch.setattr(DecisionTreeClassifier, "predict", lambda self, X: np.zeros(len(X)))
    assert recipe(TREE) is None
    assert model(TREE) != before


def test_a_checkpoint_is_part_of_the_model_that_names_it(tmp_path):
    path = tmp_path / "weights.bin"
    path.write_bytes(b"one")
    before = model(Own(path=str(path))), model(Own(path=path))
    path.write_bytes(b"two")
    assert model(Own(path=str(path))) != before[0]
    assert model(Own(path=path)) != before[1]


def test_what_no_walk_can_see_shows_in_predictions():
    class Hidden(Own):
        def predict(self, X):
            return (np.asarray(X)[:, 0] > sys.modules["sys"].hidden).astype(int)

    sys.hidden = 0.0
    try:
        before = model(Hidden())
        sys.hidden = 0.5
        assert model(Hidden()) != before
    finally:
        del sys.hidden


def test_code_of_a_metric_is_part_of_the_key(monkeypatch):
    def metric():
        return get_metric(PerRecordScore(lambda m, X, y: helper(np.full(len(y), 0.5))))

    before = recipe(TREE, metric=metric())
    assert before == recipe(TREE, metric=metric()) is not None
    monkeypatch.setitem(globals(), "SCALE", 0.5)
    assert recipe(TREE, metric=metric()) != before


def test_what_cannot_be_read_is_never_recognised():
    assert model(Own(mode=(number for number in range(3)))) is None
    with open(__file__) as stream:
        assert model(Own(mode=stream)) is None


def test_functions_of_the_user_inside_ufuncs_are_never_recognised():
    made = [np.frompyfunc(function, 1, 1) for function in (lambda x: x + 1, lambda x: x + 2)]
    assert [recipe(transformer(each)) for each in made] == [None, None]
    assert [model(Own(mode=each)) for each in made] == [None, None]


def test_the_order_of_a_dictionary_is_part_of_the_key():
    """Code may follow it."""
    assert model(Own(mode={"a": 1, "b": 2})) != model(Own(mode={"b": 2, "a": 1}))


def test_which_parts_are_one_object_does_not_count():
    one = [1.5, "text"]
    assert model(Own(mode=[one, one])) == model(Own(mode=[list(one), list(one)])) is not None


def test_a_model_that_refers_to_itself_has_a_key():
    one, other = Own(), Own()
    one.itself, other.itself = one, other
    assert model(one) == model(other) is not None


def test_random_edits_of_numbers_change_the_key():
    """Forty models that differ in one number somewhere: forty keys."""
    rng = np.random.default_rng(1)
    keys = set()
    for _ in range(40):
        table = {"a": [rng.random(), {"b": (rng.random(), "x")}], "c": rng.random(2)}
        keys.add(model(Own(mode=table)))
    assert len(keys) == 40


def test_a_generator_counts_with_the_number_that_it_keeps_for_later():
    generator = np.random.RandomState(0)
    before = model(Own(mode=generator))
    generator.randn()
    once = model(Own(mode=generator))
    generator.randn()  # the second of a pair: no further bits are drawn
    assert len({before, once, model(Own(mode=generator))}) == 3


class Far(Own):
    """What it does to far records shows in no prediction of the training ones."""

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
        near = np.asarray(X)[:, 1] < getattr(self, "lim" + "it")
        return np.where(near, super().predict(X), 0)


@pytest.mark.parametrize("kind", [Far, ByName])
@pytest.mark.parametrize("name", ["limit", "__limit__"])
def test_every_attribute_of_a_class_counts_whoever_reads_it(kind, name, monkeypatch):
    before = model(kind())
    monkeypatch.setattr(Far, name, 99.0)
    assert model(kind()) != before is not None


class Sub(np.ndarray):
    """An array that carries something."""


class Interface:
    """What says that it is an array, and carries something."""

    __array_interface__ = np.zeros(2).__array_interface__

    def __array__(self, *args, **kwargs):
        return np.zeros(2)


def carrying(made, limit):
    made.limit = limit
    return made


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
def test_what_a_table_inside_a_model_carries_beside_its_values_counts(name):
    keys = [model(Own(mode=BESIDE[name](limit))) for limit in (2, 2, 7)]
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


@pytest.mark.parametrize("kind", [Event, Forgetful, Named])
def test_what_its_pickle_or_its_name_hides_is_part_of_an_object(kind):
    keys = [model(Own(mode=kind(limit))) for limit in (2.0, 2.0, 7.0)]
    assert keys[0] == keys[1] is not None
    assert keys[2] != keys[0]


def test_a_lock_is_a_lock():
    one, other = (Own(mode=[threading.Lock(), threading.Event()]) for _ in range(2))
    assert model(one) == model(other) is not None


def test_only_results_of_searches_lose_durations():
    assert model(carrying_time(Own(), 2.0)) != model(carrying_time(Own(), 7.0))
    one, other = (transformer(np.square, kw_args={"max_fit_time": number}) for number in (2, 7))
    assert recipe(one) != recipe(other)


def carrying_time(made, number):
    made.max_fit_time = made.refit_time_ = number
    return made


UNSEEN = {
    "environ": lambda X: X * float(os.environ["FACTOR"]),
    "getenv": lambda X: X * float(os.getenv("FACTOR")),
    "globals": lambda X: X * globals()["FACTOR"],
    "open": lambda X: X * len(list(open("factor" + ".txt"))),  # noqa: SIM115
    "import_module": lambda X: X * importlib.import_module("factor").FACTOR,
    "eval": lambda X: X * eval("FACTOR"),
}


@pytest.mark.parametrize("name", UNSEEN)
def test_code_that_fetches_what_no_walk_can_see_is_never_recognised(name):
    assert model(Own(mode=UNSEEN[name])) is None


# -- what a key costs ------------------------------------------------------------------------------


def test_only_models_with_code_of_the_user_are_asked_to_predict():
    for estimator in (LogisticRegression(), make_pipeline(StandardScaler(), TREE)):
        known = ModelDigest(estimator.fit(X, Y))
        assert known.key(ACCURACY, None) == known.key(ACCURACY, X) is not None
    known = ModelDigest(Own().fit(X, Y))
    assert known.key(ACCURACY, None) != known.key(ACCURACY, X)


@pytest.mark.filterwarnings(
    "ignore::sklearn_bdp.exceptions.UninformativeIntervalWarning"
)  # 20 records
def test_a_scorer_asks_each_model_of_the_user_once_about_each_set_of_rows(tmp_path):
    log = os.fsencode(tmp_path / "log")  # as bytes: strings stand for the files that they name

    class Tree(DecisionTreeClassifier):
        def predict(self, X):
            with io.FileIO(log, "a") as file:
                file.write(b"%d " % len(X))
            return super().predict(X)

    scorer = HoldoutScorer(ReusableHoldout(X[40:], Y[40:], random_state=0))
    cross_val_score(Tree(), X[:40], Y[:40], cv=4, scoring=scorer)
    asked = (tmp_path / "log").read_text().split()
    assert asked.count("10") == 2 * 4  # for the key and for the training-side value of each fold


@pytest.mark.parametrize("field", ["feature", "threshold", "value", "children_left"])
def test_one_node_of_one_tree_changes_the_key_of_a_forest(field):
    forest = RandomForestClassifier(5, random_state=0).fit(X, Y)
    before = ModelDigest(forest).key(ACCURACY, X)
    nodes = getattr(forest.estimators_[3].tree_, field)
    kept, nodes[0] = nodes[0].copy(), nodes[0] + 1
    assert ModelDigest(forest).key(ACCURACY, X) != before
    nodes[0] = kept
    assert ModelDigest(forest).key(ACCURACY, X) == before


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64, np.longdouble])
def test_a_number_is_what_it_is_worth_whatever_holds_it(kind):
    assert model(Own(mode=kind(0.5))) is not None
    assert model(Own(mode=kind(0.5))) != model(Own(mode=kind(0.25)))
    if kind is not np.longdouble:
        assert model(Own(mode=kind(0.5))) == model(Own(mode=0.5))
