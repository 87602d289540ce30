"""The online stage of a stored model that the cache does not hold: weights travel by chunks.

Each weight is sent from the chunk of rows that trained it to the next chunk that needs it
(`learners.stored.routing`, `kvstore.routes`), so an epoch reads and writes each chunk's
weights once, in long runs. Where option 'partition', 'layout' or 'sharing' departs from its
default, the weights lie in LevelDB by the layout of Qin, Torres, Rusu (VLDB 2017), as do those of
a warm start.
"""

import math
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels import passes
from tuskml.kernels.passes import Pass
from tuskml.kernels.stored.chunks import Chunks
from tuskml.kvstore import ModelStore
from tuskml.kvstore.frames import FrameCounters
from tuskml.kvstore.routes import Routes
from tuskml.kvstore.versions import Version
from tuskml.kvstore.working import of_weights
from tuskml.learners.linear.stored import run as plain
from tuskml.learners.linear.stored.estimate import StoreUse, estimate_routed_use
from tuskml.learners.linear.stored.online import Divergence, Online, Pace, SealedResult
from tuskml.learners.linear.stored.run import Run
from tuskml.learners.linear.stored.start import DTYPE
from tuskml.learners.stored.layout import bound_blocks
from tuskml.learners.stored.progress import Progress
from tuskml.learners.stored.routing import Routing, TooWide
from tuskml.partitioner import IndexMap

Pairs = Iterator[tuple[NDArray[np.int64], NDArray[Any]]]
PER_BLOCK, MOST_BLOCK = 64, 4096
"""Features that occur, and ids, in a block of a checkpoint."""
PUT_WEIGHTS = 1 << 20
PATIENCE = 9
"""Times a checkpoint's seconds between two of them, so that they take a tenth of the time."""


class RoutedRun(Run):
    """A training of one group that sends its weights by routes (`Run.travels`)."""

    routing: Routing | None = None

    def __call__(self) -> SealedResult:
        """As in `Run`."""
        with ExitStack() as self._stack:
            return super().__call__()

    def layout(self) -> IndexMap:
        self.routing = self._plan()
        if self.routing is None:
            return super().layout()
        occur = self.routing.n_features / max(1, self.routing.dimension)
        block = 1 << int(math.log2(min(MOST_BLOCK, max(1.0, PER_BLOCK / max(occur, 1e-9)))))
        return bound_blocks(IndexMap.by_rule(block), self.several)

    def _map(self, index: IndexMap, rows: Pass) -> Chunks:
        if self.options.resume and not index.n_partitions and index.live is None:
            self.routing = self._plan()
        if self.routing is None:
            return super()._map(index, rows)
        routing = self.routing  # which cut the rows
        chunks = self._count(routing.chunks, rows)
        self.keys[True] = routing.plan.buckets
        return chunks

    def _plan(self) -> Routing | None:
        """The routes; None where chunks of rows are too wide for them."""
        check = lambda: passes.raise_if_cancelled(self.rows.cancel_mark)  # noqa: E731
        given = self.rows, self.cache, self.root.path, max(2, plain.FEWEST_CHUNKS), check
        try:
            return self._stack.enter_context(Routing(*given, several=self.several))
        except TooWide:
            return None

    def _estimate(self, chunks: Chunks) -> StoreUse:
        if self.routing is None:
            return super()._estimate(chunks)
        plan = self.routing.plan
        several = self.several
        use = estimate_routed_use(
            plan.far_buckets, plan.far_weights * several, self.epochs, plan.runs
        )
        if not (self.options.l1 or self.options.l2):
            return use
        # Penalties are brought up to date at the end.
        pieces = len(plan.keys_at_rest()[0])
        return use + estimate_routed_use(
            plan.resting_buckets, plan.n_features * several, 0, pieces
        )

    def _epochs(
        self, store: ModelStore, chunks: Chunks, progress: Progress
    ) -> tuple[Online, float, Version, FrameCounters]:
        if self.routing is None:
            return super()._epochs(store, chunks, progress)
        with Routes(self.routing.plan, self.routing.moves.file, self.root.path) as routes:
            if progress.epoch:
                self.routing.fill(routes, partial(weights_of, store))
            parts = self._parts(chunks, routes.access, progress.step)
            online = RoutedOnline(self.routing, *parts, store, routes, progress)
            online.run()
            objective = online.judge()
            with self.clock.phase("seal"), routes.at_rest():
                pairs = finite(self.routing.pairs(routes))
                version = self._publish(store, progress, objective, pairs=pairs)
            return online, objective, version, routes.counters

    def _where(self, index: IndexMap) -> str:
        if self.routing is None:
            return super()._where(index)
        plan, n = self.routing.plan, self.routing.n_chunks
        return (
            f"weights travel between {n} chunks of rows, "
            f"{plan.bytes_of_an_epoch / 1e6:,.1f} MB per epoch and direction"
        )


class RoutedOnline(Online):
    """Epochs over routes."""

    frames: Routes

    def __init__(self, routing: Routing, *parts: Any) -> None:
        """parts: as of `Online`."""
        super().__init__(*parts)
        self.routing = routing
        self.training = replace(self.training, together=True)
        self.pace = Pace(self.setting.plan.threads, 1)  # which wait for the disk, not each other
        # The first checkpoint sorts and writes as much as planning did, so it takes about as long.
        self.checkpointed += PATIENCE * self.setting.clock.seconds_of("layout", "map")

    def _checkpoint(self) -> None:
        with self.setting.clock.phase("checkpoint"):
            began = time.monotonic()
            self._fold()
            with self.frames.at_rest():
                pour(finite(self.routing.pairs(self.frames)), self.store)
            self.store.checkpoint(self.progress.as_record(self.setting.facts))
        now = time.monotonic()
        self.checkpointed = now + PATIENCE * (now - began)

    def _fold(self) -> tuple[float, float]:
        if not self.penalised:
            return 0.0, 0.0
        keys, widths = self.routing.plan.keys_at_rest()
        with self.frames.at_rest(fold=True):
            most = self.setting.share // 2
            model, sums = self.training.settle(self.progress.model, keys, widths, most, fold=True)
        self.progress.model = model
        return sums.squares, sums.absolute


def weights_of(store: ModelStore, features: NDArray[np.int64]) -> NDArray[Any]:
    """Reads the weights of features, (n,), or (n, several) where features have several."""
    if store.several == 1:
        return store.weights(features)
    return store.weights(of_weights(features, store.several)).reshape(-1, store.several)


def finite(pairs: Pairs) -> Pairs:
    """Passes the pairs through; raises Diverged at a weight that is not finite."""
    for ids, weights in pairs:
        if not np.isfinite(weights).all():
            raise Divergence
        yield ids, weights


def pour(pairs: Pairs, store: ModelStore) -> None:
    """Replaces the weights of a store of blocks of ids; no block is in two parts of the pairs."""
    (size,) = (one * store.several for one in store.index.blocks.sizes)
    for ids, weights in pairs:
        blocks, first = np.unique(ids // size, return_index=True)
        ends = np.append(first[1:], len(ids))
        step = max(1, PUT_WEIGHTS // size)
        for at in range(0, len(blocks), step):
            keys = blocks[at : at + step]
            part = slice(int(first[at]), int(ends[min(at + step, len(blocks)) - 1]))
            values = np.zeros((len(keys), size), DTYPE)
            rows = np.searchsorted(keys, ids[part] // size)
            values[rows, ids[part] % size] = weights[part]
            store.put(keys, values)
