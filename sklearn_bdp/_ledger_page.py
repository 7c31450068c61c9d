"""A ledger as a page of HTML: one file without scripts and without anything from elsewhere."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 62rem; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: .25rem .6rem; border-bottom: 1px solid #ccc8; }
td { overflow-wrap: anywhere; }
td.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.scroll { overflow-x: auto; }
svg { max-width: 100%; height: auto; }
@media (prefers-color-scheme: dark) { body { background: #16181c; color: #e6e6e6; } }
"""
_WIDTH, _HEIGHT, _MARGIN = 640, 220, 48  # of the chart, in pixels
_COLUMNS = ("batch", "time", "user", "submitter", "metric", "model", "value", "lower", "upper",
            "source")  # fmt: skip


def ledger_page(
    facts: dict[str, Any],
    history: Sequence[Any],
    *,
    spending: Sequence[tuple[str, float, str]],
    forecast: Sequence[tuple[str, float]],
) -> str:
    """Return a page about a ledger.

    Parameters
    ----------
    facts : dict
        Public state by name.
    history : sequence of AnswerRecord
        All answers.
    spending : sequence of (str, float, str)
        Time of each batch, failure probability spent up to then, and user.
    forecast : sequence of (str, float)
        Sampling errors of later queries in words and as half-widths.

    Returns
    -------
    str
        A document of HTML.
    """
    title = f"Ledger of {facts['records']:,} records"
    state = [
        ("ledger", facts["ledger"]),
        ("records", f"{facts['records']:,}, {facts['correlation']}"),
        ("confidence", f"at least {100 * facts['confidence_level']:g}% for all intervals together"),
        ("answers", f"{facts['answers']:,} in {facts['batches']:,} batches"),
        ("corrected by the holdout", f"{facts['corrected']:,}"),
        ("revealed by the answers", f"{facts['information_spent']:.4g} nats"),
        ("code length of the next query", f"{facts['next_code_length']:.4g} nats"),
        ("last answer", facts["last_answer"] or "none"),
        ("closed", "by the final report" if facts["closed"] else "no"),
        ("digest of the last entry", facts["digest"]),
    ]
    if facts["moved_to"]:
        state.append(("moved to", facts["moved_to"]))
    users = [(user, f"{count:,}") for user, count in facts["users"].items()]
    widths = [(label, f"±{half_width:.3g} of the range") for label, half_width in forecast]
    sections = [
        ("State", _table(("", ""), state)),
        ("Failure probability spent", _chart(spending, 1.0 - facts["confidence_level"])),
        ("Sampling error of later queries", _table(("query", "half-width"), widths)),
        ("Who asked", _table(("user", "batches"), users)),
        ("Answers", _table(_COLUMNS, [_cells(answer) for answer in history])),
    ]
    body = "".join(f"<h2>{html.escape(name)}</h2>\n{content}\n" for name, content in sections)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f"<h1>{html.escape(title)}</h1>\n{body}</body>\n</html>"
    )


def _cells(answer):
    """Return the cells of an answer."""
    values = [getattr(answer, name) for name in _COLUMNS]
    return [f"{value:.4g}" if isinstance(value, float) else value for value in values]


def _table(names, rows):
    """Return a table, or a sentence if it would be empty."""
    if not rows:
        return "<p>None.</p>"
    head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
    lines = [f"<thead><tr>{head}</tr></thead>"] if any(names) else []
    lines += [
        "<tr>"
        + "".join(_cell(name, value) for name, value in zip(names, row, strict=True))
        + "</tr>"
        for row in rows
    ]
    return f'<div class="scroll"><table>{"".join(lines)}</table></div>'


def _cell(name, value):
    text = html.escape("-" if value is None or value == "" else str(value))
    is_number = name in ("batch", "value", "lower", "upper", "batches", "half-width")
    return f'<td class="number">{text}</td>' if is_number else f"<td>{text}</td>"


def _chart(spending, total):
    """Return a step curve: failure probability spent after each batch."""
    if not spending:
        return "<p>None.</p>"
    largest = max(spent for _, spent, _ in spending) or 1.0
    width, height = _WIDTH - 2 * _MARGIN, _HEIGHT - 2 * _MARGIN
    step = width / len(spending)
    points = [f"{_MARGIN},{_MARGIN + height}"]
    level = _MARGIN + height
    for number, (_, spent, _) in enumerate(spending):
        left = _MARGIN + number * step
        points.append(f"{left:.1f},{level:.1f}")
        level = _MARGIN + height * (1.0 - spent / largest)
        points.append(f"{left:.1f},{level:.1f}")
    points.append(f"{_MARGIN + width:.1f},{level:.1f}")
    first, last = (html.escape(spending[end][0][:16]) for end in (0, -1))
    bottom = _MARGIN + height
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        'aria-label="Failure probability spent after each batch">'
        f'<polyline fill="none" stroke="#1f77b4" stroke-width="2" points="{" ".join(points)}"/>'
        f'<path d="M{_MARGIN} {_MARGIN}V{bottom}H{_MARGIN + width}" fill="none" stroke="#888"/>'
        f'<text x="{_MARGIN}" y="{_MARGIN - 8}" font-size="12" fill="currentColor">{largest:.3g} '
        f"of {total:.3g} for all intervals</text>"
        f'<text x="{_MARGIN}" y="{bottom + 18}" font-size="12" fill="currentColor">{first}</text>'
        f'<text x="{_MARGIN + width}" y="{bottom + 18}" font-size="12" text-anchor="end" '
        f'fill="currentColor">{last}</text></svg>'
    )
