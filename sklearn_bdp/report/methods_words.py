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
#: Method of rows under a level of privacy.
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
    """Return the name of the sampling units, such as nodes of a network or time steps of dates."""
    if report.rows[0].target.startswith(NODES_TARGET) and report.units[1] == "records":
        return "nodes"
    in_target = _TIME_STEPS.match(report.rows[0].target)
    return in_target[1] if in_target else report.units[1]


def model_names(report):
    """Return the names of the models that have a row of their own, without repetition."""
    names = [row.model for row in report.rows if not PAIR.search(row.model)]
    return list(dict.fromkeys(names))


def described_model(report, model):
    """Return the name of a model without refits and without parameters that do not describe it."""
    return _UNNAMED_PARAMETERS.sub("", model.removesuffix(f", refitted {report.refit}"))


def is_in_time(report):
    """Return whether the units are dates, each judged given its past."""
    return GIVEN_PAST in report.rows[0].target


def listed(texts):
    """Return texts as one list in prose, such as "a, b, and c"."""
    if len(texts) < 3:
        return " and ".join(texts)
    return f"{', '.join(texts[:-1])}, and {texts[-1]}"


def metric_in_prose(metric_name):
    """Return the name of a metric in prose, from its name in a row without the parentheses."""
    base, _, average = metric_name.rpartition("_")
    if average in _AVERAGES:
        return f"{average}-averaged {metric_in_prose(base)}"
    return _PROSE_NAMES.get(metric_name, metric_name.removeprefix(NEGATIVE).replace("_", " "))


def estimate_phrases(rows):
    """Return the metrics of rows in prose, followed by phrases on the metrics of differences."""
    names_by_difference = {"": [], "between models": [], "between subgroups": []}
    for row in rows:
        difference = "between models" if " minus " in row.model else ""
        difference = "between subgroups" if " minus " in row.subgroup else difference
        names_by_difference[difference].append(with_article(row))
    phrases = list(dict.fromkeys(names_by_difference.pop("")))
    for difference, names in names_by_difference.items():
        noun = "the difference" if len(names) == 1 else "differences"
        if names:
            phrases.append(f"{noun} {difference} in {listed([*dict.fromkeys(names)])}")
    return phrases


def with_article(row):
    """Return the metric of a row in prose, with the article that it needs."""
    if row.metric.startswith("skill score"):
        return "the skill score"
    return noun_phrase(metric_in_prose(row.metric.partition(" (")[0]))


def noun_phrase(prose_name):
    """Return the name of a metric in prose, with the article that it needs."""
    return f"the {prose_name}" if prose_name.endswith(_NOUNS) else prose_name


def short_name(report, row, letter_of_model):
    """Return the letter or the name of a row's model, with the subgroup of the row.

    ``letter_of_model``: letters that replace names of models in the table.
    """
    name = short_model(report, row.model, letter_of_model)
    return f"{name} for {row.subgroup}" if row.subgroup else name


def short_model(report, model, letter_of_model):
    """Return the letter of a model in the table, or its name if it has none."""
    letter = letter_of_model.get(model)
    return described_model(report, model) if letter is None else f"model {letter}"


def percent(fraction):
    """Return a fraction as the text of a percentage of at most four significant digits."""
    return f"{100.0 * fraction:.4g}%"
