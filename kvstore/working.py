"""The working store of one training run: the model's partitions while it is trained."""

import os
import secrets
import shutil
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from tuskml.errors import StoreError
from tuskml.kvstore import checkpoints, native
from tuskml.kvstore.checkpoints import Checkpoint
from tuskml.kvstore.database import LARGEST_PARTITION, LEAST_MEMORY, Counters, Database
from tuskml.kvstore.files import (
    Lock,
    Record,
    copy_metadata,
    make_directory,
    read_record,
    remove_tree,
    reporting,
    sync_directory,
    write_record,
)
from tuskml.kvstore.frames import Frames, Gate
from tuskml.kvstore.native import (
    Array,
    Ids,
    Weights,
    as_keys,
    as_weights,
    model_dtype,
)
from tuskml.partitioner import IndexMap, LiveFeatures

KIND = "working store"
RECORD, LOCK, DATABASE, CHECKPOINTS = "store", "lock", "database", "checkpoints"
GONE = ".gone-"
"""Prefix of the name of a store that is being removed."""


def even_starts(n: int, width: int) -> Ids:
    """Returns offsets of n partitions of one width, and the end of the last."""
    return np.arange(n + 1, dtype=np.int64) * width


def keys_of(keys: Ids) -> tuple[Ids, Ids]:
    """Distinct values of rising keys, and the offset of each, of shape (n + 1,)."""
    new = np.ones(len(keys), np.bool_)
    np.not_equal(keys[1:], keys[:-1], out=new[1:])
    begins = np.flatnonzero(new)
    return keys[begins], np.append(begins, len(keys))


def locate(index: IndexMap, ids: ArrayLike, several: int) -> tuple[Ids, NDArray[np.integer]]:
    """Keys of weights and their indices in payloads, integers of shape (n,).

    several: weights per feature; weight k of feature id has the id id * several + k.
    """
    if several == 1:
        return index.locate(ids)
    features, which = np.divmod(np.asarray(ids, np.int64), several)
    keys, slots = index.locate(features)
    return keys, slots.astype(np.int64) * several + which


class ModelStore:
    """Partitions of a model in a private directory, open in one process at a time.

    A key is a partition of the index map and its payload the weights of its features, by slot; a
    partition never written reads as zeros. Weight k of a feature i with several is asked for as
    i * several + k. Arrays of weights have the store's dtype, keys are int64. Threads may use a
    store together: `get`, `put` and `add` run without the GIL.

    Weights written are safe once `checkpoint` returns: `resume` gives the weights of the last one,
    to the bit, or a StoreError. While `frames` are open they have the newest weights: what reads
    the store writes them to it first, and `put` and `add` are refused.

    (Qin, Torres, Rusu, VLDB 2017, sections 5 and 6: composite keys, and the get before the put by
    which neighbours in a payload keep their newest values.)
    """

    def __init__(self, path: Path, lock: Lock, record: Record, index: IndexMap) -> None:
        """Sets all attributes of an open store but its database; called by `create` and
        `resume`.
        """
        self.path, self.index = path, index
        self.dtype = model_dtype(record["dtype"])
        self.metadata: Record = record["metadata"]
        self.several: int = self.metadata.get("several", 1)
        self.last_checkpoint: Checkpoint | None = None
        self._name, self._lock, self._pid = record["store"], lock, os.getpid()
        self._gate = Gate()
        self._past = Counters()
        self._database: Database | None = None
        self._memory, self._buffers = LEAST_MEMORY, 0
        self._frames: Frames | None = None

    @classmethod
    def create(
        cls,
        path: "Path | str",
        index: IndexMap,
        dtype: DTypeLike = "float32",
        memory: int = 2 * LEAST_MEMORY,
        metadata: "Record | None" = None,
        buffers: int = 0,
    ) -> "ModelStore":
        """Creates an empty store in a new directory.

        memory: bytes that LevelDB may use; metadata: a JSON object, kept in `metadata`, whose
        "several" is the number of weights per feature; buffers: bytes of LevelDB's buffers, 0: a
        share of memory.
        """
        path = Path(path)
        record = {
            "kind": KIND,
            "store": secrets.token_hex(16),
            "dtype": model_dtype(dtype).name,
            "metadata": copy_metadata(metadata),
        }
        with reporting("creating a store"):
            if path.exists() or path.is_symlink():
                raise StoreError(f"{path} is there already")
            make_directory(path)
            lock = Lock(path / LOCK)
            try:
                make_directory(path / CHECKPOINTS)
                make_directory(path / DATABASE)
                write_record(path / RECORD, record, index.to_bytes())
                store = cls(path, lock, record, index)
                store._open(memory, create=True, buffers=buffers)
            except BaseException:
                lock.release()
                shutil.rmtree(path, ignore_errors=True)
                raise
        return store

    @classmethod
    def resume(
        cls, path: "Path | str", memory: int = 2 * LEAST_MEMORY, buffers: int = 0
    ) -> "ModelStore":
        """Opens the store as its last checkpoint left it.

        Raises StoreError if it is open already (the owner's pid is named), has no checkpoint, is
        damaged, or was written by another version.
        """
        path = Path(path)
        if path.is_symlink() or not path.is_dir():
            raise StoreError(f"{path} is no working store")
        with reporting("opening a store"):
            lock = Lock(path / LOCK)
            try:
                record, index = read_record(path / RECORD, KIND)
                store = cls(path, lock, record, IndexMap.from_bytes(index))
                store.last_checkpoint = last = checkpoints.latest(
                    path / CHECKPOINTS, record["store"]
                )
                if last is None:
                    raise StoreError(f"{path} has no checkpoint: begin anew, without 'resume'")
                checkpoints.restore(last, path / DATABASE)
                checkpoints.remove_others(path / CHECKPOINTS, last.number)
                store._open(memory, create=False, buffers=buffers)
            except BaseException:
                lock.release()
                raise
        return store

    # --- partitions ---

    def get(self, keys: ArrayLike, out: Weights | None = None) -> Weights:
        """Reads partitions of one width, of shape (n, width).

        keys: (n,), in any order (near keys in one call are faster, as they share blocks of a
        table); out: written into if given.
        """
        wanted = as_keys(keys)
        sizes = self.sizes(wanted)
        width = int(sizes[0]) if len(sizes) else 0
        if (sizes != width).any():
            raise StoreError("these keys have partitions of several widths: use get_ragged")
        shape = len(wanted), width
        out = np.empty(shape, self.dtype) if out is None else out
        if out.shape != shape or out.dtype != self.dtype or not out.flags.c_contiguous:
            raise StoreError(f"out must be contiguous {self.dtype} of shape {shape}")
        with self._using() as database:
            database.get(wanted, even_starts(len(wanted), width), out)
        return out

    def get_ragged(self, keys: ArrayLike, found: Array | None = None) -> tuple[Weights, Ids]:
        """Reads partitions of any widths: values, and starts of shape (n + 1,).

        Partition i is values[starts[i]:starts[i + 1]]. found: bool, (n,), receives which keys were
        ever written.
        """
        wanted = as_keys(keys)
        starts = self._starts(wanted)
        values = np.empty(int(starts[-1]), self.dtype)
        if found is not None and (found.shape != wanted.shape or found.dtype != np.bool_):
            raise StoreError(f"found must be bool of shape {wanted.shape}")
        with self._using() as database:
            database.get(wanted, starts, values, found)
        return values, starts

    def put(self, keys: ArrayLike, values: ArrayLike) -> None:
        """Replaces partitions; values: concatenated, or (n, width)."""
        wanted = as_keys(keys)
        starts = self._starts(wanted)
        weights = as_weights(values, self.dtype)
        if weights.size != starts[-1] or (weights.ndim == 2 and len(weights) != len(wanted)):
            shape = weights.shape
            raise StoreError(f"{len(wanted)} keys have {starts[-1]} weights, got shape {shape}")
        with self._using(writes=True) as database:
            database.put(wanted, starts, weights)

    def add(
        self, keys: ArrayLike, entries: ArrayLike, slots: ArrayLike, deltas: ArrayLike
    ) -> None:
        """Get, merge, put: adds deltas[j] to slots[j] of keys[i] for j in entries[i:i + 2].

        keys: (n,), each with slots below its width; entries: (n + 1,). No update of any thread is
        lost, neither of the same slot nor of its neighbours.
        """
        wanted, rows = as_keys(keys), as_keys(entries)
        places = np.ascontiguousarray(slots, np.uint32)
        weights = as_weights(deltas, self.dtype)
        widths = self.sizes(wanted).astype(np.uint32)
        if len(rows) != len(wanted) + 1 or (rows[1:] < rows[:-1]).any():
            raise StoreError(f"entries must rise and be of shape ({len(wanted) + 1},)")
        if rows[0] != 0 or not rows[-1] == len(places) == len(weights):
            raise StoreError(f"there are {len(places)} slots and {len(weights)} deltas, not equal")
        if (places >= np.repeat(widths, np.diff(rows))).any():
            raise StoreError("a slot lies outside its partition")
        with self._using(writes=True) as database:
            database.add(wanted, widths, rows, places, weights)

    # --- features ---

    def sizes(self, keys: ArrayLike) -> Ids:
        """Number of weights of each key, int64 of shape (n,)."""
        return self.index.sizes(keys) * self.several

    def weights(self, ids: ArrayLike) -> Weights:
        """Reads weights of features, in the shape of ids; each key is read once."""
        features = np.asarray(ids, np.int64)
        keys, slots = locate(self.index, features.ravel(), self.several)
        distinct, at = np.unique(keys, return_inverse=True)
        values, starts = self.get_ragged(distinct)
        weights: Weights = values[starts[at] + slots].reshape(features.shape)
        return weights

    def add_weights(self, ids: ArrayLike, deltas: ArrayLike) -> None:
        """Adds to the weights of features, both of shape (n,); repeated features add up."""
        keys, slots = locate(self.index, ids, self.several)
        order = np.argsort(keys, kind="stable")
        distinct, first = keys_of(keys[order])
        weights = as_weights(deltas, self.dtype)
        if len(weights) != len(keys):
            raise StoreError(f"{len(keys)} features cannot have {len(weights)} deltas")
        self.add(distinct, first, slots[order], weights[order])

    def scan(self, first: int = 0) -> Generator[tuple[Ids, Ids, Weights], None, None]:
        """Yields (keys, starts, values) of written partitions, by rising key from `first` on, in
        parts.

        It sees the store as of its start. Checkpoints wait for its end, so close it after an
        error.
        """
        most = max(1 << 18, LARGEST_PARTITION // self.dtype.itemsize)
        with self._using() as database:
            yield from database.scan(first, values=most)

    # --- frames ---

    def frames(
        self,
        memory: int,
        workers: int = 1,
        keep_stamps: bool = False,
        all_bytes: int = 0,
        pushes: bool = False,
    ) -> Frames:
        """Opens payloads in `memory` bytes for kernels and their workers; one at a time.

        memory: in addition to LevelDB's, at least LEAST_FRAME_MEMORY; keep_stamps: a frame's stamp
        comes back with its payload, for 16 to 50 bytes per key beyond memory, else it is 0 then;
        all_bytes: of the frames of all keys that will be requested (`frame_bytes`), if known;
        pushes: workers deliver what they read to those that expect it.
        """
        with self._using() as database:
            if self._frames is not None and not self._frames.is_closed:
                raise StoreError(f"the store {self.path} has open frames: close them first")
            sharing = native.Sharing(workers, pushes, all_bytes)
            arguments = memory, sharing, keep_stamps
            self._frames = Frames(self.path, database, self._gate, *arguments)
        return self._frames

    # --- its life ---

    def checkpoint(self, metadata: "Record | None" = None) -> Checkpoint:
        """Makes the current weights durable, and removes the previous checkpoint.

        metadata: a JSON object, such as the epoch and the seed's state. Other threads' batches
        wait; frames are written first. Raises StoreError while a worker holds some. After any
        crash `resume` restores this state or the one before. The disk holds the model twice at
        most.
        """
        facts = copy_metadata(metadata)
        self._check_process()
        with self._gate.alone(), reporting("writing a checkpoint"):
            database = self._open_database()
            with self._frames.pause() if self._frames else nullcontext() as attach:
                database.sync()
                self._shut()
                try:
                    self.last_checkpoint = checkpoints.write(
                        self.path / CHECKPOINTS,
                        self._name,
                        database.path,
                        facts,
                        self.last_checkpoint,
                    )
                finally:
                    self._open(self._memory, create=False, buffers=self._buffers)
                    if attach:
                        attach(self._open_database())
        return self.last_checkpoint

    def rewind(self) -> Checkpoint:
        """Restores the weights of the last checkpoint. Raises StoreError if there is none.

        Drops open frames; raises StoreError if a worker holds some.
        """
        self._check_process()
        last = self.last_checkpoint
        if last is None:
            raise StoreError(f"{self.path} has no checkpoint to go back to")
        with self._gate.alone(), reporting("going back to a checkpoint"):
            if self._frames is not None:
                self._frames.drop()
            self._shut()
            try:
                checkpoints.restore(last, self.path / DATABASE)
            finally:
                self._open(self._memory, create=False, buffers=self._buffers)
        return last

    def close(self) -> None:
        """Closes the store. Changes since the last checkpoint are lost. No effect the second time.

        Drops open frames; raises StoreError if a worker holds some.
        """
        if os.getpid() != self._pid:
            return
        with self._gate.alone():
            self._shut(for_good=True)
            self._lock.release()

    def discard(self) -> None:
        """Removes the store from the disk."""
        self._check_process()
        with self._gate.alone(), reporting("removing a store"):
            self._shut(for_good=True)
            try:
                # Renamed first, so that other processes never see a partly removed store.
                gone = self.path.with_name(f"{GONE}{secrets.token_hex(8)}")
                os.rename(self.path, gone)
                remove_tree(gone)
            finally:
                self._lock.release()
            sync_directory(self.path.parent)

    @property
    def counters(self) -> Counters:
        """Counts of operations since the store was created or resumed."""
        now = self._database.counters if self._database else Counters()
        return self._past + now

    @property
    def memory_in_use(self) -> int:
        """Bytes in LevelDB's memtables and block cache, without mapped tables."""
        with self._using() as database:
            return int(database.property("approximate-memory-usage") or 0)

    def __enter__(self) -> "ModelStore":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"ModelStore({str(self.path)!r}, {self.index!r}, {self.dtype})"

    def _starts(self, keys: Ids) -> Ids:
        return np.concatenate(([0], np.cumsum(self.sizes(keys), dtype=np.int64)))

    @contextmanager
    def _using(self, writes: bool = False) -> Iterator[Database]:
        self._check_process()
        with self._gate.share():
            database = self._open_database()
            if self._frames is not None and not self._frames.is_closed:
                if writes:
                    raise StoreError(
                        f"the store {self.path} has open frames, whose weights would overwrite "
                        "these: close them first"
                    )
                self._frames.write()
            yield database

    def _check_process(self) -> None:
        if os.getpid() != self._pid:
            raise StoreError(
                f"{self.path} is open in process {self._pid}, not in its child {os.getpid()}"
            )

    def _open_database(self) -> Database:
        if self._database is None:
            raise StoreError(f"the store {self.path} is closed")
        return self._database

    def _open(self, memory: int, create: bool, buffers: int) -> None:
        self._memory, self._buffers = memory, buffers
        self._database = Database(self.path / DATABASE, self.dtype, memory, create, buffers)

    def _shut(self, for_good: bool = False) -> None:
        if for_good and self._frames is not None:
            self._frames.drop()
        if self._database is not None:
            self._past += self._database.counters
            self._database.close()
            self._database = None


Pair = tuple[Ids, Weights]
WINDOW = 1 << 20


def pairs_of(store: ModelStore) -> Iterator[Pair]:
    """(ids, weights) of all weights that are not 0, by rising id, in parts; where features have
    several weights the ids are those of weights (`ModelStore`).

    Memory does not grow with the model: blocks of rare features lie in the order of their keys,
    and the frequent features, which have keys of their own, are few.
    """
    live = store.index.live
    if live is not None and live.order is not None:
        yield from _in_windows(store, live)
        return
    frequent = of_weights(store.index.features, store.several)
    known = store.weights(frequent)
    done = 0  # number of frequent features already yielded
    with closing(store.scan(store.index.n_partitions)) as scan:
        for keys, starts, values in scan:
            ids, weights = _rare(store, keys, starts, values)
            if len(ids):
                end = int(np.searchsorted(frequent, ids[-1]))
                yield _merge(ids, weights, frequent[done:end], known[done:end])
                done = end
    stored = _not_zero(known[done:])
    yield frequent[done:][stored], known[done:][stored]


def _in_windows(store: ModelStore, live: LiveFeatures) -> Iterator[Pair]:
    """Yields the pairs of features that are not stored by rising id.

    They are looked up many at a time, since each lookup reads most blocks of several features.
    """
    window = max(1, WINDOW // store.several)
    for first in range(0, len(live), window):
        features = live.by_rank(np.arange(first, min(first + window, len(live))))
        ids = of_weights(features, store.several)
        weights = store.weights(ids)
        stored = _not_zero(weights)
        yield ids[stored], weights[stored]


def of_weights(features: Ids, several: int) -> Ids:
    """Ids of the weights of features with several each, (n * several,)."""
    if several == 1:
        return features
    ids: Ids = (features[:, None] * several + np.arange(several)).ravel()
    return ids


def _not_zero(weights: Weights) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    """Indices of the weights whose bits are not all 0: -0.0 and NaN count as weights."""
    return np.flatnonzero(weights.view(f"u{weights.dtype.itemsize}"))


def _rare(store: ModelStore, keys: Ids, starts: Ids, values: Weights) -> Pair:
    """Pairs of blocks' payloads, without slots of features stored elsewhere."""
    index: IndexMap = store.index
    first, begin, end = index.blocks.spans_of(keys - index.n_partitions)
    places = _not_zero(values)
    part = np.searchsorted(starts, places, side="right") - 1
    slots, which = np.divmod(places - starts[part], store.several)
    numbers = first[part] + slots
    inside = (numbers >= begin[part]) & (numbers < end[part])
    if len(index.features):
        at = np.minimum(np.searchsorted(index.numbers, numbers), len(index.features) - 1)
        inside &= index.numbers[at] != numbers
    named = index.features_at(numbers[inside])
    if store.several > 1:
        named = named * store.several + which[inside]
    return named, values[places[inside]]


def _merge(ids: Ids, weights: Weights, more: Ids, others: Weights) -> Pair:
    stored = _not_zero(others)
    both = np.concatenate((ids, more[stored]))
    order = np.argsort(both, kind="stable")
    return both[order], np.concatenate((weights, others[stored]))[order]


def fill(store: ModelStore, pairs: Iterator[Pair]) -> None:
    """Writes pairs into an empty store."""
    for ids, weights in pairs:
        store.add_weights(ids, weights.astype(store.dtype, copy=False))
