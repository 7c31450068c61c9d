"""Patients, panels, maps and networks: coverage, detected misfits, and usual procedures beside.

Every study simulates data of known truth, declares their dependence rightly or wrongly, searches
and gives a final report. ``covered``: the interval of the selected candidate (in the search, in the
report) contains the expected score of its model. ``detected``: a misfit warning, or an error.
``today`` is the usual interval of the field for its own model: a bootstrap of clusters over
out-of-fold predictions (patients) or of blocks of 7 dates (panels), or a t interval over folds of
spatial blocks or of random nodes (maps, networks).
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from scipy import sparse, stats
from scipy.ndimage import gaussian_filter
from scipy.signal import lfilter
from scipy.special import ndtr
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import get_scorer
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, TimeSeriesSplit

from sklearn_bdp import ReusableHoldoutSearchCV
from sklearn_bdp.correlation import DependencyGraph, MarkovNetwork
from sklearn_bdp.exceptions import DependenceWarning

GRID = {"C": [0.001, 0.1, 1.0]}
DRAWS = 100


@dataclass(frozen=True)
class Data:
    """One simulated table: records, the declaration about them, and the truth."""

    X: np.ndarray
    y: np.ndarray
    correlation: object
    truth: Callable  # of a model and of the nodes that the score is about
    peer: Callable  # returns an interval, the model it is about, and its nodes
    scoring: str = "accuracy"
    fit: dict = field(default_factory=dict)
    holdout: float = 0.25


# -- patients -------------------------------------------------------------------------------------


def visits(n, rng, *, max_visits=6):
    """Return patients with one to six visits: features, events of three in ten visits, patients."""
    patient = np.repeat(np.arange(n), rng.integers(1, max_visits + 1, n))
    level = rng.normal(size=n)[patient]
    X = rng.normal(size=(len(patient), 3))
    X[:, 0] += level
    odds = 1.5 * X[:, 0] + 1.5 * rng.normal(size=n)[patient] - 1.6
    return X, (rng.random(len(odds)) < 1.0 / (1.0 + np.exp(-odds))).astype(int), patient


def patients(n, scoring, declared):
    """Return a maker of patients; the target is a random visit of a random patient."""
    new_X, new_y, _ = visits(60_000, np.random.default_rng(1), max_visits=1)

    def make(rng):
        X, y, patient = visits(n, rng)

        def peer(_):
            search = GridSearchCV(LogisticRegression(), GRID, scoring=scoring, cv=GroupKFold(5))
            search.fit(X, y, groups=patient)
            return *clusters(search, X, y, patient, rng), search.best_estimator_, None

        fit = {"groups": patient} if declared == "groups" else {}
        truth = lambda model, _: get_scorer(scoring)(model, new_X, new_y)  # noqa: E731
        return Data(X, y, declared, truth, peer, scoring, fit)

    return make


class OutOfFold:
    """A model with stored out-of-fold probabilities; its records are row numbers."""

    def __init__(self, probability):
        self.probability = probability
        self.classes_ = np.array([0, 1])

    def predict_proba(self, rows):
        """Return out-of-fold probabilities."""
        chance = self.probability[rows]
        return np.column_stack([1.0 - chance, chance])

    def predict(self, rows):
        """Return out-of-fold classes."""
        return (self.probability[rows] > 0.5).astype(int)

    _estimator_type = "classifier"

    def __sklearn_tags__(self):
        """Return the tags of a classifier."""
        return LogisticRegression().__sklearn_tags__()


def clusters(search, X, y, patient, rng):
    """Return the percentile interval of patients drawn again, of out-of-fold predictions."""
    chance = np.empty(len(y))
    for train, test in GroupKFold(5).split(X, y, patient):
        model = LogisticRegression(**search.best_params_).fit(X[train], y[train])
        chance[test] = model.predict_proba(X[test])[:, 1]
    rows = np.split(np.arange(len(y)), np.flatnonzero(np.diff(patient)) + 1)
    model = OutOfFold(chance)
    scorer = get_scorer(search.scoring)
    values = []
    for _ in range(DRAWS):
        resampled = np.concatenate([rows[i] for i in rng.integers(0, len(rows), len(rows))])
        values.append(scorer(model, resampled, y[resampled]))
    return np.quantile(values, [0.025, 0.975])


# -- panels ---------------------------------------------------------------------------------------


def shops(n_days, n_shops, rng):
    """Return features and labels of days x shops, moved by a shock that all shops share."""
    shock = lfilter([1.0], [1.0, -0.8], rng.normal(size=n_days + 100))[100:]
    X = rng.normal(size=(n_days, n_shops, 3))
    noise = rng.normal(size=(n_days, n_shops))
    return X, (X[..., 0] + shock[:, None] + noise > 0).astype(int)


def panels(order, declared, *, n_days=1600, n_shops=10):
    """Return a maker of panels, shop after shop or day after day; the target is new dates."""
    wide_X, wide_y = shops(40_000, 1, np.random.default_rng(1))
    new_X = wide_X[:, 0]
    new_y = wide_y[:, 0]

    def make(rng):
        X, y = shops(n_days, n_shops, rng)
        day = np.repeat(np.arange(n_days), n_shops).reshape(n_days, n_shops)
        if order == "shops":
            X = X.swapaxes(0, 1)
            y = y.T
            day = day.T
        X = X.reshape(-1, 3)
        y = y.ravel()
        day = day.ravel()

        def peer(_):
            by_day = np.argsort(day, kind="stable")
            cut = 3 * len(y) // 4
            past = by_day[:cut]
            future = by_day[cut:]
            search = GridSearchCV(LogisticRegression(), GRID, cv=TimeSeriesSplit(3))
            search.fit(X[past], y[past])
            means = (search.predict(X[future]) == y[future]).reshape(-1, n_shops).mean(axis=1)
            starts = rng.integers(0, len(means) - 6, (DRAWS, len(means) // 7))
            block_means = means[starts[..., None] + np.arange(7)].mean(axis=(1, 2))
            return *np.quantile(block_means, [0.025, 0.975]), search.best_estimator_, None

        fit = {"groups": day} if declared == "groups" else {}
        return Data(X, y, declared, lambda model, _: model.score(new_X, new_y), peer, fit=fit)

    return make


# -- maps and networks ----------------------------------------------------------------------------


def lattice(side):
    """Return the adjacency of a square map, and its blocks of five by five cells."""
    row, column = np.divmod(np.arange(side * side), side)
    right = np.flatnonzero(column < side - 1)
    down = np.flatnonzero(row < side - 1)
    at = np.r_[right, down], np.r_[right + 1, down + side]
    half = sparse.coo_array((np.ones(len(at[0])), at), shape=(side * side,) * 2)
    return sparse.csr_array(half + half.T), row // 5 * side + column // 5


def blocks_of_friends(n):
    """Return two blocks of nodes, five edges each on average and four times as many inside."""
    rng = np.random.default_rng(2)
    block = np.arange(n) % 2
    rates = np.where(block[:, None] == block[None, :], 8.0 / n, 2.0 / n)
    upper = np.triu(rng.random((n, n)) < rates, 1)
    return sparse.csr_array((upper + upper.T).astype(float))


def drawn_again(graph, colors, labels, is_free, influence, fields, rng, *, sweeps):
    """Return the labels (rows: nodes, columns: draws) after new draws of those of free nodes.

    An Ising model by heat bath; ``colors`` are sets of nodes without edges inside.
    """
    for _ in range(sweeps):
        for members in colors:
            members = members[is_free[members]]
            odds = influence / 2.0 * (graph[members] @ (2.0 * labels - 1.0)) + fields[members, None]
            labels[members] = rng.random(odds.shape) < 1.0 / (1.0 + np.exp(-odds))
    return labels


def coloring(graph):
    """Return sets of nodes without an edge inside."""
    color = np.full(graph.shape[0], -1)
    for node in range(graph.shape[0]):
        neighbor_colors = set(
            color[graph.indices[graph.indptr[node] : graph.indptr[node + 1]]].tolist()
        )
        color[node] = next(k for k in range(len(neighbor_colors) + 1) if k not in neighbor_colors)
    return [np.flatnonzero(color == k) for k in range(color.max() + 1)]


def spins(graph, influence, declared, *, blocks=None, slope=1.0):
    """Return a maker of nodes whose labels attract each other, given the training nodes.

    ``slope`` is the effect of the first feature of a node on the log odds of its label. At 0,
    models predict one class, and their scores are as dependent as the labels.
    """
    n = graph.shape[0]
    colors = coloring(graph)
    network = MarkovNetwork(graph, influence=influence if declared == "right" else declared)

    def make(rng):
        X = rng.normal(size=(n, 3))
        is_free = np.ones(n, dtype=bool)
        start = rng.integers(0, 2, (n, 1)).astype(float)
        y = drawn_again(graph, colors, start, is_free, influence, slope * X[:, 0], rng, sweeps=60)[
            :, 0
        ]

        def truth(model, holdout):
            is_free = np.isin(np.arange(n), holdout)
            draws = np.repeat(y[:, None], 60, axis=1)
            draws = drawn_again(
                graph, colors, draws, is_free, influence, slope * X[:, 0], rng, sweeps=30
            )
            return float((draws[holdout] == model.predict(X[holdout])[:, None]).mean())

        def peer(search):
            train = search.train_indices_
            cv = KFold(5, shuffle=True, random_state=0) if blocks is None else GroupKFold(5)
            grid = GridSearchCV(LogisticRegression(), GRID, cv=cv)
            grid.fit(X[train], y[train], groups=None if blocks is None else blocks[train])
            return *of_folds(grid), grid.best_estimator_, search.holdout_indices_

        return Data(X, y.astype(int), network, truth, peer, holdout=0.5)

    return make


def first_state(hits, is_known, means, step):
    """Return the chance of the first of two states, given the scores of known nodes of paths."""
    n, length = hits.shape
    likelihood = np.where(hits[..., None], means, 1.0 - means)
    likelihood[~is_known] = 1.0
    messages = np.full((2, n, length, 2), 0.5)  # from all nodes before a node, and from all after
    for direction, order in zip(messages, (range(length), range(length - 1, -1, -1)), strict=True):
        message = np.full((n, 2), 0.5)
        for i in order:
            direction[:, i] = message
            message = (message * likelihood[:, i]) @ step
            message /= message.sum(axis=1, keepdims=True)
    joint = messages.prod(axis=0) * likelihood
    return joint[..., 0] / joint.sum(axis=-1)


def slow_paths(declared, *, n=48, length=100, stay=0.97, means=(0.95, 0.45)):
    """Return a maker of paths with a hidden state of two values.

    ``means`` are the chances, by state, that the label is the sign of the first feature; a state
    stays the same at the next node with probability ``stay``.
    """
    n_nodes = n * length
    sources = np.delete(np.arange(n_nodes - 1), np.arange(1, n) * length - 1)
    edges = sparse.coo_array(
        (np.ones(len(sources)), (sources, sources + 1)), shape=(n_nodes, n_nodes)
    )
    graph = sparse.csr_array(edges + edges.T)
    means = np.array(means)
    transition = np.array([[stay, 1 - stay], [1 - stay, stay]])

    def make(rng):
        X = rng.normal(size=(n_nodes, 3))
        initial_states = rng.integers(0, 2, (n, 1))
        states = (initial_states + np.cumsum(rng.random((n, length)) > stay, axis=1)) % 2
        hits = rng.random((n, length)) < means[states]
        is_positive = X[:, 0] > 0
        y = np.where(hits.ravel(), is_positive, ~is_positive).astype(int)

        def truth(model, holdout):
            is_known = ~np.isin(np.arange(n_nodes), holdout).reshape(n, length)
            chance = first_state(hits, is_known, means, transition)
            hit_chances = (chance * means[0] + (1.0 - chance) * means[1]).ravel()[holdout]
            follows_feature = model.predict(X[holdout]) == is_positive[holdout]
            return float(np.where(follows_feature, hit_chances, 1 - hit_chances).mean())

        def peer(search):
            train = search.train_indices_
            cv = KFold(5, shuffle=True, random_state=0)
            grid = GridSearchCV(LogisticRegression(), GRID, cv=cv).fit(X[train], y[train])
            return *of_folds(grid), grid.best_estimator_, search.holdout_indices_

        model = None if declared is None else MarkovNetwork(graph, influence=declared)
        return Data(X, y, model, truth, peer)

    return make


def of_folds(grid):
    """Return the t interval of the folds of the best candidate."""
    best = grid.best_index_
    scores = np.array([grid.cv_results_[f"split{k}_test_score"][best] for k in range(5)])
    half = stats.t.ppf(0.975, 4) * scores.std(ddof=1) / np.sqrt(5)
    return scores.mean() - half, scores.mean() + half


def fields(declared, *, side=60, smooth=6.0):
    """Return a maker of maps whose hidden field reaches fifteen cells; the target is new maps."""
    _, block = lattice(side)

    def cells(rng):
        X = rng.normal(size=(side * side, 3))
        hidden = gaussian_filter(rng.normal(size=(side, side)), smooth, mode="wrap").ravel()
        hidden *= 2.0 * np.sqrt(np.pi) * smooth  # of variance 1
        right = rng.random(len(X)) < ndtr(0.7 + hidden)  # hard regions and easy ones
        return X, np.where(right, X[:, 0] > 0, X[:, 0] <= 0).astype(int)

    new_rng = np.random.default_rng(1)
    new_X, new_y = map(np.concatenate, zip(*(cells(new_rng) for _ in range(40)), strict=True))

    def make(rng):
        X, y = cells(rng)

        def peer(_):
            grid = GridSearchCV(LogisticRegression(), GRID, cv=GroupKFold(5))
            grid.fit(X, y, groups=block)
            return *of_folds(grid), grid.best_estimator_, None

        fit = {"groups": block} if declared == "groups" else {}
        return Data(X, y, declared, lambda model, _: model.score(new_X, new_y), peer, fit=fit)

    return make


def circles(declared, *, n=300, size=5):
    """Return a maker of circles of friends that are easy or hard as a whole."""
    graph = sparse.block_diag([np.ones((size, size)) - np.eye(size)] * n, format="csr")

    def members(n, rng):
        X = rng.normal(size=(n * size, 3))
        hard = np.repeat(rng.random(n) < 0.4, size)
        right = rng.random(len(X)) < np.where(hard, 0.4, 0.95)
        return X, np.where(right, X[:, 0] > 0, X[:, 0] <= 0).astype(int)

    new_X, new_y = members(20_000, np.random.default_rng(1))

    def make(rng):
        X, y = members(n, rng)

        def peer(_):
            cv = KFold(5, shuffle=True, random_state=0)
            grid = GridSearchCV(LogisticRegression(), GRID, cv=cv).fit(X, y)
            return *of_folds(grid), grid.best_estimator_, None

        model = DependencyGraph(graph) if declared == "graph" else None
        return Data(X, y, model, lambda model, _: model.score(new_X, new_y), peer)

    return make


# -- rows of the table ----------------------------------------------------------------------------


def studies():
    """Return the studies as tuples.

    A tuple has the description of the data, that of the declaration, whether it is right, and a
    function of ``rng`` that makes the data.
    """
    rows = []
    for scoring in ("roc_auc", "neg_brier_score", "recall"):
        for n in (300, 2000):
            description = f"{n:,} patients, {scoring.removeprefix('neg_')}"
            rows.append((description, "'groups'", True, patients(n, scoring, "groups")))
    rows.append(("2,000 patients, brier_score", "None", False, patients(2000, "accuracy", None)))
    for order in ("days", "shops"):
        rows.append((f"panel by {order}", "groups of a day", False, panels(order, "groups")))
    rows.append(("panel by days", "None", False, panels("days", None)))
    grid, block = lattice(32)
    friends = blocks_of_friends(1200)
    for description, graph, blocks, strong in (
        ("map", grid, block, 1.2),
        ("friends", friends, None, 0.8),
    ):
        for influence, declared, right in (
            (0.4, "right", True), (0.4, "estimate", True), (strong, 0.1, False),
        ):  # fmt: skip
            declaration = {"right": "its strength"}.get(declared, f"influence={declared!r}")
            slope = 1.0 if right else 0.1
            make = spins(graph, influence, declared, blocks=blocks, slope=slope)
            rows.append((f"{description}, influence {influence}", declaration, right, make))
    communities = spins(blocks_of_friends(2400), 0.8, 0.1, slope=0.1)
    rows.append(("2,400 friends, influence 0.8", "influence=0.1", False, communities))
    rows.append(("map of range 15", "blocks of 5 x 5", False, fields("groups")))
    rows.append(("map of range 15", "None", False, fields(None)))
    for declared, declaration in ((0.1, "influence=0.1"), (None, "None")):
        rows.append(("48 paths with a slow state", declaration, False, slow_paths(declared)))
    rows.append(("300 circles", "DependencyGraph", True, circles("graph")))
    rows.append(("300 circles", "None", False, circles(None)))
    return rows


def play(make, rng):
    """Return results of the library, whether a misfit was detected, and the result of the peer.

    Results are coverage and half-width; those of the library are of the search and of the report,
    or None if an error was raised.
    """
    data = make(rng)
    search = ReusableHoldoutSearchCV(
        LogisticRegression(), GRID, scoring=data.scoring, correlation=data.correlation,
        holdout=data.holdout, random_state=int(rng.integers(2**31)),
    )  # fmt: skip
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            search.fit(data.X, data.y, **data.fit)
            report = search.final_report()
            truth = data.truth(search.best_estimator_, search.holdout_indices_)
            ours = [judged(*search.best_interval_, truth), judged(*report.interval, truth)]
        except ValueError:
            return None, True, None
        is_warned = any(issubclass(w.category, DependenceWarning) for w in caught)
        low, high, model, holdout = data.peer(search)
    return ours, is_warned, judged(low, high, data.truth(model, holdout))


def judged(low, high, truth):
    """Return whether an interval contains the truth, and its half-width."""
    return bool(low <= truth <= high), (high - low) / 2.0


def show_studies(replications, rng):
    """Print coverage and half-widths of each study, the rate of detection, and the peer's."""
    print(f"studies: {replications} replications, {len(GRID['C'])} candidates; cov: share covered")
    head = f"{'data':29} {'declared':17} {'right':5} {'search':>12} {'report':>12} {'detected':>8}"
    column_pair = f"{'cov':>6} {'±':>5}"
    print(f"{head} {'today':>12}\n{'':53} {column_pair} {column_pair} {'':8} {column_pair}")
    for description, declared, right, make in studies():
        results = [play(make, rng) for _ in range(replications)]
        warned = np.mean([result[1] for result in results])
        pairs = [[*result[0], result[2]] for result in results if result[0] is not None]
        cells = np.mean(pairs, axis=0) if pairs else np.full((3, 2), np.nan)
        ours = " ".join(f"{covers:6.2f} {half:5.3f}" for covers, half in cells[:2])
        text = f"{description:29} {declared:17} {'yes' if right else 'no':5} {ours} {warned:8.2f}"
        print(f"{text} {cells[2][0]:6.2f} {cells[2][1]:5.3f}", flush=True)
