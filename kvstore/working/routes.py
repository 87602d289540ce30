"""Payloads that travel between chunks of rows: weights that exceed memory, in a file.

See `native/routes/api.h`. Kernels acquire a chunk's weights, train them in place and release them,
as with `Frames`; but chunks come in a fixed order, so that each weight is sent straight to the
next chunk that needs it. An epoch reads and writes each chunk's weights once, in long runs.
"""

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import StoreError
from tuskml.kvstore import native, pages
from tuskml.kvstore.native import ERROR_BYTES, Weights, address
from tuskml.kvstore.working import forks
from tuskml.kvstore.working.database import raise_error
from tuskml.kvstore.working.frames import FrameCounters
from tuskml.kvstore.working.records import unnamed
from tuskml.kvstore.working.route_plan import RoutePlan


class Routes:
    """The weights of a plan, initially 0. Close it after use. A pass visits all chunks in order.

    moves: a file of int32, for each chunk the indices of its weights in its region, by destination
    chunk and then id; folder: directory for the file of weights.
    """

    def __init__(self, plan: RoutePlan, moves: IO[bytes], folder: Path) -> None:
        forks.use()
        self.plan, self.folder, self._native = plan, folder, native.library()
        self._handle = ctypes.c_void_p()
        self._file = unnamed(folder)
        self._last = FrameCounters()
        try:
            os.ftruncate(self._file.fileno(), int(plan.region[-1]))
            plan_structure = native.RoutePlan(
                plan.n_chunks,
                plan.weight_size,
                address(plan.region),
                address(plan.first),
                self._file.fileno(),
                moves.fileno(),
                plan.links.file.fileno(),
                plan.piece,
                plan.behind,
                plan.several,
            )
            self._keep = plan_structure, moves
            error = ctypes.create_string_buffer(ERROR_BYTES)
            opened = ctypes.byref(self._handle)
            self._check(
                self._native.ks_routes_open(ctypes.byref(plan_structure), opened, error), error
            )
        except BaseException:
            self._file.close()
            raise
        self._access = native.FrameAccess()
        self._native.ks_routes_access(self._handle, ctypes.byref(self._access))

    @property
    def access(self) -> int:
        """Address of a tusk_frame_access, valid until this object is closed."""
        if not self._handle:
            raise StoreError("the weights of this training are closed")
        return ctypes.addressof(self._access)

    @property
    def counters(self) -> FrameCounters:
        """Counts in buckets: hits never left memory, requests were read; written counts runs."""
        if self._handle:
            numbers = (ctypes.c_int64 * 10)()
            self._native.ks_routes_count(self._handle, numbers)
            names = (
                "wanted",
                "hits",
                "requests",
                "found",
                "written",
                "bytes_read",
                "bytes_written",
                "reading",
                "writing",
                "waiting",
            )
            self._last = FrameCounters(**dict(zip(names, numbers, strict=True)))
        return self._last

    @contextmanager
    def at_rest(self, fold: bool = False) -> Iterator[None]:
        """Brings weights to rest between passes.

        Each weight is in the file, in the region of the first chunk that has it, and its pieces
        (`RoutePlan.keys_at_rest`) may be acquired in any order; fold: stamps become 0.
        """
        self._rest(True, False)
        yield
        self._rest(False, fold)

    def read(self, chunk: int, place: int = 0, out: NDArray[np.uint8] | None = None) -> Weights:
        """Reads a chunk's region at rest, from index `place` on.

        Shape (places,), or (places, several) if features have several weights; out: bytes to read
        into.
        """
        begin, end = (int(at) for at in self.plan.region[chunk : chunk + 2])
        begin += place * self.plan.weight_size
        data = pages.empty(end - begin, np.uint8) if out is None else out[: end - begin]
        view = data.data
        while view:
            n = os.preadv(self._file.fileno(), [view], begin)
            if not n:
                raise StoreError("the file of weights ends too early")
            view, begin = view[n:], begin + n
        if self.plan.several == 1:
            return data.view(f"f{self.plan.weight_size}")
        whole = len(data) // self.plan.weight_size * self.plan.weight_size
        return data[:whole].view(np.float32).reshape(-1, self.plan.several)

    def write(self, chunk: int, weights: Weights) -> None:
        """Replaces a chunk's region, at rest or before the first pass."""
        view = np.ascontiguousarray(weights).reshape(-1).view(np.uint8).data
        at = int(self.plan.region[chunk])
        while view:
            n = os.pwrite(self._file.fileno(), view, at)
            view, at = view[n:], at + n

    def close(self) -> None:
        """Frees memory and file. No effect the second time."""
        # in a fork it would wait for a thread that does not exist
        if self._handle and not forks.lost():
            with suppress(StoreError):
                self._last = self.counters
            self._native.ks_routes_close(self._handle)
        self._handle = ctypes.c_void_p()
        self._file.close()

    def __enter__(self) -> "Routes":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _rest(self, rest: bool, fold: bool) -> None:
        error: Any = ctypes.create_string_buffer(ERROR_BYTES)
        self._check(self._native.ks_routes_rest(self._handle, rest, fold, error), error)

    def _check(self, code: int, text: "ctypes.Array[ctypes.c_char]") -> None:
        if code:
            raise_error(self.folder, code, text)
