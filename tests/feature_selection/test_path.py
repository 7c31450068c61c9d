"""The path: subsets from the training set, their accuracy from the holdout, in one batch."""

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
SEVERAL_HOLDOUTS = pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.SecondHoldoutWarning")
#: A hundred groups suffice for these tests, whatever their effective sample size.
FEW_GROUPS = pytest.mark.filterwarnings(
    "ignore::sklearn_bdp.exceptions.UninformativeIntervalWarning"
)


def make_planted(n=800, n_features=100, *, n_true=4, shift=0.8, seed=0):
    """Return data in which the first columns depend on the label and the rest are noise."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    X = rng.standard_normal((n, n_features))
    X[:, :n_true] += shift * (y[:, None] - 0.5)
    return X, y


@pytest.fixture(scope="module")
def data():
    return make_planted()


def selector(*, cv=2, random_state=0, **params):
    return HoldoutFeatureSelector(GaussianNB(), cv=cv, random_state=random_state, **params)


def has_few_useless_features(fitted, n_true=4):
    columns = fitted.get_support(indices=True)
    return set(range(n_true)) <= set(columns) and len(columns) <= 4 * n_true


@pytest.mark.parametrize(
    "ranking", ["univariate", f_classif, pytest.param(mutual_info_classif, marks=pytest.mark.slow)]
)
def test_every_ranking_finds_the_true_features_in_one_small_batch(data, ranking):
    X, y = data
    fitted = selector(ranking=ranking).fit(X[:, :40], y)
    assert has_few_useless_features(fitted)
    assert fitted.confirmed_
    assert len(fitted.holdout_.history()) == 2  # the selected subset, and a constant
    low, high = fitted.interval_
    assert low < fitted.score_ < high
    name = ranking if isinstance(ranking, str) else ranking.__name__
    assert fitted.score_path_["ranking"].tolist() == ["constant", *[name] * 11]


@SEVERAL_HOLDOUTS
def test_the_smallest_subset_within_the_tolerance_is_selected(data):
    for tol in (0.0, 0.05, 1.0):
        fitted = selector(tol=tol).fit(*data)
        path = pd.DataFrame(fitted.score_path_)
        training_scores = path["cv_score"][1:]
        sizes_within_tolerance = path["n_features"][1:][
            training_scores >= training_scores.max() - tol
        ]
        assert fitted.n_features_to_select_ == sizes_within_tolerance.min()
        assert path["selected"].sum() == 1
        assert path["n_features"][path["selected"]].item() == fitted.n_features_to_select_


@pytest.mark.parametrize(("n_features_to_select", "count"), [(3, 3), (0.3, 30)])
def test_a_number_of_features_is_kept_to(data, n_features_to_select, count):
    fitted = selector(n_features_to_select=n_features_to_select).fit(*data)
    assert fitted.support_.sum() == count
    assert len(fitted.holdout_.history()) <= 3


@SEVERAL_HOLDOUTS
def test_further_verified_subsets_do_not_change_the_selection(data):
    verified_1, verified_3, verified_all = (
        selector(verify=count).fit(*data) for count in (1, 3, "all")
    )
    for larger_verification in (verified_3, verified_all):
        np.testing.assert_array_equal(verified_1.support_, larger_verification.support_)
        assert verified_1.interval_ == larger_verification.interval_
    n_verified = [
        np.isfinite(fitted_selector.score_path_["holdout_score"]).sum()
        for fitted_selector in (verified_1, verified_3, verified_all)
    ]
    assert n_verified == [2, 4, len(verified_all.score_path_["selected"])]
    assert (verified_1.score_path_["answered_from"] == "not asked").any()


@SEVERAL_HOLDOUTS
def test_selection_on_noise_gives_a_warning_and_keeps_the_best_feature():
    X, y = make_planted(400, 200, n_true=0, seed=1)
    holdout_selector = selector()
    with warned(NothingConfirmedWarning):
        make_pipeline(holdout_selector, GaussianNB()).fit(X, y)
    assert holdout_selector.support_.sum() == 1
    assert not holdout_selector.confirmed_
    assert holdout_selector.interval_[0] <= 0.5 <= holdout_selector.interval_[1]
    assert "Not distinguished from chance" in str(holdout_selector.report())
    assert "The one best feature is handed on" in str(holdout_selector.report())
    assert holdout_selector.estimator_.n_features_in_ == 1
    with warned(NothingConfirmedWarning):
        assert selector(on_empty="keep_best").fit(X, y).support_.sum() > 1


def test_without_a_holdout_all_records_choose_and_nothing_is_verified(data):
    fitted = selector(holdout=None).fit(*data)
    assert has_few_useless_features(fitted)
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


def test_selection_can_be_repeated_on_all_records(data):
    first_selector = selector().fit(*data)
    first_selector.final_report()
    refitted = clone(first_selector).set_params(holdout=None).fit(*data)
    assert has_few_useless_features(refitted)


@pytest.mark.parametrize("scoring", ["accuracy", "roc_auc", "balanced_accuracy"])
def test_weak_signals_among_few_records_are_selected(scoring):
    """Which features is a question of the training set: no test is needed to choose."""
    X, y = make_planted(150, 300, shift=1.2, seed=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = selector(scoring=scoring, cv=5).fit(X, y)
    assert fitted.support_[:4].sum() >= 2
    X_new, y_new = make_planted(4000, 300, shift=1.2, seed=9)
    assert fitted.estimator_.score(X_new[:, fitted.support_], y_new) > 0.65


def test_stability_is_the_frequency_in_complementary_halves(data):
    fitted = selector(n_features_to_select=4).fit(*data)
    X, y = (table[fitted.train_indices_] for table in data)
    rng = np.random.default_rng(0)
    frequencies = np.zeros(100)
    for _ in range(25):
        in_first_half = np.isin(np.arange(600), rng.permutation(600)[:300])
        for in_half in (in_first_half, ~in_first_half):
            f_values, _ = f_classif(X[in_half], y[in_half])
            best_four = np.argsort(-f_values)[:4]
            frequencies[best_four] += 0.02
    np.testing.assert_allclose(fitted.stability_, frequencies, atol=1e-12)


def test_the_report_shows_stability(data):
    fitted = selector(n_features_to_select=4).fit(*data)
    report = fitted.report()
    columns = [int(name[1:]) for name in report.rows["feature"]]
    percentages = [f"{fitted.stability_[column]:.0%}" for column in columns]
    assert report.rows["half samples"] == percentages
    n_frequent = (fitted.stability_[fitted.support_] >= 0.9 - 1e-9).sum()
    assert f"of 4 features {n_frequent} come back in 90% of half samples" in str(report)


@SEVERAL_HOLDOUTS
@FEW_GROUPS
def test_half_samples_consist_of_whole_groups(data):
    """Rows that are copies of one another make no list stable."""
    X, y = make_planted(100, 50, n_true=0, seed=1)
    copied_data = np.repeat(X, 6, axis=0), np.repeat(y, 6)
    groups = np.repeat(np.arange(100), 6)
    options = {"n_features_to_select": 3}
    with pytest.warns(DependenceWarning):
        selector_of_rows = selector(**options).fit(*copied_data)
    selector_of_groups = selector(correlation="groups", **options).fit(*copied_data, groups=groups)
    assert selector_of_groups.stability_.max() < selector_of_rows.stability_.max()


def test_stable_features_are_few_useless_ones():
    """The bound says at most one; true ones come back."""
    true = []
    useless = []
    for seed in range(5):
        X, y = make_planted(400, 1000, n_true=6, shift=1.0, seed=seed)
        fitted = selector(n_features_to_select="stable", random_state=seed).fit(X, y)
        true.append(fitted.support_[:6].sum())
        useless.append(fitted.support_[6:].sum())
    assert np.mean(useless) <= 1.0
    assert np.mean(true) >= 4.5
    assert "come back in 60% of half samples" in str(fitted.report())


def test_features_are_ranked_without_the_records_of_a_test_fold():
    """Ranked on all records and then cross-validated, noise would score .7 and more."""
    X, y = make_planted(300, 2000, n_true=0, seed=3)
    with pytest.warns(NothingConfirmedWarning):
        fitted = selector().fit(X, y)
    path = pd.DataFrame(fitted.score_path_)
    assert path["cv_score"].mean() == pytest.approx(0.5, abs=0.05)
    train = fitted.train_indices_
    columns = path["features"][path["n_features"] == 16].iloc[0]
    X_selected = X[train][:, columns]
    resubstitution_score = GaussianNB().fit(X_selected, y[train]).score(X_selected, y[train])
    assert resubstitution_score > 0.65


def test_the_report_states_verified_and_unverified_subsets(data):
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
    best_selector = search.best_estimator_[0]
    assert best_selector.holdout_ is holdout
    assert has_few_useless_features(best_selector)
    n_answers = len(holdout.history())
    clone(pipeline).fit(X[:600], y[:600])  # the same questions again
    clone(search).fit(X[:600], y[:600])
    assert len(holdout.history()) == n_answers
    X_new, y_new = make_planted(4000, 40, seed=9)
    new_score = search.best_estimator_.score(X_new, y_new)
    row = search.best_index_
    low, high = (search.cv_results_[f"holdout_{side}"][row] for side in ("lower", "upper"))
    assert low <= new_score <= high


@pytest.mark.parametrize("is_filter", [False, True])
def test_the_same_script_resumes_without_a_seed(data, is_filter, tmp_path):
    """The ledger remembers how the data were divided, as it does for a search."""
    ledger = tmp_path / "ledger.sqlite"

    def fit():
        if is_filter:
            return HoldoutCorrelationFilter(holdout=HoldoutConfig(ledger=ledger)).fit(*data)
        return selector(holdout=HoldoutConfig(ledger=ledger), random_state=None).fit(*data)

    first_fit = fit()
    second_fit = fit()
    np.testing.assert_array_equal(first_fit.holdout_indices_, second_fit.holdout_indices_)
    np.testing.assert_array_equal(first_fit.support_, second_fit.support_)
    assert len(second_fit.holdout_.history()) == len(first_fit.holdout_.history())


def test_an_interrupted_path_continues(data, tmp_path):
    class Fragile(GaussianNB):
        n_remaining = 25

        def fit(self, X, y):
            Fragile.n_remaining -= 1
            if Fragile.n_remaining < 0:
                raise KeyboardInterrupt
            return super().fit(X, y)

    parameters = {"cv": 3, "holdout": HoldoutConfig(ledger=tmp_path / "ledger.sqlite")}
    with pytest.raises(KeyboardInterrupt):
        HoldoutFeatureSelector(Fragile(), **parameters).fit(*data)
    Fragile.n_remaining = 10**6
    assert has_few_useless_features(HoldoutFeatureSelector(Fragile(), **parameters).fit(*data))


@SEVERAL_HOLDOUTS
def test_answers_do_not_depend_on_n_jobs(data):
    X, y = data
    with parallel_config(backend="threading"):  # the same tasks, without the start of processes
        sequential, threaded = (selector(n_jobs=n_jobs).fit(X[:, :40], y) for n_jobs in (1, 2))
    for name, column in sequential.score_path_.items():
        np.testing.assert_array_equal(column, threaded.score_path_[name])


def test_raw_scores_are_not_kept(data):
    X, y = data
    fitted = selector().fit(X[:600], y[:600], X_val=X[600:], y_val=y[600:])
    state = {name: value for name, value in vars(fitted).items() if name != "holdout_"}
    text = pickle.dumps(state)
    for hidden in (b"FitResult", b"Evaluation", b"CandidateQuery", b"Entry"):
        assert hidden not in text
    for value in state.values():
        assert np.shape(value) != (200,)
    path = fitted.score_path_
    untouched = path["answered_from"] == "cv"
    np.testing.assert_allclose(
        path["holdout_score"][untouched], path["cv_score"][untouched], atol=0.1
    )
    assert untouched.any()


@SEVERAL_HOLDOUTS
def test_sparse_frames_and_arrays_agree(data):
    dense_selector = selector().fit(*data)
    frame = selector().fit(pd.DataFrame(data[0]).add_prefix("f"), data[1])
    np.testing.assert_array_equal(dense_selector.support_, frame.support_)
    estimator = LogisticRegression()
    sparse = [
        HoldoutFeatureSelector(estimator, cv=3, random_state=0)
        .fit(convert(data[0]), data[1])
        .support_
        for convert in (np.asarray, scipy.sparse.csr_matrix)
    ]
    np.testing.assert_array_equal(*sparse)


@SEVERAL_HOLDOUTS
def test_polars_columns_are_matched_by_name(data):
    polars = pytest.importorskip("polars")
    X = data[0][:, :40]
    y = data[1]
    frame = polars.DataFrame(X, schema=[f"f{column}" for column in range(40)])
    params = {"fixed_features": ["f9"], "feature_groups": [["f0", "f1"]]}
    X_train = frame[:600]
    X_val = frame[600:].select(reversed(frame.columns))
    fitted = selector(**params).fit(X_train, y[:600], X_val=X_val, y_val=y[600:])
    table = pd.DataFrame(X).add_prefix("f")
    pandas_selector = selector(**params).fit(table[:600], y[:600], X_val=table[600:], y_val=y[600:])
    assert list(fitted.get_feature_names_out()) == list(pandas_selector.get_feature_names_out())
    assert fitted.score_ == pandas_selector.score_
    names = fitted.set_output(transform="polars").transform(frame).columns
    assert {"f0", "f1", "f9"} <= set(names)


def test_sparse_records_are_never_made_dense():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 600)
    X = scipy.sparse.random(600, 8_000, density=0.02, random_state=0, format="csr")
    informative_columns = scipy.sparse.csr_matrix(
        (rng.random((600, 3)) < 0.1 + 0.4 * y[:, None]).astype(float)
    )
    X = scipy.sparse.hstack([informative_columns, X], format="csr")
    tracemalloc.start()
    fitted = HoldoutFeatureSelector(LogisticRegression(), cv=3, random_state=0).fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert {0, 1, 2} <= set(fitted.get_support(indices=True))
    assert peak < 0.4 * 8 * X.shape[0] * X.shape[1]


@FEW_GROUPS
@pytest.mark.parametrize("correlation_name", ["chain", "time", "network", "graph"])
def test_correlated_records_are_divided_by_their_model(data, correlation_name):
    X, y = data
    network = scipy.sparse.diags_array([np.full(799, 0.05)] * 2, offsets=[-1, 1])
    clusters = scipy.sparse.block_diag([np.ones((4, 4)) - np.eye(4)] * 200)
    correlation = {
        "chain": MarkovChain([[0.6, 0.4], [0.4, 0.6]]),
        "time": "time",
        "network": MarkovNetwork(network.tocsr(), influence="data"),
        "graph": clusters.tocsr(),
    }[correlation_name]
    fitted = selector(correlation=correlation).fit(X, y)
    assert {0, 1, 2, 3} <= set(fitted.get_support(indices=True))
    assert fitted.interval_[0] < fitted.score_ < fitted.interval_[1]
    train = fitted.train_indices_
    holdout_rows = fitted.holdout_indices_
    if correlation_name in ("chain", "time"):
        assert train.max() < holdout_rows.min()
    if correlation_name == "graph":
        assert not set(train // 4) & set(holdout_rows // 4)


def test_categories_and_missing_values_are_ranked():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 600)
    frame = pd.DataFrame(rng.standard_normal((600, 10))).add_prefix("f")
    frame["f0"] += 1.5 * y
    frame.loc[::7, "f0"] = np.nan
    frame["f1"] = pd.Categorical(np.where(rng.random(600) < 0.8, y, 1 - y).astype(str))
    trees = HistGradientBoostingClassifier(max_iter=5, categorical_features="from_dtype")
    holdout_selector = HoldoutFeatureSelector(trees, cv=3, random_state=0)
    names = holdout_selector.fit(frame, y).get_feature_names_out()
    assert {"f0", "f1"} <= set(names)


def test_groups_of_features_stay_whole_along_the_path(data):
    groups = [[0, 1, 50], [2, 3]]
    fitted = selector(feature_groups=groups, fixed_features=[9]).fit(*data)
    for columns in fitted.score_path_["features"]:
        assert 9 in columns
        for group in groups:
            assert len(set(group) & set(columns)) in (0, len(group))


@pytest.mark.parametrize(("n_columns", "n_features_to_select"), [(3, "auto"), (6, 3)])
def test_fixed_features_alone_are_verified(data, n_columns, n_features_to_select):
    X, y = data
    fitted = selector(fixed_features=[0, 1, 2], n_features_to_select=n_features_to_select)
    fitted.fit(X[:, :n_columns], y)
    assert fitted.get_support(indices=True).tolist() == [0, 1, 2]
    assert fitted.confirmed_
    low, high = fitted.interval_
    assert f"together they score {fitted.score_:.3g} [{low:.3g}, {high:.3g}]" in str(
        fitted.report()
    )


def test_fixed_features_stay_if_no_subset_is_better(data):
    X, y = data
    holdout_selector = selector(fixed_features=[0, 1, 2, 3])
    with warned(NothingConfirmedWarning, "fixed"):
        assert holdout_selector.fit_transform(X[:, :30], y).shape == (len(y), 4)
    assert not holdout_selector.confirmed_


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
    holdout_selector = HoldoutFeatureSelector(
        LinearRegression(), scoring="neg_mean_absolute_error", cv=3, random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = holdout_selector.fit(X, y)
    assert {0, 1} <= set(fitted.get_support(indices=True))
    labels = np.digitize(X[:, 2] + 0.5 * rng.standard_normal(800), [-0.7, 0.7])
    fitted = selector().fit(X, np.array(["u", "v", "w"])[labels])
    assert 2 in fitted.get_support(indices=True)


def test_a_tree_finds_interactions_that_univariate_scores_miss():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((600, 12))
    y = (X[:, 0] ** 2 + X[:, 1] ** 2 > 1.4).astype(int)
    tree = DecisionTreeClassifier(max_depth=6, random_state=0)
    mutual = functools.partial(mutual_info_classif, random_state=0)
    fitted = HoldoutFeatureSelector(tree, ranking=mutual, cv=3, random_state=0).fit(X, y)
    assert {0, 1} <= set(fitted.get_support(indices=True))


@SEVERAL_HOLDOUTS
def test_units_of_measurement_do_not_change_the_selection(data):
    estimator = make_pipeline(StandardScaler(), LogisticRegression())
    X = data[0][:, :60]
    X_in_other_units = 100.0 + X * np.geomspace(1e-3, 1e3, 60)
    supports = [
        HoldoutFeatureSelector(estimator, cv=3, random_state=0).fit(records, data[1]).support_
        for records in (X, X_in_other_units)
    ]
    np.testing.assert_array_equal(*supports)
    assert supports[0][:4].all()


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
    n_confirmed = 0
    n_missed = 0
    for seed in range(100):
        X, y = make_planted(300, 500, n_true=0, seed=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fitted = selector(random_state=seed).fit(X, y)
        n_confirmed += fitted.confirmed_  # chance is kept by default, but not confirmed
        path = fitted.score_path_  # every model is worth exactly .5 here
        n_missed += ((path["holdout_lower"] > 0.5) | (path["holdout_upper"] < 0.5)).any()
    assert n_confirmed <= 100 * 0.05 + 3 * np.sqrt(100 * 0.05 * 0.95)
    assert n_missed <= 100 * 0.05 + 3 * np.sqrt(100 * 0.05 * 0.95)


def test_errors_for_narrowed_columns_name_the_remedy(data):
    frame = pd.DataFrame(data[0][:, :10]).add_prefix("f")
    y = data[1]
    holdout = ReusableHoldout(frame[600:], y[600:], random_state=0)
    search = ReusableHoldoutSearchCV(GaussianNB(), {"var_smoothing": [1e-9]}, holdout=holdout)
    with refused(ValueError, "ColumnTransformer", "passthrough") as error:
        search.fit(frame[["f0", "f1"]][:600], y[:600])
    assert "added" not in str(error.value)


@pytest.mark.parametrize("scoring", ["roc_auc", "balanced_accuracy"])
def test_constants_are_recognized_by_construction(data, scoring):
    fitted = selector(scoring=scoring).fit(*data)
    assert fitted.confirmed_
    assert has_few_useless_features(fitted)
    path = pd.DataFrame(fitted.score_path_)
    constant = path[path["ranking"] == "constant"].iloc[0]
    assert [constant["holdout_lower"], constant["holdout_upper"]] == [0.5, 0.5]
    assert "a constant prediction scores 0.5 [0.5, 0.5]; shown to be better" in str(fitted.report())


def test_a_frame_takes_few_more_steps_per_column_than_an_array():
    """Calls of Python functions, counted: digests column by column took 1,300 for each."""

    def count_calls(convert, n_features):
        X, y = make_planted(60, n_features)
        profile = cProfile.Profile()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            selector_of_two = selector(n_features_to_select=2)
            profile.runcall(selector_of_two.fit, convert(X), y)
        return sum(entry.callcount for entry in profile.getstats())

    to_frame = lambda X: pd.DataFrame(X).add_prefix("f")  # noqa: E731
    call_growth = [
        count_calls(convert, 1000) - count_calls(convert, 250) for convert in (to_frame, np.asarray)
    ]
    assert call_growth[0] < call_growth[1] + 300 * 750


@SEVERAL_HOLDOUTS
def test_the_number_of_fits_does_not_depend_on_the_number_of_columns():
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
        X, y = make_planted(400, n_features)
        holdout_selector = HoldoutFeatureSelector(Counting(), cv=3, random_state=0)
        holdout_selector.fit(X, y)
        counts.append(Counting.count)
    assert counts[0] == counts[1] < 70
