"""Accountant of a holdout, which looks up recorded answers and records new ones."""

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
    """Accountant of one holdout, which answers queries and records the answers in its ledger.

    Parameters
    ----------
    path : Path, LedgerURL, Backend or None
        Location of the ledger; None: in the memory of this process.
    header : dict
        Header of a new ledger. An existing one must agree with it.
    dependence : CorrelationModel
        Dependence of the holdout records.
    seed : int or None
        Seed of the noise and of slices, for tests; None for cryptographic randomness.
    timeout : float
        Longest wait for other threads and processes, in seconds.
    notes : dict
        Contents of the notes that a new ledger starts with, by name.
    target_digests : set of str
        Digests of the targets of the holdout, and of all records before a split, if known.
    get_row_digests : callable
        Returns two arrays, the digests of the holdout rows with targets, and without.
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
        get_row_digests,
        both_parts_given,
        older_data=None,
    ):
        self.dependence = dependence
        self.seed = seed
        self.allows_shared_rows = SystemNote.SHARED_ROWS in notes
        self.training_rows = TrainingRowRegistry(both_parts_given=both_parts_given)
        self._target_digests = target_digests
        self._row_digests = get_row_digests  # None from the first recorded batch on
        self._shown_diagnostics = set()  # names of warnings that were given
        # Number of a ledger entry, and the predictive code after it: rebuilt from the ledger.
        self._learned = None
        if path is None and has_other_holdout(target_digests, get_row_digests):
            SECOND_HOLDOUT.warn()
            notes = {**notes, SystemNote.ANOTHER_ACCOUNT: True}
        # This text and the records determine the order of sampling units. An existing ledger keeps
        # its own.
        unit_order_hex = secrets.token_hex(16) if seed is None else f"{seed:x}"
        self._connection = LedgerConnection(
            path,
            header,
            timeout=timeout,
            notes={**notes, SystemNote.ORDER: unit_order_hex},
            older_data=older_data,
        )
        self.settings = Calibration.from_ledger(self._connection.header, derived=header, path=path)

    def __getstate__(self):
        return vars(self) | {"_learned": None, "_target_digests": set(), "_row_digests": None}

    # -- the ledger ---------------------------------------------------------------------------

    @property
    def path(self):
        """Location of the ledger; None: in the memory of the process that made it."""
        return self._connection.path

    @property
    def token(self):
        """Random text that identifies a holdout and its pickles."""
        return self._connection.token

    @property
    def identity(self):
        """Entries of the ledger header that identify the records and parameters of the holdout."""
        return self._connection.identity

    def check_process(self):
        """Raise ProcessBoundaryError for a ledger in the memory of another process."""
        self._connection.check_process()

    def read_transaction(self, *, latest=True):
        """Return a context manager of the ledger's state; if not ``latest``, as last read."""
        return self._connection.read_transaction(latest=latest)

    def write_transaction(self):
        """Return a context manager of the ledger's state, which can append one entry."""
        return self._connection.write_transaction()

    def close(self):
        """Close the file or connection of this process; the next access opens it again."""
        self._connection.close()

    # -- warnings that are given once -----------------------------------------------------------

    def has_shown(self, diagnostic):
        """Return whether :meth:`mark_shown` was called for a diagnostic."""
        return diagnostic.name in self._shown_diagnostics

    def mark_shown(self, diagnostic):
        """Remember that the warning of a diagnostic was given for this holdout."""
        self._shown_diagnostics.add(diagnostic.name)

    # -- queries ------------------------------------------------------------------------------

    def answer(self, batch, *, on_exhausted):
        """Return the :class:`HoldoutAnswers` to a batch; answer and record its new queries.

        If the budget does not suffice, raise BudgetExhaustedError if ``on_exhausted`` is "raise";
        else placeholders take the place of the missing answers. Raise HoldoutClosedError for a new
        query after a final report.
        """
        self.check_process()
        identifiers = _query_identifiers(batch)
        keyed_identifiers = [identifier for identifier in identifiers if identifier is not None]
        all_keyed = len(keyed_identifiers) == len(batch)
        all_recorded = all_keyed and self._are_recorded(keyed_identifiers)
        new_answers = ()
        with self.read_transaction() if all_recorded else self.write_transaction() as ledger_state:
            recorded_answers = ledger_state.find_answers(keyed_identifiers)
            new_positions = _new_positions(identifiers, recorded_answers)
            if new_positions:
                is_all_new = len(new_positions) == len(batch)
                new_batch = batch if is_all_new else batch.take(new_positions)
                new_answers = self._answer_new(ledger_state, new_batch)
            totals = ledger_state.totals
        n_unanswered = len(new_positions) - len(new_answers)
        if n_unanswered and on_exhausted == "raise":
            raise exhausted_error(
                self.settings, totals, n_answered=len(new_answers), n_unanswered=n_unanswered
            )
        if new_answers and not keyed_identifiers:  # answers to the first queries of the batch
            return released_answers(batch, new_answers, on_exhausted)
        new_by_position = dict(zip(new_positions, new_answers, strict=False))
        batch_answers = _in_order(identifiers, recorded_answers, new_by_position)
        return released_answers(batch, batch_answers, on_exhausted)

    def _are_recorded(self, identifiers):
        """Return whether the ledger, as last read by this process, has answers to all queries.

        ``identifiers``: ``(key, cv_score, metric)`` of each query.
        """
        with self.read_transaction(latest=False) as ledger_state:
            return ledger_state.find_answers(identifiers).keys() >= set(identifiers)

    def _answer_new(self, ledger_state, batch):
        """Answer and record a batch of new queries; return the answers.

        If the budget does not suffice, these are answers to its first queries only, or none. Raise
        HoldoutClosedError after a final report.
        """
        check_open(ledger_state)
        context = self.batch_context(ledger_state)
        record, answers = answer_batch(batch, context)
        if record is None:
            return answers
        return self.record(ledger_state, record, context, answers)

    def batch_context(self, ledger_state, *, is_report=False):
        """Return the :class:`BatchContext` of the next batch after a state of the ledger.

        ``is_report``: whether that batch is a final report.
        """
        secret_state = _parse_secret_state(self._connection.secret_text)
        return BatchContext(
            totals_before=ledger_state.totals,
            code=self.code(ledger_state),
            mechanism=self._mechanism(secret_state, ledger_state.totals.number + 1, is_report),
            settings=self.settings,
            dependence=self.dependence,
            time=datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds"),
            seeded=self.seed is not None,
            slice_seed=self._slice_seed(secret_state),
        )

    def _mechanism(self, secret_state, batch_number, is_report):
        """Return Thresholdout in its latest recorded state, with the noise of the next batch.

        ``secret_state``: the latest one recorded, None before the first one. ``batch_number``: of
        the next batch, from 1. ``is_report``: whether the next batch is a final report, after
        :meth:`note_closing`.
        """
        # The recorded noise of a report, a seeded generator, or None: new noise.
        random_state = bytes.fromhex(secret_state["noise"]) if is_report else None
        if self.seed is not None:
            # Seed and batch number: the same in every process.
            random_state = np.random.default_rng(np.random.SeedSequence([self.seed, batch_number]))
        if secret_state is None:
            mechanism = self.settings.make_mechanism(random_state=random_state)
        else:
            if self.seed is not None:
                # Unused numbers: without them, the noise of a seed would change between versions.
                random_state.integers(0, 2**32, size=8)
            mechanism = self.settings.restore_mechanism(secret_state, random_state=random_state)
        if is_report:
            answer_scale = self.settings.answer_scale * self.settings.final_noise_ratio
            state = mechanism.state() | {"answer_scale": answer_scale}
            mechanism = type(mechanism).from_state(state, random_state=random_state)
        return mechanism

    def _slice_seed(self, secret_state):
        """Return the secret seed of the draws of one record per group (theory G19).

        ``secret_state``: the latest one recorded, which contains the seed; None: make a new seed.
        """
        if secret_state is not None:
            return int(secret_state["slices"])
        if self.seed is not None:
            return int(np.random.SeedSequence([self.seed, 0]).generate_state(1)[0])
        return secrets.randbits(128)

    def record(self, ledger_state, record, context, answers):
        """Write a :class:`BatchRecord` and its answers to the ledger; return the answers.

        ``context``: BatchContext after the batch was answered. ``answers`` may be empty.
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

    def note_closing(self, ledger_state, content):
        """Write the note that a final report begins, and secret random bytes for its noise.

        ``content``: of the note, a dict of JSON values.
        """
        context = self.batch_context(ledger_state)
        secret_text = _secret_state(context, noise=secrets.token_hex(32))
        ledger_state.note(SystemNote.CLOSING, content, secret_text=secret_text)

    def last_batch_number(self):
        """Return the number of the latest batch that this process read in the ledger, or 0."""
        with self.read_transaction(latest=False) as ledger_state:
            return ledger_state.totals.number

    def _has_search_note(self):
        """Return whether a search note follows the latest batch that this process read."""
        with self.read_transaction(latest=False) as ledger_state:
            last_number = ledger_state.totals.number
            search_notes = ledger_state.notes(SystemNote.SEARCH)
        return any(note["after"] >= last_number for note in search_notes)

    def note_search(self, answers, number_before):
        """Write a note of a search with earlier answers, for ``python -m sklearn_bdp check``.

        Nothing is written if all answers are new, or all are from the latest batch and no search
        was noted after it; or if the ledger is in memory or cannot be written. ``answers``: of the
        search, on one metric, placeholders included. ``number_before``: number of the latest batch
        before the search.
        """
        answers = [answer for answer in answers if answer.source != "unanswered"]
        batch_numbers = {answer.batch for answer in answers}
        if self.path is None or not answers or min(batch_numbers) > number_before:
            return
        if batch_numbers == {self.last_batch_number()} and not self._has_search_note():
            return  # the answers of the latest batch again
        note_content = {
            "keys": [answer.key for answer in answers if answer.key is not None],
            "batches": sorted(batch_numbers),
            "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds"),
        }
        try:
            with self.write_transaction() as ledger_state:
                ledger_state.note(
                    SystemNote.SEARCH, note_content | {"after": ledger_state.totals.number}
                )
        except LedgerError:
            return  # for instance read-only: the search itself needs no new entry

    def code(self, ledger_state):
        """Return a copy of the predictive code after the batches in a state of the ledger."""
        entry_number, predictive_code = self._learned or (0, PredictiveCode())
        if entry_number:
            later_records = list(ledger_state.records(after_number=entry_number))
        else:
            later_records = _records_to_learn(ledger_state)
        if later_records:  # an interrupt leaves the earlier code unchanged
            predictive_code = predictive_code.copy()
        for record in later_records:
            predictive_code.update_from_state(record.code)
        self._learned = (ledger_state.head[0], predictive_code)
        return predictive_code.copy()


def _query_identifiers(batch):
    """Return ``(key, cv_score, metric)`` of each query of a batch; None for one without a key.

    Here ``cv_score`` is None if the key was computed from contents and identifies the query alone.
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
    """Return the positions of the queries without a recorded answer.

    Of queries with the same identifier, only the first is included. ``identifiers``: of each query,
    None without a key. ``recorded_answers``: answers by identifier.
    """
    positions = {}
    for position, identifier in enumerate(identifiers):
        if identifier not in recorded_answers:
            positions.setdefault(position if identifier is None else identifier, position)
    return list(positions.values())


def _records_to_learn(ledger_state):
    """Return the latest :class:`BatchRecord` objects that the predictive code is rebuilt from.

    They are oldest first. Together they have at least ``MAX_PAIRS`` released pairs, if all records
    do.
    """
    records = []
    n_pairs = 0
    for record in ledger_state.latest_records():
        records.append(record)
        n_pairs += len(record.code.get("pairs", ()))
        if n_pairs >= MAX_PAIRS:
            break
    return records[::-1]


def _parse_secret_state(secret_text):
    """Return the dict of a secret state from its JSON text; empty if it cannot be parsed.

    None, before the first secret state, gives None.
    """
    if secret_text is None:
        return None
    with contextlib.suppress(ValueError, RecursionError):
        return json.loads(secret_text)
    return {}


def _secret_state(context, **fields):
    """Return the JSON text of the secret state: mechanism, random salt and seed of slices.

    ``context``: BatchContext with the mechanism and the seed. ``fields``: texts of further entries,
    by name.
    """
    salt = secrets.token_hex(16)
    state = context.mechanism.state()
    return canonical({"mechanism": state, "salt": salt, "slices": str(context.slice_seed)} | fields)


def _in_order(identifiers, recorded_answers, new_by_position):
    """Return recorded and new answers in the order of a batch, None for unanswered queries.

    ``identifiers``: of each query, None without a key. ``recorded_answers``: answers by identifier.
    ``new_by_position``: new answers by the position of their query in the batch.
    """
    answer_by_identifier = {
        **recorded_answers,
        **{identifiers[position]: answer for position, answer in new_by_position.items()},
    }
    return [
        new_by_position.get(position)
        if identifier is None
        else answer_by_identifier.get(identifier)
        for position, identifier in enumerate(identifiers)
    ]
