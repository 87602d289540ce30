"""Rows read by row group, in random order: the sampler that skips data.

After the shuffled-partition sampling of Kaoudi et al., SIGMOD 2017, section 6.2: partitions are
drawn at random, and their rows are shuffled. A partition is a row group of a Parquet file or of a
DuckDB table: the smallest unit that can be read separately.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import DataError, RowsError
from tuskml.kernels.passes import GROUP, LABELS, OwnedRows, Pass
from tuskml.learners.classes import refuse_large
from tuskml.learners.receiving import Receiver
from tuskml.learners.remarks import LABEL, ROUNDED_LABELS, Remarks, receive_remarks
from tuskml.learners.tasks import Task

Groups = NDArray[np.void]
Held = int | Callable[[NDArray[np.void]], int]
"""The number of rows to hold out, or a function that computes it from the labels (LABELS, of all
rows).
"""


class SeveralClasses(DataError):
    """There are more than two classes, which cannot be read by row group."""


RUN_ROWS = 8192
"""Neighbouring rows that are drawn together from a partition."""
FIRST_ROW_GROUPS = 4
"""Row groups of the held-out rows."""


@dataclass(frozen=True)
class Piece:
    """Rows first, first + 1, ... of a row group."""

    row_group: int
    first: int
    n_rows: int


@dataclass(frozen=True)
class Storage:
    """The storage of a source's rows on the disk.

    kind: one of `optimizer.reading.KINDS`; sizes: rows of each row group; n_bytes: of the columns
    that are read, of all rows; columns: their number, each of which is stored separately; block:
    bytes that are read together; whole: whether reading any row of a row group costs all of it.
    """

    kind: str
    sizes: tuple[int, ...]
    n_bytes: float
    columns: int = 1
    block: int = 1
    whole: bool = False

    @property
    def n_rows(self) -> int:
        """Rows, about."""
        return sum(self.sizes)

    def rows_of(self, piece: Piece) -> int:
        """Rows that are decoded for a piece."""
        return self.sizes[piece.row_group] if self.whole else piece.n_rows

    def bytes_of(self, piece: Piece) -> float:
        """Bytes that are read for a piece."""
        each = self.n_bytes / max(self.n_rows, 1) / self.columns
        blocks = math.ceil(self.rows_of(piece) * each / self.block)
        return float(self.columns * self.block * blocks)

    def bytes_of_all(self) -> float:
        """Bytes that are read for all rows."""
        return float(self.n_bytes)


class RowGroups(Protocol):
    """A table or files whose row groups can be read one by one."""

    @property
    def sizes(self) -> Sequence[int]:
        """Rows in each row group."""

    @property
    def storage(self) -> Storage:
        """The storage of the rows."""

    def read(self, pieces: Sequence[Piece], receiver: Receiver) -> None:
        """Packs the pieces' rows as one group, and hands it to the receiver if any is usable."""


@dataclass(frozen=True)
class Chunk:
    """Rows in memory: to train on, and held out; labels: of both, as LABELS of shape (1,);
    remarks: on them."""

    rows: Groups
    held: Groups
    labels: NDArray[np.void]
    remarks: Remarks


@dataclass(frozen=True)
class Sizes:
    """Row groups of which only is known how they lie on the disk: others read them."""

    storage: Storage

    @property
    def sizes(self) -> Sequence[int]:
        """Rows in each row group."""
        return self.storage.sizes

    def read(self, pieces: Sequence[Piece], receiver: Receiver) -> None:
        raise NotImplementedError


@dataclass
class Reader:
    """Reads row groups in random order, and counts the reads."""

    source: RowGroups
    task: Task
    seed: int
    threads: int
    cancel_mark: int
    rows_read: int = 0
    bytes_read: float = 0.0
    used: dict[Piece, bool] = field(default_factory=dict)
    n_usable: int = 0
    n_skipped: int = 0
    remarks: Remarks = field(default_factory=Remarks)
    classes: tuple[float, float] | None = None

    @contextmanager
    def chunk(self, pieces: Sequence[Piece], held: int = 0) -> Iterator[Chunk | None]:
        """The rows of some pieces, shuffled; None when none of them is usable.

        held: how many rows to hold out. Raises DataError if a classifier meets a third class.
        """
        with ExitStack() as stack:
            yield self._read(stack, pieces, held)

    @contextmanager
    def receive(
        self, pieces: Sequence[Piece], groups: Groups, memory: int, held: Held = 0
    ) -> Iterator[Chunk]:
        """As `chunk`, for rows that have already arrived."""
        with ExitStack() as stack:
            found = self._keep(stack, groups, memory, held)
            self._count(pieces, [found])
            yield found

    def _read(self, stack: ExitStack, pieces: Sequence[Piece], held: int) -> Chunk | None:
        found: list[Chunk] = []
        failed: list[BaseException] = []

        def receive(groups: Groups, memory: int) -> None:
            try:
                found.append(self._keep(stack, groups, memory, held))
            except BaseException as error:  # comes back as a database's error, without its type
                failed.append(error)
                raise

        try:
            self.source.read(pieces, receive)
        except Exception:
            if failed:
                raise failed[0] from None
            raise
        self._count(pieces, found)
        return found[0] if found else None

    def _keep(self, stack: ExitStack, groups: Groups, memory: int, held: Held) -> Chunk:
        groups = groups.astype(GROUP, copy=True)
        mark = self.cancel_mark
        kind = int(self.task.classifies)  # the loss: the kind of labels
        rows = Pass(groups, kind, None, None, True, self.threads, cancel_mark=mark)
        labels = rows.labels()
        if self.task.classifies:
            self._check_classes(labels)
        wanted = held if isinstance(held, int) else held(labels)
        out = np.minimum(np.full(1, wanted, np.int64), 3 * groups["n_rows"] // 4)
        kept, apart = rows.shuffle(memory, self.seed, out)
        return Chunk(self._own(stack, kept), self._own(stack, apart), labels, receive_remarks())

    @staticmethod
    def _own(stack: ExitStack, rows: OwnedRows) -> Groups:
        return stack.enter_context(rows)

    def _check_classes(self, labels: NDArray[np.void]) -> None:
        """Checks that a classifier's labels are two distinct values in all chunks."""
        assert labels.dtype == LABELS
        seen = {float(labels["low"][0]), float(labels["high"][0])}
        if labels["third_row"][0]:
            seen.add(float(labels["third"][0]))
        refuse_large(self.task, labels)
        if any(place.column == LABEL for place in receive_remarks().rounded):
            raise RowsError(ROUNDED_LABELS)
        known = set(self.classes or ())
        if len(known | seen) > 2:
            shown = ", ".join(f"{value:g}" for value in sorted(known | seen))
            raise SeveralClasses(f"labels are {shown}, '{self.task.name}' needs two classes")
        if len(seen) == 2:
            self.classes = (min(seen), max(seen))

    def _count(self, pieces: Sequence[Piece], found: list[Chunk]) -> None:
        read = sum(piece.n_rows for piece in pieces)
        for chunk in found:  # sizes may be estimates
            groups = np.concatenate([chunk.rows, chunk.held])
            read = int(groups["n_rows"].sum() + chunk.rows["n_skipped"][0])
        self.rows_read += read
        self.bytes_read += sum(map(self.source.storage.bytes_of, pieces))
        if all(piece in self.used for piece in pieces):
            return
        self.used |= dict.fromkeys(pieces, True)
        for chunk in found:
            self.n_usable += int(chunk.rows["n_rows"][0] + chunk.held["n_rows"][0])
            self.n_skipped += int(chunk.rows["n_skipped"][0])
            self.remarks.add(chunk.remarks)

    def counters(self) -> dict[str, int]:
        """Counts of the rows and row groups read, and of all; rows that were read twice count
        twice.
        """
        return {
            "rows_read": self.rows_read,
            "rows": int(sum(self.source.sizes)),
            "row_groups_read": len({piece.row_group for piece in self.used}),
            "row_groups": len(self.source.sizes),
            "bytes_read": round(self.bytes_read),
            "bytes": round(self.source.storage.bytes_of_all()),
        }


@dataclass(frozen=True)
class Layout:
    """The order of pieces: the first ones, and those of the later chunks.

    first: of several row groups, so that the held-out rows among them represent the whole; rest:
    pieces of the other row groups; chunk_rows: rows to train on at a time, about; drawn: whether
    pieces are drawn repeatedly, instead of each once.
    """

    first: tuple[Piece, ...]
    rest: tuple[Piece, ...]
    chunk_rows: int
    drawn: bool = False

    def chunks(self, rng: "np.random.Generator") -> Iterator[list[Piece]]:
        """Pieces of chunks, without end: every piece once, then all again in another order."""
        while self.drawn:
            yield self._draw(rng)
        while True:
            chunk: list[Piece] = []
            rows = 0
            for place in rng.permutation(len(self.rest)):
                chunk.append(self.rest[place])
                rows += chunk[-1].n_rows
                if rows >= self.chunk_rows:
                    yield chunk
                    chunk, rows = [], 0
            if chunk:
                yield chunk

    def _draw(self, rng: "np.random.Generator") -> list[Piece]:
        """A chunk of runs of rows, each at a random position of a random piece.

        Random-partition sampling (section 6.2 of the paper), with a run of neighbours instead of a
        row, which no database reads separately.
        """
        chunk: list[Piece] = []
        rows = 0
        while rows < self.chunk_rows:
            piece = self.rest[rng.integers(len(self.rest))]
            n = min(RUN_ROWS, piece.n_rows)
            first = piece.first + int(rng.integers(piece.n_rows - n + 1))
            chunk.append(Piece(piece.row_group, first, n))
            rows += n
        return chunk

    def chunks_in_a_pass(self) -> int:
        """The number of chunks that read every piece once, about."""
        rows = sum(piece.n_rows for piece in self.rest)
        return max(1, rows // self.chunk_rows)


def lay_out(
    sizes: Sequence[int],
    held: int,
    chunk_rows: int,
    most_rows: int,
    rng: "np.random.Generator",
    least: int = FIRST_ROW_GROUPS,
) -> Layout | None:
    """Chooses the row groups to hold rows out of; None if reading by row group would skip little.

    held: rows to hold out; most_rows: of a piece, larger row groups are cut; least: row groups to
    hold rows out of.
    """
    filled = [place for place, size in enumerate(sizes) if size]
    wanted = held + chunk_rows
    order = rng.permutation(filled)
    taken, rows = 0, 0
    while taken < len(order) and (rows < wanted or taken < least):
        rows += sizes[order[taken]]
        taken += 1
    if 2 * taken > len(order) or rows < wanted:
        return None
    each = -(-wanted // taken)
    short = sum(max(0, each - sizes[place]) for place in order[:taken])
    each += short  # large row groups add what small ones lack
    first = tuple(Piece(int(place), 0, min(sizes[place], each)) for place in order[:taken])
    rest = [
        piece
        for place in order[taken:]
        for piece in cut_row_group(int(place), sizes[place], most_rows)
    ]
    return Layout(first, tuple(rest), chunk_rows)


def cut_row_group(row_group: int, n_rows: int, most_rows: int) -> Iterator[Piece]:
    """Yields a row group in even pieces of at most `most_rows` rows."""
    pieces = -(-n_rows // most_rows)
    edges = [n_rows * place // pieces for place in range(pieces + 1)]
    for begin, end in pairwise(edges):
        yield Piece(row_group, begin, end - begin)
