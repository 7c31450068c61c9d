"""Analysts who overfit on purpose: every certificate must survive, naive reuse must not."""

import dataclasses
import math

import numpy as np
import pytest
from scipy.stats import binom

from sklearn_bdp.accounting.spending import PredictiveCode, final_code_length
from sklearn_bdp.correlation import Independent
from sklearn_bdp.holdout import HoldoutConfig
from sklearn_bdp.intervals.bounds import Units
from sklearn_bdp.intervals.concentration import ModelTail, half_width
from sklearn_bdp.ledger.records import BatchRecord
from sklearn_bdp.planning import certify
from sklearn_bdp.release.batch import Terms, decide, pace_of, route
from sklearn_bdp.release.calibration import Calibration
from sklearn_bdp.release.graded_release import fine_half_width
from sklearn_bdp.release.query_batch import Batch
from tests.planning.worlds import (
    BETA,
    WORLDS,
    count_failures,
    majority_vote,
    make_model,
    sample_columns,
)

N, COLUMNS = 420, 41


# -- The account that runs -----------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Deferred(Batch):
    """A batch whose limits are computed at the end, all at once: nothing decided rests on them."""

    cells: list

    def limits(self, least, most, log_failure):
        self.cells.append((least, most, log_failure - math.log(2.0)))
        return least, most


class Account:
    """What a holdout keeps in its ledger, and what everybody may compute from it."""

    def __init__(self, n, model, rng):
        self.n, self.model = n, model
        self.settings = Calibration.from_config(
            HoldoutConfig(confidence_level=1 - BETA), model=model, n=n
        )
        self.tail = ModelTail(model, n, binary=True)
        self.mechanism = self.settings.make_mechanism(random_state=rng)
        self.code, self.last, self.cells = PredictiveCode(), BatchRecord(), []

    def edge(self, values):
        """Where lone queries of these training-side values turn from "below" to "above"."""
        code = self.code.copy()
        code.start_batch()
        code.observe_cv_scores(values)
        centers, drifts = code.predict(values)
        pace = pace_of(self.last, self.settings, route(self.last, self.settings)[0])
        return centers + fine_half_width(
            pace, code, predictions=centers, deviation=self.tail.standard_deviation,
            factor=1 + 1 / 3, drift=drifts, alone=True,
        )  # fmt: skip

    def ask(self, training, holdout):
        """One batch; returns values and whether they came from the holdout."""
        training, holdout = np.atleast_1d(training), np.atleast_1d(holdout)
        count = training.size
        queries = Deferred(
            cells=self.cells,
            cv_scores=np.clip(training, 0.0, 1.0),
            values=holdout,
            shapes=({"kind": "mean"},),
            tails=(self.tail,),
            tail_of=np.zeros(count, dtype=int),
            sensitivities=np.ones(count),
            training_sizes=np.full(count, 3.0 * self.n),
            relaxed_to=np.zeros(count),
            secondary=np.zeros(count, dtype=bool),
            keys=[None] * count,
            variances=np.full(count, np.nan),
            squares=np.full(count, np.nan),
            units=Units.records(self.n),
            by_class=[None] * count,
            labels=[(None, None, None, None)] * count,
        )
        terms = Terms(
            last=self.last, code=self.code, mechanism=self.mechanism, settings=self.settings,
            model=self.model, time="now", seeded=True, seed=0,
        )  # fmt: skip
        self.last, answers = decide(queries, terms)
        return tuple(np.array([(a.value, a.corrected) for a in answers]).T)

    def close(self, score):
        """A final report on one score, now, without noise and its margin (G16)."""
        length = final_code_length(
            released=self.last.released, n_batches=self.last.number, spending=self.settings.spending
        )
        side = math.log(self.settings.sampling_failure / 2.0) - length
        self.cells.append(tuple(np.array([number]) for number in (score, score, side)))

    def limits(self):
        """Lower and upper limits of all answers."""
        least, most, side = (np.concatenate(part) for part in zip(*self.cells, strict=True))
        return self.tail.lower_limit(least, side), self.tail.upper_limit(most, side)


class Exact:
    """Naive reuse: the exact score every time, with the interval of a fixed query."""

    def __init__(self, n):
        self.n = n
        self.half = half_width(math.log(BETA), Independent(), n)[0]
        self.values = []

    def edge(self, values):
        return values

    def ask(self, training, holdout):
        training, holdout = np.atleast_1d(training), np.atleast_1d(holdout)
        self.values += holdout.tolist()
        return holdout, holdout > training

    def close(self, score):
        self.values.append(score)

    def limits(self):
        return np.array(self.values) - self.half, np.array(self.values) + self.half


# -- Analysts ------------------------------------------------------------------------------------


def aimed(account, goal):
    """Return a training-side value for which answers turn from "below" to "above" at ``goal``."""
    values = np.linspace(0.0, goal, 2001)
    return float(np.max(values[account.edge(values) <= goal], initial=0.0))


def _end(account, expected, score):
    """Ask a last query and close the holdout with the final report of the same."""
    account.ask(expected, score)
    account.close(score)


def select_variables(account, bits, rng):
    """Dwork's analyst: screen all columns in one batch, vote with those that stood out."""
    q = bits.mean(axis=0)
    values, _ = account.ask(np.full(q.size, 0.5), q)
    signs = np.sign(values - 0.5)
    _end(account, 0.5, majority_vote(bits, signs).mean())


def extract_bits(account, bits, rng):
    """One bit per column: a training value chosen so that the threshold lies at 1/2."""
    signs = np.empty(bits.shape[1])
    for j, q in enumerate(bits.mean(axis=0)):
        _, above = account.ask(aimed(account, 0.5), q)
        signs[j] = 1.0 if above[0] else -1.0
    _end(account, 0.5, majority_vote(bits, signs).mean())


def boost(account, bits, rng):
    """Keep a column's sign if the vote with it is answered higher; vote with what was kept."""
    signs, best = np.zeros(bits.shape[1]), 0.5
    for j in range(0, bits.shape[1] - 1, 2):
        trial = signs.copy()
        trial[j : j + 2] = rng.choice([-1.0, 1.0], 2)
        trial[-1] = 1.0
        values, above = account.ask(aimed(account, best), majority_vote(bits, trial).mean())
        if above[0] and values[0] > best:
            signs, best = trial, min(float(values[0]), 0.95)
        if best > 0.5 + 3.0 / math.sqrt(4.0 * account.n):
            break  # the moment that looks best
    _end(account, best, majority_vote(bits, signs).mean())


def ask_twice(account, bits, rng):
    """Ask every column three times around 1/2 (averaging the noise), restart once, then vote."""
    votes = np.zeros(bits.shape[1])
    for shift in (0.0, 0.01, -0.01):
        q = bits.mean(axis=0)
        v = np.full(q.size, aimed(account, 0.5) + shift)
        _, above = account.ask(v, q)
        votes += np.where(above, 1.0, -1.0)
    _end(account, 0.5, majority_vote(bits, np.sign(votes)).mean())


ANALYSTS = (select_variables, extract_bits, boost, ask_twice)


def _failures(world, analyst, replications, *, naive=False):
    """Number of replications in which any interval missed the truth 1/2."""
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
