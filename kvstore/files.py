import errno
import fcntl
import json
import os
import secrets
import shutil
import stat
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from tuskml.errors import OF_SYSTEM, StoreError, system_errno
from tuskml.kvstore.native import crc32c

MAGIC = b"TUSKREC\x01"
HEAD = struct.Struct("<8sII")
LARGEST_RECORD = 1 << 30
DIRECTORY_MODE, FILE_MODE = 0o700, 0o600
CHUNK = 1 << 22
TEMPORARY = ".new-"
"""Prefix of the names of incomplete files."""
Record = dict[str, Any]


def file_error(doing: str, error: OSError) -> StoreError:
    """A StoreError for an OSError, in one sentence, with its SQLSTATE."""
    where = f" {error.filename}" if error.filename else ""
    store_error = StoreError(f"{doing}{where} failed: {error.strerror or error}")
    if number := system_errno(error):
        store_error.sqlstate = OF_SYSTEM[number][0]
    return store_error


@contextmanager
def reporting(doing: str) -> Iterator[None]:
    """Turns OSErrors into StoreErrors."""
    try:
        yield
    except OSError as error:
        raise file_error(doing, error) from error


def sync_directory(path: Path) -> None:
    """Makes the directory's entries survive a loss of power."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def make_directory(path: Path) -> Path:
    """Creates the directory for its owner only; an existing one is fine unless it is a link."""
    try:
        path.mkdir(mode=DIRECTORY_MODE)
    except FileExistsError:
        if not stat.S_ISDIR(path.lstat().st_mode):
            raise StoreError(f"{path} is not a directory") from None
    else:
        sync_directory(path.parent)
    return path


def remove_tree(path: Path) -> None:
    """Removes a file or a directory tree, even while others remove parts of it."""
    try:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, onerror=_unless_gone)
        else:
            path.unlink(missing_ok=True)
    except FileNotFoundError:
        return


def _unless_gone(_: object, __: str, raised: Any) -> None:
    error = raised[1]
    if not isinstance(error, FileNotFoundError):
        raise error


def open_plain(path: Path) -> BinaryIO:
    """Opens a plain file for reading; rejects links and anything else."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        raise StoreError(f"{path} is missing") from None
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise StoreError(f"{path} is a link, which a store does not follow") from None
        raise file_error("opening", error) from error
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise StoreError(f"{path} is not a plain file")
    return os.fdopen(handle, "rb")


def temporary(beside: Path) -> Path:
    """A new name in the same directory; after a crash the collector removes files with its
    prefix.
    """
    return beside.parent / f"{TEMPORARY}{secrets.token_hex(8)}"


def create(path: Path) -> BinaryIO:
    """Creates a new file for writing, for its owner only."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.fdopen(os.open(path, flags, FILE_MODE), "wb")


def write_record(path: Path, record: Record, attachment: bytes = b"") -> None:
    """Replaces a record atomically: after a crash the file has the old record or the new one."""
    text = json.dumps(record, sort_keys=True, allow_nan=False).encode()
    body = struct.pack("<I", len(text)) + text + attachment
    new = temporary(path)
    try:
        with create(new) as file:
            file.write(MAGIC + struct.pack("<I", crc32c(body)) + body)
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def read_record(path: Path, kind: str) -> tuple[Record, bytes]:
    """Reads a record and its attachment. Raises StoreError if it is missing, damaged, or of
    another kind.
    """
    with open_plain(path) as file:
        if os.fstat(file.fileno()).st_size > LARGEST_RECORD:
            raise StoreError(f"{path} is too large for a record")
        data = file.read()
    if data[:7] != MAGIC[:7]:
        raise StoreError(f"{path} is no record of a store")
    if data[:8] != MAGIC:
        raise StoreError(f"{path} has version {data[7:8].hex() or 'none'}, this tuskml reads 01")
    if len(data) < HEAD.size or crc32c(data[12:]) != HEAD.unpack_from(data)[1]:
        raise StoreError(f"{path} is damaged: its checksum is wrong")
    end = HEAD.size + HEAD.unpack_from(data)[2]
    record = parse(data[HEAD.size : end], path)
    if record.get("kind") != kind:
        raise StoreError(f"{path} is a record of kind {record.get('kind')}, expected {kind}")
    return record, data[end:]


def parse(text: bytes, path: Path) -> Record:
    """Parses a JSON object. Raises StoreError for anything else."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise StoreError(f"{path} is damaged: it holds no JSON object")
    return value


def copy_metadata(metadata: "Record | None", limit: int = 1 << 24) -> Record:
    """Copies a JSON object by a round trip through text. Raises StoreError if it is invalid."""
    try:
        text = json.dumps(metadata or {}, allow_nan=False)
        value = json.loads(text)
    except (TypeError, ValueError, RecursionError) as error:
        raise StoreError(f"metadata must be a JSON object: {error}") from None
    if not isinstance(value, dict) or len(text) > limit:
        raise StoreError(f"metadata must be a JSON object of at most {limit} bytes of text")
    return value


def file_crc(path: Path, sync: bool = False) -> tuple[int, int]:
    """CRC-32C and size of a file, after an fsync if `sync`."""
    crc = size = 0
    with open_plain(path) as file:
        if sync:
            os.fsync(file.fileno())
        while data := file.read(CHUNK):
            crc, size = crc32c(data, crc), size + len(data)
    return crc, size


def size_of(path: Path) -> int:
    """Bytes of a file, or of all files below a directory; linked files count once."""
    if path.is_symlink() or not path.is_dir():
        try:
            return path.lstat().st_size
        except FileNotFoundError:
            return 0
    seen = {}
    for folder, _, names in os.walk(path):
        for name in names:
            try:
                status = os.lstat(os.path.join(folder, name))
            except FileNotFoundError:  # a running store may remove files at any time
                continue
            seen[status.st_dev, status.st_ino] = status.st_size
    return sum(seen.values())


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
def check_unowned(path: Path) -> Iterator[bool]:
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
