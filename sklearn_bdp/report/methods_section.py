"""Sentences for the methods section of a paper, from the rows of a final report."""

from __future__ import annotations

import math
from typing import Any

from sklearn_bdp.metrics.proofs import BETS, CLASSES, COUNTS, FREE, PAST, TAIL
from sklearn_bdp.utils.html import format_score

#: Names of metrics in prose. Others are their scikit-learn names without underscores.
_PROSE_NAMES = {
    "roc_auc": "area under the ROC curve",
    "f1": "F1 score",
    "jaccard": "Jaccard index",
    "matthews_corrcoef": "Matthews correlation coefficient",
    "r2": "R²",
    "neg_brier_score": "Brier score",
    "neg_log_loss": "log loss",
}
#: Methods of intervals with their sources.
_SOURCES = {
    COUNTS: "Clopper and Pearson 1934",
    BETS: "Voráček and Orabona 2025",
    FREE: "supermartingale of fixed bets, Waudby-Smith and Ramdas 2024",
    CLASSES: "Hoeffding 1963, with bets as in Waudby-Smith and Ramdas 2024, given the class counts",
    PAST: "betting martingale over dates, valid for any dependence between them",
    TAIL: "concentration of the declared dependence model",
}
#: Metrics of predicted classes, by the start of their names.
_THRESHOLD_METRICS = (
    *("accuracy", "balanced_accuracy", "f1", "jaccard", "matthews_corrcoef", "precision"),
    *("negative_predictive_value", "recall", "specificity", "cohen_kappa"),
)
_NEGATIVE = "neg_"
_AVERAGES = ("macro", "micro", "weighted", "samples")


def methods_section(report: Any) -> str:
    """Return sentences on the sample, the first estimate, its target, and the coverage of all.

    Parameters
    ----------
    report : FinalReport
        The report that a paper is about.
    """
    sentences = [*_sample_sentences(report), *_estimate_sentences(report)]
    proven = [row for row in report.rows if row.proven is not None]
    n_approximate = sum(row.approximate is not None for row in report.rows)
    if report.alpha_approximate is None:
        n_approximate = 0
    if proven:
        sentences += _proven_sentences(report, [row.method for row in proven])
    if n_approximate:
        sentences.append(_approximate_sentence(report, n_approximate))
    if proven and n_approximate and report.joint:
        both = _percent(2.0 * report.confidence_level - 1.0)
        sentences.append(
            f"The {_percent(report.confidence_level)} holds for each kind of interval separately. "
            f"Both kinds read together have nominal simultaneous coverage of {both}."
        )
    if any(row.metric.startswith(_THRESHOLD_METRICS) for row in report.rows):
        sentences.append("Classes were predicted at the default threshold of each model.")
    sentences.append("Intervals were computed with the Python package sklearn_bdp.")
    return " ".join(sentences)


def _sample_sentences(report):
    """Return sentences on the units of the holdout and on its use before this report."""
    count, words = report.units
    first = report.rows[0]
    details = [] if words == "records" or count == report.n else [f"{report.n:,} records"]
    if first.n_events is not None and not first.subgroup:
        positives = f"{first.n_events:,} positive"
        if details:
            positives = f"{first.n_events:,} {words} with a positive record"
        details.append(positives)
    samples = f"{count:,} {words}" + f" ({', '.join(details)})" * bool(details)
    weighting = {
        "unit": " per group (all groups weigh the same)",
        "record": " per record (all records weigh the same)",
    }
    per = weighting[report.per] * (words == "groups")
    n_rows = len(report.rows)
    estimates = "one estimate, which was" if n_rows == 1 else f"{n_rows} estimates, which were"
    if report.n_batches:
        batches = "1 batch" if report.n_batches == 1 else f"{report.n_batches:,} batches"
        scores = "1 score was" if report.n_answered == 1 else f"{report.n_answered:,} scores were"
        use = (
            f"The same holdout had been used before: {scores} released in {batches}, and later "
            "choices, including the final models, may depend on them. The final evaluation has "
            f"{estimates} chosen after these scores and before the evaluation."
        )
    else:
        use = (
            "The holdout had not been evaluated before. The evaluation has "
            f"{estimates} specified in advance."
        )
    sentences = [f"Performance{per} was estimated on a holdout of {samples}.", use]
    if report.refit:
        sentences.append(f"Models were refitted {report.refit} on all records known by then.")
    return sentences


def _estimate_sentences(report):
    """Return sentences on the first estimate and on the target of the intervals."""
    first = report.rows[0]
    if not math.isfinite(first.lower):
        return []
    name, separator, condition = first.metric.partition(" (")
    details = [condition.removesuffix(")")] if separator else []
    if first.positive:
        details.append(f"positive class {first.positive}")
    subject = _prose_name(name) + f" ({', '.join(details)})" * bool(details) + f" of {first.model}"
    subject += f" for {first.subgroup}" * bool(first.subgroup)
    value, lower, upper = first.value, first.lower, first.upper
    if name.startswith(_NEGATIVE):  # papers state losses
        value, lower, upper = -value, -upper, -lower
    kind = "approximate " * (first.proven is None)
    if report.joint and len(report.rows) > 1:
        kind = "simultaneous " + kind
    interval = f"{kind}{_percent(report.confidence_level)} confidence interval "
    interval += _limits_text(lower, upper)
    if first.proven is not None and first.approximate is not None:
        lower, upper = first.approximate
        if name.startswith(_NEGATIVE):
            lower, upper = -upper, -lower
        interval += f", approximate interval {_limits_text(lower, upper)}"
    targets = " or on ".join(dict.fromkeys(row.target for row in report.rows))
    if report.per == "unit" and report.units[1] == "groups":
        targets = f"{targets}, where all groups weigh the same"
    return [
        f"The {subject} was {format_score(value)} ({interval}).",
        f"The estimand is the value of the metric that is expected for the fitted model on "
        f"{targets}.",
    ]


def _limits_text(lower, upper):
    """Return the limits of an interval, rounded outward."""
    return f"{format_score(lower, math.floor)} to {format_score(upper, math.ceil)}"


def _prose_name(metric):
    """Return the name of a metric as papers have it."""
    base, _, average = metric.rpartition("_")
    if average in _AVERAGES:
        return f"{average}-averaged {_prose_name(base)}"
    return _PROSE_NAMES.get(metric, metric.removeprefix(_NEGATIVE).replace("_", " "))


def _proven_sentences(report, methods):
    """Yield sentences on the coverage and the methods of proven intervals."""
    level = _percent(1.0 - report.alpha_proven)
    probability = f"with probability at least {_percent(report.confidence_level)}"
    if not report.joint:
        yield (
            f"Each confidence interval was computed at level {level}, so that by itself it covers "
            f"its target {probability}, after any earlier evaluations."
        )
    elif len(methods) == 1:
        yield (
            f"The confidence interval was computed at level {level}, so that it and all intervals "
            f"released earlier cover their targets simultaneously {probability}."
        )
    else:
        yield (
            f"The {len(methods)} confidence intervals were computed at level {level} each, so that "
            "they and all intervals released earlier cover their targets simultaneously "
            f"{probability}."
        )
    names = [next((name for name in _SOURCES if text.startswith(name)), text) for text in methods]
    sources = [
        f"{name} ({_SOURCES[name]})" if name in _SOURCES else name for name in dict.fromkeys(names)
    ]
    yield f"Method{'s' * (len(sources) > 1)}: {', '.join(sources)}."
    transformed = ("f1", "jaccard")
    if any(
        row.metric.startswith(transformed) and row.proven is not None and COUNTS in row.method
        for row in report.rows
    ):
        yield "Intervals of F1 are those of the Jaccard index J, a proportion, as 2J/(1 + J)."
    if any("for each class" in method for method in methods):
        yield (
            "Intervals of means over classes combine intervals of all classes, whose error "
            "probabilities add up (Bonferroni)."
        )
    if any("for each subgroup" in method for method in methods):
        yield (
            "Intervals of differences between subgroups combine intervals of both, each at half "
            "the error probability."
        )


def _approximate_sentence(report, n_intervals):
    """Return a sentence on the coverage and the method of approximate intervals."""
    method = f"jackknife over {report.units[1]}"
    level = _percent(1.0 - report.alpha_approximate)
    coverage = f"coverage of {_percent(report.confidence_level)}"
    basis = ", which relies on a large-sample approximation"
    if not report.joint:
        return (
            f"Each approximate confidence interval by itself ({method}, computed at level {level}) "
            f"has nominal {coverage}{basis}."
        )
    if n_intervals == 1:
        return (
            f"The approximate confidence interval ({method}) was computed at level {level} because "
            f"of the earlier evaluations. It has nominal {coverage}{basis}."
        )
    return (
        f"The {n_intervals} approximate confidence intervals ({method}, computed at level {level} "
        f"each) have nominal simultaneous {coverage}{basis}."
    )


def _percent(share):
    """Return a share as a percentage of at most four digits."""
    return f"{100.0 * share:.4g}%"
