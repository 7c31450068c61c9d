"""The account of a holdout: its ledger in this process, and the steps of a batch.

Recorded answers are looked up; new ones are decided, recorded and only then released.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import math
import os
import secrets

import numpy as np

from sklearn_bdp.accounting.spending import REMEMBERED, PredictiveCode
from sklearn_bdp.diagnostics.overlap import SECOND_HOLDOUT, TrainingRowRegistry, has_other_holdout
from sklearn_bdp.exceptions import LedgerCorruptedError, LedgerError, ProcessBoundaryError
from sklearn_bdp.ledger.ledger import Fact, Ledger
from sklearn_bdp.ledger.records import AnswerRecord, Answers, HoldoutAnswers, canonical
from sklearn_bdp.release.batch import answer_batch, exhausted_error
from sklearn_bdp.release.batch_context import BatchContext, check_open, next_code_length
from sklearn_bdp.release.calibration import Calibration
from sklearn_bdp.utils.hashing import is_content_key
from sklearn_bdp.utils.process import ANSWERED_TARGETS, PICKLED_LEDGERS


class Account:
    """Queries, answers and predictive code of one holdout, without any of its records.

    A pickle opens the ledger again (in this process also one in memory) or can only be read.
    ``about``, ``rows``: digests of the targets, and a function that returns those of the rows.
    ``older_data``: a function that returns the digest of the records in ledgers of version 0.1.
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
        about,
        rows,
        both_parts_given,
        older_data=None,
    ):
        self.path = path
        self.dependence = dependence
        self.seed = seed
        self._timeout = timeout
        names = ("data", "columns", "correlation", "parameters")
        self.identity = {name: header.get(name) for name in names}
        self.token = secrets.token_hex(16)
        self._about = about
        self._rows = rows  # until its first answer
        self.shared = Fact.SHARED_ROWS in notes  # training records may equal holdout records
        self.training_rows = TrainingRowRegistry(both_parts_given=both_parts_given)
        self._shown_diagnostics = set()  # messages of warnings that are given once
        self._learned = None  # last entry learned from, predictor; public, rebuilt from the ledger
        self._head = self._snapshot = None  # of a ledger in another process
        if path is None and has_other_holdout(about, rows):
            SECOND_HOLDOUT.warn()
            notes = {**notes, Fact.ANOTHER_ACCOUNT: True}
        # Drawn once, with the holdout; the order of units follows from it and from the records.
        order_bits = secrets.token_hex(16) if seed is None else f"{seed:x}"
        notes = {**notes, Fact.ORDER: order_bits}
        self._ledger = Ledger(
            path, header=header, timeout=timeout, notes=notes, older_data=older_data
        )
        # An upgraded ledger identifies its records by the digest of the version that made it.
        self.identity["data"] = self._ledger.header["data"]
        # The numbers in the header are used if they follow from its parameters.
        recorded_header = self._ledger.header
        derived = header["settings"]
        recorded_settings = recorded_header.get("settings")
        agree = isinstance(recorded_settings, dict) and recorded_settings.keys() == derived.keys()
        if not agree or not all(
            _agree(recorded_settings[name], value) for name, value in derived.items()
        ):
            raise LedgerCorruptedError(
                f"ledger {path} has numbers in its header that its parameters do not lead to (made "
                f"by {recorded_header.get('made_by')!r:.60}, this is {header['made_by']!r}): it "
                "was edited, or made by a version that derives others. The holdout was not queried."
            )
        self.settings = Calibration.from_header(recorded_header)

    def __getstate__(self):
        state = vars(self) | {"_ledger": None, "_learned": None, "_about": set(), "_rows": None}
        if self.path is not None:
            # The head is kept to detect a ledger restored from an older copy.
            state["_head"] = self._head if self._ledger is None else self._ledger.head
        elif self._snapshot is None:
            with self.reading() as book:
                state["_snapshot"] = book
            PICKLED_LEDGERS[self.token] = self._ledger
        return state

    def __setstate__(self, state):
        vars(self).update(state)
        ledger = PICKLED_LEDGERS.get(self.token)
        self._ledger = (
            ledger if ledger is not None and ledger.backend.owner == os.getpid() else None
        )

    def has_shown(self, diagnostic):
        """Return whether a warning that is given once per holdout was given."""
        return diagnostic.name in self._shown_diagnostics

    def mark_shown(self, diagnostic):
        """Remember that a warning was given."""
        self._shown_diagnostics.add(diagnostic.name)

    # -- the ledger ---------------------------------------------------------------------------

    def check_home(self):
        """Raise ProcessBoundaryError before anything is computed for a query."""
        self._open().backend.check_process()

    def _open(self):
        """Return the ledger of this process; an account that came by pickle opens it here."""
        if self._ledger is None:
            if self.path is None:
                raise ProcessBoundaryError(
                    "This holdout keeps its records in the memory of the process that made it, and "
                    "cannot be queried from another one. Set n_jobs=1, or give it a file that all "
                    "processes share: ReusableHoldout(..., ledger='holdout.sqlite'). history() and "
                    "certificate() can be read here. The holdout was not queried."
                )
            self._ledger = Ledger(
                self.path,
                header=self.identity,
                create=False,
                timeout=self._timeout,
                head=self._head,
            )
        return self._ledger

    @contextlib.contextmanager
    def reading(self, *, again=True):
        """Yield the ledger's state; ``again=False``: the state last read by this process."""
        if self._ledger is None and self._snapshot is not None:
            yield self._snapshot
            return
        ledger = self._open()
        with ledger.transaction() if again else ledger.seen() as book:
            yield book

    def writing(self):
        """Return a transaction that adds to the ledger."""
        return self._open().transaction(write=True)

    def close(self):
        """Close the file or connection of this process; the next query opens it again."""
        if self._ledger is not None:
            self._ledger.close()

    # -- queries ------------------------------------------------------------------------------

    def ask(self, batch, *, on_exhausted):
        """Look up recorded queries, answer and record new ones; then release the answers."""
        self.check_home()
        # A caller's key identifies a query only with its cross-validated score and metric: under
        # others it is another query, and must not get the recorded number.
        query_fields = zip(batch.keys, batch.cv_scores, batch.labels, strict=True)
        names = [
            key and (key, None if is_content_key(key) else float(value), label[0])
            for key, value, label in query_fields
        ]
        keyed_names = [name for name in names if name is not None]
        recorded = False
        if len(keyed_names) == len(batch):
            with self.reading(again=False) as book:
                recorded = book.match(keyed_names).keys() >= set(keyed_names)
        with self.reading() if recorded else self.writing() as book:
            recorded_answers = book.match(keyed_names)
            first = {}
            for index, name in enumerate(names):
                if name not in recorded_answers:  # each key once
                    first.setdefault(index if name is None else name, index)
            new = list(first.values())
            answers = ()
            if new:
                check_open(book)
                terms = self.terms(book)
                is_all_new = len(new) == len(batch)
                record, answers = answer_batch(batch if is_all_new else batch.take(new), terms)
                if record is not None:
                    answers = self.record(book, record, terms, answers)
            n_unanswered = len(new) - len(answers)
            last = book.last
        if n_unanswered and on_exhausted == "raise":
            raise exhausted_error(
                self.settings, last, answered=len(answers), unanswered=n_unanswered
            )
        if answers and not keyed_names:  # in order
            return _released(batch, answers, on_exhausted)
        fresh = dict(zip(new, answers, strict=False))
        recorded_answers.update((names[position], answer) for position, answer in fresh.items())
        batch_answers = [
            fresh.get(position) if name is None else recorded_answers.get(name)
            for position, name in enumerate(names)
        ]
        return _released(batch, batch_answers, on_exhausted)

    def terms(self, book, *, fine=False):
        """Return the context of a batch: spending, predictive code, settings and time.

        Thresholdout has its state after the last batch, with new noise for this one; with less
        noise (``fine``) for the final report.
        """
        sealed = self._open().sealed
        saved_state = None
        seed = self.seed
        if sealed is not None:
            saved_state = {}  # of another version, unless it can be read
            with contextlib.suppress(ValueError, RecursionError):
                saved_state = json.loads(sealed)
        noise = bytes.fromhex(saved_state["noise"]) if fine else None
        if seed is not None:
            # Seed and batch number: the same in every process, never the same twice.
            number = book.last.number + 1
            noise = np.random.default_rng(np.random.SeedSequence([seed, number]))
        if saved_state is None:
            mechanism = self.settings.make_mechanism(random_state=noise)
        else:
            if seed is not None:
                noise.integers(0, 2**32, size=8)  # a seed gives the noise that it always gave
            mechanism = self.settings.restore_mechanism(saved_state, random_state=noise)
        if fine:
            scale = self.settings.answer_scale * self.settings.final_noise_ratio
            state = mechanism.state() | {"answer_scale": scale}
            mechanism = type(mechanism).from_state(state, random_state=noise)
        # The seed that draws one record of each group (theory G19) never changes, and is secret:
        # an analyst who knew it could choose models that fit these records.
        if saved_state is not None:
            slices = int(saved_state["slices"])
        elif seed is not None:
            slices = int(np.random.SeedSequence([seed, 0]).generate_state(1)[0])
        else:
            slices = secrets.randbits(128)
        return BatchContext(
            last=book.last,
            code=self.code(book),
            mechanism=mechanism,
            settings=self.settings,
            model=self.dependence,
            time=datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds"),
            seeded=seed is not None,
            seed=slices,
        )

    def record(self, book, record, terms, answers):
        """Write a batch, and return its answers."""
        ANSWERED_TARGETS.update(dict.fromkeys(self._about - ANSWERED_TARGETS.keys(), self._rows))
        self._rows = None
        recorded = book.append(record, sealed=_secret_state(terms), answers=answers)
        if answers:
            self._learned = (book.head[0], terms.code)
        return recorded

    def note_closing(self, book, plan):
        """Note the plan of a report, with its charge, and record the noise of that report."""
        sealed = _secret_state(self.terms(book), noise=secrets.token_hex(32))
        book.note(Fact.CLOSING, plan, sealed=sealed)

    def code(self, book):
        """Return the predictive code after every recorded batch."""
        number, predictive_code = self._learned or (0, PredictiveCode())
        later = list(book.records(after=number)) if number else _records_to_learn(book)
        if later:  # an interrupt leaves the earlier code unchanged
            predictive_code = predictive_code.copy()
        for record in later:
            predictive_code.update_from_state(record.code)
        self._learned = (book.head[0], predictive_code)
        return predictive_code.copy()

    # -- public facts -------------------------------------------------------------------------

    def facts(self):
        """Return ``{label: text}``: shape, guarantee and information spent; never a score."""
        facts = {
            "records": f"{self.settings.n:,} (in pickles, too)",
            "correlation": self.dependence.describe(),
            "confidence": f"{100 * (1 - self.settings.beta):g}%",
            "ledger": str(self.path) if self.path else "in memory",
        }
        try:
            with self.reading() as book:
                last = book.last
            facts["answered"] = f"{last.n_answered:,}"
            facts["of these from the holdout"] = f"{last.n_above:,}"
            spent = next_code_length(last, self.settings)[0]
            facts["information spent"] = f"{spent:.3g} nats"
            if self.settings.budget is not None:
                facts["budget left"] = f"{self.settings.budget - last.n_rounds}"
        except (LedgerError, ProcessBoundaryError) as error:
            facts["unavailable"] = type(error).__name__
        return facts


def _records_to_learn(book):
    """Return the latest records, oldest first, with all pairs that a predictive code remembers."""
    records = []
    n_pairs = 0
    for record in book.latest_records():
        records.append(record)
        n_pairs += len(record.code.get("pairs", ()))
        if n_pairs >= REMEMBERED:
            break
    return records[::-1]


def _agree(recorded, value):
    """Return whether two settings are equal up to rounding."""
    if isinstance(value, float) and isinstance(recorded, float | int):
        return math.isclose(recorded, value, rel_tol=1e-6)
    return recorded == value


def _secret_state(terms, **fields):
    """Return the secret state after a batch or before a closing.

    The salt prevents guessing it from its commitment.
    """
    salt = secrets.token_hex(16)
    state = terms.mechanism.state()
    return canonical({"mechanism": state, "salt": salt, "slices": str(terms.seed)} | fields)


def _released(batch, answers, on_exhausted):
    """Return the :class:`HoldoutAnswers` of a batch from its answers, ``None`` if not answered.

    :class:`Answers` belong to its first queries.
    """
    names = ("value", "lower", "upper", "corrected")
    if isinstance(answers, Answers) and len(answers) == len(batch):
        values, lower, upper, corrected = (answers.columns[name].copy() for name in names)
        every = np.ones(len(batch), dtype=bool)
        return HoldoutAnswers(values, lower, upper, corrected.astype(bool), every, answers)
    batch_answers = [*answers, *[None] * (len(batch) - len(answers))]
    training = on_exhausted == "cv"
    nan = math.nan
    for index, answer in enumerate(batch_answers):
        if answer is None:
            metric, scale, model, _ = batch.labels[index]
            value = float(batch.cv_scores[index])
            batch_answers[index] = AnswerRecord(
                batch=0,
                position=index,
                key=batch.keys[index],
                time="",
                code_length=nan,
                cv_score=value,
                value=value if training else nan,
                lower=0.0 if training else nan,
                upper=1.0 if training else nan,
                corrected=False,
                metric=metric,
                model=model,
                scale=scale,
                answered=False,
            )
    columns = [
        np.array([getattr(answer, name) for answer in batch_answers])
        for name in (*names, "answered")
    ]
    return HoldoutAnswers(*columns, batch_answers)
