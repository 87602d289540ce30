"""Locks of modules in processes that fork."""

import os
from typing import Any, TypeVar

Lock = TypeVar("Lock")


def held_in_forks(lock: Lock) -> Lock:
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
