"""A holdout's answers, its charges, and the requests it rejects before charging."""

import math

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression, Ridge

from sklearn_bdp.accounting.spending import code_length, rank_code_lengths
from sklearn_bdp.correlation import Groups, MarkovChain
from sklearn_bdp.correlation.cutting import gap_failure_probability
from sklearn_bdp.exceptions import (
    BudgetExhaustedError,
    UnboundedMetricError,
    UninformativeIntervalWarning,
)
from sklearn_bdp.holdout import ExpertSettings, ReusableHoldout
from sklearn_bdp.metrics import PerRecordScore, get_metric
from tests.facts import refused, warned
from tests.holdout.planted import HITS, SCORE, fitted
from tests.holdout.planted import X as X_PLANTED
from tests.holdout.planted import Y as Y_PLANTED

# Several holdouts of the same records, each for a test of its own.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.SecondHoldoutWarning")

ZHAO = ExpertSettings(n_queries=5)
N = 400
X = np.arange(2.0 * N).reshape(N, 2)
Y = np.arange(N) % 2


def scores_with_mean(score):
    """Per-record scores with the given mean."""
    return (np.arange(N) < round(score * N)).astype(float)


def scores_with_means(*scores):
    return np.array([scores_with_mean(score) for score in scores])


@pytest.fixture
def holdout():
    return ReusableHoldout(X, Y, random_state=0)


# -- answers --------------------------------------------------------------------------------------


def test_a_correct_prediction_is_confirmed_and_a_wrong_one_corrected(holdout):
    answers = holdout.answer([0.7, 0.95], scores_with_means(0.7, 0.4))
    assert answers.corrected.tolist() == [False, True]
    assert answers.values[0] == 0.7
    assert abs(answers.values[1] - 0.4) < 0.1
    assert answers.answered.all()
    assert ((answers.lower <= answers.values) & (answers.values <= answers.upper)).all()


def test_one_answer_moves_the_predictions_of_the_rest_of_a_batch():
    """A constant bias is discovered once: the first corrected, the others below."""
    holdout = ReusableHoldout(X, Y, spending="even", random_state=0)
    answers = holdout.answer(np.full(20, 0.8), np.tile(scores_with_mean(0.6), (20, 1)))
    assert answers.corrected[0]
    assert answers.corrected.sum() <= 2
    assert np.all(np.abs(answers.values - 0.6) < 0.06)


def test_a_scalar_query_is_a_batch_of_one(holdout):
    answers = holdout.answer(0.7, scores_with_mean(0.7))
    assert answers.values.shape == (1,)


def test_answers_are_read_only(holdout):
    answers = holdout.answer([0.7], scores_with_means(0.7))
    with refused(ValueError, "read-only"):
        answers.values[0] = 1.0


def test_released_values_lie_on_the_grid():
    holdout = ReusableHoldout(X, Y, expert=ExpertSettings(resolution=0.05))
    answers = holdout.answer([0.0] * 6, scores_with_means(0.9, 0.1, 0.5, 0.7, 0.3, 0.6))
    cells = answers.values[answers.corrected] / 0.05 - 0.5
    assert np.allclose(cells, np.round(cells), atol=1e-9)


def test_information_spent_is_the_released_code_length(holdout):
    """The next query also pays the weight of its batch, in a fresh holdout nothing else."""
    assert holdout.information_spent == 0.0
    assert holdout.next_code_length == pytest.approx(math.log(20))
    holdout.answer([0.5, 0.5, 0.5], scores_with_means(0.5, 0.5, 0.5))
    with holdout.account.read_transaction() as transaction:
        released = transaction.totals.released
    assert 0 < released < 1
    assert holdout.information_spent == released
    assert holdout.next_code_length == pytest.approx(code_length(released=released, batch_index=2))
    counts = holdout.certificate().answers
    assert counts.information_spent == released
    assert counts.next_code_length == holdout.next_code_length
    lengths = [record.code_length for record in holdout.history()]
    assert lengths == pytest.approx(math.log(20) + rank_code_lengths([0.5, 0.5, 0.5]))


def test_intervals_widen_with_the_information_spent(holdout):
    first_answers = holdout.answer([0.5], scores_with_means(0.5))
    for _ in range(20):
        holdout.answer([0.1, 0.9], scores_with_means(0.9, 0.1))
    last_answers = holdout.answer([0.5], scores_with_means(0.5))
    assert (
        last_answers.upper[0] - last_answers.lower[0]
        > first_answers.upper[0] - first_answers.lower[0]
    )


def test_a_larger_n_train_narrows_the_threshold():
    small_training_answers, large_training_answers = (
        ReusableHoldout(X, Y, spending="even").answer(
            [0.5], scores_with_means(0.5), n_train=n_train
        )
        for n_train in (50, 5000)
    )
    assert (
        large_training_answers.upper[0] - large_training_answers.lower[0]
        < small_training_answers.upper[0] - small_training_answers.lower[0]
    )


# -- keys -----------------------------------------------------------------------------------------


def test_repeated_queries_are_free_and_have_the_same_answer(holdout):
    keys = ["a", "b"]
    first_answers = holdout.answer([0.9, 0.5], scores_with_means(0.3, 0.5), keys=keys)
    spent = holdout.information_spent
    repeated = holdout.answer([0.9, 0.5], scores_with_means(0.9, 0.9), keys=keys)
    for name in ("values", "lower", "upper", "corrected", "answered"):
        assert np.array_equal(getattr(first_answers, name), getattr(repeated, name))
    assert holdout.information_spent == spent
    assert len(holdout.history()) == 2


def test_a_key_under_another_cv_score_is_another_query(holdout):
    first_answers = holdout.answer([0.9], scores_with_means(0.3), keys=["a"])
    other_answers = holdout.answer([0.5], scores_with_means(0.6), keys=["a"])
    assert len(holdout.history()) == 2
    assert other_answers.values[0] != first_answers.values[0]
    assert (
        holdout.answer([0.9], scores_with_means(0.3), keys=["a"]).values[0]
        == first_answers.values[0]
    )
    assert (
        holdout.answer([0.5 + 1e-9], scores_with_means(0.6), keys=["a"]).values[0]
        == other_answers.values[0]
    )
    assert len(holdout.history()) == 2


def test_a_key_twice_in_a_batch_is_one_query(holdout):
    answers = holdout.answer(
        [0.9, 0.9, 0.5], scores_with_means(0.3, 0.3, 0.5), keys=["a", "a", None]
    )
    assert answers.values[0] == answers.values[1]
    assert len(holdout.history()) == 2
    two_query_length = math.log(20) + rank_code_lengths([0.9, 0.5])[0]  # two queries, not three
    assert holdout.history()[0].code_length == pytest.approx(two_query_length)


def test_only_new_queries_of_a_mixed_batch_are_charged(holdout):
    holdout.answer([0.5], scores_with_means(0.5), keys=["old"])
    holdout.answer([0.5, 0.6], scores_with_means(0.5, 0.6), keys=["old", "new"])
    assert [record.key for record in holdout.history()] == ["old", "new"]
    assert set(holdout.find_answers(["old", "new", "never"])) == {"old", "new"}


def test_queries_without_keys_are_always_new(holdout):
    holdout.answer([0.5], scores_with_means(0.5))
    holdout.answer([0.5], scores_with_means(0.5))
    assert len(holdout.history()) == 2


@pytest.mark.parametrize("keys", [["a"], ["a", ""], ["a", 3], ["a", "x" * 2000], ["a", b"b"]])
def test_bad_keys_are_rejected(holdout, keys):
    with refused(ValueError, "keys"):
        holdout.answer([0.5, 0.5], scores_with_means(0.5, 0.5), keys=keys)
    assert len(holdout.history()) == 0


# -- exhaustion -----------------------------------------------------------------------------------

FAR_SCORES = scores_with_means(0.1, 0.9, 0.1, 0.9, 0.1)
GUESSES = [0.9, 0.1, 0.9, 0.1, 0.9]
KEYS = list("abcde")


@pytest.fixture
def make_limited_holdout():
    """Each query is far from the predictions: all are corrected, until the budget is spent."""

    def make(on_exhausted):
        return ReusableHoldout(X, Y, budget=2, on_exhausted=on_exhausted, random_state=0)

    return make


def test_on_exhausted_raise_records_earlier_answers_and_reports_the_budget(make_limited_holdout):
    holdout = make_limited_holdout("raise")
    with refused(BudgetExhaustedError, "budget=2"):
        holdout.answer(GUESSES, FAR_SCORES, keys=KEYS)
    assert [record.key for record in holdout.history()] == ["a", "b"]
    assert holdout.remaining_budget == 0
    assert holdout.answer(GUESSES[:2], FAR_SCORES[:2], keys=KEYS[:2]).answered.all()
    with refused(BudgetExhaustedError):
        holdout.answer(GUESSES, FAR_SCORES, keys=KEYS)
    assert len(holdout.history()) == 2


def test_on_exhausted_nan_leaves_later_values_empty(make_limited_holdout):
    holdout = make_limited_holdout("nan")
    answers = holdout.answer(GUESSES, FAR_SCORES, keys=KEYS)
    assert answers.answered.tolist() == [True, True, False, False, False]
    for array in (answers.values, answers.lower, answers.upper):
        assert np.isnan(array).tolist() == [False, False, True, True, True]
    assert not answers.corrected[2:].any()
    assert len(holdout.history()) == 2


def test_on_exhausted_cv_returns_cv_scores_without_a_guarantee(make_limited_holdout):
    holdout = make_limited_holdout("cv")
    answers = holdout.answer(GUESSES, FAR_SCORES)
    assert answers.values[2:].tolist() == GUESSES[2:]
    assert answers.lower[2:].tolist() == [0.0] * 3
    assert answers.upper[2:].tolist() == [1.0] * 3
    assert answers.answered.tolist() == [True, True, False, False, False]


@pytest.mark.parametrize("on_exhausted", ["raise", "nan", "cv"])
def test_an_exhausted_holdout_charges_nothing_more(make_limited_holdout, on_exhausted):
    holdout = make_limited_holdout(on_exhausted)
    for _ in range(3):
        try:
            holdout.answer(GUESSES, FAR_SCORES)
        except BudgetExhaustedError:
            assert on_exhausted == "raise"
    assert len(holdout.history()) == 2
    assert holdout.history()[-1].batch == 1


def test_below_answers_cost_no_budget():
    holdout = ReusableHoldout(X, Y, budget=1)
    for _ in range(5):
        assert not holdout.answer([0.5], scores_with_means(0.5)).corrected[0]
    assert holdout.remaining_budget == 1


def test_remaining_budget_is_none_without_a_budget(holdout):
    assert holdout.remaining_budget is None


def test_a_numeric_epsilon_has_a_budget_of_ten():
    assert ReusableHoldout(X, Y, epsilon=200.0).remaining_budget == 10


# -- refusals before anything is spent ------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "error", "fact"),
    [
        (([0.5], np.ones((1, N - 1))), ValueError, "(m, 400)"),
        (([0.5], np.ones(3)), ValueError, "shape"),
        (([0.5], np.full((1, N), np.nan)), ValueError, "finite"),
        (([0.5], np.full((1, N), np.inf)), ValueError, "finite"),
        (([0.5], np.full((1, N), 1.01)), ValueError, "[0, 1]"),
        (([0.5], np.full((1, N), -0.01)), ValueError, "[0, 1]"),
        (([0.5], "scores"), TypeError, "per_record_scores"),
        (([0.5], [[object()] * N]), TypeError, "per_record_scores"),
        (([1.5], scores_with_means(0.5)), ValueError, "cv_scores"),
        (([np.nan], scores_with_means(0.5)), ValueError, "cv_scores"),
        (([0.5, 0.5], scores_with_means(0.5)), ValueError, "cv_scores"),
        (([], np.empty((0, N))), ValueError, "0"),
    ],
)
def test_bad_queries_are_rejected_and_free(holdout, arguments, error, fact):
    with refused(error, fact):
        holdout.answer(*arguments)
    assert len(holdout.history()) == 0


@pytest.mark.parametrize("n_train", [0, -1, np.nan, [1, 2, 3], "many"])
def test_bad_training_sizes_are_rejected(holdout, n_train):
    with refused((ValueError, TypeError), "n_train"):
        holdout.answer([0.5, 0.5], scores_with_means(0.5, 0.5), n_train=n_train)
    assert len(holdout.history()) == 0


@pytest.mark.parametrize(
    ("options", "fact"),
    [
        ({"confidence_level": 0.0}, "confidence_level"),
        ({"confidence_level": 1.0}, "confidence_level"),
        ({"confidence_level": math.nan}, "confidence_level"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"epsilon": math.inf}, "epsilon"),
        ({"epsilon": "much"}, "epsilon"),
        ({"calibration": "dwork"}, "calibration"),
        ({"calibration": "zhao2017"}, "n_queries"),
        ({"calibration": "zhao2017", "budget": 1, "epsilon": 1.0, "expert": ZHAO}, "epsilon"),
        ({"budget": 0}, "budget"),
        ({"budget": -1}, "budget"),
        ({"on_exhausted": "ignore"}, "on_exhausted"),
        ({"random_state": -1}, "random_state"),
        ({"gap": -1}, "gap"),
        ({"gap": (1, 2, 3)}, "gap"),
        ({"correlation": np.eye(3)[:, :2]}, "transition"),
        ({"correlation": [[0.5, 0.6], [0.5, 0.5]]}, "transition"),
        ({"correlation": [[math.nan, 1.0], [0.5, 0.5]]}, "transition"),
        ({"correlation": Groups(np.zeros(3))}, "3"),
    ],
)
def test_bad_parameters_are_rejected(options, fact):
    with refused(ValueError, fact):
        ReusableHoldout(X, Y, **options)


@pytest.mark.parametrize(
    "options",
    [{"budget": 2.5}, {"random_state": np.random.default_rng(0)}, {"ledger": 3}, {"gap": "wide"}],
)
def test_parameters_of_the_wrong_type_are_rejected(options):
    with refused(TypeError, next(iter(options))):
        ReusableHoldout(X, Y, **options)


@pytest.mark.parametrize(
    ("data", "error"),
    [
        ((X, Y[:-1]), ValueError),
        ((X, None), ValueError),
        ((X[:1], Y[:1]), ValueError),
        ((X[:0], Y[:0]), ValueError),
        ((3, Y), TypeError),
        (("text", "more"), TypeError),
    ],
)
def test_bad_data_are_rejected(data, error):
    with pytest.raises(error):
        ReusableHoldout(*data)


def test_a_short_gap_in_a_slow_chain_is_rejected_with_one_that_suffices():
    chain = MarkovChain([[0.99, 0.01], [0.01, 0.99]])
    with refused(ValueError, "gap"):
        ReusableHoldout(X, Y, correlation=chain, gap=1)


def test_a_gap_is_paid_from_beta_on_each_side():
    chain = MarkovChain([[0.9, 0.1], [0.2, 0.8]])
    one_sided = ReusableHoldout(np.zeros((3000, 1)), np.zeros(3000), correlation=chain, gap=20)
    two_sided = ReusableHoldout(
        np.zeros((3000, 1)), np.zeros(3000), correlation=chain, gap=(20, 20)
    )
    assert one_sided.account.settings.cut_failure == pytest.approx(
        gap_failure_probability(chain, 20)
    )
    assert two_sided.account.settings.cut_failure == pytest.approx(
        2 * gap_failure_probability(chain, 20)
    )
    for settings in (one_sided.account.settings, two_sided.account.settings):
        total_failure = settings.sampling_failure + settings.noise_failure + settings.cut_failure
        assert total_failure == pytest.approx(0.05)


# -- data -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        X,
        X.astype(np.float32),
        X.tolist(),
        sp.csr_matrix(X),
        sp.csr_array(X),
        pd.DataFrame(X, columns=["a", "b"]),
        pd.DataFrame({"a": X[:, 0], "b": pd.Categorical(Y.astype(str))}),
        [f"text {number}" for number in range(N)],
    ],
    ids=["array", "float32", "list", "csr_matrix", "csr_array", "frame", "mixed", "texts"],
)
def test_data_of_every_kind_reopen_their_ledger(data, path):
    ReusableHoldout(data, Y, ledger=path).answer([0.5], scores_with_means(0.5))
    assert len(ReusableHoldout(data, pd.Series(Y).to_numpy(), ledger=path).history()) == 1


def test_changes_of_the_callers_data_do_not_reach_the_holdout():
    data = X.copy()
    holdout = ReusableHoldout(data, Y)
    data[:] = 0
    assert np.array_equal(holdout.X, X)


def test_a_too_small_holdout_gives_a_warning():
    with warned(UninformativeIntervalWarning, "12"):
        ReusableHoldout(X[:12], Y[:12])


# -- score ----------------------------------------------------------------------------------------


@pytest.fixture
def planted_holdout():
    return ReusableHoldout(X_PLANTED, Y_PLANTED, random_state=0)


def test_scores_are_in_the_units_of_their_metric(planted_holdout):
    cv_score = round(SCORE, 3)  # near enough to be confirmed as it is
    score = planted_holdout.score(fitted(), cv_score, scoring="accuracy")
    assert float(score) == score.value == cv_score
    assert score.lower < SCORE < score.upper
    loss = planted_holdout.score(fitted(), -0.27, scoring="zero_one_loss")
    assert loss.lower < SCORE - 1 < loss.upper < 0


def test_the_score_of_a_model_is_the_answer_to_its_hits(planted_holdout):
    verified = planted_holdout.score(fitted(), 0.75, scoring="accuracy")
    second_holdout = ReusableHoldout(X_PLANTED, Y_PLANTED, random_state=0)
    answers = second_holdout.answer([0.75], [HITS])
    assert (verified.value, verified.lower, verified.upper) == (
        answers.values[0],
        answers.lower[0],
        answers.upper[0],
    )


def test_unbounded_metrics_are_rejected_and_free(planted_holdout):
    with pytest.raises(UnboundedMetricError):
        planted_holdout.score(fitted(), 0.5, scoring="f1")
    assert len(planted_holdout.history()) == 0


def test_metrics_that_are_not_means_need_independent_records_or_groups():
    score = ReusableHoldout(X_PLANTED, Y_PLANTED).score(fitted(), 0.75, scoring="balanced_accuracy")
    assert score.lower < score.value < score.upper
    chain_holdout = ReusableHoldout(X_PLANTED, Y_PLANTED, correlation=[[0.9, 0.1], [0.2, 0.8]])
    with refused(ValueError, "independent"):
        chain_holdout.score(fitted(), 0.75, scoring="balanced_accuracy")
    assert len(chain_holdout.history()) == 0


def test_a_score_by_key_is_free_the_second_time(planted_holdout):
    first_answer = planted_holdout.score(fitted(), 0.75, scoring="accuracy", key="model")
    assert planted_holdout.score(fitted(), 0.75, scoring="accuracy", key="model") == first_answer
    assert len(planted_holdout.history()) == 1


def test_a_key_under_another_metric_is_another_query(planted_holdout):
    planted_holdout.score(fitted(), 0.75, scoring="accuracy", key="model")
    constant_score = PerRecordScore(lambda model, X, y: np.full(len(y), 0.5), name="accuracy")
    planted_holdout.score(fitted(), 0.75, scoring=constant_score, key="model")
    assert len(planted_holdout.history()) == 2


# -- displays -------------------------------------------------------------------------------------


def test_representations_show_size_and_information_spent(holdout):
    holdout.answer([0.9], scores_with_means(0.3))
    assert "400" in repr(holdout)
    assert "nats" in repr(holdout)
    assert "<table>" in holdout._repr_html_()
    assert "1 answers, 1 corrected" in repr(holdout.history())


def test_the_history_is_a_sequence_and_a_frame(holdout):
    holdout.answer([0.9, 0.5], scores_with_means(0.3, 0.5), keys=["a", None])
    history = holdout.history()
    assert len(history[:1]) == 1
    frame = history.to_frame()
    assert frame["key"][0] == "a"
    assert pd.isna(frame["key"][1])
    expected_columns = {"batch", "code_length", "corrected", "value", "lower", "upper", "cv_score"}
    assert expected_columns <= set(frame)


def test_an_unfitted_model_is_rejected_and_costs_nothing():
    holdout = ReusableHoldout(np.zeros((50, 2)), np.arange(50) % 2)
    with pytest.raises(NotFittedError):
        holdout.score(LogisticRegression(), 0.9, scoring="accuracy")
    with refused(NotFittedError, "train_indices_"):
        holdout.final_report(LogisticRegression())
    assert len(holdout.history()) == 0


class Rule(ClassifierMixin, BaseEstimator):
    """A rule that is written by hand and cannot be fitted."""

    classes_ = np.array([0, 1])

    def predict(self, X):
        return (X[:, 0] > 0.0).astype(int)


def test_a_rule_that_cannot_be_fitted_is_scored_and_reported():
    X = np.random.default_rng(0).normal(size=(400, 2))
    holdout = ReusableHoldout(X, (X[:, 0] > 0.0).astype(int), random_state=0)
    assert holdout.score(Rule(), 0.9, scoring="accuracy").value > 0.8
    assert holdout.final_report(Rule(), scoring="accuracy").value == 1.0


def test_bounds_of_regression_errors_never_come_from_the_holdout():
    X = np.random.default_rng(0).normal(size=(200, 2))
    holdout = ReusableHoldout(X, X[:, 0], random_state=0)
    model = Ridge().fit(X, X[:, 0])
    for scoring in (None, "neg_mean_absolute_error"):
        with refused(ValueError, "bounds"):
            holdout.score(model, -0.1, scoring=scoring)
    assert len(holdout.history()) == 0
    metric = get_metric("neg_mean_absolute_error", bounds=(-5.0, 5.0))
    score = holdout.score(model, -0.1, scoring=metric)
    assert score.lower <= float(score) <= score.upper


class AlwaysFails:
    classes_ = np.array([0, 1])

    def predict(self, X):
        raise RuntimeError("secret row")


def test_a_model_that_fails_on_every_record_gets_the_worst_score():
    holdout = ReusableHoldout(X_PLANTED, Y_PLANTED)
    score = holdout.score(AlwaysFails(), 0.9, scoring="accuracy")
    assert score.lower == 0.0
    assert score.upper < 0.2
    assert len(holdout.history()) == 1
    with refused(ValueError, "columns"):
        holdout.score(LogisticRegression().fit(X_PLANTED[:, :1], Y_PLANTED), 0.9)
    assert len(holdout.history()) == 1


def test_slices_of_answers_are_answers():
    X = np.zeros((40, 1))
    y = np.arange(40) % 2
    holdout = ReusableHoldout(X, y, random_state=0)
    answers = holdout.answer([0.2, 0.5, 0.8], np.full((3, 40), 0.5))
    assert len(answers[:2]) == 2
    assert answers[1:][0] == answers[1]
    assert not answers[::2].values.flags.writeable
    with pytest.raises(IndexError):
        answers[3]
