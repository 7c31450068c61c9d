"""How many holdout records a goal needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from sklearn_bdp._checks import check_array, check_integer
from sklearn_bdp._typing import Array
from sklearn_bdp.inspection._style import GREY, LINES, finish, name_level, new_axes
from sklearn_bdp.planning import plan_holdout


@dataclass(kw_only=True, eq=False, repr=False)
class PlanDisplay:
    """Records needed over the error wanted, for several correlations.

    Make it with :meth:`from_estimates`.

    Parameters
    ----------
    tau : ndarray of shape (n_points,)
        Errors, in score units of a score in [0, 1].
    n_records : dict of str to ndarray of shape (n_points,)
        Records needed, for each correlation; infinite where no number suffices.
    n_queries, budget : int
        Queries, and how many of them may be answered from the holdout.
    beta : float
        Failure probability over all answers together.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes of the plot.
    figure_ : matplotlib Figure
        Figure of the plot.
    lines_ : list of matplotlib Line2D
        One line for each correlation.

    See Also
    --------
    sklearn_bdp.plan_holdout : The planner behind each point.

    Examples
    --------
    >>> from sklearn_bdp.inspection import PlanDisplay
    >>> chain = [[0.9, 0.1], [0.2, 0.8]]
    >>> display = PlanDisplay.from_estimates(
    ...     [0.05, 0.1], {"independent": None, "chain": chain},
    ...     n_queries=100, budget=1, route="transcript")
    >>> bool((display.n_records["chain"] > display.n_records["independent"]).all())
    True
    """

    tau: Array
    n_records: dict[str, Array]
    n_queries: int
    budget: int
    beta: float

    @classmethod
    def from_estimates(
        cls,
        tau: ArrayLike,
        correlations: Mapping[str, Any],
        *,
        n_queries: int,
        budget: int,
        beta: float = 0.05,
        c: float = 0.5,
        route: str = "best",
        n_available: int | None = None,
        ax: Any = None,
    ) -> PlanDisplay:
        """Plan a holdout for each error and each correlation.

        Parameters
        ----------
        tau : array-like of shape (n_points,)
            Errors, each in (0, 1/2).
        correlations : dict of str to correlation
            Name of each line and what :func:`~sklearn_bdp.plan_holdout` takes as ``correlation``.
        n_queries, budget : int
            Queries, and how many of them may be answered from the holdout.
        beta : float, default=0.05
            Failure probability over all answers together.
        c : float, default=0.5
            Training values that overfit by less than ``c * tau`` do not spend budget.
        route : str, default="best"
            Theorem to use, as for :func:`~sklearn_bdp.plan_holdout`.
        n_available : int, default=None
            Draw a line at so many records: what you have.
        ax : matplotlib Axes, default=None
            Where to draw; new axes by default.

        Returns
        -------
        PlanDisplay
            Drawn; ``ax_`` and ``figure_`` say where.

        Raises
        ------
        TypeError, ValueError
            If ``correlations`` is not a non-empty dict, ``tau`` is empty, or the planner refuses.
        """
        errors = np.unique(check_array("tau", tau, ndim=1)).tolist()
        if not errors:
            raise ValueError("tau must hold at least one error, got none.")
        if not isinstance(correlations, dict) or not correlations:
            raise TypeError(
                "correlations must be a non-empty dict of names to correlations, "
                f"got {type(correlations).__name__}."
            )
        goal: dict[str, Any] = {"n_queries": n_queries, "budget": budget, "beta": beta}
        needed = {
            name: np.array(
                [plan_holdout(tau=t, correlation=model, c=c, route=route, **goal) for t in errors],
                dtype=float,
            )
            for name, model in correlations.items()
        }
        made = cls(tau=np.array(errors), n_records=needed, **goal)
        return made.plot(ax=ax, n_available=n_available)

    def plot(self, ax: Any = None, *, n_available: int | None = None) -> Self:
        """Draw records over error, both on logarithmic scales.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; new axes by default.
        n_available : int, default=None
            Draw a line at so many records: what you have.

        Returns
        -------
        PlanDisplay
            Itself.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        """
        if n_available is not None:
            n_available = check_integer("n_available", n_available, low=1)
        self.figure_, self.ax_ = new_axes(ax, type(self).__name__)
        ax = self.ax_
        self.lines_ = []
        for index, (name, needed) in enumerate(self.n_records.items()):
            style = LINES[index % len(LINES)]
            self.lines_ += ax.plot(self.tau, needed, label=name, ms=4, **style)
        if n_available is not None:
            ax.axhline(n_available, color=GREY, lw=1)
            name_level(ax, n_available, f"{n_available:,} records", color=GREY)
        ax.set(xscale="log", yscale="log")
        self._tick_errors(ax)
        finish(
            ax,
            xlabel="error of every answer, tau",
            ylabel="holdout records needed",
            title=f"{self.n_queries:,} queries, {self.budget:,} from the holdout, "
            f"failure probability {self.beta:g}",
        )
        ax.title.set_fontsize("medium")
        return self

    def _tick_errors(self, ax):
        """Plain numbers under the points: tau spans too little for powers of ten."""
        step = -(-len(self.tau) // 8)
        ticks = self.tau[::step]
        ax.set_xticks(ticks, [f"{t:.2g}" for t in ticks])
        ax.set_xticks([], minor=True)
