"""One consistent view of a ledger: verified entries, look-ups, and what is added to it."""

from sklearn_bdp.exceptions import LedgerCorruptedError
from sklearn_bdp.ledger._entries import parse_entry
from sklearn_bdp.ledger._records import canonical, digest


class Transaction:
    """A ledger, verified up to this moment; a writing one may add entries."""

    def __init__(self, connection, path, *, book, chain):
        self._connection = connection
        self._path = path
        self.book = book  # what this process has verified; nothing sealed, it may be pickled
        # What can be read is read there.
        self.header, self.answers, self.accounts = book.header, book.answers, book.accounts
        self.history, self.checks = book.history, book.checks
        self.lookup, self.match, self.notes = book.lookup, book.match, book.notes
        self.entries = book.entries
        self.head, self.last = book.head, book.last  # of these and of what is added
        self._chain = chain
        self._added = []

    def sealed(self):
        """The sealed state after the last batch, or ``None``; never to be shown."""
        number = self.book.last_number
        if number == 0:
            return None
        row = self._connection.execute(
            "SELECT sealed FROM log WHERE number = ?", (number,)
        ).fetchone()
        commitment = self.book.entries[number - 1].commitment
        if row is None or not isinstance(row[0], str) or digest(row[0]) != commitment:
            raise self._corrupted("its sealed state was replaced")
        return row[0]

    def catch_up(self, *, expected=None):
        """Verify every entry after those verified earlier, up to the head of the file.

        ``expected``: number and digest that a pickle has seen; they must be on the chain.
        """
        rows = self._connection.execute("SELECT number, digest FROM head").fetchall()
        first, ends = self._connection.execute(
            "SELECT (SELECT min(number) FROM log), (SELECT max(number) FROM log)"
        ).fetchone()
        if len(rows) != 1 or rows[0][0] != (ends or 0) or first not in (None, 1):
            raise self._corrupted("its log and its head do not agree")
        number, start = self.book.head
        if number > 0:
            seen = self._connection.execute(
                "SELECT digest FROM log WHERE number = ?", (number,)
            ).fetchone()
            if seen is None or seen[0] != start:
                raise self._corrupted("entries seen earlier are missing: it was rolled back")
        for row in self._connection.execute(
            "SELECT number, kind, content, answers, sealed, commitment, digest FROM log "
            "WHERE number > ? ORDER BY number",
            (number,),
        ):
            self.book.add(self._verified(*row))
        if self.book.head != rows[0]:
            raise self._corrupted("its log and its head do not agree")
        if expected is not None and expected[0] > 0 and not self._has(*expected):
            raise self._corrupted("entries seen earlier are missing: it was rolled back")
        self.head, self.last = self.book.head, self.book.last

    def append(self, record, *, sealed="", answers=()):
        """Write one batch; it is durable once the transaction has committed.

        Without answers: what a check said, which moves the account and seals nothing.
        """
        rows = canonical([answer.row() for answer in answers])
        self._add("batch", record.to_json(), rows, sealed)

    def note(self, name, content):
        """Write a note; it is durable once the transaction has committed.

        Notes are facts about a holdout that must survive with its answers and in their order: how
        the data were split, that it was closed, which fits are done. Nothing computed from
        holdout scores may be among them, except released values.
        """
        self._add("note", canonical({"name": name, "content": content}), "[]", "")

    def commit(self):
        """Take over what was written; called when it is durable."""
        for entry in self._added:
            self.book.add(entry)
        self._added = []

    def _add(self, kind, content, answers, sealed):
        """Write one entry and the head that it makes."""
        number, previous = self.head
        commitment = digest(sealed)
        link = self._chain.link(previous, kind, content, answers, commitment)
        # What could not be read back is never written.
        entry = parse_entry(number + 1, kind, content, answers, commitment, link, last=self.last)
        self._connection.execute(
            "INSERT INTO log VALUES (?, ?, ?, ?, ?, ?, ?)",
            (number + 1, kind, content, answers, sealed, commitment, link),
        )
        self._connection.execute("UPDATE head SET number = ?, digest = ?", (number + 1, link))
        self._added.append(entry)
        self.head = number + 1, link
        self.last = self.last if entry.record is None else entry.record

    def _verified(self, number, kind, content, answers, sealed, commitment, link):
        """Return the entry that follows the head of the book, or raise."""
        expected, previous = self.book.head[0] + 1, self.book.head[1]
        texts = (kind, content, answers, sealed, commitment, link)
        whole = (
            number == expected
            and all(isinstance(text, str) for text in texts)
            and digest(sealed) == commitment
            and self._chain.link(previous, kind, content, answers, commitment) == link
        )
        if not whole:
            raise self._corrupted(f"the chain breaks at entry {expected}")
        try:
            return parse_entry(
                number, kind, content, answers, commitment, link, last=self.book.last
            )
        except (ValueError, TypeError, OverflowError):
            pass  # what it says could be anything
        raise self._corrupted(f"entry {expected} says nothing that this package writes")

    def _has(self, number, link):
        entries = self.book.entries
        return number <= len(entries) and entries[number - 1].digest == link

    def _corrupted(self, problem):
        return LedgerCorruptedError(
            f"ledger {self._path or 'in memory'} was edited, truncated or restored from an older "
            f"copy: {problem}; nothing was answered."
        )
