"""LevelDB in a forked process.

Its background thread stays in the parent, so a child that waits for it hangs. LevelDB starts one
thread for all databases of a process, once, and never checks that it still exists.
"""

import os
import threading

from tuskml.errors import StoreError

_used, _lost = threading.Event(), threading.Event()


def _lose() -> None:
    if _used.is_set():
        _lost.set()


os.register_at_fork(after_in_child=_lose)


def lost() -> bool:
    """Returns whether this process was forked from one that had opened a store."""
    return _lost.is_set()


def use() -> None:
    """Records the use of LevelDB. Raises StoreError in a fork without LevelDB's thread."""
    if _lost.is_set():
        raise StoreError(
            "this process was forked from one that had opened a store, whose threads it does not "
            "have: start it by 'spawn' (multiprocessing.get_context('spawn'))"
        )
    _used.set()
