"""Judges plans in a thread beside the training, which goes on meanwhile (Mahajan 2021, 2.3.3).

Kernels hold no GIL, so the thread works while rows are read. What it found is taken up at a later
border of an iteration, and dropped if it answers a question that is no longer asked. The thread
takes no signals, as in a server they are for its own thread alone, and it ends with the training.
"""

import contextvars
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Generic, TypeVar

import numpy as np

from tuskml.kvstore.working.quiet import QuietThreads

Found = TypeVar("Found")
NAME = "tuskml plans"
"""Of the thread."""


class NoThreadError(Exception):
    """The system starts no further thread."""


class Beside(Generic[Found]):
    """One question at a time, known by its key: what it asks and where the thread has come."""

    def __init__(self) -> None:
        self.pool: QuietThreads | None = None
        self.key: Hashable = None
        self.future: Future[Found] | None = None

    def answer(self, key: Hashable, ask: Callable[[], Found]) -> Found | None:
        """What `ask` found; None while it runs. Drops another question that was asked before.

        An error of `ask` is raised here. NoThreadError if there can be no thread.
        """
        if self.future is None or self.key != key:
            self.drop()
            self.future, self.key = self._started(ask), key
        return self.future.result() if self.future.done() else None

    def drop(self) -> None:
        """Nobody wants the answer any more."""
        if self.future is not None:
            self.future.cancel()
        self.key, self.future = None, None

    def end(self) -> None:
        """Ends the thread, which takes a millisecond at most."""
        self.drop()
        if self.pool is not None:
            self.pool.shutdown(wait=True)
            self.pool = None

    def _started(self, ask: Callable[[], Found]) -> "Future[Found]":
        """The thread sees the limits of the calling one."""
        context = contextvars.copy_context()

        def quietly() -> Found:
            with np.errstate(all="ignore"):
                return ask()

        try:
            if self.pool is None:
                self.pool = QuietThreads(1, thread_name_prefix=NAME)
                self.pool.submit(int)  # a thread that starts runs at once, and the caller waits
            return self.pool.submit(context.run, quietly)
        except RuntimeError as error:
            raise NoThreadError(str(error)) from None
