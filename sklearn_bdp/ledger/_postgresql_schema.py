"""SQL statements that create, read and write ledgers in a PostgreSQL database.

Names of tables, views and functions of ledgers are qualified with their schema. Roles write through
functions that run with the rights of the owner of the tables. These functions create ledgers and
append entries, and can neither change nor remove entries.
"""

#: First key of the advisory locks that show who is writing. The second key is a hash of schema
#: and holdout. The key alone is that of the lock that creators of ledgers hold.
ADVISORY_LOCK = 1111773233

TABLES = """
CREATE SCHEMA IF NOT EXISTS {schema};

CREATE TABLE {schema}.sklearn_bdp_ledger (
    holdout text PRIMARY KEY,
    header text NOT NULL,
    start text NOT NULL,           -- digest of the header
    number integer NOT NULL,       -- of the last entry
    digest text NOT NULL,          -- of the last entry
    data text NOT NULL,            -- digest of the records: one ledger each
    chain text NOT NULL,           -- kind of the chain
    moved_to text,                 -- where the ledger went on
    created_by text NOT NULL DEFAULT session_user,
    created_at timestamptz NOT NULL DEFAULT now()
);
CREATE UNIQUE INDEX sklearn_bdp_one_ledger ON {schema}.sklearn_bdp_ledger (data)
    WHERE moved_to IS NULL;

CREATE TABLE {schema}.sklearn_bdp_log (
    holdout text NOT NULL REFERENCES {schema}.sklearn_bdp_ledger,
    number integer NOT NULL,
    kind text NOT NULL,
    content text NOT NULL,
    answers text NOT NULL,
    sealed text NOT NULL,          -- noise of the threshold in use: readers do not see it
    commitment text NOT NULL,
    digest text NOT NULL,
    PRIMARY KEY (holdout, number)
);

CREATE FUNCTION {schema}.sklearn_bdp_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    -- The owner deletes a ledger as a whole, in a transaction that names it.
    IF TG_OP = 'DELETE' THEN
        IF OLD.holdout = current_setting('sklearn_bdp.delete', true) THEN
            RETURN OLD;
        END IF;
    END IF;
    RAISE EXCEPTION 'a ledger is append-only';
END $$;
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON {schema}.sklearn_bdp_log
    FOR EACH ROW EXECUTE FUNCTION {schema}.sklearn_bdp_refuse();
CREATE TRIGGER no_truncate BEFORE TRUNCATE ON {schema}.sklearn_bdp_log
    EXECUTE FUNCTION {schema}.sklearn_bdp_refuse();
CREATE TRIGGER append_only BEFORE DELETE OR UPDATE OF holdout, header, start, data
    ON {schema}.sklearn_bdp_ledger
    FOR EACH ROW EXECUTE FUNCTION {schema}.sklearn_bdp_refuse();
CREATE TRIGGER no_truncate BEFORE TRUNCATE ON {schema}.sklearn_bdp_ledger
    EXECUTE FUNCTION {schema}.sklearn_bdp_refuse();

CREATE VIEW {schema}.sklearn_bdp_ledgers AS
    SELECT holdout, header, start, number, digest, data, chain, moved_to, created_by, created_at
    FROM {schema}.sklearn_bdp_ledger;
CREATE VIEW {schema}.sklearn_bdp_entries AS
    SELECT holdout, number, kind, content, answers, NULL::text AS sealed, commitment, digest
    FROM {schema}.sklearn_bdp_log;

CREATE FUNCTION {schema}.sklearn_bdp_digest(VARIADIC texts text[]) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT encode(sha256(string_agg(
        convert_to(octet_length(convert_to(part, 'UTF8'))::text || ':' || part, 'UTF8'),
        ''::bytea ORDER BY position
    )), 'hex') FROM unnest(texts) WITH ORDINALITY AS parts (part, position)
$$;

CREATE FUNCTION {schema}.sklearn_bdp_lock(name text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM FROM {schema}.sklearn_bdp_ledger WHERE holdout = name FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    -- Row locks have no entry in pg_locks. This lock shows who has the row; writers ignore it.
    PERFORM pg_try_advisory_xact_lock({advisory_lock}, hashtext({schema_name} || '.' || name));
    RETURN true;
END $$;

CREATE FUNCTION {schema}.sklearn_bdp_create(
    name text, new_header text, new_start text, new_data text, new_chain text
) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    other text;
BEGIN
    IF json_typeof(new_header::json) IS DISTINCT FROM 'object' THEN
        RAISE EXCEPTION 'the header of a ledger is a JSON object';
    END IF;
    PERFORM pg_advisory_xact_lock({advisory_lock});
    SELECT holdout INTO other FROM {schema}.sklearn_bdp_ledger
    WHERE holdout = name OR (data = new_data AND moved_to IS NULL) ORDER BY holdout <> name;
    IF other IS NULL THEN
        INSERT INTO {schema}.sklearn_bdp_ledger
            (holdout, header, start, number, digest, data, chain)
        VALUES (name, new_header, new_start, 0, new_start, new_data, new_chain);
    END IF;
    RETURN other;
END $$;

-- Append the entry after the head. Returns whether the head was where the writer expects it.
CREATE FUNCTION {schema}.sklearn_bdp_append(
    name text, expected_number integer, expected_digest text, entry_number integer, entry_kind text,
    entry_content text, entry_answers text, entry_sealed text, entry_commitment text,
    entry_digest text
) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    is_move boolean := entry_kind = 'fact' AND position('"name":"moved"' IN entry_content) > 0;
    kind_of_chain text;
BEGIN
    -- No text inside the JSON is decoded: it may hold characters that PostgreSQL does not store.
    IF entry_number IS DISTINCT FROM expected_number + 1
        OR entry_kind NOT IN ('batch', 'note', 'fact')
        OR json_typeof(entry_content::json) IS DISTINCT FROM 'object'
        OR position(CASE entry_kind WHEN 'batch' THEN '"n_answered":' ELSE '"name":"' END
            IN entry_content) = 0
        OR json_typeof(entry_answers::json) NOT IN ('array', 'object')
        OR entry_commitment IS DISTINCT FROM {schema}.sklearn_bdp_digest(entry_sealed)
        OR entry_digest !~ '^[0-9a-f]{{64}}$' THEN
        RAISE EXCEPTION 'this is not an entry of a ledger';
    END IF;
    UPDATE {schema}.sklearn_bdp_ledger SET
        number = entry_number,
        digest = entry_digest,
        moved_to = CASE WHEN is_move THEN entry_content::json->'content'->>'to' ELSE moved_to END
    WHERE holdout = name AND number = expected_number AND digest = expected_digest
    RETURNING chain INTO kind_of_chain;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    -- Links under a key can be verified only by those who have the key.
    IF kind_of_chain = 'sha256' AND entry_digest <> {schema}.sklearn_bdp_digest(
        expected_digest, entry_kind, entry_content, entry_answers, entry_commitment) THEN
        RAISE EXCEPTION 'the digest of an entry must follow from the entry';
    END IF;
    INSERT INTO {schema}.sklearn_bdp_log VALUES (
        name, entry_number, entry_kind, entry_content, entry_answers, entry_sealed,
        entry_commitment, entry_digest);
    RETURN true;
END $$;

REVOKE EXECUTE ON FUNCTION {schema}.sklearn_bdp_lock, {schema}.sklearn_bdp_create,
    {schema}.sklearn_bdp_append FROM PUBLIC;
"""

#: For each schema with tables of ledgers: its name, whether this role may read the entries, and
#: whether it has the views of this version. Version 0.1 created tables without views, in the first
#: schema of the search_path.
LAYOUTS = """
SELECT
    namespace.nspname,
    has_schema_privilege(namespace.oid, 'USAGE') AND has_table_privilege(log.oid, 'SELECT'),
    EXISTS (
        SELECT FROM pg_catalog.pg_class AS view WHERE view.relnamespace = namespace.oid
        AND view.relname = 'sklearn_bdp_entries' AND view.relkind = 'v'
    )
FROM pg_catalog.pg_class AS log
JOIN pg_catalog.pg_namespace AS namespace ON namespace.oid = log.relnamespace
WHERE log.relname = 'sklearn_bdp_log' AND log.relkind = 'r'
"""

EXISTS = "SELECT 1 FROM {schema}.{ledger} WHERE holdout = %(holdout)s"

HEAD = """
SELECT header, start, number, digest, (
    SELECT digest FROM {schema}.{log} WHERE holdout = %(holdout)s AND number = %(after)s
) FROM {schema}.{ledger} WHERE holdout = %(holdout)s
"""

# This package writes no number below 1; the reader of the rows rejects them.
ENTRIES = """
SELECT number, kind, content, answers, sealed, commitment, digest FROM {schema}.{log}
WHERE holdout = %(holdout)s AND (number > %(after)s OR number < 1)
ORDER BY number LIMIT %(limit)s::bigint
"""

# A header is canonical JSON: its text is searched, because it may hold texts that PostgreSQL cannot
# decode.
SAME_DATA = """
SELECT holdout FROM {schema}.{ledger}
WHERE holdout = %(holdout)s OR position(%(data)s IN header) > 0 LIMIT 1
"""

#: Role, application name, address and start of the transaction of the current writer. Every role
#: can see the first two.
HOLDER = """
SELECT
    activity.usename, activity.application_name, host(activity.client_addr), activity.xact_start
FROM pg_catalog.pg_locks AS locks
JOIN pg_catalog.pg_stat_activity AS activity ON activity.pid = locks.pid
WHERE locks.locktype = 'advisory' AND locks.granted AND activity.datname = current_database()
    AND locks.classid = {advisory_lock} AND locks.objsubid = 2
    AND locks.objid::bigint = (hashtext({schema_name} || '.' || %(holdout)s)::bigint & 4294967295)
"""
