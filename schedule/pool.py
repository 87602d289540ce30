"""The process's one pool of threads, for the native libraries that compute in parallel."""

import ctypes
import functools
from pathlib import Path

from tuskml.errors import TuskError


@functools.cache
def functions() -> ctypes.c_void_p:
    """Address of the pool's functions, `tusk_pool` in `native/pool.h`."""
    path = Path(__file__).parent / "_native.so"
    if not path.exists():
        raise TuskError(f"the pool of threads is not built: no {path}, reinstall tuskml")
    library = ctypes.CDLL(str(path))
    library.ts_pool.restype = ctypes.c_void_p
    return ctypes.c_void_p(library.ts_pool())
