"""Coverage and width of the rows of a final report, on records whose truth is known.

A fixed model on independent records, on patients with one to six visits, and on an autoregression.
Each report has three rows, so each of them may fail with about a third of 4.5 %: exact ones through
the mechanism, approximate ones read from the closed holdout (theory G22). Beside them the plain
bootstrap of records at 95 %, which ignores what was asked and how records depend on each other.

    python -m benchmarks.final_report                 # 12 replications
    python -m benchmarks.final_report --size full     # 2,000
"""

import argparse
import warnings

import numpy as np
from scipy.signal import lfilter
from scipy.special import expit
from sklearn import metrics
from sklearn.base import BaseEstimator, ClassifierMixin

from sklearn_bdp import ReusableHoldout
from sklearn_bdp.correlation import Groups, Independent, MarkovChain

REPLICATIONS = {"small": 12, "full": 2000}
EXACT = ("accuracy", "neg_brier_score", "recall")
APPROXIMATE = ("roc_auc", "average_precision", "f1_macro")
WALK = 0.6  # autocorrelation of the series


class Fixed(ClassifierMixin, BaseEstimator):
    """A model that was fitted long ago: the first column is its log odds."""

    def fit(self, X=None, y=None):
        """Set the classes."""
        self.classes_ = np.array([0, 1])
        return self

    def decision_function(self, X):
        """Return log odds."""
        return np.asarray(X)[:, 0]

    def predict(self, X):
        """Return classes."""
        return (self.decision_function(X) > 0).astype(int)

    def predict_proba(self, X):
        """Return probabilities."""
        chance = expit(self.decision_function(X))
        return np.column_stack([1.0 - chance, chance])


def draw(kind, count, rng):
    """Return log odds, labels and the declared correlation of some records."""
    if kind == "time":
        noise = rng.normal(size=(2, count + 50)) * np.sqrt(1.0 - WALK**2)
        x, e = lfilter([1.0], [1.0, -WALK], noise, axis=1)[:, 50:]
        model = MarkovChain.from_autocorrelation_time(1.5 * (1.0 + WALK) / (1.0 - WALK))
    elif kind == "patients":
        groups = np.repeat(np.arange(count), rng.integers(1, 7, count))
        own = rng.normal(size=(2, count))[:, groups]
        x, e = 0.7 * own + np.sqrt(1.0 - 0.49) * rng.normal(size=own.shape)
        model = Groups(groups)
    else:
        x, e = rng.normal(size=(2, count))
        model = Independent()
    return 1.5 * x, (x + 0.8 * e > 0.5).astype(int), model


def value(name, x, y):
    """Return a metric in scikit-learn's units."""
    said = (x > 0).astype(int)
    return {
        "accuracy": lambda: float(np.mean(said == y)),
        "recall": lambda: float(said[y == 1].mean()),
        "neg_brier_score": lambda: -float(np.mean((expit(x) - y) ** 2)),
        "roc_auc": lambda: metrics.roc_auc_score(y, x),
        "average_precision": lambda: metrics.average_precision_score(y, x),
        "f1_macro": lambda: metrics.f1_score(y, said, average="macro"),
    }[name]()


def bootstrap(name, x, y, rng, draws=100):
    """Return the percentile interval of records at 95 %."""
    found = [value(name, x[rows], y[rows]) for rows in rng.integers(len(y), size=(draws, len(y)))]
    return np.quantile(found, [0.025, 0.975])


def replication(kind, count, seed, truth):
    """Return for each metric whether the report and the bootstrap are right, and their widths."""
    rng = np.random.default_rng(seed)
    x, y, model = draw(kind, count, rng)
    rows = {}
    for names, interval in ((EXACT, "exact"), (APPROXIMATE, "approximate")):
        holdout = ReusableHoldout(x[:, None], y, correlation=model, random_state=seed)
        report = holdout.final_report(Fixed().fit(), scoring=list(names), interval=interval)
        for name, row in zip(names, report.rows, strict=True):
            low, high = bootstrap(name, x, y, rng)
            right = row.lower <= truth[name] <= row.upper
            width = 0.5 * (row.upper - row.lower), 0.5 * (high - low)
            rows[name] = (right, width[0], low <= truth[name] <= high, width[1])
    return rows


def main():
    """Print one table for each kind of records."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=tuple(REPLICATIONS), default="small")
    replications = REPLICATIONS[parser.parse_args().size]
    warnings.simplefilter("ignore")
    for kind, count in (("independent", 500), ("patients", 150), ("patients", 500), ("time", 3000)):
        x, y, _ = draw(kind, 300_000, np.random.default_rng(0))
        truth = {name: value(name, x, y) for name in EXACT + APPROXIMATE}
        found = [replication(kind, count, seed, truth) for seed in range(replications)]
        print(f"\n{count} {kind}{'':4}{'report holds in':>20}{'half-width':>12}"
              f"{'bootstrap holds in':>20}{'half-width':>12}")  # fmt: skip
        for name in EXACT + APPROXIMATE:
            right, width, boot, other = np.nanmean(
                np.array([rows[name] for rows in found], dtype=float), axis=0
            )
            kept = "exact" if name in EXACT else "approximate"
            print(f"{name + ', ' + kept:<32}{right:>8.1%}{width:>12.3f}{boot:>20.1%}{other:>12.3f}")


if __name__ == "__main__":
    main()
