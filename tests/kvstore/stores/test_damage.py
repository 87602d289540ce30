"""Flipped, cut, missing and swapped bytes of every file: the same model or a StoreError."""

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tuskml.errors import StoreError
from tuskml.kvstore import ModelStore, StoreRoot
from tuskml.partitioner import IndexMap

pytestmark = pytest.mark.fault(family="damaged files")

FLIPS = 80
"""Of each file, as many flips, evenly spread."""
INDEX = IndexMap([2, 77], [0, 0], 64)
WEIGHTS = np.random.default_rng(0).standard_normal(9000)
WEIGHTS[3000:6000] *= np.random.default_rng(1).random(3000) < 0.1


@pytest.fixture
def root(stores: StoreRoot) -> StoreRoot:
    """A store with two versions and a working store with a checkpoint of tables and a log."""
    stores.publish_weights("m", WEIGHTS + 1)
    with stores.create("m", INDEX, "float64", warm_start="m") as store:
        store.checkpoint({"epoch": 1})
        for part in np.split(np.arange(9000), 9):
            store.add_weights(part, np.full(1000, -1.0))
        store.checkpoint({"epoch": 2})
    stores.publish_weights("m", WEIGHTS)
    return stores


def predicts(root: StoreRoot) -> bool:
    """Whether the current model can be read, and then it must be the right one."""
    try:
        with root.open("m") as model:
            found = model.weights(np.arange(9000))
    except StoreError:
        return False
    assert found.tobytes() == WEIGHTS.tobytes(), "another model"
    return True


def resumes(root: StoreRoot) -> bool:
    """Whether training can go on, and then from the right weights."""
    (path,) = root.working("m")
    copy = root.path.parent / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(path, copy)
    try:
        with ModelStore.resume(copy) as store:
            assert store.last_checkpoint.metadata == {"epoch": 2}
            found = store.weights(np.arange(9000))
    except StoreError:
        return False
    assert found.tobytes() == ((WEIGHTS + 1) - 1).tobytes(), "another model"
    return True


def files_of(root: StoreRoot) -> dict[str, Path]:
    """A file of each kind."""
    (work,) = root.working("m")
    checkpoint = work / "checkpoints" / "3"
    current = root.version("m")
    return {
        "sealed": current.path(root.path / "m"),
        "current": root.path / "m" / "current",
        "version": root.path / "m" / "versions" / "2",
        "store": work / "store",
        "record": checkpoint / "record",
        "CURRENT": checkpoint / "CURRENT",
        "MANIFEST": next(checkpoint.glob("MANIFEST-*")),
        "table": next(checkpoint.glob("*.ldb")),
        "log": next(checkpoint.glob("*.log")),
    }


KINDS: dict[str, Callable[[StoreRoot], bool]] = {
    "sealed": predicts, "current": predicts, "version": predicts, "store": resumes,
    "record": resumes, "CURRENT": resumes, "MANIFEST": resumes, "table": resumes, "log": resumes,
}  # fmt: skip


@pytest.mark.sample(1)
@pytest.mark.parametrize("kind", KINDS)
def test_flips_and_cuts_of_every_file(root: StoreRoot, kind: str) -> None:
    path, works = files_of(root)[kind], KINDS[kind]
    assert works(root)
    whole = path.read_bytes()
    survived = 0
    step = max(1, len(whole) // FLIPS)
    for number, place in enumerate(range(0, len(whole), step)):
        spoiled = bytearray(whole)
        spoiled[place] ^= 1 << number % 8
        path.write_bytes(spoiled)
        survived += works(root)
    assert survived == (len(range(0, len(whole), step)) if kind == "version" else 0)
    for length in {*range(0, len(whole), len(whole) // 20 + 1), len(whole) - 1}:
        path.write_bytes(whole[:length])
        assert not works(root) or kind == "version"
    path.write_bytes(whole + b"\0")
    assert not works(root) or kind == "version"
    path.unlink()
    assert not works(root) or kind == "version"
    path.write_bytes(whole)
    assert works(root)


def test_the_current_version_needs_no_record_of_its_own(root: StoreRoot) -> None:
    files_of(root)["version"].write_bytes(b"")
    assert predicts(root)
    with pytest.raises(StoreError, match="m/versions/2 is no record"):
        root.open("m@2")


def test_swapped_files_are_refused(root: StoreRoot) -> None:
    folder = root.path / "m"
    first, second = (root.version(f"m@{n}").path(folder) for n in (1, 2))
    swap(first, second)
    for reference in ("m@1", "m@2", "m"):
        with pytest.raises(StoreError, match="another model"):
            root.open(reference)
    swap(first, second)
    swap(folder / "versions" / "1", folder / "versions" / "2")
    for reference in ("m@1", "m@2"):
        with pytest.raises(StoreError, match="is of another model"):
            root.open(reference)
    root.publish_weights("other", np.ones(9000))
    swap(folder / "current", root.path / "other" / "current")
    for reference in ("m", "other"):
        with pytest.raises(StoreError, match="is of another model"):
            root.open(reference)


def test_a_checkpoint_of_another_store_is_refused(root: StoreRoot) -> None:
    with root.create("m", INDEX, "float64", warm_start="m@1"):
        pass
    first, second = root.working("m")
    (first / "checkpoints" / "3").rename(first / "checkpoints" / "1")
    swap(first / "checkpoints" / "1", second / "checkpoints" / "1")
    for path in (first, second):
        with pytest.raises(StoreError, match="is a checkpoint of another store"):
            ModelStore.resume(path)


def swap(left: Path, right: Path) -> None:
    aside = left.with_name("aside")
    left.rename(aside)
    right.rename(left)
    aside.rename(right)


def test_another_version_of_the_format(root: StoreRoot) -> None:
    path = files_of(root)["current"]
    path.write_bytes(path.read_bytes().replace(b"TUSKREC\x01", b"TUSKREC\x02"))
    with pytest.raises(StoreError, match="has version 02, this tuskml reads 01"):
        root.open("m")
    root.make_current("m@2")
    assert predicts(root)


def test_a_missing_pointer_is_said_and_healed(root: StoreRoot) -> None:
    files_of(root)["current"].unlink()
    with pytest.raises(StoreError, match="is missing: name one of the versions 1, 2"):
        root.open("m")
    root.make_current("m@2")
    assert predicts(root)
