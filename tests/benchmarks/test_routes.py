"""Routes of the papers beside those of the planner: by hand, inverse to each other, attacked."""

import math
import warnings

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.sparse import csr_array
from scipy.stats import binom

from benchmarks.papers.dwork import dwork_required_n
from benchmarks.papers.posterior import posterior_excess
from benchmarks.papers.routes import (
    COMPARISON_ROUTES,
    certify_by_route,
    floor_required_n,
    plan_by_route,
)
from sklearn_bdp.correlation import DependencyGraph, Groups, Independent, MarkovChain
from sklearn_bdp.planning import certify, plan_holdout
from tests.accounting.routes import noise_tail
from tests.facts import refused
from tests.planning.worlds import BETA, WORLDS, count_failures, make_model

P1 = [[0.9, 0.1], [0.2, 0.8]]
P2 = [[0.9, 0.1], [0.1, 0.9]]


def triples(n):
    """Return a graph of paths of three records."""
    edges = np.zeros((n, n), dtype=bool)
    for i in range(0, n - 2, 3):
        edges[i, i + 1] = edges[i + 1, i] = edges[i + 1, i + 2] = edges[i + 2, i + 1] = True
    return DependencyGraph(csr_array(edges))


# Reference values: n needed by Zhao's Theorem 2 and Hoeffding's floor.
REFERENCE = [
    (0.1, 100, 1, None, 1.165e6, 415),
    (0.1, 100, 1, P1, 7.82e7, 2.4e3),
    (0.05, 1000, 10, None, 5.853e7, 2.1e3),
    (0.05, 1000, 10, P2, 6.48e9, 1.9e4),
]


@pytest.mark.parametrize(("tau", "m", "b", "chain", "zhao", "floor"), REFERENCE)
def test_plans_reproduce_the_reference_table(tau, m, b, chain, zhao, floor):
    common = {"tau": tau, "n_queries": m, "budget": b, "correlation": chain}
    assert plan_by_route(route="zhao2017", **common) == pytest.approx(zhao, rel=2e-3)
    assert plan_by_route(route="floor", **common) == pytest.approx(floor, rel=0.03)


@pytest.mark.parametrize("chain", [None, P1])
@pytest.mark.parametrize(
    "route", ["splitting", "floor", pytest.param("posterior", marks=pytest.mark.slow)]
)
def test_plan_and_certificate_are_inverse(route, chain):
    """Theory C2."""
    common = {"n_queries": 20, "budget": 2, "correlation": chain, "route": route}
    n = plan_by_route(tau=0.15, **common)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert certify_by_route(n, **common).tau <= 0.15
    assert certify_by_route(max(1, int(n * 0.99) - 1), **common).tau > 0.15


@pytest.mark.parametrize("route", COMPARISON_ROUTES)
@pytest.mark.parametrize("name", ["independent", "chain", "groups", "graph", "list"])
@pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.UninformativeIntervalWarning")
def test_every_route_certifies_every_model(route, name):
    n = 3000
    model = {
        "independent": Independent(),
        "chain": MarkovChain(P1),
        "groups": Groups(np.arange(n) // 4),
        "graph": triples(n),
        "list": [Independent(), MarkovChain(P2)],
    }[name]
    settings = {"correlation": model, "n_queries": 10, "budget": 2, "route": route}
    if route == "dwork2017" and name != "independent":
        with refused(ValueError, "route='dwork2017'"):
            certify_by_route(n, **settings)
        return
    certificate = certify_by_route(n, **settings)
    assert 0 < certificate.tau <= 1
    assert certificate.beta == 0.05
    assert certificate.n == n
    assert certificate.route == route
    assert certificate.assumptions


@pytest.mark.parametrize("route", ["best", "transcript", "bdp"])
def test_routes_of_the_package_are_passed_on(route):
    common = {"n_queries": 10, "budget": 1, "route": route}
    assert certify_by_route(10_000, **common) == certify(10_000, **common)
    if route == "transcript":
        assert plan_by_route(tau=0.1, **common) == plan_holdout(tau=0.1, **common)


def test_unknown_routes_raise():
    with refused(ValueError, "route='typo'"):
        certify_by_route(1000, n_queries=10, budget=1, route="typo")
    with refused(ValueError, "route='typo'"):
        plan_by_route(tau=0.1, n_queries=10, budget=1, route="typo")


@pytest.mark.parametrize("c", [0.01, 0.3, 0.9, 0.99])
def test_zhao_theorem_2_for_any_c(c):
    n = plan_by_route(tau=0.1, n_queries=20, budget=1, c=c, route="zhao2017")
    certificate = certify_by_route(n, n_queries=20, budget=1, c=c, route="zhao2017")
    assert certificate.tau == pytest.approx(0.1, rel=1e-6)
    assert certificate.mechanism.threshold == pytest.approx((1 + c) * 0.1 / 2, rel=1e-6)


@pytest.mark.parametrize("c", [None, 0.0])
def test_zhao_route_without_honesty_takes_the_smallest_c(c):
    certificate = certify_by_route(10**6, n_queries=20, budget=1, c=c, route="zhao2017")
    for larger_c in (0.01, 0.5):
        wider = certify_by_route(10**6, n_queries=20, budget=1, c=larger_c, route="zhao2017")
        assert certificate.tau < wider.tau
    assert plan_by_route(tau=0.1, n_queries=20, budget=1, c=c, route="zhao2017") < plan_by_route(
        tau=0.1, n_queries=20, budget=1, c=0.01, route="zhao2017"
    )


def test_floor_and_splitting_by_hand():
    floor = math.log(4000) / 0.02
    assert floor_required_n(tau=0.1, n_queries=100) == pytest.approx(floor)
    common = {"tau": 0.1, "n_queries": 100, "budget": 1}
    assert plan_by_route(**common, route="floor") == math.ceil(floor)
    assert plan_by_route(**common, route="splitting") == 100 * math.ceil(floor)


def test_dwork_constants_follow_from_theorem_4():
    # 6e^{−(τ/8)²n} ≤ β/2m and 2B/(σn) ≤ τ/8 at the n returned, and at none smaller.
    tau = 0.1
    m = 100
    b = 1
    beta = 0.05
    n = dwork_required_n(tau=tau, n_queries=m, budget=b, beta=beta, branch="pure")
    sigma = tau / (96 * math.log(4 * m / beta))
    assert 2 * b / (sigma * n) <= tau / 8 * (1 + 1e-12)
    assert 6 * math.exp(-((tau / 8) ** 2) * n) <= beta / (2 * m)
    assert n == pytest.approx(16 * b / (sigma * tau))
    assert plan_by_route(tau=tau, n_queries=m, budget=b, route="dwork2017") == math.ceil(n)
    required_n_many_queries = dwork_required_n(
        tau=tau, n_queries=10**60, budget=1, beta=beta, branch="pure"
    )
    assert required_n_many_queries >= 64 * math.log(12 * 10**60 / beta) / tau**2
    # The counter-check: at 1 % less the leakage is above τ/8.
    assert 2 * b / (sigma * 0.99 * n) > tau / 8


def test_dwork_approximate_branch_meets_its_theorem_with_equality():
    tau = 0.1
    m = 10**5
    b = 20_000
    beta = 0.05
    n = dwork_required_n(tau=tau, n_queries=m, budget=b, beta=beta, branch="approximate")
    epsilon = tau / 104
    query_epsilon = 2 / (tau / (96 * math.log(4 * m / beta)) * n)
    delta = beta / (2 * m) * epsilon / (2 * math.log(2 / epsilon))
    assert 2 * delta / epsilon * math.log(2 / epsilon) <= beta / (2 * m) * (1 + 1e-12)
    composed = query_epsilon * math.sqrt(
        2 * b * math.log(1 / delta)
    ) + b * query_epsilon * math.expm1(query_epsilon)
    assert composed == pytest.approx(epsilon, rel=1e-9)
    assert n >= 2 * math.log(8 / delta) / epsilon**2


def test_dwork_minimum_of_b_and_root_b():
    common = {"tau": 0.1, "n_queries": 10**5}
    required_n = dwork_required_n(budget=1, **common)
    assert dwork_required_n(budget=3, **common) == pytest.approx(3 * required_n)
    # Far out the square root wins: four times the budget, twice the records.
    required_n_large_budget = dwork_required_n(budget=40_000, **common)
    assert required_n_large_budget < dwork_required_n(budget=40_000, branch="pure", **common)
    assert dwork_required_n(budget=160_000, **common) == pytest.approx(
        2 * required_n_large_budget, rel=1e-2
    )
    assert dwork_required_n(budget=1, tau=0.05, n_queries=10**5) == pytest.approx(4 * required_n)


def test_published_theorems_are_confirmed_before_they_are_repeated():
    for route in ("zhao2017", "dwork2017"):
        n = plan_by_route(tau=0.1, n_queries=100, budget=1, route=route)
        certificate = certify_by_route(n, n_queries=100, budget=1, route=route)
        assert certificate.tau == pytest.approx(0.1, rel=1e-6)
        assert "G1 confirms it" in certificate.notes[0]


def test_splitting_keeps_components_whole():
    # Trees of three records, twenty queries: parts of at least n/20 − 2 records, each third one
    # independent at worst.
    n = 3000
    certificate = certify_by_route(
        n, correlation=triples(n), n_queries=20, budget=1, route="splitting"
    )
    n_effective = (n // 20 - 2) / 3
    assert certificate.tau == pytest.approx(math.sqrt(math.log(2 * 20 / 0.05) / (2 * n_effective)))


@pytest.mark.parametrize(("a", "b"), [(1.0, 2.0), (2.0, 0.5), (1.0, 1.0)])
@pytest.mark.parametrize("z", [0.0, 1.0, 6.0])
def test_posterior_excess_is_the_integral_of_the_tail(a, b, z):
    """Theory G6."""

    def tail(u):
        return noise_tail(u, a, b)

    expected = quad(tail, z, z + 60.0, epsabs=1e-14)[0]
    assert posterior_excess(z, a, b) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("world", "replications"),
    [("groups", 20), *(pytest.param(world, 400, marks=pytest.mark.slow) for world in WORLDS)],
)
def test_posterior_certificates_survive_the_attack(world, replications):
    """C3: 20 runs pass a failure rate of 15% (of 5%) with chance .93 and of 45% with .06."""
    n = 33_600 if world == "chain" else 8_400
    certificate = certify_by_route(
        n, correlation=make_model(world, n), n_queries=16, budget=8, c=None, route="posterior"
    )
    failures = count_failures(certificate, world, replications, columns=15)
    assert failures <= binom.isf(1e-3, replications, BETA)
