"""Entries in a PostgreSQL database, which several machines share, through psycopg 3."""

from __future__ import annotations

import contextlib
import datetime
import math
import os
import socket
import threading
import weakref
from typing import Any, NamedTuple

from sklearn_bdp.exceptions import (
    LedgerBusyError,
    LedgerError,
    LedgerMismatchError,
    LedgerUnavailableError,
)
from sklearn_bdp.ledger import _postgresql_schema as sql_texts
from sklearn_bdp.ledger._ledger_url import LedgerURL, is_url
from sklearn_bdp.ledger.backend import Backend, Row, Stored, corrupted, last_link
from sklearn_bdp.ledger.records import parse_json
from sklearn_bdp.utils.process import host_name, process_user
from sklearn_bdp.utils.validation import strip_traceback_frames

__all__ = ["LedgerURL", "PostgreSQLBackend", "is_url"]

#: Seconds after which this side stops waiting for a server that did not keep its own limit.
_GRACE = 1.0
_LONGEST_CONNECT = 10  # seconds
#: Shortest limit for a writer between two statements, in seconds: deciding a batch takes time.
_SHORTEST_IDLE = 10.0
_LONGEST_NAME = 63  # bytes of an application name
_TABLES = ("sklearn_bdp_ledger", "sklearn_bdp_log")
_VIEWS = ("sklearn_bdp_ledgers", "sklearn_bdp_entries")  # without the sealed column


class _Layout(NamedTuple):
    """Relations of one schema, as this role sees them."""

    is_readable: bool  # whether the role may read the tables
    has_views: bool  # whether it has the views of this version, without the sealed column


class _Session:
    """The connection of this process to one ledger, shared by all its backends.

    ``in_use`` is held during each transaction.
    """

    def __init__(self, url: LedgerURL) -> None:
        self.url = url
        self.owner = os.getpid()
        self.in_use = threading.Lock()
        self.connection: Any = None

    def is_open(self) -> bool:
        """Return whether there is a connection that was not closed."""
        return self.connection is not None and not self.connection.closed

    def close(self) -> None:
        """Close the connection; the next statement opens another one."""
        connection, self.connection = self.connection, None
        if connection is not None and self.owner == os.getpid():
            connection.close()

    def __del__(self) -> None:
        self.close()

    @strip_traceback_frames  # the frames hold the password
    def connect(self, timeout: float) -> None:
        """Open a connection whose waits are bounded by a timeout in seconds."""
        import psycopg

        milliseconds = max(1, math.ceil(1000 * timeout))
        defaults = {
            "application_name": _application_name(),
            # Two seconds are the shortest limit that libpq keeps.
            "connect_timeout": max(2, min(_LONGEST_CONNECT, math.ceil(timeout))),
            "keepalives_idle": max(1, min(10, math.ceil(timeout / 2))),
            "keepalives_interval": max(1, min(5, math.ceil(timeout / 6))),
            "keepalives_count": 3,
            "tcp_user_timeout": milliseconds,
        }
        parameters = psycopg.conninfo.conninfo_to_dict(self.url.connection)
        connection = psycopg.connect(
            autocommit=True, prepare_threshold=None, **(defaults | parameters)
        )
        try:
            with _reply_within(connection, timeout + _GRACE):
                # A commit returns when the entry is on the disk, whatever the server's default is.
                connection.execute(
                    "SELECT set_config('synchronous_commit', 'on', false) "
                    "WHERE current_setting('synchronous_commit') = 'off'"
                )
        except BaseException:
            connection.close()
            raise
        self.connection = connection


#: By process and URL. Sessions that a fork inherits are those of its parent.
_SESSIONS: weakref.WeakValueDictionary[tuple[Any, ...], _Session] = weakref.WeakValueDictionary()


def _session_of(url: LedgerURL) -> _Session:
    """Return the session of this process for a URL."""
    # One dictionary operation: atomic, and without a lock that a fork could inherit.
    return _SESSIONS.setdefault((os.getpid(), str(url), url.connection), _Session(url))


class PostgreSQLBackend(Backend):
    """Entries of one holdout in the tables of a database; each holdout has a row that writers lock.

    Every wait is bounded: by the server (``statement_timeout``, ``lock_timeout``,
    ``idle_in_transaction_session_timeout``), by TCP, and by this process if the server does not
    reply at all.
    """

    def __init__(self, url, *, timeout=60.0):
        self.url = LedgerURL(url)
        self._timeout = float(timeout)
        self._session: _Session | None = None
        self._transaction: Any = None  # the connection, inside lock()
        self._relations: tuple[str, ...] | None = None  # schema, and the tables or views to read

    def __str__(self):
        return str(self.url)

    def __reduce__(self):
        return PostgreSQLBackend, (self.url,)

    def close(self):
        """Close the connection of this process, unless another thread is using it."""
        session = self._own_session()
        if session.in_use.acquire(blocking=False):
            try:
                session.close()
            finally:
                session.in_use.release()

    # -- the four methods ---------------------------------------------------------------------

    def create(self, header, start, rows=()):
        """Make the tables where there are none, and store a header and its rows in one go."""
        facts = parse_json(header)
        is_upgrade = "upgraded_from" in facts  # the older ledger of its name may remain
        with self._translated(), self._free_session() as session:
            if self._read(session, 0, 1) is not None and not (is_upgrade and self._reads_older()):
                return False
            self._begin(session, "BEGIN")
            connection = session.connection
            try:
                # Before the tables are looked for: two creators take turns.
                self._execute(connection, "SELECT pg_advisory_xact_lock({advisory_lock})")
                self._make_tables(connection, facts.get("data", start), is_upgrade=is_upgrade)
                function = "SELECT {schema}.sklearn_bdp_create(%s, %s, %s, %s, %s)"
                digests = (facts.get("data", start), facts.get("chain", ""))
                values = (self.url.holdout, header, start, *digests)
                recorded_holdout = self._execute(connection, function, values).fetchone()[0]
                if recorded_holdout is None:
                    previous = last_link(start, ())
                    for row in rows:
                        self._append_row(connection, previous, row)
                        previous = (row.number, row.digest)
                    self._execute(connection, "COMMIT")
            finally:
                self._roll_back(session)
            self._relations = None
        if recorded_holdout is not None and recorded_holdout != self.url.holdout:
            raise self._second_ledger(recorded_holdout, self.url.schema)
        return recorded_holdout is None

    def read(self, after_number, limit=None):
        """Return the stored content at one moment."""
        with self._translated():
            if self._transaction is not None:
                return self._select(self._transaction, after_number, limit)
            with self._free_session() as session:
                return self._read(session, after_number, limit)

    @contextlib.contextmanager
    def lock(self, timeout):
        """Lock the row of this holdout; those of other holdouts are free."""
        session = self._own_session()
        acquired = False
        try:
            acquired = session.in_use.acquire(timeout=timeout)
            if not acquired:
                raise LedgerBusyError(
                    f"ledger {self} is in use by another thread of this process for longer than "
                    "ledger_timeout. The holdout was not queried. Try again."
                )
            with self._translated():
                self._begin_writing(session, timeout)
                self._transaction = session.connection
            yield
        finally:  # also if an interrupt comes right after it began
            if acquired:
                self._transaction = None
                try:
                    self._roll_back(session)
                finally:
                    session.in_use.release()

    def append(self, expected_head, row):
        """Store the next entry; if the acknowledgement is lost, the head is read again."""
        import psycopg

        with self._translated():
            connection = self._transaction
            if not self._append_row(connection, expected_head, row):
                raise corrupted(self, "its head was moved")
            try:
                self._execute(connection, "COMMIT")
                return
            except (psycopg.OperationalError, LedgerUnavailableError):
                connection.close()
        is_recorded = self._look_for(row)
        if is_recorded:
            return
        outcome = "perhaps recorded" if is_recorded is None else "not recorded"
        raise LedgerUnavailableError(
            f"ledger {self} went away while it was written: the batch was {outcome}. Nothing was "
            "released. Query again with the same keys."
        )

    def set_head(self, head):
        """Move the head, inside :meth:`lock`: a repair, by the owner of the tables."""
        with self._translated():
            text = (
                "UPDATE {schema}.sklearn_bdp_ledger SET number = %s, digest = %s WHERE holdout = %s"
            )
            self._execute(self._transaction, text, (*head, self.url.holdout))
            self._execute(self._transaction, "COMMIT")

    def delete(self):
        """Delete the ledger and its entries, by the owner of the tables."""
        parameters = {"holdout": self.url.holdout}
        with self._translated():
            if self._transaction is None:
                with self._free_session() as session:
                    self._begin(session, "BEGIN")
                    try:
                        self._delete(session.connection, parameters)
                    finally:
                        self._roll_back(session)
            else:
                self._delete(self._transaction, parameters)
        self._relations = None

    def _delete(self, connection, parameters):
        name = "SELECT set_config('sklearn_bdp.delete', %(holdout)s, true)"
        self._execute(connection, name, parameters)
        for table in ("sklearn_bdp_log", "sklearn_bdp_ledger"):
            text = f"DELETE FROM {{schema}}.{table} WHERE holdout = %(holdout)s"
            self._execute(connection, text, parameters)
        self._execute(connection, "COMMIT")

    def holdouts(self):
        """Return the names of all ledgers of the schema, also those of version 0.1."""
        names = set()
        with self._translated(), self._free_session() as session:
            self._begin(session, "BEGIN READ ONLY")
            try:
                for schema in self._readable_schemas(session.connection):
                    rows = self._query(
                        session.connection,
                        "SELECT holdout FROM {schema}.{ledger}",
                        None,
                        relations=schema,
                    )
                    names |= {name for (name,) in rows}
            finally:
                self._roll_back(session)
        return sorted(names)

    def _readable_schemas(self, connection):
        """Yield the relations of this schema, and those that version 0.1 made elsewhere."""
        layouts = self._execute(connection, sql_texts.LAYOUTS).fetchall()
        for schema, is_readable, has_views in layouts:
            is_own_or_older = schema == self.url.schema or not has_views
            if is_own_or_older and (is_readable or has_views):
                yield schema, *(_TABLES if is_readable else _VIEWS)

    # -- reading ------------------------------------------------------------------------------

    def _read(self, session, after_number, limit=None):
        """Return the stored content, in a transaction of its own."""
        self._begin(session, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        try:
            return self._select(session.connection, after_number, limit)
        finally:
            self._roll_back(session)

    def _select(self, connection, after_number, limit=None):
        """Return the stored content, inside a transaction."""
        # Rights may be granted while this process runs, and a ledger may be made or upgraded.
        if self._relations is None or self._relations[1:] == _VIEWS or self._reads_older():
            self._relations = self._find_relations(connection)
        if self._relations is None:
            return None
        parameters = {"holdout": self.url.holdout, "after": after_number, "limit": limit}
        head = self._query(connection, sql_texts.HEAD, parameters).fetchone()
        if head is None:
            self._relations = None
            return None
        header, start, number, digest, entry_digest = head
        rows = [Row(*row) for row in self._query(connection, sql_texts.ENTRIES, parameters)]
        return Stored(
            header, start, (number, digest), entry_digest if after_number else start, rows
        )

    def _find_relations(self, connection):
        """Return (schema, ledger relation, log relation) that this role can read, or None."""
        own_schema = self.url.schema
        layouts = {
            name: _Layout(is_readable, has_views)
            for name, is_readable, has_views in self._execute(connection, sql_texts.LAYOUTS)
        }
        own_layout = layouts.pop(own_schema, None)
        candidates = []
        if own_layout is not None:
            may_read_views_only = own_layout.has_views and not own_layout.is_readable
            candidates.append((own_schema, *(_VIEWS if may_read_views_only else _TABLES)))
        # Version 0.1 made its tables wherever the search_path began.
        candidates += [
            (name, *_TABLES)
            for name, layout in layouts.items()
            if layout.is_readable and not layout.has_views
        ]
        for relations in candidates:
            if self._query(
                connection, sql_texts.EXISTS, {"holdout": self.url.holdout}, relations=relations
            ).fetchone():
                return relations
        return None

    def _reads_older(self):
        """Return whether the ledger is in tables that version 0.1 made elsewhere."""
        return self._relations is not None and self._relations[0] != self.url.schema

    def _query(self, connection, text, parameters, *, relations=None):
        """Execute a query on the relations of this ledger."""
        schema, ledger, log = relations or self._relations
        return self._execute(connection, text, parameters, schema=schema, ledger=ledger, log=log)

    # -- writing ------------------------------------------------------------------------------

    def _make_tables(self, connection, data, *, is_upgrade):
        """Make the tables if there are none; reject a second ledger of the same records."""
        has_tables = False
        for name, is_readable, has_views in self._execute(connection, sql_texts.LAYOUTS):
            if name == self.url.schema:
                has_tables = has_views
            elif is_readable and (has_views or not is_upgrade):
                parameters = {"holdout": self.url.holdout, "data": f'"data":"{data}"'}
                relations = (name, *_TABLES)
                recorded_holdout = self._query(
                    connection, sql_texts.SAME_DATA, parameters, relations=relations
                ).fetchone()
                if recorded_holdout is not None:
                    raise self._second_ledger(recorded_holdout[0], name)
        if not has_tables:
            self._execute(connection, sql_texts.TABLES)

    def _append_row(self, connection, expected_head, row):
        """Append an entry, and return whether the head was where it is expected."""
        function = f"SELECT {{schema}}.sklearn_bdp_append({', '.join(['%s'] * 10)})"
        values = (self.url.holdout, *expected_head, *row)
        return self._execute(connection, function, values).fetchone()[0]

    def _begin_writing(self, session, timeout):
        """Begin a transaction and lock the row of this holdout."""
        import psycopg

        lock = (
            f"SET LOCAL lock_timeout = {max(1, math.ceil(1000 * timeout))}; "
            "SET LOCAL application_name = {writer}; SELECT {schema}.sklearn_bdp_lock({holdout})"
        )
        now = datetime.datetime.now(datetime.UTC)
        sql_literals = {"writer": _application_name(start=now), "holdout": self.url.holdout}
        try:
            self._begin(session, "BEGIN", lock, **sql_literals)
        except psycopg.errors.LockNotAvailable:
            self._roll_back(session)
            raise LedgerBusyError(
                f"ledger {self} is held {self._holder(session)} for longer than ledger_timeout "
                f"({timeout:g} s). The holdout was not queried. Try again, or end that process."
            ) from None
        except (psycopg.errors.UndefinedFunction, psycopg.errors.InvalidSchemaName):
            self._roll_back(session)
            # Tables of version 0.1, or none: reading says which.
            self._begin(session, "BEGIN READ ONLY")

    def _holder(self, session):
        """Return a description of the current writer."""
        import psycopg

        try:
            parameters = {"holdout": self.url.holdout}
            holder = self._execute(session.connection, sql_texts.HOLDER, parameters).fetchone()
        except psycopg.Error:
            holder = None
        if holder is None:
            return "by another process"
        role, application, address, start = holder
        facts = [f"by role {role!r} ({application})"]
        if address is not None:
            facts.append(f"from {address}")
        if start is not None:
            facts.append(f"since {start:%Y-%m-%d %H:%M:%S %Z}")
        return " ".join(facts)

    def _look_for(self, row):
        """Return whether an entry was recorded; None if the server cannot be reached."""
        session = self._own_session()
        try:
            with self._translated():
                # The lock waits for the end of the lost transaction.
                self._begin_writing(session, self._timeout)
                return self._select(session.connection, row.number).known == row.digest
        except LedgerUnavailableError:
            return None

    # -- the connection -----------------------------------------------------------------------

    def _own_session(self):
        """Return the session of this process."""
        if self._session is None or self._session.owner != os.getpid():
            self._session = _session_of(self.url)
            self._transaction = None
        return self._session

    @contextlib.contextmanager
    def _free_session(self):
        """Yield the session of this process, or one of its own while another thread writes."""
        shared = self._own_session()
        acquired = False
        temporary = None
        try:
            acquired = shared.in_use.acquire(blocking=False)
            if not acquired:
                temporary = _Session(self.url)
            yield shared if acquired else temporary
        finally:
            if acquired:
                shared.in_use.release()
            if temporary is not None:
                temporary.close()

    def _begin(self, session, *statements, **sql_names):
        """Begin a transaction; if the server was restarted meanwhile, on a new connection.

        The server ends statements that take too long, and an idle writer's transaction.
        ``sql_names``: see :meth:`_complete`.
        """
        import psycopg

        milliseconds = max(1, math.ceil(1000 * self._timeout))
        idle = max(milliseconds, math.ceil(1000 * _SHORTEST_IDLE))
        limits = (
            f"SET LOCAL statement_timeout = {milliseconds + 500}; "  # later than lock_timeout
            f"SET LOCAL idle_in_transaction_session_timeout = {idle}"
        )
        begin, *later_statements = statements
        statement = "; ".join([begin, limits, *later_statements])
        if session.is_open():
            self._roll_back(session)
        if session.is_open():
            try:
                self._execute(session.connection, statement, **sql_names)
                return
            except psycopg.OperationalError:
                if session.is_open():
                    raise
        session.connect(self._timeout)
        self._execute(session.connection, statement, **sql_names)

    def _execute(self, connection, statement, parameters=None, **sql_names):
        """Execute a statement; break the connection off if the server does not reply.

        ``sql_names``: see :meth:`_complete`.
        """
        query = self._complete(statement, **sql_names) if "{" in statement else statement
        values = [] if parameters is None else [parameters]
        with _reply_within(connection, self._timeout + _GRACE) as expired:
            try:
                return connection.execute(query, *values)
            except Exception:
                if not expired.is_set():
                    raise
        connection.close()
        raise LedgerUnavailableError(
            f"ledger {self}: the server did not reply within ledger_timeout ({self._timeout:g} s). "
            "Nothing was released. Query again with the same keys when it runs again."
        )

    def _complete(self, statement, *, writer="", holdout="", **relations):
        """Return a statement with its relations as identifiers and its texts as literals."""
        from psycopg import sql

        relations_in_schema = {"schema": self.url.schema} | relations
        identifiers = {
            name: sql.Identifier(relation) for name, relation in relations_in_schema.items()
        }
        return sql.SQL(statement).format(
            **identifiers,
            writer=sql.Literal(writer),
            holdout=sql.Literal(holdout),
            schema_name=sql.Literal(self.url.schema),
            advisory_lock=sql.Literal(sql_texts.ADVISORY_LOCK),
        )

    def _roll_back(self, session):
        """End a transaction, if there is one and the server can be reached."""
        import psycopg

        if not session.is_open():
            return
        try:
            if session.connection.info.transaction_status.name in ("INTRANS", "INERROR"):
                self._execute(session.connection, "ROLLBACK")
        except (psycopg.Error, LedgerUnavailableError):
            session.close()

    # -- errors -------------------------------------------------------------------------------

    def _second_ledger(self, holdout, schema):
        """Return the error about records that have a ledger already."""
        where = "" if schema == self.url.schema else f" in schema {schema}"
        return LedgerMismatchError(
            f"ledger {self} cannot be created: this database has a ledger of the same records, "
            f"holdout={holdout}{where}. A second ledger would be a second budget for them. Use the "
            "URL of that ledger. The holdout was not queried."
        )

    @contextlib.contextmanager
    def _translated(self):
        """Raise the ledger's errors instead of those of psycopg."""
        try:
            yield
            return
        except Exception as error:
            failure = self._failure(error)
        raise failure

    def _failure(self, error):
        if isinstance(error, LedgerError):
            return error
        if isinstance(error, ImportError):
            return LedgerUnavailableError(
                f'ledger {self} needs psycopg: pip install "sklearn-bdp[postgres]".'
            )
        import psycopg

        if not isinstance(error, psycopg.Error):
            return error
        if isinstance(error, psycopg.errors.IntegrityError):
            return corrupted(self, "its log and its head do not agree")
        words = " ".join(str(error).split()) or type(error).__name__
        words = self.url.hide_secrets(words).rstrip(".?")
        if isinstance(error, psycopg.errors.RaiseException):
            return corrupted(self, f"the server rejected an entry: {words}")
        if isinstance(error, psycopg.errors.InsufficientPrivilege):
            return LedgerUnavailableError(
                f"ledger {self}: the role of this URL lacks a right: {words}. The owner of the "
                f"tables can grant it, see the roles in the guide for teams. The holdout was not "
                "queried."
            )
        return LedgerUnavailableError(
            f"ledger {self} cannot be read or written: {words}. No answer was released."
        )


@contextlib.contextmanager
def _reply_within(connection, seconds):
    """Break a connection off if the block takes longer; yield an event that is set if it did.

    TCP acknowledges packets for a server whose processes are stopped, so that only the side that
    waits can notice.
    """
    expired = threading.Event()

    def break_off():
        expired.set()
        try:
            with socket.fromfd(connection.fileno(), socket.AF_INET, socket.SOCK_STREAM) as copy:
                copy.shutdown(socket.SHUT_RDWR)
        except Exception:  # closed meanwhile
            return

    timer = threading.Timer(seconds, break_off)
    timer.daemon = True
    timer.start()
    try:
        yield expired
    finally:
        timer.cancel()


def _application_name(*, start=None):
    """Return the name of this process that other roles see in pg_stat_activity."""
    suffix = "" if start is None else f" since {start:%H:%M:%S} UTC"
    name = f"sklearn_bdp {process_user()}@{host_name()}"
    ascii_name = name.encode("ascii", "replace").decode()
    return ascii_name[: _LONGEST_NAME - len(suffix)] + suffix
