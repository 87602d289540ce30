"""`tuskml partition explain`: the features of a data set that would share a key, and the savings.

DuckDB reads the rows, LIBSVM files too, into a temporary table, which is then read in chunks.
"""

import argparse
import errno
import json
import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np

from tuskml.commands.terminal.usage import Parser, add_command, add_json, describe, files
from tuskml.errors import DataError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tuskml.partitioner import Explanation

IDS_A_CHUNK = 2_000_000
LIBSVM = """
CREATE TEMP TABLE tusk_rows AS
SELECT regexp_extract_all(text, '\\s([0-9]+):', 1)::BIGINT[] AS ids,
       regexp_full_match(text, '\\s*\\S+(\\s+[A-Za-z0-9]+:\\S+)*\\s*') AS whole, line
FROM (SELECT regexp_replace(line, '#.*', '') AS text, line
      FROM read_csv(?, columns = {'line': 'VARCHAR'}, delim = '\x01', quote = '', escape = '',
                    header = false, auto_detect = false, max_line_size = 16777216))
WHERE text SIMILAR TO '.*\\S.*'
"""
QUERY = """
CREATE TEMP TABLE tusk_rows AS
SELECT ids::BIGINT[] AS ids FROM ({}) AS given(ids) WHERE ids IS NOT NULL
"""


EXAMPLES = """
a LIBSVM file:
  tuskml partition explain a9a.svm --top 100
what a table's rows would ask for, in mini-batches of 32 rows:
  tuskml partition explain 'SELECT words FROM messages' --database mail.duckdb --batch-rows 32
"""


def grammar(partition: Parser) -> None:
    """Defines the grammar of `tuskml partition`."""
    describe(
        partition,
        None,
        "The layout of models larger than memory in their store.",
        EXAMPLES,
    )
    actions = partition.add_subparsers(dest="action", required=True, metavar="ACTION")
    explain = add_command(
        actions,
        "explain",
        show_partition,
        "the keys that rows would ask for, and the requests that this saves",
        "Partitions the features of a data set by their joint occurrence, and prints "
        "keys, sizes and the requests per row that this saves.",
        EXAMPLES,
    )
    add = explain.add_argument
    files(add("source", metavar="FILE|QUERY", help="a LIBSVM file, or SQL with one column of ids"))
    files(
        add("--database", default=":memory:", metavar="PATH", help="a DuckDB file for the query")
    )
    add(
        "--top",
        type=int,
        default=1000,
        metavar="K",
        help="frequent features (default %(default)s)",
    )
    add("--sample", type=int, default=10_000, metavar="N", help="rows (default %(default)s)")
    add("--seed", type=int, default=0, metavar="N", help="seed of the sample (default 0)")
    add("--seek", type=float, metavar="US", help="microseconds per request (default: as LevelDB)")
    add("--unit", type=float, metavar="NS", help="nanoseconds per feature (default: as LevelDB)")
    add("--block", type=int, metavar="N", help="rare features per key (default: the cheapest)")
    add("--batch-rows", type=int, default=1, metavar="N", help="rows that share requests (1)")
    add_json(explain, "print one JSON object")


def show_partition(args: argparse.Namespace) -> None:
    """Runs `tuskml partition explain` and prints the result."""
    from tuskml.partitioner.plan import as_text

    explanation = explain(args)
    if args.json:
        print(json.dumps(explanation.as_dict()))
    else:
        print(as_text(explanation))


def explain(args: argparse.Namespace) -> "Explanation":
    """Partitions the rows of a source."""
    from tuskml.partitioner import WARM_LEVELDB, Cost, Profile

    seek = WARM_LEVELDB.t_seek if args.seek is None else args.seek * 1e-6
    unit = WARM_LEVELDB.t_unit if args.unit is None else args.unit * 1e-9
    cost = Cost(seek, unit)
    profile = Profile(args.top, args.sample, args.seed)
    with closing(open_rows(args.source, args.database)) as connection:
        for indptr, ids in chunks(connection):
            profile.update(indptr, ids)
    made = profile.partition(cost, block=args.block, batch_rows=args.batch_rows)
    return made.explanation


def open_rows(source: str, database: str) -> duckdb.DuckDBPyConnection:
    """A connection whose table tusk_rows has the rows' ids."""
    is_file = Path(source).is_file()
    if not is_file and not any(map(str.isspace, source)):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), source)
    in_memory = is_file or database == ":memory:"
    connection = duckdb.connect(":memory:" if in_memory else database, read_only=not in_memory)
    try:
        if is_file:
            _load_libsvm(connection, source)
        else:
            _load_query(connection, source)
    except BaseException:
        connection.close()
        raise
    return connection


def chunks(
    connection: duckdb.DuckDBPyConnection,
) -> Iterator[tuple["NDArray[np.int64]", "NDArray[np.int64]"]]:
    """indptr and ids of some rows at a time, in the rows' order."""
    n_rows, n_ids = _one_row(connection, "SELECT count(*), sum(len(ids))::BIGINT FROM tusk_rows")
    step = max(1, IDS_A_CHUNK * n_rows // max(1, n_ids or 0))
    for begin in range(0, n_rows, step):
        some = f"FROM tusk_rows WHERE rowid BETWEEN {begin} AND {begin + step - 1}"
        lengths = connection.execute(f"SELECT len(ids) AS n {some}").fetchnumpy()["n"]
        ids = connection.execute(f"SELECT unnest(ids) AS id {some}").fetchnumpy()["id"]
        if np.ma.isMaskedArray(ids) and np.ma.getmaskarray(ids).any():
            raise DataError("a list of ids holds a NULL")
        yield np.concatenate(([0], np.cumsum(lengths))), np.asarray(ids)


def _load_libsvm(connection: duckdb.DuckDBPyConnection, file: str) -> None:
    connection.execute(LIBSVM, [file])
    wrong = connection.execute("SELECT line FROM tusk_rows WHERE NOT whole LIMIT 1").fetchone()
    if wrong:
        raise DataError(f"{file} is no LIBSVM file: a line begins with {wrong[0][:40]!r}")


def _load_query(connection: duckdb.DuckDBPyConnection, query: str) -> None:
    query = query.strip().rstrip(";")
    columns = connection.execute(f"DESCRIBE {query}").fetchall()
    names = [f"{name} {kind}" for name, kind, *_ in columns]
    if len(names) != 1 or not columns[0][1].endswith("]"):
        raise DataError(f"the query must return one column of id lists, got {', '.join(names)}")
    connection.execute(QUERY.format(query))


def _one_row(connection: duckdb.DuckDBPyConnection, query: str) -> tuple[Any, ...]:
    row = connection.execute(query).fetchone()
    return row if row is not None else ()
