"""Rows beyond memory_limit spill to a file without a name: the same models, and nothing left behind."""

# ruff: noqa: E501, SQL is read better on one line

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import duckdb
import pytest

import tuskml

pytestmark = pytest.mark.fault(family="memory limits")

LIMIT = 32_000_000
ROWS = 750_000
"""Of 8 + 28 * 4 bytes: about three times the limit."""

SOURCE = f"""SELECT i % 50 AS g, (i * 7919) % 1000 + i % 13 < 400 AS y,
             [(i * 31) % 97, (i * 17) % 89, i % 83, i % 7, {", ".join(f"(i * {7 * k + 1}) % {100 + k}" for k in range(24))}]::FLOAT[] AS x
             FROM range({{rows}}) r(i)"""
OPTIONS = (
    '{"deterministic": true, "algorithm": "lbfgs", "max_iter": 3, "epsilon": 0, "threads": 2}'
)
FIT = f"SELECT train_model('logistic', y, x, '{OPTIONS}') FROM t"
GROUPED = f"SELECT g, train_model('logistic', y, x, '{OPTIONS}') FROM t GROUP BY g ORDER BY g"


@pytest.fixture(scope="module")
def rows(tmp_path_factory) -> Iterator[Path]:
    """The table as a Parquet file, so that reading it needs little of DuckDB's memory."""
    file = tmp_path_factory.mktemp("rows") / "t.parquet"
    with duckdb.connect() as con:
        con.execute(f"COPY ({SOURCE.format(rows=ROWS)}) TO '{file}' (ROW_GROUP_SIZE 20000)")
    yield file
    shutil.rmtree(file.parent)


def opened(rows: Path, folder: Path, limit: int | None = LIMIT) -> duckdb.DuckDBPyConnection:
    con = tuskml.connect(threads=2, temp_directory=folder)
    con.execute(f"CREATE VIEW t AS FROM '{rows}'")
    if limit is not None:
        budget(con, folder, limit)
    return con


def budget(con: duckdb.DuckDBPyConnection, folder: Path, limit: int) -> None:
    """The packer's own limit, without squeezing DuckDB's hash tables and scans."""
    con.execute("SELECT tuskml_set_memory(?, ?)", [limit, str(folder)]).fetchall()


def use(con: duckdb.DuckDBPyConnection) -> dict:
    return con.execute("SELECT tuskml_memory()").fetchall()[0][0]


def what_counts(models: list[tuple]) -> list:
    """All of the models but what the clock says."""
    return [
        (*key, {name: value for name, value in model.items() if name != "seconds"})
        for *key, model in models
    ]


class Watch:
    """Looks at a folder while the context lasts: which names were ever in it?"""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.child = subprocess.Popen(
            [sys.executable, "-c", WATCHER, folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> "Watch":
        assert self.child.stdout is not None
        self.child.stdout.readline()
        return self

    def __exit__(self, *_: object) -> None:
        self.seen = set(self.child.communicate("", timeout=240)[0].split())


WATCHER = """
import os, select, sys
seen = set()
print(flush=True)
while not select.select([sys.stdin], [], [], 0.01)[0]:
    seen.update(os.listdir(sys.argv[1]))
print(*seen)
"""


@pytest.mark.nightly
@pytest.mark.sample(1)
@pytest.mark.parametrize("sql", [FIT, GROUPED])
def test_the_same_model_bit_for_bit(rows: Path, tmp_path: Path, sql: str) -> None:
    with opened(rows, tmp_path, None) as con:
        usual = con.execute(sql).fetchall()
        assert use(con)["peak"] > 2.7 * LIMIT
    with opened(rows, tmp_path) as con, Watch(tmp_path) as watch:
        spilled = con.execute(sql).fetchall()
        after = use(con)
    assert what_counts(spilled) == what_counts(usual)
    assert after["peak"] > 2.7 * LIMIT
    assert after["spilled"] + after["resident"] == 0
    assert watch.seen == set(), "no name ever appeared in temp_directory"


def test_the_limit_is_kept(rows: Path, tmp_path: Path) -> None:
    """What is not spilled stays within the limit at any moment."""
    with opened(rows, tmp_path) as con:
        done: list[dict] = []
        with con.cursor() as cursor:
            thread = threading.Thread(target=lambda: cursor.execute(FIT).fetchall())
            thread.start()
            with con.cursor() as reader:
                while thread.is_alive():
                    done.append(use(reader))
                    time.sleep(0.01)
            thread.join()
    assert max(seen["resident"] for seen in done) <= LIMIT
    assert max(seen["spilled"] for seen in done) > LIMIT


@pytest.mark.nightly
def test_memory_limit_of_the_connection(rows: Path, tmp_path: Path) -> None:
    """With DuckDB's own setting, in the 1 : 3 proportion that the README promises."""
    with tuskml.connect(threads=2, memory_limit="32MB", temp_directory=tmp_path) as con:
        model = con.execute(
            f"SELECT train_model('logistic', y, x, '{OPTIONS}') FROM '{rows}'"
        ).fetchall()[0][0]
        assert model["n_rows"] == ROWS
        assert use(con)["peak"] > 2.7 * use(con)["budget"]
        assert use(con)["spilled"] == 0


@pytest.mark.nightly
def test_memory_limit_set_later(rows: Path, tmp_path: Path) -> None:
    """SET is seen by the next statement that packs much, and by those of cursors."""
    sql = f"SELECT train_model('logistic', y, x, '{OPTIONS}').n_rows FROM '{rows}'"
    with tuskml.connect(threads=2, memory_limit="1GB") as con, con.cursor() as cursor:
        folder = tmp_path / "later"
        folder.mkdir()
        con.execute("SET memory_limit = '32MB'")
        con.execute(f"SET temp_directory = '{folder}'")
        assert cursor.execute(sql).fetchall() == [(ROWS,)]
        assert 30e6 < use(con)["budget"] < 32.5e6
        con.execute("SET memory_limit = '2GB'")
        assert cursor.execute(sql).fetchall() == [(ROWS,)]
        assert 1.8e9 < use(con)["budget"] < 2.1e9
        con.execute("SET memory_limit = '32MB'")
        with watched(con) as seen:
            con.execute(sql).fetchall()
        assert max(now["spilled"] for now in seen) > 32e6
        assert use(con)["spilled"] + use(con)["resident"] == 0


@contextmanager
def watched(con: duckdb.DuckDBPyConnection) -> Iterator[list[dict]]:
    """What the packer used, looked at while the context lasts."""
    seen: list[dict] = []
    over = threading.Event()

    def look() -> None:
        with con.cursor() as reader:
            while not over.wait(0.01):
                seen.append(use(reader))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join()


@pytest.mark.nightly
def test_many_small_groups_beyond_the_limit(rows: Path, tmp_path: Path) -> None:
    sql = "SELECT g, train_model('linear', y, x[:3], '{\"deterministic\": true}') FROM (SELECT hash(x) % 40000 AS g, y, x FROM t LIMIT 400000) GROUP BY g ORDER BY g"
    with opened(rows, tmp_path, None) as con:
        con.execute("SET preserve_insertion_order = true")
        usual = con.execute(sql).fetchall()
        needed = use(con)["peak"]
    with opened(rows, tmp_path, needed // 3) as con:
        spilled = con.execute(sql).fetchall()
        after = use(con)
    assert len(usual) > 30000
    assert what_counts(spilled) == what_counts(usual)
    assert after["spilled"] + after["resident"] == 0


CHILD = """
import sys, tuskml
file, folder, limit, sql = sys.argv[1:]
con = tuskml.connect(threads=2, temp_directory=folder)
con.execute(f"CREATE VIEW t AS FROM '{file}'")
con.execute("SELECT tuskml_set_memory(?, ?)", [int(limit), folder]).fetchall()
print("ready", flush=True)
con.execute(sql).fetchall()
"""


def mapped_from(pid: int, folder: Path) -> bool:
    """Whether the process maps a deleted file of the folder."""
    return any(str(folder) in line and "(deleted)" in line for line in open(f"/proc/{pid}/maps"))


def holders(folder: Path) -> list[str]:
    """Processes that have a file of the folder open or mapped, deleted or not."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it ended, or is another user's
            held = [os.readlink(fd) for fd in (process / "fd").iterdir()]
            if any(str(folder) in name for name in [*held, (process / "maps").read_text()]):
                found.append(process.name)
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.fault(family="kills and power loss")
def test_nothing_is_left_after_kill_9(started, rows: Path, tmp_path: Path) -> None:
    endless = FIT.replace('"max_iter": 3', '"max_iter": 1000000')
    command = [sys.executable, "-c", CHILD, rows, tmp_path, str(LIMIT), endless]
    with started(command) as child:
        assert child.stdout.readline() == "ready\n"
        deadline = time.monotonic() + 60
        while not mapped_from(child.pid, tmp_path) and time.monotonic() < deadline:
            time.sleep(0.05)
        spills = mapped_from(child.pid, tmp_path)
        names, held = list(tmp_path.iterdir()), holders(tmp_path)
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
    assert spills, "rows lay in a file of temp_directory"
    assert names == []
    assert list(tmp_path.iterdir()) == []
    assert held == [str(child.pid)]
    assert holders(tmp_path) == []  # so that the system has the blocks back


@pytest.mark.sample(1)
@pytest.mark.parametrize("sql", [FIT, GROUPED])
@pytest.mark.fault(family="full disks")
def test_temp_directory_is_full(rows: Path, small_disk: Path, sql: str) -> None:
    with opened(rows, small_disk, 32_000_000) as con:
        with pytest.raises(duckdb.Error) as caught:
            con.execute(sql).fetchall()
        assert "memory_limit is reached and temp_directory cannot take more" in str(caught.value)
        assert "train_model: no room for" in str(caught.value)
        small = con.execute(
            "SELECT train_model('logistic', y, x).n_rows FROM (FROM t LIMIT 10000)"
        ).fetchall()
        assert small == [(10000,)]
        after = use(con)
        assert after["spilled"] == 0
        assert shutil.disk_usage(small_disk).used <= 100_000, "blocks are given back"
        budget(con, small_disk, 2**40)
        assert con.execute(f"SELECT count(*) FROM ({sql})").fetchall()[0][0] > 0


@pytest.mark.fault(family="full disks")
def test_temp_directory_is_missing(rows: Path, tmp_path: Path) -> None:
    """DuckDB makes its own directory when it first spills: ours cannot wait for that."""
    with opened(rows, tmp_path / "not" / "there", 8_000_000) as con:
        assert con.execute(
            "SELECT train_model('logistic', y, x).n_rows FROM (FROM t LIMIT 200000)"
        ).fetchall() == [(200000,)]
    assert not (tmp_path / "not").exists()


@pytest.mark.nightly
def test_limits_are_each_databases_own(rows: Path, tmp_path: Path) -> None:
    with opened(rows, tmp_path) as one, opened(rows, tmp_path, None) as other:
        one.execute(FIT).fetchall()
        assert use(other)["peak"] < 10_000_000
        assert use(one)["budget"] == LIMIT


def test_a_budget_of_nothing_spills_everything(rows: Path, tmp_path: Path) -> None:
    with opened(rows, tmp_path, 0) as con:
        assert con.execute(
            "SELECT train_model('logistic', y, x).n_rows FROM (FROM t LIMIT 5000)"
        ).fetchall() == [(5000,)]
        assert use(con)["resident"] == 0
        with pytest.raises(duckdb.Error, match="budget is negative, expected a number of bytes"):
            budget(con, tmp_path, -1)
