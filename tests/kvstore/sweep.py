"""Run with faults.c preloaded: spoils each call of some work in turn and looks what is left.

    sweep.py FOLDER WORK MODE FIRST STEP

WORK: training, or keeping. The process forks a child for each case, which works, and another,
which looks. One JSON object on stdout: calls, and the cases that broke a promise.
"""

import ctypes
import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import duckdb
import numpy as np

from tuskml.errors import StoreError
from tuskml.kvstore import Rules, StoreRoot, collect
from tuskml.partitioner import IndexMap

FAULTS = ctypes.CDLL(None)
INDEX = IndexMap([5, 40, 700], [0, 1, 0], 16)
KEYS = np.arange(2, 60)
BASE = np.arange(KEYS.size * 16, dtype=np.float32).reshape(KEYS.size, 16) + 1
REFUSED, LEAKED = 3, 4
REFUSALS: tuple[type[Exception], ...] = (StoreError, duckdb.Error)
# What the training has done when it is so far, as (version, checkpoint of the first store).
STATES = [(1, 1), (1, 2), (2, 2)]
# What the keeping has done, as (version that the name stands for, versions, weights). The number
# of a version that was forgotten is given anew.
KEPT = [(1, [1], 1), (2, [1, 2], 2), (1, [1, 2], 1), (1, [1], 1), (1, [1], 1), (2, [1, 2], 3)]


def weights_of(version: int) -> np.ndarray:
    return BASE * version


def make_template(folder: Path) -> None:
    """A store with a version and a checkpoint."""
    root = StoreRoot(folder)
    with root.create("m", INDEX) as store:
        store.put(KEYS, weights_of(1))
        store.checkpoint({"epoch": 1})
        root.publish(store)


def train(folder: Path, done: Callable[[], object]) -> None:
    """Resumes, trains, checkpoints, publishes, and begins another training from that."""
    root = StoreRoot(folder)
    store = root.resume("m")
    store.put(KEYS, weights_of(2))
    store.checkpoint({"epoch": 2})
    done()
    version = root.publish(store)
    done()
    with root.open(version.reference) as model:
        model.verify()
    store.discard()
    with root.create("m", INDEX, warm_start="m") as other:
        other.checkpoint({"epoch": 2})


def keep(folder: Path, done: Callable[[], object]) -> None:
    """Imports, lets the name stand for an older version, forgets, collects, imports again."""
    root = StoreRoot(folder)
    root.publish_weights("m", flat(2))
    done()
    root.make_current("m@1")
    done()
    root.drop("m@2")
    done()
    collect(root, rules=Rules(keep=9, older_than=0))
    done()
    root.publish_weights("m", flat(3))
    done()


def flat(version: int) -> np.ndarray:
    """The same weights as one array, by id."""
    ids = (KEYS[:, None] - 2) * 16 + np.arange(16)
    weights = np.zeros(ids.max() + 1)
    weights[ids] = weights_of(version)
    return weights


def fork(work: Callable[[Callable[[], object]], object]) -> tuple[int, int]:
    """Runs work in a child: its status, and how often it said that a step was done."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            work(lambda: os.write(writing, b"."))
            os._exit(0)
        except REFUSALS:
            os._exit(REFUSED)
        except BaseException:
            sys.excepthook(*sys.exc_info())
            os._exit(LEAKED)
    os.close(writing)
    _, status = os.waitpid(child, 0)
    steps = len(os.read(reading, 100))
    os.close(reading)
    return os.waitstatus_to_exitcode(status), steps


def look(folder: Path, steps: int) -> None:
    """Asserts that what is there is the state after the steps that were done, or the next."""
    root = StoreRoot(folder)
    allowed = STATES[steps : steps + 2]
    with root.open("m") as model:
        model.verify()
        version = int(root.version("m").number)
        assert version in {v for v, _ in allowed}, f"version {version} after {steps} steps"
        same(root, weights_of(version))
    if root.working("m") and steps < 2:
        with root.resume("m") as store:
            number = store.last_checkpoint.number
            assert number in {c for _, c in allowed}, f"checkpoint {number} after {steps} steps"
            assert store.last_checkpoint.metadata == {"epoch": number}
            assert (store.get(KEYS) == weights_of(number)).all(), "another model"


def look_kept(folder: Path, steps: int) -> None:
    """The same of the keeping."""
    root = StoreRoot(folder)
    with root.open("m") as model:
        model.verify()
    number = int(root.version("m").number)
    allowed = KEPT[steps : steps + 2]
    weights = {w for v, _, w in allowed if v == number}
    assert weights, f"version {number} after {steps} steps"
    same(root, weights_of(weights.pop()))
    # A record is written before the name stands for it.
    numbers = root.versions("m")
    assert any(set(v) <= set(numbers) for _, v, _ in allowed), f"{numbers} after {steps} steps"


def same(root: StoreRoot, expected: np.ndarray) -> None:
    ids = (KEYS[:, None] - 2) * 16 + np.arange(16)
    rare = ~np.isin(ids, INDEX.features)
    with root.open("m") as model:
        assert (model.weights(ids)[rare] == expected[rare]).all(), "another model"


def spoil(
    folder: Path,
    mode: str,
    first: int,
    step: int,
    make: Callable[[Path], object],
    do: Callable[[Path, Callable[[], object]], object],
    see: Callable[[Path, int], object],
) -> dict[str, object]:
    """Spoils calls of `do` from the first on, until it makes no more; `see` looks each time."""
    template, case, said = folder / "template", folder / "case", folder / "calls"
    template.mkdir()
    assert fork(lambda _: make(template))[0] == 0
    number, calls, broken = first, "", []
    while True:
        shutil.copytree(template, case, symlinks=True)

        def work(done: Callable[[], object], number: int = number) -> None:
            FAULTS.fault_arm(str(case).encode(), mode.encode(), ctypes.c_long(number))
            do(case, done)
            said.write_text(str(FAULTS.fault_calls()))

        status, steps = fork(work)
        seen = fork(lambda _, steps=steps: see(case, steps))[0]
        if status not in (0, REFUSED, -signal.SIGKILL) or seen:
            broken.append({"call": number, "steps": steps, "status": status, "look": seen})
        shutil.rmtree(case)
        calls = said.read_text() if said.exists() else ""
        if status == 0 and calls and int(calls) < number:
            break
        number += step
    return {"calls": int(calls), "cases": (number - first) // step, "broken": broken}


def main() -> None:
    do, see = {"training": (train, look), "keeping": (keep, look_kept)}[sys.argv[2]]
    numbers = int(sys.argv[4]), int(sys.argv[5])
    found = spoil(Path(sys.argv[1]), sys.argv[3], *numbers, make_template, do, see)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
