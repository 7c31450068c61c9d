"""Records that ``plan_search`` asks for, beside those that a final report needs.

For a metric, a score and a proportion of positive records: the planned number for a half-width, the
share of simulated holdouts of that size whose report has it, the number at which half of them have
it (half-widths shrink like the root of the number), and the planned number over that one. Records
are independent. Scores are normal with equal variances in both classes, probabilities are
calibrated, and errors are normal, as plans assume. Moments come from training sets of three times
as many records. Rows have the failure probability that a plan expects after ten searches without a
correction.

    python -m benchmarks.planned_sizes                 # 300 holdouts of each row, 60 of ROC AUC
"""

import argparse
import math
from types import SimpleNamespace

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, logit
from scipy.stats import norm

from sklearn_bdp.accounting.noise_calibration import NOISE_FAILURE_FRACTION
from sklearn_bdp.accounting.spending import final_code_length
from sklearn_bdp.intervals.bounds import betting_interval, clopper_pearson_interval, unit_moments
from sklearn_bdp.metrics import get_metric
from sklearn_bdp.planning import plan_search
from sklearn_bdp.planning._plan_search import expected_nats
from sklearn_bdp.report.by_class import AucMoments, auc_limits

N_SEARCHES = 10
#: Metric, score in [0, 1], proportion of positive records, half-width in units of [0, 1].
SETTINGS = (
    ("accuracy", 0.9, 0.5, 0.04),
    ("roc_auc", 0.8, 0.5, 0.05),
    ("roc_auc", 0.8, 0.1, 0.05),
    ("roc_auc", 0.8, 0.02, 0.05),
    ("roc_auc", 0.9, 0.5, 0.04),
    ("roc_auc", 0.9, 0.1, 0.04),
    ("roc_auc", 0.9, 0.02, 0.04),
    ("neg_brier_score", 0.85, 0.5, 0.03),
    ("neg_brier_score", 0.93, 0.1, 0.03),
    ("neg_brier_score", 0.985, 0.02, 0.01),
    ("neg_log_loss", 0.9, 0.5, 0.02),
    ("neg_log_loss", 0.95, 0.1, 0.02),
    ("neg_log_loss", 0.985, 0.02, 0.01),
    ("neg_mean_absolute_error", 0.9, 0.5, 0.02),
    ("neg_mean_squared_error", 0.98, 0.5, 0.01),
    ("recall", 0.8, 0.5, 0.05),
    ("recall", 0.8, 0.1, 0.05),
    ("balanced_accuracy", 0.85, 0.1, 0.05),
)


def log_alpha_of_plan():
    """Return the log of the failure probability of a report that plans expect."""
    length = final_code_length(released=expected_nats(N_SEARCHES, 0), n_batches=N_SEARCHES)
    return math.log((1.0 - NOISE_FAILURE_FRACTION) * 0.05) - length


def draw_classes(n, prevalence, distance, rng):
    """Return labels, and normal scores whose class means have a distance."""
    y = (rng.random(n) < prevalence).astype(int)
    return y, rng.normal(size=n) + distance * (y - 0.5)


def unit_losses(name, y, scores, prevalence, distance):
    """Return losses in [0, 1] of calibrated probabilities."""
    probabilities = expit(
        (2 * y - 1) * (logit(prevalence) + distance * scores)
    )  # of the true class
    if name == "neg_brier_score":
        return (1.0 - probabilities) ** 2
    return np.log(np.maximum(probabilities, 0.01)) / math.log(0.01)


def distance_of(name, score, prevalence):
    """Return the distance of class means at which a metric has a score."""
    if name == "roc_auc":
        return math.sqrt(2.0) * norm.ppf(score)
    if not name.startswith(("neg_brier", "neg_log")):
        return 0.0

    def excess(distance):
        y, scores = draw_classes(100_000, prevalence, distance, np.random.default_rng(0))
        return 1.0 - unit_losses(name, y, scores, prevalence, distance).mean() - score

    return brentq(excess, 0.0, 10.0, xtol=1e-3)


def error_losses(name, score, n, rng):
    """Return losses in [0, 1] of normal errors with an expected score."""
    if name == "neg_mean_squared_error":
        return np.minimum((1.0 - score) * rng.normal(size=n) ** 2, 1.0)
    return np.minimum((1.0 - score) * math.sqrt(0.5 * math.pi) * np.abs(rng.normal(size=n)), 1.0)


def report_half_width(name, score, prevalence, distance, n, log_alpha, rng):
    """Return the half-width of the proven row of one simulated holdout, in units of [0, 1]."""
    alpha = math.exp(log_alpha)

    def proportion_half_width(count, level):
        lower, upper = clopper_pearson_interval(rng.binomial(count, score), count, level)
        return 0.5 * (upper - lower)

    if name == "accuracy":
        return proportion_half_width(n, alpha)
    if name in ("recall", "balanced_accuracy"):
        n_positive = rng.binomial(n, prevalence)
        if name == "recall":
            return proportion_half_width(n_positive, alpha)
        return 0.5 * sum(
            proportion_half_width(k, 0.5 * alpha) for k in (n_positive, n - n_positive)
        )
    if name == "roc_auc":
        y_train, scores_train = draw_classes(3 * n, prevalence, distance, rng)
        moments = AucMoments.from_folds([(scores_train[y_train == 1], scores_train[y_train == 0])])
        y, scores = draw_classes(n, prevalence, distance, rng)
        by_class = SimpleNamespace(record_values=scores, class_index=y)
        lower, upper = auc_limits(by_class, np.arange(n), log_alpha, moments, bets=True)
        return 0.5 * (upper - lower)
    if name in ("neg_brier_score", "neg_log_loss"):
        losses_train, losses = (
            unit_losses(name, *draw_classes(k, prevalence, distance, rng), prevalence, distance)
            for k in (3 * n, n)
        )
    else:
        losses_train, losses = (error_losses(name, score, k, rng) for k in (3 * n, n))
    lower, upper = betting_interval(
        1.0 - losses,
        np.ones(n),
        bound=1.0,
        moments=unit_moments(1.0 - losses_train, np.ones(3 * n)),
        log_inverse_alpha=math.log(2.0) - log_alpha,
    )
    return 0.5 * (upper - lower)


def compare(name, score, prevalence, half_width, *, holdouts):
    """Return the planned number, the share of holdouts that reach the half-width, and the need."""
    options = {"n_classes": 2} if name == "neg_brier_score" else {}
    if name in ("neg_mean_absolute_error", "neg_mean_squared_error"):
        options = {"bounds": (0.0, 1.0)}
    y = np.arange(20) % 2 if not options else None
    planned = plan_search(
        half_width,
        scoring=get_metric(name, y=y, **options),
        prevalence=prevalence,
        score=score,
        n_searches=N_SEARCHES,
        n_corrections=0,
    )
    rng = np.random.default_rng(0)
    distance = distance_of(name, score, prevalence)
    log_alpha = log_alpha_of_plan()
    half_widths = [
        report_half_width(name, score, prevalence, distance, int(planned), log_alpha, rng)
        for _ in range(holdouts)
    ]
    needed = int(planned) * (np.median(half_widths) / half_width) ** 2
    return int(planned), float(np.mean(np.array(half_widths) <= half_width)), needed


def main():
    """Print a row for each setting."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--holdouts", type=int, default=300, help="simulated holdouts of each row")
    holdouts = parser.parse_args().holdouts
    print(f"{'metric':<25}score  positive  half-width  planned  reached  needed  planned / needed")
    for name, score, prevalence, half_width in SETTINGS:
        row_holdouts = max(1, holdouts // 5) if name == "roc_auc" else holdouts  # AUC takes long
        planned, reached, needed = compare(
            name, score, prevalence, half_width, holdouts=row_holdouts
        )
        print(
            f"{name:<25}{score:>5.3g}{prevalence:>10.0%}{half_width:>12.3g}{planned:>9,}"
            f"{reached:>9.0%}{needed:>8,.0f}{planned / needed:>18.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
