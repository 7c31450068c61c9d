"""Accountant of a holdout: recorded answers are looked up; new ones are recorded, then released."""

from __future__ import annotations

import contextlib
import datetime
import json
import secrets

import numpy as np

from sklearn_bdp.accounting.spending import MAX_PAIRS, PredictiveCode
from sklearn_bdp.diagnostics.overlap import SECOND_HOLDOUT, TrainingRowRegistry, has_other_holdout
from sklearn_bdp.exceptions import LedgerError
from sklearn_bdp.ledger.ledger import SystemNote
from sklearn_bdp.ledger.records import canonical
from sklearn_bdp.release.batch import answer_batch, exhausted_error
from sklearn_bdp.release.batch_context import BatchContext, check_open
from sklearn_bdp.release.calibration import Calibration
from sklearn_bdp.release.ledger_connection import LedgerConnection
from sklearn_bdp.release.released_answers import released_answers
from sklearn_bdp.utils.hashing import is_content_key
from sklearn_bdp.utils.process import ANSWERED_TARGETS


class HoldoutAccountant:
    """Queries, answers and predictive code of one holdout.

    Parameters
    ----------
    path : Path, LedgerURL, Backend or None
        Where the ledger is; None: in the memory of this process.
    header : dict
        Header of a new ledger. An existing one must agree with it.
    dependence : CorrelationModel
        Dependence of the holdout records.
    seed : int or None
        Seed of the noise, for tests; None for cryptographic randomness.
    timeout : float
        Longest wait for other threads and processes, in seconds.
    notes : dict
        Notes that a new ledger starts with.
    target_digests : set
        Digests of the targets.
    row_digests : callable
        Returns the digests of the rows with and without targets, a pair of arrays.
    both_parts_given : bool
        Whether one fit was given both the training records and the holdout records.
    older_data : callable or None, default=None
        Returns the digest of the records in ledgers of version 0.1.
    """

    def __init__(
        self,
        path,
        header,
        *,
        dependence,
        seed,
        timeout,
        notes,
        target_digests,
        row_digests,
        both_parts_given,
        older_data=None,
    ):
        self.dependence = dependence
        self.seed = seed
        self.allows_shared_rows = SystemNote.SHARED_ROWS in notes
        self.training_rows = TrainingRowRegistry(both_parts_given=both_parts_given)
        self._target_digests = target_digests
        self._row_digests = row_digests  # until the first recorded batch
        self._shown_diagnostics = set()  # names of warnings that were given
        # Number of the last entry learned from, and the predictive code after it: both are public
        # and are rebuilt from the ledger.
        self._learned = None
        if path is None and has_other_holdout(target_digests, row_digests):
            SECOND_HOLDOUT.warn()
            notes = {**notes, SystemNote.ANOTHER_ACCOUNT: True}
        # The order of units follows from these bits and the records. An existing ledger keeps its
        # own.
        order_bits = secrets.token_hex(16) if seed is None else f"{seed:x}"
        self._connection = LedgerConnection(
            path,
            header,
            timeout=timeout,
            notes={**notes, SystemNote.ORDER: order_bits},
            older_data=older_data,
        )
        self.settings = Calibration.from_ledger(self._connection.header, derived=header, path=path)

    def __getstate__(self):
        return vars(self) | {"_learned": None, "_target_digests": set(), "_row_digests": None}

    # -- the ledger ---------------------------------------------------------------------------

    @property
    def path(self):
        """Where the ledger is; None: in the memory of one process."""
        return self._connection.path

    @property
    def token(self):
        """Name of the holdout in this process, the same for its pickles."""
        return self._connection.token

    @property
    def identity(self):
        """Digests and parameters that identify the holdout in its ledger."""
        return self._connection.identity

    def check_process(self):
        """Raise ProcessBoundaryError if this process cannot add to the ledger."""
        self._connection.check_process()

    def read_transaction(self, *, latest=True):
        """Return a transaction that reads the ledger; ``latest=False``: in its last known state."""
        return self._connection.read_transaction(latest=latest)

    def write_transaction(self):
        """Return a transaction that adds to the ledger."""
        return self._connection.write_transaction()

    def close(self):
        """Close the file or connection of this process; the next query opens it again."""
        self._connection.close()

    # -- warnings that are given once -----------------------------------------------------------

    def has_shown(self, diagnostic):
        """Return whether a warning that is given once per holdout was given."""
        return diagnostic.name in self._shown_diagnostics

    def mark_shown(self, diagnostic):
        """Remember that a warning was given."""
        self._shown_diagnostics.add(diagnostic.name)

    # -- queries ------------------------------------------------------------------------------

    def answer(self, batch, *, on_exhausted):
        """Look up recorded queries, answer and record new ones; then release the answers.

        Return the :class:`HoldoutAnswers` to all queries of the batch. If the budget does not
        suffice, raise BudgetExhaustedError if ``on_exhausted`` is "raise"; else placeholders take
        the place of the missing answers.
        """
        self.check_process()
        identifiers = _query_identifiers(batch)
        keyed_identifiers = [identifier for identifier in identifiers if identifier is not None]
        is_recorded = len(keyed_identifiers) == len(batch) and self._are_recorded(keyed_identifiers)
        new_answers = ()
        with self.read_transaction() if is_recorded else self.write_transaction() as ledger_state:
            recorded_answers = ledger_state.find_answers(keyed_identifiers)
            new_positions = _new_positions(identifiers, recorded_answers)
            if new_positions:
                is_all_new = len(new_positions) == len(batch)
                new_batch = batch if is_all_new else batch.take(new_positions)
                new_answers = self._answer_new(ledger_state, new_batch)
            last = ledger_state.totals
        n_unanswered = len(new_positions) - len(new_answers)
        if n_unanswered and on_exhausted == "raise":
            raise exhausted_error(
                self.settings, last, answered=len(new_answers), unanswered=n_unanswered
            )
        if new_answers and not keyed_identifiers:  # in order
            return released_answers(batch, new_answers, on_exhausted)
        new_by_position = dict(zip(new_positions, new_answers, strict=False))
        batch_answers = _in_order(identifiers, recorded_answers, new_by_position)
        return released_answers(batch, batch_answers, on_exhausted)

    def _are_recorded(self, identifiers):
        """Return whether answers to all these queries are in the last known state of the ledger.

        ``identifiers``: of the queries, see :func:`_query_identifiers`.
        """
        with self.read_transaction(latest=False) as ledger_state:
            return ledger_state.find_answers(identifiers).keys() >= set(identifiers)

    def _answer_new(self, ledger_state, batch):
        """Answer new queries and record them; return the recorded answers.

        They are answers to the first queries, or to none. Raise HoldoutClosedError after a final
        report.
        """
        check_open(ledger_state)
        context = self.batch_context(ledger_state)
        record, answers = answer_batch(batch, context)
        if record is None:
            return answers
        return self.record(ledger_state, record, context, answers)

    def batch_context(self, ledger_state, *, is_report=False):
        """Return the :class:`BatchContext` of a next batch after a state of the ledger.

        A final report multiplies the noise of answers by the calibration's ``final_noise_ratio``.
        """
        secret_state = _parse_secret_state(self._connection.secret_text)
        return BatchContext(
            last=ledger_state.totals,
            code=self.code(ledger_state),
            mechanism=self._mechanism(secret_state, ledger_state.totals.number + 1, is_report),
            settings=self.settings,
            model=self.dependence,
            time=datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds"),
            seeded=self.seed is not None,
            seed=self._slice_seed(secret_state),
        )

    def _mechanism(self, secret_state, batch_number, is_report):
        """Return Thresholdout after the last batch, with the noise of the next one.

        ``secret_state``: the last one that was recorded, None before the first one.
        ``batch_number``: of the next batch, from 1. ``is_report``: whether the next batch is a
        final report, whose noise was recorded by :meth:`note_closing`.
        """
        # The noise that was recorded for a report, a seeded generator, or None: new noise.
        random_state = bytes.fromhex(secret_state["noise"]) if is_report else None
        if self.seed is not None:
            # Seed and batch number: the same in every process.
            random_state = np.random.default_rng(np.random.SeedSequence([self.seed, batch_number]))
        if secret_state is None:
            mechanism = self.settings.make_mechanism(random_state=random_state)
        else:
            if self.seed is not None:
                random_state.integers(
                    0, 2**32, size=8
                )  # a seed gives the noise that it always gave
            mechanism = self.settings.restore_mechanism(secret_state, random_state=random_state)
        if is_report:
            answer_scale = self.settings.answer_scale * self.settings.final_noise_ratio
            state = mechanism.state() | {"answer_scale": answer_scale}
            mechanism = type(mechanism).from_state(state, random_state=random_state)
        return mechanism

    def _slice_seed(self, secret_state):
        """Return the seed that draws one record of each group (theory G19).

        The seed is a part of the first secret state and then never changes. It is secret: an
        analyst who knew it could choose models that fit these records. ``secret_state``: the last
        one that was recorded, None before the first one.
        """
        if secret_state is not None:
            return int(secret_state["slices"])
        if self.seed is not None:
            return int(np.random.SeedSequence([self.seed, 0]).generate_state(1)[0])
        return secrets.randbits(128)

    def record(self, ledger_state, record, context, answers):
        """Write the :class:`BatchRecord` of a batch and its answers; return the recorded answers.

        ``context``: of the batch, after it was answered. ``answers`` may be empty.
        """
        ANSWERED_TARGETS.update(
            dict.fromkeys(self._target_digests - ANSWERED_TARGETS.keys(), self._row_digests)
        )
        self._row_digests = None
        recorded_answers = ledger_state.append(
            record, secret_text=_secret_state(context), answers=answers
        )
        if answers:
            self._learned = (ledger_state.head[0], context.code)
        return recorded_answers

    def note_closing(self, ledger_state, plan):
        """Note the plan of a report, with its charge, and record the noise of that report.

        ``plan``: content of the note, which can be written as JSON.
        """
        context = self.batch_context(ledger_state)
        secret_text = _secret_state(context, noise=secrets.token_hex(32))
        ledger_state.note(SystemNote.CLOSING, plan, secret_text=secret_text)

    def last_batch_number(self):
        """Return the number of the latest batch in the ledger, 0 before the first one."""
        with self.read_transaction(latest=False) as ledger_state:
            return ledger_state.totals.number

    def _has_search_note(self):
        """Return whether a search was noted after the latest batch."""
        with self.read_transaction(latest=False) as ledger_state:
            last_number = ledger_state.totals.number
            search_notes = ledger_state.notes(SystemNote.SEARCH)
        return any(note["after"] >= last_number for note in search_notes)

    def note_search(self, answers, number_before):
        """Note a search that took recorded answers which are not those of the latest batch.

        ``python -m sklearn_bdp check`` then judges this search, and not an earlier one that was
        recorded later. Nothing is noted in memory, or if the ledger cannot be written.
        ``answers``: of the search, on one metric. ``number_before``: number of the latest batch
        before the search.
        """
        answers = [answer for answer in answers if answer.source != "unanswered"]
        batches = {answer.batch for answer in answers}
        if self.path is None or not answers or min(batches) > number_before:
            return
        if batches == {self.last_batch_number()} and not self._has_search_note():
            return  # the answers of the latest batch again
        content = {
            "keys": [answer.key for answer in answers if answer.key is not None],
            "batches": sorted(batches),
            "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds"),
        }
        try:
            with self.write_transaction() as ledger_state:
                ledger_state.note(
                    SystemNote.SEARCH, content | {"after": ledger_state.totals.number}
                )
        except LedgerError:
            return  # read-only: the search itself needs no new entry

    def code(self, ledger_state):
        """Return a copy of the predictive code after the recorded batches."""
        number, predictive_code = self._learned or (0, PredictiveCode())
        if number:
            later_records = list(ledger_state.records(after_number=number))
        else:
            later_records = _records_to_learn(ledger_state)
        if later_records:  # an interrupt leaves the earlier code unchanged
            predictive_code = predictive_code.copy()
        for record in later_records:
            predictive_code.update_from_state(record.code)
        self._learned = (ledger_state.head[0], predictive_code)
        return predictive_code.copy()


def _query_identifiers(batch):
    """Return the identity of each query of a batch in the ledger; None without a key.

    An identity is ``(key, cv_score, metric)``. A caller's key identifies a query only with its
    cross-validated score and metric: under others it is another query, and must not get the
    recorded number. For a key of the form that is computed from contents, ``cv_score`` is None.
    """
    identifiers = []
    for position, key in enumerate(batch.keys):
        identifier = None
        if key is not None:
            cv_score = None if is_content_key(key) else float(batch.cv_scores[position])
            identifier = key, cv_score, batch.descriptions[position].metric
        identifiers.append(identifier)
    return identifiers


def _new_positions(identifiers, recorded_answers):
    """Return the positions of queries that are not recorded, each identifier once.

    ``identifiers``: of each query, or None. ``recorded_answers``: by identifier.
    """
    positions = {}
    for position, identifier in enumerate(identifiers):
        if identifier not in recorded_answers:
            positions.setdefault(position if identifier is None else identifier, position)
    return list(positions.values())


def _records_to_learn(ledger_state):
    """Return the latest records, oldest first, with all pairs that a predictive code remembers."""
    records = []
    n_pairs = 0
    for record in ledger_state.latest_records():
        records.append(record)
        n_pairs += len(record.code.get("pairs", ()))
        if n_pairs >= MAX_PAIRS:
            break
    return records[::-1]


def _parse_secret_state(secret_text):
    """Return the last recorded secret state from its JSON text; None before the first one.

    An empty dict stands for a text that cannot be read.
    """
    if secret_text is None:
        return None
    with contextlib.suppress(ValueError, RecursionError):
        return json.loads(secret_text)
    return {}


def _secret_state(context, **fields):
    """Return the text of the secret state after a batch or before a closing.

    ``context``: of the batch. ``fields``: further entries by name, texts. The salt prevents
    guessing the state from its commitment.
    """
    salt = secrets.token_hex(16)
    state = context.mechanism.state()
    return canonical({"mechanism": state, "salt": salt, "slices": str(context.seed)} | fields)


def _in_order(identifiers, recorded_answers, new_by_position):
    """Return recorded and new answers in the order of a batch, None for unanswered queries.

    ``identifiers``: of each query, or None. ``recorded_answers``: by identifier.
    ``new_by_position``: new answers by the position of their query.
    """
    answer_of = {
        **recorded_answers,
        **{identifiers[position]: answer for position, answer in new_by_position.items()},
    }
    return [
        new_by_position.get(position) if identifier is None else answer_of.get(identifier)
        for position, identifier in enumerate(identifiers)
    ]
