"""A single value describes a holdout in advance; every field is a parameter of the holdout."""

import copy
import inspect
import pickle
from dataclasses import FrozenInstanceError, fields, replace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, ShuffleSplit

from sklearn_bdp import HoldoutConfig, ReusableHoldout, ReusableHoldoutSearchCV
from sklearn_bdp.feature_selection import HoldoutFeatureSelector
from sklearn_bdp.holdout import ExpertSettings
from sklearn_bdp.model_selection import HalvingReusableHoldoutSearchCV
from tests.facts import refused

# Several holdouts of the same records, each for a test of its own.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.SecondHoldoutWarning")

rng = np.random.default_rng(0)
X = rng.normal(size=(400, 4))
Y = (X[:, 0] + rng.normal(size=400) > 0).astype(int)
GRID = {"C": [0.1, 1.0]}


def test_fields_are_the_parameters_of_the_holdout_with_their_defaults():
    parameters = inspect.signature(ReusableHoldout).parameters
    for field in fields(HoldoutConfig)[1:]:
        assert field.default == parameters[field.name].default
        assert field.name in HoldoutConfig.__doc__
    runtime_parameters = {
        "X",
        "y",
        "correlation",
        "random_state",
        "gap",
        "notes",
    }  # of the records at hand
    assert {field.name for field in fields(HoldoutConfig)[1:]} == set(
        parameters
    ) - runtime_parameters


@pytest.mark.parametrize(
    ("changes", "fact"),
    [
        ({"test_size": 0.0}, "test_size"),
        ({"test_size": 20}, "test_size=20 / len(X)"),
        ({"test_size": "half"}, "test_size"),
        ({"test_size": None}, "test_size"),
        ({"test_size": True}, "test_size"),
        ({"confidence_level": 0.05}, "confidence_level"),
        ({"confidence_level": float("nan")}, "confidence_level"),
        ({"epsilon": -1}, "epsilon=-1"),
        ({"calibration": "typo"}, "calibration"),
        ({"calibration": "zhao2017"}, "n_queries"),
        ({"budget": 0}, "budget"),
        ({"on_exhausted": "typo"}, "on_exhausted"),
        ({"ledger": 3}, "ledger"),
        ({"expert": {"threshold": 0.1}}, "ExpertSettings"),
        ({"allow_shared_rows": 1}, "allow_shared_rows"),
    ],
)
def test_fields_are_validated_on_creation(changes, fact):
    with refused((TypeError, ValueError), fact):
        HoldoutConfig(**changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"threshold": 0.0},
        {"threshold": 2.0},
        {"threshold": "wide"},
        {"resolution": 0.0},
        {"resolution": 1e-9},
        {"n_queries": 0},
        {"ledger_timeout": -1.0},
    ],
)
def test_expert_settings_are_validated_on_creation(changes):
    with refused(ValueError, *changes):
        ExpertSettings(**changes)


def test_a_configuration_shows_changed_fields_and_is_frozen():
    config = HoldoutConfig(0.3, ledger="a.sqlite")
    assert repr(config) == "HoldoutConfig(0.3, ledger='a.sqlite')"
    assert repr(HoldoutConfig()) == "HoldoutConfig(0.25)"
    with pytest.raises(FrozenInstanceError):
        config.confidence_level = 0.9
    assert replace(config, confidence_level=0.9).confidence_level == 0.9
    for config_copy in (
        copy.deepcopy(config),
        pickle.loads(pickle.dumps(config)),
        clone(config, safe=False),
    ):
        assert config_copy == config


@pytest.mark.parametrize("search_class", [ReusableHoldoutSearchCV, HalvingReusableHoldoutSearchCV])
def test_a_search_opens_the_configured_holdout(search_class, tmp_path):
    path = tmp_path / "holdout.sqlite"
    config = HoldoutConfig(0.4, confidence_level=0.9, budget=7, on_exhausted="nan", ledger=path)
    search = clone(search_class(LogisticRegression(), GRID, holdout=config, random_state=0)).fit(
        X, Y
    )
    holdout = search.holdout_
    assert (holdout.n, holdout.confidence_level, holdout.remaining_budget) == (160, 0.9, 7)
    assert (holdout.on_exhausted, holdout.ledger) == ("nan", path)


def test_a_splitter_can_replace_the_size():
    splitter = ShuffleSplit(1, test_size=0.3, random_state=0)
    splitter_search = ReusableHoldoutSearchCV(LogisticRegression(), GRID, holdout=splitter).fit(
        X, Y
    )
    config = HoldoutConfig(splitter, confidence_level=0.9)
    config_search = ReusableHoldoutSearchCV(LogisticRegression(), GRID, holdout=config).fit(X, Y)
    np.testing.assert_array_equal(splitter_search.holdout_indices_, config_search.holdout_indices_)
    with refused(ValueError, "holdout", "KFold"):
        ReusableHoldoutSearchCV(LogisticRegression(), GRID, holdout=HoldoutConfig(KFold(3))).fit(
            X, Y
        )


def test_a_validation_set_overrides_the_size():
    config = HoldoutConfig(0.9, confidence_level=0.9)
    search = ReusableHoldoutSearchCV(LogisticRegression(), GRID, holdout=config)
    search.fit(X[:300], Y[:300], X_val=X[300:], y_val=Y[300:])
    assert (search.holdout_.n, search.holdout_.confidence_level) == (100, 0.9)


def test_allowed_shared_rows_are_reported_in_the_certificate():
    duplicated_data = np.repeat(X, 2, axis=0), np.repeat(Y, 2)
    search = ReusableHoldoutSearchCV(
        LogisticRegression(), GRID, holdout=HoldoutConfig(allow_shared_rows=True)
    )
    search.fit(
        duplicated_data[0][::2],
        duplicated_data[1][::2],
        X_val=duplicated_data[0][1::2][:100],
        y_val=duplicated_data[1][1::2][:100],
    )
    assert any("allow_shared_rows" in assumption for assumption in search.certificate_.assumptions)


def test_a_search_changes_its_configuration_by_nested_parameters(tmp_path):
    """It replaces ``holdout`` by a changed copy, and leaves the original as it was."""
    config = HoldoutConfig(0.3, confidence_level=0.9)
    search = ReusableHoldoutSearchCV(LogisticRegression(), GRID, holdout=config)
    cloned_search = clone(search)
    cloned_search.set_params(
        holdout__confidence_level=0.8, holdout__ledger=tmp_path / "a.sqlite", n_jobs=2
    )
    levels = [
        configuration.confidence_level
        for configuration in (config, search.holdout, cloned_search.holdout)
    ]
    assert (levels, cloned_search.n_jobs) == ([0.9, 0.9, 0.8], 2)
    assert cloned_search.get_params(deep=True)["holdout__ledger"] == tmp_path / "a.sqlite"


def test_a_nested_parameter_turns_a_fraction_into_a_configuration():
    search = ReusableHoldoutSearchCV(LogisticRegression(), GRID, holdout=0.4, random_state=0)
    search.set_params(holdout__budget=7)
    assert search.holdout == HoldoutConfig(0.4, budget=7)
    assert clone(search).fit(X, Y).holdout_.config is search.holdout


def test_a_selector_changes_its_configuration_by_nested_parameters():
    selector = HoldoutFeatureSelector(LogisticRegression()).set_params(holdout__spending="even")
    assert selector.holdout.spending == "even"


@pytest.mark.parametrize(
    ("parameters", "name"),
    [({"holdout__confidence_level": 2.0}, "confidence_level"), ({"holdout__typo": 1}, "typo")],
)
def test_an_invalid_nested_parameter_raises(parameters, name):
    search = ReusableHoldoutSearchCV(LogisticRegression(), GRID, holdout=0.4)
    with refused(ValueError, name):
        search.set_params(**parameters)


@pytest.mark.parametrize(
    "make_holdout", [lambda: None, lambda: ReusableHoldout(X, Y)], ids=["no holdout", "a holdout"]
)
def test_only_a_configuration_or_a_fraction_has_nested_parameters(make_holdout):
    search = ReusableHoldoutSearchCV(LogisticRegression(), GRID)
    with refused(ValueError, "holdout__confidence_level"):
        search.set_params(holdout=make_holdout(), holdout__confidence_level=0.9)


def test_a_fit_creates_and_validates_one_configuration(monkeypatch):
    created_configs = []
    check = HoldoutConfig.__post_init__
    monkeypatch.setattr(
        HoldoutConfig, "__post_init__", lambda self: (created_configs.append(self), check(self))[1]
    )
    search = ReusableHoldoutSearchCV(LogisticRegression(), GRID, random_state=0).fit(X, Y)
    assert created_configs == [search.holdout_.config]
