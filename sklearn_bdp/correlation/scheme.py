"""Sampling scheme of records: sampling units, kind of bound for means, and target of intervals."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from sklearn_bdp._typing import Array


class ConcentrationBound(enum.Enum):
    """Kind of bound on the distance of a mean of scores from its expectation."""

    #: Independent records: binomial tails and Hoeffding's hinges (theory G8).
    INDEPENDENT = "independent records"
    #: Independent components of records: weighted hinges (theory G12).
    COMPONENTS = "independent components"
    #: Markov chain: the rate of Leon and Perron (theory H3), and blocks (theory H4).
    CHAIN = "Markov chain"
    #: Dates given their past: martingales, nothing is assumed about dependence (theory G26).
    MARTINGALE = "martingale"
    #: Any other model: Hoeffding's bound at its effective number of records (theory H1).
    EFFECTIVE_NUMBER = "effective number of records"


@dataclass(frozen=True, eq=False)
class Calendar:
    """Dates of records whose bounds are conditional on the past of each date.

    Parameters
    ----------
    horizon : int
        Number of dates from the last record that a forecast may use to the date on which its score
        is known.
    step : str
        Singular name of one time step, such as ``"day"``.
    dates : ndarray of shape (n_dates,) or None, default=None
        The distinct dates, ascending; None if each record is a date and dates are not known.
    """

    horizon: int
    step: str
    dates: Array | None = field(default=None, repr=False)


@dataclass(frozen=True, eq=False)
class SamplingScheme:
    """Properties of records that intervals, reports and splits depend on.

    Parameters
    ----------
    n_records : int
        Number of records.
    n_units : int
        Number of sampling units, such as groups or dates; of records for networks with strengths
        and for lists of models.
    unit_name : str
        Name of the units in the plural: ``"records"``, ``"groups"`` or ``"dates"``.
    bound : ConcentrationBound
        Kind of bound that means of scores obey.
    target : str
        Records to which the expected score in intervals refers, such as ``"new records"``.
    exchangeable : bool
        Whether independent components of records are draws from one distribution. False for nodes
        given all others (theory G27).
    weights : ndarray of shape (n_records,) or None, default=None
        Positive weights of records in a score, which sum to 1; None for equal weights.
    block_codes : ndarray of int, shape (n_records,) or None, default=None
        Code ``0, 1, …`` of the block of each record: its group, component, date or sequence. None
        if each record is a block.
    calendar : Calendar or None, default=None
        Dates, if bounds are conditional on the past of each date; None for all other models.
    in_time_order : bool, default=False
        Whether records have one order in time, that of the rows or of their dates. The holdout then
        follows the training set, if necessary after a gap.
    bounds_hold_given_rest : bool, default=False
        Whether bounds are valid given any values of the other records, so that training records may
        depend on the holdout (theory G13, G27).

    Examples
    --------
    >>> from sklearn_bdp.correlation import Groups
    >>> scheme = Groups(["ann", "ann", "bob", "eve"]).sampling_scheme(4)
    >>> scheme.n_units, scheme.unit_name, scheme.target
    (3, 'groups', 'records of new groups')
    """

    n_records: int
    n_units: int
    unit_name: str
    bound: ConcentrationBound
    target: str
    exchangeable: bool
    weights: Array | None = field(default=None, repr=False)
    block_codes: Array | None = field(default=None, repr=False)
    calendar: Calendar | None = None
    in_time_order: bool = False
    bounds_hold_given_rest: bool = False

    @property
    def has_independent_records(self) -> bool:
        """Whether all records are independent of each other."""
        return self.bound is ConcentrationBound.INDEPENDENT

    @property
    def has_independent_units(self) -> bool:
        """Whether components of records are independent of each other."""
        return self.bound in (ConcentrationBound.INDEPENDENT, ConcentrationBound.COMPONENTS)

    @property
    def has_iid_records(self) -> bool:
        """Whether records are independent and identically distributed."""
        return self.has_independent_records and self.exchangeable

    @property
    def is_conditional(self) -> bool:
        """Whether components are independent but may have different distributions (theory G27)."""
        return self.has_independent_units and not self.exchangeable

    @property
    def record_blocks(self) -> Array:
        """Block code of each record; the position of the record if ``block_codes`` is None."""
        return np.arange(self.n_records) if self.block_codes is None else self.block_codes

    def block_means(self, scores: ArrayLike) -> Array:
        """Return the mean score of each block, such as a date.

        Parameters
        ----------
        scores : array-like of shape (n_records,)
            Score of each record; NaN for unscored records.

        Returns
        -------
        ndarray of shape (n_blocks,)
            In the order of block codes; NaN for blocks without a score. Scores are averaged with
            equal weights.
        """
        series = np.asarray(scores, dtype=float)
        if self.block_codes is None:
            return series
        n_blocks = int(self.block_codes.max()) + 1
        is_scored = ~np.isnan(series)
        codes = self.block_codes[is_scored]
        counts = np.bincount(codes, minlength=n_blocks)
        sums = np.bincount(codes, weights=series[is_scored], minlength=n_blocks)
        return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
