"""The process's one pool of threads, for the native libraries that compute in parallel."""

import ctypes
import functools
from pathlib import Path

from tuskml.errors import TuskError
from tuskml.schedule.declared import Interface


def functions() -> ctypes.c_void_p:
    """Address of the pool's functions, `tusk_pool` in `native/pool.h`."""
    return ctypes.c_void_p(library().ts_pool())


def progress() -> ctypes.c_void_p:
    """Address of the functions that report progress, `tusk_progress`."""
    return ctypes.c_void_p(library().ts_progress())


@functools.cache
def library() -> ctypes.CDLL:
    """The pool's library, with the functions of `native/pool.h` and `native/shares.h`."""
    path = Path(__file__).parent / "_native.so"
    if not path.exists():
        raise TuskError(f"the pool of threads is not built: no {path}, reinstall tuskml")
    return Interface(path.parent).declare(ctypes.CDLL(str(path)))
