"""Sentences for the methods section of a paper, from the rows of a final report."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from sklearn_bdp.intervals.jackknife import GENERIC, RANK_RESPONSES, SKILL
from sklearn_bdp.metrics.proofs import BETS, CLASS_MEANS, CLASSES, COUNTS, FREE, PAST, RECALLS, TAIL
from sklearn_bdp.metrics.registry import statistic_of
from sklearn_bdp.utils.html import GIVEN_PAST, format_score

#: Names of metrics in prose. Others are their scikit-learn names without underscores.
_PROSE_NAMES = {
    "roc_auc": "area under the ROC curve",
    "roc_auc_ovo": "one-versus-one area under the ROC curve",
    "roc_auc_ovr": "one-versus-rest area under the ROC curve",
    "f1": "F1 score",
    "jaccard": "Jaccard index",
    "matthews_corrcoef": "Matthews correlation coefficient",
    "r2": "R²",
    "neg_brier_score": "Brier score",
    "neg_log_loss": "log loss",
    "precision": "positive predictive value (precision)",
    "recall": "sensitivity (recall)",
}
_AUC = "roc_auc"
#: Method of rows under a level of privacy.
_NOISE = "through noise"
#: Methods of intervals with their sources. ``{s}`` is the ending of the plural, ``{units}`` the
#: name of the sampling units.
_SOURCES = {
    COUNTS: "Clopper-Pearson interval{s} (Clopper and Pearson 1934)",
    BETS: "betting interval{s} (Voráček and Orabona 2025)",
    FREE: (
        "betting interval{s} without the assumption of identically distributed {units} (Waudby-"
        "Smith and Ramdas 2024)"
    ),
    CLASSES: (
        "U-statistic bound{s} conditional on the numbers of positives and negatives (Hoeffding "
        "1963, with bets as in Waudby-Smith and Ramdas 2024)"
    ),
    CLASS_MEANS: "concentration bound{s} conditional on the numbers of records of each class",
    PAST: (
        "martingale bound{s} (bets with stakes fixed in advance, similar to Waudby-Smith and "
        "Ramdas 2024)"
    ),
    TAIL: "concentration bound{s} of the declared dependence model",
    RECALLS: "combined interval{s} of the recall of each class",
    _NOISE: "concentration bound{s} of scores that were released with noise",
}
#: Last words of names of metrics that have an article in prose.
_NOUNS = (
    *("score", "curve", "index", "coefficient", "error", "slope", "intercept", "deviance"),
    *("benefit", "value"),
)
#: Metrics of predicted classes, by the start of their names.
_THRESHOLD_METRICS = (
    *("accuracy", "balanced_accuracy", "f1", "jaccard", "matthews_corrcoef", "precision"),
    *("negative_predictive_value", "recall", "specificity", "cohen_kappa"),
)
_NEGATIVE = "neg_"
#: Records that metrics by class refer to, if a group is drawn first.
_RECORDS_OF_METRIC = {
    "recall": "such a record, given that it is positive",
    "specificity": "such a record, given that it is negative",
    "balanced_accuracy": "such a record of each class",
    _AUC: "two such records of different groups, given that one is positive and the other negative",
}
#: Start of the note on errors that are clipped in the proven interval only.
_CLIPPED_NOTE = "The proven interval is about errors clipped"
#: Start of the note on a failure probability below those at which a method was checked.
_LEVEL_NOTE = re.compile(r"The failure probability of this row, \S+, is below (\S+), down to ")
#: Start of the note on an interval that does not come from the jackknife.
_FEW_ERRORS_NOTE = "Few records are wrong"
_TRUNCATED_NOTE = re.compile(
    r"The proven interval counts differences beyond (±\S+) as that(?: \((.+ of .+) records\))?\."
)
#: Note on the records of an outcome, of which there are few.
_FEW_OUTCOMES_NOTE = re.compile(r"Only (.+)\.")
#: Note on the score without a clip.
_UNCLIPPED_NOTE = re.compile(r"Without the clip, the score is (\S+)\.")
_CLIPPED_ERRORS = re.compile(r"clipped at errors of (.+)\)$")
_CLIPPED_PROBABILITY = re.compile(r"clipped at a probability of (.+)\)$")
#: Forecasts that are made several dates before their scores, in the text of a target.
_HORIZON = re.compile(r"when the forecast was made, (\d+) .+ before the outcome")
#: Number and name of the time steps of dates, such as days, in the text of a target.
_TIME_STEPS = re.compile(rf"these [\d,]+ (.+){GIVEN_PAST}")
#: Start of the target of nodes of a network, and starts of those of other dependent records.
_NODES = "these nodes"
_DEPENDENT_TARGETS = ("later records", "these records", "new records at the places")
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
#: Notes on approximate intervals that a few sampling units decide.
_FEW_UNITS_NOTES = ("A few units dominate", "A few dates dominate")
_UNDEFINED_NOTE = "The score is undefined for these records."
#: Metric whose differences over dates the distance of both forecasts bounds.
_ABSOLUTE_ERROR = "neg_mean_absolute_error"
#: Adjectives of units of time.
_ADJECTIVES = {
    "hours": "hourly",
    "days": "daily",
    "weeks": "weekly",
    "months": "monthly",
    "quarters": "quarterly",
    "years": "yearly",
}
_PAIR = re.compile(" minus | against ")  # between the models of a difference or a skill score
_MAX_ESTIMATES = 3  # estimates that are named in one sentence
_MAX_ROWS_WITH_COUNTS = 4  # rows whose counts are named in one sentence
_SKILL_PREFIX = "skill score ("
#: Parts of the assumptions of a report.
_OTHER_ACCOUNT = "another account had answered about the same targets"
_NO_OTHER_HOLDOUT = "no other holdout is made of these records"
_KNOWN_SEED = "fixed random_state"
_UNSTRATIFIED = "not stratified by their targets"
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
#: Scales of jackknife intervals in prose, and the metrics with such a scale.
_SCALE_NAMES = {
    "unit": "the logit scale",
    "signed": "Fisher's z scale",
    "loss": "the log scale",
    "explained": "the scale of -log(1 - score), the loss ratio,",
}
_SCALE_SUBJECTS = {
    "unit": "scores from 0 to 1 of single models",
    "signed": "correlations of single models",
    "loss": "losses of single models",
    "explained": "the explained proportions of loss of single models",
}
#: Parameters of a model that do not describe it, in the code of the model.
_UNNAMED_PARAMETERS = re.compile(
    r"(?<=\()((random_state|n_jobs|verbose)=\w+(, )?)+|, (random_state|n_jobs|verbose)=\w+"
)
_AVERAGES = ("macro", "micro", "weighted", "samples")


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
        sentences += _proven_sentences(report, proven_rows, letter_of_model)
    if approximate_rows:
        sentences += _approximate_sentences(report, approximate_rows, letter_of_model)
    if proven_rows or approximate_rows:
        sentences += _assumption_sentences(report, proven_rows, approximate_rows)
    if proven_rows and approximate_rows:
        sentences += _family_sentences(report)
    sentences += _clip_sentences(report)
    sentences += _sentences_on_missing_intervals(report, letter_of_model)
    if any(row.metric.startswith(_THRESHOLD_METRICS) for row in report.rows):
        model = "each model" if len(_models(report)) > 1 else "the model"
        sentences.append(f"Records were classified by the predict method of {model}.")
    version = f", version {report.version}" * bool(report.version)
    sentences.append(
        "Limits are rounded outward. Intervals were computed with the Python package "
        f"sklearn_bdp{version}."
    )
    return " ".join(sentences)


def _sample_sentences(report):
    """Yield sentences on the records and units of the holdout, and on those of subgroups."""
    unit_name = _unit_name(report)
    weighting = " per record (all records weigh the same)"
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
        yield f"The subgroups are {_listed(subgroup_texts)}."


def _sample_text(report):
    """Return the numbers of records and units, and of the positive ones, as text."""
    n_units, _ = report.units
    unit_name = _unit_name(report)
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
    unit_name = _unit_name(report)
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
        f"; {_noun_phrase(_prose_name(name))} to {records}"
        for name, records in _RECORDS_OF_METRIC.items()
        if name in metric_names
    ]
    return (
        "Each group had the same total weight. Scores refer to a random record of a random "
        f"group{''.join(class_texts)}."
    )


def _unit_name(report):
    """Return the name of the sampling units, such as nodes of a network or time steps of dates."""
    if report.rows[0].target.startswith(_NODES) and report.units[1] == "records":
        return "nodes"
    in_target = _TIME_STEPS.match(report.rows[0].target)
    return in_target[1] if in_target else report.units[1]


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
    names = "models and metrics" if len(_models(report)) > 1 else "model and the metrics"
    if any(row.subgroup for row in report.rows):
        names = names.replace(" and ", ", ") + " and the subgroups"
    return f"{names} of the final evaluation ({n_rows} estimates) were"


def _earlier_use_text(report):
    """Return sentences on earlier queries of the holdout, as one text."""
    rounds = "1 round" if report.n_batches == 1 else f"{report.n_batches:,} rounds"
    queries = "1 query" if report.n_answered == 1 else f"{report.n_answered:,} queries"
    models = "models" if len(_models(report)) > 1 else "model"
    union_bound = " (a union bound over the values that the answers could have had)"
    if any(_NOISE in row.method for row in report.rows):
        union_bound = ""
    cost = ", above all for answers from the holdout" * (report.n_above > 0)
    return (
        f"Before this evaluation, the same holdout had answered {queries} in {rounds} of model "
        "selection by Thresholdout (Dwork et al. 2015), with confidence intervals, which may have "
        f"influenced the choice of the final {models}. An answer was a score computed without the "
        "holdout if it agreed with the holdout score within a tolerance to which random noise was "
        f"added, and otherwise a rounded or noisy holdout score ({report.n_above:,} of "
        f"{report.n_answered:,}). The levels of all intervals were raised to allow for these "
        f"answers{union_bound}{cost}. The point estimates are the observed values and were not "
        "corrected for selection."
    )


def _difference_sentences(report, letter_of_model):
    """Yield sentences on the signs of differences and of losses, and on skill scores.

    ``letter_of_model``: letters that replace names of models in the table.
    """
    pairs = _pairs(report, " minus ", letter_of_model)
    scored = _unit_name(report) if _is_in_time(report) else "records"
    if len(pairs) == 1:
        yield f"The difference between models is {' minus '.join(pairs[0])} on the same {scored}."
    elif pairs:
        yield (
            "Differences between models are those of the first minus the second model on the same "
            f"{scored}."
        )
    gap_names = [row.subgroup for row in report.rows if " minus " in row.subgroup]
    gap_names = list(dict.fromkeys(gap_names))
    if 0 < len(gap_names) <= _MAX_ESTIMATES:
        verb = "is" if len(gap_names) == 1 else "are"
        noun = "The difference" if len(gap_names) == 1 else "The differences"
        yield f"{noun} between subgroups {verb} {_listed(gap_names)}."
    elif gap_names:
        yield "Differences between subgroups are those of the first minus the second subgroup."
    pairs = _pairs(report, " against ", letter_of_model)
    skill_metrics = dict.fromkeys(
        _prose_name(row.metric.removeprefix(_SKILL_PREFIX).removesuffix(")").partition(" (")[0])
        for row in report.rows
        if row.metric.startswith(_SKILL_PREFIX)
    )
    if pairs:
        first, second = pairs[0] if len(pairs) == 1 else ("the first", "the second model")
        yield (
            f"The skill score is 1 - A/B, where A and B are the {_listed([*skill_metrics])} of "
            f"{first} and {second}."
        )
    yield from _sign_sentences(report)


def _sign_sentences(report):
    """Yield sentences on the signs in the table, and definitions of calibration metrics.

    The ideal value of these metrics is not the largest one.
    """
    calibration = [name for name in _CALIBRATION if any(r.metric == name for r in report.rows)]
    for name in calibration:
        yield _CALIBRATION[name]
    loss_rows = [row for row in report.rows if row.metric.startswith(_NEGATIVE)]
    exception = f", except for {_listed([_CALIBRATION_NAMES[name] for name in calibration])}"
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
        tuple(_short_model(report, model, letter_of_model) for model in pair.split(separator, 1))
        for pair in pairs
    ]


def _models(report):
    """Return the names of the models that have a row of their own, without repetition."""
    names = [row.model for row in report.rows if not _PAIR.search(row.model)]
    return list(dict.fromkeys(names))


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
        _prose_name(name)
        + f" ({', '.join(details)})" * bool(details)
        + f" of {_model_name(report, first.model, letter_of_model)}"
        + f" for {first.subgroup}" * bool(first.subgroup)
    )
    value = -first.value if name.startswith(_NEGATIVE) else first.value  # papers state losses
    yield f"The {subject} was {format_score(value)} ({_first_intervals_text(report)})."


def _first_intervals_text(report):
    """Return the intervals of the first estimate in words."""
    first = report.rows[0]
    simultaneous = "simultaneous " * (report.joint and len(report.rows) > 1)
    interval = f"{simultaneous}{_percent(report.confidence_level)} confidence interval"
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
    if row.metric.startswith(_NEGATIVE):
        lower, upper = -upper, -lower
    return _limits_text(lower, upper)


def _letter_sentences(report, letter_of_model):
    """Yield sentences on the letters that stand for models in the table.

    The sentence on the first estimate, if any, explains the letter of its model.
    """
    first = report.rows[0]
    for model, letter in letter_of_model.items():
        if model != first.model or not math.isfinite(first.lower):
            yield f"Model {letter} is {_described_model(report, model)}."


def _model_name(report, model, letter_of_model):
    """Return the name of a model, after its letter in the table if it has one."""
    description = _described_model(report, model)
    letter = letter_of_model.get(model)
    return description if letter is None else f"model {letter} ({description})"


def _described_model(report, model):
    """Return the name of a model without refits and without parameters that do not describe it."""
    return _UNNAMED_PARAMETERS.sub("", model.removesuffix(f", refitted {report.refit}"))


def _target_sentences(report):
    """Yield sentences on the targets of the intervals."""
    targets = list(dict.fromkeys(row.target for row in report.rows))
    article = "each" if len(_models(report)) > 1 else "the"
    model = "the refitted models" if report.refit else f"{article} fitted model"
    if targets[0] in _POPULATIONS and len(targets) == 1:
        yield (
            f"The estimand is the population value of the metric for {model}, its value on "
            f"{_POPULATIONS[targets[0]]}."
        )
    elif targets[0].startswith(_NODES) and len(targets) == 1:
        target = targets[0].replace(_NODES, f"these {report.n:,} nodes")
        yield (
            f"The estimand is the expected value of the metric for {model} on {target} and the "
            "features of all nodes. It does not refer to other nodes or graphs."
        )
    elif len(targets) == 1:
        expected = "the expected value of the metric for"
        if _is_in_time(report):
            expected = "the metric of"
            targets[0] = f"computed from the expected scores on {targets[0]}"
        else:
            targets[0] = f"on {targets[0]}"
        yield f"The estimand is {expected} {model}{', ' * _is_in_time(report) or ' '}{targets[0]}."
        if _is_in_time(report):
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


def _is_in_time(report):
    """Return whether the units are dates, each judged given its past."""
    return GIVEN_PAST in report.rows[0].target


def _listed(texts):
    """Return texts as one list in prose, such as "a, b, and c"."""
    if len(texts) < 3:
        return " and ".join(texts)
    return f"{', '.join(texts[:-1])}, and {texts[-1]}"


def _limits_text(lower, upper):
    """Return the limits of an interval as text, rounded outward."""
    return f"{format_score(lower, math.floor)} to {format_score(upper, math.ceil)}"


def _prose_name(metric_name):
    """Return the name of a metric in prose, from its name in a row without the parentheses."""
    base, _, average = metric_name.rpartition("_")
    if average in _AVERAGES:
        return f"{average}-averaged {_prose_name(base)}"
    return _PROSE_NAMES.get(metric_name, metric_name.removeprefix(_NEGATIVE).replace("_", " "))


def _joint_alpha_text(report, joint_alpha):
    """Return a phrase on the failure probability of all intervals of a kind together.

    ``joint_alpha``: that probability.
    """
    reason = "to allow for the earlier answers"
    if not report.n_batches:
        reason = "because a part was reserved for queries before the report"
    alpha = _percent(1.0 - report.confidence_level)
    return (
        f"a joint failure probability of {100.0 * joint_alpha:.3g}% instead of {alpha} ({reason})"
    )


def _count_sentences(report, rows, letter_of_model):
    """Yield a sentence on the counts of Clopper-Pearson intervals, if they are few.

    ``rows``: those with a proven interval. ``letter_of_model``: see :func:`_short_name`.
    """
    rows = [row for row in rows if row.counts and not row.metric.startswith(_AUC)]
    if not 0 < len(rows) <= _MAX_ROWS_WITH_COUNTS:
        return
    has_one_model = len(_models(report)) == 1
    texts = []
    for row in rows:
        name = _prose_name(row.metric.partition(" (")[0])
        if row.metric.startswith("f1"):
            name = "Jaccard index"
        owner = "" if has_one_model else f" of {_short_name(report, row, letter_of_model)}"
        fractions = [f"{numerator:,}/{denominator:,}" for numerator, denominator in row.counts]
        if len(fractions) > 1:
            name = "recalls of the classes, in order of their labels,"
        texts.append(f"{name}{owner} {_listed(fractions)}")
    yield (
        f"The proportions are {_listed(texts)}."
        if len(rows) > 1
        else (f"The proportion is {texts[0]}.")
    )


def _proven_level_sentences(report, rows):
    """Yield sentences on the coverage of proven intervals.

    ``rows``: those with a proven interval.
    """
    yield (
        f"Proven coverage holds for every number of {_unit_name(report)}, without a large-sample "
        "approximation, under the conditions stated below."
    )
    level = _percent(1.0 - report.alpha_proven)
    probability = f"with probability at least {_percent(report.confidence_level)}"
    earlier = " and all proven intervals that were given with the earlier answers"
    earlier *= bool(report.n_batches)
    if not report.joint:
        allowance = ", allowing for the earlier answers" * bool(report.n_batches)
        yield (
            f"Each confidence interval with proven coverage was computed at level {level}, so that "
            f"by itself it covers its target {probability}{allowance}."
        )
        if len(report.rows) > 1:
            yield (
                "Intervals were not adjusted for the number of estimates: an interval that is "
                "selected after the results were seen, such as that of the best model, has no such "
                "guarantee."
            )
    elif len(rows) == 1:
        claim = "It covers its target"
        if earlier:
            claim = f"It{earlier} cover their targets simultaneously"
        yield (
            f"The confidence interval with proven coverage was computed at level {level}. {claim} "
            f"{probability}."
        )
    else:
        joint_alpha = _joint_alpha_text(report, len(rows) * report.alpha_proven)
        yield (
            f"The {len(rows)} confidence intervals with proven coverage were computed at level "
            f"{level} each, {joint_alpha}. They{earlier} cover their targets simultaneously "
            f"{probability}."
        )


def _proven_sentences(report, rows, letter_of_model):
    """Yield sentences on the coverage and the methods of proven intervals.

    ``rows``: those with a proven interval. ``letter_of_model``: see :func:`_short_name`.
    """
    yield from _proven_level_sentences(report, rows)
    yield from _method_sentences(report, rows)
    yield from _count_sentences(report, rows, letter_of_model)
    if any(row.metric.startswith("f1") and COUNTS in row.method for row in rows):
        yield (
            "Proven intervals of F1 were obtained from those of the Jaccard index J by the "
            "transformation F1 = 2J/(1 + J)."
        )
    yield from _combination_sentences(rows)
    by_class = (CLASSES, CLASS_MEANS)
    if report.units[1] == "groups" and any(row.method.startswith(by_class) for row in rows):
        yield (
            f"The proven intervals for {_listed(_metrics_of(rows, by_class))} use one random "
            f"record of each group{_drawn_text(rows)}. Point estimates and approximate intervals "
            "use all records, so that the proven intervals need not be centered at the estimates."
        )
    yield from _truncation_sentences(rows)
    if _is_in_time(report):
        yield from _past_sentences(report, rows)


def _combination_sentences(rows):
    """Yield sentences on intervals that combine others; ``rows``: with a proven interval."""
    rows_by_recall = [row for row in rows if "for each class" in row.method]
    if rows_by_recall:
        recalls = "the recall"
        if all(" minus " in row.model for row in rows_by_recall):
            recalls = "the difference in the recall"
        yield (
            f"Proven intervals for {_listed(_estimates(rows_by_recall))} combine those of "
            f"{recalls} of each class, which share the failure probability (Bonferroni)."
        )
    if any("for each subgroup" in row.method for row in rows):
        yield (
            "Proven intervals of differences between subgroups combine opposite limits of both "
            "subgroups' intervals, each at half the failure probability."
        )


def _drawn_text(rows):
    """Return the number of positive records among those drawn from the groups, in parentheses.

    It is empty if it was not recorded. ``rows``: those with a proven interval.
    """
    for row in rows:
        if row.metric.startswith(_AUC) and row.counts and not row.subgroup:
            [(n_positive, n_drawn)] = row.counts
            return f" ({n_positive:,} positive of {n_drawn:,})"
    return ""


def _past_sentences(report, rows):
    """Yield sentences on martingale bounds, if they need any.

    ``rows``: those with a proven interval.
    """
    if any(
        row.metric == _ABSOLUTE_ERROR and " minus " in row.model and row.method.startswith(PAST)
        for row in rows
    ):
        yield (
            "Differences of two absolute errors are not clipped: they cannot exceed the distance "
            "between both forecasts, which is known before the outcome."
        )
    horizon = _longest_horizon(report)
    if horizon > 1 and any(row.method.startswith(PAST) for row in rows):
        yield (
            f"For estimand (2), Hölder's inequality joins {horizon} interleaved series of "
            "forecasts that do not overlap."
        )


def _truncation_sentences(rows):
    """Yield a sentence on the limits at which proven intervals clip differences, if they do.

    ``rows``: those with a proven interval. Their notes state the limits.
    """
    rows_by_limit = {}
    for row in rows:
        for match in filter(None, map(_TRUNCATED_NOTE.fullmatch, row.notes)):
            rows_by_limit.setdefault(match.groups(), []).append(row)
    if not rows_by_limit:
        return
    limits = []
    for (limit, count), truncated_rows in rows_by_limit.items():
        metrics = _listed([*dict.fromkeys(map(_with_article, truncated_rows))])
        exceeded = "" if count is None else f" (exceeded by {count} records)"
        limits.append(
            f"{metrics} refer to the mean of differences per record in which those beyond {limit} "
            "count as that"
        )
        limits[-1] += exceeded
    yield (
        f"Proven intervals of differences between models in {_listed(limits)}. The limits were "
        "fixed without the holdout. These intervals give no bound for the mean of the "
        "differences themselves, to which the estimates and the approximate intervals refer."
    )


def _longest_horizon(report):
    """Return the largest number of dates between a forecast and its score, as targets state it.

    It is 1 if no target states one.
    """
    matches = [_HORIZON.search(row.target) for row in report.rows]
    return max((int(match[1]) for match in matches if match), default=1)


def _has_declared_dependence(report):
    """Return whether records depend on each other with a declared strength."""
    return report.rows[0].target.startswith(_DEPENDENT_TARGETS) or any(
        row.method.startswith(TAIL) for row in report.rows
    )


def _assumption_sentences(report, proven_rows, approximate_rows):
    """Yield sentences on the assumptions of the intervals.

    ``proven_rows`` and ``approximate_rows``: rows with such an interval; one may be empty.
    """
    unit_name = _unit_name(report)
    subject = "Both kinds of intervals require"
    if not approximate_rows:
        subject = "Proven coverage requires"
    elif not proven_rows:
        subject = "The intervals require"
    if _is_in_time(report) and proven_rows:
        yield f"Proven coverage assumes nothing about drift or dependence between {unit_name}."
    is_order_free = any(row.method.startswith(FREE) for row in proven_rows)
    yield _sampling_assumption(report, subject, is_order_free=is_order_free)
    conditions = list(_use_conditions(report))
    verb = "They also require" if approximate_rows else "It also requires"
    if conditions:
        yield f"{verb} {_listed(conditions)}."
    if approximate_rows:
        intervals = "Approximate intervals" if proven_rows else "They"
        yield f"{intervals} also require a large number of {unit_name}."


def _sampling_assumption(report, subject, *, is_order_free):
    """Return the sentences on the sampling of the holdout, as one text.

    ``subject``: subject and verb. ``is_order_free``: whether the distributions of units may differ.
    """
    unit_name = _unit_name(report)
    if _is_in_time(report):
        return (
            f"{subject} that forecasts use no outcome that was unknown when they were made, and "
            f"that the choice of the {unit_name} did not depend on outcomes."
        )
    if _has_declared_dependence(report):
        return (
            f"{subject} that records depend on each other no more than declared and that no "
            "holdout record was used for fitting."
        )
    if report.rows[0].target.startswith(_NODES):
        return (
            f"{subject} that, given its neighbors in the declared graph, the label of a node does "
            "not depend on other nodes. Features must not be computed from labels, and predictions "
            "must not use the label of another holdout node."
        )
    if is_order_free:
        return f"{subject} independent {unit_name}, of which none was used for fitting."
    unstratified = ", without stratification by outcome,"
    unstratified *= any(_UNSTRATIFIED in text for text in report.assumptions)
    return (
        f"{subject} independent {unit_name} that were drawn from one population{unstratified} and "
        "not used for fitting."
    )


def _use_conditions(report):
    """Yield clauses on what coverage requires of the use of the holdout."""
    if report.n_batches:
        yield "that the queries of a round were fixed before any of its answers was seen"
    if any(_NO_OTHER_HOLDOUT in text for text in report.assumptions):
        yield "that no other holdout was made of these records"
    if any(_KNOWN_SEED in text for text in report.assumptions) and report.n_batches:
        yield "that no user of the holdout knew the random seed of the noise"


def _proof_of(row):
    """Return the method of a proven row, without details."""
    method = next((name for name in _SOURCES if row.method.startswith(name)), row.method)
    if method == CLASSES and not row.metric.startswith(_AUC):
        return CLASS_MEANS  # rows of older ledgers name CLASSES
    return method


def _method_sentences(report, rows):
    """Yield a sentence on each method of proven intervals, with the estimates it was used for."""
    rows_by_method = {}
    for row in rows:
        rows_by_method.setdefault(_proof_of(row), []).append(row)
    for method, rows_of_method in rows_by_method.items():
        source = _SOURCES.get(method, method)
        is_single = len(rows_of_method) == 1
        source = source.format(s="" if is_single else "s", units=_unit_name(report))
        if method == COUNTS and report.rows[0].target.startswith(_NODES):
            source += (
                ", which remain{} valid for independent nodes with unequal probabilities "
                "(Hoeffding 1956),"
            ).format("s" * is_single)
        text = f"A {source}" if is_single else source
        purpose = ""
        if len(rows_of_method) < len(report.rows):
            estimates = _estimates(rows_of_method)
            purpose = f" for {_listed(estimates)}"
            is_last = method == list(rows_by_method)[-1] and len(rows_by_method) > 1
            if is_last and len(estimates) > _MAX_ESTIMATES:
                purpose = " for all other proven intervals"
        yield f"{text[0].upper()}{text[1:]} {'was' if is_single else 'were'} used{purpose}."


def _metrics_of(rows, methods):
    """Return in prose, without repetition, the metrics of the rows with one of the methods.

    ``methods``: tuple of names.
    """
    return list(dict.fromkeys(_with_article(row) for row in rows if row.method.startswith(methods)))


def _named_estimates(report, rows, letter_of_model):
    """Return the estimates of rows in prose.

    An estimate has the name of its model if other rows of the report, beside ``rows``, have the
    same estimate of another model. ``letter_of_model``: letters that replace names of models in the
    table.
    """
    rows_of_all_models = []
    names = []
    for row in rows:
        other_rows = [
            report_row
            for report_row in report.rows
            if _kind(report_row) == _kind(row) and report_row not in rows
        ]
        is_only_pair = bool(_PAIR.search(row.model)) and not row.subgroup
        is_only_pair &= all(other_row.model == row.model for other_row in other_rows)
        if is_only_pair or not other_rows:
            rows_of_all_models.append(row)
            continue
        pair = row.model.split(" minus ", 1)
        models = [_short_model(report, model, letter_of_model) for model in pair]
        name = f"{_estimates([row])[0]} of {' minus '.join(models)}"
        if row.subgroup and " minus " not in row.subgroup:
            name += f" for {row.subgroup}"
        names.append(name)
    return list(dict.fromkeys([*names, *_estimates(rows_of_all_models)]))


def _kind(row):
    """Return the metric of a row, and whether it compares models or subgroups, as one key."""
    is_pair = _PAIR.search(row.model) is not None
    return row.metric, is_pair, bool(row.subgroup), " minus " in row.subgroup


def _estimates(rows):
    """Return the metrics of rows in prose, followed by phrases on the metrics of differences."""
    names_by_difference = {"": [], "between models": [], "between subgroups": []}
    for row in rows:
        difference = "between models" if " minus " in row.model else ""
        difference = "between subgroups" if " minus " in row.subgroup else difference
        names_by_difference[difference].append(_with_article(row))
    phrases = list(dict.fromkeys(names_by_difference.pop("")))
    for difference, names in names_by_difference.items():
        noun = "the difference" if len(names) == 1 else "differences"
        if names:
            phrases.append(f"{noun} {difference} in {_listed([*dict.fromkeys(names)])}")
    return phrases


def _with_article(row):
    """Return the metric of a row in prose, with the article that it needs."""
    if row.metric.startswith("skill score"):
        return "the skill score"
    return _noun_phrase(_prose_name(row.metric.partition(" (")[0]))


def _noun_phrase(prose_name):
    """Return the name of a metric in prose, with the article that it needs."""
    return f"the {prose_name}" if prose_name.endswith(_NOUNS) else prose_name


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
        prose_name = _prose_name(name)
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
        f"{match[1].removeprefix('-')} for {_described_model(report, row.model)}"
        for row in report.rows
        if row.metric == metric and not row.subgroup
        for match in filter(None, map(_UNCLIPPED_NOTE.fullmatch, row.notes))
    ]
    if not 0 < len(texts) <= _MAX_ESTIMATES:
        return ""
    means = "mean was" if len(texts) == 1 else "means were"
    return f", whose {means} {_listed(texts)}"


def _beyond_clip_sentences(report, metric):
    """Yield sentences on the holdout errors beyond the clip of a metric.

    ``metric``: its name in the table.
    """
    counts = [
        match
        for row in report.rows
        if row.metric == metric and not row.subgroup
        for match in map(_BEYOND_CLIP.fullmatch, row.notes)
        if match
    ]
    n_proven = sum(
        row.metric == metric and row.proven is not None and not _PAIR.search(row.model)
        for row in report.rows
    )
    bound = "The proven interval gives" if n_proven == 1 else "The proven intervals give"
    if not n_proven:
        return
    texts = [
        f"{match['count']} of {match['n']} errors of {_described_model(report, match['model'])}"
        for match in counts
    ]
    if 0 < len(texts) <= _MAX_ESTIMATES:
        yield f"In the holdout, {_listed(texts)} exceeded this limit."
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
    return _listed([words for words, is_present in comparisons.items() if is_present])


def _approximate_sentences(report, rows, letter_of_model):
    """Yield sentences on the coverage and the methods of approximate intervals.

    ``rows``: those with an approximate interval. ``letter_of_model``: letters that replace names of
    models in the table.
    """
    yield from _level_sentences(report, rows)
    yield from _jackknife_sentences(report, rows)
    yield from _tested_level_sentences(report, rows, letter_of_model)
    yield from _few_outcome_sentences(report, rows, letter_of_model)
    dominated_rows = [
        row for row in rows if any(note.startswith(_FEW_UNITS_NOTES) for note in row.notes)
    ]
    if dominated_rows:
        intervals, is_one = _intervals_text(report, dominated_rows, rows, letter_of_model)
        verb = "rests" if is_one else "rest"
        yield f"{intervals[0].upper()}{intervals[1:]} {verb} on few {_unit_name(report)}."
    unproven_rows = [row for row in rows if row.proven is None]
    estimates = _named_estimates(report, unproven_rows, letter_of_model)
    if len(unproven_rows) < len(rows) and 0 < len(estimates) <= _MAX_ESTIMATES:
        yield f"Only approximate intervals are available for {_listed(estimates)}."


def _tested_level_sentences(report, rows, letter_of_model):
    """Yield a sentence on approximate intervals at levels beyond those that were simulated.

    ``rows``: those with an approximate interval. ``letter_of_model``: see :func:`_short_name`.
    """
    rows_beyond_levels = [row for row in rows if any(map(_LEVEL_NOTE.match, row.notes))]
    if not rows_beyond_levels:
        return
    intervals, is_one = _intervals_text(report, rows_beyond_levels, rows, letter_of_model)
    matches = [_LEVEL_NOTE.match(note) for row in rows_beyond_levels for note in row.notes]
    tested_alphas = {float(match[1]) for match in filter(None, matches)}
    tested = "those"
    if len(tested_alphas) == 1:
        tested = f"{_percent(1.0 - tested_alphas.pop())},"
    their = "its" if is_one else "their"
    yield (
        f"The level of {intervals} exceeds {tested} up to which the developers of the software "
        f"checked this method by simulation, so that {their} coverage may be below the nominal one."
    )


def _few_outcome_sentences(report, rows, letter_of_model):
    """Yield a sentence on approximate intervals that rest on few records of an outcome.

    ``rows``: those with an approximate interval. ``letter_of_model``: see :func:`_short_name`.
    """
    rows_by_outcome = {}
    for row in rows:
        for match in filter(None, map(_FEW_OUTCOMES_NOTE.fullmatch, row.notes)):
            rows_by_outcome.setdefault(match[1], []).append(row)
    for outcome, rows_of_outcome in rows_by_outcome.items():
        intervals, is_one = _intervals_text(report, rows_of_outcome, rows, letter_of_model)
        verb = "rests" if is_one else "rest"
        their = "its" if is_one else "their"
        yield (
            f"{intervals[0].upper()}{intervals[1:]} {verb} on only {outcome}, so that {their} "
            "coverage may be below the nominal one."
        )


def _intervals_text(report, some_rows, rows, letter_of_model):
    """Return the intervals of some rows in words, and whether the words are in the singular.

    ``rows``: all rows with an approximate interval, among them ``some_rows``. ``letter_of_model``:
    letters that replace names of models in the table.
    """
    count = len(some_rows)
    if count == len(rows) > 1:
        return ("both" if count == 2 else f"all {count}") + " approximate intervals", False
    estimates = _named_estimates(report, some_rows, letter_of_model)
    if len(estimates) > _MAX_ESTIMATES:
        return f"{count} approximate intervals", False
    noun = "interval" if count == 1 else "intervals"
    return f"the approximate {noun} for {_listed(estimates)}", count == 1


def _level_sentences(report, rows):
    """Yield sentences on the coverage of approximate intervals.

    ``rows``: those with an approximate interval.
    """
    estimates = _estimates(rows)
    purpose = ""
    if len(rows) < len(report.rows) and len(estimates) <= _MAX_ESTIMATES:
        purpose = f" for {_listed(estimates)}"
    level = _percent(1.0 - report.alpha_approximate)
    confidence = _percent(report.confidence_level)
    basis = "based on a large-sample approximation"
    allowance = ", allowing for the earlier answers" * bool(report.n_batches)
    if not report.joint:
        yield (
            f"Each approximate confidence interval{purpose}, computed at level {level}, by itself "
            f"has nominal coverage of {confidence}{allowance}, {basis}."
        )
        return
    intervals = f"The {len(rows)} approximate confidence intervals{purpose} were"
    each_text = " each"
    if len(rows) == 1:
        intervals = f"The approximate confidence interval{purpose} was"
        each_text = ""
    if len(report.rows) == 1:
        yield (
            f"{intervals} computed at level {level}. Its nominal coverage is "
            f"{confidence}{allowance}, {basis}."
        )
        return
    joint_alpha = _joint_alpha_text(report, len(report.rows) * report.alpha_approximate)
    all_estimates = "both estimates"
    if len(report.rows) > 2:
        all_estimates = f"all {len(report.rows)} estimates"
    yield (
        f"{intervals} computed at level {level}{each_text}, for {all_estimates} {joint_alpha}. "
        f"Simultaneous nominal coverage is {confidence}, {basis}."
    )


def _jackknife_sentences(report, rows):
    """Yield sentences on the methods of approximate intervals; ``rows``: those with one."""
    unit_name = _unit_name(report)
    jackknife_rows = [row for row in rows if not row.method.startswith("order statistics")]
    left_out_units = unit_name
    if _has_declared_dependence(report):
        left_out_units = "blocks of consecutive records"
    rarest_text = ", and below the number of those with the rarest relevant outcome"
    rarest_text *= any(_statistic(row).cells is not None for row in jackknife_rows)
    if jackknife_rows:
        yield (
            f"Approximate intervals use jackknife standard errors over {left_out_units} and "
            f"Student quantiles{_scales_text(report, jackknife_rows)}. The degrees of freedom are "
            f"fewer than {left_out_units} minus one if few {left_out_units} carry most of the "
            f"variance (by the kurtosis of their contributions){rarest_text}."
        )
        yield from _skewness_sentences(report, jackknife_rows)
        yield from _disjoint_gap_sentences(report, jackknife_rows)
    if len(jackknife_rows) < len(rows):
        method = "order statistics (a sign test)"
        if unit_name == "groups":
            method = "an empirical likelihood with the groups as units (Owen 2001)"
        yield f"Approximate intervals of the median absolute error use {method} instead."
    if any(note.startswith(_FEW_ERRORS_NOTE) for row in rows for note in row.notes):
        yield (
            "Where few records are wrong, the approximate interval is that of a proportion with "
            "one pseudo record per class."
        )
    if jackknife_rows and _is_in_time(report):
        yield from _variance_sentences(report, jackknife_rows)


def _variance_sentences(report, rows):
    """Yield sentences on variances over dates; ``rows``: those with a jackknife interval."""
    unit_name = _unit_name(report)
    horizon = _longest_horizon(report)
    estimand = " for estimand (1)" * (horizon > 1)
    metrics = [row.metric for row in rows if not row.metric.startswith("skill")]
    has_losses = all(metric.startswith(_NEGATIVE) for metric in metrics)
    scores = "losses" if has_losses else "scores"
    scores = f"{_ADJECTIVES[unit_name]} {scores}" if unit_name in _ADJECTIVES else scores
    yield (
        f"Deviations of {scores} from their expectations given the past are uncorrelated, so that "
        f"variances{estimand} need no autocovariances."
    )
    if horizon > 1:
        bandwidth = min(2.0 * horizon, report.units[0] / 3.0)
        yield (
            "For estimand (2), forecasts overlap, and autocovariances were added with Bartlett "
            f"weights that reach 0 at a lag of {bandwidth:.3g} {unit_name}."
        )


def _statistic(row):
    """Return the statistic behind an approximate row, by the name of its metric.

    It is that of an arbitrary function if no metric has that name.
    """
    name = row.metric.partition(" (")[0]
    if row.metric.startswith(_SKILL_PREFIX):
        return SKILL
    try:
        return statistic_of(name)
    except ValueError:
        return GENERIC


def _scales_text(report, rows):
    """Return a phrase on the scales of jackknife intervals, empty if all are untransformed.

    ``rows``: those with a jackknife interval.
    """
    names_by_scale = {}
    for row in rows:
        statistic = _statistic(row)
        scale = statistic.scale
        if _is_in_time(report):
            scale = statistic.dates.scale or scale
        is_difference = " minus " in row.model + row.subgroup
        if scale in _SCALE_NAMES and not is_difference:
            names = names_by_scale.setdefault(scale, [])
            names.append(_with_article(row))
    texts = []
    for scale, names in names_by_scale.items():
        unique_names = list(dict.fromkeys(names))
        subject = _listed(unique_names)
        if len(unique_names) > _MAX_ESTIMATES:
            subject = _SCALE_SUBJECTS[scale]
        texts.append(f"on {_SCALE_NAMES[scale]} for {subject}")
    n_named = sum(map(len, names_by_scale.values()))
    if n_named + len(_disjoint_gap_rows(report, rows)) < len(rows) and texts:
        texts.append("on the original scale for all other estimates")
    return f", {'; '.join(texts)}" if texts else ""


def _disjoint_gap_rows(report, rows):
    """Return the differences of rank statistics between subgroups without common units.

    ``rows``: those with a jackknife interval.
    """
    n_units_of = {row.subgroup: row.n_units for row in report.rows}
    gap_rows = []
    for row in rows:
        pair = row.subgroup.split(" minus ")
        n_units = [n_units_of.get(subgroup, 0) for subgroup in pair]
        is_rank = _statistic(row).scale == "unit" and _statistic(row).response in RANK_RESPONSES
        if len(pair) == 2 and is_rank and sum(n_units) == row.n_units and not _is_in_time(report):
            gap_rows.append(row)
    return gap_rows


def _disjoint_gap_sentences(report, rows):
    """Yield a sentence on the rows of :func:`_disjoint_gap_rows`."""
    gap_rows = _disjoint_gap_rows(report, rows)
    if gap_rows:
        yield (
            f"Approximate intervals for {_listed(_estimates(gap_rows))} combine the margins of "
            "both subgroups' intervals instead (method of variance estimates recovery, Zou and "
            "Donner 2008)."
        )


def _skewness_sentences(report, rows):
    """Yield a sentence on jackknife intervals that are corrected for skewness.

    ``rows``: those with a jackknife interval.
    """
    corrected_rows = [row for row in rows if _is_corrected_for_skewness(report, row)]
    if corrected_rows:
        estimates = _estimates(corrected_rows)
        purpose = f" for {_listed(estimates)}"
        if len(corrected_rows) == len(rows):
            purpose = ""
        elif len(estimates) > _MAX_ESTIMATES:
            purpose = f" for {len(corrected_rows)} estimates"
        yield (
            f"Each limit{purpose} was also computed with a skewness correction (Hall 1992), and "
            "the one farther from the estimate was used."
        )


def _is_corrected_for_skewness(report, row):
    """Return whether the jackknife interval of a row is corrected for skewness."""
    statistic = _statistic(row)
    is_difference = " minus " in row.model + row.subgroup
    if not _is_in_time(report):
        return statistic.corrects_skewness[is_difference]
    # Over dates the scale decides; that of differences is the original one.
    return is_difference or (statistic.dates.scale or statistic.scale) not in ("unit", "signed")


def _family_sentences(report):
    """Yield a sentence on the simultaneous coverage of both kinds of intervals.

    No sentence if each interval holds by itself.
    """
    if report.joint:
        confidence_of_both = _percent(2.0 * report.confidence_level - 1.0)
        yield (
            "Both kinds of intervals together have nominal simultaneous coverage of at least "
            f"{confidence_of_both}."
        )


def _sentences_on_missing_intervals(report, letter_of_model):
    """Yield sentences on the estimates without an interval, with the first note on each."""
    rows_by_reason = {}
    for row in report.rows:
        if not math.isfinite(row.lower):
            reason = row.notes[0] if row.notes else "The notes in the report state the reason."
            rows_by_reason.setdefault(reason, []).append(row)
    for reason, rows in rows_by_reason.items():
        difference_rows = [
            row for row in rows if _PAIR.search(row.model) or " minus " in row.subgroup
        ]
        names = [
            f"{_with_article(row)} of {_short_name(report, row, letter_of_model)}"
            for row in rows
            if row not in difference_rows
        ]
        names += _estimates(difference_rows)
        estimates = _listed(names)
        if len(names) > _MAX_ESTIMATES:
            estimates = f"{len(rows)} estimates"
        has_value = any(math.isfinite(row.value) for row in rows)
        lack = f"There is no interval for {estimates}"
        if not has_value:
            lack = f"Neither an estimate nor an interval could be computed for {estimates}"
        if reason == _UNDEFINED_NOTE:
            yield f"{lack}, because the score is undefined for these records."
        else:
            yield f"{lack}. The reason in the report is “{reason}”"


def _short_name(report, row, letter_of_model):
    """Return the letter or the name of a row's model, with the subgroup of the row.

    ``letter_of_model``: letters that replace names of models in the table.
    """
    name = _short_model(report, row.model, letter_of_model)
    return f"{name} for {row.subgroup}" if row.subgroup else name


def _short_model(report, model, letter_of_model):
    """Return the letter of a model in the table, or its name if it has none."""
    letter = letter_of_model.get(model)
    return _described_model(report, model) if letter is None else f"model {letter}"


def _percent(fraction):
    """Return a fraction as the text of a percentage of at most four significant digits."""
    return f"{100.0 * fraction:.4g}%"
