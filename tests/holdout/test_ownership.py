"""Only a holdout, its accountant and its context change their own attributes."""

import ast
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


def last_name(expression):
    """Return the last identifier of an expression such as ``search.holdout_.account``."""
    if isinstance(expression, ast.Attribute):
        return expression.attr
    return getattr(expression, "id", None)


def written(tree):
    """Yield the expressions whose attributes a module sets or deletes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del):
            yield node.value
        elif isinstance(node, ast.Call):
            function = ast.unparse(node.func)
            if function in {"setattr", "delattr", "object.__setattr__"}:
                yield node.args[0]
            elif function.startswith("vars(") and function.endswith((".update", ".pop")):
                yield node.func.value.args[0]
        elif isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
            yield from node.value.args[:1] if ast.unparse(node.value).startswith("vars(") else ()


def writes_to_others(source):
    """Return the writes to attributes of a holdout or its parts other than by themselves."""
    return [
        ast.unparse(owner) for owner in written(ast.parse(source)) if last_name(owner) in OWNERS
    ]


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: path.stem)
def test_no_module_writes_an_attribute_of_a_holdout(path):
    assert writes_to_others(path.read_text("utf-8")) == []


@pytest.mark.parametrize(
    "line",
    [
        "holdout.past = 1",
        "search.holdout_.n += 1",
        "del self.holdout.account.seed",
        "setattr(holdout, 'n', 1)",
        "vars(holdout.account).update(seed=1)",
        "vars(self.holdout_)['n'] = 1",
    ],
)
def test_writes_are_found(line):
    assert len(writes_to_others(line)) == 1


def test_own_attributes_are_not_counted():
    assert writes_to_others("self.holdout = holdout\nself.n = holdout.n") == []
