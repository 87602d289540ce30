"""The row groups of Parquet files and of DuckDB tables, and queries that read some of them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tuskml.databases.duckdb import DuckDB
from tuskml.errors import DataError, TuskError
from tuskml.learners.receiving import Receiver, receiving
from tuskml.learners.row_groups import Piece, Storage

BLOCK = 256 << 10
"""Bytes of a block of DuckDB's own storage, its smallest read."""
TABLE_ROWS = 122_880
"""Rows in a row group of DuckDB's own storage."""
ALIAS = " AS source"
FIXED = re.compile(r".*\[(\d+)\]")


@dataclass(frozen=True)
class Place:
    """A row group: its relation, the column that numbers its rows, and its first row."""

    relation: str
    column: str
    first: int
    file: str = ""

    def relation_named(self, alias: str) -> str:
        """The relation with another alias."""
        return f"{self.relation.removesuffix(ALIAS)} AS {alias}"


@dataclass(frozen=True)
class DuckRowGroups:
    """Row groups that a query reads by ranges of row numbers: DuckDB skips all others."""

    database: DuckDB
    label: str
    features: str
    places: Sequence[Place]
    storage: Storage

    @property
    def sizes(self) -> Sequence[int]:
        """Rows in each row group."""
        return self.storage.sizes

    def read(self, pieces: Sequence[Piece], receiver: Receiver) -> None:
        """Packs the rows of the pieces, one range of one row group each."""
        parts = " UNION ALL ".join(map(self.select, pieces))
        with receiving(receiver) as handle:
            text = self.database.text(handle)
            self.database.fetch(f"SELECT _tusk_send_rows({text}, y, x) FROM ({parts})")

    def select(self, piece: Piece) -> str:
        """Label and features of one piece's rows."""
        return f"SELECT {self.label} AS y, {self.features} AS x {self.where(piece)}"

    def rows_of(self, piece: Piece, gate: str, is_open: str) -> str:
        """All columns of one piece's rows, if a column of the one row of gate is true.

        For a file the row's numbers are known when the join starts, and DuckDB's scan skips by the
        least and the largest of them; no row is numbered -1. For a table it skips by constants
        only, and reads one vector before it sees that there is nothing to join. The numbers depend
        on the gate, since DuckDB would make a constant list when it plans: 4 MB for each piece.
        """
        place = self.places[piece.row_group]
        if not place.file:
            return f"SELECT * FROM (SELECT * {self.where(piece)}), (FROM {gate} WHERE {is_open})"
        begin = place.first + piece.first
        first = f"CASE WHEN {is_open} THEN {begin} ELSE -1 END"
        last = f"CASE WHEN {is_open} THEN {begin + piece.n_rows} ELSE 0 END"
        numbers = f"SELECT unnest(range({first}, {last})) AS tusk_row FROM {gate}"
        return (
            f"SELECT tusk_source.* FROM {place.relation_named('tusk_source')} "
            f"JOIN ({numbers}) AS tusk_numbers "
            f"ON tusk_source.{place.column} = tusk_row"
        )

    def where(self, piece: Piece) -> str:
        """The FROM and WHERE clauses of one piece's rows."""
        place = self.places[piece.row_group]
        begin = place.first + piece.first
        end = begin + piece.n_rows - 1
        return f"FROM {place.relation} WHERE {place.column} BETWEEN {begin} AND {end}"


def row_groups_of(
    database: DuckDB, source: str, files: Sequence[str], label: str, features: str
) -> DuckRowGroups | None:
    """The row groups of a table, or of Parquet files; None without any, as for a view."""
    expressions = f"{label} {features}"
    found = (
        of_parquet(database, files, expressions)
        if files
        else of_table(database, source, expressions)
    )
    return None if found is None else DuckRowGroups(database, label, features, *found)


def of_parquet(
    database: DuckDB, files: Sequence[str], expressions: str
) -> tuple[list[Place], Storage] | None:
    """Row groups as the files' footers list them; DuckDB reads a column of a row group as a
    whole.
    """
    paths = ", ".join(map(database.text, files))
    rows = database.fetch(
        "SELECT file_name, path_in_schema, any_value(row_group_num_rows), "
        f"sum(total_compressed_size) FROM parquet_metadata([{paths}]) GROUP BY GROUPING SETS "
        "((file_name, row_group_id), (path_in_schema)) ORDER BY file_name, row_group_id"
    )
    columns = [(path.split(",")[0].strip(), float(n)) for _, path, _, n in rows if path]
    used = [n for name, n in columns if may_read(name, expressions)] or [n for _, n in columns]
    places, sizes = [], []
    before, first = None, 0
    for name, path, size, _ in rows:
        if path is not None:
            continue
        if name != before:
            before, first = name, 0
        relation = f"read_parquet({database.text(name)}, file_row_number = true){ALIAS}"
        places.append(Place(relation, "file_row_number", first, name))
        sizes.append(int(size))
        first += int(size)
    return (places, Storage("parquet", tuple(sizes), sum(used), whole=True)) if places else None


def of_table(
    database: DuckDB, relation: str, expressions: str
) -> tuple[list[Place], Storage] | None:
    """Ranges of a table's row ids."""
    found = table_row_groups(database, relation)
    if not found:
        return None
    places, sizes = zip(*found, strict=True)
    return list(places), table_storage(database, relation, sizes, expressions)


def table_storage(
    database: DuckDB, relation: str, sizes: Sequence[int], expressions: str
) -> Storage:
    """Describes how a table lies on the disk: each column by itself in blocks, from which vectors
    are read.

    Nothing is read of a table in memory, whose columns have no blocks.
    """
    kept: dict[str, set[int]] = {}
    try:
        found = database.fetch(
            "SELECT column_name, block_id FROM "
            f"pragma_storage_info({database.text(relation)}) WHERE persistent AND block_id >= 0"
        )
    except TuskError:  # such as a table of another database's format
        found = []
    for name, block in found:
        if may_read(name, expressions):
            kept.setdefault(name, set()).add(block)
    blocks = len(set().union(*kept.values())) if kept else 0
    return Storage("table", tuple(sizes), float(blocks * BLOCK), max(len(kept), 1), BLOCK)


def may_read(column: str, expressions: str) -> bool:
    """Returns whether expressions may read a column: its name is a word of them, in any case."""
    return re.search(rf"(?<!\w){re.escape(column)}(?!\w)", expressions, re.IGNORECASE) is not None


def table_row_groups(database: DuckDB, relation: str) -> list[tuple[Place, int]]:
    """Ranges of a table's row ids."""
    try:
        (last,) = database.fetch(f"SELECT max(rowid) FROM {relation}")[0]
    except DataError:  # a view has no row ids
        return []
    rows = 0 if last is None else int(last) + 1
    return [
        (Place(relation, "rowid", first), min(TABLE_ROWS, rows - first))
        for first in range(0, rows, TABLE_ROWS)
    ]


def width(database: DuckDB, source: str, features: str) -> int | None:
    """Returns the number of features of a dense array, from its type or from the first rows."""
    kind = database.columns(f"SELECT {features} AS x FROM {source}")[0][1]
    fixed = FIXED.fullmatch(kind)
    if fixed:
        return int(fixed[1])
    if not kind.endswith("[]"):
        return None
    nothing = f"(SELECT 1) LEFT JOIN (SELECT * FROM {source} LIMIT 0) ON true"
    ((listed,),) = database.fetch(f"SELECT len({features}) FROM {nothing}")
    if listed:  # a list of columns has its length in any row, and no rows need be read
        return int(listed)
    rows = database.fetch(f"SELECT len({features}) FROM {source} LIMIT 100")
    return max((int(n) for (n,) in rows if n), default=None)
