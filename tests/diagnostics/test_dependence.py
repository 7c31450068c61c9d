"""Dependence: hints in arguments, evidence in training-set scores, correlation="time" (G11)."""

import warnings

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold, TimeSeriesSplit

from examples.simulated import make_regimes
from sklearn_bdp import HoldoutConfig, ReusableHoldout, ReusableHoldoutSearchCV
from sklearn_bdp.correlation import Groups, MarkovChain, MarkovNetwork
from sklearn_bdp.correlation.cutting import required_gap
from sklearn_bdp.evaluation import FinishedFits, FoldScores
from sklearn_bdp.exceptions import (
    DependenceWarning,
    SecondHoldoutWarning,
    UninformativeIntervalWarning,
)
from sklearn_bdp.feature_selection import HoldoutCorrelationFilter, HoldoutFeatureSelector
from tests.facts import refused, scheme_of, warned

GRID = {"C": [0.1, 1.0, 10.0]}
SLOW_TRANSITION = [[0.98, 0.02], [0.02, 0.98]]


def fit_search(X, y, *, groups=None, grid=None, **settings):
    """Return a fitted search and the texts of its misfit warnings."""
    search = ReusableHoldoutSearchCV(LogisticRegression(), grid or GRID, random_state=0, **settings)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        search.fit(X, y, groups=groups)
    return search, [
        str(warning.message) for warning in caught if warning.category is DependenceWarning
    ]


def independent(n=600, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    return X, (X[:, 0] + rng.normal(size=n) > 0).astype(int)


@pytest.fixture(scope="module")
def regimes():
    data = make_regimes(4000, SLOW_TRANSITION, n_features=4, random_state=0)
    return data.X, data.y


@pytest.fixture(scope="module")
def time_search(regimes):
    return fit_search(*regimes, correlation=learned_chain())


def learned_chain():
    """Return a chain whose strength is read off scores."""
    scores = np.repeat(np.random.default_rng(0).random(1000), 4)
    return MarkovChain.from_scores(scores)


class CountsFits(LogisticRegression):
    """Counts its fits, outside of any key."""

    def fit(self, X, y):
        CountsFits.fits += 1
        return super().fit(X, y)


@pytest.mark.parametrize("correlation", [None, SLOW_TRANSITION])
@pytest.mark.parametrize("has_validation_set", [True, False])
def test_no_fit_is_made_for_the_check(correlation, has_validation_set):
    X, y = independent()
    X_val, y_val = independent(seed=1)
    CountsFits.fits = 0
    fit_parameters = {"X_val": X_val, "y_val": y_val} if has_validation_set else {}
    search = ReusableHoldoutSearchCV(CountsFits(), GRID, cv=3, correlation=correlation)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        search.fit(X, y, **fit_parameters)
    assert CountsFits.fits == 3 * (3 + 1)
    assert len(search.dependence_test_scores_) == len(
        X if has_validation_set else search.train_indices_
    )
    if correlation is not None:  # the strength of a declared chain is tested by the same scores
        assert "autocorrelation time" in search.dependence_test_.note


def test_folds_of_the_check_have_a_limited_number_of_rows():
    """ROC AUC has no score for each record, so that folds are fitted for the check."""
    sizes = []

    class Sized(LogisticRegression):
        def fit(self, X, y):
            sizes.append(len(X))
            return super().fit(X, y)

    X, y = independent(40_000)
    grid = {"C": [1.0]}
    search = ReusableHoldoutSearchCV(Sized(), grid, cv=2, scoring="roc_auc", random_state=0)
    assert not search.fit(X, y).dependence_test_.misfit
    assert len(search.dependence_test_scores_) == 20_000
    assert sorted(sizes) == sorted([15_000] * 2 + [30_000] + [13_333, 13_333, 13_334])
    is_flipped = np.repeat(np.random.default_rng(1).random(800) < 0.3, 50)  # labels, in stretches
    dependent_search = fit_search(X, y ^ is_flipped, grid=grid, cv=2, scoring="roc_auc")[0]
    assert dependent_search.dependence_test_.misfit
    y[:30_000] = 0  # none of the other class among the first rows: folds of all rows are fitted
    late_search = fit_search(X, y, grid=grid, cv=2, scoring="roc_auc")[0]
    assert late_search.dependence_test_ is not None
    assert len(late_search.dependence_test_scores_) == 30_000


def test_scores_of_the_best_candidates_are_kept_if_memory_is_limited():
    progress = FinishedFits(max_bytes=250)
    tests = [np.arange(20), np.arange(20, 40)]
    scores = np.arange(40) / 40.0
    for fold_index, test in enumerate(tests):
        for row, value in enumerate((0.1, 1.0, 0.5)):
            fold_scores = FoldScores({}, (value * scores[test]).astype(np.float32))
            progress.add(row, fold_index, f"{row} {fold_index}", fold_scores)
    stored_scores, fold_numbers = progress.scores(1, tests, 41)
    assert np.allclose(stored_scores[:40], scores)
    assert np.isnan(stored_scores[40])
    assert fold_numbers.tolist() == [0] * 20 + [1] * 20 + [-1]
    assert progress.scores(0, tests, 41) is None


def test_independent_rows_give_no_warning():
    search, messages = fit_search(*independent())
    assert messages == []
    assert search.dependence_test_.misfit is False


def test_dependent_rows_get_one_warning_with_a_correlation_to_declare(regimes):
    search, messages = fit_search(*regimes)
    assert len(messages) == 1
    assert "correlation='time'" in messages[0]
    assert search.dependence_test_.misfit


def test_rows_sorted_by_class_are_not_taken_for_time():
    X, y = independent()
    order = np.argsort(y, kind="stable")
    assert fit_search(X[order], y[order])[1] == []


def test_groups_are_never_ignored():
    X, y = independent()
    groups = np.repeat(np.arange(60), 10)
    (message,) = fit_search(X, y, groups=groups)[1]
    assert "groups= was passed" in message
    assert "correlation='groups'" in message
    (message,) = fit_search(X, y, groups=groups, cv=GroupKFold(3))[1]
    assert "correlation='groups'" in message
    assert fit_search(X, y, groups=groups, correlation="groups")[1] == []
    (message,) = fit_search(X, y, groups=groups, correlation="time")[1]
    assert "neither correlation nor cv uses it" in message


def days(rng, *, carry, n=600, rows=6):
    """Return rows of days that share a shock, which carries over to the next day."""
    shock = np.zeros(n)
    for day in range(n):
        shock[day] = carry * shock[day - 1] + 1.5 * rng.normal()
    X = rng.normal(size=(n * rows, 2))
    noise = rng.normal(size=n * rows)
    return (
        X,
        (X[:, 0] + np.repeat(shock, rows) + noise > 0).astype(int),
        np.arange(n * rows) // rows,
    )


@pytest.mark.parametrize("scoring", ["accuracy", "neg_brier_score"])
def test_dependent_days_declared_as_groups_give_a_warning(scoring):
    """Labels lean the same way on days that follow each other; accuracy hardly shows it (G25)."""
    messages = []
    for seed in range(4):
        X, y, day = days(np.random.default_rng(seed), carry=0.8)
        messages.append(fit_search(X, y, groups=day, correlation="groups", scoring=scoring)[1])
    assert all("neighboring groups agree" in " ".join(texts) for texts in messages)


@pytest.mark.parametrize("n_tables", [9, pytest.param(30, marks=pytest.mark.slow)])
def test_independent_groups_give_no_warning(n_tables):
    messages = []
    for seed in range(n_tables):
        X, y, day = days(np.random.default_rng(seed), carry=0.0, n=200)
        if seed % 3:  # patients of one class each, class after class in each of one or two sites
            y = np.repeat(np.arange(200) % (100 * (seed % 3)) > 45 * (seed % 3), 6).astype(int)
            X[:, 0] += y
        messages += fit_search(X, y, groups=day, correlation="groups", grid={"C": [1.0]})[1]
    assert len(messages) <= 1


def test_time_series_split_is_understood():
    X, y = independent()
    (message,) = fit_search(X, y, cv=TimeSeriesSplit(3))[1]
    assert "TimeSeriesSplit" in message
    assert "correlation='time'" in message
    search, messages = fit_search(X, y, cv=TimeSeriesSplit(3), correlation="time")
    assert messages == []
    assert search.n_splits_ == 3


def test_warnings_distinguish_sorted_from_shuffled_dates():
    pandas = pytest.importorskip("pandas")
    X, y = independent()
    dated = pandas.DataFrame(X, index=pandas.date_range("2020-01-01", periods=len(X)))
    (message,) = fit_search(dated, y)[1]
    assert "sorted by date" in message
    assert "correlation='time'" in message
    shuffled = dated.iloc[np.random.default_rng(0).permutation(len(X))]
    (message,) = fit_search(shuffled, y)[1]
    assert "shuffled calendar" in message
    assert "X.iloc[order]" in message
    with refused(ValueError, "X.iloc[order]"):
        fit_search(shuffled, y, correlation="time")


def test_holdout_in_time_is_the_tail_after_a_gap(time_search):
    search, _ = time_search
    model = search.holdout_.dependence
    assert model.describe().startswith("assumed chain")
    assert search.holdout_indices_.tolist() == list(range(3000, 4000))
    gap = 3000 - 1 - search.train_indices_.max()
    assert gap == required_gap(model, 1e-3)
    assert (1 + model.contraction_) / (1 - model.contraction_) > 5


def test_certificate_states_that_the_chain_is_assumed_and_the_future_may_differ(time_search):
    text = str(time_search[0].certificate_)
    assert "assumed chain" in text
    assert "Assumed, not proved" in text
    assert "future unlike the past" in text


def test_ledger_records_the_assumed_chain(regimes, tmp_path):
    path = tmp_path / "holdout.sqlite"
    search, _ = fit_search(
        *regimes, correlation=learned_chain(), holdout=HoldoutConfig(ledger=path), grid={"C": [1.0]}
    )
    assert b"assumed chain" in path.read_bytes()
    second_search = fit_search(
        *regimes, correlation=learned_chain(), holdout=HoldoutConfig(ledger=path), grid={"C": [1.0]}
    )[0]
    assert second_search.best_score_ == search.best_score_


def test_folds_chain_forward_with_a_gap(regimes):
    chain = MarkovChain.from_autocorrelation_time(10.0)
    for train, test in chain.folds(1000, 4):
        assert train.max() < test.min() - required_gap(chain, 0.05)
    assert sorted(np.concatenate([test for _, test in chain.folds(1000, 4)])) == list(
        range(200, 1000)
    )


def test_validation_set_in_time(regimes):
    X, y = regimes
    search = ReusableHoldoutSearchCV(
        LogisticRegression(), {"C": [1.0]}, correlation="time", random_state=0
    ).fit(X[:2500], y[:2500], X_val=X[2600:], y_val=y[2600:])
    assert scheme_of(search.holdout_.dependence, search.holdout_.n).in_time_order
    assert search.holdout_.n == 1400


def test_time_order_rejects_unsupported_arguments(regimes):
    X, y = regimes
    with refused(ValueError, "correlation='time'"):
        fit_search(
            X, y, correlation="time", holdout=ReusableHoldout(X[:100], y[:100], random_state=0)
        )
    with refused(ValueError, "holdout=0.25"):
        fit_search(X, y, correlation="time", holdout=TimeSeriesSplit(2))


# each round makes its holdout anew
@pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.SecondHoldoutWarning")
def test_selectors_support_time_order_and_test_independence(regimes):
    X, y = regimes
    selector = HoldoutFeatureSelector(
        LogisticRegression(), correlation="time", random_state=0, n_features_to_select=1
    ).fit(X, y)
    assert scheme_of(selector.holdout_.dependence, selector.holdout_.n).calendar is not None
    with warned(DependenceWarning, "correlation='time'"):
        selector.set_params(correlation=None).fit(X, y)
    with warned(DependenceWarning, "correlation='groups'", "groups="):
        HoldoutCorrelationFilter(random_state=0).fit(X, y, groups=np.arange(len(y)) // 5)


class NeverFitted(LogisticRegression):
    """Fails as soon as anything is fitted."""

    def fit(self, X, y, sample_weight=None):
        raise RuntimeError("fitted")


def few_groups_warning(n_groups, **settings):
    """Return the warning about few groups that comes before any fit; None without a warning."""
    X, y = independent(4 * n_groups)
    search = ReusableHoldoutSearchCV(
        NeverFitted(), {"C": [1.0]}, correlation="groups", random_state=0, **settings
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with refused((RuntimeError, ValueError)):
            search.fit(X, y, groups=np.arange(4 * n_groups) // 4)
    messages = [
        str(warning.message)
        for warning in caught
        if warning.category is UninformativeIntervalWarning
    ]
    return next((text for text in messages if "groups (patients" in text), None)


def test_few_groups_are_reported_before_any_fit():
    message = few_groups_warning(240)
    assert "60 groups (patients, users, sites …), worth 60" in message
    assert "nested cross-validation over all groups" in message
    assert few_groups_warning(240, scoring="roc_auc") is not None
    assert few_groups_warning(600) is None
    assert few_groups_warning(600, holdout=0.1) is not None


@pytest.mark.parametrize("name", ["karate", "les miserables", "blocks"])
def test_connected_graphs_give_answers(name):
    """Theory G13: nodes are split, the interval is one given the training nodes."""
    nx = pytest.importorskip("networkx")
    graph = {
        "karate": nx.karate_club_graph,
        "les miserables": nx.les_miserables_graph,
        "blocks": lambda: nx.planted_partition_graph(2, 250, 0.02, 0.004, seed=0),
    }[name]()
    n = graph.number_of_nodes()
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    y = (X[:, 0] + 0.5 * rng.normal(size=n) > 0).astype(int)
    network = MarkovNetwork(graph, influence=0.1, nodelist=list(graph))
    search, messages = fit_search(X, y, correlation=network, holdout=0.5, cv=3)
    low, high = search.best_interval_
    assert 0 <= low <= search.best_score_ <= high <= 1
    assert messages == []
    assert len(search.holdout_indices_) == np.ceil(n / 2)
    assert "given the training nodes" in str(search.certificate_)
    assert name != "blocks" or high - low < 0.5


@pytest.mark.parametrize("scoring", ["roc_auc", "balanced_accuracy"])
def test_dependence_is_detected_for_metrics_that_are_not_means(scoring):
    """A table sorted by patient, scored by AUC with correlation=None."""
    rng = np.random.default_rng(0)
    patient = np.repeat(np.arange(150), 6)
    X = rng.normal(size=(900, 3)) + rng.normal(size=(150, 3))[patient]
    effect = rng.normal(size=150)[patient]
    y = (X[:, 0] + effect > 0).astype(int)
    search = ReusableHoldoutSearchCV(
        LogisticRegression(), {"C": [0.1, 1.0]}, scoring=scoring, random_state=0
    )
    with warned(DependenceWarning, "p = 0.005"):
        search.fit(X, y)
    shuffled = rng.permutation(900)
    with warnings.catch_warnings():
        warnings.simplefilter("error", DependenceWarning)
        search.fit(X[shuffled], y[shuffled])


# -- declarations that are right: no false alarm; wrong ones: by name, before anything is fitted ---


def patient_table(n_visits=4):
    rng = np.random.default_rng(0)
    patient = np.repeat(np.arange(1200 // n_visits), n_visits)
    X = rng.normal(size=(1200, 3))
    return X, (X[:, 0] + rng.normal(size=1200) > 0).astype(int), patient


@pytest.mark.parametrize("declared", ["model", "groups"])
def test_one_visit_of_each_patient_gives_no_false_alarm(declared):
    X, y, patient = patient_table()
    visit_rows = 4 * np.arange(300) + np.random.default_rng(0).integers(0, 4, 300)
    correlation = Groups(patient[visit_rows]) if declared == "model" else "groups"
    groups = None if declared == "model" else patient[visit_rows]
    search = ReusableHoldoutSearchCV(
        LogisticRegression(), GRID, correlation=correlation, random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", SecondHoldoutWarning)
        warnings.simplefilter("ignore", UninformativeIntervalWarning)
        search.fit(X[visit_rows], y[visit_rows], groups=groups)
    assert not set(search.train_indices_) & set(search.holdout_indices_)


def test_groups_inside_a_list_are_used():
    X, y, patient = patient_table()
    _, messages = fit_search(X, y, groups=patient, correlation=[Groups(patient)])
    assert messages == []


@pytest.mark.parametrize("cv", [StratifiedKFold(3), KFold(3, shuffle=True, random_state=0)])
# few records are quick
@pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.UninformativeIntervalWarning")
def test_inner_folds_that_cut_declared_groups_are_rejected_before_any_fit(cv):
    X, y, patient = patient_table()
    search = ReusableHoldoutSearchCV(
        NeverFitted(), GRID, correlation="groups", cv=cv, random_state=0
    )
    with refused(ValueError, "cv=5", "GroupKFold()"):
        search.fit(X, y, groups=patient)


def test_the_message_of_dependence_proposes_time_and_no_number():
    X, y = independent(2400)
    y = (y + (np.arange(2400) // 40) % 2 * (np.random.default_rng(0).random(2400) < 0.7)) % 2
    _, messages = fit_search(X, y)
    text = next(message for message in messages if "neighbo" in message)
    assert "correlation='time'" in text
    assert "from_autocorrelation_time" not in text


@pytest.mark.parametrize(("strength", "is_contradicted"), [(0.3, True), (0.94, False)])
def test_a_declared_chain_is_tested_and_the_certificate_states_the_outcome(
    strength, is_contradicted
):
    """Records of a chain of .94: a declared .3 is contradicted, .94 is not (theory G33)."""
    rng = np.random.default_rng(0)
    regime = np.cumsum(rng.random(2000) < 0.03) % 2
    X = rng.normal(size=(2000, 3))
    is_correct = rng.random(2000) < np.where(regime, 0.95, 0.55)
    y = ((X[:, 0] > 0) == is_correct).astype(int)
    stay = (1.0 + strength) / 2.0
    leave = (1.0 - strength) / 2.0
    search = ReusableHoldoutSearchCV(
        LogisticRegression(),
        {"C": [0.1, 1.0]},
        correlation=[[stay, leave], [leave, stay]],
        random_state=0,
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        search.fit(X, y)
    dependence_warnings = [warning for warning in caught if warning.category is DependenceWarning]
    assert bool(dependence_warnings) == search.dependence_test_.misfit == is_contradicted
    assert search.dependence_test_.note in str(search.certificate_)
    assert ("NOT MET" in str(search.certificate_)) == is_contradicted
