"""Rows, text, card and plots of a final report."""

from __future__ import annotations

import dataclasses
import math
import re
import string
import textwrap
from typing import Any, Literal, NamedTuple, Self

import numpy as np

from sklearn_bdp.intervals.jackknife import HEAVY_NOTE
from sklearn_bdp.report.methods_section import methods_section
from sklearn_bdp.utils.html import (
    BAD_COLOR,
    GOOD_COLOR,
    Card,
    RenderedResult,
    explain_half_width,
    format_score,
    interval_svg,
    summary_sentence,
)

#: Names of fields by their names in a ledger, if they differ: a ledger keeps its names for life.
FIELD_NAMES = {
    "parts": "half_width_components",
    "level": "alpha_proven",
    "approximate_level": "alpha_approximate",
    "information_spent": "code_length",
}

_UNDERCOVERAGE = (
    "Approximate intervals may undercover if rare, large losses are absent from the sample."
)


class ReportRow(NamedTuple):
    """One row of a final report, in score units."""

    model: str  # the name of a model, or "b minus a" for a difference, "b against a" for a skill
    metric: str
    subgroup: str  # empty for all records, or the difference of two, such as "sex=m minus sex=f"
    value: float  # NaN if it is undefined
    #: Ends of the proven interval, and of the approximate one; None without such an interval.
    proven: tuple[float, float] | None
    approximate: tuple[float, float] | None
    lower: float  # the proven ends, else the approximate ones; NaN without either
    upper: float
    method: str  # method of the proven interval, or of the approximate one
    target: str  # the quantity that the intervals estimate
    n_units: int  # number of sampling units, such as groups, with a record in the row
    n_events: int | None  # those units with a positive record; None without a positive class
    #: Components of the proven half-width: sampling, earlier queries, noise. Empty without one.
    half_width_components: tuple[float, ...] = ()
    positive: str = ""  # the class that is counted, as text; empty without one
    notes: tuple[str, ...] = ()
    #: Pairs of the number of hits and of records, for a Clopper-Pearson interval; one pair for each
    #: class if the score is a mean of recalls, and that of the Jaccard index for F1. For ROC AUC,
    #: the number of positive records and of all records that the proven limits are computed from.
    counts: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, content: dict[str, Any], target: str) -> Self:
        """Return the row from its content in a ledger.

        ``target``: estimated quantity in words, unless the content has one.
        """
        fields: dict[str, Any] = {
            FIELD_NAMES.get(name, name): tuple(value) if isinstance(value, list) else value
            for name, value in content.items()
        }
        lower, upper = fields["proven"] or fields["approximate"] or (math.nan, math.nan)
        if fields["value"] is None:
            fields["value"] = math.nan
        fields["counts"] = tuple(map(tuple, fields.get("counts", ())))
        return cls(**({"target": target} | fields), lower=lower, upper=upper)

    @property
    def words(self) -> str:
        """Metric, positive class, model and subgroup, as one text."""
        positive = f" (class {self.positive})" * bool(self.positive)
        subgroup = f", {self.subgroup}" * bool(self.subgroup)
        return f"{self.metric}{positive} of {self.model}{subgroup}"

    @property
    def printed_notes(self) -> list[str]:
        """Notes on the row, without those on few errors, rare large losses, and refused intervals.

        An interval is refused if a proven row has no approximate interval.
        """
        unprinted = [FEW_ERRORS, HEAVY_NOTE]
        return [
            note
            for note in self.notes
            if note not in unprinted and not note.startswith(NO_APPROXIMATE)
        ]


@dataclasses.dataclass(frozen=True)
class FinalReport(RenderedResult):
    """Final scores and intervals of one or several models.

    Parameters
    ----------
    rows : tuple of ReportRow
        Rows, each with up to two intervals: a proven one and an approximate one.
    confidence_level : float
        Minimum probability that all proven intervals the holdout ever gave are correct. With
        ``joint=False``, minimum probability that any one proven interval of this report is.
    n : int
        Number of holdout records.
    n_answered, n_above, n_batches : int
        Queries answered before, how many of them were corrected by the holdout, and in how many
        batches.
    code_length : float
        Code length of the report in nats: the failure probability of each proven row is reduced by
        the factor ``exp(-code_length)``, for earlier answers and for the spending of a report.
    alpha_proven : float
        Failure probability of each proven row.
    alpha_approximate : float or None
        Nominal failure probability of each approximate row; None for a report through noise, which
        has no such rows.
    units : tuple of (int, str)
        Number of sampling units, and their name in the plural.
    per : {"unit", "record"}
        Units that have equal weights in each score.
    baseline : str or None
        The model that others are compared with.
    refit : str
        How often the recipe was refitted, in words; empty for fitted models.
    joint : bool
        Whether all proven intervals have simultaneous coverage, and so have all approximate ones.
        If False, each interval has its coverage by itself.
    positives : tuple of (str, int) or None
        The positive class as text, such as ``"class 1"``, and the number of its records; None
        without such a class, and for a report through noise.
    spending : str
        How the failure probability was divided among batches and the report, in words.
    assumptions : tuple of str
        Assumptions of the intervals.
    time : str
        When the holdout was closed, ISO 8601, UTC.
    version : str
        Version of this package that computed the report; empty if it was not recorded.

    See Also
    --------
    sklearn_bdp.ReusableHoldout.final_report : Returns this.
    sklearn_bdp.accounting.Certificate : The guarantee behind it.

    Notes
    -----
    A pickle contains no holdout record. Scores over time (:meth:`plot`) need the process that made
    the report.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.model_selection import train_test_split
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from sklearn_bdp import ReusableHoldout
    >>> parts = train_test_split(*load_breast_cancer(return_X_y=True), random_state=0)
    >>> tree = DecisionTreeClassifier(max_depth=3, random_state=0).fit(parts[0], parts[2])
    >>> report = ReusableHoldout(parts[1], parts[3], random_state=0).final_report(tree)
    >>> [row] = report.rows
    >>> row.metric, bool(row.lower < row.value < row.upper)
    ('accuracy', True)
    """

    rows: tuple[ReportRow, ...]
    confidence_level: float
    n: int
    n_answered: int
    n_above: int
    n_batches: int
    code_length: float
    alpha_proven: float
    alpha_approximate: float | None
    units: tuple[int, str]
    per: str
    baseline: str | None
    refit: str
    spending: str
    assumptions: tuple[str, ...]
    time: str
    joint: bool = True
    positives: tuple[str, int] | None = None
    version: str = ""
    #: In time, in the process that made the report: returns the dates, and the scores of the first
    #: metric by date, by position of each row about one model. None if they are not known.
    _over_time: Any = dataclasses.field(default=None, repr=False, compare=False)

    def __getstate__(self):
        return vars(self) | {"_over_time": None}

    @property
    def value(self) -> float:
        """The first row's score; NaN if it is undefined."""
        return self.rows[0].value

    @property
    def lower(self) -> float:
        """Lower end of the first row's interval; NaN without an interval."""
        return self.rows[0].lower

    @property
    def upper(self) -> float:
        """Upper end of the first row's interval; NaN without an interval."""
        return self.rows[0].upper

    @property
    def interval(self) -> tuple[float, float]:
        """The first row's interval: the proven one, else the approximate one, else two NaN."""
        return self.lower, self.upper

    def to_frame(self) -> Any:
        """Return the rows as a table (needs pandas).

        Returns
        -------
        pandas.DataFrame
            One row for each element of ``rows``, with its fields as columns.
        """
        import pandas as pd  # optional: only for this view

        return pd.DataFrame(self.rows, columns=ReportRow._fields)

    def methods(self) -> str:
        """Return sentences for the methods section of a paper.

        Returns
        -------
        str
            Sample size and positives, earlier use of the holdout, the first estimate with its
            interval and target, and coverage and methods of intervals. Losses are positive.
        """
        _, legend = _short_model_names([row.model for row in self.rows])
        has_several_models = len(legend) > 1
        letter_by_model_name = {model: letter for letter, model in legend if has_several_models}
        return methods_section(self, letter_by_model_name)

    def _lines(self):
        """Yield sentences on the guarantees of intervals, on earlier queries, and on refitting."""
        confidence = f"{100 * self.confidence_level:.6g}%"
        has_proven = any(row.proven is not None for row in self.rows)
        has_approximate = any(row.approximate is not None for row in self.rows)
        if not self.joint:
            failure = f"{100 * (1 - self.confidence_level):.6g}%"
            subject = "Each interval" if has_proven else "Each approximate interval"
            yield (
                f"{subject} by itself misses its target with probability at most {failure}. A row "
                "that is selected after reading, such as the best one, has no such guarantee "
                "(joint=True gives it)."
            )
        elif has_proven:
            yield (
                "Simultaneous coverage of all proven intervals, of this report and earlier: at "
                f"least {confidence}."
            )
        if has_approximate and not self.joint:
            yield _UNDERCOVERAGE
        elif has_approximate:
            of_both_families = ""
            if has_proven:
                confidence_of_both = f"{100 * (2 * self.confidence_level - 1):.6g}%"
                of_both_families = f" Of both families: about {confidence_of_both}."
            yield (
                f"Nominal simultaneous coverage of the approximate intervals: {confidence}."
                f"{of_both_families} {_UNDERCOVERAGE}"
            )
        query_noun = "query" if self.n_answered == 1 else "queries"
        yield (
            f"Evaluated before: {self.n_answered:,} {query_noun} on {self.n:,} records, "
            f"{self.n_above:,} corrected by the holdout. The holdout was closed on "
            f"{self.time[:10]} and accepts no new query."
        )
        if self.rows[0].half_width_components:
            n_rows = sum(bool(row.half_width_components) for row in self.rows)
            yield explain_half_width(
                self.rows[0].half_width_components, n_rows=n_rows if self.joint else 1
            )
        yield (
            f"The report is about the recipe, refitted {self.refit} on all records known by then."
            if self.refit
            else "The report is about the model fitted on the training set. To use all rows, "
            "refit: clone(model).fit(X, y). That model is expected to be about as good or slightly "
            "better; no interval is proven for it."
        )

    def _card(self):
        """Return the :class:`Card` with the first row as title, and sections for all rows."""
        first = self.rows[0]
        if math.isfinite(first.lower):
            interval_kind = f"{100 * self.confidence_level:.6g}% confidence interval"
            if first.proven is None:
                interval_kind = f"approximate {interval_kind}"
            title = summary_sentence(
                first.words,
                format_score(first.value),
                *self.interval,
                target=first.target,
                interval_kind=interval_kind,
            )
        else:
            notes_text = " ".join(first.notes)
            title = f"{first.words}: {format_score(first.value)}. No interval: {notes_text}"
        bounds = (0.0, 1.0) if first.lower >= 0.0 and first.upper <= 1.0 else None
        svg = interval_svg(first.value, *self.interval, bounds=bounds)
        columns, legend, notes = self._table()
        sections = [("", columns), ("", legend), ("", notes), ("It holds if", self.assumptions)]
        return Card(title, list(self._lines()), sections, svg)

    def _table(self):
        """Return a dict of columns by heading, a legend, and numbered notes, for a table of rows.

        The legend has pairs of a short text in the table and its meaning.
        """
        model_names, model_legend = _short_model_names([row.model for row in self.rows])
        metric_names, metric_legend = _short_metric_names(self.rows)
        columns = {"model": model_names, "metric": metric_names}
        if any(row.subgroup for row in self.rows):
            columns["subgroup"] = [row.subgroup for row in self.rows]
        estimands = list(dict.fromkeys(row.target for row in self.rows))
        estimand_legend = []
        if len(estimands) > 1:  # such as one day ahead, and when the forecast was made
            columns["estimand"] = [f"({estimands.index(row.target) + 1})" for row in self.rows]
            estimand_legend = [
                (f"({number})", estimand) for number, estimand in enumerate(estimands, 1)
            ]
        columns["score"] = [format_score(row.value) for row in self.rows]
        for family in _FAMILIES:
            intervals = [getattr(row, family) for row in self.rows]
            if any(interval is not None for interval in intervals):
                columns[f"{family} interval"] = [_format_interval(ends) for ends in intervals]
        marks, notes = _numbered_notes([row.printed_notes for row in self.rows])
        if notes:
            columns["notes"] = marks
        return columns, model_legend + estimand_legend + metric_legend, notes

    def plot(self, *, over: Literal["time"] | None = None, ax: Any = None) -> Any:
        """Draw the intervals of all rows, or a score over time (needs matplotlib).

        Parameters
        ----------
        over : {"time"}, default=None
            If ``"time"``, draw the first metric's scores of at most two models by date, and their
            intervals as bands. This needs records in time, a proven first row, and the process that
            made the report. By default, draw proven intervals thin and approximate ones thick, and
            mark the baseline.
        ax : matplotlib Axes, default=None
            Axes to draw on; new ones by default.

        Returns
        -------
        matplotlib Axes
            The axes with the plot.

        Raises
        ------
        ValueError
            If ``over`` is neither None nor ``"time"``, or if it is ``"time"`` and the scores over
            time are not known.
        """
        import matplotlib.pyplot as plt  # optional: only for this view

        if over is not None and (over != "time" or self._over_time is None):
            raise ValueError(
                "over must be None or 'time', which needs a report on a mean over records in time "
                f"(correlation='time') in the process that made it, got over={over!r}."
            )
        ax = plt.subplots(layout="constrained")[1] if ax is None else ax
        if over == "time":
            self._plot_over_time(ax)
            return ax
        for family, width, color in zip(
            _FAMILIES, (1.5, 5.0), (GOOD_COLOR, BAD_COLOR), strict=True
        ):
            self._plot_intervals(ax, family, linewidth=width, color=color)
        self._plot_scores(ax)
        ax.set_yticks(range(len(self.rows)), [row.words for row in self.rows])
        ax.invert_yaxis()
        ax.set_xlabel("score and intervals")
        if ax.get_legend_handles_labels()[0]:
            ax.legend(fontsize="small")
        return ax

    def _plot_intervals(self, ax, family, *, linewidth, color):
        """Draw one line for the interval of each row that has one, at the position of the row.

        ``family``: "proven" or "approximate".
        """
        intervals = [getattr(row, family) for row in self.rows]
        positions = [position for position, ends in enumerate(intervals) if ends is not None]
        if positions:
            lower, upper = zip(*(intervals[position] for position in positions), strict=True)
            ax.hlines(positions, lower, upper, color, linewidth=linewidth, alpha=0.6, label=family)

    def _plot_scores(self, ax):
        """Draw a dot at each score, and lines at 0 of each difference and at the baseline."""
        for position, row in enumerate(self.rows):
            ax.plot(row.value, position, "o", color="black", markersize=4)
            if " minus " in row.model + row.subgroup:
                ax.plot([0.0, 0.0], [position - 0.4, position + 0.4], color="gray", linestyle=":")
        baselines = [row for row in self.rows if row.model == self.baseline and not row.subgroup]
        for row in baselines[:1]:
            ax.axvline(row.value, color="gray", linestyle="--", linewidth=1.0, label="baseline")

    def _plot_over_time(self, ax):
        """Draw the scores of at most two models by date, moving means, and bands of intervals."""
        dates, scores_by_row_index = self._over_time()
        scores_and_colors = zip(scores_by_row_index.items(), _MODEL_COLORS, strict=False)
        n_averaged_dates = max(1, len(dates) // 20)
        kernel = np.full(n_averaged_dates, 1.0 / n_averaged_dates)
        for (row_index, date_scores), color in scores_and_colors:
            row = self.rows[row_index]
            model_text = "\n".join(textwrap.wrap(row.model, _LABEL_WIDTH))
            moving_mean = np.convolve(date_scores, kernel, "valid")
            ax.plot(dates, date_scores, ".", color=color, alpha=0.3)
            label = f"{model_text}, mean of {n_averaged_dates} dates"
            ax.plot(dates[n_averaged_dates - 1 :], moving_mean, color=color, label=label)
            if math.isfinite(row.lower):
                label = "expected over the period"
                ax.axhspan(row.lower, row.upper, color=color, alpha=0.2, label=label)
        max_characters = max(12, int(ax.figure.get_figheight() / _CHARACTER_WIDTH))
        metric_lines = textwrap.wrap(self.rows[0].metric, max_characters, break_long_words=False)
        ax.set_ylabel("\n".join(metric_lines))
        _label_dates(ax, dates)
        ax.legend(fontsize="small")


def _label_dates(ax, dates):
    """Label the x-axis with days if ``dates`` is of type ``datetime64``, else with "date" only."""
    if np.asarray(dates).dtype.kind != "M":
        ax.set_xlabel("date")
        return
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    locator = AutoDateLocator()
    ax.xaxis.set_major_locator(locator)
    ax.xaxis.set_major_formatter(ConciseDateFormatter(locator))
    first_day, last_day = (str(date)[:10] for date in (dates[0], dates[-1]))
    ax.set_xlabel(f"{first_day} to {last_day}")  # with the year, which tick labels may leave out


def _numbered_notes(notes_by_row):
    """Return the marks of each row, such as "[1][3]", and the different notes with their numbers.

    ``notes_by_row``: list of the notes of each row.
    """
    number_of_note: dict[str, int] = {}
    marks = []
    for notes in notes_by_row:
        numbers = [number_of_note.setdefault(note, len(number_of_note) + 1) for note in notes]
        marks.append("".join(f"[{number}]" for number in numbers))
    return marks, [f"[{number}] {note}" for note, number in number_of_note.items()]


def _format_interval(ends):
    """Return an interval as text, rounded outward; a dash for None."""
    if ends is None:
        return "-"
    lower, upper = ends
    return f"[{format_score(lower, math.floor)}, {format_score(upper, math.ceil)}]"


def _short_model_names(names):
    """Return the names of models and comparisons with letters for models, and a legend.

    The legend has pairs of a letter and the model it replaces. If no name is longer than 30
    characters, names stay the same and the legend is empty.
    """
    if max(map(len, names)) <= _MAX_NAME_LENGTH:
        return names, []
    letter_by_model_name = _letter_by_model_name(names)
    short_names = []
    for name in names:
        models_and_separators = _SEPARATOR.split(name)
        letters_and_separators = [
            letter_by_model_name.get(text, text) for text in models_and_separators
        ]
        short_names.append("".join(letters_and_separators))
    return short_names, [(letter, model) for model, letter in letter_by_model_name.items()]


def _letter_by_model_name(names):
    """Return a dict of a letter for each model in the names of models and comparisons.

    A number follows the letter from the 27th model on.
    """
    models = [name for name in names if not _SEPARATOR.search(name)]
    for name in names:
        if _SEPARATOR.search(name):
            models += _SEPARATOR.split(name)[::2]
    alphabet = string.ascii_uppercase
    return {
        model: f"{alphabet[index % len(alphabet)]}{index // len(alphabet) or ''}"
        for index, model in enumerate(dict.fromkeys(models))
    }


def _text_on_unclipped_rows(metric_name, rows):
    """Return a text on the comparisons that use a metric's unclipped errors, empty without any.

    ``metric_name``: name without a detail in parentheses.
    """
    has_difference = any(row.metric == metric_name for row in rows)
    has_skill = any(row.metric == f"skill score ({metric_name})" for row in rows)
    if not (has_difference or has_skill):
        return ""
    comparisons = " and ".join(["differences"] * has_difference + ["skill scores"] * has_skill)
    return f" in rows about one model. {comparisons.capitalize()} use unclipped errors"


def _short_metric_names(rows):
    """Return a short name for each row's metric, and a legend.

    The legend has pairs of a short name and the detail that it leaves out. Its last pair states the
    positive class if all rows with one have the same.
    """
    positive_classes = {row.positive for row in rows} - {""}
    short_names = []
    legend = []
    for row in rows:
        name, separator, detail = row.metric.partition(" (")
        if separator and not name.startswith("skill score"):
            detail = detail.removesuffix(")")
            legend.append((name, f"{detail}{_text_on_unclipped_rows(name, rows)}"))
        else:
            name = row.metric
        if row.positive and len(positive_classes) > 1:
            name += f" (class {row.positive})"
        short_names.append(name)
    if len(positive_classes) == 1:
        legend.append(("positive class", next(iter(positive_classes))))
    return short_names, list(dict.fromkeys(legend))


#: Start of a note that is in ``row.notes`` and that the table does not print.
NO_APPROXIMATE = "No approximate interval: "
#: A note that is in ``row.notes`` and that the table does not print.
FEW_ERRORS = (
    "Few records are wrong, so that the interval is that of a share with one pseudo record per "
    "class."
)
#: Text between the models in the name of a difference or a skill score; a split keeps it.
_SEPARATOR = re.compile("( minus | against )")
_MAX_NAME_LENGTH = 30  # characters of a model in a table
_FAMILIES = ("proven", "approximate")
#: Colors of the models in a plot over dates.
_MODEL_COLORS = (GOOD_COLOR, BAD_COLOR)
_LABEL_WIDTH = 45  # characters in a line of a label
_CHARACTER_WIDTH = 0.12  # in inches
