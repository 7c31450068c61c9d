"""Every scorer of scikit-learn in a search: kind and width of its interval, and its cost.

``python -m benchmarks.bench_scorers [widths] [cost]``

*Widths*: the interval of the candidate that the first search of a holdout of 300 records chooses,
over the jackknife interval of one look at the same level. Clustering scores and functions choose
candidates without an interval.

*Cost*: processor time over that of ``GridSearchCV`` on the same training rows, 25 candidates and
five folds; runs alternate, and the median of the ratios is printed. Our search fits each candidate
once more, on all training rows, so that equal work is a ratio of about 1.2.
"""

import argparse
import statistics
import warnings

import numpy as np
from sklearn.datasets import (
    load_digits,
    make_classification,
    make_multilabel_classification,
    make_regression,
)
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import fbeta_score, get_scorer_names, make_scorer, mean_pinball_loss
from sklearn.model_selection import GridSearchCV
from sklearn.multioutput import MultiOutputClassifier
from sklearn.tree import DecisionTreeClassifier

from benchmarks.bench_search import seconds
from sklearn_bdp import ReusableHoldout, ReusableHoldoutSearchCV

N_RECORDS = 1_200
_REGRESSION = ("error", "deviance", "r2", "explained_variance", "d2_absolute", "pinball", "max_")
_MULTICLASS = ("roc_auc_ov", "top_k")


def correct_share(estimator, X, y):
    """Return the share of correct predictions: a function of which nothing is known."""
    return float(np.mean(estimator.predict(X) == y))


SCORERS = {name: name for name in get_scorer_names()} | {
    "make_scorer(fbeta_score)": make_scorer(fbeta_score, beta=2),
    "make_scorer(mean_pinball_loss)": make_scorer(
        mean_pinball_loss, greater_is_better=False, alpha=0.9
    ),
    "a function": correct_share,
    "None": None,
}


def make_problem(name):
    """Return data, an estimator and a grid that fit a scorer."""
    if any(part in name for part in _REGRESSION):
        X, y = make_regression(N_RECORDS, 10, n_informative=5, noise=40.0, random_state=0)
        return X, y - y.min() + 50.0, Ridge(), {"alpha": [0.1, 10.0, 1_000.0]}
    if name.endswith("_samples"):
        X, y = make_multilabel_classification(N_RECORDS, n_classes=3, random_state=0)
        model = MultiOutputClassifier(LogisticRegression(max_iter=1_000))
        return X, y, model, {"estimator__C": [0.001, 0.1, 1.0]}
    n_classes = 3 if any(part in name for part in _MULTICLASS) else 2
    X, y = make_classification(
        N_RECORDS, 10, n_informative=5, n_classes=n_classes, random_state=0, weights=None
    )
    return X, y, LogisticRegression(), {"C": [0.001, 0.1, 1.0]}


def print_widths():
    """Print kind and width of the interval of each scorer, and what rules an interval out."""
    print(f"{'scorer':<34}{'interval':<13}{'score':>9}{'width':>9}{'one look':>10}{'ratio':>7}")
    ratios = []
    for name, scoring in SCORERS.items():
        X, y, model, grid = make_problem(name)
        search = ReusableHoldoutSearchCV(model, grid, scoring=scoring, random_state=0).fit(X, y)
        kind = search.cv_results_["holdout_interval"][search.best_index_]
        line = f"{name:<34}{kind:<13}{search.best_score_:>9.3g}"
        width = float(np.diff(search.best_interval_)[0])
        if kind == "none" or not np.isfinite(width):
            print(line)
            continue
        fresh = ReusableHoldoutSearchCV(model, grid, scoring=scoring, random_state=0).fit(X, y)
        one_look = one_look_width(fresh, scoring)
        ratios.append(width / one_look)
        print(f"{line}{width:>9.3g}{one_look:>10.3g}{width / one_look:>7.2f}")
    print(f"largest ratio {np.nanmax(ratios):.2f}, median {np.nanmedian(ratios):.2f}")


def one_look_width(search, scoring):
    """Return the width of the approximate interval of a holdout without earlier queries."""
    holdout = ReusableHoldout(search.holdout_.X, search.holdout_.y, random_state=0)
    row = holdout.final_report(search.best_estimator_, scoring=scoring).rows[0]
    if row.approximate is None:
        return np.nan
    low, high = row.approximate
    return high - low


def print_cost(n_runs):
    """Print ratios of processor time to GridSearchCV."""
    digits = load_digits(return_X_y=True)
    table = make_classification(2_000, 20, random_state=0)
    grid = {"max_depth": [2, 4, 6, 8, None], "min_samples_leaf": [1, 2, 4, 8, 16]}
    for name, (X, y) in (("digits", digits), ("2,000 rows", table)):
        for scoring in ("accuracy", "f1_macro", "matthews_corrcoef", correct_share):
            ratios = []
            for seed in range(n_runs):
                ours = ReusableHoldoutSearchCV(
                    DecisionTreeClassifier(random_state=0), grid, scoring=scoring, random_state=seed
                )
                time_of_ours = seconds(lambda: ours.fit(X, y))  # noqa: B023 (called at once)
                rows = ours.train_indices_
                theirs = GridSearchCV(DecisionTreeClassifier(random_state=0), grid, scoring=scoring)
                time_of_theirs = seconds(lambda: theirs.fit(X[rows], y[rows]))  # noqa: B023
                ratios.append(time_of_ours / time_of_theirs)
            label = scoring if isinstance(scoring, str) else "a function"
            print(f"{name:<12}{label:<20}{statistics.median(ratios):6.2f} x GridSearchCV")


def main():
    """Run the parts that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("parts", nargs="*", default=["widths", "cost"])
    parser.add_argument("--runs", type=int, default=5, help="runs of the cost")
    options = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if "widths" in options.parts:
            print_widths()
        if "cost" in options.parts:
            print_cost(options.runs)


if __name__ == "__main__":
    main()
