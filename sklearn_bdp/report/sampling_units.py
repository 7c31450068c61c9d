"""Sampling units of a closed holdout: the unit and the weight of each record in a report."""

from __future__ import annotations

import dataclasses
from typing import Any, Self

import numpy as np

from sklearn_bdp._typing import Array
from sklearn_bdp.correlation.scheme import SamplingScheme
from sklearn_bdp.report.plan import Plan


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class SamplingUnits:
    """Units of the holdout records, and the weight of each record in a score.

    Independent units (records or groups) are numbered in a random order that follows from a seed
    (theory G28). Dates and the blocks of dependent records keep their order.
    """

    scheme: SamplingScheme
    name: str  # of the units, in the plural
    unit_of_record: Array  # (n,): number of each record's unit: 0, 1, ...
    n_units: int
    record_weights: Array  # (n,): weight of each record in a score
    #: (n_units,): divisors of the sums over the records of a unit; None if sums are not divided.
    divisors: Array | None = None
    #: (n_units,): position of the record drawn from each unit (theory G19); None for dates and
    #: dependent records.
    one_record_of_each: Array | None = None
    #: Number of autocorrelation times in a declared chain; 0 for dependent records that are not a
    #: chain; None for dates and independent units.
    n_autocorrelation_times: float | None = None

    @classmethod
    def of_plan(cls, plan: Plan, holdout: Any, seed: int) -> Self:
        """Return the units of the holdout records for the rows of a plan.

        ``seed``: seed of the order of independent units.
        """
        scheme = holdout.dependence.sampling_scheme(holdout.n)
        if plan.dependence in ("dependent", "past"):
            return cls._of_dependent_records(scheme, holdout)
        return cls._of_independent_units(scheme, plan, holdout, seed)

    @classmethod
    def _of_dependent_records(cls, scheme, holdout):
        """Return the units of dependent records or dates: blocks or dates in their own order."""
        n = holdout.n
        n_autocorrelation_times = None
        if scheme.calendar is None:
            n_autocorrelation_times = 0.0
            if scheme.in_time_order:
                n_autocorrelation_times = float(holdout.dependence.effective_n(n))
        return cls(
            scheme=scheme,
            name=scheme.unit_name,
            unit_of_record=scheme.record_blocks,
            n_units=int(scheme.record_blocks.max()) + 1,
            record_weights=np.ones(n) if scheme.weights is None else n * scheme.weights,
            n_autocorrelation_times=n_autocorrelation_times,
        )

    @classmethod
    def _of_independent_units(cls, scheme, plan, holdout, seed):
        """Return the units of independent records or groups, in the order that ``seed`` gives."""
        n = holdout.n
        order_rng = np.random.default_rng([seed, 1])
        component_labels = holdout.dependence.components(n)
        _, component_codes = np.unique(component_labels, return_inverse=True)
        unit_of_component = order_rng.permutation(int(component_codes.max()) + 1)
        unit_of_record = unit_of_component[component_codes]
        unit_sizes = np.bincount(unit_of_record)
        # Index of each unit's first record in an array that is sorted by unit.
        unit_starts = np.cumsum(unit_sizes) - unit_sizes
        # The choice of one record has a random stream of its own (theory G19).
        choice_rng = np.random.default_rng([seed, 2])
        positions_by_unit = np.lexsort((choice_rng.random(n), unit_of_record))
        name = scheme.unit_name
        record_weights = np.ones(n)
        divisors = None
        if scheme.has_independent_records:
            name = "records"
        elif plan.per == "unit":
            divisors = unit_sizes
            record_weights = 1.0 / unit_sizes[unit_of_record]
        else:  # a larger group keeps ``plan.max_group_records`` records, drawn at random
            shuffled_positions = np.lexsort((order_rng.random(n), unit_of_record))
            shuffled_units = unit_of_record[shuffled_positions]
            rank_in_unit = np.empty(n)
            rank_in_unit[shuffled_positions] = np.arange(n) - unit_starts[shuffled_units]
            record_weights = (rank_in_unit < plan.max_group_records).astype(float)
        return cls(
            scheme=scheme,
            name=name,
            unit_of_record=unit_of_record,
            n_units=len(unit_sizes),
            record_weights=record_weights,
            divisors=divisors,
            one_record_of_each=positions_by_unit[unit_starts],
        )

    @property
    def are_dates(self) -> bool:
        """Whether the units are dates, with scores conditional on the past (theory G26)."""
        return self.scheme.calendar is not None

    def count(self, mask: Array) -> int:
        """Return the number of units with a record for which ``mask``, of shape (n,), is True."""
        return int(np.unique(self.unit_of_record[mask]).size)

    def totals(self, values: Array) -> Array:
        """Return the weighted sum of the records' values in each unit, of shape (n_units,).

        ``values``: one per record, of shape (n,).
        """
        if self.divisors is not None:  # sums of weights 1/9 can exceed 1 in floating point
            sums = np.bincount(self.unit_of_record, values, minlength=self.n_units)
            return sums / self.divisors
        weighted_values = self.record_weights * values
        return np.bincount(self.unit_of_record, weighted_values, minlength=self.n_units)

    def date_means(self, values: Array) -> Array:
        """Return the mean of the records' values on each date, of shape (n_units,).

        The units must be dates. ``values``: one per record, of shape (n,).
        """
        return self.totals(values) * (self.n_units / len(self.unit_of_record))
