"""Checks of the parameter grid of a search, and of a candidate's parameters, before any fit."""

import difflib
from collections.abc import Mapping

from sklearn.base import clone

_EXAMPLE = "{'C': [0.1, 1.0]}"
_NOT_QUERIED = "The holdout was not queried."


def check_grid_type(param_grid):
    """Raise TypeError unless candidates are a dict of names and values, or a list of such dicts.

    Raises ValueError for an empty list of values.
    """
    spaces = [param_grid] if isinstance(param_grid, Mapping) else param_grid
    problem = ""
    if not isinstance(spaces, list):
        problem = "None"
        if param_grid is not None:
            problem = f"{param_grid!r:.80} of type {type(param_grid).__name__}"
    else:
        wrong_types = [type(space).__name__ for space in spaces if not isinstance(space, Mapping)]
        problem = f"a list of {wrong_types[0].replace('str', 'string')}s" if wrong_types else ""
    if problem:
        raise TypeError(
            "param_grid must be a dict of parameter names and lists of values, such as "
            f"{_EXAMPLE}, or a list of such dicts, got {problem}. {_NOT_QUERIED}"
        )
    for space in spaces:
        for name, values in space.items():
            # The error begins with the words of scikit-learn.
            if isinstance(values, list | tuple) and not values:
                raise ValueError(
                    f"Parameter grid for parameter {name!r} need to be a non-empty sequence, "
                    f"got: {values}. Give values in param_grid, such as [0.1, 1.0], or remove the "
                    f"key. {_NOT_QUERIED}"
                )


def check_candidate(estimator, candidate):
    """Raise an error if an estimator does not take the parameters of a candidate.

    ``candidate``: parameters by name. A ValueError for an unknown name names a fix, such as
    ``logisticregression__C`` for ``C``. An estimator that is a class raises TypeError.
    """
    if isinstance(estimator, type):
        raise TypeError(
            f"estimator must be an instance: pass {estimator.__name__}(), not the class. "
            f"{_NOT_QUERIED}"
        )
    if not candidate:  # an empty candidate sets no parameter
        return
    try:
        clone(estimator).set_params(**clone(candidate, safe=False))
    except ValueError as error:
        names = estimator.get_params(deep=True)
        # A candidate may replace a step and set parameters of the new step.
        step_prefixes = tuple(f"{name}__" for name in candidate)
        unknown_names = [
            name for name in candidate if name not in names and not name.startswith(step_prefixes)
        ]
        if not unknown_names:  # an error about a value, or about a step that the candidate replaces
            raise
        raise ValueError(_unknown_name_text(unknown_names[0], estimator, names)) from error


def _unknown_name_text(name, estimator, names):
    """Return the message about a name that the estimator has no parameter for.

    ``names``: names of all parameters, including nested ones.
    """
    last_part = name.rpartition("__")[2]
    similar_names = [
        parameter for parameter in names if parameter.rpartition("__")[2] == last_part
    ][:3]
    similar_names = similar_names or difflib.get_close_matches(name, names, n=1, cutoff=0.7)
    class_name = type(estimator).__name__
    fix = f"Did you mean {' or '.join(map(repr, similar_names))}?"
    if not similar_names:
        own_names = [parameter for parameter in names if "__" not in parameter]
        fix = f"Parameters of {class_name}: {', '.join(own_names)}."
        if hasattr(estimator, "steps"):
            step_names = [step_name for step_name, _ in estimator.steps]
            fix = f"Begin names with a step and two underscores. Steps: {', '.join(step_names)}."
    return (
        f"param_grid has the name {name!r}, which is not a parameter of {class_name}. {fix} "
        f"{_NOT_QUERIED}"
    )
