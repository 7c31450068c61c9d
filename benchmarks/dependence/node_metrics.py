"""Scores by class of nodes: how often approximate intervals miss (theory G31, G34).

The labels of the holdout nodes are drawn again given the training nodes: independent, not alike.
The target is the statistic of the nodes' average distribution, which is known.
"""

import math
import warnings

import numpy as np

from benchmarks.dependence.node_predictions import Field, NeighborVote, graphs_as_matrices
from sklearn_bdp import ReusableHoldoutSearchCV
from sklearn_bdp.correlation import MarkovNetwork
from sklearn_bdp.correlation.cutting import match_nodes
from sklearn_bdp.intervals.approximate import ApproximateLimits
from sklearn_bdp.metrics.approximate import Predictions, approximate_metric

LEVELS = (0.05, 0.01, 0.001)


def roc_auc(chance, score, call):
    """Return how often a node of label 1 has the higher score; scores have no ties."""
    order = np.argsort(score, kind="stable")
    positive = chance[..., order]
    negative = 1.0 - chance[..., order]
    below = np.cumsum(negative, axis=-1) - 0.5 * negative
    return (positive * below).sum(axis=-1) / (positive.sum(axis=-1) * negative.sum(axis=-1))


def recall(chance, score, call):
    """Return the part of label 1 that is called 1."""
    return (chance * call).sum(axis=-1) / chance.sum(axis=-1)


def balanced_accuracy(chance, score, call):
    """Return the mean recall of both labels."""
    return 0.5 * (recall(chance, score, call) + recall(1.0 - chance, score, 1 - call))


def f1(chance, score, call):
    """Return the F1 score of label 1."""
    return 2.0 * (chance * call).sum(axis=-1) / (chance.sum(axis=-1) + call.sum())


#: Metrics of nodes whose label is 1 with some chance (rows of chances; labels are 0 and 1): from
#: the response of the model to each node, a score and a label.
METRICS = {"roc_auc": roc_auc, "balanced_accuracy": balanced_accuracy, "recall": recall, "f1": f1}


def reference_of(metric, field, X, y, train, folds):
    """Return the spread of a metric by out-of-fold predictions of the training nodes."""
    fold_predictions = []
    for fold_train, fold_test in folds:
        model = NeighborVote(field.graph).fit(X[train[fold_train]], y[train[fold_train]])
        tested = train[fold_test]
        fold_predictions.append(metric.predictions(model, X[tested], y[tested]))
    n_holdout = len(y) - len(train)
    return metric.training_reference(
        Predictions.concatenate(fold_predictions),
        unit_codes=None,
        n_holdout_units=n_holdout,
        n_holdout_records=n_holdout,
    )


def one_dataset(field, seed, n_draws):
    """Return how often limits of a fixed model miss, by metric and level."""
    X, y = field.draw()
    network = MarkovNetwork(field.graph)
    split = network.split(len(y), 0.25, random_state=seed)
    train = split.train
    holdout = split.holdout
    model = NeighborVote(field.graph).fit(X[train], y[train])
    response = model.predict_proba(X[holdout])[:, 1]
    call = model.predict(X[holdout])
    chance = field.chances(y, X[:, 1], holdout)
    draws = (field.rng.random((n_draws, len(holdout))) < chance).astype(float)
    folds = match_nodes(network, train, holdout).folds(5)
    missed = {}
    for name, statistic in METRICS.items():
        metric = approximate_metric(name, y[train])
        reference = reference_of(metric, field, X, y, train, folds)
        limits = ApproximateLimits(reference.family, len(holdout), reference.spread)
        values = statistic(draws, response, call)
        truth = float(statistic(chance, response, call))
        for level in LEVELS:
            lower, upper = limits.limits(values, values, np.full(n_draws, math.log(level / 2)))
            missed[name, level] = float(np.mean((truth < lower) | (truth > upper)))
    return missed


def one_search(field, seed):
    """Return whether intervals of ROC AUC contained the target: in the search, in the report."""
    X, y = field.draw()
    search = ReusableHoldoutSearchCV(
        NeighborVote(field.graph),
        {"C": [0.03, 0.3, 3.0]},
        correlation=MarkovNetwork(field.graph),
        scoring="roc_auc",
        random_state=seed,
    ).fit(X, y)
    holdout = search.holdout_indices_
    score = search.best_estimator_.predict_proba(X[holdout])[:, 1]
    truth = float(roc_auc(field.chances(y, X[:, 1], holdout), score, None))
    lower, upper = search.best_interval_
    (row,) = search.final_report().rows
    report_lower, report_upper = row.approximate
    inside = report_lower <= truth <= report_upper
    return lower <= truth <= upper, inside, (report_upper - report_lower) / 2.0


def show_node_metrics(replications, *, n_draws=4000):
    """Print non-coverage over level of fixed models, and coverage of searches."""
    print(f"metrics of nodes: non-coverage over level at {LEVELS}, {replications} data sets")
    for name, matrix in graphs_as_matrices().items():
        field = Field(matrix, np.random.default_rng(2))
        misses = [one_dataset(field, seed, n_draws) for seed in range(max(replications // 10, 1))]
        for metric in METRICS:
            ratios = [np.mean([f[metric, level] for f in misses]) / level for level in LEVELS]
            print(f"  {name:<16} {metric:<18} " + " / ".join(f"{ratio:.2f}" for ratio in ratios))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            runs = np.array([one_search(field, seed) for seed in range(replications)], dtype=float)
        search, report, half = runs.mean(axis=0)
        print(f"  {name:<16} ROC AUC contained: {search:.3f} (search), {report:.3f} (±{half:.3f})")


if __name__ == "__main__":
    show_node_metrics(200)
