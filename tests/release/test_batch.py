"""Decisions on one batch: its charges, and the distance that each answer guarantees."""

import dataclasses
import json
import math

import numpy as np
import pytest

from sklearn_bdp.accounting.noise_calibration import noise_share
from sklearn_bdp.accounting.spending import (
    PredictiveCode,
    code_length,
    leakage_code_length,
    rank_code_lengths,
)
from sklearn_bdp.correlation import Independent
from sklearn_bdp.holdout import ExpertSettings, HoldoutConfig
from sklearn_bdp.intervals.bounds import Units
from sklearn_bdp.intervals.concentration import ClassMeansTail, ModelTail
from sklearn_bdp.ledger.records import BatchRecord
from sklearn_bdp.release.batch import answer_batch
from sklearn_bdp.release.batch_context import BatchContext, next_code_length
from sklearn_bdp.release.calibration import Calibration
from sklearn_bdp.release.query_batch import Batch

N = 500
MODEL = Independent()
EMPTY = BatchRecord()


def settings(**options):
    return Calibration.from_config(HoldoutConfig(**options), model=MODEL, n=N)


def queries(training, values, scale=1.0, relaxed_to=0.0):
    count = len(training)
    return Batch(
        cv_scores=np.array(training, dtype=float),
        values=np.array(values, dtype=float),
        shapes=({"kind": "mean"},),
        # A class of N / scale**2 records: a score that varies so much more.
        tails=(ModelTail(MODEL, N) if scale == 1.0 else ClassMeansTail((round(N / scale**2),)),),
        tail_of=np.zeros(count, dtype=int),
        sensitivities=np.full(count, float(scale)),
        training_sizes=np.full(count, float(N)),
        relaxed_to=np.full(count, relaxed_to),
        secondary=np.zeros(count, dtype=bool),
        keys=[None] * count,
        variances=np.full(count, np.nan),
        squares=np.full((count, 2), np.nan),
        units=Units.records(N),
        by_class=[None] * count,
        labels=[(None, None, None, None)] * count,
    )


def run(batch, chosen, *, last=EMPTY, code=None, mechanism=None):
    terms = BatchContext(
        last=last,
        code=code or PredictiveCode(),
        mechanism=mechanism or chosen.make_mechanism(random_state=0),
        settings=chosen,
        model=MODEL,
        time="now",
        seeded=True,
        seed=0,
    )
    return answer_batch(batch, terms)


def test_the_charge_is_made_of_releases_place_and_order():
    chosen, code = settings(), PredictiveCode()
    mechanism = chosen.make_mechanism(random_state=0)
    first, answers = run(queries([0.9, 0.5], [0.4, 0.9]), chosen, mechanism=mechanism, code=code)
    assert [a.corrected for a in answers] == [True, True]
    assert [a.code_length for a in answers] == pytest.approx(
        code_length(released=0.0, batch_index=1) + rank_code_lengths([0.9, 0.5])
    )
    assert next_code_length(first, chosen)[0] == pytest.approx(
        code_length(released=first.released, batch_index=2)
    )
    second, _ = run(queries([0.5], [0.5]), chosen, last=first, mechanism=mechanism, code=code)
    assert second.released > first.released > 2.0


def test_leakage_and_code_share_beta_and_the_shorter_carries_the_answer():
    """G9: with a level for life every answer may rest on G1 or on the code."""
    chosen = settings(epsilon=0.05, budget=3)
    quiet = dataclasses.replace(EMPTY, number=1)
    loud = dataclasses.replace(EMPTY, number=1, released=500.0)
    assert next_code_length(quiet, chosen) == (
        pytest.approx(code_length(released=0.0, batch_index=2) + math.log(2)), "code",
    )  # fmt: skip
    length, by = next_code_length(loud, chosen)
    assert by == "leakage"
    leaked = leakage_code_length(
        information=chosen.information, failure=chosen.sampling_failure / 2
    )
    assert length == pytest.approx(math.log(2) + code_length(released=leaked, batch_index=2))
    level = chosen.make_mechanism().dp_epsilon(1 / N)
    assert chosen.information == pytest.approx(MODEL.sequential_information(level, N))
    assert settings().information is None


def test_counts_and_widths_add_up_over_batches():
    chosen = settings()
    mechanism, code = chosen.make_mechanism(random_state=0), PredictiveCode()
    last = EMPTY
    for number in range(1, 6):
        last, answers = run(
            queries([0.5, 0.1], [0.5, 0.9]), chosen, last=last, mechanism=mechanism,
            code=code,
        )  # fmt: skip
        assert last.number == number
        assert last.n_answered == 2 * number
        assert last.widest >= max(max(a.value - a.lower, a.upper - a.value) for a in answers)
    assert last.dp_epsilon == pytest.approx(mechanism.dp_epsilon_used(1 / N))


def test_intervals_are_those_of_the_theory():
    chosen = settings(expert=ExpertSettings(threshold=0.05))
    record, answers = run(queries([0.5, 0.9], [0.52, 0.4]), chosen)
    z_below, z_above = chosen.noise_margins(0)
    value, reach = np.array([[answer.value, half] for answer, half in zip(
        answers, (0.05 + z_below, z_above + chosen.resolution / 2), strict=True
    )]).T  # fmt: skip
    length = record.code_length + rank_code_lengths([0.5, 0.9])
    side = math.log(chosen.sampling_failure / 2) - length
    lower = ModelTail(MODEL, N).lower_limit(value - reach, side)
    upper = ModelTail(MODEL, N).upper_limit(value + reach, side)
    assert [answer.lower for answer in answers] == pytest.approx(list(lower))
    assert [answer.upper for answer in answers] == pytest.approx(list(upper))


def test_noise_shares_of_all_rounds_stay_within_their_part_of_beta():
    chosen = settings()
    shares = noise_share(chosen.noise_failure, np.arange(100_000))
    assert shares.sum() <= chosen.noise_failure
    below = [chosen.noise_margins(spent)[0] for spent in (0, 1, 10, 100)]
    assert below == sorted(below)


@pytest.mark.parametrize("scale", [1.0, 4.0])
def test_noise_of_low_sensitivity_queries_is_scaled_with_them(scale):
    """In units of its sensitivity each query meets the same noise, so privacy is the same."""
    chosen = settings(expert=ExpertSettings(threshold=0.01 * scale, resolution=1e-4))
    errors = []
    for seed in range(150):
        _, answers = run(
            queries([0.1], [0.6], scale), chosen, mechanism=chosen.make_mechanism(random_state=seed)
        )
        errors.append(answers[0].value - 0.6)
    spread = np.mean(np.abs(errors))  # E|Laplace(b)| = b
    assert spread == pytest.approx(scale * chosen.answer_scale, rel=0.35)


def test_a_long_batch_equals_its_parts_in_distribution():
    """Ten thousand quiet queries are one call, all below, all charged alike."""
    chosen = settings()
    values = np.full(10_000, 0.5)
    record, answers = run(queries(values, values), chosen)
    assert len(answers) == 10_000
    assert sum(answer.corrected for answer in answers) == record.n_above <= 2


def test_nothing_raw_goes_out():
    record, answers = run(queries([0.5], [0.512345678]), settings())
    shown = repr(record) + repr(answers) + repr(queries([0.5], [0.512345678]))
    assert "0.5123" not in shown


def test_relaxed_to_is_a_least_threshold_of_automatic_thresholds():
    chosen = settings()
    _, (tight,) = run(queries([0.5], [0.5]), chosen)
    _, (loose,) = run(queries([0.5], [0.5], relaxed_to=0.3), chosen)
    _, (given,) = run(
        queries([0.5], [0.5], relaxed_to=0.01), settings(expert=ExpertSettings(threshold=0.005))
    )
    assert loose.upper - loose.lower > tight.upper - tight.lower
    assert given.upper - given.lower < tight.upper - tight.lower


def test_an_empty_budget_answers_nothing():
    chosen = settings(budget=1)
    mechanism = chosen.make_mechanism(random_state=0)
    last, answers = run(queries([0.9, 0.9], [0.1, 0.9]), chosen, mechanism=mechanism)
    assert len(answers) == 1
    assert run(queries([0.5], [0.5]), chosen, last=last, mechanism=mechanism) == (None, [])


def test_settings_survive_json():
    chosen = settings(epsilon=50.0)
    assert Calibration.from_header(json.loads(json.dumps(chosen.header()))) == chosen
