"""Sentences of a methods section on intervals: their levels, methods and assumptions."""

from __future__ import annotations

import math
import re

from sklearn_bdp.intervals.jackknife import GENERIC, RANK_RESPONSES, SKILL
from sklearn_bdp.metrics.proofs import BETS, CLASS_MEANS, CLASSES, COUNTS, FREE, PAST, RECALLS, TAIL
from sklearn_bdp.metrics.registry import statistic_of
from sklearn_bdp.report.methods_words import (
    AUC,
    MAX_ESTIMATES,
    NEGATIVE,
    NODES_TARGET,
    NOISE,
    PAIR,
    SKILL_PREFIX,
    estimate_phrases,
    is_in_time,
    listed,
    metric_in_prose,
    model_names,
    name_of_units,
    percent,
    short_model,
    short_name,
    with_article,
)

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
    NOISE: "concentration bound{s} of scores that were released with noise",
}
#: Start of the note on a failure probability below those at which a method was checked.
_LEVEL_NOTE = re.compile(r"The failure probability of this row, \S+, is below (\S+), down to ")
#: Start of the note on an interval that does not come from the jackknife.
_FEW_ERRORS_NOTE = "Few records are wrong"
_TRUNCATED_NOTE = re.compile(
    r"The proven interval counts differences beyond (±\S+) as that(?: \((.+ of .+) records\))?\."
)
#: Note on the records of an outcome, of which there are few.
_FEW_OUTCOMES_NOTE = re.compile(r"Only (.+)\.")
#: Forecasts that are made several dates before their scores, in the text of a target.
_HORIZON = re.compile(r"when the forecast was made, (\d+) .+ before the outcome")
_DEPENDENT_TARGETS = ("later records", "these records", "new records at the places")
#: Notes on approximate intervals that a few sampling units decide.
_FEW_UNITS_NOTES = ("A few units dominate", "A few dates dominate")
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
_MAX_ROWS_WITH_COUNTS = 4  # rows whose counts are named in one sentence
#: Parts of assumptions of a report.
_NO_OTHER_HOLDOUT = "no other holdout is made of these records"
_KNOWN_SEED = "fixed random_state"
_UNSTRATIFIED = "not stratified by their targets"
#: Scales of jackknife intervals in prose, and the metrics with such a scale.
_SCALE_NAMES = {
    "unit": "the logit scale",
    "signed": "Fisher's z scale",
    "loss": "the log scale",
    "explained": "the scale of -log(1 - score)",
}
_SCALE_SUBJECTS = {
    "unit": "scores from 0 to 1 of single models",
    "signed": "correlations of single models",
    "loss": "losses of single models",
    "explained": "the explained proportions of loss of single models",
}


def _joint_alpha_text(report, joint_alpha):
    """Return a phrase on ``joint_alpha``, the probability that any of several intervals fails."""
    reason = "to allow for the earlier answers"
    if not report.n_batches:
        reason = "because a part was reserved for queries before the report"
    alpha = percent(1.0 - report.confidence_level)
    return (
        f"a joint failure probability of {100.0 * joint_alpha:.3g}% instead of {alpha} ({reason})"
    )


def _count_sentences(report, proven_rows, letter_by_model_name):
    """Yield sentences on the counts of Clopper-Pearson intervals, for at most 4 such rows."""
    rows_with_counts = [row for row in proven_rows if row.counts and not row.metric.startswith(AUC)]
    if not 0 < len(rows_with_counts) <= _MAX_ROWS_WITH_COUNTS:
        return
    defined_rows = [
        row for row in rows_with_counts if all(denominator for _, denominator in row.counts)
    ]
    proportion_texts = [_proportion_text(report, row, letter_by_model_name) for row in defined_rows]
    if sum(len(row.counts) for row in defined_rows) == 1:
        yield f"The proportion is {proportion_texts[0]}."
    elif proportion_texts:
        yield f"The proportions are {listed(proportion_texts)}."
    undefined_rows = [row for row in rows_with_counts if row not in defined_rows]
    rows_without_class = [row for row in undefined_rows if len(row.counts) > 1]
    rows_without_records = [row for row in undefined_rows if len(row.counts) == 1]
    yield from map(_missing_class_sentence, rows_without_class)
    for has_value, estimate in ((False, "no estimate"), (True, "an estimate by convention")):
        rows = [row for row in rows_without_records if math.isfinite(row.value) == has_value]
        if rows:
            verb = "has" if len(rows) == 1 else "have"
            yield (
                f"No record is in the denominator of {listed(estimate_phrases(rows))}, which "
                f"therefore {verb} {estimate} and an uninformative interval."
            )


def _missing_class_sentence(row):
    """Return a sentence on a mean over classes of which one has no record."""
    name = metric_in_prose(row.metric)
    subgroup_text = f" for {row.subgroup}" if row.subgroup else ""
    return (
        f"A class has no record in {name}{subgroup_text}, which therefore has no estimate; its "
        "interval allows any recall of that class."
    )


def _proportion_text(report, row, letter_by_model_name):
    """Return the name, model and fractions of a row with counts, such as "accuracy 90/100"."""
    name = metric_in_prose(row.metric.partition(" (")[0])
    if row.metric.startswith("f1"):
        name = "Jaccard index"
    of_model = f" of {short_name(report, row, letter_by_model_name)}"
    if len(model_names(report)) == 1:
        of_model = ""
    fraction_texts = [f"{numerator:,}/{denominator:,}" for numerator, denominator in row.counts]
    if len(fraction_texts) > 1:
        name = "recalls of the classes, in order of their labels,"
    return f"{name}{of_model} {listed(fraction_texts)}"


def _proven_level_sentences(report, proven_rows):
    """Yield sentences on the coverage of proven intervals."""
    yield (
        f"Proven coverage holds for every number of {name_of_units(report)}, without a "
        "large-sample approximation, under the conditions stated below."
    )
    level_text = percent(1.0 - report.alpha_proven)
    probability_text = f"with probability at least {percent(report.confidence_level)}"
    and_earlier_intervals = " and all proven intervals that were given with the earlier answers"
    and_earlier_intervals *= bool(report.n_batches)
    if not report.joint:
        allowance = ", allowing for the earlier answers" * bool(report.n_batches)
        yield (
            f"Each confidence interval with proven coverage was computed at level {level_text}, so "
            f"that by itself it covers its target {probability_text}{allowance}."
        )
        if len(report.rows) > 1:
            yield (
                "Intervals were not adjusted for the number of estimates: an interval that is "
                "selected after the results were seen, such as that of the best model, has no such "
                "guarantee."
            )
    elif len(proven_rows) == 1:
        claim = "It covers its target"
        if and_earlier_intervals:
            claim = f"It{and_earlier_intervals} cover their targets simultaneously"
        yield (
            f"The confidence interval with proven coverage was computed at level {level_text}. "
            f"{claim} {probability_text}."
        )
    else:
        joint_alpha_text = _joint_alpha_text(report, len(proven_rows) * report.alpha_proven)
        yield (
            f"The {len(proven_rows)} confidence intervals with proven coverage were computed at "
            f"level {level_text} each, {joint_alpha_text}. They{and_earlier_intervals} cover their "
            f"targets simultaneously {probability_text}."
        )


def proven_sentences(report, proven_rows, letter_by_model_name):
    """Yield sentences on the coverage and the methods of proven intervals."""
    yield from _proven_level_sentences(report, proven_rows)
    yield from _method_sentences(report, proven_rows)
    yield from _count_sentences(report, proven_rows, letter_by_model_name)
    if any(row.metric.startswith("f1") and COUNTS in row.method for row in proven_rows):
        yield (
            "Proven intervals of F1 were obtained from those of the Jaccard index J by the "
            "transformation F1 = 2J/(1 + J)."
        )
    if any(row.method.startswith(BETS) for row in proven_rows):
        yield (
            f"Betting intervals depend on the order of the {name_of_units(report)}, which was "
            "drawn at random once: another order would give somewhat different limits."
        )
    yield from _combination_sentences(proven_rows)
    metrics_by_class = _metrics_of(proven_rows, (CLASSES, CLASS_MEANS))
    if report.units[1] == "groups" and metrics_by_class:
        yield (
            f"The proven intervals for {listed(metrics_by_class)} use one random record of each "
            f"group, drawn once{_drawn_text(proven_rows)}. Point estimates and approximate "
            "intervals use all records, so that the proven intervals need not be centered at the "
            "estimates."
        )
    yield from _truncation_sentences(proven_rows)
    if is_in_time(report):
        yield from _past_sentences(report, proven_rows)


def _combination_sentences(proven_rows):
    """Yield sentences on intervals that combine those of classes or of two subgroups."""
    recall_rows = [row for row in proven_rows if "for each class" in row.method]
    if recall_rows:
        combined_text = "the recall"
        if all(" minus " in row.model for row in recall_rows):
            combined_text = "the difference in the recall"
        yield (
            f"Proven intervals for {listed(estimate_phrases(recall_rows))} combine those of "
            f"{combined_text} of each class, which share the failure probability (Bonferroni)."
        )
    if any("for each subgroup" in row.method for row in proven_rows):
        yield (
            "Proven intervals of differences between subgroups combine opposite limits of both "
            "subgroups' intervals, each at half the failure probability."
        )


def _drawn_text(proven_rows):
    """Return the numbers of positive and of all records drawn from groups, in parentheses.

    The text is empty without counts of a row on the area under the ROC curve of all records.
    """
    for row in proven_rows:
        if row.metric.startswith(AUC) and row.counts and not row.subgroup:
            [(n_positive, n_drawn)] = row.counts
            return f" ({n_positive:,} positive of {n_drawn:,})"
    return ""


def _past_sentences(report, proven_rows):
    """Yield sentences on martingale bounds of absolute errors and of forecasts that overlap."""
    if any(
        row.metric == _ABSOLUTE_ERROR and " minus " in row.model and row.method.startswith(PAST)
        for row in proven_rows
    ):
        yield (
            "Differences of two absolute errors are not clipped: they cannot exceed the distance "
            "between both forecasts, which is known before the outcome."
        )
    horizon = _longest_horizon(report)
    if horizon > 1 and any(row.method.startswith(PAST) for row in proven_rows):
        yield (
            f"For estimand (2), Hölder's inequality joins {horizon} interleaved series of "
            "forecasts that do not overlap."
        )


def _truncation_sentences(proven_rows):
    """Yield a sentence on the limits at which proven intervals clip differences, if they do."""
    rows_by_limit_and_count = {}  # keys are texts from notes, such as "±0.5" and "3 of 100" or None
    for row in proven_rows:
        for match in filter(None, map(_TRUNCATED_NOTE.fullmatch, row.notes)):
            rows_by_limit_and_count.setdefault(match.groups(), []).append(row)
    if not rows_by_limit_and_count:
        return
    clauses = []
    for (limit_text, count_text), truncated_rows in rows_by_limit_and_count.items():
        metrics_text = listed([*dict.fromkeys(map(with_article, truncated_rows))])
        exceeded_text = "" if count_text is None else f" (exceeded by {count_text} records)"
        clauses.append(
            f"{metrics_text} refer to the mean of differences per record in which those beyond "
            f"{limit_text} count as that{exceeded_text}"
        )
    yield (
        f"Proven intervals of differences between models in {listed(clauses)}. The limits were "
        "fixed without the holdout. These intervals give no bound for the mean of the "
        "differences themselves, to which the estimates and the approximate intervals refer."
    )


def _longest_horizon(report):
    """Return the largest number of dates from a forecast to its score in the rows' target texts.

    It is 1 if no target states one.
    """
    matches = [_HORIZON.search(row.target) for row in report.rows]
    return max((int(match[1]) for match in matches if match), default=1)


def _has_declared_dependence(report):
    """Return whether records depend on each other with a declared strength."""
    return report.rows[0].target.startswith(_DEPENDENT_TARGETS) or any(
        row.method.startswith(TAIL) for row in report.rows
    )


def assumption_sentences(report, proven_rows, approximate_rows):
    """Yield sentences on the assumptions of the intervals; one list of rows may be empty."""
    unit_name = name_of_units(report)
    subject = "Both kinds of intervals require"
    if not approximate_rows:
        subject = "Proven coverage requires"
    elif not proven_rows:
        subject = "The intervals require"
    if is_in_time(report) and proven_rows:
        yield f"Proven coverage assumes nothing about drift or dependence between {unit_name}."
    is_order_free = any(row.method.startswith(FREE) for row in proven_rows)
    yield _sampling_assumption(report, subject, is_order_free=is_order_free)
    conditions = list(_use_conditions(report))
    verb = "They also require" if approximate_rows else "It also requires"
    if conditions:
        yield f"{verb} {listed(conditions)}."
    if approximate_rows:
        intervals_text = "Approximate intervals" if proven_rows else "They"
        yield f"{intervals_text} also require a large number of {unit_name}."


def _sampling_assumption(report, subject, *, is_order_free):
    """Return one or more sentences on the sampling of the holdout, as one text.

    ``subject``: start of the text, such as "The intervals require". ``is_order_free``: whether the
    distributions of units may differ.
    """
    unit_name = name_of_units(report)
    if is_in_time(report):
        return (
            f"{subject} that forecasts use no outcome that was unknown when they were made, and "
            f"that the choice of the {unit_name} did not depend on outcomes."
        )
    if _has_declared_dependence(report):
        return (
            f"{subject} that records depend on each other no more than declared and that no "
            "holdout record was used for fitting."
        )
    if report.rows[0].target.startswith(NODES_TARGET):
        return (
            f"{subject} that, given its neighbors in the declared graph, the label of a node does "
            "not depend on other nodes. Features must not be computed from labels, and predictions "
            "must not use the label of another holdout node."
        )
    if is_order_free:
        return f"{subject} independent {unit_name}, of which none was used for fitting."
    unstratified_text = ", without stratification by outcome,"
    unstratified_text *= any(_UNSTRATIFIED in text for text in report.assumptions)
    return (
        f"{subject} independent {unit_name} that were drawn from one "
        f"population{unstratified_text} and not used for fitting."
    )


def _use_conditions(report):
    """Yield clauses, such as "that no other holdout was made ...", on required holdout use."""
    if report.n_batches:
        yield "that the queries of a round were fixed before any of its answers was seen"
    if any(_NO_OTHER_HOLDOUT in text for text in report.assumptions):
        yield "that no other holdout was made of these records"
    if any(_KNOWN_SEED in text for text in report.assumptions) and report.n_batches:
        yield "that no user of the holdout knew the random seed of the noise"


def _proof_of(row):
    """Return the method of a proven row: a key of ``_SOURCES``, else the row's own text."""
    method = next((name for name in _SOURCES if row.method.startswith(name)), row.method)
    if method == CLASSES and not row.metric.startswith(AUC):
        return CLASS_MEANS  # rows of older ledgers name CLASSES
    return method


def _method_sentences(report, proven_rows):
    """Yield a sentence on each method of proven intervals, and on its rows unless it has all."""
    rows_by_method = {}
    for row in proven_rows:
        rows_by_method.setdefault(_proof_of(row), []).append(row)
    for method, rows_of_method in rows_by_method.items():
        method_text = _SOURCES.get(method, method)
        is_single = len(rows_of_method) == 1
        method_text = method_text.format(s="" if is_single else "s", units=name_of_units(report))
        if method == COUNTS and report.rows[0].target.startswith(NODES_TARGET):
            method_text += (
                ", which remain{} valid for independent nodes with unequal probabilities "
                "(Hoeffding 1956),"
            ).format("s" * is_single)
        subject = f"A {method_text}" if is_single else method_text
        purpose = ""
        if len(rows_of_method) < len(report.rows):
            estimates = estimate_phrases(rows_of_method)
            purpose = f" for {listed(estimates)}"
            is_last = method == list(rows_by_method)[-1] and len(rows_by_method) > 1
            if is_last and len(estimates) > MAX_ESTIMATES:
                purpose = " for all other proven intervals"
        verb = "was" if is_single else "were"
        yield f"{subject[0].upper()}{subject[1:]} {verb} used{purpose}."


def _metrics_of(rows, methods):
    """Return a list, without repetition, of the metrics in prose of rows with some methods.

    ``methods``: tuple of starts of method names.
    """
    return list(dict.fromkeys(with_article(row) for row in rows if row.method.startswith(methods)))


def _named_estimates(report, rows, letter_by_model_name):
    """Return a list of the estimates of ``rows`` in prose.

    An estimate has the name of its model if the report has another row of the same metric that is
    not in ``rows``, except for the only comparison of two models.
    """
    rows_without_model_name = []
    phrases = []
    for row in rows:
        other_rows = [
            report_row
            for report_row in report.rows
            if _kind(report_row) == _kind(row) and report_row not in rows
        ]
        is_only_pair = bool(PAIR.search(row.model)) and not row.subgroup
        is_only_pair &= all(other_row.model == row.model for other_row in other_rows)
        if is_only_pair or not other_rows:
            rows_without_model_name.append(row)
            continue
        full_names = row.model.split(" minus ", 1)  # one, or two of a difference
        short_names = [short_model(report, name, letter_by_model_name) for name in full_names]
        phrase = f"{estimate_phrases([row])[0]} of {' minus '.join(short_names)}"
        if row.subgroup and " minus " not in row.subgroup:
            phrase += f" for {row.subgroup}"
        phrases.append(phrase)
    return list(dict.fromkeys([*phrases, *estimate_phrases(rows_without_model_name)]))


def _kind(row):
    """Return a tuple that is equal for rows of the same metric and kind of comparison."""
    compares_models = PAIR.search(row.model) is not None
    return row.metric, compares_models, bool(row.subgroup), " minus " in row.subgroup


def approximate_sentences(report, approximate_rows, letter_by_model_name):
    """Yield sentences on the coverage and the methods of approximate intervals."""
    yield from _level_sentences(report, approximate_rows)
    yield from _jackknife_sentences(report, approximate_rows)
    yield from _tested_level_sentences(report, approximate_rows, letter_by_model_name)
    yield from _few_outcome_sentences(report, approximate_rows, letter_by_model_name)
    few_unit_rows = [
        row
        for row in approximate_rows
        if any(note.startswith(_FEW_UNITS_NOTES) for note in row.notes)
    ]
    if few_unit_rows:
        text, is_singular = _intervals_text(
            report, few_unit_rows, approximate_rows, letter_by_model_name
        )
        verb = "rests" if is_singular else "rest"
        yield f"{text[0].upper()}{text[1:]} {verb} on few {name_of_units(report)}."
    unproven_rows = [row for row in approximate_rows if row.proven is None]
    estimates = _named_estimates(report, unproven_rows, letter_by_model_name)
    if len(unproven_rows) < len(approximate_rows) and 0 < len(estimates) <= MAX_ESTIMATES:
        yield f"Only approximate intervals are available for {listed(estimates)}."


def _tested_level_sentences(report, approximate_rows, letter_by_model_name):
    """Yield a sentence on approximate intervals at levels beyond those that were simulated."""
    untested_rows = [row for row in approximate_rows if any(map(_LEVEL_NOTE.match, row.notes))]
    if not untested_rows:
        return
    intervals_text, is_singular = _intervals_text(
        report, untested_rows, approximate_rows, letter_by_model_name
    )
    matches = [_LEVEL_NOTE.match(note) for row in untested_rows for note in row.notes]
    tested_alphas = {float(match[1]) for match in filter(None, matches)}
    tested_levels_text = "those"
    if len(tested_alphas) == 1:
        tested_levels_text = f"{percent(1.0 - tested_alphas.pop())},"
    their = "its" if is_singular else "their"
    yield (
        f"The level of {intervals_text} exceeds {tested_levels_text} up to which the developers of "
        f"the software checked this method by simulation, so that {their} coverage may be below "
        "the nominal one."
    )


def _few_outcome_sentences(report, approximate_rows, letter_by_model_name):
    """Yield a sentence for each text of a note on few records, on the intervals with this note."""
    rows_by_count_text = {}
    for row in approximate_rows:
        for match in filter(None, map(_FEW_OUTCOMES_NOTE.fullmatch, row.notes)):
            rows_by_count_text.setdefault(match[1], []).append(row)
    for count_text, few_record_rows in rows_by_count_text.items():
        text, is_singular = _intervals_text(
            report, few_record_rows, approximate_rows, letter_by_model_name
        )
        verb = "rests" if is_singular else "rest"
        their = "its" if is_singular else "their"
        yield (
            f"{text[0].upper()}{text[1:]} {verb} on only {count_text}, so that {their} "
            "coverage may be below the nominal one."
        )


def _intervals_text(report, some_rows, approximate_rows, letter_by_model_name):
    """Return the approximate intervals of ``some_rows`` in words, and whether these are singular.

    ``approximate_rows``: all rows with an approximate interval. ``some_rows`` are among them.
    """
    count = len(some_rows)
    if count == len(approximate_rows) > 1:
        return ("both" if count == 2 else f"all {count}") + " approximate intervals", False
    estimates = _named_estimates(report, some_rows, letter_by_model_name)
    if len(estimates) > MAX_ESTIMATES:
        return f"{count} approximate intervals", False
    noun = "interval" if count == 1 else "intervals"
    return f"the approximate {noun} for {listed(estimates)}", count == 1


def _level_sentences(report, approximate_rows):
    """Yield sentences on the coverage of approximate intervals."""
    estimates = estimate_phrases(approximate_rows)
    purpose = ""
    if len(approximate_rows) < len(report.rows) and len(estimates) <= MAX_ESTIMATES:
        purpose = f" for {listed(estimates)}"
    level_text = percent(1.0 - report.alpha_approximate)
    confidence_text = percent(report.confidence_level)
    basis = "based on a large-sample approximation"
    allowance = ", allowing for the earlier answers" * bool(report.n_batches)
    if not report.joint:
        yield (
            f"Each approximate confidence interval{purpose}, computed at level {level_text}, by "
            f"itself has nominal coverage of {confidence_text}{allowance}, {basis}."
        )
        return
    subject = f"The {len(approximate_rows)} approximate confidence intervals{purpose} were"
    each_text = " each"
    if len(approximate_rows) == 1:
        subject = f"The approximate confidence interval{purpose} was"
        each_text = ""
    if len(report.rows) == 1:
        yield (
            f"{subject} computed at level {level_text}. Its nominal coverage is "
            f"{confidence_text}{allowance}, {basis}."
        )
        return
    joint_alpha_text = _joint_alpha_text(report, len(report.rows) * report.alpha_approximate)
    all_estimates = "both estimates"
    if len(report.rows) > 2:
        all_estimates = f"all {len(report.rows)} estimates"
    yield (
        f"{subject} computed at level {level_text}{each_text}, for {all_estimates} "
        f"{joint_alpha_text}. Simultaneous nominal coverage is {confidence_text}, {basis}."
    )


def _jackknife_sentences(report, approximate_rows):
    """Yield sentences on the methods of approximate intervals."""
    unit_name = name_of_units(report)
    jackknife_rows = [
        row for row in approximate_rows if not row.method.startswith("order statistics")
    ]
    left_out_units = unit_name  # in words
    if _has_declared_dependence(report):
        left_out_units = "blocks of consecutive records"
    rarest_text = ", and below the number of those with the rarest relevant outcome"
    rarest_text *= any(_statistic(row).outcome_masks is not None for row in jackknife_rows)
    if jackknife_rows:
        yield (
            f"Approximate intervals use jackknife standard errors over {left_out_units} and "
            f"Student quantiles{_scales_text(report, jackknife_rows)}. The degrees of freedom are "
            f"fewer than {left_out_units} minus one if few {left_out_units} carry most of the "
            f"variance (by the kurtosis of their contributions){rarest_text}."
        )
        yield from _skewness_sentences(report, jackknife_rows)
        yield from _disjoint_gap_sentences(report, jackknife_rows)
    if len(jackknife_rows) < len(approximate_rows):
        method_text = "order statistics (a sign test)"
        if unit_name == "groups":
            method_text = "an empirical likelihood with the groups as units (Owen 2001)"
        yield f"Approximate intervals of the median absolute error use {method_text} instead."
    if any(note.startswith(_FEW_ERRORS_NOTE) for row in approximate_rows for note in row.notes):
        yield (
            "Where few records are wrong, the approximate interval is that of a proportion with "
            "one pseudo record per class."
        )
    if jackknife_rows and is_in_time(report):
        yield from _variance_sentences(report, jackknife_rows)


def _variance_sentences(report, jackknife_rows):
    """Yield sentences on variances over dates."""
    unit_name = name_of_units(report)
    horizon = _longest_horizon(report)  # in dates
    for_estimand = " for estimand (1)" * (horizon > 1)
    metric_names = [row.metric for row in jackknife_rows if not row.metric.startswith("skill")]
    has_only_losses = all(name.startswith(NEGATIVE) for name in metric_names)
    noun = "losses" if has_only_losses else "scores"
    noun = f"{_ADJECTIVES[unit_name]} {noun}" if unit_name in _ADJECTIVES else noun
    yield (
        f"Deviations of {noun} from their expectations given the past are uncorrelated, so that "
        f"variances{for_estimand} need no autocovariances."
    )
    if horizon > 1:
        n_dates, _ = report.units
        lag_in_dates = min(2.0 * horizon, n_dates / 3.0)
        yield (
            "For estimand (2), forecasts overlap, and autocovariances were added with Bartlett "
            f"weights that reach 0 at a lag of {lag_in_dates:.3g} {unit_name}."
        )


def _statistic(row):
    """Return the :class:`Statistic` of an approximate row, found by the name of its metric.

    It is ``GENERIC`` if no metric of the package has that name.
    """
    metric_name = row.metric.partition(" (")[0]
    if row.metric.startswith(SKILL_PREFIX):
        return SKILL
    try:
        return statistic_of(metric_name)
    except ValueError:
        return GENERIC


def _scales_text(report, jackknife_rows):
    """Return a phrase on the scales of jackknife intervals, empty if all are untransformed."""
    metric_names_by_scale = {}
    for row in jackknife_rows:
        statistic = _statistic(row)
        scale = statistic.scale
        if is_in_time(report):
            scale = statistic.dates.scale or scale
        is_difference = " minus " in row.model + row.subgroup
        if scale in _SCALE_NAMES and not is_difference:
            metric_names_by_scale.setdefault(scale, []).append(with_article(row))
    phrases = []
    for scale, metric_names in metric_names_by_scale.items():
        unique_names = list(dict.fromkeys(metric_names))
        subject = listed(unique_names)
        if len(unique_names) > MAX_ESTIMATES:
            subject = _SCALE_SUBJECTS[scale]
        phrases.append(f"on {_SCALE_NAMES[scale]} for {subject}")
    n_transformed_rows = sum(map(len, metric_names_by_scale.values()))
    if (
        n_transformed_rows + len(_disjoint_gap_rows(report, jackknife_rows)) < len(jackknife_rows)
        and phrases
    ):
        phrases.append("on the original scale for all other estimates")
    return f", {'; '.join(phrases)}" if phrases else ""


def _disjoint_gap_rows(report, jackknife_rows):
    """Return rows of differences of rank statistics between subgroups without common units.

    The list is empty over dates.
    """
    gap_rows = []
    for row in jackknife_rows:
        is_rank = _statistic(row).scale == "unit" and _statistic(row).response in RANK_RESPONSES
        if is_rank and not is_in_time(report) and _is_disjoint_gap(report, row):
            gap_rows.append(row)
    return gap_rows


def _is_disjoint_gap(report, row):
    """Return whether a row is a difference between two subgroups without a common unit.

    Two subgroups have no record in common. Whether they share groups follows from their numbers of
    groups; the rest of a column counts the groups of all its other subgroups.
    """
    subgroup, _, compared_subgroup = row.subgroup.partition(" minus ")
    if not compared_subgroup or name_of_units(report) == "records":
        return bool(compared_subgroup)
    n_units_by_subgroup = {row.subgroup: row.n_units for row in report.rows}
    compared_subgroups = [compared_subgroup]
    if compared_subgroup not in n_units_by_subgroup:
        column = subgroup.partition("=")[0]
        compared_subgroups = [
            name
            for name in n_units_by_subgroup
            if name.startswith(f"{column}=") and " minus " not in name and name != subgroup
        ]
    n_units = [n_units_by_subgroup.get(name, 0) for name in (subgroup, *compared_subgroups)]
    return sum(n_units) == row.n_units


def _disjoint_gap_sentences(report, jackknife_rows):
    """Yield a sentence on differences of rank statistics between disjoint subgroups, if any."""
    gap_rows = _disjoint_gap_rows(report, jackknife_rows)
    if gap_rows:
        yield (
            f"Approximate intervals for {listed(estimate_phrases(gap_rows))} combine the margins "
            "of both subgroups' intervals instead (method of variance estimates recovery, Zou and "
            "Donner 2008)."
        )


def _skewness_sentences(report, jackknife_rows):
    """Yield a sentence on jackknife intervals that are corrected for skewness, if any."""
    corrected_rows = [row for row in jackknife_rows if _is_corrected_for_skewness(report, row)]
    if corrected_rows:
        estimates = estimate_phrases(corrected_rows)
        purpose = f" for {listed(estimates)}"
        if len(corrected_rows) == len(jackknife_rows):
            purpose = ""
        elif len(estimates) > MAX_ESTIMATES:
            purpose = f" for {len(corrected_rows)} estimates"
        yield (
            f"Each limit{purpose} was also computed with a skewness correction (Hall 1992), and "
            "the one farther from the estimate was used."
        )


def _is_corrected_for_skewness(report, row):
    """Return whether the jackknife interval of a row is corrected for skewness."""
    statistic = _statistic(row)
    is_difference = " minus " in row.model + row.subgroup
    if not is_in_time(report):
        return statistic.corrects_skewness[is_difference]
    # Over dates the scale decides; that of differences is the original one.
    return is_difference or (statistic.dates.scale or statistic.scale) not in ("unit", "signed")


def family_sentences(report):
    """Yield a sentence on the simultaneous coverage of all intervals if the report has it."""
    if report.joint:
        confidence_of_both = percent(2.0 * report.confidence_level - 1.0)
        yield (
            "Both kinds of intervals together have nominal simultaneous coverage of at least "
            f"{confidence_of_both}."
        )
