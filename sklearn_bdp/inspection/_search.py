"""Cross-validated and verified scores of a search."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sklearn_bdp._typing import Array
from sklearn_bdp.inspection._style import BLUE, GREY, RED, Display, finish, ink, whole_numbers

if TYPE_CHECKING:
    from sklearn_bdp.model_selection import ReusableHoldoutSearchCV

_SHOWN = 20  # candidates that are drawn: those with the best verified scores, and the chosen one


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
        ``"training"``, ``"holdout"`` or ``"unanswered"``.
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
    ...     "answered_from": np.array(["training", "holdout"]),
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
        series = _released(results)
        verified = np.where(np.isnan(series["holdout_score"]), -np.inf, series["holdout_score"])
        best, labels = getattr(search, "best_index_", -1), None
        x_label = param = _only_parameter(results["params"]) if param is None else param
        if param is None:
            rows = np.lexsort((-series["training_score"], -verified))
            shown = [row for place, row in enumerate(rows) if place < _SHOWN or row == best]
            position = np.arange(1, len(shown) + 1)
            x_label = f"candidate, by verified score ({len(shown):,} of {len(rows):,})"
        else:
            shown, position, labels = _by_parameter(results, param, verified)
        place = np.flatnonzero(np.asarray(shown) == best)
        made = cls(
            **{name: values[shown] for name, values in series.items()},
            position=position,
            best=int(place[0]) if place.size else None,
            tick_labels=labels,
            x_label=x_label,
            score_name=score_name or _score_name(search, results),
            baseline=getattr(getattr(search, "certificate_", None), "baseline", None),
        )
        return made.plot(ax=ax, **kwargs)

    def _draw(self, ax, kwargs):
        """Draw both series, the intervals, the baseline and the chosen candidate."""
        x, asked = np.asarray(self.position, dtype=float), ~np.isnan(self.holdout_score)
        dark, paper = ink(ax)
        style: dict[str, Any] = {"color": BLUE, "marker": "o", "mfc": "none", "lw": 1, "ms": 5}
        style["ls"] = "-" if self.tick_labels is None else "none"
        (self.training_line_,) = ax.plot(x, self.training_score, label="cross-validated", **style)
        # An answer may lie outside its own interval by rounding; a bar of negative length may not.
        ends = [self.holdout_score - self.holdout_lower, self.holdout_upper - self.holdout_score]
        bars = np.clip(ends, 0.0, None)[:, asked]
        style = {"fmt": "none", "ecolor": RED, "elinewidth": 1.2, "capsize": 3}
        ax.errorbar(x[asked], self.holdout_score[asked], bars, **style)
        style = {"color": RED, "marker": "s", "ls": "none", "ms": 5, **kwargs}
        label = "verified, with interval"
        (self.holdout_line_,) = ax.plot(x[asked], self.holdout_score[asked], label=label, **style)
        looked = self.answered_from == "holdout"
        for label, rows, scores, style in (
            ("corrected by the holdout", looked, self.holdout_score, {"marker": "x", "c": dark}),
            ("not queried", ~asked, self.training_score, {"marker": "+", "c": GREY}),
        ):
            if rows.any():
                ax.plot(x[rows], scores[rows], label=label, ls="none", ms=9, **style)
        if self.baseline is not None:
            label = f"baseline: {self.baseline:.3g}"
            ax.axhline(self.baseline, color=GREY, ls=":", lw=1.2, label=label)
        x_label = self.x_label
        if self.best is not None and asked[self.best]:
            score, low, high = (
                values[self.best]
                for values in (self.holdout_score, self.holdout_lower, self.holdout_upper)
            )
            style = {"ls": "none", "marker": "*", "ms": 15, "mfc": paper, "mec": dark}
            label = f"chosen: {score:.3f} in [{low:.3f}, {high:.3f}]"
            ax.plot([x[self.best]], [score], label=label, **style)
            self._zoom(ax, low, high)
            if np.nanmax(self.holdout_upper - self.holdout_lower) > 1.3 * (high - low):
                x_label += "\n(longer intervals: candidates that trail, relaxed)"
        if self.tick_labels is not None:
            ax.set_xticks(x, self.tick_labels)
            ax.set_xlim(x.min() - 0.5, x.max() + 0.5)
            ax.tick_params(axis="x", rotation=30 * (sum(map(len, self.tick_labels)) > 60))
        elif self.x_label.startswith("candidate"):
            whole_numbers(ax.xaxis)
        elif len(x) > 2 and x.min() > 0 and x.max() / x.min() >= 100:
            ax.set_xscale("log")
        finish(ax, above=True, xlabel=x_label, ylabel=self.score_name)

    def _zoom(self, ax, lower, upper):
        """Show the scores and the chosen interval, and the baseline unless it is far below."""
        known = [*self.training_score, *self.holdout_score, lower, upper]
        low, high = np.nanmin(known), np.nanmax(known)
        if self.baseline is not None and self.baseline > 2 * low - high:
            low = min(low, self.baseline)
        edge = 0.08 * (high - low) or 0.01
        ax.set_ylim(low - edge, high + edge)


def _released(results):
    """Return the series of the metric that ranks."""
    known = results.get("training_score", results.get("mean_test_score"))
    series = {"training_score": np.asarray(known, dtype=float)}
    for name in ("holdout_score", "holdout_lower", "holdout_upper"):
        series[name] = np.asarray(results[name], dtype=float)
    series["answered_from"] = np.asarray(results["answered_from"], dtype=str)
    return series


def _score_name(search, results):
    """Return the name of the metric that ranks."""
    refit = getattr(search, "refit", None)
    name = refit if f"holdout_score_{refit}" in results else getattr(search, "scoring", None)
    return name.replace("_", " ") if isinstance(name, str) else "score"


def _only_parameter(candidates):
    """Return the one parameter with several values among the candidates, or None."""
    names = {name for params in candidates for name in params}
    values = {name: {repr(params.get(name)) for params in candidates} for name in names}
    searched = [name for name in names if len(values[name]) > 1]
    return searched[0] if len(searched) == 1 else None


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
