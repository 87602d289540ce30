"""A lock for many users at a time, or for one alone."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tuskml.errors import StoreError
from tuskml.kvstore.files.locks import PAUSE, raise_if_interrupted


class Gate:
    """Shared passage for batches, exclusive passage for what closes the database under them."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._users: list[int] = []  # threads, each as often as it is inside
        self._closed = False

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Waits while somebody is alone inside."""
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
        """Waits until nobody is inside, and keeps others out.

        StoreError where this very thread is inside, which would wait for itself.
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
        """Waits until it is ready, or the thread is cancelled (`locks.interruptible`)."""
        while not ready():
            raise_if_interrupted()
            self._changed.wait(PAUSE)
