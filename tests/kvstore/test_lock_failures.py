"""What goes wrong while a lock is taken, or while one waits for it, leaves no lock behind."""

import errno
import fcntl
import os
import threading
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from tuskml.errors import Interrupted, StoreError
from tuskml.kvstore import ModelStore, Rules, StoreRoot, collect, files
from tuskml.partitioner import IndexMap

pytestmark = pytest.mark.fault(family="failing I/O")

INDEX = IndexMap.by_rule(4)
CALLS = {"ftruncate": os, "pwrite": os, "fstat": os, "flock": fcntl, "lstat": os}


def failing(monkeypatch: pytest.MonkeyPatch, call: str, code: int) -> list[str]:
    """The next call fails once, and the calls after it as ever; the call, once it has failed."""
    place, real = CALLS[call], getattr(CALLS[call], call)
    failed: list[str] = []

    def fail(*_: object, **__: object) -> None:
        failed.append(call)
        monkeypatch.setattr(place, call, real)
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(place, call, fail)
    return failed


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.ENOLCK])
@pytest.mark.parametrize("call", CALLS)
def test_a_lock_that_fails_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, code: int
) -> None:
    descriptors = len(os.listdir("/proc/self/fd"))
    failed = failing(monkeypatch, call, code)
    with suppress(OSError):
        files.Lock(tmp_path / "lock").release()
    monkeypatch.undo()
    assert failed == [call]
    files.Lock(tmp_path / "lock").release()
    assert files.owner_of(tmp_path / "lock") is None
    assert len(os.listdir("/proc/self/fd")) == descriptors


def test_a_full_disk_does_not_keep_the_collector_out(
    stores: StoreRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who cannot write a pid can still free space; nobody else is named as the owner."""
    stores.publish_weights("m", np.ones(3))
    stores.create("m", INDEX).close()
    path = stores.path / "m" / "lock"
    path.write_text("123456")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", full)
    with files.Lock(path):
        assert files.owner_of(path) == 0, "somebody, and not process 123456"
        with pytest.raises(StoreError, match="is open already, in this process"):
            files.Lock(path)
    assert len(collect(stores, rules=Rules(older_than=-9))) == 1
    assert stores.working("m") == []


@pytest.mark.parametrize("call", ["ftruncate", "pwrite", "fstat", "flock"])
def test_a_working_store_that_fails_can_be_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    with ModelStore.create(tmp_path / "store", INDEX) as store:
        store.checkpoint()
    failed = failing(monkeypatch, call, errno.EIO)
    with suppress(StoreError):
        ModelStore.resume(tmp_path / "store").close()
    monkeypatch.undo()
    assert failed == [call]
    ModelStore.resume(tmp_path / "store").close()


@pytest.mark.parametrize("step", ["shutil.rmtree", "os.rename", "os.fsync"])
def test_a_store_that_cannot_be_removed_lets_go_of_its_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    store = ModelStore.create(tmp_path / "store", INDEX)

    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patched:
        patched.setattr(step, fail)
        with pytest.raises(StoreError, match="Input/output error"):
            store.discard()
    found = [path for path in tmp_path.rglob("lock") if files.owner_of(path) is not None]
    assert found == []
    store.close()


# --- waiting ---


def test_waiting_ends_when_it_is_told_to(tmp_path: Path) -> None:
    """Else after its patience of thirty seconds, which is why this would take as long."""
    stopped = threading.Event()

    def check() -> None:
        if stopped.is_set():
            raise Interrupted("the training was interrupted")

    with files.Lock(tmp_path / "lock"):
        threading.Timer(0.2, stopped.set).start()
        began = time.monotonic()
        with (
            pytest.raises(Interrupted),
            files.interruptible(check),
            files.waiting(tmp_path / "lock"),
        ):
            pass
        assert time.monotonic() - began < 0.9 * files.PATIENCE
        with pytest.raises(StoreError), files.waiting(tmp_path / "lock", patience=0.05):
            pass  # outside of it nobody is asked


def test_what_interrupts_is_the_threads_own(tmp_path: Path) -> None:
    def check() -> None:
        raise Interrupted("the training was interrupted")

    taken = []

    def other() -> None:
        with files.waiting(tmp_path / "lock"):
            taken.append(True)

    with files.interruptible(check):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        with pytest.raises(Interrupted), files.waiting(tmp_path / "lock"):
            pass
    assert taken == [True]
