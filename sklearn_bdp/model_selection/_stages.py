"""What a search does before the holdout is asked and with what it released.

Before: check, divide, open, set up the evaluation. After: ``cv_results_``, choice, certificate.
"""

from __future__ import annotations

import contextlib
import copy
import math
import sys
import warnings

import numpy as np
import sklearn
from scipy.stats import rankdata
from sklearn.base import clone, is_classifier
from sklearn.model_selection import ParameterGrid, ParameterSampler
from sklearn.utils import Bunch
from sklearn.utils.metadata_routing import process_routing
from sklearn.utils.validation import has_fit_parameter

from sklearn_bdp._checks import caller_level
from sklearn_bdp._digests import data_digest, object_digest
from sklearn_bdp._evaluation import (
    CrossValidation,
    Experiment,
    FoldOptions,
    MetricScorer,
    Progress,
    Verifier,
    certified,
    check_owner,
    check_proved,
    divide_for,
    fold_file,
    inner_folds,
    open_holdout,
    recorded_seed,
    secondary_metrics,
    training_scorers,
    verified_metric,
)
from sklearn_bdp._sklearn_compat import (
    check_method_params,
    root_context,
)
from sklearn_bdp.exceptions import (
    UnboundedMetricError,
    UnverifiedWarning,
    UnweightedScoreWarning,
)
from sklearn_bdp.guards import check_agreement, warn_of_choice

#: Characters up to which a model is named by its code.
_SHORT = 80
#: Said where a search is fitted only by name, as scikit-learn's is then.
_NOTHING = (
    "no candidate was verified: each has a cross-validated score of NaN (other warnings may show "
    "the cause; often a fold lacks a class). best_score_ is NaN, and best_params_ are the first "
    "ones. Use fewer folds, another metric or more records"
)


class Preparation:
    """The part of a search that comes before its first query.

    Nothing here sees a holdout score: what can go wrong goes wrong while nothing is spent.
    """

    def _check_options(self, X_val):
        """Check what can be checked before any work; return what a new holdout will be."""
        if self.training_score == "resubstitution":
            if isinstance(self.refit, str) and self.refit == "one_se":
                raise ValueError(
                    "refit='one_se' needs the standard errors of training_score='cv', got "
                    "training_score='resubstitution'."
                )
            if self.verify != "all":
                raise ValueError(
                    "verify must be 'all' with training_score='resubstitution', where the training "
                    f"score comes with the fit, got verify={self.verify!r}."
                )
        for candidate in filter(None, self._one_of_each()):  # the empty one sets nothing
            clone(self.estimator).set_params(**clone(candidate, safe=False))
        config = check_owner(self, X_val)
        if X_val is not None and has_fit_parameter(self.estimator, "X_val"):
            raise ValueError(
                f"X_val is ambiguous: {type(self.estimator).__name__}.fit has a parameter of this "
                "name, and the search makes it the holdout. Pass the holdout records as "
                "holdout=ReusableHoldout(X_val, y_val). Nothing was fitted."
            )
        return config

    def _one_of_each(self):
        """Return a candidate of each grid, for its names."""
        if self.n_iter is None:
            return [ParameterGrid(grid)[0] for grid in ParameterGrid(self.param_grid).param_grid]
        grids = ParameterSampler(self.param_grid, self.n_iter).param_distributions
        return [next(iter(ParameterSampler(grid, 1, random_state=0))) for grid in grids]

    def _signature(self, data):
        """Return a digest of parameters and data, or None."""
        params = self.get_params(deep=False)
        for name in ("n_jobs", "pre_dispatch", "verbose"):
            params.pop(name)
        return object_digest((params, data_digest(*data.parts())))

    def _resumed(self, config, data):
        """Return what an interrupted run of the same search left behind, or a new start."""
        before, known = self.__dict__.pop("_unfinished", (None, None))
        if known is not None and known == self._signature(data):
            return before
        seed, split = recorded_seed(self, config, data)
        file = fold_file(config, lambda: self._signature(data))
        return Progress(seed=seed, split=split, config=config, file=file)

    def _prepare(self, progress, data):
        """Divide the data and open the holdout, when nothing that can be checked is wrong.

        Returns the :class:`CrossValidation` of the training set, with the verifier of the holdout.
        """
        division = progress.division
        if division is None:
            division = divide_for(self, progress.config, self.estimator, data, split=progress.split)
        params, groups = data.params, data.groups
        if division.train is not None:
            params = check_method_params(data.X, params, indices=division.train)
            groups = None if groups is None else np.asarray(groups)[division.train]
        name, metric = verified_metric(self, division.y)
        metric = metric.informed(division.y, division.train_groups())
        check_proved(metric, division.model)
        check_agreement(self.estimator, division)
        routed = self._routed(params, groups)
        whole, splitter, self.n_splits_ = self.training_score == "resubstitution", None, 1
        if not whole:
            splitter = inner_folds(self.cv, division, classifier=is_classifier(self.estimator))
            self.n_splits_ = splitter.get_n_splits(division.X, division.y, **routed.splitter.split)
            self._checked_cv_orig = splitter  # where scikit-learn's halving looks for it
        progress.division = division
        if progress.holdout is None:
            progress.holdout = open_holdout(
                self, division, split=progress.split, metric=metric, fit_params=routed.estimator.fit
            )
        secondary = secondary_metrics(self, name, division)
        setting = Experiment(
            estimator=clone(self.estimator), X=division.X, y=division.y,
            X_holdout=division.X_holdout, y_holdout=division.y_holdout, metric=metric,
            fit_params=routed.estimator.fit, error_score=self.error_score,
            resubstitution=whole, secondary=secondary,
        )  # fmt: skip
        dispatch = {"n_jobs": self.n_jobs, "pre_dispatch": self.pre_dispatch}
        dates = division.dates_given_past()
        verifier = Verifier(setting, progress.holdout, dates=dates, **dispatch)
        context = root_context(self, division.X, division.y, params.get("sample_weight"))
        kept: dict = {}
        options = FoldOptions(
            splitter=splitter, n_splits=self.n_splits_,
            fit_params=routed.estimator.fit, split_params=routed.splitter.split,
            scorers=training_scorers(self, name, metric, secondary, kept), kept=kept,
            several=callable(self.scoring),
            format_results=self._format_results, return_train_score=self.return_train_score,
            error_score=self.error_score, verbose=self.verbose, dispatch=dispatch,
            eager=self.verify == "all" and not self._eliminates, eliminates=self._eliminates,
            context=context, caller=None if context is None else self,
        )  # fmt: skip
        return CrossValidation(name, division, verifier, progress, options)

    def _routed(self, params, groups):
        """Return what goes to the estimator's ``fit`` and to the splitter."""
        if sklearn.get_config()["enable_metadata_routing"]:
            if groups is not None and self.get_metadata_routing().consumes("fit", ["groups"]):
                params = {**params, "groups": groups}
            routed = process_routing(self, "fit", **params)
            if routed.scorer.score:
                raise UnboundedMetricError(
                    f"scoring asks for {sorted(routed.scorer.score)}: a weighted score has no "
                    "proved sensitivity. Let only fit request them."
                )
            return routed
        if params.get("sample_weight") is not None:
            warnings.warn(
                "sample_weight goes to fit. In scores, each record counts once, in the training "
                "set and in the holdout.",
                UnweightedScoreWarning,
                stacklevel=caller_level(),
            )
        return Bunch(estimator=Bunch(fit=params), splitter=Bunch(split={"groups": groups}))

    def _get_scorers(self):
        """Return scikit-learn's scorers; bounded metrics that it does not know need no routing."""
        try:
            return super()._get_scorers()
        except (TypeError, ValueError):
            if self.holdout is None:
                raise
            return MetricScorer(None), "score"


def search_results(search, folds, assessments):
    """Return ``cv_results_`` with the released values, in score units."""
    metric, n = folds.metric, len(folds.candidates)
    if folds.results is not None:
        results = {**folds.results, "training_score": folds.scores}
    else:
        results = _resubstitution_results(search, folds, assessments)
        training = metric.from_unit(_column(n, assessments, "training"))
        results |= {"training_score": training, "mean_train_score": training}
    results |= _columns(metric, n, assessments)
    results["rank_holdout_score"] = _rank(results["holdout_score"])
    scored = [name.removeprefix("mean_test_") for name in results if name.startswith("mean_test_")]
    for name in dict.fromkeys([*scored, folds.name, *folds.secondary]):
        if name == folds.name != "score":
            results |= _columns(metric, n, assessments, end=f"_{name}")
        elif name in folds.secondary:
            own = {row: found.secondary[name] for row, found in assessments.items()}
            results |= _columns(folds.secondary[name], n, own, end=f"_{name}")
        elif name != folds.name:  # said plainly: the holdout was not asked about these
            results[f"answered_from_{name}"] = np.full(n, "unverified")
    return results


def certificate_of(search, folds, found):
    """Return the certificate of a search, and warn where its score is not what it seems."""
    metric, best = folds.metric, search.best_index_
    outcome = found[best].outcome if best in found else None
    clipping = folds.progress.clipping(best) or getattr(outcome, "clipping", None)
    facts = {
        "of": "the chosen candidate",
        "score": search.best_score_,
        "interval": search.best_interval_,
        "training": search.cv_results_["training_score"][best],
    }
    if search.training_score == "resubstitution":
        facts["training"] = np.nan  # it is too good by construction
    notes = _unverified(search.cv_results_)
    if not np.isfinite(search.cv_results_["training_score"]).any():
        notes = (_NOTHING, *notes)
    for note in notes:
        warnings.warn(note, UnverifiedWarning, stacklevel=caller_level())
    warn_of_choice(search.holdout_, metric, folds.division, **facts, clipping=clipping)
    assumed = folds.verifier.row_wise.assumptions
    return certified(
        search.holdout_, folds.division, metric, **facts, notes=notes, assumptions=assumed,
        answer=found[best].answer if best in found else None,
    )  # fmt: skip


def _unverified(results):
    """Return a note of the metrics that the holdout was not asked about, if there are any."""
    start = "answered_from_"
    columns = {key: source for key, source in results.items() if key.startswith(start)}
    names = [key.removeprefix(start) for key, of in columns.items() if (of == "unverified").all()]
    if not names:
        return ()
    return (
        f"not verified on the holdout: {', '.join(names)}. Their scores are from the training set "
        "alone. get_metric(name) explains why a metric has no bound, and which metrics have one",
    )


def _column(n, assessments, name, missing=math.nan):
    """Return one number, or word, of each candidate."""
    column = np.full(n, missing)
    for row, found in assessments.items():
        column[row] = getattr(found, name)
    return column


def _columns(metric, n, assessments, *, end=""):
    """Return what was released by one metric, in score units, and where each answer came from."""
    parts = (("score", "released"), ("lower", "lower"), ("upper", "upper"))
    columns = {
        f"holdout_{column}{end}": metric.from_unit(_column(n, assessments, name))
        for column, name in parts
    }
    return columns | {f"answered_from{end}": _column(n, assessments, "source", "unanswered")}


def _resubstitution_results(search, folds, assessments):
    """Return ``cv_results_`` where no cross-validation was run: parameters and times."""
    out = []
    for row in range(len(folds.candidates)):
        outcome = assessments[row].outcome if row in assessments else None
        times = (np.nan, np.nan) if outcome is None else (outcome.fit_time, outcome.score_time)
        out.append({"fit_time": times[0], "score_time": times[1], "test_scores": np.nan})
    with warnings.catch_warnings():  # the placeholder test scores are dropped below
        warnings.simplefilter("ignore", UserWarning)
        blank = copy.copy(search)
        blank.return_train_score = False
        params = [candidate.params for candidate in folds.candidates]
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
