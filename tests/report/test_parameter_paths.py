"""A parameter of a final report appears in few files."""

import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import sklearn_bdp
from sklearn_bdp import ReusableHoldout

PACKAGE = Path(sklearn_bdp.__file__).parent
MAX_FILES = 10

rng = np.random.default_rng(0)
X = rng.normal(size=(900, 2))
Y = (X[:, 0] + rng.normal(size=900) > 0).astype(int)
GROUPS = np.arange(900) // 3
TRAINING_ROWS = slice(0, 600)
HOLDOUT_ROWS = slice(600, 900)


def holds(argument, value):
    """Return whether an argument is a value, or a collection or record that holds it."""
    if argument is value:
        return True
    if isinstance(argument, tuple | list):
        return any(element is value for element in argument)
    if isinstance(argument, dict):
        return any(element is value for element in argument.values())
    is_record = type(argument).__module__.startswith("sklearn_bdp")
    return is_record and any(field is value for field in getattr(argument, "__dict__", {}).values())


def files_passed(value, run):
    """Return the files of the package that are called with a value while a function runs."""
    files = set()

    def record_call(frame, event, _):
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(PACKAGE):
            arguments = frame.f_locals.values()
            if any(holds(argument, value) for argument in arguments):
                files.add(path.relative_to(PACKAGE).as_posix())

    sys.setprofile(record_call)
    try:
        run()
    finally:
        sys.setprofile(None)
    return files


@pytest.mark.parametrize("name", ["scoring", "groups"])
def test_a_parameter_of_a_report_passes_few_files(name):
    holdout = ReusableHoldout(X[HOLDOUT_ROWS], Y[HOLDOUT_ROWS], correlation=None, random_state=0)
    # A list: its name goes on as that of the metric, and is recorded with every row.
    scoring = ["balanced_accuracy"]
    groups = GROUPS[TRAINING_ROWS].copy()
    model = LogisticRegression().fit(X[TRAINING_ROWS], Y[TRAINING_ROWS])

    def report():
        holdout.final_report(
            model, scoring=scoring, training=(X[TRAINING_ROWS], Y[TRAINING_ROWS], groups)
        )

    files = files_passed({"scoring": scoring, "groups": groups}[name], report)
    assert 0 < len(files) <= MAX_FILES, sorted(files)
