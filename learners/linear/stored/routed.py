"""The online stage of a stored model that the cache does not hold: weights travel by chunks.

Each weight is sent from the chunk of rows that trained it to the next chunk that needs it
(`learners.stored.routing`, `kvstore.routes`), so an epoch reads and writes each chunk's
weights once, in long runs. The weights of a warm start are there before the first epoch; those
that no row has wait in a file.
"""

import math
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels import passes
from tuskml.kernels.passes import Pass
from tuskml.kernels.stored.chunks import Chunks
from tuskml.kvstore import ModelStore
from tuskml.kvstore.arrays import open_unnamed
from tuskml.kvstore.frames import FrameCounters
from tuskml.kvstore.routes import Routes
from tuskml.kvstore.versions import Version
from tuskml.kvstore.working import pairs_of
from tuskml.learners.linear.stored import run as plain
from tuskml.learners.linear.stored.estimate import StoreUse, estimate_routed_use
from tuskml.learners.linear.stored.online import (
    Divergence,
    HeldOut,
    Online,
    Pace,
    SealedResult,
)
from tuskml.learners.linear.stored.run import Run
from tuskml.learners.linear.stored.start import DTYPE
from tuskml.learners.stored.layout import bound_blocks
from tuskml.learners.stored.progress import Progress
from tuskml.learners.stored.routing import Others, Routing, TooWide
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
        new = self.routing is None and self.options.resume and rows is self.rows
        if new and not index.n_partitions and index.live is None:
            self.routing = self._plan()
        if self.routing is None:
            return super()._map(index, rows)
        routing = self.routing
        chunks = self._count(routing.chunks if rows is self.rows else routing.held, rows)
        self.keys = [0, routing.plan.buckets]  # of a pass over both
        return chunks

    def _plan(self) -> Routing | None:
        """The routes; None where chunks of rows are too wide for them."""
        check = lambda: passes.raise_if_cancelled(self.rows.cancel_mark)  # noqa: E731
        given = self.rows, self.cache, self.root.path, max(2, plain.FEWEST_CHUNKS), check
        try:
            return self._stack.enter_context(Routing(*given, self.several, self.held))
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

    def _first_weights(self) -> Pairs:
        return super()._first_weights() if self.routing is None else iter(())

    def _epochs(
        self, store: ModelStore, chunks: Chunks, progress: Progress
    ) -> tuple[Online, float, Version, FrameCounters]:
        if self.routing is None:
            return super()._epochs(store, chunks, progress)
        with (
            ExitStack() as stack,
            Routes(self.routing.plan, self.routing.moves.file, self.root.path) as routes,
        ):
            others = Others(stack, self.root.path, self.options.l1, self.options.l2)
            if progress.epoch or self.options.warm_start is not None:
                weights = pairs_of(store) if progress.epoch else self.start.weights()
                self.routing.fill(routes, weights, others.add)
            parts = self._parts(chunks, routes.access, progress.step)
            kept = stack.enter_context(open_unnamed(self.root.path))
            online = RoutedOnline(self.routing, others, kept, *parts, store, routes, progress)
            online.run()
            if online.has_stopped:
                online.go_back()
            objective = online.judge()
            with self.clock.phase("seal"), routes.at_rest():
                version = self._publish(store, progress, objective, pairs=online.pairs())
            return online, objective, version, routes.counters

    def _is_routed(self, index: IndexMap) -> bool:
        return self.routing is not None or super()._is_routed(index)

    def _where(self, index: IndexMap) -> str:
        if self.routing is None:
            return f"{super()._where(index)}, as rows are too wide for routes"
        plan, n = self.routing.plan, self.routing.n_chunks
        return (
            f"routes: weights travel between {n} chunks of rows, "
            f"{plan.bytes_of_an_epoch / 1e6:,.1f} MB per epoch and direction"
        )


class RoutedOnline(Online):
    """Epochs over routes.

    Held-out rows are the last chunks: the weights of an epoch's end pass them, and no update
    follows. So each pass over the rows is followed by one over them.
    """

    frames: Routes

    def __init__(self, routing: Routing, others: Others, kept: IO[bytes], *parts: Any) -> None:
        """others: weights that no row has; kept: a file for the best weights; parts: as of
        `Online`.
        """
        super().__init__(*parts)
        self.routing, self.others, self._kept = routing, others, kept
        self._best = self.progress.model, 0.0  # model and time of the weights in the file
        self.training = replace(self.training, together=True)
        if self.held is not None:
            self.held.training = replace(self.held.training, together=True)
        self.pace = Pace(self.setting.plan.threads, 1)  # which wait for the disk, not each other
        # The first checkpoint sorts and writes as much as planning did, so it takes about as long.
        self.checkpointed += PATIENCE * self.setting.clock.seconds_of("layout", "map")

    def pairs(self) -> Pairs:
        """Yields (ids, weights) of the whole model at rest, by rising id."""
        return finite(self.others.merge(self.routing.pairs(self.frames)))

    def _loss(self) -> float:
        loss = super()._loss()
        if self.held is not None:
            self.held.measure(self.progress.model)
        return loss

    def _look(self, held: HeldOut) -> None:
        self._loss()

    def _keep(self) -> None:
        with self.setting.clock.phase("checkpoint"):
            self._fold()
            with self.frames.at_rest():
                self.frames.copy(self._kept)
        self._best = self.progress.model, self.others.time
        if time.monotonic() - self.checkpointed > self.setting.checkpoint_seconds:
            self._checkpoint()

    def go_back(self) -> None:
        """Returns to the weights that were kept."""
        with self.frames.at_rest(fold=True):
            self.frames.copy(self._kept, back=True)
        self.progress.model, self.others.time = self._best

    def _checkpoint(self) -> None:
        with self.setting.clock.phase("checkpoint"):
            began = time.monotonic()
            self._fold()
            with self.frames.at_rest():
                pour(self.pairs(), self.store)
            self.store.checkpoint(self.progress.as_record(self.setting.facts))
        now = time.monotonic()
        self.checkpointed = now + PATIENCE * (now - began)

    def _fold(self) -> tuple[float, float]:
        if not self.penalised:
            return 0.0, 0.0
        keys, widths = self.routing.plan.keys_at_rest()
        self.others.time += self.progress.model.time
        with self.frames.at_rest(fold=True):
            most = self.setting.share // 2
            model, sums = self.training.settle(self.progress.model, keys, widths, most, fold=True)
        self.progress.model = model
        squares, sizes = self.others.sums()
        return sums.squares + squares, sums.absolute + sizes


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
