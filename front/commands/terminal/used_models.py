"""The stored models that the tables of a database refer to."""

from tuskml.databases.database import Database
from tuskml.databases.postgres import Postgres
from tuskml.text.expressions import quote_name

REFERENCE = "[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}@[0-9]{1,9}:[0-9a-f]{16}"
DUCKDB_COLUMNS = """
SELECT c.database_name, c.schema_name, c.table_name, c.column_name, c.data_type
FROM duckdb_columns() AS c JOIN duckdb_tables() AS t USING (database_oid, schema_oid, table_oid)
WHERE NOT t.internal AND regexp_matches(c.data_type, '"?store"? VARCHAR')
"""
POSTGRES_COLUMNS = """
SELECT n.nspname, c.relname, a.attname, a.atttypid <> t.oid
FROM pg_catalog.pg_type AS t
JOIN pg_catalog.pg_extension AS e ON e.extname = 'tuskml' AND e.extnamespace = t.typnamespace
JOIN pg_catalog.pg_attribute AS a ON a.atttypid IN (t.oid, t.typarray) AND NOT a.attisdropped
JOIN pg_catalog.pg_class AS c ON c.oid = a.attrelid AND c.relkind IN ('r', 'm', 'p')
JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
WHERE t.typname = 'tuskml_model' AND a.attnum > 0
"""


def find_used_models(database: Database) -> set[str]:
    """References to stored models in all tables: the registry and any other.

    Raises TuskError if a table may not be read: its references are unknown then.
    """
    statements = _in_postgres if isinstance(database, Postgres) else _in_duckdb
    found: set[str] = set()
    for statement in statements(database):
        found |= {text for (text,) in database.fetch(statement) if text}
    return found


def _in_duckdb(database: Database) -> list[str]:
    statements = []
    for *names, column, kind in database.fetch(DUCKDB_COLUMNS):
        table, value = ".".join(map(quote_name, names)), quote_name(column)
        whole = kind.startswith("STRUCT(task ") and not kind.endswith("]")
        text = f"({value}).store" if whole else f"{value}::VARCHAR"
        found = f"unnest(regexp_extract_all({text}, '{REFERENCE}'))"
        statements.append(f"SELECT DISTINCT {found} FROM {table}")
    return statements


def _in_postgres(database: Database) -> list[str]:
    """A policy that would hide rows is an error, as it is for pg_dump."""
    statements = ["SELECT NULL::text FROM pg_catalog.set_config('row_security', 'off', false)"]
    for schema, name, column, several in database.fetch(POSTGRES_COLUMNS):
        table, value = f"{quote_name(schema)}.{quote_name(name)}", f"t.{quote_name(column)}"
        models = f", pg_catalog.unnest({value}) AS m" if several else ""
        text = "m.store" if several else f"({value}).store"
        statements.append(f"SELECT DISTINCT {text} FROM {table} AS t{models}")
    return statements
