"""Rolling windows of a real series: three adaptive rounds of search, the truth lies ahead."""

import math
import warnings

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.dependence.processes import interval
from sklearn_bdp import ReusableHoldoutSearchCV
from sklearn_bdp.correlation import Independent, MarkovChain
from sklearn_bdp.correlation.chain import slow_autocorrelation_time


def show_series(path, target, *, windows):
    """Print half-width and coverage of rolling windows of a real series."""
    with open(path) as file:
        names = file.readline().strip().split(",")
    table = np.genfromtxt(path, delimiter=",", skip_header=1)
    y = table[:, names.index(target)].astype(int)
    X = np.delete(table, names.index(target), axis=1)
    length = len(y) // (windows + 1) * 2  # windows overlap by half
    linear = make_pipeline(StandardScaler(), LogisticRegression(max_iter=500))
    forest = RandomForestClassifier(60, max_features=2, random_state=0, n_jobs=1)
    rounds = [
        (linear, {"logisticregression__C": [0.01, 0.1, 1.0]}),
        (forest, {"min_samples_leaf": [2, 8, 32]}),
    ]
    rows = {name: [] for name in ("None", "label chain", "scores", "binomial")}
    for start in np.linspace(0, len(y) - length, windows).astype(int):
        part = slice(start, start + length)
        n_past = int(0.8 * length)
        past_features = X[part][:n_past]
        labels = y[part][:n_past]
        aside = X[part][n_past:]
        truth = y[part][n_past:]
        chain = MarkovChain.from_states(labels[: 2 * n_past // 3])
        first = 2 * n_past // 5
        model = linear.fit(past_features[:first], labels[:first])
        scores = model.predict(past_features[first : 2 * first]) == labels[first : 2 * first]
        score_chain = MarkovChain.from_scores(scores.astype(float))
        for name, correlation in (("None", None), ("label chain", chain), ("scores", score_chain)):
            low, high, model, search = adaptive(
                ReusableHoldoutSearchCV, rounds, past_features, labels, correlation
            )
            rows[name].append(covered((low, high), model, aside, truth))
            if name == "scores":  # the same holdout, one model, as if records were independent
                holdout = search.holdout_indices_
                scores = (model.predict(past_features[holdout]) == labels[holdout]).astype(float)
                binomial = interval(Independent(), scores)
                rows["binomial"].append(covered(binomial, model, aside, truth))
    print(f"series: {windows} windows of {length} records, three adaptive rounds, truth ahead")
    print(f"{'declared':12} {'half-width':>11} {'covers':>8}   (score ahead known to one s.e.)")
    for name, intervals in rows.items():
        widths, hits = zip(*intervals, strict=True)
        print(f"{name:12} {np.mean(widths):11.3f} {sum(hits):4}/{len(hits)}")


def adaptive(search_class, rounds, X, y, correlation):
    """Return the interval of the model chosen last of three rounds, each knowing the one before."""
    holdout = 0.25
    best = None
    parts = [*rounds, None]
    train = None
    for estimator_grid in parts:
        if estimator_grid is None:  # go on around the better one
            estimator = best.estimator
            grid = refine(best.best_params_)
        else:
            estimator, grid = estimator_grid
        search = search_class(
            estimator, grid, correlation=correlation, holdout=holdout, random_state=0, cv=4
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            search.fit(*((X, y) if train is None else (X[train], y[train])))
        if train is None:
            first = search
            train = search.train_indices_
            holdout = search.holdout_
            correlation = None
        if best is None or search.best_score_ > best.best_score_:
            best = search
    low, high = best.best_interval_
    return low, high, best.best_estimator_, first


def refine(params):
    """Return a grid around the best parameters."""
    ((name, value),) = params.items()
    values = [value / 3, value * 3] if isinstance(value, float) else [max(1, value // 2), value + 3]
    return {name: values}


def covered(limits, model, X, y):
    """Return the half-width, and whether the interval meets the score ahead up to its error."""
    scores = (model.predict(X) == y).astype(float)
    error = math.sqrt(scores.var() * slow_autocorrelation_time(scores) / len(scores))
    low, high = limits
    return (high - low) / 2.0, bool(low - error <= scores.mean() <= high + error)
