"""HTML page about a ledger: one file without scripts and without links to other files."""

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
    public_state: dict[str, Any],
    history: Sequence[Any],
    *,
    spending: Sequence[tuple[str, float, str]],
    forecast: Sequence[tuple[str, float]],
) -> str:
    """Return an HTML page about a ledger.

    Parameters
    ----------
    public_state : dict
        Public state by the names of ``python -m sklearn_bdp ledger show --json``.
    history : sequence of AnswerRecord
        All answers of the ledger.
    spending : sequence of (str, float, str)
        For each batch: time, failure probability spent so far, and user.
    forecast : sequence of (str, float)
        For some later queries: description, and half-width in units of [0, 1].

    Returns
    -------
    str
        The HTML document.
    """
    title = f"Ledger of {public_state['records']:,} records"
    state_rows = [
        ("ledger", public_state["ledger"]),
        ("records", f"{public_state['records']:,}, {public_state['correlation']}"),
        (
            "confidence",
            f"at least {100 * public_state['confidence_level']:g}% for all intervals together",
        ),
        ("answers", f"{public_state['answers']:,} in {public_state['batches']:,} batches"),
        ("corrected by the holdout", f"{public_state['corrected']:,}"),
        ("revealed by the answers", f"{public_state['information_spent']:.4g} nats"),
        ("code length of the next query", f"{public_state['next_code_length']:.4g} nats"),
        ("last answer", public_state["last_answer"] or "none"),
        ("closed", "by the final report" if public_state["closed"] else "no"),
        ("digest of the last entry", public_state["digest"]),
    ]
    if public_state["moved_to"]:
        state_rows.append(("moved to", public_state["moved_to"]))
    user_rows = [(user, f"{count:,}") for user, count in public_state["users"].items()]
    forecast_rows = [(label, f"±{half_width:.3g} of the range") for label, half_width in forecast]
    answer_rows = [_answer_values(answer) for answer in history]
    sections = [
        ("State", _table(("", ""), state_rows)),
        ("Failure probability spent", _chart(spending, 1.0 - public_state["confidence_level"])),
        ("Sampling error of later queries", _table(("query", "half-width"), forecast_rows)),
        ("Who asked", _table(("user", "batches"), user_rows)),
        ("Answers", _table(_COLUMNS, answer_rows)),
    ]
    body = "".join(f"<h2>{html.escape(heading)}</h2>\n{content}\n" for heading, content in sections)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f"<h1>{html.escape(title)}</h1>\n{body}</body>\n</html>"
    )


def _answer_values(answer):
    """Return the values of the fields ``_COLUMNS`` of an AnswerRecord, floats as text."""
    values = [getattr(answer, name) for name in _COLUMNS]
    return [f"{value:.4g}" if isinstance(value, float) else value for value in values]


def _table(column_names, rows):
    """Return an HTML table, or the HTML paragraph "None." if there are no rows.

    ``rows``: sequences of values. The table has no head if all column names are empty.
    """
    if not rows:
        return "<p>None.</p>"
    head_cells = "".join(f"<th>{html.escape(name)}</th>" for name in column_names)
    html_rows = [f"<thead><tr>{head_cells}</tr></thead>"] if any(column_names) else []
    for row in rows:
        cells = [_cell(name, value) for name, value in zip(column_names, row, strict=True)]
        html_rows.append(f"<tr>{''.join(cells)}</tr>")
    return f'<div class="scroll"><table>{"".join(html_rows)}</table></div>'


def _cell(column_name, value):
    """Return the HTML of a table cell: numeric columns have the class "number"."""
    text = html.escape("-" if value is None or value == "" else str(value))
    is_number = column_name in ("batch", "value", "lower", "upper", "batches", "half-width")
    return f'<td class="number">{text}</td>' if is_number else f"<td>{text}</td>"


def _chart(spending, total_probability):
    """Return a step curve as SVG: failure probability spent after each batch.

    Without a batch, return the HTML paragraph "None." ``spending``: time, failure probability spent
    so far and user of each batch. ``total_probability``: failure probability of all intervals.
    """
    if not spending:
        return "<p>None.</p>"
    max_spent = max(spent for _, spent, _ in spending) or 1.0
    # Size of the plotted area, and coordinates in pixels from the upper left corner.
    width = _WIDTH - 2 * _MARGIN
    height = _HEIGHT - 2 * _MARGIN
    bottom = _MARGIN + height
    step_width = width / len(spending)
    points = [f"{_MARGIN},{bottom}"]
    y = bottom
    for batch_index, (_, spent, _) in enumerate(spending):
        x = _MARGIN + batch_index * step_width
        points.append(f"{x:.1f},{y:.1f}")
        y = _MARGIN + height * (1.0 - spent / max_spent)
        points.append(f"{x:.1f},{y:.1f}")
    points.append(f"{_MARGIN + width:.1f},{y:.1f}")
    first_time, last_time = (html.escape(spending[index][0][:16]) for index in (0, -1))
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        'aria-label="Failure probability spent after each batch">'
        f'<polyline fill="none" stroke="#1f77b4" stroke-width="2" points="{" ".join(points)}"/>'
        f'<path d="M{_MARGIN} {_MARGIN}V{bottom}H{_MARGIN + width}" fill="none" stroke="#888"/>'
        f'<text x="{_MARGIN}" y="{_MARGIN - 8}" font-size="12" fill="currentColor">'
        f"{max_spent:.3g} of {total_probability:.3g} for all intervals</text>"
        f'<text x="{_MARGIN}" y="{bottom + 18}" font-size="12" fill="currentColor">'
        f"{first_time}</text>"
        f'<text x="{_MARGIN + width}" y="{bottom + 18}" font-size="12" text-anchor="end" '
        f'fill="currentColor">{last_time}</text></svg>'
    )
