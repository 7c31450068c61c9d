"""Feature selection beside its peers: what is kept, what is reported, what is true, how long.

    python -m benchmarks.feature_selection                             # small: a few minutes
    python -m benchmarks.feature_selection --size full --seeds 10      # the table of the manual

All methods choose from the same training records (the three quarters that ``ours`` trains on) and
use the same classifier (standard scores, logistic regression), fitted on those records. ``fresh``
is what their model scores on 20,000 new records, by the metric of the problem (accuracy, or the
area under the curve).

- ``ours``: ``HoldoutFeatureSelector(classifier)`` as it comes; its last quarter is the holdout.
  ``reported`` is its final report, ``covered`` how often the interval of it holds the fresh score,
  ``said`` how often it says that the features are told apart from chance;
- ``stable``: the same with ``n_features_to_select="stable"``;
- ``kbest``: ``SelectKBest`` in a pipeline in ``GridSearchCV``, with the same sizes of subsets to
  choose from as ours; reports its best score;
- ``l1``: L1-penalised logistic regression, penalty by cross-validation;
- ``stability``: stability selection (L1 on fifty halves of the records, frequency of at least .6);
- ``rfecv``: ``RFECV``; ``sequential``: ``SequentialFeatureSelector`` behind ``SelectKBest(30)``;
- ``boruta``: ``BorutaPy`` (skipped where it is not installed);
- ``knockoffs``: model-X knockoffs for the *known* distribution of the features, false discovery
  rate .2, where that is known;
- ``outside``: ``SelectKBest(20)`` on all records, then cross-validation (the classical mistake);
- ``naive``: greedy selection that reads the raw score of a holdout at every step.

Of ``screening`` problems the rows are what the filter keeps (``filter``), what its final report
proves (``proved``) and finds at a rate of .05 (``discovered``), and one look at the raw holdout
over the attributes that pass in the training set, at level .05 (``bonferroni``) or at that rate
(``bh``).

Of ``panel`` problems a covariate is given: ``panel`` is ``final_report(compare="fixed")``,
``delong`` a paired comparison of the same two models on the same holdout, untouched; ``reported``
is the difference of their areas and ``said`` how often its interval excludes 0.

A last line for each problem: the mean paired difference of ``fresh`` between ours and the best of
``kbest``, ``l1`` and ``stability``, with two standard errors.

Seconds are processor seconds of one thread, so that they do not depend on what else is running.
Every finished row is written to ``--output`` at once; a run that was interrupted goes on there
(``--again`` starts anew, which a change of the code demands; ``--report`` prints what is there).
"""

import argparse
import csv
import itertools
import sys
import time
import warnings
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np
from scipy.stats import false_discovery_control
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_selection import RFECV, SelectKBest, SequentialFeatureSelector, f_classif
from sklearn.linear_model import LassoCV, LogisticRegression, LogisticRegressionCV, lasso_path
from sklearn.metrics import get_scorer
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_bdp.feature_selection import HoldoutCorrelationFilter, HoldoutFeatureSelector

#: By how many standard deviations a true feature differs between the classes: eight of them
#: allow an accuracy of .80.
SHIFT = 0.595
N_TRUE = 8
FRESH = 20_000


@dataclass(frozen=True)
class Data:
    """Records to select on, and a source of fresh ones.

    ``true`` are the columns that know something; ``fresh(columns)`` returns records of these
    columns that nobody has seen, and their labels; ``knockoffs`` draws knockoffs of ``X``, where
    the distribution of features is known.
    """

    X: np.ndarray = field(repr=False)
    y: np.ndarray = field(repr=False)
    true: frozenset
    fresh: object = field(repr=False)
    knockoffs: object = field(default=None, repr=False)
    scoring: str = "accuracy"
    fixed: tuple = ()


def panel(n, seed):
    """Return a covariate (area .73), eight of 1,000 features that add to it, and noise."""
    data = planted(n, 1_000, seed, shift=0.75, scoring="roc_auc")
    X = np.column_stack([data.X, np.random.default_rng(seed).standard_normal(n) + 0.85 * data.y])
    return replace(data, X=X, fixed=(1_000,))


def planted(n, p, seed, *, n_true=N_TRUE, shift=SHIFT, share=0.5, scoring="accuracy"):
    """Return independent features of which the first ``n_true`` differ between the classes."""
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < share).astype(int)
    X = rng.standard_normal((n, p))
    X[:, :n_true] += shift * (y[:, None] - 0.5)

    def fresh(columns):
        new = np.random.default_rng(seed + 10_000)
        labels = (new.random(FRESH) < share).astype(int)
        records = new.standard_normal((FRESH, len(columns)))
        records += shift * (labels[:, None] - 0.5) * (np.asarray(columns) < n_true)
        return records, labels

    true = frozenset(range(n_true))
    knockoffs = lambda generator: generator.standard_normal(X.shape)  # noqa: E731
    return Data(X, y, true, fresh, knockoffs, scoring)


def blocks(n, p, seed, *, width=10, rho=0.8):
    """Return blocks of alike features; one feature of each of the first eight blocks is true.

    Within a block features share a correlation of ``rho``; the label shifts one of them only, so
    that the others say nothing that it does not say (and help to remove its noise).
    """
    rng = np.random.default_rng(seed)

    def draw(generator, size):
        common = np.repeat(generator.standard_normal((size, p // width)), width, axis=1)
        return np.sqrt(rho) * common + np.sqrt(1 - rho) * generator.standard_normal((size, p))

    true = np.arange(N_TRUE) * width
    y = rng.integers(0, 2, n)
    X = draw(rng, n)
    # The common part carries the label, and the true feature a little more of its own.
    X += 0.6 * SHIFT * (y[:, None] - 0.5) * (np.arange(p) < N_TRUE * width)
    X[:, true] += 0.6 * SHIFT * (y[:, None] - 0.5)

    def fresh(columns):
        new = np.random.default_rng(seed + 10_000)
        labels = new.integers(0, 2, FRESH)
        columns = np.asarray(columns)
        common = new.standard_normal((FRESH, p // width))[:, columns // width]
        noise = new.standard_normal((FRESH, columns.size))
        records = np.sqrt(rho) * common + np.sqrt(1 - rho) * noise
        inside, planted_ = columns < N_TRUE * width, np.isin(columns, true)
        records += 0.6 * SHIFT * (labels[:, None] - 0.5) * (inside * 1.0 + planted_)
        return records, labels

    return Data(X, y, frozenset(range(N_TRUE * width)), fresh)


def cancer(n_noise, seed):
    """Return the breast cancer data with noise columns; 169 of its 569 records stay fresh."""
    rng = np.random.default_rng(seed)
    X, y = load_breast_cancer(return_X_y=True)
    X = np.hstack([X, rng.standard_normal((len(X), n_noise))])
    order = rng.permutation(len(X))
    analyst_rows, fresh_rows = order[:400], order[400:]
    true = frozenset(range(X.shape[1] - n_noise))
    return Data(
        X[analyst_rows],
        y[analyst_rows],
        true,
        lambda columns: (X[fresh_rows][:, columns], y[fresh_rows]),
    )


def imbalanced(n, share, seed, *, scoring="roc_auc"):
    """Return 2,000 features, eight of them clearly different in a rare class."""
    return planted(n, 2_000, seed, shift=0.8, share=share, scoring=scoring)


PROBLEMS = {
    "8 of 2,000, n=150": lambda seed: planted(150, 2_000, seed, shift=0.8),
    "8 of 2,000, n=300": lambda seed: planted(300, 2_000, seed),
    "8 of 2,000, n=1,000": lambda seed: planted(1_000, 2_000, seed),
    "8 of 20,000, n=300": lambda seed: planted(300, 20_000, seed),
    "8 of 20,000, n=1,000": lambda seed: planted(1_000, 20_000, seed),
    "AUC, n=150": lambda seed: imbalanced(150, 0.5, seed),
    "AUC, n=300": lambda seed: imbalanced(300, 0.5, seed),
    "AUC, 1:3, n=150": lambda seed: imbalanced(150, 0.25, seed),
    "AUC, 1:3, n=300": lambda seed: imbalanced(300, 0.25, seed),
    "AUC, 1:9, n=300": lambda seed: imbalanced(300, 0.1, seed),
    "1:3, n=300": lambda seed: imbalanced(300, 0.25, seed, scoring="accuracy"),
    "noise, 2,000, n=300": lambda seed: planted(300, 2_000, seed, n_true=0),
    "noise, AUC, 1:3, n=150": lambda seed: planted(
        150, 2_000, seed, n_true=0, share=0.25, scoring="roc_auc"
    ),
    "noise, 20,000, n=300": lambda seed: planted(300, 20_000, seed, n_true=0),
    "noise, 2,000, n=1,000": lambda seed: planted(1_000, 2_000, seed, n_true=0),
    "blocks of 2,000, n=1,000": lambda seed: blocks(1_000, 2_000, seed),
    "breast cancer + 1,000": lambda seed: cancer(1_000, seed),
    "panel, n=300": lambda seed: panel(300, seed),
    "panel, n=600": lambda seed: panel(600, seed),
    "screening 30 of 3,000, n=600": lambda seed: planted(600, 3_000, seed, n_true=30, shift=0.5),
    "screening 30 of 3,000, n=1,000": lambda seed: planted(
        1_000, 3_000, seed, n_true=30, shift=0.5
    ),
    "screening 30 of 3,000, n=2,000": lambda seed: planted(
        2_000, 3_000, seed, n_true=30, shift=0.5
    ),
    "screening 30 of 1,000, n=1,000": lambda seed: planted(
        1_000, 1_000, seed, n_true=30, shift=0.4
    ),
    "screening 8 of 20,000, n=300": lambda seed: planted(300, 20_000, seed, shift=0.8),
    "screening noise, 20,000, n=300": lambda seed: planted(300, 20_000, seed, n_true=0),
}


@dataclass(frozen=True)
class Found:
    """Result of a method: columns, a model of these columns, reported score and interval."""

    columns: np.ndarray
    model: object
    reported: float
    interval: tuple = (np.nan, np.nan)
    said: float = np.nan  # whether it says that the features are told apart from chance


def classifier():
    """Return the classifier of all methods."""
    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=1_000))


def _refit(data, columns):
    columns = np.asarray(columns, dtype=int)
    if columns.size == 0:
        return None
    return classifier().fit(data.X[:, columns], data.y)


def ours(data, seed, **options):
    """Return the subset of the selector with its defaults, and its final report."""
    options = {"scoring": data.scoring, "random_state": seed} | options
    chooser = HoldoutFeatureSelector(classifier(), **options).fit(data.X, data.y)
    report = chooser.final_report()
    columns = np.flatnonzero(chooser.support_)
    interval, is_confirmed = (report.lower, report.upper), float(chooser.confirmed_)
    return Found(columns, chooser.estimator_, report.value, interval, is_confirmed)


def screened(data, seed):
    """Return the columns that the filter keeps."""
    screen = HoldoutCorrelationFilter(random_state=seed).fit(data.X, data.y)
    return Found(np.flatnonzero(screen.support_), None, np.nan, said=float(screen.confirmed_))


def reported(data, seed, column="p"):
    """Return what the filter's final report proves, or finds at a false discovery rate."""
    rows = HoldoutCorrelationFilter(random_state=seed).fit(data.X, data.y).final_report().rows
    columns = [int(row.attribute[1:]) for row in rows if getattr(row, column) <= 0.05]
    return Found(np.array(columns, dtype=int), None, np.nan, said=float(bool(columns)))


def bonferroni(data, seed, adjusted=lambda p: p * p.size):
    """Return what one look at the raw holdout keeps of what passes in the training set."""
    screen = HoldoutCorrelationFilter(random_state=seed).fit(data.X, data.y)
    verified = np.flatnonzero(np.isfinite(screen.verified_associations_))
    holdout = screen.holdout_indices_
    p = f_classif(data.X[holdout][:, verified], data.y[holdout])[1] if verified.size else np.ones(0)
    return Found(verified[adjusted(p) < 0.05] if verified.size else verified, None, np.nan)


def compared(data, seed, peer=False):
    """Return what a final report, or DeLong's test, says of the panel less the covariate."""
    options = {"scoring": data.scoring, "fixed_features": data.fixed, "random_state": seed}
    chooser = HoldoutFeatureSelector(classifier(), **options).fit(data.X, data.y)
    columns, holdout = np.flatnonzero(chooser.support_), chooser.holdout_indices_
    if not peer:
        row = chooser.final_report(compare="fixed").rows[-1]
        value, low, high = row.value, row.lower, row.upper
    else:
        y, train, placed = data.y[holdout], chooser.train_indices_, []
        for chosen in (columns, list(data.fixed)):
            model = classifier().fit(data.X[train][:, chosen], data.y[train])
            scores = model.decision_function(data.X[holdout][:, chosen])
            won = scores[y == 1][:, None] > scores[y == 0]
            placed.append((won.mean(axis=1), won.mean(axis=0)))
        parts = [first - second for first, second in zip(*placed, strict=True)]
        value = parts[0].mean()
        reach = 1.96 * np.sqrt(sum(part.var(ddof=1) / part.size for part in parts))
        low, high = value - reach, value + reach
    return Found(columns, None, value, (low, high), float(low > 0.0))


def sizes(n, p):
    """Return the sizes that the selector looks at, for the peer that needs to be told."""
    max_size = p if p <= n else n // 2
    grid = {round(2 ** (step / 2)) for step in range(40)} | ({p} if p <= n else set())
    return sorted(size for size in grid if size <= max_size)


def kbest(data, seed):
    """Return what univariate selection inside cross-validation finds."""
    pipeline = make_pipeline(SelectKBest(f_classif), *[s for _, s in classifier().steps])
    n, p = data.X.shape
    grid = {"selectkbest__k": sizes(n, p)}
    search = GridSearchCV(pipeline, grid, cv=5, scoring=data.scoring)
    search.fit(data.X, data.y)
    columns = search.best_estimator_[0].get_support(indices=True)
    return Found(columns, search.best_estimator_[1:], search.best_score_)


def l1(data, seed):
    """Return what L1-penalised logistic regression keeps."""
    penalties = np.geomspace(0.01, 1.0, 8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = LogisticRegressionCV(
            Cs=penalties,
            penalty="l1",
            solver="liblinear",
            cv=5,
            max_iter=200,
            tol=1e-3,
            scoring=data.scoring,
        ).fit(StandardScaler().fit_transform(data.X), data.y)
    scores = next(iter(model.scores_.values()))
    best = float(np.asarray(scores).reshape(5, -1).mean(axis=0).max())
    columns = np.flatnonzero(model.coef_[0])
    if columns.size == 0:
        return Found(columns, None, best)
    scaler = StandardScaler().fit(data.X[:, columns])
    linear = LogisticRegression().fit(scaler.transform(data.X[:, columns]), data.y)
    linear.coef_, linear.intercept_ = model.coef_[:, columns], model.intercept_
    return Found(columns, make_pipeline(scaler, linear), best)


def stability(data, seed, *, halves=25, min_frequency=0.6):
    """Return the columns that the L1 path of half the records chooses most often."""
    rng, (n, p) = np.random.default_rng(seed), data.X.shape
    X = StandardScaler().fit_transform(data.X)
    frequency, first = np.zeros(p), max(5, n // 10)
    for _ in range(halves):
        rows = rng.permutation(n)
        for half in (rows[: n // 2], rows[n // 2 :]):
            centered = data.y[half] - data.y[half].mean()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                _, path, _ = lasso_path(X[half], centered, n_alphas=30, eps=0.1, max_iter=100)
            entered = np.flatnonzero((np.cumsum(path != 0, axis=1) > 0).sum(axis=0) <= first)
            last = entered[-1] if entered.size else 0
            frequency[(path[:, : last + 1] != 0).any(axis=1)] += 0.5 / halves
    columns = np.flatnonzero(frequency >= min_frequency)
    return Found(columns, _refit(data, columns), np.nan)


def rfecv(data, seed):
    """Return what recursive elimination with cross-validation finds."""
    X = StandardScaler().fit_transform(data.X)
    step = 0.5 if X.shape[1] > 5_000 else 0.3
    eliminator = RFECV(LogisticRegression(max_iter=200), step=step, cv=5).fit(X, data.y)
    columns = np.flatnonzero(eliminator.support_)
    best = float(eliminator.cv_results_["mean_test_score"].max())
    return Found(columns, _refit(data, columns), best)


def sequential(data, seed):
    """Return what forward selection among the thirty best univariate features finds."""
    first = SelectKBest(f_classif, k=30).fit(data.X, data.y).get_support(indices=True)
    forward = SequentialFeatureSelector(classifier(), tol=0.003, cv=3)
    columns = first[forward.fit(data.X[:, first], data.y).get_support(indices=True)]
    score = cross_val_score(classifier(), data.X[:, columns], data.y, cv=5).mean()
    return Found(columns, _refit(data, columns), float(score))


def boruta(data, seed):
    """Return what Boruta confirms."""
    from boruta import BorutaPy  # optional peer

    trees = RandomForestClassifier(n_jobs=1, max_depth=5, random_state=seed)
    selector = BorutaPy(trees, n_estimators=100, max_iter=20, random_state=seed)
    selector.fit(data.X, data.y)
    columns = np.flatnonzero(selector.support_)
    return Found(columns, _refit(data, columns), np.nan)


def knockoffs(data, seed, *, rate=0.2):
    """Return what the knockoff filter keeps (Candès et al. 2018; the features' law is known)."""
    copies = data.knockoffs(np.random.default_rng(seed + 20_000))
    columns_and_copies = np.hstack([data.X, copies])
    path = LassoCV(cv=5, eps=0.05, alphas=20, random_state=seed).fit(
        columns_and_copies, data.y - 0.5
    )
    half = data.X.shape[1]
    lead = np.abs(path.coef_[:half]) - np.abs(path.coef_[half:])
    cuts = np.sort(np.abs(lead[lead != 0]))
    ratios = ((1 + (lead <= -cut).sum()) / max(1, (lead >= cut).sum()) for cut in cuts)
    cut = next((c for c, r in zip(cuts, ratios, strict=True) if r <= rate), np.inf)
    columns = np.flatnonzero(lead >= cut)
    return Found(columns, _refit(data, columns), np.nan)


def outside(data, seed):
    """Return the classical mistake: features chosen on all records, then cross-validated."""
    columns = SelectKBest(f_classif, k=20).fit(data.X, data.y).get_support(indices=True)
    score = cross_val_score(classifier(), data.X[:, columns], data.y, cv=5).mean()
    return Found(columns, _refit(data, columns), float(score))


def naive(data, seed):
    """Return what reading the raw holdout score at every step keeps."""
    cut = len(data.X) * 3 // 4
    train, labels = data.X[:cut], data.y[:cut]
    columns, score = naive_steps(train, labels, data.X[cut:], data.y[cut:])
    model = GaussianNB().fit(train[:, columns], labels) if columns.size else None
    return Found(columns, model, score)


def naive_steps(train, labels, holdout, holdout_labels):
    """Return the columns that are kept by reading the raw holdout score at every step.

    It is what ``SequentialFeatureSelector(GaussianNB(), tol=1e-9, cv=one_split)`` keeps. Naive
    Bayes adds up the evidence of single features, so that a step needs no fits.
    """
    model = GaussianNB().fit(train, labels)
    prior = float(np.diff(np.log(model.class_prior_))[0])
    evidence = np.zeros(holdout.shape)
    for sign, mean, variance in zip((-1, 1), model.theta_, model.var_, strict=True):
        evidence -= sign * 0.5 * (np.log(variance) + (holdout - mean) ** 2 / variance)
    hit = (holdout_labels == model.classes_[1])[:, None]
    chosen, score, total = [], -np.inf, np.full(len(holdout), prior)
    while len(chosen) < train.shape[1] - 1:
        scores = ((total[:, None] + evidence > 0) == hit).mean(axis=0)
        scores[chosen] = -np.inf
        best = int(scores.argmax())
        if scores[best] - score < 1e-9:
            break
        chosen.append(best)
        score, total = scores[best], total + evidence[:, best]
    return np.sort(chosen), float(score)


METHODS = {
    "ours": ours,
    "stable": partial(ours, n_features_to_select="stable"),
    "kbest": kbest,
    "l1": l1,
    "stability": stability,
    "rfecv": rfecv,
    "sequential": sequential,
    "boruta": boruta,
    "knockoffs": knockoffs,
    "outside": outside,
    "naive": naive,
}
#: The peers that ours is measured by.
PEERS = ("kbest", "l1", "stability")
SCREENS = {
    "filter": screened,
    "proved": reported,
    "discovered": partial(reported, column="q"),
    "bonferroni": bonferroni,
    "bh": partial(bonferroni, adjusted=false_discovery_control),
}
PANELS = {"panel": compared, "delong": partial(compared, peer=True)}


def run(method, problem, seed):
    """Return a row of the table, or None where a method does not apply."""
    data = PROBLEMS[problem](seed)
    family = "screening" if method in SCREENS else "panel" if method in PANELS else ""
    if family != next((name for name in ("screening", "panel") if problem.startswith(name)), ""):
        return None
    if method == "knockoffs" and data.knockoffs is None:
        return None
    if method not in ("ours", "stable", *SCREENS, *PANELS):
        rows = training_rows(data, seed)
        data = replace(data, X=data.X[rows], y=data.y[rows])
        if method == "knockoffs":
            shape = data.X.shape
            data = replace(data, knockoffs=lambda generator: generator.standard_normal(shape))
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            selection = (METHODS | SCREENS | PANELS)[method](data, seed)
        except ImportError:
            return None
    return _row(method, problem, seed, data, selection, time.process_time() - start)


def training_rows(data, seed):
    """Return the rows that the selector trains on; they do not depend on the columns."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        chooser = HoldoutFeatureSelector(GaussianNB(), cv=2, random_state=seed)
        return chooser.fit(data.X[:, :2], data.y).train_indices_


def _row(method, problem, seed, data, selection, seconds):
    """Return counts and scores of a selection."""
    truth = _fresh(data, selection.columns, selection.model)
    lower, upper = selection.interval
    has_interval = np.isfinite(lower) and method not in PANELS
    true = sum(int(column) in data.true for column in selection.columns)
    return {
        "problem": problem,
        "method": method,
        "seed": seed,
        "true_kept": true,
        "useless_kept": len(selection.columns) - true,
        "fresh": np.nan if method in SCREENS | PANELS else truth,
        "reported": selection.reported,
        "covered": float(lower <= truth <= upper) if has_interval else np.nan,
        "width": upper - lower,
        "said": selection.said,
        "seconds": seconds,
    }


def _fresh(data, columns, model):
    """Return the score of a model on fresh records; that of a constant without one."""
    if not columns.size or model is None:
        _, y = data.fresh(np.zeros(1, dtype=int))
        return 0.5 if data.scoring == "roc_auc" else float(np.mean(y == (np.mean(data.y) > 0.5)))
    X, y = data.fresh(columns)
    return float(get_scorer(data.scoring)(model, X, y))


def report(rows):
    """Print a Markdown table of means over seeds, one line for each problem and method."""
    names = ("true", "useless", "fresh", "reported", "covered", "width", "told from chance")
    print("| problem | method | seeds | " + " | ".join(names) + " | × kbest |")
    print("|---|---|" + "---:|" * (len(names) + 2))
    problems = [problem for problem in PROBLEMS if any(row["problem"] == problem for row in rows)]
    for problem in problems:
        theirs = [row for row in rows if row["problem"] == problem]
        for method in METHODS | SCREENS | PANELS:
            mine = [row for row in theirs if row["method"] == method]
            if mine:
                print("| " + " | ".join([problem, method, *_cells(mine, theirs)]) + " |")
    for problem in problems:
        print(_lead([row for row in rows if row["problem"] == problem], problem))


def _lead(rows, problem):
    """Return how far ours is ahead of the best peer on fresh records, in words."""
    by_method = {
        method: {row["seed"]: row["fresh"] for row in rows if row["method"] == method}
        for method in ("ours", *PEERS)
    }
    common_seeds = set.intersection(*(set(seeds) for seeds in by_method.values()))
    if len(common_seeds) < 2:
        return ""
    best = max(
        PEERS, key=lambda method: np.mean([by_method[method][seed] for seed in common_seeds])
    )
    lead = np.array([by_method["ours"][seed] - by_method[best][seed] for seed in common_seeds])
    error = lead.std(ddof=1) / np.sqrt(lead.size)
    return f"{problem}: ours - {best} = {lead.mean():+.3f} ± {2 * error:.3f}"


def _cells(mine, theirs):
    """Return the cells of a method: means over its seeds, seconds over those that kbest has."""
    mean = {name: _mean(row[name] for row in mine) for name in mine[0] if name not in KEY}
    base = {row["seed"]: row["seconds"] for row in theirs if row["method"] == "kbest"}
    common_rows = [row for row in mine if row["seed"] in base]
    ratio = _mean(row["seconds"] for row in common_rows) / _mean(
        base[row["seed"]] for row in common_rows
    )
    return [f"{len(mine)}", *(_cell(mean[k], form) for k, form in SHOWN), _cell(ratio, ".2g")]


def _mean(values):
    """Return the mean of what is known."""
    values = [value for value in values if np.isfinite(value)]
    return float(np.mean(values)) if values else np.nan


def _cell(value, form):
    return format(value, form) if np.isfinite(value) else "–"


KEY = ("problem", "method", "seed")
SHOWN = (
    *(("true_kept", ".1f"), ("useless_kept", ".1f"), ("fresh", ".3f"), ("reported", ".3f")),
    *(("covered", ".0%"), ("width", ".2f"), ("said", ".0%")),
)
SMALL = (
    *("8 of 2,000, n=300", "AUC, 1:3, n=150", "AUC, 1:9, n=300", "noise, 2,000, n=300"),
    *("screening 30 of 3,000, n=600", "panel, n=300"),
)
QUICK = ("ours", "stable", *PEERS, *SCREENS, *PANELS)


def main(arguments=None):
    """Run the comparison, write its rows one by one, print its table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=("small", "full"), default="small")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--problems", nargs="+", choices=PROBLEMS)
    parser.add_argument("--methods", nargs="+", choices=METHODS | SCREENS | PANELS)
    parser.add_argument("--again", action="store_true", help="forget the rows in --output")
    parser.add_argument("--report", action="store_true", help="print its rows, compute none")
    parser.add_argument("--output", type=Path, default=Path("output/feature_selection.csv"))
    options = parser.parse_args(arguments)
    small = options.size == "small"
    problems = options.problems or (SMALL if small else PROBLEMS)
    methods = options.methods or (QUICK if small else METHODS | SCREENS | PANELS)
    if options.again:
        options.output.unlink(missing_ok=True)
    rows = _read(options.output)
    # Seed by seed: an interrupted table is complete so far.
    tasks = list(itertools.product(range(options.seeds), problems, methods))
    for seed, problem, method in tasks:
        if (problem, method, seed) not in rows and not options.report:
            row = run(method, problem, seed)
            if row is not None:
                rows[problem, method, seed] = row
                _append(options.output, row)
                print(f"{problem}: {method}, {seed}: {row['seconds']:.1f} s", file=sys.stderr)
    row_keys = ((problem, method, seed) for seed, problem, method in tasks)
    report([rows[key] for key in row_keys if key in rows])


def _read(path):
    """Return the rows of an earlier run by problem, method and seed."""
    if not path.exists():
        return {}
    with path.open(newline="") as file:
        rows = [
            {k: v if k in KEY[:2] else int(v) if k == "seed" else float(v) for k, v in row.items()}
            for row in csv.DictReader(file)
        ]
    return {tuple(row[name] for name in KEY): row for row in rows}


def _append(path, row):
    """Write one more row."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, row)
        if new:
            writer.writeheader()
        writer.writerow(row)


if __name__ == "__main__":
    main()
