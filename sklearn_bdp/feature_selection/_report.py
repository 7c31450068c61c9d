"""Reports of feature selections: verified scores, and claims that were not verified."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np

from sklearn_bdp.feature_selection._rankings import STABLE, expected_false_selections
from sklearn_bdp.utils.html import Card, RenderedResult
from sklearn_bdp.utils.validation import check_option, failure_probability

#: Rows of a table that are shown; ``rows`` holds all of them.
MAX_ROWS = 20

#: Text for features that may be no better than chance. It does not prove that they are not.
NOT_CONFIRMED = "Not distinguished from chance"

#: Share of half samples that a report counts features in.
FREQUENT = 0.9


@dataclass(frozen=True)
class SelectionReport(RenderedResult):
    """Report of a selection: verified and unverified results.

    Attributes
    ----------
    title : str
        One line.
    lines : tuple of str
        Sentences on the verified and the unverified results.
    rows : dict of list
        One entry per kept feature or group in each list, ready for ``pandas.DataFrame``.

    See Also
    --------
    sklearn_bdp.feature_selection.HoldoutFeatureSelector : Its ``report`` returns this.
    """

    title: str
    lines: tuple
    rows: Any = field(repr=False)

    def _card(self):
        columns = self._columns()
        n_rows = len(next(iter(columns.values()), ()))
        table = {
            name: [_text(value) for value in values[:MAX_ROWS]] for name, values in columns.items()
        }
        footer = (
            [("", [f"and {n_rows - MAX_ROWS:,} more in report.rows"])] if n_rows > MAX_ROWS else []
        )
        return Card(self.title, self.lines, [("", table if n_rows else {}), *footer])

    def _columns(self):
        return self.rows


class AssociationRow(NamedTuple):
    """One attribute of a filter's final report."""

    attribute: str
    value: float  # association on the holdout, in [-1, 1], as the filter measures it
    lower: float
    upper: float
    p: float  # adjusted by Holm: proved if at most 1 - confidence_level
    q: float  # adjusted by Benjamini and Hochberg
    q_any: float  # adjusted by Benjamini and Yekutieli


@dataclass(frozen=True)
class AssociationReport(SelectionReport):
    """Final report of a filter: which attributes are proved to be associated with the target.

    Attributes
    ----------
    title : str
        One line.
    lines : tuple of str
        Sentences: proved results, results at a false discovery rate, and their assumptions.
    rows : tuple of AssociationRow
        Attributes that passed in the training set, most certain first: attribute, value, lower,
        upper, p, q, q_any.
    confidence_level : float
        An attribute is proved if its ``p`` is at most ``1 - confidence_level``.

    See Also
    --------
    sklearn_bdp.feature_selection.HoldoutCorrelationFilter : Its ``final_report`` returns this.
    """

    rows: tuple[AssociationRow, ...] = field(repr=False)
    confidence_level: float = 0.95

    @classmethod
    def from_content(cls, content, *, confidence_level, asked, unit):
        """Return the report of the recorded content of a closed holdout.

        ``asked``: attributes that were screened; ``unit``: holdout records or groups, in words.
        """
        beta = failure_probability(confidence_level)
        rows = tuple(AssociationRow(*row) for row in content["rows"])
        n_proved, n_found, n_found_any = (
            sum(getattr(row, name) <= beta for row in rows) for name in ("p", "q", "q_any")
        )
        title = f"{n_proved:,} of {len(rows):,} attributes proved to be associated with the target"
        if not rows:
            line = f"None of {asked:,} passed in the training set. The holdout was not read."
            return cls(title, (line,), rows, confidence_level)
        lines = (
            f"Proved (p <= {beta:g}, Holm): {n_proved:,} of the {len(rows):,} attributes that "
            f"passed in the training set, of {asked:,}. With at least {confidence_level:.0%} "
            "probability, none of them is independent of the target, however attributes depend on "
            "one another.",
            f"False discovery rate of {beta:.0%} (q <= {beta:g}): {n_found:,} (Benjamini-Hochberg, "
            f"if attributes are independent or positively dependent), {n_found_any:,} "
            f"(Benjamini-Yekutieli, any dependence). At most {beta:.0%} of these are expected to "
            "be unrelated to the target.",
            f"p and q come from {content['permutations']:,} permutations of the targets of {unit}, "
            "and assume no distribution. No p is below "
            f"{min(row.p for row in rows):.2g} with so many.",
            "An interval excludes 0 if the attribute is proved. For other associations its "
            "coverage is approximate, as for a t interval.",
            "The attributes were fixed in the training set before the holdout was queried about "
            f"them. Answers since then cost nothing, those before cost {content['nats']:.2g} nats. "
            f"These {confidence_level:.0%} are valid for this report, those of interim intervals "
            "for them.",
            f"The holdout was closed on {content['time'][:10]} and accepts no new query.",
        )
        return cls(title, lines, rows, confidence_level)

    def to_frame(self, dependence: Literal["positive", "any"] = "positive") -> Any:
        """Return the rows as a table (needs pandas).

        Parameters
        ----------
        dependence : {"positive", "any"}, default="positive"
            ``"positive"``: ``q`` is adjusted by Benjamini and Hochberg, for attributes that are
            independent or positively dependent; ``"any"``: by Benjamini and Yekutieli.

        Returns
        -------
        pandas.DataFrame
            Columns ``attribute, value, lower, upper, p, q``.
        """
        import pandas as pd  # optional: only for this view

        check_option("dependence", dependence, ("positive", "any"))
        frame = pd.DataFrame(self.rows, columns=AssociationRow._fields)
        q_any = frame.pop("q_any")
        return frame if dependence == "positive" else frame.assign(q=q_any)

    def _columns(self):
        names = ("attribute", "association", "interval", "p", "q", "q, any dependence")
        cells = [(r.attribute, r.value, (r.lower, r.upper), r.p, r.q, r.q_any) for r in self.rows]
        return dict(zip(names, map(list, zip(*cells, strict=True)), strict=True)) if cells else {}

    def plot(self, ax: Any = None) -> Any:
        """Draw a volcano: associations against their evidence.

        Parameters
        ----------
        ax : matplotlib axes, default=None
            Where to draw; ``None``: a new figure.

        Returns
        -------
        matplotlib axes
            One point for each attribute that passed in the training set; proved ones are filled.
        """
        import matplotlib.pyplot as plt

        ax = plt.subplots(layout="constrained")[1] if ax is None else ax
        points = [(row.value, -math.log10(row.q)) for row in self.rows]
        beta = failure_probability(self.confidence_level)
        faces = ["tab:blue" if row.p <= beta else "none" for row in self.rows]
        ax.scatter(*np.reshape(points, (-1, 2)).T, facecolors=faces, edgecolors="tab:blue")
        ax.set(xlabel="association", ylabel="-log10 q", title=self.title)
        return ax


def _text(value):
    """Return a cell as text; intervals in square brackets."""
    if isinstance(value, tuple):
        return "[" + ", ".join(_text(part) for part in value) + "]"
    if isinstance(value, float | np.floating):
        open_end = 0.0 < abs(value) < 1e-300  # of an interval that ends at 0 and excludes it
        return ("> 0" if value > 0.0 else "< 0") if open_end else f"{value:.3g}"
    return str(value)


def screening_report(screen):
    """Return the summary and the report of a fitted correlation filter."""
    order = np.argsort(screen.pvalues_[screen.support_], kind="stable")
    selected = np.flatnonzero(screen.support_)[order]
    rows = {
        "attribute": screen.get_feature_names_out()[order].tolist(),
        "verified association": screen.verified_associations_[selected].tolist(),
        "interval": list(zip(screen.lower_[selected], screen.upper_[selected], strict=True)),
        "training side": screen.training_associations_[selected].tolist(),
        "p-value (training)": screen.pvalues_[selected].tolist(),
    }
    count = selected.size * screen.confirmed_
    total = screen.n_features_in_
    n_verified = int(np.isfinite(screen.verified_associations_).sum())
    n_excluding_0 = int(((screen.lower_ > 0.0) | (screen.upper_ < 0.0))[selected].sum())
    passed = f"in the training set (Benjamini-Hochberg at alpha={screen.alpha:g})"
    lines = [f"Not verified (holdout=None): {count:,} attributes pass {passed}."]
    if screen.holdout_ is not None:
        lines = [
            f"Verified: the association of the {n_verified:,} attributes that pass {passed}. All "
            f"intervals hold together with probability {screen.holdout_.confidence_level:.0%} "
            f"({screen.holdout_.n:,} holdout records).",
            f"These interim intervals are wide: {n_excluding_0:,} of {count:,} exclude 0. "
            "final_report() proves single associations, with p-values and false discovery rates.",
            f"Not verified: the other {total - n_verified:,} attributes.",
        ]
    summary = (
        f"No attribute was kept: none of {total:,} has an association that both sides confirm "
        f"(smallest p-value in the training set: {screen.pvalues_.min():.2g})."
    )
    if not screen.confirmed_:
        stopgap = "Kept as a stopgap (on_empty='keep_best'): {}."
        lines[:0] = [summary, *map(stopgap.format, rows["attribute"])]
    title = f"{type(screen).__name__}: {count:,} of {total:,} attributes kept, both sides agree"
    return summary, SelectionReport(title, tuple(lines), rows)


def path_report(
    selector,
    proposals,
    choice,
    selected_index,
    metric,
    ranking,
    *,
    is_proven,
    frequencies,
    subset_size,
):
    """Return the summary and the report of a path; ``selected_index``: of the selected subset.

    ``is_proven``: whether its gain over the constant is. ``frequencies``: proportion of half
    samples that choose each unit, if each chooses ``subset_size`` units.
    """
    path = selector.score_path_
    units = ranking.units
    selected = proposals[selected_index]
    summary = _unconfirmed_summary(path, proposals, choice, selected_index, units)
    lines = [] if selector.confirmed_ else [summary]
    if n_failed := np.isnan(path["cv_score"]).sum():
        lines.append(f"{n_failed:,} of {len(proposals):,} subsets could not be fitted.")
    if math.isnan(selector.score_):
        lines.append("Not verified: all records chose (holdout=None), or no answer was given.")
    else:
        score = _score_text(path, selected_index)
        lines.append(f"Verified: together they score {score} ({metric.name}).")
        if choice.constant not in (None, selected_index):
            comparison = _comparison(path, selected_index, choice.constant, is_proven=is_proven)
            score = _score_text(path, choice.constant)
            lines.append(f"Verified: {_baseline_text(units)} scores {score}; {comparison}.")
    if selected.units:
        lines += _stability_lines(selected, frequencies, subset_size)
    lines.append(
        "Not verified: that any single feature is needed, or that one left out is useless. No "
        "false discovery rate is proved."
    )
    count = selector.n_features_to_select_
    total = selector.n_features_in_
    title = f"{type(selector).__name__}: {count:,} of {total:,} features"
    rows = _feature_rows(selected, units, frequencies)
    return summary, SelectionReport(title, tuple(lines), rows)


def _score_text(path, index):
    """Return a released score with its interval as text."""
    score = path["holdout_score"][index]
    low = path["holdout_lower"][index]
    high = path["holdout_upper"][index]
    if math.isnan(score):
        return f"{path['cv_score'][index]:.3g} in cross-validation"
    interval = path["holdout_interval"][index]
    if interval == "none":
        return f"{score:.3g} without an interval"
    suffix = " approximately" if interval == "approximate" else ""
    return f"{score:.3g} [{low:.3g}, {high:.3g}]{suffix}"


def _baseline_text(units):
    """Return the name of the subset that all others are compared with."""
    return "the fixed features alone" if units.fixed else "a constant prediction"


def _unconfirmed_summary(path, proposals, choice, selected_index, units):
    """Return the summary of a selection that is not distinguished from chance."""
    selection_text = "The one best feature is"
    if units.fixed:
        selection_text = "The fixed features alone are"
    selection_text += " handed on; on_empty='keep_best' keeps the others"
    if selected_index == choice.chosen:
        selection_text = "They are kept"
        if choice.is_size_requested:
            selection_text += " because n_features_to_select asks for them"
    baseline = _baseline_text(units)
    baseline_score = ""
    if choice.constant is not None:
        baseline_score = f", {baseline} scores {_score_text(path, choice.constant)}"
    best = proposals[choice.chosen]
    return (
        f"{NOT_CONFIRMED}: the best features may be no better than {baseline}. The "
        f"{_features(best.columns)} ({best.ranking}) score "
        f"{_score_text(path, choice.chosen)}{baseline_score}. {selection_text}. This does not "
        "prove that they are useless. Add records, or do not interpret the list."
    )


def _comparison(path, selected_index, constant, *, is_proven):
    """Return the finding on the selected subset against the constant as text."""
    intervals = path["holdout_interval"]
    if "none" in (intervals[selected_index], intervals[constant]):
        return "no intervals separate them"
    return "shown to be better" if is_proven else "the intervals do not separate them"


def _stability_lines(selected, frequencies, subset_size):
    """Return sentences on the units that half samples choose again."""
    threshold = STABLE if selected.ranking == "stable" else FREQUENT
    n_stable = sum(frequencies[unit] >= threshold for unit in selected.units)
    bound = expected_false_selections(subset_size, threshold, frequencies.size)
    return [
        f"Chosen in the training set: ranking {selected.ranking!r}, {_features(selected.columns)}.",
        f"Stability: of {_features(selected.units)} {n_stable:,} come back in {threshold:.0%} of "
        f"half samples that choose {subset_size:,} each. Of features that are chosen no oftener "
        f"than at random, at most {min(bound, subset_size):.2g} are expected to (Shah and Samworth "
        "2013).",
    ]


def _feature_rows(selected, units, frequencies):
    """Return the table of the selected features: name, ranking, frequency in half samples."""
    chosen = [units.members[unit] for unit in selected.units]
    fixed = [[column] for column in units.fixed]
    return {
        "feature": [units.label(columns) for columns in (*chosen, *fixed)],
        "chosen by": [selected.ranking] * len(chosen) + ["fixed"] * len(fixed),
        "half samples": [f"{frequencies[unit]:.0%}" for unit in selected.units] + [""] * len(fixed),
    }


def _features(listed):
    return f"{len(listed):,} feature{'s' * (len(listed) != 1)}"
