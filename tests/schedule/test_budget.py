"""One budget of threads: of affinity, quotas and the databases' settings the least counts."""

import json
import math
import os
import re
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

import tuskml
from tuskml.schedule import budget

ONE = """
import json, os, sys
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
import tuskml
from tuskml.schedule import budget
con = tuskml.connect(threads=4)
con.execute("CREATE TABLE t AS SELECT i % 7 AS x, i % 7 + sin(i) AS y FROM range(50000) s(i)")
ask = "SELECT (train_model('linear', y, [x]{})).plan FROM t"
print(json.dumps([budget.processors(), *(
    con.execute(ask.format(more)).fetchone()[0]
    for more in ("", ", '{\\"algorithm\\": \\"sgd\\", \\"threads\\": 3}'")
)]))
"""


@pytest.fixture
def many(monkeypatch):
    """A machine with 64 processors and no quota."""
    monkeypatch.setattr(budget, "count_processors", lambda: 64)
    monkeypatch.setattr(budget, "quota", lambda root: math.inf)
    monkeypatch.setattr(budget, "_seen", [])


@pytest.fixture
def database(cluster):
    cluster.create_database("budget")
    yield "budget"
    cluster.drop_database("budget")


def group(root: Path, path: str, **files: str) -> None:
    folder = root / "sys/fs/cgroup" / path
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".", 1)).write_text(text + "\n")


def own_groups(root: Path, *lines: str) -> None:
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text("".join(f"{line}\n" for line in lines))


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="the system has no affinity")
def test_a_process_bound_to_one_processor_trains_by_one_thread():
    """What the user asks for stays what the user asked for."""
    done = subprocess.run(
        [sys.executable, "-c", ONE], capture_output=True, text=True, check=True, timeout=300
    )
    processors, plan, asked = json.loads(done.stdout)
    assert processors == 1
    assert "1 thread" in plan
    assert "3 threads" in asked


def test_the_quota_of_version_2_counts(tmp_path):
    own_groups(tmp_path, "0::/a/b")
    group(tmp_path, "a/b", cpu__max="250000 100000")
    assert budget.quota(tmp_path) == 2.5


def test_a_quota_holds_for_the_groups_below(tmp_path):
    own_groups(tmp_path, "0::/a/b/c")
    group(tmp_path, "a", cpu__max="150000 100000")
    group(tmp_path, "a/b", cpu__max="max 100000")
    group(tmp_path, "a/b/c", cpu__max="800000 100000")
    assert budget.quota(tmp_path) == 1.5


def test_the_quota_of_version_1_counts(tmp_path):
    own_groups(tmp_path, "5:memory:/docker/x", "4:cpu,cpuacct:/docker/x")
    files = {"cpu.cfs_quota_us": "300000", "cpu.cfs_period_us": "100000"}
    group(tmp_path, "cpu,cpuacct/docker/x", **files)
    assert budget.quota(tmp_path) == 3


def test_in_a_container_the_group_at_the_top_counts(tmp_path):
    """The path is the host's, and nothing lies there."""
    own_groups(tmp_path, "4:cpu,cpuacct:/docker/0123")
    files = {"cpu.cfs_quota_us": "50000", "cpu.cfs_period_us": "100000"}
    group(tmp_path, "cpu", **files)
    assert budget.quota(tmp_path) == 0.5


@pytest.mark.parametrize(
    "lines",
    [[], ["0::/"], ["4:cpu,cpuacct:/"], ["0::/nowhere"]],
)
def test_without_a_limit_the_quota_is_infinite(tmp_path, lines):
    own_groups(tmp_path, *lines)
    group(tmp_path, "", cpu__max="max 100000")
    group(tmp_path, "cpu", **{"cpu.cfs_quota_us": "-1", "cpu.cfs_period_us": "100000"})
    assert budget.quota(tmp_path) == math.inf


def test_without_control_groups_the_quota_is_infinite(tmp_path):
    assert budget.quota(tmp_path) == math.inf


@pytest.mark.parametrize(("quota", "processors"), [(0.5, 1), (1.5, 2), (3, 3), (100, 64)])
def test_a_broken_quota_is_rounded_up(many, monkeypatch, quota, processors):
    monkeypatch.setattr(budget, "quota", lambda root: quota)
    assert budget.processors() == processors


def test_the_least_counts_and_what_is_asked_for_stays(many):
    assert budget.threads() == 64
    with budget.within(5):
        assert budget.threads() == 5
        assert budget.threads(9) == 9
        with budget.within(0):
            assert budget.threads() == 64
    assert budget.threads() == 64


def test_duckdb_says_how_many_threads(many):
    """The setting as it is when the statement runs; an option of the statement's own counts."""
    con = tuskml.connect(threads=6)
    con.execute("CREATE TABLE t AS SELECT i % 7 AS x, i % 7 + sin(i) AS y FROM range(999) s(i)")

    def threads(options: str = "{}") -> int:
        ask = "SELECT train_model('linear', y, [x], $1).options FROM t"
        return json.loads(con.execute(ask, [options]).fetchone()[0])["threads"]

    assert threads() == 6
    con.execute("SET threads = 3")
    assert threads() == 3
    assert threads('{"threads": 5}') == 5
    con.execute("SET threads = 2")
    ask = """SELECT explain_training('linear', y, [x], '{"format": "json"}') FROM t"""
    explained = con.execute(ask).fetchone()[0]
    assert json.loads(explained)["plan"]["threads"] == 2


@pytest.mark.parametrize(
    ("setting", "threads"),
    [
        ("max_parallel_workers_per_gather = 5", 6),
        ("max_parallel_workers_per_gather = 0", 2),
        ("max_parallel_workers_per_gather = 20", 9),
        ("tuskml.threads = 11", 11),
    ],
)
def test_postgres_says_how_many_threads(cluster, database, setting, threads):
    """On 64 processors; `tuskml.threads` is the user's own word."""
    patch = """
CREATE OR REPLACE FUNCTION pretend() RETURNS void LANGUAGE plpython3u AS $$
from tuskml.schedule import budget
budget.processors = lambda: 64
$$"""
    ask = """
SELECT (train_model('linear', i % 7 + sin(i), ARRAY[i % 7]::float8[])).options
FROM generate_series(1, 999) i"""
    with closing(cluster.connect(database)) as con:
        con.execute(ask)  # from here on Python finds the package
        con.execute(patch)
        con.execute("SELECT pretend()")
        con.execute(f"SET {setting}")
        found = con.execute(ask).fetchone()[0]
    assert (found if isinstance(found, dict) else json.loads(found))["threads"] == threads


ASKING = re.compile(
    r"cpu_count|sched_getaffinity|hardware_concurrency|_SC_NPROCESSORS|get_nprocs|omp_get"
)


def test_nobody_else_counts_processors(root: Path, folders: dict[str, str]):
    """Whoever starts threads asks the budget."""
    kinds = {".py", ".c", ".h", ".cpp", ".hpp"}
    asking = {
        str(path.relative_to(root))
        for folder in [*folders, "scripts/build"]
        for path in (root / folder).rglob("*")
        if path.suffix in kinds and ASKING.search(path.read_text())
    }
    assert asking == {"schedule/budget.py"}


@pytest.mark.parametrize(
    ("limits", "left"),
    [
        ({"memory__max": "1000", "memory__high": "max"}, 1000 - 700 + 250),
        ({"memory__max": "max", "memory__high": "900"}, 900 - 700 + 250),
        ({"memory__max": "400", "memory__high": "max"}, 0),
        ({"memory__max": "max", "memory__high": "max"}, math.inf),
    ],
)
def test_the_memory_that_version_2_leaves(tmp_path, limits, left):
    """Pages of files can be given up; those of a group's own memory cannot."""
    own_groups(tmp_path, "0::/a/b")
    stat = "anon 450\nfile 250\ninactive_file 200\nactive_file 50"
    group(tmp_path, "a/b", memory__current="700", memory__stat=stat, **limits)
    assert budget.memory_left(tmp_path) == left


def test_the_memory_that_version_1_leaves(tmp_path):
    own_groups(tmp_path, "5:cpu,cpuacct:/", "4:memory:/docker/x")
    stat = "cache 9\ninactive_file 9\ntotal_inactive_file 200\ntotal_active_file 50"
    files = {"memory.limit_in_bytes": "1000", "memory.usage_in_bytes": "700", "memory.stat": stat}
    group(tmp_path, "memory/docker/x", **files)
    unlimited = files | {"memory.limit_in_bytes": "9223372036854771712"}
    group(tmp_path, "memory/docker", **unlimited)
    assert budget.memory_left(tmp_path) == 550


def test_the_least_memory_of_all_groups_counts(tmp_path):
    own_groups(tmp_path, "0::/a/b")
    stat = "inactive_file 0\nactive_file 0"
    for path, most in (("a", "800"), ("a/b", "900")):
        limits = {"memory__max": most, "memory__current": "100", "memory__stat": stat}
        group(tmp_path, path, **limits)
    assert budget.memory_left(tmp_path) == 700


@pytest.mark.parametrize("lines", [[], ["0::/"], ["4:memory:/"], ["0::/nowhere"]])
def test_without_a_limit_the_memory_is_infinite(tmp_path, lines):
    own_groups(tmp_path, *lines)
    group(tmp_path, "", memory__max="max")
    assert budget.memory_left(tmp_path) == math.inf


def test_a_group_that_does_not_say_its_use_is_left_out(tmp_path):
    own_groups(tmp_path, "0::/a")
    group(tmp_path, "a", memory__max="1000", memory__current="unknown")
    assert budget.memory_left(tmp_path) == math.inf
