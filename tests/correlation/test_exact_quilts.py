"""Variable elimination and exact influences against full enumeration."""

import math

import numpy as np
import pytest

from sklearn_bdp.correlation.privacy._tables import (
    component_quilts,
    eliminate,
    max_influence,
    quilt_level,
    quilt_sets,
)

from .oracle import field_distribution

LOOP = {0: {1, 3}, 1: {0, 2}, 2: {1, 3}, 3: {0, 2}}


def loop_factors(seed):
    rng = np.random.default_rng(seed)
    edges = [(0, 1), (1, 2), (3, 2), (0, 3)]
    return [(e, np.exp(rng.normal(size=(2, 2)))) for e in edges] + [((2,), rng.random(2) + 0.1)]


def test_elimination_equals_summation():
    factors = loop_factors(0)
    joint = field_distribution([2] * 4, dict(factors))
    values = dict.fromkeys(range(4), 2)
    for keep in ([0], [2, 0], [1, 3, 0], [3, 2, 1, 0]):
        rest = tuple(v for v in range(4) if v not in keep)
        want = joint.sum(axis=rest).transpose(np.argsort(np.argsort(keep)))
        assert eliminate(factors, keep, values) == pytest.approx(want)


def test_influence_by_hand():
    table = np.array([[0.4, 0.1], [0.1, 0.4]])
    assert max_influence(table, 0) == pytest.approx([math.log(4)])
    with_zero = np.array([[0.5, 0.0], [0.25, 0.25]])
    assert np.isinf(max_influence(with_zero, 0)[0])
    impossible = np.array([[0.5, 0.5], [0.0, 0.0]])
    assert max_influence(impossible, 0) == pytest.approx([0.0])


def test_conditioning_inside_raises_the_influence():
    # X and Q independent, N their parity: only given N does X say anything about Q.
    table = np.zeros((2, 2, 2))
    for x in range(2):
        for q in range(2):
            table[x, (x + q) % 2, q] += 0.25 * 0.9
            table[x, (x + q + 1) % 2, q] += 0.25 * 0.1
    assert max_influence(table, 1) == pytest.approx([0.0, math.log(9)])


def test_quilts_of_a_path_are_one_and_two_sided():
    path = {0: {1}, 1: {0, 2}, 2: {1, 3}, 3: {2, 4}, 4: {3}}
    quilts = {tuple(q): n for n, q in quilt_sets(path, 2)}
    assert quilts[(1, 3)] == []
    assert quilts[(0, 4)] == [1, 3]
    assert quilts[(1,)] == [3, 4]
    assert quilts[(3,)] == [0, 1]


def test_every_quilt_separates():
    for inside, quilt in quilt_sets(LOOP, 0):
        assert 0 not in inside
        assert 0 not in quilt
        reached = {0, *inside}
        assert all(LOOP[v] <= reached | set(quilt) for v in reached)


def test_levels():
    quilts = component_quilts(LOOP, loop_factors(1), dict.fromkeys(range(4), 2))
    assert set(quilts) == {0, 1, 2, 3}
    influences = [np.array([0.1, 0.3])]
    assert quilt_level(influences, 9, 1.0, printed=True) == pytest.approx(2 + 1.2)
    # the larger of 2 e' + 2 (.1) and 1 e' + 2 (.3)
    assert quilt_level(influences, 9, 1.0, printed=False) == pytest.approx(2.2)
    assert quilt_level(influences, 2, 0.1, printed=True) == pytest.approx(0.2)
