"""The main job in one command: two examples, printed as tables and drawn as one picture.

(a) Digits. Two analysts tune a classifier of handwritten digits on the same holdout: a grid of
100 support vector machines, then three searches, each built around the winner of the one before.
One reads the raw holdout score, the other asks through ``ReusableHoldoutSearchCV``. Records
that nobody touched say who was told the truth.

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
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, PredefinedSplit, train_test_split
from sklearn.pipeline import Pipeline
from sklearn.svm import SVC

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


def first_grid():
    """Return 100 candidates: 10 values of C, 10 of gamma."""
    return {"svc__C": np.logspace(-1, 3, 10), "svc__gamma": np.logspace(-5, -2, 10)}


def follow_up(step, best, rng):
    """Return the next 100 candidates, built around the winner so far."""
    base = {name: [value] for name, value in best.items()}
    kept = best.get("pixels__pixels") or tuple(range(64))
    if step == 1:  # which pixels matter?
        subsets = [tuple(sorted(rng.choice(64, 48, replace=False))) for _ in range(100)]
        return {**base, "pixels__pixels": subsets}
    if step == 2:  # small changes to the best subset
        subsets = [
            tuple(sorted(rng.choice(kept, len(kept) - 4, replace=False))) for _ in range(100)
        ]
        return {**base, "pixels__pixels": subsets}
    around = np.geomspace(0.5, 2.0, 10)  # and a finer grid around the winner
    return {
        **base,
        "svc__C": best["svc__C"] * around,
        "svc__gamma": best["svc__gamma"] * around,
    }


def digits_example(seed):
    """Return one row per search and analyst: what was reported, and the truth on fresh records."""
    X, y = load_digits(return_X_y=True)
    X_known, X_fresh, y_known, y_fresh = train_test_split(
        X, y, train_size=700, stratify=y, random_state=seed
    )
    X_train, X_hold, y_train, y_hold = train_test_split(
        X_known, y_known, test_size=200, stratify=y_known, random_state=seed
    )
    both = np.vstack([X_train, X_hold]), np.concatenate([y_train, y_hold])
    one_split = PredefinedSplit(np.repeat([-1, 0], [len(y_train), len(y_hold)]))
    model = Pipeline([("pixels", KeepPixels()), ("svc", SVC())])
    holdout = ReusableHoldout(X_hold, y_hold)  # cryptographic noise: no seed

    def naive(grid):
        search = GridSearchCV(model, grid, cv=one_split, refit=False).fit(*both)
        fitted = model.set_params(**search.best_params_).fit(X_train, y_train)
        return search.best_params_, search.best_score_, (np.nan, np.nan), fitted

    def verified(grid):
        search = ReusableHoldoutSearchCV(model, grid, holdout=holdout).fit(X_train, y_train)
        return search.best_params_, search.best_score_, search.best_interval_, search

    rows = []
    for analyst, ask in (("naive", naive), ("verified", verified)):
        rng = np.random.default_rng(seed)
        best, top = None, (-np.inf, (np.nan, np.nan), np.nan)
        for step in range(4):
            grid = first_grid() if step == 0 else follow_up(step, best, rng)
            params, score, interval, fitted = ask(grid)
            if score > top[0]:  # the analyst goes on from the best model so far
                best, top = params, (score, interval, fitted.score(X_fresh, y_fresh))
            rows.append(
                {
                    "analyst": analyst,
                    "step": step + 1,
                    "reported": top[0],
                    "interval": top[1],
                    "fresh": top[2],
                    "asked": 100 * (step + 1),
                    "information": holdout.information_spent if analyst == "verified" else np.nan,
                    "above": sum(answer.above for answer in holdout.history()),
                }
            )
    return rows, holdout, len(y_fresh)


def regimes_example(replications, seed):
    """Return, for each simulated replication, both intervals and the truth."""
    transition = [[0.995, 0.005], [0.005, 0.995]]
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


def print_digits(rows, holdout, n_fresh):
    """Print the first table."""
    print(
        f"\n(a) Digits: 100 candidates, then three adaptive follow-ups; {holdout.n} holdout records"
    )
    print(f"    {'analyst':10}{'asked':>6}{'best score':>12}{'interval':>18}{'fresh':>8}"
          f"{'gap':>8}{'information (nats)':>13}{'from holdout':>14}")  # fmt: skip
    for row in rows:
        low, high = row["interval"]
        interval = "none" if np.isnan(low) else f"[{low:.3f}, {high:.3f}]"
        information = "" if np.isnan(row["information"]) else f"{row['information']:.1f}"
        above = row["above"] if row["analyst"] == "verified" else "all"
        gap = row["reported"] - row["fresh"]
        print(f"    {row['analyst']:10}{row['asked']:>6}{row['reported']:>12.3f}{interval:>18}"
              f"{row['fresh']:>8.3f}{gap:>+8.3f}{information:>13}{above:>14}")  # fmt: skip
    print(f"    fresh: accuracy on {n_fresh} records that neither analyst ever asked about")


def print_regimes(rows, holdout):
    """Print the second table."""
    print(f"\n(b) Regimes: {holdout.n} holdout records; {holdout.model.describe()}")
    print(f"    {'interval':14}{'replications':>7}{'misses the truth':>18}{'mean half-width':>17}")
    for kind in ("independent", "calibrated"):
        part = [row for row in rows if row["kind"] == kind]
        missed = sum(not row["low"] <= row["truth"] <= row["high"] for row in part)
        width = np.mean([(row["high"] - row["low"]) / 2 for row in part])
        print(f"    {kind:14}{len(part):>7}{missed:>18}{width:>17.3f}")


def draw(digits, regimes, path):
    """Draw both examples as one picture."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4.8), layout="constrained")
    _draw_digits(left, digits)
    _draw_regimes(right, regimes)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def _draw_digits(ax, rows):
    styles = {"naive": (ORANGE, "s", -0.12), "verified": (BLUE, "o", 0.12)}
    for analyst, (colour, marker, shift) in styles.items():
        part = [row for row in rows if row["analyst"] == analyst]
        x = np.array([row["step"] for row in part]) + shift
        y = np.array([row["reported"] for row in part])
        ax.plot(x, y, marker=marker, ls="", color=colour, ms=8, label=f"{analyst}: reported")
        ax.plot(x, [row["fresh"] for row in part], marker=marker, ls="", mfc="white",
                mec=colour, ms=8, label=f"{analyst}: on fresh records")  # fmt: skip
        ends = np.array([row["interval"] for row in part])
        if not np.isnan(ends).any():
            ax.vlines(x, ends[:, 0], ends[:, 1], color=colour, lw=2, label="verified interval")
    ax.set(xticks=[1, 2, 3, 4], xlabel="search (each builds on the one before)", ylabel="accuracy")
    ax.set_title("Digits: best score so far on one holdout")
    _legend_below(ax, 3)
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
    parser.add_argument("--seed", type=int, default=0, help="of the data splits and proposals")
    options = parser.parse_args()
    start = time.perf_counter()
    digits, holdout, n_fresh = digits_example(options.seed)
    print_digits(digits, holdout, n_fresh)
    print("\n" + "\n".join(f"    {line}" for line in str(holdout.certificate()).splitlines()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        regimes, chain_holdout = regimes_example(options.replications, options.seed)
    print_regimes(regimes, chain_holdout)
    path = options.output / "demo.png"
    draw(digits, regimes, path)
    print(f"\nPicture: {path}   ({time.perf_counter() - start:.0f} s)")


if __name__ == "__main__":
    main()
