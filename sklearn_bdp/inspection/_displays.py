"""Displays of a search and of the information spent. Matplotlib is imported to draw them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from sklearn_bdp._typing import Array

if TYPE_CHECKING:
    from sklearn_bdp.holdout import ReusableHoldout
    from sklearn_bdp.model_selection import ReusableHoldoutSearchCV

# Blue and red of Okabe and Ito, which differ also to people who are color-blind, and a gray.
BLUE = "#0072B2"
RED = "#D55E00"
GREY = "#767676"
#: Largest number of candidates that are drawn, besides the selected one.
_MAX_CANDIDATES = 20


class Display:
    """Base class of displays."""

    def plot(self, ax: Any = None, **kwargs: Any) -> Self:
        """Draw the computed values.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on. If None, new axes are made.
        **kwargs : dict
            Passed to ``plot`` of the main line.

        Returns
        -------
        Display
            The display itself, with ``ax_`` and ``figure_``.

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
        """Draw on axes; ``kwargs`` are for ``plot`` of the main line."""
        raise NotImplementedError


def finish(ax, *, above=False, **labels):
    """Set labels, a faint grid and a frameless legend of axes.

    ``labels``: keyword arguments of ``ax.set``; ``above``: whether the legend is above the axes.
    """
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

    Make it with :meth:`from_search`. If the selected candidate is verified, the vertical axis is
    zoomed to the scores and to its interval. Longer intervals may be cut off, such as relaxed ones:
    those of candidates that trail stay wide, because narrower ones would widen all others.

    Parameters
    ----------
    position : ndarray of shape (n_shown,)
        Positions on the horizontal axis: values of a numeric parameter, else consecutive integers.
    cv_score : ndarray of shape (n_shown,)
        Cross-validated scores, in score units.
    holdout_score, holdout_lower, holdout_upper : ndarray of shape (n_shown,)
        Columns of ``cv_results_``: verified scores and the ends of their intervals, in score units.
    answered_from : ndarray of str, shape (n_shown,)
        ``"cv"``, ``"holdout"``, or ``"unanswered"`` for scores that are not verified.
    best : int or None
        Index of the selected candidate in these arrays; None if it is not shown.
    tick_labels : list of str or None, default=None
        Labels of the positions; None: the positions are shown as numbers.
    x_label : str, default="candidate"
        Name of the horizontal axis.
    score_name : str, default="score"
        Name of the vertical axis.
    baseline : float or None, default=None
        Score of a constant prediction: the proportion of the largest class for accuracy, one
        divided by the number of classes for balanced accuracy, 1/2 for ROC AUC, None for other
        metrics. A zoomed axis is extended to it if its distance below the shown scores is less than
        their range. The legend shows it in any case.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes of the plot.
    figure_ : matplotlib Figure
        Figure of the plot.
    training_line_, holdout_line_ : matplotlib artists
        Series of cross-validated and of verified scores.

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
            Parameter on the horizontal axis. Of several candidates with the same value, the one
            with the best verified score is shown. By default, it is the only parameter with several
            values. If there is no such parameter, the best twenty candidates and the selected one
            are shown in the order of their verified scores.
        score_name : str, default=None
            Name of the score; by default that of the metric that ranks, or "score" without a name.
        ax : matplotlib Axes, default=None
            Axes to draw on. If None, new axes are made.
        **kwargs : dict
            Passed to ``plot`` of the verified scores.

        Returns
        -------
        HoldoutSearchDisplay
            The display, drawn on ``ax_``.

        Raises
        ------
        ValueError
            If the search has no verified scores or no such parameter.
        ImportError
            If matplotlib is not installed.
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
        is_answered = np.asarray(results["answered_from"]) != "unanswered"
        ranking_scores = np.where(is_answered, np.nan_to_num(verified_scores, nan=-np.inf), -np.inf)
        selected_row = getattr(search, "best_index_", -1)
        tick_labels = None
        if param is None:
            param = _only_parameter(results["params"])
        x_label = param
        if param is None:
            shown_rows = _leading_rows(ranking_scores, cv_scores, selected_row)
            position = np.arange(1, len(shown_rows) + 1)
            x_label = f"candidate, by verified score ({len(shown_rows):,} of {len(cv_scores):,})"
        else:
            shown_rows, position, tick_labels = _by_parameter(results, param, ranking_scores)
        return cls(
            position=position,
            cv_score=cv_scores[shown_rows],
            holdout_score=np.asarray(results["holdout_score"])[shown_rows],
            holdout_lower=np.asarray(results["holdout_lower"])[shown_rows],
            holdout_upper=np.asarray(results["holdout_upper"])[shown_rows],
            answered_from=np.asarray(results["answered_from"])[shown_rows],
            best=next((index for index, row in enumerate(shown_rows) if row == selected_row), None),
            tick_labels=tick_labels,
            x_label=x_label,
            score_name=score_name or _default_score_name(search),
            baseline=getattr(getattr(search, "certificate_", None), "baseline", None),
        ).plot(ax=ax, **kwargs)

    def _draw(self, ax, kwargs):
        """Draw the scores and, if known, the baseline and the selected candidate.

        ``kwargs``: for ``plot`` of the verified scores.
        """
        from matplotlib import rcParams

        x = np.asarray(self.position, dtype=float)
        is_verified = ~np.isnan(self.holdout_score) & (self.answered_from != "unanswered")
        text_color = rcParams["text.color"]
        background = ax.get_facecolor()
        style: dict[str, Any] = {"color": BLUE, "marker": "o", "mfc": "none", "lw": 1, "ms": 5}
        style["ls"] = "-" if self.tick_labels is None else "none"
        (self.training_line_,) = ax.plot(x, self.cv_score, label="cross-validated", **style)
        # A score may be outside its interval by a rounding error. Lengths of bars are at least 0.
        verified_ends = np.array([self.holdout_lower, self.holdout_score, self.holdout_upper])
        bars = np.clip(np.diff(verified_ends, axis=0), 0.0, None)[:, is_verified]
        style = {"fmt": "none", "ecolor": RED, "elinewidth": 1.2, "capsize": 3}
        ax.errorbar(x[is_verified], self.holdout_score[is_verified], bars, **style)
        style = {"color": RED, "marker": "s", "ls": "none", "ms": 5, **kwargs}
        label = "verified, with interval"
        (self.holdout_line_,) = ax.plot(
            x[is_verified], self.holdout_score[is_verified], label=label, **style
        )
        if (is_corrected := self.answered_from == "holdout").any():
            style = {"label": "corrected by the holdout", "marker": "x", "c": text_color}
            ax.plot(x[is_corrected], self.holdout_score[is_corrected], ls="none", ms=9, **style)
        if (~is_verified).any():
            style = {"label": "not verified", "marker": "+", "c": GREY}
            ax.plot(x[~is_verified], self.cv_score[~is_verified], ls="none", ms=9, **style)
        if self.baseline is not None:
            label = f"baseline: {self.baseline:.3g}"
            ax.axhline(self.baseline, color=GREY, ls=":", lw=1.2, label=label)
        x_label = self.x_label
        if self.best is not None and is_verified[self.best]:
            low, score, high = verified_ends[:, self.best]
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
            lengths = (self.holdout_upper - self.holdout_lower)[is_verified]
            if np.nanmax(lengths) > 1.3 * (high - low):
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


def _default_score_name(search):
    """Return the name of the metric that ranks, without underscores, or "score"."""
    # With several metrics, ``refit`` is the name of the one that ranks.
    metric_name: Any = getattr(search, "refit", None)
    if f"holdout_score_{metric_name}" not in search.cv_results_:
        metric_name = getattr(search, "scoring", None)
    return metric_name.replace("_", " ") if isinstance(metric_name, str) else "score"


def _leading_rows(ranking_scores, cv_scores, selected_row):
    """Return the rows with the highest ranking scores and the selected row, best first.

    Among equal ranking scores, rows with higher cross-validated scores come first.
    """
    ranked_rows = np.lexsort((-cv_scores, -ranking_scores))
    return [
        row for rank, row in enumerate(ranked_rows) if rank < _MAX_CANDIDATES or row == selected_row
    ]


def _only_parameter(params_of_candidates):
    """Return the name of the only parameter with several values, None if there is not exactly one.

    ``params_of_candidates``: list of the candidates' parameters by name.
    """
    names = {name for params in params_of_candidates for name in params}
    value_texts_by_name = {
        name: {repr(params.get(name)) for params in params_of_candidates} for name in names
    }
    searched_names = [name for name in names if len(value_texts_by_name[name]) > 1]
    return searched_names[0] if len(searched_names) == 1 else None


def _by_parameter(results, param, ranking_scores):
    """Return rows of ``cv_results_`` to show, their positions on the axis, and labels or None.

    There is one row for each value of ``param``, the one with the best ranking score. If all values
    are numbers, they are the positions, in ascending order, and labels are None. Otherwise
    positions are consecutive integers. Raises ValueError if no candidate has this parameter.
    ``results``: ``cv_results_``; ``ranking_scores``: score of each row, the highest is the best.
    """
    values_and_best_rows = {}  # by text of the value
    for row, params in enumerate(results["params"]):
        if param in params:
            value_text = repr(params[param])
            _, best_row = values_and_best_rows.setdefault(value_text, (params[param], row))
            if ranking_scores[row] > ranking_scores[best_row]:
                values_and_best_rows[value_text] = params[param], row
    if not values_and_best_rows:
        names = sorted({name for params in results["params"] for name in params})
        raise ValueError(f"param must be one of {', '.join(names)}, got param={param!r}.")
    values, rows = zip(*values_and_best_rows.values(), strict=True)
    if any(
        isinstance(value, bool) or not isinstance(value, int | float | np.number)
        for value in values
    ):
        return list(rows), np.arange(len(rows)), list(map(str, values))
    order = np.argsort(np.asarray(values, dtype=float), kind="stable")
    return np.array(rows)[order], np.asarray(values, dtype=float)[order], None


@dataclass(kw_only=True, eq=False, repr=False)
class BudgetDisplay(Display):
    """Shortest code lengths of the answers of a holdout, by batch.

    Make it with :meth:`from_holdout`. Queries of one batch may have different code lengths, which
    are longer for later ranks. Code lengths grow with the information in earlier answers, and
    half-widths grow about with the square roots of code lengths.

    Parameters
    ----------
    nats : ndarray of shape (n_batches,)
        Shortest code length of an answer of the batch, in nats.
    n_answers, n_above : ndarray of int, shape (n_batches,)
        Number of answers in the batch, and of those that the holdout corrected.
    next_nats : float or None, default=None
        Code length of the next single query, in nats; None if it is unknown.
    remaining : int or None, default=None
        Number of answers that may still be corrected; None if it is not limited.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes of the plot.
    figure_ : matplotlib Figure
        Figure of the plot.
    line_ : matplotlib Line2D
        Line of code lengths.

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
        """Draw the history of a holdout, which is not queried.

        Parameters
        ----------
        holdout : ReusableHoldout
            A holdout with at least one answer.
        ax : matplotlib Axes, default=None
            Axes to draw on. If None, new axes are made.
        **kwargs : dict
            Passed to ``plot`` of the line of code lengths.

        Returns
        -------
        BudgetDisplay
            The display, drawn on ``ax_``.

        Raises
        ------
        TypeError, ValueError
            If ``holdout`` is not a holdout, or has no answers yet.
        ImportError
            If matplotlib is not installed.
        """
        if not callable(getattr(holdout, "history", None)):
            raise TypeError(f"holdout must be a ReusableHoldout, got holdout={holdout!r:.60}.")
        history = holdout.history()
        if len(history) == 0:
            raise ValueError("holdout must have answered something, got an empty history.")
        batch_of_answers, code_lengths, is_corrected = np.array(
            [(answer.batch, answer.code_length, bool(answer.corrected)) for answer in history],
            dtype=float,
        ).T
        batches, batch_indices = np.unique(batch_of_answers, return_inverse=True)
        nats = np.full(len(batches), np.inf)
        np.minimum.at(nats, batch_indices, code_lengths)
        return cls(
            nats=nats,
            n_answers=np.bincount(batch_indices),
            n_above=np.bincount(batch_indices, weights=is_corrected).astype(int),
            next_nats=getattr(holdout, "next_code_length", None),
            remaining=getattr(holdout, "remaining_budget", None),
        ).plot(ax=ax, **kwargs)

    def _draw(self, ax, kwargs):
        """Draw the shortest code length of each batch, and the numbers of corrected answers.

        ``kwargs``: for ``plot`` of the line of code lengths.
        """
        from matplotlib import rcParams

        text_color = rcParams["text.color"]
        background = ax.get_facecolor()
        batch_numbers = np.arange(1, len(self.nats) + 1)
        corrected_indices = np.flatnonzero(self.n_above)
        style = {"color": BLUE, "lw": 1.5, "marker": "o", "mfc": background, "ms": 5}
        style |= kwargs
        (self.line_,) = ax.plot(batch_numbers, self.nats, label="batch", **style)
        if corrected_indices.size:
            label = "batch with corrected answers (how many)"
            style = {"ls": "none", "marker": "s", "ms": 7, "color": text_color}
            ax.plot(
                batch_numbers[corrected_indices], self.nats[corrected_indices], label=label, **style
            )
        if self.next_nats is not None:
            style = {"ls": "none", "marker": "D", "mfc": background, "mec": RED}
            ax.plot([len(batch_numbers) + 1], [self.next_nats], label="next query", **style)
        for index in corrected_indices:
            ax.annotate(
                f"{self.n_above[index]:,}",
                (batch_numbers[index], self.nats[index]),
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
