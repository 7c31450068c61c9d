"""The account of a holdout: its ledger in this process, and how a batch goes through it.

A batch is looked up, decided, recorded and only then released.
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
from sklearn_bdp.release.batch import Terms, decide, exhausted_error, route
from sklearn_bdp.release.calibration import Calibration
from sklearn_bdp.release.certificate import check_open
from sklearn_bdp.utils.hashing import is_content_key
from sklearn_bdp.utils.process import ANSWERED_TARGETS, PICKLED_LEDGERS


class Account:
    """What was asked, answered and learned of one holdout; it holds none of its records.

    A pickle finds the ledger again (in this process also one in memory) or can only be read.
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
        self.path, self.dependence, self.seed, self._timeout = path, dependence, seed, timeout
        names = ("data", "columns", "correlation", "parameters")
        self.identity = {name: header.get(name) for name in names}
        self.token, self._about = secrets.token_hex(16), about
        self._rows = rows  # until its first answer
        self.shared = Fact.SHARED_ROWS in notes  # training records may equal holdout records
        self.training_rows = TrainingRowRegistry(both_parts_given=both_parts_given)
        self._shown_diagnostics = set()  # messages of warnings that are given once
        self._learned = None  # last entry learned from, predictor; public, rebuilt from the ledger
        self._head = self._snapshot = None  # of a ledger that is elsewhere
        if path is None and has_other_holdout(about, rows):
            SECOND_HOLDOUT.warn()
            notes = {**notes, Fact.ANOTHER_ACCOUNT: True}
        # Drawn once, with the holdout; the order of units follows from it and from the records.
        drawn = secrets.token_hex(16) if seed is None else f"{seed:x}"
        notes = {**notes, Fact.ORDER: drawn}
        self._ledger = Ledger(
            path, header=header, timeout=timeout, notes=notes, older_data=older_data
        )
        # An upgraded ledger knows its records by the digest of the version that made it.
        self.identity["data"] = self._ledger.header["data"]
        # The numbers in the header are the ones that count, if its parameters lead to them.
        known, derived = self._ledger.header, header["settings"]
        found = known.get("settings")
        agree = isinstance(found, dict) and found.keys() == derived.keys()
        if not agree or not all(_agree(found[name], value) for name, value in derived.items()):
            raise LedgerCorruptedError(
                f"ledger {path} has numbers in its header that its parameters do not lead to (made "
                f"by {known.get('made_by')!r:.60}, this is {header['made_by']!r}): it was edited, "
                "or made by a version that derives others. The holdout was not queried."
            )
        self.settings = Calibration.from_header(known)

    def __getstate__(self):
        state = vars(self) | {"_ledger": None, "_learned": None, "_about": set(), "_rows": None}
        if self.path is not None:
            # The head goes along: a ledger restored from an older copy is recognised.
            state["_head"] = self._head if self._ledger is None else self._ledger.head
        elif self._snapshot is None:
            with self.reading() as book:
                state["_snapshot"] = book
            PICKLED_LEDGERS[self.token] = self._ledger
        return state

    def __setstate__(self, state):
        vars(self).update(state)
        kept = PICKLED_LEDGERS.get(self.token)
        self._ledger = kept if kept is not None and kept.backend.owner == os.getpid() else None

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
        """Yield what can be read of the ledger; ``again=False``: what this process knows of it."""
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
        """Look a batch up, decide what is new, record it; then release the answers."""
        self.check_home()
        # A caller's key is known together with what it was asked with: under another training-side
        # value or metric it is another query, and must not get the old number.
        asked = zip(batch.keys, batch.cv_scores, batch.labels, strict=True)
        names = [
            key and (key, None if is_content_key(key) else float(value), label[0])
            for key, value, label in asked
        ]
        wanted = [name for name in names if name is not None]
        recorded = False
        if len(wanted) == len(batch):
            with self.reading(again=False) as book:
                recorded = book.match(wanted).keys() >= set(wanted)
        with self.reading() if recorded else self.writing() as book:
            known, first = book.match(wanted), {}
            for place, name in enumerate(names):
                if name not in known:  # each key once
                    first.setdefault(place if name is None else name, place)
            new, answers = list(first.values()), ()
            if new:
                check_open(book)
                terms = self.terms(book)
                whole = len(new) == len(batch)
                record, answers = decide(batch if whole else batch.take(new), terms)
                if record is not None:
                    answers = self.record(book, record, terms, answers)
            left, last = len(new) - len(answers), book.last
        if left and on_exhausted == "raise":
            raise exhausted_error(self.settings, last, answered=len(answers), unanswered=left)
        if answers and not wanted:  # in order
            return _released(batch, answers, on_exhausted)
        fresh = dict(zip(new, answers, strict=False))
        known.update((names[position], answer) for position, answer in fresh.items())
        given = [
            fresh.get(position) if name is None else known.get(name)
            for position, name in enumerate(names)
        ]
        return _released(batch, given, on_exhausted)

    def terms(self, book, *, fine=False):
        """Return what a batch is decided under: what was spent and learned, settings, now.

        Thresholdout is as it was after the last batch, with noise of its own for this one; with
        less noise (``fine``) for the final report.
        """
        sealed, kept, seed = self._open().sealed, None, self.seed
        if sealed is not None:
            kept = {}  # of another version, unless it can be read
            with contextlib.suppress(ValueError, RecursionError):
                kept = json.loads(sealed)
        noise = bytes.fromhex(kept["noise"]) if fine else None
        if seed is not None:
            # Seed and batch number: the same in every process, never the same twice.
            number = book.last.number + 1
            noise = np.random.default_rng(np.random.SeedSequence([seed, number]))
        if kept is None:
            mechanism = self.settings.make_mechanism(random_state=noise)
        else:
            if seed is not None:
                noise.integers(0, 2**32, size=8)  # a seed gives the noise that it always gave
            mechanism = self.settings.restore_mechanism(kept, random_state=noise)
        if fine:
            scale = self.settings.answer_scale * self.settings.final_noise_ratio
            state = mechanism.state() | {"answer_scale": scale}
            mechanism = type(mechanism).from_state(state, random_state=noise)
        # What draws one visit of each patient (theory G19) is the same for life, and secret:
        # whoever knew it could choose models that fit these visits.
        if kept is not None:
            slices = int(kept["slices"])
        elif seed is not None:
            slices = int(np.random.SeedSequence([seed, 0]).generate_state(1)[0])
        else:
            slices = secrets.randbits(128)
        return Terms(
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
        recorded = book.append(record, sealed=_sealed(terms), answers=answers)
        if answers:
            self._learned = (book.head[0], terms.code)
        return recorded

    def note_closing(self, book, plan):
        """Note what will be reported, with its charge, and seal the noise of that report."""
        sealed = _sealed(self.terms(book), noise=secrets.token_hex(32))
        book.note(Fact.CLOSING, plan, sealed=sealed)

    def code(self, book):
        """Return the predictive code after every recorded batch."""
        number, known = self._learned or (0, PredictiveCode())
        later = list(book.records(after=number)) if number else _records_to_learn(book)
        known = known.copy() if later else known  # an interrupt leaves what was learned before
        for record in later:
            known.update_from_state(record.code)
        self._learned = (book.head[0], known)
        return known.copy()

    # -- what can be read ---------------------------------------------------------------------

    def facts(self):
        """Return ``{label: text}``: shape, promise and information spent; never a score."""
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
            spent = route(last, self.settings)[0]
            facts["information spent"] = f"{spent:.3g} nats"
            if self.settings.budget is not None:
                facts["budget left"] = f"{self.settings.budget - last.n_rounds}"
        except (LedgerError, ProcessBoundaryError) as error:
            facts["unavailable"] = type(error).__name__
        return facts


def _records_to_learn(book):
    """Return the latest records, oldest first, with all pairs that a predictive code remembers."""
    records, n_pairs = [], 0
    for record in book.latest_records():
        records.append(record)
        n_pairs += len(record.code.get("pairs", ()))
        if n_pairs >= REMEMBERED:
            break
    return records[::-1]


def _agree(found, value):
    """Return whether two settings are the same, but for rounding."""
    if isinstance(value, float) and isinstance(found, float | int):
        return math.isclose(found, value, rel_tol=1e-6)
    return found == value


def _sealed(terms, **more):
    """Return what a batch or a closing seals; the salt keeps its commitment from being searched."""
    salt, state = secrets.token_hex(16), terms.mechanism.state()
    return canonical({"mechanism": state, "salt": salt, "slices": str(terms.seed)} | more)


def _released(batch, answers, on_exhausted):
    """Return the :class:`HoldoutAnswers` of a batch from its answers, ``None`` for those not given.

    :class:`Answers` are those to its first queries.
    """
    names = ("value", "lower", "upper", "corrected")
    if isinstance(answers, Answers) and len(answers) == len(batch):
        values, lower, upper, corrected = (answers.columns[name].copy() for name in names)
        every = np.ones(len(batch), dtype=bool)
        return HoldoutAnswers(values, lower, upper, corrected.astype(bool), every, answers)
    given = [*answers, *[None] * (len(batch) - len(answers))]
    training, nan = on_exhausted == "cv", math.nan
    for place, answer in enumerate(given):
        if answer is None:
            metric, scale, model, _ = batch.labels[place]
            value = float(batch.cv_scores[place])
            given[place] = AnswerRecord(
                batch=0,
                position=place,
                key=batch.keys[place],
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
    columns = [np.array([getattr(one, name) for one in given]) for name in (*names, "answered")]
    return HoldoutAnswers(*columns, given)
