"""Preview and final report (G16, G22, G23): honest widths before, and nothing after."""

import numpy as np
import pytest
from scipy.stats import binom
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.cluster import KMeans
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import f1_score, make_scorer, matthews_corrcoef
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from sklearn_bdp import HoldoutConfig, ReusableHoldout, ReusableHoldoutSearchCV
from sklearn_bdp.correlation import Groups, MarkovChain
from sklearn_bdp.exceptions import BudgetExhaustedError, HoldoutClosedError
from sklearn_bdp.intervals.bounds import clopper_pearson_interval
from sklearn_bdp.metrics import PerRecordScore, get_metric
from tests.facts import refused

# One table, many holdouts; some are small or under a level of privacy.
pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.SecondHoldoutWarning"),
    pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.UninformativeIntervalWarning"),
]

N = 1000
X = np.zeros((N, 2))
Y = (np.arange(N) < 700).astype(int)
ONES = DummyClassifier(strategy="constant", constant=1).fit(X[:2], [0, 1])


def hits(accuracy):
    return (np.arange(N) < accuracy * N)[np.newaxis]


@pytest.fixture
def holdout(path):
    return ReusableHoldout(X, Y, ledger=path, random_state=0)


NUMBERS = np.linspace(0.1, 0.9, N)
WORDS = np.where(Y, "yes", "no")


@pytest.mark.parametrize(
    ("targets", "model", "scoring", "facts"),
    [
        (Y, LinearRegression(), "precision", ("LinearRegression",)),
        (Y, KMeans(2, n_init=1), "recall", ("KMeans",)),
        (Y, KMeans(2, n_init=1), "neg_mean_poisson_deviance", ("KMeans",)),
        (Y, ONES, "neg_mean_gamma_deviance", ("DummyClassifier", 0)),
        (Y, Y, "neg_mean_poisson_deviance", (0,)),
        (NUMBERS, NUMBERS, "f1", ()),
        (WORDS, WORDS, "f1", ("pos_label=1",)),
    ],
)
def test_unsupported_combinations_leave_the_holdout_open(targets, model, scoring, facts):
    # Predictions, classes and kinds of models are public; without a number the closing is wasted.
    holdout = ReusableHoldout(X, targets, random_state=0)
    if hasattr(model, "fit") and model is not ONES:
        model = model.fit(np.arange(20.0).reshape(10, 2), np.arange(10) % 2)
    with refused(TypeError, scoring, *facts):
        holdout.final_report(model, scoring=scoring)
    assert len(holdout.answer([0.5], np.ones((1, N)))) == 1


class Rule(ClassifierMixin, BaseEstimator):
    """Learns nothing, so that scikit-learn cannot detect that it is fitted."""

    def __init__(self, limit=0.0):
        self.limit = limit

    def fit(self, X, y=None):
        return self

    def predict(self, X):
        return (np.asarray(X)[:, 0] > self.limit).astype(int)


def test_a_rule_that_learns_nothing_is_scored_searched_and_reported():
    features = np.random.default_rng(0).normal(size=(N, 2))
    targets = (features[:, 0] > 0.0).astype(int)
    holdout = ReusableHoldout(features, targets, random_state=0)
    assert holdout.score(Rule(), 1.0).upper == 1.0
    model = LogisticRegression().fit(features[:2], [0, 1])
    report = holdout.final_report({"model": model, "rule": Rule()}, compare="rule")
    assert [row.value for row in report.rows][1] == 1.0
    search = ReusableHoldoutSearchCV(Rule(), {"limit": [0.0, 1.0]}, random_state=0)
    assert search.fit(features, targets).final_report().value == 1.0


def test_edited_code_does_not_get_an_earlier_report():
    """The same name is not the same model, and not the same score (theory G16)."""
    holdout = ReusableHoldout(X, Y, random_state=0)
    model = make_pipeline(FunctionTransformer(lambda X: X), ONES)
    first_report = holdout.final_report(model)
    assert holdout.final_report(model) == first_report
    with refused(HoldoutClosedError):
        holdout.final_report(make_pipeline(FunctionTransformer(lambda X: -X), ONES))
    holdout_of_opaque_score = ReusableHoldout(X, Y, random_state=0)
    holdout_of_opaque_score.final_report(ONES, scoring=scored_by(iter([0.5])))
    with refused(HoldoutClosedError):
        holdout_of_opaque_score.final_report(ONES, scoring=scored_by(iter([0.7])))


def scored_by(values):
    """Return a scorer whose content cannot be read."""
    return lambda estimator, X, y: 0.5 + 0.0 * values.__length_hint__()


def test_probabilities_are_read_as_labels_by_metrics_of_labels():
    for classes, targets in (([0, 1], Y), (["no", "yes"], WORDS)):
        probabilities = np.where(Y, 0.8, 0.3)
        holdout = ReusableHoldout.from_targets(targets, training_targets=classes, random_state=0)
        scoring = ["accuracy", "recall" if targets is Y else "balanced_accuracy"]
        report = holdout.final_report(
            np.column_stack([1.0 - probabilities, probabilities]), scoring=scoring
        )
        assert [row.value for row in report.rows] == [1.0, 1.0]


def test_a_report_without_a_number_can_be_read():
    def undefined(estimator, X, y):
        return 1 / 0 if len(X) == N else 0.5

    report = ReusableHoldout(X, Y, random_state=0).final_report(ONES, scoring=undefined)
    assert np.isnan(report.value)
    assert "nan" in str(report)
    assert "nan" in report._repr_html_()


def test_a_search_after_an_interrupted_report_can_be_reported(path):
    features = np.random.default_rng(0).normal(size=(N, 2))
    options = {"holdout": HoldoutConfig(0.25, ledger=path), "random_state": 0}
    search = ReusableHoldoutSearchCV(Rule(), {"limit": [0.0]}, **options).fit(features, Y)
    pending_interrupts = [KeyboardInterrupt()]

    def interrupted_score(estimator, X, y):
        if len(X) == search.holdout_.n and pending_interrupts:
            raise pending_interrupts.pop()
        return estimator.score(X, y)

    with pytest.raises(KeyboardInterrupt):
        search.final_report(scoring=interrupted_score)
    resumed_search = ReusableHoldoutSearchCV(Rule(), {"limit": [0.0]}, **options).fit(features, Y)
    assert "G35" in str(resumed_search.certificate_)
    assert resumed_search.final_report(scoring=interrupted_score).rows[0].approximate is not None


def test_models_of_every_supported_type_are_scored():
    counts = ReusableHoldout(X, Y + 1, random_state=0)
    assert counts.final_report(Y + 1.0, scoring="neg_mean_poisson_deviance").value == 0.0
    words = ReusableHoldout(X, WORDS, random_state=0)
    assert words.final_report(WORDS, scoring=make_scorer(f1_score, pos_label="yes")).value == 1.0
    floats = ReusableHoldout(X, Y, random_state=0)
    assert floats.final_report(Y.astype(float), scoring="recall").value == 1.0


def test_a_final_report_is_narrower_than_any_other_answer(holdout):
    answers = holdout.answer([0.7], hits(0.7))
    preview = holdout.preview(score=0.7)  # another ordinary answer instead
    report = holdout.final_report(ONES, 0.7)
    assert abs(report.value - 0.7) < 0.01
    assert report.lower < 0.7 < report.upper
    assert report.upper - report.lower < 2 * preview.half_width
    assert (report.upper - report.lower) / 2 == pytest.approx(preview.half_width_final, rel=0.2)
    assert (report.n_answered, report.n_above, report.n) == (1, int(answers.corrected[0]), N)
    assert "1 query on" in str(report)
    assert "1 query at" in str(preview)


@pytest.mark.parametrize(
    ("model", "target_phrase"),
    [
        (None, "on new records like these"),
        (Groups(np.arange(N) // 2), "on records of new groups"),
        (MarkovChain([[0.9, 0.1], [0.1, 0.9]]), "on later records of the same process"),
    ],
)
def test_the_report_states_its_target_and_the_full_name_of_the_model(model, target_phrase):
    name = "a model with a name that is longer than forty characters, because users do that"
    text = str(ReusableHoldout(X, Y, correlation=model, random_state=0).final_report({name: ONES}))
    assert target_phrase in text
    assert f"accuracy of {name}: " in text


def test_a_closed_holdout_answers_no_new_query_before_and_after_reopening(holdout, path):
    first_answers = holdout.answer([0.7], hits(0.7), keys=["a"])
    holdout.final_report(ONES)
    for handle in (holdout, ReusableHoldout(X, Y, ledger=path, random_state=0)):
        with refused(HoldoutClosedError, "report_"):
            handle.answer([0.7], hits(0.7))
        with pytest.raises(HoldoutClosedError):
            handle.final_report(ONES, scoring="recall")
        with pytest.raises(HoldoutClosedError):
            handle.preview()
        repeated = handle.answer([0.7], hits(0.2), keys=["a"])
        assert repeated.values == first_answers.values
        assert len(handle.history()) == 2
        text = str(handle.certificate())
        assert "it accepts no new query" in text
        assert "more records give" not in text
        assert "the next one" not in text


def test_a_final_report_needs_and_spends_a_declared_budget():
    holdout = ReusableHoldout(X, Y, budget=1, random_state=0)
    holdout.answer([0.1], hits(0.9))
    with pytest.raises(BudgetExhaustedError):
        holdout.final_report(ONES)
    assert len(holdout.history()) == 1


def test_the_card_states_queries_and_assumptions(holdout):
    holdout.answer([0.7, 0.2], np.r_[hits(0.7), hits(0.2)])
    report = holdout.final_report({"<the last model>": ONES})
    text = str(report)
    card = report._repr_html_()
    assert "2 queries on 1,000 records" in text
    assert "It holds if" in text
    assert "&lt;the last model&gt;" in card
    assert "<the last model>" not in card


@pytest.mark.parametrize("correlation", [None, MarkovChain([[0.9, 0.1], [0.2, 0.8]])])
@pytest.mark.parametrize("n_queries", [1, 50])
def test_the_preview_equals_the_width_of_a_confirmed_batch(correlation, n_queries):
    holdout = ReusableHoldout(X, Y, correlation=correlation, random_state=0)
    preview = holdout.preview(n_queries, score=0.9)
    scores = np.tile(hits(0.9).astype(float), (n_queries, 1))
    answers = holdout.answer(np.linspace(0.9, 0.87, n_queries), scores)
    best = int(np.argmin(answers.upper - answers.lower))
    half_width = (answers.upper[best] - answers.lower[best]) / 2
    assert preview.half_width == pytest.approx(half_width, rel=0.15)
    assert str(n_queries) in str(preview)
    assert holdout.preview(n_queries).code_length > preview.code_length


@pytest.mark.parametrize("n_queries", [0, 3])
def test_the_preview_of_a_report_is_the_report(n_queries):
    """Accuracy is exact in both: Clopper-Pearson, and noise of less than a record costs nothing."""
    X, y = prediction_columns()
    holdout = ReusableHoldout(X, y, random_state=0)
    if n_queries:
        holdout.answer([0.8] * n_queries, [X[:, 0] == y] * n_queries)
    score = float(np.mean(X[:, 0] == y))
    preview = holdout.preview(score=score)
    report = holdout.final_report(make_column_model(), score, scoring="accuracy")
    assert preview.half_width_final == pytest.approx(0.5 * (report.upper - report.lower), rel=0.01)


def test_preview_spends_nothing_and_checks_its_arguments(holdout):
    holdout.preview(10)
    assert len(holdout.history()) == 0
    for invalid_argument in ({"n_queries": 0}, {"score": 2.0}, {"n_train": 0}):
        with refused(ValueError, next(iter(invalid_argument))):
            holdout.preview(**invalid_argument)
    with refused(TypeError, "scoring"):
        holdout.preview(scoring=["accuracy"])


def test_preview_of_a_declared_score_is_that_of_its_metric(holdout):
    score = PerRecordScore(lambda model, X, y: X[:, 0], 0.0, 5.0, greater_is_better=False)
    assert str(holdout.preview(scoring=score)) == str(holdout.preview(scoring=get_metric(score)))


@pytest.mark.parametrize("runs", [25, pytest.param(100, marks=pytest.mark.slow)])
def test_the_interval_of_a_final_report_holds(runs):
    """25 runs pass a failure rate of 20% (of 10%) with chance .95, of a third with .54 and of half
    with .05; 100 runs pass 15% with chance .93 and 28% with .04.
    """
    beta = 0.1
    n_wrong = 0
    for run in range(runs):
        rng = np.random.default_rng(run)
        y = (rng.random(N) < 0.7).astype(int)
        holdout = ReusableHoldout(X, y, confidence_level=1 - beta, random_state=run)
        answers = holdout.answer(rng.random(5), rng.random((5, N)) < 0.5)
        report = holdout.final_report(ONES, 0.7)
        n_wrong += not report.lower <= 0.7 <= report.upper
        n_wrong += bool(((answers.lower > 0.5) | (answers.upper < 0.5)).any())
    assert n_wrong <= binom.ppf(0.999, runs, beta)


FAILS: list = []  # exceptions that the next predictions raise


class ColumnModel(ClassifierMixin, BaseEstimator):
    """Predictions that are columns of X."""

    def __init__(self, column=0):
        self.column = column

    def fit(self, X, y):
        self.classes_ = np.array([0, 1])
        return self

    def predict(self, X):
        if FAILS and len(X) == N:
            raise FAILS.pop()
        return np.asarray(X)[:, self.column].astype(int)


def prediction_columns(seed=0, n=N, error_rates=(0.2, 0.24)):
    """Records whose columns are predictions; the second errs where the first does, and more."""
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < 0.4).astype(int)
    draw = rng.random(n)
    columns = [np.where(draw < error_rate, 1 - y, y) for error_rate in error_rates]
    return np.array(columns, dtype=float).T, y


def make_column_model(column=0):
    return ColumnModel(column).fit(None, None)


def test_the_report_is_in_the_ledger_for_every_process(path):
    X, y = prediction_columns()
    holdout = ReusableHoldout(X, y, ledger=path)
    with pytest.raises(AttributeError):
        _ = holdout.report_
    report = holdout.final_report(make_column_model(), scoring=["accuracy", "f1"])
    reopened = ReusableHoldout(X, y, ledger=path)
    assert reopened.report_ == report == holdout.report_
    assert str(reopened.report_) == str(report)
    assert reopened.final_report(make_column_model(), scoring=["accuracy", "f1"]) == report
    with refused(HoldoutClosedError, "report_"):
        reopened.final_report(make_column_model(1), scoring=["accuracy", "f1"])


def test_an_interrupted_report_leaves_the_holdout_open_and_is_charged(path):
    """G35: an analyst could make an interrupt depend on the holdout."""
    X, y = prediction_columns()
    holdout = ReusableHoldout(X, y, ledger=path, random_state=0)
    spent = holdout.information_spent
    FAILS.append(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        holdout.final_report({"mine": make_column_model()})
    for handle in (holdout, ReusableHoldout(X, y, ledger=path, random_state=0)):
        assert handle.information_spent > spent + 1.0
        assert len(handle.answer([0.7], hits(0.7))) == 1
    report = ReusableHoldout(X, y, ledger=path, random_state=0).final_report(
        {"other": make_column_model(1)}
    )
    assert report.code_length > spent
    assert report.lower < 0.76 < report.upper


def test_the_interval_of_a_difference_is_narrower_than_of_either_model():
    X, y = prediction_columns(n=1500)
    report = ReusableHoldout(X, y, random_state=0).final_report(
        {"a": make_column_model(0), "b": make_column_model(1)}, [0.8, 0.76], compare=True
    )
    first_row, second_row, difference = report.rows
    assert (difference.model, difference.metric) == ("b minus a", "accuracy")
    assert difference.lower < -0.04 < difference.upper
    assert difference.upper - difference.lower < 0.6 * (
        first_row.upper - first_row.lower + second_row.upper - second_row.lower
    )
    assert len(report.to_frame()) == 3
    assert difference.approximate[0] < difference.value < difference.approximate[1]


@pytest.mark.parametrize("compare", [True, "b"])
def test_a_comparison_needs_two_models(compare):
    X, y = prediction_columns()
    with refused(ValueError, "compare"):
        ReusableHoldout(X, y).final_report(make_column_model(), compare=compare)


@pytest.mark.parametrize("runs", [20, pytest.param(100, marks=pytest.mark.slow)])
def test_intervals_of_differences_hold(runs):
    """20 runs pass a failure rate of 40% (of 20%) with chance .87 and of 70% with chance .05;
    100 runs pass 27% with chance .93 and 42% with .04.
    """
    beta = 0.2
    n_missed = 0
    for run in range(runs):
        X, y = prediction_columns(run, n=250)
        report = ReusableHoldout(X, y, confidence_level=1 - beta, random_state=run).final_report(
            [make_column_model(0), make_column_model(1)], compare=True
        )
        expected_values = (0.8, 0.76, -0.04)
        rows = zip(report.rows, expected_values, strict=True)
        n_missed += not all(
            row.lower <= expected_value <= row.upper for row, expected_value in rows
        )
    assert n_missed <= binom.ppf(0.999, runs, beta)


def test_rows_without_a_proven_interval_are_labeled_approximate():
    X, y = prediction_columns()
    report = ReusableHoldout(X, y, random_state=0).final_report(
        make_column_model(), scoring=["matthews_corrcoef", "f1"]
    )
    correlation_row, f1_row = report.rows
    assert correlation_row.value == pytest.approx(matthews_corrcoef(y, X[:, 0]))
    assert correlation_row.proven is None
    assert correlation_row.approximate == (correlation_row.lower, correlation_row.upper)
    assert correlation_row.method == "jackknife over records"
    assert f1_row.value == pytest.approx(f1_score(y, X[:, 0]))
    for interval in (f1_row.proven, f1_row.approximate):
        assert interval[0] < f1_row.value < interval[1]
    for text in (str(report), report._repr_html_()):
        assert "approximate" in text
        assert "proven" in text


@pytest.mark.parametrize("scoring", ["f1", ["accuracy", "matthews_corrcoef"]])
def test_rows_without_noise_are_rejected_under_a_level_of_privacy(scoring):
    X, y = prediction_columns()
    holdout = ReusableHoldout(X, y, epsilon=1.0)
    with refused(ValueError, "epsilon"):
        holdout.final_report(make_column_model(), scoring=scoring)
    assert len(holdout.history()) == 0
    holdout.answer([0.7], hits(0.7))  # still open
    [row] = holdout.final_report(make_column_model(), scoring="recall").rows
    assert row.approximate is None
    assert row.proven[0] <= row.value <= row.proven[1]


def test_too_few_events_get_no_interval():
    X, y = prediction_columns()
    y = (np.arange(N) < 3).astype(int)
    [row] = ReusableHoldout(X, y).final_report(make_column_model(), scoring="recall").rows
    assert row.approximate is None
    assert "at least 5" in " ".join(row.notes)
    assert row.n_events == 3


@pytest.mark.parametrize(
    ("spending", "runs"),
    [("final", 12), ("even", 12)]
    + [pytest.param(spending, 60, marks=pytest.mark.slow) for spending in ("final", "even")],
)
def test_a_report_at_a_time_chosen_by_the_attacker_holds(spending, runs):
    """G16 under attack: batches that follow the noise, closed where the leader looks best.

    12 runs pass a failure rate of 30% (of 10%) with chance .88 and of 70% with chance .04; 60 runs
    pass 17% with chance .93 and 33% with .07.
    """
    beta = 0.1
    n_wrong = 0
    n = 200
    for run in range(runs):
        rng = np.random.default_rng(run)
        y = (rng.random(n) < 0.5).astype(int)
        columns = (rng.random((n, 60)) < 0.5).astype(float)
        holdout = ReusableHoldout(
            columns, y, confidence_level=1 - beta, spending=spending, random_state=run
        )
        best = 0.5
        leader = 0
        for start in range(0, 60, 10):
            queried_columns = np.arange(start, start + 10)
            answers = holdout.answer(np.full(10, best), y == columns[:, queried_columns].T)
            is_missed = (answers.lower > 0.5) | (answers.upper < 0.5)
            if is_missed.any():
                n_wrong += 1
                break
            best_query = int(np.argmax(answers.values))
            if answers.values[best_query] > best:
                best = float(answers.values[best_query])
                leader = int(queried_columns[best_query])
            if best > 0.5 + 1.5 / np.sqrt(4 * n):
                break
        report = holdout.final_report(make_column_model(leader), best)
        n_wrong += not report.lower <= 0.5 <= report.upper
    assert n_wrong <= binom.ppf(0.999, runs, beta)


def test_noise_below_one_record_costs_no_width():
    """A share of records is a whole number of them, so its interval is the one without noise."""
    X, y = prediction_columns(n=300)
    report = ReusableHoldout(X, y, random_state=0).final_report(make_column_model())
    hits = int((X[:, 0] == y).sum())
    exact_interval = clopper_pearson_interval(hits, 300, report.alpha_proven)
    assert report.interval == pytest.approx(exact_interval, abs=1e-3)


def test_a_model_that_cannot_be_pickled_is_reported():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 3))
    y = (X[:, 0] > 0).astype(int)
    model = make_pipeline(FunctionTransformer(lambda X: X), LogisticRegression())
    search = ReusableHoldoutSearchCV(model, {"logisticregression__C": [0.1, 1.0]}, random_state=0)
    low, high = search.fit(X, y).final_report().interval
    assert low <= search.best_score_ <= high


@pytest.mark.parametrize(
    "scoring",
    [
        {"mine": make_scorer(f1_score)},
        {"mine": "accuracy"},
        {"mine": lambda model, X, y: float(np.mean(model.predict(X) == y))},
        {"mine": make_scorer(f1_score), "other": "accuracy"},
    ],
    ids=["scorer", "name", "function", "two"],
)
def test_names_of_a_dict_of_metrics_are_those_of_the_rows(holdout, scoring):
    report = holdout.final_report({"ones": ONES}, scoring=scoring)
    assert [row.metric for row in report.rows] == list(scoring)
