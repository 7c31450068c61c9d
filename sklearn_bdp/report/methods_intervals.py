"""Sentences of a methods section on intervals: their levels, methods and assumptions."""

from __future__ import annotations

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
    """Return a phrase on the failure probability of all intervals of a kind together.

    ``joint_alpha``: that probability.
    """
    reason = "to allow for the earlier answers"
    if not report.n_batches:
        reason = "because a part was reserved for queries before the report"
    alpha = percent(1.0 - report.confidence_level)
    return (
        f"a joint failure probability of {100.0 * joint_alpha:.3g}% instead of {alpha} ({reason})"
    )


def _count_sentences(report, rows, letter_of_model):
    """Yield a sentence on the counts of Clopper-Pearson intervals, if they are few.

    ``rows``: those with a proven interval. ``letter_of_model``: see :func:`short_name`.
    """
    rows = [row for row in rows if row.counts and not row.metric.startswith(AUC)]
    if not 0 < len(rows) <= _MAX_ROWS_WITH_COUNTS:
        return
    defined_rows = [row for row in rows if all(denominator for _, denominator in row.counts)]
    texts = [_proportion_text(report, row, letter_of_model) for row in defined_rows]
    if len(texts) == 1:
        yield f"The proportion is {texts[0]}."
    elif texts:
        yield f"The proportions are {listed(texts)}."
    undefined_rows = [row for row in rows if row not in defined_rows]
    if undefined_rows:
        verb = "has" if len(undefined_rows) == 1 else "have"
        estimates = listed(estimate_phrases(undefined_rows))
        yield (
            f"No record is in the denominator of {estimates}, which therefore {verb} no estimate "
            "and an uninformative interval."
        )


def _proportion_text(report, row, letter_of_model):
    """Return the proportions behind a Clopper-Pearson interval, as text.

    ``letter_of_model``: see :func:`short_name`.
    """
    name = metric_in_prose(row.metric.partition(" (")[0])
    if row.metric.startswith("f1"):
        name = "Jaccard index"
    owner = f" of {short_name(report, row, letter_of_model)}"
    if len(model_names(report)) == 1:
        owner = ""
    fractions = [f"{numerator:,}/{denominator:,}" for numerator, denominator in row.counts]
    if len(fractions) > 1:
        name = "recalls of the classes, in order of their labels,"
    return f"{name}{owner} {listed(fractions)}"


def _proven_level_sentences(report, rows):
    """Yield sentences on the coverage of proven intervals.

    ``rows``: those with a proven interval.
    """
    yield (
        f"Proven coverage holds for every number of {name_of_units(report)}, without a "
        "large-sample approximation, under the conditions stated below."
    )
    level = percent(1.0 - report.alpha_proven)
    probability = f"with probability at least {percent(report.confidence_level)}"
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


def proven_sentences(report, rows, letter_of_model):
    """Yield sentences on the coverage and the methods of proven intervals.

    ``rows``: those with a proven interval. ``letter_of_model``: see :func:`short_name`.
    """
    yield from _proven_level_sentences(report, rows)
    yield from _method_sentences(report, rows)
    yield from _count_sentences(report, rows, letter_of_model)
    if any(row.metric.startswith("f1") and COUNTS in row.method for row in rows):
        yield (
            "Proven intervals of F1 were obtained from those of the Jaccard index J by the "
            "transformation F1 = 2J/(1 + J)."
        )
    if any(row.method.startswith(BETS) for row in rows):
        yield (
            f"Betting intervals depend on the order of the {name_of_units(report)}, which was "
            "drawn at random once: another order would give somewhat different limits."
        )
    yield from _combination_sentences(rows)
    by_class = (CLASSES, CLASS_MEANS)
    if report.units[1] == "groups" and any(row.method.startswith(by_class) for row in rows):
        yield (
            f"The proven intervals for {listed(_metrics_of(rows, by_class))} use one random "
            f"record of each group, drawn once{_drawn_text(rows)}. Point estimates and "
            "approximate intervals use all records, so that the proven intervals need not be "
            "centered at the estimates."
        )
    yield from _truncation_sentences(rows)
    if is_in_time(report):
        yield from _past_sentences(report, rows)


def _combination_sentences(rows):
    """Yield sentences on intervals that combine others; ``rows``: with a proven interval."""
    rows_by_recall = [row for row in rows if "for each class" in row.method]
    if rows_by_recall:
        recalls = "the recall"
        if all(" minus " in row.model for row in rows_by_recall):
            recalls = "the difference in the recall"
        yield (
            f"Proven intervals for {listed(estimate_phrases(rows_by_recall))} combine those of "
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
        if row.metric.startswith(AUC) and row.counts and not row.subgroup:
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
        metrics = listed([*dict.fromkeys(map(with_article, truncated_rows))])
        exceeded = "" if count is None else f" (exceeded by {count} records)"
        limits.append(
            f"{metrics} refer to the mean of differences per record in which those beyond {limit} "
            "count as that"
        )
        limits[-1] += exceeded
    yield (
        f"Proven intervals of differences between models in {listed(limits)}. The limits were "
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


def assumption_sentences(report, proven_rows, approximate_rows):
    """Yield sentences on the assumptions of the intervals.

    ``proven_rows`` and ``approximate_rows``: rows with such an interval; one may be empty.
    """
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
        intervals = "Approximate intervals" if proven_rows else "They"
        yield f"{intervals} also require a large number of {unit_name}."


def _sampling_assumption(report, subject, *, is_order_free):
    """Return the sentences on the sampling of the holdout, as one text.

    ``subject``: subject and verb. ``is_order_free``: whether the distributions of units may differ.
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
    if method == CLASSES and not row.metric.startswith(AUC):
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
        source = source.format(s="" if is_single else "s", units=name_of_units(report))
        if method == COUNTS and report.rows[0].target.startswith(NODES_TARGET):
            source += (
                ", which remain{} valid for independent nodes with unequal probabilities "
                "(Hoeffding 1956),"
            ).format("s" * is_single)
        text = f"A {source}" if is_single else source
        purpose = ""
        if len(rows_of_method) < len(report.rows):
            estimates = estimate_phrases(rows_of_method)
            purpose = f" for {listed(estimates)}"
            is_last = method == list(rows_by_method)[-1] and len(rows_by_method) > 1
            if is_last and len(estimates) > MAX_ESTIMATES:
                purpose = " for all other proven intervals"
        yield f"{text[0].upper()}{text[1:]} {'was' if is_single else 'were'} used{purpose}."


def _metrics_of(rows, methods):
    """Return in prose, without repetition, the metrics of the rows with one of the methods.

    ``methods``: tuple of names.
    """
    return list(dict.fromkeys(with_article(row) for row in rows if row.method.startswith(methods)))


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
        is_only_pair = bool(PAIR.search(row.model)) and not row.subgroup
        is_only_pair &= all(other_row.model == row.model for other_row in other_rows)
        if is_only_pair or not other_rows:
            rows_of_all_models.append(row)
            continue
        pair = row.model.split(" minus ", 1)
        models = [short_model(report, model, letter_of_model) for model in pair]
        name = f"{estimate_phrases([row])[0]} of {' minus '.join(models)}"
        if row.subgroup and " minus " not in row.subgroup:
            name += f" for {row.subgroup}"
        names.append(name)
    return list(dict.fromkeys([*names, *estimate_phrases(rows_of_all_models)]))


def _kind(row):
    """Return the metric of a row, and whether it compares models or subgroups, as one key."""
    is_pair = PAIR.search(row.model) is not None
    return row.metric, is_pair, bool(row.subgroup), " minus " in row.subgroup


def approximate_sentences(report, rows, letter_of_model):
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
        yield f"{intervals[0].upper()}{intervals[1:]} {verb} on few {name_of_units(report)}."
    unproven_rows = [row for row in rows if row.proven is None]
    estimates = _named_estimates(report, unproven_rows, letter_of_model)
    if len(unproven_rows) < len(rows) and 0 < len(estimates) <= MAX_ESTIMATES:
        yield f"Only approximate intervals are available for {listed(estimates)}."


def _tested_level_sentences(report, rows, letter_of_model):
    """Yield a sentence on approximate intervals at levels beyond those that were simulated.

    ``rows``: those with an approximate interval. ``letter_of_model``: see :func:`short_name`.
    """
    rows_beyond_levels = [row for row in rows if any(map(_LEVEL_NOTE.match, row.notes))]
    if not rows_beyond_levels:
        return
    intervals, is_one = _intervals_text(report, rows_beyond_levels, rows, letter_of_model)
    matches = [_LEVEL_NOTE.match(note) for row in rows_beyond_levels for note in row.notes]
    tested_alphas = {float(match[1]) for match in filter(None, matches)}
    tested = "those"
    if len(tested_alphas) == 1:
        tested = f"{percent(1.0 - tested_alphas.pop())},"
    their = "its" if is_one else "their"
    yield (
        f"The level of {intervals} exceeds {tested} up to which the developers of the software "
        f"checked this method by simulation, so that {their} coverage may be below the nominal one."
    )


def _few_outcome_sentences(report, rows, letter_of_model):
    """Yield a sentence on approximate intervals that rest on few records of an outcome.

    ``rows``: those with an approximate interval. ``letter_of_model``: see :func:`short_name`.
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
    if len(estimates) > MAX_ESTIMATES:
        return f"{count} approximate intervals", False
    noun = "interval" if count == 1 else "intervals"
    return f"the approximate {noun} for {listed(estimates)}", count == 1


def _level_sentences(report, rows):
    """Yield sentences on the coverage of approximate intervals.

    ``rows``: those with an approximate interval.
    """
    estimates = estimate_phrases(rows)
    purpose = ""
    if len(rows) < len(report.rows) and len(estimates) <= MAX_ESTIMATES:
        purpose = f" for {listed(estimates)}"
    level = percent(1.0 - report.alpha_approximate)
    confidence = percent(report.confidence_level)
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
    unit_name = name_of_units(report)
    jackknife_rows = [row for row in rows if not row.method.startswith("order statistics")]
    left_out_units = unit_name
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
    if jackknife_rows and is_in_time(report):
        yield from _variance_sentences(report, jackknife_rows)


def _variance_sentences(report, rows):
    """Yield sentences on variances over dates; ``rows``: those with a jackknife interval."""
    unit_name = name_of_units(report)
    horizon = _longest_horizon(report)
    estimand = " for estimand (1)" * (horizon > 1)
    metrics = [row.metric for row in rows if not row.metric.startswith("skill")]
    has_losses = all(metric.startswith(NEGATIVE) for metric in metrics)
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
    if row.metric.startswith(SKILL_PREFIX):
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
        if is_in_time(report):
            scale = statistic.dates.scale or scale
        is_difference = " minus " in row.model + row.subgroup
        if scale in _SCALE_NAMES and not is_difference:
            names = names_by_scale.setdefault(scale, [])
            names.append(with_article(row))
    texts = []
    for scale, names in names_by_scale.items():
        unique_names = list(dict.fromkeys(names))
        subject = listed(unique_names)
        if len(unique_names) > MAX_ESTIMATES:
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
        if len(pair) == 2 and is_rank and sum(n_units) == row.n_units and not is_in_time(report):
            gap_rows.append(row)
    return gap_rows


def _disjoint_gap_sentences(report, rows):
    """Yield a sentence on the rows of :func:`_disjoint_gap_rows`."""
    gap_rows = _disjoint_gap_rows(report, rows)
    if gap_rows:
        yield (
            f"Approximate intervals for {listed(estimate_phrases(gap_rows))} combine the margins "
            "of both subgroups' intervals instead (method of variance estimates recovery, Zou and "
            "Donner 2008)."
        )


def _skewness_sentences(report, rows):
    """Yield a sentence on jackknife intervals that are corrected for skewness.

    ``rows``: those with a jackknife interval.
    """
    corrected_rows = [row for row in rows if _is_corrected_for_skewness(report, row)]
    if corrected_rows:
        estimates = estimate_phrases(corrected_rows)
        purpose = f" for {listed(estimates)}"
        if len(corrected_rows) == len(rows):
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
    """Yield a sentence on the simultaneous coverage of both kinds of intervals.

    No sentence if each interval holds by itself.
    """
    if report.joint:
        confidence_of_both = percent(2.0 * report.confidence_level - 1.0)
        yield (
            "Both kinds of intervals together have nominal simultaneous coverage of at least "
            f"{confidence_of_both}."
        )
