"""Text and HTML of results: sentences, and cards for notebooks."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

# Both colors are readable on white and on black.
GOOD_COLOR = "#2a9d74"
BAD_COLOR = "#d1495b"


def format_score(score, rounded=round):
    """Return a score as text: three decimals up to 1 in size, above at least four digits in total.

    Scores from 1,000 on have no decimals. Infinite scores and NaN are texts such as "inf".
    ``rounded``: function that rounds a number to an integer, such as ``math.floor`` for the lower
    end of an interval.
    """
    if not math.isfinite(score):
        return str(score)
    n_decimals = 3 if abs(score) <= 1.0 else max(0, 3 - math.floor(math.log10(abs(score))))
    return f"{rounded(score * 10.0**n_decimals) / 10.0**n_decimals:.{n_decimals}f}"


def format_half_width(value):
    """Return a half-width as text; positive finite ones are rounded up to 3 significant digits."""
    if not (math.isfinite(value) and value > 0):
        return f"{value:g}"
    n_decimals = 2 - math.floor(math.log10(value))
    factor = 10.0**n_decimals
    return f"{math.ceil(value * factor - 1e-9) / factor:.{max(n_decimals, 0)}f}"


#: Text in the target of intervals for dates, each given its past (theory G26).
GIVEN_PAST = ", each given the information"


def interval_sentence(lower, upper, *, target, score_name, interval_kind):
    """Return a confidence interval as text, or that there is none if both ends are infinite.

    ``lower``, ``upper``: ends of the interval in score units; ``target``: text that names the
    records that the interval is about; ``score_name``: name of the score; ``interval_kind``: kind
    of interval, for example "95% confidence interval".
    """
    if math.isinf(lower) and math.isinf(upper):
        return "There is no confidence interval."
    limits = f"at most {format_score(upper, math.ceil)}"
    if not math.isinf(lower):
        limits = f"{format_score(lower, math.floor)} to {format_score(upper, math.ceil)}"
    if GIVEN_PAST in target:
        return (
            f"Expected {score_name} over {target}: {limits} ({interval_kind}). Nothing is assumed "
            "about drift or dependence, and next year may differ."
        )
    sentence = f"{interval_kind} for the expected {score_name} on {target}: {limits}."
    return sentence[0].upper() + sentence[1:]


def summary_sentence(name, description, lower, upper, *, target, interval_kind):
    """Return a score and its interval as sentences, the first line of a certificate or report.

    ``name``: name of the score, perhaps with its target or unit; ``description``: value and status
    as text. Other arguments are those of :func:`interval_sentence`. If ``target`` consists of dates
    given their past, the interval comes first.
    """
    score_text = f"{name}: {description}."
    score_name = re.split(r" \(| of ", name)[0]
    interval_text = interval_sentence(
        lower, upper, target=target, score_name=score_name, interval_kind=interval_kind
    )
    if GIVEN_PAST in target:
        return f"{interval_text} {score_text}"
    return f"{score_text} {interval_text}"


@dataclass(frozen=True)
class Card:
    """Content of a result, from which its text and its card in a notebook are made.

    ``sections`` are pairs of a heading (may be empty) and its content: a list of sentences or of
    ``(label, text)`` pairs, or a dictionary of columns of texts by heading. ``picture`` is HTML,
    all other content is text. The edge in a notebook is green if ``good``, else red.
    """

    title: str
    lines: Sequence[str] = ()
    sections: Sequence[tuple[str, Any]] = ()
    picture: str = ""
    good: bool = True

    def text(self):
        """Return the title, the sentences and the sections with content as plain text."""
        blocks = ["\n".join([self.title, *self.lines])]
        for heading, content in self.sections:
            if isinstance(content, dict):
                lines = _table_lines(content)
            else:
                lines = _item_lines(content, is_below_heading=bool(heading))
            if content:
                blocks.append("\n".join([heading, *lines] if heading else lines))
        return "\n\n".join(blocks)

    def html(self):
        """Return the card as HTML, with folded sections if they have a heading."""
        style = "style='margin:.35em 0;line-height:1.45'"
        # No line break between a sign and its number.
        title, *lines = (
            html.escape(text).replace("± ", "±&nbsp;") for text in (self.title, *self.lines)
        )
        sentences = "".join(f"<p {style}>{line}</p>" for line in lines)
        open_sections = "".join(
            _content_html(content) for heading, content in self.sections if not heading
        )
        folded_sections = "".join(
            "<details style='margin:.35em 0'><summary style='cursor:pointer;opacity:.8'>"
            f"{html.escape(heading)}</summary>{_content_html(content)}</details>"
            for heading, content in self.sections
            if heading and content
        )
        return (
            "<div style='border:1px solid rgba(128,128,128,.35);"
            f"border-left:4px solid {GOOD_COLOR if self.good else BAD_COLOR};border-radius:6px;"
            "padding:.7em 1.1em;margin:.4em 0;max-width:46em;color:inherit'>"
            "<p style='margin:.1em 0 .4em;font-size:1.08em;line-height:1.4'><b>"
            f"{title}</b></p>{self.picture}{open_sections}{sentences}{folded_sections}</div>"
        )


class RenderedResult:
    """Base class of results that are shown as text, and as a card in a notebook."""

    def _card(self) -> Card:
        """Return the :class:`Card` of the result."""
        raise NotImplementedError

    def __str__(self) -> str:
        return self._card().text()

    def _repr_html_(self):
        return self._card().html()


def _content_html(content):
    """Return the content of a section as HTML: sentences as a list, other content as a table.

    ``content``: list of sentences or of pairs (label, text), or dictionary of columns by heading.
    """
    if not content:
        return ""
    headings_or_items = list(content)
    if isinstance(content, dict):
        rows = [headings_or_items, *zip(*content.values(), strict=True)]
    elif isinstance(headings_or_items[0], str):
        list_items = "".join(f"<li>{html.escape(sentence)}</li>" for sentence in headings_or_items)
        return f"<ul style='margin:.3em 0'>{list_items}</ul>"
    else:
        rows = headings_or_items  # pairs of a label and a text
    cell_tag = "<td style='text-align:left;vertical-align:top;padding:.15em .9em .15em 0'>"
    rows_html = (
        cell_tag + f"</td>{cell_tag}".join(html.escape(str(cell)) for cell in row) for row in rows
    )
    return "<table><tr>" + "</td></tr><tr>".join(rows_html) + "</td></tr></table>"


def interval_svg(value, lower, upper, *, bounds=None, baseline=None):
    """Return an SVG of a score and its interval on an axis; "" unless both are finite.

    ``value``, ``lower`` and ``upper`` are the score and the ends of its interval, in score units.
    The result is also "" if the interval has no width. ``baseline`` is the score of a model that
    does not use features; None is not drawn. The axis stays within ``bounds``, the ends of the
    range of the score, or None.
    """
    width = upper - lower
    if not (math.isfinite(value) and math.isfinite(width) and width > 0):
        return ""
    scores = [lower, upper] if baseline is None else [lower, upper, baseline]
    margin = 0.25 * (max(scores) - min(scores))
    range_low, range_high = bounds or (-math.inf, math.inf)
    axis_low = max(range_low, min(scores) - margin)
    axis_high = min(range_high, max(scores) + margin)

    def x_percent(score):
        """Return the horizontal position of a score in percent of the width, from 4 to 96."""
        return 4.0 + 92.0 * min(1.0, max(0.0, (score - axis_low) / (axis_high - axis_low)))

    x_lower = x_percent(lower)
    x_upper = x_percent(upper)
    lower_text = format_score(lower, math.floor)
    upper_text = format_score(upper, math.ceil)
    x_label = min(max((x_lower + x_upper) / 2.0, 15.0), 85.0)
    baseline_mark = ""
    if baseline is not None:
        x_baseline = x_percent(baseline)
        x_text = min(max(x_baseline, 20.0), 80.0)
        baseline_mark = (
            f"<line x1='{x_baseline:.1f}%' x2='{x_baseline:.1f}%' y1='16' y2='44' "
            f"stroke='currentColor' stroke-dasharray='2 2'/><text x='{x_text:.1f}%' y='54'>"
            f"{format_score(baseline)}: baseline</text>"
        )
    return (
        f"<svg viewBox='0 0 460 58' role='img' aria-label='{format_score(value)}, "
        f"between {lower_text} and "
        f"{upper_text}' style='width:100%;max-width:460px;display:block;margin:.2em 0' "
        "font-family='sans-serif' font-size='12' fill='currentColor' text-anchor='middle'>"
        "<line x1='4%' x2='96%' y1='38' y2='38' stroke='currentColor' opacity='.35'/>"
        f"<text x='{x_label:.1f}%' y='13'>{lower_text} to {upper_text}</text>"
        f"<rect x='{x_lower:.1f}%' y='20' "
        f"width='{x_upper - x_lower:.1f}%' height='14' rx='3' fill='{GOOD_COLOR}' opacity='.4'/>"
        f"<circle cx='{x_percent(value):.1f}%' cy='27' r='5' fill='{GOOD_COLOR}' "
        "stroke='currentColor'/>"
        f"{baseline_mark}</svg>"
    )


def explain_half_width(components, *, n_rows=1):
    """Return a sentence that states the components of a half-width and their sum.

    ``components``: components for sampling, adaptivity and noise, in score units; negative ones
    count as 0. ``n_rows``: number of rows of the report whose intervals are correct together.
    """
    sampling, adaptivity, noise = (max(0.0, component) for component in components)
    row_text = "one prespecified model" if n_rows == 1 else f"{n_rows:,} prespecified rows"
    return (
        f"Half-width {format_score(sampling + adaptivity + noise)} = {format_score(sampling)} "
        f"sampling error of {row_text} + {format_score(adaptivity)} adaptive selection "
        f"+ {format_score(noise)} rounding and noise."
    )


def _table_lines(columns):
    """Return the lines of a table of aligned texts; ``columns``: list of texts by heading."""
    padded_columns = []
    for heading, texts in columns.items():
        column = [heading, *texts]
        width = max(map(len, column))
        padded_columns.append([text.ljust(width) for text in column])
    rows = zip(*padded_columns, strict=True)
    return [("  " + "  ".join(row)).rstrip() for row in rows]


def _item_lines(items, *, is_below_heading):
    """Return the list of lines of a section, one for each text or pair (label, text)."""
    pair_format = "  {:<26}{}" if is_below_heading else "{} {}"
    lines = []
    for item in items:
        if isinstance(item, str):
            lines.append(f"  - {item}")
        else:
            label, text = item
            lines.append(pair_format.format(f"{label}:", text))
    return lines
