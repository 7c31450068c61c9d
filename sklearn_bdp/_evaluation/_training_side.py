"""The training side of a search: ordinary scikit-learn, which never sees the holdout."""

import numbers
from collections import defaultdict
from dataclasses import replace

import numpy as np
from sklearn.model_selection import PredefinedSplit, check_cv

from sklearn_bdp._checks import sealed_errors
from sklearn_bdp._evaluation._candidates import Candidate, attempt
from sklearn_bdp._evaluation._fits import (
    INTERRUPTIONS,
    FoldJob,
    Progress,
    Task,
    WholeJob,
    run_jobs,
)
from sklearn_bdp._evaluation._scoring import training_scorers
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


def check_dependence(division, setting, params, *, folds, groups=None, known=None):
    """Compare training-side scores of a candidate with the declared correlation; warn once."""

    def score(metric, folds):
        found, _ = attempt(replace(setting, metric=metric, folds=folds), Candidate(params))
        return np.full(num_samples(division.X), np.nan) if found is None else found.astype(float)

    return compare_dependence(
        division, setting.estimator, setting.metric, score, folds=folds, groups=groups, known=known
    )


class Rounds:
    """What a search calls to evaluate candidates, and what the training part says of them.

    ``results``: ``cv_results_`` of the inner search, and ``scores`` in score units; None under
    ``"resubstitution"``, where scores come with the fit for verification. ``report``, ``drift``:
    what the scores per record, in time or row order, say about dependence.
    """

    def __init__(self, search, name, *, routed, verifier, progress, context):
        self.search, self.name, self.division = search, name, progress.division
        self.metric = verifier.setting.metric
        self.further = verifier.setting.beside
        self.scorers = training_scorers(search, name, self.metric, self.further)
        self.fit_params, self.split_params = routed.estimator.fit, routed.splitter.split
        self.verifier, self.progress, self.context = verifier, progress, context
        # Whole fits ride along where every candidate is going to need one.
        self.eager = search.verify == "all" and not search._eliminates
        self.candidates, self.out, self.more = [], [], defaultdict(list)
        self.results, self.scores, self.splits = None, None, []
        self.report = self.drift = self.per_record = None
        self.first = 0  # row of the first candidate that is not eliminated
        self._verification = None

    @sealed_errors  # frames of workers in this process hold raw scores
    def run(self):
        """Let the search choose its candidates and cross-validate them."""
        if self.search.training_score == "resubstitution":
            self.candidates = [Candidate(params) for params in self.search._candidates()]
            warn_of(self.division)
            return
        options = {} if self.context is None else {"callback_ctx": self.context}
        self.search._run_search(self.evaluate, **options)
        self.scores = np.asarray(self.results[f"mean_test_{self.name}"], dtype=float)
        self._check_dependence()

    def _check_dependence(self):
        """Check scores of the best candidate against the declared correlation, and warn once."""
        last = self.scores[self.first :]  # earlier rounds of halving had smaller folds
        if np.isnan(last).all():
            warn_of(self.division)
            return
        best = self.first + int(np.nanargmax(last))
        tests = [test for _, test in self.splits]
        self.report, self.drift, self.per_record = check_dependence(
            self.division,
            self.verifier.setting,
            self.candidates[best].params,
            folds=self.splits,
            groups=self.split_params.get("groups"),
            known=self.progress.scores(best, tests, num_samples(self.division.X)),
        )

    def evaluate(self, candidate_params, cv=None, more_results=None, callback_ctx=None):
        """Cross-validate candidates; the signature is that of scikit-learn's searches."""
        search, division, first = self.search, self.division, len(self.candidates)
        made = [Candidate(params) for params in candidate_params]
        splitter = cv or search._checked_cv_orig
        splits = _splits(splitter, division, self.split_params)
        check_folds(division.train_model, splits)
        if len(splits) != search.n_splits_:
            raise ValueError(
                "cv.split and cv.get_n_splits return inconsistent results. Expected "
                f"{search.n_splits_} splits, got {len(splits)}"
            )
        if search.verbose > 0:
            print(
                f"Fitting {len(splits)} folds for each of {len(made)} candidates, totalling "
                f"{len(made) * len(splits)} fits"
            )
        tasks = [
            Task(first + place, candidate, progress=(place, len(made)))
            for place, candidate in enumerate(made)
        ]
        out = self._work(tasks, splits, callback_ctx)
        if not out:
            raise ValueError(
                "No fits were performed. Was the CV iterator empty? Were there no candidates?"
            )
        report_failures(out, search.error_score)
        if callable(search.scoring):
            insert_error_scores(out, search.error_score)
        if search._eliminates:
            self.first = first
        self.splits, self.candidates, self.out = splits, self.candidates + made, self.out + out
        for key, value in (more_results or {}).items():
            self.more[key].extend(value)
        params = [candidate.params for candidate in self.candidates]
        self.results = search._format_results(params, len(splits), self.out, self.more)
        return self.results

    def _work(self, tasks, splits, callback_ctx):
        """Return what scikit-learn reports about each fold of each candidate, in its order."""
        found, names, jobs = {}, {}, []
        for part, (train, test) in enumerate(splits):
            names[part] = Progress.fold_name(part, train, test)
            todo = []
            for task in tasks:
                params = task.candidate.params
                before = self.progress.find(task.row, part, names[part], params)
                if before is not None:
                    found[task.row, part] = dict(before.result)
                else:
                    todo.append(_told(task, callback_ctx, part, len(splits)))
            jobs.append((self._fold_job(part, train, test, len(splits)), todo))
        if self.eager:
            todo = self.verifier.whole_tasks(tasks)
            jobs.append((self.verifier.whole_job(self.search), self._announced(todo)))

        def take(job, task, result):
            if isinstance(job, WholeJob):
                known = [self._value(found.get((task.row, p))) for p in range(len(splits))]
                self.verifier.take(task, result, guess=float(np.nan_to_num(np.mean(known))))
            else:
                self._check_scores(result.result["test_scores"])
                found[task.row, job.part] = dict(result.result)
                units = self._by_date(result.scores, job.test)
                params = task.candidate.params
                self.progress.add(task.row, job.part, names[job.part], params, result, units)

        dispatch = {"n_jobs": self.search.n_jobs, "pre_dispatch": self.search.pre_dispatch}
        try:
            run_jobs(jobs, take, **dispatch)
        except INTERRUPTIONS:
            self._ask_finished(tasks, found, len(splits))
            raise
        return [found[task.row, part] for task in tasks for part in range(len(splits))]

    def _by_date(self, scores, test):
        """Return the mean scores of a fold's dates where dates are judged given their past."""
        dates = self.division.dates_given_past()
        if scores is None or dates is None:
            return scores
        _, codes, counts = np.unique(dates[test], return_inverse=True, return_counts=True)
        return np.bincount(codes, weights=scores.astype(float)) / counts

    def _check_scores(self, scores):
        """Raise where a caller's scorer of several metrics lacks the one to verify."""
        if isinstance(scores, dict) and self.name not in scores:
            raise ValueError(
                f"refit={self.name!r} must name one of the scores that scoring returns, got "
                f"{sorted(scores) if scores else 'no dict of scores'}."
            )

    def _announced(self, tasks):
        """Return tasks of which callbacks are told as verification, where there are any."""
        if self.context is None:
            return tasks
        if self._verification is None:
            self._verification = self.context.subcontext(
                task_name="verification", max_subtasks=None, sequential_subtasks=False
            ).call_on_fit_task_begin(estimator=self.search)
        return [
            replace(task, context=self._verification.subcontext(task_name="fit", task_id=task.row))
            for task in tasks
        ]

    def close(self):
        """Tell callbacks that all is done."""
        for context in filter(None, (self._verification, self.context)):
            context.call_on_fit_task_end(estimator=self.search)

    def _fold_job(self, part, train, test, n_splits):
        """Return what fits on one fold."""
        search = self.search
        options = {
            "scorer": self.scorers,
            "fit_params": self.fit_params,
            "score_params": {},
            "return_train_score": search.return_train_score,
            "return_n_test_samples": True,
            "return_times": True,
            "return_parameters": False,
            "error_score": search.error_score,
            "verbose": search.verbose,
            "split_progress": (part, n_splits),
            "caller": None if self.context is None else search,
        }
        estimator = self.verifier.setting.estimator
        return FoldJob(part, estimator, self.division.X, self.division.y, train, test, options)

    def _value(self, result):
        """Return the verified metric's score of one fold; NaN where it is not known."""
        if result is None:
            return np.nan
        scores = result["test_scores"]
        return scores.get(self.name, np.nan) if isinstance(scores, dict) else scores

    def _ask_finished(self, tasks, found, n_splits):
        """After an interruption: ask about the candidates that are finished on both sides."""
        training = {}
        for task in tasks:
            score = np.mean([self._value(found.get((task.row, p))) for p in range(n_splits)])
            if np.isfinite(score):
                training[task.row] = self.metric.to_unit(float(score))
        self.verifier.ask_finished(tasks, training)


def _splits(splitter, division, params):
    """Return the folds of the training set."""
    try:
        return list(splitter.split(division.X, division.y, **params))
    except ValueError as error:
        n, why = num_samples(division.X), str(error).rstrip(".")
        raise ValueError(
            f"cv={splitter} cannot divide the {n} training records: {why}. Set fewer folds, such "
            "as cv=2, or bring more records."
        ) from error


def _told(task, callback_ctx, part, n_splits):
    """Return a task of which callbacks are told, where there are any."""
    if callback_ctx is None:
        return task
    context = callback_ctx.subcontext(
        task_name="candidate-split-evaluation", task_id=task.progress[0] * n_splits + part
    )
    return replace(task, context=context)
