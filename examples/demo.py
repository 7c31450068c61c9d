"""The main job in one command: two examples, printed as tables and drawn as one picture.

(a) Eight pixels. Which eight of the 64 pixels of a handwritten digit suffice to read it? Three
analysts try a hundred subsets, then three times a hundred changes of the best subset so far. The
first selects by the raw score on one holdout, the second by cross-validation on all records, the
third queries the holdout through ``ReusableHoldoutSearchCV`` and closes it with a final report.
Then the same with coin flips in place of the labels, where there is nothing to find. Records that
nobody touched show whose number was right.

(b) Privacy. A numeric ``epsilon`` limits what all answers together reveal about one record, at any
dependence. It is shown for records in time with a transition matrix and for records on a graph,
each beside a search that pretends the records are independent. The simulators know the true
accuracy of every linear classifier.

Run with ``make demo``, or ``python examples/demo.py --help``.
"""

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
from simulated import make_graph, make_regimes
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, PredefinedSplit, train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import Pipeline

from sklearn_bdp import HoldoutConfig, ReusableHoldout, ReusableHoldoutSearchCV
from sklearn_bdp.correlation import MarkovNetwork

EPSILON = 3.0  # of Bayesian differential privacy, for the whole life of a holdout
BLUE, ORANGE, GREY, GREEN = "#0072B2", "#D55E00", "#777777", "#009E73"
STYLES = {  # of the numbers that analysts report
    "naive": (ORANGE, "s", -0.3, "naive: best raw holdout score"),
    "cross-validation": (GREY, "D", -0.1, "cross-validation ± 2 standard errors"),
    "interim": (BLUE, "o", 0.1, "interim: verified score and interval"),
    "final": (GREEN, "^", 0.3, "final report"),
}


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
    """Return a hundred subsets of eight pixels: at random, then the best one with two exchanged."""
    if best is None:
        return [tuple(sorted(rng.choice(64, 8, replace=False).tolist())) for _ in range(100)]
    others = np.setdiff1d(np.arange(64), best)
    exchanged = [
        np.r_[rng.choice(best, 6, replace=False), rng.choice(others, 2, replace=False)]
        for _ in range(100)
    ]
    return [tuple(sorted(subset.tolist())) for subset in exchanged]


def analyst(select, seed):
    """Play four searches; return the score of the best subset, its interval and its model."""
    rng = np.random.default_rng(seed)
    best, top = None, (-np.inf, (np.nan, np.nan), None)
    for _ in range(4):
        subset, score, interval, fitted = select({"pixels__pixels": proposals(best, rng)})
        if score > top[0]:  # the analyst goes on from the best model so far
            best, top = subset, (score, interval, fitted)
    return top


def pixels_example(splits, seed):
    """Return one row for each split and number, for real labels and for coin flips."""
    X, labels = load_digits(return_X_y=True)
    rows, report = [], None
    for case in ("digits", "coin flips"):
        for split in range(splits):
            rng = np.random.default_rng([seed, split])
            y = labels if case == "digits" else rng.integers(0, 2, labels.size)
            known, fresh = train_test_split(np.arange(y.size), train_size=1100, random_state=split)
            # Not stratified: class counts of the holdout must not show in the training set.
            train, held = train_test_split(known, test_size=400, random_state=split)
            holdout = ReusableHoldout(X[held], y[held])  # cryptographic noise: no seed
            told = {
                name: analyst(select, seed + split)
                for name, select in analysts(X, y, train, held, holdout).items()
            }
            search = told["interim"][2]
            report = search.final_report()
            told["final"] = report.value, report.interval, search
            for name, (score, interval, fitted) in told.items():
                truth = fitted.score(X[fresh], y[fresh])
                row = {"reported": score, "interval": interval, "fresh": truth}
                rows.append({"case": case, "split": split + 1, "number": name, **row})
    return rows, report, fresh.size


def analysts(X, y, train, held, holdout):
    """Return three ways to select from a grid: subset, score, interval and fitted model."""
    model = Pipeline([("pixels", KeepPixels()), ("bayes", GaussianNB())])
    known = np.concatenate([train, held])
    one_split = PredefinedSplit(np.repeat([-1, 0], [train.size, held.size]))

    def naive(grid):
        search = GridSearchCV(model, grid, cv=one_split, refit=False).fit(X[known], y[known])
        fitted = clone(model).set_params(**search.best_params_).fit(X[train], y[train])
        return _found(search, (np.nan, np.nan), fitted)

    def cross_validated(grid):
        search = GridSearchCV(model, grid).fit(X[known], y[known])
        error = 2 * search.cv_results_["std_test_score"][search.best_index_] / np.sqrt(5)
        return _found(search, search.best_score_ + np.array([-error, error]), search)

    def verified(grid):
        search = ReusableHoldoutSearchCV(model, grid, holdout=holdout).fit(X[train], y[train])
        return _found(search, search.best_interval_, search)

    return {"naive": naive, "cross-validation": cross_validated, "interim": verified}


def _found(search, interval, fitted):
    """Return the subset, its score, the interval and the model of a search."""
    return search.best_params_["pixels__pixels"], search.best_score_, interval, fitted


def privacy_example(replications, seed):
    """Return, for each world and replication, both intervals and the truth."""
    transition, grid = [[0.97, 0.03], [0.03, 0.97]], {"C": [0.001, 0.01, 0.1, 1.0]}
    shape, rows, told = {"n_features": 5, "separation": [2.0, -0.5]}, [], {}
    for replication in range(replications):
        regimes = make_regimes(40_000, transition, random_state=seed + replication, **shape)
        friends = make_graph(20_000, flip=0.2, random_state=seed + replication, **shape)
        for world, data, correlation in (
            ("transition matrix", regimes, transition),
            ("graph", friends, MarkovNetwork(friends.graph)),
        ):
            config = HoldoutConfig(0.75, epsilon=EPSILON)
            search = ReusableHoldoutSearchCV(
                LogisticRegression(), grid, correlation=correlation, holdout=config
            ).fit(data.X, data.y)
            train, held = search.train_indices_, search.holdout_indices_
            pretend = ReusableHoldoutSearchCV(
                LogisticRegression(), grid, holdout=ReusableHoldout(data.X[held], data.y[held])
            ).fit(data.X[train], data.y[train])
            told[world] = search.holdout_
            for kind, fitted in (("independent", pretend), ("private", search)):
                best = fitted.best_estimator_
                truth = data.population_accuracy(best.coef_, best.intercept_)
                low, high = fitted.final_report().interval
                row = {"world": world, "kind": kind, "low": low, "high": high, "truth": truth}
                rows.append({"replication": replication, **row})
    return rows, told


def print_pixels(rows, n_fresh):
    """Print the first table."""
    print("\n(a) Eight pixels: four searches of 100 subsets, each built on the last; "
          "400 of 1,100 records held out")  # fmt: skip
    head = f"{'labels':12}{'number':17}{'reported':>9}{'interval':>17}{'on fresh':>10}"
    print(f"    {head}{'too high by':>13}")
    for row in rows:
        low, high = row["interval"]
        interval = "none" if np.isnan(low) else f"[{low:.3f}, {high:.3f}]"
        error = np.sqrt(row["fresh"] * (1 - row["fresh"]) / n_fresh)
        missed = "  missed" if not low - error <= row["fresh"] <= high + error else ""
        missed *= not np.isnan(low)
        line = f"{row['case']:12}{row['number']:17}{row['reported']:>9.3f}{interval:>17}"
        gap = row["reported"] - row["fresh"]
        print(f"    {line}{row['fresh']:>10.3f}{gap:>+13.3f}{missed}")
    print(f"    on fresh: accuracy on {n_fresh} records that no analyst ever queried")
    print("    missed: it lies outside by more than its standard error; on average")
    for name in STYLES:
        part = [row for row in rows if row["number"] == name]
        gap = 100 * np.mean([row["reported"] - row["fresh"] for row in part])
        width = np.mean([(row["interval"][1] - row["interval"][0]) / 2 for row in part])
        known = "" if np.isnan(width) else f", known to ±{width:.3f}"
        print(f"    {'':7}{name:17} too high by {gap:+.1f} points{known}")


def print_privacy(rows, told):
    """Print the second table."""
    print(f"\n(b) Privacy: final reports under epsilon={EPSILON:g} beside those that pretend the "
          "records are independent")  # fmt: skip
    for world, holdout in told.items():
        model = holdout.model
        worth = model.effective_n(holdout.n)
        print(f"    {world}: {holdout.n:,} holdout records, like {worth:,.0f} independent ones")
        print(f"    {'interval':14}{'replications':>7}{'misses the truth':>18}{'half-width':>14}")
        for kind in ("independent", "private"):
            part = [row for row in rows if (row["world"], row["kind"]) == (world, kind)]
            missed = sum(not row["low"] <= row["truth"] <= row["high"] for row in part)
            width = np.mean([(row["high"] - row["low"]) / 2 for row in part])
            print(f"    {kind:14}{len(part):>7}{missed:>18}{width:>19.3f}")


def draw(pixels, privacy, path):
    """Draw both examples as one picture."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplot_mosaic(
        [["left", "transition matrix"], ["left", "graph"]], figsize=(12, 5), layout="constrained",
    )  # fmt: skip
    _draw_pixels(axes["left"], pixels)
    for world in ("transition matrix", "graph"):
        _draw_privacy(axes[world], [row for row in privacy if row["world"] == world], world)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def _draw_pixels(ax, rows):
    for name, (color, marker, shift, label) in STYLES.items():
        part = [row for row in rows if row["number"] == name]
        x = np.arange(len(part)) + shift
        reported = np.array([row["reported"] for row in part])
        fresh = np.array([row["fresh"] for row in part])
        ends = np.array([row["interval"] for row in part])
        if np.isnan(ends).any():  # nothing but the distance to the truth
            ax.vlines(x, fresh, reported, color=color, lw=1.5, ls=":")
        else:
            ax.vlines(x, ends[:, 0], ends[:, 1], color=color, lw=4, alpha=0.4)
        ax.plot(x, reported, marker=marker, ls="", color=color, ms=7, label=label)
        ax.plot(x, fresh, marker="_", ls="", color="black", ms=14, mew=1.8)
    ax.plot([], [], marker="_", ls="", color="black", ms=14, mew=1.8, label="truth: new records")
    cases = [f"{row['case']}\nsplit {row['split']}" for row in rows if row["number"] == "naive"]
    ax.set(xticks=range(len(cases)), xticklabels=cases, ylabel="accuracy")
    ax.set_title("Eight pixels, after four searches: reported and true")
    _legend_below(ax, 2)
    ax.grid(axis="y", alpha=0.3)


def _legend_below(ax, columns):
    ax.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=columns)


def _draw_privacy(ax, rows, world):
    for kind, color, shift in (("private", BLUE, 0.2), ("independent", ORANGE, -0.2)):
        part = [row for row in rows if row["kind"] == kind]
        x = np.array([row["replication"] for row in part]) + 1 + shift
        low, high = (np.array([row[end] - row["truth"] for row in part]) for end in ("low", "high"))
        missed = (low > 0) | (high < 0)
        ax.vlines(x, low, high, color=color, lw=2.5, label=f"{kind}: misses {missed.sum()}")
        ax.plot(x[missed], np.where(low > 0, low, high)[missed], "x", color="black", ms=7)
    ax.axhline(0.0, color=GREY, lw=1)
    ax.set(ylabel="interval minus truth", title=f"Final reports, epsilon={EPSILON:g}, {world}")
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.margins(y=0.4)
    ax.legend(fontsize=8, ncols=2, loc="lower right")
    ax.grid(axis="y", alpha=0.3)


def main():
    """Tell both examples."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("output"), help="folder of the picture")
    parser.add_argument(
        "--replications", type=int, default=8, help="simulated replications of example (b)"
    )
    parser.add_argument("--splits", type=int, default=2, help="splits of example (a)")
    parser.add_argument("--seed", type=int, default=0, help="of the data splits and proposals")
    options = parser.parse_args()
    start = time.perf_counter()
    pixels, report, n_fresh = pixels_example(options.splits, options.seed)
    print_pixels(pixels, n_fresh)
    print("\n" + "\n".join(f"    {line}" for line in str(report).splitlines()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        privacy, told = privacy_example(options.replications, options.seed)
    print_privacy(privacy, told)
    path = options.output / "demo.png"
    draw(pixels, privacy, path)
    print(f"\nPicture: {path}   ({time.perf_counter() - start:.0f} s)")


if __name__ == "__main__":
    main()
