"""Displays: their data, their drawings, and the import of matplotlib only when drawing."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression

from sklearn_bdp.holdout import ReusableHoldout
from sklearn_bdp.inspection import BudgetDisplay, HoldoutSearchDisplay
from sklearn_bdp.model_selection import ReusableHoldoutSearchCV
from tests.facts import refused

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402 (after the backend is chosen)


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


def results(n=4, unanswered=()):
    rng = np.random.default_rng(0)
    score = rng.uniform(0.6, 0.9, n)
    verified = score + rng.normal(0, 0.02, n)
    verified[list(unanswered)] = np.nan
    source = np.where(np.arange(n) % 2, "holdout", "cv").astype("<U10")
    source[list(unanswered)] = "unanswered"
    return {
        "params": [{"C": 10.0 ** (i // 2), "kernel": ["rbf", "poly"][i % 2]} for i in range(n)],
        "mean_test_score": score,
        "holdout_score": verified,
        "holdout_lower": verified - 0.05,
        "holdout_upper": verified + 0.05,
        "answered_from": source,
    }


def fake_search(n=4, unanswered=()):
    table = results(n, unanswered)
    return SimpleNamespace(cv_results_=table, best_index_=int(np.nanargmax(table["holdout_score"])))


@pytest.fixture(scope="module")
def search():
    X, y = make_classification(400, random_state=0)
    grid = {"C": np.logspace(-3, 3, 5), "fit_intercept": [True, False]}
    return ReusableHoldoutSearchCV(LogisticRegression(), grid, random_state=0).fit(X, y)


DISPLAYS = {
    "search": lambda **kw: HoldoutSearchDisplay.from_search(fake_search(), **kw),
    "parameter": lambda **kw: HoldoutSearchDisplay.from_search(fake_search(), param="C", **kw),
    "words": lambda **kw: HoldoutSearchDisplay.from_search(fake_search(), param="kernel", **kw),
    "many": lambda **kw: HoldoutSearchDisplay.from_search(fake_search(40, range(9)), **kw),
}


@pytest.mark.parametrize("make", DISPLAYS.values(), ids=DISPLAYS)
def test_display_follows_the_conventions(make):
    """As in scikit-learn: ``from_*`` draws, ``plot`` draws again, ``ax=`` says where."""
    plt.close("all")  # figures of other tests
    display = make()
    assert display.figure_ is display.ax_.figure
    first_ax = display.ax_
    assert display.plot() is display
    assert display.ax_ is not first_ax
    assert display.ax_.get_xlabel()
    assert display.ax_.get_ylabel()
    display.figure_.canvas.draw()

    figure, ax = plt.subplots()
    display_on_ax = make(ax=ax)
    assert display_on_ax.ax_ is ax
    assert display_on_ax.figure_ is figure
    assert len(plt.get_fignums()) == 3


def test_of_many_candidates_the_best_and_the_selected_one_are_drawn():
    search = fake_search(50)
    search.best_index_ = 49  # chosen by a rule, not by its score
    display = HoldoutSearchDisplay.from_search(search)
    assert len(display.position) in (20, 21)
    assert f"({len(display.position)} of 50)" in display.x_label
    assert display.holdout_score[display.best] == search.cv_results_["holdout_score"][49]


def test_the_only_parameter_that_was_searched_is_the_axis():
    table = results()
    table["params"] = [{"C": c, "kernel": "rbf"} for c in (0.1, 1.0, 10.0, 100.0)]
    display = HoldoutSearchDisplay.from_search(SimpleNamespace(cv_results_=table, best_index_=0))
    assert display.x_label == "C"
    assert display.ax_.get_xscale() == "log"


def test_axis_shows_the_chosen_interval_and_the_baseline_not_relaxed_ones():
    table = results()
    table["holdout_lower"][0] = 0.0
    certificate = SimpleNamespace(baseline=0.5)
    search = SimpleNamespace(cv_results_=table, best_index_=1, certificate_=certificate)
    display = HoldoutSearchDisplay.from_search(search)
    low, high = display.ax_.get_ylim()
    assert 0.0 < low < display.baseline == 0.5
    assert table["holdout_upper"][1] < high
    assert "relaxed" in display.ax_.get_xlabel()


def test_best_comes_first_and_unanswered_last():
    display = HoldoutSearchDisplay.from_search(fake_search(6, [2, 4]))
    assert display.best == 0
    assert (np.diff(display.holdout_score[:4]) <= 0).all()
    assert (display.answered_from[4:] == "unanswered").all()
    assert display.position.tolist() == [1, 2, 3, 4, 5, 6]


def test_cross_validated_scores_in_place_of_answers_are_not_drawn_as_verified():
    search = fake_search(4)
    table = search.cv_results_
    table["answered_from"][1] = "unanswered"
    table["holdout_score"][1] = 1.0
    display = HoldoutSearchDisplay.from_search(search)
    assert display.answered_from[-1] == "unanswered"
    assert 1.0 not in display.holdout_line_.get_ydata()


def test_parameter_shows_the_best_candidate_of_each_value():
    search = fake_search(6)
    display = HoldoutSearchDisplay.from_search(search, param="C")
    assert display.position.tolist() == [1.0, 10.0, 100.0]
    verified = search.cv_results_["holdout_score"].reshape(3, 2)
    np.testing.assert_array_equal(display.holdout_score, verified.max(axis=1))
    kernel_display = HoldoutSearchDisplay.from_search(search, param="kernel")
    assert kernel_display.tick_labels == ["rbf", "poly"]


def test_interval_bars_have_the_reported_limits():
    display = HoldoutSearchDisplay.from_search(fake_search(4, [1]))
    (bars,) = [
        collection for collection in display.ax_.collections if len(collection.get_segments()) == 3
    ]
    ends = np.array([segment[:, 1] for segment in bars.get_segments()])
    answered = ~np.isnan(display.holdout_score)
    np.testing.assert_allclose(ends[:, 0], display.holdout_lower[answered])
    np.testing.assert_allclose(ends[:, 1], display.holdout_upper[answered])


@pytest.mark.parametrize(
    ("call", "fact"),
    [
        (lambda: HoldoutSearchDisplay.from_search(SimpleNamespace()), "holdout=None"),
        (lambda: HoldoutSearchDisplay.from_search(fake_search(), param="D"), "C, kernel"),
        (lambda: BudgetDisplay.from_holdout(SimpleNamespace(history=list)), "holdout"),
    ],
)
def test_bad_arguments_are_rejected(call, fact):
    with refused(ValueError, fact):
        call()


def test_real_search_and_its_holdout(search):
    display = HoldoutSearchDisplay.from_search(search, score_name="accuracy")
    assert display.best == 0
    table = search.cv_results_
    assert display.holdout_score[0] == table["holdout_score"][search.best_index_]
    assert display.ax_.get_ylabel() == "accuracy"
    HoldoutSearchDisplay.from_search(search, param="C")
    budget_display = BudgetDisplay.from_holdout(search.holdout_)
    assert budget_display.n_answers.sum() == len(search.holdout_.history())
    assert budget_display.n_above.sum() == (table["answered_from"] == "holdout").sum()
    assert budget_display.next_nats == search.holdout_.next_code_length


def test_the_metric_that_ranks_is_drawn_and_named():
    table = results()
    table["holdout_score_roc_auc"] = table["holdout_score"]
    search = SimpleNamespace(cv_results_=table, best_index_=0, refit="roc_auc", scoring=["roc_auc"])
    assert HoldoutSearchDisplay.from_search(search).score_name == "roc auc"


def test_search_without_holdout_raises():
    X, y = make_classification(60, random_state=0)
    search = ReusableHoldoutSearchCV(LogisticRegression(), {"C": [1.0]}, holdout=None).fit(X, y)
    with refused(ValueError, "holdout=None"):
        HoldoutSearchDisplay.from_search(search)


@pytest.mark.parametrize("cv_scores", [[0.7, 0.5], [0.5, 0.7]])
def test_code_length_of_a_batch_does_not_depend_on_the_order_of_its_queries(cv_scores):
    scores = (np.random.default_rng(0).random((2, 500)) < np.array([cv_scores]).T).astype(float)
    holdout = ReusableHoldout(np.zeros((500, 1)), np.zeros(500), random_state=0)
    holdout.answer(np.array(cv_scores), scores)
    code_lengths = [answer.code_length for answer in holdout.history()]
    display = BudgetDisplay.from_holdout(holdout)
    assert display.nats.tolist() == [min(code_lengths)] != [max(code_lengths)]


def test_gauge_of_many_batches():
    rng = np.random.default_rng(0)
    holdout = ReusableHoldout(np.zeros((500, 1)), np.zeros(500), random_state=0)
    for _ in range(12):
        scores = (rng.random((2, 500)) < 0.7).astype(float)
        holdout.answer(np.array([0.7, 0.5]), scores)
    display = BudgetDisplay.from_holdout(holdout)
    assert len(display.nats) == 12
    assert (display.n_answers == 2).all()
    display.figure_.canvas.draw()


def test_without_matplotlib_plot_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    answer = SimpleNamespace(batch=1, code_length=2.0, corrected=False)
    with refused(ImportError, "BudgetDisplay.plot", "matplotlib", "sklearn-bdp[plot]"):
        BudgetDisplay.from_holdout(SimpleNamespace(history=lambda: [answer]))


def test_markers_are_visible_on_a_dark_background():
    history = [
        SimpleNamespace(batch=batch, code_length=float(batch), corrected=batch == 1)
        for batch in (1, 1, 2)
    ]
    holdout = SimpleNamespace(history=lambda: history, remaining_budget=None, next_code_length=2.0)
    cv_results = {
        "params": [{"C": 0.1}, {"C": 1.0}],
        "mean_test_score": np.array([0.7, 0.8]),
        "holdout_score": np.array([0.7, 0.78]),
        "holdout_lower": np.array([0.65, 0.74]),
        "holdout_upper": np.array([0.75, 0.82]),
        "answered_from": np.array(["cv", "holdout"]),
    }
    search = SimpleNamespace(cv_results_=cv_results, best_index_=1)
    with plt.style.context("dark_background"):
        for display in (
            BudgetDisplay.from_holdout(holdout),
            HoldoutSearchDisplay.from_search(search),
        ):
            ax = display.plot().ax_
            background = matplotlib.colors.to_rgb(ax.get_facecolor())
            for line in ax.lines:
                assert matplotlib.colors.to_rgb(line.get_markeredgecolor()) != background
            plt.close(display.figure_)
