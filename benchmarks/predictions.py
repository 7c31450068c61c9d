"""Would better predictions pay? Two candidates for them, on real searches.

*Covariance:* candidates share the records that they are scored on, so what the holdout says of one
tells something of the others. Instead of one local offset for all, the predictions are those of a
Gaussian process: the offset, and each candidate's own error with the covariance of the scores of
the training records out of their folds; once for the centers alone, once for the spreads, too.
*Kinds:* four searches by cross-validated values, and before the last two of them twenty lone
queries with resubstitution values; the offset of either kind is learned apart. Printed are ratios
to the library's predictions, geometric means over random splits, with standard errors.

    python benchmarks/predictions.py                       # three datasets, four splits each
    python benchmarks/predictions.py --data digits         # minutes for every split
"""

import argparse

import numpy as np

from sklearn_bdp.accounting import spending
from sklearn_bdp.accounting.spending import PredictiveCode

try:
    from benchmarks import real_searches
    from benchmarks.simulate_year import Account, Choice
except ImportError:  # run as a script
    import real_searches
    from simulate_year import Account, Choice

SIGHT = spending.BANDWIDTH / 1.5  # of a Gaussian kernel about as wide as the library's
LONE = 20


class Covariance(PredictiveCode):
    """Predictions by the covariance of the candidates, who are known by their training values."""

    def __init__(self, pool, account, *, spreads):
        super().__init__()
        self.tail = account.tail
        self.factor = 1 + account.n / account.n_train
        self.values, rows = np.unique(distinct(pool.cv_scores), return_index=True)
        self.correlation = np.nan_to_num(np.corrcoef(pool.training_scores[rows]))
        self.least = 0.25 if spreads else 1.0

    def predict(self, cv_scores):
        """Predict by the posterior mean."""
        return self.posterior(cv_scores)[:2]

    def posterior(self, cv_scores):
        """Return centers, deviations of the offset, and of the own error in those of the score."""
        queried = np.asarray(cv_scores, dtype=float)
        if not self.pairs:
            return *super().predict(queried), np.full(queried.shape, self.factor**0.5)
        values, differences, variances = np.array(self.pairs[-spending.REMEMBERED :]).T
        errors = self._errors(values + differences, values), self._errors(queried, queried)
        error = self._covariance(errors[0], errors[0])
        cross_error = self._covariance(errors[1], errors[0])
        released = np.diag(np.maximum(variances - np.diag(error), 0.04 * np.diag(error)))
        offset = _offset(values, values)
        shared = _offset(queried, values)
        gain = np.linalg.solve(error + offset + released, (cross_error + shared).T).T
        prior_variance = errors[1][0] ** 2 * self.scale**2
        remaining = prior_variance - (
            cross_error * np.linalg.solve(error + released, cross_error.T).T
        ).sum(axis=1)
        remaining = np.clip(remaining, self.least**2 * prior_variance, prior_variance)
        total = prior_variance + spending.OFFSET**2 - ((cross_error + shared) * gain).sum(axis=1)
        center = np.clip(queried + gain @ differences, 0.0, self.ceiling)
        drift = np.sqrt(np.maximum(total - remaining, 1e-8))
        return center, drift, np.sqrt(remaining / prior_variance * self.factor)

    def _errors(self, at, values):
        deviations = self.tail.standard_deviation(np.clip(at, 0.0, 1.0)) * self.factor**0.5
        return deviations, np.searchsorted(self.values, values)

    def _covariance(self, rows, columns):
        correlations = self.correlation[np.ix_(rows[1], columns[1])]
        return correlations * np.outer(rows[0], columns[0]) * self.scale**2


def _offset(rows, columns):
    distance = (np.subtract.outer(rows, columns) / SIGHT) ** 2
    return spending.OFFSET**2 * np.exp(-0.5 * distance)


class Spreads(Account):
    """An account whose code says how much of each candidate's own error is left."""

    def factors(self, training):
        """Return what gives the factors when they are asked for, after earlier releases."""
        return _Asked(self.code, training)


class _Asked:
    def __init__(self, code, training):
        self.code = code
        self.training = training

    def __getitem__(self, positions):
        return self.code.posterior(self.training[positions])[2] ** 2


class Kinds(PredictiveCode):
    """A code that learns the offset of each kind of training-side value apart."""

    kind = "cv"

    def __init__(self):
        super().__init__()
        self.kinds = []

    def learn(self, cv_score, released_value, variance, *, instead=None):
        """Learn for the present kind."""
        if instead is None:
            self.kinds.append(self.kind)
        return super().learn(cv_score, released_value, variance, instead=instead)

    def predict(self, cv_scores):
        """Predict from pairs of the present kind."""
        mine = [
            p for p, pair_kind in zip(self.pairs, self.kinds, strict=True) if pair_kind == self.kind
        ]
        return PredictiveCode(None, mine, self.ceiling).predict(cv_scores)


def distinct(values):
    """Return values that differ, by less than anything can tell."""
    order = np.argsort(np.argsort(values, kind="stable"), kind="stable")
    return np.asarray(values) * (1 - 1e-6) + 1e-9 * order


def open_account(code_name, pool, seed):
    """Return an account with one of the codes."""
    n = pool.scores.shape[1]
    home = Account if code_name in {"library", "kinds"} else Spreads
    account = home(n, Choice(), np.random.default_rng(seed),
                   n_train=pool.n_train, binary=pool.binary)  # fmt: skip
    if code_name == "kinds":
        account.code = Kinds()
    elif code_name != "library":
        account.code = Covariance(pool, account, spreads=code_name == "covariance, spreads too")
    return account


def searches(code_name, pool, seed):
    """Return half-widths of the selected after the first and the fourth search, and the nats."""
    account = open_account(code_name, pool, seed)
    training = distinct(pool.cv_scores)
    means = pool.scores.mean(axis=1)
    answers = real_searches.play(pool, lambda rows: account.answer(training[rows], means[rows]))
    first, *_, last = 0.5 * (answers[:, 2] - answers[:, 1])
    return first, last, account.nats


def mixed(code_name, pool, seed):
    """Return half-widths of lone queries (mean) and of the last selected, and the nats."""
    account = open_account(code_name, pool, seed)
    means = pool.scores.mean(axis=1)
    batches = []
    lone = []

    def answer(rows):
        if len(batches) == real_searches.SEARCHES // 2:
            account.code.kind = "resubstitution"
            for row in batches[-1][:LONE]:
                _, lower, upper = account.answer(pool.resubstitution[[row]], means[[row]])
                lone.append(0.5 * (upper[0] - lower[0]))
            account.code.kind = "cv"
        batches.append(rows)
        return account.answer(pool.cv_scores[rows], means[rows])

    answers = real_searches.play(pool, answer)
    return np.mean(lone), 0.5 * (answers[-1, 2] - answers[-1, 1]), account.nats


def ratios(play, code_names, pools, plays=3):
    """Print each kind's ratios to the library."""
    base = None
    for code_name in code_names:
        rows = np.array([[play(code_name, pool, play_ + 10 * seed) for play_ in range(plays)]
                         for seed, pool in enumerate(pools)]).mean(axis=1)  # fmt: skip
        base = rows if base is None else base
        logs = np.log(rows / base)
        errors = logs.std(axis=0) / np.sqrt(max(1, len(logs) - 1))
        cells = [
            f"{np.exp(m):.2f} ± {e:.2f}" for m, e in zip(logs.mean(axis=0), errors, strict=True)
        ]
        averages = "".join(f"{value:>9.3f}" for value in rows.mean(axis=0))
        print(
            f"  {code_name:<24}{averages}   " + "".join(f"{cell:>15}" for cell in cells), flush=True
        )


def main():
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--splits", type=int, default=4)
    quick = [name for name in real_searches.DATA if name != "digits"]
    parser.add_argument("--data", nargs="+", choices=real_searches.DATA, default=quick)
    args = parser.parse_args()
    for name in args.data:
        pools = [real_searches.make_pool(name, seed) for seed in range(args.splits)]
        print(f"{name}: first, fourth search, nats; ratios", flush=True)
        variants = ("library", "covariance, centers", "covariance, spreads too")
        ratios(searches, variants, pools)
        print(f"{name}, mixed: lone queries, fourth search, nats; ratios")
        ratios(mixed, ("library", "kinds"), pools)


if __name__ == "__main__":
    main()
