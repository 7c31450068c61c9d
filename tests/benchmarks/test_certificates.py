import itertools
import math

import numpy as np
import pytest

from benchmarks.mechanisms import (
    DataSplitting,
    Ladder,
    MultiplicativeWeights,
    NoiseAddition,
    ParameterFreeLadder,
    SparseValidate,
    certify_mechanism,
    jung_half_width,
    ladder_log_transcripts,
    sparse_validate_log_transcripts,
)
from sklearn_bdp.correlation import MarkovChain
from sklearn_bdp.mechanisms import Thresholdout
from sklearn_bdp.planning import certify
from tests.facts import refused


@pytest.mark.parametrize(("m", "n_values"), [(1, 3), (4, 2), (5, 4)])
def test_ladder_transcripts_by_enumeration(m, n_values):
    count = 0
    for n_earlier in range(m):  # submission number earlier + 1, after every possible history
        for moves in itertools.product([False, True], repeat=n_earlier):
            count += math.comb(n_values, sum(moves))
    assert math.exp(ladder_log_transcripts(m, n_values)) == pytest.approx(count)


@pytest.mark.parametrize(("m", "n_values"), [(1, 3), (4, 2), (5, 4)])
def test_ladder_transcripts_with_repeats_by_enumeration(m, n_values):
    count = 0
    for n_earlier in range(m):
        for moves in itertools.product([False, True], repeat=n_earlier):
            count += sum(
                1 for _ in itertools.combinations_with_replacement(range(n_values), sum(moves))
            )
    assert math.exp(ladder_log_transcripts(m, n_values, repeats=True)) == pytest.approx(count)


def test_parameter_free_ladder_repeats_releases_and_they_are_counted():
    # Constant scores: no spread, so each beats the board, and all round to .5.
    scores = np.repeat([[0.46], [0.54], [0.52], [0.51]], 10, axis=1)
    answers = ParameterFreeLadder().answer(np.zeros(4), scores)
    assert answers.values.tolist() == [0.5] * 4
    assert answers.above.tolist() == [True, True, True, True]


@pytest.mark.parametrize("grid", [[0.0, 1.0], [0.0, 0.4, 0.6, 1.0]])
def test_every_transcript_of_the_parameter_free_ladder_is_counted(grid):
    # All holdouts and all sequences of three submissions on two records, played out: no more
    # distinct transcripts than counted, at every length, and some of them repeat a release.
    n = 2
    transcripts = [set(), set(), set()]
    has_repeats = False
    submissions = list(itertools.product(grid, repeat=n))
    for submitted_scores in itertools.product(submissions, repeat=3):
        answers = ParameterFreeLadder().answer(np.zeros(3), np.array(submitted_scores))
        transcript = tuple(zip(answers.above.tolist(), answers.values.tolist(), strict=True))
        for length in range(3):
            transcripts[length].add(transcript[:length])
        released = [value for above, value in transcript if above]
        has_repeats |= len(set(released)) < len(released)
    transcript_bound = math.exp(ladder_log_transcripts(3, n + 1, repeats=True))
    assert sum(map(len, transcripts)) <= transcript_bound * (1 + 1e-12)
    assert has_repeats == (len(grid) > 2)


@pytest.mark.parametrize(("m", "budget"), [(1, 1), (6, 2), (6, 6)])
def test_sparse_validate_transcripts_by_enumeration(m, budget):
    count = sum(
        1
        for n_earlier in range(m)
        for bits in itertools.product([0, 1], repeat=n_earlier)
        if sum(bits) < budget
    )
    assert math.exp(sparse_validate_log_transcripts(m, budget)) == pytest.approx(count)


MECHANISMS = [
    Ladder(0.02),
    ParameterFreeLadder(),
    SparseValidate(0.05, budget=3),
    DataSplitting(30),
    NoiseAddition(0.01, n_queries=30),
    NoiseAddition(0.01, n_queries=30, noise="gaussian"),
    NoiseAddition(0.01, n_queries=30, resolution=0.02),
]


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda m: type(m).__name__)
def test_every_cited_mechanism_has_a_certificate(mechanism):
    certificate = certify_mechanism(20_000, mechanism, n_queries=30, budget=3)
    assert 0 < certificate.tau < 0.5
    assert certificate.mechanism is mechanism
    assert "holds if" in str(certificate)
    larger = certify_mechanism(80_000, mechanism, n_queries=30, budget=3)
    assert larger.tau < certificate.tau
    # The library itself asks a holdout through Thresholdout only.
    with refused(TypeError, "mechanism", "Thresholdout"):
        certify(20_000, n_queries=30, budget=3, mechanism=mechanism)
    with refused(ValueError, "n_queries=0"):
        certify_mechanism(20_000, mechanism, n_queries=0, budget=3)


def test_certificates_reject_unsupported_arguments():
    chain = MarkovChain([[0.9, 0.1], [0.2, 0.8]])
    with refused(ValueError, "DataSplitting"):
        certify_mechanism(1000, DataSplitting(3), n_queries=3, budget=1, correlation=chain)
    gaussian = NoiseAddition(0.01, n_queries=3, noise="gaussian")
    with refused(ValueError, "resolution"):
        certify_mechanism(1000, gaussian, n_queries=3, budget=1, correlation=chain)
    with refused(ValueError, "n_queries=3", "n_queries=4"):
        certify_mechanism(1000, DataSplitting(3), n_queries=4, budget=1)


def test_ladder_certificate_holds_under_resubmission_attack():
    # Submit random labelings, keep those that move the board, submit their majority.
    n = 400
    m = 40
    replications = 200
    failures = 0
    rng = np.random.default_rng(0)
    certificate = certify_mechanism(n, Ladder(0.05), n_queries=m, budget=m)
    for _ in range(replications):
        ladder = Ladder(0.05)
        accepted_bits = []
        for _ in range(m - 1):
            random_bits = rng.integers(0, 2, n)
            if ladder.answer(0.5, random_bits.mean()).above:
                accepted_bits.append(random_bits)
        majority = (np.mean(accepted_bits, axis=0) > 0.5).astype(float)
        released = float(ladder.answer(0.5, majority.mean()).values)
        failures += abs(released - 0.5) > certificate.tau  # every submission is worth 1/2
    assert failures / replications <= 0.05


def test_multiplicative_weights_has_the_certificate_of_its_thresholdout():
    rule = Thresholdout(
        0.05, threshold_scale=1e-3, query_scale=1e-3, answer_scale=1e-3, budget=3, resolution=0.02
    )
    mechanism = MultiplicativeWeights([0.5, 0.5], rule)
    certificate = certify_mechanism(20_000, mechanism, n_queries=30, budget=3)
    rule_certificate = certify(20_000, n_queries=30, budget=3, mechanism=rule)
    assert certificate == rule_certificate
    assert certificate.mechanism is mechanism


def test_laplace_noise_composes_strongly_on_independent_records():
    # n = 200,000 and 16,000 queries: the sum of pure levels proves nothing, √m does.
    n = 200_000
    m = 16_000
    laplace = certify_mechanism(n, NoiseAddition(0.0147, n_queries=m), n_queries=m, budget=m)
    gaussian = NoiseAddition(0.0215, n_queries=m, noise="gaussian")
    assert laplace.tau < 0.49
    assert certify_mechanism(n, gaussian, n_queries=m, budget=m).tau < 0.28
    # Four times the queries cost twice the records with the noise at hand, not four times.
    assert jung_half_width(n, n_queries=m, noise="laplace") <= laplace.tau
    wider = jung_half_width(2 * n, n_queries=4 * m, noise="laplace")
    assert wider == pytest.approx(jung_half_width(n, n_queries=m, noise="laplace"), rel=0.1)


def test_laplace_zcdp_level_by_integration():
    # Bun and Steinke 2016, Prop. 1.4: Rényi divergences of the Laplace mechanism are at most a·ρ,
    # ρ = (Δ/σ)²/2; here by quadrature of the divergence itself.
    from scipy.integrate import quad

    shift = 0.7
    rho = NoiseAddition(1.0, n_queries=1).zcdp_rho(shift)
    for order in (1.5, 2.0, 4.0, 16.0):
        segments = [(-40.0, 0.0), (0.0, shift), (shift, 40.0)]

        def density(y, order=order):
            return 0.5 * math.exp(-order * abs(y) - (1 - order) * abs(y - shift))

        moment = sum(quad(density, *segment)[0] for segment in segments)
        assert math.log(moment) / (order - 1) <= order * rho + 1e-9
