"""The offline stage in one pass, from rows to an index map (the paper's figure 2)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tuskml.errors import OptionError
from tuskml.partitioner.block_choice import Candidate, choose_blocks
from tuskml.partitioner.cost import WARM_LEVELDB, Cost
from tuskml.partitioner.explanation import Accesses, Explanation
from tuskml.partitioner.frequencies import Frequencies
from tuskml.partitioner.index.blocks import Blocks
from tuskml.partitioner.index.index_map import IndexMap
from tuskml.partitioner.index.live import LiveFeatures
from tuskml.partitioner.merging import Merges, merge_features
from tuskml.partitioner.native import Ids, Slots
from tuskml.partitioner.reservoir import RowSample
from tuskml.partitioner.rows import SparseRows, sparse_rows

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
        threads: int = 0,
        interrupted: Callable[[], None] | None = None,
    ) -> Partitioning:
        """Partitions the model's features.

        cost: of the store (`measure_cost`); block: features in a block of rare ones, None to
        choose; batch_rows: sampled rows that share their requests: 1 is the paper's, larger where
        a store is read once a batch; most: features that the blocks of a batch may hold; live:
        those of all rows, of which blocks are then made, None for blocks of all ids; threads: 0
        for one a core; interrupted: called often, what it raises ends the work.
        """
        if batch_rows < 1:
            raise OptionError(f"batch_rows must be at least 1, got {batch_rows}")
        check = interrupted or _go_on
        rows = self.sample.rows().in_batches(batch_rows).distinct()
        check()
        frequent = self.frequencies.top(self.top).ids
        check()
        ranks = ranks_in(frequent, rows.ids)
        ranked = SparseRows(rows.starts, ranks.astype(np.int64))
        merges = merge_features(ranked, len(frequent), cost, threads, interrupted)
        rare = rows.only(ranks < 0)
        if live is not None:
            rare = numbered(rare, live)
        blocks, tried = (
            choose_blocks(rare, cost, most) if block is None else (Blocks.of(block), [])
        )
        if live is not None and live.order is not None:
            blocks = blocks.ending(live.order.start, live.order.block)
        check()
        index = index_of(frequent, merges.partition, blocks, live)
        return Partitioning(index, merges, self._explain(index, rows, cost, batch_rows, tried))

    def _explain(
        self,
        index: IndexMap,
        rows: SparseRows,
        cost: Cost,
        batch_rows: int,
        tried: list[Candidate],
    ) -> Explanation:
        n_rows = min(self.sample.seen, self.sample.size)
        accesses = Accesses(index, rows, cost, n_rows)
        return Explanation(
            rows_seen=self.sample.seen,
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


def numbered(rows: SparseRows, live: LiveFeatures) -> SparseRows:
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
