"""Adaptive attacks on searches by metrics without a proven bound.

Run as ``python -m benchmarks.attack_scorers``.

In each life, twenty searches of ten candidates query one holdout of 200 records. Candidates are
fixed votes of columns, so that their score on new records is known exactly. Three analysts work on
pure noise and look for columns that suit the holdout; a fourth compares a grid of good models, as
users do. The table counts lives in which any interval of any search missed, and those in which the
interval of the final report missed. ``its level`` is the failure probability that the reports
state, summed over lives: a valid level is about as large as the count. The report pays for the
released information, which is so little that its level stays near 3%.
``naive`` is the holdout score of the last candidate if raw holdout scores had been released in
every round; ``released`` is the verified score of the last candidate.
"""

import argparse
import warnings
from typing import NamedTuple

import numpy as np
from scipy.integrate import quad
from scipy.stats import beta, norm
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.metrics import get_scorer

from sklearn_bdp import HoldoutConfig, ReusableHoldoutSearchCV

N_HOLDOUT = 200
N_TRAINING = 600
N_SEARCHES = 20
N_CANDIDATES = 10
METRICS = ("f1", "f1_macro", "matthews_corrcoef", "average_precision", "r2")

#: Failure probability of a holdout: share of lives that may have a wrong interval.
BETA = 0.05
#: Scale of predictions of noise in a regression: small enough to lose little.
_NOISE_SCALE = 0.05


class ColumnVote(BaseEstimator):
    """A fixed weighted sum of columns; it learns nothing.

    Parameters
    ----------
    columns : tuple of int
        Columns that vote.
    weights : tuple of float
        Their weights.
    """

    def __init__(self, columns=(0,), weights=(1.0,)):
        self.columns = columns
        self.weights = weights

    def total(self, X):
        """Return the weighted sum for each record."""
        return np.asarray(X)[:, list(self.columns)] @ np.asarray(self.weights)


class VoteClassifier(ClassifierMixin, ColumnVote):
    """Class 1 where the weighted sum of columns is positive."""

    def fit(self, X, y):
        """Take note of the classes."""
        self.classes_ = np.array([0, 1])
        self.n_features_in_ = np.shape(X)[1]
        return self

    def decision_function(self, X):
        """Return the weighted sum."""
        return self.total(X)

    def predict(self, X):
        """Return 0 or 1 for each record."""
        return (self.total(X) > 0.0).astype(int)


class VoteRegressor(RegressorMixin, ColumnVote):
    """The weighted sum of columns as a number."""

    def fit(self, X, y):
        """Learn nothing."""
        self.n_features_in_ = np.shape(X)[1]
        return self

    def predict(self, X):
        """Return the weighted sum."""
        return self.total(X)


def score_on_new_records(metric, signal):
    """Return the score of a column on new records.

    Parameters
    ----------
    metric : str
        One of ``METRICS``.
    signal : float
        Half the distance between the means of a column in the two classes, or its correlation with
        the target of a regression.

    Returns
    -------
    float
        In score units.
    """
    if metric == "r2":
        return signal**2
    if metric == "average_precision":
        # Precision, integrated over the true positive rate; classes are balanced.
        def precision(rate):
            threshold = norm.isf(rate, loc=signal)
            return rate / (rate + norm.sf(threshold, loc=-signal))

        return quad(precision, 0.0, 1.0)[0]
    accuracy = norm.cdf(signal)
    return 2.0 * accuracy - 1.0 if metric == "matthews_corrcoef" else accuracy


class LifeResult(NamedTuple):
    """End of a life.

    Parameters
    ----------
    released, naive : float
        Released score of the last candidate, and the score that raw holdout scores lead to.
    n_wrong_interim : int
        Wrong intervals of searches.
    is_report_wrong : bool
        Whether the interval of the final report missed.
    report_level : float
        Failure probability that the report states.
    """

    released: float
    naive: float
    n_wrong_interim: int
    is_report_wrong: bool
    report_level: float

    @property
    def is_wrong(self):
        """Whether any interval was wrong."""
        return self.n_wrong_interim > 0 or self.is_report_wrong


class Life:
    """One holdout and the searches of one analyst, up to the final report.

    Parameters
    ----------
    metric : str
        One of ``METRICS``.
    signals : ndarray of shape (n_columns,)
        Signal of each column; 0 for noise.
    seed : int
        Seed of the data and of the noise of the mechanism.
    """

    def __init__(self, metric, signals, seed):
        rng = np.random.default_rng(seed)
        n = N_HOLDOUT + N_TRAINING
        self.metric = metric
        self.signals = signals
        self.is_regression = metric == "r2"
        noise = rng.normal(size=(n, signals.size))
        if self.is_regression:
            self.y = rng.normal(size=n)
            self.X = signals * self.y[:, None] + np.sqrt(1.0 - signals**2) * noise
        else:
            self.y = rng.integers(0, 2, n)
            self.X = signals * (2.0 * self.y[:, None] - 1.0) + noise
        self.seed = seed
        self.holdout = None
        self.search = None
        self.n_wrong = 0

    @property
    def is_noise(self):
        """Whether all columns are independent of the target."""
        return not self.signals.any()

    def candidate(self, columns, signs):
        """Return the parameters of a vote of columns with the given signs.

        Predictions of noise are small, those of a good column are the best linear ones.
        """
        columns = tuple(int(column) for column in columns)
        if self.is_regression and not self.is_noise:
            weights = self.signals[list(columns)]
        elif self.is_regression:
            weights = np.asarray(signs) * _NOISE_SCALE
        else:
            weights = np.asarray(signs)
        return {"columns": columns, "weights": tuple(float(weight) for weight in weights)}

    def truth(self, params):
        """Return the score of a candidate on new records, in score units."""
        columns = list(params["columns"])
        if not self.is_noise:
            return score_on_new_records(self.metric, float(self.signals[columns[0]]))
        if self.is_regression:
            return -float(np.sum(np.square(params["weights"])))
        return score_on_new_records(self.metric, 0.0)

    def ask(self, candidates):
        """Search among candidates, count wrong intervals, and return scores of each candidate.

        Returns
        -------
        released, gains, raw : ndarray of shape (n_candidates,)
            Released scores, released minus cross-validated scores, and the raw scores that the
            mechanism never gives away.
        """
        estimator = VoteRegressor() if self.is_regression else VoteClassifier()
        grid = [{name: [value] for name, value in params.items()} for params in candidates]
        config = HoldoutConfig(test_size=N_HOLDOUT / len(self.y))
        search = ReusableHoldoutSearchCV(
            estimator,
            grid,
            scoring=self.metric,
            cv=2,
            holdout=config if self.holdout is None else self.holdout,
            random_state=self.seed,
        )
        rows = slice(None) if self.search is None else self.train
        search.fit(self.X[rows], self.y[rows])
        if self.holdout is None:
            self.holdout = search.holdout_
            self.train = search.train_indices_
        self.search = search
        results = search.cv_results_
        truth = np.array([self.truth(params) for params in candidates])
        self.n_wrong += int(
            np.sum((truth < results["holdout_lower"]) | (truth > results["holdout_upper"]))
        )
        released = np.asarray(results["holdout_score"])
        raw = np.array([self.raw_score(params) for params in candidates])
        return released, released - np.asarray(results["mean_test_score"]), raw

    def raw_score(self, params):
        """Return the raw score of a candidate on the holdout, which is never released."""
        estimator = VoteRegressor(**params) if self.is_regression else VoteClassifier(**params)
        estimator.fit(self.holdout.X, self.holdout.y)
        return get_scorer(self.metric)(estimator, self.holdout.X, self.holdout.y)

    def report(self):
        """Close the holdout with the report of the last search.

        Returns
        -------
        is_wrong : bool
            Whether one of its intervals missed.
        level : float
            Failure probability that the report states for its intervals together.
        """
        report = self.search.final_report()
        row = report.rows[0]
        truth = self.truth(self.search.best_params_)
        is_wrong = False
        level = 0.0
        for interval, alpha in (
            (row.approximate, report.alpha_approximate),
            (row.proven, report.alpha_proven),
        ):
            if interval is not None:
                is_wrong |= not interval[0] <= truth <= interval[1]
                level += alpha
        return is_wrong, level


def pick_columns(life, rng):
    """Search among single columns and end with the best; return its scores.

    Every attack returns the released score of its last candidate, and the raw holdout score of the
    candidate that raw scores would have led to.
    """
    return _ask_for_columns(life, rng, n_best=1)


def vote(life, rng):
    """Search among single columns and end with a vote of all columns that the holdout favored."""
    return _ask_for_columns(life, rng, n_best=None)


def _ask_for_columns(life, rng, *, n_best):
    gains = []
    raw = []
    for start in range(0, (N_SEARCHES - 1) * N_CANDIDATES, N_CANDIDATES):
        columns = range(start, start + N_CANDIDATES)
        _, gain, score = life.ask([life.candidate([column], [1.0]) for column in columns])
        gains.extend(gain)
        raw.extend(score)
    chance = life.truth(life.candidate([0], [1.0]))
    last = [
        _signed_vote(life, np.asarray(values), n_best)
        for values in (gains, np.subtract(raw, chance))
    ]
    released, _, _ = life.ask(last[:1])
    return float(released[0]), life.raw_score(last[1])


def _signed_vote(life, gains, n_best):
    """Return the vote of the columns with the largest gains, each with the sign of its gain."""
    order = np.argsort(-np.abs(gains), kind="stable")[:n_best]
    signs = np.where(gains[order] < 0.0, -1.0, 1.0)
    if life.is_regression:  # each column of noise lowers the score of a regression
        order = order[: N_CANDIDATES * 3]
        signs = signs[: N_CANDIDATES * 3]
    return life.candidate(order, signs)


def add_greedily(life, rng):
    """Add the column that the holdout favors most, search by search."""
    chosen = []
    naive = []
    released = np.array([np.nan])
    for start in range(0, N_SEARCHES * N_CANDIDATES, N_CANDIDATES):
        columns = np.arange(start, start + N_CANDIDATES)
        candidates = [life.candidate([*chosen, c], np.ones(len(chosen) + 1)) for c in columns]
        released, gains, _ = life.ask(candidates)
        chosen.append(columns[np.argmax(gains)])
        trials = [life.candidate([*naive, c], np.ones(len(naive) + 1)) for c in columns]
        naive.append(columns[np.argmax([life.raw_score(trial) for trial in trials])])
    return float(released.max()), life.raw_score(life.candidate(naive, np.ones(len(naive))))


def compare_grid(life, rng):
    """Search a grid of good models in ten parts, as users do."""
    released = []
    raw = []
    for start in range(0, 100, N_CANDIDATES):
        columns = range(start, start + N_CANDIDATES)
        answers, _, scores = life.ask([life.candidate([column], [1.0]) for column in columns])
        released.extend(answers)
        raw.extend(scores)
    return float(np.max(released)), float(np.max(raw))


ATTACKS = {"columns": pick_columns, "votes": vote, "greedy": add_greedily, "grid": compare_grid}


def live(metric, attack, seed):
    """Return the :class:`LifeResult` of one life."""
    rng = np.random.default_rng(seed)
    signals = np.zeros(N_SEARCHES * N_CANDIDATES)
    if attack == "grid":
        low, high = (0.6, 0.9) if metric == "r2" else (0.8, 1.3)
        signals = rng.uniform(low, high, 100)
    life = Life(metric, signals, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        released, naive = ATTACKS[attack](life, rng)
        is_report_wrong, level = life.report()
    return LifeResult(released, naive, life.n_wrong, is_report_wrong, level)


def main(arguments=None):
    """Print one line for each metric and attack."""
    parser = argparse.ArgumentParser(description=__doc__.split(":")[0])
    parser.add_argument("--lives", type=int, default=20, help="simulated holdouts of each line")
    parser.add_argument(
        "--metrics", nargs="+", default=METRICS, choices=METRICS, help="only these metrics"
    )
    parser.add_argument(
        "--attacks",
        nargs="+",
        default=list(ATTACKS),
        choices=list(ATTACKS),
        help="only these analysts",
    )
    options = parser.parse_args(arguments)
    head = f"{'metric':<20}{'attack':<10}{'naive':>7}{'released':>10}{'lives':>7}"
    print(f"{head}{'interim':>9}{'report':>8}{'its level':>11}{'wrong':>7}")
    results = []
    for metric in options.metrics:
        for attack in options.attacks:
            lives = [live(metric, attack, seed) for seed in range(options.lives)]
            print_line(f"{metric:<20}{attack:<10}", lives)
            results.extend(lives)
    print_line(f"{'all':<30}", results)
    count = sum(result.is_wrong for result in results)
    low = beta.ppf(0.025, count, len(results) - count + 1) if count else 0.0
    high = beta.ppf(0.975, count + 1, len(results) - count) if count < len(results) else 1.0
    print(f"Share of lives with a wrong interval: {count / len(results):.3f}, ", end="")
    print(f"95 % limits [{low:.3f}, {high:.3f}].")
    return count


def print_line(label, lives):
    """Print the counts of some lives; ``its level`` is summed over their reports."""
    wrong_interim = sum(result.n_wrong_interim > 0 for result in lives)
    wrong_reports = sum(result.is_report_wrong for result in lives)
    level = sum(result.report_level for result in lives)
    print(
        f"{label}{np.mean([result.naive for result in lives]):>7.3f}"
        f"{np.mean([result.released for result in lives]):>10.3f}{len(lives):>7}"
        f"{wrong_interim:>9}{wrong_reports:>8}{level:>11.1f}"
        f"{sum(result.is_wrong for result in lives):>7}",
        flush=True,
    )


if __name__ == "__main__":
    main()
