"""The online stage of a stored model: epochs over chunks of rows, and what they leave behind.

Qin, Torres, Rusu, VLDB 2017, section 6. A chunk's features are mapped to keys once, when it is
first met; in each epoch a worker acquires the payloads of a chunk, trains them in place and lets
go. Between epochs a checkpoint is written if the last is long ago.
"""

import math
import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import DataError
from tuskml.kernels import passes
from tuskml.kernels.passes import Pass
from tuskml.kernels.stored.chunks import Chunks, Keys, Widths
from tuskml.kernels.stored.training import Model, Training
from tuskml.kvstore import Frames, ModelStore, StoreRoot
from tuskml.kvstore.roots.versions import Version
from tuskml.kvstore.working.frames import FrameCounters, frame_share
from tuskml.kvstore.working.routes import Routes
from tuskml.learners import events
from tuskml.learners.linear.explaining.plan_text import plan_line
from tuskml.learners.linear.operators import LEAST_SIZE
from tuskml.learners.linear.plan import Plan
from tuskml.learners.linear.request import Request
from tuskml.learners.linear.stored.outcome import Diverged, Trained, refuse_infinite
from tuskml.learners.linear.stored.step import first_step
from tuskml.learners.stored.affinity import Arranging
from tuskml.learners.stored.counters import Clock, Counters
from tuskml.learners.stored.defaults import CACHE, CHECKPOINT_SECONDS
from tuskml.learners.stored.layout import (
    Arranged,
    all_fit,
    by_chunks,
    bytes_of_all,
    choose_layout,
    cost_for,
    described,
    given_layout,
    live_features,
)
from tuskml.learners.stored.progress import Progress, facts_of
from tuskml.partitioner import IndexMap, LiveFeatures

CHUNK_ENTRIES = 1 << 20
FEWEST_CHUNKS = 4  # a worker
MOST_RESTARTS = 6
MOST_ORDERED = 1 << 28  # features, a byte each in the store's record
DTYPE, WEIGHT_BYTES = "float32", 4


class Run:
    """One training of one group; call it once."""

    def __init__(
        self,
        rows: Pass,
        labels: NDArray[np.void],
        request: Request,
        plan: Plan,
        root: StoreRoot,
    ) -> None:
        self.rows, self.labels, self.root = rows, labels, root
        self.task, self.options, self.plan = request.task, request.options, plan
        assert self.options.store is not None
        self.name = self.options.store
        self.cache = self.options.cache or CACHE
        self.share = self.cache // plan.threads
        self.tight = False  # whether features are ordered, as the cache does not hold them
        self.arranged = ""  # how rare features are ordered, and why
        self.all_bytes = 0  # of the frames of all keys, where known
        self.deadline = math.inf
        if self.options.time is not None:
            self.deadline = time.monotonic() + self.options.time
        self.clock = Clock()
        self.features = self.keys = 0
        self.facts = facts_of(self.task, rows, labels)

    def __call__(self) -> Trained:
        """Lays out, trains, seals; leaves a working store only for `resume`."""
        with ExitStack() as stack:
            store, progress = None, None
            if self.options.resume:
                store = stack.enter_context(self.root.resume(self.name))
                assert store.last_checkpoint is not None
                progress = Progress.from_record(store.last_checkpoint.metadata, self.facts)
            with self.clock.phase("layout"):
                index = self._layout() if store is None else store.index
            with self.clock.phase("map"):
                chunks = stack.enter_context(self._map(index))
            if progress is None:
                with self.clock.phase("step"):
                    progress = self._first(chunks)
            return self._train(chunks, index, store, progress)

    # --- before the epochs ---

    def _layout(self) -> IndexMap:
        group, mark = self.rows.groups[0], self.rows.cancel_mark
        if (index := given_layout(group, self.options, self.root, mark)) is not None:
            return index
        assert isinstance(self.options.partition, int)
        live = self._live()
        most = self.share // 2 // WEIGHT_BYTES
        if live is not None and self._fits(len(live)):
            most = self.cache // WEIGHT_BYTES
        elif live is not None and len(live) <= MOST_ORDERED:
            self.tight = True
            live = by_chunks(live, group, self._rows_per_chunk(), mark)
            assert live.order is not None
            most = max(most - live.order.most_exclusive, most // 2)
        arranged, rows = Arranged(live), self._rows_per_chunk()
        if self.tight and live is not None:
            cost = partial(cost_for, self.options, self.root, live)
            find = Arranging(group, live, rows, most, mark)
            arranged = find(self.options.layout, cost, self.root)
            self.arranged = f" {arranged.told}"
        return choose_layout(group, self.options, self.root, rows, most, arranged, mark)

    def _live(self) -> LiveFeatures | None:
        """The features that there are, where the cache can hold which they are."""
        group, mark = self.rows.groups[0], self.rows.cancel_mark
        known = lambda: (ids for ids, _ in self._known())  # noqa: E731
        return live_features(group, known, self._dimension(), self.cache, mark)

    def _fits(self, n_features: int) -> bool:
        """Whether the cache holds the weights of so many features."""
        return all_fit(n_features, self.options.partition, self.cache)

    def _most_bytes(self, index: IndexMap) -> int:
        """Of the frames of a chunk: all of them where the cache holds all that there are."""
        self.all_bytes = bytes_of_all(index)
        every = frame_share(self.cache, 1)
        return every if 0 < self.all_bytes <= every else self.share // 2

    def _rows_per_chunk(self) -> int:
        n_rows = int(self.rows.groups["n_rows"][0])
        entries = min(CHUNK_ENTRIES, self.share // 16) if self.tight else CHUNK_ENTRIES
        wanted = entries * n_rows // max(1, self.rows.nonzeros())
        most = -(-n_rows // (FEWEST_CHUNKS * self.plan.threads))
        return max(1, min(wanted, most))

    def _map(self, index: IndexMap) -> Chunks:
        """Cuts the rows, and counts the distinct features and keys of each chunk."""
        self.tight = index.live is not None and index.live.order is not None
        chunks = Chunks.map(
            self.rows, index.locate, index.sizes, self._rows_per_chunk(), self._most_bytes(index)
        )
        return self._counted(chunks)

    def _counted(self, chunks: Chunks) -> Chunks:
        for chunk in chunks:
            self.features += chunk.features
            self.keys += len(chunk.keys)
        return chunks

    def _first(self, chunks: Chunks) -> Progress:
        start, step = Model(self._start()), self.plan.step
        if not isinstance(step, float):
            step = first_step(self._training(chunks, 0, 1.0), start, self._trial_bytes())
        continued = self.options.warm_start is not None
        return Progress(step, self._dimension(), continued, model=start)

    def _trial_bytes(self) -> int:
        return self.cache

    def _dimension(self) -> int:
        """Features of the rows, and of the warm start where that has more."""
        seen, warm = int(self.rows.groups["dim"][0]), self.options.warm_start
        if warm is None:
            return seen
        known = len(warm.coef) if warm.store is None else self.root.version(warm.store).dimension
        return max(seen, known)

    def _start(self) -> float:
        """The warm start's intercept, or that of the best constant."""
        if self.options.warm_start is not None:
            return self.options.warm_start.intercept
        if not self.options.fit_intercept:
            return 0.0
        if self.task.quadratic:
            return float(self.labels["mean"][0])
        if self.task.name != "logistic":
            return 0.0
        n, high = int(self.labels["n_rows"][0]), int(self.labels["n_high"][0])
        weight = np.ones(2) if self.rows.class_weight is None else self.rows.class_weight[0]
        return float(np.log(high * weight[1] / ((n - high) * weight[0])))

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
            for ids, weights in self._known():
                store.add_weights(ids, weights)
        except BaseException:
            store.discard()
            raise
        return store

    def _known(self) -> Iterator[tuple[NDArray[np.int64], NDArray[Any]]]:
        """Ids and weights of the warm start, in parts."""
        warm = self.options.warm_start
        if warm is not None and warm.store is not None:
            with self.root.open(warm.store) as source:
                for ids, weights in source.items():
                    passes.raise_if_cancelled(self.rows.cancel_mark)
                    yield ids, weights.astype(DTYPE)
        elif warm is not None:
            yield np.arange(len(warm.coef)), np.array(warm.coef, DTYPE)

    def _in_store(self, store: ModelStore, chunks: Chunks, progress: Progress) -> Trained:
        """Trains in a working store, which is gone afterwards unless it can be resumed."""
        try:
            online, objective, version, counted = self._epochs(store, chunks, progress)
        except BaseException as error:
            if store.last_checkpoint is None or isinstance(error, Diverged):
                store.discard()
            else:
                store.close()
            raise
        description = self._describe(store.index)
        store.discard()
        saved = (self.features - self.keys) * online.passes
        done = Counters.of_frames(counted, saved + counted.wanted, saved, self.clock)
        return Trained(
            version.reference, progress.dimension, progress.model.intercept, objective,
            progress.history, progress.epoch, online.converged, online.status, progress.step,
            description, done,
        )  # fmt: skip

    def _epochs(
        self, store: ModelStore, chunks: Chunks, progress: Progress
    ) -> tuple["Online", float, Version, FrameCounters]:
        """Trains and seals: what ran, its objective, the version, and what the store did."""
        penalties = bool(self.options.l1 or self.options.l2)
        given = self.cache, self.plan.threads, penalties, self.all_bytes
        with store.frames(*given, pushes=self.options.sharing == "push") as frames:
            online = Online(self, store, frames, chunks, progress)
            online.run()
            objective = online.objective()
        with self.clock.phase("seal"):
            refuse_infinite(store)
            version = self._publish(store, progress, objective)
        return online, objective, version, frames.counters

    def _publish(
        self, store: ModelStore, progress: Progress, objective: float, **more: Any
    ) -> Version:
        warm = self.options.warm_start
        given = self._metadata(progress, objective), progress.dimension
        return self.root.publish(store, *given, warm.store if warm is not None else None, **more)

    def _describe(self, index: IndexMap) -> str:
        """One line for the model's `plan`."""
        return f"{plan_line(self.plan)}, {described(index)}{self.arranged}"

    def _metadata(self, progress: Progress, objective: float) -> dict[str, Any]:
        """What the sealed file says of itself: enough to predict by, should the value be lost."""
        low, high = float(self.labels["low"][0]), float(self.labels["high"][0])
        return {
            "task": self.task.name,
            "intercept": progress.model.intercept,
            "classes": [low, high] if self.task.classifies else None,
            "n_rows": int(self.rows.groups["n_rows"][0]),
            "loss": objective,
            "epochs": progress.epoch,
        }


class Online:
    """Epochs on one working store."""

    def __init__(
        self,
        run: Run,
        store: ModelStore,
        frames: Frames | Routes,
        chunks: Chunks,
        progress: Progress,
    ) -> None:
        self.run_of, self.store, self.frames, self.progress = run, store, frames, progress
        self.training = run._training(chunks, frames.access, progress.step)
        self.n_rows = int(run.rows.groups["n_rows"][0])
        self.penalised = bool(run.options.l1 or run.options.l2)
        self.passes = 0
        self.converged, self.status = False, "not converged" if run.plan.epsilon else "ok"
        self.checkpointed = time.monotonic()
        self._keys: tuple[Keys, Widths] | None = None

    def run(self) -> None:
        """Epochs until the loss stops falling, they are done, or the time is over."""
        progress, run = self.progress, self.run_of
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
            if time.monotonic() - self.checkpointed > CHECKPOINT_SECONDS:
                self._checkpoint()

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
