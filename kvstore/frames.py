"""Payloads in memory, shared by the workers of one training (`native/frames.h`).

Kernels acquire the frames of a chunk's keys, train in place, and release them: get, merge and put
of Qin, Torres, Rusu (VLDB 2017, section 6) with the merge in memory. A payload that one worker
reads is immediately available to all others: a shared cache. The paper's push-based sharing
(section 4.2) is an option: workers announce their next keys, and the worker that reads one of them
delivers it.
"""

import ctypes
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from tuskml.errors import StoreError
from tuskml.kvstore import native
from tuskml.kvstore.database import Database, leveldb_lost, raise_error, use_leveldb
from tuskml.kvstore.files import PAUSE, raise_if_interrupted
from tuskml.kvstore.native import CANCELLED, ERROR_BYTES, Array, Ids, Weights, address, as_keys


class Gate:
    """Shared access for batches, exclusive access for operations that close the database."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._users: list[int] = []  # threads inside, each as often as it has entered
        self._closed = False

    @contextmanager
    def share(self) -> Iterator[None]:
        """Waits while another thread has exclusive access."""
        user = threading.get_ident()
        with self._changed:
            self._wait(lambda: not self._closed)
            self._users.append(user)
        try:
            yield
        finally:
            with self._changed:
                self._users.remove(user)
                self._changed.notify_all()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Waits until no thread is inside, and keeps others out.

        Raises StoreError if this very thread is inside, which would be a deadlock.
        """
        with self._changed:
            if threading.get_ident() in self._users:
                raise StoreError("this thread reads the store: end the scan first")
            self._wait(lambda: not self._closed)
            self._closed = True
            try:
                self._wait(lambda: not self._users)
            except BaseException:
                self._closed = False
                self._changed.notify_all()
                raise
        try:
            yield
        finally:
            with self._changed:
                self._closed = False
                self._changed.notify_all()

    def _wait(self, ready: Callable[[], bool]) -> None:
        """Waits until `ready` returns true, or the thread is cancelled (`files.interruptible`)."""
        while not ready():
            raise_if_interrupted()
            self._changed.wait(PAUSE)


LEAST_FRAME_MEMORY = 1 << 20
MOST_WORKERS = 1024


@dataclass(frozen=True)
class FrameCounters:
    """What was done since the frames were opened, by all workers.

    wanted: keys asked for, which is hits + pushed + requests. pushed: another worker read them and
    delivered them before they were asked for; hits: they were in memory otherwise, or another
    worker was reading them; requests: they were read from LevelDB; found: of these, those that
    were there. A call that failed counts what it read.
    evicted: frames that left memory; written: payloads written to LevelDB. bytes_read and
    bytes_written: of payloads with their headers. reading, writing, waiting (for what others
    read): nanoseconds, the sum of all workers'.
    """

    wanted: int = 0
    hits: int = 0
    pushed: int = 0
    requests: int = 0
    found: int = 0
    evicted: int = 0
    written: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    reading: int = 0
    writing: int = 0
    waiting: int = 0


class WorkerFrames:
    """Frames that a worker holds, from `Frames.acquire` to `Frames.release`.

    weights: for each key its weights, a view of shape (width,) of the frame itself. Views must not
    be touched after the release.
    """

    def __init__(self, worker: int, keys: Ids, pointers: Array, dtype: "np.dtype[np.generic]"):
        """Called by `Frames.acquire` only."""
        self.worker, self.keys, self.pointers = worker, keys, pointers
        self._frames = [native.Frame.from_address(int(at)) for at in pointers]
        self.weights: list[Weights] = [
            np.frombuffer(
                (ctypes.c_char * (frame.width * dtype.itemsize)).from_address(frame.weights), dtype
            )
            for frame in self._frames
        ]

    @property
    def stamps(self) -> list[float]:
        """The trainer's number for each frame, initially 0."""
        return [frame.stamp for frame in self._frames]

    @stamps.setter
    def stamps(self, given: "list[float]") -> None:
        for frame, stamp in zip(self._frames, given, strict=True):
            frame.stamp = stamp


def _wrap_check(cancelled: "Callable[[], bool]") -> "Callable[[int | None], int]":
    """Wraps a cancellation check for C; an exception counts as cancelled, as C cannot raise it."""

    def ask(_: int | None) -> int:
        try:
            return int(bool(cancelled()))
        except BaseException:
            return 1

    return ask


class Frames:
    """The cache of a `ModelStore`'s payloads; `ModelStore.frames` opens it.

    memory is a promise: frames, their table and batches to be written stay within it, but for one
    payload a worker on its way in or out, and for stamps. Changed frames are written when they
    leave memory, by `flush`, and before a checkpoint. As a context manager it writes them at its
    end, or drops them if there was an exception.
    """

    def __init__(
        self,
        path: Path,
        database: Database,
        gate: Gate,
        memory: int,
        sharing: native.Sharing,
        keep_stamps: bool,
    ) -> None:
        """Called by `ModelStore.frames` only."""
        workers = int(sharing.workers)
        if memory < LEAST_FRAME_MEMORY:
            raise StoreError(f"frames need {LEAST_FRAME_MEMORY} bytes of memory, got {memory}")
        if not 1 <= workers <= MOST_WORKERS:
            raise StoreError(f"workers must be 1 to {MOST_WORKERS}, got {workers}")
        self.path, self.memory, self.workers, self.dtype = path, memory, workers, database.dtype
        self._database, self._gate, self._native = database, gate, native.with_leveldb()
        self._pausing, self._counting = threading.Lock(), threading.Lock()
        self._frames, error = ctypes.c_void_p(), _error()
        self._sharers = 1 if 0 < sharing.all_bytes <= frame_share(memory, 1) else workers
        arguments = database.handle, memory, ctypes.byref(sharing), keep_stamps
        opened = ctypes.byref(self._frames)
        self._check(self._native.ks_frames_open(*arguments, opened, error), error)
        self._access = native.FrameAccess()
        self._native.ks_frames_access(self._frames, ctypes.byref(self._access))
        self._last = FrameCounters()
        self._expected: dict[int, Ids] = {}

    # --- for kernels ---

    @property
    def access(self) -> int:
        """Address of a tusk_frame_access, valid until this object is closed."""
        self._check_open()
        return ctypes.addressof(self._access)

    @property
    def share(self) -> int:
        """Bytes of frames per `acquire`: about memory / workers, or all of it if all frames
        fit.
        """
        return frame_share(self.memory, self._sharers)

    def bytes_of(self, width: int) -> int:
        """Bytes of a worker's share that a frame of `width` weights takes."""
        return frame_bytes(width, self.dtype.itemsize)

    @property
    def counters(self) -> FrameCounters:
        """Counts of operations so far."""
        with self._counting:
            return self._last if self.is_closed else self._count()

    # --- for tests and small uses ---

    def acquire(
        self,
        keys: ArrayLike,
        widths: ArrayLike,
        worker: int = 0,
        cancelled: "Callable[[], bool] | None" = None,
    ) -> WorkerFrames:
        """Holds the frames of rising keys, with a given number of weights each, until `release`.

        cancelled: asked now and then. StoreError: the store failed or is damaged, the frames do
        not fit into the worker's share, or it was cancelled; nothing is held then.
        """
        self._check_open()
        wanted = as_keys(keys)
        sizes = np.broadcast_to(np.asarray(widths, np.uint32), wanted.shape).copy()
        pointers, error = np.zeros(len(wanted), np.uintp), _error()
        callback = native.CANCEL(_wrap_check(cancelled)) if cancelled else None
        places = address(wanted), address(sizes), len(wanted), address(pointers)
        code = self._native.ks_acquire(self._frames, worker, *places, callback, None, error)
        self._check(code, error)
        return WorkerFrames(worker, wanted, pointers, self.dtype)

    def release(self, held: WorkerFrames, changed: bool = False) -> None:
        """Releases the frames; changed: whether weights or stamps were written."""
        self._check_open()
        pointers, held.pointers = held.pointers, held.pointers[:0]
        place = address(pointers), len(pointers)
        self._native.ks_release(self._frames, held.worker, *place, changed)

    def expect(self, keys: ArrayLike, worker: int = 0) -> None:
        """Announces the next rising keys of a worker, so that other readers deliver them to it."""
        self._check_open()
        if not 0 <= worker < self.workers:
            raise StoreError(f"workers are 0 to {self.workers - 1}, got {worker}")
        wanted = as_keys(keys)
        self._native.ks_expect(self._frames, worker, address(wanted), len(wanted))
        self._expected[worker] = wanted  # kept alive: the keys are looked up there

    # --- its life ---

    def flush(self) -> None:
        """Writes all changed frames to LevelDB, by rising key; they stay in memory.

        They are safe after `ModelStore.checkpoint`. Raises StoreError if a worker holds frames, or
        LevelDB fails: the rest is kept, and written the next time.
        """
        self._check_open()
        with self._gate.share():
            self.write()

    def close(self, flush: bool = True) -> None:
        """Frees the memory after writing changed frames, or dropping them. No effect the second
        time.

        No thread may be about to acquire. Raises StoreError, and stays open, if a worker holds
        frames or if they cannot be written.
        """
        with self._gate.share():
            if flush and not self.is_closed:
                self.write()
            self.drop()

    @property
    def is_closed(self) -> bool:
        """Returns whether the memory has been freed."""
        return not self._frames

    def __enter__(self) -> "Frames":
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.close()
        else:  # a worker's own error is more helpful than that it still holds frames
            with suppress(StoreError):
                self.close(flush=False)

    def __repr__(self) -> str:
        return f"Frames({str(self.path)!r}, memory={self.memory}, workers={self.workers})"

    # --- for the store, which holds the gate ---

    def write(self) -> None:
        """Writes changed frames; called by the store, which holds the gate."""
        with self.pause():
            pass

    @contextmanager
    def pause(self) -> Iterator[Callable[[Database], None]]:
        """Writes all frames and blocks workers until the end; yields a setter of a new
        database.
        """
        with self._pausing:
            if self.is_closed:
                yield self._attach
                return
            self._pause()
            try:
                error = _error()
                self._check(self._native.ks_frames_flush(self._frames, error), error)
                yield self._attach
            finally:
                self._native.ks_frames_resume(self._frames, self._database.handle)

    def drop(self) -> None:
        """Frees the memory without writing. No effect in a forked process."""
        if leveldb_lost():
            return
        with self._pausing:
            if self.is_closed:
                return
            self._pause()
            with self._counting:
                self._last = self._count()
                frames, self._frames = self._frames, ctypes.c_void_p()
            self._native.ks_frames_close(frames)

    def _attach(self, database: Database) -> None:
        self._database = database

    def _pause(self) -> None:
        error = _error()
        self._check(self._native.ks_frames_pause(self._frames, error), error)

    def _count(self) -> FrameCounters:
        numbers = (ctypes.c_int64 * 12)()
        self._native.ks_frames_count(self._frames, numbers)
        return FrameCounters(*numbers)

    def _check_open(self) -> None:
        if self.is_closed:
            raise StoreError(f"the frames of the store {self.path} are closed")
        use_leveldb()

    def _check(self, code: int, text: "ctypes.Array[ctypes.c_char]") -> None:
        if code == CANCELLED:
            raise StoreError(f"reading from the store {self.path} was cancelled")
        if code:
            raise_error(self.path, code, text)


def frame_share(memory: int, workers: int) -> int:
    """Bytes of frames per `acquire` if `Frames` have `memory` bytes."""
    return int(native.library().ks_frames_share(memory, workers))


def frame_bytes(width: int, weight_size: int) -> int:
    """Bytes of a worker's share that a frame of `width` weights of 4 or 8 bytes takes."""
    return int(native.library().ks_frame_bytes(width, weight_size))


def _error() -> "ctypes.Array[ctypes.c_char]":
    return ctypes.create_string_buffer(ERROR_BYTES)
