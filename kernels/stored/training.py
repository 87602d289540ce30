"""Kernels that train models whose weights live in a store (`kernels/native/stored/api.h`).

Rows are cut into chunks; a worker holds the payloads of one chunk at a time and trains them in
place (Qin, Torres, Rusu, Scalable analytics model calibration ..., VLDB 2017, section 6), one row
at a time (HOGWILD!, Niu et al., NIPS 2011) or a batch (HogBatch: Sallinen et al., High performance
parallel stochastic gradient descent in shared memory, IPDPS 2016), without locks. Payloads come
through the function pointers of `kvstore/native/frames.h`: from a store's cache, or from
`ScratchFrames` in plain memory.
"""

import ctypes
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tuskml.errors import StoreError
from tuskml.kernels import structures
from tuskml.kernels.library import check_code, library, pointer
from tuskml.kernels.open_rows import Calling
from tuskml.kernels.passes import Pass
from tuskml.kernels.segments import chunks, labels_of
from tuskml.kernels.softmax import Softmax
from tuskml.kernels.stored.chunks import (
    CHUNK_TOO_LARGE,
    Chunks,
    ChunkTooLarge,
    Keys,
    Widths,
    check_widths,
)
from tuskml.kernels.structures import GROUP, SEGMENT, WEIGHTS

STORE_FAILED, STORE_CORRUPT = 16, 17


class ScratchFrames:
    """Payloads of some keys in one array in plain memory, zeros at first.

    keys: uint64 of shape (k,), distinct, rising; widths: shape (k,); weight_size: 4 or 8 bytes.
    For trials of steps, which must not touch the store, and for tests.
    """

    def __init__(self, keys: ArrayLike, widths: ArrayLike, weight_size: int = 4) -> None:
        self.keys: Keys = np.ascontiguousarray(keys, np.uint64)
        self.widths: Widths = check_widths(widths, len(self.keys)).astype(np.uint32)
        self._dtype = np.dtype(np.float32 if weight_size == 4 else np.float64)
        self._handle = ctypes.c_void_p()
        code = library().tk_scratch_new(
            pointer(self.keys),
            pointer(self.widths),
            len(self.keys),
            weight_size,
            ctypes.byref(self._handle),
        )
        check_code(code)

    @property
    def access(self) -> int:
        """Address of the tusk_frame_access; valid until `close`."""
        return int(library().tk_scratch_access(self._handle))

    def reset(self) -> None:
        """Resets all weights and stamps to 0."""
        library().tk_scratch_reset(self._handle)

    def weights(self, i: int) -> NDArray[Any]:
        """A view of the stored numbers of the i-th key, shape (width,); valid until `close`."""
        frame = self._frame(i)
        size = frame.width * self._dtype.itemsize
        return np.frombuffer((ctypes.c_char * size).from_address(frame.weights), self._dtype)

    def stamp(self, i: int) -> float:
        """Time up to which the i-th payload has been updated."""
        return float(self._frame(i).stamp)

    def _frame(self, i: int) -> structures.Frame:
        frame: structures.Frame = library().tk_scratch_frame(self._handle, i).contents
        return frame

    def close(self) -> None:
        """Frees the payloads."""
        library().tk_scratch_free(self._handle)
        self._handle = ctypes.c_void_p()

    def __enter__(self) -> "ScratchFrames":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclass(frozen=True)
class Model:
    """State of a stored model besides its payloads.

    time: sum of the lengths of all steps, which with a payload's stamp determines its pending
    penalties; 0 for payloads of plain weights with stamp 0. scale: weights are scale times the
    stored numbers of an up-to-date payload; it follows from time and l2. intercepts: of several
    classes, in place of the single one.
    """

    intercept: float = 0.0
    time: float = 0.0
    scale: float = 1.0
    intercepts: Sequence[float] = ()


@dataclass(frozen=True)
class Result:
    """The model after a pass, and its statistics.

    loss: sum over the rows; keys: payloads acquired; the times, in ns, are summed over the
    workers.
    """

    model: Model
    loss: float
    rows: int
    keys: int
    acquire_ns: int
    train_ns: int
    release_ns: int


@dataclass(frozen=True)
class Sums:
    """Sums over all weights: squares, absolute values, and number of nonzeros."""

    squares: float
    absolute: float
    nonzeros: int


@dataclass(frozen=True)
class Training:
    """A model in training: its rows, access to its payloads, and its options.

    access: address of a tusk_frame_access. The objective is mean(loss) + l2/2 |w|^2 + l1 |w|_1;
    the intercept has no penalty. l1 and l2 must not change until a `settle` with fold. step,
    power, seed, shuffle and batch_size: as in `kernels.Epoch`. together: all workers train one
    chunk, chunk after chunk in order, as payloads of `kvstore.routes` need it. threads: of
    epochs, 0: those of the rows. classes: several, of one group, whose weights of a feature are
    adjacent: an entry's index is that of the first. The model has an intercept for each; that of
    the first class is fixed, and so are its weights without a penalty.
    """

    chunks: Chunks
    access: int
    step: float = 0.1
    power: int = 1
    batch_size: int = 1
    l1: float = 0.0
    l2: float = 0.0
    seed: int = 0
    shuffle: bool = True
    together: bool = False
    threads: int = 0
    which: "NDArray[np.int64] | None" = field(default=None, compare=False)
    classes: Softmax | None = field(default=None, compare=False)

    def of(self, which: ArrayLike, access: int, step: float) -> "Training":
        """A training on some chunks, by number, with other frames."""
        chosen = np.ascontiguousarray(which, np.int64)
        return replace(self, which=chosen, access=access, step=step, together=False)

    def on(self, chunks: Chunks, access: int) -> "Training":
        """A training on other rows, with other frames."""
        return replace(self, chunks=chunks, access=access, which=None, together=False)

    def at(self, step: float) -> "Training":
        """A training with another step."""
        return replace(self, step=step)

    def epoch(self, model: Model, epochs_done: float = 0.0) -> Result:
        """Runs one epoch on the rows' threads; loss is each row's before its own update."""
        with self._job(model, epochs_done) as job:
            self._run(job, library().tk_stored_epoch)
            return _result(job)

    def loss(self, model: Model) -> Result:
        """Computes the losses of all rows; does not change the store's payloads."""
        with self._job(model) as job:
            self._run(job, library().tk_stored_loss)
            return _result(job)

    def settle(
        self,
        model: Model,
        keys: Keys,
        widths: Widths,
        most_bytes: int,
        fold: bool = False,
    ) -> tuple[Model, Sums]:
        """Applies the pending penalties of each payload.

        keys: rising, shape (k,), all that were ever acquired; widths: shape (k,); most_bytes:
        limit on what a worker acquires at once. fold: leaves payloads with plain weights and stamp
        0, the model with time 0 and scale 1; if that fails, the payloads are unusable.
        """
        keys, widths = np.ascontiguousarray(keys), np.ascontiguousarray(widths)
        with self._job(model) as job:
            job.fold = fold
            self._run(
                job,
                library().tk_stored_settle,
                pointer(keys),
                pointer(widths),
                len(keys),
                most_bytes,
            )
            sums = Sums(job.sum_squares, job.sum_absolute, job.nonzeros)
            return _result(job).model, sums

    @contextmanager
    def _job(self, model: Model, epochs_done: float = 0.0) -> Iterator[structures.StoredPass]:
        """The C structure; its pointers are valid until the context ends."""
        rows, opened = (
            structures.Pass.from_buffer_copy(self.chunks.rows.struct),
            self.chunks.rows.open,
        )
        rows.threads = self.threads or rows.threads
        which = self.which
        calling = None if opened is None else Calling(opened)
        classes = None if self.classes is None else self.classes.struct
        intercepts = np.array(model.intercepts, float)
        job = structures.StoredPass(
            ctypes.addressof(rows),
            self.chunks._handle,
            self.access,
            None if calling is None else ctypes.addressof(calling.struct),
            None if classes is None else ctypes.addressof(classes),
            pointer(intercepts),
            pointer(which),
            0 if which is None else len(which),
            self.batch_size,
            self.power,
            epochs_done,
            self.l1,
            self.l2,
            self.step,
            self.seed & (2**64 - 1),
            self.shuffle,
            0,
            self.together,
            not (self.l1 or self.l2),
            model.intercept,
            model.time,
        )
        job.calling, job.classes = calling, (classes, intercepts)
        yield job

    def _run(self, job: structures.StoredPass, kernel: Callable[..., int], *more: object) -> None:
        code = kernel(job, *more)
        if job.calling is not None:
            job.calling.check(code)
        sentence = job.error.decode(errors="replace")
        if code in (STORE_FAILED, STORE_CORRUPT):
            raise StoreError(sentence)
        if code == CHUNK_TOO_LARGE:
            raise ChunkTooLarge(
                sentence or "the weights of a chunk do not fit into the cache", job.failed_chunk
            )
        check_code(code)


def _result(job: structures.StoredPass) -> Result:
    return Result(
        Model(job.intercept, job.time, job.scale, job.classes[1].tolist()),
        job.loss,
        job.rows,
        job.n_keys,
        job.acquire_ns,
        job.train_ns,
        job.release_ns,
    )


# A sample of a group's sparse rows, as a small group of its own in plain memory.
#
# Its features are those that occur in it, renumbered, and its rows are spread over those of the
# group. So it depends on the rows alone: not on the storage of their weights, nor on a cache.

TOGETHER = 64
"""Neighbouring rows that are taken together."""
PLACED = 1 << 16
"""Entries whose ids are looked up at once."""
PIECES = 4
"""Chunks of the sample for each thread."""


@dataclass(frozen=True)
class Sample:
    """A sample.

    rows: one group; n_features: number that occur; square: the mean square of its values; whole:
    whether it has all rows; memory: storage of the rows.
    """

    rows: Pass
    n_features: int
    square: float
    whole: bool
    memory: NDArray[np.uint8]

    @property
    def n_rows(self) -> int:
        return int(self.rows.groups["n_rows"][0])

    def map_features(self, several: int) -> Chunks:
        """The rows in chunks, whose features have neighbouring weights under one key; call it
        once.
        """
        width = np.array([max(1, self.n_features) * several], np.int64)
        return Chunks.map(
            self.rows,
            lambda ids: (np.zeros(len(ids), np.int64), (ids * several).astype(np.int32)),
            lambda keys: width.repeat(len(keys)),
            max(1, -(-self.n_rows // (PIECES * self.rows.threads))),
            1 << 60,
        )

    def frames(self, several: int) -> ScratchFrames:
        """Frames for their weights."""
        return ScratchFrames([0], [max(1, self.n_features) * several])


def sample_of(rows: Pass, most_rows: int, most_entries: int) -> tuple[Sample, NDArray[np.int64]]:
    """Samples about `most_rows` rows and `most_entries` entries of the one group of a pass.

    Takes all if it has fewer. Returns also the ids of its features, (n_features,), rising.
    """
    group, entries = rows.groups[0], rows.nonzeros()
    n = int(group["n_rows"])
    wanted = min(n, most_rows, max(TOGETHER, n * most_entries // max(1, entries)))
    every = -(-n // max(1, wanted))
    parts = [
        _take(first, features, labels, weights, every, n)
        for (first, features, labels), (_, weights) in zip(
            chunks(group), labels_of(group), strict=True
        )
    ]
    counts, ids, values, labels, weights = (
        np.concatenate(column) for column in zip(*parts, strict=True)
    )
    del parts
    there = _distinct(ids)
    places = _places(there, ids)
    del ids
    memory = _write_segment(
        counts, places, values, labels, weights if group["extras"] & WEIGHTS else None
    )
    own = np.zeros(1, GROUP)
    own["head"], own["n_rows"] = memory.ctypes.data, len(labels)
    own["dim"], own["kind"] = max(1, len(there)), group["kind"]
    own["extras"] = group["extras"] & WEIGHTS
    square = float(np.mean(np.square(values, dtype=np.float64))) if len(values) else 1.0
    sampled = replace(rows, groups=own)
    return Sample(sampled, len(there), square, every == 1, memory), there.astype(np.int64)


def _distinct(ids: NDArray[np.generic]) -> NDArray[np.generic]:
    """Returns the distinct ids, rising, in less memory than a hash table takes."""
    rising = np.sort(ids)
    first = np.append(True, rising[1:] != rising[:-1])[: len(rising)]
    return np.asarray(rising[first])


def _places(there: NDArray[np.generic], ids: NDArray[np.generic]) -> NDArray[np.int32]:
    """Finds the indices of ids among rising ids, a part at a time to spare memory."""
    places = np.empty(len(ids), np.int32)
    for at in range(0, len(ids), PLACED):
        places[at : at + PLACED] = np.searchsorted(there, ids[at : at + PLACED])
    return places


Taken = tuple[NDArray[np.generic], ...]


def _take(
    first: int,
    features: tuple[NDArray[np.uint32], NDArray[np.int32], NDArray[np.generic]],
    labels: NDArray[np.float64],
    weights: NDArray[np.float64] | None,
    every: int,
    n: int,
) -> Taken:
    """Returns the sampled rows of a segment: their entries, ids, values, labels and weights."""
    starts, ids, values = features
    rows = np.arange(first, min(first + len(labels), n))
    chosen = np.flatnonzero(rows // TOGETHER % every == 0)
    begin = starts[chosen].astype(np.int64)
    counts = starts[chosen + 1].astype(np.int64) - begin
    ends = np.cumsum(counts)
    at = np.arange(ends[-1] if len(ends) else 0) + np.repeat(begin - (ends - counts), counts)
    own = np.ones(len(labels)) if weights is None else weights
    return counts, ids[at], values[at], labels[chosen], own[chosen]


def _write_segment(
    counts: NDArray[np.generic],
    ids: NDArray[np.generic],
    values: NDArray[np.generic],
    labels: NDArray[np.generic],
    weights: NDArray[np.generic] | None,
) -> NDArray[np.uint8]:
    """Writes one segment in the packers' format (`udas/rowblock/rowblock.h`)."""
    header = np.zeros(1, SEGMENT)
    header["n_rows"] = header["cap_rows"] = len(labels)
    header["nnz"] = header["cap_nnz"] = len(ids)
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.uint32)
    arrays = [header, labels, starts, ids.astype(np.int32, copy=False), values]
    arrays += [] if weights is None else [weights]
    sizes = [(one.nbytes + 7) // 8 * 8 for one in arrays]
    memory = np.zeros(sum(sizes) // 8 + 1, np.float64).view(np.uint8)
    place = 0
    for one, size in zip(arrays, sizes, strict=True):
        memory[place : place + one.nbytes] = np.ascontiguousarray(one).view(np.uint8)
        place += size
    return memory
