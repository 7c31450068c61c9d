"""Figures 2 and 3 of Zhao 2017, and the same with the default of this library.

One data set: a random label of -1 or 1, attributes correlated with the label and among themselves,
records along a Markov chain (label and mood keep their value with probability STAY). Figure 2
reuses the holdout in the common way. Figure 3 asks Algorithm 1 (Laplace noise of sigma, 2 sigma and
4 sigma) with the parameters of Theorem 2, calibrated to that chain by Lemma 2. The paper gives no
number of records, attributes or repetitions, no chain, tau, beta, m, B, c or sigma: those are ours
and are printed. Theorem 2 needs many records, so the last figure asks the default of this library
at a size where the theorem says nothing for any tau up to 1.
"""

import sys
import warnings

import numpy as np

from benchmarks.experiments._analyst import COLUMNS
from benchmarks.experiments._answering import Algorithm1, Default, sign_chain
from benchmarks.experiments._cli import main, parser, report
from benchmarks.experiments._figures import draw
from benchmarks.experiments._samples import markov_population
from benchmarks.papers.routes import certify_by_route
from sklearn_bdp.accounting.noise_calibration import zhao_required_n
from sklearn_bdp.exceptions import UninformativeIntervalWarning

#: Theorem 2's part: records, attributes, numbers tried, repetitions. Ours: records = attributes.
SIZES = {
    "tiny": ((200_000, 2_000, [0, 100, 600], 3), (300, [0, 5, 20], 3)),
    "small": ((500_000, 100_000, [0, 1_000, 5_000, 30_000], 10), (1_000, [0, 5, 10, 25, 50], 10)),
    "full": (
        (1_000_000, 1_000_000, [0, 2_000, 10_000, 50_000, 100_000, 200_000, 300_000], 20),
        (2_000, [0, 4, 10, 25, 50, 100], 20),
    ),
}
BETA = 0.05


def experiment(session):
    """Draw Figures 2 and 3 at a size of Theorem 2, and the library's default at a smaller size."""
    options = session.options
    theorem_arguments, default_arguments = SIZES[options.size]
    panels = _theorem_2(session, *theorem_arguments)
    _default(session, *default_arguments)
    if panels:
        path = options.output / f"zhao-figures-2-and-3-{options.size}.png"
        n, _, sizes, _ = theorem_arguments
        draw(path, panels, sizes, f"Zhao, Fig. 2 and 3: n = {n:,} records")


def _settings(options, n, d, sizes, **options_of_figure):
    """Return the settings of repetitions with n records and d attributes."""
    # One attribute in 500 depends on the label, and their vote is right six times in ten.
    # The mood moves all votes together: its part of a vote stays the same at every d.
    return {
        "n": n, "n_features": d, "sizes": sizes, "n_shifted": max(1, d // 500),
        "shift": 0.268 / np.sqrt(max(1, d // 500)), "stay": options.stay,
        "loading": options.loading * (10_000 / d) ** 0.25, "order": "filter", **options_of_figure,
    }  # fmt: skip


def _population(settings):
    names = ("n_features", "n_shifted", "shift", "stay", "loading")
    return markov_population(*(settings[name] for name in names))


def _required_n(options, n_queries):
    """Return the records that Theorem 2 requires even for tau = 1."""
    return zhao_required_n(
        tau=1.0,
        n_queries=n_queries,
        budget=options.budget,
        beta=BETA,
        c=options.c,
        model=sign_chain(options.stay),
    )


def _theorem_2(session, n, d, sizes, repetitions):
    """Print the experiment with Algorithm 1; return the panels of Figures 2 and 3.

    Without a guarantee at ``n`` records there are no panels.
    """
    options = session.options
    n_queries = d + len(sizes)
    chain = sign_chain(options.stay)
    required_n = _required_n(options, n_queries)
    print(
        f"Declared chain: label and mood keep their value with probability {options.stay}; "
        f"{chain.describe()}\nNot given by the paper, chosen here: n = {n:,}, d = {d:,}, k up to "
        f"{sizes[-1]:,}, m = {n_queries:,}, B = {options.budget}, beta = {BETA}, c = {options.c}, "
        f"{options.repetitions or repetitions} repetitions"
    )
    if not required_n <= n:
        print(
            f"Theorem 2 asks for {required_n:,.0f} records even for tau = 1: no Figure 3 at {n:,}"
        )
        return []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UninformativeIntervalWarning)  # tau is printed
        certificate = certify_by_route(
            n,
            correlation=chain,
            route="zhao2017",
            n_queries=n_queries,
            budget=options.budget,
            beta=BETA,
            c=options.c,
        )
    tau = _printed_tau(certificate, options.c)
    print_calibration(certificate, tau, options.c, n, chain)
    answering = Algorithm1(tau, BETA, n_queries, options.budget, options.c)
    settings = _settings(
        options,
        n,
        d,
        sizes,
        data="statistics",
        tau=tau,
        sigma=certificate.mechanism.threshold_scale,
        budget=options.budget,
        c=options.c,
    )
    population = _population(settings)
    name = f"zhao-figures-2-and-3-{options.size}"
    results = session.simulate(name, population, answering, settings, repetitions)
    report("Zhao, Fig. 2: the common way", results, sizes, analysts=["standard"])
    report("Zhao, Fig. 3: Algorithm 1", results, sizes, analysts=["reusable"])
    print_coverage(results)
    return [
        ("Fig. 2: the common way", results[:, 0]),
        (f"Fig. 3: Algorithm 1 (± {tau:.2f})", results[:, 1]),
    ]


def _printed_tau(certificate, c):
    """Return τ of Theorem 2, from the threshold T = (1 + c)τ/2 of its mechanism."""
    return min(2.0 * certificate.mechanism.threshold / (1.0 + c), 1.0)


def print_calibration(certificate, tau, c, n, chain):
    """Print σ, ε and ε′ of Algorithm 1 under Theorem 2."""
    mechanism = certificate.mechanism
    epsilon = (1.0 - c) * tau / 12.0
    print(
        f"Theorem 2 at n = {n:,}: tau = {tau:.3f}, T = {mechanism.threshold:.4f}, "
        f"sigma = {mechanism.threshold_scale:.5f} (Laplace sigma, 2 sigma, 4 sigma)\n"
        f"  BDP level asked for            epsilon  = (1-c) tau/12 = {epsilon:.5f}\n"
        f"  DP level by Lemma 2            epsilon' = "
        f"{chain.dp_epsilon(epsilon, n, method='quilt'):.5f}\n"
        f"  DP level spent, 9B/(4 sigma n)          = {mechanism.dp_epsilon(1.0 / n):.5f}\n"
        f"  BDP level of that by theory B5          = {certificate.bdp_epsilon:.5f}"
    )


def _default(session, n, sizes, repetitions):
    """Print and draw the experiment with the library's default, for n records and attributes."""
    options = session.options
    name = f"zhao-default-{session.options.size}"
    required_n = _required_n(options, n + len(sizes))
    print(
        f"\nThe default of this library at n = d = {n:,}, where Theorem 2 asks for "
        f"{required_n:,.0f} records even for tau = 1"
    )
    settings = _settings(options, n, n, sizes, data="records")
    population = _population(settings)
    results = session.simulate(name, population, Default(options.stay), settings, repetitions)
    report("Default", results, sizes)
    print_coverage(results)
    panels = [("The common way", results[:, 0]), ("ReusableHoldout, default", results[:, 1])]
    title = f"The same experiment at n = d = {n:,}: Theorem 2 says nothing there"
    draw(options.output / f"{name}.png", panels, sizes, title)


def print_coverage(results):
    """Print the proven half-widths of the reusable holdout, and how often the truth is outside."""
    lower, upper, truth = (
        results[:, 1, 1:, COLUMNS.index(column)] for column in ("lower", "upper", "population")
    )
    is_answered = np.isfinite(lower)
    n_missed = ((truth < lower) | (truth > upper)).any(axis=1).sum()
    half_widths = (upper - lower)[is_answered] / 2.0
    print(
        f"  promised limits: ± {100 * half_widths.mean():.1f} points on average "
        f"({is_answered.mean():.0%} of the reports answered); truth outside in {n_missed} of "
        f"{len(truth)} repetitions"
    )


if __name__ == "__main__":
    command = parser(__doc__, SIZES)
    command.add_argument("--stay", type=float, default=0.55, help="P(a sign keeps its value)")
    command.add_argument(
        "--loading", type=float, default=0.1, help="attributes against the mood at d = 10,000"
    )
    command.add_argument("--budget", type=int, default=3, help="B of Theorem 2")
    command.add_argument("--c", type=float, default=0.01, help="c of Theorem 2, in (0, 1)")
    sys.exit(main(command.parse_args(), experiment))
