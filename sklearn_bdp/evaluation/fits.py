"""Cross-validation of candidates: all fits of a search in one parallel call, and their results.

Fits on the same part of the data are sent to a worker together, so that data are rarely copied
and shared transformers are fitted once. Results arrive as they are ready, so that an interruption
loses unfinished fits only.
"""

import collections
import contextlib
import functools
import json
import math
import operator
import traceback
from dataclasses import astuple, dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.base import clone

from sklearn_bdp.correlation.node_matching import MIN_EFFECTIVE_NODES, effective_number
from sklearn_bdp.diagnostics.scores import run_dependence_test, warn_undeclared_dependence
from sklearn_bdp.evaluation.candidates import (
    INTERRUPTIONS,
    Candidate,
    Task,
    WholeJob,
    cross_validated,
    run_jobs,
)
from sklearn_bdp.evaluation.inner_folds import check_folds
from sklearn_bdp.evaluation.scoring import Kept
from sklearn_bdp.exceptions import ScoreContractError
from sklearn_bdp.metrics.approximate import (
    OF_DATES,
    ApproximateMetric,
    Predictions,
    TrainingReference,
)
from sklearn_bdp.metrics.error_clips import errors_of_scores, has_undeclared_range
from sklearn_bdp.metrics.means import ClippedMetric, Clipping
from sklearn_bdp.release.context import CVData
from sklearn_bdp.report.in_time import clip_errors_in_time
from sklearn_bdp.report.plan import out_of_fold_errors
from sklearn_bdp.utils.hashing import object_digest, pickle_digest
from sklearn_bdp.utils.sklearn_compat import (
    fit_and_score,
    insert_error_scores,
    num_samples,
    report_failures,
)
from sklearn_bdp.utils.validation import strip_traceback_frames

#: Note for nodes whose cross-validated scores are compared with the holdout without weights.
TOO_FEW_MATCHED_NODES = (
    "too few training nodes see as many labeled neighbors in a fold as the holdout nodes do "
    f"(fewer than {MIN_EFFECTIVE_NODES} would count): the cross-validated score is the mean over "
    "all training nodes. If models use labels of neighbors, it is too low, and the holdout "
    "corrects it more often"
)
#: Bytes of per-record scores kept for the folds of a search; the worst candidates are dropped.
MAX_SCORE_BYTES = 2**25


@dataclass(frozen=True, eq=False)
class FoldJob:
    """Fit on all but one fold of the training set and score, as scikit-learn does."""

    fold_index: int
    estimator: object
    X: object = field(repr=False)
    y: object = field(repr=False)
    options: dict = field(repr=False)  # for scikit-learn's ``_fit_and_score``, with the rows
    kept: dict = field(repr=False)  # scores recorded by the scorers of running fits

    def run(self, task, memory):
        """Return the :class:`FoldScores` of one fit.

        The test records of a fit are scored before its training records.
        """
        estimator = clone(self.estimator)
        recorded = Kept(None if self.options["return_train_score"] else memory)
        self.kept[id(estimator)] = recorded
        try:
            with memory.lent(estimator, self.fold_index):
                result = fit_and_score(
                    estimator,
                    self.X,
                    self.y,
                    parameters=task.candidate.params,
                    callback_ctx=task.context,
                    candidate_progress=task.progress,
                    **self.options,
                )
        except Exception as error:  # its frames do not survive the search, their text does
            error.add_note(traceback.format_exc())
            raise
        finally:
            del self.kept[id(estimator)]
        if recorded.breach is not None:
            raise recorded.breach
        predictions = recorded.predictions or None
        if not recorded.scores or len(recorded.scores[0]) != len(self.options["test"]):
            return FoldScores(result, predictions=predictions)
        scores = recorded.scores[0].astype(np.float32)
        return FoldScores(result, scores, recorded.clipping[0], predictions=predictions)


@dataclass
class FoldScores:
    """Result of one fit on a fold of the training set."""

    result: dict  # as scikit-learn reports it
    #: Scores of the test records; None if they are unknown or were dropped to save memory.
    scores: np.ndarray | None = field(default=None, repr=False)
    clipping: Any = None  # effect of clipping on these scores, if computed
    #: Number of scores, and sums of their first four powers.
    sums: tuple = (0, 0.0, 0.0, 0.0, 0.0)
    #: Predictions of the tested records, by metric without a proven bound.
    predictions: dict | None = field(default=None, repr=False)
    #: Contribution to the score that predicts the holdout: weighted sum of scores in [0, 1].
    weighted_sum: float | None = None


class FinishedFits:
    """Finished fits of one search on one split of the data, to resume it after an interruption.

    Scores of folds depend on training records only; the ledger records the answers of the holdout.
    The key of a fit has its row and digests of its fold and parameters; it is None if these have
    no digest. ``file``: stores fits for a new process, with the predictions that a metric needs,
    but without scores of records; an incomplete line is ignored. ``max_bytes``: of records' scores.
    """

    def __init__(self, *, file=None, max_bytes=MAX_SCORE_BYTES):
        self.file = file
        # A search sets them: its HoldoutSplit, and its ReusableHoldout once it is open.
        self.division = None
        self.holdout = None
        self._fold_by_key = {}  # FoldScores by key of the fit
        self._folds_by_row = collections.defaultdict(dict)  # {row: {fold_index: FoldScores}}
        self._bytes_left = max_bytes
        lines = []
        if file is not None and file.is_file():
            lines = file.read_text("utf-8").splitlines()
        for line in lines:
            with contextlib.suppress(ValueError, TypeError):
                fit_key, result, sums, clipping, weighted_sum, predictions = json.loads(line)
                clipping = clipping and Clipping(*clipping)
                if len(sums) != 5:  # a file of an earlier version: the fold is fitted again
                    continue
                self._fold_by_key[fit_key] = FoldScores(
                    result,
                    None,
                    clipping,
                    tuple(sums),
                    predictions=predictions and _predictions_from_json(predictions),
                    weighted_sum=weighted_sum,
                )

    def find(self, row, fold_index, fit_key):
        """Return the :class:`FoldScores` of a finished fit, or None."""
        fold = self._fold_by_key.get(fit_key)
        if fold is not None and fold_index not in self._folds_by_row[row]:
            self._keep(row, fold_index, fold)
        return fold

    def add(self, row, fold_index, fit_key, fold_scores, unit_scores=None, weights=None):
        """Keep a finished fit.

        ``unit_scores``: mean scores of its independent units, such as dates; None if these are the
        test records. ``weights``: of the test records in the score that predicts the holdout.
        """
        if fold_scores.scores is not None and weights is not None:
            fold_scores.weighted_sum = float(weights @ fold_scores.scores.astype(float))
        if fold_scores.scores is not None:
            values = (fold_scores.scores if unit_scores is None else unit_scores).astype(float)
            squares = values**2
            power_sums = [values.sum(), squares.sum(), squares @ values, squares @ squares]
            fold_scores.sums = (len(values), *map(float, power_sums))
        if fit_key is not None:
            self._fold_by_key[fit_key] = fold_scores
        if fit_key is not None and self.file is not None:
            clipping = fold_scores.clipping and astuple(fold_scores.clipping)
            # The ledger reports a folder that cannot be written.
            with contextlib.suppress(OSError, TypeError):
                content = [
                    fit_key,
                    fold_scores.result,
                    fold_scores.sums,
                    clipping,
                    fold_scores.weighted_sum,
                ]
                content.append(
                    fold_scores.predictions and _predictions_as_json(fold_scores.predictions)
                )
                line = json.dumps(content, default=float)
                with self.file.open("a", encoding="utf-8") as stream:
                    stream.write(line + "\n")
        self._keep(row, fold_index, fold_scores)

    def _keep(self, row, fold_index, fold_scores):
        """Keep per-record scores up to the maximum of bytes; drop the worst candidates' first."""
        self._folds_by_row[row][fold_index] = fold_scores
        self._bytes_left -= 0 if fold_scores.scores is None else fold_scores.scores.nbytes
        while self._bytes_left < 0:
            rows = [
                folds
                for folds in self._folds_by_row.values()
                if any(fold.scores is not None for fold in folds.values())
            ]
            if len(rows) < 2:
                return
            means = [
                np.mean([fold.sums[1] / max(fold.sums[0], 1) for fold in folds.values()])
                for folds in rows
            ]
            worst_row = rows[int(np.argmin(np.nan_to_num(means, nan=-np.inf)))]
            for fold in worst_row.values():
                if fold.scores is not None:
                    self._bytes_left += fold.scores.nbytes
                    fold.scores = None

    def variance(self, row):
        """Return the variance of a record's score in the folds of a row; NaN if it is not known."""
        return self._variance_and_kurtosis(row)[0]

    def kurtosis(self, row):
        """Return the kurtosis of a record's score in the folds of a row; NaN if it is not known."""
        return self._variance_and_kurtosis(row)[1]

    def _variance_and_kurtosis(self, row):
        """Return the second central moment and the ratio of the fourth to its square."""
        sums = [(0, 0.0, 0.0, 0.0, 0.0), *(fold.sums for fold in self._folds_by_row[row].values())]
        count, *powers = np.sum(sums, axis=0)
        if not count:
            return np.nan, np.nan
        mean, square, cube, fourth = np.array(powers) / count
        variance = float(np.clip(square - mean**2, 0.0, 0.25))
        fourth_moment = fourth - 4.0 * mean * cube + 6.0 * mean**2 * square - 3.0 * mean**4
        if not variance > 1e-7:  # rounding would determine the fourth moment
            return variance, np.nan
        return variance, max(1.0, float(fourth_moment) / variance**2)

    def weighted_score(self, row, n_folds):
        """Return the score of a row in [0, 1] that predicts the holdout; NaN if it is not known."""
        folds = [self._folds_by_row[row].get(fold_index) for fold_index in range(n_folds)]
        if any(fold is None or fold.weighted_sum is None for fold in folds):
            return math.nan
        return float(np.clip(math.fsum(fold.weighted_sum for fold in folds), 0.0, 1.0))

    def unclipped_score(self, row, n_folds):
        """Return the mean of a row's scores of folds without clipping; NaN if it is not known."""
        folds = [self._folds_by_row[row].get(fold_index) for fold_index in range(n_folds)]
        if any(fold is None or fold.clipping is None for fold in folds):
            return math.nan
        return math.fsum(fold.clipping.plain / fold.clipping.n for fold in folds) / n_folds

    def clipping(self, row):
        """Return the effect of clipping on the folds of a row, None if it is not known."""
        folds = self._folds_by_row[row].values()
        clippings = [fold.clipping for fold in folds if fold.clipping is not None]
        return functools.reduce(operator.add, clippings) if clippings else None

    def predictions(self, row, n_folds, name):
        """Return pooled out-of-fold predictions of a row, or None if they are missing in a fold."""
        folds = [self._folds_by_row[row].get(fold_index) for fold_index in range(n_folds)]
        if any(fold is None or name not in (fold.predictions or {}) for fold in folds):
            return None
        return Predictions.concatenate([fold.predictions[name] for fold in folds])

    def scores(self, row, tests, n):
        """Return the per-record scores of a row and the last fold that tested each record, or None.

        NaN and -1 for records in no test fold.
        """
        folds = self._folds_by_row[row]
        if len(folds) < len(tests) or any(fold.scores is None for fold in folds.values()):
            return None
        scores = np.full(n, np.nan)
        last_fold = np.full(n, -1)
        for fold_index, test in enumerate(tests):
            scores[test] = folds[fold_index].scores
            last_fold[test] = fold_index
        return scores, last_fold


def _predictions_as_json(predictions):
    """Return predictions by metric as lists of targets, responses and the positive label."""
    return {
        name: [
            np.asarray(of_metric.y).tolist(),
            np.asarray(of_metric.response).tolist(),
            None if of_metric.pos_label is None else np.asarray(of_metric.pos_label).tolist(),
        ]
        for name, of_metric in predictions.items()
    }


def _predictions_from_json(content):
    """Return predictions by metric from lists."""
    return {
        name: Predictions(np.asarray(y), np.asarray(response), pos_label)
        for name, (y, response, pos_label) in content.items()
    }


def tested_units(division, folds):
    """Return the sampling unit of each tested record in the order of the folds.

    Also return the reason why their predictions give no spread, empty if they do. The units are
    None if records are independent or the units are unknown.
    """
    for train, test in folds:
        is_fitted = np.zeros(num_samples(division.X), dtype=bool)
        is_fitted[train] = True
        if is_fitted[test].any():
            return None, "folds test records that their models were fitted on"
    if division.scheme.calendar is not None:
        return None, OF_DATES
    if division.scheme.has_independent_records:
        return None, ""
    groups = division.train_groups()
    if groups is None:
        return None, "the groups of the training records are not declared"
    codes = np.unique(groups, return_inverse=True)[1]
    return np.concatenate([codes[test] for _, test in folds]), ""


def check_dependence(division, setting, params, *, groups=None, scores_and_folds=None):
    """Compare the dependence of a candidate's training scores with the declared one; warn once."""

    def score(metric, folds):
        try:
            setting_of_metric = replace(setting, metric=metric, folds=folds)
            scores, _ = cross_validated(setting_of_metric, Candidate(params))
            return scores.astype(float)
        except ScoreContractError:
            raise
        except Exception:
            return np.full(num_samples(division.X), np.nan)

    return run_dependence_test(
        division,
        setting.estimator,
        setting.metric,
        score,
        groups=groups,
        scores_and_folds=scores_and_folds,
    )


class CrossValidation:
    """Ordinary cross-validation of candidates on the training set, with a test of dependence.

    ``search`` sets its parameters, as in scikit-learn; ``splitter``: draws the folds; ``context``:
    root of scikit-learn's callbacks, if any.

    ``results``: ``cv_results_`` of the training set, and ``scores`` in score units. ``report``:
    test of dependence of the scores per record, in time or row order.
    """

    def __init__(self, search, metrics, verifier, progress, *, splitter, split_params, context):
        self.search = search
        self.metrics = metrics
        self.division = progress.division
        self.name = metrics.name
        self.metric = metrics.metric
        self.secondary = metrics.secondary
        self.verifier = verifier
        self.progress = progress
        self.splitter = splitter
        self.split_params = split_params
        self.context = context
        self.candidates = []
        self.out = []  # results of scikit-learn by fit, of all candidates
        self._more = collections.defaultdict(list)  # further columns of ``cv_results_``
        self.results = None
        self.scores = None
        self.splits = []
        self._references = {}
        self._range_ratio = 1.0  # of the metric as folds scored it, to the one that is verified
        self.n_train = num_samples(self.division.X)  # records behind a score that is compared
        self._weights = None  # of nodes by fold, for scores that predict the holdout
        self.notes = ()  # for the certificate
        self.report = self.per_record = None
        self.first = 0  # row of the first candidate that is not eliminated
        self.verification = None

    @strip_traceback_frames  # frames of workers in this process hold raw scores
    def evaluate(self, candidate_params, cv=None, more_results=None, callback_ctx=None):
        """Cross-validate candidates; the signature is that of scikit-learn's searches."""
        search = self.search
        candidates = [Candidate(params) for params in candidate_params]
        splits = self._splits(cv or self.splitter)
        if search.verbose > 0:
            fits_text = f"{len(splits)} folds for each of {len(candidates)} candidates"
            print(f"Fitting {fits_text}, totalling {len(candidates) * len(splits)} fits")
        first = len(self.candidates)
        tasks = [
            Task(first + index, candidate, progress=(index, len(candidates)))
            for index, candidate in enumerate(candidates)
        ]
        out = self._fit(tasks, splits, callback_ctx)
        report_failures(out, search.error_score)
        if callable(search.scoring):
            insert_error_scores(out, search.error_score)
        if search._eliminates:
            self.first = first
        self.splits = splits
        self.candidates = self.candidates + candidates
        self.out = self.out + out
        for key, value in (more_results or {}).items():
            self._more[key].extend(value)
        params = [candidate.params for candidate in self.candidates]
        self.results = search._format_results(params, len(splits), self.out, self._more)
        # A copy: scores without a proven bound become those of pooled predictions.
        self.scores = np.array(self.results[f"mean_test_{self.name}"], dtype=float)
        for row in range(self.first, len(self.scores)):
            self.scores[row] = self._predicted(row, len(splits), self.scores[row])
        return self.results

    def _fit(self, tasks, splits, callback_ctx):
        """Run all fits of these candidates; return scikit-learn's results, ordered by row and fold.

        If an interrupt ends the fits, candidates with all fits are verified before the exit.
        """
        verifier = self.verifier
        n_folds = len(splits)
        results = {}  # results of scikit-learn by row and fold
        jobs = self._fold_jobs(tasks, splits, results, callback_ctx)
        if self.search.verify == "all" and not self.search._eliminates:
            jobs.append(self._final_job(tasks))

        def row_score(row):
            fold_scores = [
                self._value(results.get((row, fold_index))) for fold_index in range(n_folds)
            ]
            return self._predicted(row, n_folds, float(np.mean(fold_scores)))

        def on_result(job, task, result):
            if isinstance(job, WholeJob):
                verifier.take(task, result, guess=row_score(task.row))
            else:
                results[task.row, job.fold_index] = dict(result.result)
                self._take_fold(job, task, result)

        try:
            run_jobs(jobs, on_result, **verifier.dispatch)
        except INTERRUPTIONS:
            scores = {task.row: self.metric.to_unit(row_score(task.row)) for task in tasks}
            verifier.ask_finished(tasks, scores)
            raise
        out = [results[task.row, fold_index] for task in tasks for fold_index in range(n_folds)]
        if not out:
            raise ValueError(
                "No fits were performed. Was the CV iterator empty? Were there no candidates?"
            )
        return out

    def _final_job(self, tasks):
        """Return the fits of all candidates on the whole training set."""
        final_fits = self.verifier.whole_tasks(tasks)
        if self.context is None:
            return WholeJob(self.verifier.setting), final_fits
        if self.verification is None:
            self.verification = self.context.subcontext(
                task_name="verification", max_subtasks=None, sequential_subtasks=False
            ).call_on_fit_task_begin(estimator=self.search)
        final_fits = [
            replace(task, context=self.verification.subcontext(task_name="fit", task_id=task.row))
            for task in final_fits
        ]
        return WholeJob(self.verifier.setting, self.search), final_fits

    def _take_fold(self, job, task, result):
        """Store the scores of one fold."""
        self._value(result.result)  # raises where the metric to verify is missing
        unit_scores = result.scores
        dates = self.division.time_ordered_dates()
        if unit_scores is not None and dates is not None:  # each date is predicted from its past
            _, codes = np.unique(dates[job.options["test"]], return_inverse=True)
            unit_scores = np.bincount(codes, weights=unit_scores.astype(float)) / np.bincount(codes)
        weights = None if self._weights is None else self._weights[job.fold_index]
        self.progress.add(task.row, job.fold_index, task.fit_key, result, unit_scores, weights)

    def _predicted(self, row, n_folds, mean):
        """Return the score of a row that predicts the holdout: ``mean`` without nodes."""
        if self._weights is None or not self.metric.is_mean or not math.isfinite(mean):
            return mean
        weighted = self.progress.weighted_score(row, n_folds)
        return self.metric.from_unit(weighted) if math.isfinite(weighted) else mean

    def _match_nodes(self, splits):
        """Set the weights of test nodes and the effective number of nodes of a weighted score."""
        matching = self.division.node_matching
        self.n_train = num_samples(self.division.X)
        self._weights = None
        self.notes = ()
        if matching is None:
            return
        self._weights = matching.weights(splits)
        if self._weights is None:
            self.notes = (TOO_FEW_MATCHED_NODES,)
        else:
            self.n_train = effective_number(np.concatenate(self._weights))

    def _splits(self, splitter):
        """Return the folds of the training set."""
        division = self.division
        expected = self.search.n_splits_
        try:
            splits = list(splitter.split(division.X, division.y, **self.split_params))
        except ValueError as error:
            raise ValueError(
                f"cv={splitter} cannot divide the {num_samples(division.X)} training records: "
                f"{str(error).rstrip('.')}. Set fewer folds, such as cv=2, or bring more records."
            ) from error
        check_folds(division, splits)
        if len(splits) != expected:
            raise ValueError(
                "cv.split and cv.get_n_splits return inconsistent results. Expected "
                f"{expected} splits, got {len(splits)}"
            )
        self._match_nodes(splits)
        return splits

    def _fold_jobs(self, tasks, splits, results, callback_ctx):
        """Return the unfinished fits on folds; store finished ones in ``results``."""
        search = self.search
        setting = self.verifier.setting
        digests = [object_digest(task.candidate.params) for task in tasks]
        jobs = []
        for fold_index, (train, test) in enumerate(splits):
            split_digest = pickle_digest((fold_index, train, test))
            unfinished_tasks = []
            for task, digest in zip(tasks, digests, strict=True):
                fit_key = digest and f"{task.row} {split_digest} {digest}"
                finished_fold = self.progress.find(task.row, fold_index, fit_key)
                if finished_fold is not None and self._needs_predictions(finished_fold):
                    finished_fold = None  # an earlier process stored its scores only
                if finished_fold is not None:
                    results[task.row, fold_index] = dict(finished_fold.result)
                    continue
                context = None
                if callback_ctx is not None:
                    candidate_index, _ = task.progress
                    context = callback_ctx.subcontext(
                        task_name="candidate-split-evaluation",
                        task_id=candidate_index * len(splits) + fold_index,
                    )
                unfinished_tasks.append(replace(task, fit_key=fit_key, context=context))
            options = {
                "scorer": self.metrics.scorers,
                "fit_params": setting.fit_params,
                "score_params": {},
                "return_train_score": search.return_train_score,
                "return_times": True,
                "error_score": search.error_score,
                "verbose": search.verbose,
                "caller": None if self.context is None else search,
                "train": train,
                "test": test,
                "split_progress": (fold_index, len(splits)),
            }
            job = FoldJob(
                fold_index, setting.estimator, setting.X, setting.y, options, self.metrics.kept
            )
            jobs.append((job, unfinished_tasks))
        return jobs

    def _needs_predictions(self, fold):
        """Return whether a finished fit lacks predictions that a metric needs."""
        metrics = [self.metric, *self.secondary.values()]
        uses_predictions_only = any(
            isinstance(metric, ApproximateMetric) and metric.uses_predictions_only
            for metric in metrics
        )
        failed = bool(fold.result.get("fit_error"))
        return uses_predictions_only and fold.predictions is None and not failed

    def use_public_ranges(self):
        """Set the range of metrics without a proven bound from the scores of the candidates."""
        for name in (None, *self.secondary):
            metric = self.metric if name is None else self.secondary[name]
            if not isinstance(metric, ApproximateMetric):
                continue
            column = self.name if name is None else name
            scores = self.results[f"mean_test_{column}"]
            if metric.function_name:
                rows = range(self.first, len(scores))
                scores = [self.reference(row, name).score for row in rows]
            else:
                folds = [self.results[f"split{k}_test_{column}"] for k in range(len(self.splits))]
                scores = np.concatenate(folds)
            ranged = metric.with_range(scores)
            if ranged is not metric:  # standard deviations are in units of the range
                self._references = {
                    key: reference for key, reference in self._references.items() if key[1] != name
                }
            if name is None:
                self.metric = ranged
            else:
                self.secondary[name] = ranged
        self._use_error_clips()
        self.verifier.use_metrics(self.metric, self.secondary)
        if isinstance(self.metric, ApproximateMetric):
            rows = range(self.first, self.scores.size)
            self.scores[self.first :] = [self.cv_score(row) for row in rows]

    def _use_error_clips(self):
        """Clip errors in time as out-of-fold errors suggest, if no range was declared (G31)."""
        if not len(self.splits):
            return
        holdout = self.verifier.holdout
        metric = clip_errors_in_time(holdout, self.metric, self._out_of_fold_errors)
        if metric is not self.metric:
            self._range_ratio = (self.metric.upper - self.metric.lower) / (
                metric.upper - metric.lower
            )
            self.metric = metric
        for name, secondary in self.secondary.items():
            self.secondary[name] = clip_errors_in_time(holdout, secondary, self._out_of_fold_errors)

    def _out_of_fold_errors(self):
        """Return out-of-fold errors of the candidate with the best cross-validated score, or None.

        It is fitted again if scores of records do not tell its errors, or are not known, as after
        a restart.
        """
        scores = self.scores[self.first :]
        if not np.isfinite(scores).any():
            return None
        leader = self.first + int(np.nanargmax(scores))
        tests = [test for _, test in self.splits]
        recorded = self.progress.scores(leader, tests, num_samples(self.division.X))
        if recorded is not None and has_undeclared_range(self.metric):
            per_record = recorded[0][np.isfinite(recorded[0])]
            errors = errors_of_scores(per_record, self.metric)
            if errors is not None:
                return errors
        estimator = clone(self.search.estimator).set_params(**self.candidates[leader].params)
        groups = self.division.train_groups()
        return out_of_fold_errors(
            estimator, CVData(self.division.X, self.division.y, groups, self.splits)
        )

    def variance(self, row):
        """Return the variance of a record's score in [0, 1]; NaN if it is not known."""
        return float(np.minimum(0.25, self._range_ratio**2 * self.progress.variance(row)))

    def reference(self, row, name=None):
        """Return the reference of a row from out-of-fold predictions.

        ``name``: of a secondary metric; None for the metric that ranks.
        """
        if (row, name) not in self._references:
            metric = self.metric if name is None else self.secondary[name]
            reference = TrainingReference()
            predictions = None
            if metric.uses_predictions_only:
                predictions = self.progress.predictions(row, len(self.splits), metric.name)
            if predictions is not None:
                unit_codes, reason = tested_units(self.division, self.splits)
                reference = metric.training_reference(
                    predictions,
                    weights=None if self._weights is None else np.concatenate(self._weights),
                    unit_codes=unit_codes,
                    rule_out=reason,
                    n_holdout_units=self.division.scheme.n_units,
                    n_holdout_records=self.verifier.holdout.n,
                    are_alike=self.division.scheme.has_alike_records,
                )
            self._references[row, name] = reference
        return self._references[row, name]

    def cv_score(self, row, name=None):
        """Return the cross-validated score by the formula that is applied to the holdout."""
        metric = self.metric if name is None else self.secondary[name]
        column = self.name if name is None else name
        mean_of_folds = float(self.results[f"mean_test_{column}"][row])
        if not isinstance(metric, ApproximateMetric) or not math.isfinite(mean_of_folds):
            return mean_of_folds
        pooled = self.reference(row, name).score
        return pooled if math.isfinite(pooled) else mean_of_folds

    def selection_scores(self):
        """Return the training scores of all rows that select confirmed candidates, in score units.

        They are those of scikit-learn, means over folds and without a clip that the caller did not
        declare, also where the value on the holdout is that of pooled or clipped predictions. Means
        over nodes have the weights of the nodes.
        """
        if isinstance(self.metric, ApproximateMetric):
            return np.asarray(self.results[f"mean_test_{self.name}"], dtype=float)
        has_default_clip = isinstance(self.metric, ClippedMetric) and bool(self.metric.note)
        if not has_default_clip or self._weights is not None:
            return self.scores
        n_folds = len(self.splits)
        unclipped = np.full(self.scores.size, np.nan)
        n_clipped = 0
        for row in range(self.first, self.scores.size):
            unclipped[row] = self.progress.unclipped_score(row, n_folds)
            clipping = self.progress.clipping(row)
            n_clipped += 0 if clipping is None else clipping.n_clipped
        is_known = np.isfinite(unclipped) | ~np.isfinite(self.scores)
        return unclipped if n_clipped and is_known[self.first :].all() else self.scores

    def _value(self, result):
        """Return the verified metric's score of one fold; NaN if it is not known."""
        scores = np.nan if result is None else result["test_scores"]
        if not isinstance(scores, dict):
            return scores
        if self.name not in scores:  # a caller's scorer of several metrics
            raise ValueError(
                f"refit={self.name!r} must name one of the scores that scoring returns, got "
                f"{sorted(scores) if scores else 'no dict of scores'}."
            )
        return scores[self.name]

    def check(self):
        """Compare the scores of the best candidate with the declared correlation."""
        scores = self.scores[self.first :]  # earlier rounds of halving had smaller folds
        if np.isnan(scores).all():
            warn_undeclared_dependence(self.division)
            return
        best = self.first + int(np.nanargmax(scores))
        tests = [test for _, test in self.splits]
        self.report, self.per_record = check_dependence(
            self.division,
            self.verifier.setting,
            self.candidates[best].params,
            groups=self.split_params.get("groups"),
            scores_and_folds=self.progress.scores(best, tests, num_samples(self.division.X)),
        )
