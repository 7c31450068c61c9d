"""Widths and nats of real searches with two other predictions of holdout scores.

*Covariance:* all candidates are scored on the same records, so that the verified score of one
predicts those of others. Instead of one local offset for all, predictions are those of a Gaussian
process: the offset, and each candidate's own error with the covariance of the out-of-fold scores of
the training records; once for the centers alone, once for the spreads, too.
*Kinds:* four searches by cross-validated scores, and before the last two of them twenty single
queries with resubstitution scores; the offset of each kind is learned separately. The columns are
ratios to the library's predictions: geometric means over random splits, with standard errors.

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

#: Bandwidth of a Gaussian kernel that is about as wide as the library's.
KERNEL_WIDTH = spending.BANDWIDTH / 1.5
#: Number of single queries with resubstitution scores.
N_SINGLE = 20


class Covariance(PredictiveCode):
    """Predictions by the covariance of candidates, which their distinct cv scores identify."""

    def __init__(self, pool, account, *, spreads):
        super().__init__()
        self.tail = account.tail
        self.training_factor = 1 + account.n / account.n_train
        self.known_cv_scores, rows = np.unique(distinct(pool.cv_scores), return_index=True)
        self.correlation = np.nan_to_num(np.corrcoef(pool.training_scores[rows]))
        self.min_deviation = 0.25 if spreads else 1.0  # of the own error, in units of the prior's

    def predict(self, cv_scores):
        """Return posterior means of holdout scores, and the deviations of the offset."""
        return self.posterior(cv_scores)[:2]

    def posterior(self, cv_scores):
        """Return centers, deviations of the offset, and of the own error in those of the score."""
        queried = np.asarray(cv_scores, dtype=float)
        if not self.pairs:
            return *super().predict(queried), np.full(queried.shape, self.training_factor**0.5)
        released, differences, variances = self._aged_pairs()
        released_deviations = self._deviations(released + differences)
        deviations = self._deviations(queried)
        error_covariance = self._correlation(released, released) * np.outer(
            released_deviations, released_deviations
        )
        cross_covariance = self._correlation(queried, released) * np.outer(
            deviations, released_deviations
        )
        error_variances = np.diag(error_covariance)
        noise_covariance = np.diag(np.maximum(variances - error_variances, 0.04 * error_variances))
        cross_offset = _offset_covariance(queried, released)
        total_covariance = (
            error_covariance + _offset_covariance(released, released) + noise_covariance
        )
        gain = np.linalg.solve(total_covariance, (cross_covariance + cross_offset).T).T
        prior_variance = deviations**2
        error_gain = np.linalg.solve(error_covariance + noise_covariance, cross_covariance.T).T
        own_variance = prior_variance - (cross_covariance * error_gain).sum(axis=1)
        own_variance = np.clip(own_variance, self.min_deviation**2 * prior_variance, prior_variance)
        explained_variance = ((cross_covariance + cross_offset) * gain).sum(axis=1)
        variance = prior_variance + spending.OFFSET_DEVIATION**2 - explained_variance
        center = np.clip(queried + gain @ differences, 0.0, self.ceiling)
        offset_deviation = np.sqrt(np.maximum(variance - own_variance, 1e-8))
        own_deviation = np.sqrt(own_variance / prior_variance * self.training_factor)
        return center, offset_deviation, own_deviation

    def _deviations(self, scores):
        """Return prior deviations of a candidate's own error."""
        deviations = self.tail.standard_deviation(np.clip(scores, 0.0, 1.0))
        return deviations * self.training_factor**0.5 * self.scales()[0]

    def _correlation(self, cv_scores, other_cv_scores):
        """Return correlations of out-of-fold scores of candidates with these cv scores."""
        rows = np.searchsorted(self.known_cv_scores, cv_scores)
        columns = np.searchsorted(self.known_cv_scores, other_cv_scores)
        return self.correlation[np.ix_(rows, columns)]


def _offset_covariance(cv_scores, other_cv_scores):
    squared_distances = (np.subtract.outer(cv_scores, other_cv_scores) / KERNEL_WIDTH) ** 2
    return spending.OFFSET_DEVIATION**2 * np.exp(-0.5 * squared_distances)


class Spreads(Account):
    """An account whose code predicts the remaining part of each candidate's own error."""

    def factors(self, training):
        """Return the variance factors, computed at each access from the releases before it."""
        return _LazyFactors(self.code, training)


class _LazyFactors:
    def __init__(self, code, cv_scores):
        self.code = code
        self.cv_scores = cv_scores

    def __getitem__(self, positions):
        own_deviations = self.code.posterior(np.atleast_1d(self.cv_scores[positions]))[2]
        return (own_deviations**2).reshape(np.shape(positions))


class Kinds(PredictiveCode):
    """A code that learns the offset of each kind of training score separately."""

    kind = "cv"

    def __init__(self):
        super().__init__()
        self.kinds = []

    def learn(self, cv_score, released_value, variance, *, replaced_pair=None):
        """Learn for the present kind."""
        if replaced_pair is None:
            self.kinds.append(self.kind)
        return super().learn(cv_score, released_value, variance, replaced_pair=replaced_pair)

    def predict(self, cv_scores):
        """Return predictions from the pairs of the current kind."""
        pairs_of_kind = [
            pair for pair, kind in zip(self.pairs, self.kinds, strict=True) if kind == self.kind
        ]
        code_of_kind = PredictiveCode(
            pairs=pairs_of_kind, ceiling=self.ceiling, n_batches=self.n_batches, steps=self.steps
        )
        return code_of_kind.predict(cv_scores)


def distinct(values):
    """Return the values with changes of at most about 1e-6 that break ties."""
    order = np.argsort(np.argsort(values, kind="stable"), kind="stable")
    return np.asarray(values) * (1 - 1e-6) + 1e-9 * order


def open_account(code_name, pool, seed):
    """Return an account with one of the codes."""
    n = pool.scores.shape[1]
    account_class = Account if code_name in {"library", "kinds"} else Spreads
    account = account_class(
        n, Choice(), np.random.default_rng(seed), n_train=pool.n_train, binary=pool.binary
    )
    if code_name == "kinds":
        account.code = Kinds()
    elif code_name != "library":
        account.code = Covariance(pool, account, spreads=code_name == "covariance, spreads too")
    return account


def searches(code_name, pool, seed):
    """Return half-widths of the selected after the first and the fourth search, and the nats."""
    account = open_account(code_name, pool, seed)
    cv_scores = distinct(pool.cv_scores)
    means = pool.scores.mean(axis=1)
    answers = real_searches.play(pool, lambda rows: account.answer(cv_scores[rows], means[rows]))
    half_widths = 0.5 * (answers[:, 2] - answers[:, 1])
    return half_widths[0], half_widths[-1], account.nats


def mixed(code_name, pool, seed):
    """Return half-widths of single queries (mean) and of the last selected, and the nats."""
    account = open_account(code_name, pool, seed)
    means = pool.scores.mean(axis=1)
    batches = []
    single_half_widths = []

    def answer(rows):
        if len(batches) == real_searches.SEARCHES // 2:
            account.code.kind = "resubstitution"
            for row in batches[-1][:N_SINGLE]:
                _, lower, upper = account.answer(pool.resubstitution[[row]], means[[row]])
                single_half_widths.append(0.5 * (upper[0] - lower[0]))
            account.code.kind = "cv"
        batches.append(rows)
        return account.answer(pool.cv_scores[rows], means[rows])

    answers = real_searches.play(pool, answer)
    return np.mean(single_half_widths), 0.5 * (answers[-1, 2] - answers[-1, 1]), account.nats


def print_ratios(play, code_names, pools, n_plays=3):
    """Print results of each code (means over pools) and their ratios to the first code.

    ``play(code_name, pool, seed)`` returns three results: two half-widths and nats.
    """
    results_by_code = {
        code_name: np.mean(
            [
                [play(code_name, pool, repetition + 10 * seed) for repetition in range(n_plays)]
                for seed, pool in enumerate(pools)
            ],
            axis=1,
        )
        for code_name in code_names
    }
    library_results = results_by_code[code_names[0]]
    for code_name, results in results_by_code.items():
        log_ratios = np.log(results / library_results)
        means = np.exp(log_ratios.mean(axis=0))
        errors = log_ratios.std(axis=0) / np.sqrt(max(1, len(log_ratios) - 1))
        cells = [f"{mean:.2f} ± {error:.2f}" for mean, error in zip(means, errors, strict=True)]
        averages = "".join(f"{average:>9.3f}" for average in results.mean(axis=0))
        ratios = "".join(f"{cell:>15}" for cell in cells)
        print(f"  {code_name:<24}{averages}   {ratios}", flush=True)


def main():
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--splits", type=int, default=4, help="number of random splits")
    quick = [name for name in real_searches.DATA if name != "digits"]
    parser.add_argument(
        "--data", nargs="+", choices=real_searches.DATA, default=quick, help="data sets"
    )
    args = parser.parse_args()
    for name in args.data:
        pools = [real_searches.make_pool(name, seed) for seed in range(args.splits)]
        print(f"{name}: first, fourth search, nats; ratios", flush=True)
        variants = ("library", "covariance, centers", "covariance, spreads too")
        print_ratios(searches, variants, pools)
        print(f"{name}, mixed: lone queries, fourth search, nats; ratios")
        print_ratios(mixed, ("library", "kinds"), pools)


if __name__ == "__main__":
    main()
