"""`Certificate`: a guarantee with its probability, its assumptions and advice."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

from sklearn_bdp.utils.html import (
    Card,
    RenderedResult,
    explain_half_width,
    format_score,
    interval_svg,
    summary_sentence,
)

ROUTE_NAMES = {
    "bdp": "leakage (Bayesian differential privacy, G1)",
    "transcript": "counting of transcripts (G2)",
    "as used": "information spent so far (G7)",
}


@dataclass(frozen=True)
class Certificate(RenderedResult):
    r"""A guarantee about the answers of a reusable holdout.

    With probability at least ``1 - beta`` every answer, up to and including the one that spends
    the last of ``budget``, differs from its expectation by at most ``tau``.

    Parameters
    ----------
    tau : float
        Certified error for scores in [0, 1], at most 1; for other scores a fraction of their range.
    beta : float
        Failure probability of all answers together.
    route : str
        Argument of the proof.
    dp_epsilon, bdp_epsilon : float
        Level of ordinary and of Bayesian differential privacy of the whole transcript;
        ``inf`` without noise.
    n : int
        Number of holdout records.
    n_effective : float
        Effective sample size.
    sampling : float
        Part of ``tau`` that is due to the holdout being a sample.
    noise : float
        Part that is due to noise: the margin of a "below" answer, or of an "above" answer
        without a threshold.
    threshold : float or None
        Threshold T; ``None`` for a mechanism without a threshold.
    mechanism : object
        Certified mechanism, ready to answer; ``None`` without a mechanism.
    assumptions : tuple of str
        Assumptions of the guarantee.
    n_queries, budget : int or None
        m and B; ``None``: no cap.
    c : float or None
        Queries whose training value is off by less than ``c * tau`` spend no budget (with
        the same probability); ``None``: not guaranteed.
    resolution : float
        Grid step of released answers.
    correlation : str
        Description of the dependence of records.
    advice : tuple of str
        Changes that would reduce the error.
    notes : tuple of str
        Further remarks.
    n_relaxed : int
        Number of answers to which ``tau`` does not apply, because their intervals are relaxed
        (candidates far behind the best). These intervals are valid with the others.
    units : tuple of (str, float, float), optional
        Name and range of scores outside [0, 1]; see :meth:`in_units`.
    n_answers : int, optional
        Number of answers so far; ``None`` for a plan.
    next_error : float, optional
        Half-width of a next single query with a score near 1/2.
    chosen : tuple of (str, float, float, float), optional
        Description of the selected candidate, its score and the ends of its interval, in score
        units.
    verdict : str
        Effect of verification on the cross-validated score of the selected candidate.
    final_error : float, optional
        Half-width of a final report now, as a fraction of the range.
    parts : tuple of float, optional
        Components of the half-width of the selected candidate, as fractions of the range: sampling,
        all other queries, resolution and noise.
    spending : str
        Description of the spending of failure probability over the life of the holdout.
    outlook : tuple of (float, str), optional
        Half-width of another query with a score like the selected one, as a fraction of the range,
        and a sentence on the effect of more records.
    target : str, default="new records like these"
        Records to which intervals refer.
    baseline : float, optional
        Score of a constant prediction, in score units: a mark in the picture.
    interval : {"proven", "approximate", "none"}, default="proven"
        Kind of the interval of the selected candidate.
    n_approximate, n_without_interval : int, default=0
        Number of answers with an approximate interval, and without an interval.

    See Also
    --------
    sklearn_bdp.certify : A certificate in advance.
    sklearn_bdp.ReusableHoldout.certificate : The certificate of a holdout.

    Examples
    --------
    >>> from sklearn_bdp.planning import certify
    >>> certificate = certify(10_000, n_queries=100, budget=1)
    >>> round(certificate.tau, 4)
    0.0815
    >>> print(str(certificate).splitlines()[0])
    Every answer is within ±0.0815 of the expected score on new records.
    """

    tau: float
    beta: float
    route: str
    dp_epsilon: float
    bdp_epsilon: float
    n: int
    n_effective: float
    sampling: float
    noise: float
    threshold: float | None
    mechanism: Any = field(repr=False, compare=False)
    assumptions: tuple
    n_queries: int | None = None
    budget: int | None = None
    c: float | None = None
    resolution: float = 0.0
    correlation: str = ""
    advice: tuple = field(default=(), repr=False)
    notes: tuple = field(default=(), repr=False)
    n_relaxed: int = 0
    units: tuple | None = None
    n_answers: int | None = None
    next_error: float | None = None
    chosen: tuple | None = None
    verdict: str = ""
    final_error: float | None = None
    parts: tuple | None = None
    spending: str = ""
    outlook: tuple | None = None
    target: str = "new records like these"
    baseline: float | None = None
    interval: str = "proven"
    n_approximate: int = 0
    n_without_interval: int = 0

    def _content_for_keys(self):
        """Return the content for query keys: a certificate inside a model changes no prediction."""
        return type(self).__name__

    def in_units(self, name: str, lower: float, upper: float) -> Certificate:
        """Return the certificate for scores between ``lower`` and ``upper``, in their units.

        Parameters
        ----------
        name : str
            Name of the scores, for instance ``"neg_mean_absolute_error"``.
        lower, upper : float
            Range of the scores.

        Returns
        -------
        Certificate
            Certificate with a first line in score units.
        """
        if (lower, upper) == (0.0, 1.0):
            return self
        return replace(self, units=(str(name), float(lower), float(upper)))

    @property
    def is_vacuous(self) -> bool:
        """Whether the guarantee is vacuous: an error of 1/2 or more."""
        return not self.tau < 0.5

    def _card(self):
        low, high = (0.0, 1.0) if self.units is None else self.units[1:]
        span = high - low
        report_width = ""
        if self.final_error is not None and self.final_error < 0.45:
            report_width = f"±{_round_up(self.final_error * span)}"
        lines = [self._confidence()]
        if self.chosen is None:
            title = self._title(span)
            picture = ""
            is_informative = not self.is_vacuous
            if report_width:
                lines.append(f"A final report now would know a middling score to {report_width}.")
        else:
            _, score, lower, upper = self.chosen
            title = self._chosen_title(report_width)
            picture = interval_svg(score, lower, upper, bounds=(low, high), baseline=self.baseline)
            is_informative = upper - lower < 0.5 * span
        if self.interval != "none":
            lines += self._outlook(span)
        if self.parts is not None:
            lines.append(explain_half_width([span * part for part in self.parts]))
        sections = [
            ("It holds if", self.assumptions),
            ("Note", self.notes),
            ("What stands behind it", list(self._facts(span))),
        ]
        return Card(title, lines, sections, picture, is_informative)

    def _chosen_title(self, report_width):
        """Return the first line about the selected candidate, in score units."""
        name, score, lower, upper = self.chosen
        if math.isnan(score):
            return f"{name}: not verified. The holdout was not queried about it."
        remarks = [self.verdict] if self.verdict else []
        if report_width:
            remarks.append(f"a final report now would be known to {report_width}")
        scored = format_score(score)
        if remarks:
            remark = "; ".join(remarks)
            scored += f". {remark[0].upper()}{remark[1:]}"
        if self.interval == "none":
            return f"{name}: {scored}. It has no interval."
        title = summary_sentence(name, scored, lower, upper, self.target)
        if self.interval == "approximate":
            title += " This interval is approximate."
        return title

    def _title(self, span):
        """Return the first line without a selected candidate: the error, in score units."""
        error = f"±{_round_up(self.tau)}"
        if self.units is not None:
            name, low, high = self.units
            range_text = f"({name}, from {low:.4g} to {high:.4g}; {error} of that range)"
            error = f"±{_round_up(self.tau * span)} {range_text}"
        if self.n_answers:
            return f"{self.n_answers:,} verified so far. Widest interval: {error}."
        if self.is_vacuous:
            return (
                f"Vacuous: with {self.n:,} records the certified error is {error[1:]}. "
                f"An error of 0.5 or more {'of the range ' if self.units else ''}says nothing."
            )
        subject = "Every answer"
        if self.n_queries == 1:
            subject = "The answer"
        elif self.n_answers == 0:
            subject = "The first answer"
        target = self.target if self._is_time_ordered else "new records"
        return f"{subject} is within {error} of the expected score on {target}."

    @property
    def _is_time_ordered(self):
        """Whether intervals refer to the dates of the holdout, each given its past (G26)."""
        return ", judged " in self.target

    def _confidence(self):
        """Return the second line: confidence, number of intervals and holdout records."""
        holdout = self._holdout_text()
        confidence = f"{100 * (1 - self.beta):.6g}%"
        n_proven = (self.n_answers or 0) - self.n_approximate - self.n_without_interval
        if self.n_without_interval and not n_proven and not self.n_approximate:
            return f"No answer so far has an interval. Holdout: {holdout}."
        if self.n_approximate:
            approximate = (
                f"Confidence: about {confidence} that all {self.n_approximate:,} approximate "
                "intervals so far are correct, whichever candidate you select, for losses without "
                "rare large values."
            )
            proven = ""
            if n_proven > 0:
                proven = f" At least {confidence} that all {n_proven:,} proven ones are."
            return f"{approximate}{proven} Holdout: {holdout}."
        return f"Confidence: at least {confidence} that {self._claim()}. Holdout: {holdout}."

    def _claim(self):
        """Return the event that has the stated confidence."""
        if self.n_queries == 1 or (self.chosen is not None and (self.n_answers or 0) <= 1):
            return "this interval is correct"
        if self.chosen is not None:
            return (
                f"all {self.n_answers:,} intervals so far are correct, whichever candidate you "
                "select"
            )
        if self.n_answers == 0:
            return "this interval and all later ones are correct"
        if self.n_queries is None:
            return "all are correct"
        return f"all {self.n_queries:,} are correct"

    def _holdout_text(self):
        """Return number, dependence and effective number of the holdout records."""
        if self._is_time_ordered:
            dates = self.target.partition(", ")[0].removeprefix("these ")
            if dates.startswith(f"{self.n:,} "):
                return dates
            return f"{self.n:,} records on {dates}"
        if self.correlation in ("", "independent records"):
            return f"{self.n:,} independent records"
        structure = ""
        if self.correlation.startswith(f"{self.n} records "):
            structure = f"{self.correlation.removeprefix(f'{self.n} records ')}, "
        n_decimals = 0 if self.n_effective >= 10.0 else 1
        n_effective = f"{self.n_effective:,.{n_decimals}f}"
        return f"{self.n:,} records {structure}worth about {n_effective} independent ones"

    def _outlook(self, span):
        """Return lines about the next query and more records: none or one."""
        if self.outlook is not None and self.next_error is not None:
            width, advice = self.outlook
            score_text = "at a similar score"
            is_whole_range = width >= 0.45  # nine tenths of the range
        else:
            width = self.next_error
            advice = "".join(self.advice[:1])
            if width is None:
                return [advice] if advice else []
            score_text = "at a middling score"
            is_whole_range = not width < 0.5
            if advice and span != 1.0:
                advice += " of the range"
        line = f"Next single query {score_text}: about ±{_round_up(width * span)}"
        line += ", the whole range." if is_whole_range else "."
        if advice:
            line += f" {advice[0].upper()}{advice[1:]}."
        return [line]

    def _facts(self, span):
        """Yield a label and a value for each detail."""
        yield "proved by", ROUTE_NAMES.get(self.route, self.route)
        yield "correlation", self.correlation or "independent records"
        if self.n_answers:
            scope = "" if self.next_error is None else ", the next one near 1/2 included"
            yield "widest interval", f"±{_round_up(self.tau)}{scope}"
        if self.n_relaxed:
            yield "relaxed", f"{self.n_relaxed:,} kept wide because they trail the best"
        if self.budget is not None or self.route == "as used":
            budget = "no cap" if self.budget is None else f"{self.budget:,}"
            yield "answers from the holdout", budget
        if self.spending:
            yield "spending", self.spending
        if self.c is not None and not self.is_vacuous:
            error = f"{self.c * self.tau:.3g}"
            yield "budget honesty", f"a cross-validated score off by less than {error} spends none"
        components = f"sampling {self.sampling:.3g}, noise {self.noise:.3g}"
        if self.threshold is not None:
            components += f", threshold {self.threshold:.3g}"
        if self.units is not None:
            components += f" of the range, {span:.4g}"
        yield "parts" if self.n_answers is None else "parts, query near 1/2", components
        if self.resolution > 0:
            yield "answers rounded to", f"cells of {self.resolution:.3g}"
        privacy = "none: no finite level is claimed"
        if math.isfinite(self.dp_epsilon):
            privacy = f"ε′ = {self.dp_epsilon:.4g} (DP), ε = {self.bdp_epsilon:.4g} (Bayesian DP)"
        elif self._is_time_ordered:
            privacy = "none is stated without declared dependence"
        yield "privacy of the holdout", privacy


def _round_up(value):
    """Return three significant digits, rounded up: never below the certified error."""
    if not (math.isfinite(value) and value > 0):
        return f"{value:g}"
    digits = 2 - math.floor(math.log10(value))
    scale = 10.0**digits
    return f"{math.ceil(value * scale - 1e-9) / scale:.{max(digits, 0)}f}"
