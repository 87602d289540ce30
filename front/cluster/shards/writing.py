"""Writes a sorted table as shards, and describes them."""

import bisect
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tuskml.cluster.shards.manifest import GroupRows, Manifest, ShardFile, checksum
from tuskml.databases.duckdb import DuckDB
from tuskml.errors import DataError
from tuskml.text.expressions import quote_name
from tuskml.version import VERSION

ROW_GROUP = 20_480
"""Rows of a row group: small ones let a reader skip the groups that it does not want."""
FIRST_ROWS = 50_000
"""Rows of a shard before it is known how many bytes a row has."""
FULL = 0.9
"""The target size of a shard as a share of the limit, since rows differ in bytes."""


@dataclass(frozen=True)
class Range:
    """Rows of the table that are a shard's."""

    begin: int
    end: int

    @property
    def count(self) -> int:
        """Returns the number of rows."""
        return self.end - self.begin


class Writing:
    """Writes one table, whose rows are in the order of the keys, into one folder."""

    def __init__(
        self,
        database: DuckDB,
        table: str,
        keys: Sequence[str],
        folder: Path,
        limit: int,
        taken: Callable[[Path], None] = lambda path: None,
    ) -> None:
        """taken: called with each shard's file when it is complete and described."""
        self.database, self.table, self.folder, self.limit = database, table, folder, limit
        self.taken = taken
        self.keys = tuple(keys)
        texts = [f"CAST({quote_name(key)} AS VARCHAR)" for key in keys]
        by = ", ".join(map(quote_name, keys)) or "()"
        groups = database.fetch(
            f"SELECT {', '.join([*texts, 'count(*)', 'min(rowid) AS first'])} FROM {table} "
            f"GROUP BY {by} HAVING count(*) > 0 ORDER BY first ASC"
        )
        if not groups:
            raise DataError("source has no rows, expected some to split")
        self.base: int = groups[0][-1]
        """Number of the first row: not 0 in a transaction that has made the table."""
        self.groups = [(*key, n, first - self.base) for *key, n, first in groups]
        self.ends: list[int] = [first + n for *_, n, first in self.groups]
        """The end of each group's rows."""
        self.types: tuple[str, ...] = ()
        if keys:
            columns = database.columns(f"SELECT {by} FROM {table}")
            self.types = tuple(kind for _, kind in columns)

    def manifest(self) -> Manifest:
        """Writes all shards; returns their manifest."""
        ranges: list[Range] = []
        shards: list[ShardFile] = []
        for rows, size in self.write_shards():
            path = self.path(len(shards))
            statistics = self.statistics(path)
            shards.append(ShardFile(path.name, rows.count, size, checksum(path), statistics))
            self.taken(path)
            ranges.append(rows)
        groups = tuple(self.describe_groups(ranges, shards))
        return Manifest(self.folder, self.keys, self.types, tuple(shards), groups, VERSION)

    def write_shards(self) -> Iterator[tuple[Range, int]]:
        """The shards' rows and bytes. A first one that is far too small is written again."""
        begin = number = 0
        last, per_row = self.ends[-1], math.nan
        while begin < last:
            rows, size = self.fitting(begin, number, per_row)
            is_guess, per_row = math.isnan(per_row), size / rows.count
            if is_guess and size < self.limit / 2 and rows.end < last:
                continue
            yield rows, size
            begin, number = rows.end, number + 1

    def fitting(self, begin: int, number: int, per_row: float) -> tuple[Range, int]:
        """Writes a shard that is within the limit, or is one row; its rows and bytes."""
        wish = FIRST_ROWS if math.isnan(per_row) else int(FULL * self.limit / per_row)
        while True:
            rows = Range(begin, self.find_end(begin, max(wish, 1)))
            size = self.copy(rows, number)
            if size <= self.limit or rows.count == 1:
                return rows, size
            wish = min(rows.count // 2, int(FULL * self.limit / size * rows.count))

    def find_end(self, begin: int, n: int) -> int:
        """Returns where a shard of about n rows ends: between groups, or within one larger than
        n.
        """
        group = bisect.bisect_right(self.ends, begin)
        starts_within = begin > (self.ends[group - 1] if group else 0)
        if starts_within or self.ends[group] > begin + n:
            return min(self.ends[group], begin + n)
        return self.ends[bisect.bisect_right(self.ends, begin + n) - 1]

    def path(self, number: int) -> Path:
        """A shard's file."""
        return self.folder / f"shard-{number + 1:06}.parquet"

    def copy(self, rows: Range, number: int) -> int:
        """Writes one shard; returns its bytes."""
        path = self.path(number)
        first, last = self.base + rows.begin, self.base + rows.end - 1
        self.database.fetch(
            f"COPY (SELECT * FROM {self.table} WHERE rowid BETWEEN {first} AND {last} "
            f"ORDER BY rowid ASC) TO {self.database.text(str(path))} "
            f"(FORMAT parquet, ROW_GROUP_SIZE {ROW_GROUP})"
        )
        return path.stat().st_size

    def statistics(self, path: Path) -> dict[str, dict[str, float]]:
        """The least and largest value and the NULLs of columns with numbers."""
        rows = self.database.fetch(
            "SELECT path_in_schema, min(TRY_CAST(stats_min_value AS DOUBLE)), "
            "max(TRY_CAST(stats_max_value AS DOUBLE)), sum(stats_null_count)::BIGINT "
            f"FROM parquet_metadata({self.database.text(str(path))}) "
            "WHERE type IN ('INT32', 'INT64', 'FLOAT', 'DOUBLE') "
            "AND path_in_schema NOT LIKE '%, %' "
            "GROUP BY ALL ORDER BY ALL"
        )
        return {
            name: {"min": least, "max": most, "nulls": nulls or 0}
            for name, least, most, nulls in rows
            if None not in (least, most) and math.isfinite(least) and math.isfinite(most)
        }

    def describe_groups(
        self, ranges: Sequence[Range], shards: Sequence[ShardFile]
    ) -> Iterator[GroupRows]:
        """The groups, with the shards that hold them and their share of the bytes."""
        starts = [rows.begin for rows in ranges]
        for *key, n, first in self.groups:
            places = range(
                bisect.bisect_right(starts, first) - 1, bisect.bisect_left(starts, first + n)
            )
            size = 0.0
            for place in places:
                rows, shard = ranges[place], shards[place]
                within = min(rows.end, first + n) - max(rows.begin, first)
                size += shard.bytes * within / shard.rows
            yield GroupRows(tuple(key), n, round(size), tuple(places))
