"""Ranges of a PostgreSQL table's blocks, and queries that read some of them.

A range of ctid is a TID range scan: the server reads those blocks and no others. Their rows come
by COPY into a DuckDB in memory, whose packers and kernels train on them.
"""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass

import psycopg

from tuskml.databases.database import failure, kind_of
from tuskml.databases.duckdb import DuckDB
from tuskml.databases.postgres import Postgres
from tuskml.learners.receiving import Receiver, receiving
from tuskml.learners.row_groups import Piece

GROUP_ROWS = 8192
"""About how many rows the blocks of a range have."""
TABLE = """
SELECT pg_catalog.pg_relation_size(c.oid) / pg_catalog.current_setting('block_size')::bigint,
       CASE WHEN c.relpages > 0 AND c.reltuples > 0 THEN c.reltuples / c.relpages END
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_am a ON a.oid = c.relam
WHERE c.oid = pg_catalog.to_regclass({}) AND c.relkind = 'r' AND a.amname = 'heap'
"""
IN_BLOCKS = "SELECT count(*)::float8 FROM {} AS source WHERE ctid < '({},0)'::tid"
PACK = """
SELECT explain_training({}, y, ('[' || x[2:-2] || ']')::DOUBLE[])
FROM read_csv({}, header = false, auto_detect = false, delim = ',', quote = '"', escape = '"',
              max_line_size = 33554432, columns = {{'y': 'DOUBLE', 'x': 'VARCHAR'}})
"""


@dataclass(frozen=True)
class PostgresRowGroups:
    """Ranges of `blocks` blocks; sizes: about how many rows each has."""

    database: Postgres
    packer: DuckDB
    table: str
    label: str
    features: str
    blocks: int
    sizes: Sequence[int]

    def read(self, pieces: Sequence[Piece], receiver: Receiver) -> None:
        """Packs the rows of the pieces, a part of a range by its share of the blocks."""
        parts = " UNION ALL ".join(map(self.select, pieces))
        with tempfile.NamedTemporaryFile(prefix="tuskml-", suffix=".csv") as file:
            self.copy(f"COPY ({parts}) TO STDOUT (FORMAT csv)", file)
            if file.tell() == 0:
                return
            with receiving(receiver) as token:
                text = self.packer.text
                self.packer.fetch(PACK.format(text(token), text(file.name)))

    def copy(self, query: str, file: "tempfile._TemporaryFileWrapper[bytes]") -> None:
        """The answer to COPY, into a file."""
        try:
            with (
                self.database.connection.transaction(),
                self.database.connection.cursor() as cursor,
                cursor.copy(query.encode(cursor.connection.info.encoding)) as answer,
            ):
                for data in answer:
                    file.write(data)
        except psycopg.errors.QueryCanceled:
            raise
        except psycopg.Error as error:
            message = error.diag.message_primary or str(error)
            raise failure(error, " ".join(message.split())) from error
        file.flush()

    def select(self, piece: Piece) -> str:
        """Label and features of the rows in a piece's blocks."""
        size = max(1, self.sizes[piece.row_group])
        first = piece.row_group * self.blocks
        begin = first + self.blocks * piece.first // size
        end = first + -(-self.blocks * (piece.first + piece.n_rows) // size)
        return (
            f"SELECT {self.label} AS y, {self.features} AS x FROM {self.table} AS source "
            f"WHERE ctid >= '({begin},0)'::tid AND ctid < '({end},0)'::tid"
        )


def row_groups_of(
    database: Postgres, packer: DuckDB, table: str, label: str, features: str
) -> PostgresRowGroups | None:
    """The block ranges of an ordinary table; None for a view and the like, and for few rows."""
    found = database.fetch(TABLE.format(database.text(table)))
    if not found:
        return None
    n_blocks, density = int(found[0][0]), found[0][1]
    if density is None and n_blocks:  # never analysed: what its first blocks say
        seen = min(64, n_blocks)
        density = database.fetch(IN_BLOCKS.format(table, seen))[0][0] / seen
    if not density:
        return None
    blocks = max(1, round(GROUP_ROWS / float(density)))
    sizes = [
        round(min(blocks, n_blocks - first) * float(density))
        for first in range(0, n_blocks, blocks)
    ]
    kinds = database.columns(f"SELECT {label} AS y, {features} AS x FROM {table}")
    if kind_of(kinds[0][1]) == "boolean":
        label = f"({label})::integer"
    return PostgresRowGroups(database, packer, table, label, features, blocks, sizes)


def width(database: Postgres, table: str, features: str) -> int | None:
    """How many features an array has, by that of a first row; None for sparse ones."""
    kind = database.columns(f"SELECT {features} AS x FROM {table}")[0][1]
    if kind_of(kind) != "array":
        return None
    rows = database.fetch(f"SELECT cardinality({features}) FROM {table} LIMIT 100")
    return max((int(n) for (n,) in rows if n), default=None)
