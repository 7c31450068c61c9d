"""Preview of the next batch of a holdout: expected widths and cost, from public numbers."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from sklearn_bdp.accounting.noise_calibration import auto_threshold
from sklearn_bdp.accounting.spending import rank_code_lengths
from sklearn_bdp.intervals.concentration import ModelTail, half_of, score_tail
from sklearn_bdp.ledger.ledger import Fact
from sklearn_bdp.release.batch_context import cell_width_policy, check_open, next_code_length
from sklearn_bdp.release.class_proportions import with_prevalence
from sklearn_bdp.release.graded_release import fine_half_width
from sklearn_bdp.release.guarantee import report_half_width
from sklearn_bdp.utils.html import Card, RenderedResult


@dataclasses.dataclass(frozen=True)
class Preview(RenderedResult):
    """Expected widths and cost of the next batch.

    Parameters
    ----------
    n_queries : int
        Queries of the batch.
    score : float
        The score in [0, 1] it was worked out for.
    half_width : float
        Half-width of the interval of the leader, if it is not surprising.
    half_width_others : float
        The same for a query of middle rank that does not lead.
    code_length : float
        Code length of the leader in nats: the information its interval pays for.
    expected_spending : float
        Nats that the batch is expected to add for all later ones.
    half_width_final : float
        Half-width of a final report on such a score, if it were given now instead.
    note : str, default=""
        Which share of positive records was assumed, for scores by class.

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
                f"±{self.half_width_final:.3g}.{self.note}"
            ],
        )


def preview_batch(account, book, *, score, n_train, n_queries=1, metric=None, prevalence=None):
    """Return the :class:`Preview` of a batch; ``book``: the state of the ledger.

    ``metric``: the metric of the scores, accuracy by default.
    """
    check_open(book)
    last = book.last
    code = account.code(book)
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
    deviation = float(tail.standard_deviation(score))
    typical = deviation * math.sqrt(1.0 + settings.n / n_train)
    below, above = settings.noise_margins(last.n_rounds)
    drift = float(code.predict([score])[1][0])
    if settings.is_adaptive:
        pace = cell_width_policy(last, settings, length)
        fine = fine_half_width(
            pace,
            code,
            predictions=score,
            deviation=tail.standard_deviation,
            factor=(typical / deviation) ** 2,
            drift=drift,
            places=rank_lengths[0],
            alone=n_queries == 1,
        )
        coarse = max(fine, pace.coarsely(n_queries) * typical)
        cells = fine + max(below, above), coarse + below
    else:  # in one pass
        threshold = settings.threshold
        if threshold is None:
            threshold = float(auto_threshold(0.5, settings.n_effective, settings.n))
            threshold *= deviation / float(tail.standard_deviation(0.5))
        fine = coarse = max(threshold + below, settings.resolution / 2.0 + above)
        cells = fine, coarse
    log_level = math.log(settings.sampling_failure / 2.0) - length
    widths = [
        half_of(tail, score, log_level - rank_length, half)
        for half, rank_length in zip(
            cells, (rank_lengths[0], rank_lengths[(n_queries - 1) // 2]), strict=True
        )
    ]
    # The expected spending is the entropy of the released cells under the code itself.
    expected = 0.0
    weights = np.exp(code.log_weights)
    for half, steps, count in ((fine, 200.0, 1), (coarse, 1.0, n_queries - 1)):
        cells = np.arange(-steps, steps + 1.0)
        edges = np.concatenate([[-np.inf], (2.0 * cells[1:] - 1.0) * half + score, [np.inf]])
        predicted = (parameter * np.ones(cells.size) for parameter in (score, typical, drift))
        mass = weights @ code.masses(edges[:-1], edges[1:], *predicted)
        expected -= count * float((mass * np.log(np.maximum(mass, 1e-300))).sum())
    return Preview(
        n_queries=n_queries,
        score=float(score),
        half_width=float(widths[0]),
        half_width_others=float(widths[1 if n_queries > 1 else 0]),
        code_length=float(length + rank_lengths[0]),
        expected_spending=float(expected),
        half_width_final=float(
            report_half_width(last, settings, tail, score, n_attempts=len(book.notes(Fact.CLOSING)))
        ),
        note=note,
    )
