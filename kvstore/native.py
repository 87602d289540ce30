"""The native half (`kvstore/native/api.h`), called with the GIL released.

It finds LevelDB's C interface at run time, in the library that plyvel's wheel brings, or else in
the system's. Arrays are C-contiguous and of the dtype that the header says.
"""

import contextlib
import ctypes
import ctypes.util
import functools
import importlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import StoreError

Ids = NDArray[np.int64]
Weights = NDArray[Any]
"""float32 or float64, as the store's dtype is."""
Array = NDArray[Any]

ENTRY = np.dtype(
    [("block", "<u8"), ("offset", "<u8"), ("count", "<u4"), ("crc", "<u4")],
)
DENSE = 0xFFFFFFFF
ERROR_BYTES = 512
OK, FAILED, CORRUPT, NO_MEMORY, CHUNK_TOO_LARGE, CANCELLED = range(6)

_ADDRESS, _INT64, _INT32, _TEXT = (
    ctypes.c_void_p,
    ctypes.c_int64,
    ctypes.c_int32,
    ctypes.c_char_p,
)


class Options(ctypes.Structure):
    """`ks_options`."""

    _fields_ = [
        ("create", _INT32),
        ("weight_size", _INT32),
        ("write_buffer", _INT64),
        ("block_cache", _INT64),
        ("max_file_size", _INT64),
        ("block_size", _INT64),
        ("max_open_files", _INT32),
        ("bloom_bits", _INT32),
    ]


class Updates(ctypes.Structure):
    """`ks_updates`."""

    _fields_ = [
        ("keys", _ADDRESS),
        ("widths", _ADDRESS),
        ("entries", _ADDRESS),
        ("slots", _ADDRESS),
        ("deltas", _ADDRESS),
        ("n", _INT64),
    ]


class Page(ctypes.Structure):
    """`ks_page`."""

    _fields_ = [
        ("max_keys", _INT64),
        ("max_weights", _INT64),
        ("keys", _ADDRESS),
        ("starts", _ADDRESS),
        ("weights", _ADDRESS),
        ("n", _INT64),
    ]


class Frame(ctypes.Structure):
    """`tusk_frame`."""

    _fields_ = [("weights", _ADDRESS), ("stamp", ctypes.c_double), ("width", ctypes.c_uint32)]


class FrameAccess(ctypes.Structure):
    """`tusk_frame_access`."""

    _fields_ = [
        ("frames", _ADDRESS),
        ("weight_size", _INT32),
        ("acquire", _ADDRESS),
        ("release", _ADDRESS),
        ("expect", _ADDRESS),
        ("parts", _ADDRESS),
    ]

    @classmethod
    def of(cls, weight_size: int, acquire: Any, release: Any) -> "FrameAccess":
        """Of functions made by `ctypes.CFUNCTYPE`, which have to live as long; nothing is
        delivered, and each frame has one stamp.
        """
        calls = (ctypes.cast(call, _ADDRESS) for call in (acquire, release))
        return cls(None, weight_size, *calls, None, None)


class Sharing(ctypes.Structure):
    """`ks_sharing`."""

    _fields_ = [("workers", _INT32), ("pushes", _INT32), ("all_bytes", _INT64)]


class RoutePlan(ctypes.Structure):
    """`ks_route_plan`."""

    _fields_ = [
        ("chunks", _INT32),
        ("weight_size", _INT32),
        ("region", _ADDRESS),
        ("first", _ADDRESS),
        ("weights", _INT32),
        ("moves", _INT32),
        ("links", _INT32),
        ("piece", _INT32),
        ("behind", _INT32),
        ("several", _INT32),
    ]


class Range(ctypes.Structure):
    """`ks_range`."""

    _fields_ = [
        ("ids", _ADDRESS),
        ("lengths", _ADDRESS),
        ("chunks", _INT32),
        ("low", _INT32),
        ("width", _INT64),
    ]


class Rest(ctypes.Structure):
    """`ks_rest`."""

    _fields_ = [
        ("range", _ADDRESS),
        ("weights", _ADDRESS),
        ("next", _ADDRESS),
        ("table", _ADDRESS),
        ("block", _INT64),
        ("most", _INT64),
    ]


class Runs(ctypes.Structure):
    """`ks_runs`."""

    _fields_ = [
        ("file", _INT32),
        ("threads", _INT32),
        ("writes", _INT32),
        ("data", _ADDRESS),
        ("at", _ADDRESS),
        ("bytes", _ADDRESS),
        ("n", _INT64),
    ]


CANCEL = ctypes.CFUNCTYPE(ctypes.c_int, _ADDRESS)
"""What `acquire` asks whether to stop."""


class SealedAbout(ctypes.Structure):
    """`sealed_about`."""

    _fields_ = [
        ("dimension", ctypes.c_uint64),
        ("nonzero", ctypes.c_uint64),
        ("n_entries", ctypes.c_uint64),
        ("size", ctypes.c_uint64),
        ("shift", ctypes.c_uint32),
        ("weight_size", ctypes.c_uint32),
        ("bytes", _ADDRESS),
        ("metadata", _ADDRESS),
        ("metadata_length", ctypes.c_uint64),
        ("digest", ctypes.c_char * 65),
    ]


_SIGNATURES: dict[str, tuple[list[Any], Any]] = {
    "ks_load": ([_TEXT, _TEXT], ctypes.c_int),
    "ks_open": ([_TEXT, _ADDRESS, _ADDRESS, _TEXT], ctypes.c_int),
    "ks_close": ([_ADDRESS], None),
    "ks_count": ([_ADDRESS, _ADDRESS], None),
    "ks_get": ([_ADDRESS, _ADDRESS, _INT64, _ADDRESS, _ADDRESS, _ADDRESS, _TEXT], ctypes.c_int),
    "ks_put": (
        [_ADDRESS, _ADDRESS, _INT64, _ADDRESS, _ADDRESS, ctypes.c_int, _TEXT],
        ctypes.c_int,
    ),
    "ks_add": ([_ADDRESS, _ADDRESS, _TEXT], ctypes.c_int),
    "ks_sync": ([_ADDRESS, _TEXT], ctypes.c_int),
    "ks_property": ([_ADDRESS, _TEXT], _ADDRESS),
    "ks_free": ([_ADDRESS], None),
    "ks_scan_open": ([_ADDRESS, ctypes.c_uint64], _ADDRESS),
    "ks_scan_next": ([_ADDRESS, _ADDRESS, _TEXT], ctypes.c_int),
    "ks_scan_close": ([_ADDRESS], None),
    "ks_frames_open": (
        [_ADDRESS, _INT64, _ADDRESS, _INT32, _ADDRESS, _TEXT],
        ctypes.c_int,
    ),
    "ks_frames_share": ([_INT64, _INT32], _INT64),
    "ks_frame_bytes": ([_INT64, _INT32], _INT64),
    "ks_frames_close": ([_ADDRESS], None),
    "ks_frames_flush": ([_ADDRESS, _TEXT], ctypes.c_int),
    "ks_frames_pause": ([_ADDRESS, _TEXT], ctypes.c_int),
    "ks_frames_resume": ([_ADDRESS, _ADDRESS], None),
    "ks_frames_count": ([_ADDRESS, _ADDRESS], None),
    "ks_frames_access": ([_ADDRESS, _ADDRESS], None),
    "ks_acquire": (
        [_ADDRESS, _INT32, _ADDRESS, _ADDRESS, _INT64, _ADDRESS, _ADDRESS, _ADDRESS, _TEXT],
        ctypes.c_int,
    ),
    "ks_release": ([_ADDRESS, _INT32, _ADDRESS, _INT64, ctypes.c_int], None),
    "ks_expect": ([_ADDRESS, _INT32, _ADDRESS, _INT64], None),
    "ks_routes_open": ([_ADDRESS, _ADDRESS, _TEXT], ctypes.c_int),
    "ks_routes_close": ([_ADDRESS], None),
    "ks_routes_access": ([_ADDRESS, _ADDRESS], None),
    "ks_routes_count": ([_ADDRESS, _ADDRESS], None),
    "ks_route_ranks": ([_ADDRESS, _INT64, _ADDRESS, _ADDRESS], None),
    "ks_route_neighbours": ([_ADDRESS, _INT64, _ADDRESS, _ADDRESS], None),
    "ks_route_linked": ([_ADDRESS, _ADDRESS, _INT64, _ADDRESS, _ADDRESS], None),
    "ks_route_tally": ([_ADDRESS] * 3, None),
    "ks_route_rests": ([_ADDRESS] * 3, _INT64),
    "ks_route_order": ([_ADDRESS, _INT64] + [_ADDRESS] * 4, None),
    "ks_route_resting": (
        [_ADDRESS, _INT64, _INT32, _ADDRESS, _ADDRESS, _ADDRESS],
        _INT64,
    ),
    "ks_route_by_id": ([_ADDRESS] * 3, _INT64),
    "ks_routes_rest": ([_ADDRESS, ctypes.c_int, ctypes.c_int, _TEXT], ctypes.c_int),
    "ks_move_runs": ([_ADDRESS, _TEXT], ctypes.c_int),
    "ks_seal": (
        [_ADDRESS, _ADDRESS, _INT64, ctypes.c_uint64, ctypes.c_uint32, ctypes.c_uint32]
        + [_ADDRESS] * 3,
        _INT64,
    ),
    "ks_sealed_open": (
        [ctypes.c_int, _TEXT, _TEXT, _INT64, _ADDRESS, _TEXT],
        ctypes.c_int,
    ),
    "ks_sealed_close": ([_ADDRESS], None),
    "ks_sealed_describe": ([_ADDRESS, _ADDRESS], None),
    "ks_sealed_index": ([_ADDRESS, _ADDRESS, _ADDRESS, _TEXT], ctypes.c_int),
    "ks_sealed_let_go": ([_ADDRESS], None),
    "ks_sealed_gather": ([_ADDRESS, _ADDRESS, _INT64, _ADDRESS, _TEXT], ctypes.c_int),
    "ks_sealed_items": (
        [_ADDRESS, ctypes.c_uint64, ctypes.c_uint64, _ADDRESS, _ADDRESS, _ADDRESS, _TEXT],
        ctypes.c_int,
    ),
    "ks_default_root": ([_TEXT, _INT64], ctypes.c_int),
    "ks_crc": ([ctypes.c_uint32, _ADDRESS, _INT64], ctypes.c_uint32),
}


@functools.cache
def library() -> ctypes.CDLL:
    """The store's library, its functions with their types; LevelDB not yet loaded."""
    path = Path(__file__).parent / "_native.so"
    if not path.exists():
        raise StoreError(f"the store is not built: no {path}, reinstall tuskml")
    lib = ctypes.CDLL(str(path))
    for name, (arguments, result) in _SIGNATURES.items():
        function = getattr(lib, name)
        function.argtypes, function.restype = arguments, result
    return lib


@functools.cache
def with_leveldb() -> ctypes.CDLL:
    """The store's library, LevelDB loaded; StoreError where there is none."""
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
    """Files that may have LevelDB's functions, in the order of preference."""
    names = []
    with contextlib.suppress(ImportError):  # linked against LevelDB: its symbols lead there
        names.append(str(importlib.import_module("plyvel._plyvel").__file__))
    system = ctypes.util.find_library("leveldb")
    return [*names, system] if system else names


def address(array: Array) -> int:
    """Where an array's items lie."""
    return int(array.ctypes.data)


def crc32c(data: "bytes | memoryview | Array", crc: int = 0) -> int:
    """CRC-32C (Castagnoli, RFC 3720) of bytes, continuing from that of what came before."""
    view = np.frombuffer(data, np.uint8)
    return int(library().ks_crc(crc, address(view), len(view)))
