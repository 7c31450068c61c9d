"""Displays of a search and of the information spent. Matplotlib is loaded when they draw."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from sklearn_bdp._typing import Array

if TYPE_CHECKING:
    from sklearn_bdp.holdout import ReusableHoldout
    from sklearn_bdp.model_selection import ReusableHoldoutSearchCV

# Colors of Okabe and Ito, distinguishable without color vision.
BLUE = "#0072B2"
RED = "#D55E00"
GREY = "#767676"
_SHOWN = 20  # candidates that are drawn: those with the best verified scores, and the chosen one


class Display:
    """Base of the displays."""

    def plot(self, ax: Any = None, **kwargs: Any) -> Self:
        """Draw the computed values.

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
        self.figure_ = ax.figure
        self.ax_ = ax
        self._draw(ax, kwargs)
        return self

    def _draw(self, ax, kwargs):
        raise NotImplementedError


def finish(ax, *, above=False, **labels):
    """Set labels, a faint grid and a frameless legend, ``above`` the axes where it would cover."""
    ax.set(**labels)
    ax.grid(alpha=0.3, linewidth=0.5)
    ax.set_axisbelow(True)
    if above:
        ax.legend(
            frameon=False, fontsize="small", loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2
        )
    else:
        ax.legend(frameon=False, fontsize="small")


@dataclass(kw_only=True, eq=False, repr=False)
class HoldoutSearchDisplay(Display):
    """Cross-validated and verified scores of a search, over a parameter or its candidates.

    Make it with :meth:`from_search`. The vertical axis is zoomed to the scores and to the interval
    of the selected candidate. Longer intervals are cut off: they belong to candidates that trail,
    whose intervals are relaxed, because narrowing them would widen all others.

    Parameters
    ----------
    position : ndarray of shape (n_shown,)
        Places on the horizontal axis; parameter values if these are numbers, else 0, 1, 2, ...
    cv_score : ndarray of shape (n_shown,)
        Cross-validated scores, in score units.
    holdout_score, holdout_lower, holdout_upper : ndarray of shape (n_shown,)
        Verified scores and their intervals; NaN where the holdout was not queried.
    answered_from : ndarray of str, shape (n_shown,)
        ``"cv"``, ``"holdout"`` or ``"unanswered"``.
    best : int or None
        Place of the selected candidate in these arrays, if it is shown.
    tick_labels : list of str or None, default=None
        Names of the positions, if they are not numbers.
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
    cv_score: Array
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
            the best verified score represents it. By default the only parameter that was searched;
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
                "search must be fitted and have verified scores (cv_results_['holdout_score']). "
                "With holdout=None there are none."
            )
        cv_scores = results.get("cv_score", results.get("mean_test_score"))
        cv_scores = np.asarray(cv_scores, dtype=float)
        verified_scores = np.asarray(results["holdout_score"], dtype=float)
        ranking_scores = np.nan_to_num(verified_scores, nan=-np.inf)
        best = getattr(search, "best_index_", -1)
        labels = None
        if param is None:
            param = _only_parameter(results["params"])
        x_label = param
        if param is None:
            ranked_rows = np.lexsort((-cv_scores, -ranking_scores))
            shown_rows = [
                row for rank, row in enumerate(ranked_rows) if rank < _SHOWN or row == best
            ]
            position = np.arange(1, len(shown_rows) + 1)
            x_label = f"candidate, by verified score ({len(shown_rows):,} of {len(ranked_rows):,})"
        else:
            shown_rows, position, labels = _by_parameter(results, param, ranking_scores)
        refit: Any = getattr(search, "refit", None)  # of the metric that ranks
        if f"holdout_score_{refit}" not in results:
            refit = getattr(search, "scoring", None)
        default_name = refit.replace("_", " ") if isinstance(refit, str) else "score"
        return cls(
            position=position,
            cv_score=cv_scores[shown_rows],
            holdout_score=np.asarray(results["holdout_score"])[shown_rows],
            holdout_lower=np.asarray(results["holdout_lower"])[shown_rows],
            holdout_upper=np.asarray(results["holdout_upper"])[shown_rows],
            answered_from=np.asarray(results["answered_from"])[shown_rows],
            best=next((index for index, row in enumerate(shown_rows) if row == best), None),
            tick_labels=labels,
            x_label=x_label,
            score_name=score_name or default_name,
            baseline=getattr(getattr(search, "certificate_", None), "baseline", None),
        ).plot(ax=ax, **kwargs)

    def _draw(self, ax, kwargs):
        """Draw both series, the intervals, the baseline and the selected candidate."""
        from matplotlib import rcParams

        x = np.asarray(self.position, dtype=float)
        is_verified = ~np.isnan(self.holdout_score)
        text_color = rcParams["text.color"]
        background = ax.get_facecolor()
        style: dict[str, Any] = {"color": BLUE, "marker": "o", "mfc": "none", "lw": 1, "ms": 5}
        style["ls"] = "-" if self.tick_labels is None else "none"
        (self.training_line_,) = ax.plot(x, self.cv_score, label="cross-validated", **style)
        # An answer may lie outside its own interval by rounding; a bar of negative length may not.
        answers = np.array([self.holdout_lower, self.holdout_score, self.holdout_upper])
        bars = np.clip(np.diff(answers, axis=0), 0.0, None)[:, is_verified]
        style = {"fmt": "none", "ecolor": RED, "elinewidth": 1.2, "capsize": 3}
        ax.errorbar(x[is_verified], self.holdout_score[is_verified], bars, **style)
        style = {"color": RED, "marker": "s", "ls": "none", "ms": 5, **kwargs}
        label = "verified, with interval"
        (self.holdout_line_,) = ax.plot(
            x[is_verified], self.holdout_score[is_verified], label=label, **style
        )
        if (rows := self.answered_from == "holdout").any():
            style = {"label": "corrected by the holdout", "marker": "x", "c": text_color}
            ax.plot(x[rows], self.holdout_score[rows], ls="none", ms=9, **style)
        if (~is_verified).any():
            style = {"label": "not queried", "marker": "+", "c": GREY}
            ax.plot(x[~is_verified], self.cv_score[~is_verified], ls="none", ms=9, **style)
        if self.baseline is not None:
            label = f"baseline: {self.baseline:.3g}"
            ax.axhline(self.baseline, color=GREY, ls=":", lw=1.2, label=label)
        x_label = self.x_label
        if self.best is not None and is_verified[self.best]:
            low, score, high = answers[:, self.best]
            style = {"ls": "none", "marker": "*", "ms": 15, "mfc": background, "mec": text_color}
            label = f"chosen: {score:.3f} in [{low:.3f}, {high:.3f}]"
            ax.plot([x[self.best]], [score], label=label, **style)
            scores = [*self.cv_score, *self.holdout_score, low, high]
            y_min = np.nanmin(scores)
            y_max = np.nanmax(scores)
            if self.baseline is not None and 2 * y_min - y_max < self.baseline < y_min:
                y_min = self.baseline
            margin = 0.08 * (y_max - y_min) or 0.01
            ax.set_ylim(y_min - margin, y_max + margin)
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


def _by_parameter(results, param, ranking_scores):
    """Return the best row for each value of a parameter, its position, and non-numeric labels."""
    best = {}
    for row, params in enumerate(results["params"]):
        if param in params:
            _, best_row = best.setdefault(repr(params[param]), (params[param], row))
            if ranking_scores[row] > ranking_scores[best_row]:
                best[repr(params[param])] = params[param], row
    if not best:
        names = sorted({name for params in results["params"] for name in params})
        raise ValueError(f"param must be one of {', '.join(names)}, got param={param!r}.")
    values, rows = zip(*best.values(), strict=True)
    if any(isinstance(v, bool) or not isinstance(v, int | float | np.number) for v in values):
        return list(rows), np.arange(len(rows)), list(map(str, values))
    order = np.argsort(np.asarray(values, dtype=float), kind="stable")
    return np.array(rows)[order], np.asarray(values, dtype=float)[order], None


@dataclass(kw_only=True, eq=False, repr=False)
class BudgetDisplay(Display):
    """Information spent, batch by batch.

    Make it with :meth:`from_holdout`. Every answer of a batch pays the same number of nats, which
    grows with the information in earlier answers; half-widths grow like its square root.

    Parameters
    ----------
    nats : ndarray of shape (n_batches,)
        Code length that each answer of the batch pays for, in nats.
    n_answers, n_above : ndarray of int, shape (n_batches,)
        Answers in the batch, and how many of them the holdout corrected.
    next_nats : float or None, default=None
        Code length that the next single query would pay for, in nats.
    remaining : int or None, default=None
        How many more answers may be corrected; None if that is not limited.

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
    sklearn_bdp.ReusableHoldout : Its ``history()`` is drawn.

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
        _, first_rows, batch = np.unique(rows[:, 0], return_index=True, return_inverse=True)
        return cls(
            nats=rows[first_rows, 1],
            n_answers=np.bincount(batch),
            n_above=np.bincount(batch, weights=rows[:, 2]).astype(int),
            next_nats=getattr(holdout, "next_code_length", None),
            remaining=getattr(holdout, "remaining_budget", None),
        ).plot(ax=ax, **kwargs)

    def _draw(self, ax, kwargs):
        """Draw each batch's code length, labelled with the number of corrected answers."""
        from matplotlib import rcParams

        text_color = rcParams["text.color"]
        background = ax.get_facecolor()
        batch = np.arange(1, len(self.nats) + 1)
        corrected_batches = np.flatnonzero(self.n_above)
        style = {"color": BLUE, "lw": 1.5, "marker": "o", "mfc": background, "ms": 5}
        style |= kwargs
        (self.line_,) = ax.plot(batch, self.nats, label="batch", **style)
        if corrected_batches.size:
            label = "batch with corrected answers (how many)"
            style = {"ls": "none", "marker": "s", "ms": 7, "color": text_color}
            ax.plot(batch[corrected_batches], self.nats[corrected_batches], label=label, **style)
        if self.next_nats is not None:
            style = {"ls": "none", "marker": "D", "mfc": background, "mec": RED}
            ax.plot([len(batch) + 1], [self.next_nats], label="next query", **style)
        for index in corrected_batches:
            ax.annotate(
                f"{self.n_above[index]:,}",
                (batch[index], self.nats[index]),
                xytext=(0, 7),
                textcoords="offset points",
                ha="center",
            )
        ax.xaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)
        title = f"{self.n_answers.sum():,} answers, {self.n_above.sum():,} corrected by the holdout"
        if self.remaining is not None:
            title += f", {self.remaining:,} more allowed"
        finish(ax, xlabel="batch", ylabel="code length of a query (nats)", title=title)
        ax.title.set_fontsize("medium")
        ax.margins(y=0.15)
        ax.set_ylim(bottom=0)
