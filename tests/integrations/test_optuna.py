"""Studies that ask the holdout: batches, pruning, attributes, budgets."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import cross_val_predict, cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from sklearn_bdp import ReusableHoldout
from sklearn_bdp.correlation import Groups
from sklearn_bdp.exceptions import SharedRecordsError
from sklearn_bdp.metrics import get_metric

optuna = pytest.importorskip("optuna")
pytestmark = pytest.mark.client(
    "optuna", "`HoldoutObjective`, samplers, pruners, a study that goes on the next day"
)
from sklearn_bdp.integrations.optuna import HoldoutObjective  # noqa: E402 (after the check)

ATTRIBUTES = {
    "training_score",
    "holdout_score",
    "holdout_lower",
    "holdout_upper",
    "answered_from",
}


@pytest.fixture(autouse=True)
def _quiet():
    optuna.logging.set_verbosity(optuna.logging.WARNING)


@pytest.fixture(scope="module")
def data():
    return train_test_split(*load_breast_cancer(return_X_y=True), test_size=0.4, random_state=0)


def linear(trial):
    C = trial.suggest_float("C", 1e-4, 10.0, log=True)
    return make_pipeline(StandardScaler(), LogisticRegression(C=C))


def tree(trial):
    return DecisionTreeClassifier(max_depth=trial.suggest_int("max_depth", 1, 8), random_state=0)


def ridge(trial):
    return Ridge(alpha=trial.suggest_float("alpha", 1e-3, 10.0, log=True))


def make(data, build=linear, holdout=None, **options):
    X, X_holdout, y, y_holdout = data
    if holdout is None:
        holdout = ReusableHoldout(X_holdout, y_holdout, random_state=0)
    return HoldoutObjective(build, X, y, holdout=holdout, **{"cv": 3, **options})


def new_study(**options):
    return optuna.create_study(
        direction="maximize", sampler=optuna.samplers.TPESampler(seed=0), **options
    )


def test_the_startup_phase_is_one_batch_and_every_later_trial_its_own(data):
    objective, study = make(data), new_study(pruner=optuna.pruners.NopPruner())
    objective.optimize(study, 8, n_startup_trials=5)
    assert len(study.trials) == 8
    batches = [record.batch for record in objective.holdout.history()]
    assert batches[:5] == [1] * 5
    assert batches[5:] == [2, 3, 4]
    assert study.user_attrs["information_spent"] == objective.holdout.information_spent


def test_values_and_attributes_are_what_was_released(data):
    objective, study = make(data), new_study()
    objective.optimize(study, 5, n_startup_trials=3)
    for trial, record in zip(study.trials, objective.holdout.history(), strict=True):
        attributes = trial.user_attrs
        assert set(attributes) == ATTRIBUTES
        assert trial.value == attributes["holdout_score"] == record.value
        assert attributes["holdout_lower"] == record.lower
        assert attributes["holdout_upper"] == record.upper
        assert attributes["training_score"] == pytest.approx(record.training_value)
        assert attributes["answered_from"] == ("holdout" if record.above else "training")
    X, y = data[0], data[2]
    best = linear(optuna.trial.FixedTrial(study.best_params)).fit(X, y)
    np.testing.assert_allclose(best[-1].coef_, objective.best_estimator_[-1].coef_)


def test_training_values_are_cross_validated_scores(data):
    objective, study = make(data, tree), new_study()
    study.optimize(objective, 2)
    for trial in study.trials:
        model = tree(optuna.trial.FixedTrial(trial.params))
        expected = cross_val_score(model, data[0], data[2], cv=3).mean()
        assert trial.user_attrs["training_score"] == pytest.approx(expected)


@pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.AnotherAccountWarning")  # to compare
def test_how_little_errors_vary_is_told_and_narrows_the_interval():
    """G15: the variance of a record's error in the folds reaches the holdout."""
    data = train_test_split(*load_diabetes(return_X_y=True), test_size=0.4, random_state=0)
    X, X_holdout, y, y_holdout = data
    objective = make(data, ridge, ReusableHoldout(X_holdout, y_holdout, random_state=0),
                     scoring="neg_mean_absolute_error")  # fmt: skip
    study = new_study()
    objective.run_batch(study, 3)
    with objective.holdout.account.reading() as transaction:
        told = transaction.last.cells["variances"]
    span, widths = np.ptp(y), []
    for trial, variance in zip(study.trials, told, strict=True):
        model = ridge(optuna.trial.FixedTrial(trial.params))
        errors = np.abs(y - cross_val_predict(model, X, y, cv=3))
        assert variance == pytest.approx(np.var(np.minimum(errors / span, 1.0)))
        widths.append(trial.user_attrs["holdout_upper"] - trial.user_attrs["holdout_lower"])
    best, metric = min(widths), get_metric("neg_mean_absolute_error", y=y)
    untold = ReusableHoldout(X_holdout, y_holdout, random_state=0).answer_evaluations(
        [metric.to_unit(record.training_value) for record in objective.holdout.history()],
        [metric.evaluate(
            ridge(optuna.trial.FixedTrial(trial.params)).fit(X, y), X_holdout, y_holdout
        ) for trial in study.trials],
        training_size=len(y),
    )  # fmt: skip
    assert best < 0.6 * span * (untold.upper - untold.lower).min()


class _PruneWeak(optuna.pruners.BasePruner):
    def prune(self, study, trial):
        return trial.params["C"] < 0.01


def test_pruned_trials_cost_nothing(data):
    objective, study = make(data), new_study(pruner=_PruneWeak())
    objective.optimize(study, 12, n_startup_trials=6)
    states = [trial.state.name for trial in study.trials]
    assert states.count("PRUNED") > 0
    assert states.count("COMPLETE") == len(objective.holdout.history())
    pruned = [trial for trial in study.trials if trial.state.name == "PRUNED"]
    assert not any(trial.user_attrs for trial in pruned)
    assert not any("best" in name for name in study.user_attrs)


def test_the_same_suggestion_is_free(data):
    objective, study = make(data, tree), new_study()
    for _ in range(3):
        study.enqueue_trial({"max_depth": 3})
    objective.optimize(study, 3, n_startup_trials=2)
    assert len({trial.value for trial in study.trials}) == 1
    assert len(objective.holdout.history()) == 1


def test_a_used_up_budget_stops_the_study(data):
    _, X_holdout, _, y_holdout = data
    holdout = ReusableHoldout(
        X_holdout, y_holdout, budget=1, threshold=1e-4, epsilon=100.0, random_state=0
    )
    objective, study = make(data, tree, holdout, cv=2), new_study()
    objective.optimize(study, 12, n_startup_trials=0)
    assert holdout.remaining_budget == 0
    assert len(study.trials) < 12
    assert study.user_attrs["remaining_budget"] == 0


def test_unanswered_trials_are_pruned(data):
    _, X_holdout, _, y_holdout = data
    holdout = ReusableHoldout(
        X_holdout,
        y_holdout,
        budget=1,
        threshold=1e-4,
        epsilon=100.0,
        random_state=0,
        on_exhausted="nan",
    )
    objective, study = make(data, tree, holdout, cv=2), new_study()
    objective.optimize(study, 8, n_startup_trials=4)
    source = {state: set() for state in ("COMPLETE", "PRUNED")}
    for trial in study.trials:
        source[trial.state.name].add(trial.user_attrs["answered_from"])
    assert source["PRUNED"] == {"unanswered"}
    assert source["COMPLETE"] <= {"training", "holdout"}


def test_a_failing_trial_of_a_batch_leaves_no_trial_running(data):
    def broken(trial):
        if trial.number == 2:
            raise RuntimeError("no such model")
        return tree(trial)

    objective, study = make(data, broken), new_study()
    with pytest.raises(RuntimeError, match="no such model"):
        objective.run_batch(study, 4)
    assert {trial.state.name for trial in study.trials} == {"FAIL"}
    assert len(objective.holdout.history()) == 0


def test_two_processes_share_one_budget_through_the_ledger(data, tmp_path):
    _, X_holdout, _, y_holdout = data
    ledger = tmp_path / "ledger.sqlite"
    for _ in range(2):
        holdout = ReusableHoldout(X_holdout, y_holdout, ledger=ledger, random_state=0)
        make(data, tree, holdout).optimize(new_study(), 3, n_startup_trials=3)
    assert len({record.key for record in holdout.history()}) == len(holdout.history()) <= 3


def test_bad_arguments_are_refused_before_anything_is_asked(data):
    X, X_holdout, y, y_holdout = data
    objective = make(data)
    for direction in ({"direction": "minimize"}, {"directions": ["maximize", "maximize"]}):
        with pytest.raises(ValueError, match="maximize"):
            objective.run_batch(optuna.create_study(**direction), 2)
    with pytest.raises(ValueError, match="n_trials"):
        objective.optimize(new_study(), 0)
    with pytest.raises(TypeError, match="build"):
        HoldoutObjective("C", X, y, holdout=objective.holdout)
    with pytest.raises(TypeError, match="holdout"):
        HoldoutObjective(linear, X, y, holdout=X_holdout)
    with pytest.raises(SharedRecordsError, match="holdout"):
        HoldoutObjective(linear, X_holdout, y_holdout, holdout=objective.holdout)
    with pytest.raises(TypeError, match="estimator"):
        new_study().optimize(make(data, lambda trial: 3), 1)
    assert len(objective.holdout.history()) == 0
    grouped = ReusableHoldout(X_holdout, y_holdout, correlation=Groups(np.arange(228) // 2))
    with pytest.warns(UserWarning, match="splitter"):
        HoldoutObjective(linear, X, y, holdout=grouped)


@pytest.mark.parametrize("kind", ["grid", "brute force"])
def test_samplers_of_finite_spaces_end_a_study(data, kind):
    """They stop the study when all is tried: no trial stays running, and nothing is asked again."""
    X, X_holdout, y, y_holdout = data
    space = {"max_depth": [1, 3, 5]}
    samplers = optuna.samplers
    sampler = samplers.GridSampler(space) if kind == "grid" else samplers.BruteForceSampler()
    study = optuna.create_study(direction="maximize", sampler=sampler)
    holdout = ReusableHoldout(X_holdout, y_holdout, random_state=0)

    def build(trial):
        depth = trial.suggest_categorical("max_depth", space["max_depth"])
        return DecisionTreeClassifier(max_depth=depth, random_state=0)

    objective = HoldoutObjective(build, X, y, holdout=holdout, cv=3)
    objective.optimize(study, n_trials=20, n_startup_trials=4)
    assert {trial.state.name for trial in study.trials} == {"COMPLETE"}
    assert len(study.trials) < 20
    assert len(holdout.history()) == 3


def test_a_study_goes_on_the_next_day(data, tmp_path):
    """Trials are in the study's storage, answers in the ledger; both are opened anew."""
    X, X_holdout, y, y_holdout = data
    storage = optuna.storages.JournalStorage(
        optuna.storages.journal.JournalFileBackend(str(tmp_path / "study.log"))
    )

    def day(n_trials, seed):
        study = optuna.create_study(
            study_name="trees", storage=storage, load_if_exists=True, direction="maximize",
            sampler=optuna.samplers.TPESampler(seed=seed),
        )  # fmt: skip
        holdout = ReusableHoldout(X_holdout, y_holdout, ledger=tmp_path / "holdout.sqlite")
        spent = holdout.information_spent

        def build(trial):
            depth = trial.suggest_int("max_depth", 1, 12)
            return DecisionTreeClassifier(max_depth=depth, random_state=0)

        objective = HoldoutObjective(build, X, y, holdout=holdout, cv=3)
        objective.optimize(study, n_trials=n_trials, n_startup_trials=3)
        return study, spent, holdout.information_spent

    first, _, after = day(4, seed=0)
    second, before, _ = day(3, seed=1)
    assert before == after
    assert len(second.trials) == 7
    assert {trial.state.name for trial in second.trials} == {"COMPLETE"}
    assert second.best_value >= first.best_value
