"""Every call on files fails, fills the disk or ends the process, once each (sweep.py, faults.c).

TUSKML_FAULTS=all spoils each call, which takes minutes; else every seventeenth, at other places in
each mode.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from preloaded import compiled, in_memory
from tried import WHOLE, Tally

pytestmark = pytest.mark.fault(family="failing I/O")

HERE = Path(__file__).parent
ENDING = {"kill": 1, "power": 5}
FAILING = {"eio": 2, "broken": 4, "full": 6, "tight": 8, "short": 10}
STRIDE = 41
LEAST_CALLS = {"training": 200, "keeping": 60}


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library to preload."""
    return compiled(tmp_path_factory.mktemp("shim"))


@pytest.fixture
def folder() -> Iterator[Path]:
    with in_memory() as path:
        yield path


@pytest.mark.sample(2)
@pytest.mark.slow
@pytest.mark.parametrize("work", LEAST_CALLS)
@pytest.mark.parametrize("mode", FAILING)
def test_old_or_new_when_io_fails(
    shim: Path, folder: Path, tally: Tally, work: str, mode: str
) -> None:
    sweep(shim, folder, tally, work, mode, FAILING[mode])


@pytest.mark.sample(2)
@pytest.mark.slow
@pytest.mark.fault(family="kills and power loss")
@pytest.mark.parametrize("work", LEAST_CALLS)
@pytest.mark.parametrize("mode", ENDING)
def test_old_or_new_when_the_process_ends(
    shim: Path, folder: Path, tally: Tally, work: str, mode: str
) -> None:
    sweep(shim, folder, tally, work, mode, ENDING[mode])


def sweep(shim: Path, folder: Path, tally: Tally, work: str, mode: str, first: int) -> None:
    """Spoils calls of the work and looks what is left: old or new, never another model."""
    first, step = (1, 1) if WHOLE else (first, STRIDE)
    done = subprocess.run(
        [sys.executable, str(HERE / "sweep.py"), folder, work, mode, str(first), str(step)],
        env=os.environ | {"LD_PRELOAD": str(shim)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout)
    tally.tried, tally.lost = found["cases"], len(found["broken"])
    assert found["broken"] == []
    assert found["calls"] > LEAST_CALLS[work]
    assert found["cases"] >= found["calls"] // step


@pytest.mark.fault(family="full disks")
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
