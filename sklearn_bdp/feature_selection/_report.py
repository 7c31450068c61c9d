"""What a selection says about itself: what was verified, what was not."""

import html
from dataclasses import dataclass, field

import numpy as np

__all__ = ["SelectionReport", "screening_report"]

#: Rows of a table that are shown; ``rows`` holds all of them.
SHOWN = 20

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

    def __str__(self):
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
        """Return the same for notebooks; the table is folded away if it is long."""
        said = "".join(f"<li>{html.escape(line)}</li>" for line in self.lines)
        head = "".join(f"<th>{html.escape(name)}</th>" for name in self.rows)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>"
            for row in self._shown()
        )
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        more = "".join(f"<p>{html.escape(line.strip())}</p>" for line in self._more())
        return (
            f"<div><strong>{html.escape(self.title)}</strong><ul>{said}</ul>"
            f"<details open><summary>kept features</summary>{table}{more}</details></div>"
        )


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
    kept = kept[np.argsort(-np.abs(screen.verified_associations_[kept]), kind="stable")]
    names = getattr(screen, "feature_names_in_", None)
    rows = {
        "attribute": [f"x{j}" if names is None else str(names[j]) for j in kept],
        "verified association": [float(screen.verified_associations_[j]) for j in kept],
        "interval": [(float(screen.lower_[j]), float(screen.upper_[j])) for j in kept],
        "training side": [float(screen.training_associations_[j]) for j in kept],
        "p-value (training)": [float(screen.pvalues_[j]) for j in kept],
    }
    count = kept.size if screen.confirmed_ else 0
    lines = [
        f"Verified: the association of each attribute ({screen.query}); all intervals hold at once "
        f"with probability {1 - screen.holdout_.beta:g}, on a holdout of {screen.holdout_.n:,}.",
        f"Chosen on the training side: Benjamini-Hochberg at alpha={screen.alpha:g}, with "
        "p-values that are exact for large samples only.",
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
