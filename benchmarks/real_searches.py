"""Four adaptive searches of 40 candidates on one small holdout of real data, beside Bonferroni.

A pool of 160 candidates is drawn in advance. The first search verifies the first 40, each later one
the 40 unused candidates whose parameters are nearest to the best verified so far. Columns are means
over seeds (random splits): the score of the selected candidate and the lower limit of its interval
after the first and the fourth search, the information spent, and the best lower limit by Bonferroni
over the pool (Clopper-Pearson for accuracies), which is valid only because the pool was fixed in
advance.

    python benchmarks/real_searches.py                      # 200 records of digits, five seeds
    python benchmarks/real_searches.py --data all --seeds 2
"""

import argparse
import dataclasses
import math
import warnings

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.model_selection import cross_val_predict, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

from sklearn_bdp import ReusableHoldout
from sklearn_bdp.accounting.noise_calibration import RELAXED_FRACTION
from sklearn_bdp.correlation import Independent
from sklearn_bdp.intervals.concentration import ModelTail

SEARCHES = 4
SIZE = 40


def machine(model):
    """Return a function of the logs of C and gamma that makes a support vector machine."""
    return lambda log_c, log_gamma: make_pipeline(
        StandardScaler(), model(C=10.0**log_c, gamma=10.0**log_gamma)
    )


def trees(depth, tenths):
    """Return three trees, whose resubstitution scores are far too good."""
    return ExtraTreesClassifier(3, max_depth=int(depth), max_features=tenths / 10, random_state=0)


LOGS = ((-1.0, -5.0), (3.0, -0.5))
TREES = ((3.0, 1.0), (15.0, 10.0))
DATA = {
    "digits": (load_digits, 200, machine(SVC), LOGS),
    "breast cancer": (load_breast_cancer, 150, machine(SVC), LOGS),
    "diabetes": (load_diabetes, 120, machine(SVR), LOGS),
    "digits, trees": (load_digits, 300, trees, TREES),
}


@dataclasses.dataclass(frozen=True)
class Pool:
    """Parameters and scores of candidates; the first axis of each array counts candidates."""

    parameters: np.ndarray
    training_scores: np.ndarray  # of each training record, out of its fold
    resubstitution: np.ndarray  # mean over the training records by a model that was fitted on them
    scores: np.ndarray  # of each holdout record

    @property
    def cv_scores(self):
        """Cross-validated scores."""
        return self.training_scores.mean(axis=1)

    @property
    def n_train(self):
        """Number of training records."""
        return self.training_scores.shape[1]

    @property
    def binary(self):
        """Whether scores are hits and misses."""
        return self.scores.dtype.kind == "i"


def make_pool(name, seed, count=SEARCHES * SIZE):
    """Return a pool of candidates that are fitted on the training set and scored."""
    load, n_holdout, make, ranges = DATA[name]
    X, y = load(return_X_y=True)
    X, X_holdout, y, y_holdout = train_test_split(X, y, test_size=n_holdout, random_state=seed)
    rng = np.random.default_rng(seed)
    parameters = rng.uniform(*ranges, (count, 2))
    training_scores = []
    resubstitution_scores = []
    holdout_scores = []
    for candidate_parameters in parameters:
        estimator = make(*candidate_parameters)
        training_scores.append(score(y, cross_val_predict(estimator, X, y, cv=3), y))
        resubstitution_scores.append(score(y, estimator.fit(X, y).predict(X), y).mean())
        holdout_scores.append(score(y_holdout, estimator.predict(X_holdout), y))
    return Pool(
        parameters,
        training_scores=np.array(training_scores),
        resubstitution=np.array(resubstitution_scores),
        scores=np.array(holdout_scores),
    )


def score(truth, predicted, training_targets):
    """Return hits, or for a regression 1 minus the error over the range of training targets."""
    if training_targets.dtype.kind == "i":
        return (truth == predicted).astype(int)
    error = np.abs(truth - predicted) / np.ptp(training_targets)
    return 1.0 - np.minimum(error, 1.0)


def play(pool, answer):
    """Search four times; return the selected candidate's (value, lower, upper) of every search.

    ``answer(positions)`` returns released values, lower and upper ends.
    """
    is_open = np.ones(len(pool.parameters), dtype=bool)
    chosen = np.arange(SIZE)
    best = (-math.inf, 0)
    answers = []
    for _ in range(SEARCHES):
        values, lower, upper = answer(chosen)
        is_open[chosen] = False
        top = int(np.argmax(values))
        best = max(best, (float(values[top]), int(chosen[top])))
        answers.append((values[top], lower[top], upper[top]))
        distance = np.abs(pool.parameters - pool.parameters[best[1]]).sum(axis=1)
        chosen = np.argsort(np.where(is_open, distance, math.inf), kind="stable")[:SIZE]
    return np.array(answers)


def through_the_holdout(pool, seed):
    """Return the answers of a reusable holdout in four searches, and the information spent."""
    n = pool.scores.shape[1]
    holdout = ReusableHoldout(np.zeros((n, 1)), np.zeros(n), random_state=seed)

    def answer(positions):
        training = pool.cv_scores[positions]
        result = holdout.answer(
            training,
            pool.scores[positions],
            n_train=pool.n_train,
            relaxed_to=RELAXED_FRACTION * (training.max() - training),  # as searches do
        )
        return result.values, result.lower, result.upper

    return play(pool, answer), holdout.information_spent


def bonferroni(pool, beta=0.05):
    """Return the best lower limit of the pool at equal shares of the failure probability."""
    tail = ModelTail(Independent(), pool.scores.shape[1], binary=pool.binary)
    level = math.log(beta / (2.0 * len(pool.scores)))
    return float(tail.lower_limit(pool.scores.mean(axis=1), level).max())


def main():
    """Print a row for each dataset."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", choices=[*DATA, "all"], default="digits", help="data set")
    parser.add_argument("--seeds", type=int, default=5, help="number of random splits")
    args = parser.parse_args()
    print(f"{'data':<15}{'records':>8}{'first':>8}{'lower':>8}{'fourth':>8}{'lower':>8}{'least':>8}"
          f"{'nats':>7}{'Bonferroni':>12}")  # fmt: skip
    for name in DATA if args.data == "all" else [args.data]:
        rows = []
        for seed in range(args.seeds):
            pool = make_pool(name, seed)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # small holdouts say so
                answers, nats = through_the_holdout(pool, seed)
            rows.append([*answers[0, :2], *answers[-1, :2], nats, bonferroni(pool)])
        rows = np.array(rows)
        first, first_lower, last, last_lower, nats, fixed = rows.mean(axis=0)
        print(f"{name:<15}{DATA[name][1]:>8}{first:>8.3f}{first_lower:>8.3f}{last:>8.3f}"
              f"{last_lower:>8.3f}{rows[:, 3].min():>8.3f}{nats:>7.1f}{fixed:>12.3f}",
              flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
