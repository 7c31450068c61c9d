"""One batch decided: what is charged, and which distance each answer vouches for."""

import dataclasses
import json
import math

import numpy as np
import pytest

from sklearn_bdp.accounting import (
    DecisionCode,
    OffsetPredictor,
    answer_intervals,
    code_length,
    noise_share,
    value_code,
)
from sklearn_bdp.correlation import Groups, Independent
from sklearn_bdp.holdout import BatchRecord
from sklearn_bdp.holdout._batch import Queries, decide, margins, next_code_length
from sklearn_bdp.holdout._settings import Settings, check_parameters, derive_settings

N = 500
MODEL = Independent()
EMPTY = BatchRecord.empty()


def settings(**options):
    defaults = {
        "beta": 0.05, "epsilon": "auto", "calibration": "tight", "threshold": "auto",
        "budget": None, "n_queries": None, "resolution": "auto", "gap": None,
    }  # fmt: skip
    return derive_settings(check_parameters(**{**defaults, **options}), model=MODEL, n=N)


def queries(training, values, scales=1.0, slack=0.0):
    count = len(training)
    return Queries(
        training_values=np.array(training, dtype=float),
        values=np.array(values, dtype=float),
        is_mean=np.full(count, scales == 1.0),
        sensitivities=np.full(count, float(scales)),
        rms_sensitivities=np.full(count, float(scales)),
        training_sizes=np.full(count, float(N)),
        slacks=np.full(count, slack),
        keys=[None] * count,
    )


def run(batch, chosen, *, last=EMPTY, predictor=None, mechanism=None, model=MODEL):
    mechanism = mechanism or chosen.mechanism(random_state=0)
    return decide(
        batch,
        last=last,
        predictor=predictor or OffsetPredictor(),
        mechanism=mechanism,
        settings=chosen,
        model=model,
        time="now",
        seeded=True,
    )


def test_the_charge_is_made_of_decisions_values_size_and_order():
    chosen = settings()
    mechanism = chosen.mechanism(random_state=0)
    predictor = OffsetPredictor()
    first, answers = run(
        queries([0.9, 0.5], [0.4, 0.9]), chosen, mechanism=mechanism, predictor=predictor
    )
    assert first.code_length == pytest.approx(code_length(
        n_answered=0, n_above=0, value_nats=0, batch_size=2, batch_index=1,
    ))  # fmt: skip
    assert [answer.above for answer in answers] == [True, True]
    code = DecisionCode()
    code.update([True, True])
    assert next_code_length(first, size=7) == pytest.approx(
        code.nats + first.released + math.log(7) + math.log(2 * 3)
    )
    # The first value was coded around 0.9, the second around what the first taught.
    taught = OffsetPredictor()
    taught.update(0.9, answers[0].value)
    around = [0.9, taught.predict(np.array([0.5]))[0]]
    least = sum(
        value_code(center, answer.value, resolution=chosen.resolution, scale=0.05)
        for center, answer in zip(around, answers, strict=True)
    )
    assert first.released == pytest.approx(least, rel=0.5)  # the scale is the threshold


def test_counts_and_widths_add_up_over_batches():
    chosen = settings()
    mechanism, predictor = chosen.mechanism(random_state=0), OffsetPredictor()
    last = EMPTY
    for number in range(1, 6):
        last, answers = run(
            queries([0.5, 0.1], [0.5, 0.9]), chosen, last=last, mechanism=mechanism,
            predictor=predictor,
        )  # fmt: skip
        assert last.number == number
        assert last.n_answered == 2 * number
        assert last.widest >= max(max(a.value - a.lower, a.upper - a.value) for a in answers)
    assert last.dp_epsilon == pytest.approx(mechanism.dp_epsilon_used(1 / N))


def test_intervals_are_those_of_the_theory():
    chosen = settings(threshold=0.05)
    record, answers = run(queries([0.5, 0.9], [0.52, 0.4]), chosen)
    z_below, z_above = margins(chosen, 0)
    lower, upper = answer_intervals(
        [answer.value for answer in answers],
        [0.05 + z_below, z_above + chosen.resolution / 2],
        code_length=record.code_length,
        failure=chosen.sampling_failure,
        model=MODEL,
        n=N,
    )
    assert [answer.lower for answer in answers] == pytest.approx(list(lower))
    assert [answer.upper for answer in answers] == pytest.approx(list(upper))


def test_noise_shares_of_all_rounds_stay_within_their_part_of_beta():
    chosen = settings()
    shares = noise_share(chosen.noise_failure, np.arange(100_000))
    assert shares.sum() <= chosen.noise_failure
    below = [margins(chosen, spent)[0] for spent in (0, 1, 10, 100)]
    assert below == sorted(below)


@pytest.mark.parametrize("scale", [1.0, 4.0])
def test_noise_of_low_sensitivity_queries_is_scaled_with_them(scale):
    """In units of its sensitivity each query meets the same noise, so privacy is the same."""
    chosen = settings(threshold=0.01 * scale, resolution=1e-4)
    errors = []
    for seed in range(150):
        _, answers = run(
            queries([0.1], [0.6], scale), chosen, mechanism=chosen.mechanism(random_state=seed)
        )
        errors.append(answers[0].value - 0.6)
    spread = np.mean(np.abs(errors))  # E|Laplace(b)| = b
    assert spread == pytest.approx(scale * chosen.answer_scale, rel=0.35)


def test_low_sensitivity_intervals_use_their_own_tail():
    chosen = settings(threshold=0.05)
    _, (mean,) = run(queries([0.5], [0.5]), chosen)
    _, (other,) = run(queries([0.5], [0.5], 3.0), chosen)
    assert other.upper - other.lower > 1.5 * (mean.upper - mean.lower)


def test_unequal_sensitivities_enter_by_their_squares_where_records_are_independent():
    batch = queries([0.5], [0.5], 3.0)
    sharper = dataclasses.replace(batch, rms_sensitivities=np.array([1.5]))
    groups = Groups(np.repeat(np.arange(N // 2), 2))
    widths = {}
    for name, each in (("largest", batch), ("squares", sharper)):
        for model in (MODEL, groups):
            _, (answer,) = run(each, settings(threshold=0.05), model=model)
            widths[name, model] = answer.upper - answer.lower
    assert widths["squares", MODEL] < 0.8 * widths["largest", MODEL]
    assert widths["squares", groups] == widths["largest", groups]


def test_a_long_batch_equals_its_parts_in_distribution():
    """Ten thousand quiet queries are one call, all below, all charged alike."""
    chosen = settings()
    values = np.full(10_000, 0.5)
    record, answers = run(queries(values, values), chosen)
    assert len(answers) == 10_000
    assert sum(answer.above for answer in answers) == record.n_above <= 2


def test_nothing_raw_goes_out():
    record, answers = run(queries([0.5], [0.512345678]), settings())
    shown = repr(record) + repr(answers) + repr(queries([0.5], [0.512345678]))
    assert "0.5123" not in shown


def test_slack_is_a_least_threshold_of_automatic_thresholds():
    chosen = settings()
    _, (tight,) = run(queries([0.5], [0.5]), chosen)
    _, (loose,) = run(queries([0.5], [0.5], slack=0.3), chosen)
    _, (given,) = run(queries([0.5], [0.5], slack=0.01), settings(threshold=0.05))
    assert loose.upper - loose.lower > tight.upper - tight.lower
    assert given.upper - given.lower < tight.upper - tight.lower


def test_an_empty_budget_answers_nothing():
    chosen = settings(budget=1)
    mechanism = chosen.mechanism(random_state=0)
    last, answers = run(queries([0.9, 0.9], [0.1, 0.9]), chosen, mechanism=mechanism)
    assert len(answers) == 1
    assert run(queries([0.5], [0.5]), chosen, last=last, mechanism=mechanism) == (None, [])


def test_settings_survive_json():
    chosen = settings(epsilon=50.0)
    assert Settings(**json.loads(json.dumps(dataclasses.asdict(chosen)))) == chosen
