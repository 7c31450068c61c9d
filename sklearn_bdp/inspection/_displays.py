"""Displays of a search and of what a holdout has spent; matplotlib is loaded when they draw."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from sklearn_bdp._typing import Array

if TYPE_CHECKING:
    from sklearn_bdp.holdout import ReusableHoldout
    from sklearn_bdp.model_selection import ReusableHoldoutSearchCV

#: Colours of Okabe and Ito: told apart without colour vision.
BLUE, RED = "#0072B2", "#D55E00"
GREY = "#767676"
_SHOWN = 20  # candidates that are drawn: those with the best verified scores, and the chosen one


class Display:
    """Base of the displays."""

    def plot(self, ax: Any = None, **kwargs: Any) -> Self:
        """Draw what was computed.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; new axes by default.
        **kwargs : dict
            Passed to ``plot`` of the main line.

        Returns
        -------
        Display
            Itself; ``ax_`` and ``figure_`` say where.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        """
        if ax is None:
            try:
                import matplotlib.pyplot as plt
            except ImportError as error:
                needs = "needs matplotlib: pip install 'sklearn-bdp[plot]'"
                raise ImportError(f"{type(self).__name__}.plot {needs}.") from error
            _, ax = plt.subplots(layout="constrained")
        self.figure_, self.ax_ = ax.figure, ax
        self._draw(ax, kwargs)
        return self

    def _draw(self, ax, kwargs):
        raise NotImplementedError


def finish(ax, *, above=False, **labels):
    """Set labels, a faint grid and a frameless legend, ``above`` the axes where it would cover."""
    ax.set(**labels)
    ax.grid(alpha=0.3, linewidth=0.5)
    ax.set_axisbelow(True)
    place = {"loc": "lower center", "bbox_to_anchor": (0.5, 1.0), "ncols": 2} if above else {}
    ax.legend(frameon=False, fontsize="small", **place)


@dataclass(kw_only=True, eq=False, repr=False)
class HoldoutSearchDisplay(Display):
    """Cross-validated and verified scores of a search, over a parameter or its candidates.

    Make it with :meth:`from_search`. The vertical axis is zoomed to the scores and to the interval
    of the chosen candidate. Longer intervals are cut off: they belong to candidates that trail,
    whose intervals are relaxed, because narrowing them would widen all others.

    Parameters
    ----------
    position : ndarray of shape (n_shown,)
        Places on the horizontal axis; parameter values if these are numbers, else 0, 1, 2, ...
    training_score : ndarray of shape (n_shown,)
        Cross-validated scores, in score units.
    holdout_score, holdout_lower, holdout_upper : ndarray of shape (n_shown,)
        Verified scores and their intervals; NaN where the holdout was not queried.
    answered_from : ndarray of str, shape (n_shown,)
        ``"cv"``, ``"holdout"`` or ``"unanswered"``.
    best : int or None
        Place of the chosen candidate in these arrays, if it is shown.
    tick_labels : list of str or None, default=None
        Names of the places, where they are not numbers.
    x_label : str, default="candidate"
        Name of the horizontal axis.
    score_name : str, default="score"
        Name of the vertical axis.
    baseline : float or None, default=None
        Score of a constant prediction: the share of the largest class, 1/2 for ROC AUC, none for
        other metrics. The axis shows it unless it is far below all scores; the legend always
        does.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes of the plot.
    figure_ : matplotlib Figure
        Figure of the plot.
    training_line_, holdout_line_ : matplotlib artists
        The two series.

    See Also
    --------
    sklearn_bdp.ReusableHoldoutSearchCV : The search.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> import numpy as np
    >>> from sklearn_bdp.inspection import HoldoutSearchDisplay
    >>> results = {
    ...     "params": [{"C": 0.1}, {"C": 1.0}], "param_C": np.array([0.1, 1.0]),
    ...     "mean_test_score": np.array([0.7, 0.8]), "holdout_score": np.array([0.7, 0.78]),
    ...     "holdout_lower": np.array([0.65, 0.74]), "holdout_upper": np.array([0.75, 0.82]),
    ...     "answered_from": np.array(["cv", "holdout"]),
    ... }
    >>> search = SimpleNamespace(cv_results_=results, best_index_=1)
    >>> display = HoldoutSearchDisplay.from_search(search)
    >>> display.x_label, display.position.tolist(), display.best
    ('C', [0.1, 1.0], 1)
    """

    position: Array
    training_score: Array
    holdout_score: Array
    holdout_lower: Array
    holdout_upper: Array
    answered_from: Array
    best: int | None
    tick_labels: list[str] | None = None
    x_label: str = "candidate"
    score_name: str = "score"
    baseline: float | None = None

    @classmethod
    def from_search(
        cls,
        search: ReusableHoldoutSearchCV,
        *,
        param: str | None = None,
        score_name: str | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> HoldoutSearchDisplay:
        """Draw a fitted search; only released numbers are used.

        Parameters
        ----------
        search : ReusableHoldoutSearchCV
            Fitted, with a holdout.
        param : str, default=None
            Show scores over this parameter. Where several candidates share a value, the one with
            the best verified score stands for it. By default the only parameter that was searched;
            where there are several, the best twenty candidates are shown in the order of their
            verified scores.
        score_name : str, default=None
            Name of the score; by default that of the search's ``scoring``.
        ax : matplotlib Axes, default=None
            Where to draw; new axes by default.
        **kwargs : dict
            Passed to ``plot`` of the verified scores.

        Returns
        -------
        HoldoutSearchDisplay
            Drawn; ``ax_`` and ``figure_`` say where.

        Raises
        ------
        ValueError
            If the search has no verified scores or no such parameter.
        """
        results = getattr(search, "cv_results_", None)
        if results is None or "holdout_score" not in results:
            raise ValueError(
                "search must be fitted and have verified scores (cv_results_['holdout_score']); "
                "with holdout=None there are none."
            )
        known = results.get("training_score", results.get("mean_test_score"))
        training, verified = (np.asarray(v, dtype=float) for v in (known, results["holdout_score"]))
        ranked = np.nan_to_num(verified, nan=-np.inf)
        best, labels = getattr(search, "best_index_", -1), None
        x_label = param = _only_parameter(results["params"]) if param is None else param
        if param is None:
            rows = np.lexsort((-training, -ranked))
            shown = [row for place, row in enumerate(rows) if place < _SHOWN or row == best]
            position = np.arange(1, len(shown) + 1)
            x_label = f"candidate, by verified score ({len(shown):,} of {len(rows):,})"
        else:
            shown, position, labels = _by_parameter(results, param, ranked)
        refit: Any = getattr(search, "refit", None)  # of the metric that ranks
        if f"holdout_score_{refit}" not in results:
            refit = getattr(search, "scoring", None)
        by_default = refit.replace("_", " ") if isinstance(refit, str) else "score"
        names = "holdout_score", "holdout_lower", "holdout_upper", "answered_from"
        told: dict[str, Any] = {name: np.asarray(results[name])[shown] for name in names}
        return cls(
            position=position,
            training_score=training[shown],
            **told,
            best=next((place for place, row in enumerate(shown) if row == best), None),
            tick_labels=labels,
            x_label=x_label,
            score_name=score_name or by_default,
            baseline=getattr(getattr(search, "certificate_", None), "baseline", None),
        ).plot(ax=ax, **kwargs)

    def _draw(self, ax, kwargs):
        """Draw both series, the intervals, the baseline and the chosen candidate."""
        from matplotlib import rcParams

        x, asked = np.asarray(self.position, dtype=float), ~np.isnan(self.holdout_score)
        dark, paper = rcParams["text.color"], ax.get_facecolor()
        style: dict[str, Any] = {"color": BLUE, "marker": "o", "mfc": "none", "lw": 1, "ms": 5}
        style["ls"] = "-" if self.tick_labels is None else "none"
        (self.training_line_,) = ax.plot(x, self.training_score, label="cross-validated", **style)
        # An answer may lie outside its own interval by rounding; a bar of negative length may not.
        answers = np.array([self.holdout_lower, self.holdout_score, self.holdout_upper])
        bars = np.clip(np.diff(answers, axis=0), 0.0, None)[:, asked]
        style = {"fmt": "none", "ecolor": RED, "elinewidth": 1.2, "capsize": 3}
        ax.errorbar(x[asked], self.holdout_score[asked], bars, **style)
        style = {"color": RED, "marker": "s", "ls": "none", "ms": 5, **kwargs}
        label = "verified, with interval"
        (self.holdout_line_,) = ax.plot(x[asked], self.holdout_score[asked], label=label, **style)
        if (rows := self.answered_from == "holdout").any():
            style = {"label": "corrected by the holdout", "marker": "x", "c": dark}
            ax.plot(x[rows], self.holdout_score[rows], ls="none", ms=9, **style)
        if (~asked).any():
            style = {"label": "not queried", "marker": "+", "c": GREY}
            ax.plot(x[~asked], self.training_score[~asked], ls="none", ms=9, **style)
        if self.baseline is not None:
            label = f"baseline: {self.baseline:.3g}"
            ax.axhline(self.baseline, color=GREY, ls=":", lw=1.2, label=label)
        x_label = self.x_label
        if self.best is not None and asked[self.best]:
            low, score, high = answers[:, self.best]
            style = {"ls": "none", "marker": "*", "ms": 15, "mfc": paper, "mec": dark}
            label = f"chosen: {score:.3f} in [{low:.3f}, {high:.3f}]"
            ax.plot([x[self.best]], [score], label=label, **style)
            known = [*self.training_score, *self.holdout_score, low, high]
            least, most = np.nanmin(known), np.nanmax(known)
            if self.baseline is not None and 2 * least - most < self.baseline < least:
                least = self.baseline
            edge = 0.08 * (most - least) or 0.01
            ax.set_ylim(least - edge, most + edge)
            if np.nanmax(self.holdout_upper - self.holdout_lower) > 1.3 * (high - low):
                x_label += "\n(longer intervals: candidates that trail, relaxed)"
        if self.tick_labels is not None:
            ax.set_xticks(x, self.tick_labels)
            ax.set_xlim(x.min() - 0.5, x.max() + 0.5)
            ax.tick_params(axis="x", rotation=30 * (sum(map(len, self.tick_labels)) > 60))
        elif self.x_label.startswith("candidate"):
            ax.xaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)
        elif len(x) > 2 and x.min() > 0 and x.max() / x.min() >= 100:
            ax.set_xscale("log")
        finish(ax, above=True, xlabel=x_label, ylabel=self.score_name)


def _only_parameter(candidates):
    """Return the one parameter with several values among the candidates, or None."""
    names = {name for params in candidates for name in params}
    values = {name: {repr(params.get(name)) for params in candidates} for name in names}
    searched = [name for name in names if len(values[name]) > 1]
    return searched[0] if len(searched) == 1 else None


def _by_parameter(results, param, ranked):
    """Return the best row for each value of a parameter, the places, and labels for non-numbers."""
    best = {}
    for row, params in enumerate(results["params"]):
        if param in params:
            _, first = best.setdefault(repr(params[param]), (params[param], row))
            if ranked[row] > ranked[first]:
                best[repr(params[param])] = params[param], row
    if not best:
        known = sorted({name for row in results["params"] for name in row})
        raise ValueError(f"param must be one of {', '.join(known)}, got param={param!r}.")
    values, rows = zip(*best.values(), strict=True)
    if any(isinstance(v, bool) or not isinstance(v, int | float | np.number) for v in values):
        return list(rows), np.arange(len(rows)), list(map(str, values))
    order = np.argsort(np.asarray(values, dtype=float), kind="stable")
    return np.array(rows)[order], np.asarray(values, dtype=float)[order], None


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
    >>> history = [SimpleNamespace(batch=1, code_length=2.0, corrected=False),
    ...            SimpleNamespace(batch=1, code_length=2.0, corrected=True),
    ...            SimpleNamespace(batch=2, code_length=7.5, corrected=False)]
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
        rows = np.array([(r.batch, r.code_length, bool(r.corrected)) for r in history], dtype=float)
        _, first, number = np.unique(rows[:, 0], return_index=True, return_inverse=True)
        return cls(
            nats=rows[first, 1],
            n_answers=np.bincount(number),
            n_above=np.bincount(number, weights=rows[:, 2]).astype(int),
            next_nats=getattr(holdout, "information_spent", None),
            remaining=getattr(holdout, "remaining_budget", None),
        ).plot(ax=ax, **kwargs)

    def _draw(self, ax, kwargs):
        """Draw the information; numbers say how many answers came from the holdout."""
        from matplotlib import rcParams

        dark, paper = rcParams["text.color"], ax.get_facecolor()
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
        where = {"xytext": (0, 7), "textcoords": "offset points", "ha": "center"}
        for place in looked:
            ax.annotate(f"{self.n_above[place]:,}", (batch[place], self.nats[place]), **where)
        ax.xaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)
        total, above = self.n_answers.sum(), self.n_above.sum()
        title = f"{total:,} answers, {above:,} corrected by the holdout"
        title += "" if self.remaining is None else f", {self.remaining:,} more allowed"
        finish(ax, xlabel="batch", ylabel="information spent (nats)", title=title)
        ax.title.set_fontsize("medium")
        ax.margins(y=0.15)
        ax.set_ylim(bottom=0)
