"""How a batch goes through a holdout: check, look up, decide, record, and only then release."""

from __future__ import annotations

import datetime
import json
import math
import secrets
import warnings

import numpy as np

from sklearn_bdp._digests import is_content_key
from sklearn_bdp.accounting import PredictiveCode
from sklearn_bdp.guards import note_answers
from sklearn_bdp.holdout._batch import decide, exhausted_error
from sklearn_bdp.holdout._identity import LedgerHandle, as_last_seen
from sklearn_bdp.holdout._inputs import (
    check_queries,
    first_askings,
)
from sklearn_bdp.holdout._report import check_open
from sklearn_bdp.holdout._settings import final_noise, restored_mechanism
from sklearn_bdp.ledger import HoldoutAnswers, canonical, labelled


class Asking(LedgerHandle):
    """The part of :class:`ReusableHoldout` between a query and its answer."""

    def _terms(self, transaction):
        """Return what a batch is decided under: the account, what was learned, settings, now."""
        return {
            "last": transaction.last,
            "code": self._code(transaction),
            "settings": self._settings,
            "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds"),
            "seeded": self._seed is not None,
            "seed": self._slices_seed(transaction.sealed()),
        }

    def _slices_seed(self, sealed):
        """Return what draws one visit of each patient (theory G19), the same for life and secret.

        Whoever knew it could choose models that fit these visits.
        """
        if sealed is not None:
            return int(json.loads(sealed)["slices"])
        if self._seed is not None:
            return int(np.random.SeedSequence([self._seed, 0]).generate_state(1)[0])
        return secrets.randbits(128)

    def _record(self, transaction, record, mechanism, answers, seed):
        """Write a batch; the salt keeps the commitment to the noise from being searched."""
        note_answers(self._about)
        salt = secrets.token_hex(16)
        sealed = {"mechanism": mechanism.state(), "salt": salt, "slices": str(seed)}
        transaction.append(record, sealed=canonical(sealed), answers=answers)

    def _evaluate(self, metric, estimator):
        with warnings.catch_warnings():  # what a metric warns about may tell of the holdout
            warnings.simplefilter("ignore")
            return metric.evaluate(estimator, self.X, self.y)

    def _ask(
        self, training_values, scored, training_size, keys, slack, *, labels=None, beside=None,
        variances=None, own_cells=None,
    ):  # fmt: skip
        """Check, look up, decide, record; then release."""
        self._require_home()
        queries = check_queries(
            training_values, scored, model=self.model, n=self.n, training_size=training_size,
            keys=keys, slack=slack, beside=beside, variances=variances, own_cells=own_cells,
        )  # fmt: skip
        # A caller's key is known together with what it was asked with: under another training-side
        # value or metric it is another query, and must not get the old number.
        metrics = [None if labels is None else label[0] for label in labels or queries.keys]
        asked = zip(queries.keys, queries.training_values, metrics, strict=True)
        names = [
            None if key is None else (key, None if is_content_key(key) else float(value), metric)
            for key, value, metric in asked
        ]
        wanted = [name for name in names if name is not None]
        if len(wanted) == len(queries) and self._are_recorded(wanted):
            with self._reading() as transaction:
                known = transaction.match(wanted)
            return self._release(queries, [known[name] for name in names])
        with self._writing() as transaction:
            known = transaction.match(wanted)
            new = first_askings(names, known)
            answers, exhausted = [], False
            if new:
                about = None if labels is None else [labels[position] for position in new]
                answers, exhausted = self._decide(queries.take(new), transaction, about)
            if exhausted and not answers and self.on_exhausted == "raise":
                raise exhausted_error(self._settings, transaction.last, unanswered=len(new))
            last = transaction.last
        if exhausted and self.on_exhausted == "raise":
            raise exhausted_error(
                self._settings, last, answered=len(answers), unanswered=len(new) - len(answers)
            )
        fresh = dict(zip(new, answers, strict=False))
        known.update((names[position], answer) for position, answer in fresh.items())
        return self._release(
            queries,
            [
                fresh.get(position) if name is None else known.get(name)
                for position, name in enumerate(names)
            ],
        )

    def _are_recorded(self, names):
        """Return whether all of these queries were answered, as far as this process knows."""
        with as_last_seen(), self._reading() as book:
            known = book.match(names)
        return all(name in known for name in names)

    def _decide(self, queries, transaction, labels):
        """Run the mechanism on new queries and write the batch; not durable yet."""
        check_open(transaction)
        mechanism = self._mechanism(transaction.sealed(), transaction.last.number + 1)
        terms = self._terms(transaction)
        decided = decide(queries, mechanism=mechanism, model=self.model, **terms)
        record, answers = labelled(*decided, labels)
        if record is not None:
            self._record(transaction, record, mechanism, answers, terms["seed"])
        return answers, len(answers) < len(queries)

    def _mechanism(self, sealed, number, *, fine=False):
        """Return Thresholdout after the last batch, with noise of its own for this one.

        ``fine``: without the grid of released answers and with less noise, for the final report.
        """
        noise = None
        if self._seed is not None:
            # Seed and batch number: the same in every process, never the same twice.
            noise = np.random.default_rng(np.random.SeedSequence([self._seed, number]))
        if sealed is None:
            mechanism = self._settings.mechanism(random_state=noise)
        else:
            if noise is not None:
                noise.integers(0, 2**32, size=8)  # a seed gives the noise that it always gave
            mechanism = restored_mechanism(sealed, self._settings, random_state=noise)
        if fine:
            scale = self._settings.answer_scale * final_noise(self._settings)
            state = mechanism.state() | {"resolution": 0.0, "answer_scale": scale}
            mechanism = type(mechanism).from_state(state, random_state=noise)
        return mechanism

    def _code(self, transaction):
        """Return the predictive code after every recorded batch."""
        number, known = self._learned or (0, PredictiveCode())
        for account in transaction.accounts(after=number):
            known.follow(account.code)
        self._learned = (transaction.head[0], known)
        return known.copy()

    def _release(self, queries, answers):
        """Return the arrays of a batch from its recorded answers, ``None`` for those not given."""
        count = len(queries)
        training = self.on_exhausted == "training"
        values = queries.training_values.copy() if training else np.full(count, math.nan)
        lower = np.full(count, 0.0 if training else math.nan)
        upper = np.full(count, 1.0 if training else math.nan)
        above, answered = np.zeros((2, count), dtype=bool)
        answered[:] = [answer is not None for answer in answers]
        given = [answer for answer in answers if answer is not None]
        if given:
            released = np.array([(one.value, one.lower, one.upper, one.above) for one in given])
            values[answered], lower[answered], upper[answered], above[answered] = released.T
        return HoldoutAnswers(values, lower, upper, above, answered)
