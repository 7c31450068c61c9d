"""The information spent over time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sklearn_bdp._typing import Array
from sklearn_bdp.inspection._style import BLUE, RED, Display, finish, ink, whole_numbers

if TYPE_CHECKING:
    from sklearn_bdp.holdout import ReusableHoldout


@dataclass(kw_only=True, eq=False, repr=False)
class BudgetDisplay(Display):
    """Information spent, batch by batch.

    Make it with :meth:`from_holdout`. Every answer of a batch pays the same number of nats, which
    grows with what earlier answers gave away; half-widths grow like its square root.

    Parameters
    ----------
    nats : ndarray of shape (n_batches,)
        What each answer of the batch pays, in nats.
    n_answers, n_above : ndarray of int, shape (n_batches,)
        Answers in the batch, and how many of them came from the holdout.
    next_nats : float or None, default=None
        What the next single query would pay, in nats.
    remaining : int or None, default=None
        How many more answers may come from the holdout; None if that is not limited.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes of the plot.
    figure_ : matplotlib Figure
        Figure of the plot.
    line_ : matplotlib Line2D
        The information line.

    See Also
    --------
    sklearn_bdp.ReusableHoldout : Its ``history()`` is what is drawn.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> from sklearn_bdp.inspection import BudgetDisplay
    >>> history = [SimpleNamespace(batch=1, code_length=2.0, above=False),
    ...            SimpleNamespace(batch=1, code_length=2.0, above=True),
    ...            SimpleNamespace(batch=2, code_length=7.5, above=False)]
    >>> holdout = SimpleNamespace(history=lambda: history, remaining_budget=None)
    >>> display = BudgetDisplay.from_holdout(holdout)
    >>> display.n_answers.tolist(), display.n_above.tolist(), display.nats.tolist()
    ([2, 1], [1, 0], [2.0, 7.5])
    """

    nats: Array
    n_answers: Array
    n_above: Array
    next_nats: float | None = None
    remaining: int | None = None

    @classmethod
    def from_holdout(
        cls, holdout: ReusableHoldout, *, ax: Any = None, **kwargs: Any
    ) -> BudgetDisplay:
        """Draw the history of a holdout; nothing is asked and nothing spent.

        Parameters
        ----------
        holdout : ReusableHoldout
            With at least one answer.
        ax : matplotlib Axes, default=None
            Where to draw; new axes by default.
        **kwargs : dict
            Passed to :meth:`plot`.

        Returns
        -------
        BudgetDisplay
            Drawn; ``ax_`` and ``figure_`` say where.

        Raises
        ------
        TypeError, ValueError
            If ``holdout`` is not a holdout, or has no answers yet.
        """
        if not callable(getattr(holdout, "history", None)):
            raise TypeError(f"holdout must be a ReusableHoldout, got holdout={holdout!r:.60}.")
        history = holdout.history()
        if len(history) == 0:
            raise ValueError("holdout must have answered something, got an empty history.")
        batches = [record.batch for record in history]
        _, first, number = np.unique(batches, return_index=True, return_inverse=True)
        return cls(
            nats=np.array([history[int(place)].code_length for place in first], dtype=float),
            n_answers=np.bincount(number),
            n_above=np.bincount(number, weights=[bool(r.above) for r in history]).astype(int),
            next_nats=getattr(holdout, "information_spent", None),
            remaining=getattr(holdout, "remaining_budget", None),
        ).plot(ax=ax, **kwargs)

    def _draw(self, ax, kwargs):
        """Draw the information; numbers say how many answers came from the holdout."""
        dark, paper = ink(ax)
        batch, looked = np.arange(1, len(self.nats) + 1), np.flatnonzero(self.n_above)
        style = {"color": BLUE, "lw": 1.5, "marker": "o", "mfc": paper, "ms": 5}
        (self.line_,) = ax.plot(batch, self.nats, label="batch", **{**style, **kwargs})
        if looked.size:
            label = "batch with corrected answers (how many)"
            style = {"ls": "none", "marker": "s", "ms": 7, "color": dark}
            ax.plot(batch[looked], self.nats[looked], label=label, **style)
        if self.next_nats is not None:
            style = {"ls": "none", "marker": "D", "mfc": paper, "mec": RED}
            ax.plot([len(batch) + 1], [self.next_nats], label="next query", **style)
        for place in looked:
            where = {"xytext": (0, 7), "textcoords": "offset points", "ha": "center"}
            ax.annotate(f"{self.n_above[place]:,}", (batch[place], self.nats[place]), **where)
        whole_numbers(ax.xaxis)
        total, above = self.n_answers.sum(), self.n_above.sum()
        left = "" if self.remaining is None else f", {self.remaining:,} more allowed"
        finish(
            ax,
            xlabel="batch",
            ylabel="information spent (nats)",
            title=f"{total:,} answers, {above:,} corrected by the holdout{left}",
        )
        ax.title.set_fontsize("medium")
        ax.margins(y=0.15)
        ax.set_ylim(bottom=0)
