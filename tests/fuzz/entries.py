"""The public entry points, with valid arguments and the allowed values of each parameter."""

import functools
import sys
from pathlib import Path

import numpy as np
import scipy.sparse as sp

sys.path.insert(0, str(Path(__file__).parent))
from bad_input import (
    SCALARS,
    Entry,
    anything,
    boolean,
    either,
    exactly,
    finite_array,
    integer,
    nothing,
    option,
    real,
    unit_array,
)
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from sklearn_bdp import (
    HoldoutConfig,
    HoldoutScorer,
    ReusableHoldout,
    ReusableHoldoutSearchCV,
    certify,
    inspection,
    plan_holdout,
    plan_search,
)
from sklearn_bdp import correlation as models
from sklearn_bdp.feature_selection import HoldoutCorrelationFilter, HoldoutFeatureSelector
from sklearn_bdp.holdout import ExpertSettings
from sklearn_bdp.mechanisms import Thresholdout
from sklearn_bdp.mechanisms.thresholdout import thresholdout_epsilon
from sklearn_bdp.metrics import PerRecordScore, get_metric
from sklearn_bdp.model_selection import HalvingReusableHoldoutSearchCV

NONE = exactly(None)
PROBABILITY = real(0, 1, open_low=True, open_high=True)
POSITIVE = real(0, open_low=True)
OPEN_HALF = real(0, 0.5, open_low=True, open_high=True)
COUNT = integer(1)
X, y = make_classification(120, 5, random_state=0)
X_TRAIN = X[:60]
Y_TRAIN = y[:60]
X_HELD = X[60:]
Y_HELD = y[60:]
CHAIN = [[0.7, 0.3], [0.3, 0.7]]


def is_correlation(value):
    """Arrays that are stochastic matrices, graphs, models, None; the rest is wrong."""
    if value is None:
        return True
    if isinstance(value, np.ndarray | list | tuple) or sp.issparse(value) or value == "groups":
        return None
    return False


def bad_tables():
    """Return tables that are no data for a model, and those of which it depends."""
    masked = np.ma.array(X_HELD, mask=np.arange(X_HELD.size).reshape(X_HELD.shape) % 7 == 0)
    return [
        X_HELD.astype(complex) + 1j,
        masked,
        X_HELD[:0],
        X_HELD[:30],
        X_HELD.astype("timedelta64[D]"),
        X_HELD.astype("datetime64[D]"),
        "records",
        None,
        3,
        {"a": 1},
        object(),
    ]


def bad_targets():
    """Return targets that no score is defined for."""
    with_nan = np.where(np.arange(60) % 2, np.nan, Y_HELD)
    return [
        with_nan,
        Y_HELD.astype(complex) + 1j,
        np.ma.array(Y_HELD, mask=np.arange(60) % 7 == 0),
        Y_HELD[:30],
        Y_HELD[:0],
        np.where(np.arange(60) % 5, Y_HELD.astype(float), np.inf),
        Y_HELD.astype("timedelta64[D]"),
        np.array([None] * 60),
        "labels",
        None,
        3,
        object(),
    ]


def bad_scores():
    """Return per-record scores that are none."""
    valid_scores = np.tile([0.0, 1.0], 30)[None]
    return [
        *SCALARS,
        valid_scores.astype(complex),
        valid_scores + 0.5j,
        np.ma.array(valid_scores, mask=valid_scores > 0),
        valid_scores.astype("timedelta64[D]"),
        valid_scores.astype("datetime64[D]"),
        valid_scores[:, :30],
        valid_scores.T,
        valid_scores * 2,
        valid_scores - 1e-9,
        np.where(valid_scores > 0, np.nan, valid_scores),
        valid_scores.astype(str),
        [[0.5] * 60, [0.5] * 59],
        sp.csr_array(valid_scores),
        np.zeros((1, 60, 1)),
        [[b"1"] * 60],
    ]


HOLDOUT = {
    "correlation": is_correlation,
    "confidence_level": real(0.5, 1, open_high=True),
    "epsilon": either(POSITIVE, option("auto")),
    "calibration": option("tight", "zhao2017"),
    "budget": either(NONE, COUNT),
    "expert": NONE,
    "on_exhausted": option("raise", "nan", "cv"),
}


def memory_holdout(**options):
    """Return a small holdout."""
    return ReusableHoldout(X_HELD, Y_HELD, random_state=0, **options)


@functools.cache
def _scorer_parts():
    model = LogisticRegression().fit(X_TRAIN, Y_TRAIN)
    return HoldoutScorer(memory_holdout()), model


def holdout_entries():
    """Return the holdout, its questions and its scorer."""
    hits = np.tile([0.0, 1.0], 30)[None]
    model = LogisticRegression().fit(X_TRAIN, Y_TRAIN)
    per_record = unit_array((1, 60))
    yield Entry(
        "ReusableHoldout",
        lambda **k: ReusableHoldout(**k).answer([0.5], hits),
        {"X": X_HELD, "y": Y_HELD},
        {
            **HOLDOUT,
            "random_state": either(NONE, integer(0)),
            "gap": either(NONE, anything),
            "ledger": either(NONE, anything),
            "X": nothing,
            "y": nothing,
        },
        {"X": bad_tables(), "y": bad_targets(), "ledger": [0, 1.5, "", b"", [], Odd_, len]},
        {"X": ("holdout", "records"), "y": ("targets", "labels")},
    )
    yield Entry(
        "ReusableHoldout.answer",
        lambda **k: memory_holdout().answer(**k),
        {"cv_scores": [0.5], "per_record_scores": hits},
        {
            "cv_scores": unit_array((1,)),
            "per_record_scores": per_record,
            "n_train": either(NONE, real(1), anything),
            "keys": either(NONE, anything),
            "relaxed_to": either(NONE, real(0, 1), anything),
        },
        {"per_record_scores": bad_scores()},
        {"per_record_scores": ("batch",), "cv_scores": ("batch",), "keys": ("key",)},
    )
    yield Entry(
        "ReusableHoldout.score",
        lambda **k: memory_holdout().score(**k),
        {"estimator": model, "cv_score": 0.9},
        {
            "estimator": nothing,
            "cv_score": real(0, 1),
            "scoring": either(NONE, option("accuracy")),
            "n_train": either(NONE, real(1)),
            "key": either(NONE, anything),
        },
        {},
        {"estimator": ("fit", "predict", "accuracy"), "key": ("keys",)},
    )
    yield Entry("HoldoutScorer", HoldoutScorer, {"holdout": memory_holdout()}, {"holdout": nothing})
    yield Entry(
        "HoldoutScorer.__call__",
        lambda X, y, sample_weight=None, estimator=None: HoldoutScorer(memory_holdout())(
            model if estimator is None else estimator, X, y, sample_weight
        ),
        {"X": X_TRAIN, "y": Y_TRAIN},
        {"X": nothing, "y": nothing, "sample_weight": NONE, "estimator": anything},
        {"X": [table for table in bad_tables() if table is not None], "y": bad_targets()},
        {
            "X": ("records", "features", "columns", "samples"),
            "y": ("targets", "labels", "samples", "class"),
            "estimator": ("fit", "predict", "accuracy"),
        },
    )


def search_entries():
    """Return searches and selectors; these calls are slower, so that fewer values are tried."""
    some_scalars = SCALARS[::2]
    tree = DecisionTreeClassifier(max_depth=2, random_state=0)
    fixed_arguments = {"random_state": 0, "cv": 2}
    shared_rules = {
        "correlation": HOLDOUT["correlation"],
        "holdout": either(NONE, PROBABILITY),
        "error_score": anything,
        "cv": either(NONE, integer(2), anything),
        "scoring": either(NONE, option("accuracy"), anything),
        "refit": either(boolean, option("best", "one_se", "best_lower"), anything),
        "verify": either(COUNT, option("all", "auto")),
        "n_iter": either(NONE, COUNT),
        "verbose": anything,
    }
    shared_rules["refit"] = either(boolean, option("one_se", "best_lower"), callable_or_none)
    pools = dict.fromkeys(shared_rules, some_scalars)
    yield Entry(
        "HoldoutConfig",
        lambda **k: HoldoutConfig(**k),
        {},
        {
            **{name: rule for name, rule in HOLDOUT.items() if name != "correlation"},
            "test_size": PROBABILITY,
            "allow_shared_rows": boolean,
        },
    )
    yield Entry(
        "ExpertSettings",
        lambda **k: ExpertSettings(**k),
        {},
        {
            "n_queries": either(NONE, COUNT),
            "threshold": either(real(0, 1), option("auto")),
            "resolution": either(real(1e-6, 1), option("auto")),
            "ledger_timeout": real(0, 1e6),
        },
    )
    for name, search_class in (
        ("ReusableHoldoutSearchCV", ReusableHoldoutSearchCV),
        ("HalvingReusableHoldoutSearchCV", HalvingReusableHoldoutSearchCV),
    ):
        rules = dict(shared_rules)
        if search_class is HalvingReusableHoldoutSearchCV:
            rules = {
                # As in scikit-learn, which takes huge integers, and True for one.
                "factor": either(real(1, open_low=True), integer(2)),
                "resource": option("n_samples"),
                "max_resources": either(integer(8, 60), option("auto")),
                "min_resources": either(integer(1, 60), option("exhaust", "smallest"), boolean),
                "aggressive_elimination": boolean,
            }
        yield Entry(
            f"{name}.fit",
            lambda search_class=search_class, **k: search_class(
                tree, {"min_samples_leaf": [1, 5]}, **k
            ).fit(X, y),
            fixed_arguments,
            rules,
            pools,
            {
                "n_iter": ("grid", "param_grid", "candidates"),
                "scoring": ("metric", "score", "scorer"),
                "cv": ("n_splits", "folds"),
                "correlation": ("groups", "graph", "transition", "matrix"),
                "holdout": ("splitter",),
            },
        )
    yield Entry(
        "ReusableHoldoutSearchCV.fit data",
        lambda X, y: ReusableHoldoutSearchCV(
            tree, {"min_samples_leaf": [1]}, **fixed_arguments
        ).fit(X, y),
        {"X": X_HELD, "y": Y_HELD},
        {"X": nothing, "y": nothing},
        {"X": bad_tables(), "y": bad_targets()},
        {
            "X": ("records", "features", "samples", "Complex data", "Expected"),
            "y": ("target", "targets", "labels", "samples", "label"),
        },
    )
    rules = {
        "n_features_to_select": either(integer(1, 5), option("auto"), anything),
        "tol": either(real(), option("auto"), anything),
        "verify": either(COUNT, option("all")),
        "on_empty": option("baseline", "keep_best"),
        "holdout": either(NONE, PROBABILITY),
    }
    yield Entry(
        "HoldoutFeatureSelector.fit",
        lambda **k: HoldoutFeatureSelector(tree, **{"on_empty": "keep_best", **k}).fit(X, y),
        fixed_arguments,
        rules,
        dict.fromkeys(rules, SCALARS[::4]),
    )
    rules = {
        "alpha": PROBABILITY,
        "clip": POSITIVE,
        "on_empty": option("raise", "keep_best"),
        "holdout": either(NONE, PROBABILITY),
    }
    yield Entry(
        "HoldoutCorrelationFilter.fit",
        lambda **k: HoldoutCorrelationFilter(**{"on_empty": "keep_best", **k}).fit(X, y),
        {"random_state": 0},
        rules,
        dict.fromkeys(rules, some_scalars),
    )


def callable_or_none(value):
    """A callable rule, whose result is its own business."""
    return None if callable(value) else False


class _Odd:
    pass


Odd_ = _Odd()


def planning_entries():
    """Return planners and certificates."""
    rules = {
        "tau": OPEN_HALF,
        "n_queries": COUNT,
        "budget": COUNT,
        "beta": PROBABILITY,
        "c": either(NONE, real(0, 1)),
        "correlation": is_correlation,
    }
    aliases = {
        "correlation": ("groups", "graph", "transition", "matrix", "models"),
        "budget": ("n_queries",),
        "n_queries": ("budget",),
        "n": ("holdout", "records"),
    }
    queries = {"n_queries": 20, "budget": 2}
    yield Entry(
        "certify",
        certify,
        {"n": 2_000, **queries},
        {
            **{parameter: rule for parameter, rule in rules.items() if parameter != "tau"},
            "n": integer(1),
            "epsilon": either(NONE, POSITIVE),
            "mechanism": either(NONE, anything),
            "route": option("best", "transcript", "bdp"),
        },
        {},
        aliases,
    )
    yield Entry(
        "plan_holdout",
        plan_holdout,
        {"tau": 0.1, **queries},
        {**rules, "route": option("best", "transcript", "bdp")},
        {},
        aliases,
    )
    yield Entry(
        "plan_search",
        plan_search,
        {"half_width": 0.1, "n_candidates": 5, "n_searches": 2},
        {
            "half_width": OPEN_HALF,
            "n_candidates": COUNT,
            "n_searches": COUNT,
            "score": real(0, 1),
            "n_corrections": integer(0),
            "scoring": either(NONE, option("roc_auc", "accuracy")),
            "confidence_level": HOLDOUT["confidence_level"],
        },
        {},
        {**aliases, "n_corrections": ("n_searches", "n_candidates")},
    )


def mechanism_entries():
    """Return Thresholdout and the cost of it."""
    scales = {"threshold_scale": 0.02, "query_scale": 0.02, "answer_scale": 0.02}
    rules = dict.fromkeys(scales, real(0))
    valid = {"threshold": 0.05, **scales}
    yield Entry(
        "Thresholdout",
        lambda **k: Thresholdout(**k).answer([0.5, 0.6], [0.5, 0.9]),
        {**valid, "random_state": 0},
        {
            **rules,
            "threshold": real(0),
            "budget": either(NONE, COUNT),
            "refresh": boolean,
            "resolution": real(0, 1),
            "noise": option("laplace", "gaussian"),
            "random_state": either(NONE, integer(0), anything),
        },
    )
    array = finite_array(1)
    yield Entry(
        "Thresholdout.answer",
        lambda **k: Thresholdout(**valid, random_state=0).answer(**k),
        {"cv_scores": [0.5, 0.6], "holdout_values": [0.5, 0.9]},
        {"cv_scores": array, "holdout_values": array, "thresholds": either(NONE, array, real(0))},
        {},
        dict.fromkeys(
            ("cv_scores", "holdout_values", "thresholds"),
            ("cv_scores", "holdout_values", "thresholds"),
        ),
    )
    yield Entry(
        "thresholdout_epsilon",
        thresholdout_epsilon,
        {"sensitivity": 0.001, "budget": 2, **scales},
        {
            "sensitivity": POSITIVE,
            "budget": integer(0),
            "refresh": boolean,
            "n_thresholds": either(NONE, integer(0)),
        },
    )
    for name, valid_arguments, rules in (
        (
            "zhao2017",
            {"tau": 0.1, "beta": 0.05, "n_queries": 10, "budget": 2},
            {
                "tau": real(0, 1, open_low=True),
                "beta": PROBABILITY,
                "n_queries": COUNT,
                "budget": COUNT,
                "c": either(NONE, real(0, 1)),
            },
        ),
        (
            "dwork2017",
            {"tau": 0.1, "beta": 0.05, "n_queries": 10, "budget": 2},
            {
                "tau": real(0, 1, open_low=True),
                "beta": PROBABILITY,
                "n_queries": COUNT,
                "budget": COUNT,
            },
        ),
        ("dwork2017_practical", {}, {"threshold": real(0), "sigma": POSITIVE}),
    ):
        yield Entry(f"Thresholdout.{name}", getattr(Thresholdout, name), valid_arguments, rules)


def correlation_entries():
    """Return correlation models and the calls that they answer."""
    chain = models.MarkovChain(CHAIN)
    groups = models.Groups([0, 0, 1, 1, 2])
    states = [0, 1, 1, 0, 1, 0, 0, 1, 1, 1, 0, 0] * 5
    any_matrix = anything
    aliases = {
        "graph": ("adjacency", "matrix", "networkx", "edges"),
        "correlation": ("groups", "graph", "transition", "matrix", "models"),
        "model": ("correlation",),
        "influence": ("edges", "graph"),
    }
    matrix_or_error = either(matrix_like)
    yield Entry(
        "MarkovChain",
        models.MarkovChain,
        {"transition": CHAIN},
        {"transition": matrix_or_error, "observed": boolean, "start": option("stationary", "any")},
    )
    yield Entry(
        "MarkovChain.from_states",
        models.MarkovChain.from_states,
        {"states": states},
        {"states": any_matrix, "n_states": either(NONE, integer(2))},
    )
    yield Entry("Groups", models.Groups, {}, {"groups": sequence_like}, {}, {"groups": ("label",)})
    yield Entry(
        "DependencyGraph", models.DependencyGraph, {}, {"graph": matrix_or_error}, {}, aliases
    )
    yield Entry(
        "MarkovNetwork",
        models.MarkovNetwork,
        {"graph": sp.csr_array(np.eye(3, k=1) + np.eye(3, k=-1))},
        {
            "graph": matrix_or_error,
            "influence": either(NONE, POSITIVE, exactly(0, 0.0, -0.0), anything),
        },
        {},
        aliases,
    )
    yield Entry(
        "check_correlation",
        models.check_correlation,
        {},
        {"correlation": is_correlation},
        {},
        aliases,
    )
    for name, model, n in (
        ("MarkovChain", chain, 50),
        ("Groups", groups, 5),
        ("Independent", models.Independent(), 50),
    ):
        valid_n = integer(1) if n == 50 else integer(5, 5)
        yield Entry(
            f"{name}.bdp_epsilon",
            model.bdp_epsilon,
            {"dp_epsilon": 0.1, "n": n},
            {"dp_epsilon": real(0), "n": valid_n, "method": option("tight")},
            {},
            {"n": ("records", "groups")},
        )
        yield Entry(
            f"{name}.dp_epsilon",
            model.dp_epsilon,
            {"bdp_epsilon": 0.1, "n": n},
            {"bdp_epsilon": real(0), "n": valid_n, "method": option("tight")},
            {},
            {"n": ("records", "groups")},
        )
        yield Entry(
            f"{name}.log_tail",
            model.log_tail,
            {"alpha": 0.1, "n": n},
            {
                "alpha": either(real(0), numbers_of_any_shape),
                "n": valid_n,
                "sensitivity": either(NONE, POSITIVE),
            },
            {},
            {"n": ("records", "groups")},
        )
        yield Entry(
            f"{name}.effective_n",
            model.effective_n,
            {"n": n},
            {"n": valid_n},
            {},
            {"n": ("records", "groups")},
        )
        yield Entry(
            f"{name}.split",
            model.split,
            {"n": n, "fraction": 0.4},
            {"n": valid_n, "fraction": PROBABILITY},
            {},
            {"n": ("records", "groups")},
        )


def numbers_of_any_shape(value):
    """An array of numbers of any shape, empty ones included."""
    if isinstance(value, np.ma.MaskedArray):
        return False
    return None if isinstance(value, np.ndarray | list | tuple | range) else False


def matrix_like(value):
    """A matrix, which the package may judge; any other value is wrong."""
    if isinstance(value, np.ma.MaskedArray) or value is np.ma.masked:
        return False
    if isinstance(value, np.ndarray | list | tuple | dict) or sp.issparse(value):
        return None
    return False


def sequence_like(value):
    """A sequence of labels; any other value is wrong."""
    if isinstance(value, np.ma.MaskedArray) or value is np.ma.masked:
        return False
    return None if hasattr(value, "__iter__") and not isinstance(value, str | bytes) else False


def metric_entries():
    """Return metrics."""
    yield Entry(
        "get_metric",
        lambda **k: get_metric(estimator=LogisticRegression(), y=Y_HELD, **k),
        {"scoring": "accuracy"},
        {"scoring": either(NONE, option("accuracy"), anything_callable)},
        {},
        {"scoring": ("metric", "score", "scorer")},
    )
    yield Entry(
        "get_metric bounds",
        lambda bounds: get_metric("neg_mean_absolute_error", bounds=bounds),
        {},
        {"bounds": either(NONE, exactly((1, 2)), range_like)},
    )
    yield Entry(
        "get_metric clip",
        lambda clip: get_metric("neg_log_loss", clip=clip),
        {},
        {"clip": either(NONE, PROBABILITY)},
    )
    yield Entry("get_metric k", lambda k: get_metric("top_k_accuracy", k=k), {}, {"k": COUNT})
    yield Entry(
        "PerRecordScore",
        PerRecordScore,
        {"function": lambda *a: 0.5},
        {
            "function": anything_callable,
            "lower": real(high=1, open_high=True),
            "upper": real(0, open_low=True),
            "greater_is_better": boolean,
            "name": either(NONE, anything),
        },
        {},
        {"lower": ("upper",), "upper": ("lower",)},
    )


def anything_callable(value):
    """A callable of any kind."""
    return None if callable(value) or isinstance(value, type) else False


def range_like(value):
    """A pair of increasing numbers in any container."""
    return None if isinstance(value, range | np.ndarray | list) else False


def inspection_entries():
    """Return the functions that make displays."""
    for name, make_display, valid, rules in (
        (
            "HoldoutSearchDisplay.from_search",
            inspection.HoldoutSearchDisplay.from_search,
            {},
            {"search": nothing},
        ),
        (
            "BudgetDisplay.from_holdout",
            inspection.BudgetDisplay.from_holdout,
            {},
            {"holdout": nothing},
        ),
    ):
        yield Entry(
            name,
            make_display,
            valid,
            rules,
            {},
            {
                "correlation": ("groups", "graph", "transition", "matrix", "models"),
                "correlations": ("correlation",),
                "budget": ("n_queries",),
                "n_queries": ("budget",),
            },
        )


def dict_like(value):
    """A dict of models."""
    return None if isinstance(value, dict) else False


def all_entries():
    """Return every entry point, fast ones first."""
    entry_functions = (
        planning_entries,
        mechanism_entries,
        correlation_entries,
        metric_entries,
        inspection_entries,
        holdout_entries,
        search_entries,
    )
    return [entry for make_entries in entry_functions for entry in make_entries()]
