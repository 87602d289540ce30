"""Thousands of small queries, good, failing and cancelled, leave memory, files and threads as they were."""

# ruff: noqa: E501, SQL is read better on one line

import json
import subprocess
import sys

import pytest
from tried import Tally

pytestmark = pytest.mark.fault(family="leaks")

CHILD = """
import gc, json, os, sys, threading, time
import duckdb, psutil, tuskml
queries, warm = int(sys.argv[1]), int(sys.argv[2])
con = tuskml.connect(threads=2)
con.execute("SET enable_progress_bar = false")
con.execute("CREATE TABLE t AS SELECT i % 4 AS g, (i * 7919) % 10 < 4 AS y, [i % 7, i % 5]::DOUBLE[] AS x, [i % 9, 11] AS ids FROM range(400) r(i)")
big = "SELECT train_model('logistic', y, x, '{\\"algorithm\\": \\"sgd\\", \\"max_iter\\": 1000000000, \\"epsilon\\": 0, \\"time\\": \\"1s\\"}') FROM t"  # a loaded machine may cancel too early
GOOD = [
    "SELECT train_model('linear', y::INT, x) FROM t",
    "SELECT g, train_model('logistic', y, x) FROM t GROUP BY g",
    "SELECT train_model('svm', y, x, '{\\"algorithm\\": \\"mgd\\", \\"max_iter\\": 2}') FROM t",
    "SELECT train_model('logistic', y, x, '{\\"deterministic\\": true, \\"l2\\": 1}') FROM t",
    "SELECT train_model('linear', g, sparse(ids, x)) FROM t",
    "SELECT avg(predict_proba(m, x)) FROM t, (SELECT train_model('logistic', y, x, '{\\"validation\\": 0.2}') AS m FROM t)",
    "SELECT explain_training('svm', y, x), feature_frequencies(ids), partition_model(ids) FROM t",
    "SELECT auc(y, x[1]), log_loss(y, 0.5), roc_curve(y, x[1]), precision_recall_curve(y, x[1], 0.5), confusion(g, x[1]), f1_score(g, x[1], 'macro') FROM t",
    "FROM model_summary((SELECT train_model('linear', g, x) FROM t))",
    "SELECT sum(len((hash_features(['a', 'g' || g], 8)).indices)) FROM t",
]
BAD = [
    "SELECT train_model('liner', y::INT, x) FROM t",
    "SELECT train_model('linear', y::INT, x, '{\\"l2\\": -1}') FROM t",
    "SELECT g, train_model('logistic', g, x) FROM t GROUP BY g % 1, g // 9, 1 HAVING true",
    "SELECT train_model('logistic', g, x) FROM t",
    "SELECT train_model('linear', g, CASE WHEN ids[1] = 8 THEN ['nan'::DOUBLE] ELSE x END) FROM t",
    "SELECT predict((SELECT train_model('linear', g, x) FROM t), [1.0])",
]
process = psutil.Process()
def look():
    gc.collect()
    return {"rss": process.memory_info().rss, "files": process.num_fds(), "threads": process.num_threads(),
            "memory": con.execute("SELECT tuskml_memory()").fetchall()[0][0]}
failed = 0
def one(i):
    global failed
    kind = i % 16
    if kind < 10:
        sql = GOOD[kind]
    elif i % 400 == 15:
        threading.Timer(0.01, tuskml.cancel).start()
        sql = big
    else:
        sql = BAD[(kind - 10) % len(BAD)]
    if kind == 9:
        con.execute("SELECT tuskml_set_memory(?, '')", [0 if i % 32 == 9 else 2**40]).fetchall()
    try:
        con.execute(sql).fetchall()
    except duckdb.Error:
        failed += 1
for i in range(warm):
    one(i)
before = look()
for i in range(warm, warm + queries):
    one(i)
print(json.dumps([before, look(), failed]))
"""


def run(queries: int, warm: int) -> tuple[dict, dict, int]:
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(queries), str(warm)],
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    before, after, failed = json.loads(done.stdout.splitlines()[-1])
    print(
        f"{queries} queries: {(after['rss'] - before['rss']) / 1e6:.1f} MB more, {failed} failed as they should"
    )
    return before, after, failed


@pytest.mark.parametrize(
    ("queries", "warm", "bytes_more"),
    [
        (300, 150, 2_000_000),
        pytest.param(10_000, 1_500, 20_000_000, marks=pytest.mark.nightly),
    ],
)
def test_many_queries(queries: int, warm: int, bytes_more: int, tally: Tally) -> None:
    """The few find open files, threads and rows, and what leaks much; the many what leaks little."""
    before, after, failed = run(queries, warm)
    tally.tried = queries
    assert failed > queries // 5
    assert after["rss"] - before["rss"] < bytes_more
    assert after["files"] <= before["files"] + 1
    assert after["threads"] <= before["threads"] + 1
    assert after["memory"]["resident"] == 0
    assert after["memory"]["spilled"] == 0


CONNECTIONS = """
import gc, json, sys, psutil, tuskml
process = psutil.Process()
def look():
    gc.collect()
    return [process.memory_info().rss, process.num_fds(), process.num_threads()]
def one():
    with tuskml.connect(threads=2) as con:
        con.execute("SET enable_progress_bar = false")
        con.execute("SELECT tuskml_set_memory(0, '')").fetchall()
        con.execute("SELECT train_model('linear', i, [i]) FROM range(100) t(i)").fetchall()
for _ in range(int(sys.argv[2])): one()
before = look()
for _ in range(int(sys.argv[1])): one()
print(json.dumps([before, look()]))
"""


@pytest.mark.parametrize(
    ("connections", "warm", "bytes_more"),
    [(8, 8, 1_600_000), pytest.param(200, 40, 20_000_000, marks=pytest.mark.nightly)],
)
def test_connections_close_all_they_opened(
    connections: int, warm: int, bytes_more: int, tally: Tally
) -> None:
    tally.tried = connections
    done = subprocess.run(
        [sys.executable, "-c", CONNECTIONS, str(connections), str(warm)],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    before, after = json.loads(done.stdout)
    print(f"{connections} connections: {(after[0] - before[0]) / 1e6:.1f} MB more")
    assert after[0] - before[0] < bytes_more
    assert after[1] <= before[1] + 1
    assert after[2] <= before[2] + 1
