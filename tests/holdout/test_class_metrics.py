"""Holdout queries of metrics that are not means: widths, noise and the cost of class sizes."""

import dataclasses
import math
import re
from statistics import NormalDist

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_bdp import ReusableHoldoutSearchCV
from sklearn_bdp.correlation import Groups
from sklearn_bdp.holdout import ExpertSettings, ReusableHoldout
from sklearn_bdp.metrics import get_metric
from tests.facts import refused

# Several holdouts of the same records, each for a test of its own.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.SecondHoldoutWarning")

SHIFT = math.sqrt(2.0) * 1.1749867920660904  # two normal classes this far apart: AUC .88
TRUTH = NormalDist().cdf(SHIFT / 2)  # recall of both classes at the middle


class Ranks:
    classes_ = np.array([0, 1])

    def decision_function(self, X):
        return X[:, 0]

    def predict(self, X):
        return (X[:, 0] > SHIFT / 2).astype(int)


class Ranks3(Ranks):
    classes_ = np.array([0, 1, 2])


def records(n, prevalence, seed=0):
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < prevalence).astype(int)
    return (y * SHIFT + rng.normal(size=n))[:, None], y


def answer_metric_query(
    n, prevalence, *, name="roc_auc", has_training_labels=True, holdout=None, **options
):
    X, y = records(n, prevalence)
    metric = get_metric(
        name, y=records(3 * n, prevalence, seed=1)[1] if has_training_labels else None
    )
    holdout = holdout or ReusableHoldout(X, y, random_state=0, **options)
    answer = holdout.answer_evaluations([0.88], [metric.evaluate(Ranks(), X, y)], n_train=3 * n)
    return holdout, answer


@pytest.mark.parametrize(
    ("n", "prevalence", "max_half_width"), [(2500, 0.5, 0.032), (2000, 0.05, 0.14)]
)
def test_one_auc_query_has_a_narrower_interval_than_by_mcdiarmid(n, prevalence, max_half_width):
    """G12: .107 and .28 by worst-case steps of single records."""
    _, answer = answer_metric_query(n, prevalence, spending="even")
    assert (answer.upper - answer.lower)[0] / 2 <= max_half_width
    assert answer.lower[0] < 0.88 < answer.upper[0]


def test_the_certificate_states_the_assumption_of_an_auc():
    """G12: given the labels, records of a class are exchangeable; said from then on."""
    holdout, _ = answer_metric_query(1000, 0.5)
    holdout.answer([0.5], np.full((1, 1000), 0.5))
    assert any("identically distributed" in line for line in holdout.certificate().assumptions)
    holdout_of_means = ReusableHoldout(*records(1000, 0.5), random_state=0)
    holdout_of_means.answer([0.5], np.full((1, 1000), 0.5))
    assert not any("identically" in line for line in holdout_of_means.certificate().assumptions)


@pytest.mark.parametrize(
    "name", ["roc_auc", pytest.param("balanced_accuracy", marks=pytest.mark.slow), "recall"]
)
@pytest.mark.parametrize("prevalence", [0.03, 0.3])
@pytest.mark.parametrize("training_prevalence", [0.5, None])
def test_uninformative_training_labels_widen_but_do_not_break_intervals(
    name, prevalence, training_prevalence
):
    """G20: the interval holds for a training set undersampled to one half, or unknown."""
    expected_score = {"roc_auc": 0.88, "balanced_accuracy": TRUTH, "recall": TRUTH}[name]
    for seed in range(12):
        X, y = records(1500, prevalence, seed)
        holdout = ReusableHoldout(X, y, random_state=seed, spending="even")
        labels = (
            None
            if training_prevalence is None
            else records(200, training_prevalence, seed=seed + 99)[1]
        )
        metric = get_metric(name, y=labels)
        answer = holdout.answer_evaluations([0.8], [metric.evaluate(Ranks(), X, y)])
        assert answer.lower[0] < expected_score < answer.upper[0]
        if name != "recall" or prevalence == 0.3:
            # Wide cells of proportions: confirmed ones cost less, a surprise as here costs more.
            assert answer.upper[0] - answer.lower[0] < (0.67 if prevalence == 0.03 else 0.25)


@pytest.mark.parametrize(
    "options", [{"expert": ExpertSettings(resolution=0.05)}, {"budget": 20}, {"epsilon": 5.0}]
)
def test_the_grid_of_answers_does_not_round_class_proportions(options):
    """G20: one record in a hundred is ill and half of the training set; 30 of 30 were wrong."""
    for seed in range(12):
        X, y = records(5000, 0.01, seed)
        holdout = ReusableHoldout(X, y, random_state=seed, **options)
        metric = get_metric("roc_auc", y=records(2000, 0.5, seed=seed + 99)[1])
        answer = holdout.answer_evaluations([0.8], [metric.evaluate(Ranks(), X, y)])
        assert answer.lower[0] < 0.88 < answer.upper[0]


def test_class_proportions_are_queried_once_for_each_set_of_classes(tmp_path):
    """G20: class shares are queried once per ledger; metrics of the same classes share them."""
    X, y = records(600, 0.5)
    path = tmp_path / "ledger.db"
    charges = []
    for name, classes in (("roc_auc", (0, 1)), ("recall", (0, 1)), ("recall", (0, 1, 2))):
        holdout = ReusableHoldout(X, y, ledger=path, random_state=0)
        metric = dataclasses.replace(get_metric(name), classes=classes)
        model = Ranks() if len(classes) == 2 else Ranks3()
        length_before = holdout.next_code_length
        holdout.answer_evaluations([0.88], [metric.evaluate(model, X, y)], keys=None)
        charges.append(holdout.history()[-1].code_length - length_before)
    assert charges[0] > 0.2
    assert charges[1] == pytest.approx(0.0)
    assert charges[2] > 0.2


def test_class_proportions_predicted_from_training_labels_are_nearly_free():
    mean_holdout = ReusableHoldout(*records(1000, 0.5), random_state=0)
    mean_holdout.answer([0.5], np.full((1, 1000), 0.5))
    informed_holdout, _ = answer_metric_query(1000, 0.3)
    uninformed_holdout, _ = answer_metric_query(1000, 0.3, has_training_labels=False)
    mean_length, informed_length, uninformed_length = (
        holdout.history()[0].code_length
        for holdout in (mean_holdout, informed_holdout, uninformed_holdout)
    )
    assert mean_length < informed_length < mean_length + 0.2 < uninformed_length - 1.0


@pytest.mark.parametrize("has_training_labels", [True, False])
def test_a_privacy_level_covers_class_proportions(has_training_labels):
    """T1: shares are queries of the mechanism, and take part in its budget."""
    holdout, answer = answer_metric_query(
        1000, 0.3, has_training_labels=has_training_labels, epsilon=0.5, budget=3
    )
    assert answer.answered[0]
    assert answer.lower[0] < 0.88 < answer.upper[0]
    assert holdout.remaining_budget <= 3 - (not has_training_labels) - int(answer.corrected[0])
    exhausted_holdout, _ = answer_metric_query(1000, 0.3, epsilon=0.5, budget=1, on_exhausted="nan")
    assert not exhausted_holdout.history()  # the share may need the only one


def test_the_reported_level_covers_noise_below_the_sensitivity():
    """T1: noise in units of the spread costs more by the ratio of sensitivity and unit."""
    X, y = records(2000, 0.05)
    mean_holdout = ReusableHoldout(X, y, random_state=0)
    mean_holdout.answer([0.9], np.full((1, 2000), 0.2))
    holdout, _ = answer_metric_query(2000, 0.05)
    holdout.answer([0.9], np.full((1, 2000), 0.2))  # afterwards all of life has the ratio
    ratio = holdout.certificate().dp_epsilon / mean_holdout.certificate().dp_epsilon
    assert 200 > ratio > 5.0


def test_groups_get_an_interval_too():
    """G12 with B1: labels may depend inside groups."""
    _, answer = answer_metric_query(4000, 0.5, correlation=Groups(np.arange(4000) // 2))
    assert 0.7 < answer.lower[0] < 0.88 < answer.upper[0]


@pytest.fixture
def unqueried_holdout():
    """Return a holdout of 600 records, every third of class 1."""
    y = (np.arange(600) % 3 == 0).astype(int)
    return ReusableHoldout(np.zeros((600, 1)), y, random_state=0)


def test_a_preview_is_for_accuracy_by_default(unqueried_holdout):
    preview = unqueried_holdout.preview(20, score=0.8)
    assert preview == unqueried_holdout.preview(20, score=0.8, scoring="accuracy")
    scalars = [value for name, value in vars(preview).items() if name != "rows"]
    assert {type(value) for value in scalars} == {int, float, str}
    assert f"{preview.half_width:.3g}" in preview._repr_html_()


def test_a_preview_states_an_assumed_prevalence(unqueried_holdout):
    accuracy = unqueried_holdout.preview(20, score=0.8)
    even_classes = unqueried_holdout.preview(20, score=0.8, scoring="roc_auc")
    rare_class = unqueried_holdout.preview(20, score=0.8, scoring="roc_auc", prevalence=0.1)
    assert accuracy.half_width < even_classes.half_width < rare_class.half_width
    assert "0.5, assumed" in str(even_classes)
    assert "assumed" not in str(rare_class)


def test_a_preview_rejects_a_prevalence_of_0(unqueried_holdout):
    with refused(ValueError, "prevalence"):
        unqueried_holdout.preview(scoring="roc_auc", prevalence=0.0)


def test_a_preview_takes_the_prevalence_from_recorded_answers(unqueried_holdout):
    unqueried_holdout.score(Ranks(), 0.5, scoring="roc_auc")
    assert "as recorded" in str(unqueried_holdout.preview(20, scoring="balanced_accuracy"))


def test_a_recorded_proportion_of_negative_records_implies_the_prevalence():
    """For groups, specificity needs and records the proportion of the negative class alone."""
    groups = Groups(np.arange(4000) // 2)
    holdout, _ = answer_metric_query(4000, 0.2, name="specificity", correlation=groups)
    note = holdout.preview(20, scoring="roc_auc").note
    prevalence = float(re.search(r"positive records is (\S+), as recorded", note).group(1))
    assert prevalence == pytest.approx(0.2, abs=0.06)  # of the smallest of many slices


def patients(n, seed, *, single_visit=False):
    """Visits of patients; a third is ill at some visits, the ill come more often."""
    rng = np.random.default_rng(seed)
    is_ill_often = rng.random(n) < 0.3
    visits = np.ones(n, int) if single_visit else rng.integers(1, 4, n) + 3 * is_ill_often
    patient_ids = np.repeat(np.arange(n), visits)
    y = (is_ill_often[patient_ids] & (rng.random(len(patient_ids)) < 0.7)).astype(int)
    score = (
        1.5 * y + 0.8 * rng.normal(size=n)[patient_ids] + 0.6 * rng.normal(size=len(patient_ids))
    )
    return score[:, None], y, patient_ids


@pytest.mark.parametrize(
    "name",
    [
        "roc_auc",
        *(pytest.param(n, marks=pytest.mark.slow) for n in ("balanced_accuracy", "recall")),
    ],
)
def test_intervals_with_many_visits_are_as_narrow_as_with_one_visit(name):
    """G19: a random visit of a random patient, right although the ill come more often."""
    X, y, patient_ids = patients(200_000, 99)
    first_visits = np.unique(patient_ids, return_index=True)[1]  # visits are alike: any one will do
    expected_score = get_metric(name, y=y).training_score(Ranks(), X[first_visits], y[first_visits])
    half_widths = {}
    for single_visit in (False, True):
        widths = []
        for seed in range(8):
            X, y, patient_ids = patients(400, seed, single_visit=single_visit)
            _, training_labels, training_groups = patients(
                1200, seed + 50, single_visit=single_visit
            )
            metric = get_metric(name).with_training_targets(training_labels, training_groups)
            holdout = ReusableHoldout(
                X, y, random_state=seed, correlation=Groups(patient_ids), spending="even"
            )
            answer = holdout.answer_evaluations([expected_score], [metric.evaluate(Ranks(), X, y)])
            assert answer.lower[0] < expected_score < answer.upper[0]
            widths.append(answer.upper[0] - answer.lower[0])
        half_widths[single_visit] = np.mean(widths) / 2
    assert half_widths[False] < 1.25 * half_widths[True] < 0.25


@pytest.mark.parametrize("seed", [0, 1])
def test_a_balanced_training_set_and_an_explicit_holdout_of_few_events(seed):
    """G20, end to end: 10 of 10 AUC intervals were wrong before class shares were queried."""
    X, y = records(600, 0.5, seed)
    X_val, y_val = records(1500, 0.03, seed + 9)
    model = make_pipeline(StandardScaler(), LogisticRegression())
    search = ReusableHoldoutSearchCV(
        model, {"logisticregression__C": [0.1, 1.0]}, scoring="roc_auc", random_state=seed
    ).fit(X, y, X_val=X_val, y_val=y_val)
    report = search.final_report()
    for lower, upper in (search.best_interval_, (report.lower, report.upper)):
        assert lower < 0.88 < upper
    assert report.lower > 0.25
