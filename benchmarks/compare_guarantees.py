"""Compare guarantees: records needed, and certified width over records. Writes a table and a plot.

    python -m benchmarks.compare_guarantees                 # table, and compare_guarantees.png
    python -m benchmarks.compare_guarantees --quick         # fewer rows
    python -m benchmarks.compare_guarantees --output DIR

Rows: independent records, groups of four, three Markov chains; several errors, queries and budgets.
Columns: theorems as printed (Zhao 2017, Theorem 2; Dwork et al. 2017, Theorem 9), leakage (G1),
posterior (G6), transcripts (G2), new records for every query, and Hoeffding's floor. The second
table gives widths at a fixed number of records, with the published bounds for noise addition and
Thresholdout, and the as-used account on 1,000 sequential queries of which ten overfit.
"""

import argparse
import functools
import math
import time
from pathlib import Path

import numpy as np

from benchmarks.mechanisms import jung_half_width, rogers_half_width, rogers_thresholdout_half_width
from benchmarks.papers.routes import certify_by_route, floor_required_n, plan_by_route
from sklearn_bdp import ReusableHoldout
from sklearn_bdp.accounting.noise_calibration import (
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
from sklearn_bdp.correlation import Groups, Independent, MarkovChain
from sklearn_bdp.intervals.concentration import ModelTail
from sklearn_bdp.planning import certify
from sklearn_bdp.release.graded_release import GradedRelease, make_width_policy

MODELS = {
    "independent": Independent(),
    "groups of 4": Groups(np.arange(4000) // 4),
    "chain P1": MarkovChain([[0.9, 0.1], [0.2, 0.8]]),
    "chain P2": MarkovChain([[0.9, 0.1], [0.1, 0.9]]),
    "chain P3": MarkovChain([[0.6, 0.3, 0.1], [0.2, 0.6, 0.2], [0.1, 0.3, 0.6]]),
}
CASES = [(0.1, 100, 1), (0.1, 1000, 10), (0.05, 1000, 10), (0.05, 100_000, 10)]
ROUTES = ("zhao2017", "dwork2017", "bdp", "posterior", "transcript", "splitting", "floor")


def required_rows(cases):
    """Yield one row of required records per case and model."""
    for tau, n_queries, budget in cases:
        for name, model in MODELS.items():
            row = {"tau": tau, "m": n_queries, "B": budget, "model": name}
            for route in ROUTES:
                try:
                    row[route] = plan_by_route(
                        tau=tau, n_queries=n_queries, budget=budget, correlation=model, route=route
                    )
                except ValueError:
                    row[route] = None
            yield row


def print_required(cases):
    """Print the table of required records."""
    head = f"{'tau':>5} {'m':>7} {'B':>3} {'model':<12}"
    print("Records needed, beta = .05, c = 1/2 (published constants for the first two columns)")
    print(head + "".join(f"{route:>12}" for route in ROUTES), flush=True)
    for row in required_rows(cases):
        cells = "".join(
            f"{'-' if row[route] is None else format(row[route], '.3g'):>12}" for route in ROUTES
        )
        print(f"{row['tau']:>5} {row['m']:>7} {row['B']:>3} {row['model']:<12}{cells}", flush=True)


def as_used_width(n, n_queries, overfit, *, score=0.9, beta=0.05, final=False):
    """Return the half-width of the last of sequential single queries, or of a final report.

    ``overfit`` of the queries, evenly spaced, overfit by .1. Nothing is random: all other queries
    agree with their training values.
    """
    tail = ModelTail(Independent(), n)
    code = PredictiveCode()
    scales = auto_scales(float(n), failure=round_noise_failure(0.1 * beta, 0) / 2, beta=beta)
    released = 0.0
    rounds = 0
    every = n_queries // overfit

    @functools.cache
    def margins(n_above):
        share = round_noise_failure(0.1 * beta, n_above) / 2
        below = noise_margin(failure=share, threshold_scale=scales[0], query_scale=scales[1])
        return below, answer_margin(failure=share, answer_scale=scales[2])

    def exactly(comparison):
        above = abs(comparison.predictions[0] - score) > comparison.thresholds[0]
        return 1, comparison.cells(0).cell_of(score) if above else None

    for query in range(1, n_queries + 1):
        wrong = query % every == 0
        spent = code_length(released=released, batch_index=query)
        policy = make_width_policy(AlphaSpending(), query, math.log(0.9 * beta / 2) - spent)
        outcome = GradedRelease(
            code=code,
            compare=exactly,
            noise_margins=margins,
            n_rounds=rounds,
            cv_scores=np.array([min(1.0, score + 0.1 * wrong)]),
            min_thresholds=np.zeros(1),
            noise_scales=np.ones(1),
            training_factors=np.full(1, 4 / 3),
            score_deviations_at=lambda positions, predictions: tail.standard_deviation(predictions),
        ).run_leader_first(policy)
        released += outcome.released_nats
        rounds += outcome.n_replies_above
    lowest = outcome.lower
    highest = outcome.upper
    if final:
        spent = final_code_length(released=released, n_batches=n_queries)
        lowest, highest = (np.array([score + sign * margins(rounds)[1]]) for sign in (-1, 1))
    side = math.log(0.9 * beta / 2) - spent
    lower = tail.lower_limit(lowest, side)
    upper = tail.upper_limit(highest, side)
    return float(np.max(upper - lower)) / 2


def print_widths():
    """Print certified widths at n = 10,000 and the number of all-holdout answers at 100,000."""
    n = 10_000
    m = 1000
    overfit = 10
    floor = math.sqrt(math.log(2 * m / 0.05) / (2 * n))
    rows = [
        ("as used (G7, score .9)", as_used_width(n, m, overfit)),
        ("as used (G7, score .5)", as_used_width(n, m, overfit, score=0.5)),
        ("ReusableHoldout, final report (G16, score .9)",
         as_used_width(n, m, overfit, final=True)),
        ("ReusableHoldout, final report (G16, score .5)",
         as_used_width(n, m, overfit, score=0.5, final=True)),
        ("declared in advance (G2, honesty not promised)",
         certify(n, n_queries=m, budget=overfit, c=None).tau),
        ("Thresholdout, Rogers et al. 2020, Thm B.9",
         rogers_thresholdout_half_width(n, n_queries=m, budget=overfit)),
        ("Gaussian noise, Rogers et al. 2020", rogers_half_width(n, n_queries=m)),
        ("Gaussian noise, Jung et al. 2020", jung_half_width(n, n_queries=m)),
        ("floor (Hoeffding, fixed in advance)", floor),
    ]  # fmt: skip
    print(f"\nCertified half-width, n = {n:,}, {m:,} sequential queries, {overfit} overfit")
    for name, width in rows:
        print(f"  {name:<50}{min(width, 1.0):.4f}")
    n = 100_000
    k = 400
    print(f"\nAll {k} answers from the holdout, n = {n:,}")
    for name, width in (
        ("rounded answers (G2)", certify(n, n_queries=k, budget=k, c=None).tau),
        ("Gaussian noise, Rogers et al. 2020", rogers_half_width(n, n_queries=k)),
        ("Gaussian noise, Jung et al. 2020", jung_half_width(n, n_queries=k)),
        (
            "new records for every query",
            certify_by_route(n, n_queries=k, budget=k, route="splitting").tau,
        ),
    ):
        print(f"  {name:<50}{min(width, 1.0):.4f}")


def print_private(n=100_000, epsilon=0.02, budget=10):
    """Print nats and widths by leakage, for noise at a level of privacy for life (theory G9).

    Every query overfits by .1 to .3, up or down, and is corrected by the holdout. The same queries
    go to a holdout without a level, whose intervals follow from code lengths alone.
    """
    rng = np.random.default_rng(1)
    X = np.zeros((n, 1))
    y = np.zeros(n)
    private = ReusableHoldout(X, y, epsilon=epsilon, budget=budget, random_state=0)
    coded = ReusableHoldout(X, y, random_state=0)
    tail = ModelTail(Independent(), n)
    print(f"\nA level for life: n = {n:,}, epsilon = {epsilon}, every query overfits")
    print("  asked   nats, leakage    (sampling)       nats, code    (sampling)")
    for n_answered in range(1, budget + 1):
        scores = (rng.random(n) < 0.5).astype(int)[np.newaxis]
        optimism = rng.uniform(0.1, 0.3) * rng.choice([-1.0, 1.0])
        cells = []
        for holdout in (private, coded):
            holdout.answer(scores.mean(axis=1) + optimism, scores)
            nats = holdout.next_code_length
            width = 0.5 - float(tail.lower_limit([0.5], math.log(0.0225) - nats)[0])
            cells.append(f"{nats:>16.1f}{width:>14.4f}")
        if n_answered in (1, 2, 5, budget):
            print(f"  {n_answered:>5}" + "   ".join(cells))
    print(f"  certificate: {private.certificate().notes[1]}")


def draw(path, *, points):
    """Plot certified width over records, m = 1,000 and B = 10."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    sizes = np.geomspace(1e3, 1e8, points).astype(int)
    figure, axes = plt.subplots(1, 2, figsize=(11, 4.2), sharey=True)
    for ax, name in zip(axes, ("independent", "chain P1"), strict=True):
        model = MODELS[name]
        for route, label in (
            ("zhao2017", "Zhao 2017, Thm 2"),
            ("bdp", "leakage (G1)"),
            ("posterior", "posterior (G6)"),
            ("transcript", "transcripts (G2)"),
            ("splitting", "fresh records"),
            ("floor", "floor"),
        ):
            taus = [_tau(n, model, route) for n in sizes]
            ax.loglog(sizes, taus, label=label)
        if name == "independent":
            used = [as_used_width(int(n), 1000, 10, score=0.5) for n in sizes]
            ax.loglog(sizes, used, "k--", label="as used (G7), score .5")
        ax.set(title=name, xlabel="holdout records", ylim=(1e-3, 0.5))
        ax.grid(alpha=0.3)
    axes[0].set_ylabel("certified half-width, m = 1,000, B = 10")
    axes[0].legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=150)
    plt.close(figure)


def _tau(n, model, route):
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        certificate = certify_by_route(
            int(n), n_queries=1000, budget=10, correlation=model, route=route
        )
    return math.nan if certificate.is_vacuous else certificate.tau


def main():
    """Print the tables and save the plot."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer cases and points")
    parser.add_argument("--output", type=Path, default=Path("."), help="folder of the plot")
    args = parser.parse_args()
    start = time.perf_counter()
    print_required(CASES[:1] if args.quick else CASES)
    print_widths()
    print_private()
    bonferroni = math.sqrt(math.log(2 * 100 / 0.05) / 2e4)
    needed = floor_required_n(tau=bonferroni, n_queries=100)
    print(f"\nBonferroni for one batch of 100 at n = {needed:,.0f}: {bonferroni:.4f}; "
          f"the as-used account: {math.sqrt(math.log(2 * 200 / 0.045) / 2e4):.4f}")  # fmt: skip
    args.output.mkdir(parents=True, exist_ok=True)
    path = args.output / "compare_guarantees.png"
    draw(path, points=6 if args.quick else 16)
    print(f"\nPlot: {path} ({time.perf_counter() - start:.0f} s)")


if __name__ == "__main__":
    main()
