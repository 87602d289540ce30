"""Files of killed processes that no process will use again."""

import os
from collections.abc import Iterator
from pathlib import Path

from tuskml.errors import StoreError
from tuskml.kvstore.files.files import TEMPORARY, remove_tree
from tuskml.kvstore.files.locks import Lock, unowned
from tuskml.kvstore.working import working
from tuskml.kvstore.working.probe import PREFIX

Leftover = tuple[Path, str]
"""A path and the reason why it is of no use."""


def in_root(root: Path) -> Iterator[Leftover]:
    """Yields unfinished measurements."""
    for path in _entries(root):
        if path.name.startswith(PREFIX):
            with unowned(path) as unlocked:
                if unlocked:
                    yield path, "a measurement that ended halfway"


def in_store(folder: Path) -> Iterator[Leftover]:
    """Yields leftovers of one store, whose lock the caller holds, so that no record changes."""
    for path in [*_entries(folder), *_entries(folder / "versions")]:
        if path.name.startswith(TEMPORARY):
            yield path, "a record that was written halfway"
    for path in _entries(folder / "sealed"):
        if path.name.startswith(TEMPORARY):
            with unowned(path) as unlocked:
                if unlocked:
                    yield path, "a seal that ended halfway"
    yield from _in_work(folder / "work")


def _in_work(work: Path) -> Iterator[Leftover]:
    for path in _entries(work):
        if path.name.startswith(working.GONE):
            yield path, "a working store whose removal ended halfway"
        elif not has_checkpoint(path):
            try:
                lock = Lock(path / working.LOCK)
            except (StoreError, FileNotFoundError, NotADirectoryError):
                continue  # it is in use, or removed by now
            with lock:
                # its owner may have made a checkpoint just before unlocking
                if not has_checkpoint(path):
                    yield path, "its owner is gone and it has no checkpoint"


def has_checkpoint(path: Path) -> bool:
    """Returns whether a working store can be resumed."""
    return any(part.name.isdigit() for part in _entries(path / working.CHECKPOINTS))


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(Path(entry.path) for entry in os.scandir(folder))
    # running trainings may remove files at any time
    except (FileNotFoundError, NotADirectoryError):
        return []


def sweep(root: Path, folder: Path) -> None:
    """Removes all leftovers of the root and of one store, whose lock the caller holds."""
    for leftovers in (in_root(root), in_store(folder)):
        for path, _ in leftovers:  # each is locked until the next is requested
            remove_tree(path)
