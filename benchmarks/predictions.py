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
        self.tail, self.factor = account.tail, 1 + account.n / account.n_train
        self.values, rows = np.unique(distinct(pool.cv_scores), return_index=True)
        self.correlation = np.nan_to_num(np.corrcoef(pool.training_scores[rows]))
        self.least = 0.25 if spreads else 1.0

    def predict(self, cv_scores):
        """Predict by the posterior mean."""
        return self.posterior(cv_scores)[:2]

    def posterior(self, cv_scores):
        """Return centers, deviations of the offset, and of the own error in those of the score."""
        asked = np.asarray(cv_scores, dtype=float)
        if not self.pairs:
            return *super().predict(asked), np.full(asked.shape, self.factor**0.5)
        values, differences, variances = np.array(self.pairs[-spending.REMEMBERED :]).T
        own = self._errors(values + differences, values), self._errors(asked, asked)
        error, other = self._covariance(own[0], own[0]), self._covariance(own[1], own[0])
        released = np.diag(np.maximum(variances - np.diag(error), 0.04 * np.diag(error)))
        offset, shared = (_offset(values, values), _offset(asked, values))
        gain = np.linalg.solve(error + offset + released, (other + shared).T).T
        whole = own[1][0] ** 2 * self.scale**2
        left = whole - (other * np.linalg.solve(error + released, other.T).T).sum(axis=1)
        left = np.clip(left, self.least**2 * whole, whole)
        total = whole + spending.OFFSET**2 - ((other + shared) * gain).sum(axis=1)
        center = np.clip(asked + gain @ differences, 0.0, self.ceiling)
        drift = np.sqrt(np.maximum(total - left, 1e-8))
        return center, drift, np.sqrt(left / whole * self.factor)

    def _errors(self, at, values):
        deviations = self.tail.standard_deviation(np.clip(at, 0.0, 1.0)) * self.factor**0.5
        return deviations, np.searchsorted(self.values, values)

    def _covariance(self, left, right):
        rows = self.correlation[np.ix_(left[1], right[1])]
        return rows * np.outer(left[0], right[0]) * self.scale**2


def _offset(left, right):
    distance = (np.subtract.outer(left, right) / SIGHT) ** 2
    return spending.OFFSET**2 * np.exp(-0.5 * distance)


class Spreads(Account):
    """An account whose code says how much of each candidate's own error is left."""

    def factors(self, training):
        """Return what gives the factors when they are asked for, after earlier releases."""
        return _Asked(self.code, training)


class _Asked:
    def __init__(self, code, training):
        self.code, self.training = code, training

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
        mine = [p for p, kind in zip(self.pairs, self.kinds, strict=True) if kind == self.kind]
        return PredictiveCode(None, mine, self.ceiling).predict(cv_scores)


def distinct(values):
    """Return values that differ, by less than anything can tell."""
    order = np.argsort(np.argsort(values, kind="stable"), kind="stable")
    return np.asarray(values) * (1 - 1e-6) + 1e-9 * order


def open_account(kind, pool, seed):
    """Return an account with one of the codes."""
    n = pool.scores.shape[1]
    home = Account if kind in {"library", "kinds"} else Spreads
    account = home(n, Choice(), np.random.default_rng(seed),
                   n_train=pool.n_train, binary=pool.binary)  # fmt: skip
    if kind == "kinds":
        account.code = Kinds()
    elif kind != "library":
        account.code = Covariance(pool, account, spreads=kind == "covariance, spreads too")
    return account


def searches(kind, pool, seed):
    """Return half-widths of the selected after the first and the fourth search, and the nats."""
    account = open_account(kind, pool, seed)
    training, means = distinct(pool.cv_scores), pool.scores.mean(axis=1)
    seen = real_searches.play(pool, lambda rows: account.answer(training[rows], means[rows]))
    first, *_, last = 0.5 * (seen[:, 2] - seen[:, 1])
    return first, last, account.nats


def mixed(kind, pool, seed):
    """Return half-widths of lone queries (mean) and of the last selected, and the nats."""
    account = open_account(kind, pool, seed)
    means, batches, lone = pool.scores.mean(axis=1), [], []

    def answer(rows):
        if len(batches) == real_searches.SEARCHES // 2:
            account.code.kind = "resubstitution"
            for row in batches[-1][:LONE]:
                _, lower, upper = account.answer(pool.resubstitution[[row]], means[[row]])
                lone.append(0.5 * (upper[0] - lower[0]))
            account.code.kind = "cv"
        batches.append(rows)
        return account.answer(pool.cv_scores[rows], means[rows])

    seen = real_searches.play(pool, answer)
    return np.mean(lone), 0.5 * (seen[-1, 2] - seen[-1, 1]), account.nats


def ratios(play, kinds, pools, plays=3):
    """Print each kind's ratios to the library."""
    base = None
    for kind in kinds:
        rows = np.array([[play(kind, pool, play_ + 10 * seed) for play_ in range(plays)]
                         for seed, pool in enumerate(pools)]).mean(axis=1)  # fmt: skip
        base = rows if base is None else base
        logs = np.log(rows / base)
        errors = logs.std(axis=0) / np.sqrt(max(1, len(logs) - 1))
        cells = [
            f"{np.exp(m):.2f} ± {e:.2f}" for m, e in zip(logs.mean(axis=0), errors, strict=True)
        ]
        told = "".join(f"{value:>9.3f}" for value in rows.mean(axis=0))
        print(f"  {kind:<24}{told}   " + "".join(f"{cell:>15}" for cell in cells), flush=True)


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
