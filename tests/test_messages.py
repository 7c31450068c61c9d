"""The wording of messages, in one place: typical mistakes, and the sentence that answers each.

All other tests hold the facts of a message (``tests/facts.py``), so that its words may improve.
"""

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from scipy.stats import loguniform
from sklearn.cluster import KMeans
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import accuracy_score, make_scorer, precision_score
from sklearn.model_selection import KFold, ShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_bdp import (
    HoldoutConfig,
    HoldoutScorer,
    ReusableHoldout,
    ReusableHoldoutSearchCV,
    certify,
    plan_holdout,
    plan_search,
)
from sklearn_bdp.correlation import DependencyGraph, Groups, MarkovChain, MarkovNetwork, TimeOrdered
from sklearn_bdp.exceptions import (
    DefaultMetricWarning,
    SklearnBdpWarning,
    UninformativeIntervalWarning,
)
from sklearn_bdp.feature_selection import HoldoutFeatureSelector
from sklearn_bdp.holdout import ExpertSettings
from sklearn_bdp.metrics import PerRecordScore, available_metrics, get_metric

X, Y = make_classification(200, 6, random_state=0)
FRAME = pd.DataFrame(X).add_prefix("x")
LABELS = pd.Series(Y, index=FRAME.index)
DAYS = pd.date_range("2026-01-01", periods=200)
PATH = nx.path_graph(6)
TEXT_LABELS = np.where(Y == 1, "yes", "no")


#: End of messages about records out of order.
SORTED_BY_DATE = "order = X.index.argsort(kind='stable'), then pass X.iloc[order] and y[order]"


class NeverFits(LogisticRegression):
    """Every mistake is found before the first fit."""

    def fit(self, X, y, sample_weight=None):
        raise AssertionError("fitted")


SCALED = make_pipeline(StandardScaler(), NeverFits())
PIPELINE = make_pipeline(StandardScaler(), LogisticRegression())
PIPELINE_GRID = {"logisticregression__C": [0.1, 1.0]}


def search(X=X, y=Y, *, estimator=None, grid=None, fit=None, **options):
    estimator = NeverFits() if estimator is None else estimator
    search = ReusableHoldoutSearchCV(estimator, grid or {"C": [0.1, 1.0]}, **options)
    return search.fit(X, y, **(fit or {}))


def loss(estimator, X, y):
    return np.full(len(y), 5.0)


def mean_loss(estimator, X, y):
    return 0.5


def scored(function):
    score = PerRecordScore(function, 0.0, 1.0)
    return search(estimator=LogisticRegression(), scoring=score)


def closed():
    holdout = ReusableHoldout(X[100:], Y[100:], random_state=0)
    model = LogisticRegression().fit(X[:100], Y[:100])
    holdout.final_report(model, scoring="accuracy")
    return holdout.score(LogisticRegression(C=0.01).fit(X[:100], Y[:100]), 0.9, scoring="accuracy")


def spent():
    holdout = ReusableHoldout(
        X, Y, budget=1, epsilon=100.0, expert=ExpertSettings(threshold=1e-3), random_state=0
    )
    return holdout.answer([0.5] * 8, np.tile([[0.0], [1.0]], (4, 200)))


def from_targets():
    return ReusableHoldout.from_targets(Y, training_targets=[0, 1])


def another_beta(folder):
    ReusableHoldout(X, Y, ledger=folder / "a.sqlite")
    return ReusableHoldout(X, Y, ledger=folder / "a.sqlite", confidence_level=0.9)


def fewer_records(folder):
    ReusableHoldout(X, Y, ledger=folder / "a.sqlite")
    return ReusableHoldout(X[:150], Y[:150], ledger=folder / "a.sqlite")


def another_correlation(folder):
    ReusableHoldout(X, Y, ledger=folder / "a.sqlite")
    return ReusableHoldout(X, Y, ledger=folder / "a.sqlite", correlation="time")


def subgroups_of(column):
    holdout = ReusableHoldout(FRAME[100:], Y[100:], random_state=0)
    model = LogisticRegression().fit(FRAME[:100], Y[:100])
    return holdout.final_report(model, scoring="accuracy", by=column)


def another_split(folder):
    for seed in (0, 1):
        search(
            estimator=LogisticRegression(),
            holdout=HoldoutConfig(ledger=folder / "a.sqlite"),
            random_state=seed,
        )


def no_ledger(folder):
    (folder / "notes.txt").write_text("nothing")
    return ReusableHoldout(X, Y, ledger=folder / "notes.txt")


#: Mistakes of users, and the sentence of the message that states the fix.
MISTAKES = {
    "a number of records as the holdout": (
        lambda: HoldoutConfig(20),
        "To hold out 20 of your records, pass test_size=20 / len(X).",
    ),
    "k-fold as the holdout": (
        lambda: search(holdout=KFold(4)),
        "Use ShuffleSplit(n_splits=1) or a fraction. Splitters with several folds belong in cv.",
    ),
    "a ledger as the holdout": (
        lambda: search(holdout="holdout.sqlite"),
        "To keep a ledger file, pass HoldoutConfig(ledger=path).",
    ),
    "a confidence for a failure probability": (
        lambda: HoldoutConfig(confidence_level=0.05),
        "Set confidence_level=0.95 if intervals may be wrong with probability 0.05.",
    ),
    "a confidence in percent": (
        lambda: HoldoutConfig(confidence_level=95),
        "Set confidence_level=0.95 for 95%.",
    ),
    "a level of privacy in words": (
        lambda: HoldoutConfig(epsilon="low"),
        "epsilon must be a number above 0 or 'auto', got epsilon='low'.",
    ),
    "a ledger as the size of the holdout": (
        lambda: HoldoutConfig("holdout.sqlite"),
        "To keep a ledger file, pass HoldoutConfig(ledger=path).",
    ),
    "a distribution without n_iter": (
        lambda: search(grid={"C": loguniform(0.1, 1.0)}),
        "param_grid['C'] is a distribution, which needs n_iter. Set n_iter=20",
    ),
    "a scorer that looks for the worst model": (
        lambda: search(scoring=make_scorer(precision_score, greater_is_better=False)),
        "Set greater_is_better=True in make_scorer.",
    ),
    "a missing target": (
        lambda: search(y=np.where(np.arange(200) == 3, np.nan, Y)),
        "y must hold a target for each record, got 1 missing.",
    ),
    "records and targets in each other's place": (
        lambda: search(Y, X),
        "they seem to be swapped. Pass fit(X, y)",
    ),
    "a missing value in a column": (
        lambda: search(FRAME.mask(FRAME > 3.0)),
        "Impute NaN in a pipeline, as in make_pipeline(SimpleImputer(), NeverFits()), or use "
        "HistGradientBoostingClassifier.",
    ),
    "an infinite value in a column": (
        lambda: search(FRAME.replace(FRAME.iloc[0, 2], np.inf)),
        "Input X contains infinity in the column 'x2', which NeverFits does not accept. Replace "
        "infinity with NaN: X.replace([np.inf, -np.inf], np.nan). Impute NaN in a pipeline, as in",
    ),
    "a missing value in a pipeline": (
        lambda: search(FRAME.mask(FRAME > 1.5), estimator=PIPELINE, grid=PIPELINE_GRID),
        "(candidates: 2, folds of the training set: 5): X contains NaN in the columns 'x0', 'x1', "
        "'x2', 'x3', 'x4', ..., which LogisticRegression does not accept. Put SimpleImputer() "
        "first in your pipeline to impute NaN, or use HistGradientBoostingClassifier.",
    ),
    "a missing value in the validation set": (
        lambda: search(FRAME[50:], Y[50:], fit={"X_val": FRAME[:50] * np.nan, "y_val": Y[:50]}),
        "Input X_val contains NaN in the columns 'x0', 'x1', 'x2', 'x3', 'x4', ...,",
    ),
    "text in a column": (
        lambda: search(FRAME.assign(sex="f"), estimator=LogisticRegression()),
        "X has text in the column 'sex'. Set estimator=make_pipeline(make_column_transformer(("
        "OneHotEncoder(handle_unknown='ignore'), ['sex']), remainder='passthrough'), "
        "LogisticRegression()).",
    ),
    "one class": (
        lambda: search(y=np.zeros(200, dtype=int), estimator=LogisticRegression()),
        "All 150 training targets are 0: check y, or bring records of another class.",
    ),
    "a value that no fit takes": (
        lambda: search(estimator=LogisticRegression(), grid={"C": [-1.0, -2.0]}),
        "All 10 fits failed (candidates: 2, folds of the training set: 5). The first error: "
        "InvalidParameterError: The 'C' parameter of LogisticRegression must be",
    ),
    "a value that no step takes": (
        lambda: search(estimator=PIPELINE, grid={"logisticregression__C": [-1.0]}),
        "Change 'logisticregression__C' in param_grid, or in the estimator.",
    ),
    "a parameter without values": (
        lambda: search(grid={"C": []}),
        "Parameter grid for parameter 'C' need to be a non-empty sequence, got: []. Give values in "
        "param_grid, such as [0.1, 1.0], or remove the key. The holdout was not queried.",
    ),
    "a class for the estimator": (
        lambda: search(estimator=LogisticRegression),
        "estimator must be an instance: pass LogisticRegression(), not the class.",
    ),
    "fewer targets than records": (
        lambda: search(y=Y[:150]),
        "X has 200 rows, y has 150: pass one target per row.",
    ),
    "fewer targets than validation records": (
        lambda: search(X[50:], Y[50:], fit={"X_val": X[:50], "y_val": Y[:40]}),
        "X_val has 50 rows, y_val has 40: pass one target per row.",
    ),
    "fewer targets than records of a selection": (
        lambda: HoldoutFeatureSelector(NeverFits()).fit(FRAME, Y[:150]),
        "X has 200 rows, y has 150: pass one target per row.",
    ),
    "one class in a selection": (
        lambda: HoldoutFeatureSelector(LogisticRegression()).fit(FRAME, np.zeros(200, dtype=int)),
        "All 150 training targets are 0: check y, or bring records of another class.",
    ),
    "a metric of final reports": (
        lambda: search(scoring="calibration_slope"),
        "is a metric of final reports: final_report(scoring='calibration_slope').",
    ),
    "a function of targets and predictions": (
        lambda: search(scoring=accuracy_score),
        "or scoring=make_scorer(accuracy_score)",
    ),
    "another notation of a metric": (
        lambda: search(scoring="RMSE"),
        "Did you mean 'neg_root_mean_squared_error'?",
    ),
    "a metric under its common name": (
        lambda: plan_search(0.05, scoring="sensitivity"),
        "Did you mean 'recall'?",
    ),
    "an error of numbers for a classifier": (
        lambda: search(scoring="rmse"),
        "For a classifier, use 'neg_brier_score' or 'neg_log_loss'.",
    ),
    "a function without a name": (
        lambda: search(scoring="kappa"),
        "scoring='kappa' is not the name of a metric. Pass scoring=make_scorer(cohen_kappa_score).",
    ),
    "a column that is not in X": (
        lambda: subgroups_of("sex"),
        "Pass by={'sex': labels}, one label per holdout record, or a column of X: 'x0',",
    ),
    "text labels for a metric of one class": (
        lambda: search(y=TEXT_LABELS, scoring="f1"),
        "Name the class to count: scoring=make_scorer(f1_score, pos_label='yes').",
    ),
    "text labels for a second metric": (
        lambda: search(y=TEXT_LABELS, scoring=["accuracy", "f1"], refit="accuracy"),
        "scoring='f1' counts the class pos_label=1, and y has the labels 'no', 'yes'.",
    ),
    "text labels for recall": (
        lambda: search(y=TEXT_LABELS, scoring="recall"),
        "Set scoring=get_metric('recall', pos_label='yes').",
    ),
    "digits as text for a metric of one class": (
        lambda: search(y=Y.astype(str), scoring="average_precision"),
        "or pass y as numbers: y.astype(int).",
    ),
    "three classes for a metric of two": (
        lambda: search(y=np.arange(200) % 3, scoring="f1"),
        "Set scoring='f1_macro', the mean over classes.",
    ),
    "three classes for an area": (
        lambda: search(y=np.arange(200) % 3, scoring="roc_auc"),
        "Set scoring='roc_auc_ovr'.",
    ),
    "several metrics and no choice": (
        lambda: search(scoring=["accuracy", "roc_auc"]),
        "chooses candidates: refit='accuracy' or refit='roc_auc'.",
    ),
    "an unknown choice": (lambda: search(refit="best"), "Set refit=True to keep the best"),
    "a number as the choice": (lambda: search(refit=3), "Set refit=True to keep the best"),
    "an unknown number of candidates": (
        lambda: search(verify="none"),
        "Set verify='all' or a number of candidates. holdout=None searches without verification.",
    ),
    "a search without a grid": (
        lambda: ReusableHoldoutSearchCV(NeverFits()),
        "such as {'C': [0.1, 1.0]}",
    ),
    "values without a name": (
        lambda: search(grid=[0.1, 1.0]),
        "param_grid must be a dict of parameter names and lists of values",
    ),
    "a parameter without its step": (
        lambda: search(estimator=SCALED, grid={"C": [1.0]}),
        "Did you mean 'neverfits__C'?",
    ),
    "a parameter of another step": (
        lambda: search(estimator=SCALED, grid={"svc__gamma": [1.0]}),
        "Steps: standardscaler, neverfits.",
    ),
    "a parameter of another model": (
        lambda: search(grid={"n_estimators": [10]}),
        "param_grid has the name 'n_estimators', which is not a parameter of NeverFits.",
    ),
    "an argument of random search": (
        lambda: search(param_distributions={"C": [1.0]}),
        "Pass it as param_grid, and set n_iter=20 to sample 20 candidates.",
    ),
    "an argument of the configuration": (
        lambda: search(ledger="a.sqlite"),
        "pass holdout=HoldoutConfig(ledger='a.sqlite').",
    ),
    "a failure probability by its usual name": (
        lambda: HoldoutConfig(alpha=0.05),
        "Set confidence_level=0.95 for a failure probability of 0.05.",
    ),
    "the beginning of a metric": (lambda: search(scoring="acc"), "Did you mean 'accuracy'?"),
    "a metric misspelled": (lambda: search(scoring="acuracy"), "Did you mean 'accuracy'?"),
    "a metric without bounds": (
        lambda: search(scoring="f1", holdout=HoldoutConfig(epsilon=1.0)),
        "To choose by f1, leave epsilon='auto'.",
    ),
    "no metric for clusters": (
        lambda: search(estimator=KMeans(), grid={"n_clusters": [2]}),
        "where function(estimator, X, y) returns one number per record.",
    ),
    "a loss out of its range": (
        lambda: scored(loss),
        "Declare the possible range, such as PerRecordScore(loss, 0, 10)",
    ),
    "a mean for scores per record": (
        lambda: scored(mean_loss),
        "Return the numbers before they are averaged.",
    ),
    "numbers for a metric of labels": (
        lambda: search(y=X[:, 0], scoring="accuracy"),
        "For numbers, use a regressor and scoring='neg_mean_absolute_error'.",
    ),
    "labels for a metric of probabilities": (
        lambda: from_targets().answer_predictions(Y, scoring="neg_brier_score"),
        "Pass model.predict_proba(X), or set scoring='accuracy'.",
    ),
    "predictions that are missing": (
        lambda: from_targets().final_report({"m": np.full(200, np.nan)}, scoring="roc_auc"),
        "predictions 'm' must be finite, 200 of 200 are not.",
    ),
    "no classes for predictions": (
        lambda: ReusableHoldout.from_targets(Y + 1).answer_predictions(
            Y + 1, scoring="balanced_accuracy"
        ),
        "Pass all classes to the holdout, as in from_targets(y, training_targets=[1, 2]).",
    ),
    "a baseline of another length": (
        lambda: from_targets().final_report({"m": Y}, scoring="accuracy", compare=["yes"] * 5),
        "compare must be a fitted model or predictions of the 200 holdout records",
    ),
    "no labels for a metric by class": (
        lambda: get_metric("roc_auc").evaluate(LogisticRegression(), X, Y),
        "LogisticRegression has no classes_: fit it first.",
    ),
    "a correlation misspelled": (lambda: search(correlation="Time"), "Did you mean 'time'?"),
    "an autocorrelation time": (
        lambda: search(correlation=5),
        "MarkovChain.from_autocorrelation_time(5)",
    ),
    "rows that do not sum to one": (
        lambda: search(correlation=[[0.5, 0.6], [0.5, 0.5]]),
        "P = np.asarray(P), then P / P.sum(axis=1, keepdims=True).",
    ),
    "groups without labels": (
        lambda: search(correlation="groups"),
        "correlation='groups' needs groups=, one label per record, got None.",
    ),
    "the name of a column as groups": (
        lambda: search(correlation="groups", fit={"groups": "sex"}),
        "got the text 'sex'. Pass the column: groups=X['sex'].",
    ),
    "two groups": (
        lambda: search(correlation="groups", fit={"groups": Y}),
        "Check groups=: one label per patient, user or site, not the target.",
    ),
    "a horizon beyond the data": (
        lambda: search(correlation="time", fit={"horizon": 10**6}),
        "Set a smaller horizon or holdout, or bring more records.",
    ),
    "labels that are missing": (
        lambda: Groups([1.0, float("nan")]),
        "or give each its own group if it is independent of all others.",
    ),
    "dates without time": (
        lambda: search(fit={"times": DAYS}),
        "Set correlation='time', which assumes nothing about the dependence of the dates.",
    ),
    "a date that is missing": (
        lambda: search(correlation="time", fit={"times": DAYS.where(DAYS[0] < DAYS)}),
        "1 is missing (NaT). Drop these records: keep = np.asarray(pd.notna(times)),",
    ),
    "dates that are missing from an index": (
        lambda: search(FRAME.set_index(DAYS.where(DAYS[0] < DAYS)), correlation="time"),
        "missing (NaT). Drop these records: keep = X.index.notna(), then pass X[keep] and y[keep].",
    ),
    "dates that are not sorted": (
        lambda: search(FRAME.set_index(DAYS[::-1]), correlation="time"),
        SORTED_BY_DATE,
    ),
    "a level of privacy without a model": (
        lambda: search(correlation="time", holdout=HoldoutConfig(epsilon=0.1)),
        "Leave epsilon='auto', or set correlation=MarkovChain.from_autocorrelation_time(5)",
    ),
    "folds that cut groups": (
        lambda: search(correlation="groups", cv=KFold(5), fit={"groups": np.arange(200) // 4}),
        "Set cv=5, or pass GroupKFold() with groups=.",
    ),
    "folds that are no pairs": (
        lambda: search(cv=(1, 2)),
        "pairs of positions of training and test records, got cv=(1, 2). Set cv=5.",
    ),
    "a graph in one piece": (
        lambda: search(correlation=DependencyGraph(nx.path_graph(200))),
        "Set correlation=MarkovNetwork(graph) to hold out single nodes",
    ),
    "nodes in another order": (
        lambda: DependencyGraph(nx.Graph([(2, 0), (1, 3)])),
        "Pass nodelist= with the node of each row of X",
    ),
    "a table in another order than a matrix": (
        lambda: ReusableHoldout(
            pd.DataFrame({"x": range(6)})[::-1], [0, 1] * 3, correlation=MarkovNetwork(PATH)
        ),
        "row 0 of X is named 5, and node 0 of the graph is named 0. Pass nodelist=X.index",
    ),
    "no graph": (
        lambda: MarkovNetwork(None),
        "as in MarkovNetwork.from_edges([(0, 1), (1, 2)], n_nodes=len(X)).",
    ),
    "a complete graph": (
        lambda: MarkovNetwork(nx.complete_graph(100)).split(100, 0.25),
        "got 1 of 100: nodes have 99 neighbors on average",
    ),
    "a holdout of few nodes": (
        lambda: MarkovNetwork(nx.empty_graph(100)).split(100, 0.1),
        "got 10 of 100 (holdout=0.1). Set holdout=0.2 or more.",
    ),
    "a periodic chain": (
        lambda: MarkovChain([[0.0, 1.0], [1.0, 0.0]]).split(1000, 0.25),
        "states of this chain recur at fixed intervals",
    ),
    "labels of a regression in a network": (
        lambda: MarkovNetwork(PATH, influence="estimate").with_estimated_strength(
            [0.5] * 6, np.arange(6)
        ),
        "Use MarkovNetwork(graph), which needs no strength.",
    ),
    "half a validation set": (
        lambda: search(fit={"X_val": X[:20]}),
        "X_val was passed without y_val. Pass both or neither.",
    ),
    "a validation set of fewer columns": (
        lambda: search(X[20:], Y[20:], fit={"X_val": X[:20, :5], "y_val": Y[:20]}),
        "X_val must have the form of X, got 5 columns instead of 6. Pass the same columns in both.",
    ),
    "columns in another order": (
        lambda: search(
            FRAME[20:], Y[20:], fit={"X_val": FRAME[:20].iloc[:, ::-1], "y_val": Y[:20]}
        ),
        "X_val must have the form of X, got its columns in another order. Pass X_val[X.columns].",
    ),
    "training rows as the validation set": (
        lambda: search(fit={"X_val": X[:100], "y_val": Y[:100]}),
        "Remove the rows of the holdout (X_val) from X and y.",
    ),
    "targets in another order": (
        lambda: search(FRAME, LABELS[::-1]),
        "Rows are matched by their places: pass y.loc[X.index]",
    ),
    "too few weights": (
        lambda: search(fit={"sample_weight": [1.0, 1.0, 1.0]}),
        "sample_weight must hold one value per record, got 3 for 200 records.",
    ),
    "a scorer without its holdout": (
        lambda: HoldoutScorer("accuracy"),
        "Pass the holdout first: HoldoutScorer(holdout, scoring='accuracy').",
    ),
    "scores out of range": (
        lambda: ReusableHoldout(X, Y).answer([0.5], [np.full(200, 2.0)]),
        "Rescale: (scores - lower) / (upper - lower).",
    ),
    "a query after the final report": (
        closed,
        "holdout.report_ shows it again (search.holdout_.report_), and recorded answers remain",
    ),
    "more than the budget": (
        spent,
        "Set on_exhausted='nan' or 'cv' to continue without the holdout.",
    ),
    "another failure probability than in the ledger": (
        another_beta,
        "confidence_level=0.9 here, 0.95 in the ledger. Set confidence_level=0.95, as in the first",
    ),
    "fewer records than in the ledger": (
        fewer_records,
        "belongs to another holdout: other data (150 holdout records here, 200 in the ledger).",
    ),
    "new records for the ledger": (
        fewer_records,
        "New records need their own ledger (a new path), or are added to the training rows.",
    ),
    "another correlation than in the ledger": (
        another_correlation,
        "here, 'independent records' in the ledger. Set correlation=None, as in the first call.",
    ),
    "another split than in the ledger": (
        another_split,
        "(the same y, with other values in X, another test_size or another random_state).",
    ),
    "a file of something else": (
        no_ledger,
        "If it was your ledger, restore a backup: a new one does not know its answers",
    ),
    "a folder for a ledger": (
        lambda folder: ReusableHoldout(X, Y, ledger=folder),
        "it is a folder. Name a file in it.",
    ),
    "a ledger in a folder that does not exist": (
        lambda folder: ReusableHoldout(X, Y, ledger=folder / "new" / "a.sqlite"),
        "first. The holdout was not queried.",
    ),
    "a ledger at another database": (
        lambda: ReusableHoldout(X, Y, ledger="mysql://ann:secret@host/base"),
        "got mysql://. Pass a file: ledger='holdout.sqlite'.",
    ),
    "a note of objects": (
        lambda: ReusableHoldout(X, Y).add_note("split", object()),
        "Pass text, numbers, lists or dicts, such as str(content).",
    ),
    "two columns of one name": (
        lambda: HoldoutFeatureSelector(NeverFits()).fit(
            FRAME.set_axis(["a", "a", *"bcde"], axis=1), Y
        ),
        "X has columns that share a name: ['a']. A selection names its features: rename them",
    ),
    "an error of one half": (
        lambda: plan_holdout(tau=0.5, n_queries=10, budget=1),
        "It is the largest error of an answer, in score units, such as tau=0.05.",
    ),
}


def in_time(X=FRAME, y=Y, **fit):
    return search(X, y, correlation="time", cv=fit.pop("cv", None), fit=fit)


def indexed(index):
    return FRAME.set_axis(index, axis=0)


def tried_on_forecasts(predictions, index=DAYS):
    """Report forecasts of the last 50 days beside a model."""
    frame = indexed(index)
    fitted = search(frame, Y, estimator=LogisticRegression(), correlation="time")
    return fitted.holdout_.final_report({"forecast": predictions}, scoring="accuracy")


SHOPS = np.arange(200) % 2
HALF = DAYS[np.arange(200) // 2]

#: Undeclared orders of records: no model is fitted, and the message shows the right call.
WRONG_ORDERS = {
    "newest first": (lambda: in_time(indexed(DAYS[::-1])), SORTED_BY_DATE),
    "periods out of order": (
        lambda: in_time(indexed(DAYS.to_period("D")[np.r_[100:200, 0:100]])),
        SORTED_BY_DATE,
    ),
    "ISO text out of order": (
        lambda: in_time(indexed(DAYS[::-1].strftime("%Y-%m-%d"))),
        SORTED_BY_DATE,
    ),
    "a day before its month": (
        lambda: in_time(indexed(DAYS.strftime("%d/%m/%Y"))),
        "set X.index = pd.to_datetime(X.index, format='%d/%m/%Y')",
    ),
    "days that may be months": (
        lambda: in_time(
            indexed(pd.date_range("2026-01-01", periods=12).repeat(17)[:200].strftime("%d/%m/%Y"))
        ),
        "format='%d/%m/%Y') or pd.to_datetime(X.index, format='%m/%d/%Y')",
    ),
    "names of months": (
        lambda: in_time(indexed(DAYS.strftime("%b %d, %Y"))),
        "set X.index = pd.to_datetime(X.index, format='%b %d, %Y')",
    ),
    "digits": (
        lambda: in_time(indexed(DAYS.strftime("%Y%m%d"))),
        "set X.index = pd.to_datetime(X.index, format='%Y%m%d')",
    ),
    "quarters": (
        lambda: in_time(
            indexed([f"{year}Q{q}" for year in range(1950, 2000) for q in range(1, 5)])
        ),
        "set X.index = pd.PeriodIndex(X.index, freq='Q')",
    ),
    "shuffled rows": (
        lambda: in_time(FRAME.sample(frac=1.0, random_state=0)),
        f"If its order is the time order, sort the records: {SORTED_BY_DATE}",
    ),
    "years out of order": (
        lambda: in_time(indexed(np.r_[1900:2000, 1800:1900])),
        "(1800 follows 1999 in row 100), so its rows may not be in time order",
    ),
    "tables one below the other": (
        lambda: in_time(pd.concat([FRAME[:100], FRAME[:100]])),
        "If the rows are already in time order, pass X.reset_index(drop=True).",
    ),
    "names of records": (
        lambda: in_time(indexed([f"p{k:03}" for k in range(200)])),
        "If the rows are already in time order, pass X.reset_index(drop=True).",
    ),
    "a panel without dates": (
        lambda: in_time(
            indexed(pd.MultiIndex.from_arrays([SHOPS, HALF.strftime("%d.%m.%Y")], names=["a", "b"]))
        ),
        "times=pd.to_datetime(X.index.get_level_values('b'), format='%d.%m.%Y')",
    ),
    "a panel of years": (
        lambda: in_time(
            indexed(pd.MultiIndex.from_arrays([SHOPS, 1900 + SHOPS.cumsum()], names=["a", "year"]))
        ),
        "times=X.index.get_level_values('year')",
    ),
    "a panel with two dates": (
        lambda: in_time(indexed(pd.MultiIndex.from_arrays([HALF, DAYS]))),
        "has a MultiIndex with 2 levels of dates",
    ),
    "clocks set back": (
        lambda: in_time(
            indexed(
                pd.date_range(
                    "2025-10-25", periods=200, freq="30min", tz="Europe/Berlin"
                ).tz_localize(None)
            )
        ),
        "tz_localize('Europe/Berlin', ambiguous='infer')",
    ),
    "validation records that are not the last": (
        lambda: in_time(indexed(DAYS)[100:], Y[100:], X_val=indexed(DAYS)[:100], y_val=Y[:100]),
        "Pass the last records as X_val.",
    ),
    "folds that mix dates": (
        lambda: in_time(cv=KFold(5, shuffle=True, random_state=0)),
        "Set cv=5, or pass TimeSeriesSplit().",
    ),
    "a shuffled holdout": (
        lambda: search(FRAME, correlation="time", holdout=ShuffleSplit(1, random_state=0)),
        "Set holdout=0.25, or pass X_val and y_val.",
    ),
}

#: Arguments about time of a wrong kind.
WRONG_KINDS = {
    "dates as groups": (lambda: in_time(groups=DAYS), "Pass times= instead of groups=."),
    "the name of a column": (lambda: in_time(times="date"), "such as X['date']"),
    "a table of dates": (lambda: in_time(times=DAYS.to_frame()), "such as times.iloc[:, 0]."),
    "text as times": (
        lambda: in_time(times=DAYS.strftime("%d.%m.%Y")),
        "Pass times=pd.to_datetime(times, format='%d.%m.%Y').",
    ),
    "a month 13": (
        lambda: in_time(times=["2026-13-01"] * 200),
        "If the day comes second, pass times=pd.to_datetime(times, format='%Y-%d-%m').",
    ),
    "truths as times": (lambda: in_time(times=Y == 1), "got bool. Pass the date of each record"),
    "too few times": (
        lambda: in_time(times=DAYS[:100]),
        "times must hold one date for each of the 200 records of X, got 100.",
    ),
    "a horizon of no date": (lambda: in_time(horizon=0), "Set horizon=1 if each forecast"),
    "a horizon of half a date": (
        lambda: in_time(horizon=1.5),
        "Round up: horizon=2. With dates, pass a span such as '36h'.",
    ),
    "a horizon in words": (
        lambda: in_time(indexed(DAYS), horizon="a week"),
        "a positive span of time such as '7D', pandas.Timedelta('7D')",
    ),
    "a horizon that looks back": (
        lambda: in_time(indexed(DAYS), horizon=pd.Timedelta("-1D")),
        "a positive span of time",
    ),
    "a span without dates": (
        lambda: in_time(horizon="7D"),
        "Pass times=, one date per record, or a number of dates, such as horizon=7.",
    ),
    "a horizon without time": (
        lambda: search(fit={"horizon": 7}),
        "Set correlation='time', which assumes nothing",
    ),
    "a chain with dates": (
        lambda: search(correlation=[[0.9, 0.1], [0.1, 0.9]], fit={"times": DAYS}),
        "Sort the records by time and leave times= out, or set correlation='time',",
    ),
    "time in a list": (
        lambda: search(correlation=["time"]),
        "Set correlation='time' alone. In a list, use MarkovChain.from_autocorrelation_time(5) if",
    ),
    "a class for a model": (
        lambda: search(correlation=TimeOrdered),
        "correlation must be an instance, got the class TimeOrdered.",
    ),
    "forecasts of other dates": (
        lambda: tried_on_forecasts(pd.Series(Y[:50], DAYS[:50])),
        "forecast has no value for 50 of the 50 holdout dates, such as 2026-05-31.",
    ),
    "dates for records without": (
        lambda: tried_on_forecasts(pd.Series(Y[:50], DAYS[:50]), index=range(200)),
        "forecast has dates, and the holdout records have none.",
    ),
}
MISTAKES |= WRONG_ORDERS | WRONG_KINDS


# few groups are quick
@pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.UninformativeIntervalWarning")
@pytest.mark.filterwarnings("ignore:Scoring failed:UserWarning")
@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_message_of_a_mistake_names_the_fix_before_any_fit(mistake, tmp_path):
    call, sentence = MISTAKES[mistake]
    with pytest.raises(Exception) as error:  # noqa: PT011 (the sentence is the point)
        call(tmp_path) if call.__code__.co_argcount else call()
    assert type(error.value) is not AssertionError
    assert sentence in str(error.value)


@pytest.mark.parametrize("scoring", ["acuracy", ["accuracy", "acuracy"]], ids=str)
def test_a_misspelled_metric_raises_with_a_suggestion(scoring):
    with pytest.raises(ValueError, match="Did you mean 'accuracy'") as error:
        search(scoring=scoring, refit=False)
    assert "r2" not in str(error.value)


def test_a_name_like_no_metric_raises_with_the_available_names():
    with pytest.raises(ValueError, match="is not the name of a metric") as error:
        search(scoring="ndcg")
    assert ", ".join(available_metrics()) in str(error.value)


@pytest.mark.parametrize("n", [5, 8])
def test_folds_that_tiny_data_cannot_be_divided_into(n):
    X = np.arange(2.0 * n).reshape(n, 2)
    y = np.arange(n) % 2
    with (
        pytest.warns(SklearnBdpWarning),
        pytest.raises(ValueError, match=r"training records.*cv=2"),
    ):
        search(X, y)


@pytest.mark.parametrize("frame", [False, True])
def test_columns_without_finite_numbers_are_named(frame):
    broken = X.copy()
    broken[3, 2] = np.inf
    broken[7, 5] = np.nan
    with pytest.raises(ValueError, match="Input X contains"):
        search(pd.DataFrame(broken).add_prefix("x") if frame else broken)


@pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.UninformativeIntervalWarning")
def test_the_warning_of_a_default_metric_states_its_clip():
    options = {"grid": {"alpha": [1.0]}, "random_state": 0, "correlation": "time"}
    with pytest.warns(DefaultMetricWarning, match="Each error counts at most a limit"):
        fitted = search(y=3.0 * X[:, 0], estimator=Ridge(), **options)
    assert "clipped at" in str(fitted.certificate_)


def test_few_groups_get_one_warning_with_one_set_of_numbers():
    with pytest.warns(UninformativeIntervalWarning) as caught:
        search(
            estimator=LogisticRegression(),
            correlation="groups",
            random_state=0,
            fit={"groups": np.arange(200) // 4},
        )
    (warning,) = caught
    assert "The holdout of 12 groups (patients, users, sites …) is too small" in str(
        warning.message
    )
    assert "If you search once, use nested cross-validation for the score" in str(warning.message)


def test_the_warning_of_a_vacuous_guarantee_states_the_required_records():
    with pytest.warns(
        UninformativeIntervalWarning, match="About 60,106 holdout records are needed for ±0.1"
    ):
        certify(50, n_queries=1000, budget=10)
