"""Threads that read ahead while another works: they take no signals.

In a server's process signals are for the server's own thread alone, whose handlers may jump.
"""

import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any


class QuietThreads(ThreadPoolExecutor):
    """An executor whose threads have all signals blocked."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        """As of `ThreadPoolExecutor`; what it starts inherits the mask of this thread."""
        with signals_blocked():
            return super().submit(fn, *args, **kwargs)


@contextmanager
def signals_blocked() -> Iterator[None]:
    """This thread takes no signals meanwhile."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
