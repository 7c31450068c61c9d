"""Coverage and width of the rows of a final report, on records whose truth is known.

A fixed model on independent records, on patients with one to six visits, and on an autoregression.
Each report has three rows, so each of them may fail with about a third of 4.5 %: exact ones through
the mechanism, approximate ones read from the closed holdout (theory G22). Beside them the plain
bootstrap of records at 95 %, which ignores what was asked and how records depend on each other.
Metrics are worked out by counts, thousands of times faster than one call each of scikit-learn's,
which give the same numbers (checked on every sample).

    python -m benchmarks.final_report                 # 12 replications
    python -m benchmarks.final_report --size full     # 2,000
    python -m benchmarks.final_report --kinds 0 1     # independent records, 150 patients
"""

import argparse
import contextlib
import warnings

import numpy as np
from scipy.signal import lfilter
from scipy.special import expit
from sklearn import metrics
from sklearn.base import BaseEstimator, ClassifierMixin

from sklearn_bdp import ReusableHoldout
from sklearn_bdp.correlation import Groups, Independent, MarkovChain
from sklearn_bdp.holdout import _approximate

REPLICATIONS = {"small": 12, "full": 2000}
KINDS = (("independent", 500), ("patients", 150), ("patients", 500), ("time", 3000))
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
    """Return a metric by scikit-learn."""
    said = (x > 0).astype(int)
    return {
        "accuracy": lambda: metrics.accuracy_score(y, said),
        "recall": lambda: metrics.recall_score(y, said),
        "neg_brier_score": lambda: -metrics.brier_score_loss(y, expit(x)),
        "roc_auc": lambda: metrics.roc_auc_score(y, x),
        "average_precision": lambda: metrics.average_precision_score(y, x),
        "f1_macro": lambda: metrics.f1_score(y, said, average="macro"),
    }[name]()


def counted(name, x, y, weights=None):
    """Return the same of samples that hold each record ``weights`` times; no two ``x`` are equal.

    ``weights`` are of shape (samples, records).
    """
    weights = np.ones((1, len(y))) if weights is None else weights
    hit = (x > 0) == y
    if name in ("accuracy", "neg_brier_score"):
        scores = hit if name == "accuracy" else -np.square(expit(x) - y)
        return weights @ scores / weights.sum(axis=1)
    if name in ("recall", "f1_macro"):
        right = [weights @ (hit & (y == c)) for c in (0, 1)]
        actual, called = ([weights @ (part == c) for c in (0, 1)] for part in (y, x > 0))
        if name == "recall":
            return right[1] / actual[1]
        return sum(2.0 * right[c] / (actual[c] + called[c]) for c in (0, 1)) / 2.0
    order = np.argsort(-x)
    weights, y = weights[:, order], y[order]
    found = np.cumsum(weights * y, axis=1)
    if name == "roc_auc":
        negatives = weights * (1 - y)
        return (negatives * found).sum(axis=1) / (negatives.sum(axis=1) * found[:, -1])
    # A record that is there w times is w ties: one step of the curve.
    precision = found / np.maximum(np.cumsum(weights, axis=1), 1.0)
    return (weights * y * precision).sum(axis=1) / found[:, -1]


def bootstrap(name, x, y, rng, draws=100):
    """Return the percentile interval of records at 95 %."""
    weights = rng.multinomial(len(y), np.full(len(y), 1.0 / len(y)), size=draws)
    return np.quantile(counted(name, x, y, weights.astype(float)), [0.025, 0.975])


@contextlib.contextmanager
def by_counts():
    """Let approximate rows use the same numbers, worked out by counts."""
    before = {name: _approximate.STATISTICS[name] for name in APPROXIMATE}
    for name, statistic in before.items():
        labels = name == "f1_macro"  # labels come as 0 and 1
        _approximate.STATISTICS[name] = statistic._replace(
            function=lambda y, x, name=name, labels=labels: float(
                counted(name, x - 0.5 if labels else x, y)[0]
            )
        )
    try:
        yield
    finally:
        _approximate.STATISTICS.update(before)


def replication(kind, count, seed, truth):
    """Return for each metric whether the report and the bootstrap are right, and their widths."""
    rng = np.random.default_rng(seed)
    x, y, model = draw(kind, count, rng)
    for name in EXACT + APPROXIMATE:
        assert np.isclose(counted(name, x, y)[0], value(name, x, y), rtol=1e-9)
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
    parser.add_argument("--kinds", type=int, nargs="+", default=range(len(KINDS)), help="from 0")
    options = parser.parse_args()
    replications = REPLICATIONS[options.size]
    warnings.simplefilter("ignore")
    for kind, count in (KINDS[place] for place in options.kinds):
        x, y, _ = draw(kind, 300_000, np.random.default_rng(0))
        truth = {name: value(name, x, y) for name in EXACT + APPROXIMATE}
        with by_counts():
            found = [replication(kind, count, seed, truth) for seed in range(replications)]
        print(f"\n{count} {kind}{'':4}{'report holds in':>20}{'half-width':>12}"
              f"{'bootstrap holds in':>20}{'half-width':>12}")  # fmt: skip
        for name in EXACT + APPROXIMATE:
            right, width, boot, other = np.nanmean(
                np.array([rows[name] for rows in found], dtype=float), axis=0
            )
            kept = "exact" if name in EXACT else "approximate"
            line = f"{name + ', ' + kept:<32}{right:>8.1%}{width:>12.3f}"
            print(f"{line}{boot:>20.1%}{other:>12.3f}", flush=True)


if __name__ == "__main__":
    main()
