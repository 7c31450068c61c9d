"""Dwork et al.'s variable-selection analyst, with a standard and with a reusable holdout."""

import numpy as np

ANALYSTS = ("standard", "reusable")
COLUMNS = ("training", "holdout", "lower", "upper", "fresh", "population", "above")
ORDERS = ("filter", "text")


def selections(training, holdout, n, sizes, *, order="filter"):
    """Return the attributes of each classifier.

    An attribute passes when its correlations with the label on the training data and (as answered)
    on the holdout agree in sign and both exceed ``1 / sqrt(n)`` in size.

    Parameters
    ----------
    training, holdout : ndarray of shape (n_features,)
        Correlations with the label; NaN where not answered, which never passes.
    n : int
        Number of records on each side.
    sizes : sequence of int
        Numbers of attributes k.
    order : {"filter", "text"}
        ``"filter"``: the k largest training correlations among those that pass, as in the authors'
        published script and figures. ``"text"``: pick the k largest, then keep those that pass, as
        Dwork et al. 2017, Section 4.1, has it.

    Returns
    -------
    list of ndarray of int
        One array of indices per size, the largest training correlation first.
    """
    threshold = 1.0 / np.sqrt(n)
    passes = np.minimum(training * np.sign(holdout), np.abs(holdout)) > threshold
    ranked = np.argsort(-np.abs(training), kind="stable")
    if order == "filter":
        passed = ranked[passes[ranked]]
        return [passed[:size] for size in sizes]
    if order == "text":
        return [ranked[:size][passes[ranked[:size]]] for size in sizes]
    raise ValueError(f"order must be one of {ORDERS}, got order={order!r}.")


def sign_votes(training, selected):
    """Return one classifier per selection: the sum of the signs of its attributes.

    Parameters
    ----------
    training : ndarray of shape (n_features,)
        Correlations on the training data; their signs are the weights.
    selected : list of ndarray of int
        As from :func:`selections`.

    Returns
    -------
    ndarray of shape (n_sizes, n_features)
        Weights -1, 0 or 1.
    """
    weights = np.zeros((len(selected), len(training)))
    for row, columns in zip(weights, selected, strict=True):
        row[columns] = np.sign(training[columns])
    return weights


def run_repetition(population, sample, n, sizes, rng, *, answering, order="filter"):
    """Run both analysts on one training set, one holdout and one fresh set.

    Parameters
    ----------
    population : Population
        Simulator of the data.
    sample : type
        ``RecordSample`` or ``StatisticSample``.
    n : int
        Records in each of the three sets.
    sizes : sequence of int
        Numbers of attributes to try.
    rng : numpy.random.Generator
        Source of all randomness, noise included.
    answering : Practical, Algorithm1 or Default
        The reusable holdout.
    order : {"filter", "text"}, default="filter"
        As for :func:`selections`.

    Returns
    -------
    ndarray of shape (n_analysts, n_sizes, n_columns)
        Accuracies on training data, on the holdout (as reported, with its limits: NaN if they are
        not proven), on fresh data and on the population, and the number of "above" answers
        so far. Without any attribute all accuracies are 1/2.
    """
    training = sample(population, n, rng)
    holdout = sample(population, n, rng)
    training_correlations = training.correlations()
    raw_correlations = holdout.correlations()
    reusable = answering.begin(n, rng)
    reported_correlations, n_above = reusable.correlations(
        training_correlations, raw_correlations, holdout
    )
    weights_by_analyst = []
    for holdout_correlations in (raw_correlations, reported_correlations):
        selected = selections(training_correlations, holdout_correlations, n, sizes, order=order)
        weights_by_analyst.append(sign_votes(training_correlations, selected))
    weights = np.vstack(weights_by_analyst)
    k = len(sizes)
    result = np.full((len(ANALYSTS), k, len(COLUMNS)), np.nan)
    columns = result.reshape(2 * k, -1).T  # a view: one row per column of the result
    columns[0] = training.accuracies(weights)
    columns[1] = holdout.accuracies(weights)
    reports, limits, n_report_above = reusable.accuracies(
        columns[0, k:], columns[1, k:], holdout, weights[k:]
    )
    columns[1, k:] = reports
    columns[2:4, k:] = limits
    del training, holdout  # room for the fresh records
    columns[4] = sample(population, n, rng).accuracies(weights)
    columns[5] = population.distribution.accuracy(weights, np.zeros(len(weights)))
    columns[:6, ~weights.any(axis=1)] = 0.5
    result[..., 6] = [[0], [n_above + n_report_above]]
    return result
