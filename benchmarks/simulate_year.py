"""A year of adaptive searches on one holdout, simulated with known truth.

Ten searches of a hundred candidates each; accuracies .85-.95, errors of the candidates correlated
(records differ in difficulty), cross-validation biased upwards. Each search explores around the
best verified candidate so far. Printed per holdout size: the half-width of the selected candidate
after the tenth search, how many answers came from the holdout, the information spent, and how many
years had any interval that missed the truth. The constants in ``guarantees`` were chosen here:

    python benchmarks/simulate_year.py                    # the library's choice
    python benchmarks/simulate_year.py --sweep            # other values of every constant
"""

import argparse
import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtr, ndtri

from sklearn_bdp.accounting import (
    DecisionCode,
    OffsetPredictor,
    answer_intervals,
    answer_margin,
    auto_resolution,
    auto_scales,
    auto_threshold,
    code_length,
    decision_nats,
    noise_margin,
    noise_share,
    value_code,
)
from sklearn_bdp.correlation import Independent
from sklearn_bdp.mechanisms import Thresholdout

LEVELS = ndtri((np.arange(20) + 0.5) / 20)  # difficulty of records: twenty equally likely levels
NOISE_PART = 0.1  # of beta


@dataclass(frozen=True)
class Choice:
    """Constants under test; the defaults are those of the library."""

    chance: float | None = None
    lead: float | None = None
    resolution: float | None = None
    noise: float | None = None
    code_scale: float = 1.0
    decisions: str = "mixture"
    predictor: str = "offset"
    share_below: float = 0.5

    def options(self, *names):
        """Keyword arguments for an ``auto_`` function."""
        given = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        return {k if k in ("chance", "lead") else "fraction": v for k, v in given.items()}


class Nothing:
    """A predictor that never learns."""

    def update(self, training_value, released_value):
        """Ignore."""

    def predict(self, training_values):
        """Return the training-side values."""
        return np.clip(training_values, 0.0, 1.0)


class Recent(Nothing):
    """The offset with a forgetting factor."""

    def __init__(self, keep):
        self.keep, self.weight, self.total = keep, 0.0, 0.0

    def update(self, training_value, released_value):
        """Learn one difference."""
        self.weight = self.keep * self.weight + 1.0
        self.total = self.keep * self.total + released_value - training_value

    def predict(self, training_values):
        """Return predictions."""
        offset = self.total / self.weight if self.weight else 0.0
        return np.clip(np.asarray(training_values) + offset, 0.0, 1.0)


class Ridge(Nothing):
    """Offset and slope by ridge regression on the released pairs."""

    def __init__(self, penalty):
        self.penalty, self.pairs = penalty, []

    def update(self, training_value, released_value):
        """Learn one pair."""
        self.pairs.append((training_value, released_value - training_value))

    def predict(self, training_values):
        """Return predictions."""
        values = np.asarray(training_values)
        if not self.pairs:
            return np.clip(values, 0.0, 1.0)
        v, d = np.array(self.pairs).T
        slope = ((v - v.mean()) * d).sum() / (((v - v.mean()) ** 2).sum() + self.penalty)
        return np.clip(values + d.mean() + slope * (values - v.mean()), 0.0, 1.0)


PREDICTORS = {
    "offset": OffsetPredictor,
    "none": Nothing,
    "mean": lambda: Recent(1.0),
    "last": lambda: Recent(0.0),
    "recent": lambda: Recent(0.7),
    "ridge": lambda: Ridge(0.01),
}


class Account:
    """The as-used account over Thresholdout, the way a reusable holdout keeps it."""

    def __init__(self, n, choice, rng, *, beta=0.05, training_size=None, model=None):
        self.n, self.choice, self.model = n, choice, model or Independent()
        self.n_effective = self.model.effective_n(n)
        self.training_size = training_size or 3 * n
        self.sampling, self.noise_failure = (1 - NOISE_PART) * beta, NOISE_PART * beta
        fraction = auto_resolution(self.n_effective, beta=beta, **choice.options("resolution"))
        self.resolution = 1.0 / math.ceil(1.0 / fraction)
        share = noise_share(self.noise_failure, 0) / 2
        self.scales = auto_scales(
            self.n_effective, failure=share, beta=beta, **choice.options("noise")
        )
        s_t, s_q, s_a = self.scales
        self.mechanism = Thresholdout(
            0.0,
            threshold_scale=s_t,
            query_scale=s_q,
            answer_scale=s_a,
            resolution=self.resolution,
            random_state=rng,
        )
        self.predictor, self.code = PREDICTORS[choice.predictor](), DecisionCode()
        self.n_answered = self.n_above = self.batch = 0
        self.value_nats = self.nats = 0.0

    def answer(self, training, holdout):
        """Answer one batch; return values, lower and upper ends, and where they came from."""
        self.batch += 1
        decisions = self.code.nats
        if self.choice.decisions == "kt":
            decisions = decision_nats(self.n_answered, self.n_above)
        self.nats = code_length(
            n_answered=self.n_answered,
            n_above=self.n_above,
            value_nats=self.value_nats,
            batch_size=training.size,
            batch_index=self.batch,
            decisions=decisions,
        )
        values, reach = np.empty(training.size), np.empty(training.size)
        above = np.zeros(training.size, dtype=bool)
        done = 0
        while done < training.size:
            done = self._stretch(training, holdout, done, values, reach, above)
        lower, upper = answer_intervals(
            values,
            reach,
            code_length=self.nats,
            failure=self.sampling,
            model=self.model,
            n=self.n,
        )
        return values, lower, upper, above

    def _stretch(self, training, holdout, done, values, reach, above):
        prediction = self.predictor.predict(training[done:])
        threshold = auto_threshold(
            prediction,
            self.n_effective,
            self.training_size,
            **self.choice.options("chance", "lead"),
        )
        run = self.mechanism.answer_run(prediction, holdout[done:], thresholds=threshold)
        count = len(run.values)
        part = slice(done, done + count)
        share = noise_share(self.noise_failure, self.n_above)
        z = noise_margin(
            failure=share * self.choice.share_below,
            threshold_scale=self.scales[0],
            query_scale=self.scales[1],
        )
        z_answer = answer_margin(
            failure=share * (1 - self.choice.share_below), answer_scale=self.scales[2]
        )
        values[part], above[part] = run.values, run.above
        reach[part] = np.where(run.above, z_answer + self.resolution / 2, threshold[:count] + z)
        self.code.update(run.above)
        self.n_answered += count
        if run.above[-1]:
            self.value_nats += value_code(
                prediction[count - 1],
                values[done + count - 1],
                resolution=self.resolution,
                scale=self.choice.code_scale * threshold[count - 1],
            )
            self.n_above += 1
            self.predictor.update(training[done + count - 1], values[done + count - 1])
        return done + count


def draw_scores(accuracy, size, counts, rng, *, shared):
    """Mean scores of candidates on a sample whose difficulty counts are given."""
    a = ndtri(accuracy)[:, None]
    hit = ndtr((a - math.sqrt(shared) * LEVELS) / math.sqrt(1 - shared))
    # Φ(a) is the mean over a continuous difficulty; with twenty levels the truth is this mean.
    return rng.binomial(counts, hit).sum(axis=1) / size, hit.mean(axis=1)


def simulate_year(n, choice, seed, *, searches=10, candidates=100, bias=0.05, shared=0.7):
    """One year; returns half-widths, counts, nats and whether an interval was wrong."""
    rng = np.random.default_rng(seed)
    account = Account(n, choice, rng)
    n_train = account.training_size
    level = np.full(LEVELS.size, 1 / LEVELS.size)
    counts, train_counts = rng.multinomial(n, level), rng.multinomial(n_train, level)
    center, wrong, selected = 0.87, False, None
    first_width = None
    for _ in range(searches):
        accuracy = np.clip(rng.normal(center, 0.015, candidates), 0.85, 0.95)
        q, truth = draw_scores(accuracy, n, counts, rng, shared=shared)
        v, _ = draw_scores(accuracy, n_train, train_counts, rng, shared=shared)
        values, lower, upper, _ = account.answer(np.minimum(v + bias, 1.0), q)
        wrong |= bool(((truth < lower) | (truth > upper)).any())
        best = int(np.argmax(values))
        selected = (upper[best] - lower[best]) / 2
        first_width = selected if first_width is None else first_width
        center = min(0.92, 0.5 * center + 0.5 * accuracy[best])
    return first_width, selected, account.n_above, account.nats, wrong


def summarise(n, choice, years, *, seed=0, **options):
    """Mean first and last half-width, mean counts and nats, and the number of wrong years."""
    rows = [simulate_year(n, choice, (seed, n, year), **options) for year in range(years)]
    first, last, above, nats, wrong = map(np.array, zip(*rows, strict=True))
    return {
        "n": n,
        "first": first.mean(),
        "half-width": last.mean(),
        "largest": last.max(),
        "above": above.mean(),
        "nats": nats.mean(),
        "wrong": int(wrong.sum()),
        "years": years,
    }


SWEEP = {
    "chance": (0.0003, 0.001, 0.003, 0.01),
    "lead": (0.0, 0.3, 0.7),
    "resolution": (0.1, 0.25, 0.4, 0.8),
    "noise": (0.03, 0.05, 0.1, 0.2),
    "code_scale": (0.5, 1.0, 2.0, 4.0),
    "decisions": ("kt", "mixture"),
    "predictor": tuple(PREDICTORS),
    "share_below": (0.5, 0.8),
}


def main():
    """Print the table, or the sweep."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--years", type=int, default=100)
    parser.add_argument("--sweep", action="store_true")
    parser.add_argument("--sizes", type=int, nargs="+", default=[300, 1000, 3000, 10_000])
    args = parser.parse_args()
    print(f"{'choice':<24}{'n':>7}{'first':>8}{'tenth':>8}{'largest':>9}{'above':>7}{'nats':>7}"
          f"{'wrong':>12}")  # fmt: skip
    choices = [("library", Choice())]
    if args.sweep:
        choices += [
            (f"{name}={value}", replace(Choice(), **{name: value}))
            for name, values in SWEEP.items()
            for value in values
        ]
    for label, choice in choices:
        for n in args.sizes:
            row = summarise(n, choice, args.years)
            print(
                f"{label:<24}{n:>7}{row['first']:>8.4f}{row['half-width']:>8.4f}"
                f"{row['largest']:>9.4f}{row['above']:>7.1f}{row['nats']:>7.1f}"
                f"{row['wrong']:>5} of {row['years']:>4}",
                flush=True,
            )


if __name__ == "__main__":
    main()
