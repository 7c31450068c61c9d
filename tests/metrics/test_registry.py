import warnings

import numpy as np
import pytest
import sklearn
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as sk
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.datasets import load_iris
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_bdp import HoldoutScorer, ReusableHoldout, ReusableHoldoutSearchCV
from sklearn_bdp.exceptions import UnboundedMetricError
from sklearn_bdp.metrics import PerRecordScore, available_metrics, default_metric, get_metric
from sklearn_bdp.metrics.registry import planned_metric
from sklearn_bdp.planning import plan_search
from tests.facts import refused

Y_BINARY = np.array([0, 1, 1, 0])
Y_CLASSES = np.array(["a", "b", "c", "a"])
Y_NUMBERS = np.array([1.5, 3.0, -1.0, 2.25])


# -- Names -----------------------------------------------------------------------------------------


def targets(name):
    return (
        Y_NUMBERS
        if "error" in name or "pinball" in name
        else Y_CLASSES
        if "top" in name
        else Y_BINARY
    )


def test_every_scikit_learn_name_is_available_or_rejected_with_a_reason():
    for name in sk.get_scorer_names():
        if name in available_metrics():
            assert get_metric(name, y=targets(name)).name == name
            assert get_metric(sk.get_scorer(name), y=targets(name)) == get_metric(
                name, y=targets(name)
            )
        else:
            with refused(UnboundedMetricError, name):
                get_metric(name)


@pytest.mark.parametrize("name", available_metrics())
def test_every_name_is_taken_from_the_plan_to_the_report(name):
    """Planned, previewed, searched by, certified, scored by and reported: one registry."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((240, 3))
    values = X[:, 0] + 0.5 * rng.standard_normal(240)
    model = LogisticRegression()
    grid = {"C": [0.1, 1.0]}
    y = (values > 0).astype(int)
    if "error" in name or "pinball" in name:
        model = Ridge()
        grid = {"alpha": [0.1, 1.0]}
        y = values
    elif name == "top_k_accuracy":
        y = np.digitize(values, [-0.7, 0.7])
    assert plan_search(0.2, scoring=name, score=0.8) > 0
    search = ReusableHoldoutSearchCV(model, grid, scoring=name, random_state=0, cv=3).fit(X, y)
    measured = "neg_zero_one_loss" if name == "zero_one_loss" else name
    assert measured in str(search.certificate_)
    assert search.holdout_.preview(2, scoring=name, prevalence=0.5).half_width > 0.0
    low, high = search.best_interval_
    rows = search.train_indices_
    scorer = HoldoutScorer(search.holdout_, name)
    assert low <= scorer(search.best_estimator_, X[rows], y[rows]) <= high
    [row] = search.final_report(scoring=[name]).rows
    assert row.metric.startswith(measured)
    assert np.isfinite(row.lower)


@pytest.mark.parametrize(
    "name",
    ["f1", "f1_macro", "precision", "average_precision", "r2", "neg_root_mean_squared_error"],
)
def test_errors_of_unbounded_metrics_name_the_final_report(name):
    with refused(UnboundedMetricError, f"final_report(scoring='{name}')"):
        get_metric(name)


def test_an_unknown_name_raises_with_a_similar_name_or_the_available_names():
    for name, suggestion in (("acuracy", "'accuracy'"), ("ndcg", "accuracy, balanced_accuracy")):
        with refused(ValueError, suggestion) as caught:
            get_metric(name)
        assert not isinstance(caught.value, UnboundedMetricError)


@pytest.mark.parametrize("scoring", [["accuracy"], {"a": "accuracy"}, 3, ("accuracy", "roc_auc")])
def test_several_metrics_are_several_queries(scoring):
    with refused(TypeError, "scoring"):
        get_metric(scoring)


@pytest.mark.parametrize(
    ("name", "options", "error"),
    [
        ("accuracy", {"k": 2}, TypeError),
        ("neg_log_loss", {"clip": 0.0}, ValueError),
        ("neg_log_loss", {"clip": 1.0}, ValueError),
        ("neg_log_loss", {"clip": float("nan")}, ValueError),
        ("top_k_accuracy", {"k": 0}, ValueError),
        ("top_k_accuracy", {"k": 1.5}, TypeError),
        ("neg_brier_score", {}, ValueError),
        ("neg_brier_score", {"n_classes": 1}, ValueError),
        ("neg_mean_absolute_error", {}, ValueError),
        ("neg_mean_absolute_error", {"bounds": (1, 1)}, ValueError),
        ("neg_mean_absolute_error", {"bounds": (0, np.inf)}, ValueError),
        ("neg_mean_absolute_error", {"bounds": 3}, ValueError),
        ("neg_mean_squared_error", {"bounds": (0, 1e200)}, ValueError),
        ("neg_mean_squared_error", {"y": [-1e308, 1e308]}, ValueError),
        ("neg_mean_absolute_error", {"bounds": (0, 1, 2)}, ValueError),
        ("neg_mean_squared_error", {"y": np.ones(5)}, ValueError),
        ("neg_mean_squared_error", {"y": Y_CLASSES}, ValueError),
        ("neg_mean_squared_error", {"y": np.ones((5, 2))}, ValueError),
        ("neg_mean_squared_error", {"bounds": ([0, 0], [1])}, ValueError),
        ("neg_mean_squared_error", {"bounds": ([0, 1], [1, 1])}, ValueError),
        ("neg_mean_pinball_loss", {"bounds": (0, 1), "alpha": 1.5}, ValueError),
        ("neg_mean_squared_error", {"y": [1.0, np.nan]}, ValueError),
        ("accuracy", {"y": Y_NUMBERS}, ValueError),
        ("balanced_accuracy", {"y": np.eye(3, dtype=int)}, ValueError),
        ("top_k_accuracy", {"y": Y_BINARY}, ValueError),
        ("roc_auc", {"y": Y_CLASSES}, UnboundedMetricError),
    ],
)
def test_options_and_targets_that_do_not_fit_are_rejected(name, options, error):
    with pytest.raises(error):
        get_metric(name, **options)


def test_ranges_come_from_training_targets_and_are_noted():
    metric = get_metric("neg_mean_squared_error", y=Y_NUMBERS)
    assert metric.lower == -16.0
    assert "training targets" in metric.note
    assert get_metric("neg_mean_squared_error", bounds=(-1, 3)).note == ""
    assert get_metric("neg_brier_score", y=Y_BINARY).lower == -1.0
    assert get_metric("neg_brier_score", y=Y_CLASSES).lower == -2.0
    fitted = LogisticRegression().fit(np.eye(4), Y_CLASSES)
    assert get_metric("neg_brier_score", estimator=fitted).lower == -2.0
    assert "0.01" in get_metric("neg_log_loss").note


def test_metrics_pass_through():
    metric = get_metric("accuracy")
    assert get_metric(metric) is metric
    with refused(TypeError, "options"):
        get_metric(metric, k=3)


# -- Default ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "classifier",
    [
        LogisticRegression(),
        make_pipeline(StandardScaler(), RandomForestClassifier()),
        GridSearchCV(LogisticRegression(), {"C": [1]}),
        HistGradientBoostingClassifier(),
    ],
)
def test_default_of_classifiers_is_accuracy(classifier):
    assert default_metric(classifier, Y_CLASSES).name == "accuracy"
    assert get_metric(None, estimator=classifier, y=Y_CLASSES).name == "accuracy"


class OwnScore(LogisticRegression):
    def score(self, X, y, sample_weight=None):
        return -3.0


@pytest.mark.parametrize(
    "classifier",
    [
        OwnScore(),
        make_pipeline(StandardScaler(), OwnScore()),
        GridSearchCV(LogisticRegression(), {"C": [1]}, scoring="roc_auc"),
    ],
)
def test_the_default_metric_notes_that_an_estimator_has_a_score_of_its_own(classifier):
    metric = default_metric(classifier, Y_CLASSES)
    assert metric.name == "accuracy"
    assert "PerRecordScore" in metric.note
    assert default_metric(LogisticRegression(), Y_CLASSES).note == ""


def test_default_of_regressors_is_the_clipped_absolute_error_with_a_note():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        metric = get_metric(None, estimator=Ridge(), y=Y_NUMBERS)
    assert metric.name == "neg_mean_absolute_error"
    assert metric.lower == -4.0
    assert "R²" in metric.note
    assert metric == get_metric("neg_mean_absolute_error", y=Y_NUMBERS)


@pytest.mark.parametrize("estimator", [KMeans(), StandardScaler(), None, object()])
def test_estimators_without_a_default_metric_raise(estimator):
    with refused(UnboundedMetricError, "scoring=", "PerRecordScore"):
        default_metric(estimator, Y_BINARY)


# -- Scorer objects --------------------------------------------------------------------------------


def test_arguments_that_keep_their_meaning_are_kept():
    assert get_metric(sk.make_scorer(sk.accuracy_score, normalize=True)).name == "accuracy"
    ranking = ("decision_function", "predict_proba")
    scorer = sk.make_scorer(sk.top_k_accuracy_score, response_method=ranking, k=3)
    assert get_metric(scorer) == get_metric("top_k_accuracy", k=3)
    scorer = sk.make_scorer(
        sk.brier_score_loss, greater_is_better=False, response_method="predict_proba", pos_label="a"
    )
    assert get_metric(scorer, y=["a", "b"]).lower == -1.0
    loss = sk.make_scorer(sk.zero_one_loss, greater_is_better=False)
    assert get_metric(loss).name == "neg_zero_one_loss"


def test_scorers_of_labels_and_quantiles_are_recognized():
    scorer = sk.make_scorer(
        sk.log_loss,
        greater_is_better=False,
        response_method="predict_proba",
        labels=["a", "b", "c"],
    )
    assert get_metric(scorer, y=Y_CLASSES) == get_metric("neg_log_loss")
    scorer = sk.make_scorer(sk.mean_pinball_loss, greater_is_better=False, alpha=0.9)
    pinball = get_metric("neg_mean_pinball_loss", alpha=0.9, y=Y_NUMBERS)
    assert get_metric(scorer, y=Y_NUMBERS) == pinball
    hamming = sk.make_scorer(sk.hamming_loss, greater_is_better=False)
    assert get_metric(hamming, y=np.eye(3, dtype=int)).name == "neg_hamming_loss"


@pytest.mark.parametrize("name", ["accuracy", "neg_zero_one_loss", "neg_hamming_loss"])
def test_several_outputs_of_several_classes_are_rejected_at_once(name):
    """scikit-learn cannot score them either, so cross-validation would end in NaN."""
    with refused(ValueError, "PerRecordScore"):
        get_metric(name, y=np.array([[0, 2], [1, 1], [2, 0]]))


@pytest.mark.parametrize(
    "scorer",
    [
        sk.make_scorer(sk.accuracy_score, greater_is_better=False),
        sk.make_scorer(sk.accuracy_score, sample_weight=np.ones(3)),
        sk.make_scorer(sk.balanced_accuracy_score, adjusted=True),
        sk.make_scorer(sk.roc_auc_score),  # of predicted labels
        sk.make_scorer(sk.roc_auc_score, response_method="predict_proba", multi_class="ovr"),
        sk.make_scorer(sk.roc_auc_score, response_method="predict_proba", max_fpr=0.1),
        sk.make_scorer(sk.f1_score, average="macro"),
        sk.make_scorer(sk.mean_absolute_error),
        sk.make_scorer(lambda y, p: 0.0),
        sk.accuracy_score,
        lambda estimator, X, y: 0.5,
        LogisticRegression().score,
    ],
)
def test_other_callables_are_rejected(scorer):
    with refused(UnboundedMetricError, "scoring"):
        get_metric(scorer)


PROBABILITIES = {"response_method": "predict_proba"}


@pytest.mark.parametrize(
    "scorer",
    [
        sk.make_scorer(sk.accuracy_score, normalize=False),
        sk.make_scorer(sk.zero_one_loss, normalize=False, greater_is_better=False),
        sk.make_scorer(sk.log_loss, normalize=False, greater_is_better=False, **PROBABILITIES),
        sk.make_scorer(sk.top_k_accuracy_score, normalize=False, k=1, **PROBABILITIES),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_sums_over_records_are_rejected_before_a_query(scorer):
    """Sums of training and holdout records differ by their numbers, and have no fixed range."""
    X, y = load_iris(return_X_y=True)
    y = (y == 2).astype(int)
    model = LogisticRegression(max_iter=1000).fit(X[::2], y[::2])
    search = ReusableHoldoutSearchCV(model, {"C": [1.0]}, scoring="accuracy", random_state=0)
    search.fit(X, y)
    holdout = ReusableHoldout(X[1::2], y[1::2], random_state=0)
    two_metrics = {"accuracy": "accuracy", "sum": scorer}
    calls = [
        lambda: get_metric(scorer),
        lambda: clone(search).set_params(scoring=scorer).fit(X, y),
        lambda: clone(search).set_params(scoring=two_metrics, refit="accuracy").fit(X, y),
        lambda: search.preview(scoring=scorer),
        lambda: search.final_report(scoring=scorer),
        lambda: HoldoutScorer(holdout, scorer),
        lambda: holdout.score(model, scoring=scorer, training=(X[::2], y[::2])),
        lambda: holdout.answer_predictions(model.predict(X[1::2]), scoring=scorer, cv_score=0.9),
        lambda: holdout.final_report(model, scoring=["accuracy", scorer]),
    ]
    for call in calls:
        with refused(ValueError, scorer._score_func.__name__, "normalize=False", "normalize=True"):
            call()
    assert len(holdout.history()) == 0
    assert holdout.information_spent == 0.0
    assert len(search.final_report().rows) == 1  # it is still open
    assert get_metric(sk.make_scorer(sk.accuracy_score, normalize=True)).name == "accuracy"


def test_scorers_that_request_sample_weights_are_rejected():
    with sklearn.config_context(enable_metadata_routing=True):
        scorer = sk.make_scorer(sk.accuracy_score).set_score_request(sample_weight=True)
    with refused(UnboundedMetricError, "scoring='accuracy'"):
        get_metric(scorer)


# -- Own scores ------------------------------------------------------------------------------------


def absolute(estimator, X, y):
    return np.abs(y - estimator.predict(X))


@pytest.fixture(scope="module")
def ridge():
    X, y = load_iris(return_X_y=True)
    return Ridge().fit(X, y), X, y


def test_declared_losses_are_negated_and_scaled(ridge):
    metric = get_metric(PerRecordScore(absolute, 0, 3, greater_is_better=False))
    model, X, y = ridge
    assert (metric.name, metric.lower, metric.upper) == ("absolute", -3.0, 0.0)
    assert metric.is_mean
    value = metric.from_unit(metric.evaluate(model, X, y).value)
    assert value == pytest.approx(-sk.mean_absolute_error(y, model.predict(X)))


def test_declared_scores_are_clipped_to_their_range(ridge):
    model, X, y = ridge
    rows = get_metric(PerRecordScore(lambda e, X, y: y * 10.0 - 5, 0, 10)).evaluate(model, X, y)
    np.testing.assert_array_equal(np.unique(rows.per_record), [0.0, 0.5, 1.0])


def test_a_score_that_is_no_number_per_record_is_an_error_on_the_training_side(ridge):
    model, X, y = ridge
    metric = get_metric(PerRecordScore(lambda e, X, y: 0.7, name="whole"))
    with refused(ValueError, "whole", "(150,)", 0.7):
        metric.training_score(model, X, y)
    assert metric.evaluate(model, X, y).value == 0.0


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("accuracy",), TypeError),
        ((absolute, 1, 1), ValueError),
        ((absolute, 0, np.inf), ValueError),
        ((absolute, np.nan, 1), ValueError),
        ((absolute, None, 1), TypeError),
    ],
)
def test_declarations_are_checked(arguments, error):
    with pytest.raises(error):
        PerRecordScore(*arguments)


def named(constant, default=0):
    def score(estimator, X, y, _default=default):
        return np.full(len(y), constant)

    return repr(get_metric(PerRecordScore(score)))


def test_repr_of_a_declared_score_names_its_content_and_not_its_address():
    assert named(0.5) == named(0.5)
    assert named(0.5) != named(0.25)
    assert named(0.5) != named(0.5, default=1)
    assert "0x" not in named(0.5)
    assert repr(get_metric(PerRecordScore(np.hypot))) == repr(get_metric(PerRecordScore(np.hypot)))


def test_scores_that_cannot_be_digested_are_never_recognized_again():
    def score(estimator, X, y, _generator=(n for n in range(3))):
        return np.zeros(len(y))

    metric = get_metric(PerRecordScore(score))
    assert repr(metric) != repr(metric)


# -- Anything --------------------------------------------------------------------------------------

junk = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.just(10**400),
    st.floats(),
    st.text(max_size=3),
    st.lists(st.one_of(st.floats(), st.integers()), max_size=3),
    st.lists(st.text(max_size=2), max_size=3),
    st.just({}),
    st.just(np.zeros((3, 2))),
    st.just(np.array(["a", 1, None], dtype=object)),
    st.just(object()),
)
OPTIONS = ("k", "clip", "bounds", "n_classes", "y", "estimator", "sample_weight", "typo")


@settings(max_examples=150, deadline=None)
@given(
    st.one_of(st.sampled_from(available_metrics()), junk),
    st.dictionaries(st.sampled_from(OPTIONS), junk, max_size=2),
)
def test_any_argument_gives_a_metric_or_is_rejected(scoring, options):
    try:
        metric = get_metric(scoring, **options)
    except (TypeError, ValueError):
        return
    assert np.isfinite(metric.lower)
    assert metric.lower < metric.upper < np.inf


#: Ledgers identify a metric by this text: a change makes their answers unreadable.
RECORDED = """
Accuracy(name='accuracy', lower=0.0, upper=1.0, note='')
BalancedAccuracy(name='balanced_accuracy', lower=0.0, upper=1.0, note='', classes=None)
BrierScore(name='neg_brier_score', lower=-1.0, upper=0.0, note='')
HammingScore(name='neg_hamming_loss', lower=-1.0, upper=0.0, note='')
LogLoss(name='neg_log_loss', lower=-4.605170185988091, upper=0.0, note='probabilities of the true \
class below clip=0.01 count as 0.01', clip=0.01)
AbsoluteError(name='neg_mean_absolute_error', lower=-1.0, upper=0.0, note='', power=1, width=1.0)
PinballLoss(name='neg_mean_pinball_loss', lower=-0.5, upper=0.0, note='', power=1, width=1.0, \
alpha=0.5)
SquaredError(name='neg_mean_squared_error', lower=-1.0, upper=0.0, note='', power=2, width=1.0)
ZeroOneLoss(name='neg_zero_one_loss', lower=-1.0, upper=0.0, note='')
Recall(name='recall', lower=0.0, upper=1.0, note='', classes=None, pos_label=1)
RocAuc(name='roc_auc', lower=0.0, upper=1.0, note='', classes=None)
Specificity(name='specificity', lower=0.0, upper=1.0, note='', classes=None, pos_label=1)
TopKAccuracy(name='top_k_accuracy', lower=0.0, upper=1.0, note='', k=2)
ZeroOneLoss(name='neg_zero_one_loss', lower=-1.0, upper=0.0, note='')
"""


def test_identity_of_metrics_in_ledgers_is_the_recorded_one():
    identities = [repr(planned_metric(name)) for name in available_metrics()]
    assert identities == RECORDED.strip().splitlines()
