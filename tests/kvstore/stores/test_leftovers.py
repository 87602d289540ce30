"""What killed processes leave is found and removed, and nothing that a living one uses."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from tuskml.errors import StoreError
from tuskml.kvstore import ModelStore, Rules, StoreRoot, collect, database, measure_store, root
from tuskml.kvstore.files import Lock, write_record
from tuskml.partitioner import IndexMap

pytestmark = pytest.mark.fault(family="kills and power loss")

INDEX = IndexMap.by_rule(4)
KILLED = {
    "measuring": """
from tuskml.kvstore import database
database.Database.get = lambda *_: os.kill(os.getpid(), 9)
tuskml.kvstore.measure_store(root.path)
""",
    "writing a version's record": """
from tuskml.kvstore import files
real, files.os.replace = os.replace, None
files.os.replace = lambda a, b: os.kill(os.getpid(), 9) if "versions" in str(b) else real(a, b)
root.publish_weights("m", np.ones(3))
""",
    "writing the pointer": """
from tuskml.kvstore import files
real = os.replace
files.os.replace = lambda a, b: os.kill(os.getpid(), 9) if "current" in str(b) else real(a, b)
root.publish_weights("m", np.ones(3))
""",
    "sealing": """
def pairs():
    yield np.arange(3), np.ones(3)
    os.kill(os.getpid(), 9)
root.publish_pairs("m", pairs(), "float64")
""",
    "training": """
root.create("m", IndexMap.by_rule(4))
os.kill(os.getpid(), 9)
""",
    "removing its working store": """
from tuskml.kvstore import working
working.remove_tree = lambda path: os.kill(os.getpid(), 9)
root.create("m", IndexMap.by_rule(4)).discard()
""",
}
BEGIN = """
import os, sys, numpy as np, tuskml.kvstore
from tuskml.kvstore import StoreRoot
from tuskml.partitioner import IndexMap
root = StoreRoot(sys.argv[1])
"""


def killed_while(doing: str, root: StoreRoot) -> None:
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + KILLED[doing], str(root.path)], check=False
    )
    assert done.returncode == -9


def files(root: StoreRoot) -> set[Path]:
    """All there is but the sealed files and the locks, which are no leftovers."""
    found = {path.relative_to(root.path) for path in root.path.rglob("*") if not path.is_dir()}
    return {path for path in found if path.suffix != ".tusk" and path.name != "lock"}


@pytest.mark.parametrize("remover", ["the collector", "the next training"])
@pytest.mark.parametrize("doing", KILLED)
def test_what_is_left_goes(stores: StoreRoot, doing: str, remover: str) -> None:
    stores.publish_weights("m", np.zeros(3))
    before = files(stores)
    killed_while(doing, stores)
    left = files(stores) - before
    assert any(part.startswith(".") for path in left for part in path.parts) or "work" in str(left)
    if remover == "the collector":
        listed = collect(stores, "m", dry_run=True)
        assert files(stores) - before == left, "listing removes nothing"
        assert collect(stores, "m") == listed
        assert len(listed) == 1
    else:
        stores.create("m", INDEX).discard()
    again = files(stores) - before
    assert again <= {Path("m/versions/2")}, "a version that was written whole is no leftover"
    assert stores.version("m").number == 1
    assert collect(stores) == []


def test_what_is_in_use_stays(stores: StoreRoot, monkeypatch: pytest.MonkeyPatch) -> None:
    """A measurement, a seal and a training that run, while others collect and train."""
    stores.publish_weights("m", np.zeros(3))
    seen = []

    def others() -> None:
        other = [sys.executable, "-c", BEGIN + "print(len(tuskml.kvstore.collect(root)))"]
        done = subprocess.run(
            [*other, str(stores.path)], capture_output=True, text=True, check=True
        )
        seen.append(done.stdout.strip())
        collect(stores)
        stores.create("m", INDEX).discard()

    def pairs():
        others()
        yield np.arange(3), np.ones(3)

    real = database.measure_cost

    def measuring(*given: object, **more: object) -> object:
        others()
        return real(*given, **more)

    monkeypatch.setattr(database, "measure_cost", measuring)
    with stores.create("m", INDEX) as store:
        store.put([0], np.ones((1, 4), np.float32))
        measure_store(stores.path, most=1 << 10)
        stores.publish_pairs("m", pairs(), "float64")
        assert store.get([0]).tolist() == [[1] * 4]
    assert seen == ["0", "0"]


@pytest.mark.nightly
def test_collecting_beside_trainings_never_fails(stores: StoreRoot) -> None:
    """Working stores appear and go while the collector looks at them."""
    stores.publish_weights("m", np.zeros(3))
    over = threading.Event()
    failed: list[BaseException] = []

    def train() -> None:
        try:
            while not over.is_set():
                store = stores.create("m", INDEX)
                store.checkpoint()
                store.discard()
        except BaseException as error:
            failed.append(error)
            raise

    threads = [threading.Thread(target=train) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(150):
            collect(stores, rules=Rules(older_than=-9))
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert failed == []
    assert list((stores.path / "m" / "work").iterdir()) == []


def test_a_lock_file_is_not_made_in_a_store_that_goes(stores: StoreRoot, monkeypatch) -> None:
    """The collector that came between two steps of a removal kept it from ending."""
    store = stores.create("m", INDEX)
    store.checkpoint()
    real = os.rename

    def rename(old: Path, new: Path) -> None:
        real(old, new)
        assert collect(stores, rules=Rules(older_than=-9)) == [] or not Path(new).exists()

    monkeypatch.setattr(os, "rename", rename)
    store.discard()
    assert list((stores.path / "m" / "work").iterdir()) == []


def test_errors_inside_a_locked_store_are_not_the_locks(stores: StoreRoot) -> None:
    from tuskml.kvstore import versions

    stores.publish_weights("m", np.ones(3))
    folder = stores.path / "m"
    with pytest.raises(FileNotFoundError), versions.lock_versions(folder):
        (folder / "nothing").read_bytes()
    with versions.lock_versions(folder):
        write_record(folder / "again", {"kind": "x"})


def test_a_store_that_is_closed_is_resumed_and_kept(stores: StoreRoot) -> None:
    with stores.create("m", INDEX) as store:
        store.checkpoint()
    stores.create("m", INDEX).discard()
    assert collect(stores) == []
    with stores.resume("m") as store, pytest.raises(StoreError, match="is open already"):
        ModelStore.resume(store.path)


@pytest.mark.parametrize("remover", ["gc", "the next training"])
def test_a_first_checkpoint_made_meanwhile_is_kept(
    stores: StoreRoot, monkeypatch: pytest.MonkeyPatch, remover: str
) -> None:
    """Its owner checkpoints and ends between the look for a checkpoint and the lock."""
    store = stores.create("m", INDEX)
    real, left = root.Lock, [store]

    def lock(path: Path, *more: bool) -> Lock:
        if path.parent == store.path and left:
            left.pop().checkpoint({"epoch": 1})
            store.close()
        return real(path, *more)

    monkeypatch.setattr(root, "Lock", lock)
    if remover == "gc":
        assert collect(stores) == []
    else:
        stores.create("m", INDEX).discard()
    with stores.resume("m") as resumed:
        assert resumed.path == store.path
        assert resumed.last_checkpoint is not None
