"""The path: subsets from the training side, their accuracy from the holdout, in one batch."""

import cProfile
import functools
import pickle
import tracemalloc
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from joblib import parallel_config
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.feature_selection import f_classif, mutual_info_classif
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from sklearn_bdp import HoldoutConfig, ReusableHoldout, ReusableHoldoutSearchCV
from sklearn_bdp.correlation import MarkovChain, MarkovNetwork
from sklearn_bdp.exceptions import DependenceWarning, NothingConfirmedWarning
from sklearn_bdp.feature_selection import HoldoutCorrelationFilter, HoldoutFeatureSelector
from tests.facts import refused, warned

#: These tests compare fits that each have a holdout of their own, with the same targets.
ANEW = pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.SecondHoldoutWarning")
#: A hundred groups suffice for these tests, whatever their effective sample size.
FEW_GROUPS = pytest.mark.filterwarnings(
    "ignore::sklearn_bdp.exceptions.UninformativeIntervalWarning"
)


def planted(n=800, n_features=100, *, n_true=4, shift=0.8, seed=0):
    """Return data in which the first columns know the label and the rest know nothing."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    X = rng.standard_normal((n, n_features))
    X[:, :n_true] += shift * (y[:, None] - 0.5)
    return X, y


@pytest.fixture(scope="module")
def data():
    return planted()


def selector(**params):
    defaults = {"cv": 2, "random_state": 0}
    return HoldoutFeatureSelector(GaussianNB(), **(defaults | params))


def few_useless(fitted, n_true=4):
    columns = fitted.get_support(indices=True)
    return set(range(n_true)) <= set(columns) and len(columns) <= 4 * n_true


@pytest.mark.parametrize(
    "ranking", ["univariate", f_classif, pytest.param(mutual_info_classif, marks=pytest.mark.slow)]
)
def test_every_ranking_finds_the_true_features_in_one_small_batch(data, ranking):
    X, y = data
    fitted = selector(ranking=ranking).fit(X[:, :40], y)
    assert few_useless(fitted)
    assert fitted.confirmed_
    assert len(fitted.holdout_.history()) == 2  # the selected subset, and a constant
    low, high = fitted.interval_
    assert low < fitted.score_ < high
    name = ranking if isinstance(ranking, str) else ranking.__name__
    assert fitted.score_path_["ranking"].tolist() == ["constant", *[name] * 11]


@ANEW
def test_the_smallest_subset_within_the_tolerance_is_selected(data):
    for tol in (0.0, 0.05, 1.0):
        fitted = selector(tol=tol).fit(*data)
        path = pd.DataFrame(fitted.score_path_)
        rank = path["training_score"][1:]
        near = path["n_features"][1:][rank >= rank.max() - tol]
        assert fitted.n_features_to_select_ == near.min()
        assert path["selected"].sum() == 1
        assert path["n_features"][path["selected"]].item() == fitted.n_features_to_select_


@pytest.mark.parametrize(("wanted", "count"), [(3, 3), (0.3, 30)])
def test_a_number_of_features_is_kept_to(data, wanted, count):
    fitted = selector(n_features_to_select=wanted).fit(*data)
    assert fitted.support_.sum() == count
    assert len(fitted.holdout_.history()) <= 3


@ANEW
def test_more_subsets_are_verified_on_request_and_change_nothing(data):
    one, three, every = (selector(verify=count).fit(*data) for count in (1, 3, "all"))
    for other in (three, every):
        np.testing.assert_array_equal(one.support_, other.support_)
        assert one.interval_ == other.interval_
    answered = [np.isfinite(f.score_path_["holdout_score"]).sum() for f in (one, three, every)]
    assert answered == [2, 4, len(every.score_path_["selected"])]
    assert (one.score_path_["answered_from"] == "not asked").any()


@ANEW
def test_on_noise_it_is_said_and_the_one_best_feature_is_handed_on():
    X, y = planted(400, 200, n_true=0, seed=1)
    chooser = selector()
    with warned(NothingConfirmedWarning):
        make_pipeline(chooser, GaussianNB()).fit(X, y)
    assert chooser.support_.sum() == 1
    assert not chooser.confirmed_
    assert chooser.interval_[0] <= 0.5 <= chooser.interval_[1]
    assert "Not distinguished from chance" in str(chooser.report())
    assert "The one best feature is handed on" in str(chooser.report())
    assert chooser.estimator_.n_features_in_ == 1
    with warned(NothingConfirmedWarning):
        assert selector(on_empty="keep_best").fit(X, y).support_.sum() > 1


def test_without_a_holdout_all_records_choose_and_nothing_is_verified(data):
    fitted = selector(holdout=None).fit(*data)
    assert few_useless(fitted)
    assert fitted.confirmed_
    assert np.isnan(fitted.score_)
    assert fitted.holdout_ is None
    assert fitted.certificate_ is None
    assert fitted.train_indices_.size == 800
    assert fitted.estimator_.n_features_in_ == fitted.n_features_to_select_
    assert "Not verified: all records chose" in str(fitted.report())
    with refused(ValueError, "holdout=None"):
        fitted.final_report()
    with refused(ValueError, "X_val"):
        selector(holdout=None).fit(*data, X_val=data[0], y_val=data[1])


def test_choosing_anew_on_all_records_takes_two_lines(data):
    first = selector().fit(*data)
    first.final_report()
    again = clone(first).set_params(holdout=None).fit(*data)
    assert few_useless(again)


@pytest.mark.parametrize("scoring", ["accuracy", "roc_auc", "balanced_accuracy"])
def test_weak_signals_among_few_records_are_handed_on(scoring):
    """Which features is a question of the training set: no test is needed to choose."""
    X, y = planted(150, 300, shift=1.2, seed=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = selector(scoring=scoring, cv=5).fit(X, y)
    assert fitted.support_[:4].sum() >= 2
    fresh, labels = planted(4000, 300, shift=1.2, seed=9)
    assert fitted.estimator_.score(fresh[:, fitted.support_], labels) > 0.65


def test_stability_is_the_share_of_complementary_halves(data):
    fitted = selector(n_features_to_select=4).fit(*data)
    X, y = (part[fitted.train_indices_] for part in data)
    rng, shares = np.random.default_rng(0), np.zeros(100)
    for _ in range(25):
        first = np.isin(np.arange(600), rng.permutation(600)[:300])
        for half in (first, ~first):
            shares[np.argsort(-f_classif(X[half], y[half])[0])[:4]] += 0.02
    np.testing.assert_allclose(fitted.stability_, shares, atol=1e-12)
    report = fitted.report()
    shown = [f"{fitted.stability_[int(name[1:])]:.0%}" for name in report.rows["feature"]]
    assert report.rows["half samples"] == shown
    often = (shares[fitted.support_] >= 0.9 - 1e-9).sum()
    assert f"of 4 features {often} come back in 90% of half samples" in str(report)


@ANEW
@FEW_GROUPS
def test_halves_of_groups_are_halves_of_groups(data):
    """Rows that are copies of one another make no list stable."""
    X, y = planted(100, 50, n_true=0, seed=1)
    copies = np.repeat(X, 6, axis=0), np.repeat(y, 6)
    groups = np.repeat(np.arange(100), 6)
    options = {"n_features_to_select": 3}
    with pytest.warns(DependenceWarning):
        alone = selector(**options).fit(*copies)
    whole = selector(correlation="groups", **options).fit(*copies, groups=groups)
    assert whole.stability_.max() < alone.stability_.max()


def test_stable_features_are_few_useless_ones():
    """The bound says at most one; true ones come back."""
    true, useless = [], []
    for seed in range(5):
        X, y = planted(400, 1000, n_true=6, shift=1.0, seed=seed)
        fitted = selector(n_features_to_select="stable", random_state=seed).fit(X, y)
        true.append(fitted.support_[:6].sum())
        useless.append(fitted.support_[6:].sum())
    assert np.mean(useless) <= 1.0
    assert np.mean(true) >= 4.5
    assert "come back in 60% of half samples" in str(fitted.report())


def test_training_scores_know_nothing_of_their_test_folds():
    """Ranked on all records and then cross-validated, noise would score .7 and more."""
    X, y = planted(300, 2000, n_true=0, seed=3)
    with pytest.warns(NothingConfirmedWarning):
        fitted = selector().fit(X, y)
    path = pd.DataFrame(fitted.score_path_)
    assert path["training_score"].mean() == pytest.approx(0.5, abs=0.05)
    train = fitted.train_indices_
    columns = path["features"][path["n_features"] == 16].iloc[0]
    reused = GaussianNB().fit(X[train][:, columns], y[train]).score(X[train][:, columns], y[train])
    assert reused > 0.65


def test_the_report_says_what_was_verified_and_what_was_not(data):
    frame = pd.DataFrame(data[0]).add_prefix("<f").add_suffix(">")
    fitted = selector(fixed_features=["<f7>"]).fit(frame, data[1])
    report = fitted.report()
    low, high = fitted.interval_
    assert f"together they score {fitted.score_:.3g} [{low:.3g}, {high:.3g}]" in str(report)
    assert "Chosen in the training set" in str(report)
    assert "No false discovery rate is proved" in str(report)
    assert set(report.rows["feature"]) == set(fitted.get_feature_names_out())
    assert report.rows["chosen by"][-1] == "fixed"
    assert "&lt;f0&gt;" in report._repr_html_()
    assert "<f0>" not in report._repr_html_()


def test_the_certificate_carries_the_score_through_a_pipeline(data):
    pipeline = make_pipeline(selector(), GaussianNB()).fit(*data)
    loaded = pickle.loads(pickle.dumps(pipeline))
    fitted = loaded[0]
    assert f"verified accuracy {fitted.score_:.3g}" in fitted.certificate_.notes[-1]
    assert f"verified accuracy {fitted.score_:.3g}" in str(fitted.certificate_)


def test_a_search_around_a_selector_shares_one_account(data):
    X, y = data
    holdout = ReusableHoldout(X[600:, :40], y[600:], random_state=0)
    X = X[:, :40]
    pipeline = make_pipeline(
        HoldoutFeatureSelector(GaussianNB(), holdout=holdout, cv=2), LogisticRegression()
    )
    search = ReusableHoldoutSearchCV(
        pipeline, {"logisticregression__C": [0.1, 1.0]}, holdout=holdout, cv=2
    ).fit(X[:600], y[:600])
    assert search.holdout_ is holdout
    chosen = search.best_estimator_[0]
    assert chosen.holdout_ is holdout
    assert few_useless(chosen)
    before = len(holdout.history())
    clone(pipeline).fit(X[:600], y[:600])  # the same questions again
    clone(search).fit(X[:600], y[:600])
    assert len(holdout.history()) == before
    fresh, labels = planted(4000, 40, seed=9)
    truth = search.best_estimator_.score(fresh, labels)
    row = search.best_index_
    low, high = (search.cv_results_[f"holdout_{end}"][row] for end in ("lower", "upper"))
    assert low <= truth <= high


@pytest.mark.parametrize("screen", [False, True])
def test_the_same_script_resumes_without_a_seed(data, screen, tmp_path):
    """The ledger remembers how the data were divided, as it does for a search."""
    ledger = tmp_path / "ledger.sqlite"

    def fit():
        if screen:
            return HoldoutCorrelationFilter(holdout=HoldoutConfig(ledger=ledger)).fit(*data)
        return selector(holdout=HoldoutConfig(ledger=ledger), random_state=None).fit(*data)

    first, again = fit(), fit()
    np.testing.assert_array_equal(first.holdout_indices_, again.holdout_indices_)
    np.testing.assert_array_equal(first.support_, again.support_)
    assert len(again.holdout_.history()) == len(first.holdout_.history())


def test_an_interrupted_path_goes_on(data, tmp_path):
    class Fragile(GaussianNB):
        left = 25

        def fit(self, X, y):
            Fragile.left -= 1
            if Fragile.left < 0:
                raise KeyboardInterrupt
            return super().fit(X, y)

    path = {"cv": 3, "holdout": HoldoutConfig(ledger=tmp_path / "ledger.sqlite")}
    with pytest.raises(KeyboardInterrupt):
        HoldoutFeatureSelector(Fragile(), **path).fit(*data)
    Fragile.left = 10**6
    assert few_useless(HoldoutFeatureSelector(Fragile(), **path).fit(*data))


@ANEW
def test_answers_do_not_depend_on_n_jobs(data):
    X, y = data
    with parallel_config(backend="threading"):  # the same tasks, without the start of processes
        one, two = (selector(n_jobs=n).fit(X[:, :40], y) for n in (1, 2))
    for name, column in one.score_path_.items():
        np.testing.assert_array_equal(column, two.score_path_[name])


def test_nothing_raw_is_kept(data):
    X, y = data
    fitted = selector().fit(X[:600], y[:600], X_val=X[600:], y_val=y[600:])
    state = {name: value for name, value in vars(fitted).items() if name != "holdout_"}
    text = pickle.dumps(state)
    for hidden in (b"Outcome", b"Evaluation", b"Assessment", b"Entry"):
        assert hidden not in text
    for value in state.values():
        assert np.shape(value) != (200,)
    path = fitted.score_path_
    untouched = path["answered_from"] == "cv"
    np.testing.assert_allclose(
        path["holdout_score"][untouched], path["training_score"][untouched], atol=0.1
    )
    assert untouched.any()


@ANEW
def test_sparse_frames_and_arrays_agree(data):
    dense = selector().fit(*data)
    frame = selector().fit(pd.DataFrame(data[0]).add_prefix("f"), data[1])
    np.testing.assert_array_equal(dense.support_, frame.support_)
    est = LogisticRegression()
    sparse = [
        HoldoutFeatureSelector(est, cv=3, random_state=0).fit(kind(data[0]), data[1]).support_
        for kind in (np.asarray, scipy.sparse.csr_matrix)
    ]
    np.testing.assert_array_equal(*sparse)


@ANEW
def test_polars_columns_are_matched_by_name(data):
    polars = pytest.importorskip("polars")
    X, y = data[0][:, :40], data[1]
    frame = polars.DataFrame(X, schema=[f"f{column}" for column in range(40)])
    params = {"fixed_features": ["f9"], "feature_groups": [["f0", "f1"]]}
    train, held = frame[:600], frame[600:].select(reversed(frame.columns))
    fitted = selector(**params).fit(train, y[:600], X_val=held, y_val=y[600:])
    table = pd.DataFrame(X).add_prefix("f")
    same = selector(**params).fit(table[:600], y[:600], X_val=table[600:], y_val=y[600:])
    assert list(fitted.get_feature_names_out()) == list(same.get_feature_names_out())
    assert fitted.score_ == same.score_
    names = fitted.set_output(transform="polars").transform(frame).columns
    assert {"f0", "f1", "f9"} <= set(names)


def test_sparse_records_are_never_made_dense():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 600)
    X = scipy.sparse.random(600, 8_000, density=0.02, random_state=0, format="csr")
    told = scipy.sparse.csr_matrix((rng.random((600, 3)) < 0.1 + 0.4 * y[:, None]).astype(float))
    X = scipy.sparse.hstack([told, X], format="csr")
    tracemalloc.start()
    fitted = HoldoutFeatureSelector(LogisticRegression(), cv=3, random_state=0).fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert {0, 1, 2} <= set(fitted.get_support(indices=True))
    assert peak < 0.4 * 8 * X.shape[0] * X.shape[1]


@FEW_GROUPS
@pytest.mark.parametrize("kind", ["chain", "time", "network", "graph"])
def test_correlated_records_are_divided_by_their_model(data, kind):
    X, y = data
    network = scipy.sparse.diags_array([np.full(799, 0.05)] * 2, offsets=[-1, 1])
    clusters = scipy.sparse.block_diag([np.ones((4, 4)) - np.eye(4)] * 200)
    correlation = {
        "chain": MarkovChain([[0.6, 0.4], [0.4, 0.6]]),
        "time": "time",
        "network": MarkovNetwork(network.tocsr(), influence="data"),
        "graph": clusters.tocsr(),
    }[kind]
    fitted = selector(correlation=correlation).fit(X, y)
    assert {0, 1, 2, 3} <= set(fitted.get_support(indices=True))
    assert fitted.interval_[0] < fitted.score_ < fitted.interval_[1]
    train, held = fitted.train_indices_, fitted.holdout_indices_
    if kind in ("chain", "time"):
        assert train.max() < held.min()
    if kind == "graph":
        assert not set(train // 4) & set(held // 4)


def test_categories_and_missing_values_are_ranked():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 600)
    frame = pd.DataFrame(rng.standard_normal((600, 10))).add_prefix("f")
    frame["f0"] += 1.5 * y
    frame.loc[::7, "f0"] = np.nan
    frame["f1"] = pd.Categorical(np.where(rng.random(600) < 0.8, y, 1 - y).astype(str))
    trees = HistGradientBoostingClassifier(max_iter=5, categorical_features="from_dtype")
    chooser = HoldoutFeatureSelector(trees, cv=3, random_state=0)
    names = chooser.fit(frame, y).get_feature_names_out()
    assert {"f0", "f1"} <= set(names)


def test_groups_of_features_stay_whole_along_the_path(data):
    groups = [[0, 1, 50], [2, 3]]
    fitted = selector(feature_groups=groups, fixed_features=[9]).fit(*data)
    for columns in fitted.score_path_["features"]:
        assert 9 in columns
        for group in groups:
            assert len(set(group) & set(columns)) in (0, len(group))


@pytest.mark.parametrize(("n_columns", "wanted"), [(3, "auto"), (6, 3)])
def test_fixed_features_alone_are_verified(data, n_columns, wanted):
    X, y = data
    fitted = selector(fixed_features=[0, 1, 2], n_features_to_select=wanted)
    fitted.fit(X[:, :n_columns], y)
    assert fitted.get_support(indices=True).tolist() == [0, 1, 2]
    assert fitted.confirmed_
    low, high = fitted.interval_
    assert f"together they score {fitted.score_:.3g} [{low:.3g}, {high:.3g}]" in str(
        fitted.report()
    )


def test_when_nothing_is_better_than_the_fixed_features_they_stay(data):
    X, y = data
    chooser = selector(fixed_features=[0, 1, 2, 3])
    with warned(NothingConfirmedWarning, "fixed"):
        assert chooser.fit_transform(X[:, :30], y).shape == (len(y), 4)
    assert not chooser.confirmed_


def test_records_in_groups_are_held_out_whole(data):
    X, y = data
    groups = np.arange(800) // 2
    fitted = selector(correlation="groups").fit(X, y, groups=groups)
    assert not set(groups[fitted.train_indices_]) & set(groups[fitted.holdout_indices_])
    assert set(fitted.get_support(indices=True)) >= {0, 1, 2, 3}


def test_numbers_and_several_classes():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((800, 60))
    y = X[:, 0] - X[:, 1] + rng.standard_normal(800)
    chooser = HoldoutFeatureSelector(
        LinearRegression(), scoring="neg_mean_absolute_error", cv=3, random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = chooser.fit(X, y)
    assert {0, 1} <= set(fitted.get_support(indices=True))
    labels = np.digitize(X[:, 2] + 0.5 * rng.standard_normal(800), [-0.7, 0.7])
    fitted = selector().fit(X, np.array(["u", "v", "w"])[labels])
    assert 2 in fitted.get_support(indices=True)


def test_a_tree_sees_what_no_univariate_score_sees():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((600, 12))
    y = (X[:, 0] ** 2 + X[:, 1] ** 2 > 1.4).astype(int)
    tree = DecisionTreeClassifier(max_depth=6, random_state=0)
    mutual = functools.partial(mutual_info_classif, random_state=0)
    fitted = HoldoutFeatureSelector(tree, ranking=mutual, cv=3, random_state=0).fit(X, y)
    assert {0, 1} <= set(fitted.get_support(indices=True))


@ANEW
def test_units_of_measurement_do_not_matter(data):
    scaled = make_pipeline(StandardScaler(), LogisticRegression())
    X, y = data[0][:, :60], data[1]
    one, other = (
        HoldoutFeatureSelector(scaled, cv=3, random_state=0).fit(values, y)
        for values in (X, 100.0 + X * np.geomspace(1e-3, 1e3, 60))
    )
    np.testing.assert_array_equal(one.support_, other.support_)
    assert set(one.get_support(indices=True)) >= {0, 1, 2, 3}


@pytest.mark.parametrize("scoring", ["roc_auc", "neg_brier_score"])
def test_other_bounded_metrics(data, scoring):
    fitted = selector(scoring=scoring, cv=10).fit(*data)
    assert set(fitted.get_support(indices=True)) >= {0, 1, 2}


@pytest.mark.parametrize("ranking", ["typo", [], 3, ["univariate"]], ids=str)
def test_bad_rankings_are_rejected_before_anything_is_spent(data, ranking, tmp_path):
    ledger = tmp_path / "ledger.sqlite"
    with refused((ValueError, TypeError), "ranking"):
        selector(ranking=ranking, holdout=HoldoutConfig(ledger=ledger)).fit(*data)
    assert not ledger.exists()


@pytest.mark.slow
def test_noise_passes_rarely_and_intervals_hold():
    passed, missed = 0, 0
    for seed in range(100):
        X, y = planted(300, 500, n_true=0, seed=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fitted = selector(random_state=seed).fit(X, y)
        passed += fitted.confirmed_  # chance is kept by default, but not confirmed
        path = fitted.score_path_  # every model is worth exactly .5 here
        missed += ((path["holdout_lower"] > 0.5) | (path["holdout_upper"] < 0.5)).any()
    assert passed <= 100 * 0.05 + 3 * np.sqrt(100 * 0.05 * 0.95)
    assert missed <= 100 * 0.05 + 3 * np.sqrt(100 * 0.05 * 0.95)


def test_narrowed_columns_are_answered_with_what_to_do(data):
    frame, y = pd.DataFrame(data[0][:, :10]).add_prefix("f"), data[1]
    holdout = ReusableHoldout(frame[600:], y[600:], random_state=0)
    search = ReusableHoldoutSearchCV(GaussianNB(), {"var_smoothing": [1e-9]}, holdout=holdout)
    with refused(ValueError, "ColumnTransformer", "passthrough") as error:
        search.fit(frame[["f0", "f1"]][:600], y[:600])
    assert "added" not in str(error.value)


@pytest.mark.parametrize("scoring", ["roc_auc", "balanced_accuracy"])
def test_a_constant_is_known_by_construction(data, scoring):
    fitted = selector(scoring=scoring).fit(*data)
    assert fitted.confirmed_
    assert few_useless(fitted)
    path = pd.DataFrame(fitted.score_path_)
    constant = path[path["ranking"] == "constant"].iloc[0]
    assert [constant["holdout_lower"], constant["holdout_upper"]] == [0.5, 0.5]
    assert "a constant prediction scores 0.5 [0.5, 0.5]; shown to be better" in str(fitted.report())


def test_a_frame_takes_few_more_steps_per_column_than_an_array():
    """Calls of Python functions, counted: digests column by column took 1,300 for each."""

    def calls(kind, n_features):
        X, y = planted(60, n_features)
        profile = cProfile.Profile()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            chooser = selector(n_features_to_select=2)
            profile.runcall(chooser.fit, kind(X), y)
        return sum(entry.callcount for entry in profile.getstats())

    named = lambda X: pd.DataFrame(X).add_prefix("f")  # noqa: E731
    grown = [calls(kind, 1000) - calls(kind, 250) for kind in (named, np.asarray)]
    assert grown[0] < grown[1] + 300 * 750


@ANEW
def test_how_many_fits_there_are_does_not_depend_on_the_number_of_columns():
    """Only one pass over the data grows with the columns, as for univariate selection."""

    class Counting(GaussianNB):
        count = 0

        def fit(self, X, y):
            Counting.count += 1
            assert X.shape[1] <= 150
            return super().fit(X, y)

    counts = []
    for n_features in (500, 1200):
        Counting.count = 0
        X, y = planted(400, n_features)
        chooser = HoldoutFeatureSelector(Counting(), cv=3, random_state=0)
        chooser.fit(X, y)
        counts.append(Counting.count)
    assert counts[0] == counts[1] < 70
