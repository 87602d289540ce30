"""Cuts a training by group into units: groups that one worker trains in one query.

Units depend on the groups alone and not on the workers, so any number of them does the same work.
"""

import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from tuskml.api.call import Training
from tuskml.cluster.shards.catalogue import FILE, Catalogue, Group, Shard
from tuskml.cluster.shards.storages import storages
from tuskml.cluster.shards.writing import ROW_GROUP
from tuskml.cluster.worker import TASK
from tuskml.databases.duckdb import DuckDB
from tuskml.databases.sources import Source
from tuskml.groups.execution.executor import Unit
from tuskml.groups.selection.search import ANY_TASK
from tuskml.learners.registry import learner_of
from tuskml.learners.tasks import is_labelled, of_pairs
from tuskml.version import VERSION

BATCH_ROWS = 200_000
"""Rows of a unit of small groups, over the number of candidates of a search. A linear model reads
about a million rows a second, so a unit is some 100 ms of work and more."""
BATCH_GROUPS = 5_000
LEAST_PARTS = 8
"""Parts of a group, about, so that several workers have as many of its rows."""
ALL_ROWS = "all rows"
"""The name in logs of the rows of a model without groups."""
MOST_NAME = 60
"""Characters of a key in a log."""
SKIP = "skip"
"""The treatment of gaps if neither a task nor an option decides."""
UNORDERED = re.compile(r"FLOAT|DOUBLE|ENUM\(")
"""Types of keys without a range: an ENUM has its own order and is text in Parquet, and the text of
such a number may be rounded."""


@dataclass(frozen=True)
class Batch:
    """Groups that follow each other in the order of the keys."""

    groups: tuple[Group, ...]

    @property
    def rows(self) -> int:
        """Their rows."""
        return sum(group.rows for group in self.groups)

    @property
    def shards(self) -> list[int]:
        """The shards that hold them, by index."""
        return sorted({place for group in self.groups for place in group.shards})


@dataclass(frozen=True)
class Part:
    """Rows [first, last) of a file, by its index in the catalogue; rows: those of the group."""

    shard: int
    first: int
    last: int
    rows: int


def batches(groups: Iterable[Group], most_rows: int) -> Iterator[Batch]:
    """Batches groups up to a given number of rows; a larger group is a batch of its own."""
    some: list[Group] = []
    rows = 0
    for group in groups:
        if some and (rows + group.rows > most_rows or len(some) >= BATCH_GROUPS):
            yield Batch(tuple(some))
            some, rows = [], 0
        some.append(group)
        rows += group.rows
    if some:
        yield Batch(tuple(some))


class Units:
    """The units of a training over the groups of a catalogue, except for separate ones.

    one_by_one: whether each group is a unit of its own.
    """

    def __init__(
        self,
        database: DuckDB,
        training: Training,
        catalogue: Catalogue,
        apart: Collection[Group] = (),
        one_by_one: bool = False,
    ) -> None:
        self.database, self.training, self.catalogue = database, training, catalogue
        most = 0 if one_by_one else max(1, BATCH_ROWS // len(training.call.requests))
        self.held = Counter(place for group in catalogue.groups for place in group.shards)
        self.settings = settings(database)
        self.storages = storages(database.connection, (one.path for one in catalogue.shards))
        left = set(apart)
        self.batches = {
            (unit := self.unit(batch)).key: (unit, batch)
            for batch in batches((one for one in catalogue.groups if one not in left), most)
        }

    def unit(self, batch: Batch) -> Unit:
        """The input of a worker (`worker.py`). Its key is a digest of everything that
        decides it.
        """
        shards = [absolute(self.catalogue.shards[place]) for place in batch.shards]
        given = {
            "query": self.query(batch, shards),
            "shards": [asdict(shard) for shard in shards],
            "settings": self.settings,
            "storages": self.storages,
            "tuskml": VERSION,
        }
        payload = json.dumps(given, ensure_ascii=False).encode()
        return Unit(hashlib.sha256(payload).hexdigest(), batch.rows, payload, self.name_of(batch))

    def name_of(self, batch: Batch) -> str:
        """The name of the batch in logs: its first group, and the number of others."""
        names = [name for name, _ in self.training.keys]
        if not names:
            return ALL_ROWS
        first = ", ".join(
            f"{name} = {'NULL' if value is None else repr(value[:MOST_NAME])}"
            for name, value in zip(names, batch.groups[0].key, strict=True)
        )
        more = len(batch.groups) - 1
        return f"{first} and {more:,} more" if more else first

    def input_of_part(self, group: Group, part: Part) -> dict[str, Any]:
        """The input of a worker for the rows of a part of a group (`parts/part_rows.py`)."""
        shard = absolute(self.catalogue.shards[part.shard])
        source = self.source(Batch((group,)), [shard], self.held[part.shard] == 1, part)
        options = self.training.call.requests[0].options
        given = json.loads(self.training.options)
        # If no option says how to treat gaps, the task decides, and a part has no task. With
        # several tasks each candidate has the same rows: those without gaps.
        several = self.training.call.task == ANY_TASK
        given.setdefault("missing", SKIP if several else options.missing)
        text = json.dumps(given, ensure_ascii=False)
        plain = is_labelled(self.training.call.task) and not of_pairs(self.training.call.task)
        task = TASK if plain else f"{self.training.call.task}/{TASK}"
        call = replace(self.training.call, task=task)
        training = replace(self.training, call=call, source=source, keys=(), options=text)
        whole = self.training.call
        checks = whole.search is None or options.invalid == "skip"
        return {
            **({"usable": [whole.task, self.training.options]} if checks else {}),
            "query": training.query(self.database, "_tusk_send_rows"),
            "shards": [asdict(shard)],
            "settings": self.settings,
            "storages": self.storages,
            **self.order(),
            "tuskml": VERSION,
        }

    def parts(self, groups: Sequence[Group]) -> dict[Group, list[Part]]:
        """The parts of large groups, in the order of their files and rows.

        A part has at most as many rows as a unit of small groups, whatever bytes these take: one
        file, or a group of few bytes, has as many as several files. It begins at a row group of a
        shard, since readers skip the others. Parts depend on the rows alone, as units do.
        """
        size = min(ROW_GROUP, max(1, BATCH_ROWS // 8))
        blocks = {group.key: list(blocks_of(group, size)) for group in groups}
        unknown = Batch(tuple(group for group in groups if not group.ranges))
        paths = {self.catalogue.shards[place].path: place for place in unknown.shards}
        if paths:
            keys = "".join(f"CAST({sql} AS VARCHAR), " for _, sql in self.training.keys)
            found = self.database.fetch(
                f"SELECT {keys}{FILE}, file_row_number // {size} AS tusk_block, count(*) "
                f"FROM read_parquet([{', '.join(map(self.database.text, paths))}], "
                f"filename = '{FILE}') AS source {self.only(unknown, self.covers(unknown))} "
                "GROUP BY ALL"
            )
            for *key, path, number, rows in found:
                first = number * size
                blocks[tuple(key)].append(Part(paths[path], first, first + size, rows))
        return {group: list(joined(blocks[group.key], group.rows)) for group in groups}

    def order(self) -> dict[str, Any]:
        """Says how a part orders its rows."""
        call = self.training.call
        options = call.requests[0].options
        orders = any(learner_of(one.task).facts.orders for one in call.requests)
        return {"ordered": options.keeps_order or orders, "seed": options.seed}

    def source(
        self, batch: Batch, shards: Sequence[Shard], whole: bool, part: Part | None = None
    ) -> Source:
        """The rows of the batch's groups, or of a part; whole: the shards have no others."""
        listed = ", ".join(self.database.text(shard.path) for shard in shards)
        rows = f"read_parquet([{listed}]) AS source"
        only = self.only(batch, whole, part)
        if only:
            rows = f"(SELECT source.* FROM {rows} {only}) AS source"
        return Source(rows, self.training.source.name)

    def query(self, batch: Batch, shards: Sequence[Shard]) -> str:
        """Keys as text, and the models, of the batch's groups."""
        source = self.source(batch, shards, self.covers(batch))
        keys = tuple(
            (f"tusk_key_{place}", sql) for place, (_, sql) in enumerate(self.training.keys)
        )
        query = replace(self.training, source=source, keys=keys).query(self.database)
        texts = [f"CAST({name} AS VARCHAR) AS {name}" for name, _ in keys]
        return f"SELECT {', '.join([*texts, 'model'])} FROM ({query})"

    def covers(self, batch: Batch) -> bool:
        """Returns whether its shards hold no other groups."""
        mine = Counter(place for group in batch.groups for place in group.shards)
        return all(self.held[place] == count for place, count in mine.items())

    def only(self, batch: Batch, whole: bool, part: Part | None = None) -> str:
        """The condition for the batch's groups, none if all rows are theirs, and for a part.
        Ranges let the reader skip row groups.
        """
        join, ranges = "", []
        if not whole:
            join, least_and_most = self.groups_of(batch), self.range_of(batch)
            if least_and_most is not None:
                first_key = self.training.keys[0][1]
                ranges.append(f"{first_key} BETWEEN {' AND '.join(least_and_most)}")
        if part is not None:
            ranges.append(f"file_row_number BETWEEN {part.first} AND {part.last - 1}")
        return f"{join} WHERE {' AND '.join(ranges)}" if ranges else join

    def groups_of(self, batch: Batch) -> str:
        """The join with the keys of the batch's groups."""
        values = ", ".join(f"({', '.join(self.literals(group))})" for group in batch.groups)
        names = [f"tusk_key_{place}" for place in range(len(self.training.keys))]
        equal = " AND ".join(
            f"{sql} IS NOT DISTINCT FROM tusk_keys.{name}"
            for (_, sql), name in zip(self.training.keys, names, strict=True)
        )
        return f"SEMI JOIN (VALUES {values}) AS tusk_keys({', '.join(names)}) ON {equal}"

    def range_of(self, batch: Batch) -> tuple[str, str] | None:
        """The least and the largest first key in SQL; None if there is none, as with NULL."""
        kind = self.catalogue.key_types[0]
        if UNORDERED.match(kind) or any(group.key[0] is None for group in batch.groups):
            return None
        groups: Sequence[Group] = batch.groups
        if kind == "VARCHAR":  # the files may be in the order of a collation
            groups = sorted(groups, key=lambda group: str(group.key[0]))
        return self.literals(groups[0])[0], self.literals(groups[-1])[0]

    def literals(self, group: Group) -> list[str]:
        """A group's keys in SQL."""
        return [
            f"CAST({'NULL' if value is None else self.database.text(value)} AS {kind})"
            for value, kind in zip(group.key, self.catalogue.key_types, strict=True)
        ]


def blocks_of(group: Group, size: int) -> Iterator[Part]:
    """The blocks of so many rows of a file that hold a group whose ranges are known."""
    for shard, (begin, end) in zip(group.shards, group.ranges, strict=bool(group.ranges)):
        for start in range(begin - begin % size, end, size):
            first, last = max(start, begin), min(start + size, end)
            yield Part(shard, first, last, last - first)


def joined(blocks: Iterable[Part], rows: int) -> Iterator[Part]:
    """Joins a group's blocks of a file to parts of about the same number of rows.

    A block belongs to the part in which its middle lies, if all of them follow each other.
    """
    each = rows / max(math.ceil(rows / BATCH_ROWS), LEAST_PARTS)
    last: Part | None = None
    before, number = 0, 0
    for one in sorted(blocks, key=lambda block: (block.shard, block.first)):
        here = int((before + one.rows / 2) / each)
        if last is not None and (last.shard, number) == (one.shard, here):
            last = replace(last, last=one.last, rows=last.rows + one.rows)
        else:
            if last is not None:
                yield last
            last = one
        before, number = before + one.rows, here
    if last is not None:
        yield last


def absolute(shard: Shard) -> Shard:
    """Returns the shard with an absolute path, for a process in another folder."""
    if "://" in shard.path:
        return shard
    return replace(shard, path=str(Path(shard.path).absolute()))


def settings(database: DuckDB) -> dict[str, str]:
    """The settings that decide the value of an expression, such as the hour of a time."""
    query = "SELECT name, value FROM duckdb_settings() WHERE name IN ('TimeZone', 'Calendar')"
    return dict(sorted(database.fetch(query)))
