"""Decisions on one batch: its charges, and the distance that each answer guarantees."""

import dataclasses
import json
import math

import numpy as np
import pytest

from sklearn_bdp.accounting.noise_calibration import round_noise_failure
from sklearn_bdp.accounting.spending import (
    PredictiveCode,
    code_length,
    leakage_code_length,
    rank_code_lengths,
)
from sklearn_bdp.correlation import Independent
from sklearn_bdp.correlation.levels import sequential_information
from sklearn_bdp.holdout import ExpertSettings, HoldoutConfig
from sklearn_bdp.intervals.bounds import UnitWeights
from sklearn_bdp.intervals.concentration import ClassMeansTail, ModelTail, score_tail
from sklearn_bdp.ledger.batch_record import LedgerTotals
from sklearn_bdp.metrics.approximate import RatioCounts
from sklearn_bdp.release.batch import answer_batch
from sklearn_bdp.release.batch_context import BatchContext, next_code_length
from sklearn_bdp.release.calibration import Calibration
from sklearn_bdp.release.query_batch import QueryBatch, QueryDescription

N = 500
MODEL = Independent()
EMPTY = LedgerTotals()


def settings(**options):
    return Calibration.from_config(HoldoutConfig(**options), model=MODEL, n=N)


def queries(cv_scores, values, scale=1.0, relaxed_to=0.0):
    count = len(cv_scores)
    return QueryBatch(
        cv_scores=np.array(cv_scores, dtype=float),
        values=np.array(values, dtype=float),
        shapes=({"kind": "mean"},),
        # A class of N / scale**2 records: a score that varies so much more.
        tails=(ModelTail(MODEL, N) if scale == 1.0 else ClassMeansTail((round(N / scale**2),)),),
        shape_indices=np.zeros(count, dtype=int),
        noise_scales=np.full(count, float(scale)),
        training_sizes=np.full(count, float(N)),
        relaxed_to=np.full(count, relaxed_to),
        is_secondary=np.zeros(count, dtype=bool),
        keys=[None] * count,
        unit_variances=np.full(count, np.nan),
        kurtosis=np.full(count, np.nan),
        unit_moments=np.full((count, 2), np.nan),
        units=UnitWeights.from_records(N),
        score_inputs=[None] * count,
        descriptions=[QueryDescription()] * count,
    )


def run(batch, calibration, *, last_totals=EMPTY, code=None, mechanism=None):
    terms = BatchContext(
        totals_before=last_totals,
        code=code or PredictiveCode(),
        mechanism=mechanism or calibration.make_mechanism(random_state=0),
        settings=calibration,
        dependence=MODEL,
        time="now",
        seeded=True,
        slice_seed=0,
    )
    return answer_batch(batch, terms)


def test_the_charge_consists_of_releases_rank_and_order():
    calibration = settings()
    code = PredictiveCode()
    mechanism = calibration.make_mechanism(random_state=0)
    first_record, answers = run(
        queries([0.9, 0.5], [0.4, 0.9]), calibration, mechanism=mechanism, code=code
    )
    assert [answer.corrected for answer in answers] == [True, True]
    assert [answer.code_length for answer in answers] == pytest.approx(
        code_length(released=0.0, batch_index=1) + rank_code_lengths([0.9, 0.5])
    )
    assert next_code_length(first_record.totals, calibration)[0] == pytest.approx(
        code_length(released=first_record.totals.released, batch_index=2)
    )
    second_record, _ = run(
        queries([0.5], [0.5]),
        calibration,
        last_totals=first_record.totals,
        mechanism=mechanism,
        code=code,
    )
    assert second_record.totals.released > first_record.totals.released > 2.0


def test_leakage_and_code_share_beta_and_the_shorter_carries_the_answer():
    """G9: with a level for life every answer may rest on G1 or on the code."""
    calibration = settings(epsilon=0.05, budget=3)
    unspent = dataclasses.replace(EMPTY, number=1)
    heavily_spent = dataclasses.replace(EMPTY, number=1, released=500.0)
    assert next_code_length(unspent, calibration) == (
        pytest.approx(code_length(released=0.0, batch_index=2) + math.log(2)), "code",
    )  # fmt: skip
    length, charged_by = next_code_length(heavily_spent, calibration)
    assert charged_by == "leakage"
    leaked_length = leakage_code_length(
        information=calibration.information, failure=calibration.sampling_failure / 2
    )
    assert length == pytest.approx(math.log(2) + code_length(released=leaked_length, batch_index=2))
    level = calibration.make_mechanism().dp_epsilon(1 / N)
    assert calibration.information == pytest.approx(sequential_information(MODEL, level, N))
    assert settings().information is None


def test_counts_and_widths_add_up_over_batches():
    calibration = settings()
    mechanism = calibration.make_mechanism(random_state=0)
    code = PredictiveCode()
    last_totals = EMPTY
    for number in range(1, 6):
        record, answers = run(
            queries([0.5, 0.1], [0.5, 0.9]),
            calibration,
            last_totals=last_totals,
            mechanism=mechanism,
            code=code,
        )
        last_totals = record.totals
        assert last_totals.number == number
        assert last_totals.n_answered == 2 * number
        assert last_totals.widest >= max(
            max(answer.value - answer.lower, answer.upper - answer.value) for answer in answers
        )
    assert last_totals.dp_epsilon == pytest.approx(mechanism.dp_epsilon_used(1 / N))


def test_a_released_denominator_does_not_lower_the_ratio_of_earlier_noise():
    """T1: the floor spends before the query, and the level keeps the largest ratio so far."""
    calibration = settings()
    mechanism = calibration.make_mechanism(random_state=0)
    code = PredictiveCode()
    rare = dataclasses.replace(queries([0.9], [0.2], scale=2.0), noise_scales=np.full(1, 3.0))
    first_record, _ = run(rare, calibration, mechanism=mechanism, code=code)
    ratio = first_record.totals.dp_epsilon / mechanism.dp_epsilon_used(1 / N)
    assert ratio == pytest.approx(1.5, rel=0.05)
    shape = {
        "kind": "ratio", "family": "share", "class_counts": (10, 490), "class_floors": None,
    }  # fmt: skip
    counts = RatioCounts("share", n_hits=350, n_counted=400)  # 490 are expected to count
    batch = dataclasses.replace(
        queries([0.875], [0.875]),
        shapes=(shape,),
        tails=(score_tail(MODEL, N, **shape),),
        score_inputs=[counts],
    )
    second_record, _ = run(
        batch, calibration, last_totals=first_record.totals, mechanism=mechanism, code=code
    )
    assert second_record.totals.n_below_floor == 1
    last_ratio = second_record.totals.dp_epsilon / mechanism.dp_epsilon_used(1 / N)
    assert last_ratio == pytest.approx(ratio)


def test_intervals_are_those_of_the_theory():
    calibration = settings(expert=ExpertSettings(threshold=0.05))
    record, answers = run(queries([0.5, 0.9], [0.52, 0.4]), calibration)
    z_below, z_above = calibration.noise_margins(0)
    value, half_widths = np.array([[answer.value, half_width] for answer, half_width in zip(
        answers, (0.05 + z_below, z_above + calibration.resolution / 2), strict=True
    )]).T  # fmt: skip
    length = record.code_length + rank_code_lengths([0.5, 0.9])
    log_alpha_one_sided = math.log(calibration.sampling_failure / 2) - length
    lower = ModelTail(MODEL, N).lower_limit(value - half_widths, log_alpha_one_sided)
    upper = ModelTail(MODEL, N).upper_limit(value + half_widths, log_alpha_one_sided)
    assert [answer.lower for answer in answers] == pytest.approx(list(lower))
    assert [answer.upper for answer in answers] == pytest.approx(list(upper))


def test_noise_shares_of_all_rounds_stay_within_their_part_of_beta():
    calibration = settings()
    shares = round_noise_failure(calibration.noise_failure, np.arange(100_000))
    assert shares.sum() <= calibration.noise_failure
    margins_below = [calibration.noise_margins(spent)[0] for spent in (0, 1, 10, 100)]
    assert margins_below == sorted(margins_below)


@pytest.mark.parametrize("scale", [1.0, 4.0])
def test_noise_of_low_sensitivity_queries_is_scaled_with_them(scale):
    """In units of its sensitivity each query meets the same noise, so privacy is the same."""
    calibration = settings(expert=ExpertSettings(threshold=0.01 * scale, resolution=1e-4))
    errors = []
    for seed in range(150):
        _, answers = run(
            queries([0.1], [0.6], scale),
            calibration,
            mechanism=calibration.make_mechanism(random_state=seed),
        )
        errors.append(answers[0].value - 0.6)
    mean_error = np.mean(np.abs(errors))  # E|Laplace(b)| = b
    assert mean_error == pytest.approx(scale * calibration.answer_scale, rel=0.35)


def test_a_long_batch_of_confirmed_queries_is_charged_alike():
    """Ten thousand quiet queries are one call, all below, all charged alike."""
    calibration = settings()
    values = np.full(10_000, 0.5)
    record, answers = run(queries(values, values), calibration)
    assert len(answers) == 10_000
    assert sum(answer.corrected for answer in answers) == record.totals.n_above <= 2


def test_raw_scores_are_not_in_records_and_answers():
    record, answers = run(queries([0.5], [0.512345678]), settings())
    text = repr(record) + repr(answers) + repr(queries([0.5], [0.512345678]))
    assert "0.5123" not in text


def test_relaxed_to_is_a_minimum_of_automatic_thresholds():
    calibration = settings()
    _, (unrelaxed,) = run(queries([0.5], [0.5]), calibration)
    _, (relaxed,) = run(queries([0.5], [0.5], relaxed_to=0.3), calibration)
    _, (fixed_threshold,) = run(
        queries([0.5], [0.5], relaxed_to=0.01), settings(expert=ExpertSettings(threshold=0.005))
    )
    assert relaxed.upper - relaxed.lower > unrelaxed.upper - unrelaxed.lower
    assert fixed_threshold.upper - fixed_threshold.lower < unrelaxed.upper - unrelaxed.lower


def test_an_empty_budget_answers_nothing():
    calibration = settings(budget=1)
    mechanism = calibration.make_mechanism(random_state=0)
    record, answers = run(queries([0.9, 0.9], [0.1, 0.9]), calibration, mechanism=mechanism)
    assert len(answers) == 1
    assert run(
        queries([0.5], [0.5]), calibration, last_totals=record.totals, mechanism=mechanism
    ) == (None, [])


def test_settings_survive_json():
    calibration = settings(epsilon=50.0)
    assert Calibration.from_header(json.loads(json.dumps(calibration.header()))) == calibration
