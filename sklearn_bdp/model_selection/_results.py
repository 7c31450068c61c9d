"""What a search makes of released values: ``cv_results_``, choice, certificate."""

from __future__ import annotations

import contextlib
import copy
import sys
import warnings

import numpy as np
from scipy.stats import rankdata

from sklearn_bdp._checks import caller_level
from sklearn_bdp._evaluation import NoAnswer, certified
from sklearn_bdp.exceptions import UnverifiedWarning

#: Characters up to which a model is named by its code.
_SHORT = 80
#: Said where a search is fitted only by name, as scikit-learn's is then.
_NOTHING = (
    "no candidate was verified: each has a cross-validated score of NaN (other warnings may show "
    "the cause; often a fold lacks a class). best_score_ is NaN, and best_params_ are the first "
    "ones. Use fewer folds, another metric or more records"
)


def search_results(search, folds, found):
    """Return ``cv_results_`` with the released values, in score units; ``found``: by row."""
    metric, n = folds.metric, len(found)
    if folds.results is not None:
        results = {**folds.results, "training_score": folds.scores}
    else:  # no cross-validation was run: parameters and times, and placeholders as test scores
        nothing = {"fit_time": np.nan, "score_time": np.nan, "test_scores": np.nan}
        times = [{} if one.outcome is None else vars(one.outcome) for one in found]
        out = [{name: own.get(name, missing) for name, missing in nothing.items()} for own in times]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            blank = copy.copy(search)
            blank.return_train_score = False
            results = blank._format_results([one.params for one in folds.candidates], 1, out)
        results = {name: value for name, value in results.items() if "test_score" not in name}
        training = metric.from_unit(np.array([one.training for one in found]))
        results |= {"training_score": training, "mean_train_score": training}
    results |= _columns(metric, [one.answer for one in found])
    # Candidates without a verified score share the last place.
    scores = np.nan_to_num(results["holdout_score"], nan=-np.inf)
    results["rank_holdout_score"] = rankdata(-scores, method="min").astype(np.int32)
    scored = [name.removeprefix("mean_test_") for name in results if name.startswith("mean_test_")]
    for name in dict.fromkeys([*scored, folds.name, *folds.secondary]):
        if name == folds.name != "score":
            results |= _columns(metric, [one.answer for one in found], end=f"_{name}")
        elif name in folds.secondary:
            own = [getattr(one.secondary.get(name), "answer", NoAnswer()) for one in found]
            results |= _columns(folds.secondary[name], own, end=f"_{name}")
        elif name != folds.name:  # said plainly: the holdout was not asked about these
            results[f"answered_from_{name}"] = np.full(n, "unverified")
    return results


def _columns(metric, answers, *, end=""):
    """Return what was released by one metric, in score units, and where each answer came from."""
    columns = {f"answered_from{end}": np.array([one.source for one in answers])}
    for column, name in (("score", "value"), ("lower", "lower"), ("upper", "upper")):
        values = np.array([getattr(one, name) for one in answers])
        columns[f"holdout_{column}{end}"] = metric.from_unit(values)
    return columns


def certificate_of(search, folds, found):
    """Return the certificate of a search, and warn of what is not verified."""
    metric, best, results = folds.metric, search.best_index_, search.cv_results_
    training = results["training_score"]
    start, notes = "answered_from_", []
    if not np.isfinite(training).any():
        notes.append(_NOTHING)
    columns = {key: source for key, source in results.items() if key.startswith(start)}
    names = [key.removeprefix(start) for key, of in columns.items() if (of == "unverified").all()]
    if names:
        notes.append(
            f"not verified on the holdout: {', '.join(names)}. Their scores are from the training "
            "set alone. get_metric(name) explains why a metric has no bound, and which metrics "
            "have one"
        )
    for note in notes:
        warnings.warn(note, UnverifiedWarning, stacklevel=caller_level())
    one = found[best]
    return certified(
        search.holdout_, folds.division, metric, of="the chosen candidate",
        score=search.best_score_, interval=search.best_interval_, answer=one.answer, notes=notes,
        # A score by resubstitution is too good by construction.
        training=training[best] if search.training_score == "cv" else np.nan,
        clipping=folds.progress.clipping(best) or getattr(one.outcome, "clipping", None),
        assumptions=folds.verifier.row_wise.assumptions,
    )  # fmt: skip


def chosen_row(rule, results, error):
    """Return the row that a rule chooses by released values.

    ``"best"``: the highest verified score; ties (released values lie on a grid) go to the better
    training-side score. ``"best_lower"``: the highest lower end. ``"one_se"``: the first candidate,
    in the order of the grid, within one standard error (of its folds' scores) of the best.
    """
    training = results["training_score"]
    if rule == "best_lower":
        lower = np.nan_to_num(results["holdout_lower"], nan=-np.inf)
        return int(np.lexsort((-training, -lower))[0])
    best = int(np.lexsort((-training, results["rank_holdout_score"]))[0])
    if rule == "best":
        return best
    near = results["holdout_score"] >= results["holdout_score"][best] - error[best]
    return int(np.flatnonzero(near)[0]) if near.any() else best


def in_words(model, params):
    """Return a model as code, without defaults and where that is short, and what was searched."""
    whole = " ".join(repr(model).split())
    named = whole if len(whole) <= _SHORT else type(model).__name__
    searched = ", ".join(f"{name}={value!r:.40}" for name, value in params.items())
    return f"{named} with {searched}" if searched else named


@contextlib.contextmanager
def without_autologging():
    """Keep MLflow from logging in this block: it patches ``fit`` of scikit-learn's own classes.

    It would score the best model on all data given to ``fit``, holdout records included.
    """
    tools = sys.modules.get("mlflow.utils.autologging_utils")
    if tools is None or tools.autologging_is_disabled("sklearn"):
        yield
        return
    with tools.disable_autologging():
        yield
