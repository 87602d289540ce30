"""One owner at a time: in one process, in two, across fork, after death."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from tuskml.errors import StoreError
from tuskml.kvstore import ModelStore, StoreRoot, files
from tuskml.partitioner import IndexMap

pytestmark = pytest.mark.fault(family="concurrency")

INDEX = IndexMap.by_rule(4)
HOLD = """
import sys
from tuskml.kvstore import ModelStore
try:
    store = ModelStore.resume(sys.argv[1])
except Exception as error:
    print(error, flush=True)
else:
    print("open", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A closed store with a checkpoint."""
    with ModelStore.create(tmp_path / "store", INDEX) as store:
        store.put([0], np.ones((1, 4), np.float32))
        store.checkpoint()
    return tmp_path / "store"


def another(path: Path) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_second_open_in_one_process(path: Path) -> None:
    with ModelStore.resume(path) as store:
        for _ in range(3):
            with pytest.raises(StoreError, match=f"open already, in this process, {os.getpid()}"):
                ModelStore.resume(path)
        with another(path) as other:  # failed opens must not lose the lock
            out, _ = other.communicate()
        assert out.strip() == f"{path} is open already, in process {os.getpid()}"
        assert store.get([0]).tolist() == [[1] * 4]
    with another(path) as other:
        assert other.communicate()[0] == "open\n"


def test_owner_in_another_process_until_it_is_killed(path: Path) -> None:
    with another(path) as other:
        assert other.stdout.readline() == "open\n"
        assert files.owner_of(path / "lock") == other.pid
        with pytest.raises(StoreError, match=f"is open already, in process {other.pid}$"):
            ModelStore.resume(path)
        other.send_signal(signal.SIGKILL)
    assert files.owner_of(path / "lock") is None
    with ModelStore.resume(path) as store:
        assert store.get([0]).tolist() == [[1] * 4]


def test_a_forked_child_may_not_use_the_store(path: Path) -> None:
    with ModelStore.resume(path) as store:
        child = os.fork()
        if not child:
            try:
                store.get([0])
            except StoreError as error:
                store.close()  # does nothing here
                os._exit(7 if "not in its child" in str(error) else 1)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        with another(path) as other:
            assert "is open already" in other.communicate()[0]
        assert store.get([0]).tolist() == [[1] * 4]


def test_only_one_of_many_threads_gets_it(path: Path) -> None:
    got: list[ModelStore] = []
    refused: list[str] = []
    start = threading.Barrier(8)

    def work() -> None:
        start.wait()
        try:
            got.append(ModelStore.resume(path))
        except StoreError as error:
            refused.append(str(error))

    workers = [threading.Thread(target=work) for _ in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert (len(got), len(refused)) == (1, 7)
    got[0].close()


def test_two_processes_publish_under_one_name(stores: StoreRoot) -> None:
    program = (
        "import sys, numpy as np; from tuskml.kvstore import StoreRoot\n"
        "root = StoreRoot(sys.argv[1])\n"
        "for i in range(10):\n"
        "    root.publish_weights('m', np.full(9, float(sys.argv[2]) + i))\n"
    )
    children = [
        subprocess.Popen([sys.executable, "-c", program, str(stores.path), str(n)])
        for n in (100, 200)
    ]
    assert [child.wait() for child in children] == [0, 0]
    assert stores.versions("m") == list(range(1, 21))
    seen = {float(stores.open(f"m@{number}").weights(0)) for number in range(1, 21)}
    assert seen == {100.0 + i for i in range(10)} | {200.0 + i for i in range(10)}
