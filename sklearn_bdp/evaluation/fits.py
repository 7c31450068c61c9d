"""Cross-validation of candidates: parallel fits and their results.

Results are stored when workers return them, so that an interruption loses only fits that were not
returned.
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

from sklearn_bdp.correlation.components import n_independent_units
from sklearn_bdp.correlation.node_matching import MIN_EFFECTIVE_NODES, effective_number
from sklearn_bdp.diagnostics.scores import run_dependence_test, warn_undeclared_dependence
from sklearn_bdp.evaluation.candidates import (
    INTERRUPTIONS,
    Candidate,
    FitTask,
    HoldoutFitJob,
    cross_validate_candidate,
    run_jobs,
)
from sklearn_bdp.evaluation.failed_fits import report_failed_fits
from sklearn_bdp.evaluation.inner_folds import check_folds
from sklearn_bdp.evaluation.scoring import ScorerRecord
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
from sklearn_bdp.utils.sklearn_compat import fit_and_score, insert_error_scores, num_samples
from sklearn_bdp.utils.validation import strip_traceback_frames

#: Note for the certificate if nodes have no weights in the cross-validated score.
TOO_FEW_MATCHED_NODES = (
    "too few training nodes see as many labeled neighbors in a fold as the holdout nodes do "
    f"(fewer than {MIN_EFFECTIVE_NODES} would count): the cross-validated score is the mean over "
    "all training nodes. If models use labels of neighbors, it is too low, and the holdout "
    "corrects it more often"
)
#: Number of bytes above which a search drops per-record scores, first those of the worst
#: candidates.
MAX_SCORE_BYTES = 2**25


@dataclass(frozen=True, eq=False)
class CVFitJob:
    """Fits of candidates on the training records of one fold, scored on its test records."""

    fold_index: int
    estimator: object  # cloned for each fit
    X: object = field(repr=False)  # training records
    y: object = field(repr=False)  # targets of the training records
    #: Arguments of scikit-learn's ``_fit_and_score``, with the positions of the fold.
    options: dict = field(repr=False)
    #: ScorerRecord of each running fit, by ``id`` of its estimator; shared with the scorers.
    scorer_records: dict = field(repr=False)

    def run(self, task, memory):
        """Fit and score the candidate of a :class:`FitTask` on the fold; return its FoldScores.

        Weighted sum and power sums are not set. A failed fit has its traceback in
        ``sklearn_result``, or raises its error if ``error_score`` is "raise". An error in
        ``contract_error`` of the ScorerRecord is raised. ``memory``: :class:`PrefixMemory` that the
        candidates of a worker share.
        """
        estimator = clone(self.estimator)
        scorer_record = ScorerRecord(None if self.options["return_train_score"] else memory)
        self.scorer_records[id(estimator)] = scorer_record
        try:
            with memory.attach(estimator, self.fold_index):
                sklearn_result = fit_and_score(
                    estimator,
                    self.X,
                    self.y,
                    parameters=task.candidate.params,
                    callback_ctx=task.context,
                    candidate_progress=task.candidate_progress,
                    **self.options,
                )
        except Exception as error:  # callers remove the frames, but not the notes
            error.add_note(traceback.format_exc())
            raise
        finally:
            del self.scorer_records[id(estimator)]
        if scorer_record.contract_error is not None:
            raise scorer_record.contract_error
        predictions = scorer_record.predictions or None
        # scikit-learn scores the test records of a fit before its training records.
        has_test_scores = bool(scorer_record.scores) and (
            len(scorer_record.scores[0]) == len(self.options["test"])
        )
        if not has_test_scores:
            return FoldScores(sklearn_result, predictions=predictions)
        test_scores = scorer_record.scores[0].astype(np.float32)
        clipping = scorer_record.clipping[0]
        return FoldScores(sklearn_result, test_scores, clipping, predictions=predictions)


@dataclass
class FoldScores:
    """Result of one candidate on one fold of the training set."""

    sklearn_result: dict  # of scikit-learn's ``_fit_and_score``
    #: Scores of the test records in [0, 1]; None if they are unknown or were dropped.
    scores: np.ndarray | None = field(default=None, repr=False)
    clipping: Any = None  # Clipping of the test records; None if it is unknown or nothing clips
    #: Number of scores, and sums of their powers 1 to 4: of the mean scores of dates if records
    #: have dates, otherwise of the scores of the test records. All are 0 if these are unknown.
    power_sums: tuple = (0, 0.0, 0.0, 0.0, 0.0)
    #: Predictions of the test records, by name of a metric without a proven bound, or None.
    predictions: dict | None = field(default=None, repr=False)
    #: Sum of the test nodes' scores in [0, 1] times their weights; None without weights. The sum
    #: over all folds predicts the holdout score of nodes.
    weighted_sum: float | None = None


class FinishedFits:
    """Finished cross-validation fits of one search, to resume it after an interruption.

    Their scores depend on training records only. The key of a fit consists of its row and digests
    of its fold and parameters. It is None if the parameters have no digest.

    Parameters
    ----------
    file : Path or None
        File that stores finished fits for a new process, with the predictions that a metric needs,
        but without scores of records. None: they are kept in memory only.
    max_bytes : int
        Number of bytes in memory above which per-record scores are dropped.
    """

    def __init__(self, *, file=None, max_bytes=MAX_SCORE_BYTES):
        self.file = file
        # A search sets its HoldoutSplit, and its ReusableHoldout when that is open.
        self.holdout_split = None
        self.holdout = None
        self._fold_scores_by_key = {}  # FoldScores by key of the fit
        self._fold_scores_by_row = collections.defaultdict(dict)  # {row: {fold_index: FoldScores}}
        self._n_bytes_left = max_bytes
        if file is not None and file.is_file():
            self._load(file.read_text("utf-8").splitlines())

    def _load(self, lines):
        """Load the finished fits in the lines of a file, one JSON list in each line.

        Incomplete lines, and lines without exactly five power sums, are left out.
        """
        for line in lines:
            with contextlib.suppress(ValueError, TypeError):  # the line is incomplete
                (
                    fit_key,
                    sklearn_result,
                    power_sums,
                    clipping_fields,
                    weighted_sum,
                    predictions_content,
                ) = json.loads(line)
                if len(power_sums) != 5:  # written by an earlier version of the package
                    continue
                clipping = None if clipping_fields is None else Clipping(*clipping_fields)
                predictions = None
                if predictions_content is not None:
                    predictions = _predictions_from_json(predictions_content)
                self._fold_scores_by_key[fit_key] = FoldScores(
                    sklearn_result,
                    clipping=clipping,
                    power_sums=tuple(power_sums),
                    predictions=predictions,
                    weighted_sum=weighted_sum,
                )

    def find(self, row, fold_index, fit_key):
        """Return the :class:`FoldScores` of the finished fit with a key, or None.

        If the row has no result on the fold yet, this one is set.
        """
        fold_scores = self._fold_scores_by_key.get(fit_key)
        if fold_scores is not None and fold_index not in self._fold_scores_by_row[row]:
            self._keep(row, fold_index, fold_scores)
        return fold_scores

    def add(self, row, fold_index, fit_key, fold_scores, date_scores=None, node_weights=None):
        """Keep a finished fit in memory, and append it to the file, if there is one.

        A fit without a key (None) is not written to the file, and failures of writing are ignored.
        If ``fold_scores`` have scores of records, their power sums are set, and with
        ``node_weights`` their weighted sum. ``date_scores``: mean score of each test date in
        [0, 1], for the power sums; None: the power sums are those of record scores.
        ``node_weights``: weight of each test record in the weighted sum, or None.
        """
        if fold_scores.scores is not None and node_weights is not None:
            fold_scores.weighted_sum = float(node_weights @ fold_scores.scores.astype(float))
        if fold_scores.scores is not None:
            scores = fold_scores.scores if date_scores is None else date_scores
            scores = scores.astype(float)
            squares = scores**2
            sums_of_powers = [scores.sum(), squares.sum(), squares @ scores, squares @ squares]
            fold_scores.power_sums = (len(scores), *map(float, sums_of_powers))
        if fit_key is not None:
            self._fold_scores_by_key[fit_key] = fold_scores
        if fit_key is not None and self.file is not None:
            clipping_fields = fold_scores.clipping and astuple(fold_scores.clipping)
            # The ledger is in the same folder and reports if it cannot be written.
            with contextlib.suppress(OSError, TypeError):
                entries = [
                    fit_key,
                    fold_scores.sklearn_result,
                    fold_scores.power_sums,
                    clipping_fields,
                    fold_scores.weighted_sum,
                    fold_scores.predictions and _predictions_as_json(fold_scores.predictions),
                ]
                line = json.dumps(entries, default=float)
                with self.file.open("a", encoding="utf-8") as stream:
                    stream.write(line + "\n")
        self._keep(row, fold_index, fold_scores)

    def _keep(self, row, fold_index, fold_scores):
        """Keep the FoldScores of a row on a fold; drop per-record scores if memory is short.

        They are dropped from rows with the lowest mean scores, until ``max_bytes`` suffice or only
        one row has any.
        """
        self._fold_scores_by_row[row][fold_index] = fold_scores
        self._n_bytes_left -= 0 if fold_scores.scores is None else fold_scores.scores.nbytes
        while self._n_bytes_left < 0:
            # For each row with per-record scores: the list of its FoldScores.
            fold_scores_of_rows = [
                list(fold_scores_by_fold.values())
                for fold_scores_by_fold in self._fold_scores_by_row.values()
                if any(result.scores is not None for result in fold_scores_by_fold.values())
            ]
            if len(fold_scores_of_rows) < 2:
                return
            mean_scores = []
            for row_fold_scores in fold_scores_of_rows:
                counts_and_sums = [result.power_sums[:2] for result in row_fold_scores]
                fold_means = [score_sum / max(n, 1) for n, score_sum in counts_and_sums]
                mean_scores.append(np.mean(fold_means))
            worst_index = int(np.argmin(np.nan_to_num(mean_scores, nan=-np.inf)))
            for result in fold_scores_of_rows[worst_index]:
                if result.scores is not None:
                    self._n_bytes_left += result.scores.nbytes
                    result.scores = None

    def variance(self, row):
        """Return the variance of a row's scores in [0, 1] on its finished folds, or NaN.

        Scores are those of test records, or means on dates if records have dates.
        """
        variance, _ = self._variance_and_kurtosis(row)
        return variance

    def kurtosis(self, row):
        """Return the kurtosis of a row's scores on its finished folds, or NaN.

        Scores are those of test records, or means on dates if records have dates.
        """
        _, kurtosis = self._variance_and_kurtosis(row)
        return kurtosis

    def _variance_and_kurtosis(self, row):
        """Return variance and kurtosis of a row's scores in [0, 1] on its finished folds.

        Scores are those of test records, or means on dates if records have dates. The kurtosis is
        the fourth central moment divided by the squared variance. Both are NaN without scores. The
        kurtosis is NaN if the variance is at most 1e-7.
        """
        fold_power_sums = [result.power_sums for result in self._fold_scores_by_row[row].values()]
        n_scores, *sums = np.sum([(0, 0.0, 0.0, 0.0, 0.0), *fold_power_sums], axis=0)
        if not n_scores:
            return np.nan, np.nan
        mean, mean_square, mean_cube, mean_fourth_power = np.array(sums) / n_scores
        variance = float(np.clip(mean_square - mean**2, 0.0, 0.25))
        fourth_central_moment = (
            mean_fourth_power - 4.0 * mean * mean_cube + 6.0 * mean**2 * mean_square - 3.0 * mean**4
        )
        if not variance > 1e-7:  # rounding would determine the fourth moment
            return variance, np.nan
        return variance, max(1.0, float(fourth_central_moment) / variance**2)

    def _fold_scores_of_row(self, row, n_folds):
        """Return a list of the FoldScores of a row on each fold, None for an unfinished fold."""
        return [self._fold_scores_by_row[row].get(fold_index) for fold_index in range(n_folds)]

    def weighted_score(self, row, n_folds):
        """Return the weighted score of a row in [0, 1], which predicts the holdout score of nodes.

        NaN if a fold is unfinished or has no weighted sum. ``n_folds``: number of all folds.
        """
        row_fold_scores = self._fold_scores_of_row(row, n_folds)
        if any(
            fold_scores is None or fold_scores.weighted_sum is None
            for fold_scores in row_fold_scores
        ):
            return math.nan
        weighted_score = math.fsum(fold_scores.weighted_sum for fold_scores in row_fold_scores)
        return float(np.clip(weighted_score, 0.0, 1.0))

    def unclipped_score(self, row, n_folds):
        """Return the mean over folds of a row's scores without clipping, in score units.

        NaN if a fold is unfinished or has no Clipping. ``n_folds``: number of all folds.
        """
        row_fold_scores = self._fold_scores_of_row(row, n_folds)
        if any(
            fold_scores is None or fold_scores.clipping is None for fold_scores in row_fold_scores
        ):
            return math.nan
        clippings = [fold_scores.clipping for fold_scores in row_fold_scores]
        return math.fsum(clipping.unclipped_sum / clipping.n for clipping in clippings) / n_folds

    def clipping(self, row):
        """Return the sum of the Clippings of a row's folds, None if no fold has one."""
        row_fold_scores = self._fold_scores_by_row[row].values()
        clippings = [
            fold_scores.clipping
            for fold_scores in row_fold_scores
            if fold_scores.clipping is not None
        ]
        return functools.reduce(operator.add, clippings) if clippings else None

    def predictions(self, row, n_folds, metric_name):
        """Return the out-of-fold Predictions of a row for a metric, fold after fold.

        None if the row has none on one of the ``n_folds`` folds.
        """
        row_fold_scores = self._fold_scores_of_row(row, n_folds)
        if any(
            fold_scores is None or metric_name not in (fold_scores.predictions or {})
            for fold_scores in row_fold_scores
        ):
            return None
        return Predictions.concatenate(
            [fold_scores.predictions[metric_name] for fold_scores in row_fold_scores]
        )

    def scores(self, row, test_positions, n_train):
        """Return a row's score in [0, 1] on each training record, and the index of its test fold.

        If several folds test a record, the last one counts. Records in no test fold have NaN and
        -1. The result is None if a fold is unfinished or has no scores of records.
        ``test_positions``: an array for each fold; ``n_train``: number of training records.
        """
        fold_scores_by_fold = self._fold_scores_by_row[row]
        if len(fold_scores_by_fold) < len(test_positions) or any(
            result.scores is None for result in fold_scores_by_fold.values()
        ):
            return None
        scores = np.full(n_train, np.nan)
        test_fold_indices = np.full(n_train, -1)
        for fold_index, positions in enumerate(test_positions):
            scores[positions] = fold_scores_by_fold[fold_index].scores
            test_fold_indices[positions] = fold_index
        return scores, test_fold_indices


def _predictions_as_json(predictions):
    """Return a dict by metric name: a list of targets, responses and positive label, for JSON.

    ``predictions``: Predictions by metric name.
    """
    content = {}
    for name, metric_predictions in predictions.items():
        pos_label = metric_predictions.pos_label
        content[name] = [
            np.asarray(metric_predictions.y).tolist(),
            np.asarray(metric_predictions.response).tolist(),
            None if pos_label is None else np.asarray(pos_label).tolist(),
        ]
    return content


def _predictions_from_json(content):
    """Return Predictions by metric name from the result of :func:`_predictions_as_json`."""
    return {
        name: Predictions(np.asarray(y), np.asarray(response), pos_label)
        for name, (y, response, pos_label) in content.items()
    }


def tested_units(holdout_split, folds):
    """Return an array of the sampling unit of each test record, and a reason why it has none.

    Units are integers, equal for records of one unit, in the order of the folds. The reason states
    why the variation of predictions between units cannot be estimated, and is empty if it can. None
    replaces the array if there is a reason, or if the holdout records are independent. ``folds``:
    pairs of training and test positions.
    """
    for train_positions, test_positions in folds:
        is_training_record = np.zeros(num_samples(holdout_split.X), dtype=bool)
        is_training_record[train_positions] = True
        if is_training_record[test_positions].any():
            return None, "folds test records that their models were fitted on"
    if holdout_split.scheme.calendar is not None:
        return None, OF_DATES
    if holdout_split.scheme.has_independent_records:
        return None, ""
    groups = holdout_split.train_groups()
    if groups is None:
        return None, "the groups of the training records are not declared"
    _, group_codes = np.unique(groups, return_inverse=True)
    return np.concatenate([group_codes[test_positions] for _, test_positions in folds]), ""


def check_dependence(holdout_split, setup, params, *, groups=None, scores_and_folds=None):
    """Test whether a candidate's out-of-fold scores contradict the declared dependence, and warn.

    Returns the report of :func:`~sklearn_bdp.diagnostics.scores.run_dependence_test` and the
    scores that it used. Both are None if there is no test, and scores if it reads labels.

    Parameters
    ----------
    holdout_split : HoldoutSplit
        The training set and its declared dependence.
    setup : SearchSetup
        Data and settings of the search.
    params : dict
        Parameters of the candidate.
    groups : array-like or None
        Groups of the training records that are tested for dependence.
    scores_and_folds : tuple or None
        Result of :meth:`FinishedFits.scores`. None: the candidate is cross-validated again.
    """

    def out_of_fold_scores(metric, folds):
        """Return an array of out-of-fold scores in [0, 1]: one for each training record.

        There is one for each fold if the metric is not a mean over records. NaN for records in no
        test fold, and for all records after an error other than ScoreContractError. ``folds``:
        pairs of training and test positions.
        """
        try:
            setup_of_metric = replace(setup, metric=metric, folds=folds)
            scores, _ = cross_validate_candidate(setup_of_metric, Candidate(params))
            return scores.astype(float)
        except ScoreContractError:
            raise
        except Exception:
            return np.full(num_samples(holdout_split.X), np.nan)

    return run_dependence_test(
        holdout_split,
        setup.estimator,
        setup.metric,
        out_of_fold_scores,
        groups=groups,
        scores_and_folds=scores_and_folds,
    )


class CrossValidation:
    """Cross-validation of the candidates of a search on the training set.

    Parameters
    ----------
    search : ReusableHoldoutSearchCV
        The search, with scikit-learn's parameters.
    metrics : SearchMetrics
        Metrics of the search.
    verifier : Verifier
        Fits candidates on the training set and queries the holdout.
    finished_fits : FinishedFits
        Store of finished fits, with the split of the data.
    splitter : splitter
        Draws the folds of the training set.
    split_params : dict
        Parameters of ``splitter.split``, such as ``groups``.
    callback_context : object or None
        Root context of scikit-learn's callbacks, if there are any.

    Attributes
    ----------
    candidates : list of Candidate
        All candidates so far. A *row* is a position in this list.
    results : dict
        Columns of ``cv_results_`` about the training set.
    scores : ndarray of shape (n_candidates,)
        Cross-validated score of each candidate on the metric that ranks, in score units.
    dependence_report, dependence_scores : object
        Set by :meth:`check`: the report of the test, and the scores that it used, or None.
    """

    def __init__(
        self, search, metrics, verifier, finished_fits, *, splitter, split_params, callback_context
    ):
        self.search = search
        self.metrics = metrics
        self.holdout_split = finished_fits.holdout_split
        self.metric_name = metrics.name
        self.metric = metrics.metric
        self.secondary = metrics.secondary
        self.verifier = verifier
        self.finished_fits = finished_fits
        self.splitter = splitter
        self.split_params = split_params
        self.callback_context = callback_context
        self.candidates = []
        self.sklearn_results = []  # dicts of ``_fit_and_score``, ordered by row and fold
        self._extra_columns = collections.defaultdict(list)  # of ``cv_results_``, by name
        self.results = None
        self.scores = None
        self.splits = []  # pairs of training and test positions in the training set
        self._references = {}  # TrainingReference by row and name of the metric
        #: Range of the metric that scored the folds, divided by that of the verified metric.
        self._range_ratio = 1.0
        #: Number of training records that a cross-validated score averages; effective number for a
        #: weighted score of nodes.
        self.n_train = num_samples(self.holdout_split.X)
        self._node_weights = None  # weights of the test nodes, an array for each fold, or None
        self.notes = ()  # lines for the certificate
        self.dependence_report = None
        self.dependence_scores = None
        self.first_row = 0  # of the candidates of the last round; 0 unless rounds eliminate some
        #: Callback context of the fits on the whole training set; None before these, or without
        #: callbacks.
        self.verification_context = None

    @strip_traceback_frames  # frames of workers in this process hold raw scores
    def evaluate(self, candidate_params, cv=None, more_results=None, callback_ctx=None):
        """Cross-validate candidates and return ``results`` of all candidates so far.

        ``candidate_params``: parameters of each new candidate; ``cv``: splitter for them, None for
        ``splitter``; ``more_results``: values of additional columns of ``cv_results_`` for the new
        candidates, by name, or None; ``callback_ctx``: callback context of scikit-learn, or None.
        """
        search = self.search
        candidates = [Candidate(params) for params in candidate_params]
        splits = self._splits(cv or self.splitter)
        if search.verbose > 0:
            fits_text = f"{len(splits)} folds for each of {len(candidates)} candidates"
            print(f"Fitting {fits_text}, totalling {len(candidates) * len(splits)} fits")
        n_earlier_candidates = len(self.candidates)
        tasks = [
            FitTask(
                n_earlier_candidates + index, candidate, candidate_progress=(index, len(candidates))
            )
            for index, candidate in enumerate(candidates)
        ]
        sklearn_results = self._fit(tasks, splits, callback_ctx)
        report_failed_fits(
            [result["fit_error"] for result in sklearn_results],
            search.error_score,
            estimator=search.estimator,
            X=self.holdout_split.X,
            y=self.holdout_split.y,
            fits_text=f"candidates: {len(candidates)}, folds of the training set: {len(splits)}",
            n_folds=len(splits),
        )
        if callable(search.scoring):
            insert_error_scores(sklearn_results, search.error_score)
        if search._eliminates:
            self.first_row = n_earlier_candidates
        self.splits = splits
        self.candidates = self.candidates + candidates
        self.sklearn_results = self.sklearn_results + sklearn_results
        for column_name, values in (more_results or {}).items():
            self._extra_columns[column_name].extend(values)
        params = [candidate.params for candidate in self.candidates]
        self.results = search._format_results(
            params, len(splits), self.sklearn_results, self._extra_columns
        )
        # A copy, because scores without a proven bound are replaced by scores of pooled
        # predictions.
        self.scores = np.array(self.results[f"mean_test_{self.metric_name}"], dtype=float)
        for row in range(self.first_row, len(self.scores)):
            self.scores[row] = self._weighted_or_mean(row, len(splits), self.scores[row])
        return self.results

    def _fit(self, tasks, splits, callback_ctx):
        """Fit all tasks on all folds; return a list of scikit-learn's results, by task and fold.

        Finished fits are not repeated. Fits on the whole training set are run, too, if
        ``verify="all"`` and no candidates will be eliminated. If the fits are interrupted,
        :meth:`Verifier.verify_finished` is called before the error is raised again. Raises
        ValueError if there are no fits.
        """
        verifier = self.verifier
        n_folds = len(splits)
        sklearn_results_by_fit = {}  # by row and fold index
        jobs = self._fold_jobs(tasks, splits, sklearn_results_by_fit, callback_ctx)
        if self.search.verify == "all" and not self.search._eliminates:
            jobs.append(self._final_job(tasks))

        def row_score(row):
            """Return a row's cross-validated score in score units, NaN if a fold is unfinished."""
            scores_of_folds = [
                self._ranking_score(sklearn_results_by_fit.get((row, fold_index)))
                for fold_index in range(n_folds)
            ]
            return self._weighted_or_mean(row, n_folds, float(np.mean(scores_of_folds)))

        def on_result(job, task, result):
            """Keep a FitResult of a HoldoutFitJob, or the FoldScores of a CVFitJob."""
            if isinstance(job, HoldoutFitJob):
                verifier.add_result(task, result, cv_score=row_score(task.row))
            else:
                sklearn_results_by_fit[task.row, job.fold_index] = dict(result.sklearn_result)
                self._store_fold(job, task, result)

        try:
            run_jobs(jobs, on_result, **verifier.dispatch)
        except INTERRUPTIONS:
            cv_scores_by_row = {
                task.row: self.metric.to_unit(row_score(task.row)) for task in tasks
            }
            verifier.verify_finished(tasks, cv_scores_by_row)
            raise
        sklearn_results = [
            sklearn_results_by_fit[task.row, fold_index]
            for task in tasks
            for fold_index in range(n_folds)
        ]
        if not sklearn_results:
            raise ValueError(
                "No fits were performed. Was the CV iterator empty? Were there no candidates?"
            )
        return sklearn_results

    def _final_job(self, tasks):
        """Return the job of the fits on the whole training set, and the list of its tasks.

        These are the tasks that :meth:`Verifier.final_fit_tasks` returns, with callback contexts if
        the search has callbacks.
        """
        final_tasks = self.verifier.final_fit_tasks(tasks)
        if self.callback_context is None:
            return HoldoutFitJob(self.verifier.setup), final_tasks
        if self.verification_context is None:
            self.verification_context = self.callback_context.subcontext(
                task_name="verification", max_subtasks=None, sequential_subtasks=False
            ).call_on_fit_task_begin(estimator=self.search)
        tasks_with_context = []
        for task in final_tasks:
            context = self.verification_context.subcontext(task_name="fit", task_id=task.row)
            tasks_with_context.append(replace(task, context=context))
        return HoldoutFitJob(self.verifier.setup, self.search), tasks_with_context

    def _store_fold(self, job, task, fold_scores):
        """Add the FoldScores of one fit to ``finished_fits``.

        ``job``: CVFitJob of the fold; ``task``: FitTask of the candidate.
        """
        self._ranking_score(fold_scores.sklearn_result)  # raises if the metric to verify is missing
        date_scores = None
        dates = self.holdout_split.time_ordered_dates()
        if fold_scores.scores is not None and dates is not None:
            _, test_date_codes = np.unique(dates[job.options["test"]], return_inverse=True)
            sums_by_date = np.bincount(test_date_codes, weights=fold_scores.scores.astype(float))
            date_scores = sums_by_date / np.bincount(test_date_codes)
        node_weights = None
        if self._node_weights is not None:
            node_weights = self._node_weights[job.fold_index]
        self.finished_fits.add(
            task.row, job.fold_index, task.fit_key, fold_scores, date_scores, node_weights
        )

    def _weighted_or_mean(self, row, n_folds, mean_score):
        """Return the cross-validated score of a row, in score units.

        For nodes it is the weighted score that predicts the holdout score. Otherwise, or if the
        weighted score is unknown, it is ``mean_score``, the mean over the folds. It is NaN if
        ``mean_score`` is.
        """
        has_weights = self._node_weights is not None and self.metric.is_mean
        if not has_weights or not math.isfinite(mean_score):
            return mean_score
        unit_score = self.finished_fits.weighted_score(row, n_folds)
        return self.metric.from_unit(unit_score) if math.isfinite(unit_score) else mean_score

    def _match_nodes(self, splits):
        """Set ``_node_weights``, ``n_train`` and ``notes`` from the folds.

        Weights are None unless the split has a node matching with enough nodes. ``n_train`` is the
        effective number of weighted nodes, or without weights the number of all training records.
        """
        matching = self.holdout_split.node_matching
        self.n_train = num_samples(self.holdout_split.X)
        self._node_weights = None
        self.notes = ()
        if matching is None:
            return
        self._node_weights = matching.weights(splits)
        if self._node_weights is None:
            self.notes = (TOO_FEW_MATCHED_NODES,)
        else:
            self.n_train = effective_number(np.concatenate(self._node_weights))

    def _splits(self, splitter):
        """Return the folds of the training set, as pairs of training and test positions.

        Raises an error for folds that cannot be used, and sets the node weights of the folds.
        """
        holdout_split = self.holdout_split
        n_expected_folds = self.search.n_splits_
        try:
            splits = list(splitter.split(holdout_split.X, holdout_split.y, **self.split_params))
        except ValueError as error:
            raise ValueError(
                f"cv={splitter} cannot divide the {num_samples(holdout_split.X)} training records: "
                f"{str(error).rstrip('.')}. Set fewer folds, such as cv=2, or bring more records."
            ) from error
        check_folds(holdout_split, splits)
        if len(splits) != n_expected_folds:
            raise ValueError(
                "cv.split and cv.get_n_splits return inconsistent results. Expected "
                f"{n_expected_folds} splits, got {len(splits)}"
            )
        self._match_nodes(splits)
        return splits

    def _fold_jobs(self, tasks, splits, sklearn_results_by_fit, callback_ctx):
        """Return a list of pairs: the job of each fold, and its unfinished tasks.

        scikit-learn's results of finished fits are put into the dict ``sklearn_results_by_fit``, by
        row and fold index. ``tasks``: one for each candidate; ``splits``: training and test
        positions of each fold.
        """
        search = self.search
        setup = self.verifier.setup
        params_digests = [object_digest(task.candidate.params) for task in tasks]
        jobs = []
        for fold_index, (train, test) in enumerate(splits):
            split_digest = pickle_digest((fold_index, train, test))
            unfinished_tasks = []
            for task, params_digest in zip(tasks, params_digests, strict=True):
                fit_key = params_digest and f"{task.row} {split_digest} {params_digest}"
                fold_scores = self.finished_fits.find(task.row, fold_index, fit_key)
                if fold_scores is not None and not self._lacks_predictions(fold_scores):
                    sklearn_result = dict(fold_scores.sklearn_result)
                    sklearn_results_by_fit[task.row, fold_index] = sklearn_result
                    continue
                context = None
                if callback_ctx is not None:
                    candidate_index, _ = task.candidate_progress
                    context = callback_ctx.subcontext(
                        task_name="candidate-split-evaluation",
                        task_id=candidate_index * len(splits) + fold_index,
                    )
                unfinished_tasks.append(replace(task, fit_key=fit_key, context=context))
            options = {
                "scorer": self.metrics.scorers,
                "fit_params": setup.fit_params,
                "score_params": {},
                "return_train_score": search.return_train_score,
                "return_times": True,
                "error_score": search.error_score,
                "verbose": search.verbose,
                "caller": None if self.callback_context is None else search,
                "train": train,
                "test": test,
                "split_progress": (fold_index, len(splits)),
            }
            job = CVFitJob(
                fold_index, setup.estimator, setup.X, setup.y, options, self.metrics.scorer_records
            )
            jobs.append((job, unfinished_tasks))
        return jobs

    def _lacks_predictions(self, fold_scores):
        """Return whether a finished fit has no predictions, and a metric needs them.

        False for a fit that failed.
        """
        metrics = [self.metric, *self.secondary.values()]
        needs_predictions = any(
            isinstance(metric, ApproximateMetric) and metric.uses_predictions_only
            for metric in metrics
        )
        is_failed = bool(fold_scores.sklearn_result.get("fit_error"))
        return needs_predictions and fold_scores.predictions is None and not is_failed

    def use_public_ranges(self):
        """Set the range of metrics without a proven bound from training scores of the candidates.

        Metrics of errors are clipped by :meth:`_use_error_clips`, and the verifier gets all
        metrics. If the metric that ranks has no proven bound, ``scores`` from ``first_row`` on are
        replaced by :meth:`cv_score`.
        """
        for name in (None, *self.secondary):
            metric = self.metric if name is None else self.secondary[name]
            if not isinstance(metric, ApproximateMetric):
                continue
            metric_name = self.metric_name if name is None else name
            if metric.function_name:  # one score of pooled predictions for each row
                n_rows = len(self.results[f"mean_test_{metric_name}"])
                rows = range(self.first_row, n_rows)
                scores = [self.reference(row, name).score for row in rows]
            else:  # scores on folds
                column_names = [
                    f"split{fold_index}_test_{metric_name}"
                    for fold_index in range(len(self.splits))
                ]
                scores = np.concatenate([self.results[column] for column in column_names])
            ranged_metric = metric.with_range(scores)
            if ranged_metric is not metric:
                # Standard deviations of references are in units of the range.
                self._references = {
                    (row, reference_name): reference
                    for (row, reference_name), reference in self._references.items()
                    if reference_name != name
                }
            if name is None:
                self.metric = ranged_metric
            else:
                self.secondary[name] = ranged_metric
        self._use_error_clips()
        self.verifier.use_metrics(self.metric, self.secondary)
        if isinstance(self.metric, ApproximateMetric):
            rows = range(self.first_row, self.scores.size)
            self.scores[self.first_row :] = [self.cv_score(row) for row in rows]

    def _use_error_clips(self):
        """Clip metrics of errors without a declared range, if the holdout is one of dates (G31).

        The clip is recorded or follows from out-of-fold errors. If it changes the metric that
        ranks, ``_range_ratio`` is set. Without folds nothing is done.
        """
        if not len(self.splits):
            return
        holdout = self.verifier.holdout
        clipped_metric = clip_errors_in_time(holdout, self.metric, self._out_of_fold_errors)
        if clipped_metric is not self.metric:
            score_range = self.metric.upper - self.metric.lower
            self._range_ratio = score_range / (clipped_metric.upper - clipped_metric.lower)
            self.metric = clipped_metric
        for name, metric in self.secondary.items():
            self.secondary[name] = clip_errors_in_time(holdout, metric, self._out_of_fold_errors)

    def _out_of_fold_errors(self):
        """Return an array of out-of-fold errors of the best candidate, or None.

        The candidate has the best cross-validated score from ``first_row`` on. Errors, absolute or
        signed, are in units of the target. If they do not follow from stored scores of the metric
        that ranks, the candidate is fitted again. None if no candidate has a cross-validated score,
        for several outputs, or if the candidate cannot be fitted again.
        """
        scores = self.scores[self.first_row :]
        if not np.isfinite(scores).any():
            return None
        best_row = self.first_row + int(np.nanargmax(scores))
        test_positions = [test for _, test in self.splits]
        n_train = num_samples(self.holdout_split.X)
        scores_and_folds = self.finished_fits.scores(best_row, test_positions, n_train)
        if scores_and_folds is not None and has_undeclared_range(self.metric):
            record_scores, _ = scores_and_folds
            errors = errors_of_scores(record_scores[np.isfinite(record_scores)], self.metric)
            if errors is not None:
                return errors
        estimator = clone(self.search.estimator).set_params(**self.candidates[best_row].params)
        groups = self.holdout_split.train_groups()
        return out_of_fold_errors(
            estimator, CVData(self.holdout_split.X, self.holdout_split.y, groups, self.splits)
        )

    def variance(self, row):
        """Return the variance of a row's scores in [0, 1], at most 1/4; NaN if it is unknown.

        The scores are those of test records, or of dates if records have dates. After
        :meth:`use_public_ranges`, 0 and 1 are the ends of the range of the verified metric.
        """
        return float(np.minimum(0.25, self._range_ratio**2 * self.finished_fits.variance(row)))

    def reference(self, row, name=None):
        """Return the TrainingReference of a row from its out-of-fold predictions.

        It is ``TrainingReference()`` if these are unknown or the metric uses more than predictions.
        ``name``: of a secondary metric; None for the metric that ranks. The metric must be an
        ApproximateMetric.
        """
        if (row, name) not in self._references:
            metric = self.metric if name is None else self.secondary[name]
            reference = TrainingReference()
            predictions = None
            if metric.uses_predictions_only:
                predictions = self.finished_fits.predictions(row, len(self.splits), metric.name)
            if predictions is not None:
                holdout = self.verifier.holdout
                unit_codes, reason = tested_units(self.holdout_split, self.splits)
                reference = metric.training_reference(
                    predictions,
                    unit_codes=unit_codes,
                    no_interval_reason=reason,
                    n_holdout_units=n_independent_units(holdout.dependence, holdout.n),
                    n_holdout_records=holdout.n,
                    are_iid=self.holdout_split.scheme.has_iid_records,
                )
            self._references[row, name] = reference
        return self._references[row, name]

    def cv_score(self, row, name=None):
        """Return the cross-validated score of a row on one metric, in score units.

        For metrics without a proven bound it is the score of pooled out-of-fold predictions, which
        has the formula that is applied to the holdout. For other metrics, or if the pooled score
        is unknown, it is the unweighted mean over folds. It is NaN if this mean is. ``name``: of a
        secondary metric; None for the metric that ranks.
        """
        metric = self.metric if name is None else self.secondary[name]
        metric_name = self.metric_name if name is None else name
        mean_over_folds = float(self.results[f"mean_test_{metric_name}"][row])
        if not isinstance(metric, ApproximateMetric) or not math.isfinite(mean_over_folds):
            return mean_over_folds
        pooled_score = self.reference(row, name).score
        return pooled_score if math.isfinite(pooled_score) else mean_over_folds

    def selection_scores(self):
        """Return the training score of each row by which a confirmed candidate is selected.

        Scores are in score units. For metrics without a proven bound they are scikit-learn's means
        over folds. For a metric with a clip that the user did not declare, they are means over
        folds without this clip, and NaN for rows before ``first_row``. They are ``scores`` for
        other metrics, with node weights, if the clip changes no score, or if a score without the
        clip is unknown.
        """
        if isinstance(self.metric, ApproximateMetric):
            return np.asarray(self.results[f"mean_test_{self.metric_name}"], dtype=float)
        has_default_clip = isinstance(self.metric, ClippedMetric) and bool(self.metric.note)
        if not has_default_clip or self._node_weights is not None:
            return self.scores
        n_folds = len(self.splits)
        unclipped_scores = np.full(self.scores.size, np.nan)
        n_clipped = 0  # number of test records whose score is clipped, summed over rows
        for row in range(self.first_row, self.scores.size):
            unclipped_scores[row] = self.finished_fits.unclipped_score(row, n_folds)
            clipping = self.finished_fits.clipping(row)
            n_clipped += 0 if clipping is None else clipping.n_clipped
        is_missing = np.isfinite(self.scores) & ~np.isfinite(unclipped_scores)
        uses_unclipped_scores = n_clipped > 0 and not is_missing[self.first_row :].any()
        return unclipped_scores if uses_unclipped_scores else self.scores

    def _ranking_score(self, sklearn_result):
        """Return a fold's score on the metric that ranks, in score units; NaN without a result.

        ``sklearn_result``: of ``_fit_and_score``, or None. Raises ValueError if the scores of a
        user's scorer do not contain this metric.
        """
        scores = np.nan if sklearn_result is None else sklearn_result["test_scores"]
        if not isinstance(scores, dict):
            return scores
        if self.metric_name not in scores:  # a user's scorer of several metrics
            raise ValueError(
                f"refit={self.metric_name!r} must name one of the scores that scoring returns, got "
                f"{sorted(scores) if scores else 'no dict of scores'}."
            )
        return scores[self.metric_name]

    def check(self):
        """Test the scores of the best candidate for undeclared dependence of records, and warn.

        The candidate has the best cross-validated score from ``first_row`` on. Sets
        ``dependence_report`` and ``dependence_scores``. Without a score both stay None, and a
        warning depends on the arguments of ``fit`` alone.
        """
        scores = self.scores[self.first_row :]
        if np.isnan(scores).all():
            warn_undeclared_dependence(self.holdout_split)
            return
        best_row = self.first_row + int(np.nanargmax(scores))
        test_positions = [test for _, test in self.splits]
        n_train = num_samples(self.holdout_split.X)
        self.dependence_report, self.dependence_scores = check_dependence(
            self.holdout_split,
            self.verifier.setup,
            self.candidates[best_row].params,
            groups=self.split_params.get("groups"),
            scores_and_folds=self.finished_fits.scores(best_row, test_positions, n_train),
        )
