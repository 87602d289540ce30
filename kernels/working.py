"""Counts a training's NumPy arrays in the account of its rows' memory.

NumPy allocates through the handler of the running thread (NEP 49). While a training runs, this is
our handler, which allocates no more than the account has left.
"""

import ctypes
import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from tuskml.kernels.charged import FLOOR
from tuskml.kernels.library import library

SET_HANDLER = 304
"""`PyDataMem_SetHandler` in NumPy's table of functions, since NumPy 1.22."""


@functools.cache
def _set_handler() -> Callable[[Any], Any]:
    """NumPy's function that sets this thread's handler and returns the previous one."""
    core = getattr(np, "_core", None) or np.core
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    table = get(core._multiarray_umath._ARRAY_API, None)
    function = ctypes.cast(table, ctypes.POINTER(ctypes.c_void_p))[SET_HANDLER]
    return ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(function)


def _capsule(handler: int) -> Any:
    """The handler as NumPy takes it."""
    make = ctypes.pythonapi.PyCapsule_New
    make.restype = ctypes.py_object
    make.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return make(handler, _NAME, None)


_NAME = b"mem_handler"  # NumPy's, kept: a capsule does not copy it


@contextmanager
def counted(memory: int) -> Iterator[None]:
    """Arrays made in the context, and what kernels take, count in the account `memory`.

    Beyond what it has left NumPy raises MemoryError, and so do kernels. 0: nothing is counted.
    """
    if not memory:
        yield
        return
    lib = library()
    working = lib.tk_working_open(memory, FLOOR)
    if not working:
        raise MemoryError("out of memory: no room for the training")
    try:
        before = _set_handler()(_capsule(lib.tk_working_handler(working)))
        try:
            yield
        finally:
            _set_handler()(before)
    finally:
        lib.tk_working_close(working)


def here() -> int | None:
    """What counts the calling thread's training; None: nothing does."""
    found: int | None = library().tk_working_here()
    return found


@contextmanager
def counted_as(training: int | None) -> Iterator[None]:
    """What kernels take on this thread counts as that of a training, from `here` of its thread.

    NumPy's arrays do where the thread runs in a copy of that thread's context.
    """
    before = here()
    library().tk_working_enter(training)
    try:
        yield
    finally:
        library().tk_working_enter(before)
