"""Constants of the checks of data: rates of false and of right warnings at other values::

    python -m benchmarks.guard_constants --tables 400

Warnings of independent tables are false; those in the last column of a table are right.
"""

import argparse

import numpy as np

from sklearn_bdp.accounting.spending import outcome_code_length
from sklearn_bdp.correlation import Groups, independence_test


def main(arguments=None):
    """Print one table for each guard."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", type=int, default=400, help="simulated data sets per rate")
    n_tables = parser.parse_args(arguments).tables
    neighbors(n_tables)
    calendars(n_tables)
    classes(n_tables)
    few_groups()
    prices()


def warning_rate(n_tables, check, make):
    """Return the share of tables for which a check gives a warning."""
    return np.mean([check(make(np.random.default_rng(seed))) for seed in range(n_tables)])


def neighbors(n_tables):
    """Print warnings of dependent neighbors by the size of a fold (MIN_FOLD_SIZE = 40)."""
    print("records in a fold   independent   rows of 5 alike")
    for n in (20, 40, 80):
        folds = np.repeat(np.arange(5), n)

        def misfit(scores, folds=folds):
            return independence_test(scores, folds=folds).misfit

        false_rate = warning_rate(n_tables, misfit, lambda rng, n=n: rng.random(5 * n))
        right_rate = warning_rate(n_tables, misfit, lambda rng, n=n: np.repeat(rng.random(n), 5))
        print(f"{n:>17}   {false_rate:11.1%}   {right_rate:15.1%}")


def calendars(n_tables):
    """Print how often dates pass as a calendar.

    The constants are MIN_REGULAR_FRACTION = 0.75 and STEP_TOLERANCE = 0.15.
    A calendar has at least a share of steps that are equal within 15%.
    """
    print("\nshare of equal steps   events at random   days with a tenth missing")
    for min_share in (0.6, 0.75, 0.9):

        def is_calendar(dates, min_share=min_share):
            steps = np.diff(np.sort(dates))
            median_step = np.median(steps)
            return (np.abs(steps - median_step) <= 0.15 * median_step).mean() >= min_share

        false_rate = warning_rate(n_tables, is_calendar, lambda rng: rng.random(200))
        right_rate = warning_rate(
            n_tables, is_calendar, lambda rng: np.flatnonzero(rng.random(200) > 0.1).astype(float)
        )
        print(f"{min_share:>20}   {false_rate:16.1%}   {right_rate:25.1%}")


def classes(n_tables):
    """Print how often a class counts as missing although chance removed it (_NO_CHANCE = 1e-3)."""
    print("\nchance   one of 20 classes missing from 100 of 400 records by chance")
    for chance in (1e-2, 1e-3, 1e-4):

        def lacks_a_class(labels, chance=chance):
            training_classes, counts = np.unique(labels[:300], return_counts=True)
            is_expected = (1.0 - counts / 300) ** 100 < chance
            return (~np.isin(training_classes, labels[300:]) & is_expected).any()

        rate = warning_rate(n_tables, lacks_a_class, lambda rng: rng.integers(0, 20, 400))
        print(f"{chance:>6}   {rate:.1%}")


def few_groups():
    """Print half-widths of one fixed model and of nested cross-validation (FEW_GROUPS = 100)."""
    print("\ngroups in the holdout   fixed model   nested over four times as many")
    for n_groups in (25, 50, 100, 200, 400):
        model = Groups(np.repeat(np.arange(n_groups), 4))
        half_width = 0.8 - float(model.mean_lower_limit(0.8, np.log(0.025), 4 * n_groups))
        nested_half_width = 1.96 * np.sqrt(0.16 / (4 * n_groups))
        print(f"{n_groups:>21}   {half_width:11.3f}   {nested_half_width:30.3f}")


def prices():
    """Print the nats of checks without a finding and of a first finding (prior .05 in 1.05)."""
    silent = sum(
        outcome_code_length(n_checks=i, n_complaints=0, complaint=False, n_findings=4)
        for i in range(20)
    )
    finding = outcome_code_length(n_checks=0, n_complaints=0, complaint=True, n_findings=4)
    print(f"\n20 silent checks {silent:.2f} nats, a first word {finding:.2f} nats")


if __name__ == "__main__":
    main()
