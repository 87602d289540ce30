"""A process that was forked after tuskml was used: it works, or says why not; it never hangs.

In processes of their own, each with an alarm.
"""

# ruff: noqa: E501, SQL is read better on one line

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.fault(family="concurrency")

PARENT = """
import os, signal, sys, threading
import duckdb, tuskml
from tuskml import Model

STORED = "SELECT train_model('linear', i, sparse([i % 3], [1.0]), '{{\\"store\\": \\"{name}\\", \\"max_iter\\": 2}}').n_rows FROM range(90) t(i)"
PLAIN = "SELECT train_model('logistic', (i * 7919) % 1000 < 400, [i % 97, i % 83]).n_rows FROM range(200000) t(i)"

def said(con, sql):
    try:
        return con.execute(sql).fetchall()
    except duckdb.Error as error:
        return str(error)

def forked(work):
    pid = os.fork()
    if not pid:
        signal.alarm(120)
        try:
            work()
        except BaseException as error:
            print("FAILED", type(error).__name__, error, flush=True)
            os._exit(1)
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0

con = tuskml.connect(threads=2, store_root=sys.argv[1])
con.execute("SET enable_progress_bar = false")
"""
STORED = """
assert said(con, STORED.format(name="before")) == [(90,)]
def work():
    new = tuskml.connect(threads=2, store_root=sys.argv[1])
    told = said(new, STORED.format(name="after"))
    assert "forked" in told and "spawn" in told and "internal" not in told, told
    assert said(new, PLAIN) == [(200000,)]
    assert new.execute("SELECT predict(m, sparse([1], [1.0])) IS NOT NULL FROM (SELECT train_model('linear', i, sparse([i % 3], [1.0])) m FROM range(9) t(i))").fetchall() == [(True,)]
forked(work)
assert said(con, STORED.format(name="again")) == [(90,)]
"""
FRESH = """
def work():
    new = tuskml.connect(threads=2, store_root=sys.argv[1])
    assert said(new, STORED.format(name="mine")) == [(90,)]
forked(work)
assert said(con, STORED.format(name="parents")) == [(90,)]
"""
POOL = """
assert said(con, PLAIN) == [(200000,)]
def work():
    new = tuskml.connect(threads=2)
    assert said(new, PLAIN) == [(200000,)]
    forked(lambda: None)
forked(work)
assert said(con, PLAIN) == [(200000,)]
"""
INHERITED = """
con.execute("SET threads = 1")
assert said(con, PLAIN.replace("200000", "900")) == [(900,)]
def work():
    told = said(con, PLAIN.replace("200000", "900"))
    assert "forked" in told and "connect in it again" in told, told
    told = said(con, "SELECT partition_model([i]) FROM range(9) t(i)")
    assert "forked" in told, told
forked(work)
"""
BUSY = """
threads = [threading.Thread(target=lambda: said(con.cursor(), PLAIN)) for _ in range(2)]
threads += [threading.Thread(target=lambda: [tuskml.connect().close() for _ in range(3)])]
for thread in threads:
    thread.start()
def work():
    new = tuskml.connect(threads=2)
    assert said(new, PLAIN) == [(200000,)]
for _ in range(4):
    forked(work)
for thread in threads:
    thread.join()
"""
HELD = """
import time
from tuskml.databases import interrupts
from tuskml.groups import records

def hold(lock, held):
    with lock:
        held.set()
        time.sleep(0.5)

def work():
    new = tuskml.connect(threads=2)
    assert said(new, PLAIN) == [(200000,)]

for lock in (records._lock, interrupts._lock):
    held = threading.Event()
    holder = threading.Thread(target=hold, args=(lock, held))
    holder.start()
    held.wait()
    forked(work)
    holder.join()
"""


def run(*command: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", *map(str, command)],
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "what",
    [
        pytest.param(POOL, id="threads"),
        pytest.param(INHERITED, id="inherited"),
        pytest.param(STORED, id="a store", marks=pytest.mark.nightly),
        pytest.param(FRESH, id="nothing", marks=pytest.mark.nightly),
        pytest.param(BUSY, id="busy", marks=pytest.mark.nightly),
        pytest.param(HELD, id="held locks", marks=pytest.mark.nightly),
    ],
)
def test_fork(what: str, tmp_path: Path) -> None:
    done = run(PARENT + what, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "FAILED" not in done.stdout


SUB = """
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
code = '''
try:
    import tuskml
except Exception as error:
    with open(PATH, "w") as file:
        file.write(f"{type(error).__name__}: {error}")
'''
import sys
number = interpreters.create()
interpreters.run_string(number, code.replace("PATH", repr(sys.argv[1])))
import tuskml
assert tuskml.connect().execute("SELECT train_model('linear', i, [i]).n_rows FROM range(9) t(i)").fetchall() == [(9,)]
"""


def test_subinterpreters_are_refused(tmp_path: Path) -> None:
    said = tmp_path / "said"
    done = run(SUB, said)
    assert done.returncode == 0, done.stdout + done.stderr
    assert said.read_text().startswith(
        "ExtensionError: tuskml cannot be used in a subinterpreter: import it in the main interpreter"
    )
