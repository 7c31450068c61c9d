"""The tables of a ledger file: a header, a log of entries, and the head that the log must reach.

The log has no index to trust and no second table to disagree with: what an entry says is in its
row, under its digest. The head is updated in the transaction that adds an entry. It stands on a
page of its own, so a file of which only a part survived (a journal lost after a crash) shows it.
"""

import functools
import sqlite3

from sklearn_bdp.exceptions import LedgerCorruptedError, LedgerVersionError
from sklearn_bdp.ledger._records import canonical

APPLICATION_ID = 0x42445031  # "BDP1", kept in the header of the file
SCHEMA_VERSION = 4

_TABLES = (
    """CREATE TABLE header (
    id INTEGER PRIMARY KEY CHECK (id = 0),
    content TEXT NOT NULL,      -- canonical JSON: fingerprints, parameters, kind of chain
    digest TEXT NOT NULL        -- start of the chain
)""",
    """CREATE TABLE log (
    number INTEGER PRIMARY KEY, -- 1, 2, ... without holes
    kind TEXT NOT NULL,         -- 'batch' or 'note'
    content TEXT NOT NULL,      -- canonical JSON of a BatchRecord, or of a note's name and content
    answers TEXT NOT NULL,      -- canonical JSON of the rows of the batch
    sealed TEXT NOT NULL,       -- noise of the current threshold, salted, shown to nobody
    commitment TEXT NOT NULL,   -- digest of sealed
    digest TEXT NOT NULL        -- the link: over the one before and all of the above
)""",
    """CREATE TABLE head (
    id INTEGER PRIMARY KEY CHECK (id = 0),
    number INTEGER NOT NULL,    -- of the last entry
    digest TEXT NOT NULL
)""",
)
_TRIGGERS = tuple(
    f"CREATE TRIGGER {table}_{verb.lower()} BEFORE {verb} ON {table} "
    "BEGIN SELECT RAISE(ABORT, 'a ledger is append-only'); END"
    for table in ("header", "log")
    for verb in ("UPDATE", "DELETE")
)


def create_schema(connection, header, chain):
    """Write an empty ledger with the given header (a dict), append-only by trigger."""
    connection.execute("BEGIN IMMEDIATE")
    for statement in (*_TABLES, *_TRIGGERS):
        connection.execute(statement)
    content = canonical({**header, "chain": chain.kind})
    start = chain.start(content)
    connection.execute("INSERT INTO header VALUES (0, ?, ?)", (content, start))
    connection.execute("INSERT INTO head VALUES (0, 0, ?)", (start,))
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    connection.execute("COMMIT")


def check_schema(connection, path):
    """Raise unless the file is a whole ledger that this version can read."""
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if application != APPLICATION_ID:
        raise LedgerCorruptedError(f"ledger {path} is not a ledger of this package.")
    if version > SCHEMA_VERSION:
        raise LedgerVersionError(
            f"ledger {path} has schema version {version}, this package reads {SCHEMA_VERSION}: "
            "install the newer version that wrote it."
        )
    if version < SCHEMA_VERSION:
        raise LedgerVersionError(
            f"ledger {path} has schema version {version} of a development version of this "
            f"package; this one reads {SCHEMA_VERSION}."
        )
    # No view, trigger or table but ours: a crafted one could answer in their place.
    if _objects(connection) != _expected_objects():
        raise LedgerCorruptedError(
            f"ledger {path} was edited: its tables or triggers are not those of this package."
        )
    try:
        problem = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
    except sqlite3.DatabaseError as error:
        if getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF in (
            sqlite3.SQLITE_BUSY,
            sqlite3.SQLITE_IOERR,
        ):
            raise
        problem = type(error).__name__
    if problem != "ok":
        raise LedgerCorruptedError(f"ledger {path} is damaged: SQLite's check found a fault.")


def _objects(connection):
    """Return everything that a database declares."""
    return set(connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master"))


@functools.lru_cache(maxsize=1)
def _expected_objects():
    connection = sqlite3.connect(":memory:")
    try:
        for statement in (*_TABLES, *_TRIGGERS):
            connection.execute(statement)
        return frozenset(_objects(connection))
    finally:
        connection.close()
