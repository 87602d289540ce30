"""What no longer serves anybody: how it is found and removed."""

import fcntl
import os
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from tuskml.errors import StoreError
from tuskml.kvstore import versions, working
from tuskml.kvstore.files import reporting
from tuskml.kvstore.locks import Lock
from tuskml.kvstore.names import folder_of
from tuskml.kvstore.root import StoreRoot

DAY = 86_400.0


@dataclass(frozen=True)
class Removed:
    """Something that was removed. why: one of a few fixed texts; size: bytes freed."""

    path: Path
    why: str
    size: int


def collect(
    root: StoreRoot, name: str | None = None, older_than: float = DAY, keep: int | None = None
) -> list[Removed]:
    """Removes, below one name or all: sealed files that no version names and that are older than
    so many seconds; files of seals that ended halfway; working stores that nobody has open and
    that have no checkpoint, or are older than that.

    keep: versions to keep besides the current one, the newest; None keeps all.
    """
    if keep is not None and keep < 0:
        raise StoreError(f"keep must be at least 0, got {keep}")
    removed: list[Removed] = []
    for each in [name] if name is not None else root.names():
        folder = folder_of(root.path, each)
        with reporting("collecting garbage"), versions.locked(folder):
            before = time.time() - older_than
            if keep is not None:
                _prune(folder, keep)
            removed += _sealed_files(folder, before)
            removed += _working_stores(folder, before)
    return removed


def _prune(folder: Path, keep: int) -> None:
    """Forgets all versions but the current one and so many of the newest."""
    found = versions.numbers(folder)
    if not found:
        return
    current = versions.read(folder, None).number
    for number in [n for n in found if n != current][: max(0, len(found) - 1 - keep)]:
        (folder / "versions" / str(number)).unlink()


def _sealed_files(folder: Path, before: float) -> list[Removed]:
    """Files that no version names. A damaged record stops this: it may name any of them."""
    kept = {versions.read(folder, number).digest for number in versions.numbers(folder)}
    if os.path.lexists(folder / versions.CURRENT):
        kept.add(versions.read(folder, None).digest)
    removed = []
    for path in sorted((folder / "sealed").iterdir()):
        if path.name.startswith(".new-"):
            if not _is_being_written(path):
                removed.append(_remove(path, "a seal that ended halfway"))
        elif path.stem not in kept and path.lstat().st_mtime < before:
            removed.append(_remove(path, "no version names it"))
    return removed


def _is_being_written(path: Path) -> bool:
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def _working_stores(folder: Path, before: float) -> list[Removed]:
    removed = []
    for path in sorted((folder / "work").iterdir()):
        try:
            lock = Lock(path / working.LOCK)
        except StoreError:
            continue
        with lock:
            if not _has_checkpoint(path):
                removed.append(_remove(path, "its owner is gone and it has no checkpoint"))
            elif _newest(path) < before:
                removed.append(_remove(path, "its owner is gone and it is old"))
    return removed


def _has_checkpoint(path: Path) -> bool:
    folder = path / working.CHECKPOINTS
    return folder.is_dir() and any(part.name.isdigit() for part in folder.iterdir())


def _newest(path: Path) -> float:
    """When a checkpoint was last made."""
    return (path / working.CHECKPOINTS).stat().st_mtime


def _remove(path: Path, why: str) -> Removed:
    size = size_of(path)
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()
    return Removed(path, why, size)


def size_of(path: Path) -> int:
    """Bytes of a file, or of all files below a directory, linked ones once."""
    if path.is_symlink() or not path.is_dir():
        return path.lstat().st_size
    seen = {}
    for folder, _, names in os.walk(path):
        for name in names:
            try:
                status = os.lstat(os.path.join(folder, name))
            except FileNotFoundError:  # a running store removes files as it likes
                continue
            seen[status.st_dev, status.st_ino] = status.st_size
    return sum(seen.values())
