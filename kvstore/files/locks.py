"""Locks of processes on directories, released with the process however it ends.

LevelDB's own lock is lost silently when a second open fails in the same process, and then two
processes write the same files. So this one is taken before LevelDB is called: `flock` on a
separate file, whose text is the owner's pid.
"""

import fcntl
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tuskml.errors import StoreError
from tuskml.kvstore.files.files import FILE_MODE

PATIENCE = 30.0
"""Seconds to wait for a lock that is held briefly."""
PAUSE = 0.01

_Inode = tuple[int, int]
_held: dict[_Inode, int] = {}  # this process's locks and their descriptors
_guard = threading.RLock()


def _forget_in_child() -> None:
    """Closes inherited locks in a forked child without unlocking the parent's."""
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

    The process's own table also rejects a second lock, since flock over NFS would grant it.
    """

    def __init__(self, path: Path, create: bool = True) -> None:
        """Takes the lock. Raises StoreError, with the owner's pid, if it is held already.

        create: create the file if it is missing; otherwise that is a FileNotFoundError.
        """
        self.path = path
        with _guard:
            handle = _acquire(path, create)
            try:
                self._inode = _inode_of(handle)
                _write_pid(handle)
            except BaseException:
                os.close(handle)
                raise
            _held[self._inode] = handle
        self._pid = os.getpid()

    def release(self) -> None:
        """Releases the lock; no effect the second time, or in a forked child."""
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


def _write_pid(handle: int) -> None:
    """Writes the owner's pid, for information only: a full disk must not block the collector.

    If writing fails, the lock is held, and no other process's pid is left in the file.
    """
    os.ftruncate(handle, 0)
    with suppress(OSError):
        os.pwrite(handle, str(os.getpid()).encode(), 0)


def _acquire(path: Path, create: bool) -> int:
    """Locks a descriptor. Retries a few times: `owner_of` holds a lock for an instant."""
    owner = "another process"
    for trial in range(4):
        handle, kept = _open(path, create), False
        try:
            if _inode_of(handle) in _held:
                raise StoreError(f"{path.parent} is open already, in this process, {os.getpid()}")
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            kept = is_at(handle, path)  # else the collector removed it meanwhile
            if kept:
                return handle
        except BlockingIOError:
            owner = _owner(handle)
            time.sleep(0.002 * trial)
        finally:
            if not kept:
                os.close(handle)
    raise StoreError(f"{path.parent} is open already, in {owner}")


def _open(path: Path, create: bool) -> int:
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | (os.O_CREAT if create else 0)
    return os.open(path, flags, FILE_MODE)


def is_at(handle: int, path: Path) -> bool:
    """Returns whether the open file still has this path."""
    try:
        return os.path.samestat(os.fstat(handle), os.lstat(path))
    except FileNotFoundError:
        return False


def _owner(handle: int) -> str:
    """Describes the process that holds the lock on an open file."""
    text = os.pread(handle, 20, 0)
    return f"process {int(text)}" if text.isdigit() else "another process"


@contextmanager
def unowned(path: Path) -> Iterator[bool]:
    """Yields whether no living process locks this path; it stays so until the context ends."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        yield False
        return
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield is_at(handle, path)
    finally:
        os.close(handle)


def owner_of(path: Path) -> int | None:
    """Pid of the lock's holder, 0 if it is not known yet, None if no process holds it."""
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


_waits = threading.local()


@contextmanager
def interruptible(check: Callable[[], None]) -> Iterator[None]:
    """Makes this thread's waits for locks call `check` often, which may raise to end them."""
    before = getattr(_waits, "check", None)
    _waits.check = check
    try:
        yield
    finally:
        _waits.check = before


def raise_if_interrupted() -> None:
    """Calls the check of `interruptible`; no effect outside of it."""
    check = getattr(_waits, "check", None)
    if check is not None:
        check()


@contextmanager
def waiting(path: Path, patience: float = PATIENCE) -> Iterator[None]:
    """Waits for a lock that others hold briefly, unless it is cancelled."""
    end = time.monotonic() + patience
    while True:
        raise_if_interrupted()
        try:
            lock = Lock(path)
            break
        except StoreError:
            if time.monotonic() > end:
                raise
            time.sleep(PAUSE)
    with lock:
        yield
