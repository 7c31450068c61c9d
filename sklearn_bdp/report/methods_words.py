"""Words that sentences on final reports share: names of metrics, models and units, and lists."""

from __future__ import annotations

import re

from sklearn_bdp.utils.html import GIVEN_PAST

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
#: Start of the names of areas under the ROC curve.
AUC = "roc_auc"
#: Method of rows that pass through noise.
NOISE = "through noise"
#: Last words of names of metrics that have an article in prose.
_NOUNS = (
    *("score", "curve", "index", "coefficient", "error", "slope", "intercept", "deviance"),
    *("benefit", "value"),
)
#: Start of the names of losses, whose scores are negative.
NEGATIVE = "neg_"
#: Number and name of the time steps of dates, such as days, in the text of a target.
_TIME_STEPS = re.compile(rf"these [\d,]+ (.+){GIVEN_PAST}")
#: Start of the target of nodes of a network.
NODES_TARGET = "these nodes"
PAIR = re.compile(" minus | against ")  # between the models of a difference or a skill score
MAX_ESTIMATES = 3  # estimates that are named in one sentence
#: Start of the names of skill scores, before that of the metric.
SKILL_PREFIX = "skill score ("
#: Parameters of a model that do not describe it, in the code of the model.
_UNNAMED_PARAMETERS = re.compile(
    r"(?<=\()((random_state|n_jobs|verbose)=\w+(, )?)+|, (random_state|n_jobs|verbose)=\w+"
)
_AVERAGES = ("macro", "micro", "weighted", "samples")


def name_of_units(report):
    """Return the plural name of the sampling units, such as "records", "nodes" or "days"."""
    if report.rows[0].target.startswith(NODES_TARGET) and report.units[1] == "records":
        return "nodes"
    time_step_match = _TIME_STEPS.match(report.rows[0].target)
    return time_step_match[1] if time_step_match else report.units[1]


def model_names(report):
    """Return the names of the models that have a row of their own, without repetition."""
    names = [row.model for row in report.rows if not PAIR.search(row.model)]
    return list(dict.fromkeys(names))


def described_model(report, model):
    """Return a model's name without its refit frequency, random_state, n_jobs and verbose."""
    return _UNNAMED_PARAMETERS.sub("", model.removesuffix(f", refitted {report.refit}"))


def is_in_time(report):
    """Return whether the units are dates, with scores conditional on the past."""
    return GIVEN_PAST in report.rows[0].target


def listed(texts):
    """Return texts as one list in prose, such as "a, b, and c"."""
    if len(texts) < 3:
        return " and ".join(texts)
    return f"{', '.join(texts[:-1])}, and {texts[-1]}"


def metric_in_prose(metric_name):
    """Return the name of a metric in prose, from its name without a detail in parentheses."""
    unaveraged_name, _, average = metric_name.rpartition("_")
    if average in _AVERAGES:
        return f"{average}-averaged {metric_in_prose(unaveraged_name)}"
    return _PROSE_NAMES.get(metric_name, metric_name.removeprefix(NEGATIVE).replace("_", " "))


def estimate_phrases(rows):
    """Return a list of phrases: the metrics of rows, then "differences between models in <...>".

    Rows of differences share one phrase, those between subgroups another one.
    """
    metrics_by_comparison = {"": [], "between models": [], "between subgroups": []}
    for row in rows:
        comparison = "between models" if " minus " in row.model else ""
        comparison = "between subgroups" if " minus " in row.subgroup else comparison
        metrics_by_comparison[comparison].append(with_article(row))
    phrases = list(dict.fromkeys(metrics_by_comparison.pop("")))
    for comparison, metrics in metrics_by_comparison.items():
        noun = "the difference" if len(metrics) == 1 else "differences"
        if metrics:
            phrases.append(f"{noun} {comparison} in {listed([*dict.fromkeys(metrics)])}")
    return phrases


def with_article(row):
    """Return the metric of a row in prose, with the article "the" if it needs one."""
    if row.metric.startswith("skill score"):
        return "the skill score"
    return noun_phrase(metric_in_prose(row.metric.partition(" (")[0]))


def noun_phrase(prose_name):
    """Return the prose name of a metric, with the article "the" if it needs one."""
    return f"the {prose_name}" if prose_name.endswith(_NOUNS) else prose_name


def short_name(report, row, letter_by_model_name):
    """Return "model <letter>" or the name of a row's model, with "for <subgroup>" if it has one.

    ``letter_by_model_name``: letters of models in the table of the report; may be empty.
    """
    name = short_model(report, row.model, letter_by_model_name)
    return f"{name} for {row.subgroup}" if row.subgroup else name


def short_model(report, model, letter_by_model_name):
    """Return "model <letter>" for a model with a letter, else the name of the model."""
    letter = letter_by_model_name.get(model)
    return described_model(report, model) if letter is None else f"model {letter}"


def percent(fraction):
    """Return a fraction as the text of a percentage of at most four significant digits."""
    return f"{100.0 * fraction:.4g}%"
