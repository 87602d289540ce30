"""The online stage of a stored model: epochs over chunks of rows, and what they leave behind.

Qin, Torres, Rusu, VLDB 2017, section 6. A chunk's features are mapped to keys once, when it is
first met; in each epoch a worker acquires the payloads of a chunk, trains them in place and lets
go. Between epochs a checkpoint is written if the last is long ago.
"""

import math
import time
from contextlib import ExitStack
from dataclasses import astuple, replace

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import DataError, StoreError
from tuskml.kernels.passes import Pass
from tuskml.kernels.stored.chunks import Chunks, Keys, Widths
from tuskml.kernels.stored.training import Model, Training
from tuskml.kvstore import FrameCounters, Frames, ModelStore, StoreRoot
from tuskml.kvstore.working.frames import frame_share
from tuskml.learners import events
from tuskml.learners.linear.operators import LEAST_SIZE
from tuskml.learners.linear.plan import Plan
from tuskml.learners.linear.request import Request
from tuskml.learners.linear.stored.early_stop import HeldOut
from tuskml.learners.linear.stored.estimate import estimate_of, expected_epochs
from tuskml.learners.linear.stored.start import DTYPE, Start, first_intercept
from tuskml.learners.linear.stored.step import first_step
from tuskml.learners.linear.stored.told import Trained, described, metadata_of
from tuskml.learners.stored.counters import Clock, Counters
from tuskml.learners.stored.defaults import CACHE, CHECKPOINT_SECONDS
from tuskml.learners.stored.layout import (
    all_fit,
    by_chunks,
    bytes_of_all,
    choose_layout,
    live_features,
)
from tuskml.learners.stored.progress import Progress, facts_of
from tuskml.partitioner import IndexMap

CHUNK_ENTRIES = 1 << 20
FEWEST_CHUNKS = 4  # a worker
MOST_RESTARTS = 6
MOST_ORDERED = 1 << 28  # features, a byte each in the store's record
WEIGHT_BYTES = 4


class Diverged(Exception):
    """Weights or losses are not finite: the step was too long."""


def refuse_infinite(store: ModelStore) -> None:
    """Diverged where weights are not finite: losses may be, as that of the hinge is for NaN."""
    for _, _, weights in store.scan():
        if not np.isfinite(weights).all():
            raise Diverged


class Run:
    """One training of one group; call it once."""

    def __init__(
        self,
        rows: Pass,
        labels: NDArray[np.void],
        request: Request,
        plan: Plan,
        root: StoreRoot | None,
        held: NDArray[np.void] | None = None,
    ) -> None:
        """held: GROUP (1,) of the held-out rows, if any; root: None for a `layout` alone, without
        a warm start and with the same bits.
        """
        self.rows, self.labels, self._root = rows, labels, root
        self.held = None if held is None else replace(rows, groups=held)
        self.task, self.options, self.plan = request.task, request.options, plan
        self.unasked = request.unasked
        self.epochs = expected_epochs(rows.groups, request, plan)
        assert self.options.store is not None
        self.name = self.options.store
        self.start = Start(rows, self.held, self.options, root)
        self.cache = self.options.cache or CACHE
        self.share = self.cache // plan.threads
        self.tight = False  # whether features are ordered, as the cache does not hold them
        self.all_bytes = 0  # of the frames of all keys, where known
        self.deadline = math.inf
        if self.options.time is not None:
            self.deadline = time.monotonic() + self.options.time
        self.clock = Clock()
        self.sizes: list[int] = []  # keys of each chunk
        self.features, self.keys = [0, 0], [0, 0]  # of a pass over the held-out rows, the others
        self.facts = facts_of(self.task, rows, labels)
        both = [rows.groups] if held is None else [rows.groups, held]
        self.n_rows = sum(int(groups["n_rows"][0]) for groups in both)

    @property
    def root(self) -> StoreRoot:
        """Where the store is."""
        if self._root is None:
            raise StoreError("there is no directory of stores here")
        return self._root

    def __call__(self) -> Trained:
        """Lays out, trains, seals; leaves a working store only for `resume`."""
        with ExitStack() as stack:
            store, progress = None, None
            if self.options.resume:
                store = stack.enter_context(self.root.resume(self.name))
                assert store.last_checkpoint is not None
                progress = Progress.from_record(store.last_checkpoint.metadata, self.facts)
            with self.clock.phase("layout"):
                index = self.layout() if store is None else store.index
            with self.clock.phase("map"):
                chunks = stack.enter_context(self._map(index, self.rows))
                if self.held is not None:
                    self.held_chunks = stack.enter_context(self._map(index, self.held))
            if progress is None:
                with self.clock.phase("step"):
                    progress = self._first(chunks)
            settles = bool(self.options.l1 or self.options.l2)
            estimate = estimate_of(chunks, self.sizes, self.cache, self.epochs, settles)
            return replace(self._train(chunks, index, store, progress), estimate=estimate)

    # --- before the epochs ---

    def layout(self) -> IndexMap:
        """Which features share a key."""
        group, mark = self.rows.groups[0], self.rows.cancel_mark
        if not self.options.partition:
            return IndexMap.by_rule(1)
        live = live_features(group, self.start.ids, self.start.dimension(), self.cache, mark)
        most = self.share // 2 // WEIGHT_BYTES
        if live is not None and all_fit(len(live), self.options.partition, self.cache):
            most = self.cache // WEIGHT_BYTES
        elif live is not None and len(live) <= MOST_ORDERED:
            self.tight = True
            live = by_chunks(live, group, self.rows_per_chunk(), mark)
            assert live.order is not None
            most = max(most - live.order.most_exclusive, most // 2)
        rows = self.rows_per_chunk()
        return choose_layout(group, self.options, self._root, rows, most, live, mark)

    def most_bytes(self, index: IndexMap) -> int:
        """Of the frames of a chunk: all of them where the cache holds all that there are."""
        self.all_bytes = bytes_of_all(index)
        every = frame_share(self.cache, 1)
        return every if 0 < self.all_bytes <= every else self.share // 2

    def rows_per_chunk(self) -> int:
        """Rows of a chunk whose payloads fit."""
        n_rows = int(self.rows.groups["n_rows"][0])
        entries = min(CHUNK_ENTRIES, self.share // 16) if self.tight else CHUNK_ENTRIES
        wanted = entries * n_rows // max(1, self.rows.nonzeros())
        most = -(-n_rows // (FEWEST_CHUNKS * self.plan.threads))
        return max(1, min(wanted, most))

    def _map(self, index: IndexMap, rows: Pass) -> Chunks:
        """Cuts the rows, and counts the distinct features and keys of each chunk."""
        self.tight = index.live is not None and index.live.order is not None
        chunks = Chunks.map(
            rows, index.locate, index.sizes, self.rows_per_chunk(), self.most_bytes(index)
        )
        self.sizes = [len(chunk.keys) for chunk in chunks] if rows is self.rows else self.sizes
        for chunk in chunks:
            self.features[rows is self.rows] += chunk.features
            self.keys[rows is self.rows] += len(chunk.keys)
        return chunks

    def _first(self, chunks: Chunks) -> Progress:
        start = Model(first_intercept(self.rows, self.labels, self.task, self.options))
        step = self.plan.step
        if not isinstance(step, float):
            step = first_step(self._training(chunks, 0, 1.0), start, self.cache)
        continued = self.options.warm_start is not None
        return Progress(step, self.start.dimension(), continued, model=start)

    def _training(self, chunks: Chunks, access: int, step: float) -> Training:
        plan, options = self.plan, self.options
        return Training(
            chunks, access, step, plan.power, plan.batch_size,
            options.l1, options.l2, plan.seed, plan.shuffle,
        )  # fmt: skip

    # --- the epochs ---

    def _train(
        self, chunks: Chunks, index: IndexMap, store: ModelStore | None, progress: Progress
    ) -> Trained:
        """store: the one to go on with, None for a new one; again with shorter steps where it
        diverges, which a new store can as often as the plan allows, one that is resumed cannot.
        """
        step = progress.step
        for _ in range(MOST_RESTARTS):
            try:
                begun = store or self._new_store(index)
                return self._in_store(begun, chunks, progress.again(step))
            except Diverged:
                if store is not None:
                    raise self._diverged(step) from None
                step /= 4
        raise self._diverged(step * 4)

    def _diverged(self, step: float) -> DataError:
        return DataError(
            f"the training of {self.name!r} diverged with steps down to {step:g}: scale the "
            "features' values to about 1, or give a smaller 'step'"
        )

    def _new_store(self, index: IndexMap) -> ModelStore:
        """With the weights of the warm start. Not by `create`, whose checkpoint would be there to
        resume from before there was an epoch.
        """
        store = self.root.create(self.name, index, DTYPE)
        try:
            for ids, weights in self.start.weights():
                store.add_weights(ids, weights)
        except BaseException:
            store.discard()
            raise
        return store

    def _in_store(self, store: ModelStore, chunks: Chunks, progress: Progress) -> Trained:
        """Trains in a working store, which is gone afterwards unless it can be resumed."""
        try:
            online, objective, counted = self._epochs(store, chunks, progress)
            with self.clock.phase("seal"):
                refuse_infinite(store)
                warm = self.options.warm_start
                version = self.root.publish(
                    store,
                    metadata_of(self.task, self.labels, self.n_rows, progress, objective),
                    progress.dimension,
                    warm.store if warm is not None else None,
                )
        except BaseException as error:
            if store.last_checkpoint is None or isinstance(error, Diverged):
                store.discard()
            else:
                store.close()
            raise
        description = described(self.plan, store.index, self.unasked)
        store.discard()
        held = 0 if online.held is None else online.held.passes
        saved = sum(
            (self.features[which] - self.keys[which]) * times
            for which, times in enumerate((held, online.passes))
        )
        done = Counters.of_frames(counted, saved + counted.wanted, saved, self.clock)
        return Trained(
            version.reference, progress.dimension, progress.model.intercept, objective,
            progress.history, progress.epoch, online.converged, online.status, progress.step,
            description, done,
        )  # fmt: skip

    def _epochs(
        self, store: ModelStore, chunks: Chunks, progress: Progress
    ) -> "tuple[Online, float, FrameCounters]":
        """The epochs in a store, the objective at their end, and what the frames counted."""
        penalties = bool(self.options.l1 or self.options.l2)
        given = self.cache, self.plan.threads, penalties, self.all_bytes
        with store.frames(*given) as frames:
            online = Online(self, store, frames, chunks, progress)
            online.run()
            if online.stopped:
                frames.close(flush=False)
            else:
                objective = online.objective()
        if not online.stopped:
            return online, objective, frames.counters
        first = frames.counters
        progress.model = Model(**store.rewind().metadata["model"])
        with store.frames(*given) as frames:
            online.read(frames)
            objective = online.objective()
        pairs = zip(astuple(first), astuple(frames.counters), strict=True)
        return online, objective, FrameCounters(*(a + b for a, b in pairs))


class Online:
    """Epochs on one working store."""

    def __init__(
        self, run: Run, store: ModelStore, frames: Frames, chunks: Chunks, progress: Progress
    ) -> None:
        self.run_of, self.store, self.frames, self.progress = run, store, frames, progress
        self.training = run._training(chunks, frames.access, progress.step)
        self.n_rows = int(run.rows.groups["n_rows"][0])
        self.penalised = bool(run.options.l1 or run.options.l2)
        self.passes = 0
        self.held: HeldOut | None = None
        if run.held is not None:
            judged = run._training(run.held_chunks, frames.access, progress.step)
            self.held = HeldOut(judged, int(run.held.groups["n_rows"][0]))
        self.converged, self.status = False, "not converged" if run.plan.epsilon else "ok"
        self.checkpointed = time.monotonic()
        self._keys: tuple[Keys, Widths] | None = None

    def run(self) -> None:
        """Epochs until the loss stops falling, they are done, or the time is over."""
        progress, run = self.progress, self.run_of
        if self.held is not None and progress.epoch:  # resumed at the best weights so far
            self.held.improves(progress.model)
        while progress.epoch < run.plan.max_iter:
            if time.monotonic() >= run.deadline:
                self.status = "time limit"
                break
            loss = self._epoch()
            progress.history.append(loss)
            progress.epoch += 1
            events.tell(events.Event(0, 0, progress.epoch, loss))
            if self._settled():
                self.converged, self.status = True, "ok"
                break
            if self.held is not None:
                self._judge(self.held)
                if self.stopped:
                    break
            elif time.monotonic() - self.checkpointed > CHECKPOINT_SECONDS:
                self._checkpoint()

    def _judge(self, held: HeldOut) -> None:
        """Keeps the weights if they are the best so far on held-out rows, in a checkpoint."""
        if held.improves(self.progress.model):
            self._checkpoint()
        elif held.stopped:
            self.status = "early stop"

    @property
    def stopped(self) -> bool:
        """Whether it ended early, so that the last checkpoint has the weights."""
        return self.status == "early stop"

    def read(self, frames: Frames) -> None:
        """Goes on with the store's weights in other frames."""
        self.frames, self.training = frames, replace(self.training, access=frames.access)

    def _epoch(self) -> float:
        """The mean loss of the rows, each before its own update."""
        clock = self.run_of.clock
        done = self.training.epoch(self.progress.model, float(self.progress.epoch))
        self.passes += 1
        for name in ("acquire", "train", "release"):
            clock.add(name, getattr(done, f"{name}_ns") / 1e9)
        loss = done.loss / self.n_rows
        if not math.isfinite(loss + done.model.intercept):
            raise Diverged
        self.progress.model = done.model
        return loss

    def _settled(self) -> bool:
        history, epsilon = self.progress.history, self.run_of.plan.epsilon
        if not epsilon or len(history) < 2:
            return False
        least = LEAST_SIZE * abs(history[0])
        return abs(history[-2] - history[-1]) <= epsilon * max(abs(history[-1]), least)

    def _checkpoint(self) -> None:
        with self.run_of.clock.phase("checkpoint"):
            self._fold()
            self.store.checkpoint(self.progress.as_record(self.run_of.facts))
        self.checkpointed = time.monotonic()

    def _fold(self) -> tuple[float, float]:
        """Leaves plain weights in the payloads; sums of their squares and of their sizes."""
        if not self.penalised:
            return 0.0, 0.0
        if self._keys is None:
            self._keys = self._all_keys()
        keys, widths = self._keys
        model, sums = self.training.settle(
            self.progress.model, keys, widths, self.run_of.share // 2, fold=True
        )
        self.progress.model = model
        return sums.squares, sums.absolute

    def _all_keys(self) -> tuple[Keys, Widths]:
        """Keys of the chunks, and where there was a warm start all that are in the store."""
        keys, widths = self.training.chunks.keys()
        if not self.progress.continued:
            return keys, widths
        found = [part.astype(np.uint64) for part, _, _ in self.store.scan()]
        keys = np.unique(np.concatenate([keys, *found]))
        return keys, self.store.index.sizes(keys.astype(np.int64)).astype(np.uint32)

    def objective(self) -> float:
        """At the weights as they ended, which are plain afterwards."""
        options = self.run_of.options
        with self.run_of.clock.phase("objective"):
            squares, sizes = self._fold()
            loss = self.training.loss(self.progress.model).loss / self.n_rows
            self.passes += 1
        if not math.isfinite(loss):
            raise Diverged
        return loss + options.l2 / 2 * squares + options.l1 * sizes
