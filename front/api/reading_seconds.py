"""Measures the seconds of reading and packing rows in each database, for plans by row group.

The seconds are those of `learners/machine/reading.py`, of one thread: a query of one row; a value
of rows that are scanned; and packing a value in addition. Rows are packed by the aggregate that
explains a training, which does nothing else with rows when the options name the plan. Seconds are
those of the processor, which other work on the machine changes little.
"""

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from tuskml.databases.connection import connect
from tuskml.databases.database import Database
from tuskml.databases.duckdb import DuckDB
from tuskml.databases.opening import open_database
from tuskml.databases.postgres import Postgres
from tuskml.learners.machine.reading import LEAST, TABLES, median_seconds

ROWS, WIDTHS = 122_880, (4, 28)
GIVEN = '{"algorithm": "lbfgs"}'
"""Options that name a plan, so that none is looked for."""
SCHEDULED = "/proc/{}/schedstat"
"""Nanoseconds of a process, first of all."""
Tell = Callable[[str], None]
Clock = Callable[[], float]


class ReadingSeconds(NamedTuple):
    """Seconds: of a query, and of a value that is decoded and that is packed."""

    query: float
    decode: float
    pack: float


class Texts(NamedTuple):
    """SQL of the rows to read: all, one of them, and a query that scans all columns."""

    every: str
    one: str
    scan: str


def measure(tell: Tell, url: str | None = None) -> dict[str, dict[str, float]]:
    """Measures the member `reading` of a calibration, by TABLES and kind, for databases that can
    be measured.

    url: of a PostgreSQL database with the extension, in which a temporary table is made.
    """
    found: dict[str, dict[str, float]] = {name: {} for name in TABLES}

    def put(kind: str, taken: ReadingSeconds) -> None:
        for name, seconds in zip(TABLES, taken, strict=True):
            found[name][kind] = max(seconds, LEAST)

    tell("reading")
    for kind, taken in of_duckdb():
        put(kind, taken)
    if url is not None:
        tell("reading in PostgreSQL")
        put("blocks", of_postgres(url))
    return found


def of_duckdb() -> Iterator[tuple[str, ReadingSeconds]]:
    """Returns the seconds to read a Parquet file and a table on one thread."""
    with tempfile.TemporaryDirectory() as folder, connect(f"{folder}/rows.duckdb") as con:
        con.execute("SET threads = 1")
        database = DuckDB(con)
        tables, files = [], []
        for d in WIDTHS:
            drawn = ", ".join(
                ["random()::FLOAT AS y", *(f"random()::FLOAT AS x{j}" for j in range(d))]
            )
            name, scan = f"rows{d}", " + ".join(f"sum({c})" for c in columns(d))
            con.execute(f"CREATE TABLE {name} AS SELECT {drawn} FROM range({ROWS})")
            con.execute("CHECKPOINT")
            tables.append(seconds(database, d, Texts(name, f"{name} WHERE rowid = 0", scan)))
            paths = []
            for rows in (ROWS, 1):
                paths.append(f"'{Path(folder) / name}-{rows}.parquet'")
                con.execute(
                    f"COPY (FROM {name} LIMIT {rows}) TO {paths[-1]} "
                    f"(FORMAT parquet, ROW_GROUP_SIZE {ROWS})"
                )
            files.append(seconds(database, d, Texts(paths[0], paths[1], scan)))
    yield "parquet", middle(files)
    yield "table", middle(tables)


def of_postgres(url: str) -> ReadingSeconds:
    """Returns the seconds to read a range of a table's blocks; a tuple is decoded up to its last
    column.
    """
    with open_database(url) as database:
        assert isinstance(database, Postgres)
        found = []
        for d in WIDTHS:
            name = f"pg_temp.tuskml_rows{d}"
            drawn = ", ".join(
                ["random()::real AS y", *(f"random()::real AS x{j}" for j in range(d))]
            )
            database.execute(
                f"CREATE TEMPORARY TABLE tuskml_rows{d} AS SELECT {drawn} "
                f"FROM generate_series(1, {ROWS})"
            )
            every = f"{name} WHERE ctid >= '(0,0)'"
            one = f"{name} WHERE ctid = '(0,1)'"
            found.append(seconds(database, d, Texts(every, one, f"count(x{d - 1})")))
    return middle(found)


def seconds(database: Database, d: int, texts: Texts) -> ReadingSeconds:
    """Returns the seconds to read rows of d features and a label."""
    clock = clock_of(database)
    items = [f"{column}::float8" for column in columns(d)]
    packing = (
        f"SELECT {database.function('explain_training')}('linear', y::float8, "
        f"{database.array(items[1:])}, {database.text(GIVEN)}) FROM "
    )
    scanning = f"SELECT {texts.scan} FROM "
    one = median_seconds(lambda: database.fetch(packing + texts.one), clock)
    packed = median_seconds(lambda: database.fetch(packing + texts.every), clock) - one
    scanned = median_seconds(lambda: database.fetch(scanning + texts.every), clock)
    scanned -= median_seconds(lambda: database.fetch(scanning + texts.one), clock)
    values = ROWS * (d + 1)
    return ReadingSeconds(one, scanned / values, (packed - scanned) / values)


def columns(d: int) -> list[str]:
    """The label and the features."""
    return ["y", *(f"x{j}" for j in range(d))]


def middle(found: list[ReadingSeconds]) -> ReadingSeconds:
    """The mean of each, over widths, of logarithms."""
    return ReadingSeconds(
        *(
            statistics.geometric_mean([max(x, LEAST) for x in all_of])
            for all_of in zip(*found, strict=True)
        )
    )


def clock_of(database: Database) -> Clock:
    """Seconds of the processor that runs the queries of a database; of a server elsewhere, all."""
    if isinstance(database, DuckDB):
        return time.process_time
    ((process,),) = database.fetch("SELECT pg_backend_pid()")
    path = Path(SCHEDULED.format(process))
    if not path.exists():
        return time.perf_counter
    return lambda: int(path.read_text().split()[0]) / 1e9
