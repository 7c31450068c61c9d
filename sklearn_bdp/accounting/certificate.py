"""`Certificate`: a guarantee in advance, with its probability, its assumptions and advice."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from sklearn_bdp.utils.html import Card, RenderedResult, format_half_width

ROUTE_NAMES = {
    "bdp": "leakage (Bayesian differential privacy, G1)",
    "transcript": "counting of transcripts (G2)",
}


@dataclass(frozen=True)
class Certificate(RenderedResult):
    r"""Guarantee about the answers of a mechanism, stated before there is data.

    With probability at least ``1 - beta`` every answer, up to and including the one that spends
    the last of ``budget``, differs from its expectation by at most ``tau``.

    Parameters
    ----------
    tau : float
        Certified error for scores in [0, 1], at most 1; for other scores a fraction of their range.
    beta : float
        Failure probability of all answers together.
    route : str
        Argument of the proof: ``"transcript"`` (counting of transcripts, G2) or ``"bdp"``
        (leakage, G1).
    dp_epsilon, bdp_epsilon : float
        Level of ordinary and of Bayesian differential privacy of the whole transcript, in nats;
        ``inf`` if no finite level is claimed.
    n : int
        Number of holdout records.
    n_effective : float
        Effective sample size.
    sampling : float
        Component of ``tau`` for the difference between the holdout score and its expectation.
    noise : float
        Component of ``tau`` for noise: the larger of the margins of "below" and "above" answers.
    threshold : float or None
        Component of ``tau`` for the threshold T; ``None`` if the mechanism has no threshold.
    mechanism : object
        Certified mechanism, ready to answer; ``None`` if there is none.
    assumptions : tuple of str
        Assumptions of the guarantee.
    n_queries, budget : int or None
        Largest number m of queries and B of answers from the holdout; ``None``: no limit.
    c : float or None
        Queries whose training value differs from the expectation by less than ``c * tau`` spend no
        budget (with the same probability); ``None``: not guaranteed.
    resolution : float
        Width of the cells of released answers, 0 without cells.
    correlation : str
        Description of the dependence of records.
    advice : tuple of str
        Changes that would reduce the error.
    notes : tuple of str
        Further remarks.

    See Also
    --------
    sklearn_bdp.certify : Returns this.
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

    @property
    def is_vacuous(self) -> bool:
        """Whether the guarantee is vacuous: an error of 1/2 or more."""
        return not self.tau < 0.5

    def _card(self):
        if self.is_vacuous:
            title = vacuous_title(self.n, format_half_width(self.tau))
        else:
            subject = "The answer" if self.n_queries == 1 else "Every answer"
            error_text = format_half_width(self.tau)
            title = f"{subject} is within ±{error_text} of the expected score on new records."
        events = "all are correct"
        if self.n_queries == 1:
            events = "this interval is correct"
        elif self.n_queries is not None:
            events = f"all {self.n_queries:,} are correct"
        holdout = holdout_text(self.n, self.n_effective, self.correlation)
        lines = [
            f"Confidence: at least {100 * (1 - self.beta):.6g}% that {events}. Holdout: {holdout}."
        ]
        if self.advice:
            lines.append(self.advice[0])
        sections = [
            ("It holds if", self.assumptions),
            ("Note", self.notes),
            ("Details", list(self._details())),
        ]
        return Card(title, lines, sections, good=not self.is_vacuous)

    def _details(self):
        """Yield a label and a text for each line of the details of the certificate."""
        yield "proved by", ROUTE_NAMES.get(self.route, self.route)
        yield "correlation", self.correlation or "independent records"
        if self.budget is not None:
            yield "answers from the holdout", f"{self.budget:,}"
        if self.c is not None and not self.is_vacuous:
            error_text = f"{self.c * self.tau:.3g}"
            yield (
                "budget honesty",
                f"a cross-validated score off by less than {error_text} spends none",
            )
        components = f"sampling {self.sampling:.3g}, noise {self.noise:.3g}"
        if self.threshold is not None:
            components += f", threshold {self.threshold:.3g}"
        yield "parts", components
        if self.resolution > 0:
            yield "answers rounded to", f"cells of {self.resolution:.3g}"
        yield "privacy of the holdout", privacy_text(self.dp_epsilon, self.bdp_epsilon)


def vacuous_title(n: int, error_text: str, *, of_range: str = "") -> str:
    """Return the first line of a certificate whose error is 1/2 or more.

    ``n`` is the number of holdout records, and ``error_text`` the error. ``of_range`` is
    "of the range " for scores outside [0, 1].
    """
    return (
        f"Vacuous: with {n:,} records the certified error is {error_text}. An error "
        f"of 0.5 or more {of_range}says nothing."
    )


def holdout_text(n: int, n_effective: float, correlation: str) -> str:
    """Return the number of holdout records as text, with the effective sample size if dependent.

    ``correlation`` is the description of their dependence. If it starts with the number of
    records, the text contains the remainder.
    """
    if correlation in ("", "independent records"):
        return f"{n:,} independent records"
    structure = ""
    if correlation.startswith(f"{n} records "):
        structure = f"{correlation.removeprefix(f'{n} records ')}, "
    n_decimals = 0 if n_effective >= 10.0 else 1
    effective_number = f"{n_effective:,.{n_decimals}f}"
    return f"{n:,} records {structure}worth about {effective_number} independent ones"


def privacy_text(dp_epsilon: float, bdp_epsilon: float) -> str:
    """Return the levels of ordinary and of Bayesian differential privacy, in nats, as text.

    If ``dp_epsilon`` is not finite, the text states that no level is claimed.
    """
    if not math.isfinite(dp_epsilon):
        return "none: no finite level is claimed"
    return f"ε′ = {dp_epsilon:.4g} (DP), ε = {bdp_epsilon:.4g} (Bayesian DP)"
