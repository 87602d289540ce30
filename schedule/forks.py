"""Locks of modules in processes that fork."""

import os
from typing import Any, TypeVar

Lock = TypeVar("Lock")


def held_in_forks(lock: Lock) -> Lock:
    """The lock, which from now on is held during a fork of this process.

    A child has no other threads. A lock that one of them had would never be free in it. Locks are
    taken in the reverse of the order in which they were given here, so one that is taken while
    another is held has to be given first.
    """
    held: Any = lock
    os.register_at_fork(
        before=held.acquire, after_in_parent=held.release, after_in_child=held.release
    )
    return lock
