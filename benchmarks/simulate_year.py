"""Years of adaptive searches on one holdout, simulated with known truth.

Twenty searches of a hundred candidates each (the first workloads also fifty); errors of the
candidates correlated (records differ in difficulty), cross-validation honest or biased upwards.
Each search explores around the best verified candidate so far. Printed per workload and way of
spending: medians of the half-width of the selected candidate after search 1, 5, 10 and 20, and of
a final report on it after 1, 10, 20 and 50, in units of the deviation ``sqrt(p(1-p)/n)`` (chains:
of their own ``n``), information spent, and years with an interval or a report that missed the
truth. The constants of the code and of the widths of cells were chosen with ``--sweep``, on other
seeds; it plays those that a parameter, a policy or a public name of the package sets:

    python benchmarks/simulate_year.py                    # both ways of spending
    python benchmarks/simulate_year.py --sweep            # other values of each constant
    python benchmarks/simulate_year.py --sweep offset     # of one
    python benchmarks/simulate_year.py --sweep finest --work 1 5 --years 60    # interim or final
"""

import argparse
import contextlib
import dataclasses
import math
from collections.abc import Callable
from unittest import mock

import numpy as np
from scipy.special import ndtr, ndtri

from sklearn_bdp.accounting import spending
from sklearn_bdp.accounting.noise_calibration import (
    NOISE_FAILURE_FRACTION,
    RELAXED_FRACTION,
    answer_margin,
    auto_scales,
    noise_margin,
    round_noise_failure,
)
from sklearn_bdp.accounting.spending import (
    AlphaSpending,
    PredictiveCode,
    code_length,
    final_code_length,
)
from sklearn_bdp.correlation import Independent, MarkovChain
from sklearn_bdp.intervals.concentration import ModelTail
from sklearn_bdp.mechanisms import Thresholdout
from sklearn_bdp.release.graded_release import FinalWidthPolicy, GradedRelease, make_width_policy

try:
    from benchmarks import real_searches
except ImportError:  # run as a script
    import real_searches

LEVELS = ndtri((np.arange(20) + 0.5) / 20)  # difficulty of records: twenty equally likely levels
LAZY = [[0.9, 0.1], [0.1, 0.9]]


@dataclasses.dataclass(frozen=True)
class Choice:
    """Constants of one simulation; ``None`` and the defaults are those of the library."""

    spending: AlphaSpending = dataclasses.field(default_factory=AlphaSpending)
    make_policy: Callable = make_width_policy
    noise: float | None = None
    even: float | None = None  # part of the weights of places that is spread evenly
    log_weights: np.ndarray | None = None  # of the components of the code


class Account:
    """The account of information spent that a reusable holdout keeps, over Thresholdout."""

    def __init__(
        self, n, choice, rng, *, beta=0.05, n_train=None, model=None, binary=True,
        relaxed_part=RELAXED_FRACTION,
    ):  # fmt: skip
        self.n = n
        self.choice = choice
        self.relaxed_part = relaxed_part
        self.model = model or Independent()
        self.tail = ModelTail(self.model, n, binary=binary)
        self.n_train = n_train or 3 * n
        self.sampling = (1 - NOISE_FAILURE_FRACTION) * beta
        self.noise_failure = NOISE_FAILURE_FRACTION * beta
        share = round_noise_failure(self.noise_failure, 0) / 2
        options = {} if choice.noise is None else {"fraction": choice.noise}
        self.scales = auto_scales(self.model.effective_n(n), failure=share, beta=beta, **options)
        names = ("threshold_scale", "query_scale", "answer_scale")
        self.mechanism = Thresholdout(
            0.0, **dict(zip(names, self.scales, strict=True)), random_state=rng
        )
        self.code = PredictiveCode(choice.log_weights)
        self.rng = rng
        self.released = 0.0
        self.n_above = 0
        self.batch = 0
        self.nats = 0.0

    def margins(self, n_above):
        """Return the noise margins of a comparison and of an answer, after ``n_above`` answers."""
        share = round_noise_failure(self.noise_failure, n_above) / 2
        below = noise_margin(
            failure=share, threshold_scale=self.scales[0], query_scale=self.scales[1]
        )
        return below, answer_margin(failure=share, answer_scale=self.scales[2])

    def factors(self, training):
        """Return the factors by which cross-validation adds to the variance of each score."""
        return np.full(training.size, 1 + self.n / self.n_train)

    def answer(self, training, holdout):
        """Answer one batch; return values, lower and upper ends."""
        self.batch += 1
        spending = self.choice.spending
        spent = code_length(released=self.released, batch_index=self.batch, spending=spending)
        log_failure = math.log(self.sampling / 2) - spent

        def ask(asked):
            run = self.mechanism.answer_run(
                asked.predictions, holdout[asked.positions], thresholds=asked.thresholds
            )
            at = len(run.values) - 1
            cell = None
            if run.above[at]:
                cell = asked.cells(at).cell_of(float(run.values[at]))
            return at + 1, cell

        graded_release = GradedRelease(
            code=self.code,
            compare=ask,
            noise_margins=self.margins,
            n_rounds=self.n_above,
            cv_scores=training,
            min_thresholds=self.relaxed_part * (training.max() - training),
            noise_scales=np.ones(training.size),
            training_factors=self.factors(training),
            score_deviations_at=lambda positions, predictions: self.tail.standard_deviation(
                predictions
            ),
        )
        if self.choice.even is not None:
            release = graded_release.release
            release.rank_lengths = spread(release.rank_lengths, self.choice.even)
        policy = self.choice.make_policy(spending, self.batch, log_failure)
        outcome = graded_release.run_leader_first(policy)
        side = log_failure - outcome.rank_lengths
        lower = self.tail.lower_limit(outcome.lower, side)
        upper = self.tail.upper_limit(outcome.upper, side)
        self.nats = spent + outcome.rank_lengths.min()
        self.released += outcome.released_nats
        self.n_above += outcome.n_replies_above
        return outcome.values, lower, upper

    def report(self, holdout):
        """Return the ends of a final report made now, without a record of it in the account."""
        spent = final_code_length(
            released=self.released, n_batches=self.batch, spending=self.choice.spending
        )
        margin = self.margins(self.n_above)[1]
        side = math.log(self.sampling / 2) - spent
        value = holdout + self.rng.laplace(0.0, self.scales[2])
        least, most = np.clip([value - margin, value + margin], 0.0, 1.0)
        return float(self.tail.lower_limit(least, side)), float(self.tail.upper_limit(most, side))


def draw_scores(accuracy, size, counts, rng, *, shared):
    """Return mean scores and expected scores of candidates, given the counts of difficulties."""
    a = ndtri(accuracy)[:, None]
    hit = ndtr((a - math.sqrt(shared) * LEVELS) / math.sqrt(1 - shared))
    # Φ(a) is the mean over a continuous difficulty; with twenty levels the truth is this mean.
    return rng.binomial(counts, hit).sum(axis=1) / size, hit.mean(axis=1)


def draw_counts(n, rng, *, lazy):
    """Return the number of records of each difficulty, independent or by a hidden lazy chain."""
    if not lazy:
        return rng.multinomial(n, np.full(LEVELS.size, 1 / LEVELS.size))
    # Two regimes, hard and easy; within one the difficulty is drawn anew for every record.
    switches = rng.random(n) < LAZY[0][1]
    hard = (np.cumsum(switches) + rng.integers(2)) % 2 == 1
    half = LEVELS.size // 2
    easy = rng.multinomial(int(n - hard.sum()), np.full(half, 1 / half))
    return np.concatenate([easy, rng.multinomial(int(hard.sum()), np.full(half, 1 / half))])


@dataclasses.dataclass(frozen=True)
class Workload:
    """Number of records, candidates, and the bias of cross-validation."""

    n: int
    candidates: int = 100
    bias: float = 0.0  # of cross-validation
    top: float = 0.95  # best accuracy there is
    kind: str = "constant"  # how the bias moves: "constant", "growing" or "surprising"
    verify: int | None = None  # number of best candidates by cross-validation that are verified
    lazy: bool = False  # whether records form a chain

    def bias_of(self, number, rng):
        """Return the bias of cross-validation in search ``number = 0, 1, ...``."""
        if self.kind == "growing":
            return self.bias * min(1.0, (number + 1) / 20)
        return self.bias * rng.integers(2) if self.kind == "surprising" else self.bias

    def __str__(self):
        words = [f"{self.n:,}", f"{self.verify or self.candidates}", f"{self.bias:+.2f}"]
        words += [f"top {self.top:.2f}"] * (self.top != 0.95) + ["chain"] * self.lazy
        return " ".join(words + [self.kind] * (self.kind != "constant"))


WORKLOADS = (
    Workload(1000),
    Workload(1000, bias=0.05),
    Workload(1000, verify=1),
    Workload(200),
    Workload(10_000, top=0.85),
    Workload(10_000, bias=0.05),
    Workload(1000, bias=0.05, kind="growing"),
    Workload(1000, bias=0.15),
    Workload(1000, bias=0.1, kind="surprising"),
    Workload(1000, candidates=5),
    Workload(1000, bias=0.05, lazy=True),
)
INTERIM = (1, 5, 10, 20)
REPORTS = (1, 10, 20, 50)


def simulate_year(work, choice, seed, *, searches=20, shared=0.7):
    """Return the half-widths of one year, in deviations, its nats, looks and misses.

    Half-widths have shape (searches, 2): in the search, and of a final report after it. Misses are
    whether any interval of a search was wrong, and the number of wrong reports.
    """
    rng = np.random.default_rng(seed)
    account = Account(work.n, choice, rng, model=MarkovChain(LAZY) if work.lazy else None)
    sizes = work.n, account.n_train
    counts = [draw_counts(size, rng, lazy=work.lazy) for size in sizes]
    center = work.top - 0.08
    wrong = False
    missed = 0
    rows = []
    for number in range(searches):
        accuracy = rng.normal(center, 0.015, work.candidates)
        accuracy = np.clip(accuracy, work.top - 0.1, work.top)
        (q, truth), (v, _) = (
            draw_scores(accuracy, *sample, rng, shared=shared)
            for sample in zip(sizes, counts, strict=True)
        )
        v = np.minimum(v + work.bias_of(number, rng), 1.0)
        shown = np.argsort(-v)[: work.verify]
        values, lower, upper = account.answer(v[shown], q[shown])
        wrong |= bool(((truth[shown] < lower) | (truth[shown] > upper)).any())
        best = int(np.argmax(values))
        chosen = shown[best]
        deviation = math.sqrt(
            truth[chosen] * (1 - truth[chosen]) / account.model.effective_n(work.n)
        )
        ends = account.report(q[chosen])
        missed += not ends[0] <= truth[chosen] <= ends[1]
        widths = upper[best] - lower[best], ends[1] - ends[0]
        rows.append([0.5 * width / deviation for width in widths])
        center = min(work.top - 0.03, 0.5 * center + 0.5 * accuracy[chosen])
    return np.array(rows), account.released, account.n_above, wrong, missed


def summarize(work, choice, years, *, seed=0, searches=20):
    """Return medians by search, mean nats and looks, wrong years and the share of wrong reports."""
    played = [
        simulate_year(work, choice, (seed, work.n, year), searches=searches)
        for year in range(years)
    ]
    widths, nats, looks, wrong, missed = zip(*played, strict=True)
    medians = np.median(widths, axis=0)
    return {
        "interim": [medians[t - 1, 0] for t in INTERIM if t <= searches],
        "final": [medians[t - 1, 1] for t in REPORTS if t <= searches],
        "nats": float(np.mean(nats)),
        "looks": float(np.mean(looks)),
        "wrong": int(np.sum(wrong)),
        "missed": float(np.mean(missed)) / searches,
    }


@dataclasses.dataclass(frozen=True, kw_only=True)
class OtherWidthPolicy(FinalWidthPolicy):
    """Cell widths of one batch, with other constants."""

    coarse: float | None = None
    min_fine: float = 0.0

    def coarse_half_width(self, n_queries):
        """Return the half-width of coarse cells."""
        return self.coarse or super().coarse_half_width(n_queries)

    def fine_half_widths(self, prediction_deviation, n_fine, **options):
        """Return half-widths of the next fine cells."""
        half_widths = super().fine_half_widths(prediction_deviation, n_fine, **options)
        return np.maximum(half_widths, self.min_fine)


def width_policy_with(name, value):
    """Return a function of batches to width policies; a tuple has values for batch 1, 2, 5, ..."""

    def make_other_policy(spending, batch_index, log_failure):
        usual = make_width_policy(spending, batch_index, log_failure)
        asked = value
        if np.ndim(value):
            asked = float(np.interp(math.log(batch_index), np.log([1, 2, 5, 10, 20, 50]), value))
        return OtherWidthPolicy(**(vars(usual) | {name: asked}))

    return make_other_policy


def spread(places, even):
    """Return code lengths of places whose weights have another even part (G7: any is valid)."""
    mean = 1.0 / places.size
    return -np.log(even * mean + (1.0 - even) * (np.exp(-places) - 0.15 * mean) / 0.85)


SWEEP = {  # other values
    "coarse": (5.5, 7.5),
    "finest": ((2.0,) * 6, (2.4,) * 6, (2.7, 2.5, 2.4, 2.4, 2.8, 5.0), (3.0,) * 6),
    "leader_half_width": ((4.4, 6.8, 6.6, 7.0, 7.1, 8.4),),
    "min_fine": (1.0,),
    "reserve": (0.5, 0.7),
    "even": (0.05, 0.5),
    "offset": (0.02, 0.06),
    "bandwidth": (0.08, 0.15),
    "tails_prior": ((0.7, 0.3),),
    "noise": (0.01, 0.03),
}


@contextlib.contextmanager
def alternative(name, value):
    """Yield the library's choice with another value of one constant, set until the block ends."""
    if name in ("coarse", "finest", "leader_half_width", "min_fine"):
        yield Choice(make_policy=width_policy_with(name, value))
    elif name == "reserve":
        policy = dataclasses.replace(spending.SPENDING_POLICIES["final"], reserve=value)
        with mock.patch.dict(spending.SPENDING_POLICIES, other=policy):
            yield Choice(AlphaSpending("other"))
    elif name in ("offset", "bandwidth"):
        constant = "OFFSET_DEVIATION" if name == "offset" else "BANDWIDTH"
        with mock.patch.object(spending, constant, value):
            yield Choice()
    elif name == "tails_prior":
        prior_of_scales = np.outer(spending.SCORE_SCALES_PRIOR, spending.OFFSET_SCALES_PRIOR)
        prior = np.outer(prior_of_scales, value)
        yield Choice(log_weights=np.log(prior.ravel()))
    else:
        yield Choice(**{name: value})


def choices(only=()):
    """Yield labels and choices: the library's, then every alternative, or those of some names."""
    yield "library", Choice()
    for name, values in SWEEP.items():
        for value in values if not only or name in only else ():
            with alternative(name, value) as choice:
                yield f"{name}={np.ravel(value)[0]:g}", choice


def real_lower_limits(pool, choice, seed):
    """Return lower limits of the selected candidate after four real searches: interim, final."""
    account = Account(
        pool.scores.shape[1], choice, np.random.default_rng(seed),
        n_train=pool.n_train, binary=pool.binary,
    )  # fmt: skip
    means = pool.scores.mean(axis=1)
    last = None

    def ask(chosen):
        nonlocal last
        values, lower, upper = account.answer(pool.cv_scores[chosen], means[chosen])
        last = chosen[int(np.argmax(values))]
        return values, lower, upper

    seen = real_searches.play(pool, ask)
    return seen[-1, 1], account.report(means[last])[0]


def show(label, row):
    """Print one line."""
    interim, final = (" / ".join(f"{x:.2f}" for x in row[name]) for name in ("interim", "final"))
    print(
        f"{label:<40}{interim:>30}{final:>30}{row['nats']:>8.1f}{row['looks']:>7.1f}"
        f"{row['wrong']:>7}{row['missed']:>8.4f}", flush=True,
    )  # fmt: skip


def main():
    """Print the table, or the sweep."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--years", type=int, default=40, help="simulated holdouts of a workload")
    parser.add_argument("--searches", type=int, default=50, help="searches of each year")
    parser.add_argument(
        "--seed", type=int, default=0, help="seed of the years; constants were chosen with others"
    )
    parser.add_argument(
        "--sweep", nargs="*", metavar="NAME", help="other values of all constants, or of these"
    )
    parser.add_argument(
        "--work", type=int, nargs="*", help="positions, from 0, of workloads in the table"
    )
    parser.add_argument("--real", action="store_true", help="only searches on real data")
    args = parser.parse_args()
    works = [] if args.real else [WORKLOADS[i] for i in args.work or range(len(WORKLOADS))]
    options = {"years": args.years, "searches": args.searches}
    print(
        f"{'n, candidates, bias of training':<40}{'interim ' + str(INTERIM):>30}"
        f"{'final ' + str(REPORTS):>30}{'nats':>8}{'looks':>7}{'wrong':>7}{'missed':>8}"
    )
    for work in works:
        if args.sweep is not None:
            for label, choice in choices(args.sweep):
                row = summarize(work, choice, seed=args.seed + 1000, **options)
                show(f"{work} {label}", row)
            continue
        for name in ("final", "even"):
            row = summarize(work, Choice(AlphaSpending(name)), seed=args.seed, **options)
            show(f"{work} {name}", row)
    for name in real_searches.DATA if args.real else ():
        for policy in ("final", "even"):
            lower_limits = [
                real_lower_limits(
                    real_searches.make_pool(name, seed), Choice(AlphaSpending(policy)), seed
                )
                for seed in range(8)
            ]
            means = np.mean(lower_limits, axis=0).round(3)
            print(f"{name} {policy}: lower limit interim, report", means)


if __name__ == "__main__":
    main()
