"""Sentences for the methods section of a paper, from the rows of a final report."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from sklearn_bdp.report.methods_intervals import (
    approximate_sentences,
    assumption_sentences,
    family_sentences,
    proven_sentences,
)
from sklearn_bdp.report.methods_words import (
    AUC,
    MAX_ESTIMATES,
    NEGATIVE,
    NODES_TARGET,
    NOISE,
    PAIR,
    SKILL_PREFIX,
    described_model,
    estimate_phrases,
    is_in_time,
    listed,
    metric_in_prose,
    model_names,
    name_of_units,
    noun_phrase,
    percent,
    short_model,
    short_name,
    with_article,
)
from sklearn_bdp.utils.html import format_score

#: Metrics of predicted classes, by the start of their names.
_THRESHOLD_METRICS = (
    *("accuracy", "balanced_accuracy", "f1", "jaccard", "matthews_corrcoef", "precision"),
    *("negative_predictive_value", "recall", "specificity", "cohen_kappa"),
)
#: Records that metrics by class refer to, if a group is drawn first.
_RECORDS_OF_METRIC = {
    "recall": "such a record, given that it is positive",
    "specificity": "such a record, given that it is negative",
    "balanced_accuracy": "the mean over classes of the recall of such a record, given its class",
    AUC: "two such records of different groups, given that one is positive and the other negative",
}
#: Start of the note on errors that are clipped in the proven interval only.
_CLIPPED_NOTE = "The proven interval is about errors clipped"
#: Note on the score without a clip.
_UNCLIPPED_NOTE = re.compile(r"Without the clip, the score is (\S+)\.")
_CLIPPED_ERRORS = re.compile(r"clipped at errors of (.+)\)$")
_CLIPPED_PROBABILITY = re.compile(r"clipped at a probability of (.+)\)$")
#: Unlimited samples from the population of the holdout, by target.
_POPULATIONS = {
    "new records like these": (
        "an unlimited number of new records from the population of the holdout records"
    ),
    "records of new groups": (
        "records of an unlimited number of new groups from the population of the holdout groups"
    ),
}
_GIVEN = ", each given "  # between dates and the information that they are given, in targets
#: Start of the assumption of nodes of which no two are neighbors.
_NO_NEIGHBORS = "Every held-out node has all its labeled neighbors in the training set"
_UNDEFINED_NOTE = "The score is undefined for these records."
#: Part of an assumption of a report.
_OTHER_ACCOUNT = "another account had answered about the same targets"
#: Note on the holdout errors beyond a clip.
_BEYOND_CLIP = re.compile(
    r"(?P<count>[\d,]+) of (?P<n>[\d,]+) holdout errors of (?P<model>.+) are beyond the clip\."
)
#: Definitions of metrics of calibration, and their names in prose.
_CALIBRATION = {
    "calibration_intercept": (
        "The calibration intercept is that of a logistic regression of the outcome with the log "
        "odds of the prediction as offset (ideal value 0; negative if predictions are too high on "
        "average)."
    ),
    "calibration_slope": (
        "The calibration slope is that of a logistic regression of the outcome on the log odds of "
        "the prediction (ideal value 1; below 1 if predictions are too extreme)."
    ),
}
_CALIBRATION_NAMES = {
    "calibration_intercept": "the calibration intercept",
    "calibration_slope": "the calibration slope",
}


def methods_section(report: Any, letter_by_model_name: Mapping[str, str]) -> str:
    """Return sentences on the holdout, the first estimate, its estimand, and all intervals.

    Parameters
    ----------
    report : FinalReport
        The report that a paper is about.
    letter_by_model_name : mapping of str to str
        Letters that replace long names of models in the table of the report; may be empty.
    """
    sentences = [
        *_sample_sentences(report),
        *_use_sentences(report),
        *_estimate_sentences(report, letter_by_model_name),
        *_letter_sentences(report, letter_by_model_name),
        *_target_sentences(report),
        *_difference_sentences(report, letter_by_model_name),
    ]
    proven_rows = [row for row in report.rows if row.proven is not None]
    approximate_rows = [row for row in report.rows if row.approximate is not None]
    if report.alpha_approximate is None:
        approximate_rows = []
    if proven_rows:
        sentences += proven_sentences(report, proven_rows, letter_by_model_name)
    if approximate_rows:
        sentences += approximate_sentences(report, approximate_rows, letter_by_model_name)
    if proven_rows or approximate_rows:
        sentences += assumption_sentences(report, proven_rows, approximate_rows)
    if proven_rows and approximate_rows:
        sentences += family_sentences(report)
    sentences += _clip_sentences(report)
    sentences += _sentences_on_missing_intervals(report, letter_by_model_name)
    if any(row.metric.startswith(_THRESHOLD_METRICS) for row in report.rows):
        model = "each model" if len(model_names(report)) > 1 else "the model"
        sentences.append(f"Records were classified by the predict method of {model}.")
    version_text = f", version {report.version}" * bool(report.version)
    sentences.append(
        "Limits are rounded outward. Intervals were computed with the Python package "
        f"sklearn_bdp{version_text}."
    )
    return " ".join(sentences)


def _sample_sentences(report):
    """Yield sentences on the records and units of the holdout, and on those of subgroups."""
    unit_name = name_of_units(report)
    weighting_text = " per record (records weigh the same; of very large groups only some count)"
    weighting_text *= unit_name == "groups" and report.per == "record"
    yield f"Performance{weighting_text} was estimated on a holdout of {_sample_text(report)}."
    if unit_name == "groups" and report.per == "unit":
        yield _weighting_sentence(report)
    row_by_subgroup = {row.subgroup: row for row in report.rows if row.subgroup}
    subgroup_texts = [
        f"{subgroup} ({_count_text(row, unit_name)})"
        for subgroup, row in row_by_subgroup.items()
        if " minus " not in subgroup
    ]
    if subgroup_texts:
        yield f"The subgroups are {listed(subgroup_texts)}."


def _sample_text(report):
    """Return the numbers of records, of units and of positives in the holdout, as text."""
    n_units, _ = report.units
    unit_name = name_of_units(report)
    if unit_name in ("records", "nodes") or n_units == report.n:
        sample_text = f"{n_units:,} {unit_name}"
    else:
        preposition = "on" if unit_name == "dates" else "from"
        sample_text = f"{report.n:,} records {preposition} {n_units:,} {unit_name}"
    positives_text = _positives_text(report)
    sample_text += f" ({positives_text})" * bool(positives_text)
    if any(text.startswith(_NO_NEIGHBORS) for text in report.assumptions):
        sample_text += ", no two of which are neighbors"
    return sample_text


def _positives_text(report):
    """Return text on the numbers of positive records and of units with one; empty if not known."""
    n_units, _ = report.units
    unit_name = name_of_units(report)
    first = report.rows[0]
    class_text, n_positive_records = report.positives or ("", first.n_events)
    class_suffix = f": {class_text}" * bool(class_text)
    n_positive_units = first.n_events if not first.subgroup else None
    if unit_name in ("records", "nodes") or n_units == report.n:
        is_known = n_positive_records is not None and not first.subgroup
        return f"{n_positive_records:,} positive{class_suffix}" if is_known else ""
    texts = []
    if report.positives is not None:
        texts.append(f"{n_positive_records:,} positive records{class_suffix}")
        class_suffix = ""
    if n_positive_units is not None:
        texts.append(f"{n_positive_units:,} {unit_name} with a positive record{class_suffix}")
    return "; ".join(texts)


def _weighting_sentence(report):
    """Return a sentence on the weights of groups and on the records that scores refer to."""
    metric_names = {row.metric.partition(" (")[0] for row in report.rows}
    class_texts = [
        f"; {noun_phrase(metric_in_prose(name))} to {records}"
        for name, records in _RECORDS_OF_METRIC.items()
        if name in metric_names
    ]
    return (
        "Each group had the same total weight. Scores refer to a random record of a random "
        f"group{''.join(class_texts)}."
    )


def _count_text(row, unit_name):
    """Return the number of units of a row, and of those with a positive record, as text."""
    units_text = f"{row.n_units:,} {unit_name}"
    if row.n_events is None:
        return units_text
    description = "positive" if unit_name in ("records", "nodes") else "with a positive record"
    return f"{units_text}, {row.n_events:,} {description}"


def _use_sentences(report):
    """Yield sentences on earlier queries, a second holdout, and refits of the models."""
    if report.n_batches:
        yield _earlier_use_text(report)
        yield f"The {_fixed_text(report)} fixed before it."
    else:
        yield (
            f"The holdout had not been evaluated before. The {_fixed_text(report)} specified in "
            "advance."
        )
    if any(_OTHER_ACCOUNT in text for text in report.assumptions):
        yield (
            "Another holdout with the same outcome values had been evaluated separately. Its "
            "evaluations are not counted here: coverage requires that no feature, model or metric "
            "was chosen from them."
        )
    if report.refit:
        yield f"Models were refitted {report.refit} on all records known by then."


def _fixed_text(report):
    """Return words such as "model and the metric of the final evaluation were"."""
    n_rows = len(report.rows)
    if n_rows == 1:
        return "model and the metric of the final evaluation were"
    subject = "models and metrics" if len(model_names(report)) > 1 else "model and the metrics"
    if any(row.subgroup for row in report.rows):
        subject = subject.replace(" and ", ", ") + " and the subgroups"
    return f"{subject} of the final evaluation ({n_rows} estimates) were"


def _earlier_use_text(report):
    """Return sentences on earlier queries of the holdout, as one text."""
    rounds_text = "1 round" if report.n_batches == 1 else f"{report.n_batches:,} rounds"
    queries_text = "1 query" if report.n_answered == 1 else f"{report.n_answered:,} queries"
    model_noun = "models" if len(model_names(report)) > 1 else "model"
    union_bound_text = " (a union bound over the values that the answers could have had)"
    if any(NOISE in row.method for row in report.rows):
        union_bound_text = ""
    corrected_text = ", above all for answers from the holdout" * (report.n_above > 0)
    return (
        f"Before this evaluation, the same holdout had answered {queries_text}, with confidence "
        f"intervals, in {rounds_text} of model selection by Thresholdout (Dwork et al. 2015). The "
        f"answers may have influenced the choice of the final {model_noun}. An answer was a score "
        "computed without the holdout if it agreed with the holdout score within a tolerance to "
        "which random noise was added, and otherwise a rounded or noisy holdout score "
        f"({report.n_above:,} of {report.n_answered:,}). The levels of all intervals were raised "
        f"to allow for these answers{union_bound_text}{corrected_text}. The point estimates are "
        "the observed values and were not corrected for selection."
    )


def _difference_sentences(report, letter_by_model_name):
    """Yield sentences on the signs of differences and of losses, and on skill scores."""
    name_pairs = _name_pairs(report, " minus ", letter_by_model_name)
    unit_noun = name_of_units(report) if is_in_time(report) else "records"
    if len(name_pairs) == 1:
        difference_text = " minus ".join(name_pairs[0])
        yield f"The difference between models is {difference_text} on the same {unit_noun}."
    elif name_pairs:
        yield (
            "Differences between models are those of the first minus the second model on the same "
            f"{unit_noun}."
        )
    gap_names = [row.subgroup for row in report.rows if " minus " in row.subgroup]
    gap_names = list(dict.fromkeys(gap_names))
    if 0 < len(gap_names) <= MAX_ESTIMATES:
        verb = "is" if len(gap_names) == 1 else "are"
        noun = "The difference" if len(gap_names) == 1 else "The differences"
        yield f"{noun} between subgroups {verb} {listed(gap_names)}."
    elif gap_names:
        yield "Differences between subgroups are those of the first minus the second subgroup."
    name_pairs = _name_pairs(report, " against ", letter_by_model_name)
    skill_metrics = dict.fromkeys(
        metric_in_prose(row.metric.removeprefix(SKILL_PREFIX).removesuffix(")").partition(" (")[0])
        for row in report.rows
        if row.metric.startswith(SKILL_PREFIX)
    )
    if name_pairs:
        first_name, second_name = ("the first", "the second model")
        if len(name_pairs) == 1:
            first_name, second_name = name_pairs[0]
        yield (
            f"The skill score is 1 - A/B, where A and B are the {listed([*skill_metrics])} (not "
            f"clipped) of {first_name} and of {second_name}."
        )
    yield from _sign_sentences(report)


def _sign_sentences(report):
    """Yield definitions of calibration metrics, and sentences on the signs of losses."""
    metric_names = {row.metric for row in report.rows}
    calibration_metrics = [name for name in _CALIBRATION if name in metric_names]
    for name in calibration_metrics:
        yield _CALIBRATION[name]
    loss_rows = [row for row in report.rows if row.metric.startswith(NEGATIVE)]
    calibration_text = listed([_CALIBRATION_NAMES[name] for name in calibration_metrics])
    exception_text = f", except for {calibration_text}" * bool(calibration_metrics)
    has_gaps = any(" minus " in row.subgroup for row in report.rows)
    compared_noun = "model or subgroup" if has_gaps else "model"
    if any(" minus " in row.model + row.subgroup for row in loss_rows):
        yield (
            "In the table, losses and their differences are multiplied by -1: larger values are "
            f"better, and a positive difference favors the {compared_noun} that is named "
            f"first{exception_text}."
        )
    elif loss_rows:
        yield (
            "In the table, losses have a negative sign, so that larger values are "
            f"better{exception_text}."
        )


def _name_pairs(report, separator, letter_by_model_name):
    """Return a list of pairs, without repetition: letters or names of two compared models.

    ``separator``: text between the names of the models in a row.
    """
    comparisons = dict.fromkeys(row.model for row in report.rows if separator in row.model)
    return [
        tuple(
            short_model(report, model_name, letter_by_model_name)
            for model_name in comparison.split(separator, 1)
        )
        for comparison in comparisons
    ]


def _estimate_sentences(report, letter_by_model_name):
    """Yield a sentence on the first estimate if it has an interval."""
    first = report.rows[0]
    if not math.isfinite(first.lower):
        return
    name, separator, detail = first.metric.partition(" (")
    details = [detail.removesuffix(")")] if separator else []
    if first.positive:
        details.append(f"positive class {first.positive}")
    subject = (
        metric_in_prose(name)
        + f" ({', '.join(details)})" * bool(details)
        + f" of {_model_name(report, first.model, letter_by_model_name)}"
        + f" for {first.subgroup}" * bool(first.subgroup)
    )
    # Papers state losses, not negative scores.
    printed_value = -first.value if name.startswith(NEGATIVE) else first.value
    yield f"The {subject} was {format_score(printed_value)} ({_first_intervals_text(report)})."


def _first_intervals_text(report):
    """Return the intervals of the first estimate in words."""
    first = report.rows[0]
    simultaneous = "simultaneous " * (report.joint and len(report.rows) > 1)
    interval_noun = f"{simultaneous}{percent(report.confidence_level)} confidence interval"
    if first.proven is None:
        return f"approximate {interval_noun} {_row_limits_text(first, first.approximate)}"
    text = f"{interval_noun} with proven coverage {_row_limits_text(first, first.proven)}"
    # An approximate interval for unclipped errors does not belong to this estimate.
    has_same_target = not any(note.startswith(_CLIPPED_NOTE) for note in first.notes)
    if first.approximate is not None and has_same_target:
        text += f", approximate {interval_noun} {_row_limits_text(first, first.approximate)}"
    return text


def _row_limits_text(row, limits):
    """Return the limits (lower, upper) of an interval as text; those of a loss change the sign.

    ``row``: the row that the interval belongs to.
    """
    lower, upper = limits
    if row.metric.startswith(NEGATIVE):
        lower, upper = -upper, -lower
    return _limits_text(lower, upper)


def _letter_sentences(report, letter_by_model_name):
    """Yield a sentence for each letter of a model, such as "Model B is <name>."

    Left out is the model of the first row if that row has an interval.
    """
    first = report.rows[0]
    for model, letter in letter_by_model_name.items():
        if model != first.model or not math.isfinite(first.lower):
            yield f"Model {letter} is {described_model(report, model)}."


def _model_name(report, model, letter_by_model_name):
    """Return the name of a model, or "model <letter> (<name>)" if it has a letter."""
    description = described_model(report, model)
    letter = letter_by_model_name.get(model)
    return description if letter is None else f"model {letter} ({description})"


def _target_sentences(report):
    """Yield sentences on the estimands of the intervals."""
    target_texts = list(dict.fromkeys(row.target for row in report.rows))
    first_text = target_texts[0]
    article = "each" if len(model_names(report)) > 1 else "the"
    models_text = "the refitted models" if report.refit else f"{article} fitted model"
    if first_text in _POPULATIONS and len(target_texts) == 1:
        yield (
            f"The estimand is the population value of the metric for {models_text}, its value on "
            f"{_POPULATIONS[first_text]}."
        )
    elif first_text.startswith(NODES_TARGET) and len(target_texts) == 1:
        nodes_text = first_text.replace(NODES_TARGET, f"these {report.n:,} nodes")
        yield (
            f"The estimand is the expected value of the metric for {models_text} on {nodes_text} "
            "and the features of all nodes. It does not refer to other nodes or graphs."
        )
    elif len(target_texts) == 1 and is_in_time(report):
        yield (
            f"The estimand is the metric of {models_text}, computed from the expected scores on "
            f"{first_text}."
        )
        yield "It does not refer to other periods, in which performance may differ."
    elif len(target_texts) == 1:
        yield (
            f"The estimand is the expected value of the metric for {models_text} on {first_text}."
        )
    else:
        yield from _sentences_on_several_targets(report, target_texts, models_text)


def _sentences_on_several_targets(report, target_texts, models_text):
    """Yield sentences on several estimands, which differ in what is given at each date.

    ``target_texts``: different texts of targets in rows. ``models_text``: the models in words.
    """
    dates_text, separator, _ = target_texts[0].partition(_GIVEN)
    count_text = "two" if len(target_texts) == 2 else f"{len(target_texts)}"
    numbered_conditions = [
        f"({number}) {text.removeprefix(dates_text + separator)}"
        for number, text in enumerate(target_texts, 1)
    ]
    yield (
        f"There are {count_text} estimands for each metric: its expected value for {models_text} "
        f"on {dates_text}{separator}{' or '.join(numbered_conditions)}."
    )
    neither = "Neither refers" if len(target_texts) == 2 else "None refers"
    yield f"{neither} to other periods, in which performance may differ."
    first = report.rows[0]
    if not math.isfinite(first.lower):
        return
    subject_and_verb = "The interval above is"
    if ", approximate" in next(_estimate_sentences(report, {}), ""):
        subject_and_verb = "Both intervals above are"
    yield f"{subject_and_verb} for estimand (1). The point estimate is the same for (2)."


def _limits_text(lower, upper):
    """Return the limits of an interval as text, rounded outward."""
    return f"{format_score(lower, math.floor)} to {format_score(upper, math.ceil)}"


def _clip_sentences(report):
    """Yield sentences on metrics that are clipped, and on scores and intervals that are not."""
    table_names = dict.fromkeys(row.metric for row in report.rows if " (clipped at " in row.metric)
    has_unclipped_intervals = any(
        note.startswith(_CLIPPED_NOTE) for row in report.rows for note in row.notes
    )
    for table_name in table_names:
        if table_name.startswith("skill score"):
            continue
        metric_name = table_name.partition(" (")[0]
        clips_errors = _CLIPPED_ERRORS.search(table_name) is not None
        yield _clip_definition(metric_in_prose(metric_name), table_name)
        comparisons_text = _unclipped_comparisons_text(report, metric_name)
        if clips_errors and has_unclipped_intervals:
            yield (
                "This holds for scores of single models and their proven intervals. Approximate "
                "intervals are about unclipped "
                f"errors{_unclipped_means_clause(report, table_name)}."
            )
        elif clips_errors:
            yield "This holds for all scores and intervals of this metric."
        if clips_errors:
            yield from _beyond_clip_sentences(report, table_name)
        if comparisons_text:
            yield (
                f"{comparisons_text[0].upper()}{comparisons_text[1:]} use unclipped errors, so "
                "that they may deviate from those of the clipped scores."
            )


def _clip_definition(prose_name, table_name):
    """Return a sentence that defines a clipped metric.

    ``prose_name``: name of the metric in prose. ``table_name``: its name in the table of a report,
    such as "neg_mean_absolute_error (clipped at errors of 5)".
    """
    clipped_error = _CLIPPED_ERRORS.search(table_name)
    if clipped_error:
        return (
            f"In the {prose_name}, absolute errors above {clipped_error[1]} count as "
            f"{clipped_error[1]} (a limit fixed without the holdout)."
        )
    clipped_probability = _CLIPPED_PROBABILITY.search(table_name)
    if clipped_probability:
        return (
            f"In the {prose_name}, probabilities of the observed class below "
            f"{clipped_probability[1]} count as {clipped_probability[1]}, for scores and all "
            "intervals."
        )
    return f"The {prose_name} is {table_name.partition(' (')[2].removesuffix(')')}."


def _unclipped_means_clause(report, table_name):
    """Return a clause with the mean unclipped errors of at most three models, else an empty text.

    ``table_name``: name of the metric in the table of the report.
    """
    mean_texts = [
        f"{match[1].removeprefix('-')} for {described_model(report, row.model)}"
        for row in report.rows
        if row.metric == table_name and not row.subgroup
        for match in filter(None, map(_UNCLIPPED_NOTE.fullmatch, row.notes))
    ]
    if not 0 < len(mean_texts) <= MAX_ESTIMATES:
        return ""
    noun_and_verb = "mean was" if len(mean_texts) == 1 else "means were"
    return f", whose {noun_and_verb} {listed(mean_texts)}"


def _beyond_clip_texts(report, table_name):
    """Yield texts such as "3 of 100 errors of <model>" on the holdout errors beyond a clip.

    ``table_name``: name of the metric in the table of the report.
    """
    for row in report.rows:
        if row.metric == table_name and not row.subgroup:
            for match in filter(None, map(_BEYOND_CLIP.fullmatch, row.notes)):
                model_text = described_model(report, match["model"])
                yield f"{match['count']} of {match['n']} errors of {model_text}"


def _beyond_clip_sentences(report, table_name):
    """Yield sentences on holdout errors beyond the clip of a metric that has a proven interval.

    ``table_name``: name of the metric in the table of the report.
    """
    n_proven_rows = sum(
        row.metric == table_name and row.proven is not None and not PAIR.search(row.model)
        for row in report.rows
    )
    subject_and_verb = "The proven intervals of single models give"
    if n_proven_rows == 1:
        subject_and_verb = "The proven interval gives"
    if not n_proven_rows:
        return
    texts = list(_beyond_clip_texts(report, table_name))
    if 0 < len(texts) <= MAX_ESTIMATES:
        yield f"In the holdout, {listed(texts)} exceeded this limit."
    elif not texts and report.version:  # earlier reports do not state the number
        yield "No error in the holdout exceeded this limit."
    yield (
        f"{subject_and_verb} no upper bound for the mean of unclipped errors, which is at least as "
        "large as that of clipped ones."
    )


def _unclipped_comparisons_text(report, metric_name):
    """Return "differences", "skill scores" or both if they use unclipped errors, else "".

    ``metric_name``: name of the metric without the detail in parentheses.
    """
    is_present_by_noun = {
        "differences": any(
            row.metric == metric_name and " minus " in row.model and not row.subgroup
            for row in report.rows
        ),
        "skill scores": any(row.metric == f"skill score ({metric_name})" for row in report.rows),
    }
    return listed([noun for noun, is_present in is_present_by_noun.items() if is_present])


def _sentences_on_missing_intervals(report, letter_by_model_name):
    """Yield sentences on the estimates without an interval, with the first note of their rows."""
    rows_by_reason = {}
    for row in report.rows:
        if not math.isfinite(row.lower):
            reason = row.notes[0] if row.notes else "The notes in the report state the reason."
            rows_by_reason.setdefault(reason, []).append(row)
    for reason, rows in rows_by_reason.items():
        comparison_rows = [
            row for row in rows if PAIR.search(row.model) or " minus " in row.subgroup
        ]
        phrases = [
            f"{with_article(row)} of {short_name(report, row, letter_by_model_name)}"
            for row in rows
            if row not in comparison_rows
        ]
        phrases += estimate_phrases(comparison_rows)
        estimates_text = listed(phrases)
        if len(phrases) > MAX_ESTIMATES:
            estimates_text = f"{len(rows)} estimates"
        has_value = any(math.isfinite(row.value) for row in rows)
        claim = f"There is no interval for {estimates_text}"
        if not has_value:
            claim = f"Neither an estimate nor an interval could be computed for {estimates_text}"
        if reason == _UNDEFINED_NOTE:
            yield f"{claim}, because the score is undefined for these records."
        else:
            yield f"{claim}. The reason in the report is “{reason}”"
