"""Would limits by squares (theory G15) pay for records in time?

They need units that are independent. Blocks of a chain nearly are where gaps lie between them, as
long as what the chain forgets, so that every block is used in one of several phases, each with a
limit of its own at an equal part of the failure probability; the mean of these limits is one for
the mean of all blocks. Everything is in favor of the squares here: the variance of a block is
known exactly and costs nothing, each block is its mean and center, and length of blocks and rate
are the best there are. Beside them stands the limit that the library gives, which uses nothing but
the range of the score.

    python -m benchmarks.squares_in_time

Half-widths of a final report (4.4 nats a side) as parts of the range, and how long a block was.
"""

import math

import numpy as np

from sklearn_bdp.accounting import ModelTail, squares_lower_limit
from sklearn_bdp.correlation import MarkovChain

NATS, MEAN = 4.4, 0.85
RATES = np.r_[np.geomspace(1e-3, 0.5, 30), 1.0 - np.geomspace(0.4, 1e-3, 30)]


def block_variance(variance, memory, length):
    """Return the variance of a block's mean whose correlation falls like ``memory ** lag``."""
    lags = np.arange(1, length)
    return variance / length * (1.0 + 2.0 * ((1.0 - lags / length) * memory**lags).sum())


def by_squares(n, variance, memory):
    """Return the least half-width by squares of blocks, and their length."""
    best = math.inf, 0
    for length in np.unique(np.geomspace(1, min(2000, n // 4), 40).astype(int)):
        # The chain forgets: all gaps together fail with a tenth of the probability.
        gap = math.ceil(math.log(10.0 * n / length * math.exp(NATS)) / -math.log(memory))
        phases = 1 + math.ceil(gap / length)
        blocks = n // (phases * int(length))
        if blocks < 2:
            continue
        level = math.log(0.9) - NATS - math.log(phases)
        squares = block_variance(variance, memory, int(length))
        ends = [
            max(
                squares_lower_limit(
                    np.full(RATES.shape, mean), level, blocks, center=mean, squares=squares,
                    rate=RATES,
                )
            )
            for mean in (MEAN, 1.0 - MEAN)
        ]  # fmt: skip
        half = 0.5 * (1.0 - sum(ends))
        best = min(best, (half, int(length)))
    return best


def main():
    """Print one line for each length of the holdout, memory and spread of the scores."""
    print(f"{'dates':>8}{'memory':>8}{'deviation':>11}{'squares':>10}{'block':>7}{'library':>10}")
    for memory in (0.5, 0.8, 0.95):
        chain = MarkovChain(0.5 * (1.0 - memory) * np.ones((2, 2)) + memory * np.eye(2))
        for n in (500, 2000, 5000, 20_000, 100_000):
            tail = ModelTail(chain, n)
            value = np.array([MEAN])
            plain = 0.5 * float(
                (tail.upper_limit(value, [-NATS]) - tail.lower_limit(value, [-NATS]))[0]
            )
            for deviation in (0.05, 0.1, 0.2):
                half, length = by_squares(n, deviation**2, memory)
                print(
                    f"{n:>8,}{memory:>8}{deviation:>11}{half:>10.4f}{length:>7}{plain:>10.4f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
