"""Card (title, lines and sections) of a holdout's certificate."""

from __future__ import annotations

import math
from typing import Any

from sklearn_bdp.accounting.certificate import holdout_text, privacy_text, vacuous_title
from sklearn_bdp.utils.html import (
    Card,
    explain_half_width,
    format_half_width,
    format_score,
    interval_svg,
    summary_sentence,
)

# Half-width, as a fraction of the range, from which on a forecast is not informative.
_WHOLE_RANGE = 0.45


def certificate_card(certificate: Any) -> Card:
    """Return the card of a :class:`~sklearn_bdp.release.certificate.HoldoutCertificate`."""
    range_length = _range_length(certificate)
    selected = certificate.selected
    lines = [_confidence_line(certificate)]
    report_half_width_text = _report_half_width_text(certificate)
    if selected is None:
        title = _title(certificate)
        picture = ""
        is_informative = not certificate.is_vacuous
        if report_half_width_text:
            lines.append(
                f"A final report now, at a middling score: about {report_half_width_text}."
            )
    else:
        title = _selected_title(certificate, report_half_width_text)
        picture = interval_svg(
            selected.score,
            selected.lower,
            selected.upper,
            bounds=(0.0, 1.0) if certificate.units is None else certificate.units[1:],
            baseline=selected.baseline,
        )
        is_informative = selected.upper - selected.lower < 0.5 * range_length
    if selected is None or selected.interval != "none":
        lines += _forecast_lines(certificate)
    if selected is not None and selected.half_width_components is not None:
        components = [range_length * component for component in selected.half_width_components]
        lines.append(explain_half_width(components))
    sections = [
        ("It holds if", certificate.assumptions),
        ("Note", certificate.notes),
        ("Details", list(_details(certificate))),
    ]
    return Card(title, lines, sections, picture, is_informative)


def _report_half_width_text(certificate):
    """Return the expected half-width of a final report as text, in score units.

    The text is empty if the half-width is not informative, and for a closed holdout.
    """
    half_width = certificate.forecast.final_report
    if half_width is None or not half_width < _WHOLE_RANGE:
        return ""
    return f"±{format_half_width(half_width * _range_length(certificate))}"


def _range_length(certificate):
    """Return the length of the range of a certificate's scores, in score units."""
    if certificate.units is None:
        return 1.0
    _, lower, upper = certificate.units
    return upper - lower


def _selected_title(certificate, report_half_width_text):
    """Return the title for a selected candidate, in score units.

    ``report_half_width_text``: half-width of a final report as text with "±", or "".
    """
    selected = certificate.selected
    if math.isnan(selected.score):
        return f"{selected.description}: not verified. The holdout gave no answer about it."
    score_text = format_score(selected.score)
    if selected.verdict:
        score_text += f". {selected.verdict[0].upper()}{selected.verdict[1:]}"
    if selected.interval == "none":
        return f"{selected.description}: {score_text}. It has no confidence interval."
    interval_kind = f"{100 * certificate.confidence_level:.6g}% confidence interval"
    if selected.interval == "approximate":
        interval_kind = f"approximate {interval_kind}"
    title = summary_sentence(
        selected.description,
        score_text,
        selected.lower,
        selected.upper,
        target=certificate.records.target,
        interval_kind=interval_kind,
    )
    if report_half_width_text:
        title += f" A final report now: about {report_half_width_text}."
    return title


def _title(certificate):
    """Return the title of a certificate without a selected candidate, with its half-width."""
    half_width_text = f"±{format_half_width(certificate.half_width)}"
    if certificate.units is not None:
        name, lower, upper = certificate.units
        range_text = f"({name}, from {lower:.4g} to {upper:.4g}; {half_width_text} of that range)"
        half_width_text = (
            f"±{format_half_width(certificate.half_width * (upper - lower))} {range_text}"
        )
    if certificate.answers.n_answers:
        n_answers = certificate.answers.n_answers
        return f"{n_answers:,} verified so far. Widest interval: {half_width_text}."
    records = certificate.records
    if certificate.is_vacuous:
        of_range = "" if certificate.units is None else "of the range "
        return vacuous_title(records.n, half_width_text.removeprefix("±"), of_range=of_range)
    subject = "The answer" if certificate.mechanism.n_queries == 1 else "The first answer"
    target = records.target if records.is_time_ordered else "new records"
    return f"{subject} is within {half_width_text} of the expected score on {target}."


def _confidence_line(certificate):
    """Return the line on the coverage of intervals and on the holdout records."""
    answers = certificate.answers
    holdout = _holdout_text(certificate.records)
    if answers.n_without_interval and not answers.n_proven and not answers.n_approximate:
        return f"No answer so far has an interval. Holdout: {holdout}."
    if answers.n_approximate:
        coverage = _approximate_coverage(certificate)
    else:
        coverage = _proven_coverage(certificate)
    return f"{coverage} Holdout: {holdout}."


def _approximate_coverage(certificate):
    """Return sentences on the coverage of approximate intervals, and of proven ones if any."""
    answers = certificate.answers
    confidence = f"{100 * certificate.confidence_level:.6g}%"
    approximate = (
        f"Nominal simultaneous coverage of all {answers.n_approximate:,} approximate intervals "
        f"so far: about {confidence}, whichever candidate you select, for losses without rare "
        "large values."
    )
    proven = ""
    if answers.n_proven > 0:
        proven = f" Of all {answers.n_proven:,} proven ones: at least {confidence}."
    return f"{approximate}{proven}"


def _proven_coverage(certificate):
    """Return the sentence on the coverage of proven intervals."""
    n_proven = certificate.answers.n_proven
    n_queries = certificate.mechanism.n_queries
    has_selection = certificate.selected is not None
    selection_clause = ""
    if n_queries == 1 or (has_selection and n_proven <= 1):
        coverage = "Coverage of this interval"
    elif has_selection:
        coverage = f"Simultaneous coverage of all {n_proven:,} intervals so far"
        selection_clause = ", whichever candidate you select"
    elif n_proven == 0:
        coverage = "Simultaneous coverage of this interval and all later ones"
    elif n_queries is None:
        coverage = "Simultaneous coverage of all intervals"
    else:
        coverage = f"Simultaneous coverage of all {n_queries:,} intervals"
    return f"{coverage}: at least {100 * certificate.confidence_level:.6g}%{selection_clause}."


def _holdout_text(records):
    """Return text on number and dependence of holdout records, or, in time order, on the dates."""
    if not records.is_time_ordered:
        return holdout_text(records.n, records.n_effective, records.correlation)
    dates = records.target.partition(", ")[0].removeprefix("these ")
    if dates.startswith(f"{records.n:,} "):
        return dates
    return f"{records.n:,} records on {dates}"


def _forecast_lines(certificate):
    """Return a list of at most one line: on the next query, or advice for a closed holdout."""
    range_length = _range_length(certificate)
    forecast = certificate.forecast
    selected = certificate.selected
    if forecast.next_query is None:
        return [forecast.advice] if forecast.advice else []
    if selected is not None and selected.next_query is not None:
        half_width = selected.next_query
        advice = selected.advice
        score_text = "at a similar score"
        is_whole_range = half_width >= _WHOLE_RANGE
    else:
        half_width = forecast.next_query
        advice = forecast.advice
        score_text = "at a middling score"
        is_whole_range = not half_width < 0.5
        if advice and range_length != 1.0:
            advice += " of the range"
    half_width_text = format_half_width(half_width * range_length)
    line = f"One more evaluation {score_text}: about ±{half_width_text}"
    line += ", the whole range." if is_whole_range else "."
    if advice:
        line += f" {advice[0].upper()}{advice[1:]}."
    return [line]


def _details(certificate):
    """Yield the label and the text of each detail of a certificate."""
    answers = certificate.answers
    mechanism = certificate.mechanism
    forecast = certificate.forecast
    yield "proved by", "code lengths of all answers (G7)"
    yield "information spent", f"{answers.information_spent:.2g} nats, revealed by the answers"
    if forecast.next_query is not None:
        weight_nats = answers.next_code_length - answers.information_spent
        yield (
            "next query",
            f"code length {answers.next_code_length:.2g} nats: information spent, and "
            f"{weight_nats:.2g} for the weight of its batch",
        )
    yield "correlation", certificate.records.correlation or "independent records"
    if answers.n_answers:
        scope = "" if forecast.next_query is None else ", the next one near 1/2 included"
        yield "widest interval", f"±{format_half_width(certificate.half_width)}{scope}"
    if answers.n_relaxed:
        yield "relaxed", f"{answers.n_relaxed:,} kept wide because they trail the best"
    budget = "no cap" if mechanism.budget is None else f"{mechanism.budget:,}"
    yield "answers from the holdout", budget
    if mechanism.spending:
        yield "spending", mechanism.spending
    yield "parts, query near 1/2", _components_text(certificate)
    if mechanism.resolution > 0:  # 0: each query has cells of its own
        yield "answers rounded to", f"cells of {mechanism.resolution:.3g}"
    if mechanism.states_privacy:
        privacy = privacy_text(certificate.dp_epsilon, certificate.bdp_epsilon)
        yield "privacy of the holdout", privacy


def _components_text(certificate):
    """Return text on sampling, noise and threshold of a query near 1/2, fractions of the range."""
    forecast = certificate.forecast
    components = (
        f"sampling {forecast.sampling:.3g}, noise {forecast.noise:.3g}, threshold "
        f"{certificate.mechanism.threshold:.3g}"
    )
    if certificate.units is None:
        return components
    return f"{components} of the range, {_range_length(certificate):.4g}"
