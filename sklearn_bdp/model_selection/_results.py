"""``cv_results_`` of a verified search: the training side's, and what the holdout released."""

import copy
import warnings

import numpy as np
from scipy.stats import rankdata

from sklearn_bdp._checks import caller_level
from sklearn_bdp._evaluation import certified
from sklearn_bdp.exceptions import UnverifiedWarning
from sklearn_bdp.guards import warn_of_choice

#: Characters up to which a model is named by its code.
_SHORT = 80
#: Said where a search is fitted only by name, as scikit-learn's is then.
_NOTHING = (
    "nothing was verified: no candidate has a training-side score, for each is NaN in a fold of cv "
    "(other warnings may tell why; often a fold lacks a class), so best_score_ is NaN and "
    "best_params_ are merely the first ones. Use fewer folds, another metric or more records"
)


def search_results(search, rounds, assessments):
    """Return ``cv_results_`` with the released values, in score units."""
    metric = rounds.metric
    table, source = _released(len(rounds.candidates), assessments)
    if rounds.results is not None:
        results = dict(rounds.results)
        results["training_score"] = rounds.scores
    else:
        results = _resubstitution_results(search, rounds, assessments)
        results["training_score"] = metric.from_unit(table["training"])
        results["mean_train_score"] = results["training_score"]
    results.update(_columns(metric, table, source))
    results["rank_holdout_score"] = _rank(results["holdout_score"])
    scored = [name.removeprefix("mean_test_") for name in results if name.startswith("mean_test_")]
    for name in dict.fromkeys([*scored, rounds.name, *rounds.further]):
        if name == rounds.name != "score":
            results.update(_columns(metric, table, source, name=name))
        elif name in rounds.further:
            own = {row: found.beside[name] for row, found in assessments.items()}
            released = _released(len(rounds.candidates), own)
            results.update(_columns(rounds.further[name], *released, name=name))
        elif name != rounds.name:  # said plainly: the holdout was not asked about these
            results[f"answered_from_{name}"] = np.full(len(rounds.candidates), "unverified")
    return results


def certificate_of(search, rounds, found):
    """Return the certificate of a search, and warn where its score is not what it seems."""
    metric, best = rounds.metric, search.best_index_
    outcome = found[best].outcome if best in found else None
    clipping = rounds.clipping.get(best, getattr(outcome, "clipping", None))
    told = {
        "of": "the chosen candidate",
        "score": search.best_score_,
        "interval": search.best_interval_,
    }
    notes = _unverified(search.cv_results_)
    if not np.isfinite(search.cv_results_["training_score"]).any():
        notes = (_NOTHING, *notes)
    for note in notes:
        warnings.warn(note, UnverifiedWarning, stacklevel=caller_level())
    warn_of_choice(search.holdout_, metric, **told, clipping=clipping)
    assumed = rounds.verifier.row_wise.assumptions
    return certified(
        search.holdout_, rounds.division, metric, **told, notes=notes, assumptions=assumed
    )


def _unverified(results):
    """Return a note of the metrics that the holdout was not asked about, if there are any."""
    start = "answered_from_"
    columns = {key: source for key, source in results.items() if key.startswith(start)}
    names = [key.removeprefix(start) for key, of in columns.items() if (of == "unverified").all()]
    if not names:
        return ()
    return (
        f"not verified on the holdout: {', '.join(names)}. What is said of them is from the "
        "training side alone; get_metric(name) tells why a metric has no bound, and what has one",
    )


def _released(n, assessments):
    """Return arrays of what was released, in [0, 1], and where each answer came from."""
    table = {name: np.full(n, np.nan) for name in ("training", "released", "lower", "upper")}
    source = np.full(n, "unanswered", dtype="<U10")
    for row, found in assessments.items():
        source[row] = found.source
        for name, column in table.items():
            column[row] = getattr(found, name)
    return table, source


def _columns(metric, table, source, *, name=None):
    """Return the columns of one metric, in score units."""
    end = "" if name is None else f"_{name}"
    return {
        f"holdout_score{end}": metric.from_unit(table["released"]),
        f"holdout_lower{end}": metric.from_unit(table["lower"]),
        f"holdout_upper{end}": metric.from_unit(table["upper"]),
        f"answered_from{end}": source,
    }


def _resubstitution_results(search, rounds, assessments):
    """Return ``cv_results_`` where no cross-validation was run: parameters and times."""
    out = []
    for row in range(len(rounds.candidates)):
        outcome = assessments[row].outcome if row in assessments else None
        times = (np.nan, np.nan) if outcome is None else (outcome.fit_time, outcome.score_time)
        out.append({"fit_time": times[0], "score_time": times[1], "test_scores": np.nan})
    with warnings.catch_warnings():  # the placeholder test scores are dropped below
        warnings.simplefilter("ignore", UserWarning)
        blank = copy.copy(search)
        blank.return_train_score = False
        params = [candidate.params for candidate in rounds.candidates]
        results = blank._format_results(params, 1, out)
    return {name: value for name, value in results.items() if "test_score" not in name}


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


def _rank(scores):
    """Return ranks from 1 (best); candidates without a verified score share the last place."""
    known = np.isfinite(scores)
    if not known.any():
        return np.ones(scores.size, dtype=np.int32)
    worst = scores[known].min() - 1
    return rankdata(-np.where(known, scores, worst), method="min").astype(np.int32)


def in_words(model, params):
    """Return a model as code, without defaults and where that is short, and what was searched."""
    whole = " ".join(repr(model).split())
    named = whole if len(whole) <= _SHORT else type(model).__name__
    searched = ", ".join(f"{name}={value!r:.40}" for name, value in params.items())
    return f"{named} with {searched}" if searched else named
