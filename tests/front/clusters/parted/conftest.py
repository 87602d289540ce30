"""Groups on several shards: small units, a table with shards, and what workers ran for leaders.

A module with rows or workers of its own has fixtures of the same names.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import pytest
import sharded

import tuskml
from tuskml.cluster import units


class Ended(NamedTuple):
    """What a training answered, and how many parts it has, reads of them and reads that failed."""

    answer: str
    parts: list[int]


Limited = Callable[[str, str, int, dict[str, Any]], Ended]
IN_A_PROCESS = """
import json, sys, tuskml
from tuskml.groups.execution.worker import Share, limit
from tuskml.schedule import budget
from tuskml.cluster import units
from tuskml.cluster.parts import part_rows
units.BATCH_ROWS = 5_000
budget.threads = lambda asked=None: 1
limit(Share(1, int(sys.argv[3]) * 10**6))
read, reads, failed = part_rows.query, [], []

def counted(given, receive):
    reads.append(given["pin"])
    try:
        read(given, receive)
    except Exception:
        failed.append(given["pin"])
        raise

part_rows.query = counted
given = json.loads(sys.argv[4])
try:
    found = tuskml.train(tuskml.connect(), sys.argv[1], placement=sys.argv[2], **given)
    print("parts:", len(set(reads)), len(reads), len(failed))
    print("answer:", [(model.coef, model.loss) for model in found.values()])
except tuskml.ClusterError as error:
    print("answer:", error)
"""


@pytest.fixture(autouse=True)
def small_units(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(units, "BATCH_ROWS", 5_000)


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with tuskml.connect() as connection:
        sharded.table(connection, 40_000)
        yield connection


@pytest.fixture(scope="module")
def source(con: duckdb.DuckDBPyConnection, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Shards of some 2,000 rows: two groups are on several, and one is not large."""
    return sharded.shards(con, tmp_path_factory.mktemp("parted") / "s", 40_000)


@pytest.fixture
def giants(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Limited]:
    """Trains two groups of so many rows in all, in a process of its own with one thread: by task,
    placement, limit of memory in MB and options. Rows have no room on disk.
    """

    def of(n_rows: int, shard_bytes: int = 3_000_000) -> Limited:
        query = (
            "SELECT i % 2 AS g, "
            + ", ".join(f"(hash(i, {k}) % 1000) / 500 - 1 AS x{k}" for k in range(10))
            + f", hash(i, 3) % 10 > 3 AS y FROM range({n_rows}) t(i)"
        )
        with tuskml.connect() as con:
            manifest = tuskml.split(
                con, source=query, group_by="g", into=tmp_path / "s", shard_bytes=shard_bytes
            )
        (tmp_path / ".tmp").touch()  # where DuckDB, and
        monkeypatch.setenv("TMPDIR", str(tmp_path / "none"))  # where tuskml would put rows
        rows = {"source": manifest.source, "label": "y", "group_by": "g", "executor": "threads"}
        rows |= {"features": [f"x{k}" for k in range(10)], "threads": 1}

        def run(task: str, placement: str, megabytes: int, options: dict[str, Any]) -> Ended:
            given = [task, placement, str(megabytes), json.dumps(rows | options)]
            done = subprocess.run(
                [sys.executable, "-c", IN_A_PROCESS, *given],
                cwd=tmp_path, check=True, capture_output=True, text=True,
            )  # fmt: skip
            # a slow query prints its progress before
            before, _, answer = done.stdout.rpartition("answer:")
            return Ended(answer, [int(one) for one in before.rpartition("parts:")[2].split()])

        return run

    return of
