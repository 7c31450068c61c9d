"""Results in words, and as cards for notebooks that take their colours from the page."""

import html
import math
import re

GOOD, BAD = "#2a9d74", "#d1495b"  # readable on white and on black
_WIDTH, _MARGIN = 460, 14


def digits(score, rounded=round):
    """Return a score as text: three decimals, or four digits where it is large.

    ``rounded``: ``math.floor`` or ``math.ceil`` for the ends of an interval, which round outward.
    """
    places = 3 if abs(score) <= 1.0 else max(0, 3 - math.floor(math.log10(abs(score))))
    return f"{rounded(score * 10.0**places) / 10.0**places:.{places}f}"


def expected(lower, upper, on="new records like these", what="score"):
    """Return an interval as a sentence; ``on`` says of what, ``what`` is the name of the score."""
    ends = f"{digits(lower, math.floor)} and {digits(upper, math.ceil)}"
    if ", judged " in on:  # dates, each judged given its past (theory G26)
        return (
            f"Over {on}, the expected {what} was between {ends}. Nothing is assumed about drift or "
            "dependence. It does not say how the model will do next year."
        )
    return f"Expect between {ends} on {on}."


def stated(name, said, lower, upper, on):
    """Return the first line of a certificate or a report: what was scored, and its interval."""
    found, of = f"{name}: {said}.", expected(lower, upper, on, re.split(r" \(| of ", name)[0])
    return f"{of} {found}" if ", judged " in on else f"{found} {of}"


def card(title, lines, *, picture="", folded=(), good=True):
    """Return a card: one line in bold, a picture, sentences, and what is folded away.

    ``folded`` holds headings and what opens below them: sentences, or HTML such as :func:`table`;
    ``good`` colours the edge. Titles and sentences are escaped, HTML is not.
    """
    said = "".join(
        f"<p style='margin:.35em 0;line-height:1.45'>{_escaped(line)}</p>" for line in lines
    )
    more = "".join(
        "<details style='margin:.35em 0'><summary style='cursor:pointer;opacity:.8'>"
        f"{html.escape(heading)}</summary>{_content(content)}</details>"
        for heading, content in folded
    )
    return (
        "<div style='border:1px solid rgba(128,128,128,.35);"
        f"border-left:4px solid {GOOD if good else BAD};border-radius:6px;"
        "padding:.7em 1.1em;margin:.4em 0;max-width:46em;color:inherit'>"
        f"<p style='margin:.1em 0 .4em;font-size:1.08em;line-height:1.4'><b>{_escaped(title)}"
        f"</b></p>{picture}{said}{more}</div>"
    )


def _escaped(text):
    """Return a sentence as HTML in which a sign stays with its number."""
    return html.escape(text).replace("± ", "±&nbsp;")


def _content(content):
    """Return sentences as a list; HTML as it is."""
    if isinstance(content, str):
        return content
    items = "".join(f"<li>{html.escape(str(item))}</li>" for item in content)
    return f"<ul style='margin:.3em 0'>{items}</ul>"


def table(rows):
    """Return ``(label, text)`` pairs as a table without stripes."""
    cell = "style='text-align:left;vertical-align:top;padding:.15em .9em .15em 0"
    return (
        "<table>"
        + "".join(
            f"<tr style='background:none'><th {cell};font-weight:normal;opacity:.75'>"
            f"{html.escape(str(label))}</th><td {cell}'>{html.escape(str(text))}</td></tr>"
            for label, text in rows
        )
        + "</table>"
    )


def interval_picture(value, lower, upper, *, bounds=None, baseline=None):
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
        return _MARGIN + min(1.0, max(0.0, (score - low) / (high - low))) * (_WIDTH - 2 * _MARGIN)

    left, right, dot = place(lower), place(upper), place(value)
    # Names of the ends stand apart even where the ends do not.
    apart = max(0.0, 54 - (right - left)) / 2
    ends = digits(lower, math.floor), digits(upper, math.ceil)
    parts = [
        _text(max(left - apart, 2 * _MARGIN), 13, ends[0]),
        _text(min(right + apart, _WIDTH - 2 * _MARGIN), 13, ends[1]),
        *(_line(x, 18, 36, f"stroke='{GOOD}' stroke-width='2'") for x in (left, right)),
    ]
    if baseline is not None:
        at = place(baseline)
        parts.append(_line(at, 16, 44, "stroke='currentColor' stroke-dasharray='2 2'"))
        inside = min(max(at, 8 * _MARGIN), _WIDTH - 8 * _MARGIN)
        parts.append(_text(inside, 54, f"{digits(baseline)}: baseline"))
    return (
        f"<svg viewBox='0 0 {_WIDTH} 58' role='img' aria-label='{digits(value)}, between "
        f"{ends[0]} and {ends[1]}' style='width:100%;max-width:{_WIDTH}px;display:block;"
        "margin:.2em 0' font-family='sans-serif' font-size='12' fill='currentColor'>"
        f"<line x1='{_MARGIN}' x2='{_WIDTH - _MARGIN}' y1='38' y2='38' stroke='currentColor' "
        f"opacity='.35'/><rect x='{left:.1f}' y='20' width='{right - left:.1f}' height='14' "
        f"rx='3' fill='{GOOD}' opacity='.4'/><circle cx='{dot:.1f}' cy='27' r='5' fill='{GOOD}' "
        f"stroke='currentColor'/>{''.join(parts)}</svg>"
    )


def _line(x, top, bottom, style):
    return f"<path d='M{x:.1f} {top}V{bottom}' {style}/>"


def _text(x, y, word):
    return f"<text x='{x:.1f}' y='{y}' text-anchor='middle'>{word}</text>"


def why_wide(parts):
    """Return where a half-width comes from, in a sentence."""
    sampling, asked, noise = (max(0.0, part) for part in parts)
    return (
        f"Why this wide: ±{digits(sampling)} for one fixed query on so many records, "
        f"{digits(asked)} more for adaptive queries, {digits(noise)} for resolution and noise."
    )
