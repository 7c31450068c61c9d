"""The certificate of a holdout states the guarantee that applies now, and no other."""

import math

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.tree import DecisionTreeClassifier

from sklearn_bdp import ReusableHoldoutSearchCV
from sklearn_bdp.correlation import Groups, MarkovChain
from sklearn_bdp.holdout import ExpertSettings, ReusableHoldout
from sklearn_bdp.intervals.concentration import score_tail
from sklearn_bdp.mechanisms.thresholdout import thresholdout_epsilon

# Several holdouts of the same records, each for a test of its own.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.SecondHoldoutWarning")

N = 2000
X, Y = np.zeros((N, 1)), np.zeros(N)
CHAIN = MarkovChain([[0.9, 0.1], [0.2, 0.8]])


def raw(*means):
    return np.array([(np.arange(N) < mean * N).astype(float) for mean in means])


def test_every_answer_given_and_the_next_are_within_its_half_width():
    holdout = ReusableHoldout(X, Y)
    for guesses in ([0.5, 0.9], [0.1], [0.5, 0.5, 0.5]):
        before = holdout.certificate().half_width
        answers = holdout.answer(guesses, raw(*[0.5] * len(guesses)))
        certificate = holdout.certificate()
        widths = np.maximum(answers.values - answers.lower, answers.upper - answers.values)
        assert widths.max() <= certificate.half_width
        assert certificate.half_width >= before
        lone = holdout.answer([0.5], raw(0.5))
        assert max(lone.upper - lone.values) <= certificate.half_width + 1e-12


def test_the_level_spent_grows_round_by_round():
    holdout = ReusableHoldout(X, Y, expert=ExpertSettings(threshold=1e-4))
    assert holdout.certificate().dp_epsilon == 0.0
    scales = {
        name: getattr(holdout.account.settings, name)
        for name in ("threshold_scale", "query_scale", "answer_scale")
    }
    for rounds in (1, 2, 3):
        assert holdout.answer([0.9 if rounds % 2 else 0.1], raw(0.4 + 0.1 * rounds)).corrected[0]
        level = thresholdout_epsilon(sensitivity=1 / N, budget=rounds, **scales)
        assert holdout.certificate().dp_epsilon == pytest.approx(level, rel=1e-6)


def test_bayesian_levels_follow_the_correlation():
    certificate = ReusableHoldout(X, Y, correlation=CHAIN, epsilon=1.0, budget=1).certificate()
    assert certificate.bdp_epsilon == pytest.approx(1.0, rel=0.01)
    assert certificate.dp_epsilon < certificate.bdp_epsilon
    assert "Markov" in certificate.records.correlation


def test_a_capped_level_is_that_of_the_whole_life():
    holdout = ReusableHoldout(X, Y, epsilon=1.0, budget=3)
    before = holdout.certificate().bdp_epsilon
    holdout.answer([0.9], raw(0.1))
    assert holdout.certificate().bdp_epsilon == before <= 1.0 + 1e-12


def lines(holdout):
    certificate = holdout.certificate()
    return " | ".join((*certificate.assumptions, *certificate.notes))


def test_it_says_what_it_rests_on(path):
    assert "kept in memory only" in lines(ReusableHoldout(X, Y))
    assert "kept in memory only" not in lines(ReusableHoldout(X, Y, ledger=path))
    assert "fixed random_state" in lines(ReusableHoldout(X, Y, random_state=0))
    assert "fixed random_state" not in lines(ReusableHoldout(X, Y))
    assert "gap" in lines(ReusableHoldout(X, Y, correlation=CHAIN, gap=30))


def test_a_fixed_seed_is_never_forgotten(path):
    ReusableHoldout(X, Y, ledger=path, random_state=0).answer([0.5], raw(0.5))
    honest = ReusableHoldout(X, Y, ledger=path)
    assert "fixed random_state" in lines(honest)
    honest.answer([0.5], raw(0.5))
    assert "fixed random_state" in lines(honest)


def test_it_prints_and_holds_no_mechanism_in_use():
    holdout = ReusableHoldout(X, Y, expert=ExpertSettings(threshold=0.05))
    certificate = holdout.certificate()
    assert "within ±" in str(certificate)
    assert "<table>" in certificate._repr_html_()
    assert certificate.mechanism.threshold == 0.05
    assert isinstance(certificate.mechanism.arguments, dict)
    assert math.isfinite(certificate.half_width)


def test_the_advice_keeps_its_word():
    def certificate(n):
        return ReusableHoldout(np.zeros((n, 1)), np.arange(n) % 2).certificate()

    advice = certificate(1000).forecast.advice
    more, goal = advice.split()[1], advice.split()[5].lstrip("±")
    width = certificate(1000 + int(more.replace(",", ""))).half_width
    assert width == pytest.approx(float(goal), rel=0.05)


@pytest.mark.filterwarnings("ignore")
def test_a_handful_of_records_has_a_certificate():
    assert ReusableHoldout(np.zeros((2, 1)), [0, 1]).certificate().half_width == 1.0


def test_certificates_state_errors_in_score_units():
    """A score from -50.5 to -5.1 is not known to within .138."""
    plain = ReusableHoldout(X, Y).certificate()
    assert plain.in_units("accuracy", 0.0, 1.0) is plain
    scaled = plain.in_units("neg_mean_absolute_error", -50.0, 0.0)
    printed = float(str(scaled).split("±")[1].split(" ")[0])
    assert 50.0 * plain.half_width <= printed <= 50.0 * plain.half_width * 1.01
    for text in (str(scaled), scaled._repr_html_()):
        assert "neg_mean_absolute_error, from -50 to 0" in text
        assert "of the range, 50" in text
    assert scaled.half_width == plain.half_width


def test_why_an_interval_is_wide_is_told_of_the_chosen_answer_itself():
    """Trees on iris release equal scores: 3.80 nats were reported for an answer of 2.55 nats."""
    tree, grid = DecisionTreeClassifier(random_state=0), {"max_depth": [1, 2, 3, 4, 5, 6]}
    for seed in range(3):
        search = ReusableHoldoutSearchCV(tree, grid, random_state=seed, holdout=0.4)
        search.fit(*load_iris(return_X_y=True))
        holdout, depth = search.holdout_, search.best_params_["max_depth"]
        (own,) = [one for one in holdout.history() if one.model == f"max_depth={depth}"]
        assert (own.lower, own.upper) == search.best_interval_
        sampling, asked, noise = search.certificate_.half_width_components
        assert sampling + asked + noise == pytest.approx(0.5 * (own.upper - own.lower))
        # An exact score: intervals at beta and at the level that this answer's code length leaves.
        tail = score_tail(holdout.dependence, holdout.n, binary=True)
        for level, half in ((0.0, sampling), (own.code_length - math.log(0.9), sampling + asked)):
            side = math.log(0.05 / 2) - level
            ends = [f([own.value], side)[0] for f in (tail.lower_limit, tail.upper_limit)]
            assert half == pytest.approx(0.5 * np.ptp(ends))


def test_scores_by_class_know_their_class_and_why_they_are_wide():
    search = ReusableHoldoutSearchCV(
        DecisionTreeClassifier(random_state=0), {"max_depth": [1, 2]}, scoring="recall",
        random_state=0,
    ).fit(*load_breast_cancer(return_X_y=True))  # fmt: skip
    low, high = search.best_interval_
    assert sum(search.certificate_.half_width_components) == pytest.approx(0.5 * (high - low))


# few records or groups are quick
@pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.UninformativeIntervalWarning")
def test_a_list_of_groups_is_previewed_as_it_is_reported():
    """Units are independent under each of the models: ±.27 was promised for [0, 1]."""
    rng = np.random.default_rng(0)
    wards, patients = np.repeat(np.arange(12), 50), np.arange(600) // 3
    X, y = rng.normal(size=(600, 2)), np.arange(600) % 2
    each = {}
    for name, correlation in (
        ("wards", Groups(wards)),
        ("nested", [Groups(patients - patients % 10), Groups(wards)]),
        ("crossed", [Groups(patients), Groups(rng.permutation(wards))]),
    ):
        holdout = ReusableHoldout(X, y, correlation=correlation)
        each[name] = holdout.preview(10, score=0.8).half_width_final
    assert each["wards"] < each["nested"] < each["crossed"]
    assert each["crossed"] > 0.45
