from benchmarks.mechanisms import jung_half_width, rogers_half_width, rogers_thresholdout_half_width
from sklearn_bdp.planning import certify
from tests.facts import refused


def test_published_noise_addition_needs_more_than_transcripts():
    # 400 queries, all answered from the holdout, n = 100,000.
    tau = certify(100_000, n_queries=400, budget=400, c=None).tau
    assert tau < rogers_half_width(100_000, n_queries=400)
    assert tau < jung_half_width(100_000, n_queries=400)


def test_published_thresholdout_is_far_from_the_as_used_width():
    published = rogers_thresholdout_half_width(10_000, n_queries=1000, budget=10)
    assert published > 0.3
    assert certify(10_000, n_queries=1000, budget=10, c=None).tau < 0.1 < published


def test_widths_shrink_with_records_and_grow_with_queries():
    for width in (rogers_half_width, jung_half_width):
        assert width(10_000, n_queries=100) > width(100_000, n_queries=100)
        assert width(100_000, n_queries=400) > width(100_000, n_queries=100)


def test_unknown_noise_raises():
    with refused(ValueError, "noise"):
        jung_half_width(100, n_queries=1, noise="cauchy")
