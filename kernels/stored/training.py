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
from tuskml.kernels.softmax import Softmax
from tuskml.kernels.stored.chunks import (
    CHUNK_TOO_LARGE,
    Chunks,
    ChunkTooLarge,
    Keys,
    Widths,
    checked_widths,
)

STORE_FAILED, STORE_CORRUPT = 16, 17


class ScratchFrames:
    """Payloads of some keys in one array in plain memory, zeros at first.

    keys: uint64 of shape (k,), distinct, rising; widths: shape (k,); weight_size: 4 or 8 bytes.
    For trials of steps, which must not touch the store, and for tests.
    """

    def __init__(self, keys: ArrayLike, widths: ArrayLike, weight_size: int = 4) -> None:
        self.keys: Keys = np.ascontiguousarray(keys, np.uint64)
        self.widths: Widths = checked_widths(widths, len(self.keys)).astype(np.uint32)
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
    chunk, chunk after chunk in order, as payloads of `kvstore.working.routes` need it. threads: of
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
    def _job(self, model: Model, epochs_done: float = 0.0) -> Iterator[structures.Stored]:
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
        job = structures.Stored(
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

    def _run(self, job: structures.Stored, kernel: Callable[..., int], *more: object) -> None:
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


def _result(job: structures.Stored) -> Result:
    return Result(
        Model(job.intercept, job.time, job.scale, job.classes[1].tolist()),
        job.loss,
        job.rows,
        job.n_keys,
        job.acquire_ns,
        job.train_ns,
        job.release_ns,
    )
