"""Reports of feature selections: which results are verified, and which are not."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np

from sklearn_bdp.feature_selection._path import ANSWERED
from sklearn_bdp.feature_selection._rankings import STABLE_FREQUENCY, expected_false_selections
from sklearn_bdp.utils.html import Card, RenderedResult
from sklearn_bdp.utils.validation import check_option, failure_probability

#: Largest number of rows that notebooks show.
_MAX_ROWS = 20

#: Text about features that may be no better than chance.
_NOT_CONFIRMED = "Not distinguished from chance"

#: Selection frequency in half samples from which on a report counts a feature as stable, unless it
#: was selected by its frequency.
_HIGH_FREQUENCY = 0.9


@dataclass(frozen=True)
class SelectionReport(RenderedResult):
    """Report of a selection: verified and unverified results.

    Attributes
    ----------
    title : str
        One line.
    lines : tuple of str
        Sentences about the verified and the unverified results.
    rows : dict of list
        Columns of a table, with one entry per selected feature or group, ready for
        ``pandas.DataFrame``.

    See Also
    --------
    sklearn_bdp.feature_selection.HoldoutFeatureSelector : Its ``report`` returns this.
    sklearn_bdp.feature_selection.HoldoutCorrelationFilter : Its ``report`` does, too.
    """

    title: str
    lines: tuple
    rows: Any = field(repr=False)

    def _card(self):
        columns = self._columns()
        n_rows = len(next(iter(columns.values()), ()))
        table = {
            name: [_cell_text(value) for value in values[:_MAX_ROWS]]
            for name, values in columns.items()
        }
        sections = [("", table if n_rows else {})]
        if n_rows > _MAX_ROWS:
            sections.append(("", [f"and {n_rows - _MAX_ROWS:,} more in report.rows"]))
        return Card(self.title, self.lines, sections)

    def _columns(self):
        """Return a dict of lists, the columns of the table by name."""
        return self.rows


class AssociationRow(NamedTuple):
    """Result for one attribute in the final report of a filter."""

    attribute: str  # name
    value: float  # association on the holdout, in [-1, 1]
    lower: float  # lower end of its confidence interval
    upper: float  # upper end
    #: p-value adjusted by Holm and for earlier answers. The association is proved if it is at most
    #: ``1 - confidence_level``.
    p: float
    q: float  # p-value adjusted by Benjamini and Hochberg and for earlier answers
    q_any: float  # p-value adjusted by Benjamini and Yekutieli and for earlier answers


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
    def from_content(cls, content, *, confidence_level, n_screened, units_text):
        """Return the report from the content that was recorded when the holdout was closed.

        Parameters
        ----------
        content : dict
            ``rows``: values of each :class:`AssociationRow`; ``permutations``: number of
            permutations; ``nats``: result of :func:`preregistered_code_length`;
            ``time``: when the report was computed, in ISO 8601. If ``rows`` is empty, the
            others may be missing.
        confidence_level : float
            Confidence level of the holdout.
        n_screened : int
            Number of attributes that were screened on the training set.
        units_text : str
            Number of holdout records, and of their groups if these are permuted, as text.
        """
        beta = failure_probability(confidence_level)
        rows = tuple(AssociationRow(*row) for row in content["rows"])
        n_proved = sum(row.p <= beta for row in rows)
        n_discovered = sum(row.q <= beta for row in rows)
        n_discovered_any = sum(row.q_any <= beta for row in rows)
        title = f"{n_proved:,} of {len(rows):,} attributes proved to be associated with the target"
        if not rows:
            line = f"None of {n_screened:,} passed in the training set. The holdout was not read."
            return cls(title, (line,), rows, confidence_level)
        lines = (
            f"Proved (p <= {beta:g}, Holm): {n_proved:,} of the {len(rows):,} attributes that "
            f"passed in the training set, of {n_screened:,}. With at least {confidence_level:.0%} "
            "probability, none of them is independent of the target, however attributes depend on "
            "one another.",
            f"False discovery rate of {beta:.0%} (q <= {beta:g}): {n_discovered:,} "
            "(Benjamini-Hochberg, if attributes are independent or positively dependent), "
            f"{n_discovered_any:,} (Benjamini-Yekutieli, any dependence). At most {beta:.0%} of "
            "these are expected to be unrelated to the target.",
            f"p and q come from {content['permutations']:,} permutations of the targets of "
            f"{units_text}, and assume no distribution. No p is below "
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
        """Return a dict of lists, the columns of the table by name; empty without rows."""
        if not self.rows:
            return {}
        return {
            "attribute": [row.attribute for row in self.rows],
            "association": [row.value for row in self.rows],
            "interval": [(row.lower, row.upper) for row in self.rows],
            "p": [row.p for row in self.rows],
            "q": [row.q for row in self.rows],
            "q, any dependence": [row.q_any for row in self.rows],
        }

    def plot(self, ax: Any = None) -> Any:
        """Draw a volcano plot: ``-log10(q)`` against the association.

        Parameters
        ----------
        ax : matplotlib axes, default=None
            Axes to draw on. If None, a new figure is made.

        Returns
        -------
        matplotlib axes
            Axes with a point for each attribute that passed in the training set. Points of proved
            attributes are filled.
        """
        import matplotlib.pyplot as plt

        if ax is None:
            _, ax = plt.subplots(layout="constrained")
        associations = [row.value for row in self.rows]
        negative_log_q = [-math.log10(row.q) for row in self.rows]
        beta = failure_probability(self.confidence_level)
        face_colors = ["tab:blue" if row.p <= beta else "none" for row in self.rows]
        ax.scatter(associations, negative_log_q, facecolors=face_colors, edgecolors="tab:blue")
        ax.set(xlabel="association", ylabel="-log10 q", title=self.title)
        return ax


def _cell_text(value):
    """Return a table cell as text; a tuple as an interval in square brackets.

    A positive number below 1e-300 becomes "> 0", a negative one above -1e-300 "< 0".
    """
    if isinstance(value, tuple):
        return "[" + ", ".join(_cell_text(end) for end in value) + "]"
    if isinstance(value, float | np.floating):
        # The end of an interval that excludes 0 may be the number next to 0.
        is_next_to_zero = 0.0 < abs(value) < 1e-300
        if is_next_to_zero:
            return "> 0" if value > 0.0 else "< 0"
        return f"{value:.3g}"
    return str(value)


def screening_report(screen, *, n_passed):
    """Return a summary (str) and the :class:`SelectionReport` of a HoldoutCorrelationFilter.

    The summary states that no attribute was confirmed, and is true only then. ``screen``: fitted
    HoldoutCorrelationFilter; ``n_passed``: number of attributes that pass on the training set.
    """
    order = np.argsort(screen.pvalues_[screen.support_], kind="stable")
    # Positions of the selected attributes, smallest p-value first.
    selected = np.flatnonzero(screen.support_)[order]
    rows = {
        "attribute": screen.get_feature_names_out()[order].tolist(),
        "verified association": screen.verified_associations_[selected].tolist(),
        "interval": list(zip(screen.lower_[selected], screen.upper_[selected], strict=True)),
        "training set": screen.training_associations_[selected].tolist(),
        "p-value (training)": screen.pvalues_[selected].tolist(),
    }
    n_confirmed = selected.size if screen.confirmed_ else 0
    n_features = screen.n_features_in_
    n_verified = int(np.isfinite(screen.verified_associations_).sum())
    excludes_zero = (screen.lower_ > 0.0) | (screen.upper_ < 0.0)
    n_excluding_zero = int(excludes_zero[selected].sum())
    criterion = f"in the training set (Benjamini-Hochberg at alpha={screen.alpha:g})"
    lines = [f"Not verified (holdout=None): {n_confirmed:,} attributes pass {criterion}."]
    if screen.holdout_ is not None:
        verified_text = f"the {n_verified:,} attributes that pass"
        if n_verified < n_passed:  # the budget was exhausted
            verified_text = f"{n_verified:,} of the {n_passed:,} attributes that pass"
        lines = [
            f"Verified: the association of {verified_text} {criterion}. "
            "All intervals hold together with probability "
            f"{screen.holdout_.confidence_level:.0%} ({screen.holdout_.n:,} holdout records).",
            f"These interim intervals are wide: {n_excluding_zero:,} of {n_confirmed:,} exclude 0. "
            "final_report() proves single associations, with p-values and false discovery rates.",
            f"Not verified: the other {n_features - n_verified:,} attributes.",
        ]
    summary = (
        f"No attribute was kept: none of {n_features:,} has an association that training set and "
        f"holdout confirm (smallest p-value in the training set: {screen.pvalues_.min():.2g})."
    )
    if not screen.confirmed_:
        kept_lines = [
            f"Kept as a stopgap (on_empty='keep_best'): {name}." for name in rows["attribute"]
        ]
        lines = [summary, *kept_lines, *lines]
    title = (
        f"{type(screen).__name__}: {n_confirmed:,} of {n_features:,} attributes kept, "
        "training set and holdout agree"
    )
    return summary, SelectionReport(title, tuple(lines), rows)


def path_report(
    selector,
    scored_subsets,
    choice,
    selected_index,
    metric,
    ranking,
    *,
    is_proven,
    frequencies,
    subset_size,
):
    """Return a summary (str) and the :class:`SelectionReport` of a HoldoutFeatureSelector.

    The summary states that the features are not distinguished from chance, and is true only for a
    selection that is not confirmed.

    Parameters
    ----------
    selector : HoldoutFeatureSelector
        The selector, with ``score_path_``, ``confirmed_`` and ``n_features_to_select_``.
    scored_subsets : list of ScoredSubset
        Subsets of the path.
    choice : SubsetChoice
        Choice on the training set.
    selected_index : int
        Index of the selected subset.
    metric : Metric
        Metric that scores subsets.
    ranking : Ranking
        Ranking of the feature groups.
    is_proven : bool
        Whether the interval of the selected subset lies above that of the constant.
    frequencies : ndarray of shape (n_groups,)
        Proportion of half samples that select each feature group; NaN if no group is selected.
    subset_size : int
        Number of feature groups that each half sample selects; 0 if no group is selected.
    """
    path = selector.score_path_
    feature_groups = ranking.feature_groups
    selected_subset = scored_subsets[selected_index]
    summary = _unconfirmed_summary(path, scored_subsets, choice, selected_index, feature_groups)
    lines = [] if selector.confirmed_ else [summary]
    n_without_score = np.isnan(path["cv_score"]).sum()
    if n_without_score:
        lines.append(f"{n_without_score:,} of {len(scored_subsets):,} subsets could not be fitted.")
    if not _is_verified(path, selected_index):
        lines.append("Not verified: all records chose (holdout=None), or no answer was given.")
    else:
        score_text = _score_text(path, selected_index)
        lines.append(f"Verified: together they score {score_text} ({metric.name}).")
        constant_index = choice.constant_index
        if constant_index not in (None, selected_index):
            comparison = _comparison(path, selected_index, constant_index, is_proven=is_proven)
            baseline = _baseline_text(feature_groups)
            score_text = _score_text(path, constant_index)
            prefix = "Verified" if _is_verified(path, constant_index) else "Not verified"
            lines.append(f"{prefix}: {baseline} scores {score_text}; {comparison}.")
    if selected_subset.group_indices:
        lines += _stability_lines(selected_subset, frequencies, subset_size)
    lines.append(
        "Not verified: that any single feature is needed, or that one left out is useless. No "
        "false discovery rate is proved."
    )
    n_selected = selector.n_features_to_select_
    n_features = selector.n_features_in_
    title = f"{type(selector).__name__}: {n_selected:,} of {n_features:,} features"
    rows = _feature_rows(selected_subset, feature_groups, frequencies)
    return summary, SelectionReport(title, tuple(lines), rows)


def _is_verified(path, index):
    """Return whether the subset at an index of ``path`` (``score_path_``) has a verified score."""
    return path["answered_from"][index] in ANSWERED


def _score_text(path, index):
    """Return one text with the verified score of a subset and its interval.

    Without a verified score the text is about the cross-validated one. ``path``: ``score_path_`` of
    the selector; ``index``: of the subset in its arrays.
    """
    score = path["holdout_score"][index]
    lower = path["holdout_lower"][index]
    upper = path["holdout_upper"][index]
    if not _is_verified(path, index):
        return f"{path['cv_score'][index]:.3g} in cross-validation"
    interval_type = path["holdout_interval"][index]
    if interval_type == "none":
        return f"{score:.3g} without an interval"
    suffix = " approximately" if interval_type == "approximate" else ""
    return f"{score:.3g} [{lower:.3g}, {upper:.3g}]{suffix}"


def _baseline_text(feature_groups):
    """Return a description of the baseline: the fixed features alone, or a constant prediction."""
    return "the fixed features alone" if feature_groups.fixed else "a constant prediction"


def _unconfirmed_summary(path, scored_subsets, choice, selected_index, feature_groups):
    """Return a text which states that the selection is not distinguished from chance.

    ``path``: ``score_path_`` of the selector; ``choice``: :class:`SubsetChoice` on the training
    set; ``selected_index``: index of the selected subset in ``scored_subsets``.
    """
    selection_text = "The one best feature is"
    if feature_groups.fixed:
        selection_text = "The fixed features alone are"
    selection_text += " handed on; on_empty='keep_best' keeps the others"
    if selected_index == choice.chosen_index:
        selection_text = "These features are kept"
        if choice.is_size_requested:
            selection_text += " because n_features_to_select asks for them"
    baseline = _baseline_text(feature_groups)
    baseline_score = ""
    if choice.constant_index is not None:
        baseline_score = f", {baseline} scores {_score_text(path, choice.constant_index)}"
    chosen_subset = scored_subsets[choice.chosen_index]
    verb = "scores" if len(chosen_subset.columns) == 1 else "score"
    return (
        f"{_NOT_CONFIRMED}: the best features may be no better than {baseline}. The "
        f"{_count_features(chosen_subset.columns)} ({chosen_subset.ranking}) {verb} "
        f"{_score_text(path, choice.chosen_index)}{baseline_score}. {selection_text}. This does "
        "not prove that features are useless. Add records, or do not interpret the list."
    )


def _comparison(path, selected_index, constant_index, *, is_proven):
    """Return a clause that compares the selected subset with the constant.

    ``path``: ``score_path_`` of the selector. ``is_proven``: whether the interval of the selected
    subset lies above that of the constant.
    """
    interval_types = path["holdout_interval"]
    if "none" in (interval_types[selected_index], interval_types[constant_index]):
        return "no intervals separate them"
    return "shown to be better" if is_proven else "the intervals do not separate them"


def _stability_lines(selected_subset, frequencies, subset_size):
    """Return sentences on how often half samples select the selected feature groups.

    ``frequencies``: (n_groups,), proportion of half samples that select each group;
    ``subset_size``: number of groups that each half sample selects.
    """
    min_frequency = STABLE_FREQUENCY if selected_subset.kind == "stable" else _HIGH_FREQUENCY
    group_indices = selected_subset.group_indices
    n_stable = sum(frequencies[index] >= min_frequency for index in group_indices)
    # Upper bound on the expected number of useless groups that are as frequent.
    max_expected = expected_false_selections(subset_size, min_frequency, frequencies.size)
    max_expected = min(max_expected, subset_size)
    return [
        f"Chosen in the training set: ranking {selected_subset.ranking!r}, "
        f"{_count_features(selected_subset.columns)}.",
        f"Stability: of {_count_features(group_indices)} {n_stable:,} come back in "
        f"{min_frequency:.0%} of half samples that choose {subset_size:,} each. Of features that "
        f"are chosen no more often than at random, at most {max_expected:.2g} are "
        "expected to (Shah and Samworth 2013).",
    ]


def _feature_rows(selected_subset, feature_groups, frequencies):
    """Return the table of the selected features: a dict of lists of texts, by name of the column.

    ``frequencies``: (n_groups,), proportion of half samples that select each feature group.
    """
    group_indices = selected_subset.group_indices
    selected_groups = [feature_groups.members[index] for index in group_indices]
    fixed_groups = [[column] for column in feature_groups.fixed]
    ranking_names = [selected_subset.ranking] * len(selected_groups)
    frequency_texts = [f"{frequencies[index]:.0%}" for index in group_indices]
    return {
        "feature": [feature_groups.label(group) for group in (*selected_groups, *fixed_groups)],
        "chosen by": ranking_names + ["fixed"] * len(fixed_groups),
        "half samples": frequency_texts + [""] * len(fixed_groups),
    }


def _count_features(features):
    """Return a text: the number of items in ``features`` and "feature" in singular or plural."""
    return f"{len(features):,} feature{'s' * (len(features) != 1)}"
