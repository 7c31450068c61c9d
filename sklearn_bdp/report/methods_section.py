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


def methods_section(report: Any, letter_of_model: Mapping[str, str]) -> str:
    """Return sentences on the sample, the first estimate, its target, and the coverage of all.

    Parameters
    ----------
    report : FinalReport
        The report that a paper is about.
    letter_of_model : mapping of str to str
        Letters that replace long names of models in the table; may be empty.
    """
    sentences = [
        *_sample_sentences(report),
        *_use_sentences(report),
        *_estimate_sentences(report, letter_of_model),
        *_letter_sentences(report, letter_of_model),
        *_target_sentences(report),
        *_difference_sentences(report, letter_of_model),
    ]
    proven_rows = [row for row in report.rows if row.proven is not None]
    approximate_rows = [row for row in report.rows if row.approximate is not None]
    if report.alpha_approximate is None:
        approximate_rows = []
    if proven_rows:
        sentences += proven_sentences(report, proven_rows, letter_of_model)
    if approximate_rows:
        sentences += approximate_sentences(report, approximate_rows, letter_of_model)
    if proven_rows or approximate_rows:
        sentences += assumption_sentences(report, proven_rows, approximate_rows)
    if proven_rows and approximate_rows:
        sentences += family_sentences(report)
    sentences += _clip_sentences(report)
    sentences += _sentences_on_missing_intervals(report, letter_of_model)
    if any(row.metric.startswith(_THRESHOLD_METRICS) for row in report.rows):
        model = "each model" if len(model_names(report)) > 1 else "the model"
        sentences.append(f"Records were classified by the predict method of {model}.")
    version = f", version {report.version}" * bool(report.version)
    sentences.append(
        "Limits are rounded outward. Intervals were computed with the Python package "
        f"sklearn_bdp{version}."
    )
    return " ".join(sentences)


def _sample_sentences(report):
    """Yield sentences on the records and units of the holdout, and on those of subgroups."""
    unit_name = name_of_units(report)
    weighting = " per record (records weigh the same; of very large groups only some count)"
    weighting *= unit_name == "groups" and report.per == "record"
    yield f"Performance{weighting} was estimated on a holdout of {_sample_text(report)}."
    if unit_name == "groups" and report.per == "unit":
        yield _weighting_sentence(report)
    row_of_subgroup = {row.subgroup: row for row in report.rows if row.subgroup}
    subgroup_texts = [
        f"{subgroup} ({_count_text(row, unit_name)})"
        for subgroup, row in row_of_subgroup.items()
        if " minus " not in subgroup
    ]
    if subgroup_texts:
        yield f"The subgroups are {listed(subgroup_texts)}."


def _sample_text(report):
    """Return the numbers of records and units, and of the positive ones, as text."""
    n_units, _ = report.units
    unit_name = name_of_units(report)
    if unit_name in ("records", "nodes") or n_units == report.n:
        samples = f"{n_units:,} {unit_name}"
    else:
        preposition = "on" if unit_name == "dates" else "from"
        samples = f"{report.n:,} records {preposition} {n_units:,} {unit_name}"
    details = _positives_text(report)
    samples += f" ({details})" * bool(details)
    if any(text.startswith(_NO_NEIGHBORS) for text in report.assumptions):
        samples += ", no two of which are neighbors"
    return samples


def _positives_text(report):
    """Return the numbers of positive records and of units with one, empty if not known."""
    n_units, _ = report.units
    unit_name = name_of_units(report)
    first = report.rows[0]
    label, n_positive = report.positives or ("", first.n_events)
    label_text = f": {label}" * bool(label)
    n_units_positive = first.n_events if not first.subgroup else None
    if unit_name in ("records", "nodes") or n_units == report.n:
        is_known = n_positive is not None and not first.subgroup
        return f"{n_positive:,} positive{label_text}" if is_known else ""
    texts = []
    if report.positives is not None:
        texts.append(f"{n_positive:,} positive records{label_text}")
        label_text = ""
    if n_units_positive is not None:
        texts.append(f"{n_units_positive:,} {unit_name} with a positive record{label_text}")
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
    text = f"{row.n_units:,} {unit_name}"
    if row.n_events is None:
        return text
    positive = "positive" if unit_name in ("records", "nodes") else "with a positive record"
    return f"{text}, {row.n_events:,} {positive}"


def _use_sentences(report):
    """Yield sentences on the use of the holdout before this report."""
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
    """Return the subject and the verb of a sentence on what was fixed before the report."""
    n_rows = len(report.rows)
    if n_rows == 1:
        return "model and the metric of the final evaluation were"
    names = "models and metrics" if len(model_names(report)) > 1 else "model and the metrics"
    if any(row.subgroup for row in report.rows):
        names = names.replace(" and ", ", ") + " and the subgroups"
    return f"{names} of the final evaluation ({n_rows} estimates) were"


def _earlier_use_text(report):
    """Return sentences on earlier queries of the holdout, as one text."""
    rounds = "1 round" if report.n_batches == 1 else f"{report.n_batches:,} rounds"
    queries = "1 query" if report.n_answered == 1 else f"{report.n_answered:,} queries"
    models = "models" if len(model_names(report)) > 1 else "model"
    union_bound = " (a union bound over the values that the answers could have had)"
    if any(NOISE in row.method for row in report.rows):
        union_bound = ""
    cost = ", above all for answers from the holdout" * (report.n_above > 0)
    return (
        f"Before this evaluation, the same holdout had answered {queries}, with confidence "
        f"intervals, in {rounds} of model selection by Thresholdout (Dwork et al. 2015). The "
        f"answers may have influenced the choice of the final {models}. An answer was a score "
        "computed without the holdout if it agreed with the holdout score within a tolerance to "
        "which random noise was added, and otherwise a rounded or noisy holdout score "
        f"({report.n_above:,} of {report.n_answered:,}). The levels of all intervals were raised "
        f"to allow for these answers{union_bound}{cost}. The point estimates are the observed "
        "values and were not corrected for selection."
    )


def _difference_sentences(report, letter_of_model):
    """Yield sentences on the signs of differences and of losses, and on skill scores.

    ``letter_of_model``: letters that replace names of models in the table.
    """
    pairs = _pairs(report, " minus ", letter_of_model)
    scored = name_of_units(report) if is_in_time(report) else "records"
    if len(pairs) == 1:
        yield f"The difference between models is {' minus '.join(pairs[0])} on the same {scored}."
    elif pairs:
        yield (
            "Differences between models are those of the first minus the second model on the same "
            f"{scored}."
        )
    gap_names = [row.subgroup for row in report.rows if " minus " in row.subgroup]
    gap_names = list(dict.fromkeys(gap_names))
    if 0 < len(gap_names) <= MAX_ESTIMATES:
        verb = "is" if len(gap_names) == 1 else "are"
        noun = "The difference" if len(gap_names) == 1 else "The differences"
        yield f"{noun} between subgroups {verb} {listed(gap_names)}."
    elif gap_names:
        yield "Differences between subgroups are those of the first minus the second subgroup."
    pairs = _pairs(report, " against ", letter_of_model)
    skill_metrics = dict.fromkeys(
        metric_in_prose(row.metric.removeprefix(SKILL_PREFIX).removesuffix(")").partition(" (")[0])
        for row in report.rows
        if row.metric.startswith(SKILL_PREFIX)
    )
    if pairs:
        first, second = pairs[0] if len(pairs) == 1 else ("the first", "the second model")
        yield (
            f"The skill score is 1 - A/B, where A and B are the {listed([*skill_metrics])} (not "
            f"clipped) of {first} and of {second}."
        )
    yield from _sign_sentences(report)


def _sign_sentences(report):
    """Yield sentences on the signs in the table, and definitions of calibration metrics.

    The ideal value of these metrics is not the largest one.
    """
    calibration = [name for name in _CALIBRATION if any(r.metric == name for r in report.rows)]
    for name in calibration:
        yield _CALIBRATION[name]
    loss_rows = [row for row in report.rows if row.metric.startswith(NEGATIVE)]
    exception = f", except for {listed([_CALIBRATION_NAMES[name] for name in calibration])}"
    exception *= bool(calibration)
    has_gaps = any(" minus " in row.subgroup for row in report.rows)
    compared = "model or subgroup" if has_gaps else "model"
    if any(" minus " in row.model + row.subgroup for row in loss_rows):
        yield (
            "In the table, losses and their differences are multiplied by -1: larger values are "
            f"better, and a positive difference favors the {compared} that is named "
            f"first{exception}."
        )
    elif loss_rows:
        yield (
            "In the table, losses have a negative sign, so that larger values are "
            f"better{exception}."
        )


def _pairs(report, separator, letter_of_model):
    """Return the names or letters of both models of each comparison, without repetition.

    ``separator``: text between the names in a row. ``letter_of_model``: letters that replace names
    of models in the table.
    """
    pairs = dict.fromkeys(row.model for row in report.rows if separator in row.model)
    return [
        tuple(short_model(report, model, letter_of_model) for model in pair.split(separator, 1))
        for pair in pairs
    ]


def _estimate_sentences(report, letter_of_model):
    """Yield a sentence on the first estimate; none without an interval.

    ``letter_of_model``: letters that replace names of models in the table.
    """
    first = report.rows[0]
    if not math.isfinite(first.lower):
        return
    name, separator, condition = first.metric.partition(" (")
    details = [condition.removesuffix(")")] if separator else []
    if first.positive:
        details.append(f"positive class {first.positive}")
    subject = (
        metric_in_prose(name)
        + f" ({', '.join(details)})" * bool(details)
        + f" of {_model_name(report, first.model, letter_of_model)}"
        + f" for {first.subgroup}" * bool(first.subgroup)
    )
    value = -first.value if name.startswith(NEGATIVE) else first.value  # papers state losses
    yield f"The {subject} was {format_score(value)} ({_first_intervals_text(report)})."


def _first_intervals_text(report):
    """Return the intervals of the first estimate in words."""
    first = report.rows[0]
    simultaneous = "simultaneous " * (report.joint and len(report.rows) > 1)
    interval = f"{simultaneous}{percent(report.confidence_level)} confidence interval"
    if first.proven is None:
        return f"approximate {interval} {_row_limits_text(first, first.approximate)}"
    text = f"{interval} with proven coverage {_row_limits_text(first, first.proven)}"
    # An approximate interval for unclipped errors does not belong to this estimate.
    has_same_target = not any(note.startswith(_CLIPPED_NOTE) for note in first.notes)
    if first.approximate is not None and has_same_target:
        text += f", approximate {interval} {_row_limits_text(first, first.approximate)}"
    return text


def _row_limits_text(row, limits):
    """Return the limits of a row as text, those of a loss with the other sign."""
    lower, upper = limits
    if row.metric.startswith(NEGATIVE):
        lower, upper = -upper, -lower
    return _limits_text(lower, upper)


def _letter_sentences(report, letter_of_model):
    """Yield sentences on the letters that stand for models in the table.

    The sentence on the first estimate, if any, explains the letter of its model.
    """
    first = report.rows[0]
    for model, letter in letter_of_model.items():
        if model != first.model or not math.isfinite(first.lower):
            yield f"Model {letter} is {described_model(report, model)}."


def _model_name(report, model, letter_of_model):
    """Return the name of a model, after its letter in the table if it has one."""
    description = described_model(report, model)
    letter = letter_of_model.get(model)
    return description if letter is None else f"model {letter} ({description})"


def _target_sentences(report):
    """Yield sentences on the targets of the intervals."""
    targets = list(dict.fromkeys(row.target for row in report.rows))
    article = "each" if len(model_names(report)) > 1 else "the"
    model = "the refitted models" if report.refit else f"{article} fitted model"
    if targets[0] in _POPULATIONS and len(targets) == 1:
        yield (
            f"The estimand is the population value of the metric for {model}, its value on "
            f"{_POPULATIONS[targets[0]]}."
        )
    elif targets[0].startswith(NODES_TARGET) and len(targets) == 1:
        target = targets[0].replace(NODES_TARGET, f"these {report.n:,} nodes")
        yield (
            f"The estimand is the expected value of the metric for {model} on {target} and the "
            "features of all nodes. It does not refer to other nodes or graphs."
        )
    elif len(targets) == 1:
        expected = "the expected value of the metric for"
        if is_in_time(report):
            expected = "the metric of"
            targets[0] = f"computed from the expected scores on {targets[0]}"
        else:
            targets[0] = f"on {targets[0]}"
        yield f"The estimand is {expected} {model}{', ' * is_in_time(report) or ' '}{targets[0]}."
        if is_in_time(report):
            yield "It does not refer to other periods, in which performance may differ."
    else:
        yield from _sentences_on_several_targets(report, targets, model)


def _sentences_on_several_targets(report, targets, model):
    """Yield sentences on targets that differ in the information that dates are given.

    ``targets``: without repetition. ``model``: the models in words.
    """
    dates, separator, _ = targets[0].partition(_GIVEN)
    count = "two" if len(targets) == 2 else f"{len(targets)}"
    conditions = [
        f"({number}) {target.removeprefix(dates + separator)}"
        for number, target in enumerate(targets, 1)
    ]
    yield (
        f"There are {count} estimands for each metric: its expected value for {model} on "
        f"{dates}{separator}{' or '.join(conditions)}."
    )
    neither = "Neither refers" if len(targets) == 2 else "None refers"
    yield f"{neither} to other periods, in which performance may differ."
    first = report.rows[0]
    if not math.isfinite(first.lower):
        return
    intervals = "The interval above is"
    if ", approximate" in next(_estimate_sentences(report, {}), ""):
        intervals = "Both intervals above are"
    yield f"{intervals} for estimand (1). The point estimate is the same for (2)."


def _limits_text(lower, upper):
    """Return the limits of an interval as text, rounded outward."""
    return f"{format_score(lower, math.floor)} to {format_score(upper, math.ceil)}"


def _clip_sentences(report):
    """Yield sentences on losses that are clipped, and on the rows and intervals that are not."""
    metrics = dict.fromkeys(row.metric for row in report.rows if " (clipped at " in row.metric)
    is_unclipped_approximately = any(
        note.startswith(_CLIPPED_NOTE) for row in report.rows for note in row.notes
    )
    for metric in metrics:
        if metric.startswith("skill score"):
            continue
        name = metric.partition(" (")[0]
        prose_name = metric_in_prose(name)
        errors = _CLIPPED_ERRORS.search(metric)
        yield _clip_definition(prose_name, metric)
        unclipped = _unclipped_comparisons(report, name)
        if errors and is_unclipped_approximately:
            yield (
                "This holds for scores of single models and their proven intervals. Approximate "
                f"intervals are about unclipped errors{_unclipped_text(report, metric)}."
            )
        elif errors:
            yield "This holds for all scores and intervals of this metric."
        if errors:
            yield from _beyond_clip_sentences(report, metric)
        if unclipped:
            yield (
                f"{unclipped[0].upper()}{unclipped[1:]} use unclipped errors, so that they may "
                "deviate from those of the clipped scores."
            )


def _clip_definition(prose_name, metric):
    """Return a sentence that defines a clipped metric; ``metric``: its name in the table."""
    errors = _CLIPPED_ERRORS.search(metric)
    if errors:
        return (
            f"In the {prose_name}, absolute errors above {errors[1]} count as {errors[1]} (a limit "
            "fixed without the holdout)."
        )
    probability = _CLIPPED_PROBABILITY.search(metric)
    if probability:
        return (
            f"In the {prose_name}, probabilities of the observed class below {probability[1]} "
            f"count as {probability[1]}, for scores and all intervals."
        )
    return f"The {prose_name} is {metric.partition(' (')[2].removesuffix(')')}."


def _unclipped_text(report, metric):
    """Return a clause with the means of unclipped errors, empty if they are not recorded.

    ``metric``: its name in the table.
    """
    texts = [
        f"{match[1].removeprefix('-')} for {described_model(report, row.model)}"
        for row in report.rows
        if row.metric == metric and not row.subgroup
        for match in filter(None, map(_UNCLIPPED_NOTE.fullmatch, row.notes))
    ]
    if not 0 < len(texts) <= MAX_ESTIMATES:
        return ""
    means = "mean was" if len(texts) == 1 else "means were"
    return f", whose {means} {listed(texts)}"


def _beyond_clip_texts(report, metric):
    """Yield the number of errors of each model beyond a clip; ``metric``: name in the table."""
    for row in report.rows:
        if row.metric == metric and not row.subgroup:
            for match in filter(None, map(_BEYOND_CLIP.fullmatch, row.notes)):
                model = described_model(report, match["model"])
                yield f"{match['count']} of {match['n']} errors of {model}"


def _beyond_clip_sentences(report, metric):
    """Yield sentences on the holdout errors beyond the clip of a metric.

    ``metric``: its name in the table.
    """
    n_proven = sum(
        row.metric == metric and row.proven is not None and not PAIR.search(row.model)
        for row in report.rows
    )
    bound = "The proven intervals of single models give"
    if n_proven == 1:
        bound = "The proven interval gives"
    if not n_proven:
        return
    texts = list(_beyond_clip_texts(report, metric))
    if 0 < len(texts) <= MAX_ESTIMATES:
        yield f"In the holdout, {listed(texts)} exceeded this limit."
    elif not texts and report.version:  # earlier reports do not state the number
        yield "No error in the holdout exceeded this limit."
    yield (
        f"{bound} no upper bound for the mean of unclipped errors, which is at least as large as "
        "that of clipped ones."
    )


def _unclipped_comparisons(report, name):
    """Return the comparisons of models that do not clip a metric, in words; empty without any.

    ``name``: of the metric, without the detail in parentheses.
    """
    comparisons = {
        "differences": any(
            row.metric == name and " minus " in row.model and not row.subgroup
            for row in report.rows
        ),
        "skill scores": any(row.metric == f"skill score ({name})" for row in report.rows),
    }
    return listed([words for words, is_present in comparisons.items() if is_present])


def _sentences_on_missing_intervals(report, letter_of_model):
    """Yield sentences on the estimates without an interval, with the first note on each."""
    rows_by_reason = {}
    for row in report.rows:
        if not math.isfinite(row.lower):
            reason = row.notes[0] if row.notes else "The notes in the report state the reason."
            rows_by_reason.setdefault(reason, []).append(row)
    for reason, rows in rows_by_reason.items():
        difference_rows = [
            row for row in rows if PAIR.search(row.model) or " minus " in row.subgroup
        ]
        names = [
            f"{with_article(row)} of {short_name(report, row, letter_of_model)}"
            for row in rows
            if row not in difference_rows
        ]
        names += estimate_phrases(difference_rows)
        estimates = listed(names)
        if len(names) > MAX_ESTIMATES:
            estimates = f"{len(rows)} estimates"
        has_value = any(math.isfinite(row.value) for row in rows)
        lack = f"There is no interval for {estimates}"
        if not has_value:
            lack = f"Neither an estimate nor an interval could be computed for {estimates}"
        if reason == _UNDEFINED_NOTE:
            yield f"{lack}, because the score is undefined for these records."
        else:
            yield f"{lack}. The reason in the report is “{reason}”"
