"""Ctrl-C and cancel end a training soon, free its memory, and the next statement works.

Bounds here are generous, so that a loaded machine does not fail them; the promise is 200 ms.
"""

# ruff: noqa: E501, SQL is read better on one line

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import duckdb
import pytest
from tried import Tally

import tuskml

pytestmark = pytest.mark.fault(family="cancels")

SOON = 20.0
"""A guard against hanging, wide enough for a machine that does other work: nothing here ends by itself."""
AGAIN = 4.0
"""After how long something is done again that was in vain."""
ENDLESS = '{"algorithm": "%s", "max_iter": 1000000000, "epsilon": 0, "time": "25s"}'
"""Endless for a test, which fails when the time is over, and does not wait for ever."""

TABLE = """CREATE TABLE t AS SELECT i % {groups} AS g, (i * 7919) % 1000 < 400 AS y,
           [(i * 31) % 97, (i * 17) % 89, i % 83]::FLOAT[] AS x FROM range({rows}) r(i)"""

CHILD = """
import gc, json, os, signal, sys, threading, time
import duckdb, psutil, tuskml
make, sql, after = json.loads(sys.argv[1])
con = tuskml.connect(threads=2)
con.execute("SET enable_progress_bar = false")
con.execute(make)
con.execute("SELECT train_model('logistic', y, x).n_rows FROM t").fetchall()
sent = []
def press():
    time.sleep(after)
    sent.append(time.monotonic())
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=press, daemon=True).start()
raised, done = [], None
try:
    try:
        con.execute(sql).fetchall()
        print("not interrupted"); sys.exit(3)
    except BaseException as error:
        done = time.monotonic()
        raised.append(error)
        time.sleep(0.1)  # a Ctrl-C that is still on its way arrives here
except KeyboardInterrupt as error:
    done = done or time.monotonic()
    raised.append(error)
kind, text = ", ".join(type(e).__name__ for e in raised), " ".join(map(str, raised))
rows = con.execute("SELECT train_model('logistic', y, x).n_rows, count(*) FROM t").fetchall()
gc.collect()
use = con.execute("SELECT tuskml_memory()").fetchall()[0][0]
print(json.dumps({"kind": kind, "text": text, "seconds": done - sent[0], "works": rows[0][0] == rows[0][1],
                  "after": use, "handler": signal.getsignal(signal.SIGINT) is signal.default_int_handler}))
"""


def press_ctrl_c(
    sql: str, rows: int = 200_000, groups: int = 7, after: float = 0.4, prepare: str = ""
) -> dict:
    """Runs the statement in a child, which sends itself SIGINT, and tells what came of it."""
    request = json.dumps([TABLE.format(rows=rows, groups=groups), sql, after])
    done = subprocess.run(
        [sys.executable, "-c", CHILD.replace("con = ", f"{prepare}\ncon = ", 1), request],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def train(algorithm: str, task: str = "logistic") -> str:
    return f"train_model('{task}', y, x, '{ENDLESS % algorithm}')"


STATEMENTS = {
    name: f"SELECT {train(name)} FROM t"
    for name in (
        "sgd",
        "mgd",
        "hogwild",
        "hogbatch",
        "svrg",
        "bgd",
        "lbfgs",
        "newton",
        "newton_cg",
    )
} | {
    "in groups": f"SELECT g, {train('sgd')} FROM t GROUP BY g",
    "dcd": """SELECT train_model('svm', y, x, '{"algorithm": "dcd", "l2": 1e-7, "epsilon": 0,
              "max_iter": 1000000000, "time": "25s"}') FROM t""",
    "newton in groups": f"SELECT g, {train('newton')} FROM t GROUP BY g",
    "many groups on both threads": f"SELECT hash(x) % 20000 AS h, {train('bgd')} FROM t GROUP BY h",
    "into a table": f"CREATE TABLE m AS SELECT g, {train('sgd')} AS m FROM t GROUP BY g",
    "svm": f"SELECT {train('mgd', 'svm')} FROM t",
    "in a random forest": """SELECT train_model('random_forest', y, x, '{"trees": 100000}') FROM t""",
    "in a tree": """SELECT train_model('gbdt', y, x, '{"trees": 1, "num_leaves": 65536, "min_child_rows": 1}') FROM t""",
    "nets": """SELECT g, train_model('mlp', i, x, '{"max_iter": 1000000}') FROM (SELECT *, y::INT AS i FROM t) GROUP BY g""",
    "in an epoch of a net": """SELECT train_model('mlp', y::INT, x, '{"max_iter": 1, "layers": [2048, 2048, 2048]}') FROM t""",
}


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", STATEMENTS)
def test_ctrl_c(name: str, tally: Tally, record_property) -> None:
    told = press_ctrl_c(STATEMENTS[name])
    record_property("seconds", told["seconds"])
    tally.took(told["seconds"])
    print(f"{name}: {told['seconds'] * 1000:.0f} ms, {told['kind']}")
    assert told["seconds"] < SOON
    assert "KeyboardInterrupt" in told["kind"] or "interrupted" in told["text"].lower()
    assert told["works"]
    assert told["handler"], "Python's own handler is back"
    assert told["after"]["resident"] == 0
    assert told["after"]["spilled"] == 0


OWN = """
import numpy as np
tuskml.register_task("own", loss=lambda m, y: np.logaddexp(0, -y * m), labels="classes",
                     derivative=lambda m, y: -y / (1 + np.exp(y * m)))
def drawn(setting):
    return lambda problem, state: problem.take(setting.random.integers(0, 999, (problem.n_groups, 512)))
tuskml.register_operator("sample", "drawn", drawn)
"""


@pytest.mark.nightly
@pytest.mark.sample(1)
@pytest.mark.parametrize("algorithm", ["bgd", 'mgd", "sampler": "drawn'])
@pytest.mark.parametrize("group_by", ["", "GROUP BY g"])
def test_ctrl_c_in_code_of_the_user_s_own(algorithm: str, group_by: str, tally: Tally) -> None:
    sql = f"SELECT {train(algorithm, 'own')} FROM t {group_by}"
    told = press_ctrl_c(sql, prepare=OWN)
    tally.took(told["seconds"])
    assert told["seconds"] < SOON
    assert "KeyboardInterrupt" in told["kind"] or "interrupted" in told["text"].lower()
    assert told["works"]
    assert told["after"]["resident"] == 0


BETWEEN = """
import os, signal, time
import duckdb, tuskml
from tuskml.groups.contract import trainer
from tuskml.kernels.passes import cancel_count
answer, counts = trainer.answer, []

def pressed(*given):
    counts.append(cancel_count())
    try:
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(1000):  # another thread may get the signal
            if cancel_count() > counts[0]:
                break
            time.sleep(0.01)
    finally:
        counts.append(cancel_count())
        answer(*given)

con = tuskml.connect(threads=2)
trainer.answer = pressed
try:
    try:
        con.execute("SELECT train_model('linear', i, [i]).n_rows FROM range(9) t(i)").fetchall()
    except (duckdb.Error, RuntimeError) as error:
        print(error)
    time.sleep(0.1)  # Python may raise the interrupt that it has noted once the statement is over
except KeyboardInterrupt:
    pass
trainer.answer = answer
print(counts[1] - counts[0])
print(con.execute("SELECT train_model('linear', i, [i]).n_rows FROM range(9) t(i)").fetchall())
"""


@pytest.mark.nightly
def test_ctrl_c_before_a_training_listens() -> None:
    """Rows are packed, and Python has not yet begun: the thread that trains may not be the one
    that hears of signals."""
    done = subprocess.run(
        [sys.executable, "-c", BETWEEN], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-2:] == ["1", "[(9,)]"]


@pytest.mark.nightly
def test_ctrl_c_gives_the_memory_back() -> None:
    told = press_ctrl_c(STATEMENTS["sgd"], rows=1_800_000, after=1.0)
    assert told["after"]["peak"] > 32 << 20
    assert told["after"]["resident"] == 0


PACKING = "SELECT {g} AS g, train_model('linear', i, [i, sqrt(i), sin(i), cos(i), ln(i + 1)]) FROM range(30000000) r(i) GROUP BY {g}"


@pytest.mark.nightly
@pytest.mark.sample(1)
@pytest.mark.parametrize("group", ["1", "i % 100000", "i // 10"])
def test_ctrl_c_while_rows_are_packed(group: str, tally: Tally) -> None:
    """The packer itself listens: DuckDB can leave a scan on one thread to run to its end."""
    told = press_ctrl_c(PACKING.format(g=group if group != "1" else "i < 0"), after=0.7)
    tally.took(told["seconds"])
    print(f"packing: {told['seconds'] * 1000:.0f} ms, {told['kind']}")
    assert told["seconds"] < SOON
    assert "KeyboardInterrupt" in told["kind"] or "interrupted" in told["text"].lower()
    assert told["works"]
    assert told["handler"], "Python's own handler is back"
    assert told["after"]["resident"] == 0


@pytest.fixture
def table(con: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    con.execute(TABLE.format(rows=200_000, groups=7))
    return con


def resident(con: duckdb.DuckDBPyConnection) -> int:
    return con.execute("SELECT tuskml_memory().resident").fetchall()[0][0]


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", ["sgd", "hogwild", "newton", "in groups", "into a table"])
def test_cancel_from_another_thread(
    table: duckdb.DuckDBPyConnection, name: str, tally: Tally
) -> None:
    called = []
    over = threading.Event()

    def cancel() -> None:
        wait = 0.3
        while not over.wait(wait):  # again when it was in vain: the training has no other end
            called.append(time.monotonic())
            tuskml.cancel()
            wait = AGAIN

    thread = threading.Thread(target=cancel)
    thread.start()
    try:
        with pytest.raises(duckdb.Error, match="the training was interrupted"):
            table.execute(STATEMENTS[name]).fetchall()
        seconds = time.monotonic() - called[0]
    finally:
        over.set()
        thread.join()
    tally.took(seconds)
    print(f"cancel {name}: {seconds * 1000:.0f} ms")
    assert seconds < SOON
    found = table.execute("SELECT train_model('logistic', y, x).n_rows FROM t").fetchall()
    assert found == [(200_000,)]
    assert resident(table) == 0


def test_cancel_without_a_training_stops_none(table: duckdb.DuckDBPyConnection) -> None:
    tuskml.cancel()
    assert table.execute("SELECT train_model('logistic', y, x).n_rows FROM t").fetchall() == [
        (200_000,)
    ]


def again_and_again(call: Callable[[], None], over: threading.Event) -> threading.Thread:
    """Calls it until it is over: one that came before the statement had begun was in vain."""

    def work() -> None:
        while not over.wait(0.3):
            call()

    thread = threading.Thread(target=work)
    thread.start()
    return thread


@pytest.mark.parametrize("which", ["interrupt", "cancel"])
def test_cancel_while_rows_are_packed(table: duckdb.DuckDBPyConnection, which: str) -> None:
    """By DuckDB's own flag, which it looks at between chunks of rows, or by tuskml's."""
    over = threading.Event()
    thread = again_and_again(table.interrupt if which == "interrupt" else tuskml.cancel, over)
    try:
        with pytest.raises(duckdb.Error, match=r"(?i)interrupt"):
            table.execute(PACKING.format(g="i < 0")).fetchall()
    finally:
        over.set()
        thread.join()
    assert table.execute("SELECT train_model('logistic', y, x).n_rows FROM t").fetchall() == [
        (200_000,)
    ]


@pytest.mark.fault(family="concurrency")
def test_trainings_side_by_side(table: duckdb.DuckDBPyConnection) -> None:
    """Cancel ends every training of the process, in whatever connection."""
    errors: list[str] = []

    def work() -> None:
        with table.cursor() as cursor:
            try:
                cursor.execute(STATEMENTS["sgd"]).fetchall()
            except duckdb.Error as error:
                errors.append(str(error))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=0.5)
        while thread.is_alive():  # again where one began after the first cancel
            tuskml.cancel()
            thread.join(timeout=AGAIN)
    assert ["interrupted" in error for error in errors] == [True] * 3


def test_time_limit(table: duckdb.DuckDBPyConnection) -> None:
    options = '{"algorithm": "sgd", "max_iter": 1000000000, "epsilon": 0, "time": "0.3s"}'
    began = time.monotonic()
    watchdog = threading.Timer(30, tuskml.cancel)
    watchdog.start()
    try:
        sql = "SELECT train_model('logistic', y, x, ?) FROM t"
        model = table.execute(sql, [options]).fetchall()[0][0]
    finally:
        watchdog.cancel()
    assert time.monotonic() - began < 0.3 + SOON
    assert model["status"] == "time limit"
    assert model["iterations"] > 0


TERMINATED = """
import sys, tuskml
con = tuskml.connect(threads=2)
con.execute("SET enable_progress_bar = false")
con.execute(sys.argv[1])
print("ready", flush=True)
con.execute(sys.argv[2]).fetchall()
"""


@pytest.mark.sample(1)
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
@pytest.mark.fault(family="kills and power loss")
def test_the_process_can_be_ended(started, how: signal.Signals) -> None:
    command = [
        sys.executable,
        "-c",
        TERMINATED,
        TABLE.format(rows=100_000, groups=7),
        STATEMENTS["in groups"],
    ]
    with started(command) as child:
        assert child.stdout.readline() == "ready\n"
        time.sleep(0.3)
        os.kill(child.pid, how)
        assert child.wait(timeout=60) == -how
