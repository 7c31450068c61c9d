"""Analysts overfit on purpose: every certificate must be correct, naive reuse must fail."""

import dataclasses
import math

import numpy as np
import pytest
from scipy.stats import binom

from sklearn_bdp.accounting.spending import PredictiveCode, final_code_length
from sklearn_bdp.correlation import Independent
from sklearn_bdp.holdout import HoldoutConfig
from sklearn_bdp.intervals.bounds import UnitWeights
from sklearn_bdp.intervals.concentration import ModelTail, half_width
from sklearn_bdp.ledger.batch_record import LedgerTotals
from sklearn_bdp.planning import certify
from sklearn_bdp.release.batch import answer_batch
from sklearn_bdp.release.batch_context import BatchContext, cell_width_policy, next_code_length
from sklearn_bdp.release.calibration import Calibration
from sklearn_bdp.release.graded_release import fine_half_width
from sklearn_bdp.release.query_batch import QueryBatch, QueryDescription
from tests.planning.worlds import (
    BETA,
    WORLDS,
    count_failures,
    majority_vote,
    make_model,
    sample_columns,
)

N = 420
COLUMNS = 41


# -- Holdouts that are attacked -------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Deferred(QueryBatch):
    """Queries whose limits are computed at the end: no decision depends on them."""

    cells: list

    def limits(self, lower, upper, log_failure):
        self.cells.append((lower, upper, log_failure - math.log(2.0)))
        return lower, upper


class Account:
    """State of a holdout in its ledger, and the public quantities that follow from it."""

    def __init__(self, n, model, rng):
        self.n = n
        self.model = model
        self.settings = Calibration.from_config(
            HoldoutConfig(confidence_level=1 - BETA), model=model, n=n
        )
        self.tail = ModelTail(model, n, binary=True)
        self.mechanism = self.settings.make_mechanism(random_state=rng)
        self.code = PredictiveCode()
        self.last_totals = LedgerTotals()
        self.cells = []

    def edge(self, values):
        """Return the scores above which single queries with these training values are above."""
        code = self.code.copy()
        code.start_batch()
        code.observe_cv_scores(values)
        centers, drifts = code.predict(values)
        length = next_code_length(self.last_totals, self.settings)[0]
        policy = cell_width_policy(self.last_totals, self.settings, Independent(), length)
        return centers + fine_half_width(
            policy, code, predictions=centers, deviation_at=self.tail.standard_deviation,
            training_factor=1 + 1 / 3, drift=drifts, is_single_query=True,
        )  # fmt: skip

    def ask(self, training, holdout):
        """Return released values of a batch and whether they came from the holdout."""
        training = np.atleast_1d(training)
        holdout = np.atleast_1d(holdout)
        count = training.size
        queries = Deferred(
            cells=self.cells,
            cv_scores=np.clip(training, 0.0, 1.0),
            values=holdout,
            shapes=({"kind": "mean"},),
            tails=(self.tail,),
            shape_indices=np.zeros(count, dtype=int),
            noise_scales=np.ones(count),
            training_sizes=np.full(count, 3.0 * self.n),
            relaxed_to=np.zeros(count),
            is_secondary=np.zeros(count, dtype=bool),
            keys=[None] * count,
            unit_variances=np.full(count, np.nan),
            kurtosis=np.full(count, np.nan),
            unit_moments=np.full(count, np.nan),
            units=UnitWeights.from_records(self.n),
            score_inputs=[None] * count,
            descriptions=[QueryDescription()] * count,
        )
        terms = BatchContext(
            totals_before=self.last_totals, code=self.code, mechanism=self.mechanism,
            settings=self.settings, dependence=self.model, time="now", seeded=True, slice_seed=0,
        )  # fmt: skip
        record, answers = answer_batch(queries, terms)
        self.last_totals = record.totals
        return tuple(np.array([(a.value, a.corrected) for a in answers]).T)

    def close(self, score):
        """Give a final report on one score, without noise and its margin (G16)."""
        length = final_code_length(
            released=self.last_totals.released,
            n_batches=self.last_totals.number,
            spending=self.settings.spending,
        )
        log_failure = math.log(self.settings.sampling_failure / 2.0) - length
        self.cells.append(tuple(np.array([number]) for number in (score, score, log_failure)))

    def limits(self):
        """Return lower and upper limits of all answers."""
        lower, upper, log_failure = (
            np.concatenate(arrays) for arrays in zip(*self.cells, strict=True)
        )
        return self.tail.lower_limit(lower, log_failure), self.tail.upper_limit(upper, log_failure)


class Exact:
    """Naive reuse: exact scores with the interval of a fixed query."""

    def __init__(self, n):
        self.n = n
        self.half_width = half_width(math.log(BETA), Independent(), n)[0]
        self.values = []

    def edge(self, values):
        return values

    def ask(self, training, holdout):
        training = np.atleast_1d(training)
        holdout = np.atleast_1d(holdout)
        self.values += holdout.tolist()
        return holdout, holdout > training

    def close(self, score):
        self.values.append(score)

    def limits(self):
        values = np.array(self.values)
        return values - self.half_width, values + self.half_width


# -- Analysts ------------------------------------------------------------------------------------


def aimed(account, goal):
    """Return a training value whose answers are above if the holdout score exceeds ``goal``."""
    values = np.linspace(0.0, goal, 2001)
    return float(np.max(values[account.edge(values) <= goal], initial=0.0))


def _end(account, expected, score):
    """Make a last query and close the holdout with a final report on the same score."""
    account.ask(expected, score)
    account.close(score)


def select_variables(account, bits, rng):
    """Screen all columns in one batch and vote with the deviating ones (Dwork's analyst)."""
    q = bits.mean(axis=0)
    values, _ = account.ask(np.full(q.size, 0.5), q)
    signs = np.sign(values - 0.5)
    _end(account, 0.5, majority_vote(bits, signs).mean())


def extract_bits(account, bits, rng):
    """Extract a bit for each column by a training value with the threshold at 1/2."""
    signs = np.empty(bits.shape[1])
    for j, q in enumerate(bits.mean(axis=0)):
        _, above = account.ask(aimed(account, 0.5), q)
        signs[j] = 1.0 if above[0] else -1.0
    _end(account, 0.5, majority_vote(bits, signs).mean())


def boost(account, bits, rng):
    """Keep a column's sign if the answer to the vote with it is higher, then vote."""
    signs = np.zeros(bits.shape[1])
    best = 0.5
    for j in range(0, bits.shape[1] - 1, 2):
        trial = signs.copy()
        trial[j : j + 2] = rng.choice([-1.0, 1.0], 2)
        trial[-1] = 1.0
        values, above = account.ask(aimed(account, best), majority_vote(bits, trial).mean())
        if above[0] and values[0] > best:
            signs = trial
            best = min(float(values[0]), 0.95)
        if best > 0.5 + 3.0 / math.sqrt(4.0 * account.n):
            break  # stop at the most favorable time
    _end(account, best, majority_vote(bits, signs).mean())


def ask_twice(account, bits, rng):
    """Query each column three times around 1/2, which averages the noise, then vote."""
    votes = np.zeros(bits.shape[1])
    for shift in (0.0, 0.01, -0.01):
        q = bits.mean(axis=0)
        v = np.full(q.size, aimed(account, 0.5) + shift)
        _, above = account.ask(v, q)
        votes += np.where(above, 1.0, -1.0)
    _end(account, 0.5, majority_vote(bits, np.sign(votes)).mean())


ANALYSTS = (select_variables, extract_bits, boost, ask_twice)


def _failures(world, analyst, replications, *, naive=False):
    """Return the number of replications with an interval that misses the true score 1/2."""
    rng = np.random.default_rng([WORLDS.index(world), ANALYSTS.index(analyst), replications])
    model = make_model(world, N)
    wrong = 0
    for _ in range(replications):
        account = Exact(N) if naive else Account(N, model, rng)
        analyst(account, sample_columns(world, N, COLUMNS, rng), rng)
        lower, upper = account.limits()
        wrong += bool(((lower > 0.5) | (upper < 0.5)).any())
    return wrong


@pytest.mark.parametrize(
    ("world", "analyst"),
    [*zip(WORLDS, ANALYSTS, strict=True), *zip(WORLDS[::-1], ANALYSTS, strict=True)],
)
def test_as_used_intervals_survive_the_attack(world, analyst):
    """15 runs pass a failure rate of 15% (of 5%) with chance .94 and of 50% with chance .06."""
    replications = 15
    assert _failures(world, analyst, replications) <= binom.isf(1e-3, replications, BETA)


@pytest.mark.slow
@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("analyst", ANALYSTS, ids=lambda f: f.__name__)
def test_as_used_intervals_survive_thousands_of_attacks(world, analyst):
    """1,000 runs pass a failure rate of 6% (of 5%) with chance .96 and of 9% with chance .03."""
    replications = 1000
    assert _failures(world, analyst, replications) <= binom.isf(1e-3, replications, BETA)


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("analyst", ANALYSTS, ids=lambda f: f.__name__)
def test_naive_reuse_fails_under_the_attack(world, analyst):
    replications = 40
    assert _failures(world, analyst, replications, naive=True) > binom.isf(1e-3, replications, BETA)


# -- Certificates declared in advance --------------------------------------------------------------


def attacked_certificate(world, route):
    """Return a certificate that is not vacuous."""
    n = 2_800
    if route == "bdp":
        n = 33_600 if world == "chain" else 8_400
    return certify(n, correlation=make_model(world, n), n_queries=16, budget=8, c=None, route=route)


@pytest.mark.parametrize(
    ("world", "route"), [*((world, "transcript") for world in WORLDS), ("chain", "bdp")]
)
def test_certificates_survive_the_attack(world, route):
    """C3: 20 runs pass a failure rate of 15% (of 5%) with chance .93 and of 45% with .06."""
    replications = 20
    certificate = attacked_certificate(world, route)
    failures = count_failures(certificate, world, replications, columns=15)
    assert failures <= binom.isf(1e-3, replications, BETA)


@pytest.mark.slow
@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("route", ["transcript", "bdp"])
def test_certificates_survive_many_attacks(world, route):
    """400 runs pass a failure rate of 7% (of 5%) with chance .93 and of 12% with chance .02."""
    replications = 400
    certificate = attacked_certificate(world, route)
    failures = count_failures(certificate, world, replications, columns=15)
    assert failures <= binom.isf(1e-3, replications, BETA)
