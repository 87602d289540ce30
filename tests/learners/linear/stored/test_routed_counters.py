"""What a training says that it read and wrote, beside a trace of its calls (trace.c)."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from stored_fits import CHILD, rows_of

pytestmark = pytest.mark.native

HERE = Path(__file__).parent
D, CHUNKS, EPOCHS = 150, 10, 4

PROGRAM = """
import ctypes, json
stored_run.all_fit = lambda *_: False
stored_run.FEWEST_CHUNKS = {chunks}
from tuskml.learners.linear.stored import routed
shim, numbers = ctypes.CDLL(None), (ctypes.c_long * 3)()
class Traced(routed.Routes):
    def read(self, *given):  # for the sealed file: no part of the counters
        found = super().read(*given)
        Traced.sealed += found.nbytes
        return found
Traced.sealed = 0
routed.Routes = Traced
model = train(con, epsilon=0, step=0.5, max_iter={epochs}, threads=2, **{options})
shim.trace_get(numbers)
print(json.dumps([model.options["counters"], list(numbers), Traced.sealed]))
"""


@pytest.fixture(scope="module")
def shim(tmp_path_factory):
    """The library to preload."""
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if not compiler or sys.platform != "linux":
        pytest.skip("needs a C compiler and Linux")
    path = tmp_path_factory.mktemp("shim") / "trace.so"
    flags = ["-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror"]
    command = [compiler, *flags, "-o", str(path), str(HERE / "trace.c"), "-ldl"]
    subprocess.run(command, check=True)
    return path


@pytest.mark.nightly
@pytest.mark.sample(1)
@pytest.mark.parametrize("options", [{}, {"l2": 0.01}, {"l1": 0.001}])
def test_bytes_and_writes_are_those_of_the_calls(shim, tmp_path, options) -> None:
    counters, (read, written, writes), sealed = trained(shim, tmp_path, options)
    assert counters["bytes_read"] == read - sealed > 0
    assert counters["bytes_written"] == written > 0
    assert counters["writes"] == writes > 0
    names = (
        "saved_by_partitioning",
        "read_together",
        "saved_by_pushing",
        "cache_hits",
        "requests",
    )
    assert sum(counters[name] for name in names) == counters["features"]


@pytest.mark.sample(1)
@pytest.mark.parametrize("options", [{}, {"l2": 0.01}])
def test_requests_are_those_of_the_rows(shim, tmp_path, options) -> None:
    """Counted from the rows: a chunk asks each chunk that had one of its features before."""
    counters, _, _ = trained(shim, tmp_path, options)
    x, _ = rows_of("logistic")
    size = -(-len(x) // CHUNKS)
    used = np.array([(x[at : at + size] != 0).any(axis=0) for at in range(0, len(x), size)])
    n, asked = len(used), 0
    near = resting = 0
    for j in range(n):
        before = {
            next((j - k) % n for k in range(1, n + 1) if used[(j - k) % n, feature])
            for feature in np.flatnonzero(used[j])
        }
        asked += len(before)
        near += (j - 1) % n in before
        resting += sum(chunk >= j for chunk in before)
    passes = EPOCHS + 1
    settled = resting if options else 0  # penalties are brought up to date at the end
    assert counters["requests"] + counters["cache_hits"] == passes * asked + settled
    empty = 2 if options else 1  # times that the first chunk finds nothing in memory
    assert counters["cache_hits"] == passes * near - empty
    assert counters["saved_by_pushing"] == 0
    assert counters["features"] == passes * used.sum() + settled


def trained(shim, root, options):
    """Counters, what the trace has, and bytes that were read to seal the model."""
    program = CHILD.format(path=[str(HERE.parents[2] / "helpers")]) + PROGRAM.format(
        chunks=CHUNKS, epochs=EPOCHS, options=options
    )
    paths = os.pathsep.join(sys.path)
    done = subprocess.run(
        [sys.executable, "-c", program, str(root)],
        env=os.environ | {"LD_PRELOAD": str(shim), "PYTHONPATH": paths},
        stdout=subprocess.PIPE, text=True, check=True, timeout=200,
    )  # fmt: skip
    return json.loads(done.stdout.splitlines()[-1])
