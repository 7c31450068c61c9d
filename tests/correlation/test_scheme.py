"""Sampling schemes: the only facts about a model that code outside ``correlation`` asks for."""

import ast
import inspect
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

import sklearn_bdp
from sklearn_bdp.correlation import (
    BayesianNetwork,
    CorrelationModel,
    DependencyGraph,
    Groups,
    Independent,
    MarkovChain,
    MarkovNetwork,
    TimeOrdered,
    check_correlation,
)
from sklearn_bdp.correlation.scheme import ConcentrationBound

PACKAGE = Path(sklearn_bdp.__file__).parent
P = [[0.9, 0.1], [0.2, 0.8]]
PATH = sparse.coo_array((np.ones(11), (range(11), range(1, 12))), shape=(12, 12))
MODELS = {
    "independent": Independent(),
    "groups": Groups(np.arange(12) // 3),
    "chain": MarkovChain(P),
    "observed chain": MarkovChain(P, observed=True),
    "interpolation": MarkovChain(P, observed=True, interpolation=True),
    "sequences": check_correlation(MarkovChain(P), groups=np.arange(12) // 6),
    "dates": TimeOrdered(),
    "panel": TimeOrdered([1, 1, 2, 3, 3, 4, 5, 6, 7, 8, 9, 9]),
    "graph": DependencyGraph(PATH),
    "buffered graph": DependencyGraph(PATH, reach="edges"),
    "network": MarkovNetwork(PATH, influence=0.5),
    "network of any strength": MarkovNetwork(PATH),
    "network to estimate": MarkovNetwork(PATH, influence="estimate"),
    "parents": BayesianNetwork([[], [0]], [[0.5, 0.5], P]),
    "list": check_correlation([Independent(), MarkovChain(P)]),
    "nodes given the rest": MarkovNetwork(PATH).conditional_on_rest([0, 2, 4]),
}


def attributes(model):
    """Return the attributes of a model by name, those of its class included."""
    class_attributes = inspect.getmembers(type(model), lambda value: not callable(value))
    values = dict(class_attributes) | vars(model)
    properties = [name for name, value in class_attributes if isinstance(value, property)]
    return values | {name: getattr(model, name) for name in properties}


def reads(tree):
    """Yield the attributes that a module reads, by a dot or by ``getattr`` and ``hasattr``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) not in {"self", "cls"}:
            yield node.attr
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in {"getattr", "hasattr"}:
            yield from (part.value for part in node.args if isinstance(part, ast.Constant))


def modules_outside_correlation():
    for path in PACKAGE.rglob("*.py"):
        if "correlation" not in path.relative_to(PACKAGE).parts:
            yield path, ast.parse(path.read_text("utf-8"))


def test_no_flag_of_a_model_is_read_outside_correlation():
    flags = {
        name
        for model in MODELS.values()
        for name, value in attributes(model).items()
        if isinstance(value, bool | np.bool_)
    }
    assert {"observed", "is_estimated"} <= flags
    assert not {name for name in flags if name.startswith(("has_", "holds_"))}
    flag_reads = [
        (str(path.relative_to(PACKAGE)), name)
        for path, tree in modules_outside_correlation()
        for name in reads(tree)
        if name in flags
    ]
    assert flag_reads == []


def test_no_attribute_of_a_model_is_looked_up_by_text_outside_correlation():
    names = {
        name for model in MODELS.values() for name in attributes(model) if not name.endswith("__")
    }
    lookups = [
        (str(path.relative_to(PACKAGE)), ast.unparse(node))
        for path, tree in modules_outside_correlation()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) in {"getattr", "hasattr"}
        and isinstance(node.args[1], ast.Constant)
        and node.args[1].value in names
    ]
    assert lookups == []


@pytest.mark.parametrize(
    ("name", "bound", "n_units", "unit_name", "exchangeable"),
    [
        ("independent", ConcentrationBound.INDEPENDENT, 12, "records", True),
        ("groups", ConcentrationBound.COMPONENTS, 4, "groups", True),
        ("chain", ConcentrationBound.CHAIN, 12, "records", False),
        ("sequences", ConcentrationBound.CHAIN, 12, "records", False),
        ("dates", ConcentrationBound.MARTINGALE, 12, "dates", False),
        ("panel", ConcentrationBound.MARTINGALE, 9, "dates", False),
        ("graph", ConcentrationBound.COMPONENTS, 1, "groups", True),
        ("network", ConcentrationBound.COMPONENTS, 12, "records", True),
        ("list", ConcentrationBound.CHAIN, 12, "records", False),
        ("nodes given the rest", ConcentrationBound.INDEPENDENT, 3, "records", False),
    ],
)
def test_sampling_schemes_of_models(name, bound, n_units, unit_name, exchangeable):
    model = MODELS[name]
    scheme = model.sampling_scheme(model.n_records or 12)
    assert scheme.bound is bound
    assert (scheme.n_units, scheme.unit_name) == (n_units, unit_name)
    assert scheme.exchangeable == exchangeable


def test_nodes_in_a_list_are_not_exchangeable():
    """Scores by class need exchangeable units under each of the models."""
    nodes = MODELS["nodes given the rest"]
    scheme = check_correlation([nodes, Groups([0, 0, 1])]).sampling_scheme(3)
    assert scheme.has_independent_units
    assert not scheme.exchangeable


def test_dates_come_with_a_calendar():
    scheme = TimeOrdered([3, 1, 1], horizon=2, step="day").sampling_scheme(3)
    assert (scheme.calendar.horizon, scheme.calendar.step) == (2, "day")
    assert scheme.calendar.dates.tolist() == [1, 3]
    assert scheme.record_blocks.tolist() == [1, 0, 0]
    assert scheme.weights.tolist() == [0.5, 0.25, 0.25]
    assert scheme.block_means([1.0, 0.5, np.nan]).tolist() == [0.5, 1.0]


def test_a_model_is_described_by_one_scheme():
    assert all(isinstance(model, CorrelationModel) for model in MODELS.values())
    for model in MODELS.values():
        n = model.n_records or 12
        scheme = model.sampling_scheme(n)
        assert scheme.n_records == n
        assert scheme.bounds_hold_given_rest is False or scheme.has_independent_units
