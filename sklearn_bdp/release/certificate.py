"""`HoldoutCertificate`: the current guarantee of a holdout, in one dataclass for each subject."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from sklearn_bdp.release.certificate_card import certificate_card
from sklearn_bdp.utils.html import GIVEN_PAST, RenderedResult


@dataclass(frozen=True, kw_only=True)
class HoldoutRecords:
    """Records that the intervals of a certificate are computed from.

    Parameters
    ----------
    n : int
        Number of holdout records.
    n_effective : float
        Effective sample size.
    correlation : str
        Description of the dependence of records.
    target : str, default="new records like these"
        Records to which intervals refer.
    """

    n: int
    n_effective: float
    correlation: str
    target: str = "new records like these"

    @property
    def is_time_ordered(self) -> bool:
        """Whether intervals refer to the dates of the holdout, each given its past (G26)."""
        return GIVEN_PAST in self.target


@dataclass(frozen=True, kw_only=True)
class AnswerCounts:
    """Numbers of answers so far.

    Parameters
    ----------
    n_answers : int
        Number of all answers, those without an interval included.
    n_relaxed : int, default=0
        Number of answers with a relaxed interval, which may be wider than ``half_width`` of the
        certificate.
    n_approximate, n_without_interval : int, default=0
        Number of answers with an approximate interval, and without an interval.
    information_spent : float, default=0.0
        Information spent by answers, checks and unfinished reports, in nats.
    next_code_length : float, default=0.0
        Code length of the next query in nats, without its rank. It includes the information spent
        and the weight of its batch.
    """

    n_answers: int
    n_relaxed: int = 0
    n_approximate: int = 0
    n_without_interval: int = 0
    information_spent: float = 0.0
    next_code_length: float = 0.0

    @property
    def n_proven(self) -> int:
        """Number of answers with a proven interval."""
        return self.n_answers - self.n_approximate - self.n_without_interval


@dataclass(frozen=True, kw_only=True)
class MechanismSettings:
    """Public settings of the mechanism of a holdout.

    Parameters
    ----------
    arguments : dict
        Arguments of :class:`~sklearn_bdp.mechanisms.Thresholdout`.
    threshold : float
        Distance from its prediction at which a query near 1/2 is corrected, in units of [0, 1].
    resolution : float
        Grid step of released answers, in units of [0, 1]; 0 if each query has cells of its own.
    n_queries : int or None
        Number of queries that ``calibration="zhao2017"`` is calibrated to; None: any number.
    budget : int or None
        Largest number of corrections by the holdout; None: no cap.
    spending : str
        Description of the spending of failure probability over the life of the holdout.
    states_privacy : bool, default=False
        Whether a level of privacy was asked for, by a numeric ``epsilon`` or
        ``calibration="zhao2017"``. The text of the certificate states levels only then.
    """

    arguments: dict[str, Any] = field(repr=False, compare=False)
    threshold: float
    resolution: float
    n_queries: int | None
    budget: int | None
    spending: str
    states_privacy: bool = False


@dataclass(frozen=True, kw_only=True)
class WidthForecast:
    """Half-widths of intervals to come, as fractions of the range of scores.

    Parameters
    ----------
    next_query : float or None
        Of a single next query with a score near 1/2, or near the selected score of a metric without
        a proven bound. None: the holdout is closed.
    final_report : float or None
        Of a final report now: on the selected score, the median over the candidates of a filter, or
        else on a score of 1/2. None: the holdout is closed, or there are no candidates.
    sampling, noise : float
        Part of the half-width by sampling, and noise margin, of a confirmed query near 1/2.
    advice : str, default=""
        Text on the number of further units that would reduce ``next_query``, or on the closing of
        the holdout; empty without advice.
    """

    next_query: float | None
    final_report: float | None
    sampling: float
    noise: float
    advice: str = ""


@dataclass(frozen=True, kw_only=True)
class SelectedScore:
    """Verified score of the selected candidate.

    Parameters
    ----------
    description : str
        Text that names metric and candidate.
    score, lower, upper : float
        Score and the ends of its interval, in score units. A score that is NaN was not verified.
    interval : {"proven", "approximate", "none"}
        Kind of the interval.
    verdict : str, default=""
        Text on the effect of verification on the cross-validated score; empty without one.
    baseline : float, optional
        Score of a constant prediction, in score units: a mark in the picture.
    half_width_components : tuple of float, optional
        Three components of the half-width, as fractions of the range: for sampling, for all other
        queries, and for resolution with noise.
    next_query : float, optional
        Half-width of another query with a similar score, as a fraction of the range.
    advice : str, default=""
        Text on the number of further units that would reduce ``next_query``; empty without advice.
    """

    description: str
    score: float
    lower: float
    upper: float
    interval: str
    verdict: str = ""
    baseline: float | None = None
    half_width_components: tuple[float, float, float] | None = None
    next_query: float | None = None
    advice: str = ""


@dataclass(frozen=True, kw_only=True)
class HoldoutCertificate(RenderedResult):
    """Guarantee about all answers of a holdout so far.

    With probability at least ``confidence_level`` all proven intervals are correct together. The
    ends of all intervals, relaxed ones apart, are at most ``half_width`` from their answers.

    Parameters
    ----------
    confidence_level : float
        Minimum probability that all proven intervals are correct together.
    half_width : float
        Largest distance from an answer to an end of its interval, as a fraction of the range of
        scores; at most 1. Relaxed intervals and rows of a report that are not answers
        (approximate rows, subgroups) are not included. That of a single next query with a score
        near 1/2 is, unless a final report closed the holdout and an answer has an interval.
    dp_epsilon, bdp_epsilon : float
        Level of ordinary and of Bayesian differential privacy of all answers so far, with a budget
        of those to come, too; ``inf`` if no finite level is claimed.
    records : HoldoutRecords
        Number and dependence of the holdout records, and the target of intervals.
    answers : AnswerCounts
        Numbers of answers so far.
    mechanism : MechanismSettings
        Settings of the mechanism that answers.
    forecast : WidthForecast
        Half-widths of intervals to come.
    assumptions : tuple of str
        Assumptions of the guarantee.
    notes : tuple of str, default=()
        Further remarks.
    selected : SelectedScore, optional
        Score of the candidate that a search selected.
    units : tuple of (str, float, float), optional
        Name and range of scores whose range is not [0, 1]; see :meth:`in_units`.

    See Also
    --------
    sklearn_bdp.ReusableHoldout.certificate : Returns this.
    sklearn_bdp.certify : A certificate in advance.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_bdp import ReusableHoldout
    >>> holdout = ReusableHoldout(np.zeros((1000, 1)), np.arange(1000) % 2)
    >>> certificate = holdout.certificate()
    >>> certificate.confidence_level, certificate.answers.n_answers
    (0.95, 0)
    """

    confidence_level: float
    half_width: float
    dp_epsilon: float
    bdp_epsilon: float
    records: HoldoutRecords
    answers: AnswerCounts
    mechanism: MechanismSettings
    forecast: WidthForecast
    assumptions: tuple[str, ...]
    notes: tuple[str, ...] = field(default=(), repr=False)
    selected: SelectedScore | None = None
    units: tuple[str, float, float] | None = None

    @property
    def is_vacuous(self) -> bool:
        """Whether ``half_width`` is at least 1/2, so that the guarantee is vacuous."""
        return not self.half_width < 0.5

    @property
    def half_width_components(self) -> tuple[float, float, float] | None:
        """Field ``half_width_components`` of ``selected``; None without a selected candidate."""
        return None if self.selected is None else self.selected.half_width_components

    def in_units(self, name: str, lower: float, upper: float) -> HoldoutCertificate:
        """Return the certificate for scores between ``lower`` and ``upper``, in their units.

        Parameters
        ----------
        name : str
            Name of the scores, for instance ``"neg_mean_absolute_error"``.
        lower, upper : float
            Range of the scores.

        Returns
        -------
        HoldoutCertificate
            Certificate that shows half-widths in score units; this certificate if the range is
            [0, 1].
        """
        if (lower, upper) == (0.0, 1.0):
            return self
        return replace(self, units=(str(name), float(lower), float(upper)))

    def _content_for_keys(self):
        """Return the content that query keys depend on: the name of the type only."""
        return type(self).__name__

    def _card(self):
        return certificate_card(self)
