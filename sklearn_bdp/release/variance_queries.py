"""Queries of the variances of the leading scores of a batch (theory G15, G18)."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from sklearn_bdp.intervals.bounds import (
    BettingPlan,
    UnitWeights,
    VarianceLimitPlan,
    plan_bets,
    plan_variance_limits,
)
from sklearn_bdp.release.batch_context import BatchContext
from sklearn_bdp.release.graded_release import BatchRelease, leading_position
from sklearn_bdp.release.query_batch import QueryBatch

#: Largest number of queries in a batch whose variances are queried.
MAX_VARIANCE_QUERIES = 16
#: Typical code length of a leader's rank in nats, for which rates and stakes of limits are chosen.
LEADER_RANK_LENGTH = math.log(8.0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SecondMoments:
    """Released upper limits of the variation of scores in a batch."""

    #: Position of each query whose variance was queried, and the number, from 0, of the limit that
    #: was confirmed, None if none was. None without a plan.
    cells: list[list[int | None]] | None = None
    #: Upper limits of mean squared deviations, or of ``Bets.ratio`` with a :class:`BettingPlan`, by
    #: position, noise margins included.
    limits: dict[int, float] = dataclasses.field(default_factory=dict)
    released_nats: float = 0.0  # code length of the released limits
    n_rejected: int = 0  # limits that the holdout did not confirm


def make_variance_plan(batch: QueryBatch, context: BatchContext, log_failure: float) -> Any:
    """Return the plan of variance queries before a batch is answered; None if none is to be made.

    ``log_failure``: approximate log of the failure probability of both ends of an interval.
    """
    code = context.code
    settings = context.settings
    if not settings.is_adaptive or not np.isfinite(batch.unit_variances).any():
        return None
    code.observe_cv_scores(batch.cv_scores)  # a graded release repeats it, without effect
    centers = batch.cv_scores
    if batch.fixed_half_widths is None:
        centers, _ = code.predict(batch.cv_scores)
    plan = plan_variation(
        centers,
        batch.unit_variances,
        training_sizes=batch.training_sizes * batch.units.n_units / settings.n,
        units=batch.units,
        are_records=batch.record_scores is not None,
        log_failure=log_failure,
        kurtosis=batch.kurtosis,
        margin=record_influence(batch.units, settings)
        * settings.noise_margins(context.totals_before.n_rounds)[0],
    )
    return plan if plan.is_eligible.any() else None


def plan_variation(
    predictions: Any,
    variances: Any,
    *,
    training_sizes: Any,
    units: UnitWeights,
    are_records: bool,
    log_failure: float,
    kurtosis: Any = math.nan,
    margin: float,
) -> BettingPlan | VarianceLimitPlan:
    """Return a BettingPlan for single records, and a VarianceLimitPlan for other units.

    ``are_records``: whether the units are single records. ``predictions``: of the scores, in
    [0, 1]. ``variances``, ``kurtosis``: of a unit's score on the training set, NaN if unknown.
    ``training_sizes``: numbers of training units behind the variances. ``log_failure``: approximate
    log of the failure probability of the limits. ``margin``: noise margin of a comparison with the
    holdout.
    """
    if are_records:
        return plan_bets(
            predictions,
            variances,
            training_sizes=training_sizes,
            n=int(units.n_units),
            log_failure=log_failure,
            kurtosis=kurtosis,
            margin=margin,
        )
    return plan_variance_limits(
        predictions,
        variances,
        training_sizes=training_sizes,
        units=units,
        log_failure=log_failure,
        kurtosis=kurtosis,
        margin=margin,
    )


def _variation(plan, batch, position):
    """Return the holdout statistic, in [0, 1], that is compared with the limits of a query's plan.

    ``position``: of the query in the batch.
    """
    if isinstance(plan, BettingPlan):
        return plan.bets(position).ratio(batch.record_scores[position])
    return float(plan.deviations(batch.unit_moments)[position])


def record_influence(units: UnitWeights, settings: Any) -> float:
    """Return a bound, at least 1, of the change of a mean square by one record, in units of 1/n."""
    return max(1.0, settings.n * units.sensitivity)


def release_second_moments(
    plan: Any, batch: QueryBatch, release: BatchRelease, context: BatchContext
) -> SecondMoments:
    """Query upper limits of the variation of the leading scores; return the confirmed ones.

    For each of at most ``MAX_VARIANCE_QUERIES`` queries, ascending limits, from an expected one on,
    are compared with the holdout until one is confirmed. Nothing is queried if ``plan`` is None.
    """
    if plan is None:
        return SecondMoments()
    n_rounds = context.totals_before.n_rounds + release.n_replies_above
    influence = record_influence(batch.units, context.settings)
    cells: list[list[int | None]] = []
    confirmed_limits = {}
    released_nats = 0.0
    n_rejected = 0
    for position in _leading_positions(plan, batch, release)[:MAX_VARIANCE_QUERIES]:
        # The metric of a query is public, as all that determines the order of the limits is.
        metric = batch.descriptions[position].metric or ""
        ascending_limits = plan.limits_to_try(position).tolist()
        variation = np.array([_variation(plan, batch, position)])
        confirmed_step = None
        first_step = context.code.first_limit(metric)
        if isinstance(plan, BettingPlan):
            expected_step = expected_limit_step(
                released=release.values[position],
                predicted=plan.predictions[position],
                variance=batch.unit_variances[position],
                kurtosis=batch.kurtosis[position],
            )
            first_step = max(first_step, min(expected_step, len(ascending_limits) - 1))
        for step in range(first_step, len(ascending_limits)):
            limit = ascending_limits[step]
            reply = context.mechanism.answer_run(
                np.zeros(1), variation / influence, thresholds=np.array([limit / influence])
            )
            if not reply.above[0]:
                confirmed_step = step
                margin_confirmed, _ = context.settings.noise_margins(n_rounds + n_rejected)
                confirmed_limits[position] = min(1.0, limit + influence * margin_confirmed)
                break
            n_rejected += 1
        cells.append([position, confirmed_step])
        released_nats += context.code.charge_limit(
            metric, confirmed_step, len(ascending_limits), first_limit=first_step
        )
    return SecondMoments(
        cells=cells, limits=confirmed_limits, released_nats=released_nats, n_rejected=n_rejected
    )


def expected_limit_step(
    *, released: float, predicted: float, variance: float, kurtosis: float
) -> int:
    """Return the number of lowest limits that a released score makes too low (theory G15).

    For independent records, a mean square is expected to be ``1 + g d`` times as large if the mean
    deviates by ``d`` standard deviations of a record and scores have the skewness ``g``. The
    largest skewness for a kurtosis is used, with its tail towards the farther end of [0, 1]. Limits
    grow by the root of 2.

    Parameters
    ----------
    released, predicted : float
        Score of a query and its prediction, in [0, 1].
    variance, kurtosis : float
        Of the scores of training records. NaN if unknown.

    Returns
    -------
    int
        0 if the mean square is not expected to be larger, or if an input is NaN.
    """
    if not (math.isfinite(kurtosis) and variance > 0.0):
        return 0
    skewness = math.copysign(math.sqrt(max(kurtosis - 1.0, 0.0)), 0.5 - predicted)
    ratio = 1.0 + skewness * (released - predicted) / math.sqrt(variance)
    return max(0, round(2.0 * math.log2(ratio))) if ratio > 1.0 else 0


def _leading_positions(plan: Any, batch: QueryBatch, release: BatchRelease) -> list[int]:
    """Return the positions of answered queries that the plan admits, in the order to query them.

    The leader, which released values or ranks select, is followed by the corrected queries of the
    first pass and then the refined ones, both latest first; others are left out. If the batch fixes
    half-widths, all are in descending order of cross-validated scores.
    """
    if batch.fixed_half_widths is not None:
        positions = np.argsort(-batch.cv_scores, kind="stable").tolist()
    else:
        can_lead = release.answered & ~batch.is_secondary
        values = np.where(can_lead, release.values, -np.inf)
        leader = leading_position(values, release.above, batch.ranks)
        released_cells = release.refined_cells + release.first_pass_cells
        positions = [leader, *(position for position, _ in reversed(released_cells))]
    return [
        position
        for position in dict.fromkeys(positions)
        if plan.is_eligible[position] and release.answered[position]
    ]
