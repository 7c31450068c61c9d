"""Results in words, and as cards for notebooks that take their colours from the page."""

import html
import math

GOOD, BAD = "#2a9d74", "#d1495b"  # readable on white and on black
_WIDTH, _MARGIN = 460, 14


def digits(score, rounded=round):
    """Return a score as text: three decimals, or four digits where it is large.

    ``rounded``: ``math.floor`` or ``math.ceil`` for the ends of an interval, which round outward.
    """
    places = 3 if abs(score) <= 1.0 else max(0, 3 - math.floor(math.log10(abs(score))))
    return f"{rounded(score * 10.0**places) / 10.0**places:.{places}f}"


def expected(lower, upper, on="new records like these"):
    """Return an interval as a sentence; ``on`` says of what."""
    ends = f"{digits(lower, math.floor)} and {digits(upper, math.ceil)}"
    return f"Expect between {ends} on {on}."


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


def interval_picture(value, lower, upper, *, bounds=None):
    """Return an SVG of a score and its interval on an axis; empty where a number is missing.

    ``bounds``: the range of the score; by default the axis is three intervals wide.
    """
    width = upper - lower
    if not (math.isfinite(value) and math.isfinite(width) and width > 0):
        return ""
    low, high = bounds or (lower - width, upper + width)
    if not high > low:
        return ""

    def place(score):
        share = min(1.0, max(0.0, (score - low) / (high - low)))
        return _MARGIN + share * (_WIDTH - 2 * _MARGIN)

    left, right, dot = place(lower), place(upper), place(value)
    # Names of the ends stand apart even where the ends do not.
    apart = max(0.0, 54 - (right - left)) / 2
    ends = digits(lower, math.floor), digits(upper, math.ceil)
    places = max(left - apart, 2 * _MARGIN), min(right + apart, _WIDTH - 2 * _MARGIN)
    text = "".join(
        f"<text x='{x:.1f}' y='13' text-anchor='middle'>{end}</text>"
        for x, end in zip(places, ends, strict=True)
    )
    text += "".join(
        f"<text x='{place(score):.1f}' y='52' text-anchor='{anchor}' opacity='.65'>{score:.3g}"
        "</text>"
        for score, anchor in ((low, "start"), (high, "end"))
    )
    return (
        f"<svg viewBox='0 0 {_WIDTH} 56' role='img' aria-label='{digits(value)}, between "
        f"{ends[0]} and {ends[1]}' style='width:100%;max-width:{_WIDTH}px;display:block;"
        "margin:.2em 0' "
        "font-family='sans-serif' font-size='12' fill='currentColor'>"
        f"<line x1='{_MARGIN}' x2='{_WIDTH - _MARGIN}' y1='38' y2='38' stroke='currentColor' "
        "opacity='.35'/>"
        f"<rect x='{left:.1f}' y='20' width='{right - left:.1f}' height='14' rx='3' "
        f"fill='{GOOD}' opacity='.4'/>"
        f"<path d='M{left:.1f} 18V36M{right:.1f} 18V36' stroke='{GOOD}' stroke-width='2'/>"
        f"<circle cx='{dot:.1f}' cy='27' r='5' fill='{GOOD}' stroke='currentColor'/>"
        f"{text}</svg>"
    )
