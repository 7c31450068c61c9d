"""Only a holdout, its accountant and its context change their own attributes."""

import ast
import itertools
from pathlib import Path

import pytest

import sklearn_bdp

PACKAGE = Path(sklearn_bdp.__file__).parent
#: Names under which other modules hold a holdout, its accountant, context, split or dependence.
OWNERS = {
    *("holdout", "holdout_", "_holdout"),
    *("account", "_account", "accountant", "_accountant"),
    *("context", "_context", "config"),
    *("division", "split", "holdout_split"),
    *("dependence", "train_model", "scheme"),
}


def identifiers(expression):
    """Return all identifiers of an expression such as ``search.holdout_.account``."""
    nodes = list(ast.walk(expression))
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    return names | {node.attr for node in nodes if isinstance(node, ast.Attribute)}


def changed_by_call(call):
    """Return the arguments whose attributes a call changes, such as that of ``setattr``."""
    function = ast.unparse(call.func)
    if function in {"setattr", "delattr", "object.__setattr__"}:
        return call.args[:1]
    if function.startswith("vars(") and function.endswith((".update", ".pop")):
        return call.func.value.args[:1]
    return []


def changed(node):
    """Return the expressions whose attributes a node of a syntax tree sets or deletes."""
    if isinstance(node, ast.Call):
        return changed_by_call(node)
    if isinstance(getattr(node, "ctx", None), ast.Store | ast.Del):
        if isinstance(node, ast.Attribute):
            return [node.value]
        if isinstance(node, ast.Subscript) and ast.unparse(node.value).startswith("vars("):
            return node.value.args[:1]
    return []


def writes_to_others(source):
    """Return the writes to attributes of a holdout or its parts other than by themselves."""
    owners = itertools.chain.from_iterable(map(changed, ast.walk(ast.parse(source))))
    return [ast.unparse(owner) for owner in owners if identifiers(owner) & OWNERS]


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: path.stem)
def test_no_module_writes_an_attribute_of_a_holdout(path):
    assert writes_to_others(path.read_text("utf-8")) == []


@pytest.mark.parametrize(
    "line",
    [
        "holdout.past = 1",
        "search.holdout_.n += 1",
        "holdout.account.settings.seed = 1",
        "get_holdout().holdout.seed = 1",
        "del self.holdout.account.seed",
        "setattr(holdout, 'n', 1)",
        "vars(holdout.account).update(seed=1)",
        "vars(self.holdout_)['n'] = 1",
    ],
)
def test_the_check_of_writes_detects_each_form(line):
    assert len(writes_to_others(line)) == 1


def test_own_attributes_are_not_counted():
    assert writes_to_others("self.holdout = holdout\nself.n = holdout.n") == []
