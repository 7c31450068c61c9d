"""Entries in a PostgreSQL database, which machines share; psycopg 3 speaks to it."""

import contextlib
import os
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from sklearn_bdp.exceptions import LedgerBusyError, LedgerUnavailableError
from sklearn_bdp.ledger.backend import DatabaseBackend, Row, Stored, corrupted, last_link
from sklearn_bdp.utils.validation import strip_traceback_frames

#: What notices a server that is gone without a word; parts of the URL come before them.
_DEFAULTS = {
    "application_name": "sklearn_bdp", "connect_timeout": 10, "keepalives_idle": 10,
    "keepalives_interval": 5, "keepalives_count": 3, "tcp_user_timeout": 30_000,
}  # fmt: skip
_TABLES = """
CREATE TABLE sklearn_bdp_ledger (
    holdout text PRIMARY KEY, header text NOT NULL, start text NOT NULL,
    number integer NOT NULL, digest text NOT NULL  -- of the last entry
);
CREATE TABLE sklearn_bdp_log (
    holdout text NOT NULL REFERENCES sklearn_bdp_ledger, number integer NOT NULL,
    kind text NOT NULL, content text NOT NULL, answers text NOT NULL,
    sealed text NOT NULL,                          -- shown to nobody
    commitment text NOT NULL, digest text NOT NULL, PRIMARY KEY (holdout, number)
);
CREATE FUNCTION sklearn_bdp_refuse() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION 'a ledger is append-only'; END $$;
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON sklearn_bdp_log
    EXECUTE FUNCTION sklearn_bdp_refuse();
CREATE TRIGGER append_only BEFORE DELETE OR TRUNCATE OR UPDATE OF holdout, header, start
    ON sklearn_bdp_ledger EXECUTE FUNCTION sklearn_bdp_refuse();
"""
_INSERT = "INSERT INTO sklearn_bdp_log VALUES (%s, %s, %s, %s, %s, %s, %s, %s)"
# One statement: the head moves only from where it is expected, and the entry goes with it.
_APPEND = """
WITH moved AS (
    UPDATE sklearn_bdp_ledger SET number = %s, digest = %s
    WHERE holdout = %s AND number = %s AND digest = %s RETURNING holdout
) INSERT INTO sklearn_bdp_log SELECT holdout, %s, %s, %s, %s, %s, %s, %s FROM moved
"""
_HEAD = """
SELECT header, start, number, digest, (
    SELECT digest FROM sklearn_bdp_log WHERE holdout = %(holdout)s AND number = %(after)s
) FROM sklearn_bdp_ledger WHERE holdout = %(holdout)s
"""
_ROWS = """
SELECT number, kind, content, answers, sealed, commitment, digest FROM sklearn_bdp_log
WHERE holdout = %(holdout)s AND (number > %(after)s OR number < 1) ORDER BY number
"""


def is_url(place):
    """Return whether a place is one that this backend keeps entries at."""
    return isinstance(place, str) and place.partition("://")[0] in ("postgresql", "postgres")


class LedgerURL(str):
    """``postgresql://user@host/database?holdout=name``: a text without the password, if it had one.

    The password stays in the process; copies in other processes read it as libpq does, from
    ``PGPASSWORD`` or a password file.
    """

    def __new__(cls, text):
        if isinstance(text, cls):
            return text
        parts = urlsplit(text)
        asked = parse_qsl(parts.query, keep_blank_values=True)
        user, at, hosts = parts.netloc.rpartition("@")
        public = [(name, value) for name, value in asked if "password" not in name]
        netloc = user.partition(":")[0] + at + hosts
        shown = parts._replace(netloc=netloc, query=urlencode(public), fragment="")
        self = super().__new__(cls, urlunsplit(shown))
        names = [value for name, value in asked if name == "holdout"]
        if len(names) != 1 or not names[0]:
            raise ValueError(
                "ledger must name one holdout, as in postgresql://user@host/database?holdout=name, "
                f"got ledger={str(self)!r}."
            )
        rest = urlencode([pair for pair in asked if pair[0] != "holdout"])
        self.holdout = names[0]
        self.connection = urlunsplit(parts._replace(query=rest, fragment=""))
        return self

    def __deepcopy__(self, memo=None):
        return self

    __copy__ = __deepcopy__

    def __reduce__(self):
        return LedgerURL, (str(self),)


class PostgreSQLBackend(DatabaseBackend):
    """Entries of one holdout in the tables of a database; each has a row that writers lock."""

    def __init__(self, url, *, timeout=60.0):
        self.url, self._timeout = LedgerURL(url), timeout

    def __str__(self):
        return str(self.url)

    def __reduce__(self):
        return PostgreSQLBackend, (self.url,)

    def create(self, header, start, rows=()):
        """Make the tables where there are none, and store a header and its rows in one go."""
        name, tables = self.url.holdout, "SELECT to_regclass('sklearn_bdp_ledger')"
        with self._translated():
            if self._execute_first(tables).fetchone()[0] is not None:
                known = "SELECT 1 FROM sklearn_bdp_ledger WHERE holdout = %s"
                if self._connection.execute(known, (name,)).fetchone():
                    return False
            with self._connection.transaction():
                self._connection.execute("SELECT pg_advisory_xact_lock(1111773233)")
                if self._connection.execute(tables).fetchone()[0] is None:
                    self._connection.execute(_TABLES)
                made = self._connection.execute(
                    "INSERT INTO sklearn_bdp_ledger VALUES (%s, %s, %s, %s, %s) "
                    "ON CONFLICT DO NOTHING",
                    (name, header, start, *last_link(start, rows)),
                ).rowcount
                if made:
                    self._connection.cursor().executemany(_INSERT, [(name, *row) for row in rows])
        return bool(made)

    def _stored(self, after):
        from psycopg.errors import UndefinedTable

        asked = {"holdout": self.url.holdout, "after": after}
        found = None
        with contextlib.suppress(UndefinedTable):
            found = self._connection.execute(_HEAD, asked).fetchone()
        if found is None:
            return None
        header, start, number, digest, known = found
        rows = [Row(*row) for row in self._connection.execute(_ROWS, asked)]
        return Stored(header, start, (number, digest), known if after else start, rows)

    def append(self, expected_head, row):
        """Store the next entry; an acknowledgement that is lost is looked for at the head."""
        import psycopg

        with self._translated():
            head = (row.number, row.digest, self.url.holdout, *expected_head)
            if self._connection.execute(_APPEND, (*head, *row)).rowcount != 1:
                raise corrupted(self, "its head was moved")
            try:
                self._connection.execute("COMMIT")
                return
            except psycopg.OperationalError:
                self.close()
        recorded = "perhaps recorded"
        # The lock waits for the end of the lost transaction.
        with contextlib.suppress(LedgerUnavailableError), self.lock(self._timeout):
            if self.read(row.number).known == row.digest:
                return
            recorded = "not recorded"
        raise LedgerUnavailableError(
            f"ledger {self} went away while it was written: the batch was {recorded}. Nothing was "
            "released. Ask again with the same keys."
        )

    def _begin(self, timeout=None):
        """Begin to read, or lock the row of this holdout; those of others are free."""
        from psycopg import sql

        if timeout is None:
            self._execute_first("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            return
        begin = sql.SQL(
            "BEGIN; SET LOCAL lock_timeout = {}; "
            "SELECT 1 FROM sklearn_bdp_ledger WHERE holdout = {} FOR UPDATE"
        )
        self._execute_first(begin.format(max(1, int(1000 * timeout)), self.url.holdout))

    def _execute_first(self, statement):
        """Execute a first statement, once more on a new connection where the server restarted."""
        import psycopg

        if self._own() is not None and not self._connection.closed:
            self._roll_back()
            try:
                return self._connection.execute(statement)
            except psycopg.OperationalError:
                if not self._connection.closed:
                    raise
        self._connection, self._owner = None, os.getpid()
        self._connection = self._connect()
        # A commit returns when the entry is on the disk, whatever the server's default is.
        self._connection.execute(
            "SELECT set_config('synchronous_commit', 'on', false) "
            "WHERE current_setting('synchronous_commit') = 'off'"
        )
        return self._connection.execute(statement)

    @strip_traceback_frames  # the frames hold the password
    def _connect(self):
        import psycopg

        given = _DEFAULTS | psycopg.conninfo.conninfo_to_dict(self.url.connection)
        return psycopg.connect(autocommit=True, prepare_threshold=None, **given)

    def _writing(self):
        own = self._own()
        return own is not None and own.info.transaction_status.name in ("INTRANS", "INERROR")

    def _roll_back(self):
        import psycopg

        with contextlib.suppress(psycopg.Error):
            if self._writing():
                self._connection.execute("ROLLBACK")

    def _failure(self, error):
        if isinstance(error, ImportError):
            return LedgerUnavailableError(
                f'ledger {self} needs psycopg: pip install "sklearn-bdp[postgres]".'
            )
        import psycopg

        if isinstance(error, psycopg.errors.LockNotAvailable):
            return LedgerBusyError(
                f"ledger {self} is held by another process for longer than ledger_timeout. The "
                "holdout was not queried."
            )
        if isinstance(error, (psycopg.errors.IntegrityError, psycopg.errors.RaiseException)):
            return corrupted(self, "its log and its head do not agree")
        if not isinstance(error, psycopg.Error):
            return error
        said = " ".join(str(error).split()) or type(error).__name__
        return LedgerUnavailableError(
            f"ledger {self} cannot be read or written: {said.rstrip('.?')}. No answer was released."
        )
