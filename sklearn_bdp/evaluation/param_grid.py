"""Checks of the parameter grid of a search, and of a candidate's parameters, before any fit."""

import difflib
from collections.abc import Mapping

from sklearn.base import clone

_EXAMPLE = "{'C': [0.1, 1.0]}"
_NOT_QUERIED = "The holdout was not queried."


def check_grid_type(param_grid):
    """Raise TypeError unless ``param_grid`` is a mapping of parameter names, or a list of mappings.

    Raises ValueError for a parameter with an empty list or tuple of values.
    """
    grids = [param_grid] if isinstance(param_grid, Mapping) else param_grid
    problem = ""
    if not isinstance(grids, list):
        problem = "None"
        if param_grid is not None:
            problem = f"{param_grid!r:.80} of type {type(param_grid).__name__}"
    else:
        wrong_types = [type(grid).__name__ for grid in grids if not isinstance(grid, Mapping)]
        problem = f"a list of {wrong_types[0].replace('str', 'string')}s" if wrong_types else ""
    if problem:
        raise TypeError(
            "param_grid must be a dict of parameter names and lists of values, such as "
            f"{_EXAMPLE}, or a list of such dicts, got {problem}. {_NOT_QUERIED}"
        )
    for grid in grids:
        for name, values in grid.items():
            # The error begins with the words of scikit-learn.
            if isinstance(values, list | tuple) and not values:
                raise ValueError(
                    f"Parameter grid for parameter {name!r} need to be a non-empty sequence, "
                    f"got: {values}. Give values in param_grid, such as [0.1, 1.0], or remove the "
                    f"key. {_NOT_QUERIED}"
                )


def check_candidate(estimator, params):
    """Raise an error if an estimator does not take the parameters of a candidate.

    ``params``: parameter values by name. A ValueError for an unknown name states a fix, such as
    ``logisticregression__C`` for ``C``. An estimator that is a class raises TypeError.
    """
    if isinstance(estimator, type):
        raise TypeError(
            f"estimator must be an instance: pass {estimator.__name__}(), not the class. "
            f"{_NOT_QUERIED}"
        )
    if not params:
        return
    try:
        clone(estimator).set_params(**clone(params, safe=False))
    except ValueError as error:
        valid_names = list(estimator.get_params(deep=True))
        # A candidate may replace a step and set parameters of the new step.
        step_prefixes = tuple(f"{name}__" for name in params)
        unknown_names = [
            name
            for name in params
            if name not in valid_names and not name.startswith(step_prefixes)
        ]
        if not unknown_names:  # an error about a value, or about a step that the candidate replaces
            raise
        raise ValueError(_unknown_name_text(unknown_names[0], estimator, valid_names)) from error


def _unknown_name_text(name, estimator, valid_names):
    """Return the message about a name that the estimator has no parameter for.

    ``valid_names``: list of the names of all parameters, including nested ones.
    """
    unprefixed_name = name.rpartition("__")[2]
    similar_names = [
        valid_name
        for valid_name in valid_names
        if valid_name.rpartition("__")[2] == unprefixed_name
    ][:3]
    similar_names = similar_names or difflib.get_close_matches(name, valid_names, n=1, cutoff=0.7)
    class_name = type(estimator).__name__
    fix = f"Did you mean {' or '.join(map(repr, similar_names))}?"
    if not similar_names:
        own_names = [valid_name for valid_name in valid_names if "__" not in valid_name]
        fix = f"Parameters of {class_name}: {', '.join(own_names)}."
        if hasattr(estimator, "steps"):
            step_names = [step_name for step_name, _ in estimator.steps]
            fix = f"Begin names with a step and two underscores. Steps: {', '.join(step_names)}."
    return (
        f"param_grid has the name {name!r}, which is not a parameter of {class_name}. {fix} "
        f"{_NOT_QUERIED}"
    )
