"""Does the declared dependence cover what the training side shows?"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from sklearn_bdp._checks import check_array, check_integer
from sklearn_bdp._typing import Array, Correlation
from sklearn_bdp.correlation import (
    check_correlation,
    check_misfit,
    running_autocorrelation_time,
)
from sklearn_bdp.inspection._style import BLUE, RED, Display, finish, whole_numbers

if TYPE_CHECKING:
    from sklearn_bdp.model_selection import ReusableHoldoutSearchCV


@dataclass(kw_only=True, eq=False, repr=False)
class MisfitDisplay(Display):
    r"""How many records count as one: what the model promises, what training-side scores show.

    Make it with :meth:`from_scores`, :meth:`from_search` or :meth:`from_report`. The curve is the
    sum of autocorrelations, :math:`1 + 2 \sum_{k \le K} \rho_k`, over the largest lag
    :math:`K`; for independent records it stays near 1, for a chain it climbs to the number of
    records that count as one. Where it climbs above the promised line, the model declares too
    little dependence and its intervals are too narrow. The estimate (drawn at the right) stops
    summing where autocorrelations are mostly noise. Only training-side numbers are drawn.

    Parameters
    ----------
    promised : float
        Records per effective record that the model promises.
    observed, error : float
        The same as the scores show it, and its standard error.
    message : str
        What the check found; empty if nothing.
    running : ndarray of shape (n_lags,) or None, default=None
        The curve, for lags 0, 1, ...; None where the scores are not known any more.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes of the plot.
    figure_ : matplotlib Figure
        Figure of the plot.

    See Also
    --------
    sklearn_bdp.correlation.check_misfit : The check behind the picture.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_bdp.inspection import MisfitDisplay
    >>> errors = np.repeat(np.random.default_rng(0).random(300), 10)
    >>> display = MisfitDisplay.from_scores([[0.6, 0.4], [0.4, 0.6]], errors)
    >>> round(display.promised, 2), display.observed > 8
    (1.5, True)
    """

    promised: float
    observed: float
    error: float
    message: str
    running: Array | None = None

    @classmethod
    def from_report(
        cls, report: Any, *, running: Array | None = None, ax: Any = None
    ) -> MisfitDisplay:
        """Draw the report of a check.

        Parameters
        ----------
        report : MisfitReport
            Of a check that was given scores.
        running : ndarray of shape (n_lags,), default=None
            The curve, if known.
        ax : matplotlib Axes, default=None
            Where to draw; new axes by default.

        Returns
        -------
        MisfitDisplay
            Drawn; ``ax_`` and ``figure_`` say where.

        Raises
        ------
        ValueError
            If the report is not about scores.
        """
        if getattr(report, "autocorrelation_time", None) is None:
            raise ValueError(
                "report must come from a check that was given scores (check_misfit(scores=...)), "
                f"got {report!r}."
            )
        return cls(
            promised=float(report.promised_time),
            observed=float(report.autocorrelation_time),
            error=float(report.autocorrelation_error),
            message=report.message,
            running=running,
        ).plot(ax=ax)

    @classmethod
    def from_scores(
        cls,
        correlation: Correlation,
        scores: ArrayLike,
        *,
        max_lag: int | None = None,
        ax: Any = None,
    ) -> MisfitDisplay:
        """Check per-record training-side scores against a correlation.

        Parameters
        ----------
        correlation : correlation
            Whatever ``correlation=`` takes.
        scores : array-like of shape (n_records,)
            Per-record scores in time, for example cross-validation errors.
        max_lag : int, default=None
            Largest lag of the curve; by default four times as many as count as one, at least 20.
        ax : matplotlib Axes, default=None
            Where to draw; new axes by default.

        Returns
        -------
        MisfitDisplay
            Drawn; ``ax_`` and ``figure_`` say where.
        """
        scores = check_array("scores", scores, ndim=1)
        report = check_misfit(check_correlation(correlation), scores=scores)
        return cls.from_report(report, running=_curve(report, scores, max_lag), ax=ax)

    @classmethod
    def from_search(cls, search: ReusableHoldoutSearchCV, *, ax: Any = None) -> MisfitDisplay:
        """Draw the check that a search made.

        Parameters
        ----------
        search : ReusableHoldoutSearchCV
            Fitted, with a chain as correlation.
        ax : matplotlib Axes, default=None
            Where to draw; new axes by default.

        Returns
        -------
        MisfitDisplay
            Drawn; ``ax_`` and ``figure_`` say where.

        Raises
        ------
        ValueError
            If the search made no such check.
        """
        report = getattr(search, "misfit_report_", None)
        if report is None:
            raise ValueError(
                "search must be fitted with a chain as correlation, got no misfit_report_."
            )
        scores = getattr(search, "misfit_scores_", None)
        return cls.from_report(report, running=_curve(report, scores), ax=ax)

    def _draw(self, ax):
        """Draw the promise, the estimate with three standard errors, and the curve."""
        label = f"promised by the model: 1 record in {self.promised:.1f} counts"
        ax.axhline(self.promised, color="black", ls="--", lw=1.5, label=label)
        place, limits, name = 0.0, (-0.5, 0.5), ""
        if self.running is not None:
            length = len(self.running)
            label = "scores, summed up to this lag"
            ax.plot(np.arange(length), self.running, color=BLUE, lw=1.5, label=label)
            place, limits, name = 1.03 * length, (0, 1.06 * length), "lag (records)"
            whole_numbers(ax.xaxis)
        ax.errorbar(
            [place],
            [self.observed],
            [3 * self.error],
            color=RED,
            fmt="s",
            capsize=4,
            label=f"estimate: 1 in {self.observed:.1f} (bar: 3 standard errors)",
        )
        if self.running is None:
            ax.set_xticks([])
        ax.set_xlim(*limits)
        finish(ax, xlabel=name or "training-side scores", ylabel="records that count as one")
        ax.set_ylim(bottom=0)
        verdict = self.message or "no misfit found"
        ax.set_title(textwrap.fill(verdict, 70), fontsize="medium")


def _curve(report, scores, max_lag=None):
    """Return the running time up to a lag that shows whether it levels off, or None."""
    if scores is None:
        return None
    if max_lag is None:
        max_lag = max(20, int(4 * max(report.promised_time, report.autocorrelation_time)))
    return running_autocorrelation_time(
        scores, min(check_integer("max_lag", max_lag, low=1), len(scores) - 1)
    )
