"""Coverage and width of intervals when dependence is declared, declared wrongly, or ignored.

    python -m benchmarks.dependence --size small
    python -m benchmarks.dependence --size full --seed 1
    python -m benchmarks.dependence --size full --part studies
    python -m benchmarks.dependence --csv series.csv --target target

- Past (theory G26): intervals for scores in time given their past, beside Newey-West errors and a
  bootstrap of blocks (``benchmarks.dependence.past``).
- Dates (theory G31): level ratios and widths of approximate intervals of any metric over dates
  (``benchmarks.dependence.dates``), and of seven metrics over dates of seven processes
  (``benchmarks.dependence.date_metrics``); how often a better forecast is shown to be better
  (``benchmarks.dependence.better``).
- Searches: two adaptive rounds of ``ReusableHoldoutSearchCV`` under every declaration; a search is
  a miss if *any* of its intervals misses its truth.
- Networks (theory G27): coverage given the training labels for a holdout of nodes that are not
  neighbors, beside a random split, blocks and the oracle; then cross-validated scores as
  predictions of the holdout score.
- Studies: patients, panels, maps and networks with right and wrong declarations, beside the usual
  procedures of their fields (``benchmarks.dependence.studies``).
- ``--csv``: three adaptive rounds of search in rolling windows of a real series (records in time, a
  column of classes); the truth is the score on the records that follow the holdout.
"""

import argparse

import numpy as np

from benchmarks.dependence.better import show_better
from benchmarks.dependence.date_metrics import show_date_metrics
from benchmarks.dependence.dates import show_dates
from benchmarks.dependence.networks import show_network
from benchmarks.dependence.node_metrics import show_node_metrics
from benchmarks.dependence.node_predictions import show_predictions
from benchmarks.dependence.past import show_past
from benchmarks.dependence.searches import show_searches
from benchmarks.dependence.series import show_series
from benchmarks.dependence.studies import show_studies

#: Replications, records of a series, replications of the studies.
SIZES = {"small": (20, 8000, 3), "full": (200, 8000, 40)}


def main():
    """Run the studies that the arguments name."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--size", choices=SIZES, default="small", help="20 or 200 replications (studies: 3 or 40)"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of all simulations")
    parts = ("all", "searches", "past", "dates", "studies")
    parser.add_argument("--part", choices=parts, default="all", help="only these simulations")
    parser.add_argument("--csv", help="file of a series: header, numbers, one column of classes")
    parser.add_argument("--target", default="target", help="name of the column of classes")
    parser.add_argument("--windows", type=int, default=7, help="rolling windows of the series")
    arguments = parser.parse_args()
    if arguments.csv:
        show_series(arguments.csv, arguments.target, windows=arguments.windows)
        return
    replications, n, study_replications = SIZES[arguments.size]
    rng = np.random.default_rng(arguments.seed)
    part = arguments.part
    if part in ("all", "searches"):
        show_network(replications, rng)
        show_predictions(replications)
        show_node_metrics(replications)
        show_searches(replications, n, rng)
    if part in ("all", "past"):
        show_past(replications, rng)
    if part in ("all", "dates"):
        show_dates(replications, rng)
        show_date_metrics(replications, np.random.default_rng(arguments.seed))
        show_better(replications, np.random.default_rng(arguments.seed))
    if part in ("all", "studies"):
        show_studies(study_replications, rng)


if __name__ == "__main__":
    main()
