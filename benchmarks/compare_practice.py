"""Nine ways to report a score, on the same data with known truth: bias, width and coverage.

An analyst with ``n`` records chooses features for a linear classifier in ``rounds`` rounds of
thirty candidates; each round starts from the best subset of the round before. The ways to report:

* ``one holdout``: the winner's raw score on a quarter of the records, with its binomial interval;
* ``cross-validation``: the winner's mean over five folds of all records, ± 1.96 standard errors;
* ``nested CV``: each round as a whole is cross-validated (five outer folds), ± 1.96 of them;
* ``fresh parts``: the quarter is divided among the rounds, each part is used once;
* ``Bonferroni``: all candidates of all rounds are declared in advance, binomial limits;
* ``one look``: cross-validation on three quarters selects, and the quarter is used once, at the
  very end, for the winner: the narrowest valid number, and invalid at a second look;
* ``two test sets``: one half of the quarter scores the candidates of each round, the other half is
  used once, at the very end;
* ``interim``: the quarter as a ``ReusableHoldout``, the interval of the winner's own round;
* ``final report``: the same, with the final report of the winner.

Run ``python -m benchmarks.compare_practice [--replications 40] [--sizes 400 2000]``; with
``--draw`` it only draws the table in ``benchmarks/results.md``.
"""

import argparse
import hashlib
import re
import warnings
from pathlib import Path

import numpy as np
from scipy.stats import beta as beta_distribution
from scipy.stats import norm
from sklearn.base import BaseEstimator, ClassifierMixin

from sklearn_bdp import ReusableHoldout
from sklearn_bdp.exceptions import SecondHoldoutWarning

ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "doc" / "_static" / "practice.svg"
BETA = 0.05
CANDIDATES = 30
FEATURES = 40
USEFUL = 5
SHIFT = 0.25
METHODS = (
    "one holdout",
    "cross-validation",
    "nested CV",
    "fresh parts",
    "Bonferroni",
    "one look",
    "two test sets",
    "interim",
    "final report",
)
OURS = ("interim", "final report")


class Linear(ClassifierMixin, BaseEstimator):
    """A fitted linear classifier as an estimator."""

    def __init__(self, model=None):
        self.model = model
        self.classes_ = np.array([0, 1])

    def fit(self, X, y):
        """Learn nothing."""
        return self

    def predict(self, X):
        """Return the predicted classes."""
        columns, weights, intercept = self.model
        return (X[:, columns] @ weights + intercept > 0).astype(int)


def sample(n, rng):
    """Return records of two Gaussian classes that differ in the first few features."""
    y = rng.integers(0, 2, n)
    X = rng.normal(size=(n, FEATURES))
    X[:, :USEFUL] += SHIFT * (2 * y[:, None] - 1)
    return X, y


def class_means(X, y):
    """Return the means of both classes: all that a linear discriminant learns."""
    return X[y == 0].mean(axis=0), X[y == 1].mean(axis=0)


def fit(means, columns):
    """Return the linear discriminant with a unit covariance on some columns."""
    weights = means[1][columns] - means[0][columns]
    return columns, weights, -weights @ (means[0][columns] + means[1][columns]) / 2


def hits(model, X, y):
    """Return for each record whether the model is right."""
    columns, weights, intercept = model
    return (X[:, columns] @ weights + intercept > 0) == y


def truth(model):
    """Return the exact accuracy on the population."""
    columns, weights, intercept = model
    shift = SHIFT * weights[columns < USEFUL].sum()
    scale = np.linalg.norm(weights)
    return (norm.cdf((shift + intercept) / scale) + norm.cdf((shift - intercept) / scale)) / 2


def folds(n, rng):
    """Return five test sets."""
    return np.array_split(rng.permutation(n), 5)


def trained(X, y, parts):
    """Return records, labels and the class means of the other parts, for each part."""
    complements = [np.setdiff1d(np.arange(len(y)), test) for test in parts]
    return [(X[a], y[a], class_means(X[b], y[b])) for a, b in zip(parts, complements, strict=True)]


def fold_scores(columns, fitted):
    """Return the cross-validated accuracy of each fold."""
    return np.array([hits(fit(means, columns), X, y).mean() for X, y, means in fitted])


def proposals(best, rng):
    """Return the candidates of a round: random subsets, then changes of the best one so far."""
    if best is None:
        return [np.sort(rng.choice(FEATURES, 12, replace=False)) for _ in range(CANDIDATES)]
    result = []
    for _ in range(CANDIDATES):
        mask = np.isin(np.arange(FEATURES), best)
        flips = rng.choice(FEATURES, 3, replace=False)
        mask[flips] = ~mask[flips]
        result.append(np.flatnonzero(mask) if mask.any() else best)
    return result


def binomial(score, n, level):
    """Return Clopper-Pearson limits, each at ``level``."""
    k = round(score * n)
    low = 0.0 if k == 0 else beta_distribution.ppf(level, k, n - k + 1)
    high = 1.0 if k == n else beta_distribution.isf(level, k + 1, n - k)
    return low, high


def search(n, rounds, seed, ask):
    """Return score, interval and model of the best candidate of all rounds.

    ``ask(candidates, round_)`` returns the scores of a round, and functions that return the
    interval and the model of a candidate by its number.
    """
    rng = np.random.default_rng(seed)
    best = None
    top = (-np.inf, None, None)
    for round_ in range(rounds):
        candidates = proposals(best, rng)
        scores, intervals, models = ask(candidates, round_)
        winner = int(np.argmax(scores))
        if scores[winner] > top[0]:
            top = (scores[winner], intervals(winner), models(winner))
            best = candidates[winner]
    return top


class Replication:
    """One data set with its split and its folds, and the methods that report on it.

    A method takes the candidates of a round and returns the score, the interval and the model of
    each: as an array, and as two functions of its number.
    """

    def __init__(self, method, n, rounds, seed):
        rng = np.random.default_rng([seed, n])
        self.method = method
        self.rounds = rounds
        self.X, self.y = sample(n, rng)
        order = rng.permutation(n)
        holdout = order[: n // 4]
        train = order[n // 4 :]
        self.n_train = len(train)
        self.X_holdout = self.X[holdout]
        self.y_holdout = self.y[holdout]
        self.folds = folds(n, rng)
        X_train = self.X[train]
        y_train = self.y[train]
        self.train_folds = trained(X_train, y_train, folds(len(train), rng))
        self.train_means = class_means(X_train, y_train)
        self.all_means = class_means(self.X, self.y)
        self.all_folds = trained(self.X, self.y, self.folds)
        self.inner_folds = list(self._inner_folds()) if method == "nested CV" else []
        self.holdout = ReusableHoldout(self.X_holdout, self.y_holdout) if method in OURS else None

    def report(self, seed):
        """Return reported score, interval and truth of the final model."""
        ask = {
            "cross-validation": self.cross_validated,
            "nested CV": self.nested,
            "one look": self.once,
            **dict.fromkeys(OURS, self.verified),
        }.get(self.method, self.on_holdout)
        n = len(self.y)
        score, (low, high), model = search(n, self.rounds, seed, ask)
        if self.method == "final report":
            row = self.holdout.final_report(Linear(model), score, scoring="accuracy")
            score = row.value
            low = row.lower
            high = row.upper
        if self.method in ("one look", "two test sets"):
            first = len(self.y_holdout) // 2 if self.method == "two test sets" else 0
            hit = hits(model, self.X_holdout[first:], self.y_holdout[first:])
            score = hit.mean()
            low, high = binomial(score, len(hit), BETA / 2)
        return score, low, high, truth(model)

    def on_holdout(self, candidates, round_):
        """Return raw scores on the holdout, or on the part of it for this round."""
        rows = np.arange(len(self.y_holdout))
        if self.method == "fresh parts":
            rows = np.array_split(rows, self.rounds)[round_]
        elif self.method == "two test sets":
            rows = rows[: len(self.y_holdout) // 2]
        models = [fit(self.train_means, columns) for columns in candidates]
        scores = [
            hits(model, self.X_holdout[rows], self.y_holdout[rows]).mean() for model in models
        ]
        level = BETA / 2
        if self.method in ("Bonferroni", "fresh parts"):
            level /= CANDIDATES * self.rounds
        return scores, lambda j: binomial(scores[j], len(rows), level), models.__getitem__

    def verified(self, candidates, _):
        """Return the answers of a reusable holdout."""
        models = [fit(self.train_means, columns) for columns in candidates]
        values = [fold_scores(columns, self.train_folds).mean() for columns in candidates]
        holdout_hits = [hits(model, self.X_holdout, self.y_holdout) for model in models]
        answers = self.holdout.answer(values, holdout_hits, n_train=self.n_train)
        return answers.values, lambda j: (answers.lower[j], answers.upper[j]), models.__getitem__

    def once(self, candidates, _):
        """Return cross-validated scores of the training set; the interval comes at the end."""
        scores = [fold_scores(columns, self.train_folds).mean() for columns in candidates]
        return scores, lambda j: (0.0, 1.0), lambda j: fit(self.train_means, candidates[j])

    def cross_validated(self, candidates, _):
        """Return cross-validated scores of all records."""
        scores = [fold_scores(columns, self.all_folds) for columns in candidates]
        means = [score.mean() for score in scores]
        return means, lambda j: _plus_minus(scores[j]), lambda j: fit(self.all_means, candidates[j])

    def nested(self, candidates, _):
        """Return the score of the whole round in outer folds as that of the round's best candidate.

        All other candidates get the score -1.
        """
        outer_scores = []
        for outer_fold, inner_folds in zip(self.all_folds, self.inner_folds, strict=True):
            inner_scores = [fold_scores(columns, inner_folds).mean() for columns in candidates]
            inner_best = candidates[int(np.argmax(inner_scores))]
            outer_scores.append(fold_scores(inner_best, [outer_fold])[0])
        outer_scores = np.array(outer_scores)
        cv_scores = [fold_scores(columns, self.all_folds).mean() for columns in candidates]
        round_scores = np.full(len(candidates), -1.0)
        round_scores[int(np.argmax(cv_scores))] = outer_scores.mean()
        return (
            round_scores,
            lambda candidate: _plus_minus(outer_scores),
            lambda candidate: fit(self.all_means, candidates[candidate]),
        )

    def _inner_folds(self):
        """Yield the inner folds of each outer fold."""
        for test in self.folds:
            other_rows = np.setdiff1d(np.arange(len(self.y)), test)
            inner = np.array_split(np.arange(len(other_rows)), 5)
            yield trained(self.X[other_rows], self.y[other_rows], inner)


def report(method, n, rounds, seed):
    """Return reported score, interval and truth of the final model of one replication."""
    return Replication(method, n, rounds, seed).report([seed, 1])


def _plus_minus(scores):
    """Return the mean over folds ± 1.96 standard errors."""
    error = 1.96 * scores.std(ddof=1) / np.sqrt(len(scores))
    return scores.mean() - error, scores.mean() + error


def read_table(text):
    """Return ``{(records, rounds): {method: (half-width, coverage)}}`` of a printed table."""
    table = {}
    for block in re.split(r"\n(?=\d+ records)", text.strip()):
        head, _, *rows = block.splitlines()
        records, rounds = map(int, re.match(r"(\d+) records, (\d+) round", head).groups())
        for row in rows:
            *_, width, coverage = row.split()
            cell = float(width), float(coverage.rstrip("%")) / 100
            table.setdefault((records, rounds), {})[row[:18].strip()] = cell
    return table


def digest(text):
    """Return a short hash of a table; the picture contains it, and a test compares both."""
    return hashlib.sha256(text.strip().encode()).hexdigest()[:16]


def draw(text, path=PICTURE):
    """Draw half-width and coverage against rounds, one column for each number of records."""
    import matplotlib.pyplot as plt

    cells = read_table(text)
    sizes = sorted({records for records, _ in cells})
    rounds = sorted({rounds for _, rounds in cells})
    gray = "#808080"  # readable on white and on black
    colors = dict(
        zip(
            METHODS,
            ("#CC79A7", "#E69F00", "#B8860B", gray, "#009E73", "#D55E00", "#7F5A9E"),
            strict=False,
        )
    )
    colors |= {"interim": "#56B4E9", "final report": "#0072B2"}
    with plt.rc_context({"svg.fonttype": "none", "svg.hashsalt": "practice", "font.size": 9}):
        figure, axes = plt.subplots(
            2, len(sizes), figsize=(8.2, 5.4), sharex=True, sharey="row", layout="constrained"
        )
        for column, records in enumerate(sizes):
            for row, ax in enumerate(axes[:, column]):
                for method in METHODS:
                    values = [cells[records, n_rounds][method][row] for n_rounds in rounds]
                    ours = method in OURS
                    ax.plot(
                        range(len(rounds)),
                        values,
                        "o-" if ours else "s--",
                        color=colors[method],
                        linewidth=2 if ours else 1.2,
                        markersize=4,
                        label=method,
                    )
            axes[0, column].set_title(f"{records:,} records", color=gray)
            axes[1, column].axhline(0.95, color=gray, linewidth=1)
            axes[1, column].set_xticks(range(len(rounds)), [str(n_rounds) for n_rounds in rounds])
            axes[1, column].set_xlabel(f"rounds of {CANDIDATES} candidates")
        axes[0, 0].set(ylabel="half-width of the interval", ylim=(0, None))
        axes[1, 0].set(ylabel="coverage (line: 95%)", ylim=(0, 1.03))
        for ax in axes.flat:
            ax.set_facecolor("none")
            ax.tick_params(colors=gray)
            ax.spines[:].set_color(gray)
            ax.xaxis.label.set_color(gray)
            ax.yaxis.label.set_color(gray)
        figure.legend(
            *axes[0, 0].get_legend_handles_labels(),
            loc="outside right upper",
            labelcolor=gray,
            frameon=False,
        )
        figure.savefig(path, transparent=True, metadata={"Date": None, "Title": digest(text)})


def main():
    """Print one table for each size and number of rounds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--replications", type=int, default=40, help="simulated data sets")
    parser.add_argument(
        "--sizes", type=int, nargs="+", default=[400, 2000], help="numbers of records"
    )
    parser.add_argument(
        "--rounds", type=int, nargs="+", default=[1, 3, 10], help="numbers of rounds"
    )
    parser.add_argument(
        "--draw", action="store_true", help="only draw the table in benchmarks/results.md"
    )
    options = parser.parse_args()
    if options.draw:
        from benchmarks.__main__ import printed

        draw(printed("compare_practice"))
        return
    # Each replication is an experiment of its own.
    warnings.simplefilter("ignore", SecondHoldoutWarning)
    for n in options.sizes:
        for rounds in options.rounds:
            plural = "" if rounds == 1 else "s"
            print(f"\n{n} records, {rounds} round{plural} of {CANDIDATES} candidates")
            head = f"{'':18}{'reported':>9}{'truth':>8}{'too high by':>12}"
            print(f"{head}{'half-width':>11}{'coverage':>9}", flush=True)
            for method in METHODS:
                rows = np.array(
                    [report(method, n, rounds, seed) for seed in range(options.replications)]
                )
                score, low, high, true = rows.T
                inside = np.mean((low <= true) & (true <= high))
                line = f"{method:18}{score.mean():9.3f}{true.mean():8.3f}"
                line += f"{(score - true).mean():+12.3f}{(high - low).mean() / 2:11.3f}"
                print(f"{line}{inside:9.0%}", flush=True)


if __name__ == "__main__":
    main()
