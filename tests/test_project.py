"""Files around the package agree with it and with each other."""

import ast
import configparser
import dataclasses
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import sklearn_bdp
from sklearn_bdp import HoldoutConfig

ROOT = Path(__file__).resolve().parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
MAKEFILE = (ROOT / "Makefile").read_text("utf-8")
TARGETS = set(re.search(r"^\.PHONY: (.*)$", MAKEFILE, re.M)[1].split())


def test_wording_is_matched_in_one_file():
    """All other tests hold facts: ``refused`` and ``warned`` of ``tests/facts.py``."""
    admitted_files = {"facts.py", "test_messages.py", "test_project.py"}
    files = [path for path in (ROOT / "tests").rglob("*.py") if path.name not in admitted_files]
    assert [path.name for path in files if re.search(r"\bmatch=", path.read_text("utf-8"))] == []


def test_the_package_is_imported_without_docstrings():
    subprocess.run([sys.executable, "-OO", "-c", "import sklearn_bdp"], check=True, cwd=ROOT)


def reached(tree):
    """Yield the names that a file reaches in other objects, by a dot or by a string."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) not in {"self", "cls"}:
            yield ast.unparse(node)
        elif isinstance(node, ast.Call) and re.search("(attr|item)$", ast.unparse(node.func)):
            yield from (part.value for part in node.args if isinstance(part, ast.Constant))
        elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            yield node.slice.value


def test_tests_reach_no_private_name():
    """They test public behavior; names of scikit-learn are pinned in ``test_sklearn_compat.py``."""
    files = set((ROOT / "tests").rglob("*.py")) - {
        ROOT / "tests" / "utils" / "test_sklearn_compat.py"
    }
    admitted_names = r"sklearn\.|os\._exit|.*\._(parameter_constraints|score_func|kwargs)$"
    private_names = [
        (path.name, name)
        for path in files
        for name in map(str, reached(ast.parse(path.read_text("utf-8"))))
        if re.search(r"(^|\.)_[a-z]\w*[^\W_]$", name) and not re.match(admitted_names, name)
    ]
    assert private_names == []


def settings():
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    return config


def test_the_citation_names_this_version_and_both_papers():
    text = (ROOT / "CITATION.cff").read_text("utf-8")
    assert f"\nversion: {sklearn_bdp.__version__}\n" in text
    assert {"10.1145/3139550.3139556", "10.1145/3051088"} <= set(re.findall(r"doi: (\S+)", text))


def test_pythons_of_the_classifiers_are_those_that_the_workflow_runs():
    python_versions = re.findall(r"Python :: (3\.\d+)", settings()["metadata"]["classifiers"])
    matrix = re.search(r"python: \[(.*)\]", (ROOT / ".github/workflows/tests.yml").read_text())[1]
    assert re.findall(r"3\.\d+", matrix) == python_versions
    assert settings()["options"]["python_requires"] == f">={python_versions[0]}"


def test_targets_are_explained_and_workflows_call_targets_that_exist():
    contributing = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    for target in TARGETS - {"help"}:
        assert f"make {target}" in MAKEFILE
        assert target == "clean" or f"`make {target}`" in contributing
    for workflow in WORKFLOWS:
        text = workflow.read_text("utf-8")
        called = set(re.findall(r"target: \[?([\w-]+)", text)) | set(
            re.findall(r"make ([\w-]+)", text)
        )
        assert called <= TARGETS


@pytest.mark.parametrize("path", [*WORKFLOWS, *(ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml")])
def test_files_of_the_host_can_be_read(path):
    yaml = pytest.importorskip("yaml")
    assert isinstance(yaml.safe_load(path.read_text("utf-8")), dict)


def test_problem_reports_ask_for_the_certificate():
    for name in ("wrong_result", "wide_interval"):
        text = (ROOT / f".github/ISSUE_TEMPLATE/{name}.yml").read_text("utf-8")
        assert "certificate" in text


def test_the_source_distribution_holds_tests_docs_and_examples():
    text = (ROOT / "MANIFEST.in").read_text("utf-8")
    for folder in ("tests", "doc", "examples", "benchmarks", ".ci", ".github"):
        assert f"graft {folder}\n" in text


def test_the_conda_recipe_has_the_requirements_of_the_package():
    recipe = (ROOT / ".github/conda/meta.yaml").read_text("utf-8")
    needed = settings()["options"]["install_requires"].split()
    assert needed
    for requirement in needed:
        assert f"- {requirement.replace('>=', ' >=')}\n" in recipe
    assert f'version = "{sklearn_bdp.__version__}"' in recipe


@pytest.mark.parametrize("url", ["", "https://example.org/project"])
def test_the_page_on_an_index_has_no_relative_link(url):
    script_namespace = runpy.run_path(str(ROOT / ".ci/export.py"))
    text = script_namespace["absolute"]((ROOT / "README.md").read_text("utf-8"), url, "v1")
    targets = re.findall(r"\]\(([^)]+)\)", text)
    assert bool(targets) == bool(url)
    assert all(target.startswith("https://") for target in targets)


# -- one object for each concept ----------------------------------------------------------------

MODULES = sorted((ROOT / "sklearn_bdp").rglob("*.py"))


def assigned_attributes(tree):
    """Yield the text of each object whose attribute an assignment sets."""
    for node in ast.walk(tree):
        targets = []
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, ast.AugAssign | ast.AnnAssign):
            targets = [node.target]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("setattr"):
            yield ast.unparse(node.args[0])
        for target in targets:
            elements = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
            for element in elements:
                if isinstance(element, ast.Attribute):
                    yield ast.unparse(element.value)


def test_no_module_sets_an_attribute_of_a_holdout_or_its_accountant():
    """Both change through their methods, which check, record and then release."""
    changed_objects = [
        (path.name, name)
        for path in MODULES
        for name in assigned_attributes(ast.parse(path.read_text("utf-8")))
        if re.search(r"(^|[._])(holdout|account|accountant)_?$", name)
    ]
    assert changed_objects == []


def declared_names(node):
    """Return the parameters of a function, or the fields of a class."""
    if isinstance(node, ast.FunctionDef):
        arguments = node.args
        parameters = arguments.posonlyargs + arguments.args + arguments.kwonlyargs
        return {parameter.arg for parameter in parameters}
    fields = (part.target for part in node.body if isinstance(part, ast.AnnAssign))
    return {field.id for field in fields if isinstance(field, ast.Name)}


def test_the_parameters_of_a_holdout_are_declared_once():
    """Results and planners share at most two of the names."""
    parameters = {field.name for field in dataclasses.fields(HoldoutConfig)}
    declarations = [
        node.name
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
        and len(declared_names(node) & parameters) > 2
    ]
    assert declarations == ["HoldoutConfig"]


def test_content_is_digested_in_one_place():
    """Texts, data and objects in ``hashing``, noise as a stream in ``noise``."""
    importing = {
        path.relative_to(ROOT / "sklearn_bdp").as_posix()
        for path in MODULES
        if re.search(r"^import (hashlib|hmac)\b|joblib\.hash\b", path.read_text("utf-8"), re.M)
    }
    assert importing == {"utils/hashing.py", "mechanisms/noise.py"}
