"""The offline stage in one pass, from rows to an index map (the paper's figure 2)."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tuskml.errors import OptionError
from tuskml.partitioner.cost import WARM_LEVELDB, Cost
from tuskml.partitioner.index_map import Blocks, IndexMap
from tuskml.partitioner.live import LiveFeatures
from tuskml.partitioner.merging import Candidate, Merges, choose_blocks, merge_features
from tuskml.partitioner.native import Ids, Slots
from tuskml.partitioner.rows import Frequencies, RowSample, SparseRows, sparse_rows


@dataclass(frozen=True)
class Requests:
    """Expected requests to the store per row: number of requests, features read, seconds."""

    requests: float
    features_read: float
    seconds: float


@dataclass(frozen=True)
class Partition:
    """A partition of frequent features: its key, its size, the fraction of rows that access it.

    features: int64 of shape (size,), by slot.
    """

    key: int
    size: int
    share: float
    features: Ids


@dataclass(frozen=True)
class Explanation:
    """A partitioning in figures. All of them are counted on the sampled rows, not estimated.

    rows_seen, rows_sampled, entries: the input; batch_rows: rows that share their requests.
    top: frequent features; frequency_error: the most that a frequency errs, in entries.
    cost: seconds of a request and of a feature.
    by_feature: each feature its own key (the paper's KV); after_merging: the frequent ones
    partitioned, each rare one its own key (the paper's KV-VP); after_blocks: rare ones in blocks
    too, which is the index map's.
    partitions: those that more than one feature share, by falling share of rows.
    n_partitions: all partitions of frequent features.
    blocks: of rare features; block_candidates: the sizes tried for all of them, and their costs a
    batch.
    """

    rows_seen: int
    rows_sampled: int
    entries: int
    batch_rows: int
    top: int
    frequency_error: int
    cost: Cost
    by_feature: Requests
    after_merging: Requests
    after_blocks: Requests
    n_partitions: int
    partitions: list[Partition]
    blocks: Blocks
    block_candidates: list[Candidate]

    @property
    def saving_by_merging(self) -> float:
        """Requests per row that Algorithm 3 saves."""
        return self.by_feature.requests - self.after_merging.requests

    @property
    def saving_by_blocks(self) -> float:
        """Requests per row that blocks of rare features save in addition."""
        return self.after_merging.requests - self.after_blocks.requests

    def as_dict(self, features: int = 10) -> dict[str, Any]:
        """The same as plain types for JSON; `features` limits the features listed per
        partition.
        """
        fields = asdict(self)
        starts, sizes = self.blocks.starts, self.blocks.sizes
        fields["blocks"] = [
            {"start": start, "size": size} for start, size in zip(starts, sizes, strict=True)
        ]
        fields["saved_by_merging"] = self.saving_by_merging
        fields["saved_by_blocks"] = self.saving_by_blocks
        for partition in fields["partitions"]:
            partition["features"] = partition["features"][:features].tolist()
        return fields


class Accesses:
    """Counts the requests of some rows.

    rows: ids rising and distinct in a row; n_rows: the number of rows, since one of `rows` may be
    a batch.
    """

    def __init__(self, index: IndexMap, rows: SparseRows, cost: Cost, n_rows: int) -> None:
        self.index, self.cost, self.n_rows, self.n_batches = index, cost, n_rows, len(rows)
        self.n_ids = len(rows.ids)
        keys = index.locate(rows.ids)[0]
        frequent = keys < index.n_partitions
        located = SparseRows(rows.starts, keys)
        self.frequent = located.only(frequent).distinct().ids
        rare = located.only(~frequent)
        self.n_rare = len(rare.ids)
        self.blocks = rare.distinct().ids

    def by_feature(self) -> Requests:
        """Requests with a key per feature."""
        return self._requests(self.n_ids, self.n_ids)

    def after_merging(self) -> Requests:
        """Requests with frequent features partitioned and a key per rare one."""
        read = int(self.index.sizes(self.frequent).sum())
        return self._requests(len(self.frequent) + self.n_rare, read + self.n_rare)

    def after_blocks(self) -> Requests:
        """Requests by the index map."""
        read = self.index.sizes(self.frequent).sum() + self.index.sizes(self.blocks).sum()
        return self._requests(len(self.frequent) + len(self.blocks), int(read))

    def partitions(self) -> list[Partition]:
        """Partitions of more than one feature, by falling fraction of the rows, then by key."""
        n = self.index.n_partitions
        counts = np.bincount(self.frequent, minlength=n)
        sizes = self.index.sizes(np.arange(n))
        order = np.argsort(-counts, kind="stable")
        return [
            Partition(
                key,
                int(sizes[key]),
                int(counts[key]) / self.n_batches,
                self.index.features_of(key),
            )
            for key in order[sizes[order] > 1].tolist()
        ]

    def _requests(self, requests: int, read: int) -> Requests:
        n = max(1, self.n_rows)
        seconds = requests * self.cost.t_seek + read * self.cost.t_unit
        return Requests(requests / n, read / n, seconds / n)


PARTITIONS_SHOWN = 20
FEATURES_SHOWN = 6


def as_text(one: Explanation) -> str:
    """Text of the input, the requests per row before and after, and the partitions used most."""
    facts = [
        ("rows", f"{one.rows_seen:,}, of which {one.rows_sampled:,} are counted"),
        ("ids", f"{one.entries:,}; a feature's frequency errs by {one.frequency_error:,} at most"),
        ("cost", f"{one.cost.t_seek * 1e6:g} us per key, {one.cost.t_unit * 1e9:g} ns a feature"),
        ("frequent", f"{one.top:,} features in {one.n_partitions:,} partitions"),
        ("rare", str(one.blocks)),
    ]
    if one.batch_rows > 1:
        facts.append(("requests", f"shared by {one.batch_rows:,} rows"))
    text = "\n".join(f"{name:<10}{value}" for name, value in facts)
    return "\n\n".join([text, _requests(one), *_partitions(one)])


def _requests(one: Explanation) -> str:
    steps = [
        ("each feature its key", one.by_feature, 0.0),
        ("frequent ones merged", one.after_merging, one.saving_by_merging),
        ("rare ones in blocks", one.after_blocks, one.saving_by_blocks),
    ]
    rows = [
        [name, *(f"{x:,.2f}" for x in (r.requests, saved, r.features_read, r.seconds * 1e6))]
        for name, r, saved in steps
    ]
    names = ["expected of a row", "requests", "saved", "features read", "microseconds"]
    return _align(names, rows, left=0)


def _partitions(one: Explanation) -> list[str]:
    if not one.partitions:
        return []
    rows = [
        [f"{part.key:,}", f"{part.size:,}", f"{part.share:.4f}", _some(part.features)]
        for part in one.partitions[:PARTITIONS_SHOWN]
    ]
    text = _align(["key", "features", "share of rows", "which"], rows, left=3)
    if len(one.partitions) > PARTITIONS_SHOWN:
        text += f"\n  ({PARTITIONS_SHOWN} of {len(one.partitions):,} shared keys)"
    return [text]


def _some(features: Ids) -> str:
    names = ", ".join(map(str, features[:FEATURES_SHOWN].tolist()))
    return names + (", …" if len(features) > FEATURES_SHOWN else "")


def _align(names: Sequence[str], rows: Sequence[Sequence[str]], left: int) -> str:
    """A table with a header; column `left` is left-aligned, the others are right-aligned."""
    widths = [max(map(len, column)) for column in zip(names, *rows, strict=True)]

    def line(cells: Sequence[str]) -> str:
        placed = (
            cell.ljust(width) if place == left else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(cells, widths, strict=True))
        )
        return ("  " + "  ".join(placed)).rstrip()

    return "\n".join([line(names), line(["─" * width for width in widths]), *map(line, rows)])


FEW = 5_000  # number of ids that are searched without building a table


@dataclass(frozen=True)
class Partitioning:
    """An index map, the merges that produced its partitions, and what it saves."""

    index: IndexMap
    merges: Merges
    explanation: Explanation


class Profile:
    """Statistics of passing rows: feature frequencies and a sample of rows.

    top: number of frequent features to partition (the paper's K); sample: number of rows to keep
    (its N'); seed: of the sample. Use one per worker, and merge them in a fixed order for
    reproducible results.
    """

    def __init__(self, top: int = 1000, sample: int = 10_000, seed: int = 0) -> None:
        self.top = top
        self.frequencies = Frequencies(top)
        self.sample = RowSample(sample, seed)

    def update(self, indptr: ArrayLike, ids: ArrayLike) -> None:
        """Adds a chunk of rows: the index arrays of a CSR matrix."""
        rows = sparse_rows(indptr, ids)
        self.frequencies.update(rows.ids)
        self.sample.update(rows)

    def merge(self, other: "Profile") -> None:
        """Adds the rows of another worker's profile."""
        self.frequencies.merge(other.frequencies)
        self.sample.merge(other.sample)

    def partition(
        self,
        cost: Cost = WARM_LEVELDB,
        *,
        block: int | None = None,
        batch_rows: int = 1,
        most: float = np.inf,
        live: LiveFeatures | None = None,
        top: int | None = None,
        threads: int = 0,
        interrupted: Callable[[], None] | None = None,
    ) -> Partitioning:
        """Partitions the model's features.

        cost: of the store (`measure_cost`); block: features in a block of rare ones, None to
        choose; batch_rows: sampled rows that share their requests: 1 is the paper's, larger where
        a store is read once a batch; most: features that the blocks of a batch may hold; live:
        those of all rows, of which blocks are then made, None for blocks of all ids; top: fewer
        frequent features than the profile has; threads: 0
        for one a core; interrupted: called often, what it raises ends the work.
        """
        if batch_rows < 1:
            raise OptionError(f"batch_rows must be at least 1, got {batch_rows}")
        check = interrupted or _go_on
        rows = self.sample.rows().in_batches(batch_rows).distinct()
        check()
        frequent = self.frequencies.top(self.top if top is None else top).ids
        check()
        ranks = ranks_in(frequent, rows.ids)
        ranked = SparseRows(rows.starts, ranks.astype(np.int64))
        merges = merge_features(ranked, len(frequent), cost, threads, interrupted)
        rare = rows.only(ranks < 0)
        if live is not None:
            rare = number_rows(rare, live)
        blocks, tried = (
            choose_blocks(rare, cost, most) if block is None else (Blocks.of(block), [])
        )
        check()
        index = index_of(frequent, merges.partition, blocks.of_live(live), live)
        return Partitioning(index, merges, self._explain(index, rows, cost, batch_rows, tried))

    def _explain(
        self,
        index: IndexMap,
        rows: SparseRows,
        cost: Cost,
        batch_rows: int,
        tried: list[Candidate],
    ) -> Explanation:
        n_rows = min(self.sample.rows_seen, self.sample.size)
        accesses = Accesses(index, rows, cost, n_rows)
        return Explanation(
            rows_seen=self.sample.rows_seen,
            rows_sampled=n_rows,
            entries=self.frequencies.total,
            batch_rows=batch_rows,
            top=len(index.features),
            frequency_error=self.frequencies.error,
            cost=cost,
            by_feature=accesses.by_feature(),
            after_merging=accesses.after_merging(),
            after_blocks=accesses.after_blocks(),
            n_partitions=index.n_partitions,
            partitions=accesses.partitions(),
            blocks=index.blocks,
            block_candidates=tried,
        )


def partition_model(
    indptr: ArrayLike,
    ids: ArrayLike,
    *,
    top: int = 1000,
    sample: int = 10_000,
    seed: int = 0,
    cost: Cost = WARM_LEVELDB,
    **choice: Any,
) -> Partitioning:
    """Partitions a model for rows that lie in memory.

    indptr, ids: the index arrays of a CSR matrix. top, sample, seed: as for `Profile`. cost,
    choice: as for `Profile.partition`.
    """
    profile = Profile(top, sample, seed)
    profile.update(indptr, ids)
    return profile.partition(cost, **choice)


def _go_on() -> None:
    """Does nothing; the default for `interrupted`."""


def ranks_in(frequent: Ids, ids: Ids) -> Slots:
    """Index of each id among the frequent ones, or -1; int32 of the shape of ids."""
    order = np.argsort(frequent)
    if len(frequent) and len(ids) < FEW:
        rising = frequent[order]
        at = np.minimum(np.searchsorted(rising, ids), len(frequent) - 1)
        return np.where(rising[at] == ids, order[at], -1).astype(np.int32)
    keys, _ = IndexMap(frequent[order], np.arange(len(frequent))).locate(ids)
    ranks = np.append(order, -1).astype(np.int32)
    return ranks[np.minimum(keys, len(frequent))]


def number_rows(rows: SparseRows, live: LiveFeatures) -> SparseRows:
    """Rows of numbers in place of ids, in the same order.

    With an order only features that groups share remain: a sample's rows are of all groups.
    """
    numbers = SparseRows(rows.starts, live.number(rows.ids))
    return numbers if live.order is None else numbers.only(numbers.ids < live.order.n_shared)


def index_of(
    frequent: Ids, lowest: Slots, blocks: Blocks, live: LiveFeatures | None = None
) -> IndexMap:
    """The index map of partitions named by their lowest rank.

    frequent: ids by rank; lowest: partition of each rank. Keys follow the most frequent feature of
    each partition, so those requested most are contiguous.
    """
    _, keys = np.unique(lowest, return_inverse=True)
    order = np.argsort(frequent)
    return IndexMap(frequent[order], keys[order], blocks, live)
