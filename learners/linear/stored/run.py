"""The online stage of a stored model: epochs over chunks of rows, and their result.

Qin, Torres, Rusu, VLDB 2017, section 6. A chunk's features are mapped to keys once, on the first
visit; in each epoch a worker acquires the payloads of a chunk, trains them in place and releases
them. Between epochs a checkpoint is written if the last is long ago.
"""

import math
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import astuple, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import DataError, StoreError
from tuskml.kernels import passes
from tuskml.kernels.passes import Pass
from tuskml.kernels.segments import sparse_segments
from tuskml.kernels.stored.chunks import Chunks, Few
from tuskml.kernels.stored.training import Model, Training
from tuskml.kvstore import FrameCounters, ModelStore, StoreRoot, buffers_of
from tuskml.kvstore.frames import frame_share
from tuskml.kvstore.versions import Version
from tuskml.kvstore.working import pairs_of
from tuskml.learners.linear.multinomial.stored import Several, centre_intercepts, seal_pairs
from tuskml.learners.linear.request import ROUTES, Plan, Request
from tuskml.learners.linear.stored.estimate import StoreUse, estimate_epochs, estimate_of
from tuskml.learners.linear.stored.online import (
    AboveStart,
    Divergence,
    HeldOut,
    Online,
    SealedResult,
    Setting,
    describe_plan,
    metadata_of,
    refuse_infinite,
)
from tuskml.learners.linear.stored.start import DTYPE, Start, Trials, first_intercept, penalties_of
from tuskml.learners.options.kinds import DEFAULT_CACHE
from tuskml.learners.stored.layout import (
    CACHED_BLOCK,
    all_fit,
    bound_blocks,
    bytes_of_all,
    describe_layout,
    live_features,
)
from tuskml.learners.stored.progress import CHECKPOINT_SECONDS, Clock, Counters, Progress, facts_of
from tuskml.partitioner import IndexMap, LiveFeatures

CHUNK_ENTRIES = 1 << 20
FEWEST_CHUNKS = 4  # a worker
MOST_RESTARTS = 6
MOST_ORDERED = 1 << 28  # features, a byte each in the store's record
WEIGHT_BYTES = 4
MIX, WINDOW = np.uint64(0x9E3779B97F4A7C15), 1 << 16
"""The multiplier of the hash, and the number of ids that are hashed at once."""
SKETCH_SHARE = 1 / 16
"""Share of the cache for the sketch that counts the features."""
LIVE_BYTES, SLACK = 2, 1.1
"""Bytes of memory for a feature that occurs, where ids are sparse, and the error factor of the
sketch.
"""


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
        classes: Several | None = None,
    ) -> None:
        """held: GROUP (1,) of the held-out rows, if any; root: None for a `layout` alone, without
        a warm start and with the same bits; classes: more than two.
        """
        self.classes = classes
        self.several = 1 if classes is None else len(classes.label)
        self.rows, self.labels, self._root = rows, labels, root
        self.held = None if held is None else replace(rows, groups=held)
        self.task, self.options, self.plan = request.task, request.options, plan
        self.unasked = request.unasked
        self.epochs = estimate_epochs(rows.groups, request, plan)
        assert self.options.store is not None
        self.name = self.options.store
        self.start = Start(rows, self.held, self.options, root)
        given = self.options.cache or DEFAULT_CACHE
        self.buffers = buffers_of(given)  # of LevelDB; the rest is for acquired weights
        self.cache = given - self.buffers
        self.share = self.cache // plan.threads
        self.tight = False  # whether features are ordered, as the cache does not hold them
        self.arranged = ""  # how rare features are ordered, and why
        self.all_bytes = 0  # of the frames of all keys, where known
        self.last = False  # whether a training that diverges is not restarted
        self.gave_up = False  # whether the model is the start
        self.deadline = math.inf
        if self.options.time is not None:
            self.deadline = time.monotonic() + self.options.time
        self.checkpoint_seconds = CHECKPOINT_SECONDS
        self.clock = Clock()
        self.sizes: list[int] = []  # keys of each chunk
        self.features, self.keys = [0, 0], [0, 0]  # of a pass over the held-out rows, the others
        self.facts = facts_of(self.task, rows, labels)
        both = [rows.groups] if held is None else [rows.groups, held]
        self.n_rows = sum(int(groups["n_rows"][0]) for groups in both)

    @property
    def root(self) -> StoreRoot:
        """Returns where the store is."""
        if self._root is None:
            raise StoreError("there is no directory of stores here")
        return self._root

    def __call__(self) -> SealedResult:
        """Lays out, trains, seals; keeps a working store only for `resume`."""
        with ExitStack() as stack:
            store, progress = None, None
            if self.options.resume:
                store = stack.enter_context(self.root.resume(self.name, buffers=self.buffers))
                assert store.last_checkpoint is not None
                progress = Progress.from_record(store.last_checkpoint.metadata, self.facts)
            trials = None
            if store is None:
                with self.clock.phase("step"):
                    trials = Trials(self.rows, self.start, self.several)
            with self.clock.phase("layout"):
                index = self.layout() if store is None else store.index
            with self.clock.phase("map"):
                chunks = stack.enter_context(self._map(index, self.rows))
                if self.held is not None:
                    self.held_chunks = stack.enter_context(self._map(index, self.held))
            if trials is not None:
                with self.clock.phase("step"):
                    progress = self._first(chunks, trials)
            assert progress is not None
            estimate = self._estimate(chunks)
            return replace(self._train(chunks, index, store, progress), estimate=estimate)

    # --- before the epochs ---

    def layout(self) -> IndexMap:
        """Says which features share a key."""
        if self.options.method != ROUTES:
            return self._partition()
        live = self._live()
        if live is None or not self._fits(len(live)):
            return self._partition()
        return bound_blocks(IndexMap.by_rule(CACHED_BLOCK, live), self.several)

    def _partition(self) -> IndexMap:
        """The layout of methods `kv-vp` and `kv`, and of rows that are too wide for routes."""
        from tuskml.learners.stored import partitions  # most trainings partition nothing

        group, mark = self.rows.groups[0], self.rows.cancel_mark
        index = partitions.option_layout(group, self.options, self._root, mark, self.several)
        if index is not None and index.live is None:
            return index
        live = self._live()
        if index is not None:
            return index if live is None else index.with_others(live)
        most = self.share // 2 // self.feature_bytes
        if live is None or len(live) > MOST_ORDERED:
            given = 0, None, self.rows_per_chunk(), most, mark, self.several
            return partitions.sampled_layout(group, self.options, *given)
        self.tight = True
        rows = self.rows_per_chunk()
        live = partitions.by_chunks(live, group, rows, mark)
        assert live.order is not None
        most = max(most - live.order.most_exclusive, most // 2)
        cost = partitions.cost_for(self.options, self.several)
        arranging = partitions.Arranging(group, live, rows, most, cost, mark, self._root)
        arranged = arranging(self.options.layout)
        self.arranged = f" {arranged.told}"
        return bound_blocks(arranged.index, self.several)

    def _live(self) -> LiveFeatures | None:
        """The features that occur, at two bytes each; None if the cache could not hold them."""
        if LIVE_BYTES * self.n_features() > SLACK * self.cache:
            return None
        group, mark = self.rows.groups[0], self.rows.cancel_mark
        return live_features(group, self.start.ids, self.start.dimension(), self.cache, mark)

    def travels(self) -> bool:
        """Returns whether the weights travel along routes, as the cache does not hold them."""
        if self.options.method != ROUTES or int(self.rows.groups["n_rows"][0]) <= 1:
            return False
        return not self._fits(self.n_features())

    def n_features(self) -> int:
        """Estimates the number of features that occur; exact where they certainly fit.

        Linear counting (Whang, Vander-Zanden, Taylor, ACM TODS 1990): the share of a hash's bits
        that no feature sets.
        """
        most = min(self.start.dimension(), self.rows.nonzeros())
        if self._fits(most):
            return most
        bits = int(math.log2(self.cache * SKETCH_SHARE * 8))
        group = self.rows.groups[0]

        def hash_ids() -> Iterator[NDArray[np.int32]]:
            for _, ids in sparse_segments(group):
                passes.raise_if_cancelled(self.rows.cancel_mark)
                for at in range(0, len(ids), WINDOW):
                    mixed = ids[at : at + WINDOW].astype(np.uint64) * MIX
                    yield (mixed >> np.uint64(64 - bits)).astype(np.int32)

        free = 1 - len(LiveFeatures.of(hash_ids, 1 << bits)) / (1 << bits)
        return most if free <= 0 else min(most, round(-(1 << bits) * math.log(free)))

    def _fits(self, n_features: int) -> bool:
        """Returns whether the cache holds the weights of `n_features` features."""
        return all_fit(n_features, self.cache, self.several)

    @property
    def feature_bytes(self) -> int:
        """Returns the bytes of one feature's weights."""
        return WEIGHT_BYTES * self.several

    def locate(
        self, index: IndexMap, ids: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Keys of features, and slots of their first weights."""
        keys, slots = index.locate(ids)
        return keys, slots if self.several == 1 else slots * np.int32(self.several)

    def widths(self, index: IndexMap, keys: NDArray[np.int64]) -> NDArray[np.int64]:
        """Weights under keys."""
        return index.sizes(keys) * self.several

    def most_bytes(self, index: IndexMap) -> int:
        """Returns the most bytes of a chunk's frames: all of them where the cache holds all."""
        self.all_bytes = bytes_of_all(index, self.several)
        every = frame_share(self.cache, 1)
        return every if 0 < self.all_bytes <= every else self.share // 2

    def rows_per_chunk(self) -> int:
        """Rows of a chunk whose payloads fit."""
        n_rows = int(self.rows.groups["n_rows"][0])
        entries = (
            min(CHUNK_ENTRIES, self.share // (4 * self.feature_bytes))
            if self.tight
            else CHUNK_ENTRIES
        )
        wanted = entries * n_rows // max(1, self.rows.nonzeros())
        most = -(-n_rows // (FEWEST_CHUNKS * self.plan.threads))
        return max(1, min(wanted, most))

    def _map(self, index: IndexMap, rows: Pass) -> Chunks:
        """Cuts the rows, and counts the distinct features and keys of each chunk."""
        self.tight = index.live is not None and index.live.order is not None
        each, memory = self.rows_per_chunk(), self.cache // 2  # of which no weights are there yet
        locate = Few.within(memory, partial(self.locate, index), rows, each)
        sizes, most = partial(self.widths, index), self.most_bytes(index)
        chunks = Chunks.map(rows, locate, sizes, each, most)
        return self._count(chunks, rows)

    def _count(self, chunks: Chunks, rows: Pass) -> Chunks:
        self.sizes = [len(chunk.keys) for chunk in chunks] if rows is self.rows else self.sizes
        for chunk in chunks:
            self.features[rows is self.rows] += chunk.features
            self.keys[rows is self.rows] += len(chunk.keys)
        return chunks

    def _first(self, chunks: Chunks, trials: Trials) -> Progress:
        start = self.first_model()
        given = self.plan.step if isinstance(self.plan.step, float) else None
        step, begun = trials.run(self._training(chunks, 0, 1.0), start, given)
        begun += penalties_of(self.start, self.options.l1, self.options.l2)
        continued = self.options.warm_start is not None
        return Progress(step, self.start.dimension(), continued, model=start, begun=begun)

    def first_model(self) -> Model:
        """The model at the start, without its weights."""
        if self.classes is not None:
            return Model(intercepts=self.classes.first_intercepts(self.options))
        return Model(first_intercept(self.rows, self.labels, self.task, self.options))

    def _estimate(self, chunks: Chunks) -> StoreUse:
        """The expected requests of the training to its store."""
        settles = bool(self.options.l1 or self.options.l2)
        return estimate_of(chunks, self.sizes, self.cache, self.epochs, settles)

    def _training(self, chunks: Chunks, access: int, step: float) -> Training:
        plan, options = self.plan, self.options
        return Training(
            chunks,
            access,
            step,
            plan.power,
            plan.batch_size,
            options.l1,
            options.l2,
            plan.seed,
            plan.shuffle,
            classes=None if self.classes is None else self.classes.softmax,
        )

    def _parts(
        self, chunks: Chunks, access: int, step: float
    ) -> tuple[Setting, Training, HeldOut | None]:
        """The inputs of the epochs: their setting, the training and the held-out rows."""
        setting = Setting(
            options=self.options,
            plan=self.plan,
            n_rows=int(self.rows.groups["n_rows"][0]),
            n_entries=self.rows.nonzeros(),
            facts=self.facts,
            share=self.share,
            clock=self.clock,
            deadline=self.deadline,
            checkpoint_seconds=self.checkpoint_seconds,
            last=self.last,
            gave_up=self.gave_up,
        )
        held = None
        if self.held is not None:
            judged = self._training(self.held_chunks, access, step)
            held = HeldOut(judged, int(self.held.groups["n_rows"][0]))
        return setting, self._training(chunks, access, step), held

    # --- the epochs ---

    def _train(
        self, chunks: Chunks, index: IndexMap, store: ModelStore | None, progress: Progress
    ) -> SealedResult:
        """Trains, and restarts with shorter steps after a divergence: a new store as often as the
        plan allows, a resumed one never.

        store: the resumed one, None for a new one.
        """
        step = progress.step
        for left in reversed(range(MOST_RESTARTS)):
            try:
                self.last = not left or store is not None
                begun = store or self._new_store(index)
                return self._in_store(begun, chunks, progress.again(step))
            except AboveStart as above:
                return self._start(index, chunks, progress.again(step), above)
            except Divergence:
                if store is not None:
                    raise self._divergence(step) from None
                step /= 4
        raise self._divergence(step * 4)

    def _start(
        self, index: IndexMap, chunks: Chunks, progress: Progress, above: AboveStart
    ) -> SealedResult:
        """The start as a model, which replaces one that is worse."""
        self.gave_up = True
        start = replace(progress, epoch=0, history=[], model=self.first_model())
        trained = self._in_store(self._new_store(index), chunks, start)
        history, epochs = above.history, len(above.history)
        return replace(trained, status=above.status, history=history, epochs=epochs)

    def _divergence(self, step: float) -> DataError:
        return DataError(
            f"the training of {self.name!r} diverged with steps down to {step:g}: scale the "
            "features' values to about 1, or give a smaller 'step'"
        )

    def _new_store(self, index: IndexMap) -> ModelStore:
        """Makes a store with the weights of the warm start. Unlike `create`, it writes no
        checkpoint to resume from before the first epoch.
        """
        facts = None if self.classes is None else {"several": self.several}
        given = index, DTYPE
        store = self.root.create(self.name, *given, metadata=facts, buffers=self.buffers)
        try:
            for ids, weights in self._first_weights():
                store.add_weights(ids, weights)
        except BaseException:
            store.discard()
            raise
        return store

    def _first_weights(self) -> Iterator[tuple[NDArray[np.int64], NDArray[Any]]]:
        """Ids and weights of a new store, in parts."""
        return self.start.weights()

    def _in_store(self, store: ModelStore, chunks: Chunks, progress: Progress) -> SealedResult:
        """Trains in a working store, which is gone afterwards unless it can be resumed."""
        try:
            online, objective, version, counted = self._epochs(store, chunks, progress)
        except BaseException as error:
            if store.last_checkpoint is None or isinstance(error, Divergence):
                store.discard()
            else:
                store.close()
            raise
        where, routed = self._where(store.index), self._is_routed(store.index)
        description = describe_plan(self.plan, where, self.unasked) + online.pace.description
        store.discard()
        held = 0 if online.held is None else online.held.passes
        saved = sum(
            (self.features[which] - self.keys[which]) * times
            for which, times in enumerate((held, online.passes))
        )
        done = Counters.of_frames(counted, saved + counted.wanted, saved, self.clock, routed)
        return SealedResult(
            version.reference,
            progress.dimension,
            progress.model.intercept,
            objective,
            progress.history,
            progress.epoch,
            online.converged,
            online.status,
            progress.step,
            description,
            done,
        )

    def _epochs(
        self, store: ModelStore, chunks: Chunks, progress: Progress
    ) -> tuple[Online, float, Version, FrameCounters]:
        """Trains and seals; returns the epochs, their objective, the version, and the store's
        counters.
        """
        penalties = bool(self.options.l1 or self.options.l2)
        given = self.cache, self.plan.threads, penalties, self.all_bytes
        pushes = self.options.sharing == "push"
        with store.frames(*given, pushes=pushes) as frames:
            parts = self._parts(chunks, frames.access, progress.step)
            online = Online(*parts, store, frames, progress)
            online.run()
            if online.has_stopped:
                frames.close(flush=False)
            else:
                objective = online.judge()
        counted = frames.counters
        if online.has_stopped:
            progress.model = Model(**store.rewind().metadata["model"])
            with store.frames(*given, pushes=pushes) as frames:
                online.read(frames)
                objective = online.judge()
            pairs = zip(astuple(counted), astuple(frames.counters), strict=True)
            counted = FrameCounters(*(a + b for a, b in pairs))
        with self.clock.phase("seal"):
            refuse_infinite(store)
            version = self._publish(store, progress, objective)
        return online, objective, version, counted

    def _publish(
        self, store: ModelStore, progress: Progress, objective: float, **more: Any
    ) -> Version:
        warm = self.options.warm_start
        metadata = metadata_of(self.task, self.labels, self.n_rows, progress, objective)
        dimension = progress.dimension
        if self.classes is not None:
            penalised = bool(self.options.l1 or self.options.l2)
            intercepts = centre_intercepts(progress.model.intercepts, penalised)
            metadata |= {"intercept": None, "classes": self.classes.label.tolist()}
            dimension = (dimension + 1) * self.several
            pairs = more.get("pairs") or pairs_of(store)
            more = more | {"pairs": seal_pairs(pairs, intercepts)}
        given = metadata, dimension, warm.store if warm is not None else None
        return self.root.publish(store, *given, **more)

    def _is_routed(self, index: IndexMap) -> bool:
        """Returns whether method `routes` ran: the cache holds all weights, in blocks by id."""
        ordered = index.live is None or index.live.order is not None
        return self.options.method == ROUTES and not index.n_partitions and not ordered

    def _where(self, index: IndexMap) -> str:
        """Describes the method, and how the weights lie."""
        if self._is_routed(index):
            return "routes: the cache holds all weights"
        return f"{describe_layout(index)}{self.arranged}"
