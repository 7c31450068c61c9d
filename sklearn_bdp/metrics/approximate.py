"""Metrics of any scorer, with approximate intervals, exact limits or none (theory G34).

An approximate interval needs the spread of the score, which is estimated from pooled out-of-fold
predictions of the same candidate for training records. A score that is undefined on the holdout
counts as the lower end of the public range. Its approximate interval then excludes no score.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, ClassVar, NamedTuple

import numpy as np
import sklearn.metrics
from numpy.typing import ArrayLike
from sklearn.metrics import get_scorer
from sklearn.utils.multiclass import type_of_target

from sklearn_bdp._typing import Array, FloatOrArray
from sklearn_bdp.intervals.approximate import (
    SMALLEST_TESTED_ALPHA,
    TESTED_ALPHA,
    ApproximateLimits,
    ErrorDistribution,
    InfluenceSpread,
    influence_spread,
)
from sklearn_bdp.intervals.left_out import average_precision_by_unit
from sklearn_bdp.intervals.ratios import RatioKind, score_of_share
from sklearn_bdp.metrics.base import (
    METRICS,
    BoundedMetric,
    Evaluation,
    ScoreShape,
    as_labels,
    suppress_output,
)
from sklearn_bdp.metrics.confusion import confusion_scores
from sklearn_bdp.metrics.influence import influence_on_score, record_losses
from sklearn_bdp.metrics.label_checks import check_counted_class, check_not_sum
from sklearn_bdp.metrics.ratios import RatioMetric
from sklearn_bdp.metrics.score_functions import (
    SIGNED,
    TARGETS_NEAR_ZERO,
    UNKNOWN,
    UNKNOWN_SCORER,
    WORST_LOSS,
    PublicRange,
    ScoreForm,
    ScoreFunction,
    score_function,
)
from sklearn_bdp.utils.hashing import object_digest
from sklearn_bdp.utils.score_units import open_ends_from_unit
from sklearn_bdp.utils.sklearn_compat import get_response_values

#: Largest number of blocks of units without which scores are computed one by one.
_MAX_BLOCKS = 200
#: Fewest expected holdout records of the rarest class or label for an interval, of other metrics
#: and of average precision (theory G34).
_MIN_EVENTS, _MIN_EVENTS_PRECISION = 12, 15
#: Fewest correct out-of-fold predictions of each class or label for an interval, for metrics of the
#: confusion matrix.
_MIN_CORRECT = 5
#: Squares are clipped at this factor times this quantile of squares of training records.
_CLIP_FACTOR, _CLIP_QUANTILE = 1.5, 0.999
#: Quantile for the clip of losses that are large for numbers near 0, which has the same factor.
_LOSS_CLIP_QUANTILE = 0.99
#: Largest number of cells of a confusion matrix that is used.
_MAX_CONFUSION_CELLS = 400
#: Ends of the names of scikit-learn's losses in `SCORE_FUNCTIONS`.
_LOSS_SUFFIXES = ("_error", "_loss", "_deviance")
#: Averages over records or over all labels together, which a rare label changes little.
_POOLED_AVERAGES = ("samples", "micro")
#: Smallest margin around the scores of candidates in the public range of an unknown scorer, as a
#: fraction of the largest absolute score.
_MIN_MARGIN = 0.1

#: Metrics of two classes that are functions of a proportion of hits, by name of scikit-learn's
#: function.
_RATIO_METRICS: dict[str, type[RatioMetric]] = {
    metric_class.score_function: metric_class
    for metric_class in METRICS.values()
    if issubclass(metric_class, RatioMetric) and metric_class.score_function
}

#: Reason for no interval if the training set gives no valid spread, as a clause for messages.
_NO_VARIATION = "its out-of-fold score does not vary"
#: Reason for no interval if records are dates, as a clause for messages.
OF_DATES = (
    "its variation between training dates does not bound that of later dates, whose drift and "
    "dependence are free. The final report has an interval"
)


@dataclasses.dataclass(frozen=True, eq=False)
class Predictions:
    """Targets of records and a model's predictions, in the form that a scorer takes.

    Predictions of holdout records are raw: only the mechanism may read them.
    """

    y: Array = dataclasses.field(repr=False)  # targets, shape (n,) or (n, n_outputs)
    response: Array = dataclasses.field(repr=False)  # predictions of the model, records first
    pos_label: Any = None  # positive class of one-dimensional scores and probabilities
    #: Whether a caller passed the predictions. The model may then be fitted on the same records.
    from_caller: bool = False

    @classmethod
    def concatenate(cls, fold_predictions: list[Predictions]) -> Predictions:
        """Return the predictions of several folds, one after the other."""
        y = np.concatenate([fold.y for fold in fold_predictions])
        response = np.concatenate([fold.response for fold in fold_predictions])
        return cls(y, response, fold_predictions[0].pos_label)


class SquareClips(NamedTuple):
    """Clips of the squares of one output, and means that are subtracted before squaring.

    All are from training records.

    Parameters
    ----------
    error, deviation : float
        Clip of the squared error, and of the squared deviation of a target from the training mean.
    target_mean : float
        Mean of the training targets, in units of the target.
    mean_error : float, default=0.0
        Number that is subtracted from errors (targets minus predictions) before they are squared:
        for explained variance the mean error of training records, else 0.
    """

    error: float
    deviation: float
    target_mean: float
    mean_error: float = 0.0


@dataclasses.dataclass(frozen=True)
class TrainingReference:
    """Score of one candidate and its spread, from predictions of training records.

    Parameters
    ----------
    score : float
        Score of pooled predictions, in score units, by the formula that is applied to the holdout;
        NaN if it is undefined. For a scorer that calls the model, the mean score of the folds.
    clips : tuple of SquareClips
        Clips of each output for metrics of squared errors; empty without clips.
    loss_clips : tuple of float
        Clip of each output for gamma deviances and squared log errors; empty for other losses.
    family : {"none", "ratio", "proportion", "loss", "median"}
        Family of limits; ``"none"`` without an interval, ``"ratio"`` for exact limits.
    spread : InfluenceSpread, ErrorDistribution or None
        Spread of the score in units of [0, 1]; None without an interval and for exact limits.
    counts : tuple of int or None
        For exact limits, the number of training records that do not count in the denominator and
        of those that do. None without exact limits.
    reason : str
        Clause on why there is no interval; empty if there is one.
    """

    score: float = math.nan
    clips: tuple[SquareClips, ...] = ()
    loss_clips: tuple[float, ...] = ()
    family: str = "none"
    spread: InfluenceSpread | ErrorDistribution | None = None
    counts: tuple[int, int] | None = None
    reason: str = UNKNOWN_SCORER


@dataclasses.dataclass(frozen=True, eq=False)
class RatioCounts:
    """Numbers of hits and of records that count in the denominator.

    Only the mechanism may read those of holdout records.

    Parameters
    ----------
    ratio_kind : {"share", "f1"}
        ``"share"`` if the score is ``n_hits / n_counted``; ``"f1"`` if it is the F1 score, a
        function of that proportion.
    n_hits, n_counted : int
        Number of true positives, and of records that count in the denominator.
    """

    ratio_kind: RatioKind
    n_hits: int
    n_counted: int

    def __repr__(self) -> str:
        return f"<raw counts of a {self.ratio_kind}>"

    def value(self, floor: int) -> float:
        """Return the score, with ``n_counted`` raised to at least ``floor``.

        Parameters
        ----------
        floor : int
            Number of records that replaces a smaller denominator ``n_counted``.

        Returns
        -------
        float
            In [0, 1]; 0 if no record counts.
        """
        proportion = self.n_hits / max(self.n_counted, floor, 1)
        return float(score_of_share(proportion, self.ratio_kind))

    def sensitivity(self, floor: int) -> float:
        """Return a bound on the change of ``value(floor)`` if one record is replaced by another.

        Parameters
        ----------
        floor : int
            Number of records that replaces a smaller denominator ``n_counted``.

        Returns
        -------
        float
            ``1 / floor`` for a proportion, ``2 / floor`` for F1, at most 1.
        """
        slope = 1.0 if self.ratio_kind == "share" else 2.0
        return min(1.0, slope / max(floor, 1))


@dataclasses.dataclass(frozen=True, kw_only=True)
class ApproximateMetric(BoundedMetric):
    """Metric of a scorer that ranks candidates with approximate or exact limits, or without any.

    Parameters
    ----------
    name : str
        Name of the scorer, of its function or of its class.
    scoring : object
        The caller's ``scoring`` argument: a name, a scorer or a function.
    scorer : callable
        The scorer itself, or the caller's function.
    lower, upper : float
        Public range in score units that is mapped to [0, 1].
    is_open : bool
        Whether scores may lie outside this range; see :attr:`open_ends`.
    digest : str
        Digest of the scorer, which identifies it in a ledger; ``"no digest"`` without one.
    """

    scoring: Any = dataclasses.field(repr=False, compare=False)
    scorer: Any = dataclasses.field(repr=False, compare=False)
    is_open: bool
    digest: str
    #: Reference of the candidate for which a forecast is made; None without one.
    reference: TrainingReference | None = dataclasses.field(default=None, repr=False, compare=False)

    is_mean: ClassVar[bool] = False
    methods: ClassVar[tuple[str, ...]] = ()

    # -- predictions ------------------------------------------------------------------------------

    @property
    def n_predicted_classes(self) -> int | None:
        """Number of classes that count as predicted for each record: the predicted one."""
        return 1

    @property
    def uses_predictions_only(self) -> bool:  # type: ignore[override] # it depends on the scorer
        """Whether the scorer was made from a function of targets and predictions."""
        return hasattr(self.scorer, "_score_func")

    @property
    def min_tested_alpha(self) -> float:
        """Smallest one-sided failure probability at which limits were simulated (theory G34)."""
        return SMALLEST_TESTED_ALPHA if self.facts.is_tested_far else TESTED_ALPHA

    def __repr__(self) -> str:
        # Identifies the metric in a ledger. The range may depend on the candidates: it is left out.
        return f"ApproximateMetric({self.name!r}, {self.digest!r})"

    @property
    def function_name(self) -> str:
        """Name of a score function of scikit-learn, empty for others and for unknown ranges."""
        return _sklearn_function_name(self.scorer)

    @property
    def facts(self) -> ScoreFunction:
        """Entry of the score function in `SCORE_FUNCTIONS`; `UNKNOWN` without one."""
        return score_function(self.function_name)

    def predictions(self, estimator: Any, X: Any, y: ArrayLike) -> Predictions:
        """Return the predictions that the scorer takes; errors of the model propagate.

        Parameters
        ----------
        estimator : estimator
            Fitted.
        X, y : array-like
            Records and targets.

        Returns
        -------
        Predictions
            Targets and predictions.
        """
        pos_label = self.scorer._get_pos_label()
        response, pos_label = get_response_values(
            estimator, X, response_method=self.scorer._response_method, pos_label=pos_label
        )
        return Predictions(as_labels(y), np.asarray(response), pos_label)

    def score_predictions(self, predictions: Predictions, **options: Any) -> float:
        """Return the scorer's value for predictions, in score units.

        Parameters
        ----------
        predictions : Predictions
            Targets and predictions.
        **options : object
            Other arguments of the score function, such as ``sample_weight``.

        Returns
        -------
        float
            The score; greater is better.
        """
        if not options:
            score = self._score_from_confusion_matrix(predictions)
            if score is not None:
                return score
        function = self.scorer._score_func
        arguments = {**self.scorer._kwargs, **options}
        return float(self.scorer._sign * function(predictions.y, predictions.response, **arguments))

    def _score_from_confusion_matrix(self, predictions):
        """Return the score from the confusion matrix, or None to call scikit-learn's function.

        None also if a label is missing among targets or among predictions, because scikit-learn has
        rules and warnings for divisions by zero.
        """
        y = np.asarray(predictions.y)
        response = np.asarray(predictions.response)
        is_labels = y.ndim == response.ndim == 1 and y.dtype.kind == response.dtype.kind != "f"
        if self.facts.form is not ScoreForm.CONFUSION or not is_labels:
            return None
        labels, label_codes = np.unique(np.concatenate([y, response]), return_inverse=True)
        if not 4 <= labels.size**2 <= _MAX_CONFUSION_CELLS:
            return None
        cell_of_record = label_codes[: y.size] * labels.size + label_codes[y.size :]
        counts = np.bincount(cell_of_record, minlength=labels.size**2)
        table = counts.astype(float).reshape(1, labels.size, labels.size)
        if not (table.sum(axis=1).all() and table.sum(axis=2).all()):
            return None
        scores = confusion_scores(table, self.function_name, self.scorer._kwargs, labels)
        return None if scores is None else float(self.scorer._sign * scores[0])

    # -- exact ratios -----------------------------------------------------------------------------

    @property
    def _ratio_kind(self):
        """``"share"`` or ``"f1"`` for a metric of two classes with exact limits, else None."""
        arguments = self.scorer._kwargs if self.function_name in _RATIO_METRICS else {}
        is_supported = (
            set(arguments) <= {"average", "pos_label", "zero_division"}
            and arguments.get("average", "binary") == "binary"
            and arguments.get("zero_division", 0) in ("warn", 0)
        )
        is_ratio = is_supported and self.function_name in _RATIO_METRICS
        return _RATIO_METRICS[self.function_name].ratio_kind if is_ratio else None

    def ratio_counts(self, predictions: Predictions) -> RatioCounts:
        """Return the counts that determine precision, Jaccard or F1 of two classes.

        Parameters
        ----------
        predictions : Predictions
            Labels of two classes.

        Returns
        -------
        RatioCounts
            Counts of these records.
        """
        pos_label = self.scorer._kwargs.get("pos_label", 1)
        is_predicted = np.asarray(predictions.response == pos_label)
        is_actual = np.asarray(predictions.y == pos_label)
        is_hit, is_counted = _RATIO_METRICS[self.function_name].share_counts(
            is_actual, is_predicted
        )
        n_hits = int(np.count_nonzero(is_hit))
        return RatioCounts(self._ratio_kind, n_hits, int(np.count_nonzero(is_counted)))

    def _exact_reference(self, predictions, reference):
        """Return the reference with counts for exact limits, None if there are no such limits."""
        y = predictions.y
        response = predictions.response
        if self._ratio_kind is None or y.ndim != 1 or response.shape != y.shape:
            return None
        if np.unique(y).size != 2:
            return None
        n_counted = self.ratio_counts(predictions).n_counted
        counts = (len(y) - n_counted, n_counted)
        return dataclasses.replace(reference, family="ratio", counts=counts, reason="")

    # -- statistic on the holdout -----------------------------------------------------------------

    def statistic(self, predictions: Predictions, reference: TrainingReference) -> float:
        """Return the score that the interval is about, in score units.

        If the reference has clips, squared errors, squared deviations from the training mean, and
        gamma deviances and squared log errors are clipped. Explained variance then subtracts the
        mean error of training records from errors. Without clips the score is that of the scorer.
        """
        if reference.loss_clips:
            losses = self._clipped_record_losses(predictions, reference)
        elif self.facts.averages_clipped_squares and reference.clips:
            losses, squared_deviations = self._clipped_squares(predictions, reference)
            if self.facts.form is ScoreForm.SQUARED_SKILL:
                return float(np.mean(1.0 - losses.mean(axis=0) / squared_deviations.mean(axis=0)))
        else:
            return self.score_predictions(predictions)
        mean_losses = losses.mean(axis=0)  # of each output
        if self.function_name in ("root_mean_squared_error", "root_mean_squared_log_error"):
            mean_losses = np.sqrt(mean_losses)
        return -float(np.mean(mean_losses))

    def _clipped_record_losses(self, predictions, reference):
        """Return losses clipped at the reference's clips, of shape (n_records, n_outputs).

        Raises ValueError if the losses are not available.
        """
        losses = self._losses_of_records(predictions.y, predictions.response)
        if losses is None:
            raise ValueError("some targets or predictions have no loss")
        return np.minimum(losses, reference.loss_clips)

    def _losses_of_records(self, y, response):
        """Return the loss of each record and output, of shape (n_records, n_outputs).

        Minus the score is the mean over outputs of the mean loss, or of its root. Return None if
        losses are not available, for instance if the scorer has arguments or a record has no loss.
        """
        y = _columns(y)
        response = _columns(response)
        if response.shape != y.shape or self.scorer._kwargs:
            return None
        mean_loss_name = self.function_name.removeprefix("root_")
        losses_by_output = [
            record_losses(mean_loss_name, {}, targets, output_predictions)
            for targets, output_predictions in zip(y.T, response.T, strict=True)
        ]
        if any(losses is None for losses in losses_by_output):
            return None
        return np.column_stack(losses_by_output)

    def _loss_clips(self, predictions):
        """Return a tuple with the clip of each output's losses.

        It is empty if losses are not available or a clip is not positive.
        """
        losses = self._losses_of_records(predictions.y, predictions.response)
        if losses is None:
            return ()
        clips = np.quantile(losses, _LOSS_CLIP_QUANTILE, axis=0)
        if predictions.from_caller:
            # Losses of records that the model was fitted on are too small, those of a constant
            # prediction are not.
            y = _columns(predictions.y)
            losses_of_mean = self._losses_of_records(y, np.broadcast_to(y.mean(axis=0), y.shape))
            clips = np.maximum(clips, np.quantile(losses_of_mean, _LOSS_CLIP_QUANTILE, axis=0))
        return tuple(_CLIP_FACTOR * clips) if np.all(clips > 0.0) else ()

    def _clipped_squares(self, predictions, reference):
        """Return clipped squared errors, and clipped squared deviations from the training mean.

        Both are of shape (n_records, n_outputs).
        """
        y = _columns(predictions.y)
        error_clips, deviation_clips, target_means, mean_errors = np.array(reference.clips).T
        centered_errors = y - _columns(predictions.response) - mean_errors
        return (
            np.minimum(centered_errors**2, error_clips),
            np.minimum((y - target_means) ** 2, deviation_clips),
        )

    def finish(self, evaluation: Evaluation, reference: TrainingReference) -> Evaluation:
        """Return the evaluation with its value and the public spread of the candidate.

        Parameters
        ----------
        evaluation : Evaluation
            Raw evaluation of holdout records, from :meth:`evaluate`.
        reference : TrainingReference
            Reference of the same candidate, from training records.

        Returns
        -------
        Evaluation
            Evaluation with a value in [0, 1]. The value is 0 if the score is undefined. The field
            ``score_inputs`` has `RatioCounts` for the family ``"ratio"``, else None.
        """
        if reference.family == "ratio":
            predictions = evaluation.score_inputs
            if predictions is None:  # the model failed, so that no record counts
                counts = RatioCounts(self._ratio_kind, 0, 0)
            else:
                counts = self.ratio_counts(predictions)
            return dataclasses.replace(
                evaluation, value=counts.value(0), score_inputs=counts, shape=self._shape(reference)
            )
        value = math.nan
        if isinstance(evaluation.score_inputs, float):  # of a scorer that calls the model itself
            value = evaluation.score_inputs
        elif evaluation.score_inputs is not None:
            try:
                with suppress_output():
                    value = self.statistic(evaluation.score_inputs, reference)
            except Exception:  # of the score function: the score is undefined
                value = math.nan
        unit_value = self.to_unit(value) if math.isfinite(value) else 0.0
        return dataclasses.replace(
            evaluation, value=unit_value, score_inputs=None, shape=self._shape(reference)
        )

    def _shape(self, reference):
        """Return the `ScoreShape` that determines a candidate's limits, from its reference."""
        if reference.family == "ratio":
            return ScoreShape(kind="ratio", family=self._ratio_kind, class_counts=reference.counts)
        spread = reference.spread
        if reference.family == "none" or spread is None:
            return ScoreShape(kind="approximate", family="none")
        if isinstance(spread, ErrorDistribution):
            error_spread = (spread.deviation, spread.n_units, *spread.quantiles)
            return ScoreShape(kind="approximate", family="median", spread=error_spread)
        spread = spread._replace(max_df=min(spread.max_df, 1e9))
        return ScoreShape(kind="approximate", family=reference.family, spread=tuple(spread))

    def expected_shape(self, n: int) -> ScoreShape:
        if self.reference is None:
            return ScoreShape(kind="approximate", family="none")
        return self._shape(self.reference)

    def evaluate(self, estimator: Any, X: Any, y: ArrayLike) -> Evaluation:
        """Return an evaluation with raw predictions or a raw score, for :meth:`finish`.

        ``score_inputs`` has the predictions, the score of a scorer that calls the model itself, or
        None if the model or the scorer failed. ``value`` is 0 until it is computed from them.
        """
        predictions_or_score: Any = None
        try:
            with suppress_output():
                if self.uses_predictions_only:
                    predictions_or_score = self.predictions(estimator, X, y)
                else:
                    predictions_or_score = float(self.scorer(estimator, X, y))
        except Exception:
            predictions_or_score = None
        return Evaluation(
            per_record=None,
            value=0.0,
            sensitivity=1.0,
            shape=ScoreShape(kind="approximate", family="none"),
            score_inputs=predictions_or_score,
        )

    def training_scores(self, estimator: Any, X: Any, y: ArrayLike) -> tuple[Array | None, float]:
        return None, self.to_unit(self.score_model(estimator, X, y))

    def score_model(self, estimator: Any, X: Any, y: ArrayLike) -> float:
        """Return the scorer's value for public records; errors of the model propagate.

        Parameters
        ----------
        estimator : estimator
            Fitted.
        X, y : array-like
            Records and targets of the training set.

        Returns
        -------
        float
            The score in score units.
        """
        if self.uses_predictions_only:
            return self.score_predictions(self.predictions(estimator, X, y))
        return float(self.scorer(estimator, X, y))

    def record_scores(self, estimator, X, y):
        raise NotImplementedError  # approximate metrics are not means over records

    def _evaluated(self, estimator, record_values, y):
        raise NotImplementedError

    @property
    def open_ends(self) -> str:
        """Ends of the public range beyond which scores may lie: ``""``, ``"lower"``, ``"both"``."""
        if not self.is_open:
            return ""
        if not self.function_name:
            return "both"
        is_bounded_above = self.scorer._sign == -1 or self.facts.public_range is not None
        return "lower" if is_bounded_above else "both"

    def ends_from_unit(self, lower: FloatOrArray, upper: FloatOrArray) -> tuple[Any, Any]:
        return open_ends_from_unit(self.lower, self.upper, self.open_ends, lower, upper)

    def with_range(self, scores: ArrayLike) -> ApproximateMetric:
        """Return the metric with a public range from training scores of candidates.

        Parameters
        ----------
        scores : array-like
            Scores of candidates on training records, also of single folds, in score units; NaN if
            undefined.

        Returns
        -------
        ApproximateMetric
            The metric itself if its range is fixed, if no score is finite, or if it has a
            ``function_name`` and its best score reaches the upper end of the range.
        """
        scores = np.asarray(scores, dtype=float)
        finite_scores = scores[np.isfinite(scores)]
        if not self.is_open or not finite_scores.size:
            return self
        if not self.function_name:
            lower = float(finite_scores.min())
            upper = float(finite_scores.max())
            margin = max(upper - lower, _MIN_MARGIN * max(abs(lower), abs(upper)), 1e-12)
            return dataclasses.replace(self, lower=lower - margin, upper=upper + margin)
        best_loss = self.upper - float(finite_scores.max())
        if not best_loss > 0.0:
            return self
        return dataclasses.replace(self, lower=self.upper - WORST_LOSS * best_loss)

    # -- spread on the training set ---------------------------------------------------------------

    def training_reference(
        self,
        predictions: Predictions,
        *,
        unit_codes: Array | None,
        n_holdout_units: int,
        n_holdout_records: int,
        no_interval_reason: str = "",
        are_iid: bool = False,
    ) -> TrainingReference:
        """Return a candidate's training score, and its spread or a reason for no interval.

        Parameters
        ----------
        predictions : Predictions
            Pooled predictions of the training records, out of fold unless they are from the caller.
        unit_codes : ndarray of int, shape (n_records,), or None
            Sampling unit of each record; None if every record is one.
        n_holdout_units, n_holdout_records : int
            Number of sampling units and of records of the holdout.
        no_interval_reason : str, default=""
            Clause on why there is no approximate interval; empty if the caller knows none.
        are_iid : bool, default=False
            Whether holdout records are independent and identically distributed. Then precision,
            Jaccard and F1 of two classes can have exact limits.

        Returns
        -------
        TrainingReference
            Its family is ``"none"`` without an interval.
        """
        reference = self.pooled(predictions)
        if not math.isfinite(reference.score):
            return dataclasses.replace(reference, reason="its out-of-fold score is undefined")
        exact_reference = self._exact_reference(predictions, reference) if are_iid else None
        if exact_reference is not None:
            return exact_reference
        reason = no_interval_reason or self._exclusion_reason(
            predictions, reference, n_holdout_records
        )
        if unit_codes is None:
            unit_codes = np.arange(len(predictions.y))
        n_units = int(np.unique(unit_codes).size)
        if not reason and n_units < n_holdout_units:
            reason = "the training set has fewer units than the holdout"
        if reason:
            return dataclasses.replace(reference, reason=reason)
        if self.facts.form is ScoreForm.MEDIAN_ERROR:
            return self._median_reference(predictions, reference, unit_codes)
        return self._spread_reference(predictions, reference, unit_codes)

    def _spread_reference(self, predictions, reference, unit_codes):
        """Return the reference with the spread of influence values, or a reason for no interval."""
        try:
            with suppress_output():
                spread = self._influence_spread(predictions, reference, unit_codes)
        except ValueError:  # a score without a block is undefined, for instance without a class
            return dataclasses.replace(reference, reason=_NO_VARIATION)
        if spread.center <= 0.0:
            reason = "its loss is several times that of the best candidate"
            return dataclasses.replace(reference, reason=reason)
        is_finite = np.isfinite(
            [spread.center, spread.deviation, spread.kurtosis, spread.n_units]
        ).all()
        if not is_finite or not spread.deviation > 0.0 or not spread.center < 1.0:
            return dataclasses.replace(reference, reason=_NO_VARIATION)
        if not self.facts.is_classification:
            return dataclasses.replace(reference, family="loss", spread=spread, reason="")
        # The effective sample size must not exceed the number of records.
        records_per_unit = len(predictions.y) / np.unique(unit_codes).size
        min_deviation = math.sqrt(spread.center * (1.0 - spread.center) / records_per_unit)
        spread = spread._replace(deviation=max(spread.deviation, min_deviation))
        return dataclasses.replace(reference, family="proportion", spread=spread, reason="")

    def pooled(self, predictions: Predictions) -> TrainingReference:
        """Return the score of pooled predictions and the clips, without an interval.

        Parameters
        ----------
        predictions : Predictions
            Pooled predictions of the training records, out of fold unless they are from the caller.

        Returns
        -------
        TrainingReference
            Its score is NaN if the metric is undefined for these predictions.
        """
        reference = self._clip_reference(predictions)
        try:
            with suppress_output():
                score = self.statistic(predictions, reference)
        except Exception:  # of the score function: the score is undefined
            score = math.nan
        return dataclasses.replace(reference, score=score)

    def _median_reference(self, predictions, reference, unit_codes):
        """Return the reference with the distribution of absolute errors, or why it has none.

        Errors are in units of [0, 1].
        """
        absolute_errors = np.abs(np.asarray(predictions.y, dtype=float) - predictions.response)
        unit_errors = absolute_errors / (self.upper - self.lower)  # 1 is the length of the range
        if not 0.0 < float(np.median(unit_errors)) < 1.0:
            return dataclasses.replace(reference, reason=_NO_VARIATION)
        distribution = ErrorDistribution.of_errors(unit_errors, unit_codes)
        return dataclasses.replace(reference, family="median", spread=distribution, reason="")

    def _clip_reference(self, predictions):
        """Return a reference with the clips of squares or losses only, or with none."""
        if self.facts.has_unbounded_logs:
            return TrainingReference(loss_clips=self._loss_clips(predictions))
        multioutput = self.scorer._kwargs.get("multioutput", "uniform_average")
        if not self.facts.averages_clipped_squares or multioutput != "uniform_average":
            return TrainingReference()
        y = _columns(predictions.y)
        response = _columns(predictions.response)
        if response.shape != y.shape:
            return TrainingReference()
        clips = []
        for targets, errors in zip(y.T, (y - response).T, strict=True):  # of one output
            target_mean = float(np.mean(targets))
            mean_error = 0.0
            if self.function_name == "explained_variance_score":
                mean_error = float(np.mean(errors))
            error_clip, deviation_clip = (
                _CLIP_FACTOR * float(np.quantile(squares, _CLIP_QUANTILE))
                for squares in ((errors - mean_error) ** 2, (targets - target_mean) ** 2)
            )
            if predictions.from_caller:
                # Errors of records that the model was fitted on are too small. If holdout errors
                # were clipped at them, the holdout score would confirm the training score.
                error_clip = max(error_clip, deviation_clip)
            clips.append(SquareClips(error_clip, deviation_clip, target_mean, mean_error))
        has_clips = all(min(clip.error, clip.deviation) > 0.0 for clip in clips)
        return TrainingReference(clips=tuple(clips) if has_clips else ())

    def _exclusion_reason(self, predictions, reference, n_holdout_records):
        """Return a clause on the public fact that excludes an interval, or an empty text."""
        facts = self.facts
        y = predictions.y
        if facts.form is ScoreForm.OTHER:
            return facts.no_interval
        if facts.is_classification and y.ndim == 1:
            return self._rare_class_reason(predictions, n_holdout_records)
        if facts.is_classification and self.scorer._kwargs.get("average") not in _POOLED_AVERAGES:
            return self._rare_label_reason(predictions, n_holdout_records)
        if facts.needs_one_output and y.ndim != 1:
            return "intervals need one output"
        if facts.averages_clipped_squares and not reference.clips:
            return "the training set gives squared errors no clip"
        if facts.has_unbounded_logs and not reference.loss_clips:
            return TARGETS_NEAR_ZERO
        power = self.scorer._kwargs.get("power", 0)
        if self.function_name == "mean_tweedie_deviance" and power >= 2:
            return TARGETS_NEAR_ZERO
        if self.function_name == "mean_absolute_percentage_error":
            absolute_targets = np.abs(np.asarray(y, dtype=float))
            if np.any(absolute_targets.min(axis=0) < 0.01 * np.median(absolute_targets, axis=0)):
                return "some targets are near 0"
        return ""

    def _rare_class_reason(self, predictions, n_holdout_records):
        """Return a clause if a class has too few records or correct predictions, else ""."""
        y = predictions.y
        classes, class_counts = np.unique(y, return_counts=True)
        n_expected_rarest = class_counts.min() / class_counts.sum() * n_holdout_records
        is_average_precision = self.function_name == "average_precision_score"
        min_records = _MIN_EVENTS_PRECISION if is_average_precision else _MIN_EVENTS
        if n_expected_rarest < min_records:
            return f"the rarest class has fewer than {min_records} expected records in the holdout"
        if self.facts.form is ScoreForm.CONFUSION:
            correct_counts = [
                np.sum(predictions.response[y == label] == label) for label in classes
            ]
            if min(correct_counts) < _MIN_CORRECT:
                return f"a class has fewer than {_MIN_CORRECT} correct out-of-fold predictions"
        return ""

    def _rare_label_reason(self, predictions, n_holdout_records):
        """Return a clause if a label has too few records or true positives, else "".

        Targets are indicators of shape (n_records, n_labels).
        """
        has_label = np.asarray(predictions.y != 0)
        label_proportions = has_label.mean(axis=0)
        rarest_proportion = float(np.min(np.minimum(label_proportions, 1.0 - label_proportions)))
        is_average_precision = self.function_name == "average_precision_score"
        min_records = _MIN_EVENTS_PRECISION if is_average_precision else _MIN_EVENTS
        if rarest_proportion * n_holdout_records < min_records:
            return f"a label has fewer than {min_records} expected records with it, or without it"
        if self.facts.form is ScoreForm.CONFUSION:
            is_hit = has_label & np.asarray(predictions.response != 0)
            if np.min(is_hit.sum(axis=0)) < _MIN_CORRECT:
                return f"a label has fewer than {_MIN_CORRECT} correct out-of-fold predictions"
        return ""

    def limits_of_labels(
        self, y: Array, response: Array, alpha: float
    ) -> tuple[float, float] | None:
        """Return limits of a single score of independent records, from the confusion matrix.

        The spread is that of these records and one pseudo record for each class, so that it is
        positive if all predictions are correct.

        Parameters
        ----------
        y, response : ndarray of shape (n_records,)
            Targets, and labels predicted by a model that was fitted on other records.
        alpha : float
            Failure probability of both limits together.

        Returns
        -------
        tuple of float or None
            Lower and upper limit in score units. None for a metric that is not a function of the
            confusion matrix, and if these records give no interval.
        """
        predictions = Predictions(y, response)
        if self._confusion_labels(predictions) is None:
            return None
        reference = self.training_reference(
            predictions, unit_codes=None, n_holdout_units=len(y), n_holdout_records=len(y)
        )
        spread = reference.spread
        if reference.family != "proportion" or not isinstance(spread, InfluenceSpread):
            return None
        limits = ApproximateLimits("proportion", len(y), spread)
        unit_score = np.array([self.to_unit(reference.score)])
        log_alpha_one_sided = np.array([math.log(alpha / 2.0)])
        lower, upper = limits.limits(unit_score, unit_score, log_alpha_one_sided)  # exact score
        return float(self.from_unit(lower[0])), float(self.from_unit(upper[0]))

    def record_values(self, predictions: Predictions, reference: TrainingReference) -> Array:
        """Return the contribution of each record to the score: the score plus its influence.

        Parameters
        ----------
        predictions : Predictions
            Pooled out-of-fold predictions of training records.
        reference : TrainingReference
            Reference of these predictions.

        Returns
        -------
        ndarray of shape (n_records,)
            Contributions in units of [0, 1]. Their mean is the score. Their variance divided by the
            number of independent records estimates the variance of the score. Without a closed
            form, all records of a block have the influence of the block, times the root of the mean
            number of records of a block.
        """
        n_records = len(predictions.y)
        labels = self._confusion_labels(predictions)
        if reference.clips:
            influence = self._squared_influence(predictions, reference)
        elif labels is not None:
            _, _, cell_of_record, influence_by_cell = self._confusion_influence(predictions, labels)
            influence = influence_by_cell[cell_of_record]
        else:
            influence = self._record_influence(predictions, reference)
        if influence is None:
            _, influence_by_block, block_of_record, units_per_block = self._block_influence(
                predictions, np.arange(n_records)
            )
            influence = influence_by_block[block_of_record] * math.sqrt(units_per_block)
        return self.to_unit(reference.score) + influence - influence.mean()

    def _influence_spread(self, predictions, reference, unit_codes):
        """Return the spread of the influence values of sampling units or blocks.

        ``reference``: the `TrainingReference` with the score and the clips of these predictions.
        """
        if reference.clips:
            influence = self._squared_influence(predictions, reference)
            center = (reference.score - self.lower) / (self.upper - self.lower)
            return influence_spread(center, _sum_by_unit(influence, unit_codes))
        labels = self._confusion_labels(predictions)
        if labels is not None:
            return self._confusion_spread(predictions, labels, unit_codes)
        influence = self._record_influence(predictions, reference)
        if influence is not None:
            center = (reference.score - self.lower) / (self.upper - self.lower)
            return influence_spread(center, _sum_by_unit(influence, unit_codes))
        center, influence, _, units_per_block = self._block_influence(predictions, unit_codes)
        return influence_spread(center, influence, units_per_block=units_per_block)

    def _confusion_labels(self, predictions):
        """Return the labels of targets and predictions, in ascending order.

        None for metrics that are not functions of the confusion matrix, for several outputs, and
        for more than 20 labels.
        """
        if self.facts.form is not ScoreForm.CONFUSION or predictions.y.ndim != 1:
            return None
        labels = np.union1d(predictions.y, predictions.response)
        return labels if labels.size**2 <= _MAX_CONFUSION_CELLS else None

    def _squared_influence(self, predictions, reference):
        """Return the influence of each record on a score of squared errors, in units of [0, 1].

        The shape is (n_records,).
        """
        squared_errors, squared_deviations = self._clipped_squares(predictions, reference)
        mse = squared_errors.mean(axis=0)  # of each output
        if self.facts.form is ScoreForm.SQUARED_SKILL:
            variance = squared_deviations.mean(axis=0)
            influence_on_loss = (squared_errors - mse / variance * squared_deviations) / variance
        elif self.function_name == "root_mean_squared_error":
            influence_on_loss = (squared_errors - mse) / (2.0 * np.sqrt(mse))
        else:
            influence_on_loss = squared_errors - mse
        # The score is a constant minus the loss.
        return -influence_on_loss.mean(axis=1) / (self.upper - self.lower)

    def _record_influence(self, predictions, reference):
        """Return the influence of each record on the score, in units of [0, 1].

        The shape is (n_records,). None without a closed form.
        """
        if reference.loss_clips:
            losses = self._clipped_record_losses(predictions, reference)
            influence_on_loss = losses - losses.mean(axis=0)
            if self.function_name == "root_mean_squared_log_error":
                influence_on_loss = influence_on_loss / (2.0 * np.sqrt(losses.mean(axis=0)))
            return -influence_on_loss.mean(axis=1) / (self.upper - self.lower)
        influence = influence_on_score(
            self.function_name,
            self.scorer._kwargs,
            np.asarray(predictions.y),
            np.asarray(predictions.response),
            predictions.pos_label,
        )
        return (
            None if influence is None else self.scorer._sign * influence / (self.upper - self.lower)
        )

    def _confusion_influence(self, predictions, labels):
        """Return the influence of a record in each cell of the confusion matrix.

        Returns
        -------
        center : float
            Score in [0, 1], with one pseudo record for each class.
        table : ndarray of shape (n_labels**2,)
            The flattened confusion matrix, with these pseudo records.
        cell_of_record : ndarray of int, shape (n_records,)
            Cell of each record, a position in ``table``.
        influence : ndarray of shape (n_labels**2,)
            Influence of a record in each cell, in units of [0, 1].
        """
        n_labels = labels.size
        actual_codes = np.searchsorted(labels, predictions.y)
        predicted_codes = np.searchsorted(labels, predictions.response)
        cell_of_record = actual_codes * n_labels + predicted_codes
        counts = np.bincount(cell_of_record, minlength=n_labels**2)
        table = counts + 1.0 / n_labels
        # ``table`` itself, then one table for each cell with a little more weight in that cell.
        added_weight = 1e-3 / n_labels
        tables = np.vstack([table, table + added_weight * np.eye(table.size)])
        scores = confusion_scores(
            tables.reshape(-1, n_labels, n_labels), self.function_name, self.scorer._kwargs, labels
        )
        if scores is None:
            record_of_each_cell = Predictions(
                np.repeat(labels, n_labels), np.tile(labels, n_labels)
            )
            scores = np.array(
                [
                    self.score_predictions(record_of_each_cell, sample_weight=cell_weights)
                    for cell_weights in tables
                ]
            )
        else:
            scores = self.scorer._sign * scores
        score = float(scores[0])
        influence = (scores[1:] - score) / added_weight
        influence *= table.sum() / (self.upper - self.lower)
        return self.to_unit(score), table, cell_of_record, influence

    def _confusion_spread(self, predictions, labels, unit_codes):
        """Return the spread of the influence values of a metric of the confusion matrix.

        Pseudo records, one for each class, are divided evenly among the cells of the class. They
        count as units with the influence of these cells.
        """
        center, table, cell_of_record, influence_by_cell = self._confusion_influence(
            predictions, labels
        )
        n_units = np.unique(unit_codes).size
        if n_units == cell_of_record.size:
            return influence_spread(
                center, influence_by_cell, multiplicities=table, n_units=n_units
            )
        influence_by_unit = _sum_by_unit(influence_by_cell[cell_of_record], unit_codes)
        return influence_spread(
            center,
            np.concatenate([influence_by_unit, influence_by_cell]),
            multiplicities=np.concatenate(
                [np.ones(influence_by_unit.size), np.full(table.size, 1.0 / labels.size)]
            ),
            n_units=n_units,
        )

    def _block_influence(self, predictions, unit_codes):
        """Return the influence of blocks of units, by computing the score without each block.

        There are at most 200 blocks, except for average precision of two classes with records as
        units, for which each record is a block.

        Returns
        -------
        center : float
            Score in units of [0, 1], not clipped.
        influence : ndarray of shape (n_blocks,)
            Influence of each block, in units of [0, 1].
        block_of_record : ndarray of int, shape (n_records,)
            Block of each record.
        units_per_block : float
            Mean number of units in a block.
        """
        unique_units, unit_of_record = np.unique(unit_codes, return_inverse=True)
        n_units = unique_units.size
        n_blocks = min(_MAX_BLOCKS, n_units)
        if n_units == unit_of_record.size and self._positive_label(predictions) is not None:
            n_blocks = n_units
        block_of_unit = np.random.default_rng(0).permutation(n_units) * n_blocks // n_units
        block_of_record = block_of_unit[unit_of_record]
        score, scores_without_block = self._scores_without_blocks(
            predictions, block_of_record, n_blocks
        )
        score_decreases = scores_without_block.mean() - scores_without_block
        influence = (n_blocks - 1.0) * score_decreases / (self.upper - self.lower)
        center = (score - self.lower) / (self.upper - self.lower)
        return center, influence, block_of_record, n_units / n_blocks

    def _positive_label(self, predictions):
        """Return the positive label for average precision of two classes, None for other metrics.

        None also if the scorer has arguments, or the targets do not have two classes.
        """
        is_binary_form = (
            not self.scorer._kwargs and predictions.y.ndim == predictions.response.ndim == 1
        )
        if self.function_name != "average_precision_score" or not is_binary_form:
            return None
        labels = np.unique(predictions.y)
        if labels.size != 2:
            return None
        return labels[1] if predictions.pos_label is None else predictions.pos_label

    def _scores_without_blocks(self, predictions, block_of_record, n_blocks):
        """Return the score of all predictions, and the scores without each block.

        The latter have the shape (n_blocks,). All are in score units.
        """
        positive_label = self._positive_label(predictions)
        if positive_label is not None:
            return average_precision_by_unit(
                predictions.y == positive_label,
                predictions.response,
                np.ones(block_of_record.size),
                block_of_record,
                n_blocks,
            )
        scores_without_block = np.empty(n_blocks)
        for block in range(n_blocks):
            is_kept = block_of_record != block
            kept_predictions = Predictions(
                predictions.y[is_kept], predictions.response[is_kept], predictions.pos_label
            )
            scores_without_block[block] = self.score_predictions(kept_predictions)
        return self.score_predictions(predictions), scores_without_block


def _columns(values):
    """Return numbers as floats of shape (n_records, n_outputs)."""
    values = np.asarray(values, dtype=float)
    return values.reshape(len(values), -1)


def _sum_by_unit(influence, unit_codes):
    """Return the sum of the influence values of each unit's records.

    The sums are scaled so that their mean over units is the mean of ``influence`` over records.
    """
    _, unit_index = np.unique(unit_codes, return_inverse=True)
    sums = np.bincount(unit_index, weights=influence)
    return sums * sums.size / influence.size


def approximate_metric(scoring: Any, y: ArrayLike) -> ApproximateMetric:
    """Return the approximate metric of a scorer.

    Parameters
    ----------
    scoring : str or callable
        A name of a scorer of scikit-learn, a scorer made by ``make_scorer``, or a function
        ``(estimator, X, y)`` that returns one number.
    y : array-like
        *Training* targets: they are public, and can determine the range of losses.

    Returns
    -------
    ApproximateMetric
        The metric. Whether it has an interval depends on the candidate's reference.

    Raises
    ------
    TypeError
        If ``scoring`` is none of these.
    ValueError
        If no scorer has the name, if the scorer is a sum over records, if it would select the worst
        model, or if it is undefined for the labels.
    """
    scorer = get_scorer(scoring) if isinstance(scoring, str) else scoring
    if not callable(scorer):
        raise TypeError(
            "scoring must be a name, a scorer or a function (estimator, X, y), got "
            f"{type(scoring).__name__}."
        )
    function_name = getattr(scorer, "__name__", "")
    if getattr(sklearn.metrics, function_name, None) is scorer:
        raise TypeError(
            f"scoring={function_name} is a function of targets and predictions. Set the name of "
            f"the metric, or scoring=make_scorer({function_name}). The holdout was not queried."
        )
    check_not_sum(scorer)
    _check_sign(scorer)
    check_counted_class(scoring, y)
    return unchecked_metric(scoring, scorer, y)


def unchecked_metric(scoring: Any, scorer: Any, y: ArrayLike) -> ApproximateMetric:
    """Return the approximate metric of a scorer that may have any sign and positive class.

    Parameters
    ----------
    scoring : str or callable
        Name of the scorer, or the scorer itself.
    scorer : callable
        The scorer.
    y : array-like
        Targets that can determine the range of losses.

    Returns
    -------
    ApproximateMetric
        The metric.
    """
    function = getattr(scorer, "_score_func", None)
    name = scoring if isinstance(scoring, str) else getattr(function or scorer, "__name__", "")
    digest = object_digest(scorer if function is None else (function, scorer._sign, scorer._kwargs))
    public_range = PublicRange(0.0, 1.0, is_open=True)  # of an unknown function
    if _sklearn_function_name(scorer):
        public_range = _public_range(scorer, as_labels(y))
    return ApproximateMetric(
        name=name or type(scorer).__name__,
        scoring=scoring,
        scorer=scorer,
        lower=public_range.lower,
        upper=public_range.upper,
        is_open=public_range.is_open,
        digest=digest or "no digest",
    )


def _check_sign(scorer):
    """Raise ValueError if the sign of a scorer is not that of its score function.

    Scorers without an entry in `SCORE_FUNCTIONS` pass.
    """
    function_name = _sklearn_function_name(scorer)
    if score_function(function_name) is UNKNOWN:
        return
    greater_is_better = not function_name.endswith(_LOSS_SUFFIXES)
    if scorer._sign != (1 if greater_is_better else -1):
        raise ValueError(
            f"scoring is made from {function_name} with the wrong greater_is_better: it would look "
            f"for the worst model. Set greater_is_better={greater_is_better} in make_scorer. The "
            "holdout was not queried."
        )


def _sklearn_function_name(scorer):
    """Return the name of the score function if it is one of scikit-learn, else an empty text.

    Also empty for a score, not a loss, without an entry in `SCORE_FUNCTIONS`: its range is unknown.
    """
    function = getattr(scorer, "_score_func", None)
    name = getattr(function, "__name__", "")
    if not name or getattr(sklearn.metrics, name, None) is not function:
        return ""
    return "" if scorer._sign == 1 and score_function(name) is UNKNOWN else name


def _public_range(scorer, y):
    """Return the range of scores that is mapped to [0, 1], for a scorer of scikit-learn.

    If the score function has no fixed range, the range follows from the training targets ``y``.
    """
    function_name = _sklearn_function_name(scorer)
    facts = score_function(function_name)
    # Scores that are adjusted for chance are negative below it.
    public_range = SIGNED if scorer._kwargs.get("adjusted", False) else facts.public_range
    if public_range is not None:
        return public_range
    is_bounded = facts is not UNKNOWN and facts.is_bounded
    if is_bounded and not function_name.endswith(_LOSS_SUFFIXES):
        lower = min(float(scorer._sign), 0.0)
        return PublicRange(lower, lower + 1.0, is_open=False)
    constant_score = _absolute_score_of_constant(scorer, y)
    range_length = (
        WORST_LOSS * constant_score
        if math.isfinite(constant_score) and constant_score > 0.0
        else WORST_LOSS
    )
    if scorer._sign == -1:
        return PublicRange(-range_length, 0.0, is_open=True)
    return PublicRange(0.0, range_length, is_open=True)


def _absolute_score_of_constant(scorer, y):
    """Return the absolute score of a constant prediction: the median target, or else the mean.

    Return 1 for targets that are not numbers, and if the score function raises for both.
    """
    if not (type_of_target(y).startswith("continuous") or y.dtype.kind in "iuf"):
        return 1.0
    for constant in (np.median(y, axis=0), np.mean(y, axis=0)):
        constant_predictions = np.broadcast_to(constant, y.shape)
        try:
            with suppress_output():
                return abs(float(scorer._score_func(y, constant_predictions, **scorer._kwargs)))
        except Exception:  # a deviance of a median of 0, for instance
            continue
    return 1.0
