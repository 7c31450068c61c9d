"""Baselines without a mechanism: fresh records for every query, and Hoeffding's floor (G3)."""

import math

from sklearn_bdp.accounting import sampling_half_width

__all__ = ["floor_half_width", "splitting_half_width"]


def floor_half_width(task):
    """Return Hoeffding's half-width of queries fixed in advance, no mechanism."""
    return sampling_half_width(task.n_effective, failure=task.beta, n_queries=task.n_queries)


def splitting_half_width(task):
    r"""Half-width when each of m queries gets ``n // m`` fresh records.

    Parts of a chain are separated by a gap whose failure probability is a tenth of ``beta``;
    parts of grouped records are made of whole components. Infinite when nothing is left.

    References
    ----------
    Theory G3; theory H6 (gaps).
    """
    model, m = task.model, task.n_queries
    beta = task.beta
    part = task.n // m
    if m > 1:
        gap_failure = 0.1 * beta / (m - 1)
        gap = int(model.gap_for(gap_failure))
        if gap > 0:
            part, beta = part - gap, 0.9 * beta
    if part < 1:
        return math.inf
    if model.is_componentwise and m > 1:
        # A part of whole components may miss its size by one component, and its components are at
        # most the largest: Σ k_c² ≤ k_max · size.
        largest = model.largest_component(task.n)
        size = part - (largest - 1)
        n_effective = size / largest
    elif model.n_records is not None and m > 1:
        return math.inf  # connected records: no independent fresh part
    elif m > 1:
        n_effective = model.effective_n(part)
    else:
        n_effective = model.effective_n(task.n)
    if not n_effective > 0:
        return math.inf
    return sampling_half_width(n_effective, failure=beta, n_queries=m)
