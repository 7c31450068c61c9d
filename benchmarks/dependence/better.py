"""How often "B is better than A" is shown, beside a test that no method can beat (theory G26, G31).

Two forecasts of independent targets: the mean, and the mean with noise. The difference of their
absolute errors is within the distance of the forecasts. Diebold-Mariano: a two-sided interval by
Newey-West errors at .05, for this pair alone. ``oracle``: a normal test that knows the variance, at
the level that the lower limit has in a report. ``best stake``: the limit of a martingale whose
stake is the best one for the true mean and variance of normal scores; no other stake shows more.
``proven``: the interval of the report, and the same with equal levels of both limits.
"""

import math

import numpy as np
from scipy.stats import norm

from benchmarks.dependence.past import newey_west
from sklearn_bdp.intervals.bounds import martingale_interval

DATES = 375
NOISE = 0.45
LEVEL = 0.05
#: Part of the level that the limit takes which would show the expected direction.
BETTER_SHARE = 0.8
#: Rows that share the level, and nats that earlier answers have released.
REPORTS = {"alone": (1, 0.0), "one of 3 rows": (3, 0.0), "one of 3 rows, after a search": (3, 1.05)}


def differences(n, rng, noise=NOISE):
    """Return by how much errors of the mean are smaller, and the distance of the forecasts."""
    y = rng.normal(size=n)
    distance = noise * rng.normal(size=n)
    return np.abs(y - distance) - np.abs(y), np.abs(distance)


def shown(runs, rng):
    """Return how often each method shows that B is better, by report and method."""
    many_differences, _ = differences(2_000_000, rng)
    deviation_of_mean = float(many_differences.std()) / math.sqrt(DATES)
    counts = {}
    for _ in range(runs):
        scores, distance = differences(4 * DATES, rng)
        earlier_scores = scores[: 3 * DATES]
        holdout_scores = scores[3 * DATES :]
        holdout_distance = distance[3 * DATES :]
        by_newey_west = holdout_scores.mean() > newey_west(holdout_scores)
        for report, (n_rows, nats) in REPORTS.items():
            log_side = math.log(0.5 * LEVEL / n_rows) - nats
            log_lower = log_side + math.log(2.0 * BETTER_SHARE)
            oracle_quantile = norm.isf(math.exp(log_lower))
            stake_quantile = math.sqrt(-2.0 * log_lower)
            methods = {
                "Diebold-Mariano": by_newey_west,
                "oracle": holdout_scores.mean() > oracle_quantile * deviation_of_mean,
                "best stake": holdout_scores.mean() > stake_quantile * deviation_of_mean,
            }
            for name, lower_share in (("equal levels", 0.5), ("proven", BETTER_SHARE)):
                lower, _ = martingale_interval(
                    holdout_scores,
                    log_side,
                    expected=float(earlier_scores.mean()),
                    variance=float(earlier_scores.var()),
                    lowest=-holdout_distance,
                    highest=holdout_distance,
                    lower_share=lower_share,
                )
                methods[name] = lower > 0.0
            for name, is_shown in methods.items():
                counts[report, name] = counts.get((report, name), 0) + bool(is_shown)
    return {key: count / runs for key, count in counts.items()}


def show_better(replications, rng):
    """Print how often each method shows that B is better."""
    runs = 5 * replications
    shares = shown(runs, rng)
    methods = list(dict.fromkeys(name for _, name in shares))
    print(f'"B is better than A" is shown: {DATES} dates, {runs} runs')
    print(f"{'':30s}" + "".join(f"{name:>17s}" for name in methods))
    for report in REPORTS:
        print(f"{report:30s}" + "".join(f"{shares[report, name]:17.2f}" for name in methods))
