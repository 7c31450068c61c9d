import copy
import json
import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from sklearn_bdp.mechanisms import Thresholdout
from sklearn_bdp.mechanisms.thresholdout import to_cell
from tests.facts import refused

SCALES = {"threshold_scale": 0.05, "query_scale": 0.1, "answer_scale": 0.05}


def make(threshold=0.2, *, random_state=0, **options):
    return Thresholdout(threshold, random_state=random_state, **{**SCALES, **options})


def disagreeing(m, seed=0):
    """Return training values far outside the range of holdout values."""
    return np.full(m, -50.0), np.random.default_rng(seed).random(m)


def queries(m, seed=0):
    rng = np.random.default_rng(seed)
    holdout = rng.random(m)
    return np.clip(holdout + rng.normal(0, 0.2, m), 0, 1), holdout


def concatenate(batches):
    return {
        field: np.concatenate([np.atleast_1d(getattr(batch, field)) for batch in batches])
        for field in ("values", "above", "answered")
    }


def assert_same(answers, expected):
    for field in ("values", "above", "answered"):
        np.testing.assert_array_equal(getattr(answers, field), expected[field])


# -- Batches ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("refresh", [True, False])
@pytest.mark.parametrize("budget", [None, 3])
def test_batch_and_single_queries_have_the_same_answers(noise, refresh, budget):
    training, holdout = queries(3000)
    options = {"noise": noise, "refresh": refresh, "budget": budget, "resolution": 0.03}
    batch_answers = make(**options).answer(training, holdout)
    mechanism = make(**options)
    answers = [mechanism.answer(*query) for query in zip(training, holdout, strict=True)]
    assert_same(batch_answers, concatenate(answers))


@settings(max_examples=15, deadline=None)
@given(
    cuts=st.lists(st.integers(0, 3000), max_size=6),
    refresh=st.booleans(),
    threshold=st.sampled_from([0.0, 0.1, 0.6]),
)
def test_answers_do_not_depend_on_how_queries_are_batched(cuts, refresh, threshold):
    training, holdout = queries(3000, seed=1)
    thresholds = threshold + np.linspace(0, 0.1, 3000)
    answers = make(refresh=refresh).answer(training, holdout, thresholds=thresholds)
    mechanism = make(refresh=refresh)
    batches = [
        mechanism.answer(training[batch], holdout[batch], thresholds=thresholds[batch])
        for batch in np.split(np.arange(3000), sorted(cuts))
    ]
    assert_same(answers, concatenate(batches))


@pytest.mark.parametrize("budget", [None, 4])
def test_runs_end_with_the_first_above_and_add_up_to_the_batch(budget):
    training, holdout = queries(5000)
    answers = make(budget=budget).answer(training, holdout)
    mechanism = make(budget=budget)
    runs = []
    start = 0
    while start < 5000:
        run = mechanism.answer_run(training[start:], holdout[start:])
        assert not run.above[:-1].any()
        runs.append(run)
        start += len(run)
    assert_same(answers, concatenate(runs))


def reference(rng, training, holdout, *, threshold, budget, refresh):
    """Return the pattern of the algorithm as printed (theory T1), in doubles."""
    level = threshold + rng.laplace(0, SCALES["threshold_scale"])
    above = []
    for v, q in zip(training, holdout, strict=True):
        if budget < 1:
            break
        if abs(q - v) + rng.laplace(0, SCALES["query_scale"]) > level:
            budget -= 1
            if refresh:
                level = threshold + rng.laplace(0, SCALES["threshold_scale"])
            above.append(True)
        else:
            above.append(False)
    return above


@pytest.mark.parametrize("refresh", [True, False])
def test_patterns_of_above_follow_the_distribution_of_the_algorithm(refresh):
    replications = 700
    holdout = np.array([0.1, 0.25, 0.05, 0.3, 0.15])
    training = np.zeros(holdout.size)
    rng = np.random.default_rng(5)
    columns = {}
    tables = np.zeros((2, 64), dtype=int)
    for _ in range(replications):
        mechanism = make(budget=2, refresh=refresh, random_state=rng)
        answers = mechanism.answer(training, holdout)
        expected = reference(rng, training, holdout, threshold=0.2, budget=2, refresh=refresh)
        for row, pattern in enumerate((answers.above[answers.answered], expected)):
            tables[row, columns.setdefault(tuple(pattern), len(columns))] += 1
    tables = tables[:, tables.sum(axis=0) >= 10]
    assert stats.chi2_contingency(tables).pvalue > 1e-3


def all_below(margins, *, threshold, distribution):
    """Return P[all queries below] by integration over the threshold noise."""

    def integrand(t):
        level = threshold + t
        return distribution.pdf(t, scale=SCALES["threshold_scale"]) * np.prod(
            distribution.cdf(level - margins, scale=SCALES["query_scale"])
        )

    return integrate.quad(integrand, -2, 2, points=[0.0], limit=200)[0]


@pytest.mark.parametrize(
    ("noise", "distribution"), [("laplace", stats.laplace), ("gaussian", stats.norm)]
)
def test_probability_of_all_below_matches_the_integral(noise, distribution):
    # One call holds 15,000 rounds: a training value of -50 is above and ends each.
    margins = np.array([0.05, 0.1, 0.0])
    rounds = 15_000
    holdout = np.tile(np.append(margins, 0.5), rounds)
    training = np.tile([0.0, 0.0, 0.0, -50.0], rounds)
    above = make(noise=noise).answer(training, holdout).above
    above = above.reshape(rounds, 4)
    assert above[:, 3].all()
    rate = (~above[:, :3].any(axis=1)).mean()
    # A hit refreshes the level, but "no hit so far" has seen one level only.
    exact = all_below(margins, threshold=0.2, distribution=distribution)
    assert abs(rate - exact) < 4 * math.sqrt(exact * (1 - exact) / rounds)


@pytest.mark.parametrize("gap", [-16, 0, 16])
def test_comparisons_too_close_for_doubles_follow_the_distribution(gap):
    # Noise of a few steps of the grid: about half of the queries take the exact route.
    step = 2.0**-44
    m = 50
    mechanism = make(0.25, threshold_scale=0.0, query_scale=16 * step)
    batches = [mechanism.answer(np.zeros(m), np.full(m, 0.25 + gap * step)) for _ in range(100)]
    above = sum(int(batch.above.sum()) for batch in batches)
    assert stats.binomtest(above, 100 * m, stats.laplace.sf(-gap / 16)).pvalue > 1e-3


def test_a_million_answers_are_one_call():
    training, holdout = queries(1_000_000)
    answers = make(0.9, threshold_scale=1e-3, query_scale=1e-3).answer(training, holdout)
    assert answers.answered.all()
    assert not answers.above.all()


# -- Answers ---------------------------------------------------------------------------------------


def test_below_releases_the_training_value_unchanged():
    training, holdout = queries(1000)
    answers = make().answer(training, holdout)
    np.testing.assert_array_equal(answers.values[~answers.above], training[~answers.above])


@pytest.mark.parametrize("resolution", [0.07, 0.25, 1.0])
def test_released_values_are_cell_midpoints(resolution):
    training, holdout = disagreeing(2000)
    answers = make(resolution=resolution).answer(training, holdout)
    assert answers.above.all()
    midpoints = (to_cell(answers.values, resolution) + 0.5) * resolution
    np.testing.assert_allclose(answers.values, np.minimum(midpoints, 1.0))


def test_values_without_cells_lie_on_the_fine_grid_inside_the_range():
    values = make().answer(*disagreeing(2000)).values
    assert ((values >= 0) & (values <= 1)).all()
    assert (values * 2**44 == np.rint(values * 2**44)).all()


def test_answer_noise_has_its_distribution():
    answers = make(answer_scale=0.01).answer(np.full(20_000, -50.0), np.full(20_000, 0.5))
    assert stats.kstest(answers.values - 0.5, "laplace", args=(0, 0.01)).pvalue > 1e-3


def test_no_noise_is_an_exact_comparison():
    mechanism = make(0.25, threshold_scale=0, query_scale=0, answer_scale=0)
    answers = mechanism.answer([0.5, 0.5, 0.5], [0.75, 0.8, 0.25])
    np.testing.assert_array_equal(answers.above, [False, True, False])
    assert answers.values[1] == pytest.approx(0.8, abs=2**-44)
    assert mechanism.dp_epsilon(0.01, rounds=1) == math.inf


def test_thresholds_per_query_override_the_scalar():
    mechanism = make(0.25, threshold_scale=0, query_scale=0, answer_scale=0)
    answers = mechanism.answer([0.5] * 3, [0.9] * 3, thresholds=[0.5, 0.3, 0.45])
    np.testing.assert_array_equal(answers.above, [False, True, False])
    assert make(0.0, **dict.fromkeys(SCALES, 0.0)).answer(0.5, 0.6, thresholds=0.5).above is False


# -- Budget ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("refresh", [True, False])
@pytest.mark.parametrize("budget", [1, 2, 7])
def test_no_answer_beyond_the_budget_is_released(budget, refresh):
    mechanism = make(budget=budget, refresh=refresh)
    answers = mechanism.answer(*disagreeing(20))
    np.testing.assert_array_equal(answers.answered, np.arange(20) < budget)
    np.testing.assert_array_equal(answers.above, answers.answered)
    assert np.isnan(answers.values[budget:]).all()
    assert mechanism.remaining_budget == 0
    assert mechanism.n_answered == mechanism.n_above == budget
    for answer in (mechanism.answer(0.5, 0.5), mechanism.answer_run([0.5], [0.5]).scalar()):
        assert math.isnan(answer.values)
        assert answer.answered is False
        assert answer.above is False
    assert mechanism.n_answered == budget


def test_without_a_cap_every_query_is_answered():
    mechanism = make()
    assert mechanism.remaining_budget is None
    assert mechanism.answer(*disagreeing(5000)).answered.all()
    assert mechanism.remaining_budget is None


@pytest.mark.parametrize(
    ("training", "holdout", "thresholds", "fact"),
    [
        ([0.5, math.nan], [0.5, 0.5], None, "training_values"),
        ([0.5, 0.5], [math.nan, 0.5], None, "holdout_values"),
        ([0.5, 0.5], [0.5, math.inf], None, "holdout_values"),
        ([0.5, 0.5], [0.5, 1.1], None, "holdout_values"),
        ([0.5, 0.5], [-0.1, 0.5], None, "holdout_values"),
        ([0.5, 1e9], [0.5, 0.5], None, "training_values"),
        ([0.5], [0.5, 0.5], None, "training_values"),
        (0.5, [0.5, 0.5], None, "training_values"),
        ([[0.5]], [[0.5]], None, "training_values"),
        ([0.5, 0.5], [0.5, 0.5], [0.1, math.nan], "thresholds"),
        ([0.5, 0.5], [0.5, 0.5], [0.1, 0.1, 0.1], "thresholds"),
        ([0.5, 0.5], [0.5, 0.5], [0.1, -0.1], "thresholds"),
        ([0.5, 0.5], ["a", "b"], None, "holdout_values"),
        (None, [0.5, 0.5], None, "training_values"),
        ([0.5, 0.5j], [0.5, 0.5], None, "training_values"),
    ],
)
def test_bad_queries_raise_and_spend_no_budget(training, holdout, thresholds, fact):
    mechanism = make(budget=3)
    state = mechanism.state()
    for method in (mechanism.answer, mechanism.answer_run):
        with refused((TypeError, ValueError), fact):
            method(training, holdout, thresholds=thresholds)
    assert mechanism.state() == state


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((name, value) for name in SCALES for value in (-0.1, math.nan, math.inf, "0.1", None)),
        *(("budget", value) for value in (0, -1, 1.5, True, math.nan)),
        *(("resolution", value) for value in (-0.1, 1.1, math.nan)),
        ("noise", "cauchy"),
        ("noise", None),
        ("refresh", 1),
        ("threshold", math.nan),
        ("threshold", -0.1),
        ("threshold", None),
        ("random_state", "seed"),
    ],
)
def test_bad_parameters_raise_by_name(name, value):
    options = {"threshold": 0.1, **SCALES, name: value}
    with refused((TypeError, ValueError), name):
        Thresholdout(options.pop("threshold"), **options)


# -- Cost ------------------------------------------------------------------------------------------


def test_t1_refreshed_and_not():
    # Delta B (1/s_T + 2/s_q + 1/s_a) = .01 * 3 * (20 + 20 + 20); not refreshed: one 1/s_T.
    assert make(budget=3).dp_epsilon(0.01) == pytest.approx(1.8)
    assert make(budget=3, refresh=False).dp_epsilon(0.01) == pytest.approx(0.01 * (20 + 60 + 60))
    assert make().dp_epsilon(0.01, rounds=3) == pytest.approx(1.8)
    with refused(ValueError, "rounds"):
        make().dp_epsilon(0.01)


def test_gaussian_noise_has_no_finite_level():
    assert make(noise="gaussian", budget=1).dp_epsilon(0.01) == math.inf


@pytest.mark.parametrize("sensitivity", [0.0, -1.0, math.nan, 2.0, None])
def test_bad_sensitivities_raise(sensitivity):
    with refused((TypeError, ValueError), "sensitivity"):
        make(budget=1).dp_epsilon(sensitivity)


@pytest.mark.parametrize("refresh", [True, False])
def test_level_used_grows_to_the_level_of_the_budget(refresh):
    mechanism = make(budget=3, refresh=refresh)
    training, holdout = queries(200)
    levels = [0.0]
    for pair in zip(training, holdout, strict=True):
        mechanism.answer(*pair)
        levels.append(mechanism.dp_epsilon_used(0.01))
    assert (np.diff(levels) >= 0).all()
    assert mechanism.remaining_budget == 0
    assert levels[-1] == pytest.approx(mechanism.dp_epsilon(0.01))


def log_probability(margins_below, count, margins_above, *, threshold_scale, query_scale):
    """Return ln P[`count` queries below, then each of margins_above above, on one threshold]."""
    t = np.linspace(-2, 6, 400_001)
    log_density = stats.laplace.logpdf(t, scale=threshold_scale)
    log_density += count * stats.laplace.logcdf(t - margins_below, scale=query_scale)
    for margin in margins_above:
        log_density += stats.laplace.logsf(t - margin, scale=query_scale)
    peak = log_density.max()
    return peak + math.log(integrate.trapezoid(np.exp(log_density - peak), t))


@pytest.mark.parametrize("n_above", [1, 3])
def test_thresholdout_epsilon_is_attained(n_above):
    """Theory T1."""
    # A million queries just below the threshold raise it. In the neighboring dataset they are
    # higher, and the "above" queries, whose values are released, are lower.
    delta = 0.01
    scales = {"threshold_scale": 0.1, "query_scale": 0.2}
    log_p = log_probability(0.0, 10**6, [0.5] * n_above, **scales)
    log_p_neighbor = log_probability(delta, 10**6, [0.5 - delta] * n_above, **scales)
    privacy_loss = log_p - log_p_neighbor + n_above * delta / 0.1
    mechanism = Thresholdout(0.0, **scales, answer_scale=0.1, budget=n_above, refresh=False)
    assert privacy_loss / mechanism.dp_epsilon(delta) == pytest.approx(1.0, abs=2e-3)


def audit(level_below, level_above, *, rounds, seed):
    """Count rounds with 8 queries below, one above, and a value in the upper half."""
    holdout = np.tile([level_below] * 8 + [level_above, 0.5], rounds)
    training = np.tile([0.0] * 9 + [-50.0], rounds)
    mechanism = Thresholdout(
        0.3,
        threshold_scale=0.15,
        query_scale=0.3,
        answer_scale=0.15,
        resolution=0.1,
        random_state=seed,
    )
    answers = mechanism.answer(training, holdout)
    above = answers.above.reshape(rounds, 10)
    value = answers.values.reshape(rounds, 10)[:, 8]
    return int((~above[:, :8].any(axis=1) & above[:, 8] & (value > 0.5)).sum())


@pytest.mark.parametrize("rounds", [12_000, pytest.param(250_000, marks=pytest.mark.slow)])
def test_audited_epsilon_is_between_half_and_all_of_the_proven_one(rounds):
    delta = 0.1
    n_hits = audit(0.2, 0.5, rounds=rounds, seed=1)
    n_neighbor_hits = audit(0.2 + delta, 0.5 - delta, rounds=rounds, seed=2)
    level = Thresholdout(
        0.3, threshold_scale=0.15, query_scale=0.3, answer_scale=0.15, budget=1
    ).dp_epsilon(delta)
    lower = stats.beta.ppf(0.0005, n_hits, rounds - n_hits + 1)
    upper = stats.beta.ppf(0.9995, n_neighbor_hits + 1, rounds - n_neighbor_hits)
    assert level / 2 < math.log(lower / upper) < level


# -- State -----------------------------------------------------------------------------------------


def test_state_survives_json_and_is_restored():
    mechanism = make(budget=5, refresh=False)
    mechanism.answer(*queries(50))
    state = json.loads(json.dumps(mechanism.state()))
    restored = Thresholdout.from_state(state, random_state=1)
    assert restored.state() == mechanism.state()
    assert restored.remaining_budget == mechanism.remaining_budget
    assert restored.dp_epsilon_used(0.01) == mechanism.dp_epsilon_used(0.01)


def test_kept_threshold_noise_is_the_same_after_restoring():
    # Without query noise the threshold alone decides, so that its effect shows.
    options = {"query_scale": 0.0, "refresh": False, "threshold_scale": 0.05}
    mechanism = make(0.5, **options)
    grid = np.linspace(0, 1, 1001)
    restored = Thresholdout.from_state(mechanism.state())
    np.testing.assert_array_equal(
        mechanism.answer(np.zeros(1001), grid).above, restored.answer(np.zeros(1001), grid).above
    )


def test_the_same_seed_does_not_replay_noise_after_restoring():
    mechanism = make(random_state=3)
    batch = (np.full(5, -50.0), np.full(5, 0.5))
    values = mechanism.answer(*batch).values
    restored = Thresholdout.from_state(mechanism.state(), random_state=3)
    assert not np.isin(restored.answer(*batch).values, values).any()


@pytest.mark.parametrize(
    "copier", [copy.copy, copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))]
)
def test_copies_continue_from_the_state_with_new_noise(copier):
    mechanism = make(budget=10, random_state=3)
    mechanism.answer(*disagreeing(4))
    duplicate = copier(mechanism)
    assert duplicate.state() == mechanism.state()
    batch = (np.full(5, -50.0), np.full(5, 0.5))
    assert not np.isin(duplicate.answer(*batch).values, mechanism.answer(*batch).values).any()


@pytest.mark.parametrize(
    "change",
    [
        {"version": 99},
        {"n_above": 7},
        {"n_above": -1},
        {"n_above": 1.5},
        {"budget": 0},
        {"threshold_noise": math.nan},
        {"threshold_noise": None},
    ],
)
def test_contradictory_states_raise(change):
    mechanism = make(budget=5)
    mechanism.answer(0.5, 0.5)
    with pytest.raises((TypeError, ValueError)):
        Thresholdout.from_state({**mechanism.state(), **change})


def test_incomplete_states_raise():
    state = make().state()
    for name in state:
        with refused(ValueError, "state"):
            Thresholdout.from_state({k: v for k, v in state.items() if k != name})


def test_repr_shows_parameters_and_no_noise():
    mechanism = make(budget=5)
    assert "0.2" in repr(mechanism)
    assert repr(mechanism.state()["threshold_noise"])[:8] not in repr(mechanism)


# -- Presets ---------------------------------------------------------------------------------------


def test_zhao2017_is_theorem_2():
    mechanism = Thresholdout.zhao2017(0.1, 0.05, 100, 2)
    sigma = 0.5 * 0.1 / (12 * math.log(8000))
    assert mechanism.threshold == pytest.approx(0.075)
    assert mechanism.threshold_scale == pytest.approx(sigma)
    assert mechanism.query_scale == pytest.approx(2 * sigma)
    assert mechanism.answer_scale == pytest.approx(4 * sigma)
    assert mechanism.refresh
    assert mechanism.dp_epsilon(1e-3) == pytest.approx(9 * 2 * 1e-3 / (4 * sigma))
    assert Thresholdout.zhao2017(0.1, 0.05, 100, 2, 0.2).threshold == pytest.approx(0.06)


def test_dwork2017_is_theorem_9_with_the_scales_of_figure_1():
    mechanism = Thresholdout.dwork2017(0.1, 0.05, 100, 2)
    sigma = 0.1 / (96 * math.log(8000))
    assert mechanism.threshold == pytest.approx(0.075)
    assert mechanism.threshold_scale == pytest.approx(2 * sigma)
    assert mechanism.query_scale == pytest.approx(4 * sigma)
    assert mechanism.answer_scale == pytest.approx(sigma)
    assert mechanism.refresh
    assert mechanism.dp_epsilon(1e-3) == pytest.approx(2 * 2 * 1e-3 / sigma)


def test_dwork2017_practical_is_gaussian_with_the_same_ratios():
    mechanism = Thresholdout.dwork2017_practical()
    assert mechanism.noise == "gaussian"
    assert mechanism.threshold == 0.04
    scales = (mechanism.threshold_scale, mechanism.query_scale, mechanism.answer_scale)
    assert scales == pytest.approx((0.02, 0.04, 0.01))
    assert mechanism.remaining_budget is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("tau", 0.0),
        ("tau", math.nan),
        ("tau", 1.5),
        ("beta", 0.0),
        ("beta", 1.0),
        ("n_queries", 0),
        ("n_queries", 2.5),
        ("budget", 0),
        ("budget", None),
        ("c", 0.0),
        ("c", 1.0),
    ],
)
def test_bad_arguments_of_presets_raise(name, value):
    options = {"tau": 0.1, "beta": 0.05, "n_queries": 10, "budget": 1, name: value}
    with refused((TypeError, ValueError), name):
        Thresholdout.zhao2017(**options)


# -- Random arguments ------------------------------------------------------------------------------

junk = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.just(10**400),
    st.floats(),
    st.complex_numbers(),
    st.text(max_size=3),
    st.lists(st.floats(), max_size=3),
    st.just({}),
    st.just(np.float32(0.1)),
    st.just(np.array([0.1, 0.2])),
    st.just(object()),
)
NAMES = ("threshold", *SCALES, "budget", "refresh", "resolution", "noise", "random_state")


@settings(max_examples=120, deadline=None)
@given(st.dictionaries(st.sampled_from(NAMES), junk, min_size=1, max_size=3))
def test_any_constructor_argument_works_or_raises(changes):
    options = {"threshold": 0.1, **SCALES, **changes}
    try:
        mechanism = Thresholdout(options.pop("threshold"), **options)
    except (TypeError, ValueError):
        return
    answers = mechanism.answer([0.5], [0.5])
    assert answers.answered[0]
    assert np.isfinite(answers.values[0])


@settings(max_examples=120, deadline=None)
@given(junk, junk, junk)
def test_any_query_works_or_raises_and_spends_no_budget(training, holdout, thresholds):
    mechanism = make()
    state = mechanism.state()
    try:
        answers = mechanism.answer(training, holdout, thresholds=thresholds)
    except (TypeError, ValueError):
        assert mechanism.state() == state
    else:
        assert mechanism.n_answered == np.size(answers.values)


@settings(max_examples=80, deadline=None)
@given(st.dictionaries(st.sampled_from(sorted(make().state())), junk, min_size=1, max_size=2))
def test_any_state_works_or_raises(changes):
    try:
        mechanism = Thresholdout.from_state({**make(budget=3).state(), **changes})
    except (TypeError, ValueError):
        return
    assert np.isfinite(mechanism.answer([0.5], [0.5]).values[0])


@settings(max_examples=100, deadline=None)
@given(junk, junk)
def test_any_sensitivity_works_or_raises(sensitivity, rounds):
    try:
        level = make().dp_epsilon(sensitivity, rounds=rounds)
    except (TypeError, ValueError):
        return
    assert level >= 0
