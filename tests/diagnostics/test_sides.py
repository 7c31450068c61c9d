"""Order, groups and classes on both sides of a split.

Groups on both sides are reported once, and in the certificate.
"""

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


def said(fit, what):
    """Return the result of a fit and its warnings that hold some words."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = fit()
    return result, [str(w.message) for w in caught if what in str(w.message)]


# -- order of targets, groups and weights --------------------------------------------------------

FRAME = pd.DataFrame(X, index=np.arange(400) + 1000).add_prefix("c")
LABELS = pd.Series(y, index=FRAME.index)
GROUPS = pd.Series(np.repeat(np.arange(100), 4), index=FRAME.index)
TURNED = np.random.default_rng(1).permutation(400)


@pytest.mark.parametrize("name", ["y", "groups", "sample_weight"])
def test_what_names_the_records_in_another_order_is_refused(name):
    beside = {"y": LABELS, "groups": GROUPS, "sample_weight": LABELS + 1.0}
    beside[name] = beside[name].iloc[TURNED]
    with refused(ValueError, f"{name}.loc[X.index]"):
        search(correlation="groups").fit(FRAME, **beside)


@pytest.mark.parametrize(
    "estimator", [HoldoutFeatureSelector(LogisticRegression()), HoldoutCorrelationFilter()]
)
def test_selectors_refuse_it_as_well(estimator):
    with refused(ValueError, "y.loc[X.index]"):
        estimator.fit(FRAME, LABELS.iloc[TURNED])
    with refused(ValueError, "y_val.loc[X_val.index]"):
        estimator.fit(X, y, X_val=FRAME, y_val=LABELS.iloc[TURNED])


def test_a_holdout_refuses_targets_and_groups_in_another_order():
    with refused(ValueError, "y.loc[X.index]"):
        ReusableHoldout(FRAME, LABELS.iloc[TURNED])
    with refused(ValueError, "correlation.loc[X.index]"):
        ReusableHoldout(FRAME, LABELS, correlation=Groups(GROUPS.iloc[TURNED]))
    with refused(ValueError, "correlation.loc[X.index]"):
        search(correlation=Groups(GROUPS.iloc[TURNED])).fit(FRAME, LABELS)


@pytest.mark.parametrize("name", ["groups", "sample_weight"])
def test_the_name_of_a_column_is_no_column(name):
    beside = {"y": LABELS, "groups": GROUPS, name: "pid"}
    with refused(ValueError, name, 3, 400):
        search(correlation="groups").fit(FRAME, **beside)


def test_a_column_that_was_added_belongs_into_the_pipeline():
    again = search(holdout=ReusableHoldout(FRAME[:100], LABELS[:100]))
    more = FRAME[100:].assign(ratio=1.0)
    for records in (more, more.to_numpy()):
        with refused(ValueError, "FunctionTransformer"):
            again.fit(records, LABELS[100:].to_numpy())
    selector = HoldoutFeatureSelector(LogisticRegression(), holdout=again.holdout)
    with refused(ValueError, "FunctionTransformer"):
        selector.fit(more, LABELS[100:])
    with refused(ValueError, "X[holdout.X.columns]"):
        again.fit(FRAME[100:][FRAME.columns[::-1]], LABELS[100:])


# few records are quick
@pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.UninformativeIntervalWarning")
def test_places_count_where_indices_say_nothing_else():
    """An index of its own, none, or the same one in another type."""
    others = (
        LABELS.set_axis(np.arange(400)),
        LABELS.to_numpy(),
        LABELS.set_axis(map(str, range(400))),
    )
    for labels in (*others, LABELS.set_axis(FRAME.index.astype(float)), LABELS.to_frame()):
        ReusableHoldout(FRAME, labels, correlation=Groups(GROUPS.set_axis(np.arange(400))))
    dated = LABELS.set_axis(pd.date_range("2020", periods=400))
    ReusableHoldout(FRAME, dated)
    ReusableHoldout(
        FRAME.iloc[TURNED], LABELS.iloc[TURNED], correlation=Groups(GROUPS.iloc[TURNED])
    )
    search(correlation="groups").fit(
        FRAME.iloc[TURNED], LABELS.iloc[TURNED], groups=GROUPS.iloc[TURNED]
    )
    search(holdout=None).set_params(cv=2).fit(FRAME, LABELS.iloc[TURNED])


# -- labels of groups on both sides ---------------------------------------------------------------


def names(groups):
    return np.array([f"p{group}" for group in groups])


PATIENTS = np.repeat(np.arange(100), 4)
LAST = np.arange(400) % 4 == 3  # the last visit of each patient


# the search and the scorer have a holdout each
@pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.SecondHoldoutWarning")
@pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.UninformativeIntervalWarning")
def test_groups_on_both_sides_of_a_holdout_are_said():
    g = names(PATIENTS)
    holdout = ReusableHoldout(X[LAST], y[LAST], correlation=Groups(g[LAST]), random_state=0)
    again = search(holdout=holdout)
    fitted, messages = said(lambda: again.fit(X[~LAST], y[~LAST], groups=g[~LAST]), "same labels")
    assert len(messages) == 1
    assert sum("given anew" in a for a in fitted.certificate_.assumptions) == 1
    travelled = pickle.loads(pickle.dumps(Groups(g[LAST])))
    holdout = ReusableHoldout(X[LAST], y[LAST], correlation=travelled, random_state=0)
    again = search(holdout=holdout, correlation=Groups(g[~LAST]))
    assert len(said(lambda: again.fit(X[~LAST], y[~LAST]), "same labels")[1]) == 1
    explicit = search(correlation=Groups(g[LAST]))
    rest = {"X_val": X[LAST], "y_val": y[LAST], "groups": g[~LAST]}
    assert len(said(lambda: explicit.fit(X[~LAST], y[~LAST], **rest), "same labels")[1]) == 1


# few records, and a holdout in each round
@pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.UninformativeIntervalWarning")
@pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.SecondHoldoutWarning")
def test_groups_on_one_side_are_not_said_nor_are_plain_numbers():
    held = PATIENTS % 4 == 0
    for g in (PATIENTS, names(PATIENTS)):
        holdout = ReusableHoldout(X[held], y[held], correlation=Groups(g[held]), random_state=0)
        again = search(holdout=holdout)
        fit = lambda: again.fit(X[~held], y[~held], groups=g[~held])  # noqa: B023, E731
        assert not said(fit, "same labels")[1]
    ours, theirs = np.repeat(np.arange(25), 4), np.repeat(np.arange(1, 76), 4)
    holdout = ReusableHoldout(X[held], y[held], correlation=Groups(ours), random_state=0)
    again = search(holdout=holdout)
    assert not said(lambda: again.fit(X[~held], y[~held], groups=theirs), "same labels")[1]


# few records are quick
@pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.UninformativeIntervalWarning")
def test_a_search_goes_on_with_the_holdout_of_another_and_its_groups():
    first = search(correlation="groups").fit(X, y, groups=PATIENTS)
    part = first.train_indices_
    again = search(holdout=first.holdout_)
    assert not said(lambda: again.fit(X[part], y[part], groups=PATIENTS[part]), "same labels")[1]
    everything = np.r_[part, first.holdout_indices_[:0]]
    moved = PATIENTS[everything].copy()
    moved[:40] = PATIENTS[first.holdout_indices_][:40]
    assert len(said(lambda: again.fit(X[part], y[part], groups=moved), "same labels")[1]) == 1


def test_who_the_groups_are_is_no_part_of_what_models_are():
    assert Groups(names(PATIENTS)) == Groups(PATIENTS + 7) == Groups(list(map(str, PATIENTS)))
    assert len(pickle.dumps(Groups(names(PATIENTS)))) < 8 * (400 + 100 + 100) + 1000
    assert count_shared_labels(Groups(PATIENTS + 7), Groups(PATIENTS + 7.0)) == (100, 100)
    assert count_shared_labels(Groups(PATIENTS + 7), Groups(list(map(str, PATIENTS + 7))))[0] == 100
    assert count_shared_labels(Groups(PATIENTS), Groups(PATIENTS)) == (0, 0)
    assert (
        count_shared_labels(Groups(PATIENTS).subset(np.arange(40, 80)), Groups(PATIENTS))[0] == 10
    )


# -- classes --------------------------------------------------------------------------------------


@pytest.mark.parametrize("coded", [lambda y: y + 1, lambda y: 2 * y - 1, lambda y: 2.0 * y - 1.0])
@pytest.mark.parametrize("explicit", [True, False])
def test_labels_coded_in_another_way_are_said(coded, explicit):
    train, held = slice(0, 300), slice(300, None)
    if explicit:
        fit = lambda: search().fit(X[train], coded(y[train]), X_val=X[held], y_val=y[held])  # noqa: E731
    else:
        again = search(holdout=ReusableHoldout(X[held], y[held], random_state=0))
        fit = lambda: again.fit(X[train], coded(y[train]))  # noqa: E731
    assert len(said(fit, "A class of one side")[1]) == 1


def test_a_rare_class_may_be_missing_from_the_holdout_a_common_one_not():
    labels = y.copy()
    labels[:3] = 2  # rare
    rest = {"X_val": X[300:], "y_val": y[300:]}
    assert not said(lambda: search().fit(X[:300], labels[:300], **rest), "A class of one side")[1]
    labels[:100] = 2
    assert len(said(lambda: search().fit(X[:300], labels[:300], **rest), "A class of")[1]) == 1


@pytest.mark.parametrize("coded", [lambda y: y.astype(bool), lambda y: y.astype(float), list])
def test_the_same_classes_in_another_type_are_the_same(coded):
    rest = {"X_val": X[300:], "y_val": y[300:]}
    assert not said(lambda: search().fit(X[:300], coded(y[:300]), **rest), "A class of one side")[1]
    assert not said(lambda: search().fit(X, coded(y)), "A class of one side")[1]


def test_an_index_that_only_counts_may_have_been_made_anew():
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


NONE = {"None": None, "nan": np.nan, "single": np.float32("nan"), "NA": pd.NA, "NaT": pd.NaT}


class Untouched(DecisionTreeClassifier):
    def fit(self, X, y):
        raise AssertionError("fitted")


@pytest.mark.parametrize("kind", [np.asarray, pd.Series, list], ids=["array", "series", "list"])
@pytest.mark.parametrize("name", NONE)
def test_missing_labels_are_counted_before_anything_is_fitted(name, kind):
    labels = kind(labels_with(NONE[name], 2))
    owners = search(), HoldoutFeatureSelector(Untouched(), random_state=0)
    for owner in (owners[0].set_params(estimator=Untouched(), error_score="raise"), owners[1]):
        with refused(ValueError, "y", "2"):
            owner.fit(X, labels)
    with refused(ValueError, "y", "2"):
        ReusableHoldout(X, labels)


@pytest.mark.parametrize("dtype", ["float", "Float64", "Int64", "boolean", "category", "object"])
@pytest.mark.parametrize(
    "fit",
    [
        search().set_params(estimator=Untouched(), error_score="raise").fit,
        HoldoutFeatureSelector(Untouched(), random_state=0).fit,
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


def test_text_among_numbers_is_no_kind_of_label():
    for fit in (search().fit, ReusableHoldout):
        with refused(ValueError, "y", "text"):
            fit(X, labels_with(3, 1))
