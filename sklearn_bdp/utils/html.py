"""Results in words, and as cards for notebooks that take their colors from the page."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

GOOD, BAD = "#2a9d74", "#d1495b"  # readable on white and on black


def format_score(score, rounded=round):
    """Return a score as text: three decimals, or four digits where it is large.

    ``rounded``: ``math.floor`` or ``math.ceil`` for the ends of an interval, which round outward.
    """
    if not math.isfinite(score):
        return str(score)
    places = 3 if abs(score) <= 1.0 else max(0, 3 - math.floor(math.log10(abs(score))))
    return f"{rounded(score * 10.0**places) / 10.0**places:.{places}f}"


def interval_sentence(lower, upper, on="new records like these", what="score"):
    """Return an interval as a sentence; ``on`` says of what, ``what`` is the name of the score."""
    if math.isinf(lower) and math.isinf(upper):
        return "There is no interval."
    if math.isinf(lower):
        return f"Expect at most {format_score(upper, math.ceil)} on {on}."
    ends = f"{format_score(lower, math.floor)} and {format_score(upper, math.ceil)}"
    if ", judged " in on:  # dates, each judged given its past (theory G26)
        return (
            f"Over {on}, the expected {what} was between {ends}. Nothing is assumed about drift or "
            "dependence. It does not say how the model will do next year."
        )
    return f"Expect between {ends} on {on}."


def summary_sentence(name, said, lower, upper, on):
    """Return the first line of a certificate or a report: what was scored, and its interval."""
    found, of = (
        f"{name}: {said}.",
        interval_sentence(lower, upper, on, re.split(r" \(| of ", name)[0]),
    )
    return f"{of} {found}" if ", judged " in on else f"{found} {of}"


@dataclass(frozen=True)
class Card:
    """What a result says; its text and its card in a notebook are made from the same.

    ``sections`` holds headings and what stands below them: sentences, ``(label, text)`` pairs, or
    a dictionary of columns. Sections without a heading are not folded away. ``picture`` is HTML,
    all else is text; ``good`` colours the edge.
    """

    title: str
    lines: Sequence[str] = ()
    sections: Sequence[tuple[str, Any]] = ()
    picture: str = ""
    good: bool = True

    def text(self):
        """Return the title, the sentences, and the sections below one another."""
        blocks = ["\n".join([self.title, *self.lines])]
        for heading, content in self.sections:
            if isinstance(content, dict):
                columns = [[name, *values] for name, values in content.items()]
                padded = [[one.ljust(max(map(len, each))) for one in each] for each in columns]
                rows = zip(*padded, strict=True)
                lines = [("  " + "  ".join(row)).rstrip() for row in rows]
            else:  # set in below a heading
                pair = "  {:<26}{}" if heading else "{} {}"
                lines = [
                    f"  - {one}" if isinstance(one, str) else pair.format(f"{one[0]}:", one[1])
                    for one in content
                ]
            blocks += ["\n".join([heading, *lines] if heading else lines)] if content else []
        return "\n\n".join(blocks)

    def html(self):
        """Return the title in bold, the picture, open sections, sentences, and the folded rest."""
        style = "style='margin:.35em 0;line-height:1.45'"
        # A sign stays with its number.
        title, *lines = (html.escape(s).replace("± ", "±&nbsp;") for s in (self.title, *self.lines))
        said = "".join(f"<p {style}>{line}</p>" for line in lines)
        opened = "".join(_content(content) for heading, content in self.sections if not heading)
        folded = "".join(
            "<details style='margin:.35em 0'><summary style='cursor:pointer;opacity:.8'>"
            f"{html.escape(heading)}</summary>{_content(content)}</details>"
            for heading, content in self.sections
            if heading and content
        )
        return (
            "<div style='border:1px solid rgba(128,128,128,.35);"
            f"border-left:4px solid {GOOD if self.good else BAD};border-radius:6px;"
            "padding:.7em 1.1em;margin:.4em 0;max-width:46em;color:inherit'>"
            "<p style='margin:.1em 0 .4em;font-size:1.08em;line-height:1.4'><b>"
            f"{title}</b></p>{self.picture}{opened}{said}{folded}</div>"
        )


class RenderedResult:
    """Base of results that are read: as text, and as a card in a notebook."""

    def _card(self) -> Card:
        raise NotImplementedError

    def __str__(self) -> str:
        return self._card().text()

    def _repr_html_(self):
        return self._card().html()


def _content(content):
    """Return sentences as a list, pairs and columns as a table without stripes."""
    if not content:
        return ""
    rows = list(content)
    if isinstance(content, dict):
        rows = [rows, *zip(*content.values(), strict=True)]
    elif isinstance(rows[0], str):
        items = "".join(f"<li>{html.escape(row)}</li>" for row in rows)
        return f"<ul style='margin:.3em 0'>{items}</ul>"
    cell = "<td style='text-align:left;vertical-align:top;padding:.15em .9em .15em 0'>"
    lines = (cell + f"</td>{cell}".join(html.escape(str(one)) for one in row) for row in rows)
    return "<table><tr>" + "</td></tr><tr>".join(lines) + "</td></tr></table>"


def interval_svg(value, lower, upper, *, bounds=None, baseline=None):
    """Return an SVG of a score and its interval on an axis; empty where a number is missing.

    The axis is zoomed to the interval and to ``baseline``, the score of a model that has learned
    nothing, and stays within ``bounds``, the range of the score.
    """
    width = upper - lower
    if not (math.isfinite(value) and math.isfinite(width) and width > 0):
        return ""
    known = [lower, upper] if baseline is None else [lower, upper, baseline]
    room = 0.25 * (max(known) - min(known))
    least, most = bounds or (-math.inf, math.inf)
    low, high = max(least, min(known) - room), min(most, max(known) + room)

    def place(score):
        """Return a place in percent of the width, clear of the edges."""
        return 4.0 + 92.0 * min(1.0, max(0.0, (score - low) / (high - low)))

    left, right = place(lower), place(upper)
    first, last = format_score(lower, math.floor), format_score(upper, math.ceil)
    middle, mark = min(max((left + right) / 2.0, 15.0), 85.0), ""
    if baseline is not None:
        at = place(baseline)
        mark = (
            f"<line x1='{at:.1f}%' x2='{at:.1f}%' y1='16' y2='44' stroke='currentColor' "
            f"stroke-dasharray='2 2'/><text x='{min(max(at, 20.0), 80.0):.1f}%' y='54'>"
            f"{format_score(baseline)}: baseline</text>"
        )
    return (
        f"<svg viewBox='0 0 460 58' role='img' aria-label='{format_score(value)}, "
        f"between {first} and "
        f"{last}' style='width:100%;max-width:460px;display:block;margin:.2em 0' "
        "font-family='sans-serif' font-size='12' fill='currentColor' text-anchor='middle'>"
        "<line x1='4%' x2='96%' y1='38' y2='38' stroke='currentColor' opacity='.35'/>"
        f"<text x='{middle:.1f}%' y='13'>{first} to {last}</text><rect x='{left:.1f}%' y='20' "
        f"width='{right - left:.1f}%' height='14' rx='3' fill='{GOOD}' opacity='.4'/><circle "
        f"cx='{place(value):.1f}%' cy='27' r='5' fill='{GOOD}' stroke='currentColor'/>{mark}</svg>"
    )


def explain_half_width(parts):
    """Return where a half-width comes from, in a sentence."""
    sampling, asked, noise = (max(0.0, part) for part in parts)
    return (
        f"Why this wide: ±{format_score(sampling)} for one fixed query on so many records, "
        f"{format_score(asked)} more for adaptive queries, {format_score(noise)} for resolution "
        "and noise."
    )
