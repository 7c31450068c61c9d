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
40,000 new patients. Goals of ratios: 1.12 for approximate rows, 1.25 for proven means, 1.2 for
accuracy.

Two factors make proven intervals wider than one look. *Level*: the report's failure probability is
smaller, because earlier answers are paid for. *Bets*: limits hold for all laws of scores in [0, 1].
The column *best bets* shows how much of it is inevitable: the ratio of the narrowest limits that
bets on one unit after the other can give at the median level, even if they know the law of the
scores (dynamic programming over stakes, for the models of the first replication). The bets of that
column reject one mean with probability 1/2. An interval needs bets that reject all means beyond
its ends, so that it is wider. Differences of two models have rare large values: no bets reach the
goal for those of Brier score and of specificity. The last column says so.

Of records, one report in six pays 1.6 nats for a corrected answer: the first cell of a holdout is
narrow, 1.5 deviations of the difference to the cross-validated score. Of patients none does.

    python -m benchmarks.report_widths                      # 3 replications of patients
    python -m benchmarks.report_widths --replications 40
    python -m benchmarks.report_widths --kind records       # one visit each
"""

import argparse
import collections
import math
import warnings

import numpy as np
from scipy.stats import loguniform, norm, rankdata
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

N_PATIENTS = 2_000
N_FEATURES = 10
RANDOM_EFFECT = 0.8
PREVALENCE = 0.3
N_SEARCHES = 10
N_CANDIDATES = 20
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
    row = approximate_row(statistic_of(name), y, sides, unit_codes=patients, alpha=0.05)
    return row.value, 0.5 * (row.upper - row.lower)


def record_scores(name, y, predictions):
    """Return the scores in [0, 1] whose mean is the score, and a mask of the records that count.

    None for scores that are not means.
    """
    if name == "neg_brier_score":
        return 1.0 - (predictions - y) ** 2, np.ones(len(y), bool)
    if name in ("accuracy", "specificity"):
        return (predictions == y).astype(float), (y == 0) | (name == "accuracy")
    return None


def normal(name, X, y, models):
    """Return the half-width of a mean over records; NaN for other scores."""
    sides = [record_scores(name, y, response(name, model, X)) for model in models]
    if sides[0] is None:
        return math.nan
    counted = sides[0][1]
    differences = sides[-1][0] - (sides[0][0] if len(sides) == 2 else 0.0)
    return Z * differences[counted].std(ddof=1) / math.sqrt(counted.sum())


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


# -- the narrowest bets ----------------------------------------------------------------------------

#: Logs of wealth over the wealth that rejects, in dynamic programming; the last one rejects.
LOG_WEALTH = np.concatenate([np.linspace(-14.0, -8.3, 12), np.linspace(-8.0, -0.1, 52), [0.0]])
#: Stakes that are tried, in parts of the largest one.
STAKES = np.linspace(0.0, 0.99, 20)
#: Distances of a mean from the expected score, in half-widths of a normal approximation.
DISTANCES = np.array([0.85, 1.05, 1.25, 1.5])
#: Difference of Brier scores that counts in full: the same rule as that of a report.
MAX_QUANTILE = 0.999
MAX_FACTOR = 1.1


def unit_scores(name, X, y, units, models):
    """Return the sum of scores in [0, 1] and the count of each unit, by record weights; or None."""
    sides = [record_scores(name, y, response(name, model, X)) for model in models]
    if sides[0] is None:
        return None
    counted = sides[0][1].astype(float)
    scores = sides[-1][0]
    if len(sides) == 2:
        differences = scores - sides[0][0]
        largest = 1.0
        if name == "neg_brier_score":
            largest = MAX_FACTOR * np.quantile(np.abs(differences), MAX_QUANTILE)
        scores = 0.5 * (1.0 + np.clip(differences / largest, -1.0, 1.0))
    sizes = np.bincount(units)
    return np.bincount(units, counted * scores) / sizes, np.bincount(units, counted) / sizes


def best_bets(sums, counts, n_units, level):
    """Return the half-width of the best bets over that of one look with a normal approximation.

    ``sums`` and ``counts`` are the distribution of a unit, for which the bets are the best ones.
    Limits are the means that these bets reject with probability 1/2; the two sides are averaged.
    """
    mean = sums.sum() / counts.sum()
    error = np.std(sums - mean * counts) / counts.mean() / math.sqrt(n_units)
    at_level = norm.isf(0.5 * level) * error
    distances = []
    for scores, center in ((sums, mean), (counts - sums, 1.0 - mean)):
        powers = [
            best_power(scores, counts, center - distance * at_level, n_units, 0.5 * level)
            for distance in DISTANCES
        ]
        distances.append(np.interp(0.5, powers, DISTANCES))
    return float(np.mean(distances)) * at_level / (Z * error)


def best_power(scores, counts, mean, n_units, level):
    """Return the probability that the best bets against a mean multiply their wealth by 1/level."""
    deviations = np.sort(scores - mean * counts)
    # The distribution in 40 parts, which are smaller near both ends.
    quantiles = np.sin(0.5 * math.pi * np.linspace(0.0, 1.0, 41)) ** 2
    edges = np.unique((quantiles * len(deviations)).astype(int))
    weights = np.diff(edges) / len(deviations)
    part_means = np.add.reduceat(deviations, edges[:-1]) / np.diff(edges)
    log_growth = np.log1p(STAKES[:, np.newaxis] / mean * part_means)
    power = (LOG_WEALTH >= 0.0).astype(float)  # by log wealth, relative to the goal
    next_log_wealth = LOG_WEALTH[:, np.newaxis, np.newaxis] + log_growth
    for _ in range(n_units):
        power = (np.interp(next_log_wealth, LOG_WEALTH, power, left=0.0) @ weights).max(axis=1)
        power[-1] = 1.0
    return float(np.interp(math.log(level), LOG_WEALTH, power))


# -- replications ----------------------------------------------------------------------------------


def replication(unit_name, seed, *, with_law):
    """Yield the name of each row, its half-widths and coverage by column, its law and the report.

    The law of the units' scores is None for rows without one, and if ``with_law`` is False.
    """
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
        law = None
        if with_law and row.proven is not None:
            law = unit_scores(row.metric, X_new, y_new, new_patients, pair)
        subject = (
            "difference" if len(pair) == 2 else "selected" if pair[0] is not rival else "rival"
        )
        yield f"{row.metric}, {subject}", columns, law, report
    factor = norm.isf(0.5 * report.alpha_proven) / Z
    print(
        f"# seed {seed}: {report.units[0]} {report.units[1]} held out, "
        f"{report.code_length:.2f} nats spent, which make proven intervals {factor:.2f} "
        "times as wide",
        flush=True,
    )


COLUMNS = ("jackknife", "approximate", "proven", "best bets", "normal", "DeLong", "package")


def main():
    """Print the table of ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--replications", type=int, default=3, help="simulated data sets")
    parser.add_argument("--first-seed", type=int, default=0, help="seed of the first data set")
    parser.add_argument(
        "--kind",
        choices=("patients", "records"),
        nargs="+",
        default=["patients"],
        help="sampling units of the data",
    )
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    for unit_name in options.kind:
        rows = collections.defaultdict(lambda: collections.defaultdict(list))
        seeds = range(options.first_seed, options.first_seed + options.replications)
        laws = {}
        alphas = []
        for seed in seeds:
            is_first = seed == options.first_seed
            for name, columns, law, report in replication(unit_name, seed, with_law=is_first):
                alphas.append(report.alpha_proven)
                if law is not None:
                    laws[name] = law, report.units[0]
                for column, values in columns.items():
                    rows[name][column].append((*values, columns["jackknife"][0]))
        for name, (law, n_units) in laws.items():
            ratio = best_bets(*law, n_units, float(np.median(alphas)))
            rows[name]["best bets"].append((ratio, math.nan, 1.0))
        print(f"{N_PATIENTS:,} {unit_name}, {len(seeds)} replications")
        print_table(rows)
        print(
            "best bets: narrowest limits that bets on one unit after the other can give, even if "
            "they know the law of the scores; models of the first replication at the median level"
        )


def print_table(rows):
    """Print for every row the jackknife's half-width, ratios to it, and coverage."""
    print(f"{'':34}" + "".join(f"{column:>13}" for column in COLUMNS) + "   goals")
    for name, columns in rows.items():
        line = f"{name:<34}"
        ratios = {}
        for column in COLUMNS:
            values = np.array(columns.get(column, [(math.nan,) * 3]), float)
            half_widths, covered, reference = values.T
            if not np.isfinite(half_widths).any():
                line += f"{'':>13}"
            elif column == "jackknife":
                line += f"{np.nanmean(half_widths):>13.4f}"
            else:
                ratio = np.nanmean(half_widths / reference)
                ratios[column] = ratio
                share = "" if np.isnan(covered).all() else f"{np.nanmean(covered):.0%}"
                line += f"{ratio:>8.2f}{share:>5}"
        print(f"{line}   {verdict(name, ratios)}")


def verdict(name, ratios):
    """Return "reached", or "missed" and the families of intervals that are too wide.

    It says so where the narrowest bets are too wide, too.
    """
    goals = {"approximate": GOALS["approximate"]}
    if not name.startswith("roc_auc"):
        goals["proven"] = GOALS["accuracy" if name.startswith("accuracy, ") else "proven"]
    if name == "accuracy, difference":
        goals["proven"] = GOALS["proven"]
    missed = [family for family, goal in goals.items() if ratios.get(family, 0.0) > goal + 0.005]
    if not missed:
        return "reached"
    text = f"missed: {', '.join(missed)}"
    if "proven" in missed and ratios.get("best bets", 0.0) > goals["proven"] + 0.005:
        text += f" (no bets reach {goals['proven']:g})"
    return text


if __name__ == "__main__":
    main()
