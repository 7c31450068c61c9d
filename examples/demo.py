"""The main job in one command: two examples, printed as tables and drawn as one picture.

(a) Eight pixels. Which eight of the 64 pixels of a handwritten digit suffice to read it? Three
analysts try a hundred subsets, then three times a hundred changes of the best subset so far. The
first selects by the raw score on one holdout, the second by cross-validation on all records, the
third asks the holdout through ``ReusableHoldoutSearchCV``. Then the same with coin flips in place
of the labels, where there is nothing to find. Records that nobody touched say who was told the
truth.

(b) Regimes. Records of a simulator pass through regimes that follow a transition matrix, and the
true accuracy of every linear classifier is known. An interval that pretends the records are
independent is compared with the one calibrated to the matrix, over many simulated replications.

Run with ``make demo``, or ``python examples/demo.py --help``.
"""

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, PredefinedSplit, train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import Pipeline

from sklearn_bdp import ReusableHoldout, ReusableHoldoutSearchCV
from sklearn_bdp.datasets import make_regimes

BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#777777"


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


def analyst(select, seed, X_fresh, y_fresh):
    """Play four searches; return what is reported in the end, its interval, and the truth."""
    rng = np.random.default_rng(seed)
    best, top = None, (-np.inf, (np.nan, np.nan), None)
    for _ in range(4):
        subset, score, interval, fitted = select({"pixels__pixels": proposals(best, rng)})
        if score > top[0]:  # the analyst goes on from the best model so far
            best, top = subset, (score, interval, fitted)
    return {"reported": top[0], "interval": top[1], "fresh": top[2].score(X_fresh, y_fresh)}


def pixels_example(splits, seed):
    """Return one row for each split and analyst, for real labels and for coin flips."""
    X, labels = load_digits(return_X_y=True)
    rows = []
    for case in ("digits", "coin flips"):
        for split in range(splits):
            rng = np.random.default_rng([seed, split])
            y = labels if case == "digits" else rng.integers(0, 2, labels.size)
            known, fresh = train_test_split(np.arange(y.size), train_size=1100, random_state=split)
            # Not stratified: class counts of the holdout must not show in the training part.
            train, held = train_test_split(known, test_size=400, random_state=split)
            holdout = ReusableHoldout(X[held], y[held])  # cryptographic noise: no seed
            for name, select in analysts(X, y, train, held, holdout).items():
                row = analyst(select, seed + split, X[fresh], y[fresh])
                rows.append({"case": case, "split": split + 1, "analyst": name, **row})
    return rows, holdout, fresh.size


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

    return {"naive": naive, "cross-validation": cross_validated, "verified": verified}


def _found(search, interval, fitted):
    """Return the subset, its score, the interval and the model of a search."""
    return search.best_params_["pixels__pixels"], search.best_score_, interval, fitted


def regimes_example(replications, seed):
    """Return, for each simulated replication, both intervals and the truth."""
    transition = [[0.97, 0.03], [0.03, 0.97]]
    grid = {"C": [0.001, 0.01, 0.1, 1.0]}
    rows = []
    for replication in range(replications):
        data = make_regimes(
            40_000,
            transition,
            n_features=5,
            separation=[2.0, -0.5],
            random_state=seed + replication,
        )
        search = ReusableHoldoutSearchCV(
            LogisticRegression(), grid, correlation=transition, holdout=0.75
        ).fit(data.X, data.y)
        train, held = search.train_indices_, search.holdout_indices_
        pretend = ReusableHoldoutSearchCV(
            LogisticRegression(), grid, holdout=ReusableHoldout(data.X[held], data.y[held])
        ).fit(data.X[train], data.y[train])
        for name, fitted in (("independent", pretend), ("calibrated", search)):
            best = fitted.best_estimator_
            truth = data.population_accuracy(best.coef_, best.intercept_)
            low, high = fitted.best_interval_
            rows.append(
                {"replication": replication, "kind": name, "low": low, "high": high, "truth": truth}
            )
    return rows, search.holdout_


def print_pixels(rows, holdout, n_fresh):
    """Print the first table."""
    print(f"\n(a) Eight pixels: four searches of 100 subsets, each built on the last; "
          f"{holdout.n} of 1,100 records held out")  # fmt: skip
    head = f"{'labels':12}{'analyst':17}{'reported':>9}{'interval':>17}{'on fresh':>10}"
    print(f"    {head}{'too high by':>13}")
    for row in rows:
        low, high = row["interval"]
        interval = "none" if np.isnan(low) else f"[{low:.3f}, {high:.3f}]"
        missed = "  missed" if row["fresh"] < low or row["fresh"] > high else ""
        line = f"{row['case']:12}{row['analyst']:17}{row['reported']:>9.3f}{interval:>17}"
        gap = row["reported"] - row["fresh"]
        print(f"    {line}{row['fresh']:>10.3f}{gap:>+13.3f}{missed}")
    print(
        f"    on fresh: accuracy on {n_fresh} records that no analyst ever asked about; on average"
    )
    for name in ("naive", "cross-validation", "verified"):
        gaps = [row["reported"] - row["fresh"] for row in rows if row["analyst"] == name]
        print(f"    {'':7}{name:17} too high by {100 * np.mean(gaps):+.1f} points")


def print_regimes(rows, holdout):
    """Print the second table."""
    print(f"\n(b) Regimes: {holdout.n} holdout records; {holdout.model.describe()}")
    print(f"    {'interval':14}{'replications':>7}{'misses the truth':>18}{'mean half-width':>17}")
    for kind in ("independent", "calibrated"):
        part = [row for row in rows if row["kind"] == kind]
        missed = sum(not row["low"] <= row["truth"] <= row["high"] for row in part)
        width = np.mean([(row["high"] - row["low"]) / 2 for row in part])
        print(f"    {kind:14}{len(part):>7}{missed:>18}{width:>17.3f}")


def draw(pixels, regimes, path):
    """Draw both examples as one picture."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4.8), layout="constrained")
    _draw_pixels(left, pixels)
    _draw_regimes(right, regimes)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def _draw_pixels(ax, rows):
    styles = {
        "naive": (ORANGE, "s", -0.24, "best raw holdout score"),
        "cross-validation": (GREY, "D", 0.0, "best cross-validated score ± 2 standard errors"),
        "verified": (BLUE, "o", 0.24, "verified score with its interval"),
    }
    for name, (colour, marker, shift, label) in styles.items():
        part = [row for row in rows if row["analyst"] == name]
        x = np.arange(len(part)) + shift
        reported = np.array([row["reported"] for row in part])
        fresh = np.array([row["fresh"] for row in part])
        ends = np.array([row["interval"] for row in part])
        if np.isnan(ends).any():  # nothing but the distance to the truth
            ax.vlines(x, fresh, reported, color=colour, lw=1.5, ls=":")
        else:
            ax.vlines(x, ends[:, 0], ends[:, 1], color=colour, lw=4, alpha=0.4)
        ax.plot(x, reported, marker=marker, ls="", color=colour, ms=7, label=label)
        ax.plot(x, fresh, marker="_", ls="", color="black", ms=14, mew=1.8)
    ax.plot([], [], marker="_", ls="", color="black", ms=14, mew=1.8, label="truth: fresh records")
    cases = [f"{row['case']}\nsplit {row['split']}" for row in rows if row["analyst"] == "naive"]
    ax.set(xticks=range(len(cases)), xticklabels=cases, ylabel="accuracy")
    ax.set_title("Eight pixels, after four searches: reported and true")
    _legend_below(ax, 2)
    ax.grid(axis="y", alpha=0.3)


def _legend_below(ax, columns):
    ax.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=columns)


def _draw_regimes(ax, rows):
    for kind, colour, shift in (("calibrated", BLUE, 0.2), ("independent", ORANGE, -0.2)):
        part = [row for row in rows if row["kind"] == kind]
        x = np.array([row["replication"] for row in part]) + 1 + shift
        low, high = (np.array([row[end] - row["truth"] for row in part]) for end in ("low", "high"))
        missed = (low > 0) | (high < 0)
        ax.vlines(x, low, high, color=colour, lw=2.5, label=f"{kind}: misses {missed.sum()}")
        ax.plot(x[missed], np.where(low > 0, low, high)[missed], "x", color="black", ms=7)
    ax.axhline(0.0, color=GREY, lw=1)
    ax.set(xlabel="simulated replication", ylabel="interval minus true accuracy")
    ax.set_title("Regimes: intervals against the truth (x: missed)")
    ax.xaxis.get_major_locator().set_params(integer=True)
    _legend_below(ax, 2)
    ax.grid(axis="y", alpha=0.3)


def main():
    """Tell both examples."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("output"), help="folder of the picture")
    parser.add_argument(
        "--replications", type=int, default=15, help="simulated replications of example (b)"
    )
    parser.add_argument("--splits", type=int, default=2, help="splits of example (a)")
    parser.add_argument("--seed", type=int, default=0, help="of the data splits and proposals")
    options = parser.parse_args()
    start = time.perf_counter()
    pixels, holdout, n_fresh = pixels_example(options.splits, options.seed)
    print_pixels(pixels, holdout, n_fresh)
    print("\n" + "\n".join(f"    {line}" for line in str(holdout.certificate()).splitlines()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        regimes, chain_holdout = regimes_example(options.replications, options.seed)
    print_regimes(regimes, chain_holdout)
    path = options.output / "demo.png"
    draw(pixels, regimes, path)
    print(f"\nPicture: {path}   ({time.perf_counter() - start:.0f} s)")


if __name__ == "__main__":
    main()
