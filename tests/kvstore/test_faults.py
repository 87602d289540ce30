"""Every call on files fails, fills the disk or ends the process, once each (sweep.py, faults.c).

TUSKML_SWEEP=1 spoils each call, which takes minutes; else every ninth, at other places in each
mode.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent
MODES = {"kill": 1, "power": 3, "eio": 5, "full": 7}
STRIDE = 9


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library to preload."""
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if not compiler or sys.platform != "linux":
        pytest.skip("needs a C compiler and Linux")
    path = tmp_path_factory.mktemp("shim") / "faults.so"
    flags = ["-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror"]
    command = [compiler, *flags, "-o", str(path), str(HERE / "faults.c"), "-ldl"]
    subprocess.run(command, check=True)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory where there is one: what counts is which calls are made."""
    memory = Path("/dev/shm") / f"tuskml-sweep-{os.getpid()}"
    try:
        memory.mkdir()
    except OSError:
        yield tmp_path
        return
    yield memory
    shutil.rmtree(memory)


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_old_or_new_and_never_another_model(shim: Path, folder: Path, mode: str) -> None:
    every = bool(os.environ.get("TUSKML_SWEEP"))
    first, step = (1, 1) if every else (MODES[mode], STRIDE)
    done = subprocess.run(
        [sys.executable, str(HERE / "sweep.py"), str(folder), mode, str(first), str(step)],
        env=os.environ | {"LD_PRELOAD": str(shim)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout)
    assert found["broken"] == []
    assert found["calls"] > 200
    assert found["cases"] >= found["calls"] // step


def test_a_full_disk_leaves_what_was_there(tmp_path: Path) -> None:
    """Files may not grow beyond a limit, as on a full disk; later they may again."""
    program = """
import resource, signal, sys, numpy as np
from tuskml.errors import StoreError
from tuskml.kvstore import StoreRoot
from tuskml.partitioner import IndexMap
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
root = StoreRoot(sys.argv[1])
root.publish_weights("m", np.ones(1000))
store = root.create("m", IndexMap.by_rule(1024))
keys = np.arange(3000)
store.put(keys[:9], np.ones((9, 1024), np.float32))
store.checkpoint({"epoch": 1})
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, -1))
refused = 0
for work in (lambda: store.put(keys, np.ones((3000, 1024), np.float32)), store.checkpoint,
             lambda: root.publish_weights("m", np.ones(10**6))):
    try:
        work()
    except StoreError as error:
        refused += any(why in str(error) for why in ("File too large", "a write failed before"))
print(refused)
resource.setrlimit(resource.RLIMIT_FSIZE, (-1, -1))
store.close()
assert root.open("m").nonzero == 1000
with root.resume("m") as store:
    assert store.last_checkpoint.metadata == {"epoch": 1}
    assert store.get(keys[:10]).sum() == 9 * 1024
    store.put(keys, np.ones((3000, 1024), np.float32))
    root.publish(store)
assert root.open("m").nonzero == 3000 * 1024
"""
    command = [sys.executable, "-c", program, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "3\n"), done.stderr
