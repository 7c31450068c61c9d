"""Backend that stores entries in a PostgreSQL database for several machines, with psycopg 3."""

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
from sklearn_bdp.ledger.backend import Backend, LedgerContents, Row, corrupted_error, head_of
from sklearn_bdp.ledger.records import parse_json
from sklearn_bdp.utils.process import host_name, process_user
from sklearn_bdp.utils.validation import strip_traceback_frames

__all__ = ["LedgerURL", "PostgreSQLBackend", "is_url"]

#: Seconds after the time limit of the server, when this process stops waiting for its reply.
_GRACE = 1.0
_MAX_CONNECT_TIMEOUT = 10  # seconds
#: Shortest time limit for a writer between two statements, in seconds: a batch takes time.
_MIN_IDLE_TIMEOUT = 10.0
_MAX_NAME_LENGTH = 63  # bytes of an application name
_TABLES = ("sklearn_bdp_ledger", "sklearn_bdp_log")
_VIEWS = ("sklearn_bdp_ledgers", "sklearn_bdp_entries")  # without the secret states


class _Layout(NamedTuple):
    """Tables and views in one schema, as the role of this connection sees them."""

    is_readable: bool  # whether the role may read the tables
    has_views: bool  # whether the schema has the views of this version


class _Session:
    """Connection of this process to one ledger; backends with the same URL share one."""

    def __init__(self, url: LedgerURL) -> None:
        self.url = url
        self.owner_pid = os.getpid()
        self.in_use = threading.Lock()  # held during each transaction
        self.connection: Any = None

    def is_open(self) -> bool:
        """Return whether there is an open connection."""
        return self.connection is not None and not self.connection.closed

    def close(self) -> None:
        """Close the connection; the next transaction opens another one."""
        connection = self.connection
        self.connection = None
        if connection is not None and self.owner_pid == os.getpid():
            connection.close()

    def __del__(self) -> None:
        self.close()

    @strip_traceback_frames  # the frames hold the password
    def connect(self, timeout: float) -> None:
        """Open the connection of this session.

        ``timeout``: seconds, from which the time limits of libpq and TCP follow. Parameters of the
        URL replace these limits.
        """
        import psycopg

        milliseconds = max(1, math.ceil(1000 * timeout))
        defaults = {
            "application_name": _application_name(),
            # libpq has no shorter limit than two seconds.
            "connect_timeout": max(2, min(_MAX_CONNECT_TIMEOUT, math.ceil(timeout))),
            "keepalives_idle": max(1, min(10, math.ceil(timeout / 2))),
            "keepalives_interval": max(1, min(5, math.ceil(timeout / 6))),
            "keepalives_count": 3,
            "tcp_user_timeout": milliseconds,
        }
        parameters = psycopg.conninfo.conninfo_to_dict(self.url.connection_url)
        connection = psycopg.connect(
            autocommit=True, prepare_threshold=None, **(defaults | parameters)
        )
        try:
            with _reply_within(connection, timeout + _GRACE):
                # A commit must return when the entry is on the disk, also if this is not the
                # default of the server.
                connection.execute(
                    "SELECT set_config('synchronous_commit', 'on', false) "
                    "WHERE current_setting('synchronous_commit') = 'off'"
                )
        except BaseException:
            connection.close()
            raise
        self.connection = connection


#: Sessions by process, URL and URL with password. After a fork, those of the parent remain.
_SESSIONS: weakref.WeakValueDictionary[tuple[Any, ...], _Session] = weakref.WeakValueDictionary()


def _session_of(url: LedgerURL) -> _Session:
    """Return the session that backends of this process with the same URL share."""
    # This single operation is atomic and needs no lock, which a fork could inherit.
    return _SESSIONS.setdefault((os.getpid(), str(url), url.connection_url), _Session(url))


class PostgreSQLBackend(Backend):
    """Ledger entries of one holdout in the tables of a PostgreSQL database.

    The table of ledgers has one row for each holdout, which writers lock. Waits are bounded: by
    the server (``statement_timeout``, ``lock_timeout``,
    ``idle_in_transaction_session_timeout``), by TCP, and by this process if the server does not
    reply at all.
    """

    def __init__(self, url, *, timeout=60.0):
        self.url = LedgerURL(url)
        self._timeout = float(timeout)  # seconds
        self._session: _Session | None = None
        self._locked_connection: Any = None  # connection of the transaction inside lock(), or None
        #: Schema, relation of the ledgers and relation of the entries to read from, or None.
        self._relations: tuple[str, ...] | None = None

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

    # -- methods of Backend -------------------------------------------------------------------

    def create(self, header, header_digest, rows=()):
        """Create a ledger in one transaction, unless it exists; create missing tables.

        Returns whether it was created. Raises LedgerMismatchError if it finds another ledger of the
        same records that was not moved, or in another schema one of the same name.
        """
        header_fields = parse_json(header)
        data_digest = header_fields.get("data", header_digest)
        chain_type = header_fields.get("chain", "")
        # An upgrade creates a ledger beside tables of version 0.1 with the same holdout name.
        is_upgrade = "upgraded_from" in header_fields
        with self._raising_ledger_errors(), self._free_session() as session:
            exists = self._read(session, 0, 1) is not None
            if exists and not (is_upgrade and self._reads_older_tables()):
                return False
            self._begin(session, "BEGIN")
            connection = session.connection
            try:
                # This lock comes first, so that two processes do not create tables together.
                self._execute(connection, "SELECT pg_advisory_xact_lock({advisory_lock})")
                self._make_tables(connection, data_digest, is_upgrade=is_upgrade)
                create_sql = "SELECT {schema}.sklearn_bdp_create(%s, %s, %s, %s, %s)"
                values = (self.url.holdout, header, header_digest, data_digest, chain_type)
                # Name of the holdout that has this name already, or these records unless it was
                # moved; or None.
                (recorded_holdout,) = self._execute(connection, create_sql, values).fetchone()
                if recorded_holdout is None:
                    expected_head = head_of(header_digest, ())
                    for row in rows:
                        self._append_row(connection, expected_head, row)
                        expected_head = (row.number, row.digest)
                    self._execute(connection, "COMMIT")
            finally:
                self._roll_back(session)
            self._relations = None
        if recorded_holdout is not None and recorded_holdout != self.url.holdout:
            raise self._second_ledger_error(recorded_holdout, self.url.schema)
        return recorded_holdout is None

    def read(self, after_number, limit=None):
        """Return header, head and entries with numbers above ``after_number`` (at most ``limit``).

        None without a ledger.
        """
        with self._raising_ledger_errors():
            if self._locked_connection is not None:
                return self._select_contents(self._locked_connection, after_number, limit)
            with self._free_session() as session:
                return self._read(session, after_number, limit)

    @contextlib.contextmanager
    def lock(self, timeout):
        """Return a context manager that locks the row of this holdout in the table of ledgers.

        Raises LedgerBusyError if another writer holds it for longer than ``timeout`` seconds.
        """
        session = self._own_session()
        is_acquired = False
        try:
            is_acquired = session.in_use.acquire(timeout=timeout)
            if not is_acquired:
                raise LedgerBusyError(
                    f"ledger {self} is in use by another thread of this process for longer than "
                    "ledger_timeout. The holdout was not queried. Try again."
                )
            with self._raising_ledger_errors():
                self._begin_writing(session, timeout)
                self._locked_connection = session.connection
            yield
        finally:  # also if an interrupt comes right after it began
            if is_acquired:
                self._locked_connection = None
                try:
                    self._roll_back(session)
                finally:
                    session.in_use.release()

    def append(self, expected_head, row):
        """Store the next entry, inside :meth:`lock`.

        Raises LedgerCorruptedError unless ``expected_head`` is the stored head. If the reply to
        COMMIT is lost, raises LedgerUnavailableError unless the entry is found in the ledger.
        """
        import psycopg

        with self._raising_ledger_errors():
            connection = self._locked_connection
            if not self._append_row(connection, expected_head, row):
                raise corrupted_error(self, "its head was moved")
            try:
                self._execute(connection, "COMMIT")
                return
            except (psycopg.OperationalError, LedgerUnavailableError):
                connection.close()
        is_recorded = self._is_recorded(row)
        if is_recorded:
            return
        outcome = "perhaps recorded" if is_recorded is None else "not recorded"
        raise LedgerUnavailableError(
            f"ledger {self} went away while it was written: the batch was {outcome}. Nothing was "
            "released. Query again with the same keys."
        )

    def set_head(self, head):
        """Set the stored head, inside :meth:`lock`. Only for repairs by the owner of the tables."""
        with self._raising_ledger_errors():
            update_sql = (
                "UPDATE {schema}.sklearn_bdp_ledger SET number = %s, digest = %s WHERE holdout = %s"
            )
            self._execute(self._locked_connection, update_sql, (*head, self.url.holdout))
            self._execute(self._locked_connection, "COMMIT")

    def delete(self):
        """Delete the ledger and its entries. Only for the owner of the tables."""
        with self._raising_ledger_errors():
            if self._locked_connection is None:
                with self._free_session() as session:
                    self._begin(session, "BEGIN")
                    try:
                        self._delete_rows(session.connection)
                    finally:
                        self._roll_back(session)
            else:
                self._delete_rows(self._locked_connection)
        self._relations = None

    def _delete_rows(self, connection):
        """Delete the rows of this holdout from the tables, and commit."""
        parameters = {"holdout": self.url.holdout}
        # The triggers of the tables allow the deletion of the holdout in this setting.
        allow_deletion_sql = "SELECT set_config('sklearn_bdp.delete', %(holdout)s, true)"
        self._execute(connection, allow_deletion_sql, parameters)
        for table in ("sklearn_bdp_log", "sklearn_bdp_ledger"):
            delete_sql = f"DELETE FROM {{schema}}.{table} WHERE holdout = %(holdout)s"
            self._execute(connection, delete_sql, parameters)
        self._execute(connection, "COMMIT")

    def holdouts(self):
        """Return the sorted names of the holdouts with ledgers in the schema of the URL.

        Ledgers of version 0.1 in any schema that this role can read are included.
        """
        holdout_names = set()
        with self._raising_ledger_errors(), self._free_session() as session:
            self._begin(session, "BEGIN READ ONLY")
            try:
                for relations in self._readable_relations(session.connection):
                    name_rows = self._query(
                        session.connection,
                        "SELECT holdout FROM {schema}.{ledger}",
                        None,
                        relations=relations,
                    )
                    holdout_names |= {name for (name,) in name_rows}
            finally:
                self._roll_back(session)
        return sorted(holdout_names)

    def _readable_relations(self, connection):
        """Yield names of a schema and of its tables or views of ledgers and of entries.

        They are readable for this role, and in the schema of the URL or of version 0.1.
        """
        layouts = self._execute(connection, sql_texts.LAYOUTS).fetchall()
        for schema, is_readable, has_views in layouts:
            is_own_or_older = schema == self.url.schema or not has_views
            if is_own_or_older and (is_readable or has_views):
                yield schema, *(_TABLES if is_readable else _VIEWS)

    # -- reading ------------------------------------------------------------------------------

    def _read(self, session, after_number, limit=None):
        """Return the result of :meth:`read`, in a new transaction of a session."""
        self._begin(session, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        try:
            return self._select_contents(session.connection, after_number, limit)
        finally:
            self._roll_back(session)

    def _select_contents(self, connection, after_number, limit=None):
        """Return the result of :meth:`read`, inside a transaction of a connection."""
        # Rights may be granted while this process runs, and a ledger may be created or upgraded.
        is_outdated = (
            self._relations is None or self._relations[1:] == _VIEWS or self._reads_older_tables()
        )
        if is_outdated:
            self._relations = self._relations_of_holdout(connection)
        if self._relations is None:
            return None
        parameters = {"holdout": self.url.holdout, "after": after_number, "limit": limit}
        header_and_head = self._query(connection, sql_texts.HEAD, parameters).fetchone()
        if header_and_head is None:
            self._relations = None
            return None
        # known_digest: digest of entry ``after_number``, None if it is missing.
        header, header_digest, last_number, last_digest, known_digest = header_and_head
        rows = [Row(*row) for row in self._query(connection, sql_texts.ENTRIES, parameters)]
        return LedgerContents(
            header=header,
            header_digest=header_digest,
            head=(last_number, last_digest),
            known_digest=known_digest if after_number else header_digest,
            rows=rows,
        )

    def _relations_of_holdout(self, connection):
        """Return names of the schema, ledger table and entry table with this holdout, or None.

        The tables are views if this role may read only these.
        """
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
        # Version 0.1 created its tables in the first schema of the search_path.
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

    def _reads_older_tables(self):
        """Return whether the ledger is read from tables of version 0.1 in another schema."""
        return self._relations is not None and self._relations[0] != self.url.schema

    def _query(self, connection, statement, parameters, *, relations=None):
        """Execute a query and return its cursor.

        ``relations``: names of schema, ledger table and entry table; None: ``self._relations``.
        """
        schema, ledger, log = relations or self._relations
        return self._execute(
            connection, statement, parameters, schema=schema, ledger=ledger, log=log
        )

    # -- writing ------------------------------------------------------------------------------

    def _make_tables(self, connection, data_digest, *, is_upgrade):
        """Create tables of this version in the schema of the URL, unless it has them.

        Raises LedgerMismatchError if another schema that this role can read has a ledger of the
        same records or the same name.
        ``data_digest``: digest of the holdout records. ``is_upgrade``: whether tables of version
        0.1 are ignored.
        """
        has_current_tables = False
        for schema, is_readable, has_views in self._execute(connection, sql_texts.LAYOUTS):
            if schema == self.url.schema:
                has_current_tables = has_views  # version 0.1 created no views
            elif is_readable and (has_views or not is_upgrade):
                parameters = {"holdout": self.url.holdout, "data": f'"data":"{data_digest}"'}
                relations = (schema, *_TABLES)
                recorded_row = self._query(
                    connection, sql_texts.SAME_DATA, parameters, relations=relations
                ).fetchone()
                if recorded_row is not None:
                    raise self._second_ledger_error(recorded_row[0], schema)
        if not has_current_tables:
            self._execute(connection, sql_texts.TABLES)

    def _append_row(self, connection, expected_head, row):
        """Append an entry; return False, and write nothing, unless ``expected_head`` is stored."""
        append_sql = f"SELECT {{schema}}.sklearn_bdp_append({', '.join(['%s'] * 10)})"
        values = (self.url.holdout, *expected_head, *row)
        (is_appended,) = self._execute(connection, append_sql, values).fetchone()
        return is_appended

    def _begin_writing(self, session, timeout):
        """Begin a transaction and lock the row of this holdout in the table of ledgers.

        Raises LedgerBusyError if the row is not free within ``timeout`` seconds. Without tables of
        this version nothing is locked, and the transaction is read-only.
        """
        import psycopg

        timeout_milliseconds = max(1, math.ceil(1000 * timeout))
        lock_row_sql = (
            f"SET LOCAL lock_timeout = {timeout_milliseconds}; "
            "SET LOCAL application_name = {writer}; SELECT {schema}.sklearn_bdp_lock({holdout})"
        )
        now = datetime.datetime.now(datetime.UTC)
        sql_literals = {"writer": _application_name(start=now), "holdout": self.url.holdout}
        try:
            self._begin(session, "BEGIN", lock_row_sql, **sql_literals)
        except psycopg.errors.LockNotAvailable:
            self._roll_back(session)
            raise LedgerBusyError(
                f"ledger {self} is held {self._describe_writer(session)} for longer than "
                f"ledger_timeout ({timeout:g} s). The holdout was not queried. Try again, or end "
                "that process."
            ) from None
        except (psycopg.errors.UndefinedFunction, psycopg.errors.InvalidSchemaName):
            self._roll_back(session)
            # There are tables of version 0.1, or none. Reading raises the error for each case.
            self._begin(session, "BEGIN READ ONLY")

    def _describe_writer(self, session):
        """Return a clause on the current writer for a message, such as "by role 'ann' (...)"."""
        import psycopg

        try:
            parameters = {"holdout": self.url.holdout}
            writer_row = self._execute(session.connection, sql_texts.HOLDER, parameters).fetchone()
        except psycopg.Error:
            writer_row = None
        if writer_row is None:
            return "by another process"
        role, application, address, start_time = writer_row
        phrases = [f"by role {role!r} ({application})"]
        if address is not None:
            phrases.append(f"from {address}")
        if start_time is not None:
            phrases.append(f"since {start_time:%Y-%m-%d %H:%M:%S %Z}")
        return " ".join(phrases)

    def _is_recorded(self, row):
        """Return whether an entry is in the ledger; None if the server cannot be reached."""
        session = self._own_session()
        try:
            with self._raising_ledger_errors():
                # The lock waits for the end of the lost transaction.
                self._begin_writing(session, self._timeout)
                contents = self._select_contents(session.connection, row.number)
                return contents.known_digest == row.digest
        except LedgerUnavailableError:
            return None

    # -- the connection -----------------------------------------------------------------------

    def _own_session(self):
        """Return the session that backends of this process with the same URL share."""
        if self._session is None or self._session.owner_pid != os.getpid():
            self._session = _session_of(self.url)
            self._locked_connection = None
        return self._session

    @contextlib.contextmanager
    def _free_session(self):
        """Yield the shared session, or a temporary session while another thread uses it."""
        shared_session = self._own_session()
        is_acquired = False
        temporary_session = None
        try:
            is_acquired = shared_session.in_use.acquire(blocking=False)
            if not is_acquired:
                temporary_session = _Session(self.url)
            yield shared_session if is_acquired else temporary_session
        finally:
            if is_acquired:
                shared_session.in_use.release()
            if temporary_session is not None:
                temporary_session.close()

    def _begin(self, session, begin_sql, *later_statements, **sql_names):
        """Execute a BEGIN statement, statements that set time limits, and later statements.

        A session without a usable connection is connected first. ``sql_names``: values of the names
        in braces in the statements, as for :meth:`_complete`.
        """
        import psycopg

        milliseconds = max(1, math.ceil(1000 * self._timeout))
        idle_milliseconds = max(milliseconds, math.ceil(1000 * _MIN_IDLE_TIMEOUT))
        time_limits_sql = (
            f"SET LOCAL statement_timeout = {milliseconds + 500}; "  # later than lock_timeout
            f"SET LOCAL idle_in_transaction_session_timeout = {idle_milliseconds}"
        )
        statement = "; ".join([begin_sql, time_limits_sql, *later_statements])
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
        """Execute a statement and return its cursor.

        If the server does not reply in time, this closes the connection and raises
        LedgerUnavailableError. ``parameters``: values of the placeholders (``%s``), None without
        any. ``sql_names``: values of the names in braces, as for :meth:`_complete`.
        """
        query = self._complete(statement, **sql_names) if "{" in statement else statement
        with _reply_within(connection, self._timeout + _GRACE) as expired:
            try:
                # psycopg accepts several statements at once only if there are no parameters.
                if parameters is None:
                    return connection.execute(query)
                return connection.execute(query, parameters)
            except Exception:
                if not expired.is_set():
                    raise
        connection.close()
        raise LedgerUnavailableError(
            f"ledger {self}: the server did not reply within ledger_timeout ({self._timeout:g} s). "
            "Nothing was released. Query again with the same keys when it runs again."
        )

    def _complete(self, statement, *, writer="", holdout="", **relation_by_name):
        """Return an SQL statement with values in place of its names in braces.

        ``writer`` and ``holdout`` are inserted as literals. ``relation_by_name`` has identifiers
        for ``schema``, ``ledger`` and ``log``; the default of ``schema`` is that of the URL.
        """
        from psycopg import sql

        identifiers = {"schema": sql.Identifier(self.url.schema)}
        for name, relation in relation_by_name.items():
            identifiers[name] = sql.Identifier(relation)
        return sql.SQL(statement).format(
            **identifiers,
            writer=sql.Literal(writer),
            holdout=sql.Literal(holdout),
            schema_name=sql.Literal(self.url.schema),
            advisory_lock=sql.Literal(sql_texts.ADVISORY_LOCK),
        )

    def _roll_back(self, session):
        """Roll back the open transaction of a session, if any; close the session on failure."""
        import psycopg

        if not session.is_open():
            return
        try:
            if session.connection.info.transaction_status.name in ("INTRANS", "INERROR"):
                self._execute(session.connection, "ROLLBACK")
        except (psycopg.Error, LedgerUnavailableError):
            session.close()

    # -- errors -------------------------------------------------------------------------------

    def _second_ledger_error(self, holdout, schema):
        """Return the LedgerMismatchError for holdout records that have a ledger already.

        ``holdout``, ``schema``: names of that ledger.
        """
        schema_text = "" if schema == self.url.schema else f" in schema {schema}"
        return LedgerMismatchError(
            f"ledger {self} cannot be created: this database has a ledger of the same records, "
            f"holdout={holdout}{schema_text}. A second ledger would be a second budget for them. "
            "Use the URL of that ledger. The holdout was not queried."
        )

    @contextlib.contextmanager
    def _raising_ledger_errors(self):
        """Return a context manager that raises a LedgerError in place of an error of psycopg."""
        try:
            yield
            return
        except Exception as error:
            ledger_error = self._translate_error(error)
        raise ledger_error

    def _translate_error(self, error):
        """Return a LedgerError for an error of psycopg or of its import; others unchanged."""
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
            return corrupted_error(self, "its log and its head do not agree")
        server_text = " ".join(str(error).split()) or type(error).__name__
        server_text = self.url.hide_secrets(server_text).rstrip(".?")
        if isinstance(error, psycopg.errors.RaiseException):
            return corrupted_error(self, f"the server rejected an entry: {server_text}")
        if isinstance(error, psycopg.errors.InsufficientPrivilege):
            return LedgerUnavailableError(
                f"ledger {self}: the role of this URL lacks a right: {server_text}. The owner of "
                "the tables can grant it, see the roles in the guide for teams. The holdout was "
                "not queried."
            )
        return LedgerUnavailableError(
            f"ledger {self} cannot be read or written: {server_text}. No answer was released."
        )


@contextlib.contextmanager
def _reply_within(connection, seconds):
    """Return a context manager that shuts a connection down if its block takes too long.

    ``seconds``: longest time of the block. The context variable is an event that is set if the
    block took longer.
    """
    # If the processes of a server are stopped, its kernel still acknowledges TCP packets. Only the
    # waiting process can notice that there is no reply.
    expired = threading.Event()

    def shut_down():
        """Shut the socket of the connection down, which ends a call that waits for it."""
        expired.set()
        try:
            with socket.fromfd(
                connection.fileno(), socket.AF_INET, socket.SOCK_STREAM
            ) as duplicate_socket:
                duplicate_socket.shutdown(socket.SHUT_RDWR)
        except Exception:  # the connection was closed meanwhile
            return

    timer = threading.Timer(seconds, shut_down)
    timer.daemon = True
    timer.start()
    try:
        yield expired
    finally:
        timer.cancel()


def _application_name(*, start=None):
    """Return the name of this process that other roles see in ``pg_stat_activity``.

    ``start``: UTC time when this process began to write; None if it does not write.
    """
    suffix = "" if start is None else f" since {start:%H:%M:%S} UTC"
    name = f"sklearn_bdp {process_user()}@{host_name()}"
    ascii_name = name.encode("ascii", "replace").decode()
    return ascii_name[: _MAX_NAME_LENGTH - len(suffix)] + suffix
