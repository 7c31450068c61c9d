"""Preview of the next batch of a holdout: expected widths and cost, from public numbers."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
from scipy.special import ndtr

from sklearn_bdp.accounting.noise_calibration import auto_threshold
from sklearn_bdp.accounting.spending import OFFSET, rank_code_lengths
from sklearn_bdp.intervals.bounds import plan_squares
from sklearn_bdp.intervals.concentration import ModelTail, half_width_at, score_tail
from sklearn_bdp.ledger.ledger import Fact
from sklearn_bdp.release.batch_context import cell_width_policy, check_open, next_code_length
from sklearn_bdp.release.class_proportions import with_prevalence
from sklearn_bdp.release.graded_release import fine_half_width
from sklearn_bdp.release.guarantee import report_half_width
from sklearn_bdp.release.query_batch import metric_key, sampling_units, unit_variance
from sklearn_bdp.release.variance_queries import (
    LEADER_RANK_LENGTH,
    record_influence,
    relative_deviation,
)
from sklearn_bdp.utils.html import Card, RenderedResult

_N_CELLS = 200  # on each side of the central one, in expected code lengths


@dataclasses.dataclass(frozen=True)
class Preview(RenderedResult):
    """Expected widths and cost of the next batch.

    Parameters
    ----------
    n_queries : int
        Queries of the batch.
    score : float
        The score it was worked out for: in [0, 1], or in score units after :meth:`in_units`.
    half_width : float
        Half-width of the interval of the leader, if it is not surprising, in the same units.
    half_width_others : float
        The same for a query of middle rank that does not lead.
    code_length : float
        Code length of the leader in nats: the information its interval pays for.
    expected_spending : float
        Nats that the batch is expected to add for all later ones, if cross-validation is as often
        wrong as it was so far.
    half_width_final : float
        Half-width of a final report on such a score, if it were given now instead.
    note : str, default=""
        Which share of positive records was assumed, for scores by class.
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
            With the score and all half-widths in score units.
        """
        score_range = upper - lower
        return dataclasses.replace(
            self,
            score=lower + score_range * self.score,
            half_width=score_range * self.half_width,
            half_width_others=score_range * self.half_width_others,
            half_width_final=score_range * self.half_width_final,
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
    book,
    *,
    score,
    n_train,
    n_queries=1,
    metric=None,
    prevalence=None,
    training_variance=math.nan,
):
    """Return the :class:`Preview` of a batch; ``book``: the state of the ledger.

    ``metric``: the metric of the scores, accuracy by default. ``training_variance``: of a record's
    score on the training set, NaN if it is not known or not used.
    """
    check_open(book)
    last = book.last
    code = account.code(book)
    # As a batch does before its first answer: predictions do not exceed the scores seen so far.
    code.observe_cv_scores(score)
    settings = account.settings
    model = account.dependence
    note = ""
    tail = ModelTail(model, settings.n, binary=metric is None or metric.is_binary)
    if metric is not None and not metric.is_mean:
        metric, note = with_prevalence(metric, prevalence, last.shares, settings.n)
        shape = metric.expected_shape(settings.n)
        tail = score_tail(model, settings.n, **dataclasses.asdict(shape))
    length = next_code_length(last, settings)[0]
    rank_lengths = rank_code_lengths(np.zeros(n_queries))
    log_one_sided = math.log(settings.sampling_failure / 2.0) - length
    units = sampling_units(model, settings.n)
    is_mean = metric is None or metric.is_mean
    is_binary = metric is None or metric.is_binary
    variance = math.nan
    if is_mean and settings.is_adaptive:
        variance = float(unit_variance(training_variance, units, model, settings.n, is_binary))
    variance_plan = _variance_plan(
        score,
        variance,
        n_train * units.count / settings.n,
        units,
        log_failure=math.log(settings.sampling_failure) - length - LEADER_RANK_LENGTH,
        margin=record_influence(units, settings) * settings.noise_margins(last.n_rounds)[0],
    )
    sharpness = 1.0
    if math.isfinite(variance):
        worst_variance = float(tail.standard_deviation(score)) ** 2 / units.squares
        sharpness = float(relative_deviation(worst_variance, variance, n_train))
    deviation = float(tail.standard_deviation(score))
    typical = deviation * math.sqrt(1.0 + settings.n / n_train)
    (center,), (drift,) = code.predict([score])
    drift = float(min(drift, max(OFFSET * sharpness, abs(center - score))))
    fine, coarse, cells = _cell_half_widths(
        last,
        settings,
        model,
        code,
        tail,
        score=score,
        typical=typical,
        drift=drift,
        sharpness=sharpness,
        rank_lengths=rank_lengths,
        length=length,
    )
    widths = [
        half_width_at(tail, score, log_one_sided - rank_length, half)
        for half, rank_length in zip(
            cells, (rank_lengths[0], rank_lengths[(n_queries - 1) // 2]), strict=True
        )
    ]
    if variance_plan is not None:
        ends = np.clip([score - cells[0], score + cells[0]], 0.0, 1.0)
        moment = min(1.0, float(variance_plan.levels[0, 0]) + variance_plan.margin)
        log_failure = np.array([log_one_sided - rank_lengths[0]])
        lower, upper = variance_plan.limits(ends[:1], ends[1:], log_failure, {0: moment})
        widths[0] = min(widths[0], 0.5 * float(upper[0] - lower[0]))
    expected = _expected_spending(
        code,
        (fine, coarse),
        (score, typical * sharpness, drift),
        n_queries=n_queries,
        corrected_share=last.n_above / (last.n_answered + 1),
    )
    if variance_plan is not None:
        name = "" if metric is None else metric_key(metric)
        limit = code.first_limit(name)
        expected += code.copy().charge_limit(name, limit, variance_plan.levels.shape[1])
    return Preview(
        n_queries=n_queries,
        score=float(score),
        half_width=float(widths[0]),
        half_width_others=float(widths[1 if n_queries > 1 else 0]),
        code_length=float(length + rank_lengths[0]),
        expected_spending=float(expected),
        half_width_final=float(
            report_half_width(
                last,
                settings,
                tail,
                score,
                n_attempts=len(book.notes(Fact.CLOSING)),
                unit_variance=variance,
            )
        ),
        note=note,
    )


def _cell_half_widths(
    last, settings, model, code, tail, *, score, typical, drift, sharpness, rank_lengths, length
):
    """Return half-widths of the cells of the leader and of the others, and both with noise.

    ``typical``: deviation of the score from its prediction by cross-validation.
    """
    n_queries = len(rank_lengths)
    deviation = float(tail.standard_deviation(score))
    below, above = settings.noise_margins(last.n_rounds)
    if settings.is_adaptive:
        policy = cell_width_policy(last, settings, model, length)
        fine = fine_half_width(
            policy,
            code,
            predictions=score,
            deviation=tail.standard_deviation,
            training_factor=(typical / deviation) ** 2,
            drift=drift,
            relative_deviation=sharpness,
            rank_lengths=rank_lengths[0],
            is_single_query=n_queries == 1,
        )
        coarse = max(fine, policy.coarse_half_width(n_queries) * typical)
        return fine, coarse, (fine + max(below, above), coarse + below)
    threshold = settings.threshold  # all queries are compared once
    if threshold is None:
        threshold = float(auto_threshold(0.5, settings.n_effective, settings.n))
        threshold *= deviation / float(tail.standard_deviation(0.5))
    half_width = max(threshold + below, settings.resolution / 2.0 + above)
    return half_width, half_width, (half_width, half_width)


def _expected_spending(code, half_widths, predicted, *, n_queries, corrected_share):
    """Return the expected code length of the answers of a batch, in nats.

    ``half_widths``: of the cells of the leader and of the others. ``predicted``: score, deviation
    and drift. Cross-validation is expected to be wrong as often as it was so far.
    """
    fine, coarse = half_widths
    confirmed_length = _expected_code_length(code, fine, *predicted, is_honest=True)
    confirmed_length += _length_of_others(code, half_widths, *predicted, n_others=n_queries - 1)
    corrected_length = _expected_code_length(code, fine, *predicted, is_honest=False)
    corrected_length += (n_queries - 1) * _expected_code_length(
        code, coarse, *predicted, is_honest=False, tail=1.0 / n_queries
    )
    return (1.0 - corrected_share) * confirmed_length + corrected_share * corrected_length


def _variance_plan(score, variance, n_train, units, *, log_failure, margin):
    """Return the plan of one query's second moments, or None if scores vary as much as possible."""
    if not math.isfinite(variance):
        return None
    plan = plan_squares(
        np.array([score]),
        np.array([variance]),
        training_sizes=np.array([n_train]),
        units=units,
        log_failure=log_failure,
        margin=margin,
    )
    return plan if plan.eligible.any() else None


def _expected_code_length(code, half_width, score, deviation, drift, *, is_honest, tail=1.0):
    """Return the expected code length of one cell in nats.

    If cross-validation is honest, the score deviates from its prediction like a normal variable.
    The code also prepares for biased cross-validation and for surprises, and therefore charges more
    than the entropy. If it is not honest, the score has the distribution of the code.
    """
    steps = np.arange(-_N_CELLS, _N_CELLS + 1.0)
    inner_edges = (2.0 * steps[1:] - 1.0) * half_width + score
    edges = np.concatenate([[-np.inf], inner_edges, [np.inf]])
    masses = code.masses(
        edges[:-1],
        edges[1:],
        np.full(steps.size, score),
        np.full(steps.size, deviation),
        np.full(steps.size, drift),
        tail=tail,
    )
    coded_masses = np.exp(code.log_weights) @ masses
    expected_masses = coded_masses
    if is_honest:
        expected_masses = np.diff(ndtr((edges - score) / deviation))
    return -float((expected_masses * np.log(np.maximum(coded_masses, 1e-300))).sum())


def _length_of_others(code, half_widths, score, deviation, drift, *, n_others):
    """Return the code length of the other queries if they and the leader are confirmed.

    ``half_widths``: of the cells of the leader and of the others. The leader shows that the offset
    is small, and honest scores hardly ever leave the coarse cells of the others.
    """
    if n_others == 0:
        return 0.0
    fine, coarse = half_widths
    updated_code = code.copy()
    updated_code.charge(np.log(code.masses(score - fine, score + fine, score, deviation, drift)))
    updated_code.observe_cv_scores(score)
    updated_code.learn(score, score, deviation**2 + fine**2 / 3.0)
    updated_drift = min(drift, float(updated_code.predict([score])[1][0]))
    masses = updated_code.masses(
        score - coarse, score + coarse, score, deviation, updated_drift, tail=1.0 / (n_others + 1)
    )
    return updated_code.charge(n_others * np.log(masses))
