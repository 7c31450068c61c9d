"""Methods of proven rows in a final report, by kind of row and by dependence of the records.

A dependence is one of these words. ``"records"`` and ``"groups"``: independent, identically
distributed units. ``"stratified"`` and ``"stratified groups"``: independent units with different
distributions. ``"given the rest"``: nodes of a network given all other nodes. ``"dependent"``: a
declared dependence. ``"past"``: dates, each given its past.
"""

from collections.abc import Callable, Mapping
from typing import Any

from sklearn_bdp.intervals.bounds import betting_interval, order_free_interval

COUNTS = "Clopper-Pearson"  # G8
BETS = "betting interval"  # G28
FREE = "order-free bound"  # G28, from G15 and G18
TAIL = "concentration bound"  # G5, G8, G11
PAST = "martingale bound"  # G26
CLASSES = "U-statistic bound"  # G12, G19, G20, G36
#: Name that rows give :data:`CLASSES` if the score is a mean over classes: its limits are not those
#: of a U-statistic. Identities of reports contain :data:`CLASSES` for all metrics by class.
CLASS_MEANS = "class-conditional concentration bound"
RECALLS = "interval for each class"  # each recall with its fraction of the failure probability

#: Functions that compute intervals for a ratio of means of independent units, by method. Each takes
#: ``(sums, counts, *, bound, moments, log_inverse_alpha)`` as
#: :func:`~sklearn_bdp.intervals.bounds.betting_interval` does, and returns a lower and an upper
#: limit.
UNIT_INTERVALS: dict[str, Callable[..., tuple[Any, Any]]] = {
    BETS: betting_interval,
    FREE: order_free_interval,
}

#: Method by dependence. A row has no proof for a dependence that is not a key.
Proofs = Mapping[str, str]

_INDEPENDENT: Proofs = {
    "records": BETS,
    "groups": BETS,
    "stratified": FREE,
    "stratified groups": FREE,
}
_OVER_RECORDS: Proofs = {**_INDEPENDENT, "given the rest": FREE}
_DEPENDENT: Proofs = {"dependent": TAIL, "past": PAST}

#: A mean of scores of records, each in [0, 1].
MEAN: Proofs = {**_OVER_RECORDS, **_DEPENDENT}
#: A mean of scores that are 0 or 1: a proportion.
SHARE: Proofs = {**MEAN, "records": COUNTS, "given the rest": COUNTS, "stratified": COUNTS}
#: Means and proportions in a subgroup.
MEAN_INSIDE: Proofs = _OVER_RECORDS
SHARE_INSIDE: Proofs = {**_OVER_RECORDS, "records": COUNTS, "given the rest": COUNTS}
#: Differences of the means of two models.
DIFFERENCE: Proofs = MEAN
#: Differences of mean errors without a range: the distance of both predictions bounds them.
ERROR_DIFFERENCE: Proofs = {"past": PAST}
#: A ratio of two counts of records, such as a proportion within a class.
CLASS_SHARE: Proofs = {**_INDEPENDENT, "records": COUNTS}
#: Differences of such ratios of two models, with one denominator for both.
CLASS_DIFFERENCE: Proofs = _INDEPENDENT
#: A mean over classes, one or more, or over pairs of records of two classes.
BY_CLASS: Proofs = dict.fromkeys(_INDEPENDENT, CLASSES)
#: Subgroups and differences of a mean over classes: limits of each recall.
BY_RECALL: Proofs = dict.fromkeys(_INDEPENDENT, RECALLS)


def dependence_of_scheme(scheme: Any) -> str:
    """Return the dependence of records that decides on a proof, for a split that is not stratified.

    Parameters
    ----------
    scheme : SamplingScheme
        Sampling scheme of the records.

    Returns
    -------
    str
        ``"records"``, ``"groups"``, ``"given the rest"``, ``"dependent"`` or ``"past"``.
    """
    if scheme.calendar is not None:
        return "past"
    if scheme.is_conditional:
        # Given all other nodes, the nodes of a component depend on each other as declared.
        return "given the rest" if scheme.has_independent_records else "dependent"
    if scheme.weights is not None or not scheme.exchangeable:
        return "dependent"
    return "records" if scheme.has_independent_records else "groups"
