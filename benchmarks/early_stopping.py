"""Early stopping by the holdout, by a part of the training rows, and one query at the end.

Which model comes out, the spending of the account, and how wide the interval of the result is::

    python -m benchmarks.early_stopping --seeds 10

Scorers that ask at each iteration are refused since this was measured.
"""

import argparse
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
MOST = 100
PATIENCE = 10


def main(arguments=None):
    """Print one line for each way of stopping."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    options = parser.parse_args(arguments)
    methods = {
        "training rows (scikit-learn)": native,
        "holdout, each iteration": lambda *data: by_holdout(*data, every=1),
        "holdout, every 5th": lambda *data: by_holdout(*data, every=5),
        "holdout, every 20th": lambda *data: by_holdout(*data, every=20),
    }
    print(f"{'stopped by':<30} {'iterations':>10} {'fresh':>7} {'spent':>7} {'half-width':>10}")
    for name, method in methods.items():
        rows = np.array([measured(method, seed) for seed in range(options.seeds)])
        iterations, fresh, spent, width = rows.mean(axis=0)
        print(f"{name:<30} {iterations:>10.1f} {fresh:>7.4f} {spent:>7.1f} {width:>10.4f}")


def measured(method, seed):
    """Return iterations, accuracy on new records, nats spent, half-width of one last query."""
    X, y = make_classification(
        N_TRAIN + N_HOLDOUT + N_TEST, 20, n_informative=6, flip_y=0.15, random_state=seed
    )
    first = N_TRAIN
    second = N_TRAIN + N_HOLDOUT
    holdout = ReusableHoldout(X[first:second], y[first:second], random_state=seed)
    model, value = method(X[:first], y[:first], holdout, seed)
    answer = holdout.score(model, value)
    fresh = model.score(X[second:], y[second:])
    return model.n_iter_, fresh, holdout.information_spent, (answer.upper - answer.lower) / 2


def boosting(seed, **options):
    """Return the model that is stopped."""
    return HistGradientBoostingClassifier(random_state=seed, **options)


def native(X, y, holdout, seed):
    """Stop by scikit-learn's own part of the training rows."""
    options = {"max_iter": MOST, "n_iter_no_change": PATIENCE, "scoring": "accuracy"}
    model = boosting(seed, early_stopping=True, **options).fit(X, y)
    return model, model.validation_score_[-1]


def by_holdout(X, y, holdout, seed, *, every):
    """Stop where the verified score has not improved for so many iterations."""
    part = np.random.default_rng(seed).permutation(len(y)) < len(y) // 10
    model = boosting(seed, early_stopping=False, warm_start=True)
    best = -np.inf
    n_waited = 0
    value = 0.5
    for count in range(every, MOST + 1, every):
        model.set_params(max_iter=count).fit(X[~part], y[~part])
        value = accuracy_score(y[part], model.predict(X[part]))
        released = float(holdout.score(model, value))
        best, n_waited = (released, 0) if released > best + 1e-7 else (best, n_waited + every)
        if n_waited >= PATIENCE:
            break
    return clone(model).set_params(warm_start=False).fit(X[~part], y[~part]), value


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
