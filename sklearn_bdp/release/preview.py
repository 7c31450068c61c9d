"""Preview of the next batch of a holdout: expected half-widths and code lengths."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import ndtr

from sklearn_bdp.accounting.noise_calibration import auto_threshold
from sklearn_bdp.accounting.spending import OFFSET_DEVIATION, rank_code_lengths
from sklearn_bdp.correlation.components import n_independent_units
from sklearn_bdp.intervals.bounds import RELATIVE_LIMITS, relative_deviation
from sklearn_bdp.intervals.concentration import ModelTail, half_width_at, score_tail
from sklearn_bdp.ledger.ledger import SystemNote
from sklearn_bdp.release.batch_context import cell_width_policy, check_open, next_code_length
from sklearn_bdp.release.class_proportions import with_prevalence
from sklearn_bdp.release.graded_release import fine_half_width
from sklearn_bdp.release.guarantee import report_half_width
from sklearn_bdp.release.query_batch import (
    has_record_units,
    metric_key,
    sampling_units,
    unit_variance,
)
from sklearn_bdp.release.variance_queries import (
    LEADER_RANK_LENGTH,
    plan_variation,
    record_influence,
)
from sklearn_bdp.utils.html import Card, RenderedResult

if TYPE_CHECKING:
    from sklearn_bdp.accounting.spending import PredictiveCode
    from sklearn_bdp.correlation import CorrelationModel
    from sklearn_bdp.intervals.bounds import UnitWeights
    from sklearn_bdp.ledger.batch_record import LedgerTotals
    from sklearn_bdp.release.calibration import Calibration

_N_CELLS = 200  # cells on each side of the central one, in expected code lengths


@dataclasses.dataclass(frozen=True)
class Preview(RenderedResult):
    """Expected half-widths and code lengths of the next batch.

    Parameters
    ----------
    n_queries : int
        Number of queries in the batch.
    score : float
        Expected score of all queries, in [0, 1]. Scores and half-widths are in score units after
        :meth:`in_units`.
    half_width : float
        Expected half-width of the interval of the leader, which is the query with the best rank.
    half_width_others : float
        Expected half-width for the query with the middle rank; ``half_width`` for one query.
    code_length : float
        Code length of the leader in nats, the information spent so far included.
    expected_spending : float
        Expected code length of the released cells of the batch in nats, if cross-validation is
        wrong about as often as it was so far.
    half_width_final : float
        Expected half-width of a final report now, instead of the batch, on this score.
    note : str, default=""
        Sentence on the proportion of positive records, if it was assumed or recorded.
    rows : tuple of RowForecast, default=()
        Forecast rows of a final report now; see
        :meth:`sklearn_bdp.ReusableHoldoutSearchCV.preview`.

    See Also
    --------
    sklearn_bdp.ReusableHoldout.preview : Returns this.
    sklearn_bdp.plan_search : The same before a holdout exists.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_bdp import ReusableHoldout
    >>> holdout = ReusableHoldout(np.zeros((1000, 1)), np.arange(1000) % 2)
    >>> seen = holdout.preview(100, score=0.9)
    >>> bool(seen.half_width < seen.half_width_others < 0.2)
    True
    """

    n_queries: int
    score: float
    half_width: float
    half_width_others: float
    code_length: float
    expected_spending: float
    half_width_final: float
    note: str = ""
    rows: tuple[Any, ...] = ()

    def in_units(self, lower: float, upper: float) -> Preview:
        """Return the preview for scores between ``lower`` and ``upper``, in their units.

        Parameters
        ----------
        lower, upper : float
            Range of the scores.

        Returns
        -------
        Preview
            With the score and all half-widths in score units; ``rows`` stay the same.
        """
        range_length = upper - lower
        return dataclasses.replace(
            self,
            score=lower + range_length * self.score,
            half_width=range_length * self.half_width,
            half_width_others=range_length * self.half_width_others,
            half_width_final=range_length * self.half_width_final,
        )

    def _card(self):
        title = (
            f"{self.n_queries:,} queries at scores near {self.score:.3g}: about "
            f"±{self.half_width:.3g} for the selected one, about ±{self.half_width_others:.3g} for "
            "the others."
        )
        if self.n_queries == 1:
            title = f"1 query at a score near {self.score:.3g}: about ±{self.half_width:.3g}."
        return Card(
            title,
            [
                f"Expected spending: {self.expected_spending:.2g} nats. A final report now: about "
                f"±{self.half_width_final:.3g}.{self.note}",
                *map(str, self.rows),
            ],
        )


def preview_batch(
    account,
    ledger_state,
    *,
    score,
    n_train,
    n_queries=1,
    metric=None,
    prevalence=None,
    training_variance=math.nan,
):
    """Return the :class:`Preview` of a batch whose queries have the same cross-validated score.

    Parameters
    ----------
    account : HoldoutAccountant
        Accountant of the holdout.
    ledger_state : LedgerState
        State of the ledger.
    score : float
        Cross-validated score of all queries, in [0, 1].
    n_train : float
        Number of training records that the cross-validated score is from.
    n_queries : int, default=1
        Number of queries in the batch.
    metric : BoundedMetric, default=None
        Metric of the scores; None for accuracy.
    prevalence : float, default=None
        Proportion of positive records, for metrics with class counts; None: as in
        :func:`with_prevalence`.
    training_variance : float, default=nan
        Variance of a record's cross-validated score, in squared units of [0, 1]; NaN if it is not
        known.

    Raises
    ------
    HoldoutClosedError
        If a final report closed the holdout.
    """
    check_open(ledger_state)
    totals = ledger_state.totals
    code = account.code(ledger_state)
    # As a batch does before its first answer.
    code.observe_cv_scores(score)
    settings = account.settings
    model = account.dependence
    note = ""
    if metric is not None and not metric.is_mean:
        metric, note = with_prevalence(metric, prevalence, totals.shares, settings.n)
    tail = _tail_of_metric(metric, model, settings.n)
    units = sampling_units(model, settings.n)
    variance = _expected_variance(metric, training_variance, units, model, settings)
    length, _ = next_code_length(totals, settings)
    batch = _PreviewedBatch(
        totals=totals,
        settings=settings,
        model=model,
        code=code,
        code_length=length,
        tail=tail,
        units=units,
        n_queries=n_queries,
        prediction=_predict(code, tail, score, variance, units, n_train, settings.n),
    )
    cells = batch.cell_half_widths()
    half_width, expected_spending = _leader_forecast(
        batch, cells, variance_plan=batch.variance_plan(variance, n_train), metric=metric
    )
    half_width_others = half_width
    if n_queries > 1:
        middle_rank_length = batch.rank_lengths[(n_queries - 1) // 2]
        half_width_others = batch.interval_half_width(cells.others, middle_rank_length)
    half_width_final = report_half_width(
        totals,
        settings,
        tail,
        score,
        n_attempts=len(ledger_state.notes(SystemNote.CLOSING)),
        unit_variance=variance,
        class_counts=_expected_class_counts(metric, model, settings.n),
    )
    return Preview(
        n_queries=n_queries,
        score=float(score),
        half_width=float(half_width),
        half_width_others=float(half_width_others),
        code_length=float(length + batch.rank_lengths[0]),
        expected_spending=float(expected_spending),
        half_width_final=float(half_width_final),
        note=note,
    )


def _leader_forecast(batch, cells, *, variance_plan, metric):
    """Return the expected half-width of the leader and the expected spending of a batch in nats.

    The leader is the query with the best rank. ``batch``: _PreviewedBatch. ``cells``: its
    _CellHalfWidths. ``variance_plan``: of the leader's variance query, or None. ``metric``: None
    for accuracy.
    """
    half_width = batch.interval_half_width(cells.leader, batch.rank_lengths[0])
    expected_spending = batch.expected_spending(cells)
    if variance_plan is not None:
        half_width = min(half_width, batch.half_width_by_variance(cells.leader, variance_plan))
        metric_name = "" if metric is None else metric_key(metric)
        expected_spending += batch.code.copy().charge_limit(
            metric_name, batch.code.first_limit(metric_name), len(RELATIVE_LIMITS)
        )
    return half_width, expected_spending


def _tail_of_metric(metric, model, n):
    """Return the concentration bound of the scores of a metric, or of accuracy for None.

    ``model``: dependence of the ``n`` holdout records.
    """
    if metric is None or metric.is_mean:
        return ModelTail(model, n, binary=metric is None or metric.is_binary)
    shape = metric.expected_shape(n)
    return score_tail(model, n, **dataclasses.asdict(shape))


def _expected_class_counts(metric, model, n):
    """Return the expected numbers of negative and positive holdout units, for ROC AUC.

    None for other metrics, and if units are not independent and exchangeable. ``metric``: with its
    class counts; None for accuracy. ``model``: dependence of the ``n`` holdout records.
    """
    scheme = model.sampling_scheme(n)
    if metric is None or not (scheme.has_independent_units and scheme.exchangeable):
        return None
    shape = metric.expected_shape(n)
    if shape.kind != "pairs" or not shape.class_counts:
        return None
    n_units = n_independent_units(model, n)
    n_positive = round(n_units * shape.class_counts[1] / sum(shape.class_counts))
    n_positive = min(max(n_positive, 1), max(1, n_units - 1))
    return max(1, n_units - n_positive), n_positive


def _expected_variance(metric, training_variance, units, model, settings):
    """Return the expected variance of a unit's mean score, NaN if it is not known or not used.

    ``metric``: None for accuracy. ``training_variance``: of a record's cross-validated score, or
    NaN. ``units``: sampling units of the holdout. ``model``: dependence of its records.
    """
    is_mean = metric is None or metric.is_mean
    if not (is_mean and settings.is_adaptive):
        return math.nan
    is_binary = metric is None or metric.is_binary
    return float(unit_variance(training_variance, units, model, settings.n, is_binary))


class _Prediction(NamedTuple):
    """Prediction of the holdout scores of a previewed batch, in units of [0, 1]."""

    score: float  # the cross-validated one
    #: Standard deviation of score minus cross-validated score, in the worst case.
    worst_deviation: float
    relative_deviation: float  # ratio of expected to worst-case standard deviation
    drift: float  # standard deviation of the offset that scores share

    @property
    def deviation(self) -> float:
        """Expected standard deviation of score minus cross-validated score."""
        return self.worst_deviation * self.relative_deviation


def _predict(code, tail, score, variance, units, n_train, n):
    """Return the prediction of holdout scores from their cross-validated score ``score``.

    ``code``: predictive code after the batches so far. ``tail``: concentration bound of the scores.
    ``variance``: of a unit's mean score, NaN if it is not known. ``units``: sampling units of the
    holdout. ``n_train``: number of training records. ``n``: number of holdout records.
    """
    score_deviation = float(tail.standard_deviation(score))
    deviation_ratio = 1.0
    if math.isfinite(variance):
        deviation_ratio = float(
            relative_deviation(score_deviation**2 / units.sum_of_squares, variance, n_train)
        )
    (center,), (drift,) = code.predict([score])
    return _Prediction(
        score=score,
        worst_deviation=score_deviation * math.sqrt(1.0 + n / n_train),
        relative_deviation=deviation_ratio,
        drift=float(min(drift, max(OFFSET_DEVIATION * deviation_ratio, abs(center - score)))),
    )


class _CellHalfWidths(NamedTuple):
    """Half-widths of the cells of a batch, as fractions of the range of scores.

    If every query is compared once, at its threshold, all four contain the noise margin.
    """

    fine: float  # of the leader
    coarse: float  # of the other queries
    leader: float  # the fine one with its noise margin
    others: float  # the coarse one with its noise margin


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class _PreviewedBatch:
    """Next batch of a holdout, with queries of the same cross-validated score."""

    totals: LedgerTotals  # totals before the batch
    settings: Calibration
    model: CorrelationModel
    code: PredictiveCode  # after the batches so far
    code_length: float  # of the batch in nats, without ranks
    tail: Any  # concentration bound of the scores
    units: UnitWeights  # sampling units of the holdout
    n_queries: int
    prediction: _Prediction

    @functools.cached_property
    def rank_lengths(self):
        """Code lengths of the ranks in nats, of shape (n_queries,), the leader first."""
        return rank_code_lengths(np.zeros(self.n_queries))

    @property
    def log_one_sided(self):
        """Log of the failure probability of one side of an interval, without the rank."""
        return math.log(self.settings.sampling_failure / 2.0) - self.code_length

    def cell_half_widths(self):
        """Return the :class:`_CellHalfWidths` of the batch."""
        settings = self.settings
        prediction = self.prediction
        score_deviation = float(self.tail.standard_deviation(prediction.score))
        margin_confirmed, margin_corrected = settings.noise_margins(self.totals.n_rounds)
        if settings.is_adaptive:
            policy = cell_width_policy(self.totals, settings, self.model, self.code_length)
            fine = fine_half_width(
                policy,
                self.code,
                predictions=prediction.score,
                deviation_at=self.tail.standard_deviation,
                training_factor=(prediction.worst_deviation / score_deviation) ** 2,
                drift=prediction.drift,
                relative_deviation=prediction.relative_deviation,
                rank_lengths=self.rank_lengths[0],
                is_single_query=self.n_queries == 1,
            )
            fine = max(fine, margin_confirmed)  # as in a batch
            coarse = policy.coarse_half_width(self.n_queries) * prediction.worst_deviation
            coarse = max(fine, coarse)
            max_margin = max(margin_confirmed, margin_corrected)
            return _CellHalfWidths(
                fine, coarse, leader=fine + max_margin, others=coarse + margin_confirmed
            )
        threshold = settings.threshold  # all queries are compared once
        if threshold is None:
            threshold = float(auto_threshold(0.5, settings.n_effective, settings.n))
            threshold *= score_deviation / float(self.tail.standard_deviation(0.5))
        half_width = max(threshold + margin_confirmed, settings.resolution / 2.0 + margin_corrected)
        return _CellHalfWidths(half_width, half_width, half_width, half_width)

    def interval_half_width(self, cell_half_width, rank_length):
        """Return the half-width of the interval of a query.

        ``cell_half_width``: of its released cell, noise margin included. ``rank_length``: code
        length of its rank, in nats.
        """
        return half_width_at(
            self.tail, self.prediction.score, self.log_one_sided - rank_length, cell_half_width
        )

    def variance_plan(self, variance, n_train):
        """Return the plan of the leader's variance query, None if no such query is of use.

        ``variance``: expected variance of a unit's mean score, NaN if it is not known.
        ``n_train``: number of training records.
        """
        if not math.isfinite(variance):
            return None
        settings = self.settings
        margin_confirmed, _ = settings.noise_margins(self.totals.n_rounds)
        plan = plan_variation(
            np.array([self.prediction.score]),
            np.array([variance]),
            training_sizes=np.array([n_train * self.units.n_units / settings.n]),
            units=self.units,
            are_records=has_record_units(self.model, settings.n),
            log_failure=math.log(settings.sampling_failure) - self.code_length - LEADER_RANK_LENGTH,
            margin=record_influence(self.units, settings) * margin_confirmed,
        )
        return plan if plan.is_eligible.any() else None

    def half_width_by_variance(self, cell_half_width, variance_plan):
        """Return the half-width of the leader's interval if its least variance limit is confirmed.

        ``cell_half_width``: of its released cell, noise margin included.
        """
        score = self.prediction.score
        cell_ends = np.clip([score - cell_half_width, score + cell_half_width], 0.0, 1.0)
        least_limit = min(1.0, float(variance_plan.limits_to_try(0)[0]) + variance_plan.margin)
        log_failure = np.array([self.log_one_sided - self.rank_lengths[0]])
        lower, upper = variance_plan.limits(
            cell_ends[:1], cell_ends[1:], log_failure, {0: least_limit}
        )
        return 0.5 * float(upper[0] - lower[0])

    def expected_spending(self, cells):
        """Return the expected code length of the batch's released cells in nats.

        Cross-validation is expected to be wrong about as often as answers were corrected so far.
        ``cells``: _CellHalfWidths of the batch.
        """
        code = self.code
        prediction = self.prediction
        corrected_fraction = self.totals.n_above / (self.totals.n_answered + 1)
        n_others = self.n_queries - 1
        honest_nats = _expected_code_length(code, cells.fine, prediction, is_honest=True)
        honest_nats += _code_length_of_others(code, cells, prediction, n_others=n_others)
        dishonest_nats = _expected_code_length(code, cells.fine, prediction, is_honest=False)
        dishonest_nats += n_others * _expected_code_length(
            code, cells.coarse, prediction, is_honest=False, tail_factor=1.0 / self.n_queries
        )
        return (1.0 - corrected_fraction) * honest_nats + corrected_fraction * dishonest_nats


def _expected_code_length(code, half_width, prediction, *, is_honest, tail_factor=1.0):
    """Return the expected code length of one released cell in nats.

    ``half_width``: of the cells, in units of [0, 1]. ``is_honest``: whether the score is normally
    distributed about its prediction; otherwise it has the distribution of the code.
    ``tail_factor`` multiplies the weights of the heavy-tailed components of the code.
    """
    cell_numbers = np.arange(-_N_CELLS, _N_CELLS + 1.0)
    n_cells = cell_numbers.size
    inner_edges = (2.0 * cell_numbers[1:] - 1.0) * half_width + prediction.score
    edges = np.concatenate([[-np.inf], inner_edges, [np.inf]])
    masses = code.masses(
        edges[:-1],
        edges[1:],
        np.full(n_cells, prediction.score),
        np.full(n_cells, prediction.deviation),
        np.full(n_cells, prediction.drift),
        tail_factor=tail_factor,
    )
    coded_masses = np.exp(code.log_weights) @ masses
    expected_masses = coded_masses
    if is_honest:
        expected_masses = np.diff(ndtr((edges - prediction.score) / prediction.deviation))
    return -float((expected_masses * np.log(np.maximum(coded_masses, 1e-300))).sum())


def _code_length_of_others(code, cells, prediction, *, n_others):
    """Return the code length in nats of all queries but the leader, if all are confirmed.

    ``cells``: _CellHalfWidths. ``n_others``: number of queries without the leader.
    """
    if n_others == 0:
        return 0.0
    score, deviation = prediction.score, prediction.deviation
    code_after_leader = code.copy()
    leader_masses = code.masses(
        score - cells.fine, score + cells.fine, score, deviation, prediction.drift
    )
    code_after_leader.charge(np.log(leader_masses))
    code_after_leader.observe_cv_scores(score)
    code_after_leader.learn(score, score, deviation**2 + cells.fine**2 / 3.0)
    _, (drift_after_leader,) = code_after_leader.predict([score])
    masses = code_after_leader.masses(
        score - cells.coarse,
        score + cells.coarse,
        score,
        deviation,
        min(prediction.drift, float(drift_after_leader)),
        tail_factor=1.0 / (n_others + 1),
    )
    return code_after_leader.charge(n_others * np.log(masses))
