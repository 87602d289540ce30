"""Pages of packed rows stay for the next training, and are the system's when it needs them."""

import json
import subprocess
import sys

import pytest

CHILD = """
import json, re, sys
import tuskml

def field(name):
    return int(re.search(rf"^{name}:\\s*(\\d+)", open("/proc/self/smaps_rollup").read(), re.M)[1])

con = tuskml.connect(threads=2)
con.execute("SET enable_progress_bar = false")
con.execute(f"SET memory_limit = '{sys.argv[1]}'")
call = "SELECT train_model('linear', i, [i % 7, i % 11]::DOUBLE[]) FROM range({}) t(i)"
found = []
for rows in (1000, 6_000_000, 6_000_000, 1000):
    model = con.execute(call.replace("{}", str(rows))).fetchall()[0][0]
    assert model["n_rows"] == rows and model["status"] == "ok"
    used = con.execute("SELECT tuskml_memory()").fetchall()[0][0]["resident"]
    found.append([field("LazyFree") // 1024, used])
print(json.dumps(found))
"""


def kept(limit: str) -> list[list[int]]:
    """MiB that the system may take, and bytes in use, after each training."""
    done = subprocess.run(
        [sys.executable, "-c", CHILD, limit],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.sample(1)
@pytest.mark.parametrize(("limit", "least", "most"), [("4GB", 60, 140), ("240MB", 0, 24)])
def test_rows_leave_pages_that_the_system_may_take(limit: str, least: int, most: int) -> None:
    """6M rows of 24 bytes are 137 MiB, of which the first 64 MiB stay for good."""
    first, *others = kept(limit)
    assert first[0] < 8
    for mib, used in others:
        assert least <= mib <= most
        assert used == 0
