"""Description of a partitioning and of what it saves, as data."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from tuskml.partitioner.block_choice import Candidate
from tuskml.partitioner.cost import Cost
from tuskml.partitioner.index.blocks import Blocks
from tuskml.partitioner.index.index_map import IndexMap
from tuskml.partitioner.native import Ids
from tuskml.partitioner.rows import SparseRows


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
    def saved_by_merging(self) -> float:
        """Requests per row that Algorithm 3 saves."""
        return self.by_feature.requests - self.after_merging.requests

    @property
    def saved_by_blocks(self) -> float:
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
        fields["saved_by_merging"] = self.saved_by_merging
        fields["saved_by_blocks"] = self.saved_by_blocks
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
