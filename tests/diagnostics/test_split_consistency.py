"""Order, groups and classes on both sides of a split.

Groups on both sides are reported once, and in the certificate.
"""

import functools
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from sklearn_bdp import ReusableHoldout, ReusableHoldoutSearchCV
from sklearn_bdp.correlation import Groups
from sklearn_bdp.correlation.components import count_shared_labels
from sklearn_bdp.feature_selection import HoldoutCorrelationFilter, HoldoutFeatureSelector
from tests.facts import refused, warned

RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 6))
y = (X[:, 0] + RNG.normal(size=400) > 0).astype(int)
DRAWN = RNG.integers(0, 400, 800)
GRID = {"max_depth": [1, 3]}


def search(**params):
    return ReusableHoldoutSearchCV(
        DecisionTreeClassifier(random_state=0), GRID, random_state=0, **params
    )


def matching_warnings(phrase, fit, *args, **kwargs):
    """Return the warnings of a fit that contain a phrase."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit(*args, **kwargs)
    return [str(warning.message) for warning in caught if phrase in str(warning.message)]


# -- order of targets, groups and weights --------------------------------------------------------

FRAME = pd.DataFrame(X, index=np.arange(400) + 1000).add_prefix("c")
LABELS = pd.Series(y, index=FRAME.index)
GROUPS = pd.Series(np.repeat(np.arange(100), 4), index=FRAME.index)
PERMUTATION = np.random.default_rng(1).permutation(400)


@pytest.mark.parametrize("name", ["y", "groups", "sample_weight"])
def test_arguments_indexed_in_another_order_are_rejected(name):
    fit_arguments = {"y": LABELS, "groups": GROUPS, "sample_weight": LABELS + 1.0}
    fit_arguments[name] = fit_arguments[name].iloc[PERMUTATION]
    with refused(ValueError, f"{name}.loc[X.index]"):
        search(correlation="groups").fit(FRAME, **fit_arguments)


@pytest.mark.parametrize(
    "estimator", [HoldoutFeatureSelector(LogisticRegression()), HoldoutCorrelationFilter()]
)
def test_selectors_reject_targets_in_another_order(estimator):
    with refused(ValueError, "y.loc[X.index]"):
        estimator.fit(FRAME, LABELS.iloc[PERMUTATION])
    with refused(ValueError, "y_val.loc[X_val.index]"):
        estimator.fit(X, y, X_val=FRAME, y_val=LABELS.iloc[PERMUTATION])


def test_a_holdout_rejects_targets_and_groups_in_another_order():
    with refused(ValueError, "y.loc[X.index]"):
        ReusableHoldout(FRAME, LABELS.iloc[PERMUTATION])
    with refused(ValueError, "correlation.loc[X.index]"):
        ReusableHoldout(FRAME, LABELS, correlation=Groups(GROUPS.iloc[PERMUTATION]))
    with refused(ValueError, "correlation.loc[X.index]"):
        search(correlation=Groups(GROUPS.iloc[PERMUTATION])).fit(FRAME, LABELS)


@pytest.mark.parametrize(
    ("name", "facts"), [("groups", ["groups=X['pid']"]), ("sample_weight", [3, 400])]
)
def test_column_names_are_rejected_as_columns(name, facts):
    fit_arguments = {"y": LABELS, "groups": GROUPS, name: "pid"}
    with refused(ValueError, name, *facts):
        search(correlation="groups").fit(FRAME, **fit_arguments)


def test_a_column_that_was_added_belongs_into_the_pipeline():
    holdout_search = search(holdout=ReusableHoldout(FRAME[:100], LABELS[:100]))
    extended_frame = FRAME[100:].assign(ratio=1.0)
    for records in (extended_frame, extended_frame.to_numpy()):
        with refused(ValueError, "FunctionTransformer"):
            holdout_search.fit(records, LABELS[100:].to_numpy())
    selector = HoldoutFeatureSelector(LogisticRegression(), holdout=holdout_search.holdout)
    with refused(ValueError, "FunctionTransformer"):
        selector.fit(extended_frame, LABELS[100:])
    with refused(ValueError, "X[holdout.X.columns]"):
        holdout_search.fit(FRAME[100:][FRAME.columns[::-1]], LABELS[100:])


# few records are quick
@pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.UninformativeIntervalWarning")
def test_rows_are_matched_by_position_if_indices_do_not_contradict():
    """An index of its own, none, or the same one in another type."""
    other_labels = (
        LABELS.set_axis(np.arange(400)),
        LABELS.to_numpy(),
        LABELS.set_axis(map(str, range(400))),
    )
    for labels in (*other_labels, LABELS.set_axis(FRAME.index.astype(float)), LABELS.to_frame()):
        ReusableHoldout(FRAME, labels, correlation=Groups(GROUPS.set_axis(np.arange(400))))
    dated_labels = LABELS.set_axis(pd.date_range("2020", periods=400))
    ReusableHoldout(FRAME, dated_labels)
    ReusableHoldout(
        FRAME.iloc[PERMUTATION],
        LABELS.iloc[PERMUTATION],
        correlation=Groups(GROUPS.iloc[PERMUTATION]),
    )
    search(correlation="groups").fit(
        FRAME.iloc[PERMUTATION], LABELS.iloc[PERMUTATION], groups=GROUPS.iloc[PERMUTATION]
    )
    search(holdout=None).set_params(cv=2).fit(FRAME, LABELS.iloc[PERMUTATION])


# -- labels of groups on both sides ---------------------------------------------------------------


def text_labels(groups):
    return np.array([f"p{group}" for group in groups])


PATIENTS = np.repeat(np.arange(100), 4)
LAST_VISITS = np.arange(400) % 4 == 3  # the last visit of each patient


# the search and the scorer have a holdout each
@pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.SecondHoldoutWarning")
@pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.UninformativeIntervalWarning")
def test_groups_on_both_sides_of_a_split_are_reported():
    labels = text_labels(PATIENTS)
    holdout = ReusableHoldout(
        X[LAST_VISITS], y[LAST_VISITS], correlation=Groups(labels[LAST_VISITS]), random_state=0
    )
    holdout_search = search(holdout=holdout)
    messages = matching_warnings(
        "same labels",
        holdout_search.fit,
        X[~LAST_VISITS],
        y[~LAST_VISITS],
        groups=labels[~LAST_VISITS],
    )
    assert len(messages) == 1
    assert (
        sum("given anew" in assumption for assumption in holdout_search.certificate_.assumptions)
        == 1
    )
    unpickled_groups = pickle.loads(pickle.dumps(Groups(labels[LAST_VISITS])))
    holdout = ReusableHoldout(
        X[LAST_VISITS], y[LAST_VISITS], correlation=unpickled_groups, random_state=0
    )
    holdout_search = search(holdout=holdout, correlation=Groups(labels[~LAST_VISITS]))
    assert (
        len(matching_warnings("same labels", holdout_search.fit, X[~LAST_VISITS], y[~LAST_VISITS]))
        == 1
    )
    declared_search = search(correlation=Groups(labels[LAST_VISITS]))
    validation = {"X_val": X[LAST_VISITS], "y_val": y[LAST_VISITS], "groups": labels[~LAST_VISITS]}
    assert (
        len(
            matching_warnings(
                "same labels", declared_search.fit, X[~LAST_VISITS], y[~LAST_VISITS], **validation
            )
        )
        == 1
    )


# few records, and a holdout in each round
@pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.UninformativeIntervalWarning")
@pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.SecondHoldoutWarning")
def test_disjoint_groups_and_integer_labels_are_not_reported():
    in_holdout = PATIENTS % 4 == 0
    for labels in (PATIENTS, text_labels(PATIENTS)):
        holdout = ReusableHoldout(
            X[in_holdout], y[in_holdout], correlation=Groups(labels[in_holdout]), random_state=0
        )
        holdout_search = search(holdout=holdout)
        assert not matching_warnings(
            "same labels",
            holdout_search.fit,
            X[~in_holdout],
            y[~in_holdout],
            groups=labels[~in_holdout],
        )
    holdout_groups = np.repeat(np.arange(25), 4)
    training_groups = np.repeat(np.arange(1, 76), 4)
    holdout = ReusableHoldout(
        X[in_holdout], y[in_holdout], correlation=Groups(holdout_groups), random_state=0
    )
    holdout_search = search(holdout=holdout)
    assert not matching_warnings(
        "same labels", holdout_search.fit, X[~in_holdout], y[~in_holdout], groups=training_groups
    )


# few records are quick
@pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.UninformativeIntervalWarning")
def test_a_search_reuses_the_holdout_and_groups_of_another_search():
    first_search = search(correlation="groups").fit(X, y, groups=PATIENTS)
    train = first_search.train_indices_
    second_search = search(holdout=first_search.holdout_)
    assert not matching_warnings(
        "same labels", second_search.fit, X[train], y[train], groups=PATIENTS[train]
    )
    fit_rows = np.r_[train, first_search.holdout_indices_[:0]]
    moved_groups = PATIENTS[fit_rows].copy()
    moved_groups[:40] = PATIENTS[first_search.holdout_indices_][:40]
    assert (
        len(
            matching_warnings(
                "same labels", second_search.fit, X[train], y[train], groups=moved_groups
            )
        )
        == 1
    )


def test_equality_of_group_models_ignores_labels():
    assert Groups(text_labels(PATIENTS)) == Groups(PATIENTS + 7) == Groups(list(map(str, PATIENTS)))
    assert len(pickle.dumps(Groups(text_labels(PATIENTS)))) < 8 * (400 + 100 + 100) + 1000
    assert count_shared_labels(Groups(PATIENTS + 7), Groups(PATIENTS + 7.0)) == (100, 100)
    assert count_shared_labels(Groups(PATIENTS + 7), Groups(list(map(str, PATIENTS + 7))))[0] == 100
    assert count_shared_labels(Groups(PATIENTS), Groups(PATIENTS)) == (0, 0)
    assert (
        count_shared_labels(Groups(PATIENTS).subset(np.arange(40, 80)), Groups(PATIENTS))[0] == 10
    )


# -- classes --------------------------------------------------------------------------------------


@pytest.mark.parametrize("recode", [lambda y: y + 1, lambda y: 2 * y - 1, lambda y: 2.0 * y - 1.0])
@pytest.mark.parametrize("has_validation_set", [True, False])
def test_labels_coded_differently_are_reported(recode, has_validation_set):
    train_rows = slice(0, 300)
    holdout_rows = slice(300, None)
    if has_validation_set:
        fit = functools.partial(search().fit, X_val=X[holdout_rows], y_val=y[holdout_rows])
    else:
        holdout = ReusableHoldout(X[holdout_rows], y[holdout_rows], random_state=0)
        fit = search(holdout=holdout).fit
    messages = matching_warnings("lacks a class", fit, X[train_rows], recode(y[train_rows]))
    assert len(messages) == 1


def test_a_rare_class_may_be_missing_from_the_holdout_a_common_one_not():
    labels = y.copy()
    labels[:3] = 2  # rare
    validation = {"X_val": X[300:], "y_val": y[300:]}
    assert not matching_warnings("lacks a class", search().fit, X[:300], labels[:300], **validation)
    labels[:100] = 2
    assert (
        len(matching_warnings("lacks a class", search().fit, X[:300], labels[:300], **validation))
        == 1
    )


@pytest.mark.parametrize("recode", [lambda y: y.astype(bool), lambda y: y.astype(float), list])
def test_equal_classes_of_another_type_are_not_reported(recode):
    validation = {"X_val": X[300:], "y_val": y[300:]}
    assert not matching_warnings(
        "lacks a class", search().fit, X[:300], recode(y[:300]), **validation
    )
    assert not matching_warnings("lacks a class", search().fit, X, recode(y))


def test_an_integer_index_in_another_order_gives_a_warning():
    """Frames made of arrays number their rows: positions may be right, so this is not an error."""
    frame = pd.DataFrame(X).add_prefix("c")
    labels = pd.Series(y, index=np.random.default_rng(0).permutation(len(y)))
    with warned(UserWarning, "y.loc[X.index]"):
        search().fit(frame, labels)


# -- labels that are none -------------------------------------------------------------------------


def labels_with(cell, count):
    """Return text labels of which some are something else."""
    labels = np.where(y > 0, "yes", "no").astype(object)
    labels[:count] = [cell] * count
    return labels


MISSING_VALUES = {
    "None": None,
    "nan": np.nan,
    "single": np.float32("nan"),
    "NA": pd.NA,
    "NaT": pd.NaT,
}


class NeverFitted(DecisionTreeClassifier):
    def fit(self, X, y):
        raise AssertionError("fitted")


@pytest.mark.parametrize(
    "container", [np.asarray, pd.Series, list], ids=["array", "series", "list"]
)
@pytest.mark.parametrize("name", MISSING_VALUES)
def test_missing_labels_are_counted_before_anything_is_fitted(name, container):
    labels = container(labels_with(MISSING_VALUES[name], 2))
    estimators = search(), HoldoutFeatureSelector(NeverFitted(), random_state=0)
    for estimator in (
        estimators[0].set_params(estimator=NeverFitted(), error_score="raise"),
        estimators[1],
    ):
        with refused(ValueError, "y", "2"):
            estimator.fit(X, labels)
    with refused(ValueError, "y", "2"):
        ReusableHoldout(X, labels)


@pytest.mark.parametrize("dtype", ["float", "Float64", "Int64", "boolean", "category", "object"])
@pytest.mark.parametrize(
    "fit",
    [
        search().set_params(estimator=NeverFitted(), error_score="raise").fit,
        HoldoutFeatureSelector(NeverFitted(), random_state=0).fit,
        HoldoutCorrelationFilter(random_state=0).fit,
        ReusableHoldout,
    ],
    ids=["search", "selector", "filter", "holdout"],
)
def test_missing_targets_of_every_type_get_one_message(fit, dtype):
    targets = pd.Series(y > 0, dtype="boolean").mask(np.arange(len(y)) < 2)
    with refused(ValueError, "y", "2") as caught:
        fit(X, targets.astype("Int64").astype(dtype))
    with refused(ValueError, "y", "2") as expected:
        fit(X, labels_with(None, 2))
    assert str(caught.value) == str(expected.value)


def test_labels_that_mix_text_and_numbers_are_rejected():
    for fit in (search().fit, ReusableHoldout):
        with refused(ValueError, "y", "text"):
            fit(X, labels_with(3, 1))
