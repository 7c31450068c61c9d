"""What a selection says about itself: what was verified, what was not."""

from __future__ import annotations

import html
import math
from dataclasses import dataclass, field, replace

import numpy as np

from sklearn_bdp._card import card
from sklearn_bdp._evaluation import clipping_of, outlook
from sklearn_bdp._sklearn_compat import num_samples
from sklearn_bdp.guards import warn_of_choice

#: Rows of a table that are shown; ``rows`` holds all of them.
SHOWN = 20

#: What a selection says that found nothing. It is no proof that nothing helps.
NOTHING = "Nothing could be told from chance."

NO_FALSE_DISCOVERY_RATE = (
    "Not verified: how many of the kept features are useless. No false discovery rate is proved."
)


@dataclass(frozen=True)
class SelectionReport:
    """What was verified and what was not, as text and as a table in notebooks.

    Attributes
    ----------
    title : str
        One line.
    lines : tuple of str
        Sentences: what was verified, and what was not.
    rows : dict of list
        One entry per kept feature or group in each list, ready for ``pandas.DataFrame``.
    """

    title: str
    lines: tuple
    rows: dict = field(repr=False)

    def __str__(self) -> str:
        """Return title, sentences and the first rows of the table."""
        return "\n".join([self.title, *(f"  {line}" for line in self.lines), *self._table()])

    def _table(self):
        """Return the lines of the table, columns aligned."""
        cells = [list(self.rows), *self._shown()]
        if len(cells) == 1:
            return []
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = [
            "    " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            for row in cells
        ]
        return [line.rstrip() for line in lines] + self._more()

    def _shown(self):
        """Return the first rows as text."""
        columns = [[_text(value) for value in column[:SHOWN]] for column in self.rows.values()]
        return [list(row) for row in zip(*columns, strict=True)]

    def _more(self):
        hidden = len(next(iter(self.rows.values()), [])) - SHOWN
        return [f"    and {hidden:,} more in report.rows"] if hidden > 0 else []

    def _repr_html_(self):
        """Return the same for notebooks; the table is folded away."""
        head = "".join(f"<th>{html.escape(name)}</th>" for name in self.rows)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>"
            for row in self._shown()
        )
        rows = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        rows += "".join(f"<p>{html.escape(line.strip())}</p>" for line in self._more())
        return card(self.title, self.lines, folded=[("kept features", rows)])


def _text(value):
    """Return a cell as text; intervals in square brackets."""
    if isinstance(value, tuple):
        return "[" + ", ".join(_text(part) for part in value) + "]"
    if isinstance(value, float | np.floating):
        return f"{value:.3g}"
    return str(value)


def screening_report(screen):
    """Return the :class:`SelectionReport` of a fitted correlation filter."""
    kept = np.flatnonzero(screen.support_)
    kept = kept[np.argsort(screen.pvalues_[kept], kind="stable")]
    names = getattr(screen, "feature_names_in_", None)
    rows = {
        "attribute": [f"x{j}" if names is None else str(names[j]) for j in kept],
        "verified association": [float(screen.verified_associations_[j]) for j in kept],
        "interval": [(float(screen.lower_[j]), float(screen.upper_[j])) for j in kept],
        "training side": [float(screen.training_associations_[j]) for j in kept],
        "p-value (training)": [float(screen.pvalues_[j]) for j in kept],
    }
    count = kept.size if screen.confirmed_ else 0
    asked = int(np.isfinite(screen.verified_associations_).sum())
    proved = int(((screen.lower_ > 0.0) | (screen.upper_ < 0.0))[kept].sum())
    lines = [
        f"Verified: the association ({screen.query}) of the {asked:,} attributes that pass in the "
        f"training set (Benjamini-Hochberg at alpha={screen.alpha:g}). All intervals hold together "
        f"with probability {1 - screen.holdout_.beta:.0%} "
        f"({screen.holdout_.n:,} holdout records).",
        f"Shown to be associated, because their interval excludes 0: {proved:,} of {count:,}.",
        f"Not verified: the other {screen.n_features_in_ - asked:,} attributes.",
        NO_FALSE_DISCOVERY_RATE,
    ]
    if not screen.confirmed_:
        lines.insert(0, screen._what_was_found())
        if kept.size:
            lines.insert(1, f"Kept as a stopgap (on_empty='keep_best'): {rows['attribute'][0]}.")
    title = (
        f"{type(screen).__name__}: {count:,} of {screen.n_features_in_:,} attributes confirmed "
        "by both sides"
    )
    return SelectionReport(title, tuple(lines), rows)


@dataclass(frozen=True)
class Told:
    """What a selection tells: a summary, a report, lines of progress."""

    summary: str  # one or two sentences with released values
    report: SelectionReport
    progress: tuple = ()  # one line per subset


def path_report(selector, entries, place, verdict, units, metric):
    """Return what is :class:`Told` of a path."""
    scored = _Scored(metric)
    lines, rows = [], {"feature": [], "chosen by": [], "chosen in folds": []}
    failed = sum(math.isnan(entry.assessment.training) for entry in entries)
    summary = _summary(entries, verdict, scored, _least(units), failed)
    if failed:
        lines.append(
            f"{failed:,} of {len(entries):,} subsets could not be fitted and were not shown to the "
            "holdout; a warning of fit says why."
        )
    if place is None or (place == verdict.constant and not selector.confirmed_):
        lines.append(f"{NOTHING} {summary}")
        lines.append(
            "That is no proof: what might help was not told from chance"
            + (", by neither side." if verdict.doubtful else " on the training side.")
        )
    if place is not None and units.columns(entries[place].proposal.chosen):
        chosen = entries[place]
        rows = _members(chosen.proposal, units)
        lines += _verified_lines(selector, chosen, entries, verdict, scored, units)
        lines.append(
            "Not verified: that any single one of them is needed, or that one left out is useless. "
            "No false discovery rate is proved."
        )
    count = 0 if place is None else len(entries[place].proposal.columns)
    title = _title(selector, count)
    progress = tuple(
        f"{entry.proposal.ranking}: {_count(entry)}, verified score {scored(entry.assessment)}"
        for entry in entries
    )
    return Told(summary, SelectionReport(title, tuple(lines), rows), progress)


def _summary(entries, verdict, scored, least, failed):
    """Return one sentence on the best subset and what it is compared with, if any was answered."""
    best, constant = verdict.best, verdict.constant
    if best is None:
        return ""
    found = entries[best]
    compared = ""
    if constant is not None:
        compared = f", {least} {scored(entries[constant].assessment)}"
    return (
        f"The best of {len(entries) - (constant is not None) - failed} subsets "
        f"({_count(found)}, {found.proposal.ranking}) scores {scored(found.assessment)} on the "
        f"holdout{compared}."
    )


def not_told(n_features_to_select):
    """Return the sentence on features that were asked for and could not be told from chance."""
    return (
        f"Kept because n_features_to_select={n_features_to_select} asked for so many: that they "
        "help could not be told from chance (confirmed_ is False), which is no proof that they do "
        "not."
    )


def _verified_lines(selector, chosen, entries, verdict, scored, units):
    """Return what was verified of a selected subset, and how it was chosen."""
    together, least = scored(chosen.assessment), _least(units)
    lines = []
    fixed = chosen.proposal.ranking == "constant"
    if not selector.confirmed_ and not fixed:
        if verdict.asked:
            lines.append(not_told(selector.n_features_to_select))
        else:
            lines.append(f"Kept as a stopgap (on_empty='keep_best'): {NOTHING.lower()}")
    lines.append(f"Verified: together they score {together} ({scored.metric.name}).")
    if fixed:
        return lines
    if verdict.constant is not None:
        proved = "shown to be better" if verdict.certified else "not separated by the intervals"
        constant = scored(entries[verdict.constant].assessment)
        lines.append(f"Verified: {least} {constant}; {proved}.")
    if verdict.doubtful and verdict.helps:
        lines.append(
            "That they help is not sure on the training side alone. Asked about the best subset as "
            "if it were worth nothing, the holdout gave a better answer: evidence, no proof."
        )
    how = f"Chosen on the training side: ranking {chosen.proposal.ranking!r}"
    if verdict.best is not None and entries[verdict.best] is not chosen:
        best = entries[verdict.best]
        how += (
            f"; the smallest subset within {scored.width * verdict.tolerance:.2g} of the best "
            f"({_count(best)}, {scored(best.assessment)})"
        )
    return [*lines, f"{how}."]


def _least(units):
    """Return what every subset is compared with."""
    return "the fixed features alone" if units.fixed else "a constant prediction"


def _members(proposal, units):
    """Return the rows of the table: units in the order in which they were chosen."""
    rows = {
        "feature": [units.label(unit) for unit in proposal.chosen],
        "chosen by": [proposal.ranking] * len(proposal.chosen),
        "chosen in folds": _shares(proposal),
    }
    for column in units.fixed:
        rows["feature"].append(units.column_label(column))
        rows["chosen by"].append("fixed")
        rows["chosen in folds"].append("")
    return rows


def _shares(proposal):
    if proposal.frequency is None:
        return [""] * len(proposal.chosen)
    return [f"{share:.0%}" for share in proposal.frequency]


def _count(entry):
    count = len(entry.proposal.columns)
    return f"{count:,} feature{'s' * (count != 1)}"


class _Scored:
    """Released values in score units, as text."""

    def __init__(self, metric):
        self.metric = metric
        self.width = metric.upper - metric.lower

    def __call__(self, found):
        if found is None:
            return "unknown"
        value, low, high = (
            float(self.metric.from_unit(v)) for v in (found.released, found.lower, found.upper)
        )
        return f"{value:.3g} [{low:.3g}, {high:.3g}]"


def _title(selector, count):
    return f"{type(selector).__name__}: {count:,} of {selector.n_features_in_:,} features"


def with_score(certificate, selector, setting):
    """Return the certificate with notes of what the selection scores; warn where that misleads."""
    metric, (low, high) = setting.metric, selector.interval_
    said = f"verified {metric.name} {selector.score_:.3g} [{low:.3g}, {high:.3g}]"
    count = f"{selector.support_.sum():,} of {selector.n_features_in_:,} features"
    which, note = "the selected features", f"Selected {count}; {said}."
    if not selector.support_.any():
        which, note = "a constant prediction", f"No feature was selected; a constant has {said}."
    known = {"score": selector.score_, "interval": (low, high)}
    clipping = clipping_of(setting, np.flatnonzero(selector.support_))
    warn_of_choice(
        selector.holdout_, metric, of=which, **known,
        clipping=clipping,
    )  # fmt: skip
    caveat = (metric.caveat,) if metric.caveat else ()
    return replace(
        certificate,
        notes=(*certificate.notes, *caveat, note),
        chosen=(f"{metric.measured} of {which}", selector.score_, low, high),
        **outlook(
            certificate, selector.holdout_, metric, **known, training_size=num_samples(setting.X)
        ),
    )
