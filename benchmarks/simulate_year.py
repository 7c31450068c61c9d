"""A year of adaptive searches on one holdout, simulated with known truth.

Ten searches of a hundred candidates each; accuracies .85-.95, errors of the candidates correlated
(records differ in difficulty), cross-validation biased upwards. Each search explores around the
best verified candidate so far. Printed per holdout: the half-width of the selected candidate after
the first and the tenth search, in units of the deviation ``sqrt(p(1-p)/n)`` (chains: of their own
``n``), looks at the holdout, information spent, and years with an interval that missed the truth.
The constants of the code and of the race were chosen here, on these years and on three real
searches (``real_searches.py``):

    python benchmarks/simulate_year.py                    # the library's choice
    python benchmarks/simulate_year.py --sweep            # other values of every constant
    python benchmarks/simulate_year.py --sweep coarse --real     # of one, without real data
"""

import argparse
import contextlib
import dataclasses
import math

import numpy as np
from scipy.special import ndtr, ndtri

from sklearn_bdp.accounting import (
    CONTEST,
    NOISE_PART,
    ModelTail,
    Pace,
    PredictiveCode,
    Reply,
    _asked,
    _codes,
    _predictive,
    answer_margin,
    auto_scales,
    code_length,
    noise_margin,
    noise_share,
    play_batch,
)
from sklearn_bdp.accounting import BatchQueries as Public
from sklearn_bdp.correlation import Independent, MarkovChain
from sklearn_bdp.mechanisms import Thresholdout

try:
    from benchmarks import real_searches
except ImportError:  # run as a script
    import real_searches

LEVELS = ndtri((np.arange(20) + 0.5) / 20)  # difficulty of records: twenty equally likely levels
LAZY = [[0.9, 0.1], [0.1, 0.9]]


@dataclasses.dataclass(frozen=True)
class Choice:
    """Constants under test; ``None`` and the defaults are those of the library."""

    pace: Pace = dataclasses.field(default_factory=Pace)
    noise: float | None = None
    predictor: str = "learns"


class Forgetful(PredictiveCode):
    """A code whose predictions never learn."""

    def learn(self, training_value, released_value, variance, *, instead=None):
        """Ignore."""
        return 0


class Account:
    """The as-used account over Thresholdout, the way a reusable holdout keeps it."""

    def __init__(
        self, n, choice, rng, *, beta=0.05, training_size=None, model=None, binary=True,
        contest=CONTEST,
    ):  # fmt: skip
        self.n, self.choice, self.model, self.contest = n, choice, model or Independent(), contest
        self.tail = ModelTail(self.model, n, binary=binary)
        self.training_size = training_size or 3 * n
        self.sampling, self.noise_failure = (1 - NOISE_PART) * beta, NOISE_PART * beta
        share = noise_share(self.noise_failure, 0) / 2
        options = {} if choice.noise is None else {"fraction": choice.noise}
        self.scales = auto_scales(self.model.effective_n(n), failure=share, beta=beta, **options)
        names = ("threshold_scale", "query_scale", "answer_scale")
        self.mechanism = Thresholdout(
            0.0, **dict(zip(names, self.scales, strict=True)), random_state=rng
        )
        self.code = PredictiveCode() if choice.predictor == "learns" else Forgetful()
        self.released, self.n_above, self.batch, self.nats = 0.0, 0, 0, 0.0

    def margins(self, n_above):
        """Noise margins of a round."""
        share = noise_share(self.noise_failure, n_above) / 2
        below = noise_margin(
            failure=share, threshold_scale=self.scales[0], query_scale=self.scales[1]
        )
        return below, answer_margin(failure=share, answer_scale=self.scales[2])

    def factors(self, training):
        """How much the training side adds to the variance of each score."""
        return np.full(training.size, 1 + self.n / self.training_size)

    def answer(self, training, holdout):
        """Answer one batch; return values, lower and upper ends."""
        self.batch += 1
        public = Public(
            training_values=training,
            slacks=self.contest * (training.max() - training),
            sensitivities=np.ones(training.size),
            training_factors=self.factors(training),
            deviation=lambda positions, predictions: self.tail.standard_deviation(predictions),
        )
        outcome = self._play(public, holdout)
        spent = code_length(released=self.released, batch_index=self.batch)
        side = math.log(self.sampling / 2) - spent - outcome.places
        lower = self.tail.lower_limit(outcome.least, side)
        upper = self.tail.upper_limit(outcome.most, side)
        self.nats = spent + outcome.places.min()
        self.released += outcome.released
        self.n_above += outcome.n_above
        return outcome.values, lower, upper

    def _play(self, public, holdout):
        game = play_batch(
            public, self.code, margins=self.margins, n_above=self.n_above, pace=self.choice.pace
        )
        with contextlib.suppress(StopIteration):
            asked = next(game)
            while True:
                run = self.mechanism.answer_run(
                    asked.predictions, holdout[asked.positions], thresholds=asked.thresholds
                )
                at, cell = len(run.values) - 1, None
                if run.above[at]:
                    cell = asked.cells(at).place(float(run.values[at]))
                try:
                    asked = game.send(Reply(at + 1, cell))
                except StopIteration as end:
                    return end.value
        raise AssertionError("a batch holds at least one query")


def draw_scores(accuracy, size, counts, rng, *, shared):
    """Mean scores of candidates on a sample whose difficulty counts are given."""
    a = ndtri(accuracy)[:, None]
    hit = ndtr((a - math.sqrt(shared) * LEVELS) / math.sqrt(1 - shared))
    # Φ(a) is the mean over a continuous difficulty; with twenty levels the truth is this mean.
    return rng.binomial(counts, hit).sum(axis=1) / size, hit.mean(axis=1)


def draw_counts(n, rng, *, lazy):
    """How many records have each difficulty: independent ones, or a hidden lazy chain of them."""
    if not lazy:
        return rng.multinomial(n, np.full(LEVELS.size, 1 / LEVELS.size))
    # Two regimes, hard and easy; within one the difficulty is drawn anew for every record.
    switches = rng.random(n) < LAZY[0][1]
    hard = (np.cumsum(switches) + rng.integers(2)) % 2 == 1
    half = LEVELS.size // 2
    easy = rng.multinomial(int(n - hard.sum()), np.full(half, 1 / half))
    return np.concatenate([easy, rng.multinomial(int(hard.sum()), np.full(half, 1 / half))])


def small_batches(n, choice, seed, *, size=5, batches=10, bias=0.05):
    """Ten batches of a few queries; half-widths in deviations of the last one's leader and rest."""
    rng = np.random.default_rng(seed)
    account = Account(n, choice, rng, contest=0.0)
    sizes = n, account.training_size
    counts = [draw_counts(size, rng, lazy=False) for size in sizes]
    for _ in range(batches):
        accuracy = np.clip(rng.normal(0.87, 0.015, size), 0.6, 0.97)
        (q, truth), (v, _) = (
            draw_scores(accuracy, *sample, rng, shared=0.7)
            for sample in zip(sizes, counts, strict=True)
        )
        values, lower, upper = account.answer(np.minimum(v + bias, 1.0), q)
    deviations = 0.5 * (upper - lower) / np.sqrt(truth * (1 - truth) / n)
    best = int(np.argmax(values))
    return deviations[best], np.delete(deviations, best).mean()


def simulate_year(
    n, choice, seed, *, searches=10, candidates=100, bias=0.05, shared=0.7, lazy=False
):
    """One year; returns half-widths and deviations, counts, nats and whether it was wrong."""
    rng = np.random.default_rng(seed)
    account = Account(n, choice, rng, model=MarkovChain(LAZY) if lazy else None)
    n_train = account.training_size
    counts, train_counts = (draw_counts(size, rng, lazy=lazy) for size in (n, n_train))
    center, wrong, widths = 0.87, False, []
    for _ in range(searches):
        accuracy = np.clip(rng.normal(center, 0.015, candidates), 0.85, 0.95)
        q, truth = draw_scores(accuracy, n, counts, rng, shared=shared)
        v, _ = draw_scores(accuracy, n_train, train_counts, rng, shared=shared)
        values, lower, upper = account.answer(np.minimum(v + bias, 1.0), q)
        wrong |= bool(((truth < lower) | (truth > upper)).any())
        best = int(np.argmax(values))
        deviation = math.sqrt(truth[best] * (1 - truth[best]) / account.model.effective_n(n))
        widths.append(((upper[best] - lower[best]) / 2, deviation))
        center = min(0.92, 0.5 * center + 0.5 * accuracy[best])
    return widths[0], widths[-1], account.n_above, account.nats, wrong


def summarise(n, choice, years, *, seed=0, **options):
    """Mean first and last half-width, mean counts and nats, and the number of wrong years."""
    rows = [simulate_year(n, choice, (seed, n, year), **options) for year in range(years)]
    first, last, above, nats, wrong = map(np.array, zip(*rows, strict=True))
    return {
        "n": n,
        "first": first[:, 0].mean(),
        "half-width": last[:, 0].mean(),
        "largest": last[:, 0].max(),
        "first in sd": (first[:, 0] / first[:, 1]).mean(),
        "tenth in sd": (last[:, 0] / last[:, 1]).mean(),
        "above": above.mean(),
        "nats": nats.mean(),
        "wrong": int(wrong.sum()),
        "years": years,
    }


SWEEP = (  # where a constant lives, its name, other values
    (Pace, "coarse", (4.5, 7.0)),
    (_asked, "_NARROW", (0.5, 2.5, 5.5)),
    (_asked, "_WIDENING", (0.5, 1.3)),
    (Pace, "price", (1.5, 2.5)),
    (Pace, "patience", (14.0, 24.0, 60.0)),
    (_codes, "_LEVEL", (1.0, 6.0)),
    (_predictive, "_EVEN", (0.05, 0.5)),
    (_predictive, "OFFSET", (0.02, 0.06)),
    (_predictive, "_FADING", (0.0, 0.3)),
    (_predictive, "BANDWIDTH", (0.08, 0.15)),
    (_predictive, "TAILS_PRIOR", (np.array([0.5, 0.5]), np.array([0.97, 0.03]))),
    (_asked, "_LONE", (1.0,)),
    (None, "noise", (0.01, 0.03)),
)


@contextlib.contextmanager
def changed(module, name, value):
    """Use another value of a constant for a while."""
    before = getattr(module, name)
    setattr(module, name, value)
    try:
        yield Choice()
    finally:
        setattr(module, name, before)


def choices(only=()):
    """Yield labels and constants: the library's, then every alternative, or those of some names."""
    yield "library", Choice()
    for home, name, values in SWEEP:
        plain = name.strip("_").lower()
        for value in values if not only or plain in only else ():
            label = f"{plain}={np.ravel(value)[0]:g}"
            if home is Pace:
                yield label, Choice(pace=dataclasses.replace(Pace(), **{name: value}))
            elif home is None:
                yield label, Choice(noise=value)
            else:
                with changed(home, name, value) as choice:
                    yield label, choice


def real_half_widths(pool, choice, seed):
    """Half-widths of the selected candidate after the first and the last of four real searches."""
    account = Account(
        pool.scores.shape[1], choice, np.random.default_rng(seed),
        training_size=pool.training_size, binary=pool.binary,
    )  # fmt: skip
    means = pool.scores.mean(axis=1)
    seen = real_searches.play(
        pool, lambda chosen: account.answer(pool.training_values[chosen], means[chosen])
    )
    return 0.5 * (seen[[0, -1], 2] - seen[[0, -1], 1])


def sweep(args):
    """Print first and last width of every alternative: deviations, and score units on real data."""
    pools = {name: [real_searches.make_pool(name, seed) for seed in range(2)] for name in args.real}
    plays = [(n, False) for n in args.sizes] + [(max(args.sizes), True)]
    heads = [f"{n}{' chain' if lazy else ''}" for n, lazy in plays]
    few = sorted(args.sizes)[len(args.sizes) // 2]
    heads = [*heads, f"{few} in fives", *pools]
    print(f"{'choice':<18}" + "".join(f"{head:>15}" for head in heads))
    for label, choice in choices(args.sweep):
        cells = []
        for n, lazy in plays:
            row = summarise(n, choice, args.years, lazy=lazy)
            cells.append(f"{row['first in sd']:.2f} / {row['tenth in sd']:.2f}")
        fives = [small_batches(few, choice, (few, year)) for year in range(args.years)]
        cells.append("{:.2f} / {:.2f}".format(*np.mean(fives, axis=0)))
        for given in pools.values():
            first, last = np.mean(
                [real_half_widths(pool, choice, seed) for seed, pool in enumerate(given)], axis=0
            )
            cells.append(f"{first:.3f} / {last:.3f}")
        print(f"{label:<18}" + "".join(f"{cell:>15}" for cell in cells), flush=True)


def main():
    """Print the table, or the sweep."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--years", type=int, default=40)
    parser.add_argument("--sweep", nargs="*", metavar="NAME", help="all constants, or these")
    parser.add_argument("--real", nargs="*", default=list(real_searches.DATA), help="data, or none")
    parser.add_argument("--sizes", type=int, nargs="+", default=[200, 1000, 10_000])
    args = parser.parse_args()
    if args.sweep is not None:
        sweep(args)
        return
    print(f"{'choice':<18}{'n':>13}{'first':>8}{'tenth':>8}{'(sd)':>6}{'tenth':>9}{'looks':>7}"
          f"{'nats':>7}{'wrong':>12}")  # fmt: skip
    for n, lazy in [(n, False) for n in args.sizes] + [(max(args.sizes), True)]:
        row = summarise(n, Choice(), args.years, lazy=lazy)
        print(
            f"{'library':<18}{n:>7}{' chain' if lazy else '':>6}{row['first in sd']:>8.2f}"
            f"{row['tenth in sd']:>8.2f}{'':>6}{row['half-width']:>9.4f}{row['above']:>7.1f}"
            f"{row['nats']:>7.1f}{row['wrong']:>5} of {row['years']:>4}",
            flush=True,
        )


if __name__ == "__main__":
    main()
