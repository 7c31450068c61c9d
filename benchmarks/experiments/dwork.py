"""Figures 2 and 3 of Dwork et al. 2017: variable selection on independent records.

An analyst keeps the attributes whose correlation with the label agrees between training data and
holdout, lets the best k of them vote, and asks for the accuracy of the vote. With the standard
holdout both queries see the raw holdout; with the reusable one both go through Thresholdout
(T = 0.04, sigma = 0.01, Gaussian noise). Figure 2: no attribute knows the label. Figure 3: twenty
attributes are shifted by 0.06.

Three variants, because the text, its Figure 1 and the published figures differ. "reproduction"
gives the published figures: filter, then the k largest; sigma in the comparison (the authors'
script). "ratios": threshold and query noise of 2 and 4 sigma, as in Fig. 1. "text-order": pick the
k largest, then verify, as Section 4.1 has it.
"""

import sys

import numpy as np

from benchmarks.experiments._analyst import COLUMNS
from benchmarks.experiments._answering import Practical
from benchmarks.experiments._cli import main, parser, report
from benchmarks.experiments._figures import draw
from benchmarks.experiments._samples import dwork_population

_PUBLISHED = [0, 10, 20, 30, 45, 70, 100, 150, 200, 250, 300, 400, 500]
#: n = d, numbers of attributes tried, repetitions
SIZES = {
    "tiny": (400, [0, 2, 5, 10, 15, 20], 4),
    "small": (4_000, [0, 4, 10, 20, 40, 70, 100, 150, 200], 20),
    "medium": (10_000, _PUBLISHED, 20),
    "full": (10_000, _PUBLISHED, 100),
}
FIGURES = {"2": ("no signal", 0), "3": ("20 attributes shifted by 0.06", 20)}
#: noise of the comparison, order of selection
VARIANTS = {
    "reproduction": ("script", "filter"),
    "ratios": ("paper", "filter"),
    "text-order": ("script", "text"),
}


def experiment(session):
    """Make the chosen figures in the chosen variants."""
    options = session.options
    n, sizes, repetitions = SIZES[options.size]
    for variant in VARIANTS if options.variant == "all" else [options.variant]:
        noise, order = VARIANTS[variant]
        for figure in FIGURES if options.figure == "both" else [options.figure]:
            signal, n_shifted = FIGURES[figure]
            shift = 6.0 / np.sqrt(n)  # 0.06 at n = 10,000
            suffix = "" if variant == "reproduction" else f"-{variant}"
            name = f"dwork-figure-{figure}{suffix}-{options.size}"
            settings = {
                "n": n, "n_features": n, "sizes": sizes, "n_shifted": n_shifted, "shift": shift,
                "data": options.data, "noise": noise, "order": order,
            }  # fmt: skip
            population = dwork_population(n, n_shifted, shift)
            results = session.simulate(name, population, Practical(noise), settings, repetitions)
            title = f"Dwork et al., Fig. {figure}: {signal} ({variant})"
            panels = [
                ("Standard holdout", results[:, 0]),
                ("Reusable holdout (Thresholdout)", results[:, 1]),
            ]
            subtitle = f"{title}\nn = d = {n:,}, {len(results)} repetitions"
            draw(options.output / f"{name}.png", panels, sizes, subtitle)
            report(title, results, sizes)
            print_errors(results, sizes, n)


def print_errors(results, sizes, n):
    """Print how far the reports of the reusable holdout are from the population."""
    reported, truth = (results[:, 1, :, COLUMNS.index(c)] for c in ("holdout", "population"))
    errors = np.abs(reported - truth)
    limit = 7.0 / np.sqrt(n)  # T + 3 sigma
    worst = int(np.argmax((errors > limit).mean(axis=0)))
    print(
        f"  reports of the reusable holdout: largest error {100 * errors.max():.1f} points; beyond "
        f"T + 3 sigma ({100 * limit:.0f} points) at most {(errors[:, worst] > limit).sum()} of "
        f"{len(errors)} at any k (k = {sizes[worst]})"
    )


if __name__ == "__main__":
    command = parser(__doc__, SIZES)
    command.add_argument("--figure", choices=[*FIGURES, "both"], default="both", help="which one")
    command.add_argument("--variant", choices=[*VARIANTS, "all"], default="all", help="see above")
    command.add_argument(
        "--data",
        choices=["statistics", "records"],
        default="statistics",
        help="draw sums from their exact distribution, or every record (slow)",
    )
    sys.exit(main(command.parse_args(), experiment))
