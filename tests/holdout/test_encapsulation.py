"""Only a holdout and its accountant change their own attributes."""

import ast
import pathlib

import sklearn_bdp

PACKAGE = pathlib.Path(sklearn_bdp.__file__).parent
OWNERS = {"holdout", "holdout_", "account", "accountant"}


def written_attributes(tree):
    """Yield the attributes that the code of a module assigns or deletes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del):
            yield node
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("setattr", "delattr"):
            yield ast.Attribute(node.args[0], "setattr", lineno=node.lineno)


def writes_to_holdout(attribute):
    """Return whether an attribute belongs to a holdout or to a part of one."""
    owner = ast.unparse(attribute.value)
    return bool(OWNERS & set(owner.replace("(", ".").replace(")", ".").split(".")))


def test_no_module_writes_an_attribute_of_a_holdout_or_its_accountant():
    writes = []
    for path in sorted(PACKAGE.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        writes += [
            f"{path.relative_to(PACKAGE)}:{attribute.lineno} {ast.unparse(attribute)}"
            for attribute in written_attributes(tree)
            if writes_to_holdout(attribute)
        ]
    assert writes == []


def test_the_check_of_writes_detects_attributes_and_setattr():
    tree = ast.parse("search.holdout_.context = 1\nself.holdout = 2\nsetattr(holdout, 'n', 3)")
    assert [writes_to_holdout(attribute) for attribute in written_attributes(tree)].count(True) == 2
