"""The order of steps, against a stand-in that knows the truth about every subset."""

import math
from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from sklearn_bdp._evaluation import Assessment, Gain, PairedGain
from sklearn_bdp.feature_selection._stepwise import Rule, select
from sklearn_bdp.feature_selection._units import make_units


@dataclass
class StandIn:
    """Knows the score of each subset on both sides; the holdout's is ``released``."""

    training: object
    released: object = None
    baseline: bool = True
    error: float = 0.001

    def __post_init__(self):
        self.setting = SimpleNamespace(has_baseline=self.baseline)
        self.batches, self.gains = [], []
        self.released = self.released or self.training

    def assess(self, subsets):
        self.batches.append(list(subsets))
        return [
            Assessment(c, self.training(c), self.released(c), 0.0, 1.0, "training", None, object())
            for c in subsets
        ]

    def paired(self, first, second):
        gain = first.training - second.training
        return PairedGain(max(gain, 0.0), max(-gain, 0.0), gain, self.error)

    def gain(self, first, second, paired):
        gain = first.released - second.released
        self.gains.append((first.columns, second.columns))
        return Gain(gain, gain - 0.05, gain + 0.05, 0.0)


def additive(*weights):
    return lambda columns: 0.5 + sum(weights[column] for column in columns)


def run(verifier, n, *, direction="forward", target=None, tol="auto", **units):
    units = {"fixed_features": None, "feature_groups": None, **units}
    made = make_units(n, None, **units)
    target = made.target("auto" if target is None else target)
    steps = list(select(verifier, made, direction=direction, target=target, rule=Rule(tol)))
    return [made.columns(step.chosen) for step in steps], steps


def test_forward_adds_the_best_first_and_stops_without_a_gain():
    path, _ = run(StandIn(additive(0.05, 0.0, 0.2, -0.01)), 4)
    assert path == [(), (2,), (0, 2)]


def test_each_step_asks_all_its_candidates_in_one_batch():
    verifier = StandIn(additive(0.05, 0.0, 0.2, -0.01))
    run(verifier, 4)
    assert [len(batch) for batch in verifier.batches] == [1, 4, 3, 2]


def test_a_gain_that_the_holdout_denies_does_not_count():
    liar = StandIn(additive(0.3, 0.1, 0.0), released=additive(0.0, 0.1, 0.0))
    path, _ = run(liar, 3)
    assert path[-1] == (1,)


def test_luck_on_the_holdout_alone_does_not_win():
    lucky = StandIn(additive(0.1, 0.0), released=additive(0.1, 0.3))
    path, _ = run(lucky, 2)
    assert path == [(), (0,)]


def test_a_training_gain_within_chance_is_never_put_to_the_holdout():
    verifier = StandIn(additive(0.002, 0.001), error=0.01)
    path, _ = run(verifier, 2)
    assert path == [()]
    assert verifier.gains == []


def test_nothing_is_selected_from_noise():
    assert run(StandIn(additive(0.0, 0.0, 0.0)), 3)[0] == [()]


@pytest.mark.parametrize(("target", "size"), [(3, 3), (0.5, 2), (4, 4)])
def test_a_number_of_features_is_reached_whatever_they_gain(target, size):
    path, _ = run(StandIn(additive(0.1, 0.0, 0.0, -0.1)), 4, target=target)
    assert len(path[-1]) == size


def test_backward_keeps_what_is_missed():
    verifier = StandIn(additive(0.1, 0.0, -0.01, 0.1))
    path, steps = run(verifier, 4, direction="backward")
    assert path[0] == (0, 1, 2, 3)
    assert path[-1] == (0, 3)
    assert [step.action for step in steps] == ["start", "remove", "remove"]


def test_backward_losses_too_small_to_count_do_not_add_up():
    weights = [0.004] * 10  # each is within chance, all together are not
    path, _ = run(StandIn(additive(*weights), error=0.004), 10, direction="backward")
    assert len(path[-1]) >= 7


def test_backward_reaches_a_number():
    path, _ = run(StandIn(additive(0.1, 0.2, 0.3)), 3, direction="backward", target=1)
    assert path[-1] == (2,)


def pair_beats_single(columns):
    """Column 0 is best alone, but columns 1 and 2 together make it needless."""
    if {1, 2} <= set(columns):
        return 0.85
    return {0: 0.5, 1: 0.7 if 0 in columns else 0.6, 2: 0.72}[len(columns)]


def test_floating_removes_what_is_not_missed_any_more():
    forward, _ = run(StandIn(pair_beats_single), 3)
    floating, steps = run(StandIn(pair_beats_single), 3, direction="floating")
    assert forward[-1] == (0, 1, 2)
    assert floating[-1] == (1, 2)
    assert "remove" in [step.action for step in steps]


def test_floating_never_visits_a_subset_twice():
    path, _ = run(StandIn(pair_beats_single), 3, direction="floating")
    assert len(set(path)) == len(path)


def test_fixed_features_stay_and_groups_move_together():
    weights = additive(0.0, 0.2, 0.0, 0.1, 0.0)
    path, _ = run(StandIn(weights), 5, fixed_features=[4], feature_groups=[[0, 1]])
    assert path == [(4,), (0, 1, 4), (0, 1, 3, 4)]
    path, _ = run(StandIn(weights), 5, fixed_features=[0], feature_groups=[[0, 1]])
    assert path[0] == (0, 1)
    path, _ = run(StandIn(weights), 5, direction="backward", fixed_features=[4])
    assert path[-1] == (1, 3, 4)


def test_without_a_baseline_the_first_feature_is_taken_as_it_is():
    path, steps = run(StandIn(additive(0.0, 0.1), baseline=False), 2)
    assert path[1] == (1,)
    assert steps[0].assessment is None
    assert steps[1].gain is None


def test_certified_needs_the_whole_interval():
    weights = additive(0.2, 0.04)
    assert run(StandIn(weights), 2)[0][-1] == (0, 1)
    assert run(StandIn(weights), 2, tol="certified")[0][-1] == (0,)


def test_a_number_as_tol_is_required_of_both_sides():
    verifier = StandIn(additive(0.2, 0.1), released=additive(0.2, 0.06))
    assert run(verifier, 2, tol=0.05)[0][-1] == (0, 1)
    assert run(verifier, 2, tol=0.07)[0][-1] == (0,)


def test_unanswered_candidates_end_the_selection():
    nothing = StandIn(additive(0.2, 0.1), released=lambda columns: math.nan)
    assert run(nothing, 2)[0] == [()]
