"""Choice of a subset and the messages about it, with models whose hits are scripted."""

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import roc_auc_score

from sklearn_bdp.exceptions import NothingConfirmedWarning
from sklearn_bdp.feature_selection import HoldoutFeatureSelector, influence_values
from tests.facts import warned

N = 400
BALANCED = np.arange(N) % 2
SIZES = (1, 2, 3, 4, 6, 8, 11, 16, 23, 32, 45, 64, 91, 128)

pytestmark = pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.NothingConfirmedWarning")


class Scripted(ClassifierMixin, BaseEstimator):
    """A classifier that is right where its script says so; the first column numbers the records."""

    def __init__(self, hits=None, labels=None):
        self.hits = hits
        self.labels = labels

    def fit(self, X, y):
        self.classes_ = np.array([0, 1])
        return self

    def predict(self, X):
        rows = X[:, 0].astype(int)
        return np.where(self.hits[X.shape[1]][rows], self.labels[rows], 1 - self.labels[rows])


def selected(hits, labels=BALANCED, **params):
    """Fit a selector whose subsets are right on these records; ``hits``: a row for each size."""
    script = dict(zip(SIZES, np.asarray(hits, dtype=bool), strict=False))
    columns = SIZES[len(script) - 1]
    X = np.zeros((len(labels), columns))
    X[:, 0] = np.arange(len(labels))
    descending = lambda X, y: -np.arange(X.shape[1])  # noqa: E731
    options = {"ranking": descending, "cv": 5, "holdout": None, "random_state": 0} | params
    selector = HoldoutFeatureSelector(Scripted(script, labels), **options)
    in_holdout = np.arange(len(labels)) >= N
    if not in_holdout.any():
        return selector.fit(X, labels)
    return selector.fit(
        X[~in_holdout], labels[~in_holdout], X_val=X[in_holdout], y_val=labels[in_holdout]
    )


def path(scores):
    """Return hits in each size, as many of each class."""
    rng = np.random.default_rng(0)
    order = np.stack([rng.permutation(N // 2) for _ in range(2)], axis=1).ravel()
    return [order < round(score * N / 2) for score in scores]


def kept(scores, **params):
    return selected(path(scores), **params).n_features_to_select_


def test_a_lucky_peak_loses_to_a_plateau():
    scores = [0.60, 0.70, 0.58, 0.69, 0.695, 0.69, 0.60]
    assert kept(scores, tol=0.0) == 2  # tol=0: the largest score
    assert kept(scores) == 6


def test_of_equal_subsets_the_smaller_one_is_selected():
    assert kept([0.7] * 4) == 1


def test_a_tolerance_takes_the_smallest_subset_within_it():
    scores = [0.60, 0.66, 0.70, 0.71]
    assert kept(scores, tol=0.05) == 2
    assert kept(scores, tol=0.2) == 1


def independent_hits_of(rng, lead, n=N):
    """Return hits that are ahead of one half by so many standard errors."""
    hits = np.arange(n) < n * (0.5 + lead * 0.5 / np.sqrt(n))
    return rng.permutation(hits)


@pytest.mark.parametrize(("standard_errors", "is_confirmed"), [(2.0, False), (3.2, True)])
def test_overlapping_folds_need_one_and_a_half_times_the_gain(standard_errors, is_confirmed):
    """One subset: 1.64 standard errors, times 1.5 for five folds."""
    hits = independent_hits_of(np.random.default_rng(1), standard_errors)
    assert selected([hits]).confirmed_ == is_confirmed


def test_equal_subsets_count_once_in_the_correction_for_chance():
    """One subset many times over is one try; independent ones are as many as there are."""
    rng = np.random.default_rng(1)
    best_hits = independent_hits_of(rng, 3.2)
    assert selected([best_hits] * 14, tol=0.0).confirmed_
    independent_hits = [independent_hits_of(rng, 0.0) for _ in range(13)]
    assert not selected([best_hits, *independent_hits], tol=0.0).confirmed_


def labels_and_hits(positive_fraction, known_fraction, seed):
    """Return labels, and hits of predictions that know a part of them."""
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.arange(N) < round(positive_fraction * N)).astype(int)
    return labels, (rng.random(N) < known_fraction) | (rng.random(N) < 0.5)


def test_predictions_are_compared_with_chance_and_not_with_a_lucky_constant():
    """With 58% of one class by luck, little can be sure beside the constant: not .64."""
    labels, hits = labels_and_hits(0.58, 0.27, seed=0)
    gain_over_constant = hits.astype(float) - labels
    assert 0.0 < gain_over_constant.mean() < 1.64 * gain_over_constant.std() / np.sqrt(N)
    assert selected([hits], labels).confirmed_


def test_informative_predictions_must_beat_the_constant():
    labels, hits = labels_and_hits(0.9, 0.4, seed=0)
    assert hits[labels == 1].mean() + hits[labels == 0].mean() > 1.3
    assert not selected([hits], labels).confirmed_


@pytest.mark.filterwarnings(
    "ignore::sklearn_bdp.exceptions.OptimisticScoreWarning"
)  # as it is meant
@pytest.mark.parametrize(
    ("released", "helps", "proved"), [(0.38, False, False), (0.62, True, False), (0.9, True, True)]
)
def test_the_holdout_has_to_agree_that_the_selected_subset_helps(released, helps, proved):
    labels = np.arange(2 * N) % 2
    hits = np.concatenate([path([0.75])[0], path([released])[0]])
    holdout_selector = selected([hits], labels, holdout=0.5)
    assert holdout_selector.confirmed_ == helps
    assert ("shown to be better" in str(holdout_selector.report())) == proved


def test_the_fallback_is_not_called_better_because_the_chosen_subset_is():
    """The chosen subset has a lucky holdout, but not enough hits in the training set."""
    labels = np.arange(2 * N) % 2
    hits = [np.concatenate(path(scores)) for scores in ([0.5, 0.5], [0.54, 0.95])]
    fitted = selected(hits, labels, holdout=0.5)
    assert not fitted.confirmed_
    assert fitted.n_features_to_select_ == 1
    verified_path = fitted.score_path_
    assert verified_path["holdout_lower"][2] > verified_path["holdout_upper"][0]
    assert "the intervals do not separate them" in str(fitted.report())
    assert "shown to be better" not in str(fitted.report())


@pytest.mark.parametrize("name", ["stable", "constant", "ranked", "univariate"])
@pytest.mark.parametrize("n_features", ["auto", "stable", 2])
def test_the_name_of_a_score_function_has_no_effect(name, n_features):
    """The names are those of other rankings and subsets."""

    def descending(X, y):
        return -np.arange(X.shape[1])

    scores = [0.6, 0.7, 0.8, 0.8]
    expected = selected(path(scores), ranking=descending, n_features_to_select=n_features)
    descending.__name__ = name
    fitted = selected(path(scores), ranking=descending, n_features_to_select=n_features)
    assert fitted.support_.tolist() == expected.support_.tolist()
    assert fitted.confirmed_ == expected.confirmed_
    np.testing.assert_array_equal(fitted.score_path_["cv_score"], expected.score_path_["cv_score"])
    assert fitted.score_path_["ranking"][1] == name


def test_selection_on_noise_gives_a_warning():
    with warned(NothingConfirmedWarning):
        selected(path([0.5, 0.5]), holdout=0.25)


def class_scores(rows, index, shape_kind="classes", counted_classes=None):
    """Return raw scores by class, as an evaluation of training records holds them."""
    shape = SimpleNamespace(
        kind=shape_kind, classes=range(index.max() + 1), counted_classes=counted_classes
    )
    return SimpleNamespace(
        record_values=np.asarray(rows, dtype=float), class_index=index, shape=shape
    )


def test_contributions_to_an_area_are_its_mean_and_delongs_variance():
    rng = np.random.default_rng(0)
    index = (rng.random(80) < 0.3).astype(int)
    rows = np.round(rng.standard_normal(80), 1)
    influence = influence_values(class_scores(rows + index, index, "pairs"))
    assert influence.mean() == pytest.approx(roc_auc_score(index, rows + index))
    wins = (rows + index)[index == 1][:, None] - (rows + index)[index == 0][None, :]
    wins = (wins > 0) + 0.5 * (wins == 0)
    delong = (
        wins.mean(axis=1).var() / (index == 1).sum() + wins.mean(axis=0).var() / (index == 0).sum()
    )
    assert influence.var() / 80 == pytest.approx(delong)


def test_contributions_to_recalls_are_their_mean_and_leave_other_classes_alone():
    rng = np.random.default_rng(1)
    index = rng.permutation(np.repeat([0, 1, 2], [30, 10, 5]))
    hits = (rng.random(45) < 0.6).astype(float)
    recalls = np.array([hits[index == label].mean() for label in range(3)])
    influence = influence_values(class_scores(hits, index))
    assert influence.mean() == pytest.approx(recalls.mean())
    assert influence.var() / 45 == pytest.approx(
        sum(hits[index == label].var() / (index == label).sum() for label in range(3)) / 9
    )
    influence_on_one_class = influence_values(class_scores(hits, index, counted_classes=(1,)))
    assert influence_on_one_class.mean() == pytest.approx(recalls[1])
    np.testing.assert_allclose(influence_on_one_class[index != 1], recalls[1])
