"""A search: what the training side said, and what the holdout verified."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from sklearn_bdp._checks import check_option
from sklearn_bdp._typing import Array
from sklearn_bdp.inspection._style import (
    BLUE,
    GREY,
    RED,
    finish,
    ink,
    new_axes,
    whole_numbers,
)

if TYPE_CHECKING:
    from sklearn_bdp.model_selection import ReusableHoldoutSearchCV

_DENSE = 60  # from so many candidates on, intervals are drawn as a band


@dataclass(kw_only=True, eq=False, repr=False)
class HoldoutSearchDisplay:
    """Training-side and verified scores of a search, over its candidates or a parameter.

    Make it with :meth:`from_search`.

    Parameters
    ----------
    position : ndarray of shape (n_shown,)
        Places on the horizontal axis; parameter values if these are numbers, else 0, 1, 2, ...
    training_score : ndarray of shape (n_shown,)
        Training-side scores, in score units.
    holdout_score, holdout_lower, holdout_upper : ndarray of shape (n_shown,)
        Verified scores and their intervals; NaN where the holdout was not asked.
    answered_from : ndarray of str, shape (n_shown,)
        ``"training"``, ``"holdout"`` or ``"unanswered"``.
    best : int or None
        Place of the chosen candidate in these arrays, if it is shown.
    tick_labels : list of str or None, default=None
        Names of the places, where they are not numbers.
    x_label : str, default="candidate"
        Name of the horizontal axis.
    score_name : str, default="score"
        Name of the vertical axis.

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
    ...     "answered_from": np.array(["training", "holdout"]),
    ... }
    >>> search = SimpleNamespace(cv_results_=results, best_index_=1)
    >>> display = HoldoutSearchDisplay.from_search(search, param="C")
    >>> display.position.tolist(), display.best
    ([0.1, 1.0], 1)
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

    @classmethod
    def from_search(
        cls,
        search: ReusableHoldoutSearchCV,
        *,
        param: str | None = None,
        order: Literal["verified", "training", "grid"] = "verified",
        metric: str | None = None,
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
            the best verified score stands for it. By default all candidates are shown.
        order : {"verified", "training", "grid"}, default="verified"
            Order of the candidates when no parameter is given: best verified score first, best
            training-side score first, or as in ``cv_results_``.
        metric : str, default=None
            Which of several verified metrics; by default the one that ranks.
        score_name : str, default=None
            Name of the score; by default what the search's ``scoring`` says.
        ax : matplotlib Axes, default=None
            Where to draw; new axes by default.
        **kwargs : dict
            Passed to :meth:`plot`.

        Returns
        -------
        HoldoutSearchDisplay
            Drawn; ``ax_`` and ``figure_`` say where.

        Raises
        ------
        ValueError
            If the search has no verified scores or no such parameter.
        """
        check_option("order", order, ("verified", "training", "grid"))
        results = getattr(search, "cv_results_", None)
        if results is None or "holdout_score" not in results:
            raise ValueError(
                "search must be fitted and have verified scores (cv_results_['holdout_score']); "
                "with holdout=None there are none."
            )
        series = _released(results, metric)
        verified = np.where(np.isnan(series["holdout_score"]), -np.inf, series["holdout_score"])
        if param is None:
            shown, position, labels = _by_rank(order, verified, series["training_score"])
        else:
            shown, position, labels = _by_parameter(results, param, verified)
        best = np.flatnonzero(shown == getattr(search, "best_index_", -1))
        if score_name is None:
            refit = getattr(search, "refit", None)
            ranks = refit if f"holdout_score_{refit}" in results else None
            names = (metric, getattr(search, "scoring", None), ranks)
            score_name = next((n for n in names if isinstance(n, str)), "score").replace("_", " ")
        ranked = {"verified": "verified score", "training": "training-side score"}.get(order)
        by_rank = f"candidate, by {ranked}" if ranked else "candidate"
        made = cls(
            **{name: values[shown] for name, values in series.items()},
            position=position,
            best=int(best[0]) if best.size else None,
            tick_labels=labels,
            x_label=by_rank if param is None else param,
            score_name=score_name,
        )
        return made.plot(ax=ax, **kwargs)

    def plot(
        self,
        ax: Any = None,
        *,
        training_kw: dict[str, Any] | None = None,
        holdout_kw: dict[str, Any] | None = None,
    ) -> Self:
        """Draw the two series, the intervals and the chosen candidate.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; new axes by default.
        training_kw, holdout_kw : dict, default=None
            Passed to the ``plot`` call of the two series.

        Returns
        -------
        HoldoutSearchDisplay
            Itself.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        """
        self.figure_, self.ax_ = new_axes(ax, type(self).__name__)
        ax = self.ax_
        x, asked = np.asarray(self.position, dtype=float), ~np.isnan(self.holdout_score)
        dense = len(x) > _DENSE
        size, line = 3 if dense else 5, "-" if self.tick_labels is None else "none"
        style: dict[str, Any] = {"color": BLUE, "marker": "o", "mfc": "none", "lw": 1}
        style.update(ms=size, ls=line)
        (self.training_line_,) = ax.plot(
            x, self.training_score, label="training side", **{**style, **(training_kw or {})}
        )
        self._draw_intervals(ax, x, asked, dense)
        style = {"color": RED, "marker": "s", "ls": "none", "ms": 2.5 if dense else 5}
        (self.holdout_line_,) = ax.plot(
            x[asked],
            self.holdout_score[asked],
            label="verified, with interval",
            **{**style, **(holdout_kw or {})},
        )
        looked = self.answered_from == "holdout"
        if looked.any():
            ax.plot(
                x[looked],
                self.holdout_score[looked],
                ls="none",
                marker="x",
                ms=9,
                color=ink(ax)[0],
                label="answered from the holdout",
            )
        if not asked.all():
            ax.plot(
                x[~asked], self.training_score[~asked], "+", color=GREY, ms=8, label="not asked"
            )
        if self.best is not None and asked[self.best]:
            self._mark_best(ax, x[self.best])
        self._scale(ax, x)
        finish(ax, above=True, xlabel=self.x_label, ylabel=self.score_name)
        return self

    def _draw_intervals(self, ax, x, asked, dense):
        low, high = self.holdout_lower, self.holdout_upper
        if dense:
            ax.fill_between(x, low, high, where=asked, color=RED, alpha=0.2, lw=0, step="mid")
            return
        middle = self.holdout_score
        # An answer may lie outside its own interval by rounding; a bar of negative length may not.
        bars = np.clip([middle - low, high - middle], 0.0, None)
        ax.errorbar(
            x[asked], middle[asked], bars[:, asked], fmt="none", ecolor=RED, elinewidth=1, capsize=3
        )

    def _mark_best(self, ax, x):
        score = self.holdout_score[self.best]
        ax.plot(
            [x],
            [score],
            ls="none",
            marker="*",
            ms=15,
            mfc=ink(ax)[1],
            mec=ink(ax)[0],
            zorder=5,
            label=f"chosen: {score:.3f} in [{self.holdout_lower[self.best]:.3f}, "
            f"{self.holdout_upper[self.best]:.3f}]",
        )

    def _scale(self, ax, x):
        if self.tick_labels is not None:
            ax.set_xticks(x, self.tick_labels)
            ax.set_xlim(x.min() - 0.5, x.max() + 0.5)
            if sum(map(len, self.tick_labels)) > 60:
                ax.tick_params(axis="x", rotation=30)
        elif self.x_label.startswith("candidate"):
            whole_numbers(ax.xaxis)
        elif len(x) > 2 and x.min() > 0 and x.max() / x.min() >= 100:
            ax.set_xscale("log")


def _released(results, metric):
    """Return the series of the metric that ranks, or of another one that was verified."""
    end = "" if metric is None else f"_{metric}"
    if f"holdout_score{end}" not in results:
        start = "holdout_score_"
        verified = [name.removeprefix(start) for name in results if name.startswith(start)]
        raise ValueError(f"metric must be one that was verified, {verified}, got {metric!r}.")
    known = results.get("training_score", results.get("mean_test_score"))
    if metric is not None:
        known = results.get(f"mean_test_{metric}", np.full(len(known), np.nan))
    series = {"training_score": np.asarray(known, dtype=float)}
    for name in ("holdout_score", "holdout_lower", "holdout_upper"):
        series[name] = np.asarray(results[f"{name}{end}"], dtype=float)
    series["answered_from"] = np.asarray(results[f"answered_from{end}"], dtype=str)
    return series


def _by_rank(order, verified, training):
    """Return rows in display order, their places 1, 2, ... and no labels."""
    rows = np.arange(len(verified))
    if order == "verified":
        rows = np.lexsort((-training, -verified))
    elif order == "training":
        rows = np.argsort(-training, kind="stable")
    return rows, np.arange(1, len(rows) + 1), None


def _by_parameter(results, param, verified):
    """Return the best row for each value of a parameter, the places, and labels for non-numbers."""
    if not any(param in row for row in results["params"]):
        known = sorted({name for row in results["params"] for name in row})
        raise ValueError(f"param must be one of {', '.join(known)}, got param={param!r}.")
    best = {}
    for row, params in enumerate(results["params"]):
        if param in params:
            text = repr(params[param])
            if text not in best or verified[row] > verified[best[text][0]]:
                best[text] = row, params[param]
    rows = np.array([row for row, _ in best.values()])
    values = [value for _, value in best.values()]
    if all(isinstance(v, int | float | np.number) and not isinstance(v, bool) for v in values):
        order = np.argsort(np.asarray(values, dtype=float), kind="stable")
        return rows[order], np.asarray(values, dtype=float)[order], None
    return rows, np.arange(len(rows)), [str(value) for value in values]
