"""The number of times that units read the rows of files which are not sorted by group."""

from tuskml.cluster.units import Units
from tuskml.databases.duckdb import DuckDB
from tuskml.text.expressions import quote_name

MOST_READS = 4.0
MANY_ROWS = 20_000_000
"""Rows that are read again in seconds, whatever their order."""
ROWS_READ = """
WITH row_groups AS (
    SELECT any_value(row_group_num_rows) AS n,
           min(TRY_CAST(stats_min_value AS {kind})) AS least,
           max(TRY_CAST(stats_max_value AS {kind})) AS most
    FROM parquet_metadata([{files}]) WHERE path_in_schema = {column}
    GROUP BY file_name, row_group_id
)
SELECT sum(n)::BIGINT FROM row_groups AS r JOIN (VALUES {units}) AS u(least, most)
ON r.least <= u.most AND r.most >= u.least
"""
"""Counts the row groups that may hold one of a unit's groups, for all units, as a reader skips
the others.
"""


def advice(database: DuckDB, units: Units) -> str | None:
    """Advice for units that read each row several times; None for others."""
    rows = sum(group.rows for group in units.catalogue.groups)
    split = any(shard.checksum is not None for shard in units.catalogue.shards)
    if split or len(units.batches) <= 1 or rows * len(units.batches) <= MANY_ROWS:
        return None
    read = rows_read(database, units)
    if read <= max(MANY_ROWS, MOST_READS * rows):
        return None
    return (
        f"{len(units.batches):,} units read each row about {read / rows:.0f} times, since the "
        "files are not sorted by group: tuskml.split sorts them once"
    )


def rows_read(database: DuckDB, units: Units) -> int:
    """Rows that all units read, by the first key; 0 where no statistics say."""
    name, sql = units.training.keys[0]
    kind = units.catalogue.key_types[0]
    if sql != quote_name(name):
        return 0
    ranges = [units.range_of(batch) for _, batch in units.batches.values()]
    values = ", ".join(f"({least}, {most})" for least, most in filter(None, ranges))
    files = ", ".join(database.text(shard.path) for shard in units.catalogue.shards)
    query = ROWS_READ.format(kind=kind, files=files, column=database.text(name), units=values)
    return int(database.fetch(query)[0][0] or 0) if values else 0
