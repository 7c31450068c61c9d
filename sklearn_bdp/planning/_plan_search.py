"""How large a holdout a year of searches needs, charged as used (theory G16, G17): a forecast."""

from __future__ import annotations

import math

import numpy as np

from sklearn_bdp._typing import Correlation
from sklearn_bdp.accounting.noise_calibration import (
    NOISE_PART,
    answer_margin,
    auto_scales,
    noise_share,
)
from sklearn_bdp.accounting.spending import (
    AlphaSpending,
    code_length,
    final_code_length,
    rank_code_lengths,
)
from sklearn_bdp.intervals.concentration import half_of, score_tail
from sklearn_bdp.planning.models import continued
from sklearn_bdp.release.graded_release import paced
from sklearn_bdp.utils.metric_names import BINARY, BY_CLASS, NAMES
from sklearn_bdp.utils.root_finding import doubled, last_whole
from sklearn_bdp.utils.validation import (
    check_beta,
    check_integer,
    check_option,
    check_probability,
    check_real,
)

# Nats that a year releases, by ``benchmarks/simulate_year.py``: at its start, for each search, for
# the first correction (of a bias that all candidates share) and for each surprise after it.
_START, _EACH, _FIRST, _LATER = 0.7, 0.05, 4.0, 7.0
_KNOWN = math.sqrt(4 / 3)  # deviation of cross-validated scores of three times as many records


class SearchPlan(int):
    """Number of holdout records; as text also what it means for the data to collect."""

    text: str

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"SearchPlan({int(self)}): {self.text}"


def plan_search(
    tau: float,
    *,
    scoring: str | None = None,
    prevalence: float | None = None,
    n_searches: int = 10,
    final: bool = True,
    correlation: Correlation = None,
    n_candidates: int = 100,
    score: float = 0.9,
    n_corrections: int = 1,
    beta: float = 0.05,
) -> SearchPlan:
    r"""Return the smallest holdout whose final report has a given half-width.

    A forecast, not a certificate: :class:`~sklearn_bdp.ReusableHoldout` charges each answer as
    used, so its intervals depend on how often cross-validation is wrong. Whatever happens, the
    intervals hold. This forecasts the width of the final report on the selected candidate, or of
    its interval in the last search.

    Parameters
    ----------
    tau : float
        Half-width wanted, in (0, 0.5): score units of a metric in [0, 1], or a share of the range
        of another one.
    scoring : str, default=None
        Name of the metric; accuracy by default.
    prevalence : float, default=None
        Share of positive records, for ROC AUC, balanced accuracy, recall and specificity. By
        default 1/2, which the plan then names. Precision depends on the number of events.
    n_searches : int, default=10
        Searches, each built on the results of those before.
    final : bool, default=True
        Whether the interval is that of the final report. ``False``: that of the last search.
    correlation : None, array, sparse matrix, graph, CorrelationModel or list
        How the records are correlated.
    n_candidates : int, default=100
        Candidates of each search, asked as one batch.
    score : float, default=0.9
        Score of the selected candidate, in [0, 1]: the nearer to 0 or 1, the narrower.
    n_corrections : int, default=1
        Answers that the holdout corrects. The first is usually a bias of cross-validation that all
        candidates share.
    beta : float, default=0.05
        Failure probability of all intervals together.

    Returns
    -------
    SearchPlan
        Number of holdout records, an ``int``. Its text adds units, events and the size of the
        whole table.

    Raises
    ------
    TypeError, ValueError
        If a parameter is outside its range, or no number of records up to 10^12 suffices.

    See Also
    --------
    ReusableHoldout.preview : Widths and cost of the next batch of an existing holdout.
    plan_holdout : The same for an error certified in advance.

    References
    ----------
    Theory G16 and G17; compare ``benchmarks/simulate_year.py``.

    Examples
    --------
    >>> from sklearn_bdp.planning import plan_holdout, plan_search
    >>> n = plan_search(0.05, n_searches=10)
    >>> n < plan_holdout(tau=0.05, n_queries=1000, budget=3) / 10
    True
    >>> patients = plan_search(0.08, scoring="roc_auc", prevalence=0.1, score=0.8)
    >>> bool(patients > 4 * plan_search(0.08, score=0.8))
    True
    """
    tau = check_real("tau", tau, low=0.0, high=0.5, closed="neither")
    model = continued(correlation, searched=True)
    year = {
        "scoring": scoring, "prevalence": prevalence, "n_searches": n_searches, "final": final,
        "correlation": model, "n_candidates": n_candidates, "score": score,
        "n_corrections": n_corrections, "beta": beta,
    }  # fmt: skip

    def enough(n):
        return expected_half_width(n, **year) <= tau

    bracket = doubled(enough, 2, most=10**12)
    if bracket is None:
        raise ValueError(f"no number of records suffices for tau={tau!r}.")
    plan = SearchPlan(last_whole(enough, *bracket, fine=1e-3))
    when, (count, name) = "the final report" if final else "the last search", model.units(int(plan))
    groups = "" if count == int(plan) else f" in {count:,} {name}"
    if scoring in BY_CLASS:
        assumed = " (prevalence=0.5 is assumed)" if prevalence is None else ""
        groups += f", {math.ceil(plan * (prevalence or 0.5)):,} of them events{assumed}"
    plan.text = (
        f"{int(plan):,} holdout records{groups}, about {4 * plan:,} in all if a quarter is held "
        f"out: half-width {tau:g} in {when} of {n_searches:,} searches of {n_candidates:,} "
        f"candidates, at a score of {score:g}."
    )
    return plan


def expected_half_width(
    n,
    *,
    n_searches,
    score,
    n_corrections=1,
    n_candidates=100,
    scoring=None,
    prevalence=None,
    final=True,
    beta=0.05,
    correlation=None,
):
    """Return the half-width that :func:`plan_search` forecasts for ``n`` records, in score units.

    The correlation may be a model of any size.
    """
    n, value = check_integer("n", n, low=1), check_real("score", score, low=0.0, high=1.0)
    m = check_integer("n_candidates", n_candidates, low=1)
    searches = check_integer("n_searches", n_searches, low=1)
    above = check_integer("n_corrections", n_corrections, low=0)
    sized = hasattr(correlation, "cut_failure")
    model = correlation if sized else continued(correlation, searched=True)
    left = check_beta(beta)
    metric = "accuracy" if scoring is None else check_option("scoring", scoring, NAMES)
    plain = score_tail(model, n, binary=True)
    if metric not in BY_CLASS:
        tail = score_tail(model, n, binary=metric in BINARY)
    else:  # with the class sizes to be expected
        positive = check_probability("prevalence", 0.5 if prevalence is None else prevalence)
        # As many training records as three holdouts, which is what a quarter held out leaves.
        counts = tuple(max(1, round(3 * n * part)) for part in (1.0 - positive, positive))
        counted = {"recall": (1,), "specificity": (0,)}.get(metric)
        tail = score_tail(
            model,
            n,
            kind="pairs" if metric == "roc_auc" else "class_means",
            class_counts=counts,
            counted=counted,
        )
    share = noise_share(NOISE_PART * left, above) / 2.0
    noise = auto_scales(
        float(model.effective_n(n)), failure=noise_share(NOISE_PART * left, 0) / 2.0, beta=beta
    )[2]
    unit = float(tail.standard_deviation(0.5) / plain.standard_deviation(0.5))
    known_to = answer_margin(failure=share, answer_scale=noise) * unit
    released = _START + _EACH * searches + _LATER * above + (_FIRST - _LATER) * (above > 0)
    side = math.log((1.0 - NOISE_PART) * left / 2.0)
    if final:
        side -= final_code_length(released=released, n_batches=searches)
    else:
        side -= code_length(released=released, batch_index=searches)
        place = float(rank_code_lengths(np.zeros(m))[0])
        fine = paced(AlphaSpending(), searches, side).fine(_KNOWN, searches - 1, places=place)
        known_to, side = known_to + float(fine * tail.standard_deviation(value)), side - place
    return half_of(tail, value, side, known_to)
