"""Listing, verification and garbage collection of the stores of a root."""

import os
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tuskml.errors import StoreError
from tuskml.kvstore import checkpoints, versions, working
from tuskml.kvstore.access import Reference, folder_of
from tuskml.kvstore.files import (
    TEMPORARY,
    Lock,
    read_record,
    remove_tree,
    reporting,
    size_of,
    sync_directory,
)
from tuskml.kvstore.root import (
    Leftover,
    StoreRoot,
    has_checkpoint,
    leftovers_in_root,
    leftovers_in_store,
)
from tuskml.kvstore.versions import Version

Facts = dict[str, Any]


def list_stores(root: StoreRoot, name: str | None = None) -> list[Facts]:
    """A dict for each version and working store of one name or all.

    Versions: name, version, current, created, dimension, nonzero, size, digest, origin and owner
    (objects, or None where the record does not say); working stores: name, working, owner (a pid,
    0 unknown, None if no process has it), checkpoint (its number or None), size. What
    cannot be read has `error` instead.
    """
    facts: list[Facts] = []
    for part, each in stores_of(root, name):
        facts += _versions(part, each)
        facts += _working(part, each)
    return facts


def stores_of(root: StoreRoot, name: str | None) -> list[tuple[StoreRoot, str]]:
    """All stores of a root and of the owners' roots below it, or those of one name.

    Raises UnknownStore if no store has that name.
    """
    stores = [(part, each) for part in root.parts() for each in part.names()]
    if name is None:
        return stores
    return [each for each in stores if each[1] == name] or [
        (root, folder_of(root.path, name).name)
    ]


def _versions(root: StoreRoot, name: str) -> Iterator[Facts]:
    folder = folder_of(root.path, name)
    try:
        current = versions.read(folder, None).number
    except StoreError:
        current = 0
    for number in root.versions(name):
        try:
            facts = asdict(versions.read(folder, number))
        except StoreError as error:
            yield {"name": name, "version": number, "error": str(error)}
            continue
        del facts["number"]
        yield {"name": name, "version": number, "current": number == current} | facts


def _working(root: StoreRoot, name: str) -> Iterator[Facts]:
    for path in root.working(name):
        facts: Facts = {"name": name, "working": path.name}
        try:
            last = _checkpoint_of(path)
        except StoreError as error:
            yield facts | {"error": str(error)}
            continue
        number = last.number if last else None
        yield facts | {
            "owner": root.owner(path),
            "checkpoint": number,
            "size": size_of(path),
        }


def _checkpoint_of(path: Path) -> checkpoints.Checkpoint | None:
    with reporting("reading a working store"):
        record, _ = read_record(path / working.RECORD, working.KIND)
        return checkpoints.latest(path / working.CHECKPOINTS, record["store"])


def verify_stores(root: StoreRoot, name: str | None = None) -> Iterator[Facts]:
    """Verifies all bytes of the models of one name or of all; yields dicts with name, what, ok,
    error.

    what: a version's reference, a working store's checkpoint, or the pointer to the current
    version. Checkpoints of open stores are skipped.
    """
    for part, each in stores_of(root, name):
        yield from _verify(part, each)


def _verify(root: StoreRoot, name: str) -> Iterator[Facts]:
    folder = folder_of(root.path, name)
    for number in root.versions(name):
        reference = f"{name}@{number}"
        yield _try(name, reference, partial(_read_all, root, reference))
    if root.versions(name) or os.path.lexists(folder / versions.CURRENT):
        yield _try(name, f"{name}, current", partial(root.version, name))
    for path in root.working(name):
        if root.owner(path) is None:
            yield _try(name, f"{name}, {path.name}", partial(_verify_working, path))


def _try(name: str, what: str, look: Callable[[], object]) -> Facts:
    try:
        look()
    except StoreError as error:
        return {"name": name, "what": what, "ok": False, "error": str(error)}
    return {"name": name, "what": what, "ok": True, "error": None}


def _read_all(root: StoreRoot, reference: str) -> None:
    with root.open(reference) as model:
        model.verify()


def _verify_working(path: Path) -> None:
    last = _checkpoint_of(path)
    if last is not None:
        with reporting("reading a checkpoint"):
            checkpoints.verify(last)


DAY = 86_400.0


@dataclass(frozen=True)
class RemovedItem:
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
    def prefixes_to_spare(self) -> set[str]:
        """First 16 digits of the digests of the spared models."""
        digests = (Reference.parse(text).digest for text in self.spare)
        return {digest for digest in digests if digest is not None}


def collect(
    root: StoreRoot,
    name: str | None = None,
    rules: Rules = Rules(),
    *,
    dry_run: bool = False,
) -> list[RemovedItem]:
    """Removes, of one name or all: versions that the rules do not keep; sealed files that no
    version names and that are older than a given number of seconds; what processes left that were
    killed; working stores that no process has open and that are older than that.

    A version of format 1, whose record does not say its training, is never forgotten: it may be
    the model of a group. dry_run: only says what would be removed.
    """
    removed: list[RemovedItem] = []
    with reporting("collecting garbage"):
        for part in root.parts():
            removed += _remove_all(leftovers_in_root(part.path), rules, dry_run)
        for part, each in stores_of(root, name):
            folder = part.path / each
            with versions.lock_versions(folder):
                removed += _remove_all(_find_garbage(folder, rules), rules, dry_run)
    return removed


def _remove_all(found: Iterator[Leftover], rules: Rules, dry_run: bool) -> list[RemovedItem]:
    removed = []
    for path, why in found:  # each item is locked until the next is requested
        if rules.only is None or path in rules.only:
            removed.append(RemovedItem(path, why, size_of(path)))
            if not dry_run:
                remove_tree(path)
    return removed


def _find_garbage(folder: Path, rules: Rules) -> Iterator[Leftover]:
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
    yield from _find_sealed_files(folder, digests, before, rules.prefixes_to_spare)
    yield from leftovers_in_store(folder)
    yield from _old_working_stores(folder, before)


# --- versions ---


def _forgotten(known: list[Version], current: Version | None, rules: Rules) -> dict[int, str]:
    """Reasons to forget versions that the rules do not keep, by number."""
    alive = current.number if current else 0
    recorded = [each for each in known if each.origin is not None]
    dropped: dict[int, str] = {}
    if rules.keep is not None:
        for lineage in lineages(recorded):
            for each in _removable_versions(lineage, alive, rules.keep):
                dropped[each.number] = "newer versions of its lineage took its place"
    if rules.trainings is not None:
        newest = list(dict.fromkeys(_training(each) for each in reversed(recorded)))
        for each in recorded:
            if _training(each) not in newest[: rules.trainings] and each.number != alive:
                dropped[each.number] = "newer trainings took its place"
    spared = {each.number for each in recorded if each.digest[:16] in rules.prefixes_to_spare}
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


def _removable_versions(lineage: list[Version], current: int, keep: int) -> list[Version]:
    """Versions that may go: all but the live one (current or else newest) and the `keep`
    newest.
    """
    others = [each for each in lineage if each.number != current]
    n_kept = keep if len(others) < len(lineage) else keep + 1
    return others[: max(0, len(others) - n_kept)]


# --- files ---


def _find_sealed_files(
    folder: Path, kept: set[str], before: float, spared: set[str]
) -> Iterator[Leftover]:
    for path in sorted((folder / "sealed").iterdir()):
        named = path.stem in kept or path.stem[:16] in spared
        new = path.name.startswith(TEMPORARY)
        if not named and not new and _last_change(path) < before:
            yield path, "no version names it"


def _old_working_stores(folder: Path, before: float) -> Iterator[Leftover]:
    for path in sorted((folder / "work").iterdir()):
        if path.name.startswith(".") or not has_checkpoint(path):
            continue
        try:
            lock = Lock(path / working.LOCK, create=False)
        except (StoreError, FileNotFoundError, NotADirectoryError):
            continue  # it is in use, or was removed meanwhile
        with lock:
            if _last_change(path / working.CHECKPOINTS) < before:
                yield path, "its owner is gone and it is old"


def _last_change(path: Path) -> float:
    """Time of the last write of a file, or of the last checkpoint; infinite once it is removed."""
    try:
        return path.lstat().st_mtime
    except FileNotFoundError:
        return float("inf")
