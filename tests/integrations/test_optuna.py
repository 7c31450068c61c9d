"""The recipe of the guide: an ordinary objective that queries the holdout."""

import re
from pathlib import Path

import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import cross_val_score, train_test_split
from sklearn.tree import DecisionTreeClassifier

from sklearn_bdp import ReusableHoldout

optuna = pytest.importorskip("optuna")
pytestmark = pytest.mark.client(
    "optuna", "the recipe for an objective: values, pruners, a study that goes on the next day"
)
PAGE = Path(__file__).resolve().parents[2] / "doc" / "guide" / "tools.md"


def build(trial):
    return DecisionTreeClassifier(max_depth=trial.suggest_int("max_depth", 1, 12), random_state=0)


@pytest.fixture(scope="module")
def data():
    return train_test_split(*load_breast_cancer(return_X_y=True), test_size=0.4, random_state=0)


@pytest.fixture
def objective_for(data):
    """Return the objective of the page, which asks a holdout about trees."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.M | re.S)
    (recipe,) = (block for block in blocks if "def objective" in block)

    def make_objective(holdout):
        names = {
            "DecisionTreeClassifier": DecisionTreeClassifier,
            "cross_val_score": cross_val_score,
            "holdout": holdout,
            "optuna": optuna,
            "X_train": data[0],
            "y_train": data[2],
        }
        exec(recipe, names)
        return names["objective"]

    return make_objective


def new_study(**options):
    sampler = optuna.samplers.TPESampler(seed=0)
    return optuna.create_study(direction="maximize", sampler=sampler, **options)


def test_trial_values_are_the_released_scores(data, objective_for):
    X, X_holdout, y, y_holdout = data
    holdout = ReusableHoldout(X_holdout, y_holdout, random_state=0)
    study = new_study()
    study.optimize(objective_for(holdout), 4)
    for trial, record in zip(study.trials, holdout.history(), strict=True):
        assert trial.value == record.value
        assert trial.user_attrs["interval"] == (record.lower, record.upper)
        model = build(optuna.trial.FixedTrial(trial.params))
        expected = cross_val_score(model, X, y, scoring="accuracy").mean()
        assert record.cv_score == pytest.approx(expected)


class _PruneDeep(optuna.pruners.BasePruner):
    def prune(self, study, trial):
        return trial.params["max_depth"] > 6


def test_pruned_trials_cost_nothing(data, objective_for):
    holdout = ReusableHoldout(data[1], data[3], random_state=0)
    study = new_study(pruner=_PruneDeep())
    study.optimize(objective_for(holdout), 8)
    states = [trial.state.name for trial in study.trials]
    assert states.count("PRUNED") > 0
    assert states.count("COMPLETE") == len(holdout.history()) > 0


def test_a_study_continues_from_storage_and_ledger(data, objective_for, tmp_path):
    """Trials are in the study's storage, answers in the ledger; both are opened anew."""
    journal = optuna.storages.journal.JournalFileBackend(str(tmp_path / "study.log"))
    storage = optuna.storages.JournalStorage(journal)
    spent = []
    for day in (1, 2):
        study = new_study(study_name="trees", storage=storage, load_if_exists=True)
        holdout = ReusableHoldout(data[1], data[3], ledger=tmp_path / "holdout.sqlite")
        spent.append(holdout.information_spent)
        study.optimize(objective_for(holdout), 2)
        spent.append(holdout.information_spent)
        assert len(holdout.history()) == len(study.trials) == 2 * day
    assert spent[1] == spent[2]
