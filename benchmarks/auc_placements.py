"""Width of proven limits of ROC AUC in a report: pairs, and bets on placements (theory G36).

Binormal scores of independent records. Widths are divided by that of one look, the jackknife at
95%. Proven limits and the jackknife of the last column have the level of a report after one nat.
Run as ``python -m benchmarks.auc_placements``.
"""

import argparse
import math

import numpy as np
from scipy.stats import norm

from sklearn_bdp.intervals.auc import PlacementMoments, placement_limits, placements
from sklearn_bdp.intervals.concentration import PairsTail
from sklearn_bdp.intervals.jackknife import approximate_row
from sklearn_bdp.metrics import get_metric
from sklearn_bdp.report.by_class import AucMoments

#: AUC, number of records, share of positive records.
SETTINGS = (
    (0.8, 250, 0.12),
    (0.8, 1_000, 0.12),
    (0.8, 1_000, 0.03),
    (0.95, 1_000, 0.12),
    (0.8, 1_000, 0.3),
    (0.8, 1_000, 0.5),
)
#: Minus the log of the failure probability of one side: 95%, and one nat that answers revealed.
NATS = math.log(40.0) + 1.0


def draw_scores(auc, n, share, rng):
    """Return the scores of positive and of negative records.

    Parameters
    ----------
    auc : float
        Expected ROC AUC.
    n : int
        Number of records.
    share : float
        Share of positive records.
    rng : numpy.random.Generator
        Source of randomness.

    Returns
    -------
    positive, negative : ndarray
        Scores of both classes.
    """
    n_positive = round(share * n)
    shift = math.sqrt(2.0) * norm.ppf(auc)
    return rng.normal(size=n_positive) + shift, rng.normal(size=n - n_positive)


def relative_widths(positive, negative, moments):
    """Return the widths of pairs, placements and the jackknife, divided by that of one look.

    Parameters
    ----------
    positive, negative : ndarray
        Scores of both classes, positive ones not more numerous.
    moments : PlacementMoments
        Moments of placements of other scores.

    Returns
    -------
    ndarray of shape (3,)
        Ratios.
    """
    y = np.repeat([1, 0], [len(positive), len(negative)])
    scores = np.concatenate([positive, negative])
    statistic = get_metric("roc_auc", y=y).unit_statistic

    def jackknife_width(level):
        row = approximate_row(
            statistic, y, [(scores, None)], unit_codes=np.arange(len(y)), alpha=level
        )
        return row.upper - row.lower

    values = placements(positive, negative)
    mean = np.array([values.mean()])
    tail = PairsTail((len(negative), len(positive)))
    lower_by_pairs, upper_by_pairs = tail.limits(mean, mean, np.array([-NATS]))
    lower, upper = placement_limits(values, len(negative), moments=moments, log_inverse_alpha=NATS)
    widths = [
        float(upper_by_pairs[0] - lower_by_pairs[0]),
        upper - lower,
        jackknife_width(2.0 * math.exp(-NATS)),
    ]
    return np.array(widths) / jackknife_width(0.05)


def main():
    """Print a row for each setting: mean ratios over draws."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--draws", type=int, default=20, help="draws of each setting")
    draws = parser.parse_args().draws
    print("  AUC  records  positive  pairs  placements  jackknife")
    for auc, n, share in SETTINGS:
        rng = np.random.default_rng(0)
        ratios = []
        for _ in range(draws):
            training = AucMoments.from_folds([draw_scores(auc, n, share, rng)])
            moments = PlacementMoments(training.center, training.variance_positive)
            ratios.append(relative_widths(*draw_scores(auc, n, share, rng), moments))
        pairs, bets, jackknife = np.mean(ratios, axis=0)
        print(f"{auc:5.2f} {n:8,} {share:9.0%} {pairs:6.2f} {bets:11.2f} {jackknife:10.2f}")


if __name__ == "__main__":
    main()
