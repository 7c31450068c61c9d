"""Associations as bounded queries: both sides compute the same thing, and useless ones give 1/2."""

import numpy as np
import pytest
import scipy.sparse
from scipy import stats

from sklearn_bdp.feature_selection import _rankings
from sklearn_bdp.feature_selection._correlation_filter import (
    associate,
    target_scores,
)

CLIPS = [1.0, 2.0]
TARGETS = {
    "two classes": lambda rng, n: rng.integers(0, 2, n),
    "unbalanced": lambda rng, n: (rng.random(n) < 0.1).astype(int),
    "strings": lambda rng, n: np.where(rng.random(n) < 0.3, "a", "b"),
    "three classes": lambda rng, n: rng.integers(0, 3, n),
    "numbers": lambda rng, n: rng.standard_normal(n) ** 2,
}


def found(X, y, clip, classification=True):
    scores = target_scores(y, classification=classification, clip=clip)
    return scores, associate(X, scores(y), clip=clip, n_effective=len(y))


@pytest.mark.parametrize("clip", CLIPS)
@pytest.mark.parametrize("name", TARGETS)
def test_scores_are_bounded_and_centred_on_the_training_part(name, clip):
    y = TARGETS[name](np.random.default_rng(0), 500)
    scores = target_scores(y, classification=name != "numbers", clip=clip)(y)
    assert np.abs(scores).max() <= 1.0
    np.testing.assert_allclose(scores.mean(axis=0), 0.0, atol=1e-12)


@pytest.mark.parametrize("clip", CLIPS)
@pytest.mark.parametrize("name", TARGETS)
def test_queries_on_the_training_part_give_the_training_side_value(name, clip):
    rng = np.random.default_rng(1)
    y, X = TARGETS[name](rng, 400), rng.standard_normal((400, 7)) ** 3
    scores, association = found(X, y, clip, name != "numbers")
    queries = association.queries(X, scores(y), range(X.shape[1]))
    assert len(queries) == 7
    for place, query in enumerate(queries):
        assert query.per_record.min() >= 0.0
        assert query.per_record.max() <= 1.0
        assert 2 * query.value - 1 == pytest.approx(abs(association.effect[place]))


@pytest.mark.parametrize("clip", CLIPS)
def test_useless_attributes_answer_one_half_whatever_their_distribution(clip):
    rng = np.random.default_rng(2)
    y = TARGETS["unbalanced"](rng, 200_000)
    discrete = (rng.random((200_000, 1)) < 0.1).astype(float)
    skewed = rng.exponential(size=(200_000, 1))
    _, association = found(np.hstack([discrete, skewed]), y, clip)
    assert (np.abs(association.effect) < 5 * association.error).all()


@pytest.mark.parametrize("clip", CLIPS)
def test_p_values_of_useless_attributes_are_small_as_rarely_as_they_say(clip):
    rng = np.random.default_rng(4)
    y, X = rng.integers(0, 3, 1000), rng.standard_normal((1000, 4000))
    _, association = found(X, y, clip)
    p = association.p_values()
    for level in (0.2, 0.05, 0.01, 0.001):
        assert (p <= level).sum() <= stats.binom(4000, level).ppf(0.999)


def test_missing_values_count_as_neither_side():
    rng = np.random.default_rng(5)
    y, X = rng.integers(0, 2, 300), rng.standard_normal((300, 2))
    X[::3, 0] = np.nan
    for clip in CLIPS:
        scores, association = found(X, y, clip)
        query = association.queries(X, scores(y), range(X.shape[1]))[0]
        assert (query.per_record[::3] == 0.5).all()


def test_sparse_and_dense_agree_in_blocks_of_any_size(monkeypatch):
    rng = np.random.default_rng(6)
    y, X = rng.integers(0, 2, 100), rng.standard_normal((100, 11)) * (rng.random((100, 11)) < 0.5)
    scores, whole = found(X, y, 2.0)
    monkeypatch.setattr(_rankings, "_BLOCK", 300)
    _, pieces = found(scipy.sparse.csr_matrix(X), y, 2.0)
    np.testing.assert_allclose(pieces.effect, whole.effect)
    queries = pieces.queries(scipy.sparse.csc_matrix(X), scores(y), range(11))
    assert [q.value for q in queries] == pytest.approx(list((1 + np.abs(whole.effect)) / 2))
