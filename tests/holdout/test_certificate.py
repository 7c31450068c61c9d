"""The certificate of a holdout states the guarantee that applies now, and no other."""

import math

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from sklearn_bdp import ReusableHoldoutSearchCV
from sklearn_bdp.correlation import Groups, Independent, MarkovChain
from sklearn_bdp.holdout import ExpertSettings, ReusableHoldout
from sklearn_bdp.intervals.concentration import score_tail
from sklearn_bdp.mechanisms.thresholdout import thresholdout_epsilon
from sklearn_bdp.planning import plan_search

# Several holdouts of the same records, each for a test of its own.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.SecondHoldoutWarning")

N = 2000
X = np.zeros((N, 1))
Y = np.zeros(N)
CHAIN = MarkovChain([[0.9, 0.1], [0.2, 0.8]])


def constant_mean_scores(*means):
    return np.array([(np.arange(N) < mean * N).astype(float) for mean in means])


def test_all_answers_and_the_next_one_are_within_the_half_width():
    holdout = ReusableHoldout(X, Y)
    for guesses in ([0.5, 0.9], [0.1], [0.5, 0.5, 0.5]):
        half_width_before = holdout.certificate().half_width
        answers = holdout.answer(guesses, constant_mean_scores(*[0.5] * len(guesses)))
        certificate = holdout.certificate()
        widths = np.maximum(answers.values - answers.lower, answers.upper - answers.values)
        assert widths.max() <= certificate.half_width
        assert certificate.half_width >= half_width_before
        single_answers = holdout.answer([0.5], constant_mean_scores(0.5))
        assert max(single_answers.upper - single_answers.values) <= certificate.half_width + 1e-12


def test_the_half_width_of_a_closed_holdout_is_that_of_its_widest_answer():
    rng = np.random.default_rng(0)
    holdout = ReusableHoldout(X, np.arange(N) % 2, random_state=0)
    holdout.answer([0.97], rng.random((1, N)) < 0.97, n_train=6000)
    half_width_before = holdout.certificate().half_width
    holdout.final_report({"model": np.arange(N) % 2}, scoring="accuracy")
    certificate = holdout.certificate()
    distances = [
        max(answer.value - answer.lower, answer.upper - answer.value)
        for answer in holdout.history()
    ]
    assert certificate.half_width == pytest.approx(max(distances))
    assert certificate.half_width < 0.03 < half_width_before
    assert f"Widest interval: ±{max(distances):.2}" in str(certificate)


def test_the_half_width_of_a_closed_holdout_without_answers_stays_that_of_a_query():
    rng = np.random.default_rng(0)
    holdout = ReusableHoldout(X, np.arange(N) % 2, random_state=0)
    half_width_before = holdout.certificate().half_width
    holdout.final_report({"model": rng.random(N)}, scoring="average_precision")
    assert not holdout.history()
    assert holdout.certificate().half_width >= half_width_before


def test_intervals_of_a_final_report_are_within_the_half_width():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(2000, 3))
    targets = (features[:, 0] > 2.2).astype(int)  # 30 records decide the recall of a class
    targets[:5] ^= 1
    training_features = rng.normal(size=(5000, 3))
    training_targets = (training_features[:, 0] + rng.normal(size=5000) > 2.5).astype(int)
    model = LogisticRegression().fit(training_features, training_targets)
    holdout = ReusableHoldout(features, targets, random_state=0)
    holdout.final_report(
        [model], scoring="balanced_accuracy", training=(training_features, training_targets)
    )
    (answer,) = holdout.history()
    largest_distance = max(answer.value - answer.lower, answer.upper - answer.value)
    assert holdout.certificate().half_width >= largest_distance - 1e-9


def test_a_number_of_queries_without_effect_is_not_in_the_certificate():
    expert = ExpertSettings(n_queries=3)
    holdout = ReusableHoldout(X, Y, random_state=0, expert=expert)
    for _ in range(4):
        holdout.answer([0.5], constant_mean_scores(0.5))
    assert "all 3 intervals" not in str(holdout.certificate())
    assert holdout.certificate().mechanism.n_queries is None


def test_an_answer_without_an_interval_does_not_count_in_the_half_width():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(1000, 2))
    targets = features[:, 0] + rng.normal(size=1000)
    model = LinearRegression().fit(features[:500], targets[:500])
    holdout = ReusableHoldout(features[500:], targets[500:], correlation="time", random_state=0)
    holdout.score(model, scoring="r2", training=(features[:500], targets[:500]))
    assert holdout.history()[0].interval == "none"
    assert holdout.certificate().half_width < 0.5


def test_the_level_spent_grows_round_by_round():
    holdout = ReusableHoldout(X, Y, expert=ExpertSettings(threshold=1e-4))
    assert holdout.certificate().dp_epsilon == 0.0
    scales = {
        name: getattr(holdout.account.settings, name)
        for name in ("threshold_scale", "query_scale", "answer_scale")
    }
    for n_rounds in (1, 2, 3):
        assert holdout.answer(
            [0.9 if n_rounds % 2 else 0.1], constant_mean_scores(0.4 + 0.1 * n_rounds)
        ).corrected[0]
        level = thresholdout_epsilon(sensitivity=1 / N, budget=n_rounds, **scales)
        assert holdout.certificate().dp_epsilon == pytest.approx(level, rel=1e-6)


def test_bayesian_levels_follow_the_correlation():
    certificate = ReusableHoldout(X, Y, correlation=CHAIN, epsilon=1.0, budget=1).certificate()
    assert certificate.bdp_epsilon == pytest.approx(1.0, rel=0.01)
    assert certificate.dp_epsilon < certificate.bdp_epsilon
    assert "Markov" in certificate.records.correlation


def test_a_declared_privacy_level_stays_constant():
    holdout = ReusableHoldout(X, Y, epsilon=1.0, budget=3)
    level_before = holdout.certificate().bdp_epsilon
    holdout.answer([0.9], constant_mean_scores(0.1))
    assert holdout.certificate().bdp_epsilon == level_before <= 1.0 + 1e-12


def assumptions_and_notes(holdout):
    certificate = holdout.certificate()
    return " | ".join((*certificate.assumptions, *certificate.notes))


def test_the_certificate_states_its_assumptions(path):
    assert "kept in memory only" in assumptions_and_notes(ReusableHoldout(X, Y))
    assert "kept in memory only" not in assumptions_and_notes(ReusableHoldout(X, Y, ledger=path))
    assert "fixed random_state" in assumptions_and_notes(ReusableHoldout(X, Y, random_state=0))
    assert "fixed random_state" not in assumptions_and_notes(ReusableHoldout(X, Y))
    assert "gap" in assumptions_and_notes(ReusableHoldout(X, Y, correlation=CHAIN, gap=30))


def test_a_fixed_seed_stays_in_the_certificate(path):
    ReusableHoldout(X, Y, ledger=path, random_state=0).answer([0.5], constant_mean_scores(0.5))
    reopened = ReusableHoldout(X, Y, ledger=path)
    assert "fixed random_state" in assumptions_and_notes(reopened)
    reopened.answer([0.5], constant_mean_scores(0.5))
    assert "fixed random_state" in assumptions_and_notes(reopened)


def test_a_certificate_is_printed_and_has_no_active_mechanism():
    holdout = ReusableHoldout(X, Y, expert=ExpertSettings(threshold=0.05))
    certificate = holdout.certificate()
    assert "within ±" in str(certificate)
    assert "<table>" in certificate._repr_html_()
    assert certificate.mechanism.threshold == 0.05
    assert isinstance(certificate.mechanism.arguments, dict)
    assert math.isfinite(certificate.half_width)


def test_the_advised_number_of_records_gives_the_advised_width():
    def certificate(n):
        return ReusableHoldout(np.zeros((n, 1)), np.arange(n) % 2).certificate()

    advice = certificate(1000).forecast.advice
    n_more_text = advice.split()[1]
    goal_text = advice.split()[-1].lstrip("±")
    width = certificate(1000 + int(n_more_text.replace(",", ""))).half_width
    assert width == pytest.approx(float(goal_text), rel=0.05)


@pytest.mark.filterwarnings("ignore")
def test_a_handful_of_records_has_a_certificate():
    assert ReusableHoldout(np.zeros((2, 1)), [0, 1]).certificate().half_width == 1.0


def test_certificates_state_errors_in_score_units():
    """A score from -50.5 to -5.1 is not known to within .138."""
    unscaled = ReusableHoldout(X, Y).certificate()
    assert unscaled.in_units("accuracy", 0.0, 1.0) is unscaled
    scaled = unscaled.in_units("neg_mean_absolute_error", -50.0, 0.0)
    printed_half_width = float(str(scaled).split("±")[1].split(" ")[0])
    assert 50.0 * unscaled.half_width <= printed_half_width <= 50.0 * unscaled.half_width * 1.01
    for text in (str(scaled), scaled._repr_html_()):
        assert "neg_mean_absolute_error, from -50 to 0" in text
        assert "of the range, 50" in text
    assert scaled.half_width == unscaled.half_width


def test_width_components_are_those_of_the_selected_answer():
    """Trees on iris release equal scores: 3.80 nats were reported for an answer of 2.55 nats."""
    tree = DecisionTreeClassifier(random_state=0)
    grid = {"max_depth": [1, 2, 3, 4, 5, 6]}
    for seed in range(3):
        search = ReusableHoldoutSearchCV(tree, grid, random_state=seed, holdout=0.4)
        search.fit(*load_iris(return_X_y=True))
        holdout = search.holdout_
        depth = search.best_params_["max_depth"]
        (chosen_record,) = [
            record for record in holdout.history() if record.model == f"max_depth={depth}"
        ]
        assert (chosen_record.lower, chosen_record.upper) == search.best_interval_
        sampling, spending, noise = search.certificate_.half_width_components
        assert sampling + spending + noise == pytest.approx(
            0.5 * (chosen_record.upper - chosen_record.lower)
        )
        # An exact score: intervals at beta and at the level that this answer's code length leaves.
        tail = score_tail(holdout.dependence, holdout.n, binary=True)
        for level, half_width in (
            (0.0, sampling),
            (chosen_record.code_length - math.log(0.9), sampling + spending),
        ):
            log_alpha_one_sided = math.log(0.05 / 2) - level
            limits = [
                limit_function([chosen_record.value], log_alpha_one_sided)[0]
                for limit_function in (tail.lower_limit, tail.upper_limit)
            ]
            assert half_width == pytest.approx(0.5 * np.ptp(limits))


def test_width_components_of_scores_by_class_sum_to_the_half_width():
    search = ReusableHoldoutSearchCV(
        DecisionTreeClassifier(random_state=0), {"max_depth": [1, 2]}, scoring="recall",
        random_state=0,
    ).fit(*load_breast_cancer(return_X_y=True))  # fmt: skip
    low, high = search.best_interval_
    assert sum(search.certificate_.half_width_components) == pytest.approx(0.5 * (high - low))


# few records or groups are quick
@pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.UninformativeIntervalWarning")
def test_a_list_of_groups_is_previewed_as_it_is_reported():
    """Units are independent under each of the models: ±.27 was certified for [0, 1]."""
    rng = np.random.default_rng(0)
    wards = np.repeat(np.arange(12), 50)
    patients = np.arange(600) // 3
    X = rng.normal(size=(600, 2))
    y = np.arange(600) % 2
    half_widths = {}
    for name, correlation in (
        ("wards", Groups(wards)),
        ("nested", [Groups(patients - patients % 10), Groups(wards)]),
        ("crossed", [Groups(patients), Groups(rng.permutation(wards))]),
    ):
        holdout = ReusableHoldout(X, y, correlation=correlation)
        half_widths[name] = holdout.preview(10, score=0.8).half_width_final
    assert half_widths["wards"] < half_widths["nested"] < half_widths["crossed"]
    assert half_widths["crossed"] > 0.45


@pytest.mark.parametrize("scoring", ["neg_brier_score", "roc_auc", "balanced_accuracy"])
def test_forecasts_for_a_list_of_groups_count_groups(scoring):
    """They counted records: ±0.005 was forecast for a Brier score that had ±0.0185."""
    groups = np.repeat(np.arange(200), 10)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 2))
    y = rng.integers(0, 2, 2000)
    previews = {}
    n_planned = {}
    for name, correlation in (
        ("groups", Groups(groups)),
        ("list", [Groups(groups)]),
        ("longer list", [Independent(), Groups(groups)]),
    ):
        holdout = ReusableHoldout(X, y, correlation=correlation, random_state=0)
        previews[name] = holdout.preview(scoring=scoring, score=0.8, training_variance=0.03)
        n_planned[name] = int(
            plan_search(half_width=0.05, correlation=correlation, scoring=scoring)
        )
    for name in ("list", "longer list"):
        final_half_width = previews["groups"].half_width_final
        assert previews[name].half_width_final == pytest.approx(final_half_width, rel=0.01)
        assert previews[name].half_width == pytest.approx(previews["groups"].half_width, rel=0.01)
        assert n_planned[name] == pytest.approx(n_planned["groups"], rel=0.01)
