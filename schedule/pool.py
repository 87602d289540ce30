"""The process's one pool of threads, for the native libraries that compute in parallel."""

import ctypes
import functools
from pathlib import Path

from tuskml.errors import TuskError


def functions() -> ctypes.c_void_p:
    """Address of the pool's functions, `tusk_pool` in `native/pool.h`."""
    return ctypes.c_void_p(library().ts_pool())


def progress() -> ctypes.c_void_p:
    """Address of the functions that tell how far work is, `tusk_progress`."""
    return ctypes.c_void_p(library().ts_progress())


@functools.cache
def library() -> ctypes.CDLL:
    """The pool's library, with the functions of `native/pool.h` and `native/shares.h`."""
    path = Path(__file__).parent / "_native.so"
    if not path.exists():
        raise TuskError(f"the pool of threads is not built: no {path}, reinstall tuskml")
    library = ctypes.CDLL(str(path))
    pointer, int32, int64 = ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64
    library.ts_pool.restype = pointer
    library.ts_progress.restype = pointer
    library.ts_shares_open.argtypes = []
    library.ts_training_begin.argtypes = [pointer]
    library.ts_training_replay.argtypes = [int32, pointer, pointer]
    library.ts_training_split.argtypes, library.ts_training_split.restype = [int32], pointer
    library.ts_training_join.argtypes = [pointer]
    library.ts_training_plan.argtypes = [ctypes.c_char_p]
    library.ts_training_progress.argtypes = [int64]
    library.ts_training_step.argtypes = [ctypes.c_double, int64, int64]
    library.ts_training_share.argtypes = [int32]
    library.ts_training_share.restype = int32
    library.ts_training_age.restype = ctypes.c_double
    library.ts_device_ask.argtypes = [int32]
    library.ts_activity.argtypes, library.ts_activity.restype = [pointer, ctypes.c_char_p], int32
    library.ts_max_min.argtypes = [int32, pointer, pointer, int32, pointer]
    return library
