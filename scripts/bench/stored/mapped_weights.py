"""HogBatch on a memory-mapped array of weights: what a user would write without a store.

The kernels are those of stored models; they read each weight from the mapping.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels import structures
from tuskml.kernels.passes import Pass
from tuskml.kernels.stored.chunks import Chunks
from tuskml.kvstore import FrameCounters, native
from tuskml.kvstore.arrays import open_unnamed
from tuskml.learners.linear.stored import training
from tuskml.learners.linear.stored.online import Online
from tuskml.learners.linear.stored.run import Run
from tuskml.partitioner import IndexMap

Ids = NDArray[np.int64]
ACQUIRE = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.c_void_p,
    ctypes.c_int32,
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_int64,
    ctypes.POINTER(ctypes.c_void_p),
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_void_p,
)
RELEASE = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_int32, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int
)
PART = 1 << 20


class Mapped:
    """A file of floats, zeros at first, as the payload of one key."""

    live: list[Mapped] = []  # noqa: RUF012
    """Open arrays."""

    def __init__(self, folder: Path, n: int, advice: int | None) -> None:
        self.file = open_unnamed(folder)
        self._lock = threading.Lock()
        os.ftruncate(self.file.fileno(), 4 * n)
        self.memory = mmap.mmap(self.file.fileno(), 4 * n)
        if advice is not None:
            self.memory.madvise(advice)
        self.weights = np.frombuffer(self.memory, np.float32)
        self.frame = structures.Frame(self.weights.ctypes.data, 0.0, n)
        self._calls = ACQUIRE(self._acquire), RELEASE(lambda *_: None)
        self._access = native.FrameAccess.of(4, *self._calls)
        self.live.append(self)

    def _acquire(self, *given: Any) -> int:
        given[5][0] = ctypes.addressof(self.frame)
        return 0

    @property
    def access(self) -> int:
        """Address of a tusk_frame_access."""
        return ctypes.addressof(self._access)

    def forget(self) -> None:
        """Takes its pages out of this process and the page cache."""
        with self._lock:
            if self.file.closed:
                return
            self.memory.madvise(mmap.MADV_DONTNEED)
            os.fdatasync(self.file.fileno())
            os.posix_fadvise(self.file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    def close(self) -> None:
        """Forgets the weights."""
        with self._lock:
            self.live.remove(self)
            del self.weights
            self.memory.close()
            self.file.close()


class MappedRun(Run):
    """A stored training whose payload is one memory-mapped array of all ids."""

    advice: int | None = None
    entered: Callable[[], None] = staticmethod(lambda: None)

    def layout(self) -> IndexMap:
        return IndexMap.by_rule(1024)

    def _map(self, index: IndexMap, rows: Pass) -> Chunks:
        size = np.array([self.start.dimension()])
        chunks = Chunks.map(
            rows,
            lambda ids: (np.zeros(len(ids), np.int64), ids.astype(np.int32)),
            lambda keys: np.repeat(size, len(keys)),
            self.rows_per_chunk(),
            1 << 60,
        )
        self.entered()  # who writes this needs no such map
        return self._count(chunks, rows)

    def _first(self, chunks: Chunks) -> Any:
        assert isinstance(self.plan.step, float), "a step is given: trials would need an array"
        return super()._first(chunks)

    def _epochs(self, store: Any, chunks: Chunks, progress: Any) -> Any:
        mapped = Mapped(self.root.path, self.start.dimension(), self.advice)
        with ExitStack() as stack:
            stack.callback(mapped.close)
            parts = self._parts(chunks, mapped.access, progress.step)
            online = Online(*parts, store, mapped, progress)  # type: ignore[arg-type]
            online.run()
            objective = online.objective()
            with self.clock.phase("seal"):
                version = self._publish(store, progress, objective, pairs=pairs(mapped.weights))
            return online, objective, version, FrameCounters()

    def _where(self, index: IndexMap) -> str:
        return "a memory-mapped array"


def pairs(weights: NDArray[np.float32]) -> Iterator[tuple[Ids, NDArray[np.float32]]]:
    """(ids, weights) of those that are not 0."""
    for at in range(0, len(weights), PART):
        part = weights[at : at + PART]
        ids = np.flatnonzero(part)
        yield ids + at, part[ids]


@contextmanager
def mapped(advice: int | None, entered: Callable[[], None]) -> Iterator[None]:
    """Stored trainings keep their weights in a memory-mapped array.

    entered: called before the first page of it is touched.
    """
    kept = training.run_of
    MappedRun.advice, MappedRun.entered = advice, staticmethod(entered)
    training.run_of = MappedRun  # type: ignore[assignment]
    try:
        yield
    finally:
        training.run_of = kept
