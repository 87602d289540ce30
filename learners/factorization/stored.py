"""Matrix factorizations whose vectors live in a store: ratings in, a sealed version out.

The objective, the steps and the start are those of vectors in memory (`factorization.py`); where
memory allows as few blocks as there, the model is the same, up to rounding. A block of ratings is
a chunk: its keys are acquired once, its vectors trained in place, released (Qin, Torres, Rusu,
VLDB 2017, section 6). `stored_vectors` says what is in a key.

Element k of the vector of row r, users first and items behind them, is the model's feature
r * width + k, which is where `predict` looks for it in the sealed file.
"""

import math
import time
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import DataError
from tuskml.kernels import passes
from tuskml.kernels.factorization import Shape, StoredFactorization, Visit
from tuskml.kernels.passes import Pass
from tuskml.kvstore import Frames, ModelStore, StoreRoot, buffers_of
from tuskml.kvstore.frames import LEAST_FRAME_MEMORY, frame_bytes, frame_share
from tuskml.learners import events
from tuskml.learners.factorization.epochs import ATTEMPTS, Epochs
from tuskml.learners.factorization.options import FactorizationOptions, Request
from tuskml.learners.factorization.settings import Settings
from tuskml.learners.factorization.training import Constant, shape_of
from tuskml.learners.factorization.vectors import (
    WEIGHT_BYTES,
    Layout,
    choose_size,
    dtype_of,
    pairs_of_vectors,
)
from tuskml.learners.models import Lists, Models, thin_history
from tuskml.learners.options.kinds import DEFAULT_CACHE
from tuskml.learners.stored.partitions import cost_for
from tuskml.learners.stored.progress import (
    CHECKPOINT_SECONDS,
    Clock,
    Counters,
    Facts,
    refuse_others,
)
from tuskml.schedule import shares


def facts_of(n_rows: int, shape: Shape, mean: float) -> Facts:
    """Facts that identify a training's ratings and vectors, in any order of rows."""
    return {
        "task": "matrix_factorization",
        "n_rows": n_rows,
        "n_users": shape.n_users,
        "n_items": shape.n_items,
        "mean": f"{mean:.6g}",
        "rank": shape.rank,
        "biases": shape.biases,
    }


def _describe(facts: Facts) -> str:
    return (
        f"task '{facts.get('task')}', rank {facts.get('rank')}, "
        f"{'with' if facts.get('biases') else 'no'} biases, over {facts.get('n_rows')} rows of "
        f"{facts.get('n_users')} users and {facts.get('n_items')} items, mean {facts.get('mean')}"
    )


@dataclass
class Progress:
    """step: of the first epoch; per_key: vectors that share a key; history: the objectives of the
    epochs that are done.
    """

    step: float
    per_key: int
    history: list[float] = field(default_factory=list)

    def further(self, history: list[float]) -> "Progress":
        """Returns a copy with a longer history."""
        return replace(self, history=history)

    def as_record(self, facts: Facts) -> Facts:
        """The record for a checkpoint's metadata."""
        return asdict(self) | {"of": facts}

    @classmethod
    def from_record(cls, record: Facts, facts: Facts) -> "Progress":
        """Restores a record of `as_record`; raises StoreError if it is of other ratings or another
        task.
        """
        refuse_others(record, facts, _describe)
        return cls(**{name: value for name, value in record.items() if name != "of"})


DTYPE = "float32"


class RanAway(Exception):
    """The objective grew out of all bounds: the step was too long."""


@dataclass(frozen=True)
class StoredFactors:
    """A model whose vectors lie in a sealed version, `reference`."""

    reference: str
    mean: float
    objective: float
    epochs: Epochs
    status: str
    per_key: int
    counters: Counters


@dataclass
class Requests:
    """Counts of the vectors used by blocks and of the keys requested for them, and seconds by
    phase.
    """

    clock: Clock = field(default_factory=Clock)
    n_vectors: int = 0
    n_keys: int = 0

    def add(self, visit: Visit) -> None:
        """Adds the counts of one visit of all ratings."""
        self.n_vectors += visit.n_vectors
        self.n_keys += visit.n_keys
        for name in ("acquire", "train", "release"):
            self.clock.add(name, getattr(visit, f"{name}_seconds"))


def train(groups: NDArray[np.void], request: Request, memory: int, root: StoreRoot) -> Models:
    """Trains one group (passes.GROUP).

    memory: address of the account that ratings are charged to; root: of all stores.
    """
    options, settings = request.options, Settings.of(request.options)
    began = time.monotonic()
    mark = passes.cancel_mark()
    shares.note_plan(settings.describe())
    rows = Pass(groups, fit_intercept=settings.biases, threads=settings.threads, cancel_mark=mark)
    shape = shape_of(rows, settings)
    run = StoredRun(rows, memory, shape, settings, options, root, began)
    with passes.watching_sigint():
        trained = run()
    events.tell_trained(groups)
    return model_of(trained, groups, run, time.monotonic() - began)


class StoredRun:
    """One training of one group; call it once."""

    def __init__(
        self,
        rows: Pass,
        memory: int,
        shape: Shape,
        settings: Settings,
        options: FactorizationOptions,
        root: StoreRoot,
        began: float,
    ) -> None:
        assert settings.store is not None
        self.rows, self.memory, self.shape, self.settings = rows, memory, shape, settings
        self.name, self.root, self.began = settings.store, root, began
        self.resumes, self._cost = options.resume, cost_for(options)
        cache = options.cache or DEFAULT_CACHE
        self.buffers = buffers_of(cache)
        self.frame_memory = cache - self.buffers
        if settings.key_a_weight:  # the other half is for the workers' copies of vectors
            self.frame_memory = max(LEAST_FRAME_MEMORY, self.frame_memory // 2)
        self.share = frame_share(self.frame_memory, rows.threads)
        self.layout = Layout(shape, 0, self.share)

    def __call__(self) -> StoredFactors:
        """Trains and seals; keeps a working store only for `resume`.

        As in memory, each descent that diverges is followed by one with a quarter of its step; if
        the last one diverges too, nothing is sealed.
        """
        began, step = time.monotonic(), self.settings.step
        with StoredFactorization(
            self.rows, self.memory, self.shape, self.settings.seed, self._block_bytes()
        ) as model:
            if self.resumes:
                return self._resume(model)
            if not self.settings.key_a_weight:
                size = choose_size(model, self.share, self._cost)
                self.layout = Layout(self.shape, size, self.share)
            self.layout.prepare(model)
            mapping = time.monotonic() - began
            for _ in range(ATTEMPTS):
                made = Requests()
                made.clock.add("map", mapping)
                store = self._new_store()
                try:
                    return self._descend(model, store, Progress(step, self.layout.per_key), made)
                except RanAway:
                    step /= 4
                    model.start()
        raise self._divergence(step * 4)

    def _new_store(self) -> ModelStore:
        return self.root.create(self.name, self.layout.index, DTYPE, buffers=self.buffers)

    def _resume(self, model: StoredFactorization) -> StoredFactors:
        """Goes on from the last checkpoint, with the step it had."""
        made = Requests()
        store = self.root.resume(self.name, buffers=self.buffers)
        try:
            assert store.last_checkpoint is not None
            progress = Progress.from_record(store.last_checkpoint.metadata, self._facts(model))
            with made.clock.phase("map"):
                self.layout = Layout(self.shape, progress.per_key, self.share)
                self.layout.prepare(model)
            model.resume()
        except BaseException:
            store.close()
            raise
        try:
            return self._descend(model, store, progress, made)
        except RanAway:
            raise self._divergence(progress.step) from None

    def _divergence(self, step: float) -> DataError:
        return DataError(
            f"the training of {self.name!r} diverged with steps down to {step:g}: look for "
            "ratings far from all others, or give a larger 'l2'"
        )

    def _facts(self, model: StoredFactorization) -> Facts:
        return facts_of(int(self.rows.groups["n_rows"][0]), self.shape, model.mean)

    def _block_bytes(self) -> int:
        """The memory of a block's vectors: their frames take half of a worker's share on average.

        Blocks have equally many ratings, but not equally many vectors; one that does not fit is
        trained in pieces, which request most of its keys again.
        """
        vector = self.shape.stride * WEIGHT_BYTES
        if not self.settings.key_a_weight:
            return self.share // 2
        return self.share // 2 * vector // (self.shape.width * frame_bytes(1, WEIGHT_BYTES))

    def _descend(
        self, model: StoredFactorization, store: ModelStore, progress: Progress, made: Requests
    ) -> StoredFactors:
        """Trains in a working store, which is gone afterwards unless it can be resumed."""
        try:
            # A vector gets its first factors, which a hash of its id and the seed draws, when a
            # block first asks for it: they are the same whichever worker that is, and no pass
            # over the store writes a model of random numbers before the first epoch reads it.
            with store.frames(self.frame_memory, self.rows.threads) as frames:
                objective, epochs = self._train(model, store, frames, progress, made)
            constant = Constant.of(self.rows, self.settings.biases)
            instead = constant.instead_of(objective, epochs.status)
            with made.clock.phase("seal"):
                pairs = pairs_of_vectors(store, self.layout, model.first_item, model.deviation)
                if instead:
                    pairs, objective = iter(()), constant.loss
                about = self._metadata(model.mean, objective, epochs)
                version = self.root.publish_pairs(
                    self.name, pairs, dtype_of(model.deviation), self.shape.numbers, about
                )
        except BaseException as error:
            if store.last_checkpoint is None or isinstance(error, RanAway):
                store.discard()
            else:
                store.close()
            raise
        store.discard()
        return StoredFactors(
            str(version.reference),
            model.mean,
            objective,
            epochs,
            instead or constant.status_of(epochs.status),
            self.layout.per_key,
            self._count(frames, made),
        )

    def _train(
        self,
        model: StoredFactorization,
        store: ModelStore,
        frames: Frames,
        progress: Progress,
        made: Requests,
    ) -> tuple[float, Epochs]:
        """The objective at the result, and how the epochs went."""
        written = time.monotonic()

        def visit(number: int, step: float) -> float:
            nonlocal written
            done = model.epoch(frames.access, number, step)
            made.add(done)
            if time.monotonic() - written > CHECKPOINT_SECONDS and math.isfinite(done.objective):
                so_far = progress.further([*epochs.history, done.objective])
                with made.clock.phase("checkpoint"):
                    store.checkpoint(so_far.as_record(self._facts(model)))
                written = time.monotonic()
            return done.objective

        epochs = Epochs(visit, self.settings, self.began)
        epochs.epochs(progress.step, progress.history)
        if epochs.ran_away():
            raise RanAway
        done = model.loss(frames.access, model.mean, model.deviation)
        made.add(done)
        if not math.isfinite(done.objective):
            raise RanAway
        return done.objective, epochs

    def _count(self, frames: Frames, made: Requests) -> Counters:
        """Converts the counts, with one key per weight as the baseline: a vector has `width` of
        them.
        """
        features = made.n_vectors * self.shape.width
        return Counters.of_frames(frames.counters, features, features - made.n_keys, made.clock)

    def _metadata(self, mean: float, objective: float, epochs: Epochs) -> dict[str, Any]:
        """The metadata of the sealed file; it suffices to predict if the model's value is lost."""
        shape = self.shape
        return {
            "task": "matrix_factorization",
            "intercept": mean,
            "classes": [shape.n_users, shape.n_items, shape.width],
            "rank": shape.rank,
            "biases": shape.biases,
            "n_rows": int(self.rows.groups["n_rows"][0]),
            "loss": objective,
            "epochs": len(epochs.history),
        }


def model_of(
    trained: StoredFactors, groups: NDArray[np.void], run: StoredRun, seconds: float
) -> Models:
    """The model value: everything but the vectors, and where these are."""
    shape, epochs = run.shape, trained.epochs
    more = {"store": trained.reference, "counters": trained.counters.as_dict()}
    return Models.build(
        groups,
        "matrix_factorization",
        intercept=np.array([trained.mean]),
        classes=Lists.of_rows(
            np.array([[shape.n_users, shape.n_items, shape.width]], float), np.array([3])
        ),
        n_features=np.full(1, 2),
        loss=np.array([trained.objective]),
        history=thin_history([np.array([loss]) for loss in epochs.history], 1),
        iterations=np.array([len(epochs.history)]),
        converged=np.array([epochs.converged and trained.status == "ok"], np.uint8),
        status=trained.status,
        plan=run.settings.describe(trained.per_key),
        seconds=np.array([seconds]),
        options=run.settings.resolve(shape, more),
        store=trained.reference,
    )
