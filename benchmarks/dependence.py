"""From the data people have to the dependence they declare: what holds, at which price.

    python -m benchmarks.dependence --size small
    python -m benchmarks.dependence --size full --seed 1
    python -m benchmarks.dependence --csv series.csv --target target

Simulations (theory G11): per-record scores of a thresholded autoregression and of hidden regimes,
autocorrelation times 2 to 50; the strength is read off the first part, the interval is that of the
last quarter, the truth is known. Warnings: the check under ``correlation=None`` on three quarters
of the rows, as a shuffled holdout leaves them, inside five contiguous folds, as an inner
cross-validation leaves them. Networks (theory G13): a stochastic block model
split by nodes, coverage on fresh draws of the holdout's labels given the training labels. With
``--csv``: rolling windows of a real series (records in time, a column of classes), three adaptive
rounds of search; the truth is the score on the records that follow the holdout.
"""

import argparse
import math
import warnings

import numpy as np
from scipy import sparse
from scipy.optimize import brentq
from scipy.signal import lfilter

from sklearn_bdp.correlation import (
    Independent,
    MarkovChain,
    MarkovNetwork,
    check_independence,
    slow_autocorrelation_time,
)

SIZES = {"small": (40, 8000), "full": (200, 8000)}
TIMES = (2.0, 3.0, 5.0, 10.0, 20.0, 50.0)
BETA = 0.05


# -- simulated scores ------------------------------------------------------------------------------


def threshold_time(phi):
    """Return the autocorrelation time of the sign of a Gaussian autoregression."""
    lags = phi ** np.arange(1, max(50, int(60 / (1 - phi))))
    return 1.0 + 4.0 / math.pi * float(np.arcsin(lags).sum())


def autoregression(time):
    """Return a sampler, the expected score, and the best chain one could declare."""
    phi = brentq(lambda x: threshold_time(x) - time, 1e-6, 1 - 1e-6)

    def sample(n, rng):
        level = lfilter([1.0], [1.0, -phi], rng.normal(size=n + 4000))[4000:]
        return (level > 0).astype(float)

    return sample, 0.5, MarkovChain.from_autocorrelation_time(time)


def regimes(time, share=0.5, scores=(0.95, 0.45)):
    """Return the same for two hidden regimes, the second one of the given share."""
    mean = (1 - share) * scores[0] + share * scores[1]
    ratio = share * (1 - share) * (scores[0] - scores[1]) ** 2 / (mean * (1 - mean))
    odds = (time - 1.0) / (2.0 * ratio)
    contraction = odds / (1.0 + odds)
    leave = (1.0 - contraction) * np.array([share, 1.0 - share])

    def sample(n, rng):
        state, parts, total = int(rng.random() < share), [], 0
        while total < n:
            length = int(rng.geometric(leave[state]))
            parts.append(np.full(length, state))
            total, state = total + length, 1 - state
        states = np.concatenate(parts)[:n]
        return (rng.random(n) < np.asarray(scores)[states]).astype(float)

    chain = MarkovChain([[1 - leave[0], leave[0]], [leave[1], 1 - leave[1]]])
    return sample, mean, chain


def interval(model, scores):
    """Return the interval of one fixed query at ``BETA``."""
    n, value, level = len(scores), float(scores.mean()), math.log(BETA / 2.0)
    low = float(model.mean_lower_limit(value, level, n))
    return low, 1.0 - float(model.mean_lower_limit(1.0 - value, level, n))


def one_cell(maker, time, n, replications, rng):
    """Return miss rate, half-widths relative to the true chain, and warning rate."""
    sample, truth, chain = maker(time)
    misses, ratios, warned = 0, [], 0
    for _ in range(replications):
        scores = sample(n, rng)
        cut = 3 * n // 4
        learned = MarkovChain.from_scores(scores[: int(0.9 * cut)], horizon=n - cut)
        held = scores[cut:]
        low, high = interval(learned, held)
        best = interval(chain, held)
        misses += not low <= truth <= high
        ratios.append((high - low) / (best[1] - best[0]))
        rows = np.sort(rng.permutation(n)[:cut])
        warned += check_independence(scores[rows], folds=np.arange(cut) * 5 // cut).misfit
    return misses / replications, np.mean(ratios), np.quantile(ratios, 0.9), warned / replications


def show_time(replications, n, rng):
    """Print the table of simulated series."""
    print(f"time: {replications} replications of {n} records, last quarter held out, beta {BETA}")
    print(f"{'process':18} {'IACT':>5} {'miss':>6} {'width / true chain':>20} {'None warns':>11}")
    makers = {
        "autoregression": autoregression,
        "regimes, half": regimes,
        "regimes, 1 in 5": lambda t: regimes(t, share=0.2, scores=(0.9, 0.1)),
        "rare, 1 in 20": lambda t: regimes(t, share=0.05, scores=(0.9, 0.0)),
    }
    for name, maker in makers.items():
        for time in TIMES:
            miss, mean, high, warned = one_cell(maker, time, n, replications, rng)
            widths = f"{mean:.2f} (q90 {high:.2f})"
            print(f"{name:18} {time:5g} {miss:6.3f} {widths:>20} {warned:11.3f}", flush=True)
    size = 3 * n // 4
    rated = np.array([0.75, 0.85, 0.8, 0.78, 0.82])[np.arange(size) * 5 // size]  # of fold models
    false = np.mean(
        [
            check_independence(rng.random(size) < rated, folds=np.arange(size) * 5 // size).misfit
            for _ in range(replications)
        ]
    )
    print(f"{'independent':18} {1:5} {'':6} {'':20} {false:11.3f}")


# -- networks --------------------------------------------------------------------------------------


def block_model(n, rng, *, degree=6.0):
    """Return the adjacency of two blocks, four times as many edges inside as across."""
    block = np.arange(n) % 2
    inside = 1.6 * degree / n
    rates = np.where(block[:, None] == block[None, :], inside, inside / 4.0)
    upper = np.triu(rng.random((n, n)) < rates, 1)
    return sparse.csr_array((upper + upper.T).astype(float))


def gibbs(neighbours, labels, free, coupling, field, rng, sweeps):
    """Redraw the labels of some nodes given the others (two-class Potts model with fields)."""
    for _ in range(sweeps):
        draws = rng.random(len(free))
        for draw, v in zip(draws, free, strict=True):
            near = neighbours[v]
            odds = coupling * (2 * labels[near].sum() - len(near)) + field[v]
            labels[v] = draw < 1.0 / (1.0 + math.exp(-odds))
    return labels


def show_network(replications, rng, *, n=500, influence=0.1):
    """Print width and coverage of a block model that is split by nodes."""
    graph = block_model(n, rng)
    neighbours = [graph.indices[graph.indptr[v] : graph.indptr[v + 1]] for v in range(n)]
    network = MarkovNetwork(graph, influence=influence)
    split = network.split(n, 0.5, random_state=0)
    model, held = network.given_rest(split.holdout), split.holdout
    field = np.where(np.arange(n) % 2, 1.0, -1.0) + rng.normal(0, 0.5, n)
    coupling = influence / 2.0
    labels = gibbs(neighbours, rng.integers(0, 2, n), np.arange(n), coupling, field, rng, sweeps=30)
    guess = (field[held] > 0).astype(int)
    means = []
    for _ in range(5 * replications):
        labels = gibbs(neighbours, labels, held, coupling, field, rng, sweeps=2)
        means.append(float((labels[held] == guess).mean()))
    truth, covered, widths = np.mean(means), 0, []
    for mean in means[::5]:
        low, high = interval(model, np.r_[mean, np.full(len(held) - 1, mean)])
        covered += low <= truth <= high
        widths.append((high - low) / 2.0)
    print(
        f"network: {n} nodes, {graph.nnz // 2} edges, influence {influence}, {len(held)} held out: "
        f"±{np.mean(widths):.3f}, coverage {covered}/{len(widths)} on fresh draws, "
        f"effective {model.effective_n(len(held)):.0f}"
    )


# -- a real series ---------------------------------------------------------------------------------


def show_series(path, target, *, windows):
    """Print half-width and coverage of rolling windows of a real series."""
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from sklearn_bdp import ReusableHoldoutSearchCV

    with open(path) as file:
        names = file.readline().strip().split(",")
    table = np.genfromtxt(path, delimiter=",", skip_header=1)
    y = table[:, names.index(target)].astype(int)
    X = np.delete(table, names.index(target), axis=1)
    length = len(y) // (windows + 1) * 2  # windows overlap by half
    linear = make_pipeline(StandardScaler(), LogisticRegression(max_iter=500))
    forest = RandomForestClassifier(60, max_features=2, random_state=0, n_jobs=1)
    rounds = [
        (linear, {"logisticregression__C": [0.01, 0.1, 1.0]}),
        (forest, {"min_samples_leaf": [2, 8, 32]}),
    ]
    rows = {name: [] for name in ("None", "label chain", "time", "binomial")}
    for start in np.linspace(0, len(y) - length, windows).astype(int):
        part = slice(start, start + length)
        known = int(0.8 * length)
        here, labels = X[part][:known], y[part][:known]
        aside, truth = X[part][known:], y[part][known:]
        chain = MarkovChain.from_states(labels[: 2 * known // 3])
        for name, correlation in (("None", None), ("label chain", chain), ("time", "time")):
            low, high, model, search = adaptive(
                ReusableHoldoutSearchCV, rounds, here, labels, correlation
            )
            rows[name].append(covered((low, high), model, aside, truth))
            if name == "time":  # the same holdout, one model, as if records were independent
                held = search.holdout_indices_
                scores = (model.predict(here[held]) == labels[held]).astype(float)
                plain = interval(Independent(), scores)
                rows["binomial"].append(covered(plain, model, aside, truth))
    print(f"series: {windows} windows of {length} records, three adaptive rounds, truth ahead")
    print(f"{'declared':12} {'half-width':>11} {'covers':>8}   (score ahead known to one s.e.)")
    for name, found in rows.items():
        widths, hits = zip(*found, strict=True)
        print(f"{name:12} {np.mean(widths):11.3f} {sum(hits):4}/{len(hits)}")


def adaptive(search_class, rounds, X, y, correlation):
    """Return the interval of the model chosen last of three rounds, each knowing the one before."""
    holdout, best, parts = 0.25, None, [*rounds, None]
    train = None
    for estimator_grid in parts:
        if estimator_grid is None:  # go on around the better one
            estimator, grid = best.estimator, refine(best.best_params_)
        else:
            estimator, grid = estimator_grid
        search = search_class(
            estimator, grid, correlation=correlation, holdout=holdout, random_state=0, cv=4
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            search.fit(*((X, y) if train is None else (X[train], y[train])))
        if train is None:
            first, train = search, search.train_indices_
            holdout, correlation = search.holdout_, None
        if best is None or search.best_score_ > best.best_score_:
            best = search
    low, high = best.best_interval_
    return low, high, best.best_estimator_, first


def refine(params):
    """Return a grid around the best parameters."""
    ((name, value),) = params.items()
    around = [value / 3, value * 3] if isinstance(value, float) else [max(1, value // 2), value + 3]
    return {name: around}


def covered(limits, model, X, y):
    """Return the half-width, and whether the interval meets the score ahead up to its error."""
    scores = (model.predict(X) == y).astype(float)
    error = math.sqrt(scores.var() * slow_autocorrelation_time(scores) / len(scores))
    low, high = limits
    return (high - low) / 2.0, bool(low - error <= scores.mean() <= high + error)


def main():
    """Run what the arguments ask for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--csv", help="a series: header, numbers, one column of classes")
    parser.add_argument("--target", default="target", help="name of the column of classes")
    parser.add_argument("--windows", type=int, default=7)
    arguments = parser.parse_args()
    if arguments.csv:
        show_series(arguments.csv, arguments.target, windows=arguments.windows)
        return
    replications, n = SIZES[arguments.size]
    rng = np.random.default_rng(arguments.seed)
    show_network(replications, rng)
    show_time(replications, n, rng)


if __name__ == "__main__":
    main()
