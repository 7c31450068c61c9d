"""The constants of guards: how often each is wrong, and how much it detects, at other values::

    python -m benchmarks.guard_constants --tables 400

Warnings of independent tables are false; those of the last columns are meant.
"""

import argparse

import numpy as np

from sklearn_bdp.accounting.spending import outcome_code_length
from sklearn_bdp.correlation import Groups, independence_test


def main(arguments=None):
    """Print one table for each guard."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=400)
    count = parser.parse_args(arguments).tables
    neighbours(count)
    calendars(count)
    classes(count)
    few_groups()
    prices()


def warned(count, check, make):
    """Return the share of tables that are warned about."""
    return np.mean([check(make(np.random.default_rng(seed))) for seed in range(count)])


def neighbours(count):
    """SMALLEST_FOLD = 40: scores of a fold from which on neighbors are compared."""
    print("records in a fold   independent   rows of 5 alike")
    for n in (20, 40, 80):
        fold = np.repeat(np.arange(5), n)

        def misfit(scores, fold=fold):
            return independence_test(scores, folds=fold).misfit

        rate = warned(count, misfit, lambda rng, n=n: rng.random(5 * n))
        alike = warned(count, misfit, lambda rng, n=n: np.repeat(rng.random(n), 5))
        print(f"{n:>17}   {rate:11.1%}   {alike:15.1%}")


def calendars(count):
    """REGULAR = 0.75, ABOUT = 0.15: share of about equal steps of a calendar."""
    print("\nshare of equal steps   events at random   days with a tenth missing")
    for regular in (0.6, 0.75, 0.9):

        def alike(dates, regular=regular):
            steps = np.diff(np.sort(dates))
            typical = np.median(steps)
            return (np.abs(steps - typical) <= 0.15 * typical).mean() >= regular

        events = warned(count, alike, lambda rng: rng.random(200))
        days = warned(count, alike, lambda rng: np.flatnonzero(rng.random(200) > 0.1).astype(float))
        print(f"{regular:>20}   {events:16.1%}   {days:25.1%}")


def classes(count):
    """_NO_CHANCE = 1e-3: chance below which a class is missing for a reason."""
    print("\nchance   one of 20 classes missing from 100 of 400 records by chance")
    for chance in (1e-2, 1e-3, 1e-4):

        def lacks(labels, chance=chance):
            classes, counts = np.unique(labels[:300], return_counts=True)
            expected = (1.0 - counts / 300) ** 100 < chance
            return (~np.isin(classes, labels[300:]) & expected).any()

        print(f"{chance:>6}   {warned(count, lacks, lambda rng: rng.integers(0, 20, 400)):.1%}")


def few_groups():
    """FEW_GROUPS = 100: half-width for one fixed model beside nested cross-validation's."""
    print("\ngroups in the holdout   fixed model   nested over four times as many")
    for count in (25, 50, 100, 200, 400):
        model = Groups(np.repeat(np.arange(count), 4))
        fixed = 0.8 - float(model.mean_lower_limit(0.8, np.log(0.025), 4 * count))
        print(f"{count:>21}   {fixed:11.3f}   {1.96 * np.sqrt(0.16 / (4 * count)):30.3f}")


def prices():
    """The prior of a complaint, .05 in 1.05: what 20 silent checks and a first word cost."""
    silent = sum(
        outcome_code_length(n_checks=i, n_complaints=0, complaint=False, n_findings=4)
        for i in range(20)
    )
    first = outcome_code_length(n_checks=0, n_complaints=0, complaint=True, n_findings=4)
    print(f"\n20 silent checks {silent:.2f} nats, a first word {first:.2f} nats")


if __name__ == "__main__":
    main()
