"""Early stopping by the holdout or by a part of the training set, and one query at the end.

Iterations and accuracy of the resulting model, information spent, and the half-width of its
interval::

    python -m benchmarks.early_stopping --seeds 10

Because of these results, scorers that query the holdout at each iteration are rejected.
"""

import argparse
import functools
import warnings

import numpy as np
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import accuracy_score

from sklearn_bdp import ReusableHoldout

N_TRAIN = 2_000
N_HOLDOUT = 1_000
N_TEST = 20_000
MAX_ITERATIONS = 100
#: Iterations without an improvement after which boosting stops.
PATIENCE = 10


def main(arguments=None):
    """Print one line for each way of stopping."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10, help="number of simulated data sets")
    options = parser.parse_args(arguments)
    methods = {
        "training rows (scikit-learn)": stop_by_training_rows,
        "holdout, each iteration": functools.partial(stop_by_holdout, step=1),
        "holdout, every 5th": functools.partial(stop_by_holdout, step=5),
        "holdout, every 20th": functools.partial(stop_by_holdout, step=20),
    }
    print(f"{'stopped by':<30} {'iterations':>10} {'fresh':>7} {'spent':>7} {'half-width':>10}")
    for name, method in methods.items():
        results = [stop_and_verify(method, seed) for seed in range(options.seeds)]
        n_iterations, new_accuracy, nats, half_width = np.mean(results, axis=0)
        print(
            f"{name:<30} {n_iterations:>10.1f} {new_accuracy:>7.4f} {nats:>7.1f} "
            f"{half_width:>10.4f}"
        )


def stop_and_verify(method, seed):
    """Return iterations, accuracy on new records, nats spent, half-width of one last query."""
    n_known = N_TRAIN + N_HOLDOUT
    X, y = make_classification(
        n_known + N_TEST, 20, n_informative=6, flip_y=0.15, random_state=seed
    )
    holdout = ReusableHoldout(X[N_TRAIN:n_known], y[N_TRAIN:n_known], random_state=seed)
    model, training_score = method(X[:N_TRAIN], y[:N_TRAIN], holdout, seed)
    answer = holdout.score(model, training_score)
    new_accuracy = model.score(X[n_known:], y[n_known:])
    half_width = (answer.upper - answer.lower) / 2
    return model.n_iter_, new_accuracy, holdout.information_spent, half_width


def stop_by_training_rows(X, y, holdout, seed):
    """Return a model that scikit-learn stops by a part of the training set, and its last score."""
    model = HistGradientBoostingClassifier(
        max_iter=MAX_ITERATIONS,
        early_stopping=True,
        n_iter_no_change=PATIENCE,
        scoring="accuracy",
        random_state=seed,
    ).fit(X, y)
    return model, model.validation_score_[-1]


def stop_by_holdout(X, y, holdout, seed, *, step):
    """Return a model that is stopped by its verified score, and its score on a tenth of ``X``.

    The holdout is queried after every ``step`` iterations.
    """
    is_scored = np.random.default_rng(seed).permutation(len(y)) < len(y) // 10
    X_fit = X[~is_scored]
    y_fit = y[~is_scored]
    model = HistGradientBoostingClassifier(early_stopping=False, warm_start=True, random_state=seed)
    best_score = -np.inf
    n_waited = 0
    training_score = 0.5
    for n_iterations in range(step, MAX_ITERATIONS + 1, step):
        model.set_params(max_iter=n_iterations).fit(X_fit, y_fit)
        training_score = accuracy_score(y[is_scored], model.predict(X[is_scored]))
        verified_score = float(holdout.score(model, training_score))
        if verified_score > best_score + 1e-7:
            best_score = verified_score
            n_waited = 0
        else:
            n_waited += step
        if n_waited >= PATIENCE:
            break
    return clone(model).set_params(warm_start=False).fit(X_fit, y_fit), training_score


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
