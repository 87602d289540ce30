"""Forged models are given to every function that takes one: rows or one sentence come of it.

Bytes differ in bits, sizes and numbers, with the sum that fits them, and fields have other values.
A statement takes less than 1 GB of memory, and the process lives.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import forging
import psycopg
import pytest

pytestmark = pytest.mark.fault(family="damaged files")
FEW, MANY = 4, 1000
LARGE = 1000
"""MB that no statement may take."""
SECONDS = 30
"""After which a statement is ended: forged weights may make a training long."""
HELPERS = Path(forging.__file__).parent
CHILD = """
import faulthandler, json, sys, threading
sys.path.append(sys.argv[1])
faulthandler.enable()
import duckdb, tuskml
import forging
con = tuskml.connect(threads=2, memory_limit="2GB")
con.execute("SET enable_progress_bar = false")
forger = forging.Forger(lambda sql: con.execute(sql).fetchall(), "duck")

def reset():
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")

def taken(what):
    with open("/proc/self/status") as file:
        (line,) = [line for line in file if line.startswith(what)]
    return int(line.split()[1]) / 1000

for number in range(int(sys.argv[2]), int(sys.argv[3])):
    for sql in forger.calls(forger.forged(number)):
        print(json.dumps([number, sql[:40]]), flush=True)
        reset()
        before, said = taken("VmRSS"), ""
        timer = threading.Timer(float(sys.argv[4]), con.interrupt)
        timer.start()
        try:
            con.execute(sql).fetchall()
        except duckdb.Error as error:
            said = str(error)
        timer.cancel()
        print(json.dumps([said, taken("VmHWM") - before]), flush=True)
print("END")
"""


def is_sentence(said: str) -> bool:
    """Whether nothing of the inside shows."""
    return not any(word in said for word in ("internal error", "Traceback", "Python failed"))


@pytest.mark.nightly
def test_in_duckdb() -> None:
    """In a process of its own, which a crash would end."""
    first, last = (FEW, MANY) if "TUSKML_EXAMPLES" in os.environ else (0, FEW)
    command = [sys.executable, "-c", CHILD, HELPERS, first, last, SECONDS]
    done = subprocess.run(
        [str(one) for one in command], capture_output=True, text=True, check=False, timeout=3600
    )
    lines = done.stdout.splitlines()
    assert done.returncode == 0, (done.returncode, lines[-1:], done.stderr[-3000:])
    assert lines[-1] == "END"
    for call, answer in zip(lines[:-1:2], lines[1:-1:2], strict=True):
        said, megabytes = json.loads(answer)
        assert is_sentence(said), (call, said)
        assert megabytes < LARGE, (call, megabytes)
    assert len(lines) > 2 * 20 * (last - first)


class Measured:
    """The memory of a server process."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.folder = Path(f"/proc/{connection.info.backend_pid}")

    def begin(self) -> None:
        (self.folder / "clear_refs").write_text("5")
        self.before = self.of("VmRSS")

    def of(self, what: str) -> float:
        lines = (self.folder / "status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith(what)).split()[1]) / 1000

    def taken(self) -> float:
        """MB since it began, at most."""
        return self.of("VmHWM") - self.before


@pytest.fixture
def session(cluster: Any, database: str) -> Iterator[psycopg.Connection[Any]]:
    with cluster.connect(database) as connection:
        yield connection


def test_in_postgres(session: psycopg.Connection[Any]) -> None:
    first, last = (FEW, MANY) if "TUSKML_EXAMPLES" in os.environ else (0, FEW)

    def execute(sql: str) -> list[Any]:
        found = session.execute(sql)
        return found.fetchall() if found.description else []

    forger = forging.Forger(execute, "post")
    session.execute(f"SET statement_timeout = '{SECONDS}s'")
    measured = Measured(session)
    count = 0
    for number in range(first, last):
        for sql in forger.calls(forger.forged(number)):
            measured.begin()
            sqlstate, said = "", ""
            try:
                session.execute(sql).fetchall()
            except psycopg.Error as error:
                sqlstate, said = str(error.sqlstate), str(error)
            assert is_sentence(said), (number, sql[:40], said)
            assert sqlstate not in ("None", "XX000", "38000"), (number, sql[:40], said)
            assert measured.taken() < LARGE, (number, sql[:40])
            count += 1
    assert count > 20 * (last - first)
