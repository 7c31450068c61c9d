"""The tables of a ledger file and the chain of digests that runs through them."""

import sqlite3

from sklearn_bdp.exceptions import LedgerCorruptedError, LedgerVersionError
from sklearn_bdp.ledger._records import canonical, digest

__all__ = [
    "APPLICATION_ID",
    "SCHEMA_VERSION",
    "check_schema",
    "create_schema",
    "link_digest",
]

APPLICATION_ID = 0x42445031  # "BDP1", kept in the header of the file
SCHEMA_VERSION = 2

_TABLES = """
CREATE TABLE header (
    id INTEGER PRIMARY KEY CHECK (id = 0),
    content TEXT NOT NULL,      -- canonical JSON: fingerprints, parameters
    digest TEXT NOT NULL        -- start of the chain
);
CREATE TABLE batches (
    number INTEGER PRIMARY KEY, -- 1, 2, ... without holes
    content TEXT NOT NULL,      -- canonical JSON of a BatchRecord
    sealed TEXT NOT NULL,       -- noise of the current threshold, salted, shown to nobody
    commitment TEXT NOT NULL,   -- digest of sealed
    previous TEXT NOT NULL,     -- digest of the batch before, or of the header
    digest TEXT NOT NULL
);
CREATE TABLE answers (
    batch INTEGER NOT NULL,
    position INTEGER NOT NULL,
    key TEXT UNIQUE,
    code_length REAL NOT NULL,
    training_value REAL NOT NULL,
    value REAL NOT NULL,
    lower REAL NOT NULL,
    upper REAL NOT NULL,
    above INTEGER NOT NULL,
    PRIMARY KEY (batch, position)
) WITHOUT ROWID;
"""


def create_schema(connection, header):
    """Write an empty ledger with the given header (a dict), append-only by trigger."""
    statements = [part for part in _TABLES.split(";") if part.strip()]
    for table in ("header", "batches", "answers"):
        for verb in ("UPDATE", "DELETE"):
            statements.append(
                f"CREATE TRIGGER {table}_{verb.lower()} BEFORE {verb} ON {table} "
                "BEGIN SELECT RAISE(ABORT, 'a ledger is append-only'); END"
            )
    connection.execute("BEGIN IMMEDIATE")
    for statement in statements:
        connection.execute(statement)
    content = canonical(header)
    connection.execute("INSERT INTO header VALUES (0, ?, ?)", (content, digest(content)))
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
            f"ledger {path} has schema version {version}, this package reads up to "
            f"{SCHEMA_VERSION}: install the newer version that wrote it."
        )
    if version < 1:
        raise LedgerCorruptedError(f"ledger {path} has schema version {version}.")
    try:
        problem = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    except sqlite3.DatabaseError as error:
        if getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF in (
            sqlite3.SQLITE_BUSY,
            sqlite3.SQLITE_IOERR,
        ):
            raise
        problem = type(error).__name__
    if problem != "ok":
        raise LedgerCorruptedError(f"ledger {path} is damaged: SQLite's check found a fault.")


def link_digest(previous, content, commitment, rows):
    """Return the digest of one link: the link before, the account, the seal and the answers."""
    return digest(previous, content, commitment, canonical(rows))
