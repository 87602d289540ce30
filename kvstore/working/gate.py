"""A reentrant readers-writer lock."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tuskml.errors import StoreError
from tuskml.kvstore.files.locks import PAUSE, raise_if_interrupted


class Gate:
    """Shared access for batches, exclusive access for operations that close the database."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._users: list[int] = []  # threads inside, each as often as it has entered
        self._closed = False

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Waits while another thread has exclusive access."""
        user = threading.get_ident()
        with self._changed:
            self._wait(lambda: not self._closed)
            self._users.append(user)
        try:
            yield
        finally:
            with self._changed:
                self._users.remove(user)
                self._changed.notify_all()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Waits until no thread is inside, and keeps others out.

        Raises StoreError if this very thread is inside, which would be a deadlock.
        """
        with self._changed:
            if threading.get_ident() in self._users:
                raise StoreError("this thread reads the store: end the scan first")
            self._wait(lambda: not self._closed)
            self._closed = True
            try:
                self._wait(lambda: not self._users)
            except BaseException:
                self._closed = False
                self._changed.notify_all()
                raise
        try:
            yield
        finally:
            with self._changed:
                self._closed = False
                self._changed.notify_all()

    def _wait(self, ready: Callable[[], bool]) -> None:
        """Waits until `ready` returns true, or the thread is cancelled (`locks.interruptible`)."""
        while not ready():
            raise_if_interrupted()
            self._changed.wait(PAUSE)
