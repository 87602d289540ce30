"""Garbage collection of stores."""

import os
import time
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from tuskml.errors import StoreError
from tuskml.kvstore.files.files import TEMPORARY, remove_tree, reporting, size_of, sync_directory
from tuskml.kvstore.files.locks import Lock
from tuskml.kvstore.roots import leftovers, versions
from tuskml.kvstore.roots.inspection import stores_of
from tuskml.kvstore.roots.names import Reference
from tuskml.kvstore.roots.root import StoreRoot
from tuskml.kvstore.roots.versions import Version
from tuskml.kvstore.working import working

DAY = 86_400.0


@dataclass(frozen=True)
class Removed:
    """A removed item, or one that would be.

    why: one of a few fixed texts; size: in bytes.
    """

    path: Path
    why: str
    size: int


@dataclass(frozen=True)
class Rules:
    """Rules of a collection.

    older_than: seconds; younger sealed files and working stores stay. keep: newest versions of
    each lineage to keep in addition to the live one; None keeps all. trainings: number of the
    newest trainings whose versions stay, whatever their lineage; None: all. spare: references of
    models, which stay. only: items that may be removed, None for all.
    """

    older_than: float = DAY
    keep: int | None = None
    trainings: int | None = None
    spare: Collection[str] = ()
    only: Collection[Path] | None = None

    def __post_init__(self) -> None:
        if self.keep is not None and self.keep < 0:
            raise StoreError(f"keep must be at least 0, got {self.keep}")
        if self.trainings is not None and self.trainings < 1:
            raise StoreError(f"trainings must be at least 1, got {self.trainings}")

    @property
    def spared(self) -> set[str]:
        """First 16 digits of the digests of the spared models."""
        digests = (Reference.parse(text).digest for text in self.spare)
        return {digest for digest in digests if digest is not None}


def collect(
    root: StoreRoot,
    name: str | None = None,
    rules: Rules = Rules(),
    *,
    dry_run: bool = False,
) -> list[Removed]:
    """Removes, of one name or all: versions that the rules do not keep; sealed files that no
    version names and that are older than a given number of seconds; what processes left that were
    killed; working stores that no process has open and that are older than that.

    A version of format 1, whose record does not say its training, is never forgotten: it may be
    the model of a group. dry_run: only says what would be removed.
    """
    removed: list[Removed] = []
    with reporting("collecting garbage"):
        for part in root.parts():
            removed += _remove_all(leftovers.in_root(part.path), rules, dry_run)
        for part, each in stores_of(root, name):
            folder = part.path / each
            with versions.locked(folder):
                removed += _remove_all(_found_in(folder, rules), rules, dry_run)
    return removed


def _remove_all(found: Iterator[leftovers.Leftover], rules: Rules, dry_run: bool) -> list[Removed]:
    removed = []
    for path, why in found:  # each item is locked until the next is requested
        if rules.only is None or path in rules.only:
            removed.append(Removed(path, why, size_of(path)))
            if not dry_run:
                remove_tree(path)
    return removed


def _found_in(folder: Path, rules: Rules) -> Iterator[leftovers.Leftover]:
    """Yields the garbage of one store, whose lock is held.

    A damaged record of a version stops it: it may name any of the files.
    """
    known = [versions.read(folder, number) for number in versions.numbers(folder)]
    current = None
    if os.path.lexists(folder / versions.CURRENT):
        current = versions.read(folder, None)
    elif known and (rules.keep is not None or rules.trainings is not None):
        versions.read(folder, None)  # raises if the pointer is missing
    gone = _forgotten(known, current, rules)
    if rules.only is not None:
        gone = {n: why for n, why in gone.items() if folder / "versions" / str(n) in rules.only}
    for number, why in gone.items():
        yield folder / "versions" / str(number), why
    if gone:
        sync_directory(folder / "versions")
    digests = {each.digest for each in known if each.number not in gone}
    if current is not None:
        digests.add(current.digest)
    before = time.time() - rules.older_than
    yield from _sealed_files(folder, digests, before, rules.spared)
    yield from leftovers.in_store(folder)
    yield from _old_working_stores(folder, before)


# --- versions ---


def _forgotten(known: list[Version], current: Version | None, rules: Rules) -> dict[int, str]:
    """Reasons to forget versions that the rules do not keep, by number."""
    alive = current.number if current else 0
    recorded = [each for each in known if each.origin is not None]
    dropped: dict[int, str] = {}
    if rules.keep is not None:
        for lineage in lineages(recorded):
            for each in _superseded(lineage, alive, rules.keep):
                dropped[each.number] = "newer versions of its lineage took its place"
    if rules.trainings is not None:
        newest = list(dict.fromkeys(_training(each) for each in reversed(recorded)))
        for each in recorded:
            if _training(each) not in newest[: rules.trainings] and each.number != alive:
                dropped[each.number] = "newer trainings took its place"
    spared = {each.number for each in recorded if each.digest[:16] in rules.spared}
    return {number: why for number, why in sorted(dropped.items()) if number not in spared}


def _training(version: Version) -> str:
    assert version.origin is not None
    return version.origin.training


def lineages(known: list[Version]) -> list[list[Version]]:
    """Groups versions that replace each other, rising; each group has one live version.

    If no training made more than one, all versions of the name are one lineage. If one statement
    trained several groups under the name, the group of a later version is unknown: then only a
    warm start continues a lineage.
    """
    times = Counter(_training(each) for each in known)
    origins = [each.origin for each in known if each.origin is not None]
    grouped = max(times.values(), default=0) > 1 or any(each.ordinal > 1 for each in origins)
    if not grouped:
        return [known] if known else []
    by_lineage: dict[int, list[Version]] = {}
    for each, origin in zip(known, origins, strict=True):
        by_lineage.setdefault(origin.lineage, []).append(each)
    return list(by_lineage.values())


def _superseded(lineage: list[Version], current: int, keep: int) -> list[Version]:
    """Versions that may go: all but the live one (current or else newest) and the `keep`
    newest.
    """
    others = [each for each in lineage if each.number != current]
    n_kept = keep if len(others) < len(lineage) else keep + 1
    return others[: max(0, len(others) - n_kept)]


# --- files ---


def _sealed_files(
    folder: Path, kept: set[str], before: float, spared: set[str]
) -> Iterator[leftovers.Leftover]:
    for path in sorted((folder / "sealed").iterdir()):
        named = path.stem in kept or path.stem[:16] in spared
        new = path.name.startswith(TEMPORARY)
        if not named and not new and _changed(path) < before:
            yield path, "no version names it"


def _old_working_stores(folder: Path, before: float) -> Iterator[leftovers.Leftover]:
    for path in sorted((folder / "work").iterdir()):
        if path.name.startswith(".") or not leftovers.has_checkpoint(path):
            continue
        try:
            lock = Lock(path / working.LOCK, create=False)
        except (StoreError, FileNotFoundError, NotADirectoryError):
            continue  # it is in use, or was removed meanwhile
        with lock:
            if _changed(path / working.CHECKPOINTS) < before:
                yield path, "its owner is gone and it is old"


def _changed(path: Path) -> float:
    """Time of the last write of a file, or of the last checkpoint; infinite once it is removed."""
    try:
        return path.lstat().st_mtime
    except FileNotFoundError:
        return float("inf")
