"""The native half (`kvstore/native/api.h`), called with the GIL released.

It finds LevelDB's C interface at run time, in the library that plyvel's wheel brings, or else in
the system's. Arrays are C-contiguous and of the dtype that the header says; `as_keys` and
`as_weights` make them of callers' arrays.
"""

import contextlib
import ctypes
import functools
import importlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from tuskml.errors import StoreError
from tuskml.schedule.declared import Interface

STORE = Interface(Path(__file__).parent)
"""Declarations of the store's headers."""
Ids = NDArray[np.int64]
Weights = NDArray[Any]
"""Array of float32 or float64, the store's dtype."""
Array = NDArray[Any]

ENTRY = np.dtype(
    [("block", "<u8"), ("offset", "<u8"), ("count", "<u4"), ("crc", "<u4")],
)
ERROR_BYTES = STORE.constant("TUSK_STORE_ERROR")
OK, FAILED, CORRUPT, NO_MEMORY = STORE.constants("KS_", "OK FAILED CORRUPT NO_MEMORY")
CHUNK_TOO_LARGE, CANCELLED = STORE.constants("TUSK_", "CHUNK_TOO_LARGE ACQUIRE_CANCELLED")

_ADDRESS = ctypes.c_void_p


@STORE.structure("ks_options")
class Options(ctypes.Structure):
    """The C structure `ks_options`."""


@STORE.structure("ks_updates")
class Updates(ctypes.Structure):
    """The C structure `ks_updates`."""


@STORE.structure("ks_page")
class Page(ctypes.Structure):
    """The C structure `ks_page`."""


@STORE.structure("tusk_frame")
class Frame(ctypes.Structure):
    """The C structure `tusk_frame`."""


@STORE.structure("tusk_frame_access")
class FrameAccess(ctypes.Structure):
    """The C structure `tusk_frame_access`."""

    @classmethod
    def of(cls, weight_size: int, acquire: Any, release: Any) -> "FrameAccess":
        """Wraps `ctypes.CFUNCTYPE` functions, which must outlive it; no pushes, one stamp per
        frame.
        """
        calls = (ctypes.cast(call, _ADDRESS) for call in (acquire, release))
        return cls(None, weight_size, *calls, None, None)


@STORE.structure("ks_sharing")
class Sharing(ctypes.Structure):
    """The C structure `ks_sharing`."""


@STORE.structure("ks_route_plan")
class RoutePlan(ctypes.Structure):
    """The C structure `ks_route_plan`."""


@STORE.structure("ks_range")
class Range(ctypes.Structure):
    """The C structure `ks_range`."""


@STORE.structure("ks_rest")
class Rest(ctypes.Structure):
    """The C structure `ks_rest`."""


@STORE.structure("ks_runs")
class Runs(ctypes.Structure):
    """The C structure `ks_runs`."""


CANCEL = ctypes.CFUNCTYPE(ctypes.c_int, _ADDRESS)
"""Callback by which `acquire` checks for cancellation."""


@STORE.structure("sealed_about")
class SealedAbout(ctypes.Structure):
    """The C structure `sealed_about`."""


@functools.cache
def library() -> ctypes.CDLL:
    """The store's library, its functions with their types; LevelDB not yet loaded."""
    path = Path(__file__).parent / "_native.so"
    if not path.exists():
        raise StoreError(f"the store is not built: no {path}, reinstall tuskml")
    return STORE.declare(ctypes.CDLL(str(path)))


@functools.cache
def with_leveldb() -> ctypes.CDLL:
    """The store's library with LevelDB loaded. Raises StoreError if LevelDB is missing."""
    lib = library()
    error = ctypes.create_string_buffer(ERROR_BYTES)
    reasons = []
    for name in _leveldb_libraries():
        if lib.ks_load(name.encode(), error) == OK:
            return lib
        reasons.append(error.value.decode(errors="replace"))
    raise StoreError(
        "models in a store need LevelDB, which was not found: install plyvel, or where it has no "
        "wheel the system's libleveldb; everything else works without it"
        + "".join(f"; {reason}" for reason in reasons)
    )


def _leveldb_libraries() -> list[str]:
    """Files that may have LevelDB's functions, in order of preference."""
    names = []
    with contextlib.suppress(ImportError):  # linked against LevelDB, so its symbols resolve there
        names.append(str(importlib.import_module("plyvel._plyvel").__file__))
    system = importlib.import_module("ctypes.util").find_library("leveldb")  # slow to import
    return [*names, system] if system else names


def address(array: Array) -> int:
    """Returns the address of an array's data."""
    return int(array.ctypes.data)


def crc32c(data: "bytes | memoryview | Array", crc: int = 0) -> int:
    """CRC-32C (Castagnoli, RFC 3720) of bytes, continuing from `crc`."""
    view = np.frombuffer(data, np.uint8)
    return int(library().ks_crc(crc, address(view), len(view)))


def model_dtype(given: DTypeLike) -> "np.dtype[Any]":
    """Checks a dtype: float32 or float64."""
    dtype = np.dtype(given)
    if dtype not in (np.float32, np.float64):
        raise StoreError(f"a store's dtype must be float32 or float64, got {dtype}")
    return dtype


def as_keys(given: ArrayLike) -> Ids:
    """Keys as contiguous int64 of one dimension. Raises StoreError for one below 0."""
    array = np.asarray(given)
    if array.size and array.dtype.kind not in "iu":
        raise StoreError(f"keys must be whole numbers, got {array.dtype}")
    keys = np.ascontiguousarray(array, np.int64)
    if keys.ndim != 1 or (keys.size and keys.min() < 0):
        raise StoreError("keys must be of one dimension and at least 0")
    return keys


def as_weights(given: ArrayLike, dtype: "np.dtype[Any]") -> Weights:
    """Weights as a contiguous array of the store's dtype; float64 is not silently narrowed."""
    array = np.asarray(given)
    if not np.can_cast(array.dtype, dtype, "same_kind") or (
        array.dtype == np.float64 != dtype and isinstance(given, np.ndarray)
    ):
        raise StoreError(f"weights must be {dtype}, got {array.dtype}")
    return np.ascontiguousarray(array, dtype)
