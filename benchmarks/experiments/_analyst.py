"""Dwork et al.'s variable-selection analyst, with a standard and with a reusable holdout."""

from functools import partial

import numpy as np

from sklearn_bdp.mechanisms import Thresholdout

ANALYSTS = ("standard", "reusable")
COLUMNS = ("training", "holdout", "fresh", "population", "above")


def keep_attributes(training, holdout, n):
    """Return the attributes that pass, the largest training correlation first.

    An attribute passes when its correlations with the label on the training data and (as answered)
    on the holdout agree in sign and both exceed ``1 / sqrt(n)`` in size.
    Dwork et al. 2015, Section 5 (arXiv:1506.02629).

    Parameters
    ----------
    training, holdout : ndarray of shape (n_features,)
        Correlations with the label.
    n : int
        Number of records on each side.

    Returns
    -------
    ndarray of int
        Indices of the attributes that pass.
    """
    least = 1.0 / np.sqrt(n)
    passes = np.minimum(training * np.sign(holdout), np.abs(holdout)) > least
    order = np.argsort(-np.abs(training), kind="stable")
    return order[passes[order]]


def sign_votes(training, kept, sizes):
    """Return one classifier per size ``k``: the sum of the signs of the ``k`` best attributes.

    Parameters
    ----------
    training : ndarray of shape (n_features,)
        Correlations on the training data; their signs are the weights.
    kept : ndarray of int
        Attributes that pass, best first. Where fewer than ``k`` pass, all of them vote.
    sizes : sequence of int
        Numbers of attributes.

    Returns
    -------
    ndarray of shape (n_sizes, n_features)
        Weights -1, 0 or 1.
    """
    weights = np.zeros((len(sizes), len(training)))
    for row, size in zip(weights, sizes, strict=True):
        row[kept[:size]] = np.sign(training[kept[:size]])
    return weights


def reusable_answers(training, holdout, threshold, sigma, random_state, *, low=0.0, noise="paper"):
    """Ask the reusable holdout for a batch of values in ``[low, 1]``.

    ``noise="paper"``: Gaussian with the ratios of Fig. 1 of Dwork et al. 2017 (threshold 2 sigma,
    query 4 sigma, answer sigma). ``noise="script"``: what the authors' published script does
    instead, sigma in the comparison and sigma in the answer; narrower, and closer to the bands of
    the published figures. Neither comes with a proof.

    Thresholdout answers in [0, 1]. Correlations (``low=-1``) are moved there by an affine map,
    and threshold and noise with them, so that in units of the correlation they are as stated.

    Returns
    -------
    values : ndarray
        Answers, in the units of the query.
    n_above : int
        How many were taken from the holdout, with noise.
    """
    width = 1.0 - low
    threshold, sigma = threshold / width, sigma / width
    if noise == "paper":
        mechanism = Thresholdout.dwork2017_practical(
            threshold=threshold, sigma=sigma, random_state=random_state
        )
    elif noise == "script":
        mechanism = Thresholdout(
            threshold,
            threshold_scale=0.0,
            query_scale=sigma,
            answer_scale=sigma,
            noise="gaussian",
            random_state=random_state,
        )
    else:
        raise ValueError(f"noise must be 'paper' or 'script', got noise={noise!r}.")
    answers = mechanism.answer((training - low) / width, (holdout - low) / width)
    return low + width * np.asarray(answers.values), int(np.sum(answers.above))


def run_repetition(population, sample, n, sizes, rng, *, noise="paper"):
    """Run both analysts on one training set, one holdout and one fresh set.

    Parameters
    ----------
    population : Population
        Where data come from.
    sample : type
        ``RecordSample`` or ``StatisticSample``.
    n : int
        Records in each of the three sets.
    sizes : sequence of int
        Numbers of attributes to try.
    rng : numpy.random.Generator
        Source of all randomness, noise included.
    noise : {"paper", "script"}, default="paper"
        As for :func:`reusable_answers`.

    Returns
    -------
    ndarray of shape (n_analysts, n_sizes, n_columns)
        Accuracies on training data, on the holdout (as reported), on fresh data and on the
        population, and the number of "above" answers so far. Where no attribute is used all
        accuracies are 1/2.
    """
    # T = 0.04 and sigma = 0.01 at n = 10,000 (Dwork et al. 2017, Section 4.1).
    threshold, sigma = 4.0 / np.sqrt(n), 1.0 / np.sqrt(n)
    training, holdout = sample(population, n, rng), sample(population, n, rng)
    on_training, on_holdout = training.correlations(), holdout.correlations()
    ask = partial(reusable_answers, threshold=threshold, sigma=sigma, random_state=rng, noise=noise)
    noisy, above = ask(on_training, on_holdout, low=-1.0)

    kept = [keep_attributes(on_training, answer, n) for answer in (on_holdout, noisy)]
    weights = np.vstack([sign_votes(on_training, which, sizes) for which in kept])
    used = weights.any(axis=1)
    shape = (len(ANALYSTS), len(sizes))
    columns = [training.accuracies(weights), holdout.accuracies(weights)]
    del training, holdout  # room for the fresh records
    columns += [sample(population, n, rng).accuracies(weights)]
    columns += [population.distribution.accuracy(weights, np.zeros(len(weights)))]
    result = np.full((*shape, len(COLUMNS)), np.nan)
    result[..., :4] = np.where(used, columns, 0.5).T.reshape(*shape, 4)

    reported, more = ask(result[1, :, 0], result[1, :, 1])
    result[1, :, 1] = np.where(used[len(sizes) :], reported, 0.5)
    result[..., 4] = [[0], [above + more]]
    return result
