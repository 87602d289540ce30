"""The process's one pool of threads, for the native libraries that compute in parallel.

Python's own threads block all signals here: in a server's process signals are for the server's
thread alone, whose handlers may jump.
"""

import ctypes
import functools
import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

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


MASK_BYTES = 128
"""Bytes of a sigset_t in Linux; other systems have smaller ones."""


class QuietThreads(ThreadPoolExecutor):
    """An executor whose threads have all signals blocked."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        """Like `ThreadPoolExecutor.submit`; started threads inherit this thread's signal mask."""
        with signals_blocked():
            return super().submit(fn, *args, **kwargs)


@contextmanager
def signals_blocked() -> Iterator[None]:
    """Blocks all signals of this thread, and of those that it starts, until the context ends.

    It calls pthread_sigmask(3) itself: Python's makes an enum of each signal of a mask, in 0.2 ms.
    The GIL is kept, or the thread that gets work would have it before the caller goes on.
    """
    before = ctypes.create_string_buffer(MASK_BYTES)
    _set_mask(_every(), before)
    try:
        yield
    finally:
        _set_mask(before, None)


@cache
def _library() -> ctypes.PyDLL:
    return ctypes.PyDLL(None)


@cache
def _every() -> "ctypes.Array[ctypes.c_char]":
    """A mask of all signals."""
    mask = ctypes.create_string_buffer(MASK_BYTES)
    _library().sigfillset(mask)
    return mask


def _set_mask(
    mask: "ctypes.Array[ctypes.c_char]", before: "ctypes.Array[ctypes.c_char] | None"
) -> None:
    _library().pthread_sigmask(signal.SIG_SETMASK, mask, before)


Lock = TypeVar("Lock")


def hold_in_forks(lock: Lock) -> Lock:
    """Registers a lock to be held during forks of this process; returns it.

    A child has only the forking thread. A lock held by another thread would never be free there.
    Locks are taken in the reverse order of registration, so a lock that is taken while another is
    held has to be registered first.
    """
    held: Any = lock
    os.register_at_fork(
        before=held.acquire, after_in_parent=held.release, after_in_child=held.release
    )
    return lock
