"""Feature selection beside its peers: kept features, reported and true scores, and time.

    python -m benchmarks.feature_selection                             # small: a few minutes
    python -m benchmarks.feature_selection --size full --seeds 10      # the table of the manual

All methods choose from the same training records (the three quarters that ``ours`` trains on) and
use the same classifier (standard scores, logistic regression), fitted on those records. ``fresh``
is the score of their model on 20,000 new records, by the metric of the problem (accuracy, or the
area under the curve).

- ``ours``: ``HoldoutFeatureSelector(classifier)`` with its defaults; its last quarter is the
  holdout. ``reported`` is the value of its final report, ``covered`` the share of seeds whose
  interval contains the fresh score, and ``said`` the share of seeds in which the selector confirms
  that the features are better than chance;
- ``stable``: the same with ``n_features_to_select="stable"``;
- ``kbest``: ``SelectKBest`` in a pipeline in ``GridSearchCV``, with the same sizes of subsets to
  choose from as ours; reports its best score;
- ``l1``: L1-penalized logistic regression, penalty by cross-validation;
- ``stability``: stability selection (L1 on fifty halves of the records, frequency of at least .6);
- ``rfecv``: ``RFECV``; ``sequential``: ``SequentialFeatureSelector`` behind ``SelectKBest(30)``;
- ``boruta``: ``BorutaPy`` (skipped if it is not installed);
- ``knockoffs``: model-X knockoffs at a false discovery rate of .2, for problems with a *known*
  distribution of the features;
- ``outside``: ``SelectKBest(20)`` on all records, then cross-validation (the classical mistake);
- ``naive``: greedy selection that reads the raw score of a holdout at every step.

Rows of ``screening`` problems are attributes that the filter keeps (``filter``), and those that its
final report proves (``proved``) or finds at a false discovery rate of .05 (``discovered``). Peers
test the attributes that pass in the training set once on the raw holdout, at level .05
(``bonferroni``) or at that rate (``bh``).

``panel`` problems have a covariate that the panel of features adds to: ``panel`` is
``final_report(compare="fixed")``, ``delong`` a paired comparison of the same two models on the same
holdout, untouched. ``reported`` is the difference of their areas and ``said`` the share of seeds
whose interval excludes 0.

A last line for each problem: the mean paired difference of ``fresh`` between ours and the best of
``kbest``, ``l1`` and ``stability``, with two standard errors.

Seconds are processor seconds of one thread, so that other processes do not count. Every finished
row is written to ``--output`` at once, and an interrupted run continues there. ``--again`` deletes
these rows first, which is needed after a change of the code. ``--report`` prints them.
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

#: Difference of the means of a true feature between the classes, in standard deviations: eight
#: such features allow an accuracy of .80.
SHIFT = 0.595
#: Number of true features of most problems.
N_TRUE = 8
#: Number of new records that estimate the true score of a model.
N_FRESH = 20_000


@dataclass(frozen=True)
class Data:
    """Records to select on, and a source of fresh records.

    ``true`` are the columns that carry information on the label. ``fresh(columns)`` returns these
    columns of new records, and their labels. ``knockoffs(generator)`` draws knockoffs of ``X``;
    it is None if the distribution of the features is unknown. ``fixed`` are the columns of a
    covariate.
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
        generator = np.random.default_rng(seed + 10_000)
        labels = (generator.random(N_FRESH) < share).astype(int)
        records = generator.standard_normal((N_FRESH, len(columns)))
        records += shift * (labels[:, None] - 0.5) * (np.asarray(columns) < n_true)
        return records, labels

    true = frozenset(range(n_true))
    knockoffs = lambda generator: generator.standard_normal(X.shape)  # noqa: E731
    return Data(X, y, true, fresh, knockoffs, scoring)


def blocks(n, p, seed, *, width=10, rho=0.8):
    """Return blocks of correlated features; the first eight blocks carry the label.

    Features of a block have a correlation of ``rho``. The label shifts all features of the first
    eight blocks, and the first feature of each of them twice as far.
    """
    rng = np.random.default_rng(seed)

    first_of_block = np.arange(N_TRUE) * width
    y = rng.integers(0, 2, n)
    block_values = np.repeat(rng.standard_normal((n, p // width)), width, axis=1)
    X = np.sqrt(rho) * block_values + np.sqrt(1 - rho) * rng.standard_normal((n, p))
    X += 0.6 * SHIFT * (y[:, None] - 0.5) * (np.arange(p) < N_TRUE * width)
    X[:, first_of_block] += 0.6 * SHIFT * (y[:, None] - 0.5)

    def fresh(columns):
        generator = np.random.default_rng(seed + 10_000)
        labels = generator.integers(0, 2, N_FRESH)
        columns = np.asarray(columns)
        block_values = generator.standard_normal((N_FRESH, p // width))[:, columns // width]
        noise = generator.standard_normal((N_FRESH, columns.size))
        records = np.sqrt(rho) * block_values + np.sqrt(1 - rho) * noise
        n_shifts = (columns < N_TRUE * width) * 1.0 + np.isin(columns, first_of_block)
        records += 0.6 * SHIFT * (labels[:, None] - 0.5) * n_shifts
        return records, labels

    return Data(X, y, frozenset(range(N_TRUE * width)), fresh)


def cancer(n_noise, seed):
    """Return the breast cancer data with noise columns; 169 of its 569 records stay fresh."""
    rng = np.random.default_rng(seed)
    X, y = load_breast_cancer(return_X_y=True)
    X = np.hstack([X, rng.standard_normal((len(X), n_noise))])
    order = rng.permutation(len(X))
    analyst_rows = order[:400]
    fresh_rows = order[400:]
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
class Selection:
    """Result of a method: columns, a model of these columns, reported score and interval."""

    columns: np.ndarray
    model: object
    reported: float
    interval: tuple = (np.nan, np.nan)
    confirmed: float = np.nan  # 1.0 if the method confirms that the columns are better than chance


def classifier():
    """Return the classifier of all methods."""
    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=1_000))


def _refit(data, columns):
    columns = np.asarray(columns, dtype=int)
    if columns.size == 0:
        return None
    return classifier().fit(data.X[:, columns], data.y)


def ours(data, seed, *, n_features_to_select="auto"):
    """Return the subset of the selector, and the value and interval of its final report."""
    selector = HoldoutFeatureSelector(
        classifier(),
        n_features_to_select=n_features_to_select,
        scoring=data.scoring,
        random_state=seed,
    ).fit(data.X, data.y)
    report = selector.final_report()
    return Selection(
        columns=np.flatnonzero(selector.support_),
        model=selector.estimator_,
        reported=report.value,
        interval=(report.lower, report.upper),
        confirmed=float(selector.confirmed_),
    )


def screened(data, seed):
    """Return the columns that the filter keeps."""
    screen = HoldoutCorrelationFilter(random_state=seed).fit(data.X, data.y)
    columns = np.flatnonzero(screen.support_)
    return Selection(columns, None, np.nan, confirmed=float(screen.confirmed_))


def reported(data, seed, column="p"):
    """Return the columns that the filter's final report lists at level .05.

    By ``column``: ``"p"``, adjusted for all attributes, or ``"q"``, a false discovery rate.
    """
    rows = HoldoutCorrelationFilter(random_state=seed).fit(data.X, data.y).final_report().rows
    columns = [int(row.attribute[1:]) for row in rows if getattr(row, column) <= 0.05]
    return Selection(np.array(columns, dtype=int), None, np.nan, confirmed=float(bool(columns)))


def bonferroni(data, seed, adjusted=lambda p_values: p_values * p_values.size):
    """Return the columns that pass in the training set and in a test on the raw holdout.

    ``adjusted`` turns the p-values of the holdout into adjusted ones, which pass below .05.
    """
    screen = HoldoutCorrelationFilter(random_state=seed).fit(data.X, data.y)
    columns = np.flatnonzero(np.isfinite(screen.verified_associations_))
    if columns.size:
        holdout = screen.holdout_indices_
        _, p_values = f_classif(data.X[holdout][:, columns], data.y[holdout])
        columns = columns[adjusted(p_values) < 0.05]
    return Selection(columns, None, np.nan)


def _panel_selector(data, seed):
    return HoldoutFeatureSelector(
        classifier(), scoring=data.scoring, fixed_features=data.fixed, random_state=seed
    ).fit(data.X, data.y)


def panel_report(data, seed):
    """Return the final report on the panel less the covariate: difference and interval."""
    selector = _panel_selector(data, seed)
    row = selector.final_report(compare="fixed").rows[-1]
    return Selection(
        columns=np.flatnonzero(selector.support_),
        model=None,
        reported=row.value,
        interval=(row.lower, row.upper),
        confirmed=float(row.lower > 0.0),
    )


def delong(data, seed):
    """Return the panel less the covariate by DeLong's test on the untouched holdout."""
    selector = _panel_selector(data, seed)
    panel_columns = np.flatnonzero(selector.support_)
    train = selector.train_indices_
    holdout = selector.holdout_indices_
    y = data.y[holdout]
    placements = []  # of either model: of positive and of negative records
    for columns in (panel_columns, list(data.fixed)):
        model = classifier().fit(data.X[train][:, columns], data.y[train])
        scores = model.decision_function(data.X[holdout][:, columns])
        is_above = scores[y == 1][:, None] > scores[y == 0]
        placements.append((is_above.mean(axis=1), is_above.mean(axis=0)))
    differences = [
        of_panel - of_covariate for of_panel, of_covariate in zip(*placements, strict=True)
    ]
    value = differences[0].mean()
    variance = sum(difference.var(ddof=1) / difference.size for difference in differences)
    half_width = 1.96 * np.sqrt(variance)
    lower = value - half_width
    return Selection(
        columns=panel_columns,
        model=None,
        reported=value,
        interval=(lower, value + half_width),
        confirmed=float(lower > 0.0),
    )


def sizes(n, p):
    """Return the sizes of subsets that the selector tries, for a peer that takes a list."""
    max_size = p if p <= n else n // 2
    grid = {round(2 ** (step / 2)) for step in range(40)} | ({p} if p <= n else set())
    return sorted(size for size in grid if size <= max_size)


def kbest(data, seed):
    """Return the features of univariate selection inside cross-validation."""
    pipeline = make_pipeline(SelectKBest(f_classif), *[s for _, s in classifier().steps])
    n, p = data.X.shape
    grid = {"selectkbest__k": sizes(n, p)}
    search = GridSearchCV(pipeline, grid, cv=5, scoring=data.scoring)
    search.fit(data.X, data.y)
    columns = search.best_estimator_[0].get_support(indices=True)
    return Selection(columns, search.best_estimator_[1:], search.best_score_)


def l1(data, seed):
    """Return the features that L1-penalized logistic regression keeps."""
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
            random_state=seed,
        ).fit(StandardScaler().fit_transform(data.X), data.y)
    scores = next(iter(model.scores_.values()))
    best = float(np.asarray(scores).reshape(5, -1).mean(axis=0).max())
    columns = np.flatnonzero(model.coef_[0])
    if columns.size == 0:
        return Selection(columns, None, best)
    scaler = StandardScaler().fit(data.X[:, columns])
    linear = LogisticRegression().fit(scaler.transform(data.X[:, columns]), data.y)
    linear.coef_ = model.coef_[:, columns]
    linear.intercept_ = model.intercept_
    return Selection(columns, make_pipeline(scaler, linear), best)


def stability(data, seed, *, n_halvings=25, min_frequency=0.6):
    """Return the columns that the L1 path of half the records chooses most often.

    A path counts until a tenth as many features as records (at least 5) have entered.
    """
    rng = np.random.default_rng(seed)
    n, p = data.X.shape
    X = StandardScaler().fit_transform(data.X)
    frequency = np.zeros(p)
    max_entered = max(5, n // 10)
    for _ in range(n_halvings):
        rows = rng.permutation(n)
        for half in (rows[: n // 2], rows[n // 2 :]):
            centered = data.y[half] - data.y[half].mean()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                _, path, _ = lasso_path(X[half], centered, n_alphas=30, eps=0.1, max_iter=100)
            has_entered = np.cumsum(path != 0, axis=1) > 0
            steps = np.flatnonzero(has_entered.sum(axis=0) <= max_entered)
            last_step = steps[-1] if steps.size else 0
            frequency[has_entered[:, last_step]] += 0.5 / n_halvings
    columns = np.flatnonzero(frequency >= min_frequency)
    return Selection(columns, _refit(data, columns), np.nan)


def rfecv(data, seed):
    """Return the features of recursive elimination with cross-validation."""
    X = StandardScaler().fit_transform(data.X)
    step = 0.5 if X.shape[1] > 5_000 else 0.3
    eliminator = RFECV(LogisticRegression(max_iter=200), step=step, cv=5).fit(X, data.y)
    columns = np.flatnonzero(eliminator.support_)
    best = float(eliminator.cv_results_["mean_test_score"].max())
    return Selection(columns, _refit(data, columns), best)


def sequential(data, seed):
    """Return the features of forward selection among the thirty best univariate features."""
    best = SelectKBest(f_classif, k=30).fit(data.X, data.y).get_support(indices=True)
    forward = SequentialFeatureSelector(classifier(), tol=0.003, cv=3)
    columns = best[forward.fit(data.X[:, best], data.y).get_support(indices=True)]
    score = cross_val_score(classifier(), data.X[:, columns], data.y, cv=5).mean()
    return Selection(columns, _refit(data, columns), float(score))


def boruta(data, seed):
    """Return the features that Boruta confirms."""
    from boruta import BorutaPy  # optional peer

    trees = RandomForestClassifier(n_jobs=1, max_depth=5, random_state=seed)
    selector = BorutaPy(trees, n_estimators=100, max_iter=20, random_state=seed)
    selector.fit(data.X, data.y)
    columns = np.flatnonzero(selector.support_)
    return Selection(columns, _refit(data, columns), np.nan)


def knockoffs(data, seed, *, rate=0.2):
    """Return the features that the knockoff filter keeps (Candès et al. 2018).

    Knockoffs are drawn from the known distribution of the features. The cut is the smallest one
    whose estimated false discovery rate is at most ``rate``.
    """
    copies = data.knockoffs(np.random.default_rng(seed + 20_000))
    lasso = LassoCV(cv=5, eps=0.05, alphas=20, random_state=seed)
    lasso.fit(np.hstack([data.X, copies]), data.y - 0.5)
    p = data.X.shape[1]
    lead = np.abs(lasso.coef_[:p]) - np.abs(lasso.coef_[p:])
    cuts = np.sort(np.abs(lead[lead != 0]))
    false_discovery_rates = [
        (1 + (lead <= -cut).sum()) / max(1, (lead >= cut).sum()) for cut in cuts
    ]
    smallest_cut = next(
        (cut for cut, fdr in zip(cuts, false_discovery_rates, strict=True) if fdr <= rate), np.inf
    )
    columns = np.flatnonzero(lead >= smallest_cut)
    return Selection(columns, _refit(data, columns), np.nan)


def outside(data, seed):
    """Return the classical mistake: features chosen on all records, then cross-validated."""
    columns = SelectKBest(f_classif, k=20).fit(data.X, data.y).get_support(indices=True)
    score = cross_val_score(classifier(), data.X[:, columns], data.y, cv=5).mean()
    return Selection(columns, _refit(data, columns), float(score))


def naive(data, seed):
    """Return the features of forward steps that each read the raw holdout score."""
    n_train = len(data.X) * 3 // 4
    X_train = data.X[:n_train]
    y_train = data.y[:n_train]
    columns, score = naive_steps(X_train, y_train, data.X[n_train:], data.y[n_train:])
    model = GaussianNB().fit(X_train[:, columns], y_train) if columns.size else None
    return Selection(columns, model, score)


def naive_steps(X_train, y_train, X_holdout, y_holdout):
    """Return the columns of forward steps by the raw holdout score, and their score.

    ``SequentialFeatureSelector(GaussianNB(), tol=1e-9, cv=one_split)`` keeps the same columns.
    Naive Bayes adds up the evidence of single features, so that a step needs no fits.
    """
    model = GaussianNB().fit(X_train, y_train)
    prior_log_odds = float(np.diff(np.log(model.class_prior_))[0])
    log_odds = np.zeros(X_holdout.shape)  # by which a feature of a record adds to those of class 1
    for sign, mean, variance in zip((-1, 1), model.theta_, model.var_, strict=True):
        log_odds -= sign * 0.5 * (np.log(variance) + (X_holdout - mean) ** 2 / variance)
    is_positive = (y_holdout == model.classes_[1])[:, None]
    chosen = []
    score = -np.inf
    total_log_odds = np.full(len(X_holdout), prior_log_odds)
    while len(chosen) < X_train.shape[1] - 1:
        predictions = total_log_odds[:, None] + log_odds > 0  # with each further column
        scores = (predictions == is_positive).mean(axis=0)
        scores[chosen] = -np.inf
        best = int(scores.argmax())
        if scores[best] - score < 1e-9:
            break
        chosen.append(best)
        score = scores[best]
        total_log_odds = total_log_odds + log_odds[:, best]
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
#: Peers of the comparison in the last lines.
PEERS = ("kbest", "l1", "stability")
SCREENS = {
    "filter": screened,
    "proved": reported,
    "discovered": partial(reported, column="q"),
    "bonferroni": bonferroni,
    "bh": partial(bonferroni, adjusted=false_discovery_control),
}
PANELS = {"panel": panel_report, "delong": delong}


def is_applicable(method, problem):
    """Return whether a method is one of screening, of panels or of selection, as the problem is."""
    is_screening = problem.startswith("screening")
    is_panel = problem.startswith("panel")
    return (method in SCREENS, method in PANELS) == (is_screening, is_panel)


def run(method, problem, seed):
    """Return a row of the table, or None if the method does not apply to the problem."""
    if not is_applicable(method, problem):
        return None
    data = PROBLEMS[problem](seed)
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
        selector = HoldoutFeatureSelector(GaussianNB(), cv=2, random_state=seed)
        return selector.fit(data.X[:, :2], data.y).train_indices_


def _row(method, problem, seed, data, selection, seconds):
    """Return counts and scores of a selection by their column of the table."""
    fresh_score = _fresh_score(data, selection.columns, selection.model)
    lower, upper = selection.interval
    has_interval = np.isfinite(lower) and method not in PANELS
    n_true = sum(int(column) in data.true for column in selection.columns)
    return {
        "problem": problem,
        "method": method,
        "seed": seed,
        "true_kept": n_true,
        "useless_kept": len(selection.columns) - n_true,
        "fresh": np.nan if method in SCREENS | PANELS else fresh_score,
        "reported": selection.reported,
        "covered": float(lower <= fresh_score <= upper) if has_interval else np.nan,
        "width": upper - lower,
        "said": selection.confirmed,
        "seconds": seconds,
    }


def _fresh_score(data, columns, model):
    """Return the score of a model on fresh records; without columns, that of a constant."""
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
        problem_rows = [row for row in rows if row["problem"] == problem]
        for method in METHODS | SCREENS | PANELS:
            method_rows = [row for row in problem_rows if row["method"] == method]
            if method_rows:
                cells = _cells(method_rows, problem_rows)
                print("| " + " | ".join([problem, method, *cells]) + " |")
    for problem in problems:
        print(_lead([row for row in rows if row["problem"] == problem], problem))


def _lead(rows, problem):
    """Return a line: the fresh score of ours less that of the best peer, with its error.

    It is empty if fewer than two seeds have all of these methods.
    """
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


def _cells(method_rows, problem_rows):
    """Return the cells of a method: number of seeds, means over them, seconds over kbest's.

    Seconds are compared on the seeds that both methods have.
    """
    kbest_seconds = {
        row["seed"]: row["seconds"] for row in problem_rows if row["method"] == "kbest"
    }
    common_rows = [row for row in method_rows if row["seed"] in kbest_seconds]
    seconds_ratio = _finite_mean(row["seconds"] for row in common_rows) / _finite_mean(
        kbest_seconds[row["seed"]] for row in common_rows
    )
    means = [
        _cell(_finite_mean(row[column] for row in method_rows), number_format)
        for column, number_format in SHOWN_COLUMNS
    ]
    return [f"{len(method_rows)}", *means, _cell(seconds_ratio, ".2g")]


def _finite_mean(values):
    """Return the mean of the finite values; NaN without any."""
    finite_values = [value for value in values if np.isfinite(value)]
    return float(np.mean(finite_values)) if finite_values else np.nan


def _cell(value, number_format):
    return format(value, number_format) if np.isfinite(value) else "–"


#: Columns that identify a row.
KEY = ("problem", "method", "seed")
#: Columns of the printed table, and their formats.
SHOWN_COLUMNS = (
    *(("true_kept", ".1f"), ("useless_kept", ".1f"), ("fresh", ".3f"), ("reported", ".3f")),
    *(("covered", ".0%"), ("width", ".2f"), ("said", ".0%")),
)
#: Problems and methods of ``--size small``.
SMALL_PROBLEMS = (
    *("8 of 2,000, n=300", "AUC, 1:3, n=150", "AUC, 1:9, n=300", "noise, 2,000, n=300"),
    *("screening 30 of 3,000, n=600", "panel, n=300"),
)
SMALL_METHODS = ("ours", "stable", *PEERS, *SCREENS, *PANELS)


def main(arguments=None):
    """Run the comparison, write its rows one by one, print its table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--size",
        choices=("small", "full"),
        default="small",
        help="a few problems and methods, or all",
    )
    parser.add_argument("--seeds", type=int, default=10, help="number of draws of each problem")
    parser.add_argument("--problems", nargs="+", choices=PROBLEMS, help="only these problems")
    parser.add_argument(
        "--methods", nargs="+", choices=METHODS | SCREENS | PANELS, help="only these methods"
    )
    parser.add_argument(
        "--again", action="store_true", help="delete the rows of an earlier run in --output"
    )
    parser.add_argument(
        "--report", action="store_true", help="print the rows of an earlier run; compute no row"
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("output/feature_selection.csv"),
        help="file of the rows of this run and earlier ones",
    )
    options = parser.parse_args(arguments)
    is_small = options.size == "small"
    problems = options.problems or (SMALL_PROBLEMS if is_small else PROBLEMS)
    methods = options.methods or (SMALL_METHODS if is_small else METHODS | SCREENS | PANELS)
    if options.again:
        options.output.unlink(missing_ok=True)
    rows = _read(options.output)
    # Seed by seed, so that an interrupted table has the same seeds for all methods.
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
        rows = [_parsed(row) for row in csv.DictReader(file)]
    return {tuple(row[column] for column in KEY): row for row in rows}


def _parsed(row):
    """Return a row of text with its numbers."""
    parsers = {"problem": str, "method": str, "seed": int}
    return {column: parsers.get(column, float)(text) for column, text in row.items()}


def _append(path, row):
    """Write one more row."""
    path.parent.mkdir(parents=True, exist_ok=True)
    is_new_file = not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, row)
        if is_new_file:
            writer.writeheader()
        writer.writerow(row)


if __name__ == "__main__":
    main()
