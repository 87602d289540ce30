"""Locks that processes hold on directories, gone with the process however it ends.

LevelDB's own lock is lost without a word when a second open fails in the same process, and then
two processes write the same files. So this one is taken before LevelDB is called: `flock` on a
file of its own, whose text is the owner's pid.
"""

import fcntl
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tuskml.errors import StoreError
from tuskml.kvstore.files import FILE_MODE

PATIENCE = 30.0
"""Seconds to wait for a lock that is held for moments only."""

_Inode = tuple[int, int]
_held: dict[_Inode, int] = {}  # this process's locks and their descriptors
_guard = threading.RLock()


def _forget_in_child() -> None:
    """A forked child shares its parent's locks: it lets go of them without unlocking."""
    for handle in _held.values():
        os.close(handle)
    _held.clear()
    _guard.release()


os.register_at_fork(
    before=_guard.acquire,
    after_in_parent=_guard.release,
    after_in_child=_forget_in_child,
)


class Lock:
    """An exclusive lock, held until `release` or the end of the process.

    The process's own table refuses a second lock too, since flock over NFS would grant it.
    """

    def __init__(self, path: Path) -> None:
        """Takes the lock; StoreError, which names the owner's pid, if it is held already."""
        self.path = path
        with _guard:
            handle = _acquire(path)
            self._inode = _inode_of(handle)
            _held[self._inode] = handle
        self._pid = os.getpid()
        os.ftruncate(handle, 0)
        os.pwrite(handle, str(self._pid).encode(), 0)

    def release(self) -> None:
        """Lets go; a second time, or in a forked child, it does nothing."""
        with _guard:
            if self._pid == os.getpid() and self._inode in _held:
                os.close(_held.pop(self._inode))
        self._pid = -1

    def __enter__(self) -> "Lock":
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def _inode_of(handle: int) -> _Inode:
    status = os.fstat(handle)
    return status.st_dev, status.st_ino


def _acquire(path: Path) -> int:
    """A locked descriptor. Looks a few times: `owner_of` holds a lock for an instant."""
    owner = "another process"
    for trial in range(4):
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, FILE_MODE)
        if _inode_of(handle) in _held:
            os.close(handle)
            raise StoreError(f"{path.parent} is open already, in this process, {os.getpid()}")
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_at(handle, path):
                return handle
        except BlockingIOError:
            owner = _owner(handle)
            time.sleep(0.002 * trial)
        os.close(handle)  # held by another, or removed by the collector meanwhile
    raise StoreError(f"{path.parent} is open already, in {owner}")


def _is_at(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), os.lstat(path))
    except FileNotFoundError:
        return False


def _owner(handle: int) -> str:
    """Who holds the lock on an open file."""
    text = os.pread(handle, 20, 0)
    return f"process {int(text)}" if text.isdigit() else "another process"


def owner_of(path: Path) -> int | None:
    """The pid that holds a lock, 0 if it is not known yet, None if nobody holds it."""
    try:
        handle = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        text = os.pread(handle, 20, 0)
        return int(text) if text.isdigit() else 0
    finally:
        os.close(handle)
    return None


@contextmanager
def waiting(path: Path, patience: float = PATIENCE) -> Iterator[None]:
    """A lock that others hold for moments: waits for it."""
    end = time.monotonic() + patience
    while True:
        try:
            lock = Lock(path)
            break
        except StoreError:
            if time.monotonic() > end:
                raise
            time.sleep(0.01)
    with lock:
        yield
