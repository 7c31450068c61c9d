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
        self.hits, self.labels = hits, labels

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
    chooser = HoldoutFeatureSelector(Scripted(script, labels), **options)
    held = np.arange(len(labels)) >= N
    if not held.any():
        return chooser.fit(X, labels)
    return chooser.fit(X[~held], labels[~held], X_val=X[held], y_val=labels[held])


def path(scores):
    """Return hits in each size, as many of each class."""
    rng = np.random.default_rng(0)
    order = np.stack([rng.permutation(N // 2) for _ in range(2)], axis=1).ravel()
    return [order < round(score * N / 2) for score in scores]


def kept(scores, **params):
    return selected(path(scores), **params).n_features_to_select_


def test_a_lucky_peak_loses_to_a_plateau():
    scores = [0.60, 0.70, 0.58, 0.69, 0.695, 0.69, 0.60]
    assert kept(scores, tol=0.0) == 2  # as asked for: the largest score
    assert kept(scores) == 6


def test_of_equal_subsets_the_smaller_one_is_selected():
    assert kept([0.7] * 4) == 1


def test_a_tolerance_takes_the_smallest_subset_within_it():
    scores = [0.60, 0.66, 0.70, 0.71]
    assert kept(scores, tol=0.05) == 2
    assert kept(scores, tol=0.2) == 1


def independent(rng, lead, n=N):
    """Return hits that are ahead of one half by so many standard errors."""
    hits = np.arange(n) < n * (0.5 + lead * 0.5 / np.sqrt(n))
    return rng.permutation(hits)


@pytest.mark.parametrize(("lead", "sure"), [(2.0, False), (3.2, True)])
def test_overlapping_folds_ask_for_half_as_much_again(lead, sure):
    """One subset: 1.64 standard errors, times 1.5 for five folds."""
    hits = independent(np.random.default_rng(1), lead)
    assert selected([hits]).confirmed_ == sure


def test_what_chance_explains_counts_alike_subsets_once():
    """One subset many times over is one try; independent ones are as many as there are."""
    rng = np.random.default_rng(1)
    best = independent(rng, 3.2)
    assert selected([best] * 14, tol=0.0).confirmed_
    others = [independent(rng, 0.0) for _ in range(13)]
    assert not selected([best, *others], tol=0.0).confirmed_


def told(share, lead, seed):
    """Return labels, and hits of predictions that know a part of them."""
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.arange(N) < round(share * N)).astype(int)
    return labels, (rng.random(N) < lead) | (rng.random(N) < 0.5)


def test_a_lucky_constant_is_no_yardstick_for_what_predictions_know():
    """With 58% of one class by luck, little can be sure beside the constant: not .64."""
    labels, hits = told(0.58, 0.27, seed=0)
    ahead = hits.astype(float) - labels
    assert 0.0 < ahead.mean() < 1.64 * ahead.std() / np.sqrt(N)
    assert selected([hits], labels).confirmed_


def test_what_predictions_know_must_make_them_better_than_the_constant():
    labels, hits = told(0.9, 0.4, seed=0)
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
    chooser = selected([hits], labels, holdout=0.5)
    assert chooser.confirmed_ == helps
    assert ("shown to be better" in str(chooser.report())) == proved


def test_noise_is_told_with_a_warning():
    with warned(NothingConfirmedWarning):
        selected(path([0.5, 0.5]), holdout=0.25)


def scored(rows, index, kind="classes", counted=None):
    """Return raw scores by class, as an evaluation of training records holds them."""
    shape = SimpleNamespace(kind=kind, classes=range(index.max() + 1), counted=counted)
    return SimpleNamespace(rows=np.asarray(rows, dtype=float), index=index, shape=shape)


def test_contributions_to_an_area_are_its_mean_and_delongs_variance():
    rng = np.random.default_rng(0)
    index, rows = (rng.random(80) < 0.3).astype(int), np.round(rng.standard_normal(80), 1)
    found = influence_values(scored(rows + index, index, "pairs"))
    assert found.mean() == pytest.approx(roc_auc_score(index, rows + index))
    won = (rows + index)[index == 1][:, None] - (rows + index)[index == 0][None, :]
    won = (won > 0) + 0.5 * (won == 0)
    delong = (
        won.mean(axis=1).var() / (index == 1).sum() + won.mean(axis=0).var() / (index == 0).sum()
    )
    assert found.var() / 80 == pytest.approx(delong)


def test_contributions_to_recalls_are_their_mean_and_leave_other_classes_alone():
    rng = np.random.default_rng(1)
    index = rng.permutation(np.repeat([0, 1, 2], [30, 10, 5]))
    hits = (rng.random(45) < 0.6).astype(float)
    recalls = np.array([hits[index == one].mean() for one in range(3)])
    found = influence_values(scored(hits, index))
    assert found.mean() == pytest.approx(recalls.mean())
    assert found.var() / 45 == pytest.approx(
        sum(hits[index == one].var() / (index == one).sum() for one in range(3)) / 9
    )
    alone = influence_values(scored(hits, index, counted=(1,)))
    assert alone.mean() == pytest.approx(recalls[1])
    np.testing.assert_allclose(alone[index != 1], recalls[1])
