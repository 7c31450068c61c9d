"""Other ways to reuse a holdout, measured in one run: ``python -m benchmarks.related_systems``.

Widths: certified half-width at n = 10,000 independent records after ten adaptive searches of 100
candidates (1,000 queries), of which ten need an answer from the holdout; a score near 1/2, failure
probability .05. Each mechanism with its best setting. Speed: answers with noise per second against
OpenDP; (ε, δ) of noise on every answer against the accountant of Google's dp-accounting; fits of a
search against nested cross-validation. Packages that are not installed are left out.
"""

import importlib
import math
import time
import warnings

import numpy as np

from benchmarks.mechanisms import (
    Ladder,
    NoiseAddition,
    ParameterFreeLadder,
    SparseValidate,
    certify_mechanism,
    jung_half_width,
    rogers_half_width,
    rogers_thresholdout_half_width,
)
from benchmarks.papers.routes import certify_by_route
from sklearn_bdp.exceptions import UninformativeIntervalWarning
from sklearn_bdp.planning import certify, expected_half_width

N = 10_000
M = 1000
B = 10


def widths():
    """Yield (name, half-width) of each way, best setting."""
    common = {"n_queries": M, "budget": B}
    splitting = certify_by_route(N, route="splitting", **common)
    yield "new records for every query", splitting.tau
    fixed = certify_by_route(N, route="floor", **common)
    yield "queries fixed in advance (not adaptive)", fixed.tau
    yield "Ladder: best score only", _best(lambda x: Ladder(x), common)
    yield (
        "parameter-free Ladder, 10 moves: best score only",
        certify_mechanism(N, ParameterFreeLadder(), **common).tau,
    )
    yield (
        "SparseValidate at ± 0.02: confirmed values only",
        certify_mechanism(N, SparseValidate(0.02, budget=B), **common).tau,
    )
    for noise in ("laplace", "gaussian"):
        scales = np.geomspace(1e-3, 0.3, 20)
        yield (
            f"{noise} noise on every answer",
            min(
                certify_mechanism(N, NoiseAddition(s, n_queries=M, noise=noise), **common).tau
                for s in scales
            ),
        )
    yield "Gaussian noise, Jung et al. 2020", jung_half_width(N, n_queries=M)
    yield "Gaussian noise, Rogers et al. 2020", rogers_half_width(N, n_queries=M)
    yield (
        "Thresholdout, Rogers et al. 2020",
        rogers_thresholdout_half_width(N, n_queries=M, budget=B),
    )
    published = certify_by_route(N, route="dwork2017", **common)
    yield "Thresholdout, Dwork et al. 2017, Thm 9", published.tau
    yield "Thresholdout, declared (G2)", certify(N, c=None, **common).tau
    year = {"n_candidates": 100, "n_searches": 10, "n_corrections": 1, "score": 0.5}
    yield "ReusableHoldout, last search", expected_half_width(N, final=False, **year)
    yield "ReusableHoldout, final report", expected_half_width(N, **year)


def _best(make, common):
    return min(certify_mechanism(N, make(x), **common).tau for x in np.geomspace(1e-3, 0.2, 30))


def composition():
    """Yield (name, ε) at δ = 1e-6 for 16,000 Laplace answers on 200,000 records."""
    n = 200_000
    m = 16_000
    scale = 0.0147
    delta = 1e-6
    mechanism = NoiseAddition(scale, n_queries=m)
    rho = mechanism.zcdp_rho(1.0 / n)
    yield "sum of pure levels", mechanism.dp_epsilon(1.0 / n)
    yield "zCDP (used here)", rho + 2.0 * math.sqrt(-rho * math.log(delta))
    try:
        pld = importlib.import_module("dp_accounting.pld.privacy_loss_distribution")
    except ImportError:
        return
    loss = pld.from_laplace_mechanism(
        scale, sensitivity=1.0 / n, value_discretization_interval=1e-5
    )
    yield (
        "dp-accounting, privacy loss distribution",
        loss.self_compose(m).get_epsilon_for_delta(delta),
    )


def speed(count=100_000):
    """Yield (name, answers per second) for Laplace noise that is exact on a grid."""
    holdout = np.random.default_rng(0).random(count)
    mechanism = NoiseAddition(0.01, n_queries=2 * count)
    mechanism.answer(holdout, holdout)
    start = time.perf_counter()
    mechanism.answer(holdout, holdout)
    yield "NoiseAddition, one batch", count / (time.perf_counter() - start)
    try:
        dp = importlib.import_module("opendp.prelude")
    except ImportError:
        return
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.l1_distance(T=float)
    laplace = dp.m.make_laplace(*space, scale=0.01)
    start = time.perf_counter()
    laplace(holdout.tolist())
    yield "OpenDP make_laplace, one vector", count / (time.perf_counter() - start)


def fits(candidates=100, folds=5, searches=10):
    """Yield (name, fits) of ten searches with an honest estimate at the end of each."""
    yield "GridSearchCV, no estimate", searches * (candidates * folds + 1)
    yield "nested cross-validation, 5 outer folds", searches * folds * (candidates * folds + 1)
    yield "ReusableHoldoutSearchCV, every candidate verified", searches * candidates * (folds + 1)


def main():
    """Print the four tables."""
    warnings.simplefilter("ignore", UninformativeIntervalWarning)
    print(f"Certified half-width, n = {N:,}, {M:,} adaptive queries, {B} from the holdout")
    for name, width in widths():
        print(f"  {name:<52}{'vacuous' if width >= 0.5 else format(width, '.4f'):>10}")
    print("\nε at δ = 1e-6 of 16,000 Laplace answers of scale .0147 on 200,000 records")
    for name, epsilon in composition():
        print(f"  {name:<52}{epsilon:>10.3f}")
    print("\nAnswers with exact Laplace noise per second (this machine)")
    rates = list(speed())
    for name, rate in rates:
        print(f"  {name:<52}{rate:>10,.0f}   ratio {rate / rates[0][1]:.2g}")
    print("\nFits of ten searches of 100 candidates, five folds")
    for name, count in fits():
        print(f"  {name:<52}{count:>10,}")


if __name__ == "__main__":
    main()
