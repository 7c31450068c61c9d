"""What ``HoldoutScorer`` adds to the tools it is passed to, beside ``scoring="accuracy"``.

Both go through the same client, in turn, and time is that of the processor. The scorer fits and
predicts what the plain one does, and besides lets each model predict the holdout, makes a key,
compares training rows with the holdout, and records the answer. The limit is 1.5 times the plain
client and 2 ms for each answer; the last column is our time as a part of that limit.

    python -m benchmarks.bench_scorer [NAME ...] [--runs 5]
"""

import argparse
import statistics
import time
import warnings
from functools import partial

from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.inspection import permutation_importance
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    GridSearchCV,
    HalvingGridSearchCV,
    cross_validate,
    learning_curve,
    train_test_split,
    validation_curve,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_bdp import HoldoutScorer, ReusableHoldout

#: Limit: this many times the plain client, and these seconds for each answer.
TIMES = 1.5
EACH = 0.002
LOGISTIC = make_pipeline(StandardScaler(), LogisticRegression())
MODELS = {
    "logistic regression": LOGISTIC,
    "gradient boosting": HistGradientBoostingClassifier(max_iter=30, random_state=0),
    "forest": RandomForestClassifier(30, random_state=0),
}


def _validate(model, X, y, scoring):
    cross_validate(model, X, y, cv=5, scoring=scoring)


def _learn(model, X, y, scoring):
    learning_curve(model, X, y, cv=5, scoring=scoring)


def _tune(model, X, y, scoring):
    leaf = clone(model[-1] if hasattr(model, "steps") else model).get_params()
    name = next(n for n in ("C", "max_depth") if n in leaf)
    prefix = "logisticregression__" if hasattr(model, "steps") else ""
    values = [1, 2, 3, 4, 5]
    validation_curve(
        model, X, y, param_name=prefix + name, param_range=values, cv=5, scoring=scoring
    )


def _grid(search_class, model, X, y, scoring):
    name = "logisticregression__C" if hasattr(model, "steps") else "max_depth"
    search_class(model, {name: [1, 2, 3, 4, 5, 6, 7, 8]}, cv=5, scoring=scoring, refit=False).fit(
        X, y
    )


def _importance(model, X, y, scoring):
    permutation_importance(model.fit(X, y), X, y, n_repeats=5, random_state=0, scoring=scoring)


CLIENTS = {
    "cross_validate": _validate,
    "learning_curve": _learn,
    "validation_curve": _tune,
    "GridSearchCV": partial(_grid, GridSearchCV),
    "HalvingGridSearchCV": partial(_grid, HalvingGridSearchCV),
    "permutation_importance": _importance,
}


def seconds(function, *args):
    """Return the processor time of one call."""
    start = time.process_time()
    function(*args)
    return time.process_time() - start


def measure(client, model, data, runs):
    """Return medians of plain and our seconds and of their ratio, and the number of answers."""
    X, X_holdout, y, y_holdout = data
    peer = []
    ours = []
    answers = 0
    for _ in range(runs):
        peer.append(seconds(client, clone(model), X, y, "accuracy"))
        holdout = ReusableHoldout(X_holdout, y_holdout)
        ours.append(seconds(client, clone(model), X, y, HoldoutScorer(holdout, "accuracy")))
        answers = len(holdout.history())
    ratio = statistics.median(b / a for a, b in zip(peer, ours, strict=True))
    return statistics.median(peer), statistics.median(ours), ratio, answers


def main():
    """Print one line for each client and model."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", choices=[[], *CLIENTS], default=[])
    parser.add_argument("--models", nargs="*", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--records", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    X, y = make_classification(options.records * 4 // 3, 20, random_state=0)
    data = train_test_split(X, y, test_size=0.25, random_state=0)
    head = ("answers", "plain s", "ours s", "ratio", "ms an answer", "of the limit")
    print(f"{'client, model':46}" + "".join(f"{name:>13}" for name in head))
    for name in options.names or CLIENTS:
        for model in options.models:
            peer, ours, ratio, n = measure(CLIENTS[name], MODELS[model], data, options.runs)
            extra = 1e3 * (ours - peer) / n
            share = ours / (TIMES * peer + EACH * n)
            numbers = f"{n:13}{peer:13.3f}{ours:13.3f}{ratio:13.2f}{extra:13.2f}{share:13.2f}"
            print(f"{f'{name}, {model}':46}{numbers}", flush=True)


if __name__ == "__main__":
    main()
