"""One consistent view of a ledger: verified links, look-ups, one new batch."""

import json

from sklearn_bdp.exceptions import LedgerCorruptedError
from sklearn_bdp.ledger._records import AnswerRecord, BatchRecord, digest
from sklearn_bdp.ledger._schema import link_digest

__all__ = ["Transaction"]

_CHUNK = 500  # keys in one SQL statement


class Transaction:
    """A ledger inside one transaction.

    Parameters
    ----------
    connection : sqlite3.Connection
        In a transaction.
    path : Path or None
        For error messages.
    known : tuple of (int, str) or None
        Number and digest of the last batch verified earlier; links after it are verified.
    """

    def __init__(self, connection, path, *, known=None):
        self._connection = connection
        self._path = path
        content, start = self._one("SELECT content, digest FROM header", "its header is missing")
        if digest(content) != start:
            raise self._corrupted("its header was edited")
        self.header = json.loads(content)
        self.head = known or (0, start)
        self._start = start

    @property
    def last(self):
        """The last batch; the empty account before the first."""
        if self.head[0] == 0:
            return BatchRecord.empty()
        (content,) = self._one(
            "SELECT content FROM batches WHERE number = ?", "a batch is missing", (self.head[0],)
        )
        return BatchRecord.from_json(content)

    def sealed(self):
        """The sealed state after the last batch, or ``None``; never to be shown."""
        if self.head[0] == 0:
            return None
        return self._one(
            "SELECT sealed FROM batches WHERE number = ?", "a batch is missing", (self.head[0],)
        )[0]

    def catch_up(self, *, expected=None):
        """Verify every link after the known head, and that known and expected links are there."""
        for link in (self.head, expected):
            if link is not None and link[0] > 0:
                row = self._connection.execute(
                    "SELECT digest FROM batches WHERE number = ?", (link[0],)
                ).fetchone()
                if row is None or row[0] != link[1]:
                    raise self._corrupted("batches seen earlier are missing: it was rolled back")
        last = self.last
        n_answered, n_above = last.n_answered, last.n_above
        for record, link, answers, _ in self.links(after=self.head[0]):
            n_answered += len(answers)
            n_above += sum(answer.above for answer in answers)
            if (record.n_answered, record.n_above) != (n_answered, n_above):
                raise self._corrupted(f"the counts of batch {record.number} do not add up")
            self.head = (record.number, link)

    def links(self, *, after=0):
        """Yield ``(record, digest, answers, commitment)`` of every batch, verified on the way."""
        number, previous = after, self._start
        if after:
            (previous,) = self._one(
                "SELECT digest FROM batches WHERE number = ?", "a batch is missing", (after,)
            )
        rows = self._connection.execute(
            "SELECT number, content, sealed, commitment, previous, digest FROM batches "
            "WHERE number > ? ORDER BY number",
            (after,),
        )
        for found, content, sealed, commitment, before, link in rows:
            number += 1
            answers = self._connection.execute(
                "SELECT position, key, code_length, training_value, value, lower, upper, above "
                "FROM answers WHERE batch = ? ORDER BY position",
                (found,),
            ).fetchall()
            whole = (
                found == number
                and before == previous
                and digest(sealed) == commitment
                and link_digest(before, content, commitment, answers) == link
            )
            if not whole:
                raise self._corrupted(f"the chain breaks at batch {number}")
            record = BatchRecord.from_json(content)
            yield record, link, [_answer(record, row) for row in answers], commitment
            previous = link

    def answers(self):
        """Yield every answer, oldest first."""
        for _, _, answers, _ in self.links():
            yield from answers

    def released(self, *, after=0):
        """Return training-side and released values of "above" answers of later batches."""
        return self._connection.execute(
            "SELECT training_value, value FROM answers WHERE batch > ? AND above = 1 "
            "ORDER BY batch, position",
            (after,),
        ).fetchall()

    def accounts(self, *, after=0):
        """Yield the account of each later batch, oldest first."""
        for (content,) in self._connection.execute(
            "SELECT content FROM batches WHERE number > ? ORDER BY number", (after,)
        ):
            yield BatchRecord.from_json(content)

    def lookup(self, keys):
        """Return ``{key: AnswerRecord}`` of the keys that were answered."""
        wanted = list(keys)
        found, batches = {}, {}
        for start in range(0, len(wanted), _CHUNK):
            chunk = wanted[start : start + _CHUNK]
            marks = ",".join("?" * len(chunk))
            rows = self._connection.execute(
                "SELECT b.content, a.position, a.key, a.code_length, a.training_value, a.value, "
                "a.lower, a.upper, a.above FROM answers a JOIN batches b ON a.batch = b.number "
                f"WHERE a.key IN ({marks})",
                chunk,
            )
            for content, *row in rows:
                if content not in batches:
                    batches[content] = BatchRecord.from_json(content)
                answer = _answer(batches[content], row)
                found[answer.key] = answer
        return found

    def append(self, record, *, sealed, answers):
        """Write one batch; it is durable once the transaction has committed."""
        number, previous = self.head
        if record.number != number + 1:
            raise self._corrupted(f"batch {record.number} does not follow batch {number}")
        content, commitment = record.to_json(), digest(sealed)
        rows = [answer.row() for answer in answers]
        link = link_digest(previous, content, commitment, rows)
        self._connection.execute(
            "INSERT INTO batches VALUES (?, ?, ?, ?, ?, ?)",
            (record.number, content, sealed, commitment, previous, link),
        )
        self._connection.executemany(
            "INSERT INTO answers VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [(record.number, *row) for row in rows],
        )
        self.head = (record.number, link)

    def _one(self, statement, problem, values=()):
        row = self._connection.execute(statement, values).fetchone()
        if row is None:
            raise self._corrupted(problem)
        return row

    def _corrupted(self, problem):
        return LedgerCorruptedError(
            f"ledger {self._path or 'in memory'} was edited, truncated or restored from an older "
            f"copy: {problem}; nothing was answered."
        )


def _answer(record, row):
    position, key, code_length, training_value, value, lower, upper, above = row
    return AnswerRecord(
        batch=record.number,
        position=position,
        key=key,
        time=record.time,
        code_length=code_length,
        training_value=training_value,
        value=value,
        lower=lower,
        upper=upper,
        above=bool(above),
    )
