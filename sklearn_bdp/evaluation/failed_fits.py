"""Errors of fits on training records, with the likely cause and its fix."""

import re

import numpy as np
import scipy.sparse
from sklearn.base import is_classifier, is_regressor

from sklearn_bdp.metrics.scoring import final_step
from sklearn_bdp.utils.sklearn_compat import is_frame, num_samples, report_failures
from sklearn_bdp.utils.validation import count_missing

_MAX_LENGTH = 300  # characters of the first error in a message
_MAX_COLUMNS = 5  # columns that are named


def report_failed_fits(fit_errors, error_score, *, estimator, X, y, fits_text, n_folds=1):
    """Warn about failed fits as scikit-learn does, or raise ValueError if all candidates fail.

    Without a failed fit nothing is done.

    Parameters
    ----------
    fit_errors : list of str or None
        Traceback of each fit, None if it succeeded; those of one candidate follow each other.
    error_score : float or "raise"
        Parameter of the search, for the warning.
    estimator : estimator
        Not fitted.
    X, y : array-like
        Training records and targets.
    fits_text : str
        Description of the fits, such as "2 candidates, 5 folds".
    n_folds : int, default=1
        Number of fits of each candidate.

    Raises
    ------
    ValueError
        If all fits failed, or if :func:`missing_values_text` finds missing or infinite values in
        ``X`` and a fit of each candidate failed with an error about NaN.
    """
    tracebacks = [error for error in fit_errors if error is not None]
    if not tracebacks:
        return
    n_fits = len(fit_errors)
    # For each candidate: whether an error of one of its fits mentions NaN.
    fails_with_nan = [
        any(error is not None and "NaN" in error for error in fit_errors[start : start + n_folds])
        for start in range(0, n_fits, n_folds)
    ]
    missing_text = missing_values_text(X, estimator) if all(fails_with_nan) else ""
    if len(tracebacks) < n_fits and not missing_text:
        report_failures([{"fit_error": error} for error in fit_errors], error_score)
        return
    count_text = f"{len(tracebacks)} of the {n_fits} fits"
    if len(tracebacks) == n_fits:
        count_text = f"All {n_fits} fits" if n_fits > 1 else "The only fit"
    error_text = first_error(tracebacks[0])
    cause = (
        likely_cause(X, y, estimator)
        or _invalid_parameter_text(error_text, estimator)
        or "Set error_score='raise' to stop at the first error. "
    )
    # scikit-learn's error about missing values does not name their columns.
    reason = f": {missing_text}" if missing_text else f". The first error: {error_text}. {cause}"
    error = ValueError(f"{count_text} failed ({fits_text}){reason}The holdout was not queried.")
    error.add_note(tracebacks[0])
    raise error


def first_error(traceback_text):
    """Return the class name and the first line of the error that a traceback ends with.

    "unknown" without an error. The text has at most ``_MAX_LENGTH`` characters.
    """
    lines = traceback_text.rpartition("Traceback (most recent call last):\n")[2].splitlines()
    line = next((line for line in lines if line and not line.startswith(" ")), "unknown")
    line = re.sub(r"^(\w+\.)+(?=\w+(:|$))", "", line)  # the class without its module
    return line.rstrip(" .:")[:_MAX_LENGTH]


def missing_values_text(X, estimator, table="X"):
    """Return a message on columns with missing or infinite values, and its fix; "" without any.

    ``table``: name of ``X`` in the message.
    """
    kinds_by_column = _columns_with_missing_values(X)
    if not kinds_by_column:
        return ""
    column_text = ", ".join(map(repr, [*kinds_by_column][:_MAX_COLUMNS]))
    if len(kinds_by_column) > _MAX_COLUMNS:
        column_text += ", ..."
    noun = "columns" if len(kinds_by_column) > 1 else "column"
    class_name = type(final_step(estimator)).__name__
    value_kinds = sorted(set().union(*kinds_by_column.values()))
    fix = ""
    if "infinity" in value_kinds:
        code = f"np.where(np.isinf({table}), np.nan, {table})"
        if is_frame(X):
            code = f"{table}.replace([np.inf, -np.inf], np.nan)"
        fix = f"Replace infinity with NaN: {code}. "
    if hasattr(estimator, "steps"):
        fix += "Put SimpleImputer() first in your pipeline to impute NaN"
    else:
        fix += f"Impute NaN in a pipeline, as in make_pipeline(SimpleImputer(), {class_name}())"
    if is_classifier(estimator) or is_regressor(estimator):
        estimator_kind = "Classifier" if is_classifier(estimator) else "Regressor"
        fix += f", or use HistGradientBoosting{estimator_kind}"
    return (
        f"{table} contains {' and '.join(value_kinds)} in the {noun} {column_text}, which "
        f"{class_name} does not accept. {fix}. "
    )


def _columns_with_missing_values(X):
    """Return the result of :func:`_kinds_of_missing_values` by column, for columns with any.

    Keys are names of columns in a frame, and positions in a two-dimensional array or sparse matrix.
    The dict is empty for other data.
    """
    kinds_by_column = {}
    if scipy.sparse.issparse(X):
        table = X.tocoo()
        is_missing = ~np.isfinite(table.data)
        for position in np.unique(table.col[is_missing]).tolist():
            kinds_by_column[position] = _kinds_of_missing_values(table.data[table.col == position])
    elif is_frame(X):
        kinds_by_column = {
            name: _kinds_of_missing_values(np.asarray(X[name])) for name in X.columns
        }
    elif len(getattr(X, "shape", ())) == 2:
        kinds_by_column = dict(enumerate(map(_kinds_of_missing_values, np.asarray(X).T)))
    return {column: kinds for column, kinds in kinds_by_column.items() if kinds}


def _kinds_of_missing_values(values):
    """Return a set that may contain "NaN" and "infinity".

    "NaN": an array of floats or objects has missing values, such as None, NA and NaT. "infinity":
    an array of floats has infinite values.
    """
    n_infinite = np.count_nonzero(np.isinf(values)) if values.dtype.kind == "f" else 0
    value_kinds = set()
    if n_infinite:
        value_kinds.add("infinity")
    if count_missing(values) > n_infinite:
        value_kinds.add("NaN")
    return value_kinds


def likely_cause(X, y, estimator):
    """Return a text on the likely cause of failing fits on a training set; "" without one."""
    classes = np.unique(np.asarray(y)) if is_classifier(estimator) and np.ndim(y) == 1 else None
    if classes is not None and classes.size == 1:
        return (
            f"All {num_samples(X)} training targets are {classes.tolist()[0]!r}: check y, or bring "
            "records of another class. If y has a second class, the training set has none of its "
            "records. "
        )
    if len(getattr(X, "shape", ())) == 1:
        return (
            "X has one dimension: pass X.reshape(-1, 1), or X[['name']] in pandas, if it is one "
            "feature. "
        )
    if len(getattr(X, "shape", ())) == 3:
        return "X has three dimensions: pass X.reshape(len(X), -1), one row per record. "
    text_columns = [] if not is_frame(X) else [name for name in X.columns if _is_text(X[name])]
    return _text_columns_text(text_columns, estimator) if text_columns else ""


def _text_columns_text(text_columns, estimator):
    """Return a message that names the columns with text, and code that encodes them.

    ``text_columns``: non-empty list of column names.
    """
    names = ", ".join(map(repr, text_columns[:_MAX_COLUMNS]))
    if len(text_columns) > _MAX_COLUMNS:
        names += ", ..."
    encoder = (
        f"make_column_transformer((OneHotEncoder(handle_unknown='ignore'), [{names}]), "
        "remainder='passthrough')"
    )
    fix = f"Set estimator=make_pipeline({encoder}, {type(estimator).__name__}())"
    if hasattr(estimator, "steps"):
        fix = f"Begin the pipeline with {encoder}"
    noun = "columns" if len(text_columns) > 1 else "column"
    return f"X has text in the {noun} {names}. {fix}. "


def _invalid_parameter_text(error_text, estimator):
    """Return a message that names the parameter with an invalid value, "" for other errors.

    ``error_text``: class name and first line of an error. ``estimator``: perhaps a pipeline.
    """
    match = re.match(r"InvalidParameterError: The '(\w+)' parameter of (\w+)", error_text)
    if match is None:
        return ""
    parameter, class_name = match.groups()
    nested_estimators = {"": estimator, **estimator.get_params(deep=True)}
    param_names = [
        f"{prefix}__{parameter}".removeprefix("__")
        for prefix, nested_estimator in nested_estimators.items()
        if type(nested_estimator).__name__ == class_name
    ]
    if not param_names:
        return ""
    return f"Change {' or '.join(map(repr, param_names))} in param_grid, or in the estimator. "


def _is_text(column):
    """Return whether the first value of a column is text."""
    values = np.asarray(column)
    return values.size > 0 and isinstance(values[0], str)
