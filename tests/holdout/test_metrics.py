"""Holdout queries of metrics that are not means: widths, noise and the cost of class sizes."""

import dataclasses
import math
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


def records(n, share, seed=0):
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < share).astype(int)
    return (y * SHIFT + rng.normal(size=n))[:, None], y


def ask(n, share, *, name="roc_auc", informed=True, holdout=None, **options):
    X, y = records(n, share)
    metric = get_metric(name, y=records(3 * n, share, seed=1)[1] if informed else None)
    holdout = holdout or ReusableHoldout(X, y, random_state=0, **options)
    answer = holdout.answer_evaluations([0.88], [metric.evaluate(Ranks(), X, y)], n_train=3 * n)
    return holdout, answer


@pytest.mark.parametrize(("n", "share", "most"), [(2500, 0.5, 0.032), (2000, 0.05, 0.14)])
def test_one_auc_question_is_answered_far_more_sharply_than_by_mcdiarmid(n, share, most):
    """G12: .107 and .28 by worst-case steps of single records."""
    _, answer = ask(n, share, spending="even")
    assert (answer.upper - answer.lower)[0] / 2 <= most
    assert answer.lower[0] < 0.88 < answer.upper[0]


def test_the_certificate_says_what_an_auc_assumes():
    """G12: given the labels, records of a class are exchangeable; said from then on."""
    holdout, _ = ask(1000, 0.5)
    holdout.answer([0.5], np.full((1, 1000), 0.5))
    assert any("identically distributed" in line for line in holdout.certificate().assumptions)
    plain = ReusableHoldout(*records(1000, 0.5), random_state=0)
    plain.answer([0.5], np.full((1, 1000), 0.5))
    assert not any("identically" in line for line in plain.certificate().assumptions)


@pytest.mark.parametrize(
    "name", ["roc_auc", pytest.param("balanced_accuracy", marks=pytest.mark.slow), "recall"]
)
@pytest.mark.parametrize("share", [0.03, 0.3])
@pytest.mark.parametrize("told", [0.5, None])
def test_training_labels_that_say_nothing_of_the_holdout_cost_nats_only(name, share, told):
    """G20: a training side undersampled to one half, or not told; the interval holds."""
    truth = {"roc_auc": 0.88, "balanced_accuracy": TRUTH, "recall": TRUTH}[name]
    for seed in range(12):
        X, y = records(1500, share, seed)
        holdout = ReusableHoldout(X, y, random_state=seed, spending="even")
        labels = None if told is None else records(200, told, seed=seed + 99)[1]
        metric = get_metric(name, y=labels)
        answer = holdout.answer_evaluations([0.8], [metric.evaluate(Ranks(), X, y)])
        assert answer.lower[0] < truth < answer.upper[0]
        if name != "recall" or share == 0.3:
            assert answer.upper[0] - answer.lower[0] < (0.62 if share == 0.03 else 0.25)


@pytest.mark.parametrize(
    "options", [{"expert": ExpertSettings(resolution=0.05)}, {"budget": 20}, {"epsilon": 5.0}]
)
def test_a_grid_of_answers_does_not_round_shares(options):
    """G20: one record in a hundred is ill and half of the training set; 30 of 30 were wrong."""
    for seed in range(12):
        X, y = records(5000, 0.01, seed)
        holdout = ReusableHoldout(X, y, random_state=seed, **options)
        metric = get_metric("roc_auc", y=records(2000, 0.5, seed=seed + 99)[1])
        answer = holdout.answer_evaluations([0.8], [metric.evaluate(Ranks(), X, y)])
        assert answer.lower[0] < 0.88 < answer.upper[0]


def test_class_shares_are_asked_once_for_each_set_of_classes(tmp_path):
    """G20: class shares are queried once per ledger; metrics of the same classes share them."""
    X, y = records(600, 0.5)
    path, spent = tmp_path / "ledger.db", []
    for name, classes in (("roc_auc", (0, 1)), ("recall", (0, 1)), ("recall", (0, 1, 2))):
        holdout = ReusableHoldout(X, y, ledger=path, random_state=0)
        metric = dataclasses.replace(get_metric(name), classes=classes)
        model = Ranks() if len(classes) == 2 else Ranks3()
        before = holdout.information_spent
        holdout.answer_evaluations([0.88], [metric.evaluate(model, X, y)], keys=None)
        spent.append(holdout.history()[-1].code_length - before)
    assert spent[0] > 0.2
    assert spent[1] == pytest.approx(0.0)
    assert spent[2] > 0.2


def test_class_shares_predicted_from_training_labels_are_nearly_free():
    plain = ReusableHoldout(*records(1000, 0.5), random_state=0)
    plain.answer([0.5], np.full((1, 1000), 0.5))
    told, _ = ask(1000, 0.3)
    guessed, _ = ask(1000, 0.3, informed=False)
    free, cheap, dear = (one.history()[0].code_length for one in (plain, told, guessed))
    assert free < cheap < free + 0.2 < dear - 1.0


@pytest.mark.parametrize("informed", [True, False])
def test_a_level_for_life_covers_class_shares(informed):
    """T1: shares are queries of the mechanism, and take part in its budget."""
    holdout, answer = ask(1000, 0.3, informed=informed, epsilon=0.5, budget=3)
    assert answer.answered[0]
    assert answer.lower[0] < 0.88 < answer.upper[0]
    assert holdout.remaining_budget <= 3 - (not informed) - int(answer.corrected[0])
    one, _ = ask(1000, 0.3, epsilon=0.5, budget=1, on_exhausted="nan")
    assert not one.history()  # the share may need the only one


def test_the_level_reported_answers_for_noise_below_the_sensitivity():
    """T1: noise in units of the spread costs more by the ratio of sensitivity and unit."""
    X, y = records(2000, 0.05)
    plain = ReusableHoldout(X, y, random_state=0)
    plain.answer([0.9], np.full((1, 2000), 0.2))
    holdout, _ = ask(2000, 0.05)
    holdout.answer([0.9], np.full((1, 2000), 0.2))  # afterwards all of life has the ratio
    ratio = holdout.certificate().dp_epsilon / plain.certificate().dp_epsilon
    assert 200 > ratio > 5.0


def test_groups_get_an_interval_too():
    """G12 with B1: labels may depend inside groups."""
    _, answer = ask(4000, 0.5, correlation=Groups(np.arange(4000) // 2))
    assert 0.7 < answer.lower[0] < 0.88 < answer.upper[0]


def test_a_preview_takes_names_and_says_which_share_it_assumed():
    X, y = np.zeros((600, 1)), (np.arange(600) % 3 == 0).astype(int)
    holdout = ReusableHoldout(X, y, random_state=0)
    plain = holdout.preview(20, score=0.8, scoring="accuracy")
    assert plain == holdout.preview(20, score=0.8)
    assert {type(value) for value in vars(plain).values()} == {int, float, str}
    assert f"{plain.half_width:.3g}" in plain._repr_html_()
    rare = holdout.preview(20, score=0.8, scoring="roc_auc", prevalence=0.1)
    even = holdout.preview(20, score=0.8, scoring="roc_auc")
    assert plain.half_width < even.half_width < rare.half_width
    assert "0.5, assumed" in str(even)
    assert "assumed" not in str(rare)
    with refused(ValueError, "prevalence"):
        holdout.preview(scoring="roc_auc", prevalence=0.0)
    model = Ranks()
    holdout.score(model, 0.5, scoring="roc_auc")
    assert "as recorded" in str(holdout.preview(20, scoring="balanced_accuracy"))


def patients(n, seed, *, one=False):
    """Visits of patients; a third is ill at some visits, the ill come more often."""
    rng = np.random.default_rng(seed)
    prone = rng.random(n) < 0.3
    visits = np.ones(n, int) if one else rng.integers(1, 4, n) + 3 * prone
    group = np.repeat(np.arange(n), visits)
    y = (prone[group] & (rng.random(len(group)) < 0.7)).astype(int)
    score = 1.5 * y + 0.8 * rng.normal(size=n)[group] + 0.6 * rng.normal(size=len(group))
    return score[:, None], y, group


@pytest.mark.parametrize(
    "name",
    [
        "roc_auc",
        *(pytest.param(n, marks=pytest.mark.slow) for n in ("balanced_accuracy", "recall")),
    ],
)
def test_patients_are_known_as_well_as_by_one_visit_each(name):
    """G19: a random visit of a random patient, right although the ill come more often."""
    X, y, group = patients(200_000, 99)
    first = np.unique(group, return_index=True)[1]  # visits are alike: any one will do
    truth = get_metric(name, y=y).training_score(Ranks(), X[first], y[first])
    halves = {}
    for one in (False, True):
        found = []
        for seed in range(8):
            X, y, group = patients(400, seed, one=one)
            _, labels, of = patients(1200, seed + 50, one=one)
            metric = get_metric(name).informed(labels, of)
            holdout = ReusableHoldout(
                X, y, random_state=seed, correlation=Groups(group), spending="even"
            )
            answer = holdout.answer_evaluations([truth], [metric.evaluate(Ranks(), X, y)])
            assert answer.lower[0] < truth < answer.upper[0]
            found.append(answer.upper[0] - answer.lower[0])
        halves[one] = np.mean(found) / 2
    assert halves[False] < 1.25 * halves[True] < 0.25


@pytest.mark.parametrize("seed", [0, 1])
def test_a_balanced_training_side_and_an_explicit_holdout_of_few_events(seed):
    """G20, end to end: AUC intervals around one half, 10 of 10 wrong, before shares were asked."""
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
