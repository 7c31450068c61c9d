"""Half-widths of final reports after ten searches, beside intervals of one untouched test set.

Patients have 1 to 6 visits, ten features and a random effect; 30% of the visits are positive. Ten
searches of twenty candidates reuse one holdout. The final report compares the selected model with
a random forest: AUC, Brier score, specificity, calibration intercept and accuracy of both models,
and their differences, with ``joint=False``. Every other column uses the same holdout records and
models as if the holdout had not been used before, at 95%: *jackknife* leaves out patients, *normal*
is the mean of records ± 1.96 standard errors, which ignores that visits of a patient are alike,
*DeLong* ignores it, too, and *package* is ``confidenceinterval`` (a dependency of this benchmark
only, ``pip install confidenceinterval``). Ratios are means over replications of half-widths
divided by the jackknife's. Coverage refers to the expected scores of the same fitted models, on
40,000 new patients.

    python -m benchmarks.report_widths                      # 3 replications of patients
    python -m benchmarks.report_widths --replications 40
    python -m benchmarks.report_widths --kind records       # one visit each
"""

import argparse
import collections
import math
import warnings

import numpy as np
from scipy.stats import loguniform, rankdata
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_selection import SelectKBest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from sklearn_bdp import ReusableHoldoutSearchCV
from sklearn_bdp.intervals.jackknife import approximate_row
from sklearn_bdp.metrics.registry import statistic_of

try:
    import confidenceinterval
except ImportError:  # the column stays empty
    confidenceinterval = None

N_PATIENTS, N_FEATURES, RANDOM_EFFECT, PREVALENCE = 2_000, 10, 0.8, 0.3
N_SEARCHES, N_CANDIDATES = 10, 20
METRICS = ("roc_auc", "neg_brier_score", "specificity", "calibration_intercept", "accuracy")
#: Normal quantile of a 95% interval.
Z = 1.96
#: Largest ratio to the jackknife: approximate rows, proven rows of means, accuracy.
GOALS = {"approximate": 1.12, "proven": 1.25, "accuracy": 1.2}


def draw_patients(n_patients, rng, *, max_visits=6):
    """Return features, targets and the patient of each visit.

    Half of a feature's variance is between patients. The intercept gives 30% positives.
    """
    visits = rng.integers(1, max_visits + 1, size=n_patients)
    patient = np.repeat(np.arange(n_patients), visits)
    patient_part, visit_part = rng.normal(size=(2, len(patient), N_FEATURES))
    patient_part = patient_part[np.cumsum(visits) - visits][patient]
    X = math.sqrt(0.5) * (patient_part + visit_part)
    effect = RANDOM_EFFECT * rng.normal(size=n_patients)[patient]
    coefficients = np.linspace(1.0, 0.1, N_FEATURES) * np.resize([1.0, -1.0], N_FEATURES)
    log_odds = 0.6 * X @ coefficients + 0.4 * X[:, 0] * X[:, 1] + effect - 1.2
    y = (rng.random(len(patient)) < 1.0 / (1.0 + np.exp(-log_odds))).astype(int)
    return X, y, patient


def closed_search(X, y, groups, seed):
    """Return the last of ten searches on one holdout, and the rival model."""
    model = make_pipeline(SelectKBest(), LogisticRegression())
    space = {"selectkbest__k": list(range(2, N_FEATURES + 1)),
             "logisticregression__C": loguniform(1e-4, 1e2)}  # fmt: skip
    search = ReusableHoldoutSearchCV(
        model,
        space,
        n_iter=N_CANDIDATES,
        correlation=None if groups is None else "groups",
        random_state=100 * seed,
    ).fit(X, y, groups=groups)
    train_indices = search.train_indices_
    holdout_indices = search.holdout_indices_
    training_groups = None if groups is None else groups[train_indices]
    for number in range(1, N_SEARCHES):
        search = ReusableHoldoutSearchCV(
            model,
            space,
            n_iter=N_CANDIDATES,
            holdout=search.holdout_,
            random_state=100 * seed + number,
        ).fit(X[train_indices], y[train_indices], groups=training_groups)
    rival = RandomForestClassifier(100, min_samples_leaf=10, random_state=seed)
    rival.fit(X[train_indices], y[train_indices])
    return search, rival, holdout_indices


# -- intervals of one look -----------------------------------------------------------------------


def response(name, model, X):
    """Return the predictions of a model that a statistic reads."""
    reads_labels = statistic_of(name).response == "labels"
    return model.predict(X) if reads_labels else model.predict_proba(X)[:, 1]


def jackknife(name, X, y, patients, models):
    """Return the value and the half-width over patients of one model or of a difference."""
    sides = [(response(name, model, X), None) for model in models[::-1]]
    row = approximate_row(statistic_of(name), y, sides, units=patients, level=0.05)
    return row.value, 0.5 * (row.upper - row.lower)


def record_losses(name, y, predictions):
    """Return the values whose mean is the score; None for scores that are not means."""
    if name == "accuracy":
        return (predictions == y).astype(float)
    if name == "specificity":
        return (predictions == y)[y == 0].astype(float)
    if name == "neg_brier_score":
        return -((predictions - y) ** 2)
    return None


def normal(name, X, y, models):
    """Return the half-width of a mean over records; NaN for other scores."""
    values = [record_losses(name, y, response(name, model, X)) for model in models]
    if values[0] is None:
        return math.nan
    differences = values[-1] - (values[0] if len(values) == 2 else 0.0)
    return Z * differences.std(ddof=1) / math.sqrt(len(differences))


def delong(X, y, models):
    """Return DeLong's half-width of an AUC or of a difference of two."""
    placements = []
    for model in models:
        scores = response("roc_auc", model, X)
        ranks = rankdata(scores)
        is_positive = y == 1
        placements.append(
            [
                (ranks[is_positive] - rankdata(scores[is_positive])) / (~is_positive).sum(),
                1.0 - (ranks[~is_positive] - rankdata(scores[~is_positive])) / is_positive.sum(),
            ]
        )
    variance = 0.0
    for by_class in zip(*placements, strict=True):
        values = by_class[-1] - (by_class[0] if len(by_class) == 2 else 0.0)
        variance += values.var(ddof=1) / len(values)
    return Z * math.sqrt(variance)


def package(name, X, y, models):
    """Return the half-width of the package ``confidenceinterval``; NaN where it has none."""
    functions = {
        "roc_auc": "roc_auc_score",
        "specificity": "tnr_score",
        "accuracy": "accuracy_score",
    }
    if confidenceinterval is None or name not in functions or len(models) == 2:
        return math.nan
    function = getattr(confidenceinterval, functions[name])
    _, (lower, upper) = function(y, response(name, models[0], X), confidence_level=0.95)
    return 0.5 * (upper - lower)


# -- replications ----------------------------------------------------------------------------------


def replication(unit_name, seed):
    """Yield the name of each row, and its half-widths and coverage by column."""
    max_visits = 6 if unit_name == "patients" else 1
    rng = np.random.default_rng(seed)
    X, y, patients = draw_patients(N_PATIENTS, rng, max_visits=max_visits)
    groups = patients if unit_name == "patients" else None
    search, rival, holdout_indices = closed_search(X, y, groups, seed)
    X_held = X[holdout_indices]
    y_held = y[holdout_indices]
    units = np.unique(patients[holdout_indices], return_inverse=True)[1]
    report = search.final_report(scoring=list(METRICS), compare=rival, joint=False)
    X_new, y_new, new_patients = draw_patients(
        40_000, np.random.default_rng([seed, 1]), max_visits=max_visits
    )
    for row in report.rows:
        # Differences are those of the selected model minus its baseline, the rival.
        pair = [rival] if row.model == report.baseline else [search.best_estimator_]
        if " minus " in row.model:
            pair = [rival, search.best_estimator_]
        truth, _ = jackknife(row.metric, X_new, y_new, new_patients, pair)
        _, half_width = jackknife(row.metric, X_held, y_held, units, pair)
        columns = {"jackknife": (half_width, math.nan)}
        for family in ("proven", "approximate"):
            ends = getattr(row, family)
            if ends is not None:
                columns[family] = (0.5 * (ends[1] - ends[0]), ends[0] <= truth <= ends[1])
        columns["normal"] = (normal(row.metric, X_held, y_held, pair), math.nan)
        if row.metric == "roc_auc":
            columns["DeLong"] = (delong(X_held, y_held, pair), math.nan)
        columns["package"] = (package(row.metric, X_held, y_held, pair), math.nan)
        subject = (
            "difference" if len(pair) == 2 else "selected" if pair[0] is not rival else "rival"
        )
        yield f"{row.metric}, {subject}", columns
    print(f"# seed {seed}: {report.information_spent:.2f} nats, {report.units}", flush=True)


COLUMNS = ("jackknife", "approximate", "proven", "normal", "DeLong", "package")


def main():
    """Print the table of ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--replications", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--kind", choices=("patients", "records"), default="patients")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = collections.defaultdict(lambda: collections.defaultdict(list))
    for seed in range(options.first_seed, options.first_seed + options.replications):
        for name, columns in replication(options.kind, seed):
            for column, values in columns.items():
                rows[name][column].append((*values, columns["jackknife"][0]))
    print_table(rows)


def print_table(rows):
    """Print for every row the jackknife's half-width, ratios to it, and coverage."""
    print(f"{'':36}" + "".join(f"{column:>18}" for column in COLUMNS))
    for name, columns in rows.items():
        line = f"{name:<36}"
        for column in COLUMNS:
            values = np.array(columns.get(column, [(math.nan,) * 3]), float)
            half_widths, covered, reference = values.T
            if not np.isfinite(half_widths).any():
                line += f"{'':>18}"
            elif column == "jackknife":
                line += f"{np.nanmean(half_widths):>17.4f} "
            else:
                ratio = np.nanmean(half_widths / reference)
                share = "" if np.isnan(covered).all() else f"{np.nanmean(covered):.0%}"
                line += f"{ratio:>12.2f} {share:>5}"
        print(line)


if __name__ == "__main__":
    main()
