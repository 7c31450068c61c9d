"""Does the declared dependence cover the dependence of training-side scores?"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sklearn_bdp._checks import check_array, check_integer
from sklearn_bdp._typing import Array, Correlation
from sklearn_bdp.correlation import (
    check_correlation,
    check_misfit,
    running_autocorrelation_time,
)
from sklearn_bdp.inspection._style import BLUE, RED, Display, finish, ink, whole_numbers


@dataclass(kw_only=True, eq=False, repr=False)
class MisfitDisplay(Display):
    r"""How many records count as one: what the model promises, what training-side scores show.

    Make it with :meth:`from_scores`. A search over a chain keeps its scores as ``misfit_scores_``.
    The curve is the
    sum of autocorrelations, :math:`1 + 2 \sum_{k \le K} \rho_k`, over the largest lag
    :math:`K`. For independent records it stays near 1. For a chain it climbs to the number of
    records that equal one independent record, the estimate at the right, and stays there: beyond
    that lag autocorrelations are mostly noise and are not added. If it climbs above the declared
    line, the model declares too little dependence and its intervals are too narrow. Regimes that
    last longer than the lags shown are found by slow swings of the scores. The estimate is then
    above the curve, and the legend says so. Only training-side numbers are drawn.

    Parameters
    ----------
    promised : float
        Records per effective record that the model promises.
    observed, error : float
        The same as the scores show it, and its standard error.
    message : str
        What the check found; empty if nothing.
    running : ndarray of shape (n_lags,)
        The curve, for lags 0, 1, ...

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
    running: Array

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
        report: Any = check_misfit(check_correlation(correlation), scores=scores)
        return cls(
            promised=float(report.promised_time),
            observed=float(report.autocorrelation_time),
            error=float(report.autocorrelation_error),
            message=report.message,
            running=_curve(report, scores, max_lag),
        ).plot(ax=ax)

    def _draw(self, ax, kwargs):
        """Draw the promise, the curve, and the estimate with three standard errors."""
        label, length = f"declared by the model: {self.promised:.1f}", len(self.running)
        ax.axhline(self.promised, color=ink(ax)[0], ls="--", lw=1.5, label=label)
        style = {"color": BLUE, "lw": 1.5, "label": "scores, summed up to this lag", **kwargs}
        ax.plot(np.arange(length), self.running, **style)
        label = f"estimate: {self.observed:.1f} ± {3 * self.error:.1f} (3 standard errors)"
        # The curve levels off at the estimate, unless slow swings show what no window sums.
        if self.observed > 1.05 * self.running[-1]:
            label = f"estimate from slow swings, beyond these lags: {self.observed:.1f}"
        style = {"color": RED, "fmt": "s", "capsize": 4, "label": label}
        ax.errorbar([1.03 * length], [self.observed], [3 * self.error], **style)
        whole_numbers(ax.xaxis)
        ax.set_xlim(0, 1.06 * length)
        names = {"xlabel": "lag (records)", "ylabel": "records that equal one independent record"}
        finish(ax, above=True, **names)
        ax.set_ylim(bottom=0)
        verdict = textwrap.fill(self.message or "no misfit found", 70)
        where = {"transform": ax.transAxes, "ha": "right", "fontsize": "small"}
        ax.text(0.97, 0.12, verdict, **where)


def _curve(report, scores, max_lag):
    """Return the sum of autocorrelations up to each lag, as the estimate stops it.

    The estimate (initial monotone sequence, Geyer 1992) adds pairs of lags until a pair is not
    positive, and lets no pair exceed one before it.
    """
    if max_lag is None:
        max_lag = max(20, int(4 * max(report.promised_time, report.autocorrelation_time)))
    lags = min(check_integer("max_lag", max_lag, low=1), len(scores) - 1)
    sums = running_autocorrelation_time(scores, lags)
    pairs = np.diff(sums[1::2], prepend=-1.0)
    pairs[np.logical_or.accumulate(pairs <= 0.0)] = 0.0
    stopped = np.cumsum(np.minimum.accumulate(pairs)) - 1.0
    at = np.arange(1, len(sums), 2)
    return np.interp(np.arange(len(sums)), np.r_[0, at], np.r_[1.0, stopped])
