"""The main job in one command: two examples, printed as tables and drawn as one picture.

(a) Eight pixels. Which eight of the 64 pixels of a handwritten digit suffice to read it? Three
analysts try subsets, then change the best subset so far, again and again. The first selects by the
raw score on one holdout, the second by cross-validation on all records, the third queries the
holdout through ``ReusableHoldoutSearchCV`` and closes it with a final report. Then the same with
coin flips in place of the labels, where there is nothing to find. Everything is repeated on several
holdouts, and records that nobody touched show whose interval was right.

(b) Privacy. A numeric ``epsilon`` limits what all answers together reveal about one record, at any
dependence. It is shown for records in time with a transition matrix, beside a search without it
and a search that pretends the records are independent. The simulator knows the true accuracy of
every linear classifier.

Run with ``make demo``, or ``python examples/demo.py --help``.
"""

# ruff: noqa: E402 (the first line is printed before the imports, which take seconds)
import time

START = time.perf_counter()
if __name__ == "__main__":
    print("Two examples on real and simulated data: whose reported accuracy is right?", flush=True)
    print("They take about a minute.", flush=True)

import argparse
import warnings
from pathlib import Path

import numpy as np
from scipy.stats import binomtest
from simulated import make_regimes
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, PredefinedSplit, train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import Pipeline

from sklearn_bdp import HoldoutConfig, ReusableHoldout, ReusableHoldoutSearchCV

EPSILON = 3.0  # of Bayesian differential privacy, for the whole life of a holdout
ROUNDS, CANDIDATES = 10, 16  # searches of an analyst, and subsets in each
BLUE, ORANGE, GREY, GREEN = "#0072B2", "#D55E00", "#777777", "#009E73"
STYLES = {  # of the numbers that analysts report: color, marker, shift, label
    "naive": (ORANGE, "s", -0.25, "best raw holdout score, usual 95% interval"),
    "cross-validation": (GREY, "D", 0.0, "best cross-validated score ± 2 standard errors"),
    "final report": (GREEN, "o", 0.25, "final report of sklearn_bdp"),
}
PRIVACY = {  # final reports of records in time: words, color, shift
    "pretended": ("independence pretended", ORANGE, -0.2),
    "declared": ("transition matrix declared", BLUE, 0.0),
    "private": (f"the same, with privacy level {EPSILON:g}", GREEN, 0.2),
}


class Progress:
    """Print a line about every five seconds.

    Parameters
    ----------
    clock : callable, default=time.perf_counter
        Returns the time in seconds.
    """

    def __init__(self, clock=time.perf_counter):
        self.clock = clock
        self.last_line = clock()

    def step(self, text):
        """Print what begins now, if the last line is old enough."""
        now = self.clock()
        if now - self.last_line >= 4.0:  # a step takes up to a second
            print(f"    {now - START:3.0f} s: {text}", flush=True)
            self.last_line = now


class KeepPixels(TransformerMixin, BaseEstimator):
    """Keep a subset of the 64 pixels (``None``: all)."""

    def __init__(self, pixels=None):
        self.pixels = pixels

    def fit(self, X, y=None):
        """Learn nothing."""
        self.fitted_ = True
        return self

    def transform(self, X):
        """Return the chosen columns."""
        return X if self.pixels is None else X[:, list(self.pixels)]


def proposals(best, rng):
    """Return subsets of eight pixels: at random, then the best one with two exchanged."""
    if best is None:
        chosen = [rng.choice(64, 8, replace=False) for _ in range(CANDIDATES)]
    else:
        other_pixels = np.setdiff1d(np.arange(64), best)
        chosen = [
            np.r_[rng.choice(best, 6, replace=False), rng.choice(other_pixels, 2, replace=False)]
            for _ in range(CANDIDATES)
        ]
    return {"pixels__pixels": [tuple(sorted(subset.tolist())) for subset in chosen]}


def analyst(select, seed, progress, name):
    """Search again and again from the best subset so far; return the best search."""
    rng, best = np.random.default_rng(seed), None
    for round_number in range(1, ROUNDS + 1):
        progress.step(f"{name}, search {round_number} of {ROUNDS}")
        search = select(proposals(best and best.best_params_["pixels__pixels"], rng))
        if best is None or search.best_score_ > best.best_score_:
            best = search
    return best


def pixels_example(splits, seed, progress):
    """Return one row for each split and number, for real labels and for coin flips."""
    X, labels = load_digits(return_X_y=True)
    model = Pipeline([("pixels", KeepPixels()), ("bayes", GaussianNB())])
    rows, report = [], None
    for case in ("digits", "coin flips"):
        for split in range(splits):
            rng = np.random.default_rng([seed, split])
            y = labels if case == "digits" else rng.integers(0, 2, labels.size)
            analyzed_rows, new_rows = train_test_split(
                np.arange(y.size), train_size=800, random_state=split
            )
            # Not stratified: class counts of the holdout must not show in the training set.
            training_rows, holdout_rows = train_test_split(
                analyzed_rows, test_size=200, random_state=split
            )
            name = f"{case}, holdout {split + 1} of {splits}"
            scores_by_analyst, report = reported(
                model, X, y, training_rows, holdout_rows, seed + split, progress, name
            )
            for name, (score, interval, fitted) in scores_by_analyst.items():
                # Coin flips are right half of the time, whoever predicts them.
                truth = fitted.score(X[new_rows], y[new_rows]) if case == "digits" else 0.5
                row = {"reported": score, "interval": interval, "truth": truth}
                rows.append({"case": case, "split": split + 1, "number": name, **row})
    return rows, report, new_rows.size


def reported(model, X, y, training_rows, holdout_rows, seed, progress, name):
    """Return what each analyst reports, score, interval and model, and the final report."""
    analyzed_rows = np.concatenate([training_rows, holdout_rows])
    one_split = PredefinedSplit(np.repeat([-1, 0], [training_rows.size, holdout_rows.size]))
    holdout = ReusableHoldout(X[holdout_rows], y[holdout_rows])  # cryptographic noise: no seed

    def naive(grid):
        return GridSearchCV(model, grid, cv=one_split, refit=False).fit(
            X[analyzed_rows], y[analyzed_rows]
        )

    def cross_validated(grid):
        return GridSearchCV(model, grid).fit(X[analyzed_rows], y[analyzed_rows])

    def verified(grid):
        return ReusableHoldoutSearchCV(model, grid, holdout=holdout).fit(
            X[training_rows], y[training_rows]
        )

    naive_search = analyst(naive, seed, progress, f"{name}, raw scores")
    fitted = (
        clone(model).set_params(**naive_search.best_params_).fit(X[training_rows], y[training_rows])
    )
    hits = round(naive_search.best_score_ * holdout_rows.size)
    scores_by_analyst = {
        "naive": (naive_search.best_score_, binomial_interval(hits, holdout_rows.size), fitted)
    }
    cv_search = analyst(cross_validated, seed, progress, f"{name}, cross-validation")
    error = 2 * cv_search.cv_results_["std_test_score"][cv_search.best_index_] / np.sqrt(5)
    score = cv_search.best_score_
    interval = (score - error, score + error)
    scores_by_analyst["cross-validation"] = (score, interval, cv_search.best_estimator_)
    verified_search = analyst(verified, seed, progress, f"{name}, verified scores")
    report = verified_search.final_report()
    best = verified_search.best_estimator_
    scores_by_analyst["final report"] = (report.value, report.interval, best)
    return scores_by_analyst, report


def binomial_interval(hits, n):
    """Return the usual 95% interval of a share, which is right for one model fixed in advance."""
    interval = binomtest(hits, n).proportion_ci()
    return interval.low, interval.high


def privacy_example(replications, seed, progress):
    """Return, for each replication, both intervals and the truth."""
    transition, grid = [[0.98, 0.02], [0.02, 0.98]], {"C": [0.001, 0.01, 0.1, 1.0]}
    rows, held_out = [], None
    for replication in range(replications):
        progress.step(f"records in time, replication {replication + 1} of {replications}")
        data = make_regimes(
            40_000, transition, n_features=5, separation=[2.0, -0.5],
            random_state=seed + replication,
        )  # fmt: skip
        config = HoldoutConfig(0.75, epsilon=EPSILON)
        search = ReusableHoldoutSearchCV(
            LogisticRegression(), grid, correlation=transition, holdout=config
        ).fit(data.X, data.y)
        training_rows, holdout_rows = search.train_indices_, search.holdout_indices_
        fitted_as = {"private": search}
        for report_kind, correlation in (("declared", transition), ("pretended", None)):
            holdout = ReusableHoldout(
                data.X[holdout_rows], data.y[holdout_rows], correlation=correlation
            )
            fitted_as[report_kind] = ReusableHoldoutSearchCV(
                LogisticRegression(), grid, holdout=holdout
            ).fit(data.X[training_rows], data.y[training_rows])
        held_out = search.holdout_
        for report_kind, fitted in fitted_as.items():
            best = fitted.best_estimator_
            truth = data.population_accuracy(best.coef_, best.intercept_)
            low, high = fitted.final_report().interval
            row = {"kind": report_kind, "interval": (low, high), "truth": truth}
            rows.append({"replication": replication, **row})
    return rows, held_out


def is_missed(row):
    """Return whether an interval lies beside the truth."""
    low, high = row["interval"]
    return not low <= row["truth"] <= high


def print_pixels(rows, n_fresh):
    """Print the first table."""
    print(f"\n(a) Eight pixels: {ROUNDS} searches of {CANDIDATES} subsets, each built on the last; "
          "200 of 800 records held out")  # fmt: skip
    print(f"    {'labels':12}{'number':18}{'reported':>9}{'truth':>10}{'too high by':>22}"
          f"{'half-width':>12}{'missed':>10}")  # fmt: skip
    for case in ("digits", "coin flips"):
        for name in STYLES:
            rows_of_analyst = [row for row in rows if (row["case"], row["number"]) == (case, name)]
            overestimates = np.array([row["reported"] - row["truth"] for row in rows_of_analyst])
            error = (
                overestimates.std(ddof=1) / np.sqrt(len(overestimates))
                if len(overestimates) > 1
                else np.nan
            )
            width = np.mean(
                [(row["interval"][1] - row["interval"][0]) / 2 for row in rows_of_analyst]
            )
            missed = sum(is_missed(row) for row in rows_of_analyst)
            means = [
                np.mean([row[key] for row in rows_of_analyst]) for key in ("reported", "truth")
            ]
            print(f"    {case:12}{name:18}{means[0]:>9.3f}{means[1]:>10.3f}"
                  f"{f'{overestimates.mean():+.3f} ± {error:.3f}':>22}{width:>12.3f}"
                  f"{f'{missed} of {len(rows_of_analyst)}':>10}")  # fmt: skip
    splits = max(row["split"] for row in rows)
    print(f"    Means over {splits} holdouts, with the standard error of the mean.")
    print("    Missed: intervals that do not contain the truth. Truth of coin flips: 0.5.")
    print(f"    Truth of digits: accuracy on {n_fresh} records that no analyst queried, ±0.014.")


def print_privacy(rows, holdout):
    """Print the second table."""
    print(f"\n(b) Privacy: final reports of records in time under epsilon={EPSILON:g}")
    effective_n = holdout.dependence.effective_n(holdout.n)
    print(f"    {holdout.n:,} holdout records, like {effective_n:,.0f} independent ones")
    print(f"    {'':44}{'missed':>10}{'half-width':>14}")
    for report_kind, (description, *_) in PRIVACY.items():
        rows_of_kind = [row for row in rows if row["kind"] == report_kind]
        width = np.mean([(row["interval"][1] - row["interval"][0]) / 2 for row in rows_of_kind])
        n_missed = sum(map(is_missed, rows_of_kind))
        print(f"    {description:44}{f'{n_missed} of {len(rows_of_kind)}':>10}{width:>14.3f}")


def draw(pixels, privacy, path):
    """Draw both examples as one picture."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(13, 4.6), layout="constrained")
    for ax, case in zip(axes, ("digits", "coin flips"), strict=False):
        _draw_pixels(ax, [row for row in pixels if row["case"] == case], case)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, fontsize=9)
    _draw_privacy(axes[2], privacy)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def _draw_pixels(ax, rows, case):
    counts = []
    for name, (color, marker, shift, label) in STYLES.items():
        rows_of_analyst = [row for row in rows if row["number"] == name]
        x = np.array([row["split"] for row in rows_of_analyst]) + shift
        interval_ends = np.array([row["interval"] for row in rows_of_analyst])
        ax.vlines(x, interval_ends[:, 0], interval_ends[:, 1], color=color, lw=3, alpha=0.45)
        ax.plot(
            x, [row["reported"] for row in rows_of_analyst], marker, color=color, ms=5, label=label
        )
        ax.plot(x, [row["truth"] for row in rows_of_analyst], "_", color="black", ms=9, mew=1.8)
        counts.append(f"{name} {sum(map(is_missed, rows_of_analyst))}")
    ax.plot([], [], "_", color="black", ms=9, mew=1.8, label="truth: new records")
    ax.set(xlabel="holdout", xticks=sorted({row["split"] for row in rows}))
    ax.set_ylabel("accuracy")
    case_title = "Digits" if case == "digits" else "Coin flips: nothing to find"
    ax.set_title(f"{case_title}\nmissed: {', '.join(counts)}", fontsize=10)
    ax.grid(axis="y", alpha=0.3)


def _draw_privacy(ax, rows):
    for report_kind, (description, color, shift) in PRIVACY.items():
        rows_of_kind = [row for row in rows if row["kind"] == report_kind]
        x = np.array([row["replication"] for row in rows_of_kind]) + 1 + shift
        distances_from_truth = np.array([row["interval"] for row in rows_of_kind]) - [
            [row["truth"]] for row in rows_of_kind
        ]
        low, high = distances_from_truth.T
        n_missed = sum(map(is_missed, rows_of_kind))
        label = f"{description}: {n_missed} of {len(rows_of_kind)} missed"
        ax.vlines(x, low, high, color=color, lw=3.5, alpha=0.8, label=label)
    ax.axhline(0.0, color="black", lw=1)
    ax.set(xlabel="replication", ylabel="interval minus truth")
    ax.set_title("Records in time\ndependence and privacy", fontsize=10)
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.margins(y=0.35)
    ax.legend(fontsize=8, loc="lower center")
    ax.grid(axis="y", alpha=0.3)


def main():
    """Run both examples."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("output"), help="folder of the picture")
    parser.add_argument("--splits", type=int, default=3, help="holdouts of example (a)")
    parser.add_argument("--replications", type=int, default=3, help="of example (b)")
    parser.add_argument("--seed", type=int, default=0, help="of the data splits and proposals")
    options = parser.parse_args()
    progress = Progress()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the same labels on eight holdouts: another account
        pixels, report, n_fresh = pixels_example(options.splits, options.seed, progress)
        privacy, holdout = privacy_example(options.replications, options.seed, progress)
    print_pixels(pixels, n_fresh)
    print("\n" + "\n".join(f"    {line}" for line in str(report).splitlines()))
    print_privacy(privacy, holdout)
    path = options.output / "demo.png"
    draw(pixels, privacy, path)
    print(f"\nPicture: {path}   ({time.perf_counter() - START:.0f} s)")


if __name__ == "__main__":
    main()
