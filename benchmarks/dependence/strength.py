"""The strength that ``correlation="time"`` reads off scores: misses and widths of one query."""

import numpy as np

from benchmarks.dependence.processes import BETA, TIMES, autoregression, interval, regimes
from sklearn_bdp.correlation import MarkovChain, check_independence


def one_cell(maker, time, n, replications, rng, *, check):
    """Return miss rate, half-widths relative to the true chain, and warning rate."""
    sample, truth, chain = maker(time)
    misses, ratios, warned = 0, [], 0
    for _ in range(replications):
        scores = sample(n, rng)
        cut = 3 * n // 4
        learned = MarkovChain.from_scores(scores[: int(0.9 * cut)], horizon=n - cut)
        held = scores[cut:]
        low, high = interval(learned, held)
        best = interval(chain, held)
        misses += not low <= truth <= high
        ratios.append((high - low) / (best[1] - best[0]))
        if not check:
            continue
        rows = np.sort(rng.permutation(n)[:cut])
        warned += check_independence(scores[rows], folds=np.arange(cut) * 5 // cut).misfit
    return misses / replications, np.mean(ratios), np.quantile(ratios, 0.9), warned / replications


def show_time(replications, n, rng):
    """Print the table of simulated series."""
    print(f"time: {replications} replications of {n} records, last quarter held out, beta {BETA}")
    print(f"{'process':18} {'IACT':>5} {'miss':>6} {'width / true chain':>20} {'None warns':>11}")
    makers = {
        "autoregression": autoregression,
        "regimes, half": regimes,
        "regimes, 1 in 5": lambda t: regimes(t, share=0.2, scores=(0.9, 0.1)),
        "rare, 1 in 20": lambda t: regimes(t, share=0.05, scores=(0.9, 0.0)),
    }
    for name, maker in makers.items():
        for time in TIMES:
            check = maker in (autoregression, regimes)
            miss, mean, high, warned = one_cell(maker, time, n, replications, rng, check=check)
            widths, warns = f"{mean:.2f} (q90 {high:.2f})", f"{warned:11.3f}" if check else ""
            print(f"{name:18} {time:5g} {miss:6.3f} {widths:>20} {warns}", flush=True)
    size = 3 * n // 4
    rated = np.array([0.75, 0.85, 0.8, 0.78, 0.82])[np.arange(size) * 5 // size]  # of fold models
    false = np.mean(
        [
            check_independence(rng.random(size) < rated, folds=np.arange(size) * 5 // size).misfit
            for _ in range(replications)
        ]
    )
    print(f"{'independent':18} {1:5} {'':6} {'':20} {false:11.3f}")
