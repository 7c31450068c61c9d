"""Messages of a search or a selection about its choice, and errors before it queries."""

import re
import warnings

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_digits, make_classification
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import confusion_matrix, f1_score, log_loss, make_scorer
from sklearn.model_selection import cross_val_predict
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_bdp import HoldoutScorer, ReusableHoldout, ReusableHoldoutSearchCV
from sklearn_bdp.exceptions import (
    ClippedScoreWarning,
    OptimisticScoreWarning,
    ScoreContractError,
    UninformativeIntervalWarning,
    UnverifiedWarning,
)
from sklearn_bdp.feature_selection import HoldoutFeatureSelector
from sklearn_bdp.metrics import PerRecordScore, get_metric
from tests.facts import refused

BAYES_GRID = {"var_smoothing": [1e-9, 1e-3]}


#: New processes that import everything take seconds each.
WORKERS = pytest.param({"n_jobs": 2}, marks=pytest.mark.slow)


@pytest.fixture(scope="module")
def redundant():
    X, y = make_classification(1200, 8, n_informative=3, random_state=0)
    return np.hstack([X] * 6), y


@pytest.fixture(scope="module")
def costly():
    return make_classification(600, 8, weights=[0.8], random_state=1)


def search(estimator, grid, *, cv=3, **options):
    return ReusableHoldoutSearchCV(estimator, grid, cv=cv, random_state=0, **options)


def fit_with_warnings(fit, category=ClippedScoreWarning):
    """Return the result, and the warnings of just that category."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = fit()
    return result, [str(warning.message) for warning in caught if warning.category is category]


@pytest.mark.parametrize("options", [{}, WORKERS])
def test_clipping_that_changes_scores_is_reported_once_with_both_scores(redundant, options):
    unfitted = search(GaussianNB(), BAYES_GRID, scoring="neg_log_loss", **options)
    fitted, messages = fit_with_warnings(lambda: unfitted.fit(*redundant))
    (message,) = messages
    assert "get_metric('neg_log_loss', clip=" in message
    assert "training records" in message
    headline = str(fitted.certificate_).splitlines()[0]
    assert headline.startswith("neg_log_loss (clipped at a probability of 0.01) of the selected")
    assert any("neg_log_loss (clipped" in note for note in fitted.certificate_.notes)
    report = fitted.final_report()
    assert str(report).startswith("neg_log_loss (clipped at a probability of 0.01) of GaussianNB")
    assert any("clipped" in line for line in report.assumptions)


def test_the_reported_numbers_are_those_of_scikit_learn_on_the_training_set(redundant):
    X, y = redundant
    unfitted = search(GaussianNB(), {"var_smoothing": [1e-3]}, scoring="neg_log_loss", cv=5)
    fitted, (message,) = fit_with_warnings(lambda: unfitted.fit(X, y))
    train = fitted.train_indices_
    model = GaussianNB(var_smoothing=1e-3)
    probabilities = cross_val_predict(model, X[train], y[train], cv=5, method="predict_proba")
    target_probabilities = probabilities[np.arange(train.size), y[train]]
    assert f"{np.count_nonzero(target_probabilities < 0.01):,} of {train.size:,}" in message
    assert f"{np.log(np.maximum(target_probabilities, 0.01)).mean():.4g} clipped" in message
    assert f"{-log_loss(y[train], probabilities):.4g} plain" in message


def test_the_clipping_warning_does_not_depend_on_the_holdout(redundant):
    X, y = redundant
    training_set = X[:600], y[:600]
    messages = []
    for rows in (slice(600, 900), slice(900, 1200)):
        holdout = ReusableHoldout(X[rows], y[rows])
        unfitted = search(GaussianNB(), {"var_smoothing": [1e-3]}, scoring="neg_log_loss")
        unfitted.set_params(holdout=holdout)
        messages.append(fit_with_warnings(lambda unfitted=unfitted: unfitted.fit(*training_set))[1])
    assert messages[0] == messages[1] != []


@pytest.mark.parametrize("scoring", ["neg_log_loss", "neg_brier_score", "accuracy"])
def test_there_is_no_warning_if_clipping_changes_no_score(costly, scoring):
    unfitted = search(LogisticRegression(), {"C": [0.1, 1.0]}, scoring=scoring)
    assert fit_with_warnings(lambda: unfitted.fit(*costly))[1] == []


def test_clipped_errors_are_reported_by_searches_selections_and_scorers():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 4))
    y = X[:, 0] + rng.standard_t(1.2, size=600)
    metric = get_metric("neg_mean_squared_error", bounds=(-1, 1))
    fits = [
        lambda: search(Ridge(), {"alpha": [1.0]}, scoring=metric).fit(X, y),
        lambda: HoldoutFeatureSelector(Ridge(), scoring=metric, random_state=0).fit(X, y),
    ]
    for fit in fits:
        fitted, messages = fit_with_warnings(fit)
        assert sum("bounds=(low, high)" in message for message in messages) == 1
        assert "(clipped at errors of 2)" in str(fitted.certificate_).splitlines()[0]
    scorer = HoldoutScorer(ReusableHoldout(X[400:], y[400:]), scoring=metric)
    models = [Ridge(alpha).fit(X[:400], y[:400]) for alpha in (1.0, 10.0)]
    _, messages = fit_with_warnings(lambda: [scorer(model, X[:400], y[:400]) for model in models])
    assert len(messages) == 1


def cost(estimator, X, y):
    predicted = estimator.predict(X)
    return 5.0 * ((y == 1) & (predicted == 0)) + 1.0 * ((y == 0) & (predicted == 1))


def mean_cost(estimator, X, y):
    return cost(estimator, X, y).mean()


def negative_cost(estimator, X, y):
    return -cost(estimator, X, y)


@pytest.mark.parametrize("options", [{}, WORKERS])
@pytest.mark.parametrize(
    ("function", "upper", "facts"),
    [
        (cost, 1.0, ["cost", 1, 5]),
        (negative_cost, 5.0, ["negative_cost", 5, -5]),
        (mean_cost, 5.0, ["mean_cost"]),
    ],
)
def test_a_broken_contract_ends_the_search_before_any_query(
    costly, function, upper, facts, options
):
    X, y = costly
    holdout = ReusableHoldout(X[400:], y[400:])
    score = PerRecordScore(function, 0.0, upper, greater_is_better=False)
    unfitted = search(LogisticRegression(), {"C": [0.1, 1.0]}, scoring=score, **options)
    unfitted.set_params(holdout=holdout, random_state=None)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        with refused(ScoreContractError, *facts):
            unfitted.fit(X[:400], y[:400])
    spent_at_start = ReusableHoldout(X[400:], y[400:]).information_spent
    assert holdout.information_spent - spent_at_start < 0.05  # rows were compared, silently
    assert not len(holdout.history())


def test_values_outside_the_range_on_the_holdout_stay_silent(costly):
    X, y = costly
    X = X.copy()
    X[400:, 0] = 1e3

    def cost_with_outliers(estimator, X, y):
        return np.where(X[:, 0] > 100.0, 7.0, cost(estimator, X, y))

    score = PerRecordScore(cost_with_outliers, 0.0, 5.0, greater_is_better=False)
    unfitted = search(LogisticRegression(), {"C": [0.1]}, scoring=score)
    unfitted.set_params(holdout=ReusableHoldout(X[400:], y[400:]), random_state=None)
    fitted, messages = fit_with_warnings(lambda: unfitted.fit(X[:400], y[:400]))
    assert messages == []
    assert fitted.best_score_ == pytest.approx(-5.0, abs=0.2)


def test_a_search_without_any_cv_score_reports_that_no_candidate_was_verified():
    X = np.arange(24.0).reshape(12, 2) % 5
    y = np.array([0] * 10 + [1] * 2)
    unfitted = ReusableHoldoutSearchCV(
        LogisticRegression(), {"C": [0.1, 1.0]}, scoring="roc_auc", random_state=3, cv=4
    )
    fitted, messages = fit_with_warnings(lambda: unfitted.fit(X, y), UnverifiedWarning)
    assert np.isnan(fitted.best_score_)
    assert sum("No candidate was verified" in message for message in messages) == 1
    assert str(fitted.certificate_).splitlines()[0].endswith("The holdout gave no answer about it.")


def test_continuous_targets_are_rejected_by_type_and_not_listed():
    y = np.random.default_rng(0).normal(size=200)
    X = np.zeros((200, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with refused(ValueError, "accuracy", "continuous"):
            search(LogisticRegression(), {"C": [1.0]}).fit(X, y)


def next_question(certificate):
    """Return the line of a certificate on the next single query."""
    lines = str(certificate).splitlines()
    return next(line for line in lines if line.startswith("One more evaluation"))


def test_an_interval_of_nearly_the_whole_range_gives_a_warning():
    X, y = load_digits(return_X_y=True)
    unfitted = search(GaussianNB(), BAYES_GRID, scoring="roc_auc")
    fitted, (message,) = fit_with_warnings(
        lambda: unfitted.fit(X[:240], y[:240] == 8), UninformativeIntervalWarning
    )
    assert f"roc_auc of the selected candidate is {fitted.best_score_:.3g}" in message
    assert "scoring='accuracy'" in message
    assert next_question(fitted.certificate_).endswith(", the whole range.")
    # One cause, one warning: the warning that the holdout is too small for anything came before.
    _, messages = fit_with_warnings(
        lambda: unfitted.fit(X[:16], y[:16] % 2), UninformativeIntervalWarning
    )
    assert len(messages) == 1


def test_the_forecast_applies_to_the_selected_score(costly):
    fitted = search(LogisticRegression(), {"C": [0.1, 1.0]}).fit(*costly)
    line = next_question(fitted.certificate_)
    assert "at a similar score" in line
    half_width = float(re.search(r"±([\d.]+\d)", line)[1])
    middle_line = next_question(fitted.holdout_.certificate())
    assert half_width < float(re.search(r"±([\d.]+\d)", middle_line)[1])


def test_further_scores_of_a_callable_are_named_as_not_verified(costly):
    def accuracy_and_hits(estimator, X, y):
        hits = estimator.predict(X) == y
        return {"accuracy": hits.mean(), "hits": hits.sum()}

    unfitted = search(
        LogisticRegression(), {"C": [0.1, 1.0]}, scoring=accuracy_and_hits, refit="accuracy"
    )
    fitted, (message,) = fit_with_warnings(lambda: unfitted.fit(*costly), UnverifiedWarning)
    assert message.startswith("Not verified on the holdout: hits.")
    assert message in fitted.certificate_.notes


def confusion_cost(y, predicted):
    table = confusion_matrix(y, predicted, labels=[0, 1])
    return 5 * table[1, 0] + table[0, 1]


@pytest.mark.parametrize("scoring", ["f1", make_scorer(f1_score), make_scorer(confusion_cost)])
def test_scorer_without_a_proven_bound_selects_candidates(costly, scoring):
    fitted = search(LogisticRegression(), {"C": [1.0]}, scoring=scoring).fit(*costly)
    assert np.isfinite(fitted.best_score_)


def test_the_error_for_a_number_of_records_proposes_a_fraction(costly):
    with refused(ValueError, "holdout=20 / len(X)"):
        search(LogisticRegression(), {"C": [1.0]}, holdout=20).fit(*costly)


# -- a score that falls when it is verified --------------------------------------------------------


def search_with_drift(rng, *, shift):
    """Search where a feature that knows the target stops to do so in later records."""
    X = rng.normal(size=(800, 3))
    y = rng.integers(0, 2, 800)
    X[:, 0] += 4.0 * y
    X_val = X[600:].copy()
    X_val[:, 0] -= shift * 4.0 * y[600:]
    search = ReusableHoldoutSearchCV(
        LogisticRegression(), {"C": [0.1, 1.0, 10.0]}, random_state=0, cv=3
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        search.fit(X[:600], y[:600], X_val=X_val, y_val=y[600:])
    return search, [
        warning for warning in caught if issubclass(warning.category, OptimisticScoreWarning)
    ]


def test_a_score_that_falls_beyond_its_interval_is_reported_with_both_scores():
    search, (warning,) = search_with_drift(np.random.default_rng(0), shift=1.0)
    training = search.cv_results_["cv_score"][search.best_index_]
    assert training > search.best_interval_[1]
    assert f"{training:.3g} in cross-validation and {search.best_score_:.3g}" in str(
        warning.message
    )
    change = f"by {search.best_score_ - training:+.3g} (cross-validated: {training:.3f})"
    assert change in str(search.certificate_).splitlines()[0]


def test_a_score_corrected_by_earlier_answers_is_not_called_confirmed():
    first_search, _ = search_with_drift(np.random.default_rng(0), shift=1.0)
    rng = np.random.default_rng(1)
    X = rng.normal(size=(600, 3))
    y = rng.integers(0, 2, 600)
    X[:, 0] += 4.0 * y
    second_search = ReusableHoldoutSearchCV(
        LogisticRegression(), {"C": [0.3, 3.0]}, holdout=first_search.holdout_, random_state=0, cv=3
    )
    with pytest.warns(OptimisticScoreWarning):
        second_search.fit(X, y)
    assert second_search.cv_results_["answered_from"][second_search.best_index_] == "cv"
    assert "corrects cross-validation by -" in str(second_search.certificate_).splitlines()[0]


@pytest.mark.parametrize("n_searches", [6, pytest.param(20, marks=pytest.mark.slow)])
def test_unbiased_scores_are_confirmed_without_a_warning(n_searches):
    n_confirmed = 0
    for seed in range(n_searches):
        search, optimism_warnings = search_with_drift(np.random.default_rng(seed), shift=0.0)
        assert not optimism_warnings
        headline = str(search.certificate_).splitlines()[0]
        change = search.best_score_ - search.cv_results_["cv_score"][search.best_index_]
        assert ("confirms cross-validation." in headline) == (abs(change) < 0.01)
        assert ("corrects cross-validation by" in headline) == (abs(change) >= 0.01)
        n_confirmed += abs(change) < 0.01
    assert n_confirmed >= 0.75 * n_searches


@pytest.mark.parametrize(
    "scoring", ["accuracy", "neg_brier_score", get_metric("neg_log_loss", clip=1e-3)], ids=str
)
def test_width_components_sum_to_the_half_width(scoring):
    """Whatever the units of the metric, and however little its scores vary."""
    X, y = load_breast_cancer(return_X_y=True)
    model = make_pipeline(StandardScaler(), LogisticRegression())
    grid = {"logisticregression__C": [0.1, 1.0]}
    search = ReusableHoldoutSearchCV(model, grid, scoring=scoring, random_state=0).fit(X, y)
    low, high = (
        search.cv_results_[f"holdout_{side}"][search.best_index_] for side in ("lower", "upper")
    )
    score_range = 1.0 if isinstance(scoring, str) else scoring.upper - scoring.lower
    width_components = score_range * np.array(search.certificate_.half_width_components)
    assert min(width_components) >= 0.0
    assert sum(width_components) == pytest.approx(0.5 * (high - low), rel=1e-6)
