"""The training side of a search: ordinary scikit-learn, which never sees the holdout."""

import numbers
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import joblib
import numpy as np
from sklearn.model_selection import PredefinedSplit, check_cv

from sklearn_bdp._checks import sealed_errors
from sklearn_bdp._digests import object_digest
from sklearn_bdp._evaluation._candidates import Candidate, attempt
from sklearn_bdp._evaluation._fits import (
    INTERRUPTIONS,
    FoldJob,
    Task,
    WholeJob,
    run_jobs,
)
from sklearn_bdp._sklearn_compat import (
    insert_error_scores,
    num_samples,
    report_failures,
)
from sklearn_bdp.guards import check_folds, compare_dependence, warn_of


def inner_folds(cv, division, *, classifier):
    """Return the inner cross-validation on the training part.

    Numbers obey the correlation. Index lists and ``PredefinedSplit`` speak of the data given to
    ``fit``: what is held out drops out of them.
    """
    model = division.train_model
    if cv is None or isinstance(cv, numbers.Integral):
        if model is not None and not (model.is_independent and model.n_records is None):
            n_splits = 5 if cv is None else cv
            cv = model.folds(num_samples(division.X), n_splits, random_state=0)
    elif division.train is not None:
        if isinstance(cv, PredefinedSplit):
            cv = PredefinedSplit(cv.test_fold[division.train])
        elif not hasattr(cv, "split"):
            cv = [tuple(_within(part, division, k) for part in fold) for k, fold in enumerate(cv)]
    return check_cv(cv, division.y, classifier=classifier)


def _within(part, division, k):
    """Return positions in the training part of records given by position in all data."""
    part = np.asarray(part)
    if not part.size or part.dtype.kind not in "biu":
        got = f"holds {part.dtype}" if part.size else "is empty"
        raise ValueError(f"cv must hold positions of records: fold {k} (counted from 0) {got}.")
    part = np.flatnonzero(part) if part.dtype == bool else part
    places = np.full(max(division.train.max(), division.holdout.max(), part.max()) + 1, -1)
    places[division.train] = np.arange(division.train.size)
    inside = places[part]
    inside = inside[inside >= 0]
    if not inside.size:
        raise ValueError(f"cv must have training records, fold {k} (counted from 0) has none.")
    return inside


def check_dependence(division, setting, params, *, groups=None, known=None):
    """Compare training-side scores of a candidate with the declared correlation; warn once."""

    def score(metric, folds):
        found, _ = attempt(replace(setting, metric=metric, folds=folds), Candidate(params))
        return np.full(num_samples(division.X), np.nan) if found is None else found.astype(float)

    return compare_dependence(
        division, setting.estimator, setting.metric, score, groups=groups, known=known
    )


@dataclass(frozen=True, kw_only=True)
class FoldOptions:
    """What a search declares about its cross-validation, as in scikit-learn."""

    splitter: Any
    n_splits: int
    fit_params: dict = field(repr=False)  # for the estimator's ``fit``, of all training records
    split_params: dict = field(repr=False)
    scorers: Any
    kept: dict = field(repr=False)  # what these tell of the fits that go on
    several: bool  # whether scores come as a dict by a callable
    format_results: Callable  # makes ``cv_results_``
    return_train_score: bool
    error_score: Any
    verbose: int
    dispatch: dict  # ``n_jobs`` and ``pre_dispatch``
    #: Whether whole fits ride along: every candidate is going to need one.
    eager: bool
    eliminates: bool  # whether only candidates of the last round may be selected
    context: Any = None  # the root of scikit-learn's callbacks, if there are any
    caller: Any = None  # the search, for callbacks


class CrossValidation:
    """Ordinary cross-validation of candidates on the training set, and what it says of the records.

    ``results``: ``cv_results_`` of the training set, and ``scores`` in score units; None where
    scores come with the fit for verification. ``report``: what the scores per record, in time
    or row order, say about dependence.
    """

    def __init__(self, name, division, verifier, progress, options):
        self.name, self.division, self.verifier = name, division, verifier
        self.progress, self.options = progress, options
        self.metric, self.secondary = verifier.setting.metric, verifier.setting.secondary
        self.candidates, self.out, self._more = [], [], defaultdict(list)
        self.results, self.scores, self.splits = None, None, []
        self.report = self.per_record = None
        self.first = 0  # row of the first candidate that is not eliminated
        self._verification = None

    @sealed_errors  # frames of workers in this process hold raw scores
    def run(self, run_search):
        """Let ``run_search`` choose candidates; check their scores against the correlation."""
        context, options = self.options.context, self.options
        run_search(self.evaluate, **({} if context is None else {"callback_ctx": context}))
        self.scores = np.asarray(self.results[f"mean_test_{self.name}"], dtype=float)
        last = self.scores[self.first :]  # earlier rounds of halving had smaller folds
        if np.isnan(last).all():
            warn_of(self.division)
            return
        best = self.first + int(np.nanargmax(last))
        tests = [test for _, test in self.splits]
        self.report, self.per_record = check_dependence(
            self.division,
            self.verifier.setting,
            self.candidates[best].params,
            groups=options.split_params.get("groups"),
            known=self.progress.scores(best, tests, num_samples(self.division.X)),
        )

    def evaluate(self, candidate_params, cv=None, more_results=None, callback_ctx=None):
        """Cross-validate candidates; the signature is that of scikit-learn's searches."""
        options, division, first = self.options, self.division, len(self.candidates)
        made = [Candidate(params) for params in candidate_params]
        splitter = cv or options.splitter
        try:
            splits = list(splitter.split(division.X, division.y, **options.split_params))
        except ValueError as error:
            raise ValueError(
                f"cv={splitter} cannot divide the {num_samples(division.X)} training records: "
                f"{str(error).rstrip('.')}. Set fewer folds, such as cv=2, or bring more records."
            ) from error
        check_folds(division.train_model, splits)
        if len(splits) != options.n_splits:
            raise ValueError(
                "cv.split and cv.get_n_splits return inconsistent results. Expected "
                f"{options.n_splits} splits, got {len(splits)}"
            )
        if options.verbose > 0:
            print(
                f"Fitting {len(splits)} folds for each of {len(made)} candidates, totalling "
                f"{len(made) * len(splits)} fits"
            )
        tasks = [
            Task(first + place, candidate, progress=(place, len(made)))
            for place, candidate in enumerate(made)
        ]
        out = self._fitted(tasks, splits, callback_ctx)
        if not out:
            raise ValueError(
                "No fits were performed. Was the CV iterator empty? Were there no candidates?"
            )
        report_failures(out, options.error_score)
        if options.several:
            insert_error_scores(out, options.error_score)
        if options.eliminates:
            self.first = first
        self.splits, self.candidates, self.out = splits, self.candidates + made, self.out + out
        for key, value in (more_results or {}).items():
            self._more[key].extend(value)
        params = [candidate.params for candidate in self.candidates]
        self.results = options.format_results(params, len(splits), self.out, self._more)
        return self.results

    def _fitted(self, tasks, splits, callback_ctx):
        """Return what scikit-learn reports about each fold of each candidate, in its order."""
        options, division, parts = self.options, self.division, range(len(splits))
        found, names, jobs = {}, {}, []
        fixed = {
            "scorer": options.scorers,
            "fit_params": options.fit_params,
            "score_params": {},
            "return_train_score": options.return_train_score,
            "return_n_test_samples": True,
            "return_times": True,
            "return_parameters": False,
            "error_score": options.error_score,
            "verbose": options.verbose,
            "caller": options.caller,
        }
        digests = {task.row: object_digest(task.candidate.params) for task in tasks}
        for part, (train, test) in enumerate(splits):
            fold, todo = joblib.hash((part, train, test), hash_name="sha1"), []
            for task in tasks:
                digest = digests[task.row]
                names[task.row, part] = digest and f"{task.row} {fold} {digest}"
                known = self.progress.find(task.row, part, names[task.row, part])
                if known is not None:
                    found[task.row, part] = dict(known.result)
                    continue
                if callback_ctx is not None:
                    context = callback_ctx.subcontext(
                        task_name="candidate-split-evaluation",
                        task_id=task.progress[0] * len(splits) + part,
                    )
                    task = replace(task, context=context)
                todo.append(task)
            own = {**fixed, "split_progress": (part, len(splits))}
            estimator = self.verifier.setting.estimator
            job = FoldJob(part, estimator, division.X, division.y, train, test, own, options.kept)
            jobs.append((job, todo))
        if options.eager:
            whole = WholeJob(self.verifier.setting, options.caller)
            jobs.append((whole, self._whole_tasks(tasks)))

        def score(row):
            return np.mean([self._value(found.get((row, part))) for part in parts])

        def take(job, task, result):
            if isinstance(job, WholeJob):
                self.verifier.take(task, result, guess=float(np.nan_to_num(score(task.row))))
                return
            found[task.row, job.part] = dict(result.result)
            self._value(result.result)  # raises where the metric to verify is missing
            units = self._by_date(result.scores, job.test)
            self.progress.add(task.row, job.part, names[task.row, job.part], result, units)

        try:
            run_jobs(jobs, take, **options.dispatch)
        except INTERRUPTIONS:  # what is finished on both sides is asked before the exit
            training = {task.row: self.metric.to_unit(float(score(task.row))) for task in tasks}
            self.verifier.ask_finished(tasks, training)
            raise
        return [found[task.row, part] for task in tasks for part in parts]

    def _whole_tasks(self, tasks):
        """Return the fits of whole candidates; callbacks, if any, hear of them as verification."""
        tasks, root = self.verifier.whole_tasks(tasks), self.options.context
        if root is None:
            return tasks
        if self._verification is None:
            self._verification = root.subcontext(
                task_name="verification", max_subtasks=None, sequential_subtasks=False
            ).call_on_fit_task_begin(estimator=self.options.caller)
        return [
            replace(task, context=self._verification.subcontext(task_name="fit", task_id=task.row))
            for task in tasks
        ]

    def _by_date(self, scores, test):
        """Return the mean scores of a fold's dates where dates are judged given their past."""
        dates = self.division.dates_given_past()
        if scores is None or dates is None:
            return scores
        _, codes, counts = np.unique(dates[test], return_inverse=True, return_counts=True)
        return np.bincount(codes, weights=scores.astype(float)) / counts

    def _value(self, result):
        """Return the verified metric's score of one fold; NaN where it is not known."""
        scores = np.nan if result is None else result["test_scores"]
        if not isinstance(scores, dict):
            return scores
        if self.name not in scores:  # a caller's scorer of several metrics
            raise ValueError(
                f"refit={self.name!r} must name one of the scores that scoring returns, got "
                f"{sorted(scores) if scores else 'no dict of scores'}."
            )
        return scores[self.name]

    def close(self):
        """Tell callbacks that all is done."""
        for context in filter(None, (self._verification, self.options.context)):
            context.call_on_fit_task_end(estimator=self.options.caller)
