"""Associations of the training set: useless ones are 0 for any distribution."""

import numpy as np
import pytest
import scipy.sparse
from scipy import stats

from sklearn_bdp.feature_selection import HoldoutCorrelationFilter

CLIPS = [1.0, 2.0]
TARGETS = {
    "two classes": lambda rng, n: rng.integers(0, 2, n),
    "unbalanced": lambda rng, n: (rng.random(n) < 0.1).astype(int),
    "strings": lambda rng, n: np.where(rng.random(n) < 0.3, "a", "b"),
    "three classes": lambda rng, n: rng.integers(0, 3, n),
    "numbers": lambda rng, n: rng.standard_normal(n) ** 2,
}

pytestmark = pytest.mark.filterwarnings(
    "ignore::sklearn_bdp.exceptions.NothingConfirmedWarning"  # most attributes here are useless
)


def fit_filter(X, y, clip=2.0):
    return HoldoutCorrelationFilter(clip=clip, holdout=None).fit(X, y)


def expected_associations(X, y, clip):
    """Return associations by definition: scores of attributes times centered scores of targets."""
    b = np.clip((X - np.nanmean(X, axis=0)) / (clip * np.nanstd(X, axis=0)), -1.0, 1.0)
    if y.dtype.kind == "f":
        raw = np.clip((y - y.mean()) / (clip * y.std()), -1.0, 1.0)[:, None]
    else:
        classes = np.unique(y)
        raw = np.where(y[:, None] == classes[1 if len(classes) == 2 else 0 :], 1.0, -1.0)
    scores = (raw - raw.mean(axis=0)) / (1.0 + np.abs(raw.mean(axis=0)))
    products = np.nan_to_num(b)[:, :, None] * scores[:, None, :]
    clearest = np.argmax(np.abs(products.mean(axis=0)) / products.std(axis=0), axis=1)
    return products.mean(axis=0)[np.arange(X.shape[1]), clearest]


@pytest.mark.parametrize("clip", CLIPS)
@pytest.mark.parametrize("name", TARGETS)
def test_associations_are_mean_products_of_clipped_scores(name, clip):
    rng = np.random.default_rng(1)
    y = TARGETS[name](rng, 400)
    X = rng.standard_normal((400, 7)) ** 3
    X[::3, 0] = np.nan  # counts as neither side
    associations = fit_filter(X, y, clip).training_associations_
    np.testing.assert_allclose(associations, expected_associations(X, y, clip), atol=1e-12)


@pytest.mark.parametrize("clip", CLIPS)
def test_p_values_of_useless_attributes_are_valid(clip):
    """Missed are p-values that are a tenth too small at .2, or three times too small at .001."""
    rng = np.random.default_rng(4)
    y = rng.integers(0, 3, 1000)
    X = rng.standard_normal((1000, 4000))
    p = fit_filter(X, y, clip).pvalues_
    for level in (0.2, 0.05, 0.01, 0.001):
        assert (p <= level).sum() <= stats.binom(4000, level).ppf(0.999)


def test_rare_and_skewed_attributes_are_worth_nothing_to_a_rare_class():
    rng = np.random.default_rng(2)
    y = TARGETS["unbalanced"](rng, 200_000)
    discrete = (rng.random((200_000, 1)) < 0.1).astype(float)
    fitted_filter = fit_filter(np.hstack([discrete, rng.exponential(size=(200_000, 1))]), y)
    assert (fitted_filter.pvalues_ > 1e-6).all()
    assert (np.abs(fitted_filter.training_associations_) < 0.005).all()


def test_sparse_and_dense_agree_in_blocks():
    rng = np.random.default_rng(6)
    y = rng.integers(0, 2, 3000)
    X = rng.standard_normal((3000, 800)) * (rng.random((3000, 800)) < 0.5)  # three blocks of 8 MB
    dense_filter = fit_filter(X, y)
    sparse_filter = fit_filter(scipy.sparse.csr_matrix(X), y)
    np.testing.assert_allclose(
        sparse_filter.training_associations_, dense_filter.training_associations_
    )
    np.testing.assert_allclose(
        dense_filter.training_associations_, expected_associations(X, y, 2.0), atol=1e-12
    )
