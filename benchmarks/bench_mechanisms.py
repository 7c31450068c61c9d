"""Answers per second of Thresholdout, against the published loop in the same run.

python benchmarks/bench_mechanisms.py [--queries 10000000] [--repeats 3]

The loop is Fig. 1 of Dwork et al. 2017 as usually written: one query at a time, one call to
numpy's Laplace sampler per query. Claim: at least ten million batched answers per second of one
core (processor time), with noise from the operating system's cryptographic generator.
"""

import argparse
import time

import numpy as np

from sklearn_bdp.mechanisms import Thresholdout

SCALES = {"threshold_scale": 0.005, "query_scale": 0.01, "answer_scale": 0.005}
#: Claimed number of batched answers per second.
CLAIMED_RATE = 10e6


def published_loop(training_values, holdout_values, threshold, rng):
    """Answer one by one, as in the paper."""
    noisy_threshold = threshold + rng.laplace(0.0, SCALES["threshold_scale"])
    answers = []
    for training_value, holdout_value in zip(training_values, holdout_values, strict=True):
        noise = rng.laplace(0.0, SCALES["query_scale"])
        if abs(holdout_value - training_value) + noise > noisy_threshold:
            noisy_threshold = threshold + rng.laplace(0.0, SCALES["threshold_scale"])
            answers.append(holdout_value + rng.laplace(0.0, SCALES["answer_scale"]))
        else:
            answers.append(training_value)
    return answers


def rate(task, n_answers, repeats):
    """Return the best number of answers per second of processor time."""
    shortest_time = np.inf
    for _ in range(repeats):
        start = time.process_time()
        task()
        shortest_time = min(shortest_time, time.process_time() - start)
    return n_answers / shortest_time


def batched(training_values, holdout_values, **options):
    """Return a function without arguments that answers one batch with a new mechanism."""

    def task():
        mechanism = Thresholdout(0.2, resolution=0.01, **SCALES, **options)
        return mechanism.answer(training_values, holdout_values)

    return task


def single(training_values, holdout_values):
    """Answer one by one through the public method."""
    mechanism = Thresholdout(0.2, resolution=0.01, **SCALES)
    for training_value, holdout_value in zip(training_values, holdout_values, strict=True):
        mechanism.answer(training_value, holdout_value)


def main(arguments=None):
    """Print the table, and return 1 if batched answers are slower than claimed.

    Parameters
    ----------
    arguments : list of str, optional
        Command line without the program's name.

    Returns
    -------
    int
        Exit code.
    """
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--queries", type=int, default=10_000_000, help="queries of a batch")
    parser.add_argument("--repeats", type=int, default=3, help="repetitions; the best one counts")
    options = parser.parse_args(arguments)
    repeats = options.repeats
    rng = np.random.default_rng(0)
    n_queries = options.queries
    n_slow = min(options.queries, 100_000)  # queries of the slow ways to answer
    holdout_values = rng.random(n_queries)
    close_values = np.clip(holdout_values + rng.normal(0.0, 0.01, n_queries), 0.0, 1.0)
    # A training value of -1 is far from every holdout value, so that the answer is "above".
    seldom_far_values = np.where(np.arange(n_queries) % 1000 == 999, -1.0, close_values)
    far_values = np.full(n_slow, -1.0)
    few_holdout_values = holdout_values[:n_slow]

    close_list = close_values[:n_slow].tolist()
    holdout_list = few_holdout_values.tolist()
    loop_rate = rate(lambda: published_loop(close_list, holdout_list, 0.2, rng), n_slow, repeats)
    single_rate = rate(lambda: single(close_list, holdout_list), n_slow, 1)
    batch_rate = rate(batched(close_values, holdout_values), n_queries, repeats)
    seeded_task = batched(close_values, holdout_values, random_state=0)
    seldom_far_task = batched(seldom_far_values, holdout_values)
    far_task = batched(far_values, few_holdout_values)
    unrefreshed_task = batched(far_values, few_holdout_values, refresh=False)
    rates = {
        "published loop (Dwork et al. 2017, Fig. 1)": loop_rate,
        "one by one": single_rate,
        "batch": batch_rate,
        "batch, seeded": rate(seeded_task, n_queries, 1),
        "batch, 1 in 1,000 above": rate(seldom_far_task, n_queries, repeats),
        "batch, all above": rate(far_task, n_slow, 1),
        "batch, all above, not refreshed": rate(unrefreshed_task, n_slow, 1),
    }
    print(f"{'Thresholdout':<44}{'answers/s':>14}{'ratio':>8}")
    for label, answers_per_second in rates.items():
        ratio = answers_per_second / loop_rate
        print(f"{label:<44}{answers_per_second:>14,.0f}{ratio:>8.1f}")
    is_reached = batch_rate >= CLAIMED_RATE
    print(f"ten million batched answers per second: {'reached' if is_reached else 'MISSED'}")
    return 0 if is_reached else 1


if __name__ == "__main__":
    raise SystemExit(main())
