"""`Certificate`: what holds, how probably, under which assumptions, and what would help."""

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
        Certified error for scores in [0, 1], at most 1: a share of the range of other scores.
    beta : float
        Failure probability over everything.
    route : str
        The argument that proves it.
    dp_epsilon, bdp_epsilon : float
        Level of ordinary and of Bayesian differential privacy of the whole transcript;
        ``inf`` when no noise is added.
    n : int
        Number of holdout records.
    n_effective : float
        Independent records that concentrate as well.
    sampling : float
        Part of ``tau`` that is due to the holdout being a sample.
    noise : float
        Part that is due to noise: the margin of a "below" answer, or of an "above" answer
        without a threshold.
    threshold : float or None
        Threshold T; ``None`` where there is none.
    mechanism : object
        The mechanism that is certified, ready to answer; ``None`` where there is none.
    assumptions : tuple of str
        What has to be true.
    n_queries, budget : int or None
        m and B; ``None``: no cap.
    c : float or None
        Queries whose training value is off by less than ``c * tau`` spend no budget (with
        the same probability); ``None``: not guaranteed.
    resolution : float
        Grid step of released answers.
    correlation : str
        How the records are correlated, in words.
    advice : tuple of str
        What would make it better.
    notes : tuple of str
        Anything else the reader must know.
    n_relaxed : int
        Answers that ``tau`` does not apply to, because their intervals are relaxed
        (candidates far behind the best); these are valid with the others.
    units : tuple of (str, float, float), optional
        Name and range of scores that do not lie in [0, 1]; see :meth:`in_units`.
    n_answers : int, optional
        Answers given so far; ``None`` for a plan.
    next_error : float, optional
        Half-width of the next answer, if it is asked alone and near 1/2.
    chosen : tuple of (str, float, float, float), optional
        What was chosen, in words, its score and the ends of its interval, in score units.
    verdict : str
        What verification did to the cross-validated score of what was chosen.
    final_error : float, optional
        Half-width that a final report would have now, as a part of the range.
    parts : tuple of float, optional
        What the half-width of the chosen interval is made of, as parts of the range: sampling,
        everything else that was asked, resolution and noise.
    spending : str
        How the failure probability is spent over the life of the holdout.
    outlook : tuple of (float, str), optional
        Half-width of another answer like the chosen one, as a part of the range, and what more
        records would give, in words.
    target : str, default="new records like these"
        What intervals refer to.
    baseline : float, optional
        Score of a constant prediction, in score units: a mark in the picture.
    interval : {"proven", "approximate", "none"}, default="proven"
        Kind of the interval of what was chosen.
    n_approximate, n_without_interval : int, default=0
        Answers with an approximate interval, and without an interval, among ``n_answers``.

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
        """Return what a key holds of a certificate inside a model: it changes no prediction."""
        return type(self).__name__

    def in_units(self, name: str, lower: float, upper: float) -> Certificate:
        """Return the certificate for scores between ``lower`` and ``upper``, in their units.

        Parameters
        ----------
        name : str
            What the scores are, for instance ``"neg_mean_absolute_error"``.
        lower, upper : float
            Their range.

        Returns
        -------
        Certificate
            Its first line speaks in score units.
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
        span, final, picture, good = high - low, "", "", not self.is_vacuous
        if self.final_error is not None and self.final_error < 0.45:
            final = f"±{_up(self.final_error * span)}"
        lines = [self._confidence()]
        if self.chosen is None:
            title = self._title(span)
            if final:
                lines.append(f"A final report now would know a middling score to {final}.")
        else:
            name, score, lower, upper = self.chosen
            good = upper - lower < 0.5 * span  # the first line speaks of the chosen one
            picture = interval_svg(score, lower, upper, bounds=(low, high), baseline=self.baseline)
            final = final and f"a final report now would be known to {final}"
            so_far = "; ".join(filter(None, (self.verdict, final)))
            title = f"{name}: not verified. The holdout was not queried about it."
            if not math.isnan(score):
                so_far = f". {so_far[0].upper()}{so_far[1:]}" if so_far else ""
                if self.interval == "none":
                    title = f"{name}: {format_score(score)}{so_far}. It has no interval."
                else:
                    title = summary_sentence(
                        name, format_score(score) + so_far, lower, upper, self.target
                    )
                if self.interval == "approximate":
                    title += " This interval is approximate."
        if self.interval != "none":
            lines += self._outlook(span)
        if self.parts is not None:
            lines.append(explain_half_width([span * part for part in self.parts]))
        sections = [
            ("It holds if", self.assumptions),
            ("Note", self.notes),
            ("What stands behind it", list(self._facts(span))),
        ]
        return Card(title, lines, sections, picture, good)

    def _title(self, span):
        """Return the first line where nothing was chosen: what is known, in score units."""
        error = f"±{_up(self.tau)}"
        if self.units is not None:
            name, low, high = self.units
            of = f"({name}, from {low:.4g} to {high:.4g}; {error} of that range)"
            error = f"±{_up(self.tau * span)} {of}"
        if self.n_answers:
            return f"{self.n_answers:,} verified so far. Widest interval: {error}."
        if self.is_vacuous:
            return (
                f"Vacuous: with {self.n:,} records the certified error is {error[1:]}. "
                f"An error of 0.5 or more {'of the range ' if self.units else ''}says nothing."
            )
        which = "The" if self.n_queries == 1 else "The first" if self.n_answers == 0 else "Every"
        on = self.target if self._time_ordered else "new records"
        return f"{which} answer is within {error} of the expected score on {on}."

    @property
    def _time_ordered(self):
        """Whether intervals refer to the dates of the holdout, each given its past (G26)."""
        return ", judged " in self.target

    def _confidence(self):
        """Return the second line: how many at once, how surely, on which records."""
        if self.n_queries == 1 or (self.chosen is not None and (self.n_answers or 0) <= 1):
            held = "this interval is correct"
        elif self.chosen is not None:
            held = (
                f"all {self.n_answers:,} intervals so far are correct, whichever candidate you "
                "select"
            )
        elif self.n_answers == 0:
            held = "this interval and all later ones are correct"
        else:
            held = f"all {'' if self.n_queries is None else f'{self.n_queries:,} '}are correct"
        words, on = self.correlation or "independent records", f"{self.n:,} records "
        if self._time_ordered:
            dates = self.target.partition(", ")[0].removeprefix("these ")
            on = dates if dates.startswith(f"{self.n:,} ") else f"{on}on {dates}"
        elif words == "independent records":
            on = f"{self.n:,} independent records"
        else:
            lead, places = f"{self.n} records ", 0 if self.n_effective >= 10.0 else 1
            on += f"{words.removeprefix(lead)}, " if words.startswith(lead) else ""
            on += f"worth about {self.n_effective:,.{places}f} independent ones"
        chance = f"{100 * (1 - self.beta):.6g}%"
        n_proven = (self.n_answers or 0) - self.n_approximate - self.n_without_interval
        if self.n_without_interval and not n_proven and not self.n_approximate:
            return f"No answer so far has an interval. Holdout: {on}."
        if self.n_approximate:
            approximate = (
                f"Confidence: about {chance} that all {self.n_approximate:,} approximate intervals "
                "so far are correct, whichever candidate you select, for losses without rare large "
                "values."
            )
            proven = f" At least {chance} that all {n_proven:,} proven ones are." * (n_proven > 0)
            return f"{approximate}{proven} Holdout: {on}."
        return f"Confidence: at least {chance} that {held}. Holdout: {on}."

    def _outlook(self, span):
        """Return what comes next, and what more records would give, as no line or one."""
        if self.outlook is not None and self.next_error is not None:
            (width, more), like = self.outlook, "at a similar score"
            nothing = width >= 0.45  # nine tenths of the range
        else:
            width, more, like = self.next_error, "".join(self.advice[:1]), "at a middling score"
            if width is None:
                return [more] if more else []
            nothing = not width < 0.5
            more += " of the range" if more and span != 1.0 else ""
        line = f"Next single query {like}: about ±{_up(width * span)}"
        line += ", the whole range." if nothing else "."
        return [f"{line} {more[0].upper()}{more[1:]}." if more else line]

    def _facts(self, span):
        """Yield what stands behind it, each with its label."""
        yield "proved by", ROUTE_NAMES.get(self.route, self.route)
        yield "correlation", self.correlation or "independent records"
        if self.n_answers:
            ahead = "" if self.next_error is None else ", the next one near 1/2 included"
            yield "widest interval", f"±{_up(self.tau)}{ahead}"
        if self.n_relaxed:
            yield "relaxed", f"{self.n_relaxed:,} kept wide because they trail the best"
        if self.budget is not None or self.route == "as used":
            budget = "no cap" if self.budget is None else f"{self.budget:,}"
            yield "answers from the holdout", budget
        if self.spending:
            yield "spending", self.spending
        if self.c is not None and not self.is_vacuous:
            off = f"{self.c * self.tau:.3g}"
            yield "budget honesty", f"a cross-validated score off by less than {off} spends none"
        lone = f"sampling {self.sampling:.3g}, noise {self.noise:.3g}"
        if self.threshold is not None:
            lone += f", threshold {self.threshold:.3g}"
        if self.units is not None:
            lone += f" of the range, {span:.4g}"
        yield "parts" if self.n_answers is None else "parts, query near 1/2", lone
        if self.resolution > 0:
            yield "answers rounded to", f"cells of {self.resolution:.3g}"
        level = "none: no finite level is claimed"
        if math.isfinite(self.dp_epsilon):
            level = f"ε′ = {self.dp_epsilon:.4g} (DP), ε = {self.bdp_epsilon:.4g} (Bayesian DP)"
        elif self._time_ordered:
            level = "none is stated without declared dependence"
        yield "privacy of the holdout", level


def _up(value):
    """Three significant digits, rounded up: a printed error is never below the certified one."""
    if not (math.isfinite(value) and value > 0):
        return f"{value:g}"
    digits = 2 - math.floor(math.log10(value))
    scale = 10.0**digits
    return f"{math.ceil(value * scale - 1e-9) / scale:.{max(digits, 0)}f}"
